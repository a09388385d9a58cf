// Package postgres is the door to Postgres: pools, transactions, tenants,
// migrations and what its errors mean. It knows no table of either service.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
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

	// Pooler says what stands between this process and the server; empty is
	// NoPooler.
	Pooler Pooler

	// Traced records statements below recorded spans.
	Traced bool

	// Connections counts the connections that are open, those too that have left the pool
	// and the breaker's; nil = they are not counted.
	Connections *atomic.Int64

	// Breaker fails calls at once while the server hangs; nil = each waits for its
	// own deadline.
	Breaker *Breaker
}

// Pooler is a kind of proxy that shares server connections among processes.
type Pooler string

const (
	// NoPooler is a connection to the server itself: prepared statements are kept
	// on it, and the timeouts are sent at its start.
	NoPooler Pooler = "none"
	// TransactionPooler gives each transaction whichever server connection is free,
	// as PgBouncer does with pool_mode=transaction. Nothing may be kept on a
	// connection between transactions: statements are parsed each time (their
	// descriptions are remembered, so that this costs no round trip), and the
	// timeouts are those of the role, which Migrate sets. Session locks, LISTEN
	// and migrations need a connection without it.
	TransactionPooler Pooler = "transaction"
)

// The server's limits on a session that the client forgot. Migrate makes them the
// defaults of the login roles.
const (
	statementTimeout         = 5 * time.Second
	lockTimeout              = 3 * time.Second
	idleInTransactionTimeout = 10 * time.Second
	// maxStatements is how many statements a connection remembers: more than a service
	// has. The default of pgx takes 150 KB of each connection, used or not.
	maxStatements = 128
)

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
	set(&c.StatementTimeout, statementTimeout)
	set(&c.LockTimeout, lockTimeout)
	set(&c.IdleInTransactionTimeout, idleInTransactionTimeout)
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
	switch c.Pooler {
	case "", NoPooler:
	case TransactionPooler:
		if c.StatementTimeout != 0 || c.LockTimeout != 0 || c.IdleInTransactionTimeout != 0 {
			errs = append(errs, errors.New("postgres: behind a transaction pooler the role has the timeouts, and a connection none of its own"))
		}
	default:
		errs = append(errs, fmt.Errorf("postgres: there is no pooler %q", c.Pooler))
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
	if c.Connections != nil {
		cc.DialFunc = counted(cc.DialFunc, c.Connections)
	}
	cc.StatementCacheCapacity, cc.DescriptionCacheCapacity = maxStatements, maxStatements
	if c.Traced {
		cc.Tracer = tracer{}
	}
	params := map[string]string{"application_name": c.ApplicationName, "timezone": "UTC"} // PgBouncer knows these
	var checks []func(context.Context, *pgx.Conn) error
	if c.Pooler == TransactionPooler {
		cc.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
		checks = append(checks, refuseUnlimited)
	} else {
		cc.DefaultQueryExecMode = pgx.QueryExecModeCacheStatement
		params["statement_timeout"] = millis(c.StatementTimeout)
		params["lock_timeout"] = millis(c.LockTimeout)
		params["idle_in_transaction_session_timeout"] = millis(c.IdleInTransactionTimeout)
	}
	for name, value := range params {
		if value != "" {
			cc.RuntimeParams[name] = value
		}
	}
	if c.RequireIsolation {
		checks = append(checks, refuseUnbound)
	}
	pc.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		for _, check := range checks {
			if err := check(ctx, conn); err != nil {
				return err
			}
		}
		return nil
	}
	return pc, nil
}

// counted counts the connections that are open.
func counted(dial pgconn.DialFunc, connections *atomic.Int64) pgconn.DialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		connections.Add(1)
		return countedConn{c, sync.OnceFunc(func() { connections.Add(-1) })}, nil
	}
}

type countedConn struct {
	net.Conn
	closed func()
}

func (c countedConn) Close() error {
	c.closed()
	return c.Conn.Close()
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

// ErrUnlimited refuses a connection through a pooler whose role has no timeouts.
var ErrUnlimited = errors.New("role has no statement_timeout, lock_timeout or idle_in_transaction_session_timeout: " +
	"run the migrations, or set them with ALTER ROLE … SET")

// refuseUnlimited runs on each new connection through a pooler, which can not send
// the timeouts. Without them one stuck statement keeps a server connection, of
// which there are few, from all processes.
func refuseUnlimited(ctx context.Context, c *pgx.Conn) error {
	var unlimited bool
	err := c.QueryRow(ctx, `SELECT '0' IN (current_setting('statement_timeout'), current_setting('lock_timeout'),
		current_setting('idle_in_transaction_session_timeout'))`).Scan(&unlimited)
	switch {
	case err != nil:
		return fmt.Errorf("check timeouts: %w", err)
	case unlimited:
		return ErrUnlimited
	}
	return nil
}

// ValidURL reports whether a database's URL can be read. The reason why not is left
// out: it quotes the URL, and the URL holds a password.
func ValidURL(url string) bool {
	_, err := pgxpool.ParseConfig(url)
	return err == nil
}

// Plaintext reports whether a connection to one of the URL's servers may be made without
// TLS over the network: sslmode=prefer, which is the default, takes what it gets.
func Plaintext(url string) bool {
	pc, err := pgxpool.ParseConfig(url)
	if err != nil || url == "" {
		return false // which is reported by itself
	}
	c := pc.ConnConfig
	plain := func(host string, encrypted bool) bool {
		addr, err := netip.ParseAddr(host)
		local := strings.HasPrefix(host, "/") || host == "localhost" || err == nil && addr.Unmap().IsLoopback()
		return !encrypted && !local
	}
	return plain(c.Host, c.TLSConfig != nil) || slices.ContainsFunc(c.Fallbacks, func(f *pgconn.FallbackConfig) bool { return plain(f.Host, f.TLSConfig != nil) })
}

// Open returns a pool. It does not wait for the server: a service starts and
// serves its reads while Postgres is away, and Ping tells readiness.
func Open(ctx context.Context, cfg Config) (*pgxpool.Pool, error) {
	pc, err := cfg.poolConfig()
	if err != nil {
		return nil, err
	}
	if cfg.Breaker != nil {
		cfg.Breaker.guard(pc)
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
