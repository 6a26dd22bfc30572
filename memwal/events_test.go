package memwal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/memwal/memwal-go/index"
	"github.com/memwal/memwal-go/internal/wal"
	"github.com/memwal/memwal-go/objstore"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
)

// event is one line of the log.
type event struct {
	level slog.Level
	text  string
	attrs map[string]any // without the shard
}

// recorder is a slog.Handler that keeps everything.
type recorder struct {
	kept *kept
	with []slog.Attr
}

type kept struct {
	sync.Mutex
	events []event
}

func newRecorder() *recorder { return &recorder{kept: new(kept)} }

func (r *recorder) Enabled(context.Context, slog.Level) bool { return true }
func (r *recorder) WithGroup(string) slog.Handler            { panic("no event has groups") }
func (r *recorder) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &recorder{r.kept, append(r.with[:len(r.with):len(r.with)], attrs...)}
}

func (r *recorder) Handle(_ context.Context, rec slog.Record) error {
	e := event{rec.Level, rec.Message, map[string]any{}}
	add := func(a slog.Attr) bool {
		if _, twice := e.attrs[a.Key]; twice {
			panic(fmt.Sprintf("the key %s is twice in %q", a.Key, rec.Message))
		}
		e.attrs[a.Key] = a.Value.Any()
		return true
	}
	for _, a := range r.with {
		add(a)
	}
	rec.Attrs(add)
	if e.attrs["shard"] != testShard.String() {
		panic(fmt.Sprintf("%q has the shard %v", rec.Message, e.attrs["shard"]))
	}
	delete(e.attrs, "shard")
	r.kept.Lock()
	defer r.kept.Unlock()
	r.kept.events = append(r.kept.events, e)
	return nil
}

// all returns what was logged so far.
func (r *recorder) all() []event {
	r.kept.Lock()
	defer r.kept.Unlock()
	return slices.Clone(r.kept.events)
}

// named returns the events with a text.
func (r *recorder) named(text string) []event {
	return slices.DeleteFunc(r.all(), func(e event) bool { return e.text != text })
}

// attrs are the values that an event must have; others are not looked at.
type attrs map[string]any

// want checks that an event was logged once, and with what. It returns it.
func (r *recorder) want(t *testing.T, level slog.Level, text string, want attrs) event {
	t.Helper()
	got := r.named(text)
	if len(got) != 1 {
		t.Fatalf("%q was logged %d times, want once; all: %v", text, len(got), r.all())
	}
	e := got[0]
	if e.level != level {
		t.Errorf("%q has level %v, want %v", text, e.level, level)
	}
	for k, v := range want {
		if fmt.Sprint(e.attrs[k]) != fmt.Sprint(v) {
			t.Errorf("%q: %s is %v, want %v", text, k, e.attrs[k], v)
		}
	}
	return e
}

// wantError checks that the event's error matches.
func (e event) wantError(t *testing.T, target error) {
	t.Helper()
	if err, _ := e.attrs["error"].(error); !errors.Is(err, target) {
		t.Errorf("%q: the error is %v, want %v", e.text, e.attrs["error"], target)
	}
}

// logged returns plainOptions with a recorder.
func logged(rec *recorder) *Options {
	o := plainOptions()
	o.Logger = slog.New(rec)
	return o
}

var errDenied = &objstore.Error{Class: objstore.ErrPermission, Err: errors.New("not for you")}

// eventTests make each event that an operator gets to see happen.
var eventTests = []struct {
	name string
	real bool // not in a bubble
	test func(t *testing.T, rec *recorder)
}{
	{"opened and closed", false, func(t *testing.T, rec *recorder) {
		store := newTestStore()
		w := mustOpen(t, store, plainOptions())
		mustPut(t, w, seq(t, 0, 3))
		mustClose(t, w)
		store.on(objstore.OpPutIfAbsent, walPart, 1, delay(time.Second))
		w = mustOpen(t, store, logged(rec))
		rec.want(t, slog.LevelInfo, "shard taken over", attrs{"epoch": 2, "fence": 3, "next_row": 3})
		rec.want(t, slog.LevelInfo, "shard opened", attrs{
			"epoch": 2, "duration": time.Second, "replay_duration": time.Second, "entries": 1, "fences": 1, "dead": 0, "rows": 3,
			"bytes": w.Stats().Open.Bytes, "next_row": 3, "memtables": 1,
		})
		mustPut(t, w, seq(t, 3, 2))
		mustClose(t, w)
		mustClose(t, w)
		e := rec.want(t, slog.LevelInfo, "writer closed", attrs{
			"epoch": 2, "duration": time.Duration(0), "entries": 1, "rows": 2, "bytes": w.Stats().WAL.Bytes, "position": 4, "next_row": 5, "not_durable": 0,
		})
		if _, failed := e.attrs["error"]; failed {
			t.Errorf("closed: %v", e)
		}
		if n := len(rec.all()); n != 3 {
			t.Errorf("%d events, want 3: %v", n, rec.all())
		}
	}},
	{"the claim of another process", false, func(t *testing.T, rec *recorder) {
		store := newTestStore()
		mustClose(t, mustOpen(t, store, plainOptions()))
		store.on(objstore.OpPutIfAbsent, "/manifest/", 1, func(_ context.Context, apply func() error) error {
			mustOpen(t, store.inner, plainOptions())
			return apply()
		})
		mustOpen(t, store, logged(rec))
		rec.want(t, slog.LevelWarn, "taking the shard over starts again", nil)
	}},
	{"hole", false, func(t *testing.T, rec *recorder) {
		store, _ := twoEpochs(t)
		deleteRaw(t, store, layoutOf(testShard).wal+wal.Name(3))
		if _, err := Open(t.Context(), store, testShard, testSchema, logged(rec)); err == nil {
			t.Fatal("open succeeded")
		}
		rec.want(t, slog.LevelError, "shard refused", attrs{"reason": "hole", "position": 3}).wantError(t, ErrHole)
	}},
	{"corrupt", false, func(t *testing.T, rec *recorder) {
		store, _ := twoEpochs(t)
		putRaw(t, store, layoutOf(testShard).wal+wal.Name(4), []byte("damaged"))
		if err := SealShard(t.Context(), store, testShard, logged(rec)); err == nil {
			t.Fatal("seal succeeded")
		}
		rec.want(t, slog.LevelError, "shard refused", attrs{"reason": "corrupt", "position": 4}).wantError(t, ErrCorrupt)
	}},
	{"foreign writer", false, func(t *testing.T, rec *recorder) {
		store, _ := twoEpochs(t)
		key, data := newer(t, newestManifest(t, store))
		putRaw(t, store, key, data)
		if _, err := Open(t.Context(), store, testShard, testSchema, logged(rec)); err == nil {
			t.Fatal("open succeeded")
		}
		rec.want(t, slog.LevelError, "shard refused", attrs{"reason": "foreign_writer"}).wantError(t, ErrForeignWriter)
	}},
	{"an error of the caller", false, func(t *testing.T, rec *recorder) {
		o := logged(rec)
		o.PrimaryKey = []string{"nope"}
		if _, err := Open(t.Context(), newTestStore(), testShard, testSchema, o); err == nil {
			t.Fatal("open succeeded")
		}
		if all := rec.all(); len(all) > 0 {
			t.Errorf("logged and returned: %v", all)
		}
	}},
	{"an index that fails in replay", false, func(t *testing.T, rec *recorder) {
		w := mustOpen(t, newTestStore(), logged(rec))
		if err := indexFailer(w.c.logger)(w.c.live()[0], &index.ApplyError{Index: "by_n", Err: errTransient}); err != nil {
			t.Fatal(err)
		}
		rec.want(t, slog.LevelError, "an index failed in replay; its searches return the error until the shard is opened again",
			attrs{"index": "by_n", "generation": 1}).wantError(t, errTransient)
	}},
	{"sealed", false, func(t *testing.T, rec *recorder) {
		store := newTestStore()
		mustClose(t, mustOpen(t, store, plainOptions()))
		if err := SealShard(t.Context(), store, testShard, logged(rec)); err != nil {
			t.Fatal(err)
		}
		rec.want(t, slog.LevelInfo, "shard status changed", attrs{"status": "sealed", "epoch": 2, "fence": 2, "next_row": 0, "duration": time.Duration(0)})
		other := newRecorder()
		if err := UnsealShard(t.Context(), store, testShard, logged(other)); err != nil {
			t.Fatal(err)
		}
		other.want(t, slog.LevelInfo, "shard status changed", attrs{"status": "active", "epoch": 3, "fence": 3})
	}},
	{"fenced", false, func(t *testing.T, rec *recorder) {
		store := newTestStore()
		w := mustOpen(t, store, logged(rec))
		mustOpen(t, store, plainOptions())
		if err := w.Put(t.Context(), seq(t, 0, 1)); !errors.Is(err, ErrFenced) {
			t.Fatal(err)
		}
		synctest.Wait() // waiters are woken before it is told
		rec.want(t, slog.LevelWarn, "writer fenced", attrs{"epoch": 1, "their_epoch": 2}).wantError(t, ErrFenced)
		if n := len(rec.named("writer poisoned")); n > 0 {
			t.Error("a fence is told twice")
		}
	}},
	{"poisoned", false, func(t *testing.T, rec *recorder) {
		store := newTestStore()
		w := mustOpen(t, store, logged(rec))
		store.on(objstore.OpPutIfAbsent, walPart, 1, failBefore(errDenied))
		if err := w.Put(t.Context(), seq(t, 0, 2)); err == nil {
			t.Fatal("put succeeded")
		}
		synctest.Wait() // waiters are woken before it is told
		rec.want(t, slog.LevelError, "writer poisoned", attrs{"epoch": 1}).wantError(t, ErrPersistence)
		if err := w.Close(t.Context()); err == nil {
			t.Fatal("close succeeded")
		}
		rec.want(t, slog.LevelWarn, "writer closed", attrs{"not_durable": 2, "entries": 0, "next_row": 0}).wantError(t, ErrPersistence)
	}},
	{"a dead object", false, func(t *testing.T, rec *recorder) {
		inner := objstore.NewMemory()
		dead := dieInFlight(t, inner)
		w := mustOpen(t, inner, logged(rec)) // its fence is at 3
		dead.land(t, 4)
		mustPut(t, w, seq(t, 1, 1))
		rec.want(t, slog.LevelWarn, "a dead object holds the WAL position; its entry is put again above", attrs{"position": 4, "first_row": 1})
	}},
	{"retries", false, func(t *testing.T, rec *recorder) {
		store := newTestStore()
		o := logged(rec)
		told := 0
		o.Retry = objstore.RetryOptions{
			MinBackoff: time.Second, MaxBackoff: time.Second, Rand: func() float64 { return 1 }, MaxAttempts: 30,
			OnRetry: func(r objstore.Retry) {
				if r.Context == nil {
					t.Error("a retry without a context")
				}
				told++
			},
		}
		w := mustOpen(t, store, o)
		const text = "store requests are retried"
		store.on(objstore.OpPutIfAbsent, walPart, 1, failBefore(errTransient))
		mustPut(t, w, seq(t, 0, 1))
		if n := len(rec.named(text)); n != 0 {
			t.Error("one retry is told")
		}
		store.on(objstore.OpPutIfAbsent, walPart, 14, failBefore(errTransient))
		mustPut(t, w, seq(t, 1, 1))
		if told != 15 {
			t.Errorf("the caller's OnRetry was called %d times, want 15", told)
		}
		// Attempts 2 to 14, a second apart: one at once, one after ten seconds.
		got := rec.named(text)
		if len(got) != 2 || got[0].level != slog.LevelWarn {
			t.Fatalf("%d lines of 14 retries, want 2: %v", len(got), got)
		}
		for i, want := range []attrs{{"attempt": 2, "suppressed": 0}, {"attempt": 12, "suppressed": 9}} {
			want["operation"], want["pause"], want["key"] = "put-if-absent", time.Second, layoutOf(testShard).wal+wal.Name(3)
			for k, v := range want {
				if fmt.Sprint(got[i].attrs[k]) != fmt.Sprint(v) {
					t.Errorf("line %d: %s is %v, want %v", i, k, got[i].attrs[k], v)
				}
			}
			got[i].wantError(t, objstore.ErrThrottled)
		}
	}},
	{"a slow append", false, func(t *testing.T, rec *recorder) {
		store := newTestStore()
		w := mustOpen(t, store, logged(rec))
		const text = "append slow"
		store.on(objstore.OpPutIfAbsent, walPart, 1, delay(slowAppend-time.Millisecond))
		mustPut(t, w, seq(t, 0, 1))
		if n := len(rec.named(text)); n > 0 {
			t.Error("an append below the bound is told")
		}
		store.on(objstore.OpPutIfAbsent, walPart, 4, delay(slowAppend))
		for i := range int64(4) {
			mustPutAsync(t, w, seq(t, 1+i, 1))
		}
		if err := w.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		e := rec.want(t, slog.LevelWarn, text, attrs{"duration": slowAppend, "outcome": "landed", "suppressed": 0})
		if pos := e.attrs["position"].(uint64); pos < 3 || pos > 6 || e.attrs["bytes"].(int64) <= 0 {
			t.Errorf("%v", e)
		}
		time.Sleep(logInterval)
		store.on(objstore.OpPutIfAbsent, walPart, 1, delay(slowAppend))
		mustPut(t, w, seq(t, 5, 1))
		if got := rec.named(text); len(got) != 2 || fmt.Sprint(got[1].attrs["suppressed"]) != "3" {
			t.Errorf("the next line: %v", got)
		}
	}},
	{"a check of the ownership", false, func(t *testing.T, rec *recorder) {
		store := newTestStore()
		w := mustOpen(t, store, logged(rec))
		mustPut(t, w, seq(t, 0, 1))
		const text = "ownership checked"
		if n := len(rec.named(text)); n > 0 {
			t.Error("told without a pause")
		}
		time.Sleep(time.Hour)
		store.on(objstore.OpList, "/manifest/", 1, delay(3*time.Second))
		mustPut(t, w, seq(t, 1, 1))
		rec.want(t, slog.LevelDebug, text, attrs{"position": 3, "duration": 3 * time.Second})
	}},
	{"backpressure", false, func(t *testing.T, rec *recorder) {
		store := newTestStore()
		o := walOnlyOptions()
		o.Logger = slog.New(rec)
		w := mustOpen(t, store, o)
		do, release := hold()
		store.on(objstore.OpPutIfAbsent, walPart, always, do)
		var next int64
		fill(t, w, &next) // until a put was refused
		const begins, ends = "backpressure begins: puts wait for memory", "backpressure ends"
		e := rec.want(t, slog.LevelWarn, begins, attrs{"max_resident_bytes": o.MaxResidentBytes})
		if n := e.attrs["resident_bytes"].(int64); n < o.MaxResidentBytes/2 || n > o.MaxResidentBytes {
			t.Errorf("%d bytes resident", n)
		}
		var wg sync.WaitGroup
		for i := range int64(3) {
			wg.Go(func() { mustPutAsync(t, w, seq(t, next+i, 10)) })
		}
		time.Sleep(5 * time.Second)
		release()
		wg.Wait()
		time.Sleep(logInterval - time.Millisecond)
		if n := len(rec.named(ends)); n > 0 {
			t.Error("it ended too soon")
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		rec.want(t, slog.LevelWarn, begins, nil)
		rec.want(t, slog.LevelInfo, ends, attrs{"duration": o.StallTimeout + 5*time.Second, "puts": 4, "refused": 1})
	}},
	{"backpressure without a pause", false, func(t *testing.T, rec *recorder) {
		store := newTestStore()
		o := walOnlyOptions()
		o.Logger = slog.New(rec)
		w := mustOpen(t, store, o)
		store.on(objstore.OpPutIfAbsent, walPart, always, delay(time.Second))
		waits := 0
		for i := range int64(300) {
			start := time.Now()
			mustPutAsync(t, w, seq(t, i, 10))
			if time.Since(start) > 0 {
				waits++
			}
		}
		if waits < 3 {
			t.Fatalf("only %d puts have waited", waits)
		}
		rec.want(t, slog.LevelWarn, "backpressure begins: puts wait for memory", nil)
		if n := len(rec.named("backpressure ends")); n > 0 {
			t.Errorf("it ended %d times under way", n)
		}
		mustClose(t, w)
		rec.want(t, slog.LevelInfo, "backpressure ends", attrs{"puts": waits, "refused": 0})
	}},
	{"rotation", false, func(t *testing.T, rec *recorder) {
		w := mustOpen(t, newTestStore(), logged(rec))
		mustPut(t, w, seq(t, 0, 9))
		bytes := w.c.live()[0].WindowBytes()
		if err := w.Rotate(t.Context()); err != nil {
			t.Fatal(err)
		}
		rec.want(t, slog.LevelDebug, "memtable rotated", attrs{"generation": 1, "rows": 9, "bytes": bytes})
	}},
	{"the end is not recorded", false, func(t *testing.T, rec *recorder) {
		store := newTestStore()
		w := mustOpen(t, store, logged(rec))
		mustPut(t, w, seq(t, 0, 1))
		store.on(objstore.OpPutIfAbsent, "/manifest/", always, failBefore(errDenied))
		mustClose(t, w)
		rec.want(t, slog.LevelWarn, "the end of the log was not recorded in the manifest", attrs{"position": 2}).wantError(t, objstore.ErrPermission)
		rec.want(t, slog.LevelInfo, "writer closed", nil)
	}},
	{"aborted", false, func(t *testing.T, rec *recorder) {
		store := newTestStore()
		w := mustOpen(t, store, logged(rec))
		mustPut(t, w, seq(t, 0, 1))
		do, release := hold()
		defer release()
		store.on(objstore.OpPutIfAbsent, walPart, always, do)
		mustPutAsync(t, w, seq(t, 1, 3))
		w.Abort()
		w.Abort()
		e := rec.want(t, slog.LevelWarn, "writer aborted", attrs{"epoch": 1, "entries": 1, "rows": 1, "position": 2, "next_row": 1, "not_durable": 3})
		if _, failed := e.attrs["error"]; failed {
			t.Errorf("aborted: %v", e)
		}
	}},
	{"dropped", true, func(t *testing.T, rec *recorder) {
		func() {
			if _, err := Open(t.Context(), newTestStore(), testShard, testSchema, logged(rec)); err != nil {
				t.Fatal(err)
			}
		}()
		for deadline := time.Now().Add(20 * time.Second); len(rec.named("writer aborted")) == 0; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("it was not aborted")
			}
			runtime.GC()
		}
		rec.want(t, slog.LevelWarn, "writer dropped without Close or Abort", attrs{"epoch": 1})
		rec.want(t, slog.LevelInfo, "writer aborted", attrs{"not_durable": 0})
	}},
	{"metrics that are refused", false, func(t *testing.T, rec *recorder) {
		o := logged(rec)
		o.MeterProvider = brokenMeters{refuse: true}
		w := mustOpen(t, newTestStore(), o)
		mustPut(t, w, seq(t, 0, 1)) // the writer works
		mustClose(t, w)
		rec.want(t, slog.LevelWarn, "metrics are not exported", nil).wantError(t, errTransient)
	}},
	{"a reader", false, func(t *testing.T, rec *recorder) {
		store := objstore.NewMemory()
		w := mustOpen(t, store, plainOptions())
		mustPut(t, w, seq(t, 0, 2))
		o := logged(rec)
		r := mustOpenReader(t, store, &ReaderOptions{Logger: o.Logger, MeterProvider: brokenMeters{}})
		opened := rec.want(t, slog.LevelInfo, "reader opened", attrs{"epoch": 1, "position": 2, "next_row": 2, "entries": 1, "dead": 0, "rows": 2})
		if opened.attrs["bytes"] == nil {
			t.Errorf("%v", opened)
		}
		mustPut(t, w, seq(t, 2, 1))
		recycle(t, store, 3, true)
		for range 3 { // told once
			if err := r.Refresh(t.Context()); !errors.Is(err, ErrLogTruncated) {
				t.Errorf("refresh: %v", err)
			}
		}
		rec.want(t, slog.LevelError, "reader stopped", attrs{"position": 2, "next_row": 2})
		r.Close()
		rec.want(t, slog.LevelWarn, "metrics are still exported", nil).wantError(t, errTransient)
		if n := len(rec.all()); n != 3 {
			t.Errorf("%d events", n)
		}
	}},
	{"metrics that stay", false, func(t *testing.T, rec *recorder) {
		o := logged(rec)
		o.MeterProvider = brokenMeters{}
		mustClose(t, mustOpen(t, newTestStore(), o))
		rec.want(t, slog.LevelWarn, "metrics are still exported", nil).wantError(t, errTransient)
	}},
}

// brokenMeters refuse the instruments of figures, or do not let go of them.
type brokenMeters struct {
	noop.MeterProvider
	refuse bool
}

func (p brokenMeters) Meter(string, ...metric.MeterOption) metric.Meter {
	return brokenMeter{refuse: p.refuse}
}

type brokenMeter struct {
	noop.Meter
	refuse bool
}

func (m brokenMeter) Int64ObservableGauge(string, ...metric.Int64ObservableGaugeOption) (metric.Int64ObservableGauge, error) {
	if m.refuse {
		return nil, errTransient
	}
	return noop.Int64ObservableGauge{}, nil
}

func (brokenMeter) RegisterCallback(metric.Callback, ...metric.Observable) (metric.Registration, error) {
	return brokenRegistration{}, nil
}

type brokenRegistration struct{ noop.Registration }

func (brokenRegistration) Unregister() error { return errTransient }

// TestEvents makes every event happen, and compares them with the table in
// docs/operations.md: nothing is logged that is not there, with no other keys.
func TestEvents(t *testing.T) {
	var seen []event
	for _, tt := range eventTests {
		t.Run(tt.name, func(t *testing.T) {
			rec := newRecorder()
			if tt.real {
				tt.test(t, rec)
			} else {
				synctest.Test(t, func(t *testing.T) { tt.test(t, rec) })
			}
			seen = append(seen, rec.all()...)
		})
	}
	if t.Failed() {
		return
	}
	type row struct {
		levels string
		keys   []string
		met    map[string]bool
	}
	documented := map[string]row{}
	code := regexp.MustCompile("`[^`]+`")
	var keysOfClosed []string
	for _, cells := range docTable(t, "| level | event | keys |") {
		r := row{levels: cells[0], met: map[string]bool{}}
		for _, c := range code.FindAllString(cells[2], -1) {
			r.keys = append(r.keys, strings.Trim(c, "`"))
		}
		text := strings.Trim(cells[1], "`")
		if cells[2] == "the same" {
			r.keys = keysOfClosed
		}
		keysOfClosed = r.keys
		documented[text] = r
	}
	for _, e := range seen {
		r, ok := documented[e.text]
		if !ok {
			if !strings.HasPrefix(e.text, "tick dropped") { // of the dispatcher; documented below the table
				t.Errorf("%q is not documented", e.text)
			}
			continue
		}
		if !strings.Contains(r.levels, strings.ToLower(e.level.String())) {
			t.Errorf("%q is logged at level %v, documented is %s", e.text, e.level, r.levels)
		}
		r.met[""] = true
		for k := range e.attrs {
			r.met[k] = true
			if !slices.Contains(r.keys, k) {
				t.Errorf("%q: the key %s is not documented", e.text, k)
			}
		}
	}
	for text, r := range documented {
		if !r.met[""] {
			t.Errorf("no test makes %q happen", text)
			continue
		}
		for _, k := range r.keys {
			// Values of a key stand in the same cell.
			if !r.met[k] && !slices.Contains([]string{"hole", "corrupt", "foreign_writer", "sealed", "active"}, k) && text != "writer aborted" {
				t.Errorf("%q: the documented key %s never came", text, k)
			}
		}
	}
}
