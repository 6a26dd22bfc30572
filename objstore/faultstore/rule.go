package faultstore

import (
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
	// Late answers a put or delete at once, with an ambiguous error (or After),
	// and sends it so much later: as when a connection breaks, or a
	// process dies, while the request is on its way. It does nothing to a request
	// that Before fails.
	Late time.Duration
	// IgnoreCondition lets a put-if-absent replace an object that exists.
	IgnoreCondition bool
	// Duplicate applies a put or delete twice, as a network may; the reply is
	// the first one's.
	Duplicate bool
	// OnApplied is called after the inner store has replied. Err is its reply.
	OnApplied func(Request)
	// ParkReply makes the reply wait for Release.
	ParkReply bool
	// After fails the request after it was applied: its reply is lost. It acts
	// whatever the reply was.
	After error
	// Truncate cuts that many bytes off what a get returns, as a proxy may
	// that does not look at lengths, or that many objects off the end of a
	// listing, as a client may that takes the first page for all. A listing has no
	// error then. Puts are not cut: no store whose objects appear whole or not at
	// all can store the half of one. What it can do is refuse it: Before.
	Truncate int
	// Shuffle yields the objects of a listing in an order drawn from the seed,
	// and some of them twice, as pages that overlap do. The listing is read
	// whole first.
	Shuffle bool
	// Drop is the chance with which a listing leaves out an object, each by
	// itself. It ends without an error. A store that does this breaks the
	// contract of objstore.Store.
	Drop float64
	// Detach lets the request outlive its caller. See the package
	// documentation.
	Detach bool
}

// ruleState is a rule and its progress. Guarded by Store.mu.
type ruleState struct {
	Rule
	matched int // matches so far, those skipped included
}

// matches reports whether the rule acts on the request of c, and counts the match.
func (s *ruleState) matches(c *call) bool {
	r := c.req
	if len(s.Ops) > 0 && !slices.Contains(s.Ops, r.Op) {
		return false
	}
	if s.Key != "" {
		if ok, _ := path.Match(s.Key, r.Key); !ok {
			return false
		}
	}
	if s.Match != nil && !s.Match(*r) {
		return false
	}
	if s.Chance > 0 && c.random().Float64() >= s.Chance {
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
	if p.Late == 0 {
		p.Late = r.Late
	}
	if p.Drop == 0 {
		p.Drop = r.Drop
	}
	p.Shuffle = p.Shuffle || r.Shuffle
	p.Park = p.Park || r.Park
	p.ParkReply = p.ParkReply || r.ParkReply
	p.IgnoreCondition = p.IgnoreCondition || r.IgnoreCondition
	p.Duplicate = p.Duplicate || r.Duplicate
	p.Detach = p.Detach || r.Detach
}
