package service

import (
	"context"
	"errors"
	"log/slog"
	"os"

	"github.com/jackc/pgx/v5/pgxpool"

	"melmastoon.ghasi.io/bff/internal/daemon"
	"melmastoon.ghasi.io/bff/internal/postgres"
)

// Migrate is the command that brings the schema up to date.
type Migrate struct {
	daemon.LogSettings
	DatabaseSettings
}

// Validate accepts a configuration that is enough to migrate.
func (m *Migrate) Validate() error {
	return errors.Join(required("migrate-url", m.MigrateURL), m.validateURLs())
}

// Run brings the schema up to date.
func (m *Migrate) Run(ctx context.Context, id Identity) error {
	return m.apply(ctx, id, daemon.NewLogger(os.Stderr, daemon.Settings{LogSettings: m.LogSettings}, id.Name))
}

func (s *DatabaseSettings) apply(ctx context.Context, id Identity, log *slog.Logger) error {
	passwords, err := postgres.Passwords(id.Schema, s.PostgresURL.Reveal(), s.JobsPostgresURL.Reveal())
	if err != nil {
		return err
	}
	return postgres.Migrate(ctx, s.MigrateURL.Reveal(), id.Schema, postgres.MigrateOptions{Passwords: passwords, Logger: log})
}

// WorkSettings are those of a process that works as the role of relay and jobs, and serves nothing.
type WorkSettings struct {
	daemon.Settings
	AdminSettings
	DatabaseSettings
	PubSubSettings
	PlaintextSettings
}

// Validate accepts a configuration that is enough to publish.
func (w *WorkSettings) Validate() error {
	errs := []error{w.Settings.Validate(), w.validateJobs(), w.PubSubSettings.validate(), w.PlaintextSettings.validate()}
	if !w.Development() {
		errs = append(errs, w.unencrypted(&w.DatabaseSettings)...)
	}
	return errors.Join(errs...)
}

// Worker publishes events from p, which has begun with no other part, and returns the pool of its role.
func (p *Process) Worker(ctx context.Context, s *WorkSettings) (*pgxpool.Pool, error) {
	url, err := s.jobsURL(p.Identity)
	if err != nil {
		return nil, err
	}
	if err := p.trace(ctx); err != nil {
		return nil, err
	}
	p.migrate(&s.DatabaseSettings)
	db, err := p.pool(ctx, postgres.Config{URL: url, RequireIsolation: p.Isolated})
	if err != nil {
		return nil, err
	}
	events, err := p.pubSub(ctx, &s.PubSubSettings)
	if err != nil {
		return nil, err
	}
	_, err = events.relay(db)
	return db, err
}

// Relay is the command that publishes events from the outbox, and nothing else.
type Relay struct{ WorkSettings }

// Run publishes until the process is told to stop.
func (r *Relay) Run(ctx context.Context, id Identity) error {
	p := NewProcess(id, r.Settings, r.AdminSettings)
	if _, err := p.Worker(ctx, &r.WorkSettings); err != nil {
		return err
	}
	return p.Run(ctx)
}

// Database is what a command on the database needs, as the role of relay and jobs.
type Database struct {
	daemon.LogSettings
	DatabaseSettings
	unused bool
}

// Validate accepts a configuration that is enough to reach the database.
func (d *Database) Validate() error {
	if d.unused {
		return nil
	}
	return d.validateJobs()
}

// Without says that this run needs no database, so that its settings are not asked for.
func (d *Database) Without() { d.unused = true }

// Open returns a small pool as the role of relay and jobs.
func (d *Database) Open(ctx context.Context, id Identity) (*pgxpool.Pool, error) {
	url, err := d.jobsURL(id)
	if err != nil {
		return nil, err
	}
	return postgres.Open(ctx, postgres.Config{URL: url, ApplicationName: id.Name, MaxConns: 2, RequireIsolation: id.Isolated})
}
