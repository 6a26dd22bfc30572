package main

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
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
		w, err := memwal.Open(t.Context(), store, shard, eventSchema, &memwal.Options{PrimaryKey: []string{"id"}})
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

func TestRunStopsGracefully(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- run(ctx, "mem://", uuid.NewString(), "127.0.0.1:0", slog.New(slog.NewTextHandler(io.Discard, nil)))
	}()
	cancel()
	if err := <-done; err != nil && !strings.Contains(err.Error(), "canceled") {
		t.Errorf("run: %v", err)
	}
}
