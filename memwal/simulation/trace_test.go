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

// together runs do and puts what it adds in order: of what happens at one moment
// the order is no one's to choose.
func (t *trace) together(do func()) {
	t.mu.Lock()
	from := len(t.lines)
	t.mu.Unlock()
	do()
	t.mu.Lock()
	defer t.mu.Unlock()
	slices.SortStableFunc(t.lines[from:], func(a, b line) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.text, b.text)) })
}

// end keeps later lines out: those of requests that go on together.
func (t *trace) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
}

func (t *trace) String() string {
	var b strings.Builder
	for _, l := range t.lines {
		fmt.Fprintf(&b, "%12v %s\n", l.at.Round(time.Millisecond), l.text)
	}
	return b.String()
}
