package wal

import (
	"bytes"
	"errors"
	"fmt"

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
