package memwal

import (
	"context"
	"fmt"

	"github.com/blevesearch/bleve/v2/search/query"

	"github.com/memwal/memwal-go/internal/filter"
	"github.com/memwal/memwal-go/memtable"
)

// SearchPlan says how a search is served. It is what ExplainSearch returns; no result
// depends on it but the time that it takes.
type SearchPlan struct {
	Index string // the full-text index
	// Access is AccessHits; AccessNothing; or AccessKeys or AccessIndex, where few rows
	// can pass the filter: then only these are asked for in the text index.
	Access Access
	// Hits is how many rows match the query at most, whatever the filter says of them.
	Hits       uint64
	Ordered    string // the ordered index of AccessIndex
	Keys       int    // looked up, of AccessKeys
	Candidates int    // live rows found, of AccessKeys and AccessIndex
	Filter     Filter

	filtered bool // the filter leaves something out
}

// String says it in words.
func (p SearchPlan) String() string {
	with := fmt.Sprintf("rank those of %d rows", p.Candidates)
	switch p.Access {
	case AccessNothing:
		return fmt.Sprintf("find nothing: no row can match %v", p.Filter)
	case AccessKeys:
		with += fmt.Sprintf(" under %d primary keys", p.Keys)
	case AccessIndex:
		with += fmt.Sprintf(" of the ordered index %q", p.Ordered)
	default:
		s := fmt.Sprintf("rank the at most %d rows that match in the text index %q", p.Hits, p.Index)
		if p.filtered {
			s += " and pass " + p.Filter.String()
		}
		return s
	}
	return fmt.Sprintf("%s that match in the text index %q and pass %v", with, p.Index, p.Filter)
}

// ExplainSearch says how Search and Hits with these arguments are served. It does the
// part of the work that decides it: what there is of the query's terms is counted.
func (s *Snapshot) ExplainSearch(ctx context.Context, name string, q query.Query, o SearchOptions) (SearchPlan, error) {
	prog, _, err := s.bindSearch("explain", name, q, &o)
	if err != nil {
		return SearchPlan{}, err
	}
	if err := s.acquire(ctx, "explain"); err != nil {
		return SearchPlan{}, err
	}
	defer s.view.release()
	views := s.views()
	var hits uint64
	if err = s.keyFailed(views); err == nil {
		hits, err = s.r.spec.TextHits(ctx, name, q, memtable.Parts(views)...)
	}
	if err != nil {
		return SearchPlan{}, searchError("explain", err)
	}
	p := SearchPlan{Access: AccessHits}
	if prog != nil {
		p, _, _ = s.candidates(ctx, hits, o.From, prog, views)
	}
	p.Index, p.Hits, p.Filter, p.filtered = name, hits, o.Filter, prog != nil
	if err := ctx.Err(); err != nil {
		return SearchPlan{}, fmt.Errorf("explain: %w", err)
	}
	return p, nil
}

// hitsShare is how many hits of a query cost as much to test as one row that an index
// finds, and that the text index is then asked for.
const hitsShare = 64

// candidates finds the rows that can pass a filter, if they are few beside the hits of
// a query.
func (s *Snapshot) candidates(ctx context.Context, hits, from uint64, prog *filter.Program, views []memtable.View) (p SearchPlan, ordinals []uint64, few bool) {
	p.Access = AccessHits
	if prog.Never() {
		p.Access = AccessNothing
		return p, nil, true
	}
	c, few := s.find(ctx, int(min(hits/hitsShare, mostFound)), from, prog, views)
	if !few {
		return p, nil, false
	}
	p.Access, p.Keys, p.Ordered, p.Candidates = c.access, c.keys, c.index, len(c.runs)
	ordinals = make([]uint64, len(c.runs))
	for i, r := range c.runs {
		ordinals[i] = r.ordinal
	}
	return p, ordinals, true
}
