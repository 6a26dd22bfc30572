package index

import (
	"encoding/binary"
	"fmt"
	"math"
	"sync/atomic"
	"unsafe"
)

// text is the full-text index of one memtable: terms with their postings, and how
// many terms each slot has. It holds all versions of all rows but tombstones.
//
// Readers take no lock: see term, terms and lengths for what is published when. What
// a batch adds lies above every bound that was taken before it was applied.
type text struct {
	spec    *textSpec
	set     *Set
	terms   terms
	lengths lengths
	written prefixSums // over the slots
	hidden  prefixSums // over the entries of the set's shadow

	heap atomic.Int64 // of what the writer fills

	// The writer's.
	most     int // terms of a row; tests lower it
	analyzer writerAnalyzer
	row      rowTerms
}

func newText(spec *textSpec, s *Set) *text {
	t := &text{spec: spec, set: s, most: math.MaxInt32, analyzer: newWriterAnalyzer(spec.analyzer)}
	t.terms.init(s.spec.hashBytes)
	t.account()
	return t
}

// rowTerms collects the terms of one row; scratch of the writer.
type rowTerms struct {
	input   []byte
	touched []touched
	seen    []occurrence
	enc     []byte
}

// touched is a term of the row.
type touched struct {
	term        *term
	freq        uint64
	first, last int32 // in seen
}

// occurrence is a place of a term of the row, in a list of these.
type occurrence struct {
	place uint64
	next  int32 // -1: the last
}

func (t *text) apply(r *run) error {
	t.lengths.grow(uint64(r.first) + uint64(r.rows))
	for i := range r.batches {
		b := &r.batches[i]
		col := newTextColumn(b.rec.Column(t.spec.col))
		for row := range b.rows {
			if b.isDead(row) {
				continue
			}
			if err := t.add(&col, row, b.first+uint32(row)); err != nil {
				return err
			}
		}
	}
	t.trim()
	t.account()
	return nil
}

// add indexes one row.
func (t *text) add(col *textColumn, row int, slot uint32) error {
	r := &t.row
	r.touched, r.seen = r.touched[:0], r.seen[:0]
	from, to := col.span(row)
	length := uint64(0)
	for i := from; i < to; i++ {
		s := col.at(i)
		if s == "" {
			continue
		}
		// No analyzer gives more terms than two a byte.
		if len(s) > (t.most-int(length))/2 {
			return fmt.Errorf("a row has a text of more than %d bytes: split it", t.most/2)
		}
		// Analyzers change their input.
		r.input = append(r.input[:0], s...)
		for _, token := range t.analyzer.Analyze(r.input) {
			if len(token.Term) > MaxTermBytes {
				continue
			}
			length++
			x, err := t.terms.intern(token.Term)
			if err != nil {
				return err
			}
			r.touch(x, uint64(i-from)*elementPlace+uint64(token.Position), !t.spec.cfg.NoPositions)
		}
	}
	for i := range r.touched {
		if err := t.post(&r.touched[i], slot); err != nil {
			return err
		}
	}
	*t.lengths.at(slot) = uint32(length)
	return nil
}

func (r *rowTerms) touch(x *term, place uint64, places bool) {
	if i := x.touch; i < 0 || int(i) >= len(r.touched) || r.touched[i].term != x {
		x.touch = int32(len(r.touched))
		r.touched = append(r.touched, touched{term: x, first: -1})
	}
	p := &r.touched[x.touch]
	p.freq++
	if !places {
		return
	}
	at := int32(len(r.seen))
	r.seen = append(r.seen, occurrence{place: place, next: -1})
	if p.first < 0 {
		p.first = at
	} else {
		r.seen[p.last].next = at
	}
	p.last = at
}

// post appends the posting of one term of the row.
func (t *text) post(p *touched, slot uint32) error {
	enc := t.row.enc[:0]
	if p.freq > 1 {
		enc = binary.AppendUvarint(enc, p.freq)
	}
	last := uint64(0)
	for i := p.first; i >= 0; i = t.row.seen[i].next {
		// Analyzers give positions in order, or the same one again. Should one step back,
		// the difference wraps around, here and in the reader.
		place := t.row.seen[i].place
		enc = binary.AppendUvarint(enc, place-last)
		last = place
	}
	t.row.enc = enc
	return p.term.append(slot, p.freq == 1, enc)
}

// trim drops scratch that an unusually large text has left.
func (t *text) trim() {
	if t.row.bytes() > scratchMax {
		t.row = rowTerms{}
	}
	t.analyzer.trim()
}

func (r *rowTerms) bytes() int64 {
	return int64(cap(r.input)+cap(r.enc)) + int64(cap(r.touched))*int64(unsafe.Sizeof(touched{})) +
		int64(cap(r.seen))*int64(unsafe.Sizeof(occurrence{}))
}

func (t *text) account() {
	t.heap.Store(int64(unsafe.Sizeof(*t)) + t.terms.bytes() + t.lengths.bytes.Load() + t.row.bytes() + t.analyzer.bytes())
}

func (t *text) bytes() int64 {
	return t.heap.Load() + t.terms.orderBytes() + t.written.bytes() + t.hidden.bytes()
}

// lengths has the number of terms of each slot, 0 for tombstones.
//
//   - who writes: the goroutine that applies batches, slots that are not applied yet;
//   - who reads: anybody, slots below the applied count;
//   - what is published when: a chunk, before any slot in it; a slot, before the
//     applied count passes it.
type lengths struct{ chunked[uint32] }
