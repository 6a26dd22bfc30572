package soak

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/memwal/memwal-go/memwal"
)

// session is an open writer of a process, and what it has put.
type session struct {
	p *process
	r *round
	w *memwal.Writer // nil once it has ended
	x excuse
	// killed is set before the process is.
	killed  atomic.Bool
	stalled atomic.Bool
	inc     *incarnation
	seq     uint64        // rows of it that were put
	puts    chan put      // whose outcome is not known; bounded
	drained chan struct{} // closed when the outcome of all puts is known
	held    []held
	err     error // of the first call that failed: the writer has ended
}

// put is a batch whose outcome is not yet known.
type put struct {
	ticket   *memwal.Ticket
	from, to uint64 // rows of the incarnation
}

// held is a snapshot that is asked again later.
type held struct {
	s      *memwal.Snapshot
	digest uint64
}

// begin records that w was opened, and checks what it found.
func (p *process) begin(w *memwal.Writer, x excuse) (*session, error) {
	s := &session{p: p, r: p.r, w: w, x: x, puts: make(chan put, 64), drained: make(chan struct{})}
	snap, err := w.Snapshot()
	if err != nil {
		return nil, violated("the first snapshot of a writer: %v", err)
	}
	defer snap.Close()
	number := p.r.incarnations.Add(1)
	if s.inc, err = p.r.ledger.open(number, w.Stats().Epoch, snap.Bound()); err != nil {
		return nil, err
	}
	takeover := p.r.writers.Add(1) > 1
	p.r.s.count(func(f *Figures) {
		f.Opens++
		f.RowsRecovered += int64(snap.Bound())
		if takeover {
			f.Takeovers++
		}
	})
	p.r.background.Go(s.collect)
	if _, err = p.r.check(snap, false, p.rand); err != nil {
		close(s.puts)
	}
	return s, err
}

// collect waits for the outcome of every put, in order.
func (s *session) collect() {
	defer close(s.drained)
	for t := range s.puts {
		var bad error
		if err := t.ticket.Wait(context.Background()); err == nil {
			bad = s.r.ledger.acknowledge(s.inc, t.to)
		} else {
			bad = errors.Join(s.explain("put", err), s.r.ledger.fail(s.inc, t.from))
		}
		if bad != nil {
			s.r.fail(bad)
		}
	}
}

func (s *session) explain(call string, err error) error {
	x := s.x
	x.killed, x.stalled = s.killed.Load(), s.stalled.Load()
	return s.r.explain(call, err, x)
}

// run makes calls until the writer ends. die ends those of a process that is
// killed. An error is a violation.
func (s *session) run(ctx context.Context, how ending, die func()) error {
	long, over := context.WithTimeout(ctx, s.p.lifetime(how))
	defer over()
	wasKilled := func() bool { return false }
	if how == killed {
		wasKilled = s.killSoon(die)
	}
	err := s.work(long)
	if err == nil && how == stalls && s.err == nil {
		err = s.stall(ctx)
	}
	s.releaseHeld(&err)
	switch {
	case wasKilled():
	case err != nil:
		s.killed.Store(true)
		_ = s.w.Abort()
	case s.err != nil:
		err = s.staysFailed()
	case how == killedLate:
		err = s.dieWithPutsOnTheWire(ctx, die)
	case how == dropped:
		s.killed.Store(true) // the garbage collector aborts it
		s.w = nil
		s.r.s.count(func(f *Figures) { f.Drops++ })
	default:
		return s.close()
	}
	return errors.Join(err, s.leave())
}

// killSoon aborts the writer at a random moment. The function that it returns
// takes that back, if it has not happened, and reports whether it has.
func (s *session) killSoon(die func()) (happened func() bool) {
	w, done := s.w, make(chan struct{})
	t := time.AfterFunc(s.p.between(0, 600*time.Millisecond), func() {
		defer close(done)
		s.kill(w, die)
	})
	return func() bool {
		if t.Stop() {
			return false
		}
		<-done
		s.p.io = s.r.connect()
		return true
	}
}

func (s *session) kill(w *memwal.Writer, die func()) {
	s.killed.Store(true)
	die()
	_ = w.Abort()
	s.r.s.count(func(f *Figures) { f.Kills++ })
}

// work makes calls until ctx ends or one fails.
func (s *session) work(ctx context.Context) error {
	for ctx.Err() == nil && s.err == nil && !s.killed.Load() {
		if err := s.step(); err != nil {
			return err
		}
		pause := s.p.between(0, 6*time.Millisecond)
		if issued, _ := s.r.ledger.sums(); issued > roundRows {
			pause += 200 * time.Millisecond // it stays small enough to be checked
		}
		wait(ctx, pause)
	}
	return nil
}

func (s *session) step() error {
	switch n := s.p.rand.IntN(100); {
	case n < 70:
		return s.putAsync()
	case n < 80:
		return s.put()
	case n < 84:
		if err := s.w.Flush(context.Background()); err != nil {
			return s.fail("flush", err)
		}
		return s.readBack(s.seq, false)
	case n < 88:
		if err := s.w.Rotate(context.Background()); err != nil {
			return s.fail("rotate", err)
		}
	case n < 91:
		return s.readBack(0, false)
	case n < 94:
		return s.readBack(0, true)
	case len(s.held) > 0:
		i := s.p.rand.IntN(len(s.held))
		return s.askAgain(s.held[i])
	}
	return nil
}

// fail records that a call has failed, and with it the writer.
func (s *session) fail(call string, err error) error {
	s.err = err
	return s.explain(call, err)
}

// batch makes the next rows of the incarnation.
func (s *session) batch() (rec arrow.RecordBatch, dead bool, end uint64) {
	rec, dead = s.r.rows.batch(s.inc.number, s.seq, 1+s.p.rand.IntN(24))
	return rec, dead, s.seq + uint64(rec.NumRows())
}

func (s *session) putAsync() error {
	rec, dead, end := s.batch()
	defer rec.Release()
	s.r.ledger.issue(s.inc, end)
	do := s.w.PutAsync
	if dead {
		do = s.w.DeleteAsync
	}
	t, err := do(context.Background(), rec)
	if err != nil {
		return s.fail("put", err)
	}
	if t.FirstRow() != s.inc.end(s.seq) {
		return violated("the ticket of row %d of %v names ordinal %d", s.seq, s.inc, t.FirstRow())
	}
	s.puts <- put{t, s.seq, end}
	s.seq = end
	return nil
}

func (s *session) put() error {
	rec, dead, end := s.batch()
	defer rec.Release()
	s.r.ledger.issue(s.inc, end)
	do := s.w.Put
	if dead {
		do = s.w.Delete
	}
	if err := do(context.Background(), rec); err != nil {
		return errors.Join(s.fail("put", err), s.r.ledger.fail(s.inc, s.seq))
	}
	s.seq = end
	return s.r.ledger.acknowledge(s.inc, end)
}

// readBack checks a snapshot, which must show the first least rows of the
// incarnation at least, and keeps it if keep is set.
func (s *session) readBack(least uint64, keep bool) error {
	snap, err := s.w.Snapshot()
	if err != nil {
		return s.fail("snapshot", err)
	}
	digest, err := s.r.check(snap, false, s.p.rand)
	if err == nil && snap.Bound() < s.inc.end(least) {
		err = violated("a snapshot after a flush shows %d rows; there were %d", snap.Bound(), s.inc.end(least))
	}
	if err != nil || !keep || len(s.held) == 3 {
		snap.Close()
		return err
	}
	s.held = append(s.held, held{snap, digest})
	return nil
}

// askAgain checks that a snapshot still says the same.
func (s *session) askAgain(h held) error {
	digest, err := s.r.check(h.s, false, s.p.rand)
	if err == nil && digest != h.digest {
		err = violated("a snapshot of %d rows has changed", h.s.Bound())
	}
	return err
}

// releaseHeld asks the snapshots that are kept a last time, the writer being dead
// or alive, and closes them.
func (s *session) releaseHeld(err *error) {
	for _, h := range s.held {
		if *err == nil {
			*err = s.askAgain(h)
		}
		h.s.Close()
	}
	s.held = nil
}

// crowded reports whether one more put might wait for room, for ever if nothing
// gets to the store.
func (s *session) crowded() bool { return 2*len(s.puts) > cap(s.puts) }

// stall holds every request of the process for longer than OwnershipCheckAfter.
// It goes on putting meanwhile, as one does that does not know, and after.
func (s *session) stall(ctx context.Context) error {
	s.stalled.Store(true)
	release := s.p.io.hold(nil)
	s.r.s.count(func(f *Figures) { f.Stalls++ })
	for range 1 + s.p.rand.IntN(8) {
		if s.crowded() {
			break
		}
		if err := s.putAsync(); err != nil || s.err != nil {
			release()
			return err
		}
	}
	time.Sleep(s.p.between(s.r.options.OwnershipCheckAfter+50*time.Millisecond, 2*s.r.options.OwnershipCheckAfter))
	release()
	for range 50 {
		if err := s.step(); err != nil || s.err != nil {
			return err
		}
		wait(ctx, s.p.between(0, 10*time.Millisecond))
	}
	return nil
}

// dieWithPutsOnTheWire kills the process when puts of it have left and not
// arrived: they do so at some moment after it.
func (s *session) dieWithPutsOnTheWire(ctx context.Context, die func()) error {
	release := s.p.io.hold(writes)
	var err error
	for range 1 + s.p.rand.IntN(8) {
		if s.crowded() {
			break
		}
		if err = s.putAsync(); err != nil || s.err != nil {
			break
		}
		// A freeze makes an entry of it, so that several are on the wire.
		if rerr := s.w.Rotate(context.Background()); rerr != nil {
			err = s.fail("rotate", rerr)
			break
		}
	}
	time.Sleep(s.p.between(0, 50*time.Millisecond))
	s.kill(s.w, die)
	s.p.io = s.r.connect()
	d := time.Duration(s.p.rand.Int64N(int64(1500 * time.Millisecond))) // often after the next open
	s.r.background.Go(func() {
		wait(ctx, d)
		release()
	})
	return err
}

// staysFailed checks that a writer that has failed goes on failing.
func (s *session) staysFailed() error {
	s.r.ended(s.err)
	if s.w.Err() == nil {
		return violated("a call failed, and the writer says that it goes on: %v", s.err)
	}
	first := s.err
	s.err = nil
	if err := s.putAsync(); err != nil {
		return err
	}
	if s.err == nil {
		return violated("a writer has taken a put after it had failed: %v", first)
	}
	return s.w.Abort()
}

// close closes the writer: all its rows must have been acknowledged.
func (s *session) close() error {
	err := s.w.Close(context.Background())
	if err != nil {
		s.r.ended(err)
		return errors.Join(s.explain("close", err), s.leave())
	}
	if err := s.leave(); err != nil {
		return err
	}
	s.r.s.count(func(f *Figures) { f.Closes++ })
	return s.r.ledger.closed(s.inc)
}

// leave waits for the outcome of all puts, which a dropped writer has later, and
// takes the figures of the writer.
func (s *session) leave() error {
	s.r.writers.Add(-1)
	close(s.puts)
	if s.w == nil {
		return nil
	}
	<-s.drained
	st := s.w.Stats()
	s.r.s.count(func(f *Figures) {
		f.Reissued += int64(st.WAL.Reissued)
		f.OwnershipChecks += int64(st.WAL.OwnershipChecks)
	})
	return s.r.ledger.accepted(s.inc, st.Accepted-s.inc.base)
}
