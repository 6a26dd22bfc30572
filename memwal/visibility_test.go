package memwal

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/memwal/memwal-go/index"
	"github.com/memwal/memwal-go/objstore"
)

const walPart = "/wal/" // of the keys of WAL objects

// patient are options under which a request may take for ever.
func patient(o *Options) *Options {
	o.Retry.RequestTimeout = 1000 * time.Hour
	return o
}

// mustPutAsync puts without waiting.
func mustPutAsync(t testing.TB, w *Writer, rec arrow.RecordBatch) *Ticket {
	t.Helper()
	ticket, err := w.PutAsync(t.Context(), rec)
	if err != nil {
		t.Fatalf("put: %v", err)
	}
	return ticket
}

// pending tells whether a ticket has no outcome yet, once everything that can
// happen without time passing has happened.
func pending(t *Ticket) bool {
	synctest.Wait()
	select {
	case <-t.Done():
		return false
	default:
		return true
	}
}

func mustSnapshot(t testing.TB, take func() (*Snapshot, error)) *Snapshot {
	t.Helper()
	s, err := take()
	if err != nil {
		t.Fatalf("snapshot: %v", err)
	}
	t.Cleanup(s.Close)
	return s
}

// checkRead checks that a snapshot of a table with keyedOptions holds exactly
// the rows, by every way of reading. They must be in the order of their n.
func checkRead(t testing.TB, s *Snapshot, rows ...testRow) {
	t.Helper()
	ctx := context.Background()
	byID := func(a, b testRow) int { return int(a.id - b.id) }
	sorted := slices.SortedFunc(slices.Values(rows), byID)
	if got := slices.SortedFunc(slices.Values(snapshotRows(t, s)), byID); !slices.Equal(got, sorted) {
		t.Errorf("scan: got %v, want %v", got, sorted)
	}
	if n, err := s.Count(ctx); err != nil || n != int64(len(rows)) {
		t.Errorf("count: got %d, %v, want %d", n, err, len(rows))
	}
	r, err := s.Range(ctx, "by_n", index.Range{}, ScanOptions{})
	if err != nil {
		t.Fatalf("range: %v", err)
	}
	if got := readRows(t, r); !slices.Equal(got, rows) {
		t.Errorf("range: got %v, want %v", got, rows)
	}
	for _, want := range rows {
		if got, err := s.Lookup(ctx, want.id); err != nil || got.Presence != Present {
			t.Errorf("look up %d: %v, %v", want.id, got.Presence, err)
		} else if got := rowAt(got); got != want {
			t.Errorf("look up %d: got %v, want %v", want.id, got, want)
		}
	}
}

// checkAbsent checks that a lookup finds nothing.
func checkAbsent(t testing.TB, s *Snapshot, ids ...int64) {
	t.Helper()
	for _, id := range ids {
		if got, err := s.Lookup(context.Background(), id); err != nil || got.Presence != Absent {
			t.Errorf("look up %d: %v, %v, want nothing", id, got.Presence, err)
		}
	}
}

func TestV01_DurablePutWaitsForTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newTestStore()
		w := mustOpen(t, store, patient(keyedOptions()))
		mustPut(t, w, batchOf(t, testRow{1, "before", 10}))

		do, release := hold()
		store.on(objstore.OpPutIfAbsent, walPart, 1, do)
		put := make(chan error, 1)
		go func() { put <- w.Put(t.Context(), batchOf(t, testRow{2, "held back", 20})) }()
		time.Sleep(100 * time.Hour)
		select {
		case err := <-put:
			t.Fatalf("put returned %v, but its entry is not in the store", err)
		default:
		}
		s := mustSnapshot(t, w.Snapshot)
		checkRead(t, s, testRow{1, "before", 10})
		checkAbsent(t, s, 2)
		if got := w.Stats(); got.Accepted != 2 || got.Indexed != 2 || got.Durable != 1 || got.Visible != 1 {
			t.Errorf("accepted %d, indexed %d, durable %d, visible %d", got.Accepted, got.Indexed, got.Durable, got.Visible)
		}

		release()
		if err := <-put; err != nil {
			t.Fatal(err)
		}
		checkRead(t, mustSnapshot(t, w.Snapshot), testRow{1, "before", 10}, testRow{2, "held back", 20})
		checkRead(t, s, testRow{1, "before", 10}) // what was taken before stays as it was
	})
}

func TestV02_RotationDoesNotAcknowledgeTheNextMemtable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newTestStore()
		w := mustOpen(t, store, patient(keyedOptions()))
		do, releaseFirst := hold()
		store.on(objstore.OpPutIfAbsent, walPart, 1, do)
		do, releaseSecond := hold()
		store.on(objstore.OpPutIfAbsent, walPart, 1, do)

		older := mustPutAsync(t, w, batchOf(t, testRow{1, "older", 10}))
		if err := w.Rotate(t.Context()); err != nil {
			t.Fatal(err)
		}
		newer := mustPutAsync(t, w, batchOf(t, testRow{2, "newer", 20}))
		time.Sleep(time.Second) // both are on their way
		releaseFirst()
		if pending(older) {
			t.Fatal("the put before the rotation is in the store, but not acknowledged")
		}
		if !pending(newer) {
			t.Fatal("the put after the rotation was acknowledged by the append of the memtable before")
		}
		s := mustSnapshot(t, w.Snapshot)
		checkRead(t, s, testRow{1, "older", 10})
		checkAbsent(t, s, 2)

		releaseSecond()
		if pending(newer) || newer.Err() != nil {
			t.Fatalf("pending %t, error %v", pending(newer), newer.Err())
		}
		checkRead(t, mustSnapshot(t, w.Snapshot), testRow{1, "older", 10}, testRow{2, "newer", 20})
	})
}

func TestV04_VisibleWithAnyNumberOfIndexes(t *testing.T) {
	byN := index.Ordered{Name: "by_n", Columns: []index.Column{{Name: "n"}}}
	byText := index.Ordered{Name: "by_text", Columns: []index.Column{{Name: "text"}}}
	both := index.Ordered{Name: "by_both", Columns: []index.Column{{Name: "text"}, {Name: "n"}}}
	for name, o := range map[string]Options{
		"none":         {},
		"one":          {Indexes: []index.Config{byN}},
		"key":          {PrimaryKey: []string{"id"}},
		"key and many": {PrimaryKey: []string{"id"}, Indexes: []index.Config{byN, byText, both}},
	} {
		for _, o.Visibility = range []Visibility{VisibleDurable, VisibleIndexed} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					store := objstore.NewMemory()
					w := mustOpen(t, store, &o)
					want := []testRow{{1, "a", 3}, {2, "b", 2}, {3, "c", 1}}
					for i, r := range want {
						mustPut(t, w, batchOf(t, r))
						if got := rowsOf(t, w); !slices.Equal(got, want[:i+1]) {
							t.Fatalf("after put %d: got %v", i, got)
						}
					}
					mustClose(t, w)
					w = mustOpen(t, store, &o)
					if got := rowsOf(t, w); !slices.Equal(got, want) {
						t.Errorf("after reopening: got %v", got)
					}
				})
			})
		}
	}
}

func TestV05_CursorZeroMeansNoRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newTestStore()
		w := mustOpen(t, store, patient(keyedOptions()))
		empty := mustSnapshot(t, w.Snapshot)
		do, release := hold()
		store.on(objstore.OpPutIfAbsent, walPart, 1, do)
		ticket := mustPutAsync(t, w, batchOf(t, testRow{7, "row 0", 70}))
		time.Sleep(time.Second)
		indexed := mustSnapshot(t, w.Snapshot) // row 0 is indexed by now, and not durable
		for _, s := range []*Snapshot{empty, indexed} {
			if s.Bound() != 0 {
				t.Errorf("bound is %d, want 0", s.Bound())
			}
			checkRead(t, s)
			checkAbsent(t, s, 7)
		}
		release()
		if pending(ticket) || ticket.FirstRow() != 0 {
			t.Fatalf("pending %t, first row %d", pending(ticket), ticket.FirstRow())
		}
		checkRead(t, mustSnapshot(t, w.Snapshot), testRow{7, "row 0", 70})
		checkRead(t, empty)
	})
}

func TestV06_AppendFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newTestStore()
		w := mustOpen(t, store, keyedOptions())
		mustPut(t, w, batchOf(t, testRow{1, "durable", 10}))
		before := mustSnapshot(t, w.Snapshot)
		time.Sleep(time.Second)

		undo := store.on(objstore.OpPutIfAbsent, walPart, always, func(context.Context, func() error) error {
			time.Sleep(time.Second) // the indexes take no time
			return &objstore.Error{Class: objstore.ErrPermission}
		})
		err := w.Put(t.Context(), batchOf(t, testRow{2, "lost", 20}))
		if !errors.Is(err, ErrPersistence) || !errors.Is(err, ErrPoisoned) || !errors.Is(err, objstore.ErrPermission) {
			t.Fatalf("put: %v", err)
		}
		if got := w.Stats(); got.Indexed != 2 || got.Durable != 1 || got.Visible != 1 {
			t.Errorf("indexed %d, durable %d, visible %d", got.Indexed, got.Durable, got.Visible)
		}
		checkRead(t, before, testRow{1, "durable", 10})
		if _, err := w.Snapshot(); !errors.Is(err, ErrPersistence) {
			t.Errorf("snapshot: %v", err)
		}
		undo()
		checkRead(t, mustSnapshot(t, mustOpen(t, store, keyedOptions()).Snapshot), testRow{1, "durable", 10})
	})
}

func TestV06_IndexFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newTestStore()
		w := mustOpen(t, store, keyedOptions())
		mustPut(t, w, batchOf(t, testRow{1, "indexed", 10}))
		before := mustSnapshot(t, w.Snapshot)
		time.Sleep(time.Second)

		// The indexes come last, and fail.
		if err := w.c.applier.Stop(false); err != nil {
			t.Fatal(err)
		}
		ticket := mustPutAsync(t, w, batchOf(t, testRow{2, "not indexed", 20}))
		if !pending(ticket) {
			t.Fatal("the put is acknowledged, but not indexed")
		}
		if got := w.Stats(); got.Indexed != 1 || got.Durable != 2 || got.Visible != 1 {
			t.Errorf("indexed %d, durable %d, visible %d", got.Indexed, got.Durable, got.Visible)
		}
		durable := mustSnapshot(t, w.Snapshot)
		w.c.indexFailed(errors.New("injected"))
		if err := ticket.Wait(t.Context()); !errors.Is(err, ErrIndexFailed) || !errors.Is(err, ErrPoisoned) {
			t.Fatalf("put: %v", err)
		}
		for _, s := range []*Snapshot{before, durable} {
			checkRead(t, s, testRow{1, "indexed", 10})
		}
		if _, err := w.Snapshot(); !errors.Is(err, ErrIndexFailed) {
			t.Errorf("snapshot: %v", err)
		}
		if got := w.Stats(); got.Visible != 1 {
			t.Errorf("visible %d", got.Visible)
		}
		// It is in the log, so the next writer has it, once.
		checkRead(t, mustSnapshot(t, mustOpen(t, store, keyedOptions()).Snapshot),
			testRow{1, "indexed", 10}, testRow{2, "not indexed", 20})
	})
}

// TestV06_IndexFailureStopsTheLog is the other order: the append is on the wire
// when the indexes fail.
func TestV06_IndexFailureStopsTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newTestStore()
		w := mustOpen(t, store, keyedOptions())
		mustPut(t, w, batchOf(t, testRow{1, "first", 10}))
		time.Sleep(time.Second)

		wire := make(chan struct{}) // the request lands, whatever becomes of the writer
		store.on(objstore.OpPutIfAbsent, walPart, 1, func(_ context.Context, apply func() error) error {
			<-wire
			return apply()
		})
		second := mustPutAsync(t, w, batchOf(t, testRow{2, "second", 20}))
		synctest.Wait()
		breakIndexes(t, w)
		third := mustPutAsync(t, w, batchOf(t, testRow{3, "third", 30}))
		for _, ticket := range []*Ticket{second, third} {
			if err := ticket.Wait(t.Context()); !errors.Is(err, ErrIndexFailed) || !errors.Is(err, ErrPoisoned) {
				t.Fatalf("put: %v", err)
			}
		}
		close(wire)
		synctest.Wait()
		if got := w.Stats(); got.Indexed != 2 || got.Durable != 1 || got.Visible != 1 {
			t.Errorf("indexed %d, durable %d, visible %d", got.Indexed, got.Durable, got.Visible)
		}
		if err := second.WaitDurable(t.Context()); !errors.Is(err, ErrIndexFailed) {
			t.Errorf("a row became durable after the failure: %v", err)
		}
		checkRead(t, mustSnapshot(t, mustOpen(t, store, keyedOptions()).Snapshot),
			testRow{1, "first", 10}, testRow{2, "second", 20})
	})
}

// breakIndexes makes the next batch of w fail in the indexes, which are given a
// batch behind the writer's back.
func breakIndexes(t *testing.T, w *Writer) {
	t.Helper()
	m := w.c.live()[0]
	if err := m.Index().Apply(m.Batch(0).Rec, m.Rows()); err != nil {
		t.Fatal(err)
	}
}

func TestV07_VisibleIndexedIsReadableAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newTestStore()
		o := patient(keyedOptions())
		o.Visibility = VisibleIndexed
		w := mustOpen(t, store, o)
		do, release := hold()
		store.on(objstore.OpPutIfAbsent, walPart, always, do)
		defer release()
		start := time.Now()
		mustPut(t, w, batchOf(t, testRow{1, "one", 10}))
		checkRead(t, mustSnapshot(t, w.Snapshot), testRow{1, "one", 10})
		if err := w.Rotate(t.Context()); err != nil {
			t.Fatal(err)
		}
		mustPut(t, w, batchOf(t, testRow{2, "two", 20}, testRow{1, "one again", 30}))
		checkRead(t, mustSnapshot(t, w.Snapshot), testRow{2, "two", 20}, testRow{1, "one again", 30})
		if got := w.Stats(); got.Durable != 0 || got.Visible != 3 {
			t.Errorf("durable %d, visible %d", got.Durable, got.Visible)
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("the puts waited %v", took)
		}
	})
}

func TestV17_WriterReadsWhatItHasIndexed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newTestStore()
		w := mustOpen(t, store, patient(keyedOptions()))
		mustPut(t, w, batchOf(t, testRow{1, "one", 10}))
		do, release := hold()
		store.on(objstore.OpPutIfAbsent, walPart, always, do)
		start := time.Now()
		for i := range int64(5) { // read, modify, write
			own := mustSnapshot(t, w.IndexedSnapshot)
			row, err := own.Lookup(t.Context(), int64(1))
			if err != nil {
				t.Fatal(err)
			}
			next := rowAt(row)
			if next.n != 10+i {
				t.Fatalf("step %d reads %v", i, next)
			}
			next.n++
			if err := mustPutAsync(t, w, batchOf(t, next)).WaitIndexed(t.Context()); err != nil {
				t.Fatal(err)
			}
			checkRead(t, mustSnapshot(t, w.IndexedSnapshot), next)
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("it took %v", took)
		}
		outside := mustSnapshot(t, w.Snapshot)
		checkRead(t, outside, testRow{1, "one", 10})
		release()
		if err := w.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		checkRead(t, mustSnapshot(t, w.Snapshot), testRow{1, "one", 15})
		checkRead(t, outside, testRow{1, "one", 10})
	})
}

func TestV19_CancellingEndsTheWaitOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newTestStore()
		w := mustOpen(t, store, patient(keyedOptions()))
		do, release := hold()
		store.on(objstore.OpPutIfAbsent, walPart, 1, do)
		ctx, cancel := context.WithCancel(t.Context())
		put := make(chan error, 1)
		go func() { put <- w.Put(ctx, batchOf(t, testRow{1, "one", 10})) }()
		time.Sleep(time.Second)
		cancelled := time.Now()
		cancel()
		if err := <-put; !errors.Is(err, context.Canceled) || errors.Is(err, ErrInvalid) {
			t.Fatalf("put: %v", err)
		}
		if took := time.Since(cancelled); took != 0 {
			t.Errorf("the wait went on for %v", took)
		}
		if err := w.Err(); err != nil {
			t.Fatalf("the writer failed: %v", err)
		}
		release()
		synctest.Wait()
		for _, r := range store.requests(objstore.OpPutIfAbsent, walPart) {
			if r.err != nil {
				t.Errorf("an append failed: %v", r.err)
			}
		}
		checkRead(t, mustSnapshot(t, w.Snapshot), testRow{1, "one", 10})
		mustPut(t, w, batchOf(t, testRow{2, "two", 20}))
		mustClose(t, w)
		w = mustOpen(t, store, keyedOptions())
		checkRead(t, mustSnapshot(t, w.Snapshot), testRow{1, "one", 10}, testRow{2, "two", 20})
		if got := w.Stats(); got.Accepted != 2 {
			t.Errorf("%d rows in the log, want each of the two once", got.Accepted)
		}
	})
}

// TestV19_AnyCallMayBeCancelled cancels each call that waits, in each place where it
// does. What was accepted is found, once, and what was not is not.
func TestV19_AnyCallMayBeCancelled(t *testing.T) {
	for name, tc := range map[string]struct {
		call     func(ctx context.Context, w *Writer) error
		full     bool // there is no memory left
		accepted int  // rows that the call adds
	}{
		"put":               {func(ctx context.Context, w *Writer) error { return w.Put(ctx, seq(t, 10, 2)) }, false, 2},
		"delete":            {func(ctx context.Context, w *Writer) error { return w.Delete(ctx, keysOf(t, 0)) }, false, 1},
		"flush":             {func(ctx context.Context, w *Writer) error { return w.Flush(ctx) }, false, 0},
		"put without room":  {func(ctx context.Context, w *Writer) error { return w.Put(ctx, seq(t, 10, 2)) }, true, 0},
		"async, no room":    {func(ctx context.Context, w *Writer) error { _, err := w.PutAsync(ctx, seq(t, 10, 2)); return err }, true, 0},
		"cancelled already": {func(context.Context, *Writer) error { return nil }, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newTestStore()
				w := mustOpen(t, store, fullOptions())
				do, release := hold()
				store.on(objstore.OpPutIfAbsent, walPart, always, do)
				first := mustPutAsync(t, w, seq(t, 0, 3))
				if tc.full {
					w.c.opts.MaxResidentBytes = w.Stats().ResidentBytes + 1
				}
				ctx, cancel := context.WithCancel(t.Context())
				if name == "cancelled already" {
					cancel()
					for call, err := range map[string]error{"put": w.Put(ctx, seq(t, 10, 2)), "delete": w.Delete(ctx, keysOf(t, 0)), "flush": w.Flush(ctx)} {
						if !errors.Is(err, context.Canceled) {
							t.Errorf("%s: %v", call, err)
						}
					}
				} else {
					done := make(chan error, 1)
					go func() { done <- tc.call(ctx, w) }()
					time.Sleep(time.Second)
					if len(done) > 0 {
						t.Fatalf("the call does not wait: %v", <-done)
					}
					cancelled := time.Now()
					cancel()
					if err := <-done; !errors.Is(err, context.Canceled) || time.Since(cancelled) != 0 {
						t.Errorf("%v after %v", err, time.Since(cancelled))
					}
				}
				release()
				if err := first.Wait(t.Context()); err != nil {
					t.Fatalf("what was on its way: %v", err)
				}
				mustClose(t, w)
				if n := mustOpen(t, store, fullOptions()).Stats().Accepted; n != uint64(3+tc.accepted) {
					t.Errorf("%d rows in the log, want %d", n, 3+tc.accepted)
				}
			})
		})
	}
}

// rowAt reads a row that was looked up.
func rowAt(r Row) testRow {
	return testRow{
		r.Column(0).(*array.Int64).Value(r.Index),
		r.Column(1).(*array.String).Value(r.Index),
		r.Column(2).(*array.Int64).Value(r.Index),
	}
}
