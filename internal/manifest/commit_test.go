package manifest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/memwal/memwal-go/internal/wal"
	"github.com/memwal/memwal-go/objstore"
	"github.com/memwal/memwal-go/objstore/faultstore"
)

// What writers ran with only ever grows.
func TestMaximaOnlyGrow(t *testing.T) {
	w := newWorld(t)
	l := w.log()
	with := func(n uint64, d time.Duration) *Manifest {
		m, err := l.Claim(t.Context(), nil, func(cur *Manifest) (*Manifest, error) {
			m, err := next(cur)
			m.MaxInFlight, m.OwnershipCheckAfter, m.FenceRetention, m.LastSeen = n, d, 2*d, n
			return m, err
		})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	with(8, time.Minute)
	if m := with(4, time.Second); m.MaxInFlight != 8 || m.OwnershipCheckAfter != time.Minute || m.FenceRetention != 2*time.Minute || m.LastSeen != 8 {
		t.Errorf("%+v", m)
	}
	if m := with(9, time.Hour); m.MaxInFlight != 9 || m.OwnershipCheckAfter != time.Hour {
		t.Errorf("%+v", m)
	}
}

func TestRulesOfEveryVersion(t *testing.T) {
	w := newWorld(t)
	l := w.log()
	own := w.claim(l).Owner()
	floor := func(plane string, kind Kind, pos, row uint64) func(*Manifest) error {
		return func(m *Manifest) error {
			m.SetFloor(Floor{Plane: plane, Kind: kind, Tuple: wal.Tuple{Position: pos, NextRow: row, Generation: 1}})
			return nil
		}
	}
	ok := func(change func(*Manifest) error) {
		t.Helper()
		if _, err := l.Update(t.Context(), own, change); err != nil {
			t.Error(err)
		}
	}
	bad := func(change func(*Manifest) error) {
		t.Helper()
		if m, err := l.Update(t.Context(), own, change); !errors.Is(err, ErrInvalid) {
			t.Errorf("committed %+v, %v", m, err)
		}
	}
	ok(floor(PlaneRows, Snapshot, 10, 5))
	bad(floor(PlaneRows, Snapshot, 9, 5))
	bad(floor(PlaneRows, Snapshot, 10, 4))
	bad(func(m *Manifest) error { m.RemoveFloor(PlaneRows); return nil })
	ok(floor("index/a", Snapshot, 10, 5))
	bad(floor("index/a", Snapshot, 9, 5))
	ok(func(m *Manifest) error { m.RemoveFloor("index/a"); return nil })
	ok(floor("consumer/a", Cursor, 10, 5))
	ok(floor("consumer/a", Cursor, 2, 1))
	bad(func(m *Manifest) error { m.Floors = append(m.Floors, Floor{Plane: "consumer/a"}); return nil })
	bad(func(m *Manifest) error { m.Epoch++; return nil })
	bad(func(m *Manifest) error { m.ClaimID = id(8); return nil })
	bad(func(m *Manifest) error { m.Status = Sealed; return nil })
	ok(func(m *Manifest) error { m.Generation, m.NextFieldID = 4, 7; return nil })
	bad(func(m *Manifest) error { m.Generation = 3; return nil })
	bad(func(m *Manifest) error { m.NextFieldID = 6; return nil })
	before := w.newest(l).Version
	if m, err := l.Update(t.Context(), own, func(*Manifest) error { return ErrUnchanged }); err != nil || m.Version != before || len(w.versions()) != int(before) {
		t.Errorf("unchanged: %+v, %v", m, err)
	}
	failed := errors.New("x")
	if _, err := l.Update(t.Context(), own, func(*Manifest) error { return failed }); err != failed {
		t.Errorf("failing change: %v", err)
	}
}

// P20: a commit that stalled until its version number had been recycled does
// not count, wherever the object lands.
func TestP20_StalledCommitDoesNotCount(t *testing.T) {
	for _, kept := range []uint64{3, 4} { // right above the stalled version, and further up
		for _, claims := range []bool{false, true} {
			w := newWorld(t)
			a := w.log()
			own := w.claim(a).Owner() // version 1
			stalled := false
			w.store.Add(faultstore.Rule{Ops: []objstore.Op{objstore.OpPutIfAbsent}, Key: dir + Name(2), OnRequest: func(faultstore.Request) {
				if stalled {
					return
				}
				stalled = true
				// Meanwhile others commit 2 to 5, and 1 and 2 are recycled.
				other := New(w.mem, dir, nil)
				for i := range 4 {
					if _, err := other.UpdateAny(context.Background(), note(fmt.Sprint("other", i))); err != nil {
						t.Error(err)
					}
				}
				for v := uint64(1); v < kept; v++ {
					w.delete(v)
				}
				w.ahead.Store(int64(48 * time.Hour))
			}})
			var m *Manifest
			var err error
			if claims {
				m, err = a.Claim(t.Context(), nil, next)
			} else {
				m, err = a.Update(t.Context(), own, note("a"))
			}
			if err != nil || m.Version != 6 || len(m.Annotations) < 4 {
				t.Fatalf("kept from %d, claims %t: %+v, %v", kept, claims, m, err)
			}
			if got := w.versions(); !slices.Contains(got, 2) {
				t.Fatalf("versions %v: the stalled put never landed", got)
			}
		}
	}
}

// P20: two stalled commits, one built on the other, below the suffix.
func TestP20_GarbageConfirmsNothing(t *testing.T) {
	w := newWorld(t)
	a := w.log()
	m := w.claim(a)
	m = w.update(a, m.Owner(), "a")
	w.update(a, m.Owner(), "b")
	for v := m.Version + 2; v < 9; v++ {
		w.update(a, m.Owner(), fmt.Sprint(v))
	}
	if counts, err := a.confirmed(t.Context(), m); !counts || err != nil {
		t.Errorf("in its place: %t, %v", counts, err)
	}
	w.delete(5)
	if counts, err := a.confirmed(t.Context(), m); counts || err != nil {
		t.Errorf("below the suffix: %t, %v", counts, err)
	}
}

// The first version of a shard that is not new any more: its number was recycled, so
// the put succeeds, and proves nothing.
func TestP20_FirstVersionInARecycledPlace(t *testing.T) {
	for _, recycled := range []uint64{1, 2} {
		w := newWorld(t)
		a := w.log()
		own := w.claim(a).Owner()
		for v := 2; v < 5; v++ {
			w.update(a, own, fmt.Sprint(v))
		}
		for v := range recycled {
			w.delete(v + 1)
		}
		first, err := next(nil)
		if err != nil {
			t.Fatal(err)
		}
		err = a.Commit(t.Context(), nil, first)
		if !errors.Is(err, ErrConflict) {
			t.Errorf("%d recycled: %v, want ErrConflict", recycled, err)
		}
	}
}

// A late reply costs a List; a commit that is where it belongs counts, also when
// others have built on it.
func TestLateReplyIsConfirmed(t *testing.T) {
	for _, later := range []int{0, 1, 3} {
		w := newWorld(t)
		a := w.log()
		own := w.claim(a).Owner()
		w.store.Add(faultstore.Rule{Ops: []objstore.Op{objstore.OpPutIfAbsent}, Key: dir + Name(2), OnApplied: func(faultstore.Request) {
			for i := range later {
				if _, err := New(w.mem, dir, nil).UpdateAny(context.Background(), note(fmt.Sprint(i))); err != nil {
					t.Error(err)
				}
			}
			w.ahead.Store(int64(31 * time.Second))
		}})
		before := w.lists()
		if m := w.update(a, own, "a"); m.Version != 2 {
			t.Errorf("%d later: %+v", later, m)
		}
		if got := w.lists() - before; got != 2 {
			t.Errorf("%d later: %d Lists, want one to build on and one to confirm", later, got)
		}
		before = w.lists()
		w.update(a, own, "b")
		if got := w.lists() - before; got != 1 {
			t.Errorf("a prompt commit took %d Lists", got)
		}
	}
}

func (w *world) lists() (n int) {
	for _, r := range w.store.Requests() {
		if r.Op == objstore.OpList {
			n++
		}
	}
	return n
}

// A confirmation that fails leaves the commit unresolved.
func TestFailedConfirmationIsUnresolved(t *testing.T) {
	w := newWorld(t)
	a := w.log()
	own := w.claim(a).Owner()
	w.store.Add(faultstore.Rule{Ops: []objstore.Op{objstore.OpPutIfAbsent}, OnApplied: func(faultstore.Request) {
		w.ahead.Store(int64(time.Hour))
		w.store.Add(faultstore.Rule{Ops: []objstore.Op{objstore.OpList}, Before: faultstore.Status(500)})
	}})
	if _, err := a.Update(t.Context(), own, note("a")); !errors.Is(err, ErrUnresolved) {
		t.Errorf("%v", err)
	}
}

func TestElapsedTakesTheLargerClock(t *testing.T) {
	from := time.Now()
	// A machine that was suspended: its monotonic clock stood still.
	suspended := from.Add(time.Hour)
	(*struct {
		wall uint64
		ext  int64
	})(unsafe.Pointer(&suspended)).ext -= int64(time.Hour)
	if suspended.Sub(from) != 0 || elapsed(from, suspended) != time.Hour {
		t.Errorf("suspended: %v", elapsed(from, suspended))
	}
	// A wall clock that was set back.
	setBack := from.Add(0)
	(*struct {
		wall uint64
		ext  int64
	})(unsafe.Pointer(&setBack)).ext += int64(time.Minute)
	if elapsed(from, setBack) != time.Minute {
		t.Errorf("set back: %v", elapsed(from, setBack))
	}
	if elapsed(time.Time{}, from) < 24*time.Hour {
		t.Error("no List at all is recent")
	}
}

// Exists, then gone: the number is long past, and nothing is put again.
func TestVersionRecycledBeforeItIsCompared(t *testing.T) {
	w := newWorld(t)
	l := w.log()
	base := w.claim(l)
	w.store.Add(faultstore.Rule{Ops: []objstore.Op{objstore.OpPutIfAbsent}, Before: faultstore.Status(412)})
	if err := l.Commit(t.Context(), base, base.Clone()); !errors.Is(err, ErrConflict) {
		t.Errorf("%v", err)
	}
	if got := w.versions(); len(got) != 1 {
		t.Errorf("versions %v", got)
	}
}
