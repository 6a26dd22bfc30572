package main

import (
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
)

// mixed has one column of many kinds of types; the first is an int64 key.
var mixed = arrow.NewSchema([]arrow.Field{
	{Name: "n", Type: arrow.PrimitiveTypes.Int64},
	{Name: "s", Type: arrow.BinaryTypes.String, Nullable: true},
	{Name: "b", Type: arrow.FixedWidthTypes.Boolean, Nullable: true},
	{Name: "ts", Type: arrow.FixedWidthTypes.Timestamp_us, Nullable: true},
	{Name: "bin", Type: arrow.BinaryTypes.LargeBinary, Nullable: true},
	{Name: "list", Type: arrow.ListOf(arrow.PrimitiveTypes.Int32), Nullable: true},
	{Name: "vec", Type: arrow.FixedSizeListOf(3, arrow.PrimitiveTypes.Float32), Nullable: true},
	{Name: "st", Type: arrow.StructOf(arrow.Field{Name: "x", Type: arrow.PrimitiveTypes.Int16, Nullable: true}, arrow.Field{Name: "y", Type: arrow.BinaryTypes.String, Nullable: true}), Nullable: true},
	{Name: "dict", Type: &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}, Nullable: true},
	{Name: "dec", Type: &arrow.Decimal128Type{Precision: 20, Scale: 2}, Nullable: true},
}, nil)

// mixedJSON is row i of mixed; every seventh value of most columns is
// null (arrow-go cannot write fixed-size lists with nulls to Parquet).
func mixedJSON(i int) string {
	val := func(col int, s string) string {
		if i%7 == col {
			return "null"
		}
		return s
	}
	return fmt.Sprintf(`{"n":%d,"s":%s,"b":%s,"ts":%s,"bin":%s,"list":%s,"vec":%s,"st":%s,"dict":%s,"dec":%s}`, i,
		val(0, fmt.Sprintf(`"row %d"`, i)), val(1, fmt.Sprint(i%2 == 0)), val(2, fmt.Sprint(1_000_000*i)), val(3, `"AAEC"`),
		val(4, fmt.Sprintf("[%d,null,%d]", i, i+1)), fmt.Sprintf("[%d,0.5,-1]", i),
		val(6, fmt.Sprintf(`{"x":%d,"y":null}`, i)), val(0, fmt.Sprintf(`"d%d"`, i%3)), val(1, fmt.Sprintf(`"%d.25"`, i)))
}

// fromJSON makes a batch of rows in JSON.
func fromJSON(t testing.TB, s *arrow.Schema, rows ...string) arrow.RecordBatch {
	t.Helper()
	b := array.NewRecordBuilder(memory.DefaultAllocator, s)
	defer b.Release()
	for _, r := range rows {
		if err := b.UnmarshalJSON([]byte(r)); err != nil {
			t.Fatalf("row %s: %v", r, err)
		}
	}
	return b.NewRecordBatch()
}

func mixedBatch(t testing.TB, from, n int) arrow.RecordBatch {
	t.Helper()
	rows := make([]string, n)
	for i := range rows {
		rows[i] = mixedJSON(from + i)
	}
	return fromJSON(t, mixed, rows...)
}

// lend makes rows of batches.
func lend(batches ...arrow.RecordBatch) rows {
	return func() iter.Seq2[arrow.RecordBatch, error] {
		return func(yield func(arrow.RecordBatch, error) bool) {
			for _, b := range batches {
				b.Retain()
				if !yield(b, nil) {
					return
				}
			}
		}
	}
}

// listSource is a source of given batches.
type listSource struct{ batches []arrow.RecordBatch }

func (s *listSource) Schema() *arrow.Schema { return s.batches[0].Schema() }
func (s *listSource) Rows() int64           { return -1 }
func (s *listSource) Batches() iter.Seq2[arrow.RecordBatch, error] {
	return lend(s.batches...)()
}

func writeArrowFile(t testing.TB, batches ...arrow.RecordBatch) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "in.any")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w, err := ipc.NewFileWriter(f, ipc.WithSchema(batches[0].Schema()), ipc.WithDictionaryDeltas(true))
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range batches {
		if err := w.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func writeArrowStream(t testing.TB, batches ...arrow.RecordBatch) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "in.any")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w := ipc.NewWriter(f, ipc.WithSchema(batches[0].Schema()))
	for _, b := range batches {
		if err := w.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// writeParquet writes every batch as a row group.
func writeParquet(t testing.TB, batches ...arrow.RecordBatch) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "in.any")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w, err := pqarrow.NewFileWriter(batches[0].Schema(), f, parquet.NewWriterProperties(), pqarrow.NewArrowWriterProperties(pqarrow.WithStoreSchema()))
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range batches {
		if err := w.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// collect reads every batch of s.
func collect(t testing.TB, s source) []arrow.RecordBatch {
	t.Helper()
	var list []arrow.RecordBatch
	for rec, err := range s.Batches() {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, rec)
	}
	return list
}

// joinAll returns the rows of all batches in one.
func joinAll(t testing.TB, batches []arrow.RecordBatch) arrow.RecordBatch {
	t.Helper()
	rec, err := concatenate(batches[0].Schema(), batches)
	if err != nil {
		t.Fatal(err)
	}
	return rec
}
