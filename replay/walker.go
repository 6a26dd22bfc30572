package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
	// Budget bounds the bytes fetched ahead, Fetches the requests in flight.
	// One object is fetched however large it is. Defaults: 64 MiB and 8.
	Budget  int64
	Fetches int
	// Allocator serves compressed entries. Default: memory.DefaultAllocator.
	Allocator memory.Allocator
}

// Listing is what the log held when it was listed, in order of position.
type Listing []Item

// Item is one listed WAL object.
type Item struct {
	Position uint64
	Size     int64
}

// List lists the log below dir completely. Keys that are not positions are
// ignored: other programs may keep files there.
func List(ctx context.Context, store objstore.Reader, dir string) (Listing, error) {
	var l Listing
	for o, err := range store.List(ctx, dir) {
		if err != nil {
			return nil, fmt.Errorf("list the WAL: %w", err)
		}
		if pos, ok := wal.ParseName(strings.TrimPrefix(o.Key, dir)); ok && pos > 0 {
			l = append(l, Item{pos, o.Size})
		}
	}
	slices.SortFunc(l, func(a, b Item) int { return cmp.Compare(a.Position, b.Position) })
	return l, nil
}

// above returns the items above pos.
func (l Listing) above(pos uint64) Listing {
	i, _ := slices.BinarySearchFunc(l, pos+1, func(it Item, p uint64) int { return cmp.Compare(it.Position, p) })
	return l[i:]
}

// Step is one visited position. Its entry belongs to the caller, who releases
// it.
type Step struct {
	Position uint64
	Live     bool
	Size     int64 // bytes of the object
	Entry    *wal.Entry
}

// Walker visits the log. It is not for concurrent use. Close it.
type Walker struct {
	cfg    Config
	next   uint64
	chain  *wal.Chain
	ahead  Listing // listed, not yet asked for
	queue  []*fetch
	queued int64 // bytes of queue
	ctx    context.Context
	stop   context.CancelFunc
}

// fetch is one object on its way.
type fetch struct {
	pos  uint64
	size int64
	done chan struct{}
	data []byte
	err  error
}

// NewWalker starts above cfg.From. Fetching ahead goes on until the walker
// is closed.
func NewWalker(cfg Config) *Walker {
	if cfg.Budget <= 0 {
		cfg.Budget = 64 << 20
	}
	if cfg.Fetches <= 0 {
		cfg.Fetches = 8
	}
	if cfg.Allocator == nil {
		cfg.Allocator = memory.DefaultAllocator
	}
	w := &Walker{
		cfg: cfg, next: cfg.From.Position + 1, chain: wal.NewChain(cfg.From),
		ahead: cfg.Listed.above(cfg.From.Position),
	}
	w.ctx, w.stop = context.WithCancel(context.Background())
	return w
}

// Close ends the fetches in flight and waits for them.
func (w *Walker) Close() {
	w.stop()
	for _, f := range w.queue {
		<-f.done
	}
	w.queue = nil
}

// Position is the position that the next Step visits.
func (w *Walker) Position() uint64 { return w.next }

// Tuple is the state of the log below Position: the floor at which another walk
// could start.
func (w *Walker) Tuple() wal.Tuple { return w.chain.Tuple() }

// Next visits the next position. At the first empty one it returns nil and
// stays there: called again it looks again.
func (w *Walker) Next(ctx context.Context) (*Step, error) {
	data, err := w.get(ctx)
	if errors.Is(err, objstore.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read WAL entry %d: %w", w.next, err)
	}
	e, err := wal.Decode(data, wal.DecodeOptions{Allocator: w.cfg.Allocator})
	if err != nil {
		return nil, wal.AtPosition(err, w.next)
	}
	if w.cfg.Epoch > 0 && e.Header.Epoch > w.cfg.Epoch {
		e.Release()
		return nil, manifest.FencedBy(w.cfg.Epoch, e.Header.Epoch)
	}
	verdict, err := w.chain.Judge(w.next, e.Header, e.Rows)
	if err != nil {
		e.Release()
		return nil, err
	}
	s := &Step{Position: w.next, Live: verdict == wal.Live, Size: int64(len(data)), Entry: e}
	w.next++
	return s, nil
}

// get returns the object at w.next, from what was fetched ahead if it is there.
func (w *Walker) get(ctx context.Context) ([]byte, error) {
	w.fill()
	if len(w.queue) == 0 || w.queue[0].pos != w.next {
		return w.cfg.Store.Get(ctx, w.cfg.Dir+wal.Name(w.next))
	}
	f := w.queue[0]
	select {
	case <-f.done:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	w.queue = w.queue[1:]
	w.queued -= f.size
	return f.data, f.err
}

// fill starts fetches up to the bounds. A listed position that is passed by
// (the caller met it unlisted first) is dropped.
func (w *Walker) fill() {
	for len(w.ahead) > 0 && w.ahead[0].Position < w.next {
		w.ahead = w.ahead[1:]
	}
	for len(w.ahead) > 0 && len(w.queue) < w.cfg.Fetches {
		it := w.ahead[0]
		if len(w.queue) > 0 && w.queued+it.Size > w.cfg.Budget {
			return
		}
		w.ahead = w.ahead[1:]
		f := &fetch{pos: it.Position, size: it.Size, done: make(chan struct{})}
		w.queue = append(w.queue, f)
		w.queued += it.Size
		go func() {
			defer close(f.done)
			f.data, f.err = w.cfg.Store.Get(w.ctx, w.cfg.Dir+wal.Name(f.pos))
		}()
	}
}
