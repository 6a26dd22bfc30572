package wal

import (
	"errors"
	"fmt"
	"strings"
)

// ErrCorrupt is the category of everything that is wrong with an entry's bytes
// or with its place in the log.
var ErrCorrupt = errors.New("wal: corrupt entry")

// ErrUnsupported marks entries of a newer format version. They are corrupt for
// this program, which must neither read past them nor delete them.
var ErrUnsupported = errors.New("wal: entry has a newer format than this program knows")

// ErrForeignWriter is returned by [Chain.Judge] when another program has taken
// over a log that memwal had written to. Its text names no package: the manifest
// returns it as well.
var ErrForeignWriter = errors.New("another program has written to this shard")

// CorruptError says what is wrong with an entry. Decoders do not know the
// position; callers add it with [AtPosition].
type CorruptError struct {
	Position uint64 // 0: not known
	Reason   string
	Err      error // may be nil
}

// Error implements error.
func (e *CorruptError) Error() string {
	var b strings.Builder
	b.WriteString("wal: corrupt entry")
	if e.Position != 0 {
		fmt.Fprintf(&b, " at position %d", e.Position)
	}
	b.WriteString(": " + e.Reason)
	if e.Err != nil {
		b.WriteString(": " + e.Err.Error())
	}
	return b.String()
}

// Is makes every CorruptError match ErrCorrupt.
func (e *CorruptError) Is(target error) bool { return target == ErrCorrupt }

// Unwrap returns the cause, if there is one.
func (e *CorruptError) Unwrap() error { return e.Err }

// AtPosition returns err with the position filled in, if it is a CorruptError
// that does not have one yet. Other errors are returned as they are.
func AtPosition(err error, position uint64) error {
	corrupt, ok := errors.AsType[*CorruptError](err)
	if !ok || corrupt.Position != 0 {
		return err
	}
	placed := *corrupt
	placed.Position = position
	return &placed
}

func corruptf(format string, args ...any) error {
	return &CorruptError{Reason: fmt.Sprintf(format, args...)}
}
