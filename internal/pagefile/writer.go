package pagefile

import (
	"fmt"
	"hash/crc32"
	"io"
)

// Writer writes an object from its beginning to its end. It is for one goroutine, and
// fails for good with the first error of what it writes to.
type Writer struct {
	to       io.Writer
	page     []byte // not yet written
	offset   int64
	crcs     []byte
	sections []byte
	open     bool // a section is
	err      error
}

// NewWriter begins an object.
func NewWriter(to io.Writer) *Writer {
	w := &Writer{to: to, page: make([]byte, 0, PageBytes)}
	header := le.AppendUint32(magic[:len(magic):len(magic)], Version)
	w.put(le.AppendUint32(header, PageBytes))
	return w
}

// Section ends the section before it, and begins another one. Ids are the caller's.
func (w *Writer) Section(id uint32) {
	w.end()
	if n := w.offset % Align; n > 0 {
		var zeros [Align]byte
		w.put(zeros[n:])
	}
	w.sections = le.AppendUint64(le.AppendUint64(w.sections, uint64(id)), uint64(w.offset))
	w.open = true
}

func (w *Writer) end() {
	if w.open {
		start := int64(le.Uint64(w.sections[len(w.sections)-8:]))
		w.sections = le.AppendUint64(w.sections, uint64(w.offset-start))
		w.open = false
	}
}

// Write implements io.Writer: it adds to the section.
func (w *Writer) Write(b []byte) (int, error) {
	w.put(b)
	return len(b), w.err
}

func (w *Writer) put(b []byte) {
	w.offset += int64(len(b))
	for len(b) > 0 {
		n := min(len(b), PageBytes-len(w.page))
		w.page = append(w.page, b[:n]...)
		b = b[n:]
		if len(w.page) == PageBytes {
			w.flush()
		}
	}
}

func (w *Writer) flush() {
	w.crcs = le.AppendUint32(w.crcs, crc32.Checksum(w.page, castagnoli))
	w.send(w.page)
	w.page = w.page[:0]
}

func (w *Writer) send(b []byte) {
	if w.err != nil {
		return
	}
	n, err := w.to.Write(b)
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	if err != nil {
		w.err = fmt.Errorf("write an object: %w", err)
	}
}

// Err is the first error of what the object is written to. After it nothing is written,
// whatever Write is given.
func (w *Writer) Err() error { return w.err }

// Close ends the object. meta is kept in the footer, which every Open reads; it has a
// mebibyte at most, and there are at most 64 sections. size is that of the whole object.
func (w *Writer) Close(meta []byte) (size int64, err error) {
	w.end()
	if n := len(w.sections) / sectionBytes; n > maxSections || len(meta) > maxMeta {
		return 0, fmt.Errorf("write an object: %d sections and %d bytes to describe them, at most %d and %d can be read", n, len(meta), maxSections, maxMeta)
	}
	if len(w.page) > 0 {
		w.flush()
	}
	footer := le.AppendUint32(nil, uint32(len(w.sections)/sectionBytes))
	footer = le.AppendUint32(footer, uint32(len(meta)))
	footer = append(footer, w.sections...)
	footer = append(footer, meta...)
	footer = append(footer, w.crcs...)
	size = w.offset + int64(len(footer)) + trailerBytes
	end := le.AppendUint64(footer, uint64(w.offset))
	end = le.AppendUint64(end, uint64(size))
	end = le.AppendUint32(end, Version)
	end = le.AppendUint32(end, crc32.Checksum(end, castagnoli))
	w.send(append(end, magic[:]...))
	return size, w.err
}
