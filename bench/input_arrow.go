package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"
)

// arrowFile reads an Arrow IPC file, one record batch at a time.
type arrowFile struct {
	path   string
	schema *arrow.Schema
}

func newArrowFile(path string) (source, error) {
	s := &arrowFile{path: path}
	err := s.with(func(r *ipc.FileReader) error {
		s.schema = r.Schema()
		return nil
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (s *arrowFile) with(use func(*ipc.FileReader) error) error {
	f, err := os.Open(s.path)
	if err != nil {
		return err
	}
	defer f.Close()
	r, err := ipc.NewFileReader(f)
	if err != nil {
		return fmt.Errorf("read %s as an Arrow IPC file: %w", s.path, err)
	}
	defer r.Close()
	return use(r)
}

func (s *arrowFile) Schema() *arrow.Schema { return s.schema }

// Rows is not in the footer, only in each batch.
func (s *arrowFile) Rows() int64 { return -1 }

func (s *arrowFile) Batches() iter.Seq2[arrow.RecordBatch, error] {
	return func(yield func(arrow.RecordBatch, error) bool) {
		err := s.with(func(r *ipc.FileReader) error {
			for i := range r.NumRecords() {
				rec, err := r.RecordBatchAt(i)
				if err != nil {
					return fmt.Errorf("read %s, batch %d: %w", s.path, i, err)
				}
				if !yield(rec, nil) {
					return nil
				}
			}
			return nil
		})
		if err != nil {
			yield(nil, err)
		}
	}
}

// arrowStream reads an Arrow IPC stream.
type arrowStream struct {
	path   string
	schema *arrow.Schema
}

func newArrowStream(path string) (source, error) {
	s := &arrowStream{path: path}
	err := s.with(func(r *ipc.Reader) error {
		s.schema = r.Schema()
		return nil
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (s *arrowStream) with(use func(*ipc.Reader) error) error {
	f, err := os.Open(s.path)
	if err != nil {
		return err
	}
	defer f.Close()
	r, err := ipc.NewReader(bufio.NewReaderSize(f, 1<<20))
	if err != nil {
		return err
	}
	defer r.Release()
	return use(r)
}

func (s *arrowStream) Schema() *arrow.Schema { return s.schema }

// Rows is unknown before the end of the stream.
func (s *arrowStream) Rows() int64 { return -1 }

func (s *arrowStream) Batches() iter.Seq2[arrow.RecordBatch, error] {
	return func(yield func(arrow.RecordBatch, error) bool) {
		err := s.with(func(r *ipc.Reader) error {
			for r.Next() {
				rec := r.RecordBatch()
				rec.Retain()
				if !yield(rec, nil) {
					return nil
				}
			}
			if err := r.Err(); err != nil && !errors.Is(err, io.EOF) {
				return fmt.Errorf("read %s: %w", s.path, err)
			}
			return nil
		})
		if err != nil {
			yield(nil, err)
		}
	}
}
