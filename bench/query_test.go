package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/blevesearch/bleve/v2/search/query"
	"github.com/google/uuid"
	"github.com/memwal/memwal-go/index"
	"github.com/memwal/memwal-go/memwal"
	"github.com/memwal/memwal-go/objstore"
)

var proseSchema = arrow.NewSchema([]arrow.Field{
	{Name: "id", Type: arrow.PrimitiveTypes.Int64},
	{Name: "text", Type: arrow.BinaryTypes.String, Nullable: true},
}, nil)

var proseIndex = index.Text{Name: "t", Column: index.Column{Name: "text"}}

// What is drawn from a text is a query of its kind that the text matches.
func TestDraw(t *testing.T) {
	var rows []string
	for i := range 3000 {
		text := fmt.Sprintf("common word%d", i)
		if i%1500 == 0 {
			text = "common seldom Words, the middle"
		}
		rows = append(rows, fmt.Sprintf(`{"id":%d,"text":%q}`, i, text))
	}
	w, err := newWording(&listSource{[]arrow.RecordBatch{fromJSON(t, proseSchema, rows...)}}, proseIndex)
	if err != nil {
		t.Fatal(err)
	}
	if w.rows != 3000 || w.in["common"] != 3000 || w.in["seldom"] != 2 || w.in["the"] != 0 {
		t.Fatalf("%d rows, common in %d, seldom in %d, the stop word in %d", w.rows, w.in["common"], w.in["seldom"], w.in["the"])
	}
	rng := rand.New(rand.NewPCG(1, 2))
	const text = "common seldom Words, the middle"
	for kind, want := range map[queryKind][]string{
		queryRareTerm:   {"seldom", "words", "middle"}, // of equal frequency
		queryCommonTerm: {"common"},
		queryMatch:      {"common seldom", "seldom common", "common Words", "Words common", "common middle", "middle common", "seldom Words", "Words seldom", "seldom middle", "middle seldom", "Words middle", "middle Words"},
		queryPhrase:     {`"common seldom"`, `"seldom Words"`}, // the stop word is a gap
		queryPrefix:     {"com…", "sel…", "wor…", "mid…"},
	} {
		seen := 0
		for range 100 {
			q, ok := w.draw(rng, kind, text)
			if !ok {
				continue // such as the same word twice
			}
			seen++
			if !slices.Contains(want, q.text) || !q.matches(w.terms(text)) || q.matches(w.terms("something else")) {
				t.Fatalf("%s: drew %s", queryNames[kind], q.text)
			}
		}
		if seen == 0 {
			t.Errorf("%s: drew none", queryNames[kind])
		}
	}
	for _, kind := range []queryKind{queryMatch, queryPhrase} {
		if q, ok := w.draw(rng, kind, "alone"); ok {
			t.Errorf("%s of a single word: %s", queryNames[kind], q.text)
		}
	}
	if q, ok := w.draw(rng, queryPrefix, "a b"); ok && q.text != "b…" {
		t.Errorf("prefix of a letter: %s", q.text)
	}
	if _, ok := w.draw(rng, queryRareTerm, "the"); ok {
		t.Error("a query of stop words")
	}
	// The most frequent of those that are rare.
	if got := w.rare(w.terms("word5 seldom unknown common")); got != "seldom" {
		t.Errorf("rare is %q", got)
	}
	if got := w.rare(w.terms("common")); got != "common" {
		t.Errorf("rare is %q", got)
	}
}

// hitLiar is a snapshot that gives wrong hits.
type hitLiar struct {
	snapshot
	lie func([]memwal.Hit) []memwal.Hit
}

func (l *hitLiar) Hits(ctx context.Context, name string, q query.Query, o memwal.SearchOptions) ([]memwal.Hit, error) {
	hits, err := l.snapshot.Hits(ctx, name, q, o)
	if err == nil && len(hits) == 0 {
		return nil, errors.New("the index itself found nothing")
	}
	return l.lie(hits), err
}

// A wrong answer stops the queriers and says what is wrong; right ones are counted.
func TestQueriersFindWrongAnswers(t *testing.T) {
	var rows []string
	for i := range 30 {
		rows = append(rows, fmt.Sprintf(`{"id":%d,"text":"shared text%d of row%d, never stop%d"}`, i, i%4, i, i))
	}
	rec := fromJSON(t, proseSchema, rows...)
	other := fromJSON(t, proseSchema, `{"id":77,"text":"quite different"}`)
	for _, keyed := range []bool{true, false} {
		o := &memwal.Options{Indexes: []index.Config{proseIndex}}
		if keyed {
			o.PrimaryKey = []string{"id"}
		}
		w, err := memwal.Open(t.Context(), objstore.NewMemory(), uuid.New(), proseSchema, o)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close(context.Background())
		if err := w.Put(t.Context(), rec); err != nil {
			t.Fatal(err)
		}
		words, err := newWording(&listSource{[]arrow.RecordBatch{rec}}, proseIndex)
		if err != nil {
			t.Fatal(err)
		}
		for _, tc := range []struct {
			name string
			lie  func([]memwal.Hit) []memwal.Hit
			want string
		}{
			{"the truth", func(h []memwal.Hit) []memwal.Hit { return h }, ""},
			{"nothing", func([]memwal.Hit) []memwal.Hit { return nil }, "has 0 hits, and "},
			{"one less", func(h []memwal.Hit) []memwal.Hit { return h[1:] }, "is not among them"},
			{"another row", func(h []memwal.Hit) []memwal.Hit {
				for i := range h {
					h[i].Row = memwal.Row{Batch: other, Presence: memwal.Present}
				}
				return h
			}, ""},
			{"a row that does not match", func(h []memwal.Hit) []memwal.Hit {
				if len(h) == queryLimit { // the one asked for may be missing
					for i := range h {
						h[i].Row = memwal.Row{Batch: other, Presence: memwal.Present}
					}
				}
				return h
			}, `found "quite different"`},
			{"rising scores", func(h []memwal.Hit) []memwal.Hit {
				for i := range h {
					h[i].Score = float64(i)
				}
				return h
			}, "after one with"},
		} {
			t.Run(fmt.Sprintf("%s/key=%v", tc.name, keyed), func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				rounds := 0
				open := func() (snapshot, error) {
					if rounds++; rounds == 300 {
						cancel()
					}
					s, err := w.Snapshot()
					return &hitLiar{s, tc.lie}, err
				}
				r, err := newReaders(1, open, &acknowledged{}, proseSchema, o.PrimaryKey, nil, true)
				if err != nil {
					t.Fatal(err)
				}
				r.known.add(rec)
				defer r.known.release()
				q := newQueriers(r, 0, proseIndex, words, nil)
				err = q.run(ctx)
				if tc.name == "the truth" {
					f := q.figures()
					if err != nil || len(f.named()) != map[bool]int{true: 6, false: 5}[keyed] {
						t.Errorf("%v, figures %+v", err, f)
					}
					for _, k := range f.named() {
						if k.Count < 20 || k.P50 <= 0 || k.P90 < k.P50 || k.P99 < k.P90 || k.Max < k.P99*0.99 {
							t.Errorf("figures of %s: %+v", k.name, k)
						}
					}
					return
				}
				if !errors.Is(err, errDiffers) || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("got %v, want %q", err, tc.want)
				}
			})
		}
	}
}

// With a rate, the queries of all goroutines together are as many as it says.
func TestQueryRate(t *testing.T) {
	rec := fromJSON(t, proseSchema, `{"id":1,"text":"two words"}`)
	w, err := memwal.Open(t.Context(), objstore.NewMemory(), uuid.New(), proseSchema, &memwal.Options{Indexes: []index.Config{proseIndex}})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close(context.Background())
	if err := w.Put(t.Context(), rec); err != nil {
		t.Fatal(err)
	}
	words, err := newWording(&listSource{[]arrow.RecordBatch{rec}}, proseIndex)
	if err != nil {
		t.Fatal(err)
	}
	r, err := newReaders(2, func() (snapshot, error) { return w.Snapshot() }, &acknowledged{}, proseSchema, nil, nil, true)
	if err != nil {
		t.Fatal(err)
	}
	r.known.add(rec)
	defer r.known.release()
	q := newQueriers(r, 200, proseIndex, words, nil)
	stop := q.beside(t.Context(), func(err error) { t.Error(err) })
	time.Sleep(300 * time.Millisecond)
	stop()
	var n int64
	for i := range q.took {
		n += q.took[i].count()
	}
	// 60 would be due; a loaded machine may do fewer, but never more than were due.
	if most := int64(200*q.clock.elapsed().Seconds()) + 2; n == 0 || n > most {
		t.Errorf("%d queries in %v", n, q.clock.elapsed())
	}
}

func TestBenchQuery(t *testing.T) {
	for _, tc := range []struct {
		name, args string
		kinds      int
	}{
		{"all", "-rows 3000 -batch 10 -text body -words 6 -query=2 -interval 1ms -rate 6000", 6},
		{"keyless, with readers", "-rows 2000 -batch 10 -index ordered,text -words 6 -query -read 1 -interval 1ms -rate 6000", 5},
		{"flights", "-rows 3000 -batch 10 -input data/flights-200k.parquet -index pk,text:origin:keyword -query -query-rate 2000 -interval 1ms -rate 6000", 4},
		{"where", "-rows 2000 -batch 10 -index pk,text -words 6 -query -where id>=500 -interval 1ms -rate 6000", 7},
		{"where, keyless", "-rows 2000 -batch 10 -index text -words 6 -query -where id>=500 -interval 1ms -rate 6000", 6},
	} {
		t.Run(tc.name, func(t *testing.T) {
			code, out, errs, f := runBench(t, append(strings.Fields(tc.args), "-store", "mem://")...)
			if code != 0 {
				t.Fatalf("exit code %d: %s\n%s", code, errs, out)
			}
			q := f.Query
			if q == nil || q.Queriers < 1 || q.PerS <= 0 || len(q.named()) != tc.kinds || !strings.Contains(out, "queries      rare     p50") || !strings.Contains(out, " queries/s\n") {
				t.Fatalf("figures %+v\n%s", q, out)
			}
			if (f.Read != nil) != strings.Contains(tc.args, "-read") || f.QueryCompare != nil {
				t.Errorf("figures %+v", f)
			}
		})
	}
}

// With -query-compare the putters take turns with and without readers, and nothing
// is lost over them.
func TestBenchQueryCompare(t *testing.T) {
	code, out, errs, f := runBench(t, strings.Fields("-store mem:// -rows 1000 -batch 20 -words 5 -index pk,text -query -query-compare -duration 800ms -interval 1ms -writers 2")...)
	c := f.QueryCompare
	if code != 0 || c == nil || c.Alone <= 0 || c.Beside <= 0 || c.Ratio != c.Beside/c.Alone || !strings.Contains(out, "slow-down") || !strings.Contains(out, "the writer loses") {
		t.Fatalf("exit code %d, %+v: %s\n%s", code, c, errs, out)
	}
	if f.VerifiedRows != f.Rows || f.Seconds < 0.7 || f.Query.Rare.Count == 0 {
		t.Errorf("%d of %d rows verified, %.2f s, %+v", f.VerifiedRows, f.Rows, f.Seconds, f.Query)
	}
}

// Half of the turns are without readers: the first and the last of each four.
func TestTurns(t *testing.T) {
	var tr turns
	var order []bool
	for i := range 8 {
		order = append(order, tr.alone())
		tr.add(int64(100*(i+1)), time.Second)
	}
	if want := []bool{true, false, false, true, true, false, false, true}; !slices.Equal(order, want) {
		t.Errorf("alone %v, want %v", order, want)
	}
	if f := tr.figures(); f.Alone != 450 || f.Beside != 450 || f.Ratio != 1 {
		t.Errorf("figures %+v", f)
	}
}

// fakeCompanion counts how often it was started and stopped.
type fakeCompanion struct{ started, stopped int }

func (c *fakeCompanion) beside(context.Context, func(error)) func() {
	c.started++
	return func() { c.stopped++ }
}

// A turn alone has nothing beside it.
func TestIngestAlone(t *testing.T) {
	c := &fakeCompanion{}
	for i, alone := range []bool{true, false, false, true} {
		in := &ingest{w: &fakeWriter{}, feed: mixedFeed(t, false), writers: 2, beside: []companion{c, c}, alone: alone}
		if err := in.run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if want := []int{0, 2, 4, 4}[i]; c.started != want || c.stopped != want {
			t.Errorf("turn %d: started %d, stopped %d, want %d", i, c.started, c.stopped, want)
		}
	}
}

// The table of an index's cost finds every row by its slot.
func TestCostTable(t *testing.T) {
	table := &costTable{}
	defer table.release()
	slot := uint32(0)
	for _, n := range []int{3, 1, 5, 2} {
		if first := table.add(mixedBatch(t, int(slot), n)); first != slot {
			t.Fatalf("a batch begins at %d, want %d", first, slot)
		}
		slot += uint32(n)
	}
	for want := range slot {
		if rec, row := table.Locate(want); rec.Column(0).(*array.Int64).Value(row) != int64(want) {
			t.Errorf("slot %d is row %d of %v", want, row, rec.Column(0))
		}
	}
}

// With a filter, hits are rows that it is true for, all that there are, and counts do not fall.
func TestQueriersFindWrongFiltering(t *testing.T) {
	var rows []string
	for i := range 8 {
		rows = append(rows, fmt.Sprintf(`{"id":%d,"text":"shared text%d"}`, i, i))
	}
	rec := fromJSON(t, proseSchema, rows...)
	w, err := memwal.Open(t.Context(), objstore.NewMemory(), uuid.New(), proseSchema, &memwal.Options{PrimaryKey: []string{"id"}, Indexes: []index.Config{proseIndex}})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close(context.Background())
	if err := w.Put(t.Context(), rec); err != nil {
		t.Fatal(err)
	}
	words, err := newWording(&listSource{[]arrow.RecordBatch{rec}}, proseIndex)
	if err != nil {
		t.Fatal(err)
	}
	where := memwal.Ge("id", int64(4))
	for _, tc := range []struct {
		name string
		lie  filterLiar
		want string
	}{
		{"the truth", filterLiar{}, ""},
		{"no filter", filterLiar{filter: &memwal.Filter{}}, "which is not such a row"},
		{"another filter", filterLiar{filter: ptr(memwal.Ge("id", int64(6)))}, "is not among them"},
		{"falling counts", filterLiar{count: -1}, "rows are id >= 4, though there were"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			rounds := 0
			open := func() (snapshot, error) {
				if rounds++; rounds == 200 {
					cancel()
				}
				s, err := w.Snapshot()
				l := tc.lie
				l.snapshot, l.where, l.count = s, where, int64(rounds)*l.count
				return &l, err
			}
			r, err := newReaders(1, open, &acknowledged{}, proseSchema, []string{"id"}, nil, true)
			if err != nil {
				t.Fatal(err)
			}
			r.known.add(rec)
			defer r.known.release()
			q := newQueriers(r, 0, proseIndex, words, &where)
			switch err := q.run(ctx); {
			case tc.want == "" && (err != nil || q.figures().Count.Count < 10 || q.least.Load() != 4):
				t.Errorf("%v, %+v, at least %d", err, q.figures(), q.least.Load())
			case tc.want != "" && (!errors.Is(err, errDiffers) || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

func ptr[T any](v T) *T { return &v }

// filterLiar searches with another filter, and counts with an error.
type filterLiar struct {
	snapshot
	where  memwal.Filter
	filter *memwal.Filter // nil: that which is asked for
	count  int64          // added to counts of where
}

func (l *filterLiar) Hits(ctx context.Context, name string, q query.Query, o memwal.SearchOptions) ([]memwal.Hit, error) {
	if l.filter != nil {
		o.Filter = *l.filter
	}
	return l.snapshot.Hits(ctx, name, q, o)
}

func (l *filterLiar) CountWhere(ctx context.Context, f memwal.Filter) (int64, error) {
	n, err := l.snapshot.CountWhere(ctx, f)
	if f.String() == l.where.String() {
		n += l.count
	}
	return n, err
}
