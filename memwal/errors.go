package memwal

import (
	"errors"
	"fmt"

	"github.com/memwal/memwal-go/flusher"
	"github.com/memwal/memwal-go/index"
	"github.com/memwal/memwal-go/internal/manifest"
	"github.com/memwal/memwal-go/internal/wal"
	"github.com/memwal/memwal-go/replay"
)

// The categories of errors, for errors.Is. Typed details are reached with
// errors.AsType.
var (
	// ErrInvalid: the input or an option is wrong; nothing was stored.
	ErrInvalid = errors.New("invalid")
	// ErrBackpressure: memory is full and nothing was freed for StallTimeout;
	// nothing was stored. Try again later.
	ErrBackpressure = errors.New("backpressure")
	// ErrClosed: the writer or the snapshot was closed.
	ErrClosed = errors.New("closed")
	// ErrPoisoned: an earlier failure ended the writer; the error wraps it. Open
	// the shard again.
	ErrPoisoned = errors.New("writer poisoned")
	// ErrAborted: Abort ended the writer.
	ErrAborted = errors.New("writer aborted")
	// ErrNoMemtable: the writer was opened with WALOnly and keeps no rows.
	ErrNoMemtable = errors.New("no memtable")
	// ErrIndexFailed: an index failed to take a row that was accepted.
	ErrIndexFailed = errors.New("index failed")

	// ErrFenced: another writer has claimed the shard. See FencedError.
	ErrFenced = manifest.ErrFenced
	// ErrSealed: the shard is sealed and refuses writers.
	ErrSealed = manifest.ErrSealed
	// ErrForeignWriter: another program writes this shard.
	ErrForeignWriter = manifest.ErrForeignWriter
	// ErrPersistence: rows could not be made durable. See AppendError.
	ErrPersistence = flusher.ErrPersistence
	// ErrHole: a WAL object is missing. See HoleError.
	ErrHole = replay.ErrHole
	// ErrCorrupt: an object of the shard is damaged.
	ErrCorrupt = wal.ErrCorrupt
	// ErrNoIndex: a search names an index that does not exist.
	ErrNoIndex = index.ErrNoIndex
)

// Typed details of the categories above.
type (
	// FencedError tells our epoch from the one that fenced it.
	FencedError = manifest.FencedError
	// AppendError names the WAL position that failed.
	AppendError = flusher.AppendError
	// HoleError names the missing position.
	HoleError = replay.HoleError
	// CorruptError names the damaged position.
	CorruptError = wal.CorruptError
)

// PoisonedError is what every call on a poisoned writer returns: the first
// terminal failure. It matches ErrPoisoned and Cause.
type PoisonedError struct{ Cause error }

func (e *PoisonedError) Error() string {
	return fmt.Sprintf("the writer has stopped: %v; open the shard again to go on", e.Cause)
}

// Unwrap makes both the category and the cause visible to errors.Is.
func (e *PoisonedError) Unwrap() []error { return []error{ErrPoisoned, e.Cause} }

// BatchError says why a batch was refused. Nothing of it was stored. It matches
// ErrInvalid.
type BatchError struct {
	Op  string // what was called
	Err error
}

func (e *BatchError) Error() string { return fmt.Sprintf("%s: %v; nothing was stored", e.Op, e.Err) }

// Unwrap makes both the category and the cause visible to errors.Is.
func (e *BatchError) Unwrap() []error { return []error{ErrInvalid, e.Err} }

// IndexError is the terminal failure of an index that did not take a row. It
// matches ErrIndexFailed and Err.
type IndexError struct{ Err error }

func (e *IndexError) Error() string { return fmt.Sprintf("index rows: %v", e.Err) }

// Unwrap makes both the category and the cause visible to errors.Is.
func (e *IndexError) Unwrap() []error { return []error{ErrIndexFailed, e.Err} }

// invalid makes err match ErrInvalid.
func invalid(what string, err error) error {
	return fmt.Errorf("%s: %w", what, &invalidError{err})
}

type invalidError struct{ err error }

func (e *invalidError) Error() string   { return e.err.Error() }
func (e *invalidError) Unwrap() []error { return []error{ErrInvalid, e.err} }
