package index

import (
	"sync/atomic"
)

// table is an open-addressing hash table of (fingerprint, slot) with linear
// probing. A cell is fingerprint<<32 | slot+1, or 0 if empty. The home of a
// fingerprint is its fraction of the table, so that a table of any size can be
// filled from a smaller one without looking at keys, almost in order.
//
//   - who writes: the goroutine that applies batches;
//   - who reads: anybody, without locks, through the shard's pointer;
//   - what is published when: a cell is filled, and later only gets newer slots
//     of the same key, so readers of a table that has been replaced still find
//     every row that was applied when they took their bound. A new table is
//     filled before the shard's pointer moves to it.
type table struct {
	cells []uint64
}

// shard is one part of the primary key's hash, growing on its own.
type shard struct {
	tab  atomic.Pointer[table]
	used int // cells filled; the writer's
}

const (
	// shardBits: 64 shards keep the pause of one growth at a 64th of the whole.
	shardBits = 6
	shards    = 1 << shardBits

	minCells = 32
)

// firstCells spreads the shards' sizes evenly over the factor of one growth, so
// that they grow one by one instead of all at once, and the bytes per key do not
// swing with the number of keys.
func firstCells(shard int) int { return minCells + shard*minCells/2/shards }

// full tells whether the table should grow before it takes another key: above a
// load of 0.8 the probes of absent keys get long.
func (s *shard) full(t *table) bool { return s.used*5 >= len(t.cells)*4 }

func fingerprint(hash uint64) uint32 { return uint32(hash >> (32 - shardBits)) }

func (t *table) home(fp uint32) int { return int(uint64(fp) * uint64(len(t.cells)) >> 32) }

// next is the cell after i.
func (t *table) next(i int) int {
	if i++; i < len(t.cells) {
		return i
	}
	return 0
}

func (t *table) load(i int) uint64 { return atomic.LoadUint64(&t.cells[i]) }

func (t *table) store(i int, fp, slot uint32) {
	atomic.StoreUint64(&t.cells[i], uint64(fp)<<32|uint64(slot+1))
}

// grow publishes a table half as large again.
func (s *shard) grow() *table {
	old := s.tab.Load()
	t := &table{cells: make([]uint64, len(old.cells)+len(old.cells)/2)}
	for _, c := range old.cells {
		if c == 0 {
			continue
		}
		i := t.home(uint32(c >> 32))
		for t.cells[i] != 0 {
			i = t.next(i)
		}
		t.cells[i] = c
	}
	s.tab.Store(t)
	return t
}
