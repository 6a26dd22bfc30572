package memtable

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func advance(t testing.TB, f func(uint64) error, n uint64) {
	t.Helper()
	if err := f(n); err != nil {
		t.Fatal(err)
	}
}

func wantCursors(t *testing.T, c *Cursors, accepted, indexed, durable, visible uint64) {
	t.Helper()
	got := [...]uint64{c.Accepted(), c.Indexed(), c.Durable(), c.Visible()}
	if want := [...]uint64{accepted, indexed, durable, visible}; got != want {
		t.Errorf("accepted, indexed, durable, visible are %v, want %v", got, want)
	}
}

func TestV03_LateLowerCompletionChangesNothing(t *testing.T) {
	c := NewCursors(5)
	c.Accept(20)
	advance(t, c.AdvanceDurable, 15)
	advance(t, c.AdvanceIndexed, 12)
	w := c.Register(LevelVisible, 13)
	for _, late := range []uint64{0, 3, 5, 11, 12} {
		advance(t, c.AdvanceIndexed, late)
		advance(t, c.AdvanceDurable, late)
		c.Accept(late)
		wantCursors(t, c, 20, 12, 15, 12)
	}
	select {
	case <-w.Done():
		t.Error("a late completion woke a waiter")
	default:
	}
}

func TestV03_CursorsNeverFallBesideEachOther(t *testing.T) {
	c := NewCursors(0)
	c.Accept(10_000)
	var stop atomic.Bool
	var writers, readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			var last [3]uint64
			for !stop.Load() {
				for l := range last {
					now := c.At(Level(l))
					if now < last[l] {
						t.Errorf("%s fell from %d to %d", Level(l), last[l], now)
						return
					}
					last[l] = now
				}
			}
		})
	}
	for seed := range uint64(4) {
		writers.Go(func() {
			rng := rand.New(rand.NewPCG(seed, 3))
			for range 5000 {
				if err := errors.Join(c.AdvanceIndexed(rng.Uint64N(10_001)), c.AdvanceDurable(rng.Uint64N(10_001))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	stop.Store(true)
	readers.Wait()
}

func TestV05_CursorZeroMeansNoRows(t *testing.T) {
	c := NewCursors(0)
	wantCursors(t, c, 0, 0, 0, 0)
	none, first := c.Register(LevelVisible, 0), c.Register(LevelVisible, 1)
	c.Accept(1)
	for _, f := range []func(uint64) error{c.AdvanceIndexed, c.AdvanceDurable} {
		advance(t, f, 0)
		select {
		case <-first.Done():
			t.Fatal("row 0 became visible when the cursors stood at 0")
		default:
		}
	}
	if err := none.Wait(t.Context()); err != nil {
		t.Errorf("waiting for no rows: %v", err)
	}
	advance(t, c.AdvanceIndexed, 1)
	wantCursors(t, c, 1, 1, 0, 0)
	advance(t, c.AdvanceDurable, 1)
	if err := first.Wait(t.Context()); err != nil {
		t.Errorf("row 0: %v", err)
	}
}

func TestV09_FailureWakesEveryWaiterAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewCursors(0)
		c.Accept(100)
		reached := c.Register(LevelDurable, 10)
		advance(t, c.AdvanceDurable, 10)
		first := errors.New("fenced")
		outcome := make(chan error, 300)
		for i := range 100 {
			for l := range Level(levels) {
				w := c.Register(l, uint64(11+i%89))
				go func() { outcome <- w.Wait(context.Background()) }()
			}
		}
		watched := c.Register(LevelVisible, 50)
		done := watched.Done()
		synctest.Wait()
		if n := c.Waiting(); n != 301 {
			t.Fatalf("%d wait, want 301", n)
		}
		start := time.Now()
		if !c.Fail(first) || c.Fail(errors.New("second")) {
			t.Error("the first failure is not the one that stays")
		}
		<-done
		for range cap(outcome) {
			if err := <-outcome; !errors.Is(err, first) {
				t.Errorf("a waiter got %v", err)
			}
		}
		if time.Since(start) != 0 || c.Waiting() != 0 {
			t.Errorf("it took %v, %d still wait", time.Since(start), c.Waiting())
		}
		for name, err := range map[string]error{
			"cursors": c.Err(), "watched": watched.Err(), "later waiter": c.Register(LevelIndexed, 1).Wait(t.Context()),
			"later advance": c.AdvanceDurable(20),
		} {
			if !errors.Is(err, first) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if err := reached.Wait(t.Context()); err != nil {
			t.Errorf("rows that were durable before the failure: %v", err)
		}
		wantCursors(t, c, 100, 0, 10, 0)
	})
}

func TestFailWithoutReason(t *testing.T) {
	c := NewCursors(0)
	if !c.Fail(nil) || c.Err() == nil {
		t.Error("a failure without a reason is none")
	}
}

func TestV12_BeyondAcceptedIsAnErrorAndMovesNothing(t *testing.T) {
	c := NewCursors(0)
	c.Accept(10)
	advance(t, c.AdvanceDurable, 4)
	w := c.Register(LevelDurable, 8)
	for l, f := range map[Level]func(uint64) error{LevelIndexed: c.AdvanceIndexed, LevelDurable: c.AdvanceDurable} {
		err := f(11)
		if r, ok := errors.AsType[*RangeError](err); !ok || *r != (RangeError{Level: l, Want: 11, Accepted: 10}) {
			t.Errorf("%s: %v", l, err)
		}
	}
	wantCursors(t, c, 10, 0, 4, 0)
	if c.Waiting() != 0 {
		t.Error("a waiter that nobody waits for is kept")
	}
	if err := w.Err(); err != nil || c.Err() != nil {
		t.Errorf("the error became a failure: %v, %v", err, c.Err())
	}
	advance(t, c.AdvanceDurable, 10)
}

func TestM06_CancelledWaitLeavesNoTrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewCursors(0)
		c.Accept(1000)
		w := c.Register(LevelVisible, 500)
		for round := range 3 {
			ctx, cancel := context.WithCancel(t.Context())
			outcome := make(chan error, 110)
			for range 10 {
				go func() { outcome <- w.Wait(ctx) }()
			}
			for i := range 100 {
				go func() { outcome <- c.Register(Level(i%levels), uint64(1+i*7%1000)).Wait(ctx) }()
			}
			synctest.Wait()
			if n := c.Waiting(); n != 101 {
				t.Fatalf("round %d: %d wait, want 101", round, n)
			}
			cancel()
			for range cap(outcome) {
				if err := <-outcome; !errors.Is(err, context.Canceled) {
					t.Fatalf("round %d: %v", round, err)
				}
			}
			if n := c.Waiting(); n != 0 {
				t.Fatalf("round %d: %d are left", round, n)
			}
		}
		// The one that was cancelled can wait again, in every way.
		again := make(chan error)
		go func() { again <- w.Wait(context.Background()) }()
		done := w.Done()
		synctest.Wait()
		advance(t, c.AdvanceIndexed, 600)
		advance(t, c.AdvanceDurable, 600)
		if err := <-again; err != nil {
			t.Error(err)
		}
		<-done
		<-w.Done()
		if n := c.Waiting(); n != 0 {
			t.Errorf("%d are left", n)
		}
	})
}

func TestDoneAfterACancelledWait(t *testing.T) {
	c := NewCursors(0)
	c.Accept(10)
	w := c.Register(LevelIndexed, 5)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	advance(t, c.AdvanceIndexed, 5)
	<-w.Done()
	if err := w.Wait(ctx); err != nil {
		t.Errorf("an outcome must win over a context that ended: %v", err)
	}
}

// One of several who wait on a waiter gives up; the others, and those who hold
// its channel, must be woken all the same.
func TestCancelOfOneDoesNotLoseTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewCursors(0)
		c.Accept(10)
		shared, watched := c.Register(LevelIndexed, 5), c.Register(LevelIndexed, 6)
		done := watched.Done()
		ctx, cancel := context.WithCancel(t.Context())
		outcome := make(chan error, 2)
		other := make(chan error)
		go func() { outcome <- shared.Wait(ctx) }()
		go func() { outcome <- watched.Wait(ctx) }()
		go func() { other <- shared.Wait(context.Background()) }()
		synctest.Wait()
		cancel()
		for range cap(outcome) {
			if err := <-outcome; !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
		advance(t, c.AdvanceIndexed, 10)
		<-done
		if err := <-other; err != nil {
			t.Error(err)
		}
	})
}

func TestAdvanceWakesOnlyThoseConcerned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewCursors(0)
		c.Accept(100)
		woken := map[string]bool{}
		var mu sync.Mutex
		take := func() []string {
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			var names []string
			for name := range woken {
				names = append(names, name)
			}
			clear(woken)
			slices.Sort(names)
			return names
		}
		for l := range Level(levels) {
			for _, target := range []uint64{30, 10, 20} {
				go func() {
					if err := c.Register(l, target).Wait(context.Background()); err != nil {
						t.Error(err)
					}
					mu.Lock()
					defer mu.Unlock()
					woken[fmt.Sprint(l, " ", target)] = true
				}()
			}
		}
		synctest.Wait()
		for _, step := range []struct {
			f    func(uint64) error
			n    uint64
			want []string
		}{
			{c.AdvanceDurable, 9, nil},
			{c.AdvanceDurable, 25, []string{"durable 10", "durable 20"}},
			{c.AdvanceIndexed, 10, []string{"indexed 10", "visible 10"}},
			{c.AdvanceIndexed, 100, []string{"indexed 20", "indexed 30", "visible 20"}},
			{c.AdvanceDurable, 100, []string{"durable 30", "visible 30"}},
		} {
			advance(t, step.f, step.n)
			if got := take(); !slices.Equal(got, step.want) {
				t.Errorf("advance to %d woke %q, want %q", step.n, got, step.want)
			}
		}
	})
}

// Model: a heap of waiters against a sorted list.
func TestWaitHeapModel(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 4))
		c := NewCursors(0)
		var h waitHeap
		var model []*Waiter
		for step := range 400 {
			switch op := rng.IntN(10); {
			case op < 5:
				w := c.Register(LevelIndexed, uint64(step/2+rng.IntN(1+rng.IntN(50))))
				h.push(w)
				model = append(model, w)
			case len(model) == 0:
			case op < 8:
				i := rng.IntN(len(model))
				if w := model[i]; h.remove(w.pos) != w || w.pos != notWaiting {
					t.Fatalf("seed %d: another waiter was removed", seed)
				}
				model = slices.Delete(model, i, i+1)
			default:
				low := slices.MinFunc(model, func(a, b *Waiter) int { return int(a.target) - int(b.target) })
				w := h.remove(0)
				if w.target != low.target {
					t.Fatalf("seed %d: lowest target %d, want %d", seed, w.target, low.target)
				}
				model = slices.DeleteFunc(model, func(m *Waiter) bool { return m == w })
			}
			if len(h) != len(model) {
				t.Fatalf("seed %d: %d waiters, want %d", seed, len(h), len(model))
			}
			for i, e := range h {
				if e.waiter.pos != i || e.waiter.target != e.target {
					t.Fatalf("seed %d: entry %d is %+v", seed, i, e)
				}
			}
		}
	}
}

// Putters, advances, cancellations and a failure at the end: every wait ends,
// with the outcome that the cursors say.
func TestCursorsUnderLoad(t *testing.T) {
	const putters, each = 32, 200
	c := NewCursors(0)
	failure := errors.New("failure")
	var writer sync.Mutex
	var accepted uint64
	var done atomic.Bool
	var putting, advancing sync.WaitGroup
	for p := range uint64(putters) {
		putting.Go(func() {
			rng := rand.New(rand.NewPCG(p, 5))
			for range each {
				writer.Lock()
				accepted += 1 + rng.Uint64N(3)
				target := accepted
				c.Accept(target)
				w := c.Register(Level(rng.IntN(levels)), target)
				writer.Unlock()
				err := context.DeadlineExceeded
				for errors.Is(err, context.DeadlineExceeded) {
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rng.IntN(200))*time.Microsecond)
					err = w.Wait(ctx)
					cancel()
				}
				if err == nil && c.At(w.level) < target || err != nil && !errors.Is(err, failure) {
					t.Errorf("target %d, level at %d: %v", target, c.At(w.level), err)
				}
			}
		})
	}
	for i, f := range []func(uint64) error{c.AdvanceIndexed, c.AdvanceDurable} {
		advancing.Go(func() {
			for !done.Load() {
				if err := f(c.Accepted()); err != nil && !errors.Is(err, failure) {
					t.Error(err)
				}
				time.Sleep(time.Duration(i*20) * time.Microsecond)
			}
		})
	}
	go func() {
		time.Sleep(100 * time.Millisecond)
		c.Fail(failure)
	}()
	putting.Wait()
	done.Store(true)
	advancing.Wait()
	if c.Waiting() != 0 {
		t.Errorf("%d are left", c.Waiting())
	}
}

func TestUnknownLevelPanics(t *testing.T) {
	for name, f := range map[string]func(c *Cursors){
		"register": func(c *Cursors) { c.Register(levels, 1) },
		"at":       func(c *Cursors) { c.At(levels) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			f(NewCursors(0))
		}()
	}
}

// One advance that wakes 128 waiters, who wait in goroutines of their own,
// until all have returned.
func BenchmarkAdvance128Waiters(b *testing.B) {
	const waiters = 128
	c := NewCursors(0)
	var wg sync.WaitGroup
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		base := c.Accepted()
		c.Accept(base + waiters)
		if err := c.AdvanceIndexed(base + waiters); err != nil {
			b.Fatal(err)
		}
		for i := range uint64(waiters) {
			w := c.Register(LevelVisible, base+1+i)
			wg.Go(func() {
				if err := w.Wait(context.Background()); err != nil {
					b.Error(err)
				}
			})
		}
		for c.Waiting() < waiters {
			time.Sleep(10 * time.Microsecond)
		}
		b.StartTimer()
		if err := c.AdvanceDurable(base + waiters); err != nil {
			b.Fatal(err)
		}
		wg.Wait()
	}
}

// The same without the goroutines: what the advance itself costs.
func BenchmarkAdvance128Channels(b *testing.B) {
	const waiters = 128
	c := NewCursors(0)
	b.ReportAllocs()
	for b.Loop() {
		base := c.Accepted()
		c.Accept(base + waiters)
		for i := range uint64(waiters) {
			c.Register(LevelDurable, base+1+i).Done()
		}
		if err := c.AdvanceDurable(base + waiters); err != nil {
			b.Fatal(err)
		}
	}
}

// One advance that wakes nobody, beside 128 waiters.
func BenchmarkAdvanceBeside128Waiters(b *testing.B) {
	c := NewCursors(0)
	c.Accept(1 << 62)
	for i := range uint64(128) {
		c.Register(LevelDurable, 1<<62-i).Done()
	}
	b.ReportAllocs()
	for n := uint64(1); b.Loop(); n++ {
		if err := c.AdvanceDurable(n); err != nil {
			b.Fatal(err)
		}
	}
}
