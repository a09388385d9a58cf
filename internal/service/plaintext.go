package service

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"melmastoon.ghasi.io/bff/internal/daemon"
	"melmastoon.ghasi.io/bff/internal/postgres"
	"melmastoon.ghasi.io/bff/internal/redis"
)

// What a deployment may reach without TLS, if it says so. Outside development passwords,
// sessions, refresh tokens and guests' names go over a network that others share; where a
// mesh or the network itself encrypts, the deployment names what is meant.
const (
	PlainRedis     = "redis"
	PlainPostgres  = "postgres"
	PlainUpstreams = "upstreams"
	PlainIAM       = "iam" // gets refresh tokens and codes of second factors
)

// PlaintextSettings say what is reached without TLS.
type PlaintextSettings struct {
	Plaintext []string `name:"plaintext" env:"MELMASTOON_PLAINTEXT" help:"What may be reached without TLS outside development, because the network encrypts or is not shared: redis, postgres, upstreams, iam. Addresses of the machine itself always may."`
}

func (s *PlaintextSettings) validate() error {
	for _, name := range s.Plaintext {
		if !slices.Contains([]string{PlainRedis, PlainPostgres, PlainUpstreams, PlainIAM}, name) {
			return fmt.Errorf("plaintext: there is no %q: want redis, postgres, upstreams or iam", name)
		}
	}
	return nil
}

func (s *PlaintextSettings) allows(what string) bool { return slices.Contains(s.Plaintext, what) }

// PlainURL reports the URL of a web server that is reached without TLS.
func (s *PlaintextSettings) PlainURL(what, name, value string) []error {
	u, err := url.Parse(value)
	if err != nil || u.Scheme != "http" || s.allows(what) || onThisMachine(u.Hostname()) {
		return nil
	}
	return []error{fmt.Errorf("%s: leads over the network without TLS: want https://, or %s in MELMASTOON_PLAINTEXT", name, what)}
}

// PlainTier reports a Redis that is reached without TLS.
func (s *PlaintextSettings) PlainTier(name string, address daemon.Secret) []error {
	if !redis.Plaintext(address.Reveal()) || s.allows(PlainRedis) {
		return nil
	}
	return []error{fmt.Errorf("%s: leads over the network without TLS: want rediss://, or %s in MELMASTOON_PLAINTEXT", name, PlainRedis)}
}

// onThisMachine reports whether what is sent to a host stays on the machine, as to a
// sidecar.
func onThisMachine(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || err == nil && addr.Unmap().IsLoopback()
}

// unencrypted reports databases that are reached without TLS.
func (s *PlaintextSettings) unencrypted(d *DatabaseSettings) []error {
	var errs []error
	for _, u := range []struct {
		name string
		url  daemon.Secret
	}{{"postgres-url", d.PostgresURL}, {"jobs-postgres-url", d.JobsPostgresURL}, {"migrate-url", d.MigrateURL}} {
		if postgres.Plaintext(u.url.Reveal()) && !s.allows(PlainPostgres) {
			errs = append(
				errs,
				fmt.Errorf("%s: may lead over the network without TLS: want sslmode=verify-full (or require), or %s in MELMASTOON_PLAINTEXT", u.name, PlainPostgres),
			)
		}
	}
	return errs
}
