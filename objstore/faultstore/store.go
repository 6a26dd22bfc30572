package faultstore

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/memwal/memwal-go/objstore"
)

// Store is an objstore.Store with faults.
type Store struct {
	inner objstore.Store
	seed  uint64

	// detached counts the requests that may outlive their callers.
	detached sync.WaitGroup

	// mu guards the fields below. It is not held across calls of the inner
	// store, hooks and waits.
	mu       sync.Mutex
	rules    []*ruleState
	latency  map[objstore.Op]Latency
	seq      uint64     // of the last request
	requests []*Request // the log, in order of Seq
	nth      map[opKey]uint64
	parked   []parked // in order of their parking
	picks    *rand.Rand
}

type opKey struct {
	op  objstore.Op
	key string
}

// New returns a store that passes everything to inner until rules say
// otherwise. All randomness comes from seed. Closing it closes inner.
func New(inner objstore.Store, seed uint64) *Store {
	return &Store{
		inner: inner, seed: seed,
		latency: make(map[objstore.Op]Latency),
		nth:     make(map[opKey]uint64),
		picks:   rand.New(rand.NewPCG(seed, 0)),
	}
}

// Add adds a rule after the others. The returned function removes it;
// requests under way are not affected.
func (s *Store) Add(r Rule) (remove func()) {
	state := &ruleState{Rule: r}
	s.mu.Lock()
	s.rules = append(s.rules, state)
	s.mu.Unlock()
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		state.removed = true
		s.rules = slices.DeleteFunc(s.rules, func(r *ruleState) bool { return r == state })
	}
}

// Clear removes all rules and latencies. Requests under way are not affected,
// and parked ones stay parked.
func (s *Store) Clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rules = nil
	clear(s.latency)
}

// Inner returns the store below, for looking past the faults.
func (s *Store) Inner() objstore.Store { return s.inner }

// Requests returns the log of all requests so far, in the order of arrival.
func (s *Store) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]Request, len(s.requests))
	for i, r := range s.requests {
		out[i] = *r
	}
	return out
}

// Reset empties the log. Sequence numbers go on.
func (s *Store) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = slices.DeleteFunc(s.requests, func(r *Request) bool { return r.Done })
}

// Wait waits until no detached request is under way.
func (s *Store) Wait() { s.detached.Wait() }

// Close waits for detached requests and closes the inner store. Held
// or parked ones must be released before.
func (s *Store) Close() error {
	s.detached.Wait()
	return s.inner.Close()
}

// call is one request under way.
type call struct {
	s       *Store
	req     *Request // Applied, Done and Err are guarded by s.mu
	place   place
	plan    plan
	latency Latency
	rng     *rand.Rand
}

// begin logs a request and makes its plan.
func (s *Store) begin(op objstore.Op, key string, bytes int64) *call {
	s.mu.Lock()
	s.seq++
	req := &Request{Seq: s.seq, Op: op, Key: key, Bytes: bytes}
	s.requests = append(s.requests, req)
	k := opKey{op, key}
	s.nth[k]++
	at := place{k, s.nth[k]}
	c := &call{s: s, req: req, place: at, latency: s.latency[op], rng: s.rngFor(at)}
	for _, r := range s.rules {
		if r.matches(*req, c.rng.Float64) {
			c.plan.add(r.Rule)
		}
	}
	snapshot := *req
	s.mu.Unlock()
	for _, hook := range c.plan.onRequest {
		hook(snapshot)
	}
	return c
}

// rngFor makes the random numbers of a request.
func (s *Store) rngFor(at place) *rand.Rand {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s\x00%s\x00%d", at.op, at.key, at.nth)
	return rand.New(rand.NewPCG(s.seed, h.Sum64()))
}

// reach takes the request to the inner store: the steps before it. An error is
// the reply.
func (c *call) reach(ctx context.Context) error {
	if err := sleep(ctx, c.plan.Delay+c.latency.draw(c.rng)+c.latency.transfer(c.req.Bytes)); err != nil {
		return err
	}
	if c.plan.Park {
		if err := c.s.park(ctx, c.req.Seq, c.place); err != nil {
			return err
		}
	}
	if c.plan.Hold != nil {
		select {
		case <-c.plan.Hold:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return c.plan.Before
}

// applied runs the steps after the inner store has replied with err.
func (c *call) applied(ctx context.Context, err error) error {
	c.s.mu.Lock()
	c.req.Applied = true
	snapshot := *c.req
	c.s.mu.Unlock()
	snapshot.Err = err
	for _, hook := range c.plan.onApplied {
		hook(snapshot)
	}
	if c.plan.ParkReply {
		if perr := c.s.park(ctx, snapshot.Seq, c.place); perr != nil {
			return perr
		}
	}
	if c.plan.After != nil {
		return c.plan.After
	}
	return err
}

// end logs the reply. Faults get their place, as an adapter would do.
func (c *call) end(err error) error {
	if _, dressed := errors.AsType[*objstore.Error](err); err != nil && !dressed {
		e := &objstore.Error{Op: c.req.Op, Key: c.req.Key, Err: err}
		if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
			e.Class = objstore.ErrAmbiguous // whoever stops waiting cannot know
		}
		err = e
	}
	c.s.mu.Lock()
	c.req.Done, c.req.Err = true, err
	c.s.mu.Unlock()
	return err
}

// sleep waits for d, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
