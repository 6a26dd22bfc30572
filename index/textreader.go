package index

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"

	blevindex "github.com/blevesearch/bleve_index_api"
)

// textReader gives bleve's queries and collector the live rows of several memtables
// as one index. A document is a live row, with or without text; its number is the
// row's ordinal, so hits with equal scores come in the order of ordinals.
//
// It is for one search, by one goroutine.
type textReader struct {
	ctx   context.Context // of the search
	spec  *textSpec
	parts []textPart
	rows  uint64 // live
	terms uint64 // in these
	err   error  // of the first read that failed: there may be hits that were not seen
	steps uint32 // of its loops, for expired
}

// textPart is a Part with the index that is searched.
type textPart struct {
	Part
	hidden Shadow // by newer parts
	text   *text  // nil: frozen
	source textSource
}

var (
	_ blevindex.BM25Reader       = (*textReader)(nil)
	_ blevindex.IndexReaderFuzzy = (*textReader)(nil)
)

func newTextReader(ctx context.Context, spec *textSpec, parts []textPart) (*textReader, error) {
	r := &textReader{ctx: ctx, spec: spec, parts: parts}
	var err error
	r.rows, r.terms, err = statistics(ctx, parts)
	return r, err
}

// expired counts a step of a loop over rows, and tells whether the context ended: then
// err says so. It looks every checkEvery steps.
func (r *textReader) expired() bool {
	r.steps++
	return r.steps%checkEvery == 0 && r.ended() != nil
}

// ended is the error of the context, if it ended, and notes it.
func (r *textReader) ended() error {
	if err := r.ctx.Err(); err != nil {
		return r.fail(err)
	}
	return nil
}

// fail notes a read that failed: bleve is not relied on to pass each error on.
func (r *textReader) fail(err error) error {
	if r.err == nil {
		r.err = err
	}
	return err
}

// live tells whether a slot is a document.
func (p *textPart) live(slot uint32) bool {
	if p.Frozen != nil {
		return p.Frozen.Hidden == nil || !p.Frozen.Hidden(slot)
	}
	return p.Set.Live(slot, p.Bound) && !p.hidden.Hides(slot)
}

// hides tells whether rows that the source has may be no documents.
func (p *textPart) hides() bool { return p.Frozen == nil || p.Frozen.Hidden != nil }

// has tells whether a document has the term that a list is at.
func (r *textReader) has(p *textPart, l termList) (bool, error) {
	t, err := l.term()
	if err != nil {
		return false, err
	}
	if n, ok := t.rows(); ok && !p.hides() {
		return n > 0, nil
	}
	at := t.postings(!r.spec.cfg.NoPositions)
	for at.next() && at.slot < p.Bound {
		if p.live(at.slot) {
			return true, nil
		}
		if r.expired() {
			return false, r.err
		}
	}
	return false, at.err()
}

// field refuses what is asked of another column than that of the index.
func (r *textReader) field(name string) error {
	if err := r.spec.field(name); err != nil {
		return &QueryError{Index: r.spec.cfg.Name, Err: err}
	}
	return nil
}

func (r *textReader) unsupported(what string) error {
	return &QueryError{Index: r.spec.cfg.Name, Err: fmt.Errorf("%s cannot be asked of it", what)}
}

// DocCount implements blevindex.IndexReader.
func (r *textReader) DocCount() (uint64, error) { return r.rows, nil }

// FieldCardinality implements blevindex.BM25Reader: the number of terms in all
// documents, each counted as often as it occurs. With the distinct ones that bleve
// counts in its own indexes, scores depend on how rows were cut into segments.
func (r *textReader) FieldCardinality(field string) (int, error) {
	if err := r.field(field); err != nil {
		return 0, err
	}
	return int(min(r.terms, math.MaxInt)), nil
}

// Fields implements blevindex.IndexReader.
func (r *textReader) Fields() ([]string, error) { return []string{r.spec.cfg.Column.Name}, nil }

// Document implements blevindex.IndexReader: documents are Arrow rows.
func (r *textReader) Document(string) (blevindex.Document, error) {
	return nil, r.unsupported("a document")
}

// DocIDReaderOnly implements blevindex.IndexReader.
func (r *textReader) DocIDReaderOnly([]string) (blevindex.DocIDReader, error) {
	return nil, r.unsupported("a document id")
}

// GetInternal implements blevindex.IndexReader.
func (r *textReader) GetInternal([]byte) ([]byte, error) { return nil, nil }

// ExternalID implements blevindex.IndexReader: the ordinal in decimal.
func (r *textReader) ExternalID(id blevindex.IndexInternalID) (string, error) {
	return strconv.FormatUint(id.Value(), 10), nil
}

// InternalID implements blevindex.IndexReader.
func (r *textReader) InternalID(id string) (blevindex.IndexInternalID, error) {
	n, err := strconv.ParseUint(id, 10, 64)
	if err != nil {
		return nil, err
	}
	return blevindex.NewIndexInternalID(nil, n), nil
}

// Close implements blevindex.IndexReader.
func (r *textReader) Close() error { return nil }

// DocValueReader implements blevindex.IndexReader. The collector takes one for every
// search; there are no doc values in it.
func (r *textReader) DocValueReader([]string) (blevindex.DocValueReader, error) {
	return noDocValues{}, nil
}

type noDocValues struct{}

func (noDocValues) VisitDocValues(blevindex.IndexInternalID, blevindex.DocValueVisitor) error {
	return nil
}

func (noDocValues) BytesRead() uint64 { return 0 }

// DocIDReaderAll implements blevindex.IndexReader.
func (r *textReader) DocIDReaderAll() (blevindex.DocIDReader, error) {
	return &documents{r: r}, nil
}

// documents lists all live rows.
type documents struct {
	r    *textReader
	next uint64 // ordinals below it are done
	id   blevindex.IndexInternalID
}

// Next implements blevindex.DocIDReader.
func (d *documents) Next() (blevindex.IndexInternalID, error) {
	for i := range d.r.parts {
		p := &d.r.parts[i]
		if d.next >= p.end() {
			continue
		}
		for slot := uint32(max(d.next, p.First) - p.First); ; slot++ {
			next, ok, err := p.source.nextSlot(slot, p.Bound)
			if err != nil {
				return nil, d.r.fail(err)
			}
			if !ok {
				break
			}
			if d.r.expired() {
				return nil, d.r.err
			}
			if slot = next; p.live(slot) {
				at := p.First + uint64(slot)
				d.next = at + 1
				d.id = blevindex.NewIndexInternalID(d.id, at)
				return d.id, nil
			}
		}
	}
	d.next = math.MaxUint64
	return nil, nil
}

// Advance implements blevindex.DocIDReader.
func (d *documents) Advance(id blevindex.IndexInternalID) (blevindex.IndexInternalID, error) {
	d.next = id.Value()
	return d.Next()
}

// Size implements blevindex.DocIDReader.
func (d *documents) Size() int { return 0 }

// Close implements blevindex.DocIDReader.
func (d *documents) Close() error { return nil }

// TermFieldReader implements blevindex.IndexReader.
func (r *textReader) TermFieldReader(_ context.Context, word []byte, field string, _, _, places bool) (blevindex.TermFieldReader, error) {
	if err := r.field(field); err != nil {
		return nil, err
	}
	if places && r.spec.cfg.NoPositions {
		return nil, &QueryError{Index: r.spec.cfg.Name, Err: errNoPositions}
	}
	w := &termReader{r: r, places: places, found: make([]sourceTerm, len(r.parts))}
	for i := range r.parts {
		t, err := r.parts[i].source.find(word)
		if err != nil {
			return nil, r.fail(err)
		}
		w.found[i] = t
	}
	// How many there are is part of every score, so each is looked at, but where a part
	// has all live and says how many.
	for w.part < len(w.found) {
		if n, ok := w.found[w.part].rows(); ok && !w.r.parts[w.part].hides() {
			w.count += n
			w.leave()
			continue
		}
		for part := w.part; ; w.count++ {
			ok, err := w.step(part)
			if err != nil {
				return nil, err
			}
			if !ok {
				break
			}
		}
	}
	w.restart()
	return w, nil
}

// termReader lists the live rows with a term.
type termReader struct {
	r      *textReader
	found  []sourceTerm // in each part
	places bool
	count  uint64

	part    int // that at is in
	in      bool
	at      cursor
	lengths lengthReader // of the part
	last    uint64       // ordinal of the last one
	any     bool         // there was one

	scratch []uint64
}

func (w *termReader) restart() { w.part, w.in, w.any = 0, false, false }

// step goes to the next live posting, up to the end of a part.
func (w *termReader) step(last int) (bool, error) {
	for ; w.part <= last; w.leave() {
		if !w.enter() {
			continue
		}
		for w.at.next() && w.at.slot < w.r.parts[w.part].Bound {
			if w.r.expired() {
				return false, w.r.err
			}
			if w.r.parts[w.part].live(w.at.slot) {
				return true, nil
			}
		}
		if err := w.at.err(); err != nil {
			return false, w.r.fail(err)
		}
	}
	return false, nil
}

// enter begins with the postings of the part, if that was not done yet.
func (w *termReader) enter() bool {
	if !w.in && w.found[w.part].found() {
		w.at, w.in = w.found[w.part].postings(!w.r.spec.cfg.NoPositions), true
		w.lengths = w.r.parts[w.part].source.slotLengths()
	}
	return w.in
}

func (w *termReader) leave() { w.part, w.in = w.part+1, false }

// Next implements blevindex.TermFieldReader.
func (w *termReader) Next(doc *blevindex.TermFieldDoc) (*blevindex.TermFieldDoc, error) {
	if ok, err := w.step(len(w.found) - 1); !ok {
		return nil, err
	}
	return w.fill(doc)
}

// Advance implements blevindex.TermFieldReader.
func (w *termReader) Advance(id blevindex.IndexInternalID, doc *blevindex.TermFieldDoc) (*blevindex.TermFieldDoc, error) {
	if w.r.expired() {
		return nil, w.r.err
	}
	to := id.Value()
	if w.any && to <= w.last {
		w.restart()
	}
	for w.part < len(w.found) && w.r.parts[w.part].end() <= to {
		w.leave()
	}
	if w.part < len(w.found) && to > w.r.parts[w.part].First && w.enter() {
		p := &w.r.parts[w.part]
		switch ok := w.at.seek(uint32(to - p.First)); {
		case !ok && w.at.err() != nil:
			return nil, w.r.fail(w.at.err())
		case !ok || w.at.slot >= p.Bound:
			w.leave()
		case p.live(w.at.slot):
			return w.fill(doc)
		}
	}
	return w.Next(doc)
}

// fill makes the document of the posting that it is at.
func (w *termReader) fill(doc *blevindex.TermFieldDoc) (*blevindex.TermFieldDoc, error) {
	if doc == nil {
		doc = new(blevindex.TermFieldDoc)
	}
	p := &w.r.parts[w.part]
	length, err := w.lengths.at(w.at.slot)
	if err != nil {
		return nil, w.r.fail(err)
	}
	w.last, w.any = p.First+uint64(w.at.slot), true
	doc.ID = blevindex.NewIndexInternalID(doc.ID, w.last)
	doc.Freq = w.at.freq()
	doc.Norm = 1 / math.Sqrt(float64(length))
	if w.places {
		if err := w.vectors(doc); err != nil {
			return nil, w.r.fail(err)
		}
	}
	return doc, nil
}

func (w *termReader) vectors(doc *blevindex.TermFieldDoc) (err error) {
	if w.scratch, err = w.at.places(w.scratch[:0]); err != nil {
		return err
	}
	vectors := make([]blevindex.TermFieldVector, len(w.scratch))
	doc.Vectors = doc.Vectors[:0]
	for i, place := range w.scratch {
		v := &vectors[i]
		v.Field = w.r.spec.cfg.Column.Name
		v.Pos = place % elementPlace
		if e := place / elementPlace; e > 0 {
			v.ArrayPositions = []uint64{e}
		}
		doc.Vectors = append(doc.Vectors, v)
	}
	return nil
}

// Count implements blevindex.TermFieldReader.
func (w *termReader) Count() uint64 { return w.count }

// Size implements blevindex.TermFieldReader.
func (w *termReader) Size() int { return 0 }

// Close implements blevindex.TermFieldReader.
func (w *termReader) Close() error { return nil }

// FieldDict implements blevindex.IndexReader.
func (r *textReader) FieldDict(field string) (blevindex.FieldDict, error) {
	return r.dict(field, "", func(string) (uint8, bool, bool) { return 0, true, true })
}

// FieldDictRange implements blevindex.IndexReader.
func (r *textReader) FieldDictRange(field string, from, to []byte) (blevindex.FieldDict, error) {
	last := string(to)
	return r.dict(field, string(from), func(s string) (uint8, bool, bool) {
		in := to == nil || s <= last
		return 0, in, in
	})
}

// FieldDictPrefix implements blevindex.IndexReader.
func (r *textReader) FieldDictPrefix(field string, prefix []byte) (blevindex.FieldDict, error) {
	p := string(prefix)
	return r.dict(field, p, func(s string) (uint8, bool, bool) {
		in := strings.HasPrefix(s, p)
		return 0, in, in
	})
}

// FieldDictFuzzy implements blevindex.IndexReaderFuzzy.
func (r *textReader) FieldDictFuzzy(field, word string, fuzziness int, prefix string) (blevindex.FieldDict, error) {
	d, _, err := r.FieldDictFuzzyAutomaton(field, word, fuzziness, prefix)
	return d, err
}

// FieldDictFuzzyAutomaton implements blevindex.IndexReaderFuzzy.
func (r *textReader) FieldDictFuzzyAutomaton(field, word string, fuzziness int, prefix string) (blevindex.FieldDict, blevindex.FuzzyAutomaton, error) {
	a := newFuzzy(word, fuzziness)
	d, err := r.dict(field, prefix, func(s string) (uint8, bool, bool) {
		if !strings.HasPrefix(s, prefix) {
			return 0, false, false
		}
		ok, distance := a.MatchAndDistance(s)
		return distance, ok, true
	})
	return d, a, err
}

// dict lists the terms from a text on, as far as they match.
func (r *textReader) dict(field, from string, match func(string) (distance uint8, in, more bool)) (*dictionary, error) {
	if err := cmp.Or(r.field(field), r.ended()); err != nil {
		return nil, err
	}
	d := &dictionary{r: r, match: match, lists: make([]termList, len(r.parts))}
	for i := range r.parts {
		l, err := r.parts[i].source.termsFrom(from)
		if err != nil {
			return nil, r.fail(err)
		}
		d.lists[i] = l
	}
	return d, nil
}

// dictionary merges the terms of all parts, in their order: those that a live row
// has, for others would weigh in scores.
type dictionary struct {
	r     *textReader
	match func(string) (distance uint8, in, more bool)
	lists []termList // of each part
	at    []int      // the parts that have the lowest word
	steps int
}

// dictEvery is after how many terms of a dictionary the context is looked at: to try one
// with an automaton takes longer than a step over rows.
const dictEvery = 256

// Next implements blevindex.FieldDict.
func (d *dictionary) Next() (*blevindex.DictEntry, error) {
	for {
		if d.steps++; d.steps%dictEvery == 0 {
			if err := d.r.ended(); err != nil {
				return nil, err
			}
		}
		word, ok := d.lowest()
		if !ok {
			return nil, nil
		}
		distance, in, more := d.match(word)
		if !more {
			d.lists = nil
			return nil, nil
		}
		if in {
			word = strings.Clone(word) // the lists move on
		}
		live, err := d.pass(in)
		if err != nil {
			return nil, d.r.fail(err)
		}
		if live {
			return &blevindex.DictEntry{Term: word, Count: 1, EditDistance: distance}, nil
		}
	}
}

// lowest is the lowest word that is left, and notes which parts have it. It is valid
// until pass.
func (d *dictionary) lowest() (word string, ok bool) {
	d.at = d.at[:0]
	for i, l := range d.lists {
		s, any := l.word()
		if !any {
			continue
		}
		c := -1
		if ok {
			c = cmp.Compare(s, word)
		}
		if c < 0 {
			word, ok, d.at = s, true, d.at[:0]
		}
		if c <= 0 {
			d.at = append(d.at, i)
		}
	}
	return word, ok
}

// pass goes past the lowest word in all parts, and tells, if it is wanted, whether a
// live row has it.
func (d *dictionary) pass(wanted bool) (live bool, err error) {
	for _, i := range d.at {
		p := &d.r.parts[i]
		if wanted && !live {
			if live, err = d.r.has(p, d.lists[i]); err != nil {
				return false, err
			}
		}
		if err := d.lists[i].next(); err != nil {
			return false, err
		}
	}
	return live, nil
}

// Cardinality implements blevindex.FieldDict.
func (d *dictionary) Cardinality() int { return 0 }

// BytesRead implements blevindex.FieldDict.
func (d *dictionary) BytesRead() uint64 { return 0 }

// Close implements blevindex.FieldDict.
func (d *dictionary) Close() error { return nil }
