package schema

import (
	"sort"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/encoded"
)

// live says which of a range of values have only valid values above them, so that
// a null among them is a null of its own. nil: all.
type live []bool

func (l live) at(i int) bool { return l == nil || l[i] }

// hasRequired reports whether a type has a required field somewhere inside.
func hasRequired(dt arrow.DataType) bool {
	_, _, st := layoutOf(dt)
	if t, ok := st.(*arrow.DictionaryType); ok {
		return hasRequired(t.ValueType)
	}
	for i := range children(st) {
		if requiredChild(st, i) || hasRequired(child(st, i).Type) {
			return true
		}
	}
	return false
}

// requiredChild reports whether the i-th child must have a value wherever its
// parent has one. Run ends are no values; the entries of a map are no value of
// their own, so arrow-go's "not null" for them is taken at its word.
func requiredChild(dt arrow.DataType, i int) bool {
	if _, ok := dt.(*arrow.RunEndEncodedType); ok && i == 0 {
		return false
	}
	return !child(dt, i).Nullable
}

// findNull looks through the rows [lo, lo+n) of d for a null in a required field
// below d, or in d itself if required is set. It returns the row, from 0, and the
// path to the field, or -1. A null beneath a null is none: rows of l that are not
// live are passed over. d has been checked.
func findNull(d arrow.ArrayData, dt arrow.DataType, lo, n int, l live, required bool) (row int, path string) {
	if required {
		if row := firstNull(d, dt, lo, n, l); row >= 0 {
			return row, ""
		}
	}
	if n == 0 || !hasRequired(dt) {
		return -1, ""
	}
	k, width, st := layoutOf(dt)
	abs := d.Offset() + lo
	l = l.and(d, k, abs, n)
	switch k {
	case kindStruct:
		for i, c := range d.Children() {
			if row, path = findNull(c, child(st, i).Type, abs, n, l, requiredChild(st, i)); row >= 0 {
				return row, step(st, i) + path
			}
		}
	case kindList, kindListView, kindFixedList:
		return findNullInList(d, k, width, st, lo, n, l)
	case kindSparse, kindDense:
		return findNullInUnion(d, k, st.(arrow.UnionType), abs, n, l)
	case kindRunEnd:
		first, end := runRange(d, abs, n)
		runs := l.runs(d, abs, n, first, end)
		run, path := findNull(d.Children()[1], child(st, 1).Type, first, end-first, runs, requiredChild(st, 1))
		return rowOfRun(d, abs, first, run), path
	case kindDict:
		return findNullInDictionary(d, st.(*arrow.DictionaryType), abs, n, l)
	}
	return -1, ""
}

// and returns l without the rows that d's own bitmap has as null.
func (l live) and(d arrow.ArrayData, k kind, abs, n int) live {
	if !k.hasValidity() {
		return l
	}
	valid := validityOf(d)
	if valid == nil || bitutil.CountSetBits(valid, abs, n) == n {
		return l
	}
	own := make(live, n)
	for i := range own {
		own[i] = l.at(i) && bitutil.BitIsSet(valid, abs+i)
	}
	return own
}

// runs maps l from rows to the runs [first, end).
func (l live) runs(d arrow.ArrayData, abs, n, first, end int) live {
	if l == nil {
		return nil
	}
	out := make(live, end-first)
	for i := range n {
		if l[i] {
			out[encoded.FindPhysicalIndex(d, abs+i)-first] = true
		}
	}
	return out
}

// rowOfRun returns the first row from abs on that falls into the given run.
func rowOfRun(d arrow.ArrayData, abs, first, run int) int {
	if run <= 0 {
		return run
	}
	return int(encoded.GetRunEnds(d.Children()[0])(int64(first+run-1))) - abs
}

// firstNull returns the first live row of [lo, lo+n) that has no value, or -1. It
// sees through encodings: a run of null, an index to null and a union's null are
// nulls of the column.
func firstNull(d arrow.ArrayData, dt arrow.DataType, lo, n int, l live) int {
	k, _, st := layoutOf(dt)
	abs := d.Offset() + lo
	if k.hasValidity() {
		if valid := validityOf(d); valid != nil && bitutil.CountSetBits(valid, abs, n) != n {
			for i := range n {
				if l.at(i) && bitutil.BitIsNotSet(valid, abs+i) {
					return i
				}
			}
		}
	}
	switch k {
	case kindNull:
		for i := range n {
			if l.at(i) {
				return i
			}
		}
	case kindRunEnd:
		first, end := runRange(d, abs, n)
		return rowOfRun(d, abs, first, firstNull(d.Children()[1], child(st, 1).Type, first, end-first, l.runs(d, abs, n, first, end)))
	case kindDict:
		return firstIn(dictionaryHits(d, st.(*arrow.DictionaryType), abs, n, l.and(d, k, abs, n)), func(hits live) int {
			dict := dictionaryOf(d)
			return firstNull(dict, dict.DataType(), 0, dict.Len(), hits)
		})
	case kindSparse, kindDense:
		best := -1
		for i, c := range d.Children() {
			row := unionHits(d, k, st.(arrow.UnionType), i, abs, n, l).first(func(lo, n int, hits live) int {
				return firstNull(c, child(st, i).Type, lo, n, hits)
			})
			if row >= 0 && (best < 0 || row < best) {
				best = row
			}
		}
		return best
	}
	return -1
}

// hits are the live values of a child that rows refer to, with the way back.
type hits struct {
	lo, n int
	live  live
	row   func(value int) int // row of a value in [0, n)
}

// first calls find for the child's values and returns the row of what it found.
func (h hits) first(find func(lo, n int, l live) int) int {
	if h.n == 0 {
		return -1
	}
	value := find(h.lo, h.n, h.live)
	if value < 0 {
		return -1
	}
	return h.row(value)
}

func firstIn(h hits, find func(live) int) int {
	return h.first(func(_, _ int, l live) int { return find(l) })
}

func findNullInList(d arrow.ArrayData, k kind, width int, dt arrow.DataType, lo, n int, l live) (int, string) {
	first, end := childRange(d, k, width, lo, n)
	if first == end {
		return -1, ""
	}
	abs := d.Offset() + lo
	span := func(i int) (from, to int) {
		if k != kindListView {
			return childRange(d, k, width, lo+i, 1)
		}
		off, size := listView(d, width, abs+i)
		return int(off), int(off + size)
	}
	var values live
	if l != nil || k == kindListView {
		values = make(live, end-first)
		for i := range n {
			if !l.at(i) {
				continue
			}
			for from, to := span(i); from < to; from++ {
				values[from-first] = true
			}
		}
	}
	c, f := d.Children()[0], child(dt, 0)
	value, path := findNull(c, f.Type, first, end-first, values, requiredChild(dt, 0))
	if value < 0 {
		return -1, ""
	}
	value += first
	var row int
	if k == kindListView {
		for row = range n {
			if from, to := span(row); l.at(row) && from <= value && value < to {
				break
			}
		}
	} else {
		row = sort.Search(n, func(i int) bool { _, to := span(i); return to > value })
	}
	return row, step(dt, 0) + path
}

// unionHits returns the values of child i that the live rows of a union select.
func unionHits(d arrow.ArrayData, k kind, dt arrow.UnionType, i, abs, n int, l live) hits {
	code, codes := dt.TypeCodes()[i], typeCodes(d, abs, n)
	if k == kindSparse {
		h := hits{lo: abs, n: n, live: make(live, n), row: func(v int) int { return v }}
		for row, c := range codes {
			h.live[row] = c == code && l.at(row)
		}
		return h
	}
	lo, end := denseRange(d, dt, i, abs, n)
	value := func(row int) int { return int(int32s(d, 2, abs+row, 1)[0]) - lo }
	h := hits{lo: lo, n: end - lo, live: make(live, end-lo)}
	for row, c := range codes {
		if c == code && l.at(row) {
			h.live[value(row)] = true
		}
	}
	h.row = func(v int) int {
		for row, c := range codes {
			if c == code && l.at(row) && value(row) == v {
				return row
			}
		}
		return -1
	}
	return h
}

func findNullInUnion(d arrow.ArrayData, k kind, dt arrow.UnionType, abs, n int, l live) (int, string) {
	for i, c := range d.Children() {
		var path string
		row := unionHits(d, k, dt, i, abs, n, l).first(func(lo, n int, hits live) (value int) {
			value, path = findNull(c, child(dt, i).Type, lo, n, hits, requiredChild(dt, i))
			return value
		})
		if row >= 0 {
			return row, step(dt, i) + path
		}
	}
	return -1, ""
}

// dictionaryHits returns the dictionary's values that live rows, all of them
// valid, refer to. Without nulls in the dictionary nothing is to be found.
func dictionaryHits(d arrow.ArrayData, dt *arrow.DictionaryType, abs, n int, l live) hits {
	dict := dictionaryOf(d)
	if n == 0 || dict == nil {
		return hits{}
	}
	index := func(row int) int { return dictIndex(d, dt.IndexType.ID(), abs+row) }
	if k, _, _ := layoutOf(dt.ValueType); k.flat() && k != kindNull && validityOf(dict) == nil {
		return hits{}
	}
	h := hits{n: dict.Len(), live: make(live, dict.Len())}
	for row := range n {
		if l.at(row) {
			h.live[index(row)] = true
		}
	}
	h.row = func(v int) int {
		for row := range n {
			if l.at(row) && index(row) == v {
				return row
			}
		}
		return -1
	}
	return h
}

func findNullInDictionary(d arrow.ArrayData, dt *arrow.DictionaryType, abs, n int, l live) (int, string) {
	var path string
	row := firstIn(dictionaryHits(d, dt, abs, n, l), func(hits live) (value int) {
		dict := dictionaryOf(d)
		value, path = findNull(dict, dt.ValueType, 0, dict.Len(), hits, false)
		return value
	})
	return row, path
}
