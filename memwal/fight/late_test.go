//go:build unix

package fight

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/memwal/memwal-go/internal/manifest"
	"github.com/memwal/memwal-go/internal/miniotest"
	"github.com/memwal/memwal-go/internal/wal"
	"github.com/memwal/memwal-go/memwal"
)

// listener collects what one child says.
type listener struct {
	mu     sync.Mutex
	events []event
}

func (l *listener) take(e event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, e)
}

func (l *listener) all() []event {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.events)
}

// count counts the events of a kind.
func (l *listener) count(k kind) (n int) {
	for _, e := range l.all() {
		if e.Kind == k {
			n++
		}
	}
	return n
}

// eventually waits until cond holds, on a machine that may be busy.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !cond(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it never happened that %s", what)
		}
	}
}

// mustKnow fails the test unless every row that the child says was acknowledged is
// among those that its successor found.
func mustKnow(t *testing.T, child []event, found *history) (acknowledged int) {
	t.Helper()
	trial := newTrial(false, child, found)
	for _, e := range child {
		trial.take(e)
	}
	trial.index()
	trial.acknowledged()
	for _, f := range trial.found {
		t.Errorf("%s: %s", f.id, f.text)
	}
	return trial.tally.acked
}

// put puts n rows, each of which is an entry, as many of them at a time as the
// writer may have in flight.
func put(t *testing.T, w *memwal.Writer, process int, n int64) {
	t.Helper()
	var tickets []*memwal.Ticket
	for i := range n {
		rec := batchOf(false, false, int64(process)<<32|i, 1)
		ticket, err := w.PutAsync(t.Context(), rec)
		rec.Release()
		if err != nil {
			t.Fatalf("put of the successor: %v", err)
		}
		tickets = append(tickets, ticket)
	}
	for _, ticket := range tickets {
		if err := ticket.Wait(t.Context()); err != nil {
			t.Fatalf("put of the successor: %v", err)
		}
	}
}

// TestF12_SuspendedWriterCannotAcknowledgeIntoAnEmptiedPosition stops a writer that
// is busy. Meanwhile another one takes over, and all that is in the log, fence
// included, is recycled, as happens once FenceRetention has passed: here it happens
// earlier, since what the writer goes by is only that its last proof is older than
// OwnershipCheckAfter. When it goes on, its puts land where nothing is any more.
func TestF12_SuspendedWriterCannotAcknowledgeIntoAnEmptiedPosition(t *testing.T) {
	onStores(t, func(t *testing.T, url string) {
		a := newArena(t, url, seedOf(t))
		// It may also go on with replies that had come before it was stopped: then it
		// puts nothing more.
		landed, least, most := 0, 3, 20
		if testing.Short() {
			least = 1
		}
		for n := 0; n < most && (n < least || landed == 0) && !t.Failed(); n++ {
			landed += suspend(t, a)
		}
		if landed == 0 && !t.Failed() {
			t.Error("no put landed in an emptied position")
		}
	})
}

// suspend is one trial. It returns how many puts landed in emptied positions.
func suspend(t *testing.T, a *arena) (landed int) {
	shard := uuid.New()
	var said listener
	j := a.job(roleSteady, shard, calm())
	if canProxy(a.url) { // which passes on whole requests only
		_, j.URL = throughProxy(t, a.url, a.seed)
	}
	p := spawn(t, j, said.take)
	eventually(t, "the child had rows acknowledged", func() bool { return said.count(acked) > 20 })
	if !p.halt() {
		t.Fatalf("the child is gone; its output:\n%s", p.output())
	}
	began := time.Now()

	successor := a.job(roleWriter, shard, calm())
	w, err := memwal.Open(t.Context(), a.store, shard, schema, successor.writerOptions(successor.Process*1000, 4))
	if err != nil {
		t.Fatal(err)
	}
	found, err := readHistory(t.Context(), a.store, shard, false)
	if err != nil {
		t.Fatal(err)
	}
	put(t, w, successor.Process, 40) // further than a window reaches
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	emptied := recycle(t, a, shard)
	time.Sleep(checkAfter + 300*time.Millisecond - time.Since(began))
	before := said.count(acked)
	p.resume()
	eventually(t, "the writer that was suspended failed, or went on", func() bool {
		return said.count(ended) > 0 || said.count(acked) > before+50
	})
	if err := p.finish(); err != nil {
		t.Error(err)
	}
	if said.count(fenced) == 0 {
		t.Error("the writer that was suspended does not say that it was fenced")
	}
	for _, e := range said.all() {
		if e.Kind == violation {
			t.Errorf("%s: %s", e.ID, e.Text)
		}
	}
	acknowledged := mustKnow(t, said.all(), found)

	for pos := uint64(1); pos <= emptied; pos++ {
		data, err := a.store.Get(t.Context(), walDir(shard)+wal.Name(pos))
		if err != nil {
			continue
		}
		if h, err := wal.DecodeHeader(data); err == nil && h.Epoch == 1 {
			landed++
		}
	}
	t.Logf("%d rows were acknowledged, stopped for %v, %d puts landed in emptied positions", acknowledged, time.Since(began).Round(time.Millisecond), landed)
	return landed
}

// recycle moves the floor of the rows to the end of the log and deletes everything
// below. It returns the highest position that it has emptied.
func recycle(t *testing.T, a *arena, shard uuid.UUID) uint64 {
	t.Helper()
	log, err := readHistory(t.Context(), a.store, shard, false)
	if err != nil {
		t.Fatal(err)
	}
	versions := manifest.New(a.store, manifestDir(shard), nil)
	_, err = versions.UpdateAny(t.Context(), func(m *manifest.Manifest) error {
		m.SetFloor(manifest.Floor{Plane: manifest.PlaneRows, Kind: manifest.Snapshot, Tuple: log.tail})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for o, err := range a.store.List(t.Context(), walDir(shard)) {
		if err == nil {
			if pos, ok := wal.ParseName(strings.TrimPrefix(o.Key, walDir(shard))); ok && pos <= log.tail.Position {
				err = a.store.Delete(t.Context(), o.Key)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return log.tail.Position
}

// TestS06_PutsOfAKilledProcessLandAfterTheRestart kills a writer whose puts are on
// the wire, opens the shard again, and then lets the puts land.
func TestS06_PutsOfAKilledProcessLandAfterTheRestart(t *testing.T) {
	url := miniotest.StoreURL(t)
	if !canProxy(url) {
		t.Skip("the service is not reached by plain HTTP: what is on the wire cannot be held")
	}
	a := newArena(t, url, seedOf(t))
	shard := uuid.New()
	var said listener
	j := a.job(roleSteady, shard, calm())
	j.Options.RequestTimeout = time.Minute // no retries: what is held is all there is
	way, through := throughProxy(t, url, a.seed)
	j.URL = through
	p := spawn(t, j, said.take)
	eventually(t, "the child had rows acknowledged", func() bool { return said.count(acked) > 20 })
	way.hold()
	eventually(t, "three puts were held", func() bool { return way.held.Load() >= 3 })
	p.kill()
	if !p.killed() {
		t.Fatalf("the child ended with %s; its output:\n%s", describe(p.status), p.output())
	}

	successor := a.job(roleWriter, shard, calm())
	options := successor.writerOptions(successor.Process*1000, 4)
	w, err := memwal.Open(t.Context(), a.store, shard, schema, options)
	if err != nil {
		t.Fatal(err)
	}
	found, err := readHistory(t.Context(), a.store, shard, false)
	if err != nil {
		t.Fatal(err)
	}
	way.release()
	eventually(t, "a put of the dead landed above the fence", func() bool {
		for o, err := range a.store.List(t.Context(), walDir(shard)) {
			if err != nil {
				t.Fatal(err)
			}
			pos, ok := wal.ParseName(strings.TrimPrefix(o.Key, walDir(shard)))
			if ok && pos > found.tail.Position {
				return true
			}
		}
		return false
	})
	put(t, w, successor.Process, 20)
	if n := w.Stats().WAL.Reissued; n == 0 {
		t.Error("the successor has met none of the late puts")
	}
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	acknowledged := mustKnow(t, said.all(), found)

	w, err = memwal.Open(t.Context(), a.store, shard, schema, options)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	log, err := readHistory(t.Context(), a.store, shard, false)
	if err != nil {
		t.Fatal(err)
	}
	var want digest
	for at, r := range found.rows {
		want.add(uint64(at), r.n)
	}
	for i := range int64(20) {
		want.add(uint64(len(found.rows))+uint64(i), int64(successor.Process)<<32|i)
	}
	if got := log.prefixes(false)[len(log.rows)]; got != want {
		t.Errorf("the log has %d rows, %d were found by the successor, which has put 20", got.rows, len(found.rows))
	}
	s, err := w.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if got, err := digestOf(t.Context(), false, s); err != nil || got != want {
		t.Errorf("the shard shows %d rows (%v), %d were found by the successor, which has put 20", got.rows, err, len(found.rows))
	}
	t.Logf("%d rows were acknowledged; %d dead objects above the fence", acknowledged, len(log.dead))
	if len(log.dead) == 0 {
		t.Error("no late put is in the log")
	}
}
