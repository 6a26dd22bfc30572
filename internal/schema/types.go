package schema

import (
	"slices"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// Tombstone is the name of the storage column that tells a delete (true) from a
// row (false). Tables with a primary key have it, as their last column.
const Tombstone = "_tombstone"

// FieldIDKey is the field metadata key of a column's id.
const FieldIDKey = "memwal.field_id"

// AdoptedKey is the field metadata key of what a column is called in the entries
// that another program wrote before the table was adopted, see [Adopt]: they carry no
// ids. It is empty for a column that was added since, which they do not have.
const AdoptedKey = "memwal.adopted_as"

// RequiredKey is the field metadata key of storage columns that are nullable only
// because deletes leave them empty: the user's schema requires a value. The value
// is "true". Without it a later schema could not tell whether old rows may lack one.
const RequiredKey = "memwal.required"

// Keys of unregistered extension types, by the Arrow format's definition.
const (
	extensionNameKey = "ARROW:extension:name"
	extensionDataKey = "ARROW:extension:metadata"
)

// kind is the physical layout of a type: all that copying, measuring and checking
// of arrays depends on.
type kind uint8

const (
	kindNull      kind = iota
	kindBits           // booleans
	kindFixed          // width bytes a value
	kindVar            // offsets of width bytes, and bytes
	kindView           // view headers, and any number of data buffers
	kindList           // offsets of width bytes, one child; maps, too
	kindListView       // offsets and sizes of width bytes, one child
	kindFixedList      // width child values a value
	kindStruct
	kindSparse
	kindDense
	kindRunEnd
	kindDict // indices of width bytes, and a dictionary
	kindUnknown
)

// layoutOf returns the layout of dt, the kind's width, and dt itself or, for an
// extension type, the storage type beneath it.
func layoutOf(dt arrow.DataType) (kind, int, arrow.DataType) {
	switch dt.ID() {
	case arrow.NULL:
		return kindNull, 0, dt
	case arrow.BOOL:
		return kindBits, 0, dt
	case arrow.STRING, arrow.BINARY:
		return kindVar, 4, dt
	case arrow.LARGE_STRING, arrow.LARGE_BINARY:
		return kindVar, 8, dt
	case arrow.STRING_VIEW, arrow.BINARY_VIEW:
		return kindView, arrow.ViewHeaderSizeBytes, dt
	case arrow.LIST, arrow.MAP:
		return kindList, 4, dt
	case arrow.LARGE_LIST:
		return kindList, 8, dt
	case arrow.LIST_VIEW:
		return kindListView, 4, dt
	case arrow.LARGE_LIST_VIEW:
		return kindListView, 8, dt
	case arrow.FIXED_SIZE_LIST:
		return kindFixedList, int(dt.(*arrow.FixedSizeListType).Len()), dt
	case arrow.STRUCT:
		return kindStruct, 0, dt
	case arrow.SPARSE_UNION:
		return kindSparse, 0, dt
	case arrow.DENSE_UNION:
		return kindDense, 0, dt
	case arrow.RUN_END_ENCODED:
		return kindRunEnd, 0, dt
	case arrow.DICTIONARY:
		return kindDict, dt.(*arrow.DictionaryType).IndexType.(arrow.FixedWidthDataType).BitWidth() / 8, dt
	case arrow.EXTENSION:
		return layoutOf(dt.(arrow.ExtensionType).StorageType())
	}
	if fw, ok := dt.(arrow.FixedWidthDataType); ok {
		return kindFixed, fw.BitWidth() / 8, dt
	}
	return kindUnknown, 0, dt
}

// flat reports whether arrays of kind k have neither children nor a dictionary.
func (k kind) flat() bool { return k <= kindView }

// hasValidity reports whether arrays of kind k have a validity bitmap.
func (k kind) hasValidity() bool {
	return k != kindNull && k != kindSparse && k != kindDense && k != kindRunEnd
}

// minBuffers is the number of buffers that an array of kind k must have.
func (k kind) minBuffers() int {
	switch k {
	case kindNull, kindRunEnd, kindUnknown:
		return 0
	case kindFixedList, kindStruct:
		return 1
	case kindVar, kindListView, kindDense:
		return 3
	}
	return 2
}

// children returns how many child arrays dt, not an extension type, has.
func children(dt arrow.DataType) int {
	if t, ok := dt.(arrow.NestedType); ok {
		return t.NumFields()
	}
	return 0
}

// child returns the i-th child field of dt, not an extension type, without an
// allocation for lists and structs.
func child(dt arrow.DataType, i int) arrow.Field {
	switch t := dt.(type) {
	case *arrow.StructType:
		return t.Field(i)
	case arrow.ListLikeType:
		return t.ElemField()
	}
	return dt.(arrow.NestedType).Fields()[i]
}

// step is the path element that leads from a value to its i-th child.
func step(dt arrow.DataType, i int) string {
	switch dt.(type) {
	case *arrow.StructType, arrow.UnionType:
		return "." + child(dt, i).Name
	case *arrow.RunEndEncodedType:
		return ""
	}
	return "[]"
}

// dictionaryOf returns the dictionary of d, or nil. (Data.Dictionary returns a
// nil pointer in an interface that is not nil.)
func dictionaryOf(d arrow.ArrayData) *array.Data {
	dict, _ := d.Dictionary().(*array.Data)
	return dict
}

// SameType reports whether two types are the same, as the package comment says.
func SameType(a, b arrow.DataType) bool {
	return sameType(a, b, arrow.Metadata{}, arrow.Metadata{})
}

// sameField compares types with the metadata that may name an extension type
// that is not registered in this process.
func sameField(a, b arrow.Field) bool { return sameType(a.Type, b.Type, a.Metadata, b.Metadata) }

func sameType(a, b arrow.DataType, am, bm arrow.Metadata) bool {
	ax, aok := a.(arrow.ExtensionType)
	bx, bok := b.(arrow.ExtensionType)
	switch {
	case aok && bok:
		return ax.ExtensionName() == bx.ExtensionName() && ax.ExtensionEquals(bx)
	case aok:
		return sameUnregistered(ax, b, bm)
	case bok:
		return sameUnregistered(bx, a, am)
	}
	for _, key := range [...]string{extensionNameKey, extensionDataKey} {
		av, _ := am.GetValue(key)
		bv, _ := bm.GetValue(key)
		if av != bv {
			return false
		}
	}
	return samePlainType(a, b)
}

// sameUnregistered reports whether plain, with its field's metadata, is what the
// extension type x looks like to a reader that does not know it.
func sameUnregistered(x arrow.ExtensionType, plain arrow.DataType, meta arrow.Metadata) bool {
	if name, ok := meta.GetValue(extensionNameKey); !ok || name != x.ExtensionName() {
		return false
	}
	if !samePlainType(x.StorageType(), plain) {
		return false
	}
	data, _ := meta.GetValue(extensionDataKey)
	y, err := x.Deserialize(x.StorageType(), data)
	return err == nil && x.ExtensionEquals(y)
}

// samePlainType compares two types of which neither is an extension at its top.
func samePlainType(a, b arrow.DataType) bool {
	if a.ID() != b.ID() {
		return false
	}
	switch at := a.(type) {
	case *arrow.MapType:
		bt := b.(*arrow.MapType)
		return at.KeysSorted == bt.KeysSorted &&
			sameChild(at.KeyField(), bt.KeyField(), false) && sameChild(at.ItemField(), bt.ItemField(), false)
	case *arrow.FixedSizeListType:
		bt := b.(*arrow.FixedSizeListType)
		return at.Len() == bt.Len() && sameChild(at.ElemField(), bt.ElemField(), false)
	case *arrow.StructType:
		bt := b.(*arrow.StructType)
		return sameChildren(at.Fields(), bt.Fields(), true)
	case arrow.UnionType:
		bt := b.(arrow.UnionType)
		return slices.Equal(at.TypeCodes(), bt.TypeCodes()) && sameChildren(at.Fields(), bt.Fields(), true)
	case *arrow.RunEndEncodedType:
		bt := b.(*arrow.RunEndEncodedType)
		return sameChildren(at.Fields(), bt.Fields(), false)
	case *arrow.DictionaryType:
		bt := b.(*arrow.DictionaryType)
		return at.Ordered == bt.Ordered && SameType(at.IndexType, bt.IndexType) && SameType(at.ValueType, bt.ValueType)
	case arrow.ListLikeType:
		return sameChild(at.ElemField(), b.(arrow.ListLikeType).ElemField(), false)
	}
	return arrow.TypeEqual(a, b)
}

func sameChildren(a, b []arrow.Field, names bool) bool {
	return slices.EqualFunc(a, b, func(x, y arrow.Field) bool { return sameChild(x, y, names) })
}

func sameChild(a, b arrow.Field, names bool) bool {
	return a.Nullable == b.Nullable && (!names || a.Name == b.Name) && sameField(a, b)
}

// FieldID returns the id of a column, or 0 where it has none. An id that is not a
// decimal from 1 to [MaxFieldID] is an error.
func FieldID(f arrow.Field) (int32, error) {
	text, ok := f.Metadata.GetValue(FieldIDKey)
	if !ok {
		return 0, nil
	}
	id, err := strconv.ParseInt(text, 10, 32)
	if err != nil || id < 1 || id > MaxFieldID {
		return 0, columnError(f.Name, "", "has the field id "+strconv.Quote(text),
			"a decimal from 1 to "+strconv.Itoa(MaxFieldID))
	}
	return int32(id), nil
}

// Equal reports whether two storage or user schemas have the same columns in the
// same order: names, types ([SameType]), nullability, field ids and [RequiredKey].
// Other metadata, of the schema and of its fields, does not count.
func Equal(a, b *arrow.Schema) bool {
	if a == b {
		return true
	}
	if a == nil || b == nil || a.NumFields() != b.NumFields() || a.Endianness() != b.Endianness() {
		return false
	}
	for i := range a.NumFields() {
		af, bf := a.Field(i), b.Field(i)
		if af.Name != bf.Name || af.Nullable != bf.Nullable || !sameField(af, bf) {
			return false
		}
		for _, key := range [...]string{FieldIDKey, RequiredKey} {
			av, aok := af.Metadata.GetValue(key)
			bv, bok := bf.Metadata.GetValue(key)
			if av != bv || aok != bok {
				return false
			}
		}
	}
	return true
}
