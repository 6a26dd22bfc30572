package soak

import (
	"time"

	"github.com/memwal/memwal-go/objstore"
	"github.com/memwal/memwal-go/objstore/faultstore"
)

// Faults returns a mix of everything that a store may do to its users without
// breaking its contract: requests that fail before or after they were applied, are slow,
// are applied twice, or late; listings in any order, with doubles; and reads cut
// short on the way, which is no store's fault and must be noticed.
func Faults() []faultstore.Rule {
	puts := []objstore.Op{objstore.OpPutIfAbsent, objstore.OpPut}
	gets := []objstore.Op{objstore.OpGet, objstore.OpGetRange}
	reads := append([]objstore.Op{objstore.OpHead, objstore.OpList}, gets...)
	lists := []objstore.Op{objstore.OpList}
	rules := []faultstore.Rule{
		{Ops: puts, Chance: 0.01, Before: faultstore.Status(503)},
		{Ops: puts, Chance: 0.01, Before: faultstore.Status(429)},
		{Ops: puts, Chance: 0.01, Before: faultstore.Status(409)},
		{Ops: puts, Chance: 0.01, Before: faultstore.Status(500)},
		{Ops: puts, Chance: 0.02, After: faultstore.Status(500)},
		{Ops: puts, Chance: 0.02, Duplicate: true},
		{Ops: puts, Chance: 0.01, Late: 20 * time.Millisecond},
		{Ops: puts, Chance: 0.005, Late: 1500 * time.Millisecond},
		{Ops: reads, Chance: 0.004, Before: faultstore.Status(503)},
		{Ops: reads, Chance: 0.004, Before: faultstore.Status(429)},
		{Ops: reads, Chance: 0.004, Before: faultstore.Status(500)},
		{Ops: reads, Chance: 0.004, After: faultstore.Status(500)},
		{Ops: gets, Chance: 0.0005, Truncate: 1},
		{Ops: lists, Chance: 0.5, Shuffle: true},
		{Chance: 0.01, Delay: 50 * time.Millisecond},
	}
	for i := range rules {
		rules[i].Count = -1
	}
	return rules
}

// truncates reports whether reads may be cut short.
func truncates(rules []faultstore.Rule) bool {
	for _, r := range rules {
		if r.Truncate > 0 {
			return true
		}
	}
	return false
}
