package flusher

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/memwal/memwal-go/objstore"
)

// The ceilings that a Ceiling can hold, in PUTs a second.
const (
	// MinCeiling is two a minute. The ceiling is held over a minute, which needs
	// room for the put that goes at once after a pause and for one more to fill
	// the bucket with: below that the only rates would be one a minute and none.
	MinCeiling = 2.0 / 60
	// MaxCeiling is more than any store takes from one writer, so a higher one
	// bounds nothing.
	MaxCeiling = 1e6
)

// Ceiling bounds the PUTs of one writer. Appends wait for it. PUTs that cannot
// wait are charged when they are sent, and later appends pay for them. So a
// minute that ends with the start of an append never holds more than 60 times
// the ceiling of PUTs, whatever they were for.
//
// What cannot wait is retries and entries put again above a dead object: others
// wait for their rows already, and a writer that answers a hiccup of the store
// with a minute's silence would give up before the store does. The claim and the
// fence at open are charged, too.
//
// All methods may be called from any goroutine. Nil is no ceiling.
type Ceiling struct {
	// mu is a leaf, held for a few instructions.
	mu struct {
		sync.Mutex
		bucket bucket
	}
}

// NewCeiling returns a ceiling of perSecond PUTs a second, from MinCeiling to
// MaxCeiling, and nil for 0. The bucket is full.
func NewCeiling(perSecond float64) *Ceiling {
	if perSecond == 0 {
		return nil
	}
	c := new(Ceiling)
	c.mu.bucket = newBucket(perSecond)
	return c
}

// Meter returns s with each PUT that passes charged. It belongs below the
// retries, where it sees every attempt, as the bill does. Closing it closes s.
func (c *Ceiling) Meter(s objstore.Store) objstore.Store {
	if c == nil {
		return s
	}
	return &metered{s, c}
}

// wait returns how long an append has to wait; 0: it may start now.
func (c *Ceiling) wait() time.Duration {
	if c == nil {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.bucket.wait(time.Now())
}

// take charges an append that is about to start. It charges nothing and returns
// false if it has to wait after all: something was charged since.
func (c *Ceiling) take() bool {
	if c == nil {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if c.mu.bucket.wait(now) > 0 {
		return false
	}
	c.mu.bucket.spend(now)
	return true
}

// paidKey is the context key of a put whose first attempt take has charged.
type paidKey struct{}

func withPaid(ctx context.Context) context.Context {
	return context.WithValue(ctx, paidKey{}, new(atomic.Bool))
}

// charge accounts for an attempt that is about to be sent.
func (c *Ceiling) charge(ctx context.Context) {
	if used, ok := ctx.Value(paidKey{}).(*atomic.Bool); ok && used.CompareAndSwap(false, true) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.bucket.spend(time.Now())
}

type metered struct {
	objstore.Store
	c *Ceiling
}

func (s *metered) PutIfAbsent(ctx context.Context, key string, body objstore.Body) (objstore.PutResult, error) {
	s.c.charge(ctx)
	return s.Store.PutIfAbsent(ctx, key, body)
}

func (s *metered) Put(ctx context.Context, key string, body objstore.Body) error {
	s.c.charge(ctx)
	return s.Store.Put(ctx, key, body)
}
