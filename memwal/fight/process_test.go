//go:build unix

package fight

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// processes numbers the children of this test process.
var processes atomic.Int64

// process is a running child. The parent waits for it by itself, not with
// os/exec, since it has to see stops as well as the end.
type process struct {
	job
	pid    int
	stdin  *os.File
	stderr string // file

	exited  chan struct{} // closed when it is gone and all that it said was read
	stopped chan struct{} // gets one for each stop that the kernel tells of
	status  syscall.WaitStatus

	mu     sync.Mutex
	reaped bool // its pid may be anybody's
	stops  int
	// changed is closed and replaced with each event.
	changed chan struct{}
	last    event // latest that says how the latest call of Open stands
	// signalled is what the parent sent last that ends it.
	signalled syscall.Signal
}

// spawner starts processes, all on one thread that never ends: Linux's
// parent-death signal comes when the thread is gone that has started the child.
var spawner = sync.OnceValue(func() chan func() {
	jobs := make(chan func())
	go func() {
		runtime.LockOSThread()
		for do := range jobs {
			do()
		}
	}()
	return jobs
})

func forkExec(path string, args []string, attr *syscall.ProcAttr) (pid int, err error) {
	done := make(chan struct{})
	spawner() <- func() {
		defer close(done)
		pid, err = syscall.ForkExec(path, args, attr)
	}
	<-done
	return pid, err
}

// spawn starts a child. take gets what it reports, in order, in one goroutine.
// Whatever happens, the child is gone when the test is over.
func spawn(t testing.TB, j job, take func(event)) *process {
	t.Helper()
	p, err := start(t.TempDir(), j, take)
	if err != nil {
		t.Fatalf("start a child: %v", err)
	}
	t.Cleanup(func() {
		p.kill()
		<-p.exited
	})
	return p
}

func start(dir string, j job, take func(event)) (_ *process, err error) {
	text, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{
		job: j, stderr: filepath.Join(dir, fmt.Sprintf("stderr-%d", j.Process)),
		exited: make(chan struct{}), stopped: make(chan struct{}, 100), changed: make(chan struct{}),
	}
	stderr, err := os.Create(p.stderr)
	if err != nil {
		return nil, err
	}
	defer stderr.Close()
	in, stdin, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	reports, out, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, stdin.Close())
	}
	defer out.Close()
	// Fd makes the ends of the child blocking, which is what it expects.
	p.pid, err = forkExec(exe, []string{exe}, &syscall.ProcAttr{
		Env: append(environment(), jobVariable+"="+string(text)), Sys: attributes(),
		Files: []uintptr{in.Fd(), stderr.Fd(), stderr.Fd(), out.Fd()},
	})
	if err != nil {
		return nil, errors.Join(err, stdin.Close(), reports.Close())
	}
	p.stdin = stdin
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		defer reports.Close()
		p.listen(reports, take)
	}()
	go func() {
		p.reap()
		<-heard
		_ = stdin.Close()
		close(p.exited)
	}()
	return p, nil
}

// environment is that of this process, without its own job, if it has one.
func environment() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, jobVariable+"=") })
}

// listen reads reports until the child is gone.
func (p *process) listen(reports *os.File, take func(event)) {
	lines := bufio.NewScanner(reports)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			e = event{Kind: violation, ID: "harness", Text: fmt.Sprintf("report %q: %v", lines.Text(), err)}
		}
		e.process = p.Process
		take(e)
		p.mu.Lock()
		switch e.Kind {
		case opening, opened, notOpened, ended, fenced:
			p.last = e
		}
		close(p.changed)
		p.changed = make(chan struct{})
		p.mu.Unlock()
	}
}

// reap takes what the kernel tells of the child, to its end.
func (p *process) reap() {
	for {
		var s syscall.WaitStatus
		_, err := syscall.Wait4(p.pid, &s, syscall.WUNTRACED, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case err == nil && s.Stopped():
			p.mu.Lock()
			p.stops++
			p.mu.Unlock()
			p.stopped <- struct{}{}
			continue
		}
		p.mu.Lock()
		p.reaped, p.status = true, s
		p.mu.Unlock()
		return
	}
}

// signal sends sig, unless the child is gone. A pid that was not reaped is the
// child's.
func (p *process) signal(sig syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reaped {
		return
	}
	if sig == syscall.SIGKILL || sig == syscall.SIGQUIT {
		p.signalled = sig
	}
	_ = syscall.Kill(p.pid, sig)
}

func (p *process) kill() { p.signal(syscall.SIGKILL) }

// halt stops the child and returns when it has stopped; false: it is gone.
func (p *process) halt() bool {
	p.signal(syscall.SIGSTOP)
	select {
	case <-p.stopped:
		return true
	case <-p.exited:
		return false
	}
}

func (p *process) resume() { p.signal(syscall.SIGCONT) }

// killed tells whether the kernel says that SIGKILL ended the child.
func (p *process) killed() bool {
	<-p.exited
	return p.status.Signaled() && p.status.Signal() == syscall.SIGKILL
}

func (p *process) gone() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// await waits until the state of the latest call of Open is as wanted; false: the
// child is gone, or it took too long.
func (p *process) await(want func(kind) bool, patience time.Duration) bool {
	timeout := time.After(patience)
	for {
		p.mu.Lock()
		is, changed := p.last.Kind, p.changed
		p.mu.Unlock()
		if want(is) {
			return true
		}
		select {
		case <-changed:
		case <-p.exited:
			return false
		case <-timeout:
			return false
		}
	}
}

// finishTime is how long a child may take to finish on a machine that is busy.
const finishTime = 90 * time.Second

// finish tells the child to end by itself. A child that does not is a failure: its
// error then has what all of its goroutines do.
func (p *process) finish() error {
	_, err := p.stdin.Write([]byte{'.'})
	select {
	case <-p.exited:
	case <-time.After(finishTime):
		p.signal(syscall.SIGQUIT)
		select {
		case <-p.exited:
		case <-time.After(10 * time.Second):
			p.kill()
			<-p.exited
		}
		return fmt.Errorf("process %d, a %s, did not finish within %v; its output:\n%s", p.Process, p.Role, finishTime, p.output())
	}
	if !p.status.Exited() || p.status.ExitStatus() != 0 {
		return fmt.Errorf("process %d, a %s, ended with %s; its output:\n%s", p.Process, p.Role, describe(p.status), p.output())
	}
	return err
}

// output is what the child has written to its standard error, shortened.
func (p *process) output() []byte {
	data, err := os.ReadFile(p.stderr)
	if err != nil {
		return []byte(err.Error())
	}
	const most = 16 << 10
	if len(data) > most {
		data = append(bytes.Clone(data[:most]), "\n…"...)
	}
	return bytes.TrimSpace(data)
}

func describe(s syscall.WaitStatus) string {
	if s.Signaled() {
		return fmt.Sprintf("signal %v", s.Signal())
	}
	return fmt.Sprintf("exit code %d", s.ExitStatus())
}
