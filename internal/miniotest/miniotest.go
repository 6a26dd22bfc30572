// Package miniotest gives tests a real S3 store: a MinIO server that the first
// test of a process starts and that ends with the process, or the store that
// MEMWAL_S3_URL names.
package miniotest

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/memwal/memwal-go/internal/miniotest/minio"
	"github.com/memwal/memwal-go/objstore"
)

// EnvURL names the environment variable that holds the URL of another store to
// run the tests against. Each test works below a prefix of its own.
const EnvURL = "MEMWAL_S3_URL"

const bucket = "memwal"

// shared is the server of this process. It is stopped by its supervisor when the
// process ends.
var shared = sync.OnceValues(func() (*minio.Server, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
	defer cancel()
	s, err := minio.Start(ctx, "")
	if err != nil {
		return nil, err
	}
	return s, s.CreateBucket(ctx, bucket)
})

// Store returns an empty store for one test, closed with it. It skips with
// -short. A server that cannot be built or started fails the test.
func Store(tb testing.TB) objstore.Store {
	tb.Helper()
	if testing.Short() {
		tb.Skip("-short: not run against a MinIO server")
	}
	s, err := open(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Errorf("close store: %v", err)
		}
	})
	return objstore.Prefix(s, uuid.NewString())
}

func open(ctx context.Context) (objstore.Store, error) {
	if url := os.Getenv(EnvURL); url != "" {
		s, err := objstore.Open(ctx, url)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", EnvURL, err)
		}
		return s, nil
	}
	server, err := shared()
	if err != nil {
		return nil, err
	}
	return objstore.NewS3(server.Client(), bucket, "", nil), nil
}

// Server returns the MinIO server of this process, for tests that need its
// address. It skips with -short, and where MEMWAL_S3_URL names another store.
func Server(tb testing.TB) *minio.Server {
	tb.Helper()
	if testing.Short() || os.Getenv(EnvURL) != "" {
		tb.Skip("not run against a MinIO server of our own")
	}
	s, err := shared()
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// Bucket is the bucket that Server has.
const Bucket = bucket
