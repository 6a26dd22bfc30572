package wal

import (
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// arrow-go 18.8 cannot write slices of unions and list views: it panics, reads
// past the end of type codes, or refers to values that it leaves out. Since it
// slices children itself, that concerns every type that has one of them anywhere
// below. Columns of such types are rebased first: rebuilt so that no array in
// them begins at an offset. Their offsets, type codes and validity bits are
// copied, their values are not.

// needsRebase reports whether a type has a union or a list view anywhere.
func needsRebase(dt arrow.DataType) bool {
	switch dt := dt.(type) {
	case arrow.UnionType, *arrow.ListViewType, *arrow.LargeListViewType:
		return true
	case arrow.ExtensionType:
		return needsRebase(dt.StorageType())
	case arrow.NestedType:
		return slices.ContainsFunc(dt.Fields(), func(f arrow.Field) bool { return needsRebase(f.Type) })
	}
	return false
}

// rebaseRecord returns rec with such columns rebased. The caller releases it.
func rebaseRecord(rec arrow.RecordBatch) arrow.RecordBatch {
	cols := slices.Clone(rec.Columns())
	found := false
	for i, col := range cols {
		if !needsRebase(col.DataType()) {
			continue
		}
		data := rebase(col.DataType(), col.Data())
		cols[i] = array.MakeFromData(data)
		data.Release()
		defer cols[i].Release()
		found = true
	}
	if !found {
		rec.Retain()
		return rec
	}
	var meta arrow.Metadata
	if m, ok := rec.(arrow.RecordBatchWithMetadata); ok {
		meta = m.Metadata()
	}
	return array.NewRecordBatchWithMetadata(rec.Schema(), cols, rec.NumRows(), meta)
}

// rebase returns the values of data as an array without an offset. dt is its
// type, or the storage type if that is an extension. The caller releases it.
func rebase(dt arrow.DataType, data arrow.ArrayData) arrow.ArrayData {
	if !needsRebase(dt) {
		data.Retain()
		return data
	}
	from, n := int64(data.Offset()), int64(data.Len())
	switch dt := dt.(type) {
	case arrow.ExtensionType:
		storage := rebase(dt.StorageType(), data)
		defer storage.Release()
		return array.NewData(data.DataType(), storage.Len(), storage.Buffers(), storage.Children(), storage.NullN(), 0)
	case *arrow.SparseUnionType:
		return rebuild(data, codes(data), eachChild(dt, data, func(int) (int64, int64) { return from, from + n }))
	case *arrow.DenseUnionType:
		return rebaseDense(dt, data)
	case *arrow.ListViewType:
		return rebaseViews[int32](dt, data)
	case *arrow.LargeListViewType:
		return rebaseViews[int64](dt, data)
	case *arrow.LargeListType:
		return rebaseList[int64](dt, data)
	case *arrow.ListType:
		return rebaseList[int32](dt, data)
	case *arrow.MapType:
		return rebaseList[int32](dt, data)
	case *arrow.FixedSizeListType:
		width := int64(dt.Len())
		return rebuild(data, []*memory.Buffer{validity(data)},
			eachChild(dt, data, func(int) (int64, int64) { return from * width, (from + n) * width }))
	case *arrow.StructType:
		return rebuild(data, []*memory.Buffer{validity(data)},
			eachChild(dt, data, func(int) (int64, int64) { return from, from + n }))
	case *arrow.RunEndEncodedType:
		return rebaseRuns(dt, data)
	}
	data.Retain()
	return data
}

// rebuild makes an array without an offset, and releases the children.
func rebuild(data arrow.ArrayData, buffers []*memory.Buffer, children []arrow.ArrayData) arrow.ArrayData {
	out := array.NewData(data.DataType(), data.Len(), buffers, children, data.NullN(), 0)
	for _, c := range children {
		c.Release()
	}
	return out
}

// eachChild returns the rebased part of each child that span says.
func eachChild(dt arrow.NestedType, data arrow.ArrayData, span func(i int) (from, to int64)) []arrow.ArrayData {
	out := make([]arrow.ArrayData, len(data.Children()))
	for i, f := range dt.Fields() {
		from, to := span(i)
		part := array.NewSliceData(data.Children()[i], from, to)
		out[i] = rebase(f.Type, part)
		part.Release()
	}
	return out
}

// validity returns the bits of the rows of data; nil if there are none.
func validity(data arrow.ArrayData) *memory.Buffer {
	bits := data.Buffers()[0]
	if bits == nil || bits.Len() == 0 || data.NullN() == 0 {
		return nil
	}
	out := make([]byte, bitutil.BytesForBits(int64(data.Len())))
	bitutil.CopyBitmap(bits.Bytes(), data.Offset(), data.Len(), out, 0)
	return memory.NewBufferBytes(out)
}

// codes returns the type codes of the rows of a union.
func codes(data arrow.ArrayData) []*memory.Buffer {
	if data.Len() == 0 {
		return []*memory.Buffer{nil, memory.NewBufferBytes([]byte{})}
	}
	return []*memory.Buffer{nil, memory.NewBufferBytes(slices.Clone(data.Buffers()[1].Bytes()[data.Offset() : data.Offset()+data.Len()]))}
}

func rebaseDense(dt *arrow.DenseUnionType, data arrow.ArrayData) arrow.ArrayData {
	buffers := codes(data)
	n := len(data.Children())
	low, high := make([]int64, n), make([]int64, n)
	out := make([]int32, data.Len())
	if data.Len() > 0 {
		in := arrow.Int32Traits.CastFromBytes(data.Buffers()[2].Bytes())[data.Offset() : data.Offset()+data.Len()]
		ids := dt.ChildIDs()
		for i, o := range in {
			c := ids[int8(buffers[1].Bytes()[i])]
			if high[c] == 0 || int64(o) < low[c] {
				low[c] = int64(o)
			}
			high[c] = max(high[c], int64(o)+1)
		}
		for i, o := range in {
			out[i] = o - int32(low[ids[int8(buffers[1].Bytes()[i])]])
		}
	}
	buffers = append(buffers, memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(out)))
	return rebuild(data, buffers, eachChild(dt, data, func(i int) (int64, int64) { return low[i], high[i] }))
}

// offsetBuffer returns offsets as a buffer.
func offsetBuffer[T int32 | int64](offsets []T) *memory.Buffer {
	return memory.NewBufferBytes(arrow.GetBytes(offsets))
}

func rebaseList[T int32 | int64](dt arrow.NestedType, data arrow.ArrayData) arrow.ArrayData {
	out := make([]T, data.Len()+1)
	var first, last T
	if data.Len() > 0 {
		in := arrow.GetData[T](data.Buffers()[1].Bytes())[data.Offset() : data.Offset()+data.Len()+1]
		first, last = in[0], in[len(in)-1]
		for i, o := range in {
			out[i] = o - first
		}
	}
	return rebuild(data, []*memory.Buffer{validity(data), offsetBuffer(out)},
		eachChild(dt, data, func(int) (int64, int64) { return int64(first), int64(last) }))
}

func rebaseViews[T int32 | int64](dt arrow.NestedType, data arrow.ArrayData) arrow.ArrayData {
	offsets, sizes := make([]T, data.Len()), make([]T, data.Len())
	var low, high T
	if data.Len() > 0 {
		rows := extent{data: data, from: data.Offset(), rows: data.Len()}
		in := arrow.GetData[T](data.Buffers()[1].Bytes())[rows.from:rows.end()]
		lengths := arrow.GetData[T](data.Buffers()[2].Bytes())[rows.from:rows.end()]
		for i, o := range in {
			// Null and empty lists may point anywhere.
			if lengths[i] == 0 || rows.null(i) {
				continue
			}
			if high == 0 || o < low {
				low = o
			}
			high = max(high, o+lengths[i])
			offsets[i], sizes[i] = o, lengths[i]
		}
		for i := range offsets {
			if sizes[i] != 0 {
				offsets[i] -= low
			}
		}
	}
	return rebuild(data, []*memory.Buffer{validity(data), offsetBuffer(offsets), offsetBuffer(sizes)},
		eachChild(dt, data, func(int) (int64, int64) { return int64(low), int64(high) }))
}

func rebaseRuns(dt *arrow.RunEndEncodedType, data arrow.ArrayData) arrow.ArrayData {
	arr := array.NewRunEndEncodedData(data.(*array.Data))
	defer arr.Release()
	ends := arr.LogicalRunEndsArray(memory.NewGoAllocator())
	defer ends.Release()
	values := arr.LogicalValuesArray()
	defer values.Release()
	rebased := rebase(dt.Encoded(), values.Data())
	defer rebased.Release()
	return array.NewData(data.DataType(), data.Len(), []*memory.Buffer{nil}, []arrow.ArrayData{ends.Data(), rebased}, 0, 0)
}
