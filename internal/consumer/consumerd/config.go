package consumerd

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/daemon"
)

// KeySettings say which secrets guests and hand-offs are known by.
type KeySettings struct {
	HandoffKeys       daemon.Secret   `name:"handoff-keys" env:"BFF_CONSUMER_HANDOFF_KEYS" help:"Keyring of the hand-off, as JSON."`
	HandoffKeysFile   string          `name:"handoff-keys-file" env:"BFF_CONSUMER_HANDOFF_KEYS_FILE" help:"File with the keyring of the hand-off."`
	HandoffKeysSecret string          `name:"handoff-keys-secret" env:"BFF_CONSUMER_HANDOFF_KEYS_SECRET" help:"Secret Manager version with the keyring: projects/…/secrets/…/versions/latest."`
	OldPeppers        []daemon.Secret `name:"old-peppers" env:"BFF_CONSUMER_OLD_PEPPERS" help:"Peppers before a rotation: known guests are moved to the new one."`
}

// CallerSettings say who may make the internal calls.
type CallerSettings struct {
	InternalToken   daemon.Secret `name:"internal-token" env:"MELMASTOON_INTERNAL_TOKEN" help:"Bearer token of the booking service in local runs."`
	InternalHMACKey daemon.Secret `name:"internal-hmac-key" env:"MELMASTOON_INTERNAL_HMAC_KEY" help:"Key that signs internal calls."`
	OIDCJWKSURL     string        `name:"oidc-jwks-url" env:"BFF_CONSUMER_OIDC_JWKS_URL" help:"Where the issuer of the booking service's ID tokens publishes its keys."`
	OIDCIssuer      string        `name:"oidc-issuer" env:"BFF_CONSUMER_OIDC_ISSUER" default:"https://accounts.google.com" help:"Issuer of the ID tokens."`
	OIDCAudience    string        `name:"oidc-audience" env:"BFF_CONSUMER_OIDC_AUDIENCE" help:"Whom the ID tokens must be for: this service's internal URL."`
	OIDCEmails      []string      `name:"oidc-emails" env:"BFF_CONSUMER_OIDC_EMAILS" help:"Service accounts that may consume hand-offs."`
}

// Config is everything that the service can be told.
type Config struct {
	daemon.Settings
	*KeySettings     `embed:""`
	*CallerSettings  `embed:""`
	*DefenceSettings `embed:""`

	Listen         string `name:"listen" env:"BFF_CONSUMER_LISTEN" default:":8081" help:"Address of the public API."`
	InternalListen string `name:"internal-listen" env:"BFF_CONSUMER_INTERNAL_LISTEN" default:"127.0.0.1:8181" help:"Address of the calls that only other services may make."`
	AdminListen    string `name:"admin-listen" env:"BFF_CONSUMER_ADMIN_LISTEN" default:"127.0.0.1:9081" help:"Address of health, metrics and profiles."`

	PostgresURL     daemon.Secret `name:"postgres-url" env:"BFF_CONSUMER_POSTGRES_URL" help:"Database, as the application's role."`
	MigrateURL      daemon.Secret `name:"migrate-url" env:"BFF_CONSUMER_MIGRATE_URL" help:"Database, as a role that may migrate; if set, migrations run at start."`
	RedisSessionURL daemon.Secret `name:"redis-session-url" env:"BFF_CONSUMER_REDIS_SESSION_URL" help:"Redis of sessions and limits."`
	RedisCacheURL   daemon.Secret `name:"redis-cache-url" env:"BFF_CONSUMER_REDIS_CACHE_URL" help:"Redis of caches."`
	PubSubProject   string        `name:"pubsub-project" env:"PUBSUB_PROJECT_ID" help:"Project of the event topics."`
	PubSubEmulator  string        `name:"pubsub-emulator" env:"PUBSUB_EMULATOR_HOST" help:"host:port of an emulator; topics are then created at start."`

	SearchURL   string `name:"search-url" env:"BFF_CONSUMER_SEARCH_URL" help:"search-aggregation-service."`
	PricingURL  string `name:"pricing-url" env:"BFF_CONSUMER_PRICING_URL" help:"pricing-service."`
	PropertyURL string `name:"property-url" env:"BFF_CONSUMER_PROPERTY_URL" help:"property-service."`
	ThemeURL    string `name:"theme-url" env:"BFF_CONSUMER_THEME_URL" help:"theme-config-service."`
	TenantURL   string `name:"tenant-url" env:"BFF_CONSUMER_TENANT_URL" help:"tenant-service."`

	RedirectTemplate string        `name:"redirect-template" env:"BFF_CONSUMER_REDIRECT_TEMPLATE" default:"https://{tenantSlug}.melmastoon.ghasi.io/book?h={token}" help:"Where a guest is handed off to."`
	Pepper           daemon.Secret `name:"pepper" env:"BFF_CONSUMER_PEPPER" help:"Secret mixed into the hashes of addresses and fingerprints; at least 16 characters."`

	TrustedProxies []netip.Prefix     `name:"trusted-proxies" env:"BFF_CONSUMER_TRUSTED_PROXIES" help:"CIDRs whose X-Forwarded-For is believed."`
	CountryHeader  string             `name:"country-header" env:"BFF_CONSUMER_COUNTRY_HEADER" help:"Header in which the edge reports the client's country."`
	HomeCountry    string             `name:"home-country" env:"BFF_CONSUMER_HOME_COUNTRY" default:"AF" help:"Country of this deployment; hotels elsewhere get the cross-region badge."`
	Sampling       map[string]float64 `name:"sampling" env:"BFF_CONSUMER_SAMPLING" help:"Shares of events that leave, by subject, such as melmastoon.bff.consumer.search.executed.v1=0.1;…"`
	FlagsFile      string             `name:"flags-file" env:"BFF_CONSUMER_FLAGS_FILE" help:"JSON file with feature flags; those in Redis win."`
	NoRelay        bool               `name:"no-relay" env:"BFF_CONSUMER_NO_RELAY" help:"Leave publishing to separate relay processes."`
}

// Validate reports everything that is missing or wrong, and shows no values.
func (c Config) Validate() error {
	errs := []error{c.Settings.Validate()}
	need := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	for name, v := range map[string]daemon.Secret{
		"postgres-url": c.PostgresURL, "redis-session-url": c.RedisSessionURL, "redis-cache-url": c.RedisCacheURL,
		"internal-hmac-key": c.InternalHMACKey,
	} {
		need(v != "", "%s: is required", name)
	}
	for name, v := range map[string]string{
		"search-url": c.SearchURL, "pricing-url": c.PricingURL, "property-url": c.PropertyURL, "theme-url": c.ThemeURL, "tenant-url": c.TenantURL,
	} {
		u, err := url.Parse(v)
		need(err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "", "%s: must be an http(s) URL", name)
	}
	for subject, rate := range c.Sampling {
		need(slices.Contains(consumer.Subjects(), consumer.Subject(subject)), "sampling: there is no event %q", subject)
		need(rate >= 0 && rate <= 1, "sampling: %s must lie between 0 and 1", subject)
	}
	need(c.PubSubProject != "", "pubsub-project: is required")
	need(len(c.Pepper) >= 16, "pepper: at least 16 characters are required")
	for _, p := range c.OldPeppers {
		need(len(p) >= 16, "old-peppers: at least 16 characters each are required")
	}
	given := 0
	for _, v := range []string{c.HandoffKeys.Reveal(), c.HandoffKeysFile, c.HandoffKeysSecret} {
		if v != "" {
			given++
		}
	}
	need(given == 1, "handoff-keys, handoff-keys-file or handoff-keys-secret: exactly one is required")
	need(c.InternalToken != "" || c.OIDCJWKSURL != "", "internal-token or oidc-jwks-url: one is required")
	need(c.OIDCJWKSURL == "" || (c.OIDCIssuer != "" && c.OIDCAudience != "" && len(c.OIDCEmails) > 0),
		"oidc-jwks-url: needs oidc-issuer, oidc-audience and oidc-emails")
	need(strings.Contains(c.RedirectTemplate, "{tenantSlug}") && strings.Contains(c.RedirectTemplate, "{token}"),
		"redirect-template: must hold {tenantSlug} and {token}")
	errs = append(errs, c.validate()...)
	return errors.Join(errs...)
}

// rate is the share of an event's kind that leaves.
func (c Config) rate(s consumer.Subject) float64 {
	if r, ok := c.Sampling[string(s)]; ok {
		return r
	}
	return consumer.DefaultRate(s)
}

// validateRelay reports what a process that only publishes lacks.
func (c Config) validateRelay() error {
	errs := []error{c.Settings.Validate()}
	if c.PostgresURL == "" {
		errs = append(errs, errors.New("postgres-url: is required"))
	}
	if c.PubSubProject == "" {
		errs = append(errs, errors.New("pubsub-project: is required"))
	}
	return errors.Join(errs...)
}
