package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"unicode/utf8"
)

// sameWithin is the change, as a part of the value, below which nothing is said to
// be better or worse: two runs of the same program differ by more.
const sameWithin = 0.005

// compare prints how the run reported in file b differs from that in file a.
func compare(out io.Writer, a, b string) error {
	fa, err := readReport(a)
	fb, errB := readReport(b)
	if err := errors.Join(err, errB); err != nil {
		return &usageError{err}
	}
	fmt.Fprintf(out, "A: %s\nB: %s\n", a, b)
	for _, r := range []struct {
		name string
		f    *figures
	}{{"A", fa}, {"B", fb}} {
		if r.f.Error != "" {
			fmt.Fprintf(out, "%s failed: %s\n", r.name, r.f.Error)
		}
	}
	fmt.Fprintln(out)
	rows := [][]string{{"figure", "A", "B", "change", ""}}
	for _, p := range pairs(fa.measures(), fb.measures()) {
		rows = append(rows, []string{p.name(), p.text(p.a), p.text(p.b), p.change(), p.verdict()})
	}
	printTable(out, rows)
	printOptions(out, fa.Options, fb.Options)
	return nil
}

// printTable aligns the columns, all but the first and the last to the right.
func printTable(out io.Writer, rows [][]string) {
	width := make([]int, len(rows[0]))
	for _, r := range rows {
		for i, cell := range r {
			width[i] = max(width[i], utf8.RuneCountInString(cell))
		}
	}
	for _, r := range rows {
		line := fmt.Sprintf("%-*s", width[0], r[0])
		for i := 1; i < len(r)-1; i++ {
			line += fmt.Sprintf("  %*s", width[i], r[i])
		}
		fmt.Fprintln(out, strings.TrimRight(line+"  "+r[len(r)-1], " "))
	}
}

// printOptions prints the options that differ.
func printOptions(out io.Writer, a, b map[string]any) {
	names := maps.Clone(a)
	maps.Copy(names, b)
	rows := [][]string{{"option", "A", "B"}}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		va, vb := optionText(a, name), optionText(b, name)
		if va != vb && !slices.Contains(ofTheReport, name) {
			rows = append(rows, []string{"-" + name, va, vb})
		}
	}
	fmt.Fprintln(out)
	if len(rows) == 1 {
		fmt.Fprintln(out, "all options are the same")
		return
	}
	printTable(out, rows)
}

// ofTheReport are options that say where figures go.
var ofTheReport = []string{"json", "html", "cpuprofile", "memprofile"}

func optionText(o map[string]any, name string) string {
	v, ok := o[name]
	if !ok {
		return "not known" // a flag of another version
	}
	if s, ok := v.(string); ok {
		return fmt.Sprintf("%q", s)
	}
	if n, ok := v.(float64); ok && n == math.Trunc(n) {
		return group(int64(n))
	}
	return fmt.Sprint(v)
}

// readReport reads what -json wrote.
func readReport(path string) (*figures, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("-compare: %w", err)
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(data, &members); err != nil {
		what := "it is no JSON object"
		if len(bytes.TrimSpace(data)) == 0 {
			what = "it is empty"
		}
		return nil, fmt.Errorf("-compare: %s is no report of bench: %s (%w); -json writes one", path, what, err)
	}
	for _, name := range []string{"rows", "seconds", "ack_ms", "options"} {
		if _, ok := members[name]; !ok {
			return nil, fmt.Errorf("-compare: %s is no report of bench: it has no member %q; -json writes one", path, name)
		}
	}
	f := &figures{}
	if err := json.Unmarshal(data, f); err != nil {
		return nil, fmt.Errorf("-compare: %s is no report of bench: %w", path, err)
	}
	return f, nil
}

// pair is one figure of two runs; nil where a run lacks it.
type pair struct{ a, b *measure }

// pairs joins two lists by name and unit, in the order of the first, and puts what only
// the second has where it stands there.
func pairs(a, b []measure) []pair {
	var list []pair
	for i := range a {
		p := pair{a: &a[i]}
		if j := slices.IndexFunc(b, a[i].is); j >= 0 {
			p.b = &b[j]
		}
		list = append(list, p)
	}
	at := 0
	for j := range b {
		if k := slices.IndexFunc(list, func(p pair) bool { return p.any().is(b[j]) }); k >= 0 {
			at = k + 1
			continue
		}
		list = slices.Insert(list, at, pair{b: &b[j]})
		at++
	}
	return list
}

func (p pair) any() *measure {
	if p.a != nil {
		return p.a
	}
	return p.b
}

func (p pair) name() string { return p.any().name }

func (p pair) text(m *measure) string {
	if m == nil {
		return "-"
	}
	return m.text()
}

// grown is by how much of A's value B's is larger. Both are there, and measures
// lists none that is 0.
func (p pair) grown() float64 { return p.b.value/p.a.value - 1 }

// change is that from A to B in percent.
func (p pair) change() string {
	if p.a == nil || p.b == nil {
		return ""
	}
	percent := math.Round(p.grown()*1000) / 10
	if percent == 0 {
		return "0.0 %" // neither +0 nor -0
	}
	return fmt.Sprintf("%+.1f %%", percent)
}

func (p pair) verdict() string {
	if p.a == nil || p.b == nil || p.a.better == 0 {
		return ""
	}
	switch change := p.grown() * float64(p.a.better); {
	case math.Abs(change) < sameWithin:
		return "same"
	case change > 0:
		return "better"
	default:
		return "worse"
	}
}
