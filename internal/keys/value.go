package keys

import (
	"bytes"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// ValueAt is the Go value of a cell of a key column: AppendValues makes the key of it
// that Append makes of the cell. nil stands for null. It shares no memory with the
// array.
func ValueAt(a arrow.Array, row int) any {
	for {
		if a.IsNull(row) {
			return nil
		}
		switch w := a.(type) {
		case array.ExtensionArray:
			a = w.Storage()
			continue
		case *array.Dictionary:
			a, row = w.Dictionary(), w.GetValueIndex(row)
			continue
		}
		return valueAt(a, row)
	}
}

func valueAt(a arrow.Array, row int) any {
	switch a := a.(type) {
	case *array.Boolean:
		return a.Value(row)
	case *array.Int8:
		return a.Value(row)
	case *array.Int16:
		return a.Value(row)
	case *array.Int32:
		return a.Value(row)
	case *array.Int64:
		return a.Value(row)
	case *array.Uint8:
		return a.Value(row)
	case *array.Uint16:
		return a.Value(row)
	case *array.Uint32:
		return a.Value(row)
	case *array.Uint64:
		return a.Value(row)
	case *array.Float16:
		return a.Value(row)
	case *array.Float32:
		return a.Value(row)
	case *array.Float64:
		return a.Value(row)
	case *array.Decimal32:
		return a.Value(row)
	case *array.Decimal64:
		return a.Value(row)
	case *array.Decimal128:
		return a.Value(row)
	case *array.Decimal256:
		return a.Value(row)
	case *array.Date32:
		return a.Value(row)
	case *array.Date64:
		return a.Value(row)
	case *array.Time32:
		return a.Value(row)
	case *array.Time64:
		return a.Value(row)
	case *array.Timestamp:
		return a.Value(row)
	case *array.Duration:
		return a.Value(row)
	case *array.MonthInterval:
		return a.Value(row)
	case array.StringLike: // before binary: it has text
		return strings.Clone(a.Value(row))
	case interface{ Value(int) []byte }: // binary of all kinds
		return bytes.Clone(a.Value(row))
	}
	panic("keys: no key column has the type " + a.DataType().String())
}
