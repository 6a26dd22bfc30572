package memwal

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/memwal/memwal-go/internal/wal"
	"github.com/memwal/memwal-go/memtable"
	"github.com/memwal/memwal-go/objstore"
)

// allPuts lists every PUT that the store got, in the order in which they came.
func allPuts(store *testStore) []request {
	puts := append(store.requests(objstore.OpPutIfAbsent, ""), store.requests(objstore.OpPut, "")...)
	slices.SortStableFunc(puts, func(a, b request) int { return a.at.Compare(b.at) })
	return puts
}

// TestCeilingHoldsOverAnyMinute_Writer counts every PUT of a writer, those of Open and
// Close and the attempts of retries included.
func TestCeilingHoldsOverAnyMinute_Writer(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { writerUnderCeiling(t, rand.New(rand.NewPCG(seed, 6))) })
		})
	}
}

func writerUnderCeiling(t *testing.T, rng *rand.Rand) {
	minute := []int{2, 3, 6, 60, 120}[rng.IntN(5)]
	o := &Options{
		MaxPUTsPerSecond: float64(minute) / 60, FlushBytes: int64(200 + rng.IntN(4000)), MaxInFlight: 1 + rng.IntN(6),
		MaxMemtableRows: 200, Retry: objstore.RetryOptions{MaxAttempts: 100},
	}
	store := newTestStore()
	w := mustOpen(t, store, o)
	faulty := rng.IntN(2) == 0
	var rows int
	for range 150 {
		if faulty && rng.IntN(20) == 0 {
			store.on(objstore.OpPutIfAbsent, walPart, 1+rng.IntN(3), []action{failBefore(errTransient), failAfter(errTransient)}[rng.IntN(2)])
		}
		n := 1 + rng.IntN(6)
		mustPutAsync(t, w, seq(t, int64(rows), n))
		rows += n
		switch rng.IntN(20) {
		case 0:
			time.Sleep(time.Duration(rng.IntN(180)) * time.Second)
		case 1:
			if err := w.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		case 2:
			mustClose(t, w)
			w = mustOpen(t, store, o)
			// Each writer has a ceiling of its own.
			time.Sleep(time.Minute)
		default:
			time.Sleep(time.Duration(rng.IntN(1500)) * time.Millisecond)
		}
	}
	mustClose(t, w)
	w = mustOpen(t, store, nil)
	if got := w.Stats().Durable; got != uint64(rows) {
		t.Errorf("%d rows are durable, want %d", got, rows)
	}

	puts := allPuts(store)
	seen := make(map[string]bool)
	appends := 0
	for i, p := range puts {
		data := walKey(p.key) && !fenceAt(t, store, p.key)
		first := !seen[p.key]
		seen[p.key] = true
		if !data || !first {
			continue // these do not wait
		}
		appends++
		n := 1
		for _, q := range puts[:i] {
			if age := p.at.Sub(q.at); age > 0 && age < time.Minute {
				n++
			}
		}
		if n > minute {
			t.Fatalf("the append of %s ends a minute with %d PUTs, the ceiling allows for %d", p.key, n, minute)
		}
	}
	if appends < 5 {
		t.Errorf("%d appends are no test", appends)
	}
}

func walKey(key string) bool {
	return len(key) > len(layoutOf(testShard).wal) && key[:len(layoutOf(testShard).wal)] == layoutOf(testShard).wal
}

func fenceAt(t *testing.T, store *testStore, key string) bool {
	t.Helper()
	data, err := store.inner.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	h, err := wal.DecodeHeader(data)
	if err != nil {
		t.Fatal(err)
	}
	return h.Fence
}

// TestCeilingAfterOpen: what Open has put is paid for by the first append, which
// waits for a minute at most.
func TestCeilingAfterOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newTestStore()
		w := mustOpen(t, store, &Options{MaxPUTsPerSecond: 1.0 / 30})
		start := time.Now()
		mustPut(t, w, seq(t, 0, 1))
		if took := time.Since(start); took != time.Minute {
			t.Errorf("the first put after Open waited %v, want a minute", took)
		}
		time.Sleep(time.Hour)
		start = time.Now()
		mustPut(t, w, seq(t, 1, 1))
		if took := time.Since(start); took != 0 {
			t.Errorf("a put after an hour waited %v", took)
		}
		start = time.Now()
		mustPutAsync(t, w, seq(t, 2, 1))
		mustClose(t, w)
		if took := time.Since(start); took != time.Minute {
			t.Errorf("Close waited %v for its turn, want a minute", took)
		}
		// With a usual ceiling Open takes tokens, and no time.
		w = mustOpen(t, store, &Options{MaxPUTsPerSecond: 10})
		start = time.Now()
		mustPut(t, w, seq(t, 3, 1))
		if took := time.Since(start); took != 0 {
			t.Errorf("the first put after Open waited %v", took)
		}
	})
}

// TestCeilingEndsInBackpressure writes more than the ceiling lets through: puts
// wait for memory, and nothing is lost.
func TestCeilingEndsInBackpressure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newTestStore()
		batch := batchBytes(t, seq(t, 0, 100))
		w := mustOpen(t, store, &Options{
			WALOnly: true, MaxPUTsPerSecond: 0.5, MaxEntryBytes: 10 * batch, FlushBytes: batch,
			MaxMemtableBytes: 20 * batch, MaxResidentBytes: 60 * batch, StallTimeout: time.Minute,
		})
		start := time.Now()
		const batches = 1000
		for i := range int64(batches) {
			mustPutAsync(t, w, seq(t, 100*i, 100))
		}
		mustClose(t, w)
		entries := len(appends(store))
		if entries < batches/10 || entries > batches/5 {
			t.Errorf("%d entries of up to ten batches for %d batches", entries, batches)
		}
		// 30 a minute: three at once, then one each 2.2 s.
		if took, want := time.Since(start), time.Duration(entries-3)*2200*time.Millisecond; took < want {
			t.Errorf("%d entries took %v, less than the %v that the ceiling makes of it", entries, took, want)
		}
		w = mustOpen(t, store, nil)
		if got := w.Stats().Durable; got != 100*batches {
			t.Errorf("%d rows are durable, want %d", got, 100*batches)
		}
	})
}

// TestX03_EntriesOwedToReplayAreBounded runs random loads. No memtable has rows
// in more WAL entries than the option says, neither as the writer numbers them
// nor as a reopen rebuilds them.
func TestX03_EntriesOwedToReplayAreBounded(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { boundedRecovery(t, rand.New(rand.NewPCG(seed, 7))) })
		})
	}
}

func boundedRecovery(t *testing.T, rng *rand.Rand) {
	o := &Options{
		MaxRecoveryEntries: 2 + rng.IntN(12), FlushInterval: time.Duration(1+rng.IntN(20)) * time.Millisecond,
		FlushBytes: int64(1 + rng.IntN(2000)), MaxEntryBytes: int64(1 + rng.IntN(3000)), MaxInFlight: 1 + rng.IntN(6),
	}
	store := newTestStore()
	w := mustOpen(t, store, o)
	store.on(objstore.OpPutIfAbsent, walPart, always, delay(time.Duration(rng.Int64N(int64(30*time.Millisecond)))))
	var rows int
	for range 300 {
		n := 1 + rng.IntN(6)
		mustPutAsync(t, w, seq(t, int64(rows), n))
		rows += n
		switch rng.IntN(10) {
		case 0:
			if err := w.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		case 1, 2, 3: // no pause
		case 4:
			time.Sleep(time.Duration(rng.IntN(100)) * time.Millisecond)
		default:
			time.Sleep(time.Duration(rng.IntN(5)) * time.Millisecond)
		}
	}
	mustClose(t, w)
	written := entriesOf(t, store)
	if len(written) < 2 {
		t.Errorf("entries of the generations: %v; nothing was rotated", written)
	}
	for generation, n := range written {
		if n > o.MaxRecoveryEntries {
			t.Errorf("generation %d has %d entries, the option says %d", generation, n, o.MaxRecoveryEntries)
		}
	}

	// A smaller bound holds for what is rebuilt, and goes on holding after it.
	o.MaxRecoveryEntries = max(2, o.MaxRecoveryEntries/2)
	w = mustOpen(t, store, o)
	for range 3 {
		checkEntries(t, w.c.live(), o.MaxRecoveryEntries)
		mustPut(t, w, seq(t, int64(rows), 1))
		rows++
	}
	if got := w.Stats().Durable; got != uint64(rows) {
		t.Errorf("%d rows are durable, want %d", got, rows)
	}
}

func checkEntries(t *testing.T, tables []*memtable.Memtable, most int) {
	t.Helper()
	for _, m := range tables {
		if u := m.Usage(); u.Entries > most || u.Rows > 0 && u.Entries == 0 {
			t.Errorf("generation %d: %d rows in %d entries, the option says %d", m.Generation(), u.Rows, u.Entries, most)
		}
	}
}

// entriesOf counts the entries of each generation in the log.
func entriesOf(t *testing.T, store *testStore) map[uint64]int {
	t.Helper()
	n := make(map[uint64]int)
	for _, key := range store.keys(walPart) {
		data, err := store.inner.Get(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		h, err := wal.DecodeHeader(data)
		if err != nil {
			t.Fatal(err)
		}
		if !h.Fence {
			n[h.Generation]++
		}
	}
	return n
}

// TestX03_BytesOwedToReplay: rows that are few to an entry rotate by what the
// entries take in the log.
func TestX03_BytesOwedToReplay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &Options{FlushBytes: 1, MaxRecoveryBytes: 20_000}
		store := newTestStore()
		w := mustOpen(t, store, o)
		for i := range int64(100) {
			mustPut(t, w, seq(t, i, 1))
		}
		mustClose(t, w)
		sizes := make(map[uint64]int)
		for _, key := range store.keys(walPart) {
			data, err := store.inner.Get(t.Context(), key)
			if err != nil {
				t.Fatal(err)
			}
			h, err := wal.DecodeHeader(data)
			if err != nil {
				t.Fatal(err)
			}
			sizes[h.Generation] += len(data)
		}
		if len(sizes) < 3 {
			t.Errorf("bytes of the generations: %v; too few were rotated", sizes)
		}
		for generation, n := range sizes {
			// Of the last entry only the rows were known when it was let in.
			if n > 20_000+2_000 {
				t.Errorf("generation %d has %d bytes in the log", generation, n)
			}
		}
		if w = mustOpen(t, store, o); w.Stats().Memtables < 3 {
			t.Errorf("%d memtables after a reopen", w.Stats().Memtables)
		}
	})
}

func TestStatsCost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newTestStore()
		// Powers of two, so that every product is exact.
		prices := objstore.Prices{ClassA: 0.5, ClassB: 0.25, Delete: 2}
		w := mustOpen(t, store, &Options{Prices: &prices})
		prices.ClassA = 1000 // the writer has its own copy
		store.on(objstore.OpPutIfAbsent, walPart, 2, failBefore(errTransient))
		before := w.Stats().Cost
		for range 10 {
			mustPut(t, w, seq(t, 0, 1))
		}
		got := w.Stats().Cost
		if n := got.ClassA.Requests - before.ClassA.Requests; n != 12 {
			t.Errorf("ten puts and two retries are %d requests of class A", n)
		}
		var a, b uint64
		for _, op := range []objstore.Op{objstore.OpPut, objstore.OpPutIfAbsent, objstore.OpList} {
			a += uint64(store.count(op, ""))
		}
		for _, op := range []objstore.Op{objstore.OpGet, objstore.OpGetRange, objstore.OpHead} {
			b += uint64(store.count(op, ""))
		}
		want := objstore.Cost{
			ClassA: objstore.Charge{Requests: a, Dollars: float64(a) * 0.5 / 1000},
			ClassB: objstore.Charge{Requests: b, Dollars: float64(b) * 0.25 / 1000},
		}
		want.Dollars = want.ClassA.Dollars + want.ClassB.Dollars
		if got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
		mustClose(t, w)

		w = mustOpen(t, store, nil)
		st := w.Stats()
		if want := st.Requests.Cost(objstore.S3Standard()); st.Cost != want || want.Dollars == 0 {
			t.Errorf("by default: %+v, want the list price, %+v", st.Cost, want)
		}
	})
}
