package memwal

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/memwal/memwal-go/memtable"
)

// ordinalColumn is the name of the column that ScanOptions.Ordinals adds.
const ordinalColumn = "_row_ordinal"

// longRun is from how many rows on a run is handed out as a slice of the batch
// that it lies in. Shorter ones are copied together: a reader pays more for
// many small batches than for the copy.
const longRun = 1024

// run is a stretch of rows of one batch, in storage schema. The batch is lent.
type run struct {
	rec     arrow.RecordBatch
	row, n  int64
	ordinal uint64 // of the first row; those of the others follow
}

// runAt is the one row in a slot of a view.
func runAt(v memtable.View, slot uint32) run {
	rec, row := v.Locate(slot)
	return run{rec: rec, row: int64(row), n: 1, ordinal: v.Memtable().FirstRow() + uint64(slot)}
}

// gatherer makes batches in the readers' schema out of runs.
type gatherer struct {
	schema   *arrow.Schema
	columns  []int // of the storage schema, for each column of schema but the ordinal
	ordinals bool  // the last column of schema is the row ordinal
	mem      memory.Allocator
	parts    []part        // scratch
	scratch  []arrow.Array // scratch
}

// bare tells that batches have no columns: only how many rows they have counts.
func (g *gatherer) bare() bool { return len(g.columns) == 0 && !g.ordinals }

// batch returns the rows of runs, which is not empty, as one batch that belongs
// to the caller. A single run is not copied.
func (g *gatherer) batch(runs []run) (arrow.RecordBatch, error) {
	var rows int64
	for _, r := range runs {
		rows += r.n
	}
	out := make([]arrow.Array, 0, len(g.columns)+1)
	defer func() {
		for _, a := range out {
			a.Release()
		}
	}()
	g.parts = g.parts[:0]
	if len(runs) > 1 {
		g.parts = partsOf(runs, g.parts)
	}
	for _, col := range g.columns {
		a, err := g.column(col, runs, int(rows))
		if err != nil {
			return nil, fmt.Errorf("gather rows of column %q: %w", runs[0].rec.ColumnName(col), err)
		}
		out = append(out, a)
	}
	if g.ordinals {
		out = append(out, g.ordinalsOf(runs, rows))
	}
	return array.NewRecordBatch(g.schema, out, rows), nil
}

func (g *gatherer) column(col int, runs []run, rows int) (arrow.Array, error) {
	if len(runs) == 1 {
		return array.NewSlice(runs[0].rec.Column(col), runs[0].row, runs[0].row+runs[0].n), nil
	}
	if t := runs[0].rec.Column(col).DataType(); copies(t) {
		return copyColumn(g.mem, t, col, g.parts, rows)
	}
	parts := g.scratch[:0]
	for _, r := range runs {
		parts = append(parts, array.NewSlice(r.rec.Column(col), r.row, r.row+r.n))
	}
	defer func() {
		for i, p := range parts {
			p.Release()
			parts[i] = nil
		}
		g.scratch = parts[:0]
	}()
	return array.Concatenate(parts, g.mem)
}

func (g *gatherer) ordinalsOf(runs []run, rows int64) arrow.Array {
	b := array.NewUint64Builder(g.mem)
	defer b.Release()
	b.Reserve(int(rows))
	for _, r := range runs {
		for i := range uint64(r.n) {
			b.UnsafeAppend(r.ordinal + i)
		}
	}
	return b.NewArray()
}

// joins tells whether runs of a type can be copied together. The others are handed out
// run by run.
func joins(t arrow.DataType) bool { return copies(t) || concatenates(t) }

// concatenates tells whether array.Concatenate takes a type.
func concatenates(t arrow.DataType) bool {
	switch t := t.(type) {
	case arrow.ExtensionType, arrow.UnionType, *arrow.DictionaryType, *arrow.RunEndEncodedType:
		return false
	case arrow.NestedType:
		for _, f := range t.Fields() {
			if !concatenates(f.Type) {
				return false
			}
		}
	}
	return true
}
