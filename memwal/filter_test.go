package memwal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/memwal/memwal-go/index"
	"github.com/memwal/memwal-go/objstore"
)

// TestQ02_FilterAfterDeduplication asks for values that only old versions have.
func TestQ02_FilterAfterDeduplication(t *testing.T) {
	for _, rotate := range []bool{false, true} {
		t.Run(fmt.Sprintf("rotate=%v", rotate), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := objstore.NewMemory()
				w := mustOpen(t, store, keyedOptions())
				next := func() {
					if rotate {
						if err := w.Rotate(t.Context()); err != nil {
							t.Fatal(err)
						}
					}
				}
				mustPut(t, w, batchOf(t, testRow{1, "old", 10}, testRow{2, "old", 10}, testRow{3, "old", 10}, testRow{1, "mid", 10}))
				next()
				mustPut(t, w, batchOf(t, testRow{1, "new", 20}, testRow{3, "new", 10}))
				next()
				if err := w.Delete(t.Context(), keysOf(t, 2)); err != nil {
					t.Fatal(err)
				}
				next()
				mustPut(t, w, seq(t, 100, 2000)) // so that an index is worth it
				check := func() {
					s := mustSnapshot(t, w.Snapshot)
					var served [AccessIndex + 1]int
					for _, tt := range []struct {
						f    Filter
						want []testRow
					}{
						{Eq("n", 10), []testRow{{3, "new", 10}}},
						{Eq("text", "old"), nil},
						{Eq("text", "mid"), nil},
						{And(Eq("id", 1), Eq("n", 10)), nil},
						{And(In("id", 3, 2, 1), Lt("n", 15)), []testRow{{3, "new", 10}}},
						{In("id", 2, 3, 1, 7), []testRow{{1, "new", 20}, {3, "new", 10}}},
						{Lt("n", 30), []testRow{{1, "new", 20}, {3, "new", 10}}},
						{Not(Ge("id", 100)), []testRow{{1, "new", 20}, {3, "new", 10}}},
					} {
						checkFiltered(t, s, tt.f, tt.want)
						p, err := s.Explain(t.Context(), ScanOptions{Filter: tt.f})
						if err != nil {
							t.Fatal(err)
						}
						served[p.Access]++
					}
					if served[AccessScan] == 0 || served[AccessKeys] == 0 || served[AccessIndex] == 0 {
						t.Errorf("not every way to serve a scan was tried: %v", served)
					}
				}
				check()
				mustClose(t, w)
				w = mustOpen(t, store, keyedOptions())
				check()
			})
		})
	}
}

// checkFiltered reads the rows of a filter in every way that there is.
func checkFiltered(t *testing.T, s *Snapshot, f Filter, want []testRow) {
	t.Helper()
	r, err := s.Scan(t.Context(), ScanOptions{Filter: f})
	if err != nil {
		t.Fatal(err)
	}
	if got := readRows(t, r); !slices.Equal(got, want) {
		t.Errorf("scan, %v: %v, want %v", f, got, want)
	}
	byID := func(a, b testRow) int { return int(a.id - b.id) }
	sorted := slices.SortedFunc(slices.Values(want), byID)
	r, err = s.Range(t.Context(), "by_n", index.Range{}, ScanOptions{Filter: f})
	if err != nil {
		t.Fatal(err)
	}
	if got := slices.SortedFunc(slices.Values(readRows(t, r)), byID); !slices.Equal(got, sorted) {
		t.Errorf("range, %v: %v, want %v", f, got, sorted)
	}
	if n, err := s.CountWhere(t.Context(), f); err != nil || n != int64(len(want)) {
		t.Errorf("count where %v: %d, %v, want %d", f, n, err, len(want))
	}
}

// TestQ04_FiltersOfScansAndRanges has every kind of filter in both, and what is
// wrong refused by both.
func TestQ04_FiltersOfScansAndRanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := mustOpen(t, objstore.NewMemory(), keyedOptions())
		empty := mustSnapshot(t, w.Snapshot)
		mustPut(t, w, seq(t, 0, 10))
		mustPut(t, w, seq(t, 10, 10))
		s := mustSnapshot(t, w.Snapshot)
		all := snapshotRows(t, s)
		for _, tt := range []struct {
			f    Filter
			keep func(testRow) bool
		}{
			{Filter{}, func(testRow) bool { return true }},
			{And(), func(testRow) bool { return true }},
			{Not(Filter{}), func(testRow) bool { return false }},
			{Eq("n", 50), func(r testRow) bool { return r.n == 50 }},
			{Ne("n", 50), func(r testRow) bool { return r.n != 50 }},
			{Lt("n", 50), func(r testRow) bool { return r.n < 50 }},
			{Le("n", 50), func(r testRow) bool { return r.n <= 50 }},
			{Gt("n", 50), func(r testRow) bool { return r.n > 50 }},
			{Ge("n", 50), func(r testRow) bool { return r.n >= 50 }},
			{Between("n", 50, 90), func(r testRow) bool { return r.n >= 50 && r.n <= 90 }},
			{In("id", 4, 2, 40), func(r testRow) bool { return r.id == 2 || r.id == 4 }},
			{Prefix("text", "row 1"), func(r testRow) bool { return strings.HasPrefix(r.text, "row 1") }},
			{Or(Eq("id", 7), Prefix("text", "row 0")), func(r testRow) bool { return r.id == 7 || r.id == 0 }},
			{IsNull("text"), func(testRow) bool { return false }},
			{And(Gt("n", 30), Not(Or(IsNull("text"), Ge("id", 6)))), func(r testRow) bool { return r.n > 30 && r.id < 6 }},
		} {
			want := slices.DeleteFunc(slices.Clone(all), func(r testRow) bool { return !tt.keep(r) })
			checkFiltered(t, s, tt.f, want)
			checkFiltered(t, empty, tt.f, nil)
		}
		for _, s := range []*Snapshot{s, empty} {
			for f, reason := range map[*Filter]FilterReason{
				{expr: Eq("nope", 1).expr}:                               FilterUnknownColumn,
				{expr: Eq("_tombstone", true).expr}:                      FilterUnknownColumn,
				{expr: And(Eq("id", 1), Not(Gt("n", "x"))).expr}:         FilterWrongType,
				{expr: Or(Eq("id", 1), Eq("n", uint64(1)<<63)).expr}:     FilterOutOfRange,
				{expr: And(Gt("n", 5), Lt("n", 3), Prefix("n", 1)).expr}: FilterNotComparable,
			} {
				o := ScanOptions{Filter: *f}
				for name, err := range map[string]error{
					"scan":          second(s.Scan(t.Context(), o)),
					"range":         second(s.Range(t.Context(), "by_n", index.Range{}, o)),
					"count":         second(s.CountWhere(t.Context(), *f)),
					"explain":       second(s.Explain(t.Context(), o)),
					"explain range": second(s.ExplainRange(t.Context(), "by_n", index.Range{}, o)),
				} {
					e, ok := errors.AsType[*FilterError](err)
					if !errors.Is(err, ErrInvalid) || !ok || e.Reason != reason {
						t.Errorf("%s, %v: %v, want %v", name, f, err, reason)
					}
				}
			}
			// A wrong range is wrong whatever the filter.
			none := ScanOptions{Filter: Or()}
			if err := second(s.Range(t.Context(), "nope", index.Range{}, none)); !errors.Is(err, ErrNoIndex) {
				t.Errorf("no such index: %v", err)
			}
			if err := second(s.Range(t.Context(), "by_n", index.Range{Low: []any{"x"}}, none)); !errors.Is(err, ErrInvalid) {
				t.Errorf("wrong bound: %v", err)
			}
		}
	})
}

// TestQ05_FilteredLimitAndProjection: the limit counts matches, the filter's columns
// need not be asked for, and no columns are columns too.
func TestQ05_FilteredLimitAndProjection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := mustOpen(t, objstore.NewMemory(), keyedOptions())
		for i := range int64(4) {
			mustPut(t, w, seq(t, i*25, 25))
			if i == 1 {
				if err := w.Rotate(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
		s := mustSnapshot(t, w.Snapshot)
		reads := map[string]func(ScanOptions) (array.RecordReader, error){
			"scan":  func(o ScanOptions) (array.RecordReader, error) { return s.Scan(t.Context(), o) },
			"range": func(o ScanOptions) (array.RecordReader, error) { return s.Range(t.Context(), "by_n", index.Range{}, o) },
		}
		// Ids are in the order of n and of ordinals.
		for f, matches := range map[*Filter]int{{expr: Ge("n", 900).expr}: 10, {expr: And(In("id", 95, 91, 97), Gt("n", 0)).expr}: 3, {expr: Eq("text", "none").expr}: 0} {
			for name, read := range reads {
				for _, columns := range [][]string{{"id"}, {}, {"text"}} {
					for _, limit := range []int64{0, 1, 9, 10, 11} {
						for _, size := range []int64{0, 1, 3} {
							r, err := read(ScanOptions{Filter: *f, Columns: columns, Limit: limit, BatchRows: size, From: 3})
							if err != nil {
								t.Fatal(err)
							}
							want := matches
							if limit > 0 {
								want = min(want, int(limit))
							}
							n := 0
							for r.Next() {
								rec := r.RecordBatch()
								if size > 0 && rec.NumRows() > size || int(rec.NumCols()) != len(columns) {
									t.Fatalf("%s %v: a batch of %d rows and %d columns", name, f, rec.NumRows(), rec.NumCols())
								}
								n += int(rec.NumRows())
							}
							if r.Err() != nil || n != want {
								t.Errorf("%s %v, columns %v, limit %d, size %d: %d rows, %v, want %d", name, f, columns, limit, size, n, r.Err(), want)
							}
							r.Release()
						}
					}
				}
				// Released before the end.
				r, err := read(ScanOptions{Filter: *f, BatchRows: 1})
				if err != nil {
					t.Fatal(err)
				}
				r.Next()
				r.Release()
			}
		}
	})
}

// TestQ05_CancelledFilter ends a read that finds nothing with its context.
func TestQ05_CancelledFilter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := mustOpen(t, objstore.NewMemory(), keyedOptions())
		mustPut(t, w, seq(t, 0, 10_000))
		s := mustSnapshot(t, w.Snapshot)
		ctx := &endsAfter{Context: t.Context(), n: 4}
		r, err := s.Scan(ctx, ScanOptions{Filter: Eq("text", "none")})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Release()
		if r.Next() || !errors.Is(r.Err(), context.Canceled) {
			t.Errorf("a cancelled read that found nothing: %v", r.Err())
		}
	})
}

// TestQ05_ReadsEndWithTheirContext: also those that look at many rows without giving any,
// and none gives a batch that lacks some.
func TestQ05_ReadsEndWithTheirContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := mustOpen(t, objstore.NewMemory(), keyedOptions())
		const rows = 40_000
		mustPut(t, w, seq(t, 0, rows))
		if err := w.Rotate(t.Context()); err != nil {
			t.Fatal(err)
		}
		mustPut(t, w, seq(t, 0, rows)) // the older ones are all superseded
		s := mustSnapshot(t, w.Snapshot)
		all := func(r array.RecordReader, err error) error {
			if err != nil {
				return err
			}
			defer r.Release()
			for r.Next() {
				if n := r.RecordBatch().NumRows(); n != 1<<20 {
					t.Errorf("a batch of %d rows", n)
				}
			}
			return r.Err()
		}
		for name, read := range map[string]func(ctx context.Context) error{
			"count":       func(ctx context.Context) error { _, err := s.Count(ctx); return err },
			"count where": func(ctx context.Context) error { _, err := s.CountWhere(ctx, Eq("text", "none")); return err },
			"scan":        func(ctx context.Context) error { return all(s.Scan(ctx, ScanOptions{BatchRows: 1 << 20})) },
			"range": func(ctx context.Context) error {
				return all(s.Range(ctx, "by_n", index.Range{}, ScanOptions{BatchRows: 1 << 20}))
			},
			"range of none": func(ctx context.Context) error {
				return all(s.Range(ctx, "by_n", index.Range{}, ScanOptions{From: 2 * rows}))
			},
		} {
			for n := range 8 {
				if err := read(&endsAfter{Context: t.Context(), n: n}); !errors.Is(err, context.Canceled) {
					t.Errorf("%s, with a context that ends when it is asked for the %dth time: %v", name, n+1, err)
				}
			}
		}
	})
}

// endsAfter is a context that has ended once it was asked n times.
type endsAfter struct {
	context.Context
	n int
}

func (c *endsAfter) Err() error {
	if c.n--; c.n < 0 {
		return context.Canceled
	}
	return nil
}

// TestExplain compares what is said with what is to be expected, and what each way
// gives with a scan that looks at every row.
func TestExplain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := mustOpen(t, objstore.NewMemory(), keyedOptions())
		mustPut(t, w, seq(t, 0, 1000))
		if err := w.Rotate(t.Context()); err != nil {
			t.Fatal(err)
		}
		mustPut(t, w, batchOf(t, testRow{5, "again", 9999}, testRow{2000, "new", 50}))
		s := mustSnapshot(t, w.Snapshot)
		for _, tt := range []struct {
			o    ScanOptions
			want string
		}{
			{ScanOptions{}, "scan the live ones of 1002 rows in the order of ordinals"},
			{ScanOptions{From: 1000}, "scan the live ones of 2 rows in the order of ordinals"},
			{ScanOptions{Filter: And()}, "scan the live ones of 1002 rows in the order of ordinals"},
			{ScanOptions{Filter: Eq("text", "row 7")}, `scan the live ones of 1002 rows in the order of ordinals, filter them by text == "row 7"`},
			{ScanOptions{Filter: Eq("id", 5)}, "look up 1 primary keys, filter them by id == 5, and order what was found by ordinal"},
			{ScanOptions{Filter: And(In("id", 5, 7, 5), Gt("n", 0))}, "look up 2 primary keys, filter them by (id in [5, 7, 5] and n > 0), and order what was found by ordinal"},
			{ScanOptions{Filter: In("id", 5, 7, 2000), From: 1000}, "look up 3 primary keys, filter them by id in [5, 7, 2000], and order what was found by ordinal"},
			{ScanOptions{Filter: In("id", 7, 9), From: 8}, "look up 2 primary keys, filter them by id in [7, 9], and order what was found by ordinal"},
			{ScanOptions{Filter: Le("n", 50), From: 4}, `take 2 live rows of the ordered index "by_n", filter them by n <= 50, and order them by ordinal`},
			{ScanOptions{Filter: Gt("id", 5)}, "scan the live ones of 1002 rows in the order of ordinals, filter them by id > 5"},
			{ScanOptions{Filter: Le("n", 40)}, `take 5 live rows of the ordered index "by_n", filter them by n <= 40, and order them by ordinal`},
			{ScanOptions{Filter: Le("n", 60)}, "scan the live ones of 1002 rows in the order of ordinals, filter them by n <= 60"},
			{ScanOptions{Filter: Lt("n", 5000)}, "scan the live ones of 1002 rows in the order of ordinals, filter them by n < 5000"},
			{ScanOptions{Filter: And(Gt("n", 100), Prefix("text", "row"), Not(Gt("n", 120)))},
				`take 2 live rows of the ordered index "by_n", filter them by (n > 100 and text startsWith "row" and not (n > 120)), and order them by ordinal`},
			{ScanOptions{Filter: And(Gt("n", 5), Lt("n", 5))}, "read nothing: no row can match (n > 5 and n < 5)"},
			{ScanOptions{Filter: Or(Eq("id", 5), Eq("id", 6))}, "look up 2 primary keys, filter them by (id == 5 or id == 6), and order what was found by ordinal"},
		} {
			p, err := s.Explain(t.Context(), tt.o)
			if err != nil || p.String() != tt.want {
				t.Errorf("%+v: %v, %v, want %s", tt.o, p, err, tt.want)
			}
			sameAsFullScan(t, s, tt.o)
		}
		for _, tt := range []struct {
			r    index.Range
			f    Filter
			want string
		}{
			{index.Range{}, Filter{}, `go through the ordered index "by_n"`},
			{index.Range{Reverse: true}, Eq("id", 5), `go through the ordered index "by_n" backwards, filter them by id == 5`},
			{index.Range{}, In("n", 50, 30), `go through the ordered index "by_n", within the bounds of the filter, filter them by n in [50, 30]`},
			{index.Range{Low: []any{20}}, Lt("n", 40), `go through the ordered index "by_n", within the bounds of the filter, filter them by n < 40`},
			{index.Range{Low: []any{20}, High: []any{90}}, Lt("n", 40), `go through the ordered index "by_n", filter them by n < 40`},
			{index.Range{}, Or(), "read nothing: no row can match false"},
		} {
			p, err := s.ExplainRange(t.Context(), "by_n", tt.r, ScanOptions{Filter: tt.f})
			if err != nil || p.String() != tt.want {
				t.Errorf("range %+v, %v: %v, %v, want %s", tt.r, tt.f, p, err, tt.want)
			}
		}
		s.Close()
		if err := second(s.Explain(t.Context(), ScanOptions{})); !errors.Is(err, ErrClosed) {
			t.Errorf("explain of a closed snapshot: %v", err)
		}
	})
}

// TestExplain_CompositeIndexes has filters that bound several columns of an index, or say
// something of nulls. Each must give what a scan of all rows gives.
func TestExplain_CompositeIndexes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := mustOpen(t, objstore.NewMemory(), &Options{Indexes: []index.Config{
			index.Ordered{Name: "by_text_n", Columns: []index.Column{{Name: "text"}, {Name: "n"}}},
			index.Ordered{Name: "by_n", Columns: []index.Column{{Name: "n"}}},
		}})
		// 4,000 rows: text is one of 40, or null in 8 of them; n one of 100, or null.
		b := array.NewRecordBuilder(memory.DefaultAllocator, testSchema)
		defer b.Release()
		for i := range int64(4000) {
			b.Field(0).(*array.Int64Builder).Append(i)
			b.Field(1).(*array.StringBuilder).Append(fmt.Sprintf("text %02d", i%40))
			b.Field(2).(*array.Int64Builder).Append(i / 40)
			if i%500 == 7 {
				b.Field(1).(*array.StringBuilder).SetNull(int(i))
			}
			if i%1000 == 7 || i == 83 {
				b.Field(2).(*array.Int64Builder).SetNull(int(i))
			}
		}
		rec := b.NewRecordBatch()
		defer rec.Release()
		mustPut(t, w, rec)
		s := mustSnapshot(t, w.Snapshot)
		const scan, byN, byText, byBoth = "scan the live ones of", `of the ordered index "by_n",`, `of the ordered index "by_text_n",`, `of the ordered index "by_text_n" on its first 2 columns,`
		for _, tt := range []struct {
			f    Filter
			want string
		}{
			{And(Eq("text", "text 05"), Ge("n", 96)), byBoth},
			{And(Eq("text", "text 05"), Gt("n", 2), Le("n", 7)), byBoth},
			{And(Eq("text", "text 05"), Lt("n", 4)), byBoth},
			{And(Eq("text", "text 03"), IsNull("n")), byBoth},
			{And(IsNull("text"), Eq("n", 12)), byBoth},
			{And(IsNull("text"), Gt("n", 12)), byBoth},
			{And(IsNull("text"), Lt("n", 50)), byBoth},
			{And(IsNull("text"), IsNull("n")), byBoth},
			{And(In("text", "text 01", "text 02"), In("n", 1, 2, 3)), byBoth},
			{And(Or(Eq("text", "text 01"), Eq("text", "text 02")), Or(Eq("n", 1), Eq("n", 2))), byBoth},
			{IsNull("text"), byText},
			{And(Prefix("text", "text 0"), IsNull("n")), byN},
			{And(Prefix("text", "text 039"), Gt("id", 7)), byText},
			{And(Prefix("text", "text 3"), Eq("n", 5)), scan}, // 40 rows by n, more by text
			{IsNull("n"), byN},
			{And(IsNull("n"), Eq("n", 5)), byN},
			{Not(IsNull("n")), scan},
			{Gt("n", nil), "read nothing"},
		} {
			p, err := s.Explain(t.Context(), ScanOptions{Filter: tt.f})
			if err != nil || !strings.Contains(p.String(), tt.want) {
				t.Errorf("%v: %v, %v, want %s", tt.f, p, err, tt.want)
			}
			for _, from := range []uint64{0, 2000} {
				sameAsFullScan(t, s, ScanOptions{Filter: tt.f, From: from})
			}
		}
		for _, tt := range []struct {
			r    index.Range
			f    Filter
			want string
			rows int
		}{
			{index.Range{}, And(Eq("text", "text 05"), Ge("n", 96)), "within the bounds of the filter on its first 2 columns", 4},
			{index.Range{Reverse: true}, And(IsNull("text"), IsNull("n")), "backwards, within the bounds of the filter on its first 2 columns", 4},
			{index.Range{}, IsNull("text"), `"by_text_n", within the bounds of the filter, filter`, 8},
			{index.Range{Low: []any{"text 05"}}, IsNull("text"), `"by_text_n", filter`, 0},
			{index.Range{Low: []any{"text 38"}}, Lt("text", "text 39"), `"by_text_n", within the bounds of the filter, filter`, 100},
			{index.Range{}, And(In("text", "text 05", "text 09"), Ge("n", 96)), `"by_text_n", within the bounds of the filter, filter`, 8},
		} {
			o := ScanOptions{Filter: tt.f}
			p, err := s.ExplainRange(t.Context(), "by_text_n", tt.r, o)
			if err != nil || !strings.Contains(p.String(), tt.want) {
				t.Errorf("range %+v, %v: %v, %v, want %s", tt.r, tt.f, p, err, tt.want)
			}
			r, err := s.Range(t.Context(), "by_text_n", tt.r, o)
			if err != nil {
				t.Fatal(err)
			}
			n := 0
			for r.Next() {
				n += int(r.RecordBatch().NumRows())
			}
			if r.Err() != nil || n != tt.rows {
				t.Errorf("range %+v, %v: %d rows, %v, want %d", tt.r, tt.f, n, r.Err(), tt.rows)
			}
			r.Release()
		}
	})
}

// sameAsFullScan compares a scan with the rows of one without a filter that match.
func sameAsFullScan(t *testing.T, s *Snapshot, o ScanOptions) {
	t.Helper()
	prog, err := s.r.bindFilter("scan", o.Filter)
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for s := range filtered(t.Context(), prog, scan(t.Context(), o.From, s.views())) {
		for i := range s.n {
			if s.mask != nil && s.mask[i/64]>>(i%64)&1 == 0 {
				continue
			}
			want = append(want, fmt.Sprint(s.ordinal+uint64(i)))
		}
	}
	o.Ordinals, o.Columns = true, []string{}
	var got []string
	for rec, err := range s.All(t.Context(), o) {
		if err != nil {
			t.Fatal(err)
		}
		for i := range int(rec.NumRows()) {
			got = append(got, rec.Column(0).ValueStr(i))
		}
	}
	if prog != nil && prog.Never() {
		want = nil
	}
	if !slices.Equal(got, want) {
		t.Errorf("%+v: ordinals %v, want %v", o, got, want)
	}
}
