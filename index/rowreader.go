package index

import (
	"context"
	"maps"
	"slices"
	"strings"

	blevindex "github.com/blevesearch/bleve_index_api"
)

// rowReader gives bleve's queries one row as an index, whose only document is 0. It is
// made of the row's text, so it has positions where the index has none.
type rowReader struct {
	spec   *textSpec
	places map[string][]*blevindex.TermFieldVector
	sorted []string // terms; nil until they are asked for
}

var (
	_ blevindex.IndexReaderFuzzy  = (*rowReader)(nil)
	_ blevindex.IndexReaderRegexp = (*rowReader)(nil)
)

// add takes in the text of an element.
func (r *rowReader) add(element int, text string) {
	if text == "" {
		return
	}
	for _, k := range r.spec.analyzed(text) {
		if len(k.Term) > MaxTermBytes {
			continue // a filter made it longer: the index does not have it
		}
		term := string(k.Term)
		r.places[term] = append(r.places[term], &blevindex.TermFieldVector{
			Field: r.spec.cfg.Column.Name, ArrayPositions: []uint64{uint64(element)},
			Pos: uint64(k.Position), Start: uint64(k.Start), End: uint64(k.End),
		})
	}
}

// TermFieldReader implements blevindex.IndexReader.
func (r *rowReader) TermFieldReader(_ context.Context, word []byte, field string, _, _, _ bool) (blevindex.TermFieldReader, error) {
	if err := r.spec.field(field); err != nil {
		return nil, err
	}
	return &rowTerm{places: r.places[string(word)]}, nil
}

// rowTerm is the row, if it has the term.
type rowTerm struct {
	places []*blevindex.TermFieldVector
	done   bool
}

// Next implements blevindex.TermFieldReader.
func (t *rowTerm) Next(doc *blevindex.TermFieldDoc) (*blevindex.TermFieldDoc, error) {
	if t.done || len(t.places) == 0 {
		return nil, nil
	}
	t.done = true
	if doc == nil {
		doc = new(blevindex.TermFieldDoc)
	}
	doc.ID = blevindex.NewIndexInternalID(doc.ID, 0)
	doc.Freq, doc.Norm, doc.Vectors = uint64(len(t.places)), 1, t.places
	return doc, nil
}

// Advance implements blevindex.TermFieldReader.
func (t *rowTerm) Advance(id blevindex.IndexInternalID, doc *blevindex.TermFieldDoc) (*blevindex.TermFieldDoc, error) {
	t.done = id.Value() > 0
	return t.Next(doc)
}

// Count implements blevindex.TermFieldReader.
func (t *rowTerm) Count() uint64 { return uint64(min(len(t.places), 1)) }

// Size implements blevindex.TermFieldReader.
func (t *rowTerm) Size() int { return 0 }

// Close implements blevindex.TermFieldReader.
func (t *rowTerm) Close() error { return nil }

// DocIDReaderAll implements blevindex.IndexReader.
func (r *rowReader) DocIDReaderAll() (blevindex.DocIDReader, error) { return &rowDocument{}, nil }

type rowDocument struct{ done bool }

// Next implements blevindex.DocIDReader.
func (d *rowDocument) Next() (blevindex.IndexInternalID, error) {
	if d.done {
		return nil, nil
	}
	d.done = true
	return blevindex.NewIndexInternalID(nil, 0), nil
}

// Advance implements blevindex.DocIDReader.
func (d *rowDocument) Advance(id blevindex.IndexInternalID) (blevindex.IndexInternalID, error) {
	d.done = id.Value() > 0
	return d.Next()
}

// Size implements blevindex.DocIDReader.
func (d *rowDocument) Size() int { return 0 }

// Close implements blevindex.DocIDReader.
func (d *rowDocument) Close() error { return nil }

// FieldDict implements blevindex.IndexReader.
func (r *rowReader) FieldDict(field string) (blevindex.FieldDict, error) {
	return r.dict(field, func(string) (uint8, bool) { return 0, true })
}

// FieldDictRange implements blevindex.IndexReader.
func (r *rowReader) FieldDictRange(field string, from, to []byte) (blevindex.FieldDict, error) {
	return r.dict(field, func(s string) (uint8, bool) { return 0, s >= string(from) && (to == nil || s <= string(to)) })
}

// FieldDictPrefix implements blevindex.IndexReader.
func (r *rowReader) FieldDictPrefix(field string, prefix []byte) (blevindex.FieldDict, error) {
	return r.dict(field, func(s string) (uint8, bool) { return 0, strings.HasPrefix(s, string(prefix)) })
}

// FieldDictFuzzy implements blevindex.IndexReaderFuzzy.
func (r *rowReader) FieldDictFuzzy(field, word string, fuzziness int, prefix string) (blevindex.FieldDict, error) {
	d, _, err := r.FieldDictFuzzyAutomaton(field, word, fuzziness, prefix)
	return d, err
}

// FieldDictFuzzyAutomaton implements blevindex.IndexReaderFuzzy.
func (r *rowReader) FieldDictFuzzyAutomaton(field, word string, fuzziness int, prefix string) (blevindex.FieldDict, blevindex.FuzzyAutomaton, error) {
	a := newFuzzy(word, fuzziness)
	d, err := r.dict(field, func(s string) (uint8, bool) {
		ok, distance := a.MatchAndDistance(s)
		return distance, ok && strings.HasPrefix(s, prefix)
	})
	return d, a, err
}

// FieldDictRegexp implements blevindex.IndexReaderRegexp.
func (r *rowReader) FieldDictRegexp(field, pattern string) (blevindex.FieldDict, error) {
	d, _, err := r.FieldDictRegexpAutomaton(field, pattern)
	return d, err
}

// FieldDictRegexpAutomaton implements blevindex.IndexReaderRegexp.
func (r *rowReader) FieldDictRegexpAutomaton(field, pattern string) (blevindex.FieldDict, blevindex.RegexAutomaton, error) {
	p, err := newWholePattern(pattern)
	if err != nil {
		return nil, nil, err
	}
	d, err := r.dict(field, func(s string) (uint8, bool) { return 0, p.MatchesRegex(s) })
	return d, p, err
}

func (r *rowReader) dict(field string, match func(string) (distance uint8, in bool)) (blevindex.FieldDict, error) {
	if err := r.spec.field(field); err != nil {
		return nil, err
	}
	if r.sorted == nil {
		r.sorted = slices.Sorted(maps.Keys(r.places))
	}
	d := new(rowDict)
	for _, s := range r.sorted {
		if distance, ok := match(s); ok {
			d.left = append(d.left, blevindex.DictEntry{Term: s, Count: 1, EditDistance: distance})
		}
	}
	return d, nil
}

// rowDict lists terms of the row.
type rowDict struct{ left []blevindex.DictEntry }

// Next implements blevindex.FieldDict.
func (d *rowDict) Next() (*blevindex.DictEntry, error) {
	if len(d.left) == 0 {
		return nil, nil
	}
	e := &d.left[0]
	d.left = d.left[1:]
	return e, nil
}

// Cardinality implements blevindex.FieldDict.
func (d *rowDict) Cardinality() int { return len(d.left) }

// BytesRead implements blevindex.FieldDict.
func (d *rowDict) BytesRead() uint64 { return 0 }

// Close implements blevindex.FieldDict.
func (d *rowDict) Close() error { return nil }

// DocCount implements blevindex.IndexReader.
func (r *rowReader) DocCount() (uint64, error) { return 1, nil }

// Fields implements blevindex.IndexReader.
func (r *rowReader) Fields() ([]string, error) { return []string{r.spec.cfg.Column.Name}, nil }

// Document implements blevindex.IndexReader. No query that is let through asks for it,
// nor for what follows.
func (r *rowReader) Document(string) (blevindex.Document, error) { return nil, nil }

// DocIDReaderOnly implements blevindex.IndexReader.
func (r *rowReader) DocIDReaderOnly([]string) (blevindex.DocIDReader, error) {
	return &rowDocument{done: true}, nil
}

// GetInternal implements blevindex.IndexReader.
func (r *rowReader) GetInternal([]byte) ([]byte, error) { return nil, nil }

// ExternalID implements blevindex.IndexReader.
func (r *rowReader) ExternalID(blevindex.IndexInternalID) (string, error) { return "0", nil }

// InternalID implements blevindex.IndexReader.
func (r *rowReader) InternalID(string) (blevindex.IndexInternalID, error) { return nil, nil }

// DocValueReader implements blevindex.IndexReader.
func (r *rowReader) DocValueReader([]string) (blevindex.DocValueReader, error) {
	return noDocValues{}, nil
}

// Close implements blevindex.IndexReader.
func (r *rowReader) Close() error { return nil }
