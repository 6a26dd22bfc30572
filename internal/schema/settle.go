package schema

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
)

// settle returns arr, or an array over the same buffers, with type dt and with
// everything computed that arrow-go computes on first use without synchronization:
// null counts and dictionary arrays. Many goroutines read a stored batch, and the
// flusher encodes it meanwhile, so these first uses would race. arr itself may be in
// use by its owner and is not touched. dt is the same as arr's type. The caller
// releases the result.
func settle(arr arrow.Array, dt arrow.DataType) arrow.Array {
	if arrow.TypeEqual(arr.DataType(), dt) && settled(arr.Data()) {
		arr.Retain()
		return arr
	}
	return own(arr.Data(), dt)
}

// settled reports whether an array over d has nothing left to compute.
func settled(d arrow.ArrayData) bool {
	k, _, _ := layoutOf(d.DataType())
	switch {
	case d.NullN() < 0:
		return false
	case k.flat():
		return true
	case k == kindFixedList, k == kindList && d.DataType().ID() != arrow.MAP:
		// The child's array is made over the child's data as it is; those of
		// structs and unions may be over a slice of it, whose nulls are not counted.
		c := d.Children()[0]
		k, _, _ := layoutOf(c.DataType())
		return k.flat() && c.NullN() >= 0
	}
	return false
}

// own returns a settled array over the buffers of d, which nobody else has.
func own(d arrow.ArrayData, dt arrow.DataType) arrow.Array {
	data := ownData(d, dt)
	arr := array.MakeFromData(data)
	data.Release()
	warm(arr)
	return arr
}

// ownData returns data of type dt over the buffers of d, with known null counts.
func ownData(d arrow.ArrayData, dt arrow.DataType) *array.Data {
	k, _, st := layoutOf(dt)
	var kids []arrow.ArrayData
	for i, c := range d.Children() {
		kid := ownData(c, child(st, i).Type)
		defer kid.Release()
		kids = append(kids, kid)
	}
	data := array.NewData(dt, d.Len(), d.Buffers(), kids, countNulls(d, k), d.Offset())
	if dict := dictionaryOf(d); k == kindDict && dict != nil {
		own := ownData(dict, st.(*arrow.DictionaryType).ValueType)
		data.SetDictionary(own)
		own.Release()
	}
	return data
}

func countNulls(d arrow.ArrayData, k kind) int {
	switch {
	case k == kindNull:
		return d.Len()
	case !k.hasValidity():
		return 0
	case d.NullN() >= 0:
		return d.NullN()
	}
	valid := validityOf(d)
	if valid == nil {
		return 0
	}
	return d.Len() - bitutil.CountSetBits(valid, d.Offset(), d.Len())
}

// warm computes what arr and the arrays inside it compute on first use.
func warm(arr arrow.Array) {
	arr.NullN()
	switch a := arr.(type) {
	case *array.Struct:
		for i := range a.NumField() {
			warm(a.Field(i))
		}
	case *array.Map:
		warm(a.ListValues())
		warm(a.Keys())
		warm(a.Items())
	case array.ListLike:
		warm(a.ListValues())
	case array.Union:
		for i := range a.NumFields() {
			warm(a.Field(i))
		}
	case *array.RunEndEncoded:
		warm(a.RunEndsArr())
		warm(a.Values())
	case *array.Dictionary:
		warm(a.Indices())
		if dictionaryOf(a.Data()) != nil {
			warm(a.Dictionary())
		}
	case array.ExtensionArray:
		warm(a.Storage())
	}
}
