package service

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"melmastoon.ghasi.io/bff/internal/daemon"
	"melmastoon.ghasi.io/bff/internal/web"
)

// What a secret must have that can not be guessed.
const (
	minSecret         = 32 // bytes
	minSecretDistinct = 8  // bytes that differ
)

// DevelopmentSecret is the length of secrets that development asks for.
const DevelopmentSecret = 16

// Guessable reports the setting once if one of its secrets can be guessed. One that is
// not there is reported elsewhere.
func Guessable(name string, secrets ...daemon.Secret) []error {
	for _, s := range secrets {
		distinct := map[byte]bool{}
		for _, b := range []byte(s.Reveal()) {
			distinct[b] = true
		}
		if s != "" && (len(s) < minSecret || len(distinct) < minSecretDistinct) {
			return []error{fmt.Errorf("%s: can be guessed, at least %d random bytes are needed", name, minSecret)}
		}
	}
	return nil
}

// Secrets reports what every environment asks of a setting with secrets: that it is
// there, and in development that it is no word. Others ask for more: see [Guessable].
func (s *Settings) Secrets(name string, secrets ...daemon.Secret) error {
	for _, v := range secrets {
		if s.Development() && v != "" && len(v) < DevelopmentSecret {
			return fmt.Errorf("%s: at least %d characters are required", name, DevelopmentSecret)
		}
	}
	if len(secrets) == 0 || slices.Contains(secrets, "") {
		return fmt.Errorf("%s: is required", name)
	}
	return nil
}

// Widest networks of proxies. A trusted proxy chooses the address that
// limits, the bot defence and the log see.
const (
	minProxyBits4 = 8
	minProxyBits6 = 16
)

// Unsafe reports every setting that makes development easier and a deployment
// unsafe. Outside development the process does not start with one.
func (s *Settings) Unsafe() []error {
	var errs []error
	if s.InternalToken != "" {
		errs = append(errs, errors.New("internal-token: a static token is for development, callers have ID tokens (oidc-jwks-url)"))
	}
	errs = append(errs, Guessable("internal-hmac-key", s.InternalHMACKey)...)
	errs = append(errs, s.unencrypted(&s.DatabaseSettings)...)
	errs = append(errs, s.PlainTier("redis-session-url", s.RedisSessionURL)...)
	errs = append(errs, s.PlainTier("redis-cache-url", s.RedisCacheURL)...)
	errs = append(errs, s.PlainURL(PlainUpstreams, "oidc-jwks-url", s.OIDCJWKSURL)...)
	if s.PubSubEmulator != "" {
		errs = append(errs, errors.New("pubsub-emulator: events would be lost with the emulator"))
	}
	if s.PagesURL != "" {
		errs = append(errs, errors.New("pages-url: GET / would lead to pages of development"))
	}
	if slices.ContainsFunc(s.AllowedOrigins, web.ForDevelopment) {
		errs = append(errs, errors.New("allowed-origins: with loopback or host: every page that the machine serves, on any port, could use its user's session"))
	}
	for _, p := range s.TrustedProxies {
		if bits, least := proxyBits(p); bits < least {
			errs = append(errs, fmt.Errorf("trusted-proxies: %s is wider than /%d", p, least))
		}
	}
	return errs
}

func proxyBits(p netip.Prefix) (bits, least int) {
	switch {
	case p.Addr().Is4():
		return p.Bits(), minProxyBits4
	case p.Addr().Is4In6(): // the last 32 of 128
		return p.Bits() - 96, minProxyBits4
	}
	return p.Bits(), minProxyBits6
}

// WarnDoubtful logs settings that are probably a mistake, and variables of the service
// that no setting reads.
func (p *Process) WarnDoubtful(env *daemon.Environment, doubts []error) {
	for _, err := range doubts {
		for _, problem := range env.Name(err) {
			p.Log.Warn("setting is probably a mistake", "setting", problem.Text)
		}
	}
	for _, problem := range env.Unknown(p.Prefix + "_") {
		p.Log.Warn("unknown environment variable, ignored", "setting", problem.Text)
	}
}

// WarnUnsafe logs what is accepted in development alone, so that a process of the
// wrong environment is noticed.
func (p *Process) WarnUnsafe(unsafe []error) {
	for _, err := range unsafe {
		p.Log.Warn("unsafe setting, refused outside development", "environment", p.settings.Environment, "setting", err.Error())
	}
}
