package service

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/rueidis"

	"melmastoon.ghasi.io/bff/internal/daemon"
	"melmastoon.ghasi.io/bff/internal/postgres"
	"melmastoon.ghasi.io/bff/internal/redis"
	"melmastoon.ghasi.io/bff/internal/tracing"
	"melmastoon.ghasi.io/bff/internal/web"
)

const (
	requestBudget = 25 * time.Second // the edge gives up then
	writeTimeout  = 30 * time.Second
	redisTimeout  = 2 * time.Second
	// requestConns are for requests: with the breaker's own, which asks for a server that
	// hangs, they are 12 (DATA_MODEL §6). jobsConns are for the locks of jobs, a job, and
	// another or metrics. With what the relay takes out of a pool an instance has 16, the
	// leader too, and thirty have 480 of the server's 500.
	requestConns = 11
	jobsConns    = 3
)

// Process is one running process of a service. Parts start in the order in which
// they are opened.
type Process struct {
	*daemon.Daemon
	Identity
	settings daemon.Settings
	tracer   *tracing.Tracer            // nil records nothing
	jobsDB   *pgxpool.Pool              // of relay and jobs, once it is open
	breakers map[string]*redis.Breakers // by the server's URL
	conns    atomic.Int64               // to Postgres
}

// NewProcess returns a process that serves its health and metrics, and nothing
// else yet.
func NewProcess(id Identity, s daemon.Settings, admin AdminSettings) *Process {
	p := &Process{Daemon: daemon.New(s, daemon.NewLogger(os.Stderr, s, id.Name)), Identity: id, settings: s, breakers: map[string]*redis.Breakers{}}
	p.Metrics.MustRegister(daemon.ThisBuild().Figure(id.Namespace))
	p.Metrics.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: id.Namespace, Name: "postgres_connections", Help: "Connections to Postgres, idle ones, the relay's and the breaker's included: at most 16.",
	}, func() float64 { return float64(p.conns.Load()) }))
	p.AddServer("admin", admin.AdminListen, p.Admin(), daemon.ServerOptions{WriteTimeout: writeTimeout, NoDrain: true})
	return p
}

// Instance is the name of this process in events.
func (p *Process) Instance() string { return p.settings.InstanceName(p.Name) }

// Keys builds the service's Redis keys.
func (p *Process) Keys() redis.Keys { return redis.NewKeys(p.settings.Environment, p.Name) }

// Postgres opens the pool of requests. Migrations run at start if a role for
// them is configured.
func (p *Process) Postgres(ctx context.Context, s *DatabaseSettings) (*pgxpool.Pool, error) {
	p.migrate(s)
	return p.pool(ctx, postgres.Config{URL: s.PostgresURL.Reveal(), MaxConns: requestConns, RequireIsolation: p.Isolated, Pooler: s.PostgresPooler})
}

func (p *Process) migrate(s *DatabaseSettings) {
	if s.MigrateURL != "" {
		p.Add("migrations", func(ctx context.Context) error { return s.apply(ctx, p.Identity, p.Log) }, nil)
	}
}

// pool opens a pool, reports its state and measures it.
func (p *Process) pool(ctx context.Context, cfg postgres.Config) (*pgxpool.Pool, error) {
	cfg.ApplicationName, cfg.Traced, cfg.Connections, cfg.Breaker = p.Name, p.tracer != nil, &p.conns, postgres.NewBreaker(p.Metrics, p.Namespace)
	db, err := postgres.Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	p.Add("postgres", nil, func(context.Context) error {
		cfg.Breaker.Close()
		db.Close()
		return nil
	})
	p.AddCheck("postgres", func(ctx context.Context) error { return postgres.Ping(ctx, db) })
	p.Require("schema", p.migrated(db))
	p.measure(db, "requests")
	return db, nil
}

// measure exposes a pool. What the relay has taken out of one counts among the connections alone.
func (p *Process) measure(db *pgxpool.Pool, name string) {
	labels := prometheus.Labels{"pool": name}
	p.Metrics.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: p.Namespace, Name: "postgres_pool_inuse", Help: "Connections to Postgres in use.", ConstLabels: labels,
	}, func() float64 { return float64(db.Stat().AcquiredConns()) }), prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: p.Namespace, Name: "postgres_pool_total", Help: "Connections to Postgres that the pool may have.", ConstLabels: labels,
	}, func() float64 { return float64(db.Stat().MaxConns()) }))
}

// migrated checks that all migrations of this build are applied: without them requests
// would fail one by one, while a rolling update goes on. It looks until that is so, once.
// While the server can not be asked it is not known: what works without Postgres goes on.
func (p *Process) migrated(db *pgxpool.Pool) daemon.Check {
	var stands atomic.Bool
	return func(ctx context.Context) error {
		if stands.Load() {
			return nil
		}
		s, err := postgres.InspectMigrations(ctx, db, p.Schema)
		switch {
		case postgres.Unavailable(err) || ctx.Err() != nil:
			return daemon.ErrUnknown
		case err != nil: // a role, a password or a database that is not there is no outage, and not over by itself
			return fmt.Errorf("%w: %w", daemon.PublicError("the database refuses this process: see its URL, and run migrate"), err)
		case s.Lack() != "":
			return daemon.PublicError(s.Lack())
		}
		if ahead := s.Ahead(); stands.CompareAndSwap(false, true) && ahead != "" {
			p.Log.Info("the schema is ahead of this build, which works with it", "schema", ahead, "newest", s.Newest)
		}
		return nil
	}
}

// JobsPostgres returns the pool of relay and jobs: that of requests, unless they
// have a role of their own.
func (p *Process) JobsPostgres(ctx context.Context, s *DatabaseSettings, requests *pgxpool.Pool) (*pgxpool.Pool, error) {
	if s.JobsPostgresURL == "" && !p.Isolated {
		return requests, nil
	}
	if p.jobsDB != nil {
		return p.jobsDB, nil
	}
	url, err := s.jobsURL(p.Identity)
	if err != nil {
		return nil, err
	}
	db, err := postgres.Open(ctx, postgres.Config{
		URL: url, ApplicationName: p.Name + "-jobs", MaxConns: jobsConns, RequireIsolation: p.Isolated, Traced: p.tracer != nil, Connections: &p.conns,
	})
	if err != nil {
		return nil, err
	}
	p.Add("postgres of relay and jobs", nil, func(context.Context) error { db.Close(); return nil })
	p.measure(db, "jobs")
	p.jobsDB = db
	return db, nil
}

// Redis opens a client of one tier.
func (p *Process) Redis(tier string, url daemon.Secret) (rueidis.Client, error) {
	return p.RedisTelling(tier, url, nil)
}

// RedisTelling is Redis, and tells of each connection that is made; see [redis.Config].
func (p *Process) RedisTelling(tier string, url daemon.Secret, dialed func()) (rueidis.Client, error) {
	c, err := redis.Open(redis.Config{
		URL: url.Reveal(), Tier: p.Name + "-" + tier, Timeout: redisTimeout,
		InUse: redis.InUse(p.Metrics, p.Namespace, tier), Dialed: dialed,
	})
	if err != nil {
		return nil, err
	}
	if p.breakers[url.Reveal()] == nil {
		p.breakers[url.Reveal()] = new(redis.Breakers)
	}
	c = p.breakers[url.Reveal()].Wrap(c, redis.NewBreakerMetrics(p.Metrics, p.Namespace, tier))
	if p.tracer != nil {
		c = redis.WithTraces(c)
	}
	p.Add("redis "+tier, nil, func(context.Context) error { c.Close(); return nil })
	return c, nil
}

// trace sets the tracer up. It comes before whatever is traced, and so spans are
// exported after that has stopped.
func (p *Process) trace(ctx context.Context) (err error) {
	p.tracer, err = p.Tracer(ctx, p.Name)
	return err
}

// Web returns how the process's internal and public servers answer. Traces are set
// up with it: it is called first.
func (p *Process) Web(ctx context.Context, s *ListenSettings) (internal, public web.Config, err error) {
	err = p.trace(ctx)
	internal = web.Config{
		Log: p.Log, Metrics: p.Metrics, Namespace: p.Namespace, Tracer: p.tracer, TrustedProxies: s.TrustedProxies, Budget: requestBudget, Codes: p.Codes,
	}
	internal.Codes.Pages = s.ErrorsURL
	public = internal
	internal.JoinTraces = true
	origins, originErr := s.origins()
	public.Origins, public.Headers, public.Home = origins, p.Headers, s.PagesURL
	return internal, public, errors.Join(err, originErr)
}

// Listen opens both listeners, the public one last.
func (p *Process) Listen(s *ListenSettings, internal, public http.Handler) {
	p.AddServer("internal", s.InternalListen, internal, daemon.ServerOptions{WriteTimeout: writeTimeout, Trusted: s.TrustedProxies})
	p.AddServer("public", s.Listen, public, daemon.ServerOptions{FastPath: true, WriteTimeout: writeTimeout, Trusted: s.TrustedProxies})
}

// Propagate sends the served request's id and trace along to upstreams.
func Propagate(ctx context.Context, h http.Header) {
	req := web.From(ctx)
	if req.ID.IsZero() {
		return
	}
	h.Set("X-Request-Id", req.ID.ULID())
	h.Set("Traceparent", req.TraceParent)
}
