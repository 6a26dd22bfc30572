package index

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/blevesearch/bleve/v2/document"
	"github.com/blevesearch/bleve/v2/index/scorch"
	"github.com/blevesearch/bleve/v2/search"
	"github.com/blevesearch/bleve/v2/search/collector"
	"github.com/blevesearch/bleve/v2/search/query"
	blevindex "github.com/blevesearch/bleve_index_api"

	"github.com/memwal/memwal-go/internal/schema"
)

// doc is a row of the text tests: texts is nil for null, and the elements of a list.
type doc struct {
	id    int64
	texts []string
	dead  bool
}

// textTable makes memtables of docs and a model of all that was written.
type textTable struct {
	t     testing.TB
	spec  *Spec
	keyed bool
	list  bool
	tabs  []*fixture // oldest first
	first []uint64   // their first ordinals
	docs  []doc      // by ordinal
}

func textSchema(keyed, list bool) *arrow.Schema {
	var typ arrow.DataType = arrow.BinaryTypes.String
	if list {
		typ = arrow.ListOf(typ)
	}
	fields := []arrow.Field{field("id", arrow.PrimitiveTypes.Int64, 1, false), field("body", typ, 2, true)}
	if keyed {
		fields = append(fields, arrow.Field{Name: schema.Tombstone, Type: arrow.FixedWidthTypes.Boolean})
	}
	return arrow.NewSchema(fields, nil)
}

func newTextTable(t testing.TB, keyed, list bool, cfg Text) *textTable {
	cfg.Name, cfg.Column = "body", Column{Name: "body"}
	var key []Column
	if keyed {
		key = cols("id")
	}
	x := &textTable{t: t, keyed: keyed, list: list, spec: mustBind(t, textSchema(keyed, list), key, cfg)}
	x.rotate()
	return x
}

func (x *textTable) rotate() {
	x.tabs, x.first = append(x.tabs, newFixture(x.spec)), append(x.first, uint64(len(x.docs)))
}

func (x *textTable) put(docs ...doc) {
	x.tabs[len(x.tabs)-1].apply(x.t, x.batch(docs))
	x.docs = append(x.docs, docs...)
}

func (x *textTable) batch(docs []doc) arrow.RecordBatch {
	b := array.NewRecordBuilder(memory.DefaultAllocator, x.spec.Schema())
	defer b.Release()
	for _, d := range docs {
		b.Field(0).(*array.Int64Builder).Append(d.id)
		switch f := b.Field(1).(type) {
		case *array.StringBuilder:
			if d.texts == nil {
				f.AppendNull()
			} else {
				f.Append(d.texts[0])
			}
		case *array.ListBuilder:
			f.Append(d.texts != nil)
			for _, s := range d.texts {
				if s == "<null>" {
					f.ValueBuilder().AppendNull()
				} else {
					f.ValueBuilder().(*array.StringBuilder).Append(s)
				}
			}
		}
		if x.keyed {
			b.Field(2).(*array.BooleanBuilder).Append(d.dead)
		}
	}
	rec := b.NewRecordBatch()
	x.t.Cleanup(rec.Release)
	return rec
}

// live are the ordinals that a reader with the bound sees.
func (x *textTable) live(bound uint64) []uint64 {
	newest := make(map[int64]uint64)
	for i, d := range x.docs[:bound] {
		newest[d.id] = uint64(i)
	}
	var out []uint64
	for i, d := range x.docs[:bound] {
		if !d.dead && (!x.keyed || newest[d.id] == uint64(i)) {
			out = append(out, uint64(i))
		}
	}
	return out
}

// parts are what a search at the bound covers.
func (x *textTable) parts(bound uint64) []Part {
	var parts []Part
	for i, f := range x.tabs {
		if bound <= x.first[i] {
			break
		}
		parts = append(parts, Part{Set: f.set, First: x.first[i], Bound: uint32(min(bound-x.first[i], uint64(f.set.Applied())))})
	}
	return parts
}

// found is a hit by ordinal.
type found struct {
	ordinal uint64
	score   float64
}

func (x *textTable) search(q query.Query, limit int, bound uint64) []found {
	x.t.Helper()
	parts := x.parts(bound)
	hits, err := x.spec.SearchText(context.Background(), "body", TextSearch{Query: q, Limit: limit}, parts...)
	if err != nil {
		x.t.Fatal(err)
	}
	var out []found
	for _, h := range hits {
		out = append(out, found{parts[h.Part].First + uint64(h.Slot), h.Score})
	}
	return out
}

// fresh is an index of just the live rows at the bound, in one memtable, and the
// ordinals of these.
func (x *textTable) fresh(bound uint64) (*textTable, []uint64) {
	cfg := x.spec.Configs()[0].(Text)
	f := newTextTable(x.t, x.keyed, x.list, cfg)
	live := x.live(bound)
	var docs []doc
	for _, o := range live {
		docs = append(docs, x.docs[o])
	}
	if len(docs) > 0 {
		f.put(docs...)
	}
	return f, live
}

// same compares hits with those of a fresh index.
func same(got, want []found, within float64) error {
	if len(got) != len(want) {
		return fmt.Errorf("%d hits, want %d:\ngot  %v\nwant %v", len(got), len(want), got, want)
	}
	for i := range got {
		if got[i].ordinal != want[i].ordinal || math.Abs(got[i].score-want[i].score) > within {
			return fmt.Errorf("hit %d is %v, want %v:\ngot  %v\nwant %v", i, got[i], want[i], got, want)
		}
	}
	return nil
}

// check compares a search with the same search over a fresh index.
func (x *textTable) check(q query.Query, limit int, bound uint64) error {
	f, live := x.fresh(bound)
	want := f.search(q, limit, uint64(len(live)))
	for i := range want {
		want[i].ordinal = live[want[i].ordinal]
	}
	if err := same(x.search(q, limit, bound), want, 1e-9); err != nil {
		return fmt.Errorf("%s at %d, limit %d: %w", describe(q), bound, limit, err)
	}
	return nil
}

func describe(q query.Query) string {
	s, err := query.DumpQuery(nil, q)
	if err != nil {
		return fmt.Sprintf("%T %+v", q, q)
	}
	return s
}

// bleve searches bleve's own index of just the live rows, with the statistics that
// BM25 is defined by. Its norms have 32 bits.
func (x *textTable) bleve(q query.Query, limit int, bound uint64) []found {
	t := x.t
	queue := blevindex.NewAnalysisQueue(1)
	defer queue.Close()
	ix, err := scorch.NewScorch(scorch.Name, map[string]any{"path": ""}, queue)
	if err != nil {
		t.Fatal(err)
	}
	if err := ix.Open(); err != nil {
		t.Fatal(err)
	}
	defer ix.Close()
	spec := x.spec.kinds[0].(*textSpec)
	terms := 0
	live := x.live(bound)
	for _, o := range live {
		d := document.NewDocument(fmt.Sprintf("%020d", o))
		for i, s := range x.docs[o].texts {
			if s == "" || s == "<null>" {
				continue // the analyzer "keyword" makes a term of empty text
			}
			var at []uint64
			if x.list {
				at = []uint64{uint64(i)}
			}
			d.AddField(document.NewTextFieldCustom("body", at, []byte(s), blevindex.IndexField|blevindex.IncludeTermVectors, spec.analyzer))
			terms += len(spec.analyzer.Analyze([]byte(s)))
		}
		if err := ix.Update(d); err != nil {
			t.Fatal(err)
		}
	}
	r, err := ix.Reader()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	ctx := context.WithValue(t.Context(), search.GetScoringModelCallbackKey,
		search.GetScoringModelCallbackFn(func() string { return blevindex.BM25Scoring }))
	ctx = context.WithValue(ctx, search.BM25StatsKey, &search.BM25Stats{
		DocCount: float64(len(live)), FieldCardinality: map[string]int{"body": terms},
	})
	s, err := q.Searcher(ctx, r, spec.mapping, search.SearcherOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	top := collector.NewTopNCollector(limit, 0, search.SortOrder{&search.SortScore{Desc: true}, &search.SortDocID{}})
	if err := top.Collect(ctx, s, r); err != nil {
		t.Fatal(err)
	}
	var out []found
	for _, m := range top.Results() {
		var o uint64
		if _, err := fmt.Sscan(strings.TrimLeft(m.ID[:len(m.ID)-1], "0")+m.ID[len(m.ID)-1:], &o); err != nil {
			t.Fatal(err)
		}
		out = append(out, found{o, m.Score})
	}
	return out
}

var (
	words = strings.Fields("alpha beta gamma delta alphabet betamax Gamma the and of müller Müller mueller straße café 東京 東京都 京都 🙂 🙂🙂 日本語テキスト x1 x2 running runs ran a " +
		strings.Repeat("long", 300))
	analyzersTested = []string{"", "simple", "keyword", "en", "de", "cjk"}
)

// word is a random one, the first ones most often.
func word(r *rand.Rand) string {
	if r.IntN(30) == 0 {
		return fmt.Sprintf("w%d", r.IntN(200))
	}
	return words[min(r.IntN(len(words)), r.IntN(len(words)))]
}

func randomText(r *rand.Rand, n int) string {
	out := make([]string, r.IntN(n+1))
	for i := range out {
		out[i] = word(r)
	}
	return strings.Join(out, pick(r, " ", " ", ", ", "-", "\u3000"))
}

func randomDoc(r *rand.Rand, keyed, list bool) doc {
	d := doc{id: int64(r.IntN(60)), dead: keyed && r.IntN(8) == 0}
	switch {
	case r.IntN(8) == 0: // null
	case list:
		d.texts = []string{}
		for range r.IntN(4) {
			d.texts = append(d.texts, pick(r, randomText(r, 6), randomText(r, 3), "", "<null>"))
		}
	default:
		d.texts = []string{randomText(r, pick(r, 3, 12, 60))}
	}
	return d
}

// randomQuery is a query of any type; plain leaves out what needs positions.
func randomQuery(r *rand.Rand, depth int, positions bool) query.Query {
	n := 12
	if depth > 1 {
		n = 8
	}
	switch r.IntN(n) {
	case 0, 1:
		return query.NewTermQuery(strings.ToLower(word(r)))
	case 2:
		return query.NewMatchQuery(randomText(r, 3))
	case 3:
		q := query.NewMatchQuery(randomText(r, 3))
		q.SetOperator(query.MatchQueryOperatorAnd)
		return q
	case 4:
		if !positions {
			return query.NewMatchAllQuery()
		}
		return query.NewMatchPhraseQuery(word(r) + " " + pick(r, word(r), word(r)+" "+word(r), ""))
	case 5:
		w := []rune(strings.ToLower(word(r)))
		return query.NewPrefixQuery(string(w[:min(len(w), 1+r.IntN(3))]))
	case 6:
		q := query.NewFuzzyQuery(strings.ToLower(word(r)))
		q.SetFuzziness(r.IntN(3))
		q.SetPrefix(r.IntN(3))
		return q
	case 7:
		ascii := func() string { return pick(r, "alpha", "beta", "gamma", "the", "x1", "running") }
		return query.NewQueryStringQuery(fmt.Sprintf(pick(r, "+%s -%s", "%s %s^2", "%s~1 %s", "al* %s%s", "/be.*/ %s %s", "-%s -%s"), ascii(), ascii()))
	case 8, 9, 10:
		var list [3][]query.Query
		for i := range list {
			for range r.IntN(3) {
				list[i] = append(list[i], randomQuery(r, depth+1, positions))
			}
		}
		if len(list[0])+len(list[1])+len(list[2]) == 0 {
			return query.NewMatchNoneQuery() // bleve refuses an empty one
		}
		b := query.NewBooleanQuery(list[0], list[1], list[2])
		if len(list[1]) > 1 {
			b.SetMinShould(float64(r.IntN(2)))
		}
		return b
	default:
		return pick[query.Query](r, query.NewMatchAllQuery(), query.NewMatchQuery("the and of"), query.NewMatchQuery(""),
			query.NewTermRangeQuery("b", "e"), query.NewWildcardQuery("*m?*"), query.NewMatchNoneQuery())
	}
}

// TestTextModel: random histories of upserts, deletes, and memtables, and random
// queries of all types at random bounds, against an index of just the live rows and
// against bleve's own of the same.
func TestTextModel(t *testing.T) {
	for _, keyed := range []bool{false, true} {
		for _, list := range []bool{false, true} {
			for _, analyzer := range analyzersTested {
				for _, bare := range []bool{false, true} {
					name := fmt.Sprintf("keyed=%t list=%t analyzer=%s nopositions=%t", keyed, list, analyzer, bare)
					t.Run(name, func(t *testing.T) {
						runTextModel(t, newTextTable(t, keyed, list, Text{Analyzer: analyzer, NoPositions: bare}), !bare)
					})
				}
			}
		}
	}
}

func runTextModel(t *testing.T, x *textTable, positions bool) {
	r := rand.New(rand.NewPCG(21, uint64(len(t.Name()))))
	for step := range 12 {
		var docs []doc
		for range pick(r, 0, 1, 5, 30) {
			docs = append(docs, randomDoc(r, x.keyed, x.list))
		}
		x.put(docs...)
		for range 6 {
			q, limit, bound := randomQuery(r, 0, positions), pick(r, 1, 3, 10, 100, 1000), uint64(len(x.docs))
			if r.IntN(2) == 0 {
				bound = r.Uint64N(bound + 1)
			}
			if err := x.check(q, limit, bound); err != nil {
				t.Fatalf("step %d: %v", step, err)
			}
			if step%4 == 3 {
				if err := sameRanks(x.search(q, 1000, bound), x.bleve(q, 1000, bound)); err != nil {
					t.Fatalf("step %d: %s at %d, by bleve: %v", step, describe(q), bound, err)
				}
			}
		}
		if r.IntN(3) == 0 {
			x.rotate()
		}
	}
}

// sameRanks compares with scores whose norms have 32 bits, so that near ties may be
// the other way round.
func sameRanks(got, want []found) error {
	scores := make(map[uint64]float64)
	for _, w := range want {
		scores[w.ordinal] = w.score
	}
	if len(got) != len(want) {
		return fmt.Errorf("%d hits, want %d:\ngot  %v\nwant %v", len(got), len(want), got, want)
	}
	for _, g := range got {
		if w, ok := scores[g.ordinal]; !ok || math.Abs(g.score-w) > 1e-5*(1+math.Abs(w)) {
			return fmt.Errorf("hit %v, want score %v, %t\ngot  %v\nwant %v", g, w, ok, got, want)
		}
	}
	return nil
}
