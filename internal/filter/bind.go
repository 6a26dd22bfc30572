package filter

import (
	"bytes"
	"cmp"
	"errors"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
)

// Program is a filter bound to a schema. Immutable.
type Program struct {
	root *pred
}

// Bind checks a filter against a schema. Every part that does not fit is reported,
// each by an *Error, joined. Columns are found by position from then on.
func Bind(schema *arrow.Schema, e *Expr) (*Program, error) {
	if e.tooLarge() {
		return nil, &SizeError{Depth: e.depth, Parts: e.parts}
	}
	b := &binder{schema: schema}
	root := b.bind(e, false)
	if len(b.errs) > 0 {
		return nil, errors.Join(b.errs...)
	}
	return &Program{root: root}, nil
}

// predKind is what a node of a bound filter does.
type predKind uint8

const (
	predNever  predKind = iota // false or unknown for all rows
	predAlways                 // true for all rows
	predAnd
	predOr
	predNull     // the column is null
	predNotNull  // it is not
	predInterval // it is not null and in an interval; negated: not null and outside
	predSet      // it is not null and one of a set; negated: not null and none of it
)

// pred is a node of a bound filter. There is no "not": see the package comment.
type pred struct {
	kind   predKind
	args   []*pred // of and, or
	col    *column // of the others
	negate bool

	low, high end // of an interval
	// The interval over words: lo <= hi, both in it.
	lo, hi uint64

	members []constant // of a set, in order, no two equal
	words   *wordSet
	texts   map[string]struct{}

	prefix []byte // of an interval that is just this prefix, or nil
}

// end is an end of an interval.
type end struct {
	set  bool
	open bool // the value itself is outside
	constant
}

var (
	never  = &pred{kind: predNever}
	always = &pred{kind: predAlways}
)

type binder struct {
	schema *arrow.Schema
	errs   []error
}

func (b *binder) fail(err *Error) *pred {
	b.errs = append(b.errs, err)
	return never
}

// bind makes what is true where e is true; negated, where e is false.
func (b *binder) bind(e *Expr, negate bool) *pred {
	switch e.op {
	case OpNot:
		return b.bind(e.args[0], !negate)
	case OpAnd, OpOr:
		args := make([]*pred, len(e.args))
		for i, a := range e.args {
			args[i] = b.bind(a, negate)
		}
		if (e.op == OpAnd) != negate {
			return allOf(args)
		}
		return anyOf(args)
	}
	index := b.schema.FieldIndices(e.column)
	if len(index) == 0 {
		return b.fail(&Error{Reason: UnknownColumn, Op: e.op, Column: e.column})
	}
	if e.op == OpIsNull {
		kind := predNull
		if negate {
			kind = predNotNull
		}
		return &pred{kind: kind, col: &column{index: index[0], field: b.schema.Field(index[0])}}
	}
	c, err := bindColumn(b.schema, index[0], e.op)
	if err != nil {
		return b.fail(err)
	}
	values, null, ok := b.constants(c, e)
	if !ok {
		return never
	}
	switch e.op {
	case OpIn:
		return bindIn(c, values, null, negate)
	case OpBetween:
		// One side may be decided where the other is unknown.
		return b.between(c, e, negate)
	}
	if null {
		return never
	}
	if e.op == OpPrefix {
		return bindPrefix(c, values[0], negate)
	}
	return compare(c, e.op, values[0], negate)
}

// constants converts the values of a leaf that are not null.
func (b *binder) constants(c *column, e *Expr) (values []constant, null, ok bool) {
	if e.op == OpPrefix && !c.text && c.base.ID() != arrow.FIXED_SIZE_BINARY {
		b.fail(&Error{Reason: NotComparable, Op: e.op, Column: c.field.Name, Type: c.field.Type, Want: "text or binary"})
		return nil, false, false
	}
	ok = true
	for _, v := range e.values {
		if v == nil {
			null = true
			continue
		}
		k, err := c.constantOf(e.op, v)
		if err != nil {
			b.fail(err)
			ok = false
		}
		values = append(values, k)
	}
	return values, null, ok
}

// constantOf is constant, but a prefix of fixed-size binary may be shorter than it.
func (c *column) constantOf(op Op, v any) (constant, *Error) {
	if op != OpPrefix || c.text {
		return c.constant(op, v)
	}
	raw, ok := bytesOf(v)
	if !ok {
		return constant{}, &Error{Reason: WrongType, Op: op, Column: c.field.Name, Type: c.field.Type, Value: v, Want: "string or []byte"}
	}
	return constant{val: v, bytes: raw}, nil
}

func (b *binder) between(c *column, e *Expr, negate bool) *pred {
	var args [2]*pred
	for i, op := range []Op{OpGe, OpLe} {
		args[i] = never
		if e.values[i] != nil {
			k, _ := c.constant(op, e.values[i]) // it was converted once
			args[i] = compare(c, op, k, negate)
		}
	}
	if negate {
		return anyOf(args[:])
	}
	return allOf(args[:])
}

func compare(c *column, op Op, k constant, negate bool) *pred {
	p := &pred{kind: predInterval, col: c}
	switch op {
	case OpEq, OpNe:
		p.low, p.high = end{set: true, constant: k}, end{set: true, constant: k}
		p.negate = negate != (op == OpNe)
		return p.settle()
	}
	// The negation of a one-sided comparison is the other one: nulls match neither.
	if negate {
		op = map[Op]Op{OpLt: OpGe, OpGe: OpLt, OpLe: OpGt, OpGt: OpLe}[op]
	}
	e := end{set: true, open: op == OpLt || op == OpGt, constant: k}
	if op == OpLt || op == OpLe {
		p.high = e
	} else {
		p.low = e
	}
	return p.settle()
}

// bindPrefix makes an interval: from the prefix up to the first text after all that
// begin with it.
func bindPrefix(c *column, k constant, negate bool) *pred {
	p := &pred{kind: predInterval, col: c, negate: negate, low: end{set: true, constant: k}, prefix: k.bytes}
	after := slices.Clone(k.bytes)
	for n := len(after); n > 0; n-- {
		if after[n-1] != 0xff {
			after = after[:n]
			after[n-1]++
			p.high = end{set: true, open: true, constant: constant{val: after, bytes: after}}
			break
		}
	}
	return p.settle()
}

func bindIn(c *column, values []constant, null, negate bool) *pred {
	if null && negate {
		return never // false where it is a member, unknown elsewhere
	}
	if len(values) == 0 {
		if negate {
			return always
		}
		return never
	}
	values = slices.Clone(values)
	slices.SortStableFunc(values, c.compareConstants)
	values = slices.CompactFunc(values, func(a, b constant) bool { return c.compareConstants(a, b) == 0 })
	if len(values) == 1 {
		return compare(c, OpEq, values[0], negate)
	}
	p := &pred{kind: predSet, col: c, negate: negate, members: values}
	if c.form == formWord {
		words := make([]uint64, len(values))
		for i, k := range values {
			words[i] = k.word
		}
		p.words = newWordSet(words)
	} else {
		p.texts = make(map[string]struct{}, len(values))
		for _, k := range values {
			p.texts[string(k.bytes)] = struct{}{}
		}
	}
	return p
}

func (c *column) compareConstants(a, b constant) int {
	if c.form == formBytes {
		return bytes.Compare(a.bytes, b.bytes)
	}
	return cmp.Compare(a.word, b.word)
}

// settle derives the words of an interval, and finds it empty.
func (p *pred) settle() *pred {
	empty := false
	if p.col.form == formWord {
		p.lo, p.hi = 0, maxWord(p.col.width)
		if p.low.set {
			p.lo = p.low.word
			if empty = p.low.open && p.lo == p.hi; p.low.open && !empty {
				p.lo++
			}
		}
		if p.high.set {
			top := p.high.word
			if p.high.open && top == 0 {
				empty = true
			} else if p.high.open {
				top--
			}
			p.hi = top
		}
		empty = empty || p.lo > p.hi
	} else if p.low.set && p.high.set {
		d := bytes.Compare(p.low.bytes, p.high.bytes)
		empty = d > 0 || d == 0 && (p.low.open || p.high.open)
	}
	switch {
	case !empty:
		return p
	case p.negate:
		return &pred{kind: predNotNull, col: p.col}
	}
	return never
}

// allOf and anyOf flatten, and leave out what decides nothing.
func allOf(args []*pred) *pred {
	var out []*pred
	for _, a := range flatten(predAnd, args) {
		switch {
		case a.kind == predNever:
			return never
		case a.kind == predAlways:
			continue
		case a.kind == predInterval && !a.negate:
			if i := slices.IndexFunc(out, func(o *pred) bool {
				return o.kind == predInterval && !o.negate && o.col.index == a.col.index
			}); i >= 0 {
				if out[i] = intersect(out[i], a); out[i] == never {
					return never
				}
				continue
			}
		}
		out = append(out, a)
	}
	switch len(out) {
	case 0:
		return always
	case 1:
		return out[0]
	}
	return &pred{kind: predAnd, args: out}
}

func anyOf(args []*pred) *pred {
	var out []*pred
	for _, a := range joinPins(flatten(predOr, args)) {
		switch a.kind {
		case predAlways:
			return always
		case predNever:
			continue
		}
		out = append(out, a)
	}
	switch len(out) {
	case 0:
		return never
	case 1:
		return out[0]
	}
	return &pred{kind: predOr, args: out}
}

// joinPins makes one set of all parts that say which values one column may have: so that
// x = 1 or x = 2 is what x in (1, 2) is, to an index as well.
func joinPins(args []*pred) []*pred {
	pins := make(map[int][]constant) // by column
	for _, a := range args {
		if k := a.pins(); k != nil {
			pins[a.col.index] = append(pins[a.col.index], k...)
		}
	}
	var out []*pred
	for _, a := range args {
		k := a.pins()
		if k == nil {
			out = append(out, a)
			continue
		}
		all, first := pins[a.col.index]
		if !first {
			continue // it is in the one before
		}
		delete(pins, a.col.index)
		if len(all) > len(k) {
			a = bindIn(a.col, all, false, false)
		}
		out = append(out, a)
	}
	return out
}

// pins are the values that a leaf allows, or nil if it is none that lists them.
func (p *pred) pins() []constant {
	switch {
	case p.negate:
	case p.kind == predSet:
		return p.members
	case p.kind == predInterval && p.pinned():
		return []constant{p.low.constant}
	}
	return nil
}

// pinned tells whether an interval has one value.
func (p *pred) pinned() bool {
	return p.low.set && p.high.set && !p.low.open && !p.high.open && p.col.compareConstants(p.low.constant, p.high.constant) == 0
}

func flatten(kind predKind, args []*pred) []*pred {
	var out []*pred
	for _, a := range args {
		if a.kind == kind {
			out = append(out, a.args...) // they are flat
		} else {
			out = append(out, a)
		}
	}
	return out
}

func intersect(a, b *pred) *pred {
	c := a.col
	p := &pred{kind: predInterval, col: c, low: a.low, high: a.high}
	if b.low.set {
		d := 1
		if p.low.set {
			d = c.compareConstants(b.low.constant, p.low.constant)
		}
		if d > 0 || d == 0 && b.low.open {
			p.low = b.low
		}
	}
	if b.high.set {
		d := -1
		if p.high.set {
			d = c.compareConstants(b.high.constant, p.high.constant)
		}
		if d < 0 || d == 0 && b.high.open {
			p.high = b.high
		}
	}
	return p.settle()
}
