package filter

import (
	"math"

	"github.com/apache/arrow-go/v18/arrow"
)

// Block is how many rows are evaluated at a time: enough to make what is done once
// a block disappear, few enough that two columns of them stay in the cache.
const Block = 4096

// Mask has a bit for each row of a block: that of row i in word i/64.
type Mask [Block / 64]uint64

// Evaluator evaluates a Program. It is for one goroutine.
type Evaluator struct {
	root    *pred
	free    []*Mask
	scratch [32]byte // an encoded decimal
}

// NewEvaluator returns an evaluator with scratch of its own.
func (p *Program) NewEvaluator() *Evaluator { return &Evaluator{root: p.root} }

// Matches tells whether the filter is true for a row of a batch.
func (e *Evaluator) Matches(rec arrow.RecordBatch, row int) bool {
	m := e.take()
	defer e.give(m)
	e.eval(e.root, m, rec, row, 1)
	return m[0] != 0
}

// Select sets the bits of the matches among n <= Block rows from a row on, and returns
// the words that they need. The bits behind them are 0.
func (e *Evaluator) Select(m *Mask, rec arrow.RecordBatch, from, n int) []uint64 {
	if n == 0 {
		return nil
	}
	e.eval(e.root, m, rec, from, n)
	return m[:words(n)]
}

// take and give keep masks for reuse.
func (e *Evaluator) take() *Mask {
	if n := len(e.free); n > 0 {
		m := e.free[n-1]
		e.free = e.free[:n-1]
		return m
	}
	return new(Mask)
}

func (e *Evaluator) give(m *Mask) { e.free = append(e.free, m) }

// words is how many words n bits need.
func words(n int) int { return (n + 63) / 64 }

// eval sets, in the first words of m that n rows need, the bit of each row that p
// is true for; the bits behind them are 0.
func (e *Evaluator) eval(p *pred, m *Mask, rec arrow.RecordBatch, from, n int) {
	w := m[:words(n)]
	switch p.kind {
	case predNever:
		clear(w)
	case predAlways:
		fill(w, n)
	case predAnd, predOr:
		e.combine(p, m, rec, from, n)
	case predNull, predNotNull:
		nulls(w, rec.Column(p.col.index), from, n)
		if p.kind == predNotNull {
			invert(w, n)
		}
	default:
		e.leaf(p, w, rec.Column(p.col.index), from, n)
	}
}

// combine evaluates "and" and "or", and ends once nothing can change.
func (e *Evaluator) combine(p *pred, m *Mask, rec arrow.RecordBatch, from, n int) {
	w := m[:words(n)]
	e.eval(p.args[0], m, rec, from, n)
	part := e.take()
	defer e.give(part)
	for _, a := range p.args[1:] {
		if decided(w, n, p.kind == predOr) {
			return
		}
		e.eval(a, part, rec, from, n)
		v := part[:len(w)]
		if p.kind == predAnd {
			for i := range w {
				w[i] &= v[i]
			}
		} else {
			for i := range w {
				w[i] |= v[i]
			}
		}
	}
}

// decided tells whether all n bits are ones, or zeros.
func decided(w []uint64, n int, ones bool) bool {
	if !ones {
		for _, x := range w {
			if x != 0 {
				return false
			}
		}
		return true
	}
	last := len(w) - 1
	for _, x := range w[:last] {
		if x != math.MaxUint64 {
			return false
		}
	}
	return w[last] == tail(n)
}

// tail has the bits of the last word that n rows use.
func tail(n int) uint64 { return math.MaxUint64 >> (63 - (n-1)%64) }

func fill(w []uint64, n int) {
	for i := range w {
		w[i] = math.MaxUint64
	}
	w[len(w)-1] = tail(n)
}

func invert(w []uint64, n int) {
	for i := range w {
		w[i] = ^w[i]
	}
	w[len(w)-1] &= tail(n)
}
