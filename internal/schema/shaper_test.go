package schema

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

func mustShaper(t testing.TB, key []string, fields ...arrow.Field) *Shaper {
	t.Helper()
	user := schemaOf(fields...)
	s, err := NewShaper(user, mustStorage(t, user, key, nil))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func checked(t *testing.T) *memory.CheckedAllocator {
	mem := memory.NewCheckedAllocator(memory.DefaultAllocator)
	t.Cleanup(func() { mem.AssertSize(t, 0) })
	return mem
}

func TestShape(t *testing.T) {
	mem := checked(t)
	fields := []arrow.Field{req("id", i64), opt("name", text)}
	rec := fromJSON(t, mem, fields, `[{"id":1,"name":"a"},{"id":2}]`)
	defer rec.Release()
	s := mustShaper(t, []string{"id"}, fields...)
	for range 2 { // the second time by the schema seen before
		out, err := s.Shape(rec)
		if err != nil {
			t.Fatal(err)
		}
		if out.Schema() != s.Schema() || toJSON(t, out) != `[{"_tombstone":false,"id":1,"name":"a"},{"_tombstone":false,"id":2,"name":null}]` {
			t.Fatalf("%v", out)
		}
		for i := range 2 {
			if out.Column(i) != rec.Column(i) {
				t.Errorf("column %d was copied", i)
			}
		}
		window, pinned := Size(out)
		before, _ := Size(rec)
		if window != before+1 || pinned > before+6*64 {
			t.Errorf("the tombstone column costs %d, pinned %d", window-before, pinned)
		}
		out.Release()
	}
	plain := mustShaper(t, nil, fields...)
	out, err := plain.Shape(rec)
	if err != nil || out.NumCols() != 2 || out.Schema() != plain.Schema() {
		t.Fatalf("append-only: %v, %v", out, err)
	}
	out.Release()
}

func TestC03_ShapeRefuses(t *testing.T) {
	mem := checked(t)
	item := arrow.StructOf(req("price", f64), opt("note", text))
	fields := []arrow.Field{opt("id", i64), req("name", text), opt("item", item), opt("tags", arrow.ListOfNonNullable(text))}
	s := mustShaper(t, []string{"id"}, fields...)
	const good = `{"id":1,"name":"a","item":{"price":1,"note":null},"tags":["x"]}`
	first := fromJSON(t, mem, nullable(fields), "["+good+"]")
	if out, err := s.Shape(first); err != nil { // and so a schema is known
		t.Fatal(err)
	} else {
		out.Release()
	}
	first.Release()
	for _, c := range []struct {
		name   string
		fields []arrow.Field
		rows   string
		want   []string
	}{
		{"fewer columns", fields[:3], "[" + good + "]", []string{`has 3 columns`}},
		{"more columns", append(slices.Clone(fields), opt("z", i64)), "[" + good + "]", []string{`has 5 columns`}},
		{"order", []arrow.Field{fields[1], fields[0], fields[2], fields[3]}, "[" + good + "]",
			[]string{`"id" (int64) is expected as column 0, where the batch has "name"`, `"name" (utf8) is expected as column 1, where the batch has "id"`}},
		{"name", []arrow.Field{fields[0], req("nom", text), fields[2], fields[3]}, `[{"id":1,"nom":"a"}]`, []string{`"name" (utf8) is expected as column 1, where the batch has "nom"`}},
		{"type", []arrow.Field{fields[0], req("name", arrow.BinaryTypes.LargeString), fields[2], fields[3]}, "[" + good + "]", []string{`"name" (utf8) holds large_utf8`}},
		{"null key", fields, `[` + good + `,{"name":"a"}]`, []string{`"id" (int64) in row 1 is null: the column belongs to the primary key`}},
		{"null in required", fields, `[` + good + `,` + good + `,{"id":3}]`, []string{`"name" (utf8) in row 2 is null: the column is required`}},
		{"null in required child", fields, `[` + good + `,{"id":1,"name":"a","item":{"price":null,"note":"x"}}]`, []string{`"item.price" (struct<price: float64, note: utf8 nullable>) in row 1 is null`}},
		{"null in list", fields, `[` + good + `,{"id":1,"name":"a","tags":[]},{"id":1,"name":"a","tags":["b",null]}]`, []string{`"tags[]" (list<item: utf8>) in row 2 is null`}},
		{"all at once", fields, `[{"item":{"price":null,"note":null}}]`, []string{`"id"`, `"name"`, `"item.price"`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			rec := fromJSON(t, mem, nullable(c.fields), c.rows)
			defer rec.Release()
			out, err := s.Shape(rec)
			wantErrors(t, err, c.want)
			if out != nil {
				t.Error("there is a batch all the same")
			}
		})
	}
	if _, err := s.Shape(nil); err == nil {
		t.Error("nil was accepted")
	}
	// The nullability that a batch declares does not matter, nor do nulls under nulls.
	rec := fromJSON(t, mem, nullable(fields), `[`+good+`,{"id":2,"name":"b","item":null,"tags":null}]`)
	defer rec.Release()
	part := rec.NewSlice(1, 2)
	defer part.Release()
	for _, r := range []arrow.RecordBatch{rec, part} {
		out, err := s.Shape(r)
		if err != nil {
			t.Fatal(err)
		}
		out.Release()
	}
}

// nullable returns the fields as nullable; types, and so their children, stay.
func nullable(fields []arrow.Field) []arrow.Field {
	out := slices.Clone(fields)
	for i := range out {
		out[i].Nullable = true
	}
	return out
}

// A record batch of another implementation may have columns of other lengths.
type crooked struct{ arrow.RecordBatch }

func (c crooked) NumRows() int64 { return c.RecordBatch.NumRows() - 1 }

func TestC03_ShapeRefusesLengths(t *testing.T) {
	mem := checked(t)
	fields := []arrow.Field{req("id", i64)}
	rec := fromJSON(t, mem, fields, `[{"id":1},{"id":2}]`)
	defer rec.Release()
	_, err := mustShaper(t, []string{"id"}, fields...).Shape(crooked{rec})
	wantErrors(t, err, []string{`"id" (int64) has 2 values: 1, as many as the batch has rows`})
}

// Every type goes through Shape and the IPC format unchanged, settled.
func TestShapeEveryType(t *testing.T) {
	eachSample(t, func(t *testing.T, mem *memory.CheckedAllocator, arr arrow.Array) {
		s := mustShaper(t, nil, opt("x", arr.DataType()))
		rec := batch([]arrow.Field{opt("x", arr.DataType())}, arr)
		defer rec.Release()
		out, err := s.Shape(rec)
		if err != nil {
			t.Fatal(err)
		}
		defer out.Release()
		if !array.Equal(arr, out.Column(0)) {
			t.Fatal("differs")
		}
		// arrow-go does not accept run-end arrays of its own builder.
		if err := array.ValidateFull(out.Column(0)); err != nil && array.ValidateFull(arr) == nil {
			t.Fatal(err)
		}
		readAll(t, out)
	})
}

// readAll does what readers do to one batch at once. Under -race it shows what is
// not settled.
func readAll(t *testing.T, rec arrow.RecordBatch) {
	t.Helper()
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for _, c := range rec.Columns() {
				warm(c)
			}
		})
	}
	wg.Wait()
}

func roundTrip(t *testing.T, rec arrow.RecordBatch) arrow.RecordBatch {
	t.Helper()
	var buf bytes.Buffer
	w := ipc.NewWriter(&buf, ipc.WithSchema(rec.Schema()))
	if err := w.Write(rec); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := ipc.NewReader(&buf)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Release()
	if !r.Next() {
		t.Fatal(r.Err())
	}
	out := r.RecordBatch()
	out.Retain()
	return out
}

func TestTombstones(t *testing.T) {
	mem := checked(t)
	fields := []arrow.Field{req("name", text), req("id", i64), req("x", f64)}
	s := mustShaper(t, []string{"id", "name"}, fields...)
	for _, keys := range [][]arrow.Field{{req("id", i64), req("name", text)}, {opt("name", text), opt("id", i64)}} {
		rec := fromJSON(t, mem, keys, `[{"id":1,"name":"a"},{"id":2,"name":"b"}]`)
		out, err := s.Tombstones(rec)
		if err != nil {
			t.Fatal(err)
		}
		if got := toJSON(t, out); out.Schema() != s.Schema() || got != `[{"_tombstone":true,"id":1,"name":"a","x":null},{"_tombstone":true,"id":2,"name":"b","x":null}]` {
			t.Errorf("%s", got)
		}
		out.Release()
		rec.Release()
	}
	for name, c := range map[string]struct {
		fields []arrow.Field
		rows   string
		want   []string
	}{
		"missing": {[]arrow.Field{req("id", i64)}, `[{"id":1}]`, []string{`"name" (utf8) occurs 0 times`, `has 1 columns`}},
		"more":    {append(slices.Clone(fields), opt("y", i64)), `[{"id":1,"name":"a","x":1}]`, []string{`has 4 columns`}},
		"type":    {[]arrow.Field{req("id", f64), req("name", text)}, `[{"id":1,"name":"a"}]`, []string{`"id" (int64) holds float64`}},
		"null":    {[]arrow.Field{opt("id", i64), req("name", text)}, `[{"id":1,"name":"a"},{"name":"b"}]`, []string{`"id" (int64) in row 1 is null`}},
	} {
		t.Run(name, func(t *testing.T) {
			rec := fromJSON(t, mem, c.fields, c.rows)
			defer rec.Release()
			_, err := s.Tombstones(rec)
			wantErrors(t, err, c.want)
		})
	}
	rec := fromJSON(t, mem, fields, `[]`)
	defer rec.Release()
	_, err := mustShaper(t, nil, fields...).Tombstones(rec)
	wantErrors(t, err, []string{"append-only"})
}

// Nulls of every type are null, whole, and survive the IPC format.
func TestTombstonesOfEveryType(t *testing.T) {
	required := []arrow.Field{req("a", i64), req("b", text)}
	runs := arrow.RunEndEncodedOf(arrow.PrimitiveTypes.Int32, text)
	runs.ValueNullable = false
	for _, dt := range append(sampleTypes(), runs, arrow.StructOf(required...),
		arrow.SparseUnionOf(required, []int8{0, 1}), arrow.DenseUnionOf(required, []int8{4, 5})) {
		for _, n := range []int{0, 1, 3, 100} {
			t.Run(fmt.Sprint(strings.ReplaceAll(dt.String(), "/", "|"), n), func(t *testing.T) {
				mem := checked(t)
				s := mustShaper(t, []string{"id"}, req("id", i64), opt("x", dt))
				b := array.NewInt64Builder(mem)
				defer b.Release()
				for i := range n {
					b.Append(int64(i))
				}
				ids := b.NewArray()
				defer ids.Release()
				keys := batch([]arrow.Field{req("id", i64)}, ids)
				defer keys.Release()
				out, err := s.Tombstones(keys)
				if err != nil {
					t.Fatal(err)
				}
				defer out.Release()
				back := roundTrip(t, out)
				defer back.Release()
				for _, rec := range []arrow.RecordBatch{out, back} {
					col := rec.Column(1)
					if rec == out && array.ValidateFull(col) != nil { // it panics on some empty arrays of arrow-go's own reader
						t.Fatal(array.ValidateFull(col))
					}
					if err := check(col.Data(), col.DataType(), 0, n); err != nil {
						t.Fatal(err)
					}
					for i := range n {
						if row := firstNull(col.Data(), col.DataType(), i, 1, nil); row != 0 {
							t.Fatalf("row %d of %v is not null", i, col)
						}
						if !rec.Column(2).(*array.Boolean).Value(i) {
							t.Fatal("not a tombstone")
						}
					}
				}
				readAll(t, out)
				// What was written for a delete can be replayed.
				a, err := NewAdapter(back.Schema(), s.Schema())
				if err != nil {
					t.Fatal(err)
				}
				again, err := a.Adapt(back)
				if err != nil {
					t.Fatal(err)
				}
				again.Release()
			})
		}
	}
}

func TestNullRunsHaveLimits(t *testing.T) {
	var z zeros
	dt := arrow.RunEndEncodedOf(arrow.PrimitiveTypes.Int16, text)
	if _, err := z.nulls(dt, 32768); err == nil {
		t.Error("a 16-bit run end cannot be 32768")
	}
	arr, err := z.nulls(dt, 32767)
	if err != nil || check(arr.Data(), dt, 0, 32767) != nil {
		t.Error(err)
	}
}

// The zero page grows and is replaced while others use it; it never changes.
func TestZerosAreShared(t *testing.T) {
	var z zeros
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 200 {
				n := (g*7919+i*104729)%200_000 + 1
				col := z.tombstones(n)
				if col.Len() != n || col.NullN() != 0 || slices.Contains(col.Data().Buffers()[1].Bytes(), 1) {
					t.Error("not all false")
				}
				if z.buffer(n).Len() != n {
					t.Error("wrong length")
				}
				col.Release()
			}
		})
	}
	wg.Wait()
	if b := z.buffer(maxZeros + 1); b.Len() != maxZeros+1 || len(*z.page.Load()) > maxZeros {
		t.Error("a page above the limit was kept")
	}
	one, two := z.tombstones(20), z.tombstones(20)
	if one != two {
		t.Error("batches of one size do not share their column")
	}
}

func TestNewShaperRefuses(t *testing.T) {
	user := schemaOf(req("id", i64), opt("a", text))
	table := mustStorage(t, user, []string{"id"}, nil)
	for name, other := range map[string]*arrow.Schema{
		"fewer": schemaOf(req("id", i64)), "name": schemaOf(req("id", i64), opt("b", text)), "type": schemaOf(req("id", i64), opt("a", f64)),
	} {
		if _, err := NewShaper(other, table); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestShapeIsCheap(t *testing.T) {
	rec := small(memory.DefaultAllocator)
	s := mustShaper(t, []string{"id"}, rec.Schema().Fields()...)
	allocs := testing.AllocsPerRun(100, func() {
		out, err := s.Shape(rec)
		if err != nil {
			t.Fatal(err)
		}
		out.Release()
	})
	if allocs > 4 {
		t.Errorf("%v allocations", allocs)
	}
}

// go test -bench Shape -benchtime 200ms ./internal/schema
func BenchmarkShape(b *testing.B) {
	rec := small(memory.DefaultAllocator)
	s := mustShaper(b, []string{"id"}, rec.Schema().Fields()...)
	b.ReportAllocs()
	for b.Loop() {
		out, err := s.Shape(rec)
		if err != nil {
			b.Fatal(err)
		}
		out.Release()
	}
}
