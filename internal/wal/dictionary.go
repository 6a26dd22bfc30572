package wal

import (
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
)

// hasDictionary reports whether any column needs a dictionary, at any depth.
func hasDictionary(schema *arrow.Schema) bool {
	return slices.ContainsFunc(schema.Fields(), func(f arrow.Field) bool { return typeHasDictionary(f.Type) })
}

func typeHasDictionary(dt arrow.DataType) bool {
	switch dt := dt.(type) {
	case *arrow.DictionaryType:
		return true
	case arrow.ExtensionType:
		return typeHasDictionary(dt.StorageType())
	case arrow.NestedType:
		return slices.ContainsFunc(dt.Fields(), func(f arrow.Field) bool { return typeHasDictionary(f.Type) })
	}
	return false
}

// appendDictionaries appends the dictionaries of a batch, depth first. They are
// borrowed from rec.
func appendDictionaries(dst []arrow.ArrayData, rec arrow.RecordBatch) []arrow.ArrayData {
	if !hasDictionary(rec.Schema()) {
		return dst
	}
	for _, col := range rec.Columns() {
		dst = appendDataDictionaries(dst, col.Data())
	}
	return dst
}

func appendDataDictionaries(dst []arrow.ArrayData, data arrow.ArrayData) []arrow.ArrayData {
	if isDictionary(data.DataType()) {
		dst = append(dst, data.Dictionary())
		dst = appendDataDictionaries(dst, data.Dictionary())
	}
	for _, child := range data.Children() {
		dst = appendDataDictionaries(dst, child)
	}
	return dst
}

// isDictionary looks through extension types.
func isDictionary(dt arrow.DataType) bool {
	if ext, ok := dt.(arrow.ExtensionType); ok {
		dt = ext.StorageType()
	}
	return dt.ID() == arrow.DICTIONARY
}

// sameDictionaries compares by identity: comparing values would have to tell
// -0.0 from 0.0 and one NaN from another, and costs more than writing them again.
func sameDictionaries(a, b []arrow.ArrayData) bool { return slices.Equal(a, b) }
