package memtable_test

import (
	"context"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/memwal/memwal-go/memtable"
)

// A row's way: accepted, indexed, durable, and with that visible.
func Example() {
	schema := arrow.NewSchema([]arrow.Field{{Name: "id", Type: arrow.PrimitiveTypes.Int64}}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	b.Field(0).(*array.Int64Builder).AppendValues([]int64{7, 8, 9}, nil)
	rec := b.NewRecordBatch()
	defer rec.Release()

	cursors := memtable.NewCursors(0)
	m := memtable.New(memtable.Config{Generation: 1, Schema: schema})
	defer m.Release()
	applier := memtable.NewApplier(func() []*memtable.Memtable { return []*memtable.Memtable{m} }, cursors)

	if err := m.Append(rec, 24, 64); err != nil {
		fmt.Println(err)
		return
	}
	cursors.Accept(m.EndRow())
	put := cursors.Register(memtable.LevelVisible, m.EndRow())

	if err := applier.Run(context.Background()); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("indexed", cursors.Indexed(), "visible", cursors.Visible())
	if err := cursors.AdvanceDurable(3); err != nil { // the log has them
		fmt.Println(err)
		return
	}
	if err := put.Wait(context.Background()); err != nil {
		fmt.Println(err)
		return
	}
	for s := range m.View(cursors.Visible()).Stretches(context.Background(), 0, nil) {
		fmt.Println("slot", s.FirstSlot, "rows from", s.From, "to", s.To, "all of them", s.Live == nil)
	}
	// Output:
	// indexed 3 visible 0
	// slot 0 rows from 0 to 3 all of them true
}
