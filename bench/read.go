package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/blevesearch/bleve/v2/search/query"
	"github.com/memwal/memwal-go/index"
	"github.com/memwal/memwal-go/memwal"
)

const (
	readLookups = 64   // of one snapshot
	readRange   = 100  // rows at most
	readScan    = 1000 // rows at most
	// readAhead rows are picked at once. A key that is used soon after it was read
	// from the input, whose buffers the memtable shares, would be in the
	// processor's cache.
	readAhead = 16 * readLookups
)

// acknowledged are the batches whose puts have returned. They are retained, which
// costs no memory, as the memtables do so too.
type acknowledged struct {
	mu      sync.RWMutex
	batches []arrow.RecordBatch
	rows    int64
}

func (a *acknowledged) add(rec arrow.RecordBatch) {
	if rec.NumRows() == 0 {
		return
	}
	rec.Retain()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.batches = append(a.batches, rec)
	a.rows += rec.NumRows()
}

// pick returns n rows at random, none if there are none yet, and how many rows
// have been acknowledged by then. The batches are lent until release.
func (a *acknowledged) pick(rng *rand.Rand, n int) (rows []knownRow, total int64) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	if len(a.batches) == 0 {
		return nil, 0
	}
	rows = make([]knownRow, n)
	for i := range rows {
		rec := a.batches[rng.IntN(len(a.batches))]
		rows[i] = knownRow{rec: rec, row: int(rng.Int64N(rec.NumRows()))}
	}
	return rows, a.rows
}

func (a *acknowledged) release() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, rec := range a.batches {
		rec.Release()
	}
	a.batches = nil
}

// knownRow is a row that every later snapshot must show.
type knownRow struct {
	rec arrow.RecordBatch
	row int
	key []any
}

// snapshot is the part of memwal.Snapshot that readers use.
type snapshot interface {
	Lookup(ctx context.Context, key ...any) (memwal.Row, error)
	Range(ctx context.Context, name string, r index.Range, o memwal.ScanOptions) (array.RecordReader, error)
	Scan(ctx context.Context, o memwal.ScanOptions) (array.RecordReader, error)
	CountWhere(ctx context.Context, f memwal.Filter) (int64, error)
	Hits(ctx context.Context, name string, q query.Query, o memwal.SearchOptions) ([]memwal.Hit, error)
	Bound() uint64
	Close()
}

// readers read beside the putters, and check what they get.
type readers struct {
	n       int // goroutines
	open    func() (snapshot, error)
	known   *acknowledged
	schema  *arrow.Schema
	key     []int  // columns of the primary key; none: no lookups
	ordered int    // column of the ordered index; -1: no ranges
	ranged  string // name of that index
	unique  bool   // no row replaces another one
	clock   stopwatch

	snapshots, lookups, ranges, scans latencies // with a unit of a nanosecond
}

// newReaders returns readers who know nothing yet. Without an ordered index there are
// no ranges.
func newReaders(n int, open func() (snapshot, error), known *acknowledged, schema *arrow.Schema, key []string, ordered *index.Ordered, unique bool) (*readers, error) {
	r := &readers{n: n, open: open, known: known, schema: schema, ordered: -1, unique: unique || len(key) == 0}
	for _, l := range []*latencies{&r.snapshots, &r.lookups, &r.ranges, &r.scans} {
		l.unit = time.Nanosecond
	}
	for _, k := range key {
		i := schema.FieldIndices(k)[0]
		if !readable(schema.Field(i).Type) {
			return nil, usagef("readers cannot look up column %q of type %v: choose another -key, or none with -index none", k, schema.Field(i).Type)
		}
		r.key = append(r.key, i)
	}
	if ordered != nil {
		r.ordered, r.ranged = schema.FieldIndices(ordered.Columns[0].Name)[0], ordered.Name
		if f := schema.Field(r.ordered); !readable(f.Type) {
			return nil, usagef("readers cannot ask for ranges of column %q of type %v: choose another column for -index ordered", f.Name, f.Type)
		}
	}
	return r, nil
}

// run reads until ctx ends or an answer is wrong.
func (r *readers) run(ctx context.Context) error {
	rng := rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	clock := clockCost()
	var ahead []knownRow
	var total int64
	for ctx.Err() == nil {
		if len(ahead) == 0 {
			if ahead, total = r.known.pick(rng, readAhead); len(ahead) == 0 {
				wait(ctx, time.Millisecond)
				continue
			}
			r.keys(ahead)
		}
		if err := r.round(ctx, ahead[:readLookups], total, clock); err != nil && ctx.Err() == nil {
			return fmt.Errorf("read: %w", err)
		}
		ahead = ahead[readLookups:]
	}
	return nil
}

// keys fills in the keys of rows.
func (r *readers) keys(rows []knownRow) {
	vals := make([]any, len(rows)*len(r.key))
	for i := range rows {
		n := i * len(r.key)
		rows[i].key = vals[n : n+len(r.key) : n+len(r.key)]
		for j, col := range r.key {
			rows[i].key[j] = goValue(rows[i].rec.Column(col), rows[i].row)
		}
	}
}

// round takes a snapshot and asks it everything. total rows were acknowledged
// before. clock is what a look at the clock takes, which is not the snapshot's.
func (r *readers) round(ctx context.Context, known []knownRow, total int64, clock time.Duration) error {
	start := time.Now()
	s, err := r.open()
	r.snapshots.record(time.Since(start) - clock)
	if err != nil {
		return fmt.Errorf("take a snapshot: %w", err)
	}
	defer s.Close()
	if len(r.key) > 0 {
		if err := r.lookUp(ctx, s, known, clock); err != nil {
			return err
		}
	}
	if r.ordered >= 0 {
		if err := r.readRange(ctx, s, known[0]); err != nil {
			return err
		}
	}
	return r.scan(ctx, s, total)
}

func (r *readers) lookUp(ctx context.Context, s snapshot, known []knownRow, clock time.Duration) error {
	var found [readLookups]memwal.Row
	var took [readLookups]time.Duration
	// One look at the clock for each lookup. Everything else comes after.
	last := time.Now()
	for i := range known {
		row, err := s.Lookup(ctx, known[i].key...)
		if err != nil {
			return err
		}
		now := time.Now()
		found[i], took[i], last = row, now.Sub(last)-clock, now
	}
	r.lookups.record(took[:len(known)]...)
	for i, k := range known {
		if err := r.checkLookup(s, found[i], k); err != nil {
			return err
		}
		if i == 0 && r.unique {
			// Every value of one row; of all it would take more time than looking up.
			if err := r.sameRow(found[i], k); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkLookup reports what is wrong with what a lookup of a known row has found.
func (r *readers) checkLookup(s snapshot, row memwal.Row, k knownRow) error {
	switch {
	case row.Presence != memwal.Present:
		return fmt.Errorf("%w: %s is %v, though its put has returned; rows below %d are visible", errDiffers, r.keyText(k), row.Presence, s.Bound())
	case !r.sameKey(row, k):
		return fmt.Errorf("%w: a lookup of %s found another row, %s", errDiffers, r.keyText(k), rowText(row.Batch.NewSlice(int64(row.Index), int64(row.Index)+1)))
	}
	return nil
}

func (r *readers) sameKey(row memwal.Row, k knownRow) bool {
	for j, col := range r.key {
		if !equalValue(goValue(row.Column(col), row.Index), k.key[j]) {
			return false
		}
	}
	return true
}

func (r *readers) sameRow(row memwal.Row, k knownRow) error {
	for col := range r.schema.NumFields() {
		got, want := row.Column(col), k.rec.Column(col)
		if !array.SliceEqual(got, int64(row.Index), int64(row.Index)+1, want, int64(k.row), int64(k.row)+1) {
			g, w := array.NewSlice(got, int64(row.Index), int64(row.Index)+1), array.NewSlice(want, int64(k.row), int64(k.row)+1)
			defer g.Release()
			defer w.Release()
			return fmt.Errorf("%w: column %q of %s is %s, the input has %s", errDiffers, r.schema.Field(col).Name, r.keyText(k), valueText(g), valueText(w))
		}
	}
	return nil
}

func (r *readers) keyText(k knownRow) string {
	c := &check{}
	for _, col := range r.key {
		c.key = append(c.key, r.schema.Field(col).Name)
	}
	rec := k.rec.NewSlice(int64(k.row), int64(k.row)+1)
	defer rec.Release()
	return c.keyText(rec)
}

// readRange reads from the value of a known row on.
func (r *readers) readRange(ctx context.Context, s snapshot, k knownRow) error {
	v := goValue(k.rec.Column(r.ordered), k.row)
	start := time.Now()
	rd, err := s.Range(ctx, r.ranged, index.Range{Low: []any{v}}, memwal.ScanOptions{Limit: readRange})
	if err != nil {
		return err
	}
	defer rd.Release()
	var first any
	var rows int64
	for rd.Next() {
		rec := rd.RecordBatch()
		if rows == 0 && rec.NumRows() > 0 {
			first = goValue(rec.Column(r.ordered), 0)
		}
		rows += rec.NumRows()
	}
	if err := rd.Err(); err != nil {
		return err
	}
	r.ranges.record(time.Since(start))
	if r.unique && (rows == 0 || !equalValue(first, v)) {
		return fmt.Errorf("%w: a range from %v on, of which a row was put, has %d rows, the first with %v", errDiffers, v, rows, first)
	}
	return nil
}

func (r *readers) scan(ctx context.Context, s snapshot, total int64) error {
	start := time.Now()
	rd, err := s.Scan(ctx, memwal.ScanOptions{From: s.Bound() - min(s.Bound(), readScan), Limit: readScan})
	if err != nil {
		return err
	}
	defer rd.Release()
	var rows int64
	for rd.Next() {
		rows += rd.RecordBatch().NumRows()
	}
	if err := rd.Err(); err != nil {
		return err
	}
	r.scans.record(time.Since(start))
	if want := min(total, readScan); r.unique && rows < want {
		return fmt.Errorf("%w: a scan found %d rows, though %d were put", errDiffers, rows, total)
	}
	return nil
}

// clockCost is what reading the clock adds to a time that is measured with it.
func clockCost() time.Duration {
	const n = 1001
	took := make([]time.Duration, n)
	last := time.Now()
	for i := range took {
		now := time.Now()
		took[i], last = now.Sub(last), now
	}
	slices.Sort(took)
	return took[n/2]
}

// readable tells whether goValue knows the type.
func readable(t arrow.DataType) bool { return orderable(t) || t.ID() == arrow.BOOL }

// goValue is value i of a as memwal takes it for a key: nil for a null.
func goValue(a arrow.Array, i int) any {
	if a.IsNull(i) {
		return nil
	}
	switch a := a.(type) {
	case *array.Int64:
		return a.Value(i)
	case *array.Int32:
		return int64(a.Value(i))
	case *array.Int16:
		return int64(a.Value(i))
	case *array.Int8:
		return int64(a.Value(i))
	case *array.Uint64:
		return a.Value(i)
	case *array.Uint32:
		return uint64(a.Value(i))
	case *array.Uint16:
		return uint64(a.Value(i))
	case *array.Uint8:
		return uint64(a.Value(i))
	case *array.Float64:
		return a.Value(i)
	case *array.Float32:
		return float64(a.Value(i))
	case *array.Boolean:
		return a.Value(i)
	case *array.String:
		return a.Value(i)
	case *array.LargeString:
		return a.Value(i)
	case *array.Binary:
		return string(a.Value(i))
	case *array.LargeBinary:
		return string(a.Value(i))
	case *array.Timestamp:
		return a.Value(i)
	case *array.Date32:
		return a.Value(i)
	case *array.Date64:
		return a.Value(i)
	default:
		panic(fmt.Sprintf("bench: no Go value of type %v", a.DataType()))
	}
}

// equalValue compares what goValue returned. NaN is equal to itself, as it is to
// an index, and 0 to -0.
func equalValue(a, b any) bool {
	x, okx := a.(float64)
	y, oky := b.(float64)
	return a == b || okx && oky && math.IsNaN(x) && math.IsNaN(y)
}

// readFigures are the latencies of readers, by what they did.
type readFigures struct {
	Readers  int        `json:"readers"`
	Seconds  float64    `json:"seconds"` // that they read
	Snapshot readMicros `json:"snapshot"`
	Lookup   readMicros `json:"lookup,omitzero"`
	Range    readMicros `json:"range,omitzero"`
	Scan     readMicros `json:"scan"`
}

// readMicros are in microseconds, but for Count.
type readMicros struct {
	Count int64   `json:"count"`
	P50   float64 `json:"p50"`
	P95   float64 `json:"p95"`
	P99   float64 `json:"p99"`
	Max   float64 `json:"max"`
}

// named lists what was done, in the order of a round.
func (f *readFigures) named() []namedRead {
	all := []namedRead{{"snapshot", f.Snapshot}, {"lookup", f.Lookup}, {"range", f.Range}, {"scan", f.Scan}}
	return slices.DeleteFunc(all, func(n namedRead) bool { return n.Count == 0 })
}

type namedRead struct {
	name string
	readMicros
}

func (r *readers) figures() *readFigures {
	micros := func(l *latencies) readMicros {
		v := l.values()
		us := func(ms float64) float64 { return math.Round(ms*1e6) / 1e3 } // to the nanosecond
		return readMicros{l.count(), us(v.P50), us(v.P95), us(v.P99), us(v.Max)}
	}
	return &readFigures{r.n, r.clock.elapsed().Seconds(), micros(&r.snapshots), micros(&r.lookups), micros(&r.ranges), micros(&r.scans)}
}

// companion is what runs beside putters.
type companion interface {
	// beside starts goroutines. failed is told what goes wrong in them. The function
	// that is returned stops and joins them.
	beside(ctx context.Context, failed func(error)) (stop func())
}

// beside implements companion.
func (r *readers) beside(ctx context.Context, failed func(error)) (stop func()) {
	return r.goroutines(ctx, r.run, failed)
}

func (r *readers) goroutines(ctx context.Context, run func(context.Context) error, failed func(error)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	r.clock.start()
	for range r.n {
		wg.Go(func() {
			if err := run(ctx); err != nil {
				failed(err)
			}
		})
	}
	return func() {
		cancel()
		wg.Wait()
		r.clock.stop()
	}
}
