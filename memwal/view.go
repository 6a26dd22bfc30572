package memwal

import (
	"sync/atomic"

	"github.com/memwal/memwal-go/memtable"
)

// view is one state of the shard's memory: the frozen memtables, oldest first,
// and the active one at the end. It is immutable. Freeze and eviction install
// the next view; a snapshot keeps the one that it was taken from.
//
// Proof that a reader never touches freed memory:
//   - refs starts at 1, for being installed; the installer drops that once the
//     next view is installed.
//   - acquire only succeeds while refs > 0, and then holds one.
//   - the tables are retained by the view from its making until refs reaches 0.
type view struct {
	tables []*memtable.Memtable
	refs   atomic.Int64
}

// newView retains the tables. The slice is the view's from now on.
func newView(tables []*memtable.Memtable) *view {
	for _, m := range tables {
		m.Retain()
	}
	v := &view{tables: tables}
	v.refs.Store(1)
	return v
}

// acquire takes a reference, unless the view is gone already.
func (v *view) acquire() bool {
	for {
		n := v.refs.Load()
		if n == 0 {
			return false
		}
		if v.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (v *view) release() {
	if v.refs.Add(-1) > 0 {
		return
	}
	for _, m := range v.tables {
		m.Release()
	}
}

// end is the ordinal after the last row that the view holds now. The last
// memtable may still grow.
func (v *view) end() uint64 { return v.tables[len(v.tables)-1].EndRow() }

// live lists the memtables for the background tasks. They are stopped before
// the last view is let go, and look only at rows that are not durable or not
// indexed yet, which no eviction takes.
func (c *core) live() []*memtable.Memtable {
	if v := c.view.Load(); v != nil {
		return v.tables
	}
	return nil
}

// installLocked makes tables the view. c.mu is held; unlock releases the view
// that was replaced.
func (c *core) installLocked(tables []*memtable.Memtable) {
	if old := c.install(tables); old != nil {
		c.mu.replaced = append(c.mu.replaced, old)
	}
}

// unlock lets go of c.mu, and then of the views that were replaced under it:
// freeing a memtable takes time.
func (c *core) unlock() {
	replaced := c.mu.replaced
	rotated := c.mu.rotated
	c.mu.replaced, c.mu.rotated = nil, nil
	c.mu.Unlock()
	c.logRotated(rotated)
	for _, v := range replaced {
		v.release()
	}
}
