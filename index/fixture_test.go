package index

import (
	"fmt"
	"math/rand/v2"
	"sort"
	"sync/atomic"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/memwal/memwal-go/internal/schema"
)

// store is a batch store as a memtable has one: append by one, Locate by anybody.
type store struct {
	view atomic.Pointer[storeView]
}

type storeView struct {
	recs   []arrow.RecordBatch
	starts []uint32
	rows   uint32
}

func newStore() *store {
	s := new(store)
	s.view.Store(new(storeView))
	return s
}

func (s *store) add(rec arrow.RecordBatch) (first uint32) {
	v := *s.view.Load()
	first = v.rows
	v.recs, v.starts = append(v.recs, rec), append(v.starts, first)
	v.rows += uint32(rec.NumRows())
	s.view.Store(&v)
	return first
}

func (s *store) Locate(slot uint32) (arrow.RecordBatch, int) {
	v := s.view.Load()
	i := sort.Search(len(v.starts), func(i int) bool { return v.starts[i] > slot }) - 1
	for v.starts[i] == slot && v.recs[i].NumRows() == 0 {
		i++
	}
	return v.recs[i], int(slot - v.starts[i])
}

// table of the tests: id int64, name utf8, score float64, group int32, tombstone.
func testSchema(keyed bool) *arrow.Schema {
	fields := []arrow.Field{
		field("id", arrow.PrimitiveTypes.Int64, 1, false),
		field("name", arrow.BinaryTypes.String, 2, !keyed),
		field("score", arrow.PrimitiveTypes.Float64, 3, true),
		field("group", arrow.PrimitiveTypes.Int32, 4, true),
	}
	if keyed {
		fields = append(fields, arrow.Field{Name: schema.Tombstone, Type: arrow.FixedWidthTypes.Boolean})
	}
	return arrow.NewSchema(fields, nil)
}

func field(name string, t arrow.DataType, id int, nullable bool) arrow.Field {
	return arrow.Field{Name: name, Type: t, Nullable: nullable,
		Metadata: arrow.NewMetadata([]string{schema.FieldIDKey}, []string{fmt.Sprint(id)})}
}

func cols(names ...string) []Column {
	out := make([]Column, len(names))
	for i, n := range names {
		out[i] = Column{Name: n}
	}
	return out
}

// row of the test table; nil pointers are nulls.
type row struct {
	id    int64
	name  string
	score *float64
	group *int32
	dead  bool
}

func ptr[T any](v T) *T { return &v }

func batchOf(t testing.TB, sc *arrow.Schema, rows []row) arrow.RecordBatch {
	b := array.NewRecordBuilder(memory.DefaultAllocator, sc)
	defer b.Release()
	for _, r := range rows {
		b.Field(0).(*array.Int64Builder).Append(r.id)
		b.Field(1).(*array.StringBuilder).Append(r.name)
		if r.score == nil {
			b.Field(2).AppendNull()
		} else {
			b.Field(2).(*array.Float64Builder).Append(*r.score)
		}
		if r.group == nil {
			b.Field(3).AppendNull()
		} else {
			b.Field(3).(*array.Int32Builder).Append(*r.group)
		}
		if sc.NumFields() > 4 {
			b.Field(4).(*array.BooleanBuilder).Append(r.dead)
		}
	}
	rec := b.NewRecordBatch()
	t.Cleanup(rec.Release)
	return rec
}

func mustBind(t testing.TB, sc *arrow.Schema, key []Column, configs ...Config) *Spec {
	t.Helper()
	s, err := Bind(sc, key, configs)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// table is a spec, a set and its rows.
type fixture struct {
	spec *Spec
	set  *Set
	rows *store
}

func newFixture(s *Spec) *fixture {
	f := &fixture{spec: s, rows: newStore()}
	f.set = s.NewSet(f.rows)
	return f
}

func (f *fixture) apply(t testing.TB, rec arrow.RecordBatch) {
	t.Helper()
	if err := f.spec.Check(rec); err != nil {
		t.Fatal(err)
	}
	if err := f.set.Apply(rec, f.rows.add(rec)); err != nil {
		t.Fatal(err)
	}
}

// int64Batches are n rows of one int64 column "id" in batches of size, random or
// sequential.
func int64Batches(t testing.TB, n, size int, random bool) (*arrow.Schema, []arrow.RecordBatch) {
	sc := arrow.NewSchema([]arrow.Field{{Name: "id", Type: arrow.PrimitiveTypes.Int64}}, nil)
	rng := rand.New(rand.NewPCG(1, 2))
	var recs []arrow.RecordBatch
	for at := 0; at < n; at += size {
		b := array.NewRecordBuilder(memory.DefaultAllocator, sc)
		for i := range min(size, n-at) {
			v := int64(at + i)
			if random {
				v = rng.Int64()
			}
			b.Field(0).(*array.Int64Builder).Append(v)
		}
		rec := b.NewRecordBatch()
		b.Release()
		t.Cleanup(rec.Release)
		recs = append(recs, rec)
	}
	return sc, recs
}

func stringBatches(t testing.TB, n, size int, format string) (*arrow.Schema, []arrow.RecordBatch) {
	sc := arrow.NewSchema([]arrow.Field{{Name: "id", Type: arrow.BinaryTypes.String}}, nil)
	rng := rand.New(rand.NewPCG(1, 2))
	var recs []arrow.RecordBatch
	for at := 0; at < n; at += size {
		b := array.NewRecordBuilder(memory.DefaultAllocator, sc)
		for range min(size, n-at) {
			b.Field(0).(*array.StringBuilder).Append(fmt.Sprintf(format, rng.Uint64()))
		}
		rec := b.NewRecordBatch()
		b.Release()
		t.Cleanup(rec.Release)
		recs = append(recs, rec)
	}
	return sc, recs
}
