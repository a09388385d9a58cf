package doctor

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/rueidis"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/daemon"
	"melmastoon.ghasi.io/bff/internal/postgres"
	"melmastoon.ghasi.io/bff/internal/pubsub"
	"melmastoon.ghasi.io/bff/internal/redis"
	"melmastoon.ghasi.io/bff/internal/service"
	"melmastoon.ghasi.io/bff/migrations"
)

// The oldest servers that are tested with.
const (
	minPostgres = 15_00_00
	minRedis    = 7
)

// Subject is a service's configuration to be examined.
type Subject struct {
	Settings  *service.Settings
	Wrong     error   // everything that is wrong with it
	Unsafe    []error // what is accepted in development alone
	FlagsFile string
	Places    func(*Examination) // adds the service's own keys and upstreams
}

// ExamineConnections examines the settings and whether everything that the service
// connects to answers. It changes nothing.
func ExamineConnections(id service.Identity, env *daemon.Environment, d Settings, s Subject) *Examination {
	x := NewExamination(id, s.Settings, d)
	x.configuration(env, s)
	x.connections()
	s.Places(x)
	return x
}

// ExamineAll examines what the servers hold, too.
func ExamineAll(id service.Identity, env *daemon.Environment, d Settings, s Subject) *Examination {
	x := NewExamination(id, s.Settings, d)
	x.configuration(env, s)
	x.servers()
	s.Places(x)
	return x
}

// configuration reports every wrong setting, in development those that a deployment
// would refuse, those that are probably a mistake, and variables that no setting reads.
func (x *Examination) configuration(env *daemon.Environment, s Subject) {
	x.Add(Check{Area: "configuration", Name: "settings", Run: func(context.Context) ([]Finding, error) {
		var found []Finding
		for _, p := range env.Problems(s.Wrong) {
			found = append(found, settingFinding(Wrong, p, "set it as docs/settings.md or `"+x.Name+" serve --help` describes"))
		}
		if len(found) == 0 {
			found = Good("every setting is right for the environment %s", x.settings.Environment)
		}
		if x.settings.Development() {
			for _, err := range s.Unsafe {
				for _, p := range env.Name(err) {
					p.Text += " (accepted in development, refused elsewhere)"
					found = append(found, settingFinding(Warning, p, ""))
				}
			}
		}
		if len(x.settings.Plaintext) > 0 {
			found = append(found, Finding{Check: "plaintext", Verdict: OK, Found: "may be reached without TLS: " + strings.Join(x.settings.Plaintext, ", ")})
		}
		for _, err := range service.CheckFlagsFile(s.FlagsFile) {
			for _, p := range env.Name(err) {
				found = append(found, settingFinding(Warning, p, "correct it, or leave it out"))
			}
		}
		for _, p := range env.Unknown(x.Prefix + "_") {
			found = append(found, settingFinding(Warning, p, "correct or remove it: nothing reads it"))
		}
		return found, nil
	}})
}

func settingFinding(v Verdict, p daemon.Problem, advice string) Finding {
	text := strings.TrimPrefix(p.Text, p.Variable+": ")
	return Finding{Check: p.Variable, Verdict: v, Found: text, Advice: advice}
}

// lazily opens something once, within the time that a server has for one check.
func lazily[T any](x *Examination, open func(context.Context) (T, error)) func() (T, error) {
	return sync.OnceValues(func() (T, error) {
		ctx, cancel := context.WithTimeout(context.Background(), x.doctor.Timeout)
		defer cancel()
		return open(ctx)
	})
}

// servers examines Postgres, both tiers of Redis, Pub/Sub and the issuer of callers'
// tokens.
func (x *Examination) servers() {
	app := x.Postgres()
	x.postgres("postgres", app)
	x.role("postgres", app)
	if x.settings.JobsPostgresURL != "" {
		jobs := x.jobs()
		x.postgres(jobsArea, jobs)
		x.role(jobsArea, jobs)
	}
	x.schema(app)
	x.tiers()
	x.pubSub()
	x.callers()
}

// connections examines whether the same servers answer, and nothing of what they hold.
func (x *Examination) connections() {
	app := x.Postgres()
	x.postgres("postgres", app)
	x.migrations(app, nil)
	if x.settings.JobsPostgresURL != "" {
		x.postgres(jobsArea, x.jobs())
	}
	if x.settings.MigrateURL != "" {
		x.postgres("postgres of migrations", x.pool(postgres.Config{URL: x.settings.MigrateURL.Reveal()}))
	}
	x.tiers()
	x.pubSubAnswers()
	x.callers()
}

const jobsArea = "postgres of relay and jobs"

func (x *Examination) jobs() func() (*pgxpool.Pool, error) {
	return x.pool(postgres.Config{URL: x.settings.JobsPostgresURL.Reveal()})
}

func (x *Examination) tiers() {
	x.redis("redis session", x.settings.RedisSessionURL, "noeviction", "sessions, limits and used proofs would vanish")
	x.redis("redis cache", x.settings.RedisCacheURL, "allkeys-lru", "writes would fail once its memory is full")
}

func (x *Examination) callers() {
	if x.settings.OIDCJWKSURL != "" {
		x.Issuer("keys", "issuer of callers' ID tokens", x.settings.OIDCJWKSURL)
	}
}

// ErrUnset is what a check returns whose setting is wrong, which is told already.
var ErrUnset = fmt.Errorf("%w: its setting is missing or cannot be read", errNotChecked)

// Postgres returns what opens the pool of requests, once. Unlike the service it also
// connects as a role that it should not have, to tell what is wrong with it.
func (x *Examination) Postgres() func() (*pgxpool.Pool, error) { return x.pool(x.PostgresConfig()) }

// PostgresConfig leads to the database as requests reach it.
func (x *Examination) PostgresConfig() postgres.Config {
	return x.patient(postgres.Config{URL: x.settings.PostgresURL.Reveal(), Pooler: x.settings.PostgresPooler})
}

func (x *Examination) pool(cfg postgres.Config) func() (*pgxpool.Pool, error) {
	cfg = x.patient(cfg)
	cfg.MaxConns = 4
	return lazily(x, func(ctx context.Context) (*pgxpool.Pool, error) {
		if cfg.URL == "" || !postgres.ValidURL(cfg.URL) { // none would lead to a server on this machine
			return nil, ErrUnset
		}
		db, err := postgres.Open(ctx, cfg)
		if err != nil {
			return nil, err
		}
		x.onEnd(db.Close)
		return db, db.Ping(ctx)
	})
}

// patient gives a server the time that the command allows, and not that of requests.
// Behind a pooler the role has the timeouts of statements.
func (x *Examination) patient(cfg postgres.Config) postgres.Config {
	cfg.ApplicationName, cfg.ConnectTimeout = x.Name+"-doctor", x.doctor.Timeout
	if cfg.Pooler != postgres.TransactionPooler {
		cfg.StatementTimeout, cfg.LockTimeout, cfg.IdleInTransactionTimeout = x.doctor.Timeout, x.doctor.Timeout, x.doctor.Timeout
	}
	return cfg
}

// Tenant is that of the examination: no hotel's id is of the first millisecond of 1970.
func Tenant() bff.ID { return bff.IDFromBytes(bff.PrefixTenant, [16]byte{15: 0xd0}) }

func (x *Examination) postgres(area string, open func() (*pgxpool.Pool, error)) {
	x.Add(Check{Area: area, Name: "server", Run: func(ctx context.Context) ([]Finding, error) {
		db, err := open()
		if err != nil {
			return nil, err
		}
		sent := x.Now()
		server, err := inspectServer(ctx, db)
		got := x.Now()
		if err != nil {
			return nil, err
		}
		found := Good("version %s answers in %s", server.Release, took(got.Sub(sent)))
		if server.Version < minPostgres {
			found = Bad("upgrade the server", "version %s is older than %d", server.Release, minPostgres/10_000)
		}
		return append(found, x.clock(server.Time, sent, got, 0)), nil
	}})
}

func (x *Examination) role(area string, open func() (*pgxpool.Pool, error)) {
	x.Add(Check{Area: area, Name: "role", Run: func(ctx context.Context) ([]Finding, error) {
		db, err := open()
		if err != nil {
			return nil, errAway
		}
		role, flaws, err := inspectRole(ctx, db, x.Schema)
		return orGood(flaws, "%s owns nothing and has no rights beyond its grants", role), err
	}})
}

var errAway = fmt.Errorf("%w: the server could not be reached", errNotChecked)

// orGood returns what is wrong, or the one finding that nothing is.
func orGood(flaws []Finding, good string, args ...any) []Finding {
	if len(flaws) == 0 {
		return Good(good, args...)
	}
	return flaws
}

// migrations examines whether all that the service embeds are applied; if so, inspect may
// find what was removed by hand; nil = it is not looked for.
func (x *Examination) migrations(open func() (*pgxpool.Pool, error), inspect func(context.Context, *pgxpool.Pool, migrations.Set) ([]Finding, error)) {
	x.Add(Check{Area: "postgres", Name: "migrations", Run: func(ctx context.Context) ([]Finding, error) {
		db, err := open()
		if err != nil {
			return nil, errAway
		}
		s, err := postgres.InspectMigrations(ctx, db, x.Schema)
		switch {
		case err != nil:
			return nil, err
		case s.Lack() != "":
			return Bad("run `"+x.Name+" migrate` as the role of migrate-url; the service is not ready before", "%s", s.Lack()), nil
		}
		var flaws []Finding
		if inspect != nil {
			flaws, err = inspect(ctx, db, x.Schema)
		}
		if ahead := s.Ahead(); ahead != "" {
			return orGood(flaws, "all up to %04d are applied, and the schema is %s: a later release has migrated, with which this one works", s.Newest, ahead), err
		}
		return orGood(flaws, "all up to %04d are applied", s.Newest), err
	}})
}

func (x *Examination) schema(open func() (*pgxpool.Pool, error)) {
	x.migrations(open, inspectSchema)
	if !x.Isolated {
		return
	}
	x.Add(Check{Area: "postgres", Name: "policies", Run: func(ctx context.Context) ([]Finding, error) {
		db, err := open()
		if err != nil {
			return nil, errAway
		}
		tables, policies, flaws, err := inspectPolicies(ctx, db, x.Schema)
		return orGood(flaws, "%d policies are as the migrations made them, and %d tables of tenants force them", policies, tables), err
	}})
}

// Redis returns what opens a client of a tier, once.
func (x *Examination) Redis(tier string, url daemon.Secret) func() (rueidis.Client, error) {
	return lazily(x, func(ctx context.Context) (rueidis.Client, error) {
		if !redis.ValidURL(url.Reveal()) {
			return nil, ErrUnset
		}
		c, err := redis.Open(redis.Config{URL: url.Reveal(), Tier: x.Name + "-doctor-" + tier, Timeout: x.doctor.Timeout})
		if err != nil {
			return nil, err
		}
		x.onEnd(c.Close)
		return c, redis.Ping(c)(ctx)
	})
}

// Keys builds the service's Redis keys.
func (x *Examination) Keys() redis.Keys { return redis.NewKeys(x.settings.Environment, x.Name) }

func (x *Examination) redis(area string, url daemon.Secret, policy, otherwise string) {
	open := x.Redis(strings.TrimPrefix(area, "redis "), url)
	x.Add(Check{Area: area, Name: "server", Run: func(ctx context.Context) ([]Finding, error) {
		c, err := open()
		if err != nil {
			return nil, err
		}
		sent := x.Now()
		nodes, err := redis.Inspect(ctx, c)
		got := x.Now()
		if err != nil {
			return nil, err
		}
		var found []Finding
		for _, n := range nodes {
			major, _, _ := strings.Cut(n.Version, ".")
			if v, err := strconv.Atoi(major); err != nil || v < minRedis {
				found = append(found, Bad("upgrade the server", "%s: version %s is older than %d", n.Address, n.Version, minRedis)...)
			} else {
				found = append(found, Good("%s: version %s answers in %s", n.Address, n.Version, took(got.Sub(sent)))...)
			}
			if n.Policy != policy {
				found = append(found, Finding{
					Check: "policy", Verdict: x.evictionVerdict(policy), Found: fmt.Sprintf("%s: maxmemory-policy is %q, want %s: %s", n.Address, n.Policy, policy, otherwise),
					Advice: "CONFIG SET maxmemory-policy " + policy + ", and in the server's configuration",
				})
			} else {
				found = append(found, Finding{Check: "policy", Verdict: OK, Found: n.Address + ": maxmemory-policy is " + policy})
			}
			if !n.Time.IsZero() {
				found = append(found, x.clock(n.Time, sent, got, 0))
			}
		}
		return found, nil
	}})
}

// evictionVerdict: in development both tiers may share one server, which can not have
// both policies. It keeps its keys, and its memory does not fill up.
func (x *Examination) evictionVerdict(policy string) Verdict {
	if x.settings.Development() && policy != "noeviction" && x.settings.RedisSessionURL == x.settings.RedisCacheURL {
		return Warning
	}
	return Wrong
}

// lacking opens Pub/Sub and returns what is missing of the given.
func (x *Examination) lacking(ctx context.Context, needs pubsub.Resources) ([]pubsub.Lack, error) {
	if x.settings.PubSubProject == "" {
		return nil, ErrUnset
	}
	client, err := pubsub.Open(ctx, pubsub.Config{ProjectID: x.settings.PubSubProject, EmulatorHost: x.settings.PubSubEmulator})
	if err != nil {
		return nil, err
	}
	defer func() { _ = client.Close() }() // only read
	return client.Inspect(ctx, needs)
}

// pubSubAnswers looks for one topic, which tells whether the project can be reached. An
// emulator has none before the service's first start.
func (x *Examination) pubSubAnswers() {
	x.Add(Check{Area: "pubsub", Name: "server", Run: func(ctx context.Context) ([]Finding, error) {
		lacks, err := x.lacking(ctx, pubsub.Resources{Topics: x.Publishes[:min(1, len(x.Publishes))]})
		if err != nil {
			return nil, err
		}
		if len(lacks) > 0 && x.settings.PubSubEmulator == "" {
			return Doubtful(
				"`"+x.Name+" events topics` lists what has to stand there; `"+x.Name+" doctor` says what is missing", "%s answers, and %s %s",
				x.settings.PubSubProject, lacks[0].Name, lacks[0].Text,
			), nil
		}
		return Good("%s answers", x.settings.PubSubProject), nil
	}})
}

func (x *Examination) pubSub() {
	needs := pubsub.Needed(x.Publishes, x.Receives)
	// Thousands of them are looked up sixteen at a time.
	limit := 2*x.doctor.Timeout + time.Duration(len(needs.Topics)+len(needs.Sources)+len(needs.Subscriptions))*20*time.Millisecond
	x.Add(Check{Area: "pubsub", Name: "topics and subscriptions", Timeout: limit, Run: func(ctx context.Context) ([]Finding, error) {
		lacks, err := x.lacking(ctx, needs)
		if err != nil {
			return nil, err
		}
		if len(lacks) == 0 {
			return Good("%d topics and %d subscriptions stand in %s", len(needs.Topics)+len(needs.Sources), len(needs.Subscriptions), x.settings.PubSubProject), nil
		}
		found := make([]Finding, len(lacks))
		for i, l := range lacks {
			found[i] = wrong(l.Name, l.Text, "create it as `"+x.Name+" events topics --json` lists it; one of another producer is that producer's to create")
		}
		return found, nil
	}})
}

// How far a server's clock may be off. Proofs of possession allow a minute, tokens
// half of one.
const (
	clockDoubt = 2 * time.Second
	clockWrong = 20 * time.Second
)

// clock compares a server's time with this machine's, which has gone on while the
// answer was on its way.
func (x *Examination) clock(server, sent, got time.Time, precision time.Duration) Finding {
	f := Finding{Check: "clock", Verdict: OK}
	ahead := server.Sub(sent.Add(got.Sub(sent) / 2))
	margin := got.Sub(sent)/2 + precision
	side := "ahead of"
	if ahead < 0 {
		side = "behind"
	}
	switch off := ahead.Abs(); {
	case off <= clockDoubt+margin:
		f.Found = "agrees with this machine's"
		return f
	case off <= clockWrong+margin:
		f.Verdict = Warning
	default:
		f.Verdict = Wrong
	}
	f.Found = fmt.Sprintf("is %s %s this machine's: tokens, proofs and leases are judged by either", ahead.Abs().Round(time.Second), side)
	f.Advice = "synchronise both with NTP (chronyc tracking, timedatectl); compare with the other servers to see which is off"
	return f
}

func took(d time.Duration) string { return d.Round(10 * time.Microsecond).String() }
