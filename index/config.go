package index

// PrimaryKey is the name under which the primary key appears in errors and in
// Fail and Failed. Names that begin with an underscore are reserved.
const PrimaryKey = "_primary_key"

// allIndexes stands for the whole Set in an ApplyError.
const allIndexes = "_all"

// Column names a column of the storage schema.
type Column struct {
	Name string

	// FieldID is the column's id for ever, from the metadata of its field
	// ("memwal.field_id"). 0: by name only. An id that belongs to another column
	// than Name is refused: renaming a column must not move an index silently.
	FieldID int32
}

// Config is the configuration of one secondary index: Ordered or Text.
type Config interface {
	// IndexName is the name of the index, unique within a Spec.
	IndexName() string
	// Kind is the kind of the index in words: "ordered" or "text".
	Kind() string

	bind(b *binder) bound
}

// bound is a Config bound to a schema: it checks batches and makes the index of
// one memtable. Immutable.
type bound interface {
	config() Config
	// columns are the positions in the schema that the index reads.
	columns() []int
	// check reports what apply could not take.
	check(rec batchColumns) error
	// make returns the empty index of one memtable.
	make(s *Set) kind
}

// kind is the index of one memtable. apply has a single caller at a time, and
// gets every batch once, in slot order, alone or in a run; searches run beside it.
type kind interface {
	apply(r *run) error
	// bytes is the heap that the index holds; safe at any time.
	bytes() int64
}

// Ordered configures an index that gives rows in the order of one or several
// columns.
type Ordered struct {
	Name    string
	Columns []Column
}

func (o Ordered) IndexName() string { return o.Name }

func (o Ordered) Kind() string { return KindOrdered }

// KindOrdered is the Kind of Ordered.
const KindOrdered = "ordered"
