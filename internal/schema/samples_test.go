package schema

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// degrees is an extension type with a parameter. Tests register it or not.
type degrees struct {
	arrow.ExtensionBase
	unit string
}

type degreesArray struct{ array.ExtensionArrayBase }

func (a *degreesArray) ValueStr(i int) string { return a.Storage().ValueStr(i) }

func newDegrees(unit string) *degrees {
	return &degrees{ExtensionBase: arrow.ExtensionBase{Storage: arrow.PrimitiveTypes.Float64}, unit: unit}
}

func (d *degrees) ArrayType() reflect.Type { return reflect.TypeFor[degreesArray]() }
func (d *degrees) ExtensionName() string   { return "memwal.test.degrees" }
func (d *degrees) Serialize() string       { return d.unit }
func (d *degrees) ExtensionEquals(o arrow.ExtensionType) bool {
	other, ok := o.(*degrees)
	return ok && other.unit == d.unit
}
func (d *degrees) Deserialize(st arrow.DataType, data string) (arrow.ExtensionType, error) {
	if st.ID() != arrow.FLOAT64 {
		return nil, fmt.Errorf("storage %s", st)
	}
	return newDegrees(data), nil
}

func req(name string, dt arrow.DataType) arrow.Field { return arrow.Field{Name: name, Type: dt} }
func opt(name string, dt arrow.DataType) arrow.Field {
	return arrow.Field{Name: name, Type: dt, Nullable: true}
}

// sampleTypes has every layout, and nestings of each.
func sampleTypes() []arrow.DataType {
	str, i64 := arrow.BinaryTypes.String, arrow.PrimitiveTypes.Int64
	dict := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: str}
	union := []arrow.Field{opt("s", str), opt("n", i64)}
	inner := arrow.StructOf(opt("a", str), opt("b", arrow.ListOf(i64)), opt("c", arrow.FixedWidthTypes.Boolean))
	return []arrow.DataType{
		arrow.Null, arrow.FixedWidthTypes.Boolean,
		arrow.PrimitiveTypes.Int8, arrow.PrimitiveTypes.Uint16, arrow.PrimitiveTypes.Int32, i64,
		arrow.PrimitiveTypes.Float32, arrow.PrimitiveTypes.Float64, arrow.FixedWidthTypes.Float16,
		&arrow.Decimal128Type{Precision: 10, Scale: 2}, &arrow.Decimal256Type{Precision: 40, Scale: 2},
		&arrow.FixedSizeBinaryType{ByteWidth: 5},
		arrow.FixedWidthTypes.Date32, arrow.FixedWidthTypes.Timestamp_us, arrow.FixedWidthTypes.MonthDayNanoInterval,
		str, arrow.BinaryTypes.Binary, arrow.BinaryTypes.LargeString, arrow.BinaryTypes.LargeBinary,
		arrow.BinaryTypes.StringView, arrow.BinaryTypes.BinaryView,
		arrow.ListOf(str), arrow.LargeListOf(arrow.BinaryTypes.StringView), arrow.ListOf(arrow.ListOf(i64)),
		arrow.ListViewOf(str), arrow.LargeListViewOf(i64),
		arrow.FixedSizeListOf(3, arrow.PrimitiveTypes.Float32), arrow.FixedSizeListOfNonNullable(3, arrow.PrimitiveTypes.Float32),
		arrow.FixedSizeListOf(2, arrow.FixedSizeListOf(2, str)),
		arrow.MapOf(str, i64), inner, arrow.StructOf(opt("x", inner)), arrow.ListOf(inner),
		arrow.SparseUnionOf(union, []arrow.UnionTypeCode{3, 7}), arrow.DenseUnionOf(union, []arrow.UnionTypeCode{3, 7}),
		arrow.ListOf(arrow.DenseUnionOf(union, []arrow.UnionTypeCode{0, 1})),
		arrow.StructOf(opt("u", arrow.SparseUnionOf(union, []arrow.UnionTypeCode{0, 1}))),
		dict, arrow.ListOf(dict), arrow.StructOf(opt("d", dict)),
		arrow.RunEndEncodedOf(arrow.PrimitiveTypes.Int16, str), arrow.RunEndEncodedOf(arrow.PrimitiveTypes.Int32, i64),
		arrow.RunEndEncodedOf(arrow.PrimitiveTypes.Int64, inner),
		newDegrees("C"), arrow.ListOf(newDegrees("C")),
	}
}

// sample returns n random values of a type, about a fifth of them null.
func sample(mem memory.Allocator, dt arrow.DataType, r *rand.Rand, n int, nulls bool) arrow.Array {
	b := array.NewBuilder(mem, dt)
	defer b.Release()
	fill(b, r, n, nulls)
	return b.NewArray()
}

func fill(b array.Builder, r *rand.Rand, n int, nulls bool) {
	for range n {
		if nulls && r.IntN(5) == 0 {
			b.AppendNull()
			continue
		}
		fillOne(b, r, nulls)
	}
}

func fillOne(b array.Builder, r *rand.Rand, nulls bool) {
	text := strings.Repeat(strconv.Itoa(r.IntN(100)), r.IntN(12))
	switch b := b.(type) {
	case *array.NullBuilder:
		b.AppendNull()
	case *array.BooleanBuilder:
		b.Append(r.IntN(2) == 0)
	case *array.Date32Builder:
		b.Append(arrow.Date32(r.IntN(1000)))
	case *array.TimestampBuilder:
		b.Append(arrow.Timestamp(r.IntN(1000)))
	case *array.MonthDayNanoIntervalBuilder:
		b.Append(arrow.MonthDayNanoInterval{Months: int32(r.IntN(9))})
	case *array.FixedSizeBinaryBuilder:
		b.Append([]byte(strconv.Itoa(10000 + r.IntN(9999))))
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
		k := r.IntN(4)
		fill(b.KeyBuilder(), r, k, false)
		fill(b.ItemBuilder(), r, k, nulls)
	case *array.FixedSizeListBuilder:
		t := b.Type().(*arrow.FixedSizeListType)
		b.Append(true)
		fill(b.ValueBuilder(), r, int(t.Len()), nulls && t.ElemField().Nullable)
	case array.VarLenListLikeBuilder:
		k := r.IntN(4)
		b.AppendWithSize(true, k)
		fill(b.ValueBuilder(), r, k, nulls)
	case *array.StructBuilder:
		b.Append(true)
		for i := range b.NumField() {
			fill(b.FieldBuilder(i), r, 1, nulls)
		}
	case array.UnionBuilder:
		codes := b.Type().(arrow.UnionType).TypeCodes()
		pick := r.IntN(len(codes))
		b.Append(codes[pick])
		fill(b.Child(pick), r, 1, nulls)
		if b.Mode() == arrow.SparseMode {
			b.Child(1 - pick).AppendEmptyValue()
		}
	case *array.RunEndEncodedBuilder:
		b.Append(1 + r.Uint64N(3)) // so there are n values and more rows
		fill(b.ValueBuilder(), r, 1, nulls)
	case *array.ExtensionBuilder:
		fill(b.StorageBuilder(), r, 1, nulls)
	default:
		if err := b.AppendValueFromString(strconv.Itoa(r.IntN(100))); err != nil {
			panic(err)
		}
	}
}

// eachSample calls f with samples of every type: whole, sliced and empty, with and
// without nulls.
func eachSample(t *testing.T, f func(t *testing.T, mem *memory.CheckedAllocator, arr arrow.Array)) {
	for _, dt := range sampleTypes() {
		t.Run(strings.ReplaceAll(dt.String(), "/", "|"), func(t *testing.T) {
			for _, nulls := range []bool{true, false} {
				for _, cut := range [][2]int64{{0, 40}, {0, 13}, {9, 30}, {39, 40}, {40, 40}, {8, 8}} {
					mem := memory.NewCheckedAllocator(memory.DefaultAllocator)
					r := rand.New(rand.NewPCG(1, uint64(cut[0])))
					whole := sample(mem, dt, r, 40, nulls)
					outer := array.NewSlice(whole, 0, 40) // a slice of a slice has unknown nulls
					arr := array.NewSlice(outer, cut[0], cut[1])
					outer.Release()
					whole.Release()
					f(t, mem, arr)
					arr.Release()
					mem.AssertSize(t, 0)
				}
			}
		})
	}
}

func batch(fields []arrow.Field, cols ...arrow.Array) arrow.RecordBatch {
	return array.NewRecordBatch(arrow.NewSchema(fields, nil), cols, -1)
}

// fromJSON builds a batch of the fields from a JSON array of rows.
func fromJSON(t testing.TB, mem memory.Allocator, fields []arrow.Field, text string) arrow.RecordBatch {
	t.Helper()
	rec, _, err := array.RecordFromJSON(mem, arrow.NewSchema(fields, nil), strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

func toJSON(t testing.TB, rec arrow.RecordBatch) string {
	t.Helper()
	text, err := rec.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(strings.Fields(string(text)), "")
}

func testRand() *rand.Rand { return rand.New(rand.NewPCG(1, 1)) }
