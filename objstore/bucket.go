package objstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"
)

// bucket is a Store over a bucket of the Go CDK.
type bucket struct {
	b     *blob.Bucket
	close bool
}

// NewBucket returns a store over the part of a gocloud.dev bucket below prefix
// ("" = all of it). The bucket stays the caller's to close. Its driver must keep
// the promise of WriterOptions.IfNotExist; [Probe] finds out. The Go CDK does
// not tell a request that may have been applied from one that was not, so every
// failure of a write that is not an answer counts as ambiguous.
//
// The client libraries of Google and Azure retry requests themselves, conditional
// puts included, and NewBucket does not see it. An [ErrExists] may therefore be
// about the caller's own put, whose first reply was lost, as it may be after
// [WithRetry]: read the object to know. Turn it off where the client is made.
//
// gocloud's own local folder driver neither syncs what it writes nor keeps that
// promise among processes: use [NewFolder].
func NewBucket(b *blob.Bucket, prefix string) Store { return newBucket(b, prefix, false) }

func newBucket(b *blob.Bucket, prefix string, close bool) Store {
	s := Store(&bucket{b: b, close: close})
	if p := cleanPrefix(prefix); p != "" {
		return &prefixed{s: s, prefix: p}
	}
	return s
}

func (s *bucket) Get(ctx context.Context, key string) ([]byte, error) {
	if err := checkCall(ctx, OpGet, key); err != nil {
		return nil, err
	}
	data, err := s.b.ReadAll(ctx, key)
	if err != nil {
		return nil, bucketError(OpGet, key, err)
	}
	return data, nil
}

func (s *bucket) GetRange(ctx context.Context, key string, offset, length int64) ([]byte, error) {
	if err := checkRange(key, offset, length); err != nil {
		return nil, err
	}
	if err := checkCall(ctx, OpGetRange, key); err != nil {
		return nil, err
	}
	r, err := s.b.NewRangeReader(ctx, key, offset, length, nil)
	if err != nil {
		// Drivers differ in what they say about an offset beyond the end.
		if o, herr := s.Head(ctx, key); herr == nil && offset >= o.Size {
			return nil, errBeyondEnd(key, offset, o.Size)
		}
		return nil, bucketError(OpGetRange, key, err)
	}
	defer r.Close()
	if offset >= r.Size() {
		return nil, errBeyondEnd(key, offset, r.Size())
	}
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, bucketError(OpGetRange, key, err)
	}
	return data, nil
}

func (s *bucket) Head(ctx context.Context, key string) (Object, error) {
	if err := checkCall(ctx, OpHead, key); err != nil {
		return Object{}, err
	}
	a, err := s.b.Attributes(ctx, key)
	if err != nil {
		return Object{}, bucketError(OpHead, key, err)
	}
	return Object{Key: key, Size: a.Size, Modified: a.ModTime}, nil
}

func (s *bucket) List(ctx context.Context, prefix string) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		if _, ok := prefixDir(prefix); !ok {
			return
		}
		it := s.b.List(&blob.ListOptions{Prefix: prefix})
		for {
			if err := ctx.Err(); err != nil { // not every driver looks
				yield(Object{}, &Error{Op: OpList, Key: prefix, Err: err})
				return
			}
			o, err := it.Next(ctx)
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				yield(Object{}, bucketError(OpList, prefix, err))
				return
			}
			if o.IsDir || keyFault(o.Key) != "" {
				continue
			}
			if !yield(Object{Key: o.Key, Size: o.Size, Modified: o.ModTime}, nil) {
				return
			}
		}
	}
}

func (s *bucket) PutIfAbsent(ctx context.Context, key string, body Body) (PutResult, error) {
	return PutResult{}, s.put(ctx, OpPutIfAbsent, key, body, &blob.WriterOptions{IfNotExist: true})
}

func (s *bucket) Put(ctx context.Context, key string, body Body) error {
	return s.put(ctx, OpPut, key, body, &blob.WriterOptions{})
}

func (s *bucket) put(ctx context.Context, op Op, key string, body Body, o *blob.WriterOptions) error {
	if err := checkCall(ctx, op, key); err != nil {
		return err
	}
	o.ContentType = contentType
	// A writer whose context ends before it is closed leaves no object behind.
	wctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w, err := s.b.NewWriter(wctx, key, o)
	if err != nil {
		return bucketError(op, key, err)
	}
	for _, part := range body {
		if _, err := w.Write(part); err != nil {
			cancel() // so that closing leaves nothing behind
			_ = w.Close()
			return bucketError(op, key, err)
		}
	}
	if err := w.Close(); err != nil {
		return bucketError(op, key, err)
	}
	return nil
}

func (s *bucket) Delete(ctx context.Context, key string) error {
	if err := checkCall(ctx, OpDelete, key); err != nil {
		return err
	}
	err := s.b.Delete(ctx, key)
	if err == nil || gcerrors.Code(err) == gcerrors.NotFound {
		return nil
	}
	return bucketError(OpDelete, key, err)
}

func (s *bucket) Close() error {
	if !s.close {
		return nil
	}
	if err := s.b.Close(); err != nil {
		return fmt.Errorf("objstore: close bucket: %w", err)
	}
	return nil
}

// bucketError gives an error of the Go CDK its class.
func bucketError(op Op, key string, err error) error {
	e := &Error{Op: op, Key: key, Err: err}
	write := op == OpPutIfAbsent || op == OpPut || op == OpDelete
	switch gcerrors.Code(err) {
	case gcerrors.NotFound:
		e.Class = ErrNotExist
		if write {
			e.Class = ErrUnusable // the bucket itself is missing
		}
	case gcerrors.AlreadyExists, gcerrors.FailedPrecondition:
		if op == OpPutIfAbsent {
			e.Class = ErrExists
		}
	case gcerrors.PermissionDenied:
		e.Class = ErrPermission
	case gcerrors.ResourceExhausted:
		e.Class = ErrThrottled
	case gcerrors.InvalidArgument:
		e.Class = ErrInvalid
	case gcerrors.Unimplemented:
		e.Class = ErrUnusable
	default:
		e.MaybeApplied = write
	}
	return e
}
