package replay

import (
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/memwal/memwal-go/internal/schema"
	"github.com/memwal/memwal-go/internal/wal"
	"github.com/memwal/memwal-go/memtable"
)

// LoaderConfig says how a Loader fills memtables. All fields are required
// unless it is stated.
type LoaderConfig struct {
	// Schema is the storage schema that rows are adapted to.
	Schema *arrow.Schema
	// From is the floor that the walk starts from.
	From wal.Tuple
	// NewTable makes a memtable with one reference.
	NewTable func(generation, firstRow uint64) *memtable.Memtable
	// Limits say when a memtable is full. They are looked at between entries: an
	// entry that spanned two memtables could be half absorbed by a generation.
	Limits memtable.Limits
	// OnFull is called with each memtable that was frozen, its rows complete and
	// indexed, so that it can be flushed on the way. Optional.
	OnFull func(*memtable.Memtable) error
	// CountOnly counts rows and keeps none, for those who serve no reads.
	CountOnly bool
	// OnIndexError is called when an index does not take rows that are durable
	// already. It marks that index as failed and returns nil: the rows are applied
	// again, to the others. An error ends the replay. It is called from a goroutine of
	// the loader, one call at a time.
	OnIndexError func(m *memtable.Memtable, err error) error
}

// Loaded counts what a Loader was given.
type Loaded struct {
	Entries uint64 // live entries with rows
	Fences  uint64 // live fences
	Dead    uint64 // dead entries, skipped
	Rows    uint64
	Bytes   uint64 // of live entries
}

// Loader puts the rows of live entries into memtables and indexes, in order. It
// is not for concurrent use.
//
// Rows are in their memtable when Add returns. The indexes get them in long runs,
// beside the caller: one run is applied while the next is gathered, and Add waits
// when both are full. Settle waits for all.
type Loader struct {
	cfg      LoaderConfig
	tables   []*memtable.Memtable // oldest first, the last one not frozen
	recorded uint64               // generation of the last entry with rows; 0: none yet
	loaded   Loaded
	indexer  indexer
	measured measured

	from    *arrow.Schema // of the last adapter
	adapter *schema.Adapter
}

// NewLoader starts with an empty memtable of the floor's generation.
func NewLoader(cfg LoaderConfig) *Loader {
	l := &Loader{cfg: cfg}
	l.indexer = indexer{onError: cfg.OnIndexError, runRows: runRows}
	l.tables = append(l.tables, l.newTable(max(cfg.From.Generation, 1), cfg.From.NextRow))
	return l
}

func (l *Loader) newTable(generation, firstRow uint64) *memtable.Memtable {
	m := l.cfg.NewTable(generation, firstRow)
	l.measured = measured{bytes: m.IndexBytes()}
	return m
}

// Settle waits until all rows that were added are in the indexes. Its error is
// the one that ended the replay, if one did; every later call returns it, too.
func (l *Loader) Settle() error { return l.indexer.settle() }

// Live lends the memtables, oldest first: who publishes them takes references of
// its own; the slice is the caller's. More may be added to the last one, and others
// may follow it. Without Settle before, the newest rows may not be in the indexes.
func (l *Loader) Live() []*memtable.Memtable { return slices.Clone(l.tables) }

// Tables settles and returns the memtables, oldest first. The loader's reference
// to each goes over to the caller, and the loader must not be used any more. With
// an error, which is that of Settle, they stay with the loader.
func (l *Loader) Tables() ([]*memtable.Memtable, error) {
	if err := l.Settle(); err != nil {
		return nil, err
	}
	t := l.tables
	l.tables = nil
	return t, nil
}

// Loaded returns what was loaded so far.
func (l *Loader) Loaded() Loaded { return l.loaded }

// Close waits for the run that is being applied and releases what Tables has not
// handed over. Calling it again does nothing.
func (l *Loader) Close() {
	_ = l.indexer.wait() // whoever still wanted to know has called Settle
	for _, m := range l.tables {
		m.Release()
	}
	l.tables = nil
}

// Add takes the next step of the walk, and its entry with it.
func (l *Loader) Add(s *Step) error {
	defer s.Entry.Release()
	switch {
	case !s.Live:
		l.loaded.Dead++
		return nil
	case s.Entry.Header.Fence:
		l.loaded.Fences++
		return nil
	}
	l.loaded.Entries++
	l.loaded.Bytes += uint64(s.Size)
	l.loaded.Rows += uint64(s.Entry.Rows)
	if s.Entry.Rows == 0 || l.cfg.CountOnly {
		return nil
	}
	if err := l.indexer.failure; err != nil {
		return err
	}
	err := l.load(s)
	if l.indexer.failure != nil {
		return l.indexer.failure // of earlier entries, which it names
	}
	if err != nil {
		return fmt.Errorf("load WAL entry %d: %w", s.Position, err)
	}
	return nil
}

func (l *Loader) load(s *Step) error {
	recs, err := l.adapt(s.Entry)
	defer func() {
		for _, r := range recs {
			r.Release()
		}
	}()
	if err != nil {
		return err
	}
	sizes, total := measure(recs, s.Size)
	total.Entries = 1
	m, err := l.target(s.Entry.Header.Generation, total)
	if err != nil {
		return err
	}
	m.AddEntry(len(recs), total.Window, s.Size)
	for i, rec := range recs {
		if err := m.Append(rec, sizes[i].Window, sizes[i].Pinned); err != nil {
			return err
		}
	}
	l.measured.rows += total.Rows
	return l.indexer.add(m, s.Position, total)
}

// measure returns what each batch counts for. Together they pin the body of the
// entry that they were decoded from, once.
func measure(recs []arrow.RecordBatch, body int64) (sizes []memtable.Size, total memtable.Size) {
	sizes = make([]memtable.Size, len(recs))
	for i, r := range recs {
		window, _ := schema.Size(r)
		sizes[i] = memtable.Size{Window: window, Pinned: window, Rows: r.NumRows()}
		total.Window += window
		total.Rows += r.NumRows()
	}
	total.Pinned = max(total.Window, body)
	sizes[0].Pinned += total.Pinned - total.Window
	return sizes, total
}

// target returns the memtable for the next entry. A change of the recorded
// generation rotates, as the writer did; so does a memtable that is full by
// our own limits, which need not be the writer's.
func (l *Loader) target(generation uint64, add memtable.Size) (*memtable.Memtable, error) {
	m := l.tables[len(l.tables)-1]
	changed := generation != l.recorded && l.recorded != 0
	l.recorded = generation
	switch {
	case m.Rows() == 0 && generation > m.Generation():
		// Nothing was put into it: take the writer's number.
		next := l.newTable(generation, m.FirstRow())
		l.tables[len(l.tables)-1] = next
		m.Release()
		return next, nil
	case m.Rows() == 0:
		return m, nil
	}
	if !changed {
		full, err := l.full(m, add)
		if err != nil {
			return nil, err
		}
		if !full {
			return m, nil
		}
	}
	m.Freeze()
	if err := l.indexer.flush(); err != nil {
		return nil, err
	}
	next := l.newTable(max(m.Generation()+1, generation), m.EndRow())
	l.tables = append(l.tables, next)
	if l.cfg.OnFull != nil {
		if err := l.Settle(); err != nil {
			return nil, err
		}
		if err := l.cfg.OnFull(m); err != nil {
			return nil, fmt.Errorf("flush generation %d on the way: %w", m.Generation(), err)
		}
	}
	return next, nil
}

// measured is what the indexes of the last memtable took when they had all rows,
// and the rows that it got since.
type measured struct {
	bytes int64
	rows  int64
}

const (
	// indexRowBytes is more than a row takes in any one index.
	indexRowBytes = 128
	// indexStep is more than what a row can take at once, since memory comes in
	// pieces.
	indexStep = 64 << 10
)

// full asks the policy. Age does not count: it is the age of rows in memory.
//
// What indexes take is known only when they have been built. It is measured
// when it could have come to the limit, and not when it happens to be known: the
// same log always gives the same memtables.
func (l *Loader) full(m *memtable.Memtable, add memtable.Size) (bool, error) {
	limits, usage := l.cfg.Limits, m.Usage()
	limits.Age = 0
	if limits.IndexBytes > 0 {
		spec := m.Index().Spec()
		indexes := int64(len(spec.Configs()) + 1)
		if l.measured.bytes+indexStep+l.measured.rows*indexRowBytes*indexes >= limits.IndexBytes {
			if err := l.Settle(); err != nil {
				return false, err
			}
			l.measured = measured{bytes: m.IndexBytes()}
		}
		usage.Index = l.measured.bytes
	}
	return limits.Exceeded(usage, add, m.Created()) != memtable.ByNothing, nil
}

// adapt gives every batch of e the storage schema. The caller releases what is
// returned, also with an error.
func (l *Loader) adapt(e *wal.Entry) ([]arrow.RecordBatch, error) {
	if l.adapter == nil || l.from != e.Schema && !schema.Equal(l.from, e.Schema) {
		a, err := schema.NewAdapter(e.Schema, l.cfg.Schema)
		if err != nil {
			return nil, err
		}
		l.adapter = a
	}
	l.from = e.Schema
	recs := make([]arrow.RecordBatch, 0, len(e.Batches))
	for _, b := range e.Batches {
		if b.NumRows() == 0 {
			continue
		}
		r, err := l.adapter.Adapt(b)
		if err != nil {
			return recs, err
		}
		recs = append(recs, r)
	}
	return recs, nil
}
