package pagefile

import (
	"bytes"
	"context"
	"errors"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

// object is one of several sections with n bytes in all.
func object(t testing.TB, n int) (b []byte, content map[uint32][]byte) {
	r := rand.New(rand.NewPCG(1, uint64(n)))
	content = map[uint32][]byte{}
	var buf bytes.Buffer
	w := NewWriter(&buf)
	for id, part := range []int{0, n / 10, n - n/10, 0, 3} {
		w.Section(uint32(id))
		for range part {
			c := byte(r.Uint32())
			content[uint32(id)] = append(content[uint32(id)], c)
			w.Write([]byte{c})
		}
	}
	size, err := w.Close([]byte("meta"))
	if err != nil || size != int64(buf.Len()) {
		t.Fatalf("%d bytes, %v; want %d", size, err, buf.Len())
	}
	return buf.Bytes(), content
}

// source is an object that is read in ranges.
type source struct {
	b    []byte
	size int64
	read func(ctx context.Context, offset, length int64) ([]byte, error)

	mu      sync.Mutex
	lengths []int64
}

func ranges(b []byte) *source { return &source{b: b, size: int64(len(b))} }

func (s *source) Size() int64 { return s.size }

func (s *source) ReadRange(ctx context.Context, offset, length int64) ([]byte, error) {
	s.mu.Lock()
	s.lengths = append(s.lengths, length)
	s.mu.Unlock()
	if s.read != nil {
		return s.read(ctx, offset, length)
	}
	return bytes.Clone(s.b[offset : offset+length]), nil
}

var large = Options{WholeBytes: 1}

func check(t *testing.T, f *File, content map[uint32][]byte) {
	t.Helper()
	for id, want := range content {
		s := f.Section(id)
		got, err := f.View(t.Context(), s.Offset, s.Length, 0)
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("section %d: %d bytes, %v; want %d", id, len(got), err, len(want))
		}
		for range 20 {
			if len(want) == 0 {
				break
			}
			from := rand.IntN(len(want))
			n := min(rand.IntN(3*PageBytes), len(want)-from)
			got, err := f.View(t.Context(), s.Offset+int64(from), int64(n), s.End())
			if err != nil || !bytes.Equal(got, want[from:from+n]) {
				t.Fatalf("section %d, %d bytes from %d: %v", id, n, from, err)
			}
			run, err := f.Run(t.Context(), s.Offset+int64(from), s.End())
			if err != nil || len(run) == 0 || !bytes.Equal(run, want[from:from+len(run)]) {
				t.Fatalf("section %d, run from %d: %v", id, from, err)
			}
		}
	}
	if string(f.Meta()) != "meta" {
		t.Errorf("meta %q", f.Meta())
	}
	if err := f.Verify(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestRoundTrip(t *testing.T) {
	for _, n := range []int{0, 1, 100, PageBytes - headerBytes, PageBytes, 5 * PageBytes, 40*PageBytes + 7} {
		b, content := object(t, n)
		for name, o := range map[string]Options{"": {}, "ranges": large, "a small cache": {WholeBytes: 1, CacheBytes: 1}} {
			for _, src := range []Source{Bytes(b), ranges(b)} {
				f, err := Open(t.Context(), src, o)
				if err != nil {
					t.Fatalf("%d bytes, %s: %v", n, name, err)
				}
				check(t, f, content)
			}
		}
	}
}

// A footer longer than what is read first takes one more read.
func TestLongFooter(t *testing.T) {
	var buf bytes.Buffer
	w := NewWriter(&buf)
	w.Section(1)
	w.Write(make([]byte, 10*PageBytes))
	meta := bytes.Repeat([]byte("m"), 2*tailBytes)
	if _, err := w.Close(meta); err != nil {
		t.Fatal(err)
	}
	src := ranges(buf.Bytes())
	f, err := Open(t.Context(), src, large)
	if err != nil || !bytes.Equal(f.Meta(), meta) || len(src.lengths) != 2 {
		t.Errorf("%v, %d reads", err, len(src.lengths))
	}
}

// TestWrongPlaceOfTheFooter: the trailer says where the footer begins, and is only checked
// with it. A flipped bit there does not make Open read the whole object, which is of any
// size.
func TestWrongPlaceOfTheFooter(t *testing.T) {
	b, _ := object(t, 36*PageBytes)
	at := len(b) - trailerBytes
	far := 0
	for bit := range 64 {
		b[at+bit/8] ^= 1 << (bit % 8)
		src := ranges(b)
		if _, err := Open(t.Context(), src, large); !errors.Is(err, ErrCorrupt) {
			t.Errorf("bit %d: %v", bit, err)
		}
		read := int64(0)
		for _, n := range src.lengths {
			read += n
		}
		if le.Uint64(b[at:]) < uint64(len(b))/2 {
			far++
			if read > tailBytes {
				t.Errorf("bit %d: %d bytes of %d are read", bit, read, len(b))
			}
		}
		if most := int64(tailBytes + 8 + maxSections*sectionBytes + maxMeta + 4*37); read > most {
			t.Errorf("bit %d: %d bytes are read, more than the %d of the longest footer", bit, read, most)
		}
		b[at+bit/8] ^= 1 << (bit % 8)
	}
	if far == 0 {
		t.Error("no bit was far off")
	}
}

// TestLongestMeta: what is written with Close is as long as a reader takes, and no longer.
func TestLongestMeta(t *testing.T) {
	for n, ok := range map[int]bool{maxMeta: true, maxMeta + 1: false} {
		var buf bytes.Buffer
		w := NewWriter(&buf)
		for id := range uint32(maxSections) {
			w.Section(id)
		}
		w.Write(make([]byte, 10*PageBytes))
		meta := make([]byte, n)
		if _, err := w.Close(meta); (err == nil) != ok {
			t.Errorf("%d bytes: %v", n, err)
		} else if !ok {
			continue
		}
		if f, err := Open(t.Context(), ranges(buf.Bytes()), large); err != nil || len(f.Meta()) != n {
			t.Errorf("%d bytes do not open: %v", n, err)
		}
	}
	w := NewWriter(io.Discard)
	for id := range uint32(maxSections + 1) {
		w.Section(id)
	}
	if _, err := w.Close(nil); err == nil {
		t.Error("more sections than a reader takes")
	}
}

// A small object takes one read, a large one one read for its end, and one for pages
// that lie side by side; what was read stays, within its bound.
func TestReads(t *testing.T) {
	b, content := object(t, 40*PageBytes)
	src := ranges(b)
	f, err := Open(t.Context(), src, Options{WholeBytes: int64(len(b))})
	if err != nil {
		t.Fatal(err)
	}
	check(t, f, content)
	if len(src.lengths) != 1+4 || f.Bytes() < int64(len(b)) { // four by Verify
		t.Errorf("small: %d reads, %d bytes held", len(src.lengths), f.Bytes())
	}

	src = ranges(b)
	const most = 20 * PageBytes
	if f, err = Open(t.Context(), src, Options{WholeBytes: 1, CacheBytes: most}); err != nil {
		t.Fatal(err)
	}
	s := f.Section(2)
	for at := s.Offset; at < s.End(); {
		run, err := f.Run(t.Context(), at, s.End())
		if err != nil {
			t.Fatal(err)
		}
		at += int64(len(run))
		if f.Bytes() > most+tailBytes+1000 {
			t.Fatalf("it holds %d bytes", f.Bytes())
		}
	}
	if n := len(src.lengths); n > 6 {
		t.Errorf("a walk over 40 pages takes %d reads: %d", n, src.lengths)
	}
	n := len(src.lengths)
	if _, err := f.View(t.Context(), s.End()-100, 100, 0); err != nil || len(src.lengths) != n {
		t.Errorf("a page that was just read is read again: %v", err)
	}
	if f, err = Open(t.Context(), Bytes(b), Options{}); err != nil || f.Bytes() > 4096 {
		t.Errorf("an object in memory is counted: %d, %v", f.Bytes(), err)
	}
	got, err := f.View(t.Context(), s.Offset, 10, 0)
	if err != nil || &got[0] != &b[s.Offset] {
		t.Error("an object in memory is copied")
	}
}

// TestFlippedBits: a flipped bit, wherever it is, is found by Verify or at open, and
// no read gives bytes that were not written.
func TestFlippedBits(t *testing.T) {
	b, content := object(t, 100)
	for i := range len(b) * 8 {
		bad := bytes.Clone(b)
		bad[i/8] ^= 1 << (i % 8)
		for _, o := range []Options{{}, large} {
			src := ranges(bad)
			f, err := Open(t.Context(), src, o)
			if err == nil {
				err = f.Verify(t.Context())
				for id, want := range content {
					s := f.Section(id)
					if got, err := f.View(t.Context(), s.Offset, s.Length, 0); err == nil && !bytes.Equal(got, want) {
						t.Fatalf("bit %d of byte %d: section %d has other bytes", i%8, i/8, id)
					}
				}
			}
			if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrVersion) {
				t.Fatalf("bit %d of byte %d of %d: %v", i%8, i/8, len(b), err)
			}
		}
	}
}

// TestDamage: an object that is cut off, goes on, or lacks a piece, and what is no object.
func TestDamage(t *testing.T) {
	b, _ := object(t, 3*PageBytes)
	for name, bad := range map[string][]byte{
		"nothing":    nil,
		"a byte":     {1},
		"zeros":      make([]byte, 1000),
		"no end":     b[:len(b)-1],
		"half":       b[:len(b)/2],
		"goes on":    append(bytes.Clone(b), 0),
		"twice":      append(bytes.Clone(b), b...),
		"lacks":      append(bytes.Clone(b[:PageBytes]), b[2*PageBytes:]...),
		"only end":   b[len(b)-100:],
		"other text": bytes.Repeat([]byte("text "), 1000),
	} {
		for _, o := range []Options{{}, large} {
			if _, err := Open(t.Context(), ranges(bad), o); !errors.Is(err, ErrCorrupt) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func TestVersion(t *testing.T) {
	b, _ := object(t, 100)
	le.PutUint32(b[len(b)-trailerBytes+16:], Version+1)
	var v *VersionError
	if _, err := Open(t.Context(), Bytes(b), Options{}); !errors.Is(err, ErrVersion) || !errors.As(err, &v) || v.Got != Version+1 {
		t.Errorf("%v", err)
	}
}

// TestSections: a footer that is intact but places sections where none can be.
func TestSections(t *testing.T) {
	b, _ := object(t, 100)
	body := int64(le.Uint64(b[len(b)-trailerBytes:]))
	for name, change := range map[string]func(footer []byte){
		"behind the end": func(f []byte) { le.PutUint64(f[8+2*sectionBytes+16:], 1<<40) },
		"overflow":       func(f []byte) { le.PutUint64(f[8+2*sectionBytes+16:], 1<<64-1) },
		"offset":         func(f []byte) { le.PutUint64(f[8+2*sectionBytes+8:], 1<<63) },
		"not aligned":    func(f []byte) { le.PutUint64(f[8+2*sectionBytes+8:], 65) },
		"twice":          func(f []byte) { le.PutUint64(f[8+2*sectionBytes:], 1) },
		"many":           func(f []byte) { le.PutUint32(f, 1<<31) },
		"long meta":      func(f []byte) { le.PutUint32(f[4:], 1<<31) },
	} {
		bad := bytes.Clone(b)
		change(bad[body:])
		end := len(bad) - trailerBytes + 20
		le.PutUint32(bad[end:], crc32.Checksum(bad[body:end], castagnoli))
		if _, err := Open(t.Context(), Bytes(bad), Options{}); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestHeader: an object with right checksums that begins as another one is found by
// Verify.
func TestHeader(t *testing.T) {
	b, _ := object(t, 100)
	body := int64(le.Uint64(b[len(b)-trailerBytes:]))
	for _, at := range []int{0, 7, 8, 13} {
		bad := bytes.Clone(b)
		bad[at] ^= 1
		end := len(bad) - trailerBytes
		le.PutUint32(bad[end-4:], crc32.Checksum(bad[:body], castagnoli))
		le.PutUint32(bad[end+20:], crc32.Checksum(bad[body:end+20], castagnoli))
		f, err := Open(t.Context(), Bytes(bad), Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Verify(t.Context()); !errors.Is(err, ErrCorrupt) {
			t.Errorf("byte %d: %v", at, err)
		}
	}
}

// TestFailingReads: what goes wrong in a read comes out as it is, is not kept, and the
// next read succeeds.
func TestFailingReads(t *testing.T) {
	b, content := object(t, 20*PageBytes)
	gone := errors.New("gone")
	src := ranges(b)
	src.read = func(context.Context, int64, int64) ([]byte, error) { return nil, gone }
	if _, err := Open(t.Context(), src, large); !errors.Is(err, gone) {
		t.Errorf("open: %v", err)
	}
	src.read = nil
	f, err := Open(t.Context(), src, large)
	if err != nil {
		t.Fatal(err)
	}
	s := f.Section(2)
	for name, c := range map[string]struct {
		read func(ctx context.Context, offset, length int64) ([]byte, error)
		want error
	}{
		"fails":      {func(context.Context, int64, int64) ([]byte, error) { return nil, gone }, gone},
		"is short":   {func(_ context.Context, at, n int64) ([]byte, error) { return b[at : at+n-1], nil }, ErrCorrupt},
		"is empty":   {func(context.Context, int64, int64) ([]byte, error) { return nil, nil }, ErrCorrupt},
		"is longer":  {func(_ context.Context, at, n int64) ([]byte, error) { return b[at : at+n+1], nil }, ErrCorrupt},
		"is another": {func(_ context.Context, at, n int64) ([]byte, error) { return b[at+1 : at+1+n], nil }, ErrCorrupt},
	} {
		src.read = c.read
		for _, call := range []func() error{
			func() error { _, err := f.View(t.Context(), s.Offset, 100, 0); return err },
			func() error { _, err := f.View(t.Context(), s.Offset, s.Length, 0); return err },
			func() error { return f.Verify(t.Context()) },
		} {
			if err := call(); !errors.Is(err, c.want) {
				t.Errorf("a read that %s: %v", name, err)
			}
		}
	}
	src.read = nil
	check(t, f, content)
}

// TestDamageAhead: a damaged page that was read along is an error for who asks for it,
// and for nobody else.
func TestDamageAhead(t *testing.T) {
	b, _ := object(t, 20*PageBytes)
	b[5*PageBytes] ^= 1
	f, err := Open(t.Context(), ranges(b), large)
	if err != nil {
		t.Fatal(err)
	}
	for page := int64(1); page < 12; page++ {
		_, err := f.View(t.Context(), page*PageBytes, 10, 12*PageBytes)
		if (page == 5) != errors.Is(err, ErrCorrupt) {
			t.Errorf("page %d: %v", page, err)
		}
	}
}

// TestVerifyReadsTheSource: what changes after an object was opened, whichever byte, is
// found by Verify, also where a small object is kept in memory; and so is what was read
// wrong then of one that is intact.
func TestVerifyReadsTheSource(t *testing.T) {
	b, content := object(t, 3*PageBytes)
	for name, o := range map[string]Options{"in memory": {}, "by ranges": large} {
		src := ranges(bytes.Clone(b))
		f, err := Open(t.Context(), src, o)
		if err != nil {
			t.Fatal(err)
		}
		check(t, f, content)
		for at := 0; at < len(b); at += 1 + rand.IntN(PageBytes/8) {
			src.b[at] ^= 1
			if err := f.Verify(t.Context()); !errors.Is(err, ErrCorrupt) {
				t.Errorf("%s, byte %d: %v", name, at, err)
			}
			src.b[at] ^= 1
		}
		for at := len(b) - trailerBytes; at < len(b); at++ {
			src.b[at] ^= 1
			if err := f.Verify(t.Context()); !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrVersion) {
				t.Errorf("%s, byte %d: %v", name, at, err)
			}
			src.b[at] ^= 1
		}
		if err := f.Verify(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}

	src := ranges(bytes.Clone(b))
	src.b[PageBytes] ^= 1
	f, err := Open(t.Context(), src, Options{})
	if err != nil {
		t.Fatal(err)
	}
	src.b[PageBytes] ^= 1
	if err := f.Verify(t.Context()); !errors.Is(err, ErrCorrupt) {
		t.Errorf("damage in memory: %v", err)
	}
}

// TestSlowReads: a caller who leaves does not wait for the store.
func TestSlowReads(t *testing.T) {
	b, _ := object(t, 3*PageBytes)
	src := ranges(b)
	f, err := Open(t.Context(), src, large)
	if err != nil {
		t.Fatal(err)
	}
	src.read = func(ctx context.Context, _, _ int64) ([]byte, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := f.View(ctx, PageBytes, 10, 0); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	if err := f.Verify(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("verify: %v", err)
	}
}

type failing struct{ after int }

func (w *failing) Write(b []byte) (int, error) {
	if w.after -= len(b); w.after < 0 {
		return 0, io.ErrClosedPipe
	}
	return len(b), nil
}

// TestFailingWrites: the first error of the writer is the error of Close.
func TestFailingWrites(t *testing.T) {
	for _, after := range []int{0, PageBytes, 2 * PageBytes} {
		w := NewWriter(&failing{after: after})
		w.Section(1)
		w.Write(make([]byte, 2*PageBytes))
		if _, err := w.Close(nil); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("after %d bytes: %v", after, err)
		}
	}
}

// TestConcurrentViews: many readers of one file with a cache that is too small for them.
func TestConcurrentViews(t *testing.T) {
	b, content := object(t, 30*PageBytes)
	for _, o := range []Options{{WholeBytes: 1, CacheBytes: 3 * PageBytes}, {WholeBytes: 1 << 30}} {
		f, err := Open(t.Context(), ranges(b), o)
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				s, want := f.Section(2), content[2]
				for range 300 {
					from := rand.IntN(len(want))
					n := min(rand.IntN(2*PageBytes), len(want)-from)
					got, err := f.View(t.Context(), s.Offset+int64(from), int64(n), s.Offset+int64(from+n)+rand.Int64N(PageBytes*4))
					if err != nil || !bytes.Equal(got, want[from:from+n]) {
						t.Errorf("%d bytes at %d: %v", n, from, err)
						return
					}
				}
			})
		}
		wg.Wait()
		if o.CacheBytes > 0 && f.cache.bytes.Load() > o.CacheBytes {
			t.Errorf("the cache has %d bytes", f.cache.bytes.Load())
		}
	}
}
