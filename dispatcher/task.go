package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"time"
)

// DefaultMailbox is the number of messages a mailbox holds unless told
// otherwise. Smaller makes posters wait for a handler that is merely busy,
// larger only hides a handler that cannot keep up.
const DefaultMailbox = 64

// maxErrors bounds the handler errors kept for Stop. The first ones tell what
// went wrong; the others are counted.
const maxErrors = 16

// ErrStopped is returned for messages that a task no longer takes. It is also
// the cause with which a discarding stop cancels the context of a running
// handler.
var ErrStopped = errors.New("dispatcher: task is stopped")

// Handler is what a task does. Its methods are called on the task's goroutine,
// one at a time.
//
// The context ends when the task is told to discard or the context given to
// Start ends; a handler that may run long must heed it. During a draining stop
// it stays alive. An error is reported and the loop goes on; an error that only
// says that this context ended is not reported.
type Handler[M any] interface {
	// Handle handles one message.
	Handle(ctx context.Context, msg M) error
	// Wake does work that follows from state kept elsewhere. It is called once
	// for any number of Task.Wake before it.
	Wake(ctx context.Context) error
	// Tick is called when a tick is due.
	Tick(ctx context.Context) error
}

// Funcs is a Handler made of functions. What is nil does nothing.
type Funcs[M any] struct {
	OnMessage func(ctx context.Context, msg M) error
	OnWake    func(ctx context.Context) error
	OnTick    func(ctx context.Context) error
}

// Handle calls OnMessage.
func (f Funcs[M]) Handle(ctx context.Context, msg M) error {
	if f.OnMessage == nil {
		return nil
	}
	return f.OnMessage(ctx, msg)
}

// Wake calls OnWake.
func (f Funcs[M]) Wake(ctx context.Context) error {
	if f.OnWake == nil {
		return nil
	}
	return f.OnWake(ctx)
}

// Tick calls OnTick.
func (f Funcs[M]) Tick(ctx context.Context) error {
	if f.OnTick == nil {
		return nil
	}
	return f.OnTick(ctx)
}

// Options of a task. Only Handler is required.
type Options[M any] struct {
	// Name of the task in errors, logs and the pprof label "memwal.task".
	Name string
	// Interval between ticks. Zero or less: no ticks but those asked for with
	// Task.ResetTicker.
	Interval time.Duration
	// Handler does the work.
	Handler Handler[M]
	// Mailbox is the number of messages that may wait; a poster waits when it
	// is full. Zero or less: DefaultMailbox.
	Mailbox int
	// OnError is told each handler error as it is, on the task's goroutine. It
	// must not call Stop, which would wait for itself.
	OnError func(error)
	// OnPanic is told of the panic that ended the loop, on the task's
	// goroutine, after the mailbox was closed. It must not call Stop.
	OnPanic func(*PanicError)
	// OnDiscard is given each message that was accepted and will never be
	// handled, on the task's goroutine, before Stop returns.
	OnDiscard func(M)
	// Logger for what no caller is told: ticks dropped, errors beyond the ones
	// that Stop returns, panics inside the callbacks. Nil: discarded.
	Logger *slog.Logger
}

// PanicError says that a handler panicked, or ended its goroutine.
type PanicError struct {
	Task  string // name of the task
	Value any    // what was given to panic
	Stack []byte // stack of the panic
}

func (e *PanicError) Error() string {
	return fmt.Sprintf("dispatcher: task %q panicked: %v", e.Task, e.Value)
}

// Unwrap returns the panic's value when it was an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// Task is a running background task. All methods may be called from any
// goroutine; Stop and Done must not be waited for by the task's own handler or
// callbacks.
type Task[M any] struct {
	o       Options[M]
	ctx     context.Context // handed to handlers
	cancel  context.CancelCauseFunc
	slots   chan struct{} // one token for each message in the mailbox; sending one reserves a place
	signal  chan struct{} // holds one token when the loop has something to look at
	closed  chan struct{} // closed when the mailbox takes nothing any more
	done    chan struct{} // closed when the goroutine is about to end
	timer   *time.Timer   // used by the loop only
	handled uint64        // messages taken from the mailbox; used by the loop only

	posted atomic.Uint64 // messages put into the mailbox; written with mu held. handled <= posted
	wake   atomic.Uint64 // 0: no wake waits; else 1 + the value of posted that the wake lets pass first

	// mu guards what follows. It is a leaf, held for a few instructions, never
	// across a handler or callback.
	mu struct {
		sync.Mutex
		queue    ring[M]
		closing  bool // the mailbox is closed
		ticks    schedule
		errs     []error // the first maxErrors reported
		more     int     // reported beyond those
		panicked *PanicError
	}
}

// Start starts a task. The end of ctx ends it like Stop(false). A nil Handler
// is a programming error and panics.
func Start[M any](ctx context.Context, o Options[M]) *Task[M] {
	if o.Handler == nil {
		panic(fmt.Sprintf("dispatcher: task %q has no handler", o.Name))
	}
	if o.Mailbox <= 0 {
		o.Mailbox = DefaultMailbox
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	t := &Task[M]{
		o:      o,
		slots:  make(chan struct{}, o.Mailbox),
		signal: make(chan struct{}, 1),
		closed: make(chan struct{}),
		done:   make(chan struct{}),
	}
	t.ctx, t.cancel = context.WithCancelCause(ctx)
	t.mu.ticks = newSchedule(o.Interval, o.Mailbox, time.Now())
	go func() {
		defer t.finish()
		pprof.Do(t.ctx, pprof.Labels("memwal.task", o.Name), t.loop)
	}()
	return t
}

// Post puts a message into the mailbox and waits while it is full. A nil error
// means that the message will be handled, or given to OnDiscard. ErrStopped
// means that the task takes no messages any more; it wraps the PanicError if a
// panic was the reason. The end of ctx ends the wait with its error; the
// message is then not posted.
func (t *Task[M]) Post(ctx context.Context, msg M) error {
	select {
	case <-t.closed:
		return t.stopped()
	case <-t.ctx.Done():
		return t.stopped()
	default:
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case t.slots <- struct{}{}:
	case <-t.closed:
		return t.stopped()
	case <-t.ctx.Done():
		return t.stopped()
	case <-ctx.Done():
		return ctx.Err()
	}
	t.mu.Lock()
	// Closed since the select; the loop may have looked at the mailbox for the
	// last time.
	if t.mu.closing {
		t.mu.Unlock()
		<-t.slots
		return t.stopped()
	}
	t.mu.queue.push(msg)
	t.posted.Add(1)
	t.mu.Unlock()
	t.notify()
	return nil
}

// Wake makes the handler's Wake be called after the messages posted so far. It
// never waits, and costs one atomic load when a wake is waiting already. One
// that comes during a draining stop counts, so that a handler may go on in
// steps; once the task has ended it does nothing.
func (t *Task[M]) Wake() {
	if t.wake.Load() != 0 {
		return
	}
	if t.wake.CompareAndSwap(0, t.posted.Load()+1) {
		t.notify()
	}
}

// ResetTicker makes the next tick come d from now instead of when it was due;
// ticks after it follow at the interval, if there is one. A tick asked for in
// this way is not dropped when the task is busy at that moment, only late.
// Meant for the handler, which then decides about the next tick while it
// handles something.
func (t *Task[M]) ResetTicker(d time.Duration) {
	t.mu.Lock()
	t.mu.ticks.reset(time.Now(), d)
	t.mu.Unlock()
	t.notify()
}

// Stop ends the task and waits for its goroutine. With drain, messages and the
// wake that were accepted before are handled first; without, the handler's
// context is cancelled and they are discarded. A discarding stop cuts a
// draining one short.
//
// It returns the handler's errors (the first 16, and how many more there were)
// and the panic that ended the loop, joined; the same ones each time.
func (t *Task[M]) Stop(drain bool) error {
	t.close()
	if !drain {
		t.cancel(ErrStopped)
	}
	t.notify()
	<-t.done
	return t.Err()
}

// Cancel starts a stop that discards and does not wait for it, so a handler or
// callback may call it.
func (t *Task[M]) Cancel() {
	t.close()
	t.cancel(ErrStopped)
}

// Done is closed when the task has ended, for whatever reason.
func (t *Task[M]) Done() <-chan struct{} { return t.done }

// Err returns what Stop returns, as far as it is known now.
func (t *Task[M]) Err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	errs := append([]error(nil), t.mu.errs...)
	if t.mu.more > 0 {
		errs = append(errs, fmt.Errorf("dispatcher: task %q: %d more errors", t.o.Name, t.mu.more))
	}
	if t.mu.panicked != nil {
		errs = append(errs, t.mu.panicked)
	}
	return errors.Join(errs...)
}

// stopped returns the error for a message that came too late.
func (t *Task[M]) stopped() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.panicked != nil {
		return fmt.Errorf("%w (%q): %w", ErrStopped, t.o.Name, t.mu.panicked)
	}
	return fmt.Errorf("%w (%q)", ErrStopped, t.o.Name)
}

// close makes the mailbox refuse messages.
func (t *Task[M]) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.mu.closing {
		t.mu.closing = true
		close(t.closed)
	}
}

// notify makes the loop look again. The token is left behind when the loop is
// busy, so nothing is missed.
func (t *Task[M]) notify() {
	select {
	case t.signal <- struct{}{}:
	default:
	}
}
