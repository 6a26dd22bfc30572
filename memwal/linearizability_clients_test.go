package memwal

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/memwal/memwal-go/objstore"
)

// look reads everything that snap shows.
func (w *linWorld) look(snap *Snapshot) *linView {
	v := &linView{bound: snap.Bound()}
	ctx := context.Background()
	for rec, err := range snap.All(ctx, ScanOptions{Columns: []string{"id", "n"}, Ordinals: true}) {
		if err != nil {
			w.t.Errorf("scan: %v", err)
			return v
		}
		ids, n, ordinals := rec.Column(0).(*array.Int64), rec.Column(1).(*array.Int64), rec.Column(2).(*array.Uint64)
		for i := range int(rec.NumRows()) {
			v.rows = append(v.rows, linShown{ordinals.Value(i), ids.Value(i), n.Value(i)})
		}
	}
	if !w.keyed {
		return v
	}
	for id := range int64(linKeys) {
		row, err := snap.Lookup(ctx, id)
		if err != nil {
			w.t.Errorf("lookup: %v", err)
			return v
		}
		f := &v.found[id]
		if f.presence = row.Presence; f.presence == Present {
			f.ordinal, f.n = row.Ordinal, row.Column(2).(*array.Int64).Value(row.Index)
		}
		if f.presence == Deleted {
			w.count(func(s *linSeen) { s.deleted++ })
		}
	}
	return v
}

// linClient is one client of the service that writes.
type linClient struct {
	*linWorld
	me      int
	rand    *rand.Rand
	s       *linWriter // that it talks to
	tickets []*linTicket
	kept    []linKept
	puts    int64
}

func (w *linWorld) client(me int) {
	c := &linClient{linWorld: w, me: me, rand: w.rand(me)}
	c.work(c.step)
}

// work makes steps while there are keepers, and then looks at all that was kept.
func (c *linClient) work(step func()) {
	for n := 0; n < c.mix.steps && c.keeping.Load() > 0; {
		c.sleep(c.rand, 5)
		if c.follow() {
			step()
			n++
		}
	}
	for len(c.kept) > 0 {
		c.lookAgain()
	}
}

// follow makes the client talk to the newest writer, as a rule: some go on with
// an old one, ended or not.
func (c *linClient) follow() bool {
	cur := c.current.Load()
	if c.s == nil || c.rand.IntN(4) == 0 || c.s.ended.Load() && c.rand.IntN(3) > 0 {
		c.s = cur
	}
	// There may be no other yet. Most wait for it.
	return c.s != nil && (!c.s.ended.Load() || c.rand.IntN(6) == 0)
}

func (c *linClient) step() {
	switch n := c.rand.IntN(100); {
	case n < 45:
		if t := c.put(); t != nil {
			c.tickets = append(c.tickets, t)
			if c.rand.IntN(4) > 0 {
				c.wait()
			}
		}
	case n < 57:
		c.wait()
	case n < 75:
		c.snapshot(linSnapshot, c.s.w.Snapshot)
	case n < 81:
		c.snapshot(linIndexed, c.s.w.IndexedSnapshot)
	case n < 85:
		c.flush()
	case n < 88:
		ctx := c.t.Context()
		if began, err := c.now(), c.s.w.Rotate(ctx); err != nil {
			c.failed(ctx, c.me, began, c.s, "rotate", err)
		}
	case n < 95:
		c.lookAgain()
	default:
		c.refused()
	}
}

// newRows makes rows to put.
func (c *linClient) newRows() []linRow {
	dead := c.keyed && c.rand.IntN(4) == 0
	rows := make([]linRow, 1+c.rand.IntN(2))
	for i := range rows {
		c.puts++
		rows[i] = linRow{n: int64(c.me+1)*1_000_000 + c.puts, id: c.rand.Int64N(linKeys), dead: dead}
	}
	if len(rows) > 1 && rows[0].id == rows[1].id {
		rows = rows[:1]
	}
	for i := range rows {
		rows[i].more = i < len(rows)-1
	}
	return rows
}

// batchFor makes the batch of rows: keys to delete, or rows to put.
func (w *linWorld) batchFor(rows []linRow) arrow.RecordBatch {
	if rows[0].dead {
		ids := make([]int64, len(rows))
		for i, r := range rows {
			ids[i] = r.id
		}
		return keysOf(w.t, ids...)
	}
	values := make([]testRow, len(rows))
	for i, r := range rows {
		values[i] = testRow{r.id, "", r.n}
	}
	return batchOf(w.t, values...)
}

func (c *linClient) put() *linTicket {
	rows := c.newRows()
	rec := c.batchFor(rows)
	put := c.s.w.PutAsync
	if rows[0].dead {
		put = c.s.w.DeleteAsync
	}
	ctx, cancel := c.deadline(c.rand, 0, 0)
	defer cancel()
	began := c.now()
	ticket, err := put(ctx, rec)
	if err != nil {
		if !c.failed(ctx, c.me, began, c.s, "put", err) {
			c.t.Errorf("put: %v", err)
		}
		c.count(func(s *linSeen) { s.refused++ })
		return nil
	}
	c.record(c.me, began, linCall{kind: linPut, who: c.s.number, rows: rows}, linReply{row: ticket.FirstRow()})
	t := &linTicket{s: c.s, t: ticket, rows: rows}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range rows {
		c.accepted[r.n] = t
	}
	return t
}

// wait waits for one of the client's puts.
func (c *linClient) wait() {
	if len(c.tickets) == 0 {
		return
	}
	i := c.rand.IntN(len(c.tickets))
	t := c.tickets[i]
	call := linCall{kind: linWait, who: t.s.number, indexed: t.s.indexed}
	wait := t.t.Wait
	if c.rand.IntN(3) == 0 {
		call.indexed, wait = false, t.t.WaitDurable
	}
	ctx, cancel := c.deadline(c.rand, c.mix.cancel, 6)
	defer cancel()
	began, since := c.now(), time.Now()
	err := wait(ctx)
	switch {
	case err == nil:
		c.record(c.me, began, call, linReply{row: t.t.FirstRow() + uint64(t.t.Rows())})
		c.mu.Lock()
		c.seen.acked++
		t.acked = t.acked || !call.indexed
		if t.cancelled {
			c.seen.again++
		}
		c.mu.Unlock()
	case c.failed(ctx, c.me, began, t.s, "wait", err):
		t.s.mu.Lock()
		t.s.waits = append(t.s.waits, linWoken{since, time.Now()})
		t.s.mu.Unlock()
	default:
		t.cancelled = true // to be waited for again, perhaps
		return
	}
	c.tickets = slices.Delete(c.tickets, i, i+1)
}

func (c *linClient) flush() {
	end := c.s.w.Stats().Accepted
	ctx, cancel := c.deadline(c.rand, c.mix.cancel, 6)
	defer cancel()
	began := c.now()
	if err := c.s.w.Flush(ctx); err != nil {
		c.failed(ctx, c.me, began, c.s, "flush", err)
		return
	}
	c.record(c.me, began, linCall{kind: linFlush, who: c.s.number}, linReply{row: end})
}

func (c *linClient) snapshot(kind linKind, take func() (*Snapshot, error)) {
	began := c.now()
	snap, err := take()
	finish := c.now()
	if err != nil {
		c.failed(c.t.Context(), c.me, began, c.s, "snapshot", err)
		return
	}
	if c.rand.IntN(2) == 0 {
		c.sleep(c.rand, 3) // it does not matter when it is looked at
	}
	view := c.look(snap)
	c.recordAt(c.me, began, began, finish, linCall{kind: kind, who: c.s.number, indexed: c.s.indexed}, linReply{view: view})
	c.kept = append(c.kept, linKept{snap, view, c.s})
	if len(c.kept) > c.mix.keep {
		c.lookAgain()
	}
}

// lookAgain looks at a snapshot that was looked at before: it shows the same.
func (c *linClient) lookAgain() {
	if len(c.kept) == 0 {
		return
	}
	k := c.kept[0]
	c.kept = c.kept[1:]
	if v := c.look(k.snap); v.bound != k.view.bound || !slices.Equal(v.rows, k.view.rows) || v.found != k.view.found {
		c.t.Errorf("a snapshot showed %+v, and now shows %+v", *k.view, *v)
	}
	c.count(func(s *linSeen) {
		s.lookedAgain++
		if k.s.ended.Load() {
			s.outlived++
		}
	})
	k.snap.Close()
}

// keyClient is a client that puts and waits in one call, as most do.
func (w *linWorld) keyClient(me int) {
	c := &linClient{linWorld: w, me: me, rand: w.rand(me)}
	c.work(func() {
		if c.rand.IntN(2) == 0 {
			c.write()
		} else {
			c.snapshot(linSnapshot, c.s.w.Snapshot)
		}
	})
}

func (c *linClient) write() {
	rows := c.newRows()
	rec := c.batchFor(rows)
	put := c.s.w.Put
	if rows[0].dead {
		put = c.s.w.Delete
	}
	ctx, cancel := c.deadline(c.rand, c.mix.cancel, 6)
	defer cancel()
	ended := c.s.ended.Load() // then it is refused
	x := linWrite{client: c.me, s: c.s, rows: rows, call: c.now()}
	err := put(ctx, rec)
	x.finish, x.acked = c.now(), err == nil
	if err != nil {
		c.failed(ctx, c.me, x.call, c.s, "put", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if ended && !x.acked {
		c.seen.refused++
		return
	}
	c.writes = append(c.writes, x)
	if x.acked {
		c.spans = append(c.spans, linSpan{c.me, x.call, x.finish})
		c.seen.acked++
	}
}

// refused makes a put that stores nothing: its values must never be seen.
func (c *linClient) refused() {
	c.puts++
	rec := batchOf(c.t, testRow{0, "never", int64(c.me+1)*1_000_000 + c.puts})
	ctx, cancel := context.WithCancel(c.t.Context())
	defer cancel()
	want := ErrInvalid
	if c.rand.IntN(2) == 0 {
		cancel()
		want = context.Canceled
	} else {
		rec = keysOf(c.t, 0) // not all columns
	}
	began := c.now()
	_, err := c.s.w.PutAsync(ctx, rec)
	if errors.Is(err, want) {
		c.count(func(s *linSeen) { s.refused++ })
		return
	}
	if err == nil || !c.failed(ctx, c.me, began, c.s, "put", err) {
		c.t.Errorf("put: got %v, want %v", err, want)
	}
}

// read is a process that reads.
func (w *linWorld) read(me int) {
	r := w.rand(me)
	var own *linReader
	defer func() {
		if own != nil {
			own.r.Close()
		}
	}()
	for range w.mix.steps {
		if w.sleep(r, 8); w.keeping.Load() == 0 {
			return
		}
		if own == nil {
			own = w.openReader(me, r)
			continue
		}
		x := own
		if r.IntN(4) == 0 {
			x = w.reader.Load() // somebody else's, perhaps
		}
		began, refresh := w.now(), r.IntN(4) > 0
		if refresh {
			ctx, cancel := w.deadline(r, w.mix.cancel, 4)
			err := x.r.Refresh(ctx)
			cancel()
			if err != nil {
				if x == own || !errors.Is(err, ErrClosed) {
					w.allowed(ctx, "refresh", err)
				}
				continue
			}
		}
		w.show(me, began, refresh, x, x == own)
		if r.IntN(10) == 0 {
			own.r.Close()
			own = nil
		}
	}
}

func (w *linWorld) openReader(me int, r *rand.Rand) *linReader {
	early := w.current.Load() == nil
	o := &ReaderOptions{Retry: w.base.Retry, ReplayBytes: []int64{1, 1 << 20}[r.IntN(2)]}
	ctx, cancel := w.deadline(r, w.mix.cutOff, 12)
	defer cancel()
	began := w.now()
	opened, err := OpenReader(ctx, w.connect(r), testShard, o)
	if err != nil {
		if !early || !errors.Is(err, objstore.ErrNotExist) {
			w.allowed(ctx, "open a reader", err)
		}
		return nil
	}
	w.mu.Lock()
	x := &linReader{number: w.readers, r: opened}
	w.readers++
	w.mu.Unlock()
	w.show(me, began, true, x, true)
	w.reader.Store(x)
	return x
}

// show records what a reader shows, and the refresh before it that began then.
func (w *linWorld) show(me int, began int64, refresh bool, x *linReader, own bool) {
	taking := w.now()
	snap, err := x.r.Snapshot()
	finish := w.now()
	if err != nil {
		if own || !errors.Is(err, ErrClosed) {
			w.t.Errorf("read: %v", err)
		}
		return
	}
	defer snap.Close()
	view := w.look(snap)
	if refresh {
		w.recordAt(me, began, began, finish, linCall{kind: linRefresh, who: x.number}, linReply{view: view})
	}
	w.recordAt(me, taking, taking, finish, linCall{kind: linRead, who: x.number}, linReply{view: view})
}
