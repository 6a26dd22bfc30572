package filter

import (
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
)

// ErrInvalid is the category of every error of this package: *Error and *SizeError.
var ErrInvalid = errors.New("invalid filter")

// Reason says in what way a filter does not fit a schema.
type Reason uint8

const (
	// UnknownColumn: the schema has no such column.
	UnknownColumn Reason = iota + 1
	// NotComparable: the column's type has no total order, or none that the
	// operator needs.
	NotComparable
	// WrongType: the value is not of the column's type.
	WrongType
	// OutOfRange: the value is of the right kind, but the column cannot hold it: it
	// is too large, or finer than the column's unit, scale or precision.
	OutOfRange
)

// String returns the reason in words.
func (r Reason) String() string {
	switch r {
	case UnknownColumn:
		return "unknown column"
	case NotComparable:
		return "not comparable"
	case WrongType:
		return "wrong type"
	case OutOfRange:
		return "out of range"
	}
	return fmt.Sprintf("Reason(%d)", uint8(r))
}

// Error is one part of a filter that does not fit the schema.
type Error struct {
	Reason Reason
	Op     Op
	Column string
	Type   arrow.DataType // nil if the column is unknown
	Value  any            // of WrongType and OutOfRange
	Want   string         // what would fit
}

func (e *Error) Error() string {
	switch e.Reason {
	case UnknownColumn:
		return fmt.Sprintf("filter: column %q is not in the schema", e.Column)
	case NotComparable:
		return fmt.Sprintf("filter: column %q of type %s does not take %q: expected %s", e.Column, e.Type, e.Op, e.Want)
	}
	return fmt.Sprintf("filter: column %q of type %s %s %s (%T): %v: expected %s", e.Column, e.Type, e.Op, valueText(e.Value), e.Value, e.Reason, e.Want)
}

// Is makes errors.Is(err, ErrInvalid) true.
func (e *Error) Is(target error) bool { return target == ErrInvalid }

// SizeError is a filter that is nested too deeply or has too many parts.
type SizeError struct {
	Depth int
	Parts int // at most MaxParts + 1
}

func (e *SizeError) Error() string {
	return fmt.Sprintf("filter: nested %d deep with %d parts or more, at most %d and %d are taken: give And and Or all their arguments at once, and use In for alternatives",
		e.Depth, e.Parts, MaxDepth, MaxParts)
}

// Is makes errors.Is(err, ErrInvalid) true.
func (e *SizeError) Is(target error) bool { return target == ErrInvalid }
