package memwal

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/blevesearch/bleve/v2/search"
	"github.com/blevesearch/bleve/v2/search/query"

	"github.com/memwal/memwal-go/index"
	"github.com/memwal/memwal-go/objstore"
)

// textOptions are those of a table of testSchema by id, with its text indexed.
func textOptions() *Options {
	o := keyedOptions()
	o.Indexes = []index.Config{index.Text{Name: "by text", Column: index.Column{Name: "text"}}}
	return o
}

// hitsOf are the ids and scores that a search finds.
func hitsOf(t testing.TB, s *Snapshot, q query.Query, limit int) (ids []int64, scores []float64) {
	t.Helper()
	hits, err := s.Hits(t.Context(), "by text", q, SearchOptions{Limit: limit})
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range hits {
		if h.Presence != Present {
			t.Errorf("a hit is %v", h.Presence)
		}
		ids = append(ids, h.Column(0).(*array.Int64).Value(h.Index))
		scores = append(scores, h.Score)
	}
	return ids, scores
}

func word(w string) query.Query { return query.NewMatchQuery(w) }

// TestQ05_SearchReader: rows in the order of rank, with the columns asked for, their
// scores and ordinals.
func TestQ05_SearchReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := mustOpen(t, objstore.NewMemory(), textOptions())
		mustPut(t, w, batchOf(t, testRow{1, "fish and more words", 10}, testRow{2, "bird", 20}, testRow{3, "fish", 30}))
		if err := w.Rotate(t.Context()); err != nil {
			t.Fatal(err)
		}
		mustPut(t, w, batchOf(t, testRow{4, "fish", 40}, testRow{5, "fish fish", 50}))
		s := mustSnapshot(t, w.Snapshot)
		for _, c := range []struct {
			o    SearchOptions
			want string
		}{
			{SearchOptions{}, "id text n _score _row_ordinal: 3 fish 30 2; 4 fish 40 3; 5 fish fish 50 4; 1 fish and more words 10 0"},
			{SearchOptions{Columns: []string{"n"}, Limit: 3}, "n _score _row_ordinal: 30 2; 40 3; 50 4"},
			{SearchOptions{Columns: []string{}, Limit: 1}, "_score _row_ordinal: 2"},
		} {
			r, err := s.Search(t.Context(), "by text", word("fish"), c.o)
			if err != nil {
				t.Fatal(err)
			}
			var names, rows []string
			for _, f := range r.Schema().Fields() {
				names = append(names, f.Name)
			}
			last := math.Inf(1)
			for r.Next() {
				rec := r.RecordBatch()
				if !rec.Schema().Equal(r.Schema()) {
					t.Errorf("schema %v", rec.Schema())
				}
				for i := range int(rec.NumRows()) {
					var row []string
					for col, a := range rec.Columns() {
						if rec.ColumnName(col) == scoreColumn {
							score := a.(*array.Float64).Value(i)
							if score > last || score <= 0 {
								t.Errorf("score %v after %v", score, last)
							}
							last = score
							continue
						}
						row = append(row, a.ValueStr(i))
					}
					rows = append(rows, strings.Join(row, " "))
				}
			}
			if err := r.Err(); err != nil {
				t.Error(err)
			}
			r.Release()
			if got := strings.Join(names, " ") + ": " + strings.Join(rows, "; "); got != c.want {
				t.Errorf("%+v:\ngot  %s\nwant %s", c.o, got, c.want)
			}
		}
		// Released early, unread, and nothing found.
		r, err := s.Search(t.Context(), "by text", word("fish"), SearchOptions{})
		if err != nil {
			t.Fatal(err)
		}
		r.Release()
		if r, err = s.Search(t.Context(), "by text", word("absent"), SearchOptions{}); err != nil || r.Next() || r.Err() != nil {
			t.Errorf("nothing: %v", err)
		}
		r.Release()
		s.Close()
		if _, err := s.Search(t.Context(), "by text", word("fish"), SearchOptions{}); !errors.Is(err, ErrClosed) {
			t.Errorf("closed: %v", err)
		}
		mustClose(t, w)
	})
}

// TestQ08_SearchNeedsAnIndex: also on an empty shard.
func TestQ08_SearchNeedsAnIndex(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := mustOpen(t, objstore.NewMemory(), textOptions())
		for range 2 {
			s := mustSnapshot(t, w.Snapshot)
			if _, err := s.Hits(t.Context(), "by n", word("x"), SearchOptions{}); !errors.Is(err, ErrNoIndex) {
				t.Errorf("no index: %v", err)
			}
			if _, err := s.Search(t.Context(), "by n", word("x"), SearchOptions{}); !errors.Is(err, ErrNoIndex) {
				t.Errorf("no index: %v", err)
			}
			for _, q := range []query.Query{nil, query.NewQueryStringQuery("n:x"), query.NewQueryStringQuery(`"`)} {
				if _, err := s.Hits(t.Context(), "by text", q, SearchOptions{}); !errors.Is(err, ErrInvalid) {
					t.Errorf("query %v: %v", q, err)
				}
			}
			if _, err := s.Hits(t.Context(), "by text", word("x"), SearchOptions{Limit: -1}); !errors.Is(err, ErrInvalid) {
				t.Errorf("limit: %v", err)
			}
			if _, err := s.Search(t.Context(), "by text", word("x"), SearchOptions{Columns: []string{"none"}}); !errors.Is(err, ErrInvalid) {
				t.Errorf("column: %v", err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if _, err := s.Hits(ctx, "by text", word("x"), SearchOptions{}); !errors.Is(err, context.Canceled) {
				t.Errorf("cancelled: %v", err)
			}
			mustPut(t, w, batchOf(t, testRow{1, "x", 1}))
		}
		mustClose(t, w)
	})
}

// TestC01_TextIndexIsCheckedAtOpen: a column without text, or an analyzer that there
// is not, is refused, and a running writer goes on.
func TestC01_TextIndexIsCheckedAtOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := objstore.NewMemory()
		w := mustOpen(t, store, textOptions())
		for want, cfg := range map[string]index.Text{
			`column "n" of type int64: expected text`: {Name: "t", Column: index.Column{Name: "n"}},
			`unknown analyzer "none"`:                 {Name: "t", Column: index.Column{Name: "text"}, Analyzer: "none"},
		} {
			o := textOptions()
			o.Indexes = []index.Config{cfg}
			if _, err := Open(t.Context(), store, testShard, testSchema, o); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %s", err, want)
			}
		}
		mustPut(t, w, seq(t, 0, 1))
		mustClose(t, w)
	})
}

// TestV07_SearchAtOnce: with VisibleIndexed a put is found when it returns; with
// VisibleDurable the writer finds its own through an IndexedSnapshot before others do
// (V17).
func TestV07_SearchAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := textOptions()
		o.Visibility, o.FlushInterval = VisibleIndexed, time.Hour
		w := mustOpen(t, objstore.NewMemory(), o)
		for i := range int64(50) {
			mustPut(t, w, batchOf(t, testRow{i, fmt.Sprintf("needle%d", i), i}))
			s := mustSnapshot(t, w.Snapshot)
			if ids, _ := hitsOf(t, s, word(fmt.Sprintf("needle%d", i)), 10); len(ids) != 1 || ids[0] != i {
				t.Fatalf("put %d: %v", i, ids)
			}
			s.Close()
		}
		w.Abort()

		o = textOptions()
		o.FlushInterval = time.Hour
		w = mustOpen(t, objstore.NewMemory(), o)
		mustPut(t, w, batchOf(t, testRow{1, "first", 0}))
		mustPutAsync(t, w, batchOf(t, testRow{2, "needle", 0}))
		synctest.Wait()
		if ids, _ := hitsOf(t, mustSnapshot(t, w.Snapshot), word("needle"), 10); len(ids) != 0 {
			t.Errorf("not durable, but found: %v", ids)
		}
		if ids, _ := hitsOf(t, mustSnapshot(t, w.IndexedSnapshot), word("needle"), 10); len(ids) != 1 {
			t.Errorf("indexed, but not found: %v", ids)
		}
		w.Abort()
	})
}

// TestR08_ReplayRebuildsText: after a crash, and in a reader of another process, a
// search gives what it gave before: upserts, deletes, several memtables.
func TestR08_ReplayRebuildsText(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := objstore.NewMemory()
		w := mustOpen(t, store, textOptions())
		shard := testShard
		r := rand.New(rand.NewPCG(51, 52))
		names := []string{"fish", "bird", "cat", "dog", "東京", "🙂", "water", ""}
		for step := range 60 {
			var rows []testRow
			for range 1 + r.IntN(10) {
				rows = append(rows, testRow{r.Int64N(80), names[r.IntN(8)] + " " + names[r.IntN(8)] + " " + names[r.IntN(8)], 0})
			}
			mustPut(t, w, batchOf(t, rows...))
			if step%9 == 0 {
				if err := w.Delete(t.Context(), keysOf(t, r.Int64N(80), 100+int64(step))); err != nil {
					t.Fatal(err)
				}
			}
			if step%20 == 10 {
				if err := w.Rotate(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
		queries := []query.Query{word("fish"), word("bird dog"), query.NewQueryStringQuery("+cat -water"), query.NewMatchPhraseQuery("fish bird"),
			query.NewPrefixQuery("d"), query.NewFuzzyQuery("bord"), word("京"), query.NewMatchAllQuery()}
		answers := func(s *Snapshot) (out []string) {
			defer s.Close()
			for _, q := range queries {
				ids, scores := hitsOf(t, s, q, 30)
				text := ""
				for i := range ids {
					text += fmt.Sprintf("%d %.9f, ", ids[i], scores[i])
				}
				out = append(out, text)
			}
			return out
		}
		want := answers(mustSnapshot(t, w.Snapshot))
		reader, err := OpenReader(t.Context(), store, shard, nil)
		if err != nil {
			t.Fatal(err)
		}
		s, err := reader.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		if got := answers(s); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("reader:\ngot  %q\nwant %q", got, want)
		}
		reader.Close()
		crashWriter(w)
		w, err = Open(t.Context(), store, shard, testSchema, textOptions())
		if err != nil {
			t.Fatal(err)
		}
		if got := answers(mustSnapshot(t, w.Snapshot)); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("reopened:\ngot  %q\nwant %q", got, want)
		}
		for i, a := range want {
			if a == "" {
				t.Errorf("query %d finds nothing", i)
			}
		}
		mustClose(t, w)
	})
}

// TestQ07_SearchOfASnapshotStays: the same hits for its whole life.
func TestQ07_SearchOfASnapshotStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := mustOpen(t, objstore.NewMemory(), textOptions())
		mustPut(t, w, batchOf(t, testRow{1, "fish", 0}, testRow{2, "fish soup", 0}, testRow{3, "bird", 0}))
		s := mustSnapshot(t, w.Snapshot)
		ids, scores := hitsOf(t, s, word("fish"), 10)
		for i := range int64(20) {
			mustPut(t, w, batchOf(t, testRow{1 + i%3, "cat", 0}, testRow{10 + i, "fish", 0}))
			if err := w.Rotate(t.Context()); err != nil {
				t.Fatal(err)
			}
			if i, sc := hitsOf(t, s, word("fish"), 10); fmt.Sprint(i, sc) != fmt.Sprint(ids, scores) {
				t.Fatalf("%v %v, was %v %v", i, sc, ids, scores)
			}
		}
		mustClose(t, w)
	})
}

// TestSearchPanicLetsGo: a panic inside a search is its error, and the memory of the
// snapshot is let go of all the same.
func TestSearchPanicLetsGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := mustOpen(t, objstore.NewMemory(), textOptions())
		mustPut(t, w, batchOf(t, testRow{1, "fish", 1}))
		s := mustSnapshot(t, w.Snapshot)
		trip := query.NewCustomFilterQueryWithFilter(word("fish"), func(context.Context, *search.DocumentMatch) (bool, error) { panic("tripped") }, nil, nil)
		before := s.view.refs.Load()
		for what, run := range map[string]func() error{
			"Search": func() error { _, err := s.Search(t.Context(), "by text", trip, SearchOptions{}); return err },
			"Hits":   func() error { _, err := s.Hits(t.Context(), "by text", trip, SearchOptions{}); return err },
		} {
			func() {
				defer func() {
					if v := recover(); v != nil {
						t.Errorf("%s panics: %v", what, v)
					}
				}()
				err := run()
				if p, ok := errors.AsType[*index.PanicError](err); !ok || errors.Is(err, ErrInvalid) || !strings.Contains(string(p.Stack), "search_test.go") {
					t.Errorf("%s: %v", what, err)
				}
			}()
			if n := s.view.refs.Load(); n != before {
				t.Errorf("%s leaves %d references, before %d", what, n, before)
			}
		}
	})
}

// TestSearchOptionsAreChecked: Search, Hits and ExplainSearch refuse the same, as the
// caller's fault, and name the option.
func TestSearchOptionsAreChecked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := mustOpen(t, objstore.NewMemory(), textOptions())
		s := mustSnapshot(t, w.Snapshot)
		for _, c := range []struct {
			o    SearchOptions
			want string
		}{
			{SearchOptions{Limit: -1}, ": Limit is -1 and Offset 0, must not be negative"},
			{SearchOptions{Offset: -2}, ": Limit is 0 and Offset -2, must not be negative"},
			{SearchOptions{Highlight: &Highlight{Fragments: -1}}, ": Highlight.Fragments is -1 and Highlight.Size 0, must not be negative"},
		} {
			for op, run := range map[string]func() error{
				"search": func() error { _, err := s.Search(t.Context(), "by text", word("x"), c.o); return err },
				"explain": func() error {
					_, err := s.ExplainSearch(t.Context(), "by text", word("x"), c.o)
					return err
				},
			} {
				err := run()
				if !errors.Is(err, ErrInvalid) || err.Error() != op+c.want {
					t.Errorf("%s: %v, want %s", op, err, c.want)
				}
				if _, ok := errors.AsType[*index.QueryError](err); ok {
					t.Errorf("%v blames the query", err)
				}
			}
		}
	})
}
