package index

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/tidwall/btree"
)

// Long runs go into an ordered index in order. Inserting a million random keys
// one by one goes down the tree a million times, most of it out of cache; sorting
// the run first (radix, some 20 ns a key) and then walking along the tree, or
// loading old and new into a new tree, is several times faster: see
// BenchmarkApplyRun. The primary key has nothing to gain: with a run dealt out to
// its shards first, so that one table at a time is in the cache, it was no faster.
const (
	// sortRows is the length of a run from which sorting pays: below, the steps
	// through a large tree are as far apart as if the run was not sorted.
	sortRows = 16 << 10
	// mergeFactor is how many times as large as the run the tree may be to be
	// built anew: loading an item takes an eighth of an insert, and
	// while both trees are there, memory is doubled.
	mergeFactor = 4
)

// sort brings items into the tree's order.
func (o *ordered) sort(first uint32) {
	sortWords(o.items, &o.spare)
	// Items were in slot order, so only keys that words do not tell apart are left.
	for at := 0; at < len(o.items); {
		end := at + 1
		for end < len(o.items) && sameHead(o.items[at], o.items[end]) {
			end++
		}
		if end > at+1 && o.items[at].tag&complete == 0 {
			slices.SortFunc(o.items[at:end], func(a, b item) int {
				return cmp.Or(bytes.Compare(o.rowKey(int(a.slot-first)), o.rowKey(int(b.slot-first))), cmp.Compare(a.slot, b.slot))
			})
		}
		at = end
	}
}

func sameHead(a, b item) bool { return a.word == b.word && (a.tag^b.tag)&hasValue == 0 }

// sortWords sorts items by null first, then word, and leaves equal ones in their
// order: a radix sort, byte by byte from the last. spare is scratch.
func sortWords(items []item, spare *[]item) {
	var counts [9][256]uint32 // of each byte of the word, and of the null marker
	for _, it := range items {
		w := it.word
		for i := range 8 {
			counts[i][byte(w>>(8*i))]++
		}
		counts[8][it.tag&hasValue]++
	}
	*spare = slices.Grow((*spare)[:0], len(items))
	from, to := items, (*spare)[:len(items)]
	for i := range counts {
		digit := func(it item) byte {
			if i == 8 {
				return byte(it.tag & hasValue)
			}
			return byte(it.word >> (8 * i))
		}
		c := &counts[i]
		if len(items) == 0 || int(c[digit(items[0])]) == len(items) {
			continue // all have the same
		}
		var sum uint32
		for d, n := range c {
			c[d] = sum
			sum += n
		}
		for _, it := range from {
			d := digit(it)
			to[c[d]] = it
			c[d]++
		}
		from, to = to, from
	}
	if len(items) > 0 && &from[0] != &items[0] {
		copy(items, from)
	}
}

// inOrder returns what puts the sorted items into the tree one by one; nil if it is
// better built anew.
func (o *ordered) inOrder(first uint32) func(item) (item, bool) {
	last, ok := o.tree.Max()
	o.compareAs(first, o.items[0])
	switch {
	case ok && o.less(last, o.items[0]):
		return o.tree.Load // all are behind: keys that count up
	case o.tree.Len() <= mergeFactor*len(o.items):
		return nil
	}
	hint := new(btree.PathHint)
	return func(it item) (item, bool) { return o.tree.SetHint(it, hint) }
}

// merge builds a tree of what the tree has and the sorted items. Readers keep the
// trees they have.
func (o *ordered) merge(first uint32) {
	o.mu.Lock()
	old := o.tree.Copy()
	o.mu.Unlock()

	tree, rest := o.newTree(), o.items
	var last item
	var key []byte
	load := func(it item) {
		tree.Load(it)
		last = it
	}
	old.Scan(func(it item) bool {
		for len(rest) > 0 {
			o.compareAs(first, rest[0])
			if !o.less(rest[0], it) {
				break
			}
			load(rest[0])
			rest = rest[1:]
		}
		if it.tag&complete == 0 && tree.Len() > 0 && sameHead(last, it) {
			// Load compares the two in full.
			rec, row := o.rows.Locate(it.slot)
			key = o.codec.AppendRow(key[:0], rec, row)
			o.slot, o.key = it.slot, key
		}
		load(it)
		return true
	})
	for _, it := range rest {
		o.compareAs(first, it)
		load(it)
	}

	o.mu.Lock()
	defer o.mu.Unlock()
	o.tree = tree
	o.size.restart()
	o.size.observe(tree)
}
