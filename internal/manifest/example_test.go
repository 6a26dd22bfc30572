package manifest_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/memwal/memwal-go/internal/manifest"
	"github.com/memwal/memwal-go/objstore"
)

// A claim, a commit, and a second claim that fences the first.
func Example() {
	ctx := context.Background()
	store := objstore.NewMemory()
	versions := manifest.New(store, "_mem_wal/shard/manifest/", nil)
	build := func(cur *manifest.Manifest) (*manifest.Manifest, error) {
		if cur == nil {
			return &manifest.Manifest{Generation: 1}, nil
		}
		return cur.Clone(), nil
	}
	first, err := versions.Claim(ctx, nil, build)
	if err != nil {
		log.Fatal(err)
	}
	flush := func(m *manifest.Manifest) error {
		m.Generation = 2
		return nil
	}
	m, err := versions.Update(ctx, first.Owner(), flush)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("version", m.Version, "epoch", m.Epoch)

	if _, err := versions.Claim(ctx, nil, build); err != nil {
		log.Fatal(err)
	}
	_, err = versions.Update(ctx, first.Owner(), flush)
	fmt.Println("fenced", errors.Is(err, manifest.ErrFenced))
	// Output:
	// version 2 epoch 1
	// fenced true
}
