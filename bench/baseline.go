package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/memwal/memwal-go/objstore"
)

const (
	// baselineSlice is for how long at least the ingest and the bare puts take
	// turns. Shorter, and the ends of the slices, where less than the whole window
	// is in flight, weigh more than a percent or two.
	baselineSlice = 5 * time.Second
	// baselineTurns is how many turns a longer run has. Fewer, and a store that
	// becomes slower while it fills up favours whoever comes first.
	baselineTurns = 4
	// baselineLeast is for how long bare puts run at least, in all: less says
	// nothing about a store.
	baselineLeast = 3 * time.Second
	// baselinePool is how much random data the bodies are cut from. More than a
	// processor caches, since nobody who has real data finds it there.
	baselinePool = 64 << 20
	// baselineFolder is the prefix of the objects, one folder in it for each run.
	baselineFolder = "bench-baseline/"
)

// sizeRecorder notes the sizes of the WAL entries that were put, in the order
// in which they were done.
type sizeRecorder struct {
	objstore.Store
	mu    sync.Mutex
	sizes []int64
}

func (r *sizeRecorder) PutIfAbsent(ctx context.Context, key string, body objstore.Body) (objstore.PutResult, error) {
	res, err := r.Store.PutIfAbsent(ctx, key, body)
	if err == nil && strings.Contains(key, "/wal/") {
		r.mu.Lock()
		r.sizes = append(r.sizes, body.Len())
		r.mu.Unlock()
	}
	return res, err
}

// take returns what was noted since the last call.
func (r *sizeRecorder) take() []int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	sizes := r.sizes
	r.sizes = nil
	return sizes
}

// checksumKey is the context key of a bare put's checksum: the value of the
// header, as the store is to send it. It goes by the context because it has to
// pass the store that adds latency.
type checksumKey struct{}

// bareBody is what a bare put sends. All of it exists before the clock starts.
type bareBody struct {
	body     objstore.Body
	size     int64
	checksum string // value of S3's header
}

// baseline measures what bare puts reach: conditional puts of bodies that are
// ready, as large as the entries were, with always as many in flight as the
// writer may have. Whatever memwal does beside putting is not in it.
type baseline struct {
	store    objstore.Store // its own client where there is one; nothing is counted
	folder   string
	inflight int

	sizes   []int64 // of the last run
	pool    []byte
	at      int // in pool: where the next body begins
	warm    bool
	keys    atomic.Int64 // taken so far, each once
	removed int64        // of these
	latency latencies
	total   atomic.Int64 // bytes put
	elapsed time.Duration
}

func newBaseline(store objstore.Store, run string, inflight int) *baseline {
	return &baseline{store: store, folder: baselineFolder + run + "/", inflight: inflight}
}

func (b *baseline) key(n int64) string { return fmt.Sprintf("%s%09d", b.folder, n) }

// run puts bodies of these sizes, in this order, until all were put or limit is
// over, but goes on, from the start of the sizes, until it has run for least.
// Without sizes those of the last call count.
func (b *baseline) run(ctx context.Context, sizes []int64, limit, least time.Duration) (err error) {
	// In a CPU profile of the ingest this is to be told apart. Goroutines inherit
	// the label, those of the connections that are opened here too.
	pprof.Do(ctx, pprof.Labels("bench", "baseline"), func(ctx context.Context) {
		err = b.puts(ctx, sizes, limit, least)
	})
	return err
}

func (b *baseline) puts(ctx context.Context, sizes []int64, limit, least time.Duration) error {
	if len(sizes) > 0 {
		b.sizes = sizes
	}
	if len(b.sizes) == 0 {
		return nil
	}
	bodies := b.prepare(b.sizes)
	if err := b.warmUp(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var next atomic.Int64
	var failure atomic.Pointer[error]
	var wg sync.WaitGroup
	start := time.Now()
	for range b.inflight {
		wg.Go(func() {
			for ctx.Err() == nil {
				i, now := next.Add(1)-1, time.Since(start)
				if now >= max(limit, least) || i >= int64(len(bodies)) && now >= least {
					return
				}
				if err := b.put(ctx, &bodies[i%int64(len(bodies))]); err != nil {
					failure.CompareAndSwap(nil, &err)
					cancel()
					return
				}
			}
		})
	}
	wg.Wait()
	b.elapsed += time.Since(start)
	if err := failure.Load(); err != nil {
		return fmt.Errorf("baseline: %w", *err)
	}
	return ctx.Err()
}

func (b *baseline) put(ctx context.Context, body *bareBody) error {
	begin := time.Now()
	ctx = context.WithValue(ctx, checksumKey{}, body.checksum)
	if _, err := b.store.PutIfAbsent(ctx, b.key(b.keys.Add(1)-1), body.body); err != nil {
		return err
	}
	b.latency.record(time.Since(begin))
	b.total.Add(body.size)
	return nil
}

// prepare cuts bodies from the pool and computes their checksums.
func (b *baseline) prepare(sizes []int64) []bareBody {
	need := baselinePool
	for _, n := range sizes {
		need = max(need, int(n))
	}
	if len(b.pool) < need {
		b.pool = make([]byte, need)
		// Never fails. Random, so that nothing on the way can make it smaller.
		_, _ = rand.NewChaCha8([32]byte{1}).Read(b.pool)
	}
	bodies := make([]bareBody, len(sizes))
	for i, n := range sizes {
		if b.at+int(n) > len(b.pool) {
			b.at = 0
		}
		data := b.pool[b.at : b.at+int(n) : b.at+int(n)]
		b.at += int(n)
		bodies[i] = newBareBody(data)
	}
	return bodies
}

func newBareBody(data []byte) bareBody {
	body := objstore.Body{data}
	return bareBody{body: body, size: body.Len(), checksum: checksum(body)}
}

// warmUp opens the connections, as opening the shard does for the writer.
func (b *baseline) warmUp(ctx context.Context) error {
	if b.warm {
		return nil
	}
	b.warm = true
	small := newBareBody(b.pool[:1])
	errs := make([]error, b.inflight)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			ctx := context.WithValue(ctx, checksumKey{}, small.checksum)
			_, errs[i] = b.store.PutIfAbsent(ctx, b.key(b.keys.Add(1)-1), small.body)
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("baseline: %w", err)
	}
	return nil
}

// remove deletes every object from s that is there.
func (b *baseline) remove(ctx context.Context, s objstore.Store) error {
	var next atomic.Int64
	next.Store(b.removed)
	errs := make([]error, b.inflight)
	var wg sync.WaitGroup
	for w := range errs {
		wg.Go(func() {
			for n := next.Add(1) - 1; n < b.keys.Load() && errs[w] == nil; n = next.Add(1) - 1 {
				errs[w] = s.Delete(ctx, b.key(n))
			}
		})
	}
	wg.Wait()
	b.removed = b.keys.Load()
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("remove the objects of the baseline, below %s: %w", b.folder, err)
	}
	return nil
}

// mbPerS is the throughput so far, in millions of bytes a second.
func (b *baseline) mbPerS() float64 {
	return per(float64(b.total.Load())/1e6, b.elapsed.Seconds())
}
