package wal

import (
	"bytes"
	"errors"
	"io"
	"math"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

func testHeader() Header {
	return Header{Version: Version, Epoch: 3, PutID: PutID{1, 2, 3}, PrevPutID: PutID{9}, FirstRow: 41, Generation: 2}
}

func encodeBytes(t testing.TB, schema *arrow.Schema, recs []arrow.RecordBatch, side *Side, o EncodeOptions) []byte {
	t.Helper()
	e, err := Encode(testHeader(), schema, recs, side, o)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Release()
	data := e.Body.Bytes()
	if int64(len(data)) != e.Size {
		t.Fatalf("Size = %d, body has %d", e.Size, len(data))
	}
	return data
}

// checkRoundTrip encodes the batches in every way and compares what comes back.
func checkRoundTrip(t *testing.T, schema *arrow.Schema, recs []arrow.RecordBatch, compressions ...Compression) {
	t.Helper()
	for _, comp := range append(compressions, CompressionNone, CompressionLZ4) {
		for _, coalesce := range []int64{0, 64} {
			data := encodeBytes(t, schema, recs, nil, EncodeOptions{Compression: comp, CoalesceRows: coalesce})
			e, err := Decode(data, DecodeOptions{})
			if err != nil {
				t.Fatalf("%s coalesce %d: %v", comp, coalesce, err)
			}
			if e.Header != testHeader() {
				t.Errorf("header %+v", e.Header)
			}
			if !e.Schema.Equal(schema) {
				t.Errorf("schema %v, want %v", e.Schema, schema)
			}
			compareRows(t, e.Batches, recs)
			// What was decoded must be encodable again: replay flushes it.
			again := encodeBytes(t, schema, e.Batches, nil, EncodeOptions{})
			e2, err := Decode(again, DecodeOptions{})
			if err != nil {
				t.Fatalf("%s coalesce %d: second generation: %v", comp, coalesce, err)
			}
			compareRows(t, e2.Batches, recs)
			for _, rec := range e.Batches {
				if err := validateBatch(rec); err != nil {
					t.Errorf("validate what was encoded from valid batches: %v", err)
				}
			}
			e2.Release()
			e.Release()
			compareForeignReader(t, data, recs)
		}
	}
}

// compareForeignReader reads the stream as any Arrow program would.
func compareForeignReader(t *testing.T, data []byte, want []arrow.RecordBatch) {
	t.Helper()
	r, err := ipc.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Release()
	var got []arrow.RecordBatch
	for r.Next() {
		rec := r.RecordBatch()
		rec.Retain()
		defer rec.Release()
		got = append(got, rec)
	}
	if err := r.Err(); err != nil && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	compareRows(t, got, want)
}

// compareRows compares the columns' values, whatever batches they are in.
func compareRows(t *testing.T, got, want []arrow.RecordBatch) {
	t.Helper()
	rows := func(recs []arrow.RecordBatch) (out []string, n int64) {
		for _, rec := range recs {
			n += rec.NumRows()
			for len(out) < int(rec.NumCols()) {
				out = append(out, "")
			}
			for i, col := range rec.Columns() {
				out[i] += show(col)
			}
		}
		return out, n
	}
	g, gn := rows(got)
	w, wn := rows(want)
	if gn != wn {
		t.Fatalf("%d rows, want %d", gn, wn)
	}
	for i := range w {
		if w[i] != "" && (len(g) <= i || g[i] != w[i]) {
			t.Fatalf("column %d:\n got %s\nwant %s", i, g[i], w[i])
		}
	}
}

func record(schema *arrow.Schema, cols ...arrow.Array) arrow.RecordBatch {
	return array.NewRecordBatch(schema, cols, int64(cols[0].Len()))
}

func TestEveryTypeRoundTrips(t *testing.T) {
	for _, c := range typeCases() {
		t.Run(c.name, func(t *testing.T) {
			mem := memory.NewCheckedAllocator(memory.NewGoAllocator())
			defer mem.AssertSize(t, 0)
			schema := arrow.NewSchema([]arrow.Field{{Name: "c", Type: c.dt, Nullable: true}}, nil)
			var recs []arrow.RecordBatch
			for _, n := range []int{40, 0, 1, 17} {
				col := c.build(t, mem, 10*len(recs), n)
				recs = append(recs, record(schema, col))
				col.Release()
			}
			checkRoundTrip(t, schema, recs, CompressionZstd)
			for _, rec := range recs {
				rec.Release()
			}
		})
	}
}

// Slices begin in the middle of a bitmap's byte, end before their parent does,
// are slices of slices, and may be empty.
func TestSlicedArraysRoundTrip(t *testing.T) {
	for _, c := range typeCases() {
		t.Run(c.name, func(t *testing.T) {
			mem := memory.NewCheckedAllocator(memory.NewGoAllocator())
			defer mem.AssertSize(t, 0)
			schema := arrow.NewSchema([]arrow.Field{{Name: "c", Type: c.dt, Nullable: true}}, nil)
			parent := c.build(t, mem, 0, 200)
			defer parent.Release()
			for _, cut := range [][2]int64{{0, 3}, {3, 20}, {5, 6}, {13, 93}, {64, 128}, {100, 200}, {199, 200}, {7, 7}, {200, 200}, {0, 0}} {
				col := array.NewSlice(parent, cut[0], cut[1])
				rec := record(schema, col)
				half := rec.NewSlice(rec.NumRows()/3, rec.NumRows())
				checkRoundTrip(t, schema, []arrow.RecordBatch{rec, half})
				half.Release()
				rec.Release()
				col.Release()
			}
		})
	}
}

// All columns in one batch: positions of buffers and variadic counts must not get mixed up.
func TestAllTypesTogetherRoundTrip(t *testing.T) {
	mem := memory.NewCheckedAllocator(memory.NewGoAllocator())
	defer mem.AssertSize(t, 0)
	var fields []arrow.Field
	var cols []arrow.Array
	for _, c := range typeCases() {
		fields = append(fields, arrow.Field{Name: c.name, Type: c.dt, Nullable: true, Metadata: arrow.MetadataFrom(map[string]string{"memwal.field_id": c.name})})
		cols = append(cols, c.build(t, mem, 3, 50))
	}
	md := arrow.MetadataFrom(map[string]string{"table": "t"})
	schema := arrow.NewSchema(fields, &md)
	rec := record(schema, cols...)
	part := rec.NewSlice(11, 37)
	checkRoundTrip(t, schema, []arrow.RecordBatch{rec, part})
	part.Release()
	rec.Release()
	for _, col := range cols {
		col.Release()
	}
}

func TestCoalesceJoinsWhatItCan(t *testing.T) {
	for _, c := range typeCases() {
		schema := arrow.NewSchema([]arrow.Field{{Name: "c", Type: c.dt, Nullable: true}}, nil)
		var recs []arrow.RecordBatch
		for i := range 10 {
			recs = append(recs, record(schema, c.build(t, memory.DefaultAllocator, i, 5)))
		}
		e, err := Decode(encodeBytes(t, schema, recs, nil, EncodeOptions{CoalesceRows: 20}), DecodeOptions{})
		if err != nil {
			t.Fatal(err)
		}
		want := 10
		if c.joins {
			want = 3 // 20, 20, 10 rows
		}
		if len(e.Batches) != want {
			t.Errorf("%s: %d batches, want %d", c.name, len(e.Batches), want)
		}
		compareRows(t, e.Batches, recs)
	}
}

// Joining stops at a number of bytes: copying large values gains nothing.
func TestCoalesceLeavesLargeBatches(t *testing.T) {
	schema := arrow.NewSchema([]arrow.Field{{Name: "c", Type: arrow.BinaryTypes.Binary}}, nil)
	b := array.NewBinaryBuilder(memory.DefaultAllocator, arrow.BinaryTypes.Binary)
	b.Append(make([]byte, coalesceBytes/2))
	rec := record(schema, b.NewArray())
	recs := []arrow.RecordBatch{rec, rec, rec, rec}
	e, err := Decode(encodeBytes(t, schema, recs, nil, EncodeOptions{CoalesceRows: 100}), DecodeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(e.Batches) != 4 {
		t.Errorf("%d batches, want 4", len(e.Batches))
	}
}

func TestZeroColumns(t *testing.T) {
	schema := arrow.NewSchema(nil, nil)
	rec := array.NewRecordBatch(schema, nil, 5)
	data := encodeBytes(t, schema, []arrow.RecordBatch{rec, rec}, nil, EncodeOptions{CoalesceRows: 100})
	e, err := Decode(data, DecodeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if e.Rows != 10 || len(e.Batches) != 2 || e.Header.Fence || e.Kinds != KindRows {
		t.Errorf("rows %d in %d batches, kinds %#x", e.Rows, len(e.Batches), e.Kinds)
	}
}

// Dictionaries differ from batch to batch, grow, shrink and come back; the
// differences may be as small as the sign of zero.
func TestDictionariesOfEachBatch(t *testing.T) {
	dt := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.PrimitiveTypes.Float64}
	schema := arrow.NewSchema([]arrow.Field{{Name: "c", Type: dt, Nullable: true}, {Name: "l", Type: arrow.ListOf(dt), Nullable: true}}, nil)
	nan := math.Float64frombits(0x7ff8000000000001)
	otherNaN := math.Float64frombits(0x7ff80000000000ff)
	dicts := [][]float64{{1, 2}, {1, 2 + 1e-9}, {1, 2, 3}, {1}, {1, 2}, {0, nan}, {math.Copysign(0, -1), nan}, {0, otherNaN}, {0, otherNaN}}
	var recs []arrow.RecordBatch
	for _, values := range dicts {
		vb := array.NewFloat64Builder(memory.DefaultAllocator)
		vb.AppendValues(values, nil)
		ib := array.NewInt8Builder(memory.DefaultAllocator)
		for i := range values {
			ib.Append(int8(len(values) - 1 - i))
		}
		ib.AppendNull()
		col := array.NewDictionaryArray(dt, ib.NewArray(), vb.NewArray())
		offsets := make([]int32, col.Len()+1)
		for i := range offsets {
			offsets[i] = int32(min(i, col.Len()))
		}
		list := array.NewListData(array.NewData(arrow.ListOf(dt), col.Len(),
			[]*memory.Buffer{nil, memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(offsets))}, []arrow.ArrayData{col.Data()}, 0, 0))
		recs = append(recs, record(schema, col, list))
	}
	recs = append(recs, recs[0].NewSlice(1, 2), recs[2])
	e, err := Decode(encodeBytes(t, schema, recs, nil, EncodeOptions{CoalesceRows: 100}), DecodeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(e.Batches) != len(recs) {
		t.Fatalf("%d batches, want %d", len(e.Batches), len(recs))
	}
	for i, rec := range recs {
		for _, pick := range []func(arrow.RecordBatch) *array.Dictionary{
			func(r arrow.RecordBatch) *array.Dictionary { return r.Column(0).(*array.Dictionary) },
			func(r arrow.RecordBatch) *array.Dictionary {
				return r.Column(1).(*array.List).ListValues().(*array.Dictionary)
			},
		} {
			got, want := pick(e.Batches[i]), pick(rec)
			if got.Len() != want.Len() {
				continue // the values of a sliced list: checkRoundTrip compares them
			}
			for r := range want.Len() {
				if got.IsNull(r) != want.IsNull(r) {
					t.Fatalf("batch %d row %d: null %t", i, r, got.IsNull(r))
				}
				if want.IsNull(r) {
					continue
				}
				g := got.Dictionary().(*array.Float64).Value(got.GetValueIndex(r))
				w := want.Dictionary().(*array.Float64).Value(want.GetValueIndex(r))
				if math.Float64bits(g) != math.Float64bits(w) {
					t.Errorf("batch %d row %d: %x, want %x", i, r, math.Float64bits(g), math.Float64bits(w))
				}
			}
		}
	}
	checkRoundTrip(t, schema, recs)
}

// Another program may write a dictionary piece by piece.
func TestDeltaDictionaryDecodes(t *testing.T) {
	dt := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}
	md := arrow.MetadataFrom(map[string]string{keyEpoch: "1"})
	schema := arrow.NewSchema([]arrow.Field{{Name: "c", Type: dt}}, &md)
	b := array.NewDictionaryBuilder(memory.DefaultAllocator, dt).(*array.BinaryDictionaryBuilder)
	var buf bytes.Buffer
	w := ipc.NewWriter(&buf, ipc.WithSchema(schema), ipc.WithDictionaryDeltas(true))
	var want []arrow.RecordBatch
	for _, values := range [][]string{{"a", "b"}, {"a", "b", "c"}, {"c", "a", "d"}} {
		vb := array.NewStringBuilder(memory.DefaultAllocator)
		ib := array.NewInt8Builder(memory.DefaultAllocator)
		vb.AppendValues([]string{"a", "b", "c", "d"}[:len(want)+2], nil)
		for _, v := range values {
			ib.Append(int8(v[0] - 'a'))
		}
		rec := record(schema, array.NewDictionaryArray(dt, ib.NewArray(), vb.NewArray()))
		if err := w.Write(rec); err != nil {
			t.Fatal(err)
		}
		want = append(want, rec)
	}
	b.Release()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	e, err := Decode(buf.Bytes(), DecodeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if e.HasFooter || e.Header.Epoch != 1 {
		t.Errorf("%+v", e.Header)
	}
	compareRows(t, e.Batches, want)
}
