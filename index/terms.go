package index

import (
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
	arena  arena
	shards [shards]shard
	dir    atomic.Pointer[[]*termChunk]
	count  atomic.Uint32 // below 2^32: the arena is full before
	order  atomic.Pointer[order]

	// The writer's.
	cells int
	heap  int64
}

const termItems = 256

type termChunk [termItems]term

func (d *terms) init(hash func([]byte) uint64) {
	d.hash, d.arena.most = hash, maxChunks
	for i := range d.shards {
		n := firstCells(i)
		d.shards[i].tab.Store(&table{cells: make([]uint64, n)})
		d.cells += n
	}
}

func (d *terms) at(number uint32) *term {
	return &(*d.dir.Load())[number/termItems][number%termItems]
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
			if x := d.at(uint32(c) - 1); x.text() == string(text) {
				return x
			}
		}
	}
}

// intern is find for the writer, which adds the term if there is none.
func (d *terms) intern(text []byte) (*term, error) {
	hash := d.hash(text)
	sh := &d.shards[hash>>(64-shardBits)]
	t, fp := sh.tab.Load(), fingerprint(hash)
	i := t.home(fp)
	for ; t.cells[i] != 0; i = t.next(i) {
		if c := t.cells[i]; uint32(c>>32) == fp {
			if x := d.at(uint32(c) - 1); x.text() == string(text) {
				return x, nil
			}
		}
	}
	number := d.count.Load()
	x := d.add(number)
	if err := x.init(&d.arena, text); err != nil {
		return nil, err
	}
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
	return x, nil
}

// add makes room for the next term.
func (d *terms) add(number uint32) *term {
	var dir []*termChunk
	if p := d.dir.Load(); p != nil {
		dir = *p
	}
	if int(number/termItems) == len(dir) {
		before := cap(dir)
		// In place where there is room: readers hold shorter slices.
		dir = append(dir, new(termChunk))
		d.heap += int64(unsafe.Sizeof(termChunk{})) + int64(cap(dir)-before)*8
		d.dir.Store(&dir)
	}
	return &dir[number/termItems][number%termItems]
}

// order is the numbers of the first terms, by text, in sorted runs. Each run is at
// least runFactor times as long as the next, so a term is merged a few times, and a
// query that comes when there are some new terms sorts little but these.
type order struct {
	runs  [][]uint32
	count uint32 // of terms in them
}

const runFactor = 4

// sorted has all terms, those at least that were there when the caller took its bound.
// It must not be changed.
func (d *terms) sorted() *order {
	n := d.count.Load()
	old := d.order.Load()
	if old == nil {
		old = new(order)
	}
	if old.count >= n {
		return old
	}
	fresh := make([]uint32, 0, n-old.count)
	for number := old.count; number < n; number++ {
		fresh = append(fresh, number)
	}
	slices.SortFunc(fresh, func(a, b uint32) int { return strings.Compare(d.at(a).text(), d.at(b).text()) })
	o := &order{runs: append(slices.Clone(old.runs), fresh), count: n}
	for last := len(o.runs) - 1; last > 0 && len(o.runs[last-1]) < runFactor*len(o.runs[last]); last-- {
		o.runs[last-1] = d.merge(o.runs[last-1], o.runs[last])
		o.runs = o.runs[:last]
	}
	for {
		p := d.order.Load()
		if p != nil && p.count >= n || d.order.CompareAndSwap(p, o) {
			return o
		}
	}
}

// merge makes one run of two. Places are looked for only where the shorter one has a
// term: most of the work is to copy what lies between.
func (d *terms) merge(long, short []uint32) []uint32 {
	merged := make([]uint32, 0, len(long)+len(short))
	for i, number := range short {
		text := d.at(number).text()
		n := d.from(long, text, len(long)/(len(short)-i))
		merged = append(append(merged, long[:n]...), number)
		long = long[n:]
	}
	return append(merged, long...)
}

// from is the place of the first term of a run whose text is not below a text; guess
// is about where.
func (d *terms) from(run []uint32, text string, guess int) int {
	// The distance is doubled until the place is passed, then halved.
	low, high := 0, len(run)
	for step := max(guess, 1); step < len(run); step *= 2 {
		if d.at(run[step]).text() >= text {
			high = step
			break
		}
		low = step + 1
	}
	return low + sort.Search(high-low, func(i int) bool { return d.at(run[low+i]).text() >= text })
}

// list lists the terms in their order, from a text on.
func (d *terms) list(from string) *termCursor {
	c := &termCursor{terms: d}
	for _, run := range d.sorted().runs {
		if left := run[d.from(run, from, len(run)/2):]; len(left) > 0 {
			c.runs = append(c.runs, cursorRun{left: left, text: d.at(left[0]).text()})
		}
	}
	c.choose()
	return c
}

// termCursor merges the runs of an order. It implements termList.
type termCursor struct {
	terms *terms
	runs  []cursorRun // that have terms left
	run   int         // the lowest is in
	until string      // where another run has the lowest; empty: nowhere
}

type cursorRun struct {
	left []uint32
	text string // of the first
}

// choose finds the run to go on with, and how far: many terms in a row are of the
// longest one, so there is rarely something to choose.
func (c *termCursor) choose() {
	c.run, c.until = 0, ""
	for i := 1; i < len(c.runs); i++ {
		text := c.runs[i].text
		if low := c.runs[c.run].text; text < low {
			c.run, text = i, low
		}
		if c.until == "" || text < c.until {
			c.until = text
		}
	}
}

func (c *termCursor) term() *term { return c.terms.at(c.runs[c.run].left[0]) }

func (c *termCursor) word() (string, bool) {
	if len(c.runs) == 0 {
		return "", false
	}
	return c.runs[c.run].text, true
}

func (c *termCursor) next() error {
	r := &c.runs[c.run]
	if r.left = r.left[1:]; len(r.left) == 0 {
		c.runs = slices.Delete(c.runs, c.run, c.run+1)
		c.choose()
		return nil
	}
	r.text = c.terms.at(r.left[0]).text()
	if c.until != "" && r.text > c.until {
		c.choose()
	}
	return nil
}

// bytes is called by the writer; orderBytes by anybody.
func (d *terms) bytes() int64 { return d.heap + d.arena.heap + int64(d.cells)*8 }

func (d *terms) orderBytes() int64 {
	n := int64(0)
	if o := d.order.Load(); o != nil {
		for _, run := range o.runs {
			n += int64(cap(run))*4 + int64(unsafe.Sizeof(run))
		}
	}
	return n
}
