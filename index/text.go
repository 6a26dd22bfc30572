package index

import (
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/blevesearch/bleve/v2/analysis"
	"github.com/blevesearch/bleve/v2/mapping"
	blevindex "github.com/blevesearch/bleve_index_api"
)

// Text configures a full-text index over one column of text: utf8, large_utf8,
// string_view, a dictionary of or an extension over these, or a list of these, whose
// elements are one text each that phrases do not cross. Null and empty text has no
// terms; its rows are documents all the same. Words of more than MaxTermBytes are no
// terms. Most of bleve's analyzers end at a byte that is not valid UTF-8: what follows
// in that text has no terms.
type Text struct {
	Name   string
	Column Column

	// Analyzer names the bleve analyzer that makes terms of text: one of Analyzers.
	// Default: DefaultAnalyzer.
	Analyzer string

	// NoPositions leaves out the places of terms within their text. Phrases cannot be
	// searched then, and the index is 29 % smaller (BenchmarkTextApply).
	NoPositions bool
}

func (t Text) IndexName() string { return t.Name }

func (t Text) Kind() string { return KindText }

// KindText is the Kind of Text.
const KindText = "text"

// DefaultAnalyzer splits at the word boundaries of Unicode, lowers case, and leaves
// out the stop words of English.
const DefaultAnalyzer = "standard"

// textSpec is a Text bound to a schema.
type textSpec struct {
	cfg      Text
	col      int
	analyzer analysis.Analyzer
	mapping  mapping.IndexMapping // for queries: the column is the field they search
}

func (t Text) bind(b *binder) bound {
	if t.Analyzer == "" {
		t.Analyzer = DefaultAnalyzer
	}
	s := &textSpec{cfg: t}
	if i, ok := b.column(t.Column); ok {
		s.col = i
		if f := b.schema.Field(i); !isText(f.Type) {
			b.fail(f.Name, f.Type, "", "text, or a list of text")
		}
	}
	if !slices.Contains(analyzers, t.Analyzer) {
		b.fail(t.Column.Name, nil, fmt.Sprintf("unknown analyzer %q", t.Analyzer), "one of "+strings.Join(analyzers, ", "))
		return s
	}
	m := mapping.NewIndexMapping()
	m.DefaultAnalyzer, m.DefaultField, m.ScoringModel = t.Analyzer, t.Column.Name, blevindex.BM25Scoring
	s.mapping = shortMapping{m}
	if s.analyzer = s.mapping.AnalyzerNamed(t.Analyzer); s.analyzer == nil {
		b.fail(t.Column.Name, nil, fmt.Sprintf("analyzer %q cannot be made", t.Analyzer), "another one")
	}
	return s
}

func (t *textSpec) config() Config           { return t.cfg }
func (t *textSpec) columns() []int           { return []int{t.col} }
func (t *textSpec) check(batchColumns) error { return nil } // it takes any text
func (t *textSpec) make(s *Set) kind         { return newText(t, s) }

// Analyzers lists the names that Text.Analyzer takes.
func Analyzers() []string { return slices.Clone(analyzers) }

// isText tells whether a column of the type can be indexed.
func isText(t arrow.DataType) bool {
	switch t := t.(type) {
	case arrow.ExtensionType:
		return isText(t.StorageType())
	case *arrow.DictionaryType:
		return isText(t.ValueType) && !isList(t.ValueType)
	case *arrow.ListType, *arrow.LargeListType, *arrow.FixedSizeListType, *arrow.ListViewType, *arrow.LargeListViewType:
		elem := t.(arrow.ListLikeType).Elem()
		return isText(elem) && !isList(elem)
	}
	switch t.ID() {
	case arrow.STRING, arrow.LARGE_STRING, arrow.STRING_VIEW:
		return true
	}
	return false
}

func isList(t arrow.DataType) bool {
	if e, ok := t.(arrow.ExtensionType); ok {
		return isList(e.StorageType())
	}
	_, ok := t.(arrow.ListLikeType)
	return ok
}
