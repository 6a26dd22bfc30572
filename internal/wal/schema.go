package wal

import (
	"bytes"
	"errors"
	"fmt"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// EncodeSchema returns a schema as an Arrow IPC stream without batches.
func EncodeSchema(schema *arrow.Schema) (_ []byte, err error) {
	defer recoverAs(&err, "arrow-go")
	var b bytes.Buffer
	p := ipc.GetSchemaPayload(schema, memory.NewGoAllocator())
	defer p.Release()
	if _, err := p.WritePayload(&b); err != nil {
		return nil, fmt.Errorf("wal: encode schema: %w", err)
	}
	b.Write([]byte{0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0})
	return b.Bytes(), nil
}

// DecodeSchema reads what EncodeSchema returns. It copies everything out of data.
func DecodeSchema(data []byte) (_ *arrow.Schema, err error) {
	defer recoverAs(&err, "arrow-go")
	s := &stream{data: bytes.Clone(data)}
	defer s.close()
	r, err := ipc.NewReaderFromMessageReader(s)
	if err != nil {
		return nil, fmt.Errorf("wal: decode schema: %w", err)
	}
	defer r.Release()
	if s.pos != len(data)-8 || !isEndMarker(data[s.pos:]) {
		return nil, errors.New("wal: decode schema: no end marker after the schema")
	}
	return r.Schema(), nil
}

// CheckSchema reports whether entries of a schema could be read back: their
// reader bounds the nesting and the size of what it takes. The header is the
// longest that there is, so a manifest that has the schema is readable, too.
func CheckSchema(schema *arrow.Schema) error {
	h := Header{Epoch: math.MaxUint64, PutID: NewPutID(), PrevPutID: NewPutID(), FirstRow: math.MaxUint64, Generation: math.MaxUint64}
	e, err := Encode(h, schema, nil, nil, EncodeOptions{})
	if err != nil {
		return err
	}
	defer e.Release()
	back, err := Decode(e.Body.Bytes(), DecodeOptions{})
	if err != nil {
		return fmt.Errorf("wal: entries of this schema could not be read back: %w", err)
	}
	back.Release()
	return nil
}
