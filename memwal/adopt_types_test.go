package memwal

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// lanceTypes is the schema of the log in testdata/lance-types.
func lanceTypes() *arrow.Schema {
	opt := func(name string, dt arrow.DataType) arrow.Field {
		return arrow.Field{Name: name, Type: dt, Nullable: true}
	}
	return arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64}, opt("rev", arrow.PrimitiveTypes.Int32),
		opt("i8", arrow.PrimitiveTypes.Int8), opt("i16", arrow.PrimitiveTypes.Int16), opt("u32", arrow.PrimitiveTypes.Uint32),
		opt("u64", arrow.PrimitiveTypes.Uint64), opt("f32", arrow.PrimitiveTypes.Float32), opt("flag", arrow.FixedWidthTypes.Boolean),
		opt("us", &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}), opt("ns", &arrow.TimestampType{Unit: arrow.Nanosecond}),
		opt("day", arrow.FixedWidthTypes.Date32), opt("tm", arrow.FixedWidthTypes.Time64us), opt("dur", arrow.FixedWidthTypes.Duration_ms),
		opt("dec", &arrow.Decimal128Type{Precision: 10, Scale: 2}), opt("text", arrow.BinaryTypes.String), opt("bin", arrow.BinaryTypes.Binary),
		opt("fsb", &arrow.FixedSizeBinaryType{ByteWidth: 3}), opt("tags", arrow.ListOf(arrow.BinaryTypes.String)),
		opt("vec", arrow.FixedSizeListOf(4, arrow.PrimitiveTypes.Float32)),
		opt("st", arrow.StructOf(opt("a", arrow.PrimitiveTypes.Int32), opt("b", arrow.BinaryTypes.String))),
		opt("points", arrow.ListOf(arrow.StructOf(opt("x", arrow.PrimitiveTypes.Float64)))),
		opt("color", &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int32, ValueType: arrow.BinaryTypes.String}),
	}, nil)
}

// lanceTypesWant builds the rows with the given ids, as make.mjs has them.
func lanceTypesWant(t testing.TB, rev func(id int64) int32, ids ...int64) arrow.RecordBatch {
	t.Helper()
	s := lanceTypes()
	b := array.NewRecordBuilder(memory.DefaultAllocator, s)
	defer b.Release()
	at := func(name string) array.Builder { return b.Field(s.FieldIndices(name)[0]) }
	for _, i := range ids {
		at("id").(*array.Int64Builder).Append(i)
		at("rev").(*array.Int32Builder).Append(rev(i))
		at("i8").(*array.Int8Builder).Append(int8(i%100 - 50))
		at("i16").(*array.Int16Builder).Append(int16(i*3 - 1000))
		at("u32").(*array.Uint32Builder).Append(uint32(4000000000 + i))
		at("u64").(*array.Uint64Builder).Append(1<<63 + uint64(i))
		at("f32").(*array.Float32Builder).Append(float32(i) / 2)
		orNull(at("flag"), i%5 == 4, func(b array.Builder) { b.(*array.BooleanBuilder).Append(i%2 == 0) })
		at("us").(*array.TimestampBuilder).Append(arrow.Timestamp(1700000000000000 + i*1001))
		at("ns").(*array.TimestampBuilder).Append(arrow.Timestamp(1700000000000000000 + i))
		at("day").(*array.Date32Builder).Append(arrow.Date32(19000 + i))
		at("tm").(*array.Time64Builder).Append(arrow.Time64(i * 1000003 % 86400000000))
		at("dur").(*array.DurationBuilder).Append(arrow.Duration(i * 5))
		at("dec").(*array.Decimal128Builder).Append(decimal128.FromI64(i*100 + 7))
		orNull(at("text"), i%10 == 9, func(b array.Builder) { b.(*array.StringBuilder).Append(fmt.Sprint("Zeile über ", i)) })
		orNull(at("bin"), i%8 == 7, func(b array.Builder) { b.(*array.BinaryBuilder).Append([]byte{byte(i), 0, 255}) })
		at("fsb").(*array.FixedSizeBinaryBuilder).Append([]byte{byte(i), 1, 2})
		orNull(at("tags"), i%7 == 6, func(b array.Builder) {
			l := b.(*array.ListBuilder)
			l.Append(true)
			for k := range i % 4 {
				orNull(l.ValueBuilder(), k == 2, func(b array.Builder) { b.(*array.StringBuilder).Append(fmt.Sprintf("t%d-%d", k, i)) })
			}
		})
		vec := at("vec").(*array.FixedSizeListBuilder)
		vec.Append(true)
		for k := range 4 {
			vec.ValueBuilder().(*array.Float32Builder).Append(float32(i) + float32(k)/4)
		}
		orNull(at("st"), i%6 == 5, func(b array.Builder) {
			st := b.(*array.StructBuilder)
			st.Append(true)
			orNull(st.FieldBuilder(0), i%4 == 3, func(b array.Builder) { b.(*array.Int32Builder).Append(int32(i)) })
			st.FieldBuilder(1).(*array.StringBuilder).Append(fmt.Sprint("b", i))
		})
		points := at("points").(*array.ListBuilder)
		points.Append(true)
		for k := range i % 3 {
			p := points.ValueBuilder().(*array.StructBuilder)
			p.Append(true)
			p.FieldBuilder(0).(*array.Float64Builder).Append(float64(i) + float64(k)/4)
		}
		orNull(at("color"), i%9 == 8, func(b array.Builder) {
			if err := b.(*array.BinaryDictionaryBuilder).AppendString([]string{"red", "green", "blue"}[i%3]); err != nil {
				t.Fatal(err)
			}
		})
	}
	rec := b.NewRecordBatch()
	t.Cleanup(rec.Release)
	return rec
}

func orNull(b array.Builder, null bool, value func(array.Builder)) {
	if null {
		b.AppendNull()
		return
	}
	value(b)
}

func textRows(rec arrow.RecordBatch) []string {
	var out []string
	for i := range int(rec.NumRows()) {
		var cells []string
		for _, c := range rec.Columns() {
			cells = append(cells, cell(c, i))
		}
		out = append(out, strings.Join(cells, "|"))
	}
	return out
}

// Every type that LanceDB's Node package can write, nested ones and dictionaries
// among them, value by value; then the same from memwal's own puts.
func TestAdoptTypes(t *testing.T) {
	store := fixture(t, "lance-types")
	spec := specOf(t, store, lanceTypes())
	var ids []int64
	for i := range int64(24) {
		ids = append(ids, i)
	}
	rev := func(id int64) int32 {
		switch {
		case id%3 == 0:
			return 3
		case id < 3 || id >= 12:
			return 2
		}
		return 1
	}
	want := textRows(lanceTypesWant(t, rev, ids...))
	w := openAs(t, store, lanceTypes(), adopting(nil))
	checkSame(t, "adopted", byKey(t, w), want)
	checkSame(t, "the specification's reader", spec.replay(), want)
	if got := w.Stats().Accepted; got != 12+15+8 {
		t.Errorf("%d rows in history, want 35", got)
	}
	ours := func(int64) int32 { return 4 }
	mustPut(t, w, lanceTypesWant(t, ours, ids...))
	if err := w.Delete(t.Context(), keysOf(t, 7)); err != nil {
		t.Fatal(err)
	}
	mustClose(t, w)
	want = textRows(lanceTypesWant(t, ours, slices.Delete(slices.Clone(ids), 7, 8)...))
	checkSame(t, "the specification's reader, ours", spec.replay(), want)
	w = openAs(t, store, lanceTypes(), &Options{PrimaryKey: []string{"id"}})
	checkSame(t, "opened again", byKey(t, w), want)
}
