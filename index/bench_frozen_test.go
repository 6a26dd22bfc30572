package index

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/blevesearch/bleve/v2/search/query"
)

// zipfTable is a memtable of n texts of 20 words out of 30,000, by Zipf's law. The term
// "needle" is in one row of a thousand.
func zipfTable(b testing.TB, n int, cfg Text) *textTable {
	x := newTextTable(b, false, false, cfg)
	r := rand.New(rand.NewPCG(91, 92))
	z := rand.NewZipf(r, 1.07, 1, 30_000-1)
	for at := 0; at < n; at += 1000 {
		bld := array.NewRecordBuilder(memory.DefaultAllocator, x.spec.Schema())
		for i := range min(1000, n-at) {
			var s strings.Builder
			for range 20 {
				s.WriteString(zipfWord(z.Uint64()))
				s.WriteByte(' ')
			}
			if i == 500 {
				s.WriteString("needle")
			}
			bld.Field(0).(*array.Int64Builder).Append(int64(at + i))
			bld.Field(1).(*array.StringBuilder).Append(s.String())
		}
		rec := bld.NewRecordBatch()
		bld.Release()
		b.Cleanup(rec.Release)
		x.tabs[0].apply(b, rec)
	}
	return x
}

// zipfWord is a word of two to five letters and "q".
func zipfWord(n uint64) string {
	b := []byte{'q'}
	for n = n*2654435761%1_000_003 + 25; n > 0; n /= 25 {
		b = append(b, "abcdefghijklmnoprstuvwxyz"[n%25])
	}
	return string(b)
}

// shuffle is a map from slots to file rows as of a file that is sorted by something else.
func shuffle(n int) func(uint32) (uint32, bool) {
	p := rand.New(rand.NewPCG(93, 94)).Perm(n)
	return func(slot uint32) (uint32, bool) { return uint32(p[slot]), true }
}

type counter struct{ n int64 }

func (c *counter) Write(b []byte) (int, error) {
	c.n += int64(len(b))
	return len(b), nil
}

// BenchmarkFreezeText: 20-word texts, with positions and a map of rows in any order.
func BenchmarkFreezeText(b *testing.B) {
	for _, n := range []int{100_000, 1_000_000} {
		for _, bare := range []bool{false, true} {
			b.Run(fmt.Sprintf("docs=%d/positions=%t", n, !bare), func(b *testing.B) {
				x := zipfTable(b, n, Text{Analyzer: "simple", NoPositions: bare})
				row := shuffle(n)
				docs, size := 0, int64(0)
				b.ReportAllocs()
				for b.Loop() {
					var c counter
					if _, err := x.tabs[0].set.Freeze(b.Context(), "body", uint32(n), row, &c); err != nil {
						b.Fatal(err)
					}
					docs, size = docs+n, c.n
				}
				b.ReportMetric(float64(docs)/b.Elapsed().Seconds(), "docs/s")
				b.ReportMetric(float64(size)/float64(n), "B/doc")
			})
		}
	}
}

// BenchmarkFreezeOrdered: an int64 column in any order, with the map of rows.
func BenchmarkFreezeOrdered(b *testing.B) {
	for _, sorted := range []bool{false, true} {
		b.Run(fmt.Sprintf("sorted=%t", sorted), func(b *testing.B) {
			sc, recs := int64Batches(b, benchRows, 10_000, !sorted)
			f := newFixture(mustBind(b, sc, nil, Ordered{Name: "o", Columns: cols("id")}))
			for _, rec := range recs {
				f.rows.add(rec)
			}
			if err := f.set.ApplyRun(recs, 0); err != nil {
				b.Fatal(err)
			}
			row := shuffle(benchRows)
			var c counter
			docs := 0
			b.ReportAllocs()
			for b.Loop() {
				c.n = 0
				if _, err := f.set.Freeze(b.Context(), "o", benchRows, row, &c); err != nil {
					b.Fatal(err)
				}
				docs += benchRows
			}
			b.ReportMetric(float64(docs)/b.Elapsed().Seconds(), "docs/s")
			b.ReportMetric(float64(c.n)/benchRows, "B/doc")
		})
	}
}

// BenchmarkOpenFrozen: a text index of 100,000 rows, from memory.
func BenchmarkOpenFrozen(b *testing.B) {
	x := zipfTable(b, 100_000, Text{Analyzer: "simple"})
	obj := FrozenBytes(freeze(b, x.tabs[0].set, "body", shuffle(100_000)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := x.spec.OpenFrozen(b.Context(), "body", obj, FrozenOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkSearchFrozen: a million rows, in a memtable, frozen in memory, and frozen and
// read by ranges through a cache of 4 MiB.
func BenchmarkSearchFrozen(b *testing.B) {
	x := zipfTable(b, benchRows, Text{Analyzer: "simple"})
	set := x.tabs[0].set
	obj := freeze(b, set, "body", shuffle(benchRows))
	common := zipfWord(20)
	and := query.NewMatchQuery("needle " + common)
	and.SetOperator(query.MatchQueryOperatorAnd)
	fuzz := query.NewFuzzyQuery("needel")
	fuzz.SetFuzziness(1)
	for _, q := range []struct {
		name  string
		query query.Query
	}{
		{"term", query.NewTermQuery("needle")},
		{"common", query.NewTermQuery(common)},
		{"and", and},
		{"phrase", query.NewMatchPhraseQuery(common + " needle")},
		{"prefix", query.NewPrefixQuery("qab")},
		{"fuzzy", fuzz},
	} {
		for _, where := range []string{"memtable", "frozen", "ranges"} {
			b.Run(q.name+"/"+where, func(b *testing.B) {
				part := Part{Set: set, Bound: benchRows}
				switch where {
				case "frozen":
					part = Part{Frozen: &FrozenPart{Index: openFrozen(b, x.spec, "body", FrozenBytes(obj), FrozenOptions{})}}
				case "ranges":
					part = Part{Frozen: &FrozenPart{Index: openFrozen(b, x.spec, "body", &ranged{b: obj}, FrozenOptions{})}}
				}
				b.ReportAllocs()
				for b.Loop() {
					if _, err := x.spec.SearchText(b.Context(), "body", TextSearch{Query: q.query, Limit: 10}, part); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
