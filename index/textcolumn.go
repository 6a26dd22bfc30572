package index

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// textColumn reads the texts of a column, row by row.
type textColumn struct {
	rows   arrow.Array    // nulls of the rows
	list   array.ListLike // nil: one text a row
	values arrow.Array    // of the elements, or the rows themselves
	text   func(i int) string
}

func newTextColumn(a arrow.Array) textColumn {
	a = storage(a)
	c := textColumn{rows: a, values: a}
	if l, ok := a.(array.ListLike); ok {
		c.list, c.values = l, storage(l.ListValues())
	}
	c.text = textOf(c.values)
	return c
}

func storage(a arrow.Array) arrow.Array {
	for {
		e, ok := a.(array.ExtensionArray)
		if !ok {
			return a
		}
		a = e.Storage()
	}
}

func textOf(a arrow.Array) func(int) string {
	switch a := a.(type) {
	case *array.Dictionary:
		value := textOf(storage(a.Dictionary()))
		words := storage(a.Dictionary())
		return func(i int) string {
			if at := a.GetValueIndex(i); !words.IsNull(at) {
				return value(at)
			}
			return ""
		}
	case array.StringLike:
		return a.Value
	}
	panic(fmt.Sprintf("index: %s is no text", a.DataType()))
}

// span is the range of elements that are the texts of a row.
func (c *textColumn) span(row int) (from, to int) {
	switch {
	case c.rows.IsNull(row):
		return 0, 0
	case c.list == nil:
		return row, row + 1
	}
	f, t := c.list.ValueOffsets(row)
	return int(f), int(t)
}

// at is an element's text; null has none, as empty text.
func (c *textColumn) at(i int) string {
	if c.values.IsNull(i) {
		return ""
	}
	return c.text(i)
}
