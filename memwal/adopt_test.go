package memwal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/uuid"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/memwal/memwal-go/index"
	"github.com/memwal/memwal-go/internal/manifest"
	"github.com/memwal/memwal-go/internal/manifest/manifestpb"
	"github.com/memwal/memwal-go/internal/wal"
	"github.com/memwal/memwal-go/objstore"
)

func adopting(change func(*Options)) *Options {
	o := &Options{PrimaryKey: []string{"id"}, Adopt: true}
	if change != nil {
		change(o)
	}
	return o
}

func openAs(t testing.TB, store objstore.Store, s *arrow.Schema, o *Options) *Writer {
	t.Helper()
	w, err := Open(t.Context(), store, testShard, s, o)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() { w.Abort() })
	return w
}

func fixtureBatch(t testing.TB, id int64, text string, score float64) arrow.RecordBatch {
	t.Helper()
	b := array.NewRecordBuilder(memory.DefaultAllocator, fixtureSchema)
	defer b.Release()
	b.Field(0).(*array.Int64Builder).Append(id)
	b.Field(1).(*array.StringBuilder).Append(text)
	b.Field(2).(*array.Float64Builder).Append(score)
	rec := b.NewRecordBatch()
	t.Cleanup(rec.Release)
	return rec
}

// lookup is the row of a key as byKey gives rows, or its presence.
func lookup(t testing.TB, w *Writer, id int64) string {
	t.Helper()
	s, err := w.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	r, err := s.Lookup(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if r.Presence != Present {
		return r.Presence.String()
	}
	var cells []string
	for i := range s.Schema().NumFields() {
		cells = append(cells, cell(r.Column(i), r.Index))
	}
	return strings.Join(cells, "|")
}

// A log that LanceDB wrote, taken over: what it holds, what is added to it, and
// what a reader that knows the specification alone makes of the whole.
func TestAdopt(t *testing.T) {
	for _, wal := range []bool{false, true} {
		t.Run(fmt.Sprint("WALOnly first ", wal), func(t *testing.T) {
			store := fixture(t, "lance")
			spec := specOf(t, store, fixtureSchema)
			checkSame(t, "before", spec.replay(), fixtureRows)
			before := spec.manifest()

			if wal {
				w := openAs(t, store, fixtureSchema, adopting(func(o *Options) { o.WALOnly = true }))
				mustClose(t, w)
			}
			o := adopting(func(o *Options) {
				o.Indexes = []index.Config{index.Ordered{Name: "by_text", Columns: []index.Column{{Name: "text"}}}}
			})
			w := openAs(t, store, fixtureSchema, o)
			checkSame(t, "adopted", byKey(t, w), fixtureRows)
			for i, want := range fixtureRows {
				if got := lookup(t, w, int64(i+1)); got != want {
					t.Errorf("lookup of %d: %q, want %q", i+1, got, want)
				}
			}
			if got := lookup(t, w, 8); got != "absent" {
				t.Errorf("lookup of 8: %q", got)
			}
			s, err := w.Snapshot()
			if err != nil {
				t.Fatal(err)
			}
			r, err := s.Range(t.Context(), "by_text", index.Range{}, ScanOptions{Columns: []string{"text"}})
			if err != nil {
				t.Fatal(err)
			}
			var texts []string
			for r.Next() {
				for i := range int(r.RecordBatch().NumRows()) {
					texts = append(texts, cell(r.RecordBatch().Column(0), i))
				}
			}
			r.Release()
			s.Close()
			if want := []string{"null", "alpha two", "beta two", "delta", "echo", "foxtrot", "golf"}; !slices.Equal(slices.Sorted(slices.Values(texts)), slices.Sorted(slices.Values(want))) {
				t.Errorf("range over the index: %q", texts)
			}
			// Nine rows are in the log: the next one is number nine.
			ticket, err := w.PutAsync(t.Context(), fixtureBatch(t, 2, "ours", -1))
			if err != nil || ticket.first != 9 {
				t.Fatalf("put: first row %d, %v, want 9", ticket.first, err)
			}
			mustPut(t, w, fixtureBatch(t, 100, "new", 100))
			if err := w.Delete(t.Context(), keysOf(t, 5)); err != nil {
				t.Fatal(err)
			}
			want := slices.Clone(fixtureRows)
			want[1] = "2|ours|-1"
			want = append(slices.Delete(want, 4, 5), "100|new|100")
			checkSame(t, "with ours", byKey(t, w), want)
			mustClose(t, w)
			checkSame(t, "the specification's reader", spec.replay(), want)

			o.Adopt = false
			w = openAs(t, store, fixtureSchema, o)
			checkSame(t, "opened again", byKey(t, w), want)
			if got := lookup(t, w, 5); got != "deleted" {
				t.Errorf("lookup of the deleted row: %q", got)
			}
			if got := w.Stats().Accepted; got != 12 {
				t.Errorf("%d rows in history, want 12", got)
			}
			mustPut(t, w, fixtureBatch(t, 101, "last", 0))
			mustClose(t, w)
			checkSame(t, "the specification's reader at the end", spec.replay(), append(want, "101|last|0"))

			after := spec.manifest()
			if after.epoch <= before.epoch || after.version <= before.version || after.lastSeen < before.lastSeen ||
				after.generation != before.generation || after.shardID != before.shardID || after.replayAfter != 0 || after.status != 0 {
				t.Errorf("manifest was %+v, is %+v", before, after)
			}
		})
	}
}

// Without Adopt nothing at all is written, and with it not where memwal has been before.
func TestF17_AdoptIsAskedFor(t *testing.T) {
	dirs := layoutOf(testShard)
	ours := func(t *testing.T) *lanceLog {
		l := newLanceLog(t)
		l.fence()
		return l
	}
	ourEntry := func(t *testing.T) []byte {
		other := objstore.NewMemory()
		w := mustOpen(t, other, promptOptions())
		mustPut(t, w, seq(t, 0, 1))
		data, err := other.Get(t.Context(), dirs.wal+wal.Name(2))
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	for _, c := range []struct {
		name  string
		adopt bool
		make  func(t *testing.T) objstore.Store
		says  string
	}{
		{"not asked for", false, func(t *testing.T) objstore.Store { return fixture(t, "lance") }, "Options.Adopt"},
		{"fields lost", true, func(t *testing.T) objstore.Store {
			store := objstore.NewMemory()
			mustClose(t, mustOpen(t, store, promptOptions()))
			key, data := newer(t, newestManifest(t, store))
			putRaw(t, store, key, data)
			return store
		}, "had them"},
		{"fields lost, not asked for", false, func(t *testing.T) objstore.Store {
			store := objstore.NewMemory()
			mustClose(t, mustOpen(t, store, promptOptions()))
			key, data := newer(t, newestManifest(t, store))
			putRaw(t, store, key, data)
			return store
		}, "had them"},
		{"an entry of ours", true, func(t *testing.T) objstore.Store {
			l := ours(t)
			putRaw(t, l.store, dirs.wal+wal.Name(2), ourEntry(t))
			return l.store
		}, "WAL entry 2"},
		{"an entry of ours below the floor", true, func(t *testing.T) objstore.Store {
			l := ours(t)
			putRaw(t, l.store, dirs.wal+wal.Name(2), ourEntry(t))
			l.pos = 2
			l.manifest(func(m *manifestpb.ShardManifest) { m.ReplayAfterWalEntryPosition = 2 })
			l.put(testRow{1, "a", 1})
			return l.store
		}, "WAL entry 2"},
		{"marks of recycling", true, func(t *testing.T) objstore.Store {
			l := ours(t)
			putRaw(t, l.store, dirs.gc+"wal.boundary/00000000000000000001", nil)
			return l.store
		}, "gc/"},
		{"positions from 0", true, func(t *testing.T) objstore.Store {
			l := ours(t)
			putRaw(t, l.store, dirs.wal+reversed(0)+".arrow", []byte("an entry"))
			return l.store
		}, "position 0"},
		{"generations", true, func(t *testing.T) objstore.Store {
			l := ours(t)
			l.manifest(func(m *manifestpb.ShardManifest) {
				m.FlushedGenerations = []*manifestpb.FlushedGeneration{{Generation: 1, Path: "0a0b0c0d_gen_1"}}
				m.CurrentGeneration, m.ReplayAfterWalEntryPosition = 2, 1
			})
			return l.store
		}, "0a0b0c0d_gen_1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			store := over(c.make(t))
			before := contents(t, store, "")
			s := testSchema
			if c.name == "not asked for" {
				s = fixtureSchema
			}
			_, err := Open(t.Context(), store, testShard, s, adopting(func(o *Options) { o.Adopt = c.adopt }))
			if !errors.Is(err, ErrForeignWriter) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("open: %v, want ErrForeignWriter that says %q", err, c.says)
			}
			checkNoPuts(t, store)
			checkUntouched(t, store, before)
		})
	}
}

func checkNoPuts(t testing.TB, s *testStore) {
	t.Helper()
	for _, op := range []objstore.Op{objstore.OpPut, objstore.OpPutIfAbsent, objstore.OpDelete} {
		if n := s.count(op, ""); n != 0 {
			t.Errorf("%d requests of kind %s", n, op)
		}
	}
}

// An adoption that cannot succeed leaves the shard, and with it the other
// program's writer, alone.
func TestF03_DoomedAdoptionLeavesTheShardAlone(t *testing.T) {
	i64, text := arrow.PrimitiveTypes.Int64, arrow.BinaryTypes.String
	with := func(fields ...arrow.Field) *arrow.Schema { return arrow.NewSchema(fields, nil) }
	id, txt, n := testSchema.Field(0), testSchema.Field(1), testSchema.Field(2)
	required := func(f arrow.Field) arrow.Field { f.Nullable = false; return f }
	typed := func(f arrow.Field, dt arrow.DataType) arrow.Field { f.Type = dt; return f }
	named := func(f arrow.Field, name string) arrow.Field { f.Name = name; return f }
	deleteWAL := func(l *lanceLog, pos uint64) { deleteRaw(l.t, l.store, layoutOf(testShard).wal+wal.Name(pos)) }
	for _, c := range []struct {
		name   string
		log    func(*lanceLog) // added to a log with two entries
		schema *arrow.Schema
		o      func(*Options)
		want   error
		says   string
	}{
		{name: "no primary key", o: func(o *Options) { o.PrimaryKey = nil }, want: ErrInvalid, says: "primary key"},
		{name: "another primary key", o: func(o *Options) { o.PrimaryKey = []string{"n"} }, want: ErrInvalid, says: `["id"]`},
		{name: "a larger primary key", o: func(o *Options) { o.PrimaryKey = []string{"id", "n"} }, want: ErrInvalid, says: `["id"]`},
		{name: "changed type", schema: with(id, typed(txt, arrow.BinaryTypes.LargeString), n), want: ErrInvalid, says: `"text"`},
		{name: "changed type of the key", schema: with(typed(id, arrow.PrimitiveTypes.Int32), txt, n), want: ErrInvalid, says: `"id"`},
		{name: "renamed key", schema: with(named(id, "key"), txt, n), o: func(o *Options) { o.PrimaryKey = []string{"key"} }, want: ErrInvalid, says: `"key"`},
		{name: "column left out", schema: with(id, txt), want: ErrInvalid, says: `"n"`},
		{name: "columns exchanged", schema: with(id, n, txt), want: ErrInvalid, says: "order"},
		{name: "new required column", schema: with(id, txt, n, arrow.Field{Name: "m", Type: i64}), want: ErrInvalid, says: `"m"`},
		{name: "null in a required column", schema: with(id, required(txt), n), want: ErrInvalid, says: "WAL entry 3",
			log: func(l *lanceLog) {
				b := array.NewStringBuilder(memory.DefaultAllocator)
				b.AppendNull()
				r := l.rows(testRow{8, "x", 1})
				l.batch([]arrow.Array{r.Column(0), b.NewArray(), r.Column(2), r.Column(3)})
			}},
		{name: "a later entry of another type", want: ErrInvalid, says: "WAL entry 3", log: func(l *lanceLog) {
			fields := lanceColumns()
			fields[2].Type = text
			l.schema = arrow.NewSchema(fields, nil)
			b := array.NewStringBuilder(memory.DefaultAllocator)
			b.Append("ten")
			ids := array.NewInt64Builder(memory.DefaultAllocator)
			ids.Append(9)
			deleted := array.NewBooleanBuilder(memory.DefaultAllocator)
			deleted.Append(false)
			s := b.NewArray()
			l.batch([]arrow.Array{ids.NewArray(), s, s, deleted.NewArray()})
		}},
		{name: "a later entry without a key column", want: ErrInvalid, says: "WAL entry 3", log: func(l *lanceLog) {
			r := l.rows(testRow{9, "x", 1})
			l.schema = arrow.NewSchema(lanceColumns()[1:], nil)
			l.batch(r.Columns()[1:])
		}},
		{name: "a place in the key that is no number", want: ErrInvalid, says: `the place "first" in the primary key, expected a number`, log: func(l *lanceLog) {
			fields := lanceColumns()
			fields[0].Metadata = arrow.NewMetadata([]string{lanceKeyPosition}, []string{"first"})
			fields[2].Nullable = !fields[2].Nullable // or the columns would count as those of the entry before
			l.schema = arrow.NewSchema(fields, nil)
			l.put(testRow{9, "x", 1})
		}},
		{name: "null in a key column", want: ErrInvalid, says: "WAL entry 3", log: func(l *lanceLog) {
			fields := lanceColumns()
			fields[0].Nullable = true
			l.schema = arrow.NewSchema(fields, nil)
			ids := array.NewInt64Builder(memory.DefaultAllocator)
			ids.AppendNull()
			r := l.rows(testRow{9, "x", 1})
			l.batch(append([]arrow.Array{ids.NewArray()}, r.Columns()[1:]...))
		}},
		{name: "a key that the index rejects", want: ErrInvalid, says: "WAL entry 3",
			o: func(o *Options) {
				o.Indexes = []index.Config{index.Ordered{Name: "by_text", Columns: []index.Column{{Name: "text"}}}}
			},
			log: func(l *lanceLog) { l.put(testRow{9, strings.Repeat("x", 1<<17), 1}) }},
		{name: "field ids exchanged", want: ErrInvalid, says: "field id", log: func(l *lanceLog) {
			fields := lanceColumns()
			fields[1].Metadata = arrow.NewMetadata([]string{FieldIDKey}, []string{"3"})
			l.schema = arrow.NewSchema(fields, nil)
			l.put(testRow{9, "x", 1})
		}},
		{name: "damaged entry", want: ErrCorrupt, says: "3", log: func(l *lanceLog) {
			b := l.body(1, l.rows(testRow{9, "x", 1}))
			l.next(b[:len(b)/2])
		}},
		{name: "entry of a fenced writer", want: ErrCorrupt, says: "epoch 1", log: func(l *lanceLog) {
			l.manifest(func(m *manifestpb.ShardManifest) { m.WriterEpoch = 2 })
			l.fence()
			l.next(l.body(1, l.rows(testRow{9, "x", 1})))
		}},
		{name: "entry of an epoch that nobody claimed", want: ErrCorrupt, says: "epoch 4", log: func(l *lanceLog) { l.next(l.body(4, l.rows(testRow{9, "x", 1}))) }},
		{name: "hole", want: ErrHole, says: "2", log: func(l *lanceLog) { l.put(testRow{9, "x", 1}); deleteWAL(l, 2) }},
		{name: "hole below a fence", want: ErrHole, says: "2", log: func(l *lanceLog) {
			l.manifest(func(m *manifestpb.ShardManifest) { m.WriterEpoch = 2 })
			l.fence()
			deleteWAL(l, 2)
		}},
		{name: "end is gone", want: ErrHole, says: "2", log: func(l *lanceLog) {
			l.manifest(func(m *manifestpb.ShardManifest) { m.WalEntryPositionLastSeen = 2 })
			deleteWAL(l, 2)
		}},
		{name: "sealed", want: ErrSealed, says: "the program that began it", log: func(l *lanceLog) {
			l.manifest(func(m *manifestpb.ShardManifest) { m.Status = manifestpb.ShardStatus_SEALED })
		}},
		{name: "options", o: func(o *Options) { o.FlushBytes = -1 }, want: ErrInvalid},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLanceLog(t)
			l.put(testRow{1, "one", 10}, testRow{2, "two", 20})
			l.put(testRow{1, "deleted", 0})
			if c.log != nil {
				c.log(l)
			}
			s := testSchema
			if c.schema != nil {
				s = c.schema
			}
			store := over(l.store)
			before := contents(t, store, "")
			w, err := Open(t.Context(), store, testShard, s, adopting(c.o))
			if err == nil {
				w.Abort()
			}
			if !errors.Is(err, c.want) || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("open: %v, want %v that says %q", err, c.want, c.says)
			}
			checkNoPuts(t, store)
			checkUntouched(t, store, before)
		})
	}
	for _, c := range []func() error{
		func() error { return SealShard(t.Context(), fixture(t, "lance"), testShard, nil) },
		func() error { return SealShard(t.Context(), fixture(t, "lance"), testShard, adopting(nil)) },
	} {
		if err := c(); !errors.Is(err, ErrForeignWriter) {
			t.Errorf("seal: %v, want ErrForeignWriter", err)
		}
	}
}

// What may be in a log: no mark of deletes (older writers), no key recorded, deletes,
// columns of the table's that later entries have, a floor, a shard without entries.
func TestAdoptLogs(t *testing.T) {
	for _, c := range []struct {
		name string
		log  func(*lanceLog)
		o    func(*Options)
		want []string
		rows uint64 // in history, from the floor
	}{
		{name: "nothing", log: func(*lanceLog) {}},
		{name: "only a fence", log: func(l *lanceLog) { l.fence() }},
		{name: "deletes", rows: 5, want: []string{"2|b|2", "3|again|4"}, log: func(l *lanceLog) {
			l.put(testRow{1, "a", 1}, testRow{2, "b", 2})
			l.put(testRow{1, "deleted", 0}, testRow{3, "c", 3}, testRow{3, "again", 4})
		}},
		{name: "no mark of deletes", rows: 2, want: []string{"1|b|2"}, log: func(l *lanceLog) {
			l.schema = arrow.NewSchema(lanceColumns()[:3], nil)
			l.put(testRow{1, "a", 1}, testRow{1, "b", 2})
		}},
		{name: "no key recorded", rows: 1, want: []string{"1|a|1"}, log: func(l *lanceLog) {
			fields := lanceColumns()
			fields[0].Metadata = arrow.Metadata{}
			l.schema = arrow.NewSchema(fields, nil)
			l.put(testRow{1, "a", 1})
		}},
		{name: "append-only", rows: 2, want: []string{"1|a|1", "1|b|2"}, o: func(o *Options) { o.PrimaryKey = nil }, log: func(l *lanceLog) {
			fields := lanceColumns()[:3]
			fields[0].Metadata = arrow.Metadata{}
			l.schema = arrow.NewSchema(fields, nil)
			l.put(testRow{1, "a", 1}, testRow{1, "b", 2})
		}},
		{name: "the old way to record a key", rows: 1, want: []string{"1|a|1"}, log: func(l *lanceLog) {
			fields := lanceColumns()
			fields[0].Metadata = arrow.NewMetadata([]string{lanceKeyMark}, []string{"true"})
			l.schema = arrow.NewSchema(fields, nil)
			l.put(testRow{1, "a", 1})
		}},
		{name: "a column came later", rows: 2, want: []string{"1|a|null", "2|b|2"}, log: func(l *lanceLog) {
			r := l.rows(testRow{1, "a", 1})
			all := l.schema
			fields := lanceColumns()
			l.schema = arrow.NewSchema(append(slices.Clone(fields[:2]), fields[3]), nil)
			l.batch([]arrow.Array{r.Column(0), r.Column(1), r.Column(3)})
			l.schema = all
			l.put(testRow{2, "b", 2})
		}},
		{name: "above a floor", rows: 2, want: []string{"1|c|3", "2|b|2"}, log: func(l *lanceLog) {
			l.put(testRow{1, "merged into the table", 0}, testRow{8, "this too", 0})
			l.put(testRow{9, "and this", 0})
			l.manifest(func(m *manifestpb.ShardManifest) {
				m.ReplayAfterWalEntryPosition, m.CurrentGeneration, m.WalEntryPositionLastSeen = 2, 5, 2
			})
			l.put(testRow{2, "b", 2}, testRow{1, "c", 3})
			deleteRaw(l.t, l.store, layoutOf(testShard).wal+wal.Name(1))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLanceLog(t)
			c.log(l)
			o := adopting(c.o)
			w := openAs(t, l.store, testSchema, o)
			checkSame(t, "adopted", byKey(t, w), c.want)
			if got := w.Stats().Accepted; got != c.rows {
				t.Errorf("%d rows in history, want %d", got, c.rows)
			}
			ticket, err := w.PutAsync(t.Context(), seq(t, 50, 1))
			if err != nil || ticket.first != c.rows {
				t.Errorf("the next row has number %d, %v, want %d", ticket.first, err, c.rows)
			}
			mustClose(t, w)
			want := append(slices.Clone(c.want), "50|row 50|500")
			o.Adopt = false
			checkSame(t, "opened again", byKey(t, openAs(t, l.store, testSchema, o)), want)
			m := newestManifest(t, l.store)
			if f := m.RowsFloor(); f.Position != l.last.ReplayAfterWalEntryPosition || f.NextRow != 0 ||
				m.Generation != l.last.CurrentGeneration || m.ShardSpecID != 3 || m.Epoch != 3 {
				t.Errorf("manifest: %+v", m)
			}
		})
	}
}

// Fields that memwal does not know survive, in whatever part of the message.
func TestAdoptKeepsUnknownFields(t *testing.T) {
	l := newLanceLog(t)
	l.manifest(func(m *manifestpb.ShardManifest) {
		unknown := protowire.AppendTag(nil, 14, protowire.BytesType) // shard_field_entries
		unknown = protowire.AppendBytes(unknown, []byte("of the sharding"))
		unknown = protowire.AppendTag(unknown, 77, protowire.VarintType)
		unknown = protowire.AppendVarint(unknown, 4711)
		m.ProtoReflect().SetUnknown(unknown)
	})
	mustClose(t, openAs(t, l.store, testSchema, adopting(nil)))
	mustClose(t, openAs(t, l.store, testSchema, adopting(nil)))
	data, err := l.store.Get(t.Context(), layoutOf(testShard).manifest+manifest.Name(newestManifest(t, l.store).Version))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"of the sharding", string(protowire.AppendVarint(protowire.AppendTag(nil, 77, protowire.VarintType), 4711))} {
		if !bytes.Contains(data, []byte(want)) {
			t.Errorf("the manifest lacks %q", want)
		}
	}
}

// Entries of the other program have no field ids. Their values follow a column that
// is renamed, and do not turn up in a new one that has its old name.
func TestR07_ColumnsOfAdoptedRows(t *testing.T) {
	l := newLanceLog(t)
	l.put(testRow{1, "a", 1}, testRow{2, "b", 2})
	w := openAs(t, l.store, testSchema, adopting(nil))
	mustPut(t, w, batchOf(t, testRow{3, "c", 3}))
	mustClose(t, w)
	field := func(name string, dt arrow.DataType, id string) arrow.Field {
		f := arrow.Field{Name: name, Type: dt, Nullable: true}
		if id != "" {
			f.Metadata = arrow.NewMetadata([]string{FieldIDKey}, []string{id})
		}
		return f
	}
	i64, text := arrow.PrimitiveTypes.Int64, arrow.BinaryTypes.String
	for _, step := range []struct {
		fields []arrow.Field
		want   []string
	}{
		{[]arrow.Field{field("body", text, "2"), field("n", i64, "")}, []string{"1|a|1", "2|b|2", "3|c|3"}},
		{[]arrow.Field{field("n", i64, ""), field("body", text, "")}, []string{"1|1|a", "2|2|b", "3|3|c"}},
		{[]arrow.Field{field("body", text, ""), field("text", text, "")}, []string{"1|a|null", "2|b|null", "3|c|null"}}, // n is dropped
		{[]arrow.Field{field("body", text, ""), field("n", i64, "")}, []string{"1|a|null", "2|b|null", "3|c|null"}},
	} {
		s := arrow.NewSchema(append([]arrow.Field{testSchema.Field(0)}, step.fields...), nil)
		w := openAs(t, l.store, s, &Options{PrimaryKey: []string{"id"}})
		checkSame(t, fmt.Sprint(s), byKey(t, w), step.want)
		mustClose(t, w)
	}
}

// The other program is at work: what it appends until the fence stands counts, and
// afterwards it finds its position taken and a later epoch in the manifest.
func TestAdoptFencesTheRunningWriter(t *testing.T) {
	claims := layoutOf(testShard).manifest + manifest.Name(2)
	for _, c := range []struct {
		name string
		op   objstore.Op
		part string
	}{
		{"before the claim", objstore.OpPutIfAbsent, claims},
		{"before the fence", objstore.OpPutIfAbsent, "/wal/"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLanceLog(t)
			l.put(testRow{1, "a", 1})
			store := over(l.store)
			store.on(c.op, c.part, 1, func(_ context.Context, apply func() error) error {
				l.put(testRow{2, "while it is adopted", 2})
				return apply()
			})
			w := openAs(t, store, testSchema, adopting(nil))
			checkSame(t, "adopted", byKey(t, w), []string{"1|a|1", "2|while it is adopted|2"})
			_, err := l.store.PutIfAbsent(t.Context(), layoutOf(testShard).wal+wal.Name(l.pos+1), objstore.Body{l.body(1, l.rows(testRow{3, "c", 3}))})
			if !errors.Is(err, objstore.ErrExists) {
				t.Errorf("the next put of the other program: %v, want ErrExists", err)
			}
			if m := specOf(t, store, testSchema).manifest(); m.epoch != 2 {
				t.Errorf("it reads epoch %d", m.epoch)
			}
		})
	}
	t.Run("flushes a generation before the claim", func(t *testing.T) {
		l := newLanceLog(t)
		l.put(testRow{1, "a", 1})
		store := over(l.store)
		store.on(objstore.OpPutIfAbsent, claims, 1, func(_ context.Context, apply func() error) error {
			l.manifest(func(m *manifestpb.ShardManifest) {
				m.FlushedGenerations = []*manifestpb.FlushedGeneration{{Generation: 1, Path: "gen"}}
				m.ReplayAfterWalEntryPosition = 1
			})
			return apply()
		})
		if _, err := Open(t.Context(), store, testShard, testSchema, adopting(nil)); !errors.Is(err, ErrForeignWriter) {
			t.Errorf("open: %v, want ErrForeignWriter", err)
		}
		checkUntouchedLog(t, store, l.pos)
	})
	t.Run("takes the shard back", func(t *testing.T) {
		l := newLanceLog(t)
		l.put(testRow{1, "a", 1})
		w := openAs(t, l.store, testSchema, adopting(nil))
		mustPut(t, w, batchOf(t, testRow{2, "b", 2}))
		l.last.Version = newestManifest(t, l.store).Version
		l.manifest(func(m *manifestpb.ShardManifest) { m.WriterEpoch = 3 })
		l.pos = 3
		l.fence()
		if err := w.Put(t.Context(), batchOf(t, testRow{3, "c", 3})); !errors.Is(err, ErrFenced) {
			t.Errorf("put: %v, want ErrFenced", err)
		}
		for _, o := range []*Options{adopting(nil), promptOptions()} {
			if _, err := Open(t.Context(), l.store, testShard, testSchema, o); !errors.Is(err, ErrForeignWriter) {
				t.Errorf("open: %v, want ErrForeignWriter", err)
			}
		}
	})
}

// checkUntouchedLog fails if the log has entries above pos.
func checkUntouchedLog(t testing.TB, s objstore.Store, pos uint64) {
	t.Helper()
	if _, err := s.Head(t.Context(), layoutOf(testShard).wal+wal.Name(pos+1)); !errors.Is(err, objstore.ErrNotExist) {
		t.Errorf("an entry was put at position %d (%v)", pos+1, err)
	}
}

// The manifest moves while the log is read: what looked damaged is looked at again.
func TestAdoptStartsOverWhenTheShardMoves(t *testing.T) {
	l := newLanceLog(t)
	l.put(testRow{1, "a", 1})
	l.put(testRow{2, "b", 2})
	l.put(testRow{3, "c", 3})
	store := over(l.store)
	// Lance merges what is below position 3 into its table, and its log is trimmed,
	// while the adopter is about to read position 2.
	store.on(objstore.OpGet, layoutOf(testShard).wal+wal.Name(2), 1, func(_ context.Context, apply func() error) error {
		l.manifest(func(m *manifestpb.ShardManifest) { m.ReplayAfterWalEntryPosition = 2 })
		deleteRaw(t, l.store, layoutOf(testShard).wal+wal.Name(1))
		deleteRaw(t, l.store, layoutOf(testShard).wal+wal.Name(2))
		return apply()
	})
	w := openAs(t, store, testSchema, adopting(nil))
	checkSame(t, "adopted", byKey(t, w), []string{"3|c|3"})
}

// Two adopt the shard at once. One of them is its owner at the end, and neither
// loses a row.
func TestAdoptRace(t *testing.T) {
	for range 20 {
		store := fixture(t, "lance")
		var mu sync.Mutex
		var wg sync.WaitGroup
		var open []*Writer
		for i := range 2 {
			wg.Go(func() {
				w, err := Open(t.Context(), store, testShard, fixtureSchema, adopting(nil))
				if err != nil {
					if !errors.Is(err, ErrFenced) {
						t.Errorf("open: %v", err)
					}
					return
				}
				err = w.Put(t.Context(), fixtureBatch(t, int64(200+i), "racer", 0))
				if err != nil && !errors.Is(err, ErrFenced) {
					t.Errorf("put: %v", err)
				}
				mu.Lock()
				defer mu.Unlock()
				open = append(open, w)
			})
		}
		wg.Wait()
		for _, w := range open {
			w.Abort()
		}
		w := openAs(t, store, fixtureSchema, &Options{PrimaryKey: []string{"id"}})
		got := byKey(t, w)
		checkSame(t, "after the race", got[:min(len(got), len(fixtureRows))], fixtureRows)
		if len(got) < len(fixtureRows)+1 {
			t.Errorf("no racer's row is there")
		}
		mustClose(t, w)
		checkSame(t, "the specification's reader", specOf(t, store, fixtureSchema).replay(), got)
	}
}

// The adopter dies at each request. Whether the shard was claimed or not, the next
// one finds every row once.
func TestR13_AdoptionCrashesAtEachRequest(t *testing.T) {
	for _, mode := range []string{"before", "after", "late"} {
		t.Run(mode, func(t *testing.T) {
			for k := int64(1); ; k++ {
				died := false
				synctest.Test(t, func(t *testing.T) {
					store := fixture(t, "lance")
					c := &crash{Store: store, k: k, mode: mode}
					w, err := Open(t.Context(), c, testShard, fixtureSchema, adopting(nil))
					if err == nil {
						w.Abort()
					}
					if died = c.dead(); !died {
						return
					}
					w = openAs(t, store, fixtureSchema, adopting(nil))
					checkSame(t, "adopted again", byKey(t, w), fixtureRows)
					ticket, err := w.PutAsync(t.Context(), fixtureBatch(t, 8, "ours", 8))
					if err != nil || ticket.first != 9 {
						t.Errorf("the next row has number %d, %v, want 9", ticket.first, err)
					}
					mustClose(t, w)
					c.arrive()
					want := append(slices.Clone(fixtureRows), "8|ours|8")
					w = openAs(t, store, fixtureSchema, &Options{PrimaryKey: []string{"id"}})
					checkSame(t, "opened again", byKey(t, w), want)
					mustClose(t, w)
					checkSame(t, "the specification's reader", specOf(t, store, fixtureSchema).replay(), want)
				})
				if !died {
					if k < 15 {
						t.Errorf("an adoption makes %d requests only", k-1)
					}
					return
				}
				if t.Failed() {
					t.Fatalf("the adopter died at request %d", k)
				}
			}
		})
	}
}

// Every store keeps the rule that nothing is written without Adopt, and takes one over with it.
func TestAdoptOnEveryStore(t *testing.T) {
	onEveryStore(t, func(t *testing.T, store objstore.Store) {
		for key, data := range contents(t, fixture(t, "lance"), "") {
			putRaw(t, store, key, []byte(data))
		}
		w := openAs(t, store, fixtureSchema, adopting(nil))
		checkSame(t, "adopted", byKey(t, w), fixtureRows)
		mustPut(t, w, fixtureBatch(t, 8, "ours", 8))
		mustClose(t, w)
		checkSame(t, "the specification's reader", specOf(t, store, fixtureSchema).replay(), append(slices.Clone(fixtureRows), "8|ours|8"))
	})
}

// The fixture under its own id, as it was written.
func TestAdoptUnderItsOwnID(t *testing.T) {
	shard := uuid.MustParse("aa48498d-ac91-59e2-8452-69f46010ace2")
	store := objstore.NewMemory()
	for key, data := range contents(t, fixture(t, "lance"), "") {
		putRaw(t, store, layoutOf(shard).root+strings.TrimPrefix(key, layoutOf(testShard).root), []byte(data))
	}
	w, err := Open(t.Context(), store, shard, fixtureSchema, adopting(nil))
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	checkSame(t, "adopted", byKey(t, w), fixtureRows)
}

// A reader that was opened on the other program's log has numbered the columns
// itself. When the shard is adopted under it, it says so instead of taking one column
// for another.
func TestReaderOfAShardThatIsAdopted(t *testing.T) {
	text := arrow.BinaryTypes.String
	fields := []arrow.Field{testSchema.Field(0), {Name: "a", Type: text, Nullable: true}, {Name: "b", Type: text, Nullable: true}}
	l := newLanceLog(t)
	r := l.rows(testRow{1, "A", 0})
	columns := lanceColumns()
	l.schema = arrow.NewSchema([]arrow.Field{columns[0], fields[1], fields[2], columns[3]}, nil)
	l.batch([]arrow.Array{r.Column(0), r.Column(1), r.Column(1), r.Column(3)})

	exchanged := arrow.NewSchema([]arrow.Field{fields[0], fields[2], fields[1]}, nil)
	store := over(l.store)
	reader, err := OpenReader(t.Context(), store, testShard, &ReaderOptions{Schema: exchanged})
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	w := openAs(t, l.store, arrow.NewSchema(fields, nil), adopting(nil))
	b := array.NewStringBuilder(memory.DefaultAllocator)
	b.Append("B")
	rec := array.NewRecordBatch(w.Schema(), []arrow.Array{r.Column(0), r.Column(1), b.NewArray()}, 1)
	defer rec.Release()
	mustPut(t, w, rec)
	for range 2 {
		if err := reader.Refresh(t.Context()); !errors.Is(err, ErrAdopted) {
			t.Fatalf("refresh: %v, want ErrAdopted", err)
		}
	}
	if n := reader.Bound(); n != 1 {
		t.Errorf("the reader shows %d rows, want the one that it had", n)
	}
	for _, err := range reader.Follow(t.Context(), 1) {
		if !errors.Is(err, ErrAdopted) {
			t.Fatalf("follow: %v, want ErrAdopted", err)
		}
	}
	check := func(r *Reader) {
		t.Helper()
		s, err := r.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		row, err := s.Lookup(t.Context(), int64(1))
		if err != nil || row.Presence != Present || cell(row.Column(1), row.Index) != "B" || cell(row.Column(2), row.Index) != "A" {
			t.Errorf("lookup: %v, %v", row, err)
		}
	}
	again, err := OpenReader(t.Context(), store, testShard, &ReaderOptions{Schema: exchanged})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	check(again)

	// Adopted while a reader is being opened.
	l = newLanceLog(t)
	l.put(testRow{1, "x", 1})
	store = over(l.store)
	store.on(objstore.OpGet, layoutOf(testShard).wal, 1, func(_ context.Context, apply func() error) error {
		mustClose(t, openAs(t, l.store, testSchema, adopting(nil)))
		return apply()
	})
	racing, err := OpenReader(t.Context(), store, testShard, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer racing.Close()
	if racing.Bound() != 1 {
		t.Errorf("%d rows", racing.Bound())
	}
	for i, f := range racing.Schema().Fields() {
		want := map[string]string{FieldIDKey: strconv.Itoa(i + 1)}
		if got := f.Metadata.ToMap(); !maps.Equal(got, want) {
			t.Errorf("field %q has metadata %v, want %v: the rest is of no concern to users", f.Name, got, want)
		}
	}
}
