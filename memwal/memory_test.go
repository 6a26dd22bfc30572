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
	"github.com/blevesearch/bleve/v2/search/query"

	"github.com/memwal/memwal-go/index"
	"github.com/memwal/memwal-go/objstore"
)

func sliceOf(t testing.TB, rec arrow.RecordBatch, from, to int64) arrow.RecordBatch {
	t.Helper()
	s := rec.NewSlice(from, to)
	t.Cleanup(s.Release)
	return s
}

func TestM01_SliceCountsWhatItPins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		held := func(w *Writer) int64 { s := w.Stats(); return s.ResidentBytes - s.IndexBytes }

		// A slice that pins much more than it has is copied, and counts the copy.
		w := mustOpen(t, objstore.NewMemory(), nil)
		mustPut(t, w, sliceOf(t, seq(t, 0, 20_000), 5, 15))
		if got := held(w); got < 300 || got > 8<<10 {
			t.Errorf("10 of 20,000 rows hold %d bytes", got)
		}
		checkRows(t, w, wantSeq(5, 10))

		// One that pins a little more counts that. Only its own rows count for the
		// flush threshold.
		o := &Options{FlushInterval: time.Hour, FlushBytes: 32 << 10, MaxMemtableBytes: 1 << 20}
		w = mustOpen(t, objstore.NewMemory(), o)
		mustPut(t, w, seq(t, 0, 1))
		before, parent := held(w), seq(t, 0, 1000)
		mustPutAsync(t, w, sliceOf(t, parent, 5, 15))
		pinned := held(w) - before
		if pinned < 24_000 {
			t.Errorf("10 of 1000 rows count %d bytes, pin some 40,000", pinned)
		}
		for range 9 {
			mustPutAsync(t, w, sliceOf(t, parent, 5, 15))
		}
		synctest.Wait()
		if got := w.Stats(); got.WAL.StartedBySize != 0 || got.Durable != 1 {
			t.Errorf("slices of some 3000 bytes in all started an append at 32 KiB: %+v", got.WAL)
		}
		// What is pinned makes a memtable full, too: at twice its size and 64 MiB.
		puts := int64(66<<20)/pinned + 1
		for range puts {
			mustPutAsync(t, w, sliceOf(t, parent, 5, 15))
		}
		if got := w.Stats(); got.Generation != 2 {
			t.Errorf("generation %d after %d slices that pin %d bytes each", got.Generation, puts, pinned)
		}
	})
}

func TestM02_IndexMemoryCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := keyedOptions()
		o.MaxMemtableBytes, o.MaxResidentBytes, o.StallTimeout = 256<<10, 1<<20, time.Minute
		w := mustOpen(t, objstore.NewMemory(), o)
		var err error
		var rows int64
		start := time.Now()
		for err == nil && rows < 1_000_000 {
			mustAdd := seq(t, rows, 100)
			start = time.Now()
			if err = w.Put(t.Context(), mustAdd); err == nil {
				rows += 100
			}
		}
		if took := time.Since(start); !errors.Is(err, ErrBackpressure) || took != o.StallTimeout {
			t.Errorf("put: %v after %v", err, took)
		}
		got := w.Stats()
		if got.IndexBytes < got.ResidentBytes/4 || got.ResidentBytes > o.MaxResidentBytes*5/4 {
			t.Errorf("%d bytes are resident, %d of them indexes", got.ResidentBytes, got.IndexBytes)
		}
		if got.Accepted != uint64(rows) {
			t.Errorf("accepted %d, want %d", got.Accepted, rows)
		}
		byIndex := false
		for _, m := range w.c.live()[:got.Memtables-1] {
			u := m.Usage()
			byIndex = byIndex || u.Index >= o.MaxMemtableBytes && u.Window < o.MaxMemtableBytes*3/4
		}
		if !byIndex {
			t.Error("no memtable was full by its indexes")
		}
		// Nothing is wedged but puts.
		if n, err := mustSnapshot(t, w.Snapshot).Count(t.Context()); err != nil || n != rows {
			t.Errorf("%d rows, %v, want %d", n, err, rows)
		}
		if err := w.Rotate(t.Context()); err != nil {
			t.Error(err)
		}
		mustClose(t, w)
	})
}

// TestM02_TextIndexMemoryCounts: a text index of words that are new all the time is larger
// than its rows. It makes memtables full, and puts wait; what searches leave behind
// counts, too.
func TestM02_TextIndexMemoryCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := textOptions()
		o.MaxMemtableBytes, o.MaxResidentBytes, o.StallTimeout = 512<<10, 2<<20, time.Minute
		w := mustOpen(t, objstore.NewMemory(), o)
		var err error
		for id := int64(0); err == nil && id < 100_000; id += 50 {
			rows := make([]testRow, 50)
			for i := range rows {
				n := id + int64(i)
				rows[i] = testRow{n, fmt.Sprintf("x%d y%d z%d", n, n, n), n}
			}
			err = w.Put(t.Context(), batchOf(t, rows...))
		}
		if !errors.Is(err, ErrBackpressure) {
			t.Errorf("put: %v", err)
		}
		got := w.Stats()
		if got.IndexBytes < got.ResidentBytes/2 || got.ResidentBytes > o.MaxResidentBytes*5/4 {
			t.Errorf("%d bytes are resident, %d of them indexes", got.ResidentBytes, got.IndexBytes)
		}
		full := 0
		for _, m := range w.c.live()[:got.Memtables-1] {
			if u := m.Usage(); u.Index >= o.MaxMemtableBytes && u.Window < o.MaxMemtableBytes/2 {
				full++
			}
		}
		if full == 0 {
			t.Error("no memtable was full by its text index")
		}
		s := mustSnapshot(t, w.Snapshot)
		if _, err := s.Hits(t.Context(), "by text", query.NewPrefixQuery("x77"), SearchOptions{Limit: 10}); err != nil {
			t.Fatal(err)
		}
		// The order of the terms, three a row, four bytes each.
		if left := w.Stats().IndexBytes - got.IndexBytes; left < 12*int64(got.Indexed) {
			t.Errorf("a search by prefix left %d bytes behind, the order of %d terms is more", left, 3*got.Indexed)
		}
		mustClose(t, w)
	})
}

// TestM03_LargeTextsOnReplay: words of a megabyte, a text of several, and very many terms
// in a row are taken by put and by replay alike, and found, or not, alike.
func TestM03_LargeTextsOnReplay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := objstore.NewMemory()
		w := mustOpen(t, store, textOptions())
		var many strings.Builder
		long := strings.Repeat("q", 2*index.MaxTermBytes)
		for i := range 100_000 {
			fmt.Fprintf(&many, "many%d ", i)
		}
		mustPut(t, w, batchOf(t, testRow{1, "begin " + long + " " + strings.Repeat("q", 1<<20) + " end", 1}, testRow{2, strings.Repeat("often ", 200_000), 2}))
		mustPut(t, w, batchOf(t, testRow{3, many.String(), 3}, testRow{4, strings.Repeat("w", index.MaxTermBytes), 4}, testRow{5, "", 5}, testRow{6, "🙂 京都 \xff\xfe", 6}))
		queries := []query.Query{
			word("begin end"), word("often"), word("many99999"), word(strings.Repeat("w", index.MaxTermBytes)), word(long),
			word("京"), query.NewMatchPhraseQuery("begin end"), query.NewMatchPhraseQuery("many7 many8"), query.NewPrefixQuery("many9999"), query.NewMatchAllQuery(),
		}
		answers := func() string {
			var out strings.Builder
			s := mustSnapshot(t, w.Snapshot)
			for _, q := range queries {
				ids, scores := hitsOf(t, s, q, 10)
				fmt.Fprintln(&out, ids, scores)
			}
			return out.String()
		}
		before, want := answers(), "[1] [2] [3] [4] [] [6] [] [3] [3] [1 2 3 4 5 6] "
		mustClose(t, w)
		w = mustOpen(t, store, textOptions())
		if after := answers(); after != before {
			t.Errorf("after replay:\n%s\nwas\n%s", after, before)
		}
		ids := ""
		for line := range strings.Lines(before) {
			ids += line[:strings.Index(line, "]")+1] + " "
		}
		if ids != want {
			t.Errorf("found %s, want %s", ids, want)
		}
		mustClose(t, w)
	})
}

func TestM03_BoundsHoldOnReplayToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := objstore.NewMemory()
		w := mustOpen(t, store, plainOptions())
		for i := range int64(30) {
			mustPut(t, w, seq(t, i*4, 4))
		}
		mustClose(t, w)
		for _, tt := range []struct {
			name string
			set  func(*Options)
			ok   func(rows uint32, batches int, window int64) bool
		}{
			{"rows", func(o *Options) { o.MaxMemtableRows = 11 }, func(rows uint32, _ int, _ int64) bool { return rows <= 11 }},
			{"batches", func(o *Options) { o.MaxMemtableBatches = 3 }, func(_ uint32, batches int, _ int64) bool { return batches <= 3 }},
			{"bytes", func(o *Options) { o.MaxMemtableBytes = 500 }, func(_ uint32, _ int, window int64) bool { return window <= 500 }},
			{"a row", func(o *Options) { o.MaxMemtableRows = 1 }, func(rows uint32, batches int, _ int64) bool { return rows <= 4 && batches <= 1 }},
		} {
			o := plainOptions()
			tt.set(o)
			w := mustOpen(t, copyOf(t, contents(t, store, "")), o)
			for i := range int64(10) {
				if tt.name != "a row" {
					mustPut(t, w, seq(t, 120+i*3, 3))
				}
			}
			tables := w.c.live()
			for i, m := range tables {
				if u := m.Usage(); !tt.ok(u.Rows, u.Batches, u.Window) {
					t.Errorf("%s: memtable %d has %d rows in %d batches of %d bytes", tt.name, i, u.Rows, u.Batches, u.Window)
				}
			}
			if len(tables) < 8 {
				t.Errorf("%s: only %d memtables", tt.name, len(tables))
			}
			checkRows(t, w, wantSeq(0, len(rowsOf(t, w))))
			mustClose(t, w)
		}
	})
}

func TestM04_BatchThatCanNeverFit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		long := func(n int) arrow.RecordBatch { return batchOf(t, testRow{1, strings.Repeat("x", n), 1}) }
		for _, tt := range []struct {
			name   string
			set    func(*Options)
			rec    arrow.RecordBatch
			option string
		}{
			{"rows", func(o *Options) { o.MaxMemtableRows = 10 }, seq(t, 0, 11), "MaxMemtableRows"},
			{"bytes", func(o *Options) { o.MaxMemtableBytes = 1000 }, long(1000), "MaxMemtableBytes"},
			{"resident", func(o *Options) { o.MaxMemtableBytes, o.MaxResidentBytes = 40_000, 40_000 }, long(39_000), "MaxResidentBytes"},
			{"entry", func(o *Options) { o.MaxMemtableBytes = 1 << 30 }, long(64 << 20), "largest WAL entry"},
		} {
			for _, walOnly := range []bool{false, true} {
				o := &Options{WALOnly: walOnly}
				tt.set(o)
				store := newTestStore()
				w := mustOpen(t, store, o)
				start := time.Now()
				err := w.Put(t.Context(), tt.rec)
				checkRefused(t, w, err, 0, tt.option, "split it")
				if took := time.Since(start); took != 0 {
					t.Errorf("%s: it waited %v", tt.name, took)
				}
				mustPut(t, w, seq(t, 0, 1))
				mustClose(t, w)
			}
		}
	})
}

// walOnlyOptions bound memory so that a few batches fill it.
func walOnlyOptions() *Options {
	return patient(&Options{
		WALOnly: true, PrimaryKey: []string{"id"}, MaxMemtableBytes: 8 << 10, MaxResidentBytes: 32 << 10,
		StallTimeout: 10 * time.Second, OwnershipCheckAfter: 1000 * time.Hour, FenceRetention: 100_000 * time.Hour,
	})
}

// fill puts batches without waiting until memory is full.
func fill(t *testing.T, w *Writer, next *int64) (tickets []*Ticket) {
	t.Helper()
	for range 1000 {
		rec := seq(t, *next, 10)
		start := time.Now()
		ticket, err := w.PutAsync(t.Context(), rec)
		if err == nil {
			tickets = append(tickets, ticket)
			*next += 10
			continue
		}
		if took := time.Since(start); !errors.Is(err, ErrBackpressure) || errors.Is(err, ErrInvalid) || took != w.c.opts.StallTimeout {
			t.Fatalf("put: %v after %v", err, took)
		}
		if !strings.Contains(err.Error(), "MaxResidentBytes") || !strings.Contains(err.Error(), "nothing was stored") {
			t.Errorf("%q does not say enough", err)
		}
		return tickets
	}
	t.Fatal("memory never gets full")
	return nil
}

func TestM05_BackpressureAndRecovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newTestStore()
		o := walOnlyOptions()
		w := mustOpen(t, store, o)
		var next int64
		for range 3 {
			do, release := hold()
			undo := store.on(objstore.OpPutIfAbsent, walPart, always, do)
			tickets := fill(t, w, &next)
			if n := len(tickets); n < 5 {
				t.Fatalf("%d batches fill %d bytes", n, o.MaxResidentBytes)
			}
			if got := w.Stats(); got.Accepted != uint64(next) || got.ResidentBytes > o.MaxResidentBytes || got.ResidentBytes < o.MaxResidentBytes/2 {
				t.Errorf("accepted %d, want %d; %d bytes are resident", got.Accepted, next, got.ResidentBytes)
			}
			// A put that waits goes on as soon as there is room, not before.
			var put *Ticket
			done := make(chan error, 1)
			go func() {
				var err error
				put, err = w.PutAsync(t.Context(), seq(t, next, 10))
				done <- err
			}()
			time.Sleep(o.StallTimeout / 2)
			if len(done) > 0 {
				t.Fatalf("a put did not wait: %v", <-done)
			}
			undo()
			release()
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			next += 10
			for _, ticket := range append(tickets, put) {
				if err := ticket.Wait(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			for range 20 {
				mustPut(t, w, seq(t, next, 10))
				next += 10
			}
			synctest.Wait()
			if got := w.Stats(); got.ResidentBytes > o.MaxResidentBytes/2 || got.Memtables > 2 {
				t.Errorf("everything is durable, but %d bytes in %d memtables are resident", got.ResidentBytes, got.Memtables)
			}
		}
		mustClose(t, w)
		checkRows(t, mustOpen(t, store, &Options{PrimaryKey: []string{"id"}}), wantSeq(0, int(next)))
	})
}

// TestM05_ActiveMemtableDoesNotWedge fills the memory by the active memtable
// alone, which is not full by its own limit: what it holds counts more.
func TestM05_ActiveMemtableDoesNotWedge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := walOnlyOptions()
		o.MaxMemtableBytes = o.MaxResidentBytes
		w := mustOpen(t, objstore.NewMemory(), o)
		start := time.Now()
		parent := seq(t, 0, 400)
		for i := range int64(100) {
			if _, err := w.PutAsync(t.Context(), sliceOf(t, parent, i, i+4)); err != nil {
				t.Fatalf("put %d: %v", i, err)
			}
		}
		if took := time.Since(start); took > time.Second {
			t.Errorf("it took %v", took)
		}
		mustClose(t, w)
	})
}

// TestM05_WithoutEviction: a writer that serves reads frees nothing, says so, and
// goes on reading.
func TestM05_WithoutEviction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := walOnlyOptions()
		o.WALOnly = false
		w := mustOpen(t, objstore.NewMemory(), o)
		var next int64
		for range 2 {
			fill(t, w, &next)
		}
		if err := w.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		checkRows(t, w, wantSeq(0, int(next)))
		mustClose(t, w)
	})
}

func TestM06_CancelledWaitLeavesNoTrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newTestStore()
		w := mustOpen(t, store, walOnlyOptions())
		do, release := hold()
		defer store.on(objstore.OpPutIfAbsent, walPart, always, do)()
		var next int64
		tickets := fill(t, w, &next)
		figures := func() string {
			synctest.Wait()
			s := w.Stats()
			return fmt.Sprintf("%d waiters, %+v", w.c.cursors.Waiting(), s)
		}
		before := figures()
		for i, call := range []func(ctx context.Context) error{
			func(ctx context.Context) error { return second(w.PutAsync(ctx, seq(t, next, 10))) },
			func(ctx context.Context) error { return w.Put(ctx, seq(t, next, 10)) },
			func(ctx context.Context) error { return w.Delete(ctx, keysOf(t, 1)) },
			func(ctx context.Context) error { return tickets[0].Wait(ctx) },
			func(ctx context.Context) error { return tickets[0].WaitDurable(ctx) },
			func(ctx context.Context) error { return w.Flush(ctx) },
		} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			err := call(ctx)
			cancel()
			if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrInvalid) || errors.Is(err, ErrBackpressure) {
				t.Errorf("call %d: %v", i, err)
			}
			if i < 3 && !strings.Contains(err.Error(), "nothing was stored") {
				t.Errorf("call %d does not say that nothing was stored: %v", i, err)
			}
			if got := figures(); got != before {
				t.Errorf("call %d left a trace:\n%s\nwas\n%s", i, got, before)
			}
		}
		release()
		mustClose(t, w)
		checkRows(t, mustOpen(t, store, &Options{PrimaryKey: []string{"id"}}), wantSeq(0, int(next)))
	})
}

// TestM07_CountersDoNotDrift repeats the same cycle: what is resident at its end
// must be the same each time.
func TestM07_CountersDoNotDrift(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newTestStore()
		w := mustOpen(t, store, walOnlyOptions())
		var first Stats
		for cycle := range int64(50) {
			mustPut(t, w, seq(t, cycle*10, 10))
			if err := w.Delete(t.Context(), keysOf(t, cycle*10)); err != nil {
				t.Fatal(err)
			}
			_ = w.Put(t.Context(), nil)
			mustPutAsync(t, w, seq(t, cycle*10, 10))
			if err := w.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := w.Rotate(t.Context()); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			got := w.Stats()
			if cycle == 0 {
				first = got
			}
			if got.ResidentBytes != first.ResidentBytes || got.Memtables != 1 || got.Snapshots != 0 || got.WAL.InFlight != 0 || w.c.cursors.Waiting() != 1 {
				t.Fatalf("cycle %d: %d bytes in %d memtables, were %d; %d waiters", cycle, got.ResidentBytes, got.Memtables, first.ResidentBytes, w.c.cursors.Waiting())
			}
			if want := uint64(cycle+1) * 21; got.Accepted != want || got.Durable != want || got.Indexed != want {
				t.Fatalf("cycle %d: %d rows, want %d", cycle, got.Accepted, want)
			}
			if n := uint64(len(store.keys(walPart))); got.WALEntries != n {
				t.Fatalf("cycle %d: %d WAL objects count as %d", cycle, n, got.WALEntries)
			}
		}
		if w.c.snapshots.Load() != 0 {
			t.Error("snapshots are open")
		}
	})
}

func TestWALOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newTestStore()
		o := walOnlyOptions()
		w := mustOpen(t, store, o)
		for _, take := range []func() (*Snapshot, error){w.Snapshot, w.IndexedSnapshot} {
			if s, err := take(); !errors.Is(err, ErrNoMemtable) || s != nil {
				t.Errorf("snapshot: %v", err)
			}
		}
		const batches = 200 // some ten times MaxResidentBytes
		put := func(from int64) {
			for i := range int64(batches) {
				mustPutAsync(t, w, seq(t, (from+i)*10, 10))
				if got := w.Stats(); got.ResidentBytes > o.MaxResidentBytes {
					t.Fatalf("%d bytes are resident", got.ResidentBytes)
				}
			}
			if err := w.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := w.Delete(t.Context(), keysOf(t, from*10)); err != nil {
				t.Fatal(err)
			}
		}
		put(0)
		checkRefused(t, w, w.Put(t.Context(), columnsOf(t, testSchema.Fields(), `[null]`, `["a"]`, `[1]`)), batches*10+1, `"id"`)
		mustClose(t, w)
		// Its log may be longer than memory.
		w = mustOpen(t, store, o)
		if got := w.Stats(); got.Accepted != batches*10+1 || got.ResidentBytes > o.MaxResidentBytes/8 || got.Open.Rows != batches*10+1 {
			t.Errorf("after reopening %d rows and %d bytes, %+v", got.Accepted, got.ResidentBytes, got.Open)
		}
		put(batches)
		mustClose(t, w)
		// Another writer reads it all.
		w = mustOpen(t, store, keyedOptions())
		var want []testRow
		for _, r := range wantSeq(0, 2*batches*10) {
			if r.id != 0 && r.id != batches*10 {
				want = append(want, r)
			}
		}
		checkRows(t, w, want)
		if row, err := mustSnapshot(t, w.Snapshot).Lookup(t.Context(), int64(0)); err != nil || row.Presence != Deleted {
			t.Errorf("deleted row: %v, %v", row.Presence, err)
		}
		mustClose(t, w)
	})
}

func TestVisibleIndexed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newTestStore()
		o := keyedOptions()
		o.Visibility, o.FlushInterval = VisibleIndexed, -1
		w := mustOpen(t, store, o)
		put := func(id int64) *Ticket {
			ticket := mustPutAsync(t, w, batchOf(t, testRow{id, "x", id}))
			if err := ticket.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			return ticket
		}
		first := put(1)
		checkRead(t, mustSnapshot(t, w.Snapshot), testRow{1, "x", 1})
		time.Sleep(1000 * time.Hour)
		if got := w.Stats(); got.Visible != 1 || got.Durable != 0 || got.WAL.Entries != 0 {
			t.Errorf("visible %d, durable %d, %d entries", got.Visible, got.Durable, got.WAL.Entries)
		}
		if err := w.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := first.WaitDurable(t.Context()); err != nil || w.Stats().Durable != 1 {
			t.Errorf("after flush: %v", err)
		}
		put(2)
		mustClose(t, w) // makes it durable
		w = mustOpen(t, store, o)
		checkRead(t, mustSnapshot(t, w.Snapshot), testRow{1, "x", 1}, testRow{2, "x", 2})
		lost := put(3)
		w.Abort() // does not
		if err := lost.Wait(t.Context()); err != nil {
			t.Errorf("it was visible: %v", err)
		}
		if err := lost.WaitDurable(t.Context()); !errors.Is(err, ErrAborted) {
			t.Errorf("it was never durable: %v", err)
		}
		w = mustOpen(t, store, o)
		checkRead(t, mustSnapshot(t, w.Snapshot), testRow{1, "x", 1}, testRow{2, "x", 2})
		if row, err := mustSnapshot(t, w.Snapshot).Lookup(t.Context(), int64(3)); err != nil || row.Presence != Absent {
			t.Errorf("row that was lost: %v, %v", row.Presence, err)
		}
	})
}

// TestOwnership counts every byte of Arrow memory: the caller's batches, which it
// releases as soon as PutAsync returns, and the writer's own.
func TestOwnership(t *testing.T) {
	build := func(mem memory.Allocator, from int64, n int) arrow.RecordBatch {
		b := array.NewRecordBuilder(mem, testSchema)
		defer b.Release()
		for i := range int64(n) {
			b.Field(0).(*array.Int64Builder).Append(from + i)
			b.Field(1).(*array.StringBuilder).Append(fmt.Sprintf("row %d", from+i))
			b.Field(2).(*array.Int64Builder).Append((from + i) * 10)
		}
		return b.NewRecordBatch()
	}
	for _, c := range []Compression{CompressionNone, CompressionLZ4, CompressionZstd} {
		for _, walOnly := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s,WALOnly=%v", c, walOnly), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					mem := memory.NewCheckedAllocator(memory.DefaultAllocator)
					defer mem.AssertSize(t, 0)
					store := objstore.NewMemory()
					o := &Options{PrimaryKey: []string{"id"}, Compression: c, Allocator: mem, MaxMemtableRows: 300, WALOnly: walOnly}
					if !walOnly {
						o.Indexes = keyedOptions().Indexes
					}
					for round := range int64(2) { // the second one replays
						w := mustOpen(t, store, o)
						for i := range int64(20) {
							rec := build(mem, round*1000+i*40, 50) // the keys overlap
							ticket, err := w.PutAsync(t.Context(), rec)
							rec.Release()
							if err != nil {
								t.Fatal(err)
							}
							_ = ticket
						}
						big := build(mem, 0, 5000)
						slice := big.NewSlice(100, 110) // is copied
						mustPut(t, w, slice)
						slice.Release()
						big.Release()
						keys := columnsOfKeys(mem, 3, 4)
						if err := w.Delete(t.Context(), keys); err != nil {
							t.Fatal(err)
						}
						bad := array.NewRecordBatch(testSchema.WithEndianness(testSchema.Endianness()), []arrow.Array{keys.Column(0), keys.Column(0), keys.Column(0)}[:0], 0)
						if err := w.Put(t.Context(), bad); !errors.Is(err, ErrInvalid) {
							t.Error(err)
						}
						if walOnly {
							keys.Release()
							mustClose(t, w)
							continue
						}
						open := useSnapshot(t, w, keys)
						keys.Release()
						mustClose(t, w)
						if mem.CurrentAlloc() == 0 {
							t.Error("the snapshot that is open holds nothing")
						}
						if n := len(snapshotRows(t, open)); n == 0 {
							t.Error("no rows after close")
						}
						open.Close()
					}
				})
			})
		}
	}
}

func columnsOfKeys(mem memory.Allocator, ids ...int64) arrow.RecordBatch {
	b := array.NewRecordBuilder(mem, arrow.NewSchema(testSchema.Fields()[:1], nil))
	defer b.Release()
	b.Field(0).(*array.Int64Builder).AppendValues(ids, nil)
	return b.NewRecordBatch()
}

// useSnapshot reads in every way, also to no end, and leaves a snapshot open.
func useSnapshot(t *testing.T, w *Writer, keys arrow.RecordBatch) *Snapshot {
	t.Helper()
	s, err := w.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	if rows, err := s.LookupAll(t.Context(), keys); err != nil || len(rows) != 2 {
		t.Error(err)
	}
	if rows := snapshotRows(t, s); len(rows) < 800 {
		t.Errorf("%d rows", len(rows))
	}
	for _, steps := range []int{0, 1, 3} {
		r, err := s.Range(t.Context(), "by_n", index.Range{}, ScanOptions{BatchRows: 10, Ordinals: true})
		if err != nil {
			t.Fatal(err)
		}
		for range steps {
			r.Next()
		}
		r.Release()
	}
	r, err := s.Scan(t.Context(), ScanOptions{BatchRows: 7})
	if err != nil || !r.Next() {
		t.Fatal(err)
	}
	kept := r.RecordBatch()
	kept.Retain() // outlives its reader
	r.Release()
	if kept.Column(1).(*array.String).Value(0) == "" {
		t.Error("a batch that was retained is empty")
	}
	kept.Release()
	return s
}

// TestOwnership_SnapshotHoldsItsMemoryOnly: memory that a snapshot pins is freed
// with it, and counts until then.
func TestOwnership_SnapshotsCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := mustOpen(t, objstore.NewMemory(), nil)
		var open []*Snapshot
		for i := range 5 {
			mustPut(t, w, seq(t, int64(i), 1))
			s, err := w.Snapshot()
			if err != nil {
				t.Fatal(err)
			}
			open = append(open, s)
			if got := w.Stats().Snapshots; got != int64(i+1) {
				t.Errorf("%d snapshots are open, want %d", got, i+1)
			}
		}
		for i, s := range slices.Backward(open) {
			s.Close()
			s.Close()
			if got := w.Stats().Snapshots; got != int64(i) {
				t.Errorf("%d snapshots are open, want %d", got, i)
			}
		}
	})
}
