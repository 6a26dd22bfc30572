package index

import (
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/memwal/memwal-go/internal/keys"
)

// Categories, for errors.Is.
var (
	// ErrInvalid is the category of everything the caller gave that an index
	// cannot take: *ConfigError, *BatchError, *ValueError and *RowError.
	ErrInvalid = keys.ErrInvalid

	// ErrNoIndex says that no index answers the search: *NoIndexError.
	ErrNoIndex = errors.New("no such index")

	// ErrFailed says that the index that was asked has failed: *FailedError.
	ErrFailed = errors.New("index failed")

	// ErrInternal is the category of failures that valid input must not cause:
	// *ApplyError, whatever it wraps, and *PanicError. Retrying does not help.
	ErrInternal = errors.New("internal index error")
)

type (
	// ValueError reports a Go value that is not exactly a value of its key column.
	ValueError = keys.ValueError
	// RowError reports a row of a batch that cannot be a key.
	RowError = keys.RowError
)

// place names an index and, if there is one, a column in errors.
func place(index, column string) string {
	s := fmt.Sprintf("index %q", index)
	switch index {
	case PrimaryKey:
		s = "primary key"
	case allIndexes:
		s = "all indexes"
	}
	if column != "" {
		s += fmt.Sprintf(": column %q", column)
	}
	return s
}

// ConfigError reports one violation in a configuration; Bind joins all of them.
type ConfigError struct {
	Index  string         // PrimaryKey for the primary key
	Column string         // empty: the index as a whole
	Type   arrow.DataType // nil: the column is missing, or it is the index as a whole
	Got    string         // what is wrong; empty where the type says it
	Want   string
}

func (e *ConfigError) Error() string {
	s := place(e.Index, e.Column)
	if e.Type != nil {
		s += fmt.Sprintf(" of type %s", e.Type)
	}
	if e.Got != "" {
		s += ": " + e.Got
	}
	return s + ": expected " + e.Want
}

func (e *ConfigError) Is(target error) bool { return target == ErrInvalid }

// optionError is an option out of bounds.
type optionError struct{ what string }

func (e *optionError) Error() string        { return e.what }
func (e *optionError) Is(target error) bool { return target == ErrInvalid }

// BatchError reports a batch or a row that an index cannot take.
type BatchError struct {
	Index  string // PrimaryKey for the primary key
	Column string // empty where Err names it
	Err    error
}

func (e *BatchError) Error() string {
	return place(e.Index, e.Column) + ": " + e.Err.Error()
}

func (e *BatchError) Is(target error) bool { return target == ErrInvalid }
func (e *BatchError) Unwrap() error        { return e.Err }

// NoIndexError reports a search by an index that is not configured, or not of
// the kind that the search needs.
type NoIndexError struct {
	Index  string // the name asked for, PrimaryKey for the primary key; empty: a search by column
	Column string // the column asked for; empty: a search by name
	Kind   string // the kind that the search needs
}

func (e *NoIndexError) Error() string {
	switch {
	case e.Column != "":
		return fmt.Sprintf("no %s index over column %q: add one to the Indexes that the table is opened with", e.Kind, e.Column)
	case e.Index == PrimaryKey && e.Kind == KindOrdered:
		return "the primary key is no ordered index: add one to the Indexes that the table is opened with"
	case e.Index == PrimaryKey:
		return "the table has no primary key: it is chosen in memwal's Options.PrimaryKey, before the first write"
	}
	return fmt.Sprintf("no %s index named %q: a search names an index, not a column, one of the Indexes that the table is opened with", e.Kind, e.Index)
}

func (e *NoIndexError) Is(target error) bool { return target == ErrNoIndex }

// FailedError reports a search by an index that could not take all rows and has
// been given up in a part of the table. The rows themselves are there: scans,
// lookups by primary key and the other indexes find them.
type FailedError struct {
	Index string // its name; PrimaryKey for the primary key
	Err   error  // what it failed with first
}

func (e *FailedError) Error() string {
	return fmt.Sprintf("%s has failed and answers no searches: %v", place(e.Index, ""), e.Err)
}

func (e *FailedError) Is(target error) bool { return target == ErrFailed }
func (e *FailedError) Unwrap() error        { return e.Err }

// ApplyError reports the index that could not apply a batch. What it has applied
// of the batch cannot be undone.
type ApplyError struct {
	Index string // PrimaryKey for the primary key; "_all", which no index can be called, for the Set as a whole
	Err   error
}

func (e *ApplyError) Error() string {
	return fmt.Sprintf("apply a batch to %s: %v", place(e.Index, ""), e.Err)
}

func (e *ApplyError) Is(target error) bool { return target == ErrInternal }
func (e *ApplyError) Unwrap() error        { return e.Err }

// CapacityError reports that a memtable has more rows than slots. Rotation keeps
// memtables far below that, so it is an internal error.
type CapacityError struct{ Slots uint64 }

func (e *CapacityError) Error() string {
	return fmt.Sprintf("%d rows need more than the %d slots of a memtable", e.Slots, uint64(MaxSlots))
}

func (e *CapacityError) Is(target error) bool { return target == ErrInternal }

// PanicError is a panic inside an index or a search, contained. Its text leaves the
// stack out: whoever logs it adds the field.
type PanicError struct {
	Value any
	Stack []byte // of the goroutine that panicked
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

func (e *PanicError) Is(target error) bool { return target == ErrInternal }

func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}
