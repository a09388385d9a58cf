// Package postgres is the door to Postgres: pools, transactions, tenants,
// migrations and what its errors mean. It knows no table of either service.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Config says how a pool connects. Zero values take the defaults.
type Config struct {
	URL string
	// ApplicationName shows in pg_stat_activity and in the server's log.
	ApplicationName string
	MaxConns        int // 12 (DATA_MODEL §6)
	MinConns        int // 0; held open and idle

	ConnectTimeout           time.Duration // 3 s
	StatementTimeout         time.Duration // 5 s; the server ends a statement that the client forgot
	LockTimeout              time.Duration // 3 s
	IdleInTransactionTimeout time.Duration // 10 s; a stuck process must not hold rows or the vacuum horizon
	MaxConnLifetime          time.Duration // 30 min, jittered; lets a failover's new address in
	MaxConnIdleTime          time.Duration // 5 min

	// RequireIsolation refuses every connection whose role row level security does
	// not bind: a superuser, a role with BYPASSRLS, or the owner of the schema's
	// tables. One wrong user in a URL would otherwise switch tenant isolation off
	// in silence.
	RequireIsolation bool

	Tracer pgx.QueryTracer
}

func (c Config) withDefaults() Config {
	setInt := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	set := func(v *time.Duration, d time.Duration) {
		if *v == 0 {
			*v = d
		}
	}
	setInt(&c.MaxConns, 12)
	set(&c.ConnectTimeout, 3*time.Second)
	set(&c.StatementTimeout, 5*time.Second)
	set(&c.LockTimeout, 3*time.Second)
	set(&c.IdleInTransactionTimeout, 10*time.Second)
	set(&c.MaxConnLifetime, 30*time.Minute)
	set(&c.MaxConnIdleTime, 5*time.Minute)
	return c
}

func (c Config) poolConfig() (*pgxpool.Config, error) {
	var errs []error
	if c.URL == "" {
		errs = append(errs, errors.New("postgres: no URL"))
	}
	if c.MaxConns < 0 || c.MaxConns > 10_000 || c.MinConns < 0 || c.MinConns > max(c.MaxConns, 12) {
		errs = append(errs, errors.New("postgres: pool size out of range"))
	}
	for name, d := range map[string]time.Duration{
		"connect": c.ConnectTimeout, "statement": c.StatementTimeout, "lock": c.LockTimeout,
		"idle in transaction": c.IdleInTransactionTimeout, "lifetime": c.MaxConnLifetime, "idle": c.MaxConnIdleTime,
	} {
		if d < 0 {
			errs = append(errs, fmt.Errorf("postgres: negative %s timeout", name))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	c = c.withDefaults()
	pc, err := pgxpool.ParseConfig(c.URL)
	if err != nil {
		return nil, errors.New("postgres: malformed URL") // the cause quotes the URL, and the URL holds a password
	}
	pc.MaxConns, pc.MinConns = int32(c.MaxConns), int32(c.MinConns) //nolint:gosec // checked above
	pc.MaxConnLifetime, pc.MaxConnLifetimeJitter = c.MaxConnLifetime, c.MaxConnLifetime/5
	pc.MaxConnIdleTime = c.MaxConnIdleTime
	pc.HealthCheckPeriod = 15 * time.Second
	pc.PingTimeout = time.Second
	cc := pc.ConnConfig
	cc.ConnectTimeout = c.ConnectTimeout
	cc.DefaultQueryExecMode = pgx.QueryExecModeCacheStatement
	cc.Tracer = c.Tracer
	for name, value := range map[string]string{
		"application_name":                    c.ApplicationName,
		"timezone":                            "UTC",
		"statement_timeout":                   millis(c.StatementTimeout),
		"lock_timeout":                        millis(c.LockTimeout),
		"idle_in_transaction_session_timeout": millis(c.IdleInTransactionTimeout),
	} {
		if value != "" {
			cc.RuntimeParams[name] = value
		}
	}
	if c.RequireIsolation {
		pc.AfterConnect = refuseUnbound
	}
	return pc, nil
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// ErrUnbound refuses a connection whose role row level security does not bind.
var ErrUnbound = errors.New("role is not bound by row level security")

// refuseUnbound runs on each new connection. A table's owner is bound too, by
// FORCE ROW LEVEL SECURITY, but could take that away.
func refuseUnbound(ctx context.Context, c *pgx.Conn) error {
	var unbound bool
	err := c.QueryRow(ctx, `SELECT rolsuper OR rolbypassrls OR EXISTS (
			SELECT FROM pg_class WHERE relrowsecurity AND pg_has_role(current_user, relowner, 'MEMBER'))
		FROM pg_roles WHERE rolname = current_user`).Scan(&unbound)
	switch {
	case err != nil:
		return fmt.Errorf("check role: %w", err)
	case unbound:
		return ErrUnbound
	}
	return nil
}

// Open returns a pool. It does not wait for the server: a service starts and
// serves its reads while Postgres is away, and Ping tells readiness.
func Open(ctx context.Context, cfg Config) (*pgxpool.Pool, error) {
	pc, err := cfg.poolConfig()
	if err != nil {
		return nil, err
	}
	pool, err := pgxpool.NewWithConfig(ctx, pc)
	if err != nil {
		return nil, fmt.Errorf("open postgres pool: %w", err)
	}
	return pool, nil
}

// Ping reports whether the server answers within a second.
func Ping(ctx context.Context, db *pgxpool.Pool) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if err := db.Ping(ctx); err != nil {
		return fmt.Errorf("ping postgres: %w", err)
	}
	return nil
}
