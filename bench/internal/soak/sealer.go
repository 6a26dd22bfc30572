package soak

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"
	"github.com/memwal/memwal-go/memwal"
	"github.com/memwal/memwal-go/objstore"
)

// sealer seals the shard and unseals it, again and again. It belongs to one
// goroutine.
type sealer struct {
	r    *round
	io   way
	rand *rand.Rand
}

func (s *sealer) run(ctx context.Context) error {
	for {
		wait(ctx, time.Duration(float64(s.r.length)*(0.2+0.3*s.rand.Float64())))
		if ctx.Err() != nil {
			return nil
		}
		if err := s.cycle(ctx); err != nil {
			return err
		}
	}
}

// cycle seals and unseals, and now and then dies in between. It completes what it
// does when ctx ends.
func (s *sealer) cycle(ctx context.Context) (err error) {
	// Until the shard is surely unsealed, and for ever after a call that failed, it
	// may be sealed.
	s.r.seals.begin()
	clean := false
	defer func() {
		if !clean && err == nil {
			s.r.seals.end(errUnsure)
			return
		}
		s.r.seals.end(err)
	}()
	life, die := context.WithCancel(context.WithoutCancel(ctx))
	defer die()
	dies := s.rand.IntN(4) == 0
	if dies {
		time.AfterFunc(time.Duration(s.rand.Int64N(int64(20*time.Millisecond))), die)
	}
	sealed, err := s.call(life, "seal", memwal.SealShard, dies)
	if err != nil {
		return err
	}
	if sealed {
		s.r.ledger.seal()
		s.r.s.count(func(f *Figures) { f.Seals++ })
		wait(ctx, time.Duration(s.rand.Int64N(int64(200*time.Millisecond))))
	}
	if dies {
		s.io = s.r.connect()
	}
	// Whatever became of it: the shard is opened again.
	life = context.WithoutCancel(ctx)
	s.r.ledger.unseal()
	for {
		unsealed, err := s.call(life, "unseal", memwal.UnsealShard, false)
		if err != nil {
			return err
		}
		if unsealed {
			s.r.s.count(func(f *Figures) { f.Unseals++ })
			clean = sealed
			return nil
		}
		if ctx.Err() != nil {
			return nil // the end of the round does it
		}
		wait(ctx, 10*time.Millisecond)
	}
}

var errUnsure = errors.New("a seal may land later")

// setStatus is memwal.SealShard or memwal.UnsealShard.
type setStatus func(context.Context, objstore.Store, uuid.UUID, *memwal.Options) error

// call makes one call, which is a rival of every writer. It reports whether it has
// succeeded. An error is a violation.
func (s *sealer) call(ctx context.Context, name string, do setStatus, dies bool) (ok bool, err error) {
	isNew := s.r.incarnations.Load() == 0
	x := excuse{claim: s.r.claims.begin(), seal: s.r.seals.now(), killed: dies}
	err = do(ctx, s.io, s.r.shard, &s.r.options)
	s.r.claims.end(err)
	if isNew && errors.Is(err, memwal.ErrInvalid) {
		return false, nil // there is no shard yet
	}
	return err == nil, s.r.explain(name, err, x)
}
