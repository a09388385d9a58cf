package outbox_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"melmastoon.ghasi.io/bff/internal/pubsub"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

// What a real server answers for a topic that is missing, and once it is there.
func TestMissingTopicAppears(t *testing.T) {
	t.Parallel()
	testkit.EachPubSub(t, func(t *testing.T, host, project string) {
		t.Helper()
		fx := newFixture(t, shapes[0])
		ctx, stop := context.WithCancel(testkit.Context(t))
		gate := newGate(t, host)
		client, err := pubsub.Open(ctx, pubsub.Config{ProjectID: project, EmulatorHost: host})
		if err != nil {
			t.Fatal(err)
		}
		publisher, err := pubsub.Open(ctx, pubsub.Config{ProjectID: project, EmulatorHost: gate.addr, PublishTimeout: 300 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		b := newBroker()
		subscribed := make(chan error, 2)
		subscribe := func(name string) {
			sub := pubsub.Subscription{Name: "of." + name, Topic: name, Ordered: true}
			if err := client.EnsureSubscription(ctx, sub); err != nil {
				t.Fatal(err)
			}
			go func() {
				subscribed <- client.Subscribe(ctx, sub, func(ctx context.Context, d pubsub.Delivery) error {
					return b.Publish(ctx, []message{{Topic: d.Topic, Key: d.Key, Data: d.Data}})[0]
				})
			}()
		}
		subscribe(topic)
		r := fx.newRelay(t, publisher, nil)
		halt := run(t, r)
		const each = 10
		for n := range each {
			fx.commit(t, fx.event("good", n), on(badTopic, fx.event("waits", n)))
			r.Wake()
		}
		b.distinct(t, each)
		testkit.Until(t, "the missing topic is down", func() bool { return slices.Equal(r.TopicsDown(), []string{badTopic}) })
		// What is published between a topic's making and its subscription's is lost: the
		// relay must not get there between.
		gate.shut()
		subscribe(badTopic)
		gate.open()
		b.distinct(t, 2*each)
		fx.settled(t)
		inOrder(t, b.all())
		if c := r.Counters(); c.DeadLettered != 0 {
			t.Errorf("%d events dead-lettered", c.DeadLettered)
		}
		halt()
		stop()
		for range 2 {
			if err := <-subscribed; err != nil {
				t.Error(err)
			}
		}
		if err := errors.Join(client.Close(), publisher.Close()); err != nil {
			t.Error(err)
		}
	})
}
