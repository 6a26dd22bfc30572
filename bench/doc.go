// Command bench measures what writing to a memwal shard takes, on real input.
//
//	go run ./bench                                   an embedded file, a fresh local folder, all indexes
//	go run ./bench -input flights.parquet -store minio -index none -writers 128 -batch 1000 -duration 20s
//	go run ./bench -store minio -baseline -rows 2000000 -duration 20s -writers 128 -batch 1000 -index none
//	go run ./bench -rows 1000000 -batch 1000 -duration 20s -read 1
//	go run ./bench -rows 500000 -batch 20 -async -index pk,text -query     queries beside the writers
//	go run ./bench -json a.json -html a.html         … and then
//	go run ./bench -compare a.json b.json
//	go run ./bench -rows 1000000 -dim 384 -store 's3://bucket/prefix?region=eu-central-1'
//	go run ./bench -soak 10m -faults                 measures nothing: checks that nothing is lost
//
// It opens a new shard, puts every batch of the input, waits until every row is
// durable, closes the writer, reopens the shard, compares every row with the
// input, and prints the figures. A row that was lost, added twice or altered
// makes it fail with exit code 1 and a message that names the first one.
//
// # What is measured
//
// The clock runs from the first put to the moment when the last row is durable
// (in -visible indexed mode that includes a final Flush). CPU seconds are those
// of this process over the same time, user and system, garbage collection
// included; the object store's own are not in it, except for stores that live
// in this process (mem://, a local folder). Peak memory is the process's
// resident peak up to the end of Close.
//
// Batches are prepared before the clock starts: up to 256 MiB of them are
// decoded, cut to -batch rows and given buffers of their own. Input that is
// larger is prepared by a goroutine that runs ahead within the same bound; then
// its CPU time is part of the figure, and the report says so. Repeated passes
// (-duration) share every column but the key with the first one, as do made-up
// rows (-rows) after their first 256 MiB.
//
// The latency of an acknowledgement is the time from the call of Put to its
// return, or from PutAsync to the completion of its ticket. With -rate it
// starts when the put was due, so that a put that waited behind a slow one is
// not counted as fast.
//
// Bytes and MB/s (millions of bytes) are those of object bodies written while
// the clock ran. PUTs are write requests in that time, failed and repeated ones
// included, since they are billed too; list price is that of S3 Standard in
// us-east-1, 0.005 dollars per 1,000 PUTs, and a month has 30 days.
//
// # Against the store itself
//
// -baseline says how much of what the store can take the ingest made use of. The
// ingest and bare puts take turns of five seconds, or of a quarter of -duration if
// that is longer: a store that becomes slower while it fills up, or a neighbour
// that comes and goes, favours neither. The clock of the ingest stands still during
// the bare puts. A slice of the ingest ends when all that was taken is durable. The
// writer is flushed then, or the last rows of each slice, not only those of the run,
// would wait for the interval.
//
// A bare put is a conditional put of one body in one piece. The bodies are as
// large as the WAL entries of the slice before, in the order in which those were
// done. Exactly -inflight goroutines put one after the other, without a pause,
// through the same -latency, until as many bytes were put as by the ingest, or for
// as long as it took; after short runs, the sizes come again until bare puts have
// run for three seconds in all. With S3 such a put is PutObject of the AWS SDK,
// with a client that is set up as the writer's is and the same headers:
// If-None-Match, CRC32C, a signature without the body (unless the URL says
// sign_payload). Elsewhere it is PutIfAbsent of the bare store.
//
// What can be done before is not done while puts are timed: bodies and their
// checksums are ready, connections are open. Bodies are cut from 64 MiB of random
// bytes, more than a processor caches. So the baseline is the most that a program
// with such a client and one put for each entry could reach; the ingest has to
// encode, checksum and acknowledge in order besides. Both end each slice with less
// than the whole window in flight, the ingest for about one put longer: where puts
// take long, let it run longer. The garbage collector is not called in between,
// which would take work off the ingest; during the bare puts it hardly runs, since
// they leave little to collect.
//
// baseline_mb_per_s is their throughput, baseline_ratio that of the ingest divided
// by it, baseline_put_ms the latency of a bare put. Their objects go below
// bench-baseline/, and are removed at the end. In the profile of -cpuprofile they
// have the label bench=baseline: go tool pprof -tagignore baseline leaves them out.
//
// # Readers
//
// -read N starts N goroutines beside the putters. Each goes round as fast as it
// can: it takes a snapshot; looks up 64 random keys in it, if the table has a
// primary key; reads up to 100 rows of the ordered index, if there is one, from a
// random known value on; scans the newest 1,000 rows; and closes the snapshot.
// Known are the rows whose puts have returned. Keys are picked well before they
// are used, so that nothing of them is in the processor's cache. The figures of the
// ingest are those beside the readers.
//
// A lookup is the time from one look at the clock to the next, less what
// looking at the clock takes, which is measured first. Ranges and scans are timed
// from the call to the end of the last batch. In JSON read_us has the latencies in
// microseconds.
//
// Answers are checked outside of these times: each key must be found, under that
// key; of one row for each snapshot every value is compared, if keys are unique;
// a range must begin with the value that was asked for, and a scan must find as
// many rows as were put. A wrong answer ends the run as a lost row does.
//
// # Full text, and queries beside the writers
//
// -index names the indexes: pk, ordered:COLUMN, text:COLUMN:ANALYZER, several of them
// separated by commas. Without a column it is the first one that is no key and that
// the index takes, or that of -text. Made-up text of a table that is to be searched
// (-text, -words or a text index) is -words words, each drawn from a vocabulary of 30,000
// in which the word of rank k comes in proportion to 1/(k+2.7), as in a language.
// Without, it is 64 characters, as ever: figures of before stay comparable.
//
// -query starts goroutines beside the putters that ask as a service does: each query
// takes a snapshot of its own. In turn they ask for the ten best rows for a rare word
// (in at most one of 1,000 rows), a frequent one, two words of which one must match, a
// phrase of two words, and words that begin with three letters, in the first text
// index, and look up a random key. All are drawn from rows whose puts have returned;
// how frequent a term is, is counted in the first 20,000 rows of the input before the
// clock starts. Kinds that the text has none of, such as phrases where each row has
// one term, are left out. A query is timed from taking the snapshot to the last hit,
// less what looking at the clock takes; with -query-rate too, so that queries which
// wait for their turn are not counted as slow.
//
// Answers are checked outside of these times: where fewer than ten rows match, that
// from which the query was drawn is among them; scores fall; and one hit, at random, has
// the terms. A wrong answer ends the run as a lost row does.
//
// -where is the filter of all searches, in the syntax of package filtertext, and adds a
// kind of query: how many rows is it true for? Whether it is true for the row that a
// query was drawn from, and for a hit, is asked by the key, if there is one; where rows
// are only added, counts must not fall.
//
// -query-compare tells what readers cost the writer, in the same run: the putters take
// eight turns of an eighth of -duration each, the first and the last of each four
// without anything beside them. Each ends when its rows are durable. query_compare in
// JSON has the rows a second of both, and their ratio.
//
// # What indexes cost
//
// The report says what memory all indexes hold, by row, when the last row was durable
// (index_bytes_per_row), and what each takes by itself: after the run, the batches that
// were put are applied once more to that index alone, one after the other by one
// goroutine: a million rows, 256 MiB or three seconds of them at most. Bytes are what
// the index says that it holds, and nanoseconds those of applying, without waiting for
// batches or for other indexes ("indexes" in JSON).
//
// # JSON
//
// -json writes the same figures as one object, with the value of every flag
// under "options". A run that failed or was interrupted has what was measured so
// far and the reason under "error"; one that succeeded has no such key.
//
// "series" is what happened while the clock ran, one array for each quantity, a
// value every 100 ms; at 600 values neighbours are merged, and from then on
// values come half as often. t_s is the time, rows, bytes, puts and usd (what
// the PUTs cost) are counts so far; acks, ack_p50_ms and ack_p99_ms are the
// acknowledgements since the value before and their latency; in_flight is the
// number of entries that were being encoded and put, the mean of what was seen
// every 100 ms; resident_bytes is what the writer says it holds (rows and
// indexes), rss_bytes the resident memory of the process (Linux), heap_bytes that
// of Go's objects. Of merged values, the median is the weighted mean of both, the
// 99th percentile and the memory are the higher ones.
//
// # Page
//
// -html writes one page with the same figures, options and series as charts and
// tables: throughput, latency by percentile and over time, PUTs and their cost,
// memory, the in-flight window, and, with -read and -query, their latency. It loads nothing,
// and works from a folder. Charts are drawn by uPlot (html/uPlot.LICENSE).
//
// # Comparing
//
// bench -compare A.json B.json runs nothing. It prints each figure of both
// files, the change from A to B, whether that is better or worse (half a percent
// is neither), and the options that differ. Figures that depend on how long a run
// was, such as the number of rows, are neither better nor worse. How far two runs
// of the same program differ, it cannot know: compare such runs first.
//
// # Soaking
//
// -soak D measures nothing. For so long, some writers (-writers, 3) and readers
// (-read, 2) use one shard, all at once, and take it from each other: they put,
// delete, rotate, flush, read back, are fenced, stalled, killed with puts on the
// wire, left to the garbage collector, closed, and come back; one more process seals and
// unseals. Each shard is used for a fifth of the time, from one to ten seconds; then
// it is read whole by two opens and a reader, and deleted. So hours take no more
// memory than minutes. A line for each tells the live heap.
//
// Everything that was acknowledged or shown must be found by every later open, in
// its place, once, and nothing that was not put; snapshots must show the newest
// version of each key of exactly their prefix, by scan, range, search, lookup and count,
// and a reader what was acknowledged before its refresh began; every error must be one
// that something of the run explains (go doc ./bench/internal/soak). What is not so
// ends the soak with exit code 1, and with seed, round and shard. The objects of the
// shard stay in the store, or are saved to a temporary folder if the store ends
// with the program.
//
// -faults injects what a store may do to its users, on the way of each process:
// failures before and after a request was applied, delays, duplicates, puts that
// land late, listings out of order and with doubles, and, which no store should do,
// bodies cut short. Requests of a process that is stalled or killed count as "hold"
// and "late", also without -faults. -fault-script adds rules of a file, one a line,
// in the words of faultstore.ParseScript, which are also those that are printed:
//
//	op=put-if-absent key=_mem_wal/*/wal/* chance=0.1 count=always after=500
//	op=get,list chance=0.05 count=always delay=2s
//
// A script that breaks the store's contract (before=404, ignore-condition) must make
// the soak fail: that shows that it looks.
//
// -seed fixes what is drawn: options, workload, who ends how, faults. It does not fix
// how requests interleave, since time is real. Of the flags of an ingest,
// -store, -keep, -latency and -json go with it, and -interval, -flush-bytes,
// -max-entry-bytes, -inflight and -compress, which fix what else is drawn for each
// shard. Ctrl-C ends the soak after the shard at hand was verified.
//
// # Exit codes
//
// 0: done. 1: failed, the rows differ, or a soak found a violation. 2: wrong flags
// or input. 130: interrupted; what was taken has been made durable, and the figures
// printed.
package main

//go:generate go run ./internal/cut -rows 200000 $FLIGHTS data/flights-200k.parquet
