package manifest

import (
	"errors"
	"fmt"

	"github.com/memwal/memwal-go/internal/wal"
)

// Categories of errors.
var (
	// ErrCorrupt: a manifest is damaged. Nothing may be built on it.
	ErrCorrupt = errors.New("manifest: corrupt")
	// ErrFenced: another claim has taken the shard over.
	ErrFenced = errors.New("manifest: fenced by another writer")
	// ErrSealed: the shard is closed to claims until it is unsealed.
	ErrSealed = errors.New("manifest: shard is sealed")
	// ErrForeignWriter: another program has rewritten the manifest of a shard
	// that memwal had written to, and dropped what memwal keeps there. It is the
	// error of the log, too: whatever gave the other program away, it is there.
	ErrForeignWriter = wal.ErrForeignWriter
	// ErrConflict: the version was taken by another commit.
	ErrConflict = errors.New("manifest: version taken by another commit")
	// ErrNotFound: the shard has no manifest.
	ErrNotFound = errors.New("manifest: shard has no manifest")
	// ErrUnresolved: it is not known whether a commit was applied. What it named
	// must not be cleaned up.
	ErrUnresolved = errors.New("manifest: commit unresolved")
	// ErrUnchanged is returned by the change function of an update that has
	// nothing to do: there is no commit, and no error.
	ErrUnchanged = errors.New("manifest: unchanged")
	// ErrInvalid: a change breaks a rule that every version must keep.
	ErrInvalid = errors.New("manifest: invalid change")
)

// CorruptError names the version that is damaged.
type CorruptError struct {
	Version uint64 // 0: not known
	Reason  string
	Err     error // may be nil
}

// Error implements error.
func (e *CorruptError) Error() string {
	s := "manifest: corrupt"
	if e.Version != 0 {
		s += fmt.Sprintf(" version %d", e.Version)
	}
	s += ": " + e.Reason
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Is makes every CorruptError match ErrCorrupt, and the category of damaged log
// entries: a caller who asks whether an object of the shard is damaged need not
// know which.
func (e *CorruptError) Is(target error) bool { return target == ErrCorrupt || target == wal.ErrCorrupt }

// Unwrap returns the cause, if there is one.
func (e *CorruptError) Unwrap() error { return e.Err }

// FencedError names the claim that was lost and the one that is in force. The
// claim ids are zero where only the epochs are known.
type FencedError struct {
	Ours, Theirs Owner
}

// Error implements error.
func (e *FencedError) Error() string {
	return fmt.Sprintf("fenced: our claim of %s was followed by %s", e.Ours.text(), e.Theirs.text())
}

func (o Owner) text() string {
	if o.ClaimID.IsZero() {
		return fmt.Sprintf("epoch %d", o.Epoch)
	}
	return fmt.Sprintf("epoch %d (%s)", o.Epoch, o.ClaimID)
}

// FencedBy returns the FencedError of callers who know epochs only, from the
// headers of entries.
func FencedBy(ours, theirs uint64) *FencedError {
	return &FencedError{Ours: Owner{Epoch: ours}, Theirs: Owner{Epoch: theirs}}
}

// Is makes every FencedError match ErrFenced.
func (e *FencedError) Is(target error) bool { return target == ErrFenced }

// UnresolvedError names a commit of which it is not known whether it was applied.
type UnresolvedError struct {
	Version  uint64
	CommitID wal.PutID
	Err      error
}

// Error implements error.
func (e *UnresolvedError) Error() string {
	return fmt.Sprintf("manifest: commit %s of version %d may or may not have been applied: %v", e.CommitID, e.Version, e.Err)
}

// Is makes every UnresolvedError match ErrUnresolved.
func (e *UnresolvedError) Is(target error) bool { return target == ErrUnresolved }

// Unwrap returns what kept the commit from being resolved.
func (e *UnresolvedError) Unwrap() error { return e.Err }
