package backofficehttp_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/identity"
	"melmastoon.ghasi.io/bff/internal/http1"
)

// An operator has twenty sessions at most. With the next one the oldest ends, is told so,
// and its token is refused; one that had ended by itself does not count.
func TestOldestSessionEnds(t *testing.T) {
	t.Parallel()
	f := newFront(t, frontConfig{instances: 2, limits: "off"})
	url := f.listen(1, http1.Options{})
	var all []*sender
	open := func() *sender {
		t.Helper()
		f.advance(time.Second)
		s := f.sender("opt_parwana")
		s.session()
		all = append(all, s)
		return s
	}
	oldest := open()
	told := oldest.stream(url, "")
	told.until("ready")
	for range identity.MaxSessions - 1 {
		open()
	}
	if got := codeOf(oldest.get("/session")); got != "OK" {
		t.Fatalf("the oldest of twenty: %s", got)
	}
	last := open().session()
	if e := told.end(); e.name != "session" || !strings.Contains(e.data, backoffice.SessionOutgrown) {
		t.Errorf("its stream ended with %+v", e)
	}
	for instance := range 2 {
		if got := codeOf(oldest.from(instance, http.MethodGet, "/session", "")); got != "SESSION_REVOKED" {
			t.Errorf("the oldest of twenty-one: %s", got)
		}
		for i, s := range all[1:] {
			if got := codeOf(s.from(instance, http.MethodGet, "/session", "")); got != "OK" {
				t.Errorf("session %d: %s", i+2, got)
			}
		}
	}
	var closed []string
	for _, e := range f.outbox.events {
		if strings.HasSuffix(e.Envelope.Subject, ".session.closed.v1") {
			closed = append(closed, string(e.Payload))
		}
	}
	if len(closed) != 1 || !strings.Contains(closed[0], `"reason":"revoked"`) || !strings.Contains(closed[0], `"outgrownBy":"`+last+`"`) {
		t.Errorf("closed: %v", closed)
	}

	// Sessions that have ended by themselves are still listed, and make room.
	keys, err := f.keys.Tenant(f.tenant)
	if err != nil {
		t.Fatal(err)
	}
	gone := keys.Session(bff.MustParseID(bff.PrefixBackofficeLogin, all[1].session())).Name()
	if err := f.client.Do(t.Context(), f.client.B().Del().Key(gone).Build()).Error(); err != nil {
		t.Fatal(err)
	}
	open()
	if got := codeOf(all[2].get("/session")); got != "OK" {
		t.Errorf("a session ended although there was room: %s", got)
	}
}

// Many devices at once: what is left is twenty sessions.
func TestManyDevicesOfOneOperator(t *testing.T) {
	t.Parallel()
	f := newFront(t, frontConfig{instances: 3, limits: "off"})
	var wg sync.WaitGroup
	for i := range 2 * identity.MaxSessions {
		s := f.sender("opt_parwana")
		wg.Go(func() { s.from(i%3, http.MethodGet, "/session", "") })
	}
	wg.Wait()
	if sessions, _ := f.held(":session:bos_"); len(sessions) != identity.MaxSessions {
		t.Errorf("%d sessions, want %d", len(sessions), identity.MaxSessions)
	}
}

// What a notice leaves follows the devices with streams, not those with sessions.
func TestNoLogsWithoutStreams(t *testing.T) {
	t.Parallel()
	f := newFront(t, frontConfig{limits: "off"})
	url := f.listen(0, http1.Options{})
	for range 15 {
		f.sender("opt_parwana").session()
	}
	l := f.sender("opt_parwana").stream(url, "")
	l.until("ready")
	f.tell(0, backoffice.Notice{Channel: backoffice.ChannelAlerts, Property: bff.MustParseID(bff.PrefixProperty, house), Data: number("1")})
	l.until("alerts")
	logs, _ := f.held(":sse:log:")
	if len(logs) != 1 {
		t.Fatalf("logs: %v", logs)
	}
	// A notice does not keep a log alive whose stream is gone for an hour.
	_ = l.body.Close()
	c := f.client
	if err := c.Do(t.Context(), c.B().Expire().Key(logs[0]).Seconds(600).Build()).Error(); err != nil {
		t.Fatal(err)
	}
	f.tell(0, backoffice.Notice{Channel: backoffice.ChannelAlerts, Data: number("2")})
	if left, err := c.Do(t.Context(), c.B().Ttl().Key(logs[0]).Build()).AsInt64(); err != nil || left > 600 {
		t.Errorf("the log lives %d s: %v", left, err)
	}
	if err := c.Do(t.Context(), c.B().Del().Key(logs[0]).Build()).Error(); err != nil {
		t.Fatal(err)
	}
	f.tell(0, backoffice.Notice{Channel: backoffice.ChannelAlerts, Data: number("3")})
	if logs, _ := f.held(":sse:log:"); len(logs) != 0 {
		t.Errorf("logs: %v", logs)
	}
}
