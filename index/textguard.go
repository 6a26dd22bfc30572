package index

import (
	"context"
	"fmt"
	"regexp"

	blevindex "github.com/blevesearch/bleve_index_api"
)

// guardedReader is the textReader that bleve's queries get: it ends with the context,
// does not let a query grow without bound, and has regular expressions match whole
// terms. Without the last, bleve takes the first way in which an expression matches,
// so that "a|ab" would not find "ab".
type guardedReader struct {
	*textReader
	terms  int // asked for so far
	listed int // of dictionaries
}

var _ blevindex.IndexReaderRegexp = (*guardedReader)(nil)

// TermFieldReader implements blevindex.IndexReader.
func (g *guardedReader) TermFieldReader(ctx context.Context, word []byte, field string, freq, norm, places bool) (blevindex.TermFieldReader, error) {
	if err := g.ended(); err != nil {
		return nil, err
	}
	if g.terms++; g.terms > MaxQueryTerms {
		return nil, g.tooMany()
	}
	return g.textReader.TermFieldReader(ctx, word, field, freq, norm, places)
}

func (g *guardedReader) tooMany() error {
	return &QueryError{Index: g.spec.cfg.Name, Err: fmt.Errorf("it stands for more than %d terms: make its prefixes, patterns and ranges narrower", MaxQueryTerms)}
}

// FieldDict implements blevindex.IndexReader.
func (g *guardedReader) FieldDict(field string) (blevindex.FieldDict, error) {
	d, err := g.textReader.FieldDict(field)
	return g.guard(d, nil, err)
}

// FieldDictRange implements blevindex.IndexReader.
func (g *guardedReader) FieldDictRange(field string, from, to []byte) (blevindex.FieldDict, error) {
	d, err := g.textReader.FieldDictRange(field, from, to)
	return g.guard(d, nil, err)
}

// FieldDictPrefix implements blevindex.IndexReader.
func (g *guardedReader) FieldDictPrefix(field string, prefix []byte) (blevindex.FieldDict, error) {
	d, err := g.textReader.FieldDictPrefix(field, prefix)
	return g.guard(d, nil, err)
}

// FieldDictFuzzy implements blevindex.IndexReaderFuzzy.
func (g *guardedReader) FieldDictFuzzy(field, word string, fuzziness int, prefix string) (blevindex.FieldDict, error) {
	d, err := g.textReader.FieldDictFuzzy(field, word, fuzziness, prefix)
	return g.guard(d, nil, err)
}

// FieldDictFuzzyAutomaton implements blevindex.IndexReaderFuzzy.
func (g *guardedReader) FieldDictFuzzyAutomaton(field, word string, fuzziness int, prefix string) (blevindex.FieldDict, blevindex.FuzzyAutomaton, error) {
	d, a, err := g.textReader.FieldDictFuzzyAutomaton(field, word, fuzziness, prefix)
	d, err = g.guard(d, nil, err)
	return d, a, err
}

// FieldDictRegexp implements blevindex.IndexReaderRegexp.
func (g *guardedReader) FieldDictRegexp(field, pattern string) (blevindex.FieldDict, error) {
	d, _, err := g.FieldDictRegexpAutomaton(field, pattern)
	return d, err
}

// FieldDictRegexpAutomaton implements blevindex.IndexReaderRegexp.
func (g *guardedReader) FieldDictRegexpAutomaton(field, pattern string) (blevindex.FieldDict, blevindex.RegexAutomaton, error) {
	p, err := newWholePattern(pattern)
	if err != nil {
		return nil, nil, err
	}
	d, err := g.textReader.FieldDictPrefix(field, []byte(p.prefix))
	d, err = g.guard(d, p, err)
	return d, p, err
}

func (g *guardedReader) guard(d blevindex.FieldDict, p *wholePattern, err error) (blevindex.FieldDict, error) {
	if err != nil {
		return nil, err
	}
	return &guardedDict{FieldDict: d, g: g, pattern: p}, nil
}

// guardedDict lists the terms of a dictionary that a pattern matches. It counts them, as
// bleve's searchers list all before they ask for the first.
type guardedDict struct {
	blevindex.FieldDict
	g       *guardedReader
	pattern *wholePattern // nil: any
}

// Next implements blevindex.FieldDict.
func (d *guardedDict) Next() (*blevindex.DictEntry, error) {
	for {
		e, err := d.FieldDict.Next()
		if e == nil || err != nil {
			return nil, err
		}
		if d.pattern != nil && !d.pattern.MatchesRegex(e.Term) {
			continue
		}
		if d.g.listed++; d.g.listed > MaxQueryTerms {
			return nil, d.g.tooMany()
		}
		return e, nil
	}
}

// wholePattern is a regular expression that matches whole terms.
type wholePattern struct {
	re     *regexp.Regexp
	prefix string // that all matches begin with
}

func newWholePattern(pattern string) (*wholePattern, error) {
	part, err := regexp.Compile(pattern)
	if err != nil {
		return nil, err
	}
	re, err := regexp.Compile(`\A(?:` + pattern + `)\z`)
	if err != nil {
		return nil, err
	}
	prefix, _ := part.LiteralPrefix()
	return &wholePattern{re: re, prefix: prefix}, nil
}

// MatchesRegex implements blevindex.RegexAutomaton.
func (p *wholePattern) MatchesRegex(term string) bool { return p.re.MatchString(term) }
