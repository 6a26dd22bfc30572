package index

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/blevesearch/bleve/v2/search/query"
)

// prose makes texts of a vocabulary in which the word of rank k comes in proportion to
// 1/(k+2.7), as in natural languages (Zipf, Mandelbrot), and in which frequent words
// are short. The words of a text are separated by blanks, some by a comma, and one in
// eight has a capital.
type prose struct {
	rng   *rand.Rand
	words []string
	sums  []float64
	buf   strings.Builder
}

func newProse(vocabulary int) *prose {
	p := &prose{rng: rand.New(rand.NewPCG(51, 52))}
	seen := make(map[string]bool)
	sum := 0.0
	for rank := 0; len(p.words) < vocabulary; {
		n := 2 + p.rng.IntN(3) + p.rng.IntN(3)
		for r := rank; r > 4; r /= 8 {
			n += 1 + p.rng.IntN(2)
		}
		w := make([]byte, n)
		for i := range w {
			w[i] = pick(p.rng, "aeiou", "bcdfghklmnprstvw")[p.rng.IntN(5)]
		}
		if s := string(w); !seen[s] {
			seen[s] = true
			p.words = append(p.words, s)
			rank++
			sum += 1 / (float64(rank) + 2.7)
			p.sums = append(p.sums, sum)
		}
	}
	return p
}

func (p *prose) word() string {
	return p.words[sort.SearchFloat64s(p.sums, p.rng.Float64()*p.sums[len(p.sums)-1])]
}

func (p *prose) text(words int) string {
	p.buf.Reset()
	for i := range words {
		if i > 0 {
			p.buf.WriteString(pick(p.rng, " ", " ", " ", " ", " ", ", "))
		}
		w := p.word()
		if p.rng.IntN(8) == 0 {
			w = strings.ToUpper(w[:1]) + w[1:]
		}
		p.buf.WriteString(w)
	}
	return p.buf.String()
}

// batches are n rows of size: keys that count up, and texts, to which extra adds.
func (p *prose) batches(t testing.TB, sc *arrow.Schema, n, size, words int, extra func(row int) string) []arrow.RecordBatch {
	var recs []arrow.RecordBatch
	for at := 0; at < n; at += size {
		b := array.NewRecordBuilder(memory.DefaultAllocator, sc)
		for i := range min(size, n-at) {
			b.Field(0).(*array.Int64Builder).Append(int64(at + i))
			s := p.text(words)
			if extra != nil {
				s += extra(at + i)
			}
			b.Field(1).(*array.StringBuilder).Append(s)
			if sc.NumFields() > 2 {
				b.Field(2).(*array.BooleanBuilder).Append(false)
			}
		}
		rec := b.NewRecordBatch()
		b.Release()
		t.Cleanup(rec.Release)
		recs = append(recs, rec)
	}
	return recs
}

// BenchmarkTextApply: batches of 20 rows, one goroutine, 10,000 batches an iteration:
// rows a second over all, and around the 100th and the 10,000th batch.
func BenchmarkTextApply(b *testing.B) {
	type run struct {
		name  string
		words int
		keyed bool
		cfg   Text
	}
	runs := []run{
		{"words=20", 20, false, Text{}},
		{"words=10", 10, false, Text{}},
		{"words=20/nopositions", 20, false, Text{NoPositions: true}},
		{"words=20/key", 20, true, Text{}},
		{"words=10/key", 10, true, Text{}},
	}
	for _, a := range []string{"simple", "en", "keyword", "cjk"} {
		runs = append(runs, run{"words=20/analyzer=" + a, 20, false, Text{Analyzer: a}})
	}
	const rows, size, window = 200_000, 20, 200
	for _, c := range runs {
		b.Run(c.name, func(b *testing.B) {
			x := newTextTable(b, c.keyed, false, c.cfg)
			recs := newProse(30_000).batches(b, x.spec.Schema(), rows, size, c.words, nil)
			store := newStore()
			for _, r := range recs {
				store.add(r)
			}
			starts := store.view.Load().starts
			var heap, claimed int64
			var early, late time.Duration
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				before := heapInUse()
				b.StartTimer()
				set := x.spec.NewSet(store)
				var at time.Time
				for i, rec := range recs {
					switch i {
					case 100, len(recs) - window:
						at = time.Now()
					case 100 + window:
						early += time.Since(at)
					}
					if err := set.Apply(rec, starts[i]); err != nil {
						b.Fatal(err)
					}
				}
				late += time.Since(at)
				b.StopTimer()
				heap, claimed = heapInUse()-before, set.Bytes()
				runtime.KeepAlive(set)
				b.StartTimer()
			}
			rate := func(rows int, d time.Duration) float64 { return float64(b.N) * float64(rows) / d.Seconds() }
			b.ReportMetric(rate(rows, b.Elapsed()), "rows/s")
			b.ReportMetric(rate(size*window, early), "rows/s@100th")
			b.ReportMetric(rate(size*window, late), "rows/s@10000th")
			b.ReportMetric(float64(heap)/rows, "heapB/row")
			b.ReportMetric(float64(claimed)/rows, "B/row")
		})
	}
}

// textRows is a memtable of a million rows of 20 words. One row in 1,000 has the word
// "needle", and one in 10 "common"; "needle" and the word after it are a phrase.
type textRows struct {
	x     *textTable
	part  Part
	prose *prose
}

var makeTextRows = sync.OnceValue(func() *textRows {
	p := newProse(30_000)
	x := newTextTable(benchTB{}, false, false, Text{})
	recs := p.batches(x.t, x.spec.Schema(), benchRows, 1000, 20, func(row int) string {
		s := ""
		if row%10 == 3 {
			s = " common"
		}
		if row%1000 == 503 {
			s += " needle eye"
		}
		return s
	})
	for _, r := range recs {
		x.tabs[0].apply(x.t, r)
	}
	return &textRows{x: x, part: Part{Set: x.tabs[0].set, Bound: x.tabs[0].set.Applied()}, prose: p}
})

// benchTB keeps rows that several benchmarks share: what they would clean up stays.
type benchTB struct{ testing.TB }

func (benchTB) Helper()           {}
func (benchTB) Cleanup(func())    {}
func (benchTB) Fatal(args ...any) { panic(fmt.Sprint(args...)) }

func (x *textRows) queries() []struct {
	name string
	q    query.Query
} {
	and := query.NewMatchQuery("needle common")
	and.SetOperator(query.MatchQueryOperatorAnd)
	words := x.prose.words
	both := query.NewMatchQuery(words[40] + " " + words[400])
	both.SetOperator(query.MatchQueryOperatorAnd)
	fuzzy := query.NewFuzzyQuery("needel")
	fuzzy.SetFuzziness(1)
	return []struct {
		name string
		q    query.Query
	}{
		{"rare", query.NewMatchQuery("needle")},
		{"common", query.NewMatchQuery("common")},
		{"and", and},
		{"and/words", both},
		{"or/words", query.NewMatchQuery(words[40] + " " + words[400])},
		{"phrase", query.NewMatchPhraseQuery("needle eye")},
		{"prefix", query.NewPrefixQuery("needl")},
		{"fuzzy", fuzzy},
		{"querystring", query.NewQueryStringQuery("+needle common -" + words[40])},
	}
}

// BenchmarkTextSearch: the top 10 of a million rows; p50 and p99.
func BenchmarkTextSearch(b *testing.B) {
	for _, c := range makeTextRows().queries() {
		b.Run(c.name, func(b *testing.B) {
			x := makeTextRows()
			var took []time.Duration
			b.ReportAllocs()
			for b.Loop() {
				start := time.Now()
				hits, err := x.x.spec.SearchText(context.Background(), "body", TextSearch{Query: c.q, Limit: 10}, x.part)
				took = append(took, time.Since(start))
				if err != nil || len(hits) == 0 {
					b.Fatal(len(hits), err)
				}
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2])/1e3, "p50-us")
			b.ReportMetric(float64(took[len(took)*99/100])/1e3, "p99-us")
		})
	}
}

// BenchmarkTextApplyBesideReader: a writer alone for half of the batches, and beside
// one reader that searches at full speed, at the newest bound, for the others.
func BenchmarkTextApplyBesideReader(b *testing.B) {
	const rows, size, block = 400_000, 20, 500
	for _, kind := range []string{"rare", "prefix", "fuzzy"} {
		b.Run(kind, func(b *testing.B) {
			x := newTextTable(b, true, false, Text{})
			recs := newProse(30_000).batches(b, x.spec.Schema(), rows, size, 20, func(row int) string {
				if row%1000 == 3 {
					return " needle"
				}
				return ""
			})
			q := map[string]query.Query{"rare": query.NewMatchQuery("needle"), "prefix": query.NewPrefixQuery("needl"), "fuzzy": fuzzyBy("needel", 1)}[kind]
			var alone, beside time.Duration
			var searches atomic.Int64
			for b.Loop() {
				f := newFixture(x.spec)
				for i := 0; i < len(recs); i += block {
					var stop atomic.Bool
					var wg sync.WaitGroup
					reads := i/block%2 == 1
					if reads {
						wg.Go(func() {
							for !stop.Load() {
								if _, err := x.spec.SearchText(context.Background(), "body", TextSearch{Query: q, Limit: 10}, Part{Set: f.set, Bound: f.set.Applied()}); err != nil {
									b.Error(err)
								}
								searches.Add(1)
							}
						})
					}
					start := time.Now()
					for _, r := range recs[i : i+block] {
						f.apply(b, r)
					}
					if took := time.Since(start); reads {
						beside += took
					} else {
						alone += took
					}
					stop.Store(true)
					wg.Wait()
				}
			}
			n := float64(b.N) * rows / 2
			b.ReportMetric(n/alone.Seconds(), "rows/s-alone")
			b.ReportMetric(n/beside.Seconds(), "rows/s-beside")
			b.ReportMetric(alone.Seconds()/beside.Seconds(), "ratio")
			b.ReportMetric(float64(searches.Load())/beside.Seconds(), "searches/s")
		})
	}
}
