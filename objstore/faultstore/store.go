package faultstore

import (
	"context"
	"errors"
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
	logSize  int        // how many requests the log keeps
	requests []*Request // the log, in order of Seq; its last logSize count
	nth      tally
	parked   []parked // in order of their parking
	picks    *rand.Rand
	injected map[Fault]int
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
		latency:  make(map[objstore.Op]Latency),
		logSize:  defaultLogSize,
		picks:    rand.New(rand.NewPCG(seed, 0)),
		injected: make(map[Fault]int),
	}
}

// Add adds rules after the others. The returned function removes them;
// requests under way are not affected.
func (s *Store) Add(rules ...Rule) (remove func()) {
	added := make([]*ruleState, len(rules))
	for i, r := range rules {
		added[i] = &ruleState{Rule: r}
	}
	s.mu.Lock()
	s.rules = append(s.rules, added...)
	s.mu.Unlock()
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.rules = slices.DeleteFunc(s.rules, func(r *ruleState) bool { return slices.Contains(added, r) })
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

// defaultLogSize is the number of requests that the log keeps unless told
// otherwise: more than tests look at, and less than 20 MiB.
const defaultLogSize = 1 << 16

// SetLogSize bounds the log of requests: it keeps the last n, at first the last
// 65,536. 0 or less keeps none, for long runs that count only.
func (s *Store) SetLogSize(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.logSize = max(0, n)
	s.trimLocked(s.logSize)
}

// trimLocked drops the oldest requests of the log beyond n.
func (s *Store) trimLocked(n int) {
	s.requests = slices.Delete(s.requests, 0, max(0, len(s.requests)-n))
}

// logLocked adds to the log. It is trimmed when it is twice as long as it may
// be, so that a request costs the same however long the log is.
func (s *Store) logLocked(r *Request) {
	if s.logSize == 0 {
		return
	}
	if len(s.requests) >= 2*s.logSize {
		s.trimLocked(s.logSize)
	}
	s.requests = append(s.requests, r)
}

// Requests returns the log: the last requests so far, in the order of arrival.
// [Store.SetLogSize] says how many.
func (s *Store) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := s.requests[max(0, len(s.requests)-s.logSize):]
	out := make([]Request, len(kept))
	for i, r := range kept {
		out[i] = *r
	}
	return out
}

// Reset empties the log, and the counts of [Store.Injected]. What the future
// depends on stays: rules and how often they have acted, latencies,
// parked requests, and how many requests of each kind and key there were.
// Sequence numbers go on. A request that is under way is not in the log any
// more; a fault that it meets from now on counts.
func (s *Store) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = nil
	clear(s.injected)
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
	hash    uint64 // of place
	plan    plan
	latency Latency
	gone    bool       // its caller has a reply, and it goes on; guarded by s.mu
	rng     *rand.Rand // see random
}

// begin logs a request and makes its plan.
func (s *Store) begin(op objstore.Op, key string, bytes int64) *call {
	c := &call{s: s, req: &Request{Op: op, Key: key, Bytes: bytes}, place: place{opKey: opKey{op, key}}}
	h := c.place.hash()
	s.mu.Lock()
	s.seq++
	c.req.Seq = s.seq
	s.logLocked(c.req)
	c.place.nth = s.nth.next(h)
	c.hash = hashNth(h, c.place.nth)
	c.latency = s.latency[op]
	for _, r := range s.rules {
		if r.matches(c) {
			c.plan.add(r.Rule)
		}
	}
	snapshot := *c.req
	s.mu.Unlock()
	for _, hook := range c.plan.onRequest {
		hook(snapshot)
	}
	return c
}

// reach takes the request to the inner store: the steps before it. An error is
// the reply.
func (c *call) reach(ctx context.Context) error {
	if c.plan.Delay > 0 && ctx.Err() == nil {
		c.s.count(FaultDelay)
	}
	wait := c.plan.Delay + c.latency.transfer(c.req.Bytes)
	if c.latency.P50 > 0 {
		wait += c.latency.draw(c.random())
	}
	if err := sleep(ctx, wait); err != nil {
		return err
	}
	if c.plan.Park {
		if err := c.s.park(ctx, c); err != nil {
			return err
		}
	}
	if err := c.hold(ctx); err != nil {
		return err
	}
	if c.plan.Before != nil {
		c.s.count(beforeFault(c.plan.Before))
	}
	return c.plan.Before
}

// hold waits for Rule.Hold.
func (c *call) hold(ctx context.Context) error {
	if c.plan.Hold == nil {
		return nil
	}
	select {
	case <-c.plan.Hold:
		return nil
	default:
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	c.s.count(FaultHold)
	select {
	case <-c.plan.Hold:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// applied runs the steps after the inner store has replied with err.
func (c *call) applied(ctx context.Context, err error) error {
	c.s.mu.Lock()
	c.req.Applied = true
	if c.gone && err == nil {
		c.s.injected[FaultLate]++
	}
	snapshot := *c.req
	c.s.mu.Unlock()
	snapshot.Err = err
	for _, hook := range c.plan.onApplied {
		hook(snapshot)
	}
	if c.plan.ParkReply {
		if perr := c.s.park(ctx, c); perr != nil {
			return perr
		}
	}
	if c.plan.After == nil {
		return err
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if !c.gone { // somebody hears it
		c.s.injected[FaultAfter]++
	}
	return c.plan.After
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
