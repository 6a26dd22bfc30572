package pagefile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

const (
	// Version of the format that this package reads and writes.
	Version = 1
	// PageBytes is what has one checksum: less would be more checksums than they are
	// worth, more would be read for nothing where a few bytes are wanted.
	PageBytes = 64 << 10
	// Align is where sections begin, so that numbers of fixed width in them, and records
	// of this size, are in one page.
	Align = 64

	headerBytes  = 16
	trailerBytes = 32
	sectionBytes = 24

	// maxSections bounds what a reader takes: there are as many as the writer's code has.
	maxSections = 64
	// maxMeta bounds what an object is closed with, and so what Open reads: a thousand times
	// what a description of a few columns takes.
	maxMeta = 1 << 20
)

var (
	magic = [8]byte{0x89, 'm', 'w', 'i', 'x', '\r', '\n', 0x1a}

	castagnoli = crc32.MakeTable(crc32.Castagnoli)

	le = binary.LittleEndian
)

// ErrCorrupt is the category of *CorruptError.
var ErrCorrupt = errors.New("damaged object")

// ErrVersion is the category of *VersionError.
var ErrVersion = errors.New("object of another version")

// CorruptError reports bytes that are not what was written. Reading them again may help
// where they come from a cache or a proxy; otherwise the object has to be made anew.
type CorruptError struct {
	Offset int64 // in the object, of the page or the structure that is damaged
	What   string
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("object damaged at byte %d: %s; it has to be made anew", e.Offset, e.What)
}

func (e *CorruptError) Is(target error) bool { return target == ErrCorrupt }

// VersionError reports an object that another version of this program has written.
type VersionError struct{ Got uint32 }

func (e *VersionError) Error() string {
	return fmt.Sprintf("object of version %d, this program reads version %d: use the program that wrote it, or make it anew", e.Got, Version)
}

func (e *VersionError) Is(target error) bool { return target == ErrVersion }

// Section is a part of the object.
type Section struct{ Offset, Length int64 }

// End is the offset behind the section.
func (s Section) End() int64 { return s.Offset + s.Length }

// pageOf is the number of the page with the byte at an offset.
func pageOf(offset int64) int64 { return offset / PageBytes }

func pages(body int64) int64 { return (body + PageBytes - 1) / PageBytes }
