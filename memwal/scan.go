package memwal

import (
	"context"
	"fmt"
	"iter"
	"math/bits"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/memwal/memwal-go/internal/filter"
	"github.com/memwal/memwal-go/memtable"
)

// rows is a sequence of runs of live rows, several at a time; a slice is valid until the
// next step. Its views are pinned while it runs.
type rows func(views []memtable.View) (iter.Seq[[]run], error)

// read makes a reader of what produce yields.
func (s *Snapshot) read(ctx context.Context, op string, g *gatherer, o ScanOptions, produce rows) (array.RecordReader, error) {
	if err := s.acquire(ctx, op); err != nil {
		return nil, err
	}
	seq, err := s.produce(produce)
	if err != nil {
		s.view.release()
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	j := s.joiner(ctx, op, g, o)
	var next func() ([]run, bool)
	next, j.stop = iter.Pull(seq)
	var some []run
	j.pull = func() (run, bool) {
		if len(some) == 0 {
			var ok bool
			if some, ok = next(); !ok {
				return run{}, false
			}
		}
		r := some[0]
		some = some[1:]
		return r, true
	}
	return newRecordReader(g.schema, j), nil
}

// joiner makes one that has nothing to pull from yet. It lets go of the pinned snapshot.
func (s *Snapshot) joiner(ctx context.Context, op string, g *gatherer, o ScanOptions) *joiner {
	j := &joiner{ctx: ctx, op: op, gather: g, size: o.BatchRows, left: o.Limit, join: true, done: s.view.release}
	for _, col := range g.columns {
		j.join = j.join && joins(s.r.table.Schema.Field(col).Type)
	}
	return j
}

func (s *Snapshot) produce(produce rows) (iter.Seq[[]run], error) {
	views := s.views()
	if err := s.keyFailed(views); err != nil {
		return nil, err
	}
	return produce(views)
}

// keyFailed returns the failure of a primary key index: without it nothing can
// be said about which rows are live.
func (s *Snapshot) keyFailed(views []memtable.View) error {
	for _, v := range views {
		if err := v.Memtable().Index().KeyFailed(); err != nil {
			return err
		}
	}
	return nil
}

// stretch is a run of which only some rows are meant.
type stretch struct {
	run
	// mask has a bit for each row, that of row i of the run in word i/64. It is lent
	// until the next step. Nil: all rows are meant.
	mask []uint64
}

// scan yields the live rows from the ordinal from on, in the order of their
// ordinals.
func scan(ctx context.Context, from uint64, views []memtable.View) iter.Seq[stretch] {
	return func(yield func(stretch) bool) {
		for i, v := range views {
			first := v.Memtable().FirstRow()
			if from >= first+uint64(v.Bound()) {
				continue
			}
			start := uint32(max(from, first) - first)
			for s := range v.Stretches(ctx, start, memtable.HiddenBy(ctx, v, views[i+1:])) {
				if !yield(stretch{mask: s.Live, run: run{
					rec: s.Rec, row: int64(s.From), n: int64(s.To - s.From),
					ordinal: first + uint64(s.FirstSlot) + uint64(s.From),
				}}) {
					return
				}
			}
		}
	}
}

// selected yields the rows that a scan with these options gives, found as its plan says.
func (s *Snapshot) selected(ctx context.Context, o ScanOptions, prog *filter.Program, views []memtable.View) iter.Seq[stretch] {
	p, runs := s.plan(ctx, o, prog, views)
	if p.Access == AccessScan {
		return filtered(ctx, prog, scan(ctx, o.From, views))
	}
	return filtered(ctx, prog, stretches(slices.Values(runs)))
}

// stretches are runs of which all rows are meant.
func stretches(runs iter.Seq[run]) iter.Seq[stretch] {
	return func(yield func(stretch) bool) {
		for r := range runs {
			if !yield(stretch{run: r}) {
				return
			}
		}
	}
}

// filtered masks the rows that the filter is not true for. It ends when ctx does: it may
// look for long without a match.
func filtered(ctx context.Context, prog *filter.Program, all iter.Seq[stretch]) iter.Seq[stretch] {
	if prog == nil {
		return all
	}
	return func(yield func(stretch) bool) {
		e := prog.NewEvaluator()
		var m filter.Mask
		var unasked int64 // rows until ctx is asked
		for s := range all {
			for at := int64(0); at < s.n; at += filter.Block {
				n := min(filter.Block, s.n-at)
				if unasked -= n; unasked < 0 {
					if ctx.Err() != nil {
						return
					}
					unasked = filter.Block
				}
				w := e.Select(&m, s.rec, int(s.row+at), int(n))
				if s.mask != nil {
					for i, live := range s.mask[at/64:][:len(w)] {
						w[i] &= live
					}
				}
				if !yield(stretch{mask: w, run: run{rec: s.rec, row: s.row + at, n: n, ordinal: s.ordinal + uint64(at)}}) {
					return
				}
			}
		}
	}
}

// count is how many rows are meant.
func (s *stretch) count() (n int64) {
	if s.mask == nil {
		return s.n
	}
	for _, w := range s.mask {
		n += int64(bits.OnesCount64(w))
	}
	return n
}

// appendRuns appends the runs of rows that are meant.
func (s *stretch) appendRuns(runs []run) []run {
	if s.mask == nil {
		return append(runs, s.run)
	}
	open := false // the last run reaches up to the word
	for i, w := range s.mask {
		at := int64(i * 64)
		if open && w&1 != 0 {
			n := bits.TrailingZeros64(^w)
			runs[len(runs)-1].n += int64(n)
			if n == 64 {
				continue
			}
			w = w >> n << n
		}
		open = w>>63 != 0
		for w != 0 {
			from := bits.TrailingZeros64(w)
			n := bits.TrailingZeros64(^(w >> from))
			runs = append(runs, run{rec: s.rec, row: s.row + at + int64(from), n: int64(n), ordinal: s.ordinal + uint64(at) + uint64(from)})
			w &^= (1<<n - 1) << from
		}
	}
	return runs
}

// inRuns yields what a reader of some rows needs: runs that have about as many together,
// so that handing them over costs little beside them. bare is for readers that only
// count: it yields runs that have the right number of rows, which need not be the right
// ones.
func inRuns(all iter.Seq[stretch], rows int64, bare bool) iter.Seq[[]run] {
	const most = 1024 // runs: 40 KiB
	return func(yield func([]run) bool) {
		var some []run
		var n int64
		for s := range all {
			c := s.count()
			switch {
			case c == 0:
				continue
			case bare:
				some = append(some, run{rec: s.rec, n: c})
			default:
				some = s.appendRuns(some)
			}
			if n += c; n >= rows || len(some) >= most {
				if !yield(some) {
					return
				}
				some, n = some[:0], 0
			}
		}
		if len(some) > 0 {
			yield(some)
		}
	}
}

// joiner joins runs to batches of about a size. It is the source of a reader.
type joiner struct {
	ctx    context.Context
	op     string
	gather *gatherer
	pull   func() (run, bool)
	stop   func()
	done   func() // lets go of the snapshot
	join   bool   // runs may be copied together
	size   int64  // rows of a batch at most
	left   int64  // rows until the limit

	held run   // pulled, not taken yet; n is 0 if there is none
	runs []run // of the next batch
	rows int64 // of runs; <= size
}

func (j *joiner) close() {
	j.stop()
	j.done()
}

// next implements source.
func (j *joiner) next() (arrow.RecordBatch, error) {
	if err := j.ctx.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", j.op, err)
	}
	for j.rows < j.size && j.left > 0 {
		if j.held.n == 0 {
			r, ok := j.pull()
			if !ok {
				break
			}
			j.held = r
		}
		if !j.take() {
			break
		}
	}
	// What is pulled ends early with the context: rows may be missing.
	if err := j.ctx.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", j.op, err)
	}
	if len(j.runs) == 0 {
		return nil, nil
	}
	// Rows may be too large to be copied into one array, whose offsets have 32
	// bits as a rule. Then there are fewer of them in a batch.
	n := len(j.runs)
	rec, err := j.gather.batch(j.runs)
	for err != nil && n > 1 {
		n = (n + 1) / 2
		rec, err = j.gather.batch(j.runs[:n])
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", j.op, err)
	}
	for _, r := range j.runs[:n] {
		j.rows -= r.n
	}
	j.runs = slices.Delete(j.runs, 0, n)
	return rec, nil
}

// take moves what fits of the held run to the batch. It returns false if the
// run has to wait for the next batch.
func (j *joiner) take() bool {
	r := j.held
	r.n = min(r.n, j.size-j.rows, j.left)
	if len(j.runs) > 0 {
		last := &j.runs[len(j.runs)-1]
		switch {
		case j.gather.bare() || last.rec == r.rec && last.row+last.n == r.row && last.ordinal+uint64(last.n) == r.ordinal:
			last.n += r.n
			j.taken(r.n)
			return true
		case !j.join || r.n >= longRun || last.n >= longRun:
			return false
		}
	}
	j.runs = append(j.runs, r)
	j.taken(r.n)
	return true
}

func (j *joiner) taken(n int64) {
	j.rows += n
	j.left -= n
	j.held.row, j.held.ordinal, j.held.n = j.held.row+n, j.held.ordinal+uint64(n), j.held.n-n
}
