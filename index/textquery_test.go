package index

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/blevesearch/bleve/v2/geo"
	"github.com/blevesearch/bleve/v2/search"
	"github.com/blevesearch/bleve/v2/search/query"
)

func boosted(q query.BoostableQuery, by float64) query.Query {
	q.SetBoost(by)
	return q
}

// TestQueryKinds: each type of query that bleve has is answered exactly, or refused with
// what is wrong and never with an empty answer.
func TestQueryKinds(t *testing.T) {
	x := newTextTable(t, false, false, Text{})
	x.put(textDoc(0, "fish soup"), textDoc(0, "bird song"), textDoc(0, "fisch 42"), textDoc(0, " 10.0.0.1 T F"), textDoc(0, "song bird"), doc{})
	inField := func(q query.FieldableQuery) query.Query { q.SetField("body"); return q }
	all := query.NewMatchAllQuery()
	match := query.NewMatchQuery
	and := match("song bird")
	and.SetOperator(query.MatchQueryOperatorAnd)
	auto := match("fisk")
	auto.SetAutoFuzziness(true)
	loose := phrase("bird sung").(*query.MatchPhraseQuery)
	loose.SetFuzziness(1)
	least := query.NewDisjunctionQuery([]query.Query{match("song"), match("bird"), match("fish")})
	least.SetMin(2)
	filtered := query.NewBooleanQuery([]query.Query{match("song")}, nil, nil)
	filtered.AddFilter(phrase("song bird"))
	for _, c := range []struct {
		q    query.Query
		want string // ordinals in any order
	}{
		{match("fish"), "[0]"}, {and, "[1 4]"}, {auto, "[0]"}, {inField(match("fish")), "[0]"},
		{query.NewTermQuery("fish"), "[0]"}, {query.NewPrefixQuery("fis"), "[0 2]"}, {fuzzyBy("fish", 1), "[0 2]"},
		{phrase("song bird"), "[4]"}, {loose, "[1]"}, {query.NewPhraseQuery([]string{"song", "bird"}, ""), "[4]"},
		{query.NewMultiPhraseQuery([][]string{{"song", "fish", "song"}, {"bird", "soup"}}, ""), "[0 4]"},
		{query.NewWildcardQuery("f*h"), "[0 2]"}, {query.NewWildcardQuery("b?rd"), "[1 4]"},
		{query.NewRegexpQuery("fi|fish"), "[0]"}, {query.NewRegexpQuery("^fi.*h"), "[0 2]"}, {query.NewRegexpQuery("fi"), "[]"},
		{query.NewTermRangeQuery("bird", "fish"), "[1 2 3 4]"}, {query.NewTermRangeQuery("soup", ""), "[0 3]"}, // "f" and "t" too
		{query.NewConjunctionQuery([]query.Query{match("song"), phrase("bird song")}), "[1]"},
		{query.NewDisjunctionQuery([]query.Query{match("fish"), match("song")}), "[0 1 4]"}, {least, "[1 4]"},
		{query.NewBooleanQuery([]query.Query{match("song")}, nil, []query.Query{phrase("song bird")}), "[1]"}, {filtered, "[4]"},
		{query.NewMatchNoneQuery(), "[]"}, {all, "[0 1 2 3 4 5]"},
		{queryString("42"), "[2]"}, {queryString("+song -\"song bird\""), "[1]"}, {queryString("body:fish"), "[0]"}, {queryString(""), "[]"}, {queryString("  "), "[]"},
		{queryString("fis* song^2"), "[0 1 2 4]"}, {queryString("fish~1"), "[0 2]"}, {queryString("/so.*/"), "[0 1 4]"}, {queryString("body:42"), "[2]"},
		{query.NewCustomFilterQueryWithFilter(all, func(_ context.Context, d *search.DocumentMatch) (bool, error) {
			return d.IndexInternalID.Value() > 3, nil
		}, nil, nil), "[4 5]"},
		{query.NewCustomScoreQueryWithScorer(match("song"), func(_ context.Context, d *search.DocumentMatch) (float64, error) { return 7, nil }, nil, nil), "[1 4]"},
	} {
		seen := make([]bool, 6)
		for _, o := range ordinals(x.search(c.q, 10, 6)) {
			seen[o] = true
		}
		got := []int{}
		for o, in := range seen {
			if in {
				got = append(got, o)
			}
		}
		if fmt.Sprint(got) != c.want {
			t.Errorf("%T %s: %v, want %s", c.q, describe(c.q), got, c.want)
		}
	}
	one := 1.0
	shape, err := query.NewGeoShapeQuery([][][][]float64{{{{1, 1}}}}, "point", "within")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(0, 0)
	callback := query.NewCustomFilterQueryWithFilter(all, func(context.Context, *search.DocumentMatch) (bool, error) { return true, nil }, []string{"n"}, nil)
	deep := query.Query(all)
	for range 1000 {
		deep = query.NewConjunctionQuery([]query.Query{deep})
	}
	wide := query.NewMultiPhraseQuery(nil, "")
	for range 40 {
		wide.Terms = append(wide.Terms, []string{"a", "b"})
	}
	nan := query.NewDisjunctionQuery([]query.Query{all})
	nan.SetMin(math.NaN())
	strange := match("fish")
	strange.Analyzer = "klingon"
	noName := query.NewPhraseQuery([]string{"a"}, "title")
	for _, c := range []struct {
		q    query.Query
		want string
	}{
		{query.NewNumericRangeQuery(&one, nil), "asks for other values than text"},
		{query.NewDateRangeQuery(now, now), "asks for other values"},
		{query.NewDateRangeStringQuery("2020-01-01", ""), "asks for other values"},
		{query.NewBoolFieldQuery(true), "asks for other values"},
		{query.NewIPRangeQuery("10.0.0.0/8"), "asks for other values"},
		{query.NewGeoBoundingBoxQuery(0, 1, 1, 0), "asks for other values"},
		{query.NewGeoBoundingPolygonQuery([]geo.Point{{}, {}, {}}), "asks for other values"},
		{query.NewGeoDistanceQuery(1, 1, "1km"), "asks for other values"},
		{shape, "asks for other values"},
		{query.NewDocIDQuery([]string{"1"}), "asks for document ids"},
		{queryString("body:>5"), "asks for other values"},
		{queryString("lake body:>5"), "asks for other values"},
		{queryString("lake body:>=5"), "asks for other values"},
		{queryString("lake body:<5"), "asks for other values"},
		{queryString("lake year:>5"), `it asks for "year"`},
		{query.NewDisjunctionQuery([]query.Query{match("fish"), numbers("body", 5, 5)}), "asks for other values"},
		{query.NewDisjunctionQuery([]query.Query{match("5"), numbers("body", 5, 5)}), "asks for other values"},
		{query.NewDisjunctionQuery([]query.Query{match("5"), numbers("year", 5, 5)}), `it asks for "year"`},
		{query.NewDisjunctionQuery([]query.Query{match("5"), numbers("", 5, 6)}), "asks for other values"},
		{query.NewDisjunctionQuery([]query.Query{match("6"), numbers("", 5, 5)}), "asks for other values"},
		{queryString(`body:>"2020-01-01T00:00:00Z"`), "asks for other values"},
		{queryString("title:fish"), `it asks for "title"; the index is over column "body"`},
		{noName, `it asks for "title"`},
		{&own{}, "a *index.own is no query"},
		{query.NewConjunctionQuery([]query.Query{all, &own{}}), "a *index.own is no query"},
		{callback, `fields ["n"]`},
		{(*query.MatchQuery)(nil), "nil"},
		{query.NewConjunctionQuery([]query.Query{nil}), "nil"},
		{deep, "nested more than 64"},
		{query.NewDisjunctionQuery(make([]query.Query, 5000)), "nil"},
		{query.NewDisjunctionQuery(repeated(all, 5000)), "more than 4096 queries"},
		{nan, "at least NaN of 1"},
		{match(strings.Repeat("fish ", 20_000)), "more than 65536 bytes"},
		{queryString(strings.Repeat("fish ", 1000)), "at most 4096"},
		{query.NewRegexpQuery(strings.Repeat("a", 2000)), "a pattern has 2000 bytes"},
		{query.NewWildcardQuery(strings.Repeat("*", 2000)), "a pattern has 2000 bytes"},
		{phrase(strings.Repeat("fish ", 300)), "a phrase has more than 256 words"},
		{wide, "readings"},
		{strange, `unknown analyzer "klingon"`},
		{boosted(match("fish"), math.NaN()), "a boost is NaN"},
		{boosted(match("fish"), -1), "a boost is -1"},
		{boosted(match("fish"), math.Inf(1)), "a boost is +Inf"},
		{queryString("fish^1e300"), "a boost is 1e+300"},
		{queryString("fish~9"), "fuzziness 9, must be from 0 to 2"},
		{fuzzyBy("fish", -1), "fuzziness -1"},
	} {
		_, err := x.spec.SearchText(t.Context(), "body", TextSearch{Query: c.q, Limit: 1}, x.parts(6)...)
		if _, ok := errors.AsType[*QueryError](err); !ok || !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%T: %v, want %q", c.q, err, c.want)
		}
	}
}

func numbers(field string, from, to float64) query.Query {
	in := true
	q := query.NewNumericRangeInclusiveQuery(&from, &to, &in, &in)
	q.SetField(field)
	return q
}

// own is a query that bleve does not have.
type own struct{ query.MatchAllQuery }

func repeated(q query.Query, n int) []query.Query {
	out := make([]query.Query, n)
	for i := range out {
		out[i] = q
	}
	return out
}

// tripping panics when it is asked whether it lasts.
type tripping struct{ context.Context }

func (tripping) Err() error { panic("tripped") }

// TestSearchPanics: a panic below a search, a count or a highlight is its error, of the
// category of what must not happen, with the stack.
func TestSearchPanics(t *testing.T) {
	x := newTextTable(t, false, false, Text{})
	x.put(textDoc(0, "fish"))
	fish := query.NewMatchQuery("fish")
	callback := query.NewCustomFilterQueryWithFilter(fish, func(context.Context, *search.DocumentMatch) (bool, error) { panic("tripped") }, nil, nil)
	rec, row := x.tabs[0].rows.Locate(0)
	for what, run := range map[string]func() error{
		"callback": func() error {
			_, err := x.spec.SearchText(t.Context(), "body", TextSearch{Query: callback, Limit: 1}, x.parts(1)...)
			return err
		},
		"search": func() error {
			_, err := x.spec.SearchText(tripping{t.Context()}, "body", TextSearch{Query: fish, Limit: 1}, x.parts(1)...)
			return err
		},
		"count": func() error {
			_, err := x.spec.TextHits(tripping{t.Context()}, "body", fish, x.parts(1)...)
			return err
		},
		"highlight": func() error {
			h, err := x.spec.NewHighlighter("body", fish, Highlight{})
			if err == nil {
				_, err = h.Row(tripping{t.Context()}, rec, row)
			}
			return err
		},
	} {
		err := run()
		p, ok := errors.AsType[*PanicError](err)
		if !ok || !errors.Is(err, ErrInternal) || errors.Is(err, ErrInvalid) || p.Value != "tripped" || !strings.Contains(string(p.Stack), "textquery_test.go") {
			t.Errorf("%s: %v", what, err)
		}
		if want := `index "body": panic: tripped`; err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", what, err, want)
		}
	}
}

// TestNothingOpensNoPart: a search that can find nothing checks its query and does not
// look up which rows are superseded.
func TestNothingOpensNoPart(t *testing.T) {
	x := newTextTable(t, true, false, Text{})
	x.put(textDoc(1, "fish"))
	x.rotate()
	x.put(textDoc(1, "bird"))
	parts := x.parts(2)
	hits, err := x.spec.SearchText(t.Context(), "body", TextSearch{Query: query.NewMatchQuery("fish"), Limit: 1, Nothing: true}, parts...)
	if err != nil || len(hits) > 0 {
		t.Errorf("%v, %v", hits, err)
	}
	if n := parts[0].Set.Unresolved(parts[1:]...); n != 1 {
		t.Errorf("%d rows are left to look up, want 1", n)
	}
	if _, err := x.spec.SearchText(t.Context(), "body", TextSearch{Query: &own{}, Limit: 1, Nothing: true}, parts...); !errors.Is(err, ErrInvalid) {
		t.Errorf("%v", err)
	}
}

// TestQueryStringErrors: they say from which byte on no continuation makes them valid.
func TestQueryStringErrors(t *testing.T) {
	x := newTextTable(t, false, false, Text{})
	for _, c := range []struct {
		s, reason string
		at        int
	}{
		{`fish "soup`, "unterminated quote", 10},
		{"fish +", "syntax error", 6},
		{"fish =bird and more", "syntax error", 5},
		{"fish ^x", "invalid boost value", 6},
		{"fish^abc more", "invalid boost value", 5},
		{"töne ++x", "syntax error", 7},
		{"+fish /", "syntax error", 7},
		{"NOT fish", "write -a", 0},
		{"fish AND bird", "write +a +b", 5},
		{"fish && bird", "write +a +b", 5},
		{`"a OR b" töne OR bird`, "write a b", 15},
		{`/a NOT b/ fish || bird`, "write a b", 15},
		{`"x \" NOT y" -(big fish)`, "no brackets", 14},
	} {
		_, err := x.spec.SearchText(t.Context(), "body", TextSearch{Query: queryString(c.s), Limit: 1})
		e, ok := errors.AsType[*QueryStringError](err)
		if !ok || e.At != c.at || !strings.Contains(e.Reason, c.reason) || e.Query != c.s {
			t.Errorf("%q: %v", c.s, err)
		}
	}
}

// TestQueryStringWords: what looks like an operator is a word where it is told to be, or
// part of one.
func TestQueryStringWords(t *testing.T) {
	x := newTextTable(t, false, false, Text{Analyzer: "simple"})
	x.put(textDoc(0, "and or not"))
	for _, s := range []string{`"AND"`, `"NOT" fish`, "and", "Not", `\AND`, "body:\"OR\"", "ANDROID or", "x/(y or", `/a.d/`} {
		hits, err := x.spec.SearchText(t.Context(), "body", TextSearch{Query: queryString(s), Limit: 1}, x.parts(1)...)
		if err != nil || len(hits) != 1 {
			t.Errorf("%s: %v, %v", s, hits, err)
		}
	}
}

// TestQueryStaysTheCallers: one query may serve many searches at once.
func TestQueryStaysTheCallers(t *testing.T) {
	x := newTextTable(t, false, false, Text{})
	x.put(textDoc(0, "song bird"), textDoc(0, "42"))
	q := query.NewBooleanQuery(nil, []query.Query{query.NewPhraseQuery([]string{"song", "bird"}, ""), queryString("42"),
		query.NewMultiPhraseQuery([][]string{{"song", "song"}}, "")}, nil)
	before := describe(q)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 20 {
				if _, err := x.spec.SearchText(t.Context(), "body", TextSearch{Query: q, Limit: 3}, x.parts(2)...); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if after := describe(q); after != before {
		t.Errorf("%s, was %s", after, before)
	}
}

// TestBoosts: they weigh as they say, and 0 finds without weighing.
func TestBoosts(t *testing.T) {
	x := newTextTable(t, false, false, Text{})
	x.put(textDoc(0, "fish soup"), textDoc(0, "bird song"))
	for _, c := range []struct{ s, want string }{
		{"fish bird^3", "[1 0]"}, {"fish^3 bird", "[0 1]"}, {"fish^0 bird", "[1 0]"}, {"fish^0 bird^0", "[0 1]"}, {"+fish^0", "[0]"},
	} {
		hits := x.search(queryString(c.s), 10, 2)
		if fmt.Sprint(ordinals(hits)) != c.want {
			t.Errorf("%s: %v, want %s", c.s, hits, c.want)
		}
		for _, h := range hits {
			if math.IsNaN(h.score) {
				t.Errorf("%s: %v", c.s, hits)
			}
		}
	}
}

// TestTooManyTerms: what stands for more terms than are bearable is refused, also where
// the terms are those of the index.
func TestTooManyTerms(t *testing.T) {
	if testing.Short() || raceEnabled {
		t.Skip("an index with many terms")
	}
	x := newTextTable(t, false, false, Text{Analyzer: "simple"})
	var b strings.Builder
	for i := range MaxQueryTerms + 10 {
		b.WriteString("x")
		for n := i; n > 0; n /= 26 {
			b.WriteByte(byte('a' + n%26))
		}
		b.WriteByte(' ')
	}
	x.put(textDoc(0, b.String()))
	_, err := x.spec.SearchText(t.Context(), "body", TextSearch{Query: prefix("x"), Limit: 1}, x.parts(1)...)
	if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "more than 65536 terms") {
		t.Errorf("%v", err)
	}
	// bleve lists all before it asks for the first: so the list has an end already.
	spec := x.spec.kinds[0].(*textSpec)
	parts, err := x.spec.textParts(t.Context(), spec, x.parts(1))
	if err != nil {
		t.Fatal(err)
	}
	r, err := newTextReader(t.Context(), spec, parts)
	if err != nil {
		t.Fatal(err)
	}
	g := &guardedReader{textReader: r}
	listed := 0
	for range 2 {
		d, err := g.FieldDictRegexp("body", "x.*")
		if err != nil {
			t.Fatal(err)
		}
		for e, err := d.Next(); e != nil || err != nil; e, err = d.Next() {
			if err != nil {
				if _, ok := errors.AsType[*QueryError](err); !ok || listed != MaxQueryTerms {
					t.Errorf("after %d terms: %v", listed, err)
				}
				break
			}
			listed++
		}
	}
	if listed > MaxQueryTerms {
		t.Errorf("%d terms were listed", listed)
	}
	if got := x.search(prefix("xab"), 10, 1); len(got) != 1 {
		t.Errorf("%v", got)
	}
}
