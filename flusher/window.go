package flusher

import (
	"time"

	"github.com/memwal/memwal-go/internal/wal"
	"github.com/memwal/memwal-go/memtable"
)

// span names the rows of one entry: batches [from, to) of one memtable.
type span struct {
	table    *memtable.Memtable
	from, to int
	first    uint64 // ordinal of the first row
	end      uint64 // ordinal after the last row
	bytes    int64  // window bytes, before encoding
	reason   reason // why it was taken
}

// outcome is how one put resolved.
type outcome uint8

const (
	inFlight  outcome = iota
	landed            // the object at the position is ours
	displaced         // a dead object holds the position
)

func (o outcome) String() string { return [...]string{"in flight", "landed", "displaced"}[o] }

// slot is one position that this writer has claimed a put for.
type slot struct {
	span
	pos      uint64
	id, prev wal.PutID
	outcome  outcome
	sent     time.Time // when the put was first sent
	date     time.Time // the store's clock at the reply; zero if it gives none
	size     int64     // encoded bytes, once it has landed
	took     time.Duration
}

// window is the pipeline of puts: a pure state machine over positions.
//
//	invariant: slots are at successive positions, the last of them at next-1
//	invariant: next - slots[0].pos <= limit, the largest span of unresolved puts
//	invariant: slots[i].prev == slots[i-1].id, and slots[0].prev == last
type window struct {
	slots []*slot
	next  uint64    // position of the next put
	last  wal.PutID // put-id of the last live entry below slots[0]
	limit uint64
	newID func() wal.PutID
}

// room tells whether another put may be started. Behind a displaced position
// none may: it would chain from an entry that is going to be put again.
func (w *window) room() bool {
	for _, s := range w.slots {
		if s.outcome == displaced {
			return false
		}
	}
	return len(w.slots) == 0 || w.next-w.slots[0].pos < w.limit
}

// assign gives sp the next position.
func (w *window) assign(sp span) *slot {
	prev := w.last
	if n := len(w.slots); n > 0 {
		prev = w.slots[n-1].id
	}
	s := &slot{span: sp, pos: w.next, id: w.newID(), prev: prev}
	w.next++
	w.slots = append(w.slots, s)
	return s
}

// head returns the oldest unacknowledged slot, or nil.
func (w *window) head() *slot {
	if len(w.slots) == 0 {
		return nil
	}
	return w.slots[0]
}

// landedPrefix is the number of slots from the head on that have landed.
func (w *window) landedPrefix() int {
	n := 0
	for n < len(w.slots) && w.slots[n].outcome == landed {
		n++
	}
	return n
}

// pop takes the head off; it must have landed.
func (w *window) pop() *slot {
	s := w.slots[0]
	w.slots[0] = nil
	w.slots = w.slots[1:]
	w.last = s.id
	return s
}

// reissue gives every slot a new position above all of the old ones and a new
// put-id, if the head is displaced and nothing is in flight any more. The slots
// that had landed behind the displaced one are among them: they chain from an
// entry that never landed, so no reader takes them for live.
func (w *window) reissue() []*slot {
	if h := w.head(); h == nil || h.outcome != displaced {
		return nil
	}
	for _, s := range w.slots {
		if s.outcome == inFlight {
			return nil
		}
	}
	old := w.slots
	w.slots = nil
	for _, s := range old {
		w.assign(s.span)
	}
	return w.slots
}
