package objstore

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"time"

	"github.com/memwal/memwal-go/internal/fault"
)

// RetryOptions say how [WithRetry] retries. Zero fields mean their default.
type RetryOptions struct {
	// RequestTimeout bounds one attempt; a put or get gets a second more for
	// each MiB of its body, as far as that is known. Default 30 s: a healthy
	// store answers within one, while a shorter wait than the store's own would
	// turn slow successes into ambiguities, and would never end on a slow line.
	RequestTimeout time.Duration

	// MaxAttempts bounds the attempts, the first included. Default 10: with the
	// default backoff they span about 20 s of throttling. 1 = no retry.
	MaxAttempts int

	// MaxElapsed bounds the time from the first attempt on after which no
	// further attempt begins. Default 2 min: longer, and callers who wait for
	// durability are better told; shorter, and a failover of the store, or a
	// few attempts that time out, are not survived.
	MaxElapsed time.Duration

	// MinBackoff is the upper end of the first pause, which doubles with each
	// further one up to MaxBackoff. The pause itself is drawn evenly between
	// zero and that (full jitter), so that clients who failed together do not
	// come back together. Defaults 50 ms and 5 s.
	MinBackoff, MaxBackoff time.Duration

	// Rand gives the jitter: a number in [0, 1). It may be called from several
	// goroutines at once. Default rand.Float64.
	Rand func() float64

	// OnRetry, where set, is called before each pause. It must not block.
	OnRetry func(Retry)
}

// Retry describes a failed attempt that is going to be repeated.
type Retry struct {
	Context context.Context // of the call that makes the request
	Op      Op
	Key     string
	Attempt int           // the failed one, from 1
	Pause   time.Duration // before the next one
	Err     error         // of the failed one
}

func (o RetryOptions) withDefaults() RetryOptions {
	set(&o.RequestTimeout, 30*time.Second)
	set(&o.MaxAttempts, 10)
	set(&o.MaxElapsed, 2*time.Minute)
	set(&o.MinBackoff, 50*time.Millisecond)
	set(&o.MaxBackoff, 5*time.Second)
	if o.Rand == nil {
		o.Rand = rand.Float64
	}
	return o
}

func set[T ~int | ~int64](v *T, def T) {
	if *v <= 0 {
		*v = def
	}
}

// pause returns the time to wait after the given failed attempt (from 1).
func (o *RetryOptions) pause(attempt int) time.Duration {
	ceiling := o.MaxBackoff
	if shift := attempt - 1; shift < 32 {
		ceiling = min(ceiling, o.MinBackoff<<shift)
	}
	return time.Duration(o.Rand() * float64(ceiling))
}

// RetryError is what [WithRetry] returns when it gave up.
type RetryError struct {
	Op       Op
	Key      string
	Attempts int
	Elapsed  time.Duration

	// MaybeApplied says that one of the attempts may have been applied, or may
	// still be, whatever the last one said. It makes the error an ErrAmbiguous.
	MaybeApplied bool

	Err error // of the last attempt
}

func (e *RetryError) Error() string {
	s := fmt.Sprintf("gave up after %d attempts in %v", e.Attempts, e.Elapsed.Round(time.Millisecond))
	if e.MaybeApplied {
		s += ", one of which may have been applied"
	}
	return s + ": " + e.Err.Error()
}

// Unwrap returns the error of the last attempt, and ErrAmbiguous where it applies.
func (e *RetryError) Unwrap() []error {
	if e.MaybeApplied {
		return []error{e.Err, ErrAmbiguous}
	}
	return []error{e.Err}
}

// WithRetry returns s with a bounded retry around every request. A retry
// repeats the very same request: the same key and the same bytes.
//
// Retried is whatever is [Retryable], as long as the caller's context lives. An
// attempt that ran into RequestTimeout is retried as well. ErrExists is returned
// as it is, also after a retry: the object may well be the caller's own, by an
// earlier attempt whose reply was lost, and only the caller can tell. When
// nothing helped, the error is a [RetryError], unless the first attempt was the
// last.
//
// A failed listing is started again; what has been yielded already is not
// yielded twice. Its bounds count from the last object that was new.
//
// Closing it closes s.
func WithRetry(s Store, o RetryOptions) Store {
	return &retried{s: s, o: o.withDefaults()}
}

type retried struct {
	s Store
	o RetryOptions
}

// attempts is the state of one request under retry.
type attempts struct {
	o     *RetryOptions
	op    Op
	key   string
	n     int       // attempts made
	start time.Time // of the first
	maybe bool      // one of them may have been applied
}

// failed takes the error of an attempt. It returns nil, after the pause, if
// there is to be another attempt, else the error for the caller.
func (a *attempts) failed(ctx context.Context, err error) error {
	a.n++
	writes := a.op == OpPutIfAbsent || a.op == OpPut || a.op == OpDelete
	a.maybe = a.maybe || writes && MaybeApplied(err)
	if fault.ConflictIsExists && errors.Is(err, ErrConflict) {
		return &Error{Op: a.op, Key: a.key, Class: ErrExists}
	}
	if errors.Is(err, ErrExists) {
		return err
	}
	if ctx.Err() != nil || !Retryable(err) || a.n >= a.o.MaxAttempts {
		return a.final(ctx, err)
	}
	pause := a.o.pause(a.n)
	if time.Since(a.start)+pause > a.o.MaxElapsed {
		return a.final(ctx, err)
	}
	if a.o.OnRetry != nil {
		a.o.OnRetry(Retry{Context: ctx, Op: a.op, Key: a.key, Attempt: a.n, Pause: pause, Err: err})
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return a.final(ctx, err)
	}
}

// final dresses the last error. The caller's own end of patience is part of it.
func (a *attempts) final(ctx context.Context, err error) error {
	if cause := ctx.Err(); cause != nil && !errors.Is(err, cause) {
		err = fmt.Errorf("%w: %w", err, cause)
	}
	if a.n == 1 && (!a.maybe || errors.Is(err, ErrAmbiguous)) {
		return err
	}
	return &RetryError{Op: a.op, Key: a.key, Attempts: a.n, Elapsed: time.Since(a.start), MaybeApplied: a.maybe, Err: err}
}

// maxTimedSize is the size in bytes from which on a request gets no more time.
const maxTimedSize = 1 << 30

// do runs one request until it succeeds or is given up. size is the number of
// bytes that it is known to move.
func do[T any](ctx context.Context, o *RetryOptions, op Op, key string, size int64, request func(context.Context) (T, error)) (T, error) {
	// A range may ask for more than there is: its length is a bound, not a size.
	timeout := o.RequestTimeout + time.Duration(min(size, maxTimedSize)>>20)*time.Second
	a := attempts{o: o, op: op, key: key, start: time.Now()}
	for {
		attempt, cancel := context.WithTimeout(ctx, timeout)
		res, err := request(attempt)
		cancel()
		if err == nil {
			return res, nil
		}
		if err := a.failed(ctx, err); err != nil {
			return res, err
		}
	}
}

func (r *retried) Get(ctx context.Context, key string) ([]byte, error) {
	return do(ctx, &r.o, OpGet, key, 0, func(ctx context.Context) ([]byte, error) {
		return r.s.Get(ctx, key)
	})
}

func (r *retried) GetRange(ctx context.Context, key string, offset, length int64) ([]byte, error) {
	return do(ctx, &r.o, OpGetRange, key, length, func(ctx context.Context) ([]byte, error) {
		return r.s.GetRange(ctx, key, offset, length)
	})
}

func (r *retried) Head(ctx context.Context, key string) (Object, error) {
	return do(ctx, &r.o, OpHead, key, 0, func(ctx context.Context) (Object, error) {
		return r.s.Head(ctx, key)
	})
}

func (r *retried) PutIfAbsent(ctx context.Context, key string, body Body) (PutResult, error) {
	return do(ctx, &r.o, OpPutIfAbsent, key, body.Len(), func(ctx context.Context) (PutResult, error) {
		return r.s.PutIfAbsent(ctx, key, body)
	})
}

func (r *retried) Put(ctx context.Context, key string, body Body) error {
	_, err := do(ctx, &r.o, OpPut, key, body.Len(), func(ctx context.Context) (struct{}, error) {
		return struct{}{}, r.s.Put(ctx, key, body)
	})
	return err
}

func (r *retried) Delete(ctx context.Context, key string) error {
	_, err := do(ctx, &r.o, OpDelete, key, 0, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, r.s.Delete(ctx, key)
	})
	return err
}

func (r *retried) Close() error { return r.s.Close() }

// List remembers the keys that it has yielded, because a listing that is
// started again after a failure may come in another order.
func (r *retried) List(ctx context.Context, prefix string) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		seen := make(map[string]struct{})
		a := attempts{o: &r.o, op: OpList, key: prefix, start: time.Now()}
		for {
			err := r.listOnce(ctx, prefix, func(o Object) bool {
				if _, again := seen[o.Key]; again {
					return true
				}
				seen[o.Key] = struct{}{}
				a.n, a.start = 0, time.Now()
				return yield(o, nil)
			})
			if err == nil {
				return
			}
			if err := a.failed(ctx, err); err != nil {
				yield(Object{}, err)
				return
			}
		}
	}
}

// listOnce runs one listing. RequestTimeout bounds the wait for each next
// object, hence for each page; the time that the consumer takes does not count. It
// returns nil as well when the consumer has had enough.
func (r *retried) listOnce(ctx context.Context, prefix string, yield func(Object) bool) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := time.AfterFunc(r.o.RequestTimeout, func() { cancel(context.DeadlineExceeded) })
	defer timer.Stop()
	for o, err := range r.s.List(ctx, prefix) {
		timer.Stop()
		if err != nil {
			if context.Cause(ctx) == context.DeadlineExceeded {
				// The listing itself knows of a cancellation only.
				return fmt.Errorf("no answer within %v: %w: %w", r.o.RequestTimeout, context.DeadlineExceeded, stripCancel{err})
			}
			return err
		}
		if !yield(o) {
			return nil
		}
		timer.Reset(r.o.RequestTimeout)
	}
	return nil
}

// stripCancel hides that the cause of an error was a cancellation of our own.
type stripCancel struct{ error }
