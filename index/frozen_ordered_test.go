package index

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
)

// entry is a step of a range.
type entry struct {
	key  string
	slot uint32
}

func frozenRange(t testing.TB, f *Frozen, r Range) []entry {
	t.Helper()
	seq, err := f.RangeKeys(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	var out []entry
	for e, err := range seq {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, entry{string(e.Key), e.Slot})
	}
	return out
}

func setRange(t testing.TB, s *Set, r Range, bound uint32) []entry {
	t.Helper()
	seq, err := s.RangeKeys("o", r, bound)
	if err != nil {
		t.Fatal(err)
	}
	var out []entry
	for k, slot := range seq {
		out = append(out, entry{string(k), slot})
	}
	return out
}

func orderedRow(r *rand.Rand) row {
	x := row{id: int64(r.IntN(800)), name: pick(r, "", "a", "ab", "abc", "x\x00y", "x", strings.Repeat("long", 200)) + fmt.Sprint(r.IntN(30)), dead: r.IntN(6) == 0}
	if r.IntN(4) > 0 {
		x.score = ptr(float64(r.IntN(10)) - 5)
	}
	if r.IntN(4) > 0 {
		x.group = ptr(int32(r.IntN(5)))
	}
	return x
}

func orderedBound(r *rand.Rand, columns []string) []any {
	var vals []any
	for _, c := range columns[:r.IntN(len(columns)+1)] {
		var v any
		switch c {
		case "name":
			v = pick(r, "", "a", "ab1", "abc2", "x\x00y", "zzz", strings.Repeat("long", 200)+"1")
		case "score":
			v = float64(r.IntN(12)) - 6
		case "group":
			v = int32(r.IntN(6))
		case "id":
			v = int64(r.IntN(810))
		}
		if c != "id" && c != "name" && r.IntN(6) == 0 {
			v = nil
		}
		vals = append(vals, v)
	}
	return vals
}

// TestG04_FrozenOrderedAnswersAsTheMemtable: every range that an ordered index of a
// memtable gives at its whole bound is given the same by its frozen index: keys, slots and
// order; over one and several columns, with nulls, deletes, open ends, in both
// directions; from memory and by ranges.
func TestG04_FrozenOrderedAnswersAsTheMemtable(t *testing.T) {
	for i, columns := range [][]string{{"id"}, {"name"}, {"score"}, {"group", "score"}, {"score", "name", "id"}, {"group", "id"}} {
		for _, keyed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v keyed=%t", columns, keyed), func(t *testing.T) {
				t.Parallel()
				r := rand.New(rand.NewPCG(81, uint64(i)))
				var key []Column
				if keyed {
					key = cols("id")
				}
				sc := testSchema(keyed)
				f := newFixture(mustBind(t, sc, key, Ordered{Name: "o", Columns: cols(columns...)}))
				for range 4 {
					var rows []row
					for range 300 {
						rows = append(rows, orderedRow(r))
					}
					f.apply(t, batchOf(t, sc, rows))
				}
				b := freeze(t, f.set, "o", identity)
				whole := openFrozen(t, f.spec, "o", FrozenBytes(b), FrozenOptions{})
				byRange := openFrozen(t, f.spec, "o", &ranged{b: b}, small)
				some := 0
				for range unlessRace(150, 40) {
					q := Range{Low: orderedBound(r, columns), High: orderedBound(r, columns), LowOpen: r.IntN(2) == 0, HighOpen: r.IntN(2) == 0, Reverse: r.IntN(2) == 0}
					want := setRange(t, f.set, q, f.set.Applied())
					some += len(want)
					for _, z := range []*Frozen{whole, byRange} {
						if got := frozenRange(t, z, q); !slices.Equal(got, want) {
							t.Fatalf("%+v: %d rows, want %d:\ngot  %.300q\nwant %.300q", q, len(got), len(want), fmt.Sprint(got), fmt.Sprint(want))
						}
					}
				}
				if some == 0 {
					t.Error("no range had any row")
				}
				if all := setRange(t, f.set, Range{}, f.set.Applied()); uint32(len(all)) != whole.Rows() {
					t.Errorf("%d rows, want %d", whole.Rows(), len(all))
				}
				if err := byRange.Verify(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// TestFrozenOrderedLeavesOut: rows without a file row are not in it, an early end of a
// range is one, and nothing but the blocks of a range is read.
func TestFrozenOrderedLeavesOut(t *testing.T) {
	sc, recs := int64Batches(t, 200_000, 20_000, false)
	f := newFixture(mustBind(t, sc, nil, Ordered{Name: "o", Columns: cols("id")}))
	for _, rec := range recs {
		f.apply(t, rec)
	}
	src := &ranged{b: freeze(t, f.set, "o", func(slot uint32) (uint32, bool) { return slot / 2, slot%2 == 1 })}
	z := openFrozen(t, f.spec, "o", src, FrozenOptions{WholeBytes: 1})
	seq, err := z.RangeKeys(t.Context(), Range{Low: []any{int64(100)}, High: []any{int64(200)}})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		var got []uint32
		for e, err := range seq {
			if err != nil {
				t.Fatal(err)
			}
			if got = append(got, e.Slot); len(got) == 30 {
				break
			}
		}
		if len(got) != 30 || got[0] != 101 || got[29] != 159 {
			t.Errorf("slots %v", got)
		}
	}
	var read int64
	for _, n := range src.reads {
		read += n
	}
	if read > int64(len(src.b))/2 || len(src.reads) > 4 {
		t.Errorf("%d of %d bytes in %d reads", read, len(src.b), len(src.reads))
	}
	if z.Bytes() > 400<<10 {
		t.Errorf("it holds %d bytes", z.Bytes())
	}
}

// TestFrozenOrderedKeyType: keys of another type are another index, since they are
// encoded in another way.
func TestFrozenOrderedKeyType(t *testing.T) {
	sc := testSchema(false)
	f := newFixture(mustBind(t, sc, nil, Ordered{Name: "o", Columns: cols("group")}, Ordered{Name: "two", Columns: cols("group", "id")}, Ordered{Name: "score", Columns: cols("score")}))
	b := freeze(t, f.set, "o", identity)
	for _, name := range []string{"two", "score"} {
		if _, err := f.spec.OpenFrozen(t.Context(), name, FrozenBytes(b), FrozenOptions{}); err == nil {
			t.Errorf("it opens as %q", name)
		}
	}
	if got := frozenRange(t, openFrozen(t, f.spec, "o", FrozenBytes(b), FrozenOptions{}), Range{}); len(got) != 0 {
		t.Errorf("an empty one has %v", got)
	}
	fields := sc.Fields()
	fields[3] = field("group", arrow.PrimitiveTypes.Int64, 4, true)
	wider := mustBind(t, arrow.NewSchema(fields, nil), nil, Ordered{Name: "o", Columns: cols("group")})
	if _, err := wider.OpenFrozen(t.Context(), "o", FrozenBytes(b), FrozenOptions{}); !errors.Is(err, ErrOtherIndex) {
		t.Errorf("another type: %v", err)
	}
	var again bytes.Buffer
	if _, err := f.set.Freeze(t.Context(), "o", 0, identity, &again); err != nil || !bytes.Equal(again.Bytes(), b) {
		t.Errorf("the same freeze gives other bytes: %v", err)
	}
}

// TestFrozenOrderedRangesBetweenBlocks: ranges that begin or end at the last key of a
// block, or between it and the first one of the next.
func TestFrozenOrderedRangesBetweenBlocks(t *testing.T) {
	sc := testSchema(false)
	f := newFixture(mustBind(t, sc, nil, Ordered{Name: "o", Columns: cols("name")}))
	r := rand.New(rand.NewPCG(161, 162))
	var rows []row
	var names []string
	for i := range 200 {
		names = append(names, fmt.Sprintf("%03d", i)+strings.Repeat(pick(r, "a", "z"), pick(r, 1, 80, 500)))
		rows = append(rows, row{id: int64(i), name: names[i]})
	}
	f.apply(t, batchOf(t, sc, rows))
	b := freeze(t, f.set, "o", identity)
	z := openFrozen(t, f.spec, "o", FrozenBytes(b), FrozenOptions{})
	byRange := openFrozen(t, f.spec, "o", &ranged{b: b}, small)
	// The keys are in the order of the rows.
	all := setRange(t, f.set, Range{}, f.set.Applied())
	ends := blockEnds(t, z, 1)
	if len(ends) < 20 || len(ends) > len(rows)/2 {
		t.Fatalf("%d blocks of %d rows", len(ends), len(rows))
	}
	for i, end := range ends {
		at := slices.IndexFunc(all, func(e entry) bool { return e.key == end })
		for _, edge := range []string{names[at], names[at] + "\x00", names[at] + "zz"} {
			for _, open := range []bool{false, true} {
				for _, reverse := range []bool{false, true} {
					for _, q := range []Range{{Low: []any{edge}, LowOpen: open, Reverse: reverse}, {High: []any{edge}, HighOpen: open, Reverse: reverse}} {
						var want []entry
						for k, n := range names {
							c := strings.Compare(n, edge)
							if q.High != nil {
								c = -c
							}
							if c > 0 || c == 0 && !open {
								want = append(want, all[k])
							}
						}
						if reverse {
							slices.Reverse(want)
						}
						for _, z := range []*Frozen{z, byRange} {
							if got := frozenRange(t, z, q); !slices.Equal(got, want) {
								t.Fatalf("at the end of block %d, %.100q: %d rows, want %d", i, fmt.Sprint(q), len(got), len(want))
							}
						}
					}
				}
			}
		}
	}
}
