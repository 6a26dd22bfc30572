package flusher

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/memwal/memwal-go/dispatcher"
	"github.com/memwal/memwal-go/internal/fault"
	"github.com/memwal/memwal-go/internal/manifest"
	"github.com/memwal/memwal-go/internal/wal"
	"github.com/memwal/memwal-go/objstore"
)

// errEmptied is the reason of an append whose position is taken and yet empty:
// something stood there and was recycled.
var errEmptied = errors.New("the store says that the position is taken, but nothing is there: its object was deleted meanwhile")

// appended is the message that ends one put.
type appended struct {
	slot    *slot
	outcome outcome
	date    time.Time
	bytes   int64
	took    time.Duration
	err     error // terminal; outcome does not count then
}

// put encodes the rows of s and puts them at its position. It runs outside of
// the task, in a worker; it reads only what assign fixed in s.
func (f *WAL) put(ctx context.Context, s *slot) (done appended) {
	start := f.cfg.Now()
	done.slot = s
	defer contain(s.pos, &done.err) // a panic of told: tracers and meters are the user's
	ctx, told := f.observe(ctx, s)
	defer func() { told(done, f.cfg.Now().Sub(start)) }() // after contain
	defer contain(s.pos, &done.err)
	enc, err := wal.Encode(wal.Header{
		Epoch: f.cfg.Epoch, PutID: s.id, PrevPutID: s.prev,
		FirstRow: s.first, Generation: s.table.Generation(),
	}, f.cfg.Schema, s.batches(), nil, f.cfg.Encode)
	if err != nil {
		done.err = &AppendError{Position: s.pos, Err: err}
		return done
	}
	defer enc.Release()
	done.bytes = enc.Body.Len()
	done.outcome, done.date, done.err = f.putAt(objstore.WithCRC32C(ctx, enc.CRC32C), s.pos, s.id, enc.Body)
	done.took = f.cfg.Now().Sub(start)
	return done
}

// contain makes an error of a panic in a worker, where the task
// would not catch it and the process would end.
func contain(pos uint64, err *error) {
	if v := recover(); v != nil {
		*err = &AppendError{Position: pos, Err: &dispatcher.PanicError{Task: taskName, Value: v, Stack: debug.Stack()}}
	}
}

// checkOwner is the request of an ownership check before pos is acknowledged. It
// runs outside of the task, in a worker.
func (f *WAL) checkOwner(ctx context.Context, pos uint64) (sent time.Time, err error) {
	defer contain(pos, &err)
	sent = f.cfg.Now()
	if err := f.cfg.CheckOwner(ctx); err != nil {
		return sent, ownerError(pos, err)
	}
	f.cfg.Logger.Debug("ownership checked", "position", pos, "duration", f.cfg.Now().Sub(sent))
	return sent, nil
}

// putAt puts body at pos and resolves what "exists" means: the object is read,
// and compared by put-id. The store retries transient failures by itself, with
// the same bytes, so an own object found here is the answer to a lost reply.
func (f *WAL) putAt(ctx context.Context, pos uint64, id wal.PutID, body objstore.Body) (outcome, time.Time, error) {
	res, err := f.cfg.Store.PutIfAbsent(ctx, f.cfg.Dir+wal.Name(pos), body)
	if err == nil {
		return landed, res.Date, nil
	}
	if fault.AnyObjectIsSuccess && errors.Is(err, objstore.ErrExists) {
		return landed, res.Date, nil
	}
	if !errors.Is(err, objstore.ErrExists) {
		return inFlight, time.Time{}, &AppendError{Position: pos, Err: err}
	}
	data, err := f.cfg.Store.Get(ctx, f.cfg.Dir+wal.Name(pos))
	if errors.Is(err, objstore.ErrNotExist) {
		// Never put again: the position may have been another writer's.
		if err := f.cfg.CheckOwner(ctx); err != nil {
			return inFlight, time.Time{}, ownerError(pos, err)
		}
		return inFlight, time.Time{}, &AppendError{Position: pos, Err: errEmptied}
	}
	if err != nil {
		return inFlight, time.Time{}, &AppendError{Position: pos, Err: fmt.Errorf("read the object that holds the position: %w", err)}
	}
	h, err := wal.DecodeHeader(data)
	if err != nil {
		return inFlight, time.Time{}, &AppendError{Position: pos, Err: fmt.Errorf("read the object that holds the position: %w", err)}
	}
	switch {
	case h.PutID == id:
		return landed, time.Time{}, nil
	case h.Epoch > f.cfg.Epoch:
		return inFlight, time.Time{}, manifest.FencedBy(f.cfg.Epoch, h.Epoch)
	}
	return displaced, time.Time{}, nil
}

// ownerError tells a fence from an ownership check that could not be made.
func ownerError(pos uint64, err error) error {
	if errors.Is(err, manifest.ErrFenced) || errors.Is(err, manifest.ErrSealed) {
		return err
	}
	return &AppendError{Position: pos, Err: fmt.Errorf("check the ownership of the shard: %w", err)}
}

// batches lists the record batches of sp, lent by its memtable.
func (sp span) batches() []arrow.RecordBatch {
	recs := make([]arrow.RecordBatch, 0, sp.to-sp.from)
	for i := sp.from; i < sp.to; i++ {
		recs = append(recs, sp.table.Batch(i).Rec)
	}
	return recs
}
