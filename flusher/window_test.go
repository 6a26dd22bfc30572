package flusher

import (
	"encoding/binary"
	"testing"

	"github.com/memwal/memwal-go/internal/wal"
)

// newTestWindow returns a window above position 10 whose put-ids count from 101.
func newTestWindow(limit int) *window {
	n := uint64(100)
	return &window{next: 11, last: testID(100), limit: limit, span: Span(limit), newID: func() wal.PutID { n++; return testID(n) }}
}

func testID(n uint64) (id wal.PutID) {
	binary.BigEndian.PutUint64(id[8:], n)
	return id
}

// check compares the window with "pos:id<prev" of its slots.
func (w *window) check(t *testing.T, want ...[3]uint64) {
	t.Helper()
	if len(w.slots) != len(want) {
		t.Fatalf("%d slots, want %d", len(w.slots), len(want))
	}
	for i, s := range w.slots {
		got := [3]uint64{s.pos, binary.BigEndian.Uint64(s.id[8:]), binary.BigEndian.Uint64(s.prev[8:])}
		if got != want[i] {
			t.Errorf("slot %d is {position, id, previous} %v, want %v", i, got, want[i])
		}
	}
}

func TestWindowChainsAndBounds(t *testing.T) {
	w := newTestWindow(2)
	a := w.assign(span{first: 0, end: 5})
	b := w.assign(span{first: 5, end: 6})
	w.check(t, [3]uint64{11, 101, 100}, [3]uint64{12, 102, 101})
	if w.room() {
		t.Error("room for a third put of two")
	}
	// A later put that landed makes room for another, as far as the span reaches.
	b.outcome = landed
	for w.room() {
		w.assign(span{first: w.slots[len(w.slots)-1].end, end: w.slots[len(w.slots)-1].end + 1}).outcome = landed
	}
	if got, want := w.next-a.pos, Span(2); got != want {
		t.Errorf("the window spans %d positions, want %d", got, want)
	}
	a.outcome = landed
	w.pop()
	if !w.room() {
		t.Error("no room after the oldest position was resolved")
	}
	w.pop()
	if w.last != testID(102) {
		t.Errorf("last live entry is %v, want the one popped", w.last)
	}
}

func TestSpan(t *testing.T) {
	// Behind a single put nothing can land: logs for others than memwal need that.
	if Span(1) != 1 || Span(2) != 8 || Span(64) != 256 {
		t.Errorf("spans %d, %d, %d", Span(1), Span(2), Span(64))
	}
}

func TestWindowReissuesAboveADeadObject(t *testing.T) {
	w := newTestWindow(4)
	first := w.assign(span{first: 0, end: 1})
	dead := w.assign(span{first: 1, end: 2})
	behind := w.assign(span{first: 2, end: 3})
	last := w.assign(span{first: 3, end: 4})

	first.outcome = landed
	w.pop()
	dead.outcome = displaced
	behind.outcome = landed
	if w.room() {
		t.Error("room behind a displaced position: the next entry would chain from one that never landed")
	}
	if got := w.reissue(); got != 0 {
		t.Fatal("put again while a put is in flight: it could land in a position that is used again")
	}
	last.outcome = landed
	if got := w.reissue(); got != 3 {
		t.Fatalf("%d entries put again, want all from the displaced one on", got)
	}
	// Above all old positions, with new ids, chained from the last live entry.
	w.check(t, [3]uint64{15, 105, 101}, [3]uint64{16, 106, 105}, [3]uint64{17, 107, 106})
	for w.unsent() != nil {
	}
	for i, s := range w.slots {
		if s.first != uint64(i+1) || s.outcome != inFlight {
			t.Errorf("slot %d holds rows from %d, outcome %d", i, s.first, s.outcome)
		}
	}
	// Nothing displaced: nothing to do.
	if got := w.reissue(); got != 0 {
		t.Error("put again without a displaced head")
	}
}
