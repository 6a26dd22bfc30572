package schema

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

func bytes32(v ...int32) *memory.Buffer {
	return memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(v))
}
func bytes64(v ...int64) *memory.Buffer {
	return memory.NewBufferBytes(arrow.Int64Traits.CastToBytes(v))
}
func raw(b ...byte) *memory.Buffer { return memory.NewBufferBytes(b) }

func dataOf(dt arrow.DataType, n, nulls, offset int, bufs []*memory.Buffer, kids ...arrow.ArrayData) *array.Data {
	return array.NewData(dt, n, bufs, kids, nulls, offset)
}

func int64Data(n int) *array.Data {
	return dataOf(i64, n, 0, 0, []*memory.Buffer{nil, bytes64(make([]int64, n)...)})
}

func views(h ...arrow.ViewHeader) *memory.Buffer {
	return memory.NewBufferBytes(arrow.ViewHeaderTraits.CastToBytes(h))
}

func view(size int, at, off int32) arrow.ViewHeader {
	var h arrow.ViewHeader
	h.SetBytes(make([]byte, max(size, 0)))
	if size < 0 {
		b := arrow.ViewHeaderTraits.CastToBytes([]arrow.ViewHeader{h})
		arrow.Int32Traits.CastFromBytes(b)[0] = int32(size)
		return arrow.ViewHeaderTraits.CastFromBytes(b)[0]
	}
	if size > 12 {
		h.SetIndexOffset(at, off)
	}
	return h
}

// Everything that could make a later reader panic, or change values on the way
// through the IPC format, is found.
func TestCheckFindsDamage(t *testing.T) {
	list, view64 := arrow.ListOf(i64), arrow.LargeListViewOf(i64)
	dense := arrow.DenseUnionOf([]arrow.Field{opt("a", i64)}, []int8{5})
	sparse := arrow.SparseUnionOf([]arrow.Field{opt("a", i64)}, []int8{5})
	runs := arrow.RunEndEncodedOf(arrow.PrimitiveTypes.Int32, i64)
	dict := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: i64}
	withDict := func(d *array.Data, dict *array.Data) *array.Data { d.SetDictionary(dict); return d }
	ends := func(v ...int32) *array.Data {
		return dataOf(arrow.PrimitiveTypes.Int32, len(v), 0, 0, []*memory.Buffer{nil, bytes32(v...)})
	}
	b := func(bufs ...*memory.Buffer) []*memory.Buffer { return bufs }
	for _, c := range []struct {
		name string
		d    *array.Data
		want string
	}{
		{"short values", dataOf(i64, 2, 0, 1, b(nil, bytes64(1, 2))), "16 bytes in buffer 1 where 24"},
		{"no values", dataOf(i64, 2, 0, 0, b(nil, nil)), "0 bytes in buffer 1"},
		{"no buffers", dataOf(i64, 2, 0, 0, nil), "0 buffers where 2"},
		{"short bitmap", dataOf(i64, 9, 1, 0, b(raw(1), bytes64(make([]int64, 9)...))), "bitmap of 1 bytes for 9"},
		{"nulls without bitmap", dataOf(i64, 1, 1, 0, b(nil, bytes64(1))), "counts 1 nulls but has no validity"},
		{"nulls not counted", dataOf(i64, 2, 0, 0, b(raw(0b01), bytes64(1, 2))), "counts 0 nulls but its bitmap has 1"},
		{"nulls counted wrong", dataOf(i64, 2, 2, 0, b(raw(0b01), bytes64(1, 2))), "counts 2 nulls but its bitmap has 1"},
		{"empty bitmap", dataOf(i64, 2, -1, 0, b(raw(), bytes64(1, 2))), "empty validity"},
		{"bool", dataOf(arrow.FixedWidthTypes.Boolean, 9, 0, 0, b(nil, raw(1))), "1 bytes in buffer 1 where 2"},
		{"negative offset", dataOf(i64, 2, 0, -1, b(nil, bytes64(1, 2))), "at offset -1"},
		{"huge offset", dataOf(i64, 2, 0, math.MaxInt-1, b(nil, bytes64(1, 2))), "at offset"},
		{"text offsets missing", dataOf(text, 2, 0, 0, b(nil, bytes32(0, 0), nil)), "8 bytes in buffer 1 where 12"},
		{"text offsets descend", dataOf(text, 2, 0, 0, b(nil, bytes32(0, 2, 1), raw(1, 2))), "offsets that go back"},
		{"text offsets negative", dataOf(text, 1, 0, 0, b(nil, bytes32(-1, 1), raw(1, 2))), "offsets that go back"},
		{"text beyond", dataOf(text, 1, 0, 0, b(nil, bytes32(0, 3), raw(1, 2))), "beyond the 2 values"},
		{"large text beyond", dataOf(arrow.BinaryTypes.LargeString, 1, 0, 0, b(nil, bytes64(0, math.MaxInt64), raw(1, 2))), "beyond the 2"},
		{"view headers", dataOf(arrow.BinaryTypes.StringView, 2, 0, 0, b(nil, views(view(1, 0, 0)))), "16 bytes in buffer 1 where 32"},
		{"view size", dataOf(arrow.BinaryTypes.StringView, 1, 0, 0, b(nil, views(view(-1, 0, 0)))), "negative length in value 0"},
		{"view index", dataOf(arrow.BinaryTypes.StringView, 1, 0, 0, b(nil, views(view(13, 1, 0)), raw(make([]byte, 20)...))), "beyond its data"},
		{"view negative index", dataOf(arrow.BinaryTypes.StringView, 1, 0, 0, b(nil, views(view(13, -1, 0)), raw(make([]byte, 20)...))), "beyond its data"},
		{"view offset", dataOf(arrow.BinaryTypes.StringView, 2, 0, 0, b(nil, views(view(13, 0, 7), view(13, 0, 8)), raw(make([]byte, 20)...))), "beyond its data in value 1"},
		{"view data", dataOf(arrow.BinaryTypes.StringView, 1, 0, 0, b(nil, views(view(1, 0, 0)), nil)), "lacks data buffer 0"},
		{"list beyond", dataOf(list, 1, 0, 0, b(nil, bytes32(0, 3)), int64Data(2)), "beyond the 2 values"},
		{"list child", dataOf(list, 1, 0, 0, b(nil, bytes32(0, 2)), dataOf(i64, 2, 0, 0, b(nil, bytes64(1)))), "[]: has 8 bytes"},
		{"list without child", dataOf(list, 1, 0, 0, b(nil, bytes32(0, 2))), "has 0 children where 1"},
		{"list child type", dataOf(list, 1, 0, 0, b(nil, bytes32(0, 0)), dataOf(f64, 0, 0, 0, b(nil, nil))), "[]: holds float64 where the type says int64"},
		{"list view beyond", dataOf(view64, 1, 0, 0, b(nil, bytes64(1), bytes64(2)), int64Data(2)), "list view beyond its child in value 0"},
		{"list view overflow", dataOf(view64, 1, 0, 0, b(nil, bytes64(math.MaxInt64), bytes64(2)), int64Data(2)), "list view beyond"},
		{"list view sizes", dataOf(view64, 2, 0, 0, b(nil, bytes64(0, 0), bytes64(0)), int64Data(2)), "8 bytes in buffer 2 where 16"},
		{"fixed list", dataOf(arrow.FixedSizeListOf(3, i64), 2, 0, 0, b(nil), int64Data(5)), "[]: has 5 values at offset 0 where 6"},
		{"struct", dataOf(arrow.StructOf(opt("a", i64)), 3, 0, 1, b(nil), int64Data(3)), ".a: has 3 values at offset 0 where 4"},
		{"sparse code", dataOf(sparse, 1, 0, 0, b(nil, raw(4)), int64Data(1)), "unknown type code 4"},
		{"sparse negative code", dataOf(sparse, 1, 0, 0, b(nil, raw(0xff)), int64Data(1)), "unknown type code -1"},
		{"sparse child", dataOf(sparse, 2, 0, 0, b(nil, raw(5, 5)), int64Data(1)), ".a: has 1 values"},
		{"dense offset", dataOf(dense, 1, 0, 0, b(nil, raw(5), bytes32(1)), int64Data(1)), "offset beyond its child in value 0"},
		{"dense offsets", dataOf(dense, 2, 0, 0, b(nil, raw(5, 5), bytes32(0)), int64Data(1)), "4 bytes in buffer 2 where 8"},
		{"runs too short", dataOf(runs, 5, 0, 0, b(nil), ends(2, 4), int64Data(2)), "runs that end at 4 of 5"},
		{"runs descend", dataOf(runs, 3, 0, 0, b(nil), ends(2, 2, 3), int64Data(3)), "do not ascend, at 1"},
		{"runs without values", dataOf(runs, 3, 0, 0, b(nil), ends(2, 3), int64Data(1)), "2 run ends for 1 values"},
		{"no dictionary", dataOf(dict, 1, 0, 0, b(nil, raw(0))), "lacks its dictionary"},
		{"dictionary index", withDict(dataOf(dict, 2, 0, 0, b(nil, raw(1, 2))), int64Data(2)), "index 2 into a dictionary of 2 in value 1"},
		{"negative index", withDict(dataOf(dict, 1, 0, 0, b(nil, raw(0x80))), int64Data(2)), "index -128"},
		{"dictionary", withDict(dataOf(dict, 1, 0, 0, b(nil, raw(0))), dataOf(i64, 2, 0, 0, b(nil, bytes64(1)))), "dictionary: has 8 bytes"},
		{"dictionary type", withDict(dataOf(dict, 1, 0, 0, b(nil, raw(0))), dataOf(f64, 1, 0, 0, b(nil, bytes64(1)))), "dictionary: holds float64"},
		{"deep", dataOf(arrow.StructOf(opt("l", list)), 1, 0, 0, b(nil), dataOf(list, 1, 0, 0, b(nil, bytes32(0, 2)), int64Data(1))), ".l: has offsets"},
	} {
		err := check(c.d, c.d.DataType(), 0, c.d.Len())
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v instead of %q", c.name, err, c.want)
		}
	}
}

// What null rows hold underneath may be anything.
func TestCheckPassesOverNulls(t *testing.T) {
	dict := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: i64}
	withDict := dataOf(dict, 1, 1, 0, []*memory.Buffer{raw(0), raw(99)})
	withDict.SetDictionary(int64Data(1))
	for _, d := range []*array.Data{
		withDict,
		dataOf(arrow.BinaryTypes.StringView, 1, 1, 0, []*memory.Buffer{raw(0), views(view(13, 8, 8))}),
		dataOf(arrow.BinaryTypes.StringView, 2, 1, 0, []*memory.Buffer{raw(0b10), views(view(13, 8, 8), view(13, 0, 7)), raw(make([]byte, 30)...)}),
		dataOf(arrow.ListViewOf(i64), 1, 1, 0, []*memory.Buffer{raw(0), bytes32(7), bytes32(7)}, int64Data(1)),
	} {
		if err := check(d, d.DataType(), 0, d.Len()); err != nil {
			t.Errorf("%s: %v", d.DataType(), err)
			continue
		}
		arr := array.MakeFromData(d)
		rec := batch([]arrow.Field{opt("x", arr.DataType())}, arr)
		Size(rec)
		if own := Compact(rec, memory.DefaultAllocator); !array.Equal(arr, own.Column(0)) {
			t.Errorf("%s: the copy differs", d.DataType())
		}
	}
}

// Whatever passes the check can be measured, copied, encoded and read. Arrays are
// damaged at random: a buffer cut short or with a byte changed, a null count off.
func TestCheckedArraysDoNotPanic(t *testing.T) {
	passed, refused := 0, 0
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 7))
		types := sampleTypes()
		dt := types[r.IntN(len(types))]
		whole := sample(memory.DefaultAllocator, dt, r, 20, true)
		d := damage(r, whole.Data().(*array.Data))
		arr := func() (arr arrow.Array) {
			defer func() { _ = recover() }() // arrow-go's own constructors find some
			return array.MakeFromData(d)
		}()
		if arr == nil {
			continue
		}
		if check(d, dt, 0, d.Len()) != nil {
			refused++
			continue
		}
		passed++
		func() {
			defer func() {
				if p := recover(); p != nil {
					t.Errorf("seed %d, %s: %v", seed, dt, p)
				}
			}()
			findNull(d, dt, 0, d.Len(), nil, true)
			own := settle(arr, dt)
			rec := batch([]arrow.Field{opt("x", dt)}, own)
			Size(rec)
			Compact(rec, memory.DefaultAllocator)
			for i := range own.Len() {
				own.ValueStr(i)
			}
			w := ipc.NewWriter(discard{}, ipc.WithSchema(rec.Schema()))
			if err := w.Write(rec); err != nil {
				t.Errorf("seed %d, %s: %v", seed, dt, err)
			}
		}()
	}
	if passed < 300 || refused < 300 {
		t.Errorf("%d passed, %d refused: the test proves little", passed, refused)
	}
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

func damage(r *rand.Rand, d *array.Data) *array.Data {
	bufs, kids := append([]*memory.Buffer(nil), d.Buffers()...), append([]arrow.ArrayData(nil), d.Children()...)
	dict, nulls, n := dictionaryOf(d), d.NullN(), d.Len()
	switch pick := r.IntN(4); {
	case pick == 0 && len(kids) > 0:
		i := r.IntN(len(kids))
		kids[i] = damage(r, kids[i].(*array.Data))
	case pick == 1 && dict != nil:
		dict = damage(r, dict)
	case pick == 2 && r.IntN(3) == 0:
		nulls = r.IntN(n+2) - 1
	case len(bufs) > 0:
		i := r.IntN(len(bufs))
		if bufs[i] == nil || bufs[i].Len() == 0 {
			break
		}
		b := append([]byte(nil), bufs[i].Bytes()...)
		if r.IntN(3) == 0 {
			b = b[:r.IntN(len(b))]
		} else {
			b[r.IntN(len(b))] ^= byte(1 << r.IntN(8))
		}
		bufs[i] = memory.NewBufferBytes(b)
	}
	out := array.NewData(d.DataType(), n, bufs, kids, nulls, d.Offset())
	if dict != nil {
		out.SetDictionary(dict)
	}
	return out
}
