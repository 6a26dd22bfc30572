package memwal

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/memwal/memwal-go/index"
	"github.com/memwal/memwal-go/objstore"
)

// modelSeed runs one history of TestModel: go test -run TestModel ./memwal -memwal.seed=N
var modelSeed = flag.Uint64("memwal.seed", 0, "run the random tests with this seed only")

// forSeeds runs a random test with n seeds, or with that of the flag. The name of
// the test that failed has its seed.
func forSeeds(t *testing.T, n int, run func(t *testing.T, r *rand.Rand)) {
	t.Helper()
	if testing.Short() {
		n /= 4
	}
	for i := range uint64(n) {
		seed := i + 1
		if *modelSeed != 0 {
			seed = *modelSeed
		}
		ok := t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { run(t, rand.New(rand.NewPCG(seed, 7))) })
		})
		if !ok {
			t.Fatalf("run it again with -memwal.seed=%d", seed)
		}
		if *modelSeed != 0 {
			return
		}
	}
}

// modelRow is a row as the model has it. Its place in the history is its ordinal.
type modelRow struct {
	vals []any // int64, int32, string; nil is null
	dead bool  // a delete: vals has the key only
	key  string
}

// model is a table as a plain list of everything that ever happened to it.
type model struct {
	schema  *arrow.Schema
	key     []int   // positions of the key columns; none: append-only
	indexes [][]int // positions of the columns of index "i0", "i1", …

	mu      sync.Mutex
	history []modelRow // never changed in place
	ends    []int      // of the batches in history

	served [AccessIndex + 2]atomic.Int64 // scans, by the way that they were served; the last: by two columns of an index
}

func newModel(r *rand.Rand) *model {
	types := []arrow.DataType{arrow.PrimitiveTypes.Int64, arrow.PrimitiveTypes.Int32, arrow.BinaryTypes.String}
	m := new(model)
	n := 2 + r.IntN(4)
	m.key = r.Perm(n)[:r.IntN(min(n, 4))]
	var fields []arrow.Field
	for i := range n {
		fields = append(fields, arrow.Field{
			Name: fmt.Sprintf("c%d", i), Type: types[r.IntN(len(types))],
			Nullable: !slices.Contains(m.key, i) && r.IntN(3) > 0,
		})
	}
	m.schema = arrow.NewSchema(fields, nil)
	for range r.IntN(3) {
		m.indexes = append(m.indexes, r.Perm(n)[:1+r.IntN(2)])
	}
	return m
}

func (m *model) names(cols []int) []string {
	var names []string
	for _, c := range cols {
		names = append(names, m.schema.Field(c).Name)
	}
	return names
}

// options are random ones for a writer of the table.
func (m *model) options(r *rand.Rand) *Options {
	o := &Options{
		PrimaryKey: m.names(m.key), FlushInterval: time.Duration(1+r.IntN(500)) * time.Millisecond,
		MaxInFlight: 1 + r.IntN(5), Compression: []Compression{"", CompressionLZ4, CompressionZstd}[r.IntN(3)],
	}
	for i, cols := range m.indexes {
		ordered := index.Ordered{Name: fmt.Sprintf("i%d", i)}
		for _, name := range m.names(cols) {
			ordered.Columns = append(ordered.Columns, index.Column{Name: name})
		}
		o.Indexes = append(o.Indexes, ordered)
	}
	if r.IntN(2) == 0 {
		o.FlushBytes, o.MaxEntryBytes = 1+r.Int64N(2000), 1+r.Int64N(5000)
	}
	if r.IntN(2) == 0 {
		o.MaxMemtableRows = 20 + r.Int64N(100)
	}
	if r.IntN(3) == 0 {
		o.MaxMemtableBatches = 1 + r.IntN(10)
	}
	if r.IntN(4) == 0 {
		o.MaxMemtableAge = time.Duration(1+r.IntN(3000)) * time.Millisecond
	}
	if r.IntN(3) == 0 {
		o.Visibility = VisibleIndexed
	}
	return patient(o)
}

// value is a random one of a column: of few, so that keys meet again.
func (m *model) value(r *rand.Rand, col int) any {
	f := m.schema.Field(col)
	if f.Nullable && r.IntN(6) == 0 {
		return nil
	}
	switch f.Type.ID() {
	case arrow.INT64:
		return r.Int64N(12) - 3
	case arrow.INT32:
		return r.Int32N(8) - 2
	}
	return []string{"", "a", "a\x00", "a\x00b", "ab", "b", "\xff", strings.Repeat("long", 5)}[r.IntN(8)]
}

// batch makes the batch of some columns of rows.
func (m *model) batch(rows []modelRow, cols []int) arrow.RecordBatch {
	var fields []arrow.Field
	for _, c := range cols {
		fields = append(fields, m.schema.Field(c))
	}
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema(fields, nil))
	defer b.Release()
	for _, row := range rows {
		for i, c := range cols {
			switch v := row.vals[c].(type) {
			case nil:
				b.Field(i).AppendNull()
			case int64:
				b.Field(i).(*array.Int64Builder).Append(v)
			case int32:
				b.Field(i).(*array.Int32Builder).Append(v)
			case string:
				b.Field(i).(*array.StringBuilder).Append(v)
			}
		}
	}
	return b.NewRecordBatch()
}

func (m *model) all() []int {
	cols := make([]int, m.schema.NumFields())
	for i := range cols {
		cols[i] = i
	}
	return cols
}

func (m *model) randomRows(r *rand.Rand, n int, dead bool) []modelRow {
	rows := make([]modelRow, n)
	for i := range rows {
		rows[i] = modelRow{vals: make([]any, m.schema.NumFields()), dead: dead}
		for c := range rows[i].vals {
			if !dead || slices.Contains(m.key, c) {
				rows[i].vals[c] = m.value(r, c)
			}
		}
		for _, c := range m.key {
			rows[i].key += fmt.Sprintf("%q;", fmt.Sprint(rows[i].vals[c]))
		}
	}
	return rows
}

// live are the ordinals of the rows that a reader sees.
func (m *model) live(history []modelRow) []int {
	seen := make(map[string]bool)
	var out []int
	for i := len(history) - 1; i >= 0; i-- {
		if len(m.key) > 0 {
			if seen[history[i].key] {
				continue
			}
			seen[history[i].key] = true
		}
		if !history[i].dead {
			out = append(out, i)
		}
	}
	slices.Reverse(out)
	return out
}

// compareValues sorts nulls first.
func compareValues(a, b any) int {
	if a == nil || b == nil {
		return cmp.Compare(boolInt(a != nil), boolInt(b != nil))
	}
	switch a := a.(type) {
	case int64:
		return cmp.Compare(a, b.(int64))
	case int32:
		return cmp.Compare(a, b.(int32))
	}
	return cmp.Compare(a.(string), b.(string))
}

// inRange is SQL's row comparison with a bound, column by column: false where a
// null decides that nobody asked for.
func inRange(vals, bound []any, above, open bool, r index.Range) bool {
	for i, b := range bound {
		asked := i < len(r.Low) && r.Low[i] == nil || i < len(r.High) && r.High[i] == nil
		if vals[i] == nil && !asked {
			return false
		}
		if d := compareValues(vals[i], b); d != 0 {
			return (d > 0) == above
		}
	}
	return !open
}

// ranged are the ordinals that a range gives.
func (m *model) ranged(history []modelRow, cols []int, r index.Range) []int {
	valsOf := func(i int) []any {
		var vals []any
		for _, c := range cols {
			vals = append(vals, history[i].vals[c])
		}
		return vals
	}
	var out []int
	for _, i := range m.live(history) {
		vals := valsOf(i)
		if inRange(vals, r.Low, true, r.LowOpen && len(r.Low) > 0, r) && inRange(vals, r.High, false, r.HighOpen && len(r.High) > 0, r) {
			out = append(out, i)
		}
	}
	slices.SortStableFunc(out, func(a, b int) int { return slices.CompareFunc(valsOf(a), valsOf(b), compareValues) })
	if r.Reverse {
		slices.Reverse(out)
	}
	return out
}

// held is a snapshot with what it must say for ever.
type held struct {
	s       *Snapshot
	history []modelRow
}

// check asks a snapshot a random question.
func (m *model) check(r *rand.Rand, h held) error {
	switch q := r.IntN(5); {
	case q == 0 && len(m.key) > 0:
		return m.checkLookup(r, h)
	case q == 1 && len(m.key) > 0:
		return m.checkLookupAll(r, h)
	case q == 2 && len(m.indexes) > 0:
		return m.checkRange(r, h)
	case q == 3 && r.IntN(2) == 0:
		f := m.filter(r, 3)
		n, err := h.s.CountWhere(context.Background(), f.f)
		if want := len(m.matching(h.history, m.live(h.history), f)); err != nil || n != int64(want) {
			return fmt.Errorf("count where %v: %d, %w, want %d", f.f, n, err, want)
		}
		return nil
	case q == 3:
		n, err := h.s.Count(context.Background())
		if want := len(m.live(h.history)); err != nil || n != int64(want) {
			return fmt.Errorf("count: %d, %v, want %d", n, err, want)
		}
		return nil
	}
	o, cols, f := m.scanOptions(r)
	if r.IntN(3) == 0 {
		o.From = r.Uint64N(h.s.Bound() + 1)
	}
	reader, err := h.s.Scan(context.Background(), o)
	if err != nil {
		return err
	}
	want := m.matching(h.history, m.live(h.history), f)
	want = slices.DeleteFunc(slices.Clone(want), func(i int) bool { return uint64(i) < o.From })
	plan, err := h.s.Explain(context.Background(), o)
	if err != nil {
		return err
	}
	m.served[int(plan.Access)+boolInt(plan.Columns > 1)].Add(1)
	return m.compare(fmt.Sprintf("scan %+v (%v)", o, plan), reader, h, want, o, cols)
}

func (m *model) scanOptions(r *rand.Rand) (o ScanOptions, cols []int, f modelFilter) {
	cols = m.all()
	if r.IntN(2) == 0 {
		cols = r.Perm(len(cols))[:r.IntN(len(cols)+1)]
		o.Columns = append([]string{}, m.names(cols)...)
	}
	if r.IntN(2) == 0 {
		o.Limit = 1 + r.Int64N(30)
	}
	if r.IntN(2) == 0 {
		o.BatchRows = 1 + r.Int64N(20)
	}
	o.Ordinals = r.IntN(2) == 0
	if r.IntN(3) > 0 {
		f = m.filter(r, 3)
		o.Filter = f.f
	}
	return o, cols, f
}

// compare reads all that a reader has, and releases it.
func (m *model) compare(what string, reader array.RecordReader, h held, want []int, o ScanOptions, cols []int) error {
	defer reader.Release()
	if o.Limit > 0 {
		want = want[:min(len(want), int(o.Limit))]
	}
	n := 0
	for reader.Next() {
		rec := reader.RecordBatch()
		if o.BatchRows > 0 && rec.NumRows() > o.BatchRows || rec.NumRows() == 0 {
			return fmt.Errorf("%s: a batch of %d rows", what, rec.NumRows())
		}
		for row := range int(rec.NumRows()) {
			if n == len(want) {
				return fmt.Errorf("%s: more than %d rows", what, n)
			}
			if err := m.sameRow(rec, row, cols, h.history[want[n]]); err != nil {
				return fmt.Errorf("%s: row %d, ordinal %d: %w", what, n, want[n], err)
			}
			if o.Ordinals {
				if got := rec.Column(len(cols)).(*array.Uint64).Value(row); got != uint64(want[n]) {
					return fmt.Errorf("%s: row %d has the ordinal %d, want %d", what, n, got, want[n])
				}
			}
			n++
		}
	}
	if err := reader.Err(); err != nil || n != len(want) {
		return fmt.Errorf("%s: %d rows, %v, want %d", what, n, err, len(want))
	}
	return nil
}

func (m *model) sameRow(rec arrow.RecordBatch, row int, cols []int, want modelRow) error {
	for i, c := range cols {
		var got any
		switch a := rec.Column(i).(type) {
		case *array.Int64:
			got = a.Value(row)
		case *array.Int32:
			got = a.Value(row)
		case *array.String:
			got = a.Value(row)
		}
		if rec.Column(i).IsNull(row) {
			got = nil
		}
		if got != want.vals[c] {
			return fmt.Errorf("column %d is %#v, want %#v", c, got, want.vals[c])
		}
	}
	return nil
}

// found compares what a lookup found.
func (m *model) found(h held, key string, got Row) error {
	at := -1
	for i, row := range h.history {
		if row.key == key {
			at = i
		}
	}
	want := Absent
	if at >= 0 {
		want = Present
		if h.history[at].dead {
			want = Deleted
		}
	}
	if got.Presence != want {
		return fmt.Errorf("key %s is %v, want %v (ordinal %d)", key, got.Presence, want, at)
	}
	if want != Present {
		return nil
	}
	if got.Ordinal != uint64(at) {
		return fmt.Errorf("key %s has the ordinal %d, want %d", key, got.Ordinal, at)
	}
	return m.sameRow(got.Batch, got.Index, m.all(), h.history[at])
}

func (m *model) checkLookup(r *rand.Rand, h held) error {
	row := m.randomRows(r, 1, true)[0]
	var key []any
	for _, c := range m.key {
		key = append(key, row.vals[c])
	}
	got, err := h.s.Lookup(context.Background(), key...)
	if err != nil {
		return err
	}
	return m.found(h, row.key, got)
}

func (m *model) checkLookupAll(r *rand.Rand, h held) error {
	rows := m.randomRows(r, r.IntN(10), true)
	keys := m.batch(rows, m.key)
	defer keys.Release()
	got, err := h.s.LookupAll(context.Background(), keys)
	if err != nil || len(got) != len(rows) {
		return fmt.Errorf("look up all: %d of %d, %w", len(got), len(rows), err)
	}
	for i, row := range rows {
		if err := m.found(h, row.key, got[i]); err != nil {
			return err
		}
	}
	return nil
}

func (m *model) checkRange(r *rand.Rand, h held) error {
	i := r.IntN(len(m.indexes))
	cols := m.indexes[i]
	bound := func() (vals []any) {
		for _, c := range cols[:r.IntN(len(cols)+1)] {
			v := m.value(r, c)
			if v == nil && r.IntN(2) == 0 {
				return vals
			}
			vals = append(vals, v)
		}
		return vals
	}
	rg := index.Range{Low: bound(), High: bound(), LowOpen: r.IntN(3) == 0, HighOpen: r.IntN(3) == 0, Reverse: r.IntN(2) == 0}
	o, out, f := m.scanOptions(r)
	reader, err := h.s.Range(context.Background(), fmt.Sprintf("i%d", i), rg, o)
	if err != nil {
		return err
	}
	return m.compare(fmt.Sprintf("range of columns %v, %+v, %+v", cols, rg, o), reader, h, m.matching(h.history, m.ranged(h.history, cols, rg), f), o, out)
}

// modelRun is one history of a table and its writers.
type modelRun struct {
	*model
	t      *testing.T
	r      *rand.Rand
	store  *testStore
	writer atomic.Pointer[Writer]
	level  Visibility
	acked  uint64 // rows that are known to be durable
	seen   uint64 // rows that are known to be visible
	held   []held
	issued []*Ticket
}

func (m *modelRun) open() {
	o := m.options(m.r)
	w, err := Open(m.t.Context(), m.store, testShard, m.schema, o)
	if err != nil {
		m.t.Fatalf("open: %v", err)
	}
	m.t.Logf("open %+v", *o)
	got := w.Stats()
	m.mu.Lock()
	defer m.mu.Unlock()
	n := int(got.Accepted)
	if got.Accepted < m.acked || n > len(m.history) || got.Visible != got.Accepted || n > 0 && !slices.Contains(m.ends, n) {
		m.t.Fatalf("%d rows are back, %d visible; of %d, %d were acknowledged, batches end at %v", n, got.Visible, len(m.history), m.acked, m.ends)
	}
	m.history = slices.Clip(m.history[:n])
	m.ends = slices.DeleteFunc(slices.Clone(m.ends), func(end int) bool { return end > n })
	m.acked, m.seen, m.issued, m.level = got.Accepted, got.Accepted, nil, o.Visibility
	m.writer.Store(w)
}

// end ends the writer and opens the next.
func (m *modelRun) end(crash bool) {
	w := m.writer.Load()
	if crash {
		w.Abort()
	} else {
		if err := w.Close(m.t.Context()); err != nil {
			m.t.Fatalf("close: %v", err)
		}
		m.acked = uint64(len(m.history))
	}
	m.open()
}

func (m *modelRun) put(dead bool) {
	rows := m.randomRows(m.r, m.r.IntN(16), dead)
	cols, call := m.all(), m.writer.Load().PutAsync
	if dead {
		cols, call = m.key, m.writer.Load().DeleteAsync
	}
	rec := m.batch(rows, cols)
	defer rec.Release()
	if m.r.IntN(3) == 0 && len(rows) > 0 { // a part of it
		from := m.r.IntN(len(rows))
		to := from + m.r.IntN(len(rows)-from+1)
		slice := rec.NewSlice(int64(from), int64(to))
		defer slice.Release()
		rec, rows = slice, rows[from:to]
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	ticket, err := call(m.t.Context(), rec)
	if err != nil {
		m.t.Fatalf("put: %v", err)
	}
	if ticket.FirstRow() != uint64(len(m.history)) || ticket.Rows() != int64(len(rows)) {
		m.t.Fatalf("the ticket has rows %d and %d on, want %d and %d on", ticket.FirstRow(), ticket.Rows(), len(m.history), len(rows))
	}
	m.history = append(m.history, rows...)
	m.ends = append(m.ends, len(m.history))
	m.issued = append(m.issued, ticket)
}

func (m *modelRun) wait(ticket *Ticket, durable bool) {
	end := ticket.FirstRow() + uint64(ticket.Rows())
	wait := ticket.Wait
	if durable {
		wait = ticket.WaitDurable
	}
	if err := wait(m.t.Context()); err != nil {
		m.t.Fatalf("wait: %v", err)
	}
	if !durable {
		m.seen = max(m.seen, end)
	}
	if durable || m.level == VisibleDurable {
		m.acked = max(m.acked, end)
	}
}

// take takes a snapshot of w with what it must say.
func (m *model) take(w *Writer, indexed bool) (held, error) {
	take := w.Snapshot
	if indexed {
		take = w.IndexedSnapshot
	}
	s, err := take()
	if err != nil {
		return held{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if s.Bound() > uint64(len(m.history)) {
		s.Close()
		return held{}, fmt.Errorf("a snapshot of %d rows, %d were put", s.Bound(), len(m.history))
	}
	return held{s, m.history[:s.Bound():s.Bound()]}, nil
}

func (m *modelRun) step() {
	w := m.writer.Load()
	op := m.r.IntN(100)
	switch {
	case op < 35:
		m.put(false)
	case op < 45 && len(m.key) > 0:
		m.put(true)
	case op < 50 && len(m.issued) > 0:
		m.wait(m.issued[m.r.IntN(len(m.issued))], m.r.IntN(2) == 0)
	case op < 54:
		time.Sleep(time.Duration(m.r.IntN(400)) * time.Millisecond)
	case op < 58:
		if err := w.Rotate(m.t.Context()); err != nil {
			m.t.Fatal(err)
		}
	case op < 61:
		end := uint64(len(m.history))
		if err := w.Flush(m.t.Context()); err != nil {
			m.t.Fatal(err)
		}
		m.acked, m.seen = end, end
	case op < 68:
		h, err := m.take(w, m.r.IntN(2) == 0)
		if err != nil {
			m.t.Fatal(err)
		}
		if h.s.Bound() < m.seen {
			m.t.Fatalf("a snapshot of %d rows, %d were acknowledged", h.s.Bound(), m.seen)
		}
		m.held = append(m.held, h)
	case op < 71 && len(m.held) > 2:
		i := m.r.IntN(len(m.held))
		m.held[i].s.Close()
		m.held = slices.Delete(m.held, i, i+1)
	case op < 73:
		m.end(m.r.IntN(2) == 0)
	case len(m.held) > 0:
		i := m.r.IntN(len(m.held))
		if err := m.check(m.r, m.held[i]); err != nil {
			m.t.Fatalf("snapshot %d of %d rows: %v", i, m.held[i].s.Bound(), err)
		}
	}
}

// TestModel runs random histories of random tables against a list of rows.
func TestModel(t *testing.T) {
	var served [AccessIndex + 2]int64
	forSeeds(t, 32, func(t *testing.T, r *rand.Rand) {
		m := runModel(t, r, 0)
		for i := range served {
			served[i] += m.served[i].Load()
		}
	})
	t.Logf("scans served by a scan, by nothing, by keys, by one column of an index, by two: %v", served)
	if *modelSeed == 0 && slices.Contains(served[:], 0) {
		t.Error("one way to serve a scan has not been tried")
	}
}

// TestModel_ConcurrentReaders does it with readers beside the writer, which the
// race detector watches.
func TestModel_ConcurrentReaders(t *testing.T) {
	forSeeds(t, 12, func(t *testing.T, r *rand.Rand) { runModel(t, r, 3) })
}

func runModel(t *testing.T, r *rand.Rand, readers int) *modelRun {
	m := &modelRun{model: newModel(r), t: t, r: r, store: newTestStore()}
	t.Logf("key %v, indexes %v, %v", m.key, m.indexes, m.schema)
	slow := rand.New(rand.NewPCG(r.Uint64(), 1))
	var mu sync.Mutex
	m.store.on(objstore.OpPutIfAbsent, walPart, always, func(ctx context.Context, apply func() error) error {
		mu.Lock()
		d := time.Duration(slow.IntN(300)) * time.Millisecond
		mu.Unlock()
		return delay(d)(ctx, apply)
	})
	m.open()
	done := make(chan struct{})
	var wg sync.WaitGroup
	defer wg.Wait()
	defer close(done)
	for i := range readers {
		seed := r.Uint64()
		wg.Go(func() { m.readBeside(rand.New(rand.NewPCG(seed, uint64(i))), done) })
	}
	defer func() { m.writer.Load().Abort() }()
	for range 300 {
		m.step()
	}
	m.end(false)
	h, err := m.take(m.writer.Load(), false)
	if err != nil || len(h.history) != len(m.history) {
		t.Fatalf("%d rows in the end, want %d: %v", len(h.history), len(m.history), err)
	}
	m.held = append(m.held, h)
	for i, h := range m.held {
		for range 10 {
			if err := m.check(r, h); err != nil {
				t.Fatalf("in the end, snapshot %d of %d rows: %v", i, h.s.Bound(), err)
			}
		}
		h.s.Close()
	}
	return m
}

func (m *modelRun) readBeside(r *rand.Rand, done <-chan struct{}) {
	for {
		select {
		case <-done:
			return
		case <-time.After(time.Duration(r.IntN(400)) * time.Millisecond):
		}
		h, err := m.take(m.writer.Load(), r.IntN(3) == 0)
		if errors.Is(err, ErrClosed) || errors.Is(err, ErrAborted) {
			continue
		}
		if err != nil {
			m.t.Errorf("beside the writer: %v", err)
			return
		}
		for range 3 {
			if err := m.check(r, h); err != nil {
				m.t.Errorf("beside the writer, snapshot of %d rows: %v", h.s.Bound(), err)
			}
		}
		h.s.Close()
	}
}
