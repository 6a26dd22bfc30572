package wal

import (
	"encoding/binary"
	"fmt"
	"io"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/klauspost/compress/zstd"
)

// maxMetadata bounds the metadata of one message. A schema of ten thousand
// columns takes about two MiB.
const maxMetadata = 16 << 20

// stream reads the messages of an Arrow stream that lies in memory, without
// copying, and checks each before arrow-go sees it. It is an ipc.MessageReader;
// the count of references is kept by its only user.
type stream struct {
	data     []byte
	pos      int
	ended    bool // the end marker was read
	expanded int64
	// allocated is expanded with each buffer rounded up as arrow-go does.
	allocated int64
	// maxExpanded bounds the bytes that compressed buffers expand to.
	maxExpanded int64

	// last is what the last message said, and schema what the schema did; pair
	// takes a schema's metadata.
	last   flatMessage
	schema flatMessage
	pair   func(k, v string) error
	msg    *ipc.Message
}

func (s *stream) Retain()  {}
func (s *stream) Release() {}

// close releases the last message.
func (s *stream) close() {
	if s.msg != nil {
		s.msg.Release()
		s.msg = nil
	}
}

// Message implements ipc.MessageReader. The message is valid until the next call.
func (s *stream) Message() (*ipc.Message, error) {
	meta, body, err := s.next()
	if err != nil {
		return nil, err
	}
	s.close()
	mb, bb := memory.NewBufferBytes(meta), memory.NewBufferBytes(aligned(body))
	s.msg = ipc.NewMessage(mb, bb)
	mb.Release()
	bb.Release()
	return s.msg, nil
}

// next returns the metadata and the body of the next message; io.EOF after the
// end marker. A stream without an end marker has lost its end.
func (s *stream) next() (meta, body []byte, err error) {
	if s.ended {
		return nil, nil, io.EOF
	}
	rest := s.data[s.pos:]
	if isEndMarker(rest) {
		s.pos += 8
		s.ended = true
		return nil, nil, io.EOF
	}
	if len(rest) < 8 {
		return nil, nil, fmt.Errorf("stream ends at byte %d without its end marker", len(s.data))
	}
	if got := binary.LittleEndian.Uint32(rest); got != continuation {
		return nil, nil, fmt.Errorf("no message at byte %d: %08x", s.pos, got)
	}
	n := int64(binary.LittleEndian.Uint32(rest[4:]))
	if n > maxMetadata || n > int64(len(rest)-8) {
		return nil, nil, fmt.Errorf("message at byte %d has metadata of %d bytes, %d are left", s.pos, n, len(rest)-8)
	}
	meta, rest = rest[8:8+n:8+n], rest[8+n:]
	if s.last, err = checkMessage(meta, s.pair); err != nil {
		return nil, nil, fmt.Errorf("message at byte %d: %w", s.pos, err)
	}
	if err := s.checkViews(); err != nil {
		return nil, nil, fmt.Errorf("message at byte %d: %w", s.pos, err)
	}
	if s.last.bodyLen > int64(len(rest)) {
		return nil, nil, fmt.Errorf("message at byte %d has a body of %d bytes, %d are left", s.pos, s.last.bodyLen, len(rest))
	}
	body = rest[:s.last.bodyLen:s.last.bodyLen]
	if err := s.checkCompressed(body); err != nil {
		return nil, nil, fmt.Errorf("message at byte %d: %w", s.pos, err)
	}
	s.pos += 8 + int(n) + len(body)
	return meta, body, nil
}

// checkViews checks that a batch has a number of buffers for each view array:
// arrow-go reads past the end of the list, and allocates by what it finds there.
func (s *stream) checkViews() error {
	var want int
	switch s.last.kind {
	case flatSchema:
		s.schema = s.last
		return nil
	case flatRecordBatch:
		want = s.schema.views
	case flatDictionaryBatch:
		want = s.schema.dictViews[s.last.dictID]
	}
	if got := s.last.viewCounts; got >= 0 && got < want {
		return fmt.Errorf("batch has buffer counts for %d of %d view arrays", got, want)
	}
	return nil
}

// Arrow's codec numbers.
const (
	codecLZ4  = 0
	codecZstd = 1
)

// maxWindow bounds the history that a zstd frame may ask its reader to keep.
// Encoders at their usual levels ask for 8 MiB at most.
const maxWindow = 128 << 20

// checkCompressed checks what buffers say that they expand to, before arrow-go
// allocates it.
func (s *stream) checkCompressed(body []byte) error {
	codec := s.last.codec
	if codec == -1 {
		return nil
	}
	if codec != codecLZ4 && codec != codecZstd {
		return fmt.Errorf("compression codec %d is unknown", codec)
	}
	for i, b := range s.last.buffers {
		if b.length == 0 {
			continue
		}
		if b.length < 8 {
			return fmt.Errorf("compressed buffer %d has %d bytes", i, b.length)
		}
		raw := body[b.offset : b.offset+b.length]
		size := int64(binary.LittleEndian.Uint64(raw))
		if size == -1 { // stored as it is
			continue
		}
		if size < 0 || size > s.maxExpanded-s.expanded {
			return fmt.Errorf("compressed buffer %d expands to %d bytes, the bound for an entry is %d", i, size, s.maxExpanded)
		}
		s.expanded += size
		s.allocated += (size + 63) &^ 63
		if codec == codecZstd {
			var h zstd.Header
			if err := h.Decode(raw[8:]); err != nil {
				return fmt.Errorf("compressed buffer %d: %w", i, err)
			}
			if h.WindowSize > maxWindow {
				return fmt.Errorf("compressed buffer %d asks for a window of %d bytes", i, h.WindowSize)
			}
		}
	}
	return nil
}

// aligned returns b at an address that Arrow's types can be read from in place.
// Objects come from the store so aligned, and messages keep it; only a slice
// that begins at an odd place has to be copied.
func aligned(b []byte) []byte {
	if len(b) == 0 || uintptr(unsafe.Pointer(unsafe.SliceData(b)))%8 == 0 {
		return b
	}
	words := make([]uint64, (len(b)+7)/8)
	c := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), len(b))
	copy(c, b)
	return c
}
