package minio

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/memwal/memwal-go/objstore"
)

// Server is a running MinIO.
type Server struct {
	Endpoint             string // URL
	AccessKey, SecretKey string

	dir      string
	ownDir   bool
	watchdog *exec.Cmd
	stdin    *os.File      // of the watchdog; closing it stops the server
	exited   chan struct{} // closed when the watchdog has ended
}

const (
	startTries  = 3                // the free port may be taken by somebody else meanwhile
	readyWithin = 60 * time.Second // a busy machine starts slowly
)

// Run builds MinIO where that has not been done, and starts it on a free port of the
// loopback interface. Its data is in dir; "" stands for a temporary folder that
// goes with the server. The server runs until Close, or until this process
// dies, however it does. ctx bounds the start only.
func Run(ctx context.Context, dir string) (*Server, error) {
	exe, err := executable(ctx)
	if err != nil {
		return nil, fmt.Errorf("minio: %w", err)
	}
	for try := 1; ; try++ {
		s, err := start(ctx, exe, dir)
		if err == nil {
			return s, nil
		}
		if try == startTries || ctx.Err() != nil {
			return nil, fmt.Errorf("minio: start: %w", err)
		}
	}
}

// watch runs the server and waits for the end of its input, which comes when
// the parent closes it or dies, even by SIGKILL. Then it kills the server and removes
// the folder of its own, if it has one. Linux's parent-death signal would
// do less (it comes when the starting thread ends, and removes nothing).
const watch = `"$@" </dev/null & pid=$!
cat >/dev/null
kill -9 $pid 2>/dev/null
wait $pid 2>/dev/null
if [ -n "$MEMWAL_MINIO_REMOVE" ]; then rm -rf "$MEMWAL_MINIO_REMOVE"; fi`

func start(ctx context.Context, exe, dir string) (_ *Server, err error) {
	s := &Server{AccessKey: "memwal", SecretKey: rand.Text(), dir: dir, exited: make(chan struct{})}
	if dir == "" {
		if s.dir, err = os.MkdirTemp("", "memwal-minio-"); err != nil {
			return nil, err
		}
		s.ownDir = true
	}
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	s.Endpoint = "http://" + addr
	if err := s.launch(exe, addr); err != nil {
		return nil, err
	}
	if err := s.waitReady(ctx); err != nil {
		log, _ := os.ReadFile(s.logPath())
		return nil, errors.Join(fmt.Errorf("%w; its output:\n%s", err, bytes.TrimSpace(log)), s.Close())
	}
	return s, nil
}

func (s *Server) logPath() string { return filepath.Join(s.dir, "minio.log") }

func (s *Server) launch(exe, addr string) error {
	log, err := os.Create(s.logPath())
	if err != nil {
		return err
	}
	defer log.Close()
	stdin, keep, err := os.Pipe()
	if err != nil {
		return err
	}
	defer stdin.Close()
	cmd := exec.Command("sh", "-c", watch, "memwal-minio", exe, "server", "--quiet", "--address", addr,
		"--certs-dir", filepath.Join(s.dir, "certs"), filepath.Join(s.dir, "data"))
	// Output goes to a file, not to our own: go test waits for everybody who
	// holds that.
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, log, log
	cmd.Env = append(os.Environ(), "MINIO_ROOT_USER="+s.AccessKey, "MINIO_ROOT_PASSWORD="+s.SecretKey,
		"MINIO_BROWSER=off", "MINIO_UPDATE=off")
	if s.ownDir {
		cmd.Env = append(cmd.Env, "MEMWAL_MINIO_REMOVE="+s.dir)
	}
	cmd.SysProcAttr = ownGroup()
	if err := cmd.Start(); err != nil {
		return errors.Join(err, keep.Close())
	}
	s.watchdog, s.stdin = cmd, keep
	go func() {
		_ = cmd.Wait()
		close(s.exited)
	}()
	return nil
}

func (s *Server) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	client := s.Client()
	for {
		// Its health endpoint says ready before it takes requests.
		if _, err := client.ListBuckets(ctx, nil); err == nil {
			return nil
		}
		if log, _ := os.ReadFile(s.logPath()); bytes.Contains(log, []byte("FATAL")) {
			return errors.New("the server gave up")
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-s.exited:
			return errors.New("the server ended")
		case <-ctx.Done():
			return fmt.Errorf("the server is not ready after %v: %w", readyWithin, ctx.Err())
		}
	}
}

// freeAddr returns an address of the loopback interface that was free a moment ago.
func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// Close stops the server at once. It is idempotent.
func (s *Server) Close() error {
	err := s.stdin.Close()
	if errors.Is(err, os.ErrClosed) {
		err = nil
	}
	<-s.exited
	return err
}

// Client returns a client with the server's credentials.
func (s *Server) Client() *s3.Client {
	return objstore.NewS3Client(aws.Config{
		Region:       region,
		Credentials:  credentials.NewStaticCredentialsProvider(s.AccessKey, s.SecretKey, ""),
		BaseEndpoint: aws.String(s.Endpoint),
	}, func(o *s3.Options) { o.UsePathStyle = true })
}

const region = "us-east-1"

// CreateBucket creates a bucket, unless there is one of that name.
func (s *Server) CreateBucket(ctx context.Context, bucket string) error {
	_, err := s.Client().CreateBucket(ctx, &s3.CreateBucketInput{Bucket: &bucket})
	if _, owned := errors.AsType[*types.BucketAlreadyOwnedByYou](err); owned {
		return nil
	}
	return err
}

// Store returns a store over a bucket, with the server's credentials.
func (s *Server) Store(bucket, prefix string) objstore.Store {
	return objstore.NewS3(s.Client(), bucket, prefix, nil)
}

// URL returns the URL of a store for objstore.Open, which finds the credentials
// in the environment: see Env.
func (s *Server) URL(bucket, prefix string) string {
	q := url.Values{"endpoint": {s.Endpoint}, "region": {region}, "use_path_style": {"true"}}
	return "s3://" + bucket + "/" + strings.Trim(prefix, "/") + "?" + q.Encode()
}

// Env returns the environment variables, name=value, with which objstore.Open
// finds the credentials, for child processes.
func (s *Server) Env() []string {
	return []string{"AWS_ACCESS_KEY_ID=" + s.AccessKey, "AWS_SECRET_ACCESS_KEY=" + s.SecretKey, "AWS_SESSION_TOKEN="}
}
