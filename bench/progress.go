package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// bar draws the progress of an ingest on one line of a terminal.
type bar struct {
	out   io.Writer
	width int // columns of the terminal
	in    *ingest
	total int64 // rows, -1 if unknown

	quit chan struct{}
	wg   sync.WaitGroup
}

// startBar draws until stop. It reads in's counters only.
func startBar(out io.Writer, width int, in *ingest, total int64) *bar {
	b := &bar{out: out, width: width, in: in, total: total, quit: make(chan struct{})}
	b.wg.Go(func() {
		t := time.NewTicker(100 * time.Millisecond)
		defer t.Stop()
		for {
			select {
			case <-t.C:
				fmt.Fprintf(b.out, "\r%s\x1b[K", b.line(in.clock.elapsed()))
			case <-b.quit:
				fmt.Fprint(b.out, "\r\x1b[K")
				return
			}
		}
	})
	return b
}

// stop erases the line.
func (b *bar) stop() {
	close(b.quit)
	b.wg.Wait()
}

// line is what the bar looks like after so long. It fits the terminal.
func (b *bar) line(elapsed time.Duration) string {
	rows, bytes := b.in.rows.Load(), b.in.bytes.Load()
	secs := elapsed.Seconds()
	text := fmt.Sprintf("%s rows  %s rows/s  %.1f MB/s", group(rows), group(round(per(float64(rows), secs))), per(float64(bytes)/1e6, secs))
	done := -1.0
	switch {
	case b.in.limit > 0:
		done = secs / b.in.limit.Seconds()
	case b.total > 0:
		done = float64(rows) / float64(b.total)
	}
	if done >= 0 {
		done = min(done, 1)
		const cells = 24
		full := int(done * cells)
		text = fmt.Sprintf("[%s%s] %3.0f%%  %s", strings.Repeat("█", full), strings.Repeat("░", cells-full), done*100, text)
		if done > 0 && done < 1 {
			left := time.Duration(float64(elapsed) * (1 - done) / done)
			text += fmt.Sprintf("  %s left", left.Round(time.Second))
		}
	}
	if r := []rune(text); b.width > 1 && len(r) >= b.width {
		text = string(r[:b.width-1])
	}
	return text
}
