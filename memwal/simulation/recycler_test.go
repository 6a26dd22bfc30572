package simulation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/memwal/memwal-go/internal/fault"
	"github.com/memwal/memwal-go/internal/manifest"
	"github.com/memwal/memwal-go/internal/wal"
	"github.com/memwal/memwal-go/objstore"
)

// recycler is a process that deletes what is needed no more, by the rules of
// the package documentation. It makes a pass at a time, and may stall in the middle of one
// like everybody.
type recycler struct {
	io   *link
	busy bool
}

func (r *run) stepRecycler() {
	j := r.recycler
	if j.busy {
		r.release(j.io, 5)
		return
	}
	if r.rand.IntN(20) == 0 {
		j.io = r.connect("J")
	}
	j.busy = true
	r.trace.add("J looks for what it can recycle")
	io := j.io
	r.call(func() func() {
		done := counts{}
		err := r.recycle(r.ctx, io, done)
		return func() {
			j.busy = false
			r.met.add(done)
			r.trace.add("J: %s", short(err))
			if err != nil {
				r.explained(io, false, "recycle", err)
			}
		}
	})
}

// found is an object of the log that a recycler has listed.
type found struct {
	key      string
	pos      uint64
	written  time.Time
	live     bool
	isFence  bool
	newFence time.Time // when the first fence above it was written; zero: none is there
}

// recycle makes a pass: below the floor, live entries at once, fences once they
// have been kept long enough, and dead entries so long after the fence above them.
func (r *run) recycle(ctx context.Context, io *link, done counts) error {
	store := objstore.WithRetry(io, r.base.Retry)
	m, err := manifest.New(store, manifestDir, &manifest.Options{Rand: r.base.Retry.Rand}).Newest(ctx)
	if err != nil || m == nil {
		return err
	}
	floor, keep := m.RecycleFloor(), m.FenceRetention
	if floor > 0 {
		objects, err := r.survey(ctx, store)
		if err != nil {
			return err
		}
		// The boundary before the first delete: whoever finds a position empty learns
		// by it that it was not the end.
		boundary := objstore.Body{[]byte("boundary")}
		if _, err := store.PutIfAbsent(ctx, fmt.Sprintf("%s%020d", boundaryDir, floor), boundary); err != nil && !errors.Is(err, objstore.ErrExists) {
			return err
		}
		for _, o := range objects {
			if o.pos > floor || !o.garbage(time.Now(), keep) {
				continue
			}
			if err := store.Delete(ctx, o.key); err != nil {
				return err
			}
			switch {
			case o.isFence:
				done["recycled fences"]++
			case o.live:
				done["recycled entries"]++
			default:
				done["recycled dead entries"]++
			}
		}
	}
	return recycleManifests(ctx, store, m, done)
}

func (o found) garbage(now time.Time, keep time.Duration) bool {
	switch {
	case o.isFence:
		return now.Sub(o.written) > keep
	case o.live || fault.RecycleDeadAtOnce:
		return true
	}
	return now.Sub(o.written) > keep && (o.newFence.IsZero() || now.Sub(o.newFence) > keep)
}

// survey lists the log and judges what is there.
func (r *run) survey(ctx context.Context, store objstore.Store) ([]found, error) {
	var all []found
	for o, err := range store.List(ctx, walDir) {
		if err != nil {
			return nil, err
		}
		pos, ok := wal.ParseName(strings.TrimPrefix(o.Key, walDir))
		if !ok {
			continue
		}
		data, err := r.disk.Get(ctx, o.Key) // its header; one more request would prove nothing here
		if errors.Is(err, objstore.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		h, err := wal.DecodeHeader(data)
		if err != nil {
			return nil, err
		}
		all = append(all, found{key: o.Key, pos: pos, written: o.Modified, live: r.oracle.isLive(pos, h.PutID), isFence: h.Fence})
	}
	slices.SortFunc(all, func(a, b found) int { return cmp.Compare(a.pos, b.pos) })
	var fence time.Time
	for i := len(all) - 1; i >= 0; i-- {
		all[i].newFence = fence
		if all[i].isFence {
			fence = all[i].written
		}
	}
	return all, nil
}

// recycleManifests deletes versions that are old enough, oldest first, and never
// the newest.
func recycleManifests(ctx context.Context, store objstore.Store, newest *manifest.Manifest, done counts) error {
	type version struct {
		objstore.Object
		v uint64
	}
	var all []version
	for o, err := range store.List(ctx, manifestDir) {
		if err != nil {
			return err
		}
		if v, ok := manifest.ParseName(strings.TrimPrefix(o.Key, manifestDir)); ok && v < newest.Version {
			all = append(all, version{o, v})
		}
	}
	slices.SortFunc(all, func(a, b version) int { return cmp.Compare(a.v, b.v) })
	for _, o := range all {
		if time.Since(o.Modified) <= newest.FenceRetention {
			return nil
		}
		if err := store.Delete(ctx, o.Key); err != nil {
			return err
		}
		done["recycled manifests"]++
	}
	return nil
}
