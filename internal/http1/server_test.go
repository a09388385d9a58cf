package http1

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// served is a Server on a free port.
type served struct {
	*Server
	t    *testing.T
	addr string
	done chan error
}

func serve(t *testing.T, h http.HandlerFunc, change func(*http.Server)) *served {
	t.Helper()
	return serveWith(t, h, change, Options{})
}

func serveWith(t *testing.T, h http.HandlerFunc, change func(*http.Server), opts Options) *served {
	t.Helper()
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	std := &http.Server{
		Handler: h, Protocols: protocols, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug),
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 15 * time.Second, WriteTimeout: 15 * time.Second, IdleTimeout: time.Minute,
	}
	if change != nil {
		change(std)
	}
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &served{Server: New(std, opts), t: t, addr: ln.Addr().String(), done: make(chan error, 1)}
	go func() { s.done <- s.Serve(ln) }()
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := <-s.done; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("served until %v", err)
		}
	})
	return s
}

// ours reports whether a request is served by this package, not by net/http.
func ours(r *http.Request) bool {
	_, ok := r.Context().(*requestContext)
	return ok
}

// dial opens a connection that gives up after a while.
func (s *served) dial() net.Conn {
	s.t.Helper()
	c, err := new(net.Dialer).DialContext(s.t.Context(), "tcp", s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := c.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = c.Close() })
	return c
}

// reply is an answer as a client sees it.
type reply struct {
	status   int
	header   http.Header
	length   int64
	encoding []string // of the transfer
	closed   bool
	body     string
}

// say sends text and reads the answers, one for each method.
func (s *served) say(text string, methods ...string) []reply {
	s.t.Helper()
	c := s.dial()
	if _, err := io.WriteString(c, text); err != nil {
		s.t.Fatal(err)
	}
	return s.hear(bufio.NewReader(c), methods...)
}

func (s *served) hear(r *bufio.Reader, methods ...string) (all []reply) {
	s.t.Helper()
	for _, m := range methods {
		res, err := http.ReadResponse(r, &http.Request{Method: m})
		if err != nil {
			s.t.Fatalf("answer %d: %v", len(all), err)
		}
		body, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil {
			s.t.Fatal(err)
		}
		all = append(all, reply{res.StatusCode, res.Header, res.ContentLength, res.TransferEncoding, res.Close, string(body)})
	}
	return all
}

// TestDelegation: which requests are served here and which by net/http; both give
// the same answer.
func TestDelegation(t *testing.T) {
	t.Parallel()
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		_, _ = fmt.Fprintf(w, "%v %s %s %q", ours(r), r.Method, r.URL, body)
	}, nil)
	long := strings.Repeat("x", maxRequest)
	for _, tt := range []struct {
		name, text string
		want       string
	}{
		{"get", "GET /a?b=c HTTP/1.1\r\nHost: h\r\n\r\n", `true GET /a?b=c ""`},
		{"names in any case", "GET / HTTP/1.1\r\nhOST: h\r\nx-SomeThing:1\r\n\r\n", `true GET / ""`},
		{"post", "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc", `true POST /a "abc"`},
		{"escapes", "GET /a%20b/%D8%A7?q=%41 HTTP/1.1\r\nHost: h\r\n\r\n", `true GET /a%20b/%D8%A7?q=%41 ""`},
		{"kept alive", "GET / HTTP/1.1\r\nHost: h\r\nConnection: Keep-Alive\r\n\r\n", `true GET / ""`},
		{"close", "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", `false GET / ""`},
		{"old", "GET / HTTP/1.0\r\nHost: h\r\n\r\n", `false GET / ""`},
		{"chunked", "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", `false POST / "abc"`},
		{"expects", "POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc", `false POST / "abc"`},
		{"absolute", "GET http://h/x HTTP/1.1\r\nHost: h\r\n\r\n", `false GET http://h/x ""`},
		{"bare line feeds", "GET / HTTP/1.1\nHost: h\n\n", `false GET / ""`},
		{"some bare line feeds", "GET / HTTP/1.1\r\nHost: h\n\r\n", `false GET / ""`},
		{"large body", fmt.Sprintf("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n%s", len(long), long), `false POST / "` + long + `"`},
		{"long head", "GET / HTTP/1.1\r\nHost: h\r\nX: " + long + "\r\n\r\n", `false GET / ""`},
		{"another method", "PROPFIND / HTTP/1.1\r\nHost: h\r\n\r\n", `false PROPFIND / ""`},
		{"two paths", "GET //a HTTP/1.1\r\nHost: h\r\n\r\n", `false GET //a ""`},
		{"pragma", "GET / HTTP/1.1\r\nHost: h\r\nPragma: no-cache\r\n\r\n", `false GET / ""`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := *s
			s.t = t
			c := s.dial()
			if _, err := io.WriteString(c, tt.text); err != nil {
				t.Fatal(err)
			}
			r := bufio.NewReader(c)
			res := s.hear(r, http.MethodGet)[0]
			if res.status == http.StatusContinue {
				res = s.hear(r, http.MethodGet)[0]
			}
			if got := res.body; got != tt.want {
				t.Errorf("got %.200q, want %.200q", got, tt.want)
			}
		})
	}
}

// TestMalformed: requests that net/http refuses are left to it.
func TestMalformed(t *testing.T) {
	t.Parallel()
	s := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("was asked") }, nil)
	for _, text := range []string{
		"GET / HTTP/1.1\r\n\r\n",                                                                    // no host
		"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",                                              // two
		"GET / HTTP/1.1\r\nHost: a b\r\n\r\n",                                                       //
		"GET / HTTP/1.1\r\nHost: h\r\nBad Name: x\r\n\r\n",                                          //
		"GET / HTTP/1.1\r\nHost: h\r\nNothing\r\n\r\n",                                              //
		"GET / HTTP/1.1\r\nHost: h\r\nX: a\x00b\r\n\r\n",                                            //
		"GET / HTTP/1.1\r\nHost: h\r\nX : 1\r\n\r\n",                                                // smuggling: a name with a space
		"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: -1\r\n\r\n",                                  //
		"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: +3\r\n\r\nabc",                               //
		"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",          // smuggling: two lengths
		"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3, 3\r\n\r\nabc",                             //
		"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: xchunked\r\nContent-Length: 3\r\n\r\nabc", // smuggling: a coding that only one of two knows
		"GET /a b HTTP/1.1\r\nHost: h\r\n\r\n",                                                      //
		"GET /%zz HTTP/1.1\r\nHost: h\r\n\r\n",                                                      //
		"\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n",                                                     //
	} {
		if res := s.say(text, http.MethodGet); res[0].status < 400 || !res[0].closed {
			t.Errorf("%q: %d, closed %v", text, res[0].status, res[0].closed)
		}
	}
}

// TestPipeline: requests that arrive together, or in pieces, are answered one
// after the other; one of net/http's takes the rest along.
func TestPipeline(t *testing.T) {
	t.Parallel()
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, _ = fmt.Fprintf(w, "%v%s%s", ours(r), r.URL.Path, body)
	}, nil)
	all := "GET /1 HTTP/1.1\r\nHost: h\r\n\r\nPOST /2 HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nabHEAD /3 HTTP/1.1\r\nHost: h\r\n\r\n" +
		"POST /4 HTTP/1.1\r\nHost: h\r\nTE: trailers\r\nContent-Length: 1\r\n\r\nxGET /5 HTTP/1.1\r\nHost: h\r\n\r\n"
	want := []string{"true/1", "true/2ab", "", "false/4x", "false/5"}
	for _, step := range []int{len(all), 1, 7} {
		c := s.dial()
		go func() {
			for rest := all; rest != ""; {
				n := min(step, len(rest))
				if _, err := io.WriteString(c, rest[:n]); err != nil {
					t.Error(err)
				}
				rest = rest[n:]
			}
		}()
		for i, res := range s.hear(bufio.NewReader(c), "GET", "POST", "HEAD", "POST", "GET") {
			if got := res.body; got != want[i] {
				t.Errorf("in steps of %d: answer %d is %q", step, i, got)
			}
		}
	}
}

// TestShort: an answer that ends before its length ends the connection, and so
// does a panic.
func TestShort(t *testing.T) {
	t.Parallel()
	for name, handle := range map[string]http.HandlerFunc{
		"short": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "10")
			_, _ = io.WriteString(w, "abc")
		},
		"panic": func(http.ResponseWriter, *http.Request) { panic("p") },
		"abort": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "10")
			_, _ = io.WriteString(w, "abc")
			panic(http.ErrAbortHandler)
		},
	} {
		s := serve(t, handle, nil)
		c := s.dial()
		if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: h\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if rest, err := io.ReadAll(c); err != nil || len(rest) > 0 && !bytes.HasSuffix(rest, []byte("\r\n\r\nabc")) {
			t.Errorf("%s: %q, %v", name, rest, err)
		}
	}
}

// TestLateWriter: a ResponseWriter that is kept beyond its request does not reach
// the next answer.
func TestLateWriter(t *testing.T) {
	t.Parallel()
	var kept http.ResponseWriter
	var body io.Reader
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if kept == nil {
			kept, body = w, r.Body
			return
		}
		kept.Header().Set("X-Secret", "s")
		if _, err := kept.Write([]byte("secret")); err == nil {
			t.Error("a late write went through")
		}
		if n, err := body.Read(make([]byte, 9)); n > 0 || err == nil {
			t.Error("a late read went through")
		}
		_, _ = io.WriteString(w, "mine")
	}, nil)
	all := s.say("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 6\r\n\r\nhiddenPOST / HTTP/1.1\r\nHost: h\r\nContent-Length: 6\r\n\r\nothers", "POST", "POST")
	if got := all[1]; got.body != "mine" || got.header.Get("X-Secret") != "" {
		t.Errorf("got %+v", got)
	}
}

// TestContext: it ends when the client leaves and when the answer is given, and a
// request that is already there does not look like a client that leaves.
func TestContext(t *testing.T) {
	t.Parallel()
	contexts := make(chan context.Context, 3)
	release := make(chan struct{})
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		if r.Context().Value(http.LocalAddrContextKey).(net.Addr).String() == "" || r.Context().Value(http.ServerContextKey) == nil {
			t.Error("the context does not know its server")
		}
		contexts <- ctx
		select {
		case <-ctx.Done():
		case <-release:
		}
		_, _ = io.WriteString(w, r.URL.Path)
	}, nil)
	c := s.dial()
	if _, err := io.WriteString(c, "GET /1 HTTP/1.1\r\nHost: h\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	first := <-contexts
	if _, err := io.WriteString(c, "GET /2 HTTP/1.1\r\nHost: h\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if first.Err() != nil {
		t.Error("the next request ended the first one's context")
	}
	release <- struct{}{}
	second := <-contexts
	<-first.Done()
	r := bufio.NewReader(c)
	if got := s.hear(r, "GET")[0].body; got != "/1" {
		t.Errorf("got %q", got)
	}
	_ = c.Close()
	<-second.Done() // or the test waits for ever
}

// TestShutdown: requests that have begun are answered, idle connections are closed
// and new ones are not accepted.
func TestShutdown(t *testing.T) {
	t.Parallel()
	begun, release := make(chan struct{}), make(chan struct{})
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			begun <- struct{}{}
			<-release
		}
		_, _ = io.WriteString(w, "done")
	}, nil)
	idle, slow, elsewhere, half := s.dial(), s.dial(), s.dial(), s.dial()
	for c, text := range map[net.Conn]string{
		idle: "GET / HTTP/1.1\r\nHost: h\r\n\r\n", slow: "GET /slow HTTP/1.1\r\nHost: h\r\n\r\n", elsewhere: "GET http://h/slow HTTP/1.1\r\nHost: h\r\n\r\n",
		half: "GET /half HTTP/1.1\r\nHo",
	} {
		if _, err := io.WriteString(c, text); err != nil {
			t.Fatal(err)
		}
	}
	idleReader := bufio.NewReader(idle)
	s.hear(idleReader, "GET")
	<-begun
	<-begun
	for tick := time.NewTicker(time.Millisecond); s.begun() < 2; { // the slow one and the half one
		<-tick.C
	}
	stopped := make(chan error, 1)
	go func() { stopped <- s.Shutdown(context.WithoutCancel(t.Context())) }()
	if _, err := idleReader.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("the idle connection: %v", err)
	}
	if _, err := io.WriteString(half, "st: h\r\n\r\n"); err != nil {
		t.Error(err)
	}
	close(release)
	for _, c := range []net.Conn{slow, elsewhere, half} {
		res := s.hear(bufio.NewReader(c), "GET")[0]
		if res.body != "done" || !res.closed {
			t.Errorf("got %q, close %v", res.body, res.closed)
		}
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if c, err := new(net.Dialer).DialContext(t.Context(), "tcp", s.addr); err == nil {
		_ = c.Close()
		t.Error("it still takes connections")
	}
}

// begun counts the connections on which a request is under way.
func (s *served) begun() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		if c, ok := c.(*conn); ok && c.state.Load() == stateActive {
			n++
		}
	}
	return n
}

// TestDeadlines: a connection is closed when a request does not begin or does not
// go on in time.
func TestDeadlines(t *testing.T) {
	t.Parallel()
	for _, begin := range []string{"", "GET / HT", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nabc"} {
		s := serve(t, func(http.ResponseWriter, *http.Request) {}, func(std *http.Server) {
			std.IdleTimeout, std.ReadHeaderTimeout, std.ReadTimeout = time.Millisecond, time.Millisecond, time.Millisecond
		})
		c := s.dial()
		if _, err := io.WriteString(c, begin); err != nil {
			t.Fatal(err)
		}
		// Reset, if the timeout came before the bytes were read.
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("%q: %v", begin, err)
		}
	}
}

// TestHTTP2: cleartext HTTP/2 is served by net/http.
func TestHTTP2(t *testing.T) {
	t.Parallel()
	s := serve(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Proto) }, nil)
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: protocols}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.addr, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	res, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if got, err := io.ReadAll(res.Body); err != nil || string(got) != "HTTP/2.0" {
		t.Errorf("got %q, %v", got, err)
	}
}

// TestManyClients sends many requests of the standard client at once.
func TestManyClients(t *testing.T) {
	t.Parallel()
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, _ = fmt.Fprintf(w, "%s %s", r.Header.Get("X-Who"), body)
	}, nil)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}}
	defer client.CloseIdleConnections()
	var wg sync.WaitGroup
	for who := range 16 {
		wg.Go(func() {
			for i := range 100 {
				body := strings.Repeat("b", who*i*10) // some of them are net/http's
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+s.addr+"/", strings.NewReader(body))
				if err != nil {
					t.Error(err)
					return
				}
				req.Header.Set("X-Who", fmt.Sprint(who, i))
				res, err := client.Do(req)
				if err != nil {
					t.Error(err)
					return
				}
				got, err := io.ReadAll(res.Body)
				if err != nil || string(got) != fmt.Sprintf("%d %d %s", who, i, body) {
					t.Errorf("got %.100q, %v", got, err)
				}
				_ = res.Body.Close()
			}
		})
	}
	wg.Wait()
}

// TestIdleInACrowd: while connections are scarce an idle one is closed soon, whichever
// parser serves it and however long it was allowed before.
func TestIdleInACrowd(t *testing.T) {
	t.Parallel()
	for _, opts := range []Options{{}, {NoFastPath: true}} {
		var crowd atomic.Bool
		opts.Crowded, opts.CrowdedIdle = crowd.Load, time.Millisecond
		s := serveWith(t, func(http.ResponseWriter, *http.Request) {}, func(std *http.Server) {
			std.IdleTimeout, std.ReadHeaderTimeout, std.ReadTimeout = time.Hour, time.Hour, time.Hour
		}, opts)
		c := s.dial()
		r := bufio.NewReader(c)
		ask := func() {
			t.Helper()
			if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: h\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			if res := s.hear(r, "GET"); res[0].status != http.StatusOK || res[0].closed {
				t.Fatalf("%+v", res)
			}
		}
		ask()
		ask() // it is kept
		crowd.Store(true)
		ask()
		if _, err := r.ReadByte(); !errors.Is(err, io.EOF) { // the deadline of the test is nearer than the hour
			t.Errorf("fast path %v: kept, until %v", s.FastPath(), err)
		}
	}
}
