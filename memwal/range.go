package memwal

import (
	"bytes"
	"container/heap"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/memwal/memwal-go/index"
	"github.com/memwal/memwal-go/memtable"
)

// Range returns the live rows in a range of an ordered index, in its order; rows
// with equal keys in the order of their ordinals. ScanOptions.Limit counts from the
// end that the range starts at. The caller releases the reader.
func (s *Snapshot) Range(ctx context.Context, name string, r index.Range, o ScanOptions) (array.RecordReader, error) {
	g, o, err := s.gatherer("range", o)
	if err != nil {
		return nil, err
	}
	prog, err := s.r.bindFilter("range", o.Filter)
	if err != nil {
		return nil, err
	}
	return s.read(ctx, "range", g, o, func(views []memtable.View) (iter.Seq[[]run], error) {
		p, r, err := s.planRange(name, r, o, prog, views)
		if err != nil {
			return nil, err
		}
		if p.Access == AccessNothing {
			return inRuns(stretches(slices.Values[[]run](nil)), 1, false), nil
		}
		seqs := make([]keyed, len(views))
		for i, v := range views {
			seq, err := v.RangeKeys(name, r)
			if err != nil {
				return nil, rangeError(err)
			}
			seqs[i] = keyed{ctx: ctx, view: v, seq: seq, from: o.From, hidden: memtable.HiddenBy(ctx, v, views[i+1:])}
		}
		return inRuns(filtered(ctx, prog, stretches(merge(seqs, r.Reverse))), min(o.BatchRows, o.Limit), g.bare()), nil
	})
}

// checkRange asks an empty memtable.
func (r *resident) checkRange(name string, over index.Range) error {
	m := r.newTable(1, 0)
	defer m.Release()
	_, err := m.View(0).RangeKeys(name, over)
	return err
}

func rangeError(err error) error {
	if errors.Is(err, index.ErrInvalid) {
		return &invalidError{err}
	}
	return err
}

// keyed is a range of one memtable, in key order. It ends when ctx does.
type keyed struct {
	ctx    context.Context
	view   memtable.View
	from   uint64 // rows with a lower ordinal are left out
	seq    iter.Seq2[[]byte, uint32]
	hidden *memtable.Hidden
}

// rows yields what no newer memtable supersedes, with the key.
func (k keyed) rows(yield func([]byte, run) bool) {
	first := k.view.Memtable().FirstRow()
	n := 0
	for key, slot := range k.seq {
		if n++; n%1024 == 0 && k.ctx.Err() != nil {
			return
		}
		if first+uint64(slot) < k.from {
			continue
		}
		if k.hidden.Hides(slot) {
			continue
		}
		if !yield(key, runAt(k.view, slot)) {
			return
		}
	}
}

// merge yields the rows of all ranges in key order. A single one needs no merging.
func merge(ranges []keyed, reverse bool) iter.Seq[run] {
	return func(yield func(run) bool) {
		if len(ranges) == 1 {
			for _, r := range ranges[0].rows {
				if !yield(r) {
					return
				}
			}
			return
		}
		h := &heads{reverse: reverse}
		for _, k := range ranges {
			next, stop := iter.Pull2(k.rows)
			defer stop()
			if key, r, ok := next(); ok {
				h.list = append(h.list, head{key, r, next})
			}
		}
		heap.Init(h)
		for len(h.list) > 0 {
			top := &h.list[0]
			if !yield(top.run) {
				return
			}
			var ok bool
			if top.key, top.run, ok = top.next(); ok {
				heap.Fix(h, 0)
			} else {
				heap.Pop(h)
			}
		}
	}
}

// head is the next row of one range.
type head struct {
	key  []byte // valid until next is called
	run  run
	next func() ([]byte, run, bool)
}

// heads is a heap of the next rows, the first in the order of the range on top.
type heads struct {
	list    []head
	reverse bool
}

func (h *heads) Len() int { return len(h.list) }

func (h *heads) Less(i, j int) bool {
	a, b := &h.list[i], &h.list[j]
	d := bytes.Compare(a.key, b.key)
	if d == 0 {
		d = 1
		if a.run.ordinal < b.run.ordinal {
			d = -1
		}
	}
	if h.reverse {
		return d > 0
	}
	return d < 0
}

func (h *heads) Swap(i, j int) { h.list[i], h.list[j] = h.list[j], h.list[i] }

// Push implements heap.Interface; nothing is pushed.
func (h *heads) Push(any) { panic(fmt.Sprintf("%T does not grow", h)) }

// Pop implements heap.Interface.
func (h *heads) Pop() any {
	n := len(h.list) - 1
	x := h.list[n]
	h.list[n] = head{}
	h.list = h.list[:n]
	return x
}
