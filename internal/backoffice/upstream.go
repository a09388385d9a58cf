package backoffice

import "time"

// Upstream names a service that the staff service stands on.
type Upstream string

// The upstreams there are.
const (
	UpstreamIAM          Upstream = "iam"
	UpstreamTenant       Upstream = "tenant"
	UpstreamReservation  Upstream = "reservation"
	UpstreamInventory    Upstream = "inventory"
	UpstreamPricing      Upstream = "pricing"
	UpstreamBilling      Upstream = "billing"
	UpstreamHousekeeping Upstream = "housekeeping"
	UpstreamMaintenance  Upstream = "maintenance"
	UpstreamLock         Upstream = "lock"
	UpstreamAI           Upstream = "ai"
	UpstreamNotification Upstream = "notification"
	UpstreamSync         Upstream = "sync"
	UpstreamTheme        Upstream = "theme"
	UpstreamAnalytics    Upstream = "analytics"
	UpstreamProperty     Upstream = "property"
	UpstreamStaff        Upstream = "staff"
)

// Upstreams lists every upstream.
func Upstreams() []Upstream {
	return []Upstream{
		UpstreamIAM, UpstreamTenant, UpstreamReservation, UpstreamInventory, UpstreamPricing, UpstreamBilling, UpstreamHousekeeping,
		UpstreamMaintenance, UpstreamLock, UpstreamAI, UpstreamNotification, UpstreamSync, UpstreamTheme, UpstreamAnalytics,
		UpstreamProperty, UpstreamStaff,
	}
}

// Timeout is the longest that one read may take, retries included; mutations may
// have another. An upstream without one is none of ours.
func (u Upstream) Timeout() time.Duration {
	ms := map[Upstream]int{
		UpstreamIAM: 600, UpstreamTenant: 500, UpstreamReservation: 800, UpstreamInventory: 600, UpstreamPricing: 600, UpstreamBilling: 600,
		UpstreamHousekeeping: 700, UpstreamMaintenance: 700, UpstreamLock: 1200, UpstreamAI: 1200, UpstreamNotification: 600,
		UpstreamSync: 250, UpstreamTheme: 500, UpstreamAnalytics: 450, UpstreamProperty: 600, UpstreamStaff: 600,
	}
	return time.Duration(ms[u]) * time.Millisecond
}

// MutationTimeout is the longest that one mutation may take, retries included.
func (u Upstream) MutationTimeout() time.Duration {
	if u == UpstreamReservation {
		return 1500 * time.Millisecond
	}
	return u.Timeout()
}

// Retries is how often a failed read is repeated within its timeout.
func (u Upstream) Retries() int {
	switch u {
	case UpstreamIAM, UpstreamLock, UpstreamAI, UpstreamSync, UpstreamAnalytics:
		return 0
	}
	return 1
}
