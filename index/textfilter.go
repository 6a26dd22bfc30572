package index

import (
	"math"
	"slices"

	"github.com/blevesearch/bleve/v2/search"
	blevindex "github.com/blevesearch/bleve_index_api"
)

// textFilter shows the hits of a searcher that may be found, inside the search: what
// it leaves out takes no place among the best. Scores are those of the searcher.
type textFilter struct {
	search.Searcher
	r       *textReader
	from    uint64
	accept  func(part int, slot uint32) bool
	leap    bool     // only candidates count
	left    []uint64 // of them
	started bool
	looked  int
	id      blevindex.IndexInternalID
}

// Next implements search.Searcher.
func (f *textFilter) Next(sc *search.SearchContext) (*search.DocumentMatch, error) {
	for {
		if f.looked++; f.looked%256 == 0 {
			if err := f.r.ended(); err != nil {
				return nil, err
			}
		}
		m, err := f.step(sc)
		if m == nil || err != nil {
			return nil, err
		}
		if f.takes(m) {
			// Where all boosts are 0, bleve divides by 0.
			if math.IsNaN(m.Score) {
				m.Score = 0
			}
			return m, nil
		}
		sc.DocumentMatchPool.Put(m)
	}
}

// step goes to the next hit from where on there may be one that is taken.
func (f *textFilter) step(sc *search.SearchContext) (*search.DocumentMatch, error) {
	switch {
	case f.leap && len(f.left) == 0:
		return nil, nil
	case f.leap:
		return f.advance(sc, f.left[0])
	case !f.started && f.from > 0:
		f.started = true
		return f.advance(sc, f.from)
	}
	f.started = true
	return f.Searcher.Next(sc)
}

func (f *textFilter) advance(sc *search.SearchContext, to uint64) (*search.DocumentMatch, error) {
	f.id = blevindex.NewIndexInternalID(f.id, to)
	return f.Searcher.Advance(sc, f.id)
}

func (f *textFilter) takes(m *search.DocumentMatch) bool {
	ordinal := m.IndexInternalID.Value()
	if f.leap {
		i, found := slices.BinarySearch(f.left, ordinal)
		if f.left = f.left[i:]; !found {
			return false
		}
		f.left = f.left[1:]
	}
	if f.accept == nil {
		return true
	}
	h := f.r.hit(ordinal, 0)
	return f.accept(h.Part, h.Slot)
}

// Advance implements search.Searcher.
func (f *textFilter) Advance(sc *search.SearchContext, id blevindex.IndexInternalID) (*search.DocumentMatch, error) {
	f.from, f.started = max(f.from, id.Value()), false
	i, _ := slices.BinarySearch(f.left, f.from)
	f.left = f.left[i:]
	return f.Next(sc)
}
