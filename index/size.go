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
	itemBytes  = int64(unsafe.Sizeof(item{}))
	leafBytes  = 48 + 12           // a node, and the pointer to it in its parent, which is two thirds full
	innerBytes = 3 * itemBytes / 2 // an item of a parent
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

func treeBytes(t *btree.BTreeG[item]) int64 {
	var n int64
	t.Walk(func(items []item) bool {
		if len(items) == 1 {
			// An inner node's item: Walk gives them one by one, between leaves.
			n += innerBytes
		} else {
			n += leafBytes + int64(cap(items))*itemBytes
		}
		return true
	})
	return n
}

func (s *sizer) bytes() int64 {
	const fixed = int64(unsafe.Sizeof(ordered{}))
	return fixed + s.tree.Load() + s.scratch.Load()
}
