package faultstore

import (
	"math/rand/v2"
	"strconv"
)

// place names a request by what does not depend on how requests interleave.
type place struct {
	opKey
	nth uint64 // of that kind and key
}

// FNV-1a, 64 bits. It is spelled out because hash/fnv allocates, and because a
// hash that is continued from a common start must be at hand as a number.
const (
	fnvOffset uint64 = 14695981039346656037
	fnvPrime  uint64 = 1099511628211
)

func fnv1a(h uint64, s string) uint64 {
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * fnvPrime
	}
	return h
}

// hash is that of the kind and the key alone.
func (k opKey) hash() uint64 {
	h := fnv1a(fnvOffset, string(k.op))
	h = fnv1a(h, "\x00")
	return fnv1a(fnv1a(h, k.key), "\x00")
}

// hashNth continues the hash of kind and key.
func hashNth(h, nth uint64) uint64 {
	var digits [20]byte
	for _, d := range strconv.AppendUint(digits[:0], nth, 10) {
		h = (h ^ uint64(d)) * fnvPrime
	}
	return h
}

// random returns the source of what is random about the request. Most requests
// need none.
func (c *call) random() *rand.Rand {
	if c.rng == nil {
		c.rng = rand.New(rand.NewPCG(c.s.seed, c.hash))
	}
	return c.rng
}

// drawFor returns 64 random bits for an object of a listing. They do not depend
// on the other objects, so that one that comes or goes meanwhile changes nothing
// about the rest. use tells draws for different purposes apart.
func (c *call) drawFor(use, key string) uint64 {
	h := fnv1a(fnv1a(fnv1a(c.hash, "\x00"), use), key)
	return mix(mix(h) ^ c.s.seed)
}

// mix is the finalizer of SplitMix64: FNV alone leaves the high bits of
// similar keys similar.
func mix(h uint64) uint64 {
	h ^= h >> 30
	h *= 0xbf58476d1ce4e5b9
	h ^= h >> 27
	h *= 0x94d049bb133111eb
	return h ^ h>>31
}

// chance makes a number in [0, 1) of 64 random bits.
func chance(bits uint64) float64 { return float64(bits>>11) / (1 << 53) }

// tallySize is the number of kinds and keys of which a tally remembers how many
// there were, at least; at most twice as many. More than the objects of a long
// simulation, and a few MiB in a run of days.
const tallySize = 1 << 16

// tally counts requests by the hash of their kind and key. The zero value is
// empty.
//
// When young is full it becomes old, and what was only in old is forgotten.
type tally struct{ young, old map[uint64]uint64 }

// next counts one more, and returns which one it is, from 1.
func (t *tally) next(h uint64) uint64 {
	n, ok := t.young[h]
	if !ok {
		n = t.old[h]
		if t.young == nil || len(t.young) >= tallySize {
			t.old, t.young = t.young, make(map[uint64]uint64)
		}
	}
	t.young[h] = n + 1
	return n + 1
}
