// Command cut writes the first rows of a Parquet file, with an ordinal key
// column in front, as the small Parquet file that bench embeds.
//
//	go run ./bench/internal/cut -rows 200000 flights-3m.parquet bench/data/flights-200k.parquet
//
// The input is data/flights-3m.parquet of the npm package vega-datasets 3.2.1:
// flight records of the US Bureau of Transportation Statistics, in the public
// domain. The output depends on nothing but the input and the versions of the
// modules, so that a cut can be made again and compared.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
)

const keyColumn = "id"

func main() {
	rows := flag.Int64("rows", 200_000, "rows to keep")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: cut [-rows N] INPUT.parquet OUTPUT.parquet")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() != 2 || *rows <= 0 {
		flag.Usage()
		os.Exit(2)
	}
	if err := cut(flag.Arg(0), flag.Arg(1), *rows); err != nil {
		fmt.Fprintf(os.Stderr, "cut: %v\n", err)
		os.Exit(1)
	}
}

// cut writes the first rows of in to out.
func cut(in, out string, rows int64) (err error) {
	pf, err := file.OpenParquetFile(in, false)
	if err != nil {
		return fmt.Errorf("open %s: %w", in, err)
	}
	defer pf.Close()
	if pf.NumRows() < rows {
		return fmt.Errorf("%s has %d rows, fewer than the %d to keep", in, pf.NumRows(), rows)
	}
	fr, err := pqarrow.NewFileReader(pf, pqarrow.ArrowReadProperties{BatchSize: 1 << 16}, memory.DefaultAllocator)
	if err != nil {
		return fmt.Errorf("read the schema of %s: %w", in, err)
	}
	rr, err := fr.GetRecordReader(context.Background(), nil, nil)
	if err != nil {
		return fmt.Errorf("read %s: %w", in, err)
	}
	defer rr.Release()

	f, err := os.Create(out)
	if err != nil {
		return err
	}
	defer f.Close()
	schema := withKey(rr.Schema())
	props := parquet.NewWriterProperties(
		parquet.WithCompression(compress.Codecs.Zstd), parquet.WithCompressionLevel(19),
		// An ordinal has no repeats: a dictionary of it would be larger than itself.
		parquet.WithDictionaryFor(keyColumn, false), parquet.WithEncodingFor(keyColumn, parquet.Encodings.DeltaBinaryPacked),
		parquet.WithMaxRowGroupLength(rows),
		parquet.WithCreatedBy("memwal bench/internal/cut"))
	w, err := pqarrow.NewFileWriter(schema, f, props, pqarrow.NewArrowWriterProperties(pqarrow.WithStoreSchema()))
	if err != nil {
		return err
	}
	if err := copyRows(w, schema, rr, rows); err != nil {
		return fmt.Errorf("write %s: %w", out, err)
	}
	// The Parquet writer closes the file as well.
	return w.Close()
}

// copyRows writes the first rows of rr to w as one row group.
func copyRows(w *pqarrow.FileWriter, schema *arrow.Schema, rr pqarrow.RecordReader, rows int64) error {
	var done int64
	for done < rows {
		rec, err := rr.Read()
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return err
		}
		part := rec.NewSlice(0, min(rec.NumRows(), rows-done))
		cols := append([]arrow.Array{ordinals(done, part.NumRows())}, part.Columns()...)
		if err := w.WriteBuffered(array.NewRecordBatch(schema, cols, part.NumRows())); err != nil {
			return err
		}
		done += part.NumRows()
	}
	return nil
}

// withKey returns s with the key column in front, and without the field ids of
// the Parquet reader, which say nothing here.
func withKey(s *arrow.Schema) *arrow.Schema {
	fields := []arrow.Field{{Name: keyColumn, Type: arrow.PrimitiveTypes.Int64}}
	for _, f := range s.Fields() {
		f.Metadata = arrow.Metadata{}
		fields = append(fields, f)
	}
	return arrow.NewSchema(fields, nil)
}

func ordinals(first, n int64) arrow.Array {
	b := array.NewInt64Builder(memory.DefaultAllocator)
	defer b.Release()
	b.Reserve(int(n))
	for i := range n {
		b.UnsafeAppend(first + i)
	}
	return b.NewArray()
}
