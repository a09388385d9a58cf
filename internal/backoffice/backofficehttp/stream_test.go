package backofficehttp_test

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficestore"
	"melmastoon.ghasi.io/bff/internal/backoffice/identity"
	"melmastoon.ghasi.io/bff/internal/backoffice/stream"
	"melmastoon.ghasi.io/bff/internal/http1"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

// streams are the open streams of an instance and what tells them.
type streams struct {
	*stream.Streams
	log     *backofficestore.StreamLog
	notices *stream.Notifier
}

// follow starts the streams of an instance. Time passes for them when a test says so.
func (f *front) follow(sessions *backofficestore.Sessions) *streams {
	log := backofficestore.NewStreamLog(sessions)
	s := &streams{stream.NewStreams(log, 1<<20, 1<<20), log, stream.NewNotifier(sessions, f.staff, log)}
	f.streams = append(f.streams, s)
	ctx, stop := context.WithCancel(context.Background())
	var loops sync.WaitGroup
	loops.Go(func() { _ = s.log.Run(ctx, s) }) // both end with the context
	loops.Go(func() { _ = s.Work(ctx) })
	f.tb.Cleanup(func() {
		stop()
		loops.Wait()
	})
	return s
}

// ping has every stream of an instance compared with its log.
func (f *front) ping(instance int) {
	for range 15 {
		f.streams[instance].Tick(f.clock())
	}
}

// listen serves an instance over TCP and returns its URL.
func (f *front) listen(instance int, opts http1.Options) string {
	f.tb.Helper()
	// Small buffers: a client that reads nothing is found out soon.
	ln, err := (&net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { _ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_SNDBUF, 16<<10) })
	}}).Listen(f.tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		f.tb.Fatal(err)
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	s := http1.New(&http.Server{Handler: f.instances[instance], Protocols: protocols, ReadHeaderTimeout: time.Minute}, opts)
	var done sync.WaitGroup
	done.Go(func() { _ = s.Serve(ln) }) // ends with Close
	f.tb.Cleanup(func() {
		f.streams[instance].Drain(1 << 20)
		_ = s.Close()
		done.Wait()
	})
	return "http://" + ln.Addr().String()
}

// event is what a client reads.
type event struct{ id, name, data string }

// listener is a client's open stream.
type listener struct {
	t      testing.TB
	body   io.ReadCloser
	events chan event // closed at the end
	clean  chan error
}

// stream opens a stream at a server.
func (s *sender) stream(url, last string) *listener {
	s.f.tb.Helper()
	l, status, _ := s.tryStream(new(http.Transport), url, last)
	if l == nil {
		s.f.tb.Fatalf("stream: %d", status)
	}
	return l
}

// tryStream returns the status and headers of a refusal, too.
func (s *sender) tryStream(by http.RoundTripper, url, last string) (*listener, int, http.Header) {
	t := s.f.tb
	t.Helper()
	r := s.request(http.MethodGet, base+"/sse/stream", "")
	req, err := http.NewRequestWithContext(testkit.Context(t), r.method, url+r.path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header = r.header
	req.Header.Set("Dpop", s.f.prove(r))
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	res, err := by.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = res.Body.Close() })
	if res.StatusCode != http.StatusOK {
		return nil, res.StatusCode, res.Header
	}
	l := &listener{t: t, body: res.Body, events: make(chan event, 4096), clean: make(chan error, 1)}
	go l.read()
	return l, res.StatusCode, res.Header
}

func (l *listener) read() {
	defer close(l.events)
	var e event
	lines := bufio.NewScanner(l.body)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		switch name {
		case "id":
			e.id = value
		case "event":
			e.name = value
		case "data":
			e.data = value
		case "":
			if e.name != "" {
				l.events <- e
			}
			e = event{}
		}
	}
	l.clean <- lines.Err()
}

// next is the next event; its name is "" after the last.
func (l *listener) next() event {
	l.t.Helper()
	select {
	case e := <-l.events:
		return e
	case <-testkit.Context(l.t).Done():
		l.t.Fatal("no event came")
		return event{}
	}
}

// until reads up to an event of a name and returns it.
func (l *listener) until(name string) event {
	l.t.Helper()
	for {
		e := l.next()
		if e.name == name {
			return e
		}
		if e.name == "" {
			l.t.Fatalf("the stream ended before %q", name)
		}
	}
}

// end reads to the end, which must be a clean one, and returns the last event.
func (l *listener) end() event {
	l.t.Helper()
	var last event
	for e := l.next(); e.name != ""; e = l.next() {
		last = e
	}
	if err := <-l.clean; err != nil {
		l.t.Errorf("the stream did not end cleanly: %v", err)
	}
	return last
}

// tell notifies the tenant through an instance.
func (f *front) tell(instance int, n backoffice.Notice) {
	f.tb.Helper()
	n.Tenant, n.At = f.tenant, f.clock()
	n.Type = cmp.Or(n.Type, "changed")
	if err := f.streams[instance].notices.Notify(testkit.Context(f.tb), n); err != nil {
		f.tb.Fatal(err)
	}
}

func number(n string) json.RawMessage { return json.RawMessage(`{"n":` + n + `}`) }

// TestStreamAcrossInstances: a stream at one instance hears what happens at the other,
// resumes there after its own was killed, misses nothing, and ends with a newer one of the
// device and with its session, wherever that was ended.
func TestStreamAcrossInstances(t *testing.T) {
	t.Parallel()
	f := newFront(t, frontConfig{instances: 2})
	one, two := f.listen(0, http1.Options{}), f.listen(1, http1.Options{})
	s := f.sender("opt_parwana")
	l := s.stream(one, "")
	if e := l.next(); e.name != "ready" || !strings.Contains(e.data, `"alerts":"`) {
		t.Fatalf("first event %+v", e)
	}
	f.tell(1, backoffice.Notice{
		Channel: backoffice.ChannelAlerts, Type: "alert.raised", Property: bff.MustParseID(bff.PrefixProperty, house), CausedBy: "req_1", Data: number("1"),
	})
	e := l.next()
	if want := `"type":"alert.raised"`; e.name != "alerts" || !strings.Contains(e.data, want) || !strings.Contains(e.data, `"causedBy":"req_1"`) {
		t.Fatalf("event %+v", e)
	}
	_ = l.body.Close() // the connection is gone; nothing is told to the server
	for _, n := range []string{"2", "3"} {
		f.tell(0, backoffice.Notice{Channel: backoffice.ChannelLocks, Data: number(n)})
	}
	resumed := s.stream(two, e.id)
	for _, n := range []string{"2", "3"} {
		if e := resumed.next(); e.name != "locks" || !strings.Contains(e.data, string(number(n))) {
			t.Errorf("replayed %+v, want %s", e, n)
		}
	}
	if e := resumed.next(); e.name != "ready" {
		t.Errorf("after the replay %+v", e)
	}
	f.ping(1)
	ping := resumed.until("ping")
	var doc struct{ Heads map[string]string }
	if err := json.Unmarshal([]byte(ping.data), &doc); err != nil || len(doc.Heads) != len(backoffice.Channels()) {
		t.Errorf("ping %+v: %v", ping, err)
	}
	newest := s.stream(one, "") // of a device, wherever it is
	if e := resumed.end(); e.name != "superseded" {
		t.Errorf("the stream before ended with %+v", e)
	}
	newest.until("ready")
	if err := f.accesses[1].Revoke(testkit.Context(t), identity.Revocation{
		Tenant: f.tenant, Operator: "opt_parwana", Reason: "lost laptop", At: f.clock(),
	}, backoffice.Occasion{}, f.clock()); err != nil {
		t.Fatal(err)
	}
	if e := newest.end(); e.name != "session" || !strings.Contains(e.data, backoffice.SessionRevoked) {
		t.Errorf("after a forced logout: %+v", e)
	}
}

// HEAD is no way to open a stream, and takes nothing from the one that is open.
func TestStreamHasNoHead(t *testing.T) {
	t.Parallel()
	f := newFront(t, frontConfig{})
	url := f.listen(0, http1.Options{})
	s := f.sender("opt_parwana")
	l := s.stream(url, "")
	l.until("ready")
	if w := s.from(0, http.MethodHead, "/sse/stream", ""); w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "GET" {
		t.Errorf("%d, Allow %q", w.Code, w.Header().Get("Allow"))
	}
	f.tell(0, backoffice.Notice{Channel: backoffice.ChannelLocks, Data: number("1")})
	if e := l.next(); e.name != "locks" {
		t.Errorf("told %+v", e)
	}
}

// TestStreamNamesGaps: after a flush and after a trim the client is told what to fetch.
func TestStreamNamesGaps(t *testing.T) {
	t.Parallel()
	f := newFront(t, frontConfig{})
	url := f.listen(0, http1.Options{})
	s := f.sender("opt_parwana")
	l := s.stream(url, "")
	first := l.until("ready")
	_ = l.body.Close()
	for range 200 { // more than a log keeps
		f.tell(0, backoffice.Notice{Channel: backoffice.ChannelAI})
	}
	l = s.stream(url, first.id)
	if e := l.next(); e.name != "gap" || e.data != `{"channels":["ai"]}` {
		t.Errorf("after a trim: %+v", e)
	}
	position := l.until("ready")

	ctx := testkit.Context(t)
	names, err := f.client.Do(ctx, f.client.B().Keys().Pattern(f.prefix+":*").Build()).AsStrSlice()
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	if err := f.client.Do(ctx, f.client.B().Del().Key(names...).Build()).Error(); err != nil {
		t.Fatal(err)
	}
	all := `{"channels":["ai","alerts","sync","locks","session","dashboard"]}`
	f.ping(0)
	if e := l.end(); e.name != "gap" || e.data != all {
		t.Errorf("after a flush: %+v", e)
	}
	l = s.stream(url, position.id)
	if e := l.next(); e.name != "gap" || e.data != all {
		t.Errorf("resumed after a flush: %+v", e)
	}
	for _, nonsense := range []string{"x", "99999999999999-1", "0-0", "1-"} {
		l = s.stream(url, nonsense)
		if e := l.next(); e.name != "gap" || e.data != all {
			t.Errorf("%s: %+v", nonsense, e)
		}
	}
}

// TestReauth: a stream is asked for a fresh proof before its token ends, which may
// reach another instance; without one it ends cleanly and can be resumed.
func TestReauth(t *testing.T) {
	t.Parallel()
	f := newFront(t, frontConfig{instances: 2})
	url := f.listen(0, http1.Options{})
	s := f.sender("opt_parwana")
	l := s.stream(url, "")
	position := l.until("ready")
	f.advance(identity.TokenLifetime - time.Minute)
	f.streams[0].Tick(f.clock())
	l.until("reauth")
	fresh := f.senderAt("opt_parwana", s.device)
	if w := fresh.from(1, http.MethodPost, "/sse/reauth", ""); w.Code != http.StatusNoContent {
		t.Fatalf("reauth: %d %s", w.Code, w.Body)
	}
	f.tell(1, backoffice.Notice{Channel: backoffice.ChannelAI}) // heard after the proof
	l.until("ai")
	f.advance(2 * time.Minute)
	f.streams[0].Tick(f.clock())
	f.tell(1, backoffice.Notice{Channel: backoffice.ChannelAI, Data: number("2")})
	if e := l.until("ai"); !strings.Contains(e.data, string(number("2"))) {
		t.Errorf("after a fresh proof: %+v", e)
	}
	f.advance(identity.TokenLifetime)
	f.streams[0].Tick(f.clock())
	if e := l.end(); e.name != "end" {
		t.Errorf("without a fresh proof: %+v", e)
	}
	again := f.senderAt("opt_parwana", s.device).stream(url, position.id)
	if e := again.next(); e.name != "ai" {
		t.Errorf("resumed with %+v", e)
	}
}

// TestStalledReader: a client that reads nothing is disconnected, and no other one waits for it.
func TestStalledReader(t *testing.T) {
	t.Parallel()
	f := newFront(t, frontConfig{})
	url := f.listen(0, http1.Options{})
	stalled := f.sender("opt_parwana")
	r := stalled.request(http.MethodGet, base+"/sse/stream", "")
	nc, err := new(net.Dialer).DialContext(testkit.Context(t), "tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = nc.Close() }()
	req, err := http.NewRequestWithContext(t.Context(), r.method, url+r.path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header = r.header
	req.Header.Set("Dpop", f.prove(r))
	if err := req.Write(nc); err != nil {
		t.Fatal(err)
	}
	if _, err := nc.Read(make([]byte, 1)); err != nil { // the answer has begun
		t.Fatal(err)
	}
	l := f.sender("opt_parwana").stream(url, "")
	l.until("ready")
	big := json.RawMessage(`{"ids":"` + strings.Repeat("x", 3<<10) + `"}`)
	for told := 0; f.streams[0].Len() == 2; told++ { // until the socket's buffers and ours are full
		f.tell(0, backoffice.Notice{Channel: backoffice.ChannelDashboard, Data: big})
		if e := l.next(); e.name != "dashboard" {
			t.Fatalf("the other reader: %+v", e)
		}
		if told > 100_000 {
			t.Fatal("the stalled reader was never disconnected")
		}
	}
}

// TestStreamTransports: the same stream over net/http's HTTP/1.1 and over HTTP/2.
func TestStreamTransports(t *testing.T) {
	t.Parallel()
	f := newFront(t, frontConfig{})
	two := new(http.Protocols)
	two.SetUnencryptedHTTP2(true)
	for name, test := range map[string]struct {
		opts http1.Options
		by   *http.Transport
	}{
		"net/http": {http1.Options{NoFastPath: true}, &http.Transport{}},
		"HTTP/2":   {http1.Options{}, &http.Transport{Protocols: two}},
	} {
		url := f.listen(0, test.opts)
		s := f.sender("opt_parwana")
		l, _, _ := s.tryStream(test.by, url, "")
		l.until("ready")
		f.tell(0, backoffice.Notice{Channel: backoffice.ChannelAI, Data: number("1")})
		if e := l.next(); e.name != "ai" {
			t.Errorf("%s: %+v", name, e)
		}
		after := s.stream(url, "")
		if e := l.end(); e.name != "superseded" {
			t.Errorf("%s: ended with %+v", name, e)
		}
		after.until("ready")
		test.by.CloseIdleConnections()
	}
}
