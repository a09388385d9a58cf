package consumerupstream

import (
	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer/hotel"
	"melmastoon.ghasi.io/bff/internal/upstream"
)

// Probes are a read of each upstream, by the name of its setting, about a hotel that no
// tenant has.
func Probes(tenant bff.ID, today bff.Date) map[string]upstream.Probe {
	property := bff.IDFromBytes(bff.PrefixProperty, tenant.Bytes())
	get := func(route string, id bff.ID) upstream.Probe {
		return upstream.Probe{Route: route, Path: upstream.Path(route, id.String())}
	}
	return map[string]upstream.Probe{
		"search-url": {Route: "/api/v1/facets", Path: "/api/v1/facets?country=AF&locale=en"},
		"pricing-url": {Route: previewRoute, Path: previewRoute, Body: string(preview(hotel.PriceRequest{
			Properties: []hotel.PropertyRef{{PropertyID: property, TenantID: tenant}}, Dates: bff.StayDates{CheckIn: today + 1, CheckOut: today + 2},
			Occupancy: bff.Occupancy{Adults: 1, Rooms: 1}, Currency: bff.Currencies()[0], Locale: bff.Locales()[0],
		}, 0))},
		"property-url": get("/api/v1/properties/{propertyId}", property),
		"theme-url":    get("/api/v1/tenants/{tenantId}/brand-peek", tenant),
		"tenant-url":   get("/api/v1/tenants/{tenantId}", tenant),
	}
}
