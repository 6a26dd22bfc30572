package pagefile

import (
	"context"
	"fmt"
	"hash/crc32"
	"sync/atomic"
)

// Source is where the bytes of an object come from. It is safe for concurrent use.
type Source interface {
	// Size is that of the whole object in bytes.
	Size() int64
	// ReadRange returns the length bytes from offset on, which are within the object.
	// Nobody changes them, for as long as somebody holds them.
	ReadRange(ctx context.Context, offset, length int64) ([]byte, error)
}

// Bytes is an object in memory. It is not copied, and stays the caller's, who must not
// change it.
type Bytes []byte

// Size implements Source.
func (b Bytes) Size() int64 { return int64(len(b)) }

// ReadRange implements Source.
func (b Bytes) ReadRange(_ context.Context, offset, length int64) ([]byte, error) {
	return b[offset : offset+length : offset+length], nil
}

// Options of Open. Zero values stand for the defaults.
type Options struct {
	// CacheBytes bounds the pages that are kept in memory, beyond those that a read is
	// looking at. Default 4 MiB: dictionaries and the ends of lists, not whole lists. At
	// least a page.
	CacheBytes int64
	// WholeBytes is the size up to which an object is read at once and kept. Default 1 MiB,
	// which takes an object store hardly longer than the footer alone.
	WholeBytes int64
}

func (o Options) withDefaults() Options {
	if o.CacheBytes <= 0 {
		o.CacheBytes = 4 << 20
	}
	if o.WholeBytes <= 0 {
		o.WholeBytes = 1 << 20
	}
	return o
}

// File is an open object.
type File struct {
	src      Source
	size     int64
	body     int64 // of the pages
	meta     []byte
	crcs     []byte
	sections map[uint32]Section
	held     int64 // bytes of footer, or of all

	// One of the two.
	whole   []byte // the pages
	checked []atomic.Uint32
	cache   *cache
}

// tailBytes is what Open reads from the end: the checksums of 15,000 pages, a gigabyte.
const tailBytes = 64 << 10

// Open opens an object.
func Open(ctx context.Context, src Source, o Options) (*File, error) {
	o = o.withDefaults()
	f := &File{src: src, size: src.Size()}
	if f.size < headerBytes+8+trailerBytes {
		return nil, f.corrupt(0, fmt.Sprintf("%d bytes are fewer than an object has", f.size))
	}
	given, inMemory := src.(Bytes)
	all := inMemory || f.size <= o.WholeBytes
	from := max(0, f.size-tailBytes)
	switch {
	case inMemory:
		from = 0
	case all:
		from = 0
		f.held = f.size
	default:
		f.held = f.size - from
	}
	end := []byte(given)
	if !inMemory {
		var err error
		if end, err = f.read(ctx, from, f.size-from); err != nil {
			return nil, err
		}
	}
	footer, err := f.trailer(end[len(end)-trailerBytes:])
	if err != nil {
		return nil, err
	}
	if footer < from {
		// It is longer than what was read.
		if end, err = f.read(ctx, footer, f.size-footer); err != nil {
			return nil, err
		}
		from, f.held = footer, f.size-footer
	}
	if err := f.footer(end[footer-from:]); err != nil {
		return nil, err
	}
	if all {
		f.whole = end[:f.body:f.body]
		f.checked = make([]atomic.Uint32, (pages(f.body)+31)/32)
	} else {
		f.cache = newCache(o.CacheBytes)
	}
	return f, nil
}

func (f *File) corrupt(offset int64, what string) error {
	return &CorruptError{Offset: offset, What: what}
}

// read reads a range as a whole.
func (f *File) read(ctx context.Context, offset, length int64) ([]byte, error) {
	b, err := f.src.ReadRange(ctx, offset, length)
	if err != nil {
		return nil, fmt.Errorf("read %d bytes at %d of an object: %w", length, offset, err)
	}
	if int64(len(b)) != length {
		return nil, f.corrupt(offset, fmt.Sprintf("%d bytes are there, expected %d", len(b), length))
	}
	return b, nil
}

// trailer reads the last bytes of the object, and returns where the footer begins. They
// are not checked yet, but no longer footer than can be is read on their word.
func (f *File) trailer(b []byte) (footer int64, err error) {
	at := f.size - trailerBytes
	if [8]byte(b[24:]) != magic {
		return 0, f.corrupt(at, "it does not end as such an object does")
	}
	if v := le.Uint32(b[16:]); v != Version {
		return 0, &VersionError{Got: v}
	}
	body, size := le.Uint64(b), le.Uint64(b[8:])
	if size != uint64(f.size) {
		return 0, f.corrupt(at, fmt.Sprintf("it has %d bytes, and says %d", f.size, size))
	}
	if body < headerBytes || body > uint64(at)-8 {
		return 0, f.corrupt(at, "its footer has no place")
	}
	least := 8 + 4*pages(int64(body))
	if n := at - int64(body); n < least || n > least+maxSections*sectionBytes+maxMeta {
		return 0, f.corrupt(at, fmt.Sprintf("its footer of %d bytes has no place", n))
	}
	return int64(body), nil
}

// footer reads what is behind the pages: footer and trailer.
func (f *File) footer(b []byte) error {
	f.body = f.size - int64(len(b))
	if err := f.checkFooter(b); err != nil {
		return err
	}
	n, meta := int64(le.Uint32(b)), int64(le.Uint32(b[4:]))
	b = b[8 : len(b)-trailerBytes]
	if n > maxSections || meta > maxMeta || n*sectionBytes+meta+4*pages(f.body) != int64(len(b)) {
		return f.corrupt(f.body, "the footer's length is wrong")
	}
	f.sections = make(map[uint32]Section, n)
	end := uint64(headerBytes)
	for ; n > 0; n, b = n-1, b[sectionBytes:] {
		id, offset, length := le.Uint64(b), le.Uint64(b[8:]), le.Uint64(b[16:])
		_, twice := f.sections[uint32(id)]
		if id>>32 != 0 || twice || offset%Align != 0 || offset < end || offset > uint64(f.body) || length > uint64(f.body)-offset {
			return f.corrupt(f.body, fmt.Sprintf("section %d has no place", id))
		}
		end = offset + length
		f.sections[uint32(id)] = Section{Offset: int64(offset), Length: int64(length)}
	}
	f.meta, f.crcs = b[:meta:meta], b[meta:]
	return nil
}

// checkFooter checks footer and trailer against their checksum.
func (f *File) checkFooter(b []byte) error {
	sum := len(b) - trailerBytes + 20
	if crc32.Checksum(b[:sum], castagnoli) != le.Uint32(b[sum:]) {
		return f.corrupt(f.size-int64(len(b)), "the footer's checksum is wrong")
	}
	return nil
}

// Meta is what the writer was closed with.
func (f *File) Meta() []byte { return f.meta }

// Size is that of the whole object.
func (f *File) Size() int64 { return f.size }

// Section is the section with an id; one without bytes if there is none.
func (f *File) Section(id uint32) Section { return f.sections[id] }

// Bytes is the memory that the file holds. An object that was given in memory does not
// count.
func (f *File) Bytes() int64 {
	n := f.held + int64(len(f.checked))*4
	if f.cache != nil {
		n += f.cache.bytes.Load()
	}
	return n
}

// Whole tells whether all of the object is in memory, so that views of it cost none.
func (f *File) Whole() bool { return f.whole != nil }

// View returns length bytes from offset on, which are within the pages: a slice of what
// is in memory, or a copy where they are in several pages. ahead is up to where the
// caller goes on reading: pages before it may come with the same request.
func (f *File) View(ctx context.Context, offset, length, ahead int64) ([]byte, error) {
	if length == 0 {
		return nil, nil
	}
	first, last := pageOf(offset), pageOf(offset+length-1)
	if f.whole != nil {
		for p := first; p <= last; p++ {
			if err := f.check(p); err != nil {
				return nil, err
			}
		}
		return f.whole[offset : offset+length : offset+length], nil
	}
	ahead = min(max(ahead, offset+length), f.body)
	page, err := f.page(ctx, first, pageOf(ahead-1))
	if err != nil {
		return nil, err
	}
	start := offset - first*PageBytes
	if first == last {
		return page[start : start+length : start+length], nil
	}
	out := append(make([]byte, 0, length), page[start:]...)
	for p := first + 1; p <= last; p++ {
		if page, err = f.page(ctx, p, pageOf(ahead-1)); err != nil {
			return nil, err
		}
		out = append(out, page[:min(length-int64(len(out)), int64(len(page)))]...)
	}
	return out, nil
}

// Run returns bytes from offset on, before end, as many as lie in one place: the rest of
// a page at least.
func (f *File) Run(ctx context.Context, offset, end int64) ([]byte, error) {
	return f.View(ctx, offset, min(end, (pageOf(offset)+1)*PageBytes)-offset, end)
}

// check checks a page of an object that is in memory, unless that was done.
func (f *File) check(page int64) error {
	word, bit := &f.checked[page/32], uint32(1)<<(page%32)
	if word.Load()&bit != 0 {
		return nil
	}
	start := page * PageBytes
	if err := f.verify(page, f.whole[start:min(start+PageBytes, f.body)]); err != nil {
		return err
	}
	word.Or(bit)
	return nil
}

func (f *File) verify(page int64, b []byte) error {
	if crc32.Checksum(b, castagnoli) != le.Uint32(f.crcs[4*page:]) {
		return f.corrupt(page*PageBytes, "the page's checksum is wrong")
	}
	return nil
}

// Verify reads the whole object from its source and checks every byte of it, and then
// what is held of a small object in memory.
func (f *File) Verify(ctx context.Context) error {
	_, inMemory := f.src.(Bytes)
	for at := int64(0); at < pages(f.body); at += readPages {
		if err := ctx.Err(); err != nil {
			return err
		}
		last := min(at+readPages, pages(f.body)) - 1
		b, err := f.read(ctx, at*PageBytes, min((last+1)*PageBytes, f.body)-at*PageBytes)
		if err != nil {
			return err
		}
		for p := at; p <= last; p++ {
			n := min(PageBytes, len(b))
			if err := f.verify(p, b[:n]); err != nil {
				return err
			}
			if p == 0 && ([8]byte(b) != magic || le.Uint32(b[8:]) != Version || le.Uint32(b[12:]) != PageBytes) {
				return f.corrupt(0, "it does not begin as such an object does")
			}
			b = b[n:]
			if f.whole != nil && !inMemory {
				if err := f.check(p); err != nil {
					return err
				}
			}
		}
	}
	// The footer, which was checked when the object was opened, may have changed since.
	b, err := f.read(ctx, f.body, f.size-f.body)
	if err != nil {
		return err
	}
	if _, err := f.trailer(b[len(b)-trailerBytes:]); err != nil {
		return err
	}
	return f.checkFooter(b)
}
