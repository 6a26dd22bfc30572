package index

import (
	"cmp"
	"slices"
	"sort"
	"strings"
	"sync/atomic"
	"unsafe"
)

// terms is the dictionary of a text index: a hash from the text to the term, by the
// same tables as the primary key's, and the order of texts, which readers make when
// they ask for it. Terms have numbers in the order in which they came.
//
//   - who writes: the goroutine that applies batches; order, readers;
//   - who reads: anybody, without locks;
//   - what is published when: a term and the chunk that holds it, before count and
//     its cell. Those who meet a term whose rows are above their bound find none of
//     its postings below it.
type terms struct {
	hash   func([]byte) uint64
	shards [shards]shard
	dir    atomic.Pointer[[]*termChunk]
	count  atomic.Uint32
	order  atomic.Pointer[[]uint32] // numbers of the first terms, by text

	// The writer's.
	cells int
	heap  int64
}

type termChunk [slabItems]term

func (d *terms) init(hash func([]byte) uint64) {
	d.hash = hash
	for i := range d.shards {
		n := firstCells(i)
		d.shards[i].tab.Store(&table{cells: make([]uint64, n)})
		d.cells += n
	}
}

func (d *terms) at(number uint32) *term {
	return &(*d.dir.Load())[number/slabItems][number%slabItems]
}

// find is the term with a text; nil if there is none.
func (d *terms) find(text []byte) *term {
	hash := d.hash(text)
	t, fp := d.shards[hash>>(64-shardBits)].tab.Load(), fingerprint(hash)
	for i := t.home(fp); ; i = t.next(i) {
		c := t.load(i)
		if c == 0 {
			return nil
		}
		if uint32(c>>32) == fp {
			if x := d.at(uint32(c) - 1); x.text == string(text) {
				return x
			}
		}
	}
}

// intern is find for the writer, which adds the term, first met in a slot, if there
// is none.
func (d *terms) intern(s *slabs, text []byte, slot uint32) *term {
	hash := d.hash(text)
	sh := &d.shards[hash>>(64-shardBits)]
	t, fp := sh.tab.Load(), fingerprint(hash)
	i := t.home(fp)
	for ; t.cells[i] != 0; i = t.next(i) {
		if c := t.cells[i]; uint32(c>>32) == fp {
			if x := d.at(uint32(c) - 1); x.text == string(text) {
				return x
			}
		}
	}
	number := d.count.Load()
	x := d.add(number)
	x.text, x.head.first, x.touch = s.text(text), slot, -1
	d.count.Store(number + 1)
	if sh.full(t) {
		before := len(t.cells)
		t = sh.grow()
		d.cells += len(t.cells) - before
		for i = t.home(fp); t.cells[i] != 0; {
			i = t.next(i)
		}
	}
	t.store(i, fp, number)
	sh.used++
	return x
}

// add makes room for the next term.
func (d *terms) add(number uint32) *term {
	var dir []*termChunk
	if p := d.dir.Load(); p != nil {
		dir = *p
	}
	if int(number/slabItems) == len(dir) {
		before := cap(dir)
		// In place where there is room: readers hold shorter slices.
		dir = append(dir, new(termChunk))
		d.heap += int64(unsafe.Sizeof(termChunk{})) + int64(cap(dir)-before)*8
		d.dir.Store(&dir)
	}
	return &dir[number/slabItems][number%slabItems]
}

// sorted lists the numbers of all terms, those at least that were there when the
// caller took its bound, in the order of their texts. It must not be changed.
func (d *terms) sorted() []uint32 {
	n := d.count.Load()
	var old []uint32
	if p := d.order.Load(); p != nil {
		old = *p
	}
	if len(old) >= int(n) {
		return old
	}
	fresh := make([]uint32, 0, int(n)-len(old))
	for number := uint32(len(old)); number < n; number++ {
		fresh = append(fresh, number)
	}
	slices.SortFunc(fresh, func(a, b uint32) int { return strings.Compare(d.at(a).text, d.at(b).text) })
	merged := make([]uint32, 0, n)
	for len(old) > 0 && len(fresh) > 0 {
		if cmp.Less(d.at(old[0]).text, d.at(fresh[0]).text) {
			merged, old = append(merged, old[0]), old[1:]
		} else {
			merged, fresh = append(merged, fresh[0]), fresh[1:]
		}
	}
	merged = append(append(merged, old...), fresh...)
	for {
		p := d.order.Load()
		if p != nil && len(*p) >= len(merged) || d.order.CompareAndSwap(p, &merged) {
			return merged
		}
	}
}

// from is the place of the first term in sorted whose text is not below a text.
func (d *terms) from(sorted []uint32, text string) int {
	return sort.Search(len(sorted), func(i int) bool { return d.at(sorted[i]).text >= text })
}

// bytes is called by the writer; orderBytes by anybody.
func (d *terms) bytes() int64 { return d.heap + int64(d.cells)*8 }

func (d *terms) orderBytes() int64 {
	if p := d.order.Load(); p != nil {
		return int64(cap(*p)) * 4
	}
	return 0
}
