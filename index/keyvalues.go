package index

import (
	"github.com/apache/arrow-go/v18/arrow"

	"github.com/memwal/memwal-go/internal/keys"
)

// KeyValues are the Go values of the primary key of a row of the storage schema, in
// the order of its columns: Key takes them. They are the caller's. Nil: the table has no
// primary key.
func (s *Spec) KeyValues(rec arrow.RecordBatch, row int) []any {
	if len(s.keyCols) == 0 {
		return nil
	}
	vals := make([]any, len(s.keyCols))
	for i, col := range s.keyCols {
		vals[i] = keys.ValueAt(rec.Column(col), row)
	}
	return vals
}
