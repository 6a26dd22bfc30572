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

// pending is what the policy looks at.
type pending struct {
	bytes     int64         // window bytes of rows that belong to no entry yet
	rows      uint64        // such rows
	room      bool          // the in-flight window takes another put
	demanded  bool          // somebody waits for the oldest pending row without regard to the interval
	sinceLast time.Duration // since the last append was started
	ceiling   time.Duration // until the ceiling admits an append; 0: it does now
}

// decision is the answer of the policy: append now, for that reason, or look
// again after wait (0: only when something changes).
type decision struct {
	append bool
	reason reason
	wait   time.Duration
	held   bool // without the ceiling the wait would be shorter
}

// decide says whether to start an append. interval is the least spacing between
// an append that is started by time and the append before it, whatever started
// that one; 0 means that time starts none. After a pause of an interval or more
// a row has waited its turn already, so the first one goes out at once. The
// ceiling holds back every append, whatever its reason.
//
// When the window is full, or the ceiling holds, the answer is to wait: pending
// rows pile up and the next entry is larger, which is group commit that adapts
// to the store's speed and price.
func decide(p pending, interval time.Duration, flushBytes int64) decision {
	d := decision{append: true}
	switch {
	case p.rows == 0 || !p.room:
		return decision{}
	case p.demanded:
		d.reason = byDemand
	case p.bytes >= flushBytes:
		d.reason = bySize
	case interval <= 0:
		return decision{}
	default:
		d.reason, d.wait = byTime, max(0, interval-p.sinceLast)
	}
	if p.ceiling > d.wait {
		d.wait, d.held = p.ceiling, true
	}
	if d.wait > 0 {
		return decision{wait: d.wait, held: d.held}
	}
	return d
}

// ceilingWindow is the time over which a ceiling holds.
const ceilingWindow = time.Minute

// bucket is a token bucket, in the form of the generic cell rate algorithm
// (ITU-T I.371): a single time, whole nanoseconds, and tokens that may be
// overdrawn.
//
// With n = 60·ceiling, burst tokens, and one token each window/(n − burst), no
// more than burst + (n − burst) = n are spent in a closed minute that ends when
// wait was 0. A tenth of them in the bucket lets a short load go at once and
// leaves nine tenths as the steady rate. One spacing of that minute is to spare,
// for puts that leave a little later than they were charged.
type bucket struct {
	spacing time.Duration // between tokens
	depth   time.Duration // what a full bucket is worth beyond one token: (burst − 1)·spacing
	next    time.Time     // when the next put would come at the steady rate; depth ahead of that it may
}

// newBucket returns a full bucket for a ceiling from MinCeiling to MaxCeiling.
func newBucket(perSecond float64) bucket {
	// The small addend is for ceilings such as 0.7, sixty of which are just below
	// the whole number that is meant.
	n := time.Duration(perSecond*ceilingWindow.Seconds() + 1e-6)
	burst := max(1, n/10)
	spacing := (ceilingWindow + n - burst - 1) / (n - burst)
	return bucket{spacing: spacing, depth: (burst - 1) * spacing}
}

// wait returns how long there is no token; 0: there is one.
func (b *bucket) wait(now time.Time) time.Duration {
	return max(0, b.next.Add(-b.depth).Sub(now))
}

// spend takes a token, whether there is one or not. A debt that would last for
// more than a minute is cut to that: the minutes that it would protect have
// passed by then.
func (b *bucket) spend(now time.Time) {
	if b.next.Before(now) {
		b.next = now
	}
	b.next = b.next.Add(b.spacing)
	if most := now.Add(b.depth + ceilingWindow); b.next.After(most) {
		b.next = most
	}
}
