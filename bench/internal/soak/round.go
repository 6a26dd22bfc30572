package soak

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/memwal/memwal-go/memwal"
	"github.com/memwal/memwal-go/objstore"
	"github.com/memwal/memwal-go/objstore/faultstore"
)

const (
	// roundRows are the rows of a round after which its writers slow down: all of
	// them are in memory at once, several times.
	roundRows = 40_000
	// hangs is how long the end of a round may take before it counts as one that
	// never comes.
	hangs = 5 * time.Minute
)

// round is the life of one shard.
type round struct {
	s       *soak
	number  int
	length  time.Duration
	shard   uuid.UUID
	rows    workload
	options memwal.Options
	// processes are the writers. In some rounds there are fewer, so that a
	// writer has time.
	processes int

	ledger        ledger
	claims, seals rivals
	incarnations  atomic.Uint32
	writers       atomic.Int64   // open ones that were not dropped
	background    sync.WaitGroup // collectors, and puts of dead processes

	stop    context.CancelFunc
	failure atomic.Pointer[error] // the first violation

	mu struct {
		sync.Mutex
		rand *rand.Rand
		ways []way // of all participants, dead or alive
	}
}

// newRound draws a round from the seed.
func (s *soak) newRound(number int, length time.Duration) *round {
	seed := mix(s.c.Seed, uint64(number))
	rng := rand.New(rand.NewPCG(seed, 0))
	r := &round{
		s: s, number: number, length: length, shard: uuid.New(),
		rows: workload{seed: seed, keyed: number%2 == 1}, options: s.c.Options,
	}
	r.mu.rand = rng
	r.processes = s.c.Writers
	if number%3 == 2 {
		r.processes = 1 + rng.IntN(r.processes)
	}
	o := &r.options
	if r.rows.keyed {
		o.PrimaryKey = []string{"id"}
	}
	o.Indexes = indexes
	draw(rng, &o.FlushInterval, time.Millisecond, 5*time.Millisecond, 20*time.Millisecond)
	draw(rng, &o.FlushBytes, 1, 4<<10, 64<<10)
	draw(rng, &o.MaxEntryBytes, 1, 4<<10, 1<<20)
	draw(rng, &o.MaxInFlight, 1, 4, 8, 16)
	draw(rng, &o.Compression, memwal.CompressionNone, memwal.CompressionLZ4, memwal.CompressionZstd)
	draw(rng, &o.MaxMemtableRows, 500, 4000, 1<<20)
	draw(rng, &o.ReplayBytes, 1, 64<<10, 64<<20)
	o.OwnershipCheckAfter, o.FenceRetention = time.Second, time.Hour
	o.Retry = objstore.RetryOptions{MinBackoff: 2 * time.Millisecond, MaxBackoff: 200 * time.Millisecond}
	if len(s.c.Faults) > 0 {
		// Few attempts, so that some are exhausted.
		draw(rng, &o.Retry.MaxAttempts, 2, 4, 8)
	}
	return r
}

// draw sets an option that is not given.
func draw[T comparable](rng *rand.Rand, field *T, choices ...T) {
	choice := choices[rng.IntN(len(choices))]
	var unset T
	if *field == unset {
		*field = choice
	}
}

func (r *round) readerOptions(rng *rand.Rand) *memwal.ReaderOptions {
	o := &memwal.ReaderOptions{Retry: r.options.Retry, PollInterval: 5 * time.Millisecond, MaxPollInterval: 50 * time.Millisecond}
	draw(rng, &o.ReplayBytes, 1, 64<<10, 64<<20)
	return o
}

// rng returns a source of numbers for one participant.
func (r *round) rng() *rand.Rand {
	r.mu.Lock()
	defer r.mu.Unlock()
	return rand.New(rand.NewPCG(r.mu.rand.Uint64(), 0))
}

// connect returns a new way to the store. Puts on it outlive whoever sent them.
func (r *round) connect() way {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := way{faultstore.New(r.s.c.Store, r.mu.rand.Uint64())}
	w.SetLogSize(0)
	w.Add(faultstore.Rule{Ops: writes, Count: -1, Detach: true})
	w.Add(r.s.c.Faults...)
	r.mu.ways = append(r.mu.ways, w)
	return w
}

func (r *round) allWays() []way {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]way(nil), r.mu.ways...)
}

// fail ends the round with a violation, if it is the first.
func (r *round) fail(err error) {
	r.failure.CompareAndSwap(nil, &err)
	r.stop()
}

// check compares a snapshot with the ledger.
func (r *round) check(s *memwal.Snapshot, deep bool, rng *rand.Rand) (digest uint64, err error) {
	digest, rows, err := check(context.Background(), &r.ledger, r.rows, s, deep, rng)
	r.s.count(func(f *Figures) {
		f.Snapshots++
		f.RowsChecked += rows
	})
	return digest, err
}

// run uses the shard until the round is over or ctx ends, verifies it and deletes
// it. After a violation it is left as it is.
func (r *round) run(ctx context.Context) error {
	ctx, r.stop = context.WithTimeout(ctx, r.length)
	defer r.stop()
	done := make(chan error, 1)
	go func() {
		r.use(ctx)
		if err := r.failure.Load(); err != nil {
			done <- *err
			return
		}
		done <- r.verify(context.WithoutCancel(ctx))
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-done:
		return err
	case <-time.After(hangs):
		return violated("the round has not ended in %v after it was asked to; goroutines:\n%s", hangs, goroutines())
	}
}

// ended counts what a writer, or an Open, was ended by.
func (r *round) ended(err error) {
	r.s.count(func(f *Figures) {
		switch {
		case errors.Is(err, memwal.ErrFenced):
			f.Fenced++
		case errors.Is(err, memwal.ErrSealed):
			f.RefusedSealed++
		case errors.Is(err, faultstore.ErrInjected), errors.Is(err, memwal.ErrCorrupt):
			f.GaveUp++
		}
	})
}

// use runs all participants until ctx ends, and lets everything land that is on
// its way.
func (r *round) use(ctx context.Context) {
	var wg sync.WaitGroup
	start := func(run func(context.Context) error) {
		wg.Go(func() {
			if err := run(ctx); err != nil {
				r.fail(err)
			}
		})
	}
	for range r.processes {
		start((&process{r: r, io: r.connect(), rand: r.rng()}).run)
	}
	for range r.s.c.Readers {
		start((&viewer{r: r, io: r.connect(), rand: r.rng()}).run)
	}
	start((&sealer{r: r, io: r.connect(), rand: r.rng()}).run)
	wg.Wait()

	ways := r.allWays()
	for _, w := range ways {
		w.Clear()
	}
	r.collectDropped()
	for _, w := range ways {
		w.Wait()
	}
	r.s.count(func(f *Figures) {
		for _, w := range ways {
			for kind, n := range w.Injected() {
				f.Faults[string(kind)] += int64(n)
			}
		}
		issued, acked := r.ledger.sums()
		f.RowsIssued += int64(issued)
		f.RowsAcknowledged += int64(acked)
	})
}

// collectDropped waits until writers that were dropped have ended, and all else in
// the background.
func (r *round) collectDropped() {
	done := make(chan struct{})
	go func() {
		r.background.Wait()
		close(done)
	}()
	for {
		runtime.GC()
		select {
		case <-done:
			return
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// verify opens the shard twice in peace, reads it from outside, and deletes it.
func (r *round) verify(ctx context.Context) error {
	store, rng := r.s.c.Store, r.rng()
	err := memwal.UnsealShard(ctx, store, r.shard, &r.options)
	if isNew := r.incarnations.Load() == 0 && errors.Is(err, memwal.ErrInvalid); err != nil && !isNew {
		return violated("the last unseal: %v", err)
	}
	r.ledger.unseal()
	var first uint64
	for i := range 2 {
		w, err := memwal.Open(ctx, store, r.shard, tableSchema, &r.options)
		if err != nil {
			return violated("the last open but %d: %v", 1-i, err)
		}
		digest, bound, err := r.verifyWriter(w, rng)
		if err = errors.Join(err, w.Close(ctx)); err != nil {
			return err
		}
		if i == 0 {
			first = digest
			dead := w.Stats().Open.Dead
			r.s.count(func(f *Figures) {
				f.RowsFound += int64(bound)
				f.DeadEntries += int64(dead)
			})
		} else if digest != first {
			return violated("a reopen finds other rows than the open before it")
		}
	}
	reader, err := memwal.OpenReader(ctx, store, r.shard, r.readerOptions(rng))
	if err != nil {
		return violated("the last reader: %v", err)
	}
	defer reader.Close()
	s, err := reader.Snapshot()
	if err != nil {
		return violated("the snapshot of the last reader: %v", err)
	}
	defer s.Close()
	digest, err := r.check(s, true, rng)
	if err != nil {
		return fmt.Errorf("the last reader: %w", err)
	}
	if digest != first {
		return violated("the last reader shows other rows than the last opens")
	}
	return Delete(ctx, store, r.shard)
}

// verifyWriter checks everything that a writer shows which was opened after all
// others have ended.
func (r *round) verifyWriter(w *memwal.Writer, rng *rand.Rand) (digest, bound uint64, err error) {
	s, err := w.Snapshot()
	if err != nil {
		return 0, 0, violated("the last snapshot: %v", err)
	}
	defer s.Close()
	if _, err := r.ledger.open(r.incarnations.Add(1), w.Stats().Epoch, s.Bound()); err != nil {
		return 0, 0, err
	}
	digest, err = r.check(s, true, rng)
	return digest, s.Bound(), err
}

func goroutines() []byte {
	b := make([]byte, 1<<20)
	return b[:runtime.Stack(b, true)]
}
