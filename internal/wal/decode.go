package wal

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
)

// DecodeHeader reads the header alone: enough to judge an entry's liveness and
// to compare put-ids. data is the entry or its beginning, as far as the first
// message. Checksums are not checked.
func DecodeHeader(data []byte) (Header, error) {
	var p headerParser
	s := stream{data: data, pair: p.pair}
	if err := s.schemaMessage(); err != nil {
		return Header{}, err
	}
	h, err := p.finish()
	if err != nil {
		return Header{}, err
	}
	if h.Fence && s.last.fields != 0 {
		// It would fence, and hide its rows.
		return Header{}, corruptf("fence has %d columns", s.last.fields)
	}
	return h, nil
}

// Expansion returns the bytes that [Decode] is going to allocate for compressed
// bodies, as the entry says itself; 0 if nothing is compressed. It reads no
// body. Of a damaged entry it counts what lies before the damage, at which Decode
// stops, too.
func Expansion(data []byte, o DecodeOptions) int64 {
	s := stream{data: data, maxExpanded: o.withDefaults().MaxExpanded}
	for {
		if _, _, err := s.next(); err != nil {
			return s.allocated
		}
	}
}

// schemaMessage reads the first message, which must be a schema.
func (s *stream) schemaMessage() error {
	_, _, err := s.next()
	if err == nil && s.last.kind != flatSchema {
		err = fmt.Errorf("first message is not a schema")
	}
	if err != nil {
		return asCorrupt("stream", err)
	}
	return nil
}

// asCorrupt wraps err, unless it says so already.
func asCorrupt(reason string, err error) error {
	if _, ok := err.(*CorruptError); ok {
		return err
	}
	return &CorruptError{Reason: reason, Err: err}
}

// Decode reads a whole entry. The batches refer to data, which must stay as it
// is while they are in use. The caller releases the entry. Errors match
// [ErrCorrupt].
//
// Entries of memwal must have an intact footer. Entries of other programs have
// none; what they hold is validated value by value instead.
func Decode(data []byte, o DecodeOptions) (_ *Entry, err error) {
	o = o.withDefaults()
	footer, hasFooter, err := DecodeFooter(data)
	if err != nil {
		return nil, err
	}
	streamData := data
	var side []byte
	if hasFooter {
		if err := footer.check(data); err != nil {
			return nil, err
		}
		streamData = data[:footer.StreamLen]
		side = data[footer.StreamLen : footer.StreamLen+footer.SideLen]
	}
	h, err := DecodeHeader(streamData)
	if err != nil {
		return nil, err
	}
	if h.Version != 0 && !hasFooter {
		return nil, corruptf("footer is missing: the entry lost its end")
	}
	e := &Entry{Header: h, HasFooter: hasFooter}
	if err := e.readStream(streamData, o); err != nil {
		e.Release()
		return nil, err
	}
	if e.Side, err = decodeSide(side); err == nil {
		err = e.checkKinds(footer)
	}
	if err != nil {
		e.Release()
		return nil, err
	}
	return e, nil
}

// readStream reads schema and batches. On an error, batches read before it are
// left in e for Release.
func (e *Entry) readStream(data []byte, o DecodeOptions) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = corruptf("arrow-go panicked: %v", r)
		}
	}()
	s := &stream{data: data, maxExpanded: o.MaxExpanded}
	defer s.close()
	// The limits of arrow-go's own message reader do not apply: stream has its own.
	r, err := ipc.NewReaderFromMessageReader(s, ipc.WithAllocator(o.Allocator))
	if err != nil {
		return asCorrupt("stream", err)
	}
	defer r.Release()
	md := stripHeader(r.Schema().Metadata())
	e.Schema = arrow.NewSchemaWithEndian(r.Schema().Fields(), &md, r.Schema().Endianness())
	for r.Next() {
		if err := e.addBatch(r.RecordBatch()); err != nil {
			return err
		}
	}
	if err := r.Err(); err != nil {
		return asCorrupt("stream", err)
	}
	if !s.ended || (e.HasFooter && s.pos != len(data)) {
		return corruptf("stream ends at byte %d of %d", s.pos, len(data))
	}
	return nil
}

// addBatch takes a batch in, under the table's own schema.
func (e *Entry) addBatch(rec arrow.RecordBatch) error {
	if !e.HasFooter {
		if err := validateBatch(rec); err != nil {
			return asCorrupt(fmt.Sprintf("batch %d", len(e.Batches)), err)
		}
	}
	var meta arrow.Metadata
	if m, ok := rec.(arrow.RecordBatchWithMetadata); ok {
		meta = m.Metadata()
	}
	own := array.NewRecordBatchWithMetadata(e.Schema, rec.Columns(), rec.NumRows(), meta)
	e.Batches = append(e.Batches, own)
	e.Rows += own.NumRows()
	if e.Rows > maxRows {
		return corruptf("entry of more than %d rows", int64(maxRows))
	}
	return nil
}

// checkKinds compares the entry with its footer, and derives the kinds of an
// entry without one.
func (e *Entry) checkKinds(f Footer) error {
	seen := e.Side.kinds()
	if e.Rows > 0 {
		seen |= KindRows
	}
	if e.Header.Fence {
		seen |= KindFence
	}
	if !e.HasFooter {
		e.Kinds = seen
		return nil
	}
	e.Kinds = f.Kinds
	if f.Rows != e.Rows {
		return corruptf("entry has %d rows, its footer says %d", e.Rows, f.Rows)
	}
	if e.Kinds&knownKinds != seen {
		return corruptf("entry holds records of kinds %#x, its footer says %#x", uint64(seen), uint64(f.Kinds))
	}
	return nil
}
