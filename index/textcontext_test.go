package index

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/blevesearch/bleve/v2/search/query"
	blevindex "github.com/blevesearch/bleve_index_api"
)

// countdown is a context that ends when it is asked for the nth time; 0: never.
type countdown struct {
	context.Context
	n, asked int
}

func (c *countdown) Err() error {
	if c.asked++; c.n > 0 && c.asked >= c.n {
		return context.Canceled
	}
	return nil
}

// TestLongLoopsEndWithTheContext: each loop over rows or terms of a search looks at the
// context as it goes, and ends with it.
func TestLongLoopsEndWithTheContext(t *testing.T) {
	if raceEnabled {
		t.Skip("one goroutine, and slow")
	}
	const rows = 2*checkEvery + 100
	old, gone := make([]doc, rows), make([]doc, rows)
	for i := range rows {
		old[i], gone[i] = textDoc(int64(i), "word"), doc{id: int64(i), dead: true}
	}
	table := func() *textTable {
		x := newTextTable(t, true, false, Text{})
		x.put(old...)
		x.rotate()
		x.put(gone...)
		return x
	}
	x := table()
	spec := x.spec.kinds[0].(*textSpec)
	reader := func(t *testing.T) *textReader {
		parts, err := x.spec.textParts(t.Context(), spec, x.parts(2*rows))
		if err != nil {
			t.Fatal(err)
		}
		r, err := newTextReader(t.Context(), spec, parts)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	var many strings.Builder
	for i := range rows {
		fmt.Fprintf(&many, "q%dq ", i)
	}
	terms := newTextTable(t, false, false, Text{})
	terms.put(textDoc(0, many.String()))
	none := query.NewFuzzyQuery("zzzzzzzz")
	none.SetFuzziness(2)
	for _, c := range []struct {
		name string
		// looks is how often the context is looked at, at least.
		looks int
		// make prepares what is measured: with all notes that earlier searches leave, or none.
		make func(t *testing.T) func(ctx context.Context) error
	}{
		{"count", rows / checkEvery, func(t *testing.T) func(context.Context) error {
			r := reader(t)
			return func(ctx context.Context) error {
				r.ctx = ctx
				_, err := r.TermFieldReader(ctx, []byte("word"), "body", true, true, false)
				return errors.Join(err, r.err)
			}
		}},
		{"advance", 1, func(t *testing.T) func(context.Context) error {
			r := reader(t)
			w, err := r.TermFieldReader(t.Context(), []byte("word"), "body", true, true, false)
			if err != nil {
				t.Fatal(err)
			}
			return func(ctx context.Context) error {
				r.ctx = ctx
				_, err := w.Advance(blevindex.NewIndexInternalID(nil, rows/2), nil)
				return errors.Join(err, r.err)
			}
		}},
		{"advance to live rows", 1, func(t *testing.T) func(context.Context) error {
			parts, err := x.spec.textParts(t.Context(), spec, x.parts(rows))
			if err != nil {
				t.Fatal(err)
			}
			r, err := newTextReader(t.Context(), spec, parts)
			if err != nil {
				t.Fatal(err)
			}
			w, err := r.TermFieldReader(t.Context(), []byte("word"), "body", true, true, false)
			if err != nil {
				t.Fatal(err)
			}
			return func(ctx context.Context) error {
				r.ctx = ctx
				for i := range uint64(checkEvery) {
					if _, err := w.Advance(blevindex.NewIndexInternalID(nil, i), nil); err != nil {
						return err
					}
				}
				return r.err
			}
		}},
		{"documents", 2 * rows / checkEvery, func(t *testing.T) func(context.Context) error {
			r := reader(t)
			return func(ctx context.Context) error {
				r.ctx = ctx
				all, err := r.DocIDReaderAll()
				if err == nil {
					_, err = all.Next()
				}
				return errors.Join(err, r.err)
			}
		}},
		{"a term of a dictionary", rows / checkEvery, func(t *testing.T) func(context.Context) error {
			r := reader(t)
			return func(ctx context.Context) error {
				r.ctx = ctx
				d, err := r.FieldDict("body")
				if err == nil {
					_, err = d.Next()
				}
				return errors.Join(err, r.err)
			}
		}},
		{"dictionary", rows / dictEvery, func(t *testing.T) func(context.Context) error {
			return func(ctx context.Context) error {
				_, err := terms.spec.SearchText(ctx, "body", TextSearch{Query: none, Limit: 1}, terms.parts(1)...)
				return err
			}
		}},
		{"beginning of dictionaries", 500, func(t *testing.T) func(context.Context) error {
			q := query.NewQueryStringQuery(strings.Repeat("zzq* ", 500))
			return func(ctx context.Context) error {
				_, err := terms.spec.SearchText(ctx, "body", TextSearch{Query: q, Limit: 1}, terms.parts(1)...)
				return err
			}
		}},
		{"shadow", rows / checkEvery, func(t *testing.T) func(context.Context) error {
			parts := table().parts(2 * rows)
			return func(ctx context.Context) error {
				_, err := parts[0].Set.Shadow(ctx, parts[1])
				return err
			}
		}},
		{"sums", 2 * (rows / checkEvery), func(t *testing.T) func(context.Context) error {
			fresh := table()
			parts, err := x.spec.textParts(t.Context(), spec, x.parts(2*rows))
			if err != nil {
				t.Fatal(err)
			}
			for i := range parts {
				if parts[i].text, err = fresh.parts(2 * rows)[i].Set.text("body"); err != nil {
					t.Fatal(err)
				}
			}
			return func(ctx context.Context) error {
				_, _, err := statistics(ctx, parts)
				return err
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			whole := &countdown{Context: t.Context()}
			if err := c.make(t)(whole); err != nil {
				t.Fatal(err)
			}
			if whole.asked < c.looks {
				t.Fatalf("it looked %d times at the context, want %d", whole.asked, c.looks)
			}
			for _, n := range []int{1, whole.asked} {
				if err := c.make(t)(&countdown{Context: t.Context(), n: n}); !errors.Is(err, context.Canceled) {
					t.Errorf("cancelled at look %d of %d: %v", n, whole.asked, err)
				}
			}
		})
	}
}

// TestSumsGoOn: what was added up before the context ended is not lost, and the sum is
// what it would have been.
func TestSumsGoOn(t *testing.T) {
	var p prefixSums
	steps := 0
	step := func(at *sum, element uint32) {
		steps++
		at.rows, at.terms = at.rows+1, at.terms+int64(element)
	}
	const n = 5*pointStep + 7
	if _, err := p.first(&countdown{Context: t.Context(), n: 3}, n, step); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	got, err := p.first(t.Context(), n, step)
	if want := (sum{rows: n, terms: n * (n - 1) / 2}); err != nil || got != want || steps != n {
		t.Errorf("%+v in %d steps, %v; want %+v in %d", got, steps, err, want, n)
	}
}
