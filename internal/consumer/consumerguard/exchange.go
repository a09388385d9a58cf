package consumerguard

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"melmastoon.ghasi.io/bff/internal/consumer/bot"
)

const (
	exchangeEvery = time.Second
	// maxExchanged bounds one exchange.
	maxExchanged = 512
	// paceAge is how old a count of another instance may be.
	paceAge = 10 * time.Second
)

// Run exchanges what instances know of clients until the context ends.
func (g *Guard) Run(ctx context.Context) error {
	tick := time.NewTicker(exchangeEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			g.Exchange(ctx)
		}
	}
}

// Exchange reports to the other instances how many requests busy clients sent
// here, and takes in how many they sent there, and which clients are blocked.
func (g *Guard) Exchange(ctx context.Context) {
	now := g.cfg.Now()
	ms := now.UnixMilli()
	var paces []bot.Pace
	for _, key := range g.busy.take() {
		c, mu := g.clients.Lock(key, ms)
		// What is older than a count's window no longer counts.
		since := time.UnixMilli(max(c.reported, ms-paceAge.Milliseconds()))
		if n, ok := c.Report(ms); ok {
			c.reported = ms
			paces = append(paces, bot.Pace{Client: key, Requests: n, Since: since})
		}
		mu.Unlock()
	}
	if others, err := g.cfg.Memory.ExchangePaces(ctx, paces, now); err == nil {
		for i, p := range paces {
			c, mu := g.clients.Lock(p.Client, ms)
			c.Merge(ms, others[i])
			mu.Unlock()
		}
	}
	if blocked, err := g.cfg.Memory.Blocked(ctx, now); err == nil {
		for key, until := range blocked {
			c, mu := g.clients.Lock(key, ms)
			c.blockedUntil = max(c.blockedUntil, until.UnixMilli())
			mu.Unlock()
		}
	}
}

// busyClients are those whose pace the other instances should be told of.
type busyClients struct {
	mu      sync.Mutex
	pending map[uint64]struct{}
}

func newBusyClients() *busyClients { return &busyClients{pending: map[uint64]struct{}{}} }

func (b *busyClients) add(key uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.pending) < maxExchanged {
		b.pending[key] = struct{}{}
	}
}

func (b *busyClients) take() []uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	taken := slices.Collect(maps.Keys(b.pending))
	clear(b.pending)
	return taken
}
