package objstore

import "sync"

// syncRounds runs the syncs of a folder store: for each path one at a time, and
// all who ask while it runs share the next one.
//
// Sharing saves syncs when puts run side by side. Not overlapping is what makes
// a failure count: the kernel may report a lost write to one of several syncs
// only, so a sync may not be believed that ends well after another one has
// failed but before this is known. Here whoever runs a sync makes its failure known
// before the next round starts.
type syncRounds struct {
	// mu guards the field below. It is not held during a sync.
	mu sync.Mutex
	// running has, for each path with a sync running, the round that comes
	// next: nil as long as nobody waits for it.
	running map[string]*syncRound
}

// syncRound is a sync that has not begun, and those who share it.
type syncRound struct {
	start chan struct{} // closed when the sync before it has ended
	done  chan struct{} // closed when err is set
	err   error
}

// do runs sync for path, or shares one that starts after this call.
func (r *syncRounds) do(path string, sync func() error) error {
	r.mu.Lock()
	next, busy := r.running[path]
	switch {
	case !busy:
		if r.running == nil {
			r.running = make(map[string]*syncRound)
		}
		r.running[path] = nil
		r.mu.Unlock()
		defer r.ended(path)
		return sync()
	case next != nil:
		r.mu.Unlock()
		<-next.done
		return next.err
	}
	next = &syncRound{start: make(chan struct{}), done: make(chan struct{})}
	r.running[path] = next
	r.mu.Unlock()
	<-next.start
	defer r.ended(path)
	defer close(next.done)
	next.err = sync()
	return next.err
}

// ended lets the next round of the path begin, or forgets the path.
func (r *syncRounds) ended(path string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	next := r.running[path]
	if next == nil {
		delete(r.running, path)
		return
	}
	// It runs now: whoever comes from here on waits for the one after it.
	r.running[path] = nil
	close(next.start)
}
