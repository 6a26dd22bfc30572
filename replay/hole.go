package replay

import (
	"context"
	"errors"
	"fmt"

	"github.com/memwal/memwal-go/internal/manifest"
	"github.com/memwal/memwal-go/internal/wal"
	"github.com/memwal/memwal-go/objstore"
)

// ErrHole is the category of errors about missing WAL objects.
var ErrHole = errors.New("hole in the WAL")

// HoleError says that the object at Position is missing although the log once
// reached Witness. It matches ErrHole.
type HoleError struct {
	Position uint64
	Witness  uint64
	Reason   string
}

func (e *HoleError) Error() string {
	return fmt.Sprintf("WAL entry %d is missing, but %s (position %d): somebody deleted it; "+
		"restore the object from a backup before opening the shard, nothing above it can be trusted", e.Position, e.Reason, e.Witness)
}

// Is makes errors.Is(err, ErrHole) true.
func (e *HoleError) Is(target error) bool { return target == ErrHole }

// Bounds is what the manifest says about the log.
type Bounds struct {
	MaxInFlight uint64 // the largest span of unresolved puts of any writer so far
	LastSeen    uint64 // a position that was once the end of the log, or 0
}

// CheckHole says whether the log was once longer than its first empty position,
// at which the walk stands. A writer leaves empty positions below others only
// within its window of puts in flight. So there is a hole if an object of the
// epoch in force lies a whole window above, if a fence lies anywhere above (its
// writer found no empty position below it), if an object lies above whose epoch
// began above, or if the manifest has seen the log longer. Objects of older
// epochs may lie anywhere: puts of fenced writers land late.
func (w *Walker) CheckHole(ctx context.Context, b Bounds) error {
	return w.checkAbove(ctx, w.chain.Tuple().Epoch, b)
}

// checkAbove looks for witnesses above w.next, which is empty. epoch is the one in
// force there.
func (w *Walker) checkAbove(ctx context.Context, epoch uint64, b Bounds) error {
	if b.LastSeen >= w.next {
		return &HoleError{w.next, b.LastSeen, "the manifest has seen the log reach further"}
	}
	for _, it := range w.cfg.Listed.above(w.next) {
		h, err := w.header(ctx, it.Position)
		if errors.Is(err, objstore.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if w.cfg.Epoch > 0 && h.Epoch > w.cfg.Epoch {
			return manifest.FencedBy(w.cfg.Epoch, h.Epoch)
		}
		if reason := witness(h, it.Position-w.next, epoch, b.MaxInFlight); reason != "" {
			return &HoleError{w.next, it.Position, reason}
		}
	}
	return nil
}

// Precheck looks for a hole before anything is claimed, so that an open that is
// going to fail leaves a running writer alone. It sees only what the listing
// shows, while CheckHole has walked the log; what it reports is certain, if the
// manifest is still the one that from, epoch and b come from. It returns nil if
// it is not sure.
func Precheck(ctx context.Context, cfg Config, epoch uint64, b Bounds) error {
	w := &Walker{cfg: cfg, next: cfg.From.Position + 1}
	for _, it := range cfg.Listed.above(cfg.From.Position) {
		if it.Position != w.next {
			break
		}
		w.next++
	}
	above := cfg.Listed.above(w.next)
	if b.LastSeen < w.next && len(above) == 0 {
		return nil
	}
	// The listing need not be of one moment: what it shows above may have been
	// put after it had passed this position.
	if _, err := cfg.Store.Head(ctx, cfg.Dir+wal.Name(w.next)); err == nil {
		return nil
	} else if !errors.Is(err, objstore.ErrNotExist) {
		return fmt.Errorf("look for WAL entry %d: %w", w.next, err)
	}
	return w.checkAbove(ctx, epoch, b)
}

// witness says why an object with header h, distance positions above an empty
// one where epoch is in force, proves a hole, or "" if it does not.
func witness(h wal.Header, distance, epoch, maxInFlight uint64) string {
	switch {
	case h.Fence:
		return "a writer put its fence above it"
	case h.Epoch > epoch:
		return "an object above it is of an epoch that began later"
	case h.Epoch == epoch && distance >= maxInFlight:
		return "its writer went on further than its window of puts in flight reaches"
	}
	return ""
}

// header reads the header of an object, which may have been fetched ahead.
func (w *Walker) header(ctx context.Context, pos uint64) (wal.Header, error) {
	if h, ok := w.ahead.header(pos); ok {
		return h, nil
	}
	data, err := w.cfg.Store.Get(ctx, w.cfg.Dir+wal.Name(pos))
	if err != nil {
		return wal.Header{}, fmt.Errorf("read WAL entry %d: %w", pos, err)
	}
	h, err := wal.DecodeHeader(data)
	return h, wal.AtPosition(err, pos)
}
