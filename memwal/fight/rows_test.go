//go:build unix

package fight

import (
	"context"
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/memwal/memwal-go/memwal"
)

// schema is that of the shards. A row is known by n, which is never used twice;
// everything else follows from it.
var schema = arrow.NewSchema([]arrow.Field{
	{Name: "id", Type: arrow.PrimitiveTypes.Int64},
	{Name: "text", Type: arrow.BinaryTypes.String, Nullable: true},
	{Name: "n", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
}, nil)

var keySchema = arrow.NewSchema(schema.Fields()[:1], nil)

// keys is the number of keys of a table with a primary key: few, so that rows
// replace each other.
const keys = 97

// idOf is the id of row n.
func idOf(keyed bool, n int64) int64 {
	if !keyed {
		return n
	}
	return int64(mix(uint64(n)) % keys)
}

// textOf is the text of row n. Lengths differ, so that entries do.
func textOf(n int64) string {
	return fmt.Sprintf("%d%s", n, strings.Repeat("-", int(mix(uint64(n))%200)))
}

// mix is the finalizer of splitmix64.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// batchOf returns the rows first … first+rows-1, or their keys. The caller
// releases it.
func batchOf(keyed, del bool, first int64, rows int) arrow.RecordBatch {
	s := schema
	if del {
		s = keySchema
	}
	b := array.NewRecordBuilder(memory.DefaultAllocator, s)
	defer b.Release()
	for n := first; n < first+int64(rows); n++ {
		b.Field(0).(*array.Int64Builder).Append(idOf(keyed, n))
		if !del {
			b.Field(1).(*array.StringBuilder).Append(textOf(n))
			b.Field(2).(*array.Int64Builder).Append(n)
		}
	}
	return b.NewRecordBatch()
}

// digest stands for a set of live rows, each at its ordinal. Rows are added and
// taken away in any order.
type digest struct {
	rows int
	sum  uint64
}

func (d *digest) add(ordinal uint64, n int64) {
	d.rows++
	d.sum += mix(mix(ordinal) ^ uint64(n))
}

func (d *digest) remove(ordinal uint64, n int64) {
	d.rows--
	d.sum -= mix(mix(ordinal) ^ uint64(n))
}

// digestOf scans a snapshot. It looks at whatever a snapshot alone can tell to be
// wrong; what the rows should be is for the digest to tell.
func digestOf(ctx context.Context, keyed bool, s *memwal.Snapshot) (digest, error) {
	var d digest
	r, err := s.Scan(ctx, memwal.ScanOptions{Ordinals: true})
	if err != nil {
		return d, err
	}
	defer r.Release()
	next := uint64(0)
	for r.Next() {
		rec := r.RecordBatch()
		id, text := rec.Column(0).(*array.Int64), rec.Column(1).(*array.String)
		num, ordinal := rec.Column(2).(*array.Int64), rec.Column(3).(*array.Uint64)
		for i := range int(rec.NumRows()) {
			n, at := num.Value(i), ordinal.Value(i)
			if at < next || at >= s.Bound() {
				return d, fmt.Errorf("row n=%d has ordinal %d, after %d in a snapshot of %d rows", n, at, next, s.Bound())
			}
			if id.Value(i) != idOf(keyed, n) || text.Value(i) != textOf(n) {
				return d, fmt.Errorf("row n=%d at %d has id %d and text %.20q", n, at, id.Value(i), text.Value(i))
			}
			d.add(at, n)
			next = at + 1
		}
	}
	return d, r.Err()
}
