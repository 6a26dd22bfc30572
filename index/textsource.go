package index

import (
	"context"
	"encoding/binary"
	"fmt"
)

// textSource is what a part is searched in: the index of a memtable, or a frozen one.
// It is for one search, by one goroutine, and so is what it returns.
type textSource interface {
	// find is a term of the source; the zero sourceTerm if it does not occur.
	find(word []byte) (sourceTerm, error)
	// termsFrom lists the terms, in their order, from a text on.
	termsFrom(text string) (termList, error)
	// slotLengths tells how many terms slots have.
	slotLengths() lengthReader
	// nextSlot is the first slot at or after slot, below bound, that the source can have
	// documents in; false if there is none.
	nextSlot(slot, bound uint32) (uint32, bool, error)
}

// termList is a place in the dictionary of a source.
type termList interface {
	// word is the term that it is at; false behind the last. It is valid until next.
	word() (string, bool)
	term() (sourceTerm, error)
	next() error
}

// lengthReader gives the number of terms of slots that have some.
type lengthReader interface {
	at(slot uint32) (uint32, error)
}

// textParts opens the parts for one search, which a caller may have put together wrongly.
func (s *Spec) textParts(ctx context.Context, spec *textSpec, parts []Part) ([]textPart, error) {
	out := make([]textPart, 0, len(parts))
	bad := func(i int, format string, a ...any) ([]textPart, error) {
		return nil, fmt.Errorf("%s: %w: part %d %s", place(spec.cfg.Name, ""), ErrInvalid, i, fmt.Sprintf(format, a...))
	}
	for i, p := range parts {
		switch {
		case p.Frozen == nil && p.Set == nil || p.Frozen != nil && p.Frozen.Index == nil:
			return bad(i, "has neither a Set nor a Frozen with an Index")
		case p.Frozen == nil && p.Set.spec != s:
			return bad(i, "has a Set of another Spec")
		case p.Frozen == nil && p.Bound > p.Set.Applied():
			return bad(i, "is bounded at slot %d, but only %d are applied", p.Bound, p.Set.Applied())
		case i > 0 && p.First < out[i-1].end():
			return bad(i, "begins at ordinal %d, but the one before it ends at %d", p.First, out[i-1].end())
		}
		if p.Frozen != nil {
			if err := p.Frozen.check(s, spec); err != nil {
				return nil, err
			}
			if i > 0 && parts[i-1].Frozen == nil {
				return bad(i, "is frozen, and newer than one that is not")
			}
			p.Bound = p.Frozen.Index.Slots()
			out = append(out, textPart{Part: p, source: p.Frozen.Index.search(ctx)})
			continue
		}
		t, err := p.Set.text(spec.cfg.Name)
		if err != nil {
			return nil, err
		}
		hidden, err := p.Set.Shadow(ctx, parts[i+1:]...)
		if err != nil {
			return nil, err
		}
		out = append(out, textPart{Part: p, hidden: hidden, text: t, source: t})
	}
	return out, nil
}

// check reports a part that is of another index, or hides more than there is.
func (p *FrozenPart) check(s *Spec, spec *textSpec) error {
	f := p.Index
	if f.text != spec {
		if err := f.head.expect(s, spec); err != nil {
			return err
		}
	}
	if p.HiddenRows > uint64(f.head.rows) || p.HiddenTerms > f.head.terms || p.Hidden == nil && p.HiddenRows+p.HiddenTerms > 0 {
		return fmt.Errorf("%s: %w: %d rows with %d terms are hidden in a frozen part of %d rows with %d: HiddenRows and HiddenTerms are those of the rows that Hidden is true for",
			place(f.name, ""), ErrInvalid, p.HiddenRows, p.HiddenTerms, f.head.rows, f.head.terms)
	}
	return nil
}

// sourceTerm is a term of a source: at most one of its fields is set.
type sourceTerm struct {
	tail   *term
	frozen *frozenTerm
}

// found tells whether the term occurs, maybe in rows that are not live.
func (t sourceTerm) found() bool { return t.tail != nil || t.frozen != nil }

// rows is the number of rows that have the term; false if they have to be looked at.
func (t sourceTerm) rows() (uint64, bool) {
	if t.frozen != nil {
		return t.frozen.count, true
	}
	return 0, t.tail == nil
}

// postings walks the term. kept tells whether places are kept.
func (t sourceTerm) postings(kept bool) cursor {
	if t.frozen != nil {
		return cursor{frozen: t.frozen.postings()}
	}
	return cursor{tail: t.tail.postings(kept)}
}

// cursor walks the postings of a term, in slot order. It is a struct and no interface
// since its steps are what searches spend their time with.
type cursor struct {
	tail   postings
	frozen *frozenPostings // nil: tail
	slot   uint32
}

// next goes to the next posting. False: there is none, or err.
func (c *cursor) next() bool {
	if c.frozen == nil {
		ok := c.tail.next()
		c.slot = c.tail.slot
		return ok
	}
	ok := c.frozen.next()
	c.slot = c.frozen.slot
	return ok
}

// seek goes to the first posting at or after slot, beyond the one it is at. False:
// there is none, or err.
func (c *cursor) seek(slot uint32) bool {
	if c.frozen == nil {
		ok := c.tail.seek(slot)
		c.slot = c.tail.slot
		return ok
	}
	ok := c.frozen.seek(slot)
	c.slot = c.frozen.slot
	return ok
}

// err is why next or seek gave up, nil at the end of the postings.
func (c *cursor) err() error {
	if c.frozen == nil {
		return nil
	}
	return c.frozen.err
}

// freq is how often the term occurs in the slot.
func (c *cursor) freq() uint64 {
	if c.frozen == nil {
		return c.tail.freq
	}
	return c.frozen.freq()
}

// places appends the places of the term in the slot; see elementPlace.
func (c *cursor) places(to []uint64) ([]uint64, error) {
	if c.frozen != nil {
		return c.frozen.places(to)
	}
	at, place := c.tail.at, uint64(0)
	for range c.tail.freq {
		d, n := binary.Uvarint(at)
		at = at[n:]
		place += d
		to = append(to, place)
	}
	return to, nil
}

// The mutable index as a source.

func (t *text) find(word []byte) (sourceTerm, error) {
	return sourceTerm{tail: t.terms.find(word)}, nil
}

func (t *text) termsFrom(text string) (termList, error) {
	return tailTerms{t.terms.list(text)}, nil
}

func (t *text) slotLengths() lengthReader { return tailLengths{&t.lengths} }

func (t *text) nextSlot(slot, bound uint32) (uint32, bool, error) {
	return slot, slot < bound, nil
}

type tailLengths struct{ *lengths }

func (l tailLengths) at(slot uint32) (uint32, error) { return *l.lengths.at(slot), nil }

// tailTerms are the terms of a mutable index that are left.
type tailTerms struct{ *termCursor }

func (d tailTerms) term() (sourceTerm, error) { return sourceTerm{tail: d.termCursor.term()}, nil }

func (d tailTerms) next() error {
	d.termCursor.next()
	return nil
}
