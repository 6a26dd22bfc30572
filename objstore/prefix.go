package objstore

import (
	"context"
	"errors"
	"iter"
	"strings"
)

// Prefix returns a view of the part of s whose keys start with prefix and a
// slash. Keys going in and coming out are relative to it. An empty prefix is the
// whole of s. Closing the view does nothing: s may have other views.
//
// Errors keep the full key in their text where the store put it there.
func Prefix(s Store, prefix string) Store {
	return &prefixed{s: s, prefix: cleanPrefix(prefix)}
}

// cleanPrefix returns prefix without outer slashes and with one at the end,
// unless it is empty.
func cleanPrefix(prefix string) string {
	if prefix = strings.Trim(prefix, "/"); prefix == "" {
		return ""
	}
	return prefix + "/"
}

// prefixed checks every key itself: the store below would not see that one
// starts with a slash or is empty, now that the prefix stands before it.
type prefixed struct {
	s      Store
	prefix string
}

func (p *prefixed) Get(ctx context.Context, key string) ([]byte, error) {
	if err := checkOp(OpGet, key); err != nil {
		return nil, err
	}
	return p.s.Get(ctx, p.prefix+key)
}

func (p *prefixed) GetRange(ctx context.Context, key string, offset, length int64) ([]byte, error) {
	if err := checkOp(OpGetRange, key); err != nil {
		return nil, err
	}
	return p.s.GetRange(ctx, p.prefix+key, offset, length)
}

func (p *prefixed) Head(ctx context.Context, key string) (Object, error) {
	if err := checkOp(OpHead, key); err != nil {
		return Object{}, err
	}
	o, err := p.s.Head(ctx, p.prefix+key)
	if err != nil {
		return Object{}, err
	}
	o.Key = key
	return o, nil
}

func (p *prefixed) List(ctx context.Context, prefix string) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		for o, err := range p.s.List(ctx, p.prefix+prefix) {
			if err != nil {
				yield(Object{}, err)
				return
			}
			key, ok := strings.CutPrefix(o.Key, p.prefix)
			if !ok {
				yield(Object{}, &Error{Op: OpList, Key: p.prefix + prefix, Err: errors.New("the store listed " + o.Key)})
				return
			}
			o.Key = key
			if !yield(o, nil) {
				return
			}
		}
	}
}

func (p *prefixed) PutIfAbsent(ctx context.Context, key string, body Body) (PutResult, error) {
	if err := checkOp(OpPutIfAbsent, key); err != nil {
		return PutResult{}, err
	}
	return p.s.PutIfAbsent(ctx, p.prefix+key, body)
}

func (p *prefixed) Put(ctx context.Context, key string, body Body) error {
	if err := checkOp(OpPut, key); err != nil {
		return err
	}
	return p.s.Put(ctx, p.prefix+key, body)
}

func (p *prefixed) Delete(ctx context.Context, key string) error {
	if err := checkOp(OpDelete, key); err != nil {
		return err
	}
	return p.s.Delete(ctx, p.prefix+key)
}

func (p *prefixed) Close() error { return nil }
