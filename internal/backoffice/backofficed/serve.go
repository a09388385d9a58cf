package backofficed

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/rueidis"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficecache"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficeevents"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficeguard"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficehttp"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficestore"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficeupstream"
	"melmastoon.ghasi.io/bff/internal/backoffice/board"
	"melmastoon.ghasi.io/bff/internal/backoffice/device"
	"melmastoon.ghasi.io/bff/internal/backoffice/identity"
	backofficeinbox "melmastoon.ghasi.io/bff/internal/backoffice/inbox"
	"melmastoon.ghasi.io/bff/internal/backoffice/lock"
	"melmastoon.ghasi.io/bff/internal/backoffice/stream"
	"melmastoon.ghasi.io/bff/internal/cache"
	"melmastoon.ghasi.io/bff/internal/daemon"
	"melmastoon.ghasi.io/bff/internal/dpop"
	"melmastoon.ghasi.io/bff/internal/inbox"
	"melmastoon.ghasi.io/bff/internal/issuer"
	"melmastoon.ghasi.io/bff/internal/loadshed"
	"melmastoon.ghasi.io/bff/internal/postgres"
	"melmastoon.ghasi.io/bff/internal/ratelimit"
	"melmastoon.ghasi.io/bff/internal/redis"
	"melmastoon.ghasi.io/bff/internal/service"
	"melmastoon.ghasi.io/bff/internal/web"
)

type serve struct{ Config }

// Run serves until the process is told to stop.
func (s *serve) Run(ctx context.Context, id service.Identity, env *daemon.Environment) error {
	p := service.NewProcess(id, s.Settings.Settings, s.AdminSettings)
	p.WarnUnsafe(append(s.Unsafe(), s.unsafe()...))
	p.WarnDoubtful(env, service.CheckFlagsFile(s.FlagsFile))
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
	label := s.label()
	internalWeb.Label, publicWeb.Label = label, label
	db, err := p.Postgres(ctx, &s.DatabaseSettings)
	if err != nil {
		return err
	}
	dials := new(atomic.Uint64)
	client, err := p.RedisTelling("session", s.RedisSessionURL, func() { dials.Add(1) })
	if err != nil {
		return err
	}
	p.Require("redis session", redis.Ping(client)) // without sessions every call would be refused
	// A tombstone or a used proof that is evicted lets a caller in that was refused.
	check := p.Require
	if s.Development() {
		check = p.AddCheck
	}
	check("redis session policy", redis.KeepsKeys(client))
	kept, err := p.Redis("cache", s.RedisCacheURL)
	if err != nil {
		return err
	}
	store, err := s.openStore(p, kept)
	if err != nil {
		return err
	}
	flags, err := s.openFlags(p, kept)
	if err != nil {
		return err
	}
	events, err := p.Events(ctx, &s.Settings, db)
	if err != nil {
		return err
	}
	upstreams, err := backofficeupstream.New(backofficeupstream.Config{
		URLs: s.urls(), Metrics: p.Metrics, Namespace: p.Namespace, Log: p.Log, Header: service.Propagate,
	})
	if err != nil {
		return err
	}
	routes, streams, err := s.routes(p, parts{db: db, client: client, dials: dials.Load, store: store, events: events, flags: flags, upstreams: upstreams})
	if err != nil {
		return err
	}
	var onDemand []web.Route
	if s.JobsPostgresURL != "" {
		if onDemand, err = s.jobs(ctx, p, db, streams.notices, upstreams.Lock); err != nil {
			return err
		}
	}
	internal, public := web.NewServer(internalWeb), web.NewServer(publicWeb)
	if err := errors.Join(internal.Mount(onDemand...), public.Mount(routes...)); err != nil {
		return err
	}
	p.Listen(&s.ListenSettings, internal, public)
	p.Add("streams", nil, streams.drain) // stops before the listeners, which wait for streams over HTTP/2
	return nil
}

// jobs adds what works as the role of jobs, for a process that has it.
func (s *serve) jobs(ctx context.Context, p *service.Process, db *pgxpool.Pool, notices backoffice.Notifier, lock lock.Integration) ([]web.Route, error) {
	own, err := addJobs(p, &s.LakeSettings, notices, lock)
	if err != nil {
		return nil, err
	}
	if err := p.Schedule(ctx, &s.Settings, db, own); err != nil {
		return nil, err
	}
	jobsDB, err := p.JobsPostgres(ctx, &s.DatabaseSettings, db)
	if err != nil {
		return nil, err
	}
	p.Metrics.MustRegister(newDeviceCount(jobsDB, p.Namespace))
	return p.JobRoutes(ctx, &s.Settings, db, s.SchedulerEmails)
}

// addJobs gives a process the jobs that tell open streams, and returns the one that only a running process can have.
func addJobs(p *service.Process, lake *LakeSettings, notices backoffice.Notifier, lock lock.Integration) (service.Job, error) {
	locks := newReconciler(p.Outbox, reconcilerParts{backoffice.NewEnvelopes(p.Instance()), notices, lock, p.Log}, p.Namespace)
	p.Metrics.MustRegister(locks.settled, locks.overdue)
	opened, err := lake.lake(p.Outbox, p.Log, p.Instance())
	if err != nil {
		return service.Job{}, err
	}
	p.Jobs = jobs(p.Outbox, notices, opened)
	return locks.job(), nil
}

// parts are what the API stands on.
type parts struct {
	db     *pgxpool.Pool
	client rueidis.Client // of the session tier
	dials  func() uint64  // its connections so far
	store  *cache.Store
	events *service.Events
	flags  *identity.Flags

	upstreams *backofficeupstream.Upstreams
}

// openStore opens what all caches share. The service works on without its Redis.
func (c *Config) openStore(p *service.Process, client rueidis.Client) (*cache.Store, error) {
	p.AddCheck("redis cache", redis.Ping(client))
	bus, err := p.Redis("bus", c.RedisCacheURL)
	if err != nil {
		return nil, err
	}
	store, err := cache.NewStore(cache.StoreConfig{
		Redis: client, Bus: bus, Prefix: p.Keys().Prefix(), LockPrefix: "sf:lock:", Namespace: p.Namespace, Registerer: p.Metrics,
		EncodeError: func(err error) string { return string(bff.CodeOf(err)) },
		DecodeError: func(code string) error {
			return &bff.Error{Code: bff.Code(code), Err: errors.New("the fill failed in another instance")}
		},
	})
	if err != nil {
		return nil, err
	}
	p.Add("caches", nil, store.Close)
	return store, nil
}

// routes opens the API, what stands in front of it and what received events do.
func (c *Config) routes(p *service.Process, on parts) ([]web.Route, *streams, error) {
	upstreams := on.upstreams
	ledger := backofficestore.NewLedger(backofficestore.LedgerConfig{
		DB: postgres.NewTenants(on.db), Outbox: on.events.Outbox.Table, Waker: on.events.Outbox.Waker, TakeOver: c.TakeOver,
	})
	p.Add("ledger", nil, ledger.Close)
	keys := backofficestore.NewKeys(p.Keys())
	sessions := backofficestore.NewSessions(backofficestore.SessionsConfig{Client: on.client, Keys: keys, Dials: on.dials})
	p.Require("redis session writes", sessions.Ready)
	p.AddLoop("session tier", sessions.Watch)
	members := backofficecache.NewMembers(upstreams.Tenant, time.Now)
	streams := newStreams(sessions, members, c.MaxStreams, c.tenantStreams())
	streams.run(p, on.flags)
	p.Metrics.MustRegister(backofficestore.NewSessionCount(sessions, p.Namespace))
	news := backoffice.NewEnvelopes(p.Instance())
	access := identity.NewAccess(sessions, members, ledger, news)
	access.Notices, access.Now = streams.notices, time.Now
	received := inbox.New(on.db, backofficestore.InboxTable(), identity.ErrSessionsAway, backoffice.ErrCopiesAway)
	on.events.Receive(received, backofficeevents.NewReceiver(backofficeevents.Config{
		Inbox: received, Access: access, Sessions: sessions, Kept: backofficecache.NewInvalidator(on.store), Streams: streams.notices,
		Locks: newReportedLocks(p, &lock.Settler{Rows: ledger, News: news, Notices: streams.notices}),
		Log:   p.Log, Now: time.Now, Metrics: p.Metrics, Namespace: p.Namespace,
	}).Receive)
	tokens, err := c.tokens()
	if err != nil {
		return nil, nil, err
	}
	background := web.NewBackground(web.BackgroundConfig{Metrics: p.Metrics, Namespace: p.Namespace})
	p.Add("background", nil, background.Close)
	properties, err := backofficecache.NewProperties(on.store, p.Keys(), upstreams.Property)
	if err != nil {
		return nil, nil, err
	}
	turns := board.NewTurns(streams.notices, sessions)
	p.AddLoop("day turns", c.tellTurns(turns))
	guard, err := c.guard(p, on.client, keys, backofficeguard.Config{
		Tokens: tokens, Access: access, Properties: properties, Background: background,
	})
	if err != nil {
		return nil, nil, err
	}
	cfg := backofficehttp.Config{
		Properties: properties, Access: access, Activities: ledger, Attestations: sessions, Streams: streams.Streams, Flags: on.flags, IAM: upstreams.IAM,
		Tokens:   tokens,
		Calendar: board.NewCalendar(properties, c.HousesAhead), Turns: turns,
		Viewings: board.NewViewings(ledger, news), Background: background, Log: p.Log, Metrics: p.Metrics, Namespace: p.Namespace,
	}
	deadlines := board.Deadlines{Widget: c.WidgetDeadline, Whole: c.DashboardDeadline}
	if err := openBoards(upstreams.House, deadlines, on.store, p.Keys(), &cfg); err != nil {
		return nil, nil, err
	}
	if err := openLists(upstreams.Property.ListProperties, upstreams.Tenant.ListNames, on.store, p.Keys(), &cfg); err != nil {
		return nil, nil, err
	}
	notifier := stream.NewChangeNotifier(backofficecache.NewInvalidator(on.store), streams.notices)
	own := personal{
		store: on.store, keys: p.Keys(), ledger: ledger, upstreams: upstreams, news: news, notifier: notifier, notices: streams.notices, log: p.Log,
	}
	digested := prometheus.NewCounter(prometheus.CounterOpts{
		Namespace: p.Namespace, Name: "ai_provenance_digested_total",
		Help: "Decisions about suggestions whose provenance was too large, or not of a form that can be stored: its digest and size are kept.",
	})
	p.Metrics.MustRegister(digested)
	own.digested = digested.Inc
	if err := errors.Join(openPersonal(&cfg, own), c.openActions(&cfg, own)); err != nil {
		return nil, nil, err
	}
	if err := c.openDevices(deviceParts{ledger, upstreams.Sync, on.store, p.Keys(), news, streams.notices}, &cfg); err != nil {
		return nil, nil, err
	}
	cfg.Locks = lock.NewLocks(lock.LocksConfig{
		Integration: upstreams.Lock, Resources: upstreams.Actions, Mutations: ledger, Attestations: sessions, News: news, Now: time.Now,
	})
	api := backofficehttp.New(cfg)
	gates, err := loadshed.New(loadshed.Config{Classes: backofficehttp.Gates()})
	if err != nil {
		return nil, nil, err
	}
	routes, err := web.Assemble(api.Routes(), gates, guard)
	return routes, streams, err
}

// personal is what inboxes, preferences, shortcuts and actions stand on.
type personal struct {
	store     *cache.Store
	keys      redis.Keys
	ledger    *backofficestore.Ledger
	upstreams *backofficeupstream.Upstreams
	news      *backoffice.Envelopes
	notifier  *stream.ChangeNotifier
	notices   backoffice.Notifier
	log       *slog.Logger
	digested  func() // counts
}

// openPersonal opens the inboxes, and what operators set up for themselves.
func openPersonal(api *backofficehttp.Config, on personal) error {
	mirrors, err1 := backofficecache.NewInboxes(on.store, on.keys, on.upstreams.Inboxes, time.Now)
	reader, err2 := backofficecache.NewPreferences(backofficecache.PreferencesConfig{
		Store: on.store, Keys: on.keys, Source: on.upstreams.Tenant, Copies: on.ledger, Log: on.log,
	})
	shortcuts, err3 := backofficecache.NewShortcuts(on.store, on.keys, on.upstreams.Theme)
	api.Inboxes = backofficeinbox.NewInboxes(mirrors, on.ledger)
	api.InboxActions = backofficeinbox.NewActions(backofficeinbox.ActionsConfig{
		Mirrors: mirrors, Finder: on.upstreams.Inboxes, Mutations: on.ledger, Notices: on.notices, News: on.news, Now: time.Now, Digested: on.digested,
	})
	api.Settings = device.NewSettings(device.SettingsConfig{
		Reader: reader, Writer: on.upstreams.Tenant, Mutations: on.ledger, News: on.news, Notices: on.notices, Now: time.Now,
	})
	api.Shortcuts = shortcuts
	return errors.Join(err1, err2, err3)
}

// issuerTimeout caps one call for iam's keys.
const issuerTimeout = 2 * time.Second

// tokens verifies what iam signs.
func (c *Config) tokens() (*issuer.Tokens, error) {
	keys := &issuer.Keys{URL: c.jwksURL(), Client: &http.Client{Timeout: issuerTimeout}}
	return issuer.NewTokens(keys, c.Issuer, c.Audience)
}

// guard opens what stands in front of the public routes.
func (c *Config) guard(p *service.Process, client rueidis.Client, keys backofficestore.Keys, cfg backofficeguard.Config) (*backofficeguard.Guard, error) {
	nonces, err := dpop.NewNonces(revealed(c.NonceKeys)...)
	if err != nil {
		return nil, err
	}
	if cfg.Proofs, err = dpop.New(c.PublicURLs, nonces); err != nil {
		return nil, err
	}
	if cfg.Limits, err = backofficehttp.Limits().Override(c.Limits); err != nil {
		return nil, err
	}
	if !cfg.Limits.Off {
		cfg.Limiter, err = ratelimit.New(ratelimit.Config{
			Limits: cfg.Limits.Limits(), Source: ratelimit.NewRedis(client, keys.Limit), Pepper: []byte(c.Pepper.Reveal()), Instances: c.Instances,
		})
		if err != nil {
			return nil, err
		}
		cfg.Limiter.Register(p.Metrics, p.Namespace)
		p.AddLoop("rate limits", cfg.Limiter.Run)
	}
	cfg.MinAppVersion, cfg.Pepper = c.MinAppVersion, []byte(c.Pepper.Reveal())
	cfg.Log, cfg.Metrics, cfg.Namespace = p.Log, p.Metrics, p.Namespace
	return backofficeguard.New(cfg)
}
