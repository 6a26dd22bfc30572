//go:build unix

package fight

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// finding is a rule that was broken, under the id of its behaviour.
type finding struct {
	id   string
	text string
}

// trial compares what the children of one round have reported with what the shard
// holds.
type trial struct {
	keyed  bool
	events []event // in order of moments
	log    *history

	found []finding
	tally tally

	opens   map[int]*openCall
	epochs  map[uint64]*openCall // that returned
	batches map[int64]event      // as issued, by First
	rows    map[int64]*putRow    // by n
	at      map[int64]int        // n: ordinal in the log; tombstones are not there
}

func newTrial(keyed bool, events []event, log *history) *trial {
	return &trial{
		keyed: keyed, events: events, log: log, opens: map[int]*openCall{}, epochs: map[uint64]*openCall{},
		batches: map[int64]event{}, rows: map[int64]*putRow{}, at: map[int64]int{},
	}
}

// byEpoch returns the opens that returned, in the order of their epochs.
func (t *trial) byEpoch() []*openCall {
	return slices.SortedFunc(maps.Values(t.epochs), func(a, b *openCall) int { return cmp.Compare(a.epoch, b.epoch) })
}

// place returns the ordinal of r in the log, as far as it is known: of a deletion
// only its acknowledgement tells.
func (t *trial) place(r *putRow) (at int, ok bool) {
	if r.del {
		return int(r.ordinal), r.ordinal >= 0
	}
	at, ok = t.at[r.n]
	return at, ok
}

// openCall is one call of Open.
type openCall struct {
	number   int
	process  int
	epoch    uint64 // 0: it did not return a writer
	bound    uint64 // rows that it found
	opened   moment
	fencedAt moment // the writer said so; 0: never
	endedAt  moment
	lost     uint64 // the claim that was fenced before it returned
}

// putRow is a row that was issued, or whose key was to be deleted.
type putRow struct {
	n       int64
	open    *openCall
	lane    int
	issued  moment
	del     bool
	refused bool
	acked   moment // 0: it was not, as far as is known
	ordinal int64  // where it was acknowledged; -1: not told
}

// least returns the smaller moment that is not 0.
func least(a, b moment) moment {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

func (t *trial) fail(id, format string, args ...any) {
	t.found = append(t.found, finding{id, fmt.Sprintf(format, args...)})
}

// judge checks everything.
func (t *trial) judge() {
	slices.SortStableFunc(t.events, func(a, b event) int { return cmp.Compare(a.At, b.At) })
	for _, e := range t.events {
		t.take(e)
	}
	t.index()
	t.claims()
	t.acknowledged()
	t.recovered()
	t.tombstones()
	t.afterFences()
	t.realTime()
	t.lanes()
	t.snapshots()
}

// take makes a record of an event.
func (t *trial) take(e event) {
	o := t.opens[e.Open]
	if o == nil {
		o = &openCall{number: e.Open, process: e.process}
		t.opens[e.Open] = o
	}
	switch e.Kind {
	case opening:
		t.tally.opens++
	case opened:
		o.epoch, o.bound, o.opened = e.Epoch, e.Row, e.At
		if other := t.epochs[e.Epoch]; other != nil {
			t.fail("F01", "epoch %d was given to open %d and to open %d", e.Epoch, other.number, o.number)
		}
		t.epochs[e.Epoch] = o
		t.tally.opened++
		t.tally.recovered += int(e.Row)
	case notOpened:
		o.lost = e.Epoch
		if e.Epoch > 0 {
			t.tally.fencedOpens++
		}
	case issued:
		for n := e.First; n < e.First+int64(e.Rows); n++ {
			if t.rows[n] != nil {
				t.fail("harness", "row n=%d was issued twice", n)
			}
			t.rows[n] = &putRow{n: n, open: o, lane: e.Lane, issued: e.At, del: e.Delete, ordinal: -1}
		}
		t.batches[e.First] = e
		t.tally.issued += e.Rows
	case refused, acked:
		for i := range int64(t.batches[e.First].Rows) {
			r := t.rows[e.First+i]
			r.refused = e.Kind == refused
			if e.Kind == acked {
				r.acked = e.At
				if e.Placed {
					r.ordinal = int64(e.Row) + i
				}
				t.tally.acked++
			}
		}
	case fenced:
		o.fencedAt = e.At
		t.tally.fencedWriters++
	case woken:
		t.tally.woken += e.Rows
	case ended:
		o.endedAt = e.At
	case violation:
		t.fail(e.ID, "process %d: %s", e.process, e.Text)
	}
}

// index finds each row of the log, once.
func (t *trial) index() {
	for at, r := range t.log.rows {
		if r.dead {
			continue
		}
		switch p := t.rows[r.n]; {
		case p == nil || p.del:
			t.fail("I5", "row %d of the log, n=%d, was never put", at, r.n)
		case p.refused:
			t.fail("I12", "row %d of the log, n=%d, is one whose put was refused", at, r.n)
		case p.open.epoch != r.epoch:
			t.fail("F01", "row %d of the log, n=%d, was put with epoch %d and is in an entry of epoch %d", at, r.n, p.open.epoch, r.epoch)
		}
		if before, twice := t.at[r.n]; twice {
			t.fail("I6", "row n=%d is in the log twice, as row %d and %d", r.n, before, at)
		}
		t.at[r.n] = at
	}
	t.tally.rows += len(t.log.rows)
	t.tally.entries += t.log.live
	t.tally.dead += len(t.log.dead)
}

// claims checks epochs: each is claimed by one call of Open, which makes no second
// claim, and has its fence in the log before Open returns.
func (t *trial) claims() {
	byOpen := map[int]uint64{}
	for _, m := range t.log.claims {
		var open int
		if len(m.Indexes) != 1 {
			t.fail("harness", "the claim of epoch %d has %d indexes", m.Epoch, len(m.Indexes))
			continue
		}
		if _, err := fmt.Sscanf(m.Indexes[0].Name, "by_n_%d", &open); err != nil {
			t.fail("harness", "index %q: %v", m.Indexes[0].Name, err)
			continue
		}
		if before, ok := byOpen[open]; ok {
			t.fail("F10", "one call of Open (%d) has claimed epoch %d and then epoch %d", open, before, m.Epoch)
		}
		byOpen[open] = m.Epoch
		if o := t.epochs[m.Epoch]; o != nil && o.number != open {
			t.fail("F01", "epoch %d was claimed by open %d, and open %d has it", m.Epoch, open, o.number)
		}
		if o := t.opens[open]; o == nil {
			t.fail("F01", "epoch %d was claimed by open %d, which nobody called", m.Epoch, open)
		} else if o.lost > 0 && o.lost != m.Epoch {
			t.fail("F10", "open %d says that its claim of epoch %d was fenced; it has claimed epoch %d", open, o.lost, m.Epoch)
		}
	}
	for epoch, o := range t.epochs {
		if byOpen[o.number] != epoch {
			t.fail("F01", "open %d returned with epoch %d, which the manifest does not say", o.number, epoch)
		}
		below, ok := t.log.fences[epoch]
		switch {
		case !ok:
			t.fail("F02", "open %d returned with epoch %d, whose fence is not in the log", o.number, epoch)
		case below != o.bound:
			t.fail("R13", "open %d found %d rows, below its fence are %d", o.number, o.bound, below)
		}
	}
	t.takeovers()
}

// takeovers counts the opens that took the shard from another process that was not
// done with it.
func (t *trial) takeovers() {
	opens := t.byEpoch()
	for i := 1; i < len(opens); i++ {
		old, next := opens[i-1], opens[i]
		if old.process != next.process && (old.endedAt == 0 || old.endedAt > next.opened) {
			t.tally.takeovers++
		}
	}
}

// acknowledged checks that every acknowledged row is in the log, where it was said
// to be, in an entry of the epoch that acknowledged it.
func (t *trial) acknowledged() {
	byOrdinal := map[int64]*putRow{}
	for _, r := range t.rows {
		if r.acked == 0 {
			continue
		}
		if r.ordinal >= 0 {
			if other := byOrdinal[r.ordinal]; other != nil {
				t.fail("F01", "row %d was acknowledged twice: n=%d and n=%d", r.ordinal, other.n, r.n)
			}
			byOrdinal[r.ordinal] = r
		}
		at, ok := t.at[r.n]
		if r.del {
			if r.ordinal < 0 {
				continue // counted by tombstones
			}
			at, ok = int(r.ordinal), r.ordinal < int64(len(t.log.rows)) &&
				t.log.rows[r.ordinal].dead && t.log.rows[r.ordinal].id == idOf(t.keyed, r.n)
		}
		switch {
		case !ok:
			t.tally.losses++
			t.fail("I5", "row n=%d (delete: %t) was acknowledged by epoch %d, at %d, and is not in the log of %d rows",
				r.n, r.del, r.open.epoch, r.ordinal, len(t.log.rows))
		case r.ordinal >= 0 && r.ordinal != int64(at):
			t.fail("I5", "row n=%d was acknowledged as row %d and is row %d", r.n, r.ordinal, at)
		case t.log.rows[at].epoch != r.open.epoch:
			t.fail("F01", "row n=%d was acknowledged by epoch %d and is in an entry of epoch %d", r.n, r.open.epoch, t.log.rows[at].epoch)
		}
	}
}

// recovered checks what opens found: all that epochs before had had acknowledged,
// and nothing of its own or later ones. It was there already.
func (t *trial) recovered() {
	for _, r := range t.rows {
		if r.ordinal < 0 || r.acked == 0 {
			continue
		}
		if r.open.bound > uint64(r.ordinal) {
			t.fail("F01", "row %d was acknowledged by epoch %d, which had found %d rows", r.ordinal, r.open.epoch, r.open.bound)
		}
	}
	// Epochs do not decrease along the log, so each bound parts lower from higher ones.
	for _, o := range t.byEpoch() {
		if o.bound > uint64(len(t.log.rows)) {
			t.fail("R13", "open %d found %d rows, the log has %d", o.number, o.bound, len(t.log.rows))
			continue
		}
		if o.bound > 0 && t.log.rows[o.bound-1].epoch >= o.epoch {
			t.fail("R13", "open %d of epoch %d found row %d, of epoch %d", o.number, o.epoch, o.bound-1, t.log.rows[o.bound-1].epoch)
		}
		if o.bound < uint64(len(t.log.rows)) && t.log.rows[o.bound].epoch < o.epoch {
			t.fail("R13", "open %d of epoch %d did not find row %d, of epoch %d", o.number, o.epoch, o.bound, t.log.rows[o.bound].epoch)
		}
	}
}

// tombstones have no number: of each key and epoch there are no fewer than were
// acknowledged and no more than were issued.
func (t *trial) tombstones() {
	type what struct {
		epoch uint64
		id    int64
	}
	least, most, got := map[what]int{}, map[what]int{}, map[what]int{}
	for _, r := range t.rows {
		if !r.del {
			continue
		}
		k := what{r.open.epoch, idOf(t.keyed, r.n)}
		if r.acked > 0 {
			least[k]++
		}
		if !r.refused {
			most[k]++
		}
	}
	for _, r := range t.log.rows {
		if r.dead {
			got[what{r.epoch, r.id}]++
		}
	}
	for k, n := range got {
		if n > most[k] {
			t.fail("I6", "the log has %d deletes of key %d by epoch %d, %d were issued", n, k.id, k.epoch, most[k])
		}
	}
	for k, n := range least {
		if got[k] < n {
			t.tally.losses += n - got[k]
			t.fail("I5", "the log has %d deletes of key %d by epoch %d, %d were acknowledged", got[k], k.id, k.epoch, n)
		}
	}
}

// afterFences checks that nobody acknowledges after being fenced. What was in the
// log below the fence may be acknowledged at any time. But a row that was not yet
// put when Open returned to another process, with a higher epoch, cannot be there.
func (t *trial) afterFences() {
	fencedSince := map[uint64]moment{} // epoch: when the first Open of a higher one returned
	var first moment
	for _, o := range slices.Backward(t.byEpoch()) {
		fencedSince[o.epoch] = first
		first = least(first, o.opened)
	}
	for _, r := range t.rows {
		since := fencedSince[r.open.epoch]
		_, inLog := t.at[r.n]
		if since > 0 && r.issued > since {
			t.tally.afterFence++
			if r.acked > 0 || inLog {
				t.fail("F10", "row n=%d was put by epoch %d at %d, after a higher one had been opened at %d; acknowledged: %t, in the log: %t",
					r.n, r.open.epoch, r.issued, since, r.acked > 0, inLog)
			}
		}
		if f := r.open.fencedAt; f > 0 && r.issued > f && (r.acked > 0 || inLog) {
			t.fail("F10", "row n=%d was put by a writer of epoch %d that knew that it was fenced; acknowledged: %t, in the log: %t",
				r.n, r.open.epoch, r.acked > 0, inLog)
		}
	}
}

// realTime checks that a row that was put after another one had been acknowledged,
// by whomever, comes after it.
func (t *trial) realTime() {
	top, who := -1, int64(0) // highest ordinal acknowledged so far
	for _, e := range t.events {
		switch e.Kind {
		case acked:
			for i := range int64(t.batches[e.First].Rows) {
				r := t.rows[e.First+i]
				if at, ok := t.place(r); ok && at > top {
					top, who = at, r.n
				}
			}
		case issued:
			for n := e.First; n < e.First+int64(e.Rows); n++ {
				if at, ok := t.place(t.rows[n]); ok && at <= top {
					t.fail("I3", "n=%d is row %d; it was put after n=%d had been acknowledged, which is row %d", n, at, who, top)
				}
			}
		}
	}
}

// lanes checks that rows of one putter keep their order.
func (t *trial) lanes() {
	type lane struct{ open, lane int }
	last := map[lane]int64{}
	for at, row := range t.log.rows {
		r := t.rows[row.n]
		if row.dead || r == nil {
			continue
		}
		k := lane{r.open.number, r.lane}
		if before, ok := last[k]; ok && before > row.n {
			t.fail("I3", "row %d, n=%d, comes after n=%d of the same putter", at, row.n, before)
		}
		last[k] = row.n
	}
}

// snapshots checks that every snapshot has shown a prefix of the log, newest
// version of each key, and that a reader has shown all that was acknowledged
// before it began to refresh.
func (t *trial) snapshots() {
	want := t.log.prefixes(t.keyed)
	type place struct {
		at  moment
		end uint64
	}
	var acks []place // ends grow
	for _, e := range t.events {
		if e.Kind == acked && e.Placed {
			end := e.Row + 1
			if n := len(acks); n > 0 {
				end = max(end, acks[n-1].end)
			}
			acks = append(acks, place{e.At, end})
		}
	}
	for _, e := range t.events {
		if e.Kind != saw {
			continue
		}
		t.tally.snapshots++
		if e.Since > 0 {
			t.tally.refreshes++
		}
		switch {
		case e.Row >= uint64(len(want)):
			t.fail("I5", "process %d was shown %d rows, the log has %d", e.process, e.Row, len(t.log.rows))
		case want[e.Row] != digest{e.Rows, e.Sum}:
			t.fail("I3", "process %d was shown %d rows, %d of them live, which are not those of the log (%d live)", e.process, e.Row, e.Rows, want[e.Row].rows)
		}
		if e.Since == 0 {
			continue
		}
		i, _ := slices.BinarySearchFunc(acks, e.Since, func(p place, m moment) int { return cmp.Compare(p.at, m) })
		if i > 0 && acks[i-1].end > e.Row {
			t.fail("reader", "a reader shows %d rows, row %d was acknowledged before it looked", e.Row, acks[i-1].end-1)
		}
	}
}
