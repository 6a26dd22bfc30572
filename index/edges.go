package index

import (
	"bytes"
	"cmp"
	"math"
	"math/rand/v2"
	"runtime"
	"sync/atomic"

	"github.com/memwal/memwal-go/internal/keys"
)

// edge is a place between two keys: right before, or right after, all keys that
// begin with the edge's key, which has the first columns of an index key.
type edge struct {
	key   []byte // empty: after the keys whose first column is null, before the others
	after bool
}

// placed is an edge in the order of one tree: the parts of it that decide most
// comparisons, relative to the tree's lead.
type placed struct {
	edge
	null bool   // the first column is null
	side int    // where all keys with the tree's lead are on one side: -1 before them, 1 after
	word uint64 // else
	long bool   // the key goes on after word
}

func (e *edge) place(l lead) *placed {
	p := &placed{edge: *e}
	rest := e.key
	if len(rest) > 0 {
		p.null = keys.LeadsNull(rest)
		rest = rest[1:]
	}
	if !p.null {
		n := min(len(rest), len(l))
		switch d := bytes.Compare(rest[:n], l[:n]); {
		case d != 0:
			p.side = d
		case n < len(l):
			p.side = e.towards()
		}
		rest = rest[n:]
	}
	p.word, p.long = keys.LoadWord(rest), len(rest) > 8
	if e.after && len(rest) < 8 {
		// What follows the key in longer ones is any byte: the edge is behind all.
		p.word |= math.MaxUint64 >> (8 * len(rest))
	}
	return p
}

// towards is the side of keys that begin with the edge's key on which it is.
func (e *edge) towards() int {
	if e.after {
		return 1
	}
	return -1
}

// compareEdge tells on which side of an item the edge lies: negative before it,
// positive behind it; never 0.
func (o *ordered) compareEdge(e *placed, it item) int {
	if null := it.tag&hasValue == 0; e.null != null {
		if e.null {
			return -1
		}
		return 1
	}
	if e.side != 0 {
		return e.side
	}
	if d := cmp.Compare(e.word, it.word); d != 0 {
		return d
	}
	if e.long {
		rec, row := o.rows.Locate(it.slot)
		if d := o.codec.CompareKey(e.key, rec, row); d != 0 {
			return d
		}
	}
	return e.towards()
}

// lessEdge is less where one of the items is an edge.
func (o *ordered) lessEdge(a, b item) bool {
	if n := a.tag >> edgeShift; n != 0 {
		return o.compareEdge(o.edges.at(n), b) < 0
	}
	return o.compareEdge(o.edges.at(b.tag>>edgeShift), a) > 0
}

// edges lends numbers to the edges that searches are seeking at this moment. The
// tree's order is one function over items of 16 bytes without pointers, so an
// item cannot carry a bound of any length; it carries the number of one instead.
//
// An entry belongs to the goroutine that swapped it in from nil, and only that
// goroutine looks it up, while it seeks. Seeks never wait for anything, so a free
// entry turns up soon even if more goroutines seek than there are entries.
type edges [edgeSlots]struct {
	p atomic.Pointer[placed]
	_ [56]byte // a cache line each
}

const edgeSlots = 64

// acquire returns an item that stands for the edge until release.
func (t *edges) acquire(e *placed) item {
	for i := rand.Uint32(); ; i++ {
		if n := i % edgeSlots; t[n].p.CompareAndSwap(nil, e) {
			return item{tag: (n + 1) << edgeShift}
		}
		if i%edgeSlots == 0 {
			runtime.Gosched()
		}
	}
}

func (t *edges) release(it item) { t[it.tag>>edgeShift-1].p.Store(nil) }

func (t *edges) at(n uint32) *placed { return t[n-1].p.Load() }
