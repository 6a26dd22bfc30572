package main

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/maphash"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
)

// digest is a 128-bit hash of values. Its seeds are random, so that no input is
// bad by design.
type digest struct{ hi, lo uint64 }

func (d digest) compare(o digest) int {
	if c := cmp.Compare(d.hi, o.hi); c != 0 {
		return c
	}
	return cmp.Compare(d.lo, o.lo)
}

type seeds [2]maphash.Seed

func newSeeds() seeds { return seeds{maphash.MakeSeed(), maphash.MakeSeed()} }

// hasher computes digests of the rows of one batch. Equal values have equal
// digests, however the batch is sliced, encoded in dictionaries or padded.
type hasher struct {
	seeds   seeds
	columns []appender
	buf     []byte
}

// appender adds value i of a column to dst, such that no two different lists of
// values give the same bytes.
type appender func(dst []byte, i int) []byte

// newHasher hashes the given columns of rec, nil for all. It borrows rec for as
// long as it is used.
func newHasher(s seeds, rec arrow.RecordBatch, columns []int) (*hasher, error) {
	h := &hasher{seeds: s}
	if columns == nil {
		for i := range int(rec.NumCols()) {
			columns = append(columns, i)
		}
	}
	for _, i := range columns {
		a, err := newAppender(rec.Column(i))
		if err != nil {
			return nil, fmt.Errorf("column %q: %w", rec.ColumnName(i), err)
		}
		h.columns = append(h.columns, a)
	}
	return h, nil
}

func (h *hasher) row(i int) digest {
	h.buf = h.buf[:0]
	for _, add := range h.columns {
		h.buf = add(h.buf, i)
	}
	return digest{maphash.Bytes(h.seeds[0], h.buf), maphash.Bytes(h.seeds[1], h.buf)}
}

// newAppender returns the appender of a: one byte that tells null from not, and
// the value.
func newAppender(a arrow.Array) (appender, error) {
	switch a := a.(type) {
	case *array.Dictionary:
		values, err := newAppender(a.Dictionary())
		if err != nil {
			return nil, err
		}
		return nullable(a, func(dst []byte, i int) []byte { return values(dst, a.GetValueIndex(i)) }), nil
	case array.ExtensionArray:
		return newAppender(a.Storage())
	case *array.RunEndEncoded:
		values, err := newAppender(a.Values())
		if err != nil {
			return nil, err
		}
		return func(dst []byte, i int) []byte { return values(dst, a.GetPhysicalIndex(i)) }, nil
	}
	value, err := newValueAppender(a)
	if err != nil {
		return nil, err
	}
	return nullable(a, value), nil
}

func nullable(a arrow.Array, value appender) appender {
	if a.NullN() == 0 && a.DataType().ID() != arrow.NULL {
		return func(dst []byte, i int) []byte { return value(append(dst, 1), i) }
	}
	return func(dst []byte, i int) []byte {
		if a.IsNull(i) {
			return append(dst, 0)
		}
		return value(append(dst, 1), i)
	}
}

// newValueAppender returns the appender of values that are not null.
func newValueAppender(a arrow.Array) (appender, error) {
	switch a := a.(type) {
	case *array.Boolean:
		return func(dst []byte, i int) []byte {
			if a.Value(i) {
				return append(dst, 1)
			}
			return append(dst, 0)
		}, nil
	case interface{ Value(int) string }: // every kind of string
		return func(dst []byte, i int) []byte {
			v := a.Value(i)
			return append(binary.AppendUvarint(dst, uint64(len(v))), v...)
		}, nil
	case interface{ Value(int) []byte }: // every kind of binary
		return func(dst []byte, i int) []byte {
			v := a.Value(i)
			return append(binary.AppendUvarint(dst, uint64(len(v))), v...)
		}, nil
	case array.ListLike:
		values, err := newAppender(a.ListValues())
		if err != nil {
			return nil, err
		}
		return func(dst []byte, i int) []byte {
			from, to := a.ValueOffsets(i)
			dst = binary.AppendUvarint(dst, uint64(to-from))
			for j := from; j < to; j++ {
				dst = values(dst, int(j))
			}
			return dst
		}, nil
	case *array.Struct:
		fields := make([]appender, a.NumField())
		for i := range fields {
			var err error
			if fields[i], err = newAppender(a.Field(i)); err != nil {
				return nil, err
			}
		}
		return func(dst []byte, i int) []byte {
			for _, add := range fields {
				dst = add(dst, i)
			}
			return dst
		}, nil
	}
	if t, ok := a.DataType().(arrow.FixedWidthDataType); ok && bitutil.IsMultipleOf8(int64(t.BitWidth())) {
		return newFixedAppender(a, t.BitWidth()/8)
	}
	// Unions and whatever else is rare: its text tells values apart.
	return func(dst []byte, i int) []byte {
		v := a.ValueStr(i)
		return append(binary.AppendUvarint(dst, uint64(len(v))), v...)
	}, nil
}

// newFixedAppender takes values as they lie in memory.
func newFixedAppender(a arrow.Array, width int) (appender, error) {
	d := a.Data()
	if len(d.Buffers()) < 2 || (d.Buffers()[1] == nil && a.Len() > 0) {
		return nil, fmt.Errorf("type %v has no buffer of values", a.DataType())
	}
	if a.Len() == 0 {
		return func(dst []byte, _ int) []byte { return dst }, nil
	}
	values := d.Buffers()[1].Bytes()[d.Offset()*width:]
	return func(dst []byte, i int) []byte { return append(dst, values[i*width:(i+1)*width]...) }, nil
}
