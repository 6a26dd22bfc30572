package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func writeFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "f.json")
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestCompare(t *testing.T) {
	write := func(f figures, fail error) string {
		path := filepath.Join(t.TempDir(), "f.json")
		out, err := createJSON(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r := report{figures: f, Samples: []sample{{at: 1, rows: 1}}}
		r.derive()
		if err := r.writeJSON(out, fail); err != nil {
			t.Fatal(err)
		}
		return path
	}
	a := figures{
		Rows: 1000, Bytes: 4_000_000, Seconds: 2, Puts: 20, CPUS: 1, PeakRSSMB: 99, CloseS: 0.5, AckMS: ackMillis{10, 20, 30, 40},
		Options: map[string]any{"store": "mem://", "writers": 8, "gone": true, "json": "a", "html": "a"},
	}
	b := a
	b.Rows, b.Bytes, b.AckMS, b.CloseS, b.BaselineMBPerS = 2000, 8_008_000, ackMillis{12, 20.04, 15, 40}, 0, 10
	b.Read = &readFigures{Readers: 1, Snapshot: readMicros{10, 1, 2, 3, 4}, Scan: readMicros{10, 1, 2, 3, 4}}
	b.Query = &queryFigures{Queriers: 1, PerS: 500, Rare: queryMicros{10, 1, 2, 3, 4}, Lookup: queryMicros{10, 1, 2, 3, 4}}
	b.QueryCompare = &compareFigures{Alone: 200, Beside: 150, Ratio: 0.75}
	a.IndexBytesPerRow, b.IndexBytesPerRow = 100, 150
	a.Indexes = []indexCost{{"text index on t", 9, 80, 1000}, {"ordered index on t", 9, 20, 100}}
	b.Indexes = []indexCost{{"text index on t", 9, 40, 1000}}
	b.Options = map[string]any{"store": "mem://", "writers": 1024, "new": "x", "json": "b", "html": "b"}
	pa, pb := write(a, nil), write(b, errPut)

	var out, errs strings.Builder
	if code := command(t.Context(), []string{"-compare", pa, pb}, &out, &errs); code != 0 {
		t.Fatalf("exit code %d: %s", code, errs.String())
	}
	lines := map[string]string{}
	for line := range strings.Lines(out.String()) {
		line = strings.Join(strings.Fields(line), " ")
		name, _, _ := strings.Cut(line, " ")
		lines[line] = name
	}
	for _, want := range []string{
		"A: " + pa, "B: " + pb, "B failed: " + errPut.Error(),
		"figure A B change",
		"rows 1,000 2,000 +100.0 %",
		"ingest 500.0 rows/s 1,000 rows/s +100.0 % better",
		"written 2.000 MB/s 4.004 MB/s +100.2 % better",
		"written for a row 4,000 bytes 4,004 bytes +0.1 % same",
		"ack latency p50 10 ms 12 ms +20.0 % worse",
		"ack latency p95 20 ms 20.04 ms +0.2 % same",
		"ack latency p99 30 ms 15 ms -50.0 % better",
		"ack latency max 40 ms 40 ms 0.0 % same",
		"PUTs 20 20 0.0 %",
		"baseline - 10 MB/s",
		"baseline ratio - 0.4004",
		"scan p50 - 1 µs",
		"queries - 500/s",
		"query, rare p90 - 2 µs",
		"query, lookup max - 4 µs",
		"ingest without readers - 200 rows/s",
		"beside readers to without - 0.75",
		"all indexes, a row 100 bytes 150 bytes +50.0 % worse",
		"text index on t, a row 80 bytes 40 bytes -50.0 % better",
		"text index on t, a row 1,000 ns 1,000 ns 0.0 % same",
		"ordered index on t, a row 20 bytes -",
		"close 0.5 s -",
		"option A B",
		"-writers 8 1,024",
		"-gone true not known",
		`-new not known "x"`,
	} {
		want = strings.ReplaceAll(want, "500.0", "500")
		want = strings.ReplaceAll(want, "2.000 MB", "2 MB")
		if _, ok := lines[want]; !ok {
			t.Errorf("no line %q in:\n%s", want, out.String())
		}
	}
	for line, name := range lines {
		if name == "-store" || name == "-json" || name == "-html" || strings.Contains(line, "NaN") || strings.Contains(line, "Inf") {
			t.Errorf("line %q", line)
		}
	}

	out.Reset()
	if err := compare(&out, pa, pa); err != nil || !strings.Contains(out.String(), "all options are the same") || strings.Contains(out.String(), "worse") || strings.Contains(out.String(), "better") {
		t.Errorf("with itself: %v\n%s", err, out.String())
	}
}

func TestCompareRejected(t *testing.T) {
	good := writeFile(t, `{"rows":1,"seconds":1,"ack_ms":{},"options":{}}`)
	for _, tc := range []struct {
		name string
		args []string
		want []string
	}{
		{"no files", nil, []string{"two files"}},
		{"one file", []string{good}, []string{"two files"}},
		{"three files", []string{good, good, good}, []string{"two files"}},
		{"other flag", []string{"-rows", "1"}, []string{"no other flag"}},
		{"missing", []string{good, "/nonexistent/file"}, []string{"/nonexistent/file", "no such file"}},
		{"both missing", []string{"/nonexistent/a", "/nonexistent/b"}, []string{"/nonexistent/a", "/nonexistent/b"}},
		{"empty", []string{writeFile(t, " \n"), good}, []string{"is no report of bench", "empty", "-json"}},
		{"no JSON", []string{good, writeFile(t, "hello")}, []string{"is no report of bench", "no JSON object"}},
		{"array", []string{good, writeFile(t, "[1]")}, []string{"no JSON object"}},
		{"other JSON", []string{good, writeFile(t, `{"rows":1}`)}, []string{`no member "seconds"`, "-json"}},
		{"other types", []string{good, writeFile(t, `{"rows":"many","seconds":1,"ack_ms":{},"options":{}}`)}, []string{"is no report of bench", "rows"}},
	} {
		var out, errs strings.Builder
		code := command(t.Context(), append([]string{"-compare"}, tc.args...), &out, &errs)
		for _, want := range tc.want {
			if code != 2 || !strings.Contains(errs.String(), want) || out.Len() > 0 {
				t.Errorf("%s: exit code %d, want %q: %s%s", tc.name, code, want, errs.String(), out.String())
			}
		}
	}
}

// What a run writes can be compared.
func TestBenchCompare(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.json")
	var out, errs strings.Builder
	if code := command(t.Context(), strings.Fields("-store mem:// -rows 100 -read 1 -json "+path), &out, &errs); code != 0 {
		t.Fatal(errs.String())
	}
	out.Reset()
	if code := command(t.Context(), []string{"-compare", path, path}, &out, &errs); code != 0 || !strings.Contains(out.String(), "rows verified") {
		t.Errorf("exit code %d: %s%s", code, errs.String(), out.String())
	}
}

func TestPairs(t *testing.T) {
	m := func(names ...string) (list []measure) {
		for _, n := range names {
			list = append(list, measure{name: n, value: 1})
		}
		return list
	}
	var got []string
	for _, p := range pairs(m("a", "b", "c"), m("x", "b", "y", "z", "c", "w")) {
		got = append(got, p.name())
	}
	if s := strings.Join(got, ""); s != "xabyzcw" {
		t.Errorf("got %s", s)
	}
}

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{0: "0.000", 0.00012345: "0.0001234", 1.23456: "1.235", 12.3456: "12.35", 123.456: "123.5", 1234.56: "1,235", -12.3456: "-12.35"} {
		if got := number(v); got != want {
			t.Errorf("%v is %q, want %q", v, got, want)
		}
	}
}
