package objstore

import (
	"context"
	"errors"
	"fmt"
)

// Probe checks that w honours the condition of a put-if-absent: it puts one
// fixed small object at key, at most twice. A store whose second put succeeds
// as well would let two writers overwrite each other: [ErrConditionIgnored].
//
// The object stays, so that later probes cost one request (the first answer is
// ErrExists already), and so that Probe needs no right to delete. Use one key
// per log, for nothing else. Any other failure is returned as it is.
func Probe(ctx context.Context, w Writer, key string) error {
	body := Body{[]byte("memwal: does this store honour If-None-Match?\n")}
	for range 2 {
		_, err := w.PutIfAbsent(ctx, key, body)
		switch {
		case errors.Is(err, ErrExists):
			return nil
		case err != nil:
			return fmt.Errorf("probe of the store: %w", err)
		}
	}
	return fmt.Errorf("probe of the store: put %q twice, and both succeeded: %w; "+
		"use a store or gateway that implements conditional writes", key, ErrConditionIgnored)
}
