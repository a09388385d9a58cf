package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"melmastoon.ghasi.io/bff/internal/outbox"
	"melmastoon.ghasi.io/bff/internal/pause"
	"melmastoon.ghasi.io/bff/internal/postgres"
	"melmastoon.ghasi.io/bff/internal/pubsub"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

type message = pubsub.Message

type publisherFunc func([]message) []error

func (f publisherFunc) Publish(_ context.Context, m []message) []error { return f(m) }

// Postgres is killed again and again under writers and two relays: whatever a
// writer was told is committed arrives.
func TestPostgresKilledUnderLoad(t *testing.T) {
	t.Parallel()
	s := shapes[0]
	server := testkit.NewPostgres(t, true)
	if err := migrate(server.DatabaseURL("postgres"), s.set); err != nil {
		t.Fatal(err)
	}
	fx := fixtureAt(t, s, server.DatabaseURL("postgres"))
	b := newBroker()
	var relays []*outbox.Relay
	var stops []func()
	for range 2 {
		r := fx.newRelay(t, b, func(c *outbox.RelayConfig) { c.Batch = 20 })
		relays, stops = append(relays, r), append(stops, run(t, r))
	}
	a := outbox.NewAppender(fx.write, fx.table, relays[0], 10_000)

	const writers, rest = 8, 5 * time.Millisecond
	var mu sync.Mutex
	acknowledged := map[string]bool{}
	ctx, cancel := context.WithCancel(testkit.Context(t))
	defer cancel()
	var wg sync.WaitGroup
	for k := range writers {
		wg.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				e := fx.event(fmt.Sprint("k", k), n)
				var err error
				if k%2 == 0 {
					err = a.Append(ctx, e)
				} else {
					err = fx.table.Append(ctx, fx.write, e)
				}
				switch {
				case err == nil:
					mu.Lock()
					acknowledged[e.Envelope.EventID] = true
					mu.Unlock()
				case !postgres.Unavailable(err) && !errors.Is(err, context.Canceled) && ctx.Err() == nil:
					t.Errorf("append: %v", err)
				}
				pause.For(ctx, rest) // writers that never rest leave no CPU to the relays, nor to a server that starts
			}
		})
	}
	grown := func(by int) func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		from := len(b.seen)
		return func() bool { return len(b.seen) >= from+by }
	}
	for range 4 {
		b.until(t, "progress", grown(50))
		if err := server.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := server.Start(testkit.Context(t)); err != nil {
			t.Fatal(err)
		}
	}
	b.until(t, "progress after the last kill", grown(50))
	cancel()
	wg.Wait()
	relays[0].Wake()
	b.until(t, "every acknowledged event", func() bool {
		for id := range acknowledged {
			if b.seen[id] == 0 {
				return false
			}
		}
		return true
	})
	for _, stop := range stops { // events that were committed and not acknowledged may still arrive
		stop()
	}
	again := len(b.all()) - b.events()
	t.Logf("%d acknowledged, %d arrived, %d repetitions", len(acknowledged), b.events(), again)
	if again > 4*20 {
		t.Errorf("%d repetitions over 4 kills, want at most a window of 20 for each", again)
	}
}

// The real client against a real server that is away at first.
func TestPubSubAwayThenBack(t *testing.T) {
	t.Parallel()
	testkit.EachPubSub(t, func(t *testing.T, host, project string) {
		t.Helper()
		publishThroughOutage(t, host, project, false)
	})
}

// TestPubSubAwayFromAll also cuts off the subscriber. The emulator is left out: with a
// stream that was cut as it was being opened, all was published and the emulator
// sometimes delivered none of it.
func TestPubSubAwayFromAll(t *testing.T) {
	t.Parallel()
	host, project := testkit.PubSub(t)
	publishThroughOutage(t, host, project, true)
}

func publishThroughOutage(t *testing.T, host, project string, all bool) {
	t.Helper()
	fx := newFixture(t, shapes[0])
	ctx := testkit.Context(t)
	gate := newGate(t, host)
	client, err := pubsub.Open(ctx, pubsub.Config{ProjectID: project, EmulatorHost: gate.addr, PublishTimeout: 300 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	if all {
		host = gate.addr
	}
	subscriber, err := pubsub.Open(ctx, pubsub.Config{ProjectID: project, EmulatorHost: host})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = subscriber.Close() })
	sub := pubsub.Subscription{Name: "test-sub", Topic: topic, Ordered: true}
	if err := subscriber.EnsureSubscription(ctx, sub); err != nil {
		t.Fatal(err)
	}
	b := newBroker()
	receiving, stop := context.WithCancel(ctx)
	defer stop()
	received := make(chan error, 1)
	go func() {
		defer close(received)
		received <- subscriber.Subscribe(receiving, sub, func(ctx context.Context, d pubsub.Delivery) error {
			return b.Publish(ctx, []message{{Topic: d.Topic, Key: d.Key, Data: d.Data}})[0]
		})
	}()
	defer func() {
		if t.Failed() {
			left, err := fx.table.Stats(t.Context(), fx.relay) // whether it was published, or not received
			stop()
			t.Logf("left in the outbox: %+v, %v; the subscriber ended: %v", left, err, <-received)
		}
	}()

	gate.shut()
	r := fx.newRelay(t, client, nil)
	run(t, r)
	const total = 60
	for n := range total / 3 {
		fx.commit(t, fx.event("a", n), fx.event("b", n), fx.event("c", n))
		r.Wake()
	}
	s, err := fx.table.Stats(ctx, fx.relay)
	if err != nil || s.Depth != total || s.DLQ != 0 {
		t.Errorf("stats = %+v, %v: want the outbox to grow", s, err)
	}
	gate.open()
	b.distinct(t, total)
	fx.settled(t)
	inOrder(t, b.all())
	stop()
	if err := <-received; err != nil {
		t.Error(err)
	}
}

// An old snapshot elsewhere holds back the vacuum but neither the relay nor, for
// lack of a transaction id, anything that it looks at; an old writer makes a
// hole and nothing more.
func TestOldTransactionsHoldNothingBack(t *testing.T) {
	eachTable(t, func(t *testing.T, fx *fixture) {
		t.Helper()
		ctx := testkit.Context(t)
		reader, err := fx.super.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = reader.Rollback(ctx) }()
		var assigned *string
		if _, err := reader.Exec(ctx, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"); err != nil {
			t.Fatal(err)
		}
		if err := reader.QueryRow(
			ctx, "SELECT pg_current_xact_id_if_assigned()::text FROM "+fx.table.Name()+" RIGHT JOIN (SELECT 1) x ON true LIMIT 1",
		).Scan(&assigned); err != nil {
			t.Fatal(err)
		}
		if assigned != nil {
			t.Errorf("a reading transaction has the id %s", *assigned)
		}
		writer, err := fx.super.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = writer.Rollback(ctx) }()
		if _, err := writer.Exec(ctx, "SELECT pg_current_xact_id()"); err != nil {
			t.Fatal(err)
		}
		b := newBroker()
		r := fx.newRelay(t, b, nil)
		run(t, r)
		for n := range 50 {
			fx.commit(t, fx.event("k", n))
			r.Wake()
			b.distinct(t, n+1)
		}
		fx.settled(t)
		inOrder(t, b.all())
	})
}
