package simulation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/memwal/memwal-go/index"
	"github.com/memwal/memwal-go/internal/fault"
	"github.com/memwal/memwal-go/memwal"
	"github.com/memwal/memwal-go/objstore"
	"github.com/memwal/memwal-go/objstore/faultstore"
)

// steps is the number of steps of one run before all is let go and checked.
const steps = 500

// counts says how often runs met what they are about.
type counts map[string]int

func (c counts) add(o counts) {
	for k, n := range o {
		c[k] += n
	}
}

// outcome is how a run ended.
type outcome struct {
	seed    uint64
	failure string // "": none
	trace   *trace
	log     string
	met     counts
}

// report is all that there is to say about a run that failed. What matters most
// comes last, where a terminal shows it.
func (o outcome) report(test string) string {
	tags := ""
	if fault.On {
		tags = "-tags faults "
	}
	return fmt.Sprintf("%v%s\nseed %d FAILED: %s\nreplay it: go test %s./memwal/simulation -run '%s' -seed %d -seeds 1 -v",
		o.trace, o.log, o.seed, o.failure, tags, test, o.seed)
}

// run is one run. Its fields belong to its own goroutine; what calls come back
// with, they send as functions through replies.
type run struct {
	ctx    context.Context
	seed   uint64
	rand   *rand.Rand
	keyed  bool
	slow   bool // hours pass, and processes stall for long
	lies   lie  // what the store gets wrong, for some of its clients
	pace   pace
	base   memwal.Options
	trace  trace
	met    counts
	failed string // the first violation
	ending bool   // all is let go, faults are over

	disk     objstore.Store // what is really there
	oracle   *oracle
	writers  []*writer
	readers  []*reader
	janitor  *recycler
	focus    *writer // if the pace has stretches: who acts in this one
	patience int     // steps for which it goes on at least
	ghosts   []*link // of crashed processes, whose puts may still land
	links    []*link // all that there ever were

	replies chan reply
	calls   int   // made so far
	nextN   int64 // of the next row
	opens   int   // incarnations so far
}

// pace is how often who acts. The first are shares of 100 steps, the rest of which
// is the writers'; the next, of 100 steps of a writer.
type pace struct {
	readers  int
	recycler int
	ghosts   int // puts of the dead
	naps     int // up to seconds pass
	nights   int // up to hours pass

	crash int // it crashes, while several puts are on the wire; else it does so once in 100
	floor int // it moves the floor

	stragglers float64 // of its puts, so many are slow

	stretch int // writers act one at a time, for about so many steps each, while the others stall; 0: in turns
}

// paces are some that are good at different things.
var paces = []struct {
	name string
	pace
}{
	{"even", pace{readers: 20, recycler: 8, ghosts: 5, naps: 5, nights: 1, crash: 1, floor: 3}},
	{"stretches", pace{readers: 20, recycler: 8, ghosts: 5, naps: 5, nights: 1, crash: 1, floor: 3, stretch: 25}},
	// Many die with puts on the wire, which land later, and what they leave behind is
	// recycled soon.
	{"haunted", pace{readers: 5, recycler: 15, ghosts: 10, naps: 2, crash: 10, floor: 8, stragglers: 0.1, stretch: 50}},
	// Requests outlast all that is kept.
	{"slow", pace{readers: 5, recycler: 15, ghosts: 3, naps: 3, nights: 4, crash: 1, floor: 8, stretch: 50}},
}

// reply is what a call came back with. Several that come at once are taken in the order
// in which they were made.
type reply struct {
	call int
	take func()
}

// simulate makes the run of a seed.
func simulate(t *testing.T, seed uint64) (out outcome) {
	defer func() {
		if p := recover(); p != nil {
			fmt.Fprintf(os.Stderr, "seed %d panics\n", seed)
			panic(p)
		}
	}()
	synctest.Test(t, func(t *testing.T) {
		r := newRun(t.Context(), seed)
		for range steps {
			r.step()
			if r.failed != "" {
				break
			}
		}
		r.finish()
		for _, l := range r.links {
			l.count(r.met)
		}
		r.met["dead entries"] += r.oracle.dead()
		out = outcome{seed, r.failed, &r.trace, r.oracle.log(), r.met}
	})
	return out
}

func newRun(ctx context.Context, seed uint64) *run {
	rng := rand.New(rand.NewPCG(seed, 1))
	disk := objstore.NewMemory()
	r := &run{
		ctx: ctx, seed: seed, rand: rng, disk: disk, oracle: newOracle(disk),
		keyed:   rng.IntN(2) == 0,
		replies: make(chan reply, 1000), met: counts{},
	}
	choice := paces[rng.IntN(len(paces))]
	r.pace, r.slow = choice.pace, choice.nights > 0 && rng.IntN(2) == 0 || choice.name == "slow"
	if rng.IntN(5) == 0 {
		r.lies = lie(1 + rng.IntN(int(lastLie)))
	}
	pick := func(n ...int64) int64 { return n[rng.IntN(len(n))] }
	r.base = memwal.Options{
		Indexes:             []index.Config{index.Ordered{Name: "by_n", Columns: []index.Column{{Name: "n"}}}},
		FlushInterval:       time.Duration(pick(int64(time.Millisecond), int64(100*time.Millisecond), int64(time.Second))),
		FlushBytes:          pick(1, 1, 100, 1<<20),
		MaxEntryBytes:       pick(1, 100, 1<<20),
		MaxInFlight:         int(pick(1, 2, 4)),
		MaxMemtableRows:     pick(2, 5, 1<<20),
		MaxMemtableBatches:  int(pick(1, 3, 1<<20)),
		OwnershipCheckAfter: time.Duration(pick(1, 30)) * time.Second,
		Retry: objstore.RetryOptions{
			MaxAttempts: int(pick(2, 3, 6)), RequestTimeout: 10 * time.Second, Rand: func() float64 { return 0.5 }, OnRetry: apart,
		},
	}
	if choice.name == "haunted" {
		r.base.FlushBytes, r.base.MaxEntryBytes = 1, 1
		r.base.MaxInFlight = int(pick(2, 4))
		r.base.OwnershipCheckAfter = time.Duration(pick(30, 300)) * time.Second
	}
	if r.slow { // a request may wait longer than anything is kept
		r.base.Retry.RequestTimeout = time.Duration(pick(10, 3600, 2*3600)) * time.Second
		r.base.Retry.MaxElapsed = 12 * time.Hour
	}
	r.base.FenceRetention = time.Duration(4*r.base.MaxInFlight+2)*r.base.OwnershipCheckAfter + 10*time.Minute + time.Second
	if r.keyed {
		r.base.PrimaryKey = []string{"id"}
	}
	writers := 1 + rng.IntN(3)
	if r.pace.stretch > 25 {
		writers = 2 + rng.IntN(2)
	}
	for i := range writers {
		w := &writer{name: fmt.Sprintf("W%d", i)}
		w.io = r.connect(w.name)
		r.writers = append(r.writers, w)
	}
	for i := range rng.IntN(3) {
		v := &reader{name: fmt.Sprintf("R%d", i)}
		v.io = r.connect(v.name)
		r.readers = append(r.readers, v)
	}
	r.janitor = &recycler{io: r.connect("J")}
	r.trace.add("seed %d: keyed %t, slow %t, lies %v, %s, %d writers, %d readers, %d in flight, owner checked after %v, requests time out after %v",
		seed, r.keyed, r.slow, r.lies, choice.name, len(r.writers), len(r.readers), r.base.MaxInFlight, r.base.OwnershipCheckAfter, r.base.Retry.RequestTimeout)
	return r
}

// fail ends the run, unless it has failed already.
func (r *run) fail(format string, args ...any) {
	if r.failed == "" {
		r.failed = fmt.Sprintf(format, args...)
		r.trace.add("FAILED: %s", r.failed)
	}
}

// must fails the run with an error of the oracle.
func (r *run) must(err error) {
	if err != nil {
		r.fail("%v", err)
	}
}

// call makes a call that takes requests, in a goroutine. What it returns is run
// by settle once it is over.
func (r *run) call(do func() (take func())) {
	r.calls++
	id := r.calls
	go func() {
		take := do()
		r.replies <- reply{id, take}
	}()
}

// settle lets everything run until it waits for the scheduler, and takes what has
// come back.
func (r *run) settle() {
	for {
		synctest.Wait()
		r.trace.settled()
		var came []reply
		for len(r.replies) > 0 {
			came = append(came, <-r.replies)
		}
		slices.SortFunc(came, func(a, b reply) int { return cmp.Compare(a.call, b.call) })
		for _, c := range came {
			r.must(r.oracle.look())
			c.take()
		}
		if len(came) == 0 {
			break
		}
	}
	r.must(r.oracle.look())
	for _, w := range r.writers {
		r.collect(w)
	}
}

// explained fails the run for an error that nothing in it explains.
func (r *run) explained(io *link, op string, err error, also ...error) {
	if errors.Is(err, memwal.ErrFenced) {
		r.met["fenced calls"]++
	}
	for _, ok := range append(also, memwal.ErrFenced, memwal.ErrSealed, memwal.ErrAborted, memwal.ErrClosed,
		context.Canceled, context.DeadlineExceeded, faultstore.ErrInjected, objstore.ErrAmbiguous) {
		if errors.Is(err, ok) {
			return
		}
	}
	if _, ok := errors.AsType[*objstore.RetryError](err); ok || io.lies {
		return // it ran into timeouts; or it was told something that is not so
	}
	r.fail("%s: %v", op, err)
}

// classes are the errors that the trace tells apart: those that every run of a seed has.
var classes = []struct {
	name string
	err  error
}{
	{"fenced", memwal.ErrFenced}, {"sealed", memwal.ErrSealed}, {"ended", memwal.ErrAborted}, {"ended", memwal.ErrClosed},
	{"hole", memwal.ErrHole}, {"corrupt", memwal.ErrCorrupt}, {"truncated", memwal.ErrLogTruncated}, {"invalid", memwal.ErrInvalid},
	{"ended", context.Canceled}, // whichever is noticed first
	{"exists", objstore.ErrExists}, {"absent", objstore.ErrNotExist},
}

func short(err error) string {
	if err == nil {
		return "ok"
	}
	for _, c := range classes {
		if errors.Is(err, c.err) {
			return c.name
		}
	}
	return "failed"
}

// step does one thing, drawn from the seed.
func (r *run) step() {
	r.settle()
	n := r.rand.IntN(100)
	turn := func(share int) bool {
		n -= share
		return n < 0
	}
	switch {
	case turn(r.pace.readers) && len(r.readers) > 0:
		r.stepReader(r.readers[r.rand.IntN(len(r.readers))])
	case turn(r.pace.recycler):
		r.stepRecycler()
	case turn(r.pace.ghosts):
		for _, i := range r.rand.Perm(len(r.ghosts)) {
			if r.ghosts[i].ReleaseOne() > 0 {
				break
			}
		}
	case turn(r.pace.naps):
		r.sleep(time.Millisecond, 50*time.Millisecond, 200*time.Millisecond, 2*time.Second)
	case turn(r.pace.nights) && (r.slow || r.rand.IntN(6) == 0):
		r.sleep(11*time.Second, 45*time.Second, 5*time.Minute, time.Hour, 3*time.Hour)
	case r.pace.stretch == 0:
		r.stepWriter(r.writers[r.rand.IntN(len(r.writers))])
	default:
		if r.focus == nil || r.leaves(r.focus) {
			r.turnFrom(r.focus)
		}
		r.stepWriter(r.focus)
	}
}

// leaves says whether a writer's stretch ends. It does so rather while it has a put on
// the wire, and rather still when that comes too late: this is what the guards are for.
func (r *run) leaves(p *writer) bool {
	if r.patience > 0 {
		r.patience--
		return false
	}
	n, late := r.sending(p.io)
	switch {
	case late > 0:
		return r.rand.IntN(3) == 0
	case n > 0:
		return r.rand.IntN(r.pace.stretch) == 0
	}
	return r.rand.IntN(2*r.pace.stretch) == 0
}

// turnFrom makes it somebody else's turn, for long enough to take the shard over and
// to leave nothing as it was.
func (r *run) turnFrom(p *writer) {
	for range 4 {
		if r.focus = r.writers[r.rand.IntN(len(r.writers))]; r.focus != p {
			break
		}
	}
	r.patience = r.rand.IntN(2 * r.pace.stretch)
}

func (r *run) sleep(choices ...time.Duration) {
	d := choices[r.rand.IntN(len(choices))]
	r.trace.add("%v pass", d)
	r.trace.together(func() {
		time.Sleep(d)
		synctest.Wait()
	})
}

// release lets some requests go on.
func (r *run) release(io *link, most int) {
	for range 1 << r.rand.IntN(most) {
		if io.ReleaseOne() == 0 {
			return
		}
		synctest.Wait()
		r.trace.settled()
		if io.killed.Load() {
			return
		}
	}
}

// finish lets go of everything, and then opens the shard again, in peace.
func (r *run) finish() {
	r.trace.add("all is let go, faults are over; then the shard is opened twice more")
	r.trace.end()
	r.ending = true
	for _, w := range r.writers {
		r.crash(w)
	}
	for _, l := range r.links {
		l.Clear()
		l.ReleaseAll()
	}
	for range 30 { // calls under way end, those of the janitor and of readers by themselves
		r.settle()
		for _, l := range r.links {
			l.ReleaseAll()
		}
		time.Sleep(time.Hour)
	}
	r.settle()
	for _, v := range r.readers {
		r.finishReader(v)
	}
	if r.failed == "" {
		r.reopen()
	}
	r.settle()
}

// reopen opens the shard twice more: it has what the oracle has, and opening
// changes nothing.
func (r *run) reopen() {
	for range 2 {
		if err := memwal.UnsealShard(r.ctx, r.disk, shard, nil); err != nil && !errors.Is(err, memwal.ErrInvalid) {
			r.fail("last unseal: %v", err)
			return
		}
		before := len(r.oracle.rows)
		w, err := memwal.Open(r.ctx, r.disk, shard, tableSchema, &r.base)
		if err != nil {
			r.fail("last open: %v", err)
			return
		}
		last := &writer{name: "last", io: r.writers[0].io, w: w, run: r.opens}
		r.opens++
		r.settle()
		r.checkOpened(last)
		if len(r.oracle.rows) != before {
			r.fail("the log had %d rows before an open and %d after it", before, len(r.oracle.rows))
		}
		r.put(last)
		if err := w.Close(r.ctx); err != nil {
			r.fail("last close: %v", err)
		}
		r.must(r.oracle.look())
		r.collect(last)
		if got := r.oracle.acknowledged(last.epoch + 1); got != uint64(len(r.oracle.rows)) {
			r.fail("%d rows of the log were not acknowledged to the last writer", uint64(len(r.oracle.rows))-got)
		}
		r.met["rows checked"] += len(r.oracle.rows)
	}
}
