package memwal

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/blevesearch/bleve/v2/search/query"

	"github.com/memwal/memwal-go/index"
	"github.com/memwal/memwal-go/internal/filter"
	"github.com/memwal/memwal-go/memtable"
)

// Names of the columns that a search adds.
const (
	scoreColumn     = "_score"
	highlightColumn = "_highlights"
)

// Highlights of hits.
type (
	// Highlight says how to show where a query matches.
	Highlight = index.Highlight
	// Fragment is a piece of a text with what matched in it.
	Fragment = index.Fragment
	// Span is a part of a text, in bytes from its beginning.
	Span = index.Span
)

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
	// Highlight asks for the pieces of each row's text in which the query matches. The text
	// of the rows that are returned is analysed again for it, and of no others. Nil: none.
	Highlight *Highlight
}

// Hit is a row that a search found, and how well it matches. The row is Present.
type Hit struct {
	Row
	Score float64
	// Key is the primary key, a Go value for each of its columns: Snapshot.Lookup takes
	// it. Nil: the table has none, and Ordinal is the row's name.
	Key []any
	// Fragments are what SearchOptions.Highlight asks for, in the order of the text.
	Fragments []Fragment
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
// The reader has the columns asked for, then _score, float64, with SearchOptions.Highlight
// _highlights, a list of the texts of fragments, and _row_ordinal, uint64. The caller
// releases it; until then it holds the snapshot's memory.
func (s *Snapshot) Search(ctx context.Context, name string, q query.Query, o SearchOptions) (array.RecordReader, error) {
	g, so, err := s.gatherer("search", ScanOptions{Columns: o.Columns, Ordinals: true})
	if err != nil {
		return nil, err
	}
	found, err := s.search(ctx, name, q, o)
	if err != nil {
		return nil, err
	}
	j := s.joiner(ctx, "search", g, so)
	j.pull, j.stop = iter.Pull(found.rows())
	fields := g.schema.Fields()
	last := len(fields) - 1
	added := []arrow.Field{{Name: scoreColumn, Type: arrow.PrimitiveTypes.Float64}}
	if found.marks != nil {
		added = append(added, arrow.Field{Name: highlightColumn, Type: arrow.ListOfNonNullable(arrow.BinaryTypes.String)})
	}
	meta := g.schema.Metadata()
	r := &ranked{joiner: j, found: found, schema: arrow.NewSchema(slices.Concat(fields[:last], added, fields[last:]), &meta)}
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
		if out[i].Fragments, err = found.fragments(ctx, h); err != nil {
			return nil, searchError("search", err)
		}
	}
	return out, nil
}

// found is what a search has found, in the views that it looked at.
type found struct {
	views []memtable.View
	hits  []index.TextHit
	marks *index.Highlighter // nil: none are wanted
}

// fragments are those of a hit, if they are wanted.
func (f *found) fragments(ctx context.Context, h index.TextHit) ([]Fragment, error) {
	if f.marks == nil {
		return nil, nil
	}
	rec, row := f.views[h.Part].Locate(h.Slot)
	return f.marks.Row(ctx, rec, row)
}

// search leaves the snapshot pinned, unless it fails.
func (s *Snapshot) search(ctx context.Context, name string, q query.Query, o SearchOptions) (f found, err error) {
	prog, marks, err := s.bindSearch("search", name, q, &o)
	if err != nil {
		return found{}, err
	}
	if err := s.acquire(ctx, "search"); err != nil {
		return found{}, err
	}
	pinned := false
	defer func() {
		if !pinned {
			s.view.release()
		}
	}()
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
	var hits []index.TextHit
	if err = s.keyFailed(views); err == nil {
		hits, err = s.r.spec.SearchText(ctx, name, want, memtable.Parts(views)...)
	}
	if err != nil {
		return found{}, searchError("search", err)
	}
	pinned = true
	return found{views, hits, marks}, nil
}

// bindSearch checks what a search was given, and sets what was left out.
func (s *Snapshot) bindSearch(op, name string, q query.Query, o *SearchOptions) (prog *filter.Program, marks *index.Highlighter, err error) {
	if o.Limit < 0 || o.Offset < 0 {
		return nil, nil, invalid(op, fmt.Errorf("Limit is %d and Offset %d, must not be negative", o.Limit, o.Offset))
	}
	def(&o.Limit, 10)
	if prog, err = s.r.bindFilter(op, o.Filter); err != nil {
		return nil, nil, err
	}
	if o.Highlight != nil {
		if marks, err = s.r.spec.NewHighlighter(name, q, *o.Highlight); err != nil {
			return nil, nil, searchError(op, err)
		}
	}
	return prog, marks, nil
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
func (f *found) rows() iter.Seq[run] {
	return func(yield func(run) bool) {
		for _, h := range f.hits {
			if !yield(runAt(f.views[h.Part], h.Slot)) {
				return
			}
		}
	}
}

// ranked puts the scores and highlights into the batches of a joiner, before the last
// column.
type ranked struct {
	*joiner
	found  found // hits: those that are left
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
	hits := r.found.hits[:n]
	r.found.hits = r.found.hits[n:]
	added := []arrow.Array{r.scores(hits)}
	defer func() {
		for _, a := range added {
			a.Release()
		}
	}()
	if r.found.marks != nil {
		a, err := r.highlights(hits)
		if err != nil {
			return nil, searchError("search", err)
		}
		added = append(added, a)
	}
	cols := rec.Columns()
	last := len(cols) - 1
	return array.NewRecordBatch(r.schema, slices.Concat(cols[:last], added, cols[last:]), rec.NumRows()), nil
}

func (r *ranked) scores(hits []index.TextHit) arrow.Array {
	b := array.NewFloat64Builder(r.gather.mem)
	defer b.Release()
	b.Reserve(len(hits))
	for _, h := range hits {
		b.UnsafeAppend(h.Score)
	}
	return b.NewArray()
}

func (r *ranked) highlights(hits []index.TextHit) (arrow.Array, error) {
	b := array.NewListBuilderWithField(r.gather.mem, arrow.Field{Name: "item", Type: arrow.BinaryTypes.String})
	defer b.Release()
	texts := b.ValueBuilder().(*array.StringBuilder)
	for _, h := range hits {
		fragments, err := r.found.fragments(r.ctx, h)
		if err != nil {
			return nil, err
		}
		b.Append(true)
		for _, f := range fragments {
			texts.Append(f.Text)
		}
	}
	return b.NewArray(), nil
}
