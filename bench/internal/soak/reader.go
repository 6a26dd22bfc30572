package soak

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/memwal/memwal-go/memwal"
	"github.com/memwal/memwal-go/objstore"
)

// viewer reads the shard from outside. It belongs to one goroutine.
type viewer struct {
	r    *round
	io   way
	rand *rand.Rand
	// shown is the bound that the reader had: it only grows.
	shown uint64
}

// run opens readers until ctx ends. An error is a violation.
func (v *viewer) run(ctx context.Context) error {
	for {
		wait(ctx, time.Duration(v.rand.Int64N(int64(50*time.Millisecond))))
		if ctx.Err() != nil {
			return nil
		}
		if err := v.live(ctx); err != nil {
			return err
		}
	}
}

// live is one reader from its opening to its end. Like a process it completes
// what it does.
func (v *viewer) live(ctx context.Context) error {
	life := context.WithoutCancel(ctx)
	least := v.r.ledger.acknowledged()
	r, err := memwal.OpenReader(life, v.io, v.r.shard, v.r.readerOptions(v.rand))
	if err != nil {
		if least == 0 && errors.Is(err, objstore.ErrNotExist) {
			return nil // nobody has opened it yet
		}
		return v.r.explain("open a reader", err, excuse{})
	}
	defer r.Close()
	v.shown = 0
	v.r.s.count(func(f *Figures) { f.Readers++ })
	if err := v.refreshed(r, least); err != nil {
		return err
	}
	for range 1 + v.rand.IntN(100) {
		if ctx.Err() != nil {
			return nil
		}
		if v.rand.IntN(5) == 0 {
			if again, err := v.follow(ctx, r); err != nil || !again {
				return err
			}
			continue
		}
		wait(ctx, time.Duration(v.rand.Int64N(int64(40*time.Millisecond))))
		least := v.r.ledger.acknowledged()
		if err := r.Refresh(life); err != nil {
			if err := v.r.explain("refresh", err, excuse{}); err != nil {
				return err
			}
			if !objstore.Retryable(err) && !errors.Is(err, context.DeadlineExceeded) {
				return nil // it may stay; a new reader begins anew
			}
			least = 0
		}
		if err := v.refreshed(r, least); err != nil {
			return err
		}
	}
	return nil
}

// follow takes some snapshots of Follow. It reports whether the reader is still
// of use.
func (v *viewer) follow(ctx context.Context, r *memwal.Reader) (again bool, err error) {
	ctx, stop := context.WithTimeout(ctx, time.Duration(v.rand.Int64N(int64(300*time.Millisecond))))
	defer stop()
	from := r.Bound()
	for s, err := range r.Follow(ctx, from) {
		if err != nil {
			return false, v.r.explain("follow", err, excuse{})
		}
		if s.Bound() <= from {
			return false, violated("Follow from row %d yields a snapshot of %d rows", from, s.Bound())
		}
		from = s.Bound()
		if err := v.look(s, 0); err != nil {
			return false, err
		}
	}
	return true, nil
}

// refreshed checks a reader that must show least rows.
func (v *viewer) refreshed(r *memwal.Reader, least uint64) error {
	s, err := r.Snapshot()
	if err != nil {
		return violated("the snapshot of a reader: %v", err)
	}
	defer s.Close()
	v.r.s.count(func(f *Figures) { f.Refreshes++ })
	return v.look(s, least)
}

func (v *viewer) look(s *memwal.Snapshot, least uint64) error {
	if s.Bound() < least {
		return violated("a reader shows %d rows, though %d were acknowledged before its refresh began", s.Bound(), least)
	}
	if s.Bound() < v.shown {
		return violated("a reader shows %d rows after it had shown %d", s.Bound(), v.shown)
	}
	v.shown = s.Bound()
	if v.rand.IntN(6) > 0 {
		return v.r.ledger.show(s.Bound()) // a whole check takes longer than a refresh
	}
	_, err := v.r.check(s, false, v.rand)
	return err
}
