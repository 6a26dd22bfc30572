package objstore

import (
	"context"
	"errors"
	"fmt"
)

// Classes of errors, for use with errors.Is. An error may be of more than one
// class, and an error of none is a passing failure of unknown outcome.
var (
	// ErrNotExist: there is no object at that key.
	ErrNotExist = errors.New("object does not exist")

	// ErrExists: there is an object at that key already. Read it to learn
	// whose it is.
	ErrExists = errors.New("object exists")

	// ErrThrottled: the store asks to slow down (429, 503). Retry later.
	ErrThrottled = errors.New("store is throttling")

	// ErrConflict: another request for the same key was under way (409).
	// Nothing was applied. Retry.
	ErrConflict = errors.New("conflicting request")

	// ErrAmbiguous: the request may have been applied (timeout, reset, 5xx
	// after the body was sent), or may still be. Retry with the same key and bytes.
	ErrAmbiguous = errors.New("outcome unknown")

	// ErrPermission: the store refuses the credentials or what they ask for.
	ErrPermission = errors.New("permission denied")

	// ErrInvalid: the request makes no sense to the store: a bad key, a range
	// outside of the object, a body that is too large. No retry helps.
	ErrInvalid = errors.New("invalid request")

	// ErrUnusable: the store itself cannot serve requests of this kind: its
	// bucket does not exist, its folder could not be synced, it does not know
	// conditional puts. No retry helps.
	ErrUnusable = errors.New("store is unusable")

	// ErrConditionIgnored: a store let a put-if-absent replace an object. No
	// log can live there. See [Probe].
	ErrConditionIgnored = errors.New("store ignores the condition of a put-if-absent")
)

// Error is a failed request.
type Error struct {
	Op  Op
	Key string // or prefix, for a listing

	// Class is one of the Err… variables, or nil where none fits.
	Class error

	// MaybeApplied says that the request may have been applied even so; it
	// makes the error an ErrAmbiguous too, whatever its class.
	MaybeApplied bool

	Err error // cause, nil where the class says all
}

// Error says what was done to what, why it failed, and how.
func (e *Error) Error() string {
	s := fmt.Sprintf("objstore: %s %q", e.Op, e.Key)
	if e.Class != nil {
		s += ": " + e.Class.Error()
	}
	if e.MaybeApplied && e.Class != ErrAmbiguous {
		s += " (may have been applied)"
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns class and cause.
func (e *Error) Unwrap() []error {
	errs := make([]error, 0, 3)
	if e.Class != nil {
		errs = append(errs, e.Class)
	}
	if e.MaybeApplied && e.Class != ErrAmbiguous {
		errs = append(errs, ErrAmbiguous)
	}
	if e.Err != nil {
		errs = append(errs, e.Err)
	}
	return errs
}

// MaybeApplied reports whether a put or delete that failed with err may have
// been applied nevertheless, or may be later. Only errors that are known to
// mean "no" say no; errors of no class say yes.
func MaybeApplied(err error) bool {
	if err == nil || errors.Is(err, ErrAmbiguous) {
		return err != nil
	}
	return !definite(err) && !errors.Is(err, ErrThrottled) && !errors.Is(err, ErrConflict)
}

// Retryable reports whether the same request may succeed when it is sent
// again. It knows nothing of the caller's context: a request that timed out is
// retryable as long as its caller still wants it.
func Retryable(err error) bool {
	return err != nil && !definite(err) && !errors.Is(err, context.Canceled)
}

// definite reports whether err is an answer that a retry would only repeat.
func definite(err error) bool {
	for _, class := range []error{ErrNotExist, ErrExists, ErrPermission, ErrInvalid, ErrUnusable, ErrConditionIgnored} {
		if errors.Is(err, class) {
			return true
		}
	}
	return false
}
