package memwal

import (
	"errors"
	"fmt"
	"time"

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
	// nothing was stored. With WALOnly try again later; without it, frozen memtables
	// are not freed: open the shard with more memory, or go on in another one.
	ErrBackpressure = errors.New("backpressure")
	// ErrClosed: the writer, the reader or the snapshot was closed.
	ErrClosed = errors.New("closed")
	// ErrPoisoned: an earlier failure ended the writer; the error wraps it. Open
	// the shard again.
	ErrPoisoned = errors.New("writer poisoned")
	// ErrAborted: Abort ended the writer.
	ErrAborted = errors.New("writer aborted")
	// ErrNoMemtable: the writer was opened with WALOnly and keeps no rows.
	ErrNoMemtable = errors.New("no memtable")
	// ErrAdopted: a writer has taken the shard over from another program since the
	// reader was opened. The reader had no columns of the shard's to go by but their
	// names; opened again it has.
	ErrAdopted = errors.New("the shard was adopted")
	// ErrLogTruncated: the log was recycled above the place where a reader stood.
	// See LogTruncatedError.
	ErrLogTruncated = errors.New("log truncated")
	// ErrReaderFull: what a reader holds has come to MaxResidentBytes. See
	// ReaderFullError.
	ErrReaderFull = errors.New("reader full")
	// ErrFenced: another writer has claimed the shard. See FencedError.
	ErrFenced = manifest.ErrFenced
	// ErrSealed: the shard is sealed and refuses writers.
	ErrSealed = manifest.ErrSealed
	// ErrForeignWriter: another program writes this shard, or has begun it and
	// Options.Adopt is not set.
	ErrForeignWriter = manifest.ErrForeignWriter
	// ErrPersistence: rows could not be made durable. See AppendError.
	ErrPersistence = flusher.ErrPersistence
	// ErrHole: a WAL object is missing. See HoleError.
	ErrHole = replay.ErrHole
	// ErrCorrupt: an object of the shard is damaged.
	ErrCorrupt = wal.ErrCorrupt
	// ErrNoIndex: a search names an index that does not exist.
	ErrNoIndex = index.ErrNoIndex
	// ErrIndexFailed: an index failed to take a row that was accepted. On a
	// writer it is terminal; an index that failed in replay returns it from its
	// searches.
	ErrIndexFailed = index.ErrFailed
)

// Typed details of the categories above.
type (
	// FencedError tells our claim from the one that fenced it: Ours and Theirs
	// have an Epoch.
	FencedError = manifest.FencedError
	// AppendError has the Position of the WAL entry that could not be put, and Err.
	AppendError = flusher.AppendError
	// HoleError has the missing Position, and the Witness above it.
	HoleError = replay.HoleError
	// CorruptError has the Position of the damaged WAL entry, and the Reason.
	CorruptError = wal.CorruptError
	// ManifestCorruptError has the Version of the damaged manifest, and the Reason.
	ManifestCorruptError = manifest.CorruptError
)

// PoisonedError is what every call on a poisoned writer returns: the first
// terminal failure. It matches ErrPoisoned and Cause.
type PoisonedError struct{ Cause error }

func (e *PoisonedError) Error() string {
	advice := "open the shard again to go on"
	if errors.Is(e.Cause, ErrFenced) {
		advice = "another process took the shard over, or sealed it: open the shard again only to take it back"
	}
	return fmt.Sprintf("the writer has stopped: %v; %s", e.Cause, advice)
}

// Unwrap makes both the category and the cause visible to errors.Is.
func (e *PoisonedError) Unwrap() []error { return []error{ErrPoisoned, e.Cause} }

// BackpressureError is a put that found memory full for too long. Nothing of it
// was stored. It matches ErrBackpressure.
type BackpressureError struct {
	Resident int64         // bytes of rows and indexes in memory
	Max      int64         // option MaxResidentBytes
	Waited   time.Duration // option StallTimeout: no memory was freed for so long
}

func (e *BackpressureError) Error() string {
	return fmt.Sprintf("memory is full: %d bytes are resident, option MaxResidentBytes is %d, and none were freed in %v; nothing was stored. Without WALOnly memory is not freed: open the shard with a larger MaxResidentBytes, or go on in a new shard",
		e.Resident, e.Max, e.Waited)
}

// Is makes errors.Is(err, ErrBackpressure) true.
func (e *BackpressureError) Is(target error) bool { return target == ErrBackpressure }

// LogTruncatedError is a reader that needs a WAL entry that may have been
// recycled. It matches ErrLogTruncated.
type LogTruncatedError struct {
	Want   uint64 // WAL position that it needs
	Oldest uint64 // the lowest position that is surely kept
}

func (e *LogTruncatedError) Error() string {
	return fmt.Sprintf("the reader needs WAL entry %d, but the log is kept from %d on: it was flushed and recycled meanwhile; open a new reader, and refresh it more often",
		e.Want, e.Oldest)
}

// Is makes errors.Is(err, ErrLogTruncated) true.
func (e *LogTruncatedError) Is(target error) bool { return target == ErrLogTruncated }

// ReaderFullError is a reader that takes in no more rows. What it has it goes on
// showing. It matches ErrReaderFull.
type ReaderFullError struct {
	Resident int64 // bytes of rows and indexes in memory
	Max      int64 // option MaxResidentBytes
}

func (e *ReaderFullError) Error() string {
	return fmt.Sprintf("the reader holds %d bytes, option MaxResidentBytes is %d: open one with more, or with fewer columns and indexes",
		e.Resident, e.Max)
}

// Is makes errors.Is(err, ErrReaderFull) true.
func (e *ReaderFullError) Is(target error) bool { return target == ErrReaderFull }

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

func (e *IndexError) Error() string { return e.Err.Error() }

// Unwrap makes both the category and the cause visible to errors.Is.
func (e *IndexError) Unwrap() []error { return []error{ErrIndexFailed, e.Err} }

// invalid makes err match ErrInvalid.
func invalid(what string, err error) error {
	return fmt.Errorf("%s: %w", what, &invalidError{err})
}

type invalidError struct{ err error }

func (e *invalidError) Error() string   { return e.err.Error() }
func (e *invalidError) Unwrap() []error { return []error{ErrInvalid, e.err} }
