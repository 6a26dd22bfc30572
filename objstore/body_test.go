package objstore

import (
	"bytes"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"testing"
	"testing/iotest"
)

func TestBodyReader(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	for range 200 {
		var body Body
		for range rng.IntN(6) {
			s := make([]byte, rng.IntN(4)*rng.IntN(50))
			for i := range s {
				s[i] = byte(rng.Uint32())
			}
			body = append(body, s)
		}
		want := bytes.Join(body, nil)
		if !bytes.Equal(body.Bytes(), want) || body.Len() != int64(len(want)) {
			t.Fatalf("Bytes or Len of %v", body)
		}
		if body.CRC32C() != crc32.Checksum(want, crc32.MakeTable(crc32.Castagnoli)) {
			t.Fatalf("CRC32C of %v", body)
		}
		if err := iotest.TestReader(body.NewReader(), want); err != nil { // seeks as well
			t.Fatal(err)
		}
		at := int64(rng.IntN(len(want) + 1))
		r := body.NewReader()
		if _, err := r.Seek(at, io.SeekStart); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if n, err := r.(io.WriterTo).WriteTo(&out); err != nil || n != int64(len(want))-at || !bytes.Equal(out.Bytes(), want[at:]) {
			t.Fatalf("WriteTo from %d = %d, %v", at, n, err)
		}
		if _, err := r.Seek(1, io.SeekEnd); err == nil {
			t.Fatal("seek beyond the end")
		}
	}
}

// TestBodyReaderShortWrite: a failed write leaves the reader where the writer
// stopped.
func TestBodyReaderShortWrite(t *testing.T) {
	r := Body{[]byte("abc"), []byte("defg")}.NewReader()
	if n, err := r.(io.WriterTo).WriteTo(&limited{n: 5}); n != 5 || err != io.ErrShortWrite {
		t.Fatalf("WriteTo = %d, %v", n, err)
	}
	if rest, err := io.ReadAll(r); string(rest) != "fg" || err != nil {
		t.Fatalf("the rest is %q, %v", rest, err)
	}
}

type limited struct{ n int }

func (l *limited) Write(p []byte) (int, error) {
	n := min(len(p), l.n)
	l.n -= n
	if n < len(p) {
		return n, io.ErrShortWrite
	}
	return n, nil
}
