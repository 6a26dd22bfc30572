package soak

import (
	"testing"
	"time"

	"github.com/memwal/memwal-go/objstore"
)

func TestSoak(t *testing.T) {
	f, err := Run(t.Context(), Config{Store: objstore.NewMemory(), Duration: 3 * time.Second, Seed: 1, Writers: 3, Readers: 2, Faults: Faults()})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", f)
}
