package index

import (
	"context"
	"slices"

	"github.com/blevesearch/bleve/v2/mapping"
	"github.com/blevesearch/bleve/v2/search"
	"github.com/blevesearch/bleve/v2/search/query"
	"github.com/blevesearch/bleve/v2/search/searcher"
	blevindex "github.com/blevesearch/bleve_index_api"
)

// clause is a part of a boolean query, whose searcher can be asked for the match that
// it is at again.
//
// bleve's boolean searcher, told to advance, advances its parts although they may be at
// or beyond the place already. Most searchers then go on to the match behind the one
// that they are at, which was not looked at yet: a row loses what a should clause adds to
// its score, or is not found at all.
type clause struct{ query.Query }

// Searcher implements query.Query.
func (c clause) Searcher(ctx context.Context, r blevindex.IndexReader, m mapping.IndexMapping, o search.SearcherOptions) (search.Searcher, error) {
	s, err := c.Query.Searcher(ctx, r, m, o)
	if err != nil {
		return nil, err
	}
	if _, none := s.(*searcher.MatchNoneSearcher); none {
		return s, nil // bleve looks for it
	}
	return &steadySearcher{Searcher: s}, nil
}

// Validate implements query.ValidatableQuery.
func (c clause) Validate() error {
	if v, ok := c.Query.(query.ValidatableQuery); ok {
		return v.Validate()
	}
	return nil
}

// steadySearcher does not pass the match that it is at when it is told to advance to it,
// or to a place before it.
type steadySearcher struct {
	search.Searcher
	id        blevindex.IndexInternalID // of the match that it is at; empty: it is before the first
	score     float64
	locations []search.FieldTermLocation
	done      bool
}

// Next implements search.Searcher.
func (s *steadySearcher) Next(sc *search.SearchContext) (*search.DocumentMatch, error) {
	if s.done {
		return nil, nil
	}
	m, err := s.Searcher.Next(sc)
	return s.note(m), err
}

// Advance implements search.Searcher.
func (s *steadySearcher) Advance(sc *search.SearchContext, id blevindex.IndexInternalID) (*search.DocumentMatch, error) {
	if s.done {
		return nil, nil
	}
	if len(s.id) > 0 && s.id.Compare(id) >= 0 {
		m := sc.DocumentMatchPool.Get()
		m.IndexInternalID = append(m.IndexInternalID[:0], s.id...)
		m.Score = s.score
		m.FieldTermLocations = append(m.FieldTermLocations[:0], s.locations...)
		return m, nil
	}
	m, err := s.Searcher.Advance(sc, id)
	return s.note(m), err
}

// note keeps what a match is made of: who gets it changes it, and gives it back.
func (s *steadySearcher) note(m *search.DocumentMatch) *search.DocumentMatch {
	if m == nil {
		s.done = true
		return nil
	}
	s.id = append(s.id[:0], m.IndexInternalID...)
	s.score = m.Score
	s.locations = append(slices.Delete(s.locations, 0, len(s.locations)), m.FieldTermLocations...)
	return m
}
