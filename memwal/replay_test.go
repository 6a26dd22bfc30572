package memwal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/memwal/memwal-go/index"
	"github.com/memwal/memwal-go/internal/manifest"
	"github.com/memwal/memwal-go/internal/schema"
	"github.com/memwal/memwal-go/internal/wal"
	"github.com/memwal/memwal-go/objstore"
)

func TestR01_UnflushedEntriesComeBackOnce(t *testing.T) {
	synctest.Test(t, unflushedEntriesComeBackOnce)
}

func unflushedEntriesComeBackOnce(t *testing.T) {
	store := objstore.NewMemory()
	w := mustOpen(t, store, plainOptions())
	for i := range int64(5) {
		mustPut(t, w, seq(t, 3*i, 3))
	}
	if err := w.Rotate(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range int64(3) {
		mustPut(t, w, seq(t, 15+i, 1))
	}
	w.Abort() // what a crash leaves
	before := logOf(t, store)
	w = mustOpen(t, store, plainOptions())
	checkRows(t, w, wantSeq(0, 18))
	// Time passes, and everything that is due is written: nothing is.
	if err := w.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := w.Rotate(t.Context()); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second)
	synctest.Wait()
	mustClose(t, w)
	after := logOf(t, store)
	if len(after) != len(before)+1 || !after[len(before)].header.Fence {
		t.Errorf("the log was %q, and is %q", shape(before), shape(after))
	}
	checkRows(t, mustOpen(t, store, plainOptions()), wantSeq(0, 18))
}

func TestR02_ReopeningChangesNothing(t *testing.T) {
	store := objstore.NewMemory()
	w := mustOpen(t, store, promptOptions())
	for i := range int64(6) {
		mustPut(t, w, seq(t, 2*i, 4)) // half of them again
		if i == 2 {
			if err := w.Rotate(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Delete(t.Context(), keysOf(t, 3, 5)); err != nil {
		t.Fatal(err)
	}
	rows := rowsOf(t, w)
	mustClose(t, w)
	data := contents(t, store, layoutOf(testShard).wal)
	var first Stats
	for i := range 5 {
		w := mustOpen(t, store, promptOptions())
		checkRows(t, w, rows)
		st := w.Stats()
		mustClose(t, w)
		now := contents(t, store, layoutOf(testShard).wal)
		if len(now) != len(data)+i+1 {
			t.Errorf("open %d: %d objects, want %d and %d fences", i, len(now), len(data), i+1)
		}
		for key, content := range data {
			if now[key] != content {
				t.Errorf("open %d: %s has changed", i, key)
			}
		}
		if i == 0 {
			first = st
			continue
		}
		if st.Open.Rows != first.Open.Rows || st.Open.Entries != first.Open.Entries || st.Accepted != first.Accepted ||
			st.IndexBytes != first.IndexBytes || st.Memtables != first.Memtables || st.Generation != first.Generation {
			t.Errorf("open %d: %+v, the first one: %+v", i, st, first)
		}
		if st.WALEntries != first.WALEntries+uint64(i) || st.WALBytes != first.WALBytes {
			t.Errorf("open %d: %d entries, %d bytes; the first one %d, %d", i, st.WALEntries, st.WALBytes, first.WALEntries, first.WALBytes)
		}
	}
}

// The log is larger than a memtable may be now: each limit in turn.
func TestR03_LogLargerThanOneMemtable(t *testing.T) {
	const puts, rows = 12, 10
	// Wide enough for the rows to outweigh their indexes.
	wide := func(first int64) arrow.RecordBatch {
		rows := wantSeq(first, rows)
		for i := range rows {
			rows[i].text = strings.Repeat("x", 8<<10)
		}
		return batchOf(t, rows...)
	}
	batch := batchBytes(t, wide(0))
	for _, c := range []struct {
		name   string
		limit  func(*Options)
		rotate bool
		tables int
	}{
		{"none", func(*Options) {}, false, 1},
		{"rows", func(o *Options) { o.MaxMemtableRows = 3*rows + 1 }, false, 4},
		{"batches", func(o *Options) { o.MaxMemtableBatches = 4 }, false, 3},
		{"bytes", func(o *Options) { o.MaxMemtableBytes = 2*batch + batch/2 }, false, 6},
		{"rows of less than an entry", func(o *Options) { o.MaxMemtableRows = 1 }, false, puts},
		{"recorded boundary", func(*Options) {}, true, 3},
		{"recorded boundary and rows", func(o *Options) { o.MaxMemtableRows = 3 * rows }, true, 6},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := promptOptions()
			store := objstore.NewMemory()
			w := mustOpen(t, store, o)
			for i := range int64(puts) {
				if c.rotate && i > 0 && i%4 == 0 {
					if err := w.Rotate(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				mustPut(t, w, wide(i*rows/2)) // half of the rows again
			}
			want := rowsOf(t, w)
			mustClose(t, w)
			c.limit(o)
			for range 2 {
				w := mustOpen(t, store, o)
				st := w.Stats()
				if st.Memtables != c.tables || st.Accepted != puts*rows {
					t.Errorf("%d memtables, %d rows; want %d, %d", st.Memtables, st.Accepted, c.tables, puts*rows)
				}
				checkRows(t, w, want)
				mustClose(t, w)
			}
		})
	}
}

// batchBytes is what the rows of rec span once they are stored.
func batchBytes(t testing.TB, rec arrow.RecordBatch) int64 {
	t.Helper()
	w := mustOpen(t, objstore.NewMemory(), keyedOptions())
	defer w.Abort()
	shaped, err := w.c.shaper.Shape(rec)
	if err != nil {
		t.Fatal(err)
	}
	defer shaped.Release()
	window, _ := schema.Size(shaped)
	return window
}

// setFloor commits a floor of the rows plane, as a flush would.
func setFloor(t testing.TB, store objstore.Store, at wal.Tuple) {
	t.Helper()
	_, err := manifests(store).UpdateAny(t.Context(), func(m *manifest.Manifest) error {
		m.SetFloor(manifest.Floor{Plane: manifest.PlaneRows, Kind: manifest.Snapshot, Tuple: at})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Floor 0 means nothing, and position 1 is a position like any other.
func TestR05_FloorZeroIsNotPositionOne(t *testing.T) {
	store := objstore.NewMemory()
	w := mustOpen(t, store, plainOptions())
	for i := range int64(3) {
		mustPut(t, w, seq(t, i, 1))
	}
	mustClose(t, w)
	log, all := logOf(t, store), contents(t, store, "")
	check := func(floor wal.Tuple, rows, next uint64) {
		t.Helper()
		store := copyOf(t, all)
		setFloor(t, store, floor)
		w := mustOpen(t, store, plainOptions())
		checkRows(t, w, wantSeq(int64(next-rows), int(rows)))
		if st := w.Stats(); st.Open.Rows != rows || st.Accepted != next {
			t.Errorf("floor %d: replayed %d rows, next is %d; want %d, %d", floor.Position, st.Open.Rows, st.Accepted, rows, next)
		}
		// New rows get the ordinals after the old ones.
		ticket, err := w.PutAsync(t.Context(), seq(t, int64(next), 1))
		if err != nil || ticket.FirstRow() != next {
			t.Errorf("floor %d: the next row is %v, %v; want %d", floor.Position, ticket, err, next)
		}
		mustClose(t, w)
	}
	check(wal.Start(), 3, 3)
	for i, o := range log { // position 1 is the fence
		rows := uint64(i)
		check(wal.Tuple{Position: o.pos, Epoch: 1, PutID: o.header.PutID, NextRow: rows, Generation: 1}, 3-rows, 3)
	}
}

// column reads one column of everything as text, "-" for null and "missing" if
// it is not there.
func column(t testing.TB, w *Writer, name string) string {
	t.Helper()
	s, err := w.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var vals []string
	for rec, err := range s.All(t.Context(), ScanOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		at := rec.Schema().FieldIndices(name)
		if len(at) == 0 {
			return "missing"
		}
		col := rec.Column(at[0])
		for i := range col.Len() {
			if col.IsNull(i) {
				vals = append(vals, "-")
			} else {
				vals = append(vals, col.ValueStr(i))
			}
		}
	}
	return strings.Join(vals, " ")
}

func TestR07_ColumnsOfOldRows(t *testing.T) {
	int64s, str := arrow.PrimitiveTypes.Int64, arrow.BinaryTypes.String
	id := arrow.Field{Name: "id", Type: int64s}
	text := arrow.Field{Name: "text", Type: str, Nullable: true}
	n := arrow.Field{Name: "n", Type: int64s, Nullable: true}
	extra := arrow.Field{Name: "extra", Type: str, Nullable: true}
	as := func(name string, f arrow.Field, fieldID int) arrow.Field {
		f.Name, f.Metadata = name, arrow.NewMetadata([]string{"memwal.field_id"}, []string{fmt.Sprint(fieldID)})
		return f
	}
	for _, c := range []struct {
		name   string
		fields []arrow.Field
		key    string
		want   map[string]string
		bad    bool
	}{
		{"same", []arrow.Field{id, text, n}, "id", map[string]string{"id": "1 2", "text": "a b", "n": "10 20"}, false},
		{"added", []arrow.Field{id, text, n, extra}, "id", map[string]string{"text": "a b", "extra": "- -"}, false},
		{"added in front", []arrow.Field{extra, id, text, n}, "id", map[string]string{"id": "1 2", "n": "10 20", "extra": "- -"}, false},
		{"dropped", []arrow.Field{id, n}, "id", map[string]string{"id": "1 2", "n": "10 20", "text": "missing"}, false},
		{"reordered", []arrow.Field{n, id, text}, "id", map[string]string{"id": "1 2", "text": "a b", "n": "10 20"}, false},
		{"renamed", []arrow.Field{id, as("words", text, 2), n}, "id", map[string]string{"words": "a b", "n": "10 20"}, false},
		{"key renamed", []arrow.Field{as("key", id, 1), text, n}, "key", map[string]string{"key": "1 2", "text": "a b"}, false},
		{"renamed, and another one of its old name", []arrow.Field{id, as("words", text, 2), n, text}, "id",
			map[string]string{"words": "a b", "text": "- -"}, false},
		{"changed type", []arrow.Field{id, {Name: "text", Type: int64s, Nullable: true}, n}, "id", nil, true},
		{"lost key", []arrow.Field{text, n}, "n", nil, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			store := objstore.NewMemory()
			w := mustOpen(t, store, &Options{PrimaryKey: []string{"id"}})
			mustPut(t, w, batchOf(t, testRow{1, "a", 10}, testRow{2, "b", 20}))
			mustClose(t, w)
			before := contents(t, store, "")
			evolved := arrow.NewSchema(c.fields, nil)
			for range 2 {
				w, err := Open(t.Context(), store, testShard, evolved, &Options{PrimaryKey: []string{c.key}})
				if c.bad {
					if !errors.Is(err, ErrInvalid) {
						t.Errorf("open: %v, want ErrInvalid", err)
					}
					checkUntouched(t, store, before)
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				for name, want := range c.want {
					if got := column(t, w, name); got != want {
						t.Errorf("column %s: got %q, want %q", name, got, want)
					}
				}
				mustClose(t, w)
			}
		})
	}
}

// A column that was dropped and one that was added later under the same name are
// two columns: the values of the first do not come back.
func TestR07_DroppedColumnStaysDropped(t *testing.T) {
	store := objstore.NewMemory()
	o := &Options{PrimaryKey: []string{"id"}}
	w := mustOpen(t, store, o)
	mustPut(t, w, batchOf(t, testRow{1, "a", 10}))
	mustClose(t, w)
	without := arrow.NewSchema([]arrow.Field{testSchema.Field(0), testSchema.Field(2)}, nil)
	w, err := Open(t.Context(), store, testShard, without, o)
	if err != nil {
		t.Fatal(err)
	}
	mustClose(t, w)
	w = mustOpen(t, store, o)
	if got := column(t, w, "text"); got != "-" {
		t.Errorf("the column reads %q, want null", got)
	}
	if got := column(t, w, "n"); got != "10" {
		t.Errorf("n reads %q, want 10", got)
	}
}

// answers is what every access path says of a keyed shard.
func answers(t testing.TB, w *Writer) map[string]string {
	t.Helper()
	s, err := w.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	all := map[string]string{"scan": fmt.Sprint(snapshotRows(t, s))}
	for id := range int64(24) {
		row, err := s.Lookup(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		all[fmt.Sprintf("lookup %d", id)] = fmt.Sprint(row.Presence, row.Ordinal)
	}
	for name, r := range map[string]index.Range{
		"all":     {},
		"part":    {Low: []any{int64(30)}, High: []any{int64(90)}, HighOpen: true},
		"reverse": {Low: []any{int64(30)}, Reverse: true},
	} {
		reader, err := s.Range(t.Context(), "by_n", r, ScanOptions{})
		if err != nil {
			t.Fatal(err)
		}
		all["range "+name] = fmt.Sprint(readRows(t, reader))
	}
	return all
}

func TestR08_IndexesAreRebuilt(t *testing.T) {
	store := objstore.NewMemory()
	w := mustOpen(t, store, promptOptions())
	for i := range int64(8) {
		rows := wantSeq(2*i, 5)
		for j := range rows {
			rows[j].n += i * 7 // versions differ in the indexed column
		}
		mustPut(t, w, batchOf(t, rows...))
		if i == 2 || i == 5 {
			if err := w.Rotate(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Delete(t.Context(), keysOf(t, i+1)); err != nil {
			t.Fatal(err)
		}
	}
	want := answers(t, w)
	w.Abort()
	for _, rows := range []int64{0, 0, 7} {
		o := promptOptions()
		o.MaxMemtableRows = rows
		w := mustOpen(t, store, o)
		if got := answers(t, w); !maps.Equal(got, want) {
			for k, v := range want {
				if got[k] != v {
					t.Errorf("%s: got %s, want %s", k, got[k], v)
				}
			}
		}
		w.Abort()
	}
}

// An index that is new answers for the rows that were there before it.
func TestR08_NewIndexIsBuiltFromTheLog(t *testing.T) {
	store := objstore.NewMemory()
	o := &Options{PrimaryKey: []string{"id"}}
	w := mustOpen(t, store, o)
	mustPut(t, w, batchOf(t, testRow{1, "a", 30}, testRow{2, "b", 10}, testRow{3, "c", 20}))
	mustClose(t, w)
	w = mustOpen(t, store, keyedOptions())
	s, err := w.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	r, err := s.Range(t.Context(), "by_n", index.Range{}, ScanOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := readRows(t, r), []testRow{{2, "b", 10}, {3, "c", 20}, {1, "a", 30}}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestR12_StatisticsAreThoseOfTheShard(t *testing.T) {
	store := objstore.NewMemory()
	w := mustOpen(t, store, plainOptions())
	for i := range int64(4) {
		mustPut(t, w, seq(t, 5*i, 5))
	}
	mustClose(t, w)
	w = mustOpen(t, store, plainOptions())
	st := w.Stats()
	var data, fences, bytes uint64
	for _, o := range logOf(t, store) {
		if o.header.Fence {
			fences++
		} else {
			data++
			bytes += uint64(len(o.data))
		}
	}
	if st.Accepted != 20 || st.Indexed != 20 || st.Durable != 20 || st.Visible != 20 {
		t.Errorf("cursors: accepted %d, indexed %d, durable %d, visible %d; want 20", st.Accepted, st.Indexed, st.Durable, st.Visible)
	}
	if st.WALEntries != data+fences || st.WALBytes != bytes {
		t.Errorf("log: %d entries, %d bytes; want %d, %d", st.WALEntries, st.WALBytes, data+fences, bytes)
	}
	if st.Open.Rows != 20 || st.Open.Entries != 4 || st.Open.Fences != 1 || st.Open.Dead != 0 || st.Open.Bytes != bytes {
		t.Errorf("replay: %+v", st.Open)
	}
	if st.IndexBytes <= 0 || st.ResidentBytes <= st.IndexBytes {
		t.Errorf("memory: %d bytes resident, %d of indexes", st.ResidentBytes, st.IndexBytes)
	}
	mustPut(t, w, seq(t, 20, 1))
	if now := w.Stats(); now.WALEntries != st.WALEntries+1 || now.Accepted != 21 {
		t.Errorf("after a put: %d entries, %d rows; want %d, 21", now.WALEntries, now.Accepted, st.WALEntries+1)
	}
}

// A batch with a key that no index takes is refused: nothing of it is stored.
func TestR15_RowThatAnIndexCannotTakeNeverBecomesDurable(t *testing.T) {
	store := newTestStore()
	o := &Options{Indexes: []index.Config{index.Ordered{Name: "by_text", Columns: []index.Column{{Name: "text"}}}}, FlushBytes: 1}
	w := mustOpen(t, store, o)
	mustPut(t, w, seq(t, 0, 1))
	puts := store.count(objstore.OpPutIfAbsent, "")
	long := batchOf(t, testRow{1, "fine", 1}, testRow{2, strings.Repeat("x", 100<<10), 2})
	if err := w.Put(t.Context(), long); !errors.Is(err, ErrInvalid) {
		t.Errorf("put: %v, want ErrInvalid", err)
	}
	if err := w.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := store.count(objstore.OpPutIfAbsent, ""); n != puts {
		t.Errorf("%d objects were put for a batch that was refused", n-puts)
	}
	mustPut(t, w, seq(t, 1, 1))
	mustClose(t, w)
	checkRows(t, mustOpen(t, store, o), wantSeq(0, 2))
}

// An index does not take the rows that are there. It fails alone.
func TestR15_IndexThatFailsInReplayDoesNotKeepTheShardFromOpening(t *testing.T) {
	o := plainOptions().withDefaults()
	o.Indexes = append(o.Indexes, index.Ordered{Name: "by_id", Columns: []index.Column{{Name: "id"}}})
	o.Logger = slog.New(slog.DiscardHandler)
	store := newTestStore()
	w := mustOpen(t, store, &o)
	for i := range int64(3) {
		mustPut(t, w, seq(t, i, 1))
	}
	mustClose(t, w)

	c := &core{shard: testShard, opts: o, resident: resident{user: testSchema}, logger: o.Logger}
	if err := c.check(store); err != nil {
		t.Fatal(err)
	}
	// It takes the column by_n for a text: each batch makes it panic.
	other, err := index.Bind(withField(arrow.Field{Name: "n", Type: arrow.BinaryTypes.String, Nullable: true}), nil, o.Indexes)
	if err != nil {
		t.Fatal(err)
	}
	store.on(objstore.OpPutIfAbsent, "/manifest/", 1, func(_ context.Context, apply func() error) error {
		c.indexed = other
		return apply()
	})
	proof, tables, err := c.take(t.Context(), store)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	c.start(tables, proof)
	w = &Writer{c: c}
	t.Cleanup(func() { w.Abort() })

	checkRows(t, w, wantSeq(0, 3))
	mustPut(t, w, seq(t, 3, 1))
	checkRows(t, w, wantSeq(0, 4))
	s, err := w.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if r, err := s.Range(t.Context(), "by_n", index.Range{}, ScanOptions{}); !errors.Is(err, index.ErrFailed) {
		if err == nil {
			r.Release()
		}
		t.Errorf("search in the failed index: %v, want index.ErrFailed", err)
	}
	r, err := s.Range(t.Context(), "by_id", index.Range{}, ScanOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := readRows(t, r); !slices.Equal(got, wantSeq(0, 4)) {
		t.Errorf("search in the other index: got %v", got)
	}
	mustClose(t, w)
	// Opened as it should be, all is well again.
	w = mustOpen(t, store, &o)
	checkRows(t, w, wantSeq(0, 4))
}

// Nothing of a replay is leaked, whether it succeeds or not.
func TestR13_ReplayLeaksNoMemory(t *testing.T) {
	for _, compression := range []Compression{CompressionNone, CompressionZstd} {
		for _, pos := range []uint64{0, 1, 3, 6} {
			t.Run(fmt.Sprintf("%q damaged at %d", compression, pos), func(t *testing.T) {
				mem := memory.NewCheckedAllocator(memory.NewGoAllocator())
				defer mem.AssertSize(t, 0)
				store := objstore.NewMemory()
				o := promptOptions()
				o.Compression, o.Allocator = compression, mem
				w := mustOpen(t, store, o)
				for i := range int64(5) {
					mustPut(t, w, seq(t, 50*i, 100))
				}
				mustClose(t, w)
				o.MaxMemtableRows = 150
				if pos > 0 {
					putRaw(t, store, layoutOf(testShard).wal+wal.Name(pos), []byte("damaged"))
				}
				w, err := Open(t.Context(), store, testShard, testSchema, o)
				if (err == nil) != (pos == 0) {
					t.Fatalf("open: %v", err)
				}
				if err == nil {
					if n := len(rowsOf(t, w)); n != 300 {
						t.Errorf("%d rows, want 300", n)
					}
					mustClose(t, w)
				}
			})
		}
	}
}
