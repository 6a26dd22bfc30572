package objstore_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/memwal/memwal-go/objstore"
	"github.com/memwal/memwal-go/objstore/faultstore"
)

var body = objstore.Body{[]byte("content")}

// jitterless makes every pause as long as it can be.
func jitterless() float64 { return 1 }

func TestS01_RetryWaitsAndTriesAgain(t *testing.T) {
	for _, fault := range []error{
		faultstore.Status(http.StatusTooManyRequests), faultstore.Status(http.StatusServiceUnavailable),
		faultstore.Status(http.StatusConflict), faultstore.Status(http.StatusInternalServerError), errors.New("unknown"),
	} {
		synctest.Test(t, func(t *testing.T) {
			f := faultstore.New(objstore.NewMemory(), 1)
			f.Add(faultstore.Rule{Ops: []objstore.Op{objstore.OpPutIfAbsent}, Count: 3, Before: fault})
			var pauses []time.Duration
			s := objstore.WithRetry(f, objstore.RetryOptions{
				MinBackoff: 100 * time.Millisecond, Rand: jitterless,
				OnRetry: func(r objstore.Retry) { pauses = append(pauses, r.Pause) },
			})
			start := time.Now()
			if _, err := s.PutIfAbsent(t.Context(), "k", body); err != nil {
				t.Fatalf("%v: %v", fault, err)
			}
			if got, want := fmt.Sprint(pauses), "[100ms 200ms 400ms]"; got != want {
				t.Errorf("%v: pauses %s, want %s", fault, got, want)
			}
			if waited := time.Since(start); waited != 700*time.Millisecond {
				t.Errorf("%v: waited %v", fault, waited)
			}
			if n := len(f.Requests()); n != 4 {
				t.Errorf("%v: %d requests, want 4", fault, n)
			}
		})
	}
}

func TestS01_RetryLeavesAnswersAlone(t *testing.T) {
	for _, class := range []error{objstore.ErrExists, objstore.ErrNotExist, objstore.ErrPermission, objstore.ErrInvalid, objstore.ErrUnusable} {
		synctest.Test(t, func(t *testing.T) {
			f := faultstore.New(objstore.NewMemory(), 1)
			f.Add(faultstore.Rule{Count: -1, Before: &objstore.Error{Class: class}})
			_, err := objstore.WithRetry(f, objstore.RetryOptions{}).PutIfAbsent(t.Context(), "k", body)
			if !errors.Is(err, class) || objstore.MaybeApplied(err) || len(f.Requests()) != 1 {
				t.Errorf("%v: %v after %d requests", class, err, len(f.Requests()))
			}
		})
	}
}

// TestS01_LostReplyThenExists: the retry of a put that was applied finds its own
// object, and says so, so that the caller can look whose it is.
func TestS01_LostReplyThenExists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := faultstore.New(objstore.NewMemory(), 1)
		f.Add(faultstore.Rule{After: faultstore.Status(http.StatusGatewayTimeout)})
		_, err := objstore.WithRetry(f, objstore.RetryOptions{}).PutIfAbsent(t.Context(), "k", body)
		if !errors.Is(err, objstore.ErrExists) || errors.Is(err, objstore.ErrAmbiguous) {
			t.Errorf("got %v, want a plain ErrExists", err)
		}
		if got, err := f.Inner().Get(t.Context(), "k"); err != nil || string(got) != "content" {
			t.Errorf("the object is %q, %v", got, err)
		}
	})
}

// TestRetryRemembersAmbiguity: a definite failure of the last attempt does not
// undo what an earlier one may have done.
func TestRetryRemembersAmbiguity(t *testing.T) {
	for _, last := range []error{faultstore.Status(http.StatusTooManyRequests), faultstore.Status(http.StatusForbidden)} {
		synctest.Test(t, func(t *testing.T) {
			f := faultstore.New(objstore.NewMemory(), 1)
			f.Add(faultstore.Rule{Before: objstore.ErrAmbiguous})
			f.Add(faultstore.Rule{Count: -1, Before: last})
			_, err := objstore.WithRetry(f, objstore.RetryOptions{MaxAttempts: 3}).PutIfAbsent(t.Context(), "k", body)
			if !errors.Is(err, objstore.ErrAmbiguous) || !errors.Is(err, faultstore.ErrInjected) {
				t.Errorf("after ambiguous, then %v: %v", last, err)
			}
		})
	}
}

func TestRetryIsBounded(t *testing.T) {
	for name, c := range map[string]struct {
		o        objstore.RetryOptions
		attempts int
		within   time.Duration
	}{
		"attempts": {objstore.RetryOptions{MaxAttempts: 4, MinBackoff: time.Second, MaxBackoff: 2 * time.Second}, 4, 5 * time.Second},
		"elapsed":  {objstore.RetryOptions{MaxAttempts: 1000, MaxElapsed: 10 * time.Second, MinBackoff: time.Second, MaxBackoff: 2 * time.Second}, 6, 10 * time.Second},
		"one":      {objstore.RetryOptions{MaxAttempts: 1}, 1, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := faultstore.New(objstore.NewMemory(), 1)
			f.Add(faultstore.Rule{Count: -1, Before: objstore.ErrThrottled})
			c.o.Rand = jitterless
			start := time.Now()
			_, err := objstore.WithRetry(f, c.o).Get(t.Context(), "k")
			if n := len(f.Requests()); n != c.attempts {
				t.Errorf("%s: %d attempts, want %d", name, n, c.attempts)
			}
			if d := time.Since(start); d > c.within {
				t.Errorf("%s: took %v", name, d)
			}
			if re, ok := errors.AsType[*objstore.RetryError](err); !errors.Is(err, objstore.ErrThrottled) || ok != (c.attempts > 1) || ok && re.Attempts != c.attempts {
				t.Errorf("%s: error %v", name, err)
			}
		})
	}
}

func TestRetryTimesRequestsOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := faultstore.New(objstore.NewMemory(), 1)
		never := make(chan struct{})
		f.Add(faultstore.Rule{Ops: []objstore.Op{objstore.OpPutIfAbsent, objstore.OpList}, Count: 2, Hold: never})
		s := objstore.WithRetry(f, objstore.RetryOptions{RequestTimeout: 3 * time.Second, MinBackoff: time.Millisecond})
		start := time.Now()
		if _, err := s.PutIfAbsent(t.Context(), "k", body); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(start); d < 6*time.Second || d > 7*time.Second {
			t.Errorf("two time-outs of 3 s took %v", d)
		}
		f.Add(faultstore.Rule{Ops: []objstore.Op{objstore.OpList}, Hold: never})
		n := 0
		for _, err := range s.List(t.Context(), "") {
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Hour) // the consumer's time does not count
			n++
		}
		if n != 1 {
			t.Errorf("%d objects", n)
		}
		// More bytes get more time.
		f.Add(faultstore.Rule{Ops: []objstore.Op{objstore.OpPut}, Count: -1, Hold: never})
		start = time.Now()
		one := objstore.WithRetry(f, objstore.RetryOptions{RequestTimeout: 3 * time.Second, MaxAttempts: 1})
		if err := one.Put(t.Context(), "k", objstore.Body{make([]byte, 4<<20)}); !errors.Is(err, objstore.ErrAmbiguous) {
			t.Errorf("timed out put: %v", err)
		}
		if d := time.Since(start); d != 7*time.Second {
			t.Errorf("a put of 4 MiB timed out after %v, want 7 s", d)
		}
	})
}

func TestRetryEndsWithItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := faultstore.New(objstore.NewMemory(), 1)
		f.Add(faultstore.Rule{Count: -1, Before: objstore.ErrThrottled})
		s := objstore.WithRetry(f, objstore.RetryOptions{MinBackoff: time.Hour, MaxBackoff: time.Hour, MaxElapsed: 24 * time.Hour, Rand: jitterless})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		_, err := s.Head(ctx, "k")
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, objstore.ErrThrottled) || time.Since(start) != time.Second {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		if n := len(f.Requests()); n != 1 {
			t.Errorf("%d requests", n)
		}
	})
}

func TestRetryJitterIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := faultstore.New(objstore.NewMemory(), 1)
		f.Add(faultstore.Rule{Count: -1, Before: objstore.ErrThrottled})
		low, high := 0, 0
		s := objstore.WithRetry(f, objstore.RetryOptions{MaxAttempts: 201, MinBackoff: time.Second, MaxBackoff: time.Second, MaxElapsed: time.Hour,
			OnRetry: func(r objstore.Retry) {
				if r.Pause < 0 || r.Pause >= time.Second {
					t.Errorf("pause %v", r.Pause)
				}
				if r.Pause < time.Second/4 {
					low++
				}
				if r.Pause > time.Second*3/4 {
					high++
				}
			}})
		_, _ = s.Get(t.Context(), "k")
		if low < 20 || high < 20 {
			t.Errorf("of 200 pauses %d are in the lowest and %d in the highest quarter", low, high)
		}
	})
}

// TestS04_ListRestarts: a listing that breaks off yields every object once all the
// same, or ends with the error.
func TestS04_ListRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := faultstore.New(objstore.NewMemory(), 1)
		for i := range 10 {
			if _, err := f.PutIfAbsent(t.Context(), fmt.Sprint("k/", i), body); err != nil {
				t.Fatal(err)
			}
		}
		f.Add(faultstore.Rule{Ops: []objstore.Op{objstore.OpList}, Count: 2, After: objstore.ErrThrottled})
		s := objstore.WithRetry(f, objstore.RetryOptions{MaxAttempts: 3})
		seen := make(map[string]int)
		for o, err := range s.List(t.Context(), "k/") {
			if err != nil {
				t.Fatal(err)
			}
			seen[o.Key]++
		}
		if len(seen) != 10 || seen["k/3"] != 1 || seen["k/9"] != 1 {
			t.Errorf("seen: %v", seen)
		}
		f.Add(faultstore.Rule{Ops: []objstore.Op{objstore.OpList}, Count: -1, After: objstore.ErrThrottled})
		var last error
		for _, err := range s.List(t.Context(), "k/") {
			last = err
		}
		if !errors.Is(last, objstore.ErrThrottled) {
			t.Errorf("the listing ended with %v", last)
		}
	})
}

// TestF04_FailedHeadIsNoAnswer: what failed is not taken for "absent".
func TestF04_FailedHeadIsNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := faultstore.New(objstore.NewMemory(), 1)
		f.Add(faultstore.Rule{Count: -1, Ops: []objstore.Op{objstore.OpHead}, Before: faultstore.Status(http.StatusInternalServerError)})
		_, err := objstore.WithRetry(f, objstore.RetryOptions{}).Head(t.Context(), "k")
		if err == nil || errors.Is(err, objstore.ErrNotExist) {
			t.Errorf("Head: %v", err)
		}
	})
}

func TestS02_ProbeRefusesAStoreThatIgnoresTheCondition(t *testing.T) {
	f := faultstore.New(objstore.NewMemory(), 1)
	f.Add(faultstore.Rule{Count: -1, IgnoreCondition: true})
	if err := objstore.Probe(t.Context(), f, "p"); !errors.Is(err, objstore.ErrConditionIgnored) || objstore.Retryable(err) {
		t.Errorf("Probe: %v", err)
	}
	f.Clear()
	f.Reset()
	if err := objstore.Probe(t.Context(), f, "p"); err != nil || len(f.Requests()) != 1 {
		t.Errorf("Probe of an honest store that has the key: %v, %d requests", err, len(f.Requests()))
	}
	f.Add(faultstore.Rule{Before: faultstore.Status(http.StatusForbidden)})
	if err := objstore.Probe(t.Context(), f, "q"); !errors.Is(err, objstore.ErrPermission) {
		t.Errorf("Probe without permission: %v", err)
	}
}

func TestCounters(t *testing.T) {
	var c objstore.Counters
	s := objstore.WithCounters(objstore.NewMemory(), &c)
	ctx := t.Context()
	_, _ = s.PutIfAbsent(ctx, "a", body)
	_, _ = s.PutIfAbsent(ctx, "a", body)
	_ = s.Put(ctx, "b", body)
	_, _ = s.Get(ctx, "a")
	_, _ = s.GetRange(ctx, "a", 1, 2)
	_, _ = s.Head(ctx, "absent")
	for range s.List(ctx, "") {
		break
	}
	_ = s.Delete(ctx, "a")
	want := objstore.CounterValues{
		PutIfAbsent: objstore.OpValues{Requests: 2, Errors: 1}, Put: objstore.OpValues{Requests: 1},
		Get: objstore.OpValues{Requests: 1}, GetRange: objstore.OpValues{Requests: 1}, Head: objstore.OpValues{Requests: 1, Errors: 1},
		List: objstore.OpValues{Requests: 1}, Delete: objstore.OpValues{Requests: 1}, BytesRead: 9, BytesWritten: 14,
	}
	if got := c.Snapshot(); got != want || got.Puts() != 3 || got.Reads() != 4 {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}
