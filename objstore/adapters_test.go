package objstore_test

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gocloud.dev/blob"
	"gocloud.dev/blob/fileblob"
	"gocloud.dev/blob/memblob"

	"github.com/memwal/memwal-go/internal/miniotest"
	"github.com/memwal/memwal-go/internal/miniotest/minio"
	"github.com/memwal/memwal-go/objstore"
	"github.com/memwal/memwal-go/objstore/faultstore"
	"github.com/memwal/memwal-go/objstore/objstoretest"
)

func TestMemory(t *testing.T) {
	objstoretest.Run(t, func(*testing.T) objstore.Store { return objstore.NewMemory() })
}

func TestPrefix(t *testing.T) {
	objstoretest.Run(t, func(*testing.T) objstore.Store { return objstore.Prefix(objstore.NewMemory(), "a/b") })
}

func TestFolder(t *testing.T) {
	objstoretest.Run(t, func(t *testing.T) objstore.Store {
		s, err := objstore.NewFolder(filepath.Join(t.TempDir(), "new", "folder"))
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}

func TestMemblob(t *testing.T) {
	objstoretest.Run(t, func(t *testing.T) objstore.Store {
		return bucketStore(t, memblob.OpenBucket(nil))
	})
}

func TestFileblob(t *testing.T) {
	objstoretest.Run(t, func(t *testing.T) objstore.Store {
		b, err := fileblob.OpenBucket(t.TempDir(), &fileblob.Options{NoTempDir: true})
		if err != nil {
			t.Fatal(err)
		}
		return bucketStore(t, b)
	})
}

func bucketStore(t *testing.T, b *blob.Bucket) objstore.Store {
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return objstore.NewBucket(b, "some/prefix")
}

func TestS3InProcess(t *testing.T) {
	for _, tc := range []struct {
		name      string
		unordered bool
	}{{"ordered", false}, {"S04_unordered pages", true}} {
		t.Run(tc.name, func(t *testing.T) {
			objstoretest.Run(t, func(t *testing.T) objstore.Store {
				s := objstoretest.StartS3(t)
				s.PageSize, s.Unordered = 3, tc.unordered
				return s.Store("some/prefix")
			})
		})
	}
}

func TestMinIO(t *testing.T) {
	objstoretest.Run(t, miniotestStore)
}

func miniotestStore(t *testing.T) objstore.Store { return miniotest.Store(t) }

func TestMinIOByURL(t *testing.T) {
	server := miniotest.Server(t)
	t.Setenv("AWS_ACCESS_KEY_ID", minio.AccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", minio.SecretKey)
	for _, sign := range []string{"false", "true"} {
		s, err := objstore.Open(t.Context(), "s3://"+miniotest.Bucket+"/by-url-"+sign+"?region="+minio.Region+
			"&use_path_style=true&sign_payload="+sign+"&endpoint="+url.QueryEscape(server.Endpoint()))
		if err != nil {
			t.Fatal(err)
		}
		if err := objstore.Probe(t.Context(), s, "probe"); err != nil {
			t.Errorf("sign_payload=%s: %v", sign, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestOpenURLs(t *testing.T) {
	t.Setenv("AWS_REGION", "")
	t.Setenv("AWS_CONFIG_FILE", filepath.Join(t.TempDir(), "none"))
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	dir := t.TempDir()
	for _, good := range []string{"mem://", "file://" + dir + "/x", "s3://b?region=r", "s3://b/p/q?endpoint=http://127.0.0.1:1&use_path_style=true"} {
		s, err := objstore.Open(t.Context(), good)
		if err != nil {
			t.Errorf("%s: %v", good, err)
			continue
		}
		if err := s.Close(); err != nil {
			t.Errorf("%s: close: %v", good, err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "x")); err != nil {
		t.Errorf("the folder of a file URL was not made: %v", err)
	}
	for bad, want := range map[string]string{
		"":                                       "no scheme",
		"bucket/prefix":                          "no scheme",
		"mem://name":                             "no name",
		"file://relative/dir":                    "three slashes",
		"file://":                                "no folder",
		"s3:///prefix":                           "no bucket",
		"s3://b":                                 "no region",
		"s3://b?region=r&path_style=1":           "use_path_style",
		"s3://b?region=r&sign_payload=":          "",
		"s3://b?region=r&use_path_style=perhaps": "must be true or false",
		"gs://bucket":                            "objstore/gcs",
		"azblob://bucket":                        "objstore/azure",
		"ftp://host":                             "unknown scheme",
		"s3://%zz":                               "invalid",
	} {
		s, err := objstore.Open(t.Context(), bad)
		if want == "" {
			if err != nil {
				t.Errorf("%s: %v", bad, err)
			}
			continue
		}
		if err == nil {
			s.Close()
			t.Errorf("%q was opened", bad)
		} else if !errors.Is(err, objstore.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want ErrInvalid and %q", bad, err, want)
		}
	}
}

func TestS01_RepliesHaveTheirClass(t *testing.T) {
	for _, tc := range []struct {
		name  string
		fault objstoretest.S3Fault
		want  error // nil: of no class
		maybe bool  // may have been applied
		retry bool
	}{
		{"412", objstoretest.S3Fault{Status: http.StatusPreconditionFailed, Code: "PreconditionFailed"}, objstore.ErrExists, false, false},
		{"409", objstoretest.S3Fault{Status: http.StatusConflict, Code: "ConditionalRequestConflict"}, objstore.ErrConflict, false, true},
		{"429", objstoretest.S3Fault{Status: http.StatusTooManyRequests, Code: "TooManyRequests"}, objstore.ErrThrottled, false, true},
		{"503", objstoretest.S3Fault{Status: http.StatusServiceUnavailable, Code: "SlowDown"}, objstore.ErrThrottled, false, true},
		{"500", objstoretest.S3Fault{Status: http.StatusInternalServerError, Code: "InternalError"}, objstore.ErrAmbiguous, true, true},
		{"500 after it was applied", objstoretest.S3Fault{After: true, Status: http.StatusInternalServerError, Code: "InternalError"}, objstore.ErrAmbiguous, true, true},
		{"403", objstoretest.S3Fault{Status: http.StatusForbidden, Code: "AccessDenied"}, objstore.ErrPermission, false, false},
		{"reset", objstoretest.S3Fault{Reset: true}, objstore.ErrAmbiguous, true, true},
		{"reset after it was applied", objstoretest.S3Fault{After: true, Reset: true}, objstore.ErrAmbiguous, true, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s3 := objstoretest.StartS3(t)
			s3.Fault = func(objstoretest.S3Request) objstoretest.S3Fault { return tc.fault }
			s := s3.Store("")
			defer s.Close()
			_, err := s.PutIfAbsent(t.Context(), "k", objstore.Body{[]byte("body")})
			if !errors.Is(err, tc.want) {
				t.Errorf("error is %v, want %v", err, tc.want)
			}
			if got := objstore.MaybeApplied(err); got != tc.maybe {
				t.Errorf("may have been applied: %t, want %t (%v)", got, tc.maybe, err)
			}
			if got := objstore.Retryable(err); got != tc.retry {
				t.Errorf("retryable: %t, want %t (%v)", got, tc.retry, err)
			}
		})
	}
}

func TestS01_TimeoutIsAmbiguous(t *testing.T) {
	s3 := objstoretest.StartS3(t)
	s3.Fault = func(objstoretest.S3Request) objstoretest.S3Fault { return objstoretest.S3Fault{Delay: time.Minute} }
	s := s3.Store("")
	defer s.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := s.PutIfAbsent(ctx, "k", objstore.Body{[]byte("body")}); !objstore.MaybeApplied(err) {
		t.Errorf("a put that timed out: %v, want it to be ambiguous", err)
	}
}

func TestS02_StoreThatIgnoresTheConditionIsRefused(t *testing.T) {
	t.Run("in memory", func(t *testing.T) {
		s := faultstore.New(objstore.NewMemory(), 1)
		s.Add(faultstore.Rule{IgnoreCondition: true, Count: -1})
		if err := objstore.Probe(t.Context(), s, "probe"); !errors.Is(err, objstore.ErrConditionIgnored) {
			t.Errorf("probe: %v, want ErrConditionIgnored", err)
		}
	})
	t.Run("S3", func(t *testing.T) {
		s3 := objstoretest.StartS3(t)
		s3.Fault = func(objstoretest.S3Request) objstoretest.S3Fault {
			return objstoretest.S3Fault{IgnoreCondition: true}
		}
		s := s3.Store("")
		defer s.Close()
		if err := objstore.Probe(t.Context(), s, "probe"); !errors.Is(err, objstore.ErrConditionIgnored) {
			t.Errorf("probe: %v, want ErrConditionIgnored", err)
		}
	})
	t.Run("an object that is there is proof enough", func(t *testing.T) {
		s := faultstore.New(objstore.NewMemory(), 1)
		for range 2 {
			if err := objstore.Probe(t.Context(), s, "probe"); err != nil {
				t.Fatal(err)
			}
		}
		if n := len(s.Requests()); n != 3 {
			t.Errorf("%d requests for two probes, want 2 and then 1", n)
		}
	})
}

func TestS05_SDKSendsAConditionalPutOnce(t *testing.T) {
	for _, fault := range []objstoretest.S3Fault{
		{Status: http.StatusServiceUnavailable, Code: "SlowDown"},
		{Status: http.StatusInternalServerError, Code: "InternalError"},
		{After: true, Reset: true},
		{Status: http.StatusConflict, Code: "ConditionalRequestConflict"},
	} {
		s3 := objstoretest.StartS3(t)
		s3.Fault = func(objstoretest.S3Request) objstoretest.S3Fault { return fault }
		s := s3.Store("")
		if _, err := s.PutIfAbsent(t.Context(), "k", objstore.Body{[]byte("body")}); err == nil {
			t.Errorf("%+v: no error", fault)
		}
		if n := len(s3.Requests()); n != 1 {
			t.Errorf("%+v: %d requests behind one put, want 1", fault, n)
		}
		s.Close()
	}
}

func TestS3ConditionIsSentAndBodyIsNotHashed(t *testing.T) {
	s3 := objstoretest.StartS3(t)
	s := s3.Store("p")
	defer s.Close()
	if _, err := s.PutIfAbsent(t.Context(), "k", objstore.Body{[]byte("a"), []byte("b")}); err != nil {
		t.Fatal(err)
	}
	r := s3.Requests()[0]
	if r.Header.Get("If-None-Match") != "*" {
		t.Error("the put was not conditional")
	}
	if r.Sent != "UNSIGNED-PAYLOAD" {
		t.Errorf("the signature says %q of the body, want UNSIGNED-PAYLOAD", r.Sent)
	}
	if r.Header.Get("x-amz-checksum-crc32c") == "" {
		t.Error("no checksum was sent")
	}
}
