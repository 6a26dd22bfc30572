package memtable

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/memwal/memwal-go/index"
)

// shard is a writer's side in small: cursors, memtables and an applier.
type shard struct {
	t       testing.TB
	c       *Cursors
	spec    *index.Spec
	schema  *arrow.Schema
	applier *Applier

	mu   sync.Mutex // stands for the writer lock and the view pointer
	live []*Memtable
}

func newShard(t testing.TB, schema *arrow.Schema, spec *index.Spec, start uint64) *shard {
	s := &shard{t: t, c: NewCursors(start), schema: schema, spec: spec}
	s.applier = NewApplier(s.memtables, s.c)
	s.rotate()
	t.Cleanup(func() {
		for _, m := range s.live {
			m.Release()
		}
	})
	return s
}

func (s *shard) memtables() []*Memtable {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*Memtable(nil), s.live...)
}

func (s *shard) rotate() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.live); n > 0 {
		s.live[n-1].Freeze()
	}
	s.live = append(s.live, New(Config{
		Generation: uint64(len(s.live) + 1), FirstRow: s.c.Accepted(), Schema: s.schema, Spec: s.spec,
	}))
}

// put appends to the active memtable and returns the ordinal after the batch.
func (s *shard) put(rec arrow.RecordBatch) uint64 {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.live[len(s.live)-1]
	put(s.t, m, rec)
	s.c.Accept(m.EndRow())
	return m.EndRow()
}

func (s *shard) run() {
	s.t.Helper()
	if err := s.applier.Run(context.Background()); err != nil {
		s.t.Fatal(err)
	}
}

func TestV04_VisibleWithAnyNumberOfIndexes(t *testing.T) {
	var many []string
	for i := range 5 {
		many = append(many, fmt.Sprint("index ", i))
	}
	for _, c := range []struct {
		name   string
		schema *arrow.Schema
		spec   *index.Spec
		batch  func(mem memory.Allocator, i int64) arrow.RecordBatch
	}{
		{"none", plainSchema, nil, func(mem memory.Allocator, i int64) arrow.RecordBatch { return plain(mem, i, 1) }},
		{"primary key", keyedSchema, bind(t), func(mem memory.Allocator, i int64) arrow.RecordBatch { return keyed(mem, row{id: i}) }},
		{"one", keyedSchema, bind(t, "one"), func(mem memory.Allocator, i int64) arrow.RecordBatch { return keyed(mem, row{id: i}) }},
		{"many", keyedSchema, bind(t, many...), func(mem memory.Allocator, i int64) arrow.RecordBatch { return keyed(mem, row{id: i}) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			mem := checked(t)
			s := newShard(t, c.schema, c.spec, 0)
			for i := range int64(3) {
				w := s.c.Register(LevelVisible, s.put(c.batch(mem, i)))
				s.run()
				advance(t, s.c.AdvanceDurable, s.c.Accepted())
				if err := w.Wait(t.Context()); err != nil {
					t.Fatal(err)
				}
				if n := s.live[0].View(s.c.Visible()).count(nil); n != i+1 {
					t.Errorf("%d rows are readable, want %d", n, i+1)
				}
			}
		})
	}
}

func TestV06_RowsOfAFailedIndexNeverBecomeVisible(t *testing.T) {
	mem := checked(t)
	s := newShard(t, keyedSchema, bind(t, "by value"), 100)
	broken := errors.New("broken")
	inner, fail := s.applier.apply, true
	s.applier.apply = func(m *Memtable, b Batch) error {
		if b.FirstSlot == 2 && fail {
			return broken
		}
		return inner(m, b)
	}
	s.put(keyed(mem, row{id: 1}, row{id: 2}))
	s.put(keyed(mem, row{id: 3}))
	last := s.put(keyed(mem, row{id: 4}))
	w := s.c.Register(LevelVisible, last)
	advance(t, s.c.AdvanceDurable, last) // the append was done

	err := s.applier.Run(t.Context())
	where, ok := errors.AsType[*ApplyError](err)
	if !ok || where.Generation != 1 || where.Batch != 1 || where.FirstRow != 102 || !errors.Is(err, broken) {
		t.Fatalf("the error does not say where: %v", err)
	}
	wantCursors(t, s.c, 104, 102, 104, 102)
	fail = false // a partial application cannot be undone, so the next run must not go on
	if again := s.applier.Run(t.Context()); again != err {
		t.Errorf("the next run: %v", again)
	}
	s.c.Fail(err)
	if err := w.Wait(t.Context()); !errors.Is(err, broken) {
		t.Errorf("the one who waits got %v", err)
	}
	wantCursors(t, s.c, 104, 102, 104, 102)
	if n := s.live[0].View(s.c.Visible()).count(nil); n != 2 {
		t.Errorf("%d rows are readable, want 2", n)
	}
}

func TestV06_RowsOfAFailedAppendNeverBecomeVisible(t *testing.T) {
	mem := checked(t)
	s := newShard(t, keyedSchema, bind(t), 0)
	advance(t, s.c.AdvanceDurable, s.put(keyed(mem, row{id: 1})))
	s.put(keyed(mem, row{id: 1, value: 2}, row{id: 2}))
	w := s.c.Register(LevelVisible, 3)
	s.run()
	s.c.Fail(errors.New("append failed"))
	if err := s.c.AdvanceDurable(3); err == nil { // a reply that came after the failure must not acknowledge
		t.Error("durable moved after the failure")
	}
	if err := w.Wait(t.Context()); err == nil {
		t.Error("the put was acknowledged")
	}
	wantCursors(t, s.c, 3, 3, 1, 1)
	v := s.live[0].View(s.c.Visible())
	if slot, ok := v.Lookup(key(t, s.spec, 1)); !ok || slot != 0 || !v.Live(0) || v.count(nil) != 1 {
		t.Error("the row that is durable is not the one that is readable")
	}
	if _, ok := v.Lookup(key(t, s.spec, 2)); ok {
		t.Error("a row that is not durable is readable")
	}
}

func key(t testing.TB, spec *index.Spec, id int64) index.Key {
	t.Helper()
	k, err := spec.Key(id)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// wrong returns a batch whose value column an ordered index over it cannot
// take, though the key is fine. Put and replay never let one in.
func wrong(mem memory.Allocator, id int64) arrow.RecordBatch {
	good := keyed(mem, row{id: id})
	defer good.Release()
	b := array.NewListBuilder(mem, arrow.PrimitiveTypes.Int64)
	defer b.Release()
	b.Append(true)
	value := b.NewArray()
	defer value.Release()
	fields := keyedSchema.Fields()
	fields[1].Type = value.DataType()
	return array.NewRecordBatch(arrow.NewSchema(fields, nil), []arrow.Array{good.Column(0), value, good.Column(2)}, 1)
}

func TestR15_AnIndexThatFails(t *testing.T) {
	t.Run("a writer refuses what an index cannot take", func(t *testing.T) {
		rec := wrong(checked(t), 1)
		defer rec.Release()
		if err := bind(t, "by value").Check(rec); !errors.Is(err, index.ErrInvalid) {
			t.Errorf("the check let it pass: %v", err)
		}
	})
	t.Run("at work it ends the applier", func(t *testing.T) {
		mem := checked(t)
		s := newShard(t, keyedSchema, bind(t, "by value"), 0)
		s.put(wrong(mem, 1))
		err := s.applier.Run(t.Context())
		if failed, ok := errors.AsType[*index.ApplyError](err); !ok || failed.Index != "by value" {
			t.Errorf("the error does not name the index: %v", err)
		}
		if err := s.live[0].Index().Failed("by value"); err != nil { // that is for the owner to decide
			t.Errorf("the index was marked: %v", err)
		}
		wantCursors(t, s.c, 1, 0, 0, 0)
	})
}

// Rows are applied in their order, oldest memtable first, whatever was rotated
// meanwhile; batches without rows are no obstacle.
func TestApplierWalksMemtablesOldestFirst(t *testing.T) {
	mem := checked(t)
	s := newShard(t, keyedSchema, bind(t), 50)
	var order []uint64
	inner := s.applier.apply
	s.applier.apply = func(m *Memtable, b Batch) error {
		first := m.FirstRow() + uint64(b.FirstSlot)
		if s.c.Indexed() != first {
			t.Errorf("batch from row %d is applied when indexed is %d", first, s.c.Indexed())
		}
		order = append(order, m.Generation())
		return inner(m, b)
	}
	s.put(keyed(mem))
	s.put(keyed(mem, row{id: 1}, row{id: 2}))
	s.rotate()
	s.rotate() // one without rows
	s.put(keyed(mem, row{id: 3}))
	s.put(keyed(mem))
	s.put(keyed(mem, row{id: 1}))
	s.run()
	s.rotate()
	s.put(keyed(mem, row{id: 4}))
	s.run()
	s.run()
	if fmt.Sprint(order) != "[1 3 3 4]" {
		t.Errorf("generations in the order of their batches: %v", order)
	}
	wantCursors(t, s.c, 55, 55, 50, 50)
}

func TestApplierStopsWithItsContext(t *testing.T) {
	mem := checked(t)
	s := newShard(t, plainSchema, nil, 0)
	ctx, cancel := context.WithCancel(t.Context())
	inner := s.applier.apply
	s.applier.apply = func(m *Memtable, b Batch) error { cancel(); return inner(m, b) }
	for i := range int64(3) {
		s.put(plain(mem, i, 1))
	}
	if err := s.applier.Run(ctx); !errors.Is(err, context.Canceled) || s.c.Indexed() != 1 {
		t.Errorf("%v, indexed %d", err, s.c.Indexed())
	}
	s.run() // it goes on where it was
	wantCursors(t, s.c, 3, 3, 0, 0)
}

func TestApplierAfterAFailureAppliesNothing(t *testing.T) {
	mem := checked(t)
	s := newShard(t, plainSchema, nil, 0)
	s.put(plain(mem, 0, 1))
	fenced := errors.New("fenced")
	s.c.Fail(fenced)
	if err := s.applier.Run(t.Context()); !errors.Is(err, fenced) || s.live[0].Index().Applied() != 0 {
		t.Errorf("%v, %d rows applied", err, s.live[0].Index().Applied())
	}
}

// A failure that comes while a batch is applied must not make it be applied
// twice.
func TestApplierFailureDuringABatch(t *testing.T) {
	mem := checked(t)
	s := newShard(t, plainSchema, nil, 0)
	s.put(plain(mem, 0, 1))
	fenced := errors.New("fenced")
	inner, calls := s.applier.apply, 0
	s.applier.apply = func(m *Memtable, b Batch) error { calls++; s.c.Fail(fenced); return inner(m, b) }
	for range 2 {
		if err := s.applier.Run(t.Context()); !errors.Is(err, fenced) {
			t.Error(err)
		}
	}
	if calls != 1 {
		t.Errorf("applied %d times", calls)
	}
	wantCursors(t, s.c, 1, 0, 0, 0)
}

func TestApplierMissesAMemtable(t *testing.T) {
	mem := checked(t)
	for _, c := range []struct {
		name string
		drop func(live []*Memtable) []*Memtable
	}{
		{"the oldest", func(live []*Memtable) []*Memtable { return live[1:] }},
		{"the newest", func(live []*Memtable) []*Memtable { return live[:1] }},
		{"all", func([]*Memtable) []*Memtable { return nil }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newShard(t, plainSchema, nil, 0)
			s.put(plain(mem, 0, 1))
			s.rotate()
			s.put(plain(mem, 1, 1))
			a := NewApplier(func() []*Memtable { return c.drop(s.memtables()) }, s.c)
			if err := a.Run(t.Context()); err == nil {
				t.Errorf("no error, indexed is %d", s.c.Indexed())
			}
		})
	}
}

// A set that is ahead of the cursor means that a batch would be applied twice;
// the applier refuses instead.
// The accepted cursor stands within a batch: then the batch is not indexed as far
// as that.
func TestV12_AcceptedCursorWithinABatch(t *testing.T) {
	mem := checked(t)
	s := newShard(t, plainSchema, nil, 0)
	s.put(plain(mem, 0, 2))
	s.run()
	put(t, s.live[0], plain(mem, 2, 3))
	s.c.Accept(3)
	err := s.applier.Run(t.Context())
	if r, ok := errors.AsType[*RangeError](err); !ok || r.Want != 5 || r.Accepted != 3 {
		t.Errorf("run: %v", err)
	}
	wantCursors(t, s.c, 3, 2, 0, 0)
	if err := s.applier.Run(t.Context()); err == nil {
		t.Error("the batch is taken twice")
	}
	wantCursors(t, s.c, 3, 2, 0, 0)
}

func TestR02_NothingIsIndexedTwice(t *testing.T) {
	mem := checked(t)
	s := newShard(t, keyedSchema, bind(t), 0)
	s.put(keyed(mem, row{id: 1}))
	b := s.live[0].Batch(0)
	if err := s.live[0].Index().Apply(b.Rec, b.FirstSlot); err != nil {
		t.Fatal(err)
	}
	if err := s.applier.Run(t.Context()); err == nil || s.c.Indexed() != 0 {
		t.Errorf("%v, indexed %d", err, s.c.Indexed())
	}
}
