package manifest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/memwal/memwal-go/internal/wal"
	"github.com/memwal/memwal-go/objstore"
)

// Commit creates the version after base with the content of next. It sets the
// version and the ids of next, which must not be changed after that, and lets
// what only grows only grow. base is nil for the first version. It also writes the
// hint.
//
// An [ErrConflict] means that the version was taken, or that the commit came too
// late to count. An [UnresolvedError] means that it may or may not have been
// applied: that only happens when ctx ends, since an attempt whose outcome is
// not known is repeated with the same bytes until it is.
func (l *Log) Commit(ctx context.Context, base, next *Manifest) error {
	err := l.commit(ctx, base, next)
	if err == nil {
		l.WriteHint(ctx, next.Version)
	}
	return err
}

func (l *Log) commit(ctx context.Context, base, next *Manifest) error {
	if err := prepare(base, next); err != nil {
		return err
	}
	data, err := next.Encode()
	if err != nil {
		return err
	}
	if err := l.put(ctx, next, objstore.Body{data}); err != nil {
		return err
	}
	if base == nil || elapsed(base.listSent, l.o.Now()) > l.limit(next) {
		return l.confirm(ctx, next)
	}
	return nil
}

// limit is how long a reply may take and still be proof.
func (l *Log) limit(m *Manifest) time.Duration {
	if m.OwnershipCheckAfter > 0 {
		return min(m.OwnershipCheckAfter, l.o.OwnershipCheckAfter)
	}
	return l.o.OwnershipCheckAfter
}

// elapsed is the larger one of the monotonic and the wall clock's difference.
// The zero time is long ago.
func elapsed(from, to time.Time) time.Duration {
	if from.IsZero() {
		return 1<<63 - 1
	}
	return max(to.Sub(from), to.Round(0).Sub(from.Round(0)))
}

// prepare sets what a commit sets, and checks what every version must keep.
func prepare(base, next *Manifest) error {
	if next == nil || next == base {
		return fmt.Errorf("%w: a commit needs a manifest of its own; clone the base", ErrInvalid)
	}
	next.Version, next.ParentCommitID = 1, wal.PutID{}
	next.Legacy, next.listSent, next.oldest = false, time.Time{}, 0
	if next.CommitID.IsZero() || (base != nil && next.CommitID == base.CommitID) {
		next.CommitID = wal.NewPutID()
	}
	if base != nil {
		next.Version, next.ParentCommitID = base.Version+1, base.CommitID
		next.listSent, next.oldest = base.listSent, base.oldest
		next.LastSeen = max(next.LastSeen, base.LastSeen)
		next.MaxInFlight = max(next.MaxInFlight, base.MaxInFlight)
		next.OwnershipCheckAfter = max(next.OwnershipCheckAfter, base.OwnershipCheckAfter)
		next.FenceRetention = max(next.FenceRetention, base.FenceRetention)
	}
	return checkRules(base, next)
}

// checkRules returns an error if next breaks a rule: a mistake of the caller
// that would lose rows.
func checkRules(base, next *Manifest) error {
	seen := make(map[string]bool, len(next.Floors))
	for _, f := range next.Floors {
		if f.Plane == "" || seen[f.Plane] {
			return fmt.Errorf("%w: two floors of plane %q, or one without a name", ErrInvalid, f.Plane)
		}
		seen[f.Plane] = true
	}
	if base == nil {
		return nil
	}
	if next.Generation < base.Generation || next.NextFieldID < base.NextFieldID {
		return fmt.Errorf("%w: generation %d or next field id %d is below version %d's (%d, %d)", ErrInvalid,
			next.Generation, next.NextFieldID, base.Version, base.Generation, base.NextFieldID)
	}
	if was, is := base.RowsFloor(), next.RowsFloor(); is.Position < was.Position || is.NextRow < was.NextRow {
		return fmt.Errorf("%w: rows floor would fall from position %d (row %d) to %d (row %d)", ErrInvalid,
			was.Position, was.NextRow, is.Position, is.NextRow)
	}
	for _, was := range base.Floors {
		is, ok := next.Floor(was.Plane)
		if ok && is.Kind == Snapshot && was.Kind == Snapshot && is.Position < was.Position {
			return fmt.Errorf("%w: floor of plane %q would fall from position %d to %d", ErrInvalid,
				was.Plane, was.Position, is.Position)
		}
	}
	return nil
}

const (
	firstBackoff = 50 * time.Millisecond
	maxBackoff   = 5 * time.Second
	// definiteAttempts bounds attempts while it is certain that nothing was applied.
	definiteAttempts = 10
)

// put creates the version, and returns only once the outcome is known or ctx ends.
func (l *Log) put(ctx context.Context, m *Manifest, body objstore.Body) error {
	maybe := false // an attempt may have been applied
	for attempt := 1; ; attempt++ {
		_, err := l.store.PutIfAbsent(ctx, l.dir+Name(m.Version), body)
		if errors.Is(err, objstore.ErrExists) {
			var resolved bool
			if resolved, err = l.resolve(ctx, m); resolved {
				return err
			}
			maybe = true
		}
		if err == nil {
			return nil
		}
		switch {
		case objstore.MaybeApplied(err):
			maybe = true
		case !maybe && (isFinal(err) || attempt >= definiteAttempts):
			return fmt.Errorf("manifest: commit version %d: %w", m.Version, err)
		}
		if waitErr := l.backoff(ctx, attempt); waitErr != nil || (maybe && isFinal(err)) {
			err = errors.Join(waitErr, err)
			if !maybe {
				return fmt.Errorf("manifest: commit version %d: %w", m.Version, err)
			}
			return &UnresolvedError{Version: m.Version, CommitID: m.CommitID, Err: err}
		}
	}
}

// resolve reads the object that exists at m's version and compares. If it cannot
// be read, nothing is resolved.
func (l *Log) resolve(ctx context.Context, m *Manifest) (resolved bool, err error) {
	there, err := l.read(ctx, m.Version)
	switch {
	case errors.Is(err, objstore.ErrNotExist):
		// It existed and has been recycled: the number is long past.
		return true, fmt.Errorf("%w: version %d has been recycled", ErrConflict, m.Version)
	case errors.Is(err, ErrCorrupt):
		return true, err
	case err != nil:
		return false, err
	case there.CommitID.Same(m.CommitID):
		return true, nil
	}
	return true, fmt.Errorf("%w: version %d has commit id %s, ours is %s", ErrConflict, m.Version, there.CommitID, m.CommitID)
}

// isFinal reports whether repeating a request is pointless. A cancellation is not
// final by itself: if it is that of our context, backoff ends the attempts.
func isFinal(err error) bool {
	return !objstore.Retryable(err) && !errors.Is(err, context.Canceled)
}

// backoff waits before the next attempt; the error is that of ctx.
func (l *Log) backoff(ctx context.Context, attempt int) error {
	d := min(firstBackoff<<min(attempt-1, 10), maxBackoff)
	t := time.NewTimer(time.Duration(l.o.Rand()*float64(d)) + 1)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}

// confirm finds out whether a commit whose reply came late counts. Versions that
// were recycled can be created again: the object then lies below the suffix, or
// right below it, where only its successor tells whether it was built on it.
func (l *Log) confirm(ctx context.Context, m *Manifest) error {
	counts, err := l.confirmed(ctx, m)
	if err != nil {
		return &UnresolvedError{Version: m.Version, CommitID: m.CommitID, Err: err}
	}
	if !counts {
		return fmt.Errorf("%w: version %d came too late", ErrConflict, m.Version)
	}
	return nil
}

func (l *Log) confirmed(ctx context.Context, m *Manifest) (bool, error) {
	cur, err := l.Newest(ctx)
	switch {
	case err != nil:
		return false, err
	case cur == nil || m.Version > cur.Version || m.Version < cur.oldest:
		return false, nil
	case m.Version == cur.Version:
		return cur.CommitID.Same(m.CommitID), nil
	}
	successor, err := l.read(ctx, m.Version+1)
	if errors.Is(err, objstore.ErrNotExist) {
		return false, nil // the suffix has moved on above it
	}
	if err != nil {
		return false, err
	}
	return successor.ParentCommitID.Same(m.CommitID), nil
}

// hintTimeout bounds the hint: nobody waits longer for what nobody needs.
const hintTimeout = 5 * time.Second

// WriteHint tells other programs where to start looking. It may fail, and a late
// one may be older than the one that it replaces.
func (l *Log) WriteHint(ctx context.Context, version uint64) {
	ctx, cancel := context.WithTimeout(ctx, hintTimeout)
	defer cancel()
	_ = l.store.Put(ctx, l.dir+hintName, objstore.Body{fmt.Appendf(nil, `{"version":%d}`, version)})
}
