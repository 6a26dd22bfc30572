package replay

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/memwal/memwal-go/index"
	"github.com/memwal/memwal-go/internal/schema"
	"github.com/memwal/memwal-go/internal/wal"
	"github.com/memwal/memwal-go/memtable"
	"github.com/memwal/memwal-go/objstore/faultstore"
)

// keyedTable is a table with a key, a number and a text, and indexes on both.
type keyedTable struct {
	schema *arrow.Schema
	spec   *index.Spec
}

var keyedIndexes = []string{"by n", "by s", "by both"}

func newKeyedTable(t testing.TB) keyedTable {
	t.Helper()
	user := arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64}, {Name: "n", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
		{Name: "s", Type: arrow.BinaryTypes.String, Nullable: true},
	}, nil)
	table, err := schema.Storage(user, []string{"id"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	spec, err := index.Bind(table.Schema, []index.Column{{Name: "id"}}, []index.Config{
		index.Ordered{Name: "by n", Columns: []index.Column{{Name: "n"}}},
		index.Ordered{Name: "by s", Columns: []index.Column{{Name: "s"}}},
		index.Ordered{Name: "by both", Columns: []index.Column{{Name: "s"}, {Name: "n"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return keyedTable{table.Schema, spec}
}

// batch makes random rows: keys that come again, tombstones, nulls, equal values.
func (k keyedTable) batch(r *rand.Rand, rows, keys int) arrow.RecordBatch {
	b := array.NewRecordBuilder(memory.DefaultAllocator, k.schema)
	defer b.Release()
	for range rows {
		for c, f := range k.schema.Fields() {
			switch col := b.Field(c).(type) {
			case *array.Int64Builder:
				if f.Name == "id" {
					col.Append(int64(r.IntN(keys)))
				} else if r.IntN(9) == 0 {
					col.AppendNull()
				} else {
					col.Append(int64(r.IntN(2*keys)) << r.IntN(30))
				}
			case *array.StringBuilder:
				if r.IntN(9) == 0 {
					col.AppendNull()
				} else {
					col.Append(pick(r, "", "a", "a longer text, the same for many ") + fmt.Sprint(r.IntN(keys)))
				}
			case *array.BooleanBuilder:
				col.Append(r.IntN(8) == 0)
			default:
				b.Field(c).AppendNull()
			}
		}
	}
	return b.NewRecordBatch()
}

func (k keyedTable) newTable(generation, firstRow uint64) *memtable.Memtable {
	return memtable.New(memtable.Config{Generation: generation, FirstRow: firstRow, Schema: k.schema, Spec: k.spec, Created: time.Now()})
}

func (k keyedTable) loader(limits memtable.Limits) LoaderConfig {
	return LoaderConfig{
		Schema: k.schema, From: wal.Start(), Limits: limits, NewTable: k.newTable,
		OnIndexError: func(_ *memtable.Memtable, err error) error { return err },
	}
}

// log writes random entries.
func (k keyedTable) log(t testing.TB, r *rand.Rand, entries, batches, rows, keys int) *builder {
	t.Helper()
	b := newBuilder(t)
	b.schema = k.schema
	epoch := uint64(1)
	for range entries {
		switch r.IntN(10) {
		case 0:
			b.generation(b.at.Generation + 1)
		case 1:
			epoch++
			b.fence(epoch)
		case 2:
			b.entry(wal.Header{Epoch: epoch, PutID: wal.NewPutID(), PrevPutID: wal.NewPutID(), FirstRow: b.at.NextRow, Generation: 1}, 0)
		default:
			var recs []arrow.RecordBatch
			var n uint64
			for range 1 + r.IntN(batches) {
				rec := k.batch(r, r.IntN(rows+1), keys)
				defer rec.Release()
				recs, n = append(recs, rec), n+uint64(rec.NumRows())
			}
			h := wal.Header{Epoch: epoch, PutID: wal.NewPutID(), PrevPutID: b.at.PutID, FirstRow: b.at.NextRow, Generation: b.at.Generation}
			enc, err := wal.Encode(h, k.schema, recs, nil, b.encode)
			if err != nil {
				t.Fatal(err)
			}
			b.put(enc.Body)
			enc.Release()
			b.at.PutID, b.at.NextRow, b.at.Position = h.PutID, b.at.NextRow+n, b.pos
		}
	}
	return b
}

// again makes a memtable of the batches of m, applied one by one.
func (k keyedTable) again(t testing.TB, m *memtable.Memtable) *memtable.Memtable {
	t.Helper()
	one := k.newTable(m.Generation(), m.FirstRow())
	for i := range m.Batches() {
		b := m.Batch(i)
		if err := one.Append(b.Rec, b.Window, 0); err != nil {
			t.Fatal(err)
		}
		if err := one.Index().Apply(b.Rec, b.FirstSlot); err != nil {
			t.Fatal(err)
		}
	}
	return one
}

// checkSame compares two memtables at a bound: live rows, every key, every index.
func (k keyedTable) checkSame(t testing.TB, got, want *memtable.Memtable, bound uint32, keys int) {
	t.Helper()
	for slot := range bound {
		if a, b := got.Index().Live(slot, bound), want.Index().Live(slot, bound); a != b {
			t.Fatalf("generation %d, bound %d: slot %d is live: %v, want %v", got.Generation(), bound, slot, a, b)
		}
	}
	for id := range keys {
		key, err := k.spec.Key(id)
		if err != nil {
			t.Fatal(err)
		}
		a, okA := got.Index().Lookup(key, bound)
		b, okB := want.Index().Lookup(key, bound)
		if a != b || okA != okB {
			t.Fatalf("generation %d, bound %d: key %d in slot %d, %v; want %d, %v", got.Generation(), bound, id, a, okA, b, okB)
		}
	}
	for _, name := range keyedIndexes {
		a, b := rangeOf(t, got, name, bound), rangeOf(t, want, name, bound)
		if !slices.Equal(a, b) {
			t.Fatalf("generation %d, bound %d: index %s gives %v\nwant %v", got.Generation(), bound, name, a, b)
		}
	}
}

func rangeOf(t testing.TB, m *memtable.Memtable, name string, bound uint32) []uint32 {
	t.Helper()
	seq, err := m.Index().Range(name, index.Range{}, bound)
	if err != nil {
		t.Fatal(err)
	}
	return slices.Collect(seq)
}

// In parallel and in runs, settled and published now and then: the same memtables
// and the same answers, at every bound, as batch by batch.
func TestR03_ParallelReplayIsSequential(t *testing.T) {
	table := newKeyedTable(t)
	for seed := range uint64(12) {
		r := rand.New(rand.NewPCG(seed, 8))
		const keys = 25
		b := table.log(t, r, 25, 3, 12, keys)
		limits := memtable.Limits{Rows: uint32(pick(r, 0, 30, 100)), Batches: pick(r, 0, 9), IndexBytes: int64(pick(r, 0, 1, 40_000, 80_000, 150_000))}
		// The reference for where memtables end: settled after every entry.
		ref := NewLoader(table.loader(limits))
		reference(t, b, ref)
		want := settled(t, ref)
		synctest.Test(t, func(t *testing.T) {
			store := faultstore.New(b.store, seed)
			store.SetLatency(faultstore.Latency{P50: time.Millisecond, P99: 40 * time.Millisecond})
			cfg := b.config()
			cfg.Store, cfg.Budget, cfg.Fetches, cfg.Speculate = store, int64(1+r.IntN(30_000)), 1+r.IntN(9), r.IntN(2) == 0
			w := NewWalker(cfg)
			defer w.Close()
			lcfg := table.loader(limits)
			if r.IntN(2) == 0 {
				lcfg.OnFull = func(m *memtable.Memtable) error {
					if !m.Frozen() || m.Index().Applied() != m.Rows() {
						t.Errorf("seed %d: generation %d is full: frozen %v, %d of %d rows are indexed", seed, m.Generation(), m.Frozen(), m.Index().Applied(), m.Rows())
					}
					return nil
				}
			}
			l := NewLoader(lcfg)
			defer l.Close()
			l.indexer.runRows = int64(pick(r, 1, 20, 60, runRows))
			for {
				s, err := w.Next(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if s == nil {
					break
				}
				if err := l.Add(s); err != nil {
					t.Fatal(err)
				}
				if r.IntN(6) > 0 {
					continue
				}
				// A reader publishes what is there.
				if err := l.Settle(); err != nil {
					t.Fatal(err)
				}
				for _, m := range l.Live() {
					if m.Index().Applied() != m.Rows() {
						t.Fatalf("seed %d: generation %d: %d of %d rows are indexed", seed, m.Generation(), m.Index().Applied(), m.Rows())
					}
				}
			}
			tables := settled(t, l)
			defer release(tables)
			if layout(tables) != layout(want) {
				t.Fatalf("seed %d, %+v: %s\nwant %s", seed, limits, layout(tables), layout(want))
			}
			for _, m := range tables {
				one := table.again(t, m)
				for bound := m.Rows() % 3; bound <= m.Rows(); bound += 3 {
					table.checkSame(t, m, one, bound, keys)
				}
				one.Release()
			}
		})
		release(want)
	}
}

// reference loads a log entry by entry, without a walker.
func reference(t testing.TB, b *builder, l *Loader) {
	t.Helper()
	chain := wal.NewChain(wal.Start())
	for _, it := range b.list() {
		data, err := b.store.Get(t.Context(), testDir+wal.Name(it.Position))
		if err != nil {
			t.Fatal(err)
		}
		e, err := wal.Decode(data, wal.DecodeOptions{})
		if err != nil {
			t.Fatal(err)
		}
		v, err := chain.Judge(it.Position, e.Header, e.Rows)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Add(&Step{Position: it.Position, Live: v == wal.Live, Size: it.Size, Entry: e}); err != nil {
			t.Fatal(err)
		}
		if err := l.Settle(); err != nil {
			t.Fatal(err)
		}
	}
}

// Runs as long as in use.
func TestR03_LongRuns(t *testing.T) {
	table := newKeyedTable(t)
	r := rand.New(rand.NewPCG(3, 3))
	const keys = 5000
	b := table.log(t, r, 20, 4, 2000, keys)
	cfg := table.loader(memtable.Limits{})
	var l *Loader
	for _, runs := range []int64{runRows, 17_000} {
		l = NewLoader(cfg)
		l.indexer.runRows = runs
		if err := load(t, b.config(), l); err != nil {
			t.Fatal(err)
		}
		for _, m := range settled(t, l) {
			one := table.again(t, m)
			table.checkSame(t, m, one, m.Rows(), keys)
			table.checkSame(t, m, one, m.Rows()/2, keys)
			one.Release()
			m.Release()
		}
	}
}

// A reader that publishes lends the memtables and goes on.
func TestLoaderLendsItsMemtables(t *testing.T) {
	b := newBuilder(t).data(2).data(2).data(2)
	l := NewLoader(loaderOf(b.schema, memtable.Limits{Rows: 4}))
	defer l.Close()
	w := NewWalker(b.config())
	defer w.Close()
	var seen []string
	for {
		seen = append(seen, layout(l.Live()))
		s, err := w.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if s == nil {
			break
		}
		if err := l.Add(s); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"1:0-0", "1:0-0", "1:0-2", "1:0-4", "1:0-4 2:4-6"}; !slices.Equal(seen, want) {
		t.Errorf("saw %v, want %v", seen, want)
	}
	kept := l.Live()
	for _, m := range kept {
		m.Retain()
	}
	l.Close()
	checkCounted(t, kept, 6)
	release(kept)
}

// Indexes stay within their bound although they are built later: the memtable that
// reaches it takes no entry more.
func TestM03_IndexBytesBoundRuns(t *testing.T) {
	table := newKeyedTable(t)
	r := rand.New(rand.NewPCG(5, 5))
	b := newBuilder(t)
	b.schema = table.schema
	for range 60 {
		rec := table.batch(r, 500, 1<<30)
		h := wal.Header{Epoch: 1, PutID: wal.NewPutID(), PrevPutID: b.at.PutID, FirstRow: b.at.NextRow, Generation: 1}
		enc, err := wal.Encode(h, table.schema, []arrow.RecordBatch{rec}, nil, b.encode)
		if err != nil {
			t.Fatal(err)
		}
		b.put(enc.Body)
		enc.Release()
		rec.Release()
		b.at.PutID, b.at.NextRow, b.at.Position = h.PutID, b.at.NextRow+500, b.pos
	}
	const limit = 1 << 20
	var first string
	for range 3 { // and the same each time
		l := NewLoader(table.loader(memtable.Limits{IndexBytes: limit}))
		if err := load(t, b.config(), l); err != nil {
			t.Fatal(err)
		}
		tables := settled(t, l)
		if len(tables) < 3 {
			t.Errorf("%d memtables", len(tables))
		}
		for i, m := range tables {
			n := m.IndexBytes()
			if n > limit+limit/4 || i < len(tables)-1 && n < limit {
				t.Errorf("generation %d of %d: %d bytes of indexes, the limit is %d", i+1, len(tables), n, limit)
			}
		}
		if first == "" {
			first = layout(tables)
		}
		if got := layout(tables); got != first {
			t.Errorf("%s, before %s", got, first)
		}
		release(tables)
	}
}

// A failure in a run that is applied beside the caller comes out once it is known;
// and who closes the loader meanwhile waits for the run, whose rows it would release.
func TestR15_FailureBesideTheCaller(t *testing.T) {
	table := newKeyedTable(t)
	b := table.log(t, rand.New(rand.NewPCG(6, 6)), 40, 2, 20, 30)
	broken := errors.New("injected")
	// It takes the text for a number and panics.
	fields := slices.Clone(table.schema.Fields())
	fields[2].Type = arrow.PrimitiveTypes.Int64
	wrong, err := index.Bind(arrow.NewSchema(fields, nil), []index.Column{{Name: "id"}},
		[]index.Config{index.Ordered{Name: "by s", Columns: []index.Column{{Name: "s"}}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, end := range []string{"settle", "add", "close"} {
		synctest.Test(t, func(t *testing.T) {
			cfg := table.loader(memtable.Limits{})
			cfg.NewTable = func(generation, firstRow uint64) *memtable.Memtable {
				return memtable.New(memtable.Config{Generation: generation, FirstRow: firstRow, Schema: table.schema, Spec: wrong, Created: time.Now()})
			}
			calls, hold := 0, make(chan struct{})
			cfg.OnIndexError = func(*memtable.Memtable, error) error { calls++; <-hold; return broken }
			l := NewLoader(cfg)
			defer l.Close()
			l.indexer.runRows = 1
			w := NewWalker(b.config())
			defer w.Close()
			for l.indexer.busy == nil {
				s, err := w.Next(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if err := l.Add(s); err != nil {
					t.Fatal(err)
				}
			}
			done := make(chan error)
			go func() {
				defer close(done)
				switch end {
				case "settle":
					done <- l.Settle()
				case "close":
					l.Close()
				case "add":
					for {
						s, err := w.Next(t.Context())
						if err == nil && s == nil {
							t.Error("the log ended without the failure")
							return
						}
						if err == nil {
							err = l.Add(s)
						}
						if err != nil {
							done <- err
							return
						}
					}
				}
			}()
			synctest.Wait()
			select {
			case err := <-done:
				t.Errorf("%s: ended with %v while a run is applied", end, err)
			default:
			}
			close(hold)
			err := <-done
			if end != "close" && !errors.Is(err, broken) || calls != 1 {
				t.Errorf("%s: got %v after %d calls", end, err, calls)
			}
		})
	}
}
