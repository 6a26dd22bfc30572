package memtable

import (
	"fmt"
	"math/bits"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow"
)

// The directory of a store has chunks of firstChunk, 2·firstChunk,
// 4·firstChunk, … batches. Chunks are filled and never moved, so an append
// costs the same however many batches there are, and a reader needs no lock.
// Chunks of one size behind a growing directory would do as well, but make the
// directory itself something to publish.
const (
	firstChunkBits = 6
	firstChunk     = 1 << firstChunkBits
	maxChunks      = 32 - firstChunkBits + 1 // firstChunk·(2^maxChunks − 1) > 2^32
)

// batchStore is an append-only list of record batches.
//
// One goroutine at a time calls append; any number may call the other methods
// beside it. Proof: append writes only to places at or beyond the published
// count, then publishes the count with one atomic store; readers load the count
// first and look only below it. What was published is not written again until
// clear, which needs that no reader is left.
type batchStore struct {
	published atomic.Uint64 // batches<<32 | rows, so that both change together
	chunks    [maxChunks]chunk
}

// chunk holds consecutive batches in columns, so that a search for a slot
// touches four bytes a batch.
type chunk struct {
	first []uint32            // first slot of each batch; grows: first[i] + recs[i].NumRows() == first[i+1]
	recs  []arrow.RecordBatch // retained
	bytes []int64             // window bytes of this batch and all before it, in all chunks; never falls
}

// place returns the chunk of batch i and its index there.
func place(i int) (k, off int) {
	j := uint64(i) + firstChunk
	k = bits.Len64(j) - 1 - firstChunkBits
	return k, int(j - firstChunk<<k)
}

// size returns the published counts.
func (s *batchStore) size() (batches int, rows uint32) {
	p := s.published.Load()
	return int(p >> 32), uint32(p)
}

// append retains a batch and publishes it. The caller has checked that it has
// rows and that both counts stay below 2^32.
func (s *batchStore) append(rec arrow.RecordBatch, window int64) {
	n, rows := s.size()
	k, off := place(n)
	c := &s.chunks[k]
	if off == 0 {
		size := firstChunk << k
		c.first = make([]uint32, size)
		c.recs = make([]arrow.RecordBatch, size)
		c.bytes = make([]int64, size)
	}
	rec.Retain()
	c.first[off], c.recs[off], c.bytes[off] = rows, rec, s.window(n)+window
	s.published.Store(uint64(n+1)<<32 | uint64(rows+uint32(rec.NumRows())))
	if invariantsOn {
		s.check(n)
	}
}

// check panics unless batch i follows the one before it.
func (s *batchStore) check(i int) {
	var next uint32
	if i > 0 {
		before := s.batch(i - 1)
		next = before.FirstSlot + uint32(before.Rec.NumRows())
	}
	if b := s.batch(i); b.FirstSlot != next || b.Window < 0 || b.Rec.NumRows() < 1 {
		panic(fmt.Sprintf("memtable: batch %d starts at slot %d, want %d, and has %d rows and %d window bytes",
			i, b.FirstSlot, next, b.Rec.NumRows(), b.Window))
	}
	if k, off := s.find(next); s.chunks[k].first[off] > next {
		panic(fmt.Sprintf("memtable: slot %d is not found in the batch that holds it", next))
	}
}

// window returns the window bytes of the first n batches.
func (s *batchStore) window(n int) int64 {
	if n == 0 {
		return 0
	}
	k, off := place(n - 1)
	return s.chunks[k].bytes[off]
}

// batch returns published batch i.
func (s *batchStore) batch(i int) Batch {
	k, off := place(i)
	c := &s.chunks[k]
	return Batch{Rec: c.recs[off], FirstSlot: c.first[off], Window: c.bytes[off] - s.window(i)}
}

// find returns the place of the last published batch whose first slot is not
// above slot. There must be a batch.
func (s *batchStore) find(slot uint32) (k, off int) {
	n, rows := s.size()
	k, last := place(n - 1)
	first := s.chunks[k].first[:last+1]
	for first[0] > slot { // the last chunks hold most batches: half of them, a quarter, …
		rows = first[0]
		k--
		first = s.chunks[k].first
	}
	return k, search(first, slot, rows)
}

// search returns the index of the last value that is not above slot, in a
// sorted list with first[0] <= slot; end is a value after the last, used for
// guessing only.
//
// Batches mostly are of similar size, so the place is near where it would be if
// all were of one size. From there the distance is doubled until the slot is
// passed, then halved: a few steps as a rule, two logarithms at worst.
func search(first []uint32, slot, end uint32) int {
	low, high := 0, len(first) // first[low] <= slot, and slot < first[high] if there is such
	guess := 0
	if span := uint64(end - first[0]); span > 0 {
		guess = int(min(uint64(slot-first[0])*uint64(len(first))/span, uint64(len(first)-1)))
	}
	if first[guess] <= slot {
		low = guess
		for step := 1; ; step *= 2 {
			if guess+step >= high {
				break
			}
			if first[guess+step] > slot {
				high = guess + step
				break
			}
			low = guess + step
		}
	} else {
		high = guess
		for step := 1; ; step *= 2 {
			if guess-step <= low {
				break
			}
			if first[guess-step] <= slot {
				low = guess - step
				break
			}
			high = guess - step
		}
	}
	// The sign of the difference selects the half without a branch, half of
	// which would be mispredicted.
	for size := high - low; size > 1; {
		half := size / 2
		above := int((int64(slot) - int64(first[low+half])) >> 63) // all ones if the middle is above slot
		low += half &^ above
		size -= half
	}
	return low
}

// clear releases all batches. Nobody may use the store beside or after it.
func (s *batchStore) clear() {
	n, _ := s.size()
	for i := range n {
		k, off := place(i)
		s.chunks[k].recs[off].Release()
	}
	s.published.Store(0)
	clear(s.chunks[:])
}
