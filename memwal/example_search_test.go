package memwal_test

import (
	"context"
	"fmt"
	"log"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/blevesearch/bleve/v2/search/query"
	"github.com/google/uuid"

	"github.com/memwal/memwal-go/index"
	"github.com/memwal/memwal-go/memwal"
	"github.com/memwal/memwal-go/objstore"
)

func ExampleSnapshot_Search() {
	ctx := context.Background()
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64},
		{Name: "title", Type: arrow.BinaryTypes.String, Nullable: true},
	}, nil)
	w, err := memwal.Open(ctx, objstore.NewMemory(), uuid.New(), schema, &memwal.Options{
		PrimaryKey: []string{"id"},
		Indexes: []index.Config{
			index.Text{Name: "titles", Column: index.Column{Name: "title"}, Analyzer: "en"},
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer w.Close(ctx)

	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	b.Field(0).(*array.Int64Builder).AppendValues([]int64{1, 2, 3, 1}, nil)
	b.Field(1).(*array.StringBuilder).AppendValues([]string{
		"A river runs dry", "Running along rivers", "Mountains", "Lakes of the north",
	}, nil)
	batch := b.NewRecordBatch()
	defer batch.Release()
	if err := w.Put(ctx, batch); err != nil {
		log.Fatal(err)
	}

	s, err := w.Snapshot()
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	for _, q := range []query.Query{
		query.NewMatchQuery("river"), // row 1 has another title by now
		query.NewMatchPhraseQuery("lakes of the north"),
		query.NewQueryStringQuery("mountain* lake -dry"),
	} {
		r, err := s.Search(ctx, "titles", q, memwal.SearchOptions{Columns: []string{"title"}, Limit: 5})
		if err != nil {
			log.Fatal(err)
		}
		for r.Next() {
			fmt.Println(r.RecordBatch().Column(0))
		}
		r.Release()
	}
	// Output:
	// ["Running along rivers"]
	// ["Lakes of the north"]
	// ["Mountains" "Lakes of the north"]
}
