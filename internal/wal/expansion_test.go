package wal

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// peak is an allocator that knows how much was in use at most.
type peak struct {
	memory.Allocator
	now, most int64
}

func (p *peak) add(n int) {
	p.now += int64(n)
	p.most = max(p.most, p.now)
}

func (p *peak) Allocate(n int) []byte { p.add(n); return p.Allocator.Allocate(n) }
func (p *peak) Reallocate(n int, b []byte) []byte {
	p.add(n - len(b))
	return p.Allocator.Reallocate(n, b)
}
func (p *peak) Free(b []byte) { p.add(-len(b)); p.Allocator.Free(b) }

// What is announced is what decoding allocates.
func TestR10_ExpansionIsWhatDecodeAllocates(t *testing.T) {
	rec := sampleRecord(memory.DefaultAllocator, 700, 16)
	defer rec.Release()
	for _, c := range []Compression{CompressionNone, CompressionLZ4, CompressionZstd} {
		data := encodeBytes(t, rec.Schema(), []arrow.RecordBatch{rec, rec, rec}, nil, EncodeOptions{Compression: c})
		mem := &peak{Allocator: memory.NewGoAllocator()}
		e, err := Decode(data, DecodeOptions{Allocator: mem})
		if err != nil {
			t.Fatal(err)
		}
		want := Expansion(data, DecodeOptions{})
		if c == CompressionNone && want != 0 || c != CompressionNone && want < int64(len(data)) {
			t.Errorf("%v: %d bytes are announced for an entry of %d", c, want, len(data))
		}
		if mem.most > want || mem.most < want*9/10 {
			t.Errorf("%v: %d bytes were allocated, %d announced", c, mem.most, want)
		}
		e.Release()
	}
}

// Of damaged entries it announces no more than decoding allocates before it stops,
// whatever they claim.
func TestR10_ExpansionOfDamagedEntries(t *testing.T) {
	rec := sampleRecord(memory.DefaultAllocator, 50, 4)
	defer rec.Release()
	data := encodeBytes(t, rec.Schema(), []arrow.RecordBatch{rec}, nil, EncodeOptions{Compression: CompressionLZ4})
	whole := Expansion(data, DecodeOptions{})
	for n := range data {
		if got := Expansion(data[:n], DecodeOptions{}); got != 0 && got != whole {
			t.Fatalf("cut at byte %d: %d bytes, want 0 or %d", n, got, whole)
		}
		bad := append([]byte(nil), data...)
		bad[n] ^= 0x80
		if got := Expansion(bad, DecodeOptions{MaxExpanded: 1 << 20}); got < 0 || got > 1<<20+64*1024 {
			t.Fatalf("flipped at byte %d: %d bytes", n, got)
		}
	}
}
