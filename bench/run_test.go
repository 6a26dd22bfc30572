package main

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/memwal/memwal-go/memwal"
)

func millisecond(n int) time.Duration { return time.Duration(n) * time.Millisecond }

// fakeWriter takes delay for a put and fails the put number failAt.
type fakeWriter struct {
	delay  time.Duration
	failAt int

	mu      sync.Mutex
	puts    int
	flushes int
	times   []time.Time
}

var errPut = errors.New("no more")

func (w *fakeWriter) Put(ctx context.Context, rec arrow.RecordBatch) error {
	w.mu.Lock()
	w.puts++
	n := w.puts
	w.times = append(w.times, time.Now())
	w.mu.Unlock()
	time.Sleep(w.delay)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if n == w.failAt {
		return errPut
	}
	return nil
}

func (w *fakeWriter) PutAsync(context.Context, arrow.RecordBatch) (*memwal.Ticket, error) {
	return nil, errPut
}

func (w *fakeWriter) Flush(context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.flushes++
	return nil
}

func mixedFeed(t *testing.T, repeat bool) feed {
	t.Helper()
	f, err := prepare(mixedInput(t, "n"), repeat, 1<<30) // batches of 5, 5 and 2 rows
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.close)
	return f
}

func TestIngestToTheEnd(t *testing.T) {
	w := &fakeWriter{}
	in := &ingest{w: w, feed: mixedFeed(t, false), writers: 4, flush: true}
	if err := in.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if in.rows.Load() != 12 || in.batches.Load() != 3 || w.puts != 3 || w.flushes != 1 || in.bytes.Load() <= 0 {
		t.Errorf("%d rows, %d batches, %d puts, %d flushes, %d bytes", in.rows.Load(), in.batches.Load(), w.puts, w.flushes, in.bytes.Load())
	}
}

func TestIngestDuration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &fakeWriter{delay: millisecond(10)}
		in := &ingest{w: w, feed: mixedFeed(t, true), writers: 2, limit: time.Second}
		if err := in.run(t.Context()); err != nil {
			t.Fatal(err)
		}
		// Two putters, a hundred puts each; at the end those that run are awaited.
		if n := in.batches.Load(); n < 198 || n > 202 || in.clock.elapsed() < time.Second || in.clock.elapsed() > millisecond(1020) {
			t.Errorf("%d batches in %v", n, in.clock.elapsed())
		}
		if v := in.latency.values(); v.P50 < 9.9 || v.Max > 10.1 {
			t.Errorf("latency %+v", v)
		}
	})
}

// With a rate, puts begin when they are due, and one that is late because all
// putters wait is measured from when it was due.
func TestIngestRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &fakeWriter{delay: time.Second}
		in := &ingest{w: w, feed: mixedFeed(t, false), writers: 3, rate: 10}
		if err := in.run(t.Context()); err != nil {
			t.Fatal(err)
		}
		for i, due := range []time.Duration{0, millisecond(500), time.Second} {
			if at := w.times[i].Sub(in.start); at != due {
				t.Errorf("put %d began after %v, was due after %v", i, at, due)
			}
		}
		w = &fakeWriter{delay: time.Second}
		in = &ingest{w: w, feed: mixedFeed(t, false), writers: 1, rate: 10}
		if err := in.run(t.Context()); err != nil {
			t.Fatal(err)
		}
		// The third put is due after 1 s, begins after 2 s and ends after 3 s.
		if v := in.latency.values(); v.Max < 1998 || v.Max > 2002 {
			t.Errorf("latency %+v, want 2 s", v)
		}
	})
}

func TestIngestFailure(t *testing.T) {
	w := &fakeWriter{failAt: 2}
	in := &ingest{w: w, feed: mixedFeed(t, true), writers: 3, flush: true}
	if err := in.run(t.Context()); !errors.Is(err, errPut) || !strings.Contains(err.Error(), "put ") {
		t.Errorf("got %v", err)
	}
	if w.flushes != 0 {
		t.Error("flushed after a failure")
	}
	in = &ingest{w: &fakeWriter{}, feed: mixedFeed(t, true), writers: 2, async: 3}
	if err := in.run(t.Context()); !errors.Is(err, errPut) {
		t.Errorf("async: got %v", err)
	}
}

// An interrupt stops the putters, also those that wait for their turn; puts
// that have begun end well.
func TestIngestInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		w := &fakeWriter{delay: time.Second}
		in := &ingest{w: w, feed: mixedFeed(t, true), writers: 2, rate: 5} // 5 rows in the first batch
		time.AfterFunc(millisecond(1500), cancel)
		if err := in.run(ctx); err != nil {
			t.Fatal(err)
		}
		if in.batches.Load() != 2 || in.clock.elapsed() != 2*time.Second {
			t.Errorf("%d batches in %v, want 2 in 2 s", in.batches.Load(), in.clock.elapsed())
		}
	})
}

func TestProgress(t *testing.T) {
	in := &ingest{}
	in.rows.Store(50_000)
	in.bytes.Store(5_000_000)
	b := &bar{width: 200, in: in, total: 200_000}
	if got, want := b.line(2*time.Second), "[██████░░░░░░░░░░░░░░░░░░]  25%  50,000 rows  25,000 rows/s  2.5 MB/s  6s left"; got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	b.width = 20
	if n := len([]rune(b.line(2 * time.Second))); n != 19 {
		t.Errorf("a line of %d columns on a terminal of 20", n)
	}
	b.width, b.total = 200, -1
	if got := b.line(time.Second); strings.Contains(got, "%") {
		t.Errorf("a percentage of an unknown total: %q", got)
	}
	in.limit = 4 * time.Second
	if got := b.line(time.Second); !strings.Contains(got, " 25%") {
		t.Errorf("by time: %q", got)
	}
	var out bytes.Buffer
	startBar(&out, 80, in, -1).stop()
	if !strings.HasSuffix(out.String(), "\x1b[K") {
		t.Errorf("the bar leaves %q", out.String())
	}
	if _, ok := terminalWidth(&out); ok {
		t.Error("a buffer is taken for a terminal")
	}
}
