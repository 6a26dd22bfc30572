package memwal

import (
	"context"
	"fmt"

	"github.com/memwal/memwal-go/memtable"
)

// Ticket stands for rows that were accepted. It may be waited for by any number
// of goroutines, or not at all.
type Ticket struct {
	w     *Writer // keeps the writer from being taken for abandoned
	wait  *memtable.Waiter
	first uint64
	end   uint64
}

// FirstRow is the row ordinal of the first row of the batch.
func (t *Ticket) FirstRow() uint64 { return t.first }

// Rows is the number of rows of the batch.
func (t *Ticket) Rows() int64 { return int64(t.end - t.first) }

// Done is closed when the rows are visible, or never will be: then Err says why.
func (t *Ticket) Done() <-chan struct{} { return t.wait.Done() }

// Err returns nil while the rows are on their way and once they are visible, and
// the writer's terminal failure if it came first.
func (t *Ticket) Err() error { return t.wait.Err() }

// Wait returns nil once the rows are visible. After any error it is not known
// whether they will be found later; they will not be found twice. The end of
// ctx ends the wait, not the writing.
func (t *Ticket) Wait(ctx context.Context) error {
	return t.outcome(t.wait.Wait(ctx))
}

// WaitDurable returns nil once the rows are durable, whatever the visibility of
// the writer. Errors are as for Wait.
func (t *Ticket) WaitDurable(ctx context.Context) error {
	return t.outcome(t.w.c.cursors.Register(memtable.LevelDurable, t.end).Wait(ctx))
}

// WaitIndexed returns nil once the rows are indexed, durable or not: an
// IndexedSnapshot taken from then on has them. With WALOnly nothing is indexed, and it
// waits for the log alone. Errors are as for Wait.
func (t *Ticket) WaitIndexed(ctx context.Context) error {
	return t.outcome(t.w.c.cursors.Register(memtable.LevelIndexed, t.end).Wait(ctx))
}

func (t *Ticket) outcome(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("wait for %d rows from ordinal %d: %w; they were accepted and may still be found later", t.end-t.first, t.first, err)
}
