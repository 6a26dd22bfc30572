package index

import (
	"encoding/binary"
	"sync/atomic"
	"unsafe"
)

// term is an entry of a text index's dictionary with its postings: the slots that
// have it, all versions, in slot order.
//
// A posting is
//
//	uvarint(slot − the one before it in the block) << 1 | once
//	uvarint(frequency), unless once
//	uvarint(place − the one before it), for each occurrence, if places are kept
//
// and lies in one block as a whole. A place is elementPlace·element + position, from 1.
//
//   - who writes: the goroutine that applies batches;
//   - who reads: anybody, without locks, through the dictionary;
//   - what is published when: the bytes of a posting, before used; a block with its
//     first slot, before next of the one before it; a term, before its cell in the
//     dictionary.
type term struct {
	text string
	head block

	// The writer's.
	tail  *block // nil: head
	last  uint32 // slot of the last posting
	touch int32  // its number among the touched terms of the row, if it is one
}

type block struct {
	next  atomic.Pointer[block]
	data  []byte
	used  atomic.Uint32 // bytes of data that are written
	first uint32        // slot of the first posting
}

// elementPlace sets the elements of a list apart: more than a text has words.
const elementPlace = 1 << 32

const (
	firstBlock  = 12 // bytes: most terms are rare
	blockFactor = 4
	lastBlock   = 1 << 10

	slabBytes = 64 << 10
	// slabLarge is from when on bytes get an allocation of their own.
	slabLarge = slabBytes / 16
	slabItems = 256
)

// slabs cuts blocks, and bytes, from large allocations: there are many, and they are
// freed together.
type slabs struct {
	bytes  []byte
	blocks []block
	heap   int64
}

func (s *slabs) cut(n int) []byte {
	if n > slabLarge {
		s.heap += int64(n)
		return make([]byte, n)
	}
	if n > len(s.bytes) {
		s.bytes = make([]byte, slabBytes)
		s.heap += slabBytes
	}
	b := s.bytes[:n:n]
	s.bytes = s.bytes[n:]
	return b
}

// text keeps a copy of b as a string.
func (s *slabs) text(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	c := s.cut(len(b))
	copy(c, b)
	return unsafe.String(&c[0], len(c)) // c is not written again
}

func (s *slabs) block() *block {
	if len(s.blocks) == 0 {
		s.blocks = make([]block, slabItems)
		s.heap += slabItems * int64(unsafe.Sizeof(block{}))
	}
	b := &s.blocks[0]
	s.blocks = s.blocks[1:]
	return b
}

// append adds a posting of a slot above all before it; enc is its encoding but for
// the slot.
func (t *term) append(s *slabs, slot uint32, once bool, enc []byte) {
	b := t.tail
	if b == nil {
		b = &t.head
	}
	used := int(b.used.Load())
	if used == 0 {
		t.last = slot // the first posting of the dictionary entry
	}
	// Room for the slot at its longest: a little is left unused at the end of a block.
	if need := binary.MaxVarintLen32 + 1 + len(enc); used+need > len(b.data) {
		size := firstBlock
		if len(b.data) > 0 {
			size = min(len(b.data)*blockFactor, lastBlock)
		}
		data := s.cut(max(size, need))
		if used > 0 {
			n := s.block()
			n.data, n.first = data, slot
			t.last = slot
			n.append(slot, slot, once, enc)
			b.next.Store(n)
			t.tail = n
			return
		}
		b.data = data
	}
	b.append(slot, t.last, once, enc)
	t.last = slot
}

func (b *block) append(slot, last uint32, once bool, enc []byte) {
	head := uint64(slot-last) << 1
	if once {
		head |= 1
	}
	used := int(b.used.Load())
	n := used + binary.PutUvarint(b.data[used:], head)
	n += copy(b.data[n:], enc)
	b.used.Store(uint32(n))
}

// postings walks the postings of a term.
type postings struct {
	places bool // they are kept
	block  *block
	data   []byte // what is left of block
	slot   uint32
	freq   uint64
	at     []byte // places of the posting, encoded
}

func (t *term) postings(places bool) postings {
	p := postings{places: places}
	p.enter(&t.head)
	return p
}

func (p *postings) enter(b *block) {
	p.block, p.slot = b, b.first
	// A head whose first posting is being written has no bytes yet.
	if n := b.used.Load(); n > 0 {
		p.data = b.data[:n]
	} else {
		p.data = nil
	}
}

// next goes to the next posting.
func (p *postings) next() bool {
	for len(p.data) == 0 {
		if p.block == nil {
			return false
		}
		b := p.block.next.Load()
		if b == nil {
			// More may be appended, but above every bound that the caller can have.
			p.block = nil
			return false
		}
		p.enter(b)
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
	for p.block != nil {
		b := p.block.next.Load()
		if b == nil || b.first > slot {
			break
		}
		p.enter(b)
	}
	for p.next() {
		if p.slot >= slot {
			return true
		}
	}
	return false
}

func (p *postings) uvarint() uint64 {
	v, n := binary.Uvarint(p.data)
	p.data = p.data[n:]
	return v
}
