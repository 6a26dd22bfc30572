package memwal

import (
	"context"
	"errors"
	"iter"
	"time"
)

// Follow waits for new rows: it refreshes the reader again and again, and yields a
// snapshot whenever there are rows with the ordinal from or above that it has not
// shown. The snapshot is lent until the next step.
//
//	for s, err := range r.Follow(ctx, next) {
//		if err != nil {
//			return err
//		}
//		for rec, err := range s.All(ctx, memwal.ScanOptions{From: next}) { … }
//		next = s.Bound()
//	}
//
// This is no change feed: a scan from a bound on shows the rows whose newest version
// is new. Versions that were replaced in between do not appear, and deletes only in
// what Lookup says.
//
// It looks about every PollInterval while rows keep coming, and less and less
// often, up to MaxPollInterval, while there are none. An error is yielded with a
// nil snapshot; who goes on after an error of the store has it tried again. The
// sequence ends with ctx, which is no error, and after an error that stays:
// ErrClosed, ErrLogTruncated, ErrAdopted, ErrReaderFull, and those of a damaged log.
//
// It may be used several times at once; each costs its own requests.
func (r *Reader) Follow(ctx context.Context, from uint64) iter.Seq2[*Snapshot, error] {
	return func(yield func(*Snapshot, error) bool) {
		pause := r.opts.PollInterval
		for {
			err := r.Refresh(ctx)
			if ctx.Err() != nil {
				return
			}
			if r.Bound() > from {
				s, closed := r.Snapshot()
				if closed != nil {
					yield(nil, closed)
					return
				}
				from, pause = s.Bound(), r.opts.PollInterval
				if !lend(s, yield) {
					return
				}
			}
			if err != nil && (!yield(nil, err) || !passes(err)) {
				return
			}
			if !r.sleep(ctx, pause) {
				return
			}
			pause = min(2*pause, r.opts.MaxPollInterval)
		}
	}
}

// lend yields s and closes it, also if the loop's body panics.
func lend(s *Snapshot, yield func(*Snapshot, error) bool) bool {
	defer s.Close()
	return yield(s, nil)
}

// passes tells whether another Refresh may succeed without anybody's help.
func passes(err error) bool {
	for _, stays := range []error{ErrClosed, ErrLogTruncated, ErrAdopted, ErrReaderFull, ErrHole, ErrCorrupt, ErrForeignWriter, ErrInvalid, ErrIndexFailed} {
		if errors.Is(err, stays) {
			return false
		}
	}
	_, broken := errors.AsType[*brokenError](err)
	return !broken
}

// sleep waits for three quarters of d on average, so that readers that were
// started together do not ask together. It returns false if ctx or the reader
// ends; a reader that was closed tells with its next Refresh.
func (r *Reader) sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d/2 + time.Duration(r.opts.Retry.Rand()*float64(d/2)))
	defer t.Stop()
	select {
	case <-t.C:
	case <-r.ctx.Done():
	case <-ctx.Done():
		return false
	}
	return true
}
