package outbox_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/outbox"
	"melmastoon.ghasi.io/bff/internal/postgres"
	"melmastoon.ghasi.io/bff/internal/pubsub"
	"melmastoon.ghasi.io/bff/internal/testkit"
	"melmastoon.ghasi.io/bff/migrations"
)

const password = "correct horse"

// fixture is one outbox table in a database of its own, seen by the roles that
// write and that relay.
type fixture struct {
	table *outbox.Table
	write *pgxpool.Pool
	relay *pgxpool.Pool
	super *pgxpool.Pool
	ids   *bff.Sequence
}

type shape struct {
	name          string
	table         func() *outbox.Table
	set           migrations.Set
	writer, relay string
}

var shapes = []shape{
	{"consumer", textTable, migrations.Consumer(), migrations.ConsumerApp, migrations.ConsumerApp},
	{"backoffice", uuidTable, migrations.Backoffice(), migrations.BackofficeApp, migrations.BackofficeJobs},
}

// textTable has text ids and a retention class.
func textTable() *outbox.Table {
	return outbox.NewTable(outbox.Shape{
		Name: "bff_consumer.outbox", Topic: "topic", Envelope: "headers", Created: "created_at", Retained: true,
		Key: func(e *bff.Envelope) string {
			if e.SessionID == nil {
				return ""
			}
			return *e.SessionID
		},
	})
}

// uuidTable has uuid ids and an archive.
func uuidTable() *outbox.Table {
	return outbox.NewTable(outbox.Shape{
		Name: "bff_backoffice.outbox", Archive: "bff_backoffice.outbox_archive", UUID: true,
		Topic: "subject", Envelope: "envelope", Created: "enqueued_at",
		Key: func(e *bff.Envelope) string { return e.DeviceID },
	})
}

// eachTable runs a test over both shapes.
func eachTable(t *testing.T, test func(t *testing.T, fx *fixture)) {
	t.Helper()
	t.Parallel()
	for _, s := range shapes {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			test(t, newFixture(t, s))
		})
	}
}

func newFixture(t testing.TB, s shape) *fixture {
	t.Helper()
	return fixtureAt(t, s, testkit.PostgresTemplate(t, s.set.Schema, func(url string) error { return migrate(url, s.set) }))
}

func migrate(url string, set migrations.Set) error {
	passwords := map[string]string{}
	for _, role := range set.Logins {
		passwords[role] = password
	}
	return postgres.Migrate(context.Background(), url, set, postgres.MigrateOptions{Passwords: passwords})
}

func fixtureAt(t testing.TB, s shape, admin string) *fixture {
	t.Helper()
	open := func(role string) *pgxpool.Pool {
		u, err := url.Parse(admin)
		if err != nil {
			t.Fatal(err)
		}
		if role != "" {
			u.User = url.UserPassword(role, password)
		}
		cfg := testkit.Patient(u.String())
		cfg.MaxConns = 40
		pool, err := postgres.Open(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		return pool
	}
	return &fixture{
		table: s.table(), write: open(s.writer), relay: open(s.relay), super: open(""),
		ids: bff.NewSequence(bff.PrefixEvent),
	}
}

const topic = "melmastoon.bff.test.thing.happened.v1"

// event makes the n-th event of a key.
func (fx *fixture) event(key string, n int) bff.Event {
	now := time.Now()
	return bff.Event{
		Envelope: bff.Envelope{
			EventID: fx.ids.Next(now).String(), Subject: topic, Version: 1, OccurredAt: bff.At(now),
			Producer: "test", SessionID: &key, DeviceID: key, RetentionClass: bff.RetentionOperational, SamplingRate: 1,
		},
		Payload: fmt.Appendf(nil, `{"key":%q,"n":%d}`, key, n),
	}
}

// commit appends in a transaction of its own.
func (fx *fixture) commit(t testing.TB, events ...bff.Event) {
	t.Helper()
	if err := fx.table.Append(testkit.Context(t), fx.write, events...); err != nil {
		t.Fatal(err)
	}
}

func (fx *fixture) newRelay(t testing.TB, p outbox.Publisher, change func(*outbox.RelayConfig)) *outbox.Relay {
	t.Helper()
	cfg := outbox.RelayConfig{
		DB: fx.relay, Table: fx.table, Publisher: p,
		Standby: 50 * time.Millisecond, MinBackoff: time.Millisecond, MaxBackoff: 4 * time.Millisecond, MaxPause: 20 * time.Millisecond,
	}
	if change != nil {
		change(&cfg)
	}
	r, err := outbox.NewRelay(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// run runs a relay until the test ends or stop is called, which waits.
func run(t testing.TB, r *outbox.Relay) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// arrival is what a subscriber would see.
type arrival struct {
	ID  string
	Key string
	N   int
}

// broker stands for Pub/Sub where a test must see and decide each publish. It
// keeps the Publisher's promise about order.
type broker struct {
	mu       sync.Mutex
	arrivals []arrival
	seen     map[string]int
	fail     func(arrival) error // nil means never
	topics   map[string]error    // what topics refuse with
	refused  int                 // messages to such topics
	before   func()              // called before each batch
	changed  chan struct{}
}

func newBroker() *broker {
	return &broker{seen: map[string]int{}, topics: map[string]error{}, changed: make(chan struct{})}
}

func (b *broker) Publish(_ context.Context, messages []pubsub.Message) []error {
	if b.before != nil {
		b.before()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	errs := make([]error, len(messages))
	held := map[string]bool{}
	for i, m := range messages {
		a, err := decode(m.Data)
		if err != nil {
			errs[i] = err
			continue
		}
		lane := m.Topic + "\x00" + m.Key
		if m.Key != "" && held[lane] {
			errs[i] = pubsub.ErrHeld
			continue
		}
		if errs[i] = b.topics[m.Topic]; errs[i] != nil {
			b.refused++
			held[lane] = true
			continue
		}
		if b.fail != nil {
			if errs[i] = b.fail(a); errs[i] != nil {
				held[lane] = true
				continue
			}
		}
		b.arrivals = append(b.arrivals, a)
		b.seen[a.ID]++
	}
	close(b.changed)
	b.changed = make(chan struct{})
	return errs
}

func decode(data []byte) (arrival, error) {
	var e struct {
		Envelope bff.Envelope `json:"envelope"`
		Payload  struct {
			Key string `json:"key"`
			N   int    `json:"n"`
		} `json:"payload"`
	}
	if err := json.Unmarshal(data, &e); err != nil {
		return arrival{}, err
	}
	if e.Envelope.PublishedAt.IsZero() {
		return arrival{}, errors.New("no publishedAt")
	}
	return arrival{e.Envelope.EventID, e.Payload.Key, e.Payload.N}, nil
}

func (b *broker) setFail(fail func(arrival) error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fail = fail
}

// refuse makes badTopic refuse everything with an error, or nothing.
func (b *broker) refuse(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.topics[badTopic] = err
}

// times is how often an event has arrived.
func (b *broker) times(id string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.seen[id]
}

// events is how many have arrived, repetitions apart.
func (b *broker) events() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.seen)
}

// until waits for a condition on what has arrived.
func (b *broker) until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	ctx := testkit.Context(t)
	for {
		b.mu.Lock()
		done, changed := ok(), b.changed
		b.mu.Unlock()
		if done {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatalf("gave up waiting for %s; %d arrivals", what, len(b.all()))
		}
	}
}

// distinct waits until so many different events have arrived.
func (b *broker) distinct(t testing.TB, n int) {
	t.Helper()
	b.until(t, fmt.Sprint(n, " events"), func() bool { return len(b.seen) >= n })
}

func (b *broker) all() []arrival {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]arrival(nil), b.arrivals...)
}

// inOrder checks that first arrivals per key count up from 0 without a gap.
func inOrder(t testing.TB, arrivals []arrival) {
	t.Helper()
	next := map[string]int{}
	seen := map[string]bool{}
	for _, a := range arrivals {
		if seen[a.ID] {
			continue // at least once: a repetition
		}
		seen[a.ID] = true
		if a.N != next[a.Key] {
			t.Fatalf("key %s: event %d arrived when %d was due", a.Key, a.N, next[a.Key])
		}
		next[a.Key]++
	}
}

// settled waits until every row is published or dead-lettered, and then until
// nothing is owed: each published row is marked.
func (fx *fixture) settled(t testing.TB) outbox.Stats {
	t.Helper()
	var s outbox.Stats
	eventually(t, "an empty outbox", func() (bool, error) {
		var err error
		s, err = fx.table.Stats(testkit.Context(t), fx.relay)
		return s.Depth == 0, err
	})
	eventually(t, "every mark", func() (bool, error) {
		var unmarked int
		err := fx.super.QueryRow(testkit.Context(t), "SELECT count(*) FROM "+fx.table.Name()+" WHERE published_at IS NULL AND NOT dlq").Scan(&unmarked)
		return unmarked == 0, err
	})
	return s
}

// eventually asks again where a killed server does not answer.
func eventually(t testing.TB, what string, ok func() (bool, error)) {
	t.Helper()
	testkit.Until(t, what, func() bool {
		done, err := ok()
		return done && err == nil
	})
}
