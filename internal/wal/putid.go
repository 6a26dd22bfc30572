package wal

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
)

// PutID identifies one attempt to write one object. It is random, so that a
// writer which is told that an object exists can tell its own, whose reply was
// lost, from somebody else's. The zero value means "none" and equals nothing,
// not even another absent id.
type PutID [16]byte

// NewPutID returns a fresh id from the system's secure random source.
func NewPutID() PutID {
	var id PutID
	// Read never fails: crypto/rand aborts the program if it would.
	_, _ = rand.Read(id[:])
	return id
}

// IsZero reports whether the id is absent.
func (id PutID) IsZero() bool { return id == PutID{} }

// Same reports whether both ids are present and equal.
func (id PutID) Same(other PutID) bool { return !id.IsZero() && id == other }

// String returns the id as 32 lower-case hexadecimal digits.
func (id PutID) String() string { return hex.EncodeToString(id[:]) }

// ParsePutID reads what String returns.
func ParsePutID(s string) (PutID, error) {
	var id PutID
	if len(s) != 2*len(id) {
		return PutID{}, fmt.Errorf("wal: put-id %.40q: want %d hexadecimal digits, got %d", s, 2*len(id), len(s))
	}
	if _, err := hex.Decode(id[:], []byte(s)); err != nil {
		return PutID{}, fmt.Errorf("wal: put-id %q: %w", s, err)
	}
	return id, nil
}
