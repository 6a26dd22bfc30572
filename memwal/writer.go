package memwal

import (
	"context"
	"log/slog"
	"math"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/google/uuid"
	"github.com/memwal/memwal-go/dispatcher"
	"github.com/memwal/memwal-go/flusher"
	"github.com/memwal/memwal-go/internal/manifest"
	"github.com/memwal/memwal-go/internal/schema"
	"github.com/memwal/memwal-go/internal/wal"
	"github.com/memwal/memwal-go/memtable"
	"github.com/memwal/memwal-go/objstore"
)

// Writer is the one active writer of a shard. All its methods are safe for
// concurrent use.
//
// A writer runs background tasks until Close or Abort. One that is dropped
// without either is aborted by the garbage collector.
type Writer struct {
	// c is apart from the handle so that the background tasks, which hold c, do
	// not keep a dropped handle alive.
	c *core
}

// core is a writer's state.
//
// Lock order: mu, then the cursors' own lock. No lock is held across a request
// to the store, a wait, or a callback.
type core struct {
	shard    uuid.UUID
	opts     Options
	logger   *slog.Logger
	watch    *watch
	store    objstore.Writer
	counters *objstore.Counters
	ceiling  *flusher.Ceiling // nil: none
	log      *manifest.Log

	resident
	empty int64          // bytes of a memtable without rows
	level memtable.Level // of visibility

	owner    manifest.Owner
	opened   opened
	cursors  *memtable.Cursors
	failed   <-chan struct{} // closed at the first failure, and by Close
	applier  *dispatcher.Task[struct{}]
	flusher  *flusher.WAL
	aging    *dispatcher.Task[struct{}] // nil without MaxMemtableAge
	ending   atomic.Bool                // set by the one call of Close or Abort that ends it
	ended    chan struct{}              // closed when that is done
	endError error                      // guarded by ended

	// mu orders appends: it is the writer lock.
	mu struct {
		sync.Mutex
		closing  bool
		freed    chan struct{} // closed and replaced when memory is freed or the writer closes
		replaced []*view       // released by unlock
		rotated  []rotation    // logged by unlock
	}
}

// opened is what Open did and found.
type opened struct {
	took   time.Duration
	replay Replay
	tail   wal.Tuple // the fence
	fenced time.Time // the store's clock then; zero if it gives none
}

// start makes the tasks run over tables, whose references it takes over.
func (c *core) start(tables []*memtable.Memtable, proof time.Time) {
	c.mu.freed = make(chan struct{})
	c.watch = newWatch(c)
	c.ended = make(chan struct{})
	c.cursors = memtable.NewCursors(c.opened.tail.NextRow)
	c.failed = c.cursors.Register(memtable.LevelIndexed, math.MaxUint64).Done()
	c.installLocked(tables)
	for _, m := range tables {
		m.Release() // the view holds them
	}

	background := pprof.WithLabels(context.Background(), labels(c.shard))
	applier := memtable.NewApplier(c.live, c.cursors)
	c.flusher = flusher.New(flusher.Config{
		Store: c.store, Dir: layoutOf(c.shard).wal, Schema: c.table.Schema,
		Encode: encodeOptions(c.opts), Epoch: c.owner.Epoch, Tail: c.opened.tail, Proof: proof, ProofDate: c.opened.fenced,
		Live: c.live, Cursors: c.cursors,
		CheckOwner: func(ctx context.Context) error { return c.log.Check(ctx, c.owner) },
		OnFail:     c.poison, OnDurable: c.evictDurable, OnAppend: c.watch.append, Labels: labels(c.shard),
		Ceiling:  c.ceiling,
		Interval: max(c.opts.FlushInterval, 0), FlushBytes: c.opts.FlushBytes,
		MaxEntryBytes: c.opts.MaxEntryBytes, MaxInFlight: c.opts.MaxInFlight,
		OwnershipCheckAfter: c.opts.OwnershipCheckAfter, Logger: c.logger,
	})
	c.applier = dispatcher.Start(background, dispatcher.Options[struct{}]{
		Name: "index-applier",
		Handler: dispatcher.Funcs[struct{}]{OnWake: func(ctx context.Context) error {
			defer c.evictDurable() // the log may have been faster
			return applier.Run(ctx)
		}},
		OnError: c.indexFailed,
		OnPanic: func(p *dispatcher.PanicError) { c.indexFailed(p) },
		Logger:  c.logger,
	})
	if age := c.opts.MaxMemtableAge; age > 0 {
		c.aging = dispatcher.Start(background, dispatcher.Options[struct{}]{
			Name:     "memtable-aging",
			Interval: max(age/4, time.Millisecond),
			Handler: dispatcher.Funcs[struct{}]{OnTick: func(context.Context) error {
				c.rotateAged()
				return nil
			}},
			OnPanic: func(p *dispatcher.PanicError) { c.poison(p) },
			Logger:  c.logger,
		})
	}
}

// indexFailed poisons the writer with what an index did.
func (c *core) indexFailed(err error) { c.poison(&IndexError{err}) }

// poison makes cause the writer's failure, if it is the first. Nothing is
// appended after it: the flusher is told to stop, and joined by Close or Abort.
func (c *core) poison(cause error) {
	if !c.cursors.Fail(&PoisonedError{cause}) {
		return
	}
	c.logPoisoned(cause)
	c.flusher.Cancel()
	c.applier.Cancel()
}

// Done is closed when the writer has failed or was closed: Err then says why. A
// service watches it to learn that another process has taken its shard over. The
// writer itself learns that with its next append: an idle one does not, and goes on
// showing the rows that it has.
func (w *Writer) Done() <-chan struct{} { return w.c.failed }

// Schema is the schema given to Open, with the id of each column in its field's
// metadata under FieldIDKey.
func (w *Writer) Schema() *arrow.Schema { return w.c.schemaWithIDs() }

// FieldIDKey is the metadata key under which a field has the id of its column: a
// decimal number from 1 that stays with the column for ever. To rename a column,
// open the shard with the id under the new name.
const FieldIDKey = schema.FieldIDKey

// Err returns the writer's terminal failure, or nil. After Close it is an error
// that matches ErrClosed.
func (w *Writer) Err() error { return w.c.cursors.Err() }

// state returns why the writer takes no calls, or nil. While Close is under way
// it still says nil; a put finds out with the lock held.
func (c *core) state() error { return c.cursors.Err() }

func (c *core) stateLocked() error {
	if err := c.cursors.Err(); err != nil {
		return err
	}
	if c.mu.closing {
		return errClosed
	}
	return nil
}

var errClosed = closedError{}

// closedError is what calls on a closed writer return.
type closedError struct{}

func (closedError) Error() string        { return "the writer is closed; open the shard again to go on" }
func (closedError) Is(target error) bool { return target == ErrClosed }

// activeLocked returns the active memtable. c.mu is held, and the writer open.
func (c *core) activeLocked() *memtable.Memtable {
	t := c.view.Load().tables
	return t[len(t)-1]
}

// residentLocked is the memory that rows and indexes take.
func (c *core) residentLocked() int64 {
	n, _ := c.view.Load().usage()
	return n
}

// freedLocked wakes the puts that wait for memory.
func (c *core) freedLocked() {
	close(c.mu.freed)
	c.mu.freed = make(chan struct{})
}

// evictDurable drops frozen memtables without rows that are still owed to the
// log, if rows are kept only until then. It is called whenever that may have
// come true: after an append, an index step, and a freeze.
func (c *core) evictDurable() {
	if !c.opts.WALOnly {
		return
	}
	c.mu.Lock()
	defer c.unlock()
	c.evictDurableLocked()
}

func (c *core) evictDurableLocked() {
	v := c.view.Load()
	if v == nil || !c.opts.WALOnly {
		return
	}
	durable := c.cursors.Durable()
	keep := v.tables
	for len(keep) > 1 && keep[0].EndRow() <= min(durable, c.cursors.Indexed()) {
		keep = keep[1:]
	}
	if len(keep) < len(v.tables) {
		c.installLocked(append([]*memtable.Memtable(nil), keep...))
		c.freedLocked()
	}
}

// rotateAged rotates the active memtable if its oldest row is too old. A writer
// that has ended rotates nothing, and has told why.
func (c *core) rotateAged() {
	_ = c.rotate(func(m *memtable.Memtable) bool {
		return m.Full(memtable.Limits{Age: c.opts.MaxMemtableAge}, memtable.Size{}, time.Now())
	})
}

// encodeOptions is what the entry codec is told.
func encodeOptions(o Options) wal.EncodeOptions {
	e := wal.EncodeOptions{CoalesceRows: coalesceRows}
	switch o.Compression {
	case CompressionLZ4:
		e.Compression = wal.CompressionLZ4
	case CompressionZstd:
		e.Compression = wal.CompressionZstd
	}
	return e
}

// coalesceRows is the size up to which adjacent batches are written as one:
// each costs about a microsecond and some hundred bytes of its own, whatever
// its rows.
const coalesceRows = 256
