package simulation

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// line is one thing that happened, and when.
type line struct {
	at   time.Duration
	text string
}

// trace is what happened, a line each.
type trace struct {
	mu    sync.Mutex
	began time.Time
	lines []line
	heard []line // of goroutines that go on together, until settled puts them in order
	ended bool
}

func (t *trace) add(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.began.IsZero() {
		t.began = time.Now()
	}
	if !t.ended {
		t.lines = append(t.lines, line{time.Since(t.began), fmt.Sprintf(format, args...)})
	}
}

// hear adds a line on a goroutine that the scheduler did not let go on by itself.
func (t *trace) hear(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.ended {
		t.heard = append(t.heard, line{time.Since(t.began), fmt.Sprintf(format, args...)})
	}
}

// settled adds what was heard. It is called once everything waits.
func (t *trace) settled() {
	t.mu.Lock()
	defer t.mu.Unlock()
	inOrder(t.heard)
	t.lines, t.heard = append(t.lines, t.heard...), nil
}

// inOrder sorts what happens at one moment, whose order is no one's to choose.
func inOrder(lines []line) {
	slices.SortStableFunc(lines, func(a, b line) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.text, b.text)) })
}

// together runs do and puts what it adds in order.
func (t *trace) together(do func()) {
	t.mu.Lock()
	from := len(t.lines)
	t.mu.Unlock()
	do()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines, t.heard = append(t.lines, t.heard...), nil
	inOrder(t.lines[from:])
}

// end keeps later lines out: those of requests that go on together.
func (t *trace) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
}

func (t *trace) String() string {
	var b strings.Builder
	b.WriteString(legend)
	for _, l := range t.lines {
		fmt.Fprintf(&b, "%12v %s\n", l.at.Round(time.Millisecond), l.text)
	}
	return b.String()
}
