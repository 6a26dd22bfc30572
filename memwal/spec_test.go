package memwal

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/memwal/memwal-go/objstore"
)

// specReader reads a shard as the public Lance MemTable and WAL specification has
// it, and as LanceDB 0.39 does. It shares nothing with memwal: what memwal writes
// beyond the specification must be of no consequence to it.
type specReader struct {
	t     testing.TB
	store objstore.Reader
	root  string // the shard's folder, with a slash
	// columns are the table's, in its order, with _tombstone at the end: entries are
	// matched by position.
	columns []arrow.Field

	lenient bool // epochs may fall; fell tells that one did
	fell    bool
}

// specManifest is what the specification knows of a manifest.
type specManifest struct {
	version, epoch, replayAfter, lastSeen, generation, status uint64
	generations                                               int
	shardID                                                   string
}

// reversed is n as 64 binary digits, the lowest first.
func reversed(n uint64) string {
	var b strings.Builder
	for i := range 64 {
		b.WriteByte('0' + byte(n>>i&1))
	}
	return b.String()
}

// manifest finds the newest version: from the hint, or the first, upward.
func (r *specReader) manifest() specManifest {
	r.t.Helper()
	hint := struct{ Version uint64 }{1}
	if data, err := r.store.Get(r.t.Context(), r.root+"manifest/version_hint.json"); err == nil {
		if err := json.Unmarshal(data, &hint); err != nil {
			r.t.Fatalf("hint: %v", err)
		}
	}
	var newest []byte
	for v := hint.Version; ; v++ {
		data, err := r.store.Get(r.t.Context(), r.root+"manifest/"+reversed(v)+".binpb")
		if errors.Is(err, objstore.ErrNotExist) {
			break
		}
		if err != nil {
			r.t.Fatal(err)
		}
		newest = data
	}
	var m specManifest
	for len(newest) > 0 {
		num, typ, n := protowire.ConsumeTag(newest)
		if n < 0 {
			r.t.Fatalf("manifest: %v", protowire.ParseError(n))
		}
		newest = newest[n:]
		size := protowire.ConsumeFieldValue(num, typ, newest)
		if size < 0 {
			r.t.Fatalf("manifest: %v", protowire.ParseError(size))
		}
		v, _ := protowire.ConsumeVarint(newest)
		switch num {
		case 1:
			m.version = v
		case 2:
			m.epoch = v
		case 3:
			m.replayAfter = v
		case 4:
			m.lastSeen = v
		case 6:
			m.generation = v
		case 8:
			m.generations++
		case 11:
			id, _ := protowire.ConsumeBytes(newest)
			m.shardID = string(id)
		case 15:
			m.status = v
		}
		newest = newest[size:]
	}
	return m
}

// replay returns the rows above the floor, newest version by key, in the order of
// keys: of each the columns as text, "null" where there is no value.
func (r *specReader) replay() []string {
	r.t.Helper()
	m := r.manifest()
	rows := make(map[int64]string)
	var epoch uint64
	for pos := m.replayAfter + 1; ; pos++ {
		data, err := r.store.Get(r.t.Context(), r.root+"wal/"+reversed(pos)+".arrow")
		if errors.Is(err, objstore.ErrNotExist) {
			break
		}
		if err != nil {
			r.t.Fatal(err)
		}
		epoch = r.entry(pos, data, epoch, rows)
		if epoch > m.epoch {
			r.t.Errorf("position %d: epoch %d, the manifest has %d: a reader thinks that it was fenced", pos, epoch, m.epoch)
		}
	}
	var out []string
	for _, id := range slices.Sorted(maps.Keys(rows)) {
		out = append(out, rows[id])
	}
	return out
}

// entry applies an entry to rows and returns its epoch.
func (r *specReader) entry(pos uint64, data []byte, last uint64, rows map[int64]string) uint64 {
	r.t.Helper()
	rd, err := ipc.NewReader(bytes.NewReader(data))
	if err != nil {
		r.t.Fatalf("position %d: %v", pos, err)
	}
	defer rd.Release()
	md := rd.Schema().Metadata()
	text, _ := md.GetValue("writer_epoch")
	epoch, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		r.t.Fatalf("position %d: writer_epoch: %v", pos, err)
	}
	// Lance replays what it finds: entries of a fenced writer above the fence of
	// its successor would come back to life in it.
	if r.fell = r.fell || epoch < last; epoch < last && !r.lenient {
		r.t.Errorf("position %d: epoch %d after %d", pos, epoch, last)
	}
	if v, ok := md.GetValue("fence_sentinel"); ok && (v != "true" || rd.Schema().NumFields() != 0) {
		r.t.Errorf("position %d: a fence with %q and %d columns", pos, v, rd.Schema().NumFields())
	}
	for rd.Next() {
		rec := rd.RecordBatch()
		r.checkColumns(pos, rec.Schema())
		if rec.NumRows() == 0 {
			r.t.Errorf("position %d: an empty batch", pos)
		}
		dead := rec.Column(len(r.columns) - 1).(*array.Boolean)
		for i := range int(rec.NumRows()) {
			id := rec.Column(0).(*array.Int64).Value(i)
			if dead.Value(i) {
				delete(rows, id)
				continue
			}
			var cells []string
			for _, c := range rec.Columns()[:len(r.columns)-1] {
				cells = append(cells, cell(c, i))
			}
			rows[id] = strings.Join(cells, "|")
		}
	}
	if err := rd.Err(); err != nil {
		r.t.Fatalf("position %d: %v", pos, err)
	}
	return epoch
}

func cell(c arrow.Array, i int) string {
	if c.IsNull(i) {
		return "null"
	}
	return c.ValueStr(i)
}

// checkColumns fails unless a batch has the table's columns as they are stored:
// the key without nulls, others with, and the mark of deletes.
func (r *specReader) checkColumns(pos uint64, s *arrow.Schema) {
	r.t.Helper()
	if s.NumFields() != len(r.columns) {
		r.t.Fatalf("position %d: %d columns, want %d", pos, s.NumFields(), len(r.columns))
	}
	for i, want := range r.columns {
		got := s.Field(i)
		if got.Name != want.Name || !arrow.TypeEqual(got.Type, want.Type) || got.Nullable != want.Nullable {
			r.t.Errorf("position %d column %d: %v, want %v", pos, i, got, want)
		}
	}
}

// specOf reads the test shard, whose table has these columns and the key id.
func specOf(t testing.TB, store objstore.Reader, s *arrow.Schema) *specReader {
	columns := s.Fields()
	for i := range columns {
		columns[i].Nullable = columns[i].Name != "id"
	}
	columns = append(columns, arrow.Field{Name: "_tombstone", Type: arrow.FixedWidthTypes.Boolean})
	return &specReader{t: t, store: store, root: "_mem_wal/" + testShard.String() + "/", columns: columns}
}

// byKey is what w shows, as specReader gives it.
func byKey(t testing.TB, w *Writer) []string {
	t.Helper()
	s, err := w.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	type row struct {
		id   int64
		text string
	}
	var rows []row
	for rec, err := range s.All(t.Context(), ScanOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		for i := range int(rec.NumRows()) {
			var cells []string
			for _, c := range rec.Columns() {
				cells = append(cells, cell(c, i))
			}
			rows = append(rows, row{rec.Column(0).(*array.Int64).Value(i), strings.Join(cells, "|")})
		}
	}
	slices.SortFunc(rows, func(a, b row) int { return cmp.Compare(a.id, b.id) })
	out := make([]string, len(rows))
	for i, r := range rows {
		out[i] = r.text
	}
	return out
}

func checkSame(t testing.TB, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n%s\nwant:\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// What memwal writes, from its first put on, is a log of the specification: upserts,
// deletes, rotations, several batches an entry, compression, and a takeover.
func TestSpecReaderReadsOurLog(t *testing.T) {
	for _, compression := range []Compression{CompressionNone, CompressionLZ4, CompressionZstd} {
		t.Run(cmp.Or(string(compression), "none"), func(t *testing.T) {
			store := objstore.NewMemory()
			o := keyedOptions()
			o.Compression, o.MaxMemtableRows = compression, 40
			spec := specOf(t, store, testSchema)
			for i := range 3 {
				w := mustOpen(t, store, o)
				for k := range 5 {
					if _, err := w.PutAsync(t.Context(), seq(t, int64(i*10+k*4), 30)); err != nil {
						t.Fatal(err)
					}
				}
				mustPut(t, w, batchOf(t, testRow{7, fmt.Sprint("again ", i), int64(i)}))
				if err := w.Delete(t.Context(), keysOf(t, int64(i), 20, 999)); err != nil {
					t.Fatal(err)
				}
				want := byKey(t, w)
				if i == 1 {
					crashWriter(w)
				} else {
					mustClose(t, w)
				}
				if len(want) < 40 {
					t.Fatalf("%d rows", len(want))
				}
				checkSame(t, fmt.Sprint("after writer ", i+1), spec.replay(), want)
				m, ours := spec.manifest(), newestManifest(t, store)
				id := ours.ShardID
				if want := (specManifest{version: ours.Version, epoch: uint64(i + 1), generation: 1, lastSeen: ours.LastSeen, shardID: string(append([]byte{10, 16}, id[:]...))}); m != want {
					t.Errorf("manifest: %+v, want %+v", m, want)
				}
			}
		})
	}
}

// A writer dies with puts in flight, which land around its successor's fence. With one
// in flight it leaves nothing behind that memwal passes over: the specification's
// reader sees what memwal sees. With several it takes them for rows, since it knows
// no dead entries: that is the limit of reading our log, and LanceDB 0.39 has it.
func TestSpecReaderAfterTakeover(t *testing.T) {
	for _, c := range []struct {
		window int
		early  []uint64 // positions whose puts land before the takeover
		late   []uint64 // and after it
		same   bool
	}{
		{1, nil, []uint64{3}, true},
		{1, []uint64{3}, nil, true},
		{4, []uint64{3, 4, 5, 6}, nil, true},
		{4, nil, []uint64{3}, true},
		{4, []uint64{4, 5}, []uint64{3, 6}, false},
		{4, []uint64{3}, []uint64{4, 5, 6}, false},
	} {
		t.Run(fmt.Sprint(c.window, c.early, c.late), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inner := objstore.NewMemory()
				dead := newLate(inner)
				o := promptOptions()
				o.MaxInFlight = c.window
				w := mustOpen(t, dead, o)
				mustPut(t, w, seq(t, 0, 1))
				dead.keep()
				for i := range int64(4) {
					if _, err := w.PutAsync(t.Context(), seq(t, 100+i, 1)); err != nil {
						t.Fatal(err)
					}
				}
				synctest.Wait()
				w.Abort()
				if n := len(dead.mu.kept); n != c.window {
					t.Fatalf("%d puts were in flight, want %d", n, c.window)
				}

				dead.land(t, c.early...)
				w = mustOpen(t, inner, o)
				dead.land(t, c.late...)
				mustPut(t, w, seq(t, 1, 1))
				spec := specOf(t, inner, testSchema)
				spec.lenient = true
				if same := slices.Equal(spec.replay(), byKey(t, w)); same != c.same || spec.fell == c.same {
					t.Errorf("the same rows: %v, epochs fall: %v; log: %s", same, spec.fell, shape(logOf(t, inner)))
				}
			})
		})
	}
}
