package simulation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing/synctest"

	"github.com/memwal/memwal-go/internal/manifest"
	"github.com/memwal/memwal-go/memwal"
	"github.com/memwal/memwal-go/objstore"
)

// writer is a process that writes.
type writer struct {
	name string
	io   *link
	// sides are the ways of its other calls. Each has one of its own, as two that
	// asked for the same at the same time could not be told apart in the trace.
	sides   []*link
	w       *memwal.Writer
	run     int // incarnation; -1: none
	epoch   uint64
	first   uint64 // ordinal of the first row that it loaded
	ctx     context.Context
	cancel  context.CancelFunc
	opening bool
	stalled int // steps to go
	tickets []ticket
	snaps   []*memwal.Snapshot
}

// ticket is a put whose outcome is not known yet.
type ticket struct {
	*memwal.Ticket
	rows  []row
	epoch uint64 // of the writer, which may have ended since
	io    *link  // its way to the store
}

// stepWriter lets a writer do something.
func (r *run) stepWriter(p *writer) {
	if p.io.killed.Load() {
		r.met["kills at a request"]++
		r.crash(p)
		return
	}
	if p.stalled > 0 {
		p.stalled--
		return
	}
	turn := r.draw()
	switch {
	case turn(2):
		p.stalled = r.rand.IntN(25)
		if r.slow {
			p.stalled *= 1 + r.rand.IntN(3)
		}
		r.trace.add("%s stalls for %d steps", p.name, p.stalled)
	case turn(r.crashes(p)):
		r.crash(p)
	case turn(1):
		switch {
		case r.rand.IntN(4) == 0:
			r.setStatus(p)
		case r.rand.IntN(10) == 0:
			r.openUnusable(p)
		}
	case p.w == nil && !p.opening && turn(30):
		r.open(p)
	case p.w == nil:
		r.release(p.io, 6)
	case turn(25):
		r.put(p)
	case turn(1):
		w := p.w
		r.async(p, p.io, "flush", func(ctx context.Context) error { return w.Flush(ctx) })
	case turn(1):
		w := p.w
		r.async(p, p.io, "rotate", func(ctx context.Context) error { return w.Rotate(ctx) })
	case turn(1):
		r.close(p)
	case turn(r.pace.floor):
		r.moveFloor(p)
	case turn(3):
		r.read(p)
	case turn(2):
		for _, s := range p.snaps { // answers do not change
			r.must(r.oracle.checkSnapshot(s, p.first, r.keyed))
			s.Close()
		}
		p.snaps = nil
	default: // the likeliest: some requests go on
		io := p.io
		if n := r.rand.IntN(1 + 2*len(p.sides)); n < len(p.sides) {
			io = p.sides[n]
		}
		r.release(io, 6)
	}
}

// aside connects a call of p that goes on beside others.
func (r *run) aside(p *writer) *link {
	io := r.connect(p.name)
	io.run.Store(int64(max(0, p.run)))
	p.sides = append(p.sides, io)
	return io
}

// async makes a call over io whose ending only its error matters of.
func (r *run) async(p *writer, io *link, op string, do func(context.Context) error, also ...error) {
	name, ctx, epoch := fmt.Sprintf("%s.%d", p.name, p.run), p.ctx, p.epoch
	if ctx == nil {
		ctx = r.ctx
	}
	r.trace.add("%s %s", name, op)
	r.call(func() func() {
		err := do(ctx)
		return func() {
			r.trace.add("%s %s: %s", name, op, short(err))
			if err != nil {
				r.explained(io, r.oracle.rivalOf(epoch, io), op, err, also...)
			}
		}
	})
}

func (r *run) open(p *writer) {
	p.opening = true
	r.opens++
	p.run = r.opens
	run, io, o := p.run, p.io, r.base
	io.run.Store(int64(run))
	if o.MaxInFlight = 1 + r.rand.IntN(o.MaxInFlight); r.rand.IntN(3) == 0 {
		o.MaxInFlight = 1
	}
	p.ctx, p.cancel = context.WithCancel(r.ctx)
	ctx := p.ctx
	before := r.oracle.lastClaim()
	r.trace.add("%s.%d opens", p.name, run)
	r.call(func() func() {
		w, err := memwal.Open(ctx, io, shard, tableSchema, &o)
		return func() {
			r.trace.add("%s.%d open: %s", p.name, run, short(err))
			if p.run == run {
				p.opening = false
			}
			switch {
			case err != nil:
				r.explained(io, r.oracle.rivalOf(before, io), "open", err)
			case p.run != run || p.io != io: // crashed meanwhile
				_ = w.Abort()
			default:
				p.w = w
				r.met["opens"]++
				r.checkOpened(p)
			}
		}
	})
}

// openUnusable opens the shard through a store that ignores the condition of puts:
// it must be refused, and have disturbed nobody.
func (r *run) openUnusable(p *writer) {
	io := r.connectUnusable(p.name + " without conditions")
	p.sides = append(p.sides, io)
	o := r.base
	r.async(p, io, "open without conditions", func(ctx context.Context) error {
		w, err := memwal.Open(ctx, io, shard, tableSchema, &o)
		if err == nil {
			_ = w.Abort()
		}
		if err == nil && !r.ending {
			err = errors.New("a store that ignores conditions was accepted")
		}
		return err
	}, objstore.ErrConditionIgnored)
}

// checkOpened is called when an open has returned: all that writers before it have
// acknowledged by then is there.
func (r *run) checkOpened(p *writer) {
	st := p.w.Stats()
	p.epoch = st.Epoch
	r.must(r.oracle.checkClaim(p.epoch))
	if st.Open.Rows > 0 {
		r.met["opens that replayed rows"]++
	}
	if st.Epoch > 1 {
		r.met["takeovers"]++
	}
	s, err := p.w.Snapshot()
	if err != nil {
		r.explained(p.io, r.oracle.rivalOf(p.epoch, nil), "snapshot", err)
		return
	}
	defer s.Close()
	p.first = s.Bound() - min(s.Bound(), st.Open.Rows)
	if !r.isFloor(p.first) {
		r.fail("an open loads rows from %d on, where no floor ever was", p.first)
	}
	r.met["rows recovered"] += int(st.Open.Rows)
	r.must(r.oracle.checkSnapshot(s, p.first, r.keyed))
	// Those of a higher epoch fenced this one while its last reply was on its way.
	if want := r.oracle.acknowledged(p.epoch); s.Bound() < want {
		r.fail("%d rows were acknowledged before the open of epoch %d returned, which shows %d", want, p.epoch, s.Bound())
	}
}

func (r *run) isFloor(next uint64) bool {
	for _, row := range r.oracle.floors {
		if row == next {
			return true
		}
	}
	return false
}

// crashes is the chance, of 100, that p crashes now.
func (r *run) crashes(p *writer) int {
	if n, _ := r.sending(p.io); n > 1 {
		return r.pace.crash // it leaves a hole behind
	}
	return 1
}

// crash ends p without a word. Its puts on the wire may land at any time.
func (r *run) crash(p *writer) {
	r.trace.add("%s.%d crashes", p.name, p.run)
	for _, l := range append(p.sides, p.io) {
		l.ended = true
	}
	if p.cancel != nil {
		p.cancel()
	}
	r.drop(p, func(w *memwal.Writer) { _ = w.Abort() })
	p.run, p.ctx, p.opening = -1, nil, false
	synctest.Wait()
	for range r.rand.IntN(4) { // some of them do at once
		p.io.ReleaseOne()
		synctest.Wait()
	}
	r.orphans = append(append(r.orphans, p.io), p.sides...)
	p.io, p.sides = r.connect(p.name), nil
}

func (r *run) close(p *writer) {
	io := p.io
	io.ended = true
	p.io, p.sides = r.connect(p.name), append(p.sides, io)
	r.drop(p, func(w *memwal.Writer) {
		r.async(p, io, "close", func(ctx context.Context) error { return w.Close(ctx) })
	})
}

func (r *run) drop(p *writer, end func(*memwal.Writer)) {
	for _, s := range p.snaps {
		s.Close()
	}
	p.snaps = nil
	if p.w == nil {
		return
	}
	st := p.w.Stats()
	r.met["entries put again"] += int(st.WAL.Reissued)
	r.met["ownership checks"] += int(st.WAL.OwnershipChecks)
	end(p.w)
	r.settle() // tickets of this incarnation get their outcome
	p.w = nil
}

func (r *run) setStatus(p *writer) {
	if r.opens == 0 {
		return
	}
	io, o, seal := r.aside(p), r.base, r.rand.IntN(2) == 0
	r.async(p, io, fmt.Sprintf("seal (%t)", seal), func(ctx context.Context) error {
		if seal {
			if err := memwal.SealShard(ctx, io, shard, &o); err != nil {
				return err
			}
		}
		return memwal.UnsealShard(ctx, io, shard, &o)
	}, memwal.ErrInvalid) // there is no shard yet
}

// put puts some rows, or deletes some keys.
func (r *run) put(p *writer) {
	dead := r.keyed && r.rand.IntN(5) == 0
	var rows []row
	for range 1 + r.rand.IntN(2) {
		x := row{id: r.nextN, n: r.nextN, dead: dead}
		if r.keyed {
			x.id = r.rand.Int64N(keys)
		}
		r.nextN++
		r.oracle.issued[x.n] = issue{x, p.run}
		if dead {
			r.oracle.buried[x.id]++
		}
		rows = append(rows, x)
	}
	put := p.w.PutAsync
	if dead {
		put = p.w.DeleteAsync
	}
	rec := batchOf(rows)
	defer rec.Release()
	t, err := put(r.ctx, rec)
	r.trace.add("%s.%d puts %v: %s", p.name, p.run, rows, short(err))
	if err != nil {
		r.explained(p.io, r.oracle.rivalOf(p.epoch, nil), "put", err)
		for _, x := range rows { // it was refused: it must never be found
			delete(r.oracle.issued, x.n)
			if x.dead {
				r.oracle.buried[x.id]--
			}
		}
		r.crash(p) // as a service would, to start again
		return
	}
	r.met["rows put"] += len(rows)
	p.tickets = append(p.tickets, ticket{t, rows, p.epoch, p.io})
}

// collect looks at the tickets of p whose outcome is known.
func (r *run) collect(p *writer) {
	p.tickets = slices.DeleteFunc(p.tickets, func(t ticket) bool {
		select {
		case <-t.Done():
		default:
			return false
		}
		if err := t.Err(); err != nil {
			r.explained(t.io, r.oracle.rivalOf(t.epoch, nil), "put", err)
			return true
		}
		r.trace.add("%s.%d: rows %d+%d are acknowledged", p.name, p.run, t.FirstRow(), len(t.rows))
		for i, x := range t.rows {
			r.must(r.oracle.acknowledge(t.FirstRow()+uint64(i), x, t.epoch))
		}
		r.met["rows acknowledged"] += len(t.rows)
		return true
	})
}

func (r *run) read(p *writer) {
	s, err := p.w.Snapshot()
	if err != nil {
		r.explained(p.io, r.oracle.rivalOf(p.epoch, nil), "snapshot", err)
		return
	}
	r.must(r.oracle.checkSnapshot(s, p.first, r.keyed))
	r.met["snapshots"]++
	p.snaps = append(p.snaps, s)
	if len(p.snaps) > 3 {
		p.snaps[0].Close()
		p.snaps = p.snaps[1:]
	}
}

// moveFloor does what a flush of generations does in the end: it commits that rows
// which the writer knows to be durable need the log no more.
func (r *run) moveFloor(p *writer) {
	targets := r.oracle.floorsFor(p.w.Stats().Durable, r.oracle.maxFloor)
	if len(targets) == 0 {
		return
	}
	to := targets[r.rand.IntN(len(targets))]
	r.oracle.floors[to.Position] = to.NextRow
	r.oracle.maxFloor = max(r.oracle.maxFloor, to.Position)
	io, epoch := r.aside(p), p.epoch
	log := r.manifests(io)
	r.async(p, io, fmt.Sprintf("move the floor to %d", to.Position), func(ctx context.Context) error {
		m, err := log.Newest(ctx)
		if err != nil {
			return err
		}
		if m == nil {
			return manifest.ErrNotFound
		}
		if m.Epoch != epoch {
			return memwal.ErrFenced
		}
		_, err = log.Update(ctx, m.Owner(), func(m *manifest.Manifest) error {
			if m.RowsFloor().Position >= to.Position {
				return manifest.ErrUnchanged
			}
			m.SetFloor(manifest.Floor{Plane: manifest.PlaneRows, Kind: manifest.Snapshot, Tuple: to})
			m.LastSeen = max(m.LastSeen, to.Position)
			return nil
		})
		return err
	})
}

// manifests is the manifest as somebody commits to it who has io.
func (r *run) manifests(io *link) *manifest.Log {
	return manifest.New(objstore.WithRetry(io, r.base.Retry), manifestDir, &manifest.Options{
		OwnershipCheckAfter: r.base.OwnershipCheckAfter, Rand: r.base.Retry.Rand,
	})
}
