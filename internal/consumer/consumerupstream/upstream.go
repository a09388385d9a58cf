// Package consumerupstream reads the five services that the anonymous surface
// may read: search-aggregation, pricing, property, theme-config and tenant. It
// maps their dialects (micro-unit money, snake_case codes, their shape of
// localised text) to the domain's words, and decides nothing.
package consumerupstream

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/upstream"
)

// Config says where the upstreams are.
type Config struct {
	SearchURL   string
	PricingURL  string
	PropertyURL string
	ThemeURL    string
	TenantURL   string

	Metrics *prometheus.Registry
	Log     *slog.Logger
	// Header adds the served request's id and trace to each call.
	Header func(ctx context.Context, h http.Header)
}

// Upstreams are the clients of the five services.
type Upstreams struct {
	Search   *Search
	Pricing  *Pricing
	Property *Property
	Theme    *Theme
	Tenant   *Tenant
}

// New returns the clients with the budgets of the specification.
func New(cfg Config) (*Upstreams, error) {
	var errs []error
	client := func(name, url string, timeout time.Duration, retries int, hedge time.Duration) *upstream.Client {
		c, err := upstream.New(upstream.Config{
			Name: name, BaseURL: url, Timeout: timeout, Retries: retries, HedgeAfter: hedge,
			Metrics: cfg.Metrics, Namespace: "bff_consumer", Log: cfg.Log, Header: cfg.Header,
		})
		if err != nil {
			errs = append(errs, err)
		}
		return c
	}
	u := &Upstreams{
		Search:   &Search{client("search-aggregation", cfg.SearchURL, 1500*time.Millisecond, 1, 800*time.Millisecond)},
		Pricing:  &Pricing{client("pricing", cfg.PricingURL, 800*time.Millisecond, 1, 0)},
		Property: &Property{client("property", cfg.PropertyURL, time.Second, 1, 0)},
		Theme:    &Theme{client("theme-config", cfg.ThemeURL, 600*time.Millisecond, 1, 0)},
		Tenant:   &Tenant{client("tenant", cfg.TenantURL, 400*time.Millisecond, 0, 0)},
	}
	return u, errors.Join(errs...)
}

// failed gives an upstream's failure the domain's words.
func failed(err error) error {
	if err == nil {
		return nil
	}
	if upstream.NotFound(err) {
		return &bff.Error{Code: bff.CodeResourceNotFound, Err: err}
	}
	if e, ok := errors.AsType[*upstream.Error](err); ok {
		return &failure{e}
	}
	return err
}

// failure is an upstream's failure that says why a part is missing.
type failure struct{ cause *upstream.Error }

func (f *failure) Error() string { return f.cause.Error() }

// DegradedReason implements consumer.Reasoner.
func (f *failure) DegradedReason() string { return string(f.cause.Reason) }

// Unwrap returns the upstream's own error.
func (f *failure) Unwrap() error { return f.cause }

// text is localised text as the platform's services write it.
type text struct {
	Default string            `json:"default"` // a key of Values
	Values  map[string]string `json:"values"`
}

// localized turns it into what front ends read: the default text itself and
// the others by locale.
func (t text) localized() bff.LocalizedString {
	out := bff.LocalizedString{Default: t.Values[t.Default]}
	for locale, s := range t.Values {
		if locale == t.Default {
			continue
		}
		if out.Localized == nil {
			out.Localized = make(map[string]string, len(t.Values)-1)
		}
		out.Localized[locale] = s
	}
	if out.Default == "" { // a default that names no value: any is better than none
		for _, locale := range []string{"en", "fa", "ps"} {
			if s := t.Values[locale]; s != "" {
				out.Default = s
				break
			}
		}
	}
	return out
}

// in returns the text for a locale.
func (t text) in(locale bff.Locale) string {
	lang, _, _ := strings.Cut(string(locale), "-")
	for _, key := range []string{string(locale), lang, t.Default} {
		if s := t.Values[key]; s != "" {
			return s
		}
	}
	return ""
}

// kebabs turns many.
func kebabs(codes []string) []string {
	out := make([]string, len(codes))
	for i, c := range codes {
		out[i] = kebab(c)
	}
	return out
}

// kebab turns a platform code (halal_kitchen) into a front end's (halal-kitchen).
func kebab(code string) string { return strings.ReplaceAll(code, "_", "-") }

// snake is the way back.
func snake(code string) string { return strings.ReplaceAll(code, "-", "_") }
