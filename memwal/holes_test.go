package memwal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/memwal/memwal-go/internal/manifest"
	"github.com/memwal/memwal-go/internal/wal"
	"github.com/memwal/memwal-go/objstore"
)

// narrowOptions are plainOptions with a single put in flight, so that an object
// above an empty position proves a hole however close it is. What wider windows
// leave open is a matter of package replay, and tested there.
func narrowOptions() *Options {
	o := plainOptions()
	o.MaxInFlight = 1
	return o
}

// twoEpochs is a closed shard with the log "F1 d1 d1 d1 d1 d1 d1 F2 d2 d2 d2 d2 d2 d2":
// rows 0 to 5 and 6 to 11, one in each entry.
func twoEpochs(t testing.TB) (objstore.Store, map[string]string) {
	t.Helper()
	store := objstore.NewMemory()
	for e := range int64(2) {
		w := mustOpen(t, store, narrowOptions())
		for i := range int64(6) {
			mustPut(t, w, seq(t, 6*e+i, 1))
		}
		crashWriter(w)
	}
	checkShape(t, store, "F1 d1 d1 d1 d1 d1 d1 F2 d2 d2 d2 d2 d2 d2")
	return store, contents(t, store, "")
}

// checkHole opens the shard and fails unless the hole is found. It returns
// whether that was before the claim.
func checkHole(t testing.TB, store objstore.Store, pos uint64) (unclaimed bool) {
	t.Helper()
	log := contents(t, store, layoutOf(testShard).wal)
	versions := len(versionsOf(t, store))
	w, err := Open(t.Context(), store, testShard, testSchema, narrowOptions())
	if err == nil {
		w.Abort()
	}
	hole, ok := errors.AsType[*HoleError](err)
	if !ok || hole.Position != pos || !errors.Is(err, ErrHole) {
		t.Errorf("open: %v, want a HoleError at %d", err, pos)
	}
	for key := range contents(t, store, layoutOf(testShard).wal) {
		if _, ok := log[key]; !ok {
			t.Errorf("%s was put: a fence, above all, must not be", key)
		}
	}
	return len(versionsOf(t, store)) == versions
}

// What can be seen of a missing object: anything below a fence, and anything
// that the last writer has gone on from further than its window reaches. The
// window is 1 here.
func TestR14_HoleIsAnErrorAtOpen(t *testing.T) {
	for pos := uint64(1); pos <= 13; pos++ {
		t.Run(fmt.Sprint(pos), func(t *testing.T) {
			store, all := twoEpochs(t)
			key := layoutOf(testShard).wal + wal.Name(pos)
			deleteRaw(t, store, key)
			if unclaimed := checkHole(t, store, pos); !unclaimed {
				t.Error("the shard was claimed, although the hole could be seen before")
			}
			// It stays an error, until the object is there again.
			checkHole(t, store, pos)
			putRaw(t, store, key, []byte(all[key]))
			checkRows(t, mustOpen(t, store, narrowOptions()), wantSeq(0, 12))
		})
	}
}

// Several objects are missing: the lowest one is named.
func TestR14_HoleOfSeveralObjects(t *testing.T) {
	store, _ := twoEpochs(t)
	for _, pos := range []uint64{1, 3, 4, 9} {
		deleteRaw(t, store, layoutOf(testShard).wal+wal.Name(pos))
	}
	checkHole(t, store, 1)
}

// The fence of the epoch in force is gone, with fewer objects above it than its
// window has: only the walk knows that an older epoch is in force there.
func TestR14_HoleInPlaceOfTheFence(t *testing.T) {
	store := objstore.NewMemory()
	for e := range int64(2) {
		w := mustOpen(t, store, plainOptions())
		mustPut(t, w, seq(t, e, 1))
		crashWriter(w)
	}
	checkShape(t, store, "F1 d1 F2 d2")
	deleteRaw(t, store, layoutOf(testShard).wal+wal.Name(3))
	if unclaimed := checkHole(t, store, 3); unclaimed {
		t.Error("found before the claim: then this test is not about the walk")
	}
}

// The object vanishes after the first check, which precedes the claim.
func TestR14_HoleThatAppearsDuringOpen(t *testing.T) {
	for pos := uint64(1); pos <= 13; pos++ {
		inner, _ := twoEpochs(t)
		store := over(inner)
		// What an open fetches ahead of its claim comes late.
		held, release := hold()
		store.on(objstore.OpGet, "/manifest/", 1, func(_ context.Context, apply func() error) error {
			store.on(objstore.OpGet, "/wal/", always, held)
			return apply()
		})
		store.on(objstore.OpPutIfAbsent, "/manifest/", 1, func(_ context.Context, apply func() error) error {
			deleteRaw(t, inner, layoutOf(testShard).wal+wal.Name(pos))
			release()
			return apply()
		})
		if unclaimed := checkHole(t, store, pos); unclaimed {
			t.Error("nothing was claimed")
		}
	}
}

// The end of the log is missing. No object tells, but the manifest has seen it.
func TestR14_LastSeenPositionIsMissing(t *testing.T) {
	store, _ := twoEpochs(t)
	_, err := manifests(store).UpdateAny(t.Context(), func(m *manifest.Manifest) error {
		m.LastSeen = 14
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	w := mustOpen(t, store, narrowOptions()) // up to here all is well
	mustClose(t, w)
	store, _ = twoEpochs(t)
	_, err = manifests(store).UpdateAny(t.Context(), func(m *manifest.Manifest) error {
		m.LastSeen = 14
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	deleteRaw(t, store, layoutOf(testShard).wal+wal.Name(14))
	if unclaimed := checkHole(t, store, 14); !unclaimed {
		t.Error("the shard was claimed, although the hole could be seen before")
	}
}

// While the log is looked through, another writer takes the shard over and the
// hole that was seen is no longer worth reporting.
func TestR14_HoleIsNotReportedOfAShardThatChangedHands(t *testing.T) {
	inner, all := twoEpochs(t)
	key := layoutOf(testShard).wal + wal.Name(3)
	deleteRaw(t, inner, key)
	store := over(inner)
	var other *Writer
	store.on(objstore.OpHead, wal.Name(3), 1, func(_ context.Context, apply func() error) error {
		err := apply()
		putRaw(t, inner, key, []byte(all[key]))
		other = mustOpen(t, inner, narrowOptions())
		absorb(t, inner) // so that the object is gone again, for good
		trimLog(t, inner)
		return err
	})
	w := mustOpen(t, store, narrowOptions())
	if st := w.Stats(); st.Epoch != 4 || st.Accepted != 12 {
		t.Errorf("epoch %d with %d rows, want 4 with 12", st.Epoch, st.Accepted)
	}
	checkRows(t, w, wantSeq(12, 0))
	checkFenced(t, other.Put(t.Context(), seq(t, 100, 1)), 4)
}

// The same after the claim: the one who claimed in between keeps the shard.
func TestR14_HoleSeenByAFencedClaimer(t *testing.T) {
	inner, all := twoEpochs(t)
	key := layoutOf(testShard).wal + wal.Name(3)
	store := over(inner)
	var other *Writer
	store.on(objstore.OpGet, wal.Name(4), 1, func(_ context.Context, apply func() error) error {
		// The walk has found 3 missing, and 4 is the first witness of that.
		putRaw(t, inner, key, []byte(all[key]))
		other = mustOpen(t, inner, narrowOptions())
		absorb(t, inner) // 3 is gone again, and the fence at 8 is the witness
		trimLog(t, inner)
		return apply()
	})
	store.on(objstore.OpPutIfAbsent, "/manifest/", 1, func(_ context.Context, apply func() error) error {
		deleteRaw(t, inner, key)
		return apply()
	})
	o := narrowOptions()
	o.ReplayBytes = 1 // so that 4 is not fetched ahead
	w, err := Open(t.Context(), store, testShard, testSchema, o)
	if err == nil {
		w.Abort()
	}
	if other == nil {
		t.Fatal("nobody has claimed in between")
	}
	checkFenced(t, err, 4)
	mustPut(t, other, seq(t, 12, 1))
	checkVersions(t, inner, 5) // the last one has the floor
}

// The owner stays, but its floor moves and the log is recycled after the manifest was
// read and before the log is listed. What is missing is below the new floor.
func TestR14_HoleIsNotReportedBelowAFloorThatMoved(t *testing.T) {
	inner, _ := twoEpochs(t)
	store := over(inner)
	var read sync.WaitGroup
	read.Add(2) // the newest version, and the one that is not there
	store.on(objstore.OpGet, "/manifest/", 2, func(_ context.Context, apply func() error) error {
		defer read.Done()
		return apply()
	})
	store.on(objstore.OpList, walPart, 1, func(_ context.Context, apply func() error) error {
		read.Wait()
		absorb(t, inner)
		if left := trimLog(t, inner); !slices.Equal(left, []uint64{1, 8}) {
			t.Errorf("left are %v", left)
		}
		return apply()
	})
	w := mustOpen(t, store, narrowOptions())
	if st := w.Stats(); st.Epoch != 3 || st.Accepted != 12 {
		t.Errorf("epoch %d with %d rows, want 3 with 12", st.Epoch, st.Accepted)
	}
	checkRows(t, w, wantSeq(12, 0))
	mustPut(t, w, seq(t, 12, 1))
}

// Objects of fenced writers may lie above an empty position: no alarm.
func TestR14_DeadObjectsAreNoHole(t *testing.T) {
	synctest.Test(t, deadObjectsAreNoHole)
}

func deadObjectsAreNoHole(t *testing.T) {
	inner := objstore.NewMemory()
	dead := dieInFlight(t, inner)
	mustClose(t, mustOpen(t, inner, narrowOptions()))
	dead.land(t, 5, 6)
	checkShape(t, inner, "F1 d1 F2 . d1 d1")
	w := mustOpen(t, inner, narrowOptions())
	checkShape(t, inner, "F1 d1 F2 F3 d1 d1")
	mustPut(t, w, seq(t, 1, 1))
	checkShape(t, inner, "F1 d1 F2 F3 d1 d1 d3")
	checkRows(t, w, wantSeq(0, 2))
}

// checkDamaged opens the shard and fails unless the damage is found.
func checkDamaged(t testing.TB, store objstore.Store, pos uint64, what string) {
	t.Helper()
	before := contents(t, store, layoutOf(testShard).wal)
	w, err := Open(t.Context(), store, testShard, testSchema, narrowOptions())
	if err == nil {
		w.Abort()
	}
	corrupt, ok := errors.AsType[*CorruptError](err)
	if !ok || corrupt.Position != pos || !errors.Is(err, ErrCorrupt) {
		t.Errorf("%s: open: %v, want a CorruptError at %d", what, err, pos)
	}
	if after := contents(t, store, layoutOf(testShard).wal); len(after) != len(before) {
		t.Errorf("%s: a fence was put above a damaged entry", what)
	}
}

func TestR09_DamagedEntryIsAnErrorWithItsPosition(t *testing.T) {
	store, all := twoEpochs(t)
	r := rand.New(rand.NewPCG(9, 9))
	for _, pos := range []uint64{1, 2, 5, 7, 8, 9, 14} {
		key := layoutOf(testShard).wal + wal.Name(pos)
		whole := []byte(all[key])
		damaged := map[string][]byte{
			"empty": {}, "text": []byte("not an entry"), "half": whole[:len(whole)/2],
			"one byte short": whole[:len(whole)-1], "without its footer": whole[:len(whole)-wal.FooterSize],
			"zeros": make([]byte, len(whole)), "one byte long": append(bytes.Clone(whole), 0),
		}
		for range 12 {
			b, at := bytes.Clone(whole), r.IntN(len(whole))
			b[at] ^= 1 << r.IntN(8)
			damaged[fmt.Sprintf("a bit of byte %d", at)] = b
		}
		for what, data := range damaged {
			putRaw(t, store, key, data)
			checkDamaged(t, store, pos, fmt.Sprintf("position %d: %s", pos, what))
		}
		putRaw(t, store, key, whole)
	}
	checkRows(t, mustOpen(t, store, narrowOptions()), wantSeq(0, 12))
}

// An entry that is whole, but not where it belongs, breaks the chain. Everything
// between it and the next fence would be taken for dead; the fence knows better.
func TestR09_EntryInTheWrongPlace(t *testing.T) {
	store, all := twoEpochs(t)
	dir := layoutOf(testShard).wal
	putRaw(t, store, dir+wal.Name(4), []byte(all[dir+wal.Name(3)]))
	checkDamaged(t, store, 8, "entry 3 in place of entry 4")
}

// A damaged object above a hole does not hide the hole's place.
func TestR09_DamageAboveAHole(t *testing.T) {
	store, _ := twoEpochs(t)
	dir := layoutOf(testShard).wal
	deleteRaw(t, store, dir+wal.Name(3))
	putRaw(t, store, dir+wal.Name(4), []byte("not an entry"))
	before := contents(t, store, "")
	_, err := Open(t.Context(), store, testShard, testSchema, narrowOptions())
	if corrupt, ok := errors.AsType[*CorruptError](err); !ok || corrupt.Position != 4 || !strings.Contains(err.Error(), "4") {
		t.Errorf("open: %v, want a CorruptError at 4", err)
	}
	checkUntouched(t, store, before)
}

// An object of an epoch that nobody has claimed.
func TestR06_EntryOfAHigherEpochAborts(t *testing.T) {
	for _, fence := range []bool{false, true} {
		t.Run(fmt.Sprintf("fence %v", fence), func(t *testing.T) {
			store, _ := twoEpochs(t)
			log := logOf(t, store)
			h := wal.Header{Epoch: 9, PutID: wal.NewPutID(), PrevPutID: log[13].header.PutID, FirstRow: 12, Generation: 1}
			body, err := wal.EncodeFence(h)
			if !fence {
				var enc *wal.Encoded
				rec := seq(t, 100, 1)
				enc, err = wal.Encode(h, rec.Schema(), oneBatch(rec), nil, wal.EncodeOptions{})
				if err == nil {
					defer enc.Release()
					body = enc.Body
				}
			}
			if err != nil {
				t.Fatal(err)
			}
			putRaw(t, store, layoutOf(testShard).wal+wal.Name(15), body.Bytes())
			before := shape(logOf(t, store))
			w, err := Open(t.Context(), store, testShard, testSchema, narrowOptions())
			if err == nil {
				w.Abort()
			}
			checkFenced(t, err, 9)
			checkShape(t, store, before)
		})
	}
}

// After a clean close the manifest knows where the log ends: no object of it can
// be deleted without being missed, not even the last one.
func TestR14_NothingIsMissedAfterAClose(t *testing.T) {
	for lost := uint64(2); lost <= 6; lost++ {
		store := objstore.NewMemory()
		w := mustOpen(t, store, narrowOptions())
		for i := range int64(5) {
			mustPut(t, w, seq(t, i, 1))
			if err := w.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		mustClose(t, w)
		checkShape(t, store, "F1 d1 d1 d1 d1 d1")
		deleteRaw(t, store, layoutOf(testShard).wal+wal.Name(lost))
		checkHole(t, store, lost)
	}
}
