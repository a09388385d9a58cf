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

	Metrics   *prometheus.Registry
	Namespace string
	Log       *slog.Logger
	// Header adds the served request's id and trace to each call.
	Header func(ctx context.Context, h http.Header)
	// Transport replaces the clients' own.
	Transport http.RoundTripper
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
			Metrics: cfg.Metrics, Namespace: cfg.Namespace, Log: cfg.Log, Header: cfg.Header, Transport: cfg.Transport,
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
		if e.Status == http.StatusBadRequest {
			// The service works, and does not accept what was asked.
			return &bff.Error{Code: bff.CodeValidationFailed, Detail: "the request has a value that cannot be searched for: change it", Err: err}
		}
		return e
	}
	return err
}
