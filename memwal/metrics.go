package memwal

import (
	"slices"
	"time"

	"github.com/memwal/memwal-go/internal/telemetry"
	"github.com/memwal/memwal-go/objstore"
)

// statsMetrics are the instruments of Stats, each of its figures in one.
//
// The cursors are positions in the history of the shard and no counters: they
// do not begin at zero with a writer, and after a crash the next one stands
// lower than the last, which the consumers of a counter would take for a reset
// and count the whole history again. Rates come from memwal.wal.rows.
var statsMetrics = slices.Concat([]telemetry.Metric[Stats]{
	one("memwal.epoch", telemetry.Gauge, "{epoch}", "Fencing token of the writer.",
		telemetry.Int(func(s *Stats) uint64 { return s.Epoch })),

	one("memwal.rows.accepted", telemetry.UpDownCounter, "{row}", "Rows of the shard's history that Put took.",
		telemetry.Int(func(s *Stats) uint64 { return s.Accepted })),
	one("memwal.rows.indexed", telemetry.UpDownCounter, "{row}", "Rows of the shard's history that are in every index.",
		telemetry.Int(func(s *Stats) uint64 { return s.Indexed })),
	one("memwal.rows.durable", telemetry.UpDownCounter, "{row}", "Rows of the shard's history that are in the WAL.",
		telemetry.Int(func(s *Stats) uint64 { return s.Durable })),
	one("memwal.rows.visible", telemetry.UpDownCounter, "{row}", "Rows of the shard's history that readers see.",
		telemetry.Int(func(s *Stats) uint64 { return s.Visible })),

	one("memwal.log.length", telemetry.UpDownCounter, "{entry}", "Entries and fences of the log above the floor.",
		telemetry.Int(func(s *Stats) uint64 { return s.WALEntries })),
	one("memwal.log.size", telemetry.UpDownCounter, "By", "Bytes of these entries.",
		telemetry.Int(func(s *Stats) uint64 { return s.WALBytes })),

	one("memwal.open.duration", telemetry.Gauge, "s", "Time that the last open took.",
		telemetry.Seconds(func(s *Stats) time.Duration { return s.OpenTime })),
	one("memwal.open.replay.duration", telemetry.Gauge, "s", "Time of its claim, walk over the log, and fence.",
		telemetry.Seconds(func(s *Stats) time.Duration { return s.Open.Duration })),
	one("memwal.open.replay.entries", telemetry.Gauge, "{entry}", "Live entries that it replayed.",
		telemetry.Int(func(s *Stats) uint64 { return s.Open.Entries })),
	one("memwal.open.replay.fences", telemetry.Gauge, "{fence}", "Live fences that it passed.",
		telemetry.Int(func(s *Stats) uint64 { return s.Open.Fences })),
	one("memwal.open.replay.dead", telemetry.Gauge, "{entry}", "Dead entries that it skipped.",
		telemetry.Int(func(s *Stats) uint64 { return s.Open.Dead })),
	one("memwal.open.replay.rows", telemetry.Gauge, "{row}", "Rows that it replayed.",
		telemetry.Int(func(s *Stats) uint64 { return s.Open.Rows })),
	one("memwal.open.replay.size", telemetry.Gauge, "By", "Bytes of the live entries that it replayed.",
		telemetry.Int(func(s *Stats) uint64 { return s.Open.Bytes })),

	{
		Name: "memwal.wal.appends", Kind: telemetry.Counter, Unit: "{append}",
		Description: "Appends started, by what started them.",
		Values: []telemetry.Value[Stats]{
			telemetry.Int(func(s *Stats) uint64 { return s.WAL.StartedByTime }, attrReason.String("time")),
			telemetry.Int(func(s *Stats) uint64 { return s.WAL.StartedBySize }, attrReason.String("size")),
			telemetry.Int(func(s *Stats) uint64 { return s.WAL.StartedByDemand }, attrReason.String("demand")),
		},
	},
	one("memwal.wal.held_back", telemetry.Counter, "{append}", "Of these, appends that waited for MaxPUTsPerSecond.",
		telemetry.Int(func(s *Stats) uint64 { return s.WAL.HeldBack })),
	one("memwal.wal.entries", telemetry.Counter, "{entry}", "Entries acknowledged.",
		telemetry.Int(func(s *Stats) uint64 { return s.WAL.Entries })),
	one("memwal.wal.rows", telemetry.Counter, "{row}", "Rows of the entries acknowledged.",
		telemetry.Int(func(s *Stats) uint64 { return s.WAL.Rows })),
	one("memwal.wal.written", telemetry.Counter, "By", "Encoded bytes of the entries acknowledged.",
		telemetry.Int(func(s *Stats) uint64 { return s.WAL.Bytes })),
	one("memwal.wal.append.time", telemetry.Counter, "s", "Time of the appends acknowledged, summed: encoding, put, retries.",
		telemetry.Seconds(func(s *Stats) time.Duration { return s.WAL.AppendTime })),
	one("memwal.wal.position", telemetry.Gauge, "{position}", "WAL position of the last entry acknowledged.",
		telemetry.Int(func(s *Stats) uint64 { return s.WAL.LastPosition })),
	one("memwal.wal.reissued", telemetry.Counter, "{entry}", "Entries put again above a dead object.",
		telemetry.Int(func(s *Stats) uint64 { return s.WAL.Reissued })),
	one("memwal.wal.in_flight", telemetry.UpDownCounter, "{put}", "Puts in flight.",
		telemetry.Int(func(s *Stats) int64 { return s.WAL.InFlight })),
	one("memwal.ownership.checks", telemetry.Counter, "{check}", "Manifest reads before an acknowledgement.",
		telemetry.Int(func(s *Stats) uint64 { return s.WAL.OwnershipChecks })),
}, storeMetrics("memwal.store", func(s *Stats) *objstore.CounterValues { return &s.Requests }),
	costMetrics("memwal.cost", func(s *Stats) *objstore.Cost { return &s.Cost }), []telemetry.Metric[Stats]{
		one("memwal.memtable.generation", telemetry.Gauge, "{generation}", "Generation of the active memtable.",
			telemetry.Int(func(s *Stats) uint64 { return s.Generation })),
		one("memwal.memtable.count", telemetry.UpDownCounter, "{memtable}", "Memtables in memory, frozen ones and the active one.",
			telemetry.Int(func(s *Stats) int { return s.Memtables })),
		one("memwal.memory.resident", telemetry.UpDownCounter, "By", "Bytes of rows and indexes in memory.",
			telemetry.Int(func(s *Stats) int64 { return s.ResidentBytes })),
		one("memwal.memory.index", telemetry.UpDownCounter, "By", "The part of the indexes in memwal.memory.resident.",
			telemetry.Int(func(s *Stats) int64 { return s.IndexBytes })),
		one("memwal.snapshots", telemetry.UpDownCounter, "{snapshot}", "Open snapshots.",
			telemetry.Int(func(s *Stats) int64 { return s.Snapshots })),
	})

// readerMetrics are the instruments of ReaderStats, each of its figures in one.
var readerMetrics = slices.Concat([]telemetry.Metric[ReaderStats]{
	one("memwal.reader.position", telemetry.Gauge, "{position}", "Last WAL position that the reader has taken in.",
		telemetry.Int(func(s *ReaderStats) uint64 { return s.Position })),
	one("memwal.reader.epoch", telemetry.Gauge, "{epoch}", "Epoch of the writer in force there.",
		telemetry.Int(func(s *ReaderStats) uint64 { return s.Epoch })),
	one("memwal.reader.rows.visible", telemetry.UpDownCounter, "{row}", "Rows of the shard's history that the reader shows.",
		telemetry.Int(func(s *ReaderStats) uint64 { return s.Visible })),
	one("memwal.reader.entries", telemetry.Counter, "{entry}", "Live entries that it has read.",
		telemetry.Int(func(s *ReaderStats) uint64 { return s.Log.Entries })),
	one("memwal.reader.fences", telemetry.Counter, "{fence}", "Live fences that it has passed.",
		telemetry.Int(func(s *ReaderStats) uint64 { return s.Log.Fences })),
	one("memwal.reader.dead", telemetry.Counter, "{entry}", "Dead entries that it has skipped.",
		telemetry.Int(func(s *ReaderStats) uint64 { return s.Log.Dead })),
	one("memwal.reader.rows", telemetry.Counter, "{row}", "Rows that it has read.",
		telemetry.Int(func(s *ReaderStats) uint64 { return s.Log.Rows })),
	one("memwal.reader.size", telemetry.Counter, "By", "Bytes of the live entries that it has read.",
		telemetry.Int(func(s *ReaderStats) uint64 { return s.Log.Bytes })),
}, storeMetrics("memwal.reader.store", func(s *ReaderStats) *objstore.CounterValues { return &s.Requests }),
	costMetrics("memwal.reader.cost", func(s *ReaderStats) *objstore.Cost { return &s.Cost }), []telemetry.Metric[ReaderStats]{
		one("memwal.reader.memtable.count", telemetry.UpDownCounter, "{memtable}", "Memtables in memory.",
			telemetry.Int(func(s *ReaderStats) int { return s.Memtables })),
		one("memwal.reader.memory.resident", telemetry.UpDownCounter, "By", "Bytes of rows and indexes in memory.",
			telemetry.Int(func(s *ReaderStats) int64 { return s.ResidentBytes })),
		one("memwal.reader.memory.index", telemetry.UpDownCounter, "By", "The part of the indexes in memwal.reader.memory.resident.",
			telemetry.Int(func(s *ReaderStats) int64 { return s.IndexBytes })),
		one("memwal.reader.snapshots", telemetry.UpDownCounter, "{snapshot}", "Open snapshots.",
			telemetry.Int(func(s *ReaderStats) int64 { return s.Snapshots })),
	})

// one is a metric with one time series.
func one[T any](name string, k telemetry.Kind, unit, description string, v telemetry.Value[T]) telemetry.Metric[T] {
	return telemetry.Metric[T]{Name: name, Kind: k, Unit: unit, Description: description, Values: []telemetry.Value[T]{v}}
}

// storeMetrics are the instruments of requests to the store, whose names begin
// with prefix.
func storeMetrics[T any](prefix string, counters func(*T) *objstore.CounterValues) []telemetry.Metric[T] {
	return []telemetry.Metric[T]{
		byOperation(prefix+".requests", "{request}", "Requests to the store, each attempt counted.", counters,
			func(v *objstore.OpValues) uint64 { return v.Requests }),
		byOperation(prefix+".errors", "{request}", "Requests that failed, for whatever reason: an object that exists or is missing, too.", counters,
			func(v *objstore.OpValues) uint64 { return v.Errors }),
		one(prefix+".read", telemetry.Counter, "By", "Bytes of bodies read.",
			telemetry.Int(func(t *T) uint64 { return counters(t).BytesRead })),
		one(prefix+".written", telemetry.Counter, "By", "Bytes of bodies written.",
			telemetry.Int(func(t *T) uint64 { return counters(t).BytesWritten })),
	}
}

// byOperation is a counter with a time series for each kind of request.
func byOperation[T any](name, unit, description string, counters func(*T) *objstore.CounterValues, read func(*objstore.OpValues) uint64) telemetry.Metric[T] {
	of := func(op objstore.Op, values func(*objstore.CounterValues) *objstore.OpValues) telemetry.Value[T] {
		return telemetry.Int(func(t *T) uint64 { return read(values(counters(t))) }, attrOperation.String(string(op)))
	}
	return telemetry.Metric[T]{
		Name: name, Kind: telemetry.Counter, Unit: unit, Description: description,
		Values: []telemetry.Value[T]{
			of(objstore.OpGet, func(v *objstore.CounterValues) *objstore.OpValues { return &v.Get }),
			of(objstore.OpGetRange, func(v *objstore.CounterValues) *objstore.OpValues { return &v.GetRange }),
			of(objstore.OpHead, func(v *objstore.CounterValues) *objstore.OpValues { return &v.Head }),
			of(objstore.OpList, func(v *objstore.CounterValues) *objstore.OpValues { return &v.List }),
			of(objstore.OpPut, func(v *objstore.CounterValues) *objstore.OpValues { return &v.Put }),
			of(objstore.OpPutIfAbsent, func(v *objstore.CounterValues) *objstore.OpValues { return &v.PutIfAbsent }),
			of(objstore.OpDelete, func(v *objstore.CounterValues) *objstore.OpValues { return &v.Delete }),
		},
	}
}

// costMetrics are the instruments of a bill, whose names begin with prefix.
func costMetrics[T any](prefix string, cost func(*T) *objstore.Cost) []telemetry.Metric[T] {
	return []telemetry.Metric[T]{
		{
			Name: prefix + ".requests", Kind: telemetry.Counter, Unit: "{request}",
			Description: "Requests to the store, by the class that they are charged in.",
			Values: []telemetry.Value[T]{
				telemetry.Int(func(t *T) uint64 { return cost(t).ClassA.Requests }, attrClass.String("A")),
				telemetry.Int(func(t *T) uint64 { return cost(t).ClassB.Requests }, attrClass.String("B")),
				telemetry.Int(func(t *T) uint64 { return cost(t).Delete.Requests }, attrClass.String("delete")),
			},
		},
		{
			Name: prefix + ".charged", Kind: telemetry.Counter, Unit: "{USD}",
			Description: "What requests and reads cost, by class.",
			Values: []telemetry.Value[T]{
				telemetry.Float(func(t *T) float64 { return cost(t).ClassA.Dollars }, attrClass.String("A")),
				telemetry.Float(func(t *T) float64 { return cost(t).ClassB.Dollars }, attrClass.String("B")),
				telemetry.Float(func(t *T) float64 { return cost(t).Delete.Dollars }, attrClass.String("delete")),
				telemetry.Float(func(t *T) float64 { return cost(t).Egress }, attrClass.String("egress")),
			},
		},
		one(prefix+".total", telemetry.Counter, "{USD}", "The sum of "+prefix+".charged.",
			telemetry.Float(func(t *T) float64 { return cost(t).Dollars })),
	}
}
