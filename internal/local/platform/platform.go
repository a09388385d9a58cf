// Package platform describes the platform on one machine: which environment makes
// a service find the servers, the simulated upstreams and its secrets, and how
// to run a service as a process of its own. `melmastoon up` and the tests that
// need several real processes share it.
package platform

import (
	"fmt"
	"maps"
	"net/url"
	"slices"

	"melmastoon.ghasi.io/bff/migrations"
)

// Places says where everything is.
type Places struct {
	Name          string // of the environment; first part of every Redis key
	PostgresURL   string // a superuser's
	RedisURL      string
	PubSubHost    string
	PubSubProject string
	SimURL        string
	LakeURL       string // of the audit lake; empty = nothing is sealed or exported
	Secrets       Secrets
}

// Environment returns what an instance of either service needs apart from its
// listen addresses.
func (p Places) Environment() (map[string]string, error) {
	admin, err := url.Parse(p.PostgresURL)
	if err != nil {
		return nil, fmt.Errorf("postgres URL: %w", err)
	}
	as := func(role, password string) string {
		u := *admin
		u.User = url.UserPassword(role, password)
		return u.String()
	}
	env := map[string]string{
		"MELMASTOON_ENV":               p.Name,
		"MELMASTOON_DRAIN_DELAY":       "0s", // there is no load balancer
		"MELMASTOON_SIM_URL":           p.SimURL,
		"MELMASTOON_POSTGRES_URL":      p.PostgresURL,
		"MELMASTOON_REDIS_URL":         p.RedisURL,
		"MELMASTOON_INTERNAL_TOKEN":    p.Secrets.InternalToken,
		"MELMASTOON_INTERNAL_HMAC_KEY": p.Secrets.InternalHMACKey,
		"PUBSUB_EMULATOR_HOST":         p.PubSubHost,
		"PUBSUB_PROJECT_ID":            p.PubSubProject,

		"BFF_CONSUMER_POSTGRES_URL":      as(migrations.ConsumerApp, p.Secrets.ConsumerPassword),
		"BFF_CONSUMER_MIGRATE_URL":       p.PostgresURL,
		"BFF_CONSUMER_REDIS_SESSION_URL": p.RedisURL,
		"BFF_CONSUMER_REDIS_CACHE_URL":   p.RedisURL,
		"BFF_CONSUMER_SEARCH_URL":        p.SimURL + "/search-aggregation",
		"BFF_CONSUMER_PRICING_URL":       p.SimURL + "/pricing",
		"BFF_CONSUMER_PROPERTY_URL":      p.SimURL + "/property",
		"BFF_CONSUMER_THEME_URL":         p.SimURL + "/theme-config",
		"BFF_CONSUMER_TENANT_URL":        p.SimURL + "/tenant",
		"MELMASTOON_REGION":              "asia-south1", // where most tenants of the simulator live
		"BFF_CONSUMER_HANDOFF_KEYS":      string(p.Secrets.HandoffKeys),
		"BFF_CONSUMER_CARD_KEYS":         string(p.Secrets.CardKeys),
		"BFF_CONSUMER_PEPPER":            p.Secrets.Pepper,

		"BFF_BACKOFFICE_POSTGRES_URL":      as(migrations.BackofficeApp, p.Secrets.BackofficePassword),
		"BFF_BACKOFFICE_JOBS_POSTGRES_URL": as(migrations.BackofficeJobs, p.Secrets.JobsPassword),
		"BFF_BACKOFFICE_MIGRATE_URL":       p.PostgresURL,
		"BFF_BACKOFFICE_REDIS_SESSION_URL": p.RedisURL,
		"BFF_BACKOFFICE_REDIS_CACHE_URL":   p.RedisURL,
		"BFF_BACKOFFICE_IAM_URL":           p.SimURL + "/iam",
		"BFF_BACKOFFICE_TENANT_URL":        p.SimURL + "/tenant",
		"BFF_BACKOFFICE_RESERVATION_URL":   p.SimURL + "/reservation",
		"BFF_BACKOFFICE_INVENTORY_URL":     p.SimURL + "/inventory",
		"BFF_BACKOFFICE_PRICING_URL":       p.SimURL + "/pricing",
		"BFF_BACKOFFICE_BILLING_URL":       p.SimURL + "/billing",
		"BFF_BACKOFFICE_HOUSEKEEPING_URL":  p.SimURL + "/housekeeping",
		"BFF_BACKOFFICE_MAINTENANCE_URL":   p.SimURL + "/maintenance",
		"BFF_BACKOFFICE_LOCK_URL":          p.SimURL + "/lock",
		"BFF_BACKOFFICE_AI_URL":            p.SimURL + "/ai-orchestrator",
		"BFF_BACKOFFICE_NOTIFICATION_URL":  p.SimURL + "/notification",
		"BFF_BACKOFFICE_SYNC_URL":          p.SimURL + "/sync",
		"BFF_BACKOFFICE_THEME_URL":         p.SimURL + "/theme-config",
		"BFF_BACKOFFICE_ANALYTICS_URL":     p.SimURL + "/analytics",
		"BFF_BACKOFFICE_PROPERTY_URL":      p.SimURL + "/property",
		"BFF_BACKOFFICE_STAFF_URL":         p.SimURL + "/staff",
		"BFF_BACKOFFICE_PEPPER":            p.Secrets.Pepper,
		"BFF_BACKOFFICE_NONCE_KEYS":        p.Secrets.NonceKey,
		"BFF_BACKOFFICE_SYNC_KEYS":         p.Secrets.SyncKey,
	}
	if p.LakeURL != "" {
		env["BFF_BACKOFFICE_LAKE_URL"], env["BFF_BACKOFFICE_AUDIT_KEYS"] = p.LakeURL, p.Secrets.AuditKey
	}
	return env, nil
}

// Traced are the settings with which services tell a receiver of every request, in
// detail. It hears of each within a second.
func Traced(receiver string) map[string]string {
	return map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": receiver, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf", "OTEL_BSP_SCHEDULE_DELAY": "250",
		"MELMASTOON_TRACE_SAMPLING": "1", "MELMASTOON_TRACE_DETAIL": "true",
	}
}

// Pairs writes an environment as os/exec wants it.
func Pairs(envs ...map[string]string) []string {
	all := map[string]string{}
	for _, e := range envs {
		maps.Copy(all, e)
	}
	out := make([]string, 0, len(all))
	for k, v := range all {
		out = append(out, k+"="+v)
	}
	slices.Sort(out)
	return out
}
