package index

import (
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
)

// TestConcurrentReaders: one writer and many readers at random bounds up to the
// applied count. What a reader gets depends on its bound alone, so the model of
// the whole history says what it must be.
func TestConcurrentReaders(t *testing.T) {
	for _, k := range keyings[1:] {
		for name, weaken := range map[string]func(uint64) uint64{
			"hash":     nil,
			"4 hashes": func(h uint64) uint64 { return h & (3 << 62) },
		} {
			t.Run(k.name+"/"+name, func(t *testing.T) { runConcurrent(t, k, weaken, 1, sortRows) })
			t.Run(k.name+"/"+name+"/runs", func(t *testing.T) { runConcurrent(t, k, weaken, 3, 20) })
		}
	}
}

func runConcurrent(t *testing.T, k keying, weaken func(uint64) uint64, runs, sorted int) {
	r := rand.New(rand.NewPCG(11, 12))
	f := newFixture(bindModel(t, k, weaken))
	f.sortFrom(sorted)
	m := &model{key: k.key}
	var batches [][]row
	for range 40 {
		var batch []row
		for range pick(r, 1, 5, 20, 60) {
			batch = append(batch, randomRow(r, true))
		}
		batches = append(batches, batch)
		m.rows = append(m.rows, batch...)
	}
	var done atomic.Bool
	var checked atomic.Int64
	var wg sync.WaitGroup
	for reader := range 4 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(reader), 5))
			for last := false; !last && !t.Failed(); {
				last = done.Load()
				bound := int(f.set.Applied())
				if r.IntN(2) == 0 {
					bound = r.IntN(bound + 1)
				}
				checkRange(t, f, m, testIndexes[r.IntN(len(testIndexes))], r, bound)
				for range 5 {
					checkLookup(t, f, m, k, randomRow(r, true), bound)
				}
				checked.Add(1)
			}
		})
	}
	for run := range slices.Chunk(batches, runs) {
		var recs []arrow.RecordBatch
		for _, batch := range run {
			recs = append(recs, batchOf(t, f.spec.Schema(), batch))
		}
		f.applyRun(t, recs...)
		for n := checked.Load(); checked.Load() == n && r.IntN(2) == 0 && !t.Failed(); {
			time.Sleep(10 * time.Microsecond)
		}
	}
	done.Store(true)
	wg.Wait()
}

// TestManySeekers: more goroutines seek long keys than there are edge numbers,
// beside a writer.
func TestManySeekers(t *testing.T) {
	sc := testSchema(false)
	f := newFixture(mustBind(t, sc, nil, Ordered{Name: "o", Columns: cols("name", "id")}))
	const n = 200
	names := func(i int) string { return "a long shared prefix " + string(rune('a'+i%26)) }
	var rows []row
	for i := range n {
		rows = append(rows, row{id: int64(i), name: names(i)})
	}
	f.apply(t, batchOf(t, sc, rows))
	var wg sync.WaitGroup
	for g := range 2 * edgeSlots {
		wg.Go(func() {
			for i := range 20 {
				id := (g*31 + i*7) % n
				got := slots(t, f.set, "o", Range{Low: []any{names(id), id}, High: []any{names(id), id}}, n)
				if !slices.Equal(got, []uint32{uint32(id)}) {
					t.Errorf("row %d: %v", id, got)
				}
			}
		})
	}
	for range 20 {
		f.apply(t, batchOf(t, sc, rows))
	}
	wg.Wait()
	o := f.set.byName["o"].impl.(*ordered)
	for i := range o.edges {
		if o.edges[i].p.Load() != nil {
			t.Errorf("edge %d was not released", i)
		}
	}
}

// TestRootOnDemand: nobody reads, nothing is copied; readers that come back find
// a root without asking; one that has gone is not served for ever.
func TestRootOnDemand(t *testing.T) {
	sc := testSchema(false)
	f := newFixture(mustBind(t, sc, nil, Ordered{Name: "o", Columns: cols("id")}))
	o := f.set.byName["o"].impl.(*ordered)
	step := func() { f.apply(t, batchOf(t, sc, []row{{id: int64(f.set.Applied())}})) }
	read := func() { slots(t, f.set, "o", Range{}, f.set.Applied()) }
	step()
	if o.root.Load() != nil {
		t.Error("a root although nobody reads")
	}
	read()
	first := o.root.Load()
	read()
	if first == nil || o.root.Load() != first {
		t.Error("a second read at the same bound made another root")
	}
	step()
	second := o.root.Load()
	if second == nil || second == first || second.next != 2 {
		t.Error("the writer made no root for steady readers")
	}
	slots(t, f.set, "o", Range{}, 1)
	if o.root.Load() != second {
		t.Error("an older bound needed another root")
	}
	step()
	step()
	if o.root.Load() != nil {
		t.Error("roots are still made although nobody reads any more")
	}
}

// TestConcurrentGrowth: while the tables of the primary key grow, every key below
// the bound is found, and none above it.
func TestConcurrentGrowth(t *testing.T) {
	sc, recs := int64Batches(t, 100_000, 500, false)
	f := newFixture(mustBind(t, sc, cols("id")))
	var done atomic.Bool
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for last := false; !last; {
				last = done.Load()
				bound := f.set.Applied()
				if bound == 0 {
					continue
				}
				for range 50 {
					id := rand.Uint32N(bound + bound/8)
					k, err := f.spec.Key(id)
					if err != nil {
						t.Error(err)
						return
					}
					if slot, ok := f.set.Lookup(k, bound); ok != (id < bound) || ok && slot != id {
						t.Errorf("key %d at bound %d: %d, %t", id, bound, slot, ok)
						return
					}
				}
			}
		})
	}
	for _, rec := range recs {
		f.apply(t, rec)
	}
	done.Store(true)
	wg.Wait()
}
