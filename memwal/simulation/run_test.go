package simulation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/memwal/memwal-go/index"
	"github.com/memwal/memwal-go/memwal"
	"github.com/memwal/memwal-go/objstore"
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
	if strings.HasPrefix(test, "TestSwitches") {
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
	recycler *recycler
	focus    *writer // if the pace has stretches: who acts in this one
	patience int     // steps for which it goes on at least
	orphans  []*link // of crashed processes, whose puts may still land
	links    []*link // all that there ever were

	replies chan reply
	calls   int   // made so far
	running int   // of these, those that have not come back
	nextN   int64 // of the next row
	opens   int   // incarnations so far
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
	r.pace, r.slow = choice.pace, choice.longPauses > 0 && rng.IntN(2) == 0 || choice.name == "slow"
	if rng.IntN(5) == 0 {
		r.lies = lie(1 + rng.IntN(int(lastLie)))
	}
	r.base = r.drawOptions(choice.name == "late puts")
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
	r.recycler = &recycler{io: r.connect("J")}
	r.trace.add("seed %d: keyed %t, slow %t, lies %v, %s, %d writers, %d readers, %d in flight, owner checked after %v, requests time out after %v",
		seed, r.keyed, r.slow, r.lies, choice.name, len(r.writers), len(r.readers), r.base.MaxInFlight, r.base.OwnershipCheckAfter, r.base.Retry.RequestTimeout)
	return r
}

// drawOptions draws the options of all writers. manyPuts makes every batch an entry,
// and keeps several of them in flight.
func (r *run) drawOptions(manyPuts bool) memwal.Options {
	pick := func(n ...int64) int64 { return n[r.rand.IntN(len(n))] }
	o := memwal.Options{
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
	if manyPuts {
		o.FlushBytes, o.MaxEntryBytes = 1, 1
		o.MaxInFlight = int(pick(2, 4))
		o.OwnershipCheckAfter = time.Duration(pick(30, 300)) * time.Second
	}
	if r.slow { // a request may wait longer than anything is kept
		o.Retry.RequestTimeout = time.Duration(pick(10, 3600, 2*3600)) * time.Second
		o.Retry.MaxElapsed = 12 * time.Hour
	}
	o.FenceRetention = time.Duration(4*o.MaxInFlight+2)*o.OwnershipCheckAfter + 10*time.Minute + time.Second
	if r.keyed {
		o.PrimaryKey = []string{"id"}
	}
	return o
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
	r.running++
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
			r.running--
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

// draw draws one of 100 shares. The function that it returns gives them out, one lot
// after the other, and says whether the drawn one is in it.
func (r *run) draw() (turn func(share int) bool) {
	n := r.rand.IntN(100)
	return func(share int) bool {
		n -= share
		return n < 0
	}
}

// step does one thing, drawn from the seed.
func (r *run) step() {
	r.settle()
	turn := r.draw()
	switch {
	case turn(r.pace.readers) && len(r.readers) > 0:
		r.stepReader(r.readers[r.rand.IntN(len(r.readers))])
	case turn(r.pace.recycler):
		r.stepRecycler()
	case turn(r.pace.orphans):
		for _, i := range r.rand.Perm(len(r.orphans)) {
			if r.orphans[i].ReleaseOne() > 0 {
				break
			}
		}
	case turn(r.pace.pauses):
		r.sleep(time.Millisecond, 50*time.Millisecond, 200*time.Millisecond, 2*time.Second)
	case turn(r.pace.longPauses) && (r.slow || r.rand.IntN(6) == 0):
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
	if r.failed == "" && r.rand.IntN(2) == 0 {
		r.calm()
	}
	for _, w := range r.writers {
		r.crash(w)
	}
	r.heal()
	r.letGo(time.Hour) // calls under way end, those of the recycler and of readers by themselves
	for _, v := range r.readers {
		r.finishReader(v)
	}
	if r.failed == "" {
		r.reopen()
	}
	r.settle()
}

// letGo lets all requests go on, again and again, with pauses in between.
func (r *run) letGo(pause time.Duration) {
	for range 30 {
		r.settle()
		for _, l := range r.links {
			l.ReleaseAll()
		}
		time.Sleep(pause)
	}
	r.settle()
}

// calm ends all faults and lets everybody who is alive go on: then every call comes
// back, and every put has an outcome. Whoever is stuck would be so for ever.
func (r *run) calm() {
	for _, p := range r.writers {
		if p.io.killed.Load() {
			r.crash(p)
		}
	}
	r.heal()
	r.letGo(10 * time.Minute)
	for _, p := range r.writers {
		if p.w != nil && r.failed == "" {
			r.put(p)
			r.met["puts in peace"]++
		}
	}
	r.letGo(10 * time.Minute)
	if r.running > 0 {
		r.fail("%d calls have not come back, hours after the last fault", r.running)
	}
	for _, p := range r.writers {
		if len(p.tickets) > 0 {
			r.fail("%s.%d: %d puts have no outcome, hours after the last fault", p.name, p.run, len(p.tickets))
		}
	}
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
