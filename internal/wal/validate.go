package wal

import (
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
)

// validateBatch checks every value that refers to another place: offsets, views,
// indices, type codes, run ends. arrow-go checks none of them when it reads, and
// panics when the value is used. Entries of memwal are protected by their
// checksum instead: what their writer was given is what comes back.
func validateBatch(rec arrow.RecordBatch) error {
	for i, col := range rec.Columns() {
		if err := validateArray(col.DataType(), col.Data()); err != nil {
			return fmt.Errorf("column %q: %w", rec.ColumnName(i), err)
		}
	}
	return nil
}

// extent is the part of an array's buffers that it reads: [from, from+rows).
type extent struct {
	data       arrow.ArrayData
	from, rows int
}

func (x extent) end() int { return x.from + x.rows }

// bytes returns a buffer; nil if it is absent.
func (x extent) bytes(i int) []byte {
	if b := x.data.Buffers(); i < len(b) && b[i] != nil {
		return b[i].Bytes()
	}
	return nil
}

// fixed checks that a buffer has n values of a width in bytes.
func (x extent) fixed(i, n, width int) error {
	if have := len(x.bytes(i)); width > 0 && n > have/width {
		return fmt.Errorf("buffer %d of %d bytes for %d values of %d", i, have, n, width)
	}
	return nil
}

// bits checks that a buffer has n bits.
func (x extent) bits(i, n int) error {
	if have := len(x.bytes(i)); int(bitutil.BytesForBits(int64(n))) > have {
		return fmt.Errorf("buffer %d of %d bytes for %d bits", i, have, n)
	}
	return nil
}

// null reports whether a value is null, for arrays with a checked bitmap.
func (x extent) null(i int) bool {
	valid := x.bytes(0)
	return x.data.NullN() != 0 && len(valid) > 0 && !bitutil.BitIsSet(valid, x.from+i)
}

// validateArray checks an array read as type dt, which is the storage type
// where the array is of an extension type.
func validateArray(dt arrow.DataType, data arrow.ArrayData) error {
	x := extent{data: data, from: data.Offset(), rows: data.Len()}
	if x.from < 0 || x.rows < 0 || x.end() < 0 {
		return fmt.Errorf("array of %d values from %d", x.rows, x.from)
	}
	if err := x.validity(dt); err != nil {
		return err
	}
	switch dt := dt.(type) {
	case arrow.ExtensionType:
		return validateArray(dt.StorageType(), data)
	case *arrow.NullType:
		return nil
	case *arrow.BooleanType:
		return x.bits(1, x.end())
	case *arrow.DictionaryType:
		return x.dictionary(dt)
	case *arrow.BinaryType, *arrow.StringType:
		return checkOffsets[int32](x, len(x.bytes(2)))
	case *arrow.LargeBinaryType, *arrow.LargeStringType:
		return checkOffsets[int64](x, len(x.bytes(2)))
	case arrow.BinaryViewDataType:
		return x.views()
	case arrow.UnionType:
		return x.union(dt)
	case *arrow.RunEndEncodedType:
		return x.runs(dt)
	case arrow.NestedType:
		return x.nested(dt)
	case *arrow.FixedSizeBinaryType:
		if dt.ByteWidth < 0 {
			return fmt.Errorf("values of %d bytes", dt.ByteWidth)
		}
		return x.fixed(1, x.end(), dt.ByteWidth)
	case arrow.DecimalType:
		digits := map[arrow.Type]int{arrow.DECIMAL32: 9, arrow.DECIMAL64: 18, arrow.DECIMAL128: 38, arrow.DECIMAL256: 76}[dt.ID()]
		if p, s := int(dt.GetPrecision()), int(dt.GetScale()); p < 1 || p > digits || s < -digits || s > digits {
			return fmt.Errorf("decimal of %d digits with scale %d", p, s)
		}
		return x.fixed(1, x.end(), dt.BitWidth()/8)
	case arrow.FixedWidthDataType:
		return x.fixed(1, x.end(), dt.BitWidth()/8)
	}
	return fmt.Errorf("type %s is unknown", dt)
}

// validity checks the bitmap of nulls.
func (x extent) validity(dt arrow.DataType) error {
	switch dt.ID() {
	case arrow.NULL, arrow.SPARSE_UNION, arrow.DENSE_UNION, arrow.RUN_END_ENCODED, arrow.EXTENSION:
		return nil
	}
	if x.data.NullN() == 0 && x.bytes(0) == nil {
		return nil
	}
	return x.bits(0, x.end())
}

// nested checks lists and structs, and descends.
func (x extent) nested(dt arrow.NestedType) error {
	children := x.data.Children()
	if len(children) != dt.NumFields() {
		return fmt.Errorf("%d children for %d fields", len(children), dt.NumFields())
	}
	var err error
	switch dt := dt.(type) {
	case *arrow.ListType, *arrow.MapType:
		err = checkOffsets[int32](x, children[0].Len())
	case *arrow.LargeListType:
		err = checkOffsets[int64](x, children[0].Len())
	case *arrow.ListViewType:
		err = checkListViews[int32](x, children[0].Len())
	case *arrow.LargeListViewType:
		err = checkListViews[int64](x, children[0].Len())
	case *arrow.FixedSizeListType:
		if n := int(dt.Len()); n > 0 && x.end() > children[0].Len()/n {
			err = fmt.Errorf("%d lists of %d in %d values", x.end(), n, children[0].Len())
		}
	case *arrow.StructType:
		err = x.childrenReach(x.end())
	default:
		err = fmt.Errorf("type %s is unknown", dt)
	}
	if err != nil {
		return err
	}
	return validateChildren(dt, children)
}

func validateChildren(dt arrow.NestedType, children []arrow.ArrayData) error {
	for i, f := range dt.Fields() {
		if err := validateArray(f.Type, children[i]); err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	return nil
}

// childrenReach checks that every child has at least n values.
func (x extent) childrenReach(n int) error {
	for i, c := range x.data.Children() {
		if c.Len() < n {
			return fmt.Errorf("child %d has %d of %d values", i, c.Len(), n)
		}
	}
	return nil
}

// checkOffsets checks that offsets rise from 0 or above to limit or below.
func checkOffsets[T int32 | int64](x extent, limit int) error {
	if x.rows == 0 {
		return nil
	}
	var zero T
	if err := x.fixed(1, x.end()+1, sizeOf(zero)); err != nil {
		return err
	}
	offsets := arrow.GetData[T](x.bytes(1))[x.from : x.end()+1]
	last := T(0)
	for i, o := range offsets {
		if o < last {
			return fmt.Errorf("offset %d is %d after %d", i, o, last)
		}
		last = o
	}
	if int64(last) > int64(limit) {
		return fmt.Errorf("offset %d is beyond %d", last, limit)
	}
	return nil
}

func checkListViews[T int32 | int64](x extent, limit int) error {
	if x.rows == 0 {
		return nil
	}
	var zero T
	if err := errors.Join(x.fixed(1, x.end(), sizeOf(zero)), x.fixed(2, x.end(), sizeOf(zero))); err != nil {
		return err
	}
	offsets := arrow.GetData[T](x.bytes(1))[x.from:x.end()]
	sizes := arrow.GetData[T](x.bytes(2))[x.from:x.end()]
	for i, o := range offsets {
		if o < 0 || sizes[i] < 0 || int64(o) > int64(limit) || int64(sizes[i]) > int64(limit)-int64(o) {
			return fmt.Errorf("list %d is %d values from %d, there are %d", i, sizes[i], o, limit)
		}
	}
	return nil
}

func sizeOf[T int32 | int64](T) int {
	var v any = T(0)
	if _, ok := v.(int64); ok {
		return 8
	}
	return 4
}

// views checks where long values of a view array lie.
func (x extent) views() error {
	if err := x.fixed(1, x.end(), arrow.ViewHeaderSizeBytes); err != nil {
		return err
	}
	if x.rows == 0 {
		return nil
	}
	headers := arrow.ViewHeaderTraits.CastFromBytes(x.bytes(1))[x.from:x.end()]
	for i := range headers {
		v := &headers[i]
		if x.null(i) || (v.IsInline() && v.Len() >= 0) {
			continue
		}
		data := x.bytes(2 + int(v.BufferIndex()))
		if v.Len() < 0 || v.BufferIndex() < 0 || v.BufferOffset() < 0 || int(v.BufferOffset())+v.Len() > len(data) {
			return fmt.Errorf("view %d is %d bytes at %d of buffer %d", i, v.Len(), v.BufferOffset(), v.BufferIndex())
		}
	}
	return nil
}

// dictionary checks the indices of values that are not null.
func (x extent) dictionary(dt *arrow.DictionaryType) error {
	index := dt.IndexType.(arrow.FixedWidthDataType)
	if err := x.fixed(1, x.end(), index.BitWidth()/8); err != nil {
		return err
	}
	dict := x.data.Dictionary()
	n := uint64(dict.Len())
	raw := x.bytes(1)
	for i := range x.rows {
		if v := indexValue(dt.IndexType.ID(), raw, x.from+i); v >= n && !x.null(i) {
			return fmt.Errorf("index %d is %d in a dictionary of %d", i, int64(v), n)
		}
	}
	return validateArray(dt.ValueType, dict)
}

// indexValue returns an index; negative ones come out huge.
func indexValue(id arrow.Type, raw []byte, i int) uint64 {
	switch id {
	case arrow.INT8:
		return uint64(int8(raw[i]))
	case arrow.UINT8:
		return uint64(raw[i])
	case arrow.INT16:
		return uint64(arrow.Int16Traits.CastFromBytes(raw)[i])
	case arrow.UINT16:
		return uint64(arrow.Uint16Traits.CastFromBytes(raw)[i])
	case arrow.INT32:
		return uint64(arrow.Int32Traits.CastFromBytes(raw)[i])
	case arrow.UINT32:
		return uint64(arrow.Uint32Traits.CastFromBytes(raw)[i])
	case arrow.INT64:
		return uint64(arrow.Int64Traits.CastFromBytes(raw)[i])
	case arrow.UINT64:
		return arrow.Uint64Traits.CastFromBytes(raw)[i]
	}
	return 1<<64 - 1
}

// union checks type codes, and the offsets of a dense union.
func (x extent) union(dt arrow.UnionType) error {
	if err := x.fixed(1, x.end(), 1); err != nil {
		return err
	}
	dense := dt.Mode() == arrow.DenseMode
	if !dense {
		if err := x.childrenReach(x.end()); err != nil {
			return err
		}
	} else if err := x.fixed(2, x.end(), 4); err != nil {
		return err
	}
	ids, children := dt.ChildIDs(), x.data.Children()
	codes := x.bytes(1)
	var offsets []int32
	if dense && x.rows > 0 {
		offsets = arrow.Int32Traits.CastFromBytes(x.bytes(2))
	}
	for i := x.from; i < x.end(); i++ {
		code := int8(codes[i])
		if code < 0 || int(code) >= len(ids) || ids[code] < 0 || ids[code] >= len(children) {
			return fmt.Errorf("value %d has type code %d", i, code)
		}
		if dense && (offsets[i] < 0 || int(offsets[i]) >= children[ids[code]].Len()) {
			return fmt.Errorf("value %d is number %d of child %d", i, offsets[i], ids[code])
		}
	}
	return validateChildren(dt, children)
}

// runs checks that run ends rise and cover the array.
func (x extent) runs(dt *arrow.RunEndEncodedType) error {
	children := x.data.Children()
	ends, values := children[0], children[1]
	if err := validateArray(dt.RunEnds(), ends); err != nil {
		return err
	}
	if ends.NullN() != 0 || values.Len() < ends.Len() {
		return fmt.Errorf("%d run ends (%d null) for %d values", ends.Len(), ends.NullN(), values.Len())
	}
	var raw []byte
	if ends.Len() > 0 {
		raw = ends.Buffers()[1].Bytes()
	}
	last := uint64(0)
	for i := range ends.Len() {
		v := indexValue(dt.RunEnds().ID(), raw, ends.Offset()+i)
		if v <= last || v > 1<<40 {
			return fmt.Errorf("run %d ends at %d after %d", i, int64(v), last)
		}
		last = v
	}
	if last < uint64(x.end()) {
		return fmt.Errorf("runs end at %d of %d values", last, x.end())
	}
	return validateArray(dt.Encoded(), values)
}
