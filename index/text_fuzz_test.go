package index

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/blevesearch/bleve/v2/search/query"
)

// FuzzQueryString: whatever is typed gives hits or an error that says it is invalid: soon,
// and never a panic. The highlighter takes what the search takes.
func FuzzQueryString(f *testing.F) {
	for _, s := range []string{
		"", " ", "fish", "+fish -bird", `"fish soup"`, "fi*", "f?sh^3", "/fi.*/", "fisch~1", "fish~9", "fish~NaN", "body:fish", "title:fish", "42", "-4.2e9999",
		"body:>5", "lake body:>5", "5 body:<=5", `body:<="2020-01-01"`, `"open`, "a:", "+", "-", "~", "^", "fish^NaN", "fish^-1", "fish^1e300", "fish^0", `\`, `a\`, "(((", "/(/", "/(a{1000}){1000}/", "/a**/",
		"/" + strings.Repeat("(", 500) + "/", strings.Repeat("*", 300), strings.Repeat("?", 300), strings.Repeat("fish ", 300), "\x00\xff", "東京~1", "🙂*", `"fish fish fish fish"`,
	} {
		f.Add(s)
	}
	x := newTextTable(f, false, false, Text{})
	x.put(textDoc(0, "fish soup and fish"), textDoc(0, "bird 42"), textDoc(0, "東京 🙂 fisch"), textDoc(0, ""), textDoc(0, strings.Repeat("fish ", 200)))
	x.rotate()
	x.put(textDoc(0, "fish~ body:fish \\ \x00"))
	f.Fuzz(func(t *testing.T, s string) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		q := query.NewQueryStringQuery(s)
		hits, err := x.spec.SearchText(ctx, "body", TextSearch{Query: q, Limit: 10}, x.parts(6)...)
		if err != nil {
			if !errors.Is(err, ErrInvalid) {
				t.Fatalf("%q: %v", s, err)
			}
			if e, ok := errors.AsType[*QueryStringError](err); ok && (e.At < 0 || e.At > len(s)) {
				t.Fatalf("%q: at %d", s, e.At)
			}
			return
		}
		h, err := x.spec.NewHighlighter("body", q, Highlight{})
		if err != nil {
			t.Fatalf("%q: %v", s, err)
		}
		for i, hit := range hits {
			if i > 0 && !(hits[i-1].Score >= hit.Score) {
				t.Fatalf("%q: scores %v", s, hits)
			}
			rec, row := x.tabs[hit.Part].rows.Locate(hit.Slot)
			if _, err := h.Row(ctx, rec, row); err != nil {
				t.Fatalf("%q: %v", s, err)
			}
		}
	})
}

// FuzzAnalyzers: every analyzer takes every text, with places that lie in it, and what
// it makes of a text is found in it by the text.
func FuzzAnalyzers(f *testing.F) {
	for _, s := range []string{"", "fish", "\xff\xfe", "a\u200cb", "É́cole l'avion", "東京ﾄｳｷｮｳ", "🙂👩‍👩‍👧", "\u0000", strings.Repeat("x", 300), "हिन्दी भाषा", "كتاب الله", "İIıi ß ﬁ"} {
		f.Add(s)
	}
	var tables []*textTable
	for _, analyzer := range Analyzers() {
		tables = append(tables, newTextTable(f, false, false, Text{Analyzer: analyzer}))
	}
	f.Fuzz(func(t *testing.T, s string) {
		x := *tables[0]
		x.t = t
		rec := x.batch([]doc{textDoc(0, s)})
		for _, x := range tables {
			spec := x.spec.kinds[0].(*textSpec)
			placed := 0
			for _, k := range spec.analyzed(s) {
				if k.Start < 0 || k.End < k.Start || k.End > len(s) {
					t.Fatalf("%s: %q: %+v", spec.cfg.Analyzer, s, k)
				}
				if k.Start < k.End {
					placed++
				}
			}
			h, err := x.spec.NewHighlighter("body", query.NewMatchQuery(s), Highlight{Size: 1000})
			if len(s) > MaxQueryText || placed > MaxQueryTerms {
				return
			}
			if err != nil {
				t.Fatalf("%s: %q: %v", spec.cfg.Analyzer, s, err)
			}
			fs, err := h.Row(t.Context(), rec, 0)
			if err != nil {
				t.Fatalf("%s: %q: %v", spec.cfg.Analyzer, s, err)
			}
			if marked := len(fs) > 0 && len(fs[0].Matches) > 0; marked != (placed > 0) {
				t.Fatalf("%s: %q has %d terms in places, and the fragments %+v", spec.cfg.Analyzer, s, placed, fs)
			}
		}
	})
}
