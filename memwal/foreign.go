package memwal

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/memwal/memwal-go/internal/schema"
	"github.com/memwal/memwal-go/replay"
)

// A log of another program has no schema in its manifest. Its entries have, and
// Lance marks there which columns are the primary key.

// foreignSchema is the storage schema of the first entry of the log that belongs
// to it and has rows.
func (r *Reader) foreignSchema(ctx context.Context, listed replay.Listing) (*arrow.Schema, error) {
	w := replay.NewWalker(r.walk(listed))
	defer w.Close()
	for {
		s, err := w.Next(ctx)
		if err != nil {
			return nil, err
		}
		if s == nil {
			if r.opts.Schema == nil {
				return nil, invalid("shard", fmt.Errorf("its log is of another program and has no rows yet, so it does not tell its schema: give ReaderOptions.Schema, or wait"))
			}
			return r.opts.Schema, nil
		}
		found, rows := s.Entry.Schema, s.Entry.Rows
		s.Entry.Release()
		if s.Live && rows > 0 {
			return found, nil
		}
	}
}

// Field metadata by which Lance names the columns of a primary key: the place of
// the column in the key, from 1, or in older versions just that it is in it.
const (
	lanceKeyPosition = "lance-schema:unenforced-primary-key:position"
	lanceKeyMark     = "lance-schema:unenforced-primary-key"
)

// foreignKey returns the primary key of a log of another program. given is what
// the user says of it.
func foreignKey(stored *arrow.Schema, given []string) ([]string, error) {
	if len(given) > 0 {
		return given, nil
	}
	key, err := recordedKey(stored)
	if err != nil {
		return nil, invalid("shard", fmt.Errorf("%w: give PrimaryKey", err))
	}
	if len(key) == 0 && stored.HasField(schema.Tombstone) {
		return nil, invalid("shard", fmt.Errorf("its rows have the column %q, so it has a primary key, but the log does not say which: give PrimaryKey", schema.Tombstone))
	}
	return key, nil
}

// recordedKey returns the primary key that a log of Lance records; nil if none.
func recordedKey(stored *arrow.Schema) ([]string, error) {
	type column struct {
		name  string
		place int
	}
	var cols []column
	for i, f := range stored.Fields() {
		if p, ok := f.Metadata.GetValue(lanceKeyPosition); ok {
			place, err := strconv.Atoi(p)
			if err != nil {
				return nil, fmt.Errorf("column %q has the place %q in the primary key, expected a number", f.Name, p)
			}
			cols = append(cols, column{f.Name, place})
		} else if mark, _ := f.Metadata.GetValue(lanceKeyMark); mark == "true" {
			cols = append(cols, column{f.Name, stored.NumFields() + i})
		}
	}
	slices.SortStableFunc(cols, func(a, b column) int { return a.place - b.place })
	var key []string
	for _, c := range cols {
		key = append(key, c.name)
	}
	return key, nil
}
