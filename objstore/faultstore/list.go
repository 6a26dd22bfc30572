package faultstore

import (
	"cmp"
	"iter"
	"slices"

	"github.com/memwal/memwal-go/objstore"
)

// listing is what Store.List returns.
type listing = iter.Seq2[objstore.Object, error]

// listed puts the faults of c into what the inner store lists. An error of the inner
// store is still the last element.
func (c *call) listed(seq listing) listing {
	if c.plan.Drop > 0 {
		seq = c.short(seq)
	}
	if c.plan.Truncate > 0 {
		seq = c.cut(seq)
	}
	if c.plan.Shuffle {
		seq = c.shuffled(seq)
	}
	return seq
}

// short leaves each object out with the chance Drop.
func (c *call) short(seq listing) listing {
	return func(yield func(objstore.Object, error) bool) {
		counted := false
		for o, err := range seq {
			if err == nil && chance(c.drawFor("drop", o.Key)) < c.plan.Drop {
				if !counted {
					counted = true
					c.s.count(FaultShortList)
				}
				continue
			}
			if !yield(o, err) {
				return
			}
		}
	}
}

// cut holds the last Truncate objects back.
func (c *call) cut(seq listing) listing {
	return func(yield func(objstore.Object, error) bool) {
		var held []objstore.Object
		for o, err := range seq {
			if err != nil { // it has not come to its end: nothing to hide
				for _, h := range held {
					if !yield(h, nil) {
						return
					}
				}
				yield(o, err)
				return
			}
			held = append(held, o)
			if len(held) > c.plan.Truncate {
				if !yield(held[0], nil) {
					return
				}
				held = held[1:]
			}
		}
		if len(held) > 0 {
			c.s.count(FaultTruncatedList)
		}
	}
}

// doubledChance is the chance with which a shuffled listing yields an object
// twice.
const doubledChance = 0.25

// shuffled yields the objects in an order drawn from the seed, some twice. It
// reads the whole listing first.
func (c *call) shuffled(seq listing) listing {
	type turn struct {
		rank  uint64 // random
		i     int    // in the inner store's order
		again bool
	}
	return func(yield func(objstore.Object, error) bool) {
		var objects []objstore.Object
		var turns []turn
		var failed error
		for o, err := range seq {
			if err != nil {
				failed = err
				break
			}
			i := len(objects)
			objects = append(objects, o)
			first := c.drawFor("shuffle", o.Key)
			if chance(c.drawFor("double", o.Key)) < doubledChance {
				second := mix(first)
				turns = append(turns, turn{rank: max(first, second), i: i, again: true})
				first = min(first, second)
			}
			turns = append(turns, turn{rank: first, i: i})
		}
		slices.SortFunc(turns, func(a, b turn) int {
			return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(objects[a.i].Key, objects[b.i].Key), cmp.Compare(a.i, b.i))
		})
		distinct, unordered, doubled := 0, false, false
		for _, t := range turns {
			switch {
			case t.again && !doubled:
				doubled = true
				c.s.count(FaultDoubledList)
			case !t.again && t.i != distinct && !unordered:
				unordered = true
				c.s.count(FaultUnorderedList)
			}
			if !t.again {
				distinct++
			}
			if !yield(objects[t.i], nil) {
				return
			}
		}
		if failed != nil {
			yield(objstore.Object{}, failed)
		}
	}
}
