package manifest

import (
	"context"
	"errors"
	"fmt"

	"github.com/memwal/memwal-go/internal/wal"
)

// Update commits a change on top of the newest version, as long as the claim is
// in force: on a conflict it reads the newest version and builds again, without
// bound. A claim that was lost gives a [FencedError].
//
// change is given a clone of the newest version. It may be called several times
// and must leave alone what it finds done already, since an earlier attempt may
// have been applied after all; it returns [ErrUnchanged] if nothing is left to
// do. The claim, the version and the ids are not its to change. Update returns
// the version that has the change.
func (l *Log) Update(ctx context.Context, own Owner, change func(*Manifest) error) (*Manifest, error) {
	return l.update(ctx, func(m *Manifest) error { return checkOwner(m, own) }, change)
}

// UpdateAny is Update for changes that do not depend on the claim: those of
// consumers (planes that absorb the log), who live in other processes than the
// writer. The writer itself never calls it.
func (l *Log) UpdateAny(ctx context.Context, change func(*Manifest) error) (*Manifest, error) {
	return l.update(ctx, func(m *Manifest) error {
		switch {
		case m == nil:
			return ErrNotFound
		case m.Legacy:
			return fmt.Errorf("%w: version %d was written by another program; claim the shard first", ErrInvalid, m.Version)
		}
		return nil
	}, change)
}

func (l *Log) update(ctx context.Context, allowed, change func(*Manifest) error) (*Manifest, error) {
	for attempt := 1; ; attempt++ {
		base, err := l.Newest(ctx)
		if err != nil {
			return nil, err
		}
		if err := allowed(base); err != nil {
			return nil, err
		}
		next := base.Clone()
		if err := change(next); errors.Is(err, ErrUnchanged) {
			return base, nil
		} else if err != nil {
			return nil, err
		}
		if next.Owner() != base.Owner() || next.Status != base.Status {
			return nil, fmt.Errorf("%w: epoch, claim id and status are changed by claims only", ErrInvalid)
		}
		next.CommitID = wal.NewPutID()
		err = l.Commit(ctx, base, next)
		if err == nil {
			return next, nil
		}
		if !errors.Is(err, ErrConflict) {
			return nil, err
		}
		if err := l.backoff(ctx, attempt); err != nil {
			return nil, fmt.Errorf("manifest: update after %d conflicts: %w", attempt, err)
		}
	}
}

// Claim takes the shard over: it commits a version with the next epoch on top of
// base, the newest version as the caller has just read it; nil: it is read. On a
// conflict it begins again with the newest version. The hint is the caller's to
// write.
//
// build is given the newest version, nil for a new shard, and returns what to
// commit: a clone of it, or the first version. It may be called several times
// and must do all the checks that could refuse the shard. Claim sets epoch,
// version and ids, and keeps what only grows. A sealed shard gives [ErrSealed],
// and one that another program has rewritten [ErrForeignWriter], before build is
// called. Whether a legacy shard may be claimed at all is for build to say.
//
// After a claim the caller must put its fence and then check that the claim is
// still in force: a peer may have claimed since.
func (l *Log) Claim(ctx context.Context, base *Manifest, build func(*Manifest) (*Manifest, error)) (*Manifest, error) {
	return l.claim(ctx, base, false, build)
}

// ClaimSealed is Claim for sealing and unsealing: it takes over a sealed shard,
// too, and leaves the status to build.
func (l *Log) ClaimSealed(ctx context.Context, base *Manifest, build func(*Manifest) (*Manifest, error)) (*Manifest, error) {
	return l.claim(ctx, base, true, build)
}

func (l *Log) claim(ctx context.Context, base *Manifest, sealed bool, build func(*Manifest) (*Manifest, error)) (*Manifest, error) {
	for attempt := 1; ; attempt++ {
		if base == nil {
			var err error
			if base, err = l.Newest(ctx); err != nil {
				return nil, err
			}
		}
		if err := l.CheckForeign(ctx, base); err != nil {
			return nil, err
		}
		if base != nil && base.Status != Active && !sealed {
			return nil, fmt.Errorf("%w (version %d, epoch %d)", ErrSealed, base.Version, base.Epoch)
		}
		next, err := build(base)
		if err != nil {
			return nil, err
		}
		if next == nil || next == base {
			return nil, fmt.Errorf("%w: a claim needs a manifest of its own; clone the newest", ErrInvalid)
		}
		next.Epoch = 1
		if base != nil {
			next.Epoch = base.Epoch + 1
		}
		next.CommitID = wal.NewPutID()
		next.ClaimID = next.CommitID
		err = l.commit(ctx, base, next)
		if err == nil {
			return next, nil
		}
		if !errors.Is(err, ErrConflict) {
			return nil, err
		}
		base = nil
		if err := l.backoff(ctx, attempt); err != nil {
			return nil, fmt.Errorf("manifest: claim after %d conflicts: %w", attempt, err)
		}
	}
}
