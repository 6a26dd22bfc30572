package flusher

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/memwal/memwal-go/internal/manifest"
	"github.com/memwal/memwal-go/objstore"
)

var errFencedAway = manifest.FencedBy(rigEpoch, rigEpoch+1)

// checks makes the ownership checks of r wait for what is sent to the channel.
func (r *rig) checks() (replies chan<- error, asked func() int) {
	ch := make(chan error)
	var n atomic.Int64
	r.onCheck(func(ctx context.Context) error {
		n.Add(1)
		select {
		case err := <-ch:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	return ch, func() int {
		synctest.Wait()
		return int(n.Load())
	}
}

func TestF12_SteadyWritingNeedsNoCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		_, asked := r.checks()
		for range 500 {
			time.Sleep(30 * time.Second) // the longest that a proof is trusted
			r.wantDurable(r.put(1))
		}
		if n := asked(); n != 0 {
			t.Errorf("%d ownership checks", n)
		}
	})
}

func TestF12_OldProofIsRenewedBeforeAcknowledging(t *testing.T) {
	for name, reply := range map[string]struct {
		err  error
		want error // nil: acknowledged
	}{
		"still ours":   {nil, nil},
		"fenced":       {errFencedAway, manifest.ErrFenced},
		"sealed":       {manifest.ErrSealed, manifest.ErrSealed},
		"check failed": {&objstore.Error{Class: objstore.ErrAmbiguous}, ErrPersistence},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, func(c *Config) { c.FlushBytes = 1 })
				replies, asked := r.checks()
				r.wantDurable(r.put(1))
				time.Sleep(30*time.Second + time.Nanosecond)
				r.put(1)
				r.put(1) // lands meanwhile, and waits for the same check
				r.wantDurable(1)
				if n := asked(); n != 1 {
					t.Fatalf("%d ownership checks, want one", n)
				}
				if entries, _ := r.log(); len(entries) < 2 {
					t.Fatal("the check came before the put")
				}
				time.Sleep(10 * time.Second)
				r.wantDurable(1)
				replies <- reply.err
				if reply.want != nil {
					if err := r.failure(); !errors.Is(err, reply.want) {
						t.Errorf("failure: %v, want %v", err, reply.want)
					}
					if reply.want == ErrPersistence {
						if e, ok := errors.AsType[*AppendError](r.failure()); !ok || e.Position != 3 || !errors.Is(e, objstore.ErrAmbiguous) {
							t.Errorf("failure: %v", r.failure())
						}
					}
					time.Sleep(time.Hour)
					r.wantDurable(1)
					return
				}
				r.wantDurable(3)
				// The check is the proof now, from when it was sent.
				time.Sleep(20 * time.Second)
				r.wantDurable(r.put(1))
				if n := asked(); n != 1 || r.flusher.Stats().OwnershipChecks != 1 {
					t.Errorf("%d ownership checks, %d counted", n, r.flusher.Stats().OwnershipChecks)
				}
				r.wantAlive()
			})
		})
	}
}

// TestF12_TheProofIsAsOldAsItsRequest has requests take long. A check proves what
// had landed when it was sent, however long it takes; for what lands later it
// counts from then.
func TestF12_TheProofIsAsOldAsItsRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		replies, asked := r.checks()
		g := r.store.hold()
		r.put(1)
		time.Sleep(31 * time.Second) // the put is stalled
		g.open(2)
		r.wantDurable(0)
		if n := asked(); n != 1 {
			t.Fatalf("%d checks after a stalled put", n)
		}
		time.Sleep(31 * time.Second) // so is the check
		replies <- nil
		r.wantDurable(1)
		if n := asked(); n != 1 {
			t.Fatalf("%d checks: a slow store is never done with checking", n)
		}
		g.open(3)
		g.open(4)
		r.put(1) // 31 s after the check was sent
		r.wantDurable(1)
		if n := asked(); n != 2 {
			t.Fatalf("%d checks after a proof that is 31 s old", n)
		}
		r.put(1) // lands while the check is under way
		time.Sleep(31 * time.Second)
		replies <- nil
		r.wantDurable(2)
		if n := asked(); n != 3 {
			t.Fatalf("%d checks: what landed after a check was sent is not proved by it", n)
		}
		replies <- nil
		r.wantDurable(3)
		r.wantAlive()
	})
}

// TestF12_ACheckDoesNotProveWhatWasInFlight has a put be under way when a check is
// sent, and land before its late reply: a successor's fence may have come and gone
// in between.
func TestF12_ACheckDoesNotProveWhatWasInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c *Config) { c.FlushBytes = 1 })
		replies, asked := r.checks()
		g := r.store.hold()
		r.put(1)
		synctest.Wait() // or both would be one entry
		r.put(1)
		time.Sleep(31 * time.Second)
		g.open(2)
		if n := asked(); n != 1 {
			t.Fatalf("%d checks after a stalled put", n)
		}
		time.Sleep(31 * time.Second)
		g.open(3)
		synctest.Wait()
		replies <- nil
		r.wantDurable(1)
		if n := asked(); n != 2 {
			t.Fatalf("%d checks, want one more for what was in flight", n)
		}
		replies <- nil
		r.wantDurable(2)
		r.wantAlive()
	})
}

// TestF12_ASlowPutProvesForWhenItWasSent has a put be slow, but not so slow that
// it needs a check itself.
func TestF12_ASlowPutProvesForWhenItWasSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		replies, asked := r.checks()
		g := r.store.hold()
		r.put(1)
		time.Sleep(20 * time.Second)
		g.open(2)
		r.wantDurable(1)
		time.Sleep(11 * time.Second) // since its reply; 31 s since it was sent
		g.open(3)
		r.put(1)
		r.wantDurable(1)
		if n := asked(); n != 1 {
			t.Fatalf("%d checks, want one", n)
		}
		replies <- nil
		r.wantDurable(2)
	})
}

// TestF12_TheStoresClockCounts has this machine's clocks stand still.
func TestF12_TheStoresClockCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		replies, asked := r.checks()
		var ahead atomic.Int64 // of the store's clock
		r.store.onPut = func(_ context.Context, _ uint64, apply func() (objstore.PutResult, error)) (objstore.PutResult, error) {
			res, err := apply()
			res.Date = res.Date.Add(time.Duration(ahead.Load()))
			return res, err
		}
		r.wantDurable(r.put(1))
		time.Sleep(time.Second)
		ahead.Store(int64(time.Hour))
		r.put(1)
		r.wantDurable(1)
		if n := asked(); n != 1 {
			t.Fatalf("%d checks", n)
		}
		replies <- nil
		r.wantDurable(2)
		time.Sleep(time.Second)
		r.wantDurable(r.put(1)) // nothing has leapt since
	})
}

// TestF02_BusyWriterLooksAtTheManifest: the proof of a busy writer is always young,
// and yet it must learn of a claim, since its successor may never get a fence in.
func TestF02_BusyWriterLooksAtTheManifest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c *Config) { c.FlushBytes = 1 })
		var n atomic.Int64
		r.onCheck(func(context.Context) error {
			if n.Add(1) == 3 {
				return errFencedAway
			}
			return nil
		})
		for i := range uint64(3 * checkEvery) {
			if got := n.Load(); got != int64(max(i, 1)-1)/checkEvery {
				t.Fatalf("%d looks after %d entries", got, i)
			}
			r.wantDurable(r.put(1))
		}
		r.put(1)
		if err := r.failure(); !errors.Is(err, manifest.ErrFenced) {
			t.Errorf("failure: %v", err)
		}
		r.wantDurable(3 * checkEvery)
	})
}

// TestF12_TheStoresClockCountsFromTheFence has this machine stand still before its
// first put: there is no put before it whose date could be compared.
func TestF12_TheStoresClockCountsFromTheFence(t *testing.T) {
	for name, tc := range map[string]struct {
		fence time.Duration // the store's clock at the fence, before that at the put
		want  int           // checks
	}{
		"a moment ago":    {time.Second, 0},
		"long ago":        {25 * time.Hour, 1},
		"it does not say": {-1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, func(c *Config) {
					if tc.fence >= 0 {
						c.ProofDate = time.Now().Add(-tc.fence)
					}
				})
				_, asked := r.checks()
				r.put(1)
				if n := asked(); n != tc.want {
					t.Errorf("%d checks, want %d", n, tc.want)
				}
			})
		})
	}
}

// TestF12_LostReplyHasNoDate: after a pause the first put's reply is lost, and with
// it the store's clock. The reading before the pause still counts.
func TestF12_LostReplyHasNoDate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.wantDurable(r.put(1))
		time.Sleep(time.Minute)
		r.store.onPut = func(_ context.Context, _ uint64, apply func() (objstore.PutResult, error)) (objstore.PutResult, error) {
			apply()
			return objstore.PutResult{}, &objstore.Error{Class: objstore.ErrExists}
		}
		r.wantDurable(r.put(1))
		time.Sleep(time.Second)
		_, asked := r.checks()
		// Meanwhile this machine stood still for a day.
		r.store.onPut = func(_ context.Context, _ uint64, apply func() (objstore.PutResult, error)) (objstore.PutResult, error) {
			res, err := apply()
			res.Date = res.Date.Add(24 * time.Hour)
			return res, err
		}
		r.put(1)
		if n := asked(); n != 1 {
			t.Errorf("%d checks", n)
		}
		r.wantDurable(2)
	})
}
