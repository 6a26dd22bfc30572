package memwal

import (
	"errors"
	"fmt"
	"math"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// Runs are copied together by hand where that is easy: columns of a fixed width, bool,
// text and binary. array.Concatenate takes an array for each run, of which there are as
// many as rows if a filter's matches are scattered: 60 to 150 ns a run and column
// against 3 to 15. (BenchmarkFilterScattered.)

// part is consecutive runs of one batch.
type part struct {
	rec  arrow.RecordBatch
	runs []run
}

// partsOf appends the parts of runs.
func partsOf(runs []run, parts []part) []part {
	from := 0
	for i := range runs {
		if runs[i].rec != runs[from].rec {
			parts = append(parts, part{runs[from].rec, runs[from:i]})
			from = i
		}
	}
	return append(parts, part{runs[from].rec, runs[from:]})
}

// storage follows extensions to what they are stored as.
func storage(t arrow.DataType) arrow.DataType {
	for {
		e, ok := t.(arrow.ExtensionType)
		if !ok {
			return t
		}
		t = e.StorageType()
	}
}

// copies tells whether copyColumn takes a type.
func copies(t arrow.DataType) bool {
	switch t := storage(t); t.ID() {
	case arrow.STRING, arrow.BINARY, arrow.LARGE_STRING, arrow.LARGE_BINARY, arrow.BOOL:
		return true
	case arrow.DICTIONARY, arrow.EXTENSION:
		return false
	default:
		f, ok := t.(arrow.FixedWidthDataType)
		return ok && f.BitWidth() > 0 && f.BitWidth()%8 == 0
	}
}

var errTooLarge = errors.New("values of more than 2 GiB together: ask for fewer rows in a batch")

// copyColumn returns n rows of a column as one array, which is the caller's.
func copyColumn(mem memory.Allocator, t arrow.DataType, col int, parts []part, n int) (arrow.Array, error) {
	var bufs [3]*memory.Buffer
	defer func() {
		for _, b := range bufs {
			if b != nil {
				b.Release()
			}
		}
	}()
	valid, nulls, err := copyValidity(mem, col, parts, n)
	if err != nil {
		return nil, err
	}
	bufs[0] = valid
	used := 2
	switch st := storage(t); st.ID() {
	case arrow.STRING, arrow.BINARY:
		used = 3
		bufs[1], bufs[2], err = copyText[int32](mem, col, parts, n, math.MaxInt32)
	case arrow.LARGE_STRING, arrow.LARGE_BINARY:
		used = 3
		bufs[1], bufs[2], err = copyText[int64](mem, col, parts, n, math.MaxInt64)
	case arrow.BOOL:
		bufs[1], err = copyBits(mem, parts, n, func(rec arrow.RecordBatch) ([]byte, int) {
			d := rec.Column(col).Data()
			return d.Buffers()[1].Bytes(), d.Offset()
		})
	default:
		bufs[1], err = copyFixed(mem, col, parts, n, st.(arrow.FixedWidthDataType).BitWidth()/8)
	}
	if err != nil {
		return nil, err
	}
	data := array.NewData(t, n, bufs[:used], nil, nulls, 0)
	defer data.Release()
	return array.MakeFromData(data), nil
}

// newBuffer makes an error of the panic of an allocator that refuses, as
// array.Concatenate does: the caller tries again with fewer rows.
func newBuffer(mem memory.Allocator, bytes int) (b *memory.Buffer, err error) {
	b = memory.NewResizableBuffer(mem)
	defer func() {
		if v := recover(); v != nil {
			b.Release()
			b, err = nil, fmt.Errorf("allocate %d bytes: %v", bytes, v)
		}
	}()
	b.Resize(bytes)
	return b, nil
}

// copyValidity returns no buffer if no batch has one. It asks for no count of nulls:
// arrow-go counts on demand, and writes what it has counted into the array, which
// other goroutines read.
func copyValidity(mem memory.Allocator, col int, parts []part, n int) (valid *memory.Buffer, nulls int, err error) {
	any := false
	for _, p := range parts {
		any = any || len(p.rec.Column(col).NullBitmapBytes()) > 0
	}
	if !any {
		return nil, 0, nil
	}
	valid, err = copyBits(mem, parts, n, func(rec arrow.RecordBatch) ([]byte, int) {
		a := rec.Column(col)
		return a.NullBitmapBytes(), a.Data().Offset()
	})
	if err != nil {
		return nil, 0, err
	}
	return valid, n - bitutil.CountSetBits(valid.Bytes(), 0, n), nil
}

// copyBits copies bits; those of a batch that has none are ones.
func copyBits(mem memory.Allocator, parts []part, n int, of func(arrow.RecordBatch) (bits []byte, offset int)) (*memory.Buffer, error) {
	buf, err := newBuffer(mem, int(bitutil.BytesForBits(int64(n))))
	if err != nil {
		return nil, err
	}
	out := buf.Bytes()
	clear(out)
	at := 0
	for _, p := range parts {
		bits, offset := of(p.rec)
		for _, r := range p.runs {
			switch {
			case len(bits) == 0:
				bitutil.SetBitsTo(out, int64(at), r.n, true)
			case r.n >= 64:
				bitutil.CopyBitmap(bits, offset+int(r.row), int(r.n), out, at)
			default:
				from := offset + int(r.row)
				for i := range int(r.n) {
					bit := bits[(from+i)/8] >> ((from + i) % 8) & 1
					out[(at+i)/8] |= bit << ((at + i) % 8)
				}
			}
			at += int(r.n)
		}
	}
	return buf, nil
}

func copyFixed(mem memory.Allocator, col int, parts []part, n, width int) (*memory.Buffer, error) {
	buf, err := newBuffer(mem, n*width)
	if err != nil {
		return nil, err
	}
	switch width {
	case 1:
		copyValues[uint8](buf, col, parts, width)
	case 2:
		copyValues[uint16](buf, col, parts, width)
	case 4:
		copyValues[uint32](buf, col, parts, width)
	case 8:
		copyValues[uint64](buf, col, parts, width)
	case 16:
		copyValues[[2]uint64](buf, col, parts, width)
	default:
		out := buf.Bytes()
		for _, p := range parts {
			d := p.rec.Column(col).Data()
			vals := d.Buffers()[1].Bytes()
			for _, r := range p.runs {
				from := (d.Offset() + int(r.row)) * width
				out = out[copy(out, vals[from:from+int(r.n)*width]):]
			}
		}
	}
	return buf, nil
}

func copyValues[T any](buf *memory.Buffer, col int, parts []part, width int) {
	out := valuesOf[T](buf.Bytes())
	for _, p := range parts {
		d := p.rec.Column(col).Data()
		vals := valuesOf[T](d.Buffers()[1].Bytes())[d.Offset():]
		for _, r := range p.runs {
			if r.n == 1 {
				out[0] = vals[r.row]
				out = out[1:]
				continue
			}
			out = out[copy(out, vals[r.row:r.row+r.n]):]
		}
	}
}

// valuesOf reads a buffer in place, as arrow-go's arrays do.
func valuesOf[T any](b []byte) []T {
	var zero T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(zero)))
}

// copyText copies values of any length: first the offsets, then the bytes.
func copyText[T int32 | int64](mem memory.Allocator, col int, parts []part, n int, most int64) (offsets, values *memory.Buffer, err error) { // what is not nil is the caller's, with an error too
	var zero T
	if offsets, err = newBuffer(mem, (n+1)*int(unsafe.Sizeof(zero))); err != nil {
		return nil, nil, err
	}
	out := valuesOf[T](offsets.Bytes())
	out[0] = 0
	at, end := 1, int64(0)
	for _, p := range parts {
		offs, _ := textOf[T](p.rec.Column(col))
		for _, r := range p.runs {
			run := offs[r.row : r.row+r.n+1]
			size := int64(run[r.n] - run[0])
			if end+size > most {
				return offsets, nil, errTooLarge
			}
			shift := T(end) - run[0]
			for _, o := range run[1:] {
				out[at] = o + shift
				at++
			}
			end += size
		}
	}
	if values, err = newBuffer(mem, int(end)); err != nil {
		return offsets, nil, err
	}
	to := values.Bytes()
	for _, p := range parts {
		offs, vals := textOf[T](p.rec.Column(col))
		for _, r := range p.runs {
			to = to[copy(to, vals[offs[r.row]:offs[r.row+r.n]]):]
		}
	}
	return offsets, values, nil
}

// textOf returns the offsets of an array's values, and the bytes that they point into.
func textOf[T int32 | int64](a arrow.Array) (offsets []T, values []byte) {
	d := a.Data()
	if d.Len() == 0 {
		return make([]T, 1), nil
	}
	if b := d.Buffers()[2]; b != nil {
		values = b.Bytes()
	}
	return valuesOf[T](d.Buffers()[1].Bytes())[d.Offset():], values
}
