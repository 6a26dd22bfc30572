package main

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/google/uuid"
	"github.com/memwal/memwal-go/index"
	"github.com/memwal/memwal-go/memwal"
	"github.com/memwal/memwal-go/objstore"
)

// liar is a snapshot that gives wrong answers.
type liar struct {
	snapshot
	lookup func(memwal.Row, error) (memwal.Row, error)
	ranged func(*index.Range, *memwal.ScanOptions)
	scan   func(*memwal.ScanOptions)
}

func (l *liar) Lookup(ctx context.Context, key ...any) (memwal.Row, error) {
	row, err := l.snapshot.Lookup(ctx, key...)
	if l.lookup != nil {
		return l.lookup(row, err)
	}
	return row, err
}

func (l *liar) Range(ctx context.Context, name string, r index.Range, o memwal.ScanOptions) (array.RecordReader, error) {
	if l.ranged != nil {
		l.ranged(&r, &o)
	}
	return l.snapshot.Range(ctx, name, r, o)
}

func (l *liar) Scan(ctx context.Context, o memwal.ScanOptions) (array.RecordReader, error) {
	if l.scan != nil {
		l.scan(&o)
	}
	return l.snapshot.Scan(ctx, o)
}

// A wrong answer stops the readers and says what is wrong; right ones are counted.
func TestReadersFindWrongAnswers(t *testing.T) {
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64},
		{Name: "v", Type: arrow.PrimitiveTypes.Float64, Nullable: true},
	}, nil)
	rec := fromJSON(t, schema, `{"id":1,"v":3}`, `{"id":2,"v":1}`, `{"id":3,"v":null}`)
	stale := fromJSON(t, schema, `{"id":1,"v":30}`, `{"id":2,"v":10}`, `{"id":3,"v":20}`)
	other := fromJSON(t, schema, `{"id":7,"v":3}`)
	w, err := memwal.Open(t.Context(), objstore.NewMemory(), uuid.New(), schema, &memwal.Options{
		PrimaryKey: []string{"id"}, Indexes: []index.Config{index.Ordered{Name: "by", Columns: []index.Column{{Name: "v"}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close(context.Background())
	if err := w.Put(t.Context(), rec); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name string
		lie  *liar
		want string
	}{
		{"the truth", &liar{}, ""},
		{"absent", &liar{lookup: func(memwal.Row, error) (memwal.Row, error) { return memwal.Row{}, nil }}, "is absent, though its put has returned"},
		{"deleted", &liar{lookup: func(memwal.Row, error) (memwal.Row, error) { return memwal.Row{Presence: memwal.Deleted}, nil }}, "is deleted"},
		{"other row", &liar{lookup: func(memwal.Row, error) (memwal.Row, error) {
			return memwal.Row{Presence: memwal.Present, Batch: other}, nil
		}}, "found another row, id=7, v=3"},
		{"other value", &liar{lookup: func(row memwal.Row, _ error) (memwal.Row, error) {
			row.Batch = stale
			return row, nil
		}}, `column "v" of id=`},
		{"lookup fails", &liar{lookup: func(memwal.Row, error) (memwal.Row, error) { return memwal.Row{}, errPut }}, errPut.Error()},
		{"empty range", &liar{ranged: func(r *index.Range, _ *memwal.ScanOptions) { r.Low = []any{99.0} }}, "a range from"},
		{"range of others", &liar{ranged: func(r *index.Range, _ *memwal.ScanOptions) { r.LowOpen = true }}, "a range from"},
		{"short scan", &liar{scan: func(o *memwal.ScanOptions) { o.Limit = 2 }}, "a scan found 2 rows, though 3 were put"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			rounds := 0
			open := func() (snapshot, error) {
				if rounds++; rounds == 100 {
					cancel()
				}
				s, err := w.Snapshot()
				l := *tc.lie
				l.snapshot = s
				return &l, err
			}
			r, err := newReaders(1, open, &acknowledged{}, schema, []string{"id"}, &index.Ordered{Name: "by", Columns: []index.Column{{Name: "v"}}}, true)
			if err != nil {
				t.Fatal(err)
			}
			r.known.add(rec)
			defer r.known.release()
			err = r.run(ctx)
			switch {
			case tc.want == "" && err != nil, tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("got %v, want %q", err, tc.want)
			case tc.want != "" && tc.want != errPut.Error() && !errors.Is(err, errDiffers):
				t.Errorf("%v is no difference", err)
			}
			if f := r.figures(); tc.want == "" && (f.Snapshot.Count != 100 || f.Lookup.Count < 99*readLookups || f.Range.Count < 99 || f.Scan.Count < 99 || f.Lookup.P50 <= 0) {
				t.Errorf("figures %+v", f)
			}
		})
	}
}

// A reader's failure is the ingest's, which stops.
func TestIngestFailsWithItsReaders(t *testing.T) {
	w := &fakeWriter{delay: time.Millisecond}
	r, err := newReaders(2, func() (snapshot, error) { return nil, errPut }, &acknowledged{}, mixed, nil, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	in := &ingest{w: w, feed: mixedFeed(t, true), writers: 2, beside: []companion{r}, known: r.known, limit: time.Minute}
	if err := in.run(t.Context()); !errors.Is(err, errPut) || !strings.Contains(err.Error(), "take a snapshot") || !in.over {
		t.Errorf("got %v", err)
	}
	r.known.release()
}

// Until the first put has returned there is nothing to read.
func TestAcknowledged(t *testing.T) {
	var a acknowledged
	rng := rand.New(rand.NewPCG(1, 2))
	if rows, n := a.pick(rng, 5); len(rows) != 0 || n != 0 {
		t.Errorf("picked %d of %d rows", len(rows), n)
	}
	one, two := mixedBatch(t, 0, 3), mixedBatch(t, 3, 1)
	a.add(one)
	a.add(two)
	a.add(two.NewSlice(0, 0))
	rows, n := a.pick(rng, 200)
	seen := map[knownPlace]int{}
	for _, k := range rows {
		seen[knownPlace{k.rec, k.row}]++
	}
	if n != 4 || len(rows) != 200 || len(seen) != 4 {
		t.Errorf("%d rows, picked %v", n, seen)
	}
	a.release()
	if rows, _ := a.pick(rng, 1); len(rows) != 0 {
		t.Error("rows after release")
	}
}

type knownPlace struct {
	rec arrow.RecordBatch
	row int
}

// Every type that may be indexed can be looked up by what goValue makes of it.
func TestGoValue(t *testing.T) {
	for _, typ := range []arrow.DataType{
		arrow.PrimitiveTypes.Int8, arrow.PrimitiveTypes.Int16, arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Int64,
		arrow.PrimitiveTypes.Uint8, arrow.PrimitiveTypes.Uint16, arrow.PrimitiveTypes.Uint32, arrow.PrimitiveTypes.Uint64,
		arrow.PrimitiveTypes.Float32, arrow.PrimitiveTypes.Float64, arrow.BinaryTypes.String, arrow.BinaryTypes.LargeString,
		arrow.BinaryTypes.Binary, arrow.BinaryTypes.LargeBinary, arrow.FixedWidthTypes.Boolean,
		arrow.FixedWidthTypes.Date32, arrow.FixedWidthTypes.Date64, arrow.FixedWidthTypes.Timestamp_us,
	} {
		t.Run(typ.String(), func(t *testing.T) {
			schema := arrow.NewSchema([]arrow.Field{{Name: "k", Type: typ, Nullable: true}}, nil)
			value := map[bool]string{true: `"AAEC"`, false: "86400000"}[arrow.IsBinaryLike(typ.ID()) || arrow.IsLargeBinaryLike(typ.ID())]
			switch typ.ID() {
			case arrow.BOOL:
				value = "true"
			case arrow.INT8, arrow.UINT8, arrow.INT16, arrow.UINT16, arrow.DATE32:
				value = "7"
			}
			rec := fromJSON(t, schema, `{"k":`+value+`}`, `{"k":null}`)
			if v := goValue(rec.Column(0), 1); v != nil {
				t.Errorf("null is %v", v)
			}
			if !readable(typ) {
				t.Fatal("not readable")
			}
			key := rec.NewSlice(0, 1)
			w, err := memwal.Open(t.Context(), objstore.NewMemory(), uuid.New(), schema, &memwal.Options{Indexes: []index.Config{
				index.Ordered{Name: "by", Columns: []index.Column{{Name: "k"}}},
			}})
			if err != nil {
				t.Fatal(err)
			}
			defer w.Close(context.Background())
			if err := w.Put(t.Context(), key); err != nil {
				t.Fatal(err)
			}
			s, err := w.Snapshot()
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			v := goValue(key.Column(0), 0)
			rd, err := s.Range(t.Context(), "by", index.Range{Low: []any{v}, High: []any{v}}, memwal.ScanOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer rd.Release()
			if !rd.Next() || !equalValue(goValue(rd.RecordBatch().Column(0), 0), v) {
				t.Errorf("%v (%T) was not found", v, v)
			}
		})
	}
	if readable(arrow.ListOf(arrow.PrimitiveTypes.Int8)) {
		t.Error("a list is readable")
	}
}

func TestEqualValue(t *testing.T) {
	for _, tc := range []struct {
		a, b any
		want bool
	}{
		{int64(1), int64(1), true}, {int64(1), int64(2), false}, {int64(1), nil, false}, {nil, nil, true},
		{math.NaN(), math.NaN(), true}, {math.NaN(), 1.0, false}, {"a", "a", true}, {0.0, math.Copysign(0, -1), true},
	} {
		if got := equalValue(tc.a, tc.b); got != tc.want {
			t.Errorf("%v and %v: %v", tc.a, tc.b, got)
		}
	}
}

func TestClockCost(t *testing.T) {
	if c := clockCost(); c < 0 || c > 100*time.Microsecond {
		t.Errorf("%v", c)
	}
}
