package memwal

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/memwal/memwal-go/memtable"
)

// rows is a sequence of runs of live rows. Its views are pinned while it runs.
type rows func(views []memtable.View) (iter.Seq[run], error)

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
	j := &joiner{ctx: ctx, op: op, gather: g, size: o.BatchRows, left: o.Limit, join: true, done: s.view.release}
	for _, col := range g.columns {
		j.join = j.join && concatenates(s.r.table.Schema.Field(col).Type)
	}
	j.pull, j.stop = iter.Pull(seq)
	return newRecordReader(g.schema, j), nil
}

func (s *Snapshot) produce(produce rows) (iter.Seq[run], error) {
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

// scan yields the live rows from the ordinal from on, in the order of their
// ordinals.
func scan(from uint64, views []memtable.View) iter.Seq[run] {
	return func(yield func(run) bool) {
		for i, v := range views {
			first := v.Memtable().FirstRow()
			if from >= first+uint64(v.Bound()) {
				continue
			}
			start := uint32(max(from, first) - first)
			for b, stretches := range v.Runs(start, memtable.HiddenBy(v, views[i+1:])) {
				for _, r := range stretches {
					if !yield(run{
						rec: b.Rec, row: int64(r.From), n: int64(r.To - r.From),
						ordinal: first + uint64(b.FirstSlot) + uint64(r.From),
					}) {
						return
					}
				}
			}
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
				// A filter that finds nothing for long ends early with the context.
				if err := j.ctx.Err(); err != nil {
					return nil, fmt.Errorf("%s: %w", j.op, err)
				}
				break
			}
			j.held = r
		}
		if !j.take() {
			break
		}
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
		case last.rec == r.rec && last.row+last.n == r.row && last.ordinal+uint64(last.n) == r.ordinal:
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
