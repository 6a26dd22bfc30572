package wal

import (
	"fmt"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// go test -run xxx -bench . -benchmem ./internal/wal
func BenchmarkEncode(b *testing.B) {
	for _, size := range []struct{ batches, rows, dims int }{{1, 20, 8}, {1, 1000, 384}, {50, 20, 8}} {
		rec := sampleRecord(memory.DefaultAllocator, size.rows, size.dims)
		recs := make([]arrow.RecordBatch, size.batches)
		for i := range recs {
			recs[i] = rec
		}
		for _, o := range []EncodeOptions{{}, {CoalesceRows: 4096}, {Compression: CompressionLZ4}, {Compression: CompressionLZ4, CoalesceRows: 4096}} {
			b.Run(fmt.Sprintf("batches=%d/rows=%d/dims=%d/%s/coalesce=%d", size.batches, size.rows, size.dims, o.Compression, o.CoalesceRows), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					e, err := Encode(testHeader(), rec.Schema(), recs, nil, o)
					if err != nil {
						b.Fatal(err)
					}
					b.SetBytes(e.Size)
					e.Release()
				}
			})
		}
	}
}

func BenchmarkEncodeFence(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := EncodeFence(testHeader()); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	for _, size := range []struct{ batches, rows, dims int }{{1, 20, 8}, {1, 1000, 384}, {50, 20, 8}} {
		rec := sampleRecord(memory.DefaultAllocator, size.rows, size.dims)
		recs := make([]arrow.RecordBatch, size.batches)
		for i := range recs {
			recs[i] = rec
		}
		data := encodeBytes(b, rec.Schema(), recs, nil, EncodeOptions{})
		b.Run(fmt.Sprintf("batches=%d/rows=%d/dims=%d", size.batches, size.rows, size.dims), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				e, err := Decode(data, DecodeOptions{})
				if err != nil {
					b.Fatal(err)
				}
				e.Release()
			}
		})
		b.Run(fmt.Sprintf("header/batches=%d/rows=%d/dims=%d", size.batches, size.rows, size.dims), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := DecodeHeader(data); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
