package index

import (
	"sync/atomic"
	"unsafe"

	"github.com/tidwall/btree"
)

// sizer tells how much heap a tree holds. The tree does not say, and its fill
// depends on the order of inserts, so nodes are counted by walking it: whenever
// it has grown by an eighth, which costs a few nanoseconds an insert, and in
// proportion to the rows in between.
type sizer struct {
	scratch atomic.Int64
	tree    atomic.Int64

	// The writer's.
	walked int   // items at the last walk
	heap   int64 // bytes at the last walk
}

const (
	itemBytes = int64(unsafe.Sizeof(item{}))
	leafBytes = 48 + 12 // a node, and the pointer to it in its parent, which is two thirds full
	// innerBytes is an item of a parent.
	innerBytes = 3 * itemBytes / 2

	// A split leaves both halves in the array of the node that was full, until
	// each of them grows: the left one has no room (splitLeft), the right one the
	// rest of the array (splitRight).
	fullCap    = 2 * degree
	splitLeft  = degree - 1
	splitRight = degree
	firstWalk  = 64
)

// observe is called by the writer after inserts.
func (s *sizer) observe(t *btree.BTreeG[item]) {
	n := t.Len()
	if n >= s.walked+max(s.walked/8, firstWalk) {
		s.walked, s.heap = n, treeBytes(t)
	}
	if s.walked == 0 {
		s.tree.Store(int64(n) * 2 * itemBytes)
		return
	}
	s.tree.Store(int64(float64(s.heap) * float64(n) / float64(s.walked)))
}

// restart is called by the writer when it has rebuilt the tree.
func (s *sizer) restart() { s.walked, s.heap = 0, 0 }

func treeBytes(t *btree.BTreeG[item]) int64 {
	var n int64
	shared := false // the leaf before this one holds the array of both
	t.Walk(func(items []item) bool {
		if len(items) == 1 {
			// An inner node's item: Walk gives them one by one, between leaves.
			n += innerBytes
			return true
		}
		n += leafBytes
		switch c := cap(items); {
		case c == splitLeft:
			n, shared = n+fullCap*itemBytes, true
		case c == splitRight && shared:
			shared = false
		case c == splitRight:
			n += fullCap * itemBytes
		default:
			n, shared = n+int64(c)*itemBytes, false
		}
		return true
	})
	return n
}

func (s *sizer) bytes() int64 {
	const fixed = int64(unsafe.Sizeof(ordered{}))
	return fixed + s.tree.Load() + s.scratch.Load()
}
