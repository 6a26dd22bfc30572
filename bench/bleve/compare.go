package main

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/blevesearch/bleve/v2/search/query"
)

// contender is an engine to be measured.
type contender struct {
	name string
	size int // rows of a batch
	make func() (engine, error)
}

// contenders are those of the table, memwal first, with which the others are compared.
func contenders(batch int) []contender {
	const large = 1000
	return []contender{
		{"memwal", batch, newMemwal},
		{"bleve scorch", batch, newScorch(batch)},
		{"bleve scorch, large batches", large, newScorch(large)},
		{"bleve.NewMemOnly (upsidedown)", batch, newMemOnly(batch)},
	}
}

const (
	fillFor    = 12 * time.Second // after which an engine is not filled again
	top        = 10               // hits of a timed query
	timed      = 200              // queries of a kind, or fewer in
	timedFor   = 2 * time.Second  // of which there are at least three
	compared   = 10               // queries of a kind
	sameScores = 1e-9             // two scores that differ by less are equal
)

// result is a line of the table.
type result struct {
	contender
	batches     int
	rows        int
	early, late float64 // rows a second
	heap        float64 // bytes a row
	p50         []time.Duration
	agree       agreement
}

// agreement counts queries.
type agreement struct{ queries, sameRows, sameTen int }

// measure fills an engine, and asks it. limit ends filling it early; 0 is no limit. What
// is filled quickly is filled several times, as often as repeats, and the rates are the
// middle ones. The caller closes the engine.
func measure(ctx context.Context, c contender, t *texts, limit time.Duration, repeats int) (result, engine, error) {
	r := result{contender: c}
	var e engine
	var early, late []float64
	for start := time.Now(); len(early) == 0 || len(early) < repeats && time.Since(start) < fillFor; {
		if e != nil {
			if err := e.close(); err != nil {
				return r, nil, err
			}
			e = nil // or the heap would have two
		}
		f, err := fill(ctx, c, t, limit)
		if e = f.engine; err != nil {
			return r, e, err
		}
		early, late = append(early, f.early), append(late, f.late)
		r.rows, r.batches, r.heap = f.rows, f.rows/c.size, f.heap
	}
	slices.Sort(early)
	slices.Sort(late)
	r.early, r.late = early[len(early)/2], late[len(late)/2]
	for _, kind := range kinds {
		p50, err := median(ctx, e, t.queries(kind, timed, r.rows))
		if err != nil {
			return r, e, fmt.Errorf("%s: %s query: %w", c.name, kind, err)
		}
		r.p50 = append(r.p50, p50)
	}
	return r, e, ctx.Err()
}

// filled is an engine with rows, and what they took.
type filled struct {
	engine
	rows              int
	early, late, heap float64
}

func fill(ctx context.Context, c contender, t *texts, limit time.Duration) (f filled, err error) {
	before := heapBytes()
	if f.engine, err = c.make(); err != nil {
		return f, err
	}
	each := int(t.batches[0].NumRows())
	at := make([]time.Duration, 1, len(t.batches)+1) // at[i]: i batches are in
	start := time.Now()
	for _, rec := range t.batches {
		if err := f.add(rec); err != nil {
			return f, fmt.Errorf("%s: add batch %d: %w", c.name, len(at), err)
		}
		at = append(at, time.Since(start))
		f.rows += each
		if limit > 0 && at[len(at)-1] > limit && f.rows%c.size == 0 || ctx.Err() != nil {
			break
		}
	}
	n := len(at) - 1
	window := min(n, max(100, 10*c.size/each))
	rate := func(from int) float64 {
		return float64(window*each) / (at[from+window] - at[from]).Seconds()
	}
	f.early, f.late = rate(min(max(0, 100-window/2), n-window)), rate(n-window)
	f.heap = float64(heapBytes()-before) / float64(f.rows)
	runtime.KeepAlive(f.engine)
	return f, nil
}

// median is the middle of the times of queries. The first one, which fills caches, does
// not count.
func median(ctx context.Context, e engine, list []query.Query) (time.Duration, error) {
	var took []time.Duration
	var sum time.Duration
	for i, q := range append(list[:1:1], list...) {
		start := time.Now()
		if _, err := e.search(ctx, q, top); err != nil {
			return 0, err
		}
		if d := time.Since(start); i > 0 {
			took = append(took, d)
			sum += d
		}
		if sum > timedFor && len(took) >= 3 {
			break
		}
	}
	slices.Sort(took)
	return took[len(took)/2], nil
}

// agree compares what two engines with the same rows find.
func agree(ctx context.Context, own, other engine, t *texts, n, rows int) (agreement, error) {
	var a agreement
	for _, kind := range kinds {
		for _, q := range t.queries(kind, n, rows) {
			want, err := own.search(ctx, q, rows)
			if err != nil {
				return a, err
			}
			got, err := other.search(ctx, q, rows)
			if err != nil {
				return a, err
			}
			a.queries++
			if sameRows(want, got) {
				a.sameRows++
			}
			if sameTen(want, got) {
				a.sameTen++
			}
		}
	}
	return a, nil
}

func sameRows(a, b []hit) bool {
	if len(a) != len(b) {
		return false
	}
	in := make(map[int]bool, len(a))
	for _, h := range a {
		in[h.row] = true
	}
	return !slices.ContainsFunc(b, func(h hit) bool { return !in[h.row] })
}

// sameTen tells whether the ten best of got are ten best of want too: none of them has
// a lower score there than the tenth.
func sameTen(want, got []hit) bool {
	n := min(top, len(want))
	if len(got) < n {
		return false
	}
	if n == 0 {
		return len(got) == 0
	}
	score := make(map[int]float64, len(want))
	for _, h := range want {
		score[h.row] = h.score
	}
	least := want[n-1].score * (1 - sameScores)
	for _, h := range got[:n] {
		if s, ok := score[h.row]; !ok || s < least {
			return false
		}
	}
	return true
}

// run measures everything and prints the table.
func run(ctx context.Context, out, progress io.Writer, batches, perText int, limit time.Duration, repeats int) error {
	const batch = 20
	t := newTexts(batches*batch, batch, perText)
	fmt.Fprintf(out, "%s rows of %d words, batches of %d and 1,000, top %d, %d processors, %s\n\n", group(t.rows), perText, batch, top, runtime.GOMAXPROCS(0), runtime.Version())
	fmt.Fprintf(out, "| index | rows/s at batch 100 | rows/s at the last batch | heap bytes a row | %s | same rows | same ten |\n|%s\n",
		strings.Join(kinds, " | "), strings.Repeat(" --- |", 6+len(kinds)))
	var own *memwalEngine
	for _, c := range contenders(batch) {
		fmt.Fprintf(progress, "%s …\n", c.name)
		r, e, err := measure(ctx, c, t, limit, repeats)
		if err == nil && own == nil {
			own = e.(*memwalEngine)
			fmt.Fprintln(out, r.line())
			continue
		}
		if err == nil {
			own.bound = r.rows
			r.agree, err = agree(ctx, own, e, t, compared, r.rows)
		}
		if e != nil {
			if cerr := e.close(); err == nil {
				err = cerr
			}
		}
		if err != nil {
			return err
		}
		fmt.Fprintln(out, r.line())
	}
	return nil
}

// line is the result as a line of a Markdown table.
func (r *result) line() string {
	cells := []string{r.name, group(int(r.early)), fmt.Sprintf("%s (%s)", group(int(r.late)), group(r.batches)), fmt.Sprintf("%.0f", r.heap)}
	for _, d := range r.p50 {
		cells = append(cells, micros(d))
	}
	same := func(n int) string {
		if r.agree.queries == 0 {
			return ""
		}
		return fmt.Sprintf("%d of %d", n, r.agree.queries)
	}
	return "| " + strings.Join(append(cells, same(r.agree.sameRows), same(r.agree.sameTen)), " | ") + " |"
}

func micros(d time.Duration) string {
	if d >= 10*time.Millisecond {
		return fmt.Sprintf("%.0f ms", float64(d)/1e6)
	}
	if d >= time.Millisecond {
		return fmt.Sprintf("%.1f ms", float64(d)/1e6)
	}
	return fmt.Sprintf("%.0f µs", float64(d)/1e3)
}

// group writes n with commas.
func group(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
