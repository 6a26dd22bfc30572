package schema

import (
	"fmt"
	"slices"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
)

// What the user gave comes back, and storing that changes nothing.
func TestUserUndoesStorage(t *testing.T) {
	meta := arrow.NewMetadata([]string{"owner"}, []string{"me"})
	user := arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64},
		{Name: "must", Type: arrow.BinaryTypes.String, Metadata: arrow.NewMetadata([]string{"unit"}, []string{"m"})},
		{Name: "may", Type: arrow.PrimitiveTypes.Float64, Nullable: true},
	}, &meta)
	for _, key := range [][]string{nil, {"id"}, {"must", "id"}} {
		t.Run(fmt.Sprint(key), func(t *testing.T) {
			table, err := Storage(user, key, nil)
			if err != nil {
				t.Fatal(err)
			}
			got := User(table.Schema)
			for i, f := range got.Fields() {
				was := user.Field(i)
				id, err := FieldID(f)
				if f.Name != was.Name || f.Nullable != was.Nullable || !arrow.TypeEqual(f.Type, was.Type) || err != nil || id != int32(i+1) {
					t.Errorf("column %d: %v (%v), want %v with id %d", i, f, f.Metadata, was, i+1)
				}
				if v, _ := was.Metadata.GetValue("unit"); v != "" {
					if kept, _ := f.Metadata.GetValue("unit"); kept != v {
						t.Errorf("column %d has lost its metadata: %v", i, f.Metadata)
					}
				}
			}
			if got.NumFields() != user.NumFields() || !slices.Equal(got.Metadata().Keys(), meta.Keys()) {
				t.Errorf("got %v", got)
			}
			again, err := Storage(got, key, table)
			if err != nil {
				t.Fatal(err)
			}
			if !Equal(again.Schema, table.Schema) || again.NextFieldID != table.NextFieldID {
				t.Errorf("stored again it is %v, want %v", again.Schema, table.Schema)
			}
		})
	}
}
