package memwal

import (
	"context"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/memwal/memwal-go/memtable"
)

// Snapshot is a consistent view of the rows that were visible when it was taken:
// it gives the same answers for its whole life, whatever the writer does
// meanwhile, even after the writer was closed or has failed. It costs nothing to take,
// and keeps the memory of what it shows: close it.
//
// Its methods are safe for concurrent use.
type Snapshot struct {
	r      *resident
	view   *view
	bound  uint64
	closed atomic.Bool
}

// Snapshot returns a view of the rows that are visible now.
func (w *Writer) Snapshot() (*Snapshot, error) {
	defer runtime.KeepAlive(w)
	return w.c.snapshot(w.c.level)
}

// IndexedSnapshot returns a view of the rows that are indexed now, durable or
// not. It is for the program that writes: to read what it has just written
// without waiting for the log. What it shows may be gone after a crash. PutAsync
// returns before its rows are indexed, some microseconds or milliseconds later:
// Ticket.WaitIndexed waits for that.
func (w *Writer) IndexedSnapshot() (*Snapshot, error) {
	defer runtime.KeepAlive(w)
	return w.c.snapshot(memtable.LevelIndexed)
}

func (c *core) snapshot(level memtable.Level) (*Snapshot, error) {
	if err := c.state(); err != nil {
		return nil, err
	}
	if c.opts.WALOnly {
		return nil, fmt.Errorf("snapshot: %w: the writer was opened with WALOnly, so there is nothing to read", ErrNoMemtable)
	}
	s := c.takeSnapshot(func() uint64 { return c.cursors.At(level) })
	if s == nil {
		return nil, errClosed
	}
	return s, nil
}

// Bound is the number of rows of the shard's history that the snapshot covers:
// it shows nothing of the rows with this ordinal and above.
func (s *Snapshot) Bound() uint64 { return s.bound }

// Schema is the schema of what the snapshot returns.
func (s *Snapshot) Schema() *arrow.Schema { return s.r.user }

// Close lets go of the snapshot's memory, once its readers are released too.
// Rows that it has lent must not be used after it. Calls after the first do
// nothing.
func (s *Snapshot) Close() {
	if s.closed.CompareAndSwap(false, true) {
		s.r.snapshots.Add(-1)
		s.view.release()
	}
}

// acquire pins the memory for one operation.
func (s *Snapshot) acquire(ctx context.Context, op string) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	if s.closed.Load() || !s.view.acquire() {
		return fmt.Errorf("%s: %w: the snapshot was closed", op, ErrClosed)
	}
	return nil
}

// views lists what the snapshot covers of each memtable, oldest first.
func (s *Snapshot) views() []memtable.View {
	views := make([]memtable.View, 0, len(s.view.tables))
	for _, m := range s.view.tables {
		if v := m.View(s.bound); v.Bound() > 0 {
			views = append(views, v)
		}
	}
	return views
}

// ScanOptions say what a scan returns. The zero value means everything.
type ScanOptions struct {
	// Columns to return, in this order. Nil: all. Empty: none, only the number
	// of rows in each batch counts.
	Columns []string
	// Filter leaves out the rows that it is not true for. It sees the newest version of
	// each row, and only that: a row whose newest version does not match is absent,
	// whatever its older ones were. Its columns need not be among Columns. Limit
	// counts the rows that match. Explain says how it is served.
	Filter Filter
	// From leaves out the rows with a lower ordinal: those whose newest version was
	// put before a snapshot with that Bound. Deletes do not show. 0: none.
	From uint64
	// Limit is the number of rows after which the scan ends. 0: no limit.
	Limit int64
	// BatchRows is about how many rows a batch has, and at most. Default 8192.
	BatchRows int64
	// Ordinals adds the column _row_ordinal, uint64, at the end.
	Ordinals bool
}

// Scan returns the live rows in the order of their ordinals: that in which
// their newest versions were put. The caller releases the reader; until then it
// holds the snapshot's memory.
func (s *Snapshot) Scan(ctx context.Context, o ScanOptions) (array.RecordReader, error) {
	g, o, err := s.gatherer("scan", o)
	if err != nil {
		return nil, err
	}
	prog, err := s.r.bindFilter("scan", o.Filter)
	if err != nil {
		return nil, err
	}
	return s.read(ctx, "scan", g, o, func(views []memtable.View) (iter.Seq[[]run], error) {
		return inRuns(s.selected(ctx, o, prog, views), min(o.BatchRows, o.Limit), g.bare()), nil
	})
}

// All is Scan as an iterator. It lends each batch until the next step.
func (s *Snapshot) All(ctx context.Context, o ScanOptions) iter.Seq2[arrow.RecordBatch, error] {
	return func(yield func(arrow.RecordBatch, error) bool) {
		r, err := s.Scan(ctx, o)
		if err != nil {
			yield(nil, err)
			return
		}
		defer r.Release()
		for r.Next() {
			if !yield(r.RecordBatch(), nil) {
				return
			}
		}
		if err := r.Err(); err != nil {
			yield(nil, err)
		}
	}
}

// Count returns the number of live rows.
func (s *Snapshot) Count(ctx context.Context) (int64, error) { return s.CountWhere(ctx, Filter{}) }

// CountWhere returns the number of live rows that match the filter.
func (s *Snapshot) CountWhere(ctx context.Context, f Filter) (int64, error) {
	prog, err := s.r.bindFilter("count", f)
	if err != nil {
		return 0, err
	}
	if err := s.acquire(ctx, "count"); err != nil {
		return 0, err
	}
	defer s.view.release()
	views := s.views()
	if err := s.keyFailed(views); err != nil {
		return 0, fmt.Errorf("count: %w", err)
	}
	var n int64
	for some := range s.selected(ctx, ScanOptions{Filter: f}, prog, views) {
		n += some.count()
	}
	if err := ctx.Err(); err != nil { // the sequences end with it
		return 0, fmt.Errorf("count: %w", err)
	}
	return n, nil
}

// gatherer resolves the options of a read.
func (s *Snapshot) gatherer(op string, o ScanOptions) (*gatherer, ScanOptions, error) {
	if o.Limit < 0 || o.BatchRows < 0 {
		return nil, o, invalid(op, fmt.Errorf("Limit is %d and BatchRows %d, must not be negative", o.Limit, o.BatchRows))
	}
	def(&o.BatchRows, 8192)
	def(&o.Limit, int64(1)<<62)
	user := s.r.user
	g := &gatherer{mem: s.r.mem, ordinals: o.Ordinals}
	var fields []arrow.Field
	if o.Columns == nil {
		fields = slices.Clone(user.Fields())
		for i := range fields {
			g.columns = append(g.columns, i)
		}
	}
	for i, name := range o.Columns {
		at := user.FieldIndices(name)
		if len(at) == 0 {
			return nil, o, invalid(op, fmt.Errorf("column %q is not in the schema", name))
		}
		if slices.Contains(o.Columns[:i], name) {
			return nil, o, invalid(op, fmt.Errorf("column %q is named twice", name))
		}
		// The storage schema has the user's columns in the user's order.
		g.columns = append(g.columns, at[0])
		fields = append(fields, user.Field(at[0]))
	}
	if o.Ordinals {
		fields = append(fields, arrow.Field{Name: ordinalColumn, Type: arrow.PrimitiveTypes.Uint64})
	}
	meta := user.Metadata()
	g.schema = arrow.NewSchema(fields, &meta)
	return g, o, nil
}
