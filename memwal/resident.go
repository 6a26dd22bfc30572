package memwal

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/memwal/memwal-go/index"
	"github.com/memwal/memwal-go/internal/manifest"
	"github.com/memwal/memwal-go/internal/schema"
	"github.com/memwal/memwal-go/internal/wal"
	"github.com/memwal/memwal-go/memtable"
)

// resident is what of a shard is in memory, and how its rows are stored, indexed
// and shown: all that a snapshot is taken from. A Writer has one and so has a
// Reader. What is bound does not change once there is a view.
type resident struct {
	mem     memory.Allocator
	user    *arrow.Schema // what callers see
	table   *schema.Table // what is stored
	shaper  *schema.Shaper
	spec    *index.Spec // what batches and keys are checked against
	indexed *index.Spec // what memtables are indexed by; without anything if WALOnly
	limits  memtable.Limits

	view      atomic.Pointer[view]
	snapshots atomic.Int64 // open ones
}

// binding says how the user wants a table to be bound.
type binding struct {
	primaryKey []string
	indexes    []index.Config
	unread     bool // nothing will be read, so nothing is indexed
}

// bind derives from the user's schema, and from the manifest's table if there is
// one, how rows are stored and indexed.
func (r *resident) bind(cur *manifest.Manifest, b binding) error {
	var prev *schema.Table
	if cur != nil && cur.Schema != nil {
		prev = &schema.Table{Schema: cur.Schema, PrimaryKey: cur.PrimaryKey, NextFieldID: cur.NextFieldID}
	}
	table, err := schema.Storage(r.user, b.primaryKey, prev)
	if err != nil {
		return invalid("schema", err)
	}
	if cur != nil && cur.Legacy {
		table = schema.Adopt(table)
	}
	if err := wal.CheckSchema(table.Schema); err != nil {
		return invalid("schema", err)
	}
	spec, err := index.Bind(table.Schema, columns(table.PrimaryKey), b.indexes)
	if err != nil {
		return invalid("indexes", err)
	}
	shaper, err := schema.NewShaper(r.user, table)
	if err != nil {
		return invalid("schema", err)
	}
	r.table, r.spec, r.indexed, r.shaper = table, spec, spec, shaper
	if b.unread {
		if r.indexed, err = index.Bind(withoutTombstone(table.Schema), nil, nil); err != nil {
			return invalid("schema", err)
		}
	}
	return nil
}

// withoutTombstone is what the indexes of a table are bound to that has no use
// for its primary key.
func withoutTombstone(s *arrow.Schema) *arrow.Schema {
	var fields []arrow.Field
	for _, f := range s.Fields() {
		if f.Name != schema.Tombstone {
			fields = append(fields, f)
		}
	}
	return arrow.NewSchema(fields, nil)
}

func columns(names []string) []index.Column {
	var cols []index.Column
	for _, n := range names {
		cols = append(cols, index.Column{Name: n})
	}
	return cols
}

// schemaWithIDs is the user's schema with the id of each column in its metadata.
func (r *resident) schemaWithIDs() *arrow.Schema {
	fields := slices.Clone(r.user.Fields())
	for i := range fields {
		// The storage schema has the user's columns in the user's order.
		id, _ := r.table.Schema.Field(i).Metadata.GetValue(FieldIDKey)
		m := fields[i].Metadata.ToMap()
		m[FieldIDKey] = id
		fields[i].Metadata = arrow.MetadataFrom(m)
	}
	meta := r.user.Metadata()
	return arrow.NewSchema(fields, &meta)
}

// newTable makes a memtable with one reference.
func (r *resident) newTable(generation, firstRow uint64) *memtable.Memtable {
	return memtable.New(memtable.Config{
		Generation: generation, FirstRow: firstRow, Schema: r.table.Schema,
		Spec: r.indexed, Created: time.Now(),
	})
}

// install makes tables the view; none at all takes the view away. Whoever holds
// the lock that orders installations releases the view that is returned, after
// that lock: freeing a memtable takes time.
func (r *resident) install(tables []*memtable.Memtable) (replaced *view) {
	var next *view
	if len(tables) > 0 {
		next = newView(tables)
	}
	return r.view.Swap(next)
}

// acquireView returns the installed view with a reference of the caller's, or
// nil once its owner has let go of the memory.
func (r *resident) acquireView() *view {
	for {
		v := r.view.Load()
		if v == nil || v.acquire() {
			return v
		}
		// It was replaced between the two lines: the next one is there.
	}
}

// takeSnapshot takes a snapshot of the rows below bound, or returns nil if there
// is no view. The bound is asked for once the view is held: rows of a newer
// memtable that came in between are cut off by the end of the view.
func (r *resident) takeSnapshot(bound func() uint64) *Snapshot {
	v := r.acquireView()
	if v == nil {
		return nil
	}
	r.snapshots.Add(1)
	return &Snapshot{r: r, view: v, bound: min(bound(), v.end())}
}

// usage is the memory of the view in bytes: of rows and indexes together, and of
// the indexes alone.
func (v *view) usage() (resident, indexes int64) {
	for _, m := range v.tables {
		indexes += m.IndexBytes()
		resident += m.PinnedBytes() + m.IndexBytes()
	}
	return resident, indexes
}
