package index

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
)

var le = binary.LittleEndian

// frozenHead is what the footer of a frozen index says of it.
type frozenHead struct {
	kind        uint8
	rowForm     uint8
	rowWidth    uint8 // bytes of a file row, if they are listed
	lengthWidth uint8 // text: bytes of a number of terms
	positions   bool  // text: they are kept
	slots, rows uint32
	terms       uint64 // text: in all rows
	entries     uint64 // text: different terms; ordered: keys
	analyzer    string // text
	columns     []frozenColumn
}

// frozenColumn is a column of the index. It is known by its field id, or by its name
// where there is none.
type frozenColumn struct {
	id   int32
	name string
	typ  string // ordered: the Arrow type, on which the encoding of keys depends
}

const (
	frozenText    = 1
	frozenOrdered = 2

	rowsRanked = 0 // a file row is the number of slots of the index below
	rowsSlots  = 1 // a file row is the slot
	rowsListed = 2 // file rows are listed

	frozenHeadBytes = 36
)

// full tells whether the index has every slot.
func (h *frozenHead) full() bool { return h.rows == h.slots }

// identify says which index it is.
func (h *frozenHead) identify(s *Spec, k bound) {
	switch k := k.(type) {
	case *textSpec:
		h.kind, h.positions, h.analyzer = frozenText, !k.cfg.NoPositions, k.cfg.Analyzer
	case *orderedSpec:
		h.kind = frozenOrdered
	}
	for _, i := range k.columns() {
		f := s.schema.Field(i)
		c := frozenColumn{name: f.Name}
		c.id, _ = fieldID(f)
		if h.kind == frozenOrdered {
			c.typ = f.Type.String()
		}
		h.columns = append(h.columns, c)
	}
}

// expect reports that it is another index than one of the configuration.
func (h *frozenHead) expect(s *Spec, k bound) error {
	var want frozenHead
	want.identify(s, k)
	name := k.config().IndexName()
	other := func(what, got, want string) error {
		return &OtherIndexError{Index: name, What: what, Got: got, Want: want}
	}
	kinds := []string{"", KindText, KindOrdered}
	switch {
	case h.kind != want.kind:
		return other("kind", kinds[h.kind], kinds[want.kind])
	case h.analyzer != want.analyzer:
		return other("analyzer", h.analyzer, want.analyzer)
	case h.positions != want.positions:
		return other("positions", strconv.FormatBool(h.positions), strconv.FormatBool(want.positions))
	case len(h.columns) != len(want.columns):
		return other("columns", strconv.Itoa(len(h.columns)), strconv.Itoa(len(want.columns)))
	}
	for i, got := range h.columns {
		want := want.columns[i]
		if got.id != 0 && want.id != 0 {
			if got.id != want.id {
				return other("column", fmt.Sprintf("%q with field id %d", got.name, got.id), fmt.Sprintf("%q with %d", want.name, want.id))
			}
		} else if got.name != want.name {
			return other("column", strconv.Quote(got.name), strconv.Quote(want.name))
		}
		if got.typ != want.typ {
			return other("column "+strconv.Quote(got.name)+" of type", got.typ, want.typ)
		}
	}
	return nil
}

func (h *frozenHead) append(to []byte) []byte {
	flags := uint8(0)
	if h.positions {
		flags = 1
	}
	to = append(to, h.kind, h.rowForm, h.rowWidth, h.lengthWidth, flags, 0, 0, 0)
	to = le.AppendUint32(to, h.slots)
	to = le.AppendUint32(to, h.rows)
	to = le.AppendUint64(to, h.terms)
	to = le.AppendUint64(to, h.entries)
	to = le.AppendUint32(to, uint32(len(h.columns)))
	to = appendLenText(to, h.analyzer)
	for _, c := range h.columns {
		to = le.AppendUint32(to, uint32(c.id))
		to = appendLenText(appendLenText(to, c.name), c.typ)
	}
	return to
}

func appendLenText(to []byte, s string) []byte {
	return append(le.AppendUint32(to, uint32(len(s))), s...)
}

func (h *frozenHead) decode(b []byte) error {
	bad := func(what string) error { return &CorruptError{What: "the description in its footer: " + what} }
	if len(b) < frozenHeadBytes {
		return bad("too short")
	}
	if b[4]&^1 != 0 || [3]byte(b[5:]) != [3]byte{} {
		return bad("flags that this version does not know")
	}
	*h = frozenHead{
		kind: b[0], rowForm: b[1], rowWidth: b[2], lengthWidth: b[3], positions: b[4]&1 != 0,
		slots: le.Uint32(b[8:]), rows: le.Uint32(b[12:]), terms: le.Uint64(b[16:]), entries: le.Uint64(b[24:]),
	}
	columns := le.Uint32(b[32:])
	b = b[frozenHeadBytes:]
	ok := true
	text := func() string {
		if len(b) < 4 || uint64(le.Uint32(b)) > uint64(len(b)-4) {
			ok = false
			return ""
		}
		n := 4 + int(le.Uint32(b))
		s := string(b[4:n])
		b = b[n:]
		return s
	}
	h.analyzer = text()
	for ; columns > 0 && ok; columns-- {
		if len(b) < 4 {
			return bad("its columns are cut off")
		}
		c := frozenColumn{id: int32(le.Uint32(b))}
		b = b[4:]
		c.name, c.typ = text(), text()
		h.columns = append(h.columns, c)
	}
	width := func(w uint8) bool { return w == 1 || w == 2 || w == 4 }
	switch {
	case !ok || len(b) > 0:
		return bad("its texts are cut off")
	case h.kind != frozenText && h.kind != frozenOrdered:
		return bad(fmt.Sprintf("kind %d", h.kind))
	case h.rowForm > rowsListed || h.rowForm == rowsListed && !width(h.rowWidth):
		return bad("file rows")
	case h.kind == frozenText && !width(h.lengthWidth):
		return bad("lengths")
	case h.rows > h.slots || h.slots > MaxSlots || h.terms > uint64(h.rows)*math.MaxUint32 || h.terms > math.MaxInt64/4:
		return bad("counts")
	}
	return nil
}
