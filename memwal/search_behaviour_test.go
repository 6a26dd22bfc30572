package memwal

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/blevesearch/bleve/v2/search/query"

	"github.com/memwal/memwal-go/index"
	"github.com/memwal/memwal-go/objstore"
)

// findings are what searches of a snapshot find, with scores.
func findings(t testing.TB, s *Snapshot, queries ...query.Query) string {
	t.Helper()
	out := ""
	for _, q := range queries {
		ids, scores := hitsOf(t, s, q, 1000)
		out += fmt.Sprintf("%v %.9f\n", ids, scores)
	}
	return out
}

// TestC02_BatchWithoutTheTextColumn: it is refused, and nothing of it is stored.
func TestC02_BatchWithoutTheTextColumn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := mustOpen(t, objstore.NewMemory(), textOptions())
		rec := seq(t, 1, 3)
		for _, cols := range [][]int{{0, 2}, {0}} {
			if err := w.Put(t.Context(), project(t, rec, cols...)); !errors.Is(err, ErrInvalid) {
				t.Errorf("columns %v: %v", cols, err)
			}
		}
		if ids, _ := hitsOf(t, mustSnapshot(t, w.Snapshot), query.NewMatchAllQuery(), 10); len(ids) != 0 {
			t.Errorf("found %v", ids)
		}
		mustClose(t, w)
	})
}

// TestC03_WrongTextIsRefused: another type, and null where the column is required.
func TestC03_WrongTextIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		required := arrow.NewSchema([]arrow.Field{testSchema.Field(0), {Name: "text", Type: arrow.BinaryTypes.String}, testSchema.Field(2)}, nil)
		w, err := Open(t.Context(), objstore.NewMemory(), testShard, required, textOptions())
		if err != nil {
			t.Fatal(err)
		}
		for what, rec := range map[string]arrow.RecordBatch{
			"null":   textBatch(t, arrow.BinaryTypes.String, nil),
			"binary": textBatch(t, arrow.BinaryTypes.Binary, []byte("fish")),
			"large":  textBatch(t, arrow.BinaryTypes.LargeString, []byte("fish")),
		} {
			if err := w.Put(t.Context(), rec); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), `"text"`) {
				t.Errorf("%s: %v", what, err)
			}
		}
		mustPut(t, w, batchOf(t, testRow{1, "fish", 1}))
		if ids, _ := hitsOf(t, mustSnapshot(t, w.Snapshot), query.NewMatchAllQuery(), 10); fmt.Sprint(ids) != "[1]" {
			t.Errorf("found %v", ids)
		}
		mustClose(t, w)
	})
}

// TestC04_NullTextIsARow: null and empty text is stored, found by what asks for no word,
// counts as a row in scores, and comes back from the log.
func TestC04_NullTextIsARow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := objstore.NewMemory()
		w := mustOpen(t, store, textOptions())
		mustPut(t, w, textBatch(t, arrow.BinaryTypes.String, nil))
		mustPut(t, w, batchOf(t, testRow{1, "", 1}, testRow{2, "fish", 1}, testRow{3, " ", 1}))
		all := []query.Query{query.NewMatchAllQuery(), word("fish"), query.NewQueryStringQuery("-fish")}
		for _, open := range []bool{false, true} {
			if open {
				w = mustOpen(t, store, textOptions())
			}
			got := findings(t, mustSnapshot(t, w.Snapshot), all...)
			// ln(1 + 3.5/1.5) · 1.2/(1+1.2): one of four rows has the word, in a text as long as the average.
			want := "[7 1 2 3] [1.000000000 1.000000000 1.000000000 1.000000000]\n[2] [0.656712439]\n[7 1 3] [1.000000000 1.000000000 1.000000000]\n"
			if got != want {
				t.Errorf("reopened %t:\n%s, want\n%s", open, got, want)
			}
			mustClose(t, w)
		}
	})
}

// TestC05_ReservedNamesOfTextIndexes: neither an index nor its column has a name of
// memwal's own.
func TestC05_ReservedNamesOfTextIndexes(t *testing.T) {
	for _, cfg := range []index.Text{
		{Name: "_text", Column: index.Column{Name: "text"}},
		{Name: "", Column: index.Column{Name: "text"}},
		{Name: "by text", Column: index.Column{Name: "_tombstone"}},
	} {
		o := keyedOptions()
		o.Indexes = []index.Config{cfg}
		if _, err := Open(t.Context(), objstore.NewMemory(), testShard, testSchema, o); !errors.Is(err, ErrInvalid) {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
}

// TestC06_AllThatIsWrongWithTextIndexes is told at once.
func TestC06_AllThatIsWrongWithTextIndexes(t *testing.T) {
	o := keyedOptions()
	o.Indexes = []index.Config{
		index.Text{Name: "a", Column: index.Column{Name: "n"}, Analyzer: "klingon"},
		index.Text{Name: "b", Column: index.Column{Name: "none"}},
		index.Text{Name: "b", Column: index.Column{Name: "text"}},
	}
	_, err := Open(t.Context(), objstore.NewMemory(), testShard, testSchema, o)
	if !errors.Is(err, ErrInvalid) {
		t.Fatalf("%v", err)
	}
	for _, words := range []string{`index "a": column "n" of type int64`, `unknown analyzer "klingon"`, `index "b": column "none": no such column`, "two indexes of this name"} {
		if !strings.Contains(err.Error(), words) {
			t.Errorf("%v\ndoes not say %q", err, words)
		}
	}
}

// TestM03_MemtablesOfTextAreBounded: a text index would overflow long before its rows
// reach what other memtables may have.
func TestM03_MemtablesOfTextAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := textOptions()
		o.MaxMemtableBytes, o.MaxResidentBytes = maxTextBytes+1, 1<<32
		if _, err := Open(t.Context(), objstore.NewMemory(), testShard, testSchema, o); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "at most 1 GiB with a full-text index") {
			t.Errorf("%v", err)
		}
		o.MaxMemtableBytes = maxTextBytes
		mustClose(t, mustOpen(t, objstore.NewMemory(), o))
		o.MaxMemtableBytes, o.Indexes = maxTextBytes+1, nil
		mustClose(t, mustOpen(t, objstore.NewMemory(), o))
	})
}

// TestC07_TextIndexOverAnotherColumn: a field id that names another column than the name
// is refused.
func TestC07_TextIndexOverAnotherColumn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := objstore.NewMemory()
		over := func(id int32) *Options {
			o := keyedOptions()
			o.Indexes = []index.Config{index.Text{Name: "by text", Column: index.Column{Name: "text", FieldID: id}}}
			return o
		}
		mustClose(t, mustOpen(t, store, over(2)))
		for _, id := range []int32{1, 9} {
			if _, err := Open(t.Context(), store, testShard, testSchema, over(id)); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), fmt.Sprintf("field id %d", id)) {
				t.Errorf("field id %d: %v", id, err)
			}
		}
		mustClose(t, mustOpen(t, store, over(2)))
	})
}

// TestQ01_SearchShowsTheNewestVersion: two versions of a key in one batch, over batches,
// and over memtables, and one that was deleted.
func TestQ01_SearchShowsTheNewestVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := mustOpen(t, objstore.NewMemory(), textOptions())
		mustPut(t, w, batchOf(t, testRow{1, "old fish", 0}, testRow{1, "new fish", 0}, testRow{2, "old fish", 0}, testRow{3, "old fish", 0}, testRow{4, "old fish", 0}))
		mustPut(t, w, batchOf(t, testRow{2, "new fish", 0}))
		if err := w.Rotate(t.Context()); err != nil {
			t.Fatal(err)
		}
		mustPut(t, w, batchOf(t, testRow{3, "new fish", 0}))
		if err := w.Delete(t.Context(), keysOf(t, 4)); err != nil {
			t.Fatal(err)
		}
		s := mustSnapshot(t, w.Snapshot)
		for q, want := range map[string]string{"old": "[]", "new": "[1 2 3]", "fish": "[1 2 3]"} {
			if ids, _ := hitsOf(t, s, word(q), 10); fmt.Sprint(ids) != want && want != "[]" || want == "[]" && len(ids) > 0 {
				t.Errorf("%s: %v, want %s", q, ids, want)
			}
		}
		mustClose(t, w)
	})
}

// TestQ03_OldVersionsStayOut: the newest version of a row is not among the best, and the
// old one, which would be the best, does not take its place; nor does it take a place.
func TestQ03_OldVersionsStayOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := mustOpen(t, objstore.NewMemory(), textOptions())
		var old []testRow
		for i := range int64(40) {
			old = append(old, testRow{i, "fish fish fish", 0})
		}
		mustPut(t, w, batchOf(t, old...))
		for i := range int64(40) {
			text := "fish" + strings.Repeat(" word", int(i))
			if i%2 == 0 {
				text = "bird"
			}
			mustPut(t, w, batchOf(t, testRow{i, text, 0}))
			if i == 20 {
				if err := w.Rotate(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
		ids, _ := hitsOf(t, mustSnapshot(t, w.Snapshot), word("fish"), 5)
		if fmt.Sprint(ids) != "[1 3 5 7 9]" {
			t.Errorf("%v", ids)
		}
		mustClose(t, w)
	})
}

// TestQ06_DeletedRowsAreNotFound: a search does not show what was deleted, and a lookup
// of the key of an earlier hit still tells it from one that never was.
func TestQ06_DeletedRowsAreNotFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := mustOpen(t, objstore.NewMemory(), textOptions())
		mustPut(t, w, batchOf(t, testRow{1, "fish", 0}))
		hits, err := mustSnapshot(t, w.Snapshot).Hits(t.Context(), "by text", word("fish"), SearchOptions{})
		if err != nil || len(hits) != 1 {
			t.Fatal(hits, err)
		}
		if err := w.Delete(t.Context(), keysOf(t, hits[0].Key[0].(int64))); err != nil {
			t.Fatal(err)
		}
		s := mustSnapshot(t, w.Snapshot)
		if ids, _ := hitsOf(t, s, word("fish"), 10); len(ids) != 0 {
			t.Errorf("found %v", ids)
		}
		for _, c := range []struct {
			key  any
			want Presence
		}{{hits[0].Key[0], Deleted}, {int64(2), Absent}} {
			if row, err := s.Lookup(t.Context(), c.key); err != nil || row.Presence != c.want {
				t.Errorf("%v: %v, %v", c.key, row.Presence, err)
			}
		}
		mustClose(t, w)
	})
}

// TestV17_WriterSearchesWhatItHasIndexed: its own rows before they are durable, newest
// versions and deletes included; others see them when they are.
func TestV17_WriterSearchesWhatItHasIndexed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := textOptions()
		o.FlushInterval = time.Hour
		w := mustOpen(t, objstore.NewMemory(), o)
		mustPut(t, w, batchOf(t, testRow{1, "fish", 0}, testRow{2, "fish", 0}, testRow{3, "bird", 0}))
		mustPutAsync(t, w, batchOf(t, testRow{1, "bird", 0}, testRow{4, "fish", 0}))
		if _, err := w.DeleteAsync(t.Context(), keysOf(t, 2)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		ids := func(take func() (*Snapshot, error)) string {
			ids, _ := hitsOf(t, mustSnapshot(t, take), word("fish"), 10)
			return fmt.Sprint(ids)
		}
		if got := ids(w.Snapshot); got != "[1 2]" {
			t.Errorf("others see %s", got)
		}
		if got := ids(w.IndexedSnapshot); got != "[4]" {
			t.Errorf("the writer sees %s", got)
		}
		if err := w.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := ids(w.Snapshot); got != "[4]" {
			t.Errorf("others see %s once it is durable", got)
		}
		mustClose(t, w)
	})
}

// TestR02_ReopeningChangesNoSearch: not its hits, nor their scores, nor the size of the
// index.
func TestR02_ReopeningChangesNoSearch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := objstore.NewMemory()
		w := mustOpen(t, store, textOptions())
		for i := range int64(8) {
			mustPut(t, w, batchOf(t, testRow{i, "fish and bird", i}, testRow{i / 2, "fish cat", i}))
			if i == 4 {
				if err := w.Rotate(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := w.Delete(t.Context(), keysOf(t, 2)); err != nil {
			t.Fatal(err)
		}
		queries := []query.Query{word("fish"), word("bird cat"), query.NewMatchPhraseQuery("fish cat"), query.NewPrefixQuery("b")}
		want := findings(t, mustSnapshot(t, w.Snapshot), queries...)
		mustClose(t, w)
		var bytes int64
		for n := range 4 {
			w := mustOpen(t, store, textOptions())
			st := w.Stats()
			if n == 0 {
				bytes = st.IndexBytes
			} else if st.IndexBytes != bytes {
				t.Errorf("open %d: indexes of %d bytes, were %d", n, st.IndexBytes, bytes)
			}
			if got := findings(t, mustSnapshot(t, w.Snapshot), queries...); got != want {
				t.Errorf("open %d:\n%s, was\n%s", n, got, want)
			}
			mustClose(t, w)
		}
	})
}

// TestReaderFollowsSearches: a reader of the shard finds what the writer's snapshots of
// the same bound find, step by step, with filters and highlights.
func TestReaderFollowsSearches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := objstore.NewMemory()
		w := mustOpen(t, store, searchOptions())
		mustPut(t, w, batchOf(t, testRow{0, "fish", 0}))
		r, err := OpenReader(t.Context(), store, testShard, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		o := SearchOptions{Filter: Ge("n", int64(3)), Highlight: &Highlight{Before: "[", After: "]"}}
		for i := range int64(6) {
			mustPut(t, w, batchOf(t, testRow{i, "fish and bird", i}, testRow{i / 2, "fish cat", i}))
			if i%3 == 1 {
				if err := w.Rotate(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if err := r.Refresh(t.Context()); err != nil {
				t.Fatal(err)
			}
			own, others := mustSnapshot(t, w.Snapshot), mustSnapshot(t, r.Snapshot)
			if own.Bound() != others.Bound() {
				t.Fatalf("the reader is at %d, the writer at %d", others.Bound(), own.Bound())
			}
			want, err := own.Hits(t.Context(), "by text", word("fish cat"), o)
			if err != nil {
				t.Fatal(err)
			}
			got, err := others.Hits(t.Context(), "by text", word("fish cat"), o)
			if err != nil {
				t.Fatal(err)
			}
			if err := sameHits(got, want); err != nil {
				t.Errorf("step %d: %v", i, err)
			}
			for n := range got {
				if fmt.Sprint(got[n].Key, got[n].Fragments) != fmt.Sprint(want[n].Key, want[n].Fragments) {
					t.Errorf("step %d: %v, want %v", i, got[n], want[n])
				}
			}
		}
		mustClose(t, w)
	})
}

// project is a batch with some of its columns.
func project(t testing.TB, rec arrow.RecordBatch, cols ...int) arrow.RecordBatch {
	t.Helper()
	var fields []arrow.Field
	var arrays []arrow.Array
	for _, c := range cols {
		fields, arrays = append(fields, rec.Schema().Field(c)), append(arrays, rec.Column(c))
	}
	out := array.NewRecordBatch(arrow.NewSchema(fields, nil), arrays, rec.NumRows())
	t.Cleanup(out.Release)
	return out
}

// textBatch is a row of testSchema with the key 7, but a text of another type. nil: null.
func textBatch(t testing.TB, typ arrow.DataType, text []byte) arrow.RecordBatch {
	t.Helper()
	fields := []arrow.Field{testSchema.Field(0), {Name: "text", Type: typ, Nullable: true}, testSchema.Field(2)}
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema(fields, nil))
	defer b.Release()
	b.Field(0).(*array.Int64Builder).Append(7)
	if text == nil {
		b.Field(1).AppendNull()
	} else if err := b.Field(1).AppendValueFromString(string(text)); err != nil {
		t.Fatal(err)
	}
	b.Field(2).(*array.Int64Builder).Append(0)
	rec := b.NewRecordBatch()
	t.Cleanup(rec.Release)
	return rec
}
