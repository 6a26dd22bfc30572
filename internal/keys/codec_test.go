package keys

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

func bindAll(t testing.TB, rec arrow.RecordBatch, nullable bool) *Codec {
	t.Helper()
	cols := make([]int, rec.NumCols())
	for i := range cols {
		cols[i] = i
	}
	c, err := Bind(rec.Schema(), cols, nullable)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func sign(n int) int { return min(1, max(-1, n)) }

// checkOrder compares everything that the codec says about two rows with want.
func checkOrder(t *testing.T, c *Codec, a arrow.RecordBatch, i int, b arrow.RecordBatch, j, want int) {
	t.Helper()
	x, y := c.AppendRow(nil, a, i), c.AppendRow(nil, b, j)
	if got := bytes.Compare(x, y); got != want {
		t.Fatalf("bytes.Compare(%x, %x) = %d, want %d", x, y, got, want)
	}
	if got := sign(c.Compare(a, i, b, j)); got != want {
		t.Fatalf("Compare = %d, want %d (%x, %x)", got, want, x, y)
	}
	if got := sign(c.CompareKey(x, b, j)); got != want {
		t.Fatalf("CompareKey = %d, want %d (%x, %x)", got, want, x, y)
	}
	if want != 0 && (bytes.HasPrefix(x, y) || bytes.HasPrefix(y, x)) {
		t.Fatalf("one key is a prefix of the other: %x, %x", x, y)
	}
	hx, hy := c.Head(x), c.Head(y)
	switch {
	case hx.Null != hy.Null:
		if hx.Null != (want < 0) {
			t.Fatalf("null heads out of order: %+v, %+v, want %d", hx, hy, want)
		}
	case hx.Word != hy.Word:
		if (hx.Word < hy.Word) != (want < 0) {
			t.Fatalf("heads out of order: %+v, %+v, want %d", hx, hy, want)
		}
	case hx.Complete || hy.Complete:
		if want != 0 {
			t.Fatalf("equal complete heads of different keys: %x, %x", x, y)
		}
	}
}

// TestOrder: for every type, alone and in pairs with every other, keys compare
// like the values.
func TestOrder(t *testing.T) {
	list := samples()
	for si, s := range list {
		for _, nulls := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/nulls=%t", s.typ, nulls), func(t *testing.T) {
				r := rand.New(rand.NewPCG(uint64(si), 7))
				const n = 60
				first, vals := columnOf(t, s, r, n, nulls)
				single := recordOf(t, first)
				c := bindAll(t, single, nulls)
				for i := range n {
					for j := range n {
						checkOrder(t, c, single, i, single, j, sign(compareNullable(s, vals[i], vals[j])))
					}
				}
				checkWords(t, c, single)

				// A few values only, so that the second column decides often.
				for k, s2 := range list {
					r := rand.New(rand.NewPCG(uint64(si), uint64(k)))
					few := s
					pool := []any{s.value(r), s.value(r), s.value(r)}
					few.value = func(r *rand.Rand) any { return pick(r, pool...) }
					a, va := columnOf(t, few, r, 24, nulls)
					b, vb := columnOf(t, s2, r, 24, nulls)
					rec := recordOf(t, a, b)
					c := bindAll(t, rec, nulls)
					for i := range 24 {
						for j := range 24 {
							want := sign(compareNullable(s, va[i], va[j]))
							if want == 0 {
								want = sign(compareNullable(s2, vb[i], vb[j]))
							}
							checkOrder(t, c, rec, i, rec, j, want)
						}
						// The first column's key: equal to it in the rows that have it.
						prefix, err := c.AppendPrefix(nil, []any{goValueOf(s, va[i])})
						if err != nil {
							t.Fatal(err)
						}
						for j := range 24 {
							want := sign(compareNullable(s, va[i], va[j]))
							if got := sign(c.CompareKey(prefix, rec, j)); got != want {
								t.Fatalf("CompareKey of a prefix = %d, want %d", got, want)
							}
							if got := bytes.HasPrefix(c.AppendRow(nil, rec, j), prefix); got != (want == 0) {
								t.Fatalf("HasPrefix = %t, want %t", got, want == 0)
							}
						}
					}
					checkWords(t, c, rec)
				}
			})
		}
	}
}

func checkWords(t *testing.T, c *Codec, rec arrow.RecordBatch) {
	t.Helper()
	if !c.Fixed() {
		return
	}
	words := c.Words(nil, rec)
	for row := range int(rec.NumRows()) {
		h := c.Head(c.AppendRow(nil, rec, row))
		if !h.Complete {
			t.Fatalf("row %d of a fixed codec has an incomplete head", row)
		}
		if got := c.Word(rec, row); got != h.Word {
			t.Fatalf("Word = %x, want %x", got, h.Word)
		}
		if lead := c.nullable && c.LeadNull(rec, row); lead != h.Null {
			t.Fatalf("LeadNull = %t, want %t", lead, h.Null)
		}
		if h.Null && !c.MayLeadNull(rec) {
			t.Fatal("MayLeadNull is false beside a null")
		}
		if !h.Null && words[row] != h.Word {
			t.Fatalf("Words[%d] = %x, want %x", row, words[row], h.Word)
		}
	}
}

// TestValuesEqualRows: a key from Go values is the key of the row that has them.
func TestValuesEqualRows(t *testing.T) {
	for si, s := range samples() {
		r := rand.New(rand.NewPCG(uint64(si), 3))
		arr, vals := columnOf(t, s, r, 200, true)
		rec := recordOf(t, arr)
		c := bindAll(t, rec, true)
		for i, v := range vals {
			want := c.AppendRow(nil, rec, i)
			got, err := c.AppendValues([]byte("kept"), []any{goValueOf(s, v)})
			if err != nil {
				t.Fatalf("%s: %v", s.typ, err)
			}
			if string(got) != "kept"+string(want) {
				t.Fatalf("%s: value %v: %x, row: %x", s.typ, v, got[4:], want)
			}
		}
	}
}

// TestValueAt: the Go value of a cell makes the key of the cell, for every type.
func TestValueAt(t *testing.T) {
	for si, s := range samples() {
		r := rand.New(rand.NewPCG(uint64(si), 4))
		arr, _ := columnOf(t, s, r, 200, true)
		rec := recordOf(t, arr)
		c := bindAll(t, rec, true)
		for i := range arr.Len() {
			v := ValueAt(arr, i)
			if (v == nil) != arr.IsNull(i) {
				t.Fatalf("%s: %v for a cell that is null: %t", s.typ, v, arr.IsNull(i))
			}
			got, err := c.AppendValues(nil, []any{v})
			if want := c.AppendRow(nil, rec, i); err != nil || string(got) != string(want) {
				t.Fatalf("%s: %T %v: %x %v, row: %x", s.typ, v, v, got, err, want)
			}
		}
	}
}

// TestNullInsideDictionary: a valid index may point to a null value.
func TestNullInsideDictionary(t *testing.T) {
	vb := array.NewStringBuilder(memory.DefaultAllocator)
	vb.Append("x")
	vb.AppendNull()
	values := vb.NewArray()
	ib := array.NewInt8Builder(memory.DefaultAllocator)
	ib.AppendValues([]int8{1, 0, 1}, []bool{true, true, false})
	indices := ib.NewArray()
	dt := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}
	arr := array.NewDictionaryArray(dt, indices, values)
	rec := recordOf(t, arr)
	c := bindAll(t, rec, true)
	for row, want := range []bool{true, false, true} {
		if got := LeadsNull(c.AppendRow(nil, rec, row)); got != want {
			t.Errorf("row %d: null = %t, want %t", row, got, want)
		}
	}
	if err := bindAll(t, rec, false).Check(rec); !errors.Is(err, ErrInvalid) {
		t.Errorf("Check of a key with a null dictionary value: %v", err)
	}
}

// TestC01RefusedTypes: what has no total order is refused with name, type and
// expectation, all columns at once.
func TestC01RefusedTypes(t *testing.T) {
	refused := []arrow.DataType{
		arrow.Null,
		arrow.ListOf(arrow.PrimitiveTypes.Int64),
		arrow.LargeListOf(arrow.PrimitiveTypes.Int64),
		arrow.ListViewOf(arrow.PrimitiveTypes.Int64),
		arrow.FixedSizeListOf(2, arrow.PrimitiveTypes.Float32),
		arrow.StructOf(arrow.Field{Name: "x", Type: arrow.PrimitiveTypes.Int64}),
		arrow.MapOf(arrow.BinaryTypes.String, arrow.BinaryTypes.String),
		arrow.SparseUnionOf(nil, nil),
		arrow.DenseUnionOf(nil, nil),
		arrow.FixedWidthTypes.DayTimeInterval,
		arrow.FixedWidthTypes.MonthDayNanoInterval,
		arrow.RunEndEncodedOf(arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Int64),
		&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.ListOf(arrow.PrimitiveTypes.Int8)},
	}
	var fields []arrow.Field
	var at []int
	for i, dt := range refused {
		fields = append(fields, arrow.Field{Name: fmt.Sprintf("column%d", i), Type: dt})
		at = append(at, i)
	}
	_, err := Bind(arrow.NewSchema(fields, nil), at, false)
	if !errors.Is(err, ErrInvalid) {
		t.Fatalf("Bind: %v, want ErrInvalid", err)
	}
	for _, f := range fields {
		for _, part := range []string{fmt.Sprintf("%q", f.Name), f.Type.String(), "total order"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("error does not mention %s: %v", part, err)
			}
		}
	}
	if _, err := Bind(arrow.NewSchema(nil, nil), nil, false); !errors.Is(err, ErrInvalid) {
		t.Errorf("Bind of no columns: %v", err)
	}
}

// TestEncodingIsStable: keys are stored, so these bytes never change.
func TestEncodingIsStable(t *testing.T) {
	sc := func(dt arrow.DataType) *arrow.Schema {
		return arrow.NewSchema([]arrow.Field{{Name: "k", Type: dt}}, nil)
	}
	for _, c := range []struct {
		typ      arrow.DataType
		nullable bool
		value    any
		want     string
	}{
		{arrow.FixedWidthTypes.Boolean, false, true, "01"},
		{arrow.PrimitiveTypes.Int8, false, -1, "7f"},
		{arrow.PrimitiveTypes.Int16, false, 1, "8001"},
		{arrow.PrimitiveTypes.Int32, false, math.MinInt32, "00000000"},
		{arrow.PrimitiveTypes.Int64, false, 5, "8000000000000005"},
		{arrow.PrimitiveTypes.Int64, true, 5, "018000000000000005"},
		{arrow.PrimitiveTypes.Int64, true, nil, "00"},
		{arrow.PrimitiveTypes.Uint32, false, 7, "00000007"},
		{arrow.PrimitiveTypes.Float64, false, 1.0, "bff0000000000000"},
		{arrow.PrimitiveTypes.Float64, false, -1.0, "400fffffffffffff"},
		{arrow.PrimitiveTypes.Float64, false, math.Copysign(0, -1), "8000000000000000"},
		{arrow.PrimitiveTypes.Float64, false, -math.NaN(), "fff8000000000000"},
		{arrow.PrimitiveTypes.Float32, false, math.NaN(), "ffc00000"},
		{arrow.FixedWidthTypes.Float16, false, math.NaN(), "fe00"},
		{arrow.BinaryTypes.String, false, "a\x00b", "6100ff620001"},
		{arrow.BinaryTypes.String, false, "", "0001"},
		{arrow.BinaryTypes.String, true, "", "010001"},
		{&arrow.FixedSizeBinaryType{ByteWidth: 2}, false, []byte{0, 1}, "0001"},
		{&arrow.Decimal128Type{Precision: 10, Scale: 2}, false, "-0.01", "7fffffffffffffffffffffffffffffff"},
		{&arrow.Decimal256Type{Precision: 50, Scale: 0}, false, 1, "80" + strings.Repeat("00", 30) + "01"},
	} {
		codec, err := Bind(sc(c.typ), []int{0}, c.nullable)
		if err != nil {
			t.Fatal(err)
		}
		got, err := codec.AppendValues(nil, []any{c.value})
		if err != nil || hex.EncodeToString(got) != c.want {
			t.Errorf("%s %v: %x, %v; want %s", c.typ, c.value, got, err, c.want)
		}
	}
}

func TestCheck(t *testing.T) {
	build := func(vals ...any) arrow.RecordBatch {
		b := array.NewStringBuilder(memory.DefaultAllocator)
		for _, v := range vals {
			if v == nil {
				b.AppendNull()
			} else {
				b.Append(v.(string))
			}
		}
		return recordOf(t, b.NewArray())
	}
	long := strings.Repeat("x", MaxBytes-2)
	escaped := strings.Repeat("\x00", (MaxBytes-2)/2)
	for _, c := range []struct {
		name     string
		rec      arrow.RecordBatch
		nullable bool
		row      int // -1: fine
	}{
		{"fine", build("a", ""), false, -1},
		{"null in a key", build("a", nil, nil), false, 1},
		{"null allowed", build("a", nil), true, -1},
		{"longest", build(long), false, -1},
		{"too long", build("a", "b", long+"x"), false, 2},
		{"longest with a marker", build(long[1:]), true, -1},
		{"too long with a marker", build(long), true, 0},
		{"longest escaped", build(escaped), false, -1},
		{"too long escaped", build(escaped + "\x00"), false, 0},
		{"empty", build(), false, -1},
	} {
		codec := bindAll(t, c.rec, c.nullable)
		err := codec.Check(c.rec)
		if c.row < 0 {
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		re, ok := errors.AsType[*RowError](err)
		if !ok || re.Row != c.row || re.Column != "c" || !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v, want a *RowError for row %d", c.name, err, c.row)
		}
	}
}

func FuzzCompositeText(f *testing.F) {
	f.Add([]byte("a"), []byte("b"), []byte("a\x00"), []byte("\x01b"), true)
	f.Add([]byte("\x00\xff"), []byte(""), []byte("\x00"), []byte("\xff"), false)
	f.Add([]byte(""), []byte("\x00\x01"), []byte("\x00\x01"), []byte(""), true)
	f.Fuzz(func(t *testing.T, a, b, c, d []byte, nullable bool) {
		first, second := array.NewBinaryBuilder(memory.DefaultAllocator, arrow.BinaryTypes.Binary), array.NewBinaryBuilder(memory.DefaultAllocator, arrow.BinaryTypes.Binary)
		first.AppendValues([][]byte{a, c}, nil)
		second.AppendValues([][]byte{b, d}, nil)
		rec := recordOf(t, first.NewArray(), second.NewArray())
		want := bytes.Compare(a, c)
		if want == 0 {
			want = bytes.Compare(b, d)
		}
		checkOrder(t, bindAll(t, rec, nullable), rec, 0, rec, 1, want)
	})
}

func FuzzFloat(f *testing.F) {
	f.Add(uint64(0), uint64(1)<<63)
	f.Add(math.Float64bits(math.NaN()), math.Float64bits(math.Inf(1)))
	f.Fuzz(func(t *testing.T, a, b uint64) {
		x, y := math.Float64frombits(a), math.Float64frombits(b)
		s := float[float64](arrow.PrimitiveTypes.Float64, nil, nil)
		bld := array.NewFloat64Builder(memory.DefaultAllocator)
		bld.AppendValues([]float64{x, y}, nil)
		rec := recordOf(t, bld.NewArray())
		checkOrder(t, bindAll(t, rec, false), rec, 0, rec, 1, sign(s.compare(x, y)))
	})
}
