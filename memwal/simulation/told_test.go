package simulation

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/memwal/memwal-go/objstore"
	"github.com/memwal/memwal-go/objstore/faultstore"
)

// The trace has a request where it is applied, and once more where its sender is told
// something else. The methods below are for the latter.

// told traces a fault that was injected into a reply.
func (l *link) told(sender string, op objstore.Op, key string, err error) {
	if !errors.Is(err, faultstore.ErrInjected) {
		return
	}
	if e, ok := errors.AsType[*objstore.Error](err); ok {
		err = e.Err
	}
	what := strings.TrimPrefix(err.Error(), faultstore.ErrInjected.Error()+": ")
	l.trace.hear("%s is told of %s %s: %s", sender, op, shortKey(key), what)
}

func (l *link) Get(ctx context.Context, key string) ([]byte, error) {
	sender := l.sender()
	data, err := l.Store.Get(ctx, key)
	l.told(sender, objstore.OpGet, key, err)
	return data, err
}

func (l *link) Head(ctx context.Context, key string) (objstore.Object, error) {
	sender := l.sender()
	o, err := l.Store.Head(ctx, key)
	l.told(sender, objstore.OpHead, key, err)
	return o, err
}

func (l *link) List(ctx context.Context, prefix string) iter.Seq2[objstore.Object, error] {
	sender := l.sender()
	return func(yield func(objstore.Object, error) bool) {
		for o, err := range l.Store.List(ctx, prefix) {
			l.told(sender, objstore.OpList, prefix, err)
			if !yield(o, err) {
				return
			}
		}
	}
}

func (l *link) PutIfAbsent(ctx context.Context, key string, body objstore.Body) (objstore.PutResult, error) {
	sender := l.sender()
	res, err := l.Store.PutIfAbsent(ctx, key, body)
	l.told(sender, objstore.OpPutIfAbsent, key, err)
	return res, err
}

// sender is the incarnation that sends requests over l now.
func (l *link) sender() string {
	if run := l.run.Load(); run > 0 {
		return fmt.Sprintf("%s.%d", l.name, run)
	}
	return l.name
}

// legend says how to read a trace.
const legend = `W writers, with the number of the open (W0.3), R readers, J the recycler. A request has a line where the
store applies it, and another where its sender is told of a fault instead. Rows are id=n, where n counts
all rows; -id is a deletion; "rows 4+2" are two from ordinal 4 on.
`

// log is what the oracle found at each position.
func (o *oracle) log() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	var b strings.Builder
	b.WriteString("the log, as the oracle has seen it:\n")
	next := uint64(0)
	for i, e := range o.entries {
		fmt.Fprintf(&b, "%6d  ", i+1)
		switch {
		case e.live && e.fence:
			fmt.Fprintf(&b, "fence of epoch %d\n", e.epoch)
		case e.live:
			fmt.Fprintf(&b, "epoch %d, rows %d+%d: %v\n", e.epoch, next, e.after.NextRow-next, o.rows[next:e.after.NextRow])
		case e.fence:
			fmt.Fprintf(&b, "dead fence of epoch %d\n", e.epoch)
		default:
			fmt.Fprintf(&b, "dead, epoch %d\n", e.epoch)
		}
		next = e.after.NextRow
	}
	return b.String()
}
