package consumerd

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/rueidis"

	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/consumer/consumerevents"
	"melmastoon.ghasi.io/bff/internal/consumer/consumerstore"
	"melmastoon.ghasi.io/bff/internal/daemon"
	"melmastoon.ghasi.io/bff/internal/pubsub"
	"melmastoon.ghasi.io/bff/internal/redis"
)

// listening is what received events act on.
type listening struct {
	db        *pgxpool.Pool
	redis     rueidis.Client
	cache     consumerevents.Invalidator
	suspended *consumer.SuspendedTenants
}

// subscribeAgain is the longest pause before a subscription that cannot be
// received from is tried again.
const subscribeAgain = 5 * time.Second

// addSubscriptions keeps the list of suspended tenants and receives events. The
// list is there before the listeners open.
func (c *Config) addSubscriptions(ctx context.Context, d *daemon.Daemon, on listening, log *slog.Logger) error {
	bell, err := openRedis(d, "bell", c.RedisSessionURL)
	if err != nil {
		return err
	}
	tenants := consumerstore.NewSuspensions(consumerstore.SuspensionsConfig{
		DB: on.db, Set: on.redis, Bell: bell, Keys: redis.NewKeys(c.Environment, name), List: on.suspended, Log: log,
	})
	d.Add("suspended tenants", tenants.Load, nil)
	d.AddLoop("suspended tenants", tenants.Run)

	client, err := pubsub.Open(ctx, pubsub.Config{ProjectID: c.PubSubProject, EmulatorHost: c.PubSubEmulator})
	if err != nil {
		return err
	}
	d.Add("subscriber", nil, func(context.Context) error { return client.Close() })
	inbox := consumerstore.NewInbox(on.db)
	receiver := consumerevents.NewReceiver(consumerevents.Config{
		Inbox: inbox, Tenants: tenants, Cache: on.cache, Log: log, Now: time.Now,
	})
	// On an emulator what is published before a subscription stands is lost: a
	// process that says it is ready must not lose it.
	d.Add("subscriptions of an emulator", func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, topicsTimeout)
		defer cancel()
		for _, sub := range consumerevents.Subscriptions() {
			if err := c.ensureSubscription(ctx, client, sub); err != nil {
				log.WarnContext(ctx, "subscriptions could not be created yet", "error", err.Error())
				break
			}
		}
		return nil
	}, nil)
	for _, sub := range consumerevents.Subscriptions() {
		sub.Attempts, sub.Logger = inbox, log
		d.AddLoop("subscription "+sub.Name, func(ctx context.Context) error {
			c.subscribe(ctx, client, sub, receiver.Receive, log)
			return nil
		})
	}
	return nil
}

// subscribe receives until ctx ends. Neither an absent Pub/Sub nor an absent
// subscription ends the process: guests are served without them.
func (c *Config) subscribe(ctx context.Context, client *pubsub.Client, sub pubsub.Subscription, handle pubsub.Handler, log *slog.Logger) {
	for pause := 100 * time.Millisecond; ctx.Err() == nil; pause = min(2*pause, subscribeAgain) {
		err := c.ensureSubscription(ctx, client, sub)
		if err == nil {
			err = client.Subscribe(ctx, sub, handle)
		}
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			err = errors.New("ended without being told")
		}
		log.WarnContext(ctx, "subscription is tried again", "subscription", sub.Name, "error", err.Error())
		t := time.NewTimer(pause/2 + rand.N(pause/2)) //nolint:gosec // jitter
		select {
		case <-ctx.Done():
		case <-t.C:
		}
		t.Stop()
	}
}

// ensureSubscription creates the subscription on an emulator, and one that
// keeps its dead letters; in production both stand before the service does.
func (c *Config) ensureSubscription(ctx context.Context, client *pubsub.Client, sub pubsub.Subscription) error {
	if c.PubSubEmulator == "" {
		return nil
	}
	return errors.Join(
		client.EnsureSubscription(ctx, sub),
		client.EnsureSubscription(ctx, pubsub.Subscription{Name: sub.DLQ, Topic: sub.DLQ}),
	)
}
