package index

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/blevesearch/bleve/v2/search/query"
)

// filtered is what a search must find that leaves out rows: all hits of the same
// search over a fresh index, less what is not wanted, then cut.
func (x *textTable) filtered(q query.Query, bound, from uint64, accept func(ordinal uint64) bool, offset, limit int) []found {
	f, live := x.fresh(bound)
	var want []found
	for _, h := range f.search(q, math.MaxInt, uint64(len(live))) {
		if h.ordinal = live[h.ordinal]; h.ordinal >= from && accept(h.ordinal) {
			want = append(want, h)
		}
	}
	want = want[min(offset, len(want)):]
	return want[:min(limit, len(want))]
}

// TestQ04_FilteredTextModel: rows that are left out take no place among the best, and
// the others have the scores and the order that they have without a filter, however
// the search goes about it.
func TestQ04_FilteredTextModel(t *testing.T) {
	for _, keyed := range []bool{false, true} {
		t.Run(fmt.Sprintf("keyed=%t", keyed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(61, 62))
			x := newTextTable(t, keyed, false, Text{})
			leaps, short := 0, 0
			for step := range 9 {
				var docs []doc
				for range pick(r, 1, 5, 30) {
					docs = append(docs, randomDoc(r, keyed, false))
				}
				x.put(docs...)
				for range 8 {
					q, bound := randomQuery(r, 0, true), uint64(len(x.docs))
					if r.IntN(2) == 0 {
						bound = r.Uint64N(bound + 1)
					}
					parts := x.parts(bound)
					share := pick(r, 1, 2, 5, 50)
					salt := r.Uint64()
					accept := func(o uint64) bool { return (o*2654435761+salt)>>7%uint64(share) == 0 }
					want := TextSearch{Query: q, Limit: pick(r, 1, 3, 10, 1000), Offset: pick(r, 0, 0, 1, 7), From: pick(r, 0, 0, r.Uint64N(bound+1))}
					want.Accept = func(part int, slot uint32) bool { return accept(parts[part].First + uint64(slot)) }
					exp := x.filtered(q, bound, want.From, accept, want.Offset, want.Limit)
					if n := r.IntN(3); n > 0 {
						want.Candidates = func(hits uint64) ([]uint64, bool) {
							if hits < uint64(len(exp)) {
								t.Errorf("at most %d hits, and there are %d", hits, len(exp))
							}
							var of []uint64
							for o := want.From; o < bound; o++ {
								// What is not live, or not accepted in the end, does no harm.
								if accept(o) || r.IntN(4) == 0 {
									of = append(of, o)
								}
							}
							leaps++
							return of, n == 1
						}
					}
					hits, err := x.spec.SearchText(t.Context(), "body", want, parts...)
					if err != nil {
						t.Fatal(err)
					}
					var got []found
					for _, h := range hits {
						got = append(got, found{parts[h.Part].First + uint64(h.Slot), h.Score})
					}
					if err := same(got, exp, 1e-9); err != nil {
						t.Fatalf("step %d: %s at %d, %+v: %v", step, describe(q), bound, want, err)
					}
					if len(exp) < want.Limit {
						short++
					}
				}
				if r.IntN(3) == 0 {
					x.rotate()
				}
			}
			if leaps < 10 || short < 10 {
				t.Errorf("only %d searches with candidates and %d with all matches: a poor test", leaps, short)
			}
		})
	}
}

// TestQ04_TopKIsNeverShort: the best hits are all left out, and the worst still come.
func TestQ04_TopKIsNeverShort(t *testing.T) {
	x := newTextTable(t, false, false, Text{})
	for i := range 300 {
		x.put(textDoc(int64(i), pick(rand.New(rand.NewPCG(1, uint64(i))), "word word", "word", "word and others")))
		if i%100 == 50 {
			x.rotate()
		}
	}
	parts := x.parts(300)
	for _, few := range []bool{false, true} {
		hits, err := x.spec.SearchText(t.Context(), "body", TextSearch{
			Query: query.NewMatchQuery("word"), Limit: 10,
			Accept:     func(part int, slot uint32) bool { return (parts[part].First+uint64(slot))%29 == 3 },
			Candidates: func(uint64) ([]uint64, bool) { return []uint64{3, 32, 61, 90, 119, 148, 177, 206, 235, 264, 293}, few },
		}, parts...)
		if err != nil || len(hits) != 10 {
			t.Errorf("%d hits: %v", len(hits), err)
		}
	}
}

// TestQ04_NothingToFind: a filter that no row passes asks for nothing, but a query that
// is wrong stays wrong, and an index that has failed failed.
func TestQ04_NothingToFind(t *testing.T) {
	x := newTextTable(t, false, false, Text{})
	x.put(textDoc(1, "word"))
	want := TextSearch{Query: query.NewMatchQuery("word"), Limit: 1, Nothing: true,
		Accept: func(int, uint32) bool { t.Error("asked"); return true }}
	if hits, err := x.spec.SearchText(t.Context(), "body", want, x.parts(1)...); err != nil || len(hits) != 0 {
		t.Errorf("%v %v", hits, err)
	}
	want.Query = query.NewRegexpQuery("(")
	if _, err := x.spec.SearchText(t.Context(), "body", want, x.parts(1)...); !errors.Is(err, ErrInvalid) {
		t.Errorf("wrong query: %v", err)
	}
	want.Query, want.Offset = query.NewMatchQuery("word"), -1
	if _, err := x.spec.SearchText(t.Context(), "body", want, x.parts(1)...); !errors.Is(err, ErrInvalid) {
		t.Errorf("wrong offset: %v", err)
	}
}

// TestQ05_FilterInVainEndsWithItsContext: a filter that rejects every hit, and a
// dictionary that is gone through for nothing, end when the caller does.
func TestQ05_FilterInVainEndsWithItsContext(t *testing.T) {
	x := newTextTable(t, false, false, Text{Analyzer: "simple"})
	var docs []doc
	for i := range 3000 {
		docs = append(docs, textDoc(0, "word w"+string([]rune{rune('a' + i%26), rune('a' + i/26%26), rune('a' + i/676)})))
	}
	x.put(docs...)
	ctx, cancel := context.WithCancel(t.Context())
	asked := 0
	_, err := x.spec.SearchText(ctx, "body", TextSearch{Query: query.NewTermQuery("word"), Limit: 1,
		Accept: func(int, uint32) bool {
			if asked++; asked == 100 {
				cancel()
			}
			return false
		}}, x.parts(3000)...)
	if !errors.Is(err, context.Canceled) || asked > 1000 {
		t.Errorf("after %d rows: %v", asked, err)
	}
	cancelled := &cancelledLater{Context: t.Context(), after: 10}
	_, err = x.spec.SearchText(cancelled, "body", TextSearch{Query: query.NewRegexpQuery("w.*q{5}"), Limit: 1}, x.parts(3000)...)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("dictionary: %v", err)
	}
}

// cancelledLater is cancelled once it has been looked at a number of times.
type cancelledLater struct {
	context.Context
	after int
}

func (c *cancelledLater) Err() error {
	if c.after--; c.after < 0 {
		return context.Canceled
	}
	return nil
}

// TestTextOffset: pages of one search put together are the search.
func TestTextOffset(t *testing.T) {
	r := rand.New(rand.NewPCG(63, 64))
	x := newTextTable(t, true, false, Text{})
	for range 20 {
		x.put(randomDoc(r, true, false), randomDoc(r, true, false), randomDoc(r, true, false))
	}
	bound := uint64(len(x.docs))
	for range 20 {
		q := randomQuery(r, 0, true)
		all := x.search(q, 1000, bound)
		var pages []found
		for len(pages) <= len(all) {
			hits, err := x.spec.SearchText(t.Context(), "body", TextSearch{Query: q, Limit: 3, Offset: len(pages)}, x.parts(bound)...)
			if err != nil {
				t.Fatal(err)
			}
			if len(hits) == 0 {
				break
			}
			for _, h := range hits {
				pages = append(pages, found{x.parts(bound)[h.Part].First + uint64(h.Slot), h.Score})
			}
		}
		if !slices.Equal(pages, all) {
			t.Errorf("%s: %v, want %v", describe(q), pages, all)
		}
	}
}
