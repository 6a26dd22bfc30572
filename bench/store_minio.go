package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/memwal/memwal-go/internal/miniotest/minio"
)

// benchBucket is the bucket of the server that -store minio starts.
const benchBucket = "bench"

// openMinIO builds the MinIO server that the tests use, if that has not been
// done, and runs it for as long as the program does.
func (o *openedStore) openMinIO(ctx context.Context) error {
	server, err := minio.Run(ctx, "")
	if err != nil {
		return err
	}
	if err := server.CreateBucket(ctx, benchBucket); err != nil {
		return errors.Join(err, server.Close())
	}
	o.Store = server.Store(benchBucket, "")
	o.bare = newSDKPuts(o.Store, server.Client(), benchBucket, "", false)
	o.where, o.after = fmt.Sprintf("MinIO at %s", server.Endpoint), "it ends with this process"
	o.cleanup = server.Close
	return nil
}
