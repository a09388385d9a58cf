// Package backofficeupstream calls the services that the staff service stands on. It
// maps their dialects to the domain's words and decides nothing.
package backofficeupstream

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/upstream"
)

// Config says where the upstreams are.
type Config struct {
	// URLs has the address of every upstream.
	URLs map[backoffice.Upstream]string
	// Only are the upstreams of a process that calls no other; nil = all.
	Only []backoffice.Upstream

	Metrics   *prometheus.Registry
	Namespace string
	Log       *slog.Logger
	// Header adds the served request's id and trace to each call.
	Header func(ctx context.Context, h http.Header)
	// Transport replaces the tuned one, for tests.
	Transport http.RoundTripper
}

// Upstreams are the clients.
type Upstreams struct {
	IAM      *IAM
	Tenant   *Tenant
	Property *Property
	House    *House
	Inboxes  *Inboxes
	Theme    *Theme
	Sync     *Sync
	Lock     *Lock
	Actions  *Actions
}

// New returns the clients with the budgets of the specification.
func New(cfg Config) (*Upstreams, error) {
	var errs []error
	clients := map[backoffice.Upstream]*upstream.Client{}
	for _, name := range backoffice.Upstreams() {
		if cfg.Only != nil && !slices.Contains(cfg.Only, name) {
			continue
		}
		c, err := upstream.New(upstream.Config{
			Name: string(name), BaseURL: cfg.URLs[name], Timeout: name.Timeout(), Retries: name.Retries(), FairBy: dialectOf(name).tenant,
			Metrics: cfg.Metrics, Namespace: cfg.Namespace, Log: cfg.Log, Header: cfg.Header, Transport: cfg.Transport,
		})
		errs = append(errs, err)
		clients[name] = c
	}
	u := &Upstreams{
		IAM:      &IAM{clients[backoffice.UpstreamIAM]},
		Tenant:   &Tenant{clients[backoffice.UpstreamTenant]},
		Property: &Property{clients[backoffice.UpstreamProperty]},
		House:    &House{clients},
		Inboxes:  &Inboxes{ai: clients[backoffice.UpstreamAI], notification: clients[backoffice.UpstreamNotification]},
		Theme:    &Theme{clients[backoffice.UpstreamTheme]},
		Sync:     &Sync{clients[backoffice.UpstreamSync]},
		Lock:     &Lock{clients[backoffice.UpstreamLock]},
		Actions:  &Actions{clients},
	}
	return u, errors.Join(errs...)
}

// ofTenant says for whom a service is asked: it shows nothing of other tenants.
func ofTenant(tenant bff.ID) upstream.Option { return upstream.Header("X-Tenant-Id", tenant.String()) }

const retryUpstream = time.Second

// failed gives an upstream's failure its code.
func failed(err error) error {
	e, ok := errors.AsType[*upstream.Error](err)
	switch {
	case err == nil:
		return nil
	case !ok:
		return err
	case e.Reason == upstream.Timeout || e.Reason == upstream.Budget:
		return &bff.Error{Code: bff.CodeUpstreamTimeout, RetryAfter: retryUpstream, Err: err}
	}
	return &bff.Error{Code: bff.CodeUpstreamUnavailable, RetryAfter: retryUpstream, Err: err}
}
