package wal

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
)

// Version is the format version that Encode writes and the newest that Decode reads.
const Version = 1

// Keys of the stream's schema metadata. The first three belong to the public
// Lance MemTable & WAL specification, the others to memwal.
const (
	keyEpoch         = "writer_epoch"
	keyFence         = "fence_sentinel"
	keyLanceGen      = "generation"
	keyPrefix        = "memwal."
	keyVersion       = keyPrefix + "version"
	keyPutID         = keyPrefix + "put_id"
	keyPrevPutID     = keyPrefix + "prev_put_id"
	keyFirstRow      = keyPrefix + "first_row"
	keyGeneration    = keyPrefix + "generation"
	fenceValue       = "true"
	maxHeaderEntries = 8
)

// Header is what an entry says about itself.
type Header struct {
	// Version is the format version, 0 for an entry of another program. Encoders
	// ignore it and write Version.
	Version int
	// Epoch is the fencing token of the writer, from 1.
	Epoch uint64
	// PutID identifies this entry; never zero in entries of memwal.
	PutID PutID
	// PrevPutID is the put-id of the last live entry when this one was built.
	PrevPutID PutID
	// FirstRow is the ordinal of the first row: what the shard's history holds
	// below this entry, also for entries without rows.
	FirstRow uint64
	// Generation is the memtable that the rows belonged to; 0 if not recorded.
	Generation uint64
	// Fence marks an entry without rows that a new writer puts in the first
	// empty position.
	Fence bool
}

// validate checks what an encoder is given.
func (h Header) validate() error {
	switch {
	case h.Epoch == 0:
		return fmt.Errorf("wal: encode entry: epoch 0 means no writer; claim one first")
	case h.PutID.IsZero():
		return fmt.Errorf("wal: encode entry: put-id is missing; use NewPutID")
	case h.PutID == h.PrevPutID:
		return fmt.Errorf("wal: encode entry: put-id %s is also the previous one", h.PutID)
	}
	return nil
}

// metadata returns the header as schema metadata, followed by the pairs of the
// table's own metadata. Pairs of the latter that would pass for a header are left out.
func (h Header) metadata(own arrow.Metadata) arrow.Metadata {
	keys := make([]string, 0, maxHeaderEntries+own.Len())
	vals := make([]string, 0, maxHeaderEntries+own.Len())
	add := func(k, v string) { keys, vals = append(keys, k), append(vals, v) }
	add(keyEpoch, strconv.FormatUint(h.Epoch, 10))
	if h.Fence {
		add(keyFence, fenceValue)
	}
	add(keyVersion, strconv.Itoa(Version))
	add(keyPutID, h.PutID.String())
	if !h.PrevPutID.IsZero() {
		add(keyPrevPutID, h.PrevPutID.String())
	}
	add(keyFirstRow, strconv.FormatUint(h.FirstRow, 10))
	if h.Generation != 0 {
		add(keyGeneration, strconv.FormatUint(h.Generation, 10))
	}
	for i, k := range own.Keys() {
		if !isHeaderKey(k) {
			add(k, own.Values()[i])
		}
	}
	return arrow.NewMetadata(keys, vals)
}

// isHeaderKey reports whether a metadata key belongs to the header.
func isHeaderKey(k string) bool {
	return k == keyEpoch || k == keyFence || k == keyLanceGen || strings.HasPrefix(k, keyPrefix)
}

// stripHeader returns the pairs of m that do not belong to the header.
func stripHeader(m arrow.Metadata) arrow.Metadata {
	if !slices.ContainsFunc(m.Keys(), isHeaderKey) {
		return m
	}
	var keys, vals []string
	for i, k := range m.Keys() {
		if !isHeaderKey(k) {
			keys, vals = append(keys, k), append(vals, m.Values()[i])
		}
	}
	return arrow.NewMetadata(keys, vals)
}

// headerParser collects the header's pairs from schema metadata.
type headerParser struct {
	h         Header
	seen      map[string]bool
	lanceGen  uint64
	prefixed  bool // any key of memwal's
	versioned bool
}

// pair takes one pair of the metadata in.
func (p *headerParser) pair(k, v string) error {
	if !isHeaderKey(k) {
		return nil
	}
	if p.seen[k] {
		return corruptf("metadata key %q appears twice", k)
	}
	if p.seen == nil {
		p.seen = make(map[string]bool, maxHeaderEntries)
	}
	p.seen[k] = true
	p.prefixed = p.prefixed || strings.HasPrefix(k, keyPrefix)
	var err error
	switch k {
	case keyEpoch:
		p.h.Epoch, err = parseDecimal(v)
	case keyFence:
		p.h.Fence = v == fenceValue
	case keyLanceGen:
		p.lanceGen, err = parseDecimal(v)
	case keyVersion:
		var n uint64
		n, err = parseDecimal(v)
		p.h.Version, p.versioned = int(min(n, 1<<31-1)), true
	case keyPutID:
		p.h.PutID, err = ParsePutID(v)
	case keyPrevPutID:
		p.h.PrevPutID, err = ParsePutID(v)
	case keyFirstRow:
		p.h.FirstRow, err = parseDecimal(v)
	case keyGeneration:
		p.h.Generation, err = parseDecimal(v)
	}
	if err != nil {
		return &CorruptError{Reason: fmt.Sprintf("metadata key %q", k), Err: err}
	}
	return nil
}

// finish checks the whole and returns it.
func (p *headerParser) finish() (Header, error) {
	h := p.h
	if h.Generation == 0 {
		h.Generation = p.lanceGen
	}
	switch {
	case h.Version > Version:
		return Header{}, &CorruptError{
			Reason: fmt.Sprintf("format version %d, this program knows versions up to %d", h.Version, Version),
			Err:    ErrUnsupported,
		}
	case !p.seen[keyEpoch]:
		return Header{}, corruptf("schema metadata has no %q: not an entry of a write-ahead log", keyEpoch)
	case !p.versioned && p.prefixed:
		return Header{}, corruptf("schema metadata has keys of memwal but no %q", keyVersion)
	case !p.versioned:
		return h, nil
	case h.Version == 0:
		return Header{}, corruptf("format version 0 does not exist")
	case h.Epoch == 0:
		return Header{}, corruptf("epoch 0 means no writer")
	case h.PutID.IsZero():
		return Header{}, corruptf("put-id is missing")
	case h.PutID == h.PrevPutID:
		return Header{}, corruptf("put-id %s is also the previous one", h.PutID)
	case !p.seen[keyFirstRow]:
		return Header{}, corruptf("schema metadata has no %q", keyFirstRow)
	}
	return h, nil
}

// parseDecimal reads an unsigned number of digits only.
func parseDecimal(s string) (uint64, error) {
	if s == "" || s[0] == '+' {
		return 0, fmt.Errorf("%q is not a decimal number", s)
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%.40q is not a decimal number of 64 bits", s)
	}
	return n, nil
}
