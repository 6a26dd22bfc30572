package faultstore

import (
	"cmp"
	"context"
	"slices"
)

// parked is a request that waits for its release.
type parked struct {
	call    *call
	release chan struct{}
}

// compareParked orders by what does not depend on how requests interleave.
func compareParked(a, b parked) int {
	p, q := a.call.place, b.call.place
	return cmp.Or(cmp.Compare(p.key, q.key), cmp.Compare(p.op, q.op), cmp.Compare(p.nth, q.nth))
}

// park makes a request wait for its release.
func (s *Store) park(ctx context.Context, c *call) error {
	p := parked{call: c, release: make(chan struct{})}
	s.mu.Lock()
	s.parked = append(s.parked, p)
	s.mu.Unlock()
	select {
	case <-p.release:
		return nil
	case <-ctx.Done():
		s.mu.Lock()
		s.parked = slices.DeleteFunc(s.parked, func(o parked) bool { return o.call == c })
		s.mu.Unlock()
		return ctx.Err()
	}
}

// Parked returns the requests that wait for their release, oldest first. Applied
// tells those whose reply waits.
func (s *Store) Parked() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]Request, 0, len(s.parked))
	for _, p := range s.parked {
		out = append(out, *p.call.req)
	}
	return out
}

// Release lets the parked request with that sequence number go on. It reports
// whether there was one.
func (s *Store) Release(seq uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.parked, func(p parked) bool { return p.call.req.Seq == seq })
	if i >= 0 {
		s.releaseLocked(i)
	}
	return i >= 0
}

// ReleaseOne lets one parked request go on, picked by the seed. It returns its
// sequence number, or 0 if there was none.
func (s *Store) ReleaseOne() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.parked) == 0 {
		return 0
	}
	// Requests that arrive together park in any order: what the
	// pick is made from must not depend on it.
	slices.SortFunc(s.parked, compareParked)
	return s.releaseLocked(s.picks.IntN(len(s.parked)))
}

// ReleaseAll lets all parked requests go on. Later ones park again.
func (s *Store) ReleaseAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.parked) > 0 {
		s.releaseLocked(0)
	}
}

func (s *Store) releaseLocked(i int) uint64 {
	p := s.parked[i]
	s.parked = slices.Delete(s.parked, i, i+1)
	close(p.release)
	return p.call.req.Seq
}
