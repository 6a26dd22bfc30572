package schema

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
)

var (
	i64  = arrow.PrimitiveTypes.Int64
	text = arrow.BinaryTypes.String
	f64  = arrow.PrimitiveTypes.Float64
)

func withID(f arrow.Field, id string) arrow.Field {
	f.Metadata = withKey(f.Metadata, FieldIDKey, id)
	return f
}

func schemaOf(fields ...arrow.Field) *arrow.Schema { return arrow.NewSchema(fields, nil) }

func mustStorage(t testing.TB, user *arrow.Schema, key []string, prev *Table) *Table {
	t.Helper()
	table, err := Storage(user, key, prev)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// describe prints what matters of a storage schema: "id#1! name#2?".
func describe(s *arrow.Schema) string {
	var out []string
	for _, f := range s.Fields() {
		id, _ := f.Metadata.GetValue(FieldIDKey)
		mark := "!"
		if f.Nullable {
			mark = "?"
		}
		if _, ok := f.Metadata.GetValue(RequiredKey); ok {
			mark += "r"
		}
		out = append(out, f.Name+"#"+id+mark)
	}
	return strings.Join(out, " ")
}

func TestStorageOfNewTables(t *testing.T) {
	user := schemaOf(opt("id", i64), req("name", text), withID(opt("x", f64), "7"), opt("y", f64))
	for _, c := range []struct {
		key  []string
		want string
		next int32
	}{
		{nil, "id#8? name#9! x#7? y#10?", 11},
		{[]string{"id"}, "id#8! name#9?r x#7? y#10? _tombstone#!", 11},
		{[]string{"name", "id"}, "id#8! name#9! x#7? y#10? _tombstone#!", 11},
	} {
		table := mustStorage(t, user, c.key, nil)
		if got := describe(table.Schema); got != c.want || table.NextFieldID != c.next || !slices.Equal(table.PrimaryKey, c.key) {
			t.Errorf("key %q: %s, next %d", c.key, got, table.NextFieldID)
		}
	}
	plain := mustStorage(t, schemaOf(opt("a", i64), opt("b", i64)), nil, nil)
	if got := describe(plain.Schema); got != "a#1? b#2?" || plain.NextFieldID != 3 {
		t.Errorf("plain: %s", got)
	}
}

func TestStorageKeepsMetadata(t *testing.T) {
	f := opt("a", i64)
	f.Metadata = arrow.MetadataFrom(map[string]string{"unit": "m", RequiredKey: "true"})
	meta := arrow.MetadataFrom(map[string]string{"owner": "me", "memwal.put_id": "77", "writer_epoch": "3"})
	table := mustStorage(t, arrow.NewSchema([]arrow.Field{f}, &meta), nil, nil)
	if got := table.Schema.Field(0).Metadata.ToMap(); len(got) != 2 || got["unit"] != "m" || got[FieldIDKey] != "1" {
		t.Errorf("field metadata %v", got)
	}
	if got := table.Schema.Metadata().ToMap(); len(got) != 1 || got["owner"] != "me" {
		t.Errorf("schema metadata %v", got)
	}
}

// Each refusal names the column, its type where it has one, and what is expected.
func TestC05_C07_StorageRefuses(t *testing.T) {
	v1 := mustStorage(t, schemaOf(req("id", i64), opt("a", text), opt("b", text), opt("c", text)), []string{"id"}, nil)
	v2 := mustStorage(t, schemaOf(req("id", i64), opt("a", text), opt("b", text)), []string{"id"}, v1) // c, id 4, dropped
	two := mustStorage(t, schemaOf(req("id", i64), req("k", text)), []string{"id", "k"}, nil)
	appendOnly := mustStorage(t, schemaOf(req("id", i64), opt("n", i64)), nil, nil)
	ok := []arrow.Field{req("id", i64), opt("a", text), opt("b", text)}
	with := func(f ...arrow.Field) *arrow.Schema { return schemaOf(append(slices.Clone(ok), f...)...) }
	for _, c := range []struct {
		name string
		user *arrow.Schema
		key  []string
		prev *Table
		want []string // in the text; one error each
	}{
		{"C05 underscore", schemaOf(req("id", i64), opt("_x", text)), nil, nil, []string{`"_x" (utf8) has a reserved name`}},
		{"C05 tombstone", schemaOf(req("id", i64), opt(Tombstone, text)), []string{"id"}, nil, []string{`"_tombstone"`}},
		{"no name", schemaOf(opt("", text)), nil, nil, []string{"has no name (column 0)"}},
		{"not utf-8", schemaOf(opt("\xff", text)), nil, nil, []string{"not UTF-8"}},
		{"twice", schemaOf(opt("a", text), opt("a", i64)), nil, nil, []string{`"a" (int64) occurs twice`}},
		{"no columns", schemaOf(), nil, nil, []string{"no columns"}},
		{"key missing", with(), []string{"nope"}, nil, []string{`"nope" of the primary key is not in the schema`}},
		{"key twice", with(), []string{"id", "id"}, nil, []string{"twice in the primary key"}},
		{"bad ids", schemaOf(withID(opt("a", text), "0"), withID(opt("b", text), "x"), withID(opt("c", text), "2147483647")), nil, nil,
			[]string{`"a" has the field id "0"`, `"b" has the field id "x"`, `"c" has the field id "2147483647"`}},
		{"id twice", schemaOf(withID(opt("a", text), "3"), withID(opt("b", text), "3")), nil, nil, []string{`"b" (utf8) has the field id 3 of another column`}},
		{"C07 id of another", schemaOf(req("id", i64), withID(opt("a", text), "3"), opt("b", text)), []string{"id"}, v2,
			[]string{`"a" (utf8) has the field id 3, which names column "b"`}},
		{"C07 new id, old name", schemaOf(req("id", i64), withID(opt("a", text), "99"), opt("b", text)), []string{"id"}, v2,
			[]string{`"a" (utf8) has the field id 99, but the table's column of that name has 2`}},
		{"id of a dropped column", with(withID(opt("z", text), "4")), []string{"id"}, v2, []string{`"z" (utf8) has the field id 4 of a column that was dropped`}},
		{"new and required", with(req("z", f64)), []string{"id"}, v2, []string{`"z" (float64) is new and required`}},
		{"type", schemaOf(req("id", i64), opt("a", i64), opt("b", text)), []string{"id"}, v2, []string{`"a" (int64) was of type utf8`}},
		{"required now", schemaOf(req("id", i64), req("a", text), opt("b", text)), []string{"id"}, v2, []string{`"a" (utf8) was nullable`}},
		{"required now, append-only", schemaOf(req("id", i64), req("n", i64)), nil, appendOnly, []string{`"n" (int64) was nullable`}},
		{"key dropped", schemaOf(opt("a", text)), nil, v2, []string{`"id" (int64) of the primary key is gone`}},
		{"key type", schemaOf(req("id", text)), []string{"id"}, v2, []string{`"id" (utf8) was of type int64`}},
		{"key no longer", with(), nil, v2, []string{`"id" is in the table's primary key, but no key is given`}},
		{"key of others", with(), []string{"a"}, v2, []string{`"id" (int64) is no longer in`, `"a" (utf8) is not in the table's primary key`}},
		{"key is new", with(opt("z", i64)), []string{"id", "z"}, v2, []string{`"z" (int64) is not in the table's primary key`}},
		{"key order", schemaOf(req("id", i64), req("k", text)), []string{"k", "id"}, two, []string{`"id" (int64) is in place 1`, `"k" (utf8) is in place 0`}},
		{"key for append-only", schemaOf(req("id", i64), opt("n", i64)), []string{"id"}, appendOnly, []string{"is append-only"}},
		{"all at once", schemaOf(req("id", i64), opt("a", i64), req("b", text), req("z", f64)), []string{"id"}, v2,
			[]string{`"a" (int64) was of type`, `"b" (utf8) was nullable`, `"z" (float64) is new and required`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			table, err := Storage(c.user, c.key, c.prev)
			wantErrors(t, err, c.want)
			if table != nil {
				t.Error("there is a table all the same")
			}
		})
	}
}

// wantErrors checks that err is a join of exactly those errors, all typed.
func wantErrors(t *testing.T, err error, want []string) {
	t.Helper()
	if err == nil {
		t.Fatal("accepted")
	}
	if !errors.Is(err, ErrInvalid) {
		t.Errorf("not ErrInvalid: %v", err)
	}
	if _, ok := errors.AsType[*ColumnError](err); !ok {
		t.Errorf("no ColumnError: %v", err)
	}
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != len(want) {
		t.Errorf("%d errors instead of %d:\n%v", len(lines), len(want), err)
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("no %q in:\n%v", w, err)
		}
	}
	for _, line := range lines {
		if !strings.Contains(line, ": ") {
			t.Errorf("no expectation in %q", line)
		}
	}
}

func TestR07_StorageEvolution(t *testing.T) {
	key := []string{"id"}
	v1 := mustStorage(t, schemaOf(req("id", i64), req("a", text), opt("b", f64)), key, nil)
	step := func(prev *Table, key []string, want string, next int32, fields ...arrow.Field) *Table {
		t.Helper()
		table := mustStorage(t, schemaOf(fields...), key, prev)
		if got := describe(table.Schema); got != want || table.NextFieldID != next {
			t.Fatalf("%s, next %d\ninstead of %s, next %d", got, table.NextFieldID, want, next)
		}
		return table
	}
	step(v1, key, "id#1! a#2?r b#3? _tombstone#!", 4, req("id", i64), req("a", text), opt("b", f64))
	// Reordered, renamed by id, added, dropped, and relaxed.
	v2 := step(v1, key, "c#4? bb#3? id#1! a#2? _tombstone#!", 5,
		opt("c", i64), withID(opt("bb", f64), "3"), req("id", i64), opt("a", text))
	// The dropped id 4 stays used. The old name b is free for a new column.
	v3 := step(v2, key, "id#1! a#2? b#5? _tombstone#!", 6, req("id", i64), opt("a", text), opt("b", text))
	// A column that comes back under its name is a new one.
	v4 := step(v3, key, "id#1! c#6? _tombstone#!", 7, req("id", i64), opt("c", i64))
	// The key renamed by id; a given new id moves the next one on.
	step(v4, []string{"key"}, "key#1! z#20? y#21? _tombstone#!", 22,
		withID(req("key", i64), "1"), withID(opt("z", i64), "20"), opt("y", i64))
	// Renamed away by id, so that the old name is a new column.
	step(v4, key, "id#1! old#6? c#7? _tombstone#!", 8, req("id", i64), withID(opt("old", i64), "6"), opt("c", text))
	// A manifest that does not say which id is next.
	step(&Table{Schema: v4.Schema, PrimaryKey: key}, key, "id#1! d#7? _tombstone#!", 8, req("id", i64), opt("d", i64))
	// A table whose schema has no ids yet: columns are kept by name, and get some.
	foreign := &Table{Schema: schemaOf(req("id", i64), opt("a", text)), PrimaryKey: key}
	step(foreign, key, "a#1? id#2! _tombstone#!", 3, opt("a", text), req("id", i64))
	if _, err := Storage(schemaOf(req("id", i64), opt("a", f64)), key, foreign); err == nil {
		t.Fatal("a changed type was accepted by name")
	}
}

func TestStorageRunsOutOfIDs(t *testing.T) {
	v1 := mustStorage(t, schemaOf(withID(opt("a", i64), "2147483646")), nil, nil)
	_, err := Storage(schemaOf(opt("a", i64), opt("b", i64)), nil, v1)
	wantErrors(t, err, []string{`"b" (int64) is new, but all field ids are used up`})
}

func TestSameType(t *testing.T) {
	named := func(name string, f arrow.Field) arrow.Field { f.Name = name; return f }
	meta := func(f arrow.Field) arrow.Field {
		f.Metadata = arrow.MetadataFrom(map[string]string{"x": "y"})
		return f
	}
	unit := func(u arrow.TimeUnit, tz string) arrow.DataType { return &arrow.TimestampType{Unit: u, TimeZone: tz} }
	for _, c := range []struct {
		name string
		a, b arrow.DataType
		want bool
	}{
		{"units", unit(arrow.Second, ""), unit(arrow.Millisecond, ""), false},
		{"zones", unit(arrow.Second, "UTC"), unit(arrow.Second, ""), false},
		{"list element name", arrow.LargeListOfField(opt("item", i64)), arrow.LargeListOfField(named("element", opt("", i64))), true},
		{"list view element metadata", arrow.ListViewOfField(opt("item", i64)), arrow.ListViewOfField(meta(opt("item", i64))), true},
		{"list element nullability", arrow.LargeListOf(i64), arrow.LargeListOfNonNullable(i64), false},
		{"list widths", arrow.ListOf(i64), arrow.LargeListOf(i64), false},
		{"fixed list size", arrow.FixedSizeListOf(2, i64), arrow.FixedSizeListOf(3, i64), false},
		{"struct field name", arrow.StructOf(opt("a", i64)), arrow.StructOf(opt("b", i64)), false},
		{"struct metadata", arrow.StructOf(opt("a", i64)), arrow.StructOf(meta(opt("a", i64))), true},
		{"struct deep", arrow.StructOf(opt("a", arrow.ListOf(i64))), arrow.StructOf(opt("a", arrow.ListOf(f64))), false},
		{"map names", arrow.MapOfFields(req("key", text), opt("value", i64)), arrow.MapOfFields(req("k", text), opt("v", i64)), true},
		{"map items", arrow.MapOf(text, i64), arrow.MapOf(text, f64), false},
		{"dictionary index", &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: text}, &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int16, ValueType: text}, false},
		{"dictionary order", &arrow.DictionaryType{IndexType: i64, ValueType: text, Ordered: true}, &arrow.DictionaryType{IndexType: i64, ValueType: text}, false},
		{"runs", arrow.RunEndEncodedOf(i64, arrow.StructOf(opt("a", i64))), arrow.RunEndEncodedOf(i64, arrow.StructOf(meta(opt("a", i64)))), true},
		{"union codes", arrow.DenseUnionOf([]arrow.Field{opt("a", i64)}, []int8{1}), arrow.DenseUnionOf([]arrow.Field{opt("a", i64)}, []int8{2}), false},
		{"extension", newDegrees("C"), newDegrees("C"), true},
		{"extension parameter", newDegrees("C"), newDegrees("F"), false},
		{"extension and storage", newDegrees("C"), f64, false},
		{"extension inside", arrow.ListOf(newDegrees("C")), arrow.ListOf(newDegrees("F")), false},
	} {
		if SameType(c.a, c.b) != c.want || SameType(c.b, c.a) != c.want {
			t.Errorf("%s: not %v", c.name, c.want)
		}
	}
	for _, dt := range sampleTypes() {
		for _, other := range sampleTypes() {
			if got := SameType(dt, other); got != arrow.TypeEqual(dt, other) {
				t.Errorf("%s and %s: %v", dt, other, got)
			}
		}
	}
}

// unregistered is a field as a reader sees it that does not know the extension type.
func unregistered(f arrow.Field) arrow.Field {
	x := f.Type.(arrow.ExtensionType)
	f.Type = x.StorageType()
	f.Metadata = withKey(withKey(f.Metadata, extensionNameKey, x.ExtensionName()), extensionDataKey, x.Serialize())
	return f
}

func TestStorageKnowsUnregisteredExtensions(t *testing.T) {
	stored := &Table{Schema: schemaOf(unregistered(withID(opt("x", newDegrees("C")), "1"))), NextFieldID: 2}
	if _, err := Storage(schemaOf(opt("x", newDegrees("C"))), nil, stored); err != nil {
		t.Error(err)
	}
	if _, err := Storage(schemaOf(unregistered(opt("x", newDegrees("C")))), nil, stored); err != nil {
		t.Error(err)
	}
	for name, f := range map[string]arrow.Field{
		"parameter":                newDegreesField("F"),
		"plain":                    opt("x", f64),
		"unregistered, parameter":  unregistered(newDegreesField("F")),
		"unregistered, other type": withMeta(opt("x", f64), extensionNameKey, "other"),
	} {
		_, err := Storage(schemaOf(f), nil, stored)
		if err == nil || !strings.Contains(err.Error(), "was of type memwal.test.degrees float64") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func newDegreesField(unit string) arrow.Field { return opt("x", newDegrees(unit)) }

func withMeta(f arrow.Field, k, v string) arrow.Field {
	f.Metadata = withKey(f.Metadata, k, v)
	return f
}

func TestEqual(t *testing.T) {
	base := schemaOf(withID(opt("a", i64), "1"), opt("b", text))
	meta := arrow.MetadataFrom(map[string]string{"k": "v"})
	for name, c := range map[string]struct {
		s    *arrow.Schema
		want bool
	}{
		"itself":         {base, true},
		"other metadata": {arrow.NewSchema([]arrow.Field{withMeta(withID(opt("a", i64), "1"), "k", "v"), opt("b", text)}, &meta), true},
		"name":           {schemaOf(withID(opt("x", i64), "1"), opt("b", text)), false},
		"type":           {schemaOf(withID(opt("a", f64), "1"), opt("b", text)), false},
		"nullable":       {schemaOf(withID(req("a", i64), "1"), opt("b", text)), false},
		"id":             {schemaOf(withID(opt("a", i64), "2"), opt("b", text)), false},
		"no id":          {schemaOf(opt("a", i64), opt("b", text)), false},
		"required":       {schemaOf(withMeta(withID(opt("a", i64), "1"), RequiredKey, "true"), opt("b", text)), false},
		"order":          {schemaOf(opt("b", text), withID(opt("a", i64), "1")), false},
		"fewer":          {schemaOf(withID(opt("a", i64), "1")), false},
		"nil":            {nil, false},
	} {
		if Equal(base, c.s) != c.want || Equal(c.s, base) != c.want {
			t.Errorf("%s: not %v", name, c.want)
		}
	}
}
