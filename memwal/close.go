package memwal

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/memwal/memwal-go/internal/manifest"
	"github.com/memwal/memwal-go/memtable"
)

// Close makes every accepted row durable, stops the background tasks, and frees
// the memory that open snapshots do not hold. It returns the first terminal
// failure of the writer, if there was one. If ctx ends first, the rest is
// aborted: rows that were not durable by then may or may not be found later. Under
// a low MaxPUTsPerSecond each entry that is still to be put may wait for a minute.
//
// Calls after the first wait for it, until their own ctx ends, and return the same.
func (w *Writer) Close(ctx context.Context) error {
	defer runtime.KeepAlive(w)
	c := w.c
	if c.ending.CompareAndSwap(false, true) {
		start := time.Now()
		c.endError = c.close(ctx)
		c.logEnded("writer closed", start)
		close(c.ended)
		return c.endError
	}
	select {
	case <-c.ended:
		return c.endError
	default:
	}
	select {
	case <-c.ended:
		return c.endError
	case <-ctx.Done():
		return fmt.Errorf("close: wait for another call of it: %w", ctx.Err())
	}
}

// Abort stops the writer at once, from any state, without writing anything that
// is not in flight already. Rows that were not durable may or may not be found
// later. It is harmless after Close; a Close after it returns why the writer ended.
func (w *Writer) Abort() error {
	defer runtime.KeepAlive(w)
	w.c.abort()
	return nil
}

func (c *core) close(ctx context.Context) error {
	c.mu.Lock()
	c.mu.closing = true
	c.freedLocked()
	c.unlock()

	end := c.cursors.Accepted()
	c.flusher.Demand(end)
	flushing, span := c.watch.startFlush(ctx, c.cursors.Durable(), end)
	err := c.cursors.Register(memtable.LevelDurable, end).Wait(flushing)
	if err == nil {
		err = c.cursors.Register(memtable.LevelIndexed, end).Wait(flushing)
	}
	span.End(err)
	if err == nil {
		err = c.cursors.Err() // it may have failed with nothing on its way
	}
	if err != nil {
		if _, poisoned := errors.AsType[*PoisonedError](err); !poisoned {
			err = fmt.Errorf("close: rows from %d to %d were not made durable: %w", c.cursors.Durable(), end, err)
		}
	}
	if err == nil {
		c.recordEnd(ctx)
	}
	c.cursors.Fail(errClosed)
	c.teardown()
	return err
}

// recordTimeout bounds recordEnd: what is only a help must not hold up a Close
// whose rows are durable.
const recordTimeout = 10 * time.Second

// recordEnd tells the manifest how far the log reaches, so that the next open
// notices if one of its last objects was deleted. Nothing depends on it: the
// rows are durable, and a failure only makes the check at open weaker.
func (c *core) recordEnd(ctx context.Context) {
	end := c.flusher.Stats().LastPosition
	if end == 0 {
		return // nothing was appended
	}
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	go func() {
		select {
		case <-c.failed: // an Abort does not wait for the record
			cancel()
		case <-ctx.Done():
		}
	}()
	_, err := c.log.Update(ctx, c.owner, func(m *manifest.Manifest) error {
		m.LastSeen = max(m.LastSeen, end)
		return nil
	})
	if err != nil {
		c.logger.Warn("the end of the log was not recorded in the manifest", "position", end, "error", err)
	}
}

// abort may be called at any time. If a Close is under way, its wait ends.
func (c *core) abort() {
	c.cursors.Fail(&PoisonedError{ErrAborted})
	if !c.ending.CompareAndSwap(false, true) {
		<-c.ended
		return
	}
	start := time.Now()
	c.mu.Lock()
	c.mu.closing = true
	c.freedLocked()
	c.unlock()
	c.teardown()
	c.endError = c.cursors.Err()
	c.logEnded("writer aborted", start)
	close(c.ended)
}

// teardown joins the tasks and lets go of the memory. Nothing is appended and
// nothing becomes visible any more: the cursors have failed.
func (c *core) teardown() {
	c.watch.stop()
	if c.aging != nil {
		_ = c.aging.Stop(false) // its errors were the writer's
	}
	_ = c.flusher.Stop() // likewise: OnFail told them
	_ = c.applier.Stop(false)
	c.mu.Lock()
	c.installLocked(nil)
	c.unlock()
}
