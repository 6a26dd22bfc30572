package index

import (
	"errors"
	"slices"
	"testing"

	"github.com/blevesearch/bleve/v2/search/query"
)

// TestBooleanSearchLeapsToCandidates: a search that leaps from one candidate to the next
// finds what one finds that goes through all matches, with the same scores, also where a
// clause of a boolean query is at the next candidate already.
func TestBooleanSearchLeapsToCandidates(t *testing.T) {
	x := newTextTable(t, false, false, Text{})
	for i := range 100 {
		switch i {
		case 50, 90:
			x.put(textDoc(int64(i), "must first"))
		case 60:
			x.put(textDoc(int64(i), "must second"))
		default:
			x.put(textDoc(int64(i), "must"))
		}
	}
	parts := x.parts(100)
	must := []query.Query{query.NewMatchQuery("must")}
	either := []query.Query{query.NewMatchQuery("first"), query.NewMatchQuery("second")}
	least := query.NewBooleanQuery(must, either, nil)
	least.SetMinShould(1)
	within := query.NewConjunctionQuery([]query.Query{query.NewBooleanQuery(must, either, nil), query.NewMatchQuery("must")})
	for _, q := range []query.Query{query.NewBooleanQuery(must, either, nil), least, query.NewBooleanQuery(must, nil, either), within} {
		candidates := []uint64{0, 50, 60, 90}
		want := x.filtered(q, 100, 0, func(o uint64) bool { return slices.Contains(candidates, o) }, 0, 100)
		hits, err := x.spec.SearchText(t.Context(), "body", TextSearch{
			Query: q, Limit: 100,
			Candidates: func(uint64) ([]uint64, bool) { return candidates, true },
		}, parts...)
		if err != nil {
			t.Fatal(err)
		}
		var got []found
		for _, h := range hits {
			got = append(got, found{uint64(h.Slot), h.Score})
		}
		if err := same(got, want, 1e-9); err != nil {
			t.Errorf("%s: %v", describe(q), err)
		}
	}
}

// TestNumbersBesideWords: an open range of numbers is refused also where it stands beside
// one word, which is what a query string makes of a number.
func TestNumbersBesideWords(t *testing.T) {
	x := newTextTable(t, false, false, Text{})
	x.put(textDoc(0, "lake 5"))
	five := 5.0
	for _, q := range []query.Query{
		query.NewQueryStringQuery("lake body:>5"),
		query.NewQueryStringQuery("lake body:<=5"),
		query.NewDisjunctionQuery([]query.Query{query.NewMatchQuery("lake"), query.NewNumericRangeQuery(&five, nil)}),
	} {
		var e *QueryError
		if _, err := x.spec.SearchText(t.Context(), "body", TextSearch{Query: q, Limit: 1}, x.parts(1)...); !errors.As(err, &e) {
			t.Errorf("%s: %v", describe(q), err)
		}
	}
}
