package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"
)

func main() {
	batches := flag.Int("batches", 10_000, "batches of 20 rows")
	perText := flag.Int("words", 20, "words of a text")
	limit := flag.Duration("limit", 45*time.Second, "time after which an index gets no more batches; 0 is none")
	flag.Parse()
	if flag.NArg() > 0 || *batches < 50 || *perText < 2 || *limit < 0 {
		fmt.Fprintln(os.Stderr, "bleve: expected flags only, at least 50 -batches, which makes one large one, at least 2 -words, and no negative -limit")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout, os.Stderr, *batches, *perText, *limit, 3); err != nil {
		fmt.Fprintln(os.Stderr, "bleve:", err)
		os.Exit(1)
	}
}
