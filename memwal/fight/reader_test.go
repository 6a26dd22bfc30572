//go:build unix

package fight

import (
	"errors"
	"time"

	"github.com/memwal/memwal-go/memwal"
	"github.com/memwal/memwal-go/objstore"
)

// read looks at the shard until the parent has had enough.
func (c *child) read() {
	for !c.finishing() {
		r := c.openReader()
		if r == nil {
			c.pause(c.rand, 20*time.Millisecond)
			continue
		}
		c.follow(r)
		r.Close()
	}
}

// openReader opens a reader and reports what it shows.
func (c *child) openReader() *memwal.Reader {
	since := c.clock.now()
	r, err := memwal.OpenReader(c.ctx, c.store, c.Shard, &memwal.ReaderOptions{Retry: c.retry()})
	if err != nil {
		if !errors.Is(err, objstore.ErrNotExist) && !explained(err) { // there may be no shard yet
			c.violate("reader", "open: %v", err)
		}
		return nil
	}
	c.showReader(r, since)
	return r
}

func (c *child) showReader(r *memwal.Reader, since moment) {
	s, err := r.Snapshot()
	if err != nil {
		c.violate("reader", "snapshot: %v", err)
		return
	}
	defer s.Close()
	c.show(0, s, since)
}

// follow refreshes for a while. A snapshot of the beginning is looked at again in
// the end.
func (c *child) follow(r *memwal.Reader) {
	first, err := r.Snapshot()
	if err != nil {
		c.violate("reader", "snapshot: %v", err)
		return
	}
	defer first.Close()
	for range 10 + c.rand.IntN(40) {
		c.pause(c.rand, 100*time.Millisecond)
		if c.finishing() {
			break
		}
		since := c.clock.now()
		if err := r.Refresh(c.ctx); err != nil {
			if !explained(err) {
				c.violate("reader", "refresh: %v", err)
			}
			continue
		}
		c.showReader(r, since)
	}
	c.show(0, first, 0)
}
