package memwal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/pprof"
	"slices"
	"sync/atomic"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/google/uuid"
	"github.com/memwal/memwal-go/internal/manifest"
	"github.com/memwal/memwal-go/internal/telemetry"
	"github.com/memwal/memwal-go/internal/wal"
	"github.com/memwal/memwal-go/objstore"
	"github.com/memwal/memwal-go/replay"
)

// Reader shows the durable rows of a shard that another process writes. It asks
// for no right but to get and list, disturbs no writer, and may be one of any
// number.
//
// What it shows is the log up to some entry: every row below Bound, and none
// above. Refresh and Follow move it on. It never shows a row that a later writer
// would not find, and it shows each row that was acknowledged before Refresh was
// called.
//
// Its methods are safe for concurrent use. Close it.
type Reader struct {
	resident
	shard    uuid.UUID
	opts     ReaderOptions
	logger   *slog.Logger
	store    objstore.Reader
	counters *objstore.Counters
	versions *manifest.Reader
	dirs     layout

	trace      telemetry.Tracer
	unregister func() // of the metrics; nil if there are none

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	turn   chan struct{} // holds a token while somebody reads the log: one at a time

	bound atomic.Uint64 // rows shown
	stats atomic.Pointer[readerState]

	// The rest belongs to the holder of turn.

	follower *manifest.Follower
	seen     *manifest.Manifest // newest that was looked at
	walker   *replay.Walker
	loader   *replay.Loader
	round    round // read and not taken in yet
	broken   error // why no more rows can be taken in
	stopped  bool  // that it stopped was told
}

// readerState is what the last look at the log left behind.
type readerState struct {
	at     wal.Tuple
	loaded replay.Loaded
}

// round is a stretch of the log that was read and is not trusted yet.
type round struct {
	first uint64 // position; 0: nothing was read
	steps []*replay.Step
	bytes int64
	end   bool // the first empty position was met, right above
}

// OpenReader opens a shard for reading: a shard of memwal, or one that another
// program wrote by the public Lance MemTable and WAL specification. It returns
// once the log was read to its end.
//
// store keeps the shard; it stays the caller's to close, after the reader. For a
// log of LanceDB it is the folder of the table, the one that has _mem_wal, and the
// shard is the name of a folder below that. Errors
// are ErrInvalid; objstore.ErrNotExist if there is no such shard (yet);
// errors.ErrUnsupported if rows of it are in files that this version cannot read;
// ErrHole, ErrCorrupt, ErrForeignWriter, ErrReaderFull, and those of the store; and
// ErrLogTruncated if the log is recycled faster than it is read, attempt after
// attempt.
func OpenReader(ctx context.Context, store objstore.Store, shard uuid.UUID, o *ReaderOptions) (*Reader, error) {
	opts := o.withDefaults()
	if err := errors.Join(checkPlace(store, shard), opts.validate()); err != nil {
		return nil, fmt.Errorf("open a reader of shard %v: %w", shard, err)
	}
	for attempt := 1; ; attempt++ {
		r, err := openReader(ctx, store, shard, opts)
		switch {
		case err == nil:
			return r, nil
		case attempt < maxTakeovers && (errors.Is(err, ErrLogTruncated) || errors.Is(err, ErrAdopted)):
			// Its floor moved while the log was read, or its columns were numbered:
			// begin there.
			continue
		}
		return nil, fmt.Errorf("open a reader of shard %v: %w", shard, err)
	}
}

func openReader(ctx context.Context, store objstore.Store, shard uuid.UUID, opts ReaderOptions) (_ *Reader, err error) {
	start := time.Now()
	r := &Reader{
		resident: resident{mem: opts.Allocator, user: opts.Schema},
		shard:    shard, opts: opts, logger: opts.Logger.With("shard", shard.String()),
		counters: new(objstore.Counters), dirs: layoutOf(shard), turn: make(chan struct{}, 1),
	}
	r.trace = tracerOf(opts.TracerProvider, shard)
	retry := opts.Retry
	retry.OnRetry = retryWatcher(retry, opts.TracerProvider != nil, r.logger)
	// Nothing here can write.
	r.store = objstore.WithRetry(objstore.WithCounters(store, r.counters), retry)
	r.versions = manifest.NewReader(r.store, r.dirs.manifest, nil)
	r.follower = r.versions.Follow()
	r.ctx, r.cancel = context.WithCancel(context.Background())
	defer func() {
		if err != nil {
			r.Close()
		}
	}()
	if r.seen, err = r.follower.Newest(ctx); err != nil {
		return nil, err
	}
	if r.seen == nil {
		return nil, fmt.Errorf("%w: the store has no manifest below %q: check the store's URL and the shard's UUID; a new shard begins with a writer's Open", objstore.ErrNotExist, r.dirs.manifest)
	}
	if err := r.versions.CheckForeign(ctx, r.seen); err != nil {
		return nil, err
	}
	if err := checkReadable(r.seen); err != nil {
		return nil, err
	}
	listed, err := replay.List(ctx, r.store, r.dirs.wal)
	if err != nil {
		return nil, err
	}
	if err := r.bindTo(ctx, r.seen, listed); err != nil {
		return nil, err
	}
	r.walker = replay.NewWalker(r.walk(listed))
	r.loader = replay.NewLoader(replay.LoaderConfig{
		Schema: r.table.Schema, From: r.seen.RowsFloor(), NewTable: r.newTable, Limits: r.limits,
		OnIndexError: indexFailer(r.logger),
	})
	r.publish()
	if err := r.refresh(ctx, func() {}); err != nil {
		return nil, err
	}
	if err := r.hasRoom(); err != nil {
		return nil, err
	}
	r.export()
	st := r.Stats()
	r.logger.Info("reader opened", "epoch", st.Epoch, "duration", time.Since(start), "position", st.Position, "next_row", st.Visible,
		"entries", st.Log.Entries, "fences", st.Log.Fences, "dead", st.Log.Dead, "rows", st.Log.Rows, "bytes", st.Log.Bytes)
	return r, nil
}

// checkReadable refuses rows in files that this version does not read: a shard
// without them would look whole.
func checkReadable(m *manifest.Manifest) error {
	if n := len(m.Flushed); n > 0 {
		return fmt.Errorf("%w: %d generations of the shard were flushed to files that this version of memwal does not read; use a newer one", errors.ErrUnsupported, n)
	}
	return nil
}

func (r *Reader) walk(listed replay.Listing) replay.Config {
	return replay.Config{
		Store: r.store, Dir: r.dirs.wal, From: r.seen.RowsFloor(), Listed: listed,
		Budget: r.stretch(), Speculate: true, Allocator: r.mem,
		Context: pprof.WithLabels(context.Background(), labels(r.shard)),
	}
}

// Snapshot returns a view of the rows that the reader shows now. It stays what it
// is while the reader moves on, and after it was closed.
func (r *Reader) Snapshot() (*Snapshot, error) {
	s := r.takeSnapshot(r.bound.Load)
	if s == nil {
		return nil, fmt.Errorf("snapshot: %w: the reader was closed", ErrClosed)
	}
	return s, nil
}

// Bound is the number of rows of the shard's history that the reader shows.
func (r *Reader) Bound() uint64 { return r.bound.Load() }

// Schema is the schema that rows are read with, with the id of each column in its
// field's metadata under FieldIDKey.
func (r *Reader) Schema() *arrow.Schema { return r.schemaWithIDs() }

// Close ends the reader and lets go of its memory, once its snapshots are closed.
// A Refresh that is under way ends with ErrClosed. Calls after the first do
// nothing.
func (r *Reader) Close() {
	r.cancel()
	r.turn <- struct{}{}
	defer func() { <-r.turn }()
	if r.unregister != nil {
		r.unregister()
		r.unregister = nil
	}
	if old := r.install(nil); old != nil {
		old.release()
	}
	r.round.drop()
	if r.loader != nil {
		r.loader.Close()
	}
	if r.walker != nil {
		r.walker.Close()
	}
}

// Refresh reads what the log has got since the last time, up to its first empty
// position, and shows it. New entries alone are read, in stretches of
// ReplayBytes; each is shown as soon as it was checked. Concurrent calls take
// turns.
//
// When it fails, the reader goes on showing what it has. After an error of the
// store, or of ctx, call it again. ErrLogTruncated, ErrReaderFull, ErrAdopted and
// the errors of a damaged log stay. A writer that takes the shard over, and the
// recycling of what the reader has read already, change nothing.
func (r *Reader) Refresh(ctx context.Context) error {
	return r.refresh(ctx, func() {
		// What an earlier call found empty may be there now.
		r.round.end = false
		r.walker.Relist(nil, 0)
	})
}

// refresh calls begin, and then reads to the end of the log.
func (r *Reader) refresh(ctx context.Context, begin func()) (err error) {
	ctx, span := r.trace.Start(ctx, "memwal.refresh")
	defer func(before uint64) {
		if span.On() {
			span.Set(attrRows.Int64(int64(r.Bound() - before)))
		}
		span.End(err)
	}(r.Bound())
	ctx, stop := r.during(ctx)
	defer stop()
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
	}
	err = context.Cause(ctx)
	if r.ctx.Err() != nil {
		err = errReaderClosed
	}
	if err == nil {
		begin()
	}
	for err == nil {
		var end bool
		if end, err = r.advance(ctx); end {
			return nil
		}
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	} else if !passes(err) && !errors.Is(err, ErrClosed) && !r.stopped {
		r.stopped = true
		r.logger.Error("reader stopped", "position", r.stats.Load().at.Position, "next_row", r.Bound(), "error", err)
	}
	return fmt.Errorf("refresh: %w", err)
}

// during returns ctx, ended also by Close.
func (r *Reader) during(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	detach := context.AfterFunc(r.ctx, func() { cancel(errReaderClosed) })
	return ctx, func() {
		detach()
		cancel(nil)
	}
}

var errReaderClosed = fmt.Errorf("%w: the reader was closed", ErrClosed)

// advance takes in the next stretch of the log. It returns true at its end.
func (r *Reader) advance(ctx context.Context) (end bool, err error) {
	if r.broken != nil {
		return false, r.broken
	}
	if err := r.hasRoom(); err != nil {
		return false, err
	}
	readErr := r.read(ctx)
	if readErr != nil && !judged(readErr) {
		return false, readErr
	}
	// Whatever was read, or was not there, counts only if a manifest that is read
	// afterwards shows that it cannot have been recycled meanwhile: an empty
	// position might be a recycled one, and an object might be one that a writer
	// of long ago has left in a place that was recycled.
	if err := r.check(ctx); err != nil {
		return false, err
	}
	if readErr != nil {
		return false, readErr
	}
	if err := r.take(); err != nil {
		r.broken = &brokenError{err}
		return false, r.broken
	}
	end, r.round = r.round.end, round{}
	return end, nil
}

// brokenError is why no more rows can be taken in; it stays.
type brokenError struct{ error }

func (e *brokenError) Unwrap() error { return e.error }

// judged tells an error about what was read from one of reading.
func judged(err error) bool {
	return errors.Is(err, ErrCorrupt) || errors.Is(err, ErrForeignWriter)
}

// hasRoom refuses to read more than fits into memory.
func (r *Reader) hasRoom() error {
	n, _ := r.view.Load().usage()
	if n >= r.opts.MaxResidentBytes {
		return &ReaderFullError{Resident: n, Max: r.opts.MaxResidentBytes}
	}
	return nil
}

// stretch is half of what may be fetched and not taken in: the walker has the other.
func (r *Reader) stretch() int64 { return max(1, r.opts.ReplayBytes/2) }

// read reads on until the stretch is long enough or the log ends. After an error
// it can be called again.
func (r *Reader) read(ctx context.Context) error {
	for r.round.bytes < r.stretch() && !r.round.end {
		if r.round.first == 0 {
			r.round.first = r.walker.Position()
		}
		s, err := r.walker.Next(ctx)
		if err != nil {
			return err
		}
		if s == nil {
			r.round.end = true
			return nil
		}
		r.round.steps = append(r.round.steps, s)
		r.round.bytes += s.Held
	}
	return nil
}

// check reads the manifest after the log.
func (r *Reader) check(ctx context.Context) error {
	m, err := r.follower.Newest(ctx)
	switch {
	case err != nil:
		return err
	case m == nil:
		return fmt.Errorf("%w: the manifest of the shard is gone; somebody deleted it", manifest.ErrNotFound)
	case m.Legacy && !r.seen.Legacy:
		return fmt.Errorf("%w: version %d of the manifest has none of memwal's fields", ErrForeignWriter, m.Version)
	case r.seen.Legacy && !m.Legacy:
		return fmt.Errorf("%w by memwal since the reader was opened on the log of another program: open the reader again", ErrAdopted)
	}
	r.seen = m
	if floor := m.RecycleFloor(); floor >= r.round.first {
		return &LogTruncatedError{Want: r.round.first, Oldest: floor + 1}
	}
	if next := r.walker.Position(); r.round.end && m.LastSeen >= next && !m.Legacy {
		// What is empty now was not when the manifest was written, or it was written
		// after we looked. Looking again tells.
		return r.lookAgain(ctx, m)
	}
	return nil
}

// lookAgain decides whether the log has a hole where it seems to end.
func (r *Reader) lookAgain(ctx context.Context, m *manifest.Manifest) error {
	pos := r.walker.Position()
	_, err := r.store.Head(ctx, r.dirs.wal+wal.Name(pos))
	if errors.Is(err, objstore.ErrNotExist) {
		// The floor may have passed the position between the two requests.
		now, err := r.follower.Newest(ctx)
		if err != nil {
			return err
		}
		if now != nil && now.RecycleFloor() >= pos {
			return &LogTruncatedError{Want: pos, Oldest: now.RecycleFloor() + 1}
		}
		return &HoleError{Position: pos, Witness: m.LastSeen, Reason: "the manifest has seen the log reach further"}
	}
	if err != nil {
		return fmt.Errorf("look for WAL entry %d: %w", pos, err)
	}
	r.round.end = false // it goes on
	return nil
}

// take shows what was read and checked.
func (r *Reader) take() error {
	steps := r.round.steps
	r.round.steps = nil
	for i, s := range steps {
		if err := r.loader.Add(s); err != nil {
			(&round{steps: steps[i+1:]}).drop()
			return err
		}
	}
	if err := r.loader.Settle(); err != nil {
		return err
	}
	r.publish()
	return nil
}

// publish makes what was loaded visible: the memtables first, since a snapshot
// takes its bound after them.
func (r *Reader) publish() {
	tables := r.loader.Live()
	if v := r.view.Load(); v == nil || !slices.Equal(v.tables, tables) {
		if old := r.install(tables); old != nil {
			old.release()
		}
	}
	at := r.walker.Tuple()
	r.stats.Store(&readerState{at: at, loaded: r.loader.Loaded()})
	r.bound.Store(at.NextRow)
}

// drop releases what was read.
func (r *round) drop() {
	for _, s := range r.steps {
		s.Entry.Release()
	}
	*r = round{}
}

// ReaderStats are the figures of a reader. They still answer after it was closed;
// what is in memory then counts as nothing.
type ReaderStats struct {
	Position uint64 // last WAL position that was taken in
	Epoch    uint64 // of the writer in force there
	Visible  uint64 // rows that are shown: Reader.Bound

	// Log counts what was read of the log since OpenReader.
	Log replay.Loaded
	// Requests to the store since OpenReader, each attempt counted.
	Requests objstore.CounterValues
	// Cost is what Requests cost at ReaderOptions.Prices.
	Cost objstore.Cost

	Memtables     int
	ResidentBytes int64 // rows and indexes
	IndexBytes    int64 // indexes alone
	Snapshots     int64 // open ones
}

// Stats returns the current figures.
func (r *Reader) Stats() ReaderStats {
	st := r.stats.Load()
	s := ReaderStats{
		Position: st.at.Position, Epoch: st.at.Epoch, Visible: r.bound.Load(),
		Log: st.loaded, Requests: r.counters.Snapshot(), Snapshots: r.snapshots.Load(),
	}
	if v := r.acquireView(); v != nil {
		defer v.release()
		s.Memtables = len(v.tables)
		s.ResidentBytes, s.IndexBytes = v.usage()
	}
	s.Cost = s.Requests.Cost(*r.opts.Prices)
	return s
}
