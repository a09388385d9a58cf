package outbox_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/outbox"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

const badTopic = "melmastoon.bff.test.thing.refused.v1"

// on moves an event to another topic.
func on(topic string, e bff.Event) bff.Event {
	e.Envelope.Subject = topic
	return e
}

// many commits one event for each of n keys.
func (fx *fixture) many(t testing.TB, topic string, n int) {
	t.Helper()
	var events []bff.Event
	for k := range n {
		events = append(events, on(topic, fx.event(fmt.Sprintf("%s-%d", topic[len(topic)-9:], k), 0)))
		if len(events) == 500 || k == n-1 {
			fx.commit(t, events...)
			events = nil
		}
	}
}

// held waits until so many rows wait for another attempt.
func (fx *fixture) held(t testing.TB, n int) {
	t.Helper()
	eventually(t, fmt.Sprint(n, " held rows"), func() (bool, error) {
		s, err := fx.table.Stats(testkit.Context(t), fx.relay)
		return s.Held == n && s.Depth == n, err
	})
}

// Events of a topic that refuses them are always due again, and many. The main
// scan reads each of them once, so that it finds the others however long it takes
// to try all of the refused ones.
func TestRelayScansHeldRowsOnce(t *testing.T) {
	eachTable(t, func(t *testing.T, fx *fixture) {
		t.Helper()
		const refused, others = 2000, 50
		b := newBroker()
		b.refuse(status.Error(codes.InvalidArgument, "no"))
		r := fx.newRelay(t, b, func(c *outbox.RelayConfig) {
			c.Batch, c.MaxAttempts, c.MaxBackoff = 64, 1<<30, time.Millisecond
		})
		// Committed before the relay runs: rows of a transaction that is in progress
		// while it reads may be read twice.
		fx.many(t, badTopic, refused)
		run(t, r)
		fx.held(t, refused)
		for n := range others {
			fx.commit(t, fx.event("good", n))
			r.Wake()
			b.distinct(t, n+1)
		}
		fx.held(t, refused)
		if got := r.Scanned(); got != refused+others {
			t.Errorf("the main scan read %d rows, want each of the %d once", got, refused+others)
		}
		b.refuse(nil)
		b.distinct(t, refused+others)
		fx.settled(t)
		if got := r.Scanned(); got != refused+others {
			t.Errorf("the main scan read %d rows, want each of the %d once", got, refused+others)
		}
		fx.noRetries(t)
		inOrder(t, b.all())
	})
}

// noRetries checks that nothing is left of what waited.
func (fx *fixture) noRetries(t testing.TB) {
	t.Helper()
	eventually(t, "an empty table of retries", func() (bool, error) {
		var n int
		err := fx.super.QueryRow(testkit.Context(t), "SELECT count(*) FROM "+fx.table.Name()+"_retries").Scan(&n)
		return n == 0, err
	})
}

// A retry that is never answered holds up its own topic alone.
func TestRelayRetryHangs(t *testing.T) {
	eachTable(t, func(t *testing.T, fx *fixture) {
		t.Helper()
		b := newBroker()
		b.refuse(status.Error(codes.InvalidArgument, "no"))
		hangs, release := make(chan struct{}), make(chan struct{})
		var once sync.Once
		tries := 0
		p := publisherFunc(func(m []message) []error {
			if slices.ContainsFunc(m, func(m message) bool { return m.Topic == badTopic }) {
				if tries++; tries > 1 { // only the first attempt is the main scan's
					once.Do(func() { close(hangs) })
					<-release
				}
			}
			return b.Publish(t.Context(), m)
		})
		r := fx.newRelay(t, p, nil)
		run(t, r)
		fx.commit(t, on(badTopic, fx.event("bad", 0)))
		r.Wake()
		<-hangs
		for n := range 20 {
			// The key waits in its own topic only.
			fx.commit(t, fx.event("bad", n), fx.event("good", n))
			r.Wake()
			b.distinct(t, 2*(n+1))
		}
		b.refuse(nil)
		close(release)
		b.distinct(t, 41)
		fx.settled(t)
	})
}

// A missing or forbidden topic is an outage of the topic: its events wait without
// an attempt being counted, the log says so once, and they go out when it is there.
func TestRelayTopicDown(t *testing.T) {
	for name, code := range map[string]codes.Code{"missing": codes.NotFound, "forbidden": codes.PermissionDenied} {
		t.Run(name, func(t *testing.T) {
			eachTable(t, func(t *testing.T, fx *fixture) {
				t.Helper()
				const keys, each = 30, 4
				b := newBroker()
				b.refuse(status.Error(code, "no"))
				var log logged
				r := fx.newRelay(t, b, func(c *outbox.RelayConfig) {
					c.Batch, c.MaxAttempts, c.Logger = 16, 2, slog.New(&log)
				})
				run(t, r)
				for n := range each {
					for k := range keys {
						fx.commit(t, on(badTopic, fx.event(fmt.Sprint("k", k), n)))
					}
					fx.commit(t, fx.event("good", n), on(badTopic, fx.event("", 0)))
					r.Wake()
				}
				b.distinct(t, each)
				fx.held(t, (keys+1)*each)
				b.until(t, "many probes", func() bool { return b.refused > 20 })
				if got := r.TopicsDown(); !slices.Equal(got, []string{badTopic}) {
					t.Errorf("topics down = %q", got)
				}
				s, err := fx.table.Stats(testkit.Context(t), fx.relay)
				if err != nil || s.MaxAttempts != 0 || s.DLQ != 0 {
					t.Errorf("stats = %+v, %v: want no attempt counted", s, err)
				}
				b.refuse(nil)
				b.distinct(t, (keys+2)*each)
				fx.settled(t)
				fx.noRetries(t)
				perKey(t, b.all())
				if got := r.TopicsDown(); len(got) != 0 {
					t.Errorf("topics down = %q after they are back", got)
				}
				if n := log.count("missing or forbidden"); n != 1 {
					t.Errorf("%d messages that the topic is down, want 1", n)
				}
				if n := log.count("can be published to again"); n != 1 {
					t.Errorf("%d messages that the topic is back, want 1", n)
				}
			})
		})
	}
}

// perKey checks the order of first arrivals of each key, those without one apart.
func perKey(t testing.TB, arrivals []arrival) {
	t.Helper()
	inOrder(t, slices.DeleteFunc(arrivals, func(a arrival) bool { return a.Key == "" }))
}

// logged counts log messages.
type logged struct {
	mu       sync.Mutex
	messages []string
}

func (l *logged) Enabled(context.Context, slog.Level) bool { return true }
func (l *logged) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *logged) WithGroup(string) slog.Handler            { return l }

func (l *logged) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.messages = append(l.messages, r.Message)
	return nil
}

func (l *logged) count(part string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, m := range l.messages {
		if strings.Contains(m, part) {
			n++
		}
	}
	return n
}

// Rows that wait are left to the next leader, in their order, whenever the relay
// before is killed: while it holds them, while it retries them, while they go out.
func TestRelayHeldRowsSurviveKills(t *testing.T) {
	eachTable(t, func(t *testing.T, fx *fixture) {
		t.Helper()
		const keys, each = 40, 6
		b := newBroker()
		b.refuse(status.Error(codes.InvalidArgument, "no"))
		relays := make([]*outbox.Relay, 2)
		for i := range relays {
			relays[i] = fx.newRelay(t, b, func(c *outbox.RelayConfig) { c.Batch, c.MaxAttempts = 32, 1<<30 })
			run(t, relays[i])
		}
		add := func(n int) {
			for k := range keys {
				fx.commit(t, on(badTopic, fx.event(fmt.Sprint("k", k), n)))
			}
			fx.commit(t, fx.event("good", n))
			for _, r := range relays {
				r.Wake()
			}
		}
		for n := range each {
			add(n)
			b.mu.Lock()
			from := b.refused
			b.mu.Unlock()
			b.until(t, "retries", func() bool { return b.refused > from+10*(n+1) })
			fx.killRelays(t)
		}
		b.distinct(t, each)
		fx.held(t, keys*each)
		b.refuse(nil)
		for n := range 3 {
			b.distinct(t, each+(n+1)*keys)
			fx.killRelays(t)
		}
		b.distinct(t, (keys+1)*each)
		fx.settled(t)
		fx.noRetries(t)
		inOrder(t, b.all())
	})
}
