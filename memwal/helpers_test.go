package memwal

import (
	"context"
	"fmt"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/uuid"
	"github.com/memwal/memwal-go/index"
	"github.com/memwal/memwal-go/objstore"
)

// testSchema is that of most tests: a key, a text and a number.
var testSchema = arrow.NewSchema([]arrow.Field{
	{Name: "id", Type: arrow.PrimitiveTypes.Int64},
	{Name: "text", Type: arrow.BinaryTypes.String, Nullable: true},
	{Name: "n", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
}, nil)

// testRow is a row of testSchema.
type testRow struct {
	id   int64
	text string
	n    int64
}

// batchOf makes a batch of testSchema that is released with the test.
func batchOf(t testing.TB, rows ...testRow) arrow.RecordBatch {
	t.Helper()
	b := array.NewRecordBuilder(memory.DefaultAllocator, testSchema)
	defer b.Release()
	for _, r := range rows {
		b.Field(0).(*array.Int64Builder).Append(r.id)
		b.Field(1).(*array.StringBuilder).Append(r.text)
		b.Field(2).(*array.Int64Builder).Append(r.n)
	}
	rec := b.NewRecordBatch()
	t.Cleanup(rec.Release)
	return rec
}

// seq makes a batch of n rows with ids from first on.
func seq(t testing.TB, first int64, n int) arrow.RecordBatch {
	t.Helper()
	rows := make([]testRow, n)
	for i := range rows {
		id := first + int64(i)
		rows[i] = testRow{id, fmt.Sprintf("row %d", id), id * 10}
	}
	return batchOf(t, rows...)
}

// keysOf makes a batch of keys for Delete.
func keysOf(t testing.TB, ids ...int64) arrow.RecordBatch {
	t.Helper()
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema(testSchema.Fields()[:1], nil))
	defer b.Release()
	b.Field(0).(*array.Int64Builder).AppendValues(ids, nil)
	rec := b.NewRecordBatch()
	t.Cleanup(rec.Release)
	return rec
}

// keyedOptions are those of a table with a primary key and an ordered index.
func keyedOptions() *Options {
	return &Options{
		PrimaryKey: []string{"id"},
		Indexes:    []index.Config{index.Ordered{Name: "by_n", Columns: []index.Column{{Name: "n"}}}},
	}
}

var testShard = uuid.MustParse("6ba7b810-9dad-11d1-80b4-00c04fd430c8")

// mustOpen opens the test shard and aborts it with the test.
func mustOpen(t testing.TB, store objstore.Store, o *Options) *Writer {
	t.Helper()
	w, err := Open(t.Context(), store, testShard, testSchema, o)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() { w.Abort() })
	return w
}

func mustPut(t testing.TB, w *Writer, rec arrow.RecordBatch) {
	t.Helper()
	if err := w.Put(t.Context(), rec); err != nil {
		t.Fatalf("put: %v", err)
	}
}

func mustClose(t testing.TB, w *Writer) {
	t.Helper()
	if err := w.Close(t.Context()); err != nil {
		t.Fatalf("close: %v", err)
	}
}

// rowsOf scans what is visible.
func rowsOf(t testing.TB, w *Writer) []testRow {
	t.Helper()
	s, err := w.Snapshot()
	if err != nil {
		t.Fatalf("snapshot: %v", err)
	}
	defer s.Close()
	return snapshotRows(t, s)
}

func snapshotRows(t testing.TB, s *Snapshot) []testRow {
	t.Helper()
	r, err := s.Scan(context.Background(), ScanOptions{})
	if err != nil {
		t.Fatalf("scan: %v", err)
	}
	return readRows(t, r)
}

// readRows reads r to its end and releases it.
func readRows(t testing.TB, r array.RecordReader) []testRow {
	t.Helper()
	defer r.Release()
	var rows []testRow
	for r.Next() {
		rec := r.RecordBatch()
		for i := range int(rec.NumRows()) {
			rows = append(rows, testRow{
				rec.Column(0).(*array.Int64).Value(i),
				rec.Column(1).(*array.String).Value(i),
				rec.Column(2).(*array.Int64).Value(i),
			})
		}
	}
	if err := r.Err(); err != nil {
		t.Fatalf("read: %v", err)
	}
	return rows
}

// testBatch is a batch and the id of its first row.
type testBatch struct {
	first int64
	rec   arrow.RecordBatch
}

// crashWriter ends a writer whose puts were acknowledged as a kill would: nothing more
// is written.
func crashWriter(w *Writer) { w.Abort() }
