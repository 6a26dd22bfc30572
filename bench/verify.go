package main

import (
	"errors"
	"fmt"
	"iter"
	"math/bits"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// errDiffers is what every differenceError matches.
var errDiffers = errors.New("the rows read back differ from the input")

// differenceError counts the differences and names the first.
type differenceError struct {
	Lost, Twice, Altered, Foreign int64
	First                         string
}

func (e *differenceError) Error() string {
	var parts []string
	for _, p := range []struct {
		n    int64
		what string
	}{{e.Lost, "lost"}, {e.Twice, "there more than once"}, {e.Altered, "altered"}, {e.Foreign, "not in the input"}} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%s %s", group(p.n), p.what))
		}
	}
	return fmt.Sprintf("%v: %s; first: %s", errDiffers, strings.Join(parts, ", "), e.First)
}

func (e *differenceError) Is(target error) bool { return target == errDiffers }

// rows is a set of rows that can be read any number of times. Each batch
// belongs to the receiver.
type rows func() iter.Seq2[arrow.RecordBatch, error]

// check is how rows are compared.
type check struct {
	schema  *arrow.Schema
	key     []string // of the table; none: rows are a multiset
	unique  bool     // no two rows of the input have the same key
	ordered bool     // of the rows with one key the last one wins; else any may
}

// verify compares got with want, every value of every row, in any order, and
// returns the number of rows that agree. The error is a differenceError unless
// reading failed.
//
// At first it compares sums of 128-bit hashes of whole rows, which takes no
// memory and does not depend on order. Only if these differ, or keys may repeat
// in the input, so that not every row of it is to be found, rows are joined.
func (c *check) verify(want, got rows) (int64, error) {
	seeds := newSeeds()
	if len(c.key) == 0 || c.unique {
		w, err := c.sum(seeds, want)
		if err != nil {
			return 0, fmt.Errorf("read the input again: %w", err)
		}
		g, err := c.sum(seeds, got)
		if err != nil {
			return 0, fmt.Errorf("read the rows back: %w", err)
		}
		if w == g {
			return g.n, nil
		}
	}
	return c.join(seeds, want, got)
}

// sum is a fingerprint of a multiset of rows.
type sum struct {
	n      int64
	hi, lo uint64
}

func (c *check) sum(seeds seeds, r rows) (sum, error) {
	var s sum
	err := c.each(r, func(rec arrow.RecordBatch) error {
		h, err := newHasher(seeds, rec, nil)
		if err != nil {
			return err
		}
		for i := range int(rec.NumRows()) {
			d := h.row(i)
			var carry uint64
			s.lo, carry = bits.Add64(s.lo, d.lo, 0)
			s.hi, _ = bits.Add64(s.hi, d.hi, carry)
		}
		s.n += rec.NumRows()
		return nil
	})
	return s, err
}

// each calls use with every batch of r, which must have the schema's columns.
func (c *check) each(r rows, use func(arrow.RecordBatch) error) error {
	for rec, err := range r() {
		if err != nil {
			return err
		}
		err := c.sameColumns(rec.Schema())
		if err == nil {
			err = use(rec)
		}
		rec.Release()
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *check) sameColumns(s *arrow.Schema) error {
	if s.NumFields() != c.schema.NumFields() {
		return fmt.Errorf("%w: they have %d columns, %s, instead of %d, %s", errDiffers,
			s.NumFields(), quoted(fieldNames(s)), c.schema.NumFields(), quoted(fieldNames(c.schema)))
	}
	for i, want := range c.schema.Fields() {
		if got := s.Field(i); got.Name != want.Name || !arrow.TypeEqual(got.Type, want.Type) {
			return fmt.Errorf("%w: column %d is %q of type %v instead of %q of type %v", errDiffers, i, got.Name, got.Type, want.Name, want.Type)
		}
	}
	return nil
}

// entry is one row of a join.
type entry struct {
	key, row digest
	ord      int64 // place in its set
}

func (c *check) entries(seeds seeds, r rows) ([]entry, error) {
	var keys []int
	for _, k := range c.key {
		keys = append(keys, c.schema.FieldIndices(k)...)
	}
	var list []entry
	err := c.each(r, func(rec arrow.RecordBatch) error {
		whole, err := newHasher(seeds, rec, nil)
		if err != nil {
			return err
		}
		key, err := newHasher(seeds, rec, keys)
		if err != nil {
			return err
		}
		for i := range int(rec.NumRows()) {
			e := entry{row: whole.row(i), ord: int64(len(list))}
			e.key = e.row // without a key the whole row is it
			if len(keys) > 0 {
				e.key = key.row(i)
			}
			list = append(list, e)
		}
		return nil
	})
	slices.SortFunc(list, func(a, b entry) int {
		if o := a.key.compare(b.key); o != 0 {
			return o
		}
		return int(a.ord - b.ord)
	})
	return list, err
}

// differences collects what a join finds. The first of each kind is the one
// with the lowest place in its set.
type differences struct {
	differenceError
	lost, foreign        *entry
	twice, alteredOf     *entry // in the input
	twiceGot, alteredGot *entry // as read back
}

// join pairs rows by key, or by all their values where there is none.
func (c *check) join(seeds seeds, want, got rows) (int64, error) {
	w, err := c.entries(seeds, want)
	if err != nil {
		return 0, fmt.Errorf("read the input again: %w", err)
	}
	g, err := c.entries(seeds, got)
	if err != nil {
		return 0, fmt.Errorf("read the rows back: %w", err)
	}
	var d differences
	var equal int64
	for len(w) > 0 || len(g) > 0 {
		k := lowest(w, g)
		ws, gs := run(&w, k), run(&g, k)
		equal += c.pair(&d, ws, gs)
	}
	if d.Lost+d.Twice+d.Altered+d.Foreign == 0 {
		return equal, nil
	}
	if d.First, err = c.describe(&d, want, got); err != nil {
		return equal, err
	}
	return equal, &d.differenceError
}

// pair compares the rows of one key and returns how many agree.
func (c *check) pair(d *differences, w, g []entry) int64 {
	expect := len(w)
	if len(c.key) > 0 {
		expect = min(1, len(w)) // one version of each key
	}
	switch {
	case expect == 0:
		d.Foreign += int64(len(g))
		earliest(&d.foreign, &g[0])
	case len(g) < expect:
		d.Lost += int64(expect - len(g))
		earliest(&d.lost, &w[len(g)])
	case len(g) > expect:
		d.Twice += int64(len(g) - expect)
		if earliest(&d.twice, &w[0]) {
			d.twiceGot = &g[len(g)-1]
		}
	}
	if len(c.key) == 0 {
		return int64(min(len(w), len(g)))
	}
	if expect == 0 || len(g) == 0 {
		return 0
	}
	allowed := w
	if c.ordered {
		allowed = w[len(w)-1:]
	}
	for i := range g {
		if !slices.ContainsFunc(allowed, func(e entry) bool { return e.row == g[i].row }) {
			d.Altered++
			if earliest(&d.alteredOf, &allowed[len(allowed)-1]) {
				d.alteredGot = &g[i]
			}
			return 0
		}
	}
	return 1
}

// earliest keeps the entry that comes first in its set.
func earliest(first **entry, e *entry) bool {
	if *first == nil || e.ord < (*first).ord {
		*first = e
		return true
	}
	return false
}

func lowest(w, g []entry) digest {
	switch {
	case len(w) == 0:
		return g[0].key
	case len(g) == 0 || w[0].key.compare(g[0].key) < 0:
		return w[0].key
	default:
		return g[0].key
	}
}

// run cuts the entries with key k off the front of list.
func run(list *[]entry, k digest) []entry {
	n := 0
	for n < len(*list) && (*list)[n].key == k {
		n++
	}
	head := (*list)[:n]
	*list = (*list)[n:]
	return head
}

// describe reads the rows of the first difference again, to show their values.
func (c *check) describe(d *differences, want, got rows) (string, error) {
	in := func(e *entry) (arrow.RecordBatch, string, error) { return fetch(want, e.ord) }
	back := func(e *entry) (arrow.RecordBatch, string, error) { return fetch(got, e.ord) }
	switch {
	case d.alteredOf != nil && before(d.alteredOf, d.lost) && before(d.alteredOf, d.twice):
		w, _, err := in(d.alteredOf)
		if err != nil {
			return "", err
		}
		defer w.Release()
		g, _, err := back(d.alteredGot)
		if err != nil {
			return "", err
		}
		defer g.Release()
		return fmt.Sprintf("input row %d (%s) was altered: %s", d.alteredOf.ord, c.keyText(w), difference(w, g)), nil
	case d.lost != nil && before(d.lost, d.twice):
		rec, text, err := in(d.lost)
		if err != nil {
			return "", err
		}
		rec.Release()
		return fmt.Sprintf("input row %d was not read back: %s%s", d.lost.ord, text, c.besides(d, got)), nil
	case d.twice != nil:
		rec, text, err := in(d.twice)
		if err != nil {
			return "", err
		}
		rec.Release()
		return fmt.Sprintf("input row %d was read back too often, the last time at place %d: %s", d.twice.ord, d.twiceGot.ord, text), nil
	default:
		rec, text, err := back(d.foreign)
		if err != nil {
			return "", err
		}
		rec.Release()
		return fmt.Sprintf("the row read back at place %d is not in the input: %s", d.foreign.ord, text), nil
	}
}

// besides shows the first row that is not in the input, if any: without a key,
// an altered row is one lost and one foreign.
func (c *check) besides(d *differences, got rows) string {
	if d.foreign == nil {
		return ""
	}
	rec, text, err := fetch(got, d.foreign.ord)
	if err != nil {
		return ""
	}
	rec.Release()
	return fmt.Sprintf("; and the row read back at place %d is not in the input: %s", d.foreign.ord, text)
}

func before(a, b *entry) bool { return b == nil || a.ord <= b.ord }

// fetch returns row ord of r, and its values as text.
func fetch(r rows, ord int64) (arrow.RecordBatch, string, error) {
	for rec, err := range r() {
		if err != nil {
			return nil, "", err
		}
		if ord < rec.NumRows() {
			row := rec.NewSlice(ord, ord+1)
			rec.Release()
			return row, rowText(row), nil
		}
		ord -= rec.NumRows()
		rec.Release()
	}
	return nil, "", fmt.Errorf("row %d cannot be read again", ord)
}

// keyText shows the key of a batch of one row.
func (c *check) keyText(rec arrow.RecordBatch) string {
	var parts []string
	for _, k := range c.key {
		parts = append(parts, fmt.Sprintf("%s=%s", k, valueText(rec.Column(rec.Schema().FieldIndices(k)[0]))))
	}
	return strings.Join(parts, ", ")
}

// difference shows the first column in which two batches of one row differ.
func difference(want, got arrow.RecordBatch) string {
	for i, w := range want.Columns() {
		if g := got.Column(i); !array.Equal(w, g) {
			return fmt.Sprintf("column %q is %s, the input has %s", want.ColumnName(i), valueText(g), valueText(w))
		}
	}
	return fmt.Sprintf("%s instead of %s", rowText(got), rowText(want))
}

func rowText(rec arrow.RecordBatch) string {
	parts := make([]string, rec.NumCols())
	for i, c := range rec.Columns() {
		parts[i] = fmt.Sprintf("%s=%s", rec.ColumnName(i), valueText(c))
	}
	return strings.Join(parts, ", ")
}

// valueText is the first value of a, of bounded length.
func valueText(a arrow.Array) string {
	if a.IsNull(0) {
		return "null"
	}
	s := a.ValueStr(0)
	if r := []rune(s); len(r) > 80 {
		s = string(r[:80]) + "…"
	}
	return s
}
