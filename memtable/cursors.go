package memtable

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
)

// Level is a cursor that can be waited for.
type Level uint8

// The levels.
const (
	LevelIndexed Level = iota // rows are in the indexes
	LevelDurable              // rows are in the log
	LevelVisible              // rows are both
	levels       = iota
)

func (l Level) String() string {
	switch l {
	case LevelIndexed:
		return "indexed"
	case LevelDurable:
		return "durable"
	case LevelVisible:
		return "visible"
	default:
		return fmt.Sprintf("Level(%d)", uint8(l))
	}
}

// RangeError says that a cursor was to be moved beyond the rows that were
// accepted. It did not move.
type RangeError struct {
	Level    Level
	Want     uint64
	Accepted uint64
}

func (e *RangeError) Error() string {
	return fmt.Sprintf("memtable: the %s cursor cannot go to row %d, only %d rows were accepted", e.Level, e.Want, e.Accepted)
}

// Cursors say how far a shard's rows have come: as exclusive counts of row
// ordinals, so 0 means no row. All methods may be called from any goroutine.
// Reading takes no lock.
//
// Invariants: each cursor only grows; indexed <= accepted, durable <= accepted;
// visible = min(indexed, durable) and is not stored; nothing but accepted moves
// after a failure.
type Cursors struct {
	accepted atomic.Uint64 // grows under the writer lock
	indexed  atomic.Uint64 // grows with mu held
	durable  atomic.Uint64 // grows with mu held
	failure  atomic.Pointer[error]

	// mu is a leaf: taken under the writer lock, never held across a callback
	// or while waiters are woken.
	mu struct {
		sync.Mutex
		waiting [levels]waitHeap // those who wait; their targets are above their level
	}
}

// NewCursors returns cursors that all stand at start: the rows below it are
// accepted, indexed and durable.
func NewCursors(start uint64) *Cursors {
	c := &Cursors{}
	c.accepted.Store(start)
	c.indexed.Store(start)
	c.durable.Store(start)
	return c
}

// Accepted returns the number of rows that the writer took.
func (c *Cursors) Accepted() uint64 { return c.accepted.Load() }

// Indexed returns the number of rows that are in every index.
func (c *Cursors) Indexed() uint64 { return c.indexed.Load() }

// Durable returns the number of rows that are in the log.
func (c *Cursors) Durable() uint64 { return c.durable.Load() }

// Visible returns the number of rows that are both indexed and durable.
func (c *Cursors) Visible() uint64 { return min(c.indexed.Load(), c.durable.Load()) }

// At returns the cursor of a level.
func (c *Cursors) At(l Level) uint64 {
	switch l {
	case LevelIndexed:
		return c.Indexed()
	case LevelDurable:
		return c.Durable()
	case LevelVisible:
		return c.Visible()
	default:
		panic("memtable: unknown " + l.String())
	}
}

// Accept says that the rows below n are in a memtable. The caller holds the
// writer lock. A lower n changes nothing.
func (c *Cursors) Accept(n uint64) {
	if n > c.accepted.Load() {
		c.accepted.Store(n)
	}
}

// AdvanceIndexed says that the rows below n are in every index. See
// AdvanceDurable.
func (c *Cursors) AdvanceIndexed(n uint64) error {
	return c.advance(LevelIndexed, &c.indexed, n)
}

// AdvanceDurable says that the rows below n are in the log, and wakes those
// whom that concerns. An n that is not above the cursor changes nothing: it is
// a completion that came late. An n beyond what was accepted is a *RangeError
// and moves nothing. After Fail the cursor does not move, and the failure is
// returned.
func (c *Cursors) AdvanceDurable(n uint64) error {
	return c.advance(LevelDurable, &c.durable, n)
}

func (c *Cursors) advance(l Level, cursor *atomic.Uint64, n uint64) error {
	c.mu.Lock()
	if n <= cursor.Load() {
		c.mu.Unlock()
		return nil
	}
	if accepted := c.accepted.Load(); n > accepted {
		c.mu.Unlock()
		return &RangeError{Level: l, Want: n, Accepted: accepted}
	}
	if err := c.Err(); err != nil {
		c.mu.Unlock()
		return err
	}
	cursor.Store(n)
	var woken wakeList
	c.reachedLocked(l, &woken)
	c.reachedLocked(LevelVisible, &woken)
	if invariantsOn {
		c.checkLocked()
	}
	c.mu.Unlock()
	woken.wake()
	return nil
}

// reachedLocked moves the waiters whose level has come to their target to the
// list woken, lowest target first.
func (c *Cursors) reachedLocked(l Level, woken *wakeList) {
	at, h := c.At(l), &c.mu.waiting[l]
	for len(*h) > 0 && (*h)[0].target <= at {
		woken.add(h.remove(0))
	}
}

// Fail ends everything: all who wait are woken at once with err, all who come
// later get it for what was not reached, and no cursor but accepted moves any
// more. The first failure stays; Fail returns whether this was it.
func (c *Cursors) Fail(err error) bool {
	if err == nil {
		err = errors.New("memtable: failed without a reason")
	}
	c.mu.Lock()
	if !c.failure.CompareAndSwap(nil, &err) {
		c.mu.Unlock()
		return false
	}
	var woken wakeList
	for l := range c.mu.waiting {
		for _, e := range c.mu.waiting[l] {
			e.waiter.pos = notWaiting
			woken.add(e.waiter)
		}
		c.mu.waiting[l] = nil
	}
	c.mu.Unlock()
	woken.wake()
	return true
}

// Err returns the first failure, or nil.
func (c *Cursors) Err() error {
	if p := c.failure.Load(); p != nil {
		return *p
	}
	return nil
}

// Waiting returns the number of waiters that wait now.
func (c *Cursors) Waiting() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for l := range c.mu.waiting {
		n += len(c.mu.waiting[l])
	}
	return n
}

// checkLocked panics when an invariant does not hold. It costs a pass over the
// waiters.
func (c *Cursors) checkLocked() {
	accepted := c.accepted.Load()
	if c.indexed.Load() > accepted || c.durable.Load() > accepted {
		panic(fmt.Sprintf("memtable: indexed %d, durable %d, accepted %d", c.indexed.Load(), c.durable.Load(), accepted))
	}
	for l, h := range c.mu.waiting {
		for i, e := range h {
			if e.target <= c.At(Level(l)) || e.waiter.pos != i || e.target < h[max(0, (i-1)/2)].target {
				panic(fmt.Sprintf("memtable: waiter %d of level %s is out of place: position %d, target %d, level at %d",
					i, Level(l), e.waiter.pos, e.target, c.At(Level(l))))
			}
		}
	}
}
