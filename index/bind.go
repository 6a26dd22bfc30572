package index

import (
	"errors"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/memwal/memwal-go/internal/keys"
	"github.com/memwal/memwal-go/internal/schema"
)

// Bind checks a configuration against the storage schema and returns what every
// memtable of the shard shares. An empty primaryKey makes append-only tables.
// All violations are reported together, each as a *ConfigError.
//
// The order of primaryKey is the order of the key's columns.
func Bind(sc *arrow.Schema, primaryKey []Column, configs []Config) (*Spec, error) {
	b := &binder{schema: sc, index: PrimaryKey}
	s := &Spec{schema: sc, tombstone: -1, seed: maphash.MakeSeed(), wordSeed: rand.Uint64(), byName: make(map[string]int, len(configs))}
	b.tombstone(s, len(primaryKey) > 0)
	if len(primaryKey) > 0 {
		s.keyCols = b.columns(primaryKey)
		s.key = b.codec(s.keyCols, false)
	}
	for i, c := range configs {
		if c == nil {
			b.index = "#" + strconv.Itoa(i+1)
			b.fail("", nil, "nil", "a configuration such as index.Ordered")
			continue
		}
		b.index = c.IndexName()
		b.name(s, b.index, i)
		s.kinds = append(s.kinds, c.bind(b))
	}
	if err := errors.Join(b.errs...); err != nil {
		return nil, err
	}
	return s, nil
}

// binder resolves columns of one index after another and collects violations.
type binder struct {
	schema *arrow.Schema
	index  string // being bound
	errs   []error
}

func (b *binder) fail(column string, t arrow.DataType, got, want string) {
	b.errs = append(b.errs, &ConfigError{Index: b.index, Column: column, Type: t, Got: got, Want: want})
}

func (b *binder) tombstone(s *Spec, keyed bool) {
	for _, i := range b.schema.FieldIndices(schema.Tombstone) {
		f := b.schema.Field(i)
		switch {
		case f.Type.ID() != arrow.BOOL:
			b.fail(f.Name, f.Type, "", "bool, since it marks deleted rows")
		case !keyed:
			b.fail(f.Name, f.Type, "a tombstone column in a table without a primary key", "no such column, or a primary key")
		case s.tombstone >= 0:
			b.fail(f.Name, f.Type, "two columns of this name", "one")
		}
		s.tombstone = i
	}
}

func (b *binder) name(s *Spec, name string, i int) {
	switch _, taken := s.byName[name]; {
	case name == "":
		b.index = "#" + strconv.Itoa(i+1)
		b.fail("", nil, "no name", "a name, unique among the indexes")
	case !utf8.ValidString(name):
		b.fail("", nil, "a name that is not UTF-8", "a name in UTF-8")
	case strings.HasPrefix(name, "_"):
		b.fail("", nil, "a reserved name", "a name that does not begin with an underscore")
	case taken:
		b.fail("", nil, "two indexes of this name", "a name, unique among the indexes")
	}
	s.byName[name] = i
}

// columns resolves the columns of the index to positions in the schema; the
// result has those that are valid.
func (b *binder) columns(cols []Column) []int {
	if len(cols) == 0 {
		b.fail("", nil, "no columns", "at least one column")
	}
	var at []int
	seen := make(map[int]bool, len(cols))
	for _, c := range cols {
		i, ok := b.column(c)
		if !ok {
			continue
		}
		if seen[i] {
			b.fail(c.Name, b.schema.Field(i).Type, "named twice", "each column once")
			continue
		}
		seen[i] = true
		at = append(at, i)
	}
	return at
}

func (b *binder) column(c Column) (int, bool) {
	if strings.HasPrefix(c.Name, "_") {
		b.fail(c.Name, nil, "a reserved name", "a column of the table")
		return 0, false
	}
	found := b.schema.FieldIndices(c.Name)
	switch len(found) {
	case 0:
		got := "no such column"
		if other := b.withID(c.FieldID); other >= 0 {
			got = fmt.Sprintf("no such column; field id %d is column %q", c.FieldID, b.schema.Field(other).Name)
		}
		b.fail(c.Name, nil, got, "a column of the table")
		return 0, false
	case 1:
	default:
		b.fail(c.Name, b.schema.Field(found[0]).Type, "several columns of this name", "one")
		return 0, false
	}
	f := b.schema.Field(found[0])
	id, _ := fieldID(f)
	if c.FieldID == 0 || c.FieldID == id {
		return found[0], true
	}
	got := fmt.Sprintf("field id %d, but the column has field id %d", c.FieldID, id)
	if id == 0 {
		got = fmt.Sprintf("field id %d, but the column has none", c.FieldID)
	}
	if other := b.withID(c.FieldID); other >= 0 {
		got += fmt.Sprintf("; %d is column %q", c.FieldID, b.schema.Field(other).Name)
	}
	b.fail(c.Name, f.Type, got, "name and field id of the same column")
	return 0, false
}

// withID is the position of the column with a field id, or -1.
func (b *binder) withID(id int32) int {
	if id != 0 {
		for i, f := range b.schema.Fields() {
			if got, ok := fieldID(f); ok && got == id {
				return i
			}
		}
	}
	return -1
}

func fieldID(f arrow.Field) (int32, bool) {
	text, ok := f.Metadata.GetValue(schema.FieldIDKey)
	if !ok {
		return 0, false
	}
	id, err := strconv.ParseInt(text, 10, 32)
	return int32(id), err == nil
}

// codec binds the key encoding of the index; nil if it has no valid column.
func (b *binder) codec(cols []int, nullable bool) *keys.Codec {
	var valid []int
	for _, i := range cols {
		if _, err := keys.Bind(b.schema, []int{i}, nullable); err != nil {
			if te, ok := errors.AsType[*keys.TypeError](err); ok {
				b.fail(te.Column, te.Type, "", te.Want)
			} else {
				b.fail(b.schema.Field(i).Name, b.schema.Field(i).Type, err.Error(), "a key column")
			}
			continue
		}
		valid = append(valid, i)
	}
	if len(valid) == 0 {
		return nil
	}
	c, err := keys.Bind(b.schema, valid, nullable)
	if err != nil {
		b.errs = append(b.errs, err)
	}
	return c
}
