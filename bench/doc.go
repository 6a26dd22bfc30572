// Command bench measures what writing to a memwal shard takes, on real input.
//
//	go run ./bench                                   an embedded file, a fresh local folder, all indexes
//	go run ./bench -input flights.parquet -store minio -index none -writers 128 -batch 1000 -duration 20s
//	go run ./bench -rows 1000000 -dim 384 -store 's3://bucket/prefix?region=eu-central-1'
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
// # JSON
//
// -json writes the same figures as one object, with the value of every flag
// under "options". A run that failed or was interrupted has what was measured so
// far and the reason under "error"; one that succeeded has no such key.
//
// # Exit codes
//
// 0: done. 1: failed, or the rows differ. 2: wrong flags or input. 130:
// interrupted; what was taken has been made durable, and the figures printed.
package main

//go:generate go run ./internal/cut -rows 200000 $FLIGHTS data/flights-200k.parquet
