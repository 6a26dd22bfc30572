package memwal

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/google/uuid"

	"github.com/memwal/memwal-go/internal/manifest"
	"github.com/memwal/memwal-go/objstore"
)

func mustSeal(t testing.TB, store objstore.Store) {
	t.Helper()
	if err := SealShard(t.Context(), store, testShard, nil); err != nil {
		t.Fatalf("seal: %v", err)
	}
}

func mustUnseal(t testing.TB, store objstore.Store) {
	t.Helper()
	if err := UnsealShard(t.Context(), store, testShard, nil); err != nil {
		t.Fatalf("unseal: %v", err)
	}
}

func TestF08_SealStopsTheWriterAndRefusesClaims(t *testing.T) {
	store := objstore.NewMemory()
	w := mustOpen(t, store, plainOptions())
	mustPut(t, w, seq(t, 0, 2))
	mustSeal(t, store)
	checkShape(t, store, "F1 d1 F2")
	if m := newestManifest(t, store); m.Status != manifest.Sealed || m.Epoch != 2 {
		t.Errorf("status %v, epoch %d; want sealed, 2", m.Status, m.Epoch)
	}
	before := contents(t, store, "")
	if _, err := Open(t.Context(), store, testShard, testSchema, plainOptions()); !errors.Is(err, ErrSealed) {
		t.Errorf("open: %v, want ErrSealed", err)
	}
	checkFenced(t, w.Put(t.Context(), seq(t, 100, 1)), 2)
	checkUntouched(t, store, before)

	mustUnseal(t, store)
	checkShape(t, store, "F1 d1 F2 F3")
	w = mustOpen(t, store, plainOptions())
	checkRows(t, w, wantSeq(0, 2))
	mustPut(t, w, seq(t, 2, 1))
	mustClose(t, w)
	checkRows(t, mustOpen(t, store, plainOptions()), wantSeq(0, 3))
}

// A put that is in flight while the shard is sealed lands before the seal's
// fence, and counts, or after it, and does not.
func TestF08_PutInFlightDuringSeal(t *testing.T) {
	for _, first := range []string{"put", "fence"} {
		t.Run(first+" first", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inner := objstore.NewMemory()
				ours, theirs := over(inner), over(inner)
				w := mustOpen(t, ours, plainOptions())
				held, release := hold()
				ours.on(objstore.OpPutIfAbsent, "/wal/", 1, held)
				ticket, err := w.PutAsync(t.Context(), seq(t, 0, 1))
				if err != nil {
					t.Fatal(err)
				}
				if first == "put" {
					theirs.on(objstore.OpPutIfAbsent, "/wal/", 1, func(_ context.Context, apply func() error) error {
						release()
						synctest.Wait()
						return apply()
					})
				}
				mustSeal(t, theirs)
				release()
				want := 0
				if err := ticket.Wait(t.Context()); first == "fence" {
					checkFenced(t, err, 2)
				} else if want = 1; err != nil {
					t.Errorf("the put that came first: %v", err)
				}
				mustUnseal(t, inner)
				checkRows(t, mustOpen(t, inner, plainOptions()), wantSeq(0, want))
			})
		})
	}
}

// A seal that dies between its claim and its fence has not stopped the writer's
// appends. Sealing again completes it.
func TestF08_SealAgainCompletesTheFence(t *testing.T) {
	inner := objstore.NewMemory()
	w := mustOpen(t, inner, plainOptions())
	mustPut(t, w, seq(t, 0, 1))
	broken := errors.New("injected")
	dying := over(inner)
	dying.on(objstore.OpPutIfAbsent, "/wal/", always, failBefore(broken))
	once := &Options{Retry: objstore.RetryOptions{MaxAttempts: 1}}
	if err := SealShard(t.Context(), dying, testShard, once); !errors.Is(err, broken) {
		t.Fatalf("seal: %v, want the injected failure", err)
	}
	mustPut(t, w, seq(t, 1, 1)) // no fence yet
	mustSeal(t, inner)
	checkShape(t, inner, "F1 d1 d1 F3")
	checkFenced(t, w.Put(t.Context(), seq(t, 100, 1)), 3)
	mustSeal(t, inner)
	mustUnseal(t, inner)
	checkRows(t, mustOpen(t, inner, plainOptions()), wantSeq(0, 2))
}

// A sealed shard is refused before anything else of it is looked at or changed,
// a shard that does not exist is not made by sealing it.
func TestF08_SealOfNothing(t *testing.T) {
	store := objstore.NewMemory()
	if err := SealShard(t.Context(), store, testShard, nil); !errors.Is(err, ErrInvalid) {
		t.Errorf("seal: %v, want ErrInvalid", err)
	}
	if err := UnsealShard(t.Context(), store, uuid.New(), nil); !errors.Is(err, ErrInvalid) {
		t.Errorf("unseal: %v, want ErrInvalid", err)
	}
	if err := SealShard(t.Context(), store, testShard, &Options{MaxInFlight: -1}); !errors.Is(err, ErrInvalid) {
		t.Errorf("seal with bad options: %v, want ErrInvalid", err)
	}
	checkUntouched(t, store, nil)
}

// The claim of a writer that has not fenced yet loses against a seal, and the
// other way round: whoever claims last has the shard.
func TestF08_SealDuringOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := objstore.NewMemory()
		mustClose(t, mustOpen(t, inner, plainOptions()))
		slow := over(inner)
		held, release := hold()
		slow.on(objstore.OpPutIfAbsent, "/wal/", 1, held)
		result := make(chan error, 1)
		go func() {
			w, err := Open(t.Context(), slow, testShard, testSchema, plainOptions())
			if err == nil {
				w.Abort()
			}
			result <- err
		}()
		synctest.Wait()
		mustSeal(t, inner)
		release()
		checkFenced(t, <-result, 3)
		if m := newestManifest(t, inner); m.Status != manifest.Sealed || m.Version != 3 {
			t.Errorf("version %d is %v, want 3, sealed", m.Version, m.Status)
		}
	})
}
