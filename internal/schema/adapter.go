package schema

import (
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
)

// Adapter turns batches that were stored under one storage schema into batches of
// another, later one. It is safe for concurrent use.
type Adapter struct {
	from, to *arrow.Schema
	source   []int // per column of to: its position in from, or -1
	columns  []column
	zeros    zeros
}

// NewAdapter matches the columns of two storage schemas: by field id where both
// have one, else by name, which in a table that was adopted is the one of
// [AdoptedKey]. A column that only to has reads as null, or, for [Tombstone], as
// false; one that only from has is dropped; names and order may differ. A missing
// column that to requires (a key column, above all) and a changed type are errors.
// All are reported, joined; each is a [*ColumnError].
func NewAdapter(from, to *arrow.Schema) (*Adapter, error) {
	a := &Adapter{from: from, to: to, source: make([]int, to.NumFields()), columns: make([]column, to.NumFields())}
	hasKey := to.HasField(Tombstone)
	var errs []error
	if from.HasField(Tombstone) && !hasKey {
		errs = append(errs, columnError(Tombstone, "", "is in the stored rows", "a table with a primary key: deletes must not turn into rows"))
	}
	for i, f := range to.Fields() {
		at, err := findSource(from, f)
		a.source[i] = at
		switch {
		case err != nil:
			errs = append(errs, err)
		case at >= 0 && !sameField(from.Field(at), f):
			errs = append(errs, columnError(f.Name, describeType(f), fmt.Sprintf("was stored as %s", describeType(from.Field(at))),
				"a column keeps its type"))
		case at >= 0:
			given := from.Field(at)
			given.Name = f.Name // errors name the column as it is called now
			a.columns[i] = newColumn(given, f, !f.Nullable, hasKey && !f.Nullable && f.Name != Tombstone)
			// A delete's null of a type without a bitmap, a union say, may be one in
			// a required child. Shape has checked the fields inside of real rows.
			a.columns[i].inner = false
		case f.Name != Tombstone && !f.Nullable && hasKey:
			errs = append(errs, columnError(f.Name, describeType(f), "of the primary key is not in the stored rows", "the key that they were stored with"))
		case f.Name != Tombstone && !f.Nullable:
			errs = append(errs, columnError(f.Name, describeType(f), "is required, but not in the stored rows", "make it nullable"))
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return a, nil
}

// findSource returns the position in from of the column that is f now, or -1.
func findSource(from *arrow.Schema, f arrow.Field) (int, error) {
	id, err := FieldID(f)
	if err != nil {
		return -1, err
	}
	byID, byName, ids, names := -1, -1, 0, 0
	for i, g := range from.Fields() {
		gid, err := FieldID(g)
		if err != nil {
			return -1, err
		}
		name := f.Name
		if was, ok := f.Metadata.GetValue(AdoptedKey); ok && gid == 0 {
			name = was
		}
		switch {
		case id != 0 && gid == id:
			byID = i
			ids++
		case g.Name == name && (id == 0 || gid == 0):
			// With two ids that differ it is another column that had this name once.
			byName = i
			names++
		}
	}
	if ids > 1 || ids == 0 && names > 1 {
		return -1, columnError(f.Name, describeType(f), "occurs twice in the stored rows", "one column of that name or id")
	}
	if byID >= 0 {
		return byID, nil
	}
	return byName, nil
}

// Adapt returns rec, a batch of the schema from, as a batch of the schema to, for
// the caller to release. Columns are shared, not copied. Like [Shaper.Shape] it
// checks that they are whole and that required and key columns have values, since a
// log may come from another program. Required fields inside columns are not checked.
func (a *Adapter) Adapt(rec arrow.RecordBatch) (arrow.RecordBatch, error) {
	if rec == nil || int(rec.NumCols()) != a.from.NumFields() {
		return nil, columnError("", "", "the stored batch does not have the columns of its schema", "a batch of that schema")
	}
	rows := int(rec.NumRows())
	var room [16]arrow.Array
	cols, errs := room[:0], []error(nil)
	for i, at := range a.source {
		var col arrow.Array
		var err error
		switch {
		case at >= 0:
			col, err = a.columns[i].accept(rec.Column(at), rows)
		case a.to.Field(i).Name == Tombstone:
			col = a.zeros.tombstones(rows)
		default:
			col, err = a.zeros.nulls(a.to.Field(i).Type, rows)
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		cols = append(cols, col)
	}
	return newBatch(a.to, cols, rows, errs)
}
