package flusher

import (
	"testing"
	"time"
)

func TestDecide(t *testing.T) {
	const interval, size = 100 * time.Millisecond, 1000
	base := pending{bytes: 10, rows: 1, room: true, sinceLast: 30 * time.Millisecond}
	with := func(change func(*pending)) pending {
		p := base
		change(&p)
		return p
	}
	for _, tc := range []struct {
		name     string
		pending  pending
		interval time.Duration
		want     decision
	}{
		{"inside the interval: wait for the rest of it", base, interval, decision{wait: 70 * time.Millisecond}},
		{"after a pause of an interval: at once", with(func(p *pending) { p.sinceLast = interval }), interval, decision{append: true, reason: byTime}},
		{"after a longer pause: at once", with(func(p *pending) { p.sinceLast = time.Hour }), interval, decision{append: true, reason: byTime}},
		{"nothing pending", with(func(p *pending) { p.rows, p.sinceLast = 0, time.Hour }), interval, decision{}},
		{"nothing pending, but demanded", with(func(p *pending) { p.rows, p.demanded = 0, true }), interval, decision{}},
		{"window full", with(func(p *pending) { p.room, p.sinceLast, p.bytes, p.demanded = false, time.Hour, size, true }), interval, decision{}},
		{"enough bytes", with(func(p *pending) { p.bytes = size }), interval, decision{append: true, reason: bySize}},
		{"one byte less", with(func(p *pending) { p.bytes = size - 1 }), interval, decision{wait: 70 * time.Millisecond}},
		{"demanded", with(func(p *pending) { p.demanded = true }), interval, decision{append: true, reason: byDemand}},
		{"no interval: time starts nothing", with(func(p *pending) { p.sinceLast = time.Hour }), 0, decision{}},
		{"no interval: size does", with(func(p *pending) { p.bytes = size }), 0, decision{append: true, reason: bySize}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := decide(tc.pending, tc.interval, size); got != tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}

func TestProof(t *testing.T) {
	start := time.Now()
	p := proof{sent: start}
	if got := p.elapsed(start.Add(3*time.Second), time.Time{}); got != 3*time.Second {
		t.Errorf("elapsed: %v, want 3s", got)
	}
	// The monotonic clock stood still while the machine was suspended.
	wall := start.Round(0).Add(time.Hour)
	if got := p.elapsed(wall, time.Time{}); got < time.Hour {
		t.Errorf("elapsed after a suspend: %v, want an hour by the wall clock", got)
	}
	// Both clocks of this machine stood still; the store's did not.
	p.renew(start.Add(time.Second), start.Add(time.Second))
	if got := p.elapsed(start.Add(2*time.Second), start.Add(2*time.Hour)); got < time.Hour {
		t.Errorf("elapsed by the store's clock: %v, want about 2h", got)
	}
	// A put that was sent earlier proves nothing newer.
	p.renew(start, time.Time{})
	if p.sent != start.Add(time.Second) {
		t.Error("an older put took the proof back")
	}
}
