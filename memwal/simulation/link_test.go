package simulation

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/memwal/memwal-go/internal/manifest"
	"github.com/memwal/memwal-go/internal/wal"
	"github.com/memwal/memwal-go/objstore"
	"github.com/memwal/memwal-go/objstore/faultstore"
)

// link is one process's way to the store. A process has a new one after each
// start; what it had sent over the old one may still arrive.
type link struct {
	*faultstore.Store
	name   string
	run    atomic.Int64 // number of the open that uses it; 0: none yet
	trace  *trace
	lies   bool        // it may be told what is not so: errors need no explanation
	killed atomic.Bool // a request ended the process
	ended  bool        // the process was, or closes its writer
}

// lie is a fault that breaks the contract of a store. Nothing may be lost by it,
// but calls may fail.
type lie int

const (
	noLie       lie = iota
	lieAbsent       // 404 for an object that is there
	lieExists       // 412 for a put to an empty place
	lieTruncate     // the beginning of an object for the whole
	lieShort        // a listing that leaves objects out
	lieCut          // a listing that ends early
	lastLie     = lieCut
)

func (l lie) String() string {
	return [...]string{"none", "absent", "exists", "truncate", "short list", "cut list"}[l]
}

var (
	puts  = []objstore.Op{objstore.OpPutIfAbsent}
	gets  = []objstore.Op{objstore.OpGet}
	lists = []objstore.Op{objstore.OpList}
	reads = []objstore.Op{objstore.OpGet, objstore.OpList, objstore.OpHead}
)

// held makes every request wait for the scheduler, before it is applied and before
// its reply, and lets it arrive also when its caller has gone.
var held = faultstore.Rule{Count: -1, Park: true, ParkReply: true, Detach: true}

// unclosed keeps a process from closing the store of all.
type unclosed struct{ objstore.Store }

func (unclosed) Close() error { return nil }

// apart keeps requests that failed together from being repeated together: what
// follows would be in any order.
func apart(f objstore.Retry) {
	h := fnv.New32a()
	fmt.Fprintf(h, "%s %s %d", f.Op, f.Key, f.Attempt)
	time.Sleep(time.Duration(h.Sum32()%1e6) + 1)
}

// connect gives somebody a new way to the store, with faults of its own.
func (r *run) connect(name string) *link {
	rng := r.rand
	l := r.plainLink(name, rng.Uint64())
	odds := func() float64 { return []float64{0, 0.01, 0.03, 0.1, 0.3}[rng.IntN(5)] }
	add := func(ops []objstore.Op, chance float64, rule faultstore.Rule) {
		if chance > 0 {
			rule.Ops, rule.Chance, rule.Count = ops, chance, -1
			l.Add(rule)
		}
	}
	if rng.IntN(4) > 0 {
		add(puts, odds(), faultstore.Rule{After: faultstore.Status(http.StatusInternalServerError)})
		add(puts, odds(), faultstore.Rule{Before: faultstore.Status(http.StatusInternalServerError)})
		add(puts, odds(), faultstore.Rule{Before: faultstore.Status(http.StatusServiceUnavailable)})
		add(puts, odds()/3, faultstore.Rule{Before: faultstore.Status(http.StatusTooManyRequests)})
		add(puts, odds()/3, faultstore.Rule{Before: faultstore.Status(http.StatusConflict)})
		add(puts, odds(), faultstore.Rule{Duplicate: true})
		add(puts, odds()/3, faultstore.Rule{Delay: 15 * time.Second})
		add(puts, odds()/3, faultstore.Rule{Late: time.Duration(rng.Int64N(int64(20 * time.Second)))})
		add(reads, odds()/4, faultstore.Rule{Before: faultstore.Status(http.StatusServiceUnavailable)})
		add(reads, odds()/10, faultstore.Rule{Before: faultstore.Status(http.StatusForbidden)})
		if rng.IntN(2) == 0 {
			add(lists, 1, faultstore.Rule{Shuffle: true})
		}
	}
	// A put that is slow, or whose process has died, while others pass it by.
	add(puts, r.pace.stragglers, faultstore.Rule{Delay: 15 * time.Second})
	if r.lies != noLie && rng.IntN(2) == 0 {
		r.lie(l, rng)
	}
	if name[0] == 'W' && rng.IntN(4) == 0 {
		// Requests come in at once, so it is not the n-th of them that ends the process,
		// but the moment when so many have come in, or were applied.
		left := int64(rng.IntN(80))
		kill := func(faultstore.Request) {
			if atomic.AddInt64(&left, -1) == 0 {
				l.killed.Store(true)
			}
		}
		rule := faultstore.Rule{Count: -1, OnRequest: kill}
		if rng.IntN(2) == 0 {
			rule = faultstore.Rule{Count: -1, OnApplied: kill}
		}
		l.Add(rule)
	}
	l.Add(held)
	return l
}

func (r *run) lie(l *link, rng *rand.Rand) {
	l.lies = true
	rule := faultstore.Rule{Chance: 0.05, Count: -1}
	switch r.lies {
	case lieAbsent:
		rule.Ops, rule.Before = []objstore.Op{objstore.OpGet, objstore.OpHead}, faultstore.Status(http.StatusNotFound)
	case lieExists:
		rule.Ops, rule.Before = puts, faultstore.Status(http.StatusPreconditionFailed)
	case lieTruncate:
		rule.Ops, rule.Truncate = gets, 1+rng.IntN(200)
	case lieShort:
		rule.Ops, rule.Chance, rule.Drop = lists, 0.3, 0.3
	case lieCut:
		rule.Ops, rule.Chance, rule.Truncate = lists, 0.3, 1+rng.IntN(2)
	}
	l.Add(rule)
}

// plainLink is a way without faults, which writes the trace.
func (r *run) plainLink(name string, seed uint64) *link {
	l := &link{Store: faultstore.New(unclosed{r.disk}, seed), name: name, trace: &r.trace}
	r.watch(l)
	r.links = append(r.links, l)
	return l
}

// watch lets the trace and the oracle know what is applied over a link.
func (r *run) watch(l *link) {
	var senders sync.Map // by number of the request: somebody else may use l when it is applied
	l.Add(faultstore.Rule{Count: -1, OnRequest: func(q faultstore.Request) {
		senders.Store(q.Seq, l.sender())
	}, OnApplied: func(q faultstore.Request) {
		sender, _ := senders.LoadAndDelete(q.Seq)
		content := ""
		if q.Op == objstore.OpPutIfAbsent && q.Err == nil {
			var err error
			if content, err = r.oracle.landed(q.Key, l); err != nil {
				panic(err) // it was made a moment ago
			}
		}
		r.trace.add("%v: %s %s: %s%s", sender, q.Op, shortKey(q.Key), short(q.Err), content)
	}})
}

// heal ends the faults of all links. What waits goes on waiting.
func (r *run) heal() {
	for _, l := range r.links {
		l.Clear()
		r.watch(l)
	}
}

// connectUnusable gives a way to the store that ignores the condition of puts.
func (r *run) connectUnusable(name string) *link {
	l := r.plainLink(name, 0)
	l.Add(faultstore.Rule{Ops: puts, Count: -1, IgnoreCondition: true}, held)
	return l
}

// count adds up what was injected.
func (l *link) count(c counts) {
	for f, n := range l.Injected() {
		c["fault "+string(f)] += n
	}
	c["requests"] += len(l.Requests())
}

// sending counts the entries and fences on the wire, and those of them whose place
// somebody else has taken.
func (r *run) sending(l *link) (n, late int) {
	for _, q := range l.Parked() {
		if q.Applied || q.Op != objstore.OpPutIfAbsent || !strings.HasPrefix(q.Key, walDir) {
			continue
		}
		n++
		if _, err := r.disk.Head(context.Background(), q.Key); err == nil {
			late++
		}
	}
	return n, late
}

// shortKey is a key as a person reads it.
func shortKey(key string) string {
	if name, ok := strings.CutPrefix(key, walDir); ok && name != "" {
		if pos, ok := wal.ParseName(name); ok {
			return fmt.Sprintf("wal/%d", pos)
		}
	}
	if name, ok := strings.CutPrefix(key, manifestDir); ok && name != "" {
		if v, ok := manifest.ParseName(name); ok {
			return fmt.Sprintf("manifest/%d", v)
		}
	}
	return strings.TrimPrefix(key, root)
}
