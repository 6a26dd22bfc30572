//go:build unix

package fight

import (
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
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

// TestS03_OneWinnerAmongProcesses lets three processes put the same objects, while
// they are killed and stopped in the middle of it. Each object has one winner at
// most, is whole, and is that of the winner.
func TestS03_OneWinnerAmongProcesses(t *testing.T) {
	onStores(t, func(t *testing.T, url string) {
		a := newArena(t, url, seedOf(t))
		var mu sync.Mutex
		var events []event
		top := int64(0)
		take := func(e event) {
			mu.Lock()
			defer mu.Unlock()
			events = append(events, e)
			top = max(top, e.First)
		}
		over := time.After(max(length()/10, 2*time.Second))
		end := make(chan struct{})
		var kills, stops int
		var slots sync.WaitGroup
		for slot := range 3 {
			x := rand.New(rand.NewPCG(a.seed, uint64(slot)))
			slots.Go(func() {
				for {
					j := a.job(roleRacer, uuid.Nil, tuning{})
					mu.Lock()
					j.From = top
					mu.Unlock()
					p, err := start(a.dir, j, take)
					if err != nil {
						t.Errorf("start a child: %v", err)
						return
					}
					for x.IntN(4) > 0 {
						select {
						case <-end:
							if err := p.finish(); err != nil {
								t.Error(err)
							}
							return
						case <-time.After(between(x, 10, 200)):
						}
						if p.halt() {
							time.Sleep(between(x, 1, 60))
							p.resume()
							mu.Lock()
							stops++
							mu.Unlock()
						}
					}
					p.kill()
					if !p.killed() {
						t.Errorf("a racer ended with %s; its output:\n%s", describe(p.status), p.output())
						return
					}
					mu.Lock()
					kills++
					mu.Unlock()
				}
			})
		}
		<-over
		close(end)
		slots.Wait()

		type object struct {
			issued  map[int]bool
			winner  int
			refused bool
		}
		objects := map[int64]*object{}
		for _, e := range events {
			o := objects[e.First]
			if o == nil {
				o = &object{issued: map[int]bool{}}
				objects[e.First] = o
			}
			switch e.Kind {
			case violation:
				t.Error(e.Text)
			case issued:
				o.issued[e.process] = true
			case refused:
				o.refused = true
			case acked:
				if o.winner != 0 {
					t.Errorf("%s was won by process %d and by process %d", raceKey(e.First), o.winner, e.process)
				}
				o.winner = e.process
			}
		}
		contended, untold := 0, 0
		for n, o := range objects {
			data, err := a.store.Get(t.Context(), raceKey(n))
			if errors.Is(err, objstore.ErrNotExist) && o.winner == 0 && !o.refused {
				continue // whoever was about to put it was killed
			}
			if err != nil {
				t.Errorf("%s, won by process %d, refused: %t: %v", raceKey(n), o.winner, o.refused, err)
				continue
			}
			who, err := readRaceBody(data, n)
			switch {
			case err != nil:
				t.Errorf("%s: %v", raceKey(n), err)
			case o.winner != 0 && who != o.winner:
				t.Errorf("%s was won by process %d and is process %d's", raceKey(n), o.winner, who)
			case !o.issued[who]:
				t.Errorf("%s is process %d's, which has not put it", raceKey(n), who)
			}
			if o.winner == 0 {
				untold++
			}
			if len(o.issued) > 1 {
				contended++
			}
		}
		t.Logf("%d objects, %d of them contended, %d whose winner was killed before it said so; %d kills, %d stops", len(objects), contended, untold, kills, stops)
		if contended == 0 || kills == 0 || stops == 0 {
			t.Error("the race was too tame")
		}
	})
}

// sleep locks the file of the clock, says so, and waits.
func (c *child) sleep() {
	fd, err := syscall.Open(c.Clock, syscall.O_RDWR, 0)
	if err == nil {
		err = syscall.Flock(fd, syscall.LOCK_EX|syscall.LOCK_NB)
	}
	if err != nil {
		c.violate("harness", "lock: %v", err)
	}
	c.send(event{Kind: opened})
	<-c.finish
}

// keep starts a child of its own, stops it, and waits.
func (c *child) keep() {
	j := c.job
	j.Role = roleSleeper
	p, err := start(strings.TrimPrefix(c.URL, "file://"), j, func(event) {})
	if err == nil && p.await(isOpened, time.Minute) && p.halt() {
		c.send(event{Kind: opened})
	}
	<-c.finish
}

// TestChildrenDieWithTheirParent kills a parent whose child is stopped.
func TestChildrenDieWithTheirParent(t *testing.T) {
	dir := t.TempDir()
	file := dir + "/clock"
	if err := newClockFile(file); err != nil {
		t.Fatal(err)
	}
	p := spawn(t, job{Role: roleKeeper, Clock: file, URL: "file://" + dir, Process: int(processes.Add(1))}, func(event) {})
	if !p.await(isOpened, time.Minute) {
		t.Fatalf("no child was started and stopped; the output of its parent:\n%s", p.output())
	}
	fd, err := syscall.Open(file, syscall.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	lock := func() error { return syscall.Flock(fd, syscall.LOCK_EX|syscall.LOCK_NB) }
	if err := lock(); err == nil {
		t.Fatal("the stopped child does not hold its lock")
	}
	p.kill()
	if !p.killed() {
		t.Fatalf("the parent ended with %s", describe(p.status))
	}
	for deadline := time.Now().Add(30 * time.Second); lock() != nil; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("30 s after its parent's death the child is still there")
		}
	}
}
