package miniotest

import (
	"net/http"
	"testing"

	"github.com/memwal/memwal-go/internal/miniotest/minio"
	"github.com/memwal/memwal-go/objstore"
)

func TestServerStopsAndLeavesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: not run against a MinIO server")
	}
	dir := t.TempDir()
	s, err := minio.Start(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	if resp, err := http.Get(s.Endpoint()); err == nil {
		resp.Body.Close()
		t.Error("the server still answers after Stop")
	}
	if err := s.Stop(); err != nil {
		t.Errorf("second Stop: %v", err)
	}
}

func TestStoreIsOneOfItsOwn(t *testing.T) {
	a, b := Store(t), Store(t)
	if _, err := a.PutIfAbsent(t.Context(), "k", objstore.Body{[]byte("a")}); err != nil {
		t.Fatal(err)
	}
	for o, err := range b.List(t.Context(), "") {
		t.Errorf("another test's object: %v, %v", o, err)
	}
}
