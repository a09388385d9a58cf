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
		srv := New(s, slog.New(slog.DiscardHandler)).newServer("test", nil, ServerOptions{FastPath: tt.option})
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

// TestMaxConnections: a connection beyond the limit is closed at once, those that
// are open are served on, and a place that becomes free is given to a new one.
func TestMaxConnections(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, s Settings) {
		t.Helper()
		const limit = 3
		s.MaxConnections = limit
		d, addr := listen(t, s, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }, ServerOptions{})
		dial := func() net.Conn {
			c, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = c.Close() })
			_ = c.SetDeadline(time.Now().Add(30 * time.Second))
			return c
		}
		served := func(c net.Conn) bool {
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
