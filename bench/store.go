package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/memwal/memwal-go/objstore"
	"github.com/memwal/memwal-go/objstore/faultstore"
)

// openedStore is where the shard goes. Its requests are counted.
type openedStore struct {
	objstore.Store
	counters *objstore.Counters
	entries  *sizeRecorder  // nil without -baseline
	plain    objstore.Store // without latency and counting
	bare     objstore.Store // for the baseline: as slow, not counted, and for S3 straight to the SDK
	memory   bool           // it lives in this process
	lasting  bool           // what is put stays after Close
	where    string         // for the report
	after    string         // what becomes of the shard, for the report
	cleanup  func() error
}

// openStore opens what -store names.
func openStore(ctx context.Context, c *config) (*openedStore, error) {
	o := &openedStore{counters: new(objstore.Counters), cleanup: func() error { return nil }}
	var err error
	switch c.Store {
	case "":
		err = o.openTemporary(c.Keep)
	case "minio":
		err = o.openMinIO(ctx)
	default:
		err = o.openURL(ctx, c)
	}
	if err != nil {
		return nil, err
	}
	o.plain = o.Store
	if o.bare == nil {
		o.bare = o.plain
	}
	if c.Latency > 0 {
		o.Store, o.bare = slow(o.Store, c.Latency), slow(o.bare, c.Latency)
		o.where += fmt.Sprintf(" with a latency of %v", c.Latency)
	}
	if c.Baseline {
		o.entries = &sizeRecorder{Store: o.Store}
		o.Store = o.entries
	}
	o.Store = objstore.WithCounters(o.Store, o.counters)
	return o, nil
}

func (o *openedStore) openURL(ctx context.Context, c *config) (err error) {
	o.where, o.after, o.lasting = c.Store, "the shard stays there", true
	if strings.HasPrefix(c.Store, "mem:") {
		o.after, o.lasting, o.memory = "it ends with this process", false, true
	}
	o.Store, err = objstore.Open(ctx, c.Store)
	if errors.Is(err, objstore.ErrInvalid) {
		err = &usageError{fmt.Errorf("-store: %w", err)}
	}
	if err == nil && c.Baseline && strings.HasPrefix(c.Store, "s3:") {
		if o.bare, err = openSDKPuts(ctx, o.Store, c.Store); err != nil {
			err = errors.Join(err, o.Store.Close())
		}
	}
	return err
}

func (o *openedStore) openTemporary(keep bool) error {
	dir, err := os.MkdirTemp("", "memwal-bench-")
	if err != nil {
		return fmt.Errorf("make a temporary folder for the shard: %w", err)
	}
	if o.Store, err = objstore.NewFolder(dir); err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	o.where = "folder " + dir
	if keep {
		o.after, o.lasting = "the shard stays there", true
	} else {
		o.after = "it is removed at the end"
		o.cleanup = func() error { return os.RemoveAll(dir) }
	}
	return nil
}

// slow gives s the latency of an object store with the given median: the tail
// and the bandwidth of one connection are those of S3, in proportion.
func slow(s objstore.Store, median time.Duration) *faultstore.Store {
	like := faultstore.S3Like
	f := faultstore.New(s, 1)
	f.SetLatency(faultstore.Latency{
		P50:       median,
		P99:       time.Duration(float64(median) * float64(like.P99) / float64(like.P50)),
		Bandwidth: like.Bandwidth,
	})
	return f
}

// Close closes the store, and removes what was temporary.
func (o *openedStore) Close() error { return errors.Join(o.Store.Close(), o.cleanup()) }
