package main

import (
	"fmt"
	"iter"
	"math"
	"sync"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// item is one batch to put. Whoever takes it releases rec.
type item struct {
	rec      arrow.RecordBatch
	firstRow int64 // rows handed out before it
	bytes    int64 // of its Arrow buffers
}

// feed hands out the batches of an input, prepared, to any number of putters.
type feed interface {
	// next returns false at the end.
	next() (item, bool, error)
	// replay yields the first n batches once more, as they were handed out. The
	// receiver owns them.
	replay(n int64) iter.Seq2[arrow.RecordBatch, error]
	// rows is the number of rows of one pass, -1 where it is unknown.
	rows() int64
	// ahead tells that all was prepared before the first call of next, and what
	// is in memory then, in bytes.
	ahead() (all bool, bytes int64)
	close()
}

// prepare reads in until it ends or budget bytes are in memory. With repeat,
// the feed has no end: it starts again with other keys.
func prepare(in *input, repeat bool, budget int64) (feed, error) {
	shift, err := newShifter(in, repeat)
	if err != nil {
		return nil, err
	}
	next, stop := iter.Pull2(in.Batches())
	var head []item
	var rows, bytes int64
	for {
		rec, err, ok := next()
		if err != nil {
			stop()
			return nil, err
		}
		if !ok {
			stop()
			if len(head) == 0 {
				return nil, usagef("the input has no rows")
			}
			return &cachedFeed{items: head, passRows: rows, bytes: bytes, shift: shift, repeat: repeat}, nil
		}
		shift.observe(rec)
		it := item{rec: rec, firstRow: rows, bytes: bufferBytes(rec)}
		head = append(head, it)
		rows += rec.NumRows()
		if bytes += it.bytes; bytes >= budget {
			f := &streamFeed{in: in, shift: shift, repeat: repeat, headBytes: bytes, out: make(chan item, len(head)), quit: make(chan struct{})}
			f.wg.Go(func() { f.run(head, rows, next, stop) })
			return f, nil
		}
	}
}

// cachedFeed has one pass in memory. Later passes share its buffers.
type cachedFeed struct {
	items    []item
	passRows int64
	bytes    int64
	shift    *shifter
	repeat   bool
	taken    atomic.Int64
}

func (f *cachedFeed) next() (item, bool, error) {
	n := f.taken.Add(1) - 1
	if !f.repeat && n >= int64(len(f.items)) {
		return item{}, false, nil
	}
	it, err := f.at(n)
	return it, err == nil, err
}

func (f *cachedFeed) at(n int64) (item, error) {
	pass := n / int64(len(f.items))
	it := f.items[n%int64(len(f.items))]
	rec, err := f.shift.apply(it.rec, pass)
	if err != nil {
		return item{}, err
	}
	it.rec = rec
	it.firstRow += pass * f.passRows
	return it, nil
}

func (f *cachedFeed) replay(n int64) iter.Seq2[arrow.RecordBatch, error] {
	return func(yield func(arrow.RecordBatch, error) bool) {
		for i := range n {
			it, err := f.at(i)
			if !yield(it.rec, err) || err != nil {
				return
			}
		}
	}
}

func (f *cachedFeed) rows() int64          { return f.passRows }
func (f *cachedFeed) ahead() (bool, int64) { return true, f.bytes }

func (f *cachedFeed) close() {
	for _, it := range f.items {
		it.rec.Release()
	}
	f.items = nil
}

// streamFeed prepares batches while others are put. A channel bounds how many
// are ahead: as many as filled the budget at the start.
type streamFeed struct {
	in        *input
	shift     *shifter
	repeat    bool
	headBytes int64

	out  chan item
	err  error // set before out is closed
	quit chan struct{}
	once sync.Once
	wg   sync.WaitGroup
}

// run hands out head, the rest of the pass that next yields, and with repeat
// further passes.
func (f *streamFeed) run(head []item, rows int64, next func() (arrow.RecordBatch, error, bool), stop func()) {
	defer close(f.out)
	for i, it := range head {
		if !f.send(it) {
			for _, it := range head[i+1:] {
				it.rec.Release()
			}
			stop()
			return
		}
	}
	for pass := int64(0); ; pass++ {
		for {
			rec, err, ok := next()
			if err != nil || !ok {
				f.err = err
				break
			}
			if pass == 0 {
				f.shift.observe(rec)
			}
			shifted, err := f.shift.apply(rec, pass)
			rec.Release()
			if err != nil {
				f.err = err
				break
			}
			n := shifted.NumRows()
			if !f.send(item{rec: shifted, firstRow: rows, bytes: bufferBytes(shifted)}) {
				stop()
				return
			}
			rows += n
		}
		stop()
		if f.err != nil || !f.repeat {
			return
		}
		next, stop = iter.Pull2(f.in.Batches())
	}
}

// send gives it away; after close it releases it and returns false.
func (f *streamFeed) send(it item) bool {
	select {
	case f.out <- it:
		return true
	case <-f.quit:
		it.rec.Release()
		return false
	}
}

func (f *streamFeed) next() (item, bool, error) {
	it, ok := <-f.out
	if !ok {
		return item{}, false, f.err
	}
	return it, true, nil
}

func (f *streamFeed) replay(n int64) iter.Seq2[arrow.RecordBatch, error] {
	return func(yield func(arrow.RecordBatch, error) bool) {
		for pass := int64(0); n > 0; pass++ {
			for rec, err := range f.in.Batches() {
				if err != nil {
					yield(nil, err)
					return
				}
				shifted, err := f.shift.apply(rec, pass)
				rec.Release()
				n--
				if !yield(shifted, err) || err != nil || n == 0 {
					return
				}
			}
		}
	}
}

func (f *streamFeed) rows() int64          { return f.in.Rows() }
func (f *streamFeed) ahead() (bool, int64) { return false, f.headBytes }

func (f *streamFeed) close() {
	f.once.Do(func() { close(f.quit) })
	f.wg.Wait()
	for it := range f.out {
		it.rec.Release()
	}
}

// shifter gives a repeated pass other keys: it adds pass times the span of an
// integer key column to that column, which makes the keys of different passes
// different, and keeps their order.
type shifter struct {
	column   int // -1: nothing to shift
	low, top int64
	seen     bool
}

func newShifter(in *input, repeat bool) (*shifter, error) {
	s := &shifter{column: -1}
	for _, k := range in.key {
		i := in.Schema().FieldIndices(k)[0]
		if in.Schema().Field(i).Type.ID() == arrow.INT64 {
			s.column = i
			break
		}
	}
	if repeat && s.column < 0 && len(in.key) > 0 {
		return nil, usagef("-duration repeats the input with new keys: that takes an int64 column among the -key columns, %s", quoted(in.key))
	}
	return s, nil
}

// observe notes the keys of the first pass. It must have seen all of them
// before a second pass is asked for.
func (s *shifter) observe(rec arrow.RecordBatch) {
	if s.column < 0 {
		return
	}
	col := rec.Column(s.column).(*array.Int64)
	for i, v := range col.Int64Values() {
		if col.IsNull(i) {
			continue
		}
		if !s.seen {
			s.low, s.top, s.seen = v, v, true
		}
		s.low, s.top = min(s.low, v), max(s.top, v)
	}
}

// apply borrows rec and returns a batch that the caller owns.
func (s *shifter) apply(rec arrow.RecordBatch, pass int64) (arrow.RecordBatch, error) {
	if pass == 0 || s.column < 0 {
		rec.Retain()
		return rec, nil
	}
	// In floating point, since any of these may overflow.
	span := float64(s.top) - float64(s.low) + 1
	if float64(s.top)+float64(pass)*span >= math.MaxInt64/2 {
		return nil, fmt.Errorf("repeat the input with new keys: pass %d over keys from %d to %d goes beyond int64", pass+1, s.low, s.top)
	}
	shifted := added(rec.Column(s.column).(*array.Int64), pass*(s.top-s.low+1))
	defer shifted.Release()
	cols := append([]arrow.Array(nil), rec.Columns()...)
	cols[s.column] = shifted
	return array.NewRecordBatch(rec.Schema(), cols, rec.NumRows()), nil
}

// added is col with n added to every value. It is part of the measured run, so
// without nulls there is no builder in it, which would take several times as long.
func added(col *array.Int64, n int64) arrow.Array {
	vals := make([]int64, col.Len())
	for i, v := range col.Int64Values() {
		vals[i] = v + n // of a null too, where nobody looks
	}
	if col.NullN() == 0 {
		return own(col.DataType(), len(vals), nil, arrow.Int64Traits.CastToBytes(vals))
	}
	valid := make([]bool, len(vals))
	for i := range valid {
		valid[i] = col.IsValid(i)
	}
	b := array.NewInt64Builder(memory.DefaultAllocator)
	defer b.Release()
	b.AppendValues(vals, valid)
	return b.NewArray()
}

// bufferBytes is the size of the buffers of rec, which are its own.
func bufferBytes(rec arrow.RecordBatch) int64 {
	var sum int64
	for _, c := range rec.Columns() {
		sum += dataBytes(c.Data())
	}
	return sum
}

func dataBytes(d arrow.ArrayData) int64 {
	var sum int64
	for _, b := range d.Buffers() {
		if b != nil {
			sum += int64(b.Len())
		}
	}
	for _, c := range d.Children() {
		sum += dataBytes(c)
	}
	if d.DataType().ID() == arrow.DICTIONARY {
		sum += dataBytes(d.Dictionary())
	}
	return sum
}
