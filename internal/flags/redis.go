package flags

import (
	"context"
	"fmt"

	"github.com/redis/rueidis"

	"melmastoon.ghasi.io/bff/internal/pause"
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
		pause.Reconnect(ctx)
	}
}
