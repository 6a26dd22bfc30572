package memwal

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/memwal/memwal-go/index"
	"github.com/memwal/memwal-go/objstore"
)

func TestV08_PoisonedWriterReturnsTheFirstFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newTestStore()
		w := mustOpen(t, store, keyedOptions())
		mustPut(t, w, batchOf(t, testRow{1, "one", 10}))
		open := mustSnapshot(t, w.Snapshot)
		store.on(objstore.OpPutIfAbsent, walPart, always, failBefore(&objstore.Error{Class: objstore.ErrPermission}))
		first := w.Put(t.Context(), batchOf(t, testRow{2, "two", 20}))

		want, ok := errors.AsType[*AppendError](first)
		if !ok || want.Position != 3 {
			t.Fatalf("put: %v, want an AppendError of position 3", first)
		}
		w.c.poison(errors.New("a later failure"))
		ctx := t.Context()
		for name, call := range map[string]func() error{
			"put":              func() error { return w.Put(ctx, batchOf(t, testRow{3, "three", 30})) },
			"put async":        func() error { _, err := w.PutAsync(ctx, batchOf(t, testRow{3, "three", 30})); return err },
			"delete":           func() error { return w.Delete(ctx, keysOf(t, 1)) },
			"delete async":     func() error { _, err := w.DeleteAsync(ctx, keysOf(t, 1)); return err },
			"flush":            func() error { return w.Flush(ctx) },
			"rotate":           func() error { return w.Rotate(ctx) },
			"snapshot":         func() error { _, err := w.Snapshot(); return err },
			"indexed snapshot": func() error { _, err := w.IndexedSnapshot(); return err },
			"err":              w.Err,
			"close":            func() error { return w.Close(ctx) },
			"close again":      func() error { return w.Close(ctx) },
			"err at last":      w.Err,
		} {
			err := call()
			if got, ok := errors.AsType[*AppendError](err); !ok || got != want {
				t.Errorf("%s: %v, want the first failure", name, err)
			}
			if !errors.Is(err, ErrPoisoned) || !errors.Is(err, ErrPersistence) {
				t.Errorf("%s: %v is not typed", name, err)
			}
		}
		if got := w.Stats(); got.Accepted != 2 || got.Durable != 1 || got.Epoch != 1 || got.WAL.Entries != 1 {
			t.Errorf("stats: %+v", got)
		}
		checkRead(t, open, testRow{1, "one", 10})
	})
}

// TestV09_FailureWakesEveryWaiter has every kind of call wait when the writer
// fails.
func TestV09_FailureWakesEveryWaiter(t *testing.T) {
	for _, tc := range []struct {
		name string
		fail func(t *testing.T, store *testStore, w *Writer) // called once all wait
		want error
	}{
		{"persistence", func(t *testing.T, _ *testStore, _ *Writer) {}, ErrPersistence},
		{"fenced", func(t *testing.T, store *testStore, _ *Writer) {
			mustOpen(t, store.inner, fullOptions())
		}, ErrFenced},
		{"index", func(t *testing.T, _ *testStore, w *Writer) { w.c.indexFailed(errors.New("injected")) }, ErrIndexFailed},
		{"abort", func(t *testing.T, _ *testStore, w *Writer) { w.Abort() }, ErrAborted},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newTestStore()
				w := mustOpen(t, store, fullOptions())
				wire := make(chan struct{})
				store.on(objstore.OpPutIfAbsent, walPart, always, func(ctx context.Context, apply func() error) error {
					select {
					case <-wire:
					case <-ctx.Done():
						return ctx.Err()
					}
					if tc.name == "persistence" {
						return &objstore.Error{Class: objstore.ErrPermission}
					}
					return apply()
				})
				ctx := t.Context()
				var calls []func() error
				for i := range int64(4) {
					ticket := mustPutAsync(t, w, seq(t, i*10, 10))
					calls = append(calls, func() error { return ticket.Wait(ctx) },
						func() error { return ticket.WaitDurable(ctx) },
						func() error { <-ticket.Done(); return ticket.Err() })
				}
				calls = append(calls, func() error { return w.Flush(ctx) })
				full := w.Stats().ResidentBytes + 1
				w.c.opts.MaxResidentBytes = full // set before anything waits for memory
				calls = append(calls, func() error { return w.Put(ctx, seq(t, 100, 10)) })

				type result struct {
					err error
					at  time.Time
				}
				results := make([]result, len(calls))
				var woken atomic.Int64
				for i, call := range calls {
					go func() {
						err := call()
						results[i] = result{err, time.Now()}
						woken.Add(1)
					}()
				}
				time.Sleep(time.Hour)
				synctest.Wait()
				if n := woken.Load(); n > 0 {
					t.Fatalf("%d calls returned before anything happened", n)
				}
				tc.fail(t, store, w)
				close(wire)
				failed := time.Now()
				synctest.Wait()
				if n := woken.Load(); n != int64(len(calls)) {
					t.Fatalf("%d of %d waiters were woken", n, len(calls))
				}
				for i, r := range results {
					if !errors.Is(r.err, tc.want) || !errors.Is(r.err, ErrPoisoned) {
						t.Errorf("call %d: %v, want %v", i, r.err, tc.want)
					}
					if !r.at.Equal(failed) {
						t.Errorf("call %d returned %v after the failure", i, r.at.Sub(failed))
					}
				}
				if n := w.c.cursors.Waiting(); n != 0 {
					t.Errorf("%d waiters are left", n)
				}
			})
		})
	}
}

// fullOptions let a put wait for memory and the store for ever.
func fullOptions() *Options {
	o := patient(keyedOptions())
	o.StallTimeout = 1000 * time.Hour
	o.OwnershipCheckAfter, o.FenceRetention = 1000*time.Hour, 100_000*time.Hour
	return o
}

func TestV10_LostReplyOfAnAppliedAppend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newTestStore()
		w := mustOpen(t, store, keyedOptions())
		store.on(objstore.OpPutIfAbsent, walPart, 1, failAfter(&objstore.Error{Class: objstore.ErrAmbiguous}))
		mustPut(t, w, batchOf(t, testRow{1, "one", 10}))
		mustPut(t, w, batchOf(t, testRow{2, "two", 20}))
		mustClose(t, w)

		puts := store.requests(objstore.OpPutIfAbsent, walPart)
		if len(puts) != 4 { // the fence, the first entry twice, the second
			t.Fatalf("%d puts", len(puts))
		}
		if puts[1].key != puts[2].key || puts[1].sum != puts[2].sum || !errors.Is(puts[2].err, objstore.ErrExists) {
			t.Errorf("the retry differs: %+v, %+v", puts[1], puts[2])
		}
		if n := len(store.keys(walPart)); n != 3 {
			t.Errorf("%d WAL objects, want the fence and two entries", n)
		}
		w = mustOpen(t, store, keyedOptions())
		if got := w.Stats(); got.Accepted != 2 || got.Open.Entries != 2 || got.Open.Dead != 0 {
			t.Errorf("reopened: %d rows of %d entries, %d dead", got.Accepted, got.Open.Entries, got.Open.Dead)
		}
		checkRead(t, mustSnapshot(t, w.Snapshot), testRow{1, "one", 10}, testRow{2, "two", 20})
	})
}

func TestV11_TransientFailureIsRetriedInPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newTestStore()
		o := keyedOptions()
		o.FlushBytes = 1 // each batch is an entry
		w := mustOpen(t, store, o)
		store.on(objstore.OpPutIfAbsent, walPart, 4, failBefore(errTransient))
		var tickets []*Ticket
		for i := range int64(3) {
			tickets = append(tickets, mustPutAsync(t, w, batchOf(t, testRow{i, "row", i})))
			synctest.Wait() // it is on its way
		}
		for i, ticket := range tickets {
			if err := ticket.Wait(t.Context()); err != nil {
				t.Fatalf("put %d: %v", i, err)
			}
		}
		sums := make(map[string]uint32)
		for _, r := range store.requests(objstore.OpPutIfAbsent, walPart) {
			if sum, again := sums[r.key]; again && sum != r.sum {
				t.Errorf("%s was put again with other bytes", r.key)
			}
			sums[r.key] = r.sum
		}
		if n := store.count(objstore.OpPutIfAbsent, walPart); len(sums) != 4 || n != 8 {
			t.Errorf("%d puts at %d positions, want the fence, 3 entries and 4 retries", n, len(sums))
		}
		mustClose(t, w)
		w = mustOpen(t, store, o)
		if got := w.Stats(); got.Open.Entries != 3 || got.Open.Dead != 0 {
			t.Errorf("reopened: %d entries, %d dead", got.Open.Entries, got.Open.Dead)
		}
		checkRead(t, mustSnapshot(t, w.Snapshot), testRow{0, "row", 0}, testRow{1, "row", 1}, testRow{2, "row", 2})
	})
}

// TestV15_FrozenTailGoesFirst has a tick fall due while the window is full; by
// the time it is acted on, the memtable that it was due for is frozen.
func TestV15_FrozenTailGoesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newTestStore()
		o := patient(keyedOptions())
		o.MaxInFlight = 1
		w := mustOpen(t, store, o)
		do, release := hold()
		store.on(objstore.OpPutIfAbsent, walPart, 1, do)
		mustPutAsync(t, w, batchOf(t, testRow{1, "on its way", 10}))
		synctest.Wait()
		mustPutAsync(t, w, batchOf(t, testRow{1, "the frozen tail", 20}, testRow{2, "the frozen tail", 21}))
		time.Sleep(100 * time.Millisecond) // a tick is due, and there is no room
		if err := w.Rotate(t.Context()); err != nil {
			t.Fatal(err)
		}
		last := mustPutAsync(t, w, batchOf(t, testRow{1, "the newest", 30}))
		time.Sleep(time.Second)
		release()
		if err := last.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := []testRow{{2, "the frozen tail", 21}, {1, "the newest", 30}}
		checkRead(t, mustSnapshot(t, w.Snapshot), want...)
		w.Abort()
		w = mustOpen(t, store, o)
		checkRead(t, mustSnapshot(t, w.Snapshot), want...)
		if got := w.Stats(); got.Open.Entries != 3 || got.Memtables != 2 {
			t.Errorf("%d entries, %d memtables: an entry spans two memtables", got.Open.Entries, got.Memtables)
		}
	})
}

func TestV16_DurableNeedsAnInterval(t *testing.T) {
	for name, tc := range map[string]struct {
		o  Options
		ok bool
	}{
		"none":                     {Options{FlushInterval: -1}, false},
		"none, but a size":         {Options{FlushInterval: -1, FlushBytes: 100}, false},
		"none, visible if indexed": {Options{FlushInterval: -1, Visibility: VisibleIndexed}, true},
		"default":                  {Options{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			store := newTestStore()
			w, err := Open(t.Context(), store, testShard, testSchema, &tc.o)
			if tc.ok {
				if err != nil {
					t.Fatal(err)
				}
				w.Abort()
				return
			}
			bad, ok := errors.AsType[*OptionError](err)
			if !errors.Is(err, ErrInvalid) || !ok || bad.Field != "FlushInterval" {
				t.Errorf("open: %v, want an error about FlushInterval", err)
			}
			if keys := store.keys(""); len(keys) > 0 {
				t.Errorf("a refused open wrote %v", keys)
			}
		})
	}
}

func TestV18_FlushDoesNotWaitForTheInterval(t *testing.T) {
	for name, o := range map[string]*Options{
		"interval":    {FlushInterval: time.Hour},
		"no interval": {FlushInterval: -1, Visibility: VisibleIndexed},
		"one put":     {FlushInterval: time.Hour, MaxInFlight: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const latency = 30 * time.Millisecond
				store := newTestStore()
				o.PrimaryKey, o.Indexes = keyedOptions().PrimaryKey, keyedOptions().Indexes
				w := mustOpen(t, store, o)
				store.on(objstore.OpPutIfAbsent, walPart, always, delay(latency))
				var tickets []*Ticket
				for i := range int64(3) { // rows of three memtables
					tickets = append(tickets, mustPutAsync(t, w, batchOf(t, testRow{i, "row", i})))
					if err := w.Rotate(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				tickets = append(tickets, mustPutAsync(t, w, batchOf(t, testRow{9, "active", 9})))
				start := time.Now()
				if err := w.Flush(t.Context()); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(start); took > 4*latency {
					t.Errorf("flush took %v", took)
				}
				for i, ticket := range tickets {
					if err := ticket.WaitDurable(t.Context()); err != nil {
						t.Errorf("row %d: %v", i, err)
					}
				}
				if got := w.Stats(); got.Durable != 4 {
					t.Errorf("%d rows are durable after Flush", got.Durable)
				}
				before := store.count(objstore.OpPutIfAbsent, walPart)
				if err := w.Flush(t.Context()); err != nil { // nothing to do
					t.Fatal(err)
				}
				if n := store.count(objstore.OpPutIfAbsent, walPart) - before; n != 0 {
					t.Errorf("an idle flush made %d puts", n)
				}
				w.Abort() // nothing but Flush made them durable
				w = mustOpen(t, store, o)
				checkRead(t, mustSnapshot(t, w.Snapshot),
					testRow{0, "row", 0}, testRow{1, "row", 1}, testRow{2, "row", 2}, testRow{9, "active", 9})
			})
		})
	}
}

// TestWriterLetsGoOfItsMemory ends writers in every way, with puts in flight and
// snapshots open, and looks for what is left. Goroutines that are left end the
// bubble with a panic.
func TestWriterLetsGoOfItsMemory(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, store *testStore, w *Writer){
		"close": func(t *testing.T, _ *testStore, w *Writer) { mustClose(t, w) },
		"abort": func(t *testing.T, _ *testStore, w *Writer) { w.Abort() },
		"abort with puts in flight": func(t *testing.T, store *testStore, w *Writer) {
			do, release := hold()
			defer release()
			store.on(objstore.OpPutIfAbsent, walPart, always, do)
			for i := range int64(5) {
				mustPutAsync(t, w, seq(t, i*100, 20))
				synctest.Wait()
			}
			w.Abort()
		},
		"failed": func(t *testing.T, store *testStore, w *Writer) {
			store.on(objstore.OpPutIfAbsent, walPart, always, failBefore(&objstore.Error{Class: objstore.ErrPermission}))
			if err := w.Put(t.Context(), seq(t, 500, 20)); !errors.Is(err, ErrPersistence) {
				t.Errorf("put: %v", err)
			}
			w.Close(t.Context())
		},
		"close cut short": func(t *testing.T, store *testStore, w *Writer) {
			do, release := hold()
			defer release()
			store.on(objstore.OpPutIfAbsent, walPart, always, do)
			mustPutAsync(t, w, seq(t, 600, 20))
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if err := w.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("close: %v", err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem := memory.NewCheckedAllocator(memory.NewGoAllocator())
				defer mem.AssertSize(t, 0)
				store := newTestStore()
				o := patient(keyedOptions())
				o.Allocator, o.Compression, o.FlushBytes = mem, CompressionZstd, 1000
				w := mustOpen(t, store, o)
				for i := range int64(10) {
					rec := seq(t, i*100, 50)
					part := rec.NewSlice(0, 3) // is compacted into memory of mem
					mustPut(t, w, part)
					part.Release()
				}
				mustClose(t, w)
				w = mustOpen(t, store, o) // replay decodes into memory of mem
				mustPut(t, w, seq(t, 1, 100))
				if err := w.Rotate(t.Context()); err != nil {
					t.Fatal(err)
				}
				mustPut(t, w, seq(t, 50, 100))
				s, err := w.Snapshot()
				if err != nil {
					t.Fatal(err)
				}
				want := snapshotRows(t, s)
				r, err := s.Range(t.Context(), "by_n", index.Range{}, ScanOptions{BatchRows: 10})
				if err != nil || !r.Next() {
					t.Fatalf("range: %v", err)
				}
				end(t, store, w)
				if got := snapshotRows(t, s); !slices.Equal(got, want) {
					t.Error("the snapshot changed when the writer ended")
				}
				if got := w.Stats(); got.Snapshots != 1 || got.ResidentBytes != 0 || got.Memtables != 0 {
					t.Errorf("after the end: %d snapshots, %d bytes, %d memtables", got.Snapshots, got.ResidentBytes, got.Memtables)
				}
				s.Close()
				for r.Next() { // a reader that is open outlives its snapshot
				}
				if r.Err() != nil {
					t.Error(r.Err())
				}
				r.Release()
			})
		})
	}
}
