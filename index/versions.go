package index

import (
	"sync/atomic"
)

// MaxSlots is the number of rows that a memtable can have at most: slots are
// stored plus one in 32 bits, 0 meaning none.
const MaxSlots = 1<<32 - 2

// versions links the versions of each key. Both links of a slot lie side by side,
// since an upsert writes the one of its slot and the other of its predecessor.
//
//   - who writes: the goroutine that applies batches;
//   - who reads: anybody, without locks, slots that it learned of through an
//     atomic (the applied count, or a cell of the primary key);
//   - what is published when: a chunk, before any slot in it; prev[new], before
//     the cell that names new; sup[old], before the applied count passes new.
//
// A link is written once, from 0 to its value, so a reader that misses the write
// of a newer row sees "none" and a reader that sees it compares it with its bound:
// both answer the same below the bound.
type versions struct{ chunked[links] }

type links struct {
	sup  uint32 // slot that superseded this one, plus one; itself for a tombstone
	prev uint32 // slot of the next older version, plus one
}

// live tells whether the row is the newest of its key at the bound, and no
// tombstone.
func (v *versions) live(slot, bound uint32) bool {
	if slot >= bound {
		return false
	}
	sup := atomic.LoadUint32(&v.at(slot).sup)
	return sup == 0 || sup-1 >= bound
}

// liveBits is live for n consecutive slots, all below the bound, as bits in w.
func (v *versions) liveBits(w []uint64, slot, n, bound uint32) {
	dir := *v.dir.Load()
	for i := range w {
		k := min(n, 64)
		var bits uint64
		if off := slot % chunkRows; off+k <= chunkRows {
			links := dir[slot>>chunkBits][off : off+k]
			for j := range links {
				var in uint64
				// None is 0, and 0 - 1 is above every bound.
				if atomic.LoadUint32(&links[j].sup)-1 >= bound {
					in = 1 // a conditional set, no branch
				}
				bits = bits>>1 | in<<63
			}
			bits >>= 64 - k
		} else { // across two chunks
			for j := range k {
				if v.live(slot+j, bound) {
					bits |= 1 << j
				}
			}
		}
		w[i] = bits
		slot, n = slot+k, n-k
	}
}

// older is the next older version of a slot's key.
func (v *versions) older(slot uint32) (uint32, bool) {
	prev := atomic.LoadUint32(&v.at(slot).prev)
	return prev - 1, prev != 0
}

// supersede links a new version to the one before it.
func (v *versions) supersede(slot, old uint32) {
	atomic.StoreUint32(&v.at(slot).prev, old+1)
	if l := v.at(old); l.sup == 0 { // a tombstone stays its own successor
		atomic.StoreUint32(&l.sup, slot+1)
	}
}

// bury marks a slot as a tombstone: live at no bound.
func (v *versions) bury(slot uint32) { atomic.StoreUint32(&v.at(slot).sup, slot+1) }

// buried tells whether a slot is a tombstone.
func (v *versions) buried(slot uint32) bool { return atomic.LoadUint32(&v.at(slot).sup) == slot+1 }
