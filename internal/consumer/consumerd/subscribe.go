package consumerd

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/rueidis"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/consumer/consumerevents"
	"melmastoon.ghasi.io/bff/internal/consumer/consumerstore"
	"melmastoon.ghasi.io/bff/internal/service"
	"melmastoon.ghasi.io/bff/internal/web"
)

// tenants is what the service knows of tenants beside what it caches.
type tenants struct {
	suspended *consumer.SuspendedTenants
	status    *consumerstore.Suspensions
	seen      *consumerstore.SeenTenants
	reader    *consumer.TenantReader
}

// watching is what the status of tenants is kept in.
type watching struct {
	db         *pgxpool.Pool
	redis      rueidis.Client
	cache      consumerevents.Invalidator
	upstream   consumer.Tenants
	background *web.Background
}

// openTenants keeps the list of suspended tenants, which is loaded before the
// listeners open.
func (c *Config) openTenants(p *service.Process, on watching) (tenants, error) {
	t := tenants{suspended: new(consumer.SuspendedTenants), seen: consumerstore.NewSeenTenants(on.db, p.Log)}
	bell, err := p.Redis("bell", c.RedisSessionURL)
	if err != nil {
		return t, err
	}
	t.status = consumerstore.NewSuspensions(consumerstore.SuspensionsConfig{
		DB: on.db, Set: on.redis, Bell: bell, Keys: p.Keys(), Cache: on.cache, List: t.suspended, Log: p.Log,
	})
	t.reader = consumer.NewTenantReader(consumer.TenantReaderConfig{
		Tenants: on.upstream, Suspended: t.suspended, Status: t.status, Behind: on.background.DoFor, Now: time.Now,
		Failed: func(ctx context.Context, tenant bff.ID, err error) {
			p.Log.WarnContext(ctx, "suspended tenant could not be recorded, other instances show it until tenants are reconciled",
				"tenantId", tenant.String(), "error", err.Error())
		},
	})
	p.Add("suspended tenants", t.status.Load, nil)
	p.AddLoop("suspended tenants", t.status.Run)
	p.AddLoop("seen tenants", t.seen.Run)
	return t, nil
}

// reconcileEvery is below five minutes by what a process may take to see that a
// job is due.
const reconcileEvery = 210 * time.Second

// reconcile asks tenant-service for the status of every tenant that was ever shown.
func (t tenants) reconcile() service.Job {
	return service.Job{Name: "tenant-status", Every: reconcileEvery, Run: func(ctx context.Context, _ *pgxpool.Pool, _ time.Time) (int, error) {
		return t.reader.Reconcile(ctx, t.seen)
	}}
}

// receive handles the events of other services.
func (c *Config) receive(p *service.Process, events *service.Events, db *pgxpool.Pool, status consumer.TenantStatus, cache consumerevents.Invalidator) {
	inbox := consumerstore.NewInbox(db)
	events.Receive(inbox, consumerevents.NewReceiver(consumerevents.Config{
		Inbox: inbox, Tenants: status, Cache: cache, Log: p.Log, Now: time.Now,
	}).Receive)
}
