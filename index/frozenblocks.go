package index

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"sort"
	"unsafe"
)

// Sorted keys, each with some numbers, are written in blocks:
//
//	uvarint(base)
//	for each entry:
//	  uvarint(bytes that the key has in common with the one before it in the block)
//	  uvarint(bytes that follow) bytes
//	  uvarint(number), for each of its numbers
//
// and found through the list of blocks:
//
//	uvarint(bytes of the block) uvarint(bytes of the separator) separator
//
// A separator is the shortest text that is above all keys of the blocks before it, where
// there is one, and not above the first key of its own; empty for the first block.

const (
	// blockBytes ends a block: a lookup reads half of one, and the list of blocks, which is
	// held in memory, has one separator for each.
	blockBytes = 1 << 10
	// blockKeys ends a block of long keys that have much in common: it bounds what a
	// reader makes of a block.
	blockKeys = 16 << 10
)

// blockWriter writes sorted keys.
type blockWriter struct {
	to     io.Writer
	blocks []byte // the list of blocks
	count  uint64 // of keys

	block     []byte
	separator []byte
	last      []byte
	keys      int // bytes of the block's keys
}

// add adds a key, which is not below the one before it. base is kept if it is the first
// one of its block.
func (w *blockWriter) add(key []byte, base uint64, numbers ...uint64) {
	shared := 0
	if len(w.block) == 0 {
		w.block = binary.AppendUvarint(w.block, base)
		w.separator = w.separator[:0]
		if w.count > 0 {
			w.separator = append(w.separator, key[:min(len(key), common(w.last, key)+1)]...)
		}
	} else {
		shared = common(w.last, key)
	}
	w.block = binary.AppendUvarint(w.block, uint64(shared))
	w.block = binary.AppendUvarint(w.block, uint64(len(key)-shared))
	w.block = append(w.block, key[shared:]...)
	for _, n := range numbers {
		w.block = binary.AppendUvarint(w.block, n)
	}
	w.last = append(w.last[:0], key...)
	w.count++
	if w.keys += len(key); len(w.block) >= blockBytes || w.keys >= blockKeys {
		w.flush()
	}
}

// flush ends a block. It is called after the last key.
func (w *blockWriter) flush() {
	if len(w.block) == 0 {
		return
	}
	w.blocks = binary.AppendUvarint(w.blocks, uint64(len(w.block)))
	w.blocks = binary.AppendUvarint(w.blocks, uint64(len(w.separator)))
	w.blocks = append(w.blocks, w.separator...)
	w.to.Write(w.block) // a bytes.Buffer, or a pagefile.Writer, which keeps its error
	w.block, w.keys = w.block[:0], 0
}

// common is how many bytes two keys have in common at their beginning.
func common(a, b []byte) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// blockIndex is the list of blocks. Immutable.
type blockIndex struct {
	refs  []blockRef
	bytes int64 // of memory
}

type blockRef struct {
	offset, length int64
	separator      []byte
}

// index reads the list of blocks, unless somebody has. Several may read it at once.
func (f *Frozen) index(ctx context.Context) (*blockIndex, error) {
	if b := f.blocks.Load(); b != nil {
		return b, nil
	}
	list, entries := f.file.Section(sectionBlocks), f.file.Section(sectionEntries)
	b, err := f.file.View(ctx, list.Offset, list.Length, list.End())
	if err != nil {
		return nil, err
	}
	x := new(blockIndex)
	if !f.file.Whole() {
		b = bytes.Clone(b) // a page that is in the cache lives in it alone
		x.bytes = int64(len(b))
	}
	d := decoder{b: b}
	at := entries.Offset
	for len(d.b) > 0 {
		length := d.uvarint()
		separator := d.take(d.uvarint())
		if d.bad || length == 0 || length > uint64(entries.End()-at) {
			return nil, f.corrupt(list.Offset, "the list of blocks")
		}
		x.refs = append(x.refs, blockRef{offset: at, length: int64(length), separator: separator})
		at += int64(length)
	}
	if at != entries.End() {
		return nil, f.corrupt(list.Offset, "the list of blocks is too short")
	}
	x.bytes += int64(cap(x.refs)) * int64(unsafe.Sizeof(blockRef{}))
	if !f.blocks.CompareAndSwap(nil, x) {
		x = f.blocks.Load()
	}
	return x, nil
}

// before is the number of the last block whose separator a test holds for, which holds
// for the separators up to some block; 0 if it holds for none.
func (x *blockIndex) before(test func(separator []byte) bool) int {
	n := sort.Search(len(x.refs), func(i int) bool { return i > 0 && !test(x.refs[i].separator) })
	return max(0, n-1)
}

// find is the block that a key is in, if it is anywhere.
func (x *blockIndex) find(key []byte) int {
	return x.before(func(s []byte) bool { return bytes.Compare(s, key) <= 0 })
}

// entries are those of one block. They are for one goroutine, and are used again.
type entries struct {
	base    uint64
	keys    []byte
	ends    []int // of each key, in keys
	numbers []uint64
	each    int // numbers of an entry
}

func (e *entries) len() int { return len(e.ends) }

func (e *entries) key(i int) []byte {
	start := 0
	if i > 0 {
		start = e.ends[i-1]
	}
	return e.keys[start:e.ends[i]:e.ends[i]]
}

// number is one of the numbers of an entry.
func (e *entries) number(i, which int) uint64 { return e.numbers[i*e.each+which] }

// load reads a block. ahead is up to where the caller goes on reading.
func (e *entries) load(ctx context.Context, f *Frozen, ref blockRef, ahead int64) error {
	b, err := f.file.View(ctx, ref.offset, ref.length, ahead)
	if err != nil {
		return err
	}
	d := decoder{b: b}
	e.base = d.uvarint()
	e.keys, e.ends, e.numbers = e.keys[:0], e.ends[:0], e.numbers[:0]
	last := 0 // where the last key begins
	for len(d.b) > 0 && !d.bad {
		if len(e.keys) >= blockKeys {
			return f.corrupt(ref.offset, "a block has more keys than are written")
		}
		shared := d.uvarint()
		rest := d.take(d.uvarint())
		if start := len(e.keys); shared > uint64(start-last) {
			d.bad = true
		} else {
			e.keys = append(append(e.keys, e.keys[last:last+int(shared)]...), rest...)
			last = start
		}
		e.ends = append(e.ends, len(e.keys))
		for range e.each {
			e.numbers = append(e.numbers, d.uvarint())
		}
	}
	if d.bad || len(e.ends) == 0 {
		e.ends = e.ends[:0]
		return f.corrupt(ref.offset, "a block of keys")
	}
	return nil
}

// search is the first entry whose key is not below a key.
func (e *entries) search(key []byte) (i int, equal bool) {
	i = sort.Search(e.len(), func(i int) bool { return bytes.Compare(e.key(i), key) >= 0 })
	return i, i < e.len() && bytes.Equal(e.key(i), key)
}

// decoder reads varints and bytes. Beyond the end it is bad, and gives nothing.
type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.b, d.bad = nil, true
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) take(n uint64) []byte {
	if n > uint64(len(d.b)) {
		d.b, d.bad = nil, true
		return nil
	}
	b := d.b[:n:n]
	d.b = d.b[n:]
	return b
}
