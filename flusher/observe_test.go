package flusher

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/memwal/memwal-go/dispatcher"
	"github.com/memwal/memwal-go/internal/wal"
	"github.com/memwal/memwal-go/objstore"
)

type observedKey struct{}

// observed is one put as OnAppend tells it.
type observed struct {
	Append
	AppendResult
}

// TestOnAppendTellsEachPut: by what it was started, how it ended, and the
// store's requests get the context.
func TestOnAppendTellsEachPut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var got []observed
		r := newRig(t, func(c *Config) {
			c.FlushBytes = 100 * rowBytes
			c.OnAppend = func(ctx context.Context, a Append) (context.Context, func(AppendResult)) {
				return context.WithValue(ctx, observedKey{}, a.Position), func(res AppendResult) {
					mu.Lock()
					defer mu.Unlock()
					got = append(got, observed{a, res})
				}
			}
		})
		r.store.onPut = func(ctx context.Context, pos uint64, apply func() (objstore.PutResult, error)) (objstore.PutResult, error) {
			if at := ctx.Value(observedKey{}); at != pos {
				t.Errorf("the context of the put at %d is that of %v", pos, at)
			}
			if pos == 6 {
				panic("injected")
			}
			time.Sleep(time.Second)
			return apply()
		}
		r.plant(4, wal.Header{Epoch: 1, PutID: testID(9)})
		r.put(3)
		time.Sleep(2 * time.Second)
		r.put(100)
		time.Sleep(2 * time.Second)
		r.flusher.Demand(r.put(7)) // at 4, where a dead object is
		time.Sleep(5 * time.Second)
		r.put(1)
		if err := r.failure(); !errors.Is(err, ErrPersistence) {
			t.Errorf("failure: %v", err)
		}
		stats := r.flusher.Stats()
		if stats.Rows != 110 || stats.Entries != 3 {
			t.Errorf("%d rows in %d entries are acknowledged, want 110 in 3", stats.Rows, stats.Entries)
		}

		mu.Lock()
		defer mu.Unlock()
		var bytes int64
		for i := range got {
			if got[i].Outcome == "landed" {
				bytes += got[i].Bytes
			}
			if (got[i].Outcome == "failed") != (got[i].Err != nil) {
				t.Errorf("%+v", got[i])
			}
			if i < 3 && got[i].Bytes <= 0 {
				t.Errorf("no bytes: %+v", got[i])
			}
			got[i].Bytes = 0
		}
		if bytes != int64(stats.Bytes) {
			t.Errorf("%d bytes in all, want %d", bytes, stats.Bytes)
		}
		if n := len(got); n != 5 {
			t.Fatalf("%d puts, want 5: %+v", n, got)
		}
		if _, ok := errors.AsType[*dispatcher.PanicError](got[4].Err); !ok {
			t.Errorf("the panic is told as %v", got[4].Err)
		}
		got[4].Err = nil
		want := []observed{
			{Append{2, 0, 3, "time"}, AppendResult{Outcome: "landed", Took: time.Second}},
			{Append{3, 3, 100, "size"}, AppendResult{Outcome: "landed", Took: time.Second}},
			{Append{4, 103, 7, "demand"}, AppendResult{Outcome: "displaced", Took: time.Second}},
			{Append{5, 103, 7, "demand"}, AppendResult{Outcome: "landed", Took: time.Second}},
			{Append{6, 110, 1, "time"}, AppendResult{Outcome: "failed"}},
		}
		if !slices.Equal(got, want) {
			t.Errorf("got\n%+v, want\n%+v", got, want)
		}
	})
}
