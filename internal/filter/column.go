package filter

import (
	"errors"
	"math"
	"reflect"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/decimal256"
	"github.com/apache/arrow-go/v18/arrow/float16"

	"github.com/memwal/memwal-go/internal/keys"
)

// form is how values of a column are compared.
type form uint8

const (
	formWord  form = iota // as unsigned words of width bytes, in the order of package keys
	formBytes             // as bytes
)

// column is what Bind knows of a column that is compared.
type column struct {
	index int
	field arrow.Field
	base  arrow.DataType // dictionaries and extensions unwrapped
	codec *keys.Codec
	form  form
	width int  // of a word, in bytes
	text  bool // utf8 or binary of any length
}

func bindColumn(schema *arrow.Schema, index int, op Op) (*column, *Error) {
	f := schema.Field(index)
	c := &column{index: index, field: f, base: Base(f.Type), form: formWord}
	codec, err := keys.Bind(schema, []int{index}, false)
	if err != nil {
		e := &Error{Reason: NotComparable, Op: op, Column: f.Name, Type: f.Type, Want: "a type with a total order"}
		if t, ok := errors.AsType[*keys.TypeError](err); ok {
			e.Want = t.Want
		}
		return nil, e
	}
	c.codec = codec
	switch c.base.ID() {
	case arrow.STRING, arrow.LARGE_STRING, arrow.STRING_VIEW, arrow.BINARY, arrow.LARGE_BINARY, arrow.BINARY_VIEW:
		c.form, c.text = formBytes, true
	case arrow.FIXED_SIZE_BINARY, arrow.DECIMAL128, arrow.DECIMAL256:
		c.form = formBytes
	case arrow.BOOL:
		c.width = 1
	default:
		c.width = c.base.(arrow.FixedWidthDataType).BitWidth() / 8
	}
	return c, nil
}

// Base follows dictionaries to their value type and extensions to their storage.
func Base(t arrow.DataType) arrow.DataType {
	for {
		switch w := t.(type) {
		case *arrow.DictionaryType:
			t = w.ValueType
		case arrow.ExtensionType:
			t = w.StorageType()
		default:
			return t
		}
	}
}

// constant is a value of a column, as it is compared.
type constant struct {
	val   any // as it was given
	word  uint64
	bytes []byte
}

// constant converts a value. Text is taken at any length, everything else as
// package keys takes it.
func (c *column) constant(op Op, v any) (constant, *Error) {
	k := constant{val: v}
	if c.text {
		b, ok := bytesOf(v)
		if !ok {
			return k, &Error{Reason: WrongType, Op: op, Column: c.field.Name, Type: c.field.Type, Value: v, Want: "string or []byte"}
		}
		k.bytes = b
		return k, nil
	}
	enc, err := c.codec.AppendValues(nil, []any{v})
	if err != nil {
		e := &Error{Reason: WrongType, Op: op, Column: c.field.Name, Type: c.field.Type, Value: v, Want: err.Error()}
		if ve, ok := errors.AsType[*keys.ValueError](err); ok {
			e.Want = ve.Want
		}
		if c.sameKind(v) {
			e.Reason = OutOfRange
		}
		return k, e
	}
	if c.form == formBytes {
		k.bytes = enc
	} else {
		k.word = keys.LoadWord(enc) >> (64 - 8*c.width)
	}
	return k, nil
}

func bytesOf(v any) ([]byte, bool) {
	switch v := v.(type) {
	case string:
		return []byte(v), true
	case []byte:
		return v, true
	}
	switch rv := reflect.ValueOf(v); {
	case rv.Kind() == reflect.String:
		return []byte(rv.String()), true
	case rv.Kind() == reflect.Slice && rv.Type().Elem().Kind() == reflect.Uint8:
		return append([]byte{}, rv.Bytes()...), true
	}
	return nil, false
}

// sameKind tells whether a value that was refused is of the column's kind, so that
// only its size or its precision was wrong.
func (c *column) sameKind(v any) bool {
	kind := reflect.ValueOf(v).Kind()
	integer := kind >= reflect.Int && kind <= reflect.Uintptr
	switch v.(type) {
	case time.Time:
		return isA(c.base.ID(), arrow.TIMESTAMP, arrow.DATE32, arrow.DATE64)
	case time.Duration:
		return isA(c.base.ID(), arrow.TIME32, arrow.TIME64, arrow.DURATION)
	case decimal.Decimal32, decimal.Decimal64, decimal128.Num, decimal256.Num:
		return arrow.IsDecimal(c.base.ID())
	case float16.Num:
		return arrow.IsFloating(c.base.ID())
	case arrow.Timestamp, arrow.Date32, arrow.Date64, arrow.Time32, arrow.Time64, arrow.Duration, arrow.MonthInterval:
		return false
	}
	switch id := c.base.ID(); {
	case arrow.IsInteger(id):
		return integer
	case arrow.IsFloating(id):
		return integer || kind == reflect.Float32 || kind == reflect.Float64
	case arrow.IsDecimal(id):
		return integer || kind == reflect.String
	case id == arrow.FIXED_SIZE_BINARY:
		return kind == reflect.String || (kind == reflect.Slice || kind == reflect.Array) && reflect.TypeOf(v).Elem().Kind() == reflect.Uint8
	}
	return false
}

func isA(id arrow.Type, ids ...arrow.Type) bool {
	for _, x := range ids {
		if x == id {
			return true
		}
	}
	return false
}

// float64Word, float32Word and float16Word give the order of package keys to the
// bits of a float; see there.
func float64Word(bits uint64) uint64 {
	if bits&^(1<<63) > 0x7ff0_0000_0000_0000 {
		bits = 0x7ff8_0000_0000_0000
	}
	if bits == 1<<63 {
		bits = 0
	}
	return bits ^ (uint64(int64(bits)>>63) | 1<<63)
}

func float32Word(bits uint32) uint32 {
	if bits&^(1<<31) > 0x7f80_0000 {
		bits = 0x7fc0_0000
	}
	if bits == 1<<31 {
		bits = 0
	}
	return bits ^ (uint32(int32(bits)>>31) | 1<<31)
}

func float16Word(bits uint16) uint16 {
	if bits&^(1<<15) > 0x7c00 {
		bits = 0x7e00
	}
	if bits == 1<<15 {
		bits = 0
	}
	return bits ^ (uint16(int16(bits)>>15) | 1<<15)
}

// maxWord is the highest word of a width in bytes.
func maxWord(width int) uint64 { return math.MaxUint64 >> (64 - 8*width) }

// isNull sees through encodings: a null of a dictionary, of a run and of a union's
// child is a null of the row.
func isNull(arr arrow.Array, row int) bool {
	if arr.IsNull(row) {
		return true
	}
	switch a := arr.(type) {
	case *array.Null:
		return true
	case *array.Dictionary:
		return isNull(a.Dictionary(), a.GetValueIndex(row))
	case array.ExtensionArray:
		return isNull(a.Storage(), row)
	case *array.RunEndEncoded:
		return isNull(a.Values(), a.GetPhysicalIndex(row))
	case *array.SparseUnion:
		return isNull(a.Field(a.ChildID(row)), row)
	case *array.DenseUnion:
		return isNull(a.Field(a.ChildID(row)), int(a.ValueOffset(row)))
	}
	return false
}
