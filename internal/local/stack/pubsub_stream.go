package stack

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"

	"melmastoon.ghasi.io/bff/internal/pause"
)

// streamBatch is how many messages one answer of a stream carries at most.
const streamBatch = 100

// subscriber is pstest's subscriber service with a stream of its own. pstest
// hands a stream one message every 10 ms, some 90 a second, and drops what it
// could not hand out within ten minutes: under load events would be lost. It
// also answers a keep-alive while holding the lock of the whole server, which
// never comes free if the stream ends at that moment. Its plain Pull has
// neither fault, so the stream is built on that.
type subscriber struct {
	pubsubpb.SubscriberServer // of pstest

	unused *unused
	news   *news
}

func (s subscriber) CreateSubscription(ctx context.Context, sub *pubsubpb.Subscription) (*pubsubpb.Subscription, error) {
	return s.unused.create(ctx, sub)
}

func (s subscriber) GetSubscription(ctx context.Context, req *pubsubpb.GetSubscriptionRequest) (*pubsubpb.Subscription, error) {
	if sub := s.unused.find(req.Subscription); sub != nil {
		return sub, nil
	}
	return s.SubscriberServer.GetSubscription(ctx, req)
}

// lookEvery is how often a stream looks for messages without news: a deadline that ran
// out makes none, nor does a dead letter.
const lookEvery = 250 * time.Millisecond

// news tells streams that there may be something to hand out, of a topic or of a
// subscription.
type news struct {
	mu  sync.Mutex
	out map[string]chan struct{}
}

// next is closed with the next news of a name.
func (n *news) next(name string) <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.out[name] == nil {
		if n.out == nil {
			n.out = map[string]chan struct{}{}
		}
		n.out[name] = make(chan struct{})
	}
	return n.out[name]
}

func (n *news) tell(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if out := n.out[name]; out != nil {
		close(out)
		delete(n.out, name)
	}
}

// StreamingPull hands out messages as fast as the client reads them: what it
// does not read holds up the next answer, and so the next pull.
func (s subscriber) StreamingPull(stream pubsubpb.Subscriber_StreamingPullServer) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	sub, err := s.GetSubscription(ctx, &pubsubpb.GetSubscriptionRequest{Subscription: first.Subscription})
	if err != nil {
		return err
	}
	properties := &pubsubpb.StreamingPullResponse_SubscriptionProperties{
		ExactlyOnceDeliveryEnabled: sub.EnableExactlyOnceDelivery,
		MessageOrderingEnabled:     sub.EnableMessageOrdering,
	}
	pings, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- s.listen(ctx, stream, sub.Name, pings) }()

	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		published, returned := s.news.next(sub.Topic), s.news.next(sub.Name)
		messages, err := s.take(ctx, first)
		if err != nil {
			return err
		}
		if len(messages) > 0 {
			err := stream.Send(&pubsubpb.StreamingPullResponse{ReceivedMessages: messages, SubscriptionProperties: properties})
			if err != nil {
				return err
			}
		}
		more := make(chan struct{})
		if len(messages) == streamBatch {
			close(more)
		}
		select {
		case err := <-ended:
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		case <-pings:
			if first.ProtocolVersion >= 1 {
				if err := stream.Send(&pubsubpb.StreamingPullResponse{}); err != nil {
					return err
				}
			}
		case <-more:
		case <-published: // more of it is taken together
			if !pause.For(ctx, pollEvery) {
				return ctx.Err()
			}
		case <-returned:
			if !pause.For(ctx, pollEvery) {
				return ctx.Err()
			}
		case <-look.C:
		}
	}
}

// take pulls what is there, on the terms of the stream's first request.
func (s subscriber) take(ctx context.Context, first *pubsubpb.StreamingPullRequest) ([]*pubsubpb.ReceivedMessage, error) {
	if s.unused.find(first.Subscription) != nil {
		return nil, nil
	}
	got, err := s.Pull(ctx, &pubsubpb.PullRequest{
		Subscription: first.Subscription, MaxMessages: streamBatch,
		ReturnImmediately: true, //nolint:staticcheck // frowned upon in production; here it spares half a second
	})
	if err != nil || len(got.ReceivedMessages) == 0 || first.StreamAckDeadlineSeconds == 0 {
		return got.GetReceivedMessages(), err
	}
	ids := make([]string, len(got.ReceivedMessages))
	for i, m := range got.ReceivedMessages {
		ids[i] = m.AckId
	}
	_, err = s.ModifyAckDeadline(ctx, &pubsubpb.ModifyAckDeadlineRequest{
		Subscription: first.Subscription, AckIds: ids, AckDeadlineSeconds: first.StreamAckDeadlineSeconds,
	})
	return got.ReceivedMessages, err
}

// listen takes in acknowledgements and keep-alives until the client is done.
func (s subscriber) listen(
	ctx context.Context, stream pubsubpb.Subscriber_StreamingPullServer, subscription string, pings chan<- struct{},
) error {
	for {
		req, err := stream.Recv()
		if err != nil {
			return err
		}
		if len(req.AckIds) == 0 && len(req.ModifyDeadlineAckIds) == 0 {
			select {
			case pings <- struct{}{}:
				continue
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		ack := &pubsubpb.AcknowledgeRequest{Subscription: subscription, AckIds: req.AckIds}
		if err := s.unused.before(ctx, ack); err != nil { // one that was deleted and created again
			return err
		}
		if len(req.AckIds) > 0 {
			if _, err := s.Acknowledge(ctx, ack); err != nil {
				return err
			}
			s.news.tell(subscription) // the next of an ordering key may go
		}
		for i, id := range req.ModifyDeadlineAckIds {
			if i >= len(req.ModifyDeadlineSeconds) {
				break
			}
			_, err := s.ModifyAckDeadline(ctx, &pubsubpb.ModifyAckDeadlineRequest{
				Subscription: subscription, AckIds: []string{id}, AckDeadlineSeconds: req.ModifyDeadlineSeconds[i],
			})
			if err != nil {
				return err
			}
			s.news.tell(subscription)
		}
	}
}
