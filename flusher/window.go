package flusher

import (
	"slices"
	"time"

	"github.com/memwal/memwal-go/internal/fault"
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
	waiting           // to be put again, and not sent yet
)

func (o outcome) String() string {
	return [...]string{"in flight", "landed", "displaced", "waiting"}[o]
}

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
//	invariant: next - slots[0].pos <= span
//	invariant: slots[i].prev == slots[i-1].id, and slots[0].prev == last
type window struct {
	slots []*slot
	next  uint64    // position of the next put
	last  wal.PutID // put-id of the last live entry below slots[0]
	limit int       // puts in flight
	span  uint64    // positions from the oldest unresolved one on
	newID func() wal.PutID
}

// spanFactor times the puts in flight is the span of a window. With a span of
// just as many, one slow put at the head keeps the places of those idle that have
// landed behind it: with the times of an object store (a 99th percentile of 2.4
// times the median) four puts then move as much as 3.3, and with twice the span as
// 3.98. Twice that is for stores with longer tails.
const spanFactor = 4

// Span returns how many positions the unresolved puts of a writer with so many
// in flight span at most. It is what a hole in the log is judged by. A single put
// in flight has nothing behind it.
func Span(maxInFlight int) uint64 {
	if maxInFlight == 1 {
		return 1
	}
	return spanFactor * uint64(maxInFlight)
}

// room tells whether another put may be started. Behind a displaced position
// none may: it would chain from an entry that is going to be put again.
func (w *window) room() bool {
	flying := 0
	for _, s := range w.slots {
		switch s.outcome {
		case displaced, waiting:
			return false
		case inFlight:
			flying++
		}
	}
	return len(w.slots) == 0 || flying < w.limit && w.next-w.slots[0].pos < w.span
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
// entry that never landed, so no reader takes them for live. unsent gives them out.
func (w *window) reissue() (n int) {
	if h := w.head(); h == nil || h.outcome != displaced {
		return 0
	}
	for _, s := range w.slots {
		if s.outcome == inFlight && !fault.SkipOverDead {
			return 0
		}
	}
	old := w.slots
	// Positions that nothing was sent to are still empty: leaving them so would be a
	// hole.
	if i := slices.IndexFunc(old, func(s *slot) bool { return s.outcome == waiting }); i >= 0 {
		w.next = old[i].pos
	}
	w.slots = nil
	for _, s := range old {
		w.assign(s.span).outcome = waiting
	}
	return len(old)
}

// unsent takes the next slot that is to be put again, or returns nil if none may be
// sent now. Behind a displaced position none may.
func (w *window) unsent() *slot {
	flying := 0
	for _, s := range w.slots {
		switch s.outcome {
		case displaced:
			return nil
		case inFlight:
			flying++
		case waiting:
			if flying >= w.limit {
				return nil
			}
			s.outcome = inFlight
			return s
		}
	}
	return nil
}
