package memwal

import (
	"context"
	"errors"
	"iter"
	"strings"
	"sync"
	"time"

	"github.com/memwal/memwal-go/objstore"
)

// errTransient is a failure that is retried.
var errTransient = &objstore.Error{Op: "test", Class: objstore.ErrThrottled, Err: errors.New("injected")}

// testStore wraps a store: it logs requests and lets rules act on them.
//
//	s := newTestStore()
//	undo := s.on(objstore.OpPutIfAbsent, "/wal/", 2, failBefore(errTransient)) // the next two
//	do, release := hold()
//	s.on(objstore.OpPutIfAbsent, "/wal/", always, do)
type testStore struct {
	inner objstore.Store
	mu    struct {
		sync.Mutex
		rules []*storeRule
		log   []request
	}
}

// request is one that has returned.
type request struct {
	op  objstore.Op
	key string
	sum uint32 // checksum of the body of a put
	err error
	at  time.Time // when it came in
}

// action does something with a request; apply lets the store do it. It may be
// called several times, or not at all. A put is applied even if ctx has ended by
// then: it was on the wire.
type action func(ctx context.Context, apply func() error) error

// always is the number of times of a rule that is not used up.
const always = -1

type storeRule struct {
	op    objstore.Op
	part  string
	times int
	do    action
}

// newTestStore wraps a new store in memory.
func newTestStore() *testStore { return &testStore{inner: objstore.NewMemory()} }

// on makes the next requests of kind op ("": of any) whose key contains part go through do,
// as many times as told. Of several rules that match, the first that is not
// used up counts. The returned function removes the rule.
func (s *testStore) on(op objstore.Op, part string, times int, do action) (remove func()) {
	r := &storeRule{op, part, times, do}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.rules = append(s.mu.rules, r)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		r.times = 0
	}
}

// hold keeps requests from reaching the store until release is called, or their
// context ends.
func hold() (do action, release func()) {
	ch := make(chan struct{})
	return func(ctx context.Context, apply func() error) error {
		select {
		case <-ch:
			return apply()
		case <-ctx.Done():
			return ctx.Err()
		}
	}, sync.OnceFunc(func() { close(ch) })
}

// delay makes requests take a time before they are applied.
func delay(d time.Duration) action {
	return func(ctx context.Context, apply func() error) error {
		select {
		case <-time.After(d):
			return apply()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// failBefore fails requests without applying them.
func failBefore(err error) action {
	return func(context.Context, func() error) error { return err }
}

// failAfter applies requests and then loses the reply.
func failAfter(err error) action {
	return func(_ context.Context, apply func() error) error {
		_ = apply()
		return err
	}
}

// requests lists those of kind op whose key contains part, in the order in
// which they returned.
func (s *testStore) requests(op objstore.Op, part string) []request {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []request
	for _, r := range s.mu.log {
		if r.op == op && strings.Contains(r.key, part) {
			found = append(found, r)
		}
	}
	return found
}

// count is the number of such requests.
func (s *testStore) count(op objstore.Op, part string) int { return len(s.requests(op, part)) }

// keys lists the keys that contain part.
func (s *testStore) keys(part string) []string {
	var keys []string
	for o, err := range s.inner.List(context.Background(), "") {
		if err == nil && strings.Contains(o.Key, part) {
			keys = append(keys, o.Key)
		}
	}
	return keys
}

func (s *testStore) do(ctx context.Context, r request, apply func() error) error {
	r.at = time.Now()
	do := action(func(ctx context.Context, apply func() error) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		return apply()
	})
	s.mu.Lock()
	for _, rule := range s.mu.rules {
		if rule.times != 0 && (rule.op == "" || rule.op == r.op) && strings.Contains(r.key, rule.part) {
			if rule.times > 0 {
				rule.times--
			}
			do = rule.do
			break
		}
	}
	s.mu.Unlock()
	r.err = do(ctx, apply)
	s.mu.Lock()
	s.mu.log = append(s.mu.log, r)
	s.mu.Unlock()
	return r.err
}

func (s *testStore) Get(ctx context.Context, key string) (data []byte, err error) {
	err = s.do(ctx, request{op: objstore.OpGet, key: key}, func() (err error) {
		data, err = s.inner.Get(ctx, key)
		return err
	})
	return data, err
}

func (s *testStore) GetRange(ctx context.Context, key string, offset, length int64) (data []byte, err error) {
	err = s.do(ctx, request{op: objstore.OpGetRange, key: key}, func() (err error) {
		data, err = s.inner.GetRange(ctx, key, offset, length)
		return err
	})
	return data, err
}

func (s *testStore) Head(ctx context.Context, key string) (o objstore.Object, err error) {
	err = s.do(ctx, request{op: objstore.OpHead, key: key}, func() (err error) {
		o, err = s.inner.Head(ctx, key)
		return err
	})
	return o, err
}

// List lists at once and yields afterwards.
func (s *testStore) List(ctx context.Context, prefix string) iter.Seq2[objstore.Object, error] {
	return func(yield func(objstore.Object, error) bool) {
		var found []objstore.Object
		err := s.do(ctx, request{op: objstore.OpList, key: prefix}, func() error {
			found = nil
			for o, err := range s.inner.List(ctx, prefix) {
				if err != nil {
					return err
				}
				found = append(found, o)
			}
			return nil
		})
		for _, o := range found {
			if !yield(o, nil) {
				return
			}
		}
		if err != nil {
			yield(objstore.Object{}, err)
		}
	}
}

func (s *testStore) PutIfAbsent(ctx context.Context, key string, body objstore.Body) (res objstore.PutResult, err error) {
	err = s.do(ctx, request{op: objstore.OpPutIfAbsent, key: key, sum: body.CRC32C()}, func() (err error) {
		res, err = s.inner.PutIfAbsent(context.WithoutCancel(ctx), key, body)
		return err
	})
	return res, err
}

func (s *testStore) Put(ctx context.Context, key string, body objstore.Body) error {
	return s.do(ctx, request{op: objstore.OpPut, key: key, sum: body.CRC32C()}, func() error {
		return s.inner.Put(context.WithoutCancel(ctx), key, body)
	})
}

func (s *testStore) Delete(ctx context.Context, key string) error {
	return s.do(ctx, request{op: objstore.OpDelete, key: key}, func() error { return s.inner.Delete(ctx, key) })
}

func (s *testStore) Close() error { return s.inner.Close() }
