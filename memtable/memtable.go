package memtable

import (
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/memwal/memwal-go/index"
	"github.com/memwal/memwal-go/internal/schema"
)

// ErrFrozen is returned for a batch appended to a frozen memtable: the writer
// captured a memtable that was rotated away.
var ErrFrozen = errors.New("memtable: it is frozen; append to the active one")

// Config describes a memtable.
type Config struct {
	Generation uint64           // from 1
	FirstRow   uint64           // ordinal of the row in slot 0
	Schema     *arrow.Schema    // storage schema of all batches
	Spec       *index.Spec      // indexes; nil: none
	Created    time.Time        // when it became the active one
	Now        func() time.Time // clock by which rows age; nil: time.Now
}

// Memtable holds the rows of one generation.
//
// Append and Freeze are called with the writer lock held. All other methods may
// be called from anywhere, as long as the caller holds a reference.
type Memtable struct {
	config Config
	keyed  bool // the table has a primary key, so rows can be superseded
	store  batchStore
	set    *index.Set
	since  atomic.Pointer[time.Time] // when the first row came; nil while there is none
	pinned atomic.Int64              // sum over the batches
	frozen atomic.Bool               // set once
	// What the log has of its rows. AddEntry writes entries first and Unlogged is
	// read first, so whoever looks meanwhile counts the rows of a new entry twice
	// rather than not at all.
	entries    atomic.Int64
	logBatches atomic.Int64 // in these entries
	logWindow  atomic.Int64 // window bytes of these batches
	logBytes   atomic.Int64 // bytes of these entries, as far as they are known; else their window bytes
	refs       atomic.Int64 // >= 1 while in use; the batches are released when it gets to 0
}

// Batch is a record batch in a memtable. It has at least one row. It is lent.
type Batch struct {
	Rec       arrow.RecordBatch
	FirstSlot uint32 // slot of its first row
	Window    int64  // bytes that its rows span
}

// New returns an empty memtable with one reference, which the caller owns.
func New(c Config) *Memtable {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Spec == nil {
		spec, err := index.Bind(c.Schema, nil, nil)
		if err != nil {
			panic("memtable: a schema without indexes was refused: " + err.Error())
		}
		c.Spec = spec
	}
	m := &Memtable{config: c, keyed: c.Schema.HasField(schema.Tombstone)}
	m.set = c.Spec.NewSet(m.rows())
	m.refs.Store(1)
	return m
}

// Append retains a batch of the storage schema and publishes it. window and
// pinned are its sizes in bytes, as in Size. A batch without rows is not
// stored, since it would take part in nothing. The caller holds the writer
// lock. On error, which is ErrFrozen or a *LimitError, nothing was stored.
func (m *Memtable) Append(rec arrow.RecordBatch, window, pinned int64) error {
	if m.frozen.Load() {
		return fmt.Errorf("%w (generation %d)", ErrFrozen, m.config.Generation)
	}
	n, rows := m.store.size()
	add := rec.NumRows()
	if add == 0 {
		return nil
	}
	if add > MaxRows-int64(rows) {
		return &LimitError{Limit: ByRows, Have: add + int64(rows), Max: MaxRows}
	}
	if n >= math.MaxUint32 {
		return &LimitError{Limit: ByBatches, Have: int64(n) + 1, Max: math.MaxUint32}
	}
	if rows == 0 {
		now := m.config.Now()
		m.since.Store(&now)
	}
	m.pinned.Add(pinned)
	m.store.append(rec, window)
	return nil
}

// Generation returns its number.
func (m *Memtable) Generation() uint64 { return m.config.Generation }

// Schema returns the storage schema.
func (m *Memtable) Schema() *arrow.Schema { return m.config.Schema }

// Created returns when it became the active one, as it was told.
func (m *Memtable) Created() time.Time { return m.config.Created }

// FirstRow returns the ordinal of the row in slot 0.
func (m *Memtable) FirstRow() uint64 { return m.config.FirstRow }

// EndRow returns the ordinal after its last row. It grows until the memtable is
// frozen.
func (m *Memtable) EndRow() uint64 { return m.config.FirstRow + uint64(m.Rows()) }

// Rows returns the number of rows.
func (m *Memtable) Rows() uint32 {
	_, rows := m.store.size()
	return rows
}

// Batches returns the number of batches.
func (m *Memtable) Batches() int {
	n, _ := m.store.size()
	return n
}

// Batch returns batch i, 0 <= i < Batches().
func (m *Memtable) Batch(i int) Batch {
	if n, _ := m.store.size(); uint(i) >= uint(n) {
		panic(fmt.Sprintf("memtable: batch %d of %d", i, n))
	}
	return m.store.batch(i)
}

// FindBatch returns which batch holds a slot, or Batches() when none does: the
// batch where a walk that starts at the slot starts.
func (m *Memtable) FindBatch(slot uint32) int {
	n, rows := m.store.size()
	if slot >= rows {
		return n
	}
	k, off := m.store.find(slot)
	return firstChunk<<k - firstChunk + off
}

// Locate returns the batch and the row in it that have a slot, slot < Rows().
// The batch is lent.
func (m *Memtable) Locate(slot uint32) (arrow.RecordBatch, int) { return m.rows().Locate(slot) }

// WindowOf returns the window bytes of the batches from <= i < to.
func (m *Memtable) WindowOf(from, to int) int64 { return m.store.window(to) - m.store.window(from) }

// WindowBytes returns the bytes that the rows span.
func (m *Memtable) WindowBytes() int64 {
	n, _ := m.store.size()
	return m.store.window(n)
}

// PinnedBytes returns the bytes of the buffers that the batches keep alive.
// Buffers shared by several batches count for each.
func (m *Memtable) PinnedBytes() int64 { return m.pinned.Load() }

// IndexBytes returns the memory of the index set.
func (m *Memtable) IndexBytes() int64 { return m.set.Bytes() }

// AddEntry counts a WAL entry of the given bytes that holds so many batches with
// so many window bytes; without batches, an object that a replay reads for nothing.
func (m *Memtable) AddEntry(batches int, window, bytes int64) {
	m.entries.Add(1)
	m.logBytes.Add(bytes)
	m.logWindow.Add(window)
	m.logBatches.Add(int64(batches))
}

// ResizeEntry adds delta to the bytes of an entry that was counted by a guess.
func (m *Memtable) ResizeEntry(delta int64) { m.logBytes.Add(delta) }

// Unlogged returns how many batches are in no WAL entry yet, and their window
// bytes.
func (m *Memtable) Unlogged() (batches int, window int64) {
	return m.Batches() - int(m.logBatches.Load()), m.WindowBytes() - m.logWindow.Load()
}

// Index returns the index set. It is never nil.
func (m *Memtable) Index() *index.Set { return m.set }

// Usage returns what the memtable holds.
func (m *Memtable) Usage() Usage {
	n, rows := m.store.size()
	window := m.store.window(n)
	unlogged := window - m.logWindow.Load()
	u := Usage{
		Window: window, Pinned: m.pinned.Load(), Index: m.set.Bytes(), Rows: rows, Batches: n,
		Entries: int(m.entries.Load()), LogBytes: unlogged + m.logBytes.Load(),
	}
	if since := m.since.Load(); since != nil {
		u.Since = *since
	}
	return u
}

// Full tells whether the memtable must be rotated before add is appended at
// now; with a zero add, whether it is due to be rotated.
func (m *Memtable) Full(l Limits, add Size, now time.Time) bool {
	return l.Exceeded(m.Usage(), add, now) != ByNothing
}

// Freeze ends the appends, for ever. The caller holds the writer lock.
func (m *Memtable) Freeze() { m.frozen.Store(true) }

// Frozen tells whether Freeze was called. Once it is true, Rows, Batches and
// EndRow do not change.
func (m *Memtable) Frozen() bool { return m.frozen.Load() }

// Retain takes a reference. The caller must hold one already.
func (m *Memtable) Retain() {
	if !m.TryRetain() {
		panic(fmt.Sprintf("memtable: generation %d is retained after its last release", m.config.Generation))
	}
}

// TryRetain takes a reference unless the last one is gone. It is for those who
// find a memtable in a list that may have changed since.
func (m *Memtable) TryRetain() bool {
	for {
		n := m.refs.Load()
		if n <= 0 {
			return false
		}
		if m.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// Release gives a reference back. The last one releases every batch; the
// memtable must not be used after that.
func (m *Memtable) Release() {
	switch n := m.refs.Add(-1); {
	case n < 0:
		panic(fmt.Sprintf("memtable: generation %d is released more often than retained", m.config.Generation))
	case n == 0:
		m.frozen.Store(true)
		m.store.clear()
	}
}

func (m *Memtable) rows() rows { return rows{&m.store} }

// rows is what the indexes see of a memtable.
type rows struct{ store *batchStore }

// Locate returns the batch and the row in it that have a slot.
func (r rows) Locate(slot uint32) (arrow.RecordBatch, int) {
	if invariantsOn {
		if _, n := r.store.size(); slot >= n {
			panic(fmt.Sprintf("memtable: slot %d of %d", slot, n))
		}
	}
	k, off := r.store.find(slot)
	c := &r.store.chunks[k]
	return c.recs[off], int(slot - c.first[off])
}
