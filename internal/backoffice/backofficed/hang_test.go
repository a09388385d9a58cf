package backofficed

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"melmastoon.ghasi.io/bff/internal/testkit"
)

// hang is a place that a process waits at. Release undoes it.
type hang struct {
	reached chan struct{}
	once    sync.Once
	release func()
	cut     func() // ends the connection that waits, and undoes the hang; nil = the process is killed
}

func newHang() *hang { return &hang{reached: make(chan struct{}), release: func() {}} }

func (h *hang) reach() { h.once.Do(func() { close(h.reached) }) }

func (d *doomed) hangAt(where string) *hang {
	switch where {
	case "iam before":
		return d.gate.hold(false, "/auth/refresh", "/auth/sign-out")
	case "iam after":
		return d.gate.hold(true, "/auth/refresh", "/auth/sign-out")
	default:
		return d.f.lockTable("outbox")
	}
}

// lockTable makes whatever writes into a table wait.
func (f *killedFleet) lockTable(name string) *hang {
	f.t.Helper()
	ctx, cancel := context.WithCancel(testkit.Context(f.t))
	tx, err := f.db.Begin(ctx)
	if err != nil {
		f.t.Fatal(err)
	}
	if _, err := tx.Exec(ctx, `SET LOCAL idle_in_transaction_session_timeout = 0`); err != nil {
		f.t.Fatal(err)
	}
	if _, err := tx.Exec(ctx, `LOCK TABLE bff_backoffice.`+name+` IN SHARE ROW EXCLUSIVE MODE`); err != nil {
		f.t.Fatal(err)
	}
	h, watched := newHang(), make(chan struct{})
	go func() {
		defer close(watched)
		for {
			var waiting bool
			err := f.db.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_locks WHERE relation = ('bff_backoffice.' || $1)::regclass AND NOT granted)`, name).Scan(&waiting)
			if err != nil {
				return
			}
			if waiting {
				h.reach()
				return
			}
		}
	}()
	h.release = func() {
		cancel()
		<-watched
		_ = tx.Rollback(context.Background()) // cancelled already is as good
	}
	return h
}

// cutTable is lockTable for a process that loses its connection instead of its life.
func (f *killedFleet) cutTable(name string) *hang {
	f.t.Helper()
	h := f.lockTable(name)
	h.cut = func() {
		f.counted(`SELECT count(pg_terminate_backend(pid)) FROM pg_locks WHERE relation = ('bff_backoffice.' || $1)::regclass AND NOT granted`, name)
		h.release()
	}
	return h
}

// gate stands between a process and what is behind it.
type gate struct {
	server *httptest.Server
	proxy  *httputil.ReverseProxy
	open   chan struct{} // closed at the end

	mu    sync.Mutex
	after bool
	hang  *hang
	paths []string // how the paths end that are held
}

func newGate(f *killedFleet) *gate {
	f.t.Helper()
	to, err := url.Parse(f.SimURL)
	if err != nil {
		f.t.Fatal(err)
	}
	g := &gate{proxy: httputil.NewSingleHostReverseProxy(to), open: make(chan struct{})}
	g.server = httptest.NewServer(g)
	return g
}

func (g *gate) close() {
	close(g.open)
	g.server.Close()
}

// hold lets no answer to a call of these paths through; with after, it was done by
// then.
func (g *gate) hold(after bool, paths ...string) *hang {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.after, g.hang, g.paths = after, newHang(), paths
	return g.hang
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	after, h, paths := g.after, g.hang, g.paths
	g.mu.Unlock()
	if h == nil || !slices.ContainsFunc(paths, func(end string) bool { return strings.HasSuffix(r.URL.Path, end) }) {
		g.proxy.ServeHTTP(w, r)
		return
	}
	if after {
		g.proxy.ServeHTTP(httptest.NewRecorder(), r)
	}
	h.reach()
	select {
	case <-g.open:
	case <-r.Context().Done():
	}
}

// valve stands between a process and its session tier.
type valve struct {
	ln     net.Listener
	redis  string // host and port
	url    string // of the valve
	prefix string // of the service's keys
	open   chan struct{}
	broken chan struct{} // closed when what was held is cut off
	served sync.WaitGroup

	mu   sync.Mutex
	left int    // commands that pass before the valve is shut
	at   string // counts commands about these keys alone; empty = those of sessions
	hang *hang
}

func newValve(f *killedFleet) *valve {
	f.t.Helper()
	u, err := url.Parse(f.RedisURL)
	if err != nil {
		f.t.Fatal(err)
	}
	v := &valve{redis: u.Host, prefix: f.Name + ":bff-backoffice:", open: make(chan struct{}), broken: make(chan struct{})}
	if v.ln, err = new(net.ListenConfig).Listen(f.t.Context(), "tcp", "127.0.0.1:0"); err != nil {
		f.t.Fatal(err)
	}
	u.Host = v.ln.Addr().String()
	v.url = u.String()
	v.served.Go(func() {
		for {
			c, err := v.ln.Accept()
			if err != nil {
				return
			}
			v.served.Go(func() { v.serve(c) })
		}
	})
	return v
}

func (v *valve) close() {
	_ = v.ln.Close()
	close(v.open)
	v.served.Wait()
}

// hold lets a number of commands about sessions through, and no more.
func (v *valve) hold(n int) *hang { return v.holdAt("", n) }

// holdAt is hold for commands about other keys.
func (v *valve) holdAt(keys string, n int) *hang {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.left, v.at, v.hang = n, keys, newHang()
	return v.hang
}

// cutAt is holdAt for a process that loses its connection instead of its life.
func (v *valve) cutAt(keys string) *hang {
	h := v.holdAt(keys, 0)
	h.cut = func() {
		v.mu.Lock()
		v.hang = nil
		v.mu.Unlock()
		close(v.broken)
	}
	return h
}

// passes reports whether a command may go on to Redis.
func (v *valve) passes(command []byte) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	names := []string{"dpop:", "session:", "revoked:", "standing:"}
	if v.at != "" {
		names = []string{v.at}
	}
	about := slices.ContainsFunc(names, func(name string) bool { return bytes.Contains(command, []byte(v.prefix+name)) })
	if v.hang == nil || !about {
		return true
	}
	if v.left == 0 {
		v.hang.reach()
		return false
	}
	v.left--
	return true
}

// serve passes one connection on, command by command, until its client is gone.
func (v *valve) serve(client net.Conn) {
	defer func() { _ = client.Close() }()
	server, err := new(net.Dialer).Dial("tcp", v.redis)
	if err != nil {
		return
	}
	answers := make(chan struct{})
	go func() {
		defer close(answers)
		_, _ = io.Copy(client, server) // until either is gone
	}()
	defer func() {
		_ = server.Close()
		<-answers
	}()
	in := bufio.NewReader(client)
	for {
		command, err := readCommand(in)
		if err != nil {
			return
		}
		if !v.passes(command) {
			select {
			case <-v.open:
			case <-v.broken:
			}
			return
		}
		if _, err := server.Write(command); err != nil {
			return
		}
	}
}

// readCommand reads an array of strings as it goes over the wire.
func readCommand(in *bufio.Reader) ([]byte, error) {
	size := func(line []byte) (int, error) { return strconv.Atoi(string(bytes.TrimSpace(line[1:]))) }
	command, err := in.ReadBytes('\n')
	if err != nil {
		return nil, err
	}
	n, err := size(command)
	if err != nil {
		return nil, err
	}
	for range n {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return nil, err
		}
		length, err := size(line)
		if err != nil {
			return nil, err
		}
		text := make([]byte, length+len("\r\n"))
		if _, err := io.ReadFull(in, text); err != nil {
			return nil, err
		}
		command = append(append(command, line...), text...)
	}
	return command, nil
}
