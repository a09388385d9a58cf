// Package backofficed is the staff service's composition root: its commands,
// its configuration and the wiring of its parts.
package backofficed

import (
	"log/slog"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficeevents"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficehttp"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficelake"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficestore"
	"melmastoon.ghasi.io/bff/internal/outbox"
	"melmastoon.ghasi.io/bff/internal/service"
	"melmastoon.ghasi.io/bff/internal/web"
	"melmastoon.ghasi.io/bff/migrations"
)

const day = 24 * time.Hour

// Identity is the staff service, as the shared commands and servers know it.
func Identity() service.Identity {
	table := backofficestore.OutboxTable()
	return service.Identity{
		Name: "bff-backoffice", Description: "The hotel staff's backend for frontends.", Namespace: "bff_backoffice", Prefix: "BFF_BACKOFFICE",
		Listen: ":8083", InternalListen: "127.0.0.1:8183", AdminListen: "127.0.0.1:9083", Codes: web.Codes{Budget: bff.CodeUpstreamTimeout}, Headers: backofficehttp.Headers(),
		Schema: migrations.Backoffice(), Isolated: true, Outbox: table,
		Publishes: subjects(), Receives: backofficeevents.Subscriptions(),
		Jobs: jobs(table, nil, backofficelake.New(new(LakeSettings).unloaded(table, slog.Default(), ""))),
	}
}

// jobs are those of the specification (DATA_MODEL §9). Without a notifier, as on a
// command line, open streams are not told what they find.
func jobs(table *outbox.Table, notices backoffice.Notifier, lake *backofficelake.Lake) []service.Job {
	return append([]service.Job{
		service.Prune("outbox-archival", 30*day, service.Published(table)).Per(day),
		service.Prune("outbox-dlq-prune", 90*day, service.ArchivedLetters(table)).Per(7 * day),
		// Ninety days after they were published; dead letters, which may be the only trace of what they tell, after a year.
		service.Prune("outbox-archive-prune", 60*day, service.DeleteBefore("bff_backoffice.outbox_archive", "id", "archived_at", "published_at IS NOT NULL")).Per(day),
		service.Prune("outbox-archive-dlq-prune", 365*day, service.DeleteBefore("bff_backoffice.outbox_archive", "id", "archived_at", "published_at IS NULL")).Per(7 * day),
		service.Prune("inbox-cleanup", 7*day, service.DeleteBefore("bff_backoffice.inbox", "message_id", "received_at")),
		service.Prune("idempotency-cleanup", 0, service.DeleteBefore("bff_backoffice.idempotency", "tenant_id, idem_key", "expires_at")),
		service.Prune("oaq-hints-prune", 7*day, service.DeleteBefore("bff_backoffice.offline_action_queue_hints", "tenant_id, id", "reported_at")),
		sweep{table: table, news: backoffice.NewEnvelopes("jobs"), notices: notices}.job(),
	}, lake.Jobs()...)
}

type commands struct {
	Serve   serve                 `cmd:"" help:"Serve the API."`
	Work    work                  `cmd:"" help:"Publish events and run the jobs, and serve nothing: for deployments whose serving processes have neither the role of jobs nor the keys of the audit."`
	Relay   service.Relay         `cmd:"" help:"Publish events from the outbox, and nothing else."`
	Migrate service.Migrate       `cmd:"" help:"Bring the database schema up to date."`
	DLQ     service.DLQ           `cmd:"" name:"dlq" help:"Events that could not be published."`
	Events  service.EventsCommand `cmd:"" help:"Look at events."`
	Jobs    jobsCommand           `cmd:"" help:"Run a job."`
	Check   check                 `cmd:"" help:"Say which settings are wrong, and whether everything that the service connects to answers. Changes nothing; 'doctor' looks deeper."`
	Doctor  doctorCommand         `cmd:"" help:"Examine settings, servers, roles, policies, keys, topics and clocks of this deployment. Changes nothing; 'melmastoon probe' attacks it, 'melmastoon doctor' looks at a developer's machine instead."`
	Audit   auditCommand          `cmd:"" help:"The sealed audit."`
}

// Main runs the service's command line and returns its exit status.
func Main(args []string) int { return service.Main(Identity(), &commands{}, args) }

func subjects() []string {
	var names []string
	for _, s := range backoffice.Subjects() {
		names = append(names, string(s))
	}
	return names
}
