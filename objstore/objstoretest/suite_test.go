package objstoretest_test

import (
	"testing"

	"gocloud.dev/blob/fileblob"
	"gocloud.dev/blob/memblob"

	"github.com/memwal/memwal-go/internal/miniotest"
	"github.com/memwal/memwal-go/objstore"
	"github.com/memwal/memwal-go/objstore/faultstore"
	"github.com/memwal/memwal-go/objstore/objstoretest"
)

func TestMemory(t *testing.T) {
	objstoretest.Run(t, func(*testing.T) objstore.Store { return objstore.NewMemory() })
}

func TestFolder(t *testing.T) {
	objstoretest.Run(t, func(t *testing.T) objstore.Store {
		s, err := objstore.NewFolder(t.TempDir() + "/new/folder")
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}

func TestGocloudMemory(t *testing.T) {
	objstoretest.Run(t, func(*testing.T) objstore.Store { return objstore.NewBucket(memblob.OpenBucket(nil), "") })
}

func TestGocloudFolder(t *testing.T) {
	objstoretest.Run(t, func(t *testing.T) objstore.Store {
		b, err := fileblob.OpenBucket(t.TempDir(), &fileblob.Options{NoTempDir: true, Metadata: fileblob.MetadataDontWrite})
		if err != nil {
			t.Fatal(err)
		}
		return objstore.NewBucket(b, "below/here")
	})
}

func TestS3(t *testing.T) {
	objstoretest.Run(t, func(t *testing.T) objstore.Store { return objstoretest.StartS3(t).Store("") })
}

// TestS3Difficult has small pages, no order, a prefix, foreign keys all around,
// and signed payloads.
func TestS3Difficult(t *testing.T) {
	objstoretest.Run(t, func(t *testing.T) objstore.Store {
		s := objstoretest.StartS3(t)
		s.PageSize, s.Unordered = 7, true
		for _, key := range []string{"deep", "deep/", "deep/down/", "deep/down//x", "deep/down/../y", "deep/down/ctrl\x01\n", "deeper/1", "other"} {
			s.PutForeign(key, []byte("foreign"))
		}
		return objstore.NewS3(s.Client(), objstoretest.S3Bucket, "/deep/down/", &objstore.S3Options{SignPayload: true})
	})
}

func TestWrapped(t *testing.T) {
	objstoretest.Run(t, func(*testing.T) objstore.Store {
		s := faultstore.New(objstore.Prefix(objstore.NewMemory(), "view/of"), 1)
		return objstore.WithRetry(objstore.WithCounters(s, new(objstore.Counters)), objstore.RetryOptions{})
	})
}

func TestMinIO(t *testing.T) {
	objstoretest.Run(t, func(t *testing.T) objstore.Store { return miniotest.Store(t) })
}
