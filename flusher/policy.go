package flusher

import "time"

// Reason says what started an append.
type Reason uint8

const (
	// ByTime is an append of rows that were pending when the flush interval
	// had passed since the last append.
	ByTime Reason = iota
	// BySize is an append of at least FlushBytes.
	BySize
	// ByDemand is an append that Flush, a freeze or Close asked for.
	ByDemand
	reasons
)

// String returns the name that statistics use.
func (r Reason) String() string {
	switch r {
	case ByTime:
		return "time"
	case BySize:
		return "size"
	case ByDemand:
		return "demand"
	}
	return "unknown"
}

// Pending is what the policy looks at.
type Pending struct {
	Bytes     int64         // window bytes of rows that belong to no entry yet
	Rows      uint64        // such rows
	Room      bool          // the in-flight window takes another put
	Demanded  bool          // somebody waits for the oldest pending row without regard to cost
	SinceLast time.Duration // since the last append was started
}

// Decision is the answer of the policy: append now, for that Reason, or look
// again after Wait (0: only when something changes).
type Decision struct {
	Append bool
	Reason Reason
	Wait   time.Duration
}

// Decide says whether to start an append. Interval is the least spacing between
// an append that is started by time and the append before it, whatever started
// that one; 0 means that time starts none. After a pause of an interval or more
// a row has waited its turn already, so the first one goes out at once.
//
// When the window is full the answer is to wait: pending rows pile up and the
// next entry is larger, which is group commit that adapts to the store's speed.
func Decide(p Pending, interval time.Duration, flushBytes int64) Decision {
	switch {
	case p.Rows == 0 || !p.Room:
		return Decision{}
	case p.Demanded:
		return Decision{Append: true, Reason: ByDemand}
	case p.Bytes >= flushBytes:
		return Decision{Append: true, Reason: BySize}
	case interval <= 0:
		return Decision{}
	case p.SinceLast >= interval:
		return Decision{Append: true, Reason: ByTime}
	}
	return Decision{Wait: interval - p.SinceLast}
}
