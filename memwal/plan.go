package memwal

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/memwal/memwal-go/index"
	"github.com/memwal/memwal-go/internal/filter"
	"github.com/memwal/memwal-go/memtable"
)

// Access is how the rows of a read are found.
type Access uint8

const (
	// AccessScan: every row is looked at.
	AccessScan Access = iota
	// AccessNothing: the filter contradicts itself, no row is looked at.
	AccessNothing
	// AccessKeys: the filter pins the whole primary key; the keys are looked up.
	AccessKeys
	// AccessIndex: an ordered index gives few candidates, or its order was asked for.
	AccessIndex
	// AccessHits: each row that matches the query of a search is looked at.
	AccessHits
)

// Plan says how a read is served. It is what Explain returns; no result depends on
// it but the time that it takes.
type Plan struct {
	Access Access
	Index  string // of AccessIndex
	// Columns is how many of the index's columns the filter bounds.
	Columns int
	// Keys is how many keys are looked up, of AccessKeys.
	Keys int
	// Candidates is how many live rows an index gave a scan, of which the filter
	// picks.
	Candidates int
	// Rows is how many rows, live or not, the snapshot has from ScanOptions.From on:
	// what a scan looks at.
	Rows   uint64
	Filter Filter

	ranged   bool // Explain was asked for a range
	narrowed bool // and the filter bounds it
	reverse  bool
	filtered bool // the filter leaves something out
}

// String says it in words.
func (p Plan) String() string {
	with := ""
	if p.filtered {
		with = ", filter them by " + p.Filter.String()
	}
	switch {
	case p.Access == AccessNothing:
		return fmt.Sprintf("read nothing: no row can match %v", p.Filter)
	case p.Access == AccessKeys:
		return fmt.Sprintf("look up %d primary keys%s, and order what was found by ordinal", p.Keys, with)
	case p.Access == AccessScan:
		return fmt.Sprintf("scan the live ones of %d rows in the order of ordinals%s", p.Rows, with)
	case !p.ranged:
		return fmt.Sprintf("take %d live rows of the ordered index %q%s%s, and order them by ordinal", p.Candidates, p.Index, p.columns(), with)
	}
	order := ""
	if p.reverse {
		order = " backwards"
	}
	if p.narrowed {
		order += ", within the bounds of the filter" + p.columns()
	}
	return fmt.Sprintf("go through the ordered index %q%s%s", p.Index, order, with)
}

func (p Plan) columns() string {
	if p.Columns < 2 {
		return ""
	}
	return fmt.Sprintf(" on its first %d columns", p.Columns)
}

// Explain says how Scan with these options is served. It does the part of the work
// that decides it, which is little.
func (s *Snapshot) Explain(ctx context.Context, o ScanOptions) (Plan, error) {
	var p Plan
	err := s.explain(ctx, o, func(prog *filter.Program, views []memtable.View) error {
		p, _ = s.plan(ctx, o, prog, views)
		return ctx.Err()
	})
	return p, err
}

// ExplainRange says how Range with these arguments is served.
func (s *Snapshot) ExplainRange(ctx context.Context, name string, r index.Range, o ScanOptions) (Plan, error) {
	var p Plan
	err := s.explain(ctx, o, func(prog *filter.Program, views []memtable.View) error {
		var err error
		p, _, err = s.planRange(name, r, o, prog, views)
		return err
	})
	return p, err
}

func (s *Snapshot) explain(ctx context.Context, o ScanOptions, do func(*filter.Program, []memtable.View) error) error {
	_, o, err := s.gatherer("explain", o)
	if err != nil {
		return err
	}
	prog, err := s.r.bindFilter("explain", o.Filter)
	if err != nil {
		return err
	}
	if err := s.acquire(ctx, "explain"); err != nil {
		return err
	}
	defer s.view.release()
	views := s.views()
	if err = s.keyFailed(views); err == nil {
		err = do(prog, views)
	}
	if err != nil {
		return fmt.Errorf("explain: %w", err)
	}
	return nil
}

// How many rows may be found by an index before a scan of all is faster. Measured with
// BenchmarkFilterPlans over a million rows, on two quiet cores: a row found by an ordered
// index costs 0.4 to 0.9 µs, and over small batches 2 µs, mostly for cache misses; by the
// key up to twice that. A row that a scan passes by costs 1.5 ns, or 3.5 ns where its
// liveness is asked, and a batch some 0.8 µs more. So tables without a key break even where
// a 450th is found, keyed ones at a 200th, and those written in batches of 20 rows at a
// 45th. A filter on text makes a scan dearer; that is left out.
const (
	plainRows  = 400 // of a table without a key, scanned, cost as much as one found
	keyedRows  = 200
	cutBatches = 3  // cost as much as one row found, beside their rows
	keyCost    = 2  // of a row found by its key, in rows found by an index
	keysAlways = 16 // are looked up in any case, since that is next to nothing
	mostFound  = 1 << 20
)

// budget is how many rows an index may find.
func (s *Snapshot) budget(from uint64, views []memtable.View) int {
	rows, share := rowsFrom(from, views), uint64(plainRows)
	if len(s.r.table.PrimaryKey) > 0 {
		share = keyedRows
	}
	n, cut := rows/share, uint64(0)
	for _, v := range views {
		m := v.Memtable()
		if end := m.FirstRow() + uint64(v.Bound()); v.Bound() > 0 && end > from {
			first := uint32(max(from, m.FirstRow()) - m.FirstRow())
			cut += uint64(m.FindBatch(v.Bound()-1) - m.FindBatch(first) + 1)
		}
	}
	return int(min(n+cut/cutBatches, mostFound))
}

// plan decides how a scan is served. runs is what an access other than AccessScan
// gives: live rows in the order of ordinals, all matches among them.
func (s *Snapshot) plan(ctx context.Context, o ScanOptions, prog *filter.Program, views []memtable.View) (p Plan, runs []run) {
	p = Plan{Rows: rowsFrom(o.From, views), Filter: o.Filter, filtered: prog != nil}
	if prog == nil {
		return p, nil
	}
	if prog.Never() {
		p.Access = AccessNothing
		return p, nil
	}
	c, few := s.find(ctx, s.budget(o.From, views), o.From, prog, views)
	if !few {
		return p, nil
	}
	p.Access, p.Keys = c.access, c.keys
	if c.access == AccessIndex {
		p.Index, p.Columns, p.Candidates = c.index, c.columns, len(c.runs)
	}
	return p, c.runs
}

// candidates are the rows that can pass a filter, found without a scan.
type candidates struct {
	access Access // AccessKeys or AccessIndex
	keys   int    // looked up
	coverage
	runs []run // live rows in the order of ordinals, all matches among them
}

// find finds the candidates by the primary key or an ordered index, if there are no more
// than most.
func (s *Snapshot) find(ctx context.Context, most int, from uint64, prog *filter.Program, views []memtable.View) (candidates, bool) {
	bounds := prog.Bounds()
	if runs, keys, ok := s.byKeys(ctx, most, from, bounds, views); ok {
		return candidates{access: AccessKeys, keys: keys, runs: runs}, true
	}
	for _, c := range s.r.coverages(bounds, most) {
		if runs, ok := byIndex(ctx, c, from, most, views); ok {
			return candidates{access: AccessIndex, coverage: c, runs: runs}, true
		}
	}
	return candidates{}, false
}

// rowsFrom is the number of rows, live or not, that a scan has to look at.
func rowsFrom(from uint64, views []memtable.View) uint64 {
	var n uint64
	for _, v := range views {
		first := v.Memtable().FirstRow()
		if end := first + uint64(v.Bound()); end > from {
			n += end - max(first, from)
		}
	}
	return n
}

// coverage is how an ordered index serves a filter: all matches lie in its ranges.
type coverage struct {
	index   string
	ranges  []index.Range // in the index's order
	columns int           // that are bounded
	pinned  int           // of them, by values
	closed  bool          // the last one, if it is not pinned, at both ends
}

// coverages are the ordered indexes that can serve a filter with at most so many ranges,
// the most promising first: those with most columns pinned, then those whose next one
// is bounded at both ends, then those with few ranges.
func (r *resident) coverages(bounds []filter.Bound, most int) []coverage {
	var out []coverage
	for _, cfg := range r.spec.Configs() {
		if o, ok := cfg.(index.Ordered); ok {
			if c := r.coverage(o, bounds, most); c.columns > 0 {
				out = append(out, c)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b coverage) int {
		return cmp.Or(
			cmp.Compare(b.pinned, a.pinned),
			cmp.Compare(boolInt(b.closed), boolInt(a.closed)),
			cmp.Compare(b.columns, a.columns),
			cmp.Compare(len(a.ranges), len(b.ranges)),
		)
	})
	return out
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// coverage goes along the columns of an index for as long as each is pinned; the one after
// them may be bounded.
func (r *resident) coverage(o index.Ordered, bounds []filter.Bound, most int) coverage {
	c := coverage{index: o.Name}
	prefixes := [][]any{nil}
	for _, col := range o.Columns {
		b, ok := r.boundOf(col.Name, bounds)
		if !ok {
			break
		}
		if b.Pins == nil {
			c.columns++
			c.closed = b.Low != nil && b.High != nil
			for _, p := range prefixes {
				c.ranges = append(c.ranges, within(p, b))
			}
			return c
		}
		if len(prefixes)*len(b.Pins) > max(most, 1) {
			break
		}
		next := make([][]any, 0, len(prefixes)*len(b.Pins))
		for _, p := range prefixes {
			for _, v := range b.Pins {
				next = append(next, append(p[:len(p):len(p)], v))
			}
		}
		prefixes = next
		c.columns, c.pinned = c.columns+1, c.pinned+1
	}
	if c.columns == 0 {
		return c
	}
	for _, p := range prefixes {
		c.ranges = append(c.ranges, index.Range{Low: p, High: p})
	}
	return c
}

// within is the part of an index whose first columns are a prefix, and whose next one is
// in an interval.
func within(prefix []any, b filter.Bound) index.Range {
	r := index.Range{Low: prefix, High: prefix}
	if b.Low != nil {
		r.Low, r.LowOpen = append(prefix[:len(prefix):len(prefix)], b.Low), b.LowOpen
	}
	if b.High != nil {
		r.High, r.HighOpen = append(prefix[:len(prefix):len(prefix)], b.High), b.HighOpen
	}
	return r
}

// boundOf is the best bound of a column: pins if there are any.
func (r *resident) boundOf(column string, bounds []filter.Bound) (best filter.Bound, ok bool) {
	for _, b := range bounds {
		if r.user.Field(b.Column).Name != column {
			continue
		}
		if !ok || b.Pins != nil && (best.Pins == nil || len(b.Pins) < len(best.Pins)) {
			best, ok = b, true
		}
	}
	return best, ok
}

// byKeys looks up the keys that the filter pins, if it pins them all and they are
// not too many.
func (s *Snapshot) byKeys(ctx context.Context, budget int, from uint64, bounds []filter.Bound, views []memtable.View) (runs []run, n int, ok bool) {
	names := s.r.table.PrimaryKey
	if len(names) == 0 {
		return nil, 0, false
	}
	pins := make([][]any, len(names))
	n = 1
	most := max(budget/keyCost, keysAlways)
	for i, name := range names {
		col := s.r.user.FieldIndices(name)[0]
		at := slices.IndexFunc(bounds, func(b filter.Bound) bool { return b.Column == col && b.Pins != nil && b.Pins[0] != nil })
		if at < 0 {
			return nil, 0, false
		}
		pins[i] = bounds[at].Pins
		if n *= len(pins[i]); n > most {
			return nil, 0, false
		}
	}
	key := make([]any, len(names))
	for i := range n {
		for c, k := len(pins)-1, i; c >= 0; c-- {
			key[c] = pins[c][k%len(pins[c])]
			k /= len(pins[c])
		}
		k, err := s.r.spec.Key(key...)
		if err != nil {
			return nil, 0, false // too long for a key
		}
		if i%1024 == 0 && ctx.Err() != nil {
			return nil, 0, false
		}
		if r, ok := newest(views, k); ok && r.ordinal >= from {
			runs = append(runs, r)
		}
	}
	sortRuns(runs)
	return runs, n, true
}

// newest is the live row with a key.
func newest(views []memtable.View, k index.Key) (run, bool) {
	for _, v := range slices.Backward(views) {
		if slot, ok := v.Lookup(k); ok {
			if !v.Live(slot) {
				return run{}, false
			}
			return runAt(v, slot), true
		}
	}
	return run{}, false
}

func sortRuns(runs []run) {
	slices.SortFunc(runs, func(a, b run) int { return cmp.Compare(a.ordinal, b.ordinal) })
}

// byIndex takes the candidates out of an index, unless they are more than most. It
// fails where the index does: a scan needs none.
func byIndex(ctx context.Context, c coverage, from uint64, most int, views []memtable.View) (runs []run, ok bool) {
	for i, v := range views {
		first := v.Memtable().FirstRow()
		hidden := memtable.HiddenBy(ctx, v, views[i+1:])
		for _, r := range c.ranges {
			slots, err := v.Range(c.index, r)
			if err != nil {
				return nil, false
			}
			for slot := range slots {
				if first+uint64(slot) < from || hidden.Hides(slot) {
					continue
				}
				if len(runs) == most || ctx.Err() != nil {
					return nil, false
				}
				runs = append(runs, runAt(v, slot))
			}
		}
	}
	sortRuns(runs)
	return runs, true
}

// narrow bounds the ends of a range that have no bound yet.
func narrow(r *index.Range, b filter.Bound) bool {
	done := false
	if b.Pins != nil {
		if b.Pins[0] == nil {
			return false // the nulls are before all that has a bound
		}
		// In the column's order, so these are the ends.
		b.Low, b.High = b.Pins[0], b.Pins[len(b.Pins)-1]
	}
	if len(r.Low) == 0 && b.Low != nil {
		r.Low, r.LowOpen, done = []any{b.Low}, b.LowOpen, true
	}
	if len(r.High) == 0 && b.High != nil {
		r.High, r.HighOpen, done = []any{b.High}, b.HighOpen, true
	}
	return done
}

// planRange decides how a range is served, and returns the range to go through.
func (s *Snapshot) planRange(name string, r index.Range, o ScanOptions, prog *filter.Program, views []memtable.View) (Plan, index.Range, error) {
	p := Plan{
		Access: AccessIndex, Index: name, Rows: rowsFrom(o.From, views), Filter: o.Filter,
		ranged: true, reverse: r.Reverse, filtered: prog != nil,
	}
	// A wrong question gets its answer whatever the filter makes of it.
	if err := s.checkRange(name, r, views); err != nil {
		return p, r, err
	}
	if prog == nil {
		return p, r, nil
	}
	if prog.Never() {
		p.Access = AccessNothing
		return p, r, nil
	}
	p.narrowed, p.Columns, r = s.narrowed(name, r, prog, views)
	return p, r, nil
}

// narrowed bounds a range by the filter. A range without bounds of its own takes all that
// the filter says of the index's columns, if that is one range; one with bounds takes an
// end that it has none for.
func (s *Snapshot) narrowed(name string, r index.Range, prog *filter.Program, views []memtable.View) (done bool, columns int, _ index.Range) {
	bounds := prog.Bounds()
	o := s.r.ordered(name)
	if len(r.Low) == 0 && len(r.High) == 0 {
		if c := s.r.coverage(o, bounds, 1); len(c.ranges) == 1 {
			n := c.ranges[0]
			n.Reverse = r.Reverse
			if s.checkRange(name, n, views) == nil {
				return true, c.columns, n
			}
		}
	}
	if b, ok := s.r.boundOf(o.Columns[0].Name, bounds); ok {
		n := r
		if narrow(&n, b) && s.checkRange(name, n, views) == nil {
			return true, 1, n
		}
	}
	return false, 0, r
}

// ordered is the configuration of an ordered index that there is.
func (r *resident) ordered(name string) index.Ordered {
	for _, c := range r.spec.Configs() {
		if o, ok := c.(index.Ordered); ok && o.Name == name {
			return o
		}
	}
	return index.Ordered{Columns: make([]index.Column, 1)}
}

// checkRange asks the memtables, or an empty one if there are none.
func (s *Snapshot) checkRange(name string, r index.Range, views []memtable.View) error {
	for _, v := range views {
		if _, err := v.RangeKeys(name, r); err != nil {
			return rangeError(err)
		}
	}
	if len(views) == 0 {
		return rangeError(s.r.checkRange(name, r))
	}
	return nil
}
