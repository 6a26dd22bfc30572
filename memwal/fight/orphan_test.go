//go:build unix

package fight

import (
	"strings"
	"syscall"
	"testing"
	"time"
)

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
