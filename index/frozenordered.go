package index

import (
	"bytes"
	"context"
	"iter"

	"github.com/memwal/memwal-go/internal/keys"
)

// FrozenEntry is a row in the order of a frozen index.
type FrozenEntry struct {
	Key  []byte // the encoded key, for merging by bytes.Compare; valid until the next step
	Slot uint32
}

// ordered writes the sections of an ordered index.
func (z *freezer) ordered(name string, o *ordered) error {
	seq, err := z.set.RangeKeys(name, Range{}, z.bound)
	if err != nil {
		return err
	}
	z.out.Section(sectionEntries)
	w := blockWriter{to: z.out}
	for key, slot := range seq {
		if w.count%checkEvery == 0 {
			if err := z.stopped(); err != nil {
				return err
			}
		}
		if z.has(slot) {
			w.add(key, 0, uint64(slot))
		}
	}
	w.flush()
	z.head.entries = w.count
	z.out.Section(sectionBlocks)
	_, err = z.out.Write(w.blocks)
	return err
}

// RangeKeys gives the rows of a frozen ordered index in its order, as Set.RangeKeys does
// of the memtable at its whole bound; see Range for what lies in a range. The sequence
// can be run several times, each reads anew. It ends with the first error.
func (f *Frozen) RangeKeys(ctx context.Context, r Range) (iter.Seq2[FrozenEntry, error], error) {
	if f.keys == nil {
		return nil, &NoIndexError{Index: f.name, Kind: KindOrdered}
	}
	s, err := newScan(f.keys.codec, r, f.head.slots)
	if err != nil {
		return nil, err
	}
	return func(yield func(FrozenEntry, error) bool) {
		w := &frozenWalk{f: f, ctx: ctx, scan: s, e: entries{each: 1}}
		if err := w.run(func(e FrozenEntry) bool { return yield(e, nil) }); err != nil {
			yield(FrozenEntry{}, err)
		}
	}, nil
}

// side tells on which side of a key the edge lies: negative before it, positive behind
// it; never 0.
func (e *edge) side(key []byte) int {
	switch {
	case len(key) == 0:
		return 1 // no key is empty
	case len(e.key) == 0 && keys.LeadsNull(key):
		return 1
	case len(e.key) == 0:
		return -1
	case bytes.HasPrefix(key, e.key):
		return e.towards()
	}
	return bytes.Compare(e.key, key)
}

// frozenWalk is one run over a range.
type frozenWalk struct {
	f     *Frozen
	ctx   context.Context
	scan  *scan
	x     *blockIndex
	e     entries
	block int // that e is
}

func (w *frozenWalk) run(yield func(FrozenEntry) bool) error {
	var err error
	if w.x, err = w.f.index(w.ctx); err != nil || len(w.x.refs) == 0 {
		return err
	}
	if w.scan.reverse {
		return w.down(yield)
	}
	return w.up(yield)
}

// enter loads a block. up tells where to the caller goes on.
func (w *frozenWalk) enter(block int, up bool) error {
	w.block = block
	ahead := int64(0)
	if up {
		last := w.x.refs[len(w.x.refs)-1]
		if w.scan.high != nil {
			last = w.x.refs[w.from(w.scan.high)]
		}
		ahead = last.offset + last.length
	}
	return w.e.load(w.ctx, w.f, w.x.refs[block], ahead)
}

// from is the block in which the first key behind an edge, or the last one before it, is.
func (w *frozenWalk) from(e *edge) int {
	if e == nil {
		return 0
	}
	return w.x.before(func(separator []byte) bool { return e.side(separator) > 0 })
}

// gap is the one that a key lies in; nil if it lies in none.
func (w *frozenWalk) gap(key []byte) *gap {
	for i := range w.scan.gaps {
		if g := &w.scan.gaps[i]; g.from.side(key) < 0 && g.to.side(key) > 0 {
			return g
		}
	}
	return nil
}

func (w *frozenWalk) up(yield func(FrozenEntry) bool) error {
	low, high := w.scan.low, w.scan.high
	for block := w.from(low); block < len(w.x.refs); block++ {
		if err := w.enter(block, true); err != nil {
			return err
		}
		for i := range w.e.len() {
			key := w.e.key(i)
			if low != nil && low.side(key) > 0 {
				continue
			}
			if high != nil && high.side(key) < 0 {
				return nil
			}
			if g := w.gap(key); g != nil {
				low = &g.to
				if to := w.from(low); to > block {
					block = to - 1
					break
				}
				continue
			}
			if slot, err := w.slot(i); err != nil {
				return err
			} else if !yield(FrozenEntry{Key: key, Slot: slot}) {
				return nil
			}
		}
	}
	return nil
}

func (w *frozenWalk) down(yield func(FrozenEntry) bool) error {
	low, high := w.scan.low, w.scan.high
	block := len(w.x.refs) - 1
	if high != nil {
		block = w.from(high)
	}
	for ; block >= 0; block-- {
		if err := w.enter(block, false); err != nil {
			return err
		}
		for i := w.e.len() - 1; i >= 0; i-- {
			key := w.e.key(i)
			if high != nil && high.side(key) < 0 {
				continue
			}
			if low != nil && low.side(key) > 0 {
				return nil
			}
			if g := w.gap(key); g != nil {
				high = &g.from
				if to := w.from(high); to < block {
					block = to + 1
					break
				}
				continue
			}
			if slot, err := w.slot(i); err != nil {
				return err
			} else if !yield(FrozenEntry{Key: key, Slot: slot}) {
				return nil
			}
		}
	}
	return nil
}

func (w *frozenWalk) slot(i int) (uint32, error) {
	slot := w.e.number(i, 0)
	if slot >= uint64(w.f.head.slots) {
		return 0, w.f.corrupt(w.x.refs[w.block].offset, "a key of a row that is not there")
	}
	return uint32(slot), nil
}
