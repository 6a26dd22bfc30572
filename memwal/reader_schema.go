package memwal

import (
	"context"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/memwal/memwal-go/index"
	"github.com/memwal/memwal-go/internal/manifest"
	"github.com/memwal/memwal-go/internal/schema"
	"github.com/memwal/memwal-go/replay"
)

// bindTo decides how rows are read.
func (r *Reader) bindTo(ctx context.Context, m *manifest.Manifest, listed replay.Listing) error {
	b := binding{primaryKey: m.PrimaryKey, indexes: r.opts.Indexes}
	stored := m.Schema
	if stored == nil {
		var err error
		if stored, err = r.foreignSchema(ctx, listed); err != nil {
			return err
		}
		if b.primaryKey, err = foreignKey(stored, r.opts.PrimaryKey); err != nil {
			return err
		}
	} else if len(r.opts.PrimaryKey) > 0 {
		b.primaryKey = r.opts.PrimaryKey
	}
	if r.user == nil {
		r.user = schema.User(stored)
	}
	r.user = nullableBut(r.user, b.primaryKey)
	if b.indexes == nil {
		b.indexes = followColumns(indexConfigs(m.Indexes), stored, r.user)
	}
	if err := r.bind(m, b); err != nil {
		return err
	}
	defaults := new(Options).withDefaults()
	r.limits = defaults.limits()
	return nil
}

// nullableBut returns s with every column nullable that is not of the key: rows of
// a later writer may lack it.
func nullableBut(s *arrow.Schema, key []string) *arrow.Schema {
	fields := slices.Clone(s.Fields())
	for i := range fields {
		fields[i].Nullable = !slices.Contains(key, fields[i].Name)
	}
	meta := s.Metadata()
	return arrow.NewSchemaWithEndian(fields, &meta, s.Endianness())
}

// followColumns names the columns of indexes over stored as user names them. An
// index over a column that user leaves out is left out, too.
func followColumns(configs []index.Config, stored, user *arrow.Schema) []index.Config {
	followed := []index.Config{}
	for _, cfg := range configs {
		cols := slices.Clone(indexColumns(cfg))
		whole := true
		for i, col := range cols {
			at := slices.IndexFunc(user.Fields(), func(f arrow.Field) bool { return sameColumn(col, f, stored) })
			if at < 0 {
				whole = false
				break
			}
			cols[i] = index.Column{Name: user.Field(at).Name}
		}
		if whole {
			followed = append(followed, overColumns(cfg, cols))
		}
	}
	return followed
}

// sameColumn tells whether the user's field f is the column of stored that col
// names: by its id, or by its name if it has none.
func sameColumn(col index.Column, f arrow.Field, stored *arrow.Schema) bool {
	for _, s := range stored.Fields() {
		id, err := schema.FieldID(s)
		if err != nil || (col.FieldID == 0 && s.Name != col.Name) || (col.FieldID != 0 && id != col.FieldID) {
			continue
		}
		given, err := schema.FieldID(f)
		return err == nil && (given == id || given == 0 && f.Name == s.Name)
	}
	return false
}
