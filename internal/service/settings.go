package service

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"time"

	"melmastoon.ghasi.io/bff/internal/callers"
	"melmastoon.ghasi.io/bff/internal/daemon"
	"melmastoon.ghasi.io/bff/internal/issuer"
	"melmastoon.ghasi.io/bff/internal/postgres"
	"melmastoon.ghasi.io/bff/internal/redis"
	"melmastoon.ghasi.io/bff/internal/web"
)

// Settings are what every serving process can be told. A service embeds them in
// its own configuration.
type Settings struct {
	daemon.Settings
	ListenSettings
	DatabaseSettings
	RedisSettings
	PubSubSettings
	CallerSettings
	PlaintextSettings
	NoRelay bool `name:"no-relay" env:"${prefix}_NO_RELAY" help:"Leave publishing to separate relay processes."`

	Scheduler string `name:"jobs" env:"${prefix}_JOBS" enum:"on,off" default:"on" help:"on: run the jobs of retention from here, one process at a time; off: another process runs them."`
}

// Elsewhere reports whether this process neither publishes nor runs jobs: it then needs no role, keys or accounts for that.
func (s *Settings) Elsewhere() bool { return s.NoRelay && s.Scheduler == "off" }

// Validate reports everything that is missing or wrong, and shows no values.
func (s *Settings) Validate() error {
	s.elsewhere = s.Elsewhere()
	errs := []error{
		s.Settings.Validate(), s.ListenSettings.validate(), s.DatabaseSettings.validate(), s.RedisSettings.validate(),
		s.PubSubSettings.validate(), s.CallerSettings.validate(), s.PlaintextSettings.validate(),
	}
	if !s.Development() {
		errs = append(errs, s.Unsafe()...)
	}
	return errors.Join(errs...)
}

// AdminSettings place the listener of health, metrics and profiles.
type AdminSettings struct {
	AdminListen string `name:"admin-listen" env:"${prefix}_ADMIN_LISTEN" default:"${admin_listen}" help:"Address of health, metrics and profiles."`
}

// ListenSettings place the listeners.
type ListenSettings struct {
	AdminSettings
	Listen         string         `name:"listen" env:"${prefix}_LISTEN" default:"${listen}" help:"Address of the public API; where only PORT is set, as Cloud Run does, it is :$PORT."`
	InternalListen string         `name:"internal-listen" env:"${prefix}_INTERNAL_LISTEN" default:"${internal_listen}" help:"Address of the calls that only other services may make."`
	TrustedProxies []netip.Prefix `name:"trusted-proxies" env:"${prefix}_TRUSTED_PROXIES" help:"CIDRs whose X-Forwarded-For is believed."`
	ErrorsURL      string         `name:"errors-url" env:"MELMASTOON_ERRORS_URL" default:"https://docs.melmastoon.ghasi.io/errors/" help:"Where the pages of error codes are, for docUrl of problem documents; the code follows."`
	PagesURL       string         `name:"pages-url" env:"MELMASTOON_PAGES_URL" help:"Development: where GET / of the public API leads, such as the pages of melmastoon up (default: nowhere, 404)."`
	AllowedOrigins []string       `name:"allowed-origins" env:"${prefix}_ALLOWED_ORIGINS" help:"Origins, beside the service's own, whose pages may use the API with their user's cookies, such as https://app.example.org; for development also loopback: every origin on this machine, and host:NAME: every origin on that host."`
}

func (s *ListenSettings) origins() (web.Origins, error) {
	o, err := web.ParseOrigins(s.AllowedOrigins)
	if err != nil {
		err = fmt.Errorf("allowed-origins: %w", err)
	}
	return o, err
}

func (s *ListenSettings) validate() error {
	_, err := s.origins()
	errs := []error{err}
	for _, u := range []struct{ name, url string }{{"errors-url", s.ErrorsURL}, {"pages-url", s.PagesURL}} {
		if u.url != "" {
			errs = append(errs, HTTPURL(u.name, u.url))
		}
	}
	if port := os.Getenv(portVariable); s.Listen == ":"+port {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			errs = append(errs, fmt.Errorf("%s: must be the number of a port", portVariable))
		}
	}
	for _, a := range []struct{ name, address string }{{"listen", s.Listen}, {"internal-listen", s.InternalListen}, {"admin-listen", s.AdminListen}} {
		if _, _, err := net.SplitHostPort(a.address); err != nil && a.address != "" {
			errs = append(errs, fmt.Errorf("%s: must be an address such as 127.0.0.1:8080 or :8080", a.name))
		}
	}
	return errors.Join(errs...)
}

// DatabaseSettings name the roles of the database.
type DatabaseSettings struct {
	PostgresURL     daemon.Secret   `name:"postgres-url" env:"${prefix}_POSTGRES_URL" help:"Database, as the application's role."`
	PostgresPooler  postgres.Pooler `name:"postgres-pooler" env:"${prefix}_POSTGRES_POOLER" enum:"none,transaction" default:"none" help:"What postgres-url leads through: none, or transaction for PgBouncer with pool_mode=transaction. jobs-postgres-url and migrate-url always lead to the server itself."`
	JobsPostgresURL daemon.Secret   `name:"jobs-postgres-url" env:"${prefix}_JOBS_POSTGRES_URL" help:"Database, as the role of relay and jobs, without a pooler (default: postgres-url)."`
	MigrateURL      daemon.Secret   `name:"migrate-url" env:"${prefix}_MIGRATE_URL" help:"Database, as a role that may migrate, without a pooler; if set, migrations run at start."`

	isolated  bool
	elsewhere bool // other processes relay and run jobs
}

// BeforeApply is called with the command line's service before settings are read.
func (s *DatabaseSettings) BeforeApply(id Identity) error {
	s.isolated = id.Isolated
	return nil
}

func (s *DatabaseSettings) validate() error {
	return errors.Join(required("postgres-url", s.PostgresURL), s.validateDirect(), s.validateURLs())
}

// validateJobs accepts what is enough for the role of relay and jobs.
func (s *DatabaseSettings) validateJobs() error {
	var err error
	switch {
	case s.JobsPostgresURL != "":
	case s.isolated:
		err = required("jobs-postgres-url", s.JobsPostgresURL)
	case s.PostgresURL == "":
		err = errors.New("postgres-url or jobs-postgres-url: one is required")
	}
	return errors.Join(err, s.validateDirect(), s.validateURLs())
}

// validateURLs reports what cannot be read as a database's URL.
func (s *DatabaseSettings) validateURLs() error {
	var errs []error
	for _, u := range []struct {
		name string
		url  daemon.Secret
	}{{"postgres-url", s.PostgresURL}, {"jobs-postgres-url", s.JobsPostgresURL}, {"migrate-url", s.MigrateURL}} {
		if u.url != "" && !postgres.ValidURL(u.url.Reveal()) {
			errs = append(errs, fmt.Errorf("%s: must be a URL such as postgres://role:password@host:5432/database", u.name))
		}
	}
	return errors.Join(errs...)
}

// validateDirect reports a missing way around the pooler: the relay's lock and
// LISTEN belong to a session, which a pooler takes away after each transaction.
func (s *DatabaseSettings) validateDirect() error {
	if s.PostgresPooler == postgres.TransactionPooler && s.JobsPostgresURL == "" && !s.elsewhere {
		return errors.New("jobs-postgres-url: is required with postgres-pooler=transaction")
	}
	return nil
}

// jobsURL is the database as relay and jobs see it. Where requests are isolated,
// their role sees too little for the relay: falling back to it would publish
// nothing, without an error.
func (s *DatabaseSettings) jobsURL(id Identity) (string, error) {
	if s.JobsPostgresURL != "" {
		return s.JobsPostgresURL.Reveal(), nil
	}
	if id.Isolated {
		return "", required("jobs-postgres-url", "")
	}
	return s.PostgresURL.Reveal(), errors.Join(required("postgres-url", s.PostgresURL), s.validateDirect())
}

// RedisSettings name the two tiers.
type RedisSettings struct {
	RedisSessionURL daemon.Secret `name:"redis-session-url" env:"${prefix}_REDIS_SESSION_URL" help:"Redis of sessions and limits (noeviction)."`
	RedisCacheURL   daemon.Secret `name:"redis-cache-url" env:"${prefix}_REDIS_CACHE_URL" help:"Redis of caches (allkeys-lru)."`
}

func (s *RedisSettings) validate() error {
	return errors.Join(redisURL("redis-session-url", s.RedisSessionURL), redisURL("redis-cache-url", s.RedisCacheURL))
}

func redisURL(name string, url daemon.Secret) error {
	if url != "" && !redis.ValidURL(url.Reveal()) {
		return fmt.Errorf("%s: must be a URL such as redis://host:6379 or rediss://user:password@host:6379", name)
	}
	return required(name, url)
}

// PubSubSettings say where events go and come from.
type PubSubSettings struct {
	PubSubProject  string `name:"pubsub-project" env:"PUBSUB_PROJECT_ID" help:"Project of the event topics."`
	PubSubEmulator string `name:"pubsub-emulator" env:"PUBSUB_EMULATOR_HOST" help:"host:port of an emulator; topics are then created at start."`
}

func (s *PubSubSettings) validate() error { return required("pubsub-project", s.PubSubProject) }

// CallerSettings say which services may make internal calls.
type CallerSettings struct {
	InternalToken   daemon.Secret `name:"internal-token" env:"MELMASTOON_INTERNAL_TOKEN" help:"Bearer token of internal callers in local runs."`
	InternalHMACKey daemon.Secret `name:"internal-hmac-key" env:"MELMASTOON_INTERNAL_HMAC_KEY" help:"Key that signs internal calls."`
	OIDCJWKSURL     string        `name:"oidc-jwks-url" env:"${prefix}_OIDC_JWKS_URL" help:"Where the issuer of the callers' ID tokens publishes its keys."`
	OIDCIssuer      string        `name:"oidc-issuer" env:"${prefix}_OIDC_ISSUER" default:"https://accounts.google.com" help:"Issuer of the ID tokens."`
	OIDCAudience    string        `name:"oidc-audience" env:"${prefix}_OIDC_AUDIENCE" help:"Audience that the ID tokens must have: this service's internal URL."`
	OIDCEmails      []string      `name:"oidc-emails" env:"${prefix}_OIDC_EMAILS" help:"Service accounts that may make internal calls."`
}

func (s *CallerSettings) validate() error {
	errs := []error{required("internal-hmac-key", s.InternalHMACKey)}
	if s.OIDCJWKSURL != "" {
		errs = append(errs, HTTPURL("oidc-jwks-url", s.OIDCJWKSURL))
	}
	if s.InternalToken == "" && s.OIDCJWKSURL == "" {
		errs = append(errs, errors.New("internal-token or oidc-jwks-url: one is required"))
	}
	if s.OIDCJWKSURL != "" && (s.OIDCIssuer == "" || s.OIDCAudience == "" || len(s.OIDCEmails) == 0) {
		errs = append(errs, errors.New("oidc-jwks-url: needs oidc-issuer, oidc-audience and oidc-emails"))
	}
	return errors.Join(errs...)
}

// issuerTimeout caps one call to the issuer of ID tokens.
const issuerTimeout = 2 * time.Second

// Callers returns what authenticates internal calls.
func (s *CallerSettings) Callers() callers.Auth {
	auth := callers.Auth{Token: s.InternalToken.Reveal(), HMACKey: []byte(s.InternalHMACKey.Reveal())}
	if s.OIDCJWKSURL != "" {
		auth.OIDC = &callers.OIDC{
			Keys:   &issuer.Keys{URL: s.OIDCJWKSURL, Client: &http.Client{Timeout: issuerTimeout}},
			Issuer: s.OIDCIssuer, Audience: s.OIDCAudience, Emails: s.OIDCEmails,
		}
	}
	return auth
}

// HTTPURL reports a setting that is no URL of a web server.
func HTTPURL(name, value string) error {
	if value == "" {
		return required(name, value)
	}
	if u, err := url.Parse(value); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return fmt.Errorf("%s: must be an http(s) URL", name)
	}
	return nil
}

func required[T ~string](name string, value T) error {
	if value == "" {
		return fmt.Errorf("%s: is required", name)
	}
	return nil
}
