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
}, storeMetrics("memwal.store", func(s *Stats) *objstore.CounterValues { return &s.Requests }), []telemetry.Metric[Stats]{
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
