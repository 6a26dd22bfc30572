package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/memwal/memwal-go/memwal"
)

// eventSchema is what the service takes.
var eventSchema = arrow.NewSchema([]arrow.Field{
	{Name: "id", Type: arrow.PrimitiveTypes.Int64},
	{Name: "kind", Type: arrow.BinaryTypes.String, Nullable: true},
	{Name: "at", Type: arrow.FixedWidthTypes.Timestamp_ms, Nullable: true},
	{Name: "value", Type: arrow.PrimitiveTypes.Float64, Nullable: true},
}, nil)

const (
	maxBody   = 16 << 20 // bytes of one request
	batchRows = 1000     // rows of one batch; a request may be several
)

// service serves one writer.
type service struct{ w *memwal.Writer }

func newService(w *memwal.Writer) http.Handler {
	s := &service{w}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /events", s.post)
	mux.HandleFunc("GET /events/{id}", s.get)
	mux.HandleFunc("GET /stats", s.stats)
	return mux
}

// post takes NDJSON. It answers once every row is durable. The batches are put
// without waiting for each other, so a request pays for one append, not several.
// A line that makes no sense ends the request; rows of the batches before it may
// have been stored, and sending the whole again is harmless: they are upserts.
func (s *service) post(rw http.ResponseWriter, req *http.Request) {
	var tickets []*memwal.Ticket
	var rows int64
	for rec, err := range batches(http.MaxBytesReader(rw, req.Body, maxBody)) {
		if err != nil {
			http.Error(rw, err.Error(), http.StatusBadRequest)
			return
		}
		t, err := s.w.PutAsync(req.Context(), rec)
		if err != nil {
			fail(rw, err)
			return
		}
		tickets, rows = append(tickets, t), rows+t.Rows()
	}
	for _, t := range tickets {
		if err := t.Wait(req.Context()); err != nil {
			fail(rw, err)
			return
		}
	}
	fmt.Fprintf(rw, "{\"rows\":%d}\n", rows)
}

// batches reads JSON documents, one a line, into batches, which it lends.
func batches(r io.Reader) iter.Seq2[arrow.RecordBatch, error] {
	return func(yield func(arrow.RecordBatch, error) bool) {
		b := array.NewRecordBuilder(memory.DefaultAllocator, eventSchema)
		defer b.Release()
		give := func() bool {
			rec := b.NewRecordBatch()
			defer rec.Release()
			return rec.NumRows() == 0 || yield(rec, nil)
		}
		lines := bufio.NewScanner(r)
		lines.Buffer(nil, maxBody)
		for n := 1; lines.Scan(); n++ {
			line := bytes.TrimSpace(lines.Bytes())
			if len(line) == 0 {
				continue
			}
			if err := b.UnmarshalJSON(line); err != nil {
				yield(nil, fmt.Errorf("line %d: %w", n, err))
				return
			}
			if b.Field(0).Len() == batchRows && !give() {
				return
			}
		}
		if err := lines.Err(); err != nil {
			yield(nil, err)
			return
		}
		give()
	}
}

// get returns one row by its key.
func (s *service) get(rw http.ResponseWriter, req *http.Request) {
	id, err := strconv.ParseInt(req.PathValue("id"), 10, 64)
	if err != nil {
		http.Error(rw, "the id must be a whole number", http.StatusBadRequest)
		return
	}
	snap, err := s.w.Snapshot()
	if err != nil {
		fail(rw, err)
		return
	}
	defer snap.Close()
	row, err := snap.Lookup(req.Context(), id)
	if err != nil {
		fail(rw, err)
		return
	}
	if row.Presence != memwal.Present {
		http.Error(rw, row.Presence.String(), http.StatusNotFound)
		return
	}
	doc := map[string]any{}
	for i, f := range snap.Schema().Fields() {
		doc[f.Name] = row.Column(i).GetOneForMarshal(row.Index)
	}
	rw.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(rw).Encode(doc); err != nil {
		return // the caller has gone
	}
}

// stats returns the writer's figures.
func (s *service) stats(rw http.ResponseWriter, _ *http.Request) {
	rw.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(rw).Encode(s.w.Stats()); err != nil {
		return
	}
}

// fail translates errors: what the caller did, what passes, what needs a restart.
func fail(rw http.ResponseWriter, err error) {
	code := http.StatusInternalServerError
	switch {
	case errors.Is(err, memwal.ErrInvalid):
		code = http.StatusBadRequest
	case errors.Is(err, memwal.ErrBackpressure), errors.Is(err, memwal.ErrClosed):
		rw.Header().Set("Retry-After", "1")
		code = http.StatusServiceUnavailable
	case errors.Is(err, memwal.ErrPoisoned):
		// Another process is the writer now, or the store is lost: whoever
		// supervises this one should start it again, or leave it.
		code = http.StatusServiceUnavailable
	}
	http.Error(rw, err.Error(), code)
}
