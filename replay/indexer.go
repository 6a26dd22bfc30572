package replay

import (
	"cmp"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/memwal/memwal-go/memtable"
)

const (
	// runRows and runBytes bound the rows that are applied to indexes at once. Longer
	// runs gain little (BenchmarkApplyRun in index), need more scratch memory, and
	// leave more to do when everything has been read.
	runRows  = 256 << 10
	runBytes = 32 << 20 // of rows, hence roughly of their keys
)

// indexer applies batches to indexes in runs, beside its caller: one run at a time,
// while the next one is gathered. It is not for concurrent use.
type indexer struct {
	onError func(*memtable.Memtable, error) error
	runRows int64

	open    run        // being gathered
	busy    chan error // gives the result of the run that is being applied; nil: none is
	failure error      // the first one; nothing is applied after it
}

// run is consecutive batches of one memtable, and the WAL entries that they came in.
type run struct {
	m           *memtable.Memtable // nil: an empty run
	slot        uint32             // of the first row
	from, to    int                // batches
	first, last uint64             // entries
	rows, bytes int64
}

// add adds the batches that an entry has appended to m. All batches before were
// added, too.
func (x *indexer) add(m *memtable.Memtable, entry uint64, size memtable.Size) error {
	slot := m.Rows() - uint32(size.Rows)
	if x.open.m == nil {
		x.open = run{m: m, slot: slot, from: m.FindBatch(slot), first: entry}
	}
	r := &x.open
	r.to, r.last = m.Batches(), entry
	r.rows += size.Rows
	r.bytes += size.Window
	switch {
	case !indexed(m):
		// Nothing is built, only the bound moves.
		return x.settle()
	case r.rows < x.runRows && r.bytes < runBytes:
		return nil
	}
	return x.flush()
}

// indexed tells whether m has any index.
func indexed(m *memtable.Memtable) bool {
	spec := m.Index().Spec()
	return spec.HasPrimaryKey() || len(spec.Configs()) > 0
}

// flush starts to apply what was gathered, when the run before has ended.
func (x *indexer) flush() error {
	if err := x.wait(); err != nil || x.open.m == nil {
		return err
	}
	r, busy := x.open, make(chan error, 1)
	x.open, x.busy = run{}, busy
	go func() { busy <- x.apply(r) }()
	return nil
}

// wait waits for the run that is being applied. It returns the first failure of
// all runs so far.
func (x *indexer) wait() error {
	if x.busy != nil {
		x.failure = cmp.Or(x.failure, <-x.busy)
		x.busy = nil
	}
	return x.failure
}

// settle applies everything that was added.
func (x *indexer) settle() error {
	if err := x.wait(); err != nil || x.open.m == nil {
		return err
	}
	r := x.open
	x.open = run{}
	x.failure = x.apply(r)
	return x.failure
}

// apply gives a run to every index that has not failed. Each round either ends or
// has marked one more index as failed.
func (x *indexer) apply(r run) error {
	recs := make([]arrow.RecordBatch, 0, r.to-r.from)
	for i := r.from; i < r.to; i++ {
		recs = append(recs, r.m.Batch(i).Rec)
	}
	for {
		err := r.m.Index().ApplyRun(recs, r.slot)
		if err == nil {
			return nil
		}
		if err := x.onError(r.m, err); err != nil {
			if r.first == r.last {
				return fmt.Errorf("index WAL entry %d: %w", r.first, err)
			}
			return fmt.Errorf("index WAL entries %d to %d: %w", r.first, r.last, err)
		}
	}
}
