package index

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

func slots(t testing.TB, s *Set, name string, r Range, bound uint32) []uint32 {
	t.Helper()
	seq, err := s.Range(name, r, bound)
	if err != nil {
		t.Fatal(err)
	}
	return slices.Collect(seq)
}

// TestQ01NewestVersion: versions in one batch and across batches: at every bound
// the newest one below it, in every access path.
func TestQ01NewestVersion(t *testing.T) {
	sc := testSchema(true)
	f := newFixture(mustBind(t, sc, cols("id"), Ordered{Name: "o", Columns: cols("name")}))
	f.apply(t, batchOf(t, sc, []row{{id: 1, name: "a"}, {id: 2, name: "b"}, {id: 1, name: "c"}}))
	f.apply(t, batchOf(t, sc, []row{{id: 1, name: "d"}, {id: 1, dead: true}, {id: 2, name: "e"}, {id: 1, name: "f"}}))
	one, err := f.spec.Key(1)
	if err != nil {
		t.Fatal(err)
	}
	for bound, want := range []struct {
		newest int // of id 1
		live   []uint32
	}{
		{-1, nil},
		{0, []uint32{0}},
		{0, []uint32{0, 1}},
		{2, []uint32{1, 2}},
		{3, []uint32{1, 3}},
		{4, []uint32{1}},
		{4, []uint32{5}},
		{6, []uint32{5, 6}},
	} {
		slot, ok := f.set.Lookup(one, uint32(bound))
		if ok != (want.newest >= 0) || ok && int(slot) != want.newest {
			t.Errorf("bound %d: newest = %d, %t; want %d", bound, slot, ok, want.newest)
		}
		if ok && f.set.Live(slot, uint32(bound)) != slices.Contains(want.live, slot) {
			t.Errorf("bound %d: slot %d live = %t", bound, slot, !slices.Contains(want.live, slot))
		}
		if got := slots(t, f.set, "o", Range{}, uint32(bound)); !slices.Equal(got, want.live) {
			t.Errorf("bound %d: range = %v, want %v", bound, got, want.live)
		}
	}
	if _, ok := f.set.Lookup(Key{}, 7); ok {
		t.Error("the zero Key was found")
	}
}

// faulty is an index that fails when told to.
type faulty struct {
	kind
	do func(r *run) error
}

func (x *faulty) apply(r *run) error {
	if err := x.do(r); err != nil {
		return err
	}
	return x.kind.apply(r)
}

func (f *fixture) breakIndex(name string, do func(r *run) error) {
	m := f.set.byName[name]
	m.impl = &faulty{m.impl, do}
}

// TestApplyFailure: an error or a panic in one index, inline and in parallel, is
// an error that names it, nothing counts as applied, and once the index is marked
// the batch can be applied again without being indexed twice.
func TestApplyFailure(t *testing.T) {
	boom := errors.New("boom")
	for _, rows := range []int{3, parallelRows} {
		for name, do := range map[string]func(r *run) error{
			"error": func(r *run) error { return boom },
			"panic": func(r *run) error { panic(boom) },
			"fault": func(r *run) error { _ = r.batches[0].rec.Column(1 << 20); return nil },
		} {
			t.Run(fmt.Sprintf("%s/%d", name, rows), func(t *testing.T) {
				sc := testSchema(true)
				f := newFixture(mustBind(t, sc, cols("id"), Ordered{Name: "a", Columns: cols("id")}, Ordered{Name: "b", Columns: cols("id")}))
				f.apply(t, batchOf(t, sc, []row{{id: -1}}))
				f.breakIndex("a", do)
				var batch []row
				for i := range rows {
					batch = append(batch, row{id: int64(i)})
				}
				rec := batchOf(t, sc, batch)
				first := f.rows.add(rec)
				for range 2 { // it stays broken
					err := f.set.Apply(rec, first)
					ae, ok := errors.AsType[*ApplyError](err)
					if !ok || ae.Index != "a" || !errors.Is(err, ErrInternal) || errors.Is(err, ErrInvalid) {
						t.Fatalf("Apply: %v", err)
					}
					if name != "fault" && !errors.Is(err, boom) {
						t.Fatalf("the cause is lost: %v", err)
					}
					p, ok := errors.AsType[*PanicError](err)
					if ok != (name != "error") || ok && len(p.Stack) == 0 || strings.Contains(err.Error(), "\n") {
						t.Fatalf("Apply: %v", err)
					}
				}
				if got := f.set.Applied(); got != 1 {
					t.Fatalf("Applied = %d, want 1", got)
				}

				if err := f.set.Fail("a", boom); err != nil {
					t.Fatal(err)
				}
				_ = f.set.Fail("a", errors.New("a later failure"))
				if err := f.set.Apply(rec, first); err != nil {
					t.Fatalf("Apply without the failed index: %v", err)
				}
				if got := slots(t, f.set, "b", Range{}, f.set.Applied()); len(got) != rows+1 {
					t.Errorf("index b has %d rows, want %d", len(got), rows+1)
				}
				_, err := f.set.Range("a", Range{}, 1)
				if fe, ok := errors.AsType[*FailedError](err); !ok || fe.Index != "a" || !errors.Is(err, ErrFailed) || !errors.Is(err, boom) {
					t.Errorf("Range over the failed index: %v", err)
				}
				if err := f.set.Failed("a"); !errors.Is(err, boom) {
					t.Errorf("Failed: %v", err)
				}
				if err := f.set.Failed("b"); err != nil {
					t.Errorf("Failed of a healthy index: %v", err)
				}
			})
		}
	}
}

// Without the primary key nothing can be applied.
func TestPrimaryKeyFailure(t *testing.T) {
	sc := testSchema(true)
	rec := batchOf(t, sc, []row{{id: 1}})
	f := newFixture(mustBind(t, sc, cols("id")))
	f.breakIndex(PrimaryKey, func(*run) error { panic("x") })
	first := f.rows.add(rec)
	for range 2 {
		if err := f.set.Apply(rec, first); !errors.Is(err, ErrInternal) {
			t.Errorf("Apply: %v", err)
		}
		_ = f.set.Fail(PrimaryKey, errors.New("y"))
	}
	f = newFixture(f.spec)
	_ = f.set.Fail(PrimaryKey, errors.New("y"))
	if err := f.set.Apply(rec, f.rows.add(rec)); !errors.Is(err, ErrInternal) || !errors.Is(err, ErrFailed) {
		t.Errorf("Apply: %v", err)
	}
}

// TestC07Capacity: running out of slots is an internal error, not invalid input,
// and so is a batch at the wrong slot.
func TestC07Capacity(t *testing.T) {
	sc := testSchema(false)
	f := newFixture(mustBind(t, sc, nil))
	rec := batchOf(t, sc, []row{{id: 1}, {id: 2}})
	f.set.applied.Store(MaxSlots - 1)
	err := f.set.Apply(rec, MaxSlots-1)
	if _, ok := errors.AsType[*CapacityError](err); !ok || !errors.Is(err, ErrInternal) || errors.Is(err, ErrInvalid) {
		t.Errorf("Apply beyond the last slot: %v", err)
	}
	f.set.applied.Store(MaxSlots - 2)
	if err := f.set.Apply(rec, MaxSlots-2); err != nil {
		t.Errorf("Apply up to the last slot: %v", err)
	}
	for _, slot := range []uint32{0, MaxSlots - 1} {
		if err := f.set.Apply(rec, slot); !errors.Is(err, ErrInternal) || errors.Is(err, ErrInvalid) {
			t.Errorf("Apply at slot %d: %v", slot, err)
		}
	}
	if got := f.set.Applied(); got != MaxSlots {
		t.Errorf("Applied = %d", got)
	}
}

// TestParallelApply: batches above the threshold give what small ones give.
func TestParallelApply(t *testing.T) {
	k := keyings[1]
	r := rand.New(rand.NewPCG(3, 4))
	f := newFixture(bindModel(t, k, nil))
	m := &model{key: k.key}
	for range 2 {
		var batch []row
		for range parallelRows {
			batch = append(batch, randomRow(r, true))
		}
		f.apply(t, batchOf(t, f.spec.Schema(), batch))
		m.rows = append(m.rows, batch...)
	}
	for _, bound := range []int{parallelRows, parallelRows + 17, 2 * parallelRows} {
		checkBound(t, f, m, k, r, bound)
	}
}

// TestBytesPerKey: shards that grow one by one keep the bytes a key nearly the
// same at every size.
func TestBytesPerKey(t *testing.T) {
	sc, recs := int64Batches(t, 400_000, 1000, false)
	f := newFixture(mustBind(t, sc, cols("id")))
	for i, r := range recs {
		f.apply(t, r)
		if per := float64(f.set.Bytes()) / float64(f.set.Applied()); i >= 50 && (per < 19 || per > 22) {
			t.Fatalf("%.1f bytes a key at %d keys", per, f.set.Applied())
		}
	}
}

// TestHashSpread: keys in sequence, multiples and high bits fill the table like
// random ones: no long probes.
func TestHashSpread(t *testing.T) {
	for name, key := range map[string]func(i int) int64{
		"sequential": func(i int) int64 { return int64(i) },
		"multiples":  func(i int) int64 { return int64(i) << 10 },
		"high bits":  func(i int) int64 { return int64(i) << 44 },
		"negative":   func(i int) int64 { return -int64(i) },
	} {
		sc := arrow.NewSchema([]arrow.Field{{Name: "id", Type: arrow.PrimitiveTypes.Int64}}, nil)
		f := newFixture(mustBind(t, sc, cols("id")))
		const n = 100_000
		b := array.NewRecordBuilder(memory.DefaultAllocator, sc)
		for i := range n {
			b.Field(0).(*array.Int64Builder).Append(key(i))
		}
		f.apply(t, b.NewRecordBatch())
		worst, sum := 0, 0
		for i := range f.set.primary.shards {
			sh := &f.set.primary.shards[i]
			tab := sh.tab.Load()
			if sh.used < n/shards*3/4 || sh.used > n/shards*5/4 {
				t.Errorf("%s: shard %d has %d keys", name, i, sh.used)
			}
			for at, c := range tab.cells {
				if c != 0 {
					d := at - tab.home(uint32(c>>32))
					if d < 0 {
						d += len(tab.cells)
					}
					worst, sum = max(worst, d), sum+d
				}
			}
		}
		if mean := float64(sum) / n; mean > 3 || worst > 300 {
			t.Errorf("%s: probes of %.1f cells on average, %d at worst", name, mean, worst)
		}
	}
}

// TestLead: keys that share less and less, so that the tree is rebuilt, give the
// order of keys that share nothing, also to a search that began before.
func TestLead(t *testing.T) {
	sc := testSchema(true)
	deep := strings.Repeat("deep/", 100)
	for name, gen := range map[string]func(i int) string{
		"numbers":      func(i int) string { return fmt.Sprintf("user-%09d", i) },
		"byte by byte": func(i int) string { return deep[:len(deep)-i/3] + fmt.Sprint(i%3) },
		"nothing": func(i int) string {
			return []string{"https://example.com/a", "", "\x00", "z", "https://example.com/"}[i%5]
		},
		"prefixes": func(i int) string { return deep[:i] },
		"one":      func(i int) string { return deep },
		"zeros":    func(i int) string { return strings.Repeat("\x00", 50-i/10) },
	} {
		t.Run(name, func(t *testing.T) {
			x := testIndexes[2]
			f := newFixture(mustBind(t, sc, cols("id"), x.config))
			m := &model{key: keyings[1].key}
			r := rand.New(rand.NewPCG(8, 9))
			for i := 0; i < 390; {
				var batch []row
				for range pick(r, 1, 2, 30) {
					batch = append(batch, row{id: int64(i % 300), name: gen(i)})
					i++
				}
				var running []uint32
				seq, err := f.set.Range("name", Range{}, f.set.Applied())
				if err != nil {
					t.Fatal(err)
				}
				want := m.ranged(x.cells, Range{}, nil, nil, len(m.rows))
				rec := batchOf(t, sc, batch)
				for slot := range seq {
					if running = append(running, slot); len(running) == len(want)/2 {
						f.apply(t, rec)
						rec = nil
					}
				}
				if rec != nil {
					f.apply(t, rec)
				}
				if fmt.Sprint(running) != fmt.Sprint(want) {
					t.Fatalf("a search beside the rebuild gives %v, want %v", running, want)
				}
				m.rows = append(m.rows, batch...)
			}
			for range 60 {
				low := []cell{{str: pick(r, gen(r.IntN(400)), deep[:r.IntN(30)], "user-", "x", "")}}
				high := []cell{{str: pick(r, gen(r.IntN(400)), deep[:r.IntN(30)], "user-0000001", "x", "")}}
				rg := Range{Low: x.values(low), High: x.values(high), LowOpen: r.IntN(2) == 0, HighOpen: r.IntN(2) == 0, Reverse: r.IntN(2) == 0}
				want := m.ranged(x.cells, rg, low, high, len(m.rows))
				if got := slots(t, f.set, "name", rg, f.set.Applied()); fmt.Sprint(got) != fmt.Sprint(want) {
					t.Fatalf("%+v: got %v, want %v", rg, got, want)
				}
			}
			o := f.set.byName["name"].impl.(*ordered)
			if limit := uint64(rebuildFactor+1) * uint64(len(m.rows)); o.rebuilt > limit {
				t.Errorf("rebuilds moved %d items for %d rows", o.rebuilt, len(m.rows))
			}
		})
	}
}

// TestNestedRanges: searches inside searches, more than there are edge numbers.
func TestNestedRanges(t *testing.T) {
	sc := testSchema(false)
	f := newFixture(mustBind(t, sc, nil, Ordered{Name: "o", Columns: cols("name")}))
	f.apply(t, batchOf(t, sc, []row{{name: "a"}, {name: "b"}}))
	depth := 0
	var nest func()
	nest = func() {
		if depth++; depth > 2*edgeSlots {
			return
		}
		for range slots2(t, f.set, Range{Low: []any{"b"}}) {
			nest()
		}
	}
	nest()
	if depth != 2*edgeSlots+1 {
		t.Errorf("depth %d", depth)
	}
}

func slots2(t *testing.T, s *Set, r Range) func(func(uint32) bool) {
	seq, err := s.Range("o", r, s.Applied())
	if err != nil {
		t.Fatal(err)
	}
	return seq
}

func TestSpecDescribesItself(t *testing.T) {
	sc := testSchema(true)
	o := Ordered{Name: "o", Columns: cols("name")}
	s := mustBind(t, sc, cols("name", "id"), o)
	if got := s.Configs(); len(got) != 1 || got[0].IndexName() != "o" || got[0].Kind() != KindOrdered {
		t.Errorf("Configs = %v", got)
	}
	o.Columns[0].Name = "changed by the caller"
	if got := s.Configs()[0].(Ordered).Columns[0].Name; got != "name" {
		t.Errorf("the configuration was not copied: %q", got)
	}
	if got := s.KeyColumns(); !slices.Equal(got, []int{1, 0}) || !s.HasPrimaryKey() || s.Schema() != sc {
		t.Errorf("KeyColumns = %v", got)
	}
	rec := batchOf(t, sc, []row{{id: 1, name: "b"}, {id: 2, name: "a"}, {id: 2, name: "b"}})
	if s.CompareRows(rec, 0, rec, 1) <= 0 || s.CompareRows(rec, 0, rec, 2) >= 0 || s.CompareRows(rec, 1, rec, 1) != 0 {
		t.Error("CompareRows")
	}
}

// TestLeadCoversColumns: all keys begin with the same first column, so bounds that
// name only it are shorter than the lead.
func TestLeadCoversColumns(t *testing.T) {
	sc := testSchema(false)
	f := newFixture(mustBind(t, sc, nil, Ordered{Name: "o", Columns: cols("name", "id")}))
	f.apply(t, batchOf(t, sc, []row{{name: "m", id: 2}, {name: "m", id: 1}}))
	both, none := []uint32{1, 0}, []uint32(nil)
	m, l, n := []any{"m"}, []any{"l"}, []any{"n"}
	for _, c := range []struct {
		r    Range
		want []uint32
	}{
		{Range{Low: m}, both}, {Range{Low: m, LowOpen: true}, none},
		{Range{High: m}, both}, {Range{High: m, HighOpen: true}, none},
		{Range{Low: l, LowOpen: true, High: n, HighOpen: true}, both},
		{Range{Low: n}, none}, {Range{High: l}, none},
		{Range{Low: m, High: m}, both},
		{Range{Low: []any{"m", 2}, High: m}, []uint32{0}},
		{Range{Low: m, High: []any{"m", 2}, HighOpen: true}, []uint32{1}},
	} {
		if got := slots(t, f.set, "o", c.r, 2); !slices.Equal(got, c.want) {
			t.Errorf("%+v: %v, want %v", c.r, got, c.want)
		}
		c.r.Reverse = true
		want := slices.Clone(c.want)
		slices.Reverse(want)
		if got := slots(t, f.set, "o", c.r, 2); !slices.Equal(got, want) {
			t.Errorf("%+v: %v, want %v", c.r, got, want)
		}
	}
}

// TestLiveBits compares bits with Live, for every place of a stretch beside a chunk's end.
func TestLiveBits(t *testing.T) {
	x := newTextTable(t, true, false, Text{})
	const rows = chunkRows + 300
	for at := 0; at < rows; at += 100 {
		docs := make([]doc, 100)
		for i := range docs {
			docs[i] = doc{id: int64((at + i) * 7 % 3000), dead: (at+i)%11 == 0}
		}
		x.put(docs...)
	}
	set := x.tabs[0].set
	for _, bound := range []uint32{rows, rows - 150, chunkRows + 1} {
		for first := uint32(chunkRows - 130); first < min(chunkRows+2, bound); first++ {
			for _, n := range []uint32{1, 63, 64, 65, 130, 200} {
				if first+n > bound {
					continue
				}
				w := make([]uint64, (n+63)/64)
				set.LiveBits(w, first, n, bound)
				for i := range uint32(len(w) * 64) {
					want := i < n && set.Live(first+i, bound)
					if got := w[i/64]>>(i%64)&1 != 0; got != want {
						t.Fatalf("slot %d of %d from %d, bound %d: live is %v", first+i, n, first, bound, got)
					}
				}
			}
		}
	}
}
