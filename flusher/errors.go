package flusher

import (
	"errors"
	"fmt"
)

// ErrPersistence is the category of terminal failures to make rows durable.
var ErrPersistence = errors.New("rows could not be made durable")

// AppendError is the terminal failure of the append at Position. Whether its
// object is in the store is unknown; reopening the shard finds out. It matches
// ErrPersistence and Err.
type AppendError struct {
	Position uint64
	Err      error
}

func (e *AppendError) Error() string {
	return fmt.Sprintf("append WAL entry %d: %v", e.Position, e.Err)
}

// Unwrap makes both the category and the cause visible to errors.Is.
func (e *AppendError) Unwrap() []error { return []error{ErrPersistence, e.Err} }
