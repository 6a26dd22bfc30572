package faultstore

import (
	"errors"
	"fmt"
	"maps"
	"net/http"

	"github.com/memwal/memwal-go/objstore"
)

// Fault names a kind of fault, for [Store.Injected].
type Fault string

// The kinds of faults, and what is counted when. Failures by a [Status] before
// the request is applied have kinds of their own, such as "status-503": see
// [StatusFault].
const (
	// FaultBefore: the request failed, and was not applied.
	FaultBefore Fault = "before"
	// FaultAfter: the request was carried out, and its reply was replaced by
	// Rule.After, whatever error that is.
	FaultAfter Fault = "after"
	// FaultDelay: the request began to wait for Rule.Delay.
	FaultDelay Fault = "delay"
	// FaultHold: the request began to wait for Rule.Hold.
	FaultHold Fault = "hold"
	// FaultDuplicate: the request was sent to the inner store a second time.
	FaultDuplicate Fault = "duplicate"
	// FaultLate: the inner store has applied a put or delete, without an error,
	// whose caller had its reply already, by Rule.Late or Rule.Detach.
	FaultLate Fault = "late"
	// FaultIgnoreCondition: a put-if-absent has replaced an object.
	FaultIgnoreCondition Fault = "ignore-condition"
	// FaultTruncate: a get returned less than there was.
	FaultTruncate Fault = "truncate"
	// FaultUnorderedList: a listing yielded an object out of its turn.
	FaultUnorderedList Fault = "unordered-list"
	// FaultDoubledList: a listing yielded an object for the second time.
	FaultDoubledList Fault = "doubled-list"
	// FaultShortList: a listing left objects out, by Rule.Drop.
	FaultShortList Fault = "short-list"
	// FaultTruncatedList: a listing ended before its end, without an error, by
	// Rule.Truncate.
	FaultTruncatedList Fault = "truncated-list"
)

// StatusFault is the kind of a request that failed by [Status] before it was applied.
func StatusFault(code int) Fault { return Fault(fmt.Sprintf("status-%d", code)) }

// Injected returns how many faults there were so far, by kind. A fault counts
// when it acts, not when a rule plans it: a truncation of an empty object, or the
// failure of a request whose caller gave up while it was delayed, do not count. A
// request may meet several, each listing at most one of a kind. The caller
// owns the map.
func (s *Store) Injected() map[Fault]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.injected)
}

// count counts a fault that acts.
func (s *Store) count(f Fault) {
	s.mu.Lock()
	s.injected[f]++
	s.mu.Unlock()
}

// beforeFault is the kind of a request that fails with err before it is applied.
func beforeFault(err error) Fault {
	if status, ok := errors.AsType[*statusError](err); ok {
		return StatusFault(status.code)
	}
	return FaultBefore
}

// ErrInjected is part of every error that this package makes.
var ErrInjected = errors.New("injected fault")

// errLate is the reply to a request that is still on its way.
var errLate = fmt.Errorf("%w: the connection broke while the request was on its way: %w", ErrInjected, objstore.ErrAmbiguous)

// statusError is an HTTP status.
type statusError struct {
	code  int
	class error // nil: none
}

func (e *statusError) Error() string {
	s := fmt.Sprintf("%v: status %d", ErrInjected, e.code)
	if e.class != nil {
		s += ": " + e.class.Error()
	}
	return s
}

func (e *statusError) Unwrap() []error {
	if e.class == nil {
		return []error{ErrInjected}
	}
	return []error{ErrInjected, e.class}
}

// Status returns the error that an adapter makes of an HTTP status, for Before
// and After: 404, 409, 412, 429, 403, 503, and other 5xx (ambiguous).
// Anything else is an error of no class.
func Status(code int) error {
	classes := map[int]error{
		http.StatusForbidden:          objstore.ErrPermission,
		http.StatusNotFound:           objstore.ErrNotExist,
		http.StatusConflict:           objstore.ErrConflict,
		http.StatusPreconditionFailed: objstore.ErrExists,
		http.StatusTooManyRequests:    objstore.ErrThrottled,
		http.StatusServiceUnavailable: objstore.ErrThrottled,
	}
	class := classes[code]
	if class == nil && code >= 500 {
		class = objstore.ErrAmbiguous
	}
	return &statusError{code: code, class: class}
}
