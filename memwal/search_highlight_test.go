package memwal

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/blevesearch/bleve/v2/search/query"

	"github.com/memwal/memwal-go/objstore"
)

// TestSearchHighlights: rows and readers show the same fragments, over memtables, page by
// page, and readers have them in a column of their own before the ordinals.
func TestSearchHighlights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := mustOpen(t, objstore.NewMemory(), textOptions())
		mustPut(t, w, batchOf(t, testRow{1, "fish and <more> words", 10}, testRow{2, "bird", 20}))
		if err := w.Rotate(t.Context()); err != nil {
			t.Fatal(err)
		}
		mustPut(t, w, batchOf(t, testRow{3, "fish & fish", 30}))
		s := mustSnapshot(t, w.Snapshot)
		o := SearchOptions{Columns: []string{"id"}, Highlight: &Highlight{HTML: true}}
		want := "[3 <mark>fish</mark> &amp; <mark>fish</mark> 1 <mark>fish</mark> and &lt;more&gt; words]"
		hits, err := s.Hits(t.Context(), "by text", word("fish"), o)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, h := range hits {
			got = append(got, fmt.Sprint(h.Key[0]))
			for _, f := range h.Fragments {
				got = append(got, f.Text)
			}
		}
		if fmt.Sprint(got) != want {
			t.Errorf("%v, want %s", got, want)
		}
		r, err := s.Search(t.Context(), "by text", word("fish"), o)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Release()
		var names []string
		for _, f := range r.Schema().Fields() {
			names = append(names, f.Name)
		}
		if n := strings.Join(names, " "); n != "id _score _highlights _row_ordinal" {
			t.Error(n)
		}
		got = nil
		for r.Next() {
			rec := r.RecordBatch()
			if !rec.Schema().Equal(r.Schema()) {
				t.Errorf("schema %v", rec.Schema())
			}
			list := rec.Column(2).(*array.List)
			for i := range int(rec.NumRows()) {
				got = append(got, rec.Column(0).ValueStr(i))
				for from, to := list.ValueOffsets(i); from < to; from++ {
					got = append(got, list.ListValues().(*array.String).Value(int(from)))
				}
			}
		}
		if err := r.Err(); err != nil || fmt.Sprint(got) != want {
			t.Errorf("%v, want %s: %v", got, want, err)
		}
		for _, bad := range []*Highlight{{Size: -1}, {Fragments: -1}} {
			if _, err := s.Hits(t.Context(), "by text", word("fish"), SearchOptions{Highlight: bad}); !errors.Is(err, ErrInvalid) {
				t.Errorf("%+v: %v", bad, err)
			}
		}
		if _, err := s.Hits(t.Context(), "none", word("fish"), o); !errors.Is(err, ErrNoIndex) {
			t.Errorf("no index: %v", err)
		}
		// The context may end between the search and a batch.
		ctx, cancel := context.WithCancel(t.Context())
		r2, err := s.Search(ctx, "by text", query.NewMatchAllQuery(), o)
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		if r2.Next() || !errors.Is(r2.Err(), context.Canceled) {
			t.Errorf("cancelled: %v", r2.Err())
		}
		r2.Release()
		mustClose(t, w)
	})
}
