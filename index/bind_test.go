package index

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/memwal/memwal-go/internal/schema"
)

// configErrors are the violations that Bind joined.
func configErrors(t *testing.T, err error) []*ConfigError {
	t.Helper()
	if !errors.Is(err, ErrInvalid) {
		t.Fatalf("Bind: %v, want ErrInvalid", err)
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		t.Fatalf("%T is not joined", err)
	}
	var out []*ConfigError
	for _, e := range joined.Unwrap() {
		ce, ok := e.(*ConfigError)
		if !ok {
			t.Fatalf("%T in the joined error: %v", e, e)
		}
		out = append(out, ce)
	}
	return out
}

// TestC01Config: every violation is reported, in one error, with index, column,
// type and expectation.
func TestC01Config(t *testing.T) {
	sc := arrow.NewSchema([]arrow.Field{
		field("id", arrow.PrimitiveTypes.Int64, 1, false),
		field("tags", arrow.ListOf(arrow.BinaryTypes.String), 2, true),
		field("twice", arrow.PrimitiveTypes.Int64, 3, true),
		field("twice", arrow.PrimitiveTypes.Int64, 4, true),
		{Name: schema.Tombstone, Type: arrow.FixedWidthTypes.Boolean},
	}, nil)
	_, err := Bind(sc, cols("id", "tags", "gone"), []Config{
		Ordered{Name: "a", Columns: cols("tags")},
		Ordered{Name: "b", Columns: cols("missing", "id", "id")},
		Ordered{Name: "b", Columns: cols("id")},
		Ordered{Name: "", Columns: cols("id")},
		Ordered{Name: "_x", Columns: cols("id")},
		Ordered{Name: "c"},
		Ordered{Name: "d", Columns: cols("twice")},
		Ordered{Name: "e", Columns: cols(schema.Tombstone)},
		nil,
	})
	type place struct{ index, column, typ string }
	want := []place{
		{PrimaryKey, "gone", ""},
		{PrimaryKey, "tags", "list<item: utf8, nullable>"},
		{"a", "tags", "list<item: utf8, nullable>"},
		{"b", "missing", ""},
		{"b", "id", "int64"},
		{"b", "", ""},
		{"#4", "", ""},
		{"_x", "", ""},
		{"c", "", ""},
		{"d", "twice", "int64"},
		{"e", schema.Tombstone, ""},
		{"#9", "", ""},
	}
	var got []place
	for _, e := range configErrors(t, err) {
		p := place{e.Index, e.Column, ""}
		if e.Type != nil {
			p.typ = e.Type.String()
		}
		got = append(got, p)
		if e.Want == "" {
			t.Errorf("no expectation: %v", e)
		}
		for _, part := range []string{e.Column, p.typ, e.Want} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("the text lacks %q: %v", part, err)
			}
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("violations\n%v, want\n%v", got, want)
	}
}

func TestBindTombstone(t *testing.T) {
	id := field("id", arrow.PrimitiveTypes.Int64, 1, false)
	dead := arrow.Field{Name: schema.Tombstone, Type: arrow.FixedWidthTypes.Boolean}
	wrong := arrow.Field{Name: schema.Tombstone, Type: arrow.PrimitiveTypes.Int8}
	for _, c := range []struct {
		fields []arrow.Field
		key    []Column
		ok     bool
	}{
		{[]arrow.Field{id, dead}, cols("id"), true},
		{[]arrow.Field{id}, cols("id"), true},
		{[]arrow.Field{id}, nil, true},
		{[]arrow.Field{id, dead}, nil, false},
		{[]arrow.Field{id, wrong}, cols("id"), false},
		{[]arrow.Field{id, dead, dead}, cols("id"), false},
	} {
		if _, err := Bind(arrow.NewSchema(c.fields, nil), c.key, nil); (err == nil) != c.ok || err != nil && !errors.Is(err, ErrInvalid) {
			t.Errorf("%v: %v", c.fields, err)
		}
	}
}

// TestC07FieldIDs: a field id must be that of the column named.
func TestC07FieldIDs(t *testing.T) {
	sc := arrow.NewSchema([]arrow.Field{
		field("id", arrow.PrimitiveTypes.Int64, 1, false),
		field("name", arrow.BinaryTypes.String, 2, false),
		{Name: "plain", Type: arrow.PrimitiveTypes.Int64},
	}, nil)
	for _, c := range []struct {
		col  Column
		text string // empty: fine
	}{
		{Column{"id", 0}, ""},
		{Column{"id", 1}, ""},
		{Column{"name", 2}, ""},
		{Column{"plain", 0}, ""},
		{Column{"name", 1}, `1 is column "id"`},
		{Column{"id", 2}, `2 is column "name"`},
		{Column{"id", 9}, "has field id 1"},
		{Column{"plain", 1}, `1 is column "id"`},
		{Column{"plain", 7}, "has none"},
		{Column{"renamed", 2}, `field id 2 is column "name"`},
	} {
		for _, primary := range []bool{true, false} {
			var key []Column
			var configs []Config
			index := PrimaryKey
			if primary {
				key = []Column{c.col}
			} else {
				index, configs = "o", []Config{Ordered{Name: "o", Columns: []Column{c.col}}}
			}
			_, err := Bind(sc, key, configs)
			if c.text == "" {
				if err != nil {
					t.Errorf("%v: %v", c.col, err)
				}
				continue
			}
			es := configErrors(t, err)
			if len(es) != 1 || es[0].Index != index || es[0].Column != c.col.Name || !strings.Contains(err.Error(), c.text) {
				t.Errorf("%v: %v; want one of index %q with %q", c.col, err, index, c.text)
			}
		}
	}
}

// TestC02BatchWithoutColumn: a batch that lacks an indexed column is an error.
func TestC02BatchWithoutColumn(t *testing.T) {
	sc := testSchema(true)
	s := mustBind(t, sc, cols("id"), Ordered{Name: "byGroup", Columns: cols("group")})
	rec := batchOf(t, sc, []row{{id: 1}})
	if err := s.Check(rec); err != nil {
		t.Fatal(err)
	}
	same := arrow.NewSchema(sc.Fields(), nil) // equal, not the same
	if err := s.Check(array.NewRecordBatch(same, rec.Columns(), 1)); err != nil {
		t.Errorf("an equal schema: %v", err)
	}
	without := func(drop ...int) arrow.RecordBatch {
		var fields []arrow.Field
		var arrs []arrow.Array
		for i, f := range sc.Fields() {
			if !containsInt(drop, i) {
				fields, arrs = append(fields, f), append(arrs, rec.Column(i))
			}
		}
		return array.NewRecordBatch(arrow.NewSchema(fields, nil), arrs, 1)
	}
	other := func(at int, f arrow.Field, a arrow.Array) arrow.RecordBatch {
		fields := append([]arrow.Field(nil), sc.Fields()...)
		arrs := append([]arrow.Array(nil), rec.Columns()...)
		fields[at], arrs[at] = f, a
		return array.NewRecordBatch(arrow.NewSchema(fields, nil), arrs, 1)
	}
	ints := array.NewInt64Builder(memory.DefaultAllocator)
	ints.Append(1)
	int64s := ints.NewArray()
	for _, c := range []struct {
		name, index, column string
		rec                 arrow.RecordBatch
	}{
		{"no columns", PrimaryKey, schema.Tombstone, without(0, 1, 2, 3, 4)},
		{"no tombstone", PrimaryKey, schema.Tombstone, without(4)},
		{"no key", PrimaryKey, schema.Tombstone, without(0)}, // all positions move
		{"key renamed", PrimaryKey, "id", other(0, arrow.Field{Name: "ID", Type: arrow.PrimitiveTypes.Int64}, rec.Column(0))},
		{"indexed column renamed", "byGroup", "group", other(3, arrow.Field{Name: "g", Type: arrow.PrimitiveTypes.Int32}, rec.Column(3))},
		{"indexed column of another type", "byGroup", "group", other(3, arrow.Field{Name: "group", Type: arrow.PrimitiveTypes.Int64}, int64s)},
	} {
		err := s.Check(c.rec)
		be, ok := errors.AsType[*BatchError](err)
		if !ok || be.Index != c.index || be.Column != c.column || !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	unrelated := other(1, arrow.Field{Name: "other", Type: arrow.BinaryTypes.String}, rec.Column(1))
	if err := s.Check(unrelated); err != nil {
		t.Errorf("a column without an index differs: %v", err)
	}
}

func containsInt(list []int, n int) bool {
	for _, x := range list {
		if x == n {
			return true
		}
	}
	return false
}

// TestC03NullInKey: nulls are refused in every column of the primary key, and
// taken by ordered indexes.
func TestC03NullInKey(t *testing.T) {
	sc := testSchema(true)
	s := mustBind(t, sc, cols("id", "group"), Ordered{Name: "o", Columns: cols("score", "group")})
	if err := s.Check(batchOf(t, sc, []row{{id: 1, group: ptr(int32(1))}})); err != nil {
		t.Errorf("a null outside the key: %v", err)
	}
	err := s.Check(batchOf(t, sc, []row{{id: 1, group: ptr(int32(1))}, {id: 2}}))
	re, ok := errors.AsType[*RowError](err)
	if !ok || re.Row != 1 || re.Column != "group" || !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "primary key") {
		t.Errorf("a null in the key: %v", err)
	}
	if _, err := s.Key(1, nil); !errors.Is(err, ErrInvalid) {
		t.Errorf("Key with nil: %v", err)
	}
	unsaid := array.NewBooleanBuilder(memory.DefaultAllocator)
	unsaid.AppendNull()
	arrs := append([]arrow.Array(nil), batchOf(t, sc, []row{{id: 1, group: ptr(int32(1))}}).Columns()...)
	arrs[4] = unsaid.NewArray()
	fields := append([]arrow.Field(nil), sc.Fields()...)
	fields[4].Nullable = true
	if err := s.Check(array.NewRecordBatch(arrow.NewSchema(fields, nil), arrs, 1)); !errors.Is(err, ErrInvalid) {
		t.Errorf("a null tombstone: %v", err)
	}
	long := mustBind(t, sc, cols("name"), Ordered{Name: "o", Columns: cols("name")})
	if err := long.Check(batchOf(t, sc, []row{{name: strings.Repeat("x", 100_000)}})); !errors.Is(err, ErrInvalid) {
		t.Errorf("a key of 100,000 bytes: %v", err)
	}
}

// TestQ08NoIndex: a search without an index is a typed error.
func TestQ08NoIndex(t *testing.T) {
	sc := testSchema(true)
	f := newFixture(mustBind(t, sc, cols("id"), Ordered{Name: "byName", Columns: cols("name", "id")}))
	for _, name := range []string{"", "name", "nope", PrimaryKey} {
		_, err := f.set.Range(name, Range{}, 0)
		ne, ok := errors.AsType[*NoIndexError](err)
		if !ok || ne.Index != name || !errors.Is(err, ErrNoIndex) || errors.Is(err, ErrInvalid) {
			t.Errorf("Range over %q: %v", name, err)
		}
		if _, err := f.set.RangeKeys(name, Range{}, 0); !errors.Is(err, ErrNoIndex) {
			t.Errorf("RangeKeys over %q: %v", name, err)
		}
	}
	if got, err := f.spec.OrderedOver("name"); got != "byName" || err != nil {
		t.Errorf("OrderedOver(name) = %q, %v", got, err)
	}
	for _, col := range []string{"id", "score", "nope"} {
		if _, err := f.spec.OrderedOver(col); !errors.Is(err, ErrNoIndex) {
			t.Errorf("OrderedOver(%s): %v", col, err)
		}
	}
	none := mustBind(t, testSchema(false), nil)
	_, err := none.Key(1)
	for what, err := range map[string]error{"Key": err, "Failed": none.NewSet(nil).Failed(PrimaryKey)} {
		if !errors.Is(err, ErrNoIndex) || !strings.Contains(err.Error(), "no primary key") || strings.Contains(err.Error(), PrimaryKey) {
			t.Errorf("%s of an append-only table: %v", what, err)
		}
	}
	if err := f.set.Failed("nope"); !errors.Is(err, ErrNoIndex) {
		t.Errorf("Failed of an unknown index: %v", err)
	}
	if err := f.set.Fail("nope", errors.New("x")); !errors.Is(err, ErrNoIndex) {
		t.Errorf("Fail of an unknown index: %v", err)
	}
	if _, err := f.set.Range("byName", Range{Low: []any{1}}, 0); !errors.Is(err, ErrInvalid) {
		t.Errorf("Range with a value of another type: %v", err)
	}
	if _, err := f.set.Range("byName", Range{High: []any{"a", 1, 2}}, 0); !errors.Is(err, ErrInvalid) {
		t.Errorf("Range with too many values: %v", err)
	}
}
