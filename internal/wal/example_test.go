package wal_test

import (
	"fmt"
	"log"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/memwal/memwal-go/internal/wal"
)

// A log of a fence and one entry, written, read back and judged.
func Example() {
	schema := arrow.NewSchema([]arrow.Field{{Name: "id", Type: arrow.PrimitiveTypes.Int64}}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	b.Field(0).(*array.Int64Builder).AppendValues([]int64{1, 2, 3}, nil)
	rec := b.NewRecordBatch()
	defer rec.Release()

	fence := wal.Header{Epoch: 1, PutID: wal.NewPutID()}
	fenceBody, err := wal.EncodeFence(fence)
	if err != nil {
		log.Fatal(err)
	}
	entry, err := wal.Encode(wal.Header{Epoch: 1, PutID: wal.NewPutID(), PrevPutID: fence.PutID, Generation: 1},
		schema, []arrow.RecordBatch{rec}, nil, wal.EncodeOptions{})
	if err != nil {
		log.Fatal(err)
	}
	objects := [][]byte{fenceBody.Bytes(), entry.Body.Bytes()}
	entry.Release()

	chain := wal.NewChain(wal.Start())
	for i, data := range objects {
		position := uint64(i + 1)
		e, err := wal.Decode(data, wal.DecodeOptions{})
		if err != nil {
			log.Fatal(wal.AtPosition(err, position))
		}
		verdict, err := chain.Judge(position, e.Header, e.Rows)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(position, verdict, e.Header.Fence, e.Rows)
		e.Release()
	}
	fmt.Println("next row", chain.Tuple().NextRow)
	// Output:
	// 1 live true 0
	// 2 live false 3
	// next row 3
}
