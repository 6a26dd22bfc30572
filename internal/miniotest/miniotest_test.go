package miniotest_test

import (
	"bufio"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/memwal/memwal-go/internal/miniotest"
	"github.com/memwal/memwal-go/internal/miniotest/minio"
	"github.com/memwal/memwal-go/objstore"
)

func TestStores(t *testing.T) {
	a, b := miniotest.Store(t), miniotest.Store(t)
	if _, err := a.PutIfAbsent(t.Context(), "k", objstore.Body{[]byte("v")}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Head(t.Context(), "k"); !errors.Is(err, objstore.ErrNotExist) {
		t.Errorf("a second store sees the first one's object: %v", err)
	}
}

func TestStoreURL(t *testing.T) {
	s, err := objstore.Open(t.Context(), miniotest.StoreURL(t))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := objstore.Probe(t.Context(), s, "probe"); err != nil {
		t.Fatal(err)
	}
}

func TestRunInFolder(t *testing.T) {
	if testing.Short() {
		t.Skip("no MinIO with -short")
	}
	dir := t.TempDir()
	s, err := minio.Run(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.CreateBucket(t.Context(), "own"); err != nil {
		t.Fatal(err)
	}
	if err := s.CreateBucket(t.Context(), "own"); err != nil {
		t.Errorf("creating a bucket twice: %v", err)
	}
	store := s.Store("own", "")
	if _, err := store.PutIfAbsent(t.Context(), "k", nil); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	if _, err := store.Get(t.Context(), "k"); err == nil {
		t.Error("the server answers after Close")
	}
	if _, err := os.Stat(dir + "/data/own"); err != nil {
		t.Errorf("the data of a folder that was given is gone: %v", err)
	}
}

// TestServerDiesWithItsParent kills a process that has started a server.
func TestServerDiesWithItsParent(t *testing.T) {
	if testing.Short() {
		t.Skip("no MinIO with -short")
	}
	if os.Getenv("MINIOTEST_CHILD") != "" {
		s, err := minio.Run(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		os.Stdout.WriteString("endpoint " + s.Endpoint + "\n")
		select {}
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestServerDiesWithItsParent$")
	tmp := t.TempDir()
	cmd.Env = append(os.Environ(), "MINIOTEST_CHILD=1", "TMPDIR="+tmp)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var endpoint string
	for lines := bufio.NewScanner(out); endpoint == "" && lines.Scan(); {
		_, endpoint, _ = strings.Cut(lines.Text(), "endpoint ")
	}
	if !alive(endpoint) {
		t.Fatalf("no server at %q", endpoint)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		left, err := os.ReadDir(tmp)
		if err != nil {
			t.Fatal(err)
		}
		if !alive(endpoint) && len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("10 s after its parent's death the server is alive: %v; left of its folder: %v", alive(endpoint), left)
		}
	}
}

func alive(endpoint string) bool {
	resp, err := http.Get(endpoint + "/minio/health/live")
	if err != nil {
		return false
	}
	_ = resp.Body.Close()
	return true
}
