package wal

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

var update = flag.Bool("update", false, "rewrite the golden files")

const goldenDir = "testdata/golden"

// goldenEntries are entries whose bytes must never change.
func goldenEntries(t testing.TB) map[string][]byte {
	t.Helper()
	rec := sampleRecord(memory.NewGoAllocator(), 3, 2)
	dict := typeCase{}
	for _, c := range typeCases() {
		if c.name == "structofdictionary" {
			dict = c
		}
	}
	dictSchema := arrow.NewSchema([]arrow.Field{{Name: "c", Type: dict.dt, Nullable: true}}, nil)
	dicts := []arrow.RecordBatch{
		record(dictSchema, dict.build(t, memory.NewGoAllocator(), 0, 5)),
		record(dictSchema, dict.build(t, memory.NewGoAllocator(), 3, 5)),
	}
	fence, err := EncodeFence(testHeader())
	if err != nil {
		t.Fatal(err)
	}
	side := &Side{
		Annotations: []Annotation{{Key: "k", Value: []byte("v")}, {Key: "gone", Deleted: true}},
		Journal:     []JournalRecord{{Journal: "j", Sequence: 1, Payload: []byte("payload")}},
	}
	return map[string][]byte{
		"rows":       encodeBytes(t, rec.Schema(), []arrow.RecordBatch{rec, rec}, side, EncodeOptions{}),
		"joined":     encodeBytes(t, rec.Schema(), []arrow.RecordBatch{rec, rec}, nil, EncodeOptions{CoalesceRows: 100}),
		"dictionary": encodeBytes(t, dictSchema, dicts, nil, EncodeOptions{}),
		"fence":      fence.Bytes(),
		"journal":    encodeBytes(t, rec.Schema(), nil, side, EncodeOptions{}),
	}
}

// Entries written by version 1 must be read for ever; that they are also written
// the same is checked so that a change of arrow-go or protobuf is noticed.
func TestGoldenFiles(t *testing.T) {
	for name, data := range goldenEntries(t) {
		path := filepath.Join(goldenDir, name+Extension)
		if *update {
			if err := os.WriteFile(path, data, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(data, want) {
			t.Errorf("%s: encodes to other bytes than the golden file", name)
		}
		e, err := Decode(want, DecodeOptions{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		h := testHeader()
		h.Fence = name == "fence"
		if e.Header != h {
			t.Errorf("%s: header %+v", name, e.Header)
		}
		fresh, err := Decode(data, DecodeOptions{})
		if err != nil {
			t.Fatal(err)
		}
		compareRows(t, e.Batches, fresh.Batches)
	}
}
