package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/blevesearch/bleve/v2/search/query"
	"github.com/memwal/memwal-go/index"
	"github.com/memwal/memwal-go/memwal"
	"github.com/memwal/memwal-go/memwal/filtertext"
)

// eventSchema is what the service takes.
var eventSchema = arrow.NewSchema([]arrow.Field{
	{Name: "id", Type: arrow.PrimitiveTypes.Int64},
	{Name: "kind", Type: arrow.BinaryTypes.String, Nullable: true},
	{Name: "at", Type: arrow.FixedWidthTypes.Timestamp_ms, Nullable: true},
	{Name: "value", Type: arrow.PrimitiveTypes.Float64, Nullable: true},
	{Name: "message", Type: arrow.BinaryTypes.String, Nullable: true},
}, nil)

// options are those of the service's writer.
func options() *memwal.Options {
	return &memwal.Options{
		PrimaryKey: []string{"id"},
		Indexes:    []index.Config{index.Text{Name: messages, Column: index.Column{Name: "message"}}},
	}
}

// messages is the name of the full-text index.
const messages = "messages"

const (
	maxBody   = 16 << 20 // bytes of one request
	batchRows = 1000     // rows of one batch; a request may be several
	maxHits   = 1000     // of a search
)

// service serves one writer.
type service struct{ w *memwal.Writer }

func newService(w *memwal.Writer) http.Handler {
	s := &service{w}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /events", s.post)
	mux.HandleFunc("GET /events", s.search)
	mux.HandleFunc("GET /events/{id}", s.get)
	mux.HandleFunc("GET /stats", s.stats)
	return mux
}

// post takes NDJSON. It answers once every row is durable. The batches are put
// without waiting for each other, so a request pays for one append, not several.
// A line that makes no sense ends the request; rows of the batches before it are
// stored, and sending the whole again is harmless: they are upserts.
func (s *service) post(rw http.ResponseWriter, req *http.Request) {
	if req.ContentLength > maxBody {
		fail(rw, &http.MaxBytesError{Limit: maxBody}) // before anything is stored
		return
	}
	stored, err := s.ingest(req.Context(), http.MaxBytesReader(rw, req.Body, maxBody))
	if err != nil {
		fail(rw, fmt.Errorf("%w (%d rows were stored before)", err, stored))
		return
	}
	fmt.Fprintf(rw, "{\"rows\":%d}\n", stored)
}

// ingest puts the documents of r, and returns how many rows are durable, after
// an error too.
func (s *service) ingest(ctx context.Context, r io.Reader) (stored int64, err error) {
	var tickets []*memwal.Ticket
	for rec, e := range batches(r) {
		if err = e; err != nil {
			break
		}
		var t *memwal.Ticket
		if t, err = s.w.PutAsync(ctx, rec); err != nil {
			break
		}
		tickets = append(tickets, t)
	}
	for _, t := range tickets {
		if e := t.Wait(ctx); e != nil {
			return stored, e // weightier than a bad line
		}
		stored += t.Rows()
	}
	return stored, err
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
		// After a failed read the scanner still hands out what is left of its
		// buffer, and the last line of that is cut: hence the second condition.
		for n := 1; lines.Scan() && lines.Err() == nil; n++ {
			line := bytes.TrimSpace(lines.Bytes())
			if len(line) == 0 {
				continue
			}
			if err := appendLine(b, line); err != nil {
				yield(nil, &lineError{n, err})
				return
			}
			if b.Field(0).Len() == batchRows && !give() {
				return
			}
		}
		if err := lines.Err(); err != nil {
			yield(nil, &readError{err})
			return
		}
		give()
	}
}

// appendLine adds the one document of line to b. The builder would skip fields
// that it does not know, and whatever follows the document.
func appendLine(b *array.RecordBuilder, line []byte) error {
	dec := json.NewDecoder(bytes.NewReader(line))
	var doc map[string]json.RawMessage
	if err := dec.Decode(&doc); err != nil {
		return err
	}
	if doc == nil {
		return errors.New("null is no JSON object")
	}
	if _, err := dec.Token(); err != io.EOF {
		return fmt.Errorf("the JSON object ends at byte %d, and more follows: one document a line", dec.InputOffset())
	}
	var unknown []string
	for name := range doc {
		if !eventSchema.HasField(name) {
			unknown = append(unknown, strconv.Quote(name))
		}
	}
	if len(unknown) > 0 {
		slices.Sort(unknown)
		return fmt.Errorf("unknown field %s", strings.Join(unknown, ", "))
	}
	return b.UnmarshalJSON(line)
}

// lineError is a line that makes no sense.
type lineError struct {
	line int
	err  error
}

func (e *lineError) Error() string { return fmt.Sprintf("line %d: %v", e.line, e.err) }
func (e *lineError) Unwrap() error { return e.err }

// readError is a body that could not be read to its end.
type readError struct{ err error }

func (e *readError) Error() string { return fmt.Sprintf("read the body: %v", e.err) }
func (e *readError) Unwrap() error { return e.err }

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
	answer(rw, document(snap, row))
}

// search returns the events whose messages match q best, a query string such as
// login +failed -test: at most limit (10, up to 1,000) of them after the best offset (0).
// With where, they are those that this filter is true for, such as
// value >= 3 and kind == "login". Each has what matched in its message, as HTML.
func (s *service) search(rw http.ResponseWriter, req *http.Request) {
	q, o, err := searchOf(req.URL.Query())
	if err != nil {
		http.Error(rw, err.Error(), http.StatusBadRequest)
		return
	}
	snap, err := s.w.Snapshot()
	if err != nil {
		fail(rw, err)
		return
	}
	defer snap.Close() // the hits are lent until then
	hits, err := snap.Hits(req.Context(), messages, q, o)
	if err != nil {
		fail(rw, err)
		return
	}
	docs := []map[string]any{}
	for _, h := range hits {
		doc := document(snap, h.Row)
		doc["_score"] = h.Score
		var fragments []string
		for _, f := range h.Fragments {
			fragments = append(fragments, f.Text)
		}
		doc["_fragments"] = fragments
		docs = append(docs, doc)
	}
	answer(rw, docs)
}

// searchOf reads the parameters of a search. A misspelt one is an error: without its
// filter a search would find too much.
func searchOf(form url.Values) (query.Query, memwal.SearchOptions, error) {
	o := memwal.SearchOptions{Highlight: &memwal.Highlight{HTML: true}}
	for name, values := range form {
		var err error
		switch value := values[0]; name {
		case "q":
		case "limit":
			o.Limit, err = number(name, value, 1)
		case "offset":
			o.Offset, err = number(name, value, 0)
		case "where":
			o.Filter, err = filtertext.Parse(value, eventSchema)
		default:
			err = fmt.Errorf("unknown parameter %q: there are q, where, limit and offset", name)
		}
		if err != nil {
			return nil, o, err
		}
	}
	if form.Get("q") == "" {
		return nil, o, errors.New("q is missing: the words to search for")
	}
	return query.NewQueryStringQuery(form.Get("q")), o, nil
}

func number(name, text string, least int) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > maxHits {
		return 0, fmt.Errorf("the %s must be a whole number from %d to %d", name, least, maxHits)
	}
	return n, nil
}

// document is a row as JSON takes it.
func document(snap *memwal.Snapshot, row memwal.Row) map[string]any {
	doc := map[string]any{}
	for i, f := range snap.Schema().Fields() {
		doc[f.Name] = row.Column(i).GetOneForMarshal(row.Index)
	}
	return doc
}

func answer(rw http.ResponseWriter, v any) {
	rw.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(rw).Encode(v); err != nil {
		return // the caller has gone
	}
}

// stats returns the writer's figures.
func (s *service) stats(rw http.ResponseWriter, _ *http.Request) {
	answer(rw, s.w.Stats())
}

// fail translates errors: what the caller did, what passes, what needs a restart.
func fail(rw http.ResponseWriter, err error) {
	code := http.StatusInternalServerError
	_, large := errors.AsType[*http.MaxBytesError](err)
	_, cut := errors.AsType[*readError](err)
	_, bad := errors.AsType[*lineError](err)
	switch {
	case large, errors.Is(err, bufio.ErrTooLong):
		code = http.StatusRequestEntityTooLarge
	case cut, bad, errors.Is(err, memwal.ErrInvalid):
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
