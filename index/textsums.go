package index

import (
	"math"
	"slices"
	"sort"
)

// sum is what the slots of a memtable below a bound add to the live rows of all
// memtables up to it, and to the terms in these: each row adds itself and takes away
// the one that it superseded, be it in the same memtable or in an older one. So the
// sums of all memtables, each at its bound, make the statistics of the live rows.
type sum struct {
	bound uint32
	rows  int64
	terms int64
}

// sums are the sums that searches have made, so that the next one begins where the
// last one ended. Immutable; the points after its length may be in use by a newer one.
type sums struct {
	oldest uint64 // first ordinal of the oldest memtable that was there
	points []sum  // one every sumRows slots
	tip    sum    // at the highest bound so far
}

const sumRows = 4096

// sum is the sum of part i of parts.
func (t *text) sum(parts []textPart, i int) sum {
	bound, oldest := parts[i].Bound, parts[0].First
	noted := t.sums.Load()
	s := noted
	if s == nil || s.oldest != oldest {
		s = &sums{oldest: oldest}
	}
	at := s.tip
	if bound < at.bound {
		at = sum{}
		if n := sort.Search(len(s.points), func(i int) bool { return s.points[i].bound > bound }); n > 0 {
			at = s.points[n-1]
		}
		for at.bound < bound {
			t.step(parts, i, &at)
		}
		return at
	}
	if bound == at.bound {
		return at
	}
	next := &sums{oldest: oldest, points: slices.Clip(s.points)}
	for at.bound < bound {
		t.step(parts, i, &at)
		if at.bound%sumRows == 0 {
			next.points = append(next.points, at)
		}
	}
	next.tip = at
	// Where several searches go the same way, one leaves its notes.
	t.sums.CompareAndSwap(noted, next)
	return at
}

// step adds slot at.bound.
func (t *text) step(parts []textPart, i int, at *sum) {
	slot, v := at.bound, t.set.versions
	at.bound++
	if v == nil {
		at.add(1, t, slot)
		return
	}
	if !v.buried(slot) {
		at.add(1, t, slot)
	}
	if old, ok := v.older(slot); ok {
		if !v.buried(old) {
			at.add(-1, t, old)
		}
		return
	}
	if i == 0 {
		return
	}
	rec, row := t.set.rows.Locate(slot)
	for j := i - 1; j >= 0; j-- {
		p := &parts[j]
		if old, ok := p.Set.LookupRow(rec, row, p.Bound); ok {
			if !p.Set.versions.buried(old) {
				at.add(-1, p.text, old)
			}
			return
		}
	}
}

func (s *sum) add(sign int64, t *text, slot uint32) {
	s.rows += sign
	s.terms += sign * int64(t.lengths.at(slot))
}

// statistics are those of the live rows of all parts.
func statistics(parts []textPart) (rows, terms uint64) {
	var all sum
	for i := range parts {
		s := parts[i].text.sum(parts, i)
		all.rows += s.rows
		all.terms += s.terms
	}
	if all.rows < 0 || all.terms < 0 || all.rows > math.MaxInt64/2 {
		panic("index: a text index counts fewer rows than none")
	}
	return uint64(all.rows), uint64(all.terms)
}
