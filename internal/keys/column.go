package keys

import (
	"github.com/apache/arrow-go/v18/arrow"
)

// form is how a column's values are laid out in a key.
type form uint8

const (
	formWord  form = iota // 1, 2, 4 or 8 bytes, read as one uint64
	formWide              // 16 or 32 bytes, read as words (decimals)
	formFixed             // fixed-size binary
	formBytes             // variable length, escaped and terminated
)

// column is one bound key column. Immutable.
type column struct {
	index    int // in the schema
	name     string
	declared arrow.DataType // as in the schema
	base     arrow.DataType // with dictionaries and extensions unwrapped
	form     form
	width    int  // bytes of a value in the key; 0 for formBytes
	wrapped  bool // a dictionary or an extension: cells need unwrapping
	nullable bool
}

const wantOrdered = "a type with a total order (bool, integer, float, decimal, date, time, timestamp, duration, " +
	"month interval, utf8, binary or fixed-size binary, or a dictionary of or an extension over one of these)"

func bindColumn(f arrow.Field, index int, nullable bool) (column, error) {
	base, wrapped := unwrapType(f.Type)
	c := column{index: index, name: f.Name, declared: f.Type, base: base, wrapped: wrapped, nullable: nullable}
	switch base.ID() {
	case arrow.BOOL, arrow.INT8, arrow.UINT8:
		c.width = 1
	case arrow.INT16, arrow.UINT16, arrow.FLOAT16:
		c.width = 2
	case arrow.INT32, arrow.UINT32, arrow.FLOAT32, arrow.DATE32, arrow.TIME32, arrow.INTERVAL_MONTHS, arrow.DECIMAL32:
		c.width = 4
	case arrow.INT64, arrow.UINT64, arrow.FLOAT64, arrow.DATE64, arrow.TIME64, arrow.TIMESTAMP, arrow.DURATION, arrow.DECIMAL64:
		c.width = 8
	case arrow.DECIMAL128:
		c.form, c.width = formWide, 16
	case arrow.DECIMAL256:
		c.form, c.width = formWide, 32
	case arrow.FIXED_SIZE_BINARY:
		c.form, c.width = formFixed, base.(*arrow.FixedSizeBinaryType).ByteWidth
	case arrow.STRING, arrow.LARGE_STRING, arrow.STRING_VIEW, arrow.BINARY, arrow.LARGE_BINARY, arrow.BINARY_VIEW:
		c.form = formBytes
	default:
		return column{}, &TypeError{Column: f.Name, Type: f.Type, Want: wantOrdered}
	}
	return c, nil
}

// unwrapType follows dictionaries to their value type and extensions to their
// storage type.
func unwrapType(t arrow.DataType) (base arrow.DataType, wrapped bool) {
	for {
		switch w := t.(type) {
		case *arrow.DictionaryType:
			t, wrapped = w.ValueType, true
		case arrow.ExtensionType:
			t, wrapped = w.StorageType(), true
		default:
			return t, wrapped
		}
	}
}
