package keys

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
)

// MaxBytes is the longest encoded key that Check and AppendValues accept. Keys
// are kept in manifests and compared byte by byte: much longer ones are no keys
// but payload. It is not smaller because long URLs and paths are keys.
const MaxBytes = 64 << 10

const (
	markNull  = 0x00
	markValue = 0x01
	escape    = 0x00 // starts a two-byte sequence
	escaped   = 0xff // after escape: a literal 0x00
	endOf     = 0x01 // after escape: the end of the value
)

// Codec encodes the keys of one list of columns. Immutable, safe for concurrent
// use.
type Codec struct {
	cols     []column
	nullable bool
	fixed    bool
}

// Head is the beginning of an encoded key in a form that compares in one
// instruction.
type Head struct {
	Word     uint64 // bytes of the key, big-endian, zero-padded; a leading marker is left out
	Null     bool   // the first column is null (only in codecs that allow nulls)
	Complete bool   // the whole key is in Word: equal heads are equal keys
}

// Bind makes the codec of the schema's columns cols. With nullable set, every
// column is encoded with a marker and nulls come first; without it, Check refuses
// nulls. Every column that cannot be a key is reported, each by a *TypeError.
func Bind(schema *arrow.Schema, cols []int, nullable bool) (*Codec, error) {
	if len(cols) == 0 {
		return nil, fmt.Errorf("%w: no columns", ErrInvalid)
	}
	c := &Codec{cols: make([]column, 0, len(cols)), nullable: nullable}
	var errs []error
	for _, i := range cols {
		col, err := bindColumn(schema.Field(i), i, nullable)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		c.cols = append(c.cols, col)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	c.fixed = c.headBytes() <= 8
	return c, nil
}

// headBytes is the longest key without its leading marker, or more than 8 when
// there is no bound.
func (c *Codec) headBytes() int {
	total := 0
	for i := range c.cols {
		if c.cols[i].form == formBytes {
			return 9
		}
		total += c.cols[i].width
		if c.nullable && i > 0 {
			total++
		}
	}
	return total
}

// Columns is the number of columns of a key.
func (c *Codec) Columns() int { return len(c.cols) }

// Fixed tells that every key fits Head.Word, so that Word and Words may be used.
func (c *Codec) Fixed() bool { return c.fixed }

// AppendRow appends the key of a row to dst.
func (c *Codec) AppendRow(dst []byte, rec arrow.RecordBatch, row int) []byte {
	for i := range c.cols {
		col := &c.cols[i]
		arr, at, null := col.locate(rec.Column(col.index), row)
		if col.nullable {
			if null {
				dst = append(dst, markNull)
				continue
			}
			dst = append(dst, markValue)
		}
		dst = col.appendCell(dst, arr, at)
	}
	return dst
}

func (c *column) appendCell(dst []byte, arr arrow.Array, row int) []byte {
	switch c.form {
	case formWord:
		return appendWord(dst, c.word(arr, row), c.width)
	case formWide:
		w, n := c.wide(arr, row)
		return appendWide(dst, w, n)
	case formFixed:
		return append(dst, c.bytes(arr, row)...)
	default:
		return appendEscaped(dst, c.bytes(arr, row))
	}
}

func appendWord(dst []byte, w uint64, width int) []byte {
	switch width {
	case 1:
		return append(dst, byte(w))
	case 2:
		return binary.BigEndian.AppendUint16(dst, uint16(w))
	case 4:
		return binary.BigEndian.AppendUint32(dst, uint32(w))
	default:
		return binary.BigEndian.AppendUint64(dst, w)
	}
}

func appendWide(dst []byte, w [4]uint64, n int) []byte {
	for _, v := range w[:n] {
		dst = binary.BigEndian.AppendUint64(dst, v)
	}
	return dst
}

func appendEscaped(dst, raw []byte) []byte {
	for {
		i := bytes.IndexByte(raw, 0)
		if i < 0 {
			dst = append(dst, raw...)
			return append(dst, escape, endOf)
		}
		dst = append(dst, raw[:i]...)
		dst = append(dst, escape, escaped)
		raw = raw[i+1:]
	}
}

// Head returns the head of an encoded key.
func (c *Codec) Head(key []byte) Head {
	var h Head
	if c.nullable {
		h.Null = key[0] == markNull
		key = key[1:]
	}
	h.Word = LoadWord(key)
	h.Complete = len(key) <= 8
	return h
}

// LeadsNull tells whether the first column of a key is null. The codec allows
// nulls.
func LeadsNull(key []byte) bool { return key[0] == markNull }

// LoadWord reads up to eight bytes big-endian, padded with zeros.
func LoadWord(b []byte) uint64 {
	if len(b) >= 8 {
		return binary.BigEndian.Uint64(b)
	}
	var buf [8]byte
	copy(buf[:], b)
	return binary.BigEndian.Uint64(buf[:])
}

// Compare compares the keys of two rows, without encoding them.
func (c *Codec) Compare(a arrow.RecordBatch, i int, b arrow.RecordBatch, j int) int {
	for k := range c.cols {
		col := &c.cols[k]
		arrA, x, nullA := col.locate(a.Column(col.index), i)
		arrB, y, nullB := col.locate(b.Column(col.index), j)
		if nullA || nullB {
			if nullA && nullB {
				continue
			}
			if nullA {
				return -1
			}
			return 1
		}
		if d := col.compareCells(arrA, x, arrB, y); d != 0 {
			return d
		}
	}
	return 0
}

func (c *column) compareCells(a arrow.Array, i int, b arrow.Array, j int) int {
	switch c.form {
	case formWord:
		return cmp.Compare(c.word(a, i), c.word(b, j))
	case formWide:
		x, n := c.wide(a, i)
		y, _ := c.wide(b, j)
		return compareWide(x, y, n)
	default:
		return bytes.Compare(c.bytes(a, i), c.bytes(b, j))
	}
}

func compareWide(a, b [4]uint64, n int) int {
	for k := range n {
		if d := cmp.Compare(a[k], b[k]); d != 0 {
			return d
		}
	}
	return 0
}

// CompareKey compares an encoded key with the key of a row, without encoding the
// row. The key may end after any column: rows that are equal in the columns it
// has compare as 0.
func (c *Codec) CompareKey(key []byte, rec arrow.RecordBatch, row int) int {
	for i := 0; i < len(c.cols) && len(key) > 0; i++ {
		col := &c.cols[i]
		arr, at, null := col.locate(rec.Column(col.index), row)
		if col.nullable {
			mark := key[0]
			key = key[1:]
			if d := cmp.Compare(mark, markOf(null)); d != 0 {
				return d
			}
			if null {
				continue
			}
		}
		var d int
		if d, key = col.compareKeyCell(key, arr, at); d != 0 {
			return d
		}
	}
	return 0
}

func markOf(null bool) byte {
	if null {
		return markNull
	}
	return markValue
}

// compareKeyCell compares the value at the front of an encoded key with a cell
// and returns the rest of the key, which is valid if they are equal.
func (c *column) compareKeyCell(key []byte, arr arrow.Array, row int) (int, []byte) {
	switch c.form {
	case formWord:
		w := LoadWord(key[:c.width]) >> (64 - 8*c.width)
		return cmp.Compare(w, c.word(arr, row)), key[c.width:]
	case formWide:
		w, n := c.wide(arr, row)
		for k := range n {
			if d := cmp.Compare(binary.BigEndian.Uint64(key[8*k:]), w[k]); d != 0 {
				return d, nil
			}
		}
		return 0, key[c.width:]
	case formFixed:
		return bytes.Compare(key[:c.width], c.bytes(arr, row)), key[c.width:]
	default:
		return compareEscaped(key, c.bytes(arr, row))
	}
}

// compareEscaped compares the escaped value at the front of key with raw bytes.
func compareEscaped(key, raw []byte) (int, []byte) {
	for {
		n := bytes.IndexByte(key, escape) // there is one: values are terminated
		if n > len(raw) {
			if d := bytes.Compare(key[:len(raw)], raw); d != 0 {
				return d, nil
			}
			return 1, nil
		}
		if d := bytes.Compare(key[:n], raw[:n]); d != 0 {
			return d, nil
		}
		next := key[n+1]
		key, raw = key[n+2:], raw[n:]
		switch {
		case next == endOf && len(raw) == 0:
			return 0, key
		case next == endOf:
			return -1, nil
		case len(raw) == 0:
			return 1, nil
		case raw[0] != 0:
			return -1, nil
		}
		raw = raw[1:]
	}
}

// LeadNull tells whether the first column of a row's key is null.
func (c *Codec) LeadNull(rec arrow.RecordBatch, row int) bool {
	col := &c.cols[0]
	_, _, null := col.locate(rec.Column(col.index), row)
	return null
}

// MayLeadNull is false when LeadNull is false for every row of the batch.
func (c *Codec) MayLeadNull(rec arrow.RecordBatch) bool {
	return c.nullable && c.cols[0].maybeNull(rec.Column(c.cols[0].index))
}

// Check reports the first row that cannot be a key: a null in a codec without
// nulls, or a key above MaxBytes.
func (c *Codec) Check(rec arrow.RecordBatch) error {
	rows := int(rec.NumRows())
	variable := false
	for i := range c.cols {
		col := &c.cols[i]
		variable = variable || col.form == formBytes
		arr := rec.Column(col.index)
		if c.nullable || !col.maybeNull(arr) {
			continue
		}
		for row := range rows {
			if _, _, null := col.locate(arr, row); null {
				return &RowError{Column: col.name, Type: col.declared, Row: row, Got: "null", Want: "a value, since it is a key column"}
			}
		}
	}
	if !variable && c.keyBytes() <= MaxBytes {
		return nil
	}
	for row := range rows {
		if n := c.rowBytes(rec, row); n > MaxBytes {
			names := make([]string, len(c.cols))
			for i := range c.cols {
				names[i] = c.cols[i].name
			}
			return &RowError{
				Column: strings.Join(names, ", "), Type: c.cols[0].declared, Row: row,
				Got: fmt.Sprintf("a key of %d bytes", n), Want: fmt.Sprintf("at most %d", MaxBytes),
			}
		}
	}
	return nil
}

// keyBytes is the length of keys without variable columns.
func (c *Codec) keyBytes() int {
	total := 0
	for i := range c.cols {
		total += c.cols[i].width + 1
	}
	return total
}

// rowBytes is the length of a row's key.
func (c *Codec) rowBytes(rec arrow.RecordBatch, row int) int {
	total := 0
	for i := range c.cols {
		col := &c.cols[i]
		if c.nullable {
			total++
		}
		arr, at, null := col.locate(rec.Column(col.index), row)
		switch {
		case null:
		case col.form != formBytes:
			total += col.width
		default:
			raw := col.bytes(arr, at)
			total += len(raw) + 2
			if total+len(raw) > MaxBytes { // only then can escapes matter
				total += bytes.Count(raw, []byte{escape})
			}
		}
	}
	return total
}
