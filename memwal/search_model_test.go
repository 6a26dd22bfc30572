package memwal

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/blevesearch/bleve/v2/analysis"
	"github.com/blevesearch/bleve/v2/registry"
	"github.com/blevesearch/bleve/v2/search/query"

	"github.com/memwal/memwal-go/index"
	"github.com/memwal/memwal-go/objstore"
)

// version is a row of the history of a search model.
type version struct {
	testRow
	dead bool
}

// searchModel is all that was written, by ordinal.
type searchModel struct {
	analyzer string
	judge    analysis.Analyzer // the same
	history  []version
}

func (m *searchModel) options() *Options {
	o := searchOptions()
	o.Indexes[0] = index.Text{Name: "by text", Column: index.Column{Name: "text"}, Analyzer: m.analyzer}
	return o
}

// live are the ordinals that a snapshot with the bound shows.
func (m *searchModel) live(bound uint64) (out []uint64) {
	newest := make(map[int64]int)
	for i, v := range m.history[:bound] {
		newest[v.id] = i
	}
	for i, v := range m.history[:bound] {
		if newest[v.id] == i && !v.dead {
			out = append(out, uint64(i))
		}
	}
	return out
}

var searchWords = []string{"alpha", "beta", "gamma", "Running", "runs", "the", "of", "東京", "京都", "🙂", "café", "cafe\u0301", "Müller", "42", "l'eau", "bücher", "كتاب", "a-b", ""}

func searchText(r *rand.Rand, words int) string {
	var w []string
	for range r.IntN(words + 1) {
		w = append(w, searchWords[min(r.IntN(len(searchWords)), r.IntN(len(searchWords)))])
	}
	if r.IntN(40) == 0 {
		w = append(w, strings.Repeat("long", 500))
	}
	return strings.Join(w, pickOf(r, " ", " ", ", ", "\n"))
}

func pickOf[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

func searchQuery(r *rand.Rand, depth int) query.Query {
	word := searchWords[r.IntN(len(searchWords))]
	switch n := r.IntN(13 - 3*min(depth, 2)); n {
	case 0, 1, 2:
		q := query.NewMatchQuery(searchText(r, 3))
		if n == 2 {
			q.SetOperator(query.MatchQueryOperatorAnd)
		}
		return q
	case 3:
		return query.NewMatchPhraseQuery(word + " " + searchText(r, 2))
	case 4:
		return query.NewPrefixQuery(pickOf(r, "a", "be", "run", "東", ""))
	case 5:
		q := query.NewFuzzyQuery(pickOf(r, "alpba", "bet", "ruins", "cafe"))
		q.SetFuzziness(r.IntN(3))
		return q
	case 6:
		return pickOf[query.Query](r, query.NewWildcardQuery("*a"), query.NewRegexpQuery("a|alpha|be.*"), query.NewTermRangeQuery("b", "s"), query.NewTermQuery("alpha"))
	case 7, 8:
		return query.NewQueryStringQuery(pickOf(r, "+alpha -beta", "alpha beta^2 runs", `gamma "alpha beta"`, "-alpha", "42 al*", "the", "bet~1 +gamma"))
	case 9:
		return query.NewMatchAllQuery()
	}
	var clauses [3][]query.Query
	for i := range clauses {
		for range r.IntN(3) {
			clauses[i] = append(clauses[i], searchQuery(r, depth+1))
		}
	}
	if len(clauses[0])+len(clauses[1])+len(clauses[2]) == 0 {
		return query.NewMatchNoneQuery()
	}
	return query.NewBooleanQuery(clauses[0], clauses[1], clauses[2])
}

// searchFilter is a filter, and what it means.
func searchFilter(r *rand.Rand) (Filter, func(testRow) bool) {
	a := r.Int64N(40)
	switch r.IntN(6) {
	case 0:
		return Eq("n", a), func(v testRow) bool { return v.n == a }
	case 1:
		return And(Gt("n", a), Lt("n", a+8)), func(v testRow) bool { return v.n > a && v.n < a+8 }
	case 2:
		return In("id", a, a+1, a+2), func(v testRow) bool { return v.id >= a && v.id <= a+2 }
	case 3:
		return Or(Prefix("text", "a"), Ge("n", a)), func(v testRow) bool { return strings.HasPrefix(v.text, "a") || v.n >= a }
	case 4:
		return And(Eq("n", a), Not(Eq("n", a))), func(testRow) bool { return false }
	}
	return Filter{}, func(testRow) bool { return true }
}

// TestSearchModel: random upserts, deletes and rotations, snapshots that are kept, and
// random queries and filters, with every analyzer. Whatever a snapshot finds is what a
// fresh shard of just its live rows finds; match queries also have the rows and the
// scores that BM25 gives, worked out by itself; and where a filter leaves rows out, there
// are as many as match.
func TestSearchModel(t *testing.T) {
	for i, analyzer := range index.Analyzers() {
		t.Run(analyzer, func(t *testing.T) {
			if testing.Short() && i%4 > 0 {
				t.Skip("one of four")
			}
			judge, err := registry.NewCache().AnalyzerNamed(analyzer)
			if err != nil {
				t.Fatal(err)
			}
			synctest.Test(t, func(t *testing.T) { runSearchModel(t, &searchModel{analyzer: analyzer, judge: judge}, uint64(i)) })
		})
	}
}

func runSearchModel(t *testing.T, m *searchModel, seed uint64) {
	r := rand.New(rand.NewPCG(101, seed))
	w := mustOpen(t, objstore.NewMemory(), m.options())
	var kept []*Snapshot
	for step := range 10 {
		var rows []testRow
		for range 1 + r.IntN(15) {
			rows = append(rows, testRow{r.Int64N(60), searchText(r, 8), r.Int64N(40)})
		}
		mustPut(t, w, batchOf(t, rows...))
		for _, row := range rows {
			m.history = append(m.history, version{testRow: row})
		}
		if step%2 == 1 {
			id := r.Int64N(60)
			if err := w.Delete(t.Context(), keysOf(t, id)); err != nil {
				t.Fatal(err)
			}
			m.history = append(m.history, version{testRow{id: id}, true})
		}
		if step%3 == 2 {
			kept = append(kept, mustSnapshot(t, w.Snapshot))
		}
		if r.IntN(4) == 0 {
			if err := w.Rotate(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, s := range kept {
		m.check(t, r, s)
	}
	mustClose(t, w)
}

// check compares a snapshot with a fresh shard of its live rows.
func (m *searchModel) check(t *testing.T, r *rand.Rand, s *Snapshot) {
	live := m.live(s.Bound())
	w := mustOpen(t, objstore.NewMemory(), m.options())
	defer mustClose(t, w)
	var rows []testRow
	for _, o := range live {
		rows = append(rows, m.history[o].testRow)
	}
	if len(rows) > 0 {
		mustPut(t, w, batchOf(t, rows...))
	}
	fresh := mustSnapshot(t, w.Snapshot)
	defer fresh.Close()
	find := func(s *Snapshot, q query.Query, o SearchOptions) []Hit {
		hits, err := s.Hits(t.Context(), "by text", q, o)
		if err != nil {
			t.Fatalf("%s: %v", asText(q), err)
		}
		return hits
	}
	for range 25 {
		q := searchQuery(r, 0)
		all := find(fresh, q, SearchOptions{Limit: 1000})
		for i := range all {
			all[i].Ordinal = live[all[i].Ordinal]
		}
		f, matches := searchFilter(r)
		want := slices.DeleteFunc(slices.Clone(all), func(h Hit) bool { return !matches(m.history[h.Ordinal].testRow) })
		limit := pickOf(r, 1, 3, 1000)
		if err := sameHits(find(s, q, SearchOptions{Filter: f, Limit: limit}), want[:min(limit, len(want))]); err != nil {
			t.Fatalf("%s, %v, %d rows: %v", asText(q), f, s.Bound(), err)
		}
	}
	for range 10 {
		text, all := searchText(r, 3), r.IntN(2) == 0
		q := query.NewMatchQuery(text)
		if all {
			q.SetOperator(query.MatchQueryOperatorAnd)
		}
		if err := sameHits(find(s, q, SearchOptions{Limit: 1000}), m.bm25(live, text, all)); err != nil {
			t.Fatalf("%q, all words %t, at %d, by formula: %v", text, all, s.Bound(), err)
		}
	}
}

// bm25 finds the words of a text, one or all of them, in rows, by bleve's formula: BM25
// (k1 1.2, b 0.75) of the root of the frequency and the average length rounded up; if
// there are several words, each weighs as its inverse document frequency over the norm
// of all, and of some, the sum as much as their share.
func (m *searchModel) bm25(live []uint64, text string, all bool) []Hit {
	analyzer := m.judge
	docs := make(map[uint64]map[string]int, len(live))
	length := make(map[uint64]int, len(live))
	total := 0
	for _, o := range live {
		docs[o] = make(map[string]int)
		if m.history[o].text == "" {
			continue
		}
		for _, k := range analyzer.Analyze([]byte(m.history[o].text)) {
			docs[o][string(k.Term)]++
			length[o]++
			total++
		}
	}
	words := analyzer.Analyze([]byte(text))
	average := math.Ceil(float64(total) / float64(len(live)))
	idf := make([]float64, len(words))
	norm := 0.0
	for i, k := range words {
		n := 0
		for _, d := range docs {
			if d[string(k.Term)] > 0 {
				n++
			}
		}
		idf[i] = math.Log(1 + (float64(len(live))-float64(n)+0.5)/(float64(n)+0.5))
		norm += idf[i] * idf[i]
	}
	norm = 1 / math.Sqrt(norm)
	var out []Hit
	for _, o := range live {
		sum, matched := 0.0, 0
		for i, k := range words {
			n := docs[o][string(k.Term)]
			if n == 0 {
				continue
			}
			matched++
			tf := math.Sqrt(float64(n))
			score := idf[i] * tf * 1.2 / (tf + 1.2*(1-0.75+0.75*float64(length[o])/average))
			if len(words) > 1 {
				score *= idf[i] * norm
			}
			sum += score
		}
		if matched == 0 || all && matched < len(words) {
			continue
		}
		if !all {
			sum *= float64(matched) / float64(len(words))
		}
		out = append(out, Hit{Row: Row{Ordinal: o}, Score: sum})
	}
	slices.SortStableFunc(out, func(a, b Hit) int {
		if math.Abs(a.Score-b.Score) < 1e-12 {
			return 0
		}
		return cmp.Compare(b.Score, a.Score)
	})
	return out
}

func asText(q query.Query) string {
	s, err := query.DumpQuery(nil, q)
	if err != nil {
		return fmt.Sprintf("%T %+v", q, q)
	}
	return s
}

// TestSearchBesideTheWriter: searches with filters and highlights while rows come, are
// deleted and rotated. Each snapshot gives the same answer twice, only rows that match,
// and as many as there are.
func TestSearchBesideTheWriter(t *testing.T) {
	w := mustOpen(t, objstore.NewMemory(), func() *Options { o := searchOptions(); o.Visibility = VisibleIndexed; return o }())
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for reader := range 3 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(111, uint64(reader)))
			for last := false; !last; {
				select {
				case <-stop:
					last = true
				default:
				}
				s, err := w.Snapshot()
				if err != nil {
					t.Error(err)
					return
				}
				q, n := word(pickOf(r, "alpha", "beta", "gamma delta")), r.Int64N(40)
				o := SearchOptions{Filter: pickOf(r, Ge("n", n), Eq("n", n), In("id", n, n+1, n+2)), Limit: 5, Highlight: &Highlight{Before: "[", After: "]"}}
				first, err := s.Hits(t.Context(), "by text", q, o)
				if err != nil {
					t.Error(err)
					return
				}
				o.Limit = 1000
				again, err := s.Hits(t.Context(), "by text", q, o)
				if err != nil {
					t.Error(err)
					return
				}
				if err := sameHits(first, again[:min(5, len(again))]); err != nil {
					t.Errorf("the second time: %v", err)
				}
				for _, h := range again {
					if len(h.Fragments) != 1 || !strings.Contains(h.Fragments[0].Text, "[") {
						t.Errorf("fragments %+v", h.Fragments)
					}
				}
				s.Close()
			}
		})
	}
	r := rand.New(rand.NewPCG(112, 113))
	for step := range 120 {
		var rows []testRow
		for range 10 {
			rows = append(rows, testRow{r.Int64N(200), pickOf(r, "alpha", "beta") + " " + pickOf(r, "gamma", "delta"), r.Int64N(40)})
		}
		mustPut(t, w, batchOf(t, rows...))
		if step%10 == 5 {
			if err := w.Delete(t.Context(), keysOf(t, r.Int64N(200))); err != nil {
				t.Fatal(err)
			}
		}
		if step%40 == 20 {
			if err := w.Rotate(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	close(stop)
	wg.Wait()
	mustClose(t, w)
}
