package memtable

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/memwal/memwal-go/index"
)

// rowsOf returns the rows that Stretches gives, and checks that they are what they
// should be: not empty, apart, in order.
func rowsOf(t testing.TB, v View, hidden *Hidden) []row {
	t.Helper()
	var out []row
	next := uint32(0)
	for s := range v.Stretches(t.Context(), 0, hidden) {
		if s.FirstSlot+uint32(s.From) < next || s.From >= s.To || int64(s.To) > s.Rec.NumRows() {
			t.Errorf("rows %d to %d of the batch of %d at slot %d come after slot %d", s.From, s.To, s.Rec.NumRows(), s.FirstSlot, next)
		}
		n := 0
		for i := range s.To - s.From {
			if s.Live == nil || s.Live[i/64]>>(i%64)&1 != 0 {
				out = append(out, rowAt(s.Rec, s.From+i))
				n++
			}
		}
		if n == 0 {
			t.Errorf("none of the rows %d to %d at slot %d is meant", s.From, s.To, s.FirstSlot)
		}
		next = s.FirstSlot + uint32(s.To)
	}
	if next > v.Bound() {
		t.Errorf("a row at slot %d, the bound is %d", next-1, v.Bound())
	}
	return out
}

func rowAt(rec arrow.RecordBatch, i int) row {
	return row{id: int64At(rec, 0, i), value: int64At(rec, 1, i), dead: rec.Column(2).(*array.Boolean).Value(i)}
}

func TestViewBounds(t *testing.T) {
	mem := checked(t)
	s := newShard(t, plainSchema, nil, 100)
	s.put(plain(mem, 0, 3))
	s.put(plain(mem, 3, 0))
	s.put(plain(mem, 3, 4))
	s.run()
	m := s.live[0]
	for _, c := range []struct {
		end   uint64
		bound uint32
		runs  string
	}{
		{0, 0, ""}, {99, 0, ""}, {100, 0, ""}, {101, 1, "0:{0 1}"}, {103, 3, "0:{0 3}"},
		{104, 4, "0:{0 3} 3:{0 1}"}, {107, 7, "0:{0 3} 3:{0 4}"}, {108, 7, "0:{0 3} 3:{0 4}"}, {1 << 63, 7, "0:{0 3} 3:{0 4}"},
	} {
		v := m.View(c.end)
		runs := ""
		for s := range v.Stretches(t.Context(), 0, nil) {
			if runs != "" {
				runs += " "
			}
			runs += fmt.Sprint(s.FirstSlot, ":{", s.From, s.To, "}")
		}
		if v.Bound() != c.bound || runs != c.runs || v.count(nil) != int64(c.bound) || v.Memtable() != m {
			t.Errorf("end %d: bound %d, runs %s; want %d, %s", c.end, v.Bound(), runs, c.bound, c.runs)
		}
	}
	for range m.View(107).Stretches(t.Context(), 0, nil) {
		break // the consumer may end early
	}
}

// A version that is superseded only beyond the bound is live below it.
func TestQ01_ViewGivesTheNewestVersionBelowItsBound(t *testing.T) {
	mem := checked(t)
	s := newShard(t, keyedSchema, bind(t, "by value"), 10)
	s.put(keyed(mem, row{id: 1, value: 5}, row{id: 2, value: 3}, row{id: 1, value: 4})) // two versions in one batch
	s.put(keyed(mem, row{id: 2, dead: true}, row{id: 3, value: 1}))
	s.put(keyed(mem, row{id: 2, value: 9}))
	s.run()
	for end, want := range map[uint64][]row{
		10: nil,
		11: {{id: 1, value: 5}},
		12: {{id: 1, value: 5}, {id: 2, value: 3}},
		13: {{id: 2, value: 3}, {id: 1, value: 4}},
		14: {{id: 1, value: 4}},
		15: {{id: 1, value: 4}, {id: 3, value: 1}},
		16: {{id: 1, value: 4}, {id: 3, value: 1}, {id: 2, value: 9}},
	} {
		v := s.live[0].View(end)
		if got := rowsOf(t, v, nil); !slices.Equal(got, want) {
			t.Errorf("end %d: %v, want %v", end, got, want)
		}
		if n := v.count(nil); n != int64(len(want)) {
			t.Errorf("end %d: count %d, want %d", end, n, len(want))
		}
	}
}

// history is what was written, by ordinal, and what a reader must find below a
// bound.
type history []row

func (h history) below(end uint64) map[int64]row {
	live := map[int64]row{}
	for _, r := range h[:end] {
		if r.dead {
			delete(live, r.id)
		} else {
			live[r.id] = r
		}
	}
	return live
}

func byID(a, b row) int { return cmp.Compare(a.id, b.id) }

// read compares everything that can be read below a bound with the model, over
// all memtables.
func (h history) read(t testing.TB, live []*Memtable, spec *index.Spec, end uint64) error {
	want := slices.SortedFunc(maps.Values(h.below(end)), byID)
	views := viewsOf(live, end)
	var scanned, ranged []row
	for i, v := range views {
		hidden := HiddenBy(t.Context(), v, views[i+1:])
		scanned = append(scanned, rowsOf(t, v, hidden)...)
		seq, err := v.RangeKeys("by value", index.Range{})
		if err != nil {
			return err
		}
		for _, slot := range seq {
			if rec, row := v.Locate(slot); !hidden.Hides(slot) {
				ranged = append(ranged, rowAt(rec, row))
			}
		}
	}
	for name, got := range map[string][]row{"scan": scanned, "range": ranged} {
		slices.SortFunc(got, byID)
		if !slices.Equal(got, want) {
			return fmt.Errorf("end %d: %s gives %v, want %v", end, name, got, want)
		}
	}
	for id := range int64(20) {
		var got []row
		for _, v := range slices.Backward(views) {
			slot, ok := v.Lookup(key(t, spec, id))
			if !ok {
				continue
			}
			if rec, i := v.Locate(slot); v.Live(slot) {
				got = append(got, rowAt(rec, i))
			}
			break // the newest memtable that knows the key decides
		}
		i, ok := slices.BinarySearchFunc(want, row{id: id}, byID)
		if ok != (len(got) == 1) || ok && got[0] != want[i] {
			return fmt.Errorf("end %d: lookup of %d gives %v", end, id, got)
		}
	}
	return nil
}

// The whole of it: a writer that puts, deletes and rotates, an applier, a
// cursor that stands for the log, and readers who at any moment compare what
// they see with the model.
func TestModelWithReaders(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { modelRun(t, seed) })
	}
}

func modelRun(t *testing.T, seed uint64) {
	const total = 800
	mem := checked(t)
	rng := rand.New(rand.NewPCG(seed, 7))
	h := make(history, total)
	for i := range h {
		h[i] = row{id: rng.Int64N(20), value: rng.Int64N(1000), dead: rng.IntN(4) == 0}
		if h[i].dead {
			h[i].value = 0
		}
	}
	s := newShard(t, keyedSchema, bind(t, "by value", "again"), 0)
	limits := Limits{Rows: 100 + rng.Uint32N(100), Batches: 40, WindowBytes: 8 * 150}
	var readers, tasks sync.WaitGroup
	for r := range uint64(3) {
		readers.Go(func() {
			rng := rand.New(rand.NewPCG(seed, 100+r))
			for last := uint64(0); last < total; {
				// The view first, then the bound: rows accepted in between may
				// be beyond the view, and only those.
				live := s.memtables()
				last = s.c.Visible()
				end := live[len(live)-1].EndRow()
				if err := h.read(t, live, s.spec, min(last, end)); err != nil {
					t.Error(err)
					return
				}
				if err := h.read(t, live, s.spec, rng.Uint64N(min(last, end)+1)); err != nil { // an older bound stays readable
					t.Error(err)
					return
				}
			}
		})
	}
	tasks.Go(func() {
		for s.c.Indexed() < total {
			if err := s.applier.Run(t.Context()); err != nil {
				t.Error(err)
				return
			}
			runtime.Gosched()
		}
	})
	tasks.Go(func() {
		rng := rand.New(rand.NewPCG(seed, 8))
		for s.c.Durable() < total {
			from := s.c.Durable()
			if err := s.c.AdvanceDurable(from + rng.Uint64N(s.c.Accepted()-from+1)); err != nil {
				t.Error(err)
				return
			}
			runtime.Gosched()
		}
	})
	for at := 0; at < total; {
		n := min(rng.IntN(12), total-at)
		if s.live[len(s.live)-1].Full(limits, Size{Window: int64(8 * n), Rows: int64(n)}, s.live[0].Created()) {
			s.rotate()
		}
		w := s.c.Register(LevelVisible, s.put(keyed(mem, h[at:at+n]...)))
		at += n
		if rng.IntN(10) == 0 && at > n {
			if err := w.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := s.c.Register(LevelVisible, total).Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	tasks.Wait()
	readers.Wait()
	if len(s.live) < 4 {
		t.Errorf("only %d memtables", len(s.live))
	}
	for _, m := range s.live {
		if m.Rows() > limits.Rows || m.Batches() > limits.Batches || m.WindowBytes() > limits.WindowBytes {
			t.Errorf("generation %d is beyond its limits: %+v", m.Generation(), m.Usage())
		}
	}
	for end := uint64(0); end <= total; end += 53 {
		if err := h.read(t, s.live, s.spec, end); err != nil {
			t.Error(err)
		}
	}
}
