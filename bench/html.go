package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"time"
)

// The page of -html. Charts are drawn by uPlot 1.6.32 (github.com/leeoniya/uPlot,
// npm package uplot), MIT licence, embedded as it is published.
var (
	//go:embed html/page.html
	pageHTML string
	//go:embed html/page.css
	pageCSS string
	//go:embed html/page.js
	pageJS string
	//go:embed html/uPlot.iife.min.js
	uPlotJS string
	//go:embed html/uPlot.min.css
	uPlotCSS string
	//go:embed html/uPlot.LICENSE
	uPlotLicense string
)

// page is what the template gets.
type page struct {
	When            string
	Error           string
	Head            []headLine
	Tiles           []tile
	Figures         []measureText
	Options         []optionValue
	CSS             template.CSS
	Library, Script template.JS
	Data            chartData
}

type tile struct{ Value, What string }

type measureText struct{ Name, Value string }

type optionValue struct{ Name, Value string }

// chartData is what the script draws.
type chartData struct {
	Series   map[string][]float64 `json:"series"`
	Ack      *curves              `json:"ack"`   // milliseconds
	Read     *curves              `json:"read"`  // microseconds
	Query    *curves              `json:"query"` // microseconds
	InFlight int                  `json:"inflight"`
	Baseline float64              `json:"baseline"` // MB/s, 0 without
}

// curves are percentiles of several distributions. X is the number of nines:
// log10(1/(1-q)), so that 1 is 90 %, 2 is 99 %.
type curves struct {
	X     []float64      `json:"x"`
	Lines []namedPercent `json:"lines"`
}

type namedPercent struct {
	Name   string     `json:"name"`
	Values []*float64 `json:"values"` // nil beyond the last value
}

const (
	nineStep = 0.1
	maxNines = 6
)

// percentiles of named distributions, scaled from milliseconds. Each ends with its
// largest value; those without values are left out.
func percentiles(scale float64, names []string, of []*latencies) *curves {
	c := &curves{}
	points := 0
	for i, l := range of {
		n := l.count()
		if n == 0 {
			continue
		}
		// The last point is at or beyond the last value.
		last := int(math.Ceil(min(maxNines, math.Log10(float64(n))) / nineStep))
		line := namedPercent{Name: names[i]}
		for k := range last + 1 {
			q := 1 - math.Pow(10, -float64(k)*nineStep)
			v := l.quantile(q)
			if k == last {
				v = l.values().Max
			}
			v *= scale
			line.Values = append(line.Values, &v)
		}
		points = max(points, last+1)
		c.Lines = append(c.Lines, line)
	}
	if len(c.Lines) == 0 {
		return nil
	}
	for k := range points {
		c.X = append(c.X, math.Round(float64(k)*nineStep*1e6)/1e6)
	}
	for i := range c.Lines {
		for len(c.Lines[i].Values) < points {
			c.Lines[i].Values = append(c.Lines[i].Values, nil)
		}
	}
	return c
}

// writeHTML writes the page to out, which it closes.
func (b *bench) writeHTML(out io.WriteCloser, failure error, now time.Time) error {
	r := &b.report
	p := page{
		When: now.Format("2 January 2006, 15:04"), Head: b.head, Tiles: r.tiles(),
		CSS:     template.CSS(uPlotCSS + pageCSS),
		Library: template.JS("/*\n" + uPlotLicense + "*/\n" + uPlotJS),
		Script:  template.JS(pageJS),
		Data:    chartData{Series: map[string][]float64{}, Ack: b.ackCurves, Read: b.readCurves, Query: b.queryCurves, InFlight: b.c.InFlight, Baseline: r.BaselineMBPerS},
	}
	if failure != nil {
		p.Error = failure.Error()
	}
	for _, c := range columns(r.Samples) {
		p.Data.Series[c.name] = c.values
	}
	for _, m := range r.measures() {
		p.Figures = append(p.Figures, measureText{m.name, m.text()})
	}
	for _, name := range slices.Sorted(maps.Keys(r.Options)) {
		v := fmt.Sprint(r.Options[name])
		if n, ok := r.Options[name].(int64); ok {
			v = group(n)
		}
		p.Options = append(p.Options, optionValue{name, v})
	}
	t, err := template.New("page").Funcs(template.FuncMap{"data": dataJS}).Parse(pageHTML)
	if err == nil {
		err = t.Execute(out, p)
	}
	if cerr := out.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("write -html: %w", err)
	}
	return nil
}

// dataJS is d as a JavaScript value. json.Marshal leaves nothing in it that could
// end the script element.
func dataJS(d chartData) (template.JS, error) {
	data, err := json.Marshal(d)
	return template.JS(data), err
}

// tiles are the figures at the head of the page.
func (r *report) tiles() []tile {
	list := []tile{
		{short(r.RowsPerS), "rows/s"},
		{short(r.MBPerS), "MB/s written"},
		{millis(r.AckMS.P50), "ack latency, median"},
		{millis(r.AckMS.P99), "ack latency, p99"},
		{dollars(r.USDPerMonth), fmt.Sprintf("a month for %s PUTs/s", short(r.PutsPerS))},
		{short(per(float64(r.Rows), r.CPUS)), "rows per CPU second"},
	}
	if r.BaselineRatio > 0 {
		list = append(list, tile{fmt.Sprintf("%.3f", r.BaselineRatio), fmt.Sprintf("of bare puts, %s MB/s", short(r.BaselineMBPerS))})
	}
	if r.Read != nil && r.Read.Lookup.Count > 0 {
		list = append(list, tile{millis(r.Read.Lookup.P50 / 1e3), "lookup, median"})
	}
	if r.Query != nil {
		list = append(list, tile{short(r.Query.PerS), "queries/s"})
		for _, k := range r.Query.named() {
			if k.name == queryNames[queryRareTerm] {
				list = append(list, tile{millis(k.P50 / 1e3), "search for a rare word, median"})
			}
		}
	}
	return list
}

// short is v with three significant digits and a letter: 1.23M.
func short(v float64) string {
	for _, u := range []struct {
		factor float64
		letter string
	}{{1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if v >= u.factor*0.9995 {
			digits := 2 - int(math.Floor(math.Log10(v/u.factor*1.0005)))
			return fmt.Sprintf("%.*f%s", max(0, digits), v/u.factor, u.letter)
		}
	}
	return fmt.Sprintf("%.3g", v)
}

// createHTML opens what -html names before the run. Nil if there is none.
func createHTML(path string) (io.WriteCloser, error) {
	if path == "" {
		return nil, nil
	}
	f, err := os.Create(path)
	if err != nil {
		return nil, usagef("-html: %w", err)
	}
	return f, nil
}
