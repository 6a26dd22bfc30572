package simulation

import (
	"context"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/uuid"

	"github.com/memwal/memwal-go/index"
	"github.com/memwal/memwal-go/internal/wal"
	"github.com/memwal/memwal-go/memwal"
)

var shard = uuid.MustParse("6ba7b810-9dad-11d1-80b4-00c04fd430c8")

// Where the shard keeps what.
var (
	root        = "_mem_wal/" + shard.String() + "/"
	manifestDir = root + "manifest/"
	walDir      = root + "wal/"
	boundaryDir = root + "gc/wal.boundary/"
)

var tableSchema = arrow.NewSchema([]arrow.Field{
	{Name: "id", Type: arrow.PrimitiveTypes.Int64},
	{Name: "text", Type: arrow.BinaryTypes.String, Nullable: true},
	{Name: "n", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
}, nil)

// keys is how many keys there are in a table with a primary key.
const keys = 5

// row is a row as it was put: its id is the key, n says which put it was. Of a
// deletion only the key is stored.
type row struct {
	id, n int64
	dead  bool
}

func (r row) String() string {
	if r.dead {
		return fmt.Sprintf("-%d", r.id)
	}
	return fmt.Sprintf("%d=%d", r.id, r.n)
}

// stored is what the log has of r.
func (r row) stored() row {
	if r.dead {
		r.n = 0
	}
	return r
}

// batchOf makes a batch for Put, or of keys for Delete.
func batchOf(rows []row) arrow.RecordBatch {
	schema := tableSchema
	if rows[0].dead {
		schema = arrow.NewSchema(schema.Fields()[:1], nil)
	}
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	for _, r := range rows {
		b.Field(0).(*array.Int64Builder).Append(r.id)
		if !r.dead {
			b.Field(1).(*array.StringBuilder).Append(fmt.Sprint(r.n))
			b.Field(2).(*array.Int64Builder).Append(r.n)
		}
	}
	return b.NewRecordBatch()
}

// rowsIn returns the rows of a batch of the table, as stored (with tombstones) or as read.
func rowsIn(rec arrow.RecordBatch) ([]row, error) {
	var rows []row
	id, text, n := rec.Column(0).(*array.Int64), rec.Column(1).(*array.String), rec.Column(2).(*array.Int64)
	for i := range int(rec.NumRows()) {
		r := row{id: id.Value(i)}
		if rec.NumCols() > 3 {
			r.dead = rec.Column(3).(*array.Boolean).Value(i)
		}
		if !r.dead {
			r.n = n.Value(i)
			if text.Value(i) != fmt.Sprint(r.n) {
				return nil, fmt.Errorf("row %v has the text %q", r, text.Value(i))
			}
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// rowsOf returns the rows of an entry.
func rowsOf(e *wal.Entry) ([]row, error) {
	var rows []row
	for _, b := range e.Batches {
		more, err := rowsIn(b)
		if err != nil {
			return nil, err
		}
		rows = append(rows, more...)
	}
	return rows, nil
}

func drain(r array.RecordReader) ([]row, error) {
	defer r.Release()
	var rows []row
	for r.Next() {
		more, err := rowsIn(r.RecordBatch())
		if err != nil {
			return nil, err
		}
		rows = append(rows, more...)
	}
	return rows, r.Err()
}

func scan(s *memwal.Snapshot) ([]row, error) {
	r, err := s.Scan(context.Background(), memwal.ScanOptions{})
	if err != nil {
		return nil, err
	}
	return drain(r)
}

func rangeByN(s *memwal.Snapshot) ([]row, error) {
	r, err := s.Range(context.Background(), "by_n", index.Range{}, memwal.ScanOptions{})
	if err != nil {
		return nil, err
	}
	return drain(r)
}
