// Package memtable keeps the rows that are not yet in a generation: in memory,
// indexed, readable while they are written.
//
// # Parts
//
//   - [Memtable] holds the rows of one generation as the Arrow batches they came
//     in, and their index set.
//   - [Cursors] say how far the shard's rows are accepted, indexed and durable, and
//     wake those who wait for it.
//   - [Applier] is the one consumer that puts accepted batches into the indexes,
//     and moves the indexed cursor.
//   - [View] is a memtable as seen below a row ordinal; snapshots read through it.
//   - [Limits] decide when a memtable is full.
//
// # Rows, slots and ordinals
//
// A row's ordinal is its number in the shard's history, from 0; its slot is its
// number in its memtable, from 0:
//
//	ordinal = Memtable.FirstRow() + slot
//
// Cursors and bounds are exclusive counts in ordinals: a cursor of 0 means that
// there is no row.
//
// # Who writes, who reads
//
// Batches are appended by one goroutine at a time, which holds the writer lock;
// they are never changed or moved afterwards. The indexes are written by the
// goroutine that runs the applier. Everything else reads, takes no lock, and
// may run beside both: a batch is filled in first and published after that by
// one atomic store of how many there are.
//
// # Ownership
//
// A memtable retains each batch given to Append and releases it when the last
// reference to the memtable goes: New returns one with one reference, Retain
// and TryRetain take another, Release gives one back. Batches, views and index
// results are lent: they are valid as long as the caller holds a reference to
// the memtable.
package memtable
