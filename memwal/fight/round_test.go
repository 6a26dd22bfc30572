//go:build unix

package fight

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/memwal/memwal-go/memwal"
	"github.com/memwal/memwal-go/objstore"
)

// arena is where fights over one store take place.
type arena struct {
	t     testing.TB
	url   string
	store objstore.Store // the parent's way to it
	dir   string         // for files
	clock clock
	path  string // of the clock's file
	seed  uint64
}

func newArena(t testing.TB, url string, seed uint64) *arena {
	t.Helper()
	a := &arena{t: t, url: url, dir: t.TempDir(), seed: seed}
	a.path = a.dir + "/clock"
	err := newClockFile(a.path)
	if err == nil {
		a.clock, err = openClock(a.path)
	}
	if err == nil {
		a.store, err = objstore.Open(t.Context(), url)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.store.Close() })
	return a
}

// job returns what every child of the arena is told.
func (a *arena) job(role string, shard uuid.UUID, o tuning) job {
	n := processes.Add(1)
	return job{
		Role: role, URL: a.url, Shard: shard, Clock: a.path,
		Process: int(n), Seed: mix(a.seed) ^ mix(uint64(n)), Options: o,
	}
}

// calm is a tuning without surprises, which keeps as many puts in flight as it may.
func calm() tuning {
	return tuning{
		FlushInterval: 5 * time.Millisecond, FlushBytes: 1, MaxEntryBytes: 1, MaxInFlight: 4,
		MaxMemtableRows: 1000, MaxMemtableBatches: 1000, RequestTimeout: 2 * time.Second, MaxAttempts: 5,
		Pause: 5 * time.Millisecond, Async: true,
	}
}

// drawn is a tuning by chance.
func drawn(r *rand.Rand) tuning {
	pick := func(n ...int64) int64 { return n[r.IntN(len(n))] }
	return tuning{
		FlushInterval:      time.Duration(pick(5, 8, 10)) * time.Millisecond,
		FlushBytes:         pick(1, 1, 500, 1<<20),
		MaxEntryBytes:      pick(1, 1000, 1<<20),
		MaxInFlight:        int(pick(2, 4, 8)),
		MaxMemtableRows:    pick(100, 500),
		MaxMemtableBatches: int(pick(50, 1<<20)),
		Compression:        []memwal.Compression{memwal.CompressionNone, memwal.CompressionLZ4, memwal.CompressionZstd}[r.IntN(3)],
		RequestTimeout:     time.Duration(pick(1000, 2000)) * time.Millisecond,
		MaxAttempts:        int(pick(2, 3, 5)),
		Pause:              time.Duration(pick(5, 10, 20)) * time.Millisecond,
		Async:              r.IntN(2) == 0,
	}
}

// round is one fight for one shard.
type round struct {
	*arena
	shard  uuid.UUID
	keyed  bool
	slots  int
	tuning tuning
	over   chan struct{} // closed when the time is up

	mu     sync.Mutex
	opened chan struct{} // closed and replaced when an Open has returned
	events []event
	stops  []stopped
	gone   []*process // all that ever were
	ways   []*proxy   // theirs
	found  []finding
	tally  tally
}

// stopped is a stop by SIGSTOP: the process did nothing between the two moments.
type stopped struct {
	process  int
	from, to moment
	lasted   time.Duration
}

func (r *round) String() string {
	return fmt.Sprintf("%d writers, primary key: %t, %+v", r.slots, r.keyed, r.tuning)
}

func (r *round) take(e event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
	if e.Kind == opened {
		close(r.opened)
		r.opened = make(chan struct{})
	}
}

// releaseLater lets go of the requests of a process that is dead or asleep: when
// another one has opened the shard, or at any time.
func (r *round) releaseLater(way *proxy, x *rand.Rand) {
	r.mu.Lock()
	opened := r.opened
	r.mu.Unlock()
	// Right after an open the positions above the fence are still empty.
	most, then := between(x, 100, 3000), between(x, 0, 1+x.IntN(2)*50)
	go func() {
		select {
		case <-opened:
			r.rest(then)
		case <-time.After(most):
		case <-r.over:
		}
		way.release()
	}()
}

func (r *round) fail(id, format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.found = append(r.found, finding{id, fmt.Sprintf(format, args...)})
}

func (r *round) count(f func(*tally)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f(&r.tally)
}

// fightOn runs the round for d, and judges it.
func (r *round) fightOn(d time.Duration) {
	time.AfterFunc(d, func() { close(r.over) })
	var slots sync.WaitGroup
	for slot := range r.slots {
		slots.Go(func() { r.writer(rand.New(rand.NewPCG(r.seed, uint64(slot)))) })
	}
	slots.Go(func() { r.reader(rand.New(rand.NewPCG(r.seed, 100))) })
	w := newWitness(r.store, r.shard)
	slots.Go(func() {
		for !r.isOver() {
			r.rest(200 * time.Millisecond)
			if err := w.look(context.Background()); err != nil {
				r.fail("harness", "watch the objects: %v", err)
				return
			}
		}
	})
	slots.Wait()
	r.judge(w)
}

func (r *round) isOver() bool {
	select {
	case <-r.over:
		return true
	default:
		return false
	}
}

func (r *round) rest(d time.Duration) {
	select {
	case <-time.After(d):
	case <-r.over:
	}
}

// between draws a duration in milliseconds.
func between(r *rand.Rand, from, to int) time.Duration {
	return time.Duration(from+r.IntN(to-from)) * time.Millisecond
}

// start starts a child of the round. A proxy, if the store allows one, is its
// own.
func (r *round) start(role string, x *rand.Rand) (*process, *proxy) {
	j := r.job(role, r.shard, r.tuning)
	j.Keyed = r.keyed
	var way *proxy
	if canProxy(r.url) {
		way, j.URL = throughProxy(r.t, r.url, x.Uint64())
	}
	p, err := start(r.dir, j, r.take)
	if err != nil {
		r.fail("harness", "start a child: %v", err)
		return nil, nil
	}
	r.mu.Lock()
	r.gone = append(r.gone, p)
	if way != nil {
		r.ways = append(r.ways, way)
	}
	r.mu.Unlock()
	r.t.Cleanup(func() { // in case that the test panics: nobody stays
		p.kill()
		<-p.exited
	})
	return p, way
}

// stop stops p for d, at least.
func (r *round) stop(p *process, d time.Duration) {
	if !p.halt() {
		return
	}
	began := time.Now()
	from := r.clock.now()
	r.rest(d)
	s := stopped{process: p.Process, from: from, to: r.clock.now(), lasted: time.Since(began)}
	p.resume()
	r.mu.Lock()
	r.stops = append(r.stops, s)
	r.mu.Unlock()
}

// stopTime draws how long a process is stopped: mostly a little, at times far
// longer than a proof of ownership is trusted.
func stopTime(x *rand.Rand) time.Duration {
	switch x.IntN(3) {
	case 0:
		return between(x, 5, 100)
	case 1:
		return between(x, 100, 1000)
	}
	return checkAfter + between(x, 100, 2000)
}

// writer keeps one slot filled: it starts a process, plays with it until it is dead,
// and starts the next one.
func (r *round) writer(x *rand.Rand) {
	for !r.isOver() {
		p, way := r.start(roleWriter, x)
		if p == nil {
			return
		}
		if x.IntN(3) == 0 && p.await(isOpened, 5*time.Second) {
			r.stop(p, checkAfter+between(x, 100, 600)) // as the owner, as likely as not
		}
		for !r.isOver() && !p.gone() && r.act(p, way, x) {
			r.rest(between(x, 20, 400))
		}
		r.finish(p, way, x)
		r.rest(between(x, 1, 300))
	}
}

func isOpening(k kind) bool { return k == opening }
func isOpened(k kind) bool  { return k == opened }

// act does something to p. It returns false once it has killed it.
func (r *round) act(p *process, way *proxy, x *rand.Rand) bool {
	switch n := x.IntN(100); {
	case n < 12:
		p.kill()
		return false
	case n < 24: // in the middle of Open
		if !p.await(isOpening, time.Second) {
			return true
		}
		r.rest(between(x, 0, 60))
		p.kill()
		return false
	case n < 32: // right after it
		if !p.await(isOpening, time.Second) || !p.await(isOpened, time.Second) {
			return true
		}
		p.kill()
		return false
	case n < 56:
		r.stop(p, stopTime(x))
	case n < 72:
		if !p.halt() {
			return true
		}
		r.rest(between(x, 1, 1000))
		p.kill()
		r.count(func(t *tally) { t.killsStopped++ })
		return false
	case n < 95 && way != nil && p.await(isOpened, time.Second):
		r.count(func(t *tally) { t.held++ })
		way.hold()
		switch x.IntN(4) {
		case 0:
			r.rest(between(x, 5, 1500))
			way.release()
			return true
		case 1: // others open meanwhile, and the puts land while their sender sleeps
			r.rest(between(x, 5, 100))
			r.releaseLater(way, x)
			r.stop(p, stopTime(x))
			return true
		}
		r.rest(between(x, 5, 100))
		r.count(func(t *tally) { t.heldKills++ })
		p.kill()
		return false
	}
	return true
}

// finish sees p to its end: one that was not killed is told to end by itself.
func (r *round) finish(p *process, way *proxy, x *rand.Rand) {
	p.mu.Lock()
	dying := p.signalled != 0
	p.mu.Unlock()
	if !dying {
		if way != nil {
			way.release()
		}
		if err := p.finish(); err != nil {
			r.fail("child", "%v", err)
		}
		return
	}
	if !p.killed() {
		r.fail("harness", "process %d was sent SIGKILL and ended with %s; its output:\n%s", p.Process, describe(p.status), p.output())
	}
	r.count(func(t *tally) {
		if p.Role == roleReader {
			t.readerKills++
		} else {
			t.kills++
		}
	})
	if way != nil {
		r.releaseLater(way, x)
	}
}

// reader keeps one process looking on.
func (r *round) reader(x *rand.Rand) {
	for !r.isOver() {
		p, way := r.start(roleReader, x)
		if p == nil {
			return
		}
	alive:
		for !r.isOver() && !p.gone() {
			r.rest(between(x, 100, 1000))
			switch x.IntN(4) {
			case 0:
				p.kill()
				break alive
			case 1, 2:
				r.stop(p, stopTime(x))
			}
		}
		r.finish(p, way, x)
	}
}
