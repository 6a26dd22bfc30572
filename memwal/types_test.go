package memwal

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/decimal256"
	"github.com/apache/arrow-go/v18/arrow/extensions"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/memwal/memwal-go/objstore"
)

// everyType has each type of the Arrow format, and what may hide inside another.
func everyType() []arrow.DataType {
	null := func(name string, dt arrow.DataType) arrow.Field {
		return arrow.Field{Name: name, Type: dt, Nullable: true}
	}
	str, i64 := arrow.BinaryTypes.String, arrow.PrimitiveTypes.Int64
	dict := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: str}
	union := []arrow.Field{null("s", str), null("n", i64)}
	inner := arrow.StructOf(null("a", str), null("b", arrow.ListOf(i64)), null("c", arrow.FixedWidthTypes.Boolean))
	types := []arrow.DataType{
		arrow.Null, arrow.FixedWidthTypes.Boolean, arrow.FixedWidthTypes.Float16, arrow.PrimitiveTypes.Float32, arrow.PrimitiveTypes.Float64,
		arrow.PrimitiveTypes.Int8, arrow.PrimitiveTypes.Int16, arrow.PrimitiveTypes.Int32, i64,
		arrow.PrimitiveTypes.Uint8, arrow.PrimitiveTypes.Uint16, arrow.PrimitiveTypes.Uint32, arrow.PrimitiveTypes.Uint64,
		&arrow.Decimal32Type{Precision: 7, Scale: 2}, &arrow.Decimal64Type{Precision: 15, Scale: 2},
		&arrow.Decimal128Type{Precision: 30, Scale: 4}, &arrow.Decimal256Type{Precision: 60, Scale: -1},
		arrow.FixedWidthTypes.Date32, arrow.FixedWidthTypes.Date64,
		arrow.FixedWidthTypes.Time32s, arrow.FixedWidthTypes.Time32ms, arrow.FixedWidthTypes.Time64us, arrow.FixedWidthTypes.Time64ns,
		arrow.FixedWidthTypes.Duration_s, arrow.FixedWidthTypes.Duration_ns,
		arrow.FixedWidthTypes.MonthInterval, arrow.FixedWidthTypes.DayTimeInterval, arrow.FixedWidthTypes.MonthDayNanoInterval,
		str, arrow.BinaryTypes.LargeString, arrow.BinaryTypes.StringView, arrow.BinaryTypes.Binary, arrow.BinaryTypes.LargeBinary, arrow.BinaryTypes.BinaryView,
		&arrow.FixedSizeBinaryType{ByteWidth: 5},
		arrow.ListOf(str), arrow.LargeListOf(arrow.BinaryTypes.StringView), arrow.ListOf(arrow.ListOf(i64)), arrow.ListOf(inner),
		arrow.ListOfNonNullable(i64), arrow.ListOfField(arrow.Field{Name: "odd name", Type: i64, Nullable: true}),
		arrow.ListViewOf(str), arrow.LargeListViewOf(i64), arrow.ListViewOf(inner),
		arrow.FixedSizeListOf(3, arrow.PrimitiveTypes.Float32), arrow.FixedSizeListOf(2, arrow.FixedSizeListOf(2, str)),
		arrow.MapOf(str, i64), arrow.MapOf(i64, arrow.ListOf(str)), inner, arrow.StructOf(null("x", inner)),
		arrow.SparseUnionOf(union, []arrow.UnionTypeCode{3, 7}), arrow.DenseUnionOf(union, []arrow.UnionTypeCode{7, 3}),
		arrow.ListOf(arrow.DenseUnionOf(union, []arrow.UnionTypeCode{0, 1})), arrow.StructOf(null("u", arrow.SparseUnionOf(union, []arrow.UnionTypeCode{0, 1}))),
		dict, &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Uint32, ValueType: arrow.BinaryTypes.Binary, Ordered: true},
		arrow.ListOf(dict), arrow.StructOf(null("d", dict), null("e", dict)), arrow.DenseUnionOf([]arrow.Field{null("d", dict), null("n", i64)}, []arrow.UnionTypeCode{0, 1}),
		arrow.RunEndEncodedOf(arrow.PrimitiveTypes.Int16, str), arrow.RunEndEncodedOf(arrow.PrimitiveTypes.Int32, i64),
		arrow.RunEndEncodedOf(arrow.PrimitiveTypes.Int64, inner), arrow.StructOf(null("r", arrow.RunEndEncodedOf(arrow.PrimitiveTypes.Int32, str))),
		extensions.NewUUIDType(), extensions.NewBool8Type(), arrow.ListOf(extensions.NewUUIDType()),
		extensions.NewOpaqueType(str, "point", "somebody"),
	}
	for _, zone := range []string{"", "UTC", "Europe/Brussels", "+05:30"} {
		for _, unit := range []arrow.TimeUnit{arrow.Second, arrow.Nanosecond} {
			types = append(types, &arrow.TimestampType{Unit: unit, TimeZone: zone})
		}
	}
	return types
}

// appendRandom appends n values, about a fifth of them null.
func appendRandom(b array.Builder, r *rand.Rand, n int) {
	for range n {
		if r.IntN(5) == 0 {
			b.AppendNull()
		} else {
			appendValue(b, r)
		}
	}
}

func appendValue(b array.Builder, r *rand.Rand) {
	text := strings.Repeat(strconv.Itoa(r.IntN(100)), r.IntN(12))
	switch b := b.(type) {
	case *array.NullBuilder:
		b.AppendNull()
	case *array.BooleanBuilder:
		b.Append(r.IntN(2) == 0)
	case *array.Uint64Builder:
		b.Append(r.Uint64())
	case *array.Int64Builder:
		b.Append(int64(r.Uint64()))
	case *array.Float64Builder:
		b.Append(r.NormFloat64())
	case *array.Decimal32Builder:
		b.Append(decimal.Decimal32(r.Int32N(1e6)))
	case *array.Decimal64Builder:
		b.Append(decimal.Decimal64(-r.Int64N(1e14)))
	case *array.Decimal128Builder:
		b.Append(decimal128.New(-r.Int64N(1e9), r.Uint64()))
	case *array.Decimal256Builder:
		b.Append(decimal256.New(r.Uint64()>>8, r.Uint64(), r.Uint64(), r.Uint64()))
	case *array.Date32Builder:
		b.Append(arrow.Date32(r.IntN(1000)))
	case *array.Date64Builder:
		b.Append(arrow.Date64(r.Int64N(1000) * 86_400_000))
	case *array.Time32Builder:
		b.Append(arrow.Time32(r.IntN(1000)))
	case *array.Time64Builder:
		b.Append(arrow.Time64(r.IntN(1000)))
	case *array.TimestampBuilder:
		b.Append(arrow.Timestamp(r.Int64N(1e9)))
	case *array.DurationBuilder:
		b.Append(arrow.Duration(r.IntN(1000)))
	case *array.MonthIntervalBuilder:
		b.Append(arrow.MonthInterval(r.IntN(1000)))
	case *array.DayTimeIntervalBuilder:
		b.Append(arrow.DayTimeInterval{Days: r.Int32N(9), Milliseconds: r.Int32N(9)})
	case *array.MonthDayNanoIntervalBuilder:
		b.Append(arrow.MonthDayNanoInterval{Months: r.Int32N(9), Days: r.Int32N(9), Nanoseconds: r.Int64N(9)})
	case *array.FixedSizeBinaryBuilder:
		v := make([]byte, b.Type().(*arrow.FixedSizeBinaryType).ByteWidth)
		for i := range v {
			v[i] = byte(r.IntN(256))
		}
		b.Append(v)
	case *array.BinaryDictionaryBuilder:
		if err := b.AppendString(strconv.Itoa(r.IntN(20))); err != nil {
			panic(err)
		}
	case *array.BinaryBuilder:
		b.Append([]byte(text))
	case *array.BinaryViewBuilder:
		b.Append([]byte(text))
	case *array.StringBuilder, *array.LargeStringBuilder, *array.StringViewBuilder:
		b.(array.StringLikeBuilder).Append(text)
	case *array.MapBuilder:
		b.Append(true)
		for range r.IntN(4) {
			appendValue(b.KeyBuilder(), r)
			appendRandom(b.ItemBuilder(), r, 1)
		}
	case *array.FixedSizeListBuilder:
		b.Append(true)
		appendRandom(b.ValueBuilder(), r, int(b.Type().(*arrow.FixedSizeListType).Len()))
	case array.VarLenListLikeBuilder:
		k := r.IntN(4)
		b.AppendWithSize(true, k)
		for range k {
			if b.Type().(arrow.ListLikeType).ElemField().Nullable {
				appendRandom(b.ValueBuilder(), r, 1)
			} else {
				appendValue(b.ValueBuilder(), r)
			}
		}
	case *array.StructBuilder:
		b.Append(true)
		for i := range b.NumField() {
			appendRandom(b.FieldBuilder(i), r, 1)
		}
	case array.UnionBuilder:
		codes := b.Type().(arrow.UnionType).TypeCodes()
		pick := r.IntN(len(codes))
		b.Append(codes[pick])
		appendRandom(b.Child(pick), r, 1)
		if b.Mode() == arrow.SparseMode {
			b.Child(1 - pick).AppendEmptyValue()
		}
	case *array.RunEndEncodedBuilder:
		b.Append(1 + r.Uint64N(3)) // so there are more rows than values
		appendRandom(b.ValueBuilder(), r, 1)
	case *extensions.UUIDBuilder:
		b.AppendBytes([16]byte{byte(r.IntN(256)), 1, 2})
	case *extensions.Bool8Builder:
		b.Append(r.IntN(2) == 0)
	case *array.ExtensionBuilder:
		appendRandom(b.StorageBuilder(), r, 1)
	default:
		if err := b.AppendValueFromString(strconv.Itoa(r.IntN(100))); err != nil {
			panic(err)
		}
	}
}

// typedBatch makes a batch of ids from first on and random values of a type: the
// rows from to to of a larger one.
func typedBatch(mem memory.Allocator, schema *arrow.Schema, r *rand.Rand, first int64, from, to int64) arrow.RecordBatch {
	vb := array.NewBuilder(mem, schema.Field(1).Type)
	defer vb.Release()
	appendRandom(vb, r, int(to))
	values := vb.NewArray()
	defer values.Release()
	ib := array.NewInt64Builder(mem)
	defer ib.Release()
	for i := range to {
		ib.Append(first + i)
	}
	ids := ib.NewArray()
	defer ids.Release()
	rec := array.NewRecordBatch(schema, []arrow.Array{ids, values}, to)
	defer rec.Release()
	return rec.NewSlice(from, to)
}

// valueText is a value as text, in full.
func valueText(t *testing.T, a arrow.Array, row int) string {
	t.Helper()
	text, err := json.Marshal(a.GetOneForMarshal(row))
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%v %s", a.IsNull(row), text)
}

// typed is a row that was put.
type typed struct {
	values arrow.Array
	row    int
	text   string
}

// plainType tells whether equal values have equal arrays.
func plainType(dt arrow.DataType) bool {
	switch dt := dt.(type) {
	case *arrow.DictionaryType, *arrow.RunEndEncodedType, arrow.UnionType, arrow.ListLikeType:
		return false
	case *arrow.StructType:
		for _, f := range dt.Fields() {
			if !plainType(f.Type) {
				return false
			}
		}
	}
	return true
}

func checkTyped(t *testing.T, w *Writer, schema *arrow.Schema, want map[int64]typed, o ScanOptions) {
	t.Helper()
	s := mustSnapshot(t, w.Snapshot)
	defer s.Close()
	r, err := s.Scan(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Release()
	if !r.Schema().Equal(schema) {
		t.Errorf("the schema is %v, want %v", r.Schema(), schema)
	}
	n := 0
	for r.Next() {
		rec := r.RecordBatch()
		ids, values := rec.Column(0).(*array.Int64), rec.Column(1)
		if !arrow.TypeEqual(values.DataType(), schema.Field(1).Type, arrow.CheckMetadata()) {
			t.Fatalf("the type is %v, want %v", values.DataType(), schema.Field(1).Type)
		}
		for row := range ids.Len() {
			v, ok := want[ids.Value(row)]
			if got := valueText(t, values, row); !ok || got != v.text {
				t.Fatalf("row %d: %s, want %s", ids.Value(row), got, v.text)
			}
			if plainType(values.DataType()) && !array.SliceEqual(values, int64(row), int64(row+1), v.values, int64(v.row), int64(v.row+1)) {
				t.Fatalf("row %d: %s differs", ids.Value(row), v.text)
			}
			n++
		}
	}
	if r.Err() != nil || n != len(want) {
		t.Fatalf("%d rows, %v, want %d", n, r.Err(), len(want))
	}
}

// TestEveryType puts values of every type, in whole batches, slices with odd
// offsets and batches without rows, each with a dictionary of its own, and
// reads them before and after reopening.
func TestEveryType(t *testing.T) {
	for i, dt := range everyType() {
		t.Run(strings.ReplaceAll(dt.String(), "/", "|"), func(t *testing.T) {
			for k, c := range []Compression{CompressionNone, CompressionLZ4, CompressionZstd} {
				synctest.Test(t, func(t *testing.T) {
					everyTypeCase(t, dt, c, (i+k)%2 == 0, rand.New(rand.NewPCG(uint64(i), uint64(k))))
				})
			}
		})
	}
}

func everyTypeCase(t *testing.T, dt arrow.DataType, c Compression, keyed bool, r *rand.Rand) {
	mem := memory.NewCheckedAllocator(memory.DefaultAllocator)
	defer mem.AssertSize(t, 0)
	meta := arrow.NewMetadata([]string{"of"}, []string{"field"})
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64}, {Name: "v", Type: dt, Nullable: true, Metadata: meta}}, nil)
	o := &Options{Compression: c, Allocator: mem}
	if keyed {
		o.PrimaryKey = []string{"id"}
	}
	store := objstore.NewMemory()
	open := func() *Writer {
		w, err := Open(t.Context(), store, testShard, schema, o)
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	w := open()
	defer func() { w.Abort() }()
	want := make(map[int64]typed)
	defer func() {
		for _, v := range want {
			v.values.Release()
		}
	}()
	for b, cut := range [][2]int64{{0, 40}, {3, 30}, {39, 40}, {8, 8}, {0, 0}, {7, 9}, {0, 300}} {
		first := int64(b) * 1000
		rec := typedBatch(mem, schema, r, first, cut[0], cut[1])
		for row := range int(rec.NumRows()) {
			rec.Column(1).Retain()
			want[first+cut[0]+int64(row)] = typed{rec.Column(1), row, valueText(t, rec.Column(1), row)}
		}
		_, err := w.PutAsync(t.Context(), rec)
		rec.Release()
		if err != nil {
			t.Fatalf("put rows %v: %v", cut, err)
		}
	}
	if keyed {
		if err := w.Delete(t.Context(), keysOf(t, 5, 1005, 77)); err != nil {
			t.Fatal(err)
		}
		for _, id := range []int64{5, 1005} {
			want[id].values.Release()
			delete(want, id)
		}
	}
	if err := w.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		for _, size := range []int64{0, 7} {
			checkTyped(t, w, schema, want, ScanOptions{BatchRows: size})
		}
		if keyed {
			s := mustSnapshot(t, w.Snapshot)
			row, err := s.Lookup(t.Context(), int64(1010))
			if err != nil || row.Presence != Present {
				t.Fatalf("look up: %v, %v", row.Presence, err)
			}
			if got := valueText(t, row.Column(1), row.Index); got != want[1010].text {
				t.Errorf("look up: %s, want %s", got, want[1010].text)
			}
			s.Close()
		}
		mustClose(t, w)
		w = open()
	}
	mustClose(t, w)
}
