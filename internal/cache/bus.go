package cache

import (
	"context"
	"sync"

	"github.com/redis/rueidis"

	"melmastoon.ghasi.io/bff/internal/pause"
)

// bus subscribes to two channels: the bell of the invalidation log, and the keys whose
// fill has ended. Both only save time: the log is also read by the clock, and
// followers also poll.
type bus struct {
	client rueidis.Client
	bell   string
	fills  string
	ring   chan struct{}

	mu       sync.Mutex
	watchers map[string][]chan struct{}
}

func newBus(c rueidis.Client, bell, fills string) *bus {
	return &bus{
		client: c, bell: bell, fills: fills,
		ring: make(chan struct{}, 1), watchers: map[string][]chan struct{}{},
	}
}

// run listens until the context ends.
func (b *bus) run(ctx context.Context) {
	// After every subscription, the first or after a lost connection: messages may
	// have been missed.
	hooked := rueidis.WithOnSubscriptionHook(ctx, func(rueidis.PubSubSubscription) { b.ringBell() })
	for ctx.Err() == nil {
		subscribe := b.client.B().Subscribe().Channel(b.bell, b.fills).Build()
		if err := b.client.Receive(hooked, subscribe, b.receive); err == nil {
			continue
		}
		pause.Reconnect(ctx)
	}
}

// receive must not block: it runs on the connection's reader.
func (b *bus) receive(m rueidis.PubSubMessage) {
	switch m.Channel {
	case b.bell:
		b.ringBell()
	case b.fills:
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, c := range b.watchers[m.Message] {
			select {
			case c <- struct{}{}:
			default:
			}
		}
	}
}

func (b *bus) ringBell() {
	select {
	case b.ring <- struct{}{}:
	default:
	}
}

// watch signals the end of each fill of key until stop is called.
func (b *bus) watch(key string) (ended <-chan struct{}, stop func()) {
	c := make(chan struct{}, 1)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.watchers[key] = append(b.watchers[key], c)
	return c, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		rest := b.watchers[key][:0]
		for _, w := range b.watchers[key] {
			if w != c {
				rest = append(rest, w)
			}
		}
		if b.watchers[key] = rest; len(rest) == 0 {
			delete(b.watchers, key)
		}
	}
}
