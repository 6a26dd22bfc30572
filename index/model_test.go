package index

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// model is the brute force that the indexes are compared with: all rows, and the
// key of each.
type model struct {
	rows []row
	key  func(row) string // nil: append-only
}

// newest is the newest row below the bound with a key.
func (m *model) newest(key string, bound int) (int, bool) {
	for i := bound - 1; i >= 0; i-- {
		if m.key(m.rows[i]) == key {
			return i, true
		}
	}
	return 0, false
}

// live are the rows a reader with the bound sees.
func (m *model) live(bound int) []int {
	seen := make(map[string]bool)
	var out []int
	for i := bound - 1; i >= 0; i-- {
		if m.key != nil {
			k := m.key(m.rows[i])
			if seen[k] {
				continue
			}
			seen[k] = true
			if m.rows[i].dead {
				continue
			}
		}
		out = append(out, i)
	}
	slices.Sort(out)
	return out
}

// cell is a value of an index column; comparisons with null are unknown.
type cell struct {
	null bool
	num  float64
	str  string
}

func compareCells(a, b cell) int {
	switch {
	case a.null || b.null:
		if a.null == b.null {
			return 0
		}
		if a.null {
			return -1
		}
		return 1
	case math.IsNaN(a.num) || math.IsNaN(b.num):
		if math.IsNaN(a.num) == math.IsNaN(b.num) {
			return 0
		}
		if math.IsNaN(a.num) {
			return 1
		}
		return -1
	case a.num != b.num:
		if a.num < b.num {
			return -1
		}
		return 1
	}
	return cmp.Compare(a.str, b.str)
}

// matches is SQL's row comparison of a row with a bound: column by column, and
// false where a null decides, unless nil was asked for.
func matches(cells, bound []cell, above, open bool, asked []bool) bool {
	for i, b := range bound {
		c := cells[i]
		if (c.null || b.null) && !asked[i] {
			return false
		}
		if d := compareCells(c, b); d != 0 {
			return (d > 0) == above
		}
	}
	return !open
}

// ranged is what Range should give.
func (m *model) ranged(cells func(row) []cell, r Range, low, high []cell, bound int) []int {
	asked := make([]bool, 8)
	for i := range asked {
		asked[i] = i < len(low) && low[i].null || i < len(high) && high[i].null
	}
	var out []int
	for _, i := range m.live(bound) {
		c := cells(m.rows[i])
		if len(low) > 0 && !matches(c, low, true, r.LowOpen, asked) {
			continue
		}
		if len(high) > 0 && !matches(c, high, false, r.HighOpen, asked) {
			continue
		}
		out = append(out, i)
	}
	slices.SortStableFunc(out, func(a, b int) int { return slices.CompareFunc(cells(m.rows[a]), cells(m.rows[b]), compareCells) })
	if r.Reverse {
		slices.Reverse(out)
	}
	return out
}

// indexed is an ordered index of the tests: its columns as cells and as values.
type indexed struct {
	config Ordered
	cells  func(row) []cell
	values func([]cell) []any
}

func scoreCell(r row) cell {
	if r.score == nil {
		return cell{null: true}
	}
	return cell{num: *r.score}
}

func groupCell(r row) cell {
	if r.group == nil {
		return cell{null: true}
	}
	return cell{num: float64(*r.group)}
}

func valuesOf(kinds string) func([]cell) []any {
	return func(cs []cell) []any {
		var out []any
		for i, c := range cs {
			switch {
			case c.null:
				out = append(out, nil)
			case kinds[i] == 's':
				out = append(out, c.str)
			case kinds[i] == 'i':
				out = append(out, int64(c.num))
			default:
				out = append(out, c.num)
			}
		}
		return out
	}
}

var testIndexes = []indexed{
	{Ordered{"id", cols("id")}, func(r row) []cell { return []cell{{num: float64(r.id)}} }, valuesOf("i")},
	{Ordered{"score", cols("score")}, func(r row) []cell { return []cell{scoreCell(r)} }, valuesOf("f")},
	{Ordered{"name", cols("name")}, func(r row) []cell { return []cell{{str: r.name}} }, valuesOf("s")},
	{Ordered{"group+score", cols("group", "score")}, func(r row) []cell { return []cell{groupCell(r), scoreCell(r)} }, valuesOf("if")},
	{Ordered{"name+group+id", cols("name", "group", "id")}, func(r row) []cell {
		return []cell{{str: r.name}, groupCell(r), {num: float64(r.id)}}
	}, valuesOf("sii")},
	{Ordered{"group", cols("group")}, func(r row) []cell { return []cell{groupCell(r)} }, valuesOf("i")},
}

func randomRow(r *rand.Rand, keyed bool) row {
	x := row{
		id:   int64(r.IntN(40) - 20),
		name: pick(r, "", "a", "a\x00", "shared-prefix-", "shared-prefix-1", "shared-prefix-12345678901", "shared-prefix-12345678902", "\xff\xff", "z") + pick(r, "", "", "\x00", "b"),
		dead: keyed && r.IntN(6) == 0,
	}
	if r.IntN(4) > 0 {
		x.score = ptr(pick(r, 0, math.Copysign(0, -1), 1, 1.5, -1, math.NaN(), -math.NaN(), math.Inf(1), math.Inf(-1), float64(r.IntN(100))))
	}
	if r.IntN(5) > 0 {
		x.group = ptr(int32(r.IntN(5) - 2))
	}
	return x
}

func pick[T any](r *rand.Rand, vals ...T) T { return vals[r.IntN(len(vals))] }

type keying struct {
	name string
	cols []Column
	key  func(row) string
	vals func(row) []any
}

var keyings = []keying{
	{"append-only", nil, nil, nil},
	{"int64", cols("id"), func(r row) string { return fmt.Sprint(r.id) }, func(r row) []any { return []any{r.id} }},
	{"text", cols("name"), func(r row) string { return r.name }, func(r row) []any { return []any{r.name} }},
	{"composite", cols("name", "id"), func(r row) string { return fmt.Sprintf("%q %d", r.name, r.id) }, func(r row) []any { return []any{r.name, r.id} }},
}

// TestModel: random histories of upserts and deletes, every key and range at
// every kind of bound, against brute force; also with all keys colliding.
func TestModel(t *testing.T) {
	weak := map[string]func(uint64) uint64{
		"hash":      nil,
		"4 hashes":  func(h uint64) uint64 { return h & (3 << 62) },
		"collision": func(uint64) uint64 { return 1<<64 - 1 }, // at the table's end: probes wrap
	}
	for _, k := range keyings {
		for name, weaken := range weak {
			if weaken != nil && k.cols == nil {
				continue
			}
			t.Run(k.name+"/"+name, func(t *testing.T) {
				for seed := range uint64(3) {
					runModel(t, k, weaken, seed)
				}
			})
		}
	}
}

func bindModel(t testing.TB, k keying, weaken func(uint64) uint64) *Spec {
	var configs []Config
	for _, x := range testIndexes {
		configs = append(configs, x.config)
	}
	spec := mustBind(t, testSchema(k.cols != nil), k.cols, configs...)
	spec.weaken = weaken
	return spec
}

func runModel(t *testing.T, k keying, weaken func(uint64) uint64, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 1))
	f := newFixture(bindModel(t, k, weaken))
	m := &model{key: k.key}
	for step := range 12 {
		var batch []row
		for range pick(r, 0, 1, 3, 20, 300) {
			batch = append(batch, randomRow(r, k.cols != nil))
		}
		f.apply(t, batchOf(t, f.spec.Schema(), batch))
		m.rows = append(m.rows, batch...)
		if int(f.set.Applied()) != len(m.rows) {
			t.Fatalf("applied %d of %d", f.set.Applied(), len(m.rows))
		}
		for _, bound := range []int{len(m.rows), r.IntN(len(m.rows) + 1), 0} {
			checkBound(t, f, m, k, r, bound)
		}
		if t.Failed() {
			t.Fatalf("seed %d, step %d", seed, step)
		}
	}
}

// checkBound checks liveness, lookups and a few random ranges at a bound.
func checkBound(t testing.TB, f *fixture, m *model, k keying, r *rand.Rand, bound int) {
	t.Helper()
	live := m.live(bound)
	next := 0
	for i := range m.rows {
		want := next < len(live) && live[next] == i
		if want {
			next++
		}
		if got := f.set.Live(uint32(i), uint32(bound)); got != want {
			t.Errorf("Live(%d, %d) = %t, want %t", i, bound, got, want)
		}
	}
	if k.cols != nil {
		for range 30 {
			checkLookup(t, f, m, k, randomRow(r, true), bound)
		}
	}
	for range 12 {
		checkRange(t, f, m, testIndexes[r.IntN(len(testIndexes))], r, bound)
	}
}

func checkLookup(t testing.TB, f *fixture, m *model, k keying, x row, bound int) {
	t.Helper()
	want, found := m.newest(k.key(x), bound)
	key, err := f.spec.Key(k.vals(x)...)
	if err != nil {
		t.Fatal(err)
	}
	rec := batchOf(t, f.spec.Schema(), []row{x})
	rowKey := f.spec.RowKey(rec, 0)
	if !bytes.Equal(key.Bytes(), rowKey.Bytes()) || !bytes.Equal(key.Bytes(), f.spec.AppendKey(nil, rec, 0)) {
		t.Errorf("keys of %v differ: %x, %x", x, key.Bytes(), rowKey.Bytes())
	}
	for i, lookup := range []func() (uint32, bool){
		func() (uint32, bool) { return f.set.Lookup(key, uint32(bound)) },
		func() (uint32, bool) { return f.set.Lookup(rowKey, uint32(bound)) },
		func() (uint32, bool) { return f.set.LookupRow(rec, 0, uint32(bound)) },
	} {
		if got, ok := lookup(); ok != found || ok && int(got) != want {
			t.Errorf("lookup %d of %q at %d = %d, %t; want %d, %t", i, k.key(x), bound, got, ok, want, found)
		}
	}
}

// randomRange is a Range of the index with random bounds, some of them nil.
func randomRange(x indexed, r *rand.Rand) (rg Range, low, high []cell) {
	rg = Range{LowOpen: r.IntN(2) == 0, HighOpen: r.IntN(2) == 0, Reverse: r.IntN(2) == 0}
	end := func() []cell {
		c := x.cells(randomRow(r, false))
		return c[:r.IntN(len(c)+1)]
	}
	low, high = end(), end()
	rg.Low, rg.High = x.values(low), x.values(high)
	return rg, low, high
}

func checkRange(t testing.TB, f *fixture, m *model, x indexed, r *rand.Rand, bound int) {
	t.Helper()
	rg, low, high := randomRange(x, r)
	want := m.ranged(x.cells, rg, low, high, bound)
	seq, err := f.set.Range(x.config.Name, rg, uint32(bound))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // sequences can be run again
		var got []int
		for slot := range seq {
			got = append(got, int(slot))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s %+v at %d:\ngot  %v\nwant %v", x.config.Name, rg, bound, got, want)
		}
	}
	pairs, err := f.set.RangeKeys(x.config.Name, rg, uint32(bound))
	if err != nil {
		t.Fatal(err)
	}
	var last []byte
	n := 0
	for key, slot := range pairs {
		if n >= len(want) || int(slot) != want[n] {
			t.Fatalf("RangeKeys gives slot %d at %d, want %v", slot, n, want)
		}
		if d := bytes.Compare(last, key); n > 0 && (d > 0 && !rg.Reverse || d < 0 && rg.Reverse) {
			t.Errorf("keys out of order: %x, %x, reverse %t", last, key, rg.Reverse)
		}
		last = append(last[:0], key...)
		if n++; n == 5 {
			break
		}
	}
	if n < min(5, len(want)) {
		t.Errorf("RangeKeys ends after %d of %d", n, len(want))
	}
}
