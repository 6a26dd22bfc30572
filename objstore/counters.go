package objstore

import (
	"context"
	"iter"
	"sync/atomic"
)

// Counters counts the requests that pass a [WithCounters] wrapper. The zero
// value is ready; it may be shared by several stores. Where the wrapper stands
// decides what is counted: below [WithRetry] it sees every attempt (what a
// store bills), above it every call.
type Counters struct {
	get, getRange, head, list, put, putIfAbsent, del opCounter
	bytesRead, bytesWritten                          atomic.Uint64
}

type opCounter struct{ requests, errors atomic.Uint64 }

// done counts a request that has returned.
func (c *opCounter) done(err error) {
	c.requests.Add(1)
	if err != nil {
		c.errors.Add(1)
	}
}

func (c *opCounter) values() OpValues {
	return OpValues{Requests: c.requests.Load(), Errors: c.errors.Load()}
}

// OpValues are the counts of one kind of request. Errors counts the requests
// that failed for whatever reason, [ErrExists] and [ErrNotExist] included.
type OpValues struct{ Requests, Errors uint64 }

// CounterValues are the values of [Counters] at one moment. Each is exact, but
// they are not read at one instant. List counts the pages where the adapter
// tells of them, else the listings. Bytes are those of bodies, counted when the request
// succeeded.
type CounterValues struct {
	Get, GetRange, Head, List, Put, PutIfAbsent, Delete OpValues
	BytesRead, BytesWritten                             uint64
}

// Puts is the number of writing requests, conditional or not.
func (v CounterValues) Puts() uint64 { return v.Put.Requests + v.PutIfAbsent.Requests }

// Reads is the number of reading requests, listings included.
func (v CounterValues) Reads() uint64 {
	return v.Get.Requests + v.GetRange.Requests + v.Head.Requests + v.List.Requests
}

// Snapshot returns the present values.
func (c *Counters) Snapshot() CounterValues {
	return CounterValues{
		Get: c.get.values(), GetRange: c.getRange.values(), Head: c.head.values(), List: c.list.values(),
		Put: c.put.values(), PutIfAbsent: c.putIfAbsent.values(), Delete: c.del.values(),
		BytesRead: c.bytesRead.Load(), BytesWritten: c.bytesWritten.Load(),
	}
}

// WithCounters returns s with its requests counted in c. Closing it closes s.
func WithCounters(s Store, c *Counters) Store { return &counted{s: s, c: c} }

type counted struct {
	s Store
	c *Counters
}

func (s *counted) Get(ctx context.Context, key string) ([]byte, error) {
	data, err := s.s.Get(ctx, key)
	s.c.get.done(err)
	s.c.bytesRead.Add(uint64(len(data)))
	return data, err
}

func (s *counted) GetRange(ctx context.Context, key string, offset, length int64) ([]byte, error) {
	data, err := s.s.GetRange(ctx, key, offset, length)
	s.c.getRange.done(err)
	s.c.bytesRead.Add(uint64(len(data)))
	return data, err
}

func (s *counted) Head(ctx context.Context, key string) (Object, error) {
	o, err := s.s.Head(ctx, key)
	s.c.head.done(err)
	return o, err
}

func (s *counted) List(ctx context.Context, prefix string) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		pages := new(atomic.Uint64)
		defer func() { s.c.list.requests.Add(max(1, pages.Load())) }()
		for o, err := range s.s.List(withPages(ctx, pages), prefix) {
			if err != nil {
				s.c.list.errors.Add(1)
			}
			if !yield(o, err) {
				return
			}
		}
	}
}

func (s *counted) PutIfAbsent(ctx context.Context, key string, body Body) (PutResult, error) {
	res, err := s.s.PutIfAbsent(ctx, key, body)
	s.c.putIfAbsent.done(err)
	s.wrote(body, err)
	return res, err
}

func (s *counted) Put(ctx context.Context, key string, body Body) error {
	err := s.s.Put(ctx, key, body)
	s.c.put.done(err)
	s.wrote(body, err)
	return err
}

func (s *counted) wrote(body Body, err error) {
	if err == nil {
		s.c.bytesWritten.Add(uint64(body.Len()))
	}
}

func (s *counted) Delete(ctx context.Context, key string) error {
	err := s.s.Delete(ctx, key)
	s.c.del.done(err)
	return err
}

func (s *counted) Close() error { return s.s.Close() }

// pagesKey is the context key under which a listing finds the counters of its
// pages. Pages are no part of the Store interface because nobody but the bill
// cares; the context reaches the adapter through any wrapper in between.
type pagesKey struct{}

type pageCounter struct {
	n     *atomic.Uint64
	outer *pageCounter
}

func withPages(ctx context.Context, n *atomic.Uint64) context.Context {
	outer, _ := ctx.Value(pagesKey{}).(*pageCounter)
	return context.WithValue(ctx, pagesKey{}, &pageCounter{n: n, outer: outer})
}

// notePage tells whoever counts that a page of a listing was asked for.
func notePage(ctx context.Context) {
	c, _ := ctx.Value(pagesKey{}).(*pageCounter)
	for ; c != nil; c = c.outer {
		c.n.Add(1)
	}
}
