package wal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// This file reads just enough of the FlatBuffers in which Arrow writes its
// messages to check them before arrow-go parses them. arrow-go allocates by the
// counts that it finds, and descends as deep as it is told; a few damaged bytes
// could ask for terabytes or an endless recursion, which no recover can stop.
//
// Table slots are those of Arrow's Message.fbs and Schema.fbs.

// errFlat says that a FlatBuffer points outside itself.
var errFlat = errors.New("message metadata points outside itself")

const (
	maxFlatDepth   = 64      // nesting of fields; arrow-go reads bodies up to 64 deep
	maxFlatStrings = 1 << 12 // of string bytes per 256 bytes of message
)

// flat walks one message. Tables and string bytes are counted, because tables
// may be shared: without a bound, a small message could unfold into a huge tree.
type flat struct {
	b       []byte
	tables  int // left
	strings int // bytes left
}

func newFlat(b []byte) *flat {
	return &flat{b: b, tables: len(b)/4 + 1, strings: (len(b)/256 + 1) * maxFlatStrings}
}

type flatTable struct {
	pos, vtable, vtableLen int
}

func (f *flat) u32(pos int) (int, error) {
	if pos < 0 || pos > len(f.b)-4 {
		return 0, errFlat
	}
	return int(binary.LittleEndian.Uint32(f.b[pos:])), nil
}

func (f *flat) u16(pos int) (int, error) {
	if pos < 0 || pos > len(f.b)-2 {
		return 0, errFlat
	}
	return int(binary.LittleEndian.Uint16(f.b[pos:])), nil
}

// ref follows the offset at pos; offsets only ever point forward.
func (f *flat) ref(pos int) (int, error) {
	n, err := f.u32(pos)
	if err != nil || n < 4 || pos+n >= len(f.b) {
		return 0, errFlat
	}
	return pos + n, nil
}

// table opens the table at pos.
func (f *flat) table(pos int) (flatTable, error) {
	if f.tables--; f.tables < 0 {
		return flatTable{}, errors.New("message metadata has more tables than it has room for")
	}
	n, err := f.u32(pos)
	if err != nil {
		return flatTable{}, err
	}
	t := flatTable{pos: pos, vtable: pos - int(int32(uint32(n)))}
	if t.vtableLen, err = f.u16(t.vtable); err != nil {
		return flatTable{}, err
	}
	if t.vtableLen < 4 || t.vtable+t.vtableLen > len(f.b) {
		return flatTable{}, errFlat
	}
	return t, nil
}

// slot returns the position of a field, or 0 if it is absent.
func (f *flat) slot(t flatTable, slot, size int) (int, error) {
	at := 4 + 2*slot
	if at+2 > t.vtableLen {
		return 0, nil
	}
	n, err := f.u16(t.vtable + at)
	if err != nil || n == 0 {
		return 0, err
	}
	if t.pos+n > len(f.b)-size {
		return 0, errFlat
	}
	return t.pos + n, nil
}

func (f *flat) byteField(t flatTable, slot int) (byte, error) {
	pos, err := f.slot(t, slot, 1)
	if err != nil || pos == 0 {
		return 0, err
	}
	return f.b[pos], nil
}

func (f *flat) int64Field(t flatTable, slot int) (int64, error) {
	pos, err := f.slot(t, slot, 8)
	if err != nil || pos == 0 {
		return 0, err
	}
	return int64(binary.LittleEndian.Uint64(f.b[pos:])), nil
}

// child opens the table that a field refers to.
func (f *flat) child(t flatTable, slot int) (flatTable, bool, error) {
	pos, err := f.slot(t, slot, 4)
	if err != nil || pos == 0 {
		return flatTable{}, false, err
	}
	if pos, err = f.ref(pos); err != nil {
		return flatTable{}, false, err
	}
	c, err := f.table(pos)
	return c, err == nil, err
}

// vector returns the first element and the number of elements of a vector.
func (f *flat) vector(t flatTable, slot, size int) (first, n int, err error) {
	pos, err := f.slot(t, slot, 4)
	if err != nil || pos == 0 {
		return 0, 0, err
	}
	if pos, err = f.ref(pos); err != nil {
		return 0, 0, err
	}
	if n, err = f.u32(pos); err != nil {
		return 0, 0, err
	}
	if n > (len(f.b)-pos-4)/size {
		return 0, 0, errFlat
	}
	return pos + 4, n, nil
}

// text returns a string field; "" if it is absent.
func (f *flat) text(t flatTable, slot int) (string, error) {
	first, n, err := f.vector(t, slot, 1)
	if err != nil {
		return "", err
	}
	if f.strings -= n; f.strings < 0 {
		return "", errors.New("message metadata shares more text than it has room for")
	}
	return string(f.b[first : first+n]), nil
}

// Message header types.
const (
	flatSchema          = 1
	flatDictionaryBatch = 2
	flatRecordBatch     = 3
)

// flatMessage is what a checked message says.
type flatMessage struct {
	kind    byte
	bodyLen int64
	rows    int64 // of a record batch
	fields  int   // of a schema
	buffers []flatBuffer
	codec   int8 // -1: not compressed

	// views is the number of view arrays in a batch under this schema, and
	// dictViews that in the values of each dictionary.
	views     int
	dictViews map[int64]int
	// viewCounts is how many view arrays a batch has numbers of buffers for; -1
	// if it has no such list. dictID is the dictionary that the batch is for.
	viewCounts int
	dictID     int64
}

// flatBuffer is the place of a buffer in a message body.
type flatBuffer struct{ offset, length int64 }

// checkMessage checks a message as a whole. pair, if not nil, is given the pairs
// of a schema's metadata.
func checkMessage(meta []byte, pair func(k, v string) error) (flatMessage, error) {
	m := flatMessage{codec: -1}
	f := newFlat(meta)
	root, err := f.ref(0)
	if err != nil {
		return m, err
	}
	msg, err := f.table(root)
	if err != nil {
		return m, err
	}
	if m.kind, err = f.byteField(msg, 1); err != nil {
		return m, err
	}
	if m.bodyLen, err = f.int64Field(msg, 3); err != nil {
		return m, err
	}
	if m.bodyLen < 0 {
		return m, fmt.Errorf("message body of %d bytes", m.bodyLen)
	}
	if err := f.pairs(msg, 4, nil); err != nil {
		return m, err
	}
	header, ok, err := f.child(msg, 2)
	if err != nil {
		return m, err
	}
	if !ok {
		return m, errors.New("message has no header")
	}
	switch m.kind {
	case flatSchema:
		return m, f.schema(&m, header, pair)
	case flatRecordBatch:
		return m, f.recordBatch(&m, header)
	case flatDictionaryBatch:
		if m.dictID, err = f.int64Field(header, 0); err != nil {
			return m, err
		}
		batch, ok, err := f.child(header, 1)
		if err != nil {
			return m, err
		}
		if !ok {
			return m, errors.New("dictionary message has no batch")
		}
		return m, f.recordBatch(&m, batch)
	}
	return m, fmt.Errorf("message of unknown kind %d", m.kind)
}

// pairs walks a vector of key-value tables.
func (f *flat) pairs(t flatTable, slot int, pair func(k, v string) error) error {
	return f.eachTable(t, slot, func(kv flatTable) error {
		k, err := f.text(kv, 0)
		if err != nil {
			return err
		}
		v, err := f.text(kv, 1)
		if err != nil {
			return err
		}
		if pair == nil {
			return nil
		}
		return pair(k, v)
	})
}

func (f *flat) eachTable(t flatTable, slot int, visit func(flatTable) error) error {
	first, n, err := f.vector(t, slot, 4)
	if err != nil {
		return err
	}
	for i := range n {
		pos, err := f.ref(first + 4*i)
		if err != nil {
			return err
		}
		child, err := f.table(pos)
		if err != nil {
			return err
		}
		if err := visit(child); err != nil {
			return err
		}
	}
	return nil
}

func (f *flat) schema(m *flatMessage, t flatTable, pair func(k, v string) error) error {
	if _, _, err := f.vector(t, 3, 8); err != nil { // features
		return err
	}
	if err := f.pairs(t, 2, pair); err != nil {
		return err
	}
	return f.eachTable(t, 1, func(field flatTable) error {
		m.fields++
		views, err := f.field(m, field, maxFlatDepth)
		m.views += views
		return err
	})
}

// Type tags that have something of variable length below them, and views.
const (
	flatTimestamp  = 10
	flatUnion      = 14
	flatBinaryView = 23
	flatUtf8View   = 24
)

// field checks a field and returns how many view arrays a batch has for it.
func (f *flat) field(m *flatMessage, t flatTable, depth int) (views int, err error) {
	if depth == 0 {
		return 0, fmt.Errorf("fields nested deeper than %d", maxFlatDepth)
	}
	if _, err := f.text(t, 0); err != nil {
		return 0, err
	}
	tag, err := f.fieldType(t)
	if err != nil {
		return 0, err
	}
	if tag == flatBinaryView || tag == flatUtf8View {
		views++
	}
	if err := f.pairs(t, 6, nil); err != nil {
		return 0, err
	}
	err = f.eachTable(t, 5, func(child flatTable) error {
		n, err := f.field(m, child, depth-1)
		views += n
		return err
	})
	if err != nil {
		return 0, err
	}
	dict, ok, err := f.child(t, 4)
	if err != nil || !ok {
		return views, err
	}
	// A batch holds the indices; the values are in a batch of their own.
	id, err := f.int64Field(dict, 0)
	if err != nil {
		return 0, err
	}
	if _, _, err := f.child(dict, 1); err != nil { // index type
		return 0, err
	}
	if m.dictViews == nil {
		m.dictViews = make(map[int64]int)
	}
	m.dictViews[id] = max(m.dictViews[id], views)
	return 0, nil
}

// fieldType checks a field's type and returns its tag.
func (f *flat) fieldType(t flatTable) (tag byte, err error) {
	if tag, err = f.byteField(t, 2); err != nil {
		return 0, err
	}
	typ, ok, err := f.child(t, 3)
	switch {
	case err != nil || !ok:
	case tag == flatTimestamp:
		_, err = f.text(typ, 1)
	case tag == flatUnion:
		_, _, err = f.vector(typ, 1, 4)
	}
	return tag, err
}

// maxRows is the most rows of one batch: rows of a memtable are numbered by 32 bits.
const maxRows = math.MaxUint32

func (f *flat) recordBatch(m *flatMessage, t flatTable) error {
	var err error
	if m.rows, err = f.int64Field(t, 0); err != nil {
		return err
	}
	if m.rows < 0 || m.rows > maxRows {
		return fmt.Errorf("batch of %d rows", m.rows)
	}
	if err := f.nodes(t); err != nil {
		return err
	}
	if err := f.buffers(m, t); err != nil {
		return err
	}
	comp, ok, err := f.child(t, 3)
	if err != nil {
		return err
	}
	if ok {
		codec, err := f.byteField(comp, 0)
		if err != nil {
			return err
		}
		m.codec = int8(codec)
	}
	return f.variadic(m, t)
}

// nodes checks the length and null count of every array. A child may be longer
// than its batch.
func (f *flat) nodes(t flatTable) error {
	first, n, err := f.vector(t, 1, 16)
	if err != nil {
		return err
	}
	for i := range n {
		length := int64(binary.LittleEndian.Uint64(f.b[first+16*i:]))
		nulls := int64(binary.LittleEndian.Uint64(f.b[first+16*i+8:]))
		if length < 0 || length > 1<<40 || nulls < 0 || nulls > length {
			return fmt.Errorf("array of %d values with %d nulls", length, nulls)
		}
	}
	return nil
}

// buffers collects the buffers' places and checks them against the body.
func (f *flat) buffers(m *flatMessage, t flatTable) error {
	first, n, err := f.vector(t, 2, 16)
	if err != nil {
		return err
	}
	m.buffers = make([]flatBuffer, n)
	for i := range m.buffers {
		b := flatBuffer{
			offset: int64(binary.LittleEndian.Uint64(f.b[first+16*i:])),
			length: int64(binary.LittleEndian.Uint64(f.b[first+16*i+8:])),
		}
		if b.offset < 0 || b.length < 0 || b.offset > m.bodyLen || b.length > m.bodyLen-b.offset {
			return fmt.Errorf("buffer %d at %d of %d bytes in a body of %d", i, b.offset, b.length, m.bodyLen)
		}
		m.buffers[i] = b
	}
	return nil
}

// variadic checks the numbers of data buffers of view arrays.
func (f *flat) variadic(m *flatMessage, t flatTable) error {
	m.viewCounts = -1
	if pos, err := f.slot(t, 4, 4); err != nil || pos == 0 {
		return err
	}
	first, n, err := f.vector(t, 4, 8)
	if err != nil {
		return err
	}
	m.viewCounts = n
	left := uint64(len(m.buffers))
	for i := range n {
		count := binary.LittleEndian.Uint64(f.b[first+8*i:])
		if count > left {
			return fmt.Errorf("view array of %d buffers in a batch of %d", count, len(m.buffers))
		}
		left -= count
	}
	return nil
}
