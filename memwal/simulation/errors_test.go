package simulation

import (
	"context"
	"errors"

	"github.com/memwal/memwal-go/memwal"
	"github.com/memwal/memwal-go/objstore"
	"github.com/memwal/memwal-go/objstore/faultstore"
)

// explained fails the run for an error that nothing in it explains. rival says whether
// somebody has claimed the shard whom the caller must give way to.
func (r *run) explained(io *link, rival bool, op string, err error, also ...error) {
	if errors.Is(err, memwal.ErrFenced) {
		r.met["fenced calls"]++
	}
	if rival {
		also = append(also, memwal.ErrFenced)
	}
	if r.oracle.wasSealed() {
		also = append(also, memwal.ErrSealed)
	}
	if io.ended {
		also = append(also, memwal.ErrAborted, memwal.ErrClosed, context.Canceled)
	}
	for _, ok := range append(also, context.DeadlineExceeded, faultstore.ErrInjected, objstore.ErrAmbiguous) {
		if errors.Is(err, ok) {
			return
		}
	}
	if _, ok := errors.AsType[*objstore.RetryError](err); ok || io.lies {
		return // it ran into timeouts; or it was told something that is not so
	}
	r.fail("%s: %v", op, err)
}

// classes are the errors that the trace tells apart: those that every run of a seed has.
var classes = []struct {
	name string
	err  error
}{
	{"fenced", memwal.ErrFenced}, {"sealed", memwal.ErrSealed}, {"ended", memwal.ErrAborted}, {"ended", memwal.ErrClosed},
	{"hole", memwal.ErrHole}, {"corrupt", memwal.ErrCorrupt}, {"truncated", memwal.ErrLogTruncated}, {"invalid", memwal.ErrInvalid},
	{"ended", context.Canceled}, // whichever is noticed first
	{"exists", objstore.ErrExists}, {"absent", objstore.ErrNotExist},
}

func short(err error) string {
	if err == nil {
		return "ok"
	}
	for _, c := range classes {
		if errors.Is(err, c.err) {
			return c.name
		}
	}
	return "failed"
}
