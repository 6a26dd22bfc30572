package soak

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/blevesearch/bleve/v2/search/query"
	"github.com/memwal/memwal-go/index"
	"github.com/memwal/memwal-go/memwal"
)

// snapshot is the part of memwal.Snapshot that is checked.
type snapshot interface {
	Bound() uint64
	Count(ctx context.Context) (int64, error)
	Lookup(ctx context.Context, key ...any) (memwal.Row, error)
	Range(ctx context.Context, name string, r index.Range, o memwal.ScanOptions) (array.RecordReader, error)
	Scan(ctx context.Context, o memwal.ScanOptions) (array.RecordReader, error)
	Hits(ctx context.Context, name string, q query.Query, o memwal.SearchOptions) ([]memwal.Hit, error)
}

// model is what a snapshot must show.
type model struct {
	w        workload
	segments []segment
	bound    uint64
	newest   map[int64]uint64 // ordinal by key; nil without a primary key
	live     []placed         // in order of ordinals
}

// placed is a row at its ordinal.
type placed struct {
	ordinal uint64
	row
}

// newModel computes what a snapshot of bound rows shows whose history is
// segments.
func newModel(w workload, segments []segment, bound uint64) *model {
	m := &model{w: w, segments: segments, bound: bound}
	if w.keyed {
		m.newest = make(map[int64]uint64)
		m.each(func(p placed) { m.newest[p.key] = p.ordinal })
	}
	m.each(func(p placed) {
		if !p.dead && (!w.keyed || m.newest[p.key] == p.ordinal) {
			m.live = append(m.live, p)
		}
	})
	return m
}

func (m *model) each(visit func(placed)) {
	for _, s := range m.segments {
		for o := s.from; o < s.to; o++ {
			visit(placed{o, m.w.row(s.incarnation, o-s.from)})
		}
	}
}

// at is the row at an ordinal below bound.
func (m *model) at(ordinal uint64) row {
	i, _ := slices.BinarySearchFunc(m.segments, ordinal, func(s segment, o uint64) int {
		switch {
		case o < s.from:
			return 1
		case o >= s.to:
			return -1
		}
		return 0
	})
	return m.w.row(m.segments[i].incarnation, ordinal-m.segments[i].from)
}

// sampledLookups are the keys of a check that is not deep.
const sampledLookups = 64

// check compares everything that a snapshot says with the ledger: deep looks
// up every key, else some are drawn. It returns a digest of what was shown and the
// number of rows compared.
func check(ctx context.Context, l *ledger, w workload, s snapshot, deep bool, rng *rand.Rand) (digest uint64, rows int64, err error) {
	if err := l.show(s.Bound()); err != nil {
		return 0, 0, err
	}
	m := newModel(w, l.history(s.Bound()), s.Bound())
	if digest, err = m.checkScan(ctx, s); err != nil {
		return 0, 0, err
	}
	if err := m.checkRange(ctx, s); err != nil {
		return 0, 0, err
	}
	if err := m.checkSearch(ctx, s, rng.Uint64N(words)); err != nil {
		return 0, 0, err
	}
	n, err := s.Count(ctx)
	if err != nil || n != int64(len(m.live)) {
		return 0, 0, violated("a snapshot of %d rows counts %d live ones, %v; there must be %d", m.bound, n, err, len(m.live))
	}
	return digest, n, m.checkLookups(ctx, s, deep, rng)
}

// checkScan compares the rows in the order of their ordinals.
func (m *model) checkScan(ctx context.Context, s snapshot) (digest uint64, err error) {
	r, err := s.Scan(ctx, memwal.ScanOptions{Ordinals: true})
	if err != nil {
		return 0, violated("scan of %d rows: %v", m.bound, err)
	}
	digest = mix(m.bound)
	err = m.compare("scan", r, m.live, func(p placed) { digest = mix(digest, p.ordinal, uint64(p.n)) })
	return digest, err
}

// checkRange compares the rows in the order of the ordered index.
func (m *model) checkRange(ctx context.Context, s snapshot) error {
	r, err := s.Range(ctx, byN, index.Range{}, memwal.ScanOptions{Ordinals: true})
	if err != nil {
		return violated("range over %d rows: %v", m.bound, err)
	}
	want := slices.Clone(m.live)
	slices.SortFunc(want, func(a, b placed) int { return cmp.Compare(a.n, b.n) })
	return m.compare("range", r, want, func(placed) {})
}

// checkSearch compares the rows that a search for a word finds: all those, and no others,
// whose newest version has it, by falling score, and by ordinal where scores are equal.
func (m *model) checkSearch(ctx context.Context, s snapshot, number uint64) error {
	var want []placed
	for _, p := range m.live {
		if _, ok := m.w.text(p.n); ok && m.w.wordOf(p.n) == number {
			want = append(want, p)
		}
	}
	what := "search for " + word(number)
	hits, err := s.Hits(ctx, byText, query.NewTermQuery(word(number)), memwal.SearchOptions{Limit: len(m.live) + 1})
	if err != nil {
		return violated("%s among %d rows: %v", what, m.bound, err)
	}
	for i := 1; i < len(hits); i++ {
		if a, b := hits[i-1], hits[i]; !(a.Score > b.Score || a.Score == b.Score && a.Ordinal < b.Ordinal) {
			return violated("%s among %d rows: row %d with a score of %v comes before row %d with %v", what, m.bound, a.Ordinal, a.Score, b.Ordinal, b.Score)
		}
	}
	slices.SortFunc(hits, func(a, b memwal.Hit) int { return cmp.Compare(a.Ordinal, b.Ordinal) })
	for i, p := range want {
		if i == len(hits) || hits[i].Ordinal != p.ordinal {
			return violated("%s among %d rows: %d rows were found, %d must be; row %d of the history is the first that is wrong", what, m.bound, len(hits), len(want), p.ordinal)
		}
		h := hits[i]
		if n := h.Column(1).(*array.Int64).Value(h.Index); n != p.n {
			return violated("%s among %d rows: row %d is n=%d, must be n=%d", what, m.bound, p.ordinal, n, p.n)
		}
	}
	if len(hits) > len(want) {
		return violated("%s among %d rows: row %d was found, and must not be", what, m.bound, hits[len(want)].Ordinal)
	}
	return nil
}

// compare reads r to its end, releases it, and finds the first row that is not the
// wanted one.
func (m *model) compare(what string, r array.RecordReader, want []placed, seen func(placed)) error {
	defer r.Release()
	found := 0
	for r.Next() {
		rec := r.RecordBatch()
		cols := columnsOf(rec)
		for i := range int(rec.NumRows()) {
			ordinal := cols.ordinal.Value(i)
			if found == len(want) {
				return violated("%s of %d rows: after all rows comes one more, ordinal %d, id %d, n %d", what, m.bound, ordinal, cols.id.Value(i), cols.n.Value(i))
			}
			p := want[found]
			if text, ok := m.w.text(p.n); ordinal != p.ordinal || cols.id.Value(i) != p.key || cols.n.Value(i) != p.n ||
				cols.text.IsNull(i) == ok || ok && cols.text.Value(i) != text {
				return violated("%s of %d rows, place %d: ordinal %d, id %d, n %d, text %q; there must be ordinal %d, id %d, n %d, text %q",
					what, m.bound, found, ordinal, cols.id.Value(i), cols.n.Value(i), cols.text.ValueStr(i), p.ordinal, p.key, p.n, text)
			}
			seen(p)
			found++
		}
	}
	if err := r.Err(); err != nil {
		return violated("%s of %d rows: %v", what, m.bound, err)
	}
	if found < len(want) {
		p := want[found]
		return violated("%s of %d rows ends after %d; the next must be ordinal %d, id %d, n %d", what, m.bound, found, p.ordinal, p.key, p.n)
	}
	return nil
}

// columns are those of the table, as a scan returns them with ordinals.
type columns struct {
	id, n   *array.Int64
	text    *array.String
	ordinal *array.Uint64
}

func columnsOf(rec arrow.RecordBatch) columns {
	return columns{rec.Column(0).(*array.Int64), rec.Column(1).(*array.Int64), rec.Column(2).(*array.String), rec.Column(3).(*array.Uint64)}
}

func (m *model) checkLookups(ctx context.Context, s snapshot, deep bool, rng *rand.Rand) error {
	if !m.w.keyed {
		return nil
	}
	if err := m.lookUp(ctx, s, math.MinInt64, math.MaxUint64); err != nil { // a key that nobody has
		return err
	}
	if deep {
		for key, ordinal := range m.newest {
			if err := m.lookUp(ctx, s, key, ordinal); err != nil {
				return err
			}
		}
		return nil
	}
	for range min(sampledLookups, m.bound) {
		key := m.at(rng.Uint64N(m.bound)).key
		if err := m.lookUp(ctx, s, key, m.newest[key]); err != nil {
			return err
		}
	}
	return nil
}

// lookUp looks up a key whose newest version has that ordinal; one above bound
// stands for none.
func (m *model) lookUp(ctx context.Context, s snapshot, key int64, ordinal uint64) error {
	row, err := s.Lookup(ctx, key)
	if err != nil {
		return violated("lookup of id %d in %d rows: %v", key, m.bound, err)
	}
	want := memwal.Absent
	if ordinal < m.bound {
		if want = memwal.Present; m.at(ordinal).dead {
			want = memwal.Deleted
		}
	}
	switch {
	case row.Presence != want:
		return violated("lookup of id %d in %d rows: %v, ordinal %d; it must be %v, and its newest version ordinal %d", key, m.bound, row.Presence, row.Ordinal, want, ordinal)
	case want != memwal.Present:
		return nil
	case row.Ordinal != ordinal || row.Column(0).(*array.Int64).Value(row.Index) != key || row.Column(1).(*array.Int64).Value(row.Index) != m.at(ordinal).n:
		return violated("lookup of id %d in %d rows: ordinal %d, id %d, n %d; its newest version is ordinal %d, n %d", key, m.bound, row.Ordinal,
			row.Column(0).(*array.Int64).Value(row.Index), row.Column(1).(*array.Int64).Value(row.Index), ordinal, m.at(ordinal).n)
	}
	return nil
}
