package pagefile

import (
	"bytes"
	"container/list"
	"context"
	"sync"
	"sync/atomic"
)

// readPages is how many pages a request reads at most: a mebibyte, which takes an object
// store about as long as a single page.
const readPages = 16

// cache keeps the pages that were used last. Pages that somebody still looks at when
// they leave the cache live on with him.
type cache struct {
	bytes atomic.Int64
	most  int64

	mu    sync.Mutex // for moments: reads are made without it
	pages map[int64]*list.Element
	used  list.List // of *cached; the last used first
}

type cached struct {
	page int64
	b    []byte
}

func newCache(most int64) *cache {
	return &cache{most: max(most, PageBytes), pages: make(map[int64]*list.Element)}
}

func (c *cache) get(page int64) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.pages[page]
	if e == nil {
		return nil
	}
	c.used.MoveToFront(e)
	return e.Value.(*cached).b
}

// missing is the last page of those from page to last that are not there, without a gap.
func (c *cache) missing(page, last int64) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	for p := page + 1; p <= last; p++ {
		if c.pages[p] != nil {
			return p - 1
		}
	}
	return last
}

func (c *cache) put(page int64, b []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pages[page] != nil {
		return
	}
	c.pages[page] = c.used.PushFront(&cached{page: page, b: b})
	n := c.bytes.Add(int64(len(b)))
	for n > c.most && c.used.Len() > 1 {
		e := c.used.Back()
		old := c.used.Remove(e).(*cached)
		delete(c.pages, old.page)
		n = c.bytes.Add(-int64(len(old.b)))
	}
}

// page returns a page, and reads it, with those behind it that are not there up to last,
// if it has to. Two who ask for the same page at the same moment may both read it.
func (f *File) page(ctx context.Context, page, last int64) ([]byte, error) {
	if b := f.cache.get(page); b != nil {
		return b, nil
	}
	// What is read ahead must not push out itself.
	last = min(last, page+min(readPages, max(1, f.cache.most/PageBytes/2))-1)
	last = f.cache.missing(page, last)
	start := page * PageBytes
	b, err := f.read(ctx, start, min((last+1)*PageBytes, f.body)-start)
	if err != nil {
		return nil, err
	}
	var first []byte
	for p := last; p >= page; p-- { // so that the one asked for is the last used
		at := (p - page) * PageBytes
		one := b[at:min(at+PageBytes, int64(len(b)))]
		if err := f.verify(p, one); err != nil {
			if p > page {
				continue // nobody asked for it yet
			}
			return nil, err
		}
		if last > page {
			one = bytes.Clone(one) // so that one page does not keep all in memory
		}
		f.cache.put(p, one)
		first = one
	}
	return first, nil
}
