package memtable

import (
	"errors"
	"sync"
	"testing"

	"github.com/memwal/memwal-go/index"
)

func TestFrozenTakesNothing(t *testing.T) {
	mem := checked(t)
	m := New(Config{Generation: 7, FirstRow: 100, Schema: plainSchema})
	defer m.Release()
	put(t, m, plain(mem, 0, 3))
	m.Freeze()
	rec := plain(mem, 3, 1)
	defer rec.Release()
	if err := m.Append(rec, 8, 8); !errors.Is(err, ErrFrozen) {
		t.Errorf("append after freeze: %v", err)
	}
	if !m.Frozen() || m.Rows() != 3 || m.EndRow() != 103 || m.PinnedBytes() != 48 || m.Generation() != 7 {
		t.Errorf("frozen %v, %+v", m.Frozen(), m.Usage())
	}
}

func TestLastReleaseFreesTheBatches(t *testing.T) {
	mem := checked(t)
	m := New(Config{Generation: 1, Schema: plainSchema})
	rec := plain(mem, 0, 3)
	for range 200 {
		if err := m.Append(rec, 1, 1); err != nil {
			t.Fatal(err)
		}
	}
	rec.Release()
	m.Retain()
	m.Release()
	if b := m.Batch(199); int64At(b.Rec, 0, 2) != 2 {
		t.Error("a batch went before the last release")
	}
	m.Release()
	if m.TryRetain() {
		t.Error("a released memtable was retained")
	}
	for name, f := range map[string]func(){"retain": m.Retain, "release": m.Release} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s after the last release: no panic", name)
				}
			}()
			f()
		}()
	}
}

// Readers that find the memtable in a list take a reference or learn that it is
// gone; never something between.
func TestRetainBesideRelease(t *testing.T) {
	mem := checked(t)
	for range 1000 {
		m := New(Config{Generation: 1, Schema: plainSchema})
		put(t, m, plain(mem, 5, 2))
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for m.TryRetain() {
					if rec, row := m.Locate(1); int64At(rec, 0, row) != 6 {
						t.Error("wrong row")
					}
					m.Release()
				}
			})
		}
		m.Release()
		wg.Wait()
	}
}

func TestM02_IndexMemoryCountsAndCannotWedgeAnEmptyMemtable(t *testing.T) {
	mem := checked(t)
	m := New(Config{Generation: 1, Schema: keyedSchema, Spec: bind(t, "by value")})
	defer m.Release()
	tiny := Limits{IndexBytes: 1}
	if m.Full(tiny, Size{Rows: 1}, m.Created()) {
		t.Error("an empty memtable is full: the writer would rotate for ever")
	}
	c := NewCursors(0)
	put(t, m, keyed(mem, row{id: 1, value: 1}))
	c.Accept(1)
	if err := NewApplier(func() []*Memtable { return []*Memtable{m} }, c).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if m.IndexBytes() <= 0 || m.IndexBytes() != m.Usage().Index || !m.Full(tiny, Size{Rows: 1}, m.Created()) {
		t.Errorf("the index set takes %d bytes and does not count", m.IndexBytes())
	}
}

func TestIndexSetExistsWithoutSpec(t *testing.T) {
	m := New(Config{Generation: 1, Schema: plainSchema})
	defer m.Release()
	if m.Index() == nil || m.Schema() != plainSchema {
		t.Fatal("no index set, or another schema")
	}
	if _, err := m.View(0).RangeKeys("none", index.Range{}); !errors.Is(err, index.ErrNoIndex) {
		t.Errorf("a range over no index: %v", err)
	}
}
