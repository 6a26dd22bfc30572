package index

import (
	"context"
	"encoding/binary"
)

// textSource is what a part is searched in, such as the index of a memtable.
// Lists and lengths are for one search, by one goroutine.
type textSource interface {
	// find is a term of the source; the zero sourceTerm if it does not occur.
	find(ctx context.Context, word []byte) (sourceTerm, error)
	// termsFrom lists the terms, in their order, from a text on.
	termsFrom(ctx context.Context, text string) (termList, error)
	// slotLengths tells how many terms slots have.
	slotLengths(ctx context.Context) lengthReader
	// nextSlot is the first slot at or after slot, below bound, that the source can have
	// documents in; false if there is none.
	nextSlot(ctx context.Context, slot, bound uint32) (uint32, bool, error)
}

// termList is a place in the dictionary of a source.
type termList interface {
	// word is the term that it is at; false behind the last. It is valid until next.
	word() (string, bool)
	term() sourceTerm
	next() error
}

// lengthReader gives the number of terms of slots that have some.
type lengthReader interface {
	at(slot uint32) (uint32, error)
}

// sourceTerm is a term of a source.
type sourceTerm struct {
	tail *term
}

// found tells whether the term occurs, maybe in rows that are not live.
func (t sourceTerm) found() bool { return t.tail != nil }

// postings walks the term. kept tells whether places are kept.
func (t sourceTerm) postings(kept bool) cursor { return cursor{tail: t.tail.postings(kept)} }

// cursor walks the postings of a term, in slot order. It is a struct and no interface
// since its steps are what searches spend their time with.
type cursor struct {
	tail postings
	slot uint32
}

// next goes to the next posting. False: there is none, or err.
func (c *cursor) next() bool {
	ok := c.tail.next()
	c.slot = c.tail.slot
	return ok
}

// seek goes to the first posting at or after slot, beyond the one it is at. False:
// there is none, or err.
func (c *cursor) seek(slot uint32) bool {
	ok := c.tail.seek(slot)
	c.slot = c.tail.slot
	return ok
}

// err is why next or seek gave up, nil at the end of the postings.
func (c *cursor) err() error { return nil }

// freq is how often the term occurs in the slot.
func (c *cursor) freq() uint64 { return c.tail.freq }

// places appends the places of the term in the slot; see elementPlace.
func (c *cursor) places(to []uint64) ([]uint64, error) {
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

func (t *text) find(_ context.Context, word []byte) (sourceTerm, error) {
	return sourceTerm{tail: t.terms.find(word)}, nil
}

func (t *text) termsFrom(_ context.Context, text string) (termList, error) {
	sorted := t.terms.sorted()
	return &tailTerms{terms: &t.terms, left: sorted[t.terms.from(sorted, text):]}, nil
}

func (t *text) slotLengths(context.Context) lengthReader { return tailLengths{&t.lengths} }

func (t *text) nextSlot(_ context.Context, slot, bound uint32) (uint32, bool, error) {
	return slot, slot < bound, nil
}

type tailLengths struct{ *lengths }

func (l tailLengths) at(slot uint32) (uint32, error) { return l.lengths.at(slot), nil }

// tailTerms are the terms of a mutable index that are left.
type tailTerms struct {
	terms *terms
	left  []uint32
}

func (d *tailTerms) word() (string, bool) {
	if len(d.left) == 0 {
		return "", false
	}
	return d.terms.at(d.left[0]).text, true
}

func (d *tailTerms) term() sourceTerm { return sourceTerm{tail: d.terms.at(d.left[0])} }

func (d *tailTerms) next() error {
	d.left = d.left[1:]
	return nil
}
