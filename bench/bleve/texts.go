package main

import (
	"math/rand/v2"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/blevesearch/bleve/v2/search/query"

	"github.com/memwal/memwal-go/bench/internal/words"
)

// column is the column of text, in bleve the field.
const column = "text"

var schema = arrow.NewSchema([]arrow.Field{{Name: column, Type: arrow.BinaryTypes.String}}, nil)

// texts are the rows, in batches.
type texts struct {
	vocabulary *words.Vocabulary
	words      int // of a text
	batches    []arrow.RecordBatch
	rows       int
}

// newTexts makes rows in batches of size, always the same ones.
func newTexts(rows, size, perText int) *texts {
	t := &texts{vocabulary: words.New(30_000), words: perText, rows: rows}
	rng := rand.New(rand.NewPCG(7, 8))
	var buf []byte
	for at := 0; at < rows; at += size {
		b := array.NewStringBuilder(memory.DefaultAllocator)
		for range min(size, rows-at) {
			buf = t.vocabulary.AppendText(buf[:0], rng, perText)
			b.Append(string(buf))
		}
		col := b.NewArray()
		b.Release()
		t.batches = append(t.batches, array.NewRecordBatch(schema, []arrow.Array{col}, int64(col.Len())))
		col.Release()
	}
	return t
}

// text is that of a row.
func (t *texts) text(row int) string {
	size := int(t.batches[0].NumRows())
	return t.batches[row/size].Column(0).(*array.String).Value(row % size)
}

// kinds of queries.
var kinds = []string{"rare", "common", "match", "phrase", "prefix"}

// queries returns n queries of a kind, with rows below bound to draw from, always the
// same ones.
func (t *texts) queries(kind string, n, bound int) []query.Query {
	rng := rand.New(rand.NewPCG(9, uint64(len(kind))))
	list := make([]query.Query, n)
	for i := range list {
		list[i] = t.query(kind, rng, bound)
	}
	return list
}

func (t *texts) query(kind string, rng *rand.Rand, bound int) query.Query {
	all := strings.Fields(t.text(rng.IntN(bound)))
	at := rng.IntN(len(all) - 1)
	switch kind {
	case "rare":
		return on(query.NewTermQuery(t.vocabulary.At(t.rareRank() + rng.IntN(200))))
	case "common":
		return on(query.NewTermQuery(t.vocabulary.At(rng.IntN(10))))
	case "match":
		return on(query.NewMatchQuery(all[at] + " " + all[rng.IntN(len(all))]))
	case "phrase":
		return on(query.NewMatchPhraseQuery(all[at] + " " + all[at+1]))
	default:
		return on(query.NewPrefixQuery(all[at][:3]))
	}
}

// rareRank is the rank from which on a word is in less than one of 1,000 rows.
func (t *texts) rareRank() int {
	for rank := range t.vocabulary.Len() {
		if t.vocabulary.Share(rank)*float64(t.words) < 0.001 {
			return min(rank, t.vocabulary.Len()-200)
		}
	}
	return t.vocabulary.Len() - 200
}

// on names the field, which bleve's own index needs where its mapping has several.
func on[Q interface {
	query.FieldableQuery
}](q Q) query.Query {
	q.SetField(column)
	return q
}
