package index_test

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/blevesearch/bleve/v2/search/query"

	"github.com/memwal/memwal-go/index"
)

// A memtable's text index is frozen, opened from its bytes, and searched together with
// that of the memtable that came after it.
func ExampleSet_Freeze() {
	ctx := context.Background()
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64},
		{Name: "body", Type: arrow.BinaryTypes.String, Nullable: true},
	}, nil)
	bodies := index.Text{Name: "bodies", Column: index.Column{Name: "body"}, Analyzer: "en"}
	spec, err := index.Bind(schema, []index.Column{{Name: "id"}}, []index.Config{bodies})
	if err != nil {
		log.Fatal(err)
	}
	table := func(json string) (*index.Set, arrow.RecordBatch) {
		rec, _, err := array.RecordFromJSON(memory.DefaultAllocator, schema, strings.NewReader(json))
		if err != nil {
			log.Fatal(err)
		}
		set := spec.NewSet(rows{rec})
		if err := set.Apply(rec, 0); err != nil {
			log.Fatal(err)
		}
		return set, rec
	}
	older, file := table(`[{"id": 1, "body": "two lakes"}, {"id": 2, "body": "a lake"}, {"id": 3, "body": "a river"}]`)
	newer, _ := table(`[{"id": 2, "body": "no water at all"}, {"id": 4, "body": "another lake"}]`)

	// The rows of the older one go to a file as they are, so slots are rows of the file.
	var object bytes.Buffer
	row := func(slot uint32) (uint32, bool) { return slot, true }
	if _, err := older.Freeze(ctx, "bodies", older.Applied(), row, &object); err != nil {
		log.Fatal(err)
	}
	frozen, err := spec.OpenFrozen(ctx, "bodies", index.FrozenBytes(object.Bytes()), index.FrozenOptions{})
	if err != nil {
		log.Fatal(err)
	}

	// Frozen rows have no keys in memory: those that newer rows supersede are found by the
	// rows of the file, and counted.
	var hidden []uint32
	for slot := range frozen.Slots() {
		row, ok, err := frozen.Row(ctx, slot)
		if err != nil {
			log.Fatal(err)
		}
		if !ok {
			continue // not in the index: it was superseded when it was frozen
		}
		if _, ok := newer.LookupRow(file, int(row), newer.Applied()); ok {
			hidden = append(hidden, slot)
		}
	}
	part := &index.FrozenPart{Index: frozen, Hidden: func(slot uint32) bool { return slices.Contains(hidden, slot) }}
	if part.HiddenRows, part.HiddenTerms, err = frozen.Count(ctx, slices.Values(hidden)); err != nil {
		log.Fatal(err)
	}

	hits, err := spec.SearchText(ctx, "bodies", index.TextSearch{Query: query.NewMatchQuery("lake"), Limit: 10},
		index.Part{Frozen: part},
		index.Part{Set: newer, Bound: newer.Applied(), First: uint64(frozen.Slots())})
	if err != nil {
		log.Fatal(err)
	}
	for _, h := range hits {
		fmt.Printf("part %d, slot %d, score %.2f\n", h.Part, h.Slot, h.Score)
	}
	// Output:
	// part 0, slot 0, score 0.38
	// part 1, slot 1, score 0.38
}
