package soak

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/blevesearch/bleve/v2/search/query"
	"github.com/google/uuid"
	"github.com/memwal/memwal-go/index"
	"github.com/memwal/memwal-go/memwal"
	"github.com/memwal/memwal-go/objstore"
)

// fill opens a new shard and puts the first n rows of an incarnation into it. The
// ledger knows of them.
func fill(t *testing.T, l *ledger, w workload, n uint64) *memwal.Writer {
	t.Helper()
	o := &memwal.Options{Indexes: indexes}
	if w.keyed {
		o.PrimaryKey = []string{"id"}
	}
	wr, err := memwal.Open(t.Context(), objstore.NewMemory(), uuid.New(), tableSchema, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = wr.Abort() })
	inc := start(t, l, 1, 1, 0, n, 0)
	for seq := uint64(0); seq < n; {
		rec, dead := w.batch(1, seq, int(min(20, n-seq)))
		do := wr.PutAsync
		if dead {
			do = wr.DeleteAsync
		}
		if _, err := do(t.Context(), rec); err != nil {
			t.Fatal(err)
		}
		seq += uint64(rec.NumRows())
		rec.Release()
	}
	if err := wr.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := l.acknowledge(inc, n); err != nil {
		t.Fatal(err)
	}
	return wr
}

func snapshotOf(t *testing.T, w *memwal.Writer) *memwal.Snapshot {
	t.Helper()
	s, err := w.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func TestCheckOfASoundShard(t *testing.T) {
	for _, w := range []workload{{seed: 1, keyed: true}, {seed: 2}} {
		var l ledger
		s := snapshotOf(t, fill(t, &l, w, 3000))
		rng := rand.New(rand.NewPCG(1, 1))
		deep, rows, err := check(t.Context(), &l, w, s, true, rng)
		if err != nil {
			t.Fatal(err)
		}
		quick, again, err := check(t.Context(), &l, w, s, false, rng)
		if err != nil || deep != quick || rows != again {
			t.Errorf("asked again: digests %x and %x, %d and %d rows, %v", deep, quick, rows, again, err)
		}
		if !w.keyed && rows != 3000 || w.keyed && (rows < 1000 || rows > 2500) {
			t.Errorf("%d live rows, keyed %t", rows, w.keyed)
		}
	}
}

// liar is a snapshot that does not tell the truth.
type liar struct {
	*memwal.Snapshot
	bound           uint64 // 0: the truth
	more            int64  // rows that Count adds
	scan, byIndex   memwal.ScanOptions
	from            []any // of a range
	wrongKey, other any   // a lookup of the first finds the second
	hits            func([]memwal.Hit) []memwal.Hit
}

func (l *liar) Hits(ctx context.Context, name string, q query.Query, o memwal.SearchOptions) ([]memwal.Hit, error) {
	hits, err := l.Snapshot.Hits(ctx, name, q, o)
	if l.hits != nil {
		hits = l.hits(hits)
	}
	return hits, err
}

func (l *liar) Bound() uint64 {
	if l.bound > 0 {
		return l.bound
	}
	return l.Snapshot.Bound()
}

func (l *liar) Count(ctx context.Context) (int64, error) {
	n, err := l.Snapshot.Count(ctx)
	return n + l.more, err
}

func (l *liar) Scan(ctx context.Context, o memwal.ScanOptions) (array.RecordReader, error) {
	o.From, o.Limit = l.scan.From, l.scan.Limit
	return l.Snapshot.Scan(ctx, o)
}

func (l *liar) Range(ctx context.Context, name string, r index.Range, o memwal.ScanOptions) (array.RecordReader, error) {
	r.Low, o.Limit = l.from, l.byIndex.Limit
	return l.Snapshot.Range(ctx, name, r, o)
}

func (l *liar) Lookup(ctx context.Context, key ...any) (memwal.Row, error) {
	if key[0] == l.wrongKey {
		key = []any{l.other}
	}
	return l.Snapshot.Lookup(ctx, key...)
}

// Every part of a check finds what is wrong.
func TestCheckFindsViolations(t *testing.T) {
	w := workload{seed: 3, keyed: true}
	var l ledger
	s := snapshotOf(t, fill(t, &l, w, 500))
	m := newModel(w, l.history(500), 500)
	live := m.live
	var deleted int64
	for key, ordinal := range m.newest {
		if m.at(ordinal).dead {
			deleted = key
			break
		}
	}
	for _, tc := range []struct {
		name, want string
		liar       liar
	}{
		{"a row of the beginning is lost", "scan of 500 rows, place 0", liar{scan: memwal.ScanOptions{From: live[0].ordinal + 1}}},
		{"a row of the end is lost", "the next must be ordinal", liar{scan: memwal.ScanOptions{Limit: int64(len(live) - 1)}}},
		{"rows come too early", "scan of 400 rows", liar{bound: 400}},
		{"the index lost a row", "range of 500 rows", liar{from: []any{live[0].n + 1}}},
		{"the index lost its last row", "range of 500 rows", liar{byIndex: memwal.ScanOptions{Limit: int64(len(live) - 1)}}},
		{"a wrong count", "counts", liar{more: 1}},
		{"a lookup finds another row", "its newest version is ordinal", liar{wrongKey: live[5].key, other: live[6].key}},
		{"a live row is absent", "it must be present", liar{wrongKey: live[5].key, other: int64(1 << 60)}},
		{"a deleted row is there", "it must be deleted", liar{wrongKey: deleted, other: live[0].key}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.liar.Snapshot = s
			_, _, err := check(t.Context(), &l, w, &tc.liar, true, rand.New(rand.NewPCG(1, 1)))
			if _, ok := asViolation(err); !ok || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want a violation with %q", err, tc.want)
			}
		})
	}
}

// Rows with another content than those that were put are found, and so are doubles,
// and rows of another incarnation than the ledger has.
func TestCheckComparesRows(t *testing.T) {
	put := workload{seed: 4}
	for _, tc := range []struct {
		name, want string
		w          workload // that is expected
		spoil      func(l *ledger)
	}{
		{"another text", "text", workload{seed: 5}, func(*ledger) {}},
		{"another incarnation", "there must be ordinal 40", put, func(l *ledger) {
			l.mu.list[0].issued, l.mu.list = 40, append(l.mu.list, &incarnation{number: 2, epoch: 2, base: 40, issued: 60})
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var l ledger
			s := snapshotOf(t, fill(t, &l, put, 100))
			tc.spoil(&l)
			_, _, err := check(t.Context(), &l, tc.w, s, true, rand.New(rand.NewPCG(1, 1)))
			if _, ok := asViolation(err); !ok || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want a violation with %q", err, tc.want)
			}
		})
	}
}

// Every part of a search's answer is looked at.
func TestR08_CheckOfSearches(t *testing.T) {
	w := workload{seed: 3, keyed: true}
	var l ledger
	s := snapshotOf(t, fill(t, &l, w, 2000))
	for _, tc := range []struct {
		want string
		lie  func([]memwal.Hit) []memwal.Hit
	}{
		{"", nil},
		{"rows were found", func(h []memwal.Hit) []memwal.Hit { return h[:len(h)-1] }},
		{"rows were found", func(h []memwal.Hit) []memwal.Hit { return nil }},
		{"comes before row", func(h []memwal.Hit) []memwal.Hit { return append(h, h[0]) }},
		{"comes before row", func(h []memwal.Hit) []memwal.Hit { slices.Reverse(h); return h }},
		{"must not be", func(h []memwal.Hit) []memwal.Hit {
			more := h[len(h)-1]
			more.Score, more.Ordinal = 0, 5000
			return append(h, more)
		}},
		{"must be n=", func(h []memwal.Hit) []memwal.Hit { h[0].Batch, h[0].Index = h[1].Batch, h[1].Index; return h }},
	} {
		_, _, err := check(t.Context(), &l, w, &liar{Snapshot: s, hits: tc.lie}, false, rand.New(rand.NewPCG(1, 1)))
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("got %v, want %q", err, tc.want)
		}
	}
}
