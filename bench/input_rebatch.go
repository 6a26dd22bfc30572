package main

import (
	"iter"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// rebatched cuts a source to batches of the same number of rows, each with
// buffers of its own. A slice of a large batch would keep the whole of it
// alive, so memwal would copy it, at the expense of the measured run.
type rebatched struct {
	source
	batch int64
	limit int64 // rows, 0 is all
}

func (s *rebatched) Rows() int64 {
	n := s.source.Rows()
	if s.limit > 0 && n > s.limit {
		return s.limit
	}
	return n
}

func (s *rebatched) Batches() iter.Seq2[arrow.RecordBatch, error] {
	return func(yield func(arrow.RecordBatch, error) bool) {
		b := &rebatcher{schema: s.Schema(), batch: s.batch, yield: yield}
		defer b.drop()
		left := s.limit
		for rec, err := range s.source.Batches() {
			if err != nil {
				yield(nil, err)
				return
			}
			sliced := s.limit > 0 && rec.NumRows() > left
			if sliced {
				part := rec.NewSlice(0, left)
				rec.Release()
				rec = part
			}
			left -= rec.NumRows()
			more := b.add(rec, sliced)
			rec.Release()
			if !more {
				return
			}
			if s.limit > 0 && left == 0 {
				break
			}
		}
		b.emit()
	}
}

// rebatcher collects pieces until they make a batch.
type rebatcher struct {
	schema *arrow.Schema
	batch  int64
	yield  func(arrow.RecordBatch, error) bool

	pieces []arrow.RecordBatch // owned
	rows   int64               // of pieces, < batch
	whole  bool                // pieces is one batch of the source, unsliced
}

// add borrows rec. A sliced one, whose buffers hold more than its rows, is never
// passed on as it is. It returns false when the receiver wants no more.
func (b *rebatcher) add(rec arrow.RecordBatch, sliced bool) bool {
	for from := int64(0); from < rec.NumRows(); {
		n := min(b.batch-b.rows, rec.NumRows()-from)
		b.whole = !sliced && len(b.pieces) == 0 && n == rec.NumRows()
		b.pieces = append(b.pieces, rec.NewSlice(from, from+n))
		b.rows += n
		from += n
		if b.rows == b.batch && !b.emit() {
			return false
		}
	}
	return true
}

// emit yields the collected rows, if any.
func (b *rebatcher) emit() bool {
	if b.rows == 0 {
		return true
	}
	defer b.drop()
	if b.whole {
		b.pieces[0].Retain()
		return b.yield(b.pieces[0], nil)
	}
	rec, err := concatenate(b.schema, b.pieces)
	if err != nil {
		// arrow-go cannot concatenate every type (unions). Smaller batches and
		// slices are better than none.
		for _, p := range b.pieces {
			p.Retain()
			if !b.yield(p, nil) {
				return false
			}
		}
		return true
	}
	return b.yield(rec, nil)
}

func (b *rebatcher) drop() {
	for _, p := range b.pieces {
		p.Release()
	}
	b.pieces, b.rows = b.pieces[:0], 0
}

// concatenate returns the rows of pieces in one batch with buffers of its own.
// The caller owns it.
func concatenate(schema *arrow.Schema, pieces []arrow.RecordBatch) (arrow.RecordBatch, error) {
	cols := make([]arrow.Array, schema.NumFields())
	defer func() {
		for _, c := range cols {
			if c != nil {
				c.Release()
			}
		}
	}()
	parts := make([]arrow.Array, len(pieces))
	var rows int64
	for _, p := range pieces {
		rows += p.NumRows()
	}
	for i := range cols {
		for j, p := range pieces {
			parts[j] = p.Column(i)
		}
		col, err := array.Concatenate(parts, memory.DefaultAllocator)
		if err != nil {
			return nil, err
		}
		cols[i] = col
	}
	return array.NewRecordBatch(schema, cols, rows), nil
}

// ordinal puts a column in front that numbers the rows.
type ordinal struct {
	source
	schema *arrow.Schema
}

func withOrdinal(s *arrow.Schema, name string) *arrow.Schema {
	md := s.Metadata()
	fields := append([]arrow.Field{{Name: name, Type: arrow.PrimitiveTypes.Int64}}, s.Fields()...)
	return arrow.NewSchema(fields, &md)
}

func (s *ordinal) Schema() *arrow.Schema { return s.schema }

func (s *ordinal) Batches() iter.Seq2[arrow.RecordBatch, error] {
	return func(yield func(arrow.RecordBatch, error) bool) {
		var next int64
		for rec, err := range s.source.Batches() {
			if err != nil {
				yield(nil, err)
				return
			}
			ids := numbers(next, rec.NumRows())
			next += rec.NumRows()
			numbered := array.NewRecordBatch(s.schema, append([]arrow.Array{ids}, rec.Columns()...), rec.NumRows())
			ids.Release()
			rec.Release()
			if !yield(numbered, nil) {
				return
			}
		}
	}
}

// numbers returns first, first+1, … The caller owns the array.
func numbers(first, n int64) arrow.Array {
	b := array.NewInt64Builder(memory.DefaultAllocator)
	defer b.Release()
	b.Reserve(int(n))
	for i := range n {
		b.UnsafeAppend(first + i)
	}
	return b.NewArray()
}
