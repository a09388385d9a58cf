package pubsub

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Resources are the topics and subscriptions that a service needs in a project.
// Its JSON is for tools that create them, such as Terraform.
type Resources struct {
	Topics []string `json:"topics"` // its own, those of dead letters included
	// Sources are the topics of other producers that the subscriptions are of.
	Sources       []string   `json:"sources"`
	Subscriptions []Resource `json:"subscriptions"`
}

// Resource is a subscription as it has to be created.
type Resource struct {
	Name                string `json:"name"`
	Topic               string `json:"topic"`
	DeadLetterTopic     string `json:"deadLetterTopic,omitempty"`
	MaxDeliveryAttempts int    `json:"maxDeliveryAttempts,omitempty"`
	AckDeadlineSeconds  int    `json:"ackDeadlineSeconds"`
	MinBackoff          string `json:"minimumBackoff"`
	MaxBackoff          string `json:"maximumBackoff"`
	Ordered             bool   `json:"enableMessageOrdering"`
	Filter              string `json:"filter,omitempty"`
}

// Needed lists what a service needs that publishes to the topics and receives
// through the subscriptions.
func Needed(topics []string, subs []Subscription) Resources {
	r := Resources{Topics: append([]string{}, topics...), Sources: []string{}, Subscriptions: []Resource{}}
	for _, s := range subs {
		s = s.withDefaults()
		r.Sources = append(r.Sources, s.Topic)
		res := Resource{
			Name: s.Name, Topic: s.Topic, AckDeadlineSeconds: int(s.AckDeadline / time.Second),
			MinBackoff: seconds(s.MinBackoff), MaxBackoff: seconds(s.MaxBackoff), Ordered: s.Ordered, Filter: s.Filter,
		}
		if s.DLQ != "" {
			r.Topics = append(r.Topics, s.DLQ)
			res.DeadLetterTopic, res.MaxDeliveryAttempts = s.DLQ, s.serverAttempts()
		}
		r.Subscriptions = append(r.Subscriptions, res)
	}
	for _, list := range []*[]string{&r.Topics, &r.Sources} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	return r
}

// seconds is a duration as Pub/Sub's API writes it.
func seconds(d time.Duration) string {
	return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + "s"
}

// serverAttempts is the limit of Pub/Sub's own dead-letter policy. It stands behind
// ours, for a process that dies on a message before it can count: it must not fire
// first.
func (s Subscription) serverAttempts() int { return min(100, max(5, 2*s.MaxAttempts)) }

// Lack is something that a service needs of a project and that is not as it should be.
type Lack struct {
	Name string // "topic …" or "subscription …"
	Text string // what is wrong
}

// inspectors is how many look-ups run at once.
const inspectors = 16

// Inspect looks every topic and subscription up and reports those that are missing or
// lead elsewhere, in their order. It stops at the first look-up that fails otherwise.
func (c *Client) Inspect(ctx context.Context, r Resources) ([]Lack, error) {
	type look struct {
		name string
		find func(context.Context) (string, error)
	}
	var looks []look
	for _, topic := range slices.Concat(r.Topics, r.Sources) {
		looks = append(looks, look{"topic " + topic, func(ctx context.Context) (string, error) {
			_, err := c.ps.TopicAdminClient.GetTopic(ctx, &pubsubpb.GetTopicRequest{Topic: c.topic(topic)})
			return "", err
		}})
	}
	for _, want := range r.Subscriptions {
		looks = append(looks, look{"subscription " + want.Name, func(ctx context.Context) (string, error) {
			return c.inspectSubscription(ctx, want)
		}})
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	found := make([]string, len(looks))
	queue := make(chan int)
	var wg sync.WaitGroup
	for range min(inspectors, len(looks)) {
		wg.Go(func() {
			for i := range queue {
				text, err := looks[i].find(ctx)
				switch {
				case status.Code(err) == codes.NotFound:
					text = "does not exist"
				case err != nil:
					cancel(fmt.Errorf("look up %s: %w", looks[i].name, err))
				}
				found[i] = text
			}
		})
	}
	for i := range looks {
		queue <- i
	}
	close(queue)
	wg.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	var lacks []Lack
	for i, text := range found {
		if text != "" {
			lacks = append(lacks, Lack{looks[i].name, text})
		}
	}
	return lacks, nil
}

// inspectSubscription compares what cannot be changed later: a subscription that has
// it wrong must be made anew.
func (c *Client) inspectSubscription(ctx context.Context, want Resource) (string, error) {
	got, err := c.ps.SubscriptionAdminClient.GetSubscription(ctx, &pubsubpb.GetSubscriptionRequest{Subscription: c.subscription(want.Name)})
	switch {
	case err != nil:
		return "", err
	case got.GetTopic() != c.topic(want.Topic):
		return "is of the topic " + strings.TrimPrefix(got.GetTopic(), c.topic("")) + ", want " + want.Topic, nil
	case got.GetEnableMessageOrdering() != want.Ordered:
		return fmt.Sprintf("has message ordering %t, want %t", got.GetEnableMessageOrdering(), want.Ordered), nil
	case got.GetFilter() != want.Filter:
		return "has another filter than the service needs", nil
	}
	return "", nil
}
