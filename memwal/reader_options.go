package memwal

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/memwal/memwal-go/index"
	"github.com/memwal/memwal-go/objstore"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
)

// ReaderOptions holds what may be chosen about a Reader. The zero value of a
// field, and a nil *ReaderOptions, mean the default.
type ReaderOptions struct {
	// Schema is the one to read with. It may leave columns out, rename them (by
	// their field id), and reorder them; a column that the shard lacks reads as
	// null. Columns outside of the primary key are nullable in what a reader returns,
	// whatever it says here: a later writer may drop them. Default: the schema that the
	// shard was last opened with by its writer.
	Schema *arrow.Schema

	// PrimaryKey is needed if Schema renames a key column, and for a log of another
	// program that does not say what its key is. Default: what the shard says.
	PrimaryKey []string

	// Indexes to build. Default (nil): those that the shard's writer has, but for
	// those over a column that Schema leaves out; empty: none, which saves their memory.
	Indexes []index.Config

	// PollInterval is how long Follow waits before it looks for new rows when the
	// last look found some; each look that finds none doubles it, up to
	// MaxPollInterval. A look costs two get requests if there is nothing new, and one
	// more for each entry: on a shard that is always written to some 30 a second, about
	// 30 dollars a month at list price. Default 100 ms: shorter shows rows sooner,
	// longer costs less in proportion.
	PollInterval time.Duration
	// MaxPollInterval bounds that. Default 5 s: longer costs less on a shard that is
	// seldom written to.
	MaxPollInterval time.Duration

	// MaxResidentBytes is the ceiling for rows and indexes in memory, above which
	// OpenReader and Refresh return ErrReaderFull. It is looked at between stretches
	// of half of ReplayBytes, so it can be passed by one, and by the indexes of that.
	// Default 4 GiB.
	MaxResidentBytes int64
	// ReplayBytes bounds what a Refresh has fetched and not yet taken in, however
	// far the reader is behind. Default 64 MiB: less leaves requests idle.
	ReplayBytes int64

	// Prices are those of the store, for ReaderStats.Cost. Default nil: S3 Standard at
	// list price.
	Prices *objstore.Prices
	// Retry bounds how transient failures of the store are retried.
	Retry objstore.RetryOptions
	// Allocator serves what memwal allocates for Arrow data. Default:
	// memory.DefaultAllocator.
	Allocator memory.Allocator
	// Logger gets what an operator must see. Default: nothing is logged.
	Logger *slog.Logger
	// MeterProvider exports every figure of ReaderStats, as docs/operations.md lists
	// them, until Close. Default nil: none.
	MeterProvider metric.MeterProvider
	// TracerProvider makes a span of each Refresh. Default nil: none.
	TracerProvider trace.TracerProvider
}

func (o *ReaderOptions) withDefaults() ReaderOptions {
	var r ReaderOptions
	if o != nil {
		r = *o
	}
	var w Options
	w = w.withDefaults()
	def(&r.PollInterval, 100*time.Millisecond)
	def(&r.MaxPollInterval, max(5*time.Second, r.PollInterval))
	def(&r.MaxResidentBytes, w.MaxResidentBytes)
	def(&r.ReplayBytes, w.ReplayBytes)
	def(&r.Prices, w.Prices)
	if r.Retry.Rand == nil {
		r.Retry.Rand = rand.Float64
	}
	if r.Allocator == nil {
		r.Allocator = w.Allocator
	}
	if r.Logger == nil {
		r.Logger = w.Logger
	}
	return r
}

// validate reports every violation of o, joined.
func (o *ReaderOptions) validate() error {
	var errs []error
	check := func(ok bool, field string, value any, bound string) {
		if !ok {
			errs = append(errs, &OptionError{field, value, bound})
		}
	}
	check(o.PollInterval > 0, "PollInterval", o.PollInterval, "positive")
	check(o.MaxPollInterval >= o.PollInterval, "MaxPollInterval", o.MaxPollInterval, fmt.Sprintf("at least PollInterval, %v", o.PollInterval))
	check(o.MaxResidentBytes > 0, "MaxResidentBytes", o.MaxResidentBytes, "positive")
	check(o.ReplayBytes > 0, "ReplayBytes", o.ReplayBytes, "positive")
	return errors.Join(errs...)
}
