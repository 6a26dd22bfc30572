package memwal

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/uuid"

	"github.com/memwal/memwal-go/index"
	"github.com/memwal/memwal-go/objstore"
)

// leaves lists the errors that err joins, at any depth.
func leaves(err error) []error {
	switch e := err.(type) {
	case interface{ Unwrap() []error }:
		var all []error
		for _, sub := range e.Unwrap() {
			all = append(all, leaves(sub)...)
		}
		return all
	case interface{ Unwrap() error }:
		if sub := e.Unwrap(); sub != nil {
			return leaves(sub)
		}
	}
	return []error{err}
}

// checkDoomed checks that an Open fails as invalid, says all the words, and
// writes nothing.
func checkDoomed(t *testing.T, schema *arrow.Schema, o *Options, words ...string) {
	t.Helper()
	store := newTestStore()
	w, err := Open(t.Context(), store, testShard, schema, o)
	if err == nil {
		w.Abort()
		t.Fatal("it opened")
	}
	if !errors.Is(err, ErrInvalid) {
		t.Errorf("%v does not match ErrInvalid", err)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%q does not say %q", err, word)
		}
	}
	if keys := store.keys(""); len(keys) > 0 {
		t.Errorf("it wrote %v", keys)
	}
}

func TestC01_IndexesAreCheckedAtOpen(t *testing.T) {
	list := arrow.ListOf(arrow.PrimitiveTypes.Int64)
	pair := arrow.StructOf(arrow.Field{Name: "a", Type: arrow.PrimitiveTypes.Int64})
	wide := arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64},
		{Name: "tags", Type: list, Nullable: true},
		{Name: "pair", Type: pair, Nullable: true},
		{Name: "none", Type: arrow.Null, Nullable: true},
		{Name: "span", Type: arrow.FixedWidthTypes.DayTimeInterval, Nullable: true},
	}, nil)
	on := func(columns ...string) index.Config {
		o := index.Ordered{Name: "by_" + strings.Join(columns, "_")}
		for _, c := range columns {
			o.Columns = append(o.Columns, index.Column{Name: c})
		}
		return o
	}
	for _, tt := range []struct {
		name  string
		o     Options
		words []string
	}{
		{"key without order", Options{PrimaryKey: []string{"tags"}}, []string{"primary key", "tags", "list", "total order"}},
		{"key of structs", Options{PrimaryKey: []string{"id", "pair"}}, []string{"pair", "struct", "total order"}},
		{"missing key", Options{PrimaryKey: []string{"id", "nope"}}, []string{"nope", "not in the schema"}},
		{"key twice", Options{PrimaryKey: []string{"id", "id"}}, []string{"id", "twice"}},
		{"index without order", Options{Indexes: []index.Config{on("tags")}}, []string{"by_tags", "tags", "list", "total order"}},
		{"index of nulls", Options{Indexes: []index.Config{on("none")}}, []string{"none", "null", "total order"}},
		{"index of intervals", Options{Indexes: []index.Config{on("span")}}, []string{"span", "day_time_interval", "total order"}},
		{"missing column", Options{Indexes: []index.Config{on("nope")}}, []string{"by_nope", "nope", "no such column"}},
		{"no columns", Options{Indexes: []index.Config{index.Ordered{Name: "empty"}}}, []string{"empty", "no columns"}},
		{"column twice", Options{Indexes: []index.Config{on("id", "id")}}, []string{"by_id_id", "twice"}},
		{"no name", Options{Indexes: []index.Config{index.Ordered{Columns: []index.Column{{Name: "id"}}}}}, []string{"no name"}},
		{"name twice", Options{Indexes: []index.Config{on("id"), on("id")}}, []string{"by_id", "two indexes"}},
		{"nil", Options{Indexes: []index.Config{nil}}, []string{"nil"}},
		{"all at once", Options{PrimaryKey: []string{"id"}, Indexes: []index.Config{on("tags"), on("nope"), on("id", "pair")}},
			[]string{"by_tags", "by_nope", "by_id_pair"}},
	} {
		t.Run(tt.name, func(t *testing.T) { checkDoomed(t, wide, &tt.o, tt.words...) })
	}
	t.Run("no schema", func(t *testing.T) { checkDoomed(t, nil, nil, "no columns") })
	t.Run("no columns", func(t *testing.T) { checkDoomed(t, arrow.NewSchema(nil, nil), nil, "no columns") })
}

// wrongBatch is a batch that testSchema's table must refuse.
type wrongBatch struct {
	name  string
	rec   arrow.RecordBatch
	words []string
}

// columnsOf makes a batch of columns given as JSON arrays.
func columnsOf(t testing.TB, fields []arrow.Field, columns ...string) arrow.RecordBatch {
	t.Helper()
	var arrs []arrow.Array
	for i, text := range columns {
		arr, _, err := array.FromJSON(memory.DefaultAllocator, fields[i].Type, strings.NewReader(text))
		if err != nil {
			t.Fatalf("column %q: %v", fields[i].Name, err)
		}
		arrs = append(arrs, arr)
	}
	rec := array.NewRecordBatch(arrow.NewSchema(fields, nil), arrs, -1)
	for _, arr := range arrs {
		arr.Release()
	}
	t.Cleanup(rec.Release)
	return rec
}

func wrongBatches(t testing.TB) []wrongBatch {
	fields := testSchema.Fields()
	id, text, n := fields[0], fields[1], fields[2]
	as := func(f arrow.Field, dt arrow.DataType) arrow.Field { f.Type = dt; return f }
	named := func(f arrow.Field, name string) arrow.Field { f.Name = name; return f }
	gone := seqUnowned(1)
	gone.Release()
	return []wrongBatch{
		{"nil", nil, []string{"nil"}},
		{"released", gone, []string{"columns"}},
		{"no columns", array.NewRecordBatch(arrow.NewSchema(nil, nil), nil, 3), []string{"0 columns"}},
		{"column missing", columnsOf(t, []arrow.Field{id, text}, `[1]`, `["a"]`), []string{"2 columns", "instead of 3"}},
		{"column too many", columnsOf(t, []arrow.Field{id, text, n, named(n, "m")}, `[1]`, `["a"]`, `[1]`, `[1]`), []string{"4 columns"}},
		{"wrong order", columnsOf(t, []arrow.Field{id, n, text}, `[1]`, `[1]`, `["a"]`), []string{"text", "n", "column 1"}},
		{"wrong name", columnsOf(t, []arrow.Field{id, text, named(n, "N")}, `[1]`, `["a"]`, `[1]`), []string{`"n"`, `"N"`}},
		{"wrong width", columnsOf(t, []arrow.Field{id, text, as(n, arrow.PrimitiveTypes.Int32)}, `[1]`, `["a"]`, `[1]`), []string{`"n"`, "int32", "int64"}},
		{"wrong signedness", columnsOf(t, []arrow.Field{as(id, arrow.PrimitiveTypes.Uint64), text, n}, `[1]`, `["a"]`, `[1]`), []string{`"id"`, "uint64", "int64"}},
		{"large text", columnsOf(t, []arrow.Field{id, as(text, arrow.BinaryTypes.LargeString), n}, `[1]`, `["a"]`, `[1]`), []string{`"text"`, "large_utf8"}},
		{"null key", columnsOf(t, fields, `[1, null]`, `["a", "b"]`, `[1, 2]`), []string{`"id"`, "row 1"}},
		{"several at once", columnsOf(t, []arrow.Field{id, as(text, arrow.BinaryTypes.Binary), as(n, arrow.PrimitiveTypes.Float64)}, `[null]`, `["YQ=="]`, `[1]`),
			[]string{`"id"`, `"text"`, `"n"`}},
	}
}

func seqUnowned(id int64) arrow.RecordBatch {
	b := array.NewRecordBuilder(memory.DefaultAllocator, testSchema)
	defer b.Release()
	b.Field(0).(*array.Int64Builder).Append(id)
	b.Field(1).AppendNull()
	b.Field(2).AppendNull()
	return b.NewRecordBatch()
}

// checkRefused checks that an error says that nothing was stored, and why, and
// that nothing was.
func checkRefused(t *testing.T, w *Writer, err error, accepted uint64, words ...string) {
	t.Helper()
	if !errors.Is(err, ErrInvalid) {
		t.Errorf("got %v, want ErrInvalid", err)
		return
	}
	for _, word := range append(words, "nothing was stored") {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%q does not say %q", err, word)
		}
	}
	if got := w.Stats().Accepted; got != accepted {
		t.Errorf("%d rows are accepted, were %d", got, accepted)
	}
}

func TestC03_WrongBatchesAreRefused(t *testing.T) {
	for _, keyed := range []bool{true, false} {
		t.Run(fmt.Sprintf("keyed=%v", keyed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := keyedOptions()
				if !keyed {
					o.PrimaryKey = nil
				}
				store := newTestStore()
				w := mustOpen(t, store, o)
				mustPut(t, w, batchOf(t, testRow{1, "one", 10}))
				entries := store.count(objstore.OpPutIfAbsent, walPart)
				for _, tt := range wrongBatches(t) {
					t.Log(tt.name)
					checkRefused(t, w, w.Put(t.Context(), tt.rec), 1, tt.words...)
					ticket, err := w.PutAsync(t.Context(), tt.rec)
					if ticket != nil {
						t.Error("a ticket for a refused batch")
					}
					checkRefused(t, w, err, 1, tt.words...)
				}
				time.Sleep(time.Hour)
				if got := store.count(objstore.OpPutIfAbsent, walPart); got != entries {
					t.Errorf("%d appends, were %d", got, entries)
				}
				// The writer is as good as before.
				mustPut(t, w, batchOf(t, testRow{2, "two", 20}))
				want := []testRow{{1, "one", 10}, {2, "two", 20}}
				checkRows(t, w, want)
				mustClose(t, w)
				checkRows(t, mustOpen(t, store, o), want)
			})
		})
	}
}

// TestC03_RequiredColumns puts nulls where the schema requires values, also
// inside of a struct, and where it does not.
func TestC03_RequiredColumns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := arrow.StructOf(arrow.Field{Name: "must", Type: arrow.PrimitiveTypes.Int64},
			arrow.Field{Name: "may", Type: arrow.PrimitiveTypes.Int64, Nullable: true})
		fields := []arrow.Field{
			{Name: "id", Type: arrow.PrimitiveTypes.Int64},
			{Name: "required", Type: arrow.BinaryTypes.String},
			{Name: "inner", Type: inner, Nullable: true},
		}
		o := &Options{PrimaryKey: []string{"id"}}
		w, err := Open(t.Context(), objstore.NewMemory(), testShard, arrow.NewSchema(fields, nil), o)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Abort()
		err = w.Put(t.Context(), columnsOf(t, fields, `[1]`, `[null]`, `[null]`))
		checkRefused(t, w, err, 0, `"required"`, "row 0")
		err = w.Put(t.Context(), columnsOf(t, fields, `[1, 2]`, `["a", "b"]`, `[{"must": 1, "may": null}, {"must": null, "may": 1}]`))
		checkRefused(t, w, err, 0, "inner.must", "row 1")
		mustPut(t, w, columnsOf(t, fields, `[1, 2]`, `["a", "b"]`, `[{"must": 1, "may": null}, null]`))
		// A delete leaves required columns empty, and is no row.
		if err := w.Delete(t.Context(), keysOf(t, 1)); err != nil {
			t.Fatal(err)
		}
	})
}

func TestC02_BatchWithoutAnIndexedColumn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := mustOpen(t, objstore.NewMemory(), keyedOptions())
		err := w.Put(t.Context(), columnsOf(t, testSchema.Fields()[:2], `[1]`, `["a"]`))
		checkRefused(t, w, err, 0, "2 columns")
		// Deletes have the key columns, all of them and nothing else.
		n := testSchema.Fields()[2:]
		checkRefused(t, w, w.Delete(t.Context(), columnsOf(t, n, `[1]`)), 0, `"id"`)
		checkRefused(t, w, w.Delete(t.Context(), seq(t, 1, 1)), 0, "3 columns")
		checkRefused(t, w, w.Delete(t.Context(), columnsOf(t, testSchema.Fields()[:1], `[1, null]`)), 0, `"id"`, "row 1")
		s := mustSnapshot(t, w.Snapshot)
		if _, err := s.LookupAll(t.Context(), columnsOf(t, n, `[1]`)); !errors.Is(err, ErrInvalid) {
			t.Errorf("look up all: %v", err)
		}
	})
}

func TestC04_NullsAndEmptyValues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fields := []arrow.Field{
			{Name: "id", Type: arrow.PrimitiveTypes.Int64},
			{Name: "text", Type: arrow.BinaryTypes.String, Nullable: true},
			{Name: "vector", Type: arrow.FixedSizeListOf(2, arrow.PrimitiveTypes.Float32), Nullable: true},
		}
		o := &Options{PrimaryKey: []string{"id"}, Indexes: []index.Config{index.Ordered{Name: "by_text", Columns: []index.Column{{Name: "text"}}}}}
		store := objstore.NewMemory()
		open := func() *Writer {
			w, err := Open(t.Context(), store, testShard, arrow.NewSchema(fields, nil), o)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { w.Abort() })
			return w
		}
		w := open()
		mustPut(t, w, columnsOf(t, fields, `[1, 2, 3]`, `[null, "", "a"]`, `[[1, 2], null, [3, 4]]`))
		mustPut(t, w, columnsOf(t, fields, `[4]`, `[null]`, `[null]`))
		check := func(w *Writer) {
			t.Helper()
			s := mustSnapshot(t, w.Snapshot)
			ids := func(r index.Range) (got []int64) {
				t.Helper()
				reader, err := s.Range(t.Context(), "by_text", r, ScanOptions{Columns: []string{"id"}})
				if err != nil {
					t.Fatal(err)
				}
				defer reader.Release()
				for reader.Next() {
					got = append(got, reader.RecordBatch().Column(0).(*array.Int64).Int64Values()...)
				}
				return got
			}
			for _, tt := range []struct {
				r    index.Range
				want []int64
			}{
				{index.Range{}, []int64{1, 4, 2, 3}},                                    // nulls are there, and come first
				{index.Range{High: []any{"z"}}, []int64{2, 3}},                          // and match no bound
				{index.Range{Low: []any{""}, High: []any{""}}, []int64{2}},              // empty is not null
				{index.Range{Low: []any{nil}, High: []any{nil}}, []int64{1, 4}},         // unless they are asked for
				{index.Range{Low: []any{nil}, Reverse: true}, []int64{3, 2, 4, 1}},      // by either bound
				{index.Range{Low: []any{""}, LowOpen: true, Reverse: true}, []int64{3}}, // an open bound leaves out
			} {
				if got := ids(tt.r); !slices.Equal(got, tt.want) {
					t.Errorf("range %+v: got %v, want %v", tt.r, got, tt.want)
				}
			}
		}
		check(w)
		mustClose(t, w)
		check(open())
	})
}

func TestC05_ReservedNames(t *testing.T) {
	for _, name := range []string{"_tombstone", "_row_ordinal", "_mine", "_"} {
		checkDoomed(t, withField(arrow.Field{Name: name, Type: arrow.FixedWidthTypes.Boolean, Nullable: true}), nil, name, "reserved")
	}
	checkDoomed(t, testSchema, &Options{Indexes: []index.Config{
		index.Ordered{Name: "_by_n", Columns: []index.Column{{Name: "n"}}}}}, "_by_n", "reserved")
	checkDoomed(t, testSchema, &Options{PrimaryKey: []string{"id"}, Indexes: []index.Config{
		index.Ordered{Name: "deleted", Columns: []index.Column{{Name: "_tombstone"}}}}}, "_tombstone", "reserved")
	checkDoomed(t, testSchema, &Options{PrimaryKey: []string{"_tombstone"}}, "_tombstone", "not in the schema")
	checkDoomed(t, arrow.NewSchema([]arrow.Field{
		{Name: "", Type: arrow.PrimitiveTypes.Int64}, {Name: "a", Type: arrow.PrimitiveTypes.Int64}, {Name: "a", Type: arrow.PrimitiveTypes.Int64}}, nil),
		nil, "no name", "twice")
}

func TestC06_OptionsOutOfBounds(t *testing.T) {
	wrong := Options{
		Visibility: 7, FlushInterval: 2 * time.Hour, FlushBytes: -1, MaxEntryBytes: 65 << 20, MaxInFlight: 65, Compression: "gzip",
		MaxPUTsPerSecond: math.NaN(), MaxRecoveryEntries: 1, MaxRecoveryBytes: -1,
		Prices:           &objstore.Prices{ClassA: -1, ClassB: math.NaN(), Delete: math.Inf(1), Egress: math.Inf(-1)},
		MaxMemtableBytes: -1, MaxMemtableRows: 1 << 32, MaxMemtableBatches: -2, MaxMemtableAge: -time.Second,
		MaxResidentBytes: -3, StallTimeout: -1, OwnershipCheckAfter: time.Hour, FenceRetention: time.Hour, ReplayBytes: -1,
		WALOnly: true, Indexes: []index.Config{index.Ordered{Name: "x", Columns: []index.Column{{Name: "nope"}}}},
	}
	store := newTestStore()
	_, err := Open(t.Context(), store, uuid.Nil, testSchema, &wrong)
	var fields []string
	for _, e := range leaves(err) {
		if o, ok := e.(*OptionError); ok {
			fields = append(fields, o.Field)
			if o.Bound == "" || !strings.Contains(err.Error(), o.Error()) {
				t.Errorf("%+v is not said whole", o)
			}
			if !strings.Contains(o.Error(), fmt.Sprint(o.Value)) {
				t.Errorf("%q does not give the value %v", o, o.Value)
			}
		}
	}
	slices.Sort(fields)
	want := []string{"Compression", "FenceRetention", "FlushBytes", "FlushInterval", "Indexes", "MaxEntryBytes", "MaxInFlight", "MaxMemtableAge",
		"MaxMemtableBatches", "MaxMemtableBytes", "MaxMemtableRows", "MaxPUTsPerSecond", "MaxRecoveryBytes", "MaxRecoveryEntries", "MaxResidentBytes",
		"Prices.ClassA", "Prices.ClassB", "Prices.Delete", "Prices.Egress", "ReplayBytes", "StallTimeout", "Visibility", "Visibility"}
	if !slices.Equal(fields, want) {
		t.Errorf("got   %v\nwant %v", fields, want)
	}
	for _, word := range []string{"nil UUID", `"nope"`} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%q is not said in %v", word, err)
		}
	}
	if _, err := Open(t.Context(), nil, testShard, testSchema, nil); !errors.Is(err, ErrInvalid) {
		t.Errorf("no store: %v", err)
	}

	// The bounds themselves are allowed, one beyond is not.
	for _, tt := range []struct {
		name string
		ok   bool
		set  func(*Options)
	}{
		{"FlushInterval", true, func(o *Options) { o.FlushInterval = time.Hour }},
		{"FlushBytes", true, func(o *Options) { o.FlushBytes = 64 << 20 }},
		{"FlushBytes", false, func(o *Options) { o.FlushBytes = 64<<20 + 1 }},
		{"MaxInFlight", true, func(o *Options) { o.MaxInFlight = 64 }},
		{"MaxPUTsPerSecond", true, func(o *Options) { o.MaxPUTsPerSecond = 1.0 / 30 }},
		{"MaxPUTsPerSecond", false, func(o *Options) { o.MaxPUTsPerSecond = 0.0333 }},
		{"MaxPUTsPerSecond", true, func(o *Options) { o.MaxPUTsPerSecond = 1e6 }},
		{"MaxPUTsPerSecond", false, func(o *Options) { o.MaxPUTsPerSecond = 1e6 + 1 }},
		{"MaxPUTsPerSecond", false, func(o *Options) { o.MaxPUTsPerSecond = -1 }},
		{"MaxRecoveryEntries", true, func(o *Options) { o.MaxRecoveryEntries = 2 }},
		{"MaxRecoveryBytes", true, func(o *Options) { o.MaxRecoveryBytes = 1 }},
		{"Prices", true, func(o *Options) { o.Prices = new(objstore.Prices) }},
		{"MaxMemtableRows", true, func(o *Options) { o.MaxMemtableRows = 1 << 31 }},
		{"MaxMemtableRows", false, func(o *Options) { o.MaxMemtableRows = 1<<31 + 1 }},
		{"MaxResidentBytes", true, func(o *Options) { o.MaxResidentBytes = 64 << 20 }},
		{"MaxResidentBytes", false, func(o *Options) { o.MaxResidentBytes = 64<<20 - 1 }},
		{"MaxMemtableBytes", true, func(o *Options) { o.MaxMemtableBytes, o.MaxResidentBytes = math.MaxInt64, math.MaxInt64 }},
		{"FenceRetention", true, func(o *Options) { o.FenceRetention = 19*time.Minute + 1 }},
		{"FenceRetention", false, func(o *Options) { o.FenceRetention = 19 * time.Minute }},
		{"FenceRetention", false, func(o *Options) { o.OwnershipCheckAfter = math.MaxInt64 / 2 }}, // the product overflows
		{"Visibility", false, func(o *Options) { o.WALOnly, o.Visibility = true, VisibleIndexed }},
	} {
		o := new(Options)
		tt.set(o)
		w, err := Open(t.Context(), objstore.NewMemory(), testShard, testSchema, o)
		if err == nil {
			w.Abort()
		}
		if (err == nil) != tt.ok {
			t.Errorf("%+v: %v", o, err)
		}
		if e, ok := errors.AsType[*OptionError](err); !tt.ok && (!ok || e.Field != tt.name) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

func TestC07_FieldIDOfAnotherColumn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := objstore.NewMemory()
		byN := func(name string, id int32) *Options {
			return &Options{Indexes: []index.Config{index.Ordered{Name: "by_n", Columns: []index.Column{{Name: name, FieldID: id}}}}}
		}
		w := mustOpen(t, store, byN("n", 3)) // ids are given out from 1, in order
		mustPut(t, w, seq(t, 1, 3))
		mustClose(t, w)
		for _, tt := range []struct {
			o     *Options
			words []string
		}{
			{byN("n", 2), []string{"by_n", `"n"`, "field id 2", `"text"`}},
			{byN("n", 9), []string{"by_n", `"n"`, "field id 9"}},
			{byN("m", 3), []string{"by_n", `"m"`, "no such column", `"n"`}},
		} {
			_, err := Open(t.Context(), store, testShard, testSchema, tt.o)
			if !errors.Is(err, ErrInvalid) {
				t.Errorf("%+v: %v", tt.o.Indexes, err)
				continue
			}
			for _, word := range tt.words {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("%q does not say %q", err, word)
				}
			}
		}
		// A schema may not do it either.
		taken := withField(arrow.Field{Name: "n", Type: arrow.PrimitiveTypes.Int64, Nullable: true,
			Metadata: arrow.NewMetadata([]string{"memwal.field_id"}, []string{"2"})})
		if _, err := Open(t.Context(), store, testShard, taken, nil); !errors.Is(err, ErrInvalid) {
			t.Errorf("schema with a field id of another column: %v", err)
		}
		checkRows(t, mustOpen(t, store, byN("n", 3)), wantSeq(1, 3))
	})
}

// TestC07_IndexFailureIsNotInvalidInput: a caller who is told that the input is
// invalid would drop it.
func TestC07_IndexFailureIsNotInvalidInput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := mustOpen(t, objstore.NewMemory(), keyedOptions())
		mustPut(t, w, seq(t, 1, 1))
		breakIndexes(t, w)
		for range 2 { // the first is accepted, the second meets a poisoned writer
			if err := w.Put(t.Context(), seq(t, 2, 1)); !errors.Is(err, ErrIndexFailed) || errors.Is(err, ErrInvalid) {
				t.Errorf("put: %v", err)
			}
		}
		full := &index.ApplyError{Index: "by_n", Err: &index.CapacityError{Slots: 1 << 40}}
		if err := error(&PoisonedError{&IndexError{full}}); errors.Is(err, ErrInvalid) || errors.Is(err, index.ErrInvalid) {
			t.Errorf("%v matches ErrInvalid", err)
		}
	})
}

// TestMisuse calls everything in ways that make no sense. Nothing may panic.
func TestMisuse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		w := mustOpen(t, objstore.NewMemory(), keyedOptions())
		mustPut(t, w, seq(t, 1, 3))
		s := mustSnapshot(t, w.Snapshot)
		first := func(_ any, err error) error { return err }
		for name, err := range map[string]error{
			"no key":          first(s.Lookup(ctx)),
			"two keys":        first(s.Lookup(ctx, int64(1), int64(2))),
			"nil key":         first(s.Lookup(ctx, nil)),
			"key of text":     first(s.Lookup(ctx, "1")),
			"key of floats":   first(s.Lookup(ctx, 1.5)),
			"key too large":   first(s.Lookup(ctx, uint64(math.MaxUint64))),
			"key of anything": first(s.Lookup(ctx, struct{}{})),
			"nil keys":        first(s.LookupAll(ctx, nil)),
			"wrong keys":      first(s.LookupAll(ctx, seq(t, 1, 1))),
			"unknown column":  first(s.Scan(ctx, ScanOptions{Columns: []string{"id", "nope"}})),
			"hidden column":   first(s.Scan(ctx, ScanOptions{Columns: []string{"_tombstone"}})),
			"ordinal column":  first(s.Scan(ctx, ScanOptions{Columns: []string{"_row_ordinal"}})),
			"column twice":    first(s.Scan(ctx, ScanOptions{Columns: []string{"id", "id"}})),
			"negative limit":  first(s.Scan(ctx, ScanOptions{Limit: -1})),
			"negative batch":  first(s.Scan(ctx, ScanOptions{BatchRows: -1})),
			"range of text":   first(s.Range(ctx, "by_n", index.Range{Low: []any{"x"}}, ScanOptions{})),
			"bound too long":  first(s.Range(ctx, "by_n", index.Range{High: []any{int64(1), int64(1)}}, ScanOptions{})),
			"range, column":   first(s.Range(ctx, "by_n", index.Range{}, ScanOptions{Columns: []string{"nope"}})),
		} {
			if !errors.Is(err, ErrInvalid) {
				t.Errorf("%s: %v", name, err)
			}
		}
		for _, err := range s.All(ctx, ScanOptions{Columns: []string{"nope"}}) {
			if !errors.Is(err, ErrInvalid) {
				t.Errorf("all: %v", err)
			}
		}

		s.Close()
		s.Close()
		for name, err := range map[string]error{
			"scan": first(s.Scan(ctx, ScanOptions{})), "range": first(s.Range(ctx, "by_n", index.Range{}, ScanOptions{})),
			"lookup": first(s.Lookup(ctx, int64(1))), "lookup all": first(s.LookupAll(ctx, keysOf(t, 1))), "count": first(s.Count(ctx)),
		} {
			if !errors.Is(err, ErrClosed) {
				t.Errorf("closed snapshot, %s: %v", name, err)
			}
		}

		mustClose(t, w)
		for name, err := range map[string]error{
			"put": w.Put(ctx, seq(t, 1, 1)), "put async": first(w.PutAsync(ctx, seq(t, 1, 1))), "put nil": w.Put(ctx, nil),
			"delete": w.Delete(ctx, keysOf(t, 1)), "flush": w.Flush(ctx), "rotate": w.Rotate(ctx), "err": w.Err(),
			"snapshot": first(w.Snapshot()), "indexed snapshot": first(w.IndexedSnapshot()),
		} {
			if !errors.Is(err, ErrClosed) || errors.Is(err, ErrPoisoned) {
				t.Errorf("closed writer, %s: %v", name, err)
			}
		}
		if st := w.Stats(); st.Accepted != 3 || st.ResidentBytes != 0 || st.Snapshots != 0 {
			t.Errorf("stats of a closed writer: %+v", st)
		}
	})
}

// TestMisuse_AppendOnly asks a table without keys for keys.
func TestMisuse_AppendOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := mustOpen(t, objstore.NewMemory(), nil)
		checkRefused(t, w, w.Delete(t.Context(), keysOf(t, 1)), 0, "primary key")
		checkRefused(t, w, w.Delete(t.Context(), nil), 0, "primary key")
		s := mustSnapshot(t, w.Snapshot)
		if _, err := s.Lookup(t.Context(), int64(1)); !errors.Is(err, ErrNoIndex) {
			t.Errorf("look up: %v", err)
		}
		if _, err := s.LookupAll(t.Context(), keysOf(t, 1)); !errors.Is(err, ErrNoIndex) {
			t.Errorf("look up all: %v", err)
		}
	})
}
