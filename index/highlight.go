package index

import (
	"cmp"
	"context"
	"fmt"
	"html"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/blevesearch/bleve/v2/analysis"
	"github.com/blevesearch/bleve/v2/search"
	"github.com/blevesearch/bleve/v2/search/query"
	blevindex "github.com/blevesearch/bleve_index_api"
)

// Highlight says how to show where a query matches a text.
type Highlight struct {
	// Fragments is how many pieces of a row's text there are at most. Default 3.
	Fragments int
	// Size is how many characters a fragment has at most. Default 160.
	Size int
	// Before and After are put around what matched. Default: nothing; with HTML, <mark>
	// and </mark>.
	Before, After string
	// HTML escapes the text, but not Before and After, for HTML.
	HTML bool
}

// Fragment is a piece of a text with what matched in it.
type Fragment struct {
	Element    int    // of a list, from 0; 0 for text
	Start, End int    // bytes of the element's text that the fragment is
	Matches    []Span // within the fragment, in order, apart from each other
	Text       string // the fragment, with marks around the matches
}

// Span is a part of a text, in bytes from its beginning.
type Span struct{ Start, End int }

// Highlighter finds where a query matches rows. Any number of goroutines may use it at
// once.
type Highlighter struct {
	spec  *textSpec
	query query.Query
	how   Highlight
}

// NewHighlighter returns a Highlighter for the hits of a query in a text index. A query
// that the index cannot answer is a *QueryError, a Highlight that makes no sense another
// error that matches ErrInvalid.
func (s *Spec) NewHighlighter(name string, q query.Query, how Highlight) (h *Highlighter, err error) {
	defer contain(name, &err)
	spec, err := s.text(name)
	if err != nil {
		return nil, err
	}
	if how.Fragments < 0 || how.Size < 0 {
		return nil, &optionError{fmt.Sprintf("Highlight.Fragments is %d and Highlight.Size %d, must not be negative", how.Fragments, how.Size)}
	}
	how.Fragments, how.Size = cmp.Or(how.Fragments, 3), cmp.Or(how.Size, 160)
	if how.HTML && how.Before == "" && how.After == "" {
		how.Before, how.After = "<mark>", "</mark>"
	}
	// What filters or scores by a row's number has done so already.
	if q, err = checkQuery(spec, q, withoutCallbacks); err != nil {
		return nil, err
	}
	return &Highlighter{spec: spec, query: q, how: how}, nil
}

// Row returns the fragments of a row of the storage schema with the most different
// terms of the query, in the order of the text. They show what really makes the row
// match: of a phrase only its words where they follow each other, of a prefix or a fuzzy
// word what it stands for. If nothing of the text does (as where the query is "all rows
// but"), there is one fragment, its beginning. A row without text has none.
//
// The row is analysed again. Fragments share no memory with it.
func (h *Highlighter) Row(ctx context.Context, rec arrow.RecordBatch, row int) (fragments []Fragment, err error) {
	defer contain(h.spec.cfg.Name, &err)
	col := newTextColumn(rec.Column(h.spec.col))
	from, to := col.span(row)
	r := &rowReader{spec: h.spec, places: make(map[string][]*blevindex.TermFieldVector)}
	texts := make([]string, 0, to-from)
	for i := from; i < to; i++ {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		r.add(len(texts), col.at(i))
		texts = append(texts, col.at(i))
	}
	matches, err := h.matches(ctx, r, len(texts))
	if err != nil {
		return nil, err
	}
	var all []piece
	for e, text := range texts {
		all = h.pieces(all, e, text, matches[e])
	}
	if all == nil {
		for e, text := range texts {
			if text != "" {
				all = append(all, piece{element: e, end: forward(text, 0, len(text), h.how.Size)})
				break
			}
		}
	}
	slices.SortStableFunc(all, func(a, b piece) int {
		return cmp.Or(cmp.Compare(b.terms, a.terms), cmp.Compare(len(b.spans), len(a.spans)))
	})
	all = all[:min(len(all), h.how.Fragments)]
	slices.SortFunc(all, func(a, b piece) int { return cmp.Or(cmp.Compare(a.element, b.element), cmp.Compare(a.start, b.start)) })
	out := make([]Fragment, len(all))
	for i, p := range all {
		out[i] = h.fragment(p, texts[p.element])
	}
	return out, nil
}

// match is where a term of the query is in an element.
type match struct {
	Span
	term string
}

// matches runs the query over the row and returns what matched in each element, in
// order.
func (h *Highlighter) matches(ctx context.Context, r *rowReader, elements int) ([][]match, error) {
	found := make([][]match, elements)
	failure := func(err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return &QueryError{Index: h.spec.cfg.Name, Err: err}
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	s, err := h.query.Searcher(ctx, r, h.spec.mapping, search.SearcherOptions{IncludeTermVectors: true})
	if err != nil {
		return nil, failure(err)
	}
	defer s.Close()
	hit, err := s.Next(&search.SearchContext{DocumentMatchPool: search.NewDocumentMatchPool(s.DocumentMatchPoolSize()+1, 0), IndexReader: r})
	if err != nil {
		return nil, failure(err)
	}
	if hit == nil {
		return found, nil
	}
	for _, l := range hit.FieldTermLocations {
		if l.Location.Start == l.Location.End {
			continue // it has no place
		}
		e := int(l.Location.ArrayPositions[0])
		found[e] = append(found[e], match{Span{int(l.Location.Start), int(l.Location.End)}, l.Term})
	}
	for _, m := range found {
		slices.SortFunc(m, func(a, b match) int { return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.End, b.End)) })
	}
	return found, nil
}

// piece is a Fragment in the making.
type piece struct {
	element    int
	start, end int
	spans      []Span
	terms      int // different ones
}

// pieces cuts what matched in an element into pieces, from its beginning on.
func (h *Highlighter) pieces(to []piece, element int, text string, matches []match) []piece {
	low := 0 // where the last piece ended
	for len(matches) > 0 {
		p := piece{element: element, start: matches[0].Start, end: matches[0].End}
		size, terms := utf8.RuneCountInString(text[p.start:p.end]), make(map[string]bool)
		n := 0
		for ; n < len(matches); n++ {
			m := matches[n]
			if m.End > p.end {
				more := utf8.RuneCountInString(text[p.end:m.End])
				if size+more > h.how.Size && m.Start >= p.end {
					break
				}
				p.end, size = m.End, size+more
			}
			terms[m.term] = true
			if last := len(p.spans) - 1; last >= 0 && m.Start < p.spans[last].End {
				p.spans[last].End = max(p.spans[last].End, m.End)
			} else {
				p.spans = append(p.spans, m.Span)
			}
		}
		matches, p.terms = matches[n:], len(terms)
		high := len(text)
		if len(matches) > 0 {
			high = matches[0].Start
		}
		if size > h.how.Size {
			p.cut(forward(text, p.start, p.end, h.how.Size))
		} else {
			p.widen(text, low, high, h.how.Size-size)
		}
		low = p.end
		to = append(to, p)
	}
	return to
}

// cut ends a piece at a place.
func (p *piece) cut(end int) {
	p.end = end
	for i := range p.spans {
		p.spans[i].End = min(p.spans[i].End, end)
	}
}

// widen puts characters of the text around a piece, not beyond low and high, about as
// many before it as behind it, and rather whole words than parts.
func (p *piece) widen(text string, low, high, room int) {
	first, last := p.start, p.end
	start := backward(text, low, first, room/2)
	room -= utf8.RuneCountInString(text[start:first])
	end := forward(text, last, high, room)
	room -= utf8.RuneCountInString(text[last:end])
	start = backward(text, low, start, room)
	if start > 0 && !between(text, start) {
		if i := strings.IndexFunc(text[start:first], unicode.IsSpace); i >= 0 {
			start += i
		}
	}
	if end < len(text) && !between(text, end) {
		if i := strings.LastIndexFunc(text[last:end], unicode.IsSpace); i >= 0 {
			end = last + i
		}
	}
	p.start = first - len(strings.TrimLeftFunc(text[start:first], unicode.IsSpace))
	p.end = last + len(strings.TrimRightFunc(text[last:end], unicode.IsSpace))
}

// between tells whether there is space at one side of a place.
func between(text string, i int) bool {
	before, _ := utf8.DecodeLastRuneInString(text[:i])
	after, _ := utf8.DecodeRuneInString(text[i:])
	return unicode.IsSpace(before) || unicode.IsSpace(after)
}

// forward is the place n characters behind i, at most to.
func forward(text string, i, to, n int) int {
	for ; n > 0 && i < to; n-- {
		_, size := utf8.DecodeRuneInString(text[i:])
		i += size
	}
	return min(i, to)
}

// backward is the place n characters before i, at least from.
func backward(text string, from, i, n int) int {
	for ; n > 0 && i > from; n-- {
		_, size := utf8.DecodeLastRuneInString(text[:i])
		i -= size
	}
	return max(i, from)
}

func (h *Highlighter) fragment(p piece, text string) Fragment {
	f := Fragment{Element: p.element, Start: p.start, End: p.end, Matches: p.spans}
	var b strings.Builder
	put := func(s string) {
		if h.how.HTML {
			s = html.EscapeString(s)
		}
		b.WriteString(s)
	}
	at := p.start
	for _, m := range p.spans {
		put(text[at:m.Start])
		b.WriteString(h.how.Before)
		put(text[m.Start:m.End])
		b.WriteString(h.how.After)
		at = m.End
	}
	put(text[at:p.end])
	f.Text = b.String()
	return f
}

// analyzed gives the terms of a text with their places in it. A term without a place,
// as an analyzer may make some, has an empty one.
func (t *textSpec) analyzed(text string) analysis.TokenStream {
	input := []byte(text) // analyzers change it
	tokens := t.analyzer.Analyze(input)
	var places []int
	if a, ok := t.analyzer.(*analysis.DefaultAnalyzer); ok && len(a.CharFilters) > 0 {
		input = []byte(text)
		for _, f := range a.CharFilters {
			input = f.Filter(input)
		}
		places = align(text, string(input))
	}
	for _, k := range tokens {
		if places != nil && max(k.Start, k.End) < len(places) {
			k.Start, k.End = places[k.Start], places[k.End]
		}
		if k.Start < 0 || k.End > len(text) || k.Start >= k.End || !boundary(text, k.Start) || !boundary(text, k.End) {
			k.Start, k.End = 0, 0
		}
	}
	return tokens
}

// align gives the place in text of each byte of changed, in which some characters were
// replaced by another one each, and of its end. Nil: it is not so.
func align(text, changed string) []int {
	places := make([]int, 0, len(changed)+1)
	i := 0
	for j := 0; j < len(changed); {
		if i == len(text) {
			return nil
		}
		_, n := utf8.DecodeRuneInString(changed[j:])
		_, size := utf8.DecodeRuneInString(text[i:])
		for k := range n {
			places = append(places, i+min(k, size))
		}
		i, j = i+size, j+n
	}
	if i < len(text) {
		return nil
	}
	return append(places, i)
}

// boundary tells whether a character begins at a place, or the text ends.
func boundary(text string, i int) bool { return i == len(text) || utf8.RuneStart(text[i]) }
