package backofficed

import (
	"errors"
	"fmt"
	"net/url"
	"time"

	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/action"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficehttp"
	"melmastoon.ghasi.io/bff/internal/daemon"
	"melmastoon.ghasi.io/bff/internal/service"
)

// IdentitySettings say how operators and their devices are known.
type IdentitySettings struct {
	PublicURLs []string        `name:"public-urls" env:"BFF_BACKOFFICE_PUBLIC_URLS,MELMASTOON_BACKOFFICE_URL" help:"Scheme and authority under which apps reach the service, such as https://staff.example.org: proofs of possession must name one of them."`
	Issuer     string          `name:"issuer" env:"BFF_BACKOFFICE_ISSUER" default:"https://iam.melmastoon.ghasi.io" help:"Issuer of access tokens."`
	Audience   string          `name:"audience" env:"BFF_BACKOFFICE_AUDIENCE" default:"bff-backoffice" help:"Audience that access tokens must have."`
	NonceKeys  []daemon.Secret `name:"nonce-keys" env:"BFF_BACKOFFICE_NONCE_KEYS" help:"Keys of the nonces that are offered to devices, the newest first, the same in every instance: 32 random bytes or more each, in development 16 characters."`
	Pepper     daemon.Secret   `name:"pepper" env:"BFF_BACKOFFICE_PEPPER" help:"Secret mixed into the hashes of addresses and fingerprints: 32 random bytes or more, in development 16 characters."`

	MinAppVersion string `name:"min-app-version" env:"BFF_BACKOFFICE_MIN_APP_VERSION" help:"Oldest version of the desktop app that is served, such as 2.4.0; without, every one."`
	Limits        string `name:"limits" env:"BFF_BACKOFFICE_LIMITS" help:"Requests per minute of one device by class, and how many times that an address and an operator may share: session=120,auth=20,step-up=10,device=120,read=240,change=60,stream=30,ip=50,fingerprint=5. off lifts them all."`
	Instances     int    `name:"instances" env:"BFF_BACKOFFICE_INSTANCES" default:"3" help:"About how many instances share the limits; counts while Redis is away."`
}

// Config is everything that the service can be told.
type Config struct {
	service.Settings
	*IdentitySettings `embed:""`

	UpstreamSettings
	StreamSettings
	MetricSettings
	SyncSettings
	ActionSettings
	LakeSettings

	SchedulerEmails []string `name:"scheduler-emails" env:"BFF_BACKOFFICE_SCHEDULER_EMAILS" help:"Service accounts that may start jobs with POST /internal/jobs/{job}, by their ID token for oidc-audience; without, none may."`
	FlagsFile       string   `name:"flags-file" env:"BFF_BACKOFFICE_FLAGS_FILE" help:"JSON file with feature flags for all tenants; those in Redis win."`

	TakeOver time.Duration `name:"take-over" env:"BFF_BACKOFFICE_TAKE_OVER" default:"1m" help:"Age at which an unfinished change counts as that of a process that has died, so that a repeated request takes it over: 15s to 1m, above the time that any request has."`

	HousesAhead time.Duration `name:"houses-ahead" env:"MELMASTOON_HOUSES_AHEAD" help:"How far the clocks of all properties are ahead of this machine's, to see another day or hour; in development only."`

	WidgetDeadline    time.Duration `name:"widget-deadline" env:"BFF_BACKOFFICE_WIDGET_DEADLINE" default:"450ms" help:"How long the dashboard waits for one widget, if its upstream may take as long."`
	DashboardDeadline time.Duration `name:"dashboard-deadline" env:"BFF_BACKOFFICE_DASHBOARD_DEADLINE" default:"550ms" help:"How long the dashboard waits for all of its widgets."`
}

// SyncSettings say how devices reach sync-service, and with what right.
type SyncSettings struct {
	SyncKeys      []daemon.Secret `name:"sync-keys" env:"BFF_BACKOFFICE_SYNC_KEYS" help:"Keys of the tokens that let devices sync, the newest first; at least 32 characters each, the same at sync-service."`
	SyncPublicURL string          `name:"sync-public-url" env:"BFF_BACKOFFICE_SYNC_PUBLIC_URL" help:"Where devices reach sync-service (default: sync-url)."`
}

// UpstreamSettings say where the upstreams are.
type UpstreamSettings struct {
	IAMURL          string `name:"iam-url" env:"BFF_BACKOFFICE_IAM_URL" help:"iam-service."`
	TenantURL       string `name:"tenant-url" env:"BFF_BACKOFFICE_TENANT_URL" help:"tenant-service."`
	ReservationURL  string `name:"reservation-url" env:"BFF_BACKOFFICE_RESERVATION_URL" help:"reservation-service."`
	InventoryURL    string `name:"inventory-url" env:"BFF_BACKOFFICE_INVENTORY_URL" help:"inventory-service."`
	PricingURL      string `name:"pricing-url" env:"BFF_BACKOFFICE_PRICING_URL" help:"pricing-service."`
	BillingURL      string `name:"billing-url" env:"BFF_BACKOFFICE_BILLING_URL" help:"billing-service."`
	HousekeepingURL string `name:"housekeeping-url" env:"BFF_BACKOFFICE_HOUSEKEEPING_URL" help:"housekeeping-service."`
	MaintenanceURL  string `name:"maintenance-url" env:"BFF_BACKOFFICE_MAINTENANCE_URL" help:"maintenance-service."`
	LockURL         string `name:"lock-url" env:"BFF_BACKOFFICE_LOCK_URL" help:"lock-integration-service."`
	AIURL           string `name:"ai-url" env:"BFF_BACKOFFICE_AI_URL" help:"ai-orchestrator-service."`
	NotificationURL string `name:"notification-url" env:"BFF_BACKOFFICE_NOTIFICATION_URL" help:"notification-service."`
	SyncURL         string `name:"sync-url" env:"BFF_BACKOFFICE_SYNC_URL" help:"sync-service."`
	ThemeURL        string `name:"theme-url" env:"BFF_BACKOFFICE_THEME_URL" help:"theme-config-service."`
	AnalyticsURL    string `name:"analytics-url" env:"BFF_BACKOFFICE_ANALYTICS_URL" help:"analytics-service."`
	PropertyURL     string `name:"property-url" env:"BFF_BACKOFFICE_PROPERTY_URL" help:"property-service."`
	StaffURL        string `name:"staff-url" env:"BFF_BACKOFFICE_STAFF_URL" help:"staff-service."`
}

func (u *UpstreamSettings) urls() map[backoffice.Upstream]string {
	return map[backoffice.Upstream]string{
		backoffice.UpstreamIAM:          u.IAMURL,
		backoffice.UpstreamTenant:       u.TenantURL,
		backoffice.UpstreamReservation:  u.ReservationURL,
		backoffice.UpstreamInventory:    u.InventoryURL,
		backoffice.UpstreamPricing:      u.PricingURL,
		backoffice.UpstreamBilling:      u.BillingURL,
		backoffice.UpstreamHousekeeping: u.HousekeepingURL,
		backoffice.UpstreamMaintenance:  u.MaintenanceURL,
		backoffice.UpstreamLock:         u.LockURL,
		backoffice.UpstreamAI:           u.AIURL,
		backoffice.UpstreamNotification: u.NotificationURL,
		backoffice.UpstreamSync:         u.SyncURL,
		backoffice.UpstreamTheme:        u.ThemeURL,
		backoffice.UpstreamAnalytics:    u.AnalyticsURL,
		backoffice.UpstreamProperty:     u.PropertyURL,
		backoffice.UpstreamStaff:        u.StaffURL,
	}
}

const (
	// minTakeOver is above the budget of every request and of the commit after it.
	minTakeOver = 15 * time.Second

	// minSyncKey is the length of HS256's own output (RFC 7518 §3.2).
	minSyncKey = 32
)

// Validate reports everything that is missing or wrong, and shows no values.
func (c *Config) Validate() error {
	errs := []error{c.Settings.Validate()}
	need := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	need(c.JobsPostgresURL != "" || c.Elsewhere(), "jobs-postgres-url: is required, unless jobs=off and no-relay leave its work to the command work")
	for name, v := range c.urls() {
		errs = append(errs, service.HTTPURL(string(name)+"-url", v))
	}
	if c.SyncPublicURL != "" {
		errs = append(errs, service.HTTPURL("sync-public-url", c.SyncPublicURL))
	}
	if c.IdentitySettings == nil {
		c.IdentitySettings = &IdentitySettings{}
	}
	need(len(c.PublicURLs) > 0, "public-urls: at least one is required")
	need(c.Issuer != "" && c.Audience != "", "issuer and audience: are required")
	errs = append(errs, c.Secrets("nonce-keys", c.NonceKeys...), c.Secrets("pepper", c.Pepper), c.Secrets("sync-keys", c.SyncKeys...))
	for _, k := range c.SyncKeys {
		need(len(k) >= minSyncKey || !c.Development(), "sync-keys: at least %d characters each are required", minSyncKey) // elsewhere they are guessable
	}
	if _, err := backofficehttp.Limits().Override(c.Limits); err != nil {
		errs = append(errs, fmt.Errorf("limits: %w", err))
	}
	need(c.WidgetDeadline > 0 && c.DashboardDeadline >= c.WidgetDeadline && c.DashboardDeadline <= 2*time.Second,
		"widget-deadline and dashboard-deadline: want 0 < widget <= dashboard <= 2s")
	need(c.MetricTenants >= 0 && c.MetricTenants <= maxMetricTenants, "metric-tenants: want 0 to %d", maxMetricTenants)
	need(c.TakeOver > 0 && c.TakeOver <= time.Minute, "take-over: want at most 1m")
	if _, err := action.ReadThresholds(c.LargeCharges); err != nil {
		errs = append(errs, fmt.Errorf("large-charges: %w", err))
	}
	need(c.MaxStreams >= 1, "max-streams: want at least 1")
	need(c.TenantStreams >= 1 && c.TenantStreams <= 100, "tenant-streams: want a percentage from 1 to 100")
	need(c.Instances >= 1 && c.Instances <= 1000, "instances: want 1 to 1000")
	if _, err := c.warehouse(); err != nil {
		errs = append(errs, err)
	}
	if !c.Development() {
		errs = append(errs, c.unsafe()...)
		if c.Scheduler != "off" {
			errs = append(errs, c.LakeSettings.validate()...)
		}
	}
	return errors.Join(errs...)
}

// unsafe reports the service's own settings that are for development alone.
func (c *Config) unsafe() []error {
	var errs []error
	if c.TakeOver < minTakeOver {
		errs = append(errs, fmt.Errorf("take-over: below %s a request may be taken over while it runs", minTakeOver))
	}
	errs = append(errs, service.Guessable("nonce-keys", c.NonceKeys...)...)
	errs = append(errs, service.Guessable("pepper", c.Pepper)...)
	errs = append(errs, service.Guessable("sync-keys", c.SyncKeys...)...)
	errs = append(errs, service.Guessable("audit-keys", seeds(c.inline())...)...)
	for name, u := range c.urls() {
		what := service.PlainUpstreams
		if name == backoffice.UpstreamIAM {
			what = service.PlainIAM
		}
		errs = append(errs, c.PlainURL(what, string(name)+"-url", u)...)
	}
	errs = append(errs, c.PlainURL(service.PlainUpstreams, "sync-public-url", c.SyncPublicURL)...)
	if limits, err := backofficehttp.Limits().Override(c.Limits); err == nil {
		errs = append(errs, limits.Unbounded("limits")...)
	}
	if c.HousesAhead != 0 {
		errs = append(errs, errors.New("houses-ahead: staff would see another day than that of their house"))
	}
	for _, u := range c.PublicURLs {
		if parsed, err := url.Parse(u); err != nil || parsed.Scheme != "https" {
			errs = append(errs, errors.New("public-urls: tokens and proofs need https"))
		}
	}
	return errs
}

// revealed are the secrets of a keyring.
func revealed(secrets []daemon.Secret) [][]byte {
	var keys [][]byte
	for _, k := range secrets {
		keys = append(keys, []byte(k.Reveal()))
	}
	return keys
}
