package schema

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
)

// MaxFieldID is the highest id that a column can have.
const MaxFieldID = math.MaxInt32 - 1

// Table is the shape of a shard's rows, as its manifest keeps it.
type Table struct {
	// Schema is the storage schema: the user's columns in the user's order, each
	// with its field id, and [Tombstone] last where there is a primary key.
	Schema *arrow.Schema
	// PrimaryKey holds the names of the key columns in key order. Empty: the table
	// is append-only.
	PrimaryKey []string
	// NextFieldID is above every id that a column of the table ever had. It only
	// grows. 0 stands for "above those in Schema".
	NextFieldID int32
}

// Storage derives the shape of a table from the schema that its user gives now.
// prev is what the manifest has, or nil for a new table. Nothing of the arguments
// is kept or changed, except that types are shared.
//
// With prev, a column keeps its id if it carries that id, or else if it has that
// name and no other column claims the id. So a column is renamed by giving its
// field the old id in metadata ([FieldIDKey]) under the new name. A column that is
// new gets a new id; it must be nullable, since the rows that are there have no
// value for it. A column may be dropped unless it belongs to the primary key, and
// may become nullable, but not the other way round. Order may change freely.
//
// In storage, key columns are not null. All others are nullable if there is a
// primary key, since deletes carry the key only; [RequiredKey] marks those that
// the user requires. Append-only tables keep the user's nullability.
//
// All violations are reported at once, joined; each is a [*ColumnError].
func Storage(user *arrow.Schema, primaryKey []string, prev *Table) (*Table, error) {
	d := deriver{user: user, key: primaryKey, prev: prev}
	if d.checkNames(); len(d.errs) == 0 {
		d.resolve()
		d.checkEvolution()
		d.checkKey()
	}
	if len(d.errs) > 0 {
		return nil, errors.Join(d.errs...)
	}
	return d.table(), nil
}

// deriver holds the state of one derivation.
type deriver struct {
	user *arrow.Schema
	key  []string
	prev *Table
	errs []error

	ids  []int32 // of the user's columns, by position
	old  []int   // positions of the same columns in prev's schema; -1: new
	next int32   // lowest id never given out
}

func (d *deriver) fail(f arrow.Field, problem, expect string) {
	typ := ""
	if f.Type != nil {
		typ = f.Type.String()
	}
	d.errs = append(d.errs, columnError(f.Name, typ, problem, expect))
}

// checkNames checks what can be said of the user's schema and key by themselves.
func (d *deriver) checkNames() {
	if d.user == nil || d.user.NumFields() == 0 {
		d.errs = append(d.errs, columnError("", "", "the schema has no columns", "give it at least one"))
		return
	}
	if !d.user.IsNativeEndian() {
		d.errs = append(d.errs, columnError("", "", "the schema has the other byte order", "convert it to this machine's"))
	}
	for i, f := range d.user.Fields() {
		switch {
		case f.Name == "":
			d.fail(f, "has no name (column "+strconv.Itoa(i)+")", "give it one")
		case !utf8.ValidString(f.Name):
			d.fail(f, "has a name that is not UTF-8", "rename it")
		case strings.HasPrefix(f.Name, "_"):
			d.fail(f, "has a reserved name", "names that start with an underscore belong to memwal; rename it")
		}
		if d.user.FieldIndices(f.Name)[0] != i {
			d.fail(f, "occurs twice", "a name that is unique in the schema")
		}
		if k, _, _ := layoutOf(f.Type); k == kindUnknown {
			d.fail(f, "has an unknown type", "a type of the Arrow format")
		}
	}
	for i, name := range d.key {
		if slices.Index(d.key, name) != i {
			d.errs = append(d.errs, columnError(name, "", "occurs twice in the primary key", "name it once"))
		}
		if !d.user.HasField(name) {
			d.errs = append(d.errs, columnError(name, "", "of the primary key is not in the schema", "name a column of the schema"))
		}
	}
}

// resolve finds each column's id and its column in prev.
func (d *deriver) resolve() {
	n := d.user.NumFields()
	d.ids, d.old, d.next = make([]int32, n), make([]int, n), 1
	byID, byName := map[int32]int{}, map[string]int{}
	if d.prev != nil {
		d.next = max(1, d.prev.NextFieldID)
		for i, f := range d.prev.Schema.Fields() {
			if f.Name == Tombstone {
				continue
			}
			byName[f.Name] = i
			switch id, err := FieldID(f); {
			case err != nil:
				d.errs = append(d.errs, fmt.Errorf("the table's own schema: %w", err))
			case id != 0:
				byID[id] = i
				d.next = max(d.next, id+1)
			}
		}
	}
	claimed := d.resolveGiven(byID, byName)
	for i, f := range d.user.Fields() {
		if d.ids[i] != 0 || f.Metadata.FindKey(FieldIDKey) >= 0 {
			continue
		}
		d.old[i] = -1
		if p, ok := byName[f.Name]; ok {
			id, _ := FieldID(d.prev.Schema.Field(p))
			if !claimed[id] {
				d.ids[i], d.old[i] = id, p
			}
		}
	}
	for i, f := range d.user.Fields() {
		if d.ids[i] != 0 || f.Metadata.FindKey(FieldIDKey) >= 0 {
			continue
		}
		if d.next > MaxFieldID {
			d.fail(f, "is new, but all field ids are used up", "start a new shard")
			return
		}
		d.ids[i] = d.next
		d.next++
	}
}

// resolveGiven handles the columns that carry an id, and returns the ids they claim.
func (d *deriver) resolveGiven(byID map[int32]int, byName map[string]int) map[int32]bool {
	claimed := map[int32]bool{}
	top := d.next
	for i, f := range d.user.Fields() {
		d.old[i] = -1
		id, err := FieldID(f)
		if err != nil {
			d.errs = append(d.errs, err)
		}
		if id == 0 {
			continue
		}
		byIDPos, known := byID[id]
		byNamePos, named := byName[f.Name]
		switch {
		case claimed[id]:
			d.fail(f, fmt.Sprintf("has the field id %d of another column", id), "an id of its own, or none")
		case known && named && byIDPos != byNamePos:
			d.fail(f, fmt.Sprintf("has the field id %d, which names column %q", id, d.prev.Schema.Field(byIDPos).Name),
				"the id of its own name, or none (exchange names in two steps)")
		case known:
			d.old[i] = byIDPos
		case named && d.prevID(byNamePos) != 0:
			d.fail(f, fmt.Sprintf("has the field id %d, but the table's column of that name has %d", id, d.prevID(byNamePos)),
				"that id, or none")
		case id < d.next:
			d.fail(f, fmt.Sprintf("has the field id %d of a column that was dropped", id), "no id: ids are never reused")
		case named:
			d.old[i] = byNamePos
		}
		d.ids[i] = id
		claimed[id] = true
		top = max(top, id+1)
	}
	d.next = top
	return claimed
}

func (d *deriver) prevID(pos int) int32 {
	id, _ := FieldID(d.prev.Schema.Field(pos))
	return id
}

// checkEvolution compares each column with what it was.
func (d *deriver) checkEvolution() {
	if d.prev == nil {
		return
	}
	for i, f := range d.user.Fields() {
		if d.old[i] < 0 {
			if !f.Nullable && d.ids[i] != 0 && !slices.Contains(d.key, f.Name) {
				d.fail(f, "is new and required", "make it nullable: the rows that are there have no value for it")
			}
			continue
		}
		was := d.prev.Schema.Field(d.old[i])
		if !sameField(was, f) {
			d.fail(f, fmt.Sprintf("was of type %s", describeType(was)), "its old type, or a new column for the new one")
		}
		required := !was.Nullable || was.Metadata.FindKey(RequiredKey) >= 0
		if !f.Nullable && !required && !slices.Contains(d.key, f.Name) {
			d.fail(f, "was nullable", "keep it nullable: the rows that are there may lack a value")
		}
	}
}

// describeType names a type so that types that print alike can be told apart.
func describeType(f arrow.Field) string {
	text := f.Type.String()
	if x, ok := f.Type.(arrow.ExtensionType); ok {
		return x.ExtensionName() + " " + text
	}
	if name, ok := f.Metadata.GetValue(extensionNameKey); ok {
		return name + " " + text
	}
	return text
}

// checkKey checks that the primary key is the one the table has.
func (d *deriver) checkKey() {
	if d.prev == nil {
		return
	}
	if len(d.prev.PrimaryKey) == 0 && len(d.key) > 0 {
		d.errs = append(d.errs, columnError(d.key[0], "", "is a primary key, but the table is append-only", "no primary key"))
		return
	}
	if len(d.key) == 0 && len(d.prev.PrimaryKey) > 0 && d.keeps(d.prev.PrimaryKey[0]) {
		d.errs = append(d.errs, columnError(d.prev.PrimaryKey[0], "", "is in the table's primary key, but no key is given",
			fmt.Sprintf("the key that the table was made with: %q; it cannot be changed", d.prev.PrimaryKey)))
		return
	}
	var key []int // positions in prev of the columns that the key names now
	for _, name := range d.key {
		key = append(key, d.old[d.user.FieldIndices(name)[0]])
	}
	for i, name := range d.prev.PrimaryKey {
		pos := slices.Index(fieldNames(d.prev.Schema), name)
		f := arrow.Field{Name: name}
		if pos >= 0 {
			f.Type = d.prev.Schema.Field(pos).Type
		}
		switch at := slices.Index(key, pos); {
		case pos < 0:
			d.fail(f, "of the table's primary key is not in the table's own schema", "a manifest that is whole")
		case !slices.Contains(d.old, pos):
			d.fail(f, "of the primary key is gone", "key columns cannot be dropped; to rename one, keep its field id")
		case at < 0:
			d.fail(f, "is no longer in the primary key", "the key that the table was made with")
		case at != i:
			d.fail(f, fmt.Sprintf("is in place %d of the primary key", at), fmt.Sprintf("place %d, as when the table was made", i))
		}
	}
	for i, name := range d.key {
		if key[i] < 0 || !slices.Contains(d.prev.PrimaryKey, d.prev.Schema.Field(key[i]).Name) {
			d.fail(d.user.Field(d.user.FieldIndices(name)[0]), "is not in the table's primary key",
				fmt.Sprintf("the key that the table was made with: %q", d.prev.PrimaryKey))
		}
	}
}

func fieldNames(s *arrow.Schema) []string {
	names := make([]string, s.NumFields())
	for i := range names {
		names[i] = s.Field(i).Name
	}
	return names
}

// keeps tells whether the user still has a column of prev.
func (d *deriver) keeps(name string) bool {
	return slices.Contains(d.old, slices.Index(fieldNames(d.prev.Schema), name))
}

// table builds the result of a derivation without violations.
func (d *deriver) table() *Table {
	fields := d.user.Fields()
	adopted := d.prev != nil && slices.ContainsFunc(d.prev.Schema.Fields(), func(f arrow.Field) bool {
		return f.Metadata.FindKey(AdoptedKey) >= 0
	})
	for i := range fields {
		f := &fields[i]
		isKey := slices.Contains(d.key, f.Name)
		required := !f.Nullable
		f.Nullable = !isKey && (f.Nullable || len(d.key) > 0)
		f.Metadata = withoutKeys(f.Metadata, func(k string) bool { return k == FieldIDKey || k == RequiredKey || k == AdoptedKey })
		f.Metadata = withKey(f.Metadata, FieldIDKey, strconv.Itoa(int(d.ids[i])))
		if adopted {
			name := ""
			if d.old[i] >= 0 {
				name, _ = d.prev.Schema.Field(d.old[i]).Metadata.GetValue(AdoptedKey)
			}
			f.Metadata = withKey(f.Metadata, AdoptedKey, name)
		}
		if required && f.Nullable {
			f.Metadata = withKey(f.Metadata, RequiredKey, "true")
		}
	}
	if len(d.key) > 0 {
		fields = append(fields, arrow.Field{Name: Tombstone, Type: arrow.FixedWidthTypes.Boolean})
	}
	meta := withoutKeys(d.user.Metadata(), reservedSchemaKey)
	return &Table{
		Schema:      arrow.NewSchema(fields, &meta),
		PrimaryKey:  slices.Clone(d.key),
		NextFieldID: d.next,
	}
}

// Adopt returns t, which was derived without a previous table, as the table of a log
// that another program has begun. Its entries name columns only; so every column
// keeps the name that it has there, whatever it is called later.
func Adopt(t *Table) *Table {
	fields := t.Schema.Fields()
	for i := range fields {
		if f := &fields[i]; f.Name != Tombstone {
			f.Metadata = withKey(f.Metadata, AdoptedKey, f.Name)
		}
	}
	meta := t.Schema.Metadata()
	return &Table{Schema: arrow.NewSchema(fields, &meta), PrimaryKey: t.PrimaryKey, NextFieldID: t.NextFieldID}
}

// reservedSchemaKey reports whether a schema metadata key belongs to the log: WAL
// entries carry their header there. A user's schema that has one, since it was read
// from a log, loses it.
func reservedSchemaKey(k string) bool {
	return strings.HasPrefix(k, "memwal.") || k == "writer_epoch" || k == "fence_sentinel" || k == "generation"
}

func withoutKeys(m arrow.Metadata, drop func(string) bool) arrow.Metadata {
	var keys, values []string
	for i, k := range m.Keys() {
		if !drop(k) {
			keys, values = append(keys, k), append(values, m.Values()[i])
		}
	}
	return arrow.NewMetadata(keys, values)
}

func withKey(m arrow.Metadata, key, value string) arrow.Metadata {
	return arrow.NewMetadata(append(slices.Clone(m.Keys()), key), append(slices.Clone(m.Values()), value))
}
