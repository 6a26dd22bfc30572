package flusher

import (
	"sync/atomic"
	"time"
)

// Stats are the figures of a WAL flusher since it was started.
type Stats struct {
	StartedByTime   uint64        // appends started because the interval had passed
	StartedBySize   uint64        // appends started because FlushBytes were pending
	StartedByDemand uint64        // appends started for Flush, a freeze or Close
	HeldBack        uint64        // of these, appends that were due and waited for the ceiling
	Entries         uint64        // live entries: those acknowledged
	LastPosition    uint64        // WAL position of the last of these; 0: none
	Bytes           uint64        // encoded bytes of these
	Reissued        uint64        // entries put again above a dead object
	OwnershipChecks uint64        // manifest reads before an acknowledgement
	InFlight        int64         // puts in flight now
	AppendTime      time.Duration // summed over these: encoding, put, retries
}

type counters struct {
	started  [reasons]atomic.Uint64
	held     atomic.Uint64
	entries  atomic.Uint64
	bytes    atomic.Uint64
	last     atomic.Uint64
	reissued atomic.Uint64
	checks   atomic.Uint64
	inFlight atomic.Int64
	took     atomic.Int64
}

// acknowledged counts the entry of s. One that landed behind a dead object is
// put again, so it counts only now.
func (c *counters) acknowledged(s *slot) {
	c.entries.Add(1)
	c.last.Store(s.pos)
	c.bytes.Add(uint64(s.size))
	c.took.Add(int64(s.took))
}

// Stats returns the current figures.
func (f *WAL) Stats() Stats {
	return Stats{
		StartedByTime:   f.stats.started[byTime].Load(),
		StartedBySize:   f.stats.started[bySize].Load(),
		StartedByDemand: f.stats.started[byDemand].Load(),
		HeldBack:        f.stats.held.Load(),
		Entries:         f.stats.entries.Load(), Bytes: f.stats.bytes.Load(),
		LastPosition: f.stats.last.Load(),
		Reissued:     f.stats.reissued.Load(), OwnershipChecks: f.stats.checks.Load(),
		InFlight: f.stats.inFlight.Load(), AppendTime: time.Duration(f.stats.took.Load()),
	}
}
