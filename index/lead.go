package index

import (
	"bytes"

	"github.com/tidwall/btree"

	"github.com/memwal/memwal-go/internal/keys"
)

// lead is what all keys of a tree begin with, after the marker, nulls aside.
// Heads hold the eight bytes behind it: without that, keys such as URLs or
// "user-000123" would all have the same head, and every step through the tree
// would have to look at a row. It shrinks when a key comes that does not have it,
// by rebuilding the tree. Published leads are immutable.
type lead []byte

// item is the tree's entry of a key.
func (l lead) item(c *keys.Codec, key []byte, slot uint32) item {
	it := item{slot: slot}
	rest := key[1:]
	if !keys.LeadsNull(key) {
		it.tag = hasValue
		rest = rest[len(l):]
	}
	it.word = keys.LoadWord(rest)
	if len(rest) <= 8 {
		it.tag |= complete
	}
	return it
}

// common is what the lead and the key, which has a marker, both begin with.
func (l lead) common(key []byte) lead {
	key = key[1:]
	if bytes.HasPrefix(key, l) {
		return l
	}
	n := 0
	for n < len(l) && n < len(key) && l[n] == key[n] {
		n++
	}
	return l[:n]
}

// follow makes the lead one of the run's keys too.
func (o *ordered) follow(r *run) {
	next, empty := o.lead, !o.valued
	for row := range r.rows {
		key := o.rowKey(row)
		switch {
		case len(key) == 0 || keys.LeadsNull(key):
		case empty:
			next, empty = bytes.Clone(key[1:]), false
		default:
			next = next.common(key)
		}
	}
	o.valued = !empty
	if len(next) != len(o.lead) {
		o.rebuild(next, r.rows)
	}
}

// rebuildFactor bounds the work of rebuilds to so many times the inserts: keys
// made to shrink the lead a byte at a time lose it instead.
const rebuildFactor = 4

// rebuild moves the tree to a shorter lead. Readers keep the trees they have.
func (o *ordered) rebuild(l lead, adding int) {
	total := uint64(o.tree.Len())
	if o.rebuilt += total; o.rebuilt > rebuildFactor*(total+uint64(adding)) {
		l = nil
	}
	o.mu.Lock()
	old := o.tree.Copy()
	o.mu.Unlock()

	tree := o.newTree()
	var key []byte
	old.Scan(func(it item) bool {
		rec, row := o.rows.Locate(it.slot)
		key = o.codec.AppendRow(key[:0], rec, row)
		o.slot, o.key = it.slot, key // Load compares it with the last one
		tree.Load(l.item(o.codec, key, it.slot))
		return true
	})

	o.mu.Lock()
	defer o.mu.Unlock()
	o.tree, o.lead = tree, l
	o.size.restart()
}

func (o *ordered) newTree() *btree.BTreeG[item] {
	return btree.NewBTreeGOptions(o.less, btree.Options{NoLocks: true, Degree: degree})
}
