package index

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/blevesearch/bleve/v2/search"
	"github.com/blevesearch/bleve/v2/search/collector"
	"github.com/blevesearch/bleve/v2/search/query"
	blevindex "github.com/blevesearch/bleve_index_api"
)

// TextHit is a row that a search found.
type TextHit struct {
	Part  int // its number among the parts
	Slot  uint32
	Score float64
}

// QueryError reports a query that a text index cannot answer. It matches ErrInvalid.
type QueryError struct {
	Index string
	Err   error
}

func (e *QueryError) Error() string {
	return place(e.Index, "") + ": the query cannot be answered: " + e.Err.Error()
}

func (e *QueryError) Is(target error) bool { return target == ErrInvalid }
func (e *QueryError) Unwrap() error        { return e.Err }

// TextSearch is what a search asks for.
type TextSearch struct {
	// Query is one of bleve's (search/query). Where it names no field it asks the index's
	// column; it can ask no other.
	Query query.Query
	// Limit is how many hits are wanted, at least 1; Offset how many better ones are left
	// out.
	Limit, Offset int
	// From leaves out the rows with a lower ordinal.
	From uint64
	// Accept tells which live rows may be found; nil: all. It is called by the goroutine of
	// the search, in the order of ordinals.
	Accept func(part int, slot uint32) bool
	// Candidates, where it is not nil, is told how many rows match the query at most, and
	// may answer with the ordinals, ascending, of all rows that can be accepted: the search
	// then leaps from one to the next. It should do so if they are few beside the hits.
	Candidates func(hits uint64) (ordinals []uint64, few bool)
	// Nothing tells that no row can be accepted: the query is checked and finds nothing, and
	// no part is looked at.
	Nothing bool
}

// SearchText returns the best hits in a text index over several memtables, oldest
// first, whose Sets are of this Spec: by falling score (BM25), rows with equal scores by
// ordinal. There are as many as Limit, if that many live rows match and are accepted.
//
// Statistics are those of the live rows below the bounds, accepted or not: hits and
// scores are what an index of just these would give.
//
// A panic, be it bleve's or that of a callback, is returned as a *PanicError.
func (s *Spec) SearchText(ctx context.Context, name string, want TextSearch, parts ...Part) (hits []TextHit, err error) {
	defer contain(name, &err)
	if want.Nothing {
		parts = nil
	}
	spec, q, searched, err := s.prepare(ctx, name, want.Query, parts)
	if err != nil {
		return nil, err
	}
	if want.Limit < 1 || want.Offset < 0 {
		return nil, &optionError{fmt.Sprintf("TextSearch.Limit is %d and TextSearch.Offset %d, expected at least 1 and 0", want.Limit, want.Offset)}
	}
	r, err := newTextReader(ctx, spec, searched)
	if err != nil {
		return nil, err
	}
	return r.search(q, want)
}

// TextHits is how many rows, live in parts, match a query at most. It is what
// TextSearch.Candidates is told.
func (s *Spec) TextHits(ctx context.Context, name string, q query.Query, parts ...Part) (hits uint64, err error) {
	defer contain(name, &err)
	spec, q, searched, err := s.prepare(ctx, name, q, parts)
	if err != nil {
		return 0, err
	}
	r, err := newTextReader(ctx, spec, searched)
	if err != nil {
		return 0, err
	}
	searcher, err := r.searcher(q)
	if err != nil {
		return 0, err
	}
	defer searcher.Close()
	return r.atMost(searcher), r.err
}

// contain makes a panic the error of a search: bleve runs over queries that anybody may
// have written, and one that trips it must not end the process.
func contain(name string, err *error) {
	if v := recover(); v != nil {
		*err = fmt.Errorf("%s: %w", place(name, ""), &PanicError{Value: v, Stack: debug.Stack()})
	}
}

// prepare checks what a search was given.
func (s *Spec) prepare(ctx context.Context, name string, q query.Query, parts []Part) (*textSpec, query.Query, []textPart, error) {
	spec, err := s.text(name)
	if err != nil {
		return nil, nil, nil, err
	}
	if q, err = checkQuery(spec, q, withCallbacks); err != nil {
		return nil, nil, nil, err
	}
	searched, err := s.textParts(ctx, spec, parts)
	if err != nil {
		return nil, nil, nil, err
	}
	return spec, q, searched, ctx.Err()
}

func (s *Spec) text(name string) (*textSpec, error) {
	if i, ok := s.byName[name]; ok {
		if spec, ok := s.kinds[i].(*textSpec); ok {
			return spec, nil
		}
	}
	return nil, &NoIndexError{Index: name, Kind: KindText}
}

// text is the index with a name.
func (s *Set) text(name string) (*text, error) {
	m := s.byName[name]
	if m == nil {
		return nil, &NoIndexError{Index: name, Kind: KindText}
	}
	if f := m.failed.Load(); f != nil {
		return nil, f
	}
	t, ok := m.impl.(*text)
	if !ok {
		return nil, &NoIndexError{Index: name, Kind: KindText}
	}
	return t, nil
}

func (r *textReader) search(q query.Query, want TextSearch) ([]TextHit, error) {
	searcher, err := r.searcher(q)
	if err != nil {
		return nil, err
	}
	defer searcher.Close()
	f := &textFilter{Searcher: searcher, r: r, from: want.From, accept: want.Accept}
	if want.Candidates != nil {
		f.left, f.leap = want.Candidates(r.atMost(searcher))
	}
	// No more can be found than there are, and room is made for all that are asked for.
	most := max(r.rows, 1)
	limit, offset := min(uint64(want.Limit), most), min(uint64(want.Offset), most)
	best := collector.NewTopNCollector(int(limit), int(offset), search.SortOrder{&search.SortScore{Desc: true}})
	if err := best.Collect(r.ctx, f, r); err != nil {
		return nil, r.failure(err)
	}
	if r.err != nil {
		return nil, r.err
	}
	found := best.Results()
	hits := make([]TextHit, len(found))
	for i, m := range found {
		hits[i] = r.hit(m.IndexInternalID.Value(), m.Score)
	}
	return hits, nil
}

// searcher is bleve's for a query that was checked.
func (r *textReader) searcher(q query.Query) (search.Searcher, error) {
	ctx := context.WithValue(r.ctx, search.GetScoringModelCallbackKey,
		search.GetScoringModelCallbackFn(func() string { return blevindex.BM25Scoring }))
	s, err := q.Searcher(ctx, &guardedReader{textReader: r}, r.spec.mapping, search.SearcherOptions{})
	if err != nil {
		return nil, r.failure(err)
	}
	return s, nil
}

// atMost bounds the number of hits. bleve's own count may be more than there are rows.
func (r *textReader) atMost(s search.Searcher) uint64 { return min(s.Count(), r.rows) }

// failure is an error of bleve's: what it says of a query is wrong with the query.
func (r *textReader) failure(err error) error {
	switch {
	case r.err != nil:
		return r.err
	case r.ctx.Err() != nil:
		return r.ctx.Err()
	case errors.Is(err, ErrInvalid):
		return err
	}
	return &QueryError{Index: r.spec.cfg.Name, Err: err}
}

func (r *textReader) hit(ordinal uint64, score float64) TextHit {
	i := len(r.parts) - 1
	for r.parts[i].First > ordinal {
		i--
	}
	return TextHit{Part: i, Slot: uint32(ordinal - r.parts[i].First), Score: score}
}
