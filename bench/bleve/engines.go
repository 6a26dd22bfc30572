package main

import (
	"context"
	"fmt"
	"runtime"
	"sort"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/blevesearch/bleve/v2"
	"github.com/blevesearch/bleve/v2/analysis"
	"github.com/blevesearch/bleve/v2/document"
	"github.com/blevesearch/bleve/v2/index/scorch"
	"github.com/blevesearch/bleve/v2/mapping"
	"github.com/blevesearch/bleve/v2/search/query"
	blevindex "github.com/blevesearch/bleve_index_api"

	"github.com/memwal/memwal-go/index"
)

// hit is a row that a search found.
type hit struct {
	row   int
	score float64
}

// engine is a full-text index that takes batches of texts and searches all of them.
type engine interface {
	// add takes the next batch. The batch is lent.
	add(rec arrow.RecordBatch) error
	// search returns the best rows, at most limit.
	search(ctx context.Context, q query.Query, limit int) ([]hit, error)
	close() error
}

// memwalEngine is memwal's index of one memtable.
type memwalEngine struct {
	spec *index.Spec
	set  *index.Set
	rows *rows
	// bound is the number of rows that searches see, as a snapshot does; -1 is all.
	bound int
}

func newMemwal() (engine, error) {
	spec, err := index.Bind(schema, nil, []index.Config{index.Text{Name: column, Column: index.Column{Name: column}}})
	if err != nil {
		return nil, err
	}
	e := &memwalEngine{spec: spec, rows: &rows{}, bound: -1}
	e.set = spec.NewSet(e.rows)
	return e, nil
}

func (e *memwalEngine) add(rec arrow.RecordBatch) error {
	return e.set.Apply(rec, e.rows.add(rec))
}

func (e *memwalEngine) search(ctx context.Context, q query.Query, limit int) ([]hit, error) {
	part := index.Part{Set: e.set, Bound: e.set.Applied()}
	if e.bound >= 0 {
		part.Bound = min(uint32(e.bound), part.Bound) // the limit may have ended this index first
	}
	found, err := e.spec.SearchText(ctx, column, index.TextSearch{Query: q, Limit: limit}, part)
	if err != nil {
		return nil, err
	}
	hits := make([]hit, len(found))
	for i, h := range found {
		hits[i] = hit{int(h.Slot), h.Score}
	}
	return hits, nil
}

func (e *memwalEngine) close() error { return nil }

// rows are the rows of a memtable: index.Rows for one goroutine.
type rows struct {
	batches []arrow.RecordBatch
	firsts  []uint32
	end     uint32
}

func (r *rows) add(rec arrow.RecordBatch) (first uint32) {
	first = r.end
	r.batches, r.firsts = append(r.batches, rec), append(r.firsts, first)
	r.end += uint32(rec.NumRows())
	return first
}

// Locate implements index.Rows.
func (r *rows) Locate(slot uint32) (arrow.RecordBatch, int) {
	i := sort.Search(len(r.firsts), func(i int) bool { return r.firsts[i] > slot }) - 1
	return r.batches[i], int(slot - r.firsts[i])
}

// bleveEngine is one of bleve's indexes.
type bleveEngine struct {
	index    bleve.Index
	analyzer analysis.Analyzer
	size     int // rows of a batch; fewer wait in pending
	pending  *bleve.Batch
	rows     int
}

// newScorch returns bleve's default index, in memory, which takes batches of size.
func newScorch(size int) func() (engine, error) {
	return func() (engine, error) {
		m := textMapping()
		m.ScoringModel = blevindex.BM25Scoring
		ix, err := bleve.NewUsing("", m, scorch.Name, scorch.Name, nil)
		return newBleve(ix, m, size, err)
	}
}

// newMemOnly returns bleve's index of that name, upsidedown over gtreap, which scores by
// TF-IDF.
func newMemOnly(size int) func() (engine, error) {
	return func() (engine, error) {
		m := textMapping()
		ix, err := bleve.NewMemOnly(m)
		return newBleve(ix, m, size, err)
	}
}

func textMapping() *mapping.IndexMappingImpl {
	m := bleve.NewIndexMapping()
	m.DefaultAnalyzer, m.DefaultField = index.DefaultAnalyzer, column
	return m
}

func newBleve(ix bleve.Index, m mapping.IndexMapping, size int, err error) (engine, error) {
	if err != nil {
		return nil, fmt.Errorf("make a bleve index: %w", err)
	}
	return &bleveEngine{index: ix, analyzer: m.AnalyzerNamed(index.DefaultAnalyzer), size: size, pending: ix.NewBatch()}, nil
}

func (e *bleveEngine) add(rec arrow.RecordBatch) error {
	col := rec.Column(0).(*array.String)
	for i := range col.Len() {
		doc := document.NewDocument(strconv.Itoa(e.rows))
		e.rows++
		doc.AddField(document.NewTextFieldCustom(column, nil, []byte(col.Value(i)), blevindex.IndexField|blevindex.IncludeTermVectors, e.analyzer))
		if err := e.pending.IndexAdvanced(doc); err != nil {
			return err
		}
		if e.pending.Size() == e.size {
			if err := e.index.Batch(e.pending); err != nil {
				return err
			}
			e.pending = e.index.NewBatch()
		}
	}
	return nil
}

func (e *bleveEngine) search(ctx context.Context, q query.Query, limit int) ([]hit, error) {
	res, err := e.index.SearchInContext(ctx, bleve.NewSearchRequestOptions(q, limit, 0, false))
	if err != nil {
		return nil, err
	}
	hits := make([]hit, len(res.Hits))
	for i, h := range res.Hits {
		row, err := strconv.Atoi(h.ID)
		if err != nil {
			return nil, err
		}
		hits[i] = hit{row, h.Score}
	}
	return hits, nil
}

func (e *bleveEngine) close() error { return e.index.Close() }

// heapBytes is what is alive on the heap.
func heapBytes() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
