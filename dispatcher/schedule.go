package dispatcher

import "time"

// schedule decides when ticks come. It is a state machine over plain values;
// the loop calls it with the lock held.
type schedule struct {
	interval time.Duration // <= 0: only ticks that were asked for
	patience int           // messages that may pass a tick that waits its turn, >= 1
	due      time.Time     // when the next tick comes; zero: never
	kept     bool          // the tick at due is not dropped when it is missed
	passed   int           // handler calls that went before the kept tick since it was due; 0 <= passed <= patience
}

func newSchedule(interval time.Duration, patience int, now time.Time) schedule {
	s := schedule{interval: interval, patience: max(1, patience)}
	s.next(now)
	return s
}

// next sets the tick after one that was delivered or dropped at now.
func (s *schedule) next(now time.Time) {
	s.due, s.kept, s.passed = time.Time{}, false, 0
	if s.interval > 0 {
		s.due = now.Add(s.interval)
	}
}

// reset sets the next tick on request.
func (s *schedule) reset(now time.Time, d time.Duration) {
	s.due, s.kept, s.passed = now.Add(max(0, d)), true, 0
}

// ready tells whether a tick is due.
func (s *schedule) ready(now time.Time) bool {
	return !s.due.IsZero() && !now.Before(s.due)
}

// first tells whether a due tick has waited so long that it goes before
// messages.
func (s *schedule) first(now time.Time) bool {
	return s.kept && s.passed >= s.patience && s.ready(now)
}

// busy accounts for a message or wake whose handler returned at now. It tells
// whether a tick was dropped.
func (s *schedule) busy(now time.Time) bool {
	switch {
	case !s.ready(now):
		return false
	case s.kept:
		s.passed++
		return false
	default:
		s.next(now)
		s.kept = true // never two in a row
		return true
	}
}

// begin is called before a tick is delivered at now, so that a reset by its
// handler stands.
func (s *schedule) begin(now time.Time) { s.next(now) }

// end is called after the handler of a tick returned at now. Ticks missed
// meanwhile are dropped; this is not the starvation that kept guards against,
// since a tick was just delivered.
func (s *schedule) end(now time.Time) {
	if s.ready(now) && !s.kept {
		s.next(now)
	}
}
