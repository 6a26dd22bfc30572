package schema_test

import (
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/memwal/memwal-go/internal/schema"
)

// A column is renamed by giving its id under the new name. Batches that were stored
// under the old name keep their values.
func ExampleStorage() {
	first, err := schema.Storage(arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64},
		{Name: "temp", Type: arrow.PrimitiveTypes.Float64, Nullable: true},
	}, nil), []string{"id"}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	id, _ := schema.FieldID(first.Schema.Field(1))
	fmt.Println("temp has id", id)

	second, err := schema.Storage(arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64},
		{Name: "celsius", Type: arrow.PrimitiveTypes.Float64, Nullable: true,
			Metadata: arrow.MetadataFrom(map[string]string{schema.FieldIDKey: "2"})},
		{Name: "place", Type: arrow.BinaryTypes.String, Nullable: true},
	}, nil), []string{"id"}, first)
	if err != nil {
		fmt.Println(err)
		return
	}
	adapter, err := schema.NewAdapter(first.Schema, second.Schema)
	if err != nil {
		fmt.Println(err)
		return
	}
	old, _, err := array.RecordFromJSON(memory.DefaultAllocator, first.Schema,
		strings.NewReader(`[{"id": 1, "temp": 21.5, "_tombstone": false}]`))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer old.Release()
	now, err := adapter.Adapt(old)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer now.Release()
	for i, c := range now.Columns() {
		fmt.Println(now.ColumnName(i), c)
	}
	// Output:
	// temp has id 2
	// id [1]
	// celsius [21.5]
	// place [(null)]
	// _tombstone [false]
}

// A batch that does not fit is refused with everything that is wrong about it.
func ExampleShaper_Shape() {
	user := arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64},
		{Name: "name", Type: arrow.BinaryTypes.String},
	}, nil)
	table, err := schema.Storage(user, []string{"id"}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	shaper, err := schema.NewShaper(user, table)
	if err != nil {
		fmt.Println(err)
		return
	}
	rec, _, err := array.RecordFromJSON(memory.DefaultAllocator, user,
		strings.NewReader(`[{"id": 1, "name": "a"}, {"id": null, "name": null}]`))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rec.Release()
	_, err = shaper.Shape(rec)
	fmt.Println(err)
	// Output:
	// column "id" (int64) in row 1 is null: the column belongs to the primary key; fill it in
	// column "name" (utf8) in row 1 is null: the column is required; fill it in, or make it nullable
}
