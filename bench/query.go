package main

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/blevesearch/bleve/v2/analysis"
	"github.com/blevesearch/bleve/v2/mapping"
	"github.com/blevesearch/bleve/v2/search/query"
	"github.com/memwal/memwal-go/index"
	"github.com/memwal/memwal-go/memwal"
)

const (
	queryLimit = 10     // hits of a search
	querySeen  = 20_000 // rows of the input in which terms are counted, before the clock starts
	queryRare  = 1000   // a rare term is in at most one of so many of them
	prefixLen  = 3      // letters
)

// queryKind is a kind of query of -query.
type queryKind int

const (
	queryRareTerm queryKind = iota
	queryCommonTerm
	queryMatch
	queryPhrase
	queryPrefix
	queryLookup
	queryCount
	queryKinds
)

var queryNames = [queryKinds]string{"rare", "common", "match", "phrase", "prefix", "lookup", "count"}

// wording is what queries are drawn with: how text becomes terms, and how frequent
// these are. Immutable.
type wording struct {
	col      int
	analyzer analysis.Analyzer
	rows     int            // that were looked at
	in       map[string]int // how many of these a term is in
}

// newWording counts the terms of the input's first rows.
func newWording(src source, cfg index.Text) (*wording, error) {
	w := &wording{col: src.Schema().FieldIndices(cfg.Column.Name)[0], in: map[string]int{}}
	switch t := src.Schema().Field(w.col).Type; t.ID() {
	case arrow.STRING, arrow.LARGE_STRING, arrow.STRING_VIEW:
	default:
		return nil, usagef("-query draws its queries from text of type utf8, and column %q is %v: choose another column for the text index, or leave out -query", cfg.Column.Name, t)
	}
	name := cmp.Or(cfg.Analyzer, index.DefaultAnalyzer)
	if w.analyzer = mapping.NewIndexMapping().AnalyzerNamed(name); w.analyzer == nil {
		return nil, usagef("-query: there is no analyzer %q", name)
	}
	for rec, err := range src.Batches() {
		if err != nil {
			return nil, err
		}
		for row := range int(rec.NumRows()) {
			if w.rows == querySeen {
				break
			}
			w.rows++
			seen := map[string]bool{}
			for _, t := range w.terms(w.text(rec, row)) {
				if term := string(t.Term); !seen[term] {
					seen[term] = true
					w.in[term]++
				}
			}
		}
		rec.Release()
		if w.rows == querySeen {
			break
		}
	}
	if len(w.in) == 0 {
		return nil, usagef("-query finds no term in the first %s rows of column %q: choose another column for the text index, or leave out -query", group(int64(w.rows)), cfg.Column.Name)
	}
	return w, nil
}

// text is that of a row, "" for a null.
func (w *wording) text(rec arrow.RecordBatch, row int) string {
	col := rec.Column(w.col)
	if col.IsNull(row) {
		return ""
	}
	return col.(interface{ Value(int) string }).Value(row)
}

func (w *wording) terms(text string) analysis.TokenStream { return w.analyzer.Analyze([]byte(text)) }

// textQuery is a query that finds a known row.
type textQuery struct {
	query.Query
	text    string // for errors
	matches func(analysis.TokenStream) bool
}

// draw makes a query of a kind that the row with this text matches. It returns false if
// there is none: phrases, for instance, take two terms side by side.
func (w *wording) draw(rng *rand.Rand, kind queryKind, text string) (textQuery, bool) {
	terms := w.terms(text)
	if len(terms) == 0 {
		return textQuery{}, false
	}
	switch kind {
	case queryRareTerm:
		return termQuery(w.rare(terms)), true
	case queryCommonTerm:
		common := slices.MaxFunc(terms, func(a, b *analysis.Token) int { return w.in[string(a.Term)] - w.in[string(b.Term)] })
		return termQuery(string(common.Term)), true
	case queryPrefix:
		term := []rune(string(terms[rng.IntN(len(terms))].Term))
		start := string(term[:max(1, min(prefixLen, len(term)-1))])
		return textQuery{query.NewPrefixQuery(start), start + "…", func(ts analysis.TokenStream) bool {
			return slices.ContainsFunc(ts, func(t *analysis.Token) bool { return strings.HasPrefix(string(t.Term), start) })
		}}, true
	case queryMatch:
		a, b := terms[rng.IntN(len(terms))], terms[rng.IntN(len(terms))]
		words := text[a.Start:a.End] + " " + text[b.Start:b.End]
		if string(a.Term) == string(b.Term) || !w.same(words, a, b) {
			return textQuery{}, false
		}
		return textQuery{query.NewMatchQuery(words), words, func(ts analysis.TokenStream) bool { return has(ts, a) || has(ts, b) }}, true
	case queryPhrase:
		if len(terms) < 2 {
			return textQuery{}, false
		}
		i := rng.IntN(len(terms) - 1)
		a, b := terms[i], terms[i+1]
		words := text[a.Start:b.End]
		if b.Position != a.Position+1 || !w.same(words, a, b) {
			return textQuery{}, false
		}
		return textQuery{query.NewMatchPhraseQuery(words), `"` + words + `"`, func(ts analysis.TokenStream) bool {
			for _, t := range ts {
				if string(t.Term) == string(a.Term) && slices.ContainsFunc(ts, func(u *analysis.Token) bool {
					return u.Position == t.Position+1 && string(u.Term) == string(b.Term)
				}) {
					return true
				}
			}
			return false
		}}, true
	}
	panic(fmt.Sprintf("bench: no text query of kind %d", kind))
}

// rare is the most frequent of the terms that are in at most one of queryRare rows;
// where all are more frequent, the rarest.
func (w *wording) rare(terms analysis.TokenStream) string {
	best, in := "", -1
	for _, t := range terms {
		n := w.in[string(t.Term)]
		limit := max(1, w.rows/queryRare)
		switch {
		case in < 0, n <= limit && (in > limit || n > in), n > limit && in > n:
			best, in = string(t.Term), n
		}
	}
	return best
}

// same tells whether words become exactly the terms a and b.
func (w *wording) same(words string, a, b *analysis.Token) bool {
	ts := w.terms(words)
	return len(ts) == 2 && string(ts[0].Term) == string(a.Term) && string(ts[1].Term) == string(b.Term)
}

func termQuery(term string) textQuery {
	return textQuery{query.NewTermQuery(term), term, func(ts analysis.TokenStream) bool { return has(ts, &analysis.Token{Term: []byte(term)}) }}
}

func has(ts analysis.TokenStream, of *analysis.Token) bool {
	return slices.ContainsFunc(ts, func(t *analysis.Token) bool { return string(t.Term) == string(of.Term) })
}

// queriers ask what a service asks, each query of a snapshot of its own, beside the
// putters, and check the answers.
type queriers struct {
	*readers // who knows rows and keys; its run is not used
	rate     float64
	index    string
	words    *wording
	where    memwal.Filter         // of searches and counts; zero: none
	filtered bool                  // where is one
	least    atomic.Int64          // rows that a count has found; fewer must never be there
	took     [queryKinds]latencies // with a unit of a nanosecond
}

// newQueriers returns queriers whose searches and counts have a filter, nil for none.
func newQueriers(r *readers, rate float64, cfg index.Text, w *wording, where *memwal.Filter) *queriers {
	q := &queriers{readers: r, rate: rate, index: cfg.Name, words: w}
	if where != nil {
		q.where, q.filtered = *where, true
	}
	for i := range q.took {
		q.took[i].unit = time.Nanosecond
	}
	return q
}

// beside implements companion.
func (q *queriers) beside(ctx context.Context, failed func(error)) (stop func()) {
	return q.goroutines(ctx, q.run, failed)
}

// run queries until ctx ends or an answer is wrong.
func (q *queriers) run(ctx context.Context) error {
	rng := rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	clock := clockCost()
	due := time.Now()
	for ctx.Err() == nil {
		rows, _ := q.known.pick(rng, readAhead)
		if len(rows) == 0 {
			wait(ctx, time.Millisecond)
			continue
		}
		q.keys(rows)
		for i, k := range rows {
			for kind := range queryKinds {
				ask, ok := q.prepare(rng, kind, k, rows[(i+len(rows)/2)%len(rows)])
				if !ok {
					continue
				}
				if q.rate > 0 {
					wait(ctx, time.Until(due))
					due = due.Add(time.Duration(float64(q.n) / q.rate * float64(time.Second)))
				}
				if ctx.Err() != nil {
					return nil
				}
				if err := q.one(ctx, kind, ask, clock); err != nil && ctx.Err() == nil {
					return fmt.Errorf("query: %w", err)
				}
			}
		}
	}
	return nil
}

// asked is a query, which returns a check of the answer.
type asked func(ctx context.Context, s snapshot) (check func() error, err error)

// prepare makes what is to be asked of a kind: text of the one row, the key of the
// other, which was not looked at just now.
func (q *queriers) prepare(rng *rand.Rand, kind queryKind, k, other knownRow) (asked, bool) {
	switch kind {
	case queryLookup:
		return func(ctx context.Context, s snapshot) (func() error, error) {
			row, err := s.Lookup(ctx, other.key...)
			return func() error { return q.checkLookup(s, row, other) }, err
		}, len(q.key) > 0
	case queryCount:
		least := q.least.Load()
		return func(ctx context.Context, s snapshot) (func() error, error) {
			n, err := s.CountWhere(ctx, q.where)
			return func() error { return q.checkCount(n, least) }, err
		}, q.filtered
	}
	tq, ok := q.words.draw(rng, kind, q.words.text(k.rec, k.row))
	return func(ctx context.Context, s snapshot) (func() error, error) {
		hits, err := s.Hits(ctx, q.index, tq.Query, memwal.SearchOptions{Filter: q.where, Limit: queryLimit})
		return func() error { return q.checkHits(ctx, s, rng, hits, tq, k) }, err
	}, ok
}

// one asks one query. It is timed from taking its snapshot to its last hit, less what
// looking at the clock takes.
func (q *queriers) one(ctx context.Context, kind queryKind, ask asked, clock time.Duration) error {
	start := time.Now()
	s, err := q.open()
	if err != nil {
		return fmt.Errorf("take a snapshot: %w", err)
	}
	defer s.Close()
	check, err := ask(ctx, s)
	took := time.Since(start) - clock
	if err != nil {
		return err
	}
	q.took[kind].record(took)
	return check()
}

// checkHits reports what is wrong with hits of a query that the row k matches.
func (q *queriers) checkHits(ctx context.Context, s snapshot, rng *rand.Rand, hits []memwal.Hit, tq textQuery, k knownRow) error {
	if q.unique && len(hits) < queryLimit && !slices.ContainsFunc(hits, func(h memwal.Hit) bool { return q.isRow(h, k) }) {
		switch due, err := q.accepts(ctx, s, k.key, false); {
		case err != nil:
			return err
		case due:
			return fmt.Errorf("%w: a search for %s has %d hits, and %s is not among them, though it matches and its put has returned", errDiffers, tq.text, len(hits), q.rowName(k))
		}
	}
	for i, h := range hits {
		if i > 0 && !(h.Score <= hits[i-1].Score) {
			return fmt.Errorf("%w: a search for %s has a hit with a score of %v after one with %v", errDiffers, tq.text, h.Score, hits[i-1].Score)
		}
	}
	if len(hits) == 0 {
		return nil
	}
	// One of them: analysing all would take more time than some searches.
	h := hits[rng.IntN(len(hits))]
	text := q.words.text(h.Batch, h.Index)
	if !tq.matches(q.words.terms(text)) {
		return fmt.Errorf("%w: a search for %s found %q", errDiffers, tq.text, text)
	}
	switch ok, err := q.accepts(ctx, s, h.Key, true); {
	case err != nil:
		return err
	case !ok:
		return fmt.Errorf("%w: a search for %s where %v found %q, which is not such a row", errDiffers, tq.text, q.where, text)
	}
	return nil
}

// accepts tells whether the filter is true for the row with a key, as a count of just
// that row says. Without keys nobody can tell, and unknown is the answer.
func (q *queriers) accepts(ctx context.Context, s snapshot, key []any, unknown bool) (bool, error) {
	if !q.filtered {
		return true, nil
	}
	if len(q.key) == 0 {
		return unknown, nil
	}
	all := []memwal.Filter{q.where}
	for i, col := range q.key {
		all = append(all, memwal.Eq(q.schema.Field(col).Name, key[i]))
	}
	n, err := s.CountWhere(ctx, memwal.And(all...))
	return n > 0, err
}

// checkCount reports a count of fewer rows than there were before, where rows are only
// ever added.
func (q *queriers) checkCount(n, least int64) error {
	if q.unique && n < least {
		return fmt.Errorf("%w: %d rows are %v, though there were %d before", errDiffers, n, q.where, least)
	}
	for old := q.least.Load(); n > old && !q.least.CompareAndSwap(old, n); old = q.least.Load() {
	}
	return nil
}

// isRow tells whether a hit is the row k: by its key or, without one, by its text.
func (q *queriers) isRow(h memwal.Hit, k knownRow) bool {
	if len(q.key) > 0 {
		return q.sameKey(h.Row, k)
	}
	return q.words.text(h.Batch, h.Index) == q.words.text(k.rec, k.row)
}

func (q *queriers) rowName(k knownRow) string {
	if len(q.key) > 0 {
		return q.keyText(k)
	}
	return fmt.Sprintf("%q", q.words.text(k.rec, k.row))
}

// queryFigures are what -query measured, by the kind of query.
type queryFigures struct {
	Queriers int         `json:"queriers"`
	PerS     float64     `json:"per_s"` // queries of all kinds, of all queriers
	Rare     queryMicros `json:"rare,omitzero"`
	Common   queryMicros `json:"common,omitzero"`
	Match    queryMicros `json:"match,omitzero"`
	Phrase   queryMicros `json:"phrase,omitzero"`
	Prefix   queryMicros `json:"prefix,omitzero"`
	Lookup   queryMicros `json:"lookup,omitzero"`
	Count    queryMicros `json:"count,omitzero"` // with -where
}

// queryMicros are in microseconds, but for Count.
type queryMicros struct {
	Count int64   `json:"count"`
	P50   float64 `json:"p50"`
	P90   float64 `json:"p90"`
	P99   float64 `json:"p99"`
	Max   float64 `json:"max"`
}

func (q *queriers) figures() *queryFigures {
	var m [queryKinds]queryMicros
	var sum int64
	for i := range q.took {
		l := &q.took[i]
		us := func(ms float64) float64 { return math.Round(ms*1e6) / 1e3 } // to the nanosecond
		m[i] = queryMicros{l.count(), us(l.quantile(0.5)), us(l.quantile(0.9)), us(l.quantile(0.99)), us(l.values().Max)}
		sum += m[i].Count
	}
	return &queryFigures{q.n, per(float64(sum), q.clock.elapsed().Seconds()), m[0], m[1], m[2], m[3], m[4], m[5], m[6]}
}

// named lists the kinds that were asked.
func (f *queryFigures) named() []namedQuery {
	all := []queryMicros{f.Rare, f.Common, f.Match, f.Phrase, f.Prefix, f.Lookup, f.Count}
	var list []namedQuery
	for i, m := range all {
		if m.Count > 0 {
			list = append(list, namedQuery{queryNames[i], m})
		}
	}
	return list
}

type namedQuery struct {
	name string
	queryMicros
}

// compareFigures are the putters' rows a second in the turns of -query-compare.
type compareFigures struct {
	Alone  float64 `json:"alone_rows_per_s"`
	Beside float64 `json:"beside_rows_per_s"`
	Ratio  float64 `json:"ratio"` // Beside to Alone
}

// turns sums up the turns of -query-compare.
type turns struct {
	rows [2]int64 // without readers, beside them
	took [2]time.Duration
	n    int
}

// compareTurns are as many as there are in -duration.
const compareTurns = 8

// alone tells whether the next turn is without readers: the first and the last of
// four, so that a table that becomes slower or faster while it grows favours neither.
func (t *turns) alone() bool { return t.n%4 == 0 || t.n%4 == 3 }

// add takes the turn that alone has announced.
func (t *turns) add(rows int64, took time.Duration) {
	i := 1
	if t.alone() {
		i = 0
	}
	t.rows[i] += rows
	t.took[i] += took
	t.n++
}

func (t *turns) figures() *compareFigures {
	f := &compareFigures{Alone: per(float64(t.rows[0]), t.took[0].Seconds()), Beside: per(float64(t.rows[1]), t.took[1].Seconds())}
	f.Ratio = per(f.Beside, f.Alone)
	return f
}

// The columns of text that queries are drawn from.
var _ = []interface{ Value(int) string }{(*array.String)(nil), (*array.LargeString)(nil), (*array.StringView)(nil)}
