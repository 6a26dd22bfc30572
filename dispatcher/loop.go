package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"
)

// step is what the loop does next.
type step int

const (
	stepWait step = iota
	stepMessage
	stepWake
	stepTick
	stepEnd
)

func (s step) String() string {
	return [...]string{"wait", "message", "wake", "tick", "end"}[s]
}

// situation is all that the choice of the next step depends on.
type situation struct {
	cancelled bool // the context ended
	closing   bool // the mailbox is closed: handle what is in it, then end
	messages  bool // the mailbox holds messages
	wake      bool // a wake waits
	wakeTurn  bool // the messages posted before the wake were handled
	tick      bool // a tick is due
	tickFirst bool // it has waited long enough
}

// choose is the order of precedence.
func choose(s situation) step {
	switch {
	case s.cancelled:
		return stepEnd
	case s.tickFirst && !s.closing:
		return stepTick
	case s.wake && (s.wakeTurn || !s.messages):
		return stepWake
	case s.messages:
		return stepMessage
	case s.closing:
		return stepEnd
	case s.tick:
		return stepTick
	default:
		return stepWait
	}
}

// loop runs until the task ends. The context is the task's own, with the pprof
// labels.
func (t *Task[M]) loop(ctx context.Context) {
	t.timer = time.NewTimer(time.Hour)
	defer t.timer.Stop()
	for {
		s, msg, wait := t.take(ctx)
		ok := true
		switch s {
		case stepEnd:
			return
		case stepWait:
			t.sleep(ctx, wait)
		case stepMessage, stepWake, stepTick:
			ok = t.run(ctx, s, msg)
		}
		if !ok {
			return
		}
	}
}

// take chooses the next step and takes what it needs: the message from the
// mailbox, the wake, or the tick. For stepWait it returns how long until a tick
// is due; negative means no tick.
func (t *Task[M]) take(ctx context.Context) (s step, msg M, wait time.Duration) {
	now := time.Now()
	wake := t.wake.Load()
	t.mu.Lock()
	defer t.mu.Unlock()
	s = choose(situation{
		cancelled: ctx.Err() != nil,
		closing:   t.mu.closing,
		messages:  t.mu.queue.len() > 0,
		wake:      wake != 0,
		wakeTurn:  wake != 0 && t.handled >= wake-1,
		tick:      t.mu.ticks.ready(now),
		tickFirst: t.mu.ticks.first(now),
	})
	switch s {
	case stepMessage:
		msg = t.mu.queue.pop()
		t.handled++
		<-t.slots // never waits: each message in the mailbox has its token
	case stepWake:
		// Before the handler looks at the state, so a wake that comes meanwhile counts.
		t.wake.Store(0)
	case stepTick:
		t.mu.ticks.begin(now)
	case stepWait:
		wait = -1
		if due := t.mu.ticks.due; !due.IsZero() {
			wait = due.Sub(now)
		}
	}
	return s, msg, wait
}

// sleep waits for something to look at.
func (t *Task[M]) sleep(ctx context.Context, wait time.Duration) {
	var tick <-chan time.Time
	if wait >= 0 {
		t.timer.Reset(wait)
		tick = t.timer.C
	}
	select {
	case <-ctx.Done():
	case <-t.signal:
	case <-tick:
	}
}

// run calls the handler and reports its error. It returns false when the loop
// must end because something panicked.
func (t *Task[M]) run(ctx context.Context, s step, msg M) (ok bool) {
	defer func() {
		if ok {
			return
		}
		value := recover()
		if value == nil {
			// The handler called runtime.Goexit: the goroutine ends, its deferred calls
			// still run.
			value = errors.New("the handler ended its goroutine")
		}
		t.mu.Lock()
		t.mu.panicked = &PanicError{Task: t.o.Name, Value: value, Stack: debug.Stack()}
		t.mu.Unlock()
	}()
	var err error
	switch s {
	case stepMessage:
		err = t.o.Handler.Handle(ctx, msg)
	case stepWake:
		err = t.o.Handler.Wake(ctx)
	case stepTick:
		err = t.o.Handler.Tick(ctx)
	}
	t.settle(s)
	if err != nil {
		t.report(ctx, s, err)
	}
	return true
}

// settle accounts for the time that the handler took.
func (t *Task[M]) settle(s step) {
	t.mu.Lock()
	dropped := false
	if now := time.Now(); s == stepTick {
		t.mu.ticks.end(now)
	} else {
		dropped = t.mu.ticks.busy(now)
	}
	t.mu.Unlock()
	if dropped {
		t.o.Logger.Debug("tick dropped: the task was busy", "task", t.o.Name, "busy_with", s.String())
	}
}

// report keeps and reports a handler's error. OnError gets it as it is: it knows
// the task. Those who read it in Stop's list or in the log do not.
func (t *Task[M]) report(ctx context.Context, s step, err error) {
	if ctx.Err() != nil && (errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx))) {
		return // the stop itself
	}
	named := fmt.Errorf("dispatcher: task %q, %s: %w", t.o.Name, s, err)
	t.mu.Lock()
	kept := len(t.mu.errs) < maxErrors
	if kept {
		t.mu.errs = append(t.mu.errs, named)
	} else {
		t.mu.more++
	}
	t.mu.Unlock()
	switch {
	case t.o.OnError != nil:
		t.o.OnError(err)
	case !kept:
		t.o.Logger.Error("task failed", "task", t.o.Name, "error", named)
	}
}

// finish is the last thing that the goroutine does. Posters are let go before
// the callbacks run, since these may be slow.
func (t *Task[M]) finish() {
	defer close(t.done)
	t.close()
	t.cancel(ErrStopped)
	t.mu.Lock()
	panicked := t.mu.panicked
	t.mu.Unlock()
	if panicked != nil && t.o.OnPanic != nil {
		t.contain("OnPanic", func() { t.o.OnPanic(panicked) })
	}
	for {
		t.mu.Lock()
		if t.mu.queue.len() == 0 {
			t.mu.Unlock()
			return
		}
		msg := t.mu.queue.pop()
		t.mu.Unlock()
		<-t.slots
		if t.o.OnDiscard != nil {
			t.contain("OnDiscard", func() { t.o.OnDiscard(msg) })
		}
	}
}

// contain keeps a panic in a callback from keeping the others from being
// called.
func (t *Task[M]) contain(what string, f func()) {
	defer func() {
		if value := recover(); value != nil {
			t.o.Logger.Error("callback panicked", "task", t.o.Name, "callback", what, "panic", value)
		}
	}()
	f()
}
