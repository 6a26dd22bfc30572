package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/memwal/memwal-go/index"
)

// The indexes of a run share its processors with everything else. What each takes by
// itself is measured afterwards, over the first batches that were put, as many as
// these bounds allow.
const (
	costRows = 1_000_000
	costTime = 3 * time.Second // an index
	// Input that is not kept in memory is read again, and kept that long: no more
	// than prepareBytes of it.
)

// indexCost is what one index takes.
type indexCost struct {
	Index       string  `json:"index"`
	Rows        int64   `json:"rows"`             // that were applied
	BytesPerRow float64 `json:"bytes_per_row"`    // of memory
	NSPerRow    float64 `json:"apply_ns_per_row"` // of one goroutine, batch by batch
}

// costs applies the batches that were put, once for each index.
func (b *bench) costs(key []string, configs []index.Config) ([]indexCost, error) {
	type one struct {
		name    string
		key     []index.Column
		configs []index.Config
	}
	var list []one
	if len(key) > 0 {
		k := one{name: "primary key " + strings.Join(key, ", ")}
		for _, name := range key {
			k.key = append(k.key, index.Column{Name: name})
		}
		list = append(list, k)
	}
	for _, cfg := range configs {
		list = append(list, one{name: indexName(cfg), configs: []index.Config{cfg}})
	}
	var costs []indexCost
	for _, o := range list {
		spec, err := index.Bind(b.in.Schema(), o.key, o.configs)
		if err != nil {
			return nil, fmt.Errorf("cost of the %s: %w", o.name, err)
		}
		c, err := b.cost(spec)
		if err != nil {
			return nil, fmt.Errorf("cost of the %s: %w", o.name, err)
		}
		c.Index = o.name
		costs = append(costs, c)
	}
	return costs, nil
}

// cost fills a set of indexes.
func (b *bench) cost(spec *index.Spec) (indexCost, error) {
	rows := &costTable{}
	defer rows.release()
	set := spec.NewSet(rows)
	var took time.Duration
	var bytes int64
	for rec, err := range b.feed.replay(b.report.Batches) {
		if err != nil {
			return indexCost{}, err
		}
		first := rows.add(rec)
		start := time.Now()
		if err := set.Apply(rec, first); err != nil {
			return indexCost{}, err
		}
		took += time.Since(start)
		bytes += bufferBytes(rec)
		if rows.end >= costRows || bytes >= prepareBytes || took >= costTime {
			break
		}
	}
	n := float64(rows.end)
	return indexCost{Rows: int64(rows.end), BytesPerRow: per(float64(set.Bytes()), n), NSPerRow: per(float64(took), n)}, nil
}

// costTable is the rows of a set: index.Rows for one goroutine.
type costTable struct {
	batches []arrow.RecordBatch // owned
	firsts  []uint32            // slot of the first row of each
	end     uint32
}

// add takes rec over, and returns the slot of its first row.
func (t *costTable) add(rec arrow.RecordBatch) uint32 {
	first := t.end
	t.batches, t.firsts = append(t.batches, rec), append(t.firsts, first)
	t.end += uint32(rec.NumRows())
	return first
}

// Locate implements index.Rows.
func (t *costTable) Locate(slot uint32) (arrow.RecordBatch, int) {
	lo, hi := 0, len(t.firsts) // firsts[lo] <= slot < firsts[hi]
	for hi-lo > 1 {
		if mid := (lo + hi) / 2; t.firsts[mid] <= slot {
			lo = mid
		} else {
			hi = mid
		}
	}
	return t.batches[lo], int(slot - t.firsts[lo])
}

func (t *costTable) release() {
	for _, rec := range t.batches {
		rec.Release()
	}
}
