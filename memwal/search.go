package memwal

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/blevesearch/bleve/v2/search/query"

	"github.com/memwal/memwal-go/index"
	"github.com/memwal/memwal-go/memtable"
)

// scoreColumn is the name of the column with the scores of a search.
const scoreColumn = "_score"

// SearchOptions say what a search returns.
type SearchOptions struct {
	// Columns to return, in this order. Nil: all. Empty: none but those that a search
	// adds. Hits does not look at it.
	Columns []string
	// Limit is the number of rows at most. Default 10.
	Limit int
}

// Hit is a row that a search found, and how well it matches. The row is Present.
type Hit struct {
	Row
	Score float64
}

// Search returns the live rows that match a query best in a full-text index
// (index.Text): by falling score (BM25), rows with equal scores in the order of their
// ordinals. There are Limit of them if that many match. Rows and scores are those that
// an index of just the live rows would give.
//
// The query is one of bleve's, github.com/blevesearch/bleve/v2/search/query: match (one
// or all words), match phrase, prefix, fuzzy, boolean, query string, and so on. Where a
// query names no field it asks the index's column, and it can ask no other. A query that
// the index cannot answer matches ErrInvalid; one without an index, ErrNoIndex.
//
// The reader has the columns asked for, then _score, float64, and _row_ordinal,
// uint64. The caller releases it; until then it holds the snapshot's memory.
func (s *Snapshot) Search(ctx context.Context, name string, q query.Query, o SearchOptions) (array.RecordReader, error) {
	g, so, err := s.gatherer("search", ScanOptions{Columns: o.Columns, Ordinals: true})
	if err != nil {
		return nil, err
	}
	if err := s.acquire(ctx, "search"); err != nil {
		return nil, err
	}
	views, hits, err := s.search(ctx, name, q, o)
	if err != nil {
		s.view.release()
		return nil, err
	}
	j := &joiner{ctx: ctx, op: "search", gather: g, size: so.BatchRows, left: so.Limit, join: true, done: s.view.release}
	for _, col := range g.columns {
		j.join = j.join && concatenates(s.r.table.Schema.Field(col).Type)
	}
	j.pull, j.stop = iter.Pull(found(views, hits))
	fields := g.schema.Fields()
	last := len(fields) - 1
	fields = append(fields[:last:last], arrow.Field{Name: scoreColumn, Type: arrow.PrimitiveTypes.Float64}, fields[last])
	meta := g.schema.Metadata()
	r := &ranked{joiner: j, hits: hits, schema: arrow.NewSchema(fields, &meta)}
	return newRecordReader(r.schema, r), nil
}

// Hits is Search, row by row. The rows are lent until the snapshot is closed.
func (s *Snapshot) Hits(ctx context.Context, name string, q query.Query, o SearchOptions) ([]Hit, error) {
	if err := s.acquire(ctx, "search"); err != nil {
		return nil, err
	}
	defer s.view.release()
	views, hits, err := s.search(ctx, name, q, o)
	if err != nil {
		return nil, err
	}
	out := make([]Hit, len(hits))
	for i, h := range hits {
		out[i] = Hit{Row: rowOf(views[h.Part], h.Slot), Score: h.Score}
	}
	return out, nil
}

// search searches the views that it returns. The snapshot is pinned.
func (s *Snapshot) search(ctx context.Context, name string, q query.Query, o SearchOptions) ([]memtable.View, []index.TextHit, error) {
	if o.Limit < 0 {
		return nil, nil, invalid("search", fmt.Errorf("Limit is %d, must not be negative", o.Limit))
	}
	def(&o.Limit, 10)
	views := s.views()
	if err := s.keyFailed(views); err != nil {
		return nil, nil, fmt.Errorf("search: %w", err)
	}
	hits, err := s.r.spec.SearchText(ctx, name, q, o.Limit, memtable.Parts(views)...)
	switch {
	case errors.Is(err, index.ErrInvalid):
		return nil, nil, invalid("search", err)
	case err != nil:
		return nil, nil, fmt.Errorf("search: %w", err)
	}
	return views, hits, nil
}

// found yields the rows of hits.
func found(views []memtable.View, hits []index.TextHit) iter.Seq[run] {
	return func(yield func(run) bool) {
		for _, h := range hits {
			v := views[h.Part]
			rec, row := v.Locate(h.Slot)
			if !yield(run{rec: rec, row: int64(row), n: 1, ordinal: v.Memtable().FirstRow() + uint64(h.Slot)}) {
				return
			}
		}
	}
}

// ranked puts the scores into the batches of a joiner, before the last column.
type ranked struct {
	*joiner
	hits   []index.TextHit // left
	schema *arrow.Schema
}

// next implements source.
func (r *ranked) next() (arrow.RecordBatch, error) {
	rec, err := r.joiner.next()
	if rec == nil || err != nil {
		return nil, err
	}
	defer rec.Release()
	n := int(rec.NumRows())
	b := array.NewFloat64Builder(r.gather.mem)
	defer b.Release()
	b.Reserve(n)
	for _, h := range r.hits[:n] {
		b.UnsafeAppend(h.Score)
	}
	r.hits = r.hits[n:]
	scores := b.NewArray()
	defer scores.Release()
	cols := rec.Columns()
	last := len(cols) - 1
	return array.NewRecordBatch(r.schema, append(cols[:last:last], scores, cols[last]), rec.NumRows()), nil
}
