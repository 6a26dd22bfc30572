package index

import (
	"context"
	"math"
	"slices"
	"sync/atomic"
	"unsafe"
)

// sum is a number of rows, and of the terms in them.
type sum struct {
	rows  int64
	terms int64
}

func (s *sum) add(sign int64, t *text, slot uint32) {
	s.rows += sign
	s.terms += sign * int64(*t.lengths.at(slot))
}

// prefixSums are sums over the first elements of a sequence that only grows. Searches
// leave them, so that the next one begins where the last one ended.
type prefixSums struct{ noted atomic.Pointer[notedSums] }

// notedSums is immutable.
type notedSums struct {
	points []sum // of every pointStep elements
	tip    sum   // of the first n, the most so far
	n      uint32
}

const pointStep = 4096

// first is the sum of the first n elements. step adds one. When the context ends, what
// was added up stays noted.
func (p *prefixSums) first(ctx context.Context, n uint32, step func(at *sum, element uint32)) (sum, error) {
	noted := p.noted.Load()
	s := noted
	if s == nil {
		s = new(notedSums)
	}
	at, i := s.tip, s.n
	if n < i {
		at, i = sum{}, n-n%pointStep
		if k := i / pointStep; k > 0 {
			at = s.points[k-1]
		}
		for ; i < n; i++ {
			step(&at, i)
		}
		return at, nil
	}
	if n == i {
		return at, nil
	}
	next := &notedSums{points: slices.Clip(s.points)}
	var err error
	for i < n && err == nil {
		step(&at, i)
		if i++; i%pointStep == 0 {
			next.points = append(next.points, at)
			err = ctx.Err()
		}
	}
	next.tip, next.n = at, i
	// Where several searches go the same way, one leaves its notes.
	p.noted.CompareAndSwap(noted, next)
	return at, err
}

func (p *prefixSums) bytes() int64 {
	s := p.noted.Load()
	if s == nil {
		return 0
	}
	return int64(unsafe.Sizeof(*s)) + int64(cap(s.points))*int64(unsafe.Sizeof(sum{}))
}

// live is the sum of the slots that are live at a bound, and not hidden: each slot adds
// itself and takes away the one that it superseded.
func (t *text) live(ctx context.Context, bound uint32, hidden Shadow) (sum, error) {
	v := t.set.versions
	all, err := t.written.first(ctx, bound, func(at *sum, slot uint32) {
		if v == nil {
			at.add(1, t, slot)
			return
		}
		if !v.buried(slot) {
			at.add(1, t, slot)
		}
		if old, ok := v.older(slot); ok && !v.buried(old) {
			at.add(-1, t, old)
		}
	})
	if err != nil {
		return sum{}, err
	}
	// Newer rows are seen with all of the set's rows only.
	gone, err := t.hidden.first(ctx, hidden.n, func(at *sum, entry uint32) { at.add(1, t, hidden.of.log.at(entry).slot) })
	return sum{rows: all.rows - gone.rows, terms: all.terms - gone.terms}, err
}

// statistics are those of the live rows of all parts.
func statistics(ctx context.Context, parts []textPart) (rows, terms uint64, err error) {
	var all sum
	for i := range parts {
		if f := parts[i].Frozen; f != nil {
			all.rows += int64(f.Index.head.rows) - int64(f.HiddenRows)
			all.terms += int64(f.Index.head.terms) - int64(f.HiddenTerms)
			continue
		}
		s, err := parts[i].text.live(ctx, parts[i].Bound, parts[i].hidden)
		if err != nil {
			return 0, 0, err
		}
		all.rows += s.rows
		all.terms += s.terms
	}
	if all.rows < 0 || all.terms < 0 || all.rows > math.MaxInt64/2 {
		panic("index: a text index counts fewer rows than none")
	}
	return uint64(all.rows), uint64(all.terms), nil
}
