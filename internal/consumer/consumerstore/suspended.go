package consumerstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/rueidis"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/consumer/discovery"
	"melmastoon.ghasi.io/bff/internal/pause"
	"melmastoon.ghasi.io/bff/internal/postgres"
	"melmastoon.ghasi.io/bff/internal/redis"
)

// SuspensionsConfig is what suspensions are kept in.
type SuspensionsConfig struct {
	DB   *pgxpool.Pool
	Set  rueidis.Client // of the mirror
	Bell rueidis.Client // a connection of its own: it listens
	Keys redis.Keys
	// Cache forgets answers by what they are about, in every instance.
	Cache interface {
		Invalidate(ctx context.Context, tags ...string) error
	}
	// List is this process's own.
	List *consumer.SuspendedTenants
	Log  *slog.Logger
	// Every is how often the list is read without being told to; 3 s when zero.
	Every time.Duration
}

// Suspensions keeps which tenants are suspended (DATA_MODEL §3.7): Postgres is
// the truth, a set in Redis its mirror, and each process has a list in memory
// that is asked on every request.
//
// A change is recorded by the one instance that received it. It then rings a
// bell over Redis, and every instance reads the table again. The bell carries
// nothing: readings of one process follow each other and each sees what was
// committed before it began, so that no late message can undo a newer change.
// A lost ring costs one interval.
type Suspensions struct {
	cfg  SuspensionsConfig
	ring chan struct{}
	mu   sync.Mutex // one reading at a time
}

var _ consumer.TenantStatus = (*Suspensions)(nil)

// NewSuspensions returns the keeper of a process's list.
func NewSuspensions(cfg SuspensionsConfig) *Suspensions {
	if cfg.Every == 0 {
		cfg.Every = 3 * time.Second
	}
	return &Suspensions{cfg: cfg, ring: make(chan struct{}, 1)}
}

// refreshTimeout caps one reading of the table, or of its mirror.
const refreshTimeout = 2 * time.Second

func (s *Suspensions) setKey() string  { return s.cfg.Keys.Key("tenant-suspended") }
func (s *Suspensions) bellKey() string { return s.cfg.Keys.Key("tenant-suspended", "bell") }

// ChangeTenant records an event about a tenant with its effect, unless a newer
// one was recorded before.
func (s *Suspensions) ChangeTenant(ctx context.Context, in consumer.Inbound, c consumer.TenantChange) (consumer.Reception, error) {
	var seen consumer.Reception
	err := postgres.InTx(ctx, s.cfg.DB, func(tx pgx.Tx) error {
		var err error
		if seen, err = receive(ctx, tx, in); err != nil || seen != consumer.ReceivedFirst {
			return err
		}
		newest, err := claimNewest(ctx, tx, in, c)
		if err != nil {
			return err
		}
		if newest {
			if err := setSuspended(ctx, tx, in, c); err != nil {
				return err
			}
		}
		return processed(ctx, tx, in)
	})
	if err != nil {
		return 0, fmt.Errorf("change tenant: %w", err)
	}
	return seen, nil
}

// CorrectTenant records what tenant-service says, unless an event or a reading
// that is newer than the moment was recorded before.
func (s *Suspensions) CorrectTenant(ctx context.Context, c consumer.TenantChange, at time.Time) (changed bool, err error) {
	reading := consumer.Inbound{Subject: "tenant-service", OccurredAt: at}
	err = postgres.InTx(ctx, s.cfg.DB, func(tx pgx.Tx) error {
		if changed, err = claimNewest(ctx, tx, reading, c); err != nil || !changed {
			return err
		}
		return setSuspended(ctx, tx, reading, c)
	})
	if err != nil {
		return false, fmt.Errorf("correct tenant: %w", err)
	}
	return changed, nil
}

// claimNewest moves the mark of the newest event about a tenant forward, and
// reports false when it already stands beyond this one. Of two events of one
// moment the suspension wins.
func claimNewest(ctx context.Context, tx pgx.Tx, in consumer.Inbound, c consumer.TenantChange) (bool, error) {
	tag, err := tx.Exec(ctx, `INSERT INTO bff_consumer.tenant_status_marks AS m (tenant_id, subject, occurred_at) VALUES ($1::uuid, $2, $3)
		ON CONFLICT (tenant_id) DO UPDATE SET subject = excluded.subject, occurred_at = excluded.occurred_at
		WHERE m.occurred_at < excluded.occurred_at OR (m.occurred_at = excluded.occurred_at AND $4)`,
		c.Tenant.UUID(), in.Subject, in.OccurredAt, c.Suspended)
	if err != nil {
		return false, fmt.Errorf("mark newest: %w", err)
	}
	return tag.RowsAffected() > 0, nil
}

func setSuspended(ctx context.Context, tx pgx.Tx, in consumer.Inbound, c consumer.TenantChange) error {
	var err error
	if c.Suspended {
		_, err = tx.Exec(ctx, `INSERT INTO bff_consumer.tenant_suspended_cache (tenant_id, suspended_at, reason) VALUES ($1::uuid, $2, $3)
			ON CONFLICT (tenant_id) DO UPDATE SET suspended_at = excluded.suspended_at, reason = excluded.reason, refreshed_at = now()`,
			c.Tenant.UUID(), in.OccurredAt, c.Reason)
	} else {
		_, err = tx.Exec(ctx, `DELETE FROM bff_consumer.tenant_suspended_cache WHERE tenant_id = $1::uuid`, c.Tenant.UUID())
	}
	if err != nil {
		return fmt.Errorf("set suspended: %w", err)
	}
	return nil
}

// Announce brings this process's list and the mirror up to date, tells the other
// instances to do the same, and has the answers forgotten that show the tenant or
// leave it out. Each is tried whatever became of the others: without Redis the
// instances read the table a little later.
func (s *Suspensions) Announce(ctx context.Context, tenant bff.ID) error {
	err := s.refresh(ctx)
	ctx, cancel := context.WithTimeout(ctx, refreshTimeout)
	defer cancel()
	c := s.cfg.Set
	if ringErr := c.Do(ctx, c.B().Publish().Channel(s.bellKey()).Message("").Build()).Error(); ringErr != nil {
		err = errors.Join(err, fmt.Errorf("ring: %w", ringErr))
	}
	if cacheErr := s.cfg.Cache.Invalidate(ctx, discovery.TenantTag(tenant), discovery.WithoutTag(tenant)); cacheErr != nil {
		err = errors.Join(err, fmt.Errorf("invalidate cache: %w", cacheErr))
	}
	return err
}

// refresh reads the table into the list and puts the mirror right.
func (s *Suspensions) refresh(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, refreshTimeout)
	defer cancel()
	tenants, err := s.read(ctx)
	if err != nil {
		return err
	}
	s.cfg.List.Replace(tenants)
	return s.mirror(ctx, tenants)
}

func (s *Suspensions) read(ctx context.Context) ([]bff.ID, error) {
	rows, err := s.cfg.DB.Query(ctx, `SELECT tenant_id::text FROM bff_consumer.tenant_suspended_cache`)
	if err != nil {
		return nil, fmt.Errorf("read suspended tenants: %w", err)
	}
	tenants, err := pgx.CollectRows(rows, scanTenant)
	if err != nil {
		return nil, fmt.Errorf("read suspended tenants: %w", err)
	}
	return tenants, nil
}

// mirror makes the set in Redis equal to the table. Two instances that read at
// different moments may disagree for one interval.
func (s *Suspensions) mirror(ctx context.Context, tenants []bff.ID) error {
	have, err := s.mirrored(ctx)
	if err != nil {
		return err
	}
	c := s.cfg.Set
	var commands rueidis.Commands
	for _, t := range tenants {
		if !slices.Contains(have, t) {
			commands = append(commands, c.B().Sadd().Key(s.setKey()).Member(t.String()).Build())
		}
	}
	for _, t := range have {
		if !slices.Contains(tenants, t) {
			commands = append(commands, c.B().Srem().Key(s.setKey()).Member(t.String()).Build())
		}
	}
	var errs []error
	for _, r := range c.DoMulti(ctx, commands...) {
		errs = append(errs, r.Error())
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("mirror suspended tenants: %w", err)
	}
	return nil
}

func (s *Suspensions) mirrored(ctx context.Context) ([]bff.ID, error) {
	c := s.cfg.Set
	members, err := c.Do(ctx, c.B().Smembers().Key(s.setKey()).Build()).AsStrSlice()
	if err != nil {
		return nil, fmt.Errorf("read mirror of suspended tenants: %w", err)
	}
	tenants := make([]bff.ID, 0, len(members))
	for _, m := range members {
		if id, err := bff.ParseID(bff.PrefixTenant, m); err == nil {
			tenants = append(tenants, id)
		}
	}
	return tenants, nil
}

// Load fills the list before the process serves: from the table, or from its
// mirror when Postgres is away. With both away it starts empty and Run catches
// up; the ledger checks the table itself before it mints anything.
func (s *Suspensions) Load(ctx context.Context) error {
	err := s.refresh(ctx)
	if err == nil || !s.cfg.List.Empty() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, refreshTimeout)
	defer cancel()
	tenants, mirrorErr := s.mirrored(ctx)
	if mirrorErr != nil {
		s.cfg.Log.WarnContext(ctx, "suspended tenants could not be read yet", "error", errors.Join(err, mirrorErr).Error())
		return nil
	}
	s.cfg.List.Replace(tenants)
	return nil
}

// Run keeps the list up to date until ctx ends.
func (s *Suspensions) Run(ctx context.Context) error {
	listening := make(chan struct{})
	go func() {
		defer close(listening)
		s.listen(ctx)
	}()
	defer func() { <-listening }()
	timer := time.NewTimer(s.cfg.Every)
	defer timer.Stop()
	quiet := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.ring:
		case <-timer.C:
		}
		err := s.refresh(ctx)
		if err != nil && ctx.Err() == nil && !quiet {
			s.cfg.Log.WarnContext(ctx, "suspended tenants could not be read", "error", err.Error())
		}
		quiet = err != nil // one line per outage
		timer.Reset(s.cfg.Every)
	}
}

// listen hears the bell. With every subscription, the first or one after a lost
// connection, a ring may have been missed: so it counts as one.
func (s *Suspensions) listen(ctx context.Context) {
	hooked := rueidis.WithOnSubscriptionHook(ctx, func(rueidis.PubSubSubscription) { s.wake() })
	c := s.cfg.Bell
	for ctx.Err() == nil {
		err := c.Receive(hooked, c.B().Subscribe().Channel(s.bellKey()).Build(), func(rueidis.PubSubMessage) { s.wake() })
		if err == nil {
			continue
		}
		pause.Reconnect(ctx)
	}
}

// wake must not block: it runs on the connection's reader.
func (s *Suspensions) wake() {
	select {
	case s.ring <- struct{}{}:
	default:
	}
}
