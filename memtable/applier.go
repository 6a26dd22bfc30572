package memtable

import (
	"context"
	"fmt"
	"sync"
)

// ApplyError says that a batch could not be put into the indexes.
type ApplyError struct {
	Generation uint64 // of the memtable
	Batch      int    // its number there
	FirstRow   uint64 // ordinal of its first row
	Err        error
}

func (e *ApplyError) Error() string {
	return fmt.Sprintf("memtable: apply batch %d of generation %d (rows from %d) to the indexes: %v", e.Batch, e.Generation, e.FirstRow, e.Err)
}

func (e *ApplyError) Unwrap() error { return e.Err }

// Applier puts accepted batches into the indexes, in the order of their rows,
// and moves the indexed cursor behind them. It has no state of its own beside
// its first error: where it stands is the cursor.
type Applier struct {
	live    func() []*Memtable
	cursors *Cursors
	apply   func(*Memtable, Batch) error

	// mu makes Run sequential. It is held while indexes are written, and nobody
	// else takes it.
	mu struct {
		sync.Mutex
		err error // the first one; partial application cannot be undone, so nothing is applied after it
	}
}

// NewApplier returns an applier over the memtables that live returns, oldest
// first. Each row that was accepted and not yet indexed when live is called
// must be in one of them.
func NewApplier(live func() []*Memtable, c *Cursors) *Applier {
	return &Applier{live: live, cursors: c, apply: func(m *Memtable, b Batch) error {
		return m.set.Apply(b.Rec, b.FirstSlot)
	}}
}

// Run applies every batch that was accepted and not yet applied, also those
// accepted meanwhile, then returns nil. After each batch it moves the indexed
// cursor. It returns early when ctx ends, with its error, or when the cursors
// failed, with their failure.
//
// An index that fails makes it return an *ApplyError, now and on each later
// call; the cursor stays before that batch. The caller must then fail the
// cursors.
func (a *Applier) Run(ctx context.Context) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for {
		// Accepted first: what was accepted is in a memtable that live returns.
		from, end := a.cursors.Indexed(), a.cursors.Accepted()
		if a.mu.err != nil {
			return a.mu.err
		}
		if err := a.cursors.Err(); err != nil {
			return err
		}
		if from >= end {
			return nil
		}
		if err := a.runTo(ctx, from, end); err != nil {
			return err
		}
	}
}

// runTo applies the rows from <= row < end, which ends with a batch.
func (a *Applier) runTo(ctx context.Context, from, end uint64) error {
	for _, m := range a.live() {
		if from >= end {
			break
		}
		if m.EndRow() <= from { // also one that was released since: it has no rows
			continue
		}
		if !m.TryRetain() {
			continue
		}
		next, err := a.runMemtable(ctx, m, from, end)
		m.Release()
		if err != nil {
			return err
		}
		from = next
	}
	if from < end {
		a.mu.err = fmt.Errorf("memtable: rows from %d to %d were accepted, but no live memtable holds them", from, end)
		return a.mu.err
	}
	return nil
}

// runMemtable applies what one memtable holds of the rows, and returns where it
// stopped.
func (a *Applier) runMemtable(ctx context.Context, m *Memtable, from, end uint64) (uint64, error) {
	first := m.FirstRow()
	if from < first {
		a.mu.err = fmt.Errorf("memtable: rows from %d were accepted, but the oldest live memtable that is not applied starts at %d", from, first)
		return from, a.mu.err
	}
	for i := m.FindBatch(uint32(from - first)); i < m.Batches() && from < end; i++ {
		if err := ctx.Err(); err != nil {
			return from, err
		}
		b := m.Batch(i)
		if err := a.applyOne(m, b, from); err != nil {
			a.mu.err = &ApplyError{Generation: m.Generation(), Batch: i, FirstRow: first + uint64(b.FirstSlot), Err: err}
			return from, a.mu.err
		}
		next := from + uint64(b.Rec.NumRows())
		if err := a.cursors.AdvanceIndexed(next); err != nil {
			return from, err
		}
		from = next
	}
	return from, nil
}

// applyOne applies a batch that must start at row from; the index set refuses
// one that it has taken already.
func (a *Applier) applyOne(m *Memtable, b Batch, from uint64) error {
	if start := m.FirstRow() + uint64(b.FirstSlot); start != from {
		return fmt.Errorf("the batch starts at row %d, the indexed cursor is at %d", start, from)
	}
	return a.apply(m, b)
}
