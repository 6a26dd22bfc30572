package index

import (
	"fmt"
	"iter"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
)

// Rows gives the rows of one memtable by slot. Locate must answer, without
// locks, for every slot of a batch from the moment that the batch is passed to
// Apply, and as long as the Set is in use. The batch is lent.
type Rows interface {
	Locate(slot uint32) (rec arrow.RecordBatch, row int)
}

// Set is the indexes of one memtable. One goroutine calls Apply and Fail; all
// other methods are safe for concurrent use beside it, and take no lock (Range
// takes one for a moment when the writer has moved on since the last one).
type Set struct {
	spec     *Spec
	rows     Rows
	versions *versions // nil: append-only, every row below the bound is live
	primary  *primary  // nil: append-only
	members  []*member // the primary key first, if there is one
	byName   map[string]*member
	shadow   shadow // what newer sets supersede of the rows

	// applied ≤ next of every member that has not failed.
	applied atomic.Uint32
}

// member is one index of the set.
type member struct {
	name   string
	impl   kind
	next   uint32 // slots below it were applied; the applying goroutine's
	broken error  // of the apply that went wrong; the applying goroutine's
	failed atomic.Pointer[FailedError]
}

// run is consecutive batches on their way through Apply.
type run struct {
	batches []batch
	first   uint32
	rows    int
	one     [1]batch // room for batches
}

// batch is one of them.
type batch struct {
	rec   arrow.RecordBatch
	first uint32
	rows  int
	dead  *array.Boolean // the tombstone column; nil: no row of the batch is one
}

func (b *batch) isDead(row int) bool { return b.dead != nil && b.dead.Value(row) }

// NewSet returns the empty indexes of a memtable. Its memory is freed when the
// last reference to it goes.
func (s *Spec) NewSet(rows Rows) *Set {
	set := &Set{spec: s, rows: rows, byName: make(map[string]*member, len(s.kinds)+1)}
	if s.key != nil {
		set.versions = new(versions)
		set.primary = newPrimary(s, rows, set.versions)
		set.add(PrimaryKey, set.primary)
	}
	for _, k := range s.kinds {
		set.add(k.config().IndexName(), k.make(set))
	}
	return set
}

func (s *Set) add(name string, k kind) {
	m := &member{name: name, impl: k}
	s.members = append(s.members, m)
	s.byName[name] = m
}

// Spec is what the set was made from.
func (s *Set) Spec() *Spec { return s.spec }

// Applied is the number of slots that every index has taken. It moves once per
// batch, after the last index. Bounds of searches are at most this.
func (s *Set) Applied() uint32 { return s.applied.Load() }

// parallelRows is the work, in rows times indexes, from which starting
// goroutines (about a microsecond each) costs little beside it.
const parallelRows = 1024

// Apply adds a batch of the storage schema, whose first row has the slot
// firstSlot: the number of slots applied so far. The batch must have passed
// Check and stays the caller's.
//
// An index that fails, or panics, is named by the *ApplyError returned; the batch
// then does not count as applied. It cannot be undone: either the set is given
// up, or the index is marked with Fail and the same batch is applied again, which
// skips the indexes that have taken it already. The primary key cannot be done
// without.
func (s *Set) Apply(rec arrow.RecordBatch, firstSlot uint32) error {
	r := &run{first: firstSlot}
	r.batches = r.one[:0]
	s.extend(r, rec)
	return s.apply(r)
}

// ApplyRun is Apply for consecutive batches, as if they were one: Applied moves
// once, behind the last of them, and after a failure the same run is applied
// again. Long runs take a fraction of the time that their batches take one by one,
// from some ten thousand rows on. While a run is applied, an ordered index needs up
// to 40 bytes a row and the encoded keys, and where the run is as large as what
// is there already, as much again as the index holds.
func (s *Set) ApplyRun(recs []arrow.RecordBatch, firstSlot uint32) error {
	r := &run{first: firstSlot, batches: make([]batch, 0, len(recs))}
	for _, rec := range recs {
		s.extend(r, rec)
	}
	return s.apply(r)
}

// extend adds a batch to a run. Rows beyond what slots can number are left to
// apply to refuse.
func (s *Set) extend(r *run, rec arrow.RecordBatch) {
	r.batches = append(r.batches, batch{
		rec: rec, first: r.first + uint32(r.rows), rows: int(rec.NumRows()), dead: s.tombstones(rec),
	})
	r.rows += int(rec.NumRows())
}

func (s *Set) apply(r *run) error {
	firstSlot := r.first
	end := uint64(firstSlot) + uint64(r.rows)
	if applied := s.applied.Load(); firstSlot != applied {
		return &ApplyError{Index: allIndexes, Err: fmt.Errorf("batch at slot %d, expected %d", firstSlot, applied)}
	}
	if end > MaxSlots {
		return &ApplyError{Index: allIndexes, Err: &CapacityError{Slots: end}}
	}
	todo, err := s.due(uint32(end))
	if err != nil {
		return err
	}
	if err := applyAll(todo, r); err != nil {
		return err
	}
	s.applied.Store(uint32(end))
	return nil
}

// due lists the members that have to take a batch ending at slot end.
func (s *Set) due(end uint32) ([]*member, error) {
	todo := make([]*member, 0, 8)
	for _, m := range s.members {
		failed := m.failed.Load() != nil
		if m.broken != nil && (!failed || m.name == PrimaryKey) {
			return nil, m.broken
		}
		if failed && m.name == PrimaryKey {
			return nil, &ApplyError{Index: m.name, Err: m.failed.Load()}
		}
		if !failed && m.next < end {
			todo = append(todo, m)
		}
	}
	return todo, nil
}

// applyAll gives a run to every member; the first failure, in the members'
// order, is returned after all have ended.
func applyAll(todo []*member, r *run) error {
	if len(todo) < 2 || r.rows*len(todo) < parallelRows {
		for _, m := range todo {
			m.apply(r)
		}
	} else {
		var wg sync.WaitGroup
		for _, m := range todo[1:] {
			wg.Go(func() { m.apply(r) })
		}
		todo[0].apply(r)
		wg.Wait()
	}
	for _, m := range todo {
		if m.broken != nil {
			return m.broken
		}
	}
	return nil
}

func (m *member) apply(r *run) {
	defer func() {
		if v := recover(); v != nil {
			m.broken = &ApplyError{Index: m.name, Err: &PanicError{Value: v, Stack: debug.Stack()}}
		}
	}()
	if err := m.impl.apply(r); err != nil {
		m.broken = &ApplyError{Index: m.name, Err: err}
		return
	}
	m.next = r.first + uint32(r.rows)
}

// tombstones is the tombstone column if any row of the batch is one.
func (s *Set) tombstones(rec arrow.RecordBatch) *array.Boolean {
	if s.spec.tombstone < 0 || rec.NumRows() == 0 {
		return nil
	}
	col := rec.Column(s.spec.tombstone).(*array.Boolean)
	bits := col.Data().Buffers()[1]
	if bitutil.CountSetBits(bits.Bytes(), col.Offset(), col.Len()) == 0 {
		return nil
	}
	return col
}

// Live tells whether the row is one that a reader with this bound sees: below
// the bound, not superseded below it, and no tombstone. bound ≤ Applied().
func (s *Set) Live(slot, bound uint32) bool {
	if s.versions == nil {
		return slot < bound
	}
	return s.versions.live(slot, bound)
}

// LiveBits is Live for the n slots from slot on, none of which may be beyond the bound:
// bit i of word i/64 for the slot slot+i. w has just the words that n bits need; the
// bits behind them are 0.
func (s *Set) LiveBits(w []uint64, slot, n, bound uint32) {
	if s.versions != nil {
		s.versions.liveBits(w, slot, n, bound)
		return
	}
	for i := range w {
		w[i] = ^uint64(0)
	}
	if n%64 != 0 {
		w[len(w)-1] = 1<<(n%64) - 1
	}
}

// Lookup is the newest slot below the bound with the key, tombstones included:
// Live tells them apart. bound ≤ Applied(). Append-only tables have no keys.
func (s *Set) Lookup(k Key, bound uint32) (slot uint32, ok bool) {
	if s.primary == nil {
		return 0, false
	}
	return s.primary.find(&k, bound)
}

// LookupRow is Lookup for the primary key of a row of any batch of the storage
// schema that has passed Check.
func (s *Set) LookupRow(rec arrow.RecordBatch, row int, bound uint32) (slot uint32, ok bool) {
	if s.primary == nil {
		return 0, false
	}
	return s.primary.findRow(rec, row, bound)
}

// Bytes is the heap that the indexes hold, without the rows. Memory that only
// running searches keep alive does not count.
func (s *Set) Bytes() int64 {
	n := s.shadow.bytes()
	for _, m := range s.members {
		n += m.impl.bytes()
	}
	return n
}

// Fail marks an index as failed: Apply skips it from now on and its searches
// return a *FailedError with err; other indexes go on. The first failure stays.
// For the primary key, every later Apply fails.
func (s *Set) Fail(name string, err error) error {
	m := s.byName[name]
	if m == nil {
		return &NoIndexError{Index: name, Kind: "configured"}
	}
	m.failed.CompareAndSwap(nil, &FailedError{Index: name, Err: err})
	return nil
}

// Failed is the *FailedError of an index, nil while it works, or a *NoIndexError.
func (s *Set) Failed(name string) error {
	m := s.byName[name]
	if m == nil {
		return &NoIndexError{Index: name, Kind: "configured"}
	}
	if f := m.failed.Load(); f != nil {
		return f
	}
	return nil
}

// KeyFailed is Failed of the primary key, and nil without one. It is cheap enough
// to be asked before each lookup.
func (s *Set) KeyFailed() error {
	if s.primary == nil {
		return nil
	}
	if f := s.members[0].failed.Load(); f != nil {
		return f
	}
	return nil
}

// Range gives the live slots below the bound in an index's order; see Range for
// what lies in a range. Rows with equal keys come in slot order, reversed with
// the rest. The sequence can be run several times, also beside writers, and
// always gives the same slots. bound ≤ Applied().
func (s *Set) Range(name string, r Range, bound uint32) (iter.Seq[uint32], error) {
	o, scan, err := s.scan(name, r, bound)
	if err != nil {
		return nil, err
	}
	return func(yield func(uint32) bool) { o.run(scan, yield) }, nil
}

// RangeKeys is Range with the encoded index key of each row, for merging ranges
// of several sets by bytes.Compare. A key is valid until the next step.
func (s *Set) RangeKeys(name string, r Range, bound uint32) (iter.Seq2[[]byte, uint32], error) {
	o, scan, err := s.scan(name, r, bound)
	if err != nil {
		return nil, err
	}
	return func(yield func([]byte, uint32) bool) {
		var key []byte
		o.run(scan, func(slot uint32) bool {
			rec, row := s.rows.Locate(slot)
			key = o.codec.AppendRow(key[:0], rec, row)
			return yield(key, slot)
		})
	}, nil
}

func (s *Set) scan(name string, r Range, bound uint32) (*ordered, *scan, error) {
	m := s.byName[name]
	if m == nil {
		return nil, nil, &NoIndexError{Index: name, Kind: KindOrdered}
	}
	if f := m.failed.Load(); f != nil {
		return nil, nil, f
	}
	o, ok := m.impl.(*ordered)
	if !ok {
		return nil, nil, &NoIndexError{Index: name, Kind: KindOrdered}
	}
	sc, err := newScan(o.codec, r, min(bound, s.Applied()))
	return o, sc, err
}
