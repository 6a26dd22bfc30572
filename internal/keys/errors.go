package keys

import (
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
)

// ErrInvalid is the category of every error of this package: something that the
// caller gave cannot be a key.
var ErrInvalid = errors.New("invalid")

// TypeError reports a column whose type has no total order that keys could use.
type TypeError struct {
	Column string
	Type   arrow.DataType
	Want   string
}

func (e *TypeError) Error() string {
	return fmt.Sprintf("column %q of type %s cannot be a key: expected %s", e.Column, e.Type, e.Want)
}

func (e *TypeError) Is(target error) bool { return target == ErrInvalid }

// ValueError reports a Go value that is not exactly a value of its column.
type ValueError struct {
	Column string         // empty: the number of values is wrong
	Type   arrow.DataType // nil: the number of values is wrong
	Value  any
	Want   string
}

func (e *ValueError) Error() string {
	if e.Type == nil {
		return "key values: expected " + e.Want
	}
	text := fmt.Sprintf("%v", e.Value)
	if len(text) > 64 {
		text = text[:64] + "…"
	}
	return fmt.Sprintf("value %s (%T) for column %q of type %s: expected %s", text, e.Value, e.Column, e.Type, e.Want)
}

func (e *ValueError) Is(target error) bool { return target == ErrInvalid }

// RowError reports a row of a record batch that cannot be a key.
type RowError struct {
	Column string
	Type   arrow.DataType
	Row    int // in the batch
	Got    string
	Want   string
}

func (e *RowError) Error() string {
	return fmt.Sprintf("row %d, column %q of type %s: %s, expected %s", e.Row, e.Column, e.Type, e.Got, e.Want)
}

func (e *RowError) Is(target error) bool { return target == ErrInvalid }
