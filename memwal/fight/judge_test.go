//go:build unix

package fight

import (
	"context"
	"slices"
	"time"

	"github.com/memwal/memwal-go/memwal"
)

// judge compares all that was said with all that is there.
func (r *round) judge(w *witness) {
	ctx := context.Background()
	if canProxy(r.url) {
		time.Sleep(500 * time.Millisecond) // requests of the dead land
	}
	for _, way := range r.ways {
		way.close()
		r.tally.lostAnswers += int(way.lost.Load())
	}
	changed, err := w.changed(ctx)
	if err != nil {
		r.fail("harness", "look at the objects again: %v", err)
	}
	for _, key := range changed {
		r.fail("F01", "an object was changed after it had been written: %s", key)
	}
	r.tally.objects = len(w.seen)
	before, err := readHistory(ctx, r.store, r.shard, r.keyed)
	if err != nil {
		r.fail("I5", "read the log: %v", err)
		return
	}
	t := newTrial(r.keyed, slices.Clone(r.events), before)
	t.judge()
	r.found = append(r.found, t.found...)
	r.tally.add(t.tally)
	r.tally.rounds = 1
	r.tallyProcesses(t)

	if len(r.found) == 0 {
		r.reopen(ctx, before)
	}
}

// tallyProcesses counts what the processes were about when they were stopped and
// killed.
func (r *round) tallyProcesses(t *trial) {
	killed := map[int]bool{}
	last := map[int]event{}   // process: how its last call of Open stood
	quiet := map[int]bool{}   // it had put nothing since
	final := map[int]moment{} // of the last report
	for _, e := range t.events {
		switch e.Kind {
		case opening, opened, notOpened, fenced, ended:
			last[e.process], quiet[e.process] = e, true
		case issued:
			quiet[e.process] = false
		}
		final[e.process] = e.At
	}
	for _, p := range r.gone {
		if p.Role != roleWriter || p.signalled == 0 || !p.killed() {
			continue
		}
		killed[p.Process] = true
		switch e := last[p.Process]; {
		case e.Kind == opening:
			r.tally.killsOpening++
		case e.Kind == opened && quiet[p.Process]:
			r.tally.killsOpened++
		}
		if e := last[p.Process]; e.Kind == opened && t.owner(final[p.Process]+1) == p.Process {
			r.tally.killsOwner++
		}
	}
	for _, h := range t.log.dead {
		if o := t.epochs[h.Epoch]; o != nil && killed[o.process] {
			r.tally.deadOfKilled++
		}
	}
	for _, s := range r.stops {
		p := r.process(s.process)
		if p.Role == roleReader {
			r.tally.readerStops++
			continue
		}
		r.tally.stops++
		if t.owner(s.from) != s.process {
			continue
		}
		r.tally.stopsOwner++
		if s.lasted > checkAfter {
			r.tally.stopsPast++
		}
		if o := t.owner(s.to); o != 0 && o != s.process {
			r.tally.overslept++
		}
	}
}

func (r *round) process(number int) *process {
	i := slices.IndexFunc(r.gone, func(p *process) bool { return p.Process == number })
	return r.gone[i]
}

// owner is the process whose open writer has the highest epoch of all that were
// opened before m, if it has not said that it was fenced or closed by then; 0: nobody.
func (t *trial) owner(m moment) int {
	var top *openCall
	for _, o := range t.epochs {
		if o.opened < m && (top == nil || o.epoch > top.epoch) {
			top = o
		}
	}
	if top == nil || top.fencedAt > 0 && top.fencedAt < m || top.endedAt > 0 && top.endedAt < m {
		return 0
	}
	return top.process
}

// reopen opens the shard in peace, twice: what is there is what the log says, and
// opening changes nothing.
func (r *round) reopen(ctx context.Context, log *history) {
	for range 2 {
		j := r.job(roleWriter, r.shard, r.tuning)
		j.Keyed = r.keyed
		w, err := memwal.Open(ctx, r.store, r.shard, schema, j.writerOptions(j.Process*1000, 4))
		if err != nil {
			r.fail("R13", "open in the end: %v", err)
			return
		}
		r.compare(ctx, w.Snapshot, log, "a writer that was opened in the end")
		if err := w.Close(ctx); err != nil {
			r.fail("R13", "close in the end: %v", err)
		}
		again, err := readHistory(ctx, r.store, r.shard, r.keyed)
		if err != nil {
			r.fail("R13", "read the log after an open: %v", err)
			return
		}
		if !slices.Equal(again.rows, log.rows) {
			r.fail("R13", "the log had %d rows before an open and has %d, or others, after it", len(log.rows), len(again.rows))
		}
	}
	reader, err := memwal.OpenReader(ctx, r.store, r.shard, nil)
	if err != nil {
		r.fail("reader", "open in the end: %v", err)
		return
	}
	defer reader.Close()
	r.compare(ctx, reader.Snapshot, log, "a reader that was opened in the end")
}

// compare holds a snapshot against the whole log.
func (r *round) compare(ctx context.Context, take func() (*memwal.Snapshot, error), log *history, who string) {
	s, err := take()
	if err != nil {
		r.fail("I5", "%s: %v", who, err)
		return
	}
	defer s.Close()
	got, err := digestOf(ctx, r.keyed, s)
	want := log.prefixes(r.keyed)[len(log.rows)]
	if err != nil || got != want || s.Bound() != uint64(len(log.rows)) {
		r.fail("I5", "%s shows %d live rows of %d, %v; the log has %d of %d", who, got.rows, s.Bound(), err, want.rows, len(log.rows))
	}
	if !r.keyed {
		return
	}
	newest := map[int64]int{}
	for at, row := range log.rows {
		newest[row.id] = at
	}
	for id := range int64(keys) {
		row, err := s.Lookup(ctx, id)
		want := memwal.Absent
		at, known := newest[id]
		if known {
			want = memwal.Present
			if log.rows[at].dead {
				want = memwal.Deleted
			}
		}
		if err != nil || row.Presence != want || want == memwal.Present && row.Ordinal != uint64(at) {
			r.fail("I3", "%s: key %d is %v at %d (%v), the newest row of the log is %d, %v", who, id, row.Presence, row.Ordinal, err, at, want)
		}
	}
}
