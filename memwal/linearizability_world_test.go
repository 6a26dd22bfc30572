package memwal

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/memwal/memwal-go/internal/wal"
	"github.com/memwal/memwal-go/objstore"
	"github.com/memwal/memwal-go/objstore/faultstore"
	"github.com/memwal/memwal-go/replay"
)

// linMix says what a history is about.
type linMix struct {
	clients, readers, keepers int
	steps                     int // calls of a client, at most: it stops when the keepers do
	lives                     int // writers that a keeper opens
	life                      int // units of time that it lets one be, at most

	lost, failed, ambiguous, slow float64 // chances of a request that writes
	attempts                      int     // of a request

	cancel  float64 // chance that a client gives up soon
	cutOff  float64 // chance that an open is given up soon
	indexed float64 // chance that a writer is VisibleIndexed
	keep    int     // snapshots that a client keeps, to look again

	unit time.Duration // what a request takes, about
	real bool          // time passes by itself
}

// linSeen counts what histories were about, so that a test can tell whether they
// were about anything.
type linSeen struct {
	histories, ops        int
	overlapped            int // calls that overlapped with another client's
	widest                int // most calls at once
	acked                 int // waits that succeeded
	found, gone           int // puts without an answer whose rows are, or are not, in the log at the end
	opens, recovered      int // opens, and rows that they found
	cutOff                int // opens that failed
	crashes, takeovers    int
	closes                int
	fenced                int // calls that returned ErrFenced
	poisoned              int // calls that returned another terminal failure
	cancelled, again      int // calls whose context ended; waits after one that then succeeded
	refused               int // puts that stored nothing
	deleted               int // lookups that found a deleted key
	lostReplies           int // puts that were applied and whose reply was lost
	lookedAgain, outlived int // looks at kept snapshots; those of them after their writer had ended
	undone                int // rows that VisibleIndexed had shown and a crash took back
}

func (s *linSeen) add(o linSeen) {
	s.histories += o.histories
	s.ops += o.ops
	s.overlapped += o.overlapped
	s.widest = max(s.widest, o.widest)
	s.acked += o.acked
	s.found += o.found
	s.gone += o.gone
	s.opens += o.opens
	s.recovered += o.recovered
	s.cutOff += o.cutOff
	s.crashes += o.crashes
	s.takeovers += o.takeovers
	s.closes += o.closes
	s.fenced += o.fenced
	s.poisoned += o.poisoned
	s.cancelled += o.cancelled
	s.again += o.again
	s.refused += o.refused
	s.deleted += o.deleted
	s.lostReplies += o.lostReplies
	s.lookedAgain += o.lookedAgain
	s.outlived += o.outlived
	s.undone += o.undone
}

// linWorld is one history: a shard, those who open it, and their clients. Each of
// them is a goroutine of its own. What they do follows from the seed, in which order
// it happens does not.
type linWorld struct {
	t     *testing.T
	seed  uint64
	mix   linMix
	keyed bool
	base  Options
	disk  objstore.Store

	// clock orders calls and returns. It is finer than time, which stands still
	// in a bubble while anybody runs.
	clock   atomic.Int64
	current atomic.Pointer[linWriter] // of the highest epoch
	reader  atomic.Pointer[linReader] // the last that was opened
	keeping atomic.Int64              // keepers that are not done

	mu       sync.Mutex
	ops      []porcupine.Operation // of the log model
	writes   []linWrite            // of the key model
	spans    []linSpan             // of all calls
	writers  int                   // opened
	readers  int
	ios      []*faultstore.Store
	all      []*linWriter
	accepted map[int64]*linTicket // by n: the puts that were accepted
	seen     linSeen
}

// linWrite is a Put or Delete whose ordinals nobody asked for.
type linWrite struct {
	client       int
	s            *linWriter
	rows         []linRow
	call, finish int64
	acked        bool // it returned nil; else it is not known what became of it
}

// linSpan is the time of a call.
type linSpan struct {
	client       int
	call, finish int64
}

// linWriter is an opened writer.
type linWriter struct {
	number  int
	w       *Writer
	indexed bool
	epoch   uint64
	ended   atomic.Bool  // a call has returned its terminal failure
	since   atomic.Int64 // when Done was closed, in nanoseconds; 0: not yet

	mu    sync.Mutex
	cause string // of the first failure
	waits []linWoken
}

// linWoken is a wait that the writer's failure ended.
type linWoken struct{ began, ended time.Time }

type linReader struct {
	number int
	r      *Reader
}

type linTicket struct {
	s         *linWriter
	t         *Ticket
	rows      []linRow
	cancelled bool
	acked     bool // guarded by the world's mu
}

type linKept struct {
	snap *Snapshot
	view *linView
	s    *linWriter
}

// patience is how long a call may take at most: longer is a hang.
func (w *linWorld) patience() time.Duration {
	if w.mix.real {
		return time.Minute
	}
	return 24 * time.Hour
}

func newLinWorld(t *testing.T, seed uint64, mix linMix) *linWorld {
	r := rand.New(rand.NewPCG(seed, 11))
	w := &linWorld{
		t: t, seed: seed, mix: mix, keyed: r.IntN(3) > 0, disk: objstore.NewMemory(),
		accepted: make(map[int64]*linTicket),
	}
	pick := func(n ...int64) int64 { return n[r.IntN(len(n))] }
	w.base = *plainOptions()
	if w.keyed {
		w.base.PrimaryKey = []string{"id"}
	}
	w.base.FlushInterval = time.Duration(pick(1, 2, 10)) * mix.unit
	w.base.FlushBytes = pick(1, 1, 100, 1<<20)
	w.base.MaxEntryBytes = pick(1, 100, 1<<20)
	w.base.MaxInFlight = int(pick(1, 2, 4, 8))
	w.base.MaxMemtableRows, w.base.MaxMemtableBatches = pick(2, 5, 20), int(pick(1, 3, 1<<20))
	w.base.Retry = objstore.RetryOptions{
		MaxAttempts: mix.attempts, RequestTimeout: 40 * mix.unit, MinBackoff: mix.unit, MaxBackoff: 10 * mix.unit,
	}
	return w
}

func (w *linWorld) rand(who int) *rand.Rand {
	return rand.New(rand.NewPCG(w.seed, 1000+uint64(who)))
}

// sleep waits for up to so many units.
func (w *linWorld) sleep(r *rand.Rand, units float64) {
	time.Sleep(time.Duration(r.Float64() * units * float64(w.mix.unit)))
}

// errHung is why a context ends long after any call should have returned.
var errHung = errors.New("the call hangs")

// deadline is a context that ends soon with the chance, and else if the call hangs.
func (w *linWorld) deadline(r *rand.Rand, soon float64, units float64) (context.Context, context.CancelFunc) {
	if r.Float64() < soon {
		return context.WithTimeout(w.t.Context(), time.Duration(r.Float64()*units*float64(w.mix.unit)))
	}
	return context.WithTimeoutCause(w.t.Context(), w.patience(), errHung)
}

// connect makes a process's own way to the disk.
func (w *linWorld) connect(r *rand.Rand) *faultstore.Store {
	io := faultstore.New(w.disk, r.Uint64())
	u := w.mix.unit
	io.SetLatency(faultstore.Latency{P50: u, P99: 4 * u})
	puts := []objstore.Op{objstore.OpPutIfAbsent, objstore.OpPut}
	if w.mix.lost > 0 {
		io.Add(faultstore.Rule{Ops: puts, Chance: w.mix.lost, Count: -1, After: faultstore.Status(500), OnApplied: func(r faultstore.Request) {
			if r.Err == nil {
				w.count(func(s *linSeen) { s.lostReplies++ })
			}
		}})
	}
	if w.mix.failed > 0 {
		io.Add(faultstore.Rule{Ops: puts, Chance: w.mix.failed, Count: -1, Before: faultstore.Status(503)})
		io.Add(faultstore.Rule{Ops: []objstore.Op{objstore.OpGet, objstore.OpHead, objstore.OpList}, Chance: w.mix.failed / 4, Count: -1, Before: faultstore.Status(503)})
	}
	if w.mix.ambiguous > 0 {
		io.Add(faultstore.Rule{Ops: puts, Chance: w.mix.ambiguous, Count: -1, Before: faultstore.Status(500)})
		io.Add(faultstore.Rule{Ops: puts, Chance: w.mix.ambiguous, Count: -1, Duplicate: true})
	}
	if w.mix.slow > 0 {
		io.Add(faultstore.Rule{Ops: puts, Chance: w.mix.slow, Count: -1, Delay: 20 * u})
		io.Add(faultstore.Rule{Ops: puts, Chance: w.mix.slow / 4, Count: -1, Delay: 60 * u})
	}
	io.Add(faultstore.Rule{Ops: puts, Count: -1, Detach: true}) // puts of the dead land late
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ios = append(w.ios, io)
	return io
}

func (w *linWorld) count(f func(s *linSeen)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f(&w.seen)
}

func (w *linWorld) now() int64 { return w.clock.Add(1) }

// record adds a call that has returned just now. What it promises holds from its
// return on: unless it shows or appends something, its place in the order is there.
func (w *linWorld) record(client int, began int64, c linCall, r linReply) {
	call, finish := began, w.now()
	switch c.kind {
	case linWait, linFlush, linClosed, linEnded:
		call = finish
	}
	w.recordAt(client, began, call, finish, c, r)
}

func (w *linWorld) recordAt(client int, began, call, finish int64, c linCall, r linReply) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ops = append(w.ops, porcupine.Operation{ClientId: client, Input: c, Call: call, Output: r, Return: finish})
	w.spans = append(w.spans, linSpan{client, began, finish})
}

// run lets everybody loose and waits for them. What is recorded can then be
// checked.
func (w *linWorld) run(client func(me int)) {
	var wg sync.WaitGroup
	who := 0
	start := func(f func(who int)) {
		me := who
		who++
		wg.Go(func() { f(me) })
	}
	w.keeping.Store(int64(w.mix.keepers))
	for range w.mix.keepers {
		start(w.keep)
	}
	for range w.mix.clients {
		start(client)
	}
	for range w.mix.readers {
		start(w.read)
	}
	wg.Wait()
	w.finish(who)
}

// keep opens writers, and ends them: a crash, a close, or just the next open.
func (w *linWorld) keep(me int) {
	defer w.keeping.Add(-1)
	r := w.rand(me)
	for range w.mix.lives {
		s := w.open(me, r)
		if s == nil {
			return
		}
		w.sleep(r, float64(w.mix.life))
		switch r.IntN(5) {
		case 0, 1:
			w.crash(me, s)
			w.count(func(s *linSeen) { s.crashes++ })
		case 2:
			w.closeWriter(me, s, r)
		default: // taken over by the next, or by another keeper
		}
	}
}

// open opens the shard, again and again until that succeeds.
func (w *linWorld) open(me int, r *rand.Rand) *linWriter {
	for range 100 {
		o := w.base
		if r.Float64() < w.mix.indexed {
			o.Visibility = VisibleIndexed
			o.FlushInterval = time.Duration(1+r.IntN(60)) * w.mix.unit
		}
		ctx, cancel := w.deadline(r, w.mix.cutOff, 12)
		began := w.now()
		opened, err := Open(ctx, w.connect(r), testShard, testSchema, &o)
		finish := w.now()
		cancel()
		if err == nil {
			return w.opened(me, began, finish, opened, o.Visibility == VisibleIndexed)
		}
		w.allowed(ctx, "open", err)
		w.count(func(s *linSeen) { s.cutOff++ })
		w.sleep(r, 10)
	}
	w.t.Errorf("nobody could open the shard")
	return nil
}

func (w *linWorld) opened(me int, began, finish int64, opened *Writer, indexed bool) *linWriter {
	s := &linWriter{w: opened, indexed: indexed, epoch: opened.Stats().Epoch}
	go func() {
		<-opened.Done()
		s.since.Store(time.Now().UnixNano())
	}()
	// Nobody else has it yet, so what it shows is what it has found.
	snap, err := opened.Snapshot()
	if err != nil {
		w.t.Errorf("snapshot of a writer that was just opened: %v", err)
		return nil
	}
	defer snap.Close()
	view := w.look(snap)
	w.mu.Lock()
	w.writers++
	s.number = w.writers
	w.all = append(w.all, s)
	w.seen.opens++
	w.seen.recovered += int(view.bound)
	w.mu.Unlock()
	w.recordAt(me, began, began, finish, linCall{kind: linOpen, who: s.number}, linReply{epoch: s.epoch, view: view})
	for {
		cur := w.current.Load()
		if cur != nil && cur.epoch > s.epoch {
			break
		}
		if w.current.CompareAndSwap(cur, s) {
			if cur != nil && !cur.ended.Load() {
				w.count(func(s *linSeen) { s.takeovers++ })
			}
			break
		}
	}
	return s
}

// crash ends a writer without a word: its puts on the wire may land at any time.
func (w *linWorld) crash(me int, s *linWriter) {
	began := w.now()
	_ = s.w.Abort()
	w.ended(me, began, s, false)
}

func (w *linWorld) closeWriter(me int, s *linWriter, r *rand.Rand) {
	ctx, cancel := w.deadline(r, w.mix.cancel, 10)
	defer cancel()
	began := w.now()
	err := s.w.Close(ctx)
	if err != nil {
		w.failed(ctx, me, began, s, "close", err)
		w.ended(me, began, s, false)
		return
	}
	s.ended.Store(true)
	w.record(me, began, linCall{kind: linClosed, who: s.number}, linReply{})
	w.count(func(s *linSeen) { s.closes++ })
}

// ended records that the writer takes no more calls: no puts, at least.
func (w *linWorld) ended(me int, began int64, s *linWriter, puts bool) {
	s.ended.Store(true)
	w.record(me, began, linCall{kind: linEnded, who: s.number, puts: puts}, linReply{})
}

// failed looks at what a call on s with ctx returned. It reports whether the writer
// has ended.
func (w *linWorld) failed(ctx context.Context, me int, began int64, s *linWriter, op string, err error) bool {
	poisoned, ok := errors.AsType[*PoisonedError](err)
	switch {
	case ok:
		s.mu.Lock()
		s.cause = cmp.Or(s.cause, poisoned.Cause.Error())
		if s.cause != poisoned.Cause.Error() {
			w.t.Errorf("%s on writer %d: it failed with %v, its first failure was %s", op, s.number, poisoned.Cause, s.cause)
		}
		s.mu.Unlock()
		if fenced, ok := errors.AsType[*FencedError](err); ok {
			w.count(func(s *linSeen) { s.fenced++ })
			if fenced.Theirs.Epoch <= s.epoch {
				w.t.Errorf("%s on the writer of epoch %d: fenced by %+v, which is not above", op, s.epoch, fenced.Theirs)
			}
		} else {
			w.count(func(s *linSeen) { s.poisoned++ })
		}
	case errors.Is(err, ErrClosed):
	case ctx.Err() != nil && errors.Is(err, ctx.Err()) && context.Cause(ctx) != errHung:
		w.count(func(s *linSeen) { s.cancelled++ })
		return false
	default:
		w.t.Errorf("%s on writer %d: %v", op, s.number, err)
		return false
	}
	// A writer that is being closed still gives snapshots.
	w.ended(me, began, s, !ok && (op == "put" || op == "rotate"))
	return true
}

// allowed fails the test for an error of a call with ctx that no fault explains.
func (w *linWorld) allowed(ctx context.Context, op string, err error) {
	if _, gaveUp := errors.AsType[*objstore.RetryError](err); gaveUp && context.Cause(ctx) != errHung {
		return
	}
	for _, ok := range []error{ErrFenced, context.DeadlineExceeded, context.Canceled, faultstore.ErrInjected, objstore.ErrAmbiguous} {
		if errors.Is(err, ok) && context.Cause(ctx) != errHung {
			return
		}
	}
	w.t.Errorf("%s: %v", op, err)
}

// finish ends everybody, lets late puts land, and looks at what is there in the
// end, twice.
func (w *linWorld) finish(me int) {
	for _, s := range w.all {
		w.crash(me, s)
	}
	for _, io := range w.ios {
		io.Clear()
		io.Wait()
	}
	r := w.rand(me)
	w.mix.lost, w.mix.failed, w.mix.ambiguous, w.mix.slow, w.mix.cutOff, w.mix.cancel = 0, 0, 0, 0, 0, 0
	for range 2 {
		if s := w.open(me, r); s != nil {
			w.crash(me, s)
		}
	}
	if x := w.openReader(me, r); x != nil {
		x.r.Close()
	}
	for _, s := range w.all {
		w.checkWoken(s)
	}
	w.summarize()
}

// checkWoken: a failure wakes every waiter at once. In a bubble that is the same
// instant.
func (w *linWorld) checkWoken(s *linWriter) {
	if w.mix.real {
		return
	}
	since := time.Unix(0, s.since.Load())
	for _, x := range s.waits {
		due := since
		if x.began.After(due) {
			due = x.began
		}
		if !x.ended.Equal(due) {
			w.t.Errorf("writer %d failed at %v; a wait that began at %v ended at %v", s.number, since, x.began, x.ended)
		}
	}
}

// summarize counts what the history was about.
func (w *linWorld) summarize() {
	s := &w.seen
	s.histories, s.ops = 1, len(w.spans)
	for i, a := range w.spans {
		n := 0
		for j, b := range w.spans {
			if i != j && a.client != b.client && a.call < b.finish && b.call < a.finish {
				n++
			}
		}
		if n > 0 {
			s.overlapped++
		}
		s.widest = max(s.widest, n)
	}
	inLog := w.logged()
	for n, t := range w.accepted {
		switch {
		case t.acked || t.rows[0].dead:
		case inLog[n]:
			s.found++
		default:
			s.gone++
		}
	}
	shown := map[int64]bool{}
	for _, op := range w.ops {
		c, v := op.Input.(linCall), op.Output.(linReply).view
		if c.kind != linSnapshot || !c.indexed {
			continue
		}
		for _, r := range v.rows {
			if !inLog[r.n] && !shown[r.n] {
				shown[r.n] = true
				s.undone++
			}
		}
	}
}

// logged reads the log past all faults, and returns the values of its rows.
func (w *linWorld) logged() map[int64]bool {
	walk := replay.NewWalker(replay.Config{Store: w.disk, Dir: layoutOf(testShard).wal, From: wal.Start()})
	defer walk.Close()
	found := make(map[int64]bool)
	for {
		step, err := walk.Next(context.Background())
		if err != nil {
			w.t.Errorf("the log: %v", err)
			return found
		}
		if step == nil {
			return found
		}
		if step.Live {
			for _, b := range step.Entry.Batches {
				n := b.Column(2).(*array.Int64)
				for i := range n.Len() {
					if n.IsValid(i) {
						found[n.Value(i)] = true
					}
				}
			}
		}
		step.Entry.Release()
	}
}
