// Command bleve compares memwal's full-text index, while it is being written, with the
// in-memory indexes of bleve, whose analyzers, queries and collector it uses:
//
//	cd bench/bleve && go run .
//
// prints one table, in about three minutes. It is a module of its own because bleve's
// root package starts goroutines as soon as it is imported.
//
// # What is compared
//
//   - memwal: index.Set with one index.Text, batch by batch, as a shard's memtable
//     applies them, by one goroutine.
//   - scorch: bleve's default index, in memory (NewUsing with an empty path), once with
//     the same batches and once with batches of 1,000 rows.
//   - upsidedown over gtreap: what bleve.NewMemOnly gives.
//
// All get the same rows: 20 words of a vocabulary of 30,000, as frequent as those of a
// language. All analyse with bleve's standard analyzer, keep positions, and store no
// text, since rows are kept elsewhere. bleve's documents are built without its mapping
// by reflection, and are analysed by as many goroutines as there are processors.
//
// # Columns
//
// Rows a second are those of the hundred batches around the 100th one, and of the last
// hundred; of large batches those of the first ten and of the last ten. What takes but
// seconds is run three times, and the middle is shown. -limit ends an index that takes
// too long; then the table says at which batch, and its queries are compared with
// memwal's of as many rows, for memwal's index answers at any bound.
//
// Heap is what is alive after a collection, less what was before the index was made and
// less the rows, by row. Queries ask for the ten best: a rare word is in one of 1,000
// rows, a common one is among the ten most frequent, a match has two words of a row of
// which one must be there, a phrase two that follow each other, and a prefix three
// letters. Latencies are medians of a goroutine that does nothing else, snapshots or
// readers of the index included.
//
// "Same rows" is how many queries find the same rows as memwal, all of them and not
// just the best, and "same ten" how many have ten best rows that are memwal's too, where
// rows with equal scores are interchangeable, as bleve gives them in no particular
// order. Scores themselves differ: bleve's average length of a text counts the distinct
// terms of a segment instead of all, and upsidedown knows no BM25.
package main
