package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// Every format gives the same rows, in batches of the size asked for, whatever
// the batches in the file are.
func TestInputFormats(t *testing.T) {
	want := mixedBatch(t, 0, 143)
	sliced := []arrow.RecordBatch{want.NewSlice(0, 40), want.NewSlice(40, 43), want.NewSlice(43, 143)}
	// Each with a dictionary of its own, which an IPC file cannot hold.
	built := []arrow.RecordBatch{mixedBatch(t, 0, 40), mixedBatch(t, 40, 3), mixedBatch(t, 43, 100)}
	for _, format := range []struct {
		name    string
		write   func(testing.TB, ...arrow.RecordBatch) string
		batches []arrow.RecordBatch
	}{{"file", writeArrowFile, sliced}, {"stream", writeArrowStream, built}, {"parquet", writeParquet, built}} {
		path := format.write(t, format.batches...)
		for _, size := range []int64{1, 7, 40, 143, 1000} {
			t.Run(fmt.Sprintf("%s/%d", format.name, size), func(t *testing.T) {
				c := mustParse(t, "-input", path, "-key", "n", "-batch", fmt.Sprint(size))
				in, err := openInput(c)
				if err != nil {
					t.Fatal(err)
				}
				if in.added || in.unique {
					t.Errorf("added %v, unique %v", in.added, in.unique)
				}
				got := collect(t, in)
				for i, b := range got {
					if n := min(size, want.NumRows()-int64(i)*size); b.NumRows() != n {
						t.Fatalf("batch %d has %d rows, want %d", i, b.NumRows(), n)
					}
				}
				all := joinAll(t, got)
				for i := range int(want.NumCols()) {
					if !sameValues(all.Column(i), want.Column(i)) {
						t.Errorf("column %s is\n%v, want\n%v", want.ColumnName(i), all.Column(i), want.Column(i))
					}
				}
			})
		}
	}
}

// sameValues compares values, not the dictionaries that they may be in.
func sameValues(a, b arrow.Array) bool {
	for i := range b.Len() {
		if a.IsNull(i) != b.IsNull(i) || a.ValueStr(i) != b.ValueStr(i) {
			return false
		}
	}
	return a.Len() == b.Len() && arrow.TypeEqual(a.DataType(), b.DataType())
}

// A small batch must not keep the whole batch of the file alive.
func TestInputBatchesStandAlone(t *testing.T) {
	path := writeArrowFile(t, mixedBatch(t, 0, 5000))
	in, err := openInput(mustParse(t, "-input", path, "-key", "n", "-batch", "50"))
	if err != nil {
		t.Fatal(err)
	}
	whole := int64(0)
	for _, b := range collect(t, in) {
		if n := bufferBytes(b); n > 50*400 {
			t.Fatalf("a batch of 50 rows has buffers of %d bytes", n)
		}
		whole += bufferBytes(b)
	}
	if whole == 0 {
		t.Error("no bytes at all")
	}
}

// Nor do the rows that -rows leaves of a batch count for the whole of it.
func TestInputLimitStandsAlone(t *testing.T) {
	path := writeArrowFile(t, mixedBatch(t, 0, 5000))
	in, err := openInput(mustParse(t, "-input", path, "-key", "n", "-rows", "50"))
	if err != nil {
		t.Fatal(err)
	}
	f, err := prepare(in, false, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	defer f.close()
	if _, n := f.ahead(); f.rows() != 50 || n == 0 || n > 50*400 {
		t.Errorf("%d rows are %d bytes", f.rows(), n)
	}
}

func TestInputOrdinalAdded(t *testing.T) {
	path := writeParquet(t, mixedBatch(t, 100, 25))
	in, err := openInput(mustParse(t, "-input", path, "-batch", "10"))
	if err != nil {
		t.Fatal(err)
	}
	if !in.added || !in.unique || in.Schema().Field(0).Name != "id" || in.Schema().NumFields() != mixed.NumFields()+1 {
		t.Fatalf("added %v, unique %v, schema %v", in.added, in.unique, in.Schema())
	}
	ids := joinAll(t, collect(t, in)).Column(0).(*array.Int64)
	for i := range 25 {
		if ids.Value(i) != int64(i) {
			t.Fatalf("row %d has ordinal %d", i, ids.Value(i))
		}
	}
	// Without an index, the default key adds nothing.
	in, err = openInput(mustParse(t, "-input", path, "-index", "none"))
	if err != nil || in.added || in.key != nil {
		t.Errorf("added %v, key %q, %v", in.added, in.key, err)
	}
}

func TestInputLimit(t *testing.T) {
	path := writeArrowStream(t, mixedBatch(t, 0, 30), mixedBatch(t, 30, 30))
	for _, rows := range []int{1, 29, 30, 31, 60, 100} {
		in, err := openInput(mustParse(t, "-input", path, "-key", "n", "-batch", "8", "-rows", fmt.Sprint(rows)))
		if err != nil {
			t.Fatal(err)
		}
		if n := joinAll(t, collect(t, in)).NumRows(); n != int64(min(rows, 60)) {
			t.Errorf("-rows %d gives %d rows", rows, n)
		}
	}
}

func TestInputRejected(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := writeArrowFile(t, mixedBatch(t, 0, 3))
	whole, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, want string
		args       []string
	}{
		{"missing file", "no such file", []string{"-input", filepath.Join(dir, "none")}},
		{"folder", "no regular file", []string{"-input", dir}},
		{"text", "neither Parquet nor", []string{"-input", file("text", "a,b\n1,2\n")}},
		{"empty", "neither Parquet nor", []string{"-input", file("empty", "")}},
		{"cut parquet", "as Parquet", []string{"-input", file("cut", "PAR1 and no more")}},
		{"cut arrow", "as an Arrow IPC file", []string{"-input", file("cut2", string(whole[:len(whole)/2]))}},
		{"missing key", `no column "q"; it has "n", `, []string{"-input", good, "-key", "q"}},
		{"missing keys", `no column "q"`, []string{"-input", good, "-key", "n,q"}},
	} {
		_, err := openInput(mustParse(t, tc.args...))
		if _, ok := errors.AsType[*usageError](err); !ok || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want a usage error with %q", tc.name, err, tc.want)
		}
	}
}

// A file that ends in the middle is an error, not a shorter input.
func TestInputTruncatedStream(t *testing.T) {
	path := writeArrowStream(t, mixedBatch(t, 0, 500), mixedBatch(t, 500, 500))
	st, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, st.Size()-200); err != nil {
		t.Fatal(err)
	}
	in, err := openInput(mustParse(t, "-input", path, "-key", "n"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := prepare(in, false, 1<<30); err == nil {
		t.Error("a truncated stream is accepted")
	}
}

func TestInputEmbedded(t *testing.T) {
	in, err := openInput(mustParse(t))
	if err != nil {
		t.Fatal(err)
	}
	if in.added || !in.unique || in.Rows() != 200_000 {
		t.Errorf("added %v, unique %v, %d rows", in.added, in.unique, in.Rows())
	}
	want := "id:int64 date:timestamp[us] delay:int64 distance:int64 origin:large_utf8 destination:large_utf8"
	var got []string
	for _, f := range in.Schema().Fields() {
		got = append(got, f.Name+":"+f.Type.String())
		if f.HasMetadata() {
			t.Errorf("%s has metadata %v", f.Name, f.Metadata)
		}
	}
	if strings.Join(got, " ") != want {
		t.Errorf("schema is %s", got)
	}
}

func TestInputSynthetic(t *testing.T) {
	c := mustParse(t, "-rows", "1000", "-dim", "16", "-batch", "300")
	in, err := openInput(c)
	if err != nil {
		t.Fatal(err)
	}
	first, second := joinAll(t, collect(t, in)), joinAll(t, collect(t, in))
	if !array.RecordEqual(first, second) {
		t.Error("two readings differ")
	}
	if first.NumRows() != 1000 || in.Rows() != 1000 || !in.unique {
		t.Errorf("%d rows, %d announced, unique %v", first.NumRows(), in.Rows(), in.unique)
	}
	text := first.Column(1).(*array.String)
	distinct := map[string]bool{}
	for i := range 1000 {
		if len(text.Value(i)) != 64 {
			t.Fatalf("row %d has %d characters", i, len(text.Value(i)))
		}
		distinct[text.Value(i)] = true
	}
	if len(distinct) < 990 {
		t.Errorf("only %d different texts", len(distinct))
	}
	if vec := first.Column(2).(*array.FixedSizeList); vec.ListValues().Len() != 16_000 {
		t.Errorf("vectors have %d values", vec.ListValues().Len())
	}
}

// Rows beyond what is kept have other ids and the texts of earlier rows.
func TestInputSyntheticComesAgain(t *testing.T) {
	s := newSynthetic(95, 10, 0, defaultText, 0)
	s.period = 3
	first, again := joinAll(t, collect(t, s)), joinAll(t, collect(t, s))
	if first.NumRows() != 95 || !array.RecordEqual(first, again) {
		t.Fatalf("%d rows, or two readings differ", first.NumRows())
	}
	text := first.Column(1)
	if !array.SliceEqual(text, 0, 30, text, 30, 60) || array.SliceEqual(text, 0, 10, text, 10, 20) {
		t.Error("texts do not come again after 30 rows")
	}
	if ids := first.Column(0).(*array.Int64); ids.Value(94) != 94 || ids.Value(30) != 30 {
		t.Error("ids are no ordinals")
	}
}

// Texts of words have as many as asked for, from one vocabulary.
func TestInputWords(t *testing.T) {
	in, err := openInput(mustParse(t, "-rows", "3000", "-batch", "100", "-words", "7", "-text", "body"))
	if err != nil {
		t.Fatal(err)
	}
	rec := joinAll(t, collect(t, in))
	if rec.NumRows() != 3000 || rec.ColumnName(1) != "body" {
		t.Fatalf("%d rows of %v", rec.NumRows(), rec.Schema())
	}
	seen := map[string]int{}
	for i := range 3000 {
		words := strings.Fields(rec.Column(1).(*array.String).Value(i))
		if len(words) != 7 {
			t.Fatalf("row %d has %d words", i, len(words))
		}
		for _, w := range words {
			seen[w]++
		}
	}
	most := 0
	for _, n := range seen {
		most = max(most, n)
	}
	if len(seen) < 4000 || len(seen) > vocabulary || most < 500 {
		t.Errorf("%d different words, the most frequent one %d times", len(seen), most)
	}
}
