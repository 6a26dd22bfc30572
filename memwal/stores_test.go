package memwal

import (
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/memwal/memwal-go/internal/miniotest"
	"github.com/memwal/memwal-go/objstore"
	"github.com/memwal/memwal-go/objstore/objstoretest"
)

// onEveryStore runs a test against the stores that people use.
func onEveryStore(t *testing.T, test func(t *testing.T, store objstore.Store)) {
	t.Run("memory", func(t *testing.T) { test(t, objstore.NewMemory()) })
	t.Run("folder", func(t *testing.T) {
		s, err := objstore.NewFolder(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		test(t, s)
	})
	t.Run("S3 in process", func(t *testing.T) { test(t, objstoretest.StartS3(t).Store("prefix")) })
	t.Run("MinIO", func(t *testing.T) { test(t, miniotest.Store(t)) })
}

// TestTakeoverUnderLoad puts from many goroutines while a second writer takes
// the shard over. What the first one had acknowledged is there, once, and
// nothing that it acknowledged came after the fence.
func TestTakeoverUnderLoad(t *testing.T) {
	onEveryStore(t, func(t *testing.T, store objstore.Store) {
		o := keyedOptions()
		o.FlushBytes = 4 << 10
		first := mustOpen(t, store, o)
		const putters, rowsPerBatch = 16, 10
		var mu sync.Mutex
		acknowledged := map[int64]bool{}
		var wg sync.WaitGroup
		enough := make(chan struct{})
		var once sync.Once
		for p := range putters {
			batches := make([]testBatch, 200)
			for i := range batches {
				batches[i] = testBatch{int64(p)*1e6 + int64(i)*rowsPerBatch, seq(t, int64(p)*1e6+int64(i)*rowsPerBatch, rowsPerBatch)}
			}
			wg.Go(func() {
				for _, b := range batches {
					if err := first.Put(t.Context(), b.rec); err != nil {
						if !errors.Is(err, ErrFenced) || !errors.Is(err, ErrPoisoned) {
							t.Errorf("put: %v, want ErrFenced", err)
						}
						return
					}
					mu.Lock()
					for id := range int64(rowsPerBatch) {
						acknowledged[b.first+id] = true
					}
					if len(acknowledged) > 40*rowsPerBatch {
						once.Do(func() { close(enough) })
					}
					mu.Unlock()
				}
				once.Do(func() { close(enough) })
			})
		}
		<-enough
		second := mustOpen(t, store, o)
		wg.Wait()
		if err := second.Put(t.Context(), seq(t, 1e9, 1)); err != nil {
			t.Fatalf("put of the new writer: %v", err)
		}
		rows := rowsOf(t, second)
		mustClose(t, second)

		found := map[int64]bool{}
		for _, r := range rows {
			if found[r.id] {
				t.Fatalf("row %d is there twice", r.id)
			}
			found[r.id] = true
			if r.id != 1e9 && r.n != r.id*10 {
				t.Fatalf("row %d has value %d", r.id, r.n)
			}
		}
		for id := range acknowledged {
			if !found[id] {
				t.Errorf("row %d was acknowledged and is lost", id)
			}
		}
		third := mustOpen(t, store, o)
		if got := rowsOf(t, third); !slices.Equal(got, rows) {
			t.Errorf("%d rows after another reopen, %d before, or in another order", len(got), len(rows))
		}
		mustClose(t, third)
	})
}
