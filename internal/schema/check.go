package schema

import (
	"errors"
	"fmt"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/encoded"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// check verifies that the rows [lo, lo+n) of d, which has type dt, can be read,
// copied and encoded without a panic: buffers are long enough, offsets ascend and
// stay inside, indices hit, null counts fit the bitmaps. It reads offsets, view
// headers and indices of those rows, so it costs about a nanosecond a value of a
// variable-width column and nearly nothing for a fixed-width one. Dictionaries and
// run ends are checked whole: they are encoded whole, too. Text is not checked to
// be UTF-8, since nothing here depends on it.
//
// arrow-go's array.Validate is not used: it allocates for every child, and checks
// neither views nor the null counts that its own IPC writer relies on.
func check(d arrow.ArrayData, dt arrow.DataType, lo, n int) error {
	k, width, st := layoutOf(dt)
	if lo < 0 || n < 0 || d.Offset() < 0 || d.Len() < 0 || lo > d.Len()-n || d.Offset() > math.MaxInt-d.Len() {
		return fmt.Errorf("has %d values at offset %d where %d are needed", d.Len(), d.Offset(), lo+n)
	}
	if k == kindUnknown {
		return errors.New("has an unknown layout")
	}
	if have := len(d.Buffers()); have < k.minBuffers() {
		return fmt.Errorf("has %d buffers where %d are needed", have, k.minBuffers())
	}
	if have := len(d.Children()); have != children(st) {
		return fmt.Errorf("has %d children where %d are needed", have, children(st))
	}
	if k.hasValidity() {
		if err := checkValidity(d, lo, n); err != nil {
			return err
		}
	}
	abs := d.Offset() + lo
	switch k {
	case kindBits:
		return checkLen(d, 1, bitutil.BytesForBits(int64(abs+n)), n)
	case kindFixed:
		return checkLen(d, 1, int64(abs+n)*int64(width), n)
	case kindVar:
		return checkVar(d, width, abs, n)
	case kindView:
		return checkViews(d, abs, n)
	case kindList, kindListView, kindFixedList:
		return checkList(d, k, width, st, lo, n)
	case kindStruct:
		for i := range children(st) {
			if err := checkChild(d, st, i, abs, n); err != nil {
				return err
			}
		}
	case kindSparse, kindDense:
		return checkUnion(d, k, st.(arrow.UnionType), abs, n)
	case kindRunEnd:
		return checkRunEnds(d, st, abs, n)
	case kindDict:
		return checkDictionary(d, st.(*arrow.DictionaryType), width, abs, n)
	}
	return nil
}

// checkChild checks the rows [lo, lo+n) of the i-th child of d.
func checkChild(d arrow.ArrayData, dt arrow.DataType, i, lo, n int) error {
	f, c := child(dt, i), d.Children()[i]
	err := checkType(c, f.Type)
	if err == nil {
		err = check(c, f.Type, lo, n)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", step(dt, i), err)
	}
	return nil
}

func checkType(d arrow.ArrayData, want arrow.DataType) error {
	if d == nil {
		return errors.New("is missing")
	}
	if got := d.DataType(); got != want && !SameType(got, want) {
		return fmt.Errorf("holds %s where the type says %s", got, want)
	}
	return nil
}

func checkValidity(d arrow.ArrayData, lo, n int) error {
	buf, nulls := d.Buffers()[0], d.NullN()
	if buf == nil || buf.Len() == 0 {
		if nulls > 0 {
			return fmt.Errorf("counts %d nulls but has no validity bitmap", nulls)
		}
		if buf != nil && nulls != 0 && n > 0 {
			return errors.New("has an empty validity bitmap and unknown nulls")
		}
		return nil
	}
	abs := d.Offset() + lo
	if int64(buf.Len()) < bitutil.BytesForBits(int64(abs+n)) {
		return fmt.Errorf("has a validity bitmap of %d bytes for %d values", buf.Len(), abs+n)
	}
	if nulls < 0 || nulls > 0 && n != d.Len() {
		return nil // not counted yet, or counted over more than these rows
	}
	if got := n - bitutil.CountSetBits(buf.Bytes(), abs, n); got != nulls {
		return fmt.Errorf("counts %d nulls but its bitmap has %d", nulls, got)
	}
	return nil
}

// checkLen checks the length of the i-th buffer, which may be absent without rows.
func checkLen(d arrow.ArrayData, i int, need int64, n int) error {
	if n == 0 {
		return nil
	}
	if have := int64(bufferLen(d, i)); have < need {
		return fmt.Errorf("has %d bytes in buffer %d where %d are needed", have, i, need)
	}
	return nil
}

func bufferLen(d arrow.ArrayData, i int) int {
	if i >= len(d.Buffers()) || d.Buffers()[i] == nil {
		return 0
	}
	return d.Buffers()[i].Len()
}

// bytesOf returns the bytes of a buffer, which may be nil.
func bytesOf(b *memory.Buffer) []byte {
	if b == nil {
		return nil
	}
	return b.Bytes()
}

// int32s and int64s return the values [at, at+n) of the i-th buffer.
func int32s(d arrow.ArrayData, i, at, n int) []int32 {
	return arrow.Int32Traits.CastFromBytes(d.Buffers()[i].Bytes())[at : at+n]
}

func int64s(d arrow.ArrayData, i, at, n int) []int64 {
	return arrow.Int64Traits.CastFromBytes(d.Buffers()[i].Bytes())[at : at+n]
}

func ascending[T int32 | int64](offsets []T, limit int) bool {
	last := T(0)
	for _, o := range offsets {
		if o < last {
			return false
		}
		last = o
	}
	return int64(last) <= int64(limit)
}

// checkOffsets checks n+1 offsets from abs on against the length of what they cut.
func checkOffsets(d arrow.ArrayData, width, abs, n, limit int) error {
	if err := checkLen(d, 1, int64(abs+n+1)*int64(width), n); err != nil || n == 0 {
		return err
	}
	ok := false
	if width == 4 {
		ok = ascending(int32s(d, 1, abs, n+1), limit)
	} else {
		ok = ascending(int64s(d, 1, abs, n+1), limit)
	}
	if !ok {
		return fmt.Errorf("has offsets that go back or beyond the %d values they cut", limit)
	}
	return nil
}

func checkVar(d arrow.ArrayData, width, abs, n int) error {
	return checkOffsets(d, width, abs, n, bufferLen(d, 2))
}

func checkViews(d arrow.ArrayData, abs, n int) error {
	for i, b := range d.Buffers()[2:] {
		if b == nil {
			return fmt.Errorf("lacks data buffer %d", i)
		}
	}
	if err := checkLen(d, 1, int64(abs+n)*int64(arrow.ViewHeaderSizeBytes), n); err != nil || n == 0 {
		return err
	}
	valid, data := validityOf(d), d.Buffers()[2:]
	for i, h := range viewsOf(d, abs, n) {
		if valid != nil && bitutil.BitIsNotSet(valid, abs+i) {
			continue
		}
		if h.Len() < 0 {
			return fmt.Errorf("has a view of negative length in value %d", i)
		}
		if h.IsInline() {
			continue
		}
		at, off := int(h.BufferIndex()), int(h.BufferOffset())
		if at < 0 || at >= len(data) || off < 0 || off > data[at].Len()-h.Len() {
			return fmt.Errorf("has a view beyond its data in value %d", i)
		}
	}
	return nil
}

// viewsOf returns the view headers [abs, abs+n) of d.
func viewsOf(d arrow.ArrayData, abs, n int) []arrow.ViewHeader {
	if n == 0 {
		return nil
	}
	return arrow.ViewHeaderTraits.CastFromBytes(d.Buffers()[1].Bytes())[abs : abs+n]
}

// validityOf returns the validity bitmap of d, nil where every value is valid.
func validityOf(d arrow.ArrayData) []byte {
	if len(d.Buffers()) == 0 || d.NullN() == 0 {
		return nil
	}
	return bytesOf(d.Buffers()[0])
}

func checkList(d arrow.ArrayData, k kind, width int, dt arrow.DataType, lo, n int) error {
	abs := d.Offset() + lo
	c := d.Children()[0]
	if c == nil {
		return errors.New("lacks its child")
	}
	switch k {
	case kindFixedList:
		if width < 0 || width > 0 && abs+n > math.MaxInt/width {
			return fmt.Errorf("has a list size of %d", width)
		}
		return checkChild(d, dt, 0, abs*width, n*width)
	case kindList:
		if err := checkOffsets(d, width, abs, n, c.Len()); err != nil {
			return err
		}
	case kindListView:
		if err := checkListViews(d, width, abs, n, c.Len()); err != nil {
			return err
		}
	}
	first, end := childRange(d, k, width, lo, n)
	return checkChild(d, dt, 0, first, end-first)
}

func checkListViews(d arrow.ArrayData, width, abs, n, limit int) error {
	for i := 1; i <= 2; i++ {
		if err := checkLen(d, i, int64(abs+n)*int64(width), n); err != nil {
			return err
		}
	}
	valid := validityOf(d)
	for i := range n {
		if valid != nil && bitutil.BitIsNotSet(valid, abs+i) {
			continue
		}
		off, size := listView(d, width, abs+i)
		if size < 0 || size > 0 && (off < 0 || off > int64(limit)-size) {
			return fmt.Errorf("has a list view beyond its child in value %d", i)
		}
	}
	return nil
}

// listView returns the offset and size at position at of a list view.
func listView(d arrow.ArrayData, width, at int) (off, size int64) {
	if width == 4 {
		return int64(int32s(d, 1, at, 1)[0]), int64(int32s(d, 2, at, 1)[0])
	}
	return int64s(d, 1, at, 1)[0], int64s(d, 2, at, 1)[0]
}

// childRange returns the range of child values that the rows [lo, lo+n) of a list
// span: for a list view, all from the first one used to the last.
func childRange(d arrow.ArrayData, k kind, width, lo, n int) (first, end int) {
	if n == 0 {
		return 0, 0
	}
	abs := d.Offset() + lo
	switch {
	case k == kindFixedList:
		return abs * width, (abs + n) * width
	case k == kindList && width == 4:
		o := int32s(d, 1, abs, n+1)
		return int(o[0]), int(o[n])
	case k == kindList:
		o := int64s(d, 1, abs, n+1)
		return int(o[0]), int(o[n])
	}
	valid := validityOf(d)
	first = math.MaxInt
	for i := range n {
		if valid != nil && bitutil.BitIsNotSet(valid, abs+i) {
			continue
		}
		if off, size := listView(d, width, abs+i); size > 0 {
			first, end = min(first, int(off)), max(end, int(off+size))
		}
	}
	return min(first, end), end
}

func checkUnion(d arrow.ArrayData, k kind, dt arrow.UnionType, abs, n int) error {
	if err := checkLen(d, 1, int64(abs+n), n); err != nil {
		return err
	}
	if k == kindDense {
		if err := checkLen(d, 2, int64(abs+n)*4, n); err != nil {
			return err
		}
	}
	ids := dt.ChildIDs()
	for i, code := range typeCodes(d, abs, n) {
		if code < 0 || ids[code] < 0 || ids[code] >= len(d.Children()) {
			return fmt.Errorf("has the unknown type code %d in value %d", code, i)
		}
		if k == kindDense {
			if off := int32s(d, 2, abs+i, 1)[0]; off < 0 || int(off) >= d.Children()[ids[code]].Len() {
				return fmt.Errorf("has an offset beyond its child in value %d", i)
			}
		}
	}
	for i := range d.Children() {
		lo, end := abs, abs+n
		if k == kindDense {
			lo, end = denseRange(d, dt, i, abs, n)
		}
		if err := checkChild(d, dt, i, lo, end-lo); err != nil {
			return err
		}
	}
	return nil
}

func typeCodes(d arrow.ArrayData, abs, n int) []int8 {
	if n == 0 {
		return nil
	}
	return arrow.Int8Traits.CastFromBytes(d.Buffers()[1].Bytes())[abs : abs+n]
}

// denseRange returns the range of values of child i that the positions
// [abs, abs+n) of a dense union use.
func denseRange(d arrow.ArrayData, dt arrow.UnionType, i, abs, n int) (first, end int) {
	code := dt.TypeCodes()[i]
	first = math.MaxInt
	for at, c := range typeCodes(d, abs, n) {
		if c == code {
			off := int(int32s(d, 2, abs+at, 1)[0])
			first, end = min(first, off), max(end, off+1)
		}
	}
	return min(first, end), end
}

func checkRunEnds(d arrow.ArrayData, dt arrow.DataType, abs, n int) error {
	ends, values := d.Children()[0], d.Children()[1]
	if err := checkChild(d, dt, 0, 0, max(0, lenOf(ends))); err != nil {
		return err
	}
	if err := checkType(values, child(dt, 1).Type); err != nil {
		return err
	}
	if n == 0 {
		return nil
	}
	if ends.NullN() > 0 || ends.Len() == 0 || ends.Len() > values.Len() {
		return fmt.Errorf("has %d run ends for %d values", ends.Len(), values.Len())
	}
	at, last := encoded.GetRunEnds(ends), int64(0)
	for i := range int64(ends.Len()) {
		if at(i) <= last {
			return fmt.Errorf("has run ends that do not ascend, at %d", i)
		}
		last = at(i)
	}
	if last < int64(abs+n) {
		return fmt.Errorf("has runs that end at %d of %d", last, abs+n)
	}
	first, end := runRange(d, abs, n)
	return checkChild(d, dt, 1, first, end-first)
}

func lenOf(d arrow.ArrayData) int {
	if d == nil {
		return 0
	}
	return d.Len()
}

// runRange returns the range of runs that the positions [abs, abs+n) fall into.
func runRange(d arrow.ArrayData, abs, n int) (first, end int) {
	if n == 0 {
		return 0, 0
	}
	return encoded.FindPhysicalIndex(d, abs), encoded.FindPhysicalIndex(d, abs+n-1) + 1
}

func checkDictionary(d arrow.ArrayData, dt *arrow.DictionaryType, width, abs, n int) error {
	dict := dictionaryOf(d)
	if dict == nil {
		if d.Len() > 0 {
			return errors.New("lacks its dictionary")
		}
		return nil
	}
	err := checkType(dict, dt.ValueType)
	if err == nil {
		err = check(dict, dt.ValueType, 0, dict.Len())
	}
	if err != nil {
		return fmt.Errorf("dictionary: %w", err)
	}
	if err := checkLen(d, 1, int64(abs+n)*int64(width), n); err != nil {
		return err
	}
	valid := validityOf(d)
	for i := range n {
		if valid != nil && bitutil.BitIsNotSet(valid, abs+i) {
			continue
		}
		if at := dictIndex(d, dt.IndexType.ID(), abs+i); at < 0 || at >= dict.Len() {
			return fmt.Errorf("has index %d into a dictionary of %d in value %d", at, dict.Len(), i)
		}
	}
	return nil
}

// dictIndex returns the dictionary index at position at; negative where it is
// beyond what a dictionary can have.
func dictIndex(d arrow.ArrayData, id arrow.Type, at int) int {
	b := d.Buffers()[1].Bytes()
	switch id {
	case arrow.INT8:
		return int(int8(b[at]))
	case arrow.UINT8:
		return int(b[at])
	case arrow.INT16:
		return int(arrow.Int16Traits.CastFromBytes(b)[at])
	case arrow.UINT16:
		return int(arrow.Uint16Traits.CastFromBytes(b)[at])
	case arrow.INT32:
		return int(arrow.Int32Traits.CastFromBytes(b)[at])
	case arrow.UINT32:
		return int(arrow.Uint32Traits.CastFromBytes(b)[at])
	case arrow.INT64:
		return int(arrow.Int64Traits.CastFromBytes(b)[at])
	}
	return int(arrow.Uint64Traits.CastFromBytes(b)[at])
}
