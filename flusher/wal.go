package flusher

import (
	"context"
	"log/slog"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/memwal/memwal-go/dispatcher"
	"github.com/memwal/memwal-go/internal/fault"
	"github.com/memwal/memwal-go/internal/wal"
	"github.com/memwal/memwal-go/memtable"
	"github.com/memwal/memwal-go/objstore"
)

// Config is what a WAL flusher works with. Every field without a stated default
// is required.
type Config struct {
	// Store takes the entries. It retries transient failures itself, with the
	// same key and bytes, and gives up after a bound of its own. If there is a
	// Ceiling, its Meter is below the retries.
	Store objstore.Writer
	// Dir is the key prefix of the log, with a slash at its end.
	Dir string
	// Schema is the storage schema of every batch.
	Schema *arrow.Schema
	// Encode holds the options of the entry codec.
	Encode wal.EncodeOptions
	// Epoch is the fencing token of this writer.
	Epoch uint64
	// Tail is the last live entry: the fence of this writer. The first append
	// goes to the first empty position above it.
	Tail wal.Tuple
	// Proof is when the request that last proved the ownership of the shard
	// was sent: the manifest read after the fence.
	Proof time.Time
	// ProofDate is a reading of the store's clock from before Proof: the date of the
	// reply to the fence. Zero: the store gave none.
	ProofDate time.Time
	// Live lists the memtables whose rows may still owe an append, oldest
	// first. It is called in the task, at every step.
	Live func() []*memtable.Memtable
	// Cursors gets the durable cursor advanced.
	Cursors *memtable.Cursors
	// CheckOwner reads the newest manifest from a complete listing and returns
	// nil if this writer still owns the shard.
	CheckOwner func(ctx context.Context) error
	// OnFail is told the terminal failure, once.
	OnFail func(error)
	// OnDurable is called in the task after each advance of the durable
	// cursor. Optional.
	OnDurable func()
	// OnAppend is called before each put of an entry, in the worker that makes it,
	// and what it returns when that has ended. The put's requests get the context
	// that it returns. Both must be safe for concurrent use. Optional.
	OnAppend func(context.Context, Append) (context.Context, func(AppendResult))
	// Labels are the pprof labels of the flusher's goroutines, beside
	// memwal.task. Optional.
	Labels pprof.LabelSet

	// Ceiling bounds the PUTs. Default nil: none.
	Ceiling *Ceiling

	Interval            time.Duration // least spacing of timed appends; 0: none are timed
	FlushBytes          int64         // pending bytes that start an append
	MaxEntryBytes       int64         // window bytes of an entry of more than one batch
	MaxInFlight         int           // puts in flight; Span tells how many positions they span
	OwnershipCheckAfter time.Duration // longest time a proof of ownership is trusted

	Now    func() time.Time // default time.Now
	Logger *slog.Logger     // default: discard
}

const taskName = "wal-flusher"

// WAL is the flusher of one shard's write-ahead log. Its methods may be called
// from any goroutine.
type WAL struct {
	cfg     Config
	task    *dispatcher.Task[any]
	stop    context.CancelFunc // ends the requests in flight, and the workers
	ctx     context.Context    // of those requests
	workers sync.WaitGroup     // the goroutines that make those requests
	work    chan func()        // a request for a worker that has none

	demanded atomic.Uint64 // rows below this ordinal are appended without regard to the interval
	stats    counters

	// The rest belongs to the task's goroutine.

	window    window
	assigned  uint64    // rows below this ordinal belong to an entry
	lastTime  time.Time // start of the last append; zero: none yet
	tick      time.Time // when the tick comes that was asked for since then; zero: none
	held      bool      // the ceiling holds back an append that is due
	proof     proof
	checking  bool // an ownership check is in flight
	unchecked int  // entries acknowledged since the last check was sent
	proved    int  // slots at the head that the last check proves, whenever it was sent
	failed    bool
}

// checked is the message that ends an ownership check.
type checked struct {
	sent   time.Time
	proved int // slots that had landed by then, from the head on
	err    error
}

// New starts the task. Stop ends it.
func New(cfg Config) *WAL {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	base := pprof.WithLabels(context.Background(), cfg.Labels)
	ctx, stop := context.WithCancel(base)
	f := &WAL{
		cfg: cfg, ctx: ctx, stop: stop, work: make(chan func()),
		window: window{
			next: cfg.Tail.Position + 1, last: cfg.Tail.PutID,
			limit: cfg.MaxInFlight, span: Span(cfg.MaxInFlight), newID: wal.NewPutID,
		},
		assigned: cfg.Tail.NextRow,
		proof:    proof{sent: cfg.Proof, date: cfg.ProofDate},
	}
	// There is no standing ticker: a step that has to wait asks for the tick
	// that it needs, so a writer without pending rows is not even woken.
	f.task = dispatcher.Start(base, dispatcher.Options[any]{
		Name:    taskName,
		Handler: (*handler)(f),
		Mailbox: int(Span(cfg.MaxInFlight)) + 2, // the window's completions and a check: posting never waits
		OnError: f.fail,
		OnPanic: func(p *dispatcher.PanicError) { f.fail(p) },
		Logger:  cfg.Logger,
	})
	return f
}

// Wake tells the flusher that rows were accepted. It never blocks.
func (f *WAL) Wake() { f.task.Wake() }

// Demand asks for every row below ordinal end to be appended without waiting
// for the interval; the ceiling holds all the same. It never blocks; the durable
// cursor tells when it is done.
func (f *WAL) Demand(end uint64) {
	for {
		old := f.demanded.Load()
		if old >= end || f.demanded.CompareAndSwap(old, end) {
			break
		}
	}
	f.task.Wake()
}

// Cancel starts to stop and does not wait: nothing is appended or acknowledged
// after it. It may be called from OnFail. Stop is still needed.
func (f *WAL) Cancel() {
	f.stop()
	f.task.Cancel()
}

// Stop ends the task, cancels what is in flight, and joins everything. Rows
// that are not durable by then stay so. It may be called more than once.
func (f *WAL) Stop() error {
	f.stop()
	err := f.task.Stop(false)
	f.workers.Wait()
	for f.window.head() != nil {
		f.window.pop().table.Release()
	}
	return err
}

// handler keeps the task's entry points out of the public method set.
type handler WAL

// Handle takes the completion of a put or of an ownership check.
func (h *handler) Handle(_ context.Context, msg any) error {
	f := (*WAL)(h)
	if f.failed {
		return nil
	}
	switch m := msg.(type) {
	case appended:
		if m.err != nil {
			return m.err
		}
		m.slot.outcome, m.slot.date = m.outcome, m.date
		m.slot.size, m.slot.took = m.bytes, m.took
		if fault.AcknowledgeAnyOrder && m.outcome == landed {
			if err := f.cfg.Cursors.AdvanceDurable(m.slot.end); err != nil {
				return err
			}
		}
		if m.outcome == displaced {
			f.cfg.Logger.Warn("a dead object holds the WAL position; its entry is put again above",
				"position", m.slot.pos, "first_row", m.slot.first)
		}
	case checked:
		f.checking = false
		if m.err != nil {
			return m.err
		}
		// However long it took: the listing shows no later claim, so what had landed
		// before it was sent landed before any fence.
		f.proof.sent, f.proved = m.sent, m.proved
	}
	return f.step()
}

// Tick names nothing: what is due is looked up now.
func (h *handler) Tick(context.Context) error {
	f := (*WAL)(h)
	f.tick = time.Time{}
	return f.step()
}

// Wake is a tick that somebody asked for.
func (h *handler) Wake(context.Context) error { return (*WAL)(h).step() }

// step acknowledges what can be and starts what is due. Its errors are
// terminal.
func (f *WAL) step() error {
	if f.failed {
		return nil
	}
	if err := f.acknowledge(); err != nil {
		return err
	}
	f.window.reissue()
	for s := f.window.unsent(); s != nil; s = f.window.unsent() {
		f.stats.reissued.Add(1)
		s.table.AddEntry(0, 0, 0) // the object at the old position is read in replay, too
		f.send(f.ctx, s)
	}
	for {
		d := decide(f.pending(), f.cfg.Interval, f.cfg.FlushBytes)
		if !d.append {
			f.held = f.held || d.held
			f.lookAgain(d.wait)
			return nil
		}
		if !f.cfg.Ceiling.take() {
			continue // a retry was charged in between
		}
		f.stats.started[d.reason].Add(1)
		if f.held {
			f.stats.held.Add(1)
		}
		f.lastTime, f.tick, f.held = f.cfg.Now(), time.Time{}, false
		next := f.take()
		next.reason = d.reason
		f.send(withPaid(f.ctx), f.window.assign(next))
	}
}

// lookAgain asks for a tick after wait, unless one comes before; 0: none is
// needed.
func (f *WAL) lookAgain(wait time.Duration) {
	if wait == 0 {
		return
	}
	if at := f.cfg.Now().Add(wait); f.tick.IsZero() || at.Before(f.tick) {
		f.tick = at
		f.task.ResetTicker(wait)
	}
}

// acknowledge advances the durable cursor over the landed prefix, as far as the
// proof of ownership carries.
func (f *WAL) acknowledge() error {
	before := f.cfg.Cursors.Durable()
	for !f.checking {
		h := f.window.head()
		if h == nil || h.outcome != landed {
			break
		}
		if f.proved > 0 {
			f.proved--
		} else if f.mustCheck(h) {
			f.check(h.pos)
			break
		}
		f.window.pop()
		f.unchecked++
		h.table.ResizeEntry(h.size - h.bytes)
		h.table.Release()
		f.stats.acknowledged(h)
		f.proof.renew(h.sent, h.date)
		if err := f.cfg.Cursors.AdvanceDurable(h.end); err != nil {
			return err
		}
	}
	if f.cfg.OnDurable != nil && f.cfg.Cursors.Durable() != before {
		f.cfg.OnDurable()
	}
	return nil
}

// checkEvery is how many entries are acknowledged between two ownership checks,
// however young the proof is. It is not for safety. The window of a busy writer has
// a put in flight to every position that a successor finds empty, so the
// successor's fence could lose every race. A check costs a listing, about as much
// as one put. Fewer entries would show on the bill; more would make a takeover from
// a busy writer, which takes up to as many round trips, last for minutes.
const checkEvery = 512

// mustCheck reports whether the ownership has to be checked before h, which landed,
// is acknowledged.
func (f *WAL) mustCheck(h *slot) bool {
	if f.unchecked >= checkEvery {
		return true
	}
	return f.proof.elapsed(f.cfg.Now(), h.date) > f.cfg.OwnershipCheckAfter && !fault.NoOwnershipCheck
}

// check starts an ownership check; its reply is a message.
func (f *WAL) check(pos uint64) {
	f.checking, f.unchecked = true, 0
	f.stats.checks.Add(1)
	proved := f.window.landedPrefix()
	f.job(f.ctx, "wal-ownership-check", func(ctx context.Context) {
		sent, err := f.checkOwner(ctx, pos)
		f.post(checked{sent: sent, proved: proved, err: err})
	})
}

// job runs a request outside of the task, in a worker that Stop joins; profiles
// show it under the name. A worker stays for the next request: in a new goroutine
// the stack would grow anew through the layers of an HTTP client, which is a
// twelfth of the CPU time of a busy writer. There are as many workers as there
// ever were requests at once.
func (f *WAL) job(ctx context.Context, name string, do func(context.Context)) {
	request := func() { pprof.Do(ctx, pprof.Labels("memwal.task", name), do) }
	select {
	case f.work <- request:
	default:
		f.workers.Go(func() { f.serve(request) })
	}
}

// serve is a worker, which begins with request. It ends with the flusher.
func (f *WAL) serve(request func()) {
	for {
		request()
		select {
		case request = <-f.work:
		case <-f.ctx.Done():
			return
		}
	}
}

// send starts the put of s; its completion is a message.
func (f *WAL) send(ctx context.Context, s *slot) {
	s.sent = f.cfg.Now()
	f.stats.inFlight.Add(1)
	f.job(ctx, "wal-append", func(ctx context.Context) {
		m := f.put(ctx, s)
		f.stats.inFlight.Add(-1)
		f.post(m)
	})
}

// post delivers a completion. It fails only when the task has stopped, and then
// nobody waits for it.
func (f *WAL) post(m any) { _ = f.task.Post(f.ctx, m) }

// pending describes the rows that belong to no entry yet.
func (f *WAL) pending() pending {
	p := pending{room: f.window.room(), sinceLast: f.cfg.Now().Sub(f.lastTime), ceiling: f.cfg.Ceiling.wait()}
	accepted := f.cfg.Cursors.Accepted()
	for _, m := range f.cfg.Live() {
		end := min(m.EndRow(), accepted)
		if end <= f.assigned {
			continue
		}
		first := max(f.assigned, m.FirstRow())
		p.rows += end - first
		p.bytes += m.WindowOf(m.FindBatch(uint32(first-m.FirstRow())), m.Batches())
	}
	p.demanded = p.rows > 0 && f.assigned < f.demanded.Load()
	return p
}

// take picks the next entry: whole batches of the oldest live memtable that has
// rows beyond the assigned prefix. pending said that there is one. The span
// retains its memtable until it is acknowledged.
func (f *WAL) take() span {
	accepted := f.cfg.Cursors.Accepted()
	if fault.NewestMemtableFirst { // skip what older ones owe, if the newest has rows
		live := f.cfg.Live()
		if newest := live[len(live)-1]; min(newest.EndRow(), accepted) > newest.FirstRow() {
			f.assigned = max(f.assigned, newest.FirstRow())
		}
	}
	for _, m := range f.cfg.Live() {
		if min(m.EndRow(), accepted) <= f.assigned {
			continue
		}
		sp := span{table: m, first: f.assigned, from: m.FindBatch(uint32(f.assigned - m.FirstRow()))}
		sp.to = sp.from
		for n := m.Batches(); sp.to < n; sp.to++ {
			b := m.Batch(sp.to)
			end := m.FirstRow() + uint64(b.FirstSlot) + uint64(b.Rec.NumRows())
			if end > accepted || sp.to > sp.from && sp.bytes+b.Window > f.cfg.MaxEntryBytes {
				break
			}
			sp.bytes += b.Window
			sp.end = end
		}
		if sp.to == sp.from {
			panic("flusher: the accepted cursor stands within a batch")
		}
		m.Retain()
		m.AddEntry(sp.to-sp.from, sp.bytes, sp.bytes)
		f.assigned = sp.end
		return sp
	}
	panic("flusher: pending rows without a memtable that holds them")
}

// EntriesFor returns the most WAL entries that so many accepted batches with so
// many window bytes can take, if an entry of several has at most maxEntryBytes.
// One more may be under way already, with some of them.
func EntriesFor(batches int, bytes, maxEntryBytes int64) int {
	// An entry ends where the next batch does not fit, so two successive ones have
	// more than maxEntryBytes together.
	most := 2*((max(bytes, 1)-1)/maxEntryBytes) + 1
	return 1 + int(min(int64(batches), most))
}

// fail makes err terminal and tells it, once. It runs in the task.
func (f *WAL) fail(err error) {
	if f.failed {
		return
	}
	f.failed = true
	f.stop()
	f.cfg.OnFail(err)
}
