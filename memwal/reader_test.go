package memwal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/uuid"

	"github.com/memwal/memwal-go/index"
	"github.com/memwal/memwal-go/internal/manifest"
	"github.com/memwal/memwal-go/internal/miniotest"
	"github.com/memwal/memwal-go/internal/wal"
	"github.com/memwal/memwal-go/objstore"
	"github.com/memwal/memwal-go/objstore/faultstore"
	"github.com/memwal/memwal-go/replay"
)

func mustOpenReader(t testing.TB, store objstore.Store, o *ReaderOptions) *Reader {
	t.Helper()
	r, err := OpenReader(t.Context(), store, testShard, o)
	if err != nil {
		t.Fatalf("open a reader: %v", err)
	}
	t.Cleanup(r.Close)
	return r
}

func mustRefresh(t testing.TB, r *Reader) {
	t.Helper()
	if err := r.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func readerSnapshot(t testing.TB, r *Reader) *Snapshot {
	t.Helper()
	s, err := r.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func checkReader(t testing.TB, r *Reader, want []testRow) {
	t.Helper()
	s, err := r.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if got := snapshotRows(t, s); !slices.Equal(got, want) {
		t.Fatalf("the reader shows %v, want %v", got, want)
	}
}

// A reader answers everything that a writer's snapshot does, and shows what
// came since once it is refreshed. It writes nothing.
func TestReaderAnswersLikeAWriter(t *testing.T) {
	onEveryStore(t, func(t *testing.T, store objstore.Store) {
		o := keyedOptions()
		o.MaxMemtableRows = 4
		w := mustOpen(t, store, o)
		mustPut(t, w, seq(t, 0, 3))
		mine := over(store)
		r := mustOpenReader(t, mine, nil)
		checkReader(t, r, wantSeq(0, 3))
		before := readerSnapshot(t, r)

		mustPut(t, w, batchOf(t, testRow{1, "one again", 99}, testRow{7, "seven", -1}))
		if err := w.Delete(t.Context(), keysOf(t, 2)); err != nil {
			t.Fatal(err)
		}
		checkReader(t, r, wantSeq(0, 3))
		mustRefresh(t, r)
		want := []testRow{{0, "row 0", 0}, {1, "one again", 99}, {7, "seven", -1}}
		checkReader(t, r, want)

		s := readerSnapshot(t, r)
		for id, presence := range map[int64]Presence{0: Present, 1: Present, 2: Deleted, 3: Absent, 7: Present} {
			row, err := s.Lookup(t.Context(), id)
			if err != nil || row.Presence != presence {
				t.Errorf("lookup of %d: %v, %v, want %v", id, row.Presence, err, presence)
			}
		}
		found, err := s.LookupAll(t.Context(), keysOf(t, 7, 1, 2))
		if err != nil || len(found) != 3 || found[0].Ordinal != 4 || found[1].Ordinal != 3 || found[2].Presence != Deleted {
			t.Errorf("multi-get: %+v, %v", found, err)
		}
		ranged, err := s.Range(t.Context(), "by_n", index.Range{}, ScanOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := readRows(t, ranged), []testRow{{7, "seven", -1}, {0, "row 0", 0}, {1, "one again", 99}}; !slices.Equal(got, want) {
			t.Errorf("range: %v, want %v", got, want)
		}
		if n, err := s.Count(t.Context()); err != nil || n != 3 {
			t.Errorf("count: %d, %v", n, err)
		}
		fresh, err := s.Scan(t.Context(), ScanOptions{From: before.Bound()})
		if err != nil {
			t.Fatal(err)
		}
		if got := readRows(t, fresh); !slices.Equal(got, want[1:]) {
			t.Errorf("rows from %d: %v, want %v", before.Bound(), got, want[1:])
		}
		ranged, err = s.Range(t.Context(), "by_n", index.Range{}, ScanOptions{From: 4})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := readRows(t, ranged), []testRow{{7, "seven", -1}}; !slices.Equal(got, want) {
			t.Errorf("range from row 4: %v, want %v", got, want)
		}
		if got := snapshotRows(t, before); !slices.Equal(got, wantSeq(0, 3)) {
			t.Errorf("the older snapshot shows %v", got)
		}
		if st := r.Stats(); st.Visible != 6 || st.Visible != w.Stats().Durable || st.Memtables != 2 || st.Snapshots != 2 ||
			st.Epoch != 1 || st.Log.Rows != 6 || st.ResidentBytes == 0 || st.IndexBytes == 0 {
			t.Errorf("stats: %+v", st)
		}
		if got, want := r.Schema(), w.Schema(); !got.Equal(want) {
			t.Errorf("schema %v, want %v", got, want)
		}
		for _, op := range []objstore.Op{objstore.OpPutIfAbsent, objstore.OpPut, objstore.OpDelete} {
			if n := mine.count(op, ""); n != 0 {
				t.Errorf("the reader made %d requests %v", n, op)
			}
		}
	})
}

// A refresh asks for new positions only, and for the one that is empty.
func TestReaderReadsNewEntriesOnly(t *testing.T) {
	inner := objstore.NewMemory()
	w := mustOpen(t, inner, plainOptions())
	for i := range int64(20) {
		mustPut(t, w, seq(t, i, 1))
	}
	store := over(inner)
	r := mustOpenReader(t, store, nil)
	checkReader(t, r, wantSeq(0, 20))
	at := r.Stats().Position
	gets := func() []string {
		var keys []string
		for _, q := range store.requests(objstore.OpGet, "/wal/") {
			keys = append(keys, q.key[strings.LastIndex(q.key, "/")+1:])
		}
		return keys
	}
	before, lists := len(gets()), store.count(objstore.OpList, "")
	for i := range int64(3) {
		mustPut(t, w, seq(t, 20+i, 1))
	}
	mustRefresh(t, r)
	checkReader(t, r, wantSeq(0, 23))
	asked := gets()[before:]
	for i := range uint64(3) {
		if !slices.Contains(asked, wal.Name(at+1+i)) {
			t.Errorf("position %d was not read", at+1+i)
		}
	}
	for _, name := range asked {
		if pos, _ := wal.ParseName(name); pos <= at {
			t.Errorf("position %d was read again", pos)
		}
	}
	// Positions further up may still be asked for by the refresh before.
	end := wal.Name(r.Stats().Position + 1)
	before = store.count(objstore.OpGet, end)
	for range 10 {
		mustRefresh(t, r)
	}
	if n := store.count(objstore.OpGet, end) - before; n != 10 {
		t.Errorf("%d reads of the log's end in ten refreshes without news, want one each", n)
	}
	if n := store.count(objstore.OpList, "") - lists; n != 0 {
		t.Errorf("refreshing made %d listings", n)
	}
}

// Entries that landed behind a put in flight are not shown before it.
func TestV03_ReaderStopsAtTheFirstEmptyPosition(t *testing.T) {
	inner := newTestStore()
	w := mustOpen(t, inner, plainOptions())
	mustPut(t, w, seq(t, 0, 1))
	held, release := hold()
	inner.on(objstore.OpPutIfAbsent, wal.Name(3), always, held)
	var tickets []*Ticket
	for i := range int64(3) {
		ticket, err := w.PutAsync(t.Context(), seq(t, 1+i, 1))
		if err != nil {
			t.Fatal(err)
		}
		tickets = append(tickets, ticket)
	}
	for inner.count(objstore.OpPutIfAbsent, wal.Name(5)) == 0 {
		time.Sleep(time.Millisecond)
	}
	r := mustOpenReader(t, inner.inner, nil)
	checkReader(t, r, wantSeq(0, 1))
	mustRefresh(t, r)
	checkReader(t, r, wantSeq(0, 1))
	release()
	for _, ticket := range tickets {
		if err := ticket.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	mustRefresh(t, r)
	checkReader(t, r, wantSeq(0, 4))
}

// Takeovers, dead objects, seals: the reader goes on and shows what a writer
// would find.
func TestReaderSurvivesTakeovers(t *testing.T) {
	inner := objstore.NewMemory()
	first := newLate(inner)
	a := mustOpen(t, first, plainOptions())
	mustPut(t, a, seq(t, 0, 1))
	r := mustOpenReader(t, inner, nil)
	first.keep()
	for i := range int64(3) { // positions 3 to 5
		if _, err := a.PutAsync(t.Context(), seq(t, 100+i, 1)); err != nil {
			t.Fatal(err)
		}
	}
	b := mustOpen(t, inner, plainOptions()) // its fence is at 3
	first.land(t, 4)
	mustPut(t, b, seq(t, 1, 1)) // at 5, above a dead object
	mustRefresh(t, r)
	checkReader(t, r, wantSeq(0, 2))
	if st := r.Stats(); st.Log.Dead != 1 || st.Epoch != 2 {
		t.Errorf("stats: %+v", st)
	}
	if err := SealShard(t.Context(), inner, testShard, nil); err != nil {
		t.Fatal(err)
	}
	mustRefresh(t, r)
	checkReader(t, r, wantSeq(0, 2))
	checkReader(t, mustOpenReader(t, inner, nil), wantSeq(0, 2))
	if err := UnsealShard(t.Context(), inner, testShard, nil); err != nil {
		t.Fatal(err)
	}
	c := mustOpen(t, inner, plainOptions())
	mustPut(t, c, seq(t, 2, 1))
	mustRefresh(t, r)
	checkReader(t, r, wantSeq(0, 3))
}

// recycle moves the rows floor of the test shard to a live position and deletes
// the log up to it, by the order that recycling has: reference, then payload.
func recycle(t testing.TB, s objstore.Store, upTo uint64, remove bool) {
	t.Helper()
	w := replay.NewWalker(replay.Config{Store: s, Dir: layoutOf(testShard).wal, From: wal.Start()})
	defer w.Close()
	for w.Position() <= upTo {
		step, err := w.Next(t.Context())
		if err != nil || step == nil {
			t.Fatalf("position %d: %v", w.Position(), err)
		}
		step.Entry.Release()
	}
	_, err := manifests(s).UpdateAny(t.Context(), func(m *manifest.Manifest) error {
		m.SetFloor(manifest.Floor{Plane: manifest.PlaneRows, Kind: manifest.Snapshot, Tuple: w.Tuple()})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if remove {
		for pos := uint64(1); pos <= upTo; pos++ {
			deleteRaw(t, s, layoutOf(testShard).wal+wal.Name(pos))
		}
	}
}

// What a reader has read may be recycled. What it has not read may not: it says
// so, and never takes an emptied position for the end of the log, nor what a
// writer of long ago leaves there for a part of it.
func TestReaderAndRecycling(t *testing.T) {
	type shard struct {
		store objstore.Store
		w     *Writer
		r     *Reader
	}
	// Positions: fence 1, entries 2 to 5, of which the reader has read 2 and 3.
	start := func(t *testing.T) shard {
		s := objstore.NewMemory()
		w := mustOpen(t, s, plainOptions())
		mustPut(t, w, seq(t, 0, 1))
		mustPut(t, w, seq(t, 1, 1))
		r := mustOpenReader(t, s, nil)
		mustPut(t, w, seq(t, 2, 1))
		mustPut(t, w, seq(t, 3, 1))
		return shard{s, w, r}
	}
	wantTruncated := func(t *testing.T, sh shard, oldest uint64) {
		t.Helper()
		for range 2 {
			err := sh.r.Refresh(t.Context())
			cut, ok := errors.AsType[*LogTruncatedError](err)
			if !ok || !errors.Is(err, ErrLogTruncated) || cut.Want != 4 || cut.Oldest != oldest {
				t.Fatalf("refresh: %v, want the log to be truncated: entry 4 wanted, %d kept", err, oldest)
			}
		}
		checkReader(t, sh.r, wantSeq(0, 2))
	}
	t.Run("below", func(t *testing.T) {
		sh := start(t)
		recycle(t, sh.store, 3, true)
		mustRefresh(t, sh.r)
		checkReader(t, sh.r, wantSeq(0, 4))
		fresh := mustOpenReader(t, sh.store, nil)
		checkReader(t, fresh, wantSeq(2, 2))
		if fresh.Bound() != 4 {
			t.Errorf("bound %d, want 4: ordinals stay", fresh.Bound())
		}
	})
	t.Run("above", func(t *testing.T) {
		sh := start(t)
		recycle(t, sh.store, 4, true)
		wantTruncated(t, sh, 5)
	})
	t.Run("above, all of it", func(t *testing.T) {
		sh := start(t)
		recycle(t, sh.store, 5, true)
		wantTruncated(t, sh, 6)
	})
	t.Run("above, not deleted yet", func(t *testing.T) {
		sh := start(t)
		recycle(t, sh.store, 4, false)
		wantTruncated(t, sh, 5)
	})
	t.Run("a late put of long ago", func(t *testing.T) {
		sh := start(t)
		// It chains from what the reader has read last, so it looks alive to it.
		log := logOf(t, sh.store)
		ghost := log[3]
		recycle(t, sh.store, 5, true)
		putRaw(t, sh.store, ghost.key(), ghost.data)
		wantTruncated(t, sh, 6)
	})
	t.Run("garbage of long ago", func(t *testing.T) {
		sh := start(t)
		key := logOf(t, sh.store)[3].key()
		recycle(t, sh.store, 5, true)
		putRaw(t, sh.store, key, []byte("not an entry"))
		wantTruncated(t, sh, 6)
	})
	t.Run("between the log and the manifest", func(t *testing.T) {
		sh := start(t)
		slow := over(sh.store)
		r := mustOpenReader(t, slow, nil)
		mustPut(t, sh.w, seq(t, 4, 1)) // position 6
		slow.on(objstore.OpGet, "/manifest/", 1, func(_ context.Context, apply func() error) error {
			recycle(t, sh.store, 6, true)
			return apply()
		})
		if err := r.Refresh(t.Context()); !errors.Is(err, ErrLogTruncated) {
			t.Fatalf("refresh: %v, want ErrLogTruncated", err)
		}
		checkReader(t, r, wantSeq(0, 4))
	})
	t.Run("while it is opened", func(t *testing.T) {
		sh := start(t)
		slow := over(sh.store)
		slow.on(objstore.OpList, "/wal/", 1, func(_ context.Context, apply func() error) error {
			recycle(t, sh.store, 3, true)
			return apply()
		})
		r := mustOpenReader(t, slow, nil)
		checkReader(t, r, wantSeq(2, 2))
		if r.Bound() != 4 {
			t.Errorf("bound %d, want 4", r.Bound())
		}
	})
}

// An entry that somebody deleted is reported where the manifest shows that the
// log was longer, and not where a put may be in flight.
func TestR14_ReaderReportsAHole(t *testing.T) {
	s := objstore.NewMemory()
	w := mustOpen(t, s, plainOptions())
	r := mustOpenReader(t, s, nil)
	for i := range int64(3) {
		mustPut(t, w, seq(t, i, 1))
	}
	mustClose(t, w) // it records the end of the log
	deleteRaw(t, s, layoutOf(testShard).wal+wal.Name(3))
	for range 2 {
		err := r.Refresh(t.Context())
		hole, ok := errors.AsType[*HoleError](err)
		if !ok || hole.Position != 3 || hole.Witness != 4 {
			t.Fatalf("refresh: %v, want a hole at 3", err)
		}
	}
	if _, err := OpenReader(t.Context(), s, testShard, nil); !errors.Is(err, ErrHole) {
		t.Errorf("open a reader: %v, want ErrHole", err)
	}
}

// The log grows between the look at its end and the look at the manifest, which
// then has seen it longer: no hole.
func TestReaderLooksAgainBeforeItReportsAHole(t *testing.T) {
	inner := objstore.NewMemory()
	w := mustOpen(t, inner, plainOptions())
	mustPut(t, w, seq(t, 0, 1))
	store := over(inner)
	r := mustOpenReader(t, store, nil)
	store.on(objstore.OpGet, "/manifest/", 1, func(_ context.Context, apply func() error) error {
		mustPut(t, w, seq(t, 1, 2))
		mustClose(t, w)
		return apply()
	})
	mustRefresh(t, r)
	checkReader(t, r, wantSeq(0, 3))
}

// Whatever request fails, the reader shows what it had, and the next refresh
// gets everything, once.
func TestReaderGoesOnAfterFailures(t *testing.T) {
	injected := objstore.ErrPermission
	for _, at := range []struct {
		op   objstore.Op
		part string
	}{{objstore.OpGet, "/wal/"}, {objstore.OpGet, "/manifest/"}} {
		for nth := range 8 {
			t.Run(fmt.Sprintf("%v %s %d", at.op, at.part, nth), func(t *testing.T) {
				inner := objstore.NewMemory()
				w := mustOpen(t, inner, plainOptions())
				mustPut(t, w, seq(t, 0, 1))
				store := over(inner)
				r := mustOpenReader(t, store, &ReaderOptions{ReplayBytes: 1}) // a stretch for each entry
				for i := range int64(5) {
					mustPut(t, w, seq(t, 1+i, 1))
				}
				pass := func(_ context.Context, apply func() error) error { return apply() }
				if nth > 0 {
					store.on(at.op, at.part, nth, pass)
				}
				mend := store.on(at.op, at.part, 1, failBefore(&objstore.Error{Op: "test", Class: injected}))
				err := r.Refresh(t.Context())
				mend()
				if err != nil && !errors.Is(err, injected) {
					t.Fatalf("refresh: %v", err)
				}
				shown := r.Bound()
				if shown < 1 || err != nil && nth == 0 && shown == 6 {
					t.Fatalf("%d rows are shown after %v", shown, err)
				}
				checkReader(t, r, wantSeq(0, int(shown)))
				mustPut(t, w, seq(t, 6, 1))
				mustRefresh(t, r)
				checkReader(t, r, wantSeq(0, 7))
			})
		}
	}
}

// What is read and not shown yet stays within the bound, however far the reader
// is behind.
func TestR10_ReaderReadsInStretches(t *testing.T) {
	inner := objstore.NewMemory()
	o := plainOptions()
	w := mustOpen(t, inner, o)
	r0 := over(inner)
	const budget = 40 << 10
	r := mustOpenReader(t, r0, &ReaderOptions{ReplayBytes: budget})
	for i := range int64(200) {
		if _, err := w.PutAsync(t.Context(), seq(t, i*50, 50)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	sizes := map[string]int64{}
	largest := int64(0)
	for _, obj := range logOf(t, inner) {
		sizes[obj.key()] = int64(len(obj.data))
		largest = max(largest, int64(len(obj.data)))
	}
	var mu sync.Mutex
	var fetched, peak int64
	shownAt := uint64(0)
	r0.on(objstore.OpGet, "/wal/", always, func(ctx context.Context, apply func() error) error {
		return apply()
	})
	before := len(r0.requests(objstore.OpGet, "/wal/"))
	stretches := 0
	r0.on(objstore.OpGet, "/manifest/", always, func(ctx context.Context, apply func() error) error {
		mu.Lock()
		defer mu.Unlock()
		stretches++
		var total int64
		for _, q := range r0.requests(objstore.OpGet, "/wal/")[before:] {
			if q.err == nil {
				total += sizes[q.key]
			}
		}
		var shown int64
		at := r.Stats().Position
		for pos := uint64(2); pos <= at; pos++ {
			shown += sizes[layoutOf(testShard).wal+wal.Name(pos)]
		}
		fetched = total
		peak = max(peak, total-shown)
		shownAt = at
		return apply()
	})
	mustRefresh(t, r)
	mu.Lock()
	defer mu.Unlock()
	if peak > budget+2*largest {
		t.Errorf("%d bytes were read and not shown, the bound is %d and the largest entry %d", peak, budget, largest)
	}
	if fetched < 10*budget || stretches < 10 || shownAt == 0 {
		t.Errorf("%d bytes in %d stretches: the test is too small to tell", fetched, stretches)
	}
	if r.Bound() != 10000 {
		t.Errorf("bound %d", r.Bound())
	}
}

func TestReaderFull(t *testing.T) {
	s := objstore.NewMemory()
	w := mustOpen(t, s, plainOptions())
	r := mustOpenReader(t, s, &ReaderOptions{MaxResidentBytes: 100 << 10, ReplayBytes: 8 << 10})
	for i := range int64(100) {
		mustPut(t, w, seq(t, i*100, 100))
	}
	for range 2 {
		err := r.Refresh(t.Context())
		full, ok := errors.AsType[*ReaderFullError](err)
		if !ok || !errors.Is(err, ErrReaderFull) || full.Resident < full.Max || full.Resident > full.Max+64<<10 {
			t.Fatalf("refresh: %v, want ErrReaderFull", err)
		}
	}
	n := r.Bound()
	if n == 0 || n >= 10000 || n%100 != 0 {
		t.Fatalf("%d rows are shown", n)
	}
	checkReader(t, r, wantSeq(0, int(n)))
	if _, err := OpenReader(t.Context(), s, testShard, &ReaderOptions{MaxResidentBytes: 1}); !errors.Is(err, ErrReaderFull) {
		t.Errorf("open: %v, want ErrReaderFull", err)
	}
}

func TestReaderRefusesWhatItCannotRead(t *testing.T) {
	s := objstore.NewMemory()
	if _, err := OpenReader(t.Context(), s, testShard, nil); !errors.Is(err, objstore.ErrNotExist) {
		t.Errorf("no shard: %v, want ErrNotExist", err)
	}
	if _, err := OpenReader(t.Context(), nil, uuid.Nil, &ReaderOptions{PollInterval: -1, MaxPollInterval: -2, MaxResidentBytes: -1, ReplayBytes: -1}); !errors.Is(err, ErrInvalid) {
		t.Errorf("bad options: %v, want ErrInvalid", err)
	} else {
		for _, name := range []string{"store", "shard", "PollInterval", "MaxPollInterval", "MaxResidentBytes", "ReplayBytes"} {
			if !strings.Contains(err.Error(), name) {
				t.Errorf("%v does not name %s", err, name)
			}
		}
	}
	w := mustOpen(t, s, keyedOptions())
	mustPut(t, w, seq(t, 0, 1))
	for name, o := range map[string]*ReaderOptions{
		"a key that is none":    {PrimaryKey: []string{"text"}},
		"an index over nothing": {Indexes: []index.Config{index.Ordered{Name: "x", Columns: []index.Column{{Name: "nope"}}}}},
		"another type":          {Schema: withField(arrow.Field{Name: "n", Type: arrow.BinaryTypes.String, Nullable: true})},
		"no key column":         {Schema: arrow.NewSchema(testSchema.Fields()[1:], nil)},
	} {
		if _, err := OpenReader(t.Context(), s, testShard, o); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		}
	}
	// Rows in files would be missing, silently.
	r := mustOpenReader(t, s, nil)
	_, err := manifests(s).UpdateAny(t.Context(), func(m *manifest.Manifest) error {
		m.Flushed = append(m.Flushed, manifest.Generation{Generation: 1, Path: "00000000_gen_1", Rows: 1})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := OpenReader(t.Context(), s, testShard, nil); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("with generations: %v, want ErrUnsupported", err)
	}
	before := contents(t, s, "")
	if _, err := Open(t.Context(), s, testShard, testSchema, keyedOptions()); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("writing, with generations: %v, want ErrUnsupported", err)
	}
	checkUntouched(t, s, before)
	mustRefresh(t, r) // whose rows are all there
	checkReader(t, r, wantSeq(0, 1))
}

// Columns are read by id, whatever they are called now, and whatever the entries
// had.
func TestReaderSchema(t *testing.T) {
	s := objstore.NewMemory()
	w := mustOpen(t, s, keyedOptions())
	mustPut(t, w, seq(t, 0, 2))
	ids := w.Schema()
	fields := []arrow.Field{ids.Field(2), ids.Field(0), {Name: "new", Type: arrow.PrimitiveTypes.Float64, Nullable: true}}
	fields[0].Name, fields[1].Name = "number", "key"
	r := mustOpenReader(t, s, &ReaderOptions{Schema: arrow.NewSchema(fields, nil), PrimaryKey: []string{"key"}, Indexes: []index.Config{}})
	snap := readerSnapshot(t, r)
	row, err := snap.Lookup(t.Context(), int64(1))
	if err != nil || row.Presence != Present || row.Column(0).(*array.Int64).Value(row.Index) != 10 || row.Column(2).IsValid(row.Index) {
		t.Errorf("lookup: %+v, %v", row, err)
	}
	if _, err := snap.Range(t.Context(), "by_n", index.Range{}, ScanOptions{}); !errors.Is(err, ErrNoIndex) {
		t.Errorf("range in an index that was not built: %v", err)
	}
	// The next writer drops a column and adds one: the reader keeps its schema.
	plain := mustOpenReader(t, s, nil)
	next := keyedOptions()
	next.Indexes = nil
	w2, err := Open(t.Context(), s, testShard, arrow.NewSchema([]arrow.Field{ids.Field(0), ids.Field(1),
		{Name: "extra", Type: arrow.BinaryTypes.String, Nullable: true}}, nil), next)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = w2.Abort() }()
	b := array.NewRecordBuilder(memory.DefaultAllocator, w2.Schema())
	defer b.Release()
	b.Field(0).(*array.Int64Builder).Append(9)
	b.Field(1).(*array.StringBuilder).Append("nine")
	b.Field(2).(*array.StringBuilder).Append("more")
	rec := b.NewRecordBatch()
	defer rec.Release()
	mustPut(t, w2, rec)
	mustRefresh(t, plain)
	nine, err := readerSnapshot(t, plain).Lookup(t.Context(), int64(9))
	if err != nil || nine.Presence != Present || nine.Column(1).ValueStr(nine.Index) != "nine" || nine.Column(2).IsValid(nine.Index) {
		t.Errorf("lookup: %+v, %v", nine, err)
	}
	if got := mustOpenReader(t, s, nil).Schema(); !got.HasField("extra") || got.HasField("n") {
		t.Errorf("a new reader has the schema %v", got)
	}
}

func TestReaderClose(t *testing.T) {
	inner := objstore.NewMemory()
	w := mustOpen(t, inner, keyedOptions())
	mustPut(t, w, seq(t, 0, 2))
	store := over(inner)
	mem := memory.NewCheckedAllocator(memory.NewGoAllocator())
	defer mem.AssertSize(t, 0)
	r := mustOpenReader(t, store, &ReaderOptions{Allocator: mem})
	s, err := r.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	mustPut(t, w, seq(t, 2, 1))
	held, release := hold()
	defer release()
	asked := make(chan struct{}, 100)
	store.on(objstore.OpGet, "/wal/", always, func(ctx context.Context, apply func() error) error {
		asked <- struct{}{}
		return held(ctx, apply)
	})
	result := make(chan error)
	go func() { result <- r.Refresh(context.Background()) }()
	<-asked
	r.Close()
	if err := <-result; !errors.Is(err, ErrClosed) {
		t.Errorf("the refresh under way: %v, want ErrClosed", err)
	}
	r.Close()
	if err := r.Refresh(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("refresh: %v, want ErrClosed", err)
	}
	if _, err := r.Snapshot(); !errors.Is(err, ErrClosed) {
		t.Errorf("snapshot: %v, want ErrClosed", err)
	}
	for s, err := range r.Follow(t.Context(), 0) {
		if s != nil || !errors.Is(err, ErrClosed) {
			t.Errorf("follow: %v, %v, want ErrClosed", s, err)
		}
	}
	if got := snapshotRows(t, s); !slices.Equal(got, wantSeq(0, 2)) {
		t.Errorf("the snapshot shows %v", got)
	}
	if st := r.Stats(); st.Memtables != 0 || st.Snapshots != 1 || st.Visible != 2 {
		t.Errorf("stats: %+v", st)
	}
	s.Close()
}

// Follow shows every row once, soon; without news it asks less and less.
func TestX01_FollowBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := objstore.NewMemory()
		w := mustOpen(t, inner, keyedOptions())
		store := over(inner)
		r := mustOpenReader(t, store, nil)
		ctx, cancel := context.WithCancel(t.Context())
		var mu sync.Mutex
		got := map[int64]time.Time{}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			var next uint64
			for s, err := range r.Follow(ctx, next) {
				if err != nil {
					t.Errorf("follow: %v", err)
					return
				}
				if s.Bound() <= next {
					t.Errorf("a snapshot of %d rows after one of %d", s.Bound(), next)
				}
				records, err := s.Scan(ctx, ScanOptions{From: next})
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				for _, row := range readRows(t, records) {
					if _, twice := got[row.id]; twice {
						t.Errorf("row %d is shown twice", row.id)
					}
					got[row.id] = time.Now()
				}
				mu.Unlock()
				next = s.Bound()
			}
		}()
		// While rows come often, each is seen within an interval or so.
		var put []time.Time
		for i := range int64(50) {
			mustPut(t, w, seq(t, i, 1))
			put = append(put, time.Now())
			time.Sleep(150 * time.Millisecond)
		}
		// It settles at the longest interval: two requests each.
		time.Sleep(time.Minute)
		mu.Lock()
		for i, put := range put {
			if at, ok := got[int64(i)]; !ok || at.Sub(put) > 250*time.Millisecond {
				t.Errorf("row %d was put at %v and seen at %v", i, put, at)
			}
		}
		mu.Unlock()
		hour := func() uint64 {
			before := r.Stats().Requests.Reads()
			time.Sleep(time.Hour)
			return r.Stats().Requests.Reads() - before
		}
		first, second := hour(), hour()
		if most := uint64(2 * time.Hour / (5 * time.Second / 2)); first > most || first < 100 {
			t.Errorf("%d reads in an hour without rows, want at most %d", first, most)
		}
		if second > first+first/5 {
			t.Errorf("%d reads in the next hour, %d in the one before: they grow", second, first)
		}
		if n := r.Stats().Requests.Puts(); n != 0 {
			t.Errorf("%d puts", n)
		}
		mustPut(t, w, seq(t, 50, 1))
		time.Sleep(5 * time.Second)
		mu.Lock()
		if len(got) != 51 {
			t.Errorf("%d rows were seen, want 51", len(got))
		}
		mu.Unlock()
		cancel()
		<-ended
		r.Close()
		mustClose(t, w)
	})
}

// Errors that pass are told and survived; those that stay end it.
func TestFollowAndErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := objstore.NewMemory()
		w := mustOpen(t, inner, plainOptions())
		store := over(inner)
		r := mustOpenReader(t, store, nil)
		mustPut(t, w, seq(t, 0, 1))
		store.on(objstore.OpGet, "/wal/", 1, failBefore(&objstore.Error{Op: "test", Class: objstore.ErrPermission}))
		var seen []string
		for s, err := range r.Follow(t.Context(), 0) {
			switch {
			case errors.Is(err, objstore.ErrPermission) && s == nil:
				seen = append(seen, "failed")
			case err == nil:
				seen = append(seen, fmt.Sprint(s.Bound()))
				mustPut(t, w, seq(t, 1, 1))
				mustPut(t, w, seq(t, 2, 1))
				recycle(t, inner, 4, true)
			case errors.Is(err, ErrLogTruncated):
				seen = append(seen, "truncated")
			default:
				t.Fatalf("follow: %v", err)
			}
		}
		if want := []string{"failed", "1", "truncated"}; !slices.Equal(seen, want) {
			t.Errorf("saw %v, want %v", seen, want)
		}
		r.Close()
	})
}

// openFixture returns the shard that LanceDB wrote.
func openFixture(t testing.TB) (objstore.Store, uuid.UUID) {
	t.Helper()
	store := objstore.NewMemory()
	root := os.DirFS("testdata/lance")
	err := fs.WalkDir(root, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(root, path)
		putRaw(t, store, path, data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return store, uuid.MustParse("aa48498d-ac91-59e2-8452-69f46010ace2")
}

// The log that LanceDB wrote reads as its README says, every value: what the key
// is, upserts and the fence included. Nothing is written.
func TestReaderOfLance(t *testing.T) {
	inner, shard := openFixture(t)
	before := contents(t, inner, "")
	r, err := OpenReader(t.Context(), inner, shard, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	type row struct {
		id    int64
		text  string // "": null
		score string
	}
	text := func(a arrow.Array, i int) string {
		if a.IsNull(i) {
			return ""
		}
		return a.ValueStr(i)
	}
	s, err := r.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var got []row
	var ordinals []uint64
	for rec, err := range s.All(t.Context(), ScanOptions{Ordinals: true}) {
		if err != nil {
			t.Fatal(err)
		}
		for i := range int(rec.NumRows()) {
			got = append(got, row{rec.Column(0).(*array.Int64).Value(i), text(rec.Column(1), i), text(rec.Column(2), i)})
			ordinals = append(ordinals, rec.Column(3).(*array.Uint64).Value(i))
		}
	}
	want := []row{{3, "", "3.25"}, {2, "beta two", "2.5"}, {4, "delta", "4"}, {5, "echo", "5"}, {1, "alpha two", "10"}, {6, "foxtrot", "6"}, {7, "golf", "7"}}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if want := []uint64{2, 3, 4, 5, 6, 7, 8}; !slices.Equal(ordinals, want) {
		t.Errorf("ordinals %v, want %v", ordinals, want)
	}
	for _, w := range want {
		found, err := s.Lookup(t.Context(), w.id)
		if err != nil || found.Presence != Present || text(found.Column(1), found.Index) != w.text || text(found.Column(2), found.Index) != w.score {
			t.Errorf("lookup of %d: %+v, %v", w.id, found, err)
		}
	}
	if found, err := s.Lookup(t.Context(), int64(8)); err != nil || found.Presence != Absent {
		t.Errorf("lookup of 8: %v, %v", found.Presence, err)
	}
	schema := r.Schema()
	for i, f := range []struct {
		name string
		typ  arrow.DataType
		null bool
	}{{"id", arrow.PrimitiveTypes.Int64, false}, {"text", arrow.BinaryTypes.String, true}, {"score", arrow.PrimitiveTypes.Float64, true}} {
		if g := schema.Field(i); g.Name != f.name || !arrow.TypeEqual(g.Type, f.typ) || g.Nullable != f.null {
			t.Errorf("column %d is %v", i, g)
		}
	}
	if st := r.Stats(); schema.NumFields() != 3 || st.Position != 6 || st.Epoch != 2 || st.Log.Rows != 9 || st.Log.Entries != 5 || st.Log.Fences != 1 || st.Log.Dead != 0 {
		t.Errorf("stats: %+v", st)
	}
	if err := r.Refresh(t.Context()); err != nil {
		t.Error(err)
	}
	checkUntouched(t, inner, before)
	// An index can be asked for, and the key can be told.
	r2, err := OpenReader(t.Context(), inner, shard, &ReaderOptions{PrimaryKey: []string{"id"},
		Indexes: []index.Config{index.Ordered{Name: "by_score", Columns: []index.Column{{Name: "score"}}}}})
	if err != nil {
		t.Fatal(err)
	}
	defer r2.Close()
	s2, err := r2.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer s2.Close()
	top, err := s2.Range(t.Context(), "by_score", index.Range{Reverse: true}, ScanOptions{Limit: 2, Columns: []string{"id"}})
	if err != nil {
		t.Fatal(err)
	}
	defer top.Release()
	if !top.Next() || top.RecordBatch().Column(0).(*array.Int64).Value(0) != 1 || top.RecordBatch().Column(0).(*array.Int64).Value(1) != 7 {
		t.Errorf("the two best: %v, %v", top.RecordBatch(), top.Err())
	}
}

// shown is what a reader showed at one time.
type shown struct {
	bound uint64
	rows  []testRow
}

// TestReaderModel reads beside writers that put, delete, rotate, and take the
// shard over from each other. Whatever a reader showed is exactly the first Bound
// rows of the log as it is in the end, newest version of each key; and what was
// durable before a refresh is shown after it.
func TestReaderModel(t *testing.T) {
	stores := map[string]func(t *testing.T) objstore.Store{
		"memory": func(*testing.T) objstore.Store { return objstore.NewMemory() },
		"latency": func(*testing.T) objstore.Store {
			s := faultstore.New(objstore.NewMemory(), 1)
			s.SetLatency(faultstore.Latency{P50: 2 * time.Millisecond, P99: 20 * time.Millisecond, Bandwidth: 90e6})
			return s
		},
		"MinIO": func(t *testing.T) objstore.Store { return miniotest.Store(t) },
	}
	for name, open := range stores {
		t.Run(name, func(t *testing.T) { readerModel(t, open(t), rand.New(rand.NewPCG(*modelSeed, 7))) })
	}
}

func readerModel(t *testing.T, store objstore.Store, rng *rand.Rand) {
	o := keyedOptions()
	o.FlushInterval, o.FlushBytes, o.MaxMemtableRows = 2*time.Millisecond, 2<<10, 60
	mustOpen(t, store, o) // the shard exists
	var durable sync.Map  // per writer: rows known to be durable
	newest := func() (n uint64) {
		durable.Range(func(_, w any) bool {
			n = max(n, w.(*Writer).Stats().Durable)
			return true
		})
		return n
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	logs := make([][]shown, 3)
	for i := range logs {
		ro := &ReaderOptions{ReplayBytes: []int64{1, 4 << 10, 64 << 20}[i], PollInterval: time.Millisecond, MaxPollInterval: 5 * time.Millisecond}
		r := mustOpenReader(t, store, ro)
		note := func(s *Snapshot) {
			logs[i] = append(logs[i], shown{s.Bound(), snapshotRows(t, s)})
		}
		if i == 2 {
			ctx, cancel := context.WithCancel(t.Context())
			wg.Go(func() {
				<-stop
				cancel()
			})
			wg.Go(func() {
				for s, err := range r.Follow(ctx, 0) {
					if err != nil {
						t.Errorf("follow: %v", err)
						return
					}
					note(s)
				}
			})
			continue
		}
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				least := newest()
				if err := r.Refresh(context.Background()); err != nil {
					t.Errorf("refresh: %v", err)
					return
				}
				if got := r.Bound(); got < least {
					t.Errorf("%d rows are shown, %d were durable before", got, least)
				}
				s, err := r.Snapshot()
				if err != nil {
					t.Error(err)
					return
				}
				note(s)
				s.Close()
				time.Sleep(5 * time.Millisecond)
			}
		})
	}
	for round := range 6 {
		w := mustOpen(t, store, o)
		durable.Store(round, w)
		var putters sync.WaitGroup
		for p := range 3 {
			prng := rand.New(rand.NewPCG(rng.Uint64(), uint64(p)))
			batches := make([]arrow.RecordBatch, 25)
			for i := range batches {
				rows := make([]testRow, 1+prng.IntN(8))
				for j := range rows {
					n := int64(round)*1e6 + int64(p)*1e4 + int64(i*10+j)
					rows[j] = testRow{prng.Int64N(100), fmt.Sprint(n), n}
				}
				batches[i] = batchOf(t, rows...)
			}
			gone := keysOf(t, prng.Int64N(100), prng.Int64N(100))
			putters.Go(func() {
				for i, rec := range batches {
					err := w.Put(context.Background(), rec)
					if err == nil && i%7 == 0 {
						err = w.Delete(context.Background(), gone)
					}
					if err == nil && i%11 == 0 {
						err = w.Rotate(context.Background())
					}
					if err != nil {
						if !errors.Is(err, ErrFenced) {
							t.Errorf("put: %v", err)
						}
						return
					}
				}
			})
		}
		if round%2 == 0 { // taken over in the middle
			time.Sleep(time.Duration(5+rng.IntN(30)) * time.Millisecond)
			continue
		}
		putters.Wait()
		if round == 3 {
			mustClose(t, w)
		}
	}
	time.Sleep(20 * time.Millisecond)
	close(stop)
	wg.Wait()
	last := mustOpen(t, store, o)
	final := last.Stats().Durable
	history := historyOf(t, store)
	if uint64(len(history)) != final {
		t.Fatalf("the log has %d rows, the last writer says %d", len(history), final)
	}
	for i, log := range logs {
		if len(log) < 2 || log[len(log)-1].bound == 0 {
			t.Errorf("reader %d showed %d states: too few to tell", i, len(log))
		}
		before := uint64(0)
		for _, at := range log {
			if at.bound < before {
				t.Errorf("reader %d went back from %d to %d rows", i, before, at.bound)
			}
			before = at.bound
			if want := liveRows(history[:at.bound]); !slices.Equal(at.rows, want) {
				t.Fatalf("reader %d, %d rows: got %v, want %v", i, at.bound, at.rows, want)
			}
		}
	}
}

// loggedRow is a row of the log.
type loggedRow struct {
	testRow
	dead bool
}

// historyOf reads the rows of a keyed shard's log, in order.
func historyOf(t testing.TB, s objstore.Store) []loggedRow {
	t.Helper()
	w := replay.NewWalker(replay.Config{Store: s, Dir: layoutOf(testShard).wal, From: wal.Start()})
	defer w.Close()
	var rows []loggedRow
	for {
		step, err := w.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if step == nil {
			return rows
		}
		if step.Live {
			for _, b := range step.Entry.Batches {
				for i := range int(b.NumRows()) {
					r := loggedRow{dead: b.Column(3).(*array.Boolean).Value(i)}
					r.id = b.Column(0).(*array.Int64).Value(i)
					if !r.dead {
						r.text, r.n = strings.Clone(b.Column(1).(*array.String).Value(i)), b.Column(2).(*array.Int64).Value(i)
					}
					rows = append(rows, r)
				}
			}
		}
		step.Entry.Release()
	}
}

// liveRows are the newest versions that are not deleted, in the order of writing.
func liveRows(history []loggedRow) []testRow {
	newest := map[int64]int{}
	for i, r := range history {
		newest[r.id] = i
	}
	var rows []testRow
	for i, r := range history {
		if newest[r.id] == i && !r.dead {
			rows = append(rows, r.testRow)
		}
	}
	return rows
}

// The figures of a reader are exported until it is closed, and a refresh is a
// span.
func TestTelemetryOfAReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := objstore.NewMemory()
		w := mustOpen(t, store, keyedOptions())
		mustPut(t, w, seq(t, 0, 7))
		provider, meters := meterProvider()
		spans := newSpans()
		r := mustOpenReader(t, store, &ReaderOptions{MeterProvider: provider, TracerProvider: spans.provider})
		mustPut(t, w, seq(t, 7, 3))
		spans.recorder.Reset()
		caller, span := spans.provider.Tracer("caller").Start(t.Context(), "caller")
		if err := r.Refresh(caller); err != nil {
			t.Fatal(err)
		}
		span.End()
		spans.check(t, spans.only(t, "memwal.refresh"), "caller", attrRows.Int64(3))
		synctest.Wait() // what is read ahead is counted, too
		got, st := series(t, meters), r.Stats()
		for name, want := range map[string]float64{
			"memwal.reader.position": 3, "memwal.reader.epoch": 1, "memwal.reader.rows.visible": 10, "memwal.reader.rows": 10,
			"memwal.reader.entries": 2, "memwal.reader.fences": 1, "memwal.reader.dead": 0, "memwal.reader.size": float64(st.Log.Bytes),
			"memwal.reader.store.requests{objstore.operation=get}": float64(st.Requests.Get.Requests),
			"memwal.reader.store.written":                          0, "memwal.reader.memtable.count": 1, "memwal.reader.snapshots": 0,
			"memwal.reader.memory.resident": float64(st.ResidentBytes), "memwal.reader.memory.index": float64(st.IndexBytes),
		} {
			if v, ok := got[name]; !ok || v != want {
				t.Errorf("%s is %v (exported: %v), want %v", name, v, ok, want)
			}
		}
		r.Close()
		if left := series(t, meters); len(left) != 0 {
			t.Errorf("still exported: %v", left)
		}
		mustClose(t, w)
	})
}
