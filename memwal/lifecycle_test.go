package memwal

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/memwal/memwal-go/dispatcher"
	"github.com/memwal/memwal-go/internal/wal"
	"github.com/memwal/memwal-go/memtable"
	"github.com/memwal/memwal-go/objstore"
)

// A bubble of testing/synctest fails its test when goroutines are left that wait
// for each other, so each test below that ends in one is a leak check as well.

func TestG07_CloseMakesEverythingDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := objstore.NewMemory()
		o := &Options{FlushInterval: time.Hour, PrimaryKey: []string{"id"}}
		w := mustOpen(t, store, o)
		mustPut(t, w, seq(t, 0, 1)) // the interval starts
		start := time.Now()
		tickets := []*Ticket{mustPutAsync(t, w, seq(t, 1, 3))}
		if err := w.Rotate(t.Context()); err != nil {
			t.Fatal(err)
		}
		tickets = append(tickets, mustPutAsync(t, w, seq(t, 4, 3)), mustPutAsync(t, w, seq(t, 7, 0)))
		mustClose(t, w)
		if took := time.Since(start); took != 0 {
			t.Errorf("it waited %v", took)
		}
		for i, ticket := range tickets {
			if err := ticket.Wait(t.Context()); err != nil {
				t.Errorf("ticket %d: %v", i, err)
			}
		}
		if err := w.Err(); !errors.Is(err, ErrClosed) {
			t.Errorf("err: %v", err)
		}
		// Again is harmless, and so is Abort.
		mustClose(t, w)
		if err := w.Abort(); err != nil {
			t.Error(err)
		}
		mustClose(t, w)
		checkRows(t, mustOpen(t, store, o), wantSeq(0, 7))
	})
}

func TestG07_CallsDuringClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newTestStore()
		o := patient(&Options{PrimaryKey: []string{"id"}})
		w := mustOpen(t, store, o)
		mustPut(t, w, seq(t, 0, 1))
		do, release := hold()
		store.on(objstore.OpPutIfAbsent, walPart, always, do)
		last := mustPutAsync(t, w, seq(t, 1, 1))

		var wg sync.WaitGroup
		var closed atomic.Int64
		for range 3 {
			wg.Go(func() {
				if err := w.Close(t.Context()); err != nil {
					t.Errorf("close: %v", err)
				}
				closed.Add(1)
			})
		}
		synctest.Wait()
		if n := closed.Load(); n > 0 {
			t.Errorf("%d of 3 calls have returned, with a row on its way", n)
		}
		if err := w.Put(t.Context(), seq(t, 2, 1)); !errors.Is(err, ErrClosed) {
			t.Errorf("put: %v", err)
		}
		if err := w.Rotate(t.Context()); !errors.Is(err, ErrClosed) {
			t.Errorf("rotate: %v", err)
		}
		if got := rowsOf(t, w); !slices.Equal(got, wantSeq(0, 1)) {
			t.Errorf("reading while it closes: %v", got)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := w.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a close that gives up waiting for the first: %v", err)
		}
		release()
		wg.Wait()
		if err := last.Wait(t.Context()); err != nil {
			t.Error(err)
		}
		checkRows(t, mustOpen(t, store, o), wantSeq(0, 2))
	})
}

func TestG07_CloseReturnsTheFirstFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newTestStore()
		w := mustOpen(t, store, nil)
		store.on(objstore.OpPutIfAbsent, walPart, always, failBefore(&objstore.Error{Class: objstore.ErrPermission}))
		put := w.Put(t.Context(), seq(t, 0, 1))
		for range 2 {
			err := w.Close(t.Context())
			if !errors.Is(err, ErrPersistence) || !errors.Is(err, objstore.ErrPermission) || !errors.Is(err, ErrPoisoned) {
				t.Errorf("close: %v", err)
			}
			if !errors.Is(put, err.(*PoisonedError).Cause) {
				t.Errorf("put failed with %v, close with %v", put, err)
			}
			if err := w.Abort(); err != nil {
				t.Error(err)
			}
		}
		if err := w.Err(); !errors.Is(err, ErrPersistence) {
			t.Errorf("err: %v", err)
		}
	})
}

func TestG07_CloseGivesUpWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newTestStore()
		w := mustOpen(t, store, patient(&Options{}))
		mustPut(t, w, seq(t, 0, 1))
		do, _ := hold()
		defer store.on(objstore.OpPutIfAbsent, walPart, always, do)()
		ticket := mustPutAsync(t, w, seq(t, 1, 1))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		err := w.Close(ctx)
		if took := time.Since(start); !errors.Is(err, context.DeadlineExceeded) || took != time.Minute {
			t.Errorf("close: %v after %v", err, took)
		}
		if err := ticket.Wait(t.Context()); !errors.Is(err, ErrClosed) {
			t.Errorf("ticket: %v", err)
		}
		if again := w.Close(t.Context()); !errors.Is(again, err) {
			t.Errorf("close again: %v", again)
		}
	})
}

// TestG08_AbortFromAnyState aborts a writer that is in the midst of something.
// It must take no time, wake everybody, and write nothing from then on.
func TestG08_AbortFromAnyState(t *testing.T) {
	for _, tt := range []struct {
		name  string
		prime func(t *testing.T, w *Writer, store *testStore, wait func(func() error))
	}{
		{"fresh", func(*testing.T, *Writer, *testStore, func(func() error)) {}},
		{"idle", func(t *testing.T, w *Writer, _ *testStore, _ func(func() error)) { mustPut(t, w, seq(t, 0, 1)) }},
		{"rows wait for the interval", func(t *testing.T, w *Writer, _ *testStore, wait func(func() error)) {
			mustPut(t, w, seq(t, 0, 1))
			ticket := mustPutAsync(t, w, seq(t, 1, 1))
			wait(func() error { return ticket.Wait(t.Context()) })
			wait(func() error { return ticket.WaitDurable(t.Context()) })
		}},
		{"put in flight", func(t *testing.T, w *Writer, store *testStore, wait func(func() error)) {
			do, _ := hold()
			store.on(objstore.OpPutIfAbsent, walPart, always, do)
			ticket := mustPutAsync(t, w, seq(t, 0, 1))
			wait(func() error { return ticket.Wait(t.Context()) })
			wait(func() error { return w.Flush(t.Context()) })
		}},
		{"put waits for memory", func(t *testing.T, w *Writer, store *testStore, wait func(func() error)) {
			do, _ := hold()
			store.on(objstore.OpPutIfAbsent, walPart, always, do)
			batches := make([]arrow.RecordBatch, 20)
			for i := range batches {
				batches[i] = seq(t, 0, 1000)
				wait(func() error { return w.Put(t.Context(), batches[i]) })
			}
			synctest.Wait()
			if n := w.Stats().Accepted; n == 20_000 {
				t.Error("no put waits")
			}
		}},
		{"store fails for the time being", func(t *testing.T, w *Writer, store *testStore, wait func(func() error)) {
			store.on(objstore.OpPutIfAbsent, walPart, always, failBefore(errTransient))
			wait(func() error { return w.Put(t.Context(), seq(t, 0, 1)) })
		}},
		{"put without an answer", func(t *testing.T, w *Writer, store *testStore, wait func(func() error)) {
			store.on(objstore.OpPutIfAbsent, walPart, always, func(ctx context.Context, apply func() error) error {
				err := apply()
				<-ctx.Done()
				return errors.Join(err, ctx.Err())
			})
			ticket := mustPutAsync(t, w, seq(t, 0, 1))
			wait(func() error { return ticket.Wait(t.Context()) })
		}},
		{"ownership check", func(t *testing.T, w *Writer, store *testStore, wait func(func() error)) {
			time.Sleep(2000 * time.Hour) // the proof is old
			do, _ := hold()
			store.on(objstore.OpList, "/manifest/", always, do)
			ticket := mustPutAsync(t, w, seq(t, 0, 1))
			wait(func() error { return ticket.Wait(t.Context()) })
			synctest.Wait()
			if n := w.Stats().WAL.OwnershipChecks; n != 1 {
				t.Errorf("%d ownership checks", n)
			}
		}},
		{"comparing who holds the position", func(t *testing.T, w *Writer, store *testStore, wait func(func() error)) {
			do, _ := hold()
			store.on(objstore.OpPutIfAbsent, walPart, 1, failAfter(errAmbiguous))
			store.on(objstore.OpGet, walPart, always, do)
			ticket := mustPutAsync(t, w, seq(t, 0, 1))
			wait(func() error { return ticket.Wait(t.Context()) })
			time.Sleep(time.Minute)
		}},
		{"dead object in the way", func(t *testing.T, w *Writer, store *testStore, wait func(func() error)) {
			fence := logOf(t, store.inner)[0]
			for pos := uint64(2); pos < 20; pos++ { // copies of its fence are dead
				putRaw(t, store.inner, layoutOf(testShard).wal+wal.Name(pos), fence.data)
			}
			do, _ := hold()
			pass := func(_ context.Context, apply func() error) error { return apply() }
			store.on(objstore.OpPutIfAbsent, walPart, 3, pass)
			store.on(objstore.OpPutIfAbsent, walPart, always, do)
			ticket := mustPutAsync(t, w, seq(t, 0, 1))
			wait(func() error { return ticket.Wait(t.Context()) })
		}},
		{"during Close", func(t *testing.T, w *Writer, store *testStore, wait func(func() error)) {
			do, _ := hold()
			store.on(objstore.OpPutIfAbsent, walPart, always, do)
			ticket := mustPutAsync(t, w, seq(t, 0, 1))
			wait(func() error { return ticket.Wait(t.Context()) })
			wait(func() error { return w.Close(t.Context()) })
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newTestStore()
				w := mustOpen(t, store, patient(&Options{
					PrimaryKey: []string{"id"}, MaxMemtableBytes: 128 << 10, MaxResidentBytes: 256 << 10, StallTimeout: 1000 * time.Hour}))
				var wg sync.WaitGroup
				tt.prime(t, w, store, func(call func() error) {
					wg.Go(func() {
						if err := call(); !errors.Is(err, ErrAborted) || !errors.Is(err, ErrPoisoned) {
							t.Errorf("a call that waited returned %v", err)
						}
					})
				})
				synctest.Wait()
				entries, start := len(store.keys(walPart)), time.Now()
				for range 2 {
					if err := w.Abort(); err != nil {
						t.Error(err)
					}
				}
				wg.Wait()
				if took := time.Since(start); took != 0 {
					t.Errorf("it took %v", took)
				}
				asked := store.count("", "")
				time.Sleep(100 * time.Hour)
				if n := len(store.keys(walPart)); n != entries || store.count("", "") != asked {
					t.Errorf("%d WAL objects, were %d; %d requests, were %d", n, entries, store.count("", ""), asked)
				}
				for name, err := range map[string]error{
					"put": w.Put(t.Context(), seq(t, 9, 1)), "flush": w.Flush(t.Context()), "err": w.Err(), "close": w.Close(t.Context()),
					"snapshot": second(w.Snapshot()),
				} {
					if !errors.Is(err, ErrAborted) {
						t.Errorf("%s: %v", name, err)
					}
				}
				if got := w.Stats(); got.ResidentBytes != 0 || got.Memtables != 0 {
					t.Errorf("%d bytes in %d memtables are left", got.ResidentBytes, got.Memtables)
				}
			})
		})
	}
}

// TestG08_AbortWaitsForNoCeiling aborts while rows wait for the ceiling.
func TestG08_AbortWaitsForNoCeiling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newTestStore()
		w := mustOpen(t, store, &Options{MaxPUTsPerSecond: 1.0 / 30})
		for i := range int64(3) {
			mustPutAsync(t, w, seq(t, i, 1))
		}
		last := mustPutAsync(t, w, seq(t, 3, 1))
		waited := make(chan error, 1)
		go func() { waited <- last.Wait(t.Context()) }()
		time.Sleep(time.Second)
		entries, start := len(store.keys(walPart)), time.Now()
		w.Abort()
		if err := <-waited; !errors.Is(err, ErrAborted) || time.Since(start) != 0 {
			t.Errorf("the put: %v after %v", err, time.Since(start))
		}
		time.Sleep(time.Hour)
		if n := len(store.keys(walPart)); n != entries {
			t.Errorf("%d WAL objects, were %d", n, entries)
		}
	})
}

// TestG08_AbortDuringTheRecordOfClose aborts when a Close has made all rows durable
// and is about to note in the manifest how far the log reaches.
func TestG08_AbortDuringTheRecordOfClose(t *testing.T) {
	for _, op := range []objstore.Op{objstore.OpList, objstore.OpGet, objstore.OpPutIfAbsent, objstore.OpPut} {
		t.Run(string(op), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newTestStore()
				w := mustOpen(t, store, nil)
				mustPut(t, w, seq(t, 0, 2))
				do, _ := hold()
				store.on(op, "/manifest/", always, do)
				closed := make(chan error, 1)
				go func() { closed <- w.Close(t.Context()) }()
				synctest.Wait()
				if len(closed) > 0 {
					t.Fatal("Close does not wait")
				}
				start := time.Now()
				w.Abort()
				if took := time.Since(start); took != 0 {
					t.Errorf("Abort took %v", took)
				}
				if err := <-closed; err != nil { // the rows are durable
					t.Errorf("close: %v", err)
				}
				checkRows(t, mustOpen(t, store.inner, nil), wantSeq(0, 2))
			})
		})
	}
}

// stacks lists the stacks of the goroutines that run code of this module, but
// for the tests themselves.
func stacks() []string {
	buf := make([]byte, 1<<20)
	buf = buf[:runtime.Stack(buf, true)]
	var found []string
	for _, s := range strings.Split(string(buf), "\n\n") {
		if strings.Contains(s, "github.com/memwal/memwal-go/") && !strings.Contains(s, "testing.tRunner") &&
			!strings.Contains(s, "/internal/miniotest/") { // MinIO runs until all tests are done
			found = append(found, s)
		}
	}
	return found
}

// gone waits until nothing of this module runs, and lets the garbage collector
// find what was dropped.
func gone(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		runtime.GC()
		left := stacks()
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines are left:\n%s", len(left), strings.Join(left, "\n\n"))
		}
	}
}

// TestG08_DroppedWriter leaves a writer without Close. Outside of a bubble, since
// the garbage collector is.
func TestG08_DroppedWriter(t *testing.T) {
	gone(t) // of the tests before
	store := newTestStore()
	o := &Options{PrimaryKey: []string{"id"}, FlushInterval: time.Hour, MaxMemtableAge: time.Second}
	open := func() *Writer {
		w, err := Open(t.Context(), store, testShard, testSchema, o)
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	s, ticket := func() (*Snapshot, *Ticket) {
		w := open()
		mustPut(t, w, seq(t, 0, 1))
		s, err := w.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		return s, mustPutAsync(t, w, seq(t, 1, 1))
	}()
	// A ticket keeps the writer: its rows are on their way.
	runtime.GC()
	runtime.GC()
	if err := ticket.w.Flush(t.Context()); err != nil || ticket.Wait(t.Context()) != nil {
		t.Fatalf("the writer of a ticket ended: %v", err)
	}
	last := mustPutAsync(t, ticket.w, seq(t, 2, 1)).Done()
	ticket = nil
	gone(t)
	select {
	case <-last:
	default:
		t.Error("a waiter was not woken")
	}
	if n := len(store.keys(walPart)); n != 3 {
		t.Errorf("%d WAL objects, want a fence and two entries", n)
	}
	if got := snapshotRows(t, s); !slices.Equal(got, wantSeq(0, 1)) {
		t.Errorf("a snapshot that outlives its writer: %v", got)
	}
	s.Close()
	w := open()
	checkRows(t, w, wantSeq(0, 2))
	mustClose(t, w)
	runtime.KeepAlive(w)
	gone(t)
}

func TestG09_MemtablesAreRotatedByAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const age = time.Minute
		store := newTestStore()
		w := mustOpen(t, store, &Options{MaxMemtableAge: age})
		check := func(when string, generation uint64) {
			t.Helper()
			synctest.Wait()
			if got := w.Stats().Generation; got != generation {
				t.Errorf("%s: generation %d, want %d", when, got, generation)
			}
		}
		time.Sleep(10 * age)
		check("without rows", 1)
		start := time.Now()
		mustPut(t, w, seq(t, 0, 1))
		time.Sleep(age / 2)
		mustPut(t, w, seq(t, 1, 1)) // does not make it younger
		time.Sleep(age/2 - time.Second)
		check("a second before", 1)
		time.Sleep(age/4 + time.Second)
		check("a quarter later", 2)
		time.Sleep(10 * age)
		check("idle", 2)
		mustPut(t, w, seq(t, 2, 1))
		time.Sleep(2 * age)
		check("again", 3)
		checkRows(t, w, wantSeq(0, 3))
		if time.Since(start) > 20*age {
			t.Error("the test waits too long to tell")
		}
		// Rows that come back from the log age in memory, too.
		mustClose(t, w)
		w = mustOpen(t, store, &Options{MaxMemtableAge: age})
		generation := w.Stats().Generation
		time.Sleep(2 * age)
		check("after reopening", generation+1)
		mustClose(t, w)

		w = mustOpen(t, store, nil)
		generation = w.Stats().Generation
		time.Sleep(1000 * time.Hour)
		check("without the option", generation)
	})
}

// countingHandler counts what is logged.
type countingHandler struct {
	slog.Handler
	n *atomic.Int64
}

func (h countingHandler) Enabled(context.Context, slog.Level) bool { return true }
func (h countingHandler) WithAttrs([]slog.Attr) slog.Handler       { return h }
func (h countingHandler) Handle(context.Context, slog.Record) error {
	h.n.Add(1)
	return nil
}

func TestG11_PanicsAndErrorsPoison(t *testing.T) {
	broken := func(w *Writer) { w.c.view.Store(&view{tables: []*memtable.Memtable{nil}}) }
	for _, tt := range []struct {
		name string
		harm func(t *testing.T, w *Writer, store *testStore)
		want error
	}{
		{"the store panics", func(t *testing.T, w *Writer, store *testStore) {
			store.on(objstore.OpPutIfAbsent, walPart, 1, func(context.Context, func() error) error { panic("injected") })
		}, ErrPersistence},
		{"the flusher panics", func(t *testing.T, w *Writer, store *testStore) {
			before := w.c.view.Load()
			broken(w)
			w.c.flusher.Wake()
			synctest.Wait()
			w.c.view.Store(before)
		}, nil},
		{"the applier panics", func(t *testing.T, w *Writer, store *testStore) {
			before := w.c.view.Load()
			broken(w)
			w.c.cursors.Accept(w.c.cursors.Accepted() + 1)
			w.c.applier.Wake()
			synctest.Wait()
			w.c.view.Store(before)
		}, ErrIndexFailed},
		{"the ownership check panics", func(t *testing.T, w *Writer, store *testStore) {
			time.Sleep(time.Hour) // the proof is old
			store.on(objstore.OpList, "/manifest/", 1, func(context.Context, func() error) error { panic("injected") })
		}, ErrPersistence},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, logged := newTestStore(), new(atomic.Int64)
				o := keyedOptions()
				o.Logger = slog.New(countingHandler{n: logged})
				o.MaxMemtableAge = time.Second
				w := mustOpen(t, store, o)
				mustPut(t, w, batchOf(t, testRow{1, "one", 10}))
				s := mustSnapshot(t, w.Snapshot)
				tt.harm(t, w, store)
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				for name, err := range map[string]error{
					"put": w.Put(ctx, seq(t, 2, 1)), "flush": w.Flush(ctx), "rotate": w.Rotate(ctx), "snapshot": second(w.Snapshot()),
				} {
					if !errors.Is(err, ErrPoisoned) || tt.want != nil && !errors.Is(err, tt.want) {
						t.Errorf("%s: %v", name, err)
					}
					if _, ok := errors.AsType[*dispatcher.PanicError](err); !ok {
						t.Errorf("%s does not tell of the panic: %v", name, err)
					}
				}
				checkRead(t, s, testRow{1, "one", 10})
				n := logged.Load()
				time.Sleep(time.Hour)
				if got := logged.Load(); n == 0 || got != n {
					t.Errorf("%d lines were logged, %d after an hour", n, got)
				}
				if err := w.Close(ctx); !errors.Is(err, ErrPoisoned) {
					t.Errorf("close: %v", err)
				}
				// What was on its way then may be there or not.
				if got := rowsOf(t, mustOpen(t, store, keyedOptions())); len(got) > 2 || got[0] != (testRow{1, "one", 10}) {
					t.Errorf("after reopening: %v", got)
				}
			})
		})
	}
}

// TestG11_TransientFailureIsRetried: neither the put nor the writer ends.
func TestG11_TransientFailureIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newTestStore()
		w := mustOpen(t, store, keyedOptions())
		for _, err := range []error{errTransient, &objstore.Error{Class: objstore.ErrConflict}, &objstore.Error{Class: objstore.ErrAmbiguous}, errors.New("unknown")} {
			store.on(objstore.OpPutIfAbsent, walPart, 2, failBefore(err))
			mustPut(t, w, seq(t, 0, 2))
		}
		checkRows(t, w, wantSeq(0, 2))
		mustClose(t, w)
	})
}
