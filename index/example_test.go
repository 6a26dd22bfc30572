package index_test

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/memwal/memwal-go/index"
)

// rows is the batch store of a memtable with a single batch.
type rows struct{ rec arrow.RecordBatch }

func (r rows) Locate(slot uint32) (arrow.RecordBatch, int) { return r.rec, int(slot) }

func Example() {
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "city", Type: arrow.BinaryTypes.String},
		{Name: "people", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
	}, nil)
	spec, err := index.Bind(schema, []index.Column{{Name: "city"}}, []index.Config{
		index.Ordered{Name: "by people", Columns: []index.Column{{Name: "people"}}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}

	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	b.Field(0).(*array.StringBuilder).AppendValues([]string{"Bern", "Basel", "Bern"}, nil)
	b.Field(1).(*array.Int64Builder).AppendValues([]int64{1, 171_000, 134_000}, nil)
	rec := b.NewRecordBatch()
	defer rec.Release()

	if err := spec.Check(rec); err != nil {
		fmt.Println(err)
		return
	}
	set := spec.NewSet(rows{rec})
	if err := set.Apply(rec, 0); err != nil {
		fmt.Println(err)
		return
	}

	bern, _ := spec.Key("Bern")
	now, _ := set.Lookup(bern, set.Applied())
	before, _ := set.Lookup(bern, 2)
	fmt.Println("Bern is in slot", now, "and was in slot", before)

	small, _ := set.Range("by people", index.Range{High: []any{150_000}}, set.Applied())
	for slot := range small {
		fmt.Println("up to 150,000:", slot)
	}
	_, err = set.Range("by name", index.Range{}, set.Applied())
	fmt.Println(err)
	// Output:
	// Bern is in slot 2 and was in slot 0
	// up to 150,000: 2
	// no ordered index named "by name": a search names an index, not a column, one of the Indexes that the table is opened with
}
