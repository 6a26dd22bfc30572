package index

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
)

// sortFrom makes every ordered index sort runs from so many rows on.
func (f *fixture) sortFrom(rows int) {
	for _, m := range f.set.members {
		if o, ok := m.impl.(*ordered); ok {
			o.sortRows = rows
		}
	}
}

// applyRun adds batches and applies them as one run.
func (f *fixture) applyRun(t testing.TB, recs ...arrow.RecordBatch) {
	t.Helper()
	first := f.set.Applied()
	for i, rec := range recs {
		if at := f.rows.add(rec); i == 0 && at != first {
			t.Fatalf("run at slot %d, expected %d", at, first)
		}
	}
	if err := f.set.ApplyRun(recs, first); err != nil {
		t.Fatal(err)
	}
}

// TestRunsEqualBatches: the same rows in runs of any length, sorted or not, merged
// or inserted, and one batch after another: the same answers at every bound.
func TestRunsEqualBatches(t *testing.T) {
	for _, k := range keyings {
		for seed := range uint64(4) {
			t.Run(fmt.Sprintf("%s/%d", k.name, seed), func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, 9))
				one, many := newFixture(bindModel(t, k, nil)), newFixture(bindModel(t, k, nil))
				many.sortFrom(pick(r, 1, 2, 30))
				m := &model{key: k.key}
				var rows []row
				for range 12 {
					var recs []arrow.RecordBatch
					for range pick(r, 0, 1, 2, 5) {
						var batch []row
						for range pick(r, 0, 1, 3, 20, 60) {
							batch = append(batch, randomRow(r, k.cols != nil))
						}
						rows = append(rows, batch...)
						rec := batchOf(t, one.spec.Schema(), batch)
						one.apply(t, rec)
						recs = append(recs, rec)
					}
					many.applyRun(t, recs...)
					if one.set.Applied() != many.set.Applied() {
						t.Fatalf("applied %d and %d", one.set.Applied(), many.set.Applied())
					}
				}
				m.rows = rows
				for bound := uint32(0); bound <= uint32(len(rows)); bound += uint32(1 + r.IntN(9)) {
					for slot := range bound {
						if a, b := one.set.Live(slot, bound), many.set.Live(slot, bound); a != b {
							t.Fatalf("Live(%d, %d): %t, in runs %t", slot, bound, a, b)
						}
					}
					for _, x := range testIndexes {
						a, b := slots(t, one.set, x.config.Name, Range{}, bound), slots(t, many.set, x.config.Name, Range{}, bound)
						if !slices.Equal(a, b) {
							t.Fatalf("%s at %d: %v\nin runs %v", x.config.Name, bound, a, b)
						}
					}
					if r.IntN(4) == 0 {
						checkBound(t, many, m, k, r, int(bound))
					}
				}
			})
		}
	}
}

// Runs as long as in use, into trees of any size.
func TestLongRuns(t *testing.T) {
	for name, input := range map[string]func() (*arrow.Schema, []arrow.RecordBatch){
		"random":     func() (*arrow.Schema, []arrow.RecordBatch) { return int64Batches(t, 150_000, 1000, true) },
		"sequential": func() (*arrow.Schema, []arrow.RecordBatch) { return int64Batches(t, 150_000, 1000, false) },
		"text": func() (*arrow.Schema, []arrow.RecordBatch) {
			return stringBatches(t, 60_000, 1000, "a common part %016x")
		},
		"few texts": func() (*arrow.Schema, []arrow.RecordBatch) {
			return stringBatches(t, 60_000, 1000, "too long to be told apart %T")
		},
	} {
		t.Run(name, func(t *testing.T) {
			sc, recs := input()
			ordered := Ordered{Name: "o", Columns: cols("id")}
			one, many := newFixture(mustBind(t, sc, nil, ordered)), newFixture(mustBind(t, sc, nil, ordered))
			for _, rec := range recs {
				one.apply(t, rec)
			}
			for _, n := range []int{1, 30, 17, len(recs)} { // merged, merged, inserted or appended
				n = min(n, len(recs))
				many.applyRun(t, recs[:n]...)
				recs = recs[n:]
			}
			all := one.set.Applied()
			if a, b := slots(t, one.set, "o", Range{}, all), slots(t, many.set, "o", Range{}, all); !slices.Equal(a, b) {
				t.Error("the order differs")
			}
			a, b := one.set.Bytes(), many.set.Bytes()
			if b > 2*a || a > 2*b {
				t.Errorf("%d bytes, in runs %d", a, b)
			}
		})
	}
}

func TestSortWords(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	var spare []item
	for n := range 300 {
		shift, low := r.IntN(64), r.IntN(64)
		items := make([]item, n)
		for i := range items {
			items[i] = item{word: r.Uint64() >> shift << low, slot: uint32(i), tag: uint32(r.IntN(4))}
		}
		want := slices.Clone(items)
		slices.SortStableFunc(want, func(a, b item) int {
			return cmp.Or(cmp.Compare(a.tag&hasValue, b.tag&hasValue), cmp.Compare(a.word, b.word))
		})
		sortWords(items, &spare)
		if !slices.Equal(items, want) {
			t.Fatalf("%d items: %v, want %v", n, items, want)
		}
	}
}

// A run in which an index fails is applied again as a whole, without it.
func TestRunFailure(t *testing.T) {
	sc := testSchema(true)
	f := newFixture(mustBind(t, sc, cols("id"), Ordered{Name: "a", Columns: cols("id")}, Ordered{Name: "b", Columns: cols("id")}))
	f.breakIndex("a", func(*run) error { panic("boom") })
	var recs []arrow.RecordBatch
	for i := range int64(5) {
		recs = append(recs, batchOf(t, sc, []row{{id: i}, {id: i + 1}}))
		f.rows.add(recs[i])
	}
	for range 2 {
		if err := f.set.ApplyRun(recs, 0); err == nil || f.set.Applied() != 0 {
			t.Fatalf("got %v, %d rows applied", err, f.set.Applied())
		}
	}
	if err := f.set.Fail("a", nil); err != nil {
		t.Fatal(err)
	}
	if err := f.set.ApplyRun(recs, 0); err != nil {
		t.Fatal(err)
	}
	if got := slots(t, f.set, "b", Range{}, 10); len(got) != 6 || f.set.Applied() != 10 {
		t.Errorf("%v of %d rows", got, f.set.Applied())
	}
}

// Items of a run are in the tree's order when they go into it, those that heads do not
// tell apart as well.
func TestSortedRunIsInOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	sc := testSchema(true)
	for _, x := range testIndexes {
		f := newFixture(mustBind(t, sc, cols("id"), x.config))
		o := f.set.byName[x.config.Name].impl.(*ordered)
		var rows []row
		for range 500 {
			rows = append(rows, randomRow(r, true))
		}
		run := &run{}
		f.set.extend(run, batchOf(t, sc, rows))
		f.rows.add(run.batches[0].rec)
		o.collect(run)
		o.sort(0)
		for i := 1; i < len(o.items); i++ {
			o.compareAs(0, o.items[i])
			if !o.less(o.items[i-1], o.items[i]) {
				t.Fatalf("%s: item %d is not behind the one before", x.config.Name, i)
			}
		}
	}
}
