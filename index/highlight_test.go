package index

import (
	"context"
	"errors"
	"fmt"
	"html"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/blevesearch/bleve/v2/search"
	"github.com/blevesearch/bleve/v2/search/query"
)

// highlighted are the fragments of an ordinal.
func (x *textTable) highlighted(q query.Query, how Highlight, ordinal uint64) []Fragment {
	x.t.Helper()
	h, err := x.spec.NewHighlighter("body", q, how)
	if err != nil {
		x.t.Fatal(err)
	}
	i := len(x.tabs) - 1
	for x.first[i] > ordinal {
		i--
	}
	rec, row := x.tabs[i].rows.Locate(uint32(ordinal - x.first[i]))
	fs, err := h.Row(x.t.Context(), rec, row)
	if err != nil {
		x.t.Fatal(err)
	}
	return fs
}

func phrase(s string) query.Query { return query.NewMatchPhraseQuery(s) }

func prefix(s string) query.Query { return query.NewPrefixQuery(s) }

func queryString(s string) query.Query { return query.NewQueryStringQuery(s) }

// TestHighlight: what is marked is what makes the row match, for each kind of query.
func TestHighlight(t *testing.T) {
	marks := Highlight{Before: "[", After: "]"}
	for _, c := range []struct {
		analyzer string
		texts    []string
		q        query.Query
		how      Highlight
		want     string
	}{
		{"", []string{"The quick brown fox"}, query.NewMatchQuery("FOX quick"), marks, "The [quick] brown [fox]"},
		{"en", []string{"He was running along"}, query.NewMatchQuery("run"), marks, "He was [running] along"},
		{"", []string{"a red fox, a fox in red, red fox"}, phrase("red fox"), marks, "a [red] [fox], a fox in red, [red] [fox]"},
		{"", []string{"lakes of the north"}, phrase("lakes of the north"), marks, "[lakes] of the [north]"},
		{"", []string{"mountain mount amount"}, prefix("mount"), marks, "[mountain] [mount] amount"},
		{"", []string{"bord bird beard"}, fuzzyBy("bird", 1), marks, "[bord] [bird] beard"},
		{"", []string{"bord bird beard"}, fuzzyBy("bird", 2), marks, "[bord] [bird] [beard]"},
		{"", []string{"cat cut coat"}, query.NewWildcardQuery("c?t"), marks, "[cat] [cut] coat"},
		{"simple", []string{"ab a abc"}, query.NewRegexpQuery("a|ab"), marks, "[ab] [a] abc"},
		{"simple", []string{"alpha beta gamma"}, query.NewTermRangeQuery("b", "d"), marks, "alpha [beta] gamma"},
		{"", []string{"fish and bird and cat"}, queryString("+fish -dog cat"), marks, "[fish] and bird and [cat]"},
		{"", []string{"fish and bird"}, queryString("-dog"), marks, "fish and bird"},
		{"", []string{"fish 42 bird"}, queryString("42"), marks, "fish [42] bird"},
		{"", []string{"fish"}, query.NewMatchAllQuery(), marks, "fish"},
		{"", []string{"", "ab", "cd ef"}, phrase("cd ef"), marks, "2:[cd] [ef]"},
		{"", []string{"ef", "ab cd", "<null>", "cd"}, query.NewMatchQuery("cd"), marks, "1:ab [cd] | 3:[cd]"},
		{"cjk", []string{"私は東京都に住む"}, query.NewMatchQuery("東京都"), marks, "私は[東京都]に住む"},
		{"", []string{"🙂 Müller 🙂"}, query.NewMatchQuery("müller"), marks, "🙂 [Müller] 🙂"},
		{"", []string{"cafe\u0301 au lait"}, query.NewMatchQuery("lait"), marks, "cafe\u0301 au [lait]"},
		{"fa", []string{"می\u200cروم به خانه"}, query.NewMatchQuery("خانه"), marks, "می\u200cروم به [خانه]"},
		{"keyword", []string{"Two Words"}, query.NewTermQuery("Two Words"), marks, "[Two Words]"},
		{"", []string{`<b>"fish" & chips</b>`}, query.NewMatchQuery("chips"), Highlight{HTML: true}, `&lt;b&gt;&#34;fish&#34; &amp; <mark>chips</mark>&lt;/b&gt;`},
		{"", []string{`<b>fish</b>`}, query.NewMatchQuery("fish"), Highlight{HTML: true, Before: "<i>", After: "</i>"}, `&lt;b&gt;<i>fish</i>&lt;/b&gt;`},
		{"", []string{"fish"}, query.NewMatchQuery("fish"), Highlight{}, "fish"},
		{"", []string{"one two three four five six seven eight nine"}, query.NewMatchQuery("five"), Highlight{Before: "[", After: "]", Size: 20}, "four [five] six"},
		{"", []string{"fish " + strings.Repeat("x ", 100) + "bird fish"}, query.NewMatchQuery("fish bird"), Highlight{Before: "[", After: "]", Size: 12, Fragments: 1}, "x [bird] [fish]"},
		{"", []string{"fish " + strings.Repeat("x ", 100) + "bird fish"}, query.NewMatchQuery("fish bird"), Highlight{Before: "[", After: "]", Size: 12}, "[fish] x x x x | x [bird] [fish]"},
		{"simple", []string{"fish a b c bird"}, query.NewMatchQuery("fish bird"), Highlight{Before: "[", After: "]", Size: 9}, "[fish] a b | c [bird]"},
		{"simple", []string{strings.Repeat("q", 100)}, query.NewMatchQuery(strings.Repeat("q", 100)), Highlight{Before: "[", After: "]", Size: 5}, "[qqqqq]"},
	} {
		x := newTextTable(t, false, len(c.texts) > 1, Text{Analyzer: c.analyzer})
		x.put(doc{texts: c.texts})
		if hits := x.search(c.q, 1, 1); len(hits) != 1 {
			t.Errorf("%s does not match %q", describe(c.q), c.texts)
		}
		var got []string
		for _, f := range x.highlighted(c.q, c.how, 0) {
			s := f.Text
			if f.Element > 0 {
				s = fmt.Sprintf("%d:%s", f.Element, s)
			}
			got = append(got, s)
		}
		if s := strings.Join(got, " | "); s != c.want {
			t.Errorf("%s in %q:\ngot  %s\nwant %s", describe(c.q), c.texts, s, c.want)
		}
	}
}

// TestHighlightModel: of random rows and queries, with each analyzer, every fragment and
// match lies where it says, and its text is that of the row with the marks; of words, it
// is those that the analyzer finds, and no others.
func TestHighlightModel(t *testing.T) {
	r := rand.New(rand.NewPCG(81, 82))
	marked := 0
	for _, analyzer := range Analyzers() {
		x := newTextTable(t, false, true, Text{Analyzer: analyzer})
		for range 12 {
			x.put(randomDoc(r, false, true))
		}
		for range 20 {
			q := randomQuery(r, 0, true)
			how := Highlight{Fragments: 1 + r.IntN(4), Size: pick(r, 1, 7, 30, 500), Before: "\x00", After: "\x01", HTML: r.IntN(2) == 0}
			for _, hit := range x.search(q, 5, uint64(len(x.docs))) {
				texts := x.docs[hit.ordinal].texts
				checkWords(t, x, randomText(r, 3), hit.ordinal)
				fs := x.highlighted(q, how, hit.ordinal)
				if len(fs) > how.Fragments {
					t.Fatalf("%d fragments", len(fs))
				}
				for i, f := range fs {
					text := texts[f.Element]
					if f.Start < 0 || f.End < f.Start || f.End > len(text) || utf8.RuneCountInString(text[f.Start:f.End]) > how.Size {
						t.Fatalf("%+v of %q", f, text)
					}
					if i > 0 && (fs[i-1].Element > f.Element || fs[i-1].Element == f.Element && fs[i-1].End > f.Start) {
						t.Fatalf("fragments overlap, or are out of order: %+v", fs)
					}
					at, want := f.Start, ""
					put := func(s string) {
						if how.HTML {
							s = html.EscapeString(s)
						}
						want += s
					}
					for _, m := range f.Matches {
						if m.Start < at || m.End <= m.Start || m.End > f.End {
							t.Fatalf("%+v of %q", f, text)
						}
						put(text[at:m.Start])
						want += "\x00"
						put(text[m.Start:m.End])
						want += "\x01"
						at = m.End
						marked++
					}
					put(text[at:f.End])
					if f.Text != want {
						t.Fatalf("%q, want %q", f.Text, want)
					}
				}
			}
		}
	}
	if marked < 300 {
		t.Errorf("only %d matches: a poor test", marked)
	}
}

// checkWords compares what is marked of a row for a match query with its analysis.
func checkWords(t *testing.T, x *textTable, words string, ordinal uint64) {
	spec := x.spec.kinds[0].(*textSpec)
	wanted := make(map[string]bool)
	for _, k := range spec.analyzer.Analyze([]byte(words)) {
		wanted[string(k.Term)] = true
	}
	want := ""
	for e, text := range x.docs[ordinal].texts {
		in := make([]bool, len(text))                                    // bytes that are marked
		if text != "" && text != "<null>" && spec.cfg.Analyzer != "fa" { // which shifts places
			for _, k := range spec.analyzer.Analyze([]byte(text)) {
				for i := k.Start; i < k.End && wanted[string(k.Term)]; i++ {
					in[i] = true
				}
			}
		}
		want += fmt.Sprint(e, in)
	}
	in := make(map[int][]bool)
	for _, f := range x.highlighted(query.NewMatchQuery(words), Highlight{Size: 10_000, Fragments: 100}, ordinal) {
		if in[f.Element] == nil {
			in[f.Element] = make([]bool, len(x.docs[ordinal].texts[f.Element]))
		}
		for _, m := range f.Matches {
			for i := m.Start; i < m.End; i++ {
				in[f.Element][i] = true
			}
		}
	}
	got := ""
	for e, text := range x.docs[ordinal].texts {
		if in[e] == nil {
			in[e] = make([]bool, len(text))
		}
		got += fmt.Sprint(e, in[e])
	}
	if got != want && spec.cfg.Analyzer != "fa" {
		t.Fatalf("%s: %q in %q:\ngot  %s\nwant %s", spec.cfg.Analyzer, words, x.docs[ordinal].texts, got, want)
	}
}

// TestHighlightRefuses: what a search refuses, and a context that has ended.
func TestHighlightRefuses(t *testing.T) {
	x := newTextTable(t, false, false, Text{NoPositions: true})
	x.put(textDoc(1, "fish"), doc{id: 2})
	for _, q := range []query.Query{nil, queryString(`"`), queryString("other:x"), phrase("a b")} {
		if _, err := x.spec.NewHighlighter("body", q, Highlight{}); !errors.Is(err, ErrInvalid) {
			t.Errorf("%v: %v", q, err)
		}
	}
	if _, err := x.spec.NewHighlighter("body", query.NewMatchAllQuery(), Highlight{Size: -1}); !errors.Is(err, ErrInvalid) {
		t.Errorf("size: %v", err)
	}
	if _, err := x.spec.NewHighlighter("none", query.NewMatchAllQuery(), Highlight{}); !errors.Is(err, ErrNoIndex) {
		t.Errorf("index: %v", err)
	}
	// Words need no positions in the index.
	if fs := x.highlighted(query.NewMatchQuery("fish"), Highlight{}, 0); len(fs) != 1 || len(fs[0].Matches) != 1 {
		t.Errorf("%+v", fs)
	}
	if fs := x.highlighted(query.NewMatchAllQuery(), Highlight{}, 1); len(fs) != 0 {
		t.Errorf("null: %+v", fs)
	}
	h, err := x.spec.NewHighlighter("body", query.NewMatchQuery("fish"), Highlight{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	rec, row := x.tabs[0].rows.Locate(0)
	if _, err := h.Row(ctx, rec, row); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// TestHighlightWithoutCallbacks: what decides by a row's number has decided.
func TestHighlightWithoutCallbacks(t *testing.T) {
	x := newTextTable(t, false, false, Text{})
	x.put(textDoc(1, "cat"), textDoc(2, "fish"))
	second := query.NewCustomFilterQueryWithFilter(query.NewMatchQuery("fish cat"),
		func(_ context.Context, d *search.DocumentMatch) (bool, error) {
			return d.IndexInternalID.Value() == 1, nil
		}, nil, nil)
	if got := ordinals(x.search(second, 10, 2)); fmt.Sprint(got) != "[1]" {
		t.Errorf("%v", got)
	}
	if fs := x.highlighted(second, Highlight{Before: "[", After: "]"}, 1); len(fs) != 1 || fs[0].Text != "[fish]" {
		t.Errorf("%+v", fs)
	}
}

// TestHighlighterIsForMany: goroutines may share one.
func TestHighlighterIsForMany(t *testing.T) {
	x := newTextTable(t, false, false, Text{})
	x.put(textDoc(0, "song bird 42"))
	h, err := x.spec.NewHighlighter("body", queryString(`"song bird" 42 sonk~1 bir*`), Highlight{})
	if err != nil {
		t.Fatal(err)
	}
	rec, row := x.tabs[0].rows.Locate(0)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 50 {
				if fs, err := h.Row(t.Context(), rec, row); err != nil || len(fs) != 1 || len(fs[0].Matches) != 3 {
					t.Error(fs, err)
				}
			}
		})
	}
	wg.Wait()
}
