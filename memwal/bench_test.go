package memwal

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/memwal/memwal-go/objstore"
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
