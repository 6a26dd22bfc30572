//go:build unix

package fight

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// proxy stands between one child and an S3 service. It can hold the
// requests of the child, and pass it on later, even if the child is dead by then: so requests of
// the dead land after the restart. At other times it delays some requests a
// little, so that puts side by side overtake each other, and loses the answer of a
// put now and then.
type proxy struct {
	listener net.Listener
	target   string
	seed     uint64
	held     atomic.Int64 // whole PUT requests that came from the child and were not passed on

	lost atomic.Int64 // answers to PUT requests

	mu   sync.Mutex
	open chan struct{} // closed while bytes pass

	conns sync.WaitGroup
	end   chan struct{}
}

// throughProxy starts a proxy for the service of an s3 URL and returns it, and the
// URL that leads through it. It ends with the test.
func throughProxy(t testing.TB, rawURL string, seed uint64) (*proxy, string) {
	t.Helper()
	u, err := url.Parse(rawURL)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	endpoint, err := url.Parse(q.Get("endpoint"))
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l, target: endpoint.Host, seed: seed, open: make(chan struct{}), end: make(chan struct{})}
	close(p.open)
	p.conns.Go(p.accept)
	t.Cleanup(p.close)
	// The client signs the name of the host that it talks to, and sends it along;
	// the service takes its word for it.
	q.Set("endpoint", "http://"+l.Addr().String())
	u.RawQuery = q.Encode()
	return p, u.String()
}

// canProxy tells whether a store is reached by plain HTTP.
func canProxy(rawURL string) bool {
	u, err := url.Parse(rawURL)
	if err != nil || u.Scheme != "s3" {
		return false
	}
	e, err := url.Parse(u.Query().Get("endpoint"))
	return err == nil && e.Scheme == "http"
}

func (p *proxy) close() {
	select {
	case <-p.end:
		return
	default:
	}
	close(p.end)
	_ = p.listener.Close()
	p.conns.Wait()
}

// hold keeps back what the child sends from now on.
func (p *proxy) hold() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.open:
		p.open = make(chan struct{})
	default:
	}
}

// release lets everything pass.
func (p *proxy) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.open:
	default:
		close(p.open)
	}
}

func (p *proxy) gate() chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.open
}

func (p *proxy) accept() {
	for n := uint64(1); ; n++ {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		r := rand.New(rand.NewPCG(p.seed, n))
		p.conns.Go(func() { p.serve(client, r) })
	}
}

// wholeRequest returns the length of the request that data begins with, or 0 if it is
// not there to its end. What clients of this test send has a Content-Length or no body.
func wholeRequest(data []byte) int {
	header, _, ok := bytes.Cut(data, []byte("\r\n\r\n"))
	if !ok {
		return 0
	}
	length := len(header) + 4
	for line := range bytes.Lines(header) {
		name, value, _ := bytes.Cut(line, []byte(":"))
		if bytes.EqualFold(name, []byte("Content-Length")) {
			if n, err := strconv.Atoi(string(bytes.TrimSpace(value))); err == nil {
				length += n
			}
		}
	}
	if len(data) < length {
		return 0
	}
	return length
}

func isPut(request []byte) bool { return bytes.HasPrefix(request, []byte("PUT ")) }

// lossy passes answers on until one is to be lost.
type lossy struct {
	to   io.Writer
	lose atomic.Bool
}

var errLost = errors.New("the answer is lost")

func (l *lossy) Write(data []byte) (int, error) {
	if l.lose.Load() {
		return 0, errLost
	}
	return l.to.Write(data)
}

// replyTime is how long the proxy stays on the line for a child that is gone, so
// that the service answers its last request, and does not give it up.
const replyTime = 5 * time.Second

func (p *proxy) serve(client net.Conn, r *rand.Rand) {
	defer client.Close()
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		return
	}
	defer server.Close()
	stop := make(chan struct{})
	defer close(stop)
	answers := &lossy{to: client}
	answered := make(chan struct{})
	defer func() {
		_ = server.Close()
		<-answered
	}()
	p.conns.Go(func() {
		select {
		case <-p.end:
			_ = client.Close()
			_ = server.Close()
		case <-stop:
		}
	})
	go func() {
		defer close(answered)
		_, err := io.Copy(answers, server)
		if errors.Is(err, errLost) {
			p.lost.Add(1)
		} else if err != nil { // the child is gone: its answers go nowhere
			_, _ = io.Copy(io.Discard, server)
			return
		}
		_ = client.Close() // the service has hung up, or it looks so
	}()

	// What was read from the child is kept here, where its death does not reach.
	requests := make(chan []byte, 4096)
	go func() {
		defer close(requests)
		p.read(client, requests)
	}()
	for request := range requests {
		if r.IntN(8) == 0 {
			time.Sleep(time.Duration(r.IntN(30)) * time.Millisecond)
		}
		select {
		case <-p.gate():
		case <-p.end:
		}
		if isPut(request) {
			p.held.Add(-1)
			if r.IntN(60) == 0 {
				answers.lose.Store(true)
			}
		}
		if _, err := server.Write(request); err != nil {
			_ = client.Close() // which ends the reading
		}
	}
	_ = server.SetReadDeadline(time.Now().Add(replyTime))
	<-answered
}

// read cuts what a client sends into requests. Half a request is never passed on:
// MinIO locks the object until the rest comes, which of a stopped process may be
// long.
func (p *proxy) read(client net.Conn, requests chan<- []byte) {
	var data []byte
	buf := make([]byte, 32<<10)
	for {
		n, err := client.Read(buf)
		data = append(data, buf[:n]...)
		for length := wholeRequest(data); length > 0; length = wholeRequest(data) {
			if isPut(data) {
				p.held.Add(1)
			}
			requests <- data[:length:length]
			data = data[length:]
		}
		if err != nil {
			return
		}
	}
}
