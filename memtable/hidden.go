package memtable

import (
	"context"
	"math"

	"github.com/memwal/memwal-go/index"
)

// Hidden tells which rows of a view newer views supersede: those whose key one of
// them holds, as a row or as a tombstone. Nil hides nothing. It is for one goroutine.
//
// A row can be looked up in the newer views, or the newer rows in the view, which is
// done once for all readers and kept (index.Set.Shadow). Whether the second pays
// depends on how many rows will be asked for, which nobody knows: so rows are looked
// up one by one until that has cost as much as the other way, and then the other way
// is taken. That is at most twice what the better choice costs.
type Hidden struct {
	ctx      context.Context
	view     View
	newer    []index.Part
	oneByOne uint64 // so many rows are still looked up one by one
	resolved bool
	shadow   index.Shadow
}

// HiddenBy returns what the newer views, oldest first, supersede of a view. They are
// all that follow it. It returns nil when they have nothing that could. The context ends
// what is done once for all readers; the answers are right all the same.
func HiddenBy(ctx context.Context, v View, newer []View) *Hidden {
	if !v.m.keyed || len(newer) == 0 {
		return nil
	}
	parts := Parts(newer)
	return &Hidden{ctx: ctx, view: v, newer: parts, oneByOne: v.m.set.Unresolved(parts...) / uint64(len(parts))}
}

// Hides tells whether the row in a slot of the view is superseded.
func (h *Hidden) Hides(slot uint32) bool {
	if h == nil {
		return false
	}
	if !h.resolved && h.oneByOne == 0 {
		h.resolve()
	}
	if h.resolved {
		return h.shadow.Hides(slot)
	}
	h.oneByOne--
	rec, row := h.view.Locate(slot)
	for i := range h.newer {
		p := &h.newer[i]
		if _, ok := p.Set.LookupRow(rec, row, p.Bound); ok {
			return true
		}
	}
	return false
}

func (h *Hidden) resolve() {
	shadow, err := h.view.m.set.Shadow(h.ctx, h.newer...)
	if err != nil {
		h.oneByOne = math.MaxUint64 // the reader is about to end, with its context
		return
	}
	h.shadow, h.resolved = shadow, true
}

// Parts returns what a read of views covers, for package index. It is valid as long as
// they are.
func Parts(views []View) []index.Part {
	parts := make([]index.Part, len(views))
	for i, v := range views {
		parts[i] = index.Part{Set: v.m.set, Bound: v.bound, First: v.m.FirstRow()}
	}
	return parts
}
