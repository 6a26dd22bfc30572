package wal

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/memwal/memwal-go/objstore"
)

// Compression of batch bodies is the one of Arrow IPC: per buffer.
type Compression int

// Compressions.
const (
	CompressionNone Compression = iota
	CompressionLZ4
	CompressionZstd
)

// String implements fmt.Stringer.
func (c Compression) String() string {
	switch c {
	case CompressionNone:
		return "none"
	case CompressionLZ4:
		return "lz4"
	case CompressionZstd:
		return "zstd"
	}
	return "unknown"
}

// EncodeOptions choose how rows are laid out. The zero value is valid.
type EncodeOptions struct {
	// Compression of batch bodies.
	Compression Compression
	// CoalesceRows joins adjacent batches into record batches of at most that
	// many rows. Each record batch costs a few hundred bytes and its own
	// compression context, so joining pays for batches of a few rows; more than
	// some thousands only adds copying. 0: batches stay as they are. Batches of
	// types that cannot be joined exactly stay as they are, too.
	CoalesceRows int64
}

// Encoded is an entry ready to be put.
type Encoded struct {
	// Body refers to the column buffers of the batches that were encoded. It is
	// valid until Release and the same for every attempt to put it.
	Body objstore.Body
	// Size is the length of Body in bytes.
	Size int64
	// CRC32C is the checksum of Body, for [objstore.WithCRC32C].
	CRC32C uint32
	// Rows is the number of rows.
	Rows int64
	// Kinds are those of the footer.
	Kinds Kinds

	held []arrow.RecordBatch
}

// Release gives the batches back. Call it once the put has been resolved; the
// body must not be used after that. Calling it again does nothing.
func (e *Encoded) Release() {
	for _, rec := range e.held {
		rec.Release()
	}
	e.held, e.Body = nil, nil
}

// DecodeOptions bound decoding. The zero value is valid.
type DecodeOptions struct {
	// Allocator provides the memory of expanded (compressed) bodies.
	// Default: Go's heap.
	Allocator memory.Allocator
	// MaxExpanded bounds the bytes that compressed bodies of one entry may
	// expand to. Default: 1 GiB, sixteen times the largest entry that memwal
	// writes; smaller would refuse what repetitive text compresses to.
	MaxExpanded int64
}

const defaultMaxExpanded = 1 << 30

func (o DecodeOptions) withDefaults() DecodeOptions {
	if o.Allocator == nil {
		o.Allocator = memory.NewGoAllocator()
	}
	if o.MaxExpanded <= 0 {
		o.MaxExpanded = defaultMaxExpanded
	}
	return o
}

// Entry is a decoded entry.
type Entry struct {
	Header Header
	// Schema is the table's, without the header's metadata.
	Schema *arrow.Schema
	// Batches are in order, under Schema. They refer to the decoded bytes.
	Batches []arrow.RecordBatch
	// Rows is the sum over Batches.
	Rows int64
	// Side is nil if there is none.
	Side *Side
	// Kinds are the footer's; without a footer, what the entry shows.
	Kinds Kinds
	// HasFooter is false for entries of other programs.
	HasFooter bool
}

// Release releases the batches. Calling it again does nothing.
func (e *Entry) Release() {
	for _, rec := range e.Batches {
		rec.Release()
	}
	e.Batches = nil
}
