package memwal

import (
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// source produces batches one by one. Each belongs to the caller; nil ends.
type source interface {
	next() (arrow.RecordBatch, error)
	close()
}

// recordReader makes an array.RecordReader of a source. Like every record reader it is
// for one goroutine; a batch is valid until the next call of Next.
type recordReader struct {
	schema *arrow.Schema
	src    source
	cur    arrow.RecordBatch
	err    error
	refs   atomic.Int64
}

var _ array.RecordReader = (*recordReader)(nil)

func newRecordReader(schema *arrow.Schema, src source) *recordReader {
	r := &recordReader{schema: schema, src: src}
	r.refs.Store(1)
	return r
}

// Retain implements array.RecordReader.
func (r *recordReader) Retain() { r.refs.Add(1) }

// Release implements array.RecordReader. The last one closes the source.
func (r *recordReader) Release() {
	if r.refs.Add(-1) == 0 {
		r.drop()
		r.end()
	}
}

// Schema implements array.RecordReader.
func (r *recordReader) Schema() *arrow.Schema { return r.schema }

// RecordBatch implements array.RecordReader.
func (r *recordReader) RecordBatch() arrow.RecordBatch { return r.cur }

// Record implements array.RecordReader.
//
// Deprecated: use RecordBatch.
func (r *recordReader) Record() arrow.RecordBatch { return r.cur }

// Err implements array.RecordReader.
func (r *recordReader) Err() error { return r.err }

// Next implements array.RecordReader. At the end, and after an error, what the
// reader held is let go of at once, whenever it is released.
func (r *recordReader) Next() bool {
	r.drop()
	if r.src == nil {
		return false
	}
	r.cur, r.err = r.src.next()
	if r.err != nil || r.cur == nil {
		r.end()
		return false
	}
	return true
}

func (r *recordReader) drop() {
	if r.cur != nil {
		r.cur.Release()
		r.cur = nil
	}
}

func (r *recordReader) end() {
	if r.src != nil {
		r.src.close()
		r.src = nil
	}
}
