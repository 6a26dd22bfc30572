package flusher

import "time"

// reason says what started an append.
type reason uint8

const (
	// byTime is an append of rows that were pending when the flush interval
	// had passed since the last append.
	byTime reason = iota
	// bySize is an append of at least FlushBytes.
	bySize
	// byDemand is an append that Flush, a freeze or Close asked for.
	byDemand
	reasons
)

func (r reason) String() string { return [...]string{"time", "size", "demand"}[r] }

// pending is what the policy looks at.
type pending struct {
	bytes     int64         // window bytes of rows that belong to no entry yet
	rows      uint64        // such rows
	room      bool          // the in-flight window takes another put
	demanded  bool          // somebody waits for the oldest pending row without regard to cost
	sinceLast time.Duration // since the last append was started
}

// decision is the answer of the policy: append now, for that reason, or look
// again after wait (0: only when something changes).
type decision struct {
	append bool
	reason reason
	wait   time.Duration
}

// decide says whether to start an append. interval is the least spacing between
// an append that is started by time and the append before it, whatever started
// that one; 0 means that time starts none. After a pause of an interval or more
// a row has waited its turn already, so the first one goes out at once.
//
// When the window is full the answer is to wait: pending rows pile up and the
// next entry is larger, which is group commit that adapts to the store's speed.
func decide(p pending, interval time.Duration, flushBytes int64) decision {
	switch {
	case p.rows == 0 || !p.room:
		return decision{}
	case p.demanded:
		return decision{append: true, reason: byDemand}
	case p.bytes >= flushBytes:
		return decision{append: true, reason: bySize}
	case interval <= 0:
		return decision{}
	case p.sinceLast >= interval:
		return decision{append: true, reason: byTime}
	}
	return decision{wait: interval - p.sinceLast}
}
