// Package miniotest gives tests a real S3 service: a MinIO server that is
// built once for the machine, started once for each test process, and
// stopped when that process ends, however it does.
//
// The first build takes minutes. A failed build is a failed test; only -short
// skips. With MEMWAL_S3_URL, a URL for objstore.Open, the same tests run against
// another service instead, each below a prefix of its own in that bucket, with credentials from the usual
// AWS chain.
package miniotest
