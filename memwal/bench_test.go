package memwal

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/memwal/memwal-go/internal/miniotest"
	"github.com/memwal/memwal-go/objstore"
	"github.com/memwal/memwal-go/objstore/faultstore"
)

// sinkStore takes WAL entries without keeping them, so that what is measured is
// the writer.
type sinkStore struct{ objstore.Store }

func (s sinkStore) PutIfAbsent(ctx context.Context, key string, body objstore.Body) (objstore.PutResult, error) {
	if strings.HasSuffix(key, ".arrow") {
		return objstore.PutResult{}, nil
	}
	return s.Store.PutIfAbsent(ctx, key, body)
}

// BenchmarkPutAsync shows that accepting a batch of 20 rows costs the same
// however many batches the memtable holds.
func BenchmarkPutAsync(b *testing.B) {
	for _, held := range []int{10, 1000, 100_000} {
		b.Run(fmt.Sprintf("held=%d", held), func(b *testing.B) {
			w, err := Open(b.Context(), sinkStore{objstore.NewMemory()}, testShard, testSchema, &Options{
				MaxMemtableBytes: 1 << 40, MaxResidentBytes: 1 << 40, MaxMemtableRows: 1 << 31, MaxMemtableBatches: 1 << 30,
			})
			if err != nil {
				b.Fatal(err)
			}
			defer w.Abort()
			rec := seq(b, 0, 20)
			for range held {
				if _, err := w.PutAsync(b.Context(), rec); err != nil {
					b.Fatal(err)
				}
			}
			if err := w.Flush(b.Context()); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := w.PutAsync(b.Context(), rec); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkLonePut compares a durable put, after a pause of more than a flush
// interval, with a bare conditional put of as many bytes in the same store. They
// take turns. Run it with -benchtime 100x.
func BenchmarkLonePut(b *testing.B) {
	run := func(b *testing.B, store objstore.Store) {
		const interval = 50 * time.Millisecond
		counters := new(objstore.Counters)
		w, err := Open(b.Context(), objstore.WithCounters(store, counters), testShard, testSchema, &Options{FlushInterval: interval})
		if err != nil {
			b.Fatal(err)
		}
		defer w.Abort()
		rec := seq(b, 0, 100)
		before := counters.Snapshot().BytesWritten
		if err := w.Put(b.Context(), rec); err != nil {
			b.Fatal(err)
		}
		body := objstore.Body{make([]byte, counters.Snapshot().BytesWritten-before)}
		var ours, bare []time.Duration
		timed := func(f func() error) time.Duration {
			time.Sleep(interval * 6 / 5)
			start := time.Now()
			if err := f(); err != nil {
				b.Fatal(err)
			}
			return time.Since(start)
		}
		for n := 0; b.Loop(); n++ {
			ours = append(ours, timed(func() error { return w.Put(b.Context(), rec) }))
			bare = append(bare, timed(func() error {
				_, err := store.PutIfAbsent(b.Context(), fmt.Sprintf("bare/%d", n), body)
				return err
			}))
		}
		p50 := func(d []time.Duration) float64 {
			slices.Sort(d)
			return float64(d[len(d)/2].Microseconds()) / 1e3
		}
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(p50(ours), "put-ms")
		b.ReportMetric(p50(bare), "bare-ms")
		b.ReportMetric(p50(ours)/p50(bare), "ratio")
	}
	b.Run("MinIO", func(b *testing.B) { run(b, miniotest.Store(b)) })
	b.Run("latency", func(b *testing.B) { run(b, latencyStore(b, objstore.NewMemory())) })
}

// latencyStore gives a store the latency of S3.
func latencyStore(b *testing.B, inner objstore.Store) objstore.Store {
	s := faultstore.New(inner, 1)
	s.SetLatency(faultstore.S3Like)
	b.Cleanup(s.Wait)
	return s
}

// BenchmarkReopen is what an open takes after a crash that left 40 entries of
// 1,000 rows.
func BenchmarkReopen(b *testing.B) {
	run := func(b *testing.B, inner objstore.Store, wrap func(objstore.Store) objstore.Store) {
		var took []time.Duration
		for b.Loop() {
			b.StopTimer()
			shard := uuid.New()
			w, err := Open(b.Context(), inner, shard, testSchema, &Options{FlushBytes: 1, MaxEntryBytes: 1})
			if err != nil {
				b.Fatal(err)
			}
			for i := range int64(40) {
				if err := w.Put(b.Context(), seq(b, i*1000, 1000)); err != nil {
					b.Fatal(err)
				}
			}
			w.Abort() // no last word, as after a crash
			b.StartTimer()
			start := time.Now()
			again, err := Open(b.Context(), wrap(inner), shard, testSchema, nil)
			if err != nil {
				b.Fatal(err)
			}
			took = append(took, time.Since(start))
			b.StopTimer()
			if st := again.Stats(); st.Visible != 40_000 || st.Open.Entries != 40 {
				b.Fatalf("reopened with %+v", st.Open)
			}
			again.Abort()
			b.StartTimer()
		}
		slices.Sort(took)
		b.ReportMetric(float64(took[len(took)/2].Microseconds())/1e3, "p50-ms")
	}
	plain := func(s objstore.Store) objstore.Store { return s }
	b.Run("MinIO", func(b *testing.B) { run(b, miniotest.Store(b), plain) })
	b.Run("latency", func(b *testing.B) {
		run(b, objstore.NewMemory(), func(s objstore.Store) objstore.Store { return latencyStore(b, s) })
	})
}
