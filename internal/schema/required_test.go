package schema

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// A null in a required field counts where its parent has a value, on every level;
// the row is the batch's.
func TestFindNull(t *testing.T) {
	point := arrow.StructOf(req("x", i64), opt("y", i64))
	line := arrow.StructOf(req("from", point), opt("to", point))
	tests := []struct {
		name string
		dt   arrow.DataType
		rows string
		row  int
		path string
	}{
		{"struct", point, `[{"x":1,"y":1},null,{"x":null,"y":2}]`, 2, ".x"},
		{"struct beneath null", point, `[{"x":1,"y":1},null]`, -1, ""},
		{"struct in struct", line, `[{"from":{"x":1,"y":1},"to":null},{"from":{"x":1,"y":1},"to":{"x":null,"y":1}}]`, 1, ".to.x"},
		{"struct in struct, parent missing", line, `[{"from":null,"to":null}]`, 0, ".from"},
		{"struct beneath two nulls", line, `[null,{"from":{"x":1,"y":1},"to":null}]`, -1, ""},
		{"list", arrow.ListOfNonNullable(i64), `[[1],[],null,[2,null]]`, 3, "[]"},
		{"list of lists", arrow.ListOf(arrow.ListOfNonNullable(i64)), `[[[1]],[null,[2]],[[3],[null]]]`, 2, "[][]"},
		{"list of structs", arrow.LargeListOf(point), `[[{"x":1,"y":1},null],null,[{"x":1,"y":1}],[{"x":1,"y":1},{"x":null,"y":1}]]`, 3, "[].x"},
		{"fixed list", arrow.FixedSizeListOfNonNullable(2, i64), `[[1,2],null,[3,null]]`, 2, "[]"},
		{"fixed list beneath null", arrow.FixedSizeListOfNonNullable(2, i64), `[[1,2],null,[3,4]]`, -1, ""},
		{"list view", arrow.ListViewOfNonNullable(i64), `[[1],[],null,[2,null]]`, 3, "[]"},
		{"map value", arrow.MapOfFields(req("key", arrow.BinaryTypes.String), req("value", i64)), `[[{"key":"a","value":1}],[{"key":"b","value":null}]]`, 1, "[].value"},
		{"nothing required", arrow.ListOf(i64), `[[null]]`, -1, ""},
	}
	for _, c := range tests {
		t.Run(c.name, func(t *testing.T) {
			mem := checked(t)
			built := c.dt
			if m, ok := c.dt.(*arrow.MapType); ok { // the builder refuses what is to be found
				built = arrow.MapOf(m.KeyType(), m.ItemType())
			}
			rec := fromJSON(t, mem, []arrow.Field{opt("v", built)}, wrap(c.rows))
			defer rec.Release()
			d := rec.Column(0).Data()
			if row, path := findNull(d, c.dt, 0, d.Len(), nil, false); row != c.row || path != c.path {
				t.Errorf("row %d, %q", row, path)
			}
			// The same of a slice, whose rows count from its start.
			part := rec.NewSlice(1, rec.NumRows())
			defer part.Release()
			pd := part.Column(0).Data()
			if row, path := findNull(pd, c.dt, 0, pd.Len(), nil, false); c.row != 0 && row != max(-1, c.row-1) || c.row == 0 && row != -1 {
				t.Errorf("in a slice: row %d, %q", row, path)
			}
		})
	}
}

// wrap makes rows of one column v of a JSON list of values.
func wrap(list string) string {
	out, depth, start := "[", 0, 1
	for i, r := range list {
		switch r {
		case '[', '{':
			depth++
		case ']', '}':
			depth--
		}
		if i > 0 && (depth == 1 && r == ',' || depth == 0) {
			if out != "[" {
				out += ","
			}
			out += `{"v":` + list[start:i] + "}"
			start = i + 1
		}
	}
	return out + "]"
}

// Nulls inside an encoding are nulls of the column.
func TestFindNullSeesThroughEncodings(t *testing.T) {
	nullable64 := func(v ...any) *array.Data {
		b := array.NewInt64Builder(memory.DefaultAllocator)
		for _, x := range v {
			if x == nil {
				b.AppendNull()
			} else {
				b.Append(int64(x.(int)))
			}
		}
		return b.NewArray().Data().(*array.Data)
	}
	b := func(bufs ...*memory.Buffer) []*memory.Buffer { return bufs }
	dict := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: i64}
	dictData := func(values *array.Data, index ...byte) *array.Data {
		d := dataOf(dict, len(index), 0, 0, b(nil, raw(index...)))
		d.SetDictionary(values)
		return d
	}
	fields := []arrow.Field{opt("a", i64), req("b", i64)}
	sparse, dense := arrow.SparseUnionOf(fields, []int8{0, 1}), arrow.DenseUnionOf(fields, []int8{0, 1})
	runs := arrow.RunEndEncodedOf(arrow.PrimitiveTypes.Int32, i64)
	ends := dataOf(arrow.PrimitiveTypes.Int32, 3, 0, 0, b(nil, bytes32(2, 5, 9)))
	offsetRuns := dataOf(runs, 6, 0, 3, b(nil), ends, nullable64(1, 2, nil))
	// Row 0 is null two levels up, row 1 one level up, row 2 has the field missing.
	leaf := dataOf(i64, 3, 3, 0, b(raw(0), bytes64(0, 0, 0)))
	inner := arrow.StructOf(req("c", i64))
	middle := dataOf(inner, 3, 1, 0, b(raw(0b101)), leaf)
	nested := dataOf(arrow.StructOf(opt("b", inner)), 3, 1, 0, b(raw(0b110)), middle)
	for _, c := range []struct {
		name     string
		d        *array.Data
		required bool
		row      int
		path     string
	}{
		{"nulls on two levels", nested, false, 2, ".b.c"},
		{"null type", dataOf(arrow.Null, 2, 2, 0, b(nil)), true, 0, ""},
		{"dictionary", dictData(nullable64(1, nil), 0, 0, 1), true, 2, ""},
		{"dictionary, null not used", dictData(nullable64(1, nil), 0, 0, 0), true, -1, ""},
		{"runs", dataOf(runs, 9, 0, 0, b(nil), ends, nullable64(1, nil, 3)), true, 2, ""},
		{"runs, from the start", dataOf(runs, 9, 0, 0, b(nil), ends, nullable64(nil, 1, 3)), true, 0, ""},
		{"runs, offset", offsetRuns, true, 2, ""},
		{"runs, null outside", dataOf(runs, 5, 0, 0, b(nil), ends, nullable64(1, 2, nil)), true, -1, ""},
		{"sparse", dataOf(sparse, 3, 0, 0, b(nil, raw(0, 1, 0)), nullable64(1, nil, nil), nullable64(nil, 1, nil)), true, 2, ""},
		{"dense", dataOf(dense, 3, 0, 0, b(nil, raw(0, 1, 0), bytes32(1, 0, 0)), nullable64(nil, 1), nullable64(1)), true, 2, ""},
		{"sparse child", dataOf(sparse, 3, 0, 0, b(nil, raw(0, 0, 1)), nullable64(1, nil, nil), nullable64(nil, nil, nil)), false, 2, ".b"},
		{"dense child", dataOf(dense, 3, 0, 0, b(nil, raw(0, 1, 1), bytes32(0, 1, 0)), nullable64(1), nullable64(nil, 1)), false, 2, ".b"},
	} {
		if err := check(c.d, c.d.DataType(), 0, c.d.Len()); err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if row, path := findNull(c.d, c.d.DataType(), 0, c.d.Len(), nil, c.required); row != c.row || path != c.path {
			t.Errorf("%s: row %d, %q", c.name, row, path)
		}
	}
}
