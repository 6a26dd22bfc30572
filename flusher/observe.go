package flusher

import (
	"context"
	"time"
)

// Append describes the put of an entry at one position, for those who trace or
// measure it.
type Append struct {
	Position uint64
	FirstRow uint64
	Rows     uint64
	Reason   string // what started it: time, size or demand
}

// AppendResult is how it ended.
type AppendResult struct {
	// Outcome is landed; displaced if a dead object holds the position, so that
	// the entry is put again above; or failed, which is terminal.
	Outcome string
	Bytes   int64         // encoded; 0 if encoding failed
	Took    time.Duration // encoding, put, retries
	Err     error         // of a failed one
}

// observe tells Config.OnAppend, if there is one, of the put of s and returns
// what its completion goes to.
func (f *WAL) observe(ctx context.Context, s *slot) (context.Context, func(appended, time.Duration)) {
	if f.cfg.OnAppend == nil {
		return ctx, func(appended, time.Duration) {}
	}
	ctx, told := f.cfg.OnAppend(ctx, Append{
		Position: s.pos, FirstRow: s.first, Rows: s.end - s.first, Reason: s.reason.String(),
	})
	return ctx, func(done appended, took time.Duration) {
		r := AppendResult{Outcome: done.outcome.String(), Bytes: done.bytes, Took: took, Err: done.err}
		if done.err != nil {
			r.Outcome = "failed"
		}
		told(r)
	}
}
