package soak

import (
	"context"
	"errors"
	"sync"

	"github.com/memwal/memwal-go/memwal"
	"github.com/memwal/memwal-go/objstore/faultstore"
)

// rivals knows whether a kind of call (claims of the shard, seals) may explain
// an error. Its methods are safe for concurrent use.
type rivals struct {
	mu struct {
		sync.Mutex
		begun   int
		running int
		stray   int // failed, so that a request of theirs may land at any time
	}
}

// moment is when something began that a rival may disturb.
type moment struct {
	begun  int  // rivals until then, an own one included
	beside bool // one was under way
}

// begin records that a call begins, and returns its moment.
func (r *rivals) begin() moment {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := moment{r.mu.begun + 1, r.mu.running+r.mu.stray > 0}
	r.mu.begun++
	r.mu.running++
	return m
}

// end records that the call has ended. One that failed may have effects later.
func (r *rivals) end(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.running--
	if err != nil {
		r.mu.stray++
	}
}

// now is the moment of something that is no rival itself.
func (r *rivals) now() moment {
	r.mu.Lock()
	defer r.mu.Unlock()
	return moment{r.mu.begun, r.mu.running+r.mu.stray > 0}
}

// since reports whether a rival was under way at m or has begun since.
func (r *rivals) since(m moment) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return m.beside || r.mu.begun > m.begun
}

// excuse is what may explain the errors of a call.
type excuse struct {
	claim   moment // of the claim of the shard
	seal    moment
	killed  bool // the caller has ended it
	stalled bool // requests were held
}

// explain returns nil if something of the round explains err, and a violation
// otherwise.
func (r *round) explain(call string, err error, x excuse) error {
	is := func(targets ...error) bool {
		for _, t := range targets {
			if errors.Is(err, t) {
				return true
			}
		}
		return false
	}
	faulty := len(r.s.c.Faults) > 0
	switch {
	case err == nil,
		x.killed && is(memwal.ErrAborted, memwal.ErrClosed, context.Canceled),
		is(memwal.ErrFenced) && r.claims.since(x.claim),
		is(memwal.ErrSealed) && r.seals.since(x.seal),
		(faulty || x.stalled) && is(context.DeadlineExceeded),
		faulty && is(faultstore.ErrInjected),
		truncates(r.s.c.Faults) && is(memwal.ErrCorrupt):
		return nil
	}
	return violated("%s: nothing explains this error: %v", call, err)
}
