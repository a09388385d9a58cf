package consumerd

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/mileusna/useragent"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/rueidis"

	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/consumer/consumerevents"
	"melmastoon.ghasi.io/bff/internal/consumer/consumerhttp"
	"melmastoon.ghasi.io/bff/internal/consumer/consumerstore"
	"melmastoon.ghasi.io/bff/internal/consumer/consumerupstream"
	"melmastoon.ghasi.io/bff/internal/daemon"
	"melmastoon.ghasi.io/bff/internal/outbox"
	"melmastoon.ghasi.io/bff/internal/postgres"
	"melmastoon.ghasi.io/bff/internal/pubsub"
	"melmastoon.ghasi.io/bff/internal/redis"
	"melmastoon.ghasi.io/bff/internal/web"
)

const (
	requestBudget = 25 * time.Second
	writeTimeout  = 30 * time.Second
	redisTimeout  = 2 * time.Second
	issuerTimeout = 2 * time.Second
	// ratesBudget leaves the client's own 800 ms to end first: a price that takes
	// too long is then called a timeout, and not the guest's want of time.
	ratesBudget = 850 * time.Millisecond
	brandBudget = 600 * time.Millisecond
	maxWaiting  = 20_000 // events in memory while Postgres is slow
)

type serve struct{ Config }

// Run serves until it is told to stop.
func (s serve) Run(ctx context.Context) error {
	log := daemon.NewLogger(os.Stderr, s.Settings, name)
	d := daemon.New(s.Settings, log)
	if err := s.assemble(ctx, d, log); err != nil {
		return err
	}
	return d.Run(ctx)
}

// assemble adds the parts in the order in which they start: what others stand
// on first, the public listener last.
func (s serve) assemble(ctx context.Context, d *daemon.Daemon, log *slog.Logger) error {
	d.AddServer("admin", s.AdminListen, d.Admin(), daemon.ServerOptions{WriteTimeout: writeTimeout})
	tracer, err := d.Tracer(ctx, name)
	if err != nil {
		return err
	}
	db, err := s.openPostgres(ctx, d, log)
	if err != nil {
		return err
	}
	sessions, err := openRedis(d, "session", s.RedisSessionURL)
	if err != nil {
		return err
	}
	events, err := s.openOutbox(ctx, d, db, log)
	if err != nil {
		return err
	}
	upstreams, err := consumerupstream.New(consumerupstream.Config{
		SearchURL: s.SearchURL, PricingURL: s.PricingURL, PropertyURL: s.PropertyURL, ThemeURL: s.ThemeURL, TenantURL: s.TenantURL,
		Metrics: d.Metrics, Log: log, Header: propagate,
	})
	if err != nil {
		return err
	}
	store := consumerstore.New(consumerstore.Config{
		DB: db, Sessions: sessions, Keys: redis.NewKeys(s.Environment, name),
		Outbox: events.table, Appender: events.appender, Waker: events.waker,
	})
	sw, err := s.openSwitches(d, sessions, log)
	if err != nil {
		return err
	}
	found, err := s.openCaches(d, upstreams, store, sw.campaign)
	if err != nil {
		return err
	}
	if err := s.addSubscriptions(ctx, d, listening{
		db: db, redis: sessions, cache: found.store, suspended: found.suspended,
	}, log); err != nil {
		return err
	}
	ring, keys, err := s.openKeys(ctx, d, log)
	if err != nil {
		return err
	}
	defence, err := s.openDefence(ctx, d, sessions, store, sw.campaign, log)
	if err != nil {
		return err
	}
	api := consumerhttp.New(consumerhttp.Config{
		Finder: &consumer.Finder{
			Search: found.reads, Prices: upstreams.Pricing, Brands: found.reads, Properties: found.reads, Suspended: found.suspended, Brownout: sw.rung,
			Budgets: consumer.Budgets{Rates: ratesBudget, Brand: brandBudget}, HomeCountry: s.HomeCountry,
		},
		Answers: found.answers, Searches: store,
		Desk: &consumer.HandoffDesk{
			Search: found.reads, Tenants: upstreams.Tenant, Prices: upstreams.Pricing, Keys: ring, RedirectTemplate: s.RedirectTemplate,
		},
		Sessions: store, Trails: store, Wishlists: store, Ledger: store, Suspicions: store, Journal: store, Keys: ring, RefreshKeys: keys.Refresh,
		Visitors: s.visitors(), Caller: s.caller(),
		Instance: s.InstanceName(name), Sampling: sw.sampling, Gates: sw.gates, Defence: defence, Now: time.Now, Metrics: d.Metrics,
	})
	d.Add("work behind answers", nil, api.Close)
	d.AddLoop("session sweep", s.sweep(store, log))
	cfg := web.Config{
		Log: log, Metrics: d.Metrics, Namespace: "bff_consumer", Tracer: tracer,
		TrustedProxies: s.TrustedProxies, Budget: requestBudget,
	}
	internal, public := web.NewServer(cfg), web.NewServer(cfg)
	routes, err := api.Protected()
	if err != nil {
		return err
	}
	if err := errors.Join(internal.Mount(api.InternalRoutes()...), public.Mount(routes...)); err != nil {
		return err
	}
	d.AddServer("internal", s.InternalListen, internal, daemon.ServerOptions{WriteTimeout: writeTimeout})
	d.AddServer("public", s.Listen, public, daemon.ServerOptions{FastPath: true, WriteTimeout: writeTimeout})
	return nil
}

func (c Config) openPostgres(ctx context.Context, d *daemon.Daemon, log *slog.Logger) (*pgxpool.Pool, error) {
	if c.MigrateURL != "" {
		d.Add("migrations", func(ctx context.Context) error { return c.apply(ctx, log) }, nil)
	}
	db, err := postgres.Open(ctx, postgres.Config{URL: c.PostgresURL.Reveal(), ApplicationName: name})
	if err != nil {
		return nil, err
	}
	d.Add("postgres", nil, func(context.Context) error { db.Close(); return nil })
	d.AddCheck("postgres", func(ctx context.Context) error { return postgres.Ping(ctx, db) })
	d.Metrics.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: "bff_consumer", Name: "postgres_pool_inuse", Help: "Connections to Postgres that somebody is using.",
	}, func() float64 { return float64(db.Stat().AcquiredConns()) }))
	return db, nil
}

func openRedis(d *daemon.Daemon, tier string, url daemon.Secret) (rueidis.Client, error) {
	inUse := redis.InUse(d.Metrics, "bff_consumer", tier)
	c, err := redis.Open(redis.Config{URL: url.Reveal(), Tier: name + "-" + tier, Timeout: redisTimeout, InUse: inUse})
	if err != nil {
		return nil, err
	}
	d.Add("redis "+tier, nil, func(context.Context) error { c.Close(); return nil })
	return c, nil
}

// events is the way out for events.
type events struct {
	table    *outbox.Table
	appender *outbox.Appender
	waker    outbox.Waker
}

func (c Config) openOutbox(ctx context.Context, d *daemon.Daemon, db *pgxpool.Pool, log *slog.Logger) (events, error) {
	e := events{table: outbox.Consumer()}
	if c.NoRelay {
		notifier := outbox.NewNotifier(db, e.table, log)
		d.Add("outbox notifier", nil, func(context.Context) error { notifier.Close(); return nil })
		e.waker = notifier
	} else {
		r, err := c.addRelay(ctx, d, db, e.table, log)
		if err != nil {
			return e, err
		}
		e.waker = r
	}
	e.appender = outbox.NewAppender(db, e.table, e.waker, maxWaiting)
	d.Add("outbox appender", nil, e.appender.Close)
	return e, nil
}

// addRelay publishes the outbox from this process, whenever it is the leader.
func (c Config) addRelay(ctx context.Context, d *daemon.Daemon, db *pgxpool.Pool, table *outbox.Table, log *slog.Logger) (*outbox.Relay, error) {
	client, err := pubsub.Open(ctx, pubsub.Config{ProjectID: c.PubSubProject, EmulatorHost: c.PubSubEmulator})
	if err != nil {
		return nil, err
	}
	topics := ensureTopics(client, c.PubSubEmulator)
	d.Add("pubsub", func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, topicsTimeout)
		defer cancel()
		if err := topics(ctx); err != nil {
			log.Warn("topics could not be created yet", "error", err.Error())
		}
		return nil
	}, func(context.Context) error { return client.Close() })
	publisher := outbox.Publisher(client)
	if c.PubSubEmulator != "" { // development: what others could not read is refused here
		schemas, err := consumerevents.NewSchemas()
		if err != nil {
			return nil, err
		}
		publisher = schemas.Checked(client)
	}
	r, err := outbox.NewRelay(outbox.RelayConfig{DB: db, Table: table, Publisher: publisher, Logger: log})
	if err != nil {
		return nil, err
	}
	if err := addOutboxFigures(d, db, table, r, log); err != nil {
		return nil, err
	}
	d.AddLoop("outbox relay", func(ctx context.Context) error {
		for topics(ctx) != nil { // Pub/Sub is away: nothing could be published yet
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(topicsTimeout):
			}
		}
		return r.Run(ctx)
	})
	return r, nil
}

// topicsTimeout is how long a start waits for an emulator.
const topicsTimeout = 2 * time.Second

// ensureTopics creates the topics on an emulator; in production they stand
// before the service does.
func ensureTopics(client *pubsub.Client, emulator string) func(context.Context) error {
	var missing []string
	if emulator != "" {
		for _, s := range consumer.Subjects() {
			missing = append(missing, string(s))
		}
	}
	return func(ctx context.Context) error {
		if len(missing) == 0 {
			return nil
		}
		err := client.EnsureTopics(ctx, missing...)
		if err == nil {
			missing = nil
		}
		return err
	}
}

type relay struct{ Config }

// Validate accepts a configuration that is enough to publish.
func (r relay) Validate() error {
	return r.validateRelay()
}

// Run publishes until it is told to stop.
func (r relay) Run(ctx context.Context) error {
	log := daemon.NewLogger(os.Stderr, r.Settings, name)
	d := daemon.New(r.Settings, log)
	d.AddServer("admin", r.AdminListen, d.Admin(), daemon.ServerOptions{WriteTimeout: writeTimeout})
	db, err := r.openPostgres(ctx, d, log)
	if err != nil {
		return err
	}
	if _, err := r.addRelay(ctx, d, db, outbox.Consumer(), log); err != nil {
		return err
	}
	return d.Run(ctx)
}

// sweepEvery is how often sessions that ended by time are looked for.
const sweepEvery = time.Minute

// sweep announces the end of sessions that nobody used for thirty days.
func (c Config) sweep(store *consumerstore.Store, log *slog.Logger) func(context.Context) error {
	tell := consumer.NewTelemetry(c.InstanceName(name), c.rate)
	return func(ctx context.Context) error {
		tick := time.NewTicker(sweepEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
				if _, err := store.EndExpired(ctx, tell, time.Now()); err != nil && ctx.Err() == nil {
					log.WarnContext(ctx, "expired sessions could not all be announced", "error", err.Error())
				}
			}
		}
	}
}

// visitors says how who is asking is read.
func (c Config) visitors() consumerhttp.Visitors {
	v := consumerhttp.Visitors{Pepper: []byte(c.Pepper.Reveal()), CountryHeader: c.CountryHeader, Classify: userAgentClass}
	for _, p := range c.OldPeppers {
		v.OldPeppers = append(v.OldPeppers, []byte(p.Reveal()))
	}
	return v
}

// caller says who may consume.
func (c Config) caller() consumerhttp.CallerAuth {
	auth := consumerhttp.CallerAuth{Token: c.InternalToken.Reveal(), HMACKey: []byte(c.InternalHMACKey.Reveal())}
	if c.OIDCJWKSURL != "" {
		auth.OIDC = &consumerhttp.OIDC{
			JWKSURL: c.OIDCJWKSURL, Issuer: c.OIDCIssuer, Audience: c.OIDCAudience, Emails: c.OIDCEmails,
			Client: &http.Client{Timeout: issuerTimeout},
		}
	}
	return auth
}

// userAgentClass is what telemetry may know of a user agent.
func userAgentClass(s string) string {
	switch ua := useragent.Parse(s); {
	case s == "":
		return "unknown"
	case ua.Bot:
		return "bot"
	case ua.Mobile, ua.Tablet:
		return "browser-mobile"
	case ua.Desktop:
		return "browser-desktop"
	}
	return "unknown"
}
