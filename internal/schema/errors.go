package schema

import (
	"errors"
	"fmt"
	"strings"
)

// ErrInvalid is the category of every error of this package: a schema, a batch or
// a configuration that does not fit the table. Nothing was stored.
var ErrInvalid = errors.New("schema: invalid")

// ColumnError says which column does not fit, and what would. It is an [ErrInvalid].
type ColumnError struct {
	// Column is the column's name, with the path of the nested field where it is
	// one: "items[].price". Empty: the batch or schema as a whole.
	Column string
	// Row is the row of the batch, from 0, or -1 where no single row is at fault.
	Row int64
	// Type is the column's type as it was given, or empty.
	Type string
	// Problem says what was found.
	Problem string
	// Expect says what would be accepted, or what to do.
	Expect string
}

// Error implements error.
func (e *ColumnError) Error() string {
	var b strings.Builder
	if e.Column != "" {
		fmt.Fprintf(&b, "column %q", e.Column)
		if e.Type != "" {
			fmt.Fprintf(&b, " (%s)", e.Type)
		}
		if e.Row >= 0 {
			fmt.Fprintf(&b, " in row %d", e.Row)
		}
		b.WriteString(" ")
	}
	b.WriteString(e.Problem)
	if e.Expect != "" {
		b.WriteString(": ")
		b.WriteString(e.Expect)
	}
	return b.String()
}

// Is makes errors.Is(err, ErrInvalid) true.
func (e *ColumnError) Is(target error) bool { return target == ErrInvalid }

// columnError is the error of a whole column.
func columnError(column, typ, problem, expect string) *ColumnError {
	return &ColumnError{Column: column, Row: -1, Type: typ, Problem: problem, Expect: expect}
}
