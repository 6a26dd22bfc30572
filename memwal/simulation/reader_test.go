package simulation

import (
	"context"
	"errors"

	"github.com/memwal/memwal-go/memwal"
	"github.com/memwal/memwal-go/objstore"
	"github.com/memwal/memwal-go/objstore/faultstore"
)

// reader is a process that reads.
type reader struct {
	name  string
	io    *link
	r     *memwal.Reader
	first uint64 // ordinal of the first row that it loaded
	busy  bool   // a call is under way
}

// stepReader lets a reader do something.
func (r *run) stepReader(v *reader) {
	switch n := r.rand.IntN(20); {
	case v.busy && n < 16:
		r.release(v.io, 5)
	case v.r != nil && n == 16: // also in the middle of a refresh
		r.checkReader(v)
	case v.busy:
	case v.r == nil:
		r.openReader(v)
	case n == 17:
		v.r.Close()
		v.r = nil
	default:
		r.refresh(v)
	}
}

func (r *run) openReader(v *reader) {
	v.busy = true
	o := &memwal.ReaderOptions{Retry: r.base.Retry, ReplayBytes: []int64{1, 1 << 20}[r.rand.IntN(2)]}
	least := r.oracle.acknowledged(1 << 63)
	r.trace.add("%s opens", v.name)
	r.call(func() func() {
		got, err := memwal.OpenReader(r.ctx, v.io, shard, o)
		return func() {
			v.busy = false
			r.trace.add("%s open: %s", v.name, short(err))
			if err != nil {
				if least > 0 || !errors.Is(err, objstore.ErrNotExist) {
					r.explainedRead(v, err)
				}
				return
			}
			v.r, v.first = got, got.Bound()-got.Stats().Log.Rows
			if !r.isFloor(v.first) {
				r.fail("%s loads rows from %d on, where no floor ever was", v.name, v.first)
			}
			r.checkRefreshed(v, least)
		}
	})
}

func (r *run) refresh(v *reader) {
	v.busy = true
	reader, before, least := v.r, v.r.Bound(), r.oracle.acknowledged(1<<63)
	r.trace.add("%s refreshes", v.name)
	r.call(func() func() {
		err := reader.Refresh(r.ctx)
		return func() {
			v.busy = false
			r.trace.add("%s refresh: %s, %d rows", v.name, short(err), reader.Bound())
			switch {
			case errors.Is(err, memwal.ErrLogTruncated) && reader.Stats().Position < r.oracle.maxFloor:
				r.met["readers cut off"]++
				r.checkReader(v)
				v.r.Close()
				v.r = nil
			case err != nil:
				r.explainedRead(v, err)
				r.checkReader(v)
				if v.io.lies { // what it was told may have ended it
					v.r.Close()
					v.r = nil
				}
			default:
				if reader.Bound() > before {
					r.met["refreshes with news"]++
				}
				r.checkRefreshed(v, least)
			}
		}
	})
}

// explainedRead fails the run for an error of a reader that nothing explains.
func (r *run) explainedRead(v *reader, err error) {
	_, timeout := errors.AsType[*objstore.RetryError](err)
	if !timeout && !v.io.lies && !errors.Is(err, faultstore.ErrInjected) && !errors.Is(err, context.DeadlineExceeded) {
		r.fail("%s: %v", v.name, err)
	}
}

func (r *run) checkRefreshed(v *reader, least uint64) {
	if got := v.r.Bound(); got < least && !v.io.lies {
		r.fail("%s shows %d rows after a refresh, %d were acknowledged before", v.name, got, least)
	}
	r.checkReader(v)
}

func (r *run) checkReader(v *reader) {
	s, err := v.r.Snapshot()
	if err != nil {
		r.fail("%s: snapshot: %v", v.name, err)
		return
	}
	defer s.Close()
	r.must(r.oracle.checkSnapshot(s, v.first, r.keyed))
}

// finishReader refreshes a reader once more, in peace.
func (r *run) finishReader(v *reader) {
	if v.r == nil || r.failed != "" {
		return
	}
	defer v.r.Close()
	err := v.r.Refresh(r.ctx)
	if errors.Is(err, memwal.ErrLogTruncated) && v.r.Stats().Position < r.oracle.maxFloor {
		r.checkReader(v)
		return
	}
	if err != nil {
		r.fail("%s: last refresh: %v", v.name, err)
		return
	}
	r.checkRefreshed(v, r.oracle.acknowledged(1<<63))
}
