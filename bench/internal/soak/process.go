package soak

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/memwal/memwal-go/memwal"
	"github.com/memwal/memwal-go/objstore"
	"github.com/memwal/memwal-go/objstore/faultstore"
)

// ending is how a writer of a process comes to its end, if it is not fenced
// before.
type ending int

const (
	closes      ending = iota
	stays              // until it is fenced, or for long
	killed             // between two moments of whatever it does
	killedLate         // with puts on the wire that land later
	killedEarly        // during Open
	stalls             // its requests are held for longer than OwnershipCheckAfter; then it goes on
	dropped            // left to the garbage collector
	endings            // how many there are
)

// deal returns the next ending: all of them in each pass, in an order drawn anew.
func (s *soak) deal() ending {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.mu.deck) == 0 {
		for _, i := range s.mu.rand.Perm(int(endings)) {
			s.mu.deck = append(s.mu.deck, ending(i))
		}
	}
	e := s.mu.deck[0]
	s.mu.deck = s.mu.deck[1:]
	return e
}

// way is a participant's way to the store: one for each life of a process, so
// that it can be stalled, and outlive it.
type way struct{ *faultstore.Store }

var writes = []objstore.Op{objstore.OpPutIfAbsent, objstore.OpPut}

// hold keeps requests of some kinds (none: all) from the store until release.
func (w way) hold(ops []objstore.Op) (release func()) {
	ch := make(chan struct{})
	remove := w.Add(faultstore.Rule{Ops: ops, Count: -1, Hold: ch, Detach: true})
	return func() {
		remove()
		close(ch)
	}
}

// process opens the shard again and again. It belongs to one goroutine.
type process struct {
	r    *round
	io   way
	rand *rand.Rand
}

// run goes on until ctx ends. An error is a violation.
func (p *process) run(ctx context.Context) error {
	for {
		wait(ctx, p.between(time.Millisecond, p.r.length/20))
		if ctx.Err() != nil {
			return nil
		}
		if err := p.live(ctx); err != nil {
			return err
		}
	}
}

// between draws a time, short ones more often.
func (p *process) between(from, to time.Duration) time.Duration {
	f := p.rand.Float64()
	return from + time.Duration(f*f*float64(to-from))
}

// live is one life of the process: from an Open to the end of its writer. Calls
// do not end with ctx: a process that is asked to stop completes what it does.
func (p *process) live(ctx context.Context) error {
	how := p.r.s.deal()
	life, die := context.WithCancel(context.WithoutCancel(ctx))
	defer die()
	x := excuse{seal: p.r.seals.now(), claim: p.r.claims.begin(), killed: how == killedEarly}
	if how == killedEarly {
		time.AfterFunc(p.between(0, 20*time.Millisecond), die)
	}
	o := p.r.options
	o.MaxInFlight = 1 + p.rand.IntN(o.MaxInFlight)
	w, err := memwal.Open(life, p.io, p.r.shard, tableSchema, &o)
	p.r.claims.end(err)
	if how == killedEarly {
		p.r.s.count(func(f *Figures) { f.Kills++ })
		p.io = p.r.connect()
	}
	if err != nil {
		p.r.ended(err)
		return p.r.explain("open", err, x)
	}
	s, err := p.begin(w, x)
	if err != nil {
		return errors.Join(err, w.Abort())
	}
	w = nil // or a dropped one would be kept
	return s.run(ctx, how, die)
}

// lifetime is how long the writer is used.
func (p *process) lifetime(how ending) time.Duration {
	switch how {
	case stays, killed: // somebody else ends it
		return 3 * time.Second
	case stalls, killedLate: // before somebody else does
		return p.between(0, 100*time.Millisecond)
	}
	return p.between(10*time.Millisecond, 800*time.Millisecond)
}
