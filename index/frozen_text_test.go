package index

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/blevesearch/bleve/v2/search/query"
)

// identity maps every slot to the row of the same number.
func identity(slot uint32) (uint32, bool) { return slot, true }

// unlessRace is n, and few where the race detector makes all of it ten times slower.
func unlessRace[T any](n, few T) T {
	if raceEnabled {
		return few
	}
	return n
}

func freeze(t testing.TB, s *Set, name string, row func(uint32) (uint32, bool)) []byte {
	t.Helper()
	var b bytes.Buffer
	info, err := s.Freeze(t.Context(), name, s.Applied(), row, &b)
	if err != nil {
		t.Fatal(err)
	}
	if info.Bytes != int64(b.Len()) {
		t.Fatalf("it says %d bytes, and wrote %d", info.Bytes, b.Len())
	}
	return b.Bytes()
}

func openFrozen(t testing.TB, s *Spec, name string, src FrozenSource, o FrozenOptions) *Frozen {
	t.Helper()
	f, err := s.OpenFrozen(t.Context(), name, src, o)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// ranged is an object of which only ranges can be had, each a copy.
type ranged struct {
	b     []byte
	mu    sync.Mutex
	reads []int64 // their lengths
	fail  func(offset, length int64) ([]byte, error)
}

func (r *ranged) Size() int64 { return int64(len(r.b)) }

func (r *ranged) ReadRange(ctx context.Context, offset, length int64) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	r.mu.Lock()
	r.reads = append(r.reads, length)
	fail := r.fail
	r.mu.Unlock()
	if fail != nil {
		if b, err := fail(offset, length); b != nil || err != nil {
			return b, err
		}
	}
	return bytes.Clone(r.b[offset : offset+length]), nil
}

// small reads everything in pages, and keeps hardly any.
var small = FrozenOptions{CacheBytes: 1, WholeBytes: 1}

// frozenParts are the parts at the whole bound with the first n memtables frozen.
func (x *textTable) frozenParts(n int, o FrozenOptions) []Part {
	x.t.Helper()
	parts := x.parts(uint64(len(x.docs)))
	live := x.live(uint64(len(x.docs)))
	for i := range parts {
		if i >= n {
			continue
		}
		set := parts[i].Set
		var src FrozenSource = FrozenBytes(freeze(x.t, set, "body", identity))
		if o.WholeBytes > 0 {
			src = &ranged{b: src.(FrozenBytes)}
		}
		f := openFrozen(x.t, x.spec, "body", src, o)
		part := &FrozenPart{Index: f}
		// What is live in it but not in the whole table is hidden.
		var hidden []uint32
		for slot := range set.Applied() {
			if _, ok := slices.BinarySearch(live, parts[i].First+uint64(slot)); !ok && set.Live(slot, set.Applied()) {
				hidden = append(hidden, slot)
			}
		}
		if len(hidden) > 0 {
			part.Hidden = func(slot uint32) bool {
				_, ok := slices.BinarySearch(hidden, slot)
				return ok
			}
			var err error
			if part.HiddenRows, part.HiddenTerms, err = f.Count(x.t.Context(), slices.Values(hidden)); err != nil {
				x.t.Fatal(err)
			}
		}
		parts[i] = Part{Frozen: part, First: parts[i].First}
	}
	return parts
}

func (x *textTable) searchParts(q query.Query, limit int, parts []Part) ([]found, error) {
	hits, err := x.spec.SearchText(x.t.Context(), "body", TextSearch{Query: q, Limit: limit}, parts...)
	var out []found
	for _, h := range hits {
		out = append(out, found{parts[h.Part].First + uint64(h.Slot), h.Score})
	}
	return out, err
}

// TestG04_FrozenTextAnswersAsTheMemtable: every search that a memtable answers is
// answered the same by its frozen index: rows, scores and order; by every analyzer, with
// and without positions, for texts and lists of texts, with rows superseded and deleted
// before the freeze; from memory and by ranges.
func TestG04_FrozenTextAnswersAsTheMemtable(t *testing.T) {
	all := append(Analyzers(), "")
	if raceEnabled {
		all = analyzersTested // one goroutine each: there is no race to find
	}
	for i, analyzer := range all {
		for j, bare := range []bool{false, true} {
			keyed, list := (i+j)%2 == 0, i%3 == 0
			t.Run(fmt.Sprintf("analyzer=%s nopositions=%t keyed=%t list=%t", analyzer, bare, keyed, list), func(t *testing.T) {
				t.Parallel()
				r := rand.New(rand.NewPCG(51, uint64(i)))
				x := newTextTable(t, keyed, list, Text{Analyzer: analyzer, NoPositions: bare})
				for range 4 {
					var docs []doc
					for range 40 {
						docs = append(docs, randomDoc(r, keyed, list))
					}
					x.put(docs...)
				}
				bound := uint64(len(x.docs))
				whole, byRange := x.frozenParts(1, FrozenOptions{}), x.frozenParts(1, small)
				for range 15 {
					q, limit := randomQuery(r, 0, !bare), pick(r, 1, 3, 10, 1000)
					want := x.search(q, limit, bound)
					for _, parts := range [][]Part{whole, byRange} {
						got, err := x.searchParts(q, limit, parts)
						if err != nil {
							t.Fatal(err)
						}
						if err := same(got, want, 0); err != nil {
							t.Fatalf("%s, limit %d: %v", describe(q), limit, err)
						}
						if err := sameFiltered(x, q, limit, parts, x.parts(bound), r.Uint64N(bound), uint64(1+r.IntN(20))); err != nil {
							t.Fatalf("%s, limit %d, filtered: %v", describe(q), limit, err)
						}
					}
				}
			})
		}
	}
}

// sameFiltered compares searches that leave out rows, one by one, and by leaps.
func sameFiltered(x *textTable, q query.Query, limit int, got, want []Part, from, every uint64) error {
	var few []uint64
	for at := from; at < uint64(len(x.docs)); at += every {
		few = append(few, at)
	}
	for _, candidates := range []func(uint64) ([]uint64, bool){nil, func(uint64) ([]uint64, bool) { return few, true }} {
		s := TextSearch{Query: q, Limit: limit, Offset: limit % 3, From: from, Candidates: candidates,
			Accept: func(_ int, slot uint32) bool { return slot%3 > 0 }}
		a, err := x.spec.SearchText(x.t.Context(), "body", s, got...)
		if err != nil {
			return err
		}
		b, err := x.spec.SearchText(x.t.Context(), "body", s, want...)
		if err != nil {
			return err
		}
		if !slices.Equal(a, b) {
			return fmt.Errorf("leaps %t: %v, want %v", candidates != nil, a, b)
		}
	}
	n, err := x.spec.TextHits(x.t.Context(), "body", q, got...)
	if m, err2 := x.spec.TextHits(x.t.Context(), "body", q, want...); n != m || err != nil || err2 != nil {
		return fmt.Errorf("%d hits at most, %v, want %d, %v", n, err, m, err2)
	}
	return nil
}

// TestFrozenTextModel: random histories over several memtables, the older ones frozen,
// against one index of just the live rows.
func TestFrozenTextModel(t *testing.T) {
	for seed := range unlessRace(uint64(8), 3) {
		r := rand.New(rand.NewPCG(61, seed))
		keyed, list, bare := seed%4 != 3, seed%3 == 1, seed%5 == 4
		x := newTextTable(t, keyed, list, Text{Analyzer: pick(r, "", "en", "cjk"), NoPositions: bare})
		for range 5 {
			for range 1 + r.IntN(4) {
				var docs []doc
				for range pick(r, 0, 1, 10, 40) {
					docs = append(docs, randomDoc(r, keyed, list))
				}
				x.put(docs...)
			}
			x.rotate()
		}
		for n := 1; n <= len(x.tabs); n++ {
			parts := x.frozenParts(n, pick(r, FrozenOptions{}, small))
			f, live := x.fresh(uint64(len(x.docs)))
			for range 15 {
				q, limit := randomQuery(r, 0, !bare), pick(r, 1, 3, 10, 1000)
				want := f.search(q, limit, uint64(len(live)))
				for i := range want {
					want[i].ordinal = live[want[i].ordinal]
				}
				got, err := x.searchParts(q, limit, parts)
				if err != nil {
					t.Fatal(err)
				}
				if err := same(got, want, 1e-9); err != nil {
					t.Fatalf("seed %d, %d frozen: %s, limit %d: %v", seed, n, describe(q), limit, err)
				}
			}
		}
	}
}

// TestFrozenLongPostings: terms of many groups, of exactly one, and places in them,
// walked and sought, by ranges.
func TestFrozenLongPostings(t *testing.T) {
	x := newTextTable(t, false, false, Text{Analyzer: "simple"})
	var docs []doc
	for i := range 5_000 {
		s := "all"
		if i%7 == 0 {
			s += " seven" + strings.Repeat(" often", i%5)
		}
		if i%707 == 0 {
			s += " rare" + strings.Repeat(" often", i/3)
		}
		if i < groupPostings {
			s += " one"
		}
		if i <= groupPostings {
			s += " more group"
		}
		docs = append(docs, textDoc(0, s))
	}
	x.put(docs...)
	and := func(s string) query.Query {
		q := query.NewMatchQuery(s)
		q.SetOperator(query.MatchQueryOperatorAnd)
		return q
	}
	for _, o := range []FrozenOptions{{}, small} {
		parts := x.frozenParts(1, o)
		for _, q := range []query.Query{
			and("all seven rare often"), and("seven all"), and("one all"), and("more rare"), query.NewTermQuery("all"), query.NewTermQuery("one"), query.NewTermQuery("more"),
			query.NewMatchPhraseQuery("rare often often"), query.NewMatchPhraseQuery("seven often"), query.NewMatchPhraseQuery("more group"), query.NewMatchPhraseQuery("all one"),
		} {
			want := x.search(q, 6000, 5000)
			got, err := x.searchParts(q, 6000, parts)
			if err != nil {
				t.Fatal(err)
			}
			if err := same(got, want, 1e-9); err != nil || len(want) == 0 {
				t.Errorf("%s: %d hits, %v", describe(q), len(want), err)
			}
		}
	}
}

// TestFrozenFileRows: the map from slots to file rows, in each of its forms, with rows
// left out.
func TestFrozenFileRows(t *testing.T) {
	const n = 2000
	r := rand.New(rand.NewPCG(71, 72))
	shuffled := r.Perm(n)
	keep := func(f func(slot uint32) uint32) func(uint32) (uint32, bool) {
		return func(slot uint32) (uint32, bool) { return f(slot), slot%3 != 1 }
	}
	x := newTextTable(t, true, false, Text{})
	for i := range n {
		x.put(textDoc(int64(i%1500), fmt.Sprintf("word w%d", i))) // the first 500 are superseded
	}
	set := x.tabs[0].set
	var next uint32
	for name, row := range map[string]func(uint32) (uint32, bool){
		"identity": identity,
		"rank": func(uint32) (uint32, bool) {
			next++
			return next - 1, true
		},
		"shuffled":           func(s uint32) (uint32, bool) { return uint32(shuffled[s]), true },
		"shuffled, left out": keep(func(s uint32) uint32 { return uint32(shuffled[s]) }),
		"small":              keep(func(s uint32) uint32 { return s % 200 }),
		"large":              keep(func(s uint32) uint32 { return s * 1000 }),
		"identity, left out": keep(func(s uint32) uint32 { return s }),
		"none":               func(uint32) (uint32, bool) { return 0, false },
	} {
		want := make(map[uint32]uint32)
		next = 0
		b := freeze(t, set, "body", func(slot uint32) (uint32, bool) {
			v, ok := row(slot)
			if ok {
				want[slot] = v
			}
			return v, ok
		})
		f := openFrozen(t, x.spec, "body", &ranged{b: b}, small)
		if int(f.Rows()) != len(want) || f.Slots() != n {
			t.Errorf("%s: %d rows of %d slots, want %d of %d", name, f.Rows(), f.Slots(), len(want), n)
		}
		for slot := range uint32(n + 10) {
			got, ok, err := f.Row(t.Context(), slot)
			if w, in := want[slot]; err != nil || ok != in || got != w {
				t.Fatalf("%s: slot %d is row %d, %t, %v; want %d, %t", name, slot, got, ok, err, w, in)
			}
		}
		hits, err := x.searchParts(query.NewMatchAllQuery(), 3000, []Part{{Frozen: &FrozenPart{Index: f}}})
		if err != nil || len(hits) != len(want) {
			t.Errorf("%s: %d documents, %v, want %d", name, len(hits), err, len(want))
		}
		for _, h := range hits {
			if _, in := want[uint32(h.ordinal)]; !in {
				t.Errorf("%s: slot %d is found", name, h.ordinal)
			}
		}
	}
}

// TestFrozenEdges: nothing, one row, no live row, terms of any length.
func TestFrozenEdges(t *testing.T) {
	long := strings.Repeat("x", MaxTermBytes-1)
	for name, docs := range map[string][]doc{
		"empty":      nil,
		"one":        {textDoc(1, "word")},
		"no text":    {{id: 1}, textDoc(2, "")},
		"dead":       {textDoc(1, "word"), {id: 1, dead: true}},
		"long terms": {textDoc(1, long), textDoc(2, long+"y"), textDoc(3, long+"z"), textDoc(4, "word"), textDoc(5, "y"+long), textDoc(6, long[:7000])},
	} {
		x := newTextTable(t, true, false, Text{Analyzer: "keyword"})
		if len(docs) > 0 {
			x.put(docs...)
		}
		for _, o := range []FrozenOptions{{}, small} {
			parts := x.frozenParts(1, o)
			if len(parts) == 0 {
				f := openFrozen(t, x.spec, "body", FrozenBytes(freeze(t, x.tabs[0].set, "body", identity)), o)
				parts = []Part{{Frozen: &FrozenPart{Index: f}}}
			}
			for _, q := range []query.Query{query.NewMatchAllQuery(), query.NewTermQuery("word"), query.NewTermQuery(long[:7000]), query.NewPrefixQuery(long[:6000]), query.NewPrefixQuery("x"),
				query.NewPrefixQuery(""), query.NewTermQuery("none"), query.NewTermQuery(""), query.NewTermQuery("\xff")} {
				got, err := x.searchParts(q, 10, parts)
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				if err := same(got, x.search(q, 10, uint64(len(docs))), 1e-9); err != nil {
					t.Errorf("%s: %T: %v", name, q, err)
				}
			}
			if err := parts[0].Frozen.Index.Verify(t.Context()); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// TestFrozenOtherIndex: an object is opened only as the index that it was frozen from.
func TestFrozenOtherIndex(t *testing.T) {
	x := newTextTable(t, true, false, Text{})
	x.put(textDoc(1, "word"))
	b := FrozenBytes(freeze(t, x.tabs[0].set, "body", identity))
	sc := x.spec.Schema()
	for what, c := range map[string]Config{
		"":          Text{Name: "renamed", Column: Column{Name: "body"}},
		"analyzer":  Text{Name: "t", Column: Column{Name: "body"}, Analyzer: "en"},
		"positions": Text{Name: "t", Column: Column{Name: "body"}, NoPositions: true},
		"kind":      Ordered{Name: "t", Columns: cols("body")},
	} {
		s := mustBind(t, sc, cols("id"), c)
		_, err := s.OpenFrozen(t.Context(), c.IndexName(), b, FrozenOptions{})
		var other *OtherIndexError
		if what == "" && err != nil || what != "" && (!errors.Is(err, ErrOtherIndex) || !errors.As(err, &other) || other.What != what) {
			t.Errorf("%q: %v", what, err)
		}
	}
	for name, id := range map[string]int{"body": 3, "renamed": 2} {
		f := sc.Fields()
		f[1] = field(name, f[1].Type, id, true)
		changed := mustBind(t, arrow.NewSchema(f, nil), cols("id"), Text{Name: "t", Column: Column{Name: name}})
		if _, err := changed.OpenFrozen(t.Context(), "t", b, FrozenOptions{}); (id != 2) != errors.Is(err, ErrOtherIndex) {
			t.Errorf("column %q with field id %d: %v", name, id, err)
		}
	}
	for _, name := range []string{"none", PrimaryKey} {
		if _, err := x.spec.OpenFrozen(t.Context(), name, b, FrozenOptions{}); !errors.Is(err, ErrNoIndex) {
			t.Errorf("open %q: %v", name, err)
		}
		if _, err := x.tabs[0].set.Freeze(t.Context(), name, 1, identity, new(bytes.Buffer)); !errors.Is(err, ErrNoIndex) {
			t.Errorf("freeze %q: %v", name, err)
		}
	}
	f := openFrozen(t, x.spec, "body", b, FrozenOptions{})
	if _, err := f.RangeKeys(t.Context(), Range{}); !errors.Is(err, ErrNoIndex) {
		t.Errorf("a range: %v", err)
	}
	for _, p := range []FrozenPart{{Index: f, HiddenRows: 1}, {Index: f, HiddenTerms: 1}, {Index: f, HiddenRows: 2, Hidden: func(uint32) bool { return true }}} {
		if _, err := x.searchParts(query.NewMatchAllQuery(), 1, []Part{{Frozen: &p}}); !errors.Is(err, ErrInvalid) {
			t.Errorf("hidden rows that are not there: %v", err)
		}
	}
	set := x.parts(1)[0]
	if _, err := x.searchParts(query.NewMatchAllQuery(), 1, []Part{set, {Frozen: &FrozenPart{Index: f}, First: 1}}); !errors.Is(err, ErrInvalid) {
		t.Errorf("a frozen part behind a memtable: %v", err)
	}
	if _, err := x.tabs[0].set.Freeze(t.Context(), "body", 2, identity, new(bytes.Buffer)); !errors.Is(err, ErrInvalid) {
		t.Errorf("a bound above what is applied: %v", err)
	}
	if err := x.tabs[0].set.Fail("body", errors.New("broken")); err != nil {
		t.Fatal(err)
	}
	if _, err := x.tabs[0].set.Freeze(t.Context(), "body", 1, identity, new(bytes.Buffer)); !errors.Is(err, ErrFailed) {
		t.Errorf("freeze a failed index: %v", err)
	}
}

// TestFrozenPartOfAnotherSpec: a part is searched by any Spec that could have opened it,
// such as that of the next process over the same schema, and by no other.
func TestFrozenPartOfAnotherSpec(t *testing.T) {
	x := newTextTable(t, true, false, Text{})
	x.put(textDoc(1, "some words"), textDoc(2, "word"))
	b := FrozenBytes(freeze(t, x.tabs[0].set, "body", identity))
	parts := []Part{{Frozen: &FrozenPart{Index: openFrozen(t, x.spec, "body", b, FrozenOptions{})}}}
	want := x.search(query.NewMatchQuery("word"), 10, 2)

	renamed := x.spec.Schema().Fields()
	renamed[1] = field("renamed", renamed[1].Type, 2, true)
	other := x.spec.Schema().Fields()
	other[1] = field("body", other[1].Type, 3, true)
	for name, c := range map[string]struct {
		fields []arrow.Field
		cfg    Config
		what   string
	}{
		"the same":                  {x.spec.Schema().Fields(), Text{Name: "body", Column: Column{Name: "body"}}, ""},
		"another name":              {x.spec.Schema().Fields(), Text{Name: "t", Column: Column{Name: "body"}}, ""},
		"another name of the field": {renamed, Text{Name: "body", Column: Column{Name: "renamed"}}, ""},
		"another field":             {other, Text{Name: "body", Column: Column{Name: "body"}}, "column"},
		"another analyzer":          {x.spec.Schema().Fields(), Text{Name: "body", Column: Column{Name: "body"}, Analyzer: "en"}, "analyzer"},
		"no positions":              {x.spec.Schema().Fields(), Text{Name: "body", Column: Column{Name: "body"}, NoPositions: true}, "positions"},
	} {
		s := mustBind(t, arrow.NewSchema(c.fields, nil), cols("id"), c.cfg)
		hits, err := s.SearchText(t.Context(), c.cfg.IndexName(), TextSearch{Query: query.NewMatchQuery("word"), Limit: 10}, parts...)
		var differs *OtherIndexError
		switch {
		case c.what != "":
			if !errors.Is(err, ErrOtherIndex) || !errors.As(err, &differs) || differs.What != c.what {
				t.Errorf("%s: %v", name, err)
			}
		case err != nil || len(hits) != len(want) || uint64(hits[0].Slot) != want[0].ordinal || hits[0].Score != want[0].score:
			t.Errorf("%s: %v, %v, want %v", name, hits, err, want)
		}
	}

	sc := testSchema(true)
	f := newFixture(mustBind(t, sc, cols("id"), Ordered{Name: "o", Columns: cols("id")}))
	ordered := openFrozen(t, f.spec, "o", FrozenBytes(freeze(t, f.set, "o", identity)), FrozenOptions{})
	if _, err := x.searchParts(query.NewMatchAllQuery(), 1, []Part{{Frozen: &FrozenPart{Index: ordered}}}); !errors.Is(err, ErrOtherIndex) {
		t.Errorf("a search of an ordered index: %v", err)
	}
}

// TestTextRegexpsOfAnotherColumn: bleve asks for the dictionary and does not look at the
// error that comes with it.
func TestTextRegexpsOfAnotherColumn(t *testing.T) {
	x := newTextTable(t, false, false, Text{})
	x.put(textDoc(1, "word"))
	wild, regexp := query.NewWildcardQuery("*x"), query.NewRegexpQuery(".*x")
	wild.SetField("title")
	regexp.SetField("title")
	for _, q := range []query.Query{wild, regexp} {
		if _, err := x.searchParts(q, 1, x.parts(1)); !errors.Is(err, ErrInvalid) {
			t.Errorf("%T: %v", q, err)
		}
	}
}

// TestM02_FrozenBytes: what Bytes says is what the heap grows by, within 15 %, with all of
// a small object, or with the pages of a large one that searches have read.
func TestM02_FrozenBytes(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector's own memory is on the heap")
	}
	x := zipfTable(t, 30_000, Text{Analyzer: "simple"})
	b := freeze(t, x.tabs[0].set, "body", shuffle(30_000))
	for name, o := range map[string]FrozenOptions{
		"whole": {WholeBytes: int64(len(b))}, "ranges": {WholeBytes: 1}, "a small cache": {WholeBytes: 1, CacheBytes: 300_000},
	} {
		src := &ranged{b: b}
		before := heapInUse()
		f := openFrozen(t, x.spec, "body", src, o)
		for i := range uint64(60) {
			if _, err := x.searchParts(query.NewTermQuery(zipfWord(i)), 5, []Part{{Frozen: &FrozenPart{Index: f}}}); err != nil {
				t.Fatal(err)
			}
		}
		heap, claimed := heapInUse()-before, f.Bytes()
		runtime.KeepAlive(src)
		runtime.KeepAlive(f)
		t.Logf("%s: %d bytes of %d", name, heap, len(b))
		if off := math.Abs(float64(claimed-heap)) / float64(heap); off > 0.15 {
			t.Errorf("%s: Bytes = %d, the heap grew by %d: off by %.0f %%", name, claimed, heap, 100*off)
		}
	}
}

// TestFrozenSeeksOverGroups: a seek decodes none of the groups that it passes.
func TestFrozenSeeksOverGroups(t *testing.T) {
	x := newTextTable(t, false, false, Text{})
	var docs []doc
	for range 5000 {
		docs = append(docs, textDoc(0, "word"))
	}
	x.put(docs...)
	f := openFrozen(t, x.spec, "body", FrozenBytes(freeze(t, x.tabs[0].set, "body", identity)), FrozenOptions{})
	term, err := f.search(t.Context()).find([]byte("word"))
	if err != nil {
		t.Fatal(err)
	}
	p := term.frozen.postings()
	if len(p.groups) != 41 {
		t.Fatalf("%d groups", len(p.groups))
	}
	for i := 3; i < 37; i++ {
		p.groups[i].heads = p.groups[37].heads // nothing is left to decode
	}
	if !p.next() || !p.seek(10) || p.slot != 10 || !p.seek(37*groupPostings+5) || p.slot != 37*groupPostings+5 || p.err != nil {
		t.Errorf("at slot %d: %v", p.slot, p.err)
	}
	if p.seek(5000) || p.next() || p.err != nil {
		t.Errorf("behind the end: slot %d, %v", p.slot, p.err)
	}
	p = term.frozen.postings()
	for i := 3; i < 37; i++ {
		p.groups[i].heads = p.groups[37].heads
	}
	if p.seek(20*groupPostings) || !errors.Is(p.err, ErrCorrupt) {
		t.Errorf("a seek into the damage: slot %d, %v", p.slot, p.err)
	}
}

// blockEnds are the last keys of the blocks of a frozen index.
func blockEnds(t testing.TB, f *Frozen, each int) (last []string) {
	t.Helper()
	x, err := f.index(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	e := entries{each: each}
	for _, ref := range x.refs {
		if err := e.load(t.Context(), f, ref, 0); err != nil {
			t.Fatal(err)
		}
		last = append(last, string(e.key(e.len()-1)))
	}
	return last
}

// TestFrozenTextRangesBetweenBlocks: a range of terms that begins between the last term of
// a block and the first one of the next has that first one, and all that follow.
func TestFrozenTextRangesBetweenBlocks(t *testing.T) {
	x := newTextTable(t, false, false, Text{Analyzer: "keyword"})
	r := rand.New(rand.NewPCG(151, 152))
	var words []string
	for i := range 200 {
		// Blocks of two to some ten terms.
		w := fmt.Sprintf("%03d", i) + strings.Repeat(pick(r, "a", "z"), pick(r, 1, 80, 500))
		words = append(words, w)
		x.put(textDoc(0, w))
	}
	for _, o := range []FrozenOptions{{}, small} {
		parts := x.frozenParts(1, o)
		f := parts[0].Frozen.Index
		ends := blockEnds(t, f, termNumbers)
		if len(ends) < 20 || len(ends) > len(words)/2 {
			t.Fatalf("%d blocks of %d terms", len(ends), len(words))
		}
		for i, end := range ends {
			for _, from := range []string{end, end + "\x00", end + "zz"} {
				start, _ := slices.BinarySearch(words, from)
				l, err := f.search(t.Context()).termsFrom(from)
				if err != nil {
					t.Fatal(err)
				}
				for _, want := range words[start:] {
					if got, ok := l.word(); !ok || got != want {
						t.Fatalf("from just above block %d: %.10q, want %.10q", i, got, want)
					}
					if err := l.next(); err != nil {
						t.Fatal(err)
					}
				}
				if got, ok := l.word(); ok {
					t.Fatalf("from block %d: %.10q behind the last term", i, got)
				}
				yes := true
				q := query.NewTermRangeInclusiveQuery(from, ends[min(i+3, len(ends)-1)], &yes, &yes)
				hits, err := x.searchParts(q, 1000, parts)
				if err != nil {
					t.Fatal(err)
				}
				if err := same(hits, x.search(q, 1000, uint64(len(words))), 1e-9); err != nil {
					t.Errorf("from just above block %d: %v", i, err)
				}
			}
		}
	}
}
