package objstoretest

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/xml"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/memwal/memwal-go/objstore"
)

// S3Bucket is the one bucket of an [S3].
const S3Bucket = "bucket"

// S3 is a small S3 service over HTTP in the process of a test. It speaks what
// the adapter needs, path-style: PutObject (If-None-Match, checksums,
// aws-chunked bodies), GetObject with ranges, HeadObject, DeleteObject,
// ListObjectsV2. It does not check signatures.
//
// Set the fields before the first request. SetFault changes Fault later.
type S3 struct {
	// PageSize is the size of a page of a listing; 0 means 1000.
	PageSize int
	// Unordered makes listings come in no useful order, as some services do.
	Unordered bool
	// Clock gives the Date of replies; nil means time.Now.
	Clock func() time.Time
	// Fault, where set, is asked about every request.
	Fault func(S3Request) S3Fault

	server  *httptest.Server
	closing chan struct{} // closed at the end of the test

	// mu guards the fields below.
	mu       sync.Mutex
	objects  map[string]s3Object
	requests []S3Request
}

type s3Object struct {
	data     []byte
	modified time.Time
}

// S3Request is a request that has arrived.
type S3Request struct {
	N      int // from 1
	Method string
	Key    string // "" for a listing
	Header http.Header
	Query  url.Values
	// Sent is the value of x-amz-content-sha256: what the signature says of the
	// body.
	Sent string
}

// S3Fault is what goes wrong with a request. The zero value is nothing.
type S3Fault struct {
	// Status and Code are replied instead of carrying the request out.
	Status int
	Code   string
	// After carries the request out first, and then does what the others say.
	After bool
	// Reset breaks the connection instead of replying.
	Reset bool
	// Delay is waited before anything else.
	Delay time.Duration
	// IgnoreCondition lets a conditional put replace an object.
	IgnoreCondition bool
	// Cut ends the body of a Get after that many bytes, and the connection too.
	Cut int
}

// StartS3 starts a service with an empty bucket, which ends with the test.
func StartS3(tb testing.TB) *S3 {
	s := &S3{objects: make(map[string]s3Object), closing: make(chan struct{})}
	s.server = httptest.NewServer(http.HandlerFunc(s.serve))
	tb.Cleanup(func() {
		close(s.closing)
		s.server.CloseClientConnections()
		s.server.Close()
	})
	return s
}

// SetFault replaces Fault, also while requests are under way.
func (s *S3) SetFault(ask func(S3Request) S3Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Fault = ask
}

// Endpoint is the URL of the service.
func (s *S3) Endpoint() string { return s.server.URL }

// Client returns a client of the service, set up as objstore.Open does.
func (s *S3) Client(opts ...func(*s3.Options)) *s3.Client {
	return objstore.NewS3Client(aws.Config{
		Region:       "us-east-1",
		Credentials:  credentials.NewStaticCredentialsProvider("key", "secret", ""),
		BaseEndpoint: aws.String(s.Endpoint()),
	}, append([]func(*s3.Options){func(o *s3.Options) { o.UsePathStyle = true }}, opts...)...)
}

// Store returns a store over the bucket.
func (s *S3) Store(prefix string) objstore.Store {
	return objstore.NewS3(s.Client(), S3Bucket, prefix, nil)
}

// Requests returns what has arrived so far.
func (s *S3) Requests() []S3Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]S3Request(nil), s.requests...)
}

// PutForeign stores an object under any key at all, past the protocol.
func (s *S3) PutForeign(key string, data []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objects[key] = s3Object{data: data, modified: s.now()}
}

func (s *S3) now() time.Time {
	if s.Clock != nil {
		return s.Clock()
	}
	return time.Now()
}

func (s *S3) serve(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Date", s.now().UTC().Format(http.TimeFormat))
	bucket, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	req := S3Request{Method: r.Method, Key: key, Header: r.Header.Clone(), Query: r.URL.Query(), Sent: r.Header.Get("x-amz-content-sha256")}
	s.mu.Lock()
	req.N = len(s.requests) + 1
	s.requests = append(s.requests, req)
	ask := s.Fault
	s.mu.Unlock()

	var fault S3Fault
	if ask != nil {
		fault = ask(req)
	}
	select {
	case <-time.After(fault.Delay):
	case <-s.closing: // or the end of the test would wait for it
	}
	broken := fault.Reset || fault.Status != 0
	if broken && fault.After {
		s.handle(httptest.NewRecorder(), r, bucket, key, fault)
	}
	switch {
	case fault.Reset:
		resetConn(w)
	case fault.Status != 0:
		_, _ = io.Copy(io.Discard, r.Body)
		s3Fail(w, r, fault.Status, fault.Code)
	default:
		s.handle(w, r, bucket, key, fault)
	}
}

// resetConn breaks a connection without a reply.
func resetConn(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := conn.(interface{ SetLinger(int) error }); ok {
		_ = tcp.SetLinger(0) // RST instead of FIN
	}
	_ = conn.Close()
}

func (s *S3) handle(w http.ResponseWriter, r *http.Request, bucket, key string, fault S3Fault) {
	switch {
	case bucket != S3Bucket:
		s3Fail(w, r, http.StatusNotFound, "NoSuchBucket")
	case r.Method == http.MethodGet && key == "":
		s.list(w, r)
	case r.Method == http.MethodPut:
		s.put(w, r, key, fault)
	case r.Method == http.MethodGet || r.Method == http.MethodHead:
		s.get(w, r, key, fault)
	case r.Method == http.MethodDelete:
		s.mu.Lock()
		delete(s.objects, key)
		s.mu.Unlock()
		w.WriteHeader(http.StatusNoContent)
	default:
		s3Fail(w, r, http.StatusNotImplemented, "NotImplemented")
	}
}

func (s *S3) put(w http.ResponseWriter, r *http.Request, key string, fault S3Fault) {
	data, trailer, err := readPut(r)
	if err != nil {
		s3Fail(w, r, http.StatusBadRequest, "IncompleteBody")
		return
	}
	if !checksumMatches(data, r.Header, trailer) {
		s3Fail(w, r, http.StatusBadRequest, "BadDigest")
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, taken := s.objects[key]; taken && r.Header.Get("If-None-Match") == "*" && !fault.IgnoreCondition {
		s3Fail(w, r, http.StatusPreconditionFailed, "PreconditionFailed")
		return
	}
	s.objects[key] = s3Object{data: data, modified: s.now()}
	w.Header().Set("ETag", fmt.Sprintf(`"%08x"`, crc32.ChecksumIEEE(data)))
	w.WriteHeader(http.StatusOK)
}

// readPut reads a body, plain or aws-chunked, and its trailer.
func readPut(r *http.Request) ([]byte, http.Header, error) {
	if !strings.Contains(r.Header.Get("Content-Encoding"), "aws-chunked") && !strings.HasPrefix(r.Header.Get("x-amz-content-sha256"), "STREAMING-") {
		data, err := io.ReadAll(r.Body)
		return data, nil, err
	}
	in := bufio.NewReader(r.Body)
	var data []byte
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return nil, nil, err
		}
		size, _, _ := strings.Cut(strings.TrimSpace(line), ";") // ;chunk-signature=…
		n, err := strconv.ParseInt(size, 16, 64)
		if err != nil || n < 0 || n > 64<<20 {
			return nil, nil, fmt.Errorf("chunk of size %q", size)
		}
		if n == 0 {
			break
		}
		chunk := make([]byte, n+2) // and CRLF
		if _, err := io.ReadFull(in, chunk); err != nil {
			return nil, nil, err
		}
		data = append(data, chunk[:n]...)
	}
	trailer := make(http.Header)
	for {
		line, err := in.ReadString('\n')
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			trailer.Set(name, strings.TrimSpace(value))
		}
		if err == io.EOF || strings.TrimSpace(line) == "" {
			return data, trailer, nil
		}
		if err != nil {
			return nil, nil, err
		}
	}
}

// checksumMatches checks the CRC32 or CRC32C that header or trailer announce.
func checksumMatches(data []byte, header, trailer http.Header) bool {
	for name, table := range map[string]*crc32.Table{
		"x-amz-checksum-crc32": crc32.IEEETable, "x-amz-checksum-crc32c": crc32.MakeTable(crc32.Castagnoli),
	} {
		want := header.Get(name) + trailer.Get(name)
		sum := binary.BigEndian.AppendUint32(nil, crc32.Checksum(data, table))
		if want != "" && want != base64.StdEncoding.EncodeToString(sum) {
			return false
		}
	}
	return true
}

func (s *S3) get(w http.ResponseWriter, r *http.Request, key string, fault S3Fault) {
	s.mu.Lock()
	o, ok := s.objects[key]
	s.mu.Unlock()
	if !ok {
		s3Fail(w, r, http.StatusNotFound, "NoSuchKey")
		return
	}
	if fault.Cut > 0 && r.Method == http.MethodGet {
		w.Header().Set("Content-Length", strconv.Itoa(len(o.data)))
		_, _ = w.Write(o.data[:min(fault.Cut, len(o.data))])
		panic(http.ErrAbortHandler)
	}
	if len(o.data) == 0 && r.Header.Get("Range") != "" {
		s3Fail(w, r, http.StatusRequestedRangeNotSatisfiable, "InvalidRange")
		return
	}
	// ServeContent knows ranges, 416 and Last-Modified.
	w.Header().Set("Content-Type", "application/octet-stream")
	http.ServeContent(w, r, "", o.modified, bytes.NewReader(o.data))
}

// s3Fail replies with an error as S3 does; to HEAD without a body.
func s3Fail(w http.ResponseWriter, r *http.Request, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	if r.Method != http.MethodHead && code != "" {
		_ = xml.NewEncoder(w).Encode(struct {
			XMLName xml.Name `xml:"Error"`
			Code    string
			Message string
		}{Code: code, Message: "of the test's own service"})
	}
}
