package memwal

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/memwal/memwal-go/index"
	"github.com/memwal/memwal-go/internal/wal"
	"github.com/memwal/memwal-go/objstore"
	"github.com/memwal/memwal-go/objstore/faultstore"
	"github.com/memwal/memwal-go/replay"
)

var (
	simSeeds = flag.Int("sim.seeds", 60, "seeds of the simulation")
	simFirst = flag.Uint64("sim.first", 1, "first seed of the simulation: with -sim.seeds=1, the one to replay")
	simTrace = flag.Bool("sim.trace", false, "print every step of the simulation")
)

// TestSimulation runs up to three processes over one shard, in simulated time.
// Every request of every process is parked before it is applied and again
// before its reply, and a seeded scheduler picks which one goes on next. Between
// that processes open the shard, put, delete, rotate, flush, read, stall, crash
// (their puts may land long after), close, seal and unseal; requests fail, are
// duplicated, lose their reply, run into timeouts.
//
// Up to two readers look on, with ways to the store of their own, as slow and as
// faulty.
//
// Whatever happens, the log, read past all faults, decides:
//
//   - what it held once it holds for ever: rows are only added at its end
//   - acknowledged rows are in it, at the ordinal that their ticket told
//   - every row in it was put, once, and those of one process in their order
//   - every snapshot shows exactly its first Bound rows, newest version of each key
//   - an open returns with all of it, a refreshed reader shows all of it
//   - nothing but what the run did (a peer, a fault, a seal) is ever reported
func TestSimulation(t *testing.T) {
	var reached simReached
	for i := range *simSeeds {
		seed := *simFirst + uint64(i)
		synctest.Test(t, func(t *testing.T) {
			t.Helper()
			s := newSim(t, seed)
			s.run()
			reached.add(s.reached)
			if t.Failed() {
				t.Logf("replay it with -run TestSimulation -sim.first=%d -sim.seeds=1 -sim.trace", seed)
			}
		})
		if t.Failed() {
			return
		}
	}
	t.Logf("reached: %+v", reached)
	if *simSeeds >= 60 && (reached.refreshed == 0 || reached.fenced == 0 || reached.dead == 0 || reached.reissued == 0 || reached.recovered == 0) {
		t.Error("the runs are too tame: some of what they are about never happened")
	}
}

// simReached counts what runs are about.
type simReached struct {
	opened, fenced, acked int // opens, calls that were fenced, rows acknowledged
	dead                  int // dead objects in the log at the end
	reissued              int // entries put again above a dead object
	recovered             int // rows that an open found
	refreshed             int // refreshes of readers that found new rows
	lost                  int // rows accepted that are not in the log at the end
}

func (r *simReached) add(o simReached) {
	r.opened += o.opened
	r.fenced += o.fenced
	r.acked += o.acked
	r.dead += o.dead
	r.reissued += o.reissued
	r.recovered += o.recovered
	r.refreshed += o.refreshed
	r.lost += o.lost
}

// simSteps is the number of steps of one run before all is let go and checked.
const simSteps = 400

// simRow is a row as it was put; its id is the key, n says which put it was.
type simRow struct {
	n    int64 // unique over the whole run
	id   int64
	dead bool
}

// sim is one run. Its fields belong to the goroutine of the test; what others do
// for it they send as functions through done.
type sim struct {
	t     *testing.T
	seed  uint64
	rand  *rand.Rand
	keyed bool
	base  Options

	disk  objstore.Store // what is really there
	procs []*process
	// viewers are the readers.
	viewers []*viewer
	// ghosts are the ways of crashed processes, whose puts may still land.
	ghosts []*faultstore.Store
	done   chan func()

	nextN   int64
	issued  map[int64]simRow  // by n
	order   map[int64]int     // n: the incarnation that put it
	acked   map[uint64]simAck // by ordinal
	history []simRow          // the log, as last read
	opens   int               // incarnations so far
	reached simReached
}

// process is one participant. It has a store of its own, so that it can be stalled.
type process struct {
	name    int
	io      *faultstore.Store
	w       *Writer
	run     int // incarnation
	cancel  context.CancelFunc
	busy    int // calls under way
	opening bool
	stalled int // steps to go
	tickets []simTicket
	snaps   []*Snapshot
}

// viewer is a process that reads.
type viewer struct {
	name int
	io   *faultstore.Store
	r    *Reader
	busy bool // a call is under way
}

type simTicket struct {
	t     *Ticket
	rows  []simRow
	epoch uint64
}

// simAck is a row that was acknowledged, and by whom.
type simAck struct {
	n     int64
	epoch uint64
}

func newSim(t *testing.T, seed uint64) *sim {
	r := rand.New(rand.NewPCG(seed, 1))
	s := &sim{
		t: t, seed: seed, rand: r, keyed: r.IntN(2) == 0,
		disk: objstore.NewMemory(), done: make(chan func(), 1000),
		issued: map[int64]simRow{}, order: map[int64]int{}, acked: map[uint64]simAck{},
	}
	pick := func(n ...int64) int64 { return n[r.IntN(len(n))] }
	s.base = Options{
		Indexes:            []index.Config{index.Ordered{Name: "by_n", Columns: []index.Column{{Name: "n"}}}},
		FlushInterval:      time.Duration(pick(int64(time.Millisecond), int64(100*time.Millisecond), int64(time.Second))),
		FlushBytes:         pick(1, 1, 100, 1<<20),
		MaxEntryBytes:      pick(1, 100, 1<<20),
		MaxInFlight:        int(pick(1, 2, 4, 8)),
		MaxMemtableRows:    pick(2, 5, 1<<20),
		MaxMemtableBatches: int(pick(1, 3, 1<<20)),
		Retry:              objstore.RetryOptions{MaxAttempts: int(pick(2, 3, 6)), RequestTimeout: 10 * time.Second, Rand: func() float64 { return 0.5 }},
	}
	if s.keyed {
		s.base.PrimaryKey = []string{"id"}
	}
	for i := range 1 + r.IntN(3) {
		p := &process{name: i}
		s.connect(p)
		s.procs = append(s.procs, p)
	}
	for i := range r.IntN(3) {
		v := &viewer{name: i}
		s.connectViewer(v)
		s.viewers = append(s.viewers, v)
	}
	return s
}

func (s *sim) tracef(format string, args ...any) {
	if *simTrace {
		s.t.Logf("%6dms "+format, append([]any{time.Now().UnixMilli() % 1e7}, args...)...)
	}
}

func (s *sim) failf(format string, args ...any) {
	s.t.Errorf("seed %d: "+format, append([]any{s.seed}, args...)...)
}

// unclosed keeps a crashed process's store from closing the disk.
type unclosed struct{ objstore.Store }

func (unclosed) Close() error { return nil }

// connect gives p a new way to the disk, as a process has after its start.
func (s *sim) connect(p *process) {
	if p.io != nil {
		s.ghosts = append(s.ghosts, p.io)
	}
	p.io = faultstore.New(unclosed{s.disk}, s.rand.Uint64())
	puts := []objstore.Op{objstore.OpPutIfAbsent}
	if s.rand.IntN(3) > 0 {
		chance := []float64{0.03, 0.1, 0.3}[s.rand.IntN(3)]
		p.io.Add(faultstore.Rule{Ops: puts, Chance: chance, Count: -1, After: faultstore.Status(500)})
		p.io.Add(faultstore.Rule{Ops: puts, Chance: chance, Count: -1, Before: faultstore.Status(503)})
		p.io.Add(faultstore.Rule{Ops: puts, Chance: chance, Count: -1, Before: faultstore.Status(500)})
		p.io.Add(faultstore.Rule{Ops: puts, Chance: chance, Count: -1, Duplicate: true})
		p.io.Add(faultstore.Rule{Ops: []objstore.Op{objstore.OpGet, objstore.OpList, objstore.OpHead}, Chance: chance / 4, Count: -1, Before: faultstore.Status(503)})
	}
	p.io.Add(faultstore.Rule{Count: -1, Park: true, ParkReply: true, Detach: true})
}

func (s *sim) connectViewer(v *viewer) {
	v.io = faultstore.New(unclosed{s.disk}, s.rand.Uint64())
	reads := []objstore.Op{objstore.OpGet, objstore.OpList, objstore.OpHead}
	v.io.Add(faultstore.Rule{Ops: reads, Chance: 0.05, Count: -1, Before: faultstore.Status(503)})
	v.io.Add(faultstore.Rule{Ops: reads, Chance: 0.02, Count: -1, Before: faultstore.Status(403)})
	v.io.Add(faultstore.Rule{Count: -1, Park: true, ParkReply: true, Detach: true})
}

func (s *sim) run() {
	for range simSteps {
		s.step()
		if s.t.Failed() {
			break
		}
	}
	s.finish()
}

// settle lets everything run until it waits for the scheduler, and takes what
// has come back.
func (s *sim) settle() {
	for {
		synctest.Wait()
		select {
		case f := <-s.done:
			f()
			continue
		default:
		}
		break
	}
	for _, p := range s.procs {
		s.collect(p)
	}
}

// collect looks at the tickets of p whose outcome is known.
func (s *sim) collect(p *process) {
	p.tickets = slices.DeleteFunc(p.tickets, func(x simTicket) bool {
		select {
		case <-x.t.Done():
		default:
			return false
		}
		if err := x.t.Err(); err != nil {
			s.allowed("put", err)
			return true
		}
		for i, r := range x.rows {
			at := x.t.FirstRow() + uint64(i)
			if other, ok := s.acked[at]; ok {
				s.failf("row %d was acknowledged twice: n=%d and n=%d", at, other.n, r.n)
			}
			s.acked[at] = simAck{r.n, x.epoch}
		}
		s.tracef("P%d acknowledged rows %d+%d", p.name, x.t.FirstRow(), len(x.rows))
		s.reached.acked += len(x.rows)
		return true
	})
}

// allowed fails the run for errors that nothing in it explains.
func (s *sim) allowed(op string, err error) {
	if errors.Is(err, ErrFenced) {
		s.reached.fenced++
	}
	for _, ok := range []error{
		ErrFenced, ErrSealed, ErrAborted, ErrClosed, context.Canceled, context.DeadlineExceeded,
		faultstore.ErrInjected, objstore.ErrAmbiguous,
	} {
		if errors.Is(err, ok) {
			return
		}
	}
	if _, ok := errors.AsType[*objstore.RetryError](err); ok {
		return // it ran into timeouts
	}
	s.failf("%s: %v", op, err)
}

func (s *sim) step() {
	s.settle()
	if len(s.viewers) > 0 && s.rand.IntN(4) == 0 {
		s.view(s.viewers[s.rand.IntN(len(s.viewers))])
		return
	}
	p := s.procs[s.rand.IntN(len(s.procs))]
	if p.stalled > 0 {
		p.stalled--
		return
	}
	switch n := s.rand.IntN(100); {
	case n < 50: // the likeliest: some requests go on
		for range 1 << s.rand.IntN(6) {
			if p.io.ReleaseOne() == 0 {
				break
			}
			synctest.Wait()
		}
	case n < 56: // those of the dead as well
		for _, i := range s.rand.Perm(len(s.ghosts)) {
			if s.ghosts[i].ReleaseOne() > 0 {
				break
			}
		}
	case n < 62:
		d := []time.Duration{time.Millisecond, 50 * time.Millisecond, 200 * time.Millisecond, 2 * time.Second}[s.rand.IntN(4)]
		time.Sleep(d)
	case n < 63:
		if s.rand.IntN(3) == 0 {
			d := []time.Duration{11 * time.Second, 45 * time.Second, time.Hour}[s.rand.IntN(3)]
			s.tracef("%v pass", d)
			time.Sleep(d)
		}
	case n < 65:
		p.stalled = s.rand.IntN(25)
		s.tracef("P%d stalls for %d", p.name, p.stalled)
	case n < 66:
		s.crash(p)
	case n < 67:
		if s.rand.IntN(4) == 0 {
			s.setStatus(p)
		}
	case p.w == nil && !p.opening:
		s.open(p)
	case p.w == nil:
		p.io.ReleaseOne()
	case n < 90:
		s.put(p)
	case n < 92:
		s.async(p, "flush", func(ctx context.Context) error { return p.w.Flush(ctx) })
	case n < 93:
		s.async(p, "rotate", func(ctx context.Context) error { return p.w.Rotate(ctx) })
	case n < 94:
		s.close(p)
	case n < 98:
		s.read(p)
	default:
		for _, snap := range p.snaps { // answers do not change
			s.checkSnapshot(snap)
			snap.Close()
		}
		p.snaps = nil
	}
}

// view lets a reader do something.
func (s *sim) view(v *viewer) {
	switch n := s.rand.IntN(20); {
	case v.busy && n < 16:
		for range 1 << s.rand.IntN(5) {
			if v.io.ReleaseOne() == 0 {
				break
			}
			synctest.Wait()
		}
	case v.r != nil && n == 16: // also in the middle of a refresh
		s.checkReader(v)
	case v.busy:
	case v.r == nil:
		s.openReader(v)
	case n == 17:
		v.r.Close()
		v.r = nil
	default:
		s.refresh(v)
	}
}

func (s *sim) openReader(v *viewer) {
	v.busy = true
	o := &ReaderOptions{Retry: s.base.Retry, ReplayBytes: []int64{1, 1 << 20}[s.rand.IntN(2)]}
	least := s.acknowledged()
	s.tracef("R%d opens", v.name)
	go func() {
		r, err := OpenReader(s.t.Context(), v.io, testShard, o)
		s.done <- func() {
			v.busy = false
			s.tracef("R%d open returns %v", v.name, err)
			if err != nil {
				if least > 0 || !errors.Is(err, objstore.ErrNotExist) {
					s.allowedRead(err)
				}
				return
			}
			v.r = r
			s.checkRefreshed(v, least)
		}
	}()
}

func (s *sim) refresh(v *viewer) {
	v.busy = true
	r, before, least := v.r, v.r.Bound(), s.acknowledged()
	s.tracef("R%d refreshes", v.name)
	go func() {
		err := r.Refresh(s.t.Context())
		s.done <- func() {
			v.busy = false
			s.tracef("R%d refresh returns %v", v.name, err)
			if err != nil {
				s.allowedRead(err)
				s.checkReader(v)
				return
			}
			if r.Bound() > before {
				s.reached.refreshed++
			}
			s.checkRefreshed(v, least)
		}
	}()
}

// allowedRead fails the run for errors of a reader that nothing explains.
func (s *sim) allowedRead(err error) {
	_, timeout := errors.AsType[*objstore.RetryError](err)
	if !timeout && !errors.Is(err, faultstore.ErrInjected) && !errors.Is(err, context.DeadlineExceeded) {
		s.failf("reader: %v", err)
	}
}

// acknowledged is the number of rows that were acknowledged so far.
func (s *sim) acknowledged() (n uint64) {
	for at := range s.acked {
		n = max(n, at+1)
	}
	return n
}

func (s *sim) checkRefreshed(v *viewer, least uint64) {
	if got := v.r.Bound(); got < least {
		s.failf("reader %d shows %d rows after a refresh, %d were acknowledged before", v.name, got, least)
	}
	s.checkReader(v)
}

func (s *sim) checkReader(v *viewer) {
	snap, err := v.r.Snapshot()
	if err != nil {
		s.failf("reader: %v", err)
		return
	}
	defer snap.Close()
	s.checkSnapshot(snap)
}

// async makes a call that takes requests. Its ending is looked at by settle.
func (s *sim) async(p *process, op string, call func(context.Context) error) {
	run := p.run
	s.tracef("P%d %s", p.name, op)
	go func() {
		err := call(s.t.Context())
		s.done <- func() {
			s.tracef("P%d.%d %s returns %v", p.name, run, op, err)
			if err != nil {
				s.allowed(op, err)
			}
		}
	}()
}

func (s *sim) open(p *process) {
	p.opening = true
	s.opens++
	p.run = s.opens
	run, io, o := p.run, p.io, s.base
	o.MaxInFlight = 1 + s.rand.IntN(o.MaxInFlight)
	ctx, cancel := context.WithCancel(s.t.Context())
	p.cancel = cancel
	s.tracef("P%d.%d opens", p.name, run)
	go func() {
		w, err := Open(ctx, io, testShard, testSchema, &o)
		s.done <- func() {
			s.tracef("P%d.%d open returns %v", p.name, run, err)
			if p.run == run {
				p.opening = false
			}
			switch {
			case err != nil:
				s.allowed("open", err)
			case p.run != run || p.io != io: // crashed meanwhile
				_ = w.Abort()
			default:
				p.w = w
				s.reached.opened++
				s.checkOpened(w)
			}
		}
	}()
}

// crash ends p without a word. Its puts on the wire may land at any time.
func (s *sim) crash(p *process) {
	s.tracef("P%d crashes", p.name)
	if p.cancel != nil {
		p.cancel()
	}
	s.drop(p, func(w *Writer) error { return w.Abort() })
	p.run = -1
	p.opening = false
	s.connect(p)
}

func (s *sim) close(p *process) {
	s.drop(p, func(w *Writer) error {
		s.async(p, "close", w.Close)
		return nil
	})
}

func (s *sim) drop(p *process, end func(*Writer) error) {
	for _, snap := range p.snaps {
		snap.Close()
	}
	p.snaps = nil
	if p.w != nil {
		s.reached.reissued += int(p.w.Stats().WAL.Reissued)
		if err := end(p.w); err != nil {
			s.failf("end: %v", err)
		}
	}
	s.settle() // tickets of this incarnation get their outcome
	p.w = nil
}

func (s *sim) setStatus(p *process) {
	if s.opens == 0 {
		return
	}
	io, o := p.io, s.base
	seal := s.rand.IntN(2) == 0
	s.async(p, fmt.Sprintf("seal (%t)", seal), func(ctx context.Context) error {
		err := error(nil)
		if seal {
			err = SealShard(ctx, io, testShard, &o)
		}
		if err == nil {
			err = UnsealShard(ctx, io, testShard, &o)
		}
		if errors.Is(err, ErrInvalid) { // no shard yet
			err = nil
		}
		return err
	})
}

func (s *sim) put(p *process) {
	dead := s.keyed && s.rand.IntN(5) == 0
	var rows []simRow
	var values []testRow
	var ids []int64
	for range 1 + s.rand.IntN(2) {
		r := simRow{n: s.nextN, id: s.nextN, dead: dead}
		if s.keyed {
			r.id = s.rand.Int64N(5)
		}
		s.nextN++
		s.issued[r.n], s.order[r.n] = r, p.run
		rows = append(rows, r)
		values = append(values, testRow{r.id, fmt.Sprint(r.n), r.n})
		ids = append(ids, r.id)
	}
	var ticket *Ticket
	var err error
	if dead {
		ticket, err = p.w.DeleteAsync(s.t.Context(), keysOf(s.t, ids...))
	} else {
		ticket, err = p.w.PutAsync(s.t.Context(), batchOf(s.t, values...))
	}
	s.tracef("P%d.%d puts %v: %v", p.name, p.run, rows, err)
	if err != nil {
		s.allowed("put", err)
		for _, r := range rows {
			delete(s.issued, r.n) // it was refused: it must never be found
		}
		s.crash(p) // as a service would, to start again
		return
	}
	p.tickets = append(p.tickets, simTicket{ticket, rows, p.w.Stats().Epoch})
}

func (s *sim) read(p *process) {
	snap, err := p.w.Snapshot()
	if err != nil {
		s.allowed("snapshot", err)
		return
	}
	s.checkSnapshot(snap)
	p.snaps = append(p.snaps, snap)
	if len(p.snaps) > 3 {
		p.snaps[0].Close()
		p.snaps = p.snaps[1:]
	}
}

// readLog reads the log past all faults, and checks what must be true of it at
// any time.
func (s *sim) readLog() {
	w := replay.NewWalker(replay.Config{Store: s.disk, Dir: layoutOf(testShard).wal, From: wal.Start()})
	defer w.Close()
	var log []simRow
	dead := 0
	seen := map[int64]bool{}
	last := map[int]int64{} // by incarnation
	for {
		step, err := w.Next(context.Background())
		if err != nil {
			s.failf("the log: %v", err)
			return
		}
		if step == nil {
			break
		}
		if !step.Live {
			dead++
		}
		if step.Live {
			for _, b := range step.Entry.Batches {
				for i := range int(b.NumRows()) {
					log = append(log, s.decode(b.Column(0).(*array.Int64).Value(i), b.Column(2).(*array.Int64), b.Columns(), i))
				}
			}
		}
		step.Entry.Release()
	}
	for i := range log {
		r := &log[i]
		if r.dead { // a tombstone has the key only
			continue
		}
		want, ok := s.issued[r.n]
		switch {
		case !ok || want != *r:
			s.failf("row %d of the log is %+v, which nobody put (%+v)", i, *r, want)
		case seen[r.n]:
			s.failf("row %d of the log, %+v, is there twice", i, *r)
		case r.n < last[s.order[r.n]]:
			s.failf("row %d of the log, n=%d, comes after n=%d of the same writer", i, r.n, last[s.order[r.n]])
		}
		seen[r.n], last[s.order[r.n]] = true, r.n
	}
	for i, r := range s.history {
		if i >= len(log) || log[i] != r {
			s.failf("row %d of the log was %+v, and is not any more", i, r)
			return
		}
	}
	for at, ack := range s.acked {
		if at >= uint64(len(log)) {
			s.failf("row %d, n=%d, was acknowledged and is not in the log of %d rows", at, ack.n, len(log))
			return
		}
		if got, want := log[at], s.issued[ack.n]; got.dead != want.dead || got.id != want.id || !got.dead && got.n != ack.n {
			s.failf("row %d was acknowledged as %+v and is %+v", at, want, got)
			return
		}
	}
	s.history, s.reached.dead, s.reached.lost = log, dead, len(s.issued)-len(log)
}

// decode makes a row of what is stored; the last column tells tombstones.
func (s *sim) decode(id int64, n *array.Int64, cols []arrow.Array, i int) simRow {
	if s.keyed && cols[len(cols)-1].(*array.Boolean).Value(i) {
		return simRow{n: -1, id: id, dead: true}
	}
	return simRow{n: n.Value(i), id: id}
}

// checkSnapshot compares everything that a snapshot says with the log.
func (s *sim) checkSnapshot(snap *Snapshot) {
	s.readLog()
	if s.t.Failed() {
		return
	}
	if snap.Bound() > uint64(len(s.history)) {
		s.failf("a snapshot shows %d rows, the log has %d", snap.Bound(), len(s.history))
		return
	}
	covered := s.history[:snap.Bound()]
	newest := map[int64]int{}
	for i, r := range covered {
		newest[r.id] = i
	}
	var want []testRow
	for i, r := range covered {
		if newest[r.id] == i && !r.dead {
			want = append(want, testRow{r.id, fmt.Sprint(r.n), r.n})
		}
	}
	if got := snapshotRows(s.t, snap); !slices.Equal(got, want) {
		s.failf("scan of %d rows: got %v, want %v", snap.Bound(), got, want)
	}
	ctx := context.Background()
	r, err := snap.Range(ctx, "by_n", index.Range{}, ScanOptions{})
	if err != nil {
		s.failf("range: %v", err)
		return
	}
	byN := slices.Clone(want)
	slices.SortFunc(byN, func(a, b testRow) int { return int(a.n - b.n) })
	if got := readRows(s.t, r); !slices.Equal(got, byN) {
		s.failf("range over %d rows: got %v, want %v", snap.Bound(), got, byN)
	}
	if !s.keyed {
		return
	}
	for id := range int64(5) {
		row, err := snap.Lookup(ctx, id)
		at, known := newest[id]
		switch {
		case err != nil:
			s.failf("lookup: %v", err)
		case !known && row.Presence != Absent, known && covered[at].dead && row.Presence != Deleted,
			known && !covered[at].dead && (row.Presence != Present || row.Ordinal != uint64(at)):
			s.failf("lookup of %d in %d rows: got %v at %d, the newest is row %d", id, snap.Bound(), row.Presence, row.Ordinal, at)
		}
	}
}

// checkOpened is called when an open has returned: all that writers before it
// have acknowledged by then is there.
func (s *sim) checkOpened(w *Writer) {
	snap, err := w.Snapshot()
	if err != nil {
		s.allowed("snapshot", err)
		return
	}
	defer snap.Close()
	s.reached.recovered += int(snap.Bound())
	s.checkSnapshot(snap)
	for at, ack := range s.acked {
		// Those of a higher epoch fenced this one while its last reply was on its way.
		if at >= snap.Bound() && ack.epoch < w.Stats().Epoch {
			s.failf("row %d was acknowledged by epoch %d before the open of epoch %d returned, which shows %d rows",
				at, ack.epoch, w.Stats().Epoch, snap.Bound())
		}
	}
}

// finish lets go of everything, and then opens the shard once more, in peace.
func (s *sim) finish() {
	s.settle()
	for _, p := range s.procs {
		s.crash(p)
	}
	for _, io := range s.ghosts {
		io.Clear()
		io.ReleaseAll()
	}
	for _, p := range s.procs {
		p.io.Clear()
	}
	for _, v := range s.viewers {
		v.io.Clear()
		v.io.ReleaseAll()
	}
	for range 200 { // calls under way end
		s.settle()
		for _, io := range s.ghosts {
			io.ReleaseAll()
		}
		for _, v := range s.viewers {
			v.io.ReleaseAll()
		}
		time.Sleep(10 * time.Second)
	}
	s.settle()
	for _, v := range s.viewers {
		if v.r == nil {
			continue
		}
		if err := v.r.Refresh(s.t.Context()); err != nil {
			s.failf("last refresh: %v", err)
		}
		s.checkRefreshed(v, s.acknowledged())
		v.r.Close()
	}
	s.readLog()
	if s.t.Failed() {
		return
	}
	ctx := s.t.Context()
	for range 2 { // opening changes nothing
		if err := UnsealShard(ctx, s.disk, testShard, nil); err != nil && !errors.Is(err, ErrInvalid) {
			s.failf("last unseal: %v", err)
			return
		}
		before := len(s.history)
		w, err := Open(ctx, s.disk, testShard, testSchema, &s.base)
		if err != nil {
			s.failf("last open: %v", err)
			return
		}
		s.checkOpened(w)
		if len(s.history) != before {
			s.failf("the log had %d rows before an open and %d after it", before, len(s.history))
		}
		p := &process{name: -1, run: s.opens + 1, w: w, io: s.procs[0].io}
		s.opens++
		s.put(p)
		if err := w.Close(ctx); err != nil {
			s.failf("last close: %v", err)
		}
		s.collect(p)
		s.readLog()
	}
	s.tracef("reached: %+v", s.reached)
}
