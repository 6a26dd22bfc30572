//go:build unix

package fight

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/memwal/memwal-go/memwal"
)

// write opens the shard, puts until it is fenced, and opens it again, until the
// parent has had enough.
func (c *child) write() {
	for !c.finishing() {
		w, open := c.open(1 + c.rand.IntN(c.Options.MaxInFlight))
		if w != nil {
			newIncarnation(c, w, open).run()
		}
		c.pause(c.rand, 250*time.Millisecond)
	}
}

// writeOnce opens the shard and puts until it is fenced. Then it says so and waits.
func (c *child) writeOnce() {
	w, open := c.open(c.Options.MaxInFlight)
	if w == nil {
		return
	}
	i := newIncarnation(c, w, open)
	i.life = -1
	i.run()
	<-c.finish
}

// open calls Open once and reports it.
func (c *child) open(inFlight int) (*memwal.Writer, int) {
	c.opens++
	open := c.Process*1000 + c.opens
	c.send(event{Kind: opening, Open: open})
	w, err := memwal.Open(c.ctx, c.store, c.Shard, schema, c.writerOptions(open, inFlight))
	at := c.clock.now()
	if err != nil {
		e := event{Kind: notOpened, At: at, Open: open, Text: err.Error()}
		if f, ok := errors.AsType[*memwal.FencedError](err); ok {
			e.Epoch = f.Ours.Epoch
		}
		c.send(e)
		if !explained(err) {
			c.violate("open", "open: %v", err)
		}
		return nil, open
	}
	s := w.Stats() // nothing was put yet: Durable is what was found
	c.send(event{Kind: opened, At: at, Open: open, Epoch: s.Epoch, Row: s.Durable})
	return w, open
}

// incarnation is one open writer.
type incarnation struct {
	*child
	w     *memwal.Writer
	open  int
	epoch uint64
	life  time.Duration // after which it ends by itself; negative: never

	stop chan struct{} // closed when putters are to stop
	// fencedOnce reports the fence, once.
	fencedOnce sync.Once
	wasFenced  atomic.Bool
	leaving    atomic.Bool  // Close or Abort is about to be called
	woken      atomic.Int64 // tickets that the fence has woken
}

func newIncarnation(c *child, w *memwal.Writer, open int) *incarnation {
	i := &incarnation{child: c, w: w, open: open, epoch: w.Stats().Epoch, life: -1, stop: make(chan struct{})}
	if c.rand.IntN(6) == 0 {
		i.life = time.Duration(50+c.rand.IntN(800)) * time.Millisecond
	}
	return i
}

// putters is the number of goroutines that put.
const putters = 3

func (i *incarnation) run() {
	i.look()
	var wg sync.WaitGroup
	for lane := range putters {
		r := rand.New(rand.NewPCG(i.rand.Uint64(), uint64(lane)))
		wg.Go(func() { i.put(lane, r) })
	}
	r := rand.New(rand.NewPCG(i.rand.Uint64(), putters))
	wg.Go(func() { i.meddle(r) })

	var lifetime <-chan time.Time
	if i.life >= 0 {
		lifetime = time.After(i.life)
	}
	select {
	case <-i.w.Done():
	case <-i.finish:
	case <-lifetime:
	}
	close(i.stop)
	if err := i.w.Err(); err != nil {
		i.observe("writer", err)
		wg.Wait()
		if i.wasFenced.Load() {
			i.send(event{Kind: woken, Open: i.open, Rows: int(i.woken.Load())})
			i.staysFenced(r)
		}
		_ = i.w.Abort()
		i.send(event{Kind: ended, Open: i.open, Text: err.Error()})
		return
	}
	// Under way are puts whose tickets the putters wait for: Close or Abort decides
	// what becomes of them.
	i.leaving.Store(true)
	end := "closed"
	if i.rand.IntN(3) == 0 {
		end = "aborted"
		_ = i.w.Abort()
	} else if err := i.w.Close(i.ctx); err != nil {
		end = err.Error()
		i.observe("close", err)
	}
	wg.Wait()
	_ = i.w.Abort()
	i.send(event{Kind: ended, Open: i.open, Text: end})
}

// underWay is a batch that was accepted.
type underWay struct {
	event // as it was issued
	t     *memwal.Ticket
}

// put puts until the incarnation ends, and sees to it that what was accepted gets
// an outcome.
func (i *incarnation) put(lane int, r *rand.Rand) {
	var waiting []underWay
	defer func() {
		for _, u := range waiting {
			i.settle(u)
		}
	}()
	for !i.stopping() {
		e := event{Kind: issued, Open: i.open, Lane: lane, Rows: 1 + r.IntN(3), Delete: i.Keyed && r.IntN(5) == 0}
		e.First = i.number(e.Rows)
		e.At = i.send(e)
		if r.IntN(4) == 0 && !i.Options.Async {
			if !i.putAndWait(e) {
				return
			}
		} else {
			t, err := i.accept(e)
			if err != nil {
				i.send(event{Kind: refused, Open: i.open, First: e.First})
				i.observe("put", err)
				return
			}
			waiting = append(waiting, underWay{e, t})
		}
		for len(waiting) > 0 && (len(waiting) > 8 || done(waiting[0].t)) {
			i.settle(waiting[0])
			waiting = waiting[1:]
		}
		i.rest(r, 2*i.Options.Pause)
	}
}

func (i *incarnation) stopping() bool {
	select {
	case <-i.stop:
		return true
	default:
		return false
	}
}

// rest sleeps for up to d, or until the incarnation ends.
func (i *incarnation) rest(r *rand.Rand, d time.Duration) {
	select {
	case <-time.After(time.Duration(r.Int64N(int64(d)) + 1)):
	case <-i.stop:
	}
}

func done(t *memwal.Ticket) bool {
	select {
	case <-t.Done():
		return true
	default:
		return false
	}
}

// number gives out the numbers of so many rows.
func (c *child) number(rows int) int64 {
	end := atomic.AddInt64(&c.numbers, int64(rows))
	return int64(c.Process)<<32 | (end - int64(rows))
}

// accept is PutAsync or DeleteAsync, as e says.
func (i *incarnation) accept(e event) (*memwal.Ticket, error) {
	rec := batchOf(i.Keyed, e.Delete, e.First, e.Rows)
	defer rec.Release()
	if e.Delete {
		return i.w.DeleteAsync(i.ctx, rec)
	}
	return i.w.PutAsync(i.ctx, rec)
}

// putAndWait is Put or Delete. It returns false when the writer is over.
func (i *incarnation) putAndWait(e event) bool {
	rec := batchOf(i.Keyed, e.Delete, e.First, e.Rows)
	defer rec.Release()
	call := i.w.Put
	if e.Delete {
		call = i.w.Delete
	}
	if err := call(i.ctx, rec); err != nil {
		i.observe("put", err) // accepted or not: it does not say
		return false
	}
	i.send(event{Kind: acked, Open: i.open, First: e.First})
	return true
}

// patience is how long a waiter may sleep on after the writer has failed, in
// steps: while the process is stopped none of them passes.
const (
	patienceSteps = 1000
	patienceStep  = 10 * time.Millisecond
)

// settle waits for the outcome of a ticket. A writer that has failed must wake it.
func (i *incarnation) settle(u underWay) {
	select {
	case <-u.t.Done():
	case <-i.w.Done():
		for n := 0; !done(u.t); n++ {
			if n == patienceSteps {
				i.violate("V09", "the writer has failed (%v), but nobody wakes the ticket of rows from %d", i.w.Err(), u.t.FirstRow())
				return
			}
			time.Sleep(patienceStep)
		}
	}
	if err := u.t.Err(); err != nil {
		i.observe("ticket", err)
		if errors.Is(err, memwal.ErrFenced) {
			i.woken.Add(1)
		}
		if u.t.Wait(i.ctx) == nil {
			i.violate("V09", "a ticket has the error %v, but Wait returns none", err)
		}
		return
	}
	i.send(event{Kind: acked, Open: i.open, First: u.First, Row: u.t.FirstRow(), Placed: true})
}

// observe takes an error of the writer. Of a fence it reports the first.
func (i *incarnation) observe(op string, err error) {
	switch {
	case errors.Is(err, memwal.ErrFenced):
		i.wasFenced.Store(true)
		i.fencedOnce.Do(func() { i.send(event{Kind: fenced, Open: i.open, Epoch: i.epoch}) })
		f, typed := errors.AsType[*memwal.FencedError](err)
		if !typed || f.Ours.Epoch != i.epoch || f.Theirs.Epoch <= i.epoch || !errors.Is(err, memwal.ErrPoisoned) {
			i.violate("V09", "%s of epoch %d: the error does not say who fenced whom: %v", op, i.epoch, err)
		}
	case !explained(err):
		i.violate("errors", "%s: %v", op, err)
	case errors.Is(err, memwal.ErrClosed) && !i.leaving.Load():
		i.violate("errors", "%s: %v", op, err)
	}
}

// staysFenced tries everything on a writer that was fenced, twice, some time
// apart: meanwhile who fenced it may have died.
func (i *incarnation) staysFenced(r *rand.Rand) {
	must := func(op string, err error) {
		if !errors.Is(err, memwal.ErrFenced) {
			i.violate("F10", "%s on a writer that was fenced: %v", op, err)
		}
	}
	for range 2 {
		must("Err", i.w.Err())
		e := event{Kind: issued, Open: i.open, Lane: putters, Rows: 1, First: i.number(1)}
		i.send(e)
		t, err := i.accept(e)
		must("PutAsync", err)
		if t == nil {
			i.send(event{Kind: refused, Open: i.open, First: e.First})
		}
		must("Flush", i.w.Flush(i.ctx))
		must("Rotate", i.w.Rotate(i.ctx))
		if s, err := i.w.Snapshot(); err == nil {
			s.Close()
			must("Snapshot", nil)
		} else {
			must("Snapshot", err)
		}
		if got := i.w.Stats().Epoch; got != i.epoch {
			i.violate("F10", "a writer of epoch %d has epoch %d", i.epoch, got)
		}
		i.pause(r, 150*time.Millisecond)
	}
	must("Close", i.w.Close(i.ctx))
}

// meddle does what else one does with a writer.
func (i *incarnation) meddle(r *rand.Rand) {
	for {
		i.rest(r, 200*time.Millisecond)
		if i.stopping() {
			return
		}
		switch r.IntN(4) {
		case 0:
			if err := i.w.Flush(i.ctx); err != nil {
				i.observe("flush", err)
			}
		case 1:
			if err := i.w.Rotate(i.ctx); err != nil {
				i.observe("rotate", err)
			}
		default:
			i.look()
		}
	}
}

// look reports what a snapshot shows.
func (i *incarnation) look() {
	s, err := i.w.Snapshot()
	if err != nil {
		i.observe("snapshot", err)
		return
	}
	defer s.Close()
	i.show(i.open, s, 0)
}

// show reports what s shows.
func (c *child) show(open int, s *memwal.Snapshot, since moment) {
	d, err := digestOf(context.Background(), c.Keyed, s)
	if err != nil {
		c.violate("Q07", "scan: %v", err)
		return
	}
	c.send(event{Kind: saw, Open: open, Row: s.Bound(), Rows: d.rows, Sum: d.sum, Since: since})
}
