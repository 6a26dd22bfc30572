package main

import (
	"context"
	"fmt"
	"io"
	"iter"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
)

// parquetFieldID is a metadata key that arrow-go's Parquet reader adds to every
// field. The number identifies a column within its file only.
const parquetFieldID = "PARQUET:field_id"

// parquetSource streams a Parquet file page by page.
type parquetSource struct {
	name   string
	open   func() (parquet.ReaderAtSeeker, error)
	batch  int64
	schema *arrow.Schema
	rows   int64
}

func newParquet(name string, open func() (parquet.ReaderAtSeeker, error), batch int64) (source, error) {
	s := &parquetSource{name: name, open: open, batch: batch}
	r, fr, err := s.reader()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	schema, err := fr.Schema()
	if err != nil {
		return nil, fmt.Errorf("read the schema of %s: %w", name, err)
	}
	s.schema, s.rows = withoutParquetIDs(schema), r.NumRows()
	return s, nil
}

// reader opens the file anew. Closing the first result closes everything.
func (s *parquetSource) reader() (*file.Reader, *pqarrow.FileReader, error) {
	f, err := s.open()
	if err != nil {
		return nil, nil, fmt.Errorf("open %s: %w", s.name, err)
	}
	props := parquet.NewReaderProperties(memory.DefaultAllocator)
	// Otherwise a whole column chunk is read at once, and a row group can be
	// as large as the file.
	props.BufferedStreamEnabled, props.BufferSize = true, 1<<20
	r, err := file.NewParquetReader(f, file.WithReadProps(props))
	if err != nil {
		if c, ok := f.(io.Closer); ok {
			c.Close()
		}
		return nil, nil, fmt.Errorf("read %s as Parquet: %w", s.name, err)
	}
	fr, err := pqarrow.NewFileReader(r, pqarrow.ArrowReadProperties{BatchSize: s.batch, Parallel: true}, memory.DefaultAllocator)
	if err != nil {
		r.Close()
		return nil, nil, fmt.Errorf("read the schema of %s: %w", s.name, err)
	}
	return r, fr, nil
}

func (s *parquetSource) Schema() *arrow.Schema { return s.schema }
func (s *parquetSource) Rows() int64           { return s.rows }

func (s *parquetSource) Batches() iter.Seq2[arrow.RecordBatch, error] {
	return func(yield func(arrow.RecordBatch, error) bool) {
		r, fr, err := s.reader()
		if err != nil {
			yield(nil, err)
			return
		}
		defer r.Close()
		rr, err := fr.GetRecordReader(context.Background(), nil, nil)
		if err != nil {
			yield(nil, fmt.Errorf("read %s: %w", s.name, err))
			return
		}
		defer rr.Release()
		var rows int64
		for rr.Next() {
			rec := rr.RecordBatch()
			rows += rec.NumRows()
			if !yield(array.NewRecordBatch(s.schema, rec.Columns(), rec.NumRows()), nil) {
				return
			}
		}
		switch err := rr.Err(); {
		case err != nil:
			yield(nil, fmt.Errorf("read %s after row %d: %w", s.name, rows, err))
		case rows != s.rows:
			yield(nil, fmt.Errorf("read %s: it has %d rows, its footer says %d", s.name, rows, s.rows))
		}
	}
}

// withoutParquetIDs returns s without the ids that the Parquet reader adds.
// Nested fields keep theirs: they are part of the columns' types.
func withoutParquetIDs(s *arrow.Schema) *arrow.Schema {
	fields := s.Fields()
	for i, f := range fields {
		m := map[string]string{}
		for j, k := range f.Metadata.Keys() {
			if k != parquetFieldID {
				m[k] = f.Metadata.Values()[j]
			}
		}
		fields[i].Metadata = arrow.MetadataFrom(m)
	}
	return arrow.NewSchema(fields, nil)
}
