package filter

import (
	"context"
	"fmt"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/compute"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/arrow/scalar"
)

// BenchmarkFilterKernel evaluates filters over one batch that stays in the cache, and
// does the same with arrow-go's compute kernels.
//
//	go test -run '^$' -bench FilterKernel ./internal/filter
func BenchmarkFilterKernel(b *testing.B) {
	const rows = 8192
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "n", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
		{Name: "f", Type: arrow.PrimitiveTypes.Float64, Nullable: true},
		{Name: "s", Type: arrow.BinaryTypes.String, Nullable: true},
	}, nil)
	for _, nulls := range []bool{false, true} {
		rb := array.NewRecordBuilder(memory.DefaultAllocator, schema)
		for i := range rows {
			n := int64(uint64(i) * 0x9e3779b97f4a7c15 >> 33 % 1000)
			if nulls && i%7 == 0 {
				for c := range 3 {
					rb.Field(c).AppendNull()
				}
				continue
			}
			rb.Field(0).(*array.Int64Builder).Append(n)
			rb.Field(1).(*array.Float64Builder).Append(float64(n))
			rb.Field(2).(*array.StringBuilder).Append(fmt.Sprintf("%03d of the row", n))
		}
		rec := rb.NewRecordBatch()
		far := make([]any, 100)
		for i := range far {
			far[i] = i * 1_000_003
		}
		for _, t := range []struct {
			name string
			e    *Expr
		}{
			{"less", Compare(OpLt, "n", 500)},
			{"range", Between("n", 100, 500)},
			{"equal", Compare(OpEq, "n", 500)},
			{"in 3", In("n", 1, 500, 999)},
			{"in 100", In("n", far...)},
			{"float", Compare(OpLt, "f", 500.0)},
			{"text equal", Compare(OpEq, "s", "500 of the row")},
			{"text prefix", Prefix("s", "50")},
		} {
			b.Run(fmt.Sprintf("nulls=%v/%s/ours", nulls, t.name), func(b *testing.B) {
				p, err := Bind(schema, t.e)
				if err != nil {
					b.Fatal(err)
				}
				e := p.NewEvaluator()
				b.ReportAllocs()
				for b.Loop() {
					count(e, rec, 0, rows)
				}
				b.ReportMetric(rows*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mvalues/s")
			})
		}
		call := func(fn string, args ...compute.Datum) func(context.Context) compute.Datum {
			return func(ctx context.Context) compute.Datum {
				out, err := compute.CallFunction(ctx, fn, nil, args...)
				if err != nil {
					b.Fatal(err)
				}
				return out
			}
		}
		n, f, s := compute.NewDatumWithoutOwning(rec.Column(0)), compute.NewDatumWithoutOwning(rec.Column(1)), compute.NewDatumWithoutOwning(rec.Column(2))
		less := call("less", n, compute.NewDatum(scalar.NewInt64Scalar(500)))
		for _, t := range []struct {
			name string
			do   func(context.Context) compute.Datum
		}{
			{"less", less},
			{"range", func(ctx context.Context) compute.Datum {
				x := less(ctx)
				defer x.Release()
				y := call("greater_equal", n, compute.NewDatum(scalar.NewInt64Scalar(100)))(ctx)
				defer y.Release()
				return call("and_kleene", x, y)(ctx)
			}},
			{"equal", call("equal", n, compute.NewDatum(scalar.NewInt64Scalar(500)))},
			{"float", call("less", f, compute.NewDatum(scalar.NewFloat64Scalar(500)))},
			{"text equal", call("equal", s, compute.NewDatum(scalar.NewStringScalar("500 of the row")))},
		} {
			b.Run(fmt.Sprintf("nulls=%v/%s/arrow-go", nulls, t.name), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					t.do(context.Background()).Release()
				}
				b.ReportMetric(rows*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mvalues/s")
			})
		}
		rec.Release()
		rb.Release()
	}
}
