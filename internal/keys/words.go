package keys

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// Word is Head.Word of a row's key, in a codec that is Fixed.
func (c *Codec) Word(rec arrow.RecordBatch, row int) uint64 {
	if len(c.cols) == 1 && c.cols[0].form == formWord {
		col := &c.cols[0]
		if a, ok := rec.Column(col.index).(*array.Int64); ok && !c.nullable {
			return flip64(a.Value(row)) // the commonest key, on the path of every lookup
		}
		arr, at, null := col.locate(rec.Column(col.index), row)
		if null {
			return 0
		}
		return col.word(arr, at) << (64 - 8*col.width)
	}
	var buf [16]byte
	key := c.AppendRow(buf[:0], rec, row)
	if c.nullable {
		key = key[1:]
	}
	return LoadWord(key)
}

// Words appends Word of every row to dst: the bulk form, one type switch a batch
// for single columns of common types. The words of rows whose first column is
// null are not specified.
func (c *Codec) Words(dst []uint64, rec arrow.RecordBatch) []uint64 {
	if len(c.cols) == 1 {
		switch a := rec.Column(c.cols[0].index).(type) {
		case *array.Int64:
			return appendFlipped64(dst, a.Values())
		case *array.Timestamp:
			return appendFlipped64(dst, a.Values())
		case *array.Uint64:
			return append(dst, a.Values()...)
		case *array.Int32:
			return appendFlipped32(dst, a.Values())
		case *array.Date32:
			return appendFlipped32(dst, a.Values())
		case *array.Float64:
			for _, v := range a.Values() {
				dst = append(dst, float64Word(v))
			}
			return dst
		}
	}
	for row := range int(rec.NumRows()) {
		dst = append(dst, c.Word(rec, row))
	}
	return dst
}

func appendFlipped64[T ~int64](dst []uint64, vals []T) []uint64 {
	for _, v := range vals {
		dst = append(dst, flip64(v))
	}
	return dst
}

func appendFlipped32[T ~int32](dst []uint64, vals []T) []uint64 {
	for _, v := range vals {
		dst = append(dst, flip32(v)<<32)
	}
	return dst
}
