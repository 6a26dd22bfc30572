package memwal

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/memwal/memwal-go/objstore"
)

// logInterval is the least spacing of events that a store in trouble would
// otherwise cause by the hundred.
const logInterval = 10 * time.Second

// limiter lets one event pass in each interval and counts the others.
type limiter struct {
	interval time.Duration
	mu       struct {
		sync.Mutex
		next time.Time
		held uint64
	}
}

// pass tells whether the event may pass, and how many did not since the last
// that did.
func (l *limiter) pass(now time.Time) (held uint64, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Before(l.mu.next) {
		l.mu.held++
		return 0, false
	}
	held, l.mu.held, l.mu.next = l.mu.held, 0, now.Add(l.interval)
	return held, true
}

// retryWatcher returns what is told of each retry, which tells o.OnRetry first. One
// retry is no event: stores drop a connection now and then. A request that has
// failed twice is.
func retryWatcher(o objstore.RetryOptions, traced bool, logger *slog.Logger) func(objstore.Retry) {
	limit := &limiter{interval: logInterval}
	return func(r objstore.Retry) {
		if o.OnRetry != nil {
			o.OnRetry(r)
		}
		if traced {
			traceRetry(r)
		}
		if r.Attempt < 2 {
			return
		}
		if others, ok := limit.pass(time.Now()); ok {
			logger.Warn("store requests are retried", "operation", string(r.Op), "key", r.Key,
				"attempt", r.Attempt, "pause", r.Pause, "suppressed", others, "error", r.Err)
		}
	}
}

// logRefusal logs why a shard was not taken over if the shard is at fault, and
// not the call: that is for the operator to see, whatever the caller does with
// the error.
func logRefusal(l *slog.Logger, err error) {
	reason, position := "", uint64(0)
	switch {
	case errors.Is(err, ErrHole):
		reason = "hole"
		if e, ok := errors.AsType[*HoleError](err); ok {
			position = e.Position
		}
	case errors.Is(err, ErrForeignWriter):
		reason = "foreign_writer"
	case errors.Is(err, ErrCorrupt):
		reason = "corrupt"
		if e, ok := errors.AsType[*CorruptError](err); ok {
			position = e.Position
		}
	default:
		return
	}
	l.Error("shard refused", "reason", reason, "position", position, "error", err)
}

// logOpened tells what Open found.
func (c *core) logOpened() {
	r := c.opened.replay
	c.logger.Info("shard opened", "epoch", c.owner.Epoch, "duration", c.opened.took, "replay_duration", r.Duration,
		"entries", r.Entries, "fences", r.Fences, "dead", r.Dead, "rows", r.Rows, "bytes", r.Bytes,
		"next_row", c.opened.tail.NextRow, "memtables", len(c.live()))
}

// logPoisoned tells the terminal failure. To be fenced may well be meant, so it
// is no error.
func (c *core) logPoisoned(cause error) {
	if !errors.Is(cause, ErrFenced) {
		c.logger.Error("writer poisoned", "epoch", c.owner.Epoch, "error", cause)
		return
	}
	attrs := []any{"epoch", c.owner.Epoch, "error", cause}
	if f, ok := errors.AsType[*FencedError](cause); ok {
		attrs = append(attrs, "their_epoch", f.Theirs.Epoch)
	}
	c.logger.Warn("writer fenced", attrs...)
}

// logEnded tells what a writer has done in its life. endError is set.
func (c *core) logEnded(event string, start time.Time) {
	s := c.flusher.Stats()
	lost := c.cursors.Accepted() - c.cursors.Durable()
	level := slog.LevelInfo
	if lost > 0 {
		level = slog.LevelWarn
	}
	attrs := []any{
		"epoch", c.owner.Epoch, "duration", time.Since(start), "entries", s.Entries, "rows", s.Rows, "bytes", s.Bytes,
		"position", s.LastPosition, "next_row", c.cursors.Durable(), "not_durable", lost,
	}
	if c.endError != nil && !errors.Is(c.endError, ErrAborted) {
		attrs = append(attrs, "error", c.endError)
	}
	c.logger.Log(context.Background(), level, event, attrs...)
}

// dropped ends a writer that nobody holds any more.
func (c *core) dropped() {
	c.logger.Warn("writer dropped without Close or Abort", "epoch", c.owner.Epoch)
	c.abort()
}

// rotation is a memtable that was frozen.
type rotation struct {
	generation uint64
	rows       uint32
	bytes      int64 // spanned by the rows
}

// logRotated is called without the writer lock.
func (c *core) logRotated(rotated []rotation) {
	for _, r := range rotated {
		c.logger.Debug("memtable rotated", "generation", r.generation, "rows", r.rows, "bytes", r.bytes)
	}
}
