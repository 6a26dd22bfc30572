// Package objstoretest checks that a store keeps the contract of
// objstore.Store: [Run] is the suite that every adapter has to pass. [S3] is a small
// S3 service in the test's process, which can be made to fail, for testing the
// S3 adapter and what stands on it.
package objstoretest
