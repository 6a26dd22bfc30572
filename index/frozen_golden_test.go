package index

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/blevesearch/bleve/v2/search/query"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// goldenFrozen freezes an index, and returns the file of testdata/golden with a name,
// which must have the same bytes.
func goldenFrozen(t *testing.T, name string, set *Set, index string) []byte {
	t.Helper()
	// Listed file rows, in two bytes.
	data := freeze(t, set, index, func(slot uint32) (uint32, bool) { return 300 - slot, true })
	path := filepath.Join("testdata", "golden", name+".frozen")
	if *update {
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(data, want) {
		t.Errorf("%s: it is frozen to other bytes than the golden file", name)
	}
	return want
}

// goldenOpen opens a golden file, in memory and by ranges, checks every byte of it, and
// its rows.
func goldenOpen(t *testing.T, s *Spec, set *Set, name string, b []byte, rows uint32) []*Frozen {
	t.Helper()
	out := []*Frozen{openFrozen(t, s, name, FrozenBytes(b), FrozenOptions{}), openFrozen(t, s, name, &ranged{b: b}, small)}
	for _, f := range out {
		if err := f.Verify(t.Context()); err != nil {
			t.Fatal(err)
		}
		if f.Rows() != rows || f.Slots() != set.Applied() {
			t.Errorf("%d rows of %d slots, want %d of %d", f.Rows(), f.Slots(), rows, set.Applied())
		}
		for slot := range f.Slots() {
			row, ok, err := f.Row(t.Context(), slot)
			if live := set.Live(slot, set.Applied()); err != nil || ok != live || ok && row != 300-slot {
				t.Fatalf("slot %d is row %d, %t, %v", slot, row, ok, err)
			}
		}
	}
	return out
}

// TestFrozenTextGolden: a text index that version 1 has written is read for ever, and
// written the same. It has lists of texts, null, superseded and deleted rows, terms of one
// group and of several, once and several times in a row, and several blocks.
func TestFrozenTextGolden(t *testing.T) {
	x := newTextTable(t, true, true, Text{Analyzer: "simple"})
	var docs []doc
	for i := range 200 {
		d := doc{id: int64(i % 190), dead: i == 195, texts: []string{"all " + strings.Repeat("often ", i%3)}}
		d.texts = append(d.texts, fmt.Sprintf("some %cword%c%c", 'a'+i%13, 'a'+i%26, 'a'+i%9))
		switch {
		case i%40 == 11:
			d.texts = nil
		case i%7 == 3:
			d.texts[1] += " rare ünïcödé"
		}
		docs = append(docs, d)
	}
	x.put(docs...)
	set := x.tabs[0].set
	b := goldenFrozen(t, "text", set, "body")
	for _, f := range goldenOpen(t, x.spec, set, "body", b, 189) {
		if n := len(blockEnds(t, f, termNumbers)); n < 2 {
			t.Errorf("only %d blocks", n)
		}
		parts := []Part{{Frozen: &FrozenPart{Index: f}}}
		for _, q := range []query.Query{query.NewMatchAllQuery(), query.NewTermQuery("all"), query.NewTermQuery("rare"), query.NewMatchPhraseQuery("all often often"),
			query.NewMatchQuery("all rare"), query.NewPrefixQuery("a"), query.NewTermRangeQuery("cw", "f"), query.NewFuzzyQuery("oftan"), query.NewWildcardQuery("*a")} {
			got, err := x.searchParts(q, 300, parts)
			if err != nil {
				t.Fatal(err)
			}
			if err := same(got, x.search(q, 300, uint64(len(docs))), 0); err != nil || len(got) == 0 {
				t.Errorf("%s: %d hits, %v", describe(q), len(got), err)
			}
		}
		// As it is by its construction.
		var want []uint64
		for i := 10; i < 200; i++ { // the first ten are superseded
			if i%7 == 3 && i%40 != 11 && i != 195 {
				want = append(want, uint64(i))
			}
		}
		hits, err := x.searchParts(query.NewMatchPhraseQuery("rare ünïcödé"), 300, parts)
		got := ordinals(hits)
		slices.Sort(got)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%v, %v, want %v", got, err, want)
		}
	}
}

// TestFrozenOrderedGolden: an ordered index that version 1 has written is read for ever,
// and written the same. It is over three columns with nulls, with superseded and deleted
// rows, equal keys, and several blocks.
func TestFrozenOrderedGolden(t *testing.T) {
	sc := testSchema(true)
	f := newFixture(mustBind(t, sc, cols("id"), Ordered{Name: "o", Columns: cols("group", "score", "name")}))
	var rows []row
	for i := range 150 {
		x := row{id: int64(i % 140), name: fmt.Sprintf("name\x00%d", i/4*4), dead: i == 145}
		if i%3 > 0 {
			x.score = ptr(float64(i%10) - 4.5)
		}
		if i%4 > 0 {
			x.group = ptr(int32(i%5) - 2)
		}
		rows = append(rows, x, row{id: int64(1000 + i), name: "same"})
	}
	f.apply(t, batchOf(t, sc, rows))
	b := goldenFrozen(t, "ordered", f.set, "o")
	for _, z := range goldenOpen(t, f.spec, f.set, "o", b, 289) {
		if n := len(blockEnds(t, z, 1)); n < 2 {
			t.Errorf("only %d blocks", n)
		}
		for _, q := range []Range{{}, {Reverse: true}, {Low: []any{int32(-1)}, High: []any{int32(1), 0.5}, HighOpen: true}, {Low: []any{nil, nil, "same"}, High: []any{nil, nil, "same"}}} {
			if got, want := frozenRange(t, z, q), setRange(t, f.set, q, f.set.Applied()); !slices.Equal(got, want) || len(got) == 0 {
				t.Errorf("%+v: %d rows, want %d", q, len(got), len(want))
			}
		}
	}
}
