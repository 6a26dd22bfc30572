package memwal

import (
	"log/slog"
	"sync"
	"time"
)

// pressure follows the episodes in which puts wait for memory, to tell their
// begin and end once. An episode ends when nobody has waited for logInterval: a
// writer at its limit makes puts wait all the time, for a moment each.
type pressure struct {
	logger *slog.Logger
	max    int64 // option MaxResidentBytes

	timers sync.WaitGroup // timers that are set or run
	// mu is a leaf. It is not held while something is logged.
	mu struct {
		sync.Mutex
		stopped bool
		waiting int         // puts
		since   time.Time   // begin of the episode; zero: there is none
		left    time.Time   // when the last put ceased to wait
		puts    uint64      // that have waited in this episode
		refused uint64      // of these, those that got ErrBackpressure
		timer   *time.Timer // looks whether the episode is over; set while nobody waits
	}
}

// enter is called when a put begins to wait.
func (p *pressure) enter(resident int64) {
	p.mu.Lock()
	p.mu.waiting++
	p.mu.puts++
	p.unsetLocked()
	begins := p.mu.since.IsZero() && !p.mu.stopped
	if begins {
		p.mu.since = time.Now()
	}
	p.mu.Unlock()
	if begins {
		p.logger.Warn("backpressure begins: puts wait for memory", "resident_bytes", resident, "max_resident_bytes", p.max)
	}
}

// refuse is called, while it still waits, if the put gets ErrBackpressure.
func (p *pressure) refuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.refused++
}

// leave is called when it waits no longer. The writer lock may be held.
func (p *pressure) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.waiting--
	p.mu.left = time.Now()
	if p.mu.waiting == 0 && !p.mu.stopped {
		p.timers.Add(1)
		p.mu.timer = time.AfterFunc(logInterval, func() {
			defer p.timers.Done()
			p.settle(false)
		})
	}
}

// unsetLocked takes the timer back, if it has not fired.
func (p *pressure) unsetLocked() {
	if t := p.mu.timer; t != nil && t.Stop() {
		p.timers.Done()
	}
	p.mu.timer = nil
}

// settle ends the episode, unless somebody waits again.
func (p *pressure) settle(ending bool) {
	p.mu.Lock()
	over := !p.mu.since.IsZero() && (ending || p.mu.waiting == 0)
	if !over {
		p.mu.Unlock()
		return
	}
	took, puts, refused := p.mu.left.Sub(p.mu.since), p.mu.puts, p.mu.refused
	if p.mu.waiting > 0 {
		took = time.Since(p.mu.since)
	}
	p.mu.since, p.mu.puts, p.mu.refused = time.Time{}, 0, 0
	p.mu.Unlock()
	p.logger.Info("backpressure ends", "duration", took, "puts", puts, "refused", refused)
}

// stop ends the episode, and returns when no timer runs any more.
func (p *pressure) stop() {
	p.mu.Lock()
	p.mu.stopped = true
	p.unsetLocked()
	p.mu.Unlock()
	p.settle(true)
	p.timers.Wait()
}
