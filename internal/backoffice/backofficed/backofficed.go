// Package backofficed is the staff service's composition root: its commands,
// its configuration and the wiring of its parts. For now the service holds its
// schema and answers for its health; its routes come with the domain.
package backofficed

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"time"

	"melmastoon.ghasi.io/bff/internal/daemon"
	"melmastoon.ghasi.io/bff/internal/postgres"
	"melmastoon.ghasi.io/bff/internal/redis"
	"melmastoon.ghasi.io/bff/internal/web"
	"melmastoon.ghasi.io/bff/migrations"
)

const name = "bff-backoffice"

// Config is everything that the service can be told.
type Config struct {
	daemon.Settings

	Listen         string `name:"listen" env:"BFF_BACKOFFICE_LISTEN" default:":8083" help:"Address of the public API."`
	InternalListen string `name:"internal-listen" env:"BFF_BACKOFFICE_INTERNAL_LISTEN" default:"127.0.0.1:8183" help:"Address of the calls that only other services may make."`
	AdminListen    string `name:"admin-listen" env:"BFF_BACKOFFICE_ADMIN_LISTEN" default:"127.0.0.1:9083" help:"Address of health, metrics and profiles."`

	PostgresURL     daemon.Secret   `name:"postgres-url" env:"BFF_BACKOFFICE_POSTGRES_URL" help:"Database, as the application's role."`
	PostgresPooler  postgres.Pooler `name:"postgres-pooler" env:"BFF_BACKOFFICE_POSTGRES_POOLER" enum:"none,transaction" default:"none" help:"What postgres-url leads through: none, or transaction for PgBouncer with pool_mode=transaction. jobs-postgres-url and migrate-url always lead to the server itself."`
	JobsPostgresURL daemon.Secret   `name:"jobs-postgres-url" env:"BFF_BACKOFFICE_JOBS_POSTGRES_URL" help:"Database, as the role of relay and jobs."`
	MigrateURL      daemon.Secret   `name:"migrate-url" env:"BFF_BACKOFFICE_MIGRATE_URL" help:"Database, as a role that may migrate; if set, migrations run at start."`
	RedisSessionURL daemon.Secret   `name:"redis-session-url" env:"BFF_BACKOFFICE_REDIS_SESSION_URL" help:"Redis of sessions (noeviction)."`
	RedisCacheURL   daemon.Secret   `name:"redis-cache-url" env:"BFF_BACKOFFICE_REDIS_CACHE_URL" help:"Redis of caches (allkeys-lru)."`

	TrustedProxies []netip.Prefix `name:"trusted-proxies" env:"BFF_BACKOFFICE_TRUSTED_PROXIES" help:"CIDRs whose X-Forwarded-For is believed."`
}

// Validate reports everything that is missing or wrong, and shows no values.
func (c Config) Validate() error {
	errs := []error{c.Settings.Validate()}
	for name, v := range map[string]daemon.Secret{
		"postgres-url": c.PostgresURL, "redis-session-url": c.RedisSessionURL, "redis-cache-url": c.RedisCacheURL,
	} {
		if v == "" {
			errs = append(errs, fmt.Errorf("%s: is required", name))
		}
	}
	return errors.Join(errs...)
}

type commands struct {
	Serve   serve   `cmd:"" help:"Serve the API."`
	Migrate migrate `cmd:"" help:"Bring the database schema up to date."`
}

// Main runs the service's command line and returns its exit status.
func Main(args []string) int {
	return daemon.Main(&commands{}, name, "The hotel staff's backend for frontends.", args)
}

type migrate struct{ Config }

// Validate accepts a configuration that is enough to migrate.
func (m migrate) Validate() error {
	if m.MigrateURL == "" {
		return errors.New("migrate-url: is required")
	}
	return m.Settings.Validate()
}

// Run brings the schema up to date.
func (m migrate) Run(ctx context.Context) error {
	return m.apply(ctx, daemon.NewLogger(os.Stderr, m.Settings, name))
}

func (c Config) apply(ctx context.Context, log *slog.Logger) error {
	passwords, err := postgres.Passwords(migrations.Backoffice(), c.PostgresURL.Reveal(), c.JobsPostgresURL.Reveal())
	if err != nil {
		return err
	}
	return postgres.Migrate(ctx, c.MigrateURL.Reveal(), migrations.Backoffice(), postgres.MigrateOptions{Passwords: passwords, Logger: log})
}

type serve struct{ Config }

const (
	requestBudget = 25 * time.Second
	writeTimeout  = 30 * time.Second
	redisTimeout  = 2 * time.Second
)

// Run serves until it is told to stop.
func (s serve) Run(ctx context.Context) error {
	log := daemon.NewLogger(os.Stderr, s.Settings, name)
	d := daemon.New(s.Settings, log)
	d.AddServer("admin", s.AdminListen, d.Admin(), daemon.ServerOptions{WriteTimeout: writeTimeout})
	tracer, err := d.Tracer(ctx, name)
	if err != nil {
		return err
	}
	if s.MigrateURL != "" {
		d.Add("migrations", func(ctx context.Context) error { return s.apply(ctx, log) }, nil)
	}
	db, err := postgres.Open(ctx, postgres.Config{URL: s.PostgresURL.Reveal(), ApplicationName: name, RequireIsolation: true, Pooler: s.PostgresPooler})
	if err != nil {
		return err
	}
	d.Add("postgres", nil, func(context.Context) error { db.Close(); return nil })
	d.AddCheck("postgres", func(ctx context.Context) error { return postgres.Ping(ctx, db) })
	for tier, url := range map[string]daemon.Secret{"session": s.RedisSessionURL, "cache": s.RedisCacheURL} {
		inUse := redis.InUse(d.Metrics, "bff_backoffice", tier)
		client, err := redis.Open(redis.Config{URL: url.Reveal(), Tier: name + "-" + tier, Timeout: redisTimeout, InUse: inUse})
		if err != nil {
			return err
		}
		d.Add("redis "+tier, nil, func(context.Context) error { client.Close(); return nil })
		if tier == "session" { // without the cache tier the service works on
			d.AddCheck("redis "+tier, redis.Ping(client))
		}
	}
	cfg := web.Config{
		Log: log, Metrics: d.Metrics, Namespace: "bff_backoffice", Tracer: tracer,
		TrustedProxies: s.TrustedProxies, Budget: requestBudget,
	}
	d.AddServer("internal", s.InternalListen, web.NewServer(cfg), daemon.ServerOptions{WriteTimeout: writeTimeout})
	d.AddServer("public", s.Listen, web.NewServer(cfg), daemon.ServerOptions{FastPath: true, WriteTimeout: writeTimeout})
	return d.Run(ctx)
}
