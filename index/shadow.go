package index

import (
	"context"
	"sort"
	"sync"
	"sync/atomic"
	"unsafe"
)

// Part is what a read covers of one memtable, or of one that was frozen.
type Part struct {
	Set   *Set
	Bound uint32 // exclusive; ≤ Set.Applied()
	First uint64 // ordinal of slot 0

	// Frozen is what stands for a Set in a text search, in which Set and Bound are not
	// looked at then. All frozen parts are older than all Sets.
	Frozen *FrozenPart
}

// end is the ordinal behind the part's last row.
func (p *Part) end() uint64 { return p.First + uint64(p.Bound) }

// shadow is what newer sets supersede of a set's rows. No writer tells it: whoever
// asks looks up the keys of newer rows, each once for all who ask later, and notes
// which rows they hide, in the order of the hiding rows.
//
//   - who writes: who holds mu;
//   - who reads: anybody, without locks;
//   - what is published when: an entry of the log, before count; the mark that names
//     it, before until passes the row that hides.
type shadow struct {
	mu    sync.Mutex
	until atomic.Uint64 // newer rows below this ordinal were looked up
	count atomic.Uint32 // of log
	log   chunked[hiding]
	marks atomic.Pointer[[]atomic.Pointer[markChunk]]
	heap  atomic.Int64 // of marks
}

// hiding is a row of the set that a newer one hides.
type hiding struct {
	by   uint64 // ordinal of the newer row
	slot uint32
}

// markChunk has, for each slot, the number of its entry in the log plus one; 0: none.
type markChunk [chunkRows]uint32

// bytes is the heap that it holds.
func (s *shadow) bytes() int64 { return s.heap.Load() + s.log.bytes.Load() }

// Shadow tells which rows of a set are hidden, as of one bound.
type Shadow struct {
	of *shadow
	n  uint32 // the first entries of its log count
}

// Hides tells whether a newer row, be it a tombstone, supersedes the row in a slot.
// Tombstones, which are live nowhere, and rows that the set itself supersedes, may
// count as hidden or not.
func (h Shadow) Hides(slot uint32) bool {
	if h.n == 0 {
		return false
	}
	c := (*h.of.marks.Load())[slot>>chunkBits].Load()
	if c == nil {
		return false
	}
	mark := atomic.LoadUint32(&c[slot%chunkRows])
	return mark != 0 && mark <= h.n
}

// Shadow returns what newer parts, oldest first, hide of the set's rows. They are all
// that follow the set, without a gap, and all rows of the set are applied. The keys of
// rows that nobody asked about before are looked up, a fraction of a microsecond each: see
// Unresolved. The error is that of the context; what was looked up until then is kept.
func (s *Set) Shadow(ctx context.Context, newer ...Part) (Shadow, error) {
	if s.versions == nil || len(newer) == 0 {
		return Shadow{}, nil
	}
	for s.Unresolved(newer...) > 0 {
		if err := ctx.Err(); err != nil {
			return Shadow{}, err
		}
		s.resolve(newer)
	}
	end := newer[len(newer)-1].end()
	n := sort.Search(int(s.shadow.count.Load()), func(i int) bool { return s.shadow.log.at(uint32(i)).by >= end })
	return Shadow{of: &s.shadow, n: uint32(n)}, nil
}

// Unresolved is the number of newer rows that Shadow has to look up.
func (s *Set) Unresolved(newer ...Part) uint64 {
	if s.versions == nil || len(newer) == 0 {
		return 0
	}
	from, end := max(s.shadow.until.Load(), newer[0].First), newer[len(newer)-1].end()
	return end - min(from, end)
}

// resolve looks up the next newer rows, a chunk at most: others may go on in between, with
// the same rows.
func (s *Set) resolve(newer []Part) {
	s.shadow.mu.Lock()
	defer s.shadow.mu.Unlock()
	until := s.shadow.until.Load()
	for i := range newer {
		p := &newer[i]
		if p.end() <= until {
			continue
		}
		slot := uint32(max(until, p.First) - p.First)
		end := slot + min(p.Bound-slot, chunkRows-slot%chunkRows)
		for ; slot < end; slot++ {
			s.hide(p, slot)
		}
		s.shadow.until.Store(p.First + uint64(end))
		return
	}
}

// hide notes what one newer row hides. shadow.mu is held.
func (s *Set) hide(p *Part, slot uint32) {
	if _, ok := p.Set.versions.older(slot); ok {
		return // an older version of the key in the same part did
	}
	rec, row := p.Set.rows.Locate(slot)
	old, ok := s.primary.findRow(rec, row, s.Applied())
	if !ok || s.versions.buried(old) {
		return
	}
	mark := s.mark(old)
	if *mark != 0 {
		return // a part between the two did
	}
	n := s.shadow.count.Load()
	s.shadow.log.grow(uint64(n) + 1)
	*s.shadow.log.at(n) = hiding{by: p.First + uint64(slot), slot: old}
	s.shadow.count.Store(n + 1)
	atomic.StoreUint32(mark, n+1)
}

// mark is the mark of a slot. shadow.mu is held.
func (s *Set) mark(slot uint32) *uint32 {
	h := &s.shadow
	dir := h.marks.Load()
	if dir == nil {
		d := make([]atomic.Pointer[markChunk], s.Applied()>>chunkBits+1)
		dir = &d
		h.marks.Store(dir)
		h.heap.Add(int64(len(d)) * 8)
	}
	p := &(*dir)[slot>>chunkBits]
	c := p.Load()
	if c == nil {
		c = new(markChunk)
		p.Store(c)
		h.heap.Add(int64(unsafe.Sizeof(*c)))
	}
	return &c[slot%chunkRows]
}
