package schema

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// Shaper turns a user's batches into batches of the storage schema. It is made once
// per writer and is safe for concurrent use.
type Shaper struct {
	user, storage *arrow.Schema
	columns       []column // the user's, which are the first of storage
	deletes       bool     // there is a primary key, hence a tombstone column
	zeros         zeros
	// accepted is the schema of the last batch whose names were found right:
	// most callers use one schema object for all of their batches.
	accepted atomic.Pointer[arrow.Schema]
}

// NewShaper returns the shaper of batches of the user's schema for a table that
// [Storage] derived from it.
func NewShaper(user *arrow.Schema, table *Table) (*Shaper, error) {
	s := &Shaper{user: user, storage: table.Schema, deletes: len(table.PrimaryKey) > 0}
	n := user.NumFields()
	want := n
	if s.deletes {
		want++
	}
	if table.Schema.NumFields() != want || s.deletes && table.Schema.Field(n).Name != Tombstone {
		return nil, columnError("", "", fmt.Sprintf("the storage schema has %d columns for %d of the user's", table.Schema.NumFields(), n),
			"the one that was derived from the user's schema")
	}
	var errs []error
	for i, f := range user.Fields() {
		stored := table.Schema.Field(i)
		if stored.Name != f.Name || !sameField(stored, f) {
			errs = append(errs, columnError(f.Name, describeType(f), fmt.Sprintf("is stored as %q (%s)", stored.Name, describeType(stored)),
				"the storage schema that was derived from the user's schema"))
		}
		s.columns = append(s.columns, newColumn(f, stored, !f.Nullable, slices.Contains(table.PrimaryKey, f.Name)))
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return s, nil
}

// Schema returns the storage schema.
func (s *Shaper) Schema() *arrow.Schema { return s.storage }

// Shape checks a batch and returns it with the storage schema, for the caller to
// release. No column is copied; the tombstone column is all false.
//
// Columns must be those of the user's schema, in its order, with its names and
// types; the batch's own field nullability and metadata do not matter. Required and
// key columns must have a value in each row, required fields inside a column
// wherever their parent has one. The arrays must be whole: everything that could
// make a later reader panic is checked here. Every violation is reported, joined;
// each is a [*ColumnError].
func (s *Shaper) Shape(rec arrow.RecordBatch) (arrow.RecordBatch, error) {
	if rec == nil {
		return nil, columnError("", "", "the batch is nil", "a batch of the table's schema")
	}
	if err := s.checkSchema(rec); err != nil {
		return nil, err
	}
	var room [16]arrow.Array // spares most tables an allocation
	cols, errs := room[:0], []error(nil)
	rows := int(rec.NumRows())
	for i := range s.columns {
		col, err := s.columns[i].accept(rec.Column(i), rows)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		cols = append(cols, col)
	}
	if s.deletes {
		cols = append(cols, s.zeros.tombstones(rows))
	}
	return newBatch(s.storage, cols, rows, errs)
}

// newBatch returns the batch of the columns, or errs joined if there are any. It
// takes over the references to the columns.
func newBatch(schema *arrow.Schema, cols []arrow.Array, rows int, errs []error) (arrow.RecordBatch, error) {
	defer releaseAll(cols)
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return array.NewRecordBatch(schema, cols, int64(rows)), nil
}

// checkSchema checks the number of columns and their names by position.
func (s *Shaper) checkSchema(rec arrow.RecordBatch) error {
	given := rec.Schema()
	if given == s.accepted.Load() && int(rec.NumCols()) == len(s.columns) {
		return nil
	}
	if given.NumFields() != len(s.columns) || int(rec.NumCols()) != len(s.columns) {
		return columnError("", "", fmt.Sprintf("the batch has %d columns (%q) instead of %d", rec.NumCols(), fieldNames(given), len(s.columns)),
			fmt.Sprintf("the columns of the table, %q, in this order", fieldNames(s.user)))
	}
	var errs []error
	for i := range s.columns {
		want := s.columns[i].field
		if name := given.Field(i).Name; name != want.Name {
			errs = append(errs, columnError(want.Name, describeType(want), "is expected as column "+strconv.Itoa(i)+", where the batch has "+strconv.Quote(name),
				"the columns of the table in their order"))
		}
	}
	if len(errs) == 0 {
		s.accepted.Store(given)
	}
	return errors.Join(errs...)
}

// Tombstones returns the batch that deletes the rows with the given keys, for the
// caller to release: key columns as given, nulls in the others, tombstones all
// true. keys has exactly the primary key's columns, matched by name, in any order.
// The null columns share zero bytes where their type allows it, but they are as
// long as others, in the log, too: a fixed-size list stores its children for nulls.
func (s *Shaper) Tombstones(keys arrow.RecordBatch) (arrow.RecordBatch, error) {
	if keys == nil {
		return nil, columnError("", "", "the batch of keys is nil", "a batch of the key columns")
	}
	if !s.deletes {
		return nil, columnError("", "", "the table is append-only", "a primary key is needed to delete rows")
	}
	if err := s.checkKeys(keys); err != nil {
		return nil, err
	}
	rows := int(keys.NumRows())
	cols, errs := make([]arrow.Array, 0, len(s.columns)+1), []error(nil)
	for i := range s.columns {
		c := &s.columns[i]
		var col arrow.Array
		var err error
		if c.key {
			col, err = c.accept(keys.Column(keys.Schema().FieldIndices(c.field.Name)[0]), rows)
		} else {
			col, err = s.zeros.nulls(c.stored, rows)
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		cols = append(cols, col)
	}
	ones := bytes.Repeat([]byte{0xff}, int(bitutil.BytesForBits(int64(rows))))
	cols = append(cols, array.NewBoolean(rows, memory.NewBufferBytes(ones), nil, 0))
	return newBatch(s.storage, cols, rows, errs)
}

func (s *Shaper) checkKeys(keys arrow.RecordBatch) error {
	var errs []error
	given, want := keys.Schema(), 0
	for i := range s.columns {
		c := &s.columns[i]
		if !c.key {
			continue
		}
		want++
		if n := len(given.FieldIndices(c.field.Name)); n != 1 {
			errs = append(errs, c.error(-1, "", fmt.Sprintf("occurs %d times in the batch of keys", n), "each column of the primary key once"))
		}
	}
	if got := int(keys.NumCols()); got != want || given.NumFields() != want {
		errs = append(errs, columnError("", "", fmt.Sprintf("the batch of keys has %d columns (%q) instead of %d", got, fieldNames(given), want),
			"the columns of the primary key and no others"))
	}
	return errors.Join(errs...)
}
