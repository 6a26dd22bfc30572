package flusher

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/memwal/memwal-go/internal/wal"
	"github.com/memwal/memwal-go/memtable"
	"github.com/memwal/memwal-go/objstore"
)

// ceilings are rates and how many puts a minute they stand for.
var ceilings = []struct {
	perSecond float64
	minute    int
}{{MinCeiling, 2}, {0.05, 3}, {0.1, 6}, {0.7, 42}, {1, 60}, {2.5, 150}, {10, 600}}

func TestBucket(t *testing.T) {
	for _, tc := range ceilings {
		t.Run(fmt.Sprint(tc.perSecond), func(t *testing.T) {
			b := newBucket(tc.perSecond)
			now := time.Unix(1000, 0)
			var spent []time.Time
			for now.Before(time.Unix(1000+3600, 0)) {
				if wait := b.wait(now); wait > 0 {
					now = now.Add(wait)
					if again := b.wait(now); again != 0 {
						t.Fatalf("after a wait of %v: %v more", wait, again)
					}
				}
				b.spend(now)
				spent = append(spent, now)
			}
			for i := range spent {
				if j := i + tc.minute; j < len(spent) && spent[j].Sub(spent[i]) <= time.Minute {
					t.Fatalf("more than %d puts within %v", tc.minute, spent[j].Sub(spent[i]))
				}
			}
			burst := max(1, tc.minute/10)
			if got := spent[burst-1].Sub(spent[0]); got != 0 {
				t.Errorf("put %d waited %v, a full bucket holds so many", burst, got)
			}
			if least := 60 * (tc.minute - burst); len(spent) < least {
				t.Errorf("%d puts in an hour, the steady rate is %d", len(spent), least)
			}
			// A pause fills it, and no longer pause fills it further.
			now = now.Add(1000 * time.Hour)
			for n := 0; ; n++ {
				if b.wait(now) > 0 {
					if n != burst {
						t.Errorf("%d puts at once after a pause, want %d", n, burst)
					}
					break
				}
				b.spend(now)
			}
		})
	}
}

func TestBucketDebt(t *testing.T) {
	b := newBucket(0.1) // six a minute: one at once, one each 12 s
	now := time.Unix(1000, 0)
	for range 3 {
		b.spend(now)
	}
	if got := b.wait(now); got != 36*time.Second {
		t.Errorf("two puts of debt: the next waits %v, want three times 12s", got)
	}
	for range 100 {
		b.spend(now)
	}
	if got := b.wait(now); got != time.Minute {
		t.Errorf("a hundred puts of debt: the next waits %v, want a minute", got)
	}
	now = now.Add(time.Minute)
	b.spend(now)
	if got := b.wait(now); got != 12*time.Second {
		t.Errorf("after a debt was paid, the next waits %v, want 12s", got)
	}
}

func TestCeilingNone(t *testing.T) {
	c, s := NewCeiling(0), objstore.NewMemory()
	if c != nil || c.wait() != 0 || !c.take() || c.Meter(s) != s {
		t.Error("no ceiling bounds something")
	}
}

// newCeilingRig starts a flusher under a ceiling, with retries above it.
func newCeilingRig(t *testing.T, perSecond float64, change func(*Config)) *rig {
	return newRig(t, func(c *Config) {
		c.Ceiling = NewCeiling(perSecond)
		c.Store = objstore.WithRetry(c.Ceiling.Meter(c.Store.(objstore.Store)), objstore.RetryOptions{MaxAttempts: 100})
		if change != nil {
			change(c)
		}
	})
}

func TestCeilingAfterAPauseGoesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newCeilingRig(t, MinCeiling, nil)
		for range 3 {
			time.Sleep(time.Hour)
			end := r.put(1)
			r.wantDurable(end) // no time has passed
			// The next has to wait, and what comes meanwhile shares its entry.
			start := time.Now()
			for range 50 {
				end = r.put(2)
				time.Sleep(time.Second)
			}
			n := len(r.store.requests())
			time.Sleep(time.Minute - time.Nanosecond - time.Since(start))
			r.wantDurable(end - 100)
			time.Sleep(time.Nanosecond)
			r.wantDurable(end)
			if got := len(r.store.requests()) - n; got != 1 {
				t.Errorf("%d puts, want one for all that had to wait", got)
			}
		}
		if got := r.flusher.Stats(); got.HeldBack != 3 || got.StartedByTime != 6 {
			t.Errorf("%d of %d appends were held back, want 3 of 6", got.HeldBack, got.StartedByTime)
		}
	})
}

// TestCeilingHoldsWhateverTheReason has size, demand and time ask for appends.
func TestCeilingHoldsWhateverTheReason(t *testing.T) {
	for name, ask := range map[string]func(r *rig){
		"time":   func(*rig) { time.Sleep(rigInterval) },
		"size":   func(r *rig) { r.put(1000) },
		"demand": func(r *rig) { r.flusher.Demand(r.put(1)) },
		"freeze": func(r *rig) { r.freeze(); r.flusher.Demand(r.put(1)) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newCeilingRig(t, 0.1, func(c *Config) { c.FlushBytes = 1000 * rowBytes })
				r.put(1)
				r.wantDurable(1)
				r.put(1)
				ask(r)
				synctest.Wait()
				time.Sleep(12*time.Second - rigInterval - time.Nanosecond)
				r.wantDurable(1)
				time.Sleep(rigInterval + time.Nanosecond)
				synctest.Wait()
				if n := len(r.store.requests()); n != 2 {
					t.Errorf("%d puts after 12s, want 2", n)
				}
				r.wantAlive()
			})
		})
	}
}

// TestCeilingShorterWaitCounts has a tick asked for that is later than a new
// reason needs.
func TestCeilingShorterWaitCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newCeilingRig(t, 1, func(c *Config) { c.Interval = time.Hour })
		for range 6 { // the burst
			end := r.put(1)
			r.flusher.Demand(end)
			r.wantDurable(end)
		}
		end := r.put(1)
		r.wantDurable(end - 1) // it waits for the interval, an hour
		r.flusher.Demand(end)
		r.wantDurable(end - 1)
		time.Sleep(2 * time.Second)
		r.wantDurable(end)
	})
}

func TestX01_CeilingWakesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var looks atomic.Int64
		r := newCeilingRig(t, 0.05, nil)
		r.onLive(func() { looks.Add(1) })
		idle := func(what string) {
			t.Helper()
			synctest.Wait()
			before, puts := looks.Load(), len(r.store.requests())
			time.Sleep(30 * 24 * time.Hour)
			synctest.Wait()
			if n := looks.Load() - before; n != 0 {
				t.Errorf("%s: the task looked for rows %d times in an idle month", what, n)
			}
			if n := len(r.store.requests()) - puts; n != 0 {
				t.Errorf("%s: %d puts in an idle month", what, n)
			}
		}
		idle("before the first row")
		r.put(1)
		r.wantDurable(1)
		idle("after a row")
		for range 5 {
			r.put(1)
			time.Sleep(time.Second)
		}
		time.Sleep(time.Minute)
		r.wantDurable(6)
		idle("after rows that had to wait")

		// While rows wait, it looks when something happens, and once when it is time.
		r.put(1)
		synctest.Wait()
		before := looks.Load()
		r.put(1)
		time.Sleep(time.Minute)
		r.wantDurable(8)
		if n := looks.Load() - before; n > 8 {
			t.Errorf("the task looked for rows %d times while one put waited", n)
		}
	})
}

// putKind says what a recorded put was for.
type putKind uint8

const (
	anAppend putKind = iota
	aRetry
	putAgain
)

// TestCeilingHoldsOverAnyMinute runs random loads over a store with dead
// objects, lost replies, passing failures and delays. No minute that ends with
// the start of an append may have more puts than the ceiling allows.
func TestCeilingHoldsOverAnyMinute(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { ceilingHolds(t, rand.New(rand.NewPCG(seed, 3))) })
		})
	}
}

func ceilingHolds(t *testing.T, rng *rand.Rand) {
	limit := ceilings[rng.IntN(len(ceilings)-1)]
	r := newCeilingRig(t, limit.perSecond, func(c *Config) {
		c.FlushBytes, c.MaxInFlight = int64(1+rng.IntN(5))*rowBytes, 1+rng.IntN(5)
		c.MaxEntryBytes = int64(1+rng.IntN(200)) * rowBytes
	})
	faults := rng.IntN(3) // every third load has none
	if faults > 0 {
		for pos := uint64(2); pos < 60; pos++ {
			if rng.IntN(4) == 0 {
				r.plant(pos, dead(pos))
			}
		}
	}
	draws := make(chan int, 1)
	draws <- 0
	draw := func(n int) int {
		turn := <-draws
		defer func() { draws <- turn }()
		return rng.IntN(n)
	}
	r.store.onPut = func(_ context.Context, _ uint64, apply func() (objstore.PutResult, error)) (objstore.PutResult, error) {
		time.Sleep(time.Duration(draw(50)) * time.Millisecond)
		if faults > 0 {
			switch draw(8) {
			case 0:
				return objstore.PutResult{}, &objstore.Error{Class: objstore.ErrThrottled}
			case 1:
				apply()
				return objstore.PutResult{}, &objstore.Error{Class: objstore.ErrAmbiguous}
			}
		}
		return apply()
	}
	var end uint64
	for range 100 {
		end = r.put(1 + draw(4))
		switch draw(12) {
		case 0:
			r.freeze()
			r.flusher.Demand(end)
		case 1:
			r.flusher.Demand(end)
		case 2:
			time.Sleep(time.Duration(draw(120)) * time.Second)
		case 3, 4: // no pause
		default:
			time.Sleep(time.Duration(draw(3000)) * time.Millisecond)
		}
	}
	r.flusher.Demand(end)
	start := time.Now()
	if err := r.cursors.Register(memtable.LevelDurable, end).Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	// Each entry waits a minute at most, and a few puts that failed on the way.
	if took := time.Since(start); took > 10*time.Hour {
		t.Errorf("the last rows took %v", took)
	}
	checkCeiling(t, r, limit.minute)
	if st := r.flusher.Stats(); faults == 0 && (st.Reissued > 0 || st.Entries != uint64(len(r.store.requests()))) {
		t.Errorf("a load without faults: %+v", st)
	}
}

// checkCeiling looks at each minute that ends with the start of an append, and
// where nothing was ever retried or put again, at every minute.
func checkCeiling(t *testing.T, r *rig, limit int) {
	t.Helper()
	puts := r.store.requests()
	positions, rows := make(map[uint64]bool), make(map[uint64]bool)
	var kinds [3]int
	for i, p := range puts {
		kind := anAppend
		switch {
		case positions[p.pos]:
			kind = aRetry
		case rows[p.first]:
			kind = putAgain
		}
		positions[p.pos], rows[p.first] = true, true
		kinds[kind]++
		if kind != anAppend {
			continue
		}
		n := 1
		for _, q := range puts[:i] {
			// What was sent in the same moment may have come after the decision.
			if age := p.at.Sub(q.at); age > 0 && age < time.Minute {
				n++
			}
		}
		if n > limit {
			t.Fatalf("the append at position %d ends a minute with %d puts, the ceiling allows for %d", p.pos, n, limit)
		}
	}
	if kinds[aRetry] == 0 && kinds[putAgain] == 0 {
		for i := range puts {
			if j := i + limit; j < len(puts) && puts[j].at.Sub(puts[i].at) <= time.Minute {
				t.Fatalf("more than %d puts within %v", limit, puts[j].at.Sub(puts[i].at))
			}
		}
	}
}

// TestCeilingChargesEveryAttempt has a put fail a few times, and another one meet
// dead objects: the appends after them wait until that is paid for.
func TestCeilingChargesEveryAttempt(t *testing.T) {
	const spacing = 12 * time.Second // at six a minute
	t.Run("retries", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newCeilingRig(t, 0.1, nil)
			fails := 3
			r.store.onPut = func(_ context.Context, _ uint64, apply func() (objstore.PutResult, error)) (objstore.PutResult, error) {
				if fails--; fails >= 0 {
					return objstore.PutResult{}, &objstore.Error{Class: objstore.ErrThrottled}
				}
				return apply()
			}
			start := time.Now()
			r.put(1)
			time.Sleep(time.Second) // more than three pauses take
			r.wantDurable(1)
			r.put(1)
			time.Sleep(4*spacing - time.Nanosecond - time.Since(start))
			r.wantDurable(1)
			time.Sleep(time.Second)
			r.wantDurable(2)
		})
	})
	t.Run("put again", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newCeilingRig(t, 0.1, nil)
			r.plant(2, dead(1))
			r.plant(3, dead(2))
			r.put(1)
			r.wantDurable(1) // these do not wait
			r.put(1)
			time.Sleep(3*spacing - time.Nanosecond)
			r.wantDurable(1)
			time.Sleep(time.Nanosecond)
			r.wantDurable(2)
		})
	})
	t.Run("others", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var store objstore.Store
			r := newCeilingRig(t, 0.1, func(c *Config) { store = c.Store.(objstore.Store) })
			if err := store.Put(t.Context(), rigDir+"hint", objstore.Body{[]byte("x")}); err != nil {
				t.Fatal(err)
			}
			r.put(1)
			time.Sleep(spacing - time.Nanosecond)
			r.wantDurable(0)
			time.Sleep(time.Nanosecond)
			r.wantDurable(1)
		})
	})
}

// TestX02_AnyWindow runs random loads and looks at every stretch of time: of
// appends started by time there is one an interval and one more at most, and each
// of the others has FlushBytes or was asked for.
func TestX02_AnyWindow(t *testing.T) { anyWindow(t, 0) }

// TestV13_AnyWindow is the same under a ceiling: waiting for it must not make up
// for intervals that have passed.
func TestV13_AnyWindow(t *testing.T) { anyWindow(t, 2.5) }

func anyWindow(t *testing.T, ceiling float64) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { windows(t, rand.New(rand.NewPCG(seed, 4)), ceiling) })
		})
	}
}

// sample is what had happened by a moment.
type sample struct {
	at       time.Time
	started  [reasons]uint64
	rows     uint64 // put
	demanded uint64 // calls of Demand
}

func windows(t *testing.T, rng *rand.Rand, ceiling float64) {
	interval := time.Duration(20+rng.IntN(200)) * time.Millisecond
	flushRows := uint64(20 + rng.IntN(400))
	r := newCeilingRig(t, ceiling, func(c *Config) {
		c.Interval, c.FlushBytes, c.MaxInFlight = interval, int64(flushRows)*rowBytes, 1+rng.IntN(5)
	})
	latency := time.Duration(rng.Int64N(int64(2 * interval)))
	r.store.onPut = func(_ context.Context, _ uint64, apply func() (objstore.PutResult, error)) (objstore.PutResult, error) {
		time.Sleep(latency)
		return apply()
	}
	var demanded uint64
	var samples []sample
	take := func() {
		synctest.Wait()
		s := sample{at: time.Now(), started: started(r), demanded: demanded}
		for _, p := range r.store.requests() {
			s.rows += uint64(p.rows)
		}
		samples = append(samples, s)
	}
	load := 1 + rng.IntN(50)
	for range 400 {
		switch n := rng.IntN(100); {
		case n < 2:
			r.flusher.Demand(r.put(1))
			demanded++
		case n < 5:
			r.put(1 + rng.IntN(3*int(flushRows)))
		case n < 15:
			time.Sleep(time.Duration(rng.Int64N(int64(3 * interval))))
		default:
			r.put(1 + rng.IntN(load))
		}
		take()
		time.Sleep(time.Duration(1+rng.IntN(10)) * time.Millisecond)
	}
	time.Sleep(10 * time.Minute)
	take()
	var by [reasons]uint64
	for i, from := range samples {
		for _, to := range samples[i+1:] {
			for k := range by {
				by[k] = to.started[k] - from.started[k]
			}
			took := to.at.Sub(from.at)
			if limit := 1 + uint64(took/interval); by[byTime] > limit {
				t.Fatalf("%d timed appends in %v at an interval of %v, want at most %d", by[byTime], took, interval, limit)
			}
			if by[bySize]*flushRows > to.rows-from.rows {
				t.Fatalf("%d appends by size of %d rows for %d rows", by[bySize], flushRows, to.rows-from.rows)
			}
			// A demand that waits for room, or for the ceiling, is met later.
			if by[byDemand] > to.demanded {
				t.Fatalf("%d appends on demand for %d demands", by[byDemand], to.demanded)
			}
		}
	}
	last := samples[len(samples)-1]
	if n := last.started[byTime] + last.started[bySize] + last.started[byDemand]; n != uint64(len(r.store.requests())) {
		t.Errorf("%d appends were started, %d puts made", n, len(r.store.requests()))
	}
	if last.started[byTime] == 0 || ceiling == 0 && last.started[bySize] == 0 {
		t.Errorf("the load is no test: appends by reason %v", last.started)
	}
}

func TestEntriesFor(t *testing.T) {
	for _, tc := range []struct {
		batches int
		bytes   int64
		want    int
	}{{1, 0, 2}, {9, 1, 2}, {9, 100, 2}, {9, 101, 4}, {9, 200, 4}, {9, 201, 6}, {2, 1000, 3}} {
		if got := EntriesFor(tc.batches, tc.bytes, 100); got != tc.want {
			t.Errorf("%d batches of %d bytes: %d entries, want %d", tc.batches, tc.bytes, got, tc.want)
		}
	}
	// What take makes of random batches is never more, without the one under way.
	for seed := range uint64(200) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 5))
			limit := 1 + rng.IntN(20)
			r := newRig(t, func(c *Config) { c.Interval, c.MaxEntryBytes = 0, int64(limit)*rowBytes })
			var rows int
			for range 1 + rng.IntN(30) {
				n := 1 + rng.IntN(2*limit)
				r.put(n)
				rows += n
			}
			m := (*r.tables.Load())[0]
			batches, bytes := m.Unlogged()
			most := EntriesFor(batches, bytes, int64(limit)*rowBytes) - 1
			r.flusher.Demand(uint64(rows))
			r.wantDurable(uint64(rows))
			u := m.Usage()
			if u.Entries > most || u.Entries != len(r.store.requests()) {
				t.Errorf("seed %d: %d entries for %d rows of %d an entry, %d puts, want at most %d", seed, u.Entries, rows, limit, len(r.store.requests()), most)
			}
			batches, bytes = m.Unlogged()
			if st := r.flusher.Stats(); u.LogBytes != int64(st.Bytes) || batches != 0 || bytes != 0 {
				t.Errorf("seed %d: %d bytes of log, %d batches of %d bytes outside of it; the entries have %d", seed, u.LogBytes, batches, bytes, st.Bytes)
			}
		})
	}
}

// entryOf tells which rows an entry that is being put has.
func entryOf(body objstore.Body) (first uint64, rows int64) {
	e, err := wal.Decode(body.Bytes(), wal.DecodeOptions{})
	if err != nil {
		return 0, 0 // a test's own object
	}
	defer e.Release()
	return e.Header.FirstRow, e.Rows
}
