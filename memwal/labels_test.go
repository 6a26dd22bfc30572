package memwal

import (
	"bytes"
	"fmt"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/memwal/memwal-go/objstore"
)

// labelled tells whether a goroutine of the shard runs under the task's label.
func labelled(t *testing.T, task string, shard uuid.UUID) bool {
	t.Helper()
	var profile bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&profile, 1); err != nil {
		t.Fatal(err)
	}
	return strings.Contains(profile.String(), fmt.Sprintf(`{"memwal.shard":%q, "memwal.task":%q}`, shard, task))
}

// TestProfilesTellTheTasksApart looks at a profile of a writer with a put and
// an ownership check in flight.
func TestProfilesTellTheTasksApart(t *testing.T) {
	// A shard that no other test has goroutines of.
	shard := uuid.New()
	store := newTestStore()
	o := keyedOptions()
	o.MaxMemtableAge = time.Hour
	// With a proof that is older than this every put is checked.
	o.OwnershipCheckAfter = time.Second
	w, err := Open(t.Context(), store, shard, testSchema, o)
	if err != nil {
		t.Fatal(err)
	}
	tasks := []string{"wal-flusher", "wal-append", "wal-ownership-check", "index-applier", "memtable-aging"}
	all := func(want bool) (wrong []string) {
		for _, task := range tasks {
			if labelled(t, task, shard) != want {
				wrong = append(wrong, task)
			}
		}
		return wrong
	}
	checks, releaseChecks := hold()
	store.on(objstore.OpList, "/manifest/", always, checks)
	time.Sleep(1100 * time.Millisecond)
	mustPutAsync(t, w, seq(t, 0, 1)) // lands, and is checked
	deadline := time.Now().Add(20 * time.Second)
	for !labelled(t, "wal-ownership-check", shard) && time.Now().Before(deadline) {
		time.Sleep(time.Millisecond)
	}
	puts, releasePuts := hold()
	store.on(objstore.OpPutIfAbsent, walPart, always, puts)
	mustPutAsync(t, w, seq(t, 1, 1))
	for len(all(true)) > 0 && time.Now().Before(deadline) {
		time.Sleep(time.Millisecond)
	}
	if missing := all(true); len(missing) > 0 {
		t.Errorf("no goroutine has the label of %v", missing)
	}
	releaseChecks()
	releasePuts()
	mustClose(t, w)
	if left := all(false); len(left) > 0 {
		t.Errorf("after Close there are still goroutines of %v", left)
	}
}
