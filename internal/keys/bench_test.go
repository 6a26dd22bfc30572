package keys

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

func benchRecord(b *testing.B) arrow.RecordBatch {
	r := rand.New(rand.NewPCG(1, 1))
	ints := array.NewInt64Builder(memory.DefaultAllocator)
	text := array.NewStringBuilder(memory.DefaultAllocator)
	for range 1000 {
		ints.Append(r.Int64())
		text.Append(fmt.Sprintf("customer-%016x", r.Uint64()))
	}
	return recordOf(b, ints.NewArray(), text.NewArray())
}

func BenchmarkAppendRow(b *testing.B) {
	rec := benchRecord(b)
	for name, cols := range map[string][]int{"int64": {0}, "text25": {1}, "text25+int64": {1, 0}} {
		b.Run(name, func(b *testing.B) {
			c, err := Bind(rec.Schema(), cols, false)
			if err != nil {
				b.Fatal(err)
			}
			var key []byte
			i := 0
			b.ReportAllocs()
			for b.Loop() {
				key = c.AppendRow(key[:0], rec, i%1000)
				i++
			}
		})
	}
}

// BenchmarkWords: a batch of 1,000 int64.
func BenchmarkWords(b *testing.B) {
	rec := benchRecord(b)
	c, err := Bind(rec.Schema(), []int{0}, false)
	if err != nil {
		b.Fatal(err)
	}
	var words []uint64
	b.ReportAllocs()
	for b.Loop() {
		words = c.Words(words[:0], rec)
	}
}

func BenchmarkCompareKey(b *testing.B) {
	rec := benchRecord(b)
	c, err := Bind(rec.Schema(), []int{1, 0}, false)
	if err != nil {
		b.Fatal(err)
	}
	key := c.AppendRow(nil, rec, 7)
	i := 0
	b.ReportAllocs()
	for b.Loop() {
		c.CompareKey(key, rec, i%1000)
		i++
	}
}

func BenchmarkAppendValues(b *testing.B) {
	rec := benchRecord(b)
	c, err := Bind(rec.Schema(), []int{1, 0}, false)
	if err != nil {
		b.Fatal(err)
	}
	vals := []any{"customer-0000", int64(5)}
	var key []byte
	b.ReportAllocs()
	for b.Loop() {
		if key, err = c.AppendValues(key[:0], vals); err != nil {
			b.Fatal(err)
		}
	}
}
