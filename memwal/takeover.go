package memwal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/pprof"
	"sync"
	"time"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/memwal/memwal-go/internal/fault"
	"github.com/memwal/memwal-go/internal/manifest"
	"github.com/memwal/memwal-go/internal/telemetry"
	"github.com/memwal/memwal-go/internal/wal"
	"github.com/memwal/memwal-go/objstore"
	"github.com/memwal/memwal-go/replay"
	"golang.org/x/sync/errgroup"
)

// takeover makes somebody the owner of a shard: it claims the next epoch, walks
// the log to its end, and puts the fence there. Open does it to write, SealShard
// and UnsealShard to make sure that nobody else does.
//
// The order is what makes it safe:
//
//  1. Read the newest manifest and check everything against it. A doomed
//     takeover fails here and disturbs nobody.
//  2. Commit the claim. From here on no other writer's manifest commit lands.
//  3. Walk the log to the first empty position and put the fence there. If
//     something lands there first, it is an entry like any other: judge it and
//     go on. Once the fence stands, no other writer's append is acknowledged.
//  4. Read the manifest again. If somebody claimed after us, or the fence stands
//     where the log was recycled already, it proves nothing.
type takeover struct {
	store  objstore.Writer
	dirs   layout
	log    *manifest.Log
	budget int64
	mem    memory.Allocator
	logger *slog.Logger
	labels pprof.LabelSet
	trace  telemetry.Tracer
	adopt  *adoption // checks logs of other programs; nil: they are refused
}

// plan is what the taker wants of a shard.
type plan struct {
	// sealed lets it take over a sealed shard, too.
	sealed bool
	// probe is the key of the start-up probe; "" makes none.
	probe string
	// next returns the manifest to commit, built on cur, which is nil for a new
	// shard. It checks everything that can be checked, and is called more than once.
	next func(cur *manifest.Manifest) (*manifest.Manifest, error)
	// load returns who is given the log's entries, from the floor upward. It is
	// called once for each claim; the one before is then void.
	load func(claimed *manifest.Manifest) (func(*replay.Step) error, error)
}

// taken is a shard taken over. The fence fills in what is known of it; confirm does
// the rest.
type taken struct {
	manifest *manifest.Manifest
	tail     wal.Tuple // the fence
	proof    time.Time // when the read was sent that confirmed it
	date     time.Time // of the reply to the fence, by the store's clock; zero if it gives none
}

// errStartOver means that the shard changed under us.
var errStartOver = errors.New("the shard changed meanwhile")

// maxTakeovers bounds how often a takeover starts over. Each time somebody else
// has claimed the shard or moved its floors; that many in a row is a fight that
// waiting for does not end. OpenReader, which starts over when the floor has moved
// or the shard was adopted, has as many attempts.
const maxTakeovers = 16

func (t *takeover) run(ctx context.Context, p plan) (taken, error) {
	var err error
	for range maxTakeovers {
		var got taken
		got, err = t.once(ctx, p)
		if !errors.Is(err, errStartOver) {
			return got, err
		}
		t.logger.Warn("taking the shard over starts again", "reason", err)
	}
	return taken{}, fmt.Errorf("gave up after %d attempts: %w", maxTakeovers, err)
}

func (t *takeover) once(ctx context.Context, p plan) (taken, error) {
	claimed, w, err := t.seize(ctx, p)
	if err != nil {
		return taken{}, err
	}
	defer w.Close()
	var hint sync.WaitGroup
	hint.Go(func() { t.log.WriteHint(ctx, claimed.Version) })
	defer hint.Wait()
	visit, err := p.load(claimed)
	if err != nil {
		return taken{}, err
	}
	got, err := t.walk(ctx, claimed, w, visit)
	if errors.Is(err, errStartOver) {
		// Only the owner may claim again: a peer that claimed after us stays.
		if lost := t.log.Check(ctx, claimed.Owner()); lost != nil {
			return taken{}, lost
		}
	}
	if err != nil {
		return taken{}, err
	}
	return t.confirm(ctx, claimed, got)
}

// seize checks everything that can be checked, and commits the claim. It also
// returns the walker that is going to read the log: it has begun to fetch when
// nothing spoke against the claim any more. The caller closes it.
func (t *takeover) seize(outer context.Context, p plan) (_ *manifest.Manifest, _ *replay.Walker, err error) {
	ctx, span := t.trace.Start(outer, "memwal.claim")
	defer func() { span.End(err) }()
	cur, listed, err := t.look(ctx)
	if err != nil {
		return nil, nil, err
	}
	if err := t.precheck(ctx, cur, listed); err != nil {
		return nil, nil, err
	}
	next, err := p.next(cur)
	if err != nil {
		return nil, nil, err
	}
	w := replay.NewWalker(replay.Config{
		Store: t.store, Dir: t.dirs.wal, From: next.RowsFloor(), Listed: listed, Speculate: true,
		Budget: t.budget, Allocator: t.mem, Context: pprof.WithLabels(outer, t.labels),
	})
	defer func() {
		if err != nil {
			w.Close()
		}
	}()
	// The probe writes, so it comes after everything that may refuse the shard.
	if p.probe != "" {
		if err := objstore.Probe(ctx, t.store, p.probe); err != nil {
			return nil, nil, err
		}
	}
	claimed, err := t.claim(ctx, p, cur)
	return claimed, w, err
}

// look reads the newest manifest and lists the log, at the same time.
func (t *takeover) look(ctx context.Context) (cur *manifest.Manifest, listed replay.Listing, err error) {
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) {
		cur, err = t.log.Newest(gctx)
		return err
	})
	g.Go(func() (err error) {
		listed, err = replay.List(gctx, t.store, t.dirs.wal)
		return err
	})
	return cur, listed, g.Wait()
}

// claim commits what p wants on top of cur, unless another version has followed.
func (t *takeover) claim(ctx context.Context, p plan, cur *manifest.Manifest) (*manifest.Manifest, error) {
	claim := t.log.Claim
	if p.sealed {
		claim = t.log.ClaimSealed
	}
	return claim(ctx, cur, func(m *manifest.Manifest) (*manifest.Manifest, error) {
		if versionOf(m) != versionOf(cur) {
			return nil, fmt.Errorf("%w: manifest version %d followed %d", errStartOver, versionOf(m), versionOf(cur))
		}
		return p.next(m)
	})
}

func versionOf(m *manifest.Manifest) uint64 {
	if m == nil {
		return 0
	}
	return m.Version
}

// precheck refuses shards that are not ours to write, and logs with a hole.
func (t *takeover) precheck(ctx context.Context, cur *manifest.Manifest, listed replay.Listing) error {
	if cur == nil {
		return t.precheckNew(ctx, listed)
	}
	if cur.Legacy {
		if err := t.log.CheckForeign(ctx, cur); err != nil {
			return err
		}
		return t.adopt.check(ctx, cur, listed)
	}
	err := replay.Precheck(ctx, replay.Config{
		Store: t.store, Dir: t.dirs.wal, From: cur.RowsFloor(), Listed: listed,
	}, cur.Epoch, boundsOf(cur))
	if err = t.certain(ctx, err, cur); errors.Is(err, ErrFenced) {
		return fmt.Errorf("%w: it changed hands while its log was read", errStartOver)
	}
	return err
}

// precheckNew refuses a shard that has lost its manifest: a new one is empty.
func (t *takeover) precheckNew(ctx context.Context, listed replay.Listing) error {
	var lost error
	if len(listed) > 0 {
		lost = &wal.CorruptError{Position: listed[0].Position, Reason: "the shard has no manifest, but it has WAL entries: restore the manifest, or choose another shard"}
	}
	for o, err := range t.store.List(ctx, t.dirs.gc) {
		if err != nil {
			return fmt.Errorf("list %s: %w", t.dirs.gc, err)
		}
		lost = &wal.CorruptError{Reason: fmt.Sprintf("the shard has no manifest, but %s is there: restore the manifest, or choose another shard", o.Key)}
		break
	}
	if lost == nil {
		return nil // the claim reads the manifest again
	}
	// A peer may have created the shard since, and what is there is its own. So the
	// manifest is read after everything else.
	if now, err := t.log.Newest(ctx); err != nil || now != nil {
		return cmp.Or(err, fmt.Errorf("%w: it was created while its folder was looked at", errStartOver))
	}
	return lost
}

// certain reads the manifest again before a hole is reported: if the shard
// changed hands, or its floor moved, what looks like a hole may be somebody's
// recycling.
func (t *takeover) certain(ctx context.Context, err error, m *manifest.Manifest) error {
	if !errors.Is(err, ErrHole) {
		return err
	}
	now, lost := t.log.Owned(ctx, m.Owner())
	switch {
	case errors.Is(lost, ErrFenced):
		return lost
	case lost != nil:
		return errors.Join(err, lost)
	case now.RowsFloor() != m.RowsFloor():
		return fmt.Errorf("%w: its floor moved while its log was read", errStartOver)
	}
	return stillMissing(ctx, t.store, t.dirs.wal, err)
}

// stillMissing looks once more for the object that a HoleError misses: a store, or a
// proxy in front of it, may have said "absent" of an object that exists. A hole sends
// the user to a backup, so one answer is not enough. If the object is there, the
// takeover starts over with another listing. Other errors are returned as they are.
func stillMissing(ctx context.Context, store objstore.Reader, dir string, err error) error {
	hole, ok := errors.AsType[*HoleError](err)
	if !ok {
		return err
	}
	_, failed := store.Head(ctx, dir+wal.Name(hole.Position))
	switch {
	case failed == nil:
		return fmt.Errorf("%w: WAL entry %d was absent, and is there", errStartOver, hole.Position)
	case errors.Is(failed, objstore.ErrNotExist):
		return err
	}
	return fmt.Errorf("look for WAL entry %d again: %w", hole.Position, failed)
}

func boundsOf(m *manifest.Manifest) replay.Bounds {
	return replay.Bounds{MaxInFlight: max(m.MaxInFlight, 1), LastSeen: m.LastSeen}
}

// walk gives the log's entries to visit and puts the fence at its end.
func (t *takeover) walk(ctx context.Context, m *manifest.Manifest, w *replay.Walker, visit func(*replay.Step) error) (_ taken, err error) {
	ctx, visit, ended := traceReplay(ctx, t.trace, visit)
	defer func() { ended(err) }()
	// Listed before the walk: what the listing shows above a position was put
	// before the walk finds that position empty.
	listed, err := replay.List(ctx, t.store, t.dirs.wal)
	if err != nil {
		return taken{}, err
	}
	w.Relist(listed, m.Epoch)
	for {
		s, err := w.Next(ctx)
		if err != nil {
			return taken{}, err
		}
		if s != nil {
			if err := visit(s); err != nil {
				return taken{}, err
			}
			continue
		}
		if err := t.certain(ctx, w.CheckHole(ctx, boundsOf(m)), m); err != nil {
			return taken{}, err
		}
		end := w.Tuple()
		if fault.FenceAboveLast && len(listed) > 0 {
			end.Position = max(end.Position, listed[len(listed)-1].Position)
		}
		fencing, span := t.trace.Start(ctx, "memwal.fence")
		got, err := t.fence(fencing, m.Epoch, end)
		span.End(err)
		if err != nil || got.tail.Position > 0 {
			return got, err
		}
		// Something landed first: the walker looks at it.
	}
}

// fence puts the fence of epoch above the log's end. It returns a zero tail if
// another object holds the position.
func (t *takeover) fence(ctx context.Context, epoch uint64, end wal.Tuple) (taken, error) {
	tail := wal.Tuple{
		Position: end.Position + 1, Epoch: epoch, PutID: wal.NewPutID(),
		NextRow: end.NextRow, Generation: end.Generation,
	}
	body, err := wal.EncodeFence(wal.Header{
		Epoch: epoch, PutID: tail.PutID, PrevPutID: end.PutID, FirstRow: end.NextRow, Fence: true,
	})
	if err != nil {
		return taken{}, err
	}
	key := t.dirs.wal + wal.Name(tail.Position)
	res, err := t.store.PutIfAbsent(ctx, key, body)
	if err == nil {
		return taken{tail: tail, date: res.Date}, nil
	}
	if !errors.Is(err, objstore.ErrExists) {
		return taken{}, fmt.Errorf("put the fence at WAL position %d: %w", tail.Position, err)
	}
	data, err := t.store.Get(ctx, key)
	if errors.Is(err, objstore.ErrNotExist) {
		return taken{}, fmt.Errorf("%w: the object at WAL position %d was recycled", errStartOver, tail.Position)
	}
	if err != nil {
		return taken{}, fmt.Errorf("read the object at WAL position %d: %w", tail.Position, err)
	}
	h, err := wal.DecodeHeader(data)
	if err != nil {
		return taken{}, wal.AtPosition(err, tail.Position)
	}
	if h.PutID == tail.PutID {
		return taken{tail: tail}, nil // our own, whose reply was lost
	}
	return taken{}, nil
}

// confirm reads the manifest after the fence stands.
func (t *takeover) confirm(ctx context.Context, claimed *manifest.Manifest, got taken) (taken, error) {
	got.proof = time.Now()
	if fault.NoRecheck {
		got.manifest = claimed
		return got, nil
	}
	now, err := t.log.Owned(ctx, claimed.Owner())
	if err != nil {
		return taken{}, err
	}
	if floor := now.RowsFloor().Position; floor >= got.tail.Position {
		return taken{}, fmt.Errorf("%w: the fence at WAL position %d lies below the floor at %d", errStartOver, got.tail.Position, floor)
	}
	t.logger.Info("shard taken over", "epoch", now.Epoch, "fence", got.tail.Position, "next_row", got.tail.NextRow)
	got.manifest = now
	return got, nil
}
