package wal

import (
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// coalesceBytes bounds what is copied together into one record batch, whatever
// its rows: large values gain nothing from sharing a batch.
const coalesceBytes = 256 << 10

// coalesce returns the batches of an entry, joined where that pays. The caller
// owns the result, one reference each.
func coalesce(schema *arrow.Schema, recs []arrow.RecordBatch, limit int64) ([]arrow.RecordBatch, error) {
	out := make([]arrow.RecordBatch, 0, len(recs))
	joinable := limit > 1 && len(recs) > 1 && schema.NumFields() > 0 &&
		!slices.ContainsFunc(schema.Fields(), func(f arrow.Field) bool { return !typeJoins(f.Type) })
	for len(recs) > 0 {
		n := 1
		if joinable {
			n = runLength(recs, limit)
		}
		if n == 1 {
			recs[0].Retain()
			out = append(out, recs[0])
		} else {
			joined, err := join(schema, recs[:n])
			if err != nil {
				for _, rec := range out {
					rec.Release()
				}
				return nil, fmt.Errorf("wal: encode entry: join %d batches: %w", n, err)
			}
			out = append(out, joined)
		}
		recs = recs[n:]
	}
	return out, nil
}

// runLength returns how many of the first batches to join, at least 1.
func runLength(recs []arrow.RecordBatch, limit int64) int {
	var rows, bytes int64
	for i, rec := range recs {
		rows += rec.NumRows()
		if rows > limit || hasMetadata(rec) {
			return max(i, 1)
		}
		for _, col := range rec.Columns() {
			bytes += joinedBytes(col.Data())
		}
		if bytes > coalesceBytes {
			return max(i, 1)
		}
	}
	return len(recs)
}

// hasMetadata reports whether a batch has metadata of its own, which joining would lose.
func hasMetadata(rec arrow.RecordBatch) bool {
	m, ok := rec.(arrow.RecordBatchWithMetadata)
	return ok && m.Metadata().Len() > 0
}

func join(schema *arrow.Schema, recs []arrow.RecordBatch) (_ arrow.RecordBatch, err error) {
	defer recoverAs(&err, "arrow-go")
	mem := memory.NewGoAllocator()
	cols := make([]arrow.Array, 0, schema.NumFields())
	defer func() {
		for _, col := range cols {
			col.Release()
		}
	}()
	var rows int64
	for _, rec := range recs {
		rows += rec.NumRows()
	}
	parts := make([]arrow.Array, len(recs))
	for j := range schema.NumFields() {
		for i, rec := range recs {
			parts[i] = rec.Column(j)
		}
		col, err := array.Concatenate(parts, mem)
		if err != nil {
			return nil, fmt.Errorf("column %q: %w", schema.Field(j).Name, err)
		}
		cols = append(cols, col)
	}
	return array.NewRecordBatch(schema, cols, rows), nil
}

// typeJoins reports whether array.Concatenate is exact for a type. Dictionaries
// would have to be unified, and views would drag their parents' buffers along;
// unions, run ends and list views are not worth the risk.
func typeJoins(dt arrow.DataType) bool {
	switch dt := dt.(type) {
	case *arrow.ListType, *arrow.LargeListType, *arrow.FixedSizeListType, *arrow.StructType:
		return !slices.ContainsFunc(dt.(arrow.NestedType).Fields(), func(f arrow.Field) bool { return !typeJoins(f.Type) })
	case *arrow.BinaryType, *arrow.StringType, *arrow.LargeBinaryType, *arrow.LargeStringType, *arrow.BooleanType:
		return true
	case arrow.ExtensionType, *arrow.DictionaryType:
		return false
	case arrow.FixedWidthDataType:
		return true
	}
	return false
}

// joinedBytes is the size of an array of a joinable type in a joined batch.
func joinedBytes(data arrow.ArrayData) int64 {
	rows := int64(data.Len())
	if rows == 0 {
		return 0
	}
	bytes := (rows + 7) / 8
	var from, to int64
	switch dt := data.DataType().(type) {
	case *arrow.BinaryType, *arrow.StringType, *arrow.ListType:
		from, to = span32(data)
		bytes += 4 * rows
	case *arrow.LargeBinaryType, *arrow.LargeStringType, *arrow.LargeListType:
		from, to = span64(data)
		bytes += 8 * rows
	case *arrow.FixedSizeListType:
		from = int64(data.Offset()) * int64(dt.Len())
		to = from + rows*int64(dt.Len())
	case *arrow.StructType:
		from, to = int64(data.Offset()), int64(data.Offset())+rows
	case arrow.FixedWidthDataType:
		return bytes + rows*int64(dt.BitWidth())/8
	}
	if len(data.Children()) == 0 {
		return bytes + to - from
	}
	for _, child := range data.Children() {
		part := array.NewSliceData(child, from, to)
		bytes += joinedBytes(part)
		part.Release()
	}
	return bytes
}

// span32 returns the first and the last of an array's offsets.
func span32(data arrow.ArrayData) (from, to int64) {
	offsets := arrow.Int32Traits.CastFromBytes(data.Buffers()[1].Bytes())
	return int64(offsets[data.Offset()]), int64(offsets[data.Offset()+data.Len()])
}

func span64(data arrow.ArrayData) (from, to int64) {
	offsets := arrow.Int64Traits.CastFromBytes(data.Buffers()[1].Bytes())
	return offsets[data.Offset()], offsets[data.Offset()+data.Len()]
}
