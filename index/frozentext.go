package index

import (
	"bytes"
	"context"
	"unsafe"
)

// termNumbers are what the dictionary says of a term: how many rows have it, the bytes
// of its list of groups (or, of one group, of its heads), and those of the rest. The base
// of a block is where its first term lies in the section of postings; the others follow.
const termNumbers = 3

// text writes the sections of a text index.
func (z *freezer) text(t *text) error {
	z.out.Section(sectionLengths)
	most := uint32(0)
	for slot := range z.bound {
		if z.has(slot) {
			n := *t.lengths.at(slot)
			most = max(most, n)
			z.head.terms += uint64(n)
		}
	}
	z.head.lengthWidth = widthOf(most)
	z.writeNumbers(func(yield func(uint32) bool) {
		for slot := range z.bound {
			if z.has(slot) && !yield(*t.lengths.at(slot)) {
				return
			}
		}
	}, z.head.lengthWidth)

	z.out.Section(sectionPostings)
	var dictionary bytes.Buffer
	list, err := t.termsFrom("")
	if err != nil {
		return err
	}
	d := blockWriter{to: &dictionary}
	w := termWriter{places: !t.spec.cfg.NoPositions}
	offset := uint64(0)
	for i := 0; ; i++ {
		word, ok := list.word()
		if !ok {
			break
		}
		if i%64 == 0 {
			if err := z.stopped(); err != nil {
				return err
			}
		}
		term, err := list.term()
		if err != nil {
			return err
		}
		if err := z.term(&w, term); err != nil {
			return err
		}
		if w.count > 0 {
			lead, rest := uint64(len(w.groups)+len(w.heads)), uint64(len(w.spots))
			if len(w.groups) > 0 {
				lead, rest = uint64(len(w.groups)), uint64(len(w.heads)+len(w.spots))
			}
			d.add(unsafe.Slice(unsafe.StringData(word), len(word)), offset, w.count, lead, rest)
			z.out.Write(w.groups)
			z.out.Write(w.heads)
			if _, err := z.out.Write(w.spots); err != nil {
				return err
			}
			offset += lead + rest
		}
		if err := list.next(); err != nil {
			return err
		}
	}
	d.flush()
	z.head.entries = d.count
	z.out.Section(sectionEntries)
	z.out.Write(dictionary.Bytes())
	z.out.Section(sectionBlocks)
	_, err = z.out.Write(d.blocks)
	return err
}

// term collects the postings of a term in the rows that the index has.
func (z *freezer) term(w *termWriter, t sourceTerm) error {
	w.reset()
	at := t.postings(w.places)
	for n := 1; at.next() && at.slot < z.bound; n++ {
		if n%checkEvery == 0 && z.ctx.Err() != nil {
			return z.ctx.Err()
		}
		if !z.has(at.slot) {
			continue
		}
		if w.places {
			var err error
			if w.scratch, err = at.places(w.scratch[:0]); err != nil {
				return err
			}
		}
		w.add(at.slot, at.freq(), w.scratch)
	}
	w.end()
	return at.err()
}

// frozenSearch is a frozen text index in one search.
type frozenSearch struct {
	*frozenColumns
	ctx   context.Context
	found entries // the block that the last term was looked for in
	block int     // its number; -1: none
}

func (f *Frozen) search(ctx context.Context) *frozenSearch {
	return &frozenSearch{frozenColumns: f.columns(ctx), ctx: ctx, found: entries{each: termNumbers}, block: -1}
}

// find implements textSource. Queries that ask for many terms ask in their order, so
// the last block is looked at first.
func (s *frozenSearch) find(word []byte) (sourceTerm, error) {
	x, err := s.f.index(s.ctx)
	if err != nil || len(x.refs) == 0 {
		return sourceTerm{}, err
	}
	if b := x.find(word); b != s.block {
		s.block = -1
		if err := s.found.load(s.ctx, s.f, x.refs[b], 0); err != nil {
			return sourceTerm{}, err
		}
		s.block = b
	}
	i, ok := s.found.search(word)
	if !ok {
		return sourceTerm{}, nil
	}
	base := s.found.base
	for j := range i {
		base += s.found.number(j, 1) + s.found.number(j, 2)
	}
	t, err := s.term(&s.found, i, base)
	return sourceTerm{frozen: t}, err
}

// term is an entry of the dictionary; base is where its postings begin.
func (s *frozenSearch) term(e *entries, i int, base uint64) (*frozenTerm, error) {
	section := s.f.file.Section(sectionPostings)
	count, lead, rest := e.number(i, 0), e.number(i, 1), e.number(i, 2)
	size := uint64(section.Length)
	if base > size || lead > size-base || rest > size-base-lead || count == 0 || count > uint64(s.f.head.rows) {
		return nil, s.f.corrupt(section.Offset, "the postings of a term have no place")
	}
	return &frozenTerm{f: s.f, ctx: s.ctx, count: count, offset: section.Offset + int64(base), lead: int64(lead), rest: int64(rest)}, nil
}

// termsFrom implements textSource.
func (s *frozenSearch) termsFrom(text string) (termList, error) {
	x, err := s.f.index(s.ctx)
	if err != nil {
		return nil, err
	}
	l := &frozenTerms{s: s, x: x, e: entries{each: termNumbers}}
	if len(x.refs) == 0 {
		return l, nil
	}
	key := []byte(text)
	l.block = x.find(key)
	if err := l.load(); err != nil {
		return nil, err
	}
	// Behind the last term of the block comes the first one of the next: next goes there,
	// and begins to count anew.
	i, _ := l.e.search(key)
	for range i {
		if err := l.next(); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// frozenTerms is a place in the dictionary.
type frozenTerms struct {
	s     *frozenSearch
	x     *blockIndex
	e     entries
	block int // that e is
	i     int
	base  uint64 // where the postings of entry i begin
}

func (l *frozenTerms) load() error {
	ahead := l.x.refs[min(l.block+32, len(l.x.refs)-1)]
	if err := l.e.load(l.s.ctx, l.s.f, l.x.refs[l.block], ahead.offset+ahead.length); err != nil {
		return err
	}
	l.i, l.base = 0, l.e.base
	return nil
}

func (l *frozenTerms) word() (string, bool) {
	if l.i >= l.e.len() {
		return "", false
	}
	b := l.e.key(l.i)
	return unsafe.String(unsafe.SliceData(b), len(b)), true
}

func (l *frozenTerms) term() (sourceTerm, error) {
	t, err := l.s.term(&l.e, l.i, l.base)
	return sourceTerm{frozen: t}, err
}

func (l *frozenTerms) next() error {
	l.base += l.e.number(l.i, 1) + l.e.number(l.i, 2)
	if l.i++; l.i < l.e.len() || l.block+1 >= len(l.x.refs) {
		return nil
	}
	l.block++
	return l.load()
}

// slotLengths implements textSource.
func (s *frozenSearch) slotLengths() lengthReader { return s.frozenColumns }

// nextSlot implements textSource.
func (s *frozenSearch) nextSlot(slot, bound uint32) (uint32, bool, error) {
	slot, ok, err := s.next(slot)
	return slot, ok && slot < bound, err
}

var _ textSource = (*frozenSearch)(nil)
