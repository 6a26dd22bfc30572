package index

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"

	"github.com/blevesearch/bleve/v2/search/query"
	"github.com/blevesearch/bleve/v2/search/searcher"
)

// Bounds of a query. What is beyond them is refused, so that a search costs no more
// than its rows, whoever wrote the query.
const (
	// MaxQueryText is the number of bytes that the words of a query can have together.
	MaxQueryText = 64 << 10
	// MaxQueryString is the length of a query string in bytes: bleve's parser takes time
	// that grows with the square of it. What a program puts together from many words is
	// better a boolean query.
	MaxQueryString = 4 << 10
	// MaxQueryTerms is the number of terms that a query can ask for, also those of the
	// index that a prefix, a pattern, a range or a fuzzy word stands for.
	MaxQueryTerms = 64 << 10

	maxQueryParts = 4096    // queries within a query
	maxQueryDepth = 64      // of queries within queries
	maxPattern    = 1 << 10 // bytes of a regular expression or wildcard
	maxPhrase     = 256     // places
	maxReadings   = 64      // of a phrase whose places have several words each
	maxBoost      = 1e9
)

// queryCheck goes through a query before bleve does: it refuses what the index cannot
// answer, or not within bounds, and returns what it can. A query is not changed, as
// others may be using it.
type queryCheck struct {
	spec      *textSpec
	callbacks callbacks
	parts     int
	text      int
}

// callbacks says whether queries with callbacks are kept or what they are made of is
// taken in their place.
type callbacks bool

const (
	withCallbacks    callbacks = true
	withoutCallbacks callbacks = false
)

// checkQuery returns the query to run, or a *QueryError.
func checkQuery(spec *textSpec, q query.Query, with callbacks) (query.Query, error) {
	c := queryCheck{spec: spec, callbacks: with}
	out, err := c.query(q, 0)
	if err == nil {
		if v, ok := out.(query.ValidatableQuery); ok {
			err = v.Validate()
		}
	}
	if err != nil {
		return nil, &QueryError{Index: spec.cfg.Name, Err: err}
	}
	return out, nil
}

func (c *queryCheck) query(q query.Query, depth int) (query.Query, error) {
	if v := reflect.ValueOf(q); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return nil, errors.New("it is nil, or a part of it is")
	}
	if c.parts++; c.parts > maxQueryParts {
		return nil, fmt.Errorf("it consists of more than %d queries", maxQueryParts)
	}
	if depth > maxQueryDepth {
		return nil, fmt.Errorf("its queries are nested more than %d deep", maxQueryDepth)
	}
	if b, ok := q.(query.BoostableQuery); ok {
		if f := b.Boost(); !(f == 0 || f >= 1/maxBoost && f <= maxBoost) {
			return nil, fmt.Errorf("a boost is %v, must be 0 or from %g to %g", f, 1/maxBoost, maxBoost)
		}
	}
	if f, ok := q.(query.FieldableQuery); ok && f.Field() != "" {
		if err := c.spec.field(f.Field()); err != nil {
			return nil, err
		}
	}
	if out, err, ok := c.composite(q, depth); ok {
		return out, err
	}
	return c.leaf(q)
}

// field refuses what is asked of another column than that of the index.
func (t *textSpec) field(name string) error {
	if name == t.cfg.Column.Name {
		return nil
	}
	return fmt.Errorf("it asks for %q; the index is over column %q, which is asked where a query names no field", name, t.cfg.Column.Name)
}

// composite is a query made of others.
func (c *queryCheck) composite(q query.Query, depth int) (out query.Query, err error, ok bool) {
	switch q := q.(type) {
	case *query.QueryStringQuery:
		parsed, err := parseQueryString(q.Query)
		if err != nil {
			return nil, err, true
		}
		out, err := c.query(parsed, depth)
		return out, err, true
	case *query.BooleanQuery:
		n := *q
		for _, p := range []*query.Query{&n.Must, &n.Should, &n.MustNot, &n.Filter} {
			if *p != nil && err == nil {
				*p, err = c.query(*p, depth+1)
			}
		}
		for _, p := range []*query.Query{&n.Must, &n.Should, &n.MustNot} {
			if *p != nil && err == nil {
				*p = clause{*p}
			}
		}
		return &n, err, true
	case *query.ConjunctionQuery:
		n := *q
		n.Conjuncts, err = c.all(q.Conjuncts, depth)
		return &n, err, true
	case *query.DisjunctionQuery:
		if word, ok := numberWord(q); ok {
			out, err := c.query(word, depth)
			return out, err, true
		}
		if !(q.Min >= 0 && q.Min <= float64(len(q.Disjuncts))) {
			return nil, fmt.Errorf("at least %v of %d queries are to match", q.Min, len(q.Disjuncts)), true
		}
		n := *q
		n.Disjuncts, err = c.all(q.Disjuncts, depth)
		return &n, err, true
	case *query.CustomFilterQuery:
		n := *q
		n.Query, err = c.called(q.Query, q.Fields, depth)
		if c.callbacks == withoutCallbacks {
			return n.Query, err, true
		}
		return &n, err, true
	case *query.CustomScoreQuery:
		n := *q
		n.Query, err = c.called(q.Query, q.Fields, depth)
		if c.callbacks == withoutCallbacks {
			return n.Query, err, true
		}
		return &n, err, true
	}
	return nil, nil, false
}

func (c *queryCheck) all(qs []query.Query, depth int) ([]query.Query, error) {
	out := make([]query.Query, len(qs))
	for i, q := range qs {
		var err error
		if out[i], err = c.query(q, depth+1); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// called is the query below a callback. One that wants values of columns is refused: it
// would get none.
func (c *queryCheck) called(q query.Query, fields []string, depth int) (query.Query, error) {
	if len(fields) > 0 {
		return nil, fmt.Errorf("its callback asks for the fields %q, and there are no values in the index: give a filter to the search", fields)
	}
	return c.query(q, depth+1)
}

// numberWord is the word of a number in a query string. bleve asks for the word or the
// number; in text there are only words, and the half that never matches would halve
// the score.
func numberWord(q *query.DisjunctionQuery) (*query.MatchQuery, bool) {
	if len(q.Disjuncts) != 2 {
		return nil, false
	}
	m, _ := q.Disjuncts[0].(*query.MatchQuery)
	r, _ := q.Disjuncts[1].(*query.NumericRangeQuery)
	if m == nil || r == nil || r.Min == nil || r.Max == nil || m.Field() != r.Field() {
		return nil, false
	}
	if n, err := strconv.ParseFloat(m.Match, 64); err != nil || n != *r.Min || n != *r.Max {
		return nil, false
	}
	n := *m
	n.SetBoost(q.Boost() * m.Boost())
	return &n, true
}

// leaf is a query that is made of no others.
func (c *queryCheck) leaf(q query.Query) (query.Query, error) {
	switch q := q.(type) {
	case *query.MatchQuery:
		return q, cmp.Or(c.words(q.Match), c.analyzer(q.Analyzer), c.fuzziness(q.Fuzziness))
	case *query.TermQuery:
		return q, c.words(q.Term)
	case *query.PrefixQuery:
		return q, c.words(q.Prefix)
	case *query.FuzzyQuery:
		return q, cmp.Or(c.words(q.Term), c.fuzziness(q.Fuzziness))
	case *query.TermRangeQuery:
		return q, c.words(q.Min, q.Max)
	case *query.WildcardQuery:
		return q, c.pattern(q.Wildcard)
	case *query.RegexpQuery:
		_, err := regexp.Compile(q.Regexp)
		return q, cmp.Or(c.pattern(q.Regexp), err)
	case *query.MatchPhraseQuery:
		return q, c.matchPhrase(q)
	case *query.PhraseQuery:
		n := *q
		n.FieldVal = c.spec.cfg.Column.Name
		terms := make([][]string, len(q.Terms))
		for i, t := range q.Terms {
			terms[i] = []string{t}
		}
		return &n, cmp.Or(c.words(q.Terms...), c.fuzziness(q.Fuzziness), c.phrase(terms))
	case *query.MultiPhraseQuery:
		n := *q
		n.FieldVal, n.Terms = c.spec.cfg.Column.Name, make([][]string, len(q.Terms))
		for i, t := range q.Terms {
			// Each double would double the work.
			n.Terms[i] = slices.Compact(slices.Sorted(slices.Values(t)))
			if err := c.words(t...); err != nil {
				return nil, err
			}
		}
		return &n, cmp.Or(c.fuzziness(q.Fuzziness), c.phrase(n.Terms))
	case *query.NumericRangeQuery, *query.DateRangeQuery, *query.DateRangeStringQuery, *query.BoolFieldQuery, *query.IPRangeQuery,
		*query.GeoBoundingBoxQuery, *query.GeoBoundingPolygonQuery, *query.GeoDistanceQuery, *query.GeoShapeQuery, *query.GeoShapeV2Query:
		return nil, fmt.Errorf("a %T asks for other values than text: give the condition as a filter to the search", q)
	case *query.DocIDQuery:
		return nil, errors.New("it asks for document ids; rows are looked up by key")
	case *query.MatchAllQuery, *query.MatchNoneQuery:
		return q, nil
	}
	return nil, fmt.Errorf("a %T is no query that a text index answers: put it together from those of bleve's package query", q)
}

// words counts what the query asks for.
func (c *queryCheck) words(texts ...string) error {
	for _, t := range texts {
		c.text += len(t)
	}
	if c.text > MaxQueryText {
		return fmt.Errorf("its words have more than %d bytes", MaxQueryText)
	}
	return nil
}

func (c *queryCheck) pattern(s string) error {
	if len(s) > maxPattern {
		return fmt.Errorf("a pattern has %d bytes, at most %d are taken", len(s), maxPattern)
	}
	return c.words(s)
}

func (c *queryCheck) analyzer(name string) error {
	if name != "" && !slices.Contains(analyzers, name) {
		return fmt.Errorf("unknown analyzer %q", name)
	}
	return nil
}

func (c *queryCheck) fuzziness(n int) error {
	if n < 0 || n > searcher.MaxFuzziness {
		return fmt.Errorf("fuzziness %d, must be from 0 to %d", n, searcher.MaxFuzziness)
	}
	return nil
}

func (c *queryCheck) matchPhrase(q *query.MatchPhraseQuery) error {
	if err := cmp.Or(c.words(q.MatchPhrase), c.analyzer(q.Analyzer), c.fuzziness(q.Fuzziness)); err != nil {
		return err
	}
	a := c.spec.analyzer
	if q.Analyzer != "" {
		a = c.spec.mapping.AnalyzerNamed(q.Analyzer)
	}
	var terms [][]string
	for _, t := range a.Analyze([]byte(q.MatchPhrase)) {
		for len(terms) <= t.Position && len(terms) <= maxPhrase {
			terms = append(terms, nil)
		}
		if t.Position < len(terms) {
			terms[t.Position] = append(terms[t.Position], string(t.Term))
		}
	}
	return c.phrase(terms)
}

var errNoPositions = errors.New("phrases need positions, which it was configured without")

// phrase bounds the ways in which a phrase can be put together: bleve tries them all.
func (c *queryCheck) phrase(terms [][]string) error {
	if c.spec.cfg.NoPositions {
		return errNoPositions
	}
	if len(terms) > maxPhrase {
		return fmt.Errorf("a phrase has more than %d words", maxPhrase)
	}
	ways := 1.0
	for _, t := range terms {
		ways *= math.Max(1, float64(len(t)))
	}
	if ways > maxReadings {
		return fmt.Errorf("a phrase has %g readings, at most %d are tried", ways, maxReadings)
	}
	return nil
}
