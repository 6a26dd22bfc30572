package memwal

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"google.golang.org/protobuf/proto"

	"github.com/memwal/memwal-go/index"
	"github.com/memwal/memwal-go/internal/manifest"
	"github.com/memwal/memwal-go/internal/manifest/manifestpb"
	"github.com/memwal/memwal-go/internal/wal"
	"github.com/memwal/memwal-go/objstore"
)

// withField returns a copy of the test schema in which the field is replaced,
// or that has it at the end.
func withField(f arrow.Field) *arrow.Schema {
	fields := append([]arrow.Field(nil), testSchema.Fields()...)
	for i := range fields {
		if fields[i].Name == f.Name {
			fields[i] = f
			return arrow.NewSchema(fields, nil)
		}
	}
	return arrow.NewSchema(append(fields, f), nil)
}

// ignoresConditions is a store that takes every put.
type ignoresConditions struct{ objstore.Store }

func (s ignoresConditions) PutIfAbsent(ctx context.Context, key string, body objstore.Body) (objstore.PutResult, error) {
	return objstore.PutResult{}, s.Store.Put(ctx, key, body)
}

func TestF03_DoomedOpenLeavesTheWriterAlone(t *testing.T) {
	int64s := arrow.PrimitiveTypes.Int64
	ordered := func(column string) []index.Config {
		return []index.Config{index.Ordered{Name: "x", Columns: []index.Column{{Name: column}}}}
	}
	keyed := func(change func(*Options)) *Options {
		o := promptOptions()
		change(o)
		return o
	}
	type doomed struct {
		name   string
		schema *arrow.Schema
		o      *Options
		store  func(objstore.Store) objstore.Store
		want   error
	}
	cases := []doomed{
		{name: "options", o: keyed(func(o *Options) { o.MaxInFlight, o.FlushBytes = 1000, -1 })},
		{name: "no interval", o: keyed(func(o *Options) { o.FlushInterval = -1 })},
		{name: "no schema", schema: arrow.NewSchema(nil, nil), o: keyedOptions()},
		{name: "reserved column", schema: withField(arrow.Field{Name: "_x", Type: int64s, Nullable: true}), o: keyedOptions()},
		{name: "key not in schema", o: &Options{PrimaryKey: []string{"nope"}}},
		{name: "key without order", schema: withField(arrow.Field{Name: "l", Type: arrow.ListOf(int64s), Nullable: true}), o: &Options{PrimaryKey: []string{"l"}}},
		{name: "index on a missing column", o: keyed(func(o *Options) { o.Indexes = ordered("nope") })},
		{name: "index on a type without order", schema: withField(arrow.Field{Name: "l", Type: arrow.ListOf(int64s), Nullable: true}),
			o: keyed(func(o *Options) { o.Indexes = ordered("l") })},
		{name: "index twice", o: keyed(func(o *Options) { o.Indexes = append(o.Indexes, o.Indexes[0]) })},
		{name: "index with the id of another column", o: keyed(func(o *Options) {
			o.Indexes = []index.Config{index.Ordered{Name: "x", Columns: []index.Column{{Name: "n", FieldID: 2}}}}
		})},
		// Only the manifest tells that these are wrong.
		{name: "another key", o: keyed(func(o *Options) { o.PrimaryKey = []string{"n"} })},
		{name: "no key", o: &Options{}},
		{name: "changed type", schema: withField(arrow.Field{Name: "n", Type: arrow.BinaryTypes.String, Nullable: true}), o: keyedOptions()},
		{name: "new required column", schema: withField(arrow.Field{Name: "m", Type: int64s}), o: keyedOptions()},
		{name: "nullable column required", schema: withField(arrow.Field{Name: "n", Type: int64s}), o: keyedOptions()},
		{name: "field id of another column", schema: withField(arrow.Field{Name: "text", Type: arrow.BinaryTypes.String, Nullable: true,
			Metadata: arrow.NewMetadata([]string{"memwal.field_id"}, []string{"3"})}), o: keyedOptions()},
		{name: "retention below what earlier writers need", o: keyed(func(o *Options) {
			o.MaxInFlight, o.OwnershipCheckAfter, o.FenceRetention = 1, 2*time.Minute, 17*time.Minute
		})},
		{name: "store that ignores conditions", o: keyedOptions(), want: objstore.ErrConditionIgnored,
			store: func(s objstore.Store) objstore.Store { return ignoresConditions{s} }},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			store := objstore.NewMemory()
			// The recorded retention is just enough for the recorded maxima.
			w := mustOpen(t, store, keyed(func(o *Options) {
				o.MaxInFlight, o.OwnershipCheckAfter, o.FenceRetention = 60, time.Minute, 253*time.Minute
			}))
			mustPut(t, w, seq(t, 0, 2))
			before := contents(t, store, "")
			schema, want, via := testSchema, ErrInvalid, store
			if c.schema != nil {
				schema = c.schema
			}
			if c.want != nil {
				want = c.want
			}
			if c.store != nil {
				via = c.store(store)
			}
			other, err := Open(t.Context(), via, testShard, schema, c.o)
			if err == nil {
				other.Abort()
			}
			if !errors.Is(err, want) {
				t.Errorf("open: %v, want %v", err, want)
			}
			if c.store == nil {
				checkUntouched(t, store, before)
			}
			checkVersions(t, store, 1)
			mustPut(t, w, seq(t, 2, 1))
			checkRows(t, w, wantSeq(0, 3))
		})
	}
}

// newer is a version of the manifest as a program writes it that knows nothing
// of memwal's fields.
func newer(t testing.TB, m *manifest.Manifest) (key string, data []byte) {
	t.Helper()
	data, err := proto.Marshal(&manifestpb.ShardManifest{
		Version: m.Version + 1, WriterEpoch: m.Epoch + 1, CurrentGeneration: m.Generation,
		ShardId: &manifestpb.UUID{Uuid: m.ShardID[:]},
	})
	if err != nil {
		t.Fatal(err)
	}
	return layoutOf(testShard).manifest + manifest.Name(m.Version+1), data
}

func TestF17_ManifestWithoutOurFieldsIsRefused(t *testing.T) {
	store := objstore.NewMemory()
	w := mustOpen(t, store, plainOptions())
	mustPut(t, w, seq(t, 0, 1))
	mustClose(t, w)
	key, data := newer(t, newestManifest(t, store))
	putRaw(t, store, key, data)
	before := contents(t, store, "")
	if _, err := Open(t.Context(), store, testShard, testSchema, plainOptions()); !errors.Is(err, ErrForeignWriter) {
		t.Errorf("open: %v, want ErrForeignWriter", err)
	}
	for name, f := range map[string]func() error{
		"seal":   func() error { return SealShard(t.Context(), store, testShard, nil) },
		"unseal": func() error { return UnsealShard(t.Context(), store, testShard, nil) },
	} {
		if err := f(); !errors.Is(err, ErrForeignWriter) {
			t.Errorf("%s: %v, want ErrForeignWriter", name, err)
		}
	}
	checkUntouched(t, store, before)
}

// A log that LanceDB wrote is there to be read, not to be taken over.
func TestF17_LanceShardIsLeftAlone(t *testing.T) {
	store, shard := openFixture(t)
	before := contents(t, store, "")
	if len(before) != 10 {
		t.Fatalf("the fixture has %d objects, want 10", len(before))
	}
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64},
		{Name: "text", Type: arrow.BinaryTypes.String, Nullable: true},
		{Name: "score", Type: arrow.PrimitiveTypes.Float64, Nullable: true},
	}, nil)
	if _, err := Open(t.Context(), store, shard, schema, &Options{PrimaryKey: []string{"id"}}); !errors.Is(err, ErrForeignWriter) {
		t.Errorf("open: %v, want ErrForeignWriter", err)
	}
	if err := SealShard(t.Context(), store, shard, nil); !errors.Is(err, ErrForeignWriter) {
		t.Errorf("seal: %v, want ErrForeignWriter", err)
	}
	checkUntouched(t, store, before)
}

// A shard is new only if it has neither manifest nor log nor marks of recycling.
func TestF06_LostManifestIsNotANewShard(t *testing.T) {
	dirs := layoutOf(testShard)
	t.Run("log", func(t *testing.T) {
		store := objstore.NewMemory()
		w := mustOpen(t, store, plainOptions())
		mustPut(t, w, seq(t, 0, 1))
		mustClose(t, w)
		for key := range contents(t, store, dirs.manifest) {
			deleteRaw(t, store, key)
		}
		before := contents(t, store, "")
		_, err := Open(t.Context(), store, testShard, testSchema, plainOptions())
		if corrupt, ok := errors.AsType[*CorruptError](err); !ok || corrupt.Position != 1 {
			t.Errorf("open: %v, want a CorruptError that names position 1", err)
		}
		checkUntouched(t, store, before)
	})
	t.Run("boundary marker", func(t *testing.T) {
		store := objstore.NewMemory()
		putRaw(t, store, dirs.gc+"wal.boundary/00000000000000000007", nil)
		before := contents(t, store, "")
		if _, err := Open(t.Context(), store, testShard, testSchema, plainOptions()); !errors.Is(err, ErrCorrupt) {
			t.Errorf("open: %v, want ErrCorrupt", err)
		}
		checkUntouched(t, store, before)
	})
	t.Run("damaged manifest", func(t *testing.T) {
		for _, damage := range []func([]byte) []byte{
			func(b []byte) []byte { return b[:len(b)/2] },
			func(b []byte) []byte { return nil },
			func(b []byte) []byte { b[len(b)/2] ^= 0x10; return b },
		} {
			store := objstore.NewMemory()
			mustClose(t, mustOpen(t, store, plainOptions()))
			mustClose(t, mustOpen(t, store, plainOptions()))
			key := dirs.manifest + manifest.Name(2)
			data, err := store.Get(t.Context(), key)
			if err != nil {
				t.Fatal(err)
			}
			putRaw(t, store, key, damage(data))
			before := contents(t, store, "")
			if _, err := Open(t.Context(), store, testShard, testSchema, plainOptions()); !errors.Is(err, ErrCorrupt) {
				t.Errorf("open: %v, want ErrCorrupt", err)
			}
			checkUntouched(t, store, before)
		}
	})
}

// Objects that are not ours lie beside the log and the manifest.
func TestS04_ForeignNamesChangeNothing(t *testing.T) {
	dirs := layoutOf(testShard)
	foreign := []string{
		dirs.wal + "readme.txt", dirs.wal + "10.arrow", dirs.wal + strings.Repeat("0", 64) + ".arrow",
		dirs.wal + strings.ToUpper(wal.Name(2)), dirs.wal + wal.Name(2) + ".tmp", dirs.wal + "old/" + wal.Name(2),
		dirs.manifest + "x.binpb", dirs.manifest + manifest.Name(0), dirs.manifest + manifest.Name(7) + ".tmp",
		dirs.manifest + "old/" + manifest.Name(9), dirs.root + "walrus", dirs.root + "0a0b0c0d_gen_1/data.parquet",
	}
	store := objstore.NewMemory()
	for _, key := range foreign {
		putRaw(t, store, key, []byte("not ours"))
	}
	for i := range 3 {
		w := mustOpen(t, store, plainOptions())
		checkRows(t, w, wantSeq(0, i))
		mustPut(t, w, seq(t, int64(i), 1))
		crashWriter(w)
	}
	for _, key := range foreign {
		if data, err := store.Get(t.Context(), key); err != nil || string(data) != "not ours" {
			t.Errorf("%s: %q, %v", key, data, err)
		}
	}
	checkVersions(t, store, 3)
}

// What a log says of its key badly is reported, unless the user says it.
func TestForeignKeyThatIsNoNumber(t *testing.T) {
	fields := lanceColumns()
	fields[0].Metadata = arrow.NewMetadata([]string{lanceKeyPosition}, []string{"first"})
	stored := arrow.NewSchema(fields, nil)
	if _, err := foreignKey(stored, nil); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), `"first"`) || !strings.HasSuffix(err.Error(), "give PrimaryKey") {
		t.Errorf("got %v, want ErrInvalid that names the place and asks for PrimaryKey", err)
	}
	if key, err := foreignKey(stored, []string{"id"}); err != nil || !slices.Equal(key, []string{"id"}) {
		t.Errorf("with a given key: %v, %v", key, err)
	}
}
