package consumerd

import (
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/rueidis"

	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/consumer/consumerevents"
	"melmastoon.ghasi.io/bff/internal/consumer/consumerstore"
	"melmastoon.ghasi.io/bff/internal/service"
)

// listening is what received events act on.
type listening struct {
	db        *pgxpool.Pool
	redis     rueidis.Client
	cache     consumerevents.Invalidator
	suspended *consumer.SuspendedTenants
}

// receive keeps the list of suspended tenants and receives events. The list is
// loaded before the listeners open.
func (c *Config) receive(p *service.Process, events *service.Events, on listening) error {
	bell, err := p.Redis("bell", c.RedisSessionURL)
	if err != nil {
		return err
	}
	tenants := consumerstore.NewSuspensions(consumerstore.SuspensionsConfig{
		DB: on.db, Set: on.redis, Bell: bell, Keys: p.Keys(), List: on.suspended, Log: p.Log,
	})
	p.Add("suspended tenants", tenants.Load, nil)
	p.AddLoop("suspended tenants", tenants.Run)
	inbox := consumerstore.NewInbox(on.db)
	events.Receive(inbox, consumerevents.NewReceiver(consumerevents.Config{
		Inbox: inbox, Tenants: tenants, Cache: on.cache, Log: p.Log, Now: time.Now,
	}).Receive)
	return nil
}
