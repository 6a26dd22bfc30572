package index

import (
	"context"
	"errors"
	"fmt"

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

// SearchText returns the best hits of a query in a text index over several memtables,
// oldest first, whose Sets are of this Spec: by falling score (BM25), rows with equal
// scores by ordinal. There are as many as limit, if that many live rows match.
//
// The query is one of bleve's (search/query). The index's column is the field that it
// asks where it names none; it can ask no other. Statistics are those of the live
// rows below the bounds: hits and scores are what an index of just these would give.
func (s *Spec) SearchText(ctx context.Context, name string, q query.Query, limit int, parts ...Part) ([]TextHit, error) {
	i, ok := s.byName[name]
	if !ok {
		return nil, &NoIndexError{Index: name, Kind: KindText}
	}
	spec, ok := s.kinds[i].(*textSpec)
	if !ok {
		return nil, &NoIndexError{Index: name, Kind: KindText}
	}
	if err := checkQuery(spec, q, limit); err != nil {
		return nil, err
	}
	searched := make([]textPart, 0, len(parts))
	for i, p := range parts {
		t, err := p.Set.text(name)
		if err != nil {
			return nil, err
		}
		searched = append(searched, textPart{Part: p, hidden: p.Set.Shadow(parts[i+1:]...), text: t, source: t})
	}
	return newTextReader(ctx, spec, searched).search(ctx, q, limit)
}

func checkQuery(spec *textSpec, q query.Query, limit int) error {
	bad := func(err error) error { return &QueryError{Index: spec.cfg.Name, Err: err} }
	if q == nil {
		return bad(errors.New("it is nil"))
	}
	if limit < 1 {
		return bad(fmt.Errorf("its limit is %d, expected at least 1", limit))
	}
	if v, ok := q.(query.ValidatableQuery); ok {
		if err := v.Validate(); err != nil {
			return bad(err)
		}
	}
	return nil
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

func (r *textReader) search(ctx context.Context, q query.Query, limit int) ([]TextHit, error) {
	ctx = context.WithValue(ctx, search.GetScoringModelCallbackKey,
		search.GetScoringModelCallbackFn(func() string { return blevindex.BM25Scoring }))
	searcher, err := q.Searcher(ctx, r, r.spec.mapping, search.SearcherOptions{})
	if err != nil {
		return nil, r.failure(ctx, err)
	}
	defer searcher.Close()
	// No more can be found than there are, and room is made for all that are asked for.
	limit = int(min(uint64(limit), max(r.rows, 1)))
	best := collector.NewTopNCollector(limit, 0, search.SortOrder{&search.SortScore{Desc: true}})
	if err := best.Collect(ctx, searcher, r); err != nil {
		return nil, r.failure(ctx, err)
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

// failure is an error of bleve's: what it says of a query is wrong with the query.
func (r *textReader) failure(ctx context.Context, err error) error {
	switch {
	case r.err != nil:
		return r.err
	case ctx.Err() != nil || errors.Is(err, ErrInvalid):
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
