package wal

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// Kinds is the set of record kinds that an entry holds. Recycling reads it to
// see whether an entry holds something that no floor covers. Bits that this
// program does not know are kept: an entry that has one must stay.
type Kinds uint64

// Record kinds.
const (
	KindRows Kinds = 1 << iota
	KindFence
	KindAnnotation
	KindJournal

	knownKinds = KindRows | KindFence | KindAnnotation | KindJournal
)

// Has reports whether the set holds every kind of k.
func (s Kinds) Has(k Kinds) bool { return s&k == k }

// Unknown returns the kinds that this program does not know.
func (s Kinds) Unknown() Kinds { return s &^ knownKinds }

// FooterSize is the length of the footer, which ends every entry of memwal.
const FooterSize = 64

// footerMagic begins with a byte that no text has and holds a line end, so that
// a transfer that translates text is noticed.
const footerMagic = "\x89mwal\r\n\x1a"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Footer ends an entry. It is fixed in size, so that one ranged read of an
// object's last bytes tells what the object holds.
//
//	 0         stream                                                   -64    0
//	┌─────────────────────────────┬────────────┬───┬──────────────┬──────────┐
//	│ Arrow IPC stream            │ ff ff ff ff│   │ side section │  footer  │
//	│ schema · batches            │ 00 00 00 00│   │ (protobuf)   │          │
//	└─────────────────────────────┴────────────┴───┴──────────────┴──────────┘
//	                               end of stream: Arrow readers stop here
//
//	footer, little endian:
//	 0  magic        8   89 'mwal' 0d 0a 1a
//	 8  version      4
//	12  size         4   64: length of the footer itself
//	16  kinds        8   bit per record kind
//	24  stream       8   length of the stream, end marker included
//	32  side         8   length of the side section
//	40  rows         8
//	48  reserved     8   0
//	56  crc          4   CRC-32C of everything before the footer
//	60  footer crc   4   CRC-32C of the footer's first 60 bytes
type Footer struct {
	Version   int
	Kinds     Kinds
	StreamLen int64
	SideLen   int64
	Rows      int64
	CRC       uint32
}

func (f Footer) encode() []byte {
	b := make([]byte, FooterSize)
	copy(b, footerMagic)
	binary.LittleEndian.PutUint32(b[8:], uint32(f.Version))
	binary.LittleEndian.PutUint32(b[12:], FooterSize)
	binary.LittleEndian.PutUint64(b[16:], uint64(f.Kinds))
	binary.LittleEndian.PutUint64(b[24:], uint64(f.StreamLen))
	binary.LittleEndian.PutUint64(b[32:], uint64(f.SideLen))
	binary.LittleEndian.PutUint64(b[40:], uint64(f.Rows))
	binary.LittleEndian.PutUint32(b[56:], f.CRC)
	binary.LittleEndian.PutUint32(b[60:], crc32.Checksum(b[:60], castagnoli))
	return b
}

// DecodeFooter reads the footer from the end of tail: a whole entry, or its last
// FooterSize bytes or more. It reports ok = false, without an error, if there is
// no footer: another program's entry, or one that lost its end. The checksum of
// what precedes the footer is not checked here.
func DecodeFooter(tail []byte) (f Footer, ok bool, err error) {
	if len(tail) < FooterSize {
		return Footer{}, false, nil
	}
	b := tail[len(tail)-FooterSize:]
	if string(b[:8]) != footerMagic {
		return Footer{}, false, nil
	}
	if got, want := crc32.Checksum(b[:60], castagnoli), binary.LittleEndian.Uint32(b[60:]); got != want {
		return Footer{}, false, corruptf("footer checksum is %08x, recorded as %08x", got, want)
	}
	version, size := binary.LittleEndian.Uint32(b[8:]), binary.LittleEndian.Uint32(b[12:])
	if version != Version || size != FooterSize {
		return Footer{}, false, &CorruptError{
			Reason: fmt.Sprintf("footer of version %d and %d bytes, this program knows version %d", version, size, Version),
			Err:    ErrUnsupported,
		}
	}
	f = Footer{
		Version:   int(version),
		Kinds:     Kinds(binary.LittleEndian.Uint64(b[16:])),
		StreamLen: int64(binary.LittleEndian.Uint64(b[24:])),
		SideLen:   int64(binary.LittleEndian.Uint64(b[32:])),
		Rows:      int64(binary.LittleEndian.Uint64(b[40:])),
		CRC:       binary.LittleEndian.Uint32(b[56:]),
	}
	if f.StreamLen < 0 || f.SideLen < 0 || f.Rows < 0 {
		return Footer{}, false, corruptf("footer has a negative length")
	}
	return f, true, nil
}

// check compares the footer with the entry that it ends.
func (f Footer) check(data []byte) error {
	body := int64(len(data) - FooterSize)
	if f.StreamLen > body || f.SideLen != body-f.StreamLen {
		return corruptf("footer tells of %d + %d bytes before it, there are %d", f.StreamLen, f.SideLen, body)
	}
	if got := crc32.Checksum(data[:body], castagnoli); got != f.CRC {
		return corruptf("checksum of the entry is %08x, recorded as %08x", got, f.CRC)
	}
	return nil
}
