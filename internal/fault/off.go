//go:build !faults

package fault

// On says whether the faults are built in.
const On = false

// The switches. See on.go for what each does.
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
