package filter

import (
	"cmp"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/decimal256"
	"github.com/apache/arrow-go/v18/arrow/extensions"
	"github.com/apache/arrow-go/v18/arrow/float16"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// comparableTypes are all that Bind takes in comparisons.
var comparableTypes = []arrow.DataType{
	arrow.FixedWidthTypes.Boolean,
	arrow.PrimitiveTypes.Int8, arrow.PrimitiveTypes.Int16, arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Int64,
	arrow.PrimitiveTypes.Uint8, arrow.PrimitiveTypes.Uint16, arrow.PrimitiveTypes.Uint32, arrow.PrimitiveTypes.Uint64,
	arrow.FixedWidthTypes.Float16, arrow.PrimitiveTypes.Float32, arrow.PrimitiveTypes.Float64,
	arrow.FixedWidthTypes.Date32, arrow.FixedWidthTypes.Date64,
	arrow.FixedWidthTypes.Time32s, arrow.FixedWidthTypes.Time32ms, arrow.FixedWidthTypes.Time64us, arrow.FixedWidthTypes.Time64ns,
	&arrow.TimestampType{Unit: arrow.Second}, &arrow.TimestampType{Unit: arrow.Millisecond, TimeZone: "UTC"},
	&arrow.TimestampType{Unit: arrow.Microsecond}, &arrow.TimestampType{Unit: arrow.Nanosecond, TimeZone: "Europe/Brussels"},
	arrow.FixedWidthTypes.Duration_s, arrow.FixedWidthTypes.Duration_ms, arrow.FixedWidthTypes.Duration_us, arrow.FixedWidthTypes.Duration_ns,
	arrow.FixedWidthTypes.MonthInterval,
	&arrow.Decimal32Type{Precision: 7, Scale: 2}, &arrow.Decimal64Type{Precision: 15, Scale: 2},
	&arrow.Decimal128Type{Precision: 30, Scale: 4}, &arrow.Decimal256Type{Precision: 60, Scale: -1},
	arrow.BinaryTypes.String, arrow.BinaryTypes.LargeString, arrow.BinaryTypes.StringView,
	arrow.BinaryTypes.Binary, arrow.BinaryTypes.LargeBinary, arrow.BinaryTypes.BinaryView,
	&arrow.FixedSizeBinaryType{ByteWidth: 2},
	&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String},
	&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Uint16, ValueType: arrow.PrimitiveTypes.Int64},
	&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Uint32, ValueType: arrow.PrimitiveTypes.Float64},
	extensions.NewUUIDType(), extensions.NewBool8Type(),
}

// otherTypes can be asked for nulls only.
var otherTypes = []arrow.DataType{
	arrow.Null, arrow.ListOf(arrow.PrimitiveTypes.Int64), arrow.StructOf(arrow.Field{Name: "a", Type: arrow.PrimitiveTypes.Int8, Nullable: true}),
	arrow.RunEndEncodedOf(arrow.PrimitiveTypes.Int32, arrow.BinaryTypes.String),
	arrow.SparseUnionOf([]arrow.Field{{Name: "a", Type: arrow.PrimitiveTypes.Int8, Nullable: true}}, []arrow.UnionTypeCode{3}),
	arrow.DenseUnionOf([]arrow.Field{{Name: "a", Type: arrow.PrimitiveTypes.Int8, Nullable: true}}, []arrow.UnionTypeCode{5}),
	arrow.FixedWidthTypes.DayTimeInterval,
}

// appendOne appends a value of few, extremes among them, or a null.
func appendOne(b array.Builder, r *rand.Rand, nulls bool) {
	if nulls && r.IntN(4) == 0 {
		b.AppendNull()
		return
	}
	n := []int64{0, 1, 2, 3, -1, -2, math.MinInt64, math.MaxInt64, math.MinInt32, math.MaxInt32, math.MinInt8, math.MaxInt8}[r.IntN(12)]
	f := []float64{0, math.Copysign(0, -1), 1, -1, 1.5, math.NaN(), -math.NaN(), math.Inf(1), math.Inf(-1), 65504, -0.25}[r.IntN(11)]
	text := []string{"", "a", "a\x00", "ab", "abc", "b", "\xff", "\xff\xff", "\xff\x01", "a\xff", "longer than twelve bytes", "longer than twelve bytez", "ä"}[r.IntN(13)]
	switch b := b.(type) {
	case *array.BooleanBuilder:
		b.Append(n%2 == 0)
	case *array.Int8Builder:
		b.Append(int8(n))
	case *array.Int16Builder:
		b.Append(int16(n))
	case *array.Int32Builder:
		b.Append(int32(n))
	case *array.Int64Builder:
		b.Append(n)
	case *array.Uint8Builder:
		b.Append(uint8(n))
	case *array.Uint16Builder:
		b.Append(uint16(n))
	case *array.Uint32Builder:
		b.Append(uint32(n))
	case *array.Uint64Builder:
		b.Append(uint64(n))
	case *array.Float16Builder:
		b.Append(float16.New(float32(f)))
	case *array.Float32Builder:
		b.Append(float32(f))
	case *array.Float64Builder:
		b.Append(f)
	case *array.Date32Builder:
		b.Append(arrow.Date32(n))
	case *array.Date64Builder:
		b.Append(arrow.Date64(n))
	case *array.Time32Builder:
		b.Append(arrow.Time32(n))
	case *array.Time64Builder:
		b.Append(arrow.Time64(n))
	case *array.TimestampBuilder:
		b.Append(arrow.Timestamp(n))
	case *array.DurationBuilder:
		b.Append(arrow.Duration(n))
	case *array.MonthIntervalBuilder:
		b.Append(arrow.MonthInterval(n))
	case *array.Decimal32Builder:
		b.Append(decimal.Decimal32(n % 1e7))
	case *array.Decimal64Builder:
		b.Append(decimal.Decimal64(n % 1e15))
	case *array.Decimal128Builder:
		b.Append(decimal128.New(n%1000, uint64(n)+r.Uint64N(2)))
	case *array.Decimal256Builder:
		b.Append(decimal256.FromI64(n).Mul(decimal256.FromI64(n | 1)).Add(decimal256.FromI64(r.Int64N(2))))
	case *array.StringBuilder:
		b.Append(text)
	case *array.LargeStringBuilder:
		b.Append(text)
	case *array.StringViewBuilder:
		b.Append(text)
	case *array.BinaryBuilder:
		b.Append([]byte(text))
	case *array.BinaryViewBuilder:
		b.Append([]byte(text))
	case *array.FixedSizeBinaryBuilder:
		v := make([]byte, b.Type().(*arrow.FixedSizeBinaryType).ByteWidth)
		copy(v, text)
		b.Append(v)
	case *extensions.UUIDBuilder:
		b.AppendBytes([16]byte{byte(n), 15: byte(r.IntN(2))})
	case *extensions.Bool8Builder:
		b.Append(n%2 == 0)
	case *array.DayTimeIntervalBuilder:
		b.Append(arrow.DayTimeInterval{Days: int32(n)})
	case *array.ListBuilder:
		b.Append(true)
	case *array.StructBuilder:
		b.Append(true)
		appendOne(b.FieldBuilder(0), r, true)
	case *array.RunEndEncodedBuilder:
		b.Append(1)
		appendOne(b.ValueBuilder(), r, true)
	case array.UnionBuilder:
		b.Append(b.Type().(arrow.UnionType).TypeCodes()[0])
		appendOne(b.Child(0), r, true)
	default:
		b.AppendNull()
	}
}

// randomArray is a slice of an array with more rows.
func randomArray(mem memory.Allocator, dt arrow.DataType, r *rand.Rand, n int, nulls bool) arrow.Array {
	before, after := r.IntN(70), r.IntN(9)
	total := before + n + after
	var arr arrow.Array
	if d, ok := dt.(*arrow.DictionaryType); ok {
		values := randomArray(mem, d.ValueType, r, 1+r.IntN(60), nulls && r.IntN(2) == 0)
		defer values.Release()
		ib := array.NewBuilder(mem, d.IndexType)
		defer ib.Release()
		for range total {
			if nulls && r.IntN(5) == 0 {
				ib.AppendNull()
			} else if err := ib.AppendValueFromString(fmt.Sprint(r.IntN(values.Len()))); err != nil {
				panic(err)
			}
		}
		indices := ib.NewArray()
		defer indices.Release()
		arr = array.NewDictionaryArray(d, indices, values)
	} else {
		b := array.NewBuilder(mem, dt)
		defer b.Release()
		for range total {
			appendOne(b, r, nulls)
		}
		arr = b.NewArray()
	}
	defer arr.Release()
	return array.NewSlice(arr, int64(before), int64(before+n))
}

// plain is a cell as the model compares it, and val as a caller gives it.
type plain struct {
	null  bool
	num   *big.Int
	float float64
	text  string
	val   any
}

func plainOf(arr arrow.Array, row int) plain {
	if arr.IsNull(row) {
		return plain{null: true}
	}
	num := func(n int64, v any) plain { return plain{num: big.NewInt(n), val: v} }
	switch a := arr.(type) {
	case *array.Dictionary:
		return plainOf(a.Dictionary(), a.GetValueIndex(row))
	case array.ExtensionArray:
		return plainOf(a.Storage(), row)
	case *array.Boolean:
		if a.Value(row) {
			return num(1, true)
		}
		return num(0, false)
	case *array.Int8:
		return num(int64(a.Value(row)), a.Value(row))
	case *array.Int16:
		return num(int64(a.Value(row)), int(a.Value(row)))
	case *array.Int32:
		return num(int64(a.Value(row)), int64(a.Value(row)))
	case *array.Int64:
		return num(a.Value(row), a.Value(row))
	case *array.Uint8:
		return num(int64(a.Value(row)), a.Value(row))
	case *array.Uint16:
		return num(int64(a.Value(row)), int(a.Value(row)))
	case *array.Uint32:
		return num(int64(a.Value(row)), a.Value(row))
	case *array.Uint64:
		return plain{num: new(big.Int).SetUint64(a.Value(row)), val: a.Value(row)}
	case *array.Float16:
		return plain{float: float64(a.Value(row).Float32()), val: a.Value(row)}
	case *array.Float32:
		return plain{float: float64(a.Value(row)), val: a.Value(row)}
	case *array.Float64:
		return plain{float: a.Value(row), val: a.Value(row)}
	case *array.Date32:
		return num(int64(a.Value(row)), a.Value(row))
	case *array.Date64:
		return num(int64(a.Value(row)), a.Value(row))
	case *array.Time32:
		return num(int64(a.Value(row)), a.Value(row))
	case *array.Time64:
		return num(int64(a.Value(row)), a.Value(row))
	case *array.Timestamp:
		return num(int64(a.Value(row)), a.Value(row))
	case *array.Duration:
		return num(int64(a.Value(row)), a.Value(row))
	case *array.MonthInterval:
		return num(int64(a.Value(row)), a.Value(row))
	case *array.Decimal32:
		return num(int64(a.Value(row)), a.Value(row))
	case *array.Decimal64:
		return num(int64(a.Value(row)), a.Value(row))
	case *array.Decimal128:
		return plain{num: a.Value(row).BigInt(), val: a.Value(row)}
	case *array.Decimal256:
		return plain{num: a.Value(row).BigInt(), val: a.Value(row)}
	case array.StringLike:
		return plain{text: a.Value(row), val: a.Value(row)}
	case interface{ Value(int) []byte }:
		return plain{text: string(a.Value(row)), val: a.Value(row)}
	case *array.Null:
		return plain{null: true}
	case *array.RunEndEncoded:
		return plainOf(a.Values(), a.GetPhysicalIndex(row))
	case array.Union:
		if a.Mode() == arrow.DenseMode {
			row = int(a.(*array.DenseUnion).ValueOffset(row))
		}
		return plainOf(a.Field(0), row)
	}
	return plain{}
}

func (a plain) compare(b plain) int {
	switch {
	case a.num != nil:
		return a.num.Cmp(b.num)
	case a.float != a.float || b.float != b.float:
		return cmp.Compare(truth(a.float != a.float), truth(b.float != b.float))
	case a.float != b.float:
		return cmp.Compare(a.float, b.float)
	}
	return cmp.Compare(a.text, b.text)
}

// truth is the model's logic: false, unknown, true as 0, 1, 2.
func truth(b bool) int {
	if b {
		return 2
	}
	return 0
}

// rule is a random filter and what it says of a row.
type rule struct {
	expr *Expr
	of   func(rec arrow.RecordBatch, row int) int
}

func randomRule(r *rand.Rand, rec arrow.RecordBatch, depth int) rule {
	switch op := r.IntN(10); {
	case depth > 0 && op < 5:
		var args []rule
		var exprs []*Expr
		for range r.IntN(4) {
			a := randomRule(r, rec, depth-1)
			args, exprs = append(args, a), append(exprs, a.expr)
		}
		if op < 3 {
			return rule{And(exprs...), func(rec arrow.RecordBatch, row int) int {
				t := 2
				for _, a := range args {
					t = min(t, a.of(rec, row))
				}
				return t
			}}
		}
		return rule{Or(exprs...), func(rec arrow.RecordBatch, row int) int {
			t := 0
			for _, a := range args {
				t = max(t, a.of(rec, row))
			}
			return t
		}}
	case depth > 0 && op < 7:
		a := randomRule(r, rec, depth-1)
		return rule{Not(a.expr), func(rec arrow.RecordBatch, row int) int { return 2 - a.of(rec, row) }}
	}
	return randomLeaf(r, rec)
}

func randomLeaf(r *rand.Rand, rec arrow.RecordBatch) rule {
	col := r.IntN(int(rec.NumCols()))
	name, dt := rec.ColumnName(col), rec.Column(col).DataType()
	op := Op(int(OpEq) + r.IntN(int(OpIsNull-OpEq)+1))
	if slices.ContainsFunc(otherTypes, func(t arrow.DataType) bool { return t.ID() == dt.ID() }) {
		op = OpIsNull
	}
	base := Base(dt).ID()
	if textual := arrow.IsBinaryLike(base) || arrow.IsLargeBinaryLike(base) || base == arrow.STRING_VIEW || base == arrow.BINARY_VIEW || base == arrow.FIXED_SIZE_BINARY; op == OpPrefix && !textual {
		op = OpLe
	}
	pool := randomArray(memory.DefaultAllocator, dt, r, 20, true)
	defer pool.Release()
	var consts []plain
	var vals []any
	n := map[Op]int{OpBetween: 2, OpIn: r.IntN(20)}[op]
	if n == 0 && op != OpIn {
		n = 1
	}
	withNull := r.IntN(4) == 0
	for i := 0; len(consts) < n; i++ {
		k := plainOf(pool, i%pool.Len())
		if i >= pool.Len() {
			k = plain{null: true}
		}
		if k.null && !withNull && i < pool.Len() {
			continue
		}
		if op == OpPrefix && !k.null {
			k.text = k.text[:r.IntN(len(k.text)+1)]
			k.val = k.text
		}
		consts, vals = append(consts, k), append(vals, k.val)
	}
	return rule{leafOf(op, name, vals), func(rec arrow.RecordBatch, row int) int {
		return judge(op, plainOf(rec.Column(col), row), consts)
	}}
}

func leafOf(op Op, name string, vals []any) *Expr {
	switch op {
	case OpIsNull:
		return IsNull(name)
	case OpIn:
		return In(name, vals...)
	case OpBetween:
		return Between(name, vals[0], vals[1])
	case OpPrefix:
		return Prefix(name, vals[0])
	}
	return Compare(op, name, vals[0])
}

func judge(op Op, cell plain, k []plain) int {
	two := func(op Op, k plain) int {
		if cell.null || k.null {
			return 1
		}
		d := cell.compare(k)
		return truth(map[Op]bool{OpEq: d == 0, OpNe: d != 0, OpLt: d < 0, OpLe: d <= 0, OpGt: d > 0, OpGe: d >= 0}[op])
	}
	switch op {
	case OpIsNull:
		return truth(cell.null)
	case OpIn:
		t := 0
		for _, k := range k {
			t = max(t, two(OpEq, k))
		}
		return t
	case OpBetween:
		return min(two(OpGe, k[0]), two(OpLe, k[1]))
	case OpPrefix:
		if cell.null || k[0].null {
			return 1
		}
		return truth(len(cell.text) >= len(k[0].text) && cell.text[:len(k[0].text)] == k[0].text)
	}
	return two(op, k[0])
}

func randomBatch(mem memory.Allocator, r *rand.Rand, rows int) arrow.RecordBatch {
	var fields []arrow.Field
	var cols []arrow.Array
	types := slices.Concat(comparableTypes, comparableTypes, otherTypes)
	for i := range 1 + r.IntN(4) {
		dt := types[r.IntN(len(types))]
		fields = append(fields, arrow.Field{Name: fmt.Sprintf("c%d", i), Type: dt, Nullable: true})
		cols = append(cols, randomArray(mem, dt, r, rows, r.IntN(4) > 0))
	}
	rec := array.NewRecordBatch(arrow.NewSchema(fields, nil), cols, int64(rows))
	for _, c := range cols {
		c.Release()
	}
	return rec
}

// checkModel evaluates random filters over a random batch and row by row.
func checkModel(t *testing.T, r *rand.Rand) {
	mem := memory.NewCheckedAllocator(memory.DefaultAllocator)
	defer mem.AssertSize(t, 0)
	rows := []int{0, 1, 2, 63, 64, 65, 127, 200}[r.IntN(8)]
	if r.IntN(20) == 0 {
		rows = Block + r.IntN(100)
	}
	rec := randomBatch(mem, r, rows)
	defer rec.Release()
	for range 10 {
		rule := randomRule(r, rec, 3)
		p, err := Bind(rec.Schema(), rule.expr)
		if err != nil {
			t.Fatalf("%v over %v: %v", rule.expr, rec.Schema(), err)
		}
		from := r.IntN(rows + 1)
		to := from + r.IntN(rows-from+1)
		var want []int
		for row := from; row < to; row++ {
			if rule.of(rec, row) == 2 {
				want = append(want, row)
			}
		}
		e := p.NewEvaluator()
		got := selected(e, rec, from, to)
		if !slices.Equal(got, want) {
			t.Fatalf("%v over rows %d to %d of\n%v\ngives %v, want %v", rule.expr, from, to, rec, got, want)
		}
		if n := count(e, rec, from, to); n != len(want) {
			t.Fatalf("%v: counted %d, want %d", rule.expr, n, len(want))
		}
		if rows > 0 {
			if row := r.IntN(rows); e.Matches(rec, row) != (rule.of(rec, row) == 2) {
				t.Fatalf("%v: row %d of\n%v\nmatches: %v", rule.expr, row, rec, e.Matches(rec, row))
			}
		}
		checkBounds(t, p, rec, want)
		if len(e.free) > 20 {
			t.Fatalf("%d masks are kept", len(e.free))
		}
	}
}

// checkBounds holds matches against what the program says of each.
func checkBounds(t *testing.T, p *Program, rec arrow.RecordBatch, matches []int) {
	if p.Never() && len(matches) > 0 {
		t.Fatalf("rows %v match what never does", matches)
	}
	for _, b := range p.Bounds() {
		name := rec.ColumnName(b.Column)
		var args []*Expr
		switch {
		case len(b.Pins) == 1 && b.Pins[0] == nil:
			args = append(args, IsNull(name))
		case b.Pins != nil:
			args = append(args, In(name, b.Pins...))
		}
		if op := map[bool]Op{false: OpGe, true: OpGt}[b.LowOpen]; b.Low != nil {
			args = append(args, Compare(op, name, b.Low))
		}
		if op := map[bool]Op{false: OpLe, true: OpLt}[b.HighOpen]; b.High != nil {
			args = append(args, Compare(op, name, b.High))
		}
		q, err := Bind(rec.Schema(), And(args...))
		if err != nil {
			continue // a prefix of fixed-size binary is no value of it
		}
		e := q.NewEvaluator()
		for _, row := range matches {
			if !e.Matches(rec, row) {
				t.Fatalf("row %d matches, but not the bound %v", row, And(args...))
			}
		}
	}
}

func TestModel(t *testing.T) {
	n := uint64(3000)
	if testing.Short() {
		n = 500
	}
	for seed := range n {
		checkModel(t, rand.New(rand.NewPCG(seed, 1)))
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func FuzzModel(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(seed, seed*7)
	}
	f.Fuzz(func(t *testing.T, a, b uint64) { checkModel(t, rand.New(rand.NewPCG(a, b))) })
}
