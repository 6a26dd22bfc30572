package faultstore

import (
	"net/http"
	"time"

	"github.com/memwal/memwal-go/objstore"
)

// Chaos returns rules by which each request meets each passing fault that may
// befall it with the chance rate: it is throttled (429, 503), fails unapplied
// (500), conflicts (409, put-if-absent), loses its reply, is delayed, is
// duplicated or lands late (puts and deletes); listings come out of order, with
// doubles. A rate of 0 or less is no rules.
//
// A store that keeps its contract may do all of this, so a program has to survive
// it as long as its retries last: at a rate of 0.1 a third of the reads and half
// of the puts fail, at 0.01 one in 25 and one in 15. Left out is what no retry
// helps against (403), and what such a store never does: "absent" or "exists"
// that is not true, short listings, bodies cut off without an error, ignored
// conditions.
func Chaos(rate float64) []Rule {
	if !(rate > 0) {
		return nil
	}
	fault := func(r Rule) Rule {
		r.Chance, r.Count = rate, -1
		return r
	}
	return []Rule{
		fault(Rule{Before: Status(http.StatusServiceUnavailable)}),
		fault(Rule{Before: Status(http.StatusTooManyRequests)}),
		fault(Rule{Before: Status(http.StatusInternalServerError)}),
		fault(Rule{Before: Status(http.StatusConflict), Ops: []objstore.Op{objstore.OpPutIfAbsent}}),
		fault(Rule{After: Status(http.StatusInternalServerError)}),
		fault(Rule{Delay: 100 * time.Millisecond}),
		fault(Rule{Duplicate: true, Ops: writeOps}),
		// Some land before the first retry, some after the last.
		fault(Rule{Late: 20 * time.Millisecond, Ops: writeOps}),
		fault(Rule{Late: 3 * time.Second, Ops: writeOps}),
		fault(Rule{Shuffle: true, Ops: listOps}),
	}
}
