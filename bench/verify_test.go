package main

import (
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// rowsOf returns the given rows of mixed, in that order, as a batch.
func rowsOf(t testing.TB, list ...int) arrow.RecordBatch {
	t.Helper()
	text := make([]string, len(list))
	for i, n := range list {
		text[i] = mixedJSON(n)
	}
	return fromJSON(t, mixed, text...)
}

// checks are the ways to compare: with and without a key, and with a key that
// may repeat in the input, which takes another path.
func checks() map[string]*check {
	return map[string]*check{
		"keyless":    {schema: mixed},
		"unique key": {schema: mixed, key: []string{"n"}, unique: true},
		"any key":    {schema: mixed, key: []string{"n"}},
		"two keys":   {schema: mixed, key: []string{"n", "vec"}, unique: true},
	}
}

// The same rows are equal in any order, slicing and batching, and with other
// dictionaries.
func TestVerifyEqual(t *testing.T) {
	want := lend(rowsOf(t, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9))
	shuffled := rowsOf(t, 99, 9, 3, 7, 8, 98, 0, 5, 1, 2, 6, 4, 97)
	got := lend(shuffled.NewSlice(6, 9), shuffled.NewSlice(1, 5), shuffled.NewSlice(9, 12))
	for name, c := range checks() {
		if n, err := c.verify(want, got); n != 10 || err != nil {
			t.Errorf("%s: %d rows, %v", name, n, err)
		}
	}
}

func TestVerifyDifferences(t *testing.T) {
	altered := strings.Replace(mixedJSON(4), `"x":4`, `"x":5`, 1)
	if altered == mixedJSON(4) {
		t.Fatal("nothing was altered")
	}
	alteredBatch := fromJSON(t, mixed, mixedJSON(3), altered, mixedJSON(5))
	nulled := fromJSON(t, mixed, mixedJSON(3), strings.Replace(mixedJSON(4), `"s":"row 4"`, `"s":null`, 1), mixedJSON(5))

	for _, tc := range []struct {
		name           string
		got            []arrow.RecordBatch
		keyed, keyless differenceError // counts
		first          []string        // in the message with a key
		firstKeyless   []string
	}{
		{
			name: "lost", got: []arrow.RecordBatch{rowsOf(t, 3, 5)},
			keyed: differenceError{Lost: 1}, keyless: differenceError{Lost: 1},
			first: []string{"input row 1 was not read back", "n=4"}, firstKeyless: []string{"input row 1 was not read back", "n=4"},
		},
		{
			name: "twice", got: []arrow.RecordBatch{rowsOf(t, 3, 4), rowsOf(t, 5, 4)},
			keyed: differenceError{Twice: 1}, keyless: differenceError{Twice: 1},
			first: []string{"input row 1 was read back too often", "place 3", "n=4"}, firstKeyless: []string{"input row 1 was read back too often", "n=4"},
		},
		{
			name: "altered", got: []arrow.RecordBatch{alteredBatch},
			keyed: differenceError{Altered: 1}, keyless: differenceError{Lost: 1, Foreign: 1},
			first: []string{"input row 1 (n=4", `column "st"`, `"x":5`, `the input has {"x":4`}, firstKeyless: []string{"input row 1 was not read back", "the row read back at place 1 is not in the input", `"x":5`},
		},
		{
			name: "null", got: []arrow.RecordBatch{nulled},
			keyed: differenceError{Altered: 1}, keyless: differenceError{Lost: 1, Foreign: 1},
			first: []string{`column "s" is null, the input has row 4`}, firstKeyless: []string{"s=null"},
		},
		{
			name: "foreign", got: []arrow.RecordBatch{rowsOf(t, 3, 4, 5, 77)},
			keyed: differenceError{Foreign: 1}, keyless: differenceError{Foreign: 1},
			first: []string{"the row read back at place 3 is not in the input", "n=77"}, firstKeyless: []string{"n=77"},
		},
		{
			name: "one lost, another twice", got: []arrow.RecordBatch{rowsOf(t, 3, 3, 5)},
			keyed: differenceError{Lost: 1, Twice: 1}, keyless: differenceError{Lost: 1, Twice: 1},
			first: []string{"input row 0 was read back too often"}, firstKeyless: []string{"input row 0 was read back too often"},
		},
		{
			name: "nothing", got: nil,
			keyed: differenceError{Lost: 3}, keyless: differenceError{Lost: 3},
			first: []string{"input row 0 was not read back"}, firstKeyless: []string{"input row 0 was not read back"},
		},
	} {
		for name, c := range checks() {
			t.Run(tc.name+"/"+name, func(t *testing.T) {
				_, err := c.verify(lend(rowsOf(t, 3, 4, 5)), lend(tc.got...))
				want, first := tc.keyed, tc.first
				if c.key == nil {
					want, first = tc.keyless, tc.firstKeyless
				}
				d, ok := errors.AsType[*differenceError](err)
				if !ok || !errors.Is(err, errDiffers) {
					t.Fatalf("got %v", err)
				}
				if d.Lost != want.Lost || d.Twice != want.Twice || d.Altered != want.Altered || d.Foreign != want.Foreign {
					t.Errorf("counts are %+v, want %+v", d, want)
				}
				for _, part := range first {
					if !strings.Contains(err.Error(), part) {
						t.Errorf("%q does not say %q", err, part)
					}
				}
			})
		}
	}
}

// A table without a key keeps duplicates of the input, and they are counted.
func TestVerifyKeylessDuplicates(t *testing.T) {
	c := &check{schema: mixed}
	want := lend(rowsOf(t, 1, 2, 1, 1))
	if n, err := c.verify(want, lend(rowsOf(t, 1, 1, 2, 1))); n != 4 || err != nil {
		t.Errorf("equal: %d, %v", n, err)
	}
	for _, got := range [][]int{{1, 1, 2}, {1, 1, 2, 2}, {1, 1, 1, 1, 2}} {
		if _, err := c.verify(want, lend(rowsOf(t, got...))); !errors.Is(err, errDiffers) {
			t.Errorf("rows %v: %v", got, err)
		}
	}
}

// With a key that repeats in the input, the last version counts, or any where
// several putters wrote.
func TestVerifyUpserts(t *testing.T) {
	s := arrow.NewSchema([]arrow.Field{{Name: "k", Type: arrow.BinaryTypes.String}, {Name: "v", Type: arrow.PrimitiveTypes.Int64}}, nil)
	want := lend(fromJSON(t, s, `{"k":"a","v":1}`, `{"k":"b","v":2}`, `{"k":"a","v":3}`))
	last := lend(fromJSON(t, s, `{"k":"b","v":2}`, `{"k":"a","v":3}`))
	early := lend(fromJSON(t, s, `{"k":"b","v":2}`, `{"k":"a","v":1}`))
	both := lend(fromJSON(t, s, `{"k":"a","v":1}`, `{"k":"b","v":2}`, `{"k":"a","v":3}`))
	for _, ordered := range []bool{true, false} {
		c := &check{schema: s, key: []string{"k"}, ordered: ordered}
		if n, err := c.verify(want, last); n != 2 || err != nil {
			t.Errorf("ordered %v, last version: %d, %v", ordered, n, err)
		}
		if _, err := c.verify(want, early); (err == nil) == ordered {
			t.Errorf("ordered %v, an earlier version: %v", ordered, err)
		}
		if _, err := c.verify(want, both); !errors.Is(err, errDiffers) {
			t.Errorf("ordered %v, both versions: %v", ordered, err)
		}
	}
}

func TestVerifySchema(t *testing.T) {
	c := &check{schema: mixed}
	other := fromJSON(t, arrow.NewSchema([]arrow.Field{{Name: "n", Type: arrow.PrimitiveTypes.Int64}}, nil), `{"n":1}`)
	if _, err := c.verify(lend(rowsOf(t, 1)), lend(other)); !errors.Is(err, errDiffers) || !strings.Contains(err.Error(), "1 columns") {
		t.Errorf("fewer columns: %v", err)
	}
	fields := mixed.Fields()
	fields[1].Name = "renamed"
	renamed := array.NewRecordBatch(arrow.NewSchema(fields, nil), rowsOf(t, 1).Columns(), 1)
	if _, err := c.verify(lend(rowsOf(t, 1)), lend(renamed)); !errors.Is(err, errDiffers) || !strings.Contains(err.Error(), `"renamed"`) {
		t.Errorf("renamed column: %v", err)
	}
}

// A failure to read is an error of its own, not a difference.
func TestVerifyReadError(t *testing.T) {
	broken := errors.New("broken")
	failing := func() iter.Seq2[arrow.RecordBatch, error] {
		return func(yield func(arrow.RecordBatch, error) bool) { yield(nil, broken) }
	}
	for name, c := range checks() {
		if _, err := c.verify(lend(rowsOf(t, 1)), failing); !errors.Is(err, broken) || errors.Is(err, errDiffers) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := c.verify(failing, lend(rowsOf(t, 1))); !errors.Is(err, broken) || errors.Is(err, errDiffers) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Every column counts: altering any one value alone is found.
func TestDigestEveryColumn(t *testing.T) {
	base := map[string]string{
		"n": "1", "s": `"a"`, "b": "true", "ts": "1", "bin": `"AAEC"`, "list": "[1,null,2]", "vec": "[1,2,3]",
		"st": `{"x":1,"y":"z"}`, "dict": `"d"`, "dec": `"1.25"`,
	}
	changes := map[string][]string{
		"n": {"2"}, "s": {`"b"`, `""`, "null"}, "b": {"false", "null"}, "ts": {"2", "null"}, "bin": {`"AAED"`, `""`, "null"},
		"list": {"[1,null,3]", "[1,2]", "[1,null]", "[]", "[null,1,2]", "null"}, "vec": {"[1,2,4]", "null"},
		"st": {`{"x":2,"y":"z"}`, `{"x":1,"y":""}`, `{"x":null,"y":"z"}`, "null"}, "dict": {`"e"`, "null"}, "dec": {`"1.26"`, "null"},
	}
	render := func(col, value string) string {
		var parts []string
		for _, f := range mixed.Fields() {
			v := base[f.Name]
			if f.Name == col {
				v = value
			}
			parts = append(parts, fmt.Sprintf("%q:%s", f.Name, v))
		}
		return "{" + strings.Join(parts, ",") + "}"
	}
	s := newSeeds()
	hash := func(row string) digest {
		// In the middle of a slice, so that offsets count.
		rec := fromJSON(t, mixed, mixedJSON(3), mixedJSON(4), row, mixedJSON(5)).NewSlice(1, 4)
		h, err := newHasher(s, rec, nil)
		if err != nil {
			t.Fatal(err)
		}
		return h.row(1)
	}
	seen := map[digest]string{hash(render("", "")): "the row itself"}
	for col, values := range changes {
		for _, v := range values {
			d := hash(render(col, v))
			if other, ok := seen[d]; ok {
				t.Errorf("%s=%s hashes like %s", col, v, other)
			}
			seen[d] = col + "=" + v
		}
	}
}
