package schema

import (
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// Narrower turns batches of the storage schema into batches of the schema that
// readers see: the user's columns under the user's own fields, no tombstones.
// Rows that are deletes must have been left out before. Safe for concurrent use.
type Narrower struct {
	user   *arrow.Schema
	source []int
}

// NewNarrower matches the columns of a storage schema and of a user schema, or of
// a projection of it in any order, by name.
func NewNarrower(storage, user *arrow.Schema) (*Narrower, error) {
	n := &Narrower{user: user, source: make([]int, user.NumFields())}
	var errs []error
	for i, f := range user.Fields() {
		at := storage.FieldIndices(f.Name)
		switch {
		case len(at) != 1 || f.Name == Tombstone:
			errs = append(errs, columnError(f.Name, describeType(f), "is not in the storage schema", fmt.Sprintf("one of %q", fieldNames(storage))))
		case !sameField(storage.Field(at[0]), f):
			errs = append(errs, columnError(f.Name, describeType(f), fmt.Sprintf("is stored as %s", describeType(storage.Field(at[0]))), "the stored type"))
		default:
			n.source[i] = at[0]
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return n, nil
}

// Schema returns the schema of what Narrow returns.
func (n *Narrower) Schema() *arrow.Schema { return n.user }

// Narrow returns a batch of the user schema over the columns of rec, a batch of
// the storage schema. The caller releases it.
func (n *Narrower) Narrow(rec arrow.RecordBatch) arrow.RecordBatch {
	var room [16]arrow.Array
	cols := room[:0]
	for i, at := range n.source {
		cols = append(cols, retyped(rec.Column(at), n.user.Field(i).Type))
	}
	out := array.NewRecordBatch(n.user, cols, rec.NumRows())
	releaseAll(cols)
	return out
}

// retyped returns arr with type dt, which is the same as its own.
func retyped(arr arrow.Array, dt arrow.DataType) arrow.Array {
	if arrow.TypeEqual(arr.DataType(), dt) {
		arr.Retain()
		return arr
	}
	return own(arr.Data(), dt)
}
