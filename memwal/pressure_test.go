package memwal

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"
)

// A writer that ends does not wait for the timer of an episode, however many puts
// have waited at a time.
func TestPressureStopsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &pressure{logger: slog.New(slog.DiscardHandler)}
		for range 3 {
			p.enter(1)
		}
		for range 3 {
			p.leave()
		}
		start := time.Now()
		p.stop()
		if took := time.Since(start); took != 0 {
			t.Errorf("it took %v to stop", took)
		}
	})
}
