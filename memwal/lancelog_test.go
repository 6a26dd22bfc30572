package memwal

import (
	"bytes"
	"io/fs"
	"os"
	"strconv"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"google.golang.org/protobuf/proto"

	"github.com/memwal/memwal-go/internal/manifest"
	"github.com/memwal/memwal-go/internal/manifest/manifestpb"
	"github.com/memwal/memwal-go/internal/wal"
	"github.com/memwal/memwal-go/objstore"
)

// fixture copies a shard that LanceDB wrote to the place of the test shard.
func fixture(t testing.TB, dir string) objstore.Store {
	t.Helper()
	store := objstore.NewMemory()
	root := os.DirFS("testdata/" + dir + "/_mem_wal/aa48498d-ac91-59e2-8452-69f46010ace2")
	err := fs.WalkDir(root, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(root, path)
		putRaw(t, store, layoutOf(testShard).root+path, data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// fixtureSchema is the schema of the shard in testdata/lance, fixtureRows what a
// reader sees of it.
var (
	fixtureSchema = arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64},
		{Name: "text", Type: arrow.BinaryTypes.String, Nullable: true},
		{Name: "score", Type: arrow.PrimitiveTypes.Float64, Nullable: true},
	}, nil)
	fixtureRows = []string{
		"1|alpha two|10", "2|beta two|2.5", "3|null|3.25", "4|delta|4", "5|echo|5", "6|foxtrot|6", "7|golf|7",
	}
)

// lanceLog writes the test shard as Lance does.
type lanceLog struct {
	t      testing.TB
	store  objstore.Store
	schema *arrow.Schema // of the rows, the mark of deletes included
	pos    uint64        // of the last entry
	last   *manifestpb.ShardManifest
}

// lanceColumns are those of testSchema as Lance stores them.
func lanceColumns() []arrow.Field {
	fields := testSchema.Fields()
	fields[0].Metadata = arrow.NewMetadata([]string{lanceKeyPosition}, []string{"1"})
	return append(fields, arrow.Field{Name: "_tombstone", Type: arrow.FixedWidthTypes.Boolean})
}

// newLanceLog begins a shard with the manifest of epoch 1.
func newLanceLog(t testing.TB) *lanceLog {
	l := &lanceLog{
		t: t, store: objstore.NewMemory(), schema: arrow.NewSchema(lanceColumns(), nil),
		last: &manifestpb.ShardManifest{CurrentGeneration: 1, ShardSpecId: 3, ShardId: &manifestpb.UUID{Uuid: testShard[:]}},
	}
	l.manifest(func(m *manifestpb.ShardManifest) { m.WriterEpoch = 1 })
	return l
}

// manifest commits the next version.
func (l *lanceLog) manifest(change func(*manifestpb.ShardManifest)) {
	l.t.Helper()
	l.last.Version++
	change(l.last)
	data, err := proto.Marshal(l.last)
	if err != nil {
		l.t.Fatal(err)
	}
	putRaw(l.t, l.store, layoutOf(testShard).manifest+manifest.Name(l.last.Version), data)
}

// body is an entry with batches; a fence has none.
func (l *lanceLog) body(epoch uint64, recs ...arrow.RecordBatch) []byte {
	l.t.Helper()
	keys, values := []string{"writer_epoch"}, []string{strconv.FormatUint(epoch, 10)}
	fields := l.schema.Fields()
	if len(recs) == 0 {
		keys, values, fields = append(keys, "fence_sentinel"), append(values, "true"), nil
	}
	md := arrow.NewMetadata(keys, values)
	var buf bytes.Buffer
	w := ipc.NewWriter(&buf, ipc.WithSchema(arrow.NewSchema(fields, &md)))
	for _, r := range recs {
		r = array.NewRecordBatch(arrow.NewSchema(fields, &md), r.Columns(), r.NumRows())
		defer r.Release()
		if err := w.Write(r); err != nil {
			l.t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		l.t.Fatal(err)
	}
	return buf.Bytes()
}

// rows makes a batch; a row whose text is "deleted" is a delete.
func (l *lanceLog) rows(rows ...testRow) arrow.RecordBatch {
	b := array.NewRecordBuilder(memory.DefaultAllocator, l.schema)
	defer b.Release()
	for _, r := range rows {
		b.Field(0).(*array.Int64Builder).Append(r.id)
		dead := r.text == "deleted"
		if dead {
			b.Field(1).AppendNull()
			b.Field(2).AppendNull()
		} else {
			b.Field(1).(*array.StringBuilder).Append(r.text)
			b.Field(2).(*array.Int64Builder).Append(r.n)
		}
		if len(b.Fields()) > 3 {
			b.Field(3).(*array.BooleanBuilder).Append(dead)
		}
	}
	rec := b.NewRecordBatch()
	l.t.Cleanup(rec.Release)
	return rec
}

// next puts an entry at the next position.
func (l *lanceLog) next(body []byte) {
	l.pos++
	putRaw(l.t, l.store, layoutOf(testShard).wal+wal.Name(l.pos), body)
}

func (l *lanceLog) fence()              { l.next(l.body(l.last.WriterEpoch)) }
func (l *lanceLog) put(rows ...testRow) { l.next(l.body(l.last.WriterEpoch, l.rows(rows...))) }
func (l *lanceLog) batch(r ...[]arrow.Array) {
	var recs []arrow.RecordBatch
	for _, cols := range r {
		recs = append(recs, array.NewRecordBatch(l.schema, cols, int64(cols[0].Len())))
	}
	l.next(l.body(l.last.WriterEpoch, recs...))
}
