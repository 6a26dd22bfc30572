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
	"github.com/memwal/memwal-go/internal/filter"
	"github.com/memwal/memwal-go/memtable"
)

// scoreColumn is the name of the column with the scores of a search.
const scoreColumn = "_score"

// SearchOptions say what a search returns.
type SearchOptions struct {
	// Columns to return, in this order. Nil: all. Empty: none but those that a search
	// adds. Hits does not look at it.
	Columns []string
	// Filter leaves out the rows that it is not true for, inside the search: there are
	// Limit hits if that many rows match both. It changes no score, since the statistics
	// stay those of all live rows. ExplainSearch says how it is served.
	Filter Filter
	// From leaves out the rows with a lower ordinal: those whose newest version was put
	// before a snapshot with that Bound. 0: none.
	From uint64
	// Limit is the number of rows at most. Default 10.
	Limit int
	// Offset leaves out that many of the best: for the next page of the same snapshot. A
	// search costs as if it returned them too.
	Offset int
}

// Hit is a row that a search found, and how well it matches. The row is Present.
type Hit struct {
	Row
	Score float64
	// Key is the primary key, a Go value for each of its columns: Snapshot.Lookup takes
	// it. Nil: the table has none, and Ordinal is the row's name.
	Key []any
}

// Search returns the live rows that match a query best in a full-text index
// (index.Text): by falling score (BM25), rows with equal scores in the order of their
// ordinals. There are Limit of them if that many match. Rows and scores are those that
// an index of just the live rows would give.
//
// The query is one of bleve's, github.com/blevesearch/bleve/v2/search/query: match (one
// or all words), match phrase, prefix, fuzzy, boolean, query string, and so on. Where a
// query names no field it asks the index's column, and it can ask no other. A query that
// the index cannot answer is an *index.QueryError and matches ErrInvalid; one without an
// index matches ErrNoIndex.
//
// The reader has the columns asked for, then _score, float64, and _row_ordinal,
// uint64. The caller releases it; until then it holds the snapshot's memory.
func (s *Snapshot) Search(ctx context.Context, name string, q query.Query, o SearchOptions) (array.RecordReader, error) {
	g, so, err := s.gatherer("search", ScanOptions{Columns: o.Columns, Ordinals: true})
	if err != nil {
		return nil, err
	}
	found, err := s.search(ctx, name, q, o)
	if err != nil {
		return nil, err
	}
	j := &joiner{ctx: ctx, op: "search", gather: g, size: so.BatchRows, left: so.Limit, join: true, done: s.view.release}
	for _, col := range g.columns {
		j.join = j.join && concatenates(s.r.table.Schema.Field(col).Type)
	}
	j.pull, j.stop = iter.Pull(found.rows())
	fields := g.schema.Fields()
	last := len(fields) - 1
	fields = append(fields[:last:last], arrow.Field{Name: scoreColumn, Type: arrow.PrimitiveTypes.Float64}, fields[last])
	meta := g.schema.Metadata()
	r := &ranked{joiner: j, hits: found.hits, schema: arrow.NewSchema(fields, &meta)}
	return newRecordReader(r.schema, r), nil
}

// Hits is Search, row by row. The rows are lent until the snapshot is closed.
func (s *Snapshot) Hits(ctx context.Context, name string, q query.Query, o SearchOptions) ([]Hit, error) {
	found, err := s.search(ctx, name, q, o)
	if err != nil {
		return nil, err
	}
	defer s.view.release()
	out := make([]Hit, len(found.hits))
	for i, h := range found.hits {
		row := rowOf(found.views[h.Part], h.Slot)
		out[i] = Hit{Row: row, Score: h.Score, Key: s.r.spec.KeyValues(row.Batch, row.Index)}
	}
	return out, nil
}

// found is what a search has found, in the views that it looked at.
type found struct {
	views []memtable.View
	hits  []index.TextHit
}

// search leaves the snapshot pinned, unless it fails.
func (s *Snapshot) search(ctx context.Context, name string, q query.Query, o SearchOptions) (found, error) {
	if o.Limit < 0 || o.Offset < 0 {
		return found{}, invalid("search", fmt.Errorf("Limit is %d and Offset %d, must not be negative", o.Limit, o.Offset))
	}
	def(&o.Limit, 10)
	prog, err := s.r.bindFilter("search", o.Filter)
	if err != nil {
		return found{}, err
	}
	if err := s.acquire(ctx, "search"); err != nil {
		return found{}, err
	}
	views := s.views()
	want := index.TextSearch{Query: q, Limit: o.Limit, Offset: o.Offset, From: o.From}
	if prog != nil {
		want.Nothing = prog.Never()
		want.Accept = accepting(prog, views)
		want.Candidates = func(hits uint64) ([]uint64, bool) {
			_, ordinals, few := s.candidates(ctx, hits, o.From, prog, views)
			return ordinals, few
		}
	}
	err = s.keyFailed(views)
	var hits []index.TextHit
	if err == nil {
		hits, err = s.r.spec.SearchText(ctx, name, want, memtable.Parts(views)...)
	}
	if err != nil {
		s.view.release()
		return found{}, searchError("search", err)
	}
	return found{views, hits}, nil
}

func searchError(op string, err error) error {
	if errors.Is(err, index.ErrInvalid) {
		return invalid(op, err)
	}
	return fmt.Errorf("%s: %w", op, err)
}

// accepting tests rows by a filter, for one goroutine.
func accepting(prog *filter.Program, views []memtable.View) func(part int, slot uint32) bool {
	e := prog.NewEvaluator()
	return func(part int, slot uint32) bool { return e.Matches(views[part].Locate(slot)) }
}

// rows yields them in the order of rank.
func (f found) rows() iter.Seq[run] {
	return func(yield func(run) bool) {
		for _, h := range f.hits {
			v := f.views[h.Part]
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
