package wal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// sampleRecord is a batch of an id, a text and a vector of dims floats.
func sampleRecord(mem memory.Allocator, rows, dims int) arrow.RecordBatch {
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64},
		{Name: "text", Type: arrow.BinaryTypes.String, Nullable: true},
		{Name: "vector", Type: arrow.FixedSizeListOf(int32(dims), arrow.PrimitiveTypes.Float32), Nullable: true},
	}, nil)
	b := array.NewRecordBuilder(mem, schema)
	defer b.Release()
	for i := range rows {
		b.Field(0).(*array.Int64Builder).Append(int64(i))
		b.Field(1).(*array.StringBuilder).Append(fmt.Sprintf("text of row %d", i))
		v := b.Field(2).(*array.FixedSizeListBuilder)
		v.Append(true)
		for d := range dims {
			v.ValueBuilder().(*array.Float32Builder).Append(float32(i + d))
		}
	}
	return b.NewRecordBatch()
}

func TestNames(t *testing.T) {
	for n, want := range map[uint64]string{
		1: "1" + strings.Repeat("0", 63), 2: "01" + strings.Repeat("0", 62), 6: "011" + strings.Repeat("0", 61),
		0: strings.Repeat("0", 64), math.MaxUint64: strings.Repeat("1", 64), 1 << 63: strings.Repeat("0", 63) + "1",
	} {
		name := Name(n)
		if name != want+".arrow" {
			t.Errorf("Name(%d) = %s", n, name)
		}
		if got, ok := ParseName(name); !ok || got != n {
			t.Errorf("ParseName(%s) = %d, %t", name, got, ok)
		}
	}
	good := strings.Repeat("0", 63)
	for _, bad := range []string{"", ".arrow", good + ".arrow", good + "2.arrow", "+" + good + ".arrow", "-" + good + ".arrow",
		good + "1", good + "1.arrow.tmp", good + "01.arrow", good + "_.arrow", "wal/" + good + "1.arrow", good + "1.ARROW"} {
		if n, ok := ParseName(bad); ok {
			t.Errorf("ParseName(%q) = %d", bad, n)
		}
	}
}

func TestPutID(t *testing.T) {
	a, b := NewPutID(), NewPutID()
	if a == b || a.IsZero() || !a.Same(a) || a.Same(b) || none.Same(none) {
		t.Errorf("ids %s %s", a, b)
	}
	if got, err := ParsePutID(a.String()); err != nil || got != a {
		t.Errorf("ParsePutID(%s) = %s, %v", a, got, err)
	}
	for _, bad := range []string{"", "00", strings.Repeat("g", 32), strings.Repeat("0", 33), strings.Repeat("0", 34)} {
		if _, err := ParsePutID(bad); err == nil {
			t.Errorf("ParsePutID(%q) succeeded", bad)
		}
	}
}

func TestFenceRoundTrips(t *testing.T) {
	h := testHeader()
	body, err := EncodeFence(h)
	if err != nil {
		t.Fatal(err)
	}
	h.Fence = true
	e, err := Decode(body.Bytes(), DecodeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if e.Header != h || e.Rows != 0 || len(e.Batches) != 0 || e.Kinds != KindFence || !e.HasFooter {
		t.Errorf("%+v", e)
	}
	r, err := ipc.NewReader(bytes.NewReader(body.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	md := r.Schema().Metadata()
	if v, _ := md.GetValue("fence_sentinel"); v != "true" || r.Schema().NumFields() != 0 || r.Next() {
		t.Errorf("other programs see %v", r.Schema())
	}
	if v, _ := md.GetValue("writer_epoch"); v != "3" {
		t.Errorf("writer_epoch = %q", v)
	}
}

// The checksum that is told with an entry is that of its whole body.
func TestEncodedChecksum(t *testing.T) {
	rec := sampleRecord(memory.DefaultAllocator, 100, 2)
	for _, o := range []EncodeOptions{{}, {Compression: CompressionZstd}} {
		for _, side := range []*Side{nil, {Annotations: []Annotation{{Key: "offset", Value: []byte("17")}}}} {
			enc, err := Encode(testHeader(), rec.Schema(), []arrow.RecordBatch{rec}, side, o)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := enc.CRC32C, enc.Body.CRC32C(); got != want {
				t.Errorf("%+v: checksum %08x, the body has %08x", o, got, want)
			}
			enc.Release()
		}
	}
}

func TestSideSection(t *testing.T) {
	side := &Side{
		Annotations: []Annotation{{Key: "offset", Value: []byte("17")}, {Key: "gone", Deleted: true}},
		Journal:     []JournalRecord{{Journal: "j", Sequence: 7, Payload: bytes.Repeat([]byte("x"), 200)}},
	}
	rec := sampleRecord(memory.DefaultAllocator, 3, 2)
	for _, recs := range [][]arrow.RecordBatch{{rec}, nil} {
		data := encodeBytes(t, rec.Schema(), recs, side, EncodeOptions{})
		e, err := Decode(data, DecodeOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(e.Side, side) {
			t.Errorf("side %+v", e.Side)
		}
		want := KindAnnotation | KindJournal
		if len(recs) > 0 {
			want |= KindRows
		}
		f, ok, err := DecodeFooter(data[len(data)-FooterSize:])
		if !ok || err != nil || f.Kinds != want || e.Kinds != want || f.Rows != e.Rows || !f.Kinds.Has(KindJournal) || f.Kinds.Unknown() != 0 {
			t.Errorf("footer %+v, %t, %v; kinds %#x, want %#x", f, ok, err, e.Kinds, want)
		}
	}
	e, err := Decode(encodeBytes(t, rec.Schema(), []arrow.RecordBatch{rec}, &Side{}, EncodeOptions{}), DecodeOptions{})
	if err != nil || e.Side != nil || e.Kinds != KindRows {
		t.Errorf("empty side section: %+v, %v", e, err)
	}
}

// P07: a kind of a newer program is kept for recycling to see.
func TestP07_UnknownKindIsKept(t *testing.T) {
	rec := sampleRecord(memory.DefaultAllocator, 3, 2)
	data := encodeBytes(t, rec.Schema(), []arrow.RecordBatch{rec}, nil, EncodeOptions{})
	f, _, _ := DecodeFooter(data)
	f.Kinds |= 1 << 40
	data = append(data[:len(data)-FooterSize], f.encode()...)
	e, err := Decode(data, DecodeOptions{})
	if err != nil || e.Kinds.Unknown() != 1<<40 {
		t.Errorf("%v, %v", e, err)
	}
}

// The table's metadata comes back, and cannot pass for a header.
func TestSchemaMetadataIsKeptApart(t *testing.T) {
	md := arrow.NewMetadata([]string{"table", "writer_epoch", "fence_sentinel", "memwal.put_id", "generation"}, []string{"t", "77", "true", "x", "8"})
	schema := arrow.NewSchema([]arrow.Field{{Name: "c", Type: arrow.PrimitiveTypes.Int64, Metadata: arrow.MetadataFrom(map[string]string{"k": "v"})}}, &md)
	e, err := Decode(encodeBytes(t, schema, nil, nil, EncodeOptions{}), DecodeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if e.Header != testHeader() {
		t.Errorf("header %+v", e.Header)
	}
	if got := e.Schema.Metadata(); got.Len() != 1 || got.Values()[0] != "t" {
		t.Errorf("metadata %v", got)
	}
	if v, _ := e.Schema.Field(0).Metadata.GetValue("k"); v != "v" {
		t.Errorf("field metadata %v", e.Schema.Field(0).Metadata)
	}
}

func TestBatchMetadataIsKept(t *testing.T) {
	rec := sampleRecord(memory.DefaultAllocator, 3, 2)
	md := arrow.MetadataFrom(map[string]string{"source": "s"})
	with := array.NewRecordBatchWithMetadata(rec.Schema(), rec.Columns(), rec.NumRows(), md)
	for _, comp := range []Compression{CompressionNone, CompressionLZ4} {
		e, err := Decode(encodeBytes(t, rec.Schema(), []arrow.RecordBatch{with, with}, nil, EncodeOptions{Compression: comp, CoalesceRows: 100}), DecodeOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range e.Batches {
			if v, _ := b.(arrow.RecordBatchWithMetadata).Metadata().GetValue("source"); v != "s" {
				t.Errorf("%s: batch metadata lost", comp)
			}
		}
	}
}

func TestEncodeRefuses(t *testing.T) {
	rec := sampleRecord(memory.DefaultAllocator, 3, 2)
	other := sampleRecord(memory.DefaultAllocator, 3, 4)
	good := testHeader()
	tests := map[string]func() error{
		"fence": func() error {
			h := good
			h.Fence = true
			_, err := Encode(h, rec.Schema(), nil, nil, EncodeOptions{})
			return err
		},
		"no epoch": func() error {
			h := good
			h.Epoch = 0
			_, err := Encode(h, rec.Schema(), nil, nil, EncodeOptions{})
			return err
		},
		"no put-id": func() error { h := good; h.PutID = none; _, err := EncodeFence(h); return err },
		"own prev":  func() error { h := good; h.PrevPutID = h.PutID; _, err := EncodeFence(h); return err },
		"other type": func() error {
			_, err := Encode(good, rec.Schema(), []arrow.RecordBatch{other}, nil, EncodeOptions{})
			return err
		},
		"column missing": func() error {
			_, err := Encode(good, arrow.NewSchema(nil, nil), []arrow.RecordBatch{rec}, nil, EncodeOptions{})
			return err
		},
		"compression": func() error {
			_, err := Encode(good, rec.Schema(), []arrow.RecordBatch{rec}, nil, EncodeOptions{Compression: 9})
			return err
		},
	}
	for name, f := range tests {
		if err := f(); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestReleaseOwnership(t *testing.T) {
	mem := memory.NewCheckedAllocator(memory.NewGoAllocator())
	defer mem.AssertSize(t, 0)
	rec := sampleRecord(mem, 100, 8)
	e, err := Encode(testHeader(), rec.Schema(), []arrow.RecordBatch{rec, rec}, nil, EncodeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	rec.Release() // the body must stay valid
	if _, err := Decode(e.Body.Bytes(), DecodeOptions{}); err != nil {
		t.Error(err)
	}
	e.Release()
	e.Release()
	if mem.CurrentAlloc() != 0 {
		t.Errorf("%d bytes held after Release", mem.CurrentAlloc())
	}
	rec = sampleRecord(mem, 1000, 8)
	data := encodeBytes(t, rec.Schema(), []arrow.RecordBatch{rec}, nil, EncodeOptions{Compression: CompressionZstd})
	rec.Release()
	d, err := Decode(data, DecodeOptions{Allocator: mem})
	if err != nil || mem.CurrentAlloc() == 0 {
		t.Fatalf("decode: %v, %d bytes", err, mem.CurrentAlloc())
	}
	d.Release()
	d.Release()
}

// The body must refer to the columns, and decoded columns to the entry.
func TestNoColumnDataIsCopied(t *testing.T) {
	rec := sampleRecord(memory.DefaultAllocator, 1000, 16)
	values := rec.Column(2).(*array.FixedSizeList).ListValues().Data().Buffers()[1].Bytes()
	e, err := Encode(testHeader(), rec.Schema(), []arrow.RecordBatch{rec}, nil, EncodeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Release()
	found := false
	for _, s := range e.Body {
		found = found || unsafe.SliceData(s) == unsafe.SliceData(values)
	}
	if !found {
		t.Error("no slice of the body is the vector column's buffer")
	}
	data := e.Body.Bytes()
	d, err := Decode(data, DecodeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	got := d.Batches[0].Column(2).(*array.FixedSizeList).ListValues().Data().Buffers()[1].Bytes()
	if p, from := uintptr(unsafe.Pointer(unsafe.SliceData(got))), uintptr(unsafe.Pointer(unsafe.SliceData(data))); p < from || p >= from+uintptr(len(data)) {
		t.Error("decoded vectors lie outside of the entry")
	}
}

// bytesPerRun measures what f allocates. Other goroutines must be idle.
func bytesPerRun(t *testing.T, f func() error) uint64 {
	t.Helper()
	const runs = 50
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range runs {
		if err := f(); err != nil {
			t.Fatal(err)
		}
	}
	runtime.ReadMemStats(&after)
	return (after.TotalAlloc - before.TotalAlloc) / runs
}

// Memory allocated by Encode and Decode does not depend on the size of columns.
func TestAllocationsDoNotGrowWithData(t *testing.T) {
	perRun := func(rows int) (encode, decode uint64) {
		rec := sampleRecord(memory.DefaultAllocator, rows, 64)
		recs := []arrow.RecordBatch{rec}
		data := encodeBytes(t, rec.Schema(), recs, nil, EncodeOptions{})
		return bytesPerRun(t, func() error {
				e, err := Encode(testHeader(), rec.Schema(), recs, nil, EncodeOptions{})
				if err == nil {
					e.Release()
				}
				return err
			}), bytesPerRun(t, func() error {
				e, err := Decode(data, DecodeOptions{})
				if err == nil {
					e.Release()
				}
				return err
			})
	}
	e1, d1 := perRun(20)
	e2, d2 := perRun(5000)
	if e2 > e1+512 || d2 > d1+512 {
		t.Errorf("bytes allocated for 20 and for 5000 rows: encode %d, %d; decode %d, %d", e1, e2, d1, d2)
	}
}

// An entry that lies at an odd address is read all the same.
func TestDecodeUnaligned(t *testing.T) {
	rec := sampleRecord(memory.DefaultAllocator, 50, 3)
	data := encodeBytes(t, rec.Schema(), []arrow.RecordBatch{rec}, nil, EncodeOptions{})
	for shift := range 9 {
		moved := append(make([]byte, shift, shift+len(data)), data...)[shift:]
		e, err := Decode(moved, DecodeOptions{})
		if err != nil {
			t.Fatal(err)
		}
		compareRows(t, e.Batches, []arrow.RecordBatch{rec})
	}
}

func TestEveryDamageIsNoticed(t *testing.T) {
	rec := sampleRecord(memory.DefaultAllocator, 4, 2)
	data := encodeBytes(t, rec.Schema(), []arrow.RecordBatch{rec}, &Side{Annotations: []Annotation{{Key: "k"}}}, EncodeOptions{})
	for i := range data {
		bad := bytes.Clone(data)
		bad[i] ^= 0x10
		if e, err := Decode(bad, DecodeOptions{}); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("byte %d of %d changed: %v, %v", i, len(data), e, err)
		}
	}
	for n := range data {
		if e, err := Decode(data[:n:n], DecodeOptions{}); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("cut to %d of %d bytes: %v, %v", n, len(data), e, err)
		}
	}
	if _, err := Decode(append(bytes.Clone(data), 0), DecodeOptions{}); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a byte more: %v", err)
	}
}

func TestNewerVersionIsUnsupported(t *testing.T) {
	rec := sampleRecord(memory.DefaultAllocator, 4, 2)
	data := encodeBytes(t, rec.Schema(), []arrow.RecordBatch{rec}, nil, EncodeOptions{})
	f, _, _ := DecodeFooter(data)
	f.Version = 2
	newer := append(bytes.Clone(data[:len(data)-FooterSize]), f.encode()...)
	if _, err := Decode(newer, DecodeOptions{}); !errors.Is(err, ErrUnsupported) || !errors.Is(err, ErrCorrupt) {
		t.Errorf("footer: %v", err)
	}
	if _, err := DecodeHeader(foreignStream(t, map[string]string{keyEpoch: "1", keyVersion: "2"}, rec)); !errors.Is(err, ErrUnsupported) {
		t.Errorf("header: %v", err)
	}
}

// foreignStream is an entry as another program writes it.
func foreignStream(t testing.TB, metadata map[string]string, recs ...arrow.RecordBatch) []byte {
	t.Helper()
	md := arrow.MetadataFrom(metadata)
	var fields []arrow.Field
	if len(recs) > 0 {
		fields = recs[0].Schema().Fields()
	}
	schema := arrow.NewSchema(fields, &md)
	var buf bytes.Buffer
	w := ipc.NewWriter(&buf, ipc.WithSchema(schema))
	for _, rec := range recs {
		if err := w.Write(array.NewRecordBatch(schema, rec.Columns(), rec.NumRows())); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func TestHeaderOfOtherPrograms(t *testing.T) {
	rec := sampleRecord(memory.DefaultAllocator, 4, 2)
	put := PutID{5}.String()
	tests := []struct {
		name string
		md   map[string]string
		want Header
		bad  bool
	}{
		{name: "lance", md: map[string]string{keyEpoch: "7"}, want: Header{Epoch: 7}},
		{name: "lance with generation", md: map[string]string{keyEpoch: "7", "generation": "4"}, want: Header{Epoch: 7, Generation: 4}},
		{name: "not a fence", md: map[string]string{keyEpoch: "7", keyFence: "false"}, want: Header{Epoch: 7}},
		{name: "no epoch", md: map[string]string{"a": "b"}, bad: true},
		{name: "epoch is no number", md: map[string]string{keyEpoch: "x"}, bad: true},
		{name: "negative epoch", md: map[string]string{keyEpoch: "-1"}, bad: true},
		{name: "signed epoch", md: map[string]string{keyEpoch: "+1"}, bad: true},
		{name: "epoch of 65 bits", md: map[string]string{keyEpoch: "18446744073709551616"}, bad: true},
		{name: "keys of ours without a version", md: map[string]string{keyEpoch: "7", keyPutID: put}, bad: true},
		{name: "version 0", md: map[string]string{keyEpoch: "7", keyVersion: "0"}, bad: true},
		{name: "ours without a put-id", md: map[string]string{keyEpoch: "7", keyVersion: "1", keyFirstRow: "0"}, bad: true},
		{name: "ours without a first row", md: map[string]string{keyEpoch: "7", keyVersion: "1", keyPutID: put}, bad: true},
		{name: "ours with epoch 0", md: map[string]string{keyEpoch: "0", keyVersion: "1", keyPutID: put, keyFirstRow: "0"}, bad: true},
		{name: "ours", md: map[string]string{keyEpoch: "7", keyVersion: "1", keyPutID: put, keyFirstRow: "2"}, want: Header{Version: 1, Epoch: 7, PutID: PutID{5}, FirstRow: 2}},
		{name: "fence with columns", md: map[string]string{keyEpoch: "7", keyFence: "true"}, bad: true},
	}
	for _, tt := range tests {
		h, err := DecodeHeader(foreignStream(t, tt.md, rec))
		if tt.bad != errors.Is(err, ErrCorrupt) || h != tt.want {
			t.Errorf("%s: %+v, %v", tt.name, h, err)
		}
	}
	// Ours, but its footer is gone.
	if _, err := Decode(foreignStream(t, tests[13].md, rec), DecodeOptions{}); !errors.Is(err, ErrCorrupt) {
		t.Errorf("without a footer: %v", err)
	}
}

// Another program's entry has no checksum: its values are checked instead.
func TestForeignEntryIsValidated(t *testing.T) {
	rec := sampleRecord(memory.DefaultAllocator, 4, 2)
	data := foreignStream(t, map[string]string{keyEpoch: "1"}, rec)
	if _, err := Decode(data, DecodeOptions{}); err != nil {
		t.Fatal(err)
	}
	offsets := rec.Column(1).Data().Buffers()[1].Bytes()[:20]
	at := bytes.Index(data, offsets)
	for _, place := range []int{8, 16} { // one in the middle, and the last
		bad := bytes.Clone(data)
		binary.LittleEndian.PutUint32(bad[at+place:], 1<<20)
		if _, err := Decode(bad, DecodeOptions{}); !errors.Is(err, ErrCorrupt) {
			t.Errorf("offset at %d is beyond the text: %v", place, err)
		}
	}
	for n := range len(data) - 1 {
		if _, err := Decode(data[:n], DecodeOptions{}); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("cut to %d bytes: %v", n, err)
		}
	}
}

// A few bytes must not make the decoder allocate a terabyte.
func TestExpansionIsBounded(t *testing.T) {
	b := array.NewBinaryBuilder(memory.DefaultAllocator, arrow.BinaryTypes.Binary)
	b.Append(make([]byte, 1<<20))
	rec := record(arrow.NewSchema([]arrow.Field{{Name: "c", Type: arrow.BinaryTypes.Binary}}, nil), b.NewArray())
	for _, comp := range []Compression{CompressionLZ4, CompressionZstd} {
		data := encodeBytes(t, rec.Schema(), []arrow.RecordBatch{rec}, nil, EncodeOptions{Compression: comp})
		if _, err := Decode(data, DecodeOptions{MaxExpanded: 1 << 19}); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: expanded beyond the bound: %v", comp, err)
		}
		if _, err := Decode(data, DecodeOptions{}); err != nil {
			t.Error(err)
		}
	}
}

func TestAtPosition(t *testing.T) {
	_, err := Decode(nil, DecodeOptions{})
	placed := AtPosition(err, 17)
	if !strings.Contains(placed.Error(), "position 17") || !errors.Is(placed, ErrCorrupt) || strings.Contains(err.Error(), "17") {
		t.Errorf("%v; %v", placed, err)
	}
	if other := errors.New("x"); AtPosition(other, 3) != other || AtPosition(placed, 3) != placed {
		t.Error("changed what it should not")
	}
}
