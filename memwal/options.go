package memwal

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"time"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/memwal/memwal-go/flusher"
	"github.com/memwal/memwal-go/index"
	"github.com/memwal/memwal-go/memtable"
	"github.com/memwal/memwal-go/objstore"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
)

// Visibility says when readers see a row, and with that when Put returns.
type Visibility uint8

const (
	// VisibleDurable shows rows that are both indexed and durable. The default.
	VisibleDurable Visibility = iota
	// VisibleIndexed shows rows as soon as they are indexed, up to a flush
	// interval before they are durable: a crash may take back what readers have
	// seen. Flush makes everything accepted before it durable.
	VisibleIndexed
)

// Compression names the body compression of WAL entries: Arrow IPC's own.
type Compression string

const (
	CompressionNone Compression = ""
	CompressionLZ4  Compression = "lz4"
	CompressionZstd Compression = "zstd"
)

// The bounds of batches and entries that no option moves.
const (
	// maxBatchBytes is the largest batch: it becomes a WAL entry of its own,
	// which is read whole in replay, and arrow-go's readers limit what they take.
	maxBatchBytes = 64 << 20
	// maxInFlight bounds the window that a reopen has to look through.
	maxInFlight = 64
)

// Options holds what may be chosen about a shard. The zero value of a field,
// and a nil *Options, mean the default.
type Options struct {
	// PrimaryKey names the key columns, in order. With a key, Put is an upsert
	// and Delete works; without one, rows are only ever added. It cannot be
	// changed once the shard exists.
	PrimaryKey []string

	// Indexes are the secondary indexes of memtables. They can be added and
	// dropped from one Open to the next.
	Indexes []index.Config

	// Visibility says when readers see a row. Default: VisibleDurable.
	Visibility Visibility

	// FlushInterval is the least spacing between appends to the WAL that are
	// started by time. It bounds cost: an object store charges for each put. The
	// first write after a pause of an interval or more is appended at once.
	// Default 100 ms (at list price some 130 dollars a month if a shard is
	// written to without a pause): shorter costs more and gains latency only for
	// callers that write again at once; longer makes them wait. Negative: no
	// append is started by time, which VisibleDurable does not allow.
	FlushInterval time.Duration

	// MaxPUTsPerSecond is a ceiling on cost: a minute that ends with an append has
	// no more than 60 times as many PUTs. FlushInterval spaces the appends that are
	// started by time; the ceiling bounds all of them. Those for Flush, a freeze and
	// Close wait for their turn, too, up to a minute for each entry. Meanwhile rows pile up
	// and entries get larger, up to MaxEntryBytes; beyond that memory fills, and puts
	// wait as MaxResidentBytes and StallTimeout say.
	//
	// A tenth of a minute's PUTs, and at least one, goes at once after a pause; the
	// rest of them, evenly spread, is the steady rate. So that is nine tenths of a
	// ceiling that allows for many, and half of the least one.
	//
	// The puts of Open and each attempt of a retry count, and so do entries put
	// again above another writer's object, and manifest commits. These do not wait:
	// the appends after them do, at most until a minute after the last.
	//
	// Default 0: no ceiling. Else from 1/30 (one that goes at once and one more in
	// a minute) to a million. If PUTs are further apart than OwnershipCheckAfter,
	// each append costs a listing, which is as dear as the PUT.
	MaxPUTsPerSecond float64

	// FlushBytes of pending rows start an append before the interval has passed.
	// Default 1 MiB: at list price half a cent a gigabyte. Smaller costs more;
	// larger makes puts wait longer, and entries are made larger anyway when the
	// store is slow.
	FlushBytes int64

	// MaxEntryBytes bounds a WAL entry of several batches. Default 16 MiB, which
	// keeps a replay's reads in proportion; at most 64 MiB.
	MaxEntryBytes int64

	// MaxInFlight bounds the puts in flight, from 1 to 64. Those that landed behind a
	// slow one are not among them: from the oldest unacknowledged one on, puts span up
	// to four times as many WAL positions, with 1 just the one. Default 4: enough to
	// hide the latency of a store in its own region. More helps where latency is high
	// and makes a reopen look through more positions.
	MaxInFlight int

	// Compression of the bodies of WAL entries. Default none: it costs CPU, and
	// WAL entries are short-lived.
	Compression Compression

	// MaxMemtableBytes rotates the active memtable when its rows span so many
	// bytes, or its indexes take so many, or its rows keep twice that and a batch
	// in memory. Default 64 MiB: smaller makes more generations for reads to look
	// through; larger makes them slower to flush. At most 1 GiB with a full-text index.
	// No batch may be larger.
	MaxMemtableBytes int64
	// MaxMemtableRows rotates by rows, for tables whose rows are tiny. Default 8
	// million; at most 2^31. No batch may have more.
	MaxMemtableRows int64
	// MaxMemtableBatches rotates by batches, each of which costs about a hundred
	// bytes beside its rows. Default 1 million.
	MaxMemtableBatches int
	// MaxMemtableAge rotates a memtable that has rows by age, idle or not.
	// Default: never.
	MaxMemtableAge time.Duration

	// MaxRecoveryEntries rotates the active memtable before its rows can take more
	// WAL entries than that: so many objects a reopen reads for one memtable. It is
	// no bound on their sum: frozen memtables are not written elsewhere, so a
	// reopen reads the whole log. Default 65,536, some four minutes of reading where
	// a request takes 28 ms; at least 2. Smaller makes more memtables for reads to
	// look through where rows come one at a time. Of entries put again above another
	// writer's object, what comes after the rotation is on top.
	MaxRecoveryEntries int
	// MaxRecoveryBytes rotates by the bytes of these entries: as they are in the log
	// once they are durable, before that what their rows span. Default 1 GiB: less
	// than that rotates earlier than MaxMemtableBytes only where rows are so few to an
	// entry that what it costs beside them adds up.
	MaxRecoveryBytes int64

	// MaxResidentBytes is the ceiling for rows and indexes in memory. Put waits
	// while it would be passed. Default 4 GiB. Frozen memtables stay in memory,
	// and a reopen loads them again, so this bounds what a shard can ever hold, except
	// with WALOnly. Index memory counts once rows are indexed: where rows are narrow,
	// a fast writer can pass the ceiling by what the indexes still owe.
	MaxResidentBytes int64
	// StallTimeout is how long Put waits under the ceiling without any memory
	// being freed before it returns ErrBackpressure. Default 10 s: shorter gives
	// up during a hiccup of the store; longer keeps callers waiting for nothing.
	StallTimeout time.Duration

	// Adopt lets Open take over a shard that LanceDB has begun and that memwal has
	// never written to. Default: such a shard is refused with ErrForeignWriter, since
	// there is no way back. Once adopted, a shard is like any other and opens without
	// Adopt.
	//
	// Before anything is written, the whole log is read and held against the schema,
	// PrimaryKey and Indexes. The schema must have the columns of the log in their
	// order; the key must be the one that Lance has recorded. A shard is refused that
	// has generations which Lance has flushed and not yet merged into its table; rows
	// that were merged are not seen.
	//
	// A LanceDB writer of the shard that still runs is fenced: its next put finds its
	// WAL position taken and a later epoch in the manifest, and fails. Until then its
	// own readers go on from its memory. Rows that it appended before count.
	//
	// LanceDB can still read the log: what is put and deleted here is there in its
	// terms, as long as the columns and their order stay. (With MaxInFlight above 1 it
	// may also read rows of puts that were never acknowledged, if another memwal writer
	// took the shard over meanwhile.) But it must not write: a
	// LanceDB writer that opens the shard claims it, ends this writer (ErrFenced), and
	// drops what memwal keeps in the manifest. From then on Open returns
	// ErrForeignWriter, with Adopt or without.
	Adopt bool

	// WALOnly keeps rows only until they are durable: no reads, no indexes. Memory
	// is freed a memtable at a time, when its rows are durable and it is frozen: by
	// its own bounds, or because a put waits for memory. A reopen keeps nothing of
	// the log.
	WALOnly bool

	// OwnershipCheckAfter is how long a proof that this writer owns the shard is
	// trusted. Default 30 s, at least 1 s: after a longer pause a put costs one
	// listing more. Longer needs a longer FenceRetention.
	OwnershipCheckAfter time.Duration
	// FenceRetention is how long fences are kept, so that a writer that slept
	// finds them. It must exceed (4 MaxInFlight + 2) times OwnershipCheckAfter, three
	// times with MaxInFlight 1, and ten minutes for the skew of clocks. Default 24 h; longer keeps a few small
	// objects longer.
	FenceRetention time.Duration

	// Retry bounds how transient failures of the store are retried. A put that
	// still fails ends the writer. A claim or commit of which it is not known
	// whether it was applied is repeated until that is known or the context ends.
	Retry objstore.RetryOptions

	// ReplayBytes bounds what a reopen fetches ahead, beside the rows that it has
	// loaded. Default 64 MiB: less leaves requests idle, more gains nothing.
	ReplayBytes int64

	// Prices are those of the store, for Stats.Cost. Default nil: S3 Standard at
	// list price. They change nothing but that figure.
	Prices *objstore.Prices

	// Allocator serves what memwal allocates for Arrow data. Default:
	// memory.DefaultAllocator.
	Allocator memory.Allocator
	// Logger gets what an operator must see. Default: nothing is logged.
	Logger *slog.Logger
	// MeterProvider gets the figures of Stats as OpenTelemetry instruments, until
	// the writer is closed or aborted, and histograms of its appends. Default: no
	// metrics; the global provider is not used.
	MeterProvider metric.MeterProvider
	// TracerProvider gets spans of opens, flushes and appends. Default: no traces;
	// the global provider is not used.
	TracerProvider trace.TracerProvider
}

// clockSkew is what FenceRetention must leave for the skew of clocks.
const clockSkew = 10 * time.Minute

// withDefaults returns a copy of o in which every unset field has its default.
func (o *Options) withDefaults() Options {
	var r Options
	if o != nil {
		r = *o
	}
	def(&r.FlushInterval, 100*time.Millisecond)
	def(&r.FlushBytes, 1<<20)
	def(&r.MaxEntryBytes, 16<<20)
	def(&r.MaxInFlight, 4)
	def(&r.MaxMemtableBytes, 64<<20)
	def(&r.MaxMemtableRows, 8<<20)
	def(&r.MaxMemtableBatches, 1<<20)
	def(&r.MaxRecoveryEntries, 64<<10)
	def(&r.MaxRecoveryBytes, 1<<30)
	def(&r.MaxResidentBytes, 4<<30)
	def(&r.StallTimeout, 10*time.Second)
	def(&r.OwnershipCheckAfter, 30*time.Second)
	def(&r.FenceRetention, 24*time.Hour)
	def(&r.ReplayBytes, 64<<20)
	prices := objstore.S3Standard()
	if r.Prices != nil {
		prices = *r.Prices
	}
	r.Prices = &prices
	if r.Allocator == nil {
		r.Allocator = memory.DefaultAllocator
	}
	if r.Logger == nil {
		r.Logger = slog.New(slog.DiscardHandler)
	}
	return r
}

func def[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func validPrice(dollars float64) bool { return dollars >= 0 && !math.IsInf(dollars, 1) }

// OptionError is one option out of bounds. It matches ErrInvalid.
type OptionError struct {
	Field string
	Value any
	Bound string
}

func (e *OptionError) Error() string {
	return fmt.Sprintf("option %s is %v, must be %s", e.Field, e.Value, e.Bound)
}

// Is makes errors.Is(err, ErrInvalid) true.
func (e *OptionError) Is(target error) bool { return target == ErrInvalid }

// leastRetention is what FenceRetention must exceed where puts span so many WAL
// positions.
func leastRetention(span uint64, checkAfter time.Duration) time.Duration {
	if n := int64(span) + 2; n < int64((math.MaxInt64-clockSkew)/checkAfter) {
		return time.Duration(n)*checkAfter + clockSkew
	}
	return math.MaxInt64
}

// validate reports every violation of o, joined. It changes nothing.
func (o *Options) validate() error {
	var errs []error
	check := func(ok bool, field string, value any, bound string) {
		if !ok {
			errs = append(errs, &OptionError{field, value, bound})
		}
	}
	check(o.Visibility <= VisibleIndexed, "Visibility", o.Visibility, "VisibleDurable or VisibleIndexed")
	check(o.FlushInterval > 0 || o.Visibility == VisibleIndexed, "FlushInterval", o.FlushInterval,
		"positive with VisibleDurable: a small lone put would wait for ever")
	check(o.FlushInterval <= time.Hour, "FlushInterval", o.FlushInterval, "at most 1h")
	check(o.MaxPUTsPerSecond == 0 || o.MaxPUTsPerSecond >= flusher.MinCeiling && o.MaxPUTsPerSecond <= flusher.MaxCeiling,
		"MaxPUTsPerSecond", o.MaxPUTsPerSecond, "0 for no ceiling, or from 1/30 to a million: it is held over a minute, which must have room for two")
	check(o.FlushBytes > 0 && o.FlushBytes <= maxBatchBytes, "FlushBytes", o.FlushBytes, "from 1 to 64 MiB")
	check(o.MaxEntryBytes > 0 && o.MaxEntryBytes <= maxBatchBytes, "MaxEntryBytes", o.MaxEntryBytes, "from 1 to 64 MiB")
	check(o.MaxInFlight > 0 && o.MaxInFlight <= maxInFlight, "MaxInFlight", o.MaxInFlight, "from 1 to 64")
	switch o.Compression {
	case CompressionNone, CompressionLZ4, CompressionZstd:
	default:
		check(false, "Compression", o.Compression, `"", "lz4" or "zstd"`)
	}
	check(o.MaxMemtableBytes > 0, "MaxMemtableBytes", o.MaxMemtableBytes, "positive")
	check(o.MaxMemtableBytes <= maxTextBytes || !slices.ContainsFunc(o.Indexes, isTextIndex), "MaxMemtableBytes", o.MaxMemtableBytes,
		"at most 1 GiB with a full-text index, which has room for 16 GiB: texts of some languages take ten times their size there")
	check(o.MaxMemtableRows > 0 && o.MaxMemtableRows <= 1<<31, "MaxMemtableRows", o.MaxMemtableRows, "from 1 to 2^31")
	check(o.MaxMemtableBatches > 0, "MaxMemtableBatches", o.MaxMemtableBatches, "positive")
	check(o.MaxMemtableAge >= 0, "MaxMemtableAge", o.MaxMemtableAge, "positive, or 0 for never")
	check(o.MaxRecoveryEntries >= 2, "MaxRecoveryEntries", o.MaxRecoveryEntries, "at least 2: one entry may be under way while rows are added")
	check(o.MaxRecoveryBytes > 0, "MaxRecoveryBytes", o.MaxRecoveryBytes, "positive")
	check(o.MaxResidentBytes >= o.MaxMemtableBytes, "MaxResidentBytes", o.MaxResidentBytes,
		fmt.Sprintf("at least MaxMemtableBytes, %d", o.MaxMemtableBytes))
	check(o.StallTimeout > 0, "StallTimeout", o.StallTimeout, "positive")
	check(!o.WALOnly || len(o.Indexes) == 0, "Indexes", len(o.Indexes), "empty with WALOnly: nothing is kept to be indexed")
	check(!o.WALOnly || o.Visibility == VisibleDurable, "Visibility", o.Visibility, "VisibleDurable with WALOnly: rows are dropped once durable")
	check(o.OwnershipCheckAfter >= time.Second, "OwnershipCheckAfter", o.OwnershipCheckAfter, "at least 1s")
	if o.OwnershipCheckAfter > 0 && o.MaxInFlight > 0 {
		span := flusher.Span(o.MaxInFlight)
		least := leastRetention(span, o.OwnershipCheckAfter)
		check(o.FenceRetention > least, "FenceRetention", o.FenceRetention,
			fmt.Sprintf("more than %d * OwnershipCheckAfter + 10m = %v, with MaxInFlight %d", span+2, least, o.MaxInFlight))
	}
	check(o.ReplayBytes > 0, "ReplayBytes", o.ReplayBytes, "positive")
	if p := o.Prices; p != nil {
		check(validPrice(p.ClassA), "Prices.ClassA", p.ClassA, "0 or more, and finite")
		check(validPrice(p.ClassB), "Prices.ClassB", p.ClassB, "0 or more, and finite")
		check(validPrice(p.Delete), "Prices.Delete", p.Delete, "0 or more, and finite")
		check(validPrice(p.Egress), "Prices.Egress", p.Egress, "0 or more, and finite")
	}
	r := o.Retry
	check(r.RequestTimeout >= 0, "Retry.RequestTimeout", r.RequestTimeout, "positive, or 0 for the default")
	check(r.MaxAttempts >= 0, "Retry.MaxAttempts", r.MaxAttempts, "positive, or 0 for the default")
	check(r.MaxElapsed >= 0, "Retry.MaxElapsed", r.MaxElapsed, "positive, or 0 for the default")
	check(r.MinBackoff >= 0, "Retry.MinBackoff", r.MinBackoff, "positive, or 0 for the default")
	check(r.MaxBackoff >= 0, "Retry.MaxBackoff", r.MaxBackoff, "positive, or 0 for the default")
	return errors.Join(errs...)
}

// limits say when a memtable is full.
func (o *Options) limits() memtable.Limits {
	return memtable.Limits{
		WindowBytes: o.MaxMemtableBytes, PinnedBytes: 2*o.MaxMemtableBytes + maxBatchBytes,
		IndexBytes: o.MaxMemtableBytes, Rows: uint32(o.MaxMemtableRows), Batches: o.MaxMemtableBatches,
		Age: o.MaxMemtableAge, Entries: o.MaxRecoveryEntries, LogBytes: o.MaxRecoveryBytes,
	}
}

// binding is what the options say about the table.
func (o *Options) binding() binding {
	return binding{primaryKey: o.PrimaryKey, indexes: o.Indexes, unread: o.WALOnly}
}
