package backofficehttp_test

import (
	"strings"
	"testing"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/identity"
	"melmastoon.ghasi.io/bff/internal/backoffice/stream"
	"melmastoon.ghasi.io/bff/internal/http1"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

// compared lets the time pass after which an instance looks for forced logouts whose
// notices were lost: less than five seconds, and less than until the next ping.
func (f *front) compared(instance int) {
	for range 3 {
		f.streams[instance].Tick(f.clock())
	}
}

// Only the tombstones of a revocation are written, as if its notice were lost. One
// reading for all streams of an instance shows it.
func TestLostNoticeOfALogout(t *testing.T) {
	t.Parallel()
	f := newFront(t, frontConfig{})
	f.employ("opt_karim", backoffice.FrontDesk)
	url := f.listen(0, http1.Options{})
	one, other := f.sender("opt_parwana").stream(url, ""), f.sender("opt_karim").stream(url, "")
	one.until("ready")
	other.until("ready")
	f.compared(0) // from now on the marks are known
	f.advance(time.Second)
	if _, err := f.sessions.Revoke(testkit.Context(t), identity.Revocation{Tenant: f.tenant, Operator: "opt_parwana", Reason: "test", At: f.clock()}); err != nil {
		t.Fatal(err)
	}
	f.compared(0)
	if e := one.end(); e.name != "session" || !strings.Contains(e.data, backoffice.SessionRevoked) {
		t.Errorf("%+v", e)
	}
	if got := f.streams[0].Counts(); got != (stream.Counts{Late: 1}) {
		t.Errorf("%+v", got)
	}
	f.tell(0, backoffice.Notice{Channel: backoffice.ChannelAlerts, Data: number("1")})
	if e := other.until("alerts"); !strings.Contains(e.data, "1") {
		t.Errorf("the other operator's stream: %+v", e)
	}
}

// A replica takes over: what it lacks is not known. Streams end with a gap of all
// channels, and a client that comes later is told the same.
func TestFailoverNamesAGap(t *testing.T) {
	t.Parallel()
	server := testkit.NewRedis(t)
	f := newFront(t, frontConfig{redisURL: server.URL()})
	url := f.listen(0, http1.Options{})
	s, away := f.sender("opt_parwana"), f.sender("opt_parwana")
	left := away.stream(url, "").until("ready")
	open := s.stream(url, "")
	open.until("ready")
	f.compared(0)
	// As a replica that is promoted, the server has another replication id.
	b := f.client.B
	for _, cmd := range [][]string{{"127.0.0.1", "1"}, {"NO", "ONE"}} {
		if err := f.client.Do(testkit.Context(t), b().Arbitrary("REPLICAOF").Args(cmd...).Build()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	f.compared(0)
	if e := open.end(); e.name != "gap" || strings.Count(e.data, ",") != len(backoffice.Channels())-1 {
		t.Errorf("an open stream: %+v", e)
	}
	f.tell(0, backoffice.Notice{Channel: backoffice.ChannelAlerts, Data: number("1")})
	resumed := away.stream(url, left.id)
	if e := resumed.next(); e.name != "gap" || strings.Count(e.data, ",") != len(backoffice.Channels())-1 {
		t.Errorf("a stream of before: %+v", e)
	}
	ready := resumed.until("ready")
	f.tell(0, backoffice.Notice{Channel: backoffice.ChannelLocks, Data: number("2")})
	if e := resumed.next(); e.name != "locks" {
		t.Errorf("%+v", e)
	}
	_ = resumed.body.Close()
	if e := away.stream(url, ready.id).next(); e.name != "locks" {
		t.Errorf("in its new life the log names a gap: %+v", e)
	}
}

// Streams over a Redis Cluster: no command needs two slots.
func TestStreamOnACluster(t *testing.T) {
	t.Parallel()
	f := newFront(t, frontConfig{redisURL: testkit.RedisCluster(t)[0], instances: 2})
	one, two := f.listen(0, http1.Options{}), f.listen(1, http1.Options{})
	var senders []*sender
	var open []*listener
	for range 6 { // their keys are of several nodes
		s := f.sender("opt_parwana")
		senders, open = append(senders, s), append(open, s.stream(one, ""))
		open[len(open)-1].until("ready")
	}
	f.tell(1, backoffice.Notice{Channel: backoffice.ChannelAlerts, Property: bff.MustParseID(bff.PrefixProperty, house), Data: number("1")})
	for i, l := range open {
		e := l.until("alerts")
		_ = l.body.Close()
		if i == 0 {
			f.tell(0, backoffice.Notice{Channel: backoffice.ChannelAI, Data: number("2")})
		}
		if got := senders[i].stream(two, e.id).next(); got.name != "ai" {
			t.Errorf("resumed at the other instance: %+v", got)
		}
	}
	f.compared(1)
	f.advance(time.Second)
	if err := f.accesses[0].Revoke(testkit.Context(t), identity.Revocation{
		Tenant: f.tenant, Reason: "test", At: f.clock(),
	}, backoffice.Occasion{Causation: "x"}, f.clock()); err != nil {
		t.Fatal(err)
	}
	for _, s := range senders {
		if got := codeOf(s.from(1, "GET", "/session", "")); got != "SESSION_REVOKED" {
			t.Error(got)
		}
	}
}
