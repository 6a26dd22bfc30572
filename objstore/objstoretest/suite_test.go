package objstoretest_test

import (
	"errors"
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

// TestS02_ProbeRefusesWhatIgnoresTheCondition, below any adapter.
func TestS02_ProbeRefusesWhatIgnoresTheCondition(t *testing.T) {
	folder, err := objstore.NewFolder(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]objstore.Store{
		"memory": objstore.NewMemory(), "folder": folder, "S3": objstoretest.StartS3(t).Store("log"),
		"gocloud": objstore.NewBucket(memblob.OpenBucket(nil), "log"),
	} {
		t.Run(name, func(t *testing.T) {
			f := faultstore.New(s, 1)
			f.Add(faultstore.Rule{Count: -1, IgnoreCondition: true})
			for _, key := range []string{"probe", "log/probe"} {
				if err := objstore.Probe(t.Context(), objstore.WithRetry(f, objstore.RetryOptions{}), key); !errors.Is(err, objstore.ErrConditionIgnored) {
					t.Errorf("Probe: %v", err)
				}
			}
			if n := f.Injected()[faultstore.FaultIgnoreCondition]; n != 2 {
				t.Errorf("the condition was ignored %d times, want 2", n)
			}
			f.Clear()
			if err := objstore.Probe(t.Context(), f, "probe"); err != nil {
				t.Errorf("Probe of the same store that does not: %v", err)
			}
		})
	}
}
