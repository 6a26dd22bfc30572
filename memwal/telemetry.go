package memwal

import (
	"context"
	"log/slog"
	"runtime/pprof"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/memwal/memwal-go/flusher"
	"github.com/memwal/memwal-go/internal/telemetry"
	"github.com/memwal/memwal-go/objstore"
	"github.com/memwal/memwal-go/replay"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
)

// scope is the name of the instrumentation scope.
const scope = "github.com/memwal/memwal-go/memwal"

// The attributes of metrics and spans.
const (
	attrShard     = attribute.Key("memwal.shard")
	attrOperation = attribute.Key("objstore.operation")
	attrClass     = attribute.Key("memwal.cost.class")
	attrReason    = attribute.Key("memwal.append.reason")
	attrOutcome   = attribute.Key("memwal.append.outcome")
	attrAttempts  = attribute.Key("memwal.append.attempts")
	attrEpoch     = attribute.Key("memwal.epoch")
	attrPosition  = attribute.Key("memwal.wal.position")
	attrEntries   = attribute.Key("memwal.entries")
	attrRows      = attribute.Key("memwal.rows")
	attrBytes     = attribute.Key("memwal.bytes")
)

// tracer starts the spans of a shard.
func (o *Options) tracer(shard uuid.UUID) telemetry.Tracer {
	return tracerOf(o.TracerProvider, shard)
}

func tracerOf(p trace.TracerProvider, shard uuid.UUID) telemetry.Tracer {
	return telemetry.NewTracer(p, scope, attrShard.String(shard.String()))
}

// labels are the pprof labels of everything that is done for a shard.
func labels(shard uuid.UUID) pprof.LabelSet {
	return pprof.Labels("memwal.shard", shard.String())
}

// export registers the instruments of metrics, which are read from stats until
// unregister is called. What the meter refuses is logged: a shard must not stay
// closed for the sake of its metrics.
func export[T any](meter metric.Meter, metrics []telemetry.Metric[T], stats func() T, shard attribute.KeyValue, logger *slog.Logger) (unregister func()) {
	end, err := telemetry.Register(meter, metrics, stats, shard)
	if err != nil {
		logNotExported(logger, err)
		return func() {}
	}
	return func() {
		if err := end(); err != nil {
			logger.Warn("metrics are still exported", "error", err)
		}
	}
}

func logNotExported(logger *slog.Logger, err error) {
	logger.Warn("metrics are not exported", "error", err)
}

// export registers the instruments of ReaderStats.
func (r *Reader) export() {
	if p := r.opts.MeterProvider; p != nil {
		r.unregister = export(p.Meter(scope), readerMetrics, r.Stats, attrShard.String(r.shard.String()), r.logger)
	}
}

// watch is how a writer that runs is watched: what is not read from its Stats.
type watch struct {
	logger   *slog.Logger
	meter    metric.Meter // nil without a provider
	shard    attribute.KeyValue
	epoch    attribute.KeyValue
	trace    telemetry.Tracer
	took     metric.Float64Histogram // nil without a provider
	size     metric.Int64Histogram   // likewise
	slow     limiter
	pressure pressure

	unregister func() // of the instruments of Stats; nil if there are none
}

// newWatch is called once c is the owner.
func newWatch(c *core) *watch {
	w := &watch{
		logger: c.logger, shard: attrShard.String(c.shard.String()), epoch: attrEpoch.Int64(int64(c.owner.Epoch)),
		trace: c.opts.tracer(c.shard), slow: limiter{interval: logInterval},
		pressure: pressure{logger: c.logger, max: c.opts.MaxResidentBytes},
	}
	if c.opts.MeterProvider == nil {
		return w
	}
	w.meter = c.opts.MeterProvider.Meter(scope)
	took, err := w.meter.Float64Histogram("memwal.wal.append.duration", metric.WithUnit("s"),
		metric.WithDescription("Time of an append to the WAL: encoding, put, retries."),
		metric.WithExplicitBucketBoundaries(.001, .0025, .005, .01, .025, .05, .075, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10, 30, 60, 120))
	if err != nil {
		logNotExported(w.logger, err)
	} else {
		w.took = took
	}
	size, err := w.meter.Int64Histogram("memwal.wal.entry.size", metric.WithUnit("By"),
		metric.WithDescription("Encoded size of the entries that were put."),
		metric.WithExplicitBucketBoundaries(1<<10, 4<<10, 16<<10, 64<<10, 256<<10, 1<<20, 2<<20, 4<<20, 8<<20, 16<<20, 32<<20, 64<<20))
	if err != nil {
		logNotExported(w.logger, err)
	} else {
		w.size = size
	}
	return w
}

// export registers the instruments of Stats.
func (w *watch) export(stats func() Stats) {
	if w.meter != nil {
		w.unregister = export(w.meter, statsMetrics, stats, w.shard, w.logger)
	}
}

// stop unregisters the instruments and ends the episode of backpressure.
func (w *watch) stop() {
	if w.unregister != nil {
		w.unregister()
	}
	w.pressure.stop()
}

// slowAppend is the time from which on an append is told in the log: half of
// what a Put waits for memory by default. A healthy store answers within one
// second; two or three retries do not reach it.
const slowAppend = 5 * time.Second

// append watches the put of one entry. It is called once for each put of an
// entry, not for each Put of a caller.
//
// The span is a root of its own. An entry holds the batches of many callers, and
// to link it to their spans each batch would have to carry a span context
// through the memtable: memory and an allocation for each Put, of which nobody
// has use but a sampled few.
func (w *watch) append(ctx context.Context, a flusher.Append) (context.Context, func(flusher.AppendResult)) {
	rows, reason := attrRows.Int64(int64(a.Rows)), attrReason.String(a.Reason)
	ctx, span := w.trace.Start(ctx, "memwal.append", w.epoch, attrPosition.Int64(int64(a.Position)), rows, reason)
	var tries *attempts
	if span.On() {
		tries = new(attempts)
		ctx = context.WithValue(ctx, attemptsKey{}, tries)
	}
	return ctx, func(r flusher.AppendResult) {
		outcome := attrOutcome.String(r.Outcome)
		if w.took != nil {
			w.took.Record(ctx, r.Took.Seconds(), metric.WithAttributes(w.shard, reason, outcome))
		}
		if w.size != nil && r.Bytes > 0 {
			w.size.Record(ctx, r.Bytes, metric.WithAttributes(w.shard, reason, outcome))
		}
		if tries != nil {
			span.Set(attrBytes.Int64(r.Bytes), outcome, attrAttempts.Int64(tries.failed.Load()+1))
		}
		span.End(r.Err)
		if r.Took >= slowAppend {
			if others, ok := w.slow.pass(time.Now()); ok {
				w.logger.Warn("append slow", "position", a.Position, "duration", r.Took, "bytes", r.Bytes,
					"outcome", r.Outcome, "suppressed", others)
			}
		}
	}
}

// attempts counts the attempts of an append's put that were repeated.
type attempts struct{ failed atomic.Int64 }

// attemptsKey is the context key under which a retry finds the attempts of the
// append that it belongs to. The retry layer lies below the flusher, which does
// not see it.
type attemptsKey struct{}

// traceRetry tells the span of the request, if it is one of an append.
func traceRetry(r objstore.Retry) {
	n, _ := r.Context.Value(attemptsKey{}).(*attempts)
	if n == nil {
		return
	}
	if r.Op == objstore.OpPutIfAbsent {
		n.failed.Add(1)
	}
	trace.SpanFromContext(r.Context).AddEvent("retry", trace.WithAttributes(
		attrOperation.String(string(r.Op)), attribute.Int("memwal.attempt", r.Attempt),
		attribute.Float64("memwal.pause", r.Pause.Seconds()), attribute.String("exception.message", r.Err.Error())))
}

// startFlush starts the span of a wait for the rows below end.
func (w *watch) startFlush(ctx context.Context, durable, end uint64) (context.Context, telemetry.Span) {
	return w.trace.Start(ctx, "memwal.flush", w.epoch, attrRows.Int64(int64(end-min(durable, end))))
}

// traceReplay starts the span of a walk over the log. It counts what visit is
// given; ended must be called.
func traceReplay(ctx context.Context, t telemetry.Tracer, visit func(*replay.Step) error) (_ context.Context, counted func(*replay.Step) error, ended func(error)) {
	ctx, span := t.Start(ctx, "memwal.replay")
	if !span.On() {
		return ctx, visit, span.End
	}
	var entries, rows, bytes int64
	counted = func(s *replay.Step) error {
		if s.Live {
			entries++
			rows += int64(s.Entry.Rows)
			bytes += s.Size
		}
		return visit(s)
	}
	return ctx, counted, func(err error) {
		span.Set(attrEntries.Int64(entries), attrRows.Int64(rows), attrBytes.Int64(bytes))
		span.End(err)
	}
}
