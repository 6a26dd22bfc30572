// Package pagefile is an object of sections in which every byte has a checksum, and
// which is read in ranges. What the sections hold is the caller's.
//
//	0      16                                  footer              -32        0
//	┌────────┬──────────────────┬─ ─ ─┬─────────┬─────────────────┬──────────┐
//	│ header │ section, padding │ … … │ section │ footer          │ trailer  │
//	└────────┴──────────────────┴─ ─ ─┴─────────┴─────────────────┴──────────┘
//	└── pages of 64 KiB, the last one shorter ──┘
//
// All numbers are little endian. docs/format.md has the fields.
//
// # Reading
//
// Open reads the end of an object, or all of it if it is small, and checks the footer.
// View gives bytes, and checks the page that they are in when that comes into memory: so
// a flipped bit is found when it is read, and nothing is returned that has not been
// checked. Verify reads all again.
//
// A File is safe for concurrent use. It holds what Bytes says: the footer, and pages up
// to Options.CacheBytes, or all of a small object. It has nothing to be closed.
package pagefile
