package faultstore_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/memwal/memwal-go/objstore"
	"github.com/memwal/memwal-go/objstore/faultstore"
	"github.com/memwal/memwal-go/objstore/objstoretest"
)

// TestConformance: without a rule, or with rules that a store may follow, the
// store below is seen as it is.
func TestConformance(t *testing.T) {
	t.Run("NoRules", func(t *testing.T) {
		objstoretest.Run(t, func(*testing.T) objstore.Store { return faultstore.New(objstore.NewMemory(), 1) })
	})
	t.Run("Folder", func(t *testing.T) {
		objstoretest.Run(t, func(t *testing.T) objstore.Store {
			dir, err := objstore.NewFolder(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			s := faultstore.New(dir, 1)
			s.Add(faultstore.Rule{Count: -1, Detach: true})
			return s
		})
	})
	t.Run("Shuffled", func(t *testing.T) {
		objstoretest.Run(t, func(*testing.T) objstore.Store {
			s := faultstore.New(objstore.NewMemory(), 1)
			s.Add(faultstore.Rule{Count: -1, Shuffle: true})
			return objstore.WithRetry(s, objstore.RetryOptions{}) // yields each object once
		})
	})
}

// TestInjectedCountsWhatActed: each fault counts once when it acts, and not when
// it was planned in vain.
func TestInjectedCountsWhatActed(t *testing.T) {
	boom := errors.New("boom")
	ended := func() context.Context {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		return ctx
	}()
	type counts = map[faultstore.Fault]int
	for name, c := range map[string]struct {
		rules []faultstore.Rule
		calls func(s objstore.Store) // "there" exists, "empty" is empty
		want  counts
	}{
		"nothing": {nil, func(s objstore.Store) { _, _ = s.Get(context.Background(), "there") }, nil},
		"before": {[]faultstore.Rule{{Before: boom}, {Before: faultstore.Status(503), Count: -1}, {After: boom, Count: -1}}, func(s objstore.Store) {
			_, _ = s.Get(context.Background(), "there")
			_, _ = s.Get(context.Background(), "there")
			_ = s.Delete(context.Background(), "there")
			_, _ = s.Get(ended, "there")
		}, counts{faultstore.FaultBefore: 1, faultstore.StatusFault(503): 2}},
		"wrapped status": {[]faultstore.Rule{{Before: fmt.Errorf("proxy: %w", faultstore.Status(404))}}, func(s objstore.Store) {
			_, _ = s.Get(context.Background(), "there")
		}, counts{"status-404": 1}},
		"after": {[]faultstore.Rule{{After: faultstore.Status(500), Count: -1}}, func(s objstore.Store) {
			_, _ = s.Get(context.Background(), "absent")
			_ = s.Put(context.Background(), "x", body)
			_ = s.Put(ended, "x", body)
			for range s.List(context.Background(), "") {
				break // its consumer has had enough before the reply is lost
			}
			for _, err := range s.List(context.Background(), "") {
				_ = err
			}
		}, counts{faultstore.FaultAfter: 3}},
		"delay": {[]faultstore.Rule{{Delay: time.Second, Count: -1}}, func(s objstore.Store) {
			_, _ = s.Head(context.Background(), "there")
			_, _ = s.Head(ended, "there")
			_ = s.Delete(ended, "there")
		}, counts{faultstore.FaultDelay: 1}},
		"duplicate": {[]faultstore.Rule{{Duplicate: true, Count: -1}, {Skip: 2, Before: faultstore.Status(429), Count: -1}}, func(s objstore.Store) {
			_ = s.Put(context.Background(), "x", body)
			_ = s.Delete(context.Background(), "x")
			_ = s.Put(context.Background(), "x", body)
			_, _ = s.Get(context.Background(), "there") // nothing to a get
		}, counts{faultstore.FaultDuplicate: 2, "status-429": 2}},
		"ignored condition": {[]faultstore.Rule{{IgnoreCondition: true, Count: -1}}, func(s objstore.Store) {
			_, _ = s.PutIfAbsent(context.Background(), "new", body)
			_, _ = s.PutIfAbsent(context.Background(), "new", body)
			_ = s.Put(context.Background(), "new", body)
			_, _ = s.PutIfAbsent(context.Background(), "/bad", body)
		}, counts{faultstore.FaultIgnoreCondition: 1}},
		"truncate": {[]faultstore.Rule{{Truncate: 3, Count: -1}}, func(s objstore.Store) {
			_, _ = s.Get(context.Background(), "there")
			_, _ = s.GetRange(context.Background(), "there", 0, 1)
			_, _ = s.Get(context.Background(), "empty")
			_, _ = s.Get(context.Background(), "absent")
			_ = s.Put(context.Background(), "x", body)
		}, counts{faultstore.FaultTruncate: 2}},
		"late": {[]faultstore.Rule{{Late: time.Second, After: boom, Count: -1}, {Skip: 5, Before: faultstore.Status(503), Count: -1}}, func(s objstore.Store) {
			_, _ = s.PutIfAbsent(context.Background(), "new", body)
			_, _ = s.PutIfAbsent(context.Background(), "there", body) // not applied: it exists
			_ = s.Delete(context.Background(), "absent")
			_ = s.Delete(ended, "there")                                                               // never sent
			_, _ = s.Head(context.Background(), "there")                                               // After alone
			if err := s.Put(context.Background(), "x", body); !errors.Is(err, objstore.ErrThrottled) { // fails before
				t.Errorf("put: %v, want status 503", err)
			}
		}, counts{faultstore.FaultLate: 2, faultstore.FaultAfter: 1, "status-503": 1}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inner := objstore.NewMemory()
				for key, b := range map[string]objstore.Body{"there": body, "empty": nil} {
					if err := inner.Put(t.Context(), key, b); err != nil {
						t.Fatal(err)
					}
				}
				s := faultstore.New(inner, 1)
				s.Add(c.rules...)
				c.calls(s)
				s.Wait()
				injected(t, s, c.want)
				s.Injected()["mine"] = 1 // a copy
				s.Reset()
				injected(t, s, nil)
			})
		})
	}
}

func TestHoldCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := faultstore.New(objstore.NewMemory(), 1)
		hold := make(chan struct{})
		s.Add(faultstore.Rule{Count: -1, Hold: hold})
		go func() { _ = put(t, s, "a") }()
		synctest.Wait()
		injected(t, s, map[faultstore.Fault]int{faultstore.FaultHold: 1})
		close(hold)
		synctest.Wait()
		_ = put(t, s, "b") // nothing holds it any more
		injected(t, s, map[faultstore.Fault]int{faultstore.FaultHold: 1})
	})
}

// TestS06_LatePut: the reply comes at once and says that nobody knows, the put lands
// later, with the bytes that it had.
func TestS06_LatePut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := faultstore.New(objstore.NewMemory(), 1)
		var landed []faultstore.Request
		s.Add(faultstore.Rule{Late: time.Minute, OnApplied: func(r faultstore.Request) { landed = append(landed, r) }})
		data := []byte("early")
		start := time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		_, err := s.PutIfAbsent(ctx, "k", objstore.Body{data})
		if !errors.Is(err, objstore.ErrAmbiguous) || !errors.Is(err, faultstore.ErrInjected) || time.Since(start) != 0 {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		copy(data, "LATER")
		cancel() // the process dies
		time.Sleep(time.Minute - 1)
		if exists(t, s, "k") || len(s.Injected()) != 0 {
			t.Errorf("landed early; injected %v", s.Injected())
		}
		s.Wait()
		if got, err := s.Inner().Get(t.Context(), "k"); string(got) != "early" || err != nil || time.Since(start) != time.Minute {
			t.Errorf("landed: %q, %v, after %v", got, err, time.Since(start))
		}
		if log := s.Requests(); len(landed) != 1 || landed[0].Err != nil || !log[0].Applied || !errors.Is(log[0].Err, objstore.ErrAmbiguous) {
			t.Errorf("landed %+v, log: %+v", landed, log)
		}
		injected(t, s, map[faultstore.Fault]int{faultstore.FaultLate: 1})
	})
}

// TestFirstRuleWins, step by step.
func TestFirstRuleWins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := faultstore.New(objstore.NewMemory(), 1)
		first, second := errors.New("first"), errors.New("second")
		s.Add(
			faultstore.Rule{Ops: []objstore.Op{objstore.OpDelete}, Count: -1, Before: first},
			faultstore.Rule{Ops: []objstore.Op{objstore.OpPut}, Count: -1, Late: time.Second},
			faultstore.Rule{Ops: []objstore.Op{objstore.OpGet}, Count: -1, Truncate: 2, Delay: time.Second},
			faultstore.Rule{Ops: []objstore.Op{objstore.OpHead}, Count: -1, After: first},
			faultstore.Rule{Ops: []objstore.Op{objstore.OpList}, Count: -1, Drop: 1},
		)
		s.Add(
			faultstore.Rule{Ops: []objstore.Op{objstore.OpDelete}, Count: -1, Before: second},
			faultstore.Rule{Ops: []objstore.Op{objstore.OpPut}, Count: -1, Late: time.Hour},
			faultstore.Rule{Ops: []objstore.Op{objstore.OpGet}, Count: -1, Truncate: 5, Delay: time.Hour},
			faultstore.Rule{Ops: []objstore.Op{objstore.OpHead}, Count: -1, After: second},
			faultstore.Rule{Ops: []objstore.Op{objstore.OpList}, Count: -1, Drop: 1e-9},
		)
		start := time.Now()
		_ = s.Put(t.Context(), "k/1", body)
		s.Wait()
		if d := time.Since(start); d != time.Second {
			t.Errorf("late by %v", d)
		}
		if data, err := s.Get(t.Context(), "k/1"); string(data) != "01234567" || err != nil || time.Since(start) != 2*time.Second {
			t.Errorf("%q, %v, %v", data, err, time.Since(start))
		}
		if _, err := s.Head(t.Context(), "k/1"); !errors.Is(err, first) {
			t.Error(err)
		}
		if err := s.Delete(t.Context(), "k/1"); !errors.Is(err, first) {
			t.Error(err)
		}
		if keys, err := keysOf(t, s); len(keys) != 0 || err != nil {
			t.Errorf("%q, %v", keys, err)
		}
	})
}

// TestDetachedCountsAsLate only if its caller had gone before it was applied.
func TestDetachedCountsAsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := faultstore.New(objstore.NewMemory(), 1)
		s.Add(faultstore.Rule{Count: -1, Park: true, ParkReply: true, Detach: true, After: errors.New("boom")})
		ctx, cancel := context.WithCancel(t.Context())
		step := func() {
			synctest.Wait()
			if s.ReleaseOne() == 0 {
				t.Fatal("nothing is parked")
			}
			synctest.Wait()
		}
		go func() { _, _ = s.PutIfAbsent(ctx, "in time", body) }()
		step()
		cancel() // it is applied, its reply waits
		step()
		injected(t, s, nil) // nobody heard that reply
		ctx, cancel = context.WithCancel(t.Context())
		go func() { _, _ = s.PutIfAbsent(ctx, "late", body) }()
		synctest.Wait()
		cancel()
		step()
		step()
		injected(t, s, map[faultstore.Fault]int{faultstore.FaultLate: 1})
		go func() { _ = put(t, s, "heard") }()
		step()
		step()
		injected(t, s, map[faultstore.Fault]int{faultstore.FaultLate: 1, faultstore.FaultAfter: 1})
	})
}

// TestEndedContextSendsNothing: also a request that could outlive its caller.
func TestEndedContextSendsNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 { // no matter what a select picks
		s := faultstore.New(objstore.NewMemory(), 1)
		s.Add(faultstore.Rule{Count: -1, Detach: true})
		_, err := s.PutIfAbsent(ctx, "k", body)
		s.Wait()
		if !errors.Is(err, context.Canceled) || exists(t, s, "k") {
			t.Fatalf("%v, applied: %v", err, exists(t, s, "k"))
		}
	}
}

func TestLogIsBounded(t *testing.T) {
	s := faultstore.New(objstore.NewMemory(), 1)
	heads := func(n int) {
		for range n {
			_, _ = s.Head(t.Context(), "k")
		}
	}
	log := func(first, n int) {
		t.Helper()
		got := s.Requests()
		if len(got) != n || n > 0 && (got[0].Seq != uint64(first) || got[n-1].Seq != uint64(first+n-1) || !got[n-1].Done) {
			t.Errorf("%d requests, want %d from %d on", len(got), n, first)
		}
	}
	heads(1<<16 + 5)
	log(6, 1<<16)
	s.SetLogSize(10)
	log(1<<16-4, 10)
	heads(25)
	log(1<<16+21, 10)
	s.SetLogSize(0)
	heads(3)
	log(0, 0)
	s.SetLogSize(-1)
	heads(3)
	log(0, 0)
	s.SetLogSize(2)
	heads(3)
	log(1<<16+38, 2)

	// What waits is found all the same, also after a Reset.
	synctest.Test(t, func(t *testing.T) {
		s := faultstore.New(objstore.NewMemory(), 1)
		s.SetLogSize(0)
		s.Add(faultstore.Rule{Count: -1, Park: true})
		go func() { _ = put(t, s, "k") }()
		synctest.Wait()
		s.Reset()
		if p := s.Parked(); len(p) != 1 || p[0].Key != "k" || !s.Release(p[0].Seq) {
			t.Errorf("parked: %+v", p)
		}
		synctest.Wait()
	})
}

// TestRandomnessIgnoresInterleaving: what befalls the requests of a key is the same
// whatever other keys do meanwhile, and however many goroutines ask.
func TestRandomnessIgnoresInterleaving(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const keys, times = 40, 20
		// fates has each key's requests in their order, by goroutines that have
		// their share of the keys each.
		fates := func(seed uint64, order []int, goroutines int) string {
			s := faultstore.New(objstore.NewMemory(), seed)
			s.Add(faultstore.Chaos(0.2)...)
			s.SetLatency(faultstore.S3Like)
			all := make([][]string, keys) // each element is of one goroutine
			var wg sync.WaitGroup
			for g := range goroutines {
				wg.Go(func() {
					for _, key := range order {
						if key%goroutines != g {
							continue
						}
						start := time.Now()
						err := s.Put(t.Context(), fmt.Sprint("k", key), body)
						all[key] = append(all[key], fmt.Sprint(time.Since(start), err))
					}
				})
			}
			wg.Wait()
			s.Wait()
			return fmt.Sprint(all, s.Injected())
		}
		var order []int
		for i := range keys * times {
			order = append(order, i%keys)
		}
		want := fates(1, order, 1)
		if !strings.Contains(want, "status 503") || !strings.Contains(want, "late:") || want == fates(2, order, 1) {
			t.Error("nothing happened, or always the same")
		}
		shuffled := slices.Clone(order)
		rand.New(rand.NewPCG(1, 1)).Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		if fates(1, shuffled, 1) != want || fates(1, order, 4) != want {
			t.Error("the same requests in another order met other faults")
		}
	})
}

// TestChaos: with retries, all of it is survived, and all of it happens.
func TestChaos(t *testing.T) {
	if rules := append(faultstore.Chaos(0), faultstore.Chaos(-1)...); len(rules) != 0 {
		t.Errorf("no chance, but %v", rules)
	}
	synctest.Test(t, func(t *testing.T) {
		f := faultstore.New(objstore.NewMemory(), 7)
		remove := f.Add(faultstore.Chaos(0.1)...)
		s := objstore.WithRetry(f, objstore.RetryOptions{MaxAttempts: 50, MaxElapsed: time.Hour, Rand: func() float64 { return 0.7 }})
		const n = 300
		for i := range n {
			key := fmt.Sprintf("k/%03d", i)
			if err := put(t, s, key); err != nil && !errors.Is(err, objstore.ErrExists) { // its own, after a lost reply
				t.Fatal(err)
			}
			if got, err := s.Get(t.Context(), key); string(got) != string(body.Bytes()) || err != nil {
				t.Fatalf("%s: %q, %v", key, got, err)
			}
			if keys, err := keysOf(t, s); len(keys) != i+1 || err != nil {
				t.Fatalf("%d objects listed, %v, want %d", len(keys), err, i+1)
			}
		}
		f.Wait() // or a put might land after the delete
		for i := range n {
			if err := s.Delete(t.Context(), fmt.Sprintf("k/%03d", i)); err != nil {
				t.Fatal(err)
			}
		}
		f.Wait() // what lands late
		if keys, err := keysOf(t, s); len(keys) != 0 || err != nil {
			t.Errorf("left: %q, %v", keys, err)
		}
		got := f.Injected()
		for _, kind := range []faultstore.Fault{
			"status-429", "status-503", "status-500", "status-409", faultstore.FaultAfter, faultstore.FaultDelay,
			faultstore.FaultDuplicate, faultstore.FaultLate, faultstore.FaultUnorderedList, faultstore.FaultDoubledList,
		} {
			if got[kind] < 5 {
				t.Errorf("%s: %d times", kind, got[kind])
			}
			delete(got, kind)
		}
		if len(got) > 0 {
			t.Errorf("not in the description: %v", got)
		}
		remove()
		before := fmt.Sprint(f.Injected())
		for range 100 {
			_, _ = f.Head(t.Context(), "k")
		}
		if after := fmt.Sprint(f.Injected()); after != before {
			t.Errorf("removed rules went on: %s, then %s", before, after)
		}
	})
}

// TestRequestsCostLittle: a request without chance or latency makes no random
// numbers.
func TestRequestsCostLittle(t *testing.T) {
	inner := objstore.NewMemory()
	if err := inner.Put(t.Context(), "k", body); err != nil {
		t.Fatal(err)
	}
	allocs := func(s objstore.Store) float64 {
		return testing.AllocsPerRun(200, func() {
			if _, err := s.Head(t.Context(), "k"); err != nil {
				t.Fatal(err)
			}
		})
	}
	s := faultstore.New(inner, 1)
	s.SetLogSize(0)
	s.Add(faultstore.Rule{Count: -1, Ops: []objstore.Op{objstore.OpPut}, Chance: 0.5, Before: objstore.ErrThrottled})
	s.Add(faultstore.Rule{Count: -1, Key: "other/*", Delay: time.Hour})
	if d := allocs(s) - allocs(inner); d > 3 { // the request, its plan, the call
		t.Errorf("%v allocations more than the store below", d)
	}
}
