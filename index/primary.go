package index

import (
	"math"
	"sync"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow"
)

// primary is the primary key of one memtable: an append-only hash from a key to
// the slot of its newest version, from which versions chain to older ones. Keys
// are not stored: they are compared, exactly, in the Arrow columns.
//
// It keeps the versions' links too, since it alone knows which row supersedes
// which.
type primary struct {
	spec     *Spec
	rows     Rows
	versions *versions
	shards   [shards]shard
	cells    atomic.Int64 // over all shards
	// Keys that fit a word lie from low to high, which are widened before a key is
	// there. Keys of a shard often grow with time: then a lookup in many memtables
	// goes to the table of one.
	low, high atomic.Uint64

	// The writer's scratch.
	words []uint64
	enc   []byte

	// found is scratch for readers that encode a key.
	found sync.Pool
}

func newPrimary(s *Spec, rows Rows, v *versions) *primary {
	p := &primary{spec: s, rows: rows, versions: v}
	p.found.New = func() any { return new([]byte) }
	p.low.Store(math.MaxUint64)
	for i := range p.shards {
		n := firstCells(i)
		p.shards[i].tab.Store(&table{cells: make([]uint64, n)})
		p.cells.Add(int64(n))
	}
	return p
}

func (p *primary) apply(r *run) error {
	p.versions.grow(uint64(r.first) + uint64(r.rows))
	for i := range r.batches {
		p.applyBatch(&r.batches[i])
	}
	return nil
}

func (p *primary) applyBatch(b *batch) {
	if p.spec.key.Fixed() {
		p.words = p.spec.key.Words(p.words[:0], b.rec)
		p.widen(p.words)
		for row, w := range p.words {
			p.insert(b, row, p.spec.hashWord(w))
		}
		return
	}
	for row := range b.rows {
		p.enc = p.spec.key.AppendRow(p.enc[:0], b.rec, row)
		p.insert(b, row, p.spec.hashBytes(p.enc))
	}
}

// widen makes low and high hold words.
func (p *primary) widen(words []uint64) {
	low, high := p.low.Load(), p.high.Load()
	for _, w := range words {
		low, high = min(low, w), max(high, w)
	}
	p.low.Store(low)
	p.high.Store(high)
}

// insert makes the row the newest version of its key, whose hash is given.
func (p *primary) insert(b *batch, row int, hash uint64) {
	slot := b.first + uint32(row)
	if b.isDead(row) {
		p.versions.bury(slot)
	}
	sh := &p.shards[hash>>(64-shardBits)]
	t, fp := sh.tab.Load(), fingerprint(hash)
	i := t.home(fp)
	for ; t.cells[i] != 0; i = t.next(i) {
		c := t.cells[i]
		if uint32(c>>32) != fp {
			continue
		}
		if old := uint32(c) - 1; p.sameKey(b, row, old) {
			p.versions.supersede(slot, old)
			t.store(i, fp, slot)
			return
		}
	}
	if sh.full(t) {
		before := len(t.cells)
		t = sh.grow()
		p.cells.Add(int64(len(t.cells) - before))
		for i = t.home(fp); t.cells[i] != 0; {
			i = t.next(i)
		}
	}
	t.store(i, fp, slot)
	sh.used++
}

// sameKey compares the key of a row of the batch with that of a slot, which may
// be in the same batch.
func (p *primary) sameKey(b *batch, row int, old uint32) bool {
	rec, at := b.rec, int(old-b.first)
	if old < b.first {
		rec, at = p.rows.Locate(old)
	}
	if p.spec.key.Fixed() {
		return p.spec.key.Word(rec, at) == p.words[row]
	}
	return p.spec.key.CompareKey(p.enc, rec, at) == 0
}

// find is the newest slot below the bound with the key.
func (p *primary) find(k *Key, bound uint32) (uint32, bool) {
	if p.spec.key.Fixed() && (k.word < p.low.Load() || k.word > p.high.Load()) {
		return 0, false
	}
	t, fp := p.shards[k.hash>>(64-shardBits)].tab.Load(), fingerprint(k.hash)
	for i := t.home(fp); ; i = t.next(i) {
		c := t.load(i)
		if c == 0 {
			return 0, false
		}
		if uint32(c>>32) != fp {
			continue
		}
		// All versions of a chain have one key, so the walk to the bound comes
		// first: only rows below it are looked at.
		slot, ok := uint32(c)-1, true
		for ok && slot >= bound {
			slot, ok = p.versions.older(slot)
		}
		if !ok {
			continue
		}
		rec, row := p.rows.Locate(slot)
		if p.spec.key.Fixed() {
			if p.spec.key.Word(rec, row) == k.word {
				return slot, true
			}
		} else if p.spec.key.CompareKey(k.bytes, rec, row) == 0 {
			return slot, true
		}
	}
}

// findRow is find for the key of a row.
func (p *primary) findRow(rec arrow.RecordBatch, row int, bound uint32) (uint32, bool) {
	if p.spec.key.Fixed() {
		w := p.spec.key.Word(rec, row)
		return p.find(&Key{word: w, hash: p.spec.hashWord(w)}, bound)
	}
	buf := p.found.Get().(*[]byte)
	defer p.found.Put(buf)
	*buf = p.spec.key.AppendRow((*buf)[:0], rec, row)
	return p.find(&Key{bytes: *buf, hash: p.spec.hashBytes(*buf)}, bound)
}

func (p *primary) bytes() int64 {
	const perShard = 64 // the shard and its table's header
	return p.cells.Load()*8 + p.versions.bytes.Load() + shards*perShard
}
