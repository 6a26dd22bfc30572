package memwal

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/decimal256"
	"github.com/apache/arrow-go/v18/arrow/extensions"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/memwal/memwal-go/objstore"
)

// TestCopyColumn compares runs that are copied by hand with what array.Concatenate makes of
// them: batches that are slices of larger ones, with and without nulls, runs of all lengths.
func TestCopyColumn(t *testing.T) {
	fill := func(b array.Builder, r *rand.Rand) {
		n := r.Uint64()
		switch b := b.(type) {
		case *array.BooleanBuilder:
			b.Append(n%2 == 0)
		case *array.Int8Builder:
			b.Append(int8(n))
		case *array.Uint16Builder:
			b.Append(uint16(n))
		case *array.Float32Builder:
			b.Append(float32(n))
		case *array.TimestampBuilder:
			b.Append(arrow.Timestamp(n))
		case *array.DayTimeIntervalBuilder:
			b.Append(arrow.DayTimeInterval{Days: int32(n)})
		case *array.MonthDayNanoIntervalBuilder:
			b.Append(arrow.MonthDayNanoInterval{Nanoseconds: int64(n)})
		case *array.Decimal128Builder:
			b.Append(decimal128.New(int64(n%1000), n))
		case *array.Decimal256Builder:
			b.Append(decimal256.FromU64(n))
		case *array.FixedSizeBinaryBuilder:
			b.Append([]byte(fmt.Sprintf("%05d", n%100000))[:b.Type().(*arrow.FixedSizeBinaryType).ByteWidth])
		case *array.StringBuilder:
			b.Append(fmt.Sprint(n)[:n%15])
		case *array.LargeStringBuilder:
			b.Append(fmt.Sprint(n)[:n%15])
		case *array.BinaryBuilder:
			b.Append([]byte(fmt.Sprint(n)[:n%15]))
		case *extensions.UUIDBuilder:
			b.AppendBytes([16]byte{byte(n), 15: byte(n >> 8)})
		default:
			t.Fatalf("no values for %T", b)
		}
	}
	for _, dt := range []arrow.DataType{
		arrow.FixedWidthTypes.Boolean, arrow.PrimitiveTypes.Int8, arrow.PrimitiveTypes.Uint16, arrow.PrimitiveTypes.Float32,
		&arrow.TimestampType{Unit: arrow.Second, TimeZone: "UTC"}, arrow.FixedWidthTypes.DayTimeInterval, arrow.FixedWidthTypes.MonthDayNanoInterval,
		&arrow.Decimal128Type{Precision: 30}, &arrow.Decimal256Type{Precision: 60}, &arrow.FixedSizeBinaryType{ByteWidth: 5}, &arrow.FixedSizeBinaryType{ByteWidth: 4},
		arrow.BinaryTypes.String, arrow.BinaryTypes.LargeString, arrow.BinaryTypes.Binary, arrow.BinaryTypes.LargeBinary, extensions.NewUUIDType(),
	} {
		if !copies(dt) {
			t.Errorf("%v is not copied", dt)
			continue
		}
		schema := arrow.NewSchema([]arrow.Field{{Name: "c", Type: dt, Nullable: true}}, nil)
		for seed := range uint64(30) {
			r := rand.New(rand.NewPCG(seed, 1))
			mem := memory.NewCheckedAllocator(memory.DefaultAllocator)
			var runs []run
			var parts []arrow.Array
			rows := 0
			for range 1 + r.IntN(3) {
				b := array.NewBuilder(mem, dt)
				nulls := r.IntN(2) == 0
				before, n := r.IntN(70), r.IntN(400)
				for range before + n {
					if nulls && r.IntN(3) == 0 {
						b.AppendNull()
					} else {
						fill(b, r)
					}
				}
				whole := b.NewArray()
				a := array.NewSlice(whole, int64(before), int64(before+n))
				rec := array.NewRecordBatch(schema, []arrow.Array{a}, int64(n))
				for at := 0; at < n; at += r.IntN(5) {
					k := min(1+r.IntN(3), n-at)
					if r.IntN(10) == 0 {
						k = 1 + r.IntN(n-at)
					}
					runs = append(runs, run{rec: rec, row: int64(at), n: int64(k)})
					parts = append(parts, array.NewSlice(a, int64(at), int64(at+k)))
					rows += k
					at += k
				}
				defer rec.Release()
				b.Release()
				whole.Release()
				a.Release()
			}
			if len(runs) == 0 {
				continue
			}
			got, err := copyColumn(mem, dt, 0, partsOf(runs, nil), rows)
			if err != nil {
				t.Fatal(err)
			}
			for i, p := range parts {
				// Extensions are no arguments of Concatenate: row by row.
				at := int64(0)
				for _, q := range parts[:i] {
					at += int64(q.Len())
				}
				if !array.SliceEqual(got, at, at+int64(p.Len()), p, 0, int64(p.Len())) {
					t.Fatalf("%v, seed %d: run %d of %d differs: %v", dt, seed, i, len(parts), p)
				}
			}
			nulls := 0
			for _, p := range parts {
				nulls += p.NullN()
				p.Release()
			}
			if got.Len() != rows || got.NullN() != nulls {
				t.Errorf("%v, seed %d: %d rows and %d nulls, want %d and %d", dt, seed, got.Len(), got.NullN(), rows, nulls)
			}
			got.Release()
		}
	}
}

// TestQ01_LongBatches has batches that are longer than what liveness is asked for at a
// time, and begin anywhere, with superseded rows in them.
func TestQ01_LongBatches(t *testing.T) {
	for _, rotate := range []bool{false, true} {
		o := keyedOptions()
		o.Visibility = VisibleIndexed
		w := mustOpen(t, objstore.NewMemory(), o)
		r := rand.New(rand.NewPCG(1, 2))
		newest := map[int64]int{} // ordinal by id
		var ids []int64
		put := func(batch []int64) {
			var rows []testRow
			for _, id := range batch {
				newest[id] = len(ids)
				ids = append(ids, id)
				rows = append(rows, testRow{id, "x", id % 10})
			}
			mustPut(t, w, batchOf(t, rows...))
		}
		for _, n := range []int{37, 9001, 63, 4096, 1} {
			batch := make([]int64, n)
			for i := range batch {
				batch[i] = int64(len(ids) + i)
				if r.IntN(20) == 0 {
					batch[i] = r.Int64N(int64(len(ids) + n))
				}
			}
			put(batch)
		}
		early := mustSnapshot(t, w.Snapshot)
		earlier := map[int64]int{}
		for id, at := range newest {
			earlier[id] = at
		}
		if rotate {
			if err := w.Rotate(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		some := make([]int64, 700)
		for i := range some {
			some[i] = r.Int64N(int64(len(ids)))
		}
		put(some)
		for name, at := range map[string]struct {
			s      *Snapshot
			newest map[int64]int
		}{"before": {early, earlier}, "after": {mustSnapshot(t, w.Snapshot), newest}} {
			for _, from := range []uint64{0, 36, 37, 100, 4133, 9038, 9101} {
				for _, f := range []Filter{{}, Lt("n", 5), Ne("text", "x")} {
					want := 0
					for id, ordinal := range at.newest {
						if uint64(ordinal) >= from && (f.IsZero() || id%10 < 5 && f.String() == "n < 5") {
							want++
						}
					}
					n, last := 0, -1
					for rec, err := range at.s.All(t.Context(), ScanOptions{From: from, Filter: f, Columns: []string{"id"}, Ordinals: true}) {
						if err != nil {
							t.Fatal(err)
						}
						for i := range int(rec.NumRows()) {
							id, ordinal := rec.Column(0).(*array.Int64).Value(i), int(rec.Column(1).(*array.Uint64).Value(i))
							if at.newest[id] != ordinal || ordinal <= last {
								t.Fatalf("rotate=%v, %s, from %d, %v: id %d at %d after %d, its newest is %d", rotate, name, from, f, id, ordinal, last, at.newest[id])
							}
							last = ordinal
							n++
						}
					}
					if n != want {
						t.Errorf("rotate=%v, %s, from %d, %v: %d rows, want %d", rotate, name, from, f, n, want)
					}
					n = 0
					for rec, err := range at.s.All(t.Context(), ScanOptions{From: from, Filter: f, Columns: []string{}}) {
						if err != nil {
							t.Fatal(err)
						}
						n += int(rec.NumRows())
					}
					if n != want {
						t.Errorf("rotate=%v, %s, from %d, %v, no columns: %d rows, want %d", rotate, name, from, f, n, want)
					}
					if from == 0 {
						if c, err := at.s.CountWhere(t.Context(), f); err != nil || c != int64(want) {
							t.Errorf("rotate=%v, %s, count %v: %d, %v, want %d", rotate, name, f, c, err, want)
						}
					}
				}
			}
		}
		w.Abort()
	}
}
