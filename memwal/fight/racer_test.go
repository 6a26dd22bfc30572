//go:build unix

package fight

import (
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/memwal/memwal-go/objstore"
)

func raceKey(n int64) string { return fmt.Sprintf("race/%08d", n) }

// raceBody says who puts it, and whether it is whole.
func raceBody(process int, n int64) objstore.Body {
	text := fmt.Sprintf("%d %d %s", process, n, strings.Repeat("x", int(mix(uint64(n))%20000)))
	half := len(text) / 2
	return objstore.Body{[]byte(text[:half]), []byte(text[half:]), fmt.Appendf(nil, " %08x", crc32.ChecksumIEEE([]byte(text)))}
}

// readRaceBody returns who put it.
func readRaceBody(data []byte, n int64) (process int, err error) {
	at := len(data) - 9
	if at < 0 || string(data[at:]) != fmt.Sprintf(" %08x", crc32.ChecksumIEEE(data[:at])) {
		return 0, fmt.Errorf("%d bytes, not whole", len(data))
	}
	var key int64
	if _, err := fmt.Sscanf(string(data[:at]), "%d %d", &process, &key); err != nil || key != n {
		return 0, fmt.Errorf("it has %.20q", data)
	}
	return process, nil
}

// race puts one object after the other, as others do.
func (c *child) race() {
	for n := c.From; !c.finishing(); n++ {
		c.send(event{Kind: issued, First: n})
		_, err := c.store.PutIfAbsent(c.ctx, raceKey(n), raceBody(c.Process, n))
		switch {
		case err == nil:
			c.send(event{Kind: acked, First: n})
			c.pause(c.rand, time.Millisecond)
		case errors.Is(err, objstore.ErrExists):
			c.send(event{Kind: refused, First: n})
		case !explained(err):
			c.violate("S03", "put %s: %v", raceKey(n), err)
		}
	}
}

// contest is what is known of one object that racers put.
type contest struct {
	issued  map[int]bool // processes that were about to put it
	winner  int          // 0: nobody has said so
	refused bool         // somebody was told that it exists
}

// raceCourse runs racers and collects what they say.
type raceCourse struct {
	*arena
	t *testing.T

	mu       sync.Mutex
	top      int64 // highest key so far
	contests map[int64]*contest
	kills    int
	stops    int
}

func (c *raceCourse) take(e event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	o := c.contests[e.First]
	if o == nil {
		o = &contest{issued: map[int]bool{}}
		c.contests[e.First] = o
	}
	c.top = max(c.top, e.First)
	switch e.Kind {
	case violation:
		c.t.Error(e.Text)
	case issued:
		o.issued[e.process] = true
	case refused:
		o.refused = true
	case acked:
		if o.winner != 0 {
			c.t.Errorf("%s was won by process %d and by process %d", raceKey(e.First), o.winner, e.process)
		}
		o.winner = e.process
	}
}

// slot keeps one racer running until end: it stops it a few times, kills it, and
// starts the next one.
func (c *raceCourse) slot(x *rand.Rand, end <-chan struct{}) {
	for {
		j := c.job(roleRacer, uuid.Nil, tuning{})
		c.mu.Lock()
		j.From = c.top
		c.mu.Unlock()
		p, err := start(c.dir, j, c.take)
		if err != nil {
			c.t.Errorf("start a child: %v", err)
			return
		}
		for x.IntN(4) > 0 {
			select {
			case <-end:
				if err := p.finish(); err != nil {
					c.t.Error(err)
				}
				return
			case <-time.After(between(x, 10, 200)):
			}
			if p.halt() {
				time.Sleep(between(x, 1, 60))
				p.resume()
				c.mu.Lock()
				c.stops++
				c.mu.Unlock()
			}
		}
		p.kill()
		if !p.killed() {
			c.t.Errorf("a racer ended with %s; its output:\n%s", describe(p.status), p.output())
			return
		}
		c.mu.Lock()
		c.kills++
		c.mu.Unlock()
	}
}

// check compares the object of key n with what was said about it.
func (c *raceCourse) check(n int64, o *contest) {
	data, err := c.store.Get(c.t.Context(), raceKey(n))
	if errors.Is(err, objstore.ErrNotExist) && o.winner == 0 && !o.refused {
		return // whoever was about to put it was killed
	}
	if err != nil {
		c.t.Errorf("%s, won by process %d, refused: %t: %v", raceKey(n), o.winner, o.refused, err)
		return
	}
	who, err := readRaceBody(data, n)
	switch {
	case err != nil:
		c.t.Errorf("%s: %v", raceKey(n), err)
	case o.winner != 0 && who != o.winner:
		c.t.Errorf("%s was won by process %d and is process %d's", raceKey(n), o.winner, who)
	case !o.issued[who]:
		c.t.Errorf("%s is process %d's, which has not put it", raceKey(n), who)
	}
}

// TestS03_OneWinnerAmongProcesses lets three processes put the same objects, while
// they are killed and stopped in the middle of it. Each object has one winner at
// most, is whole, and is that of the winner.
func TestS03_OneWinnerAmongProcesses(t *testing.T) {
	onStores(t, func(t *testing.T, url string) {
		c := &raceCourse{arena: newArena(t, url, seedOf(t)), t: t, contests: map[int64]*contest{}}
		end := make(chan struct{})
		time.AfterFunc(max(length()/10, 2*time.Second), func() { close(end) })
		var slots sync.WaitGroup
		for slot := range 3 {
			slots.Go(func() { c.slot(rand.New(rand.NewPCG(c.seed, uint64(slot))), end) })
		}
		slots.Wait()
		contended, untold := 0, 0
		for n, o := range c.contests {
			c.check(n, o)
			if o.winner == 0 {
				untold++
			}
			if len(o.issued) > 1 {
				contended++
			}
		}
		t.Logf("%d objects, %d of them contended, %d whose winner did not live to say so; %d kills, %d stops",
			len(c.contests), contended, untold, c.kills, c.stops)
		if contended == 0 || c.kills == 0 || c.stops == 0 {
			t.Error("the race was too tame")
		}
	})
}
