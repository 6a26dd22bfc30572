package flusher

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/memwal/memwal-go/objstore"
)

func TestV03_CompletionsOutOfOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c *Config) { c.FlushBytes = 1 })
		g := r.store.hold()
		for n := range 4 {
			r.put(n + 1)
			synctest.Wait()
		}
		if n := len(r.store.requests()); n != 4 {
			t.Fatalf("%d puts in flight, want the window full", n)
		}
		r.put(1) // no room for it
		g.open(5)
		r.wantDurable(0)
		g.open(3)
		r.wantDurable(0)
		g.open(2)
		r.wantDurable(3)
		g.open(4, 6)
		r.wantDurable(11)
		if got := r.durable.Load(); got < 2 || got > 4 {
			t.Errorf("OnDurable was called %d times", got)
		}
		r.wantLog(0, logged{2, 1, 0, 1}, logged{3, 1, 1, 3}, logged{4, 1, 3, 6}, logged{5, 1, 6, 10}, logged{6, 1, 10, 11})
		r.wantAlive()
	})
}

func TestV13_TimedAppendsKeepTheInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		start := time.Now()
		end := r.put(1)
		r.wantDurable(end) // nothing was appended for an interval
		for range 50 {
			end = r.put(1)
			time.Sleep(time.Millisecond)
		}
		r.wantDurable(1)
		time.Sleep(rigInterval - time.Since(start))
		r.wantDurable(end)

		// An append for another reason begins the interval anew.
		time.Sleep(rigInterval / 2)
		r.put(1)
		end = r.put(1)
		r.flusher.Demand(end)
		r.wantDurable(end)
		demanded := time.Now()
		time.Sleep(rigInterval / 2)
		r.put(1)
		r.wantDurable(end)
		time.Sleep(rigInterval - time.Since(demanded))
		r.wantDurable(end + 1)
		if got := started(r); got != [reasons]uint64{byTime: 3, byDemand: 1} {
			t.Errorf("appends by reason: %v", got)
		}
	})
}

func TestV13_WithoutAnIntervalTimeStartsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c *Config) { c.Interval, c.FlushBytes = 0, 5*rowBytes })
		r.put(4)
		time.Sleep(24 * time.Hour)
		r.wantDurable(0)
		end := r.put(1)
		r.wantDurable(end)
		if got := started(r); got != [reasons]uint64{bySize: 1} {
			t.Errorf("appends by reason: %v", got)
		}
	})
}

// TestV14_SlowStoreMakesNoBurst has ticks fall due while there is no room.
func TestV14_SlowStoreMakesNoBurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c *Config) { c.MaxInFlight = 1 })
		g := r.store.hold()
		r.put(1)
		for range 1000 { // ten intervals
			r.put(1)
			time.Sleep(time.Millisecond)
		}
		if n := len(r.store.requests()); n != 1 {
			t.Fatalf("%d puts in a window of one", n)
		}
		g.open(2, 3, 4)
		// Everything that has piled up goes in one entry, and the next one keeps
		// its distance again.
		r.wantDurable(1001)
		r.put(1)
		time.Sleep(rigInterval - time.Nanosecond)
		r.wantDurable(1001)
		time.Sleep(time.Nanosecond)
		r.wantDurable(1002)
		if n := len(r.store.requests()); n != 3 {
			t.Errorf("%d puts, want 3", n)
		}
	})
}

// TestV14_NothingStarves has the task be busy all the time: each look at the
// memtables takes longer than the interval, and wakes come without a pause.
func TestV14_NothingStarves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.onLive(func() { time.Sleep(3 * rigInterval) })
		stop := make(chan struct{})
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			for {
				select {
				case <-stop:
					return
				default:
					r.flusher.Wake()
					time.Sleep(rigInterval / 100)
				}
			}
		}()
		start := time.Now()
		for range 20 {
			want := r.put(1)
			for r.cursors.Durable() < want {
				time.Sleep(rigInterval)
				if took := time.Since(start); took > time.Hour {
					t.Fatalf("row %d is not durable after %v", want-1, took)
				}
			}
		}
		r.put(1)
		time.Sleep(rigInterval)
		start = time.Now()
		if err := r.flusher.Stop(); err != nil {
			t.Error(err)
		}
		// A step looks at the memtables twice for each append, and once more.
		if took := time.Since(start); took > 4*3*rigInterval {
			t.Errorf("Stop took %v", took)
		}
		close(stop)
		<-stopped
		r.wantAlive()
	})
}

// TestV15_TickBeforeFreezeHandledAfter stops the task where it is about to look
// at the memtables, with a tick due, and freezes the active one under it.
func TestV15_TickBeforeFreezeHandledAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c *Config) { c.MaxInFlight = 1 })
		r.put(1)
		r.wantDurable(1)
		r.put(2)
		synctest.Wait() // it waits for the tick
		reached, proceed := make(chan struct{}), make(chan struct{})
		r.onLive(func() {
			select {
			case <-reached:
			default:
				close(reached)
				<-proceed
			}
		})
		time.Sleep(rigInterval)
		<-reached
		r.freeze()
		r.put(3)
		r.freeze()
		r.put(4)
		close(proceed)
		time.Sleep(10 * rigInterval)
		r.wantDurable(10)
		r.wantLog(0, logged{2, 1, 0, 1}, logged{3, 1, 1, 3}, logged{4, 2, 3, 6}, logged{5, 3, 6, 10})
	})
}

func TestV18_DemandTakesEveryMemtable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c *Config) { c.Interval, c.MaxInFlight = 0, 2 })
		g := r.store.hold()
		g.open(2, 3, 4)
		for range 3 {
			r.put(5)
			r.put(5)
			r.freeze()
		}
		r.wantDurable(0)
		r.flusher.Demand(30)
		r.wantDurable(30)
		r.wantLog(0, logged{2, 1, 0, 10}, logged{3, 2, 10, 20}, logged{4, 3, 20, 30})
		// A lower demand asks for nothing.
		r.put(1)
		r.flusher.Demand(7)
		r.wantDurable(30)
	})
}

func TestEntriesHoldWholeBatchesOfOneMemtable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c *Config) { c.MaxEntryBytes, c.Interval = 10*rowBytes, 0 })
		for _, n := range []int{4, 6, 1, 25, 3, 7} {
			r.put(n)
		}
		r.freeze()
		r.flusher.Demand(r.put(1))
		r.wantDurable(47)
		r.wantLog(0, logged{2, 1, 0, 10}, logged{3, 1, 10, 11}, logged{4, 1, 11, 36}, logged{5, 1, 36, 46}, logged{6, 2, 46, 47})
		st := r.flusher.Stats()
		if st.Entries != 5 || st.InFlight != 0 || st.Bytes == 0 || st.Reissued != 0 || st.OwnershipChecks != 0 {
			t.Errorf("stats: %+v", st)
		}
	})
}

// TestRowsBehindTheAcceptedCursorWait has a batch be in the memtable before it
// counts as accepted.
func TestRowsBehindTheAcceptedCursorWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.put(1)
		r.wantDurable(1)
		time.Sleep(time.Second)
		m := (*r.tables.Load())[0]
		rec := m.Batch(0).Rec
		if err := m.Append(rec, rowBytes, rowBytes); err != nil {
			t.Fatal(err)
		}
		r.flusher.Wake()
		r.flusher.Demand(2)
		time.Sleep(time.Second)
		r.wantDurable(1)
		r.wantAlive()
		if n := len(r.store.requests()); n != 1 {
			t.Errorf("%d puts", n)
		}
		r.cursors.Accept(2)
		r.flusher.Wake()
		r.wantDurable(2)
	})
}

// TestV12_AcceptedCursorWithinABatch: rows that were accepted are not all of those of
// their batch. An entry of no rows, or of too many, must not come of it.
func TestV12_AcceptedCursorWithinABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.put(2)
		r.wantDurable(2)
		time.Sleep(time.Second)
		m := (*r.tables.Load())[0]
		if err := m.Append(m.Batch(0).Rec, 2*rowBytes, 2*rowBytes); err != nil {
			t.Fatal(err)
		}
		r.cursors.Accept(3)
		r.flusher.Wake()
		if err := r.failure(); err == nil {
			t.Error("no failure")
		}
		r.wantDurable(2)
		if n := len(r.store.requests()); n != 1 {
			t.Errorf("%d puts", n)
		}
	})
}

func TestStopEndsWhatIsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c *Config) { c.FlushBytes = 1 })
		var cancelled atomic.Int64
		r.store.onPut = func(ctx context.Context, _ uint64, _ func() (objstore.PutResult, error)) (objstore.PutResult, error) {
			<-ctx.Done()
			time.Sleep(time.Second) // the store takes its time to hang up
			cancelled.Add(1)
			return objstore.PutResult{}, ctx.Err()
		}
		r.put(1)
		r.freeze()
		r.put(1)
		synctest.Wait()
		if got := r.flusher.Stats().InFlight; got != 2 {
			t.Fatalf("%d in flight", got)
		}
		if err := r.flusher.Stop(); err != nil {
			t.Error(err)
		}
		if got := r.flusher.Stats().InFlight; got != 0 || cancelled.Load() != 2 {
			t.Errorf("after Stop: %d in flight, %d cancelled", got, cancelled.Load())
		}
		if err := r.flusher.Stop(); err != nil {
			t.Error(err)
		}
		r.put(1) // nobody listens
		r.flusher.Demand(3)
		r.wantDurable(0)
		r.wantAlive()
	})
}

// started counts the appends by reason.
func started(r *rig) [reasons]uint64 {
	st := r.flusher.Stats()
	return [reasons]uint64{byTime: st.StartedByTime, bySize: st.StartedBySize, byDemand: st.StartedByDemand}
}
