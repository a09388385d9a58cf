package consumerd

import (
	"context"
	"errors"
	"time"

	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/consumer/booking"
	"melmastoon.ghasi.io/bff/internal/consumer/bot"
	"melmastoon.ghasi.io/bff/internal/consumer/consumercache"
	"melmastoon.ghasi.io/bff/internal/consumer/consumerguard"
	"melmastoon.ghasi.io/bff/internal/consumer/consumerhttp"
	"melmastoon.ghasi.io/bff/internal/consumer/consumerstore"
	"melmastoon.ghasi.io/bff/internal/consumer/consumerupstream"
	"melmastoon.ghasi.io/bff/internal/consumer/discovery"
	"melmastoon.ghasi.io/bff/internal/consumer/guest"
	"melmastoon.ghasi.io/bff/internal/daemon"
	"melmastoon.ghasi.io/bff/internal/redis"
	"melmastoon.ghasi.io/bff/internal/service"
	"melmastoon.ghasi.io/bff/internal/web"
)

const (
	// ratesBudget leaves the client's own 800 ms to end first: a slow price is then
	// reported as the upstream's timeout, not as the request's.
	ratesBudget = 850 * time.Millisecond
	brandBudget = 600 * time.Millisecond
)

type serve struct{ Config }

// Run serves until the process is told to stop.
func (s *serve) Run(ctx context.Context, id service.Identity, env *daemon.Environment) error {
	p := service.NewProcess(id, s.Settings.Settings, s.AdminSettings)
	p.WarnUnsafe(append(s.Unsafe(), s.unsafe()...))
	p.WarnDoubtful(env, service.CheckFlagsFile(s.FlagsFile))
	if consumerguard.Mode(s.BotDefence) == consumerguard.ModeWatch {
		p.Log.Warn("the bot defence only watches: verdicts are logged and have no effect")
	}
	if err := s.assemble(ctx, p); err != nil {
		return err
	}
	return p.Run(ctx)
}

// assemble adds the parts in the order in which they start: what others stand
// on first, the public listener last.
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
	p.AddCheck("redis session", redis.Ping(sessions))
	p.AddCheck("redis session policy", redis.KeepsKeys(sessions))
	events, err := p.Events(ctx, &s.Settings, db)
	if err != nil {
		return err
	}
	upstreams, err := consumerupstream.New(consumerupstream.Config{
		SearchURL: s.SearchURL, PricingURL: s.PricingURL, PropertyURL: s.PropertyURL, ThemeURL: s.ThemeURL, TenantURL: s.TenantURL,
		Metrics: p.Metrics, Namespace: p.Namespace, Log: p.Log, Header: service.Propagate,
	})
	if err != nil {
		return err
	}
	store := consumerstore.New(consumerstore.Config{
		DB: db, Sessions: sessions, Keys: p.Keys(), Outbox: events.Outbox.Table, Appender: events.Outbox.Appender, Waker: events.Outbox.Waker,
		Peppers: s.peppers(),
	})
	sw, err := s.openSwitches(p, sessions)
	if err != nil {
		return err
	}
	caches, err := s.openStore(p)
	if err != nil {
		return err
	}
	background := web.NewBackground(web.BackgroundConfig{Metrics: p.Metrics, Namespace: p.Namespace})
	p.Add("background", nil, background.Close)
	known, err := s.openTenants(p, watching{db: db, redis: sessions, cache: caches, upstream: upstreams.Tenant, background: background})
	if err != nil {
		return err
	}
	if err := p.Schedule(ctx, &s.Settings, db, known.reconcile()); err != nil {
		return err
	}
	found, err := openCaches(consumercache.Config{
		Store: caches, Keys: p.Keys(), Campaign: sw.campaign, Tenants: known.reader, Seen: known.seen.Add, Searches: store,
	}, upstreams)
	if err != nil {
		return err
	}
	s.receive(p, events, db, known.status, caches)
	ring, keys, err := s.handoffKeys().open(ctx, p.Daemon, p.Log)
	if err != nil {
		return err
	}
	cardRing, _, err := s.cardKeys().open(ctx, p.Daemon, p.Log)
	if err != nil {
		return err
	}
	cards := guest.NewCards(cardRing)
	telemetry := consumer.NewTelemetry(p.Instance(), sw.sampling)
	ration := bot.NewRation()
	guard, err := s.openGuard(ctx, p, guarded{
		redis: sessions, store: store, campaign: sw.campaign, telemetry: telemetry, background: background, ration: ration, cards: cards,
	})
	if err != nil {
		return err
	}
	api := consumerhttp.New(consumerhttp.Config{
		Finder: discovery.NewFinder(discovery.FinderConfig{
			Search: found.reads, Prices: found.reads, Brands: found.reads, Properties: found.reads, Suspended: known.suspended, Brownout: sw.rung,
			Budgets: discovery.Budgets{Rates: ratesBudget, Brand: brandBudget}, Region: s.Region, Regions: found.reads,
		}),
		Answers: found.answers, Searches: store,
		Desk: booking.NewHandoffDesk(booking.HandoffDeskConfig{
			Search: found.reads, Tenants: known.reader, Prices: found.reads, Snapshots: []booking.Snapshots{found.reads, found.answers},
			Keys: ring, RedirectTemplate: s.RedirectTemplate,
		}),
		Sessions: store, Cards: cards, Trails: store, Wishlists: store, Ledger: store, Suspicions: store, Journal: store, Keys: ring, RefreshKeys: keys.Refresh,
		Caller: s.Callers(), Challenge: guard.Challenge,
		Telemetry: telemetry, Background: background, Ration: ration, Now: time.Now, Metrics: p.Metrics, Namespace: p.Namespace, PlainCookies: s.PlainCookies,
	})
	p.Add("visit recorder", nil, api.Close)
	p.AddLoop("wishlist mirrors", store.RepairMirrors)
	p.AddLoop("session sweep", s.sweep(store, p))
	internal, public := web.NewServer(internalWeb), web.NewServer(publicWeb)
	routes, err := web.Assemble(api.Routes(), sw.gates, guard)
	if err != nil {
		return err
	}
	if err := errors.Join(internal.Mount(api.InternalRoutes()...), public.Mount(routes...)); err != nil {
		return err
	}
	p.Listen(&s.ListenSettings, internal, public)
	return nil
}

// sweepEvery is how often expired sessions are looked for.
const sweepEvery = time.Minute

// sweep announces the end of sessions that were unused for thirty days.
func (c *Config) sweep(store *consumerstore.Store, p *service.Process) func(context.Context) error {
	tell := consumer.NewTelemetry(p.Instance(), c.rate)
	return func(ctx context.Context) error {
		tick := time.NewTicker(sweepEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
				if _, err := store.EndExpired(ctx, tell, time.Now()); err != nil && ctx.Err() == nil {
					p.Log.WarnContext(ctx, "session sweep failed, ended sessions are announced later", "error", err.Error())
				}
			}
		}
	}
}
