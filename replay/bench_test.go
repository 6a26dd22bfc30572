package replay

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/memwal/memwal-go/index"
	"github.com/memwal/memwal-go/internal/miniotest"
	"github.com/memwal/memwal-go/internal/schema"
	"github.com/memwal/memwal-go/internal/wal"
	"github.com/memwal/memwal-go/memtable"
	"github.com/memwal/memwal-go/objstore"
)

var (
	replayBytes   = flag.Int64("replay.bytes", 1<<30, "size of the log of BenchmarkReplayMinIO")
	replayFetches = flag.Int("replay.fetches", 0, "requests in flight of BenchmarkReplayMinIO; 0: the walker's default")
)

// benchTable has an id and 64 characters.
func benchTable(b *testing.B, key []string) *arrow.Schema {
	b.Helper()
	table, err := schema.Storage(arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64}, {Name: "text", Type: arrow.BinaryTypes.String},
	}, nil), key, nil)
	if err != nil {
		b.Fatal(err)
	}
	return table.Schema
}

// benchLog writes entries of batches of 1,000 rows with random ids until the log has
// that many bytes or rows. It returns both.
func benchLog(b *testing.B, store objstore.Store, sc *arrow.Schema, batches int, bytes, rows int64) (int64, int64) {
	b.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	chars := make([]byte, 64)
	h := wal.Header{Epoch: 1, PutID: wal.NewPutID(), Fence: true}
	fence, err := wal.EncodeFence(h)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := store.PutIfAbsent(b.Context(), testDir+wal.Name(1), fence); err != nil {
		b.Fatal(err)
	}
	sum, n := int64(0), int64(0)
	for pos := uint64(2); sum < bytes && n < rows; pos++ {
		var recs []arrow.RecordBatch
		for range batches {
			rb := array.NewRecordBuilder(memory.DefaultAllocator, sc)
			for range 1000 {
				for i := range chars {
					chars[i] = byte('a' + r.IntN(26))
				}
				rb.Field(0).(*array.Int64Builder).Append(r.Int64())
				rb.Field(1).(*array.StringBuilder).Append(string(chars))
				if sc.NumFields() > 2 {
					rb.Field(2).(*array.BooleanBuilder).Append(false)
				}
			}
			recs = append(recs, rb.NewRecordBatch())
			rb.Release()
		}
		h = wal.Header{Epoch: 1, PutID: wal.NewPutID(), PrevPutID: h.PutID, FirstRow: uint64(n), Generation: 1}
		enc, err := wal.Encode(h, sc, recs, nil, wal.EncodeOptions{})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := store.PutIfAbsent(b.Context(), testDir+wal.Name(pos), enc.Body); err != nil {
			b.Fatal(err)
		}
		sum, n = sum+enc.Size, n+enc.Rows
		enc.Release()
		for _, rec := range recs {
			rec.Release()
		}
	}
	return sum, n
}

// replayAll is a whole replay, its listing included.
func replayAll(b *testing.B, store objstore.Store, sc *arrow.Schema, spec *index.Spec, setUp func(*Loader)) (rows uint64) {
	b.Helper()
	listed, err := List(b.Context(), store, testDir)
	if err != nil {
		b.Fatal(err)
	}
	w := NewWalker(Config{Store: store, Dir: testDir, From: wal.Start(), Listed: listed, Fetches: *replayFetches})
	defer w.Close()
	l := NewLoader(LoaderConfig{
		Schema: sc, From: wal.Start(), Limits: memtable.Limits{WindowBytes: 64 << 20},
		NewTable: func(generation, firstRow uint64) *memtable.Memtable {
			return memtable.New(memtable.Config{Generation: generation, FirstRow: firstRow, Schema: sc, Spec: spec})
		},
		OnIndexError: func(_ *memtable.Memtable, err error) error { return err },
	})
	defer l.Close()
	setUp(l)
	for {
		s, err := w.Next(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		if s == nil {
			break
		}
		if err := l.Add(s); err != nil {
			b.Fatal(err)
		}
	}
	if err := l.Settle(); err != nil {
		b.Fatal(err)
	}
	return l.Loaded().Rows
}

// BenchmarkReplay: a million rows in entries of 2,000 from memory, 64 MiB a
// memtable; with indexes built entry by entry, and in runs.
//
//	go test -run '^$' -bench 'Replay$' ./replay
func BenchmarkReplay(b *testing.B) {
	const rows = 1_000_000
	for _, c := range []struct {
		name    string
		key     []string
		indexes []index.Config
	}{
		{"none", nil, nil},
		{"key", []string{"id"}, nil},
		{"ordered", nil, []index.Config{index.Ordered{Name: "id", Columns: []index.Column{{Name: "id"}}}}},
		{"key+ordered+text", []string{"id"}, []index.Config{
			index.Ordered{Name: "id", Columns: []index.Column{{Name: "id"}}},
			index.Ordered{Name: "text", Columns: []index.Column{{Name: "text"}}},
		}},
	} {
		sc := benchTable(b, c.key)
		var key []index.Column
		for _, name := range c.key {
			key = append(key, index.Column{Name: name})
		}
		spec, err := index.Bind(sc, key, c.indexes)
		if err != nil {
			b.Fatal(err)
		}
		store := objstore.NewMemory()
		bytes, _ := benchLog(b, store, sc, 2, 1<<60, rows)
		for name, run := range map[string]int64{"entries": 1, "runs": runRows} {
			if c.name == "none" && name == "runs" {
				continue
			}
			b.Run(fmt.Sprintf("%s/%s", c.name, name), func(b *testing.B) {
				b.SetBytes(bytes)
				for b.Loop() {
					if n := replayAll(b, store, sc, spec, func(l *Loader) { l.indexer.runRows = run }); n != rows {
						b.Fatalf("%d rows", n)
					}
				}
				b.ReportMetric(float64(b.N)*rows/b.Elapsed().Seconds(), "rows/s")
			})
		}
	}
}

// BenchmarkReplayMinIO compares the replay of a log of entries of 1.7 MB, without an
// index, with what the store gives: bare gets and decoding, four in flight. Both
// alternate in one run, so their ratio says more than either.
//
//	go test -run '^$' -bench ReplayMinIO -benchtime 5x -timeout 30m ./replay
func BenchmarkReplayMinIO(b *testing.B) {
	sc := benchTable(b, nil)
	store := miniotest.Store(b)
	bytes, rows := benchLog(b, store, sc, 22, *replayBytes, 1<<60)
	var bare, replayed time.Duration
	for b.Loop() {
		bare += timed(func() { getAll(b, store, rows) })
		replayed += timed(func() {
			if n := replayAll(b, store, sc, nil, func(*Loader) {}); n != uint64(rows) {
				b.Fatalf("%d rows, want %d", n, rows)
			}
		})
	}
	mb := float64(b.N) * float64(bytes) / 1e6
	b.ReportMetric(mb/bare.Seconds(), "bare-MB/s")
	b.ReportMetric(mb/replayed.Seconds(), "replay-MB/s")
	b.ReportMetric(bare.Seconds()/replayed.Seconds(), "ratio")
}

func timed(do func()) time.Duration {
	runtime.GC() // what the one before has left
	start := time.Now()
	do()
	return time.Since(start)
}

// getAll gets and decodes every object, four at a time, and keeps none.
func getAll(b *testing.B, store objstore.Store, rows int64) {
	b.Helper()
	listed, err := List(b.Context(), store, testDir)
	if err != nil {
		b.Fatal(err)
	}
	var next, seen atomic.Int64
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(listed) {
					return
				}
				data, err := store.Get(context.Background(), testDir+wal.Name(listed[i].Position))
				if err != nil {
					b.Error(err)
					return
				}
				e, err := wal.Decode(data, wal.DecodeOptions{})
				if err != nil {
					b.Error(err)
					return
				}
				seen.Add(e.Rows)
				e.Release()
			}
		})
	}
	wg.Wait()
	if seen.Load() != rows {
		b.Errorf("%d rows, want %d", seen.Load(), rows)
	}
}
