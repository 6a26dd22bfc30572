package memwal

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/memwal/memwal-go/index"
	"github.com/memwal/memwal-go/internal/wal"
	"github.com/memwal/memwal-go/objstore"
)

// What a reader does at the edges of its options, with errors that stay, and
// with callers who do not behave.

func TestReplayBytesAtItsEdges(t *testing.T) {
	s := objstore.NewMemory()
	w := mustOpen(t, s, plainOptions())
	mustPut(t, w, seq(t, 0, 3))
	for _, n := range []int64{1, 2, math.MaxInt64} {
		checkReader(t, mustOpenReader(t, s, &ReaderOptions{ReplayBytes: n}), wantSeq(0, 3))
	}
}

// peakAlloc notes the most memory that was allocated at once.
type peakAlloc struct {
	memory.Allocator
	cur, peak atomic.Int64
}

func (p *peakAlloc) add(n int) {
	c := p.cur.Add(int64(n))
	for {
		old := p.peak.Load()
		if old >= c || p.peak.CompareAndSwap(old, c) {
			return
		}
	}
}
func (p *peakAlloc) Allocate(n int) []byte { p.add(n); return p.Allocator.Allocate(n) }
func (p *peakAlloc) Reallocate(n int, b []byte) []byte {
	p.add(n - len(b))
	return p.Allocator.Reallocate(n, b)
}
func (p *peakAlloc) Free(b []byte) { p.add(-len(b)); p.Allocator.Free(b) }

// Compressed entries count with what they expand to.
func TestR10_ReaderOfCompressedEntries(t *testing.T) {
	s := objstore.NewMemory()
	o := plainOptions()
	o.Compression = CompressionZstd
	w := mustOpen(t, s, o)
	for i := range int64(60) {
		mustPut(t, w, batchOf(t, testRow{i, strings.Repeat("a", 4<<20), 0}))
	}
	mustClose(t, w)
	p := &peakAlloc{Allocator: memory.DefaultAllocator}
	_, err := OpenReader(t.Context(), s, testShard, &ReaderOptions{ReplayBytes: 8 << 20, MaxResidentBytes: 16 << 20, Allocator: p})
	if !errors.Is(err, ErrReaderFull) {
		t.Errorf("open a reader: %v, want ErrReaderFull", err)
	}
	if p.peak.Load() > 64<<20 {
		t.Errorf("peak %d MiB with ReplayBytes 8 MiB and MaxResidentBytes 16 MiB", p.peak.Load()>>20)
	}
}

// Only an error of the shard stops a reader, not the cause of a caller's context.
func TestReaderIsNotStoppedByItsCaller(t *testing.T) {
	s := objstore.NewMemory()
	mustPut(t, mustOpen(t, s, plainOptions()), seq(t, 0, 3))
	r := mustOpenReader(t, s, nil)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(ErrCorrupt)
	if err := r.Refresh(ctx); !errors.Is(err, ErrCorrupt) {
		t.Errorf("refresh: %v", err)
	}
	if r.stopped {
		t.Error("the reader counts as stopped")
	}
	mustRefresh(t, r)
}

// A later writer changes the columns: what a reader requires by its own schema
// and does not find ends it, and Follow with it; otherwise nothing is shown that
// its schema denies.
func TestR07_ReaderOfColumnsThatWereDropped(t *testing.T) {
	ints := arrow.PrimitiveTypes.Int64
	both := arrow.NewSchema([]arrow.Field{{Name: "id", Type: ints}, {Name: "n", Type: ints}}, nil)
	one := arrow.NewSchema(both.Fields()[:1], nil)
	for _, key := range [][]string{nil, {"id"}} {
		for _, given := range []*arrow.Schema{nil, both} {
			s := objstore.NewMemory()
			put := func(schema *arrow.Schema, id int64) {
				w, err := Open(t.Context(), s, testShard, schema, &Options{PrimaryKey: key})
				if err != nil {
					t.Fatal(err)
				}
				b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
				defer b.Release()
				for i := range schema.Fields() {
					b.Field(i).(*array.Int64Builder).Append(id)
				}
				rec := b.NewRecordBatch()
				defer rec.Release()
				mustPut(t, w, rec)
				mustClose(t, w)
			}
			put(both, 7)
			r := mustOpenReader(t, s, &ReaderOptions{Schema: given, PollInterval: time.Millisecond, MaxPollInterval: time.Millisecond})
			put(one, 8)
			looks, rows := 0, int64(0)
			for snap, err := range r.Follow(t.Context(), 0) {
				if looks++; looks > 10 {
					t.Fatalf("Follow repeats an error that stays: %v", err)
				}
				if err != nil {
					continue
				}
				rows = 0
				for rec, err := range snap.All(t.Context(), ScanOptions{}) {
					if err != nil {
						t.Fatal(err)
					}
					rows += rec.NumRows()
					for i, col := range rec.Columns() {
						if col.NullN() > 0 && !rec.Schema().Field(i).Nullable {
							t.Errorf("key %v, schema given %v: column %d is required and has nulls", key, given != nil, i)
						}
					}
				}
				if rows == 2 {
					break
				}
			}
			if rows != 2 {
				t.Errorf("key %v, schema given %v: %d rows are shown, want 2", key, given != nil, rows)
			}
		}
	}
}

func TestFollowClosesItsSnapshotWhateverTheLoopDoes(t *testing.T) {
	s := objstore.NewMemory()
	mustPut(t, mustOpen(t, s, plainOptions()), seq(t, 0, 3))
	r := mustOpenReader(t, s, nil)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the loop did not panic")
			}
		}()
		for range r.Follow(t.Context(), 0) {
			panic("x")
		}
	}()
	if n := r.Stats().Snapshots; n != 0 {
		t.Errorf("%d snapshots stay open", n)
	}
}

// The indexes of the shard follow the columns of the reader's schema.
func TestReaderIndexesFollowItsSchema(t *testing.T) {
	s := objstore.NewMemory()
	w := mustOpen(t, s, keyedOptions())
	mustPut(t, w, seq(t, 0, 3))
	fields := w.Schema().Fields()
	without := mustOpenReader(t, s, &ReaderOptions{Schema: arrow.NewSchema(testSchema.Fields()[:2], nil)})
	if _, err := readerSnapshot(t, without).Range(t.Context(), "by_n", index.Range{}, ScanOptions{}); !errors.Is(err, ErrNoIndex) {
		t.Errorf("an index without its column: %v, want ErrNoIndex", err)
	}
	fields[2].Name = "renamed"
	renamed := mustOpenReader(t, s, &ReaderOptions{Schema: arrow.NewSchema(fields, nil)})
	found, err := readerSnapshot(t, renamed).Range(t.Context(), "by_n", index.Range{Reverse: true}, ScanOptions{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	if got := readRows(t, found); len(got) != 1 || got[0].id != 2 {
		t.Errorf("range: %v", got)
	}
}

// Nothing can be at the last position: no position follows it.
func TestS04_LastPositionIsForeign(t *testing.T) {
	s := objstore.NewMemory()
	w := mustOpen(t, s, plainOptions())
	mustPut(t, w, seq(t, 0, 3))
	mustClose(t, w)
	putRaw(t, s, layoutOf(testShard).wal+wal.Name(math.MaxUint64), []byte("junk"))
	checkReader(t, mustOpenReader(t, s, nil), wantSeq(0, 3))
	checkRows(t, mustOpen(t, s, plainOptions()), wantSeq(0, 3))
}

// overDeadObjects has a writer with MaxInFlight 4 put rows 0 to 16, an entry each, of
// which the first is at position 3 and acknowledged, and dead objects at positions
// from 4 on. The put at 4 is held until release, so that the window behind it is
// spread as far as it goes.
func overDeadObjects(t *testing.T, dead ...uint64) (s *testStore, w *Writer, tickets []*Ticket, release func()) {
	t.Helper()
	s = newTestStore()
	mustOpen(t, s, nil).Abort()
	w = mustOpen(t, s, &Options{MaxInFlight: 4})
	mustPut(t, w, seq(t, 0, 1))
	for _, pos := range dead {
		body, err := wal.EncodeFence(wal.Header{Epoch: 1, PutID: wal.NewPutID(), Fence: true})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.inner.PutIfAbsent(t.Context(), layoutOf(testShard).wal+wal.Name(pos), body); err != nil {
			t.Fatal(err)
		}
	}
	held, release := hold()
	s.on(objstore.OpPutIfAbsent, wal.Name(4), 1, held)
	for i := range int64(16) {
		ticket, err := w.PutAsync(t.Context(), seq(t, 1+i, 1))
		if err != nil {
			t.Fatal(err)
		}
		tickets = append(tickets, ticket)
		time.Sleep(time.Second)
	}
	return s, w, tickets, release
}

func waitAll(t *testing.T, tickets []*Ticket) {
	t.Helper()
	for _, ticket := range tickets {
		if err := ticket.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// Entries that are put again keep to MaxInFlight, too.
func TestF13_PutAgainWithinMaxInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, w, tickets, release := overDeadObjects(t, 4)
		var now, peak atomic.Int64
		s.on(objstore.OpPutIfAbsent, "/wal/", always, func(ctx context.Context, apply func() error) error {
			if n := now.Add(1); n > peak.Load() {
				peak.Store(n)
			}
			time.Sleep(time.Second)
			now.Add(-1)
			return apply()
		})
		release()
		waitAll(t, tickets)
		if peak.Load() > 4 {
			t.Errorf("%d puts in flight, MaxInFlight is 4", peak.Load())
		}
		mustClose(t, w)
	})
}

// A crash with the window spread as far as it goes is no hole, whatever the
// windows of those who come after.
func TestR14_SpreadWindowIsNoHole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestStore()
		w := mustOpen(t, s, &Options{MaxInFlight: 2})
		mustPut(t, w, seq(t, 0, 1))
		held, release := hold()
		defer release()
		s.on(objstore.OpPutIfAbsent, wal.Name(3), always, held)
		for i := range int64(12) {
			if _, err := w.PutAsync(t.Context(), seq(t, 1+i, 1)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		n := len(s.keys("/wal/"))
		if n < 9 {
			t.Fatalf("%d objects: the window is not spread", n)
		}
		w.Abort()
		r := mustOpenReader(t, s.inner, nil)
		for _, mf := range []int{1, 64, 1} {
			w2, err := Open(t.Context(), s.inner, testShard, testSchema, &Options{MaxInFlight: mf})
			if err != nil {
				t.Fatalf("%d objects: %v", n, err)
			}
			first := int64(100 * mf)
			for i := range int64(12) {
				mustPut(t, w2, seq(t, first+i, 1))
			}
			mustRefresh(t, r)
			checkReader(t, r, rowsOf(t, w2))
			w2.Abort()
		}
	})
}

// Dead objects at many places, so that entries that wait to be put again are
// displaced once more: no position stays empty.
func TestF13_DisplacedAgainWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, w, tickets, release := overDeadObjects(t, 4, 20, 21, 27, 30, 43, 44, 45, 46, 47)
		release()
		waitAll(t, tickets)
		mustPut(t, w, seq(t, 17, 3))
		w.Abort()
		w = mustOpen(t, s, nil)
		if got := rowsOf(t, w); len(got) != 20 {
			t.Errorf("%d rows: %v", len(got), got)
		}
		r := mustOpenReader(t, s, nil)
		checkReader(t, r, wantSeq(0, 20))
	})
}

// Unsealing a shard that is not sealed disturbs nobody.
func TestF08_UnsealOfAnActiveShard(t *testing.T) {
	s := objstore.NewMemory()
	w := mustOpen(t, s, plainOptions())
	mustPut(t, w, seq(t, 0, 1))
	before := contents(t, s, "")
	if err := UnsealShard(t.Context(), s, testShard, nil); err != nil {
		t.Fatal(err)
	}
	checkUntouched(t, s, before)
	mustPut(t, w, seq(t, 1, 1))
}

// A reader has its own bill.
func TestReaderCost(t *testing.T) {
	s := objstore.NewMemory()
	mustPut(t, mustOpen(t, s, plainOptions()), seq(t, 0, 1))
	r := mustOpenReader(t, s, &ReaderOptions{Prices: &objstore.Prices{ClassA: 1000, ClassB: 1}})
	mustRefresh(t, r)
	st := r.Stats()
	want := float64(st.Requests.List.Requests) + float64(st.Requests.Get.Requests)/1000
	if st.Cost.ClassA.Requests == 0 || st.Cost.Dollars < want-1e-9 || st.Cost.Dollars > want+1e-9 {
		t.Errorf("cost %+v of %+v, want %v dollars", st.Cost, st.Requests, want)
	}
}

// A log whose writer keeps nothing is read like any other, across its memtables.
func TestReaderOfALogOnlyWriter(t *testing.T) {
	s := objstore.NewMemory()
	w := mustOpen(t, s, &Options{PrimaryKey: []string{"id"}, WALOnly: true, MaxMemtableRows: 3, FlushBytes: 1, MaxEntryBytes: 1})
	mustPut(t, w, seq(t, 0, 2))
	r := mustOpenReader(t, s, nil)
	mustPut(t, w, seq(t, 2, 2))
	mustPut(t, w, batchOf(t, testRow{1, "again", 5}))
	if err := w.Delete(t.Context(), keysOf(t, 3)); err != nil {
		t.Fatal(err)
	}
	mustRefresh(t, r)
	checkReader(t, r, []testRow{{0, "row 0", 0}, {2, "row 2", 20}, {1, "again", 5}})
	mustClose(t, w)
	mustRefresh(t, r)
	checkReader(t, mustOpenReader(t, s, nil), []testRow{{0, "row 0", 0}, {2, "row 2", 20}, {1, "again", 5}})
}
