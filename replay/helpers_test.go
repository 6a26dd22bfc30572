package replay

import (
	"context"
	"fmt"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/memwal/memwal-go/internal/schema"
	"github.com/memwal/memwal-go/internal/wal"
	"github.com/memwal/memwal-go/objstore"
)

const testDir = "wal/"

// storageOf is the storage schema of a table without a key.
func storageOf(t testing.TB, user *arrow.Schema, prev *schema.Table) *schema.Table {
	t.Helper()
	table, err := schema.Storage(user, nil, prev)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

var userSchema = arrow.NewSchema([]arrow.Field{
	{Name: "n", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
	{Name: "s", Type: arrow.BinaryTypes.String, Nullable: true},
}, nil)

// builder writes a log, object by object.
type builder struct {
	t      testing.TB
	store  objstore.Store
	schema *arrow.Schema
	encode wal.EncodeOptions
	at     wal.Tuple // of the live log
	pos    uint64    // of the last object
}

// newBuilder starts with the fence of epoch 1 at position 1.
func newBuilder(t testing.TB) *builder {
	b := &builder{t: t, store: objstore.NewMemory(), schema: storageOf(t, userSchema, nil).Schema, at: wal.Start()}
	b.fence(1)
	return b
}

func (b *builder) put(body objstore.Body) {
	b.t.Helper()
	b.pos++
	if _, err := b.store.PutIfAbsent(context.Background(), testDir+wal.Name(b.pos), body); err != nil {
		b.t.Fatal(err)
	}
}

// skip leaves n positions empty.
func (b *builder) skip(n uint64) *builder {
	b.pos += n
	return b
}

// fence puts a live fence.
func (b *builder) fence(epoch uint64) *builder {
	b.t.Helper()
	h := wal.Header{Epoch: epoch, PutID: wal.NewPutID(), PrevPutID: b.at.PutID, FirstRow: b.at.NextRow, Fence: true}
	body, err := wal.EncodeFence(h)
	if err != nil {
		b.t.Fatal(err)
	}
	b.put(body)
	b.at.Epoch, b.at.PutID, b.at.Position = epoch, h.PutID, b.pos
	return b
}

// data puts a live entry with rows of the generation in force.
func (b *builder) data(rows int) *builder {
	b.t.Helper()
	h := wal.Header{
		Epoch: b.at.Epoch, PutID: wal.NewPutID(), PrevPutID: b.at.PutID,
		FirstRow: b.at.NextRow, Generation: b.at.Generation,
	}
	b.entry(h, rows)
	b.at.PutID, b.at.NextRow, b.at.Position = h.PutID, b.at.NextRow+uint64(rows), b.pos
	return b
}

// dead puts an entry of the epoch that follows nothing that is there.
func (b *builder) dead(epoch uint64, rows int) *builder {
	b.t.Helper()
	b.entry(wal.Header{Epoch: epoch, PutID: wal.NewPutID(), PrevPutID: wal.NewPutID(), FirstRow: b.at.NextRow, Generation: 1}, rows)
	return b
}

// generation sets what the entries after it record.
func (b *builder) generation(g uint64) *builder {
	b.at.Generation = g
	return b
}

func (b *builder) entry(h wal.Header, rows int) {
	b.t.Helper()
	var recs []arrow.RecordBatch
	if rows > 0 {
		rec := b.batch(int64(h.FirstRow), rows)
		defer rec.Release()
		recs = append(recs, rec)
	}
	enc, err := wal.Encode(h, b.schema, recs, nil, b.encode)
	if err != nil {
		b.t.Fatal(err)
	}
	defer enc.Release()
	b.put(enc.Body)
}

// batch makes rows of b.schema. Int64 columns count rows from first on, texts
// name them, others are null.
func (b *builder) batch(first int64, rows int) arrow.RecordBatch {
	r := array.NewRecordBuilder(memory.DefaultAllocator, b.schema)
	defer r.Release()
	for i := range int64(rows) {
		for c := range b.schema.NumFields() {
			switch f := r.Field(c).(type) {
			case *array.Int64Builder:
				f.Append(first + i)
			case *array.StringBuilder:
				f.Append(fmt.Sprintf("row %d", first+i))
			default:
				f.AppendNull()
			}
		}
	}
	return r.NewRecordBatch()
}

func (b *builder) list() Listing {
	b.t.Helper()
	l, err := List(context.Background(), b.store, testDir)
	if err != nil {
		b.t.Fatal(err)
	}
	return l
}

// config is what a walker over the whole log needs.
func (b *builder) config() Config {
	return Config{Store: b.store, Dir: testDir, From: wal.Start(), Listed: b.list()}
}

// walk runs a walker to the first empty position and tells what it met, one
// letter for each position: F a live fence, L a live entry, - a dead object.
func walk(t testing.TB, w *Walker) (string, error) {
	t.Helper()
	var met []byte
	for {
		s, err := w.Next(t.Context())
		if err != nil || s == nil {
			return string(met), err
		}
		if want := w.Position() - 1; s.Position != want {
			t.Errorf("position %d, want %d", s.Position, want)
		}
		switch {
		case s.Live && s.Entry.Header.Fence:
			met = append(met, 'F')
		case s.Live:
			met = append(met, 'L')
		default:
			met = append(met, '-')
		}
		s.Entry.Release()
	}
}
