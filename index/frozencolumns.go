package index

import (
	"context"
	"math/bits"

	"github.com/memwal/memwal-go/internal/pagefile"
)

// Which slots an index has is written in records of a page file's alignment: the number
// of slots of the index before it, and the bits of the next rankSlots slots.
const (
	rankBytes = pagefile.Align
	rankSlots = (rankBytes - 4) * 8
)

func (z *freezer) writeSlots() {
	rank := uint32(0)
	var rec [rankBytes]byte
	for first := uint64(0); first < uint64(z.bound); first += rankSlots {
		clear(rec[:])
		le.PutUint32(rec[:], rank)
		for i := uint64(0); i < rankSlots && first+i < uint64(z.bound); i++ {
			if z.has(uint32(first + i)) {
				rec[4+i/8] |= 1 << (i % 8)
				rank++
			}
		}
		z.out.Write(rec[:])
	}
}

// window looks at a section, a page at a time. It is for one goroutine.
type window struct {
	ctx     context.Context
	file    *pagefile.File
	section pagefile.Section
	at      int64 // offset in the file
	b       []byte
}

// get returns n bytes at an offset in the section, which do not lie in two pages.
func (w *window) get(offset int64, n int) ([]byte, error) {
	offset += w.section.Offset
	if i := offset - w.at; i >= 0 && i+int64(n) <= int64(len(w.b)) {
		return w.b[i : i+int64(n)], nil
	}
	start := max(offset-offset%pagefile.PageBytes, w.section.Offset)
	b, err := w.file.Run(w.ctx, start, w.section.End())
	if err != nil {
		return nil, err
	}
	w.at, w.b = start, b
	i := offset - start
	return b[i : i+int64(n)], nil
}

// frozenColumns reads which slots an index has, and how many terms are in them.
type frozenColumns struct {
	f              *Frozen
	slots, lengths window
}

func (f *Frozen) columns(ctx context.Context) *frozenColumns {
	return &frozenColumns{
		f:       f,
		slots:   window{ctx: ctx, file: f.file, section: f.file.Section(sectionSlots)},
		lengths: window{ctx: ctx, file: f.file, section: f.file.Section(sectionLengths)},
	}
}

// rank is the number of slots of the index below a slot of it; false for others.
func (c *frozenColumns) rank(slot uint32) (uint32, bool, error) {
	h := &c.f.head
	if slot >= h.slots {
		return 0, false, nil
	}
	if h.full() {
		return slot, true, nil
	}
	rec, err := c.record(slot)
	if err != nil {
		return 0, false, err
	}
	at := slot % rankSlots
	set := rec[4:]
	if set[at/8]&(1<<(at%8)) == 0 {
		return 0, false, nil
	}
	rank := le.Uint32(rec)
	for ; at >= 32; at -= 32 {
		rank += uint32(bits.OnesCount32(le.Uint32(set)))
		set = set[4:]
	}
	rank += uint32(bits.OnesCount32(le.Uint32(set) & (1<<at - 1)))
	if rank >= h.rows {
		return 0, false, c.f.corrupt(c.slots.section.Offset, "it counts more rows than it has")
	}
	return rank, true, nil
}

func (c *frozenColumns) record(slot uint32) ([]byte, error) {
	return c.slots.get(int64(slot/rankSlots)*rankBytes, rankBytes)
}

// at implements lengthReader.
func (c *frozenColumns) at(slot uint32) (uint32, error) {
	rank, ok, err := c.rank(slot)
	if err != nil {
		return 0, err
	}
	if !ok {
		return 0, c.f.corrupt(c.slots.section.Offset, "a term is in a row that is not there")
	}
	width := int(c.f.head.lengthWidth)
	b, err := c.lengths.get(int64(rank)*int64(width), width)
	if err != nil {
		return 0, err
	}
	return number(b), nil
}

// next is the first slot of the index at or after a slot.
func (c *frozenColumns) next(slot uint32) (uint32, bool, error) {
	h := &c.f.head
	if h.full() {
		return slot, slot < h.slots, nil
	}
	for at := uint64(slot); at < uint64(h.slots); {
		rec, err := c.record(uint32(at))
		if err != nil {
			return 0, false, err
		}
		in := at % rankSlots
		word := le.Uint32(rec[4+in/32*4:]) >> (in % 32)
		if word != 0 {
			at += uint64(bits.TrailingZeros32(word))
			return uint32(at), at < uint64(h.slots), nil
		}
		at += 32 - in%32
	}
	return 0, false, nil
}
