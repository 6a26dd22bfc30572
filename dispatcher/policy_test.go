package dispatcher

import (
	"testing"
	"time"
)

func TestV14_Precedence(t *testing.T) {
	for _, c := range []struct {
		name string
		in   situation
		want step
	}{
		{"nothing to do", situation{}, stepWait},
		{"cancellation before all", situation{cancelled: true, closing: true, messages: true, wake: true, wakeTurn: true, tick: true, tickFirst: true}, stepEnd},
		{"message before tick", situation{messages: true, tick: true}, stepMessage},
		{"wake before tick", situation{wake: true, tick: true}, stepWake},
		{"message posted before the wake", situation{messages: true, wake: true}, stepMessage},
		{"wake in turn", situation{messages: true, wake: true, wakeTurn: true}, stepWake},
		{"tick alone", situation{tick: true}, stepTick},
		{"tick that waited long enough", situation{messages: true, wake: true, wakeTurn: true, tick: true, tickFirst: true}, stepTick},
		{"drain handles messages", situation{closing: true, messages: true, tick: true, tickFirst: true}, stepMessage},
		{"drain handles the wake", situation{closing: true, wake: true, tick: true}, stepWake},
		{"drain does not tick", situation{closing: true, tick: true, tickFirst: true}, stepEnd},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := choose(c.in); got != c.want {
				t.Errorf("choose(%+v) = %s, want %s", c.in, got, c.want)
			}
		})
	}
}

func TestSchedule(t *testing.T) {
	const interval = 100 * time.Millisecond
	zero := time.Unix(1000, 0)
	at := func(ms int) time.Time { return zero.Add(time.Duration(ms) * time.Millisecond) }
	due := func(t *testing.T, s schedule, ms int) {
		t.Helper()
		if !s.due.Equal(at(ms)) {
			t.Fatalf("next tick at %v, want %d ms", s.due.Sub(zero), ms)
		}
	}

	t.Run("a tick missed by a message is dropped and the next comes an interval later", func(t *testing.T) {
		s := newSchedule(interval, 4, zero)
		if s.busy(at(90)) || !s.busy(at(130)) {
			t.Fatal("a tick is dropped exactly when it fell due while the handler ran")
		}
		due(t, s, 230)
	})
	t.Run("never two in a row", func(t *testing.T) {
		s := newSchedule(interval, 2, zero)
		s.busy(at(130))
		if s.busy(at(250)) {
			t.Fatal("the second tick in a row was dropped")
		}
		due(t, s, 230)
		if s.first(at(250)) {
			t.Fatal("it goes before messages that were there already")
		}
		s.busy(at(260))
		if !s.first(at(260)) {
			t.Fatal("it lets more than its patience pass")
		}
		s.begin(at(260))
		s.end(at(265))
		due(t, s, 360)
		if !s.busy(at(370)) {
			t.Fatal("the first one missed after a tick is to be dropped again")
		}
	})
	t.Run("a long tick handler drops what it missed", func(t *testing.T) {
		s := newSchedule(interval, 4, zero)
		s.begin(at(100))
		s.end(at(450))
		due(t, s, 550)
	})
	t.Run("a reset by the tick's handler stands", func(t *testing.T) {
		s := newSchedule(interval, 4, zero)
		s.begin(at(100))
		s.reset(at(110), 5*time.Millisecond)
		s.end(at(150))
		due(t, s, 115)
		s.begin(at(150))
		s.end(at(150))
		due(t, s, 250)
	})
	t.Run("a reset tick is not dropped", func(t *testing.T) {
		s := newSchedule(0, 4, zero)
		if s.ready(at(1 << 30)) {
			t.Fatal("ticks without an interval")
		}
		s.reset(zero, 10*time.Millisecond)
		if s.busy(at(20)) || !s.ready(at(20)) {
			t.Fatal("a tick that was asked for was dropped")
		}
		s.begin(at(20))
		s.end(at(20))
		if s.ready(at(1 << 30)) {
			t.Fatal("it came twice")
		}
	})
}

func TestRingKeepsOrder(t *testing.T) {
	var r ring[int]
	in, out := 0, 0
	for round := range 200 {
		for range round % 23 {
			r.push(in)
			in++
		}
		for range min(r.len(), round%17) {
			if got := r.pop(); got != out {
				t.Fatalf("got %d, want %d", got, out)
			}
			out++
		}
	}
	for r.len() > 0 {
		if got := r.pop(); got != out {
			t.Fatalf("got %d, want %d", got, out)
		}
		out++
	}
	if in != out {
		t.Fatalf("%d in, %d out", in, out)
	}
}
