package schema

import (
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/encoded"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// Compact returns a copy of a batch that shares no buffer with it and holds the
// rows' window only, at offset 0, so that pinned comes down to window. Values,
// nulls and the schema are the same; what null rows hold underneath, where their
// type lets it be anything, may become zero. Memory comes from mem, and the caller
// releases the result. The arrays must be whole, as [Shaper.Shape] leaves them.
//
// array.Concatenate of one array would not do: it shares the data buffers of views
// and the dictionary.
func Compact(rec arrow.RecordBatch, mem memory.Allocator) arrow.RecordBatch {
	cols := make([]arrow.Array, rec.NumCols())
	c := copier{mem}
	for i, col := range rec.Columns() {
		d := col.Data()
		data := c.copy(d, d.DataType(), 0, d.Len())
		cols[i] = array.MakeFromData(data)
		data.Release()
		warm(cols[i])
	}
	out := array.NewRecordBatch(rec.Schema(), cols, rec.NumRows())
	releaseAll(cols)
	return out
}

// copier copies windows of arrays into buffers of its allocator.
type copier struct{ mem memory.Allocator }

// parts are what an array's data is made of; the one who made them holds a
// reference to each.
type parts struct {
	buffers []*memory.Buffer
	kids    []arrow.ArrayData
	dict    *array.Data
}

// copy returns the rows [lo, lo+n) of d, of type dt, for the caller to release.
func (c copier) copy(d arrow.ArrayData, dt arrow.DataType, lo, n int) *array.Data {
	k, width, st := layoutOf(dt)
	abs := d.Offset() + lo
	p := parts{buffers: []*memory.Buffer{nil}}
	nulls := 0
	if k == kindNull {
		nulls = n
	} else if k.hasValidity() {
		p.buffers[0], nulls = c.validity(d, abs, n)
	}
	switch k {
	case kindBits:
		p.add(c.bits(bytesOf(d.Buffers()[1]), abs, n))
	case kindFixed, kindDict:
		p.add(c.fixed(d, 1, width, abs, n))
		if dict := dictionaryOf(d); dict != nil {
			p.dict = c.copy(dict, dict.DataType(), 0, dict.Len())
		}
	case kindVar:
		first, end := childRange(d, kindList, width, lo, n)
		p.add(c.offsets(d, width, abs, n))
		p.add(c.bytes(bytesOf(d.Buffers()[2])[first:end]))
	case kindView:
		c.views(&p, d, abs, n)
	case kindList:
		p.add(c.offsets(d, width, abs, n))
		first, end := childRange(d, k, width, lo, n)
		p.kid(c.copy(d.Children()[0], child(st, 0).Type, first, end-first))
	case kindListView:
		c.listViews(&p, d, width, lo, n)
	case kindFixedList:
		p.kid(c.copy(d.Children()[0], child(st, 0).Type, abs*width, n*width))
	case kindStruct, kindSparse:
		if k == kindSparse {
			p.add(c.fixed(d, 1, 1, abs, n))
		}
		for i, kid := range d.Children() {
			p.kid(c.copy(kid, child(st, i).Type, abs, n))
		}
	case kindDense:
		c.dense(&p, d, st.(arrow.UnionType), abs, n)
	case kindRunEnd:
		c.runs(&p, d, st, abs, n)
	}
	return p.data(dt, n, nulls)
}

func (p *parts) add(b *memory.Buffer) { p.buffers = append(p.buffers, b) }
func (p *parts) kid(d *array.Data)    { p.kids = append(p.kids, d) }

// data makes the array's data of its parts and lets go of them.
func (p *parts) data(dt arrow.DataType, n, nulls int) *array.Data {
	d := array.NewData(dt, n, p.buffers, p.kids, nulls, 0)
	if p.dict != nil {
		d.SetDictionary(p.dict)
		p.dict.Release()
	}
	for _, b := range p.buffers {
		if b != nil {
			b.Release()
		}
	}
	for _, kid := range p.kids {
		kid.Release()
	}
	return d
}

func (c copier) alloc(n int) *memory.Buffer {
	b := memory.NewResizableBuffer(c.mem)
	b.Resize(n)
	return b
}

func (c copier) bytes(src []byte) *memory.Buffer {
	b := c.alloc(len(src))
	copy(b.Bytes(), src)
	return b
}

func (c copier) bits(src []byte, abs, n int) *memory.Buffer {
	b := c.alloc(int(bitutil.BytesForBits(int64(n))))
	if n > 0 {
		b.Bytes()[b.Len()-1] = 0 // bits beyond n; the allocator need not clear
		bitutil.CopyBitmap(src, abs, n, b.Bytes(), 0)
	}
	return b
}

// validity returns the bitmap of n values, nil if all are valid, and their nulls.
func (c copier) validity(d arrow.ArrayData, abs, n int) (*memory.Buffer, int) {
	valid := validityOf(d)
	if valid == nil {
		return nil, 0
	}
	nulls := n - bitutil.CountSetBits(valid, abs, n)
	if nulls == 0 {
		return nil, 0
	}
	return c.bits(valid, abs, n), nulls
}

func (c copier) fixed(d arrow.ArrayData, i, width, abs, n int) *memory.Buffer {
	if n == 0 {
		return c.alloc(0)
	}
	return c.bytes(d.Buffers()[i].Bytes()[abs*width : (abs+n)*width])
}

// offsets returns n+1 offsets from abs on, rebased to 0.
func (c copier) offsets(d arrow.ArrayData, width, abs, n int) *memory.Buffer {
	b := c.alloc((n + 1) * width)
	if n == 0 {
		clear(b.Bytes())
		return b
	}
	if width == 4 {
		rebase(arrow.Int32Traits.CastFromBytes(b.Bytes()), int32s(d, 1, abs, n+1))
	} else {
		rebase(arrow.Int64Traits.CastFromBytes(b.Bytes()), int64s(d, 1, abs, n+1))
	}
	return b
}

func rebase[T int32 | int64](dst, src []T) {
	for i, o := range src {
		dst[i] = o - src[0]
	}
}

// views copies view headers and gathers their bytes into one buffer. Where views
// share so many bytes that this would take more than the data buffers have, those
// are copied as they are instead.
func (c copier) views(p *parts, d arrow.ArrayData, abs, n int) {
	headers := c.fixed(d, 1, arrow.ViewHeaderSizeBytes, abs, n)
	p.add(headers)
	dst := []arrow.ViewHeader(nil)
	if n > 0 {
		dst = arrow.ViewHeaderTraits.CastFromBytes(headers.Bytes())
	}
	if valid := validityOf(d); valid != nil {
		for i := range dst {
			if bitutil.BitIsNotSet(valid, abs+i) {
				dst[i] = arrow.ViewHeader{} // it may point anywhere
			}
		}
	}
	total := viewBytes(d, abs, n)
	switch {
	case total == 0:
		return
	case total > math.MaxInt32, total >= variadicBytes(d):
		for _, b := range d.Buffers()[2:] {
			p.add(c.bytes(b.Bytes()))
		}
		return
	}
	out := c.alloc(int(total))
	p.add(out)
	at := 0
	for i := range dst {
		h := &dst[i]
		if h.IsInline() {
			continue
		}
		src := d.Buffers()[2+h.BufferIndex()].Bytes()[h.BufferOffset():][:h.Len()]
		copy(out.Bytes()[at:], src)
		h.SetIndexOffset(0, int32(at))
		at += len(src)
	}
}

func (c copier) listViews(p *parts, d arrow.ArrayData, width, lo, n int) {
	abs := d.Offset() + lo
	first, end := childRange(d, kindListView, width, lo, n)
	offs, sizes := c.alloc(n*width), c.alloc(n*width)
	valid := validityOf(d)
	for i := range n {
		var off, size int64
		if valid == nil || bitutil.BitIsSet(valid, abs+i) {
			if off, size = listView(d, width, abs+i); size > 0 {
				off -= int64(first)
			} else {
				off = 0
			}
		}
		if width == 4 {
			arrow.Int32Traits.CastFromBytes(offs.Bytes())[i] = int32(off)
			arrow.Int32Traits.CastFromBytes(sizes.Bytes())[i] = int32(size)
		} else {
			arrow.Int64Traits.CastFromBytes(offs.Bytes())[i] = off
			arrow.Int64Traits.CastFromBytes(sizes.Bytes())[i] = size
		}
	}
	p.add(offs)
	p.add(sizes)
	kid := d.Children()[0]
	p.kid(c.copy(kid, kid.DataType(), first, end-first))
}

func (c copier) dense(p *parts, d arrow.ArrayData, dt arrow.UnionType, abs, n int) {
	p.add(c.fixed(d, 1, 1, abs, n))
	offs := c.fixed(d, 2, 4, abs, n)
	p.add(offs)
	codes := typeCodes(d, abs, n)
	for i, kid := range d.Children() {
		first, end := denseRange(d, dt, i, abs, n)
		for at, code := range codes {
			if code == dt.TypeCodes()[i] {
				arrow.Int32Traits.CastFromBytes(offs.Bytes())[at] -= int32(first)
			}
		}
		p.kid(c.copy(kid, child(dt, i).Type, first, end-first))
	}
}

func (c copier) runs(p *parts, d arrow.ArrayData, dt arrow.DataType, abs, n int) {
	first, end := runRange(d, abs, n)
	ends := d.Children()[0]
	width := ends.DataType().(arrow.FixedWidthDataType).BitWidth() / 8
	out := c.alloc((end - first) * width)
	if end > first {
		at := encoded.GetRunEnds(ends)
		for i := range end - first {
			// The last run may reach beyond the window.
			v := min(at(int64(first+i))-int64(abs), int64(n))
			switch width {
			case 2:
				arrow.Int16Traits.CastFromBytes(out.Bytes())[i] = int16(v)
			case 4:
				arrow.Int32Traits.CastFromBytes(out.Bytes())[i] = int32(v)
			default:
				arrow.Int64Traits.CastFromBytes(out.Bytes())[i] = v
			}
		}
	}
	endParts := parts{buffers: []*memory.Buffer{nil, out}}
	p.kid(endParts.data(ends.DataType(), end-first, 0))
	p.kid(c.copy(d.Children()[1], child(dt, 1).Type, first, end-first))
}
