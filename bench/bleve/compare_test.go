package main

import (
	"context"
	"strings"
	"testing"
	"time"
)

// All indexes find the same rows.
func TestSameHits(t *testing.T) {
	const batch, rows = 20, 1000
	texts := newTexts(rows, batch, 20)
	var own engine
	for _, c := range contenders(batch) {
		t.Run(c.name, func(t *testing.T) {
			r, e, err := measure(t.Context(), c, texts, 0, 1)
			if err != nil {
				t.Fatal(err)
			}
			if r.rows != rows || r.batches != rows/c.size || r.early <= 0 || r.late <= 0 || r.heap < 50 || len(r.p50) != len(kinds) {
				t.Errorf("result %+v", r)
			}
			if own == nil {
				own = e // the first
				return
			}
			defer e.close()
			a, err := agree(t.Context(), own, e, texts, 20, rows)
			if err != nil {
				t.Fatal(err)
			}
			if a.queries != 20*len(kinds) || a.sameRows != a.queries {
				t.Errorf("agreement %+v", a)
			}
		})
	}
	// At a bound, memwal's index answers as one with fewer rows does.
	fewer := newTexts(rows/2, batch, 20)
	less, err := newScorch(batch)()
	if err != nil {
		t.Fatal(err)
	}
	defer less.close()
	for _, rec := range fewer.batches {
		if err := less.add(rec); err != nil {
			t.Fatal(err)
		}
	}
	own.(*memwalEngine).bound = rows / 2
	if a, err := agree(t.Context(), own, less, fewer, 20, rows/2); err != nil || a.sameRows != a.queries {
		t.Errorf("at a bound: %+v, %v", a, err)
	}
}

// Every kind of query finds something, a rare word about one row of 1,000.
func TestQueries(t *testing.T) {
	texts := newTexts(5000, 20, 20)
	e, err := newMemwal()
	if err != nil {
		t.Fatal(err)
	}
	for _, rec := range texts.batches {
		if err := e.add(rec); err != nil {
			t.Fatal(err)
		}
	}
	for _, kind := range kinds {
		found := 0
		for _, q := range texts.queries(kind, 50, texts.rows) {
			hits, err := e.search(t.Context(), q, texts.rows)
			if err != nil {
				t.Fatal(err)
			}
			found += len(hits)
		}
		least, most := 50, 50*texts.rows
		switch kind {
		case "rare":
			least, most = 50, 50*10 // 5 rows each on average
		case "common":
			least = 50 * texts.rows / 20
		}
		if found < least || found > most {
			t.Errorf("%s: 50 queries found %d rows, expected %d to %d", kind, found, least, most)
		}
	}
}

func TestAgreement(t *testing.T) {
	hits := func(rows ...int) (list []hit) {
		for _, r := range rows {
			list = append(list, hit{r, 1 / float64(r/10+1)}) // tens are equal
		}
		return list
	}
	want := hits(1, 2, 3, 11, 12, 13, 21, 22, 23, 31, 32, 41)
	for _, c := range []struct {
		name      string
		got       []hit
		rows, ten bool
	}{
		{"the same", want, true, true},
		{"equal scores in another order", hits(3, 2, 1, 12, 11, 13, 21, 22, 23, 32, 31, 41), true, true},
		{"a worse row among the best", hits(1, 2, 3, 11, 12, 13, 21, 22, 23, 41, 31, 32), true, false},
		{"another row", hits(1, 2, 3, 11, 12, 13, 21, 22, 23, 31, 32, 42), false, true},
		{"another row among the best", hits(1, 2, 3, 11, 12, 13, 21, 22, 24, 31, 32, 41), false, false},
		{"one less", want[:11], false, true},
		{"few", want[:9], false, false},
	} {
		if sameRows(want, c.got) != c.rows || sameTen(want, c.got) != c.ten {
			t.Errorf("%s: rows %v, ten %v", c.name, sameRows(want, c.got), sameTen(want, c.got))
		}
	}
	if !sameTen(nil, nil) || sameTen(nil, want) {
		t.Error("nothing is nothing")
	}
}

// The command prints a line for each index, also of one that the limit has ended.
func TestRun(t *testing.T) {
	for _, limit := range []time.Duration{0, time.Nanosecond} {
		var out, progress strings.Builder
		if err := run(t.Context(), &out, &progress, 50, 5, limit, 2); err != nil {
			t.Fatal(err)
		}
		for _, c := range contenders(20) {
			if !strings.Contains(out.String(), "| "+c.name+" | ") {
				t.Errorf("no line of %s:\n%s", c.name, out.String())
			}
		}
		if short := strings.Contains(out.String(), " (1) | "); !short {
			t.Errorf("no index of one batch:\n%s", out.String())
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := run(ctx, &strings.Builder{}, &strings.Builder{}, 50, 5, 0, 1); err == nil {
		t.Error("an ended context was not noticed")
	}
}

func TestNumbers(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567"} {
		if got := group(n); got != want {
			t.Errorf("%d is %s", n, got)
		}
	}
	for d, want := range map[time.Duration]string{1500: "2 µs", 2 * time.Millisecond: "2.0 ms", 25 * time.Millisecond: "25 ms"} {
		if got := micros(d); got != want {
			t.Errorf("%v is %s", d, got)
		}
	}
}
