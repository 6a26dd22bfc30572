package faultstore_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/memwal/memwal-go/objstore"
	"github.com/memwal/memwal-go/objstore/faultstore"
)

var body = objstore.Body{[]byte("0123456789")}

func put(t *testing.T, s objstore.Store, key string) error {
	t.Helper()
	_, err := s.PutIfAbsent(t.Context(), key, body)
	return err
}

func exists(t *testing.T, s *faultstore.Store, key string) bool {
	t.Helper()
	_, err := s.Inner().Head(t.Context(), key)
	return err == nil
}

func TestRulesSelect(t *testing.T) {
	boom := errors.New("boom")
	s := faultstore.New(objstore.NewMemory(), 1)
	remove := s.Add(faultstore.Rule{Ops: []objstore.Op{objstore.OpPutIfAbsent, objstore.OpPut}, Key: "wal/*", Skip: 1, Count: 2, Before: boom,
		Match: func(r faultstore.Request) bool { return r.Bytes == 10 }})
	var failed []string
	for _, key := range []string{"wal/1", "manifest/1", "wal/2", "wal/deep/3", "wal/3", "wal/4"} {
		if err := put(t, s, key); errors.Is(err, boom) {
			failed = append(failed, key)
		} else if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Get(t.Context(), "wal/1"); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(failed, []string{"wal/2", "wal/3"}) {
		t.Errorf("failed: %q", failed)
	}
	remove()
	s.Add(faultstore.Rule{Count: -1, Before: boom})
	for range 3 {
		if err := s.Delete(t.Context(), "x"); !errors.Is(err, boom) {
			t.Error(err)
		}
	}
	s.Clear()
	if err := s.Delete(t.Context(), "x"); err != nil {
		t.Error(err)
	}
}

func TestFaults(t *testing.T) {
	boom := errors.New("boom")
	ctx := t.Context()
	s := faultstore.New(objstore.NewMemory(), 1)

	s.Add(faultstore.Rule{Before: boom})
	if err := put(t, s, "before"); !errors.Is(err, boom) || exists(t, s, "before") {
		t.Errorf("before: %v, applied: %v", err, exists(t, s, "before"))
	}
	s.Add(faultstore.Rule{After: boom})
	if err := put(t, s, "after"); !errors.Is(err, boom) || !exists(t, s, "after") {
		t.Errorf("after: %v, applied: %v", err, exists(t, s, "after"))
	}
	s.Add(faultstore.Rule{IgnoreCondition: true})
	if err := put(t, s, "after"); err != nil {
		t.Errorf("ignored condition: %v", err)
	}
	if err := put(t, s, "after"); !errors.Is(err, objstore.ErrExists) {
		t.Errorf("condition: %v", err)
	}
	s.Add(faultstore.Rule{Truncate: 4})
	if data, err := s.Get(ctx, "after"); string(data) != "012345" || err != nil {
		t.Errorf("truncated: %q, %v", data, err)
	}
	s.Add(faultstore.Rule{Truncate: 99})
	if data, err := s.GetRange(ctx, "after", 0, 5); len(data) != 0 || err != nil {
		t.Errorf("truncated: %q, %v", data, err)
	}
	s.Add(faultstore.Rule{After: boom})
	n := 0
	var last error
	for _, err := range s.List(ctx, "") {
		n++
		last = err
	}
	if n != 2 || !errors.Is(last, boom) {
		t.Errorf("listing: %d elements, the last %v", n, last)
	}
	s.Add(faultstore.Rule{Before: boom})
	if _, err := s.Head(ctx, "after"); !errors.Is(err, boom) {
		t.Errorf("head: %v", err)
	}

	var c objstore.Counters
	d := faultstore.New(objstore.WithCounters(objstore.NewMemory(), &c), 1)
	d.Add(faultstore.Rule{Duplicate: true})
	if err := put(t, d, "twice"); err != nil || c.Snapshot().PutIfAbsent.Requests != 2 {
		t.Errorf("duplicate: %v, %+v", err, c.Snapshot())
	}
}

func TestStatus(t *testing.T) {
	for code, class := range map[int]error{403: objstore.ErrPermission, 404: objstore.ErrNotExist, 409: objstore.ErrConflict,
		412: objstore.ErrExists, 429: objstore.ErrThrottled, 503: objstore.ErrThrottled, 500: objstore.ErrAmbiguous, 504: objstore.ErrAmbiguous, 418: faultstore.ErrInjected} {
		s := faultstore.New(objstore.NewMemory(), 1)
		s.Add(faultstore.Rule{Before: faultstore.Status(code)})
		_, err := s.Get(t.Context(), "k")
		if !errors.Is(err, class) || !errors.Is(err, faultstore.ErrInjected) {
			t.Errorf("%d: %v", code, err)
		}
	}
}

func TestHooksAndLog(t *testing.T) {
	s := faultstore.New(objstore.NewMemory(), 1)
	var calls []string
	s.Add(faultstore.Rule{Count: -1,
		OnRequest: func(r faultstore.Request) {
			calls = append(calls, fmt.Sprintf("request %d %s %v %v", r.Seq, r.Key, r.Applied, exists(t, s, r.Key)))
		},
		OnApplied: func(r faultstore.Request) {
			calls = append(calls, fmt.Sprintf("applied %d %s %v %v %v", r.Seq, r.Key, r.Applied, exists(t, s, r.Key), r.Err != nil))
		}})
	s.Add(faultstore.Rule{OnRequest: func(faultstore.Request) { calls = append(calls, "too") }})
	_ = put(t, s, "k")
	_ = put(t, s, "k")
	want := []string{"request 1 k false false", "too", "applied 1 k true true false", "request 2 k false true", "applied 2 k true true true"}
	if !slices.Equal(calls, want) {
		t.Errorf("calls %q, want %q", calls, want)
	}
	log := s.Requests()
	if len(log) != 2 || !log[0].Done || log[0].Err != nil || !log[1].Applied || !errors.Is(log[1].Err, objstore.ErrExists) || log[1].Bytes != 10 {
		t.Errorf("log: %+v", log)
	}
	s.Reset()
	_ = put(t, s, "k")
	if log := s.Requests(); len(log) != 1 || log[0].Seq != 3 {
		t.Errorf("log after Reset: %+v", log)
	}
}

func TestDelayAndHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := faultstore.New(objstore.NewMemory(), 1)
		hold := make(chan struct{})
		s.Add(faultstore.Rule{Delay: time.Minute, Hold: hold})
		start := time.Now()
		done := make(chan error)
		go func() { done <- put(t, s, "k") }()
		time.Sleep(time.Hour)
		synctest.Wait()
		if exists(t, s, "k") {
			t.Error("applied while it is held")
		}
		close(hold)
		if err := <-done; err != nil || time.Since(start) != time.Hour {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		s.Add(faultstore.Rule{Delay: time.Minute})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.PutIfAbsent(ctx, "gone", body); !errors.Is(err, objstore.ErrAmbiguous) || !errors.Is(err, context.DeadlineExceeded) || exists(t, s, "gone") {
			t.Errorf("given up: %v", err)
		}
	})
}

// TestS06_DetachedRequestLandsLate: the put of a caller that is gone is applied later,
// with the bytes that it had.
func TestS06_DetachedRequestLandsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := faultstore.New(objstore.NewMemory(), 1)
		hold := make(chan struct{})
		s.Add(faultstore.Rule{Hold: hold, Detach: true})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		data := []byte("early")
		_, err := s.PutIfAbsent(ctx, "k", objstore.Body{data})
		if !errors.Is(err, objstore.ErrAmbiguous) || exists(t, s, "k") {
			t.Errorf("%v", err)
		}
		copy(data, "LATER")
		close(hold)
		s.Wait()
		if got, err := s.Inner().Get(t.Context(), "k"); string(got) != "early" || err != nil {
			t.Errorf("landed: %q, %v", got, err)
		}
		if log := s.Requests(); !log[0].Applied || !errors.Is(log[0].Err, objstore.ErrAmbiguous) {
			t.Errorf("log: %+v", log)
		}
	})
}

func TestParkedRequestsGoBySeed(t *testing.T) {
	order := func(seed uint64, reply bool) (order []string) {
		synctest.Test(t, func(t *testing.T) {
			s := faultstore.New(objstore.NewMemory(), seed)
			s.Add(faultstore.Rule{Count: -1, Park: !reply, ParkReply: reply, OnApplied: func(r faultstore.Request) {
				if !reply {
					order = append(order, r.Key)
				}
			}})
			for i := range 8 {
				go func() {
					if err := put(t, s, fmt.Sprint(i)); err != nil {
						t.Error(err)
					}
					if reply {
						order = append(order, fmt.Sprint(i))
					}
				}()
			}
			synctest.Wait()
			for _, r := range s.Parked() {
				if r.Applied != reply || exists(t, s, r.Key) != reply {
					t.Errorf("parked: %+v", r)
				}
			}
			for s.ReleaseOne() != 0 {
				synctest.Wait()
			}
		})
		return order
	}
	for _, reply := range []bool{false, true} {
		distinct := make(map[string]bool)
		for seed := range uint64(5) {
			first := order(seed, reply)
			if again := order(seed, reply); len(first) != 8 || !slices.Equal(first, again) {
				t.Errorf("seed %d: %v, then %v", seed, first, again)
			}
			distinct[fmt.Sprint(first)] = true
		}
		if len(distinct) < 3 {
			t.Errorf("5 seeds gave %d orders", len(distinct))
		}
	}
	synctest.Test(t, func(t *testing.T) {
		s := faultstore.New(objstore.NewMemory(), 1)
		s.Add(faultstore.Rule{Count: 2, Park: true})
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _, _ = s.PutIfAbsent(ctx, "a", body) }()
		synctest.Wait()
		cancel()
		synctest.Wait()
		if s.Release(1) || len(s.Parked()) != 0 {
			t.Error("a request whose caller is gone is still parked")
		}
		go func() { _ = put(t, s, "b") }()
		synctest.Wait()
		if !s.Release(2) || s.Release(2) {
			t.Error("Release")
		}
		synctest.Wait()
		if exists(t, s, "a") || !exists(t, s, "b") {
			t.Error("applied")
		}
	})
}

func TestLatency(t *testing.T) {
	times := func(seed uint64) (d []time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			s := faultstore.New(objstore.NewMemory(), seed)
			s.SetLatency(faultstore.Latency{P50: 28 * time.Millisecond, P99: 67 * time.Millisecond}, objstore.OpPutIfAbsent)
			for i := range 2000 {
				start := time.Now()
				_ = put(t, s, fmt.Sprint(i))
				d = append(d, time.Since(start))
				start = time.Now()
				_, _ = s.Get(t.Context(), fmt.Sprint(i))
				if time.Since(start) != 0 {
					t.Fatal("gets have no latency")
				}
			}
		})
		return d
	}
	d := times(1)
	if !slices.Equal(d, times(1)) || slices.Equal(d, times(2)) {
		t.Error("the latency is not a function of the seed")
	}
	slices.Sort(d)
	for q, want := range map[float64]float64{0.5: 28, 0.99: 67} {
		got := d[int(q*float64(len(d)))].Seconds() * 1000
		if math.Abs(got-want) > want/8 {
			t.Errorf("quantile %v is %.1f ms, want %v", q, got, want)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		s := faultstore.New(objstore.NewMemory(), 1)
		s.SetLatency(faultstore.Latency{P50: time.Second, Bandwidth: 10})
		start := time.Now()
		_ = put(t, s, "k") // 1 s and 10 bytes
		_, _ = s.Get(t.Context(), "k")
		if d := time.Since(start); d != 4*time.Second {
			t.Errorf("put and get took %v, want 4 s", d)
		}
	})
}

func TestChance(t *testing.T) {
	run := func(seed uint64) (failed int) {
		s := faultstore.New(objstore.NewMemory(), seed)
		s.Add(faultstore.Rule{Chance: 0.25, Count: -1, Before: objstore.ErrThrottled})
		for i := range 1000 {
			if put(t, s, fmt.Sprint(i)) != nil {
				failed++
			}
		}
		return failed
	}
	a, b := run(3), run(3)
	if a != b || a < 200 || a > 300 {
		t.Errorf("%d and %d of 1000 failed, want about 250, the same", a, b)
	}
}
