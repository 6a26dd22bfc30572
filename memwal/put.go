package memwal

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/memwal/memwal-go/flusher"
	"github.com/memwal/memwal-go/internal/schema"
	"github.com/memwal/memwal-go/memtable"
)

// Put adds the rows of rec, or replaces the rows with the same primary key, and
// returns once they are visible. rec must have the schema that was given to
// Open. The writer retains what it keeps: the caller may release rec as soon as
// Put returns, and must not change its buffers.
//
// A batch is refused as a whole (ErrInvalid, ErrBackpressure, and any error
// before it was accepted): then nothing was stored. If ctx ends or the writer
// fails after the batch was accepted, it is not known whether its rows will be
// found later; they will not be found twice.
//
// It is safe for concurrent use. Batches of one caller keep their order.
func (w *Writer) Put(ctx context.Context, rec arrow.RecordBatch) error {
	t, err := w.PutAsync(ctx, rec)
	if err != nil {
		return err
	}
	return t.Wait(ctx)
}

// PutAsync is Put without the wait for visibility: it returns as soon as the
// batch is accepted. It waits, until ctx ends, only while memory is full.
func (w *Writer) PutAsync(ctx context.Context, rec arrow.RecordBatch) (*Ticket, error) {
	defer runtime.KeepAlive(w)
	return w.accept(ctx, "put", rec, w.c.shaper.Shape)
}

// Delete removes the rows with the primary keys in keys, whose columns are the
// key columns, in the order of Options.PrimaryKey, and returns once they are
// gone from what readers see. Keys that are not there are no error. The rest is
// as for Put.
func (w *Writer) Delete(ctx context.Context, keys arrow.RecordBatch) error {
	t, err := w.DeleteAsync(ctx, keys)
	if err != nil {
		return err
	}
	return t.Wait(ctx)
}

// DeleteAsync is Delete without the wait for visibility.
func (w *Writer) DeleteAsync(ctx context.Context, keys arrow.RecordBatch) (*Ticket, error) {
	defer runtime.KeepAlive(w)
	if len(w.c.table.PrimaryKey) == 0 {
		return nil, &BatchError{"delete", fmt.Errorf("the table has no primary key, so rows cannot be named: set Options.PrimaryKey when the shard is created")}
	}
	return w.accept(ctx, "delete", keys, w.c.shaper.Tombstones)
}

// accept validates rec, gives it the storage schema, and appends it.
func (w *Writer) accept(ctx context.Context, op string, rec arrow.RecordBatch, shape func(arrow.RecordBatch) (arrow.RecordBatch, error)) (*Ticket, error) {
	c := w.c
	if err := c.state(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w; nothing was stored", op, err)
	}
	if rec == nil {
		return nil, &BatchError{op, fmt.Errorf("the batch is nil")}
	}
	shaped, err := shape(rec)
	if err != nil {
		return nil, &BatchError{op, err}
	}
	defer func() { shaped.Release() }()
	if err := c.spec.Check(shaped); err != nil {
		return nil, &BatchError{op, err}
	}
	window, pinned := schema.Size(shaped)
	if schema.NeedsCompact(window, pinned) {
		own := schema.Compact(shaped, c.opts.Allocator)
		shaped.Release()
		shaped = own
		window, pinned = schema.Size(shaped)
	}
	if n := values(shaped); n > maxValues {
		return nil, &BatchError{op, fmt.Errorf("the batch has %d values in nested columns, more than the %d that an entry can hold: split it", n, int64(maxValues))}
	}
	add := memtable.Size{Rows: shaped.NumRows(), Window: window, Pinned: pinned}
	if err := c.fitsEver(add); err != nil {
		return nil, &BatchError{op, err}
	}
	return c.append(ctx, w, shaped, add)
}

// maxValues bounds the values of a batch, nested ones included: readers of the
// log take larger counts for damage. Only values without bytes get there.
const maxValues = 1 << 36

// values counts the values of a batch at every level. It stops above maxValues,
// so that no sum overflows.
func values(rec arrow.RecordBatch) (n int64) {
	for _, col := range rec.Columns() {
		n = countValues(n, col.Data())
	}
	return n
}

func countValues(n int64, d arrow.ArrayData) int64 {
	if n > maxValues {
		return n
	}
	n += int64(d.Len())
	for _, c := range d.Children() {
		n = countValues(n, c)
	}
	return n
}

// fitsEver refuses what no amount of waiting would make room for.
func (c *core) fitsEver(add memtable.Size) error {
	switch {
	case add.Window > maxBatchBytes:
		return fmt.Errorf("the batch spans %d bytes, more than the %d of the largest WAL entry: split it", add.Window, int64(maxBatchBytes))
	case add.Window > c.limits.WindowBytes:
		return fmt.Errorf("the batch spans %d bytes, more than option MaxMemtableBytes, %d: split it, or raise the option", add.Window, c.limits.WindowBytes)
	case add.Rows > int64(c.limits.Rows):
		return fmt.Errorf("the batch has %d rows, more than option MaxMemtableRows, %d: split it, or raise the option", add.Rows, c.limits.Rows)
	case add.Pinned > c.opts.MaxResidentBytes-c.empty:
		return fmt.Errorf("the batch keeps %d bytes in memory, and an empty memtable %d, more than option MaxResidentBytes, %d: split it, or raise the option",
			add.Pinned, c.empty, c.opts.MaxResidentBytes)
	}
	return nil
}

// append gives rec its row ordinals and publishes it to the background tasks,
// waiting for memory first.
func (c *core) append(ctx context.Context, w *Writer, rec arrow.RecordBatch, add memtable.Size) (*Ticket, error) {
	if err := c.lockWithRoom(ctx, add.Pinned); err != nil {
		return nil, err
	}
	active := c.activeLocked()
	if batches, bytes := active.Unlogged(); add.Rows > 0 {
		add.Entries = flusher.EntriesFor(batches+1, bytes+add.Window, c.opts.MaxEntryBytes)
	}
	if active.Full(c.limits, add, time.Now()) {
		active = c.rotateLocked()
	}
	t := &Ticket{w: w, first: active.EndRow()}
	t.end = t.first + uint64(add.Rows)
	if add.Rows > 0 {
		if err := active.Append(rec, add.Window, add.Pinned); err != nil {
			c.unlock() // the policy admits nothing that a memtable refuses
			return nil, fmt.Errorf("%w; nothing was stored", err)
		}
		// In the memtable first: the tasks look only at rows that were accepted,
		// and find them there.
		c.cursors.Accept(t.end)
	}
	t.wait = c.cursors.Register(c.level, t.end)
	c.unlock()

	c.applier.Wake()
	c.flusher.Wake()
	return t, nil
}

// lockWithRoom returns with c.mu held and room for n more bytes, or with an
// error and c.mu free.
func (c *core) lockWithRoom(ctx context.Context, n int64) error {
	var stall *time.Timer
	for {
		c.mu.Lock()
		if err := c.stateLocked(); err != nil {
			c.unlock()
			return err
		}
		resident := c.residentLocked()
		if resident+n <= c.opts.MaxResidentBytes {
			return nil
		}
		if t := c.live(); c.opts.WALOnly && len(t) == 1 && t[0].Rows() > 0 {
			// Rows leave memory once their memtable is frozen and they are durable.
			// With others on their way out, this one is left to grow: small
			// memtables make small entries, each of which costs a put.
			c.rotateLocked()
			c.unlock()
			continue
		}
		freed := c.mu.freed
		c.unlock()

		if stall == nil {
			stall = time.NewTimer(c.opts.StallTimeout)
			defer stall.Stop()
		} else {
			stall.Reset(c.opts.StallTimeout) // something was freed: progress
		}
		select {
		case <-freed:
		case <-ctx.Done():
			return fmt.Errorf("wait for memory: %w; nothing was stored", ctx.Err())
		case <-c.failed:
		case <-stall.C:
			return &BackpressureError{Resident: resident, Max: c.opts.MaxResidentBytes, Waited: c.opts.StallTimeout}
		}
	}
}

// rotateLocked freezes the active memtable, which has rows, starts the next, and
// has the frozen rows appended at once, for which nobody waits. c.mu is held.
func (c *core) rotateLocked() *memtable.Memtable {
	old := c.live()
	active := old[len(old)-1]
	active.Freeze()
	next := c.newTable(active.Generation()+1, active.EndRow())
	defer next.Release() // the view holds it from here on
	c.installLocked(append(old[:len(old):len(old)], next))
	c.flusher.Demand(active.EndRow())
	c.evictDurableLocked()
	return next
}

// Rotate freezes the active memtable and starts the next one, if it has rows.
// The rows of the frozen one are appended to the WAL at once; Rotate does not
// wait for that.
func (w *Writer) Rotate(ctx context.Context) error {
	defer runtime.KeepAlive(w)
	if err := ctx.Err(); err != nil {
		return err
	}
	return w.c.rotate(func(*memtable.Memtable) bool { return true })
}

// rotate rotates if the active memtable has rows and is due.
func (c *core) rotate(due func(*memtable.Memtable) bool) error {
	c.mu.Lock()
	if err := c.stateLocked(); err != nil {
		c.unlock()
		return err
	}
	active := c.activeLocked()
	if active.Rows() == 0 || !due(active) {
		c.unlock()
		return nil
	}
	c.rotateLocked()
	c.unlock()
	return nil
}

// Flush returns once every row accepted before the call is durable, and in the
// indexes, without waiting for the flush interval: a snapshot taken then shows it.
// MaxPUTsPerSecond still holds: under a low one each entry may wait for a minute.
func (w *Writer) Flush(ctx context.Context) error {
	defer runtime.KeepAlive(w)
	c := w.c
	if err := c.state(); err != nil {
		return err
	}
	end := c.cursors.Accepted()
	c.flusher.Demand(end)
	if err := c.cursors.Register(memtable.LevelVisible, end).Wait(ctx); err != nil {
		return fmt.Errorf("flush rows below %d: %w", end, err)
	}
	return nil
}
