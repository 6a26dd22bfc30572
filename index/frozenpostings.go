package index

import (
	"context"
	"encoding/binary"
	"slices"
	"sort"
)

// The postings of a frozen term are written in groups of groupPostings:
//
//	heads   for each posting:
//	          uvarint(slot − that of the posting before it in the group) << 1 | once
//	          uvarint(frequency), unless once
//	places  for each posting, if they are kept: uvarint(place − the one before it), for
//	        each occurrence; see elementPlace
//
// A term of one group has heads and places. A term of more has a list of its groups,
// then the heads of all groups, then the places of all:
//
//	uvarint(first slot − that of the group before it)
//	uvarint(bytes of heads)
//	uvarint(bytes of places), if they are kept
//
// The heads of the first group count from slot 0, those of another from the first slot
// that the list has for it. So a search that needs no places reads none, and one that
// seeks reads no groups but those that it ends in.
const groupPostings = 128

// termWriter collects the postings of one term.
type termWriter struct {
	places bool // they are kept
	count  uint64
	groups []byte
	heads  []byte
	spots  []byte // places

	scratch []uint64 // places of one posting

	// Of the group.
	n                  int
	first, last        uint32
	headStart, atStart int
	before             uint32 // first slot of the group before
}

func (w *termWriter) reset() {
	*w = termWriter{places: w.places, groups: w.groups[:0], heads: w.heads[:0], spots: w.spots[:0], scratch: w.scratch[:0]}
}

// add adds a posting with its places.
func (w *termWriter) add(slot uint32, freq uint64, at []uint64) {
	if w.n == groupPostings {
		w.endGroup()
	}
	if w.n == 0 {
		w.first, w.last = slot, slot
		if w.count == 0 {
			w.last = 0 // there may be no list to say where the first group begins
		}
	}
	head := uint64(slot-w.last) << 1
	if freq == 1 {
		head |= 1
	}
	w.heads = binary.AppendUvarint(w.heads, head)
	if freq != 1 {
		w.heads = binary.AppendUvarint(w.heads, freq)
	}
	last := uint64(0)
	for _, place := range at {
		w.spots = binary.AppendUvarint(w.spots, place-last)
		last = place
	}
	w.last = slot
	w.n++
	w.count++
}

func (w *termWriter) endGroup() {
	w.groups = binary.AppendUvarint(w.groups, uint64(w.first-w.before))
	w.groups = binary.AppendUvarint(w.groups, uint64(len(w.heads)-w.headStart))
	if w.places {
		w.groups = binary.AppendUvarint(w.groups, uint64(len(w.spots)-w.atStart))
	}
	w.before, w.n, w.headStart, w.atStart = w.first, 0, len(w.heads), len(w.spots)
}

// end is called after the last posting.
func (w *termWriter) end() {
	if w.count > groupPostings {
		w.endGroup()
	}
}

// frozenTerm is a term of a frozen index.
type frozenTerm struct {
	f      *Frozen
	ctx    context.Context // of the search
	count  uint64
	offset int64 // in the file
	lead   int64 // bytes of the list of groups, or of the heads of one group
	rest   int64 // bytes behind it
}

// frozenPostings walks the postings of a term. It is for one goroutine.
type frozenPostings struct {
	t      *frozenTerm
	slot   uint32
	err    error
	groups []group

	// The group that it is in.
	at    int // its number; -1: before the first one
	i     int // number of the posting
	slots []uint32
	freqs []uint64

	spots   []byte // places of the postings from spotsAt on
	spotsAt int
	spotsOf int // the group that they are of; -1: none
}

// group is a group of postings. The first heads and places behind the last group are the
// ends of it.
type group struct {
	first         uint32
	heads, places int64 // offsets in the file
}

func (t *frozenTerm) postings() *frozenPostings {
	p := &frozenPostings{t: t, at: -1, i: -1, spotsOf: -1}
	p.groups, p.err = t.groups()
	return p
}

// groups lists the groups, and an empty one behind them.
func (t *frozenTerm) groups() ([]group, error) {
	end := t.offset + t.lead + t.rest
	if t.count <= groupPostings {
		return []group{{0, t.offset, t.offset + t.lead}, {0, t.offset + t.lead, end}}, nil
	}
	b, err := t.f.file.View(t.ctx, t.offset, t.lead, 0)
	if err != nil {
		return nil, err
	}
	n := (t.count + groupPostings - 1) / groupPostings
	if n > uint64(len(b)) {
		return nil, t.corrupt("fewer groups than postings")
	}
	places := t.f.head.positions
	groups := make([]group, 0, n+1)
	d := decoder{b: b}
	g := group{heads: t.offset + t.lead}
	var lengths []int64 // of places
	for range n {
		delta, heads := d.uvarint(), d.uvarint()
		if delta == 0 && len(groups) > 0 || delta > uint64(t.f.head.slots-g.first) || heads > uint64(end-g.heads) {
			return nil, t.corrupt("the list of groups")
		}
		g.first += uint32(delta)
		groups = append(groups, g)
		g.heads += int64(heads)
		if places {
			lengths = append(lengths, int64(d.uvarint()))
		}
	}
	g.places = g.heads // behind the heads
	for i := range groups {
		groups[i].places = g.places
		if places {
			if n := lengths[i]; n < 0 || n > end-g.places {
				return nil, t.corrupt("the list of groups")
			}
			g.places += lengths[i]
		}
	}
	if d.bad || len(d.b) > 0 || g.places != end {
		return nil, t.corrupt("the list of groups")
	}
	return append(groups, group{heads: g.heads, places: g.places}), nil
}

func (t *frozenTerm) corrupt(what string) error { return t.f.corrupt(t.offset, "postings: "+what) }

// next goes to the next posting. False: there is none, or err.
func (p *frozenPostings) next() bool {
	if p.i+1 < len(p.slots) {
		p.i++
		p.slot = p.slots[p.i]
		return true
	}
	return p.enter(p.at + 1)
}

// enter goes to the first posting of a group.
func (p *frozenPostings) enter(number int) bool {
	p.i, p.slots, p.freqs = -1, p.slots[:0], p.freqs[:0]
	if p.err != nil || number+1 >= len(p.groups) {
		p.at = len(p.groups)
		return false
	}
	if p.err = p.load(number); p.err != nil {
		p.slots = p.slots[:0]
		return false
	}
	p.at, p.i, p.slot = number, 0, p.slots[0]
	return true
}

// load decodes the heads of a group.
func (p *frozenPostings) load(number int) error {
	t, g, after := p.t, p.groups[number], p.groups[number+1]
	b, err := t.f.file.View(t.ctx, g.heads, after.heads-g.heads, p.groups[len(p.groups)-1].heads)
	if err != nil {
		return err
	}
	n := int(min(t.count-uint64(number)*groupPostings, groupPostings))
	end := t.f.head.slots // slots are below it
	if number+2 < len(p.groups) {
		end = after.first
	}
	if cap(p.slots) < n {
		p.slots, p.freqs = make([]uint32, 0, n), make([]uint64, 0, n)
	}
	slots, freqs, slot := p.slots[:n], p.freqs[:n], uint64(g.first)
	if number == 0 {
		slot = 0
	}
	for i := range n {
		var head uint64
		if len(b) > 0 && b[0] < 0x80 {
			head, b = uint64(b[0]), b[1:]
		} else {
			v, k := binary.Uvarint(b)
			if k <= 0 {
				return t.corrupt("a group is cut off")
			}
			head, b = v, b[k:]
		}
		freq := uint64(1)
		if head&1 == 0 {
			v, k := binary.Uvarint(b)
			if k <= 0 {
				return t.corrupt("a group is cut off")
			}
			freq, b = v, b[k:]
		}
		if head >>= 1; head == 0 && i > 0 || head >= uint64(end) {
			return t.corrupt("slots are not in order")
		}
		if slot += head; slot >= uint64(end) {
			return t.corrupt("slots are not in order")
		}
		slots[i], freqs[i] = uint32(slot), freq
	}
	if len(b) > 0 || len(p.groups) > 2 && slots[0] != g.first {
		return t.corrupt("a group is not as long as it says, or begins elsewhere")
	}
	p.slots, p.freqs = slots, freqs
	return nil
}

// seek goes to the first posting at or after slot, beyond the one it is at. False: there
// is none, or err.
func (p *frozenPostings) seek(slot uint32) bool {
	if p.err != nil {
		return false
	}
	if to := p.groupOf(slot); to > p.at {
		if !p.enter(to) {
			return false
		}
		if p.slot >= slot {
			return true
		}
	}
	for {
		rest := p.slots[p.i+1:]
		if i, _ := slices.BinarySearch(rest, slot); i < len(rest) {
			p.i += 1 + i
			p.slot = p.slots[p.i]
			return true
		}
		if !p.enter(p.at + 1) {
			return false
		}
		if p.slot >= slot {
			return true
		}
	}
}

// groupOf is the last group, from the one it is in on, that does not begin behind a slot.
func (p *frozenPostings) groupOf(slot uint32) int {
	from, last := max(p.at, 0), len(p.groups)-1 // last is the empty one
	if from >= last {
		return from
	}
	n := sort.Search(last-from-1, func(i int) bool { return p.groups[from+1+i].first > slot })
	return from + n
}

func (p *frozenPostings) freq() uint64 { return p.freqs[p.i] }

// places appends the places of the posting that it is at.
func (p *frozenPostings) places(to []uint64) ([]uint64, error) {
	if p.spotsOf != p.at || p.spotsAt > p.i {
		g, after := p.groups[p.at], p.groups[p.at+1]
		b, err := p.t.f.file.View(p.t.ctx, g.places, after.places-g.places, 0)
		if err != nil {
			return to, err
		}
		p.spots, p.spotsOf, p.spotsAt = b, p.at, 0
	}
	d := decoder{b: p.spots}
	for ; p.spotsAt < p.i; p.spotsAt++ {
		for n := p.freqs[p.spotsAt]; n > 0 && !d.bad; n-- {
			d.uvarint()
		}
	}
	place := uint64(0)
	for n := p.freqs[p.i]; n > 0 && !d.bad; n-- {
		place += d.uvarint()
		to = append(to, place)
	}
	p.spots = d.b
	p.spotsAt++
	if d.bad {
		return to, p.t.corrupt("places are cut off")
	}
	return to, nil
}
