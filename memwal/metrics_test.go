package memwal

import (
	"context"
	"maps"
	"os"
	"reflect"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/memwal/memwal-go/internal/telemetry"
	"github.com/memwal/memwal-go/objstore"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// figures calls do with each field of v, at any depth, that is no struct.
func figures(v reflect.Value, path string, do func(path string, leaf reflect.Value)) {
	if v.Kind() != reflect.Struct {
		do(path, v)
		return
	}
	for i := range v.NumField() {
		figures(v.Field(i), path+"."+v.Type().Field(i).Name, do)
	}
}

// setLeaf gives a number field the value n.
func setLeaf(t *testing.T, path string, v reflect.Value, n int64) {
	t.Helper()
	switch {
	case v.CanInt():
		v.SetInt(n)
	case v.CanUint():
		v.SetUint(uint64(n))
	case v.CanFloat():
		v.SetFloat(float64(n))
	default:
		t.Errorf("%s is a %v: say in setLeaf how it is exported", path, v.Type())
	}
}

// checkEveryFigure checks that each field of T, at any depth, is the value of
// one time series, and that nothing else is.
func checkEveryFigure[T any](t *testing.T, metrics []telemetry.Metric[T]) {
	t.Helper()
	var s T
	shown := map[string]string{}
	figures(reflect.ValueOf(&s).Elem(), "Stats", func(path string, leaf reflect.Value) {
		const n = int64(90 * time.Second)
		setLeaf(t, path, leaf, n)
		defer leaf.SetZero()
		found := 0
		for _, m := range metrics {
			for _, v := range m.Values {
				set := attribute.NewSet(v.Attributes...)
				series := m.Name + "{" + set.Encoded(attribute.DefaultEncoder()) + "}"
				got := v.Of(&s)
				if got == 0 {
					continue
				}
				found++
				want := float64(n)
				if leaf.Type() == reflect.TypeFor[time.Duration]() {
					want = 90
					if m.Unit != "s" {
						t.Errorf("%s: the unit of %s is %s", path, series, m.Unit)
					}
				}
				if got != want {
					t.Errorf("%s: %s is %v, want %v", path, series, got, want)
				}
				if other := shown[series]; other != "" {
					t.Errorf("%s shows both %s and %s", series, other, path)
				}
				shown[series] = path
			}
		}
		if found != 1 {
			t.Errorf("%s is shown by %d time series, want 1: add it to the list of metrics and to docs/operations.md", path, found)
		}
	})
	all := 0
	for _, m := range metrics {
		all += len(m.Values)
	}
	if all != len(shown) {
		t.Errorf("%d time series for %d figures", all, len(shown))
	}
}

func TestMetricsShowEveryFigureOfStats(t *testing.T) {
	checkEveryFigure(t, statsMetrics)
}

func TestMetricsShowEveryFigureOfReaderStats(t *testing.T) {
	checkEveryFigure(t, readerMetrics)
}

// docTable returns the rows of the table in docs/operations.md whose header
// begins with the given cells.
func docTable(t *testing.T, header string) [][]string {
	t.Helper()
	doc, err := os.ReadFile("../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, ok := strings.Cut(string(doc), "\n"+header)
	if !ok {
		t.Fatalf("docs/operations.md has no table %q", header)
	}
	var rows [][]string
	for i, line := range strings.Split(table, "\n") {
		if i < 2 {
			continue // the rest of the header, and its underline
		}
		if !strings.HasPrefix(line, "|") {
			break
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		rows = append(rows, cells)
	}
	return rows
}

func TestMetricsAreDocumented(t *testing.T) {
	type row struct{ kind, unit string }
	documented, attrs := map[string]row{}, map[string]string{}
	for _, cells := range docTable(t, "| name | kind | unit |") {
		name := strings.Trim(cells[0], "`")
		documented[name] = row{cells[1], strings.Trim(cells[2], "`")}
		attrs[name] = cells[3]
	}
	made := map[string]row{
		"memwal.wal.append.duration": {"histogram", "s"}, "memwal.wal.entry.size": {"histogram", "By"},
	}
	check := func(name, unit, description string, kind telemetry.Kind, values int) {
		made[name] = row{kind.String(), unit}
		if values > 1 && attrs[name] == "" {
			t.Errorf("the attributes of %s are not documented", name)
		}
		if !regexp.MustCompile(`^memwal(\.[a-z_]+)+$`).MatchString(name) || !regexp.MustCompile(`^(By|s|\{[a-z]+\}|\{USD\})$`).MatchString(unit) || description == "" {
			t.Errorf("%s: unit %q, description %q", name, unit, description)
		}
	}
	for _, m := range statsMetrics {
		check(m.Name, m.Unit, m.Description, m.Kind, len(m.Values))
	}
	for _, m := range readerMetrics {
		check(m.Name, m.Unit, m.Description, m.Kind, len(m.Values))
	}
	if !maps.Equal(documented, made) {
		t.Errorf("documented are\n%v,\nmade are\n%v", documented, made)
	}
}

// series is what a reader collects: the values by name and attributes, without
// the shard, which must be there.
func series(t testing.TB, r sdkmetric.Reader) map[string]float64 {
	t.Helper()
	var rm metricdata.ResourceMetrics
	if err := r.Collect(context.Background(), &rm); err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	add := func(name string, set attribute.Set, v float64) {
		rest, _ := set.Filter(func(kv attribute.KeyValue) bool { return kv.Key != attrShard })
		if shard, _ := set.Value(attrShard); shard.AsString() != testShard.String() {
			t.Errorf("%s has the shard %q", name, shard.AsString())
		}
		if rest.Len() > 0 {
			name += "{" + rest.Encoded(attribute.DefaultEncoder()) + "}"
		}
		all[name] = v
	}
	for _, s := range rm.ScopeMetrics {
		if s.Scope.Name != scope {
			t.Errorf("scope %q", s.Scope.Name)
		}
		for _, m := range s.Metrics {
			switch d := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range d.DataPoints {
					add(m.Name, p.Attributes, float64(p.Value))
				}
			case metricdata.Gauge[int64]:
				for _, p := range d.DataPoints {
					add(m.Name, p.Attributes, float64(p.Value))
				}
			case metricdata.Sum[float64]:
				for _, p := range d.DataPoints {
					add(m.Name, p.Attributes, p.Value)
				}
			case metricdata.Gauge[float64]:
				for _, p := range d.DataPoints {
					add(m.Name, p.Attributes, p.Value)
				}
			case metricdata.Histogram[int64]:
				for _, p := range d.DataPoints {
					add(m.Name+".count", p.Attributes, float64(p.Count))
					add(m.Name+".sum", p.Attributes, float64(p.Sum))
				}
			case metricdata.Histogram[float64]:
				for _, p := range d.DataPoints {
					add(m.Name+".count", p.Attributes, float64(p.Count))
					add(m.Name+".sum", p.Attributes, p.Sum)
				}
			default:
				t.Errorf("%s is a %T", m.Name, d)
			}
		}
	}
	return all
}

// observed is what of got comes from the callback.
func observed(got map[string]float64) []string {
	var names []string
	for name := range got {
		if !strings.HasPrefix(name, "memwal.wal.append.duration") && !strings.HasPrefix(name, "memwal.wal.entry.size") {
			names = append(names, name)
		}
	}
	return names
}

func meterProvider() (*sdkmetric.MeterProvider, sdkmetric.Reader) {
	r := sdkmetric.NewManualReader()
	return sdkmetric.NewMeterProvider(sdkmetric.WithReader(r)), r
}

func TestMetricsOfAWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newTestStore()
		w := mustOpen(t, store, keyedOptions())
		mustPut(t, w, seq(t, 0, 7))
		mustClose(t, w)

		provider, reader := meterProvider()
		o := keyedOptions()
		o.MeterProvider = provider
		o.FlushBytes = 200
		w = mustOpen(t, store, o)
		store.on(objstore.OpPutIfAbsent, walPart, 1, delay(2*time.Second))
		mustPut(t, w, seq(t, 7, 3)) // after a pause: by time
		mustPut(t, w, seq(t, 10, 100))
		mustPutAsync(t, w, seq(t, 110, 1))
		if err := w.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		sn := mustSnapshot(t, w.Snapshot)
		defer sn.Close()

		s, got := w.Stats(), series(t, reader)
		for name, want := range map[string]float64{
			"memwal.epoch": 2, "memwal.rows.accepted": 111, "memwal.rows.indexed": 111, "memwal.rows.durable": 111, "memwal.rows.visible": 111,
			"memwal.log.length": 6, "memwal.log.size": float64(s.WALBytes),
			"memwal.open.replay.entries": 1, "memwal.open.replay.fences": 1, "memwal.open.replay.dead": 0, "memwal.open.replay.rows": 7,
			"memwal.wal.appends{memwal.append.reason=time}":   float64(s.WAL.StartedByTime),
			"memwal.wal.appends{memwal.append.reason=size}":   float64(s.WAL.StartedBySize),
			"memwal.wal.appends{memwal.append.reason=demand}": float64(s.WAL.StartedByDemand),
			"memwal.wal.entries":                              3, "memwal.wal.rows": 104, "memwal.wal.written": float64(s.WAL.Bytes),
			"memwal.wal.append.time": 2, "memwal.wal.position": 6, "memwal.wal.in_flight": 0,
			"memwal.store.requests{objstore.operation=put-if-absent}": float64(s.Requests.PutIfAbsent.Requests),
			"memwal.store.errors{objstore.operation=put-if-absent}":   float64(s.Requests.PutIfAbsent.Errors),
			"memwal.store.read": float64(s.Requests.BytesRead), "memwal.store.written": float64(s.Requests.BytesWritten),
			"memwal.memtable.generation": 1, "memwal.memtable.count": 1, "memwal.snapshots": 1,
			"memwal.memory.resident": float64(s.ResidentBytes), "memwal.memory.index": float64(s.IndexBytes),
			"memwal.wal.append.duration.count{memwal.append.outcome=landed,memwal.append.reason=time}": 1,
			"memwal.wal.append.duration.sum{memwal.append.outcome=landed,memwal.append.reason=time}":   2,
			"memwal.wal.entry.size.count{memwal.append.outcome=landed,memwal.append.reason=demand}":    1,
		} {
			if v, ok := got[name]; !ok || v != want {
				t.Errorf("%s is %v (exported: %v), want %v", name, v, ok, want)
			}
		}
		if s.WAL.StartedByTime != 1 || s.WAL.StartedBySize != 1 || s.WAL.StartedByDemand != 1 {
			t.Errorf("appends: %+v", s.WAL)
		}
		sizes := 0.0
		for name, v := range got {
			if strings.HasPrefix(name, "memwal.wal.entry.size.sum") {
				sizes += v
			}
		}
		if sizes != float64(s.WAL.Bytes) {
			t.Errorf("sizes of entries sum up to %v, the flusher has %d bytes", sizes, s.WAL.Bytes)
		}
		values := 0
		for _, m := range statsMetrics {
			values += len(m.Values)
		}
		if n := len(observed(got)); n != values {
			t.Errorf("%d time series are exported, the list has %d", n, values)
		}
	})
}

// TestMetricsOfFailedAppends: each put of an entry is counted by how it ended.
func TestMetricsOfFailedAppends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newTestStore()
		provider, reader := meterProvider()
		o := &Options{MeterProvider: provider}
		w := mustOpen(t, store, o)
		denied := &objstore.Error{Class: objstore.ErrPermission}
		store.on(objstore.OpPutIfAbsent, walPart, 1, failBefore(denied))
		if err := w.Put(t.Context(), seq(t, 0, 1)); err == nil {
			t.Fatal("the put succeeded")
		}
		got := series(t, reader)
		if got["memwal.wal.append.duration.count{memwal.append.outcome=failed,memwal.append.reason=time}"] != 1 {
			t.Errorf("no failed append in %v", got)
		}
		if len(observed(got)) == 0 {
			t.Error("a writer that has failed does not show its figures")
		}
	})
}

func TestMetricsEndWithTheWriter(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, w *Writer){
		"close": func(t *testing.T, w *Writer) { mustClose(t, w) },
		"abort": func(t *testing.T, w *Writer) { _ = w.Abort() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				provider, reader := meterProvider()
				w := mustOpen(t, newTestStore(), &Options{MeterProvider: provider})
				mustPut(t, w, seq(t, 0, 1))
				if len(observed(series(t, reader))) == 0 {
					t.Fatal("nothing is exported")
				}
				end(t, w)
				if left := observed(series(t, reader)); len(left) > 0 {
					t.Errorf("still exported: %v", left)
				}
			})
		})
	}
	t.Run("dropped", func(t *testing.T) {
		provider, reader := meterProvider()
		func() {
			if _, err := Open(t.Context(), newTestStore(), testShard, testSchema, &Options{MeterProvider: provider}); err != nil {
				t.Fatal(err)
			}
		}()
		if len(observed(series(t, reader))) == 0 {
			t.Fatal("nothing is exported")
		}
		for deadline := time.Now().Add(20 * time.Second); len(observed(series(t, reader))) > 0; {
			if time.Now().After(deadline) {
				t.Fatal("the instruments keep a dropped writer alive")
			}
			runtime.GC()
			time.Sleep(time.Millisecond)
		}
	})
}

// TestNoGlobalProviderIsUsed: a program that has set one for its own spans does
// not get ours.
func TestNoGlobalProviderIsUsed(t *testing.T) {
	provider, reader := meterProvider()
	meters, tracers := otel.GetMeterProvider(), otel.GetTracerProvider()
	defer func() { otel.SetMeterProvider(meters); otel.SetTracerProvider(tracers) }()
	spans := newSpans()
	otel.SetMeterProvider(provider)
	otel.SetTracerProvider(spans.provider)
	w := mustOpen(t, newTestStore(), nil)
	mustPut(t, w, seq(t, 0, 1))
	if got := series(t, reader); len(got) > 0 {
		t.Errorf("exported: %v", got)
	}
	mustClose(t, w)
	if got := spans.ended(); len(got) > 0 {
		t.Errorf("spans: %v", got)
	}
}

// TestPutPaysNothingForTelemetry: metrics and spans are made per append and per
// collection. Without an append in the run, a put allocates what it always did.
func TestPutPaysNothingForTelemetry(t *testing.T) {
	provider, _ := meterProvider()
	run := func(meters metric.MeterProvider, tracers *sdktrace.TracerProvider) func() float64 {
		o := &Options{
			FlushInterval: -1, FlushBytes: 64 << 20, Visibility: VisibleIndexed, MeterProvider: meters,
			MaxMemtableBytes: 1 << 40, MaxResidentBytes: 1 << 40, MaxMemtableRows: 1 << 31, MaxMemtableBatches: 1 << 30,
		}
		if tracers != nil {
			o.TracerProvider = tracers
		}
		w := mustOpen(t, objstore.NewMemory(), o)
		rec := seq(t, 0, 1)
		return func() float64 {
			n := testing.AllocsPerRun(1000, func() { mustPut(t, w, rec) })
			if n := w.Stats().WAL; n.StartedBySize+n.StartedByDemand+n.StartedByTime > 0 {
				t.Fatal("the run has an append in it")
			}
			return n
		}
	}
	// A put that finds its row indexed already makes one allocation less, which is
	// for the scheduler to decide: the least of many runs counts, taken in turns.
	without, with := run(nil, nil), run(provider, newSpans().provider)
	none, all := without(), with()
	for i := 0; i < 4 || i < 40 && all != none; i++ {
		none, all = min(none, without()), min(all, with())
	}
	// Seven before there was any telemetry: the slice, the ticket and its wait.
	if none > 7 || all != none {
		t.Errorf("a put makes %v allocations without telemetry and %v with it, want 7", none, all)
	}
}
