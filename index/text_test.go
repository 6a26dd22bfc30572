package index

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/blevesearch/bleve/v2/search/query"
)

func textDoc(id int64, s string) doc { return doc{id: id, texts: []string{s}} }

func ordinals(fs []found) []uint64 {
	out := []uint64{}
	for _, f := range fs {
		out = append(out, f.ordinal)
	}
	return out
}

// TestC01_TextIndexNeedsText: what cannot be indexed is refused with name, type and
// expectation, and so is an analyzer that there is not.
func TestC01_TextIndexNeedsText(t *testing.T) {
	sc := arrow.NewSchema([]arrow.Field{
		{Name: "n", Type: arrow.PrimitiveTypes.Int64},
		{Name: "blob", Type: arrow.BinaryTypes.Binary},
		{Name: "numbers", Type: arrow.ListOf(arrow.PrimitiveTypes.Int32)},
		{Name: "nested", Type: arrow.ListOf(arrow.ListOf(arrow.BinaryTypes.String))},
		{Name: "ok", Type: arrow.LargeListOf(arrow.BinaryTypes.LargeString)},
		{Name: "view", Type: arrow.BinaryTypes.StringView},
		{Name: "dict", Type: &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}},
	}, nil)
	for column, want := range map[string]string{
		"n":       `index "t": column "n" of type int64: expected text, or a list of text`,
		"blob":    `index "t": column "blob" of type binary: expected text, or a list of text`,
		"numbers": `expected text, or a list of text`,
		"nested":  `expected text, or a list of text`,
		"none":    `index "t": column "none": no such column: expected a column of the table`,
		"ok":      "", "view": "", "dict": "",
	} {
		_, err := Bind(sc, nil, []Config{Text{Name: "t", Column: Column{Name: column}}})
		if want == "" && err != nil || want != "" && (!errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v", column, err)
		}
	}
	_, err := Bind(sc, nil, []Config{Text{Name: "t", Column: Column{Name: "view"}, Analyzer: "klingon"}})
	if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), `unknown analyzer "klingon": expected one of standard, simple, keyword, `) {
		t.Errorf("analyzer: %v", err)
	}
	for _, name := range Analyzers() {
		if _, err := Bind(sc, nil, []Config{Text{Name: "t", Column: Column{Name: "view"}, Analyzer: name}}); err != nil {
			t.Errorf("analyzer %s: %v", name, err)
		}
	}
}

// TestC04_NullAndEmptyText: they are documents without terms: counted, found by what
// asks for no term, and never a failure.
func TestC04_NullAndEmptyText(t *testing.T) {
	for _, analyzer := range Analyzers() {
		x := newTextTable(t, true, false, Text{Analyzer: analyzer})
		x.put(doc{id: 1}, textDoc(2, ""), textDoc(3, "x1"), textDoc(4, " \t\n"), textDoc(5, "\xff\xfe"), textDoc(6, "🙂"), textDoc(7, strings.Repeat("q", 100_000)))
		if got := ordinals(x.search(query.NewMatchAllQuery(), 10, 7)); fmt.Sprint(got) != "[0 1 2 3 4 5 6]" {
			t.Errorf("%s: all: %v", analyzer, got)
		}
		if got := ordinals(x.search(query.NewMatchQuery("x1"), 10, 7)); len(got) > 1 || len(got) == 1 && got[0] != 2 {
			t.Errorf("%s: x1: %v", analyzer, got)
		}
		if got := x.search(query.NewMatchQuery(""), 10, 7); len(got) != 0 {
			t.Errorf("%s: nothing: %v", analyzer, got)
		}
	}
	x := newTextTable(t, true, true, Text{})
	x.put(doc{id: 1}, doc{id: 2, texts: []string{}}, doc{id: 3, texts: []string{"<null>", "", "word"}})
	if got := ordinals(x.search(query.NewMatchQuery("word"), 10, 3)); fmt.Sprint(got) != "[2]" {
		t.Errorf("list: %v", got)
	}
}

// TestQ01_TextShowsTheNewestVersion: of each key the newest row below the bound alone
// is found, in one batch, over batches and over memtables; what was deleted is not.
func TestQ01_TextShowsTheNewestVersion(t *testing.T) {
	x := newTextTable(t, true, false, Text{})
	x.put(textDoc(1, "old word"), textDoc(1, "new word"), textDoc(2, "word"))
	x.put(textDoc(1, "newer"))
	x.rotate()
	x.put(textDoc(2, "thing"), textDoc(3, "word"))
	x.put(doc{id: 3, dead: true}, textDoc(2, "word again"))
	for _, c := range []struct {
		word  string
		bound uint64
		want  string
	}{
		{"word", 1, "[0]"}, {"word", 2, "[1]"}, {"old", 2, "[]"}, {"word", 3, "[2 1]"}, {"word", 4, "[2]"},
		{"word", 5, "[]"}, {"word", 6, "[5]"}, {"word", 7, "[]"}, {"word", 8, "[7]"}, {"thing", 8, "[]"}, {"thing", 7, "[4]"},
	} {
		if got := fmt.Sprint(ordinals(x.search(query.NewMatchQuery(c.word), 10, c.bound))); got != c.want {
			t.Errorf("%s at %d: %s, want %s", c.word, c.bound, got, c.want)
		}
	}
}

// TestQ03_TopKIsNeverShort: newer versions that do not match, however many, leave no
// gap, and old versions of better matches do not come in.
func TestQ03_TopKIsNeverShort(t *testing.T) {
	x := newTextTable(t, true, false, Text{})
	for i := range int64(200) {
		x.put(textDoc(i, "word word word")) // the best matches, later superseded
	}
	x.rotate()
	for i := range int64(190) {
		x.put(textDoc(i, pick(rand.New(rand.NewPCG(1, uint64(i))), "another", "nothing")))
	}
	x.put(textDoc(1000, "a word among many others that make it worse"))
	got := x.search(query.NewMatchQuery("word"), 11, uint64(len(x.docs)))
	if fmt.Sprint(ordinals(got)) != "[190 191 192 193 194 195 196 197 198 199 390]" {
		t.Errorf("%v", got)
	}
	if err := x.check(query.NewMatchQuery("word"), 5, uint64(len(x.docs))); err != nil {
		t.Error(err)
	}
}

// TestQ08_TextSearchNeedsItsIndex: no index, one of another kind, another column, or
// what the index cannot answer is an error and never an empty answer.
func TestQ08_TextSearchNeedsItsIndex(t *testing.T) {
	sc := textSchema(false, false)
	s := mustBind(t, sc, nil, Ordered{Name: "o", Columns: cols("id")}, Text{Name: "t", Column: Column{Name: "body"}, NoPositions: true})
	set := s.NewSet(newStore())
	for _, parts := range [][]Part{nil, {{Set: set}}} {
		for _, name := range []string{"o", "none", PrimaryKey, ""} {
			if _, err := s.SearchText(t.Context(), name, TextSearch{Query: query.NewMatchQuery("x"), Limit: 1}, parts...); !errors.Is(err, ErrNoIndex) {
				t.Errorf("index %q: %v", name, err)
			}
		}
		other := query.NewMatchQuery("x")
		other.SetField("title")
		for what, q := range map[string]query.Query{
			"another column":         other,
			"no query":               nil,
			"syntax":                 query.NewQueryStringQuery("\"open"),
			"other column in text":   query.NewQueryStringQuery("title:x"),
			"phrase":                 query.NewMatchPhraseQuery("a few words"),
			"empty boolean":          query.NewBooleanQuery(nil, nil, nil),
			"document ids":           query.NewDocIDQuery([]string{"1"}),
			"too far":                fuzzyBy("x", 9),
			"regular expression":     query.NewRegexpQuery("("),
			"prefix, another column": func() query.Query { q := query.NewPrefixQuery("x"); q.SetField("title"); return q }(),
		} {
			if _, err := s.SearchText(t.Context(), "t", TextSearch{Query: q, Limit: 1}, parts...); !errors.Is(err, ErrInvalid) {
				t.Errorf("%s: %v", what, err)
			}
		}
		if _, err := s.SearchText(t.Context(), "t", TextSearch{Query: query.NewMatchQuery("x"), Limit: 0}, parts...); !errors.Is(err, ErrInvalid) {
			t.Errorf("limit 0: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := s.SearchText(ctx, "t", TextSearch{Query: query.NewMatchQuery("x"), Limit: 1}, parts...); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
	}
	if err := set.Fail("t", errors.New("broken")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.SearchText(t.Context(), "t", TextSearch{Query: query.NewMatchQuery("x"), Limit: 1}, Part{Set: set}); !errors.Is(err, ErrFailed) {
		t.Errorf("failed: %v", err)
	}
}

func fuzzyBy(w string, n int) query.Query {
	q := query.NewFuzzyQuery(w)
	q.SetFuzziness(n)
	return q
}

// TestTextWords: what words, characters and phrases are.
func TestTextWords(t *testing.T) {
	x := newTextTable(t, false, true, Text{})
	one := func(s string) doc { return doc{texts: []string{s}} }
	x.put(one("Müller lives in 東京"), one("mueller"), one("ab cd ef"), doc{texts: []string{"ab", "cd ef"}}, one("🙂 smile"), one("cd ab"))
	phrase := func(s string) query.Query { return query.NewMatchPhraseQuery(s) }
	for _, c := range []struct {
		q    query.Query
		want string
	}{
		{query.NewMatchQuery("MÜLLER"), "[0]"},
		{query.NewMatchQuery("東"), "[0]"},
		{fuzzyBy("muller", 1), "[0 1]"}, // one character, two bytes
		{fuzzyBy("mulelr", 2), "[0 1]"},
		{fuzzyBy("muelelr", 1), "[1]"}, // a swap
		{fuzzyBy("ueller", 1), "[1]"},
		{fuzzyBy("dc", 1), "[5 2 3]"},
		{phrase("ab cd"), "[2]"}, // not over elements
		{phrase("cd ef"), "[3 2]"},
		{phrase("lives in 東"), "[0]"}, // over a stop word
		{query.NewMatchQuery("the of and"), "[]"},
		{query.NewPrefixQuery("mü"), "[0]"},
	} {
		got := ordinals(x.search(c.q, 10, 6))
		if fmt.Sprint(got) != c.want && len(fmt.Sprint(got)) != len(c.want) {
			t.Errorf("%s: %v, want %s", describe(c.q), got, c.want)
		}
		if err := x.check(c.q, 10, 6); err != nil {
			t.Error(err)
		}
	}
}

// TestTextTies: equal scores come in the order of ordinals, over memtables, and however
// many there are.
func TestTextTies(t *testing.T) {
	x := newTextTable(t, false, false, Text{})
	var want []uint64
	for i := range 300 {
		if i%50 == 49 {
			x.rotate()
		}
		x.put(textDoc(0, "equal"))
		want = append(want, uint64(i))
	}
	for _, limit := range []int{1, 7, 30, 299, 300, math.MaxInt} {
		if got := ordinals(x.search(query.NewTermQuery("equal"), limit, 300)); fmt.Sprint(got) != fmt.Sprint(want[:min(limit, 300)]) {
			t.Errorf("limit %d: %v", limit, got)
		}
	}
}

// TestTextConcurrentReaders: one writer, and readers at bounds up to what is applied.
// What they get depends on the bound alone.
func TestTextConcurrentReaders(t *testing.T) {
	r := rand.New(rand.NewPCG(31, 32))
	x := newTextTable(t, true, false, Text{})
	var history []doc
	for range 600 {
		history = append(history, randomDoc(r, true, false))
	}
	// The model of the whole history has the answers for every bound.
	whole := newTextTable(t, true, false, Text{})
	whole.put(history...)
	x.put(history[:100]...)
	x.rotate()
	active := x.tabs[1]
	x.docs = history
	var recs []arrow.RecordBatch
	for i := 100; i < len(history); i += 10 {
		recs = append(recs, x.batch(history[i:i+10]))
	}
	var done atomic.Bool
	var wg sync.WaitGroup
	for reader := range 3 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(reader), 33))
			for last := false; !last && !t.Failed(); {
				last = done.Load()
				bound := 100 + uint64(active.set.Applied())
				if r.IntN(2) == 0 {
					bound = r.Uint64N(bound + 1)
				}
				q := randomQuery(r, 0, true)
				if err := same(x.search(q, 20, bound), whole.search(q, 20, bound), 1e-9); err != nil {
					t.Errorf("%s at %d: %v", describe(q), bound, err)
				}
			}
		})
	}
	for _, rec := range recs {
		active.apply(t, rec)
		runtime.Gosched()
	}
	done.Store(true)
	wg.Wait()
}

// TestTextCollisions: terms whose hashes are equal are told apart.
func TestTextCollisions(t *testing.T) {
	x := newTextTable(t, true, false, Text{})
	x.spec.weaken = func(uint64) uint64 { return 1<<64 - 1 }
	x.tabs, x.first = nil, nil
	x.rotate()
	for i := range int64(200) {
		x.put(textDoc(i, fmt.Sprintf("w%d common w%d", i, i/2)))
	}
	for i := range 200 {
		if err := x.check(query.NewTermQuery(fmt.Sprintf("w%d", i)), 10, 200); err != nil {
			t.Fatal(err)
		}
		if got := x.search(query.NewTermQuery(fmt.Sprintf("w%d", i)), 10, 200); len(got) < 1 {
			t.Fatalf("w%d: %v", i, got)
		}
	}
}

// TestTextLongPostings: terms in very many rows, very often in one row, and rows far
// apart, also when it is advanced through.
func TestTextLongPostings(t *testing.T) {
	x := newTextTable(t, false, false, Text{Analyzer: "simple"})
	var docs []doc
	for i := range 30_000 {
		s := "all"
		if i%7 == 0 {
			s += " seven"
		}
		if i%1111 == 0 {
			s += " rare" + strings.Repeat(" often", i/3)
		}
		docs = append(docs, textDoc(0, s))
	}
	for i := 0; i < len(docs); i += 1000 {
		x.put(docs[i : i+1000]...)
	}
	all := query.NewMatchQuery("all seven rare often")
	all.SetOperator(query.MatchQueryOperatorAnd)
	got := x.search(all, 100, 30_000)
	if len(got) != 3 {
		t.Errorf("%d hits, want those of 7777, 15554 and 23331: %v", len(got), got)
	}
	if got := x.search(query.NewTermQuery("all"), 40_000, 29_999); len(got) != 29_999 {
		t.Errorf("%d hits", len(got))
	}
	if got := x.search(query.NewMatchPhraseQuery("rare often often"), 100, 30_000); len(got) != 27 {
		t.Errorf("%d phrases", len(got))
	}
}

// TestSearchChecksItsParts: parts that a caller has put together wrongly are refused
// rather than searched with wrong scores.
func TestSearchChecksItsParts(t *testing.T) {
	x, other := newTextTable(t, true, false, Text{}), newTextTable(t, true, false, Text{})
	for _, table := range []*textTable{x, other} {
		table.put(textDoc(1, "word"), textDoc(2, "word"))
	}
	set := x.tabs[0].set
	frozen := openFrozen(t, x.spec, "body", FrozenBytes(freeze(t, set, "body", identity)), FrozenOptions{})
	for what, parts := range map[string][]Part{
		"neither":                      {{}},
		"with an Index":                {{Frozen: &FrozenPart{}}},
		"of another Spec":              {{Set: other.tabs[0].set, Bound: 2}},
		"bounded at slot 9":            {{Set: set, Bound: 9}},
		"begins at ordinal 1":          {{Set: set, Bound: 2}, {Set: set, First: 1}},
		"begins at ordinal 0":          {{Frozen: &FrozenPart{Index: frozen}}, {Set: set}},
		"newer than one that is not":   {{Set: set, Bound: 2}, {Frozen: &FrozenPart{Index: frozen}, First: 2}},
		"rows with 3 terms are hidden": {{Frozen: &FrozenPart{Index: frozen, HiddenTerms: 3}}},
	} {
		_, err := x.spec.SearchText(t.Context(), "body", TextSearch{Query: query.NewMatchQuery("word"), Limit: 1}, parts...)
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
