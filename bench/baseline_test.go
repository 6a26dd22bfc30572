package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/memwal/memwal-go/objstore"
)

// timedStore takes delay for a put, and notes what is put and how many at once.
type timedStore struct {
	objstore.Store
	delay  time.Duration
	failAt int // number of the put that fails

	mu      sync.Mutex
	keys    []string
	sizes   []int64
	sums    []string
	now     int
	counts  map[int]time.Duration // how long so many were in flight
	changed time.Time
}

func (s *timedStore) step(by int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.counts == nil {
		s.counts = map[int]time.Duration{}
	}
	if !s.changed.IsZero() {
		s.counts[s.now] += time.Since(s.changed)
	}
	s.now, s.changed = s.now+by, time.Now()
}

func (s *timedStore) PutIfAbsent(ctx context.Context, key string, body objstore.Body) (objstore.PutResult, error) {
	s.step(1)
	defer s.step(-1)
	s.mu.Lock()
	s.keys = append(s.keys, key)
	s.sizes = append(s.sizes, body.Len())
	sum, _ := ctx.Value(checksumKey{}).(string)
	if sum != checksum(body) {
		sum = "wrong: " + sum
	}
	s.sums = append(s.sums, sum)
	n := len(s.keys)
	s.mu.Unlock()
	time.Sleep(s.delay)
	if n == s.failAt {
		return objstore.PutResult{}, errPut
	}
	return objstore.PutResult{}, ctx.Err()
}

// Every put of the window is in flight all the time, in the order of the sizes,
// under keys of their own.
func TestBaselineKeepsTheWindowFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &timedStore{delay: millisecond(10)}
		b := newBaseline(s, "run", 4)
		var sizes []int64
		var sum int64
		for i := range int64(40) {
			sizes = append(sizes, 1000+i)
			sum += 1000 + i
		}
		if err := b.run(t.Context(), sizes, time.Minute, 0); err != nil {
			t.Fatal(err)
		}
		if b.elapsed != millisecond(100) || s.counts[4] != millisecond(100)+s.delay || b.total.Load() != sum {
			t.Errorf("%d bytes in %v; how many were in flight for how long: %v", b.total.Load(), b.elapsed, s.counts)
		}
		if !slices.Equal(s.sizes[:4], []int64{1, 1, 1, 1}) {
			t.Errorf("warmed up with %v bytes", s.sizes[:4])
		}
		got := slices.Sorted(slices.Values(s.sizes[4:]))
		if !slices.Equal(got, sizes) {
			t.Errorf("put %v", got)
		}
		for i, n := range s.sizes[4:] { // those of one round of four in any order
			if want := int64(1000 + i); n/4 != want/4 {
				t.Errorf("put %d has %d bytes, want %d", i, n, want)
			}
		}
		slices.Sort(s.keys)
		if n := len(slices.Compact(slices.Clone(s.keys))); n != 44 || !strings.HasPrefix(s.keys[0], "bench-baseline/run/") {
			t.Errorf("%d keys, the first is %q", n, s.keys[0])
		}
		for i, sum := range s.sums {
			if strings.HasPrefix(sum, "wrong") {
				t.Fatalf("checksum of put %d is %s", i, sum)
			}
		}
		if p := b.latency.values(); p.P50 < 9.9 || p.Max > 10.1 {
			t.Errorf("latency %+v", p)
		}
		if mb := b.mbPerS(); mb < float64(sum)/1e5*0.999 || mb > float64(sum)/1e5*1.001 {
			t.Errorf("%v MB/s", mb)
		}
	})
}

func TestBaselineLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &timedStore{delay: millisecond(10)}
		b := newBaseline(s, "run", 2)
		if err := b.run(t.Context(), []int64{0, 1, 2, 3, 4, 5, 6, 7}, millisecond(15), 0); err != nil {
			t.Fatal(err)
		}
		if b.elapsed != millisecond(20) || len(s.keys) != 2+4 {
			t.Errorf("stopped by time: %v, %d puts", b.elapsed, len(s.keys)-2)
		}
		// Sizes come again until the least time is over, and are kept for a call
		// without any.
		for range 2 {
			before := b.elapsed
			sizes := []int64{7}
			if before > millisecond(500) {
				sizes = nil
			}
			if err := b.run(t.Context(), sizes, 0, time.Second); err != nil {
				t.Fatal(err)
			}
			if took := b.elapsed - before; took != time.Second || s.sizes[len(s.sizes)-1] != 7 {
				t.Errorf("ran for %v", took)
			}
		}
		if len(s.keys) != 2+4+200+200 { // warmed up once
			t.Errorf("%d puts", len(s.keys))
		}
	})
}

func TestBaselineFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &timedStore{delay: millisecond(1), failAt: 9}
		err := newBaseline(s, "run", 3).run(t.Context(), []int64{5}, time.Minute, time.Minute)
		if !errors.Is(err, errPut) || !strings.Contains(err.Error(), "baseline") || len(s.keys) > 12 {
			t.Errorf("got %v after %d puts", err, len(s.keys))
		}
		s = &timedStore{failAt: 1}
		if err := newBaseline(s, "run", 3).run(t.Context(), []int64{5}, time.Minute, 0); !errors.Is(err, errPut) {
			t.Errorf("warming up: got %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(millisecond(50), cancel)
		s = &timedStore{delay: millisecond(20)}
		if err := newBaseline(s, "run", 1).run(ctx, []int64{5}, time.Minute, time.Minute); !errors.Is(err, context.Canceled) {
			t.Errorf("interrupted: got %v", err)
		}
	})
}

// A bare put through the SDK is the request that objstore sends.
func TestSDKPutsAsObjstoreDoes(t *testing.T) {
	type request struct {
		header http.Header
		path   string
		body   []byte
	}
	var got []request
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = append(got, request{r.Header, r.Method + " " + r.RequestURI, body})
		w.Header().Set("ETag", `"x"`)
	}))
	defer server.Close()
	client := objstore.NewS3Client(aws.Config{
		Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider("a", "b", ""), BaseEndpoint: &server.URL,
	}, func(o *s3.Options) { o.UsePathStyle = true })
	body := newBareBody([]byte("some bytes"))
	ctx := context.WithValue(t.Context(), checksumKey{}, body.checksum)
	for _, sign := range []bool{false, true} {
		got = nil
		theirs := objstore.NewS3(client, "bucket", "a/b", &objstore.S3Options{SignPayload: sign})
		for _, s := range []objstore.Store{theirs, newSDKPuts(theirs, client, "bucket", "/a/b/", sign)} {
			if _, err := s.PutIfAbsent(ctx, "c", body.body); err != nil {
				t.Fatal(err)
			}
		}
		if len(got) != 2 {
			t.Fatalf("%d requests", len(got))
		}
		for _, r := range got { // differ by time
			auth, _, _ := strings.Cut(r.header.Get("Authorization"), "Signature=")
			r.header.Set("Authorization", auth)
			r.header.Del("X-Amz-Date")
			r.header.Del("Amz-Sdk-Invocation-Id")
		}
		want, is := got[0], got[1]
		if is.path != "PUT /bucket/a/b/c?x-id=PutObject" || is.path != want.path || !bytes.Equal(is.body, want.body) {
			t.Errorf("%s with %q, objstore sends %s with %q", is.path, is.body, want.path, want.body)
		}
		for name := range want.header {
			if !slices.Equal(is.header[name], want.header[name]) {
				t.Errorf("header %s is %q, objstore sends %q", name, is.header[name], want.header[name])
			}
		}
		if len(is.header) != len(want.header) || is.header.Get("X-Amz-Checksum-Crc32c") == "" || is.header.Get("If-None-Match") != "*" {
			t.Errorf("headers are %v", is.header)
		}
	}
}

func TestSDKPutsOfURL(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "a")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "b")
	var path, hash string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path, hash = r.URL.Path, r.Header.Get("X-Amz-Content-Sha256")
		w.Header().Set("ETag", `"x"`)
	}))
	defer server.Close()
	body := newBareBody([]byte("x"))
	for _, tc := range []struct{ url, path, hash string }{
		{"s3://bucket/some/where?use_path_style=true&endpoint=" + server.URL, "/bucket/some/where/k", "UNSIGNED-PAYLOAD"},
		{"s3://bucket?use_path_style=true&region=xy-1&sign_payload=true&endpoint=" + server.URL, "/bucket/k", "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"},
	} {
		s, err := openStore(t.Context(), &config{Store: tc.url, Baseline: true})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.bare.PutIfAbsent(context.WithValue(t.Context(), checksumKey{}, body.checksum), "k", body.body); err != nil {
			t.Fatal(err)
		}
		if path != tc.path || hash != tc.hash {
			t.Errorf("%s: put to %s, hash %s", tc.url, path, hash)
		}
		if s.counters.Snapshot().Puts() != 0 {
			t.Error("a bare put was counted as the writer's")
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestSizeRecorder(t *testing.T) {
	r := &sizeRecorder{Store: objstore.NewMemory()}
	put := func(key string, n int) {
		_, _ = r.PutIfAbsent(t.Context(), key, objstore.Body{make([]byte, n)})
	}
	put("_mem_wal/x/wal/1.arrow", 5)
	put("_mem_wal/x/wal/1.arrow", 6) // refused
	put("_mem_wal/x/manifest/1", 7)
	put("_mem_wal/x/wal/2.arrow", 8)
	if got := r.take(); !slices.Equal(got, []int64{5, 8}) {
		t.Errorf("noted %v", got)
	}
	if got := r.take(); len(got) != 0 {
		t.Errorf("noted %v again", got)
	}
}

// The ingest and the baseline take turns; the baseline's objects do not stay, and
// its requests are in no figure.
func TestBenchBaseline(t *testing.T) {
	if testing.Short() {
		t.Skip("bare puts run for three seconds")
	}
	dir := t.TempDir()
	code, out, errs, f := runBench(t, strings.Fields("-rows 3000 -batch 50 -latency 2ms -interval 1ms -baseline -inflight 3 -store file://"+dir)...)
	if code != 0 {
		t.Fatalf("exit code %d: %s\n%s", code, errs, out)
	}
	if f.BaselineMBPerS <= 0 || f.BaselineRatio != f.MBPerS/f.BaselineMBPerS || f.BaselinePutMS.P50 < 1 || f.VerifiedRows != 3000 || f.Puts > 200 {
		t.Errorf("figures are %+v", f)
	}
	if !strings.Contains(out, "baseline     ") {
		t.Errorf("printed:\n%s", out)
	}
	var left []string
	_ = filepath.WalkDir(filepath.Join(dir, "bench-baseline"), func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			left = append(left, path)
		}
		return nil
	})
	if len(left) > 0 {
		t.Errorf("%d objects are left: %q", len(left), left[0])
	}
	if wal, _ := filepath.Glob(filepath.Join(dir, "_mem_wal", "*", "wal", "*.arrow")); len(wal) == 0 {
		t.Error("the shard is gone too")
	}
}

// An ingest in slices puts what one without does, for as long in all, and does
// not let the last rows of a slice wait for the interval.
func TestIngestInSlices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &fakeWriter{delay: millisecond(10)}
		in := &ingest{w: w, feed: mixedFeed(t, true), writers: 2, limit: 20 * time.Second, slice: 5 * time.Second}
		slices := 0
		for !in.over {
			if err := in.run(t.Context()); err != nil {
				t.Fatal(err)
			}
			slices++
			time.Sleep(time.Hour) // is not the ingest's
		}
		if n := in.batches.Load(); slices != 4 || n < 3990 || n > 4010 || w.flushes < 4 {
			t.Errorf("%d slices, %d batches, %d flushes", slices, n, w.flushes)
		}
		if d := in.clock.elapsed(); d < 19900*time.Millisecond || d > 20100*time.Millisecond {
			t.Errorf("ran for %v", d)
		}
		if v := in.latency.values(); v.Max > 10.1 {
			t.Errorf("latency %+v", v)
		}

		w = &fakeWriter{}
		in = &ingest{w: w, feed: mixedFeed(t, true), writers: 2, rate: 12, limit: 10 * time.Second, slice: 5 * time.Second}
		for !in.over {
			if err := in.run(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Hour)
		}
		if n := in.rows.Load(); n < 110 || n > 140 { // 12 rows a second
			t.Errorf("%d rows at a rate", n)
		}

		in = &ingest{w: &fakeWriter{}, feed: mixedFeed(t, false), writers: 2, slice: 5 * time.Second}
		if err := in.run(t.Context()); err != nil || !in.over || in.rows.Load() != 12 {
			t.Errorf("to the end of the feed: %v, over %v, %d rows", err, in.over, in.rows.Load())
		}
	})
}

// A real S3 service takes bare puts, checksum and all.
func TestBenchBaselineMinIO(t *testing.T) {
	if testing.Short() {
		t.Skip("no MinIO with -short")
	}
	code, out, errs, f := runBench(t, strings.Fields("-store minio -rows 2000 -batch 100 -baseline")...)
	if code != 0 || f.BaselineMBPerS <= 0 || f.BaselinePutMS.P50 <= 0 || f.VerifiedRows != 2000 {
		t.Errorf("exit code %d: %s\n%s%+v", code, errs, out, f)
	}
}

// One checksum is wrong: the service refuses the put, and the run says so.
func TestBareChecksumIsChecked(t *testing.T) {
	if testing.Short() {
		t.Skip("no MinIO with -short")
	}
	s, err := openStore(t.Context(), &config{Store: "minio", Baseline: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	b := newBaseline(s.bare, "run", 1)
	body := newBareBody([]byte("some bytes"))
	if err := b.put(t.Context(), &body); err != nil {
		t.Fatal(err)
	}
	body.checksum = newBareBody([]byte("other bytes")).checksum
	if err := b.put(t.Context(), &body); err == nil {
		t.Error("a wrong checksum is accepted: it did not reach the service")
	}
}

func TestBaselineTurns(t *testing.T) {
	for _, tc := range []struct {
		args  string
		slice time.Duration
	}{
		{"", 0}, {"-baseline", 5 * time.Second}, {"-baseline -duration 8s", 5 * time.Second}, {"-baseline -duration 40s", 10 * time.Second}, {"-index all,text -query -query-compare -duration 4s", 500 * time.Millisecond},
	} {
		b := newBench(mustParse(t, strings.Fields("-store mem:// -rows 10 "+tc.args)...), io.Discard, io.Discard)
		if _, err := b.setup(t.Context()); err != nil {
			t.Fatal(err)
		}
		if in := b.newIngest(nil); in.slice != tc.slice {
			t.Errorf("%q: slices of %v, want %v", tc.args, in.slice, tc.slice)
		}
		if err := b.teardown(); err != nil {
			t.Error(err)
		}
	}
}
