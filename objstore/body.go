package objstore

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// Body is the content of an object in consecutive slices. They are sent one
// after the other and never copied together, so that buffers that live
// elsewhere, such as those of Arrow arrays, go out as they are.
//
// The slices belong to whoever made the Body. They must not change until the
// put that they were given to has returned.
type Body [][]byte

// Len is the length in bytes.
func (b Body) Len() int64 {
	var n int64
	for _, s := range b {
		n += int64(len(s))
	}
	return n
}

// Bytes returns a copy in one piece.
func (b Body) Bytes() []byte {
	out := make([]byte, 0, b.Len())
	for _, s := range b {
		out = append(out, s...)
	}
	return out
}

// CRC32C is the Castagnoli checksum of the content.
func (b Body) CRC32C() uint32 {
	var sum uint32
	for _, s := range b {
		sum = crc32.Update(sum, castagnoli, s)
	}
	return sum
}

// crcKey is the context key of a put's checksum. It is no part of Body because
// one adapter alone has use for it; the context reaches that through any wrapper
// in between.
type crcKey struct{}

// WithCRC32C returns a context for the put of a body whose Castagnoli checksum
// is known already, so that an adapter that sends it along does not compute it
// again. A wrong one makes the store refuse the put.
func WithCRC32C(ctx context.Context, sum uint32) context.Context {
	return context.WithValue(ctx, crcKey{}, sum)
}

// crcOf is the checksum of a body that is put with ctx.
func crcOf(ctx context.Context, body Body) uint32 {
	if sum, ok := ctx.Value(crcKey{}).(uint32); ok {
		return sum
	}
	return body.CRC32C()
}

// contentType is what all our objects are to a store.
const contentType = "application/octet-stream"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// NewReader returns a reader over the slices, at the start. It is an
// io.WriterTo as well, which writes the slices without a buffer in between. It
// is for one goroutine.
func (b Body) NewReader() io.ReadSeeker { return &bodyReader{body: b, size: b.Len()} }

// bodyReader reads a Body.
//
// Invariant: pos is the offset of body[slice][within:]; 0 ≤ pos ≤ size;
// at the end slice == len(body).
type bodyReader struct {
	body   Body
	size   int64
	pos    int64
	slice  int
	within int
}

func (r *bodyReader) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) && r.slice < len(r.body) {
		c := copy(p[n:], r.body[r.slice][r.within:])
		n += c
		r.advance(c)
	}
	if n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

// advance moves by n bytes, which must lie within the current slice, and on to
// the next slice where that one ends.
func (r *bodyReader) advance(n int) {
	r.pos += int64(n)
	r.within += n
	for r.slice < len(r.body) && r.within == len(r.body[r.slice]) {
		r.slice, r.within = r.slice+1, 0
	}
}

// WriteTo implements io.WriterTo.
func (r *bodyReader) WriteTo(w io.Writer) (int64, error) {
	var total int64
	for r.slice < len(r.body) {
		rest := r.body[r.slice][r.within:]
		n, err := w.Write(rest)
		total += int64(n)
		r.advance(n)
		if err != nil {
			return total, err
		}
		if n < len(rest) {
			return total, io.ErrShortWrite
		}
	}
	return total, nil
}

// Seek implements io.Seeker. Unlike a file, it refuses offsets beyond the end.
func (r *bodyReader) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekStart:
	case io.SeekCurrent:
		offset += r.pos
	case io.SeekEnd:
		offset += r.size
	default:
		return 0, errors.New("objstore: seek in body: unknown whence")
	}
	if offset < 0 || offset > r.size {
		return 0, fmt.Errorf("objstore: seek in body: offset %d is outside of 0 to %d", offset, r.size)
	}
	r.pos, r.slice, r.within = 0, 0, 0
	r.advance(0)
	for left := offset; r.slice < len(r.body) && left > 0; {
		step := min(left, int64(len(r.body[r.slice])))
		r.advance(int(step))
		left -= step
	}
	return offset, nil
}
