package index

import (
	"github.com/tidwall/btree"

	"github.com/memwal/memwal-go/internal/keys"
)

// Range is a part of an index's order. The zero Range is all of it.
//
// A bound has one value for each of the first columns of the index, at least one,
// and includes every row that is equal to it in these columns, unless it is open.
// No values: no bound. Values must be exactly of the columns' types.
//
// Nulls are first in the order, and match as in SQL: a row is left out where a
// column that a bound has to be compared with is null. So a Range with a bound
// leaves out rows whose first column is null, and one without has them. A nil
// among the values stands for the nulls themselves: Low and High both {nil}
// gives just the rows with a null, and a Low of {nil} lets them in.
type Range struct {
	Low, High         []any
	LowOpen, HighOpen bool // leave out rows equal to the bound
	Reverse           bool // from the highest to the lowest
}

// scan is a Range bound to an index.
type scan struct {
	low, high *edge // nil: no end
	gaps      []gap // parts between them that are left out
	reverse   bool
	bound     uint32
}

// gap is a part of the order between two edges.
type gap struct{ from, to edge }

func newScan(c *keys.Codec, r Range, bound uint32) (*scan, error) {
	s := &scan{reverse: r.Reverse, bound: bound}
	if len(r.Low) > 0 {
		key, err := c.AppendPrefix(nil, r.Low)
		if err != nil {
			return nil, err
		}
		s.low = &edge{key, r.LowOpen}
	}
	if len(r.High) > 0 {
		key, err := c.AppendPrefix(nil, r.High)
		if err != nil {
			return nil, err
		}
		s.high = &edge{key, !r.HighOpen}
		if err := s.leaveOutNulls(c, r); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// leaveOutNulls keeps out the rows below the high bound that are equal to it in
// some columns and null in the next: whether they are below is unknown. (Those
// around the low bound sort below it anyway.)
func (s *scan) leaveOutNulls(c *keys.Codec, r Range) error {
	for i, v := range r.High {
		asked := v == nil || i < len(r.Low) && r.Low[i] == nil
		if asked {
			continue
		}
		if i == 0 {
			if s.low == nil {
				s.low = new(edge)
			}
			continue
		}
		vals := append(append([]any(nil), r.High[:i]...), nil)
		key, err := c.AppendPrefix(nil, vals)
		if err != nil {
			return err
		}
		s.gaps = append(s.gaps, gap{edge{key, false}, edge{key, true}})
	}
	return nil
}

// path is a scan placed in one tree.
type path struct {
	it        btree.IterG[item]
	low, high *placed
	gaps      []placedGap
	reverse   bool
}

type placedGap struct{ from, to *placed }

func (s *scan) place(l lead) *path {
	p := &path{reverse: s.reverse}
	if s.low != nil {
		p.low = s.low.place(l)
	}
	if s.high != nil {
		p.high = s.high.place(l)
	}
	for i := range s.gaps {
		p.gaps = append(p.gaps, placedGap{s.gaps[i].from.place(l), s.gaps[i].to.place(l)})
	}
	return p
}

// run yields the live slots of the scan, until yield returns false.
func (o *ordered) run(s *scan, yield func(uint32) bool) {
	r := o.at(s.bound)
	p := s.place(r.lead)
	p.it.Init(r.tree, false)
	defer p.it.Release()
	for ok := o.start(p); ok; {
		x := p.it.Item()
		if o.past(p, x) {
			return
		}
		if g := o.gapOf(p, x); g != nil {
			ok = o.leave(p, g)
			continue
		}
		if o.live(x.slot, s.bound) && !yield(x.slot) {
			return
		}
		if p.reverse {
			ok = p.it.Prev()
		} else {
			ok = p.it.Next()
		}
	}
}

func (o *ordered) start(p *path) bool {
	if p.reverse {
		return o.seekBefore(&p.it, p.high)
	}
	return o.seekAfter(&p.it, p.low)
}

// past tells whether an item lies beyond the end that the scan runs towards.
func (o *ordered) past(p *path, x item) bool {
	if p.reverse {
		return p.low != nil && o.compareEdge(p.low, x) > 0
	}
	return p.high != nil && o.compareEdge(p.high, x) < 0
}

func (o *ordered) gapOf(p *path, x item) *placedGap {
	for i := range p.gaps {
		if g := &p.gaps[i]; o.compareEdge(g.from, x) < 0 && o.compareEdge(g.to, x) > 0 {
			return g
		}
	}
	return nil
}

func (o *ordered) leave(p *path, g *placedGap) bool {
	if p.reverse {
		return o.seekBefore(&p.it, g.from)
	}
	return o.seekAfter(&p.it, g.to)
}

// seekAfter moves to the first item behind an edge; nil: the first of all.
func (o *ordered) seekAfter(it *btree.IterG[item], e *placed) bool {
	if e == nil {
		return it.First()
	}
	at := o.edges.acquire(e)
	defer o.edges.release(at)
	return it.Seek(at)
}

// seekBefore moves to the last item before an edge; nil: the last of all.
func (o *ordered) seekBefore(it *btree.IterG[item], e *placed) bool {
	if e == nil {
		return it.Last()
	}
	if o.seekAfter(it, e) {
		return it.Prev()
	}
	// Every item is before the edge. (Prev after a failed Seek would skip one.)
	return it.Last()
}
