package index

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/blevesearch/bleve/v2/search/query"
)

// bytesCase is rows of several memtables, of which the indexes' memory is measured.
type bytesCase struct {
	name   string
	spec   *Spec
	tables [][]arrow.RecordBatch
	read   func(t *testing.T, parts []Part) // what leaves something behind
	most   float64                          // bytes a row; 0: any
}

func keyCase(t testing.TB, name string, configs []Config, input func() (*arrow.Schema, []arrow.RecordBatch)) bytesCase {
	sc, recs := input()
	c := bytesCase{name: name, spec: mustBind(t, sc, cols("id"), configs...), tables: [][]arrow.RecordBatch{recs}}
	if configs == nil {
		c.most = 24
	}
	return c
}

func orderedCase(t testing.TB, name string, input func() (*arrow.Schema, []arrow.RecordBatch)) bytesCase {
	sc, recs := input()
	return bytesCase{name: name, spec: mustBind(t, sc, nil, Ordered{Name: "o", Columns: cols("id")}), tables: [][]arrow.RecordBatch{recs},
		read: func(t *testing.T, parts []Part) {
			seq, err := parts[0].Set.Range("o", Range{}, parts[0].Bound)
			if err != nil {
				t.Fatal(err)
			}
			for range seq {
				break
			}
		}}
}

// textCase has texts that text gives. In keyed ones a row in three supersedes one of
// the same memtable or of the one before.
func textCase(t testing.TB, name string, cfg Text, keyed bool, tables, rows, size int, text func(r *rand.Rand) []string) bytesCase {
	x := newTextTable(t, keyed, name == "list", cfg)
	r := rand.New(rand.NewPCG(41, 42))
	c := bytesCase{name: name, spec: x.spec}
	id := int64(0)
	for range tables {
		var recs []arrow.RecordBatch
		for range rows / size {
			docs := make([]doc, size)
			for i := range docs {
				docs[i] = doc{id: id, texts: text(r)}
				if keyed && i%3 == 0 {
					docs[i].id = r.Int64N(id + 1)
				}
				id++
			}
			recs = append(recs, x.batch(docs))
		}
		c.tables = append(c.tables, recs)
	}
	c.read = func(t *testing.T, parts []Part) {
		all := len(parts)
		for i := range 2 * all {
			for _, q := range []query.Query{query.NewMatchQuery("word7 word8"), query.NewPrefixQuery("word1234"), fuzzyBy("word12345", 1), query.NewMatchAllQuery()} {
				// At older bounds, too.
				some := append([]Part(nil), parts[:all-i%all]...)
				if i >= all {
					some[len(some)-1].Bound /= 2
				}
				if _, err := c.spec.SearchText(t.Context(), "body", TextSearch{Query: q, Limit: 10}, some...); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	return c
}

// randomWords are n words of a vocabulary in which low numbers are more frequent.
func randomWords(n, vocabulary int) func(r *rand.Rand) []string {
	return func(r *rand.Rand) []string {
		words := make([]string, n)
		for i := range words {
			words[i] = fmt.Sprint("word", r.IntN(vocabulary)*r.IntN(100)/100)
		}
		return []string{strings.Join(words, " ")}
	}
}

func bytesCases(t testing.TB) []bytesCase {
	const n = 100_000
	one := []Config{Ordered{Name: "o", Columns: cols("id")}}
	ints := func(n, size int, random bool) func() (*arrow.Schema, []arrow.RecordBatch) {
		return func() (*arrow.Schema, []arrow.RecordBatch) { return int64Batches(t, n, size, random) }
	}
	texts := func(n, size int, format string) func() (*arrow.Schema, []arrow.RecordBatch) {
		return func() (*arrow.Schema, []arrow.RecordBatch) { return stringBatches(t, n, size, format) }
	}
	prose := newProse(30_000)
	return []bytesCase{
		keyCase(t, "key, random", nil, ints(n, 1000, true)),
		keyCase(t, "key, sequential", nil, ints(n, 1000, false)),
		keyCase(t, "key, text", nil, texts(n, 1000, "%016x")),
		orderedCase(t, "ordered, random", ints(n, 1000, true)),
		orderedCase(t, "ordered, random, small batches", ints(n, 20, true)),
		orderedCase(t, "ordered, sequential", ints(n, 1000, false)),
		orderedCase(t, "ordered, text", texts(n, 1000, "prefix-%016x")),
		orderedCase(t, "ordered, one large batch", ints(2*n, 2*n, true)),
		keyCase(t, "key and ordered", one, ints(n, 1000, true)),
		keyCase(t, "key and ordered, few rows", one, ints(10_000, 20, true)),
		textCase(t, "prose", Text{}, false, 1, 20_000, 1000, func(*rand.Rand) []string { return []string{prose.text(20)} }),
		textCase(t, "20 words", Text{}, false, 1, 20_000, 1000, randomWords(20, 30_000)),
		textCase(t, "20 words, no positions", Text{NoPositions: true}, false, 1, 20_000, 1000, randomWords(20, 30_000)),
		textCase(t, "short texts", Text{}, false, 1, 100_000, 1000, randomWords(2, 100)),
		textCase(t, "long texts", Text{}, false, 1, 200, 20, randomWords(1000, 10_000)),
		textCase(t, "new words", Text{}, false, 1, 5_000, 1000, randomWords(10, 1<<30)),
		textCase(t, "whole texts", Text{Analyzer: "keyword"}, false, 1, 20_000, 20, randomWords(10, 30_000)),
		textCase(t, "list", Text{}, false, 1, 20_000, 1000, func(r *rand.Rand) []string {
			return append(randomWords(5, 1000)(r), randomWords(5, 1000)(r)...)
		}),
		textCase(t, "few rows", Text{}, false, 1, 2000, 20, randomWords(10, 500)),
		textCase(t, "few rows, no positions", Text{NoPositions: true}, false, 1, 1000, 20, randomWords(10, 500)),
		textCase(t, "key and text, several memtables", Text{}, true, 3, 10_000, 1000, randomWords(10, 5000)),
	}
}

func stated(parts []Part) (bytes int64) {
	for _, p := range parts {
		bytes += p.Set.Bytes()
	}
	return bytes
}

func termsOf(t testing.TB, p Part) uint32 {
	x, err := p.Set.text("body")
	if err != nil {
		t.Fatal(err)
	}
	return x.terms.count.Load()
}

// TestM02_BytesAreThoseOfTheHeap: what Bytes says is what the heap grows by, within
// 15 %, with what searches leave behind; the rows are outside.
func TestM02_BytesAreThoseOfTheHeap(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector's own memory is on the heap")
	}
	for _, c := range bytesCases(t) {
		t.Run(c.name, func(t *testing.T) {
			stores := make([]*store, len(c.tables))
			for i, recs := range c.tables {
				stores[i] = newStore()
				for _, r := range recs {
					stores[i].add(r)
				}
			}
			build := func() []Part {
				var parts []Part
				first := uint64(0)
				for i, recs := range c.tables {
					set := c.spec.NewSet(stores[i])
					for j, r := range recs {
						if err := set.Apply(r, stores[i].view.Load().starts[j]); err != nil {
							t.Fatal(err)
						}
					}
					parts = append(parts, Part{Set: set, Bound: set.Applied(), First: first})
					first += uint64(set.Applied())
				}
				if c.read != nil {
					written := stated(parts)
					c.read(t, parts)
					if c.spec.Configs()[0].Kind() == KindText && stated(parts) < written+4*int64(termsOf(t, parts[0])) {
						t.Errorf("searches left %d bytes behind, and the order of %d terms is part of them", stated(parts)-written, termsOf(t, parts[0]))
					}
				}
				return parts
			}
			if c.read != nil {
				// What bleve and the runtime keep for ever is there before.
				build()
			}
			before := heapInUse()
			parts := build()
			heap := heapInUse() - before
			claimed, rows := stated(parts), int64(0)
			for _, p := range parts {
				rows += int64(p.Bound)
			}
			runtime.KeepAlive(parts)
			per := float64(heap) / float64(rows)
			t.Logf("%.0f bytes a row, stated %.0f", per, float64(claimed)/float64(rows))
			if off := math.Abs(float64(claimed-heap)) / float64(heap); off > 0.15 {
				t.Errorf("Bytes = %d, the heap grew by %d: off by %.0f %%", claimed, heap, 100*off)
			}
			if c.most > 0 && per > c.most {
				t.Errorf("%.1f bytes a row, more than %.1f", per, c.most)
			}
		})
	}
}
