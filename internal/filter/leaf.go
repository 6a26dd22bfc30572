package filter

import (
	"bytes"
	"encoding/binary"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// leaf evaluates an interval or a set.
func (e *Evaluator) leaf(p *pred, w []uint64, arr arrow.Array, from, n int) {
	switch a := arr.(type) {
	case *array.Dictionary:
		e.dictionary(p, w, a, from, n)
		return
	case array.ExtensionArray:
		e.leaf(p, w, a.Storage(), from, n)
		return
	}
	if p.col.form == formBytes {
		e.bytesLeaf(p, w, arr, from, n)
	} else {
		e.wordLeaf(p, w, arr, from, n)
	}
	if p.negate {
		invert(w, n)
	}
	andValid(w, arr, from, n)
}

// dictionary evaluates the dictionary once for all rows of the block, or, if it
// is larger than that, the value of each row.
func (e *Evaluator) dictionary(p *pred, w []uint64, a *array.Dictionary, from, n int) {
	values := a.Dictionary()
	clear(w)
	m := e.take()
	defer e.give(m)
	if values.Len() > min(n, Block) {
		for row := range n {
			if a.IsValid(from + row) {
				e.leaf(p, m[:1], values, a.GetValueIndex(from+row), 1)
				w[row/64] |= m[0] << (row % 64)
			}
		}
		return
	}
	if values.Len() == 0 {
		return
	}
	e.leaf(p, m[:words(values.Len())], values, 0, values.Len())
	for row := range n {
		if a.IsValid(from + row) {
			i := a.GetValueIndex(from + row)
			w[row/64] |= m[i/64] >> (i % 64) & 1 << (row % 64)
		}
	}
}

// wordLeaf evaluates without regard to nulls: what is under a null is some value.
func (e *Evaluator) wordLeaf(p *pred, w []uint64, arr arrow.Array, from, n int) {
	if a, ok := arr.(*array.Boolean); ok {
		booleans(p, w, a, from, n)
		return
	}
	// Numbers of all kinds lie in the buffer behind the validity.
	buf := arr.Data().Buffers()[1].Bytes()
	at := arr.Data().Offset() + from
	id := p.col.base.ID()
	switch {
	case id == arrow.FLOAT64:
		floats(p, w, slice[uint64](buf, at, n), float64Word)
	case id == arrow.FLOAT32:
		floats(p, w, slice[uint32](buf, at, n), float32Word)
	case id == arrow.FLOAT16:
		floats(p, w, slice[uint16](buf, at, n), float16Word)
	case p.col.width == 1:
		integers(p, w, slice[uint8](buf, at, n))
	case p.col.width == 2:
		integers(p, w, slice[uint16](buf, at, n))
	case p.col.width == 4:
		integers(p, w, slice[uint32](buf, at, n))
	default:
		integers(p, w, slice[uint64](buf, at, n))
	}
}

type word interface {
	uint8 | uint16 | uint32 | uint64
}

// slice is n values of a buffer from the value at on, read in place as arrow-go's own
// arrays read them.
func slice[T word](buf []byte, at, n int) []T {
	var zero T
	size := int(unsafe.Sizeof(zero))
	buf = buf[at*size : (at+n)*size]
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(buf))), n)
}

// integers evaluates signed and unsigned integers. The order of words is that of
// the integers with the sign bit flipped; both are the same circle of numbers,
// so that an interval of one is an interval of the other, and being in it takes one
// subtraction and one comparison.
func integers[T word](p *pred, w []uint64, vals []T) {
	var sign T
	if p.col.signed() {
		sign = T(1) << (8*p.col.width - 1)
	}
	if p.kind == predInterval {
		lo := T(p.lo) ^ sign
		within(w, vals, lo, T(p.hi)^sign-lo)
		return
	}
	if len(p.members) > maxPasses {
		for i := range w {
			var bits uint64
			for j, v := range vals[i*64 : min(len(vals), i*64+64)] {
				var in uint64
				if p.words.has(uint64(v ^ sign)) {
					in = 1
				}
				bits |= in << j
			}
			w[i] = bits
		}
		return
	}
	clear(w)
	for _, k := range p.members {
		equals(w, vals, T(k.word)^sign)
	}
}

// maxPasses is up to how many members of a set are compared one after the other: a
// pass takes half a nanosecond a value, a look into a set about two.
const maxPasses = 4

// within sets the bits of values with v - lo <= span, in wrapping arithmetic. Four
// chains of shifts run side by side: one alone would have each value wait for the one
// before it.
func within[T word](w []uint64, vals []T, lo, span T) {
	for len(vals) >= 64 {
		v := (*[64]T)(vals)
		var a, b, c, d uint64
		for i := range 16 {
			a = a>>1 | isIn(v[i], lo, span)
			b = b>>1 | isIn(v[i+16], lo, span)
			c = c>>1 | isIn(v[i+32], lo, span)
			d = d>>1 | isIn(v[i+48], lo, span)
		}
		w[0] = a>>48 | b>>48<<16 | c>>48<<32 | d>>48<<48
		w, vals = w[1:], vals[64:]
	}
	if len(vals) > 0 {
		var bits uint64
		for j, v := range vals {
			if v-lo <= span {
				bits |= 1 << j
			}
		}
		w[0] = bits
	}
}

// isIn is the highest bit if v - lo <= span.
func isIn[T word](v, lo, span T) uint64 {
	var in uint64
	if v-lo <= span {
		in = 1 // a conditional set, no branch
	}
	return in << 63
}

// equals adds the bits of values that equal x.
func equals[T word](w []uint64, vals []T, x T) {
	for i := range w {
		var bits uint64
		for j, v := range vals[i*64 : min(len(vals), i*64+64)] {
			if v == x {
				bits |= 1 << j
			}
		}
		w[i] |= bits
	}
}

// floats evaluates floats by their words. A function that is a parameter is not inlined,
// so the two usual widths have loops of their own in front of it.
func floats[T word](p *pred, w []uint64, vals []T, wordOf func(T) T) {
	var scratch [64]T
	for i := range w {
		part := vals[i*64 : min(len(vals), i*64+64)]
		x := scratch[:len(part)]
		switch part := any(part).(type) {
		case []uint64:
			x := any(x).([]uint64)
			for j, v := range part {
				x[j] = float64Word(v)
			}
		case []uint32:
			x := any(x).([]uint32)
			for j, v := range part {
				x[j] = float32Word(v)
			}
		default:
			for j, v := range vals[i*64:][:len(x)] {
				x[j] = wordOf(v)
			}
		}
		if p.kind == predInterval {
			within(w[i:i+1], x, T(p.lo), T(p.hi)-T(p.lo))
			continue
		}
		var bits uint64
		for j, v := range x {
			if p.words.has(uint64(v)) {
				bits |= 1 << j
			}
		}
		w[i] = bits
	}
}

// signed tells whether words have the sign bit flipped.
func (c *column) signed() bool {
	switch c.base.ID() {
	case arrow.UINT8, arrow.UINT16, arrow.UINT32, arrow.UINT64:
		return false
	}
	return true
}

func booleans(p *pred, w []uint64, a *array.Boolean, from, n int) {
	has := func(x uint64) bool {
		if p.kind == predSet {
			return p.words.has(x)
		}
		return p.lo <= x && x <= p.hi
	}
	f, t := has(0), has(1)
	if f == t {
		clear(w)
		if t {
			fill(w, n)
		}
		return
	}
	loadBits(w, a.Data().Buffers()[1].Bytes(), a.Data().Offset()+from, n)
	if f {
		invert(w, n)
	}
}

// bytesLeaf evaluates text, binary and wide decimals.
func (e *Evaluator) bytesLeaf(p *pred, w []uint64, arr arrow.Array, from, n int) {
	switch a := arr.(type) {
	case *array.String, *array.Binary:
		texts[int32](p, w, arr, from, n)
	case *array.LargeString, *array.LargeBinary:
		texts[int64](p, w, arr, from, n)
	case *array.StringView:
		eachBytes(p, w, n, func(i int) []byte {
			if a.IsNull(from + i) {
				return nil // what lies under a null may point anywhere
			}
			return bytesIn(a.Value(from + i))
		})
	case *array.BinaryView:
		eachBytes(p, w, n, func(i int) []byte {
			if a.IsNull(from + i) {
				return nil
			}
			return a.Value(from + i)
		})
	case *array.FixedSizeBinary:
		eachBytes(p, w, n, func(i int) []byte { return a.Value(from + i) })
	case *array.Decimal128:
		eachBytes(p, w, n, func(i int) []byte {
			v := a.Value(from + i)
			b := binary.BigEndian.AppendUint64(e.scratch[:0], uint64(v.HighBits())^1<<63)
			return binary.BigEndian.AppendUint64(b, v.LowBits())
		})
	case *array.Decimal256:
		eachBytes(p, w, n, func(i int) []byte {
			v := a.Value(from + i).Array()
			b := binary.BigEndian.AppendUint64(e.scratch[:0], v[3]^1<<63)
			b = binary.BigEndian.AppendUint64(b, v[2])
			b = binary.BigEndian.AppendUint64(b, v[1])
			return binary.BigEndian.AppendUint64(b, v[0])
		})
	default:
		panic("filter: column of type " + arr.DataType().String() + " in a batch of another schema")
	}
}

// bytesIn lends the bytes of a string; they are only read.
func bytesIn(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

// texts evaluates values that lie one behind the other. The offsets of nulls count, too.
func texts[T int32 | int64](p *pred, w []uint64, arr arrow.Array, from, n int) {
	d := arr.Data()
	if d.Len() == 0 {
		clear(w)
		return
	}
	at := d.Offset() + from
	offs := unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(d.Buffers()[1].Bytes()))), at+n+1)[at:]
	var vals []byte
	if b := d.Buffers()[2]; b != nil {
		vals = b.Bytes()
	}
	var key string
	switch {
	case p.prefix != nil:
		key = string(p.prefix)
	case p.kind == predInterval && p.pinned():
		key = string(p.low.bytes)
	default:
		eachBytes(p, w, n, func(i int) []byte { return vals[offs[i]:offs[i+1]] })
		return
	}
	for i := range w {
		var bits uint64
		for j := i * 64; j < min(n, i*64+64); j++ {
			v := vals[offs[j]:offs[j+1]]
			if len(v) < len(key) || p.prefix == nil && len(v) != len(key) {
				continue
			}
			if string(v[:len(key)]) == key {
				bits |= 1 << (j % 64)
			}
		}
		w[i] = bits
	}
}

// eachBytes evaluates values of any length. Those of nulls are some value.
func eachBytes(p *pred, w []uint64, n int, value func(int) []byte) {
	equal := p.kind == predInterval && p.pinned()
	for i := range w {
		var bits uint64
		for j := i * 64; j < min(n, i*64+64); j++ {
			v := value(j)
			var in bool
			switch {
			case equal:
				in = bytes.Equal(v, p.low.bytes)
			case p.kind == predSet:
				_, in = p.texts[string(v)]
			default:
				in = p.holds(v)
			}
			if in {
				bits |= 1 << (j % 64)
			}
		}
		w[i] = bits
	}
}

// holds tells whether an interval has a value.
func (p *pred) holds(v []byte) bool {
	if p.low.set {
		if d := bytes.Compare(v, p.low.bytes); d < 0 || d == 0 && p.low.open {
			return false
		}
	}
	if p.high.set {
		if d := bytes.Compare(v, p.high.bytes); d > 0 || d == 0 && p.high.open {
			return false
		}
	}
	return true
}

// nulls sets the bits of rows that are null.
func nulls(w []uint64, arr arrow.Array, from, n int) {
	switch arr.(type) {
	case *array.Null, *array.Dictionary, *array.RunEndEncoded, *array.SparseUnion, *array.DenseUnion, array.ExtensionArray:
		clear(w)
		for row := range n {
			if isNull(arr, from+row) {
				w[row/64] |= 1 << (row % 64)
			}
		}
		return
	}
	fill(w, n)
	andValid(w, arr, from, n)
	invert(w, n)
}

// andValid clears the bits of rows whose validity is not set. It asks for no count
// of nulls: arrow-go counts on demand, and writes what it has counted into the
// array, which other goroutines read.
func andValid(w []uint64, arr arrow.Array, from, n int) {
	valid := arr.NullBitmapBytes()
	if len(valid) == 0 {
		return
	}
	at := arr.Data().Offset() + from
	for i := range w {
		w[i] &= wordAt(valid, at+i*64, min(64, n-i*64))
	}
}

// loadBits copies n bits of a bitmap, from the bit at on.
func loadBits(w []uint64, bitmap []byte, at, n int) {
	for i := range w {
		w[i] = wordAt(bitmap, at+i*64, min(64, n-i*64))
	}
}

// wordAt is the n <= 64 bits of a bitmap from the bit at on.
func wordAt(bitmap []byte, at, n int) uint64 {
	b, shift := bitmap[at/8:], at%8
	var x uint64
	if len(b) >= 9 {
		x = binary.LittleEndian.Uint64(b)>>shift | uint64(b[8])<<(63-shift)<<1
	} else {
		var buf [16]byte
		copy(buf[:], b)
		x = binary.LittleEndian.Uint64(buf[:])>>shift | uint64(buf[8])<<(63-shift)<<1
	}
	return x & tail(n)
}
