package memwal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/memwal/memwal-go/internal/manifest"
	"github.com/memwal/memwal-go/objstore"
	"github.com/memwal/memwal-go/replay"
	"go.opentelemetry.io/otel/attribute"
)

// SealShard closes a shard to writers: it stops the one that runs and makes
// Open fail with ErrSealed, until UnsealShard. It returns once the running
// writer cannot have anything acknowledged any more. Sealing a sealed shard
// completes what an interrupted call may have left undone.
//
// Of the options only Retry, ReplayBytes, OwnershipCheckAfter, Allocator and
// Logger matter; nil means the defaults. Errors are ErrInvalid if there is no
// such shard, ErrFenced if somebody else took it over meanwhile,
// ErrForeignWriter, ErrHole, ErrCorrupt, and those of the store.
func SealShard(ctx context.Context, store objstore.Store, shard uuid.UUID, o *Options) error {
	return setStatus(ctx, store, shard, o, manifest.Sealed)
}

// UnsealShard opens a sealed shard to writers again. It fences, too: rows that a
// writer had in flight when the shard was sealed do not turn up later. To a shard
// that is not sealed it does nothing. Options and errors are those of SealShard.
func UnsealShard(ctx context.Context, store objstore.Store, shard uuid.UUID, o *Options) error {
	return setStatus(ctx, store, shard, o, manifest.Active)
}

// errNotSealed ends a takeover before it has disturbed anybody.
var errNotSealed = errors.New("the shard is not sealed")

func setStatus(ctx context.Context, store objstore.Store, shard uuid.UUID, o *Options, status manifest.Status) (err error) {
	start := time.Now()
	opts := o.withDefaults()
	ctx, span := opts.tracer(shard).Start(ctx, "memwal.seal", attribute.String("memwal.status", status.String()))
	defer func() { span.End(err) }()
	if err := errors.Join(checkPlace(store, shard), opts.validate()); err != nil {
		return fmt.Errorf("make shard %v %v: %w", shard, status, err)
	}
	sio := ioOf(store, shard, opts)
	got, err := sio.takeover().run(ctx, plan{
		sealed: true,
		next: func(cur *manifest.Manifest) (*manifest.Manifest, error) {
			if cur == nil {
				return nil, invalid("shard", fmt.Errorf("does not exist: Open creates it"))
			}
			if status == manifest.Active && cur.Status == status {
				return nil, errNotSealed
			}
			next := cur.Clone()
			next.Status = status
			return next, nil
		},
		load: func(*manifest.Manifest) (func(*replay.Step) error, error) {
			return func(s *replay.Step) error {
				s.Entry.Release()
				return nil
			}, nil
		},
	})
	if errors.Is(err, errNotSealed) {
		return nil
	}
	if err != nil {
		logRefusal(sio.opts.Logger, err)
		return fmt.Errorf("make shard %v %v: %w", shard, status, err)
	}
	sio.opts.Logger.Info("shard status changed", "status", status.String(), "epoch", got.manifest.Epoch,
		"fence", got.tail.Position, "next_row", got.tail.NextRow, "duration", time.Since(start))
	return nil
}
