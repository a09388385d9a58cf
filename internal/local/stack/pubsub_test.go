package stack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"

	"cloud.google.com/go/pubsub/v2"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

const testTopic = "stays"

func pubsubClient(t *testing.T, p *PubSub) *pubsub.Client {
	t.Helper()
	client, err := pubsub.NewClient(testContext(t), p.ProjectID, option.WithEndpoint(p.Host), option.WithoutAuthentication(),
		option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	return client
}

func startPubSub(t *testing.T) (*PubSub, *pubsub.Client) {
	t.Helper()
	p, err := StartPubSub(testContext(t), PubSubConfig{InProcess: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	client := pubsubClient(t, p)
	_, err = client.TopicAdminClient.CreateTopic(testContext(t), &pubsubpb.Topic{Name: topicName(p)})
	if err != nil {
		t.Fatal(err)
	}
	return p, client
}

func topicName(p *PubSub) string {
	return fmt.Sprintf("projects/%s/topics/%s", p.ProjectID, testTopic)
}

func subscribe(t *testing.T, p *PubSub, client *pubsub.Client, name, filter string) {
	t.Helper()
	_, err := client.SubscriptionAdminClient.CreateSubscription(testContext(t), &pubsubpb.Subscription{
		Name:  fmt.Sprintf("projects/%s/subscriptions/%s", p.ProjectID, name),
		Topic: topicName(p), Filter: filter, AckDeadlineSeconds: 60,
	})
	if err != nil {
		t.Fatal(err)
	}
}

func publish(t *testing.T, client *pubsub.Client, n int) {
	t.Helper()
	publisher := client.Publisher(testTopic)
	defer publisher.Stop()
	var results []*pubsub.PublishResult
	for i := range n {
		results = append(results, publisher.Publish(testContext(t), &pubsub.Message{Data: fmt.Append(nil, i)}))
	}
	for _, r := range results {
		if _, err := r.Get(testContext(t)); err != nil {
			t.Fatal(err)
		}
	}
}

// receive takes that many distinct messages from a subscription.
func receive(t *testing.T, client *pubsub.Client, name string, n int) {
	t.Helper()
	ctx, cancel := context.WithCancel(testContext(t))
	defer cancel()
	var mu sync.Mutex
	seen := map[string]bool{}
	err := client.Subscriber(name).Receive(ctx, func(_ context.Context, m *pubsub.Message) {
		m.Ack()
		mu.Lock()
		defer mu.Unlock()
		if seen[m.ID] = true; len(seen) == n {
			cancel()
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(seen) != n {
		t.Fatalf("%s: %d messages, want %d", name, len(seen), n)
	}
}

func kept(p *PubSub) int { return len(p.fake.Messages()) }

func TestPubSubForgetsWhatEverybodyHas(t *testing.T) {
	t.Parallel()
	p, client := startPubSub(t)
	subscribe(t, p, client, "first", "")
	subscribe(t, p, client, "second", "")
	publish(t, client, 20)
	receive(t, client, "first", 20)
	p.trim()
	if got := kept(p); got != 20 {
		t.Fatalf("%d messages kept, want 20: the second subscription has none of them yet", got)
	}
	receive(t, client, "second", 20)
	p.trim()
	if got := kept(p); got != 0 {
		t.Errorf("%d messages kept, want 0", got)
	}
	publish(t, client, 3) // and on it goes
	receive(t, client, "first", 3)
}

// A stream must carry more than one batch, each message once, keys in order,
// and a refused message again.
func TestPubSubStream(t *testing.T) {
	t.Parallel()
	p, client := startPubSub(t)
	_, err := client.SubscriptionAdminClient.CreateSubscription(testContext(t), &pubsubpb.Subscription{
		Name:  fmt.Sprintf("projects/%s/subscriptions/ordered", p.ProjectID),
		Topic: topicName(p), EnableMessageOrdering: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	const keys, each = 3 * streamBatch, 3
	publisher := client.Publisher(testTopic)
	publisher.EnableMessageOrdering = true
	defer publisher.Stop()
	for i := range keys * each {
		publisher.Publish(testContext(t), &pubsub.Message{Data: fmt.Append(nil, i), OrderingKey: fmt.Sprint(i % keys)})
	}
	publisher.Flush()

	ctx, cancel := context.WithCancel(testContext(t))
	defer cancel()
	var mu sync.Mutex
	got := map[string][]string{}
	count, refused := 0, false
	err = client.Subscriber("ordered").Receive(ctx, func(_ context.Context, m *pubsub.Message) {
		mu.Lock()
		defer mu.Unlock()
		if m.OrderingKey == "7" && !refused {
			refused = true
			m.Nack()
			return
		}
		m.Ack()
		got[m.OrderingKey] = append(got[m.OrderingKey], string(m.Data))
		if count++; count == keys*each {
			cancel()
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{}
	for i := range keys * each {
		key := fmt.Sprint(i % keys)
		want[key] = append(want[key], fmt.Sprint(i))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("messages by key (-want +got):\n%s", diff)
	}
}

func TestPubSubStreamProtocol(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	p, client := startPubSub(t)
	subscribe(t, p, client, "raw", "")
	conn, err := grpc.NewClient(p.Host, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	open := func(name string) pubsubpb.Subscriber_StreamingPullClient {
		stream, err := pubsubpb.NewSubscriberClient(conn).StreamingPull(ctx)
		if err != nil {
			t.Fatal(err)
		}
		err = stream.Send(&pubsubpb.StreamingPullRequest{
			Subscription: fmt.Sprintf("projects/%s/subscriptions/%s", p.ProjectID, name), StreamAckDeadlineSeconds: 60, ProtocolVersion: 1,
		})
		if err != nil {
			t.Fatal(err)
		}
		return stream
	}

	if _, err := open("missing").Recv(); status.Code(err) != codes.NotFound {
		t.Errorf("missing subscription: %v, want NotFound", err)
	}

	stream := open("raw")
	if err := stream.Send(&pubsubpb.StreamingPullRequest{}); err != nil {
		t.Fatal(err)
	}
	if answer, err := stream.Recv(); err != nil || len(answer.ReceivedMessages) != 0 {
		t.Errorf("keep-alive: %v, %v: want an empty answer", answer, err)
	}
	publish(t, client, 1)
	answer, err := stream.Recv()
	if err != nil || len(answer.ReceivedMessages) != 1 {
		t.Fatalf("message: %v, %v: want one", answer, err)
	}
	// Refused on the stream, it comes again; acknowledged on the stream, it is settled.
	id := answer.ReceivedMessages[0].AckId
	err = stream.Send(&pubsubpb.StreamingPullRequest{ModifyDeadlineAckIds: []string{id}, ModifyDeadlineSeconds: []int32{0}})
	if err != nil {
		t.Fatal(err)
	}
	answer, err = stream.Recv()
	if err != nil || len(answer.ReceivedMessages) != 1 {
		t.Fatalf("refused message: %v, %v: want it again", answer, err)
	}
	if err := stream.Send(&pubsubpb.StreamingPullRequest{AckIds: []string{answer.ReceivedMessages[0].AckId}}); err != nil {
		t.Fatal(err)
	}
	await(t, "the message is settled", func() bool {
		done, err := p.settled(ctx)
		return done && err == nil
	})
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("after the client's end: %v, want EOF", err)
	}
}
