package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/memwal/memwal-go/memwal"
)

// putter is the part of a writer that takes rows.
type putter interface {
	Put(context.Context, arrow.RecordBatch) error
	PutAsync(context.Context, arrow.RecordBatch) (*memwal.Ticket, error)
	Flush(context.Context) error
}

// ingest puts what a feed hands out, and measures.
type ingest struct {
	w       putter
	feed    feed
	writers int
	async   int           // batches outstanding per writer, 0: Put
	rate    float64       // rows per second, 0: unlimited
	limit   time.Duration // 0: to the end of the feed
	slice   time.Duration // run returns after about so long, to be called again; 0: it runs to the end
	flush   bool          // rows may be acknowledged before they are durable
	beside  []companion   // run while the putters do
	known   *acknowledged // told what was acknowledged; nil: nobody asks

	// What was acknowledged. Rows and bytes are read while it runs.
	rows, bytes, batches atomic.Int64
	latency              latencies
	recent               *latencies // since a sampler took them; nil without one

	clock stopwatch
	alone bool // run leaves out what is beside
	over  bool // there is nothing more to do; set by run

	start   time.Time // of this call of run
	ended   atomic.Bool
	cancel  context.CancelFunc
	failure atomic.Pointer[error] // the first
	wg      sync.WaitGroup

	// With a rate, putters wait for the next turn one after the other: who holds
	// the token of this channel. A mutex would not let go when the run ends.
	turn   chan struct{}
	handed int64 // rows since start; guarded by turn
}

// run puts until the feed ends, the time is over, ctx ends or a put fails: then
// over is set; or until the slice is over. What was taken from the feed is put
// and waited for in any case but a failure; all of it is durable when run returns
// nil.
func (in *ingest) run(ctx context.Context) error {
	outer := ctx
	ctx, in.cancel = context.WithCancel(ctx)
	defer in.cancel()
	in.turn, in.handed = make(chan struct{}, 1), 0
	in.clock.start()
	in.start = time.Now()
	span := in.slice
	if in.limit > 0 {
		// A limit is cut to equal slices, so that none is much shorter.
		left := in.limit - in.clock.elapsed()
		span = left
		if in.slice > 0 {
			span = left / max(1, (left+in.slice/2)/in.slice)
		}
	}
	if span > 0 {
		defer time.AfterFunc(span, in.cancel).Stop()
	}
	var stops []func()
	if !in.alone {
		for _, c := range in.beside {
			stops = append(stops, c.beside(outer, in.fail))
		}
	}
	for range in.writers {
		if in.async > 0 {
			in.wg.Go(func() { in.putAsync(ctx) })
		} else {
			in.wg.Go(func() { in.put(ctx) })
		}
	}
	if in.slice > 0 {
		in.hurry(ctx)
	}
	in.wg.Wait()
	if in.flush && in.failure.Load() == nil {
		in.flushNow()
	}
	in.clock.stop()
	for _, stop := range stops {
		stop()
	}
	if err := in.failure.Load(); err != nil {
		in.over = true
		return *err
	}
	// The rest of a limit after slices that ended late may be a moment.
	in.over = in.ended.Load() || outer.Err() != nil || in.slice == 0 || in.limit > 0 && in.limit-in.clock.elapsed() < in.slice/20
	return nil
}

// hurry flushes when the putters are told to stop, until they have: their last
// rows need not wait for the interval, which a run without slices waits for but
// once.
func (in *ingest) hurry(ctx context.Context) {
	done := make(chan struct{})
	go func() {
		in.wg.Wait()
		close(done)
	}()
	select {
	case <-ctx.Done():
	case <-done:
		return
	}
	for in.failure.Load() == nil {
		in.flushNow()
		select {
		case <-done:
			return
		case <-time.After(time.Millisecond):
		}
	}
}

func (in *ingest) flushNow() {
	if err := in.w.Flush(context.Background()); err != nil {
		in.fail(fmt.Errorf("flush: %w", err))
	}
}

// stopwatch sums up times. It is safe for concurrent use.
type stopwatch struct {
	mu      sync.Mutex
	sum     time.Duration
	started time.Time // zero: it stands still
}

func (s *stopwatch) start() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.started = time.Now()
}

func (s *stopwatch) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sum, s.started = s.sum+time.Since(s.started), time.Time{}
}

func (s *stopwatch) elapsed() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.started.IsZero() {
		return s.sum
	}
	return s.sum + time.Since(s.started)
}

// fail stops every putter.
func (in *ingest) fail(err error) {
	in.failure.CompareAndSwap(nil, &err)
	in.cancel()
}

// take returns the next batch and when its put counts as begun. It returns
// false when there is nothing more to do.
func (in *ingest) take(ctx context.Context) (item, time.Time, bool) {
	var begin time.Time
	if in.rate > 0 {
		select {
		case in.turn <- struct{}{}:
			defer func() { <-in.turn }()
		case <-ctx.Done():
			return item{}, begin, false
		}
		begin = in.start.Add(time.Duration(float64(in.handed) / in.rate * float64(time.Second)))
		wait(ctx, time.Until(begin))
	}
	if ctx.Err() != nil {
		return item{}, begin, false
	}
	it, ok, err := in.feed.next()
	if err != nil {
		in.fail(err)
		return item{}, begin, false
	}
	if !ok {
		in.ended.Store(true)
		return item{}, begin, false
	}
	if in.rate > 0 {
		in.handed += it.rec.NumRows()
	} else {
		begin = time.Now()
	}
	return it, begin, true
}

// wait returns after d or when ctx ends.
func wait(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// put is one putter. Its puts are not cancelled: whether a cancelled put is
// found later is unknown, and then nothing could be verified.
func (in *ingest) put(ctx context.Context) {
	for {
		it, begin, ok := in.take(ctx)
		if !ok {
			return
		}
		if err := in.w.Put(context.Background(), it.rec); err != nil {
			in.fail(fmt.Errorf("put %d rows: %w", it.rec.NumRows(), err))
			it.rec.Release()
			return
		}
		in.acknowledge(begin, it)
	}
}

type outstanding struct {
	ticket *memwal.Ticket
	begin  time.Time
	item   item
}

// putAsync is one putter of PutAsync. Tickets of one caller complete in order,
// so a second goroutine that waits for them in order sees each in time.
func (in *ingest) putAsync(ctx context.Context) {
	room := make(chan struct{}, in.async)
	tickets := make(chan outstanding, in.async)
	var collector sync.WaitGroup
	collector.Go(func() {
		for o := range tickets {
			if err := o.ticket.Wait(context.Background()); err != nil {
				in.fail(fmt.Errorf("put %d rows: %w", o.item.rec.NumRows(), err))
				o.item.rec.Release()
			} else {
				in.acknowledge(o.begin, o.item)
			}
			<-room
		}
	})
	defer collector.Wait()
	defer close(tickets)
	for {
		room <- struct{}{}
		it, begin, ok := in.take(ctx)
		if !ok {
			return
		}
		t, err := in.w.PutAsync(context.Background(), it.rec)
		if err != nil {
			in.fail(fmt.Errorf("put %d rows: %w", it.rec.NumRows(), err))
			it.rec.Release()
			return
		}
		tickets <- outstanding{t, begin, it}
	}
}

// acknowledge counts it, whose put has returned, and lets go of it.
func (in *ingest) acknowledge(begin time.Time, it item) {
	took := time.Since(begin)
	in.latency.record(took)
	if in.recent != nil {
		in.recent.record(took)
	}
	in.rows.Add(it.rec.NumRows())
	in.bytes.Add(it.bytes)
	in.batches.Add(1)
	if in.known != nil {
		in.known.add(it.rec)
	}
	it.rec.Release()
}

// latencies is a histogram with three significant digits from a unit to an hour.
// One for all goroutines: a lock per put is cheap, hundreds of histograms are not
// small.
type latencies struct {
	unit time.Duration // default: a microsecond
	mu   sync.Mutex
	hist *hdrhistogram.Histogram
}

func (l *latencies) record(times ...time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.unit == 0 {
		l.unit = time.Microsecond
	}
	most := int64(time.Hour / l.unit)
	if l.hist == nil {
		l.hist = hdrhistogram.New(1, most, 3)
	}
	for _, d := range times {
		// The error is for values out of range.
		_ = l.hist.RecordValue(min(max(1, int64(d/l.unit)), most))
	}
}

func (l *latencies) count() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hist == nil {
		return 0
	}
	return l.hist.TotalCount()
}

// values are in milliseconds, zero if nothing was recorded.
func (l *latencies) values() ackMillis {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.valuesLocked()
}

// quantile is the value, in milliseconds, that a part q of all do not exceed.
func (l *latencies) quantile(q float64) float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hist == nil {
		return 0
	}
	return float64(l.hist.ValueAtQuantile(q*100)) * float64(l.unit) / 1e6
}

// take returns the values and the count, and starts anew.
func (l *latencies) take() (ackMillis, int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hist == nil {
		return ackMillis{}, 0
	}
	v, n := l.valuesLocked(), l.hist.TotalCount()
	l.hist.Reset()
	return v, n
}

func (l *latencies) valuesLocked() ackMillis {
	if l.hist == nil || l.hist.TotalCount() == 0 {
		return ackMillis{}
	}
	ms := func(n int64) float64 { return float64(n) * float64(l.unit) / 1e6 }
	return ackMillis{
		P50: ms(l.hist.ValueAtQuantile(50)), P95: ms(l.hist.ValueAtQuantile(95)),
		P99: ms(l.hist.ValueAtQuantile(99)), Max: ms(l.hist.Max()),
	}
}

// profiles are the files of -cpuprofile and -memprofile, created before the
// run, so that a wrong path does not cost one.
type profiles struct{ cpu, mem *os.File }

func openProfiles(c *config) (*profiles, error) {
	p := &profiles{}
	for _, f := range []struct {
		flag, path string
		file       **os.File
	}{{"cpuprofile", c.CPUProfile, &p.cpu}, {"memprofile", c.MemProfile, &p.mem}} {
		if f.path == "" {
			continue
		}
		var err error
		if *f.file, err = os.Create(f.path); err != nil {
			return nil, usagef("-%s: %w", f.flag, err)
		}
	}
	return p, nil
}

func (p *profiles) start() error {
	if p.cpu == nil {
		return nil
	}
	return pprof.StartCPUProfile(p.cpu)
}

// heap writes the heap profile.
func (p *profiles) heap() error {
	if p.mem == nil {
		return nil
	}
	runtime.GC()
	return errors.Join(pprof.WriteHeapProfile(p.mem), p.mem.Close())
}

// stop ends the CPU profile.
func (p *profiles) stop() error {
	if p.cpu == nil {
		return nil
	}
	pprof.StopCPUProfile()
	return p.cpu.Close()
}
