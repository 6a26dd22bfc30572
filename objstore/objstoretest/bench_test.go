package objstoretest_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/memwal/memwal-go/internal/miniotest"
	"github.com/memwal/memwal-go/objstore"
)

// BenchmarkS3Put puts objects of the sizes of WAL entries to a MinIO on this machine,
// four at a time for each core:
//
//	go test -run '^$' -bench S3Put ./objstore/objstoretest
//
// What the client itself takes shows with -cpuprofile; MinIO takes the rest.
func BenchmarkS3Put(b *testing.B) {
	srv := miniotest.Start(b)
	for _, size := range []int{1 << 20, 10 << 20} {
		for _, sign := range []bool{false, true} {
			b.Run(fmt.Sprintf("size=%dMiB/signed=%v", size>>20, sign), func(b *testing.B) {
				data := make([]byte, size)
				for i := range data {
					data[i] = byte(i * 7919 >> 3)
				}
				body := objstore.Body{data[:1000], data[1000:]}
				// A folder for each round: N grows from one to the next.
				s := objstore.NewS3(srv.Client(), miniotest.Bucket, fmt.Sprintf("%s-%d", strings.ReplaceAll(b.Name(), "=", "-"), b.N), &objstore.S3Options{SignPayload: sign})
				var n atomic.Int64
				b.SetBytes(int64(size))
				b.SetParallelism(4)
				b.ReportAllocs()
				b.ResetTimer()
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						if _, err := s.PutIfAbsent(b.Context(), fmt.Sprint(n.Add(1)), body); err != nil {
							b.Error(err)
						}
					}
				})
			})
		}
	}
}
