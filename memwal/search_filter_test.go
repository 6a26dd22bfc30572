package memwal

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/blevesearch/bleve/v2/search/query"

	"github.com/memwal/memwal-go/index"
	"github.com/memwal/memwal-go/objstore"
)

// searchOptions are those of a table of testSchema by id, with an ordered index over n
// and its text indexed.
func searchOptions() *Options {
	o := textOptions()
	o.Indexes = append(o.Indexes, index.Ordered{Name: "by_n", Columns: []index.Column{{Name: "n"}}})
	return o
}

// TestQ04_FiltersOfSearches: a search takes the filters that a scan takes, in each way
// of serving them, and gives the hits of the search without one that a scan with the
// filter has: with their scores, and Limit of them if there are that many.
func TestQ04_FiltersOfSearches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := mustOpen(t, objstore.NewMemory(), searchOptions())
		r := rand.New(rand.NewPCG(71, 72))
		words := []string{"fish", "bird", "cat", "fish fish", "dog"}
		for step := range 12 {
			var rows []testRow
			for range 120 {
				rows = append(rows, testRow{r.Int64N(900), words[r.IntN(5)] + " " + words[r.IntN(5)], r.Int64N(2000)})
			}
			mustPut(t, w, batchOf(t, rows...))
			if err := w.Delete(t.Context(), keysOf(t, r.Int64N(900), r.Int64N(900))); err != nil {
				t.Fatal(err)
			}
			if step%4 == 2 {
				if err := w.Rotate(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
		s := mustSnapshot(t, w.Snapshot)
		met := make(map[Access]int)
		for _, f := range []Filter{
			{}, Gt("n", int64(1000)), Not(Gt("n", int64(1000))), Eq("n", int64(700)), Between("n", int64(700), int64(703)),
			In("id", int64(5), int64(6), int64(7), int64(8), int64(-1)), And(Eq("id", int64(9)), Prefix("text", "f")),
			Prefix("text", "bird"), And(Gt("n", int64(5)), Lt("n", int64(5))), IsNull("text"), Or(Eq("n", int64(3)), Eq("id", int64(4))),
		} {
			for _, q := range []query.Query{word("fish"), word("fish bird"), query.NewMatchPhraseQuery("cat dog"), query.NewMatchAllQuery(),
				query.NewQueryStringQuery("+fish -cat"), query.NewPrefixQuery("f"), word("absent")} {
				pass := make(map[uint64]bool)
				for rec, err := range s.All(t.Context(), ScanOptions{Filter: f, Columns: []string{}, Ordinals: true}) {
					if err != nil {
						t.Fatal(err)
					}
					for _, o := range rec.Column(0).(*array.Uint64).Uint64Values() {
						pass[o] = true
					}
				}
				all, err := s.Hits(t.Context(), "by text", q, SearchOptions{Limit: 10_000})
				if err != nil {
					t.Fatal(err)
				}
				from := []uint64{0, s.Bound() / 2}[r.IntN(2)]
				want := slices.DeleteFunc(all, func(h Hit) bool { return !pass[h.Ordinal] || h.Ordinal < from })
				for _, limit := range []int{3, 10_000} {
					got, err := s.Hits(t.Context(), "by text", q, SearchOptions{Filter: f, From: from, Limit: limit})
					if err != nil {
						t.Fatal(err)
					}
					if err := sameHits(got, want[:min(limit, len(want))]); err != nil {
						t.Errorf("%v, %v, limit %d: %v", f, q, limit, err)
					}
				}
				p, err := s.ExplainSearch(t.Context(), "by text", q, SearchOptions{Filter: f})
				if err != nil || p.Hits < uint64(len(want)) {
					t.Errorf("plan %v: %v", p, err)
				}
				met[p.Access]++
			}
		}
		if len(met) != 4 {
			t.Errorf("not every way of serving a search was tried: %v", met)
		}
		mustClose(t, w)
	})
}

// sameHits compares ordinals and scores.
func sameHits(got, want []Hit) error {
	same := func(a, b Hit) bool { return a.Ordinal == b.Ordinal && math.Abs(a.Score-b.Score) <= 1e-9 }
	if !slices.EqualFunc(got, want, same) {
		short := func(hits []Hit) (s string) {
			for _, h := range hits {
				s += fmt.Sprintf("%d %.12f, ", h.Ordinal, h.Score)
			}
			return s
		}
		return fmt.Errorf("\ngot  %s\nwant %s", short(got), short(want))
	}
	return nil
}

// TestQ02_SearchFiltersTheNewestVersion: a row whose newest version does not pass the
// filter is not found by an older one that did.
func TestQ02_SearchFiltersTheNewestVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := mustOpen(t, objstore.NewMemory(), searchOptions())
		mustPut(t, w, batchOf(t, testRow{1, "fish", 1}, testRow{2, "fish", 1}, testRow{3, "fish", 1}))
		mustPut(t, w, batchOf(t, testRow{1, "fish", 2}))
		if err := w.Rotate(t.Context()); err != nil {
			t.Fatal(err)
		}
		mustPut(t, w, batchOf(t, testRow{2, "fish", 2}))
		s := mustSnapshot(t, w.Snapshot)
		for _, f := range []Filter{Eq("n", int64(1)), Lt("n", int64(2)), Not(Eq("n", int64(2)))} {
			hits, err := s.Hits(t.Context(), "by text", word("fish"), SearchOptions{Filter: f})
			if err != nil || len(hits) != 1 || hits[0].Key[0] != int64(3) {
				t.Errorf("%v: %v, %v", f, hits, err)
			}
		}
		mustClose(t, w)
	})
}

// TestExplainSearch: what it says, and that it refuses what a search refuses.
func TestExplainSearch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := mustOpen(t, objstore.NewMemory(), searchOptions())
		var rows []testRow
		for i := range int64(1000) {
			rows = append(rows, testRow{i, "fish", i})
		}
		mustPut(t, w, batchOf(t, rows...))
		mustPut(t, w, batchOf(t, testRow{1000, "bird", 1000}))
		s := mustSnapshot(t, w.Snapshot)
		for _, c := range []struct {
			word string
			f    Filter
			want string
		}{
			{"fish", Filter{}, `rank the at most 1000 rows that match in the text index "by text"`},
			{"fish", Eq("n", int64(5)), `rank those of 1 rows of the ordered index "by_n" that match in the text index "by text" and pass n == 5`},
			{"fish", Gt("n", int64(990)), `rank those of 10 rows of the ordered index "by_n" that match in the text index "by text" and pass n > 990`},
			{"fish", Gt("n", int64(5)), `rank the at most 1000 rows that match in the text index "by text" and pass n > 5`},
			{"bird", Gt("n", int64(990)), `rank the at most 1 rows that match in the text index "by text" and pass n > 990`},
			{"fish", In("id", int64(1), int64(2), int64(-3)), `rank those of 2 rows under 3 primary keys that match in the text index "by text" and pass id in [1, 2, -3]`},
			{"fish", In("id"), `find nothing: no row can match id in []`},
		} {
			p, err := s.ExplainSearch(t.Context(), "by text", word(c.word), SearchOptions{Filter: c.f})
			if err != nil || p.String() != c.want {
				t.Errorf("%v\nwant %s: %v", p, c.want, err)
			}
		}
		if _, err := s.ExplainSearch(t.Context(), "by_n", word("x"), SearchOptions{}); !errors.Is(err, ErrNoIndex) {
			t.Errorf("no index: %v", err)
		}
		if _, err := s.ExplainSearch(t.Context(), "by text", query.NewRegexpQuery("("), SearchOptions{}); !errors.Is(err, ErrInvalid) {
			t.Errorf("query: %v", err)
		}
		for _, o := range []SearchOptions{{Filter: Eq("none", 1)}, {Offset: -1}} {
			if _, err := s.Hits(t.Context(), "by text", word("x"), o); !errors.Is(err, ErrInvalid) {
				t.Errorf("%+v: %v", o, err)
			}
		}
		if _, err := s.ExplainSearch(t.Context(), "by text", word("x"), SearchOptions{Filter: Eq("none", 1)}); !errors.Is(err, ErrInvalid) {
			t.Errorf("filter: %v", err)
		}
		mustClose(t, w)
	})
}

// TestHitKeys: the key of a hit finds the row again, and there is none without a key.
func TestHitKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := mustOpen(t, objstore.NewMemory(), textOptions())
		mustPut(t, w, batchOf(t, testRow{7, "fish", 1}, testRow{8, "fish soup", 1}))
		s := mustSnapshot(t, w.Snapshot)
		hits, err := s.Hits(t.Context(), "by text", word("soup"), SearchOptions{})
		if err != nil || len(hits) != 1 {
			t.Fatal(hits, err)
		}
		if row, err := s.Lookup(t.Context(), hits[0].Key...); err != nil || row.Ordinal != hits[0].Ordinal {
			t.Errorf("%+v, %v", row, err)
		}
		mustClose(t, w)
		o := textOptions()
		o.PrimaryKey = nil
		w = mustOpen(t, objstore.NewMemory(), o)
		mustPut(t, w, batchOf(t, testRow{7, "fish", 1}))
		if hits, err := mustSnapshot(t, w.Snapshot).Hits(t.Context(), "by text", word("fish"), SearchOptions{}); err != nil || len(hits) != 1 || hits[0].Key != nil {
			t.Errorf("%v, %v", hits, err)
		}
		mustClose(t, w)
	})
}

// TestSearchPages: pages of a snapshot put together are its search, without doubles
// while the writer goes on.
func TestSearchPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := mustOpen(t, objstore.NewMemory(), textOptions())
		for i := range int64(50) {
			mustPut(t, w, batchOf(t, testRow{i, "fish" + strings.Repeat(" more", int(i%7)), i}))
		}
		s := mustSnapshot(t, w.Snapshot)
		all, _ := hitsOf(t, s, word("fish"), 100)
		var pages []int64
		for {
			mustPut(t, w, batchOf(t, testRow{int64(len(pages)), "bird", 0}))
			hits, err := s.Hits(t.Context(), "by text", word("fish"), SearchOptions{Limit: 8, Offset: len(pages)})
			if err != nil {
				t.Fatal(err)
			}
			if len(hits) == 0 {
				break
			}
			for _, h := range hits {
				pages = append(pages, h.Key[0].(int64))
			}
		}
		if !slices.Equal(pages, all) || len(all) != 50 {
			t.Errorf("%v, want %v", pages, all)
		}
		mustClose(t, w)
	})
}
