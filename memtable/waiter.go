package memtable

import "context"

// notWaiting is the position of a waiter that is in no heap.
const notWaiting = -1

// Waiter waits until a level has come to a target. Its outcome follows from the
// cursors alone, so it costs them nothing until somebody waits: a waiter that
// is dropped without that needs no clean-up. All methods may be called from any
// goroutine, any number of times.
type Waiter struct {
	cursors *Cursors
	target  uint64
	level   Level

	// The rest is guarded by the cursors' mutex.
	watched bool          // Done gave the channel out: it must be closed in any case
	pos     int           // index in the level's heap; notWaiting
	calls   int           // calls of Wait that wait now
	ch      chan struct{} // closed when the outcome is there; nil until somebody waits
	next    *Waiter       // in the list of those to wake; used by the one who took the waiter out for good
}

// closedChannel stands in for the channel of every waiter whose outcome was
// there before anybody waited.
var closedChannel = func() chan struct{} {
	ch := make(chan struct{})
	close(ch)
	return ch
}()

// Register returns a waiter for the rows below target.
func (c *Cursors) Register(l Level, target uint64) *Waiter {
	if l >= levels {
		panic("memtable: unknown " + l.String())
	}
	return &Waiter{cursors: c, target: target, level: l, pos: notWaiting}
}

// outcome tells whether there is one, and which.
func (w *Waiter) outcome() (bool, error) {
	// The failure is read first: no cursor moves after it, so if it is there,
	// what is read next is final.
	failure := w.cursors.Err()
	if w.cursors.At(w.level) >= w.target {
		return true, nil
	}
	return failure != nil, failure
}

// Err returns nil when the target was reached or nothing is known yet, else the
// failure that ended the wait.
func (w *Waiter) Err() error {
	_, err := w.outcome()
	return err
}

// Done is closed when the target was reached or the cursors failed; Err then
// tells which. A waiter whose Done was asked for is kept until then.
func (w *Waiter) Done() <-chan struct{} {
	c := w.cursors
	c.mu.Lock()
	defer c.mu.Unlock()
	if done, _ := w.outcome(); done {
		if w.ch == nil {
			w.ch = closedChannel
		}
		return w.ch // if it is not closed yet, the one who took the waiter out is about to
	}
	w.watched = true
	w.enlistLocked()
	return w.ch
}

// Wait waits until the target was reached, which returns nil, or the cursors
// failed, which returns their failure. The end of ctx ends this call only: it
// returns the context's error, unless there is an outcome by then.
func (w *Waiter) Wait(ctx context.Context) error {
	if done, err := w.outcome(); done {
		return err
	}
	c := w.cursors
	c.mu.Lock()
	// Cursors move with the lock held, so what is enlisted below is seen by the
	// next move.
	if done, err := w.outcome(); done {
		c.mu.Unlock()
		return err
	}
	w.calls++
	w.enlistLocked()
	ch := w.ch
	c.mu.Unlock()

	select {
	case <-ch:
	case <-ctx.Done():
	}

	done, err := w.outcome()
	if done {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if done, err := w.outcome(); done {
		return err
	}
	if w.calls--; w.calls == 0 && !w.watched {
		c.mu.waiting[w.level].remove(w.pos)
		w.ch = nil // nobody has it, and nobody is going to close it
	}
	return ctx.Err()
}

// enlistLocked puts the waiter among those who wait. There must not be an
// outcome.
func (w *Waiter) enlistLocked() {
	if w.ch == nil {
		w.ch = make(chan struct{})
	}
	if w.pos == notWaiting {
		w.cursors.mu.waiting[w.level].push(w)
	}
}

// wakeList collects waiters that were taken out for good, so that they are
// woken after the lock was given back.
type wakeList struct{ head, tail *Waiter }

func (l *wakeList) add(w *Waiter) {
	if l.tail == nil {
		l.head = w
	} else {
		l.tail.next = w
	}
	l.tail = w
}

// wake closes the channels. The outcomes are there, so nobody enlists these
// waiters again and next is ours.
func (l *wakeList) wake() {
	for w := l.head; w != nil; {
		next := w.next
		w.next = nil
		close(w.ch)
		w = next
	}
}
