package schema

import (
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
)

// User returns the schema that the user of a stored table gave, as far as storage
// keeps it: without [Tombstone], required columns required, and each column with
// its field id in metadata. [Storage] of it, with the same key and the table as
// prev, is the table again.
//
// Tables of other programs have no [RequiredKey]: all of their columns that are
// nullable in storage are nullable here.
func User(stored *arrow.Schema) *arrow.Schema {
	fields := slices.DeleteFunc(slices.Clone(stored.Fields()), func(f arrow.Field) bool { return f.Name == Tombstone })
	for i := range fields {
		f := &fields[i]
		if f.Metadata.FindKey(RequiredKey) >= 0 {
			f.Nullable = false
		}
		f.Metadata = withoutKeys(f.Metadata, func(k string) bool { return k == RequiredKey || k == AdoptedKey })
	}
	meta := stored.Metadata()
	return arrow.NewSchemaWithEndian(fields, &meta, stored.Endianness())
}
