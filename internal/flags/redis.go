package flags

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/redis/rueidis"
)

// Redis is a hash from flag to value, the same for every instance. A message
// on the channel of the same name says that it has changed; what the message
// says does not matter, and one that is lost is made up for by the clock.
type Redis struct {
	client rueidis.Client
	key    string
}

// NewRedis returns the hash under key as a source.
func NewRedis(client rueidis.Client, key string) *Redis { return &Redis{client: client, key: key} }

// Name is "redis".
func (*Redis) Name() string { return "redis" }

// Load reads the hash.
func (r *Redis) Load(ctx context.Context) (map[string]string, error) {
	n, err := r.client.Do(ctx, r.client.B().Hlen().Key(r.key).Build()).AsInt64()
	if err != nil {
		return nil, err
	}
	if n > maxFlags {
		return nil, fmt.Errorf("more than %d flags", maxFlags)
	}
	return r.client.Do(ctx, r.client.B().Hgetall().Key(r.key).Build()).AsStrMap()
}

// Watch listens for changes. With every subscription, the first or one after a
// lost connection, a message may have been missed: so it counts as one.
func (r *Redis) Watch(ctx context.Context, changed func()) {
	hooked := rueidis.WithOnSubscriptionHook(ctx, func(rueidis.PubSubSubscription) { changed() })
	for ctx.Err() == nil {
		subscribe := r.client.B().Subscribe().Channel(r.key).Build()
		if err := r.client.Receive(hooked, subscribe, func(rueidis.PubSubMessage) { changed() }); err == nil {
			continue
		}
		pause := time.NewTimer(100*time.Millisecond + rand.N(400*time.Millisecond)) //nolint:gosec // jitter
		select {
		case <-ctx.Done():
		case <-pause.C:
		}
		pause.Stop()
	}
}

// Set gives a flag a value, on every instance within a moment.
func (r *Redis) Set(ctx context.Context, flag, text string) error {
	if len(flag) > maxValue || len(text) > maxValue {
		return fmt.Errorf("set flag: more than %d bytes", maxValue)
	}
	return r.change(ctx, r.client.B().Hset().Key(r.key).FieldValue().FieldValue(flag, text).Build())
}

// Unset takes a flag's value away: the layer below, or the default, decides.
func (r *Redis) Unset(ctx context.Context, flag string) error {
	return r.change(ctx, r.client.B().Hdel().Key(r.key).Field(flag).Build())
}

func (r *Redis) change(ctx context.Context, cmd rueidis.Completed) error {
	if err := r.client.Do(ctx, cmd).Error(); err != nil {
		return fmt.Errorf("change flag: %w", err)
	}
	if err := r.client.Do(ctx, r.client.B().Publish().Channel(r.key).Message("").Build()).Error(); err != nil {
		return fmt.Errorf("announce flag: %w", err)
	}
	return nil
}
