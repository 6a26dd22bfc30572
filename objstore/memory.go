package objstore

import (
	"bytes"
	"context"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"
)

// memory is a Store in a map.
type memory struct {
	// mu guards the fields below. It is held for map operations only; contents
	// are immutable once they are in the map.
	mu      sync.RWMutex
	objects map[string]memoryObject
}

type memoryObject struct {
	data     []byte
	modified time.Time
}

// NewMemory returns an empty store in memory. Its contents are gone when the
// last reference to it is. Its clock is that of the process. Listings come in
// the order of the keys, so that whatever is simulated on top is reproducible.
func NewMemory() Store {
	return &memory{objects: make(map[string]memoryObject)}
}

func (m *memory) lookup(ctx context.Context, op Op, key string) (memoryObject, error) {
	if err := checkCall(ctx, op, key); err != nil {
		return memoryObject{}, err
	}
	m.mu.RLock()
	o, ok := m.objects[key]
	m.mu.RUnlock()
	if !ok {
		return memoryObject{}, &Error{Op: op, Key: key, Class: ErrNotExist}
	}
	return o, nil
}

func (m *memory) Get(ctx context.Context, key string) ([]byte, error) {
	o, err := m.lookup(ctx, OpGet, key)
	if err != nil {
		return nil, err
	}
	return cloneBytes(o.data), nil
}

func (m *memory) GetRange(ctx context.Context, key string, offset, length int64) ([]byte, error) {
	if err := checkRange(key, offset, length); err != nil {
		return nil, err
	}
	o, err := m.lookup(ctx, OpGetRange, key)
	if err != nil {
		return nil, err
	}
	size := int64(len(o.data))
	if offset >= size {
		return nil, errBeyondEnd(key, offset, size)
	}
	return cloneBytes(o.data[offset : offset+min(length, size-offset)]), nil
}

func (m *memory) Head(ctx context.Context, key string) (Object, error) {
	o, err := m.lookup(ctx, OpHead, key)
	if err != nil {
		return Object{}, err
	}
	return Object{Key: key, Size: int64(len(o.data)), Modified: o.modified}, nil
}

func (m *memory) List(ctx context.Context, prefix string) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		notePage(ctx)
		for _, o := range m.matching(prefix) {
			if err := ctx.Err(); err != nil {
				yield(Object{}, &Error{Op: OpList, Key: prefix, Err: err})
				return
			}
			if !yield(o, nil) {
				return
			}
		}
		if err := ctx.Err(); err != nil {
			yield(Object{}, &Error{Op: OpList, Key: prefix, Err: err})
		}
	}
}

// matching returns the objects below prefix in the order of their keys.
func (m *memory) matching(prefix string) []Object {
	m.mu.RLock()
	var found []Object
	for key, o := range m.objects {
		if strings.HasPrefix(key, prefix) {
			found = append(found, Object{Key: key, Size: int64(len(o.data)), Modified: o.modified})
		}
	}
	m.mu.RUnlock()
	slices.SortFunc(found, func(a, b Object) int { return strings.Compare(a.Key, b.Key) })
	return found
}

func (m *memory) PutIfAbsent(ctx context.Context, key string, body Body) (PutResult, error) {
	return m.put(ctx, OpPutIfAbsent, key, body)
}

func (m *memory) Put(ctx context.Context, key string, body Body) error {
	_, err := m.put(ctx, OpPut, key, body)
	return err
}

func (m *memory) put(ctx context.Context, op Op, key string, body Body) (PutResult, error) {
	if err := checkCall(ctx, op, key); err != nil {
		return PutResult{}, err
	}
	o := memoryObject{data: body.Bytes(), modified: time.Now()}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, taken := m.objects[key]; taken && op == OpPutIfAbsent {
		return PutResult{}, &Error{Op: op, Key: key, Class: ErrExists}
	}
	m.objects[key] = o
	return PutResult{Date: o.modified}, nil
}

func (m *memory) Delete(ctx context.Context, key string) error {
	if err := checkCall(ctx, OpDelete, key); err != nil {
		return err
	}
	m.mu.Lock()
	delete(m.objects, key)
	m.mu.Unlock()
	return nil
}

func (m *memory) Close() error { return nil }

// cloneBytes copies b without the spare capacity that callers might write to;
// an empty object is an empty slice, never nil.
func cloneBytes(b []byte) []byte {
	if len(b) == 0 {
		return []byte{}
	}
	return bytes.Clone(b)
}
