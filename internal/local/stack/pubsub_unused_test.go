package stack

import (
	"fmt"
	"slices"
	"testing"

	"cloud.google.com/go/pubsub/v2"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func subscriptionName(p *PubSub, name string) string {
	return fmt.Sprintf("projects/%s/subscriptions/%s", p.ProjectID, name)
}

// used lists the subscriptions that the fake looks after.
func used(t *testing.T, p *PubSub) (names []string) {
	t.Helper()
	list, err := p.fake.GServer.ListSubscriptions(testContext(t), &pubsubpb.ListSubscriptionsRequest{Project: "projects/" + p.ProjectID})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range list.Subscriptions {
		names = append(names, s.Name[len(subscriptionName(p, "")):])
	}
	slices.Sort(names)
	return names
}

func wantUsed(t *testing.T, p *PubSub, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, used(t, p)); diff != "" {
		t.Errorf("subscriptions in use (-want +got):\n%s", diff)
	}
}

func wantCode(t *testing.T, what string, err error, want codes.Code) {
	t.Helper()
	if got := status.Code(err); got != want {
		t.Errorf("%s: %v, want %s", what, err, want)
	}
}

// TestPubSubUnused: a subscription costs nothing until there is a message for it, and
// otherwise is as any other.
func TestPubSubUnused(t *testing.T) {
	t.Parallel()
	p, client := startPubSub(t)
	ctx, admin := testContext(t), client.SubscriptionAdminClient
	subscribe(t, p, client, "first", "")
	subscribe(t, p, client, "second", `attributes.kind = "other"`)
	wantUsed(t, p)

	one := &pubsubpb.Subscription{Name: subscriptionName(p, "first"), Topic: topicName(p)}
	_, err := admin.CreateSubscription(ctx, one)
	wantCode(t, "created twice", err, codes.AlreadyExists)
	_, err = admin.CreateSubscription(ctx, &pubsubpb.Subscription{Name: subscriptionName(p, "third"), Topic: topicName(p) + "-unknown"})
	wantCode(t, "of an unknown topic", err, codes.NotFound)
	got, err := admin.GetSubscription(ctx, &pubsubpb.GetSubscriptionRequest{Subscription: one.Name})
	if err != nil || got.Topic != topicName(p) || got.AckDeadlineSeconds != 60 || got.State != pubsubpb.Subscription_ACTIVE {
		t.Errorf("found %v, %v", got, err)
	}
	wantUsed(t, p)

	publish(t, client, 3)
	wantUsed(t, p, "first", "second")
	receive(t, client, "first", 3)
	_, err = admin.CreateSubscription(ctx, one)
	wantCode(t, "created once more", err, codes.AlreadyExists)

	// Deleted and created again it has none of the earlier messages.
	gone := &pubsubpb.DeleteSubscriptionRequest{Subscription: one.Name}
	if err := admin.DeleteSubscription(ctx, gone); err != nil {
		t.Fatal(err)
	}
	_, err = admin.GetSubscription(ctx, &pubsubpb.GetSubscriptionRequest{Subscription: one.Name})
	wantCode(t, "after its end", err, codes.NotFound)
	subscribe(t, p, client, "first", "")
	wantUsed(t, p, "second")
	if err := admin.DeleteSubscription(ctx, gone); err != nil {
		t.Fatal(err)
	}
	wantUsed(t, p, "second")
}

// TestPubSubUnusedStream: a stream of an unused subscription is open before the first
// message, and gets it.
func TestPubSubUnusedStream(t *testing.T) {
	t.Parallel()
	p, client := startPubSub(t)
	subscribe(t, p, client, "first", "")
	published := make(chan struct{})
	go func() {
		defer close(published)
		topic := client.Publisher(testTopic)
		defer topic.Stop()
		for i := range 20 {
			if _, err := topic.Publish(testContext(t), &pubsub.Message{Data: fmt.Append(nil, i)}).Get(testContext(t)); err != nil {
				t.Error(err)
			}
		}
	}()
	receive(t, client, "first", 20)
	<-published
}

// TestPubSubUnusedDeadLetters: the fake publishes dead letters by itself, so that the
// subscriptions to their topic are in use from the beginning.
func TestPubSubUnusedDeadLetters(t *testing.T) {
	t.Parallel()
	p, client := startPubSub(t)
	ctx := testContext(t)
	letters := topicName(p) + "-letters"
	if _, err := client.TopicAdminClient.CreateTopic(ctx, &pubsubpb.Topic{Name: letters}); err != nil {
		t.Fatal(err)
	}
	create := func(s *pubsubpb.Subscription) {
		t.Helper()
		if _, err := client.SubscriptionAdminClient.CreateSubscription(ctx, s); err != nil {
			t.Fatal(err)
		}
	}
	create(&pubsubpb.Subscription{Name: subscriptionName(p, "earlier"), Topic: letters})
	wantUsed(t, p)
	create(&pubsubpb.Subscription{
		Name: subscriptionName(p, "lettered"), Topic: topicName(p),
		DeadLetterPolicy: &pubsubpb.DeadLetterPolicy{DeadLetterTopic: letters, MaxDeliveryAttempts: 5},
	})
	create(&pubsubpb.Subscription{Name: subscriptionName(p, "later"), Topic: letters})
	wantUsed(t, p, "earlier", "later")
}
