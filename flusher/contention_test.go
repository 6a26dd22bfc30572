package flusher

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/memwal/memwal-go/dispatcher"
	"github.com/memwal/memwal-go/internal/manifest"
	"github.com/memwal/memwal-go/internal/wal"
	"github.com/memwal/memwal-go/memtable"
	"github.com/memwal/memwal-go/objstore"
)

// dead is the header of an entry that a fenced predecessor left behind.
func dead(n uint64) wal.Header {
	return wal.Header{Epoch: rigEpoch - 1, PutID: testID(1000 + n), PrevPutID: testID(999 + n), FirstRow: 7, Generation: 1}
}

func TestF13_DeadObjectIsPassedBy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.plant(2, dead(1))
		r.plant(3, wal.Header{Epoch: rigEpoch - 1, PutID: testID(500), Fence: true})
		r.put(3)
		r.wantDurable(3)
		r.wantLog(2, logged{4, 1, 0, 3})
		time.Sleep(time.Second)
		r.put(2)
		r.wantDurable(5)
		r.wantLog(2, logged{4, 1, 0, 3}, logged{5, 1, 3, 5})
		if got := r.flusher.Stats(); got.Reissued != 2 || got.Entries != 2 {
			t.Errorf("%d put again, %d entries", got.Reissued, got.Entries)
		}
		r.wantAlive()
	})
}

// TestF13_TheWholeWindowGoesAbove has a dead object in the middle of the window:
// what landed behind it chains from an entry that is put again, so it is put
// again, too, once nothing is in flight.
func TestF13_TheWholeWindowGoesAbove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c *Config) { c.FlushBytes = 1 })
		r.plant(3, dead(1))
		g := r.store.hold()
		for range 4 { // positions 2 to 5
			r.put(1)
			synctest.Wait()
		}
		g.open(3, 5)
		r.wantDurable(0)
		g.open(2)
		r.wantDurable(1)
		r.put(1) // there would be room for it
		synctest.Wait()
		if n := len(r.store.requests()); n != 4 {
			t.Fatalf("%d puts: one was sent behind a dead object, or before the puts in flight were resolved", n)
		}
		g.open(6, 7, 8, 9)
		r.wantDurable(1)
		g.open(4)
		r.wantDurable(5)
		r.wantLog(3, logged{2, 1, 0, 1}, logged{6, 1, 1, 2}, logged{7, 1, 2, 3}, logged{8, 1, 3, 4}, logged{9, 1, 4, 5})
		if got := r.flusher.Stats(); got.Entries != 5 || got.Reissued != 3 {
			t.Errorf("%d entries and %d put again, want 5 and 3", got.Entries, got.Reissued)
		}
		r.wantAlive()
	})
}

// TestF13_AnyFaults runs random loads over a store with dead objects, lost
// replies, passing failures, and delays.
func TestF13_AnyFaults(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { anyFaults(t, rand.New(rand.NewPCG(seed, 1))) })
		})
	}
}

func anyFaults(t *testing.T, rng *rand.Rand) {
	r := newRig(t, func(c *Config) {
		c.FlushBytes, c.MaxInFlight = int64(1+rng.IntN(5))*rowBytes, 1+rng.IntN(5)
		// As far as possible the seed gives the same history, so there is no jitter. An
		// unlucky row of faults must not end the writer.
		c.Store = objstore.WithRetry(c.Store.(objstore.Store), objstore.RetryOptions{
			Rand: func() float64 { return 1 }, MaxAttempts: 100, MaxElapsed: time.Hour})
	})
	for pos := uint64(2); pos < 60; pos++ {
		if rng.IntN(4) == 0 {
			r.plant(pos, dead(pos))
		}
	}
	var mu sync.Mutex
	sums := make(map[uint64]uint32)
	draw := func(n int) int {
		mu.Lock()
		defer mu.Unlock()
		return rng.IntN(n)
	}
	r.store.onPut = func(_ context.Context, _ uint64, apply func() (objstore.PutResult, error)) (objstore.PutResult, error) {
		time.Sleep(time.Duration(draw(50)) * time.Millisecond)
		switch draw(8) {
		case 0:
			return objstore.PutResult{}, &objstore.Error{Class: objstore.ErrThrottled}
		case 1:
			apply()
			return objstore.PutResult{}, &objstore.Error{Class: objstore.ErrAmbiguous}
		case 2:
			return objstore.PutResult{}, &objstore.Error{Class: objstore.ErrConflict}
		}
		return apply()
	}
	var end uint64
	for range 60 {
		end = r.put(1 + draw(4))
		if draw(10) == 0 {
			r.freeze()
		}
		time.Sleep(time.Duration(draw(30)) * time.Millisecond)
	}
	if err := r.cursors.Register(memtable.LevelDurable, end).Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	entries, _ := r.log()
	if n := len(entries); n == 0 || entries[n-1].end != end {
		t.Errorf("the log ends with %v, %d rows were acknowledged", entries[max(0, n-1):], end)
	}
	for _, p := range r.store.requests() {
		if sum, again := sums[p.pos]; again && sum != p.sum {
			t.Errorf("position %d was put again with other bytes", p.pos)
		}
		sums[p.pos] = p.sum
	}
}

// TestPositionEmptied has the store say that a position is taken, and then that
// nothing is there: it was recycled meanwhile.
func TestPositionEmptied(t *testing.T) {
	for name, tc := range map[string]struct{ owner, want error }{
		"still ours":   {nil, errEmptied},
		"fenced":       {errFencedAway, manifest.ErrFenced},
		"check failed": {&objstore.Error{Class: objstore.ErrAmbiguous}, objstore.ErrAmbiguous},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, nil)
				r.onCheck(func(context.Context) error { return tc.owner })
				r.store.onPut = func(context.Context, uint64, func() (objstore.PutResult, error)) (objstore.PutResult, error) {
					return objstore.PutResult{}, &objstore.Error{Class: objstore.ErrExists}
				}
				r.put(1)
				err := r.failure()
				if !errors.Is(err, tc.want) {
					t.Errorf("failure: %v, want %v", err, tc.want)
				}
				if e, ok := errors.AsType[*AppendError](err); ok && (e.Position != 2 || !errors.Is(err, ErrPersistence)) || ok == (tc.want == manifest.ErrFenced) {
					t.Errorf("failure: %v", err)
				}
				r.put(1)
				time.Sleep(time.Hour)
				r.wantDurable(0)
				if n := len(r.store.requests()); n != 1 {
					t.Errorf("%d puts: the position must not be put again", n)
				}
			})
		})
	}
}

func TestF12_HigherEpochFences(t *testing.T) {
	for name, h := range map[string]wal.Header{
		"fence": {Epoch: rigEpoch + 5, PutID: testID(900), PrevPutID: testID(1), Fence: true},
		"entry": {Epoch: rigEpoch + 5, PutID: testID(901), PrevPutID: testID(900), Generation: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, func(c *Config) { c.FlushBytes = 1 })
				g := r.store.hold()
				for range 3 {
					r.put(1)
					synctest.Wait()
				}
				r.plant(3, h)
				g.open(4) // it landed behind the fence, and must not count
				g.open(2)
				g.open(3)
				err := r.failure()
				if fenced, ok := errors.AsType[*manifest.FencedError](err); !ok || fenced.Theirs.Epoch != rigEpoch+5 || fenced.Ours.Epoch != rigEpoch {
					t.Errorf("failure: %v", err)
				}
				if errors.Is(err, ErrPersistence) {
					t.Errorf("a fence is no failure to persist: %v", err)
				}
				r.put(1)
				r.flusher.Demand(4)
				time.Sleep(time.Hour)
				r.wantDurable(1)
				if n := len(r.store.requests()); n != 3 {
					t.Errorf("%d puts: a fenced writer goes on", n)
				}
			})
		})
	}
}

func TestTerminalFailures(t *testing.T) {
	fail := func(err error) func(context.Context, uint64, func() (objstore.PutResult, error)) (objstore.PutResult, error) {
		return func(_ context.Context, pos uint64, apply func() (objstore.PutResult, error)) (objstore.PutResult, error) {
			if pos == 3 {
				return objstore.PutResult{}, err
			}
			time.Sleep(time.Second)
			return apply()
		}
	}
	for name, tc := range map[string]struct {
		fail error
		get  error
		puts int // of position 3
		want error
	}{
		"permission":        {&objstore.Error{Class: objstore.ErrPermission}, nil, 1, objstore.ErrPermission},
		"retries exhausted": {&objstore.Error{Class: objstore.ErrThrottled}, nil, 5, objstore.ErrThrottled},
		"object unreadable": {&objstore.Error{Class: objstore.ErrExists}, &objstore.Error{Class: objstore.ErrPermission}, 1, objstore.ErrPermission},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, func(c *Config) {
					c.FlushBytes = 1
					c.Store = objstore.WithRetry(c.Store.(objstore.Store), objstore.RetryOptions{MaxAttempts: 5})
				})
				r.store.onPut = fail(tc.fail)
				r.store.onGet = func(uint64) error { return tc.get }
				r.put(1)
				r.wantDurable(0)
				time.Sleep(time.Second)
				r.wantDurable(1)
				for range 3 { // positions 3 to 5
					r.put(1)
					synctest.Wait()
				}
				for r.cursors.Err() == nil {
					time.Sleep(time.Second)
				}
				err := r.failure()
				if e, ok := errors.AsType[*AppendError](err); !ok || e.Position != 3 || !errors.Is(err, ErrPersistence) || !errors.Is(err, tc.want) {
					t.Errorf("failure: %v", err)
				}
				r.put(1)
				r.flusher.Demand(5)
				time.Sleep(time.Hour)
				r.wantDurable(1)
				var puts int
				for _, p := range r.store.requests() {
					if p.pos > 5 {
						t.Errorf("an append at %d after the failure", p.pos)
					}
					if p.pos == 3 {
						puts++
					}
				}
				if puts != tc.puts {
					t.Errorf("%d puts at the position, want %d", puts, tc.puts)
				}
			})
		})
	}
}

// TestDamagedObjectAtThePosition is not taken for a dead one.
func TestDamagedObjectAtThePosition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		if _, err := r.store.Store.PutIfAbsent(t.Context(), rigDir+wal.Name(2), objstore.Body{[]byte("damaged")}); err != nil {
			t.Fatal(err)
		}
		r.put(1)
		if err := r.failure(); !errors.Is(err, ErrPersistence) || !errors.Is(err, wal.ErrCorrupt) {
			t.Errorf("failure: %v", err)
		}
	})
}

// panicky is a log handler that panics.
type panicky struct{ slog.Handler }

func (panicky) Enabled(context.Context, slog.Level) bool  { return true }
func (panicky) Handle(context.Context, slog.Record) error { panic("injected") }

// TestG11_PanicIsTold has panics in the task, in the goroutines of its requests, and
// in what is called there that is not ours.
func TestG11_PanicIsTold(t *testing.T) {
	for name, set := range map[string]func(r *rig){
		"tracer of a put that starts": func(r *rig) {
			r.flusher.cfg.OnAppend = func(context.Context, Append) (context.Context, func(AppendResult)) { panic("injected") }
		},
		"tracer of a put that has landed": func(r *rig) {
			r.flusher.cfg.OnAppend = func(ctx context.Context, _ Append) (context.Context, func(AppendResult)) {
				return ctx, func(AppendResult) { panic("injected") }
			}
		},
		"log of an ownership check": func(r *rig) {
			time.Sleep(time.Minute)
			r.flusher.cfg.Logger = slog.New(panicky{})
		},
		"task": func(r *rig) { r.onLive(func() { panic("injected") }) },
		"put": func(r *rig) {
			r.store.onPut = func(context.Context, uint64, func() (objstore.PutResult, error)) (objstore.PutResult, error) {
				panic("injected")
			}
		},
		"ownership check": func(r *rig) {
			time.Sleep(time.Minute)
			r.onCheck(func(context.Context) error { panic("injected") })
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, nil)
				set(r)
				r.put(1)
				if p, ok := errors.AsType[*dispatcher.PanicError](r.failure()); !ok || p.Value != "injected" {
					t.Errorf("failure: %v", r.failure())
				}
				r.put(1) // nothing hangs
				r.flusher.Demand(2)
				if err := r.flusher.Stop(); err == nil {
					t.Error("Stop hides the panic")
				}
				r.wantDurable(0)
			})
		})
	}
}
