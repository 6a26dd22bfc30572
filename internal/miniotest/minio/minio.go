// Package minio builds and runs a MinIO server for tests and benchmarks.
//
// The server is a program of its own: a module beside this package (../server)
// pins it as a tool, `go tool` builds it and keeps it in the build cache, and none of
// its code, whose licence is the AGPL, is linked into anything here. The first
// build takes about three minutes on two cores.
package minio

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/memwal/memwal-go/objstore"
)

// Credentials and region of every server that Start runs. They listen on
// loopback only.
const (
	AccessKey = "memwal-test"
	SecretKey = "memwal-test-secret"
	Region    = "us-east-1"
)

// Build returns the path of the server's executable, and builds it first if
// that has not been done. Only one build runs at a time on a machine: packages
// are tested in parallel, and each build would take all cores.
func Build(ctx context.Context) (string, error) {
	root, err := run(ctx, "", "go", "list", "-m", "-f", "{{.Dir}}", "github.com/memwal/memwal-go")
	if err != nil {
		return "", fmt.Errorf("find the module: %w", err)
	}
	unlock, err := lock(ctx, filepath.Join(os.TempDir(), "memwal-minio-build.lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	path, err := run(ctx, filepath.Join(root, "internal", "miniotest", "server"), "go", "tool", "-n", "minio")
	if err != nil {
		return "", fmt.Errorf("build MinIO: %w", err)
	}
	return path, nil
}

// run returns the last line that a command prints.
func run(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, stderr.Bytes())
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return strings.TrimSpace(lines[len(lines)-1]), nil
}

// Server is a running MinIO server. Its methods may be called from anywhere.
type Server struct {
	endpoint string
	stdin    io.Closer // closing it stops the server
	done     chan error
	log      *tail
	stop     sync.Once
}

// supervise runs the server given as arguments until its own standard input
// ends, which it does at the latest when this process is gone, however it ended.
// Then it stops the server and removes the folder.
const supervise = `dir=$1; shift; "$@" </dev/null & pid=$!
( while kill -0 $pid 2>/dev/null; do sleep 1; done; echo "server ended" >&2 ) & watch=$!
cat >/dev/null; kill -9 $pid $watch 2>/dev/null; wait $pid 2>/dev/null; rm -rf "$dir"`

// Start builds the server if need be and runs it on a free port of the loopback
// address, with its data in a new folder below dir ("" = the system's place for
// temporary files). It stops with Stop, or with this process.
func Start(ctx context.Context, dir string) (*Server, error) {
	exe, err := Build(ctx)
	if err != nil {
		return nil, err
	}
	const tries = 3 // another program may take the port before the server does
	for try := 1; ; try++ {
		s, err := start(ctx, exe, dir)
		if err == nil || try == tries || ctx.Err() != nil {
			return s, err
		}
	}
}

func start(ctx context.Context, exe, dir string) (*Server, error) {
	data, err := os.MkdirTemp(dir, "memwal-minio-")
	if err != nil {
		return nil, err
	}
	addr, err := freePort()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("sh", "-c", supervise, "sh", data, exe, "server", "--address", addr, "--console-address", "127.0.0.1:0", data)
	cmd.Env = append(os.Environ(),
		"MINIO_ROOT_USER="+AccessKey, "MINIO_ROOT_PASSWORD="+SecretKey,
		"MINIO_BROWSER=off", "MINIO_UPDATE=off", "MINIO_CALLHOME_ENABLE=off")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	s := &Server{endpoint: "http://" + addr, stdin: stdin, done: make(chan error, 1), log: &tail{max: 16 << 10}}
	cmd.Stdout, cmd.Stderr = s.log, s.log
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start MinIO: %w", err)
	}
	go func() { s.done <- cmd.Wait() }()
	if err := s.ready(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start MinIO: %w; it printed:\n%s", err, s.log), s.Stop())
	}
	return s, nil
}

func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// ready waits until the server takes requests.
func (s *Server) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 60*time.Second)
	defer cancel()
	client := s.Client()
	for {
		// The health checks answer before buckets can be created; this does not.
		_, err := client.ListBuckets(ctx, &s3.ListBucketsInput{})
		if err == nil {
			return nil
		}
		if strings.Contains(s.log.String(), "server ended") {
			return errors.New("the server ended by itself")
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not ready: %w", err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Endpoint is the URL of the server.
func (s *Server) Endpoint() string { return s.endpoint }

// Client returns a client with the server's credentials.
func (s *Server) Client() *s3.Client {
	return objstore.NewS3Client(aws.Config{
		Region:      Region,
		Credentials: credentials.NewStaticCredentialsProvider(AccessKey, SecretKey, ""),
	}, func(o *s3.Options) {
		o.BaseEndpoint = aws.String(s.endpoint)
		o.UsePathStyle = true
	})
}

// CreateBucket creates a bucket.
func (s *Server) CreateBucket(ctx context.Context, name string) error {
	_, err := s.Client().CreateBucket(ctx, &s3.CreateBucketInput{Bucket: &name})
	if err != nil {
		return fmt.Errorf("create bucket %s: %w", name, err)
	}
	return nil
}

// Stop stops the server and removes its data. Calls after the first do nothing.
func (s *Server) Stop() (err error) {
	s.stop.Do(func() {
		err = s.stdin.Close()
		select {
		case <-s.done: // killed, so its exit code says nothing
		case <-time.After(20 * time.Second):
			err = errors.Join(err, errors.New("MinIO did not stop"))
		}
	})
	return err
}

// tail keeps the end of what is written to it.
type tail struct {
	mu  sync.Mutex
	max int
	buf []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if n := len(t.buf) - t.max; n > 0 {
		t.buf = append(t.buf[:0], t.buf[n:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.buf)
}
