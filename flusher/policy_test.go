package flusher

import (
	"testing"
	"time"
)

func TestDecide(t *testing.T) {
	const interval, size = 100 * time.Millisecond, 1000
	base := Pending{Bytes: 10, Rows: 1, Room: true, SinceLast: 30 * time.Millisecond}
	with := func(change func(*Pending)) Pending {
		p := base
		change(&p)
		return p
	}
	for _, tc := range []struct {
		name     string
		pending  Pending
		interval time.Duration
		want     Decision
	}{
		{"inside the interval: wait for the rest of it", base, interval, Decision{Wait: 70 * time.Millisecond}},
		{"after a pause of an interval: at once", with(func(p *Pending) { p.SinceLast = interval }), interval, Decision{Append: true, Reason: ByTime}},
		{"after a longer pause: at once", with(func(p *Pending) { p.SinceLast = time.Hour }), interval, Decision{Append: true, Reason: ByTime}},
		{"nothing pending", with(func(p *Pending) { p.Rows, p.SinceLast = 0, time.Hour }), interval, Decision{}},
		{"nothing pending, but demanded", with(func(p *Pending) { p.Rows, p.Demanded = 0, true }), interval, Decision{}},
		{"window full", with(func(p *Pending) { p.Room, p.SinceLast, p.Bytes, p.Demanded = false, time.Hour, size, true }), interval, Decision{}},
		{"enough bytes", with(func(p *Pending) { p.Bytes = size }), interval, Decision{Append: true, Reason: BySize}},
		{"one byte less", with(func(p *Pending) { p.Bytes = size - 1 }), interval, Decision{Wait: 70 * time.Millisecond}},
		{"demanded", with(func(p *Pending) { p.Demanded = true }), interval, Decision{Append: true, Reason: ByDemand}},
		{"no interval: time starts nothing", with(func(p *Pending) { p.SinceLast = time.Hour }), 0, Decision{}},
		{"no interval: size does", with(func(p *Pending) { p.Bytes = size }), 0, Decision{Append: true, Reason: BySize}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := Decide(tc.pending, tc.interval, size); got != tc.want {
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
