package keys

import (
	"fmt"
	"math"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal"
)

// locate unwraps dictionaries and extensions and tells whether the cell is null
// at any level (a dictionary may hold null values behind valid indices).
func (c *column) locate(arr arrow.Array, row int) (arrow.Array, int, bool) {
	if arr.IsNull(row) {
		return arr, row, true
	}
	if !c.wrapped {
		return arr, row, false
	}
	for {
		switch a := arr.(type) {
		case *array.Dictionary:
			arr, row = a.Dictionary(), a.GetValueIndex(row)
		case array.ExtensionArray:
			arr = a.Storage()
		default:
			return arr, row, false
		}
		if arr.IsNull(row) {
			return arr, row, true
		}
	}
}

// maybeNull is false when no cell of the array can be null, so that callers can
// skip the test per row.
func (c *column) maybeNull(arr arrow.Array) bool { return c.wrapped || arr.NullN() > 0 }

// word reads an unwrapped, non-null cell of formWord as an unsigned integer in
// the column's order. Values of a width below 8 are right-aligned.
func (c *column) word(arr arrow.Array, row int) uint64 {
	switch a := arr.(type) {
	case *array.Int64:
		return flip64(a.Value(row))
	case *array.Uint64:
		return a.Value(row)
	case *array.Int32:
		return flip32(a.Value(row))
	case *array.Uint32:
		return uint64(a.Value(row))
	case *array.Timestamp:
		return flip64(a.Value(row))
	case *array.Float64:
		return float64Word(a.Value(row))
	case *array.Float32:
		return float32Word(a.Value(row))
	case *array.Date32:
		return flip32(a.Value(row))
	case *array.Date64:
		return flip64(a.Value(row))
	}
	return wordOfRareType(arr, row)
}

func wordOfRareType(arr arrow.Array, row int) uint64 {
	switch a := arr.(type) {
	case *array.Boolean:
		return boolWord(a.Value(row))
	case *array.Int8:
		return uint64(uint8(a.Value(row)) ^ 0x80)
	case *array.Uint8:
		return uint64(a.Value(row))
	case *array.Int16:
		return uint64(uint16(a.Value(row)) ^ 0x8000)
	case *array.Uint16:
		return uint64(a.Value(row))
	case *array.Float16:
		return float16Word(a.Value(row).Uint16())
	case *array.Time32:
		return flip32(a.Value(row))
	case *array.Time64:
		return flip64(a.Value(row))
	case *array.Duration:
		return flip64(a.Value(row))
	case *array.MonthInterval:
		return flip32(a.Value(row))
	case *array.Decimal32:
		return flip32(a.Value(row))
	case *array.Decimal64:
		return flip64(a.Value(row))
	}
	panic(fmt.Sprintf("keys: column of type %s in a batch of another schema", arr.DataType()))
}

// wide reads an unwrapped, non-null cell of formWide, most significant word
// first; n words of it count.
func (c *column) wide(arr arrow.Array, row int) (w [4]uint64, n int) {
	switch a := arr.(type) {
	case *array.Decimal128:
		return wide128(a.Value(row)), 2
	case *array.Decimal256:
		return wide256(a.Value(row)), 4
	}
	panic(fmt.Sprintf("keys: column of type %s in a batch of another schema", arr.DataType()))
}

// bytes reads an unwrapped, non-null cell of formBytes or formFixed. The slice
// points into the array.
func (c *column) bytes(arr arrow.Array, row int) []byte {
	switch a := arr.(type) {
	case *array.String:
		return bytesOf(a.Value(row))
	case *array.Binary:
		return a.Value(row)
	case *array.FixedSizeBinary:
		return a.Value(row)
	case *array.LargeString:
		return bytesOf(a.Value(row))
	case *array.LargeBinary:
		return a.Value(row)
	case *array.StringView:
		return bytesOf(a.Value(row))
	case *array.BinaryView:
		return a.Value(row)
	}
	panic(fmt.Sprintf("keys: column of type %s in a batch of another schema", arr.DataType()))
}

// bytesOf lends the bytes of a string; they are only ever read.
func bytesOf(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

func flip64[T ~int64](v T) uint64 { return uint64(v) ^ 1<<63 }
func flip32[T ~int32](v T) uint64 { return uint64(uint32(v) ^ 1<<31) }

func boolWord(v bool) uint64 {
	if v {
		return 1
	}
	return 0
}

func float64Word(f float64) uint64 {
	bits := math.Float64bits(f)
	switch {
	case f == 0:
		bits = 0 // -0.0 is 0.0
	case f != f:
		bits = 0x7ff8_0000_0000_0000 // every NaN is this one, above +Inf
	}
	if bits>>63 != 0 {
		return ^bits
	}
	return bits | 1<<63
}

func float32Word(f float32) uint64 {
	bits := math.Float32bits(f)
	switch {
	case f == 0:
		bits = 0
	case f != f:
		bits = 0x7fc0_0000
	}
	if bits>>31 != 0 {
		return uint64(^bits)
	}
	return uint64(bits | 1<<31)
}

func float16Word(bits uint16) uint64 {
	switch {
	case bits&0x7fff == 0:
		bits = 0
	case bits&0x7fff > 0x7c00:
		bits = 0x7e00
	}
	if bits>>15 != 0 {
		return uint64(^bits)
	}
	return uint64(bits | 1<<15)
}

func wide128(v decimal.Decimal128) [4]uint64 {
	return [4]uint64{flip64(v.HighBits()), v.LowBits()}
}

func wide256(v decimal.Decimal256) [4]uint64 {
	le := v.Array()
	return [4]uint64{le[3] ^ 1<<63, le[2], le[1], le[0]}
}
