package testkit

import (
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
)

// Line is a way to a server that can be made to hang, as a server whose processes are
// stopped does: connections are taken and stay open, and nothing is answered.
type Line struct {
	URL    string // of the server, through the line
	target string
	ways   sync.WaitGroup

	mu   sync.Mutex
	free chan struct{} // closed while bytes pass
	end  chan struct{}
}

// NewLine lays a line to the server of a URL for one test.
func NewLine(t testing.TB, server string) *Line {
	t.Helper()
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal("the URL cannot be read")
	}
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &Line{target: u.Host, free: make(chan struct{}), end: make(chan struct{})}
	close(l.free)
	u.Host = ln.Addr().String()
	l.URL = u.String()
	l.ways.Go(func() {
		for {
			in, err := ln.Accept()
			if err != nil {
				return
			}
			l.ways.Go(func() { l.join(in) })
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		close(l.end)
		l.ways.Wait()
	})
	return l
}

// Lead has connections from now on go to another host and port.
func (l *Line) Lead(target string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.target = target
}

// Hang lets nothing more through.
func (l *Line) Hang() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.free = make(chan struct{})
}

// Resume lets everything through that was held, and what comes.
func (l *Line) Resume() {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.free)
}

// passes waits until bytes may pass, and reports whether they may.
func (l *Line) passes() bool {
	l.mu.Lock()
	free := l.free
	l.mu.Unlock()
	select {
	case <-free:
		return true
	case <-l.end:
		return false
	}
}

func (l *Line) join(in net.Conn) {
	l.mu.Lock()
	target := l.target
	l.mu.Unlock()
	out, err := net.Dial("tcp", target) //nolint:noctx // ends with either side
	if err != nil {
		_ = in.Close()
		return
	}
	closed := sync.OnceFunc(func() {
		_ = in.Close()
		_ = out.Close()
	})
	defer closed()
	var both sync.WaitGroup
	for _, pair := range [][2]net.Conn{{in, out}, {out, in}} {
		both.Go(func() {
			defer closed()
			l.copy(pair[1], pair[0])
		})
	}
	done := make(chan struct{})
	go func() {
		both.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-l.end:
		closed()
		<-done
	}
}

// copy passes bytes on until either side is gone.
func (l *Line) copy(to io.Writer, from io.Reader) {
	b := make([]byte, 32<<10)
	for {
		n, err := from.Read(b)
		if !l.passes() {
			return
		}
		if _, werr := to.Write(b[:n]); err != nil || werr != nil {
			return
		}
	}
}
