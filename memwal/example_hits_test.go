package memwal_test

import (
	"context"
	"errors"
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

// A filter acts inside the search, a highlight shows what matched, and the key of a hit
// finds its row again.
func ExampleSnapshot_Hits() {
	ctx := context.Background()
	w := books(ctx)
	defer w.Close(ctx)
	s, err := w.Snapshot()
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()

	o := memwal.SearchOptions{
		Filter:    memwal.Ge("year", int32(1850)),
		Limit:     2,
		Highlight: &memwal.Highlight{HTML: true},
	}
	hits, err := s.Hits(ctx, "titles", query.NewMatchQuery("the sea"), o)
	if err != nil {
		log.Fatal(err)
	}
	for _, h := range hits {
		fmt.Println(h.Key, h.Fragments[0].Text)
	}
	row, err := s.Lookup(ctx, hits[0].Key...)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(row.Presence, row.Column(2).ValueStr(row.Index))

	plan, err := s.ExplainSearch(ctx, "titles", query.NewMatchQuery("the sea"), o)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(plan.Access == memwal.AccessHits, plan.Hits)
	// Output:
	// [3] The Old Man and the <mark>Sea</mark>
	// [2] Twenty Thousand Leagues Under the <mark>Sea</mark>
	// present 1952
	// true 3
}

// What people type is a query string. What is wrong with one is an error that says where.
func ExampleSnapshot_Search_queryString() {
	ctx := context.Background()
	w := books(ctx)
	defer w.Close(ctx)
	s, err := w.Snapshot()
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()

	for _, typed := range []string{`+sea -"old man"`, "thosand~1", "le*", `"under the se`} {
		r, err := s.Search(ctx, "titles", query.NewQueryStringQuery(typed), memwal.SearchOptions{Columns: []string{"title"}})
		if e, ok := errors.AsType[*index.QueryStringError](err); ok {
			fmt.Println(e)
			continue
		}
		if err != nil {
			log.Fatal(err)
		}
		for r.Next() {
			fmt.Println(r.RecordBatch().Column(0))
		}
		r.Release()
	}
	// Output:
	// ["Moby-Dick, or the Sea" "Twenty Thousand Leagues Under the Sea"]
	// ["Twenty Thousand Leagues Under the Sea"]
	// ["Twenty Thousand Leagues Under the Sea"]
	// query string: unterminated quote at byte 13, behind "\"under the se"
}

// books is a shard with a few titles.
func books(ctx context.Context) *memwal.Writer {
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64},
		{Name: "title", Type: arrow.BinaryTypes.String},
		{Name: "year", Type: arrow.PrimitiveTypes.Int32},
	}, nil)
	w, err := memwal.Open(ctx, objstore.NewMemory(), uuid.New(), schema, &memwal.Options{
		PrimaryKey: []string{"id"},
		Indexes:    []index.Config{index.Text{Name: "titles", Column: index.Column{Name: "title"}}},
	})
	if err != nil {
		log.Fatal(err)
	}
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	b.Field(0).(*array.Int64Builder).AppendValues([]int64{1, 2, 3}, nil)
	b.Field(1).(*array.StringBuilder).AppendValues([]string{"Moby-Dick, or the Sea", "Twenty Thousand Leagues Under the Sea", "The Old Man and the Sea"}, nil)
	b.Field(2).(*array.Int32Builder).AppendValues([]int32{1849, 1870, 1952}, nil)
	batch := b.NewRecordBatch()
	defer batch.Release()
	if err := w.Put(ctx, batch); err != nil {
		log.Fatal(err)
	}
	return w
}
