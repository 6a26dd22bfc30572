package schema

import (
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

var boolType = arrow.FixedWidthTypes.Boolean

func TestR07_Adapt(t *testing.T) {
	mem := checked(t)
	key := []string{"id"}
	v1 := mustStorage(t, schemaOf(req("id", i64), opt("a", text), opt("b", f64), opt("c", i64)), key, nil)
	v2 := mustStorage(t, schemaOf(opt("n", arrow.ListOf(i64)), withID(opt("bb", f64), "3"), req("id", i64), opt("a", text)), key, v1)
	v3 := mustStorage(t, schemaOf(req("id", i64), opt("c", i64), opt("a", text)), key, v2) // a new c
	rec := fromJSON(t, mem, v1.Schema.Fields(), `[{"id":1,"a":"x","b":1.5,"c":7,"_tombstone":false},{"id":2,"a":null,"b":null,"c":null,"_tombstone":true}]`)
	defer rec.Release()
	for _, c := range []struct {
		name string
		from *arrow.Schema
		to   *arrow.Schema
		want string
	}{
		{"same", v1.Schema, v1.Schema, `[{"_tombstone":false,"a":"x","b":1.5,"c":7,"id":1},{"_tombstone":true,"a":null,"b":null,"c":null,"id":2}]`},
		{"added, renamed, reordered, dropped", v1.Schema, v2.Schema,
			`[{"_tombstone":false,"a":"x","bb":1.5,"id":1,"n":null},{"_tombstone":true,"a":null,"bb":null,"id":2,"n":null}]`},
		{"a new column of an old name", v1.Schema, v3.Schema,
			`[{"_tombstone":false,"a":"x","c":null,"id":1},{"_tombstone":true,"a":null,"c":null,"id":2}]`},
		{"without ids, by name", schemaOf(req("id", i64), opt("a", text), opt("old", f64), opt("c", i64), req(Tombstone, boolType)), v3.Schema,
			`[{"_tombstone":false,"a":"x","c":7,"id":1},{"_tombstone":true,"a":null,"c":null,"id":2}]`},
		{"id before name", schemaOf(withID(req("id", i64), "1"), withID(opt("x", text), "2"), opt("b", f64), opt("c", i64), req(Tombstone, boolType)),
			schemaOf(withID(req("id", i64), "1"), withID(opt("b", text), "2"), req(Tombstone, boolType)),
			`[{"_tombstone":false,"b":"x","id":1},{"_tombstone":true,"b":null,"id":2}]`},
		{"without tombstones", schemaOf(req("id", i64), opt("a", text), opt("old", f64), opt("c", i64), req("flag", boolType)), v3.Schema,
			`[{"_tombstone":false,"a":"x","c":7,"id":1},{"_tombstone":false,"a":null,"c":null,"id":2}]`},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, err := NewAdapter(c.from, c.to)
			if err != nil {
				t.Fatal(err)
			}
			in := array.NewRecordBatch(c.from, rec.Columns(), rec.NumRows())
			defer in.Release()
			out, err := a.Adapt(in)
			if err != nil {
				t.Fatal(err)
			}
			defer out.Release()
			if got := toJSON(t, out); out.Schema() != c.to || got != c.want {
				t.Errorf("%s", got)
			}
		})
	}
}

func TestR07_AdapterRefuses(t *testing.T) {
	to := mustStorage(t, schemaOf(req("id", i64), opt("a", text)), []string{"id"}, nil).Schema
	appendOnly := mustStorage(t, schemaOf(req("n", i64)), nil, nil).Schema
	for _, c := range []struct {
		name     string
		from, to *arrow.Schema
		want     []string
	}{
		{"key lost", schemaOf(withID(opt("a", text), "2")), to, []string{`"id" (int64) of the primary key is not in the stored rows`}},
		{"type changed", schemaOf(withID(req("id", i64), "1"), withID(opt("a", i64), "2")), to, []string{`"a" (utf8) was stored as int64`}},
		{"both", schemaOf(withID(req("x", text), "1"), withID(opt("a", i64), "2")), to, []string{`"id" (int64) was stored as utf8`, `"a" (utf8) was stored as int64`}},
		{"key under an old name's id", schemaOf(withID(req("id", i64), "9")), to, []string{`"id" (int64) of the primary key is not`}},
		{"required lost", schemaOf(opt("z", i64)), appendOnly, []string{`"n" (int64) is required, but not in the stored rows`}},
		{"deletes as rows", schemaOf(req("n", i64), req(Tombstone, boolType)), appendOnly, []string{`"_tombstone" is in the stored rows`}},
		{"name twice", schemaOf(req("id", i64), opt("a", text), opt("a", text)), to, []string{`"a" (utf8) occurs twice`}},
		{"id twice", schemaOf(withID(req("id", i64), "1"), withID(opt("a", text), "2"), withID(opt("b", text), "2")), to, []string{`"a" (utf8) occurs twice`}},
		{"tombstone type", schemaOf(req("id", i64), req(Tombstone, i64)), to, []string{`"_tombstone" (bool) was stored as int64`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := NewAdapter(c.from, c.to)
			wantErrors(t, err, c.want)
		})
	}
}

// A log of another program may hold what Shape would never have let in.
func TestAdaptChecksRows(t *testing.T) {
	mem := checked(t)
	to := mustStorage(t, schemaOf(req("id", i64), opt("a", text)), []string{"id"}, nil).Schema
	from := []arrow.Field{opt("id", i64), opt("a", text)}
	a, err := NewAdapter(schemaOf(from...), to)
	if err != nil {
		t.Fatal(err)
	}
	rec := fromJSON(t, mem, from, `[{"id":1,"a":"x"},{"id":null,"a":"y"}]`)
	defer rec.Release()
	_, err = a.Adapt(rec)
	wantErrors(t, err, []string{`"id" (int64) in row 1 is null`})
	_, err = a.Adapt(nil)
	wantErrors(t, err, []string{"does not have the columns"})

	odd := batch(from, sample(memory.DefaultAllocator, i64, testRand(), 2, false),
		array.MakeFromData(dataOf(text, 2, 0, 0, []*memory.Buffer{nil, bytes32(0, 2, 1), raw(1, 2)})))
	_, err = a.Adapt(odd)
	wantErrors(t, err, []string{`"a" (utf8) is damaged`})
}

// Batches of a log whose extension type was not registered when it was read come
// out with the type that the table has.
func TestAdaptRestoresExtensions(t *testing.T) {
	for _, dt := range []arrow.DataType{newDegrees("C")} {
		to := mustStorage(t, schemaOf(opt("x", dt), opt("l", arrow.ListOf(dt))), nil, nil).Schema
		plain := []arrow.Field{unregistered(to.Field(0)), to.Field(1)}
		plain[1].Type = arrow.ListOfField(unregistered(opt("item", dt)))
		rec := fromJSON(t, memory.DefaultAllocator, plain, `[{"x":1.5,"l":[2.5,null]},{"x":null,"l":null}]`)
		back := roundTrip(t, rec)
		a, err := NewAdapter(back.Schema(), to)
		if err != nil {
			t.Fatal(err)
		}
		out, err := a.Adapt(back)
		if err != nil {
			t.Fatal(err)
		}
		if !arrow.TypeEqual(out.Column(0).DataType(), dt) || !strings.Contains(out.Column(1).String(), "2.5") {
			t.Errorf("%v", out)
		}
		inner := out.Column(1).(*array.List).ListValues()
		if _, ok := inner.(*degreesArray); !ok {
			t.Errorf("the list holds %T", inner)
		}
		readAll(t, out)
	}
}
