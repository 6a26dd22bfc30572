package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/memwal/memwal-go/memwal"
)

// runBench runs the program and returns the exit code, what it printed and the
// figures.
func runBench(t *testing.T, args ...string) (int, string, string, figures) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "out.json")
	var stdout, stderr bytes.Buffer
	code := command(t.Context(), append(args, "-json", path), &stdout, &stderr)
	var f figures
	if data, err := os.ReadFile(path); err == nil {
		if err := json.Unmarshal(data, &f); err != nil {
			t.Fatal(err)
		}
	}
	return code, stdout.String(), stderr.String(), f
}

func TestBenchEndToEnd(t *testing.T) {
	arrowIn := writeArrowFile(t, mixedBatch(t, 0, 700))
	parquetIn := writeParquet(t, mixedBatch(t, 0, 300), mixedBatch(t, 300, 400))
	for _, tc := range []struct {
		name string
		args string
		rows int64
	}{
		{"synthetic, all indexes", "-rows 2000 -batch 100", 2000},
		{"vectors", "-rows 300 -batch 32 -dim 8", 300},
		{"keyless", "-rows 2000 -batch 100 -index none", 2000},
		{"ordered", "-rows 2000 -batch 100 -index ordered", 2000},
		{"one putter, async", "-rows 2000 -batch 20 -index pk -writers 1 -async=32", 2000},
		{"putters, async", "-rows 2000 -batch 10 -writers 5 -async", 2000},
		{"indexed first", "-rows 1000 -batch 100 -visible indexed -interval 0", 1000},
		{"log only", "-rows 1000 -batch 100 -memtable=false", 1000},
		{"compressed", "-rows 1000 -batch 100 -compress zstd -flush-bytes 64kB -max-entry-bytes 128KiB -inflight 2", 1000},
		{"with a rate", "-rows 300 -batch 100 -rate 2000", 300},
		{"text", "-rows 2000 -batch 20 -words 5 -text body -async", 2000},
		{"text, keyless", "-rows 1000 -batch 20 -words 5 -index text::en,ordered:id,text -async", 1000},
		{"text, several columns", "-batch 64 -key n -index ordered:n,text:dict:keyword,pk,text:s -input " + arrowIn, 700},
		{"slow store", "-rows 500 -batch 50 -latency 5ms", 500},
		{"arrow, ordinal", "-batch 64 -input " + arrowIn, 700},
		{"arrow, own key", "-key n -batch 64 -index pk -input " + arrowIn, 700},
		{"arrow, keyless", "-batch 64 -index none -input " + arrowIn, 700},
		{"parquet, first rows", "-key n -batch 64 -rows 130 -input " + parquetIn, 130},
		{"read", "-rows 2000 -batch 10 -read 2 -interval 1ms -rate 5000", 2000},
		{"read, keyless, async", "-rows 2000 -batch 10 -read 1 -index none -async -interval 1ms -rate 5000", 2000},
		{"read, indexed first", "-rows 2000 -batch 10 -read 1 -visible indexed -interval 1ms -rate 5000", 2000},
		{"read, many types", "-key n -batch 16 -index all -read 1 -interval 1ms -rate 5000 -input " + arrowIn, 700},
		{"read, upserts", "-key b -batch 1 -writers 1 -index pk -read 1 -interval 1ms -rate 200 -input " + writeArrowFile(t, upserts(t)), 40},
		{"upserts", "-key b -batch 64 -writers 1 -index pk -input " + writeArrowFile(t, upserts(t)), 40},
	} {
		t.Run(tc.name, func(t *testing.T) {
			code, out, errs, f := runBench(t, append(strings.Fields(tc.args), "-store", "mem://")...)
			if code != 0 {
				t.Fatalf("exit code %d: %s\n%s", code, errs, out)
			}
			verified := tc.rows
			if strings.HasSuffix(tc.name, "upserts") {
				verified = 2
			}
			if f.Rows != tc.rows || f.VerifiedRows != verified {
				t.Errorf("%d rows, %d verified; want %d, %d", f.Rows, f.VerifiedRows, tc.rows, verified)
			}
			if f.Bytes <= 0 || f.Seconds <= 0 || f.RowsPerS <= 0 || f.MBPerS <= 0 || f.AckMS.P50 <= 0 || f.AckMS.Max < f.AckMS.P99 ||
				f.Puts <= 0 || f.PutsPerS <= 0 || f.USDPerMonth <= 0 || f.CloseS <= 0 || f.ReopenS <= 0 || f.PeakRSSMB <= 1 || len(f.Options) < 20 {
				t.Errorf("figures are %+v", f)
			}
			if !strings.Contains(out, "rows, every value equal to the input") {
				t.Errorf("printed:\n%s", out)
			}
			if strings.HasPrefix(tc.name, "read") {
				r := f.Read
				if r == nil || r.Readers < 1 || r.Snapshot.Count == 0 || r.Scan.Count == 0 || r.Scan.P50 <= 0 || r.Scan.Max < r.Scan.P99 {
					t.Fatalf("read figures are %+v", r)
				}
				if keyed := !strings.Contains(tc.name, "keyless"); keyed != (r.Lookup.Count > 0) || keyed && r.Lookup.P50 <= 0 || !strings.Contains(out, "readers      snapshot p50") {
					t.Errorf("read figures are %+v\n%s", r, out)
				}
			} else if f.Read != nil {
				t.Errorf("read figures without readers: %+v", f.Read)
			}
			if indexes := strings.Count(out, " a row, by itself, of "); indexes != len(f.Indexes) || (f.IndexBytesPerRow > 0) != (indexes > 0) {
				t.Errorf("%d indexes printed, %+v, %v bytes a row", indexes, f.Indexes, f.IndexBytesPerRow)
			}
			for _, x := range f.Indexes {
				if !strings.HasSuffix(tc.name, "upserts") && x.Rows != tc.rows || x.NSPerRow <= 0 || x.BytesPerRow <= 0 || x.BytesPerRow > 2*f.IndexBytesPerRow {
					t.Errorf("index cost %+v of %v", x, f.IndexBytesPerRow)
				}
			}
			if strings.Contains(tc.name, "ordinal") && !strings.Contains(out, `it has no column "id": an ordinal is added as such`) {
				t.Errorf("the added key is not mentioned:\n%s", out)
			}
		})
	}
}

// upserts has 40 rows with two values of the key "b".
func upserts(t *testing.T) arrow.RecordBatch {
	s := arrow.NewSchema([]arrow.Field{{Name: "b", Type: arrow.BinaryTypes.String}, {Name: "n", Type: arrow.PrimitiveTypes.Int64}}, nil)
	var rows []string
	for i := range 40 {
		rows = append(rows, `{"b":"`+string(rune('a'+i%2))+`","n":`+string(rune('0'+i%10))+`}`)
	}
	return fromJSON(t, s, rows...)
}

// Without flags it ingests the embedded file into a folder of its own, which it
// removes.
func TestBenchDefault(t *testing.T) {
	if testing.Short() {
		t.Skip("200,000 rows with all indexes")
	}
	t.Setenv("TMPDIR", t.TempDir())
	code, out, errs, f := runBench(t)
	if code != 0 || f.VerifiedRows != 200_000 {
		t.Fatalf("exit code %d, %d rows verified: %s\n%s", code, f.VerifiedRows, errs, out)
	}
	if left, _ := filepath.Glob(filepath.Join(os.TempDir(), "memwal-bench-*")); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
	if code, _, errs, _ := runBench(t, "-keep", "-rows", "10"); code != 0 {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	if left, _ := filepath.Glob(filepath.Join(os.TempDir(), "memwal-bench-*", "_mem_wal", "*", "wal", "*.arrow")); len(left) == 0 {
		t.Error("-keep kept no WAL")
	}
}

func TestBenchDuration(t *testing.T) {
	code, out, errs, f := runBench(t, strings.Fields("-store mem:// -rows 500 -batch 50 -duration 300ms -interval 1ms -flush-bytes 1")...)
	if code != 0 {
		t.Fatalf("exit code %d: %s\n%s", code, errs, out)
	}
	if f.Rows <= 500 || f.VerifiedRows != f.Rows || f.Seconds < 0.3 {
		t.Errorf("%d rows in %.2f s, %d verified", f.Rows, f.Seconds, f.VerifiedRows)
	}
}

func TestBenchExitCodes(t *testing.T) {
	key := writeArrowFile(t, fromJSON(t, arrow.NewSchema([]arrow.Field{{Name: "id", Type: arrow.PrimitiveTypes.Int64, Nullable: true}}, nil), `{"id":1}`, `{"id":null}`))
	reserved := writeArrowFile(t, fromJSON(t, arrow.NewSchema([]arrow.Field{{Name: "_rowid", Type: arrow.PrimitiveTypes.Int64}}, nil), `{"_rowid":1}`))
	dec := writeArrowFile(t, fromJSON(t, arrow.NewSchema([]arrow.Field{{Name: "dec", Type: &arrow.Decimal128Type{Precision: 20, Scale: 2}}}, nil), `{"dec":"1.25"}`))
	empty := writeArrowFile(t, fromJSON(t, arrow.NewSchema([]arrow.Field{{Name: "s", Type: arrow.BinaryTypes.String, Nullable: true}}, nil), `{"s":""}`, `{"s":null}`))
	for _, tc := range []struct {
		name, args, want string
		code             int
	}{
		{"flag", "-nonsense", "nonsense", 2},
		{"value", "-batch 0", "-batch", 2},
		{"input", "-input /nonexistent/file", "no such file", 2},
		{"store", "-store nonsense://x", "nonsense", 2},
		{"profile", "-store mem:// -rows 10 -cpuprofile /nonexistent/file", "-cpuprofile", 2},
		{"option", "-store mem:// -rows 10 -flush-bytes 1GiB", "FlushBytes", 2},
		{"key type", "-store mem:// -rows 10 -dim 2 -key vector", "vector", 2},
		{"reserved name", "-store mem:// -input " + reserved, "reserved", 2},
		{"no such key", "-store mem:// -rows 10 -key nope", `"nope"`, 2},
		{"memtable", "-store mem:// -rows 10 -max-memtable-bytes 8GiB", "MaxMemtableBytes", 2},
		{"no such column", "-store mem:// -rows 10 -index ordered:nope,text:none", `the input has no column "nope"; choose one of "id", "text"`, 2},
		{"no such columns", "-store mem:// -rows 10 -index ordered:nope,text:none", `the input has no column "none"; choose one of "text"`, 2},
		{"no text column", "-store mem:// -rows 10 -index text:id", `column "id" of type int64: expected text, or a list of text; choose one of "text"`, 2},
		{"no text", "-store mem:// -index all,text -key dec -index text -input " + dec, `no column of the input is text; it has "dec"`, 2},
		{"-text", "-store mem:// -text nope", `-text: column "nope" is not in the input, or is no text; choose one of "origin", "destination"`, 2},
		{"-text of made-up rows", "-store mem:// -rows 10 -text id", `have another column "id"`, 2},
		{"-text of made-up vectors", "-store mem:// -dim 2 -text vector", `have another column "vector"`, 2},
		{"analyzer", "-store mem:// -rows 10 -index text:text:nope", `there is no analyzer "nope"`, 2},
		{"same index", "-store mem:// -rows 10 -index text,text:text", "two indexes that are the same", 2},
		{"query of a list", "-store mem:// -index text:dict -key n -query -input " + writeArrowFile(t, mixedBatch(t, 0, 20)), "-query draws its queries from text of type utf8", 2},
		{"-where", "-store mem:// -rows 10 -index text -query -where nope==1", `-where: filter text, line 1, column 1: filter: column "nope" is not in the schema`, 2},
		{"query of nothing", "-store mem:// -index text -query -input " + empty, "-query finds no term in the first 2 rows", 2},
		{"ordered by what cannot be read", "-store mem:// -index ordered:dec -read 1 -input " + dec, `ranges of column "dec" of type decimal(20, 2): choose another column for -index ordered`, 2},
		{"key to be read", "-store mem:// -key dec -index pk -read 1 -input " + dec, "dec", 2},
		{"new keys", "-store mem:// -rows 10 -key text -duration 1s", "int64", 2},
		{"memory", "-store mem:// -rows 10 -max-resident-bytes 1MiB", "MaxResidentBytes", 2},
		{"null key", "-store mem:// -input " + key, "null", 1},
		{"json", "-store mem:// -rows 10 -json /nonexistent/file", "-json", 2},
		{"fault script", "-soak 1s -fault-script /nonexistent/file", "-fault-script", 2},
		{"json of a soak", "-soak 1s -json /nonexistent/file", "-json", 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			code := command(t.Context(), strings.Fields(tc.args), &stdout, &stderr)
			if code != tc.code || !strings.Contains(stderr.String(), tc.want) {
				t.Errorf("exit code %d, want %d with %q:\n%s%s", code, tc.code, tc.want, stderr.String(), stdout.String())
			}
		})
	}
	var stdout, stderr bytes.Buffer
	if code := command(t.Context(), []string{"-help"}, &stdout, &stderr); code != 0 || stderr.Len() > 0 || stdout.Len() == 0 {
		t.Errorf("-help: exit code %d, %q", code, stderr.String())
	}
}

// A row that somebody else added, altered or deleted between the ingest and the
// reopening makes the program fail and name it.
func TestBenchDetectsDifferences(t *testing.T) {
	for _, tc := range []struct{ index, name, want string }{
		{indexNone, "twice", "1 there more than once; first: input row 3 was read back too often"},
		{indexPK, "altered", `1 altered; first: input row 3 (id=3) was altered: column "text" is changed`},
		{indexPK, "lost", "1 lost; first: input row 3 was not read back: id=3"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var out bytes.Buffer
			b := newBench(mustParse(t, "-store", "mem://", "-rows", "100", "-batch", "10", "-index", tc.index), &out, &out)
			prof, err := b.setup(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer b.teardown()
			o, err := b.options()
			if err != nil {
				t.Fatal(err)
			}
			open := func() *memwal.Writer {
				w, err := memwal.Open(t.Context(), b.store, b.shard, b.in.Schema(), o)
				if err != nil {
					t.Fatal(err)
				}
				return w
			}
			w := open()
			if err := b.measure(t.Context(), w, b.newIngest(w), prof); err != nil {
				t.Fatal(err)
			}
			w = open()
			switch row := collect(t, b.in)[0].NewSlice(3, 4); tc.name {
			case "twice":
				err = w.Put(t.Context(), row)
			case "altered":
				err = w.Put(t.Context(), fromJSON(t, b.in.Schema(), `{"id":3,"text":"changed"}`))
			case "lost":
				id := arrow.NewSchema(b.in.Schema().Fields()[:1], nil)
				err = w.Delete(t.Context(), array.NewRecordBatch(id, row.Columns()[:1], 1))
			}
			if err := errors.Join(err, w.Close(t.Context())); err != nil {
				t.Fatal(err)
			}
			if err := b.reopen(t.Context(), o); !errors.Is(err, errDiffers) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

// A run that fails, before or after its first row, leaves the reason in the JSON.
func TestBenchJSONError(t *testing.T) {
	key := writeArrowFile(t, fromJSON(t, arrow.NewSchema([]arrow.Field{{Name: "id", Type: arrow.PrimitiveTypes.Int64, Nullable: true}}, nil), `{"id":1}`, `{"id":null}`))
	for args, want := range map[string]string{"-input " + key: "null", "-rows 10 -flush-bytes 1GiB": "FlushBytes"} {
		code, _, _, f := runBench(t, append(strings.Fields(args), "-store", "mem://")...)
		if code == 0 || !strings.Contains(f.Error, want) || len(f.Options) == 0 {
			t.Errorf("%s: exit code %d, error %q, %d options", args, code, f.Error, len(f.Options))
		}
	}
}

// With -json - standard output holds JSON and nothing else.
func TestBenchJSONStdout(t *testing.T) {
	var stdout, stderr bytes.Buffer
	code := command(t.Context(), strings.Fields("-store mem:// -rows 10 -json -"), &stdout, &stderr)
	var f figures
	if err := json.Unmarshal(stdout.Bytes(), &f); err != nil || code != 0 || f.Rows != 10 || f.Error != "" {
		t.Errorf("exit code %d, %v: %+v\n%s", code, err, f, stdout.String())
	}
	if !strings.Contains(stderr.String(), "ack latency") {
		t.Errorf("no report on standard error:\n%s", stderr.String())
	}
}

// An interrupted run prints and writes what it measured.
func TestBenchInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	path := filepath.Join(t.TempDir(), "out.json")
	var stdout, stderr bytes.Buffer
	args := strings.Fields("-store mem:// -rows 500 -batch 50 -duration 1h -rate 5000 -json " + path)
	stdoutSeen := &notifyWriter{w: &stdout, mark: "putters", hit: func() { cancel() }}
	code := command(ctx, args, stdoutSeen, &stderr)
	if code != 130 || !strings.Contains(stderr.String(), "interrupted") {
		t.Fatalf("exit code %d: %s", code, stderr.String())
	}
	if !strings.Contains(stdout.String(), "ack latency") || strings.Contains(stdout.String(), "equal to the input") {
		t.Errorf("printed:\n%s", stdout.String())
	}
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
}

// notifyWriter calls hit once mark was written.
type notifyWriter struct {
	w    *bytes.Buffer
	mark string
	hit  func()
}

func (n *notifyWriter) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte(n.mark)) {
		n.hit()
	}
	return n.w.Write(p)
}

func TestBenchProfiles(t *testing.T) {
	dir := t.TempDir()
	cpu, mem := filepath.Join(dir, "cpu"), filepath.Join(dir, "mem")
	if code, _, errs, _ := runBench(t, "-store", "mem://", "-rows", "100", "-cpuprofile", cpu, "-memprofile", mem); code != 0 {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	for _, path := range []string{cpu, mem} {
		if st, err := os.Stat(path); err != nil || st.Size() == 0 {
			t.Errorf("%s: %v", path, err)
		}
	}
}
