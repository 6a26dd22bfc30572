package wal

import (
	"bytes"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

func addSeeds(f *testing.F) {
	for _, dir := range []string{goldenDir, lanceDir} {
		files, err := filepath.Glob(filepath.Join(dir, "*"+Extension))
		if err != nil || len(files) == 0 {
			f.Fatalf("no seeds in %s: %v", dir, err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
	for _, c := range typeCases() {
		col := c.build(f, memory.DefaultAllocator, 0, 9)
		rec := record(arrow.NewSchema([]arrow.Field{{Name: "c", Type: c.dt, Nullable: true}}, nil), col)
		f.Add(foreignStream(f, map[string]string{keyEpoch: "1"}, rec))
	}
	rec := sampleRecord(memory.DefaultAllocator, 50, 4)
	for _, comp := range []Compression{CompressionLZ4, CompressionZstd} {
		f.Add(encodeBytes(f, rec.Schema(), []arrow.RecordBatch{rec}, nil, EncodeOptions{Compression: comp}))
	}
}

// FuzzDecode: no input panics, here or when the values are used. Inputs with a
// footer get its checksums corrected, or no damage would ever reach the decoder.
func FuzzDecode(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		data = bytes.Clone(data)
		if n := len(data) - FooterSize; n >= 0 && string(data[n:n+8]) == footerMagic {
			fixChecksums(data)
		}
		e, err := Decode(data, DecodeOptions{MaxExpanded: 1 << 20})
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Fatalf("error is not ErrCorrupt: %v", err)
			}
			return
		}
		defer e.Release()
		rows := int64(0)
		for _, rec := range e.Batches {
			rows += rec.NumRows()
			// Values that a checksum vouches for are used as they are.
			if e.HasFooter {
				continue
			}
			for _, col := range rec.Columns() {
				if col.Len() < 1<<12 {
					_ = show(col)
				}
			}
		}
		if rows != e.Rows {
			t.Fatalf("%d rows in batches, %d in all", rows, e.Rows)
		}
		if h, err := DecodeHeader(data); err != nil || h != e.Header {
			t.Fatalf("DecodeHeader disagrees: %+v, %v", h, err)
		}
	})
}

func fixChecksums(data []byte) {
	n := len(data) - FooterSize
	footer := data[n:]
	le := func(b []byte, v uint32) { b[0], b[1], b[2], b[3] = byte(v), byte(v>>8), byte(v>>16), byte(v>>24) }
	le(footer[56:], crc32.Checksum(data[:n], castagnoli))
	le(footer[60:], crc32.Checksum(footer[:60], castagnoli))
}

// FuzzDecodeHeader: no input panics, and a header that was read can be written
// and read again.
func FuzzDecodeHeader(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		h, err := DecodeHeader(data)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Fatalf("error is not ErrCorrupt: %v", err)
			}
			return
		}
		if h.Version == 0 {
			return
		}
		if h.Fence {
			body, err := EncodeFence(h)
			if err != nil {
				t.Fatal(err)
			}
			if again, err := DecodeHeader(body.Bytes()); err != nil || again != h {
				t.Fatalf("%+v became %+v, %v", h, again, err)
			}
		}
	})
}

// FuzzDecodeFooter: no input panics.
func FuzzDecodeFooter(f *testing.F) {
	f.Add(Footer{Version: Version, Kinds: KindRows, StreamLen: 8, Rows: 1}.encode())
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, ok, err := DecodeFooter(data); ok && err != nil {
			t.Fatal("ok with an error")
		}
	})
}
