package index

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"sync/atomic"
	"unsafe"
)

// term is an entry of a text index's dictionary with its postings: the slots that
// have it, all versions, in slot order.
//
// A posting is
//
//	uvarint(slot − the one before it) << 1 | once        the slot itself, if it is the first of a block
//	uvarint(frequency), unless once
//	uvarint(place − the one before it), for each occurrence, if places are kept
//
// and lies in one block as a whole. A place is elementPlace·element + position, from 1.
// A block is
//
//	uint32 reference of the next one · uint32 bytes used · postings
//
// with a head that is written, little endian, when the block is full. The first block
// lies behind the term's text, so that a rare term is in one place.
//
//   - who writes: the goroutine that applies batches;
//   - who reads: anybody, without locks, through the dictionary;
//   - what is published when: the head of a block and the first posting of the next, or
//     a posting, before end, which names the last block and how much of it is written; a
//     term, before its cell in the dictionary. A reader takes end once, after its bound,
//     and sees no further: what is beyond is above the bound. So it never reads what may
//     be written meanwhile: the last block's head, and what lies behind its end.
type term struct {
	arena *arena
	end   atomic.Uint64 // last block << 32 | bytes of it that are used
	at    uint32        // reference of the text
	size  uint16        // bytes of it, ≤ MaxTermBytes

	// The writer's.
	class uint8  // of the last block, in blockSizes
	last  uint32 // slot of the last posting
	touch int32  // its number among the touched terms of the row, if it is one
}

// elementPlace sets the elements of a list apart: more than a text has words.
const elementPlace = 1 << 32

const blockHead = 8

// blockSizes are the bytes of a term's first block, second, and so on, without the
// head; those that follow are as large as the last. The first is for terms that occur
// once, as most do. Each other one is half of all before it: doubling would leave more
// unused than the heads of smaller blocks take. The last size bounds what a search
// decodes to find a slot.
var blockSizes = func() (sizes [16]uint16) {
	total := 0
	for i := range sizes {
		n := min(max(8, total/2&^3), 1024)
		sizes[i] = uint16(n)
		total += n
	}
	return sizes
}()

// arena has the texts and blocks of an index in large chunks, since there are many,
// and they are freed together. A reference is chunk << offsetBits | offset/refUnit.
//
//   - who writes: the goroutine that applies batches;
//   - who reads: anybody, without locks, through references;
//   - what is published when: a chunk, before any reference into it.
type arena struct {
	dir atomic.Pointer[[][]byte]

	// The writer's.
	free []byte // of the chunk that is being filled
	next uint32 // reference of free
	heap int64
	most int // chunks; tests lower it
}

const (
	refUnit    = 4
	offsetBits = 14
	chunkBytes = refUnit << offsetBits
	firstBytes = chunkBytes / 16
	// chunkLarge is from when on bytes get a chunk of their own, which may be larger.
	chunkLarge = chunkBytes / 16
	maxChunks  = 1 << (32 - offsetBits)
)

// cut gives n bytes, zero, and their reference.
func (a *arena) cut(n int) (uint32, []byte, error) {
	n = (n + refUnit - 1) &^ (refUnit - 1)
	if n > chunkLarge {
		ref, b, err := a.chunk(n)
		return ref, b, err
	}
	if n > len(a.free) {
		// The first chunks are small, for small memtables.
		ref, b, err := a.chunk(int(min(max(a.heap, firstBytes), chunkBytes)))
		if err != nil {
			return 0, nil, err
		}
		a.next, a.free = ref, b
	}
	ref, b := a.next, a.free[:n:n]
	a.next, a.free = a.next+uint32(n/refUnit), a.free[n:]
	return ref, b, nil
}

func (a *arena) chunk(n int) (uint32, []byte, error) {
	var dir [][]byte
	if p := a.dir.Load(); p != nil {
		dir = *p
	}
	if len(dir) >= a.most {
		return 0, nil, fmt.Errorf("the terms and postings of a memtable need more than %d bytes: rotate it earlier (MaxMemtableBytes, MaxMemtableRows)", a.heap)
	}
	before := cap(dir)
	b := make([]byte, n)
	// In place where there is room: readers hold shorter slices.
	dir = append(dir, b)
	a.heap += int64(n) + int64(cap(dir)-before)*int64(unsafe.Sizeof(b))
	a.dir.Store(&dir)
	return uint32(len(dir)-1) << offsetBits, b, nil
}

// at is what begins at a reference, and may go on behind it.
func (a *arena) at(ref uint32) []byte {
	return (*a.dir.Load())[ref>>offsetBits][ref%(1<<offsetBits)*refUnit:]
}

// init makes a term whose text is a copy of b.
func (t *term) init(a *arena, text []byte) error {
	behind := (len(text) + refUnit - 1) &^ (refUnit - 1)
	ref, b, err := a.cut(behind + blockHead + int(blockSizes[0]))
	if err != nil {
		return err
	}
	copy(b, text)
	t.arena, t.at, t.size, t.touch = a, ref, uint16(len(text)), -1
	t.end.Store(uint64(ref+uint32(behind/refUnit)) << 32)
	return nil
}

// text is valid for ever: it is not written again.
func (t *term) text() string {
	if t.size == 0 {
		return ""
	}
	return unsafe.String(&t.arena.at(t.at)[0], t.size)
}

// head is the reference of the first block.
func (t *term) head() uint32 { return t.at + (uint32(t.size)+refUnit-1)/refUnit }

// append adds a posting of a slot above all before it; enc is its encoding but for
// the slot.
func (t *term) append(slot uint32, once bool, enc []byte) error {
	end := t.end.Load()
	tail, used := uint32(end>>32), int(uint32(end))
	delta := uint64(slot - t.last)
	if used == 0 {
		delta = uint64(slot)
	}
	room := int(blockSizes[t.class])
	// A block that was made for one large posting has more than its class: it is full.
	if used+headBytes(delta)+len(enc) > room {
		delta = uint64(slot)
		need := headBytes(delta) + len(enc)
		class := min(t.class+1, uint8(len(blockSizes)-1))
		size := max(int(blockSizes[class]), need)
		next, _, err := t.arena.cut(blockHead + size)
		if err != nil {
			return err
		}
		b := t.arena.at(tail)
		binary.LittleEndian.PutUint32(b, next)
		binary.LittleEndian.PutUint32(b[4:], uint32(used))
		t.class = class
		tail, used = next, 0
	}
	data := t.arena.at(tail)[blockHead:]
	head := delta << 1
	if once {
		head |= 1
	}
	used += binary.PutUvarint(data[used:], head)
	used += copy(data[used:], enc)
	t.last = slot
	t.end.Store(uint64(tail)<<32 | uint64(used))
	return nil
}

// headBytes is the length of uvarint(delta << 1 | once).
func headBytes(delta uint64) int { return (bits.Len64(delta<<1|1) + 6) / 7 }

// postings walks the postings of a term.
type postings struct {
	arena     *arena
	places    bool // they are kept
	end       uint64
	following uint32 // block; 0: none. No next one is the first block of the first term
	data      []byte // what is left of the block
	slot      uint32
	freq      uint64
	at        []byte // places of the posting, encoded
}

func (t *term) postings(places bool) postings {
	p := postings{arena: t.arena, places: places, end: t.end.Load()}
	p.enter(t.head())
	return p
}

func (p *postings) enter(block uint32) {
	b := p.arena.at(block)
	used := uint32(p.end)
	if p.following = 0; block != uint32(p.end>>32) {
		p.following, used = binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:])
	}
	p.data, p.slot = b[blockHead:blockHead+used], 0
}

// next goes to the next posting.
func (p *postings) next() bool {
	for len(p.data) == 0 {
		if p.following == 0 {
			return false
		}
		p.enter(p.following)
	}
	head := p.uvarint()
	p.slot += uint32(head >> 1)
	p.freq = 1
	if head&1 == 0 {
		p.freq = p.uvarint()
	}
	if p.places {
		n := 0
		for left := p.freq; left > 0; n++ {
			if p.data[n] < 0x80 {
				left--
			}
		}
		p.at, p.data = p.data[:n], p.data[n:]
	}
	return true
}

// seek goes to the first posting at or after slot, beyond the one it is at.
func (p *postings) seek(slot uint32) bool {
	for p.following != 0 {
		first, _ := binary.Uvarint(p.arena.at(p.following)[blockHead:])
		if uint32(first>>1) > slot {
			break
		}
		p.enter(p.following)
	}
	for p.next() {
		if p.slot >= slot {
			return true
		}
	}
	return false
}

func (p *postings) uvarint() uint64 {
	if b := p.data[0]; b < 0x80 {
		p.data = p.data[1:]
		return uint64(b)
	}
	v, n := binary.Uvarint(p.data)
	p.data = p.data[n:]
	return v
}
