package memwal

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/memwal/memwal-go/index"
	"github.com/memwal/memwal-go/internal/filter"
	"github.com/memwal/memwal-go/memtable"
	"github.com/memwal/memwal-go/objstore"
)

// filterTable is a table to be filtered: id is 0, 1, 2, …; n is anything from 0 to 999,
// scattered; text begins with it.
type filterTable struct {
	rows, batch int
	keyed       bool
	nulls       bool // every seventh n and text
	again       int  // every so manieth row is written once more; 0: none
	rotate      bool // into another memtable
	indexes     []index.Config
}

var filterSchema = arrow.NewSchema([]arrow.Field{
	{Name: "id", Type: arrow.PrimitiveTypes.Int64},
	{Name: "n", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
	{Name: "text", Type: arrow.BinaryTypes.String, Nullable: true},
	{Name: "f", Type: arrow.PrimitiveTypes.Float64, Nullable: true},
}, nil)

// nOf scatters.
func nOf(id int) int64 { return int64(uint64(id) * 0x9e3779b97f4a7c15 >> 33 % 1000) }

func (f filterTable) batchOf(tb testing.TB, first, n, step int) arrow.RecordBatch {
	b := array.NewRecordBuilder(memory.DefaultAllocator, filterSchema)
	defer b.Release()
	for i := range n {
		id := first + i*step
		b.Field(0).(*array.Int64Builder).Append(int64(id))
		if f.nulls && id%7 == 0 {
			b.Field(1).AppendNull()
			b.Field(2).AppendNull()
		} else {
			b.Field(1).(*array.Int64Builder).Append(nOf(id))
			b.Field(2).(*array.StringBuilder).Append(fmt.Sprintf("%03d of the row", nOf(id)))
		}
		b.Field(3).(*array.Float64Builder).Append(float64(nOf(id)))
	}
	rec := b.NewRecordBatch()
	tb.Cleanup(rec.Release)
	return rec
}

func (f filterTable) snapshot(tb testing.TB) *Snapshot {
	o := &Options{
		MaxMemtableBytes: 1 << 40, MaxResidentBytes: 1 << 41, MaxMemtableRows: 1 << 31, MaxMemtableBatches: 1 << 30,
		Visibility: VisibleIndexed, Indexes: f.indexes,
	}
	if f.keyed {
		o.PrimaryKey = []string{"id"}
	}
	w, err := Open(tb.Context(), sinkStore{objstore.NewMemory()}, testShard, filterSchema, o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { w.Abort() })
	put := func(rec arrow.RecordBatch) {
		if err := w.Put(tb.Context(), rec); err != nil {
			tb.Fatal(err)
		}
	}
	for at := 0; at < f.rows; at += f.batch {
		put(f.batchOf(tb, at, min(f.batch, f.rows-at), 1))
	}
	if f.rotate {
		if err := w.Rotate(tb.Context()); err != nil {
			tb.Fatal(err)
		}
	}
	if f.again > 0 {
		for at := 0; at < f.rows; at += f.batch * f.again {
			put(f.batchOf(tb, at, min(f.batch, (f.rows-at+f.again-1)/f.again), f.again))
		}
	}
	s, err := w.Snapshot()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(s.Close)
	return s
}

// scanned runs one read over and over, and says how many rows it passes a second.
func scanned(b *testing.B, s *Snapshot, read func(*Snapshot) (int64, error)) {
	if _, err := read(s); err != nil { // what newer memtables supersede is looked up once
		b.Fatal(err)
	}
	b.ReportAllocs()
	var found int64
	for b.Loop() {
		n, err := read(s)
		if err != nil {
			b.Fatal(err)
		}
		found = n
	}
	b.ReportMetric(float64(s.Bound())*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mrows/s")
	b.ReportMetric(float64(found), "found")
}

func counting(f Filter) func(s *Snapshot) (int64, error) {
	return func(s *Snapshot) (int64, error) { return s.CountWhere(context.Background(), f) }
}

func scanning(f Filter, columns ...string) func(s *Snapshot) (int64, error) {
	return func(s *Snapshot) (int64, error) {
		n := int64(0)
		for rec, err := range s.All(context.Background(), ScanOptions{Filter: f, Columns: append([]string{}, columns...)}) {
			if err != nil {
				return 0, err
			}
			n += rec.NumRows()
		}
		return n, nil
	}
}

// BenchmarkFilterScan counts and scans with filters over columns without an index.
//
//	go test -run '^$' -bench FilterScan ./memwal
func BenchmarkFilterScan(b *testing.B) {
	for _, t := range []struct {
		name  string
		table filterTable
	}{
		{"plain", filterTable{rows: 2 << 20, batch: 8192}},
		{"nulls", filterTable{rows: 2 << 20, batch: 8192, nulls: true}},
		{"keyed", filterTable{rows: 1 << 20, batch: 8192, keyed: true}},
		{"superseded", filterTable{rows: 1 << 20, batch: 8192, keyed: true, again: 10}},
		{"memtables", filterTable{rows: 1 << 20, batch: 8192, keyed: true, again: 10, rotate: true}},
		{"batches of 20", filterTable{rows: 1 << 20, batch: 20}},
	} {
		b.Run(t.name, func(b *testing.B) {
			s := t.table.snapshot(b)
			for _, f := range []struct {
				name string
				f    Filter
			}{
				{"range 0%", Between("n", 2000, 3000)},
				{"range 1%", Between("n", 500, 509)},
				{"range 50%", Lt("n", 500)},
				{"range 100%", Ge("n", 0)},
				{"equal", Eq("n", 500)},
				{"in 3", In("n", 1, 500, 999)},
				{"in 100", In("n", hundred()...)},
				{"and", And(Ge("n", 100), Lt("f", 500.0))},
				{"float", Lt("f", 10.0)},
				{"text equal", Eq("text", "500 of the row")},
				{"text prefix", Prefix("text", "50")},
			} {
				b.Run(f.name, func(b *testing.B) {
					b.Run("count", func(b *testing.B) { scanned(b, s, counting(f.f)) })
					b.Run("scan", func(b *testing.B) { scanned(b, s, scanning(f.f)) })
				})
			}
		})
	}
}

func hundred() []any {
	out := make([]any, 100)
	for i := range out {
		out[i] = i * 10
	}
	return out
}

// BenchmarkFilterScattered reads the rows that a filter finds, of which hardly two lie
// side by side.
//
//	go test -run '^$' -bench FilterScattered ./memwal
func BenchmarkFilterScattered(b *testing.B) {
	for name, nulls := range map[string]bool{"plain": false, "nulls": true} {
		s := filterTable{rows: 1 << 20, batch: 8192, nulls: nulls}.snapshot(b)
		for _, f := range []struct {
			name string
			f    Filter
		}{{"1%", Lt("n", 10)}, {"10%", Lt("n", 100)}, {"50%", Lt("n", 500)}} {
			for _, columns := range [][]string{{"n"}, {"text"}, {"id", "n", "text", "f"}} {
				b.Run(fmt.Sprintf("%s/%s/%d columns, %s", name, f.name, len(columns), columns[len(columns)-1]), func(b *testing.B) {
					scanned(b, s, scanning(f.f, columns...))
				})
			}
		}
	}
}

// BenchmarkFilterPlans reads the same rows by an ordered index, by the key and by a
// scan, to find where they cost the same: see the thresholds in plan.go.
//
//	go test -run '^$' -bench FilterPlans ./memwal
func BenchmarkFilterPlans(b *testing.B) {
	byN := []index.Config{index.Ordered{Name: "by_n", Columns: []index.Column{{Name: "n"}}}}
	for _, t := range []struct {
		name  string
		table filterTable
	}{
		{"plain", filterTable{rows: 1 << 20, batch: 8192, indexes: byN}},
		{"keyed", filterTable{rows: 1 << 20, batch: 8192, keyed: true, again: 10, indexes: byN}},
		{"batches of 20", filterTable{rows: 1 << 20, batch: 20, keyed: true, indexes: byN}},
	} {
		b.Run(t.name, func(b *testing.B) {
			s := t.table.snapshot(b)
			for _, share := range []int{1000, 250, 100, 64, 32} {
				f := Lt("n", 1000/share)
				bench := func(name string, f Filter, read func(views []memtable.View, prog *filter.Program) int64) {
					prog, err := s.r.bindFilter("scan", f)
					if err != nil {
						b.Fatal(err)
					}
					b.Run(fmt.Sprintf("a %dth by %s", share, name), func(b *testing.B) {
						scanned(b, s, func(s *Snapshot) (int64, error) { return read(s.views(), prog), nil })
					})
				}
				count := func(runs []run) (n int64) {
					for _, r := range runs {
						n += r.n
					}
					return n
				}
				read := func(all iter.Seq[stretch], prog *filter.Program) (n int64) {
					for some := range inRuns(filtered(b.Context(), prog, all), 8192, false) {
						n += count(some)
					}
					return n
				}
				bench("scan", f, func(views []memtable.View, prog *filter.Program) int64 {
					return read(scan(b.Context(), 0, views), prog)
				})
				bench("index", f, func(views []memtable.View, prog *filter.Program) int64 {
					runs, _ := byIndex(b.Context(), s.r.coverages(prog.Bounds(), 1)[0], 0, 1<<30, views)
					return read(stretches(slices.Values(runs)), prog)
				})
				if !t.table.keyed {
					continue
				}
				ids := make([]any, t.table.rows/share)
				for i := range ids {
					ids[i] = (i*share + 7*i) % t.table.rows
				}
				bench("keys", In("id", ids...), func(views []memtable.View, prog *filter.Program) int64 {
					runs, _, _ := s.byKeys(b.Context(), 1<<40, 0, prog.Bounds(), views)
					return read(stretches(slices.Values(runs)), prog)
				})
			}
		})
	}
}
