package memwal_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/uuid"

	"github.com/memwal/memwal-go/index"
	"github.com/memwal/memwal-go/memwal"
	"github.com/memwal/memwal-go/objstore"
)

var (
	shard  = uuid.MustParse("6ba7b810-9dad-11d1-80b4-00c04fd430c8")
	schema = arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64},
		{Name: "city", Type: arrow.BinaryTypes.String, Nullable: true},
	}, nil)
)

// The program of the README: put two rows, look one up.
func Example() {
	ctx := context.Background()
	store, err := objstore.Open(ctx, "mem://") // or file:///var/lib/ingest, or s3://bucket/prefix
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()

	schema := arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64},
		{Name: "city", Type: arrow.BinaryTypes.String, Nullable: true},
	}, nil)
	shard := uuid.MustParse("6ba7b810-9dad-11d1-80b4-00c04fd430c8") // yours, for ever
	w, err := memwal.Open(ctx, store, shard, schema, &memwal.Options{PrimaryKey: []string{"id"}})
	if err != nil {
		log.Fatal(err)
	}
	defer w.Close(ctx)

	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	b.Field(0).(*array.Int64Builder).AppendValues([]int64{1, 2}, nil)
	b.Field(1).(*array.StringBuilder).AppendValues([]string{"Ghent", "Ypres"}, nil)
	rec := b.NewRecordBatch()
	defer rec.Release()
	if err := w.Put(ctx, rec); err != nil { // returns when the rows are durable and visible
		log.Fatal(err)
	}

	s, err := w.Snapshot()
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	row, err := s.Lookup(ctx, int64(2))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(row.Presence, row.Column(1).ValueStr(row.Index))
	// Output: present Ypres
}

// batch makes a batch of a schema from rows in JSON.
func batch(schema *arrow.Schema, rows string) arrow.RecordBatch {
	rec, _, err := array.RecordFromJSON(memory.DefaultAllocator, schema, strings.NewReader(rows))
	if err != nil {
		log.Fatal(err)
	}
	return rec
}

func ExampleWriter_Delete() {
	ctx := context.Background()
	w, err := memwal.Open(ctx, objstore.NewMemory(), shard, schema, &memwal.Options{PrimaryKey: []string{"id"}})
	if err != nil {
		log.Fatal(err)
	}
	defer w.Close(ctx)
	rows := batch(schema, `[{"id": 1, "city": "Ghent"}, {"id": 2, "city": "Ypres"}]`)
	defer rows.Release()
	if err := w.Put(ctx, rows); err != nil {
		log.Fatal(err)
	}

	// A delete names rows by their key columns alone.
	keys := batch(arrow.NewSchema(schema.Fields()[:1], nil), `[{"id": 1}]`)
	defer keys.Release()
	if err := w.Delete(ctx, keys); err != nil {
		log.Fatal(err)
	}

	s, err := w.Snapshot()
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	for id := range int64(4) {
		row, err := s.Lookup(ctx, id)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(id, row.Presence)
	}
	// Output:
	// 0 absent
	// 1 deleted
	// 2 present
	// 3 absent
}

func ExampleSnapshot_Range() {
	ctx := context.Background()
	w, err := memwal.Open(ctx, objstore.NewMemory(), shard, schema, &memwal.Options{
		Indexes: []index.Config{index.Ordered{Name: "by_city", Columns: []index.Column{{Name: "city"}}}},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer w.Close(ctx)
	rows := batch(schema, `[{"id": 1, "city": "Ypres"}, {"id": 2, "city": "Ghent"}, {"id": 3, "city": null}, {"id": 4, "city": "Bruges"}]`)
	defer rows.Release()
	if err := w.Put(ctx, rows); err != nil {
		log.Fatal(err)
	}

	s, err := w.Snapshot()
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	// From the end of the alphabet down to "C".
	r, err := s.Range(ctx, "by_city", index.Range{Low: []any{"C"}, Reverse: true}, memwal.ScanOptions{Columns: []string{"city", "id"}})
	if err != nil {
		log.Fatal(err)
	}
	defer r.Release()
	for r.Next() {
		rec := r.RecordBatch() // valid until the next call of Next
		for row := range int(rec.NumRows()) {
			fmt.Println(rec.Column(0).ValueStr(row), rec.Column(1).ValueStr(row))
		}
	}
	if err := r.Err(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// Ypres 1
	// Ghent 2
}

// A filter leaves out rows, and Explain says what it costs to find the others.
func ExampleFilter() {
	ctx := context.Background()
	w, err := memwal.Open(ctx, objstore.NewMemory(), shard, schema, &memwal.Options{PrimaryKey: []string{"id"}})
	if err != nil {
		log.Fatal(err)
	}
	defer w.Close(ctx)
	rows := batch(schema, `[{"id": 1, "city": "Ypres"}, {"id": 2, "city": "Ghent"}, {"id": 3, "city": null}, {"id": 4, "city": "Genk"}]`)
	defer rows.Release()
	if err := w.Put(ctx, rows); err != nil {
		log.Fatal(err)
	}

	s, err := w.Snapshot()
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	for _, f := range []memwal.Filter{
		memwal.Prefix("city", "G"),
		memwal.Not(memwal.Prefix("city", "G")), // of a null nobody knows
		memwal.And(memwal.In("id", 1, 3, 4), memwal.Not(memwal.IsNull("city"))),
	} {
		o := memwal.ScanOptions{Filter: f, Columns: []string{"id"}}
		plan, err := s.Explain(ctx, o)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(plan)
		for rec, err := range s.All(ctx, o) {
			if err != nil {
				log.Fatal(err)
			}
			fmt.Println(rec.Column(0))
		}
	}
	// Output:
	// scan the live ones of 4 rows in the order of ordinals, filter them by city startsWith "G"
	// [2 4]
	// scan the live ones of 4 rows in the order of ordinals, filter them by not (city startsWith "G")
	// [1]
	// look up 3 primary keys, filter them by (id in [1, 3, 4] and not isNull(city)), and order what was found by ordinal
	// [1 4]
}

// With VisibleIndexed, Put returns as soon as readers see the rows, and does not
// wait for the store. Flush does.
func Example_visibleIndexed() {
	ctx := context.Background()
	w, err := memwal.Open(ctx, objstore.NewMemory(), shard, schema, &memwal.Options{
		Visibility:    memwal.VisibleIndexed,
		FlushInterval: -1, // nothing is appended by time
	})
	if err != nil {
		log.Fatal(err)
	}
	defer w.Close(ctx)
	rows := batch(schema, `[{"id": 1, "city": "Ghent"}]`)
	defer rows.Release()
	if err := w.Put(ctx, rows); err != nil {
		log.Fatal(err)
	}
	s := w.Stats()
	fmt.Println("visible", s.Visible, "durable", s.Durable)
	if err := w.Flush(ctx); err != nil {
		log.Fatal(err)
	}
	s = w.Stats()
	fmt.Println("visible", s.Visible, "durable", s.Durable)
	// Output:
	// visible 1 durable 0
	// visible 1 durable 1
}

func ExampleSealShard() {
	ctx := context.Background()
	store := objstore.NewMemory()
	w, err := memwal.Open(ctx, store, shard, schema, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer w.Abort()

	// No writer is let in any more, and the one that runs finds out.
	if err := memwal.SealShard(ctx, store, shard, nil); err != nil {
		log.Fatal(err)
	}
	rows := batch(schema, `[{"id": 1, "city": "Ghent"}]`)
	defer rows.Release()
	fmt.Println("fenced:", errors.Is(w.Put(ctx, rows), memwal.ErrFenced))
	_, err = memwal.Open(ctx, store, shard, schema, nil)
	fmt.Println("sealed:", errors.Is(err, memwal.ErrSealed))

	if err := memwal.UnsealShard(ctx, store, shard, nil); err != nil {
		log.Fatal(err)
	}
	w, err = memwal.Open(ctx, store, shard, schema, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("closed:", w.Close(ctx) == nil)
	// Output:
	// fenced: true
	// sealed: true
	// closed: true
}

// Another process reads what a writer has made durable.
func ExampleOpenReader() {
	ctx := context.Background()
	store := objstore.NewMemory() // in earnest, both processes open the same bucket
	w, err := memwal.Open(ctx, store, shard, schema, &memwal.Options{PrimaryKey: []string{"id"}})
	if err != nil {
		log.Fatal(err)
	}
	defer w.Close(ctx)

	r, err := memwal.OpenReader(ctx, store, shard, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()

	rows := batch(schema, `[{"id": 1, "city": "Ghent"}, {"id": 2, "city": "Ypres"}]`)
	defer rows.Release()
	if err := w.Put(ctx, rows); err != nil {
		log.Fatal(err)
	}
	if err := r.Refresh(ctx); err != nil { // shows everything that was acknowledged by now
		log.Fatal(err)
	}
	s, err := r.Snapshot()
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	row, err := s.Lookup(ctx, int64(2))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(row.Presence, row.Column(1).ValueStr(row.Index))
	// Output: present Ypres
}

// Follow hands out new rows as they become durable.
func ExampleReader_Follow() {
	ctx := context.Background()
	store := objstore.NewMemory()
	w, err := memwal.Open(ctx, store, shard, schema, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer w.Close(ctx)
	go func() {
		for _, city := range []string{"Ghent", "Ypres", "Bruges"} {
			rows := batch(schema, `[{"id": 1, "city": "`+city+`"}]`)
			if err := w.Put(ctx, rows); err != nil {
				log.Fatal(err)
			}
			rows.Release()
		}
	}()

	r, err := memwal.OpenReader(ctx, store, shard, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	next := uint64(0) // the first ordinal that was not seen; keep it to go on later
	for s, err := range r.Follow(ctx, next) {
		if err != nil {
			log.Fatal(err)
		}
		for rec, err := range s.All(ctx, memwal.ScanOptions{From: next, Columns: []string{"city"}}) {
			if err != nil {
				log.Fatal(err)
			}
			for i := range int(rec.NumRows()) {
				fmt.Println(rec.Column(0).ValueStr(i))
			}
		}
		if next = s.Bound(); next == 3 {
			break
		}
	}
	// Output:
	// Ghent
	// Ypres
	// Bruges
}
