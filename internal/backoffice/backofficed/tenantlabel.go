package backofficed

import (
	"sync"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/web"
)

// MetricSettings say how finely requests are counted.
type MetricSettings struct {
	MetricTenants int `name:"metric-tenants" env:"BFF_BACKOFFICE_METRIC_TENANTS" default:"0" help:"How many tenants have a label tenant_id of their own in request_total and errors_total; further ones share one. 0: there is no such label. Each costs a series per route and status that it meets."`
}

// maxMetricTenants bounds the series of one process.
const maxMetricTenants = 1000

// tenantLabel names the tenants that came first.
type tenantLabel struct {
	most int

	mu    sync.Mutex
	known map[bff.ID]string
}

var _ web.Label = (*tenantLabel)(nil)

// label is nil if requests are not counted by tenant.
func (s *MetricSettings) label() web.Label {
	if s.MetricTenants == 0 {
		return nil
	}
	return &tenantLabel{most: s.MetricTenants, known: map[bff.ID]string{}}
}

// Name implements web.Label.
func (*tenantLabel) Name() string { return "tenant_id" }

// Of implements web.Label: none of a request that was refused before its tenant was
// known for certain.
func (l *tenantLabel) Of(r *web.Request) string {
	v, ok := r.Local.(*backoffice.Visit)
	if !ok || v == nil {
		return "none"
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	name, ok := l.known[v.Caller.Tenant]
	switch {
	case ok:
		return name
	case len(l.known) >= l.most:
		return "other"
	}
	name = v.Caller.Tenant.String()
	l.known[v.Caller.Tenant] = name
	return name
}
