package memtable

import (
	"context"
	"math/bits"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/memwal/memwal-go/index"
	"github.com/memwal/memwal-go/internal/schema"
)

// plainSchema is that of an append-only table, keyedSchema that of a table with
// the primary key id.
var (
	plainSchema = arrow.NewSchema([]arrow.Field{{Name: "id", Type: arrow.PrimitiveTypes.Int64}}, nil)
	keyedSchema = arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64},
		{Name: "value", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
		{Name: schema.Tombstone, Type: arrow.FixedWidthTypes.Boolean},
	}, nil)
)

// checked returns an allocator that must be empty again when the test ends.
func checked(t testing.TB) memory.Allocator {
	mem := memory.NewCheckedAllocator(memory.NewGoAllocator())
	t.Cleanup(func() { mem.AssertSize(t, 0) })
	return mem
}

// plain returns a batch of an append-only table with consecutive ids from
// first. The caller releases it.
func plain(mem memory.Allocator, first int64, rows int) arrow.RecordBatch {
	b := array.NewRecordBuilder(mem, plainSchema)
	defer b.Release()
	for i := range rows {
		b.Field(0).(*array.Int64Builder).Append(first + int64(i))
	}
	return b.NewRecordBatch()
}

// row of a table with a primary key.
type row struct {
	id, value int64
	dead      bool
}

// keyed returns a batch of a table with a primary key. The caller releases it.
func keyed(mem memory.Allocator, rows ...row) arrow.RecordBatch {
	b := array.NewRecordBuilder(mem, keyedSchema)
	defer b.Release()
	for _, r := range rows {
		b.Field(0).(*array.Int64Builder).Append(r.id)
		b.Field(1).(*array.Int64Builder).Append(r.value)
		b.Field(2).(*array.BooleanBuilder).Append(r.dead)
	}
	return b.NewRecordBatch()
}

// put appends a batch and gives the test's reference up.
func put(t testing.TB, m *Memtable, rec arrow.RecordBatch) {
	t.Helper()
	defer rec.Release()
	if err := m.Append(rec, 8*rec.NumRows(), 16*rec.NumRows()); err != nil {
		t.Fatal(err)
	}
}

// int64At returns a value of an int64 column.
func int64At(rec arrow.RecordBatch, column, row int) int64 {
	return rec.Column(column).(*array.Int64).Value(row)
}

// bind returns index specs for keyedSchema: the primary key, and an ordered
// index for each name.
func bind(t testing.TB, names ...string) *index.Spec {
	t.Helper()
	var configs []index.Config
	for _, name := range names {
		configs = append(configs, index.Ordered{Name: name, Columns: []index.Column{{Name: "value"}}})
	}
	spec, err := index.Bind(keyedSchema, []index.Column{{Name: "id"}}, configs)
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

// count is the number of rows that Stretches gives.
func (v View) count(hidden *Hidden) (n int64) {
	for s := range v.Stretches(context.Background(), 0, hidden) {
		if s.Live == nil {
			n += int64(s.To - s.From)
		}
		for _, w := range s.Live {
			n += int64(bits.OnesCount64(w))
		}
	}
	return n
}
