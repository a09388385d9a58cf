package stack

import (
	"context"
	"sync"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// unused are the subscriptions whose topic no message was published to yet. pstest looks
// at each subscription a hundred times a second, and a platform has dozens of them, most
// of which never receive anything: pstest gets them with the first message of their
// topic, or with the first request that needs more than their description.
type unused struct {
	fake fakePubSub

	mu   sync.Mutex
	subs map[string]*pubsubpb.Subscription // by name
	// fed are topics that pstest itself publishes to: dead letters go past our door.
	fed map[string]bool
}

type fakePubSub interface {
	pubsubpb.PublisherServer
	pubsubpb.SubscriberServer
}

func newUnused(fake fakePubSub) *unused {
	return &unused{fake: fake, subs: map[string]*pubsubpb.Subscription{}, fed: map[string]bool{}}
}

// create has pstest check and complete a subscription, and takes it back.
func (u *unused) create(ctx context.Context, sub *pubsubpb.Subscription) (*pubsubpb.Subscription, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.subs[sub.Name] != nil {
		return nil, status.Errorf(codes.AlreadyExists, "subscription %q", sub.Name)
	}
	if letters := sub.DeadLetterPolicy.GetDeadLetterTopic(); letters != "" {
		if err := u.feed(ctx, letters); err != nil {
			return nil, err
		}
	}
	made, err := u.fake.CreateSubscription(ctx, sub)
	if err != nil || u.fed[sub.Topic] {
		return made, err
	}
	made = proto.CloneOf(made)
	if _, err := u.fake.DeleteSubscription(ctx, &pubsubpb.DeleteSubscriptionRequest{Subscription: made.Name}); err != nil {
		return nil, err
	}
	u.subs[made.Name] = made
	return proto.CloneOf(made), nil
}

// find returns a subscription that pstest does not have yet, or nil.
func (u *unused) find(name string) *pubsubpb.Subscription {
	u.mu.Lock()
	defer u.mu.Unlock()
	if sub := u.subs[name]; sub != nil {
		return proto.CloneOf(sub)
	}
	return nil
}

// before gives pstest the subscriptions that a request concerns.
func (u *unused) before(ctx context.Context, req any) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch r := req.(type) {
	case *pubsubpb.GetSubscriptionRequest: // found here
		return nil
	case *pubsubpb.ListSubscriptionsRequest:
		return u.use(ctx, func(*pubsubpb.Subscription) bool { return true })
	case *pubsubpb.UpdateSubscriptionRequest:
		if letters := r.GetSubscription().GetDeadLetterPolicy().GetDeadLetterTopic(); letters != "" {
			if err := u.feed(ctx, letters); err != nil {
				return err
			}
		}
		return u.use(ctx, func(s *pubsubpb.Subscription) bool { return s.Name == r.GetSubscription().GetName() })
	case *pubsubpb.Subscription, *pubsubpb.Topic: // to be created
		return nil
	case interface{ GetTopic() string }: // a message, or the end of the topic
		return u.use(ctx, func(s *pubsubpb.Subscription) bool { return s.Topic == r.GetTopic() })
	case interface{ GetSubscription() string }:
		return u.use(ctx, func(s *pubsubpb.Subscription) bool { return s.Name == r.GetSubscription() })
	}
	return nil
}

// feed marks a topic as one that pstest publishes to by itself.
func (u *unused) feed(ctx context.Context, topic string) error {
	u.fed[topic] = true
	return u.use(ctx, func(s *pubsubpb.Subscription) bool { return s.Topic == topic })
}

func (u *unused) use(ctx context.Context, wanted func(*pubsubpb.Subscription) bool) error {
	for name, sub := range u.subs {
		if !wanted(sub) {
			continue
		}
		if _, err := u.fake.CreateSubscription(ctx, sub); err != nil {
			return err
		}
		delete(u.subs, name)
	}
	return nil
}
