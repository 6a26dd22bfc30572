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
)

// prepareBytes of input are ready before the clock starts.
const prepareBytes = 256 << 20

// orderedIndex is the name of the ordered index.
const orderedIndex = "ordered"

// bench is one run of the program.
type bench struct {
	c              *config
	stdout, stderr io.Writer
	json, html     io.WriteCloser // nil without the flag

	in     *input
	feed   feed
	store  *openedStore
	base   *baseline // nil without -baseline
	shard  uuid.UUID
	head   []headLine
	report report

	ackCurves, readCurves *curves // for -html
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
	w, err := memwal.Open(ctx, b.store, b.shard, b.in.Schema(), o)
	switch {
	case err != nil && ctx.Err() != nil:
		return errInterrupted
	case errors.Is(err, memwal.ErrInvalid):
		return &usageError{err} // an option out of bounds comes from a flag
	case err != nil:
		return fmt.Errorf("open a shard in %s: %w", b.store.where, err)
	}
	in, err := b.newIngest(w, o)
	if err != nil {
		return errors.Join(err, w.Close(context.Background()))
	}
	b.head = b.describe(o)
	for _, l := range b.head {
		fmt.Fprintf(b.stdout, "%-13s%s\n", l.Name, l.Text)
	}
	err = b.measure(ctx, w, in, prof)
	b.report.printIngest(b.stdout)
	interrupted := ctx.Err() != nil
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
	if c.Index == indexOrdered || c.Index == indexAll {
		col, err := b.orderedColumn()
		if err != nil {
			return nil, err
		}
		o.Indexes = []index.Config{index.Ordered{Name: orderedIndex, Columns: []index.Column{{Name: col}}}}
	}
	return o, nil
}

// orderedColumn is the first column that is no key and has an order, or the
// first key column where there is no other.
func (b *bench) orderedColumn() (string, error) {
	key := map[string]bool{}
	for _, k := range b.in.key {
		key[k] = true
	}
	first := ""
	for _, f := range b.in.Schema().Fields() {
		if !orderable(f.Type) {
			continue
		}
		if !key[f.Name] {
			return f.Name, nil
		}
		if first == "" {
			first = f.Name
		}
	}
	if first == "" {
		return "", usagef("-index %s: no column of the input has an order", b.c.Index)
	}
	return first, nil
}

// orderable names the types that surely can be indexed; memwal may know more.
func orderable(t arrow.DataType) bool {
	switch id := t.ID(); id {
	case arrow.STRING, arrow.LARGE_STRING, arrow.BINARY, arrow.LARGE_BINARY, arrow.DATE32, arrow.DATE64, arrow.TIMESTAMP:
		return true
	default:
		return arrow.IsInteger(id) || id == arrow.FLOAT32 || id == arrow.FLOAT64
	}
}

// newIngest returns the ingest into w, which was opened with o.
func (b *bench) newIngest(w *memwal.Writer, o *memwal.Options) (*ingest, error) {
	in := &ingest{
		w: w, feed: b.feed, writers: b.c.Writers, async: int(b.c.Async), rate: b.c.Rate,
		limit: b.c.Duration, flush: b.c.Indexed,
	}
	if b.base != nil {
		in.slice = max(baselineSlice, b.c.Duration/baselineTurns)
	}
	if b.c.Read > 0 {
		var ordered string
		for _, ix := range o.Indexes {
			if ix, ok := ix.(index.Ordered); ok {
				ordered = ix.Columns[0].Name
			}
		}
		open := func() (snapshot, error) { return w.Snapshot() }
		var err error
		if in.readers, err = newReaders(b.c.Read, open, b.in.Schema(), o.PrimaryKey, ordered, b.in.unique); err != nil {
			return nil, err
		}
	}
	return in, nil
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
	if in.readers != nil {
		in.readers.known.release()
		r.Read = in.readers.figures()
	}
	b.draw(in)
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
	if r := in.readers; r != nil {
		b.readCurves = percentiles(1e3, []string{"snapshot", "lookup", "range", "scan"}, []*latencies{&r.snapshots, &r.lookups, &r.ranges, &r.scans})
	}
}

// ingest runs in to its end, taking turns with the baseline if there is one.
func (b *bench) ingest(ctx context.Context, in *ingest) error {
	r := &b.report
	for {
		clock, cpu, before := in.clock.elapsed(), cpuTime(), b.store.counters.Snapshot()
		err := in.run(ctx)
		after := b.store.counters.Snapshot()
		r.CPUS += (cpuTime() - cpu).Seconds()
		r.Bytes += int64(after.BytesWritten - before.BytesWritten)
		r.Puts += int64(after.Puts() - before.Puts())
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
		if ord, ok := ix.(index.Ordered); ok {
			how = append(how, "ordered index on "+ord.Columns[0].Name)
		}
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
	return append(lines,
		headLine{"store", fmt.Sprintf("shard %s in %s; %s", b.shard, b.store.where, b.store.after)},
		headLine{"table", strings.Join(how, ", ") + "; " + putters})
}
