package memwal

import (
	"cmp"
	"context"
	"fmt"
	"iter"
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
		return fmt.Sprintf("take %d live rows of the ordered index %q%s, and order them by ordinal", p.Candidates, p.Index, with)
	}
	order := ""
	if p.reverse {
		order = " backwards"
	}
	if p.narrowed {
		order += ", within the bounds of the filter"
	}
	return fmt.Sprintf("go through the ordered index %q%s%s", p.Index, order, with)
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

// What a scan looks at instead of all rows must be few of them: a row that an index
// finds costs some fifty times one that a scan passes by. The first keysAlways keys
// are looked up in any case, since that is next to nothing.
const (
	indexShare = 64
	keysShare  = 32
	keysAlways = 16
)

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
	bounds := prog.Bounds()
	if runs, keys, ok := s.byKeys(p.Rows, o.From, bounds, views); ok {
		p.Access, p.Keys = AccessKeys, keys
		return p, runs
	}
	most := int(min(p.Rows/indexShare, 1<<20))
	for _, b := range promising(bounds) {
		name, err := s.r.spec.OrderedOver(s.r.user.Field(b.Column).Name)
		if err != nil {
			continue
		}
		if runs, ok := byIndex(ctx, name, b, o.From, most, views); ok {
			p.Access, p.Index, p.Candidates = AccessIndex, name, len(runs)
			return p, runs
		}
	}
	return p, nil
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

// promising orders bounds: pins first, few before many, then intervals, closed
// before half-open.
func promising(bounds []filter.Bound) []filter.Bound {
	weight := func(b filter.Bound) int {
		switch {
		case b.Pins != nil:
			return len(b.Pins)
		case b.Low != nil && b.High != nil:
			return 1 << 40
		}
		return 1 << 41
	}
	bounds = slices.Clone(bounds)
	slices.SortStableFunc(bounds, func(a, b filter.Bound) int { return cmp.Compare(weight(a), weight(b)) })
	return bounds
}

// byKeys looks up the keys that the filter pins, if it pins them all and they are
// not too many.
func (s *Snapshot) byKeys(rows, from uint64, bounds []filter.Bound, views []memtable.View) (runs []run, n int, ok bool) {
	names := s.r.table.PrimaryKey
	if len(names) == 0 {
		return nil, 0, false
	}
	pins := make([][]any, len(names))
	n = 1
	most := int(min(max(rows/keysShare, keysAlways), 1<<20))
	for i, name := range names {
		col := s.r.user.FieldIndices(name)[0]
		at := slices.IndexFunc(bounds, func(b filter.Bound) bool { return b.Column == col && b.Pins != nil })
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
			rec, row := v.Locate(slot)
			return run{rec: rec, row: int64(row), n: 1, ordinal: v.Memtable().FirstRow() + uint64(slot)}, true
		}
	}
	return run{}, false
}

func sortRuns(runs []run) {
	slices.SortFunc(runs, func(a, b run) int { return cmp.Compare(a.ordinal, b.ordinal) })
}

// byIndex takes the candidates out of an index, unless they are more than most. It
// fails where the index does: a scan needs none.
func byIndex(ctx context.Context, name string, b filter.Bound, from uint64, most int, views []memtable.View) (runs []run, ok bool) {
	if len(b.Pins) > most {
		return nil, false
	}
	for _, r := range rangesOf(b) {
		for i, v := range views {
			seq, err := v.RangeKeys(name, r)
			if err != nil {
				return nil, false
			}
			k := keyed{view: v, seq: seq, from: from, hidden: memtable.HiddenBy(v, views[i+1:])}
			for _, r := range k.rows {
				if len(runs) == most || ctx.Err() != nil {
					return nil, false
				}
				runs = append(runs, r)
			}
		}
	}
	sortRuns(runs)
	return runs, true
}

// rangesOf are the parts of an index over the column that have every match.
func rangesOf(b filter.Bound) []index.Range {
	if b.Pins == nil {
		var r index.Range
		narrow(&r, b)
		return []index.Range{r}
	}
	out := make([]index.Range, len(b.Pins))
	for i, v := range b.Pins {
		out[i] = index.Range{Low: []any{v}, High: []any{v}}
	}
	return out
}

// narrow bounds the ends of a range that have no bound yet.
func narrow(r *index.Range, b filter.Bound) bool {
	done := false
	if b.Pins != nil {
		if len(b.Pins) > 1 {
			// In the column's order, so these are the ends.
			b.Low, b.High = b.Pins[0], b.Pins[len(b.Pins)-1]
		} else {
			b.Low, b.High = b.Pins[0], b.Pins[0]
		}
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
	lead := s.r.leads(name)
	for _, b := range prog.Bounds() {
		if s.r.user.Field(b.Column).Name != lead {
			continue
		}
		narrowed := r
		if narrow(&narrowed, b) && s.checkRange(name, narrowed, views) == nil {
			r, p.narrowed = narrowed, true
		}
	}
	return p, r, nil
}

// leads is the first column of an ordered index.
func (r *resident) leads(name string) string {
	for _, c := range r.spec.Configs() {
		if o, ok := c.(index.Ordered); ok && o.Name == name {
			return o.Columns[0].Name
		}
	}
	return ""
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

// matching yields the parts of runs that the filter is true for. It ends when ctx
// does: it may look for long without a match.
func matching(ctx context.Context, prog *filter.Program, runs iter.Seq[run]) iter.Seq[run] {
	if prog == nil {
		return runs
	}
	return func(yield func(run) bool) {
		e := prog.NewEvaluator()
		for r := range runs {
			for at := int64(0); at < r.n; at += filter.Block {
				if ctx.Err() != nil {
					return
				}
				from := r.row + at
				for a, b := range e.Runs(r.rec, int(from), int(min(from+filter.Block, r.row+r.n))) {
					if !yield(run{rec: r.rec, row: int64(a), n: int64(b - a), ordinal: r.ordinal + uint64(int64(a)-r.row)}) {
						return
					}
				}
			}
		}
	}
}
