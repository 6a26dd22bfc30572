package schema

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// Size returns what a batch costs, in bytes.
//
// window is what its rows span: the part of each buffer that belongs to them, which
// is about what an encoder writes for them and what [Compact] copies. Dictionaries
// count whole, since they are encoded whole. Offsets, validity and view headers
// count; padding does not.
//
// pinned is what the batch keeps alive: the capacity of its distinct root buffers.
// A slice of a batch keeps all of it alive; a batch read from an IPC stream keeps its
// message, once. Buffers that share memory in a way that Buffer.Parent does not tell
// count each for itself.
//
// The arrays must be whole, as [Shaper.Shape] leaves them. Size allocates only for
// batches of more than 64 distinct roots. Its time does not depend on the number of
// rows, except for views, list views and dense unions, whose rows it looks through.
func Size(rec arrow.RecordBatch) (window, pinned int64) {
	var r roots
	for _, col := range rec.Columns() {
		d := col.Data()
		window += spanned(d, d.DataType(), 0, d.Len())
		r.addData(d)
	}
	return window, r.bytes
}

// NeedsCompact reports whether a batch keeps so much more alive than it has that
// a copy is the better deal. The constant keeps small batches, which allocators
// round up generously, from being copied for nothing.
func NeedsCompact(window, pinned int64) bool { return pinned > 2*window+64<<10 }

// spanned returns the bytes that the rows [lo, lo+n) of d span.
func spanned(d arrow.ArrayData, dt arrow.DataType, lo, n int) (bytes int64) {
	if n == 0 && d.Len() == 0 {
		return 0
	}
	k, width, st := layoutOf(dt)
	abs := d.Offset() + lo
	if k.hasValidity() && d.NullN() != 0 && d.Buffers()[0] != nil {
		bytes = bitutil.BytesForBits(int64(n))
	}
	switch k {
	case kindBits:
		bytes += bitutil.BytesForBits(int64(n))
	case kindFixed:
		bytes += int64(n) * int64(width)
	case kindVar:
		first, end := childRange(d, kindList, width, lo, n)
		bytes += int64(n+1)*int64(width) + int64(end-first)
	case kindView:
		bytes += int64(n)*int64(width) + min(viewBytes(d, abs, n), variadicBytes(d))
	case kindList, kindListView, kindFixedList:
		first, end := childRange(d, k, width, lo, n)
		bytes += spanned(d.Children()[0], child(st, 0).Type, first, end-first)
		switch k {
		case kindList:
			bytes += int64(n+1) * int64(width)
		case kindListView:
			bytes += 2 * int64(n) * int64(width)
		}
	case kindStruct, kindSparse:
		for _, c := range d.Children() {
			bytes += spanned(c, c.DataType(), abs, n)
		}
		if k == kindSparse {
			bytes += int64(n)
		}
	case kindDense:
		bytes += 5 * int64(n) // a type code and an offset each
		for i, c := range d.Children() {
			first, end := denseRange(d, st.(arrow.UnionType), i, abs, n)
			bytes += spanned(c, c.DataType(), first, end-first)
		}
	case kindRunEnd:
		first, end := runRange(d, abs, n)
		for _, c := range d.Children() {
			bytes += spanned(c, c.DataType(), first, end-first)
		}
	case kindDict:
		bytes += int64(n) * int64(width)
		if dict := dictionaryOf(d); dict != nil {
			bytes += spanned(dict, dict.DataType(), 0, dict.Len())
		}
	}
	return bytes
}

// viewBytes returns the bytes of the valid views [abs, abs+n) that are not inline.
func viewBytes(d arrow.ArrayData, abs, n int) (bytes int64) {
	valid := validityOf(d)
	views := viewsOf(d, abs, n)
	for i := range views {
		h := &views[i]
		if !h.IsInline() && (valid == nil || bitutil.BitIsSet(valid, abs+i)) {
			bytes += int64(h.Len())
		}
	}
	return bytes
}

// variadicBytes returns the bytes of the data buffers of a view array. Views may
// share bytes, so the sum of their lengths may be more than there is.
func variadicBytes(d arrow.ArrayData) (bytes int64) {
	for _, b := range d.Buffers()[2:] {
		bytes += int64(b.Len())
	}
	return bytes
}

// roots sums the capacity of distinct root buffers.
type roots struct {
	bytes int64
	n     int
	few   [64]*memory.Buffer
	many  map[*memory.Buffer]struct{} // once few is full
}

func (r *roots) addData(d arrow.ArrayData) {
	for _, b := range d.Buffers() {
		if b != nil {
			r.add(b)
		}
	}
	for _, c := range d.Children() {
		r.addData(c)
	}
	if dict := dictionaryOf(d); dict != nil {
		r.addData(dict)
	}
}

func (r *roots) add(b *memory.Buffer) {
	for p := b.Parent(); p != nil; p = b.Parent() {
		b = p
	}
	if b.Cap() == 0 {
		return
	}
	if r.many == nil {
		// The newest first: the buffers of an IPC message have one root.
		for i := r.n - 1; i >= 0; i-- {
			if r.few[i] == b {
				return
			}
		}
		r.bytes += int64(b.Cap())
		if r.n < len(r.few) {
			r.few[r.n] = b
			r.n++
			return
		}
		r.many = make(map[*memory.Buffer]struct{}, 4*len(r.few))
		for _, known := range r.few {
			r.many[known] = struct{}{}
		}
		r.many[b] = struct{}{}
		return
	}
	if _, ok := r.many[b]; !ok {
		r.bytes += int64(b.Cap())
		r.many[b] = struct{}{}
	}
}
