package memwal

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/extensions"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/uuid"

	"github.com/memwal/memwal-go/index"
	"github.com/memwal/memwal-go/objstore"
)

// TestSearchJoinsExtensionColumns: hits that lie apart come in one batch, as those of a
// scan do, also where a column is of an extension type.
func TestSearchJoinsExtensionColumns(t *testing.T) {
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64},
		{Name: "text", Type: arrow.BinaryTypes.String},
		{Name: "tag", Type: extensions.NewUUIDType()},
	}, nil)
	w, err := Open(t.Context(), objstore.NewMemory(), uuid.New(), schema, &Options{
		PrimaryKey: []string{"id"},
		Indexes:    []index.Config{index.Text{Name: "by text", Column: index.Column{Name: "text"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close(t.Context())
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	for i, s := range []string{"fish", "bird", "fish", "bird", "fish"} {
		b.Field(0).(*array.Int64Builder).Append(int64(i))
		b.Field(1).(*array.StringBuilder).Append(s)
		b.Field(2).(*extensions.UUIDBuilder).Append(uuid.UUID{byte(i)})
	}
	rec := b.NewRecordBatch()
	defer rec.Release()
	if err := w.Put(t.Context(), rec); err != nil {
		t.Fatal(err)
	}
	s, err := w.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	r, err := s.Search(t.Context(), "by text", word("fish"), SearchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Release()
	if !r.Next() || r.RecordBatch().NumRows() != 3 {
		t.Fatalf("the first batch is %v, want 3 rows", r.RecordBatch())
	}
	tags := r.RecordBatch().Column(2).(*extensions.UUIDArray)
	for i, want := range []byte{0, 2, 4} {
		if tags.Value(i) != (uuid.UUID{want}) {
			t.Errorf("row %d: %v", i, tags.Value(i))
		}
	}
}
