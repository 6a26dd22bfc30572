package memtable

// waitHeap holds waiters, the one with the lowest target first. Targets mostly
// come in increasing order, which makes a push a plain append; any other order
// costs a logarithm, and so does removing a waiter that gave up.
type waitHeap []waitEntry // heap[i].target >= heap[(i-1)/2].target; heap[i].waiter.pos == i

// waitEntry repeats the target, so that comparing does not touch the waiters.
type waitEntry struct {
	target uint64
	waiter *Waiter
}

func (h *waitHeap) push(w *Waiter) {
	*h = append(*h, waitEntry{w.target, w})
	h.up(len(*h) - 1)
}

// remove takes out the waiter at i.
func (h *waitHeap) remove(i int) *Waiter {
	old := *h
	last := len(old) - 1
	gone, moved := old[i].waiter, old[last]
	old[last] = waitEntry{}
	*h = old[:last]
	gone.pos = notWaiting
	if i < last {
		(*h)[i] = moved
		moved.waiter.pos = i
		if !h.down(i) {
			h.up(i)
		}
	}
	return gone
}

func (h waitHeap) up(i int) {
	e := h[i]
	for i > 0 {
		parent := (i - 1) / 2
		if h[parent].target <= e.target {
			break
		}
		h.set(i, h[parent])
		i = parent
	}
	h.set(i, e)
}

// down tells whether the entry moved.
func (h waitHeap) down(i int) bool {
	e, start := h[i], i
	for {
		child := 2*i + 1
		if child >= len(h) {
			break
		}
		if right := child + 1; right < len(h) && h[right].target < h[child].target {
			child = right
		}
		if e.target <= h[child].target {
			break
		}
		h.set(i, h[child])
		i = child
	}
	h.set(i, e)
	return i > start
}

func (h waitHeap) set(i int, e waitEntry) {
	h[i] = e
	e.waiter.pos = i
}
