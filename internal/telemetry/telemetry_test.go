package telemetry

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/metric/metricdata/metricdatatest"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

type figures struct {
	done  uint64
	level int
	took  time.Duration
	red   uint64
}

var figureMetrics = []Metric[figures]{
	{Name: "t.done", Kind: Counter, Unit: "{job}", Description: "Jobs.", Values: []Value[figures]{
		Int(func(f *figures) uint64 { return f.done }),
		Int(func(f *figures) uint64 { return f.red }, attribute.String("colour", "red")),
	}},
	{Name: "t.level", Kind: UpDownCounter, Unit: "By", Values: []Value[figures]{Int(func(f *figures) int { return f.level })}},
	{Name: "t.took", Kind: Gauge, Unit: "s", Values: []Value[figures]{Seconds(func(f *figures) time.Duration { return f.took })}},
}

func collect(t *testing.T, r sdkmetric.Reader) []metricdata.Metrics {
	t.Helper()
	var got metricdata.ResourceMetrics
	if err := r.Collect(t.Context(), &got); err != nil {
		t.Fatal(err)
	}
	var all []metricdata.Metrics
	for _, s := range got.ScopeMetrics {
		all = append(all, s.Metrics...)
	}
	return all
}

func TestRegister(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	meter := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)).Meter("test")
	shard := attribute.String("shard", "s")
	reads := 0
	unregister, err := Register(meter, figureMetrics, func() figures {
		reads++
		return figures{done: math.MaxUint64, level: -3, took: 1500 * time.Millisecond, red: uint64(reads)}
	}, shard)
	if err != nil {
		t.Fatal(err)
	}
	collect(t, reader)
	got := collect(t, reader)
	if reads != 2 {
		t.Errorf("the figures were read %d times in two collections", reads)
	}
	set := func(kv ...attribute.KeyValue) attribute.Set { return attribute.NewSet(append(kv, shard)...) }
	want := []metricdata.Metrics{
		{Name: "t.done", Unit: "{job}", Description: "Jobs.", Data: metricdata.Sum[int64]{
			Temporality: metricdata.CumulativeTemporality, IsMonotonic: true,
			DataPoints: []metricdata.DataPoint[int64]{
				{Attributes: set(), Value: math.MaxInt64},
				{Attributes: set(attribute.String("colour", "red")), Value: 2},
			},
		}},
		{Name: "t.level", Unit: "By", Data: metricdata.Sum[int64]{
			Temporality: metricdata.CumulativeTemporality,
			DataPoints:  []metricdata.DataPoint[int64]{{Attributes: set(), Value: -3}},
		}},
		{Name: "t.took", Unit: "s", Data: metricdata.Gauge[float64]{
			DataPoints: []metricdata.DataPoint[float64]{{Attributes: set(), Value: 1.5}},
		}},
	}
	if len(got) != len(want) {
		t.Fatalf("%d metrics, want %d", len(got), len(want))
	}
	for i := range want {
		metricdatatest.AssertEqual(t, want[i], got[i], metricdatatest.IgnoreTimestamp())
	}
	if err := unregister(); err != nil {
		t.Fatal(err)
	}
	if got := collect(t, reader); reads != 2 || len(got) > 0 {
		t.Errorf("after it was unregistered: %d reads, %v", reads, got)
	}
}

// refusing refuses some instruments.
type refusing struct {
	noop.Meter
	t *testing.T
}

var errRefused = errors.New("refused")

func (refusing) Int64ObservableCounter(string, ...metric.Int64ObservableCounterOption) (metric.Int64ObservableCounter, error) {
	return nil, errRefused
}

func (refusing) Float64ObservableGauge(string, ...metric.Float64ObservableGaugeOption) (metric.Float64ObservableGauge, error) {
	return nil, errRefused
}

func (m refusing) RegisterCallback(metric.Callback, ...metric.Observable) (metric.Registration, error) {
	m.t.Error("a callback was registered")
	return nil, nil
}

func TestRegisterSaysWhatWasRefused(t *testing.T) {
	_, err := Register(refusing{t: t}, figureMetrics, func() figures { return figures{} })
	if !errors.Is(err, errRefused) || !strings.Contains(err.Error(), "t.done") || !strings.Contains(err.Error(), "t.took") || strings.Contains(err.Error(), "t.level") {
		t.Errorf("the error is %v", err)
	}
}

func TestTracer(t *testing.T) {
	var none Tracer
	if ctx, span := none.Start(t.Context(), "x"); ctx != t.Context() || span.On() {
		t.Error("without a provider there is a span")
	} else {
		span.Set(attribute.Int("n", 1))
		span.End(errRefused)
	}

	ended := tracetest.NewSpanRecorder()
	tracer := NewTracer(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(ended)), "test", attribute.String("shard", "s"))
	outer, span := tracer.Start(context.Background(), "outer")
	_, inner := tracer.Start(outer, "inner", attribute.Int("n", 1))
	if !span.On() {
		t.Error("the span is not on")
	}
	inner.Set(attribute.Int("m", 2))
	inner.End(errRefused)
	span.End(nil)
	got := ended.Ended()
	if len(got) != 2 || got[0].Name() != "inner" || got[0].Parent().SpanID() != got[1].SpanContext().SpanID() {
		t.Fatalf("spans: %v", got)
	}
	if s := got[0].Status(); s.Code != codes.Error || s.Description != "refused" || len(got[0].Events()) != 1 {
		t.Errorf("status %v, events %v", s, got[0].Events())
	}
	if s := got[1].Status(); s.Code != codes.Unset {
		t.Errorf("status %v of a span without an error", s)
	}
	want := []attribute.KeyValue{attribute.String("shard", "s"), attribute.Int("n", 1), attribute.Int("m", 2)}
	if attrs := got[0].Attributes(); !slices.Equal(attrs, want) {
		t.Errorf("attributes %v, want %v", attrs, want)
	}
}
