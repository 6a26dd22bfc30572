package miniotest

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/memwal/memwal-go/internal/miniotest/minio"
	"github.com/memwal/memwal-go/objstore"
)

// Bucket is the bucket of the shared server, which all tests use, each below
// its own prefix.
const Bucket = "memwal"

// buildAndStart bounds everything that comes before the first request.
const buildAndStart = 15 * time.Minute

// shared is the server of this process. It is not stopped by a test: its
// watchdog stops it when the process ends.
var shared = sync.OnceValues(func() (*minio.Server, error) {
	ctx, cancel := context.WithTimeout(context.Background(), buildAndStart)
	defer cancel()
	s, err := minio.Run(ctx, "")
	if err != nil {
		return nil, err
	}
	return s, s.CreateBucket(ctx, Bucket)
})

// Start returns the MinIO of this test process, with the bucket [Bucket]. All
// tests share it: do not close it. With -short the test is skipped.
//
// Tests of what any S3 service can do use [Store] or [StoreURL] instead, which
// know MEMWAL_S3_URL.
func Start(tb testing.TB) *minio.Server {
	tb.Helper()
	if testing.Short() {
		tb.Skip("no MinIO with -short")
	}
	s, err := shared()
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// Store returns an empty store in a real S3 service, which is closed with the
// test.
func Store(tb testing.TB) objstore.Store {
	tb.Helper()
	var s objstore.Store
	if base := external(tb); base != nil {
		var err error
		if s, err = objstore.Open(tb.Context(), below(tb, base)); err != nil {
			tb.Fatal(err)
		}
	} else {
		s = Start(tb).Store(Bucket, prefix(tb))
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
	return s
}

// StoreURL returns the URL of an empty store in a real S3 service, for
// objstore.Open in this process or in a child of it. It sets the credentials in the
// environment, as far as they are not there already, for the length of the test; hence
// the test must not be parallel.
func StoreURL(tb testing.TB) string {
	tb.Helper()
	if base := external(tb); base != nil {
		return below(tb, base)
	}
	s := Start(tb)
	for _, v := range s.Env() {
		name, value, _ := strings.Cut(v, "=")
		tb.Setenv(name, value)
	}
	return s.URL(Bucket, prefix(tb))
}

// external returns what MEMWAL_S3_URL says, or nil.
func external(tb testing.TB) *url.URL {
	tb.Helper()
	raw := os.Getenv("MEMWAL_S3_URL")
	if raw == "" {
		return nil
	}
	if testing.Short() {
		tb.Skip("no S3 service with -short")
	}
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "s3" {
		tb.Fatalf("MEMWAL_S3_URL=%s: want s3://bucket/prefix?…: %v", raw, err)
	}
	return u
}

func below(tb testing.TB, base *url.URL) string {
	return base.JoinPath(prefix(tb)).String()
}

// prefix returns a prefix that no other test has, here or elsewhere.
func prefix(tb testing.TB) string {
	name := strings.Map(func(r rune) rune {
		if r < 0x80 && (r == '/' || r == '_' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z') {
			return r
		}
		return '-'
	}, tb.Name())
	return fmt.Sprintf("%.150s-%s", strings.ReplaceAll(name, "/", "-"), strings.ToLower(rand.Text())[:12])
}
