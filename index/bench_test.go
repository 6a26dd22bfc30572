package index

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
)

const benchRows = 1_000_000

// BenchmarkPrimaryKeyApply: one goroutine, batches of 1,000 rows, a million
// rows an iteration.
func BenchmarkPrimaryKeyApply(b *testing.B) {
	for _, c := range []struct {
		name  string
		input func() (*arrow.Schema, []arrow.RecordBatch)
	}{
		{"int64/random", func() (*arrow.Schema, []arrow.RecordBatch) { return int64Batches(b, benchRows, 1000, true) }},
		{"int64/sequential", func() (*arrow.Schema, []arrow.RecordBatch) { return int64Batches(b, benchRows, 1000, false) }},
		{"text36", func() (*arrow.Schema, []arrow.RecordBatch) {
			return stringBatches(b, benchRows, 1000, "key-0000-0000-0000-%016x")
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			sc, recs := c.input()
			benchmarkApply(b, mustBind(b, sc, cols("id")), recs)
		})
	}
}

// BenchmarkOrderedApply: the same for an ordered index.
func BenchmarkOrderedApply(b *testing.B) {
	ordered := Ordered{Name: "o", Columns: cols("id")}
	b.Run("int64/random", func(b *testing.B) {
		sc, recs := int64Batches(b, benchRows, 1000, true)
		benchmarkApply(b, mustBind(b, sc, nil, ordered), recs)
	})
	b.Run("int64/random/batch20", func(b *testing.B) {
		sc, recs := int64Batches(b, benchRows, 20, true)
		benchmarkApply(b, mustBind(b, sc, nil, ordered), recs)
	})
	b.Run("int64/sequential", func(b *testing.B) {
		sc, recs := int64Batches(b, benchRows, 1000, false)
		benchmarkApply(b, mustBind(b, sc, nil, ordered), recs)
	})
	b.Run("text16", func(b *testing.B) {
		sc, recs := stringBatches(b, benchRows, 1000, "%016x")
		benchmarkApply(b, mustBind(b, sc, nil, ordered), recs)
	})
	b.Run("text36/sharedprefix", func(b *testing.B) {
		sc, recs := stringBatches(b, benchRows, 1000, "key-0000-0000-0000-%016x")
		benchmarkApply(b, mustBind(b, sc, nil, ordered), recs)
	})
}

func benchmarkApply(b *testing.B, spec *Spec, recs []arrow.RecordBatch) {
	rows := newStore()
	for _, r := range recs {
		rows.add(r)
	}
	var heap, claimed int64
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		before := heapInUse()
		b.StartTimer()
		set := spec.NewSet(rows)
		for i, rec := range recs {
			if err := set.Apply(rec, rows.view.Load().starts[i]); err != nil {
				b.Fatal(err)
			}
		}
		b.StopTimer()
		heap, claimed = heapInUse()-before, set.Bytes()
		runtime.KeepAlive(set)
		n += benchRows
		b.StartTimer()
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "rows/s")
	b.ReportMetric(float64(heap)/benchRows, "heapB/row")
	b.ReportMetric(float64(claimed)/benchRows, "claimedB/row")
}

func heapInUse() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// BenchmarkLookup: random keys that exist, a million rows; p50 and p99.
func BenchmarkLookup(b *testing.B) {
	for _, c := range []struct {
		name  string
		input func() (*arrow.Schema, []arrow.RecordBatch)
	}{
		{"int64", func() (*arrow.Schema, []arrow.RecordBatch) { return int64Batches(b, benchRows, 1000, true) }},
		{"text36", func() (*arrow.Schema, []arrow.RecordBatch) {
			return stringBatches(b, benchRows, 1000, "key-0000-0000-0000-%016x")
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			sc, recs := c.input()
			f := newFixture(mustBind(b, sc, cols("id")))
			for _, r := range recs {
				f.apply(b, r)
			}
			keys := make([]Key, 1<<16)
			for i := range keys {
				rec, row := f.rows.Locate(rand.Uint32N(benchRows))
				keys[i] = f.spec.RowKey(rec, row)
			}
			bound := f.set.Applied()
			var took []time.Duration
			i := 0
			b.ReportAllocs()
			for b.Loop() {
				k := keys[i%len(keys)]
				start := time.Now()
				_, ok := f.set.Lookup(k, bound)
				d := time.Since(start)
				if !ok {
					b.Fatal("key not found")
				}
				if i < 1<<20 {
					took = append(took, d)
				}
				i++
			}
			b.StopTimer()
			var timer []time.Duration // what reading the clock adds to each of them
			for range 100_000 {
				start := time.Now()
				timer = append(timer, time.Since(start))
			}
			slices.Sort(timer)
			slices.Sort(took)
			b.ReportMetric(float64(timer[len(timer)/2]), "clock-p50-ns")
			b.ReportMetric(float64(took[len(took)/2]), "p50-ns")
			b.ReportMetric(float64(took[len(took)*99/100]), "p99-ns")
		})
	}
}

// BenchmarkRange: 20 rows from a random place, alone and beside a writer.
func BenchmarkRange(b *testing.B) {
	b.Run("alone", func(b *testing.B) {
		f, _ := rangeFixture(b)
		for b.Loop() {
			scan20(b, f.set)
		}
	})
	b.Run("besideWriter", func(b *testing.B) {
		f, recs := rangeFixture(b)
		var stop atomic.Bool
		var wrote atomic.Int64
		var wg sync.WaitGroup
		wg.Go(func() {
			for i := 0; !stop.Load(); i++ {
				if i == len(recs) {
					return
				}
				f.apply(b, recs[i])
				wrote.Add(recs[i].NumRows())
			}
		})
		for b.Loop() {
			scan20(b, f.set)
		}
		elapsed := b.Elapsed()
		stop.Store(true)
		wg.Wait()
		b.ReportMetric(float64(wrote.Load())/elapsed.Seconds(), "inserted/s")
	})
}

func rangeFixture(b *testing.B) (*fixture, []arrow.RecordBatch) {
	sc, recs := int64Batches(b, 8*benchRows, 1000, true)
	f := newFixture(mustBind(b, sc, nil, Ordered{Name: "o", Columns: cols("id")}))
	for _, r := range recs[:1000] {
		f.apply(b, r)
	}
	return f, recs[1000:]
}

func scan20(b *testing.B, s *Set) {
	seq, err := s.Range("o", Range{Low: []any{rand.Int64()}}, s.Applied())
	if err != nil {
		b.Fatal(err)
	}
	n := 0
	for range seq {
		if n++; n == 20 {
			break
		}
	}
}

// BenchmarkApplyRun: a million rows in batches of 1,000, one by one and in runs of
// so many batches. What it shows decides
// sortRows and mergeFactor.
func BenchmarkApplyRun(b *testing.B) {
	ordered := Ordered{Name: "o", Columns: cols("id")}
	for _, c := range []struct {
		name  string
		input func() (*arrow.Schema, []arrow.RecordBatch)
	}{
		{"int64/random", func() (*arrow.Schema, []arrow.RecordBatch) { return int64Batches(b, benchRows, 1000, true) }},
		{"int64/sequential", func() (*arrow.Schema, []arrow.RecordBatch) { return int64Batches(b, benchRows, 1000, false) }},
		{"text36", func() (*arrow.Schema, []arrow.RecordBatch) {
			return stringBatches(b, benchRows, 1000, "key-0000-0000-0000-%016x")
		}},
	} {
		for _, kind := range []string{"primary", "ordered"} {
			for _, batches := range []int{1, 8, 16, 64, 256, 1024} {
				b.Run(fmt.Sprintf("%s/%s/run=%d", kind, c.name, batches), func(b *testing.B) {
					sc, recs := c.input()
					spec := mustBind(b, sc, cols("id"))
					if kind == "ordered" {
						spec = mustBind(b, sc, nil, ordered)
					}
					rows := newStore()
					for _, r := range recs {
						rows.add(r)
					}
					b.ReportAllocs()
					for b.Loop() {
						set := spec.NewSet(rows)
						for run := range slices.Chunk(recs, batches) {
							if err := set.ApplyRun(run, set.Applied()); err != nil {
								b.Fatal(err)
							}
						}
					}
					b.ReportMetric(float64(b.N)*benchRows/b.Elapsed().Seconds(), "rows/s")
				})
			}
		}
	}
}
