package memwal

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/memwal/memwal-go/internal/wal"
	"github.com/memwal/memwal-go/objstore"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

// spans records spans.
type spans struct {
	provider *sdktrace.TracerProvider
	recorder *tracetest.SpanRecorder
}

func newSpans() *spans {
	r := tracetest.NewSpanRecorder()
	return &spans{sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(r)), r}
}

func (s *spans) ended() []sdktrace.ReadOnlySpan { return s.recorder.Ended() }

// named lists those of a name, in the order in which they ended.
func (s *spans) named(name string) []sdktrace.ReadOnlySpan {
	return slices.DeleteFunc(s.ended(), func(sp sdktrace.ReadOnlySpan) bool { return sp.Name() != name })
}

// only returns the one span of a name.
func (s *spans) only(t *testing.T, name string) sdktrace.ReadOnlySpan {
	t.Helper()
	got := s.named(name)
	if len(got) != 1 {
		t.Fatalf("%d spans %s, want 1", len(got), name)
	}
	return got[0]
}

// parentOf returns the span above s, or nil.
func (s *spans) parentOf(sp sdktrace.ReadOnlySpan) sdktrace.ReadOnlySpan {
	for _, p := range s.ended() {
		if p.SpanContext().SpanID() == sp.Parent().SpanID() {
			return p
		}
	}
	return nil
}

// checkSpan checks the name of the parent ("": a root), and attributes.
func (s *spans) check(t *testing.T, sp sdktrace.ReadOnlySpan, parent string, want ...attribute.KeyValue) {
	t.Helper()
	switch p := s.parentOf(sp); {
	case parent == "" && sp.Parent().IsValid():
		t.Errorf("%s has a parent", sp.Name())
	case parent != "" && (p == nil || p.Name() != parent):
		t.Errorf("%s lies below %v, want %s", sp.Name(), p, parent)
	}
	got := attribute.NewSet(sp.Attributes()...)
	for _, kv := range append(want, attrShard.String(testShard.String())) {
		if v, ok := got.Value(kv.Key); !ok || v != kv.Value {
			t.Errorf("%s: %s is %v, want %v", sp.Name(), kv.Key, v.Emit(), kv.Value.Emit())
		}
	}
}

// tracedStore is a store with instrumentation of its own.
type tracedStore struct {
	*testStore
	spans *spans
}

func (s tracedStore) PutIfAbsent(ctx context.Context, key string, body objstore.Body) (objstore.PutResult, error) {
	ctx, span := s.spans.provider.Tracer("store").Start(ctx, "PUT "+key)
	defer span.End()
	return s.testStore.PutIfAbsent(ctx, key, body)
}

func (s tracedStore) Get(ctx context.Context, key string) ([]byte, error) {
	ctx, span := s.spans.provider.Tracer("store").Start(ctx, "GET "+key)
	defer span.End()
	return s.testStore.Get(ctx, key)
}

func TestSpans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spans := newSpans()
		store := tracedStore{newTestStore(), spans}
		w := mustOpen(t, store, keyedOptions())
		mustPut(t, w, seq(t, 0, 7))
		mustClose(t, w)
		spans.recorder.Reset()

		o := keyedOptions()
		o.TracerProvider = spans.provider
		caller, span := spans.provider.Tracer("caller").Start(t.Context(), "caller")
		w, err := Open(caller, store, testShard, testSchema, o)
		if err != nil {
			t.Fatal(err)
		}
		spans.check(t, spans.only(t, "memwal.claim"), "memwal.open")
		spans.check(t, spans.only(t, "memwal.replay"), "memwal.open", attrEntries.Int64(2), attrRows.Int64(7))
		spans.check(t, spans.only(t, "memwal.fence"), "memwal.replay")
		dirs := layoutOf(testShard)
		if p := spans.parentOf(spans.only(t, "PUT "+dirs.wal+wal.Name(3))); p == nil || p.Name() != "memwal.fence" {
			t.Errorf("the put of the fence lies below %v", p)
		}
		// What is fetched ahead has begun before the claim.
		fetched := spans.named("GET " + dirs.wal + wal.Name(2))
		if len(fetched) != 1 || spans.parentOf(fetched[0]) == nil || spans.parentOf(fetched[0]).Name() != "memwal.open" {
			t.Errorf("the entry was fetched by %v, want once, below memwal.open", fetched)
		}

		// The first two attempts fail.
		store.on(objstore.OpPutIfAbsent, walPart, 2, failBefore(errTransient))
		if _, err := w.PutAsync(caller, seq(t, 7, 2)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := w.Flush(caller); err != nil {
			t.Fatal(err)
		}
		span.End()
		spans.check(t, spans.only(t, "memwal.open"), "caller")
		spans.check(t, spans.only(t, "memwal.flush"), "caller", attrEpoch.Int64(2), attrRows.Int64(2))
		synctest.Wait()
		appended := spans.only(t, "memwal.append")
		spans.check(t, appended, "", attrEpoch.Int64(2), attrPosition.Int64(4), attrRows.Int64(2),
			attrBytes.Int64(int64(w.Stats().WAL.Bytes)), attrReason.String("time"), attrOutcome.String("landed"), attrAttempts.Int64(3))
		if n := len(appended.Events()); n != 2 || appended.Events()[0].Name != "retry" {
			t.Errorf("events of the append: %v", appended.Events())
		}
		if appended.Status().Code != codes.Unset {
			t.Errorf("status %v", appended.Status())
		}
		puts := spans.named("PUT " + dirs.wal + wal.Name(4))
		if len(puts) != 3 {
			t.Errorf("%d puts", len(puts))
		}
		for _, p := range puts {
			if up := spans.parentOf(p); up == nil || up.Name() != "memwal.append" {
				t.Errorf("%s lies below %v", p.Name(), up)
			}
		}

		spans.recorder.Reset()
		closing, span := spans.provider.Tracer("caller").Start(t.Context(), "closing")
		mustPutAsync(t, w, seq(t, 9, 1))
		if err := w.Close(closing); err != nil {
			t.Fatal(err)
		}
		span.End()
		spans.check(t, spans.only(t, "memwal.flush"), "closing")
		spans.check(t, spans.only(t, "memwal.append"), "", attrReason.String("demand"))
	})
}

// TestSpansOfFailures: the status is that of the call.
func TestSpansOfFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spans := newSpans()
		store := newTestStore()
		o := &Options{TracerProvider: spans.provider}
		w := mustOpen(t, store, o)
		denied := &objstore.Error{Class: objstore.ErrPermission, Err: errors.New("not for you")}
		store.on(objstore.OpPutIfAbsent, walPart, 1, failBefore(denied))
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		mustPutAsync(t, w, seq(t, 0, 1))
		if err := w.Flush(ctx); !errors.Is(err, ErrPersistence) {
			t.Fatalf("flush: %v", err)
		}
		synctest.Wait()
		spans.check(t, spans.only(t, "memwal.append"), "", attrOutcome.String("failed"), attrAttempts.Int64(1))
		store.on(objstore.OpPutIfAbsent, "/manifest/", always, failBefore(denied))
		if _, err := Open(t.Context(), store, testShard, testSchema, o); err == nil {
			t.Fatal("open succeeded")
		}
		opens := spans.named("memwal.open")
		claims := spans.named("memwal.claim")
		for _, sp := range []sdktrace.ReadOnlySpan{
			spans.only(t, "memwal.append"), spans.only(t, "memwal.flush"), opens[len(opens)-1], claims[len(claims)-1],
		} {
			if sp.Status().Code != codes.Error || len(sp.Events()) == 0 {
				t.Errorf("%s: status %v, events %v", sp.Name(), sp.Status(), sp.Events())
			}
		}
	})
}

func TestSpansOfSealing(t *testing.T) {
	spans := newSpans()
	store := newTestStore()
	mustClose(t, mustOpen(t, store, nil))
	if err := SealShard(t.Context(), store, testShard, &Options{TracerProvider: spans.provider}); err != nil {
		t.Fatal(err)
	}
	spans.check(t, spans.only(t, "memwal.seal"), "", attribute.String("memwal.status", "sealed"))
	spans.check(t, spans.only(t, "memwal.claim"), "memwal.seal")
	spans.check(t, spans.only(t, "memwal.replay"), "memwal.seal")
	spans.check(t, spans.only(t, "memwal.fence"), "memwal.replay")
}
