package index

import (
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/tidwall/btree"

	"github.com/memwal/memwal-go/internal/keys"
)

// orderedSpec is an Ordered bound to a schema.
type orderedSpec struct {
	cfg   Ordered
	cols  []int
	codec *keys.Codec
}

func (o Ordered) bind(b *binder) bound {
	o.Columns = slices.Clone(o.Columns)
	s := &orderedSpec{cfg: o, cols: b.columns(o.Columns)}
	// Keys have null markers also where the schema allows no nulls, so that
	// memtables from before and after a schema change merge.
	s.codec = b.codec(s.cols, true)
	return s
}

func (o *orderedSpec) config() Config               { return o.cfg }
func (o *orderedSpec) columns() []int               { return o.cols }
func (o *orderedSpec) check(rec batchColumns) error { return o.codec.Check(rec.rec) }
func (o *orderedSpec) make(s *Set) kind             { return newOrdered(o.codec, s.rows, s.Live) }

// ordered is the ordered index of one memtable: a B-tree of all versions, without
// tombstones (which are live at no bound).
//
//   - who writes the tree: the applying goroutine, under mu, in steps of
//     insertStep rows;
//   - who reads: anybody, immutable copies of the tree only. A copy is O(1); what
//     it costs is that the writer then copies each node before its first change;
//   - what is published when: root, by a reader that found none good enough, or
//     by the writer at the end of a batch if the one before was used. So nothing
//     is copied while nobody reads, and steady readers never wait for mu.
//
// A root may hold rows of batches that are not applied yet: the bound keeps them
// out, like every row above it.
type ordered struct {
	codec *keys.Codec
	rows  Rows
	live  func(slot, bound uint32) bool
	edges edges

	root atomic.Pointer[root]

	mu sync.Mutex
	// Guarded by mu; only the writer changes them, so it reads without.
	tree *btree.BTreeG[item]
	next uint32 // all slots below it are in tree
	lead lead   // of tree

	size sizer

	sortRows int // see there; tests set it

	// The writer's scratch. keys are the encoded keys of the run, row after
	// row, and ends where each of them ends.
	words []uint64
	items []item
	spare []item
	keys  []byte
	ends  []int

	// The writer's.
	valued  bool   // a key whose first column is no null has come
	rebuilt uint64 // items moved by rebuilds

	// The item being inserted, where heads do not decide.
	slot uint32
	key  []byte
}

// root is an immutable tree with all slots below next.
type root struct {
	tree *btree.BTreeG[item]
	lead lead
	next uint32
	used atomic.Bool
}

// item is an entry of the tree: the head of a key and the slot it belongs to, or
// an edge that a search seeks (edges.go).
type item struct {
	word uint64
	slot uint32
	tag  uint32 // hasValue | complete, or an edge's number << edgeShift
}

const (
	hasValue  = 1 << 0 // the first column is not null
	complete  = 1 << 1 // the whole key is in word
	edgeShift = 2
)

const (
	// insertStep bounds how long a reader waits for mu: a few hundred inserts.
	insertStep = 256
	// scratchMax is the scratch that is kept between batches.
	scratchMax = 1 << 20
	// degree of the tree.
	degree = 32
)

func newOrdered(c *keys.Codec, rows Rows, live func(slot, bound uint32) bool) *ordered {
	o := &ordered{codec: c, rows: rows, live: live, sortRows: sortRows}
	o.tree = o.newTree()
	return o
}

// less orders items by null first, head, full key where the head does not
// decide, slot. Two items that are no edges are compared by the writer only, and
// one of them is the one it is inserting.
func (o *ordered) less(a, b item) bool {
	if (a.tag|b.tag)>>edgeShift != 0 {
		return o.lessEdge(a, b)
	}
	if x, y := a.tag&hasValue, b.tag&hasValue; x != y {
		return x < y
	}
	if a.word != b.word {
		return a.word < b.word
	}
	if a.tag&complete == 0 {
		if d := o.compareFull(a, b); d != 0 {
			return d < 0
		}
	}
	return a.slot < b.slot
}

// compareFull compares the full keys of two items, one of which is being inserted.
func (o *ordered) compareFull(a, b item) int {
	if a.slot == o.slot {
		rec, row := o.rows.Locate(b.slot)
		return o.codec.CompareKey(o.key, rec, row)
	}
	rec, row := o.rows.Locate(a.slot)
	return -o.codec.CompareKey(o.key, rec, row)
}

func (o *ordered) apply(r *run) error {
	o.collect(r)
	set, long := o.tree.Set, len(o.items) >= o.sortRows
	if long {
		o.sort(r.first)
		set = o.inOrder(r.first)
	}
	if set == nil {
		o.merge(r.first)
	} else {
		for at := 0; at < len(o.items); at += insertStep {
			o.insert(r.first, o.items[at:min(at+insertStep, len(o.items))], set)
		}
	}
	o.publish(r.first + uint32(r.rows))
	o.trim(long)
	return nil
}

// trim drops scratch that a long run or an unusually large batch has left, and counts
// the rest.
func (o *ordered) trim(long bool) {
	o.key = nil
	n := cap(o.words)*8 + (cap(o.items)+cap(o.spare))*int(unsafe.Sizeof(item{})) + cap(o.keys) + cap(o.ends)*8
	if long || n > scratchMax {
		o.words, o.items, o.spare, o.keys, o.ends, n = nil, nil, nil, nil, nil, 0
	}
	o.size.scratch.Store(int64(n))
}

// collect fills items, and keys where heads do not decide, from a run.
func (o *ordered) collect(r *run) {
	o.items = slices.Grow(o.items[:0], r.rows)
	if !o.codec.Fixed() {
		o.collectKeys(r)
		return
	}
	for i := range r.batches {
		o.collectWords(&r.batches[i])
	}
}

func (o *ordered) collectWords(b *batch) {
	o.words = o.codec.Words(o.words[:0], b.rec)
	nulls := o.codec.MayLeadNull(b.rec)
	for row, w := range o.words {
		if b.isDead(row) {
			continue
		}
		it := item{word: w, slot: b.first + uint32(row), tag: hasValue | complete}
		if nulls && o.codec.LeadNull(b.rec, row) {
			it.word, it.tag = o.codec.Word(b.rec, row), complete
		}
		o.items = append(o.items, it)
	}
}

func (o *ordered) collectKeys(r *run) {
	o.keys, o.ends = o.keys[:0], slices.Grow(o.ends[:0], r.rows)
	for i := range r.batches {
		b := &r.batches[i]
		for row := range b.rows {
			if !b.isDead(row) {
				o.keys = o.codec.AppendRow(o.keys, b.rec, row)
			}
			o.ends = append(o.ends, len(o.keys))
		}
	}
	o.follow(r)
	for row := range r.rows {
		if key := o.rowKey(row); len(key) > 0 {
			o.items = append(o.items, o.lead.item(o.codec, key, r.first+uint32(row)))
		}
	}
}

func (o *ordered) insert(first uint32, items []item, set func(item) (item, bool)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, it := range items {
		o.compareAs(first, it)
		set(it)
	}
	o.size.observe(o.tree)
}

// compareAs makes an item of the run that starts at slot first the one that is
// being inserted.
func (o *ordered) compareAs(first uint32, it item) {
	if it.tag&complete == 0 {
		o.slot = it.slot
		o.key = o.rowKey(int(it.slot - first))
	}
}

// rowKey is the encoded key of a row of the run.
func (o *ordered) rowKey(row int) []byte {
	start := 0
	if row > 0 {
		start = o.ends[row-1]
	}
	return o.keys[start:o.ends[row]]
}

// publish ends a batch: the tree has all slots below next.
func (o *ordered) publish(next uint32) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.next = next
	if r := o.root.Load(); r != nil {
		if r.used.Load() {
			o.root.Store(&root{tree: o.tree.Copy(), lead: o.lead, next: next})
		} else {
			o.root.Store(nil)
		}
	}
}

// at is an immutable tree with all slots below bound.
func (o *ordered) at(bound uint32) *root {
	if r := o.root.Load(); r != nil && r.next >= bound {
		if !r.used.Load() {
			r.used.Store(true)
		}
		return r
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if r := o.root.Load(); r != nil && r.next >= bound {
		r.used.Store(true)
		return r
	}
	r := &root{tree: o.tree.Copy(), lead: o.lead, next: o.next}
	r.used.Store(true)
	o.root.Store(r)
	return r
}

func (o *ordered) bytes() int64 { return o.size.bytes() }
