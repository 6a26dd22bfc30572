package index

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/memwal/memwal-go/internal/pagefile"
)

// An index is frozen as one object: a page file (package pagefile) with these sections.
// docs/format.md describes it for other programs.
const (
	sectionSlots    = 1 // which slots the index has
	sectionRows     = 2 // the file row of each
	sectionLengths  = 3 // text: the number of terms of each
	sectionPostings = 4 // text
	sectionEntries  = 5 // text: the dictionary; ordered: the keys
	sectionBlocks   = 6 // where the blocks of entries begin
)

var (
	// ErrCorrupt says that a frozen index is damaged: *CorruptError. It is made anew from
	// the rows.
	ErrCorrupt = pagefile.ErrCorrupt

	// ErrVersion says that another version of memwal has written a frozen index:
	// *VersionError.
	ErrVersion = pagefile.ErrVersion

	// ErrOtherIndex says that a frozen index is not of the index it was opened as:
	// *OtherIndexError.
	ErrOtherIndex = errors.New("another index")
)

type (
	// CorruptError reports where a frozen index is damaged.
	CorruptError = pagefile.CorruptError
	// VersionError reports the version that a frozen index has.
	VersionError = pagefile.VersionError
	// FrozenSource is where the bytes of a frozen index come from:
	//
	//	Size() int64 // of the whole object, in bytes
	//	ReadRange(ctx context.Context, offset, length int64) ([]byte, error)
	//
	// Both are safe for concurrent use. ReadRange is asked for bytes within the object
	// alone; nobody changes what it returns for as long as somebody holds it.
	FrozenSource = pagefile.Source
	// FrozenBytes is a frozen index in memory, a []byte as a FrozenSource. It is not copied; the caller keeps it and
	// does not change it.
	FrozenBytes = pagefile.Bytes
	// FrozenOptions bound the memory of an open frozen index. CacheBytes, of pages that are
	// kept (4 MiB); WholeBytes, the size up to which an object is read at once and kept
	// (1 MiB). Zero stands for the default.
	FrozenOptions = pagefile.Options
)

// OtherIndexError reports a frozen index of another column, analyzer or kind than the
// index that it was opened as.
type OtherIndexError struct {
	Index     string
	What      string // that differs
	Got, Want string
}

func (e *OtherIndexError) Error() string {
	return fmt.Sprintf("%s: the frozen index has %s %s, expected %s: open it under the configuration that it was frozen with, or make it anew",
		place(e.Index, ""), e.What, e.Got, e.Want)
}

func (e *OtherIndexError) Is(target error) bool { return target == ErrOtherIndex }

// FrozenInfo says what Freeze has written.
type FrozenInfo struct {
	Bytes int64  // of the object
	Rows  uint32 // that the index has
	Terms uint64 // in these; text only
}

// Frozen is an index that was frozen, open for searches. It is safe for concurrent use,
// and has nothing to be closed.
type Frozen struct {
	name string
	text *textSpec    // nil: another kind
	keys *orderedSpec // nil: another kind
	file *pagefile.File
	head frozenHead

	blocks atomic.Pointer[blockIndex] // read when it is first needed
}

// FrozenPart is a frozen index as a part of a search.
type FrozenPart struct {
	// Index is a text index. It may have been opened by another Spec than that of the search,
	// if the latter could have opened it, too.
	Index *Frozen
	// Hidden tells whether a newer part has the key of the row in a slot of the index.
	// Nil: none has. It is asked for each hit, and by many searches at once; for a slot it
	// says the same throughout a search.
	Hidden func(slot uint32) bool
	// HiddenRows is the number of rows of the index that Hidden hides, and HiddenTerms that of
	// the terms in them, both exactly: see Frozen.Count. The statistics of a search, and so
	// its scores, are those of the other rows. Both are 0 if Hidden is nil.
	HiddenRows, HiddenTerms uint64
}

// Freeze writes an index, by name, as one object that OpenFrozen searches: the rows that
// are live at the bound, which is all slots of the memtable. Row gives the row of a slot
// in the file that the rows are written to; a row that has none is left out of the index.
// It is called once for each live slot, in their order.
//
// Beyond the index it takes memory for: a bit for each slot; the file rows, 4 bytes each,
// until they are written; the list of blocks, part of one key for each kibibyte of keys; and
// of a text index the dictionary, as it is written, and the postings of one term. These grow
// by being copied, so that a few times as much is held for moments. What is written is not
// kept but for a page of 64 KiB.
//
// Searches, other freezes and, above the bound, Apply may run beside it. What was written
// when it fails is of no use.
func (s *Set) Freeze(ctx context.Context, name string, bound uint32, row func(slot uint32) (uint32, bool), w io.Writer) (FrozenInfo, error) {
	m := s.byName[name]
	if m == nil || m.name == PrimaryKey {
		return FrozenInfo{}, &NoIndexError{Index: name, Kind: "secondary"}
	}
	if f := m.failed.Load(); f != nil {
		return FrozenInfo{}, f
	}
	if applied := s.Applied(); bound > applied {
		return FrozenInfo{}, fmt.Errorf("freeze %s: %w: the bound is %d, but only %d slots are applied", place(name, ""), ErrInvalid, bound, applied)
	}
	z := &freezer{ctx: ctx, set: s, bound: bound, out: pagefile.NewWriter(w)}
	err := z.keep(row)
	if err != nil {
		return FrozenInfo{}, fmt.Errorf("freeze %s: %w", place(name, ""), err)
	}
	switch impl := m.impl.(type) {
	case *text:
		err = z.text(impl)
	case *ordered:
		err = z.ordered(name, impl)
	default:
		err = &NoIndexError{Index: name, Kind: "freezable"}
	}
	if err != nil {
		return FrozenInfo{}, fmt.Errorf("freeze %s: %w", place(name, ""), err)
	}
	z.head.identify(s.spec, s.spec.kinds[s.spec.byName[name]])
	size, err := z.out.Close(z.head.append(nil))
	if err != nil {
		return FrozenInfo{}, fmt.Errorf("freeze %s: %w", place(name, ""), err)
	}
	return FrozenInfo{Bytes: size, Rows: z.head.rows, Terms: z.head.terms}, nil
}

// OpenFrozen opens what Freeze has written, as the index with a name in this
// configuration. Of a large object it reads the end alone. What it holds in memory says
// Frozen.Bytes.
//
// Damage, another version, and another index than the configured one are told apart:
// ErrCorrupt, ErrVersion, ErrOtherIndex. Errors of src are wrapped.
func (s *Spec) OpenFrozen(ctx context.Context, name string, src FrozenSource, o FrozenOptions) (*Frozen, error) {
	i, ok := s.byName[name]
	if !ok {
		return nil, &NoIndexError{Index: name, Kind: "secondary"}
	}
	fail := func(err error) (*Frozen, error) {
		return nil, fmt.Errorf("open the frozen %s: %w", place(name, ""), err)
	}
	file, err := pagefile.Open(ctx, src, o)
	if err != nil {
		return fail(err)
	}
	f := &Frozen{name: name, file: file}
	if err := f.head.decode(file.Meta()); err != nil {
		return fail(err)
	}
	if err := f.head.expect(s, s.kinds[i]); err != nil {
		return nil, err
	}
	switch k := s.kinds[i].(type) {
	case *textSpec:
		f.text = k
	case *orderedSpec:
		f.keys = k
	}
	if err := f.checkSections(); err != nil {
		return fail(err)
	}
	return f, nil
}

// checkSections checks that sections of fixed width have the bytes that they need, so
// that no later allocation is larger than the object.
func (f *Frozen) checkSections() error {
	h := &f.head
	for _, s := range []struct {
		id   uint32
		must bool
		n    int64
	}{
		{sectionSlots, !h.full(), (int64(h.slots) + rankSlots - 1) / rankSlots * rankBytes},
		{sectionRows, h.rowForm == rowsListed, int64(h.rows) * int64(h.rowWidth)},
		{sectionLengths, f.text != nil, int64(h.rows) * int64(h.lengthWidth)},
	} {
		if got := f.file.Section(s.id); s.must && got.Length != s.n {
			return f.corrupt(got.Offset, fmt.Sprintf("section %d has %d bytes, expected %d", s.id, got.Length, s.n))
		}
	}
	return nil
}

func (f *Frozen) corrupt(offset int64, what string) error {
	return &CorruptError{Offset: offset, What: what}
}

// Rows is the number of rows in the index.
func (f *Frozen) Rows() uint32 { return f.head.rows }

// Slots is one more than the highest slot that the memtable had.
func (f *Frozen) Slots() uint32 { return f.head.slots }

// Terms is the number of terms in the rows, each counted as often as it occurs.
func (f *Frozen) Terms() uint64 { return f.head.terms }

// Size is that of the object in bytes.
func (f *Frozen) Size() int64 { return f.file.Size() }

// Bytes is the heap that the index holds: the end of the object, what it has in its
// cache, or all of a small one. An object that was given in memory is the caller's.
func (f *Frozen) Bytes() int64 {
	n := int64(unsafe.Sizeof(*f)) + f.file.Bytes()
	if b := f.blocks.Load(); b != nil {
		n += b.bytes
	}
	return n
}

// Verify reads the whole object from its source, also one that is held in memory, and
// checks every byte of it against the checksums. It says nothing of what the bytes mean.
func (f *Frozen) Verify(ctx context.Context) error {
	if err := f.file.Verify(ctx); err != nil {
		return fmt.Errorf("verify the frozen %s: %w", place(f.name, ""), err)
	}
	return nil
}

// Row is the row of a slot in the file that the memtable's rows were written to; false
// for slots that the index does not have.
func (f *Frozen) Row(ctx context.Context, slot uint32) (row uint32, ok bool, err error) {
	c := f.columns(ctx)
	rank, ok, err := c.rank(slot)
	if err != nil || !ok {
		return 0, false, err
	}
	switch f.head.rowForm {
	case rowsRanked:
		return rank, true, nil
	case rowsSlots:
		return slot, true, nil
	}
	b, err := f.file.View(ctx, f.file.Section(sectionRows).Offset+int64(rank)*int64(f.head.rowWidth), int64(f.head.rowWidth), 0)
	if err != nil {
		return 0, false, err
	}
	return number(b), true, nil
}

// Count counts those of the slots that the index has, and the terms in them: what newer
// parts hide, for FrozenPart. No slot comes twice: it would count twice. Slots in their order
// are fastest.
func (f *Frozen) Count(ctx context.Context, slots iter.Seq[uint32]) (rows, terms uint64, err error) {
	c := f.columns(ctx)
	for slot := range slots {
		_, ok, err := c.rank(slot)
		if err != nil {
			return 0, 0, err
		}
		if !ok {
			continue
		}
		rows++
		if f.text != nil {
			n, err := c.at(slot)
			if err != nil {
				return 0, 0, err
			}
			terms += uint64(n)
		}
	}
	return rows, terms, nil
}

// freezer writes the index of one memtable.
type freezer struct {
	ctx   context.Context
	set   *Set
	bound uint32
	out   *pagefile.Writer
	head  frozenHead
	kept  []uint64 // bits of the slots that the index has
	files []uint32 // the file rows of these
}

func (z *freezer) has(slot uint32) bool { return z.kept[slot/64]&(1<<(slot%64)) != 0 }

// checkEvery is after how many steps stopped is asked.
const checkEvery = 4096

// stopped is why it is in vain to go on, if it is.
func (z *freezer) stopped() error {
	if err := z.ctx.Err(); err != nil {
		return err
	}
	return z.out.Err()
}

// keep finds out which slots the index has, and writes them and their file rows.
func (z *freezer) keep(row func(uint32) (uint32, bool)) error {
	z.kept = make([]uint64, (uint64(z.bound)+63)/64)
	ranked, slots, highest := true, true, uint32(0)
	for slot := range z.bound {
		if slot%checkEvery == 0 {
			if err := z.stopped(); err != nil {
				return err
			}
		}
		if !z.set.Live(slot, z.bound) {
			continue
		}
		r, ok := row(slot)
		if !ok {
			continue
		}
		z.kept[slot/64] |= 1 << (slot % 64)
		ranked = ranked && r == uint32(len(z.files))
		slots = slots && r == slot
		highest = max(highest, r)
		z.files = append(z.files, r)
	}
	z.head.slots, z.head.rows = z.bound, uint32(len(z.files))
	if !z.head.full() {
		z.out.Section(sectionSlots)
		z.writeSlots()
	}
	switch {
	case ranked:
		z.head.rowForm = rowsRanked
	case slots:
		z.head.rowForm = rowsSlots
	default:
		z.head.rowForm, z.head.rowWidth = rowsListed, widthOf(highest)
		z.out.Section(sectionRows)
		z.writeNumbers(slices.Values(z.files), z.head.rowWidth)
	}
	z.files = nil
	return z.out.Err()
}

func (z *freezer) writeNumbers(all iter.Seq[uint32], width uint8) {
	buf := make([]byte, 0, chunkRows*4)
	for v := range all {
		buf = appendNumber(buf, v, width)
		if len(buf) == cap(buf) {
			z.out.Write(buf)
			buf = buf[:0]
		}
	}
	z.out.Write(buf)
}

// widthOf is how many bytes numbers up to most take.
func widthOf(most uint32) uint8 {
	switch {
	case most <= math.MaxUint8:
		return 1
	case most <= math.MaxUint16:
		return 2
	}
	return 4
}

func appendNumber(to []byte, v uint32, width uint8) []byte {
	switch width {
	case 1:
		return append(to, byte(v))
	case 2:
		return le.AppendUint16(to, uint16(v))
	}
	return le.AppendUint32(to, v)
}

func number(b []byte) uint32 {
	switch len(b) {
	case 1:
		return uint32(b[0])
	case 2:
		return uint32(le.Uint16(b))
	}
	return le.Uint32(b)
}
