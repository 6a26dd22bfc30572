package index

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/extensions"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/blevesearch/bleve/v2/search/query"
)

// textTypes are the types of column that hold text.
func textTypes() map[string]arrow.DataType {
	str := arrow.BinaryTypes.String
	dict := func(v arrow.DataType) arrow.DataType {
		return &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int16, ValueType: v}
	}
	return map[string]arrow.DataType{
		"utf8": str, "large_utf8": arrow.BinaryTypes.LargeString, "string_view": arrow.BinaryTypes.StringView,
		"dictionary": dict(str),
		"list":       arrow.ListOf(str), "large list": arrow.LargeListOf(arrow.BinaryTypes.LargeString),
		"list view": arrow.ListViewOf(str), "large list view": arrow.LargeListViewOf(arrow.BinaryTypes.StringView),
		"fixed-size list": arrow.FixedSizeListOf(2, str), "list of dictionary": arrow.ListOf(dict(str)),
		"opaque": extensions.NewOpaqueType(str, "t", "v"), "list of opaque": arrow.ListOf(extensions.NewOpaqueType(str, "t", "v")),
	}
}

// buildText appends a row's texts to a column of any of the types: no texts are null, and
// an element "<null>" is.
func buildText(t testing.TB, b array.Builder, texts []string) {
	list := func(l array.ListLikeBuilder, begin func()) {
		begin()
		for _, s := range texts {
			buildText(t, l.ValueBuilder(), []string{s})
		}
	}
	if len(texts) == 0 || texts[0] == "<null>" && len(texts) == 1 && !isList(b.Type()) {
		b.AppendNull()
		return
	}
	switch b := b.(type) {
	case *array.ListViewBuilder:
		list(b, func() { b.AppendWithSize(true, len(texts)) })
	case *array.LargeListViewBuilder:
		list(b, func() { b.AppendWithSize(true, len(texts)) })
	case *array.ListBuilder:
		list(b, func() { b.Append(true) })
	case *array.LargeListBuilder:
		list(b, func() { b.Append(true) })
	case *array.FixedSizeListBuilder:
		list(b, func() { b.Append(true) })
	case *array.ExtensionBuilder:
		buildText(t, b.StorageBuilder(), texts)
	default:
		if err := b.AppendValueFromString(texts[0]); err != nil {
			t.Fatal(err)
		}
	}
}

// typedText is a column of the type with the texts of rows.
func typedText(t testing.TB, typ arrow.DataType, rows [][]string) arrow.Array {
	b := array.NewBuilder(memory.DefaultAllocator, typ)
	defer b.Release()
	for _, texts := range rows {
		buildText(t, b, texts)
	}
	a := b.NewArray()
	t.Cleanup(a.Release)
	return a
}

func mustSearchText(t testing.TB, s *Spec, q query.Query, parts ...Part) []found {
	t.Helper()
	hits, err := s.SearchText(context.Background(), "body", TextSearch{Query: q, Limit: 1000}, parts...)
	if err != nil {
		t.Fatal(err)
	}
	var out []found
	for _, h := range hits {
		out = append(out, found{parts[h.Part].First + uint64(h.Slot), h.Score})
	}
	return out
}

// TestC04_EveryTypeOfText: text is indexed alike in all types that hold it, whole and in
// slices; null rows and null elements are skipped.
func TestC04_EveryTypeOfText(t *testing.T) {
	rows := [][]string{
		{"first row", "padding"}, nil, {"alpha beta", "<null>"}, {"", "beta"}, {"the of", "and"}, {"<null>", "<null>"},
		{"東京都", "日本語"}, {"e\u0301te\u0301 été", "🙂 👨‍👩‍👧"}, {"bad \xff\xfe utf8", "beta"}, {"beta gamma", "alpha"}, {"last row", "padding"},
	}
	queries := []query.Query{
		query.NewMatchQuery("alpha"), query.NewMatchQuery("beta"), query.NewMatchPhraseQuery("beta gamma"), query.NewMatchQuery("京"),
		query.NewMatchQuery("été"), query.NewMatchQuery("👨‍👩‍👧"), query.NewMatchQuery("padding"), query.NewPrefixQuery("b"), query.NewMatchAllQuery(), query.NewMatchQuery("the"),
	}
	for name, typ := range textTypes() {
		sc := arrow.NewSchema([]arrow.Field{{Name: "body", Type: typ, Nullable: true}}, nil)
		spec := mustBind(t, sc, nil, Text{Name: "body", Column: Column{Name: "body"}})
		// A model of utf8, or of lists of it.
		model := newTextTable(t, false, isList(typ), Text{})
		whole := typedText(t, typ, rows)
		for _, cut := range [][2]int64{{0, 11}, {1, 10}, {2, 4}, {9, 9}} {
			model.tabs, model.first, model.docs = nil, nil, nil
			model.rotate()
			for _, texts := range rows[cut[0]:cut[1]] {
				if !isList(typ) && texts != nil {
					if texts = texts[:1]; texts[0] == "<null>" {
						texts = nil
					}
				}
				model.put(doc{texts: texts})
			}
			part := array.NewSlice(whole, cut[0], cut[1])
			rec := array.NewRecordBatch(sc, []arrow.Array{part}, cut[1]-cut[0])
			f := newFixture(spec)
			f.apply(t, rec)
			for _, q := range queries {
				got := mustSearchText(t, spec, q, Part{Set: f.set, Bound: f.set.Applied()})
				if err := same(got, model.search(q, 1000, uint64(len(model.docs))), 1e-12); err != nil {
					t.Errorf("%s, rows %v: %s: %v", name, cut, describe(q), err)
				}
			}
			rec.Release()
			part.Release()
		}
	}
}

// withNull is the array with a null in the place of an element, whose bytes stay.
func withNull(t testing.TB, a arrow.Array, i int) arrow.Array {
	valid := []byte{^byte(1 << i)}
	buffers := append([]*memory.Buffer{memory.NewBufferBytes(valid)}, a.Data().Buffers()[1:]...)
	data := array.NewData(a.DataType(), a.Len(), buffers, a.Data().Children(), 1, 0)
	defer data.Release()
	n := array.MakeFromData(data)
	t.Cleanup(n.Release)
	return n
}

// TestC04_BytesBehindNulls: what lies behind a null is no text, be it a row, an element
// of a list or a word of a dictionary.
func TestC04_BytesBehindNulls(t *testing.T) {
	plain := arrow.BinaryTypes.String
	words := withNull(t, typedText(t, plain, [][]string{{"one word"}, {"hidden word"}, {"another word"}}), 1)
	b := array.NewInt8Builder(memory.DefaultAllocator)
	b.AppendValues([]int8{0, 1, 2}, nil)
	indices := b.NewArray()
	dict := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: plain}
	dictionary := array.NewDictionaryArray(dict, indices, words)
	list := arrow.ListOf(plain)
	rows := typedText(t, list, [][]string{{"one word"}, {"hidden word"}, {"another word"}})
	children := array.NewData(list, 3, rows.Data().Buffers(), []arrow.ArrayData{words.Data()}, 0, 0)
	elements := array.MakeFromData(children)
	t.Cleanup(func() { children.Release(); elements.Release(); dictionary.Release(); indices.Release(); b.Release() })
	for name, col := range map[string]arrow.Array{"rows": words, "dictionary": dictionary, "lists": withNull(t, rows, 1), "elements": elements} {
		sc := arrow.NewSchema([]arrow.Field{{Name: "body", Type: col.DataType(), Nullable: true}}, nil)
		rec := array.NewRecordBatch(sc, []arrow.Array{col}, 3)
		f := newFixture(mustBind(t, sc, nil, Text{Name: "body", Column: Column{Name: "body"}}))
		f.apply(t, rec)
		if got := fmt.Sprint(ordinals(mustSearchText(t, f.spec, query.NewMatchQuery("word"), Part{Set: f.set, Bound: 3}))); got != "[0 2]" {
			t.Errorf("%s: %s", name, got)
		}
		rec.Release()
	}
}

// TestM03_LongWords: a word of up to MaxTermBytes is a term; a longer one takes a place
// and costs no more than to read it, with every analyzer.
func TestM03_LongWords(t *testing.T) {
	for _, analyzer := range Analyzers() {
		x := newTextTable(t, false, false, Text{Analyzer: analyzer})
		long := func(n int) string { return strings.Repeat("zo", n/2) }
		start := time.Now()
		x.put(textDoc(1, long(MaxTermBytes)), textDoc(2, long(MaxTermBytes+2)), textDoc(3, long(1<<20)), textDoc(4, "qqz "+long(1<<18)+" xxz"),
			textDoc(5, "qqz xxz"), textDoc(6, long(2*MaxTermBytes)+"é"))
		if took := time.Since(start); took > 20*time.Second {
			t.Errorf("%s: it took %v", analyzer, took)
		}
		tx, _ := x.tabs[0].set.text("body")
		for i := range tx.terms.count.Load() {
			if n := len(tx.terms.at(i).text()); n > MaxTermBytes {
				t.Errorf("%s: a term of %d bytes", analyzer, n)
			}
		}
		for slot, want := range []uint32{1, 0, 0, 2, 2, 0} {
			if analyzer == "keyword" {
				want = map[int]uint32{0: 1, 4: 1}[slot]
			}
			if analyzer == "pl" && slot == 0 {
				continue // its stemmer makes nothing of it
			}
			if got := *tx.lengths.at(uint32(slot)); got != want {
				t.Errorf("%s: row %d has %d terms, want %d", analyzer, slot, got, want)
			}
		}
		if analyzer == "keyword" {
			continue
		}
		// Phrases do not close the gap, but with cjk, whose filter numbers the terms anew.
		if got := fmt.Sprint(ordinals(x.search(query.NewMatchPhraseQuery("qqz xxz"), 10, 6))); got != "[4]" && analyzer != "cjk" {
			t.Errorf("%s: phrase: %s", analyzer, got)
		}
		if got := len(x.search(query.NewMatchQuery("xxz"), 10, 6)); got != 2 {
			t.Errorf("%s: %d rows", analyzer, got)
		}
	}
}

// TestM03_LargeTexts: a text of many megabytes, one word very often, and a list of very
// many elements.
func TestM03_LargeTexts(t *testing.T) {
	x := newTextTable(t, false, true, Text{})
	words, count := 1<<20, 200_000
	if raceEnabled {
		words, count = 1<<17, 20_000 // for one goroutine, at a tenth of the speed
	}
	elements := make([]string, count)
	for i := range elements {
		elements[i] = fmt.Sprint("elem", i%1000)
	}
	elements[count-2], elements[count-1] = "needle", "eye"
	x.put(doc{texts: []string{strings.Repeat("often ", words) + "needle eye"}}, doc{texts: elements}, doc{texts: []string{"needle eye"}}, doc{texts: []string{"often"}})
	x.put(doc{texts: []string{"often again"}})
	if got := fmt.Sprint(ordinals(x.search(query.NewMatchPhraseQuery("needle eye"), 10, 5))); got != "[2 0]" {
		t.Errorf("phrase: %s", got)
	}
	if got := fmt.Sprint(ordinals(x.search(query.NewMatchQuery("elem999"), 10, 5))); got != "[1]" {
		t.Errorf("element: %s", got)
	}
	often := x.search(query.NewTermQuery("often"), 10, 5)
	if len(often) != 3 {
		t.Errorf("often: %v", often)
	}
	tx, _ := x.tabs[0].set.text("body")
	p := tx.terms.find([]byte("often")).postings(true)
	for _, want := range []struct {
		slot uint32
		freq uint64
	}{{0, uint64(words)}, {3, 1}, {4, 1}} {
		if !p.next() || p.slot != want.slot || p.freq != want.freq {
			t.Errorf("slot %d has it %d times, want %+v", p.slot, p.freq, want)
		}
	}
	if tx.row.bytes() > scratchMax || tx.analyzer.bytes() > scratchMax {
		t.Errorf("scratch of %d and %d bytes is kept", tx.row.bytes(), tx.analyzer.bytes())
	}
}

// TestM03_TextIndexIsFull: where references or a row's numbers run out, the index says so
// before anything overflows, and names what to do. What was applied stays.
func TestM03_TextIndexIsFull(t *testing.T) {
	for name, c := range map[string]struct {
		limit func(x *text)
		want  string
	}{
		"references": {func(x *text) { x.terms.arena.most = 3 }, "rotate it earlier"},
		"words":      {func(x *text) { x.most = 200 }, "split it"},
	} {
		x := newTextTable(t, false, false, Text{})
		tx, _ := x.tabs[0].set.text("body")
		c.limit(tx)
		x.put(textDoc(1, "stays"))
		var err error
		for i := 0; err == nil && i < 10_000; i++ {
			rec := x.batch([]doc{textDoc(2, fmt.Sprintf("number%d %s", i, strings.Repeat("more ", i)))})
			f := x.tabs[0]
			err = f.set.Apply(rec, f.rows.add(rec))
		}
		if !errors.Is(err, ErrInternal) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
		if got := mustSearchText(t, x.spec, query.NewMatchQuery("stays"), Part{Set: x.tabs[0].set, Bound: 1}); len(got) != 1 {
			t.Errorf("%s: %v", name, got)
		}
	}
}
