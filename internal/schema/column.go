package schema

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
)

// column is what a batch's column must be to be stored.
type column struct {
	field    arrow.Field    // as the one who gives the batch declares it
	stored   arrow.DataType // the same type, as the storage schema has it
	required bool           // no nulls
	inner    bool           // has required fields inside
	key      bool
}

func newColumn(given, stored arrow.Field, required, key bool) column {
	return column{field: given, stored: stored.Type, required: required || key, inner: hasRequired(given.Type), key: key}
}

// accept checks arr and returns it settled, for the caller to release.
func (c *column) accept(arr arrow.Array, rows int) (arrow.Array, error) {
	if arr == nil {
		return nil, c.error(-1, "", "is missing", "an array of its type")
	}
	got := arr.DataType()
	if got != c.field.Type && !SameType(got, c.field.Type) {
		return nil, c.error(-1, "", fmt.Sprintf("holds %s", describeType(arrow.Field{Type: got})), "convert it to the column's type")
	}
	if arr.Len() != rows {
		return nil, c.error(-1, "", fmt.Sprintf("has %d values", arr.Len()), fmt.Sprintf("%d, as many as the batch has rows", rows))
	}
	if err := check(arr.Data(), got, 0, rows); err != nil {
		return nil, c.error(-1, "", "is damaged: "+err.Error(), "build the array anew")
	}
	if c.inner || c.required && (arr.Data().NullN() != 0 || !plain(got)) {
		if row, path := findNull(arr.Data(), c.field.Type, 0, rows, nil, c.required); row >= 0 {
			return nil, c.nullError(row, path)
		}
	}
	return settle(arr, c.stored), nil
}

// plain reports whether all nulls of a type are in its validity bitmap.
func plain(dt arrow.DataType) bool {
	k, _, _ := layoutOf(dt)
	return k.hasValidity() && k != kindDict
}

func (c *column) nullError(row int, path string) error {
	switch {
	case path != "":
		return c.error(row, path, "is null", "the field is required wherever its parent has a value; fill it in")
	case c.key:
		return c.error(row, "", "is null", "the column belongs to the primary key; fill it in")
	}
	return c.error(row, "", "is null", "the column is required; fill it in, or make it nullable")
}

func (c *column) error(row int, path, problem, expect string) error {
	return &ColumnError{Column: c.field.Name + path, Row: int64(row), Type: describeType(c.field), Problem: problem, Expect: expect}
}

// releaseAll releases the columns that are there.
func releaseAll(cols []arrow.Array) {
	for _, c := range cols {
		if c != nil {
			c.Release()
		}
	}
}
