// Package consumerstore keeps what the anonymous service keeps: Redis and
// Postgres together, because the specification makes one the mirror of the
// other. Callers say what they want kept; cap, mirror, event and recovery
// happen in here.
package consumerstore

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/rueidis"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/idempotency"
	"melmastoon.ghasi.io/bff/internal/outbox"
	"melmastoon.ghasi.io/bff/internal/postgres"
	"melmastoon.ghasi.io/bff/internal/redis"
)

// Config is what the store stands on.
type Config struct {
	DB       *pgxpool.Pool
	Sessions rueidis.Client
	Keys     redis.Keys
	Outbox   *outbox.Table
	Appender *outbox.Appender
	Waker    outbox.Waker // tells a relay that there is something to publish
	// Peppers hash the ids of sessions: the first for writing, all for reading.
	Peppers [][]byte
	// LeastTimeout lengthens the timeouts and waits that are shorter: for a machine that
	// is slower than those of production.
	LeastTimeout time.Duration
}

// Store implements the domain's Sessions, Wishlists, Ledger and Journal.
type Store struct {
	cfg  Config
	once *idempotency.Store
	// lanes let each guest make one change to a wishlist at a time in this process:
	// if the others waited in Postgres, one guest could use up the pool.
	lanes idempotency.Gate
	// undropped are the mirrors of wishlists that Redis could not be told to delete.
	undropped undropped
}

// New returns a Store.
func New(cfg Config) *Store {
	s := &Store{cfg: cfg, undropped: undropped{versions: map[bff.ID]int64{}, more: make(chan struct{}, 1)}}
	s.once = s.newOnce()
	return s
}

// within caps a call.
func (s *Store) within(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, max(timeout, s.cfg.LeastTimeout))
}

// Record journals events that have no transaction of their own.
func (s *Store) Record(ctx context.Context, events ...bff.Event) error {
	return durable(s.cfg.Appender.Append(ctx, events...))
}

// sessionTimeout caps every call to the session tier: it stands on the path of
// each request, and a guest is better served without a session than late.
const sessionTimeout = 150 * time.Millisecond

// followTimeout caps the writing of many steps at once, after the response.
const followTimeout = time.Second

// retryStore is when a client may sensibly try a refused mutation again.
const retryStore = 2 * time.Second

// durable codes the failure of a write that must not be lost.
func durable(err error) error { return postgres.Durable(err) }
