// Package consumerd is the anonymous service's composition root: its commands,
// its configuration and the wiring of its parts.
package consumerd

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"

	"melmastoon.ghasi.io/bff/internal/daemon"
	"melmastoon.ghasi.io/bff/internal/postgres"
	"melmastoon.ghasi.io/bff/internal/web"
	"melmastoon.ghasi.io/bff/migrations"
)

const name = "bff-consumer"

type commands struct {
	Serve   serve          `cmd:"" help:"Serve the API."`
	Relay   relay          `cmd:"" help:"Publish events from the outbox, and nothing else."`
	Migrate migrate        `cmd:"" help:"Bring the database schema up to date."`
	DLQ     dlq            `cmd:"" name:"dlq" help:"Events that could not be published."`
	Events  eventsCommand  `cmd:"" help:"Look at events."`
	Keys    keys           `cmd:"" help:"Rotate the keys of the hand-off."`
	Handoff handoffCommand `cmd:"" help:"Look at hand-offs."`
	Jobs    jobs           `cmd:"" help:"Run a nightly job."`
}

// Main runs the service's command line and returns its exit status.
func Main(args []string) int {
	return daemon.Main(&commands{}, name, "The anonymous discovery backend for frontends.", args)
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
	passwords, err := postgres.Passwords(migrations.Consumer(), c.PostgresURL.Reveal())
	if err != nil {
		return err
	}
	return postgres.Migrate(ctx, c.MigrateURL.Reveal(), migrations.Consumer(), postgres.MigrateOptions{Passwords: passwords, Logger: log})
}

// propagate sends the served request's id and trace along to upstreams.
func propagate(ctx context.Context, h http.Header) {
	req := web.From(ctx)
	if req.ID.IsZero() {
		return
	}
	h.Set("X-Request-Id", req.ID.ULID())
	h.Set("Traceparent", req.TraceParent)
}
