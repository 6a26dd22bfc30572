package faultstore

import (
	"cmp"
	"context"
	"errors"
	"iter"

	"github.com/memwal/memwal-go/objstore"
)

var _ objstore.Store = (*Store)(nil)

// Get implements objstore.Store.
func (s *Store) Get(ctx context.Context, key string) ([]byte, error) {
	return s.read(ctx, objstore.OpGet, key, func(ctx context.Context) ([]byte, error) {
		return s.inner.Get(ctx, key)
	})
}

// GetRange implements objstore.Store.
func (s *Store) GetRange(ctx context.Context, key string, offset, length int64) ([]byte, error) {
	return s.read(ctx, objstore.OpGetRange, key, func(ctx context.Context) ([]byte, error) {
		return s.inner.GetRange(ctx, key, offset, length)
	})
}

func (s *Store) read(ctx context.Context, op objstore.Op, key string, get func(context.Context) ([]byte, error)) ([]byte, error) {
	c := s.begin(op, key, 0)
	data, err := run(ctx, c, func(ctx context.Context) ([]byte, error) {
		data, err := get(ctx)
		if err == nil {
			err = sleep(ctx, c.latency.transfer(int64(len(data))))
		}
		return data, err
	})
	if err != nil {
		return nil, err
	}
	if cut := min(c.plan.Truncate, len(data)); cut > 0 {
		s.count(FaultTruncate)
		data = data[:len(data)-cut]
	}
	return data, nil
}

// Head implements objstore.Store.
func (s *Store) Head(ctx context.Context, key string) (objstore.Object, error) {
	return run(ctx, s.begin(objstore.OpHead, key, 0), func(ctx context.Context) (objstore.Object, error) {
		return s.inner.Head(ctx, key)
	})
}

// List implements objstore.Store. After ends the listing with its error when
// everything else has been yielded.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[objstore.Object, error] {
	return func(yield func(objstore.Object, error) bool) {
		c := s.begin(objstore.OpList, prefix, 0)
		if err := c.reach(ctx); err != nil {
			yield(objstore.Object{}, c.end(err))
			return
		}
		var failed error
		for o, err := range c.listed(s.inner.List(ctx, prefix)) {
			if err != nil {
				failed = err
				break
			}
			if !yield(o, nil) {
				_ = c.end(nil)
				return
			}
		}
		if err := c.end(c.applied(ctx, failed)); err != nil {
			yield(objstore.Object{}, err)
		}
	}
}

// PutIfAbsent implements objstore.Store.
func (s *Store) PutIfAbsent(ctx context.Context, key string, body objstore.Body) (objstore.PutResult, error) {
	c := s.begin(objstore.OpPutIfAbsent, key, body.Len())
	body = c.own(body)
	return write(ctx, c, func(ctx context.Context) (objstore.PutResult, error) {
		res, err := s.inner.PutIfAbsent(ctx, key, body)
		if c.plan.IgnoreCondition && errors.Is(err, objstore.ErrExists) {
			if err = s.inner.Put(ctx, key, body); err == nil {
				s.count(FaultIgnoreCondition)
			}
		}
		return res, err
	})
}

// Put implements objstore.Store.
func (s *Store) Put(ctx context.Context, key string, body objstore.Body) error {
	c := s.begin(objstore.OpPut, key, body.Len())
	body = c.own(body)
	_, err := write(ctx, c, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, s.inner.Put(ctx, key, body)
	})
	return err
}

// Delete implements objstore.Store.
func (s *Store) Delete(ctx context.Context, key string) error {
	_, err := write(ctx, s.begin(objstore.OpDelete, key, 0), func(ctx context.Context) (struct{}, error) {
		return struct{}{}, s.inner.Delete(ctx, key)
	})
	return err
}

// own returns a body that stays valid after the caller has its reply.
func (c *call) own(body objstore.Body) objstore.Body {
	if !c.plan.Detach && c.plan.Late == 0 {
		return body
	}
	return objstore.Body{body.Bytes()}
}

// run carries out a request in its caller's time.
func run[T any](ctx context.Context, c *call, inner func(context.Context) (T, error)) (T, error) {
	res, err := steps(ctx, c, inner)
	return res, c.end(err)
}

// write carries out a request that may be duplicated and may outlive its caller.
func write[T any](ctx context.Context, c *call, inner func(context.Context) (T, error)) (T, error) {
	apply := inner
	if c.plan.Duplicate {
		apply = func(ctx context.Context) (T, error) {
			res, err := inner(ctx)
			c.s.count(FaultDuplicate)
			_, _ = inner(ctx) // nobody hears the second reply
			return res, err
		}
	}
	var none T
	if err := ctx.Err(); err != nil { // it is never sent
		return none, c.end(err)
	}
	if c.plan.Before != nil {
		c.plan.Late = 0
	}
	if !c.plan.Detach && c.plan.Late == 0 {
		return run(ctx, c, apply)
	}
	type reply struct {
		res T
		err error
	}
	replies := make(chan reply, 1)
	c.gone = c.plan.Late > 0
	c.s.detached.Go(func() {
		ctx := context.WithoutCancel(ctx)
		_ = sleep(ctx, c.plan.Late) // nothing ends it
		res, err := steps(ctx, c, apply)
		replies <- reply{res, err}
	})
	if c.plan.Late > 0 {
		return none, c.end(cmp.Or(c.plan.After, errLate))
	}
	select {
	case r := <-replies:
		return r.res, c.end(r.err)
	case <-ctx.Done():
	}
	select { // a reply that is there is taken, or chance would decide
	case r := <-replies:
		return r.res, c.end(r.err)
	default:
	}
	c.s.mu.Lock()
	c.gone = true
	c.s.mu.Unlock()
	return none, c.end(ctx.Err())
}

// steps takes a request through its steps.
func steps[T any](ctx context.Context, c *call, inner func(context.Context) (T, error)) (T, error) {
	var none T
	if err := c.reach(ctx); err != nil {
		return none, err
	}
	res, err := inner(ctx)
	if err := c.applied(ctx, err); err != nil {
		return none, err
	}
	return res, nil
}
