package memwal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/pprof"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/google/uuid"
	"github.com/memwal/memwal-go/flusher"
	"github.com/memwal/memwal-go/index"
	"github.com/memwal/memwal-go/internal/manifest"
	"github.com/memwal/memwal-go/internal/telemetry"
	"github.com/memwal/memwal-go/memtable"
	"github.com/memwal/memwal-go/objstore"
	"github.com/memwal/memwal-go/replay"
)

// Open makes the caller the writer of a shard, which it creates if it is not
// there. A writer that was active until now, in this process or another one, is
// fenced: what it has not had acknowledged by then, it never will. Rows that are
// in the log are there again, indexed, when Open returns.
//
// store keeps the shard; it stays the caller's to close, after the writer. The
// schema may differ from the one that the shard was last opened with: columns
// can be added if they are nullable, dropped, renamed (by their field id), and
// reordered.
//
// Whatever is wrong with the arguments is reported before anything is claimed,
// all of it at once (ErrInvalid). Other errors are ErrSealed, ErrFenced if
// another Open won, ErrForeignWriter (see Options.Adopt), ErrHole, ErrCorrupt, and
// those of the store.
func Open(ctx context.Context, store objstore.Store, shard uuid.UUID, userSchema *arrow.Schema, o *Options) (_ *Writer, err error) {
	start := time.Now()
	opts := o.withDefaults()
	ctx, span := opts.tracer(shard).Start(ctx, "memwal.open")
	defer func() { span.End(err) }()
	c := &core{shard: shard, opts: opts, resident: resident{mem: opts.Allocator, user: userSchema}, logger: opts.Logger.With("shard", shard.String())}
	if err := c.check(store); err != nil {
		return nil, fmt.Errorf("open shard %v: %w", shard, err)
	}
	proof, tables, err := c.take(ctx, store)
	if err != nil {
		logRefusal(c.logger, err)
		return nil, fmt.Errorf("open shard %v: %w", shard, err)
	}
	c.start(tables, proof)
	c.opened.took = time.Since(start)
	c.watch.export(c.stats)
	c.logOpened()
	w := &Writer{c: c}
	runtime.AddCleanup(w, func(c *core) {
		if !c.ending.Load() {
			go c.dropped() // a cleanup must not block the runtime's goroutine
		}
	}, c)
	return w, nil
}

// check refuses what is wrong whatever the shard holds, all of it at once.
func (c *core) check(store objstore.Store) error {
	err := errors.Join(checkPlace(store, c.shard), c.opts.validate(), c.bind(nil, c.opts.binding()))
	if err == nil {
		c.configure()
	}
	return err
}

// checkPlace refuses what is no place for a shard.
func checkPlace(store objstore.Store, shard uuid.UUID) error {
	var errs []error
	if store == nil {
		errs = append(errs, invalid("store", fmt.Errorf("is nil: objstore.Open makes one")))
	}
	if shard == uuid.Nil {
		errs = append(errs, invalid("shard", fmt.Errorf("is the nil UUID: choose one, for example with uuid.New")))
	}
	return errors.Join(errs...)
}

// configure derives from the options what does not depend on the manifest.
func (c *core) configure() {
	c.limits = c.opts.limits()
	c.level = memtable.LevelVisible
	if c.opts.Visibility == VisibleIndexed {
		c.level = memtable.LevelIndexed
	}
	m := c.newTable(1, 0)
	c.empty = m.IndexBytes()
	m.Release()
}

// shardIO is the store of one shard, with retries and counters.
type shardIO struct {
	store    objstore.Writer
	counters *objstore.Counters
	ceiling  *flusher.Ceiling // nil: none
	dirs     layout
	log      *manifest.Log
	opts     Options
	trace    telemetry.Tracer
	labels   pprof.LabelSet
}

func ioOf(store objstore.Store, shard uuid.UUID, o Options) shardIO {
	o.Logger = o.Logger.With("shard", shard.String())
	counters := new(objstore.Counters)
	ceiling := flusher.NewCeiling(o.MaxPUTsPerSecond)
	retry := o.Retry
	retry.OnRetry = retryWatcher(retry, o.TracerProvider != nil, o.Logger)
	// Nothing here can delete: only recycling is handed a store that does.
	counted := objstore.WithRetry(ceiling.Meter(objstore.WithCounters(store, counters)), retry)
	dirs := layoutOf(shard)
	return shardIO{
		store: counted, counters: counters, ceiling: ceiling, dirs: dirs, opts: o, trace: o.tracer(shard), labels: labels(shard),
		log: manifest.New(counted, dirs.manifest, &manifest.Options{OwnershipCheckAfter: o.OwnershipCheckAfter, Rand: o.Retry.Rand}),
	}
}

func (s shardIO) takeover() *takeover {
	return &takeover{
		store: s.store, dirs: s.dirs, log: s.log, budget: s.opts.ReplayBytes,
		mem: s.opts.Allocator, logger: s.opts.Logger, labels: s.labels, trace: s.trace,
	}
}

// take makes us the owner and loads the log. It returns the memtables, which
// the caller owns.
func (c *core) take(ctx context.Context, store objstore.Store) (proof time.Time, tables []*memtable.Memtable, err error) {
	sio := ioOf(store, c.shard, c.opts)
	c.store, c.counters, c.ceiling, c.log = sio.store, sio.counters, sio.ceiling, sio.log
	var loader *replay.Loader
	defer func() {
		if loader != nil {
			loader.Close()
		}
	}()
	start := time.Now()
	t := sio.takeover()
	t.adopt = c.adopter(sio)
	got, err := t.run(ctx, plan{
		probe: sio.dirs.probe, next: c.claim,
		load: func(claimed *manifest.Manifest) (func(*replay.Step) error, error) {
			if loader != nil {
				loader.Close()
			}
			loader = c.loader(claimed)
			return loader.Add, nil
		},
	})
	if err != nil {
		return proof, nil, err
	}
	if err := loader.Settle(); err != nil {
		return proof, nil, err
	}
	c.owner = got.manifest.Owner()
	c.opened.tail, c.opened.fenced = got.tail, got.date
	c.opened.replay = Replay{Loaded: loader.Loaded(), Duration: time.Since(start)}
	if c.opts.WALOnly {
		// The rows of the log are durable, so nothing is kept of them.
		return got.proof, []*memtable.Memtable{c.newTable(max(got.tail.Generation, 1), got.tail.NextRow)}, nil
	}
	tables, err = loader.Tables()
	return got.proof, tables, err
}

// loader rebuilds memtables from the log.
func (c *core) loader(m *manifest.Manifest) *replay.Loader {
	return replay.NewLoader(replay.LoaderConfig{
		Schema: c.table.Schema, From: m.RowsFloor(), NewTable: c.newTable, Limits: c.limits,
		OnIndexError: indexFailer(c.logger), CountOnly: c.opts.WALOnly,
	})
}

// indexFailer returns what a replay does about an index that fails: the index is
// marked as failed in its memtable, since it must not keep rows from being read.
// Without the primary key nothing could be read or written.
func indexFailer(logger *slog.Logger) func(m *memtable.Memtable, err error) error {
	return func(m *memtable.Memtable, err error) error {
		failed, ok := errors.AsType[*index.ApplyError](err)
		if !ok || failed.Index == index.PrimaryKey || m.Index().Failed(failed.Index) != nil {
			return err
		}
		logger.Error("an index failed in replay; its searches return the error until the shard is opened again",
			"index", failed.Index, "generation", m.Generation(), "error", failed.Err)
		return m.Index().Fail(failed.Index, failed.Err)
	}
}

// claim builds the manifest that makes us the writer.
func (c *core) claim(cur *manifest.Manifest) (*manifest.Manifest, error) {
	next := &manifest.Manifest{ShardID: c.shard, Generation: 1}
	if cur != nil {
		if cur.Status == manifest.Sealed {
			return nil, fmt.Errorf("%w: UnsealShard opens it again", ErrSealed)
		}
		next = cur.Clone()
	}
	if err := c.bind(cur, c.opts.binding()); err != nil {
		return nil, err
	}
	if err := checkReadable(next); err != nil {
		return nil, err
	}
	next.Schema, next.PrimaryKey, next.NextFieldID = c.table.Schema, c.table.PrimaryKey, c.table.NextFieldID
	next.Indexes = indexSpecs(c.opts.Indexes)
	next.MaxInFlight = max(next.MaxInFlight, flusher.Span(c.opts.MaxInFlight))
	next.OwnershipCheckAfter = max(next.OwnershipCheckAfter, c.opts.OwnershipCheckAfter)
	next.FenceRetention = max(next.FenceRetention, c.opts.FenceRetention)
	if least := leastRetention(next.MaxInFlight, next.OwnershipCheckAfter); next.FenceRetention <= least {
		return nil, &OptionError{"FenceRetention", next.FenceRetention,
			fmt.Sprintf("more than %v: earlier writers of this shard had puts at up to %d positions and OwnershipCheckAfter up to %v",
				least, next.MaxInFlight, next.OwnershipCheckAfter)}
	}
	if _, ok := next.Floor(manifest.PlaneRows); !ok {
		next.SetFloor(manifest.Floor{Plane: manifest.PlaneRows, Kind: manifest.Snapshot, Tuple: adoptedFloor(cur)})
	}
	return next, nil
}
