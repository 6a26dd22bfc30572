package wal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/memwal/memwal-go/objstore"
)

// continuation precedes every message of an Arrow stream; followed by a length
// of 0 it is the end marker.
const continuation = 0xFFFFFFFF

// minSavings is the part of a buffer that compression must save, or the buffer
// is stored as it is. Below that, expanding costs more than the bytes are worth.
const minSavings = 0.05

// Encode builds an entry of the batches, which must all have the columns of
// schema. It retains them until the result is released, and does not copy their
// column data; see [Footer] for the layout. What it does allocate is a few
// hundred bytes for each batch, and, for columns that are slices of a larger
// array, the bits and offsets that have to be shifted.
//
// side may be nil. A header with Fence set is for [EncodeFence].
func Encode(h Header, schema *arrow.Schema, recs []arrow.RecordBatch, side *Side, o EncodeOptions) (*Encoded, error) {
	if h.Fence {
		return nil, errors.New("wal: encode entry: a fence has no rows; use EncodeFence")
	}
	if err := h.validate(); err != nil {
		return nil, err
	}
	if err := checkColumns(schema, recs); err != nil {
		return nil, err
	}
	sideBytes, err := side.encode()
	if err != nil {
		return nil, err
	}
	held, err := coalesce(schema, recs, o.CoalesceRows)
	if err != nil {
		return nil, err
	}
	if err := rebaseAll(schema, held); err != nil {
		(&Encoded{held: held}).Release()
		return nil, err
	}
	e := &Encoded{held: held, Kinds: side.kinds()}
	for _, rec := range held {
		e.Rows += rec.NumRows()
	}
	if e.Rows > 0 {
		e.Kinds |= KindRows
	}
	var c collector
	if err := writeStream(&c, h, schema, held, o.Compression); err != nil {
		e.Release()
		return nil, err
	}
	e.Body, e.CRC32C = c.finish(sideBytes, e.Kinds, e.Rows)
	e.Size = e.Body.Len()
	return e, nil
}

// EncodeFence builds a fence. The body refers to no Arrow memory.
func EncodeFence(h Header) (objstore.Body, error) {
	h.Fence = true
	if err := h.validate(); err != nil {
		return nil, err
	}
	var c collector
	if err := writeStream(&c, h, arrow.NewSchema(nil, nil), nil, CompressionNone); err != nil {
		return nil, err
	}
	body, _ := c.finish(nil, KindFence, 0)
	return body, nil
}

// rebaseAll replaces batches that arrow-go cannot write as they are.
func rebaseAll(schema *arrow.Schema, held []arrow.RecordBatch) (err error) {
	if !slices.ContainsFunc(schema.Fields(), func(f arrow.Field) bool { return needsRebase(f.Type) }) {
		return nil
	}
	defer recoverAs(&err, "wal: encode entry: arrow-go")
	for i, rec := range held {
		held[i] = rebaseRecord(rec)
		rec.Release()
	}
	return nil
}

// checkColumns refuses batches that are not of the schema: the stream would be
// unreadable.
func checkColumns(schema *arrow.Schema, recs []arrow.RecordBatch) error {
	for i, rec := range recs {
		if got, want := int(rec.NumCols()), schema.NumFields(); got != want {
			return fmt.Errorf("wal: encode entry: batch %d has %d columns, the schema %d", i, got, want)
		}
		for j, col := range rec.Columns() {
			want := schema.Field(j)
			if got := col.DataType(); got != want.Type && !arrow.TypeEqual(got, want.Type) {
				return fmt.Errorf("wal: encode entry: batch %d has type %s in column %q, the schema %s", i, got, want.Name, want.Type)
			}
		}
	}
	return nil
}

// writeStream writes an Arrow stream with its end marker.
func writeStream(c *collector, h Header, schema *arrow.Schema, recs []arrow.RecordBatch, comp Compression) error {
	md := h.metadata(schema.Metadata())
	full := arrow.NewSchemaWithEndian(schema.Fields(), &md, schema.Endianness())
	// Temporary buffers come from Go's heap on purpose: slices of them stay valid
	// after their payload has been released, which is how the body can outlive it.
	mem := memory.NewGoAllocator()
	p := ipc.GetSchemaPayload(full, mem)
	_, err := p.WritePayload(c)
	p.Release()
	if err == nil {
		if comp == CompressionNone && !hasDictionary(schema) {
			err = writePlain(c, recs, mem)
		} else {
			err = writeThroughWriter(c, full, recs, comp, mem)
		}
	}
	if err != nil {
		return fmt.Errorf("wal: encode entry: %w", err)
	}
	c.copyIn([]byte{0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0})
	return nil
}

// writePlain writes batches straight from their payloads: half the cost of a writer.
func writePlain(c *collector, recs []arrow.RecordBatch, mem memory.Allocator) (err error) {
	defer recoverAs(&err, "arrow-go")
	for i, rec := range recs {
		p, err := ipc.GetRecordBatchPayload(rec, ipc.WithAllocator(mem))
		if err != nil {
			return fmt.Errorf("batch %d: %w", i, err)
		}
		_, err = p.WritePayload(c)
		p.Release()
		if err != nil {
			return fmt.Errorf("batch %d: %w", i, err)
		}
	}
	return nil
}

// writeThroughWriter is for batches that need dictionaries, or a compressor
// that is kept from batch to batch.
//
// A writer compares each dictionary with the last one that it wrote, within a
// tolerance for floating point, and leaves out one that it takes for the same.
// That would store values of another batch. So a writer only ever sees batches
// with identical dictionaries; other ones get a new writer, which begins with
// all dictionaries.
func writeThroughWriter(c *collector, schema *arrow.Schema, recs []arrow.RecordBatch, comp Compression, mem memory.Allocator) (err error) {
	opts := []ipc.Option{ipc.WithSchema(schema), ipc.WithAllocator(mem)}
	switch comp {
	case CompressionNone:
	case CompressionLZ4:
		opts = append(opts, ipc.WithLZ4(), ipc.WithMinSpaceSavings(minSavings))
	case CompressionZstd:
		opts = append(opts, ipc.WithZstd(), ipc.WithMinSpaceSavings(minSavings))
	default:
		return fmt.Errorf("compression %d does not exist", comp)
	}
	defer recoverAs(&err, "arrow-go")
	var w *ipc.Writer
	var dicts []arrow.ArrayData
	closeWriter := func() error {
		if w == nil {
			return nil
		}
		return w.Close()
	}
	for i, rec := range recs {
		own := appendDictionaries(nil, rec)
		if w == nil || !sameDictionaries(dicts, own) {
			if err := closeWriter(); err != nil {
				return err
			}
			w, dicts = ipc.NewWriterWithPayloadWriter(&payloadSink{c: c}, opts...), own
		}
		if err := writeRecord(w, schema, rec); err != nil {
			return errors.Join(fmt.Errorf("batch %d: %w", i, err), closeWriter())
		}
	}
	return closeWriter()
}

// writeRecord writes rec under the stream's own schema, which the writer demands.
func writeRecord(w *ipc.Writer, schema *arrow.Schema, rec arrow.RecordBatch) error {
	var meta arrow.Metadata
	if m, ok := rec.(arrow.RecordBatchWithMetadata); ok {
		meta = m.Metadata()
	}
	own := array.NewRecordBatchWithMetadata(schema, rec.Columns(), rec.NumRows(), meta)
	defer own.Release()
	return w.Write(own)
}

// payloadSink is an ipc.PayloadWriter. It drops the first payload, the schema,
// which writeStream has written already.
type payloadSink struct {
	c      *collector
	schema bool // seen
}

func (s *payloadSink) Start() error { return nil }
func (s *payloadSink) Close() error { return nil }

func (s *payloadSink) WritePayload(p ipc.Payload) error {
	if !s.schema {
		s.schema = true
		return nil
	}
	_, err := p.WritePayload(s.c)
	return err
}

// copyLimit is the length up to which a slice is copied: the writer reuses its
// scratch and padding buffers, and a slice header costs 24 bytes anyway.
const copyLimit = 64

// arenaSize is what copied bytes are gathered in: the prefixes and paddings of
// about ten batches.
const arenaSize = 1024

// collector is an io.Writer that keeps what it is given as a list of slices,
// without copying any that is longer than copyLimit.
type collector struct {
	body   objstore.Body
	arena  []byte
	inTail bool // the last slice of body ends where arena does
}

// Write implements io.Writer. p must not change as long as the body is in use,
// if it is longer than copyLimit.
func (c *collector) Write(p []byte) (int, error) {
	if len(p) <= copyLimit {
		c.copyIn(p)
	} else {
		c.body = append(c.body, p[:len(p):len(p)])
		c.inTail = false
	}
	return len(p), nil
}

// copyIn appends a copy of p, joined to the slice before it where possible.
func (c *collector) copyIn(p []byte) {
	if cap(c.arena)-len(c.arena) < len(p) {
		c.arena, c.inTail = make([]byte, 0, max(arenaSize, len(p))), false
	}
	start := len(c.arena)
	c.arena = append(c.arena, p...)
	if c.inTail {
		last := &c.body[len(c.body)-1]
		start -= len(*last)
		*last = c.arena[start:len(c.arena):len(c.arena)]
		return
	}
	c.body = append(c.body, c.arena[start:len(c.arena):len(c.arena)])
	c.inTail = true
}

// finish adds the side section and the footer.
func (c *collector) finish(side []byte, kinds Kinds, rows int64) (_ objstore.Body, sum uint32) {
	f := Footer{Version: Version, Kinds: kinds, StreamLen: c.body.Len(), SideLen: int64(len(side)), Rows: rows}
	if len(side) > 0 {
		_, _ = c.Write(side)
	}
	for _, s := range c.body {
		f.CRC = crc32.Update(f.CRC, castagnoli, s)
	}
	footer := f.encode()
	c.copyIn(footer)
	return c.body, crc32.Update(f.CRC, castagnoli, footer)
}

// recoverAs turns a panic of a library on data that it cannot take into an error.
func recoverAs(err *error, who string) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("%s panicked: %v", who, r)
	}
}

// isEndMarker reports whether b begins with the end marker of a stream.
func isEndMarker(b []byte) bool {
	return len(b) >= 8 && binary.LittleEndian.Uint32(b) == continuation && binary.LittleEndian.Uint32(b[4:]) == 0
}
