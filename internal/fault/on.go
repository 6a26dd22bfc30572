//go:build faults

package fault

import (
	"maps"
	"slices"
)

// The switches. They are read without a lock: call Set only while nothing else of
// memwal runs.
var (
	// FenceAboveLast puts the fence above the last object of the log and not into
	// its first hole.
	FenceAboveLast bool
	// AcknowledgeAnyOrder counts rows as durable when their entry landed, whatever
	// became of those before it.
	AcknowledgeAnyOrder bool
	// NoOwnershipCheck trusts a proof of ownership for ever.
	NoOwnershipCheck bool
	// NoRecheck does not read the manifest after the fence.
	NoRecheck bool
	// AnyObjectIsSuccess takes any object at the position for the writer's own entry.
	AnyObjectIsSuccess bool
	// ConflictIsExists takes 409 for 412.
	ConflictIsExists bool
	// NewestMemtableFirst takes appends from the newest memtable.
	NewestMemtableFirst bool
	// SkipOverDead goes on above a dead object while later puts are in flight.
	SkipOverDead bool
	// LivenessByEpoch takes every entry whose epoch is not below the one in force
	// for live.
	LivenessByEpoch bool
	// RecycleDeadAtOnce recycles dead entries as if they were live. The library does
	// not recycle yet: the recycler of memwal/simulation reads this one.
	RecycleDeadAtOnce bool
)

var switches = map[string]*bool{
	"FenceAboveLast":      &FenceAboveLast,
	"AcknowledgeAnyOrder": &AcknowledgeAnyOrder,
	"NoOwnershipCheck":    &NoOwnershipCheck,
	"NoRecheck":           &NoRecheck,
	"AnyObjectIsSuccess":  &AnyObjectIsSuccess,
	"ConflictIsExists":    &ConflictIsExists,
	"NewestMemtableFirst": &NewestMemtableFirst,
	"SkipOverDead":        &SkipOverDead,
	"LivenessByEpoch":     &LivenessByEpoch,
	"RecycleDeadAtOnce":   &RecycleDeadAtOnce,
}

// Names lists the switches.
func Names() []string { return slices.Sorted(maps.Keys(switches)) }

// Set turns a switch on or off. It panics if there is none of that name.
func Set(name string, on bool) { *switches[name] = on }
