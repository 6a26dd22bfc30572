package objstoretest_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/memwal/memwal-go/objstore"
	"github.com/memwal/memwal-go/objstore/objstoretest"
)

var content = objstore.Body{[]byte("some "), []byte("content")}

// TestS05_SDKDoesNotRetry: whatever goes wrong, a put is one request, also with a client
// that is told to retry.
func TestS05_SDKDoesNotRetry(t *testing.T) {
	for name, c := range map[string]struct {
		fault objstoretest.S3Fault
		class error // nil: none
		maybe bool
	}{
		"S01 412":          {objstoretest.S3Fault{Status: 412, Code: "PreconditionFailed"}, objstore.ErrExists, false},
		"S01 409":          {objstoretest.S3Fault{Status: 409, Code: "ConditionalRequestConflict"}, objstore.ErrConflict, false},
		"S01 429":          {objstoretest.S3Fault{Status: 429}, objstore.ErrThrottled, false},
		"S01 503 slow":     {objstoretest.S3Fault{Status: 503, Code: "SlowDown"}, objstore.ErrThrottled, false},
		"S01 503 other":    {objstoretest.S3Fault{Status: 503}, objstore.ErrThrottled, true},
		"S01 500":          {objstoretest.S3Fault{Status: 500, Code: "InternalError", After: true}, objstore.ErrAmbiguous, true},
		"S01 502":          {objstoretest.S3Fault{Status: 502}, objstore.ErrAmbiguous, true},
		"S01 504":          {objstoretest.S3Fault{Status: 504}, objstore.ErrAmbiguous, true},
		"S01 reset":        {objstoretest.S3Fault{Reset: true}, objstore.ErrAmbiguous, true},
		"S01 reset, after": {objstoretest.S3Fault{Reset: true, After: true}, objstore.ErrAmbiguous, true},
		"S01 timeout":      {objstoretest.S3Fault{Delay: time.Second}, objstore.ErrAmbiguous, true},
		"socket timeout":   {objstoretest.S3Fault{Status: 400, Code: "RequestTimeout"}, objstore.ErrAmbiguous, true},
		"bad digest":       {objstoretest.S3Fault{Status: 400, Code: "BadDigest"}, nil, true},
		"403":              {objstoretest.S3Fault{Status: 403, Code: "AccessDenied"}, objstore.ErrPermission, false},
		"no bucket":        {objstoretest.S3Fault{Status: 404, Code: "NoSuchBucket"}, objstore.ErrUnusable, false},
		"501":              {objstoretest.S3Fault{Status: 501, Code: "NotImplemented"}, objstore.ErrUnusable, false},
		"413":              {objstoretest.S3Fault{Status: 413, Code: "EntityTooLarge"}, objstore.ErrInvalid, false},
		"redirect":         {objstoretest.S3Fault{Status: 307, Code: "TemporaryRedirect"}, objstore.ErrUnusable, false},
	} {
		t.Run(name, func(t *testing.T) {
			srv := objstoretest.StartS3(t)
			client := srv.Client(func(o *s3.Options) {
				o.Retryer = retry.NewStandard(func(o *retry.StandardOptions) { o.MaxBackoff = time.Millisecond })
				o.RetryMaxAttempts = 3 // ours is 1, and would win
			})
			s := objstore.NewS3(client, objstoretest.S3Bucket, "", nil)
			if _, err := s.PutIfAbsent(t.Context(), "before", content); err != nil { // the connection is not new
				t.Fatal(err)
			}
			srv.Fault = func(objstoretest.S3Request) objstoretest.S3Fault { return c.fault }
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			_, err := s.PutIfAbsent(ctx, "k", content)
			if err == nil || c.class != nil && !errors.Is(err, c.class) || objstore.MaybeApplied(err) != c.maybe {
				t.Errorf("%v; want %v, maybe applied: %v", err, c.class, c.maybe)
			}
			if e, ok := errors.AsType[*objstore.Error](err); !ok || c.class == nil && e.Class != nil {
				t.Errorf("class %v", e)
			}
			if n := len(srv.Requests()); n != 2 {
				t.Errorf("%d requests for two puts", n)
			}
			srv.SetFault(nil)
			if _, err := s.Head(t.Context(), "k"); (err == nil) != c.fault.After {
				t.Errorf("the object: %v", err)
			}
		})
	}
}

func TestS3RefusedConnectionIsNoAmbiguity(t *testing.T) {
	client := objstoretest.StartS3(t).Client(func(o *s3.Options) { o.BaseEndpoint = aws.String("http://127.0.0.1:1") })
	_, err := objstore.NewS3(client, "b", "", nil).PutIfAbsent(t.Context(), "k", content)
	if err == nil || errors.Is(err, objstore.ErrAmbiguous) || !objstore.Retryable(err) {
		t.Errorf("put: %v", err)
	}
}

// TestF04_S3HeadErrors: only 404 means absent.
func TestF04_S3HeadErrors(t *testing.T) {
	for _, status := range []int{400, 403, 409, 429, 500, 503, 301} {
		srv := objstoretest.StartS3(t)
		srv.Fault = func(objstoretest.S3Request) objstoretest.S3Fault { return objstoretest.S3Fault{Status: status} }
		s := srv.Store("")
		_, headErr := s.Head(t.Context(), "k")
		_, getErr := s.Get(t.Context(), "k")
		for _, err := range []error{headErr, getErr, s.Delete(t.Context(), "k")} {
			if err == nil || errors.Is(err, objstore.ErrNotExist) {
				t.Errorf("%d: %v", status, err)
			}
		}
	}
}

func TestS3TruncatedGet(t *testing.T) {
	srv := objstoretest.StartS3(t)
	s := srv.Store("")
	if _, err := s.PutIfAbsent(t.Context(), "k", content); err != nil {
		t.Fatal(err)
	}
	srv.Fault = func(objstoretest.S3Request) objstoretest.S3Fault { return objstoretest.S3Fault{Cut: 3} }
	if data, err := s.Get(t.Context(), "k"); err == nil || !objstore.Retryable(err) {
		t.Errorf("a body that ends early: %q, %v", data, err)
	}
}

func TestS02_S3ServiceThatIgnoresTheCondition(t *testing.T) {
	srv := objstoretest.StartS3(t)
	srv.Fault = func(objstoretest.S3Request) objstoretest.S3Fault { return objstoretest.S3Fault{IgnoreCondition: true} }
	if err := objstore.Probe(t.Context(), srv.Store("log"), "probe"); !errors.Is(err, objstore.ErrConditionIgnored) {
		t.Errorf("Probe: %v", err)
	}
}

// TestS3Payload checks what goes over the wire: the condition, the checksum, and
// the body outside of the signature unless asked for; no wait for 100 Continue.
func TestS3Payload(t *testing.T) {
	srv := objstoretest.StartS3(t)
	big := objstore.Body{make([]byte, 3<<20), []byte("tail")}
	for name, s := range map[string]objstore.Store{
		"UNSIGNED-PAYLOAD": srv.Store("u"),
		"":                 objstore.NewS3(srv.Client(), objstoretest.S3Bucket, "s", &objstore.S3Options{SignPayload: true}),
	} {
		if _, err := s.PutIfAbsent(t.Context(), "k", big); err != nil {
			t.Fatal(err)
		}
		reqs := srv.Requests()
		r := reqs[len(reqs)-1]
		if name != "" && r.Sent != name || name == "" && len(r.Sent) != 64 {
			t.Errorf("x-amz-content-sha256: %q", r.Sent)
		}
		if r.Header.Get("If-None-Match") != "*" || r.Header.Get("x-amz-checksum-crc32c") == "" || r.Header.Get("Expect") != "" ||
			r.Header.Get("Content-Encoding") != "" {
			t.Errorf("headers: %v", r.Header)
		}
		if got, err := s.Get(t.Context(), "k"); err != nil || !bytes.Equal(got, big.Bytes()) {
			t.Errorf("Get: %d bytes, %v", len(got), err)
		}
	}
}

// A checksum that the caller knows goes out as it is: the server is the one that
// finds out that a body is another.
func TestS3KnownChecksum(t *testing.T) {
	s := objstoretest.StartS3(t).Store("crc")
	body := objstore.Body{[]byte("some"), []byte("thing")}
	if _, err := s.PutIfAbsent(objstore.WithCRC32C(t.Context(), body.CRC32C()), "right", body); err != nil {
		t.Error(err)
	}
	if _, err := s.PutIfAbsent(objstore.WithCRC32C(t.Context(), body.CRC32C()+1), "wrong", body); err == nil {
		t.Error("a body with another checksum was taken")
	}
	if _, err := s.Head(t.Context(), "wrong"); !errors.Is(err, objstore.ErrNotExist) {
		t.Errorf("after the refusal: %v", err)
	}
}

func TestS3Date(t *testing.T) {
	srv := objstoretest.StartS3(t)
	clock := time.Date(2031, 5, 6, 7, 8, 9, 0, time.UTC)
	srv.Clock = func() time.Time { return clock }
	res, err := srv.Store("").PutIfAbsent(t.Context(), "k", content)
	if err != nil || !res.Date.Equal(clock) {
		t.Errorf("Date %v, %v; want the server's, %v", res.Date, err, clock)
	}
}

func TestS3CountsPages(t *testing.T) {
	srv := objstoretest.StartS3(t)
	srv.PageSize = 10
	var c objstore.Counters
	s := objstore.WithRetry(objstore.WithCounters(srv.Store("p"), &c), objstore.RetryOptions{MinBackoff: time.Millisecond})
	for i := range 35 {
		srv.PutForeign("p/"+string(rune('a'+i)), nil)
	}
	srv.Fault = func(r objstoretest.S3Request) objstoretest.S3Fault {
		if r.N == 3 {
			return objstoretest.S3Fault{Status: http.StatusServiceUnavailable, Code: "SlowDown"}
		}
		return objstoretest.S3Fault{}
	}
	n := 0
	for _, err := range s.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if got := c.Snapshot().List; n != 35-1 || got.Requests != 7 || got.Errors != 1 { // 'a'+27 is a backslash
		t.Errorf("%d objects, %+v; want 34 objects in 3 pages, the third failed, and 4 more", n, got)
	}
}

// TestServerReadsTrailers: the service of the tests understands what the SDK
// sends by itself, over TLS or not.
func TestServerReadsTrailers(t *testing.T) {
	srv := objstoretest.StartS3(t)
	for _, bad := range []bool{false, true} {
		body := "5\r\nhello\r\n6\r\n world\r\n0\r\nx-amz-checksum-crc32:DUoRhQ==\r\n\r\n"
		if bad {
			body = "5\r\nhellO\r\n" + body[10:]
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, srv.Endpoint()+"/"+objstoretest.S3Bucket+"/chunked", bytes.NewReader([]byte(body)))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Encoding", "aws-chunked")
		req.Header.Set("x-amz-content-sha256", "STREAMING-UNSIGNED-PAYLOAD-TRAILER")
		req.Header.Set("x-amz-trailer", "x-amz-checksum-crc32")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if (resp.StatusCode == 200) == bad {
			t.Errorf("corrupted: %v, status %d", bad, resp.StatusCode)
		}
	}
	if data, err := srv.Store("").Get(t.Context(), "chunked"); string(data) != "hello world" || err != nil {
		t.Errorf("stored: %q, %v", data, err)
	}
	_, err := srv.Client().PutObject(t.Context(), &s3.PutObjectInput{
		Bucket: aws.String(objstoretest.S3Bucket), Key: aws.String("sdk"), Body: bytes.NewReader([]byte("hello world")),
		ChecksumAlgorithm: types.ChecksumAlgorithmCrc32c,
	})
	if err != nil {
		t.Error(err)
	}
}
