package telemetry

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Kind says how the values of a metric behave.
type Kind uint8

const (
	Counter       Kind = iota // begins at 0 and only grows
	UpDownCounter             // a level that can be summed over several sources
	Gauge                     // a level whose sum means nothing
)

func (k Kind) String() string {
	return [...]string{"counter", "up-down counter", "gauge"}[k]
}

// Metric is one observable instrument, read from a T.
type Metric[T any] struct {
	Name        string
	Kind        Kind
	Unit        string // in UCUM: By, s, {row}
	Description string
	// Values are its time series: one without attributes, or one for each value
	// of an attribute. All are integers or all are not.
	Values []Value[T]
}

// Value is one time series of a metric. Make it with Int, Float or Seconds.
type Value[T any] struct {
	Attributes []attribute.KeyValue
	integer    func(*T) int64
	float      func(*T) float64
}

// Int is a whole number. What does not fit in an int64 is shown as the largest.
func Int[T any, N ~int | ~int64 | ~uint64](read func(*T) N, attrs ...attribute.KeyValue) Value[T] {
	return Value[T]{Attributes: attrs, integer: func(t *T) int64 {
		n := read(t)
		if n > 0 && uint64(n) > math.MaxInt64 {
			return math.MaxInt64
		}
		return int64(n)
	}}
}

// Float is any number.
func Float[T any](read func(*T) float64, attrs ...attribute.KeyValue) Value[T] {
	return Value[T]{Attributes: attrs, float: read}
}

// Seconds is a duration, in the unit s.
func Seconds[T any](read func(*T) time.Duration, attrs ...attribute.KeyValue) Value[T] {
	return Float(func(t *T) float64 { return read(t).Seconds() }, attrs...)
}

// Of returns the present value.
func (v Value[T]) Of(t *T) float64 {
	if v.float != nil {
		return v.float(t)
	}
	return float64(v.integer(t))
}

// Register makes the instruments of metrics with meter. At each collection read
// is called once, from a goroutine of the collector, until unregister is
// called; attrs are added to every time series. unregister waits for a
// collection that runs. It keeps what read refers to reachable until then.
//
// If the meter refuses an instrument, nothing is registered.
func Register[T any](meter metric.Meter, metrics []Metric[T], read func() T, attrs ...attribute.KeyValue) (unregister func() error, err error) {
	var (
		instruments []metric.Observable
		observes    []func(metric.Observer, *T)
		errs        []error
	)
	for _, m := range metrics {
		o, observe, err := m.instrument(meter)
		if err != nil {
			errs = append(errs, fmt.Errorf("instrument %s: %w", m.Name, err))
			continue
		}
		instruments = append(instruments, o)
		for _, v := range m.Values {
			set := with(attrs, v.Attributes)
			observes = append(observes, func(obs metric.Observer, t *T) { observe(obs, v, t, set) })
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	reg, err := meter.RegisterCallback(func(_ context.Context, obs metric.Observer) error {
		t := read()
		for _, observe := range observes {
			observe(obs, &t)
		}
		return nil
	}, instruments...)
	if err != nil {
		return nil, fmt.Errorf("register the callback of the instruments: %w", err)
	}
	return reg.Unregister, nil
}

// instrument makes the instrument of m, and what observes one of its values.
func (m Metric[T]) instrument(meter metric.Meter) (metric.Observable, func(metric.Observer, Value[T], *T, metric.MeasurementOption), error) {
	if len(m.Values) > 0 && m.Values[0].float != nil {
		o, err := floatInstrument(meter, m.Kind, m.Name, m.Unit, m.Description)
		return o, func(obs metric.Observer, v Value[T], t *T, set metric.MeasurementOption) {
			obs.ObserveFloat64(o, v.float(t), set)
		}, err
	}
	o, err := intInstrument(meter, m.Kind, m.Name, m.Unit, m.Description)
	return o, func(obs metric.Observer, v Value[T], t *T, set metric.MeasurementOption) {
		obs.ObserveInt64(o, v.integer(t), set)
	}, err
}

// with makes the attribute set of a time series once, not at each collection.
func with(common, own []attribute.KeyValue) metric.MeasurementOption {
	all := append(common[:len(common):len(common)], own...)
	return metric.WithAttributeSet(attribute.NewSet(all...))
}

func intInstrument(meter metric.Meter, k Kind, name, unit, description string) (metric.Int64Observable, error) {
	u, d := metric.WithUnit(unit), metric.WithDescription(description)
	switch k {
	case Counter:
		return meter.Int64ObservableCounter(name, u, d)
	case UpDownCounter:
		return meter.Int64ObservableUpDownCounter(name, u, d)
	default:
		return meter.Int64ObservableGauge(name, u, d)
	}
}

func floatInstrument(meter metric.Meter, k Kind, name, unit, description string) (metric.Float64Observable, error) {
	u, d := metric.WithUnit(unit), metric.WithDescription(description)
	switch k {
	case Counter:
		return meter.Float64ObservableCounter(name, u, d)
	case UpDownCounter:
		return meter.Float64ObservableUpDownCounter(name, u, d)
	default:
		return meter.Float64ObservableGauge(name, u, d)
	}
}
