package memwal

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/memwal/memwal-go/objstore"
)

// appends lists when the entries of w's log were put.
func appends(store *testStore) []time.Time {
	var at []time.Time
	for _, r := range store.requests(objstore.OpPutIfAbsent, walPart)[1:] { // without the fence
		at = append(at, r.at)
	}
	return at
}

func TestV13_PutsWithinAnIntervalShareOneAppend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const interval = 100 * time.Millisecond
		store := newTestStore()
		w := mustOpen(t, store, &Options{FlushInterval: interval})
		start := time.Now()
		mustPut(t, w, seq(t, 0, 1))
		if took := time.Since(start); took != 0 {
			t.Errorf("a lone put waited %v: the interval before it was idle", took)
		}
		time.Sleep(interval / 4)
		tickets := make([]*Ticket, 50)
		for i := range tickets {
			tickets[i] = mustPutAsync(t, w, seq(t, int64(i), 1))
			time.Sleep(time.Millisecond)
		}
		for _, ticket := range tickets {
			if err := ticket.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(start); took != interval {
			t.Errorf("the puts inside the interval were acknowledged after %v", took)
		}
		if n := len(appends(store)); n != 2 {
			t.Errorf("%d appends, want one for the first put and one for all others", n)
		}

		// Without a pause: one append at each end of an interval.
		start = time.Now()
		first := len(appends(store))
		for time.Since(start) < 20*interval {
			mustPutAsync(t, w, seq(t, 0, 1))
			time.Sleep(3 * time.Millisecond)
		}
		synctest.Wait()
		if n := len(appends(store)) - first; n > 21 || n < 19 {
			t.Errorf("%d timed appends in 20 intervals", n)
		}
		at := appends(store)
		for i := 1; i < len(at); i++ {
			if d := at[i].Sub(at[i-1]); d < interval {
				t.Errorf("append %d came %v after the one before", i, d)
			}
		}
		// After a pause of an interval: at once again.
		time.Sleep(2 * interval)
		start = time.Now()
		mustPut(t, w, seq(t, 0, 1))
		if took := time.Since(start); took != 0 {
			t.Errorf("a put after a pause waited %v", took)
		}
	})
}

func TestX01_IdleWriterMakesNoRequests(t *testing.T) {
	for name, o := range map[string]*Options{
		"default":  {},
		"aging":    {MaxMemtableAge: time.Hour},
		"wal only": {WALOnly: true},
		"ceiling":  {MaxPUTsPerSecond: 1},
		"least":    {MaxPUTsPerSecond: 1.0 / 30},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newTestStore()
				w := mustOpen(t, store, o)
				opened := w.Stats().Requests
				time.Sleep(30 * 24 * time.Hour)
				if got := w.Stats().Requests; got != opened {
					t.Errorf("an idle month before the first put: requests went from %+v to %+v", opened, got)
				}
				mustPut(t, w, seq(t, 0, 1))
				time.Sleep(24 * time.Hour) // aging rotates meanwhile, which has nothing to append
				if n := len(appends(store)); n != 1 {
					t.Fatalf("%d appends of one put", n)
				}
				before := w.Stats().Requests
				time.Sleep(30 * 24 * time.Hour)
				if got := w.Stats().Requests; got != before {
					t.Errorf("an idle month after it: requests went from %+v to %+v", before, got)
				}
				// The end of the log is recorded once: a manifest version and the hint.
				puts := func() int { return store.count(objstore.OpPutIfAbsent, "") + store.count(objstore.OpPut, "") }
				n := puts()
				mustClose(t, w)
				if n = puts() - n; n != 2 {
					t.Errorf("closing a writer that has written made %d puts, want 2", n)
				}
				w = mustOpen(t, store, o)
				n = puts()
				mustClose(t, w)
				if n = puts() - n; n != 0 {
					t.Errorf("closing a writer that has written nothing made %d puts", n)
				}
			})
		})
	}
}

// TestX02_PutsAreBounded runs random loads against stores of any speed.
func TestX02_PutsAreBounded(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { boundedPuts(t, rand.New(rand.NewPCG(seed, 2))) })
		})
	}
}

func boundedPuts(t *testing.T, rng *rand.Rand) {
	interval := time.Duration(1+rng.IntN(200)) * time.Millisecond
	flushBytes := int64(200 + rng.IntN(4000))
	latency := rng.Int64N(int64(3 * interval))
	pause := rng.Int64N(int64(interval)) + 1
	store := newTestStore()
	w := mustOpen(t, store, &Options{
		FlushInterval: interval, FlushBytes: flushBytes, MaxInFlight: 1 + rng.IntN(6), MaxMemtableRows: 200,
	})
	store.on(objstore.OpPutIfAbsent, walPart, always, delay(time.Duration(latency)))
	start := time.Now()
	var last *Ticket
	var rows int
	for range 300 {
		n := 1 + rng.IntN(6)
		last = mustPutAsync(t, w, seq(t, int64(rows), n))
		rows += n
		switch rng.IntN(10) {
		case 0: // a pause
			time.Sleep(time.Duration(rng.Int64N(int64(4 * interval))))
		case 1, 2, 3: // no pause at all
		default:
			time.Sleep(time.Duration(rng.Int64N(pause)))
		}
	}
	if err := last.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	took := time.Since(start)
	st := w.Stats()
	var window int64
	for _, m := range w.c.live() {
		window += m.WindowBytes()
	}
	timed, sized, demanded := st.WAL.StartedByTime, st.WAL.StartedBySize, st.WAL.StartedByDemand
	if limit := 1 + uint64(took/interval); timed > limit {
		t.Errorf("%d timed appends in %v at an interval of %v, want at most %d", timed, took, interval, limit)
	}
	// A freeze asks for an append of what is left of its memtable. That may be
	// started by size, if the memtable after it has grown enough by then.
	rotations := st.Generation - 1
	if limit := uint64(window)/uint64(flushBytes) + rotations; sized+demanded > limit || demanded > rotations {
		t.Errorf("%d appends by size of %d bytes and %d on demand for %d bytes and %d rotations", sized, flushBytes, demanded, window, rotations)
	}
	if n := uint64(len(appends(store))); n != timed+sized+demanded || n != st.WAL.Entries {
		t.Errorf("%d puts; %d timed, %d by size, %d on demand, %d entries", n, timed, sized, demanded, st.WAL.Entries)
	}
}
