package objstore

import (
	"context"
	"iter"
	"time"
)

// Object describes a stored object.
type Object struct {
	Key      string
	Size     int64     // bytes
	Modified time.Time // by the store's clock
}

// PutResult is what a store says about a put that succeeded.
type PutResult struct {
	// Date is the store's clock at the reply. It is zero for stores that do
	// not tell.
	Date time.Time
}

// Reader is the reading part of a [Store].
type Reader interface {
	// Get returns the object. The caller owns the slice.
	// An absent object is [ErrNotExist].
	Get(ctx context.Context, key string) ([]byte, error)

	// GetRange returns length bytes of the object from offset on, and fewer
	// where the object ends before. The caller owns the slice. A negative
	// offset, an offset at or beyond the end of the object, or a length below
	// 1 is [ErrInvalid].
	GetRange(ctx context.Context, key string, offset, length int64) ([]byte, error)

	// Head describes the object. An absent object is [ErrNotExist]. Any other
	// error says nothing about whether the object exists.
	Head(ctx context.Context, key string) (Object, error)

	// List yields every object whose key starts with prefix ("" = all), at any
	// depth, across all pages of the store's answer, in any order. Objects
	// created or deleted meanwhile may be there or not. A failure is
	// yielded as the last element: only a listing that ended without one is
	// complete. Foreign objects are listed as well, those whose keys this
	// package would refuse are not. The sequence may be iterated more than
	// once; each time asks the store anew.
	List(ctx context.Context, prefix string) iter.Seq2[Object, error]
}

// Writer is the part of a [Store] that everyone may be handed who writes to a
// log. It cannot delete.
type Writer interface {
	Reader

	// PutIfAbsent creates the object, unless one exists at that key: then the
	// error is [ErrExists], and the object is as durable as after an own put.
	// The object appears whole or not at all, and once
	// PutIfAbsent has returned without an error it is durable.
	//
	// ErrExists is not yet a conflict: an earlier attempt of the same caller
	// may have been applied. After any error for which [MaybeApplied]
	// is true the object may exist, or appear later.
	PutIfAbsent(ctx context.Context, key string, body Body) (PutResult, error)

	// Put creates or replaces the object. Of several concurrent puts any may
	// win. It is for hints only: nothing that must be right may rest on it.
	Put(ctx context.Context, key string, body Body) error
}

// Store is an object store.
type Store interface {
	Writer

	// Delete deletes the object. An absent object is no error.
	Delete(ctx context.Context, key string) error

	// Close releases what the store holds, such as idle connections.
	Close() error
}

// Op names a kind of request.
type Op string

// The kinds of requests, one for each method.
const (
	OpGet         Op = "get"
	OpGetRange    Op = "get-range"
	OpHead        Op = "head"
	OpList        Op = "list"
	OpPutIfAbsent Op = "put-if-absent"
	OpPut         Op = "put"
	OpDelete      Op = "delete"
)
