package replay

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/memwal/memwal-go/index"
	"github.com/memwal/memwal-go/internal/schema"
	"github.com/memwal/memwal-go/internal/wal"
	"github.com/memwal/memwal-go/memtable"
)

// loaderOf makes a loader whose memtables have the schema and no index.
func loaderOf(sc *arrow.Schema, limits memtable.Limits) LoaderConfig {
	return LoaderConfig{
		Schema: sc, From: wal.Start(), Limits: limits,
		NewTable: func(generation, firstRow uint64) *memtable.Memtable {
			return memtable.New(memtable.Config{Generation: generation, FirstRow: firstRow, Schema: sc, Created: time.Now()})
		},
		OnIndexError: func(_ *memtable.Memtable, err error) error { return err },
	}
}

// load runs the whole log through a loader.
func load(t testing.TB, cfg Config, l *Loader) error {
	t.Helper()
	w := NewWalker(cfg)
	defer w.Close()
	for {
		s, err := w.Next(t.Context())
		if err != nil || s == nil {
			return err
		}
		if err := l.Add(s); err != nil {
			return err
		}
	}
}

// layout tells which rows each memtable has: "1:0-4 2:4-9".
func layout(tables []*memtable.Memtable) string {
	var parts []string
	for _, m := range tables {
		parts = append(parts, fmt.Sprintf("%d:%d-%d", m.Generation(), m.FirstRow(), m.EndRow()))
	}
	return strings.Join(parts, " ")
}

// counted reads the numbers of all rows.
func counted(t testing.TB, tables []*memtable.Memtable) []int64 {
	t.Helper()
	var all []int64
	for _, m := range tables {
		for i := range m.Batches() {
			rec := m.Batch(i).Rec
			all = append(all, rec.Column(rec.Schema().FieldIndices("n")[0]).(*array.Int64).Int64Values()...)
		}
	}
	return all
}

func checkCounted(t testing.TB, tables []*memtable.Memtable, n int) {
	t.Helper()
	got := counted(t, tables)
	if len(got) != n {
		t.Errorf("%d rows, want %d", len(got), n)
	}
	for i, v := range got {
		if v != int64(i) {
			t.Errorf("row %d is %d", i, v)
			return
		}
	}
}

// settled takes the memtables from a loader.
func settled(t testing.TB, l *Loader) []*memtable.Memtable {
	t.Helper()
	tables, err := l.Tables()
	if err != nil {
		t.Fatal(err)
	}
	return tables
}

func release(tables []*memtable.Memtable) {
	for _, m := range tables {
		m.Release()
	}
}

func TestR03_LoaderRotates(t *testing.T) {
	for _, c := range []struct {
		name   string
		log    func(*builder)
		limits memtable.Limits
		want   string
	}{
		{"nothing", func(*builder) {}, memtable.Limits{}, "1:0-0"},
		{"one", func(b *builder) { b.data(3).data(2) }, memtable.Limits{}, "1:0-5"},
		{"by rows", func(b *builder) { b.data(3).data(3).data(3) }, memtable.Limits{Rows: 7}, "1:0-6 2:6-9"},
		{"by rows, just full", func(b *builder) { b.data(3).data(3).data(3) }, memtable.Limits{Rows: 6}, "1:0-6 2:6-9"},
		{"an entry beyond the limit goes alone", func(b *builder) { b.data(1).data(9).data(1) }, memtable.Limits{Rows: 4}, "1:0-1 2:1-10 3:10-11"},
		{"by batches", func(b *builder) { b.data(1).data(1).data(1) }, memtable.Limits{Batches: 2}, "1:0-2 2:2-3"},
		{"by window bytes", func(b *builder) { b.data(100).data(100) }, memtable.Limits{WindowBytes: 2000}, "1:0-100 2:100-200"},
		{"by pinned bytes", func(b *builder) { b.data(100).data(100) }, memtable.Limits{PinnedBytes: 2000}, "1:0-100 2:100-200"},
		{"not by age", func(b *builder) { b.data(1).data(1) }, memtable.Limits{Age: time.Nanosecond}, "1:0-2"},
		{"by the recorded generation", func(b *builder) { b.data(1).generation(2).data(1).data(1).generation(3).data(1) }, memtable.Limits{}, "1:0-1 2:1-3 3:3-4"},
		{"the recorded generation skips", func(b *builder) { b.data(1).generation(5).data(1) }, memtable.Limits{}, "1:0-1 5:1-2"},
		{"the first one is recorded", func(b *builder) { b.generation(7).data(1).data(1) }, memtable.Limits{}, "7:0-2"},
		{"both", func(b *builder) { b.data(2).data(2).generation(2).data(2) }, memtable.Limits{Rows: 2}, "1:0-2 2:2-4 3:4-6"},
		// The writer before had smaller memtables, or was itself a reopen that cut
		// them anew: what it records may be below the number that we have reached.
		{"the recorded generation falls behind", func(b *builder) { b.data(2).data(2).data(2).generation(2).data(1).data(1) }, memtable.Limits{Rows: 2}, "1:0-2 2:2-4 3:4-6 4:6-8"},
		{"the recorded generation falls", func(b *builder) { b.generation(4).data(1).generation(2).data(1) }, memtable.Limits{}, "4:0-1 5:1-2"},
		{"fences and dead entries rotate nothing", func(b *builder) { b.data(1).fence(2).dead(1, 9).data(1) }, memtable.Limits{Rows: 3}, "1:0-2"},
		{"an entry without rows rotates nothing", func(b *builder) { b.data(1).generation(2).data(0).generation(1).data(1) }, memtable.Limits{}, "1:0-2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBuilder(t)
			c.log(b)
			l := NewLoader(loaderOf(b.schema, c.limits))
			if err := load(t, b.config(), l); err != nil {
				t.Fatal(err)
			}
			tables := settled(t, l)
			defer release(tables)
			if got := layout(tables); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			checkCounted(t, tables, int(b.at.NextRow))
			for i, m := range tables {
				if m.Frozen() != (i < len(tables)-1) {
					t.Errorf("generation %d: frozen %v", m.Generation(), m.Frozen())
				}
				if m.Index().Applied() != m.Rows() {
					t.Errorf("generation %d: %d of %d rows are indexed", m.Generation(), m.Index().Applied(), m.Rows())
				}
			}
		})
	}
}

// Whatever the limits, an entry is in one memtable, and rows keep their order.
func TestR03_LoaderNeverSplitsAnEntry(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 3))
		b := newBuilder(t)
		ends, epoch := []uint64{0}, uint64(1)
		for range 25 {
			switch r.IntN(6) {
			case 0:
				b.generation(b.at.Generation + uint64(r.IntN(2)))
			case 1:
				epoch++
				b.fence(epoch)
			case 2:
				b.dead(epoch, r.IntN(5))
			default:
				b.data(1 + r.IntN(20))
				ends = append(ends, b.at.NextRow)
			}
		}
		limits := memtable.Limits{Rows: uint32(r.IntN(40)), Batches: r.IntN(6), WindowBytes: int64(r.IntN(2000))}
		l := NewLoader(loaderOf(b.schema, limits))
		if err := load(t, b.config(), l); err != nil {
			t.Fatal(err)
		}
		tables := settled(t, l)
		checkCounted(t, tables, int(b.at.NextRow))
		last := uint64(0)
		for _, m := range tables {
			if !slices.Contains(ends, m.FirstRow()) || !slices.Contains(ends, m.EndRow()) || m.FirstRow() != last {
				t.Errorf("seed %d: %s splits an entry; entries end at %v", seed, layout(tables), ends)
			}
			last = m.EndRow()
			if m.Batches() > 1 && (limits.Rows > 0 && m.Rows() > limits.Rows || limits.WindowBytes > 0 && m.WindowBytes() > limits.WindowBytes ||
				limits.Batches > 0 && m.Batches() > limits.Batches) {
				t.Errorf("seed %d: generation %d is beyond %+v", seed, m.Generation(), limits)
			}
		}
		release(tables)
	}
}

// An entry of several batches stays together as well.
func TestR03_EntryOfSeveralBatches(t *testing.T) {
	b := newBuilder(t).data(1)
	h := wal.Header{Epoch: 1, PutID: wal.NewPutID(), PrevPutID: b.at.PutID, FirstRow: 1, Generation: 1}
	var recs []arrow.RecordBatch
	for _, from := range []int64{1, 3, 5} {
		recs = append(recs, b.batch(from, 2))
		defer recs[len(recs)-1].Release()
	}
	enc, err := wal.Encode(h, b.schema, recs, nil, wal.EncodeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer enc.Release()
	b.put(enc.Body)
	b.at.PutID, b.at.NextRow = h.PutID, 7
	b.data(1)
	l := NewLoader(loaderOf(b.schema, memtable.Limits{Rows: 4}))
	if err := load(t, b.config(), l); err != nil {
		t.Fatal(err)
	}
	tables := settled(t, l)
	defer release(tables)
	if got, want := layout(tables), "1:0-1 2:1-7 3:7-8"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if n := tables[1].Batches(); n != 3 {
		t.Errorf("%d batches, want 3", n)
	}
	checkCounted(t, tables, 8)
	if w, p := tables[1].WindowBytes(), tables[1].PinnedBytes(); p < enc.Size || w >= p {
		t.Errorf("window %d, pinned %d bytes; the entry has %d", w, p, enc.Size)
	}
}

func TestLoaderCounts(t *testing.T) {
	b := newBuilder(t).data(3).dead(1, 2).data(0).fence(2).data(4).dead(1, 1)
	l := NewLoader(loaderOf(b.schema, memtable.Limits{}))
	if err := load(t, b.config(), l); err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var bytes uint64
	list := b.list()
	for _, at := range []int{1, 3, 5} {
		bytes += uint64(list[at].Size)
	}
	if got, want := l.Loaded(), (Loaded{Entries: 3, Fences: 2, Dead: 2, Rows: 7, Bytes: bytes}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// Memtables that fill up are handed out complete; if one cannot be flushed, the
// replay ends.
func TestR03_LoaderHandsOutFullMemtables(t *testing.T) {
	b := newBuilder(t).data(2).data(2).data(2)
	cfg := loaderOf(b.schema, memtable.Limits{Rows: 2})
	var handed []string
	cfg.OnFull = func(m *memtable.Memtable) error {
		handed = append(handed, layout([]*memtable.Memtable{m}))
		if !m.Frozen() || m.Index().Applied() != m.Rows() {
			t.Errorf("generation %d: frozen %v, %d of %d rows indexed", m.Generation(), m.Frozen(), m.Index().Applied(), m.Rows())
		}
		return nil
	}
	l := NewLoader(cfg)
	if err := load(t, b.config(), l); err != nil {
		t.Fatal(err)
	}
	if want := []string{"1:0-2", "2:2-4"}; !slices.Equal(handed, want) {
		t.Errorf("handed out %v, want %v", handed, want)
	}
	l.Close()
	broken := errors.New("injected")
	cfg.OnFull = func(*memtable.Memtable) error { return broken }
	l = NewLoader(cfg)
	defer l.Close()
	if err := load(t, b.config(), l); !errors.Is(err, broken) || !strings.Contains(err.Error(), "WAL entry 3") {
		t.Errorf("got %v, want the injected failure at entry 3", err)
	}
}

// Entries of several schemas, in turns, all come out in the newest one.
func TestR07_LoaderAdaptsEachEntry(t *testing.T) {
	b := newBuilder(t)
	first := storageOf(t, userSchema, nil)
	second := storageOf(t, arrow.NewSchema([]arrow.Field{
		{Name: "x", Type: arrow.PrimitiveTypes.Float64, Nullable: true}, userSchema.Field(0),
	}, nil), first)
	b.data(2)
	b.schema = second.Schema
	b.data(1).data(1)
	b.schema = first.Schema
	b.data(1)
	l := NewLoader(loaderOf(second.Schema, memtable.Limits{}))
	if err := load(t, b.config(), l); err != nil {
		t.Fatal(err)
	}
	tables := settled(t, l)
	defer release(tables)
	checkCounted(t, tables, 5)
	for i := range tables[0].Batches() {
		if rec := tables[0].Batch(i).Rec; !rec.Schema().Equal(second.Schema) {
			t.Errorf("batch %d has the schema %v", i, rec.Schema())
		}
	}
}

func TestR07_LoaderRefusesWhatDoesNotFit(t *testing.T) {
	b := newBuilder(t).data(1)
	other := arrow.NewSchema([]arrow.Field{{Name: "n", Type: arrow.BinaryTypes.String, Nullable: true}}, nil)
	l := NewLoader(loaderOf(storageOf(t, other, nil).Schema, memtable.Limits{}))
	defer l.Close()
	err := load(t, b.config(), l)
	if _, ok := errors.AsType[*schema.ColumnError](err); !ok || !strings.Contains(err.Error(), "WAL entry 2") {
		t.Errorf("got %v, want a ColumnError at entry 2", err)
	}
}

// Of two indexes one does not take the rows. It is marked as failed, once, and
// the other one gets every batch.
func TestR15_IndexThatFailsInReplayFailsAlone(t *testing.T) {
	b := newBuilder(t).data(3).data(2).data(4)
	indexes := []index.Config{
		index.Ordered{Name: "bad", Columns: []index.Column{{Name: "s"}}},
		index.Ordered{Name: "good", Columns: []index.Column{{Name: "n"}}},
	}
	// It takes the text for a number and panics.
	wrong, err := index.Bind(arrow.NewSchema([]arrow.Field{
		userSchema.Field(0), {Name: "s", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
	}, nil), nil, indexes)
	if err != nil {
		t.Fatal(err)
	}
	cfg := loaderOf(b.schema, memtable.Limits{Rows: 6})
	cfg.NewTable = func(generation, firstRow uint64) *memtable.Memtable {
		return memtable.New(memtable.Config{Generation: generation, FirstRow: firstRow, Schema: b.schema, Spec: wrong, Created: time.Now()})
	}
	var failures []string
	cfg.OnIndexError = func(m *memtable.Memtable, err error) error {
		failed, ok := errors.AsType[*index.ApplyError](err)
		if !ok {
			t.Fatalf("got %v, want an ApplyError", err)
		}
		failures = append(failures, fmt.Sprintf("%s of %d", failed.Index, m.Generation()))
		return m.Index().Fail(failed.Index, failed.Err)
	}
	l := NewLoader(cfg)
	if err := load(t, b.config(), l); err != nil {
		t.Fatal(err)
	}
	tables := settled(t, l)
	defer release(tables)
	checkCounted(t, tables, 9)
	if want := []string{"bad of 1", "bad of 2"}; !slices.Equal(failures, want) {
		t.Errorf("failures %v, want %v", failures, want)
	}
	for _, m := range tables {
		if m.Index().Failed("bad") == nil || m.Index().Failed("good") != nil {
			t.Errorf("generation %d: bad %v, good %v", m.Generation(), m.Index().Failed("bad"), m.Index().Failed("good"))
		}
		if m.Index().Applied() != m.Rows() {
			t.Errorf("generation %d: %d of %d rows are indexed", m.Generation(), m.Index().Applied(), m.Rows())
		}
		if _, err := m.Index().Range("bad", index.Range{}, m.Rows()); !errors.Is(err, index.ErrFailed) {
			t.Errorf("search in the failed index: %v", err)
		}
		found, err := m.Index().Range("good", index.Range{}, m.Rows())
		if err != nil {
			t.Fatal(err)
		}
		if n := len(slices.Collect(found)); n != int(m.Rows()) {
			t.Errorf("generation %d: the other index finds %d of %d rows", m.Generation(), n, m.Rows())
		}
	}

	// If the failure is not taken, the replay ends with it.
	cfg.OnIndexError = func(_ *memtable.Memtable, err error) error { return err }
	l = NewLoader(cfg)
	defer l.Close()
	if err := load(t, b.config(), l); err != nil && !errors.Is(err, index.ErrInternal) {
		t.Error(err)
	}
	for range 2 { // it stays
		if _, err := l.Tables(); !errors.Is(err, index.ErrInternal) || !strings.Contains(err.Error(), "WAL entries 2 to 3") {
			t.Errorf("got %v, want the index's failure in entries 2 to 3", err)
		}
		if err := l.Settle(); !errors.Is(err, index.ErrInternal) {
			t.Errorf("settle: %v", err)
		}
	}
}

// Nothing is leaked, however the replay ends.
func TestR13_LoaderLeaksNoMemory(t *testing.T) {
	for _, compression := range []wal.Compression{wal.CompressionNone, wal.CompressionZstd} {
		for _, end := range []string{"tables", "close", "full", "damage"} {
			t.Run(fmt.Sprintf("%v/%s", compression, end), func(t *testing.T) {
				mem := memory.NewCheckedAllocator(memory.NewGoAllocator())
				defer mem.AssertSize(t, 0)
				b := newBuilder(t)
				b.encode.Compression = compression
				b.data(2000).dead(1, 2000).data(2000).fence(2).data(2000)
				cfg := loaderOf(b.schema, memtable.Limits{Rows: 3000})
				broken := errors.New("injected")
				if end == "full" {
					cfg.OnFull = func(*memtable.Memtable) error { return broken }
				}
				if end == "damage" {
					b.entry(wal.Header{Epoch: 2, PutID: wal.NewPutID(), PrevPutID: b.at.PutID, FirstRow: 1, Generation: 1}, 2000)
				}
				walk := b.config()
				walk.Allocator = mem
				l := NewLoader(cfg)
				err := load(t, walk, l)
				if fine := end == "tables" || end == "close"; (err == nil) != fine {
					t.Errorf("got %v", err)
				}
				if end == "tables" {
					release(settled(t, l))
				}
				l.Close()
			})
		}
	}
}
