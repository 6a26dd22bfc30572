package memwal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/memwal/memwal-go/index"
	"github.com/memwal/memwal-go/objstore"
)

func TestQ01_NewestVersionOnly(t *testing.T) {
	// A history is rows to put, one batch a line; "|" rotates.
	for _, tt := range []struct {
		name    string
		history [][]testRow
		rotate  []int // after these batches
		want    []testRow
	}{
		{"in one batch", [][]testRow{{{1, "a", 1}, {2, "b", 2}, {1, "c", 3}, {1, "d", 0}}}, nil, []testRow{{1, "d", 0}, {2, "b", 2}}},
		{"in one memtable", [][]testRow{{{1, "a", 1}}, {{1, "b", 9}}, {{2, "c", 5}}}, nil, []testRow{{2, "c", 5}, {1, "b", 9}}},
		{"across generations", [][]testRow{{{1, "a", 1}, {2, "b", 2}}, {{2, "c", 3}}, {{1, "d", 4}}}, []int{0, 1}, []testRow{{2, "c", 3}, {1, "d", 4}}},
		{"everywhere", [][]testRow{{{1, "a", 1}, {1, "b", 2}}, {{1, "c", 3}}, {{1, "d", 4}, {2, "e", 5}, {1, "f", 6}}, {{2, "g", 7}, {1, "h", 8}}},
			[]int{0, 1, 2}, []testRow{{2, "g", 7}, {1, "h", 8}}},
		{"unchanged index key", [][]testRow{{{1, "a", 7}}, {{1, "b", 7}}, {{1, "c", 7}}}, []int{1}, []testRow{{1, "c", 7}}},
		{"equal index keys", [][]testRow{{{1, "a", 7}, {2, "b", 7}}, {{3, "c", 7}}, {{1, "d", 7}}}, []int{0, 1}, []testRow{{2, "b", 7}, {3, "c", 7}, {1, "d", 7}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := objstore.NewMemory()
				w := mustOpen(t, store, keyedOptions())
				for i, rows := range tt.history {
					mustPut(t, w, batchOf(t, rows...))
					if slices.Contains(tt.rotate, i) {
						if err := w.Rotate(t.Context()); err != nil {
							t.Fatal(err)
						}
					}
				}
				check := func(w *Writer) {
					t.Helper()
					s := mustSnapshot(t, w.Snapshot)
					checkRead(t, s, tt.want...)
					for row, id := range []int64{2, 1, 3} {
						rows, err := s.LookupAll(t.Context(), keysOf(t, 2, 1, 3))
						if err != nil {
							t.Fatal(err)
						}
						want := slices.IndexFunc(tt.want, func(r testRow) bool { return r.id == id })
						if got := rows[row]; (got.Presence == Present) != (want >= 0) {
							t.Errorf("look up all, %d: %v", id, got.Presence)
						} else if want >= 0 && rowAt(got) != tt.want[want] {
							t.Errorf("look up all, %d: got %v, want %v", id, rowAt(got), tt.want[want])
						}
					}
				}
				check(w)
				mustClose(t, w)
				check(mustOpen(t, store, keyedOptions()))
			})
		})
	}
}

// TestQ01_ManyMemtables makes the merge of a range work on more than two
// memtables, in both directions, with equal keys in all of them.
func TestQ01_ManyMemtables(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := mustOpen(t, objstore.NewMemory(), plainOptions())
		var want []testRow
		for m := range int64(5) {
			var rows []testRow
			for i := range int64(4) {
				rows = append(rows, testRow{m*10 + i, "x", (i + m) % 3})
			}
			mustPut(t, w, batchOf(t, rows...))
			if err := w.Rotate(t.Context()); err != nil {
				t.Fatal(err)
			}
			want = append(want, rows...)
		}
		// Ordinals follow ids, so a stable sort by n is the order.
		slices.SortStableFunc(want, func(a, b testRow) int { return int(a.n - b.n) })
		s := mustSnapshot(t, w.Snapshot)
		for _, reverse := range []bool{false, true} {
			for _, limit := range []int64{0, 1, 7, 19, 20, 21} {
				r, err := s.Range(t.Context(), "by_n", index.Range{Reverse: reverse}, ScanOptions{Limit: limit, BatchRows: 3})
				if err != nil {
					t.Fatal(err)
				}
				end := len(want)
				if limit > 0 {
					end = min(end, int(limit))
				}
				if got := readRows(t, r); !slices.Equal(got, want[:end]) {
					t.Errorf("reverse %v, limit %d: got %v, want %v", reverse, limit, got, want[:end])
				}
			}
			slices.Reverse(want)
		}
	})
}

func TestQ05_LimitProjectionAndEarlyRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rows = 25
		w := mustOpen(t, objstore.NewMemory(), keyedOptions())
		empty := mustSnapshot(t, w.Snapshot)
		for i := range int64(5) {
			mustPut(t, w, seq(t, i*5, 5))
			if i == 2 {
				if err := w.Rotate(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
		s := mustSnapshot(t, w.Snapshot)
		reads := map[string]func(*Snapshot, ScanOptions) (array.RecordReader, error){
			"scan": func(s *Snapshot, o ScanOptions) (array.RecordReader, error) { return s.Scan(t.Context(), o) },
			"range": func(s *Snapshot, o ScanOptions) (array.RecordReader, error) {
				return s.Range(t.Context(), "by_n", index.Range{Low: []any{int64(0)}}, o)
			},
		}
		for name, read := range reads {
			for _, columns := range [][]string{nil, {}, {"n"}, {"text", "id"}} {
				for _, limit := range []int64{0, 1, 4, 5, 6, 15, 24, 25, 26} {
					for _, size := range []int64{0, 1, 4, 100} {
						o := ScanOptions{Columns: columns, Limit: limit, BatchRows: size, Ordinals: limit%2 == 0}
						want := rows
						if limit > 0 {
							want = min(want, int(limit))
						}
						r, err := read(s, o)
						if err != nil {
							t.Fatalf("%s %+v: %v", name, o, err)
						}
						checkColumns(t, r, o, want)
						if r, err = read(empty, o); err != nil {
							t.Fatalf("%s %+v of nothing: %v", name, o, err)
						}
						checkColumns(t, r, o, 0)
					}
				}
			}
			// Released before, in the midst of, and after the end.
			for _, steps := range []int{0, 1, 3, 5, 6} {
				r, err := read(s, ScanOptions{BatchRows: 5})
				if err != nil {
					t.Fatal(err)
				}
				r.Retain()
				for range steps {
					r.Next()
				}
				r.Release()
				if steps < 5 && !r.Next() {
					t.Errorf("%s: a reader that is still retained ended after %d batches", name, steps)
				}
				r.Release()
			}
		}
		for range s.All(t.Context(), ScanOptions{BatchRows: 2}) {
			break
		}
	})
}

// checkColumns reads r to its end: rows in order, of the columns asked for.
func checkColumns(t *testing.T, r array.RecordReader, o ScanOptions, want int) {
	t.Helper()
	defer r.Release()
	columns := o.Columns
	if columns == nil {
		columns = []string{"id", "text", "n"}
	}
	if o.Ordinals {
		columns = append(slices.Clone(columns), "_row_ordinal")
	}
	size := o.BatchRows
	if size == 0 {
		size = 8192
	}
	n := 0
	for r.Next() {
		rec := r.RecordBatch()
		if rec.NumRows() < 1 || rec.NumRows() > size || int(rec.NumCols()) != len(columns) || !rec.Schema().Equal(r.Schema()) {
			t.Fatalf("%+v: a batch of %d rows and %d columns, schema %v", o, rec.NumRows(), rec.NumCols(), rec.Schema())
		}
		for row := range int(rec.NumRows()) {
			for c, name := range columns {
				want := map[string]string{"id": fmt.Sprint(n), "text": fmt.Sprintf("row %d", n), "n": fmt.Sprint(n * 10), "_row_ordinal": fmt.Sprint(n)}[name]
				if got := rec.Column(c).ValueStr(row); got != want || rec.ColumnName(c) != name {
					t.Fatalf("%+v: row %d: column %q is %s, want %q to be %s", o, n, rec.ColumnName(c), got, name, want)
				}
			}
			n++
		}
	}
	if err := r.Err(); err != nil || n != want {
		t.Errorf("%+v: %d rows, %v, want %d", o, n, err, want)
	}
	if r.Next() || r.RecordBatch() != nil {
		t.Errorf("%+v: something comes after the end", o)
	}
}

// TestQ05_CancelledRead ends a read by its context.
func TestQ05_CancelledRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := mustOpen(t, objstore.NewMemory(), keyedOptions())
		mustPut(t, w, seq(t, 0, 10))
		s := mustSnapshot(t, w.Snapshot)
		ctx, cancel := context.WithCancel(t.Context())
		r, err := s.Scan(ctx, ScanOptions{BatchRows: 3})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Release()
		if !r.Next() {
			t.Fatal(r.Err())
		}
		cancel()
		if r.Next() || !errors.Is(r.Err(), context.Canceled) {
			t.Errorf("after the end of the context: %v", r.Err())
		}
		for name, err := range map[string]error{
			"scan":       second(s.Scan(ctx, ScanOptions{})),
			"range":      second(s.Range(ctx, "by_n", index.Range{}, ScanOptions{})),
			"lookup":     second(s.Lookup(ctx, int64(1))),
			"lookup all": second(s.LookupAll(ctx, keysOf(t, 1))),
			"count":      second(s.Count(ctx)),
		} {
			if !errors.Is(err, context.Canceled) || errors.Is(err, ErrInvalid) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

func second[T any](_ T, err error) error { return err }

// TestQ05_RowsTooLargeToJoin reads with an allocator that refuses to make large
// arrays, as arrays do that cannot count their bytes.
func TestQ05_RowsTooLargeToJoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := keyedOptions()
		o.Allocator = smallAllocator{memory.DefaultAllocator}
		w := mustOpen(t, objstore.NewMemory(), o)
		var want []testRow
		for i := range int64(10) {
			want = append(want, testRow{i, strings.Repeat("x", 100<<10), i})
			mustPut(t, w, batchOf(t, want[i]))
		}
		checkRead(t, mustSnapshot(t, w.Snapshot), want...)
	})
}

// smallAllocator panics, which array.Concatenate makes an error of.
type smallAllocator struct{ memory.Allocator }

func (a smallAllocator) Allocate(n int) []byte {
	if n > 300<<10 {
		panic("too much memory at once")
	}
	return a.Allocator.Allocate(n)
}

func (a smallAllocator) Reallocate(n int, b []byte) []byte {
	if n > 300<<10 {
		panic("too much memory at once")
	}
	return a.Allocator.Reallocate(n, b)
}

func TestQ06_DeletedIsNotNeverWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := objstore.NewMemory()
		w := mustOpen(t, store, keyedOptions())
		del := func(ids ...int64) {
			t.Helper()
			if err := w.Delete(t.Context(), keysOf(t, ids...)); err != nil {
				t.Fatal(err)
			}
		}
		early := mustSnapshot(t, w.Snapshot)
		mustPut(t, w, seq(t, 1, 4))
		before := mustSnapshot(t, w.Snapshot)
		del(1, 9) // 9 was never written, and is deleted all the same
		if err := w.Rotate(t.Context()); err != nil {
			t.Fatal(err)
		}
		del(2)
		mustPut(t, w, batchOf(t, testRow{1, "again", 1}))
		del(3)
		mustPut(t, w, batchOf(t, testRow{3, "again", 3}))
		check := func(s *Snapshot, want map[int64]Presence) {
			t.Helper()
			for id, want := range want {
				if got, err := s.Lookup(t.Context(), id); err != nil || got.Presence != want {
					t.Errorf("look up %d: %v, %v, want %v", id, got.Presence, err, want)
				}
				got, err := s.LookupAll(t.Context(), keysOf(t, 77, id))
				if err != nil || got[0].Presence != Absent || got[1].Presence != want {
					t.Errorf("look up all %d: %v, %v, want %v", id, got, err, want)
				}
				if want != Present && (got[1].Batch != nil || got[1].Ordinal != 0) {
					t.Errorf("look up all %d: %v row comes with data", id, want)
				}
			}
		}
		check(early, map[int64]Presence{1: Absent, 2: Absent, 3: Absent, 4: Absent, 9: Absent, 10: Absent})
		check(before, map[int64]Presence{1: Present, 2: Present, 3: Present, 4: Present, 9: Absent, 10: Absent})
		now := map[int64]Presence{1: Present, 2: Deleted, 3: Present, 4: Present, 9: Deleted, 10: Absent}
		check(mustSnapshot(t, w.Snapshot), now)
		mustClose(t, w)
		w = mustOpen(t, store, keyedOptions())
		check(mustSnapshot(t, w.Snapshot), now)
	})
}

// saysOf is everything that a snapshot of a table with keyedOptions says.
func saysOf(t testing.TB, s *Snapshot) string {
	t.Helper()
	ctx := context.Background()
	var b strings.Builder
	fmt.Fprintln(&b, s.Bound(), snapshotRows(t, s))
	for _, r := range []index.Range{{}, {Reverse: true}, {Low: []any{int64(20)}, High: []any{int64(60)}, HighOpen: true}} {
		rr, err := s.Range(ctx, "by_n", r, ScanOptions{})
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(&b, readRows(t, rr))
	}
	for id := range int64(12) {
		row, err := s.Lookup(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(&b, id, row.Presence, row.Ordinal)
		if row.Presence == Present {
			fmt.Fprintln(&b, rowAt(row))
		}
	}
	n, err := s.Count(ctx)
	fmt.Fprintln(&b, n, err)
	return b.String()
}

func TestQ07_SnapshotDoesNotChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newTestStore()
		w := mustOpen(t, store, patient(keyedOptions()))
		type taken struct {
			s    *Snapshot
			want string
			when string
		}
		var all []taken
		check := func(when string) {
			t.Helper()
			for _, k := range all {
				if got := saysOf(t, k.s); got != k.want {
					t.Fatalf("the snapshot taken %s has changed %s:\n%s\nwas\n%s", k.when, when, got, k.want)
				}
			}
		}
		step := func(when string, do func() error) {
			t.Helper()
			if err := do(); err != nil {
				t.Fatalf("%s: %v", when, err)
			}
			synctest.Wait()
			check(when)
			for _, take := range []func() (*Snapshot, error){w.Snapshot, w.IndexedSnapshot} {
				s := mustSnapshot(t, take)
				all = append(all, taken{s, saysOf(t, s), when})
			}
		}
		put := func(rows ...testRow) func() error {
			return func() error { return w.Put(t.Context(), batchOf(t, rows...)) }
		}
		async := func(rows ...testRow) func() error {
			return func() error { _, err := w.PutAsync(t.Context(), batchOf(t, rows...)); return err }
		}
		del := func(ids ...int64) func() error {
			return func() error { _, err := w.DeleteAsync(t.Context(), keysOf(t, ids...)); return err }
		}
		rotate := func() error { return w.Rotate(t.Context()) }

		step("at first", func() error { return nil })
		step("put", put(testRow{1, "a", 10}, testRow{2, "b", 20}, testRow{3, "c", 60}))
		step("update", put(testRow{2, "b2", 25}, testRow{4, "d", 40}))
		step("rotate", rotate)
		step("update of frozen rows", put(testRow{1, "a2", 5}))
		do, release := hold()
		store.on(objstore.OpPutIfAbsent, walPart, always, do)
		step("held put", async(testRow{3, "c2", 30}, testRow{5, "e", 50}))
		step("held delete", del(2, 9))
		step("held rotate", rotate)
		step("held update", async(testRow{3, "c3", 31}, testRow{2, "b3", 21}))
		release()
		time.Sleep(time.Second)
		check("by flushing")
		step("second delete", del(4))
		step("flush", func() error { return w.Flush(t.Context()) })
		mustClose(t, w)
		check("by closing")
		mustOpen(t, store, keyedOptions())
		check("by the next writer")
	})
}

// TestQ07_AfterFailure reads snapshots of a writer that has failed.
func TestQ07_AfterFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := mustOpen(t, objstore.NewMemory(), keyedOptions())
		mustPut(t, w, batchOf(t, testRow{1, "a", 20}, testRow{2, "b", 40}))
		s := mustSnapshot(t, w.Snapshot)
		want := saysOf(t, s)
		r, err := s.Scan(t.Context(), ScanOptions{BatchRows: 1})
		if err != nil || !r.Next() {
			t.Fatal(err)
		}
		w.Abort()
		if got := saysOf(t, s); got != want {
			t.Errorf("after abort: %s\nwas %s", got, want)
		}
		s.Close()
		if got := readRows(t, r); !slices.Equal(got, []testRow{{2, "b", 40}}) {
			t.Errorf("a reader that outlives its snapshot reads %v", got)
		}
	})
}

func TestQ08_SearchWithoutAnIndex(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, o := range []*Options{keyedOptions(), {PrimaryKey: []string{"id"}}, {}, plainOptions()} {
			w := mustOpen(t, objstore.NewMemory(), o)
			for range 3 { // without rows, with one memtable, with two
				s := mustSnapshot(t, w.Snapshot)
				for _, name := range []string{"nope", "text", "n", "", index.PrimaryKey} {
					r, err := s.Range(t.Context(), name, index.Range{}, ScanOptions{})
					if !errors.Is(err, ErrNoIndex) || r != nil {
						t.Errorf("range over %q: %v", name, err)
					}
				}
				if len(o.PrimaryKey) == 0 {
					if _, err := s.Lookup(t.Context(), int64(1)); !errors.Is(err, ErrNoIndex) {
						t.Errorf("lookup without a key: %v", err)
					}
				}
				mustPut(t, w, seq(t, 1, 2))
				if err := w.Rotate(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

// TestReaderOfTypes checks that readers say what they return: the schema that
// was given, metadata included.
func TestReaderOfTypes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		meta := arrow.NewMetadata([]string{"owner"}, []string{"me"})
		fields := testSchema.Fields()
		fields[1].Metadata = arrow.NewMetadata([]string{"unit"}, []string{"none"})
		schema := arrow.NewSchema(fields, &meta)
		store := objstore.NewMemory()
		for range 2 {
			w, err := Open(t.Context(), store, testShard, schema, keyedOptions())
			if err != nil {
				t.Fatal(err)
			}
			mustPut(t, w, seq(t, 1, 2))
			s := mustSnapshot(t, w.Snapshot)
			r, err := s.Scan(t.Context(), ScanOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for _, got := range []*arrow.Schema{r.Schema(), s.Schema()} {
				if !got.Equal(schema) || !got.Metadata().Equal(meta) || got.Field(1).Metadata.FindKey("unit") < 0 || got.Field(0).Nullable {
					t.Errorf("schema %v, want %v", got, schema)
				}
			}
			readRows(t, r)
			mustClose(t, w)
		}
	})
}
