package memwal

import (
	"cmp"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anishathalye/porcupine"
)

// These tests let clients of one shard loose on it, each in a goroutine of its own,
// beside writers that crash, are closed, and take the shard over from each other,
// over stores that lose replies, fail, dawdle, and apply puts of the dead late. What
// every call returned, and when, is compared with the models in
// linearizability_model_test.go by porcupine: is there one order of the calls, each
// somewhere between its start and its return, in which all answers are right?
//
// A seed gives what each client does and what goes wrong, not in which order the
// goroutines run: to see a failure again, give -memwal.seed and -count.

// gentle is what the others are made from.
func gentle() linMix {
	return linMix{
		clients: 5, readers: 1, keepers: 1, steps: 24, lives: 3, life: 50,
		lost: 0.1, failed: 0.1, ambiguous: 0.05, slow: 0.05, attempts: 8,
		cancel: 0.1, cutOff: 0.1, keep: 2, unit: 10 * time.Millisecond,
	}
}

// TestV20_ConcurrentClientsAreLinearizable mixes everything, with two who open
// writers against each other.
func TestV20_ConcurrentClientsAreLinearizable(t *testing.T) {
	mix := gentle()
	mix.clients, mix.readers, mix.keepers, mix.indexed = 6, 2, 2, 0.2
	seen := linearizable(t, 80, mix)
	seen.need(t, map[string]int{
		"calls that overlap":           seen.overlapped - seen.ops/2,
		"three calls at once":          seen.widest - 2,
		"acknowledged puts":            seen.acked,
		"unanswered puts in the log":   seen.found,
		"unanswered puts that are not": seen.gone,
		"crashes":                      seen.crashes,
		"closes":                       seen.closes,
		"takeovers":                    seen.takeovers,
		"fenced calls":                 seen.fenced,
		"recovered rows":               seen.recovered,
		"deleted keys":                 seen.deleted,
		"refused puts":                 seen.refused,
	})
}

// TestV10_LostRepliesAreLinearizable: an entry whose reply is lost is in the log
// once.
func TestV10_LostRepliesAreLinearizable(t *testing.T) {
	mix := gentle()
	mix.lost, mix.failed, mix.attempts, mix.cancel = 0.5, 0, 12, 0
	seen := linearizable(t, 30, mix)
	seen.need(t, map[string]int{"lost replies": seen.lostReplies - seen.histories, "acknowledged puts": seen.acked, "recovered rows": seen.recovered})
}

// TestV19_CancelledCallsAreLinearizable: who gives up waiting for a put finds its
// rows later, once, or not at all and then never.
func TestV19_CancelledCallsAreLinearizable(t *testing.T) {
	mix := gentle()
	mix.cancel = 0.6
	seen := linearizable(t, 30, mix)
	seen.need(t, map[string]int{"cancelled calls": seen.cancelled - seen.histories, "waits after one": seen.again, "unanswered puts in the log": seen.found})
}

// TestV09_FailedWritersAreLinearizable: writers fail with puts on their way, and
// all who wait for these learn why, at once.
func TestV09_FailedWritersAreLinearizable(t *testing.T) {
	mix := gentle()
	mix.failed, mix.ambiguous, mix.attempts, mix.keepers, mix.lives, mix.cancel = 0.3, 0.2, 3, 2, 4, 0
	seen := linearizable(t, 30, mix)
	seen.need(t, map[string]int{
		"failures other than a fence": seen.poisoned, "fenced calls": seen.fenced,
		"unanswered puts in the log": seen.found, "unanswered puts that are not": seen.gone,
	})
}

// TestR13_CrashedOpensAreLinearizable: opens that are cut off at any moment, and
// opens right after them, change nothing.
func TestR13_CrashedOpensAreLinearizable(t *testing.T) {
	mix := gentle()
	mix.cutOff, mix.lives, mix.clients, mix.lost = 0.7, 6, 4, 0.2
	seen := linearizable(t, 30, mix)
	seen.need(t, map[string]int{"opens cut off": seen.cutOff - 3*seen.histories, "recovered rows": seen.recovered, "crashes": seen.crashes})
}

// TestQ07_KeptSnapshotsAreLinearizable: snapshots show the same while memtables
// rotate, and after their writer has ended.
func TestQ07_KeptSnapshotsAreLinearizable(t *testing.T) {
	mix := gentle()
	mix.keep = 6
	seen := linearizable(t, 30, mix)
	seen.need(t, map[string]int{"second looks": seen.lookedAgain - seen.histories, "snapshots that outlived their writer": seen.outlived})
}

// TestV07_IndexedVisibilityIsLinearizable: with VisibleIndexed rows are visible
// when the put returns. A crash takes back a tail of them, never what Flush or an
// outside reader has told.
func TestV07_IndexedVisibilityIsLinearizable(t *testing.T) {
	mix := gentle()
	mix.indexed, mix.readers = 0.9, 2
	seen := linearizable(t, 40, mix)
	seen.need(t, map[string]int{"rows shown and taken back": seen.undone, "recovered rows": seen.recovered, "crashes": seen.crashes, "takeovers": seen.takeovers})
}

// TestLinearizableInRealTime does without a bubble: its clients wait for a real
// clock.
func TestLinearizableInRealTime(t *testing.T) {
	mix := gentle()
	mix.clients, mix.keepers, mix.readers, mix.unit, mix.real = 8, 2, 2, time.Millisecond, true
	w := newLinWorld(t, max(1, *modelSeed), mix)
	w.run(w.client)
	w.check(t, "log", linLogModel(w.keyed), w.ops)
	w.seen.need(t, map[string]int{"calls that overlap": w.seen.overlapped - w.seen.ops/2, "acknowledged puts": w.seen.acked, "opens": w.seen.opens - 2})
}

// TestLinearizableKeys compares longer histories, of Put, Delete and Lookup, with
// a register for each key.
func TestLinearizableKeys(t *testing.T) {
	mix := gentle()
	mix.clients, mix.readers, mix.keepers, mix.lives, mix.steps = 8, 2, 2, 5, 80
	var seen linSeen
	linSeeds(t, 8, func(t *testing.T, seed uint64) {
		var w *linWorld
		synctest.Test(t, func(t *testing.T) {
			w = newLinWorld(t, seed, mix)
			w.keyed, w.base.PrimaryKey = true, []string{"id"}
			w.run(w.keyClient)
		})
		own, outside := w.accesses(t)
		w.check(t, "keys", linKeyModel(), own)
		w.check(t, "keys-of-readers", linKeyModel(), outside)
		seen.add(w.seen)
	})
	seen.need(t, map[string]int{
		"several hundred calls": seen.ops - 300*seen.histories, "calls that overlap": seen.overlapped - seen.ops/2,
		"takeovers": seen.takeovers, "crashes": seen.crashes, "fenced calls": seen.fenced, "deleted keys": seen.deleted,
	})
}

// linearizable records n histories and compares them with the log model.
func linearizable(t *testing.T, n int, mix linMix) *linSeen {
	t.Helper()
	var seen linSeen
	linSeeds(t, n, func(t *testing.T, seed uint64) {
		var w *linWorld
		synctest.Test(t, func(t *testing.T) {
			w = newLinWorld(t, seed, mix)
			w.run(w.client)
		})
		w.check(t, "log", linLogModel(w.keyed), w.ops)
		seen.add(w.seen)
	})
	return &seen
}

// linHistories makes the tests longer: go test -run Linearizab ./memwal -memwal.histories=1000
var linHistories = flag.Int("memwal.histories", 0, "histories of each linearizability test; 0: as many as it says")

// linSeeds runs f with n seeds, a quarter of that with -short, or as the flags say.
func linSeeds(t *testing.T, n int, f func(t *testing.T, seed uint64)) {
	t.Helper()
	if testing.Short() {
		n /= 4
	}
	if *linHistories > 0 {
		n = *linHistories
	}
	for i := range uint64(n) {
		seed := i + 1
		if *modelSeed != 0 {
			seed = *modelSeed
		}
		if !t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) { f(t, seed) }) {
			t.Fatalf("history %d of %d. The same script, in another order: -memwal.seed=%d -count=100", i+1, n, seed)
		}
		if *modelSeed != 0 {
			return
		}
	}
}

// need fails the test if something of what it is about never happened.
func (s *linSeen) need(t *testing.T, counts map[string]int) {
	t.Helper()
	t.Logf("%+v", *s)
	for what, n := range counts {
		if n <= 0 && *modelSeed == 0 {
			t.Errorf("the histories are too tame: %s: too few", what)
		}
	}
}

// check compares a history with a model, outside of any bubble.
func (w *linWorld) check(t *testing.T, name string, model porcupine.Model, history []porcupine.Operation) {
	t.Helper()
	if t.Failed() {
		return // the history is not whole
	}
	switch porcupine.CheckOperationsTimeout(model, history, time.Minute) {
	case porcupine.Ok:
	case porcupine.Unknown:
		t.Errorf("seed %d, %s: %d calls were not checked within a minute", w.seed, name, len(history))
	case porcupine.Illegal:
		w.report(t, name, model, history)
	}
}

// report says what is wrong with a history, and where the whole of it is.
func (w *linWorld) report(t *testing.T, name string, model porcupine.Model, history []porcupine.Operation) {
	t.Helper()
	// Without -artifacts the testing package would remove it after the test.
	dir := t.ArtifactDir()
	if f := flag.Lookup("test.artifacts"); f == nil || f.Value.String() != "true" {
		var err error
		if dir, err = os.MkdirTemp("", "memwal-linearizability-"); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(dir, name)
	left, err := linDraw(file, model, history)
	t.Errorf("seed %d: no order of these %d calls explains their answers (%s); see %[4]s.html and %[4]s.txt (%[5]v)",
		w.seed, len(history), name, file, err)
	for _, line := range left {
		t.Logf("it has no place: %.300s", line)
	}
}

// linDraw writes porcupine's picture of a history that is wrong to file.html, and
// the history as text to file.txt. It returns some calls that found no place in the
// longest order that porcupine got to, those first that returned first.
func linDraw(file string, model porcupine.Model, history []porcupine.Operation) (left []string, err error) {
	_, info := porcupine.CheckOperationsVerbose(model, history, 10*time.Second)
	if err := porcupine.VisualizePath(model, info, file+".html"); err != nil {
		return nil, err
	}
	ordered := slices.SortedFunc(slices.Values(history), func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	var text strings.Builder
	for _, op := range ordered {
		fmt.Fprintln(&text, describeAt(model, op))
	}
	if err := os.WriteFile(file+".txt", []byte(text.String()), 0o644); err != nil {
		return nil, err
	}
	parts := [][]porcupine.Operation{history}
	if model.Partition != nil {
		parts = model.Partition(history)
	}
	for p, partials := range info.PartialLinearizationsOperations() {
		longest := slices.MaxFunc(append(partials, nil), func(a, b []porcupine.Operation) int { return cmp.Compare(len(a), len(b)) })
		placed := make(map[int64]bool)
		for _, op := range longest {
			placed[op.Call] = true
		}
		rest := slices.DeleteFunc(parts[p], func(op porcupine.Operation) bool { return placed[op.Call] })
		slices.SortFunc(rest, func(a, b porcupine.Operation) int { return cmp.Compare(a.Return, b.Return) })
		for _, op := range rest[:min(5, len(rest))] {
			left = append(left, describeAt(model, op))
		}
	}
	return left, nil
}

// describeAt is a line about a call.
func describeAt(model porcupine.Model, op porcupine.Operation) string {
	return fmt.Sprintf("%d-%d client %d: %s", op.Call, op.Return, op.ClientId, model.DescribeOperation(op.Input, op.Output))
}

// accesses makes histories of the key model: what writers' clients did, and the
// same with what readers saw after a refresh in place of what writers showed. They
// are two, since a reader may be ahead of the writer.
//
// A writer speaks for the shard until the open of the next one returns: by then its
// puts are in the log or never will be, and what it goes on showing is out of date.
func (w *linWorld) accesses(t *testing.T) (own, outside []porcupine.Operation) {
	t.Helper()
	epochs := make(map[int]uint64)
	type opened struct {
		epoch uint64
		at    int64
	}
	var opens []opened
	for _, op := range w.ops {
		if c := op.Input.(linCall); c.kind == linOpen {
			epochs[c.who] = op.Output.(linReply).epoch
			opens = append(opens, opened{epochs[c.who], op.Return})
		}
	}
	until := func(writer int) int64 {
		end := int64(math.MaxInt64)
		for _, o := range opens {
			if o.epoch > epochs[writer] {
				end = min(end, o.at)
			}
		}
		return end
	}
	seen := make(map[int64]bool)
	for _, op := range w.ops {
		if v := op.Output.(linReply).view; v != nil {
			for _, f := range v.found {
				seen[f.n] = true
			}
		}
	}
	for _, x := range w.writes {
		end := until(x.s.number)
		if x.acked && x.call > end {
			t.Errorf("seed %d: a put that began at %d was acknowledged, its writer's successor had opened the shard by %d", w.seed, x.call, end)
		}
		if !x.acked && x.call > end {
			continue // it has no effect: if its rows are seen, nobody has put them
		}
		if !x.acked {
			x.finish = end
		}
		for _, r := range x.rows {
			a := linAccess{key: r.id, write: r.n, unknown: !x.acked}
			switch {
			case r.dead:
				a.write = linDeletedKey
			case a.unknown && !seen[r.n]:
				continue // it had no effect, or one that does not matter
			default:
				a.unknown = false
			}
			op := porcupine.Operation{ClientId: x.client, Input: a, Call: x.call, Output: nil, Return: x.finish}
			own, outside = append(own, op), append(outside, op)
		}
	}
	for _, op := range w.ops {
		c, v := op.Input.(linCall), op.Output.(linReply).view
		read := func(to *[]porcupine.Operation) {
			for key, f := range v.found {
				value := f.n
				switch f.presence {
				case Absent:
					value = linAbsentKey
				case Deleted:
					value = linDeletedKey
				}
				*to = append(*to, porcupine.Operation{ClientId: op.ClientId, Input: linAccess{key: int64(key)}, Call: op.Call, Output: value, Return: op.Return})
			}
		}
		switch {
		case c.kind == linOpen:
			read(&own)
			read(&outside)
		case c.kind == linSnapshot && op.Return < until(c.who):
			read(&own)
		case c.kind == linRefresh:
			read(&outside)
		}
	}
	return own, outside
}
