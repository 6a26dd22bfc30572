package schema

import (
	"fmt"
	"math"
	"math/bits"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

const (
	minZeros = 4 << 10  // serves tombstone columns of batches up to 32 768 rows
	maxZeros = 16 << 20 // larger ones are made for their batch and go with it
)

// zeros hands out buffers of zero bytes that share one page. Nobody ever writes to
// the page: not to it here, nor to buffers of a batch elsewhere. A larger page
// replaces it when one is needed; the old one lives, by garbage collection, for as
// long as a buffer refers to it. So a buffer is never freed under a reader and there
// is no lock. The zero value is ready for use.
type zeros struct {
	page atomic.Pointer[[]byte]
	// clear is the tombstone column that was made last: batches of one size, the
	// usual case, share it.
	clear atomic.Pointer[array.Boolean]
}

// buffer returns a buffer of n zero bytes. Its root is the buffer itself, with n
// bytes, so that [Size] counts those and not the page.
func (z *zeros) buffer(n int) *memory.Buffer {
	page := z.page.Load()
	if page == nil || len(*page) < n {
		if n > maxZeros {
			return memory.NewBufferBytes(make([]byte, n))
		}
		grown := make([]byte, max(minZeros, 1<<bits.Len(uint(max(n, 1)-1))))
		// Losing the race to a smaller page costs an allocation later, no more.
		z.page.CompareAndSwap(page, &grown)
		page = &grown
	}
	return memory.NewBufferBytes((*page)[:n:n])
}

// tombstones returns a column of n false values. The caller releases it.
func (z *zeros) tombstones(n int) arrow.Array {
	if last := z.clear.Load(); last != nil && last.Len() == n {
		last.Retain()
		return last
	}
	arr := array.NewBoolean(n, z.buffer(int(bitutil.BytesForBits(int64(n)))), nil, 0)
	arr.Retain() // for z; buffers of zeros own nothing, so it need not be released
	z.clear.Store(arr)
	return arr
}

// nulls returns a settled column of n nulls. The caller releases it. A run-end
// encoded column fails if its run ends cannot count to n.
func (z *zeros) nulls(dt arrow.DataType, n int) (arrow.Array, error) {
	data, err := z.nullData(dt, n)
	if err != nil {
		return nil, err
	}
	defer data.Release()
	arr := array.MakeFromData(data)
	warm(arr)
	return arr, nil
}

func (z *zeros) nullData(dt arrow.DataType, n int) (*array.Data, error) {
	k, width, st := layoutOf(dt)
	bufs := []*memory.Buffer{nil}
	if k.hasValidity() {
		bufs[0] = z.buffer(int(bitutil.BytesForBits(int64(n))))
	}
	lens := make([]int, children(st)) // of the children
	switch k {
	case kindBits:
		bufs = append(bufs, z.buffer(int(bitutil.BytesForBits(int64(n)))))
	case kindFixed, kindView, kindDict:
		bufs = append(bufs, z.buffer(n*width))
	case kindVar:
		bufs = append(bufs, z.buffer((n+1)*width), z.buffer(0))
	case kindList:
		bufs = append(bufs, z.buffer((n+1)*width))
	case kindListView:
		bufs = append(bufs, z.buffer(n*width), z.buffer(n*width))
	case kindFixedList:
		lens[0] = n * width
	case kindStruct:
		for i := range lens {
			lens[i] = n
		}
	case kindSparse, kindDense:
		bufs = z.nullUnion(k, st.(arrow.UnionType), n, lens)
	case kindRunEnd:
		return z.nullRun(dt, st.(*arrow.RunEndEncodedType), n)
	case kindUnknown:
		return nil, fmt.Errorf("schema: cannot make nulls of type %s", dt)
	}
	var kids []arrow.ArrayData
	for i, kn := range lens {
		kid, err := z.nullData(child(st, i).Type, kn)
		if err != nil {
			return nil, err
		}
		defer kid.Release()
		kids = append(kids, kid)
	}
	nulls := n
	if !k.hasValidity() && k != kindNull {
		nulls = 0
	}
	data := array.NewData(dt, n, bufs, kids, nulls, 0)
	if k == kindDict {
		dict, err := z.nullData(st.(*arrow.DictionaryType).ValueType, 0)
		if err != nil {
			data.Release()
			return nil, err
		}
		data.SetDictionary(dict)
		dict.Release()
	}
	return data, nil
}

// nullUnion returns the buffers of a union of n nulls, and sets its children's
// lengths. Unions have no bitmap: the null is one of the first child that may be null.
func (z *zeros) nullUnion(k kind, dt arrow.UnionType, n int, lens []int) []*memory.Buffer {
	pick := 0
	for i, f := range dt.Fields() {
		if f.Nullable {
			pick = i
			break
		}
	}
	codes := z.buffer(n)
	if len(lens) > 0 && dt.TypeCodes()[pick] != 0 {
		filled := make([]byte, n)
		for i := range filled {
			filled[i] = byte(dt.TypeCodes()[pick])
		}
		codes = memory.NewBufferBytes(filled)
	}
	if k == kindDense {
		if n > 0 && len(lens) > 0 {
			lens[pick] = 1
		}
		return []*memory.Buffer{nil, codes, z.buffer(4 * n)}
	}
	for i := range lens {
		lens[i] = n
	}
	return []*memory.Buffer{nil, codes}
}

// nullRun returns one run of n nulls.
func (z *zeros) nullRun(dt arrow.DataType, st *arrow.RunEndEncodedType, n int) (*array.Data, error) {
	var ends []byte
	limit := math.MaxInt64
	switch st.RunEnds().ID() {
	case arrow.INT16:
		limit, ends = math.MaxInt16, arrow.Int16Traits.CastToBytes([]int16{int16(n)})
	case arrow.INT32:
		limit, ends = math.MaxInt32, arrow.Int32Traits.CastToBytes([]int32{int32(n)})
	default:
		ends = arrow.Int64Traits.CastToBytes([]int64{int64(n)})
	}
	if n > limit {
		return nil, fmt.Errorf("schema: %s cannot hold a run of %d nulls", dt, n)
	}
	runs := min(n, 1)
	values, err := z.nullData(st.Encoded(), runs)
	if err != nil {
		return nil, err
	}
	defer values.Release()
	runEnds := array.NewData(st.RunEnds(), runs, []*memory.Buffer{nil, memory.NewBufferBytes(ends)}, nil, 0, 0)
	defer runEnds.Release()
	return array.NewData(dt, n, []*memory.Buffer{nil}, []arrow.ArrayData{runEnds, values}, 0, 0), nil
}
