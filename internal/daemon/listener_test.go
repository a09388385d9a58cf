package daemon

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"
)

// bothWays runs a test on a listener with the fast path and on one where the
// setting switches it off.
func bothWays(t *testing.T, test func(t *testing.T, s Settings)) {
	t.Helper()
	for name, off := range map[string]bool{"fast path": false, "net/http": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := settings()
			s.NoFastPath = off
			test(t, s)
		})
	}
}

// listen runs a daemon with one listener and returns it with its address.
func listen(t *testing.T, s Settings, h http.HandlerFunc, opts ServerOptions) (d *Daemon, addr string) {
	t.Helper()
	d, addr, _ = listenUntil(t, s, h, opts)
	return d, addr
}

// listenUntil is listen with a function that tells the daemon to stop.
func listenUntil(t *testing.T, s Settings, h http.HandlerFunc, opts ServerOptions) (d *Daemon, addr string, stop func()) {
	t.Helper()
	var log reader
	d = New(s, slog.New(slog.NewJSONHandler(&log, nil)))
	opts.FastPath = true
	d.AddServer("test", "127.0.0.1:0", h, opts)
	var listening struct{ Address string }
	started := make(chan struct{})
	d.Add("started", func(context.Context) error {
		defer close(started)
		for lines := json.NewDecoder(strings.NewReader(log.read())); listening.Address == ""; {
			if err := lines.Decode(&listening); err != nil {
				return err
			}
		}
		return nil
	}, nil)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	<-started
	return d, listening.Address, cancel
}

// get sends a request; the answer's body is closed at the end of the test.
func get(t *testing.T, client *http.Client, url string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = res.Body.Close() })
	return res
}

// TestFastPathIsChosen: per listener, and for the whole process by one setting.
func TestFastPathIsChosen(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		option, off, want bool
	}{
		{option: true, off: false, want: true},
		{option: true, off: true, want: false},
		{option: false, off: false, want: false},
	} {
		s := settings()
		s.NoFastPath = tt.off
		srv := New(s, slog.New(slog.DiscardHandler)).newServer("test", nil, ServerOptions{FastPath: tt.option}, nil)
		if got := srv.FastPath(); got != tt.want {
			t.Errorf("option %v, switched off %v: fast path %v", tt.option, tt.off, got)
		}
	}
}

// TestPanicIsLogged: a panic that no handler recovered is an error in the log, once.
func TestPanicIsLogged(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	d := New(settings(), slog.New(slog.NewJSONHandler(&log, nil)))
	h := d.logPanics("public", http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("boom") }))
	func() {
		defer func() {
			if p := recover(); p != http.ErrAbortHandler { //nolint:errorlint // net/http compares it the same way
				t.Errorf("it goes on as %v: the server would log it again", p)
			}
		}()
		h.ServeHTTP(nil, new(http.Request))
	}()
	var line struct{ Level, Listener, Panic, Stack string }
	if err := json.Unmarshal(log.Bytes(), &line); err != nil {
		t.Fatal(err)
	}
	if line.Level != "ERROR" || line.Listener != "public" || line.Panic != "boom" || line.Stack == "" {
		t.Errorf("logged %+v", line)
	}
}

func TestServerSpeaksBothProtocols(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, s Settings) {
		t.Helper()
		_, addr := listen(t, s, func(w http.ResponseWriter, r *http.Request) { _, _ = fmt.Fprint(w, r.Proto) }, ServerOptions{WriteTimeout: time.Minute})
		for _, h2 := range []bool{false, true} {
			p := new(http.Protocols)
			p.SetHTTP1(!h2)
			p.SetUnencryptedHTTP2(h2)
			client := &http.Client{Transport: &http.Transport{Protocols: p}}
			t.Cleanup(client.CloseIdleConnections)
			if res := get(t, client, "http://"+addr); (res.ProtoMajor == 2) != h2 { //nolint:bodyclose // get closes it
				t.Errorf("asked with h2=%v, answered %s", h2, res.Proto)
			}
		}
	})
}

// TestStream: server-sent events arrive one by one, and all of them although each
// comes after the write timeout, if the handler extends it.
func TestStream(t *testing.T) {
	t.Parallel()
	const events = 40
	bothWays(t, func(t *testing.T, s Settings) {
		t.Helper()
		received, cut := make(chan struct{}), make(chan error, 8) // the client may try again
		_, addr := listen(t, s, func(w http.ResponseWriter, r *http.Request) {
			rc := http.NewResponseController(w)
			w.Header().Set("Content-Type", "text/event-stream")
			for i := range events {
				if r.URL.Path == "/extended" {
					if err := rc.SetWriteDeadline(time.Now().Add(time.Minute)); err != nil {
						t.Error(err)
					}
				}
				_, _ = fmt.Fprintf(w, "data: %d\n\n", i)
				if err := rc.Flush(); err != nil {
					cut <- err
					return
				}
				<-received
			}
		}, ServerOptions{WriteTimeout: time.Nanosecond})
		client := &http.Client{Transport: &http.Transport{}}
		t.Cleanup(client.CloseIdleConnections)
		res := get(t, client, "http://"+addr+"/extended") //nolint:bodyclose // get closes it
		lines := bufio.NewScanner(res.Body)
		for i := range events {
			if !lines.Scan() || lines.Text() != fmt.Sprintf("data: %d", i) || !lines.Scan() {
				t.Fatalf("event %d: %q, %v", i, lines.Text(), lines.Err())
			}
			received <- struct{}{} // the next event is written only now
		}
		if lines.Scan() || lines.Err() != nil {
			t.Errorf("after the last event: %q, %v", lines.Text(), lines.Err())
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr+"/cut", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if res, err := client.Do(req); err == nil {
			_ = res.Body.Close()
			t.Error("the write timeout did not end a stream that did not extend it")
		}
		if err := <-cut; !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("the stream ended with %v", err)
		}
	})
}

// dialFrom opens a connection from an address of this machine.
func dialFrom(t *testing.T, local, addr string) net.Conn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(local)}}
	c, err := d.DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(30 * time.Second))
	return c
}

// served reports whether a request is answered.
func served(c net.Conn) bool {
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: h\r\n\r\n"); err != nil {
		return false
	}
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return false
	}
	_ = res.Body.Close()
	return res.StatusCode == http.StatusOK
}

// TestShareOfAnAddress: one that holds its share is refused while others are served,
// gets a place when it gives one back, and a trusted proxy may have all there are.
func TestShareOfAnAddress(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, s Settings) {
		t.Helper()
		const greedy, other, proxy = "127.0.0.2", "127.0.0.3", "127.0.0.4"
		s.MaxConnections, s.MaxConnectionsPerAddress = 8, 2
		_, addr := listen(t, s, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") },
			ServerOptions{Trusted: []netip.Prefix{netip.MustParsePrefix(proxy + "/32")}})
		var held []net.Conn
		for range s.MaxConnectionsPerAddress {
			c := dialFrom(t, greedy, addr)
			if !served(c) {
				t.Fatal("refused below its share")
			}
			held = append(held, c)
		}
		if served(dialFrom(t, greedy, addr)) {
			t.Error("served beyond its share")
		}
		if !served(dialFrom(t, other, addr)) {
			t.Error("another address pays for it")
		}
		for range s.MaxConnections - s.MaxConnectionsPerAddress - 1 {
			if !served(dialFrom(t, proxy, addr)) {
				t.Error("a trusted proxy has no more than a share")
			}
		}
		if served(dialFrom(t, proxy, addr)) {
			t.Error("a trusted proxy has more than the listener")
		}
		_ = held[0].Close()
		for !served(dialFrom(t, greedy, addr)) { // the server has yet to notice
			if t.Context().Err() != nil {
				t.Fatal("a free place is not given away")
			}
		}
	})
}

// TestShares: what an address may hold by default, and who is one.
func TestShares(t *testing.T) {
	t.Parallel()
	for limit, want := range map[int]int{10_000: 1000, 300: 64, 100: 50, 3: 2, 1: 1} {
		s := settings()
		s.MaxConnections, s.MaxConnectionsPerAddress = limit, 0
		l := New(s, slog.New(slog.DiscardHandler)).connectionLimit("test", ServerOptions{})
		if l.share != want {
			t.Errorf("of %d connections one address has %d, want %d", limit, l.share, want)
		}
		l.open.Store(int64(limit))
		if !l.crowded() {
			t.Errorf("all %d are taken, and it is not crowded", limit)
		}
		if l.open.Store(int64(limit / 2)); l.crowded() {
			t.Errorf("half of %d are taken, and it is crowded", limit)
		}
	}
	l := &limitedListener{trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("::ffff:192.0.2.0/120")}}
	for peer, want := range map[string]string{
		"203.0.113.7":            "203.0.113.7",
		"::ffff:203.0.113.7":     "203.0.113.7",
		"2001:db8:1:2:3:4:5:6":   "2001:db8:1:2::",
		"2001:db8:1:2:ffff::%lo": "2001:db8:1:2::",
		"10.1.2.3":               "",
		"::ffff:10.1.2.3":        "",
		"192.0.2.9":              "",
	} {
		of, counts := l.holder(net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(peer), 80)))
		if counts != (want != "") || counts && of.String() != want {
			t.Errorf("%s counts %v as %s, want %q", peer, counts, of, want)
		}
	}
}

// TestMaxConnections: a connection beyond the limit is closed at once, those that
// are open are served on, and a place that becomes free is given to a new one.
func TestMaxConnections(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, s Settings) {
		t.Helper()
		const limit = 3
		s.MaxConnections, s.MaxConnectionsPerAddress = limit, limit
		d, addr := listen(t, s, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }, ServerOptions{})
		dial := func() net.Conn { return dialFrom(t, "127.0.0.1", addr) }
		var open []net.Conn
		for range limit {
			c := dial()
			if !served(c) {
				t.Fatal("refused below the limit")
			}
			open = append(open, c)
		}
		if served(dial()) {
			t.Error("served beyond the limit")
		}
		for _, c := range open {
			if !served(c) {
				t.Error("an open connection suffered")
			}
		}
		families, err := d.Metrics.Gather()
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]float64{}
		for _, f := range families {
			m := f.GetMetric()[0]
			got[f.GetName()] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
		if got["listener_connections"] != limit || got["listener_connections_refused_total"] != 1 {
			t.Errorf("%v open and %v refused, want %d and 1", got["listener_connections"], got["listener_connections_refused_total"], limit)
		}
		_ = open[0].Close()
		for !served(dial()) { // the server has yet to notice
			if t.Context().Err() != nil {
				t.Fatal("a free place is not given away")
			}
		}
	})
}
