package index

import (
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
	key   []byte
	null  bool // the first column is null
	word  uint64
	after bool
}

func newEdge(c *keys.Codec, key []byte, after bool) *edge {
	h := c.Head(key)
	e := &edge{key: key, null: h.Null, word: h.Word, after: after}
	if n := len(key) - 1; after && n < 8 { // without the leading marker
		// What follows the key in longer ones is any byte: the edge is behind all.
		e.word |= math.MaxUint64 >> (8 * n)
	}
	return e
}

// afterNulls is the edge between keys whose first column is null and the others.
func afterNulls() *edge { return &edge{} }

// compareEdge tells on which side of an item the edge lies: negative before it,
// positive behind it; never 0.
func (o *ordered) compareEdge(e *edge, it item) int {
	if null := it.tag&hasValue == 0; e.null != null {
		if e.null {
			return -1
		}
		return 1
	}
	if d := cmp.Compare(e.word, it.word); d != 0 {
		return d
	}
	if len(e.key) > 9 { // the head has a marker and eight bytes
		rec, row := o.rows.Locate(it.slot)
		if d := o.codec.CompareKey(e.key, rec, row); d != 0 {
			return d
		}
	}
	if e.after {
		return 1
	}
	return -1
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
	p atomic.Pointer[edge]
	_ [56]byte // a cache line each
}

const edgeSlots = 64

// acquire returns an item that stands for the edge until release.
func (t *edges) acquire(e *edge) item {
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

func (t *edges) at(n uint32) *edge { return t[n-1].p.Load() }
