package consumerd

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/consumer/consumerguard"
	"melmastoon.ghasi.io/bff/internal/consumer/consumerhttp"
	"melmastoon.ghasi.io/bff/internal/daemon"
	"melmastoon.ghasi.io/bff/internal/service"
)

// KeySettings say which secrets guests and hand-offs are known by.
type KeySettings struct {
	HandoffKeys       daemon.Secret   `name:"handoff-keys" env:"BFF_CONSUMER_HANDOFF_KEYS" help:"Keyring of the hand-off, as JSON."`
	HandoffKeysFile   string          `name:"handoff-keys-file" env:"BFF_CONSUMER_HANDOFF_KEYS_FILE" help:"File with the keyring of the hand-off."`
	HandoffKeysSecret string          `name:"handoff-keys-secret" env:"BFF_CONSUMER_HANDOFF_KEYS_SECRET" help:"Secret Manager version with the keyring: projects/…/secrets/…/versions/latest."`
	CardKeys          daemon.Secret   `name:"card-keys" env:"BFF_CONSUMER_CARD_KEYS" help:"Keyring of the guests' cards, as JSON; not the hand-off's."`
	CardKeysFile      string          `name:"card-keys-file" env:"BFF_CONSUMER_CARD_KEYS_FILE" help:"File with the keyring of the cards."`
	CardKeysSecret    string          `name:"card-keys-secret" env:"BFF_CONSUMER_CARD_KEYS_SECRET" help:"Secret Manager version with the keyring of the cards."`
	OldPeppers        []daemon.Secret `name:"old-peppers" env:"BFF_CONSUMER_OLD_PEPPERS" help:"Peppers before a rotation: known guests are moved to the new one."`
}

// Config is everything that the service can be told.
type Config struct {
	service.Settings
	*KeySettings     `embed:""`
	*DefenceSettings `embed:""`

	SearchURL   string `name:"search-url" env:"BFF_CONSUMER_SEARCH_URL" help:"search-aggregation-service."`
	PricingURL  string `name:"pricing-url" env:"BFF_CONSUMER_PRICING_URL" help:"pricing-service."`
	PropertyURL string `name:"property-url" env:"BFF_CONSUMER_PROPERTY_URL" help:"property-service."`
	ThemeURL    string `name:"theme-url" env:"BFF_CONSUMER_THEME_URL" help:"theme-config-service."`
	TenantURL   string `name:"tenant-url" env:"BFF_CONSUMER_TENANT_URL" help:"tenant-service."`

	RedirectTemplate string        `name:"redirect-template" env:"BFF_CONSUMER_REDIRECT_TEMPLATE" default:"https://{tenantSlug}.melmastoon.ghasi.io/book?h={token}" help:"Where a guest is handed off to."`
	Pepper           daemon.Secret `name:"pepper" env:"BFF_CONSUMER_PEPPER" help:"Secret mixed into the hashes of addresses and fingerprints: 32 random bytes or more, in development 16 characters."`

	PlainCookies bool `name:"plain-cookies" env:"BFF_CONSUMER_PLAIN_COOKIES" help:"Cookies without Secure, so that a phone on the network can be served over plain http; for development."`

	CardlessBefore time.Time `name:"cardless-before" env:"BFF_CONSUMER_CARDLESS_BEFORE" help:"When this deployment began to demand cards, such as 2026-12-01T00:00:00Z: for thirty days from then on, sessions that are older count without a card. Without it no session does."`

	CountryHeader string             `name:"country-header" env:"BFF_CONSUMER_COUNTRY_HEADER" help:"Header in which the edge reports the client's country."`
	Sampling      map[string]float64 `name:"sampling" env:"BFF_CONSUMER_SAMPLING" help:"Shares of events that leave, by subject, such as melmastoon.bff.consumer.search.executed.v1=0.1;…"`
	FlagsFile     string             `name:"flags-file" env:"BFF_CONSUMER_FLAGS_FILE" help:"JSON file with feature flags; those in Redis win."`
}

// Validate reports everything that is missing or wrong, and shows no values.
func (c Config) Validate() error {
	errs := []error{c.Settings.Validate()}
	need := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	for name, v := range c.urls() {
		errs = append(errs, service.HTTPURL(name, v))
	}
	for subject, rate := range c.Sampling {
		need(slices.Contains(consumer.Subjects(), consumer.Subject(subject)), "sampling: there is no event %q", subject)
		need(rate >= 0 && rate <= 1, "sampling: %s must lie between 0 and 1", subject)
	}
	errs = append(errs, c.Secrets("pepper", c.Pepper))
	if len(c.OldPeppers) > 0 {
		errs = append(errs, c.Secrets("old-peppers", c.OldPeppers...))
	}
	errs = append(errs, c.handoffKeys().validate(), c.cardKeys().validate())
	need(strings.Contains(c.RedirectTemplate, "{tenantSlug}") && strings.Contains(c.RedirectTemplate, "{token}"),
		"redirect-template: must hold {tenantSlug} and {token}")
	need(!c.CardlessBefore.After(time.Now()), "cardless-before: lies in the future, sessions opened until then would need no card")
	errs = append(errs, c.validate()...)
	if !c.Development() {
		errs = append(errs, c.unsafe()...)
	}
	return errors.Join(errs...)
}

// peppers are the current pepper and those being rotated out.
func (c Config) peppers() [][]byte {
	all := [][]byte{[]byte(c.Pepper.Reveal())}
	for _, p := range c.OldPeppers {
		all = append(all, []byte(p.Reveal()))
	}
	return all
}

// urls are those of the upstreams, by their settings.
func (c Config) urls() map[string]string {
	return map[string]string{
		"search-url": c.SearchURL, "pricing-url": c.PricingURL, "property-url": c.PropertyURL, "theme-url": c.ThemeURL, "tenant-url": c.TenantURL,
	}
}

// unsafe reports the service's own settings that are for development alone.
func (c Config) unsafe() []error {
	errs := append(service.Guessable("pepper", c.Pepper), service.Guessable("old-peppers", c.OldPeppers...)...)
	for name, u := range c.urls() {
		errs = append(errs, c.PlainURL(service.PlainUpstreams, name, u)...)
	}
	if c.cardKeys().validate() == nil && c.cardKeys().same(c.handoffKeys()) { // which the booking services have
		errs = append(errs, errors.New("card-keys: are the hand-off's"))
	}
	if c.PlainCookies {
		errs = append(errs, errors.New("plain-cookies: sessions would travel over plain http"))
	}
	if limits, err := consumerhttp.Limits().Override(c.Limits); err == nil {
		errs = append(errs, limits.Unbounded("limits")...)
	}
	if consumerguard.Mode(c.BotDefence) == consumerguard.ModeOff {
		errs = append(errs, errors.New("bot-defence: is off"))
	}
	return errs
}

// cardless says which sessions count without a card.
func (c Config) cardless() consumer.Cardless {
	return consumer.Cardless{Always: c.PlainCookies, Before: c.CardlessBefore}
}

// rate is the share of an event's kind that leaves.
func (c Config) rate(s consumer.Subject) float64 {
	if r, ok := c.Sampling[string(s)]; ok {
		return r
	}
	return consumer.DefaultRate(s)
}
