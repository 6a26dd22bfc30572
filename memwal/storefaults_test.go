package memwal

import (
	"errors"
	"fmt"
	"testing"

	"github.com/memwal/memwal-go/internal/manifest"
	"github.com/memwal/memwal-go/internal/wal"
	"github.com/memwal/memwal-go/objstore"
	"github.com/memwal/memwal-go/objstore/faultstore"
	"github.com/memwal/memwal-go/objstore/objstoretest"
)

// absent makes a store over inner that answers a number of gets of key (-1: all)
// with 404.
func absent(inner objstore.Store, key string, times int) *faultstore.Store {
	store := faultstore.New(inner, 1)
	store.Add(faultstore.Rule{Ops: []objstore.Op{objstore.OpGet}, Key: key, Count: times, Before: faultstore.Status(404)})
	return store
}

// wantAbsent fails the test unless a get of store was answered with 404, and returns
// how many were.
func wantAbsent(t *testing.T, store *faultstore.Store) int {
	t.Helper()
	n := store.Injected()[faultstore.StatusFault(404)]
	if n == 0 {
		t.Error("no get was answered with 404")
	}
	return n
}

// TestS01_AbsentAfterListing: an object that was listed is absent when it is read, once
// or twice: before the claim, and after. That is neither the end of the log nor a hole.
func TestS01_AbsentAfterListing(t *testing.T) {
	for _, o := range []*Options{narrowOptions(), plainOptions()} {
		for pos := uint64(1); pos <= 14; pos++ {
			for times := 1; times <= 2; times++ {
				t.Run(fmt.Sprintf("window %d, WAL object %d, %d times", o.MaxInFlight, pos, times), func(t *testing.T) {
					inner, _ := twoEpochs(t)
					store := absent(inner, layoutOf(testShard).wal+wal.Name(pos), times)
					w := mustOpen(t, store, o)
					checkRows(t, w, wantSeq(0, 12))
					wantAbsent(t, store)
					mustPut(t, w, seq(t, 12, 1))
					mustClose(t, w)
					checkRows(t, mustOpen(t, inner, o), wantSeq(0, 13))
				})
			}
		}
	}
	for version := uint64(1); version <= 2; version++ {
		inner, _ := twoEpochs(t)
		store := absent(inner, layoutOf(testShard).manifest+manifest.Name(version), 1)
		checkRows(t, mustOpen(t, store, narrowOptions()), wantSeq(0, 12))
	}
}

// TestS01_AdoptionLooksAgain: the same while the log of another program is read.
func TestS01_AdoptionLooksAgain(t *testing.T) {
	for pos := uint64(1); pos <= 4; pos++ {
		for times := 1; times <= 2; times++ {
			l := newLanceLog(t)
			for i := range int64(4) {
				l.put(testRow{i, "a", i})
			}
			store := absent(l.store, layoutOf(testShard).wal+wal.Name(pos), times)
			w := openAs(t, store, testSchema, adopting(nil))
			checkSame(t, fmt.Sprintf("%d was absent %d times", pos, times), byKey(t, w), []string{"0|a|0", "1|a|1", "2|a|2", "3|a|3"})
			wantAbsent(t, store)
		}
	}
}

// TestS01_HoleIsReportedOnlyIfItIsOne: the object stays absent for gets. The look that
// decides, a HEAD, says so too, and then it is a hole; or it has no answer, and then
// nothing is known.
func TestS01_HoleIsReportedOnlyIfItIsOne(t *testing.T) {
	for _, status := range []int{404, 403} {
		for pos := uint64(1); pos <= 13; pos++ {
			t.Run(fmt.Sprintf("status %d, WAL object %d", status, pos), func(t *testing.T) {
				inner, _ := twoEpochs(t)
				key := layoutOf(testShard).wal + wal.Name(pos)
				store := absent(inner, key, -1)
				store.Add(faultstore.Rule{Ops: []objstore.Op{objstore.OpHead}, Key: key, Count: -1, Before: faultstore.Status(status)})
				w, err := Open(t.Context(), store, testShard, testSchema, narrowOptions())
				if err == nil {
					w.Abort()
				}
				hole, isHole := errors.AsType[*HoleError](err)
				switch {
				case status == 404 && (!isHole || hole.Position != pos):
					t.Errorf("open: %v, want a hole", err)
				case status == 403 && (isHole || !errors.Is(err, objstore.ErrPermission)):
					t.Errorf("open: %v, want ErrPermission, and no word of a hole", err)
				}
			})
		}
	}
}

// TestS01_ReaderLooksAgain: what the manifest knows to be there, a reader looks for
// again at once; otherwise it shows a prefix, and goes on with the next refresh.
func TestS01_ReaderLooksAgain(t *testing.T) {
	for _, known := range []bool{false, true} {
		for pos := uint64(1); pos <= 14; pos++ {
			inner, _ := twoEpochs(t)
			if known {
				if _, err := manifests(inner).UpdateAny(t.Context(), func(m *manifest.Manifest) error {
					m.LastSeen = 14
					return nil
				}); err != nil {
					t.Fatal(err)
				}
			}
			store := absent(inner, layoutOf(testShard).wal+wal.Name(pos), 1)
			r := mustOpenReader(t, store, nil)
			if !known {
				if err := r.Refresh(t.Context()); err != nil {
					t.Errorf("WAL object %d: %v", pos, err)
				}
			}
			checkReader(t, r, wantSeq(0, 12))
			if n := wantAbsent(t, store); n > 1 {
				t.Errorf("WAL object %d was absent %d times", pos, n)
			}
		}
	}
}

// TestS02_OpenRefusesAStoreThatIgnoresTheCondition, below any adapter, before it
// claims anything.
func TestS02_OpenRefusesAStoreThatIgnoresTheCondition(t *testing.T) {
	onEveryStore(t, func(t *testing.T, store objstore.Store) {
		first := mustOpen(t, store, plainOptions())
		mustPut(t, first, seq(t, 0, 2))
		f := faultstore.New(store, 1)
		f.Add(faultstore.Rule{Count: -1, IgnoreCondition: true})
		w, err := Open(t.Context(), f, testShard, testSchema, plainOptions())
		if !errors.Is(err, objstore.ErrConditionIgnored) {
			t.Errorf("open: %v", err)
		}
		if err == nil {
			w.Abort()
		}
		mustPut(t, first, seq(t, 2, 1)) // it is still the owner
		checkRows(t, first, wantSeq(0, 3))
		mustClose(t, first)
	})
}

// TestS04_ListingsInDisorderChangeNothing: listings without order, of pages that
// overlap, with foreign keys, in everything that a writer and a reader do.
func TestS04_ListingsInDisorderChangeNothing(t *testing.T) {
	srv := objstoretest.StartS3(t)
	srv.PageSize, srv.Unordered = 3, true
	for name, inner := range map[string]objstore.Store{"memory": objstore.NewMemory(), "S3 in pages": srv.Store("p")} {
		t.Run(name, func(t *testing.T) {
			dirs := layoutOf(testShard)
			for _, dir := range []string{dirs.wal, dirs.manifest} {
				for _, key := range []string{"README", "sub/" + wal.Name(3), wal.Name(4) + ".tmp", manifest.Name(0), wal.Name(0)} {
					if dir == dirs.wal && key == wal.Name(0) {
						continue // an older Lance begins there
					}
					putRaw(t, inner, dir+key, []byte("not ours"))
				}
			}
			for seed := range uint64(8) {
				store := faultstore.New(inner, seed)
				store.Add(faultstore.Rule{Ops: []objstore.Op{objstore.OpList}, Count: -1, Shuffle: true})
				rows := 5 * int(seed)
				r := (*Reader)(nil)
				if seed > 0 {
					r = mustOpenReader(t, store, nil)
					checkReader(t, r, wantSeq(0, rows))
				}
				w := mustOpen(t, store, narrowOptions())
				checkRows(t, w, wantSeq(0, rows))
				for i := range 5 {
					mustPut(t, w, seq(t, int64(rows+i), 1))
				}
				if seed%2 == 0 {
					crashWriter(w)
				} else {
					mustClose(t, w)
				}
				if r != nil {
					if err := r.Refresh(t.Context()); err != nil {
						t.Error(err)
					}
					checkReader(t, r, wantSeq(0, rows+5))
				}
				if got := store.Injected(); seed > 2 && (got[faultstore.FaultUnorderedList] < 3 || got[faultstore.FaultDoubledList] < 3) {
					t.Errorf("seed %d: the listings were not in disorder: %v", seed, got)
				}
			}
			checkRows(t, mustOpen(t, inner, narrowOptions()), wantSeq(0, 40))
		})
	}
}
