package main

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
)

// pageOf runs the program and returns the page and what its script draws.
func pageOf(t *testing.T, args ...string) (code int, html string, data chartData) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "page.html")
	var stdout, stderr strings.Builder
	code = command(t.Context(), append(args, "-html", path), &stdout, &stderr)
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v: %s", err, stderr.String())
	}
	html = string(raw)
	found := regexp.MustCompile(`(?s)<script>const data = (.*?);</script>`).FindStringSubmatch(html)
	if found == nil {
		t.Fatalf("no data in the page:\n%.2000s", html)
	}
	if err := json.Unmarshal([]byte(found[1]), &data); err != nil {
		t.Fatal(err)
	}
	return code, html, data
}

func TestBenchHTML(t *testing.T) {
	code, html, data := pageOf(t, strings.Fields("-store mem:// -rows 2000 -batch 50 -rate 5000 -read 1 -interval 5ms")...)
	if code != 0 {
		t.Fatalf("exit code %d", code)
	}
	for _, want := range []string{
		"<th>rows</th><td>2,000</td>", "<th>-interval</th><td>5ms</td>", "<dd>made-up rows of id and text</dd>", "primary key id, ordered index on text",
		"Copyright (c) 2022 Leon Sorokin", "var uPlot=function", "lookup, median", "default-src &#39;none&#39;", "prefers-color-scheme: dark",
	} {
		if !strings.Contains(strings.ReplaceAll(html, "'none'", "&#39;none&#39;"), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Contains(html, "ZgotmplZ") || strings.Contains(html, "The run failed") {
		t.Error("the page has what it should not")
	}
	if n := len(data.Series["t_s"]); n < 3 || len(data.Series["rss_bytes"]) != n || data.Series["rows"][n-1] != 2000 || data.InFlight != 4 || data.Baseline != 0 {
		t.Errorf("data is %+v", data)
	}
	if len(data.Ack.Lines) != 1 || len(data.Read.Lines) != 4 || len(data.Ack.Lines[0].Values) != len(data.Ack.X) {
		t.Errorf("curves are %+v, %+v", data.Ack, data.Read)
	}
}

// Queries and what indexes cost are on the page.
func TestHTMLQueries(t *testing.T) {
	code, html, data := pageOf(t, strings.Fields("-store mem:// -rows 2000 -batch 50 -words 5 -index pk,text -rate 5000 -query -interval 5ms")...)
	if code != 0 || data.Query == nil || len(data.Query.Lines) != 6 || data.Read != nil {
		t.Fatalf("exit code %d, curves %+v, %+v", code, data.Query, data.Read)
	}
	for _, want := range []string{
		"<dd>made-up rows of id and text (5 words)</dd>", "primary key id, text index on text (standard)", "queries/s", "search for a rare word, median",
		"<th>query, phrase p90</th>", "<th>text index on text (standard), a row</th>", "<th>primary key id, a row</th>", "<th>-query</th><td>1</td>",
	} {
		if !strings.Contains(html, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

// The page loads nothing: not from the network, nor from beside it.
func TestHTMLNeedsNothing(t *testing.T) {
	_, html, _ := pageOf(t, strings.Fields("-store mem:// -rows 10")...)
	for _, pattern := range []string{`\ssrc\s*=`, `(?i)@import`, `url\(`, `fetch\(`, `XMLHttpRequest`, `WebSocket`, `import\(`, `<link[^>]*href="[^d]`, `<(img|iframe|object|embed|video|audio)`} {
		if m := regexp.MustCompile(pattern).FindString(html); m != "" {
			t.Errorf("the page has %q", m)
		}
	}
}

// What comes from outside is text in the page, and a failure is shown.
func TestHTMLEscapes(t *testing.T) {
	key := writeArrowFile(t, fromJSON(t, arrow.NewSchema([]arrow.Field{{Name: "id", Type: arrow.PrimitiveTypes.Int64, Nullable: true}}, nil), `{"id":1}`, `{"id":null}`))
	dir := filepath.Join(t.TempDir(), "<b><", "script><b>") // a path has the slash of an end tag
	if err := os.MkdirAll(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	input := filepath.Join(dir, "in")
	if err := os.Rename(key, input); err != nil {
		t.Fatal(err)
	}
	code, html, _ := pageOf(t, "-store", "mem://", "-input", input)
	if code != 1 || strings.Contains(html, "<b><") || !strings.Contains(html, "&lt;b&gt;&lt;/script&gt;&lt;b&gt;/in") {
		t.Errorf("exit code %d; the path is not in the page as text", code)
	}
	if !strings.Contains(html, "The run failed.</strong> put ") || !strings.Contains(html, "null") {
		t.Error("the failure is not in the page")
	}
}

func TestHTMLPath(t *testing.T) {
	var stdout, stderr strings.Builder
	if code := command(t.Context(), strings.Fields("-store mem:// -rows 10 -html /nonexistent/file"), &stdout, &stderr); code != 2 || !strings.Contains(stderr.String(), "-html") {
		t.Errorf("exit code %d: %s", code, stderr.String())
	}
}

func TestPercentiles(t *testing.T) {
	if c := percentiles(1, []string{"none"}, []*latencies{{}}); c != nil {
		t.Errorf("of nothing: %+v", c)
	}
	var few, many latencies
	few.record(millisecond(1), millisecond(2), millisecond(3), millisecond(4), millisecond(5), millisecond(6), millisecond(7), millisecond(8), millisecond(9), millisecond(10))
	for i := range 1000 {
		many.record(millisecond(i + 1))
	}
	c := percentiles(10, []string{"few", "none", "many"}, []*latencies{&few, {}, &many})
	if len(c.Lines) != 2 || c.Lines[0].Name != "few" || c.Lines[1].Name != "many" {
		t.Fatalf("lines are %+v", c.Lines)
	}
	if len(c.X) != 31 || c.X[0] != 0 || c.X[30] != 3 {
		t.Errorf("x is %v", c.X)
	}
	near := func(v *float64, want float64) bool { return v != nil && math.Abs(*v-want) <= want/400 }
	f, m := c.Lines[0].Values, c.Lines[1].Values
	if len(f) != 31 || !near(f[10], 100) || f[11] != nil || f[30] != nil { // ends at 90 % with its largest value
		t.Errorf("few: %v, %v, %v", f[10], f[11], f[30])
	}
	if !near(m[0], 10) || !near(m[3], 5000) || !near(m[10], 9000) || !near(m[20], 9900) || !near(m[30], 10000) {
		t.Errorf("many: %v, %v, %v, %v, %v", *m[0], *m[3], *m[10], *m[20], *m[30])
	}
	for i := 1; i < len(m); i++ {
		if *m[i] < *m[i-1] {
			t.Errorf("many falls at %d", i)
		}
	}
}

func TestShort(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.123456: "0.123", 12.345: "12.3", 999.96: "1.00k", 1234: "1.23k", 12345: "12.3k", 999_900: "1.00M", 1.5e6: "1.50M", 123e9: "123G"} {
		if got := short(v); got != want {
			t.Errorf("%v is %q, want %q", v, got, want)
		}
	}
}

func TestTilesOfNothing(t *testing.T) {
	b := newBench(mustParse(t), nil, nil)
	for _, x := range b.report.tiles() {
		if strings.Contains(x.Value+x.What, "NaN") || strings.Contains(x.Value+x.What, "Inf") {
			t.Errorf("%+v", x)
		}
	}
	path := filepath.Join(t.TempDir(), "x")
	out, err := createHTML(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.writeHTML(out, nil, time.Now()); err != nil {
		t.Error(err)
	}
}
