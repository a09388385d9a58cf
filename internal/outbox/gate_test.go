package outbox_test

import (
	"context"
	"io"
	"net"
	"sync"
	"testing"
)

// gate is a TCP proxy that can be shut: a server that goes away and comes back
// without losing what it holds.
type gate struct {
	addr   string
	to     string
	mu     sync.Mutex
	closed bool
	conns  map[net.Conn]bool
}

func newGate(t testing.TB, to string) *gate {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{addr: l.Addr().String(), to: to, conns: map[net.Conn]bool{}}
	var wg sync.WaitGroup
	t.Cleanup(func() {
		_ = l.Close()
		g.shut()
		wg.Wait()
	})
	wg.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { g.carry(in) })
		}
	})
	return g
}

func (g *gate) carry(in net.Conn) {
	defer func() { _ = in.Close() }()
	out, err := new(net.Dialer).DialContext(context.Background(), "tcp", g.to)
	if err != nil {
		return
	}
	defer func() { _ = out.Close() }()
	g.mu.Lock()
	if g.closed {
		g.mu.Unlock()
		return
	}
	g.conns[in], g.conns[out] = true, true
	g.mu.Unlock()
	var wg sync.WaitGroup
	for _, pair := range [][2]net.Conn{{in, out}, {out, in}} {
		wg.Go(func() {
			_, _ = io.Copy(pair[0], pair[1])
			_ = pair[0].Close()
			_ = pair[1].Close()
		})
	}
	wg.Wait()
	g.mu.Lock()
	delete(g.conns, in)
	delete(g.conns, out)
	g.mu.Unlock()
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	for c := range g.conns {
		_ = c.Close()
	}
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = false
}
