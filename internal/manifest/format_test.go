package manifest

import (
	"bytes"
	"errors"
	"flag"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	pb "github.com/memwal/memwal-go/internal/manifest/manifestpb"
	"github.com/memwal/memwal-go/internal/wal"
)

var update = flag.Bool("update", false, "rewrite the golden files")

const (
	lanceDir = "testdata/lance/manifest"
	golden   = "testdata/golden.binpb"
)

func id(b byte) wal.PutID { return wal.PutID{b} }

// full has every field set.
func full() *Manifest {
	md := arrow.MetadataFrom(map[string]string{"table": "t"})
	return &Manifest{
		Version: 7, Epoch: 3, Status: Sealed, CommitID: id(1), ParentCommitID: id(2), ClaimID: id(3),
		LastSeen: 40, Generation: 5,
		Flushed: []Generation{
			{Generation: 3, Path: "0123abcd_gen_3", FirstRow: 10, EndRow: 30, Rows: 18, Tombstones: 2, MinKey: []byte{1}, MaxKey: []byte{9, 9},
				Files:           []File{{Name: "data.parquet", Size: 1000, CRC32C: 77, HasCRC: true}, {Name: "text.idx", Index: "text", Size: 50}},
				FirstGeneration: 1, Created: time.Unix(1700000000, 123).UTC()},
			{Generation: 4, Path: "ffffffff_gen_4", FirstRow: 30, EndRow: 31, Rows: 1},
		},
		Floors: []Floor{
			{Plane: PlaneRows, Tuple: wal.Tuple{Position: 20, Epoch: 2, PutID: id(4), NextRow: 31, Generation: 4}},
			{Plane: PlaneIndexPrefix + "text", Tuple: wal.Tuple{Position: 18, Epoch: 2, PutID: id(5), NextRow: 29, Generation: 4}},
			{Plane: PlaneConsumerPrefix + "c", Kind: Cursor, State: Invalidated, Lease: Lease{Expires: time.Unix(1800000000, 0).UTC(), MaxBytes: 1 << 40, MaxAge: time.Hour},
				Tuple: wal.Tuple{Position: 3, Epoch: 1, PutID: id(6), NextRow: 2, Generation: 1}},
			{Plane: PlaneJournal, Kind: NoSnapshot},
		},
		Schema: arrow.NewSchema([]arrow.Field{
			{Name: "id", Type: arrow.PrimitiveTypes.Int64, Metadata: arrow.MetadataFrom(map[string]string{"memwal.field_id": "1"})},
			{Name: "tags", Type: arrow.ListOf(arrow.BinaryTypes.String), Nullable: true},
		}, &md),
		NextFieldID: 3, PrimaryKey: []string{"id"},
		Indexes:     []IndexSpec{{Name: "text", Kind: "text", Columns: []Column{{Name: "tags", FieldID: 2}}, Options: map[string]string{"analyzer": "en"}}},
		Annotations: map[string][]byte{"offset": {1, 2}, "a": {}},
		MaxInFlight: 8, OwnershipCheckAfter: 30 * time.Second, FenceRetention: 24 * time.Hour,
		JournalEntries: []EntryRef{{Position: 2, PutID: id(9)}},
		ShardID:        [16]byte{0xaa, 1}, ShardSpecID: 1,
	}
}

func encode(t testing.TB, m *Manifest) []byte {
	t.Helper()
	data, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// comparable drops what a round trip sets on purpose.
func comparable(m *Manifest) *Manifest {
	c := m.Clone()
	c.schemaOf, c.schemaBytes, c.replayAfter, c.listSent, c.oldest = nil, nil, 0, time.Time{}, 0
	return c
}

// equal compares all but the schema by value, and the schema by meaning.
func equal(a, b *Manifest) bool {
	x, y := comparable(a), comparable(b)
	if (x.Schema == nil) != (y.Schema == nil) || (x.Schema != nil && !x.Schema.Equal(y.Schema)) {
		return false
	}
	x.Schema, y.Schema = nil, nil
	return reflect.DeepEqual(x, y)
}

func TestEveryFieldRoundTrips(t *testing.T) {
	m := full()
	data := encode(t, m)
	got, err := Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	if !equal(got, m) {
		t.Errorf("got  %+v\nwant %+v", comparable(got), comparable(m))
	}
	if again := encode(t, got); !bytes.Equal(again, data) {
		t.Error("encodes to other bytes after a round trip")
	}
	// A field that is added to Manifest must be added to full, too.
	v := reflect.ValueOf(*m)
	for i := range v.NumField() {
		if f := v.Type().Field(i); f.IsExported() && f.Name != "Legacy" && v.Field(i).IsZero() {
			t.Errorf("field %s is not tested", f.Name)
		}
	}
}

// P01: one floor per plane survives a round trip, up to the largest value.
func TestP01_FloorsRoundTrip(t *testing.T) {
	for _, n := range []uint64{0, 1, 1 << 32, math.MaxUint64 - 1, math.MaxUint64} {
		m := full()
		m.Floors = nil
		for _, plane := range []string{PlaneRows, PlaneJournal, PlaneIndexPrefix + "a", PlaneIndexPrefix + "b", PlaneConsumerPrefix + "c"} {
			m.SetFloor(Floor{Plane: plane, Kind: Cursor, Tuple: wal.Tuple{Position: n, Epoch: n, PutID: id(1), NextRow: n, Generation: n}})
			m.SetFloor(Floor{Plane: plane, Kind: Snapshot, Tuple: wal.Tuple{Position: n, Epoch: n, PutID: id(2), NextRow: n, Generation: n}})
		}
		for round := range 2 {
			got, err := Decode(encode(t, m))
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got.Floors, m.Floors) || len(got.Floors) != 5 {
				t.Fatalf("%d, round %d: %+v, want %+v", n, round, got.Floors, m.Floors)
			}
			if got.RowsFloor().Position != n {
				t.Errorf("rows floor %+v", got.RowsFloor())
			}
			m = got
		}
	}
	m := full()
	m.RemoveFloor(PlaneJournal)
	if _, ok := m.Floor(PlaneJournal); ok || len(m.Floors) != 3 {
		t.Errorf("floors after removal: %+v", m.Floors)
	}
}

// The rows floor is Lance's own field, stored once.
func TestRowsFloorIsStoredOnce(t *testing.T) {
	var p pb.ShardManifest
	data := encode(t, full())
	if err := proto.Unmarshal(data, &p); err != nil {
		t.Fatal(err)
	}
	if p.ReplayAfterWalEntryPosition != 20 || p.Floors[0].Plane != PlaneRows || p.Floors[0].Position != 0 {
		t.Errorf("replay_after %d, floor %+v", p.ReplayAfterWalEntryPosition, p.Floors[0])
	}
	if (&Manifest{}).RowsFloor() != (wal.Tuple{Generation: 1}) {
		t.Errorf("rows floor of nothing: %+v", (&Manifest{}).RowsFloor())
	}
}

// P02: the manifests that LanceDB wrote read as having no floors.
func TestP02_LanceManifests(t *testing.T) {
	for v, want := range map[uint64]struct{ epoch, lastSeen uint64 }{1: {1, 0}, 2: {2, 0}, 3: {2, 4}} {
		data, err := os.ReadFile(filepath.Join(lanceDir, Name(v)))
		if err != nil {
			t.Fatal(err)
		}
		m, err := Decode(data)
		if err != nil {
			t.Fatal(err)
		}
		if m.Version != v || m.Epoch != want.epoch || m.LastSeen != want.lastSeen || m.Generation != 1 || len(m.Flushed) != 0 ||
			!m.Legacy || len(m.Floors) != 0 || m.Status != Active || m.ShardSpecID != 1 || m.RowsFloor() != wal.Start() {
			t.Errorf("version %d: %+v", v, m)
		}
		if m.ShardID != [16]byte{0xaa, 0x48, 0x49, 0x8d, 0xac, 0x91, 0x59, 0xe2, 0x84, 0x52, 0x69, 0xf4, 0x60, 0x10, 0xac, 0xe2} {
			t.Errorf("shard id %x", m.ShardID)
		}
	}
	flushed := legacy(t, &pb.ShardManifest{Version: 9, WriterEpoch: 4, ReplayAfterWalEntryPosition: 17, CurrentGeneration: 6})
	if got, want := flushed.RowsFloor(), (wal.Tuple{Position: 17, Generation: 6}); got != want {
		t.Errorf("rows floor %+v, want %+v", got, want)
	}
	next := flushed.Clone()
	if err := prepare(flushed, next); err != nil {
		t.Fatal(err)
	}
	if got, err := Decode(encode(t, next)); err != nil || got.Legacy || got.RowsFloor().Position != 17 {
		t.Errorf("adopted: %+v, %v", got, err)
	}
}

func legacy(t testing.TB, p *pb.ShardManifest) *Manifest {
	t.Helper()
	data, err := proto.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	m, err := Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// P02: an older reader opens a newer manifest, and what it does not know
// survives its rewrite, at every level.
func TestP02_UnknownFieldsSurvive(t *testing.T) {
	var p pb.ShardManifest
	body, err := checkTrailer(encode(t, full()))
	if err != nil {
		t.Fatal(err)
	}
	if err := proto.Unmarshal(body, &p); err != nil {
		t.Fatal(err)
	}
	// Every message gets a field of a newer program; the root also Lance's
	// shard_field_entries, which this program does not read.
	n := 0
	var mark func(m protoreflect.Message)
	mark = func(m protoreflect.Message) {
		n++
		raw := protowire.AppendTag(nil, 777, protowire.BytesType)
		m.SetUnknown(append(m.GetUnknown(), protowire.AppendString(raw, string(rune('a'+n)))...))
		m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
			switch {
			case fd.IsMap() || fd.Kind() != protoreflect.MessageKind:
			case fd.IsList():
				for i := range v.List().Len() {
					mark(v.List().Get(i).Message())
				}
			default:
				mark(v.Message())
			}
			return true
		})
	}
	mark(p.ProtoReflect())
	root := p.ProtoReflect()
	root.SetUnknown(append(root.GetUnknown(), protowire.AppendString(protowire.AppendTag(nil, 14, protowire.BytesType), "field entry")...))
	if n < 13 {
		t.Fatalf("only %d messages marked", n)
	}
	p.Status, p.Floors[1].Kind, p.Floors[1].State = 9, 9, 9 // values of a newer program
	body, err = proto.Marshal(&p)
	if err != nil {
		t.Fatal(err)
	}
	m, err := Decode(appendTrailer(body))
	if err != nil {
		t.Fatal(err)
	}
	next := m.Clone()
	next.Annotations["new"] = []byte("x")
	floor, _ := next.Floor(PlaneConsumerPrefix + "c")
	next.SetFloor(Floor{Plane: floor.Plane, Kind: Cursor, Lease: Lease{MaxBytes: 5}, Tuple: floor.Tuple})
	var q pb.ShardManifest
	body, err = checkTrailer(encode(t, next))
	if err != nil {
		t.Fatal(err)
	}
	if err := proto.Unmarshal(body, &q); err != nil {
		t.Fatal(err)
	}
	want := proto.Clone(&p).(*pb.ShardManifest)
	want.Annotations["new"] = []byte("x")
	for _, f := range want.Floors {
		if f.Plane == floor.Plane {
			f.Lease.ExpiresUnixNanos, f.Lease.MaxAgeNanos, f.Lease.MaxBytes, f.State = 0, 0, 5, 0
		}
	}
	if !proto.Equal(&q, want) {
		t.Errorf("got  %v\nwant %v", &q, want)
	}
}

// P02: a damaged manifest is refused by checksum, and never taken for a legacy one.
func TestP02_DamageIsNoticed(t *testing.T) {
	data := encode(t, full())
	for i := range data {
		bad := bytes.Clone(data)
		bad[i] ^= 0x04
		if m, err := Decode(bad); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("byte %d of %d changed: %+v, %v", i, len(data), m, err)
		}
	}
	for n := range data {
		if m, err := Decode(data[:n]); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("cut to %d of %d bytes: %+v, %v", n, len(data), m, err)
		}
	}
}

func TestNewerFormatIsRefused(t *testing.T) {
	p, err := full().toProto()
	if err != nil {
		t.Fatal(err)
	}
	p.Format = Format + 1
	body, err := proto.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Decode(appendTrailer(body)); !errors.Is(err, ErrCorrupt) {
		t.Errorf("%v", err)
	}
}

func TestEncodeNeedsIDs(t *testing.T) {
	for _, m := range []*Manifest{{}, {Version: 1}, {CommitID: id(1)}} {
		if _, err := m.Encode(); !errors.Is(err, ErrInvalid) {
			t.Errorf("%+v: %v", m, err)
		}
	}
}

func TestCloneSharesNothing(t *testing.T) {
	m := full()
	c := m.Clone()
	c.Flushed[0].Files[0].Size, c.Flushed[1].Rows = 1, 2
	c.Floors[0].Position = 99
	c.PrimaryKey[0] = "x"
	c.Indexes[0].Columns[0].Name, c.Indexes[0].Options["analyzer"] = "x", "x"
	c.Annotations["offset"] = nil
	c.JournalEntries[0].Position = 9
	if !equal(m, full()) {
		t.Error("a change of the clone shows in the original")
	}
}

// What version 1 wrote must be read for ever.
func TestGoldenFile(t *testing.T) {
	data := encode(t, full())
	if *update {
		if err := os.WriteFile(golden, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(data, want) {
		t.Error("encodes to other bytes than the golden file")
	}
	if m, err := Decode(want); err != nil || !equal(m, full()) {
		t.Errorf("%+v, %v", m, err)
	}
}

func TestNames(t *testing.T) {
	for _, v := range []uint64{1, 2, 3, 1 << 40, math.MaxUint64} {
		if got, ok := ParseName(Name(v)); !ok || got != v {
			t.Errorf("ParseName(%s) = %d, %t", Name(v), got, ok)
		}
	}
	for _, bad := range []string{"", hintName, Name(0), wal.Name(1), Name(1) + ".tmp"} {
		if v, ok := ParseName(bad); ok {
			t.Errorf("ParseName(%q) = %d", bad, v)
		}
	}
}

// FuzzDecode: no input panics, and what was read is written and read the same.
func FuzzDecode(f *testing.F) {
	files, _ := filepath.Glob(filepath.Join(lanceDir, "*"+extension))
	for _, file := range append(files, golden) {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, false)
		f.Add(data, true)
	}
	f.Fuzz(func(t *testing.T, data []byte, fix bool) {
		if fix && len(data) >= trailerSize {
			// Damage that has passed the checksum.
			data = appendTrailer(bytes.Clone(data[:len(data)-trailerSize]))
		}
		m, err := Decode(data)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Fatalf("error is not ErrCorrupt: %v", err)
			}
			return
		}
		if m.Legacy {
			return
		}
		again, err := Decode(encode(t, m))
		if err != nil {
			t.Fatal(err)
		}
		if !equal(m, again) {
			t.Fatalf("got  %+v\nwant %+v", again, m)
		}
	})
}
