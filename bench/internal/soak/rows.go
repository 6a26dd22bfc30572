package soak

import (
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/memwal/memwal-go/index"
)

const (
	hotKeys   = 64 // keys that rows of all incarnations share; they are negative
	kindBlock = 8  // rows in a row that are all puts or all deletes
	byN       = "by_n"
	byText    = "by_text"
	words     = 16 // that texts have one of
)

var (
	tableSchema = arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64},
		{Name: "n", Type: arrow.PrimitiveTypes.Int64},
		{Name: "text", Type: arrow.BinaryTypes.String, Nullable: true},
	}, nil)
	keySchema = arrow.NewSchema(tableSchema.Fields()[:1], nil)
	indexes   = []index.Config{index.Ordered{Name: byN, Columns: []index.Column{{Name: "n"}}}, index.Text{Name: byText, Column: index.Column{Name: "text"}}}
)

// workload computes the rows of a round.
type workload struct {
	seed  uint64
	keyed bool // else rows are only ever added
}

// row is one row as it was put, or one deleted key.
type row struct {
	key  int64
	n    int64 // incarnation and sequence: which row it is
	dead bool  // it deletes key
}

// number names a row of the round: sequence seq of an incarnation.
func number(incarnation uint32, seq uint64) int64 { return int64(incarnation)<<32 | int64(seq) }

// row computes a row. Without a primary key all rows are puts.
func (w workload) row(incarnation uint32, seq uint64) row {
	n := number(incarnation, seq)
	if !w.keyed {
		return row{key: n, n: n}
	}
	r := row{key: n, n: n, dead: mix(w.seed, uint64(number(incarnation, seq/kindBlock)), 1)%5 == 0}
	h := mix(w.seed, uint64(n), 2)
	back := 1 + h>>8%hotKeys
	switch {
	case r.dead && h%2 == 0 && back <= seq:
		r.key = n - int64(back) // mostly a row of the same incarnation
	case r.dead || h%3 == 0:
		r.key = -int64(back)
	}
	return r
}

// text is the value of the column of that name; not ok is null.
func (w workload) text(n int64) (s string, ok bool) {
	h := mix(w.seed, uint64(n), 3)
	if h%16 == 0 {
		return "", false
	}
	s = strconv.FormatUint(h, 36)
	for range h >> 8 % 6 {
		s += s[:len(s)/2]
	}
	return s + " " + word(w.wordOf(n)), true
}

// wordOf is the number of the word of a text that is not null.
func (w workload) wordOf(n int64) uint64 { return mix(w.seed, uint64(n), 3) >> 16 % words }

func word(i uint64) string { return "word" + strconv.FormatUint(i, 10) }

// batch makes a batch of at most most rows of an incarnation, from seq on: all
// puts, or all keys to be deleted. The caller releases it.
func (w workload) batch(incarnation uint32, seq uint64, most int) (rec arrow.RecordBatch, dead bool) {
	first := w.row(incarnation, seq)
	schema := tableSchema
	if first.dead {
		schema = keySchema
	}
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	for i := range uint64(most) {
		r := w.row(incarnation, seq+i)
		if r.dead != first.dead {
			break
		}
		b.Field(0).(*array.Int64Builder).Append(r.key)
		if r.dead {
			continue
		}
		b.Field(1).(*array.Int64Builder).Append(r.n)
		texts := b.Field(2).(*array.StringBuilder)
		if s, ok := w.text(r.n); ok {
			texts.Append(s)
		} else {
			texts.AppendNull()
		}
	}
	return b.NewRecordBatch(), first.dead
}

// mix hashes its arguments (the finalizer of SplitMix64, chained).
func mix(vals ...uint64) uint64 {
	h := uint64(0x9e3779b97f4a7c15)
	for _, v := range vals {
		h += v + 0x9e3779b97f4a7c15
		h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
		h = (h ^ h>>27) * 0x94d049bb133111eb
		h ^= h >> 31
	}
	return h
}
