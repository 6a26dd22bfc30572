package main

import (
	"iter"
	"math/rand/v2"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/memwal/memwal-go/bench/internal/words"
)

const (
	textLen    = 64     // of made-up text, unless it is counted in words
	vocabulary = 30_000 // words, of text that is
)

// synthetic makes up rows: an ordinal id, 64 characters of words or as many words as
// asked for, and, if asked for, a vector. Characters and vectors are windows into a
// pool of random data at random places; words are drawn one by one. Batches beyond the first 256 MiB have the columns of earlier ones, with new
// ids: making them costs the measured run next to nothing.
type synthetic struct {
	rows, batch int64
	dim         int
	words       int // of a text; 0: it is textLen characters
	schema      *arrow.Schema
	text        []byte            // without words
	vocabulary  *words.Vocabulary // with them
	floats      []float32

	mu     sync.Mutex
	made   [][]arrow.Array // columns but the id, of the first whole batches
	period int64           // batches until they come again
}

// newSynthetic makes up rows whose text is in a column of the name given.
func newSynthetic(rows, batch int64, dim int, text string, perText int) *synthetic {
	fields := []arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64},
		{Name: text, Type: arrow.BinaryTypes.String, Nullable: true},
	}
	if dim > 0 {
		list := arrow.FixedSizeListOfField(int32(dim), arrow.Field{Name: "item", Type: arrow.PrimitiveTypes.Float32, Nullable: true})
		fields = append(fields, arrow.Field{Name: "vector", Type: list, Nullable: true})
	}
	s := &synthetic{rows: rows, batch: batch, dim: dim, words: perText, schema: arrow.NewSchema(fields, nil)}
	rng := rand.New(rand.NewPCG(1, 2))
	long := textLen
	if perText > 0 {
		s.vocabulary = words.New(vocabulary)
		const sampled = 1000
		long = 1 + perText*len(s.vocabulary.AppendText(nil, rng, sampled))/sampled
	} else {
		s.text = textPool(rng, 1<<20)
	}
	s.period = max(1, prepareBytes/(batch*int64(8+4+long+4*dim)))
	if dim > 0 {
		s.floats = make([]float32, 1<<18+dim)
		for i := range s.floats {
			s.floats[i] = float32(rng.NormFloat64())
		}
	}
	return s
}

// textPool returns n bytes of words of 3 to 9 letters, of which a few are
// frequent and most are rare, as in a language.
func textPool(rng *rand.Rand, n int) []byte {
	words := make([][]byte, 20_000)
	for i := range words {
		w := make([]byte, 3+rng.IntN(7))
		for j := range w {
			w[j] = byte('a' + rng.IntN(26))
		}
		words[i] = append(w, ' ')
	}
	zipf := rand.NewZipf(rng, 1.1, 4, uint64(len(words)-1))
	pool := make([]byte, 0, n+16)
	for len(pool) < n {
		pool = append(pool, words[zipf.Uint64()]...)
	}
	return pool[:n]
}

func (s *synthetic) Schema() *arrow.Schema { return s.schema }
func (s *synthetic) Rows() int64           { return s.rows }

func (s *synthetic) Batches() iter.Seq2[arrow.RecordBatch, error] {
	return func(yield func(arrow.RecordBatch, error) bool) {
		for n := int64(0); n*s.batch < s.rows; n++ {
			if !yield(s.make(n), nil) {
				return
			}
		}
	}
}

// make returns batch n. The caller owns it.
func (s *synthetic) make(n int64) arrow.RecordBatch {
	rows := min(s.batch, s.rows-n*s.batch)
	ids := numbers(n*s.batch, rows)
	defer ids.Release()
	rest := s.columns(n%s.period, rows)
	return array.NewRecordBatch(s.schema, append([]arrow.Array{ids}, rest...), rows)
}

// columns returns the columns but the id of batch n of the period. Those of
// whole batches are made once and kept.
func (s *synthetic) columns(n, rows int64) []arrow.Array {
	if rows < s.batch { // the last one
		return s.random(n, rows)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for k := int64(len(s.made)); k <= n; k++ {
		s.made = append(s.made, s.random(k, s.batch))
	}
	return s.made[n]
}

// random makes the columns but the id: for the same arguments the same.
func (s *synthetic) random(n, rows int64) []arrow.Array {
	rng := rand.New(rand.NewPCG(3, uint64(n)))
	cols := []arrow.Array{s.texts(rng, int(rows))}
	if s.dim > 0 {
		cols = append(cols, s.vectors(rng, int(rows)))
	}
	return cols
}

func (s *synthetic) texts(rng *rand.Rand, n int) arrow.Array {
	offsets, bytes := make([]int32, n+1), make([]byte, 0, n*textLen)
	for i := range n {
		if s.words > 0 {
			bytes = s.vocabulary.AppendText(bytes, rng, s.words)
		} else {
			at := rng.IntN(len(s.text) - textLen)
			bytes = append(bytes, s.text[at:at+textLen]...)
		}
		offsets[i+1] = int32(len(bytes))
	}
	return own(arrow.BinaryTypes.String, n, nil, arrow.Int32Traits.CastToBytes(offsets), bytes)
}

func (s *synthetic) vectors(rng *rand.Rand, n int) arrow.Array {
	vals := make([]float32, 0, n*s.dim)
	for range n {
		at := rng.IntN(len(s.floats) - s.dim)
		vals = append(vals, s.floats[at:at+s.dim]...)
	}
	child := own(arrow.PrimitiveTypes.Float32, len(vals), nil, arrow.Float32Traits.CastToBytes(vals))
	defer child.Release()
	data := array.NewData(s.schema.Field(2).Type, n, []*memory.Buffer{nil}, []arrow.ArrayData{child.Data()}, 0, 0)
	defer data.Release()
	return array.MakeFromData(data)
}

// own wraps buffers that are on the heap into an array without nulls.
func own(t arrow.DataType, n int, buffers ...[]byte) arrow.Array {
	bufs := make([]*memory.Buffer, len(buffers))
	for i, b := range buffers {
		if b != nil {
			bufs[i] = memory.NewBufferBytes(b)
		}
	}
	data := array.NewData(t, n, bufs, nil, 0, 0)
	defer data.Release()
	return array.MakeFromData(data)
}
