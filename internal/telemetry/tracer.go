package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// Tracer starts spans with attributes that all of them have. The zero value
// starts none.
type Tracer struct {
	tracer trace.Tracer // nil: no spans
	attrs  []attribute.KeyValue
}

// NewTracer returns a tracer of the given instrumentation scope. A nil provider
// gives the zero value: no global provider takes its place.
func NewTracer(p trace.TracerProvider, scope string, attrs ...attribute.KeyValue) Tracer {
	if p == nil {
		return Tracer{}
	}
	return Tracer{tracer: p.Tracer(scope), attrs: attrs}
}

// Start starts a span below the one in ctx. End it.
func (t Tracer) Start(ctx context.Context, name string, attrs ...attribute.KeyValue) (context.Context, Span) {
	if t.tracer == nil {
		return ctx, Span{}
	}
	ctx, s := t.tracer.Start(ctx, name, trace.WithAttributes(t.attrs...), trace.WithAttributes(attrs...))
	return ctx, Span{s}
}

// Span is a span, or none. The zero value is none, and all its methods do
// nothing.
type Span struct{ span trace.Span }

// On tells whether somebody gets to see the span, for attributes that cost
// something.
func (s Span) On() bool { return s.span != nil && s.span.IsRecording() }

// Set adds attributes.
func (s Span) Set(attrs ...attribute.KeyValue) {
	if s.span != nil {
		s.span.SetAttributes(attrs...)
	}
}

// End ends the span, with an error as its status if there is one.
func (s Span) End(err error) {
	if s.span == nil {
		return
	}
	if err != nil {
		s.span.RecordError(err)
		s.span.SetStatus(codes.Error, err.Error())
	}
	s.span.End()
}
