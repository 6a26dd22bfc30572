package filter

// Bound is a condition on one column that every match fulfils: it is one of Pins,
// or, without Pins, in an interval. Go values are those that the
// filter was built of, so an index over the column takes them (unless they are too
// long for a key). A single nil among Pins is the null of "is null".
type Bound struct {
	Column            int   // position in the schema
	Pins              []any // no two equal
	Low, High         any   // nil: no bound
	LowOpen, HighOpen bool
}

// Never tells that no row can match.
func (p *Program) Never() bool { return p.root.kind == predNever }

// Always tells that every row matches.
func (p *Program) Always() bool { return p.root.kind == predAlways }

// Bounds are the conditions on single columns that hold for every match. They may
// not be all that the filter asks for.
func (p *Program) Bounds() []Bound {
	parts := []*pred{p.root}
	if p.root.kind == predAnd {
		parts = p.root.args
	}
	var out []Bound
	for _, q := range parts {
		if q.negate {
			continue
		}
		switch q.kind {
		case predSet:
			b := Bound{Column: q.col.index}
			for _, k := range q.members {
				b.Pins = append(b.Pins, k.val)
			}
			out = append(out, b)
		case predInterval:
			out = append(out, q.bound())
		case predNull:
			out = append(out, Bound{Column: q.col.index, Pins: []any{nil}})
		}
	}
	return out
}

func (p *pred) bound() Bound {
	b := Bound{Column: p.col.index}
	if p.low.set {
		b.Low, b.LowOpen = p.low.val, p.low.open
	}
	if p.high.set {
		b.High, b.HighOpen = p.high.val, p.high.open
	}
	if p.pinned() {
		b = Bound{Column: p.col.index, Pins: []any{p.low.val}}
	}
	return b
}
