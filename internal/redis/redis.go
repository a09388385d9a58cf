// Package redis opens the doors to Redis: one client per tier, the key builder
// and scripts. It knows key shapes, not what is kept behind them.
package redis

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// Config says which server and how patient to be.
type Config struct {
	URL string // redis://[:password@]host:port/db; several hosts as addr= parameters for a cluster
	// Tier is what CLIENT LIST shows, such as bff-consumer-session.
	Tier string
	// Timeout caps a write to the socket; calls carry their own deadlines.
	Timeout time.Duration
}

const bufferSize = 64 << 10

// Open connects one tier. Tiers have separate clients, so that a flood of
// cache traffic cannot queue in front of a session.
func Open(cfg Config) (rueidis.Client, error) {
	opt, err := rueidis.ParseURL(cfg.URL)
	if err != nil {
		return nil, errors.New("redis: the URL cannot be read") // the URL may hold a password
	}
	opt.ClientName = cfg.Tier
	opt.DisableCache = true // our own invalidation bus does this; managed servers may lack tracking
	opt.ConnWriteTimeout = cfg.Timeout
	opt.Dialer.Timeout = cfg.Timeout
	// Few connections with full pipelines, and buffers for pages, not for files: what
	// the library takes by default is a tenth of this process's memory.
	opt.PipelineMultiplex = 1
	opt.ReadBufferEachConn, opt.WriteBufferEachConn = bufferSize, bufferSize
	c, err := rueidis.NewClient(opt)
	if err == nil {
		return c, nil
	}
	// A service must be able to start while its Redis is away: a lone server is
	// then dialled again with each call. A cluster must tell its shape first.
	if len(opt.InitAddress) == 1 {
		opt.ForceSingleClient = true
		if c, _ := rueidis.NewClient(opt); c != nil {
			return c, nil
		}
	}
	return nil, fmt.Errorf("redis %s: %w", cfg.Tier, err)
}

// Ping is a readiness check.
func Ping(c rueidis.Client) func(ctx context.Context) error {
	return func(ctx context.Context) error { return c.Do(ctx, c.B().Ping().Build()).Error() }
}

// Keys builds the keys of one service in one environment.
type Keys struct{ prefix string }

// NewKeys returns the builder for "{env}:{service}:…".
func NewKeys(env, service string) Keys { return Keys{prefix: env + ":" + service + ":"} }

// Key joins the parts below the service's prefix.
func (k Keys) Key(parts ...string) string { return k.prefix + strings.Join(parts, ":") }
