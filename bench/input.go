package main

import (
	"bytes"
	"cmp"
	_ "embed"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/parquet"
)

// flights is a cut of the flight records of the US Bureau of Transportation
// Statistics, as in the npm package vega-datasets 3.2.1. internal/cut makes it.
//
//go:embed data/flights-200k.parquet
var flights []byte

// source is an input that can be read any number of times and is always the
// same.
type source interface {
	// Schema is that of every batch.
	Schema() *arrow.Schema
	// Rows is the number of rows, or -1 where only reading tells.
	Rows() int64
	// Batches yields the rows in order. Each batch belongs to the receiver,
	// who releases it. A failure is yielded as the last element.
	Batches() iter.Seq2[arrow.RecordBatch, error]
}

// input is a source cut to batches, and what is known about it.
type input struct {
	source
	name   string   // for the report
	key    []string // key columns, present in the schema; none for a table without
	unique bool     // no two rows have the same key: the key is an ordinal of ours
	added  bool     // the key column is not in the file
}

// openInput opens what c names, cuts it to batches and sees to the key. Every
// error is a usageError.
func openInput(c *config) (*input, error) {
	in := &input{}
	var err error
	switch {
	case c.synthetic():
		rows := c.Rows
		if rows == 0 {
			rows = defaultRows
		}
		text, words := cmp.Or(c.Text, defaultText), 0
		what := text
		if c.worded() {
			words = c.Words
			what = fmt.Sprintf("%s (%d words)", text, words)
		}
		if text == defaultKey || c.Dim > 0 && text == "vector" {
			return nil, usagef("-text: made-up rows have another column %q: choose another name", text)
		}
		in.source = newSynthetic(rows, c.Batch, c.Dim, text, words)
		in.name = "made-up rows of id and " + what
		if c.Dim > 0 {
			in.name = fmt.Sprintf("made-up rows of id, %s and %d float32", what, c.Dim)
		}
		in.unique = true
	case c.Input == "":
		in.name, in.unique = "the embedded flights", true
		in.source, err = newParquet(in.name, func() (parquet.ReaderAtSeeker, error) { return bytes.NewReader(flights), nil }, c.Batch)
	default:
		in.name = c.Input
		in.source, err = openFile(c.Input, c.Batch)
	}
	if err != nil {
		return nil, &usageError{err}
	}
	if !c.synthetic() {
		in.source = &rebatched{source: in.source, batch: c.Batch, limit: c.Rows}
	}
	if err := in.resolveKey(c); err != nil {
		return nil, &usageError{err}
	}
	return in, nil
}

// openFile tells the format by the file's first bytes, not by its name.
func openFile(path string, batch int64) (source, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open -input: %w", err)
	}
	defer f.Close()
	if st, err := f.Stat(); err == nil && !st.Mode().IsRegular() {
		return nil, fmt.Errorf("open -input: %s is no regular file; it is read more than once, so a pipe or a folder will not do", path)
	}
	magic := make([]byte, 6)
	n, err := io.ReadFull(f, magic)
	if err != nil && err != io.ErrUnexpectedEOF && err != io.EOF {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	switch magic = magic[:n]; {
	case bytes.HasPrefix(magic, []byte("PAR1")):
		return newParquet(path, func() (parquet.ReaderAtSeeker, error) { return os.Open(path) }, batch)
	case bytes.Equal(magic, []byte("ARROW1")):
		return newArrowFile(path)
	default:
		s, err := newArrowStream(path)
		if err != nil {
			return nil, fmt.Errorf("%s is neither Parquet nor an Arrow IPC file, and not an Arrow IPC stream either: %w", path, err)
		}
		return s, nil
	}
}

// resolveKey finds the key columns. The default of -key applies to tables that
// need a key or happen to have that column: a table without indexes gets no
// column that nobody asked for. Any other name that the input lacks is taken for
// a slip.
func (in *input) resolveKey(c *config) error {
	var missing []string
	for _, k := range c.Key {
		switch n := len(in.Schema().FieldIndices(k)); {
		case n == 0:
			missing = append(missing, k)
		case n > 1:
			return fmt.Errorf("the input has %d columns named %q: no key can be made of them", n, k)
		}
	}
	if len(missing) > 0 && !c.keyed() && !c.set["key"] {
		in.unique = false
		return nil
	}
	in.key = c.Key
	switch {
	case len(missing) == 0:
		// A key that the user chose may have duplicates, but an ordinal among
		// its columns is enough to know that it has none.
		in.unique = in.unique && slices.Contains(c.Key, defaultKey)
		return nil
	case len(c.Key) > 1 || c.Key[0] != defaultKey:
		return fmt.Errorf("-key: the input has no column %s; it has %s", quoted(missing), quoted(fieldNames(in.Schema())))
	}
	in.source = &ordinal{source: in.source, schema: withOrdinal(in.Schema(), missing[0])}
	in.added, in.unique = true, true
	return nil
}

func fieldNames(s *arrow.Schema) []string {
	names := make([]string, s.NumFields())
	for i, f := range s.Fields() {
		names[i] = f.Name
	}
	return names
}

func quoted(names []string) string {
	q := make([]string, len(names))
	for i, n := range names {
		q[i] = fmt.Sprintf("%q", n)
	}
	return strings.Join(q, ", ")
}
