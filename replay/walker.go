package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/memwal/memwal-go/internal/manifest"
	"github.com/memwal/memwal-go/internal/wal"
	"github.com/memwal/memwal-go/objstore"
)

// Config says what a Walker reads.
type Config struct {
	// Store holds the log. It retries transient failures itself.
	Store objstore.Reader
	// Dir is the key prefix of the log, with a slash at its end.
	Dir string
	// From is the floor: the first position visited is the one above it.
	From wal.Tuple
	// Epoch is the reader's own epoch: an object of a higher one ends the walk
	// with a fence error. 0 accepts every epoch.
	Epoch uint64
	// Listed is a listing of the log made before the walk, see List. It only
	// steers what is fetched ahead: positions that it lacks are visited too.
	Listed Listing
	// Speculate asks for positions that are not listed ahead: one, and twice as
	// many after each object that was there, up to Fetches. At an empty position it
	// falls back to one. It is for those who follow a log without listing it. The
	// size of such an object is not known, so the largest one seen is reserved.
	Speculate bool
	// Budget bounds the bytes that are ahead, fetched or decoded. One entry is
	// taken in however large it is. Default: 64 MiB.
	Budget int64
	// Fetches bounds the requests in flight. Default: 24. With fewer, a log of many
	// small entries takes longer in a store that answers after tens of milliseconds;
	// more gain little, and each is a connection.
	Fetches int
	// Context has the values that the requests get: spans, labels. Its end does not
	// matter, Close ends the requests. Default: none.
	Context context.Context
	// Allocator serves compressed entries, from several goroutines at once.
	// Default: memory.DefaultAllocator.
	Allocator memory.Allocator
}

// Listing is what the log held when it was listed, in order of position.
type Listing []Item

// Item is one listed WAL object.
type Item struct {
	Position uint64
	Size     int64
}

// List lists the log below dir completely, in whatever order and pages the store
// gives it. Keys that are not positions are ignored: other programs may keep
// files there.
func List(ctx context.Context, store objstore.Reader, dir string) (Listing, error) {
	var l Listing
	for o, err := range store.List(ctx, dir) {
		if err != nil {
			return nil, fmt.Errorf("list the WAL: %w", err)
		}
		if pos, ok := wal.ParseName(strings.TrimPrefix(o.Key, dir)); ok && pos > 0 && pos < math.MaxUint64 {
			l = append(l, Item{pos, o.Size})
		}
	}
	slices.SortFunc(l, func(a, b Item) int { return cmp.Compare(a.Position, b.Position) })
	// A store may show an object on two pages.
	return slices.CompactFunc(l, func(a, b Item) bool { return a.Position == b.Position }), nil
}

// above returns the items above pos.
func (l Listing) above(pos uint64) Listing {
	i, _ := slices.BinarySearchFunc(l, pos+1, comparePosition)
	return l[i:]
}

// at returns the item at pos, if the log had one when it was listed.
func (l Listing) at(pos uint64) (_ Item, ok bool) {
	i, ok := slices.BinarySearchFunc(l, pos, comparePosition)
	if !ok {
		return Item{}, false
	}
	return l[i], true
}

func comparePosition(it Item, pos uint64) int { return cmp.Compare(it.Position, pos) }

// Step is one visited position. Its entry belongs to the caller, who releases
// it.
type Step struct {
	Position uint64
	Live     bool
	Size     int64 // bytes of the object
	Held     int64 // bytes that the entry keeps: of the object, and what decoding has added
	Entry    *wal.Entry
}

// Walker visits the log. It is not for concurrent use. Close it.
type Walker struct {
	cfg   Config
	next  uint64
	chain *wal.Chain
	ahead *ahead
}

// NewWalker starts above cfg.From, and to fetch and decode at once. That goes on
// beside the caller until the walker is closed.
func NewWalker(cfg Config) *Walker {
	if cfg.Budget <= 0 {
		cfg.Budget = 64 << 20
	}
	if cfg.Fetches <= 0 {
		cfg.Fetches = 24
	}
	if cfg.Context == nil {
		cfg.Context = context.Background()
	}
	if cfg.Allocator == nil {
		cfg.Allocator = memory.DefaultAllocator
	}
	w := &Walker{cfg: cfg, next: cfg.From.Position + 1, chain: wal.NewChain(cfg.From)}
	w.ahead = newAhead(cfg, w.next)
	w.ahead.relist(cfg.Listed)
	return w
}

// Close ends what is under way, waits for it, and releases what was decoded and
// not handed over. Calling it again does nothing.
func (w *Walker) Close() { w.ahead.close() }

// Relist replaces the listing, which steers and which CheckHole takes as
// evidence, and the epoch. listed must have been made after the one before. Objects
// that are here or on their way are kept. Positions that were found empty
// before, or could not be read, are asked for again: only so does CheckHole's
// argument hold, that what a listing shows above an empty position was put before
// that was found empty. Relist(nil, epoch) does just that for a walk without a
// listing.
func (w *Walker) Relist(listed Listing, epoch uint64) {
	w.cfg.Listed, w.cfg.Epoch = listed, epoch
	w.ahead.relist(listed)
}

// Position is the position that the next Step visits.
func (w *Walker) Position() uint64 { return w.next }

// Tuple is the state of the log below Position: the floor at which another walk
// could start.
func (w *Walker) Tuple() wal.Tuple { return w.chain.Tuple() }

// Next visits the next position. At the first empty one it returns nil and
// stays there, and so it does with an error: called again it looks again. Until
// then no request is sent.
//
// A position is taken for empty only if it was asked for after the last Relist
// and after the last Next that returned no Step.
func (w *Walker) Next(ctx context.Context) (*Step, error) {
	s, err := w.visit(ctx)
	if s == nil {
		w.ahead.rest(err == nil)
		return nil, err
	}
	w.next++
	w.ahead.step()
	return s, nil
}

// visit judges the entry at next; nil if there is none.
func (w *Walker) visit(ctx context.Context) (*Step, error) {
	f, err := w.ahead.take(ctx)
	if err != nil {
		return nil, fmt.Errorf("read WAL entry %d: %w", w.next, err)
	}
	switch {
	case errors.Is(f.err, objstore.ErrNotExist):
		return nil, nil
	case errors.Is(f.err, wal.ErrCorrupt):
		return nil, wal.AtPosition(f.err, w.next)
	case f.err != nil:
		return nil, fmt.Errorf("read WAL entry %d: %w", w.next, f.err)
	}
	e := f.entry
	if w.cfg.Epoch > 0 && e.Header.Epoch > w.cfg.Epoch {
		e.Release()
		return nil, manifest.FencedBy(w.cfg.Epoch, e.Header.Epoch)
	}
	verdict, err := w.chain.Judge(w.next, e.Header, e.Rows)
	if err != nil {
		e.Release()
		return nil, err
	}
	return &Step{Position: w.next, Live: verdict == wal.Live, Size: f.size, Held: f.size + f.grows, Entry: e}, nil
}
