package memtable

import (
	"context"
	"iter"
	"math/bits"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/memwal/memwal-go/index"
)

// View is a memtable as it was when the shard had end rows: rows at or beyond
// that ordinal do not exist in it, and what they superseded is still live. It
// is a value without a reference of its own: it is valid while its user holds
// one to the memtable.
//
// The bound must not be beyond the rows that were applied to the indexes, as is
// the case for one taken from the visible or the indexed cursor. All methods
// may be called from any goroutine.
type View struct {
	m     *Memtable
	bound uint32 // exclusive, in slots; <= m.Rows()
}

// View returns the memtable below the row ordinal end. An end before the first
// row gives an empty view, one after the last row gives all.
func (m *Memtable) View(end uint64) View {
	bound := m.Rows()
	switch first := m.FirstRow(); {
	case end <= first:
		bound = 0
	case end-first < uint64(bound):
		bound = uint32(end - first)
	}
	if invariantsOn && bound > m.set.Applied() {
		panic("memtable: a view is bounded beyond the rows that are in the indexes")
	}
	return View{m: m, bound: bound}
}

// Memtable returns what is viewed.
func (v View) Memtable() *Memtable { return v.m }

// Bound returns the number of slots in the view, live or not.
func (v View) Bound() uint32 { return v.bound }

// Locate returns the batch and the row in it that have a slot below the bound.
// The batch is lent.
func (v View) Locate(slot uint32) (arrow.RecordBatch, int) { return v.m.Locate(slot) }

// Live tells whether the row in a slot is in the view, and neither superseded
// nor a tombstone.
func (v View) Live(slot uint32) bool { return v.m.set.Live(slot, v.bound) }

// Lookup returns the newest row with a key, tombstones included.
func (v View) Lookup(k index.Key) (slot uint32, ok bool) { return v.m.set.Lookup(k, v.bound) }

// LookupRow is Lookup with the key of a row of any batch of the storage schema.
func (v View) LookupRow(rec arrow.RecordBatch, row int) (slot uint32, ok bool) {
	return v.m.set.LookupRow(rec, row, v.bound)
}

// RangeKeys returns the live rows in a range of an ordered index, in its order,
// each with its encoded key, by which the ranges of several memtables are
// merged. A key is valid until the next step.
func (v View) RangeKeys(name string, r index.Range) (iter.Seq2[[]byte, uint32], error) {
	return v.m.set.RangeKeys(name, r, v.bound)
}

// Range is RangeKeys without the keys.
func (v View) Range(name string, r index.Range) (iter.Seq[uint32], error) {
	return v.m.set.Range(name, r, v.bound)
}

// StretchRows is how many rows a stretch has at most that is not all of its batch's.
const StretchRows = 4096

// Stretch is consecutive rows of one batch, From <= row < To, of which some are meant.
type Stretch struct {
	Batch
	From, To int
	// Live has a bit for each row, that of row From+i in word i/64; the bits behind
	// them are 0. It is valid until the next step. Nil: all rows are meant.
	Live []uint64
}

// Stretches returns the live rows of the view whose slots are not below from, in the
// order of writing. hidden excludes further ones: those that newer memtables
// supersede; nil excludes none. Stretches without any such row are left out. They end
// when ctx does.
func (v View) Stretches(ctx context.Context, from uint32, hidden *Hidden) iter.Seq[Stretch] {
	return func(yield func(Stretch) bool) {
		if from >= v.bound {
			return
		}
		var words [StretchRows / 64]uint64
		unasked := 0 // rows until ctx is asked
		n := v.m.Batches()
		for i := v.m.FindBatch(from); i < n; i++ {
			b := v.m.store.batch(i)
			if b.FirstSlot >= v.bound {
				return
			}
			s := Stretch{Batch: b, From: int(max(from, b.FirstSlot) - b.FirstSlot)}
			end := int(min(b.Rec.NumRows(), int64(v.bound-b.FirstSlot)))
			for ; s.From < end; s.From = s.To {
				if unasked -= end - s.From; unasked < 0 {
					if ctx.Err() != nil {
						return
					}
					unasked = StretchRows
				}
				s.To, s.Live = end, nil
				if v.m.keyed {
					s.To = min(end, s.From+StretchRows)
					s.Live = words[:(s.To-s.From+63)/64]
					if !v.live(&s, hidden) {
						continue
					}
				}
				if !yield(s) {
					return
				}
			}
		}
	}
}

// live fills in which rows of a stretch are meant, and tells whether any is.
func (v View) live(s *Stretch, hidden *Hidden) bool {
	first, n := s.FirstSlot+uint32(s.From), s.To-s.From
	v.m.set.LiveBits(s.Live, first, uint32(n), v.bound)
	left := 0
	for i, w := range s.Live {
		if hidden != nil {
			for rest := w; rest != 0; rest &= rest - 1 {
				if bit := bits.TrailingZeros64(rest); hidden.Hides(first + uint32(i*64+bit)) {
					w &^= 1 << bit
				}
			}
			s.Live[i] = w
		}
		left += bits.OnesCount64(w)
	}
	if left == n {
		s.Live = nil
	}
	return left > 0
}
