package consumerstore

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/pause"
)

const (
	// seenPause lets a burst of answers become one statement.
	seenPause   = time.Second
	seenTimeout = 2 * time.Second
	seenRetry   = 10 * time.Second
	// seenAgain is how long a process does not write a tenant again; rows are pruned
	// by when they were last written.
	seenAgain = 12 * time.Hour
	maxSeen   = 50_000 // tenants that a process remembers
)

// SeenTenants keeps the tenants that upstreams' answers named. All instances write
// to one table, so that a process that starts knows them.
type SeenTenants struct {
	db   *pgxpool.Pool
	log  *slog.Logger
	wake chan struct{}

	mu      sync.Mutex
	known   map[bff.ID]struct{} // those that need not be written
	since   time.Time           // of known
	waiting []bff.ID
}

var _ consumer.SeenTenants = (*SeenTenants)(nil)

// NewSeenTenants returns a keeper that has seen none yet.
func NewSeenTenants(db *pgxpool.Pool, log *slog.Logger) *SeenTenants {
	return &SeenTenants{db: db, log: log, wake: make(chan struct{}, 1), known: map[bff.ID]struct{}{}, since: time.Now()}
}

// Add notes tenants, for Run to write. It waits for nothing.
func (s *SeenTenants) Add(tenants ...bff.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.known) > maxSeen || time.Since(s.since) > seenAgain {
		s.known, s.since = map[bff.ID]struct{}{}, time.Now()
	}
	for _, t := range tenants {
		if _, known := s.known[t]; known || t.IsZero() || len(s.waiting) > maxSeen {
			continue
		}
		s.known[t] = struct{}{}
		s.waiting = append(s.waiting, t)
	}
	if len(s.waiting) > 0 {
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
}

// Run writes what was noted until ctx ends. What is not written then is seen
// again by another process.
func (s *SeenTenants) Run(ctx context.Context) error {
	quiet := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.wake:
		}
		if !pause.For(ctx, seenPause) {
			return nil
		}
		for {
			err := s.write(ctx)
			if err == nil {
				quiet = false
				break
			}
			if ctx.Err() == nil && !quiet {
				s.log.WarnContext(ctx, "tenants that were seen could not be written, retrying; the status of new tenants is not reconciled meanwhile", "error", err.Error())
			}
			quiet = true // one line per outage
			if !pause.For(ctx, seenRetry) {
				return nil
			}
		}
	}
}

func (s *SeenTenants) write(ctx context.Context) error {
	s.mu.Lock()
	batch := s.waiting
	s.waiting = nil
	s.mu.Unlock()
	if len(batch) == 0 {
		return nil
	}
	// In one order, so that two instances do not wait for each other's rows.
	slices.SortFunc(batch, func(a, b bff.ID) int { return strings.Compare(a.UUID(), b.UUID()) })
	uuids := make([]string, len(batch))
	for i, t := range batch {
		uuids[i] = t.UUID()
	}
	ctx, cancel := context.WithTimeout(ctx, seenTimeout)
	defer cancel()
	if _, err := s.db.Exec(ctx, `INSERT INTO bff_consumer.tenants_seen AS t (tenant_id) SELECT unnest($1::text[])::uuid
		ON CONFLICT (tenant_id) DO UPDATE SET seen_at = now() WHERE t.seen_at < now() - interval '1 day'`, uuids); err != nil {
		s.mu.Lock()
		s.waiting = append(batch, s.waiting...)
		s.mu.Unlock()
		return fmt.Errorf("write seen tenants: %w", err)
	}
	return nil
}

// ListTenants implements consumer.SeenTenants: those that were seen, and those that
// are recorded as suspended.
func (s *SeenTenants) ListTenants(ctx context.Context, after bff.ID, limit int) ([]bff.ID, error) {
	rows, err := s.db.Query(ctx, `SELECT tenant_id::text FROM (
			SELECT tenant_id FROM bff_consumer.tenants_seen UNION SELECT tenant_id FROM bff_consumer.tenant_suspended_cache) t
		WHERE tenant_id > $1::uuid ORDER BY tenant_id LIMIT $2`, after.UUID(), limit)
	if err != nil {
		return nil, fmt.Errorf("list seen tenants: %w", err)
	}
	tenants, err := pgx.CollectRows(rows, scanTenant)
	if err != nil {
		return nil, fmt.Errorf("list seen tenants: %w", err)
	}
	return tenants, nil
}

func scanTenant(row pgx.CollectableRow) (bff.ID, error) {
	var uuid string
	if err := row.Scan(&uuid); err != nil {
		return bff.ID{}, err
	}
	return bff.IDFromUUID(bff.PrefixTenant, uuid)
}
