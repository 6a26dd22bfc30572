//go:build !faults

package fault

// The switches. What each does is said in on.go.
const (
	FenceAboveLast      = false
	AcknowledgeAnyOrder = false
	NoOwnershipCheck    = false
	NoRecheck           = false
	AnyObjectIsSuccess  = false
	ConflictIsExists    = false
	NewestMemtableFirst = false
	SkipOverDead        = false
	LivenessByEpoch     = false
	RecycleDeadAtOnce   = false
)
