package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/memwal/memwal-go/memwal"
	"github.com/memwal/memwal-go/objstore"
)

func TestService(t *testing.T) {
	store := objstore.NewMemory()
	shard := uuid.New()
	open := func() *memwal.Writer {
		w, err := memwal.Open(t.Context(), store, shard, eventSchema, options())
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	w := open()
	h := newService(w)
	do := func(method, path, body string, code int, want string) {
		t.Helper()
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, httptest.NewRequest(method, path, strings.NewReader(body)))
		if got := rec.Body.String(); rec.Code != code || !strings.Contains(got, want) {
			t.Errorf("%s %s: %d %q, want %d and %q", method, path, rec.Code, got, code, want)
		}
	}
	do("POST", "/events", `{"id":1,"kind":"login","value":1.5}`+"\n"+`{"id":2,"kind":"logout"}`+"\n", http.StatusOK, `{"rows":2}`)
	do("POST", "/events", `{"id":1,"kind":"login again"}`, http.StatusOK, `{"rows":1}`)
	do("POST", "/events", `{"id":`, http.StatusBadRequest, "")
	do("POST", "/events", `{"kind":"no id"}`, http.StatusBadRequest, "id")
	do("POST", "/events", "\n"+`{"id":6} {"id":7}`, http.StatusBadRequest, "line 2: the JSON object ends at byte ")
	do("POST", "/events", `{"id":6}x`, http.StatusBadRequest, "line 1")
	do("POST", "/events", `[{"id":6}]`, http.StatusBadRequest, "line 1")
	do("POST", "/events", `null`, http.StatusBadRequest, "line 1")
	do("POST", "/events", `{"id":6,"knid":"login","ID":1}`, http.StatusBadRequest, `line 1: unknown field "ID", "knid"`)
	do("GET", "/events/6", "", http.StatusNotFound, "absent")
	do("GET", "/events/1", "", http.StatusOK, `"kind":"login again"`)
	do("GET", "/events/3", "", http.StatusNotFound, "absent")
	do("GET", "/events/x", "", http.StatusBadRequest, "whole number")
	do("GET", "/stats", "", http.StatusOK, `"Visible":3`)

	// What was answered is there after a restart.
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	do("POST", "/events", `{"id":9}`, http.StatusServiceUnavailable, "closed")
	w = open()
	defer w.Abort()
	h = newService(w)
	do("GET", "/events/1", "", http.StatusOK, `"kind":"login again"`)
	do("GET", "/events/2", "", http.StatusOK, `"kind":"logout"`)
}

// What was posted is found by its message, at once and with filters.
func TestServiceSearch(t *testing.T) {
	w, err := memwal.Open(t.Context(), objstore.NewMemory(), uuid.New(), eventSchema, options())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	h := newService(w)
	do := func(method, path, body string, code int) string {
		t.Helper()
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, httptest.NewRequest(method, path, strings.NewReader(body)))
		if rec.Code != code {
			t.Errorf("%s %s: %d %q, want %d", method, path, rec.Code, rec.Body.String(), code)
		}
		return rec.Body.String()
	}
	do("POST", "/events", `{"id":1,"kind":"login","value":1,"message":"Login failed: wrong password"}
{"id":2,"kind":"login","value":2,"message":"login of a test user"}
{"id":3,"kind":"job","value":3,"message":"the nightly job has failed, and failed again"}
{"id":4,"kind":"job","value":4}`, http.StatusOK)
	for _, tc := range []struct{ query, want string }{
		{"q=failed", "[3 1]"},
		{"q=login+%2Dtest", "[1]"},
		{"q=%22nightly+job%22", "[3]"},
		{"q=failed&where=" + url.QueryEscape(`kind == "login"`), "[1]"},
		{"q=failed+user&limit=1", "[2]"},
		{"q=nothing", "[]"},
		{"q=failed&offset=1", "[1]"},
	} {
		var docs []struct {
			ID    int64   `json:"id"`
			Score float64 `json:"_score"`
		}
		if err := json.Unmarshal([]byte(do("GET", "/events?"+tc.query, "", http.StatusOK)), &docs); err != nil {
			t.Fatalf("%s: %v", tc.query, err)
		}
		ids := []int64{}
		for _, d := range docs {
			if ids = append(ids, d.ID); d.Score <= 0 {
				t.Errorf("%s: score %v", tc.query, d.Score)
			}
		}
		if got := fmt.Sprint(ids); got != tc.want {
			t.Errorf("%s: found %s, want %s", tc.query, got, tc.want)
		}
	}
	if got := do("GET", "/events?q=wrong", "", http.StatusOK); !strings.Contains(got, `\u003cmark\u003ewrong\u003c/mark\u003e`) {
		t.Errorf("what matched is not marked: %s", got)
	}
	// The newest version of an event is what counts.
	do("POST", "/events", `{"id":3,"kind":"job","message":"the nightly job is done"}`, http.StatusOK)
	if got := do("GET", "/events?q=failed", "", http.StatusOK); strings.Contains(got, `"id":3`) {
		t.Errorf("a message that was replaced is found: %s", got)
	}
	for query, want := range map[string]string{"q=%22": "query", "q=a&limit=0": "from 1 to 1000", "q=a&where=nope": `column "nope"`,
		"q=": "q is missing", "where=value+%3E+1": "q is missing", "q=a&wher=true": "unknown parameter", "q=a&offset=-1": "from 0 to 1000"} {
		if got := do("GET", "/events?"+query, "", http.StatusBadRequest); !strings.Contains(got, want) {
			t.Errorf("%s: %q", query, got)
		}
	}
}

// A body that is too large is refused at once where its length is told, and
// otherwise at the limit, with the count of what was stored by then.
func TestServiceBodyLimit(t *testing.T) {
	w, err := memwal.Open(t.Context(), objstore.NewMemory(), uuid.New(), eventSchema, options())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	h := newService(w)
	// Two batches and a line, padded such that the limit cuts a line whose
	// remainder is not JSON.
	var body strings.Builder
	for id := range 2*batchRows + 1 {
		fmt.Fprintf(&body, "{\"id\":%d}\n", id)
	}
	fmt.Fprintf(&body, "{\"id\":-1,\"kind\":%q}\n", strings.Repeat("x", maxBody-1<<16))
	fmt.Fprintf(&body, "{\"id\":-2,\"kind\":%q}\n", strings.Repeat("x", 1<<16))
	for _, length := range []int64{int64(body.Len()), -1} {
		req := httptest.NewRequest("POST", "/events", strings.NewReader(body.String()))
		req.ContentLength = length
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, req)
		want, rows := "too large", uint64(0)
		if length < 0 {
			want, rows = "(2000 rows were stored before)", 2*batchRows
		}
		if rec.Code != http.StatusRequestEntityTooLarge || !strings.Contains(rec.Body.String(), want) {
			t.Errorf("length %d: %d %q, want 413 and %q", length, rec.Code, rec.Body.String(), want)
		}
		if got := w.Stats().Visible; got != rows {
			t.Errorf("length %d: %d rows are visible, want %d", length, got, rows)
		}
	}
}

// A service whose shard was taken over by another ends by itself.
func TestServeEndsWhenFenced(t *testing.T) {
	store, shard := objstore.NewMemory(), uuid.New()
	open := func() *memwal.Writer {
		w, err := memwal.Open(t.Context(), store, shard, eventSchema, options())
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	w := open()
	defer w.Abort()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- serve(t.Context(), l, w, slog.New(slog.DiscardHandler)) }()
	defer open().Abort()
	resp, err := http.Post("http://"+l.Addr().String()+"/events", "", strings.NewReader(`{"id":1}`))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("the fenced writer answered %s", resp.Status)
	}
	if err := <-done; !errors.Is(err, memwal.ErrFenced) {
		t.Errorf("serve ended with %v", err)
	}
}

// A start that cannot listen leaves the live writer alone.
func TestRunListensFirst(t *testing.T) {
	url, shard := "file://"+t.TempDir(), uuid.New()
	store, err := objstore.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	w, err := memwal.Open(t.Context(), store, shard, eventSchema, options())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := run(t.Context(), url, shard.String(), l.Addr().String(), slog.New(slog.DiscardHandler)); err == nil {
		t.Error("run listened on an address in use")
	}
	h, rec := newService(w), httptest.NewRecorder()
	h.ServeHTTP(rec, httptest.NewRequest("POST", "/events", strings.NewReader(`{"id":1}`)))
	if rec.Code != http.StatusOK {
		t.Errorf("the live writer answers %d %s", rec.Code, rec.Body.String())
	}
}

func TestRunStopsGracefully(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	var log bytes.Buffer
	go func() {
		done <- run(ctx, "mem://", uuid.NewString(), "127.0.0.1:0", slog.New(slog.NewTextHandler(&log, nil)))
	}()
	cancel()
	if err := <-done; err != nil && !strings.Contains(err.Error(), "canceled") {
		t.Errorf("run: %v", err)
	}
	if !strings.Contains(log.String(), "level=WARN") {
		t.Errorf("no warning that mem:// is volatile: %s", log.String())
	}
}
