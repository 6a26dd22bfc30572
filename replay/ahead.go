package replay

import (
	"context"
	"errors"
	"runtime"
	"runtime/pprof"
	"slices"
	"sync"

	"github.com/memwal/memwal-go/internal/wal"
	"github.com/memwal/memwal-go/objstore"
)

// errClosed is what a walker says after Close.
var errClosed = errors.New("the walker is closed")

// windowFactor times Fetches is how many entries may be ahead, arrived or on
// their way. More than one Fetches, so that a slow answer does not stop the
// others; not without bound, since an entry costs some KiB however small it is.
const windowFactor = 4

// ahead gets and decodes the objects that a walker is going to visit.
//
// Each object has a goroutine, from the request to the decoded entry. What may
// start when is decided under mu, in order of position, whenever something has
// changed: a request when it fits into the budget with its size, decoding when it
// fits with what it allocates. The object at next always may: so the walk never
// waits for budget, and what is held is at most the budget and one entry.
type ahead struct {
	store     objstore.Reader
	dir       string
	decode    wal.DecodeOptions
	budget    int64
	fetches   int
	decoders  int
	speculate bool

	ctx  context.Context // of the requests; ended by close
	stop context.CancelFunc
	wg   sync.WaitGroup // the goroutines

	mu sync.Mutex
	// Guarded by mu, which is a leaf.
	next     uint64  // where the walk stands
	listed   Listing // from next on
	depth    int     // how many positions that are not listed may be asked for
	resting  bool    // nothing is started: next is being judged, or the last step gave nothing
	closed   bool
	round    uint64   // see renewLocked
	largest  int64    // size of the largest object that was listed or read
	queue    []*fetch // by position, from next on
	held     int64    // sum of fetch.held, also of those that were dropped from queue
	flying   int      // requests
	decoding int      // <= decoders
	starved  bool     // an object that has arrived waits for budget
}

// fetch is one object on its way. Guarded by ahead.mu until done is closed.
type fetch struct {
	pos   uint64
	turn  chan struct{} // closed: it may be decoded, or was dropped
	done  chan struct{} // closed: it has ended
	state fetchState
	round uint64 // in which the request was sent
	held  int64  // bytes reserved
	grows int64  // bytes that decoding adds
	slot  bool   // it has one of the decoders

	// The result; size is that of the object.
	entry *wal.Entry
	size  int64
	err   error
}

type fetchState uint8

const (
	asked    fetchState = iota // the request is under way
	arrived                    // the object waits for its turn
	decoding                   // it is being decoded
	ended                      // the result is there
	dropped                    // nobody wants it any more
)

// absent tells that the position was found empty.
func (f *fetch) absent() bool { return f.failed() && errors.Is(f.err, objstore.ErrNotExist) }

// failed tells that nothing was brought in.
func (f *fetch) failed() bool { return f.state == ended && f.err != nil }

func newAhead(cfg Config, next uint64) *ahead {
	a := &ahead{
		store: cfg.Store, dir: cfg.Dir, budget: cfg.Budget, fetches: cfg.Fetches, speculate: cfg.Speculate,
		decode: wal.DecodeOptions{Allocator: cfg.Allocator}, decoders: runtime.GOMAXPROCS(0),
		next: next, depth: 1,
	}
	a.ctx, a.stop = context.WithCancel(context.WithoutCancel(cfg.Context))
	return a
}

// relist replaces the listing that says what is asked for, and starts at once.
func (a *ahead) relist(listed Listing) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.listed = listed.above(a.next - 1)
	for _, it := range a.listed {
		a.largest = max(a.largest, it.Size)
	}
	a.resting = false
	a.renewLocked()
	a.scheduleLocked()
}

// take waits for the object at next. It is the caller's then; its bytes no longer
// count. step or rest must follow.
func (a *ahead) take(ctx context.Context) (*fetch, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	a.mu.Lock()
	if a.closed {
		a.mu.Unlock()
		return nil, errClosed
	}
	a.resting = false
	if len(a.queue) == 0 || a.queue[0].pos != a.next {
		a.startLocked(0, a.next, a.sizeLocked())
	}
	f := a.queue[0]
	a.scheduleLocked()
	a.mu.Unlock()
	select {
	case <-f.done:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.queue = slices.Delete(a.queue, 0, 1)
	a.freeLocked(f)
	a.resting = true // until step: or next would be asked for again
	return f, nil
}

// sizeLocked is the size by which the object at next is reserved.
func (a *ahead) sizeLocked() int64 {
	if it, ok := a.listed.at(a.next); ok {
		return it.Size
	}
	return a.largest
}

// step goes to the next position, once the object at the one before was taken
// and is good.
func (a *ahead) step() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.speculate && !a.isListedLocked(a.next) {
		a.depth = min(2*a.depth, a.fetches)
	}
	a.next++
	a.resting = false
	a.listed = a.listed.above(a.next - 1)
	a.scheduleLocked()
}

// rest is called when a step gives nothing, empty telling that next is empty.
// Then nothing is known of what follows it, either: whoever writes may fill both
// before the walk looks again.
func (a *ahead) rest(empty bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.resting = true
	if empty {
		a.depth = 1
		a.keepLocked(func(f *fetch) bool { return a.isListedLocked(f.pos) })
	}
	a.renewLocked()
	a.grantLocked()
}

// renewLocked begins a round: that a position is empty, or cannot be read, counts
// only if it was asked for in this round. Objects never change, so those stay.
func (a *ahead) renewLocked() {
	a.round++
	a.keepLocked(func(f *fetch) bool { return !f.failed() })
}

// keepLocked drops from the queue what keep refuses.
func (a *ahead) keepLocked(keep func(*fetch) bool) {
	a.queue = slices.DeleteFunc(a.queue, func(f *fetch) bool {
		if keep(f) {
			return false
		}
		a.dropLocked(f)
		return true
	})
}

// dropLocked gives up a fetch. A request on its way is left to end by itself:
// cutting it off would cost its connection.
func (a *ahead) dropLocked(f *fetch) {
	switch f.state {
	case arrived:
		close(f.turn)
	case ended:
		f.discard()
		a.freeLocked(f)
	}
	f.state = dropped
}

// discard releases what was decoded.
func (f *fetch) discard() {
	if f.entry != nil {
		f.entry.Release()
		f.entry = nil
	}
}

func (a *ahead) freeLocked(f *fetch) {
	a.held -= f.held
	f.held = 0
}

func (a *ahead) isListedLocked(pos uint64) bool {
	_, ok := a.listed.at(pos)
	return ok
}

// scheduleLocked starts all that may start.
func (a *ahead) scheduleLocked() {
	a.grantLocked()
	a.fillLocked()
}

// grantLocked lets objects that have arrived be decoded, in their order.
func (a *ahead) grantLocked() {
	a.starved = false
	for _, f := range a.queue {
		if f.state != arrived {
			continue
		}
		if a.decoding == a.decoders {
			return
		}
		if f.pos != a.next && f.grows > 0 && a.held+f.grows > a.budget {
			a.starved = true
			return
		}
		f.state, f.slot = decoding, true
		f.held += f.grows
		a.held += f.grows
		a.decoding++
		close(f.turn)
	}
}

// fillLocked sends requests: for listed positions, and for the first depth
// positions that are not listed, of which the first is expected to be the end.
// While what has arrived waits for budget, nothing is added to it.
func (a *ahead) fillLocked() {
	if a.closed || a.resting {
		return
	}
	unlisted, q, l := a.depth, 0, 0
	for p := a.next; len(a.queue) < windowFactor*a.fetches && a.flying < a.fetches; p++ {
		for l < len(a.listed) && a.listed[l].Position < p {
			l++
		}
		isListed := l < len(a.listed) && a.listed[l].Position == p
		if !isListed && unlisted == 0 {
			if l == len(a.listed) {
				return
			}
			p, isListed = a.listed[l].Position, true
		}
		size := a.largest
		if isListed {
			size = a.listed[l].Size
		} else {
			unlisted--
		}
		for q < len(a.queue) && a.queue[q].pos < p {
			q++
		}
		if q < len(a.queue) && a.queue[q].pos == p {
			if !isListed && a.queue[q].absent() {
				unlisted = 0 // the end is known
			}
			continue
		}
		if p != a.next && (a.starved || a.held+size > a.budget) {
			return
		}
		a.startLocked(q, p, size)
	}
}

// startLocked sends the request for pos, which becomes number i of the queue.
func (a *ahead) startLocked(i int, pos uint64, size int64) {
	f := &fetch{pos: pos, round: a.round, held: size, turn: make(chan struct{}), done: make(chan struct{})}
	a.queue = slices.Insert(a.queue, i, f)
	a.held += size
	a.flying++
	a.wg.Go(func() {
		pprof.Do(a.ctx, pprof.Labels("memwal.task", "replay-fetch"), func(context.Context) { a.run(f) })
	})
}

// run brings an object in.
func (a *ahead) run(f *fetch) {
	defer close(f.done)
	key := a.dir + wal.Name(f.pos)
	for {
		data, err := a.store.Get(a.ctx, key)
		var grows int64
		if err == nil {
			grows = wal.Expansion(data, a.decode)
		}
		if again := a.arrive(f, int64(len(data)), grows, err); again {
			continue
		}
		if err != nil {
			return
		}
		<-f.turn
		a.finish(f, data)
		return
	}
}

// arrive takes in the answer to a request. It returns true if the request has to
// be sent again: the position was empty before the round began.
func (a *ahead) arrive(f *fetch, size, grows int64, err error) (again bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	stale := errors.Is(err, objstore.ErrNotExist) && f.round < a.round
	switch {
	case f.state == dropped:
		a.flying--
		close(f.turn)
		if err != nil {
			a.freeLocked(f)
		}
	case stale && !a.resting:
		f.round = a.round
		return true
	case err != nil:
		a.flying--
		a.freeLocked(f)
		f.state, f.err = ended, err
		if stale {
			a.keepLocked(func(o *fetch) bool { return o != f })
		}
	default:
		a.flying--
		a.largest = max(a.largest, size)
		a.held += size - f.held
		f.state, f.held, f.size, f.grows = arrived, size, size, grows
	}
	a.scheduleLocked()
	return false
}

// finish decodes an object whose turn has come.
func (a *ahead) finish(f *fetch, data []byte) {
	a.mu.Lock()
	wanted := f.state == decoding
	a.mu.Unlock()
	var entry *wal.Entry
	var err error
	if wanted {
		entry, err = wal.Decode(data, a.decode)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if f.slot {
		a.decoding--
	}
	f.entry, f.err = entry, err
	if f.state == dropped {
		f.discard()
		a.freeLocked(f)
	} else {
		f.state = ended
	}
	a.scheduleLocked()
}

// header returns the header of an object that was decoded ahead, if it was. It
// waits for none: one that lacks budget would never come. a may be nil.
func (a *ahead) header(pos uint64) (_ wal.Header, ok bool) {
	if a == nil {
		return wal.Header{}, false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, f := range a.queue {
		if f.pos == pos && f.entry != nil {
			return f.entry.Header, true
		}
	}
	return wal.Header{}, false
}

// close drops everything and waits for what is under way.
func (a *ahead) close() {
	a.stop()
	a.mu.Lock()
	a.closed = true
	a.keepLocked(func(*fetch) bool { return false })
	a.mu.Unlock()
	a.wg.Wait()
}
