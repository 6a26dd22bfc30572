package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"runtime"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/google/uuid"
	"github.com/memwal/memwal-go/index"
	"github.com/memwal/memwal-go/memwal"
	"github.com/memwal/memwal-go/memwal/filtertext"
)

// prepareBytes of input are ready before the clock starts.
const prepareBytes = 256 << 20

// bench is one run of the program.
type bench struct {
	c              *config
	stdout, stderr io.Writer
	json, html     io.WriteCloser // nil without the flag

	in    *input
	feed  feed
	store *openedStore
	base  *baseline // nil without -baseline
	turns *turns    // nil without -query-compare

	writer   *memwal.Writer // nil until it is open
	known    *acknowledged  // nil without readers
	readers  *readers       // nil without -read
	queriers *queriers      // nil without -query

	shard  uuid.UUID
	head   []headLine
	report report

	ackCurves, readCurves, queryCurves *curves // for -html
}

func newBench(c *config, stdout, stderr io.Writer) *bench {
	return &bench{c: c, stdout: stdout, stderr: stderr, shard: uuid.New()}
}

// run measures, verifies and reports. What was measured before a failure is
// reported too, and in JSON the failure itself.
func (b *bench) run(ctx context.Context) error {
	err := b.measured(ctx)
	if b.json != nil {
		err = errors.Join(err, b.report.writeJSON(b.json, err))
	}
	if b.html != nil {
		err = errors.Join(err, b.writeHTML(b.html, err, time.Now()))
	}
	return err
}

func (b *bench) measured(ctx context.Context) (err error) {
	prof, err := b.setup(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.teardown()) }()
	o, err := b.options()
	if err != nil {
		return err
	}
	if err := b.makeReaders(o); err != nil {
		return err
	}
	w, err := memwal.Open(ctx, b.store, b.shard, b.in.Schema(), o)
	switch {
	case err != nil && ctx.Err() != nil:
		return errInterrupted
	case errors.Is(err, memwal.ErrInvalid):
		return &usageError{err} // an option out of bounds comes from a flag
	case err != nil:
		return fmt.Errorf("open a shard in %s: %w", b.store.where, err)
	}
	b.writer = w
	in := b.newIngest(w)
	b.head = b.describe(o)
	for _, l := range b.head {
		fmt.Fprintf(b.stdout, "%-13s%s\n", l.Name, l.Text)
	}
	err = b.measure(ctx, w, in, prof)
	interrupted := ctx.Err() != nil
	if err == nil && !interrupted {
		b.report.Indexes, err = b.costs(o.PrimaryKey, o.Indexes)
	}
	b.report.printIngest(b.stdout)
	if err == nil && !interrupted {
		err = b.reopen(ctx, o)
		interrupted = err != nil && ctx.Err() != nil
	}
	if interrupted && (err == nil || errors.Is(err, context.Canceled)) {
		return errInterrupted
	}
	return err
}

// setup prepares everything but the shard. After an error neither the feed nor the
// store is open; run closes the files of -json and -html.
func (b *bench) setup(ctx context.Context) (prof *profiles, err error) {
	if b.in, err = openInput(b.c); err != nil {
		return nil, err
	}
	if prof, err = openProfiles(b.c); err != nil {
		return nil, err
	}
	stdout := b.stdout
	if b.c.JSON == "-" {
		b.stdout = b.stderr // nothing but JSON goes to standard output
	}
	if b.json, err = createJSON(b.c.JSON, stdout); err != nil {
		return nil, err
	}
	if b.html, err = createHTML(b.c.HTML); err != nil {
		return nil, err
	}
	b.report.Options = b.c.opts
	if b.feed, err = prepare(b.in, b.c.Duration > 0, prepareBytes); err != nil {
		return nil, err
	}
	if b.store, err = openStore(ctx, b.c); err != nil {
		b.feed.close()
		return nil, err
	}
	if b.c.QueryCompare {
		b.turns = &turns{}
	}
	if b.c.Baseline {
		b.base = newBaseline(b.store.bare, b.shard.String(), b.c.InFlight)
	}
	return prof, nil
}

func (b *bench) teardown() (err error) {
	b.feed.close()
	if b.base != nil && b.store.lasting {
		err = b.base.remove(context.Background(), b.store.plain)
	}
	if cerr := b.store.Close(); cerr != nil {
		err = errors.Join(err, fmt.Errorf("close the store: %w", cerr))
	}
	return err
}

// options translates the flags.
func (b *bench) options() (*memwal.Options, error) {
	c := b.c
	o := &memwal.Options{
		FlushInterval: c.Interval, MaxPUTsPerSecond: c.MaxPUTs, FlushBytes: int64(c.FlushBytes), MaxEntryBytes: int64(c.MaxEntryBytes),
		MaxInFlight: c.InFlight, MaxMemtableBytes: int64(c.MaxMemtable), MaxResidentBytes: int64(c.MaxResident),
		WALOnly: !c.Memtable,
	}
	if c.Interval == 0 {
		o.FlushInterval = -1 // zero is the default there
	}
	if c.Indexed {
		o.Visibility = memwal.VisibleIndexed
	}
	if c.Compress != "none" {
		o.Compression = memwal.Compression(c.Compress)
	}
	if c.keyed() {
		o.PrimaryKey = b.in.key
	}
	var err error
	o.Indexes, err = b.secondary()
	return o, err
}

// newIngest returns the ingest into w.
func (b *bench) newIngest(w *memwal.Writer) *ingest {
	in := &ingest{
		w: w, feed: b.feed, writers: b.c.Writers, async: int(b.c.Async), rate: b.c.Rate,
		limit: b.c.Duration, flush: b.c.Indexed, known: b.known,
	}
	switch {
	case b.base != nil:
		in.slice = max(baselineSlice, b.c.Duration/baselineTurns)
	case b.turns != nil:
		in.slice = b.c.Duration / compareTurns
	}
	if b.readers != nil {
		in.beside = append(in.beside, b.readers)
	}
	if b.queriers != nil {
		in.beside = append(in.beside, b.queriers)
	}
	return in
}

// makeReaders makes the readers of -read and -query, for the writer to be opened with
// o. What they cannot ask for is refused.
func (b *bench) makeReaders(o *memwal.Options) error {
	if b.c.Read == 0 && b.c.Query == 0 {
		return nil
	}
	open := func() (snapshot, error) { return b.writer.Snapshot() }
	b.known = &acknowledged{}
	var err error
	if b.c.Read > 0 {
		b.readers, err = newReaders(b.c.Read, open, b.known, b.in.Schema(), o.PrimaryKey, firstIndex[index.Ordered](o), b.in.unique)
		if err != nil {
			return err
		}
	}
	if b.c.Query == 0 {
		return nil
	}
	text := firstIndex[index.Text](o)
	words, err := newWording(b.in, *text)
	if err != nil {
		return err
	}
	r, err := newReaders(int(b.c.Query), open, b.known, b.in.Schema(), o.PrimaryKey, nil, b.in.unique)
	if err != nil {
		return err
	}
	var where *memwal.Filter
	if b.c.Where != "" {
		f, err := filtertext.Parse(b.c.Where, b.in.Schema())
		if err != nil {
			return usagef("-where: %w", err)
		}
		where = &f
	}
	b.queriers = newQueriers(r, b.c.QueryRate, *text, words, where)
	return nil
}

// firstIndex is the first index of a kind, nil if there is none.
func firstIndex[T index.Config](o *memwal.Options) *T {
	for _, ix := range o.Indexes {
		if ix, ok := ix.(T); ok {
			return &ix
		}
	}
	return nil
}

// measure runs in, closes w, and fills the report, whatever happens.
func (b *bench) measure(ctx context.Context, w *memwal.Writer, in *ingest, prof *profiles) error {
	all, _ := b.feed.ahead()
	runtime.GC() // of what the preparation left
	if err := prof.start(); err != nil {
		return fmt.Errorf("start the CPU profile: %w", err)
	}
	stopBar := func() {}
	if width, ok := terminalWidth(b.stderr); ok {
		stopBar = startBar(b.stderr, width, in, b.feed.rows()).stop
	}
	stopSampler := func() []sample { return nil }
	if b.json != nil || b.html != nil {
		in.recent = new(latencies)
		stopSampler = startSampler(in, b.gaugesOf(w)).stop
	}
	err := b.ingest(ctx, in)
	b.report.Samples = stopSampler()
	stopBar()
	err = errors.Join(err, prof.heap())

	stats := w.Stats()
	closing := time.Now()
	cerr := w.Close(context.Background())
	r := &b.report
	r.CloseS = time.Since(closing).Seconds()
	if err == nil { // a writer that has failed says the same again
		err = cerr
	}
	err = errors.Join(err, prof.stop())

	r.Rows, r.Batches, r.ArrowBytes = in.rows.Load(), in.batches.Load(), in.bytes.Load()
	r.Seconds, r.AckMS = in.clock.elapsed().Seconds(), in.latency.values()
	if b.base != nil {
		r.BaselineMBPerS = b.base.mbPerS()
		r.BaselinePutMS = b.base.latency.values()
	}
	if in.known != nil {
		in.known.release()
	}
	if b.readers != nil {
		r.Read = b.readers.figures()
	}
	if b.queriers != nil {
		r.Query = b.queriers.figures()
	}
	if b.turns != nil {
		r.QueryCompare = b.turns.figures()
	}
	b.draw(in)
	r.IndexBytesPerRow = per(float64(stats.IndexBytes), float64(stats.Indexed))
	r.PeakRSSMB = float64(peakMemory()) / 1e6
	r.Preparing = !all
	r.derive()
	if errors.Is(err, memwal.ErrBackpressure) {
		err = fmt.Errorf("%w (rows stay in memory: give a larger -max-resident-bytes, or -memtable=false)", err)
	}
	return err
}

// draw makes the curves of -html.
func (b *bench) draw(in *ingest) {
	if b.html == nil {
		return
	}
	names, of := []string{"acknowledgement"}, []*latencies{&in.latency}
	if b.base != nil {
		names, of = append(names, "bare put"), append(of, &b.base.latency)
	}
	b.ackCurves = percentiles(1, names, of)
	if r := b.readers; r != nil {
		b.readCurves = percentiles(1e3, []string{"snapshot", "lookup", "range", "scan"}, []*latencies{&r.snapshots, &r.lookups, &r.ranges, &r.scans})
	}
	if q := b.queriers; q != nil {
		var of []*latencies
		for i := range q.took {
			of = append(of, &q.took[i])
		}
		b.queryCurves = percentiles(1e3, queryNames[:], of)
	}
}

// ingest runs in to its end, taking turns with the baseline, or with readers and
// without them, if that is asked for.
func (b *bench) ingest(ctx context.Context, in *ingest) error {
	r := &b.report
	for {
		clock, cpu, before, rows := in.clock.elapsed(), cpuTime(), b.store.counters.Snapshot(), in.rows.Load()
		in.alone = b.turns != nil && b.turns.alone()
		err := in.run(ctx)
		after := b.store.counters.Snapshot()
		r.CPUS += (cpuTime() - cpu).Seconds()
		r.Bytes += int64(after.BytesWritten - before.BytesWritten)
		r.Puts += int64(after.Puts() - before.Puts())
		if b.turns != nil {
			b.turns.add(in.rows.Load()-rows, in.clock.elapsed()-clock)
			if err == nil && ctx.Err() == nil && !in.over {
				continue
			}
		}
		if err != nil || b.base == nil || ctx.Err() != nil {
			return err
		}
		least := time.Duration(0)
		if in.over {
			least = baselineLeast - b.base.elapsed
		}
		err = b.base.run(ctx, b.store.entries.take(), in.clock.elapsed()-clock, least)
		if b.store.memory { // it would fill up with what nobody reads
			err = errors.Join(err, b.base.remove(context.Background(), b.store.plain))
		}
		if err != nil || in.over {
			return err
		}
	}
}

// reopen opens the shard again, as another process would, and verifies it.
func (b *bench) reopen(ctx context.Context, o *memwal.Options) error {
	if !b.c.Reopen {
		return nil
	}
	if bound := int64(b.c.MaxResident) / 2; !b.c.Memtable && !b.c.set["reopen"] && b.report.ArrowBytes > bound {
		fmt.Fprintf(b.stdout, "%-13sno: the rows may not fit into -max-resident-bytes; -reopen does it anyway\n", "verified")
		return nil
	}
	again := *o
	again.WALOnly = false
	start := time.Now()
	w, err := memwal.Open(ctx, b.store, b.shard, b.in.Schema(), &again)
	if err != nil {
		return fmt.Errorf("reopen the shard: %w", err)
	}
	b.report.ReopenS = time.Since(start).Seconds()
	n, err := b.verify(ctx, w)
	b.report.VerifiedRows = n
	if err != nil {
		err = fmt.Errorf("verify: %w", err)
	} else {
		b.report.printReopen(b.stdout)
	}
	return errors.Join(err, w.Close(context.Background()))
}

// verify compares what w has with the batches that were acknowledged.
func (b *bench) verify(ctx context.Context, w *memwal.Writer) (int64, error) {
	s, err := w.Snapshot()
	if err != nil {
		return 0, err
	}
	defer s.Close()
	c := &check{schema: b.in.Schema(), unique: b.in.unique, ordered: b.c.Writers == 1}
	if b.c.keyed() {
		c.key = b.in.key
	}
	want := func() iter.Seq2[arrow.RecordBatch, error] { return b.feed.replay(b.report.Batches) }
	return c.verify(want, func() iter.Seq2[arrow.RecordBatch, error] { return scan(ctx, s) })
}

// scan yields every row of s. The receiver owns the batches.
func scan(ctx context.Context, s *memwal.Snapshot) iter.Seq2[arrow.RecordBatch, error] {
	return func(yield func(arrow.RecordBatch, error) bool) {
		for rec, err := range s.All(ctx, memwal.ScanOptions{}) {
			if err != nil {
				yield(nil, err)
				return
			}
			rec.Retain()
			if !yield(rec, nil) {
				return
			}
		}
	}
}

// headLine says one thing about what is measured.
type headLine struct{ Name, Text string }

// describe says what is about to be measured.
func (b *bench) describe(o *memwal.Options) []headLine {
	var how []string
	if o.WALOnly {
		how = append(how, "log only")
	}
	if len(o.PrimaryKey) > 0 {
		how = append(how, "primary key "+strings.Join(o.PrimaryKey, ", "))
	}
	for _, ix := range o.Indexes {
		how = append(how, indexName(ix))
	}
	if len(how) == 0 {
		how = append(how, "no index")
	}
	lines := []headLine{{"input", b.in.name}}
	if b.in.added {
		lines = append(lines, headLine{"", fmt.Sprintf("it has no column %q: an ordinal is added as such", b.in.key[0])})
	}
	if all, bytes := b.feed.ahead(); all {
		lines = append(lines, headLine{"", fmt.Sprintf("%s rows, %s as Arrow, prepared", group(b.feed.rows()), megabytes(bytes))})
	} else {
		lines = append(lines, headLine{"", fmt.Sprintf("%s as Arrow prepared, the rest is while the clock runs", megabytes(bytes))})
	}
	putters := fmt.Sprintf("%d putters", b.c.Writers)
	if b.c.Async > 0 {
		putters += fmt.Sprintf(", each with up to %d batches outstanding", b.c.Async)
	}
	if b.c.Read > 0 {
		putters += fmt.Sprintf("; readers: %d", b.c.Read)
	}
	if b.c.Query > 0 {
		putters += fmt.Sprintf("; queriers: %d", b.c.Query)
		if b.c.QueryRate > 0 {
			putters += fmt.Sprintf(", %v queries/s in all", b.c.QueryRate)
		}
		if b.c.Where != "" {
			putters += ", where " + b.c.Where
		}
	}
	return append(lines,
		headLine{"store", fmt.Sprintf("shard %s in %s; %s", b.shard, b.store.where, b.store.after)},
		headLine{"table", strings.Join(how, ", ") + "; " + putters})
}
