package memwal

import (
	"slices"
	"testing"

	"github.com/memwal/memwal-go/index"
	"github.com/memwal/memwal-go/objstore"
)

func TestPutReadReopen(t *testing.T) {
	store := objstore.NewMemory()
	w := mustOpen(t, store, keyedOptions())
	mustPut(t, w, batchOf(t, testRow{1, "alpha", 30}, testRow{2, "beta", 10}, testRow{3, "gamma", 20}))
	mustPut(t, w, batchOf(t, testRow{2, "beta two", 40}))
	if err := w.Rotate(t.Context()); err != nil {
		t.Fatal(err)
	}
	mustPut(t, w, batchOf(t, testRow{4, "delta", 5}, testRow{1, "alpha two", 15}))
	if err := w.Delete(t.Context(), keysOf(t, 3)); err != nil {
		t.Fatal(err)
	}
	want := []testRow{{2, "beta two", 40}, {4, "delta", 5}, {1, "alpha two", 15}}
	check := func(w *Writer) {
		t.Helper()
		if got := rowsOf(t, w); !slices.Equal(got, want) {
			t.Fatalf("scan: got %v, want %v", got, want)
		}
		s, err := w.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		for id, want := range map[int64]Presence{1: Present, 2: Present, 3: Deleted, 4: Present, 5: Absent} {
			row, err := s.Lookup(t.Context(), id)
			if err != nil || row.Presence != want {
				t.Errorf("lookup %d: %v, %v, want %v", id, row.Presence, err, want)
			}
		}
		r, err := s.Range(t.Context(), "by_n", index.Range{Low: []any{int64(5)}, High: []any{int64(20)}}, ScanOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := readRows(t, r), []testRow{{4, "delta", 5}, {1, "alpha two", 15}}; !slices.Equal(got, want) {
			t.Errorf("range: got %v, want %v", got, want)
		}
	}
	check(w)
	mustClose(t, w)
	w = mustOpen(t, store, keyedOptions())
	check(w)
	if st := w.Stats(); st.Accepted != 7 || st.Visible != 7 || st.Open.Rows != 7 {
		t.Errorf("stats after reopen: %+v", st)
	}
	mustClose(t, w)
}
