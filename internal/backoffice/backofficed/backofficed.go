// Package backofficed is the staff service's composition root: its commands,
// its configuration and the wiring of its parts. For now the service holds its
// schema, publishes its outbox and answers for its health; its routes come with
// the domain.
package backofficed

import (
	"context"
	"errors"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficestore"
	"melmastoon.ghasi.io/bff/internal/redis"
	"melmastoon.ghasi.io/bff/internal/service"
	"melmastoon.ghasi.io/bff/internal/web"
	"melmastoon.ghasi.io/bff/migrations"
)

const day = 24 * time.Hour

// identity is the staff service, as the shared commands and servers know it.
func identity() service.Identity {
	table := backofficestore.OutboxTable()
	return service.Identity{
		Name: "bff-backoffice", Description: "The hotel staff's backend for frontends.", Namespace: "bff_backoffice", Prefix: "BFF_BACKOFFICE",
		Listen: ":8083", InternalListen: "127.0.0.1:8183", AdminListen: "127.0.0.1:9083", Codes: web.Codes{Budget: bff.CodeUpstreamTimeout},
		Schema: migrations.Backoffice(), Isolated: true, Outbox: table,
		Publishes: []string{
			"melmastoon.bff.backoffice.session.opened.v1",
			"melmastoon.bff.backoffice.session.closed.v1",
			"melmastoon.bff.backoffice.dashboard.viewed.v1",
		},
		Jobs: []service.Job{
			service.Prune("outbox-archival", 30*day, table.Prune),
			service.Prune("inbox-cleanup", 7*day, service.DeleteBefore("bff_backoffice.inbox", "message_id", "received_at")),
			service.Prune("idempotency-cleanup", 0, service.DeleteBefore("bff_backoffice.idempotency", "tenant_id, idem_key", "expires_at")),
		},
	}
}

type commands struct {
	Serve   serve                 `cmd:"" help:"Serve the API."`
	Relay   service.Relay         `cmd:"" help:"Publish events from the outbox, and nothing else."`
	Migrate service.Migrate       `cmd:"" help:"Bring the database schema up to date."`
	DLQ     service.DLQ           `cmd:"" name:"dlq" help:"Events that could not be published."`
	Events  service.EventsCommand `cmd:"" help:"Look at events."`
	Jobs    service.Jobs          `cmd:"" help:"Run a job."`
}

// Main runs the service's command line and returns its exit status.
func Main(args []string) int { return service.Main(identity(), &commands{}, args) }

// Config is everything that the service can be told.
type Config struct{ service.Settings }

// Validate reports everything that is missing or wrong, and shows no values.
func (c *Config) Validate() error {
	err := c.Settings.Validate()
	if c.JobsPostgresURL == "" {
		err = errors.Join(err, errors.New("jobs-postgres-url: is required"))
	}
	return err
}

type serve struct{ Config }

// Run serves until the process is told to stop.
func (s *serve) Run(ctx context.Context, id service.Identity) error {
	p := service.NewProcess(id, s.Settings.Settings, s.AdminSettings)
	p.WarnUnsafe(s.Unsafe())
	if err := s.assemble(ctx, p); err != nil {
		return err
	}
	return p.Run(ctx)
}

// assemble adds the parts in the order in which they start.
func (s *serve) assemble(ctx context.Context, p *service.Process) error {
	internalWeb, publicWeb, err := p.Web(ctx, &s.ListenSettings)
	if err != nil {
		return err
	}
	db, err := p.Postgres(ctx, &s.DatabaseSettings)
	if err != nil {
		return err
	}
	sessions, err := p.Redis("session", s.RedisSessionURL)
	if err != nil {
		return err
	}
	p.Require("redis session", redis.Ping(sessions))             // without sessions every call would be refused
	if _, err := p.Redis("cache", s.RedisCacheURL); err != nil { // the service works on without it
		return err
	}
	if _, err := p.Events(ctx, &s.Settings, db); err != nil {
		return err
	}
	if err := p.Schedule(ctx, &s.Settings, db); err != nil {
		return err
	}
	p.Listen(&s.ListenSettings, web.NewServer(internalWeb), web.NewServer(publicWeb))
	return nil
}
