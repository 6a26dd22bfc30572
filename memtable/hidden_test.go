package memtable

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
)

// viewsOf are the views below end of the memtables that have rows there, oldest first.
func viewsOf(live []*Memtable, end uint64) []View {
	var views []View
	for _, m := range live {
		if m.FirstRow() < end {
			views = append(views, m.View(end))
		}
	}
	return views
}

// looksUp is a Hidden that never goes the other way, and resolves one that always does.
func looksUp(v View, newer []View) *Hidden {
	return &Hidden{ctx: context.Background(), view: v, newer: Parts(newer), oneByOne: 1 << 40}
}

func resolves(v View, newer []View) *Hidden {
	return &Hidden{ctx: context.Background(), view: v, newer: Parts(newer)}
}

// Both ways agree at every bound, asked in any order and from several goroutines: what
// one bound has found must not show at a lower one.
func TestHiddenIsTheSameBothWays(t *testing.T) {
	for seed := range uint64(10) {
		rng := rand.New(rand.NewPCG(seed, 3))
		mem := checked(t)
		s := newShard(t, keyedSchema, bind(t, "by value"), 50)
		var end uint64
		for range 6 {
			for range 1 + rng.IntN(8) {
				rows := make([]row, 1+rng.IntN(4))
				for i := range rows {
					rows[i] = row{id: rng.Int64N(30), dead: rng.IntN(4) == 0}
				}
				end = s.put(keyed(mem, rows...))
			}
			s.run()
			s.rotate()
		}
		bounds := rng.Perm(int(end) - 50 + 1)
		var wg sync.WaitGroup
		for part := range 3 {
			wg.Go(func() {
				for _, b := range bounds[part*len(bounds)/3 : (part+1)*len(bounds)/3] {
					if err := compareHidden(viewsOf(s.live, 50+uint64(b))); err != nil {
						t.Errorf("seed %d, bound %d: %v", seed, 50+b, err)
					}
				}
			})
		}
		wg.Wait()
	}
}

func compareHidden(views []View) error {
	for i, v := range views {
		one, all := looksUp(v, views[i+1:]), resolves(v, views[i+1:])
		for slot := range v.Bound() {
			if v.Live(slot) && one.Hides(slot) != all.Hides(slot) {
				return fmt.Errorf("slot %d of memtable %d: hidden is %v by lookups", slot, i, one.Hides(slot))
			}
		}
	}
	return nil
}

// A read of a few rows does not pay for all newer ones; one of many pays once, and
// those after it nothing.
func TestHiddenResolvesOnceItPays(t *testing.T) {
	mem := checked(t)
	s := newShard(t, keyedSchema, bind(t, "by value"), 0)
	put := func(from, to int64) {
		rows := make([]row, 0, to-from)
		for id := from; id < to; id++ {
			rows = append(rows, row{id: id})
		}
		s.put(keyed(mem, rows...))
		s.run()
	}
	put(0, 1000)
	s.rotate()
	put(900, 1400)
	views := viewsOf(s.live, 1500)
	set, newer := views[0].m.set, Parts(views[1:])
	read := func(rows uint32) {
		h := HiddenBy(t.Context(), views[0], views[1:])
		for slot := range rows {
			if h.Hides(slot) != (slot >= 900) {
				t.Errorf("slot %d: hidden is %v", slot, slot < 900)
			}
		}
	}
	read(500)
	if n := set.Unresolved(newer...); n != 500 {
		t.Errorf("after 500 rows there are %d to look up, want all 500", n)
	}
	before := set.Bytes()
	read(501)
	if n := set.Unresolved(newer...); n != 0 {
		t.Errorf("after 501 rows there are %d to look up, want none", n)
	}
	if set.Bytes() <= before {
		t.Error("what was found takes no memory")
	}
	read(1000)
}

// A context that has ended keeps nothing from being answered rightly: it ends only what
// would have been done for all readers.
func TestHiddenAnswersBehindItsContext(t *testing.T) {
	mem := checked(t)
	s := newShard(t, keyedSchema, bind(t, "by value"), 0)
	s.put(keyed(mem, row{id: 1}, row{id: 2}, row{id: 3}))
	s.rotate()
	s.put(keyed(mem, row{id: 2}))
	s.run()
	views := viewsOf(s.live, 4)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	h := HiddenBy(ctx, views[0], views[1:])
	for range 2 { // the first row alone is looked up before it would pay to resolve
		for slot := range uint32(3) {
			if h.Hides(slot) != (slot == 1) {
				t.Errorf("slot %d: hidden is %v", slot, slot != 1)
			}
		}
	}
	if n := views[0].m.set.Unresolved(Parts(views[1:])...); n != 1 {
		t.Errorf("%d rows are to be looked up, want the one", n)
	}
}

// BenchmarkHidden asks for each row of a keyed memtable of a million rows whether one
// with as many other random keys hides it: by lookups, for the first time with marks,
// and once the marks are there.
func BenchmarkHidden(b *testing.B) {
	const rows, batch = 1 << 20, 1 << 12
	build := func() []View {
		mem := checked(b)
		rng := rand.New(rand.NewPCG(1, 2))
		s := newShard(b, keyedSchema, bind(b), 0)
		for i := range 2 * rows / batch {
			if i == rows/batch {
				s.rotate()
			}
			some := make([]row, batch)
			for i := range some {
				some[i] = row{id: rng.Int64N(8 * rows)}
			}
			s.put(keyed(mem, some...))
		}
		s.run()
		return viewsOf(s.live, 2*rows)
	}
	ask := func(b *testing.B, h *Hidden) {
		n := 0
		for slot := range uint32(rows) {
			if h.Hides(slot) {
				n++
			}
		}
		if n == 0 {
			b.Fatal("no row is hidden")
		}
	}
	report := func(b *testing.B) { b.ReportMetric(float64(b.N)*rows/b.Elapsed().Seconds(), "rows/s") }
	b.Run("lookups", func(b *testing.B) {
		views := build()
		for b.Loop() {
			ask(b, looksUp(views[0], views[1:]))
		}
		report(b)
	})
	b.Run("first", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			views := build()
			b.StartTimer()
			ask(b, resolves(views[0], views[1:]))
		}
		report(b)
	})
	b.Run("kept", func(b *testing.B) {
		views := build()
		ask(b, resolves(views[0], views[1:]))
		for b.Loop() {
			ask(b, resolves(views[0], views[1:]))
		}
		report(b)
	})
}
