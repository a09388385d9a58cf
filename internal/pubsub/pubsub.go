// Package pubsub is the door to Google Pub/Sub: topics named by their subjects,
// ordered publishing with one answer per message, and subscriptions that count
// failed deliveries themselves and set poison aside. It knows nothing of what
// the messages say.
package pubsub

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cloud.google.com/go/pubsub/v2"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"melmastoon.ghasi.io/bff/internal/tracing"
)

// Config says where Pub/Sub is. Zero values take the defaults.
type Config struct {
	ProjectID string
	// EmulatorHost is host:port of an emulator, reached without TLS and
	// credentials; empty means Google's own.
	EmulatorHost string
	// PublishTimeout bounds one publish call with the client's own retries in it.
	PublishTimeout time.Duration // 10 s
	// AdminTimeout bounds one call that creates a topic or a subscription.
	AdminTimeout time.Duration // 10 s
	// Parallel is how many publish calls of one batch run at once.
	Parallel int // 16
	// Tracer records publish calls that carry events of recorded requests, and a
	// share of deliveries; nil records nothing.
	Tracer *tracing.Tracer
}

// Client is one connection to Pub/Sub, shared by publisher and subscriptions.
type Client struct {
	cfg  Config
	ps   *pubsub.Client
	jobs chan func() // for the goroutines that publish
}

// Open connects lazily: it does not fail because Pub/Sub is away.
func Open(ctx context.Context, cfg Config) (*Client, error) {
	var errs []error
	if cfg.ProjectID == "" {
		errs = append(errs, errors.New("pubsub: no project id"))
	}
	if cfg.PublishTimeout < 0 || cfg.AdminTimeout < 0 {
		errs = append(errs, errors.New("pubsub: negative timeout"))
	}
	if cfg.Parallel < 0 {
		errs = append(errs, errors.New("pubsub: negative parallelism"))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if cfg.PublishTimeout == 0 {
		cfg.PublishTimeout = 10 * time.Second
	}
	if cfg.AdminTimeout == 0 {
		cfg.AdminTimeout = 10 * time.Second
	}
	if cfg.Parallel == 0 {
		cfg.Parallel = 16
	}
	var opts []option.ClientOption
	if cfg.EmulatorHost != "" {
		opts = append(opts,
			option.WithEndpoint(cfg.EmulatorHost),
			option.WithoutAuthentication(),
			option.WithTelemetryDisabled(),
			option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())))
	}
	ps, err := pubsub.NewClient(ctx, cfg.ProjectID, opts...)
	if err != nil {
		return nil, fmt.Errorf("open pubsub: %w", err)
	}
	c := &Client{cfg: cfg, ps: ps, jobs: make(chan func())}
	for range cfg.Parallel {
		go c.work()
	}
	return c, nil
}

// Close ends the connection. Publish and Subscribe must have returned.
func (c *Client) Close() error {
	close(c.jobs)
	return c.ps.Close()
}

func (c *Client) topic(name string) string {
	return "projects/" + c.cfg.ProjectID + "/topics/" + name
}

func (c *Client) subscription(name string) string {
	return "projects/" + c.cfg.ProjectID + "/subscriptions/" + name
}

// EnsureTopics creates the topics that do not exist yet, for development and
// tests; in production they stand before the service starts.
func (c *Client) EnsureTopics(ctx context.Context, names ...string) error {
	for _, name := range names {
		if err := c.ensureTopic(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

func (c *Client) ensureTopic(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.AdminTimeout)
	defer cancel()
	_, err := c.ps.TopicAdminClient.CreateTopic(ctx, &pubsubpb.Topic{Name: c.topic(name)})
	if err != nil && status.Code(err) != codes.AlreadyExists {
		return fmt.Errorf("create topic %s: %w", name, err)
	}
	return nil
}

// EnsureSubscription creates a subscription with its topic and dead-letter
// topic when they do not exist yet.
func (c *Client) EnsureSubscription(ctx context.Context, sub Subscription) error {
	if err := sub.validate(); err != nil {
		return err
	}
	sub = sub.withDefaults()
	topics := []string{sub.Topic}
	if sub.DLQ != "" {
		topics = append(topics, sub.DLQ)
	}
	if err := c.EnsureTopics(ctx, topics...); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.AdminTimeout)
	defer cancel()
	want := &pubsubpb.Subscription{
		Name:                  c.subscription(sub.Name),
		Topic:                 c.topic(sub.Topic),
		AckDeadlineSeconds:    int32(sub.AckDeadline / time.Second), //nolint:gosec // at most ten minutes
		EnableMessageOrdering: sub.Ordered,
		Filter:                sub.Filter,
		RetryPolicy: &pubsubpb.RetryPolicy{
			MinimumBackoff: durationpb.New(sub.MinBackoff),
			MaximumBackoff: durationpb.New(sub.MaxBackoff),
		},
	}
	if sub.ServerDeadLetter {
		want.DeadLetterPolicy = &pubsubpb.DeadLetterPolicy{
			DeadLetterTopic:     c.topic(sub.DLQ),
			MaxDeliveryAttempts: int32(sub.serverAttempts()), //nolint:gosec // at most 100
		}
	}
	_, err := c.ps.SubscriptionAdminClient.CreateSubscription(ctx, want)
	if err != nil && status.Code(err) != codes.AlreadyExists {
		return fmt.Errorf("create subscription %s: %w", sub.Name, err)
	}
	return nil
}

// DeleteSubscription removes a subscription that a tool made for itself.
func (c *Client) DeleteSubscription(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.AdminTimeout)
	defer cancel()
	err := c.ps.SubscriptionAdminClient.DeleteSubscription(ctx, &pubsubpb.DeleteSubscriptionRequest{Subscription: c.subscription(name)})
	if err != nil {
		return fmt.Errorf("delete subscription %s: %w", name, err)
	}
	return nil
}
