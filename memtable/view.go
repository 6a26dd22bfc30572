package memtable

import (
	"iter"

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

// Run is a range of rows of one batch, From <= row < To.
type Run struct{ From, To int }

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

// Runs returns, batch by batch in the order of writing, the live rows of the
// view whose slots are not below from. hidden excludes further ones: those that
// newer memtables supersede; nil excludes none. Batches without such
// rows are left out. The slice of runs is valid until the next step.
func (v View) Runs(from uint32, hidden *Hidden) iter.Seq2[Batch, []Run] {
	return func(yield func(Batch, []Run) bool) {
		var runs []Run
		if from >= v.bound {
			return
		}
		for i := v.m.FindBatch(from); ; i++ {
			if i == v.m.Batches() {
				return
			}
			b := v.m.store.batch(i)
			if b.FirstSlot >= v.bound {
				return
			}
			first := max(from, b.FirstSlot) - b.FirstSlot
			runs = v.runsOf(b, int(first), hidden, runs[:0])
			if len(runs) > 0 && !yield(b, runs) {
				return
			}
		}
	}
}

// runsOf appends the runs of one batch from row first on.
func (v View) runsOf(b Batch, first int, hidden *Hidden, runs []Run) []Run {
	n := int(min(b.Rec.NumRows(), int64(v.bound-b.FirstSlot)))
	if n <= first {
		return runs
	}
	if !v.m.keyed && hidden == nil {
		return append(runs, Run{first, n})
	}
	from := -1 // start of the run that is open
	for row := first; row < n; row++ {
		in := (!v.m.keyed || v.Live(b.FirstSlot+uint32(row))) && !hidden.Hides(b.FirstSlot+uint32(row))
		switch {
		case in && from < 0:
			from = row
		case !in && from >= 0:
			runs = append(runs, Run{from, row})
			from = -1
		}
	}
	if from >= 0 {
		runs = append(runs, Run{from, n})
	}
	return runs
}
