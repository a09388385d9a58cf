// Package consumerd is the anonymous service's composition root: its commands,
// its configuration and the wiring of its parts.
package consumerd

import (
	"time"

	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/consumer/consumerevents"
	"melmastoon.ghasi.io/bff/internal/consumer/consumerhttp"
	"melmastoon.ghasi.io/bff/internal/consumer/consumerstore"
	"melmastoon.ghasi.io/bff/internal/service"
	"melmastoon.ghasi.io/bff/migrations"
)

const name = "bff-consumer"

// Identity is the anonymous service, as the shared commands and servers know it.
func Identity() service.Identity {
	table := consumerstore.OutboxTable()
	id := service.Identity{
		Name: name, Description: "The anonymous discovery backend for frontends.", Namespace: "bff_consumer", Prefix: "BFF_CONSUMER",
		Listen: ":8081", InternalListen: "127.0.0.1:8181", AdminListen: "127.0.0.1:9081", Codes: consumerhttp.Codes(), Headers: consumerhttp.Headers(),
		Schema: migrations.Consumer(), Outbox: table,
		Receives: consumerevents.Subscriptions(), Checked: consumerevents.Checked,
		// Retentions of DATA_MODEL §3.
		Jobs: []service.Job{
			service.Prune("outbox", 30*day, service.Published(table)),
			// As long as the events of the same age are kept downstream.
			service.Prune("dead-letters", 90*day, service.DeadLetters(table)),
			// The marks of the newest event per tenant stay.
			service.Prune("inbox", 7*day, service.DeleteBefore("bff_consumer.inbox", "event_id", "received_at")),
			service.Prune("bot-scores", 7*day, service.DeleteBefore("bff_consumer.bot_score_log", "id", "evaluated_at")),
			service.Prune("handoffs", day, service.DeleteBefore("bff_consumer.handoff_replay_log", "id", "minted_at")),
			service.Prune("idempotency", 0, service.DeleteBefore("bff_consumer.idempotency_keys", "composite_key", "expires_at")),
			service.Prune("wishlists", 30*day, service.DeleteBefore("bff_consumer.wishlist_anonymous", "id", "removed_at")),
			// A session ends thirty days after its cookie was last sent, give or take the
			// day after which a cookie is sent again.
			service.Prune("wishlists-ended", consumer.SessionLifetime+31*day,
				service.DeleteBefore("bff_consumer.wishlist_anonymous", "id", "seen_at", "removed_at IS NULL")),
			// Suspended ones are kept elsewhere; any other is seen again when it is shown again.
			service.Prune("tenants-seen", 90*day, service.DeleteBefore("bff_consumer.tenants_seen", "tenant_id", "seen_at")),
			// No cookie comes back later, and no hand-off of its session is left.
			service.Prune("refusals", consumer.SessionLifetime+2*day, service.DeleteBefore("bff_consumer.telemetry_refusals", "session_hash", "seen_at")),
			// No card of it can be used any more.
			service.Prune("cleared-sessions", consumer.CardLifetime+2*day, service.DeleteBefore("bff_consumer.cleared_sessions", "session_hash", "cleared_at")),
		},
	}
	for _, s := range consumer.Subjects() {
		id.Publishes = append(id.Publishes, string(s))
	}
	return id
}

const day = 24 * time.Hour

type commands struct {
	Serve   serve                 `cmd:"" help:"Serve the API."`
	Relay   service.Relay         `cmd:"" help:"Publish events from the outbox, and nothing else."`
	Migrate service.Migrate       `cmd:"" help:"Bring the database schema up to date."`
	DLQ     service.DLQ           `cmd:"" name:"dlq" help:"Events that could not be published."`
	Events  service.EventsCommand `cmd:"" help:"Look at events."`
	Jobs    service.Jobs          `cmd:"" help:"Run a nightly job."`
	Keys    keys                  `cmd:"" help:"Rotate the keys of the hand-off, or of the guests' cards."`
	Handoff handoffCommand        `cmd:"" help:"Look at hand-offs."`
	Check   check                 `cmd:"" help:"Say which settings are wrong, and whether everything that the service connects to answers. Changes nothing; 'doctor' looks deeper."`
	Doctor  doctorCommand         `cmd:"" help:"Examine settings, servers, roles, keys, topics and clocks of this deployment. Changes nothing; 'melmastoon probe' attacks it, 'melmastoon doctor' looks at a developer's machine instead."`
}

// Main runs the service's command line and returns its exit status.
func Main(args []string) int { return service.Main(Identity(), &commands{}, args) }
