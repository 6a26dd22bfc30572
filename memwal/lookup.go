package memwal

import (
	"context"
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/memwal/memwal-go/memtable"
)

// Presence says what a lookup found.
type Presence uint8

const (
	// Absent: the key was never written, as far as the snapshot shows.
	Absent Presence = iota
	// Deleted: the key was written or not, and then deleted.
	Deleted
	// Present: there is a row with the key.
	Present
)

// String returns "absent", "deleted" or "present".
func (p Presence) String() string {
	switch p {
	case Absent:
		return "absent"
	case Deleted:
		return "deleted"
	case Present:
		return "present"
	}
	return fmt.Sprintf("Presence(%d)", uint8(p))
}

// Row is a row that was looked up.
type Row struct {
	// Presence says whether there is one; the rest is only set if it is Present.
	Presence Presence
	// Ordinal is the row's ordinal in the shard's history.
	Ordinal uint64
	// Batch holds the row at Index. Its columns are those of the schema given to
	// Open, in order, followed by memwal's own, so it is no batch to be put again.
	// It is lent until the snapshot is closed.
	Batch arrow.RecordBatch
	Index int
}

// Column returns the array that holds column i of the row, at Index. The row must
// be Present.
func (r Row) Column(i int) arrow.Array {
	if r.Batch == nil {
		panic("memwal: Column of a row that is " + r.Presence.String() + ": look at Presence first")
	}
	return r.Batch.Column(i)
}

// Lookup returns the newest version of the row with a primary key, given as one
// Go value for each key column, in the order of Options.PrimaryKey. It takes no
// lock.
func (s *Snapshot) Lookup(ctx context.Context, key ...any) (Row, error) {
	if err := s.acquire(ctx, "look up"); err != nil {
		return Row{}, err
	}
	defer s.view.release()
	k, err := s.r.spec.Key(key...)
	if err != nil {
		return Row{}, lookupError(err)
	}
	tables := s.view.tables
	for i := len(tables) - 1; i >= 0; i-- {
		if tables[i].FirstRow() >= s.bound {
			continue
		}
		if err := tables[i].Index().KeyFailed(); err != nil {
			return Row{}, fmt.Errorf("look up: %w", err)
		}
		v := tables[i].View(s.bound)
		if slot, ok := v.Lookup(k); ok {
			return rowOf(v, slot), nil
		}
	}
	return Row{}, nil
}

// LookupAll looks up every row of keys, whose columns are the key columns in the
// order of Options.PrimaryKey, and returns what it found in the same order.
func (s *Snapshot) LookupAll(ctx context.Context, keys arrow.RecordBatch) ([]Row, error) {
	if len(s.r.table.PrimaryKey) == 0 {
		_, err := s.r.spec.Key()
		return nil, lookupError(err)
	}
	if err := s.acquire(ctx, "look up"); err != nil {
		return nil, err
	}
	defer s.view.release()
	// A delete batch has the key columns of the storage schema where they belong.
	shaped, err := s.r.shaper.Tombstones(keys)
	if err != nil {
		return nil, lookupError(err)
	}
	defer shaped.Release()
	if err := s.r.spec.Check(shaped); err != nil {
		return nil, lookupError(err)
	}
	views := s.views()
	if err := s.keyFailed(views); err != nil {
		return nil, fmt.Errorf("look up: %w", err)
	}
	found := make([]Row, shaped.NumRows())
	for row := range found {
		for i := len(views) - 1; i >= 0; i-- {
			if slot, ok := views[i].LookupRow(shaped, row); ok {
				found[row] = rowOf(views[i], slot)
				break
			}
		}
	}
	return found, nil
}

func rowOf(v memtable.View, slot uint32) Row {
	if !v.Live(slot) {
		return Row{Presence: Deleted}
	}
	rec, i := v.Locate(slot)
	return Row{Presence: Present, Ordinal: v.Memtable().FirstRow() + uint64(slot), Batch: rec, Index: i}
}

func lookupError(err error) error {
	if errors.Is(err, ErrNoIndex) {
		return fmt.Errorf("look up: %w", err)
	}
	return invalid("look up", err)
}
