package soak

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/memwal/memwal-go/memwal"
	"github.com/memwal/memwal-go/objstore"
	"github.com/memwal/memwal-go/objstore/faultstore"
)

// Config says what a soak is to do.
type Config struct {
	// Store is where shards go; it stays the caller's to close.
	Store    objstore.Store
	Duration time.Duration
	// Round is how long a shard is used. 0: a fifth of Duration, from a second to
	// ten.
	Round            time.Duration
	Seed             uint64
	Writers, Readers int
	// Faults are injected on every way to the store.
	Faults []faultstore.Rule
	// Options are those of each shard; fields that are zero are drawn, round by
	// round, if a soak is about them.
	Options memwal.Options
	// Done, where set, is called after each round with the figures so far.
	Done func(Figures)
}

// Figures count what a soak did.
type Figures struct {
	Seed    uint64  `json:"seed"`
	Seconds float64 `json:"seconds"`
	Rounds  int     `json:"rounds"` // that were verified

	Opens         int64 `json:"opens"`
	Takeovers     int64 `json:"takeovers"` // opens that took the shard from an open writer
	Fenced        int64 `json:"fenced"`    // writers that were, and opens
	GaveUp        int64 `json:"gave_up"`   // writers and opens ended by faults of the store
	RefusedSealed int64 `json:"refused_sealed"`
	Closes        int64 `json:"closes"`
	Kills         int64 `json:"kills"`
	Stalls        int64 `json:"stalls"`
	Drops         int64 `json:"drops"` // writers left to the garbage collector
	Seals         int64 `json:"seals"`
	Unseals       int64 `json:"unseals"`
	Readers       int64 `json:"readers"` // that were opened
	Refreshes     int64 `json:"refreshes"`
	Snapshots     int64 `json:"snapshots"` // that were checked whole

	RowsIssued       int64 `json:"rows_issued"`
	RowsAcknowledged int64 `json:"rows_acknowledged"`
	RowsFound        int64 `json:"rows_found"`     // at the end of a round
	RowsRecovered    int64 `json:"rows_recovered"` // by all opens
	RowsChecked      int64 `json:"rows_checked"`   // in all snapshots
	Losses           int64 `json:"losses"`         // acknowledged rows that are not there

	DeadEntries     int64 `json:"dead_entries"`     // in the logs at the end
	Reissued        int64 `json:"reissued"`         // entries put again above a dead object
	OwnershipChecks int64 `json:"ownership_checks"` // before an acknowledgement

	Faults map[string]int64 `json:"faults"` // injected, by kind

	HeapMB    float64 `json:"heap_mb"`     // after the last round, garbage collected
	MaxHeapMB float64 `json:"max_heap_mb"` // after any
}

// Failure is a soak that has found a violation.
type Failure struct {
	Seed  uint64
	Round int
	Shard uuid.UUID // left in the store as it is
	Err   error
}

func (f *Failure) Error() string {
	return fmt.Sprintf("seed %d, round %d, shard %v: %v", f.Seed, f.Round, f.Shard, f.Err)
}

func (f *Failure) Unwrap() error { return f.Err }

// soak is one run.
type soak struct {
	c  Config
	mu struct {
		sync.Mutex
		figures Figures
		deck    []ending
		rand    *rand.Rand // of the deck
	}
}

// Run soaks until its time is over or ctx ends: in both cases the round is
// completed and verified. The error is a *Failure, or none.
func Run(ctx context.Context, c Config) (Figures, error) {
	s := &soak{c: c}
	s.mu.figures = Figures{Seed: c.Seed, Faults: map[string]int64{}}
	s.mu.rand = rand.New(rand.NewPCG(c.Seed, 0))
	length := c.Round
	if length <= 0 {
		length = min(max(c.Duration/5, time.Second), 10*time.Second)
	}
	start := time.Now()
	for number := 1; ctx.Err() == nil; number++ {
		left := c.Duration - time.Since(start)
		if number > 1 && left < length/2 {
			break
		}
		r := s.newRound(number, length)
		err := r.run(ctx)
		s.count(func(f *Figures) {
			f.Seconds = time.Since(start).Seconds()
			f.HeapMB = heapMB()
			f.MaxHeapMB = max(f.MaxHeapMB, f.HeapMB)
			if err == nil {
				f.Rounds++
			}
			if v, ok := asViolation(err); ok {
				f.Losses += int64(v.Lost)
			}
		})
		if err != nil {
			return s.figures(), &Failure{Seed: c.Seed, Round: number, Shard: r.shard, Err: err}
		}
		if c.Done != nil {
			c.Done(s.figures())
		}
	}
	return s.figures(), nil
}

func (s *soak) count(add func(*Figures)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	add(&s.mu.figures)
}

func (s *soak) figures() Figures {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.mu.figures
	f.Faults = maps.Clone(f.Faults)
	return f
}

// heapMB is the live heap, in millions of bytes.
func heapMB() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc) / 1e6
}

// wait returns after d or when ctx ends.
func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// folder is where a store keeps a shard.
func folder(shard uuid.UUID) string { return "_mem_wal/" + shard.String() + "/" }

// Delete deletes everything of a shard that nobody uses any more.
func Delete(ctx context.Context, store objstore.Store, shard uuid.UUID) error {
	var keys []string
	for o, err := range store.List(ctx, folder(shard)) {
		if err != nil {
			return fmt.Errorf("list shard %v: %w", shard, err)
		}
		keys = append(keys, o.Key)
	}
	for _, key := range keys {
		if err := store.Delete(ctx, key); err != nil {
			return fmt.Errorf("delete shard %v: %w", shard, err)
		}
	}
	return nil
}

// Dump copies everything of a shard below dir, for inspection.
func Dump(ctx context.Context, store objstore.Store, shard uuid.UUID, dir string) error {
	for o, err := range store.List(ctx, folder(shard)) {
		if err != nil {
			return fmt.Errorf("list shard %v: %w", shard, err)
		}
		data, err := store.Get(ctx, o.Key)
		if err != nil {
			return fmt.Errorf("read %s: %w", o.Key, err)
		}
		path := filepath.Join(dir, filepath.FromSlash(o.Key))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			return err
		}
	}
	return nil
}
