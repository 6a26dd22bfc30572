package index

import (
	"sync/atomic"
	"unsafe"
)

const (
	chunkBits = 12
	chunkRows = 1 << chunkBits
)

// chunked has a value for each number from 0 on, in chunks that do not move.
//
//   - who writes: one goroutine at a time;
//   - who reads: anybody, without locks, numbers that it learned of through an atomic;
//   - what is published when: a chunk, before any number in it.
type chunked[T any] struct {
	dir   atomic.Pointer[[]*[chunkRows]T]
	bytes atomic.Int64 // of heap
}

// grow makes room for the numbers below n.
func (c *chunked[T]) grow(n uint64) {
	var dir []*[chunkRows]T
	if d := c.dir.Load(); d != nil {
		dir = *d
	}
	if uint64(len(dir))<<chunkBits >= n {
		return
	}
	for uint64(len(dir))<<chunkBits < n {
		// Readers hold shorter slices of the same array: an append in place
		// writes where none of them looks.
		dir = append(dir, new([chunkRows]T))
	}
	c.dir.Store(&dir)
	c.bytes.Store(int64(len(dir))*int64(unsafe.Sizeof([chunkRows]T{})) + int64(cap(dir))*8)
}

// at is the value of a number below what was grown for.
func (c *chunked[T]) at(i uint32) *T { return &(*c.dir.Load())[i>>chunkBits][i%chunkRows] }
