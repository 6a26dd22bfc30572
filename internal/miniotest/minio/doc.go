// Package minio builds and runs a MinIO server, as a separate process, for
// tests and measurements. It does not import testing; package miniotest wraps it for
// tests.
//
// MinIO is licensed under the AGPL. It is a tool of the nested module
// internal/miniotest/server, never a dependency of memwal, and never linked.
package minio
