//go:build unix

package fight

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// proxy stands between one child and an S3 service. It can hold what the child
// sends, and pass it on later, even if the child is dead by then: so requests of
// the dead land after the restart. At other times it delays some requests a
// little, so that puts side by side overtake each other.
type proxy struct {
	listener net.Listener
	target   string
	seed     uint64
	puts     atomic.Int64 // requests that begin with PUT, held or not

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
	p.conns.Go(func() {
		select {
		case <-p.end:
			_ = client.Close()
			_ = server.Close()
		case <-stop:
		}
	})
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		_, err := io.Copy(client, server)
		if err != nil { // the child is gone: its answers go nowhere
			_, _ = io.Copy(io.Discard, server)
			return
		}
		_ = client.Close() // the service has hung up
	}()

	// What was read from the child is kept here, where its death does not reach.
	sent := make(chan []byte, 4096)
	go func() {
		defer close(sent)
		for {
			buf := make([]byte, 32<<10)
			n, err := client.Read(buf)
			if n > 0 {
				if bytes.HasPrefix(buf[:n], []byte("PUT ")) {
					p.puts.Add(1)
				}
				sent <- buf[:n]
			}
			if err != nil {
				return
			}
		}
	}()
	for buf := range sent {
		if r.IntN(8) == 0 {
			time.Sleep(time.Duration(r.IntN(30)) * time.Millisecond)
		}
		select {
		case <-p.gate():
		case <-p.end:
		}
		if _, err := server.Write(buf); err != nil {
			_ = client.Close()
			for range sent {
			}
			break
		}
	}
	// The child has hung up.
	_ = server.SetReadDeadline(time.Now().Add(replyTime))
	<-answered
}
