package soak

import (
	"slices"

	"github.com/memwal/memwal-go/objstore"
	"github.com/memwal/memwal-go/objstore/faultstore"
)

// faultRate is the chance of each kind of fault: one read in 25 and one put in 15
// meet one.
const faultRate = 0.01

// Faults returns a mix of everything that a store may do to its users without
// breaking its contract. Listings, which are few, are shuffled more often. Gets are
// cut short now and then, which no store does, but which must be noticed.
func Faults() []faultstore.Rule {
	return append(faultstore.Chaos(faultRate),
		faultstore.Rule{Ops: []objstore.Op{objstore.OpList}, Chance: 0.5, Count: -1, Shuffle: true},
		faultstore.Rule{Ops: []objstore.Op{objstore.OpGet, objstore.OpGetRange}, Chance: 0.0005, Count: -1, Truncate: 1})
}

// truncates reports whether gets may be cut short.
func truncates(rules []faultstore.Rule) bool {
	return slices.ContainsFunc(rules, func(r faultstore.Rule) bool { return r.Truncate > 0 })
}
