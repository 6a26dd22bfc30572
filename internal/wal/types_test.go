package wal

import (
	"fmt"
	"math"
	"strings"
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

// typeCase is a column type, and a builder's next value.
type typeCase struct {
	name  string
	dt    arrow.DataType
	add   func(b array.Builder, i int)
	joins bool // CoalesceRows must join it
}

func prim[B interface{ Append(T) }, T any](f func(i int) T) func(array.Builder, int) {
	return func(b array.Builder, i int) { any(b).(B).Append(f(i)) }
}

func text(i int) string {
	// Short and long values: views keep up to 12 bytes in place.
	return strings.Repeat(fmt.Sprintf("v%d·", i), 1+i%5)
}

func appendString(b array.Builder, i int) {
	b.(interface{ Append(string) }).Append(text(i))
}

func appendBytes(b array.Builder, i int) {
	b.(interface{ Append([]byte) }).Append([]byte(text(i)))
}

func typeCases() []typeCase {
	str, i64 := arrow.BinaryTypes.String, arrow.PrimitiveTypes.Int64
	dict := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: str}
	structOf := arrow.StructOf(
		arrow.Field{Name: "n", Type: i64, Nullable: true},
		arrow.Field{Name: "s", Type: str, Nullable: true},
		arrow.Field{Name: "l", Type: arrow.ListOf(i64), Nullable: true})
	addStruct := func(b array.Builder, i int) {
		sb := b.(*array.StructBuilder)
		sb.Append(true)
		addNullable(sb.FieldBuilder(0), i, prim[*array.Int64Builder](func(i int) int64 { return int64(i) }))
		addNullable(sb.FieldBuilder(1), i+1, appendString)
		addList(sb.FieldBuilder(2), i+2, prim[*array.Int64Builder](func(i int) int64 { return int64(i) }))
	}
	addInt := prim[*array.Int64Builder](func(i int) int64 { return int64(i) * 3 })
	listOf := func(add func(array.Builder, int)) func(array.Builder, int) {
		return func(b array.Builder, i int) { addList(b, i, add) }
	}
	cases := []typeCase{
		{name: "null", dt: arrow.Null, add: func(b array.Builder, _ int) { b.AppendNull() }},
		{name: "bool", dt: arrow.FixedWidthTypes.Boolean, add: prim[*array.BooleanBuilder](func(i int) bool { return i%3 == 0 }), joins: true},
		{name: "int8", dt: arrow.PrimitiveTypes.Int8, add: prim[*array.Int8Builder](func(i int) int8 { return int8(i) }), joins: true},
		{name: "int16", dt: arrow.PrimitiveTypes.Int16, add: prim[*array.Int16Builder](func(i int) int16 { return int16(-i) }), joins: true},
		{name: "int32", dt: arrow.PrimitiveTypes.Int32, add: prim[*array.Int32Builder](func(i int) int32 { return int32(i) }), joins: true},
		{name: "int64", dt: i64, add: addInt, joins: true},
		{name: "uint64", dt: arrow.PrimitiveTypes.Uint64, add: prim[*array.Uint64Builder](func(i int) uint64 { return math.MaxUint64 - uint64(i) }), joins: true},
		{name: "float16", dt: arrow.FixedWidthTypes.Float16, add: prim[*array.Float16Builder](func(i int) float16.Num { return float16.New(float32(i)) }), joins: true},
		{name: "float32", dt: arrow.PrimitiveTypes.Float32, add: prim[*array.Float32Builder](func(i int) float32 { return float32(i) / 3 }), joins: true},
		{name: "float64", dt: arrow.PrimitiveTypes.Float64, add: prim[*array.Float64Builder](func(i int) float64 { return float64(i) / 3 }), joins: true},
		{name: "decimal32", dt: &arrow.Decimal32Type{Precision: 9, Scale: 2}, add: prim[*array.Decimal32Builder](func(i int) decimal.Decimal32 { return decimal.Decimal32(i) }), joins: true},
		{name: "decimal64", dt: &arrow.Decimal64Type{Precision: 18, Scale: 2}, add: prim[*array.Decimal64Builder](func(i int) decimal.Decimal64 { return decimal.Decimal64(-i) }), joins: true},
		{name: "decimal128", dt: &arrow.Decimal128Type{Precision: 30, Scale: 4}, add: prim[*array.Decimal128Builder](func(i int) decimal128.Num { return decimal128.New(int64(i), uint64(i)) }), joins: true},
		{name: "decimal256", dt: &arrow.Decimal256Type{Precision: 60, Scale: 4}, add: prim[*array.Decimal256Builder](func(i int) decimal256.Num { return decimal256.New(1, 2, 3, uint64(i)) }), joins: true},
		{name: "date32", dt: arrow.FixedWidthTypes.Date32, add: prim[*array.Date32Builder](func(i int) arrow.Date32 { return arrow.Date32(i) }), joins: true},
		{name: "date64", dt: arrow.FixedWidthTypes.Date64, add: prim[*array.Date64Builder](func(i int) arrow.Date64 { return arrow.Date64(i) }), joins: true},
		{name: "time32", dt: arrow.FixedWidthTypes.Time32ms, add: prim[*array.Time32Builder](func(i int) arrow.Time32 { return arrow.Time32(i) }), joins: true},
		{name: "time64", dt: arrow.FixedWidthTypes.Time64ns, add: prim[*array.Time64Builder](func(i int) arrow.Time64 { return arrow.Time64(i) }), joins: true},
		{name: "timestamp", dt: &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "Europe/Paris"}, add: prim[*array.TimestampBuilder](func(i int) arrow.Timestamp { return arrow.Timestamp(i) }), joins: true},
		{name: "duration", dt: arrow.FixedWidthTypes.Duration_us, add: prim[*array.DurationBuilder](func(i int) arrow.Duration { return arrow.Duration(i) }), joins: true},
		{name: "months", dt: arrow.FixedWidthTypes.MonthInterval, add: prim[*array.MonthIntervalBuilder](func(i int) arrow.MonthInterval { return arrow.MonthInterval(i) }), joins: true},
		{name: "daytime", dt: arrow.FixedWidthTypes.DayTimeInterval, add: prim[*array.DayTimeIntervalBuilder](func(i int) arrow.DayTimeInterval { return arrow.DayTimeInterval{Days: int32(i)} }), joins: true},
		{name: "monthdaynano", dt: arrow.FixedWidthTypes.MonthDayNanoInterval, add: prim[*array.MonthDayNanoIntervalBuilder](func(i int) arrow.MonthDayNanoInterval {
			return arrow.MonthDayNanoInterval{Months: int32(i), Nanoseconds: int64(i)}
		}), joins: true},
		{name: "string", dt: str, add: appendString, joins: true},
		{name: "largestring", dt: arrow.BinaryTypes.LargeString, add: appendString, joins: true},
		{name: "binary", dt: arrow.BinaryTypes.Binary, add: appendBytes, joins: true},
		{name: "largebinary", dt: arrow.BinaryTypes.LargeBinary, add: appendBytes, joins: true},
		{name: "stringview", dt: arrow.BinaryTypes.StringView, add: appendString},
		{name: "binaryview", dt: arrow.BinaryTypes.BinaryView, add: appendBytes},
		{name: "fixedbinary", dt: &arrow.FixedSizeBinaryType{ByteWidth: 5}, add: prim[*array.FixedSizeBinaryBuilder](func(i int) []byte { return fmt.Appendf(nil, "%05d", i) }), joins: true},
		{name: "list", dt: arrow.ListOf(str), add: listOf(appendString), joins: true},
		{name: "largelist", dt: arrow.LargeListOf(i64), add: listOf(addInt), joins: true},
		{name: "listoflist", dt: arrow.ListOf(arrow.ListOf(i64)), add: listOf(listOf(addInt)), joins: true},
		{name: "listofstruct", dt: arrow.ListOf(structOf), add: listOf(addStruct), joins: true},
		{name: "listview", dt: arrow.ListViewOf(i64), add: addListView(addInt)},
		{name: "largelistview", dt: arrow.LargeListViewOf(str), add: addListView(appendString)},
		{name: "vector", dt: arrow.FixedSizeListOf(3, arrow.PrimitiveTypes.Float32), add: func(b array.Builder, i int) {
			lb := b.(*array.FixedSizeListBuilder)
			lb.Append(true)
			for k := range 3 {
				lb.ValueBuilder().(*array.Float32Builder).Append(float32(i + k))
			}
		}, joins: true},
		{name: "struct", dt: structOf, add: addStruct, joins: true},
		{name: "map", dt: arrow.MapOf(str, i64), add: func(b array.Builder, i int) {
			mb := b.(*array.MapBuilder)
			mb.Append(true)
			for k := range i % 3 {
				appendString(mb.KeyBuilder(), i+k)
				addNullable(mb.ItemBuilder(), k, addInt)
			}
		}},
		{name: "runs", dt: arrow.RunEndEncodedOf(arrow.PrimitiveTypes.Int32, str), add: func(b array.Builder, i int) {
			rb := b.(*array.RunEndEncodedBuilder)
			rb.Append(1)
			appendString(rb.ValueBuilder(), i)
		}},
		{name: "sparseunion", dt: arrow.SparseUnionOf([]arrow.Field{{Name: "n", Type: i64, Nullable: true}, {Name: "s", Type: str, Nullable: true}}, []arrow.UnionTypeCode{3, 7}), add: func(b array.Builder, i int) {
			ub := b.(*array.SparseUnionBuilder)
			if i%2 == 0 {
				ub.Append(3)
				addInt(ub.Child(0), i)
				ub.Child(1).AppendEmptyValue()
			} else {
				ub.Append(7)
				appendString(ub.Child(1), i)
				ub.Child(0).AppendEmptyValue()
			}
		}},
		{name: "denseunion", dt: arrow.DenseUnionOf([]arrow.Field{{Name: "n", Type: i64, Nullable: true}, {Name: "s", Type: str, Nullable: true}}, []arrow.UnionTypeCode{3, 7}), add: func(b array.Builder, i int) {
			ub := b.(*array.DenseUnionBuilder)
			if i%3 != 0 {
				ub.Append(3)
				addInt(ub.Child(0), i)
			} else {
				ub.Append(7)
				appendString(ub.Child(1), i)
			}
		}},
		{name: "dictionary", dt: dict, add: addDict},
		{name: "listofdictionary", dt: arrow.ListOf(dict), add: listOf(addDict)},
		{name: "structofdictionary", dt: arrow.StructOf(arrow.Field{Name: "d", Type: dict, Nullable: true}, arrow.Field{Name: "e", Type: dict, Nullable: true}), add: func(b array.Builder, i int) {
			sb := b.(*array.StructBuilder)
			sb.Append(true)
			addDict(sb.FieldBuilder(0), i)
			addDict(sb.FieldBuilder(1), i+1)
		}},
		{name: "uuid", dt: extensions.NewUUIDType(), add: func(b array.Builder, i int) {
			b.(*extensions.UUIDBuilder).AppendBytes([16]byte{byte(i), 1, 2})
		}},
	}
	return cases
}

func addDict(b array.Builder, i int) {
	if err := b.(*array.BinaryDictionaryBuilder).AppendString(text(i % 7)); err != nil {
		panic(err)
	}
}

// addNullable appends a null for every fourth number.
func addNullable(b array.Builder, i int, add func(array.Builder, int)) {
	if i%4 == 3 {
		b.AppendNull()
	} else {
		add(b, i)
	}
}

func addList(b array.Builder, i int, add func(array.Builder, int)) {
	lb := b.(array.ListLikeBuilder)
	if i%5 == 4 {
		lb.AppendNull()
		return
	}
	lb.Append(true)
	for k := range i % 4 {
		addNullable(lb.ValueBuilder(), i+k, add)
	}
}

func addListView(add func(array.Builder, int)) func(array.Builder, int) {
	return func(b array.Builder, i int) {
		lb := b.(array.VarLenListLikeBuilder)
		lb.AppendWithSize(true, i%4)
		for k := range i % 4 {
			addNullable(lb.ValueBuilder(), i+k, add)
		}
	}
}

// build makes an array of the rows [from, from+rows).
func (c typeCase) build(t testing.TB, mem memory.Allocator, from, rows int) arrow.Array {
	t.Helper()
	b := array.NewBuilder(mem, c.dt)
	defer b.Release()
	for i := range rows {
		n := from + i
		switch c.dt.ID() {
		case arrow.SPARSE_UNION, arrow.DENSE_UNION, arrow.RUN_END_ENCODED, arrow.NULL:
			c.add(b, n)
		default:
			if n%6 == 5 {
				b.AppendNull()
			} else {
				c.add(b, n)
			}
		}
	}
	return b.NewArray()
}

// show writes an array's values; two arrays that show the same hold the same.
func show(a arrow.Array) string {
	var b strings.Builder
	for i := range a.Len() {
		if u, ok := a.(array.Union); ok {
			fmt.Fprintf(&b, "%d:", u.TypeCode(i))
		}
		b.WriteString(a.ValueStr(i) + " | ")
	}
	return b.String()
}
