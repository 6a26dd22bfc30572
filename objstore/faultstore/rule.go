package faultstore

import (
	"errors"
	"fmt"
	"net/http"
	"path"
	"slices"
	"time"

	"github.com/memwal/memwal-go/objstore"
)

// Request is a request as rules, hooks and the log see it.
type Request struct {
	Seq   uint64 // order of arrival, from 1
	Op    objstore.Op
	Key   string // or prefix
	Bytes int64  // of the body that is put

	// Applied says that the inner store has carried it out. It is set when it
	// has, so hooks before that see false.
	Applied bool

	// Done and Err are the reply: Done once it was given.
	Done bool
	Err  error
}

// Rule selects requests and says what happens to them. The zero Rule matches
// everything and does nothing.
type Rule struct {
	// Ops are the kinds of requests; empty means all.
	Ops []objstore.Op
	// Key is a pattern of path.Match over the whole key ("" = any); as there,
	// * does not match a slash.
	Key string
	// Match, where set, has to agree as well. It must not use the store.
	Match func(Request) bool
	// Skip is how many matches the rule leaves alone before it acts.
	Skip int
	// Count is how many times it acts then; 0 means once, below 0 always.
	Count int
	// Chance is the probability with which a match counts at all. 0 means 1.
	Chance float64

	// OnRequest is called when the request arrives.
	OnRequest func(Request)
	// Delay is waited before the request goes on.
	Delay time.Duration
	// Park makes the request wait for Release.
	Park bool
	// Hold makes the request wait until the channel is closed.
	Hold <-chan struct{}
	// Before fails the request without applying it.
	Before error
	// IgnoreCondition turns a put-if-absent into a plain put.
	IgnoreCondition bool
	// Duplicate applies a put or delete twice, as a network may; the reply is the first one's.
	Duplicate bool
	// OnApplied is called after the inner store has replied. Err is its reply.
	OnApplied func(Request)
	// ParkReply makes the reply wait for Release.
	ParkReply bool
	// After fails the request after it was applied: its reply is lost. It acts
	// whatever the reply was.
	After error
	// Truncate cuts that many bytes off what a get returns, as a proxy may
	// that does not look at lengths.
	Truncate int
	// Detach lets the request outlive its caller. See the package
	// documentation.
	Detach bool
}

// ruleState is a rule and its progress. Guarded by Store.mu.
type ruleState struct {
	Rule
	matched int // matches so far, those skipped included
	removed bool
}

// matches reports whether the rule acts on r, and counts the match. draw gives
// the random number of this request and rule.
func (s *ruleState) matches(r Request, draw func() float64) bool {
	if s.removed || len(s.Ops) > 0 && !slices.Contains(s.Ops, r.Op) {
		return false
	}
	if s.Key != "" {
		if ok, _ := path.Match(s.Key, r.Key); !ok {
			return false
		}
	}
	if s.Match != nil && !s.Match(r) {
		return false
	}
	if s.Chance > 0 && draw() >= s.Chance {
		return false
	}
	s.matched++
	acted := s.matched - s.Skip // with this one
	return acted >= 1 && (s.Count < 0 || acted <= max(1, s.Count))
}

// plan is what happens to one request: the rules that matched, merged.
type plan struct {
	Rule
	onRequest, onApplied []func(Request)
}

func (p *plan) add(r Rule) {
	if r.OnRequest != nil {
		p.onRequest = append(p.onRequest, r.OnRequest)
	}
	if r.OnApplied != nil {
		p.onApplied = append(p.onApplied, r.OnApplied)
	}
	if p.Delay == 0 {
		p.Delay = r.Delay
	}
	if p.Hold == nil {
		p.Hold = r.Hold
	}
	if p.Before == nil {
		p.Before = r.Before
	}
	if p.After == nil {
		p.After = r.After
	}
	if p.Truncate == 0 {
		p.Truncate = r.Truncate
	}
	p.Park = p.Park || r.Park
	p.ParkReply = p.ParkReply || r.ParkReply
	p.IgnoreCondition = p.IgnoreCondition || r.IgnoreCondition
	p.Duplicate = p.Duplicate || r.Duplicate
	p.Detach = p.Detach || r.Detach
}

// ErrInjected is part of every error that [Status] makes.
var ErrInjected = errors.New("injected fault")

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
	if class == nil {
		return fmt.Errorf("%w: status %d", ErrInjected, code)
	}
	return fmt.Errorf("%w: status %d: %w", ErrInjected, code, class)
}
