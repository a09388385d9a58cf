package backofficeupstream

import (
	"net/http"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/upstream"
)

// probes are a route of each upstream with one id.
var probes = map[backoffice.Upstream]struct {
	route string
	about bff.Prefix
}{
	backoffice.UpstreamIAM:          {"/.well-known/jwks.json", ""},
	backoffice.UpstreamTenant:       {"/api/v1/tenants/{tenantId}", bff.PrefixTenant},
	backoffice.UpstreamReservation:  {"/api/v1/properties/{propertyId}/arrivals", bff.PrefixProperty},
	backoffice.UpstreamInventory:    {"/api/v1/properties/{propertyId}/rooms", bff.PrefixProperty},
	backoffice.UpstreamPricing:      {"/v1/pricing/properties/{propertyId}/rates", bff.PrefixProperty},
	backoffice.UpstreamBilling:      {"/api/v1/properties/{propertyId}/folios", bff.PrefixProperty},
	backoffice.UpstreamHousekeeping: {"/api/v1/properties/{propertyId}/tasks", bff.PrefixProperty},
	backoffice.UpstreamMaintenance:  {"/api/v1/properties/{propertyId}/work-orders", bff.PrefixProperty},
	backoffice.UpstreamLock:         {"/api/v1/properties/{propertyId}/failures", bff.PrefixProperty},
	backoffice.UpstreamAI:           {"/api/v1/tenants/{tenantId}/suggestions", bff.PrefixTenant},
	backoffice.UpstreamNotification: {"/api/v1/tenants/{tenantId}/alerts", bff.PrefixTenant},
	backoffice.UpstreamSync:         {"/api/v1/properties/{propertyId}/devices", bff.PrefixProperty},
	backoffice.UpstreamTheme:        {"/api/v1/tenants/{tenantId}/brand-peek", bff.PrefixTenant},
	backoffice.UpstreamAnalytics:    {"/api/v1/properties/{propertyId}/kpis", bff.PrefixProperty},
	backoffice.UpstreamProperty:     {"/api/v1/properties/{propertyId}", bff.PrefixProperty},
	backoffice.UpstreamStaff:        {"/api/v1/properties/{propertyId}/shifts", bff.PrefixProperty},
}

// Probe is a read of an upstream about a house that no tenant has.
func Probe(u backoffice.Upstream, tenant bff.ID) upstream.Probe {
	at, d := probes[u], dialectOf(u)
	p := upstream.Probe{Route: at.route, Path: at.route, Header: http.Header{}}
	if at.about != "" {
		p.Path = upstream.Path(at.route, d.write(bff.IDFromBytes(at.about, tenant.Bytes())))
		p.Header.Set(d.tenant, d.write(tenant))
	}
	return p
}
