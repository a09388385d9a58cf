package service

import (
	"net/netip"
	"strings"
	"testing"

	"melmastoon.ghasi.io/bff/internal/daemon"
)

// TestUnsafeSettings: a deployment refuses each of them, all in one answer;
// development takes them.
func TestUnsafeSettings(t *testing.T) {
	t.Parallel()
	safe := func() Settings {
		s := Settings{
			ListenSettings: ListenSettings{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/16")}},
			DatabaseSettings: DatabaseSettings{
				PostgresURL: "postgres://p?sslmode=verify-full",
			}, RedisSettings: RedisSettings{"rediss://r", "redis://127.0.0.1:6379"}, PubSubSettings: PubSubSettings{PubSubProject: "p"},
			CallerSettings: CallerSettings{
				InternalHMACKey: daemon.Secret(strings.Repeat("0123456789abcdef", 2)), OIDCJWKSURL: "https://i", OIDCIssuer: "i", OIDCAudience: "a", OIDCEmails: []string{"e"},
			},
		}
		s.Settings = daemon.Settings{Environment: "production", DrainBudget: 1}
		return s
	}
	for _, tt := range []struct {
		name   string
		change func(*Settings)
		want   []string
	}{
		{"safe", func(*Settings) {}, nil},
		{"static token", func(s *Settings) { s.InternalToken = "t" }, []string{"internal-token"}},
		{"short key", func(s *Settings) { s.InternalHMACKey = "short" }, []string{"internal-hmac-key"}},
		{"a key of one letter", func(s *Settings) { s.InternalHMACKey = daemon.Secret(strings.Repeat("k", 40)) }, []string{"internal-hmac-key: can be guessed"}},
		{
			"Postgres without TLS", func(s *Settings) { s.PostgresURL = "postgres://p?sslmode=disable" },
			[]string{"postgres-url: may lead over the network without TLS"},
		},
		{"Postgres as it comes", func(s *Settings) { s.JobsPostgresURL = "postgres://p" }, []string{"jobs-postgres-url: may lead over the network without TLS"}},
		{"Postgres to migrate", func(s *Settings) { s.MigrateURL = "postgres://p?sslmode=allow" }, []string{"migrate-url: may lead over the network without TLS"}},
		{"Redis without TLS", func(s *Settings) { s.RedisCacheURL = "redis://r:6379" }, []string{"redis-cache-url: leads over the network without TLS"}},
		{"keys of callers without TLS", func(s *Settings) { s.OIDCJWKSURL = "http://i" }, []string{"oidc-jwks-url: leads over the network without TLS"}},
		{"on the machine", func(s *Settings) {
			s.PostgresURL, s.RedisSessionURL, s.OIDCJWKSURL = "postgres://bff@/bff?host=/cloudsql/x", "redis://[::1]:6379", "http://127.0.0.1:15001"
		}, nil},
		{"TLS that is opted out of", func(s *Settings) {
			s.PostgresURL, s.RedisSessionURL, s.OIDCJWKSURL, s.Plaintext = "postgres://p", "redis://r", "http://i", []string{"redis", "postgres", "upstreams"}
		}, nil},
		{
			"another part is opted out of", func(s *Settings) { s.RedisSessionURL, s.Plaintext = "redis://r", []string{"postgres"} },
			[]string{"redis-session-url: leads"},
		},
		{"emulator", func(s *Settings) { s.PubSubEmulator = "localhost:1" }, []string{"pubsub-emulator"}},
		{"pages of development", func(s *Settings) { s.PagesURL = "http://127.0.0.1:8080" }, []string{"pages-url"}},
		{
			"every origin on the guest's machine", func(s *Settings) { s.AllowedOrigins = []string{"https://app.example.org", "loopback"} },
			[]string{"allowed-origins"},
		},
		{"everybody is a proxy", func(s *Settings) { s.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")} }, []string{"trusted-proxies"}},
		{"half of IPv4", func(s *Settings) { s.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("128.0.0.0/7")} }, []string{"trusted-proxies"}},
		{"IPv4 in IPv6", func(s *Settings) { s.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("::ffff:0.0.0.0/96")} }, []string{"trusted-proxies"}},
		{"IPv6", func(s *Settings) { s.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("::/0")} }, []string{"trusted-proxies"}},
		{
			"all at once", func(s *Settings) { s.InternalToken, s.InternalHMACKey, s.PubSubEmulator = "t", "short", "e" },
			[]string{"internal-token", "internal-hmac-key", "pubsub-emulator"},
		},
		{"no environment", func(s *Settings) { s.Environment = "" }, []string{"environment: is required"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := safe()
			tt.change(&s)
			err := s.Validate()
			if (err != nil) != (tt.want != nil) {
				t.Fatalf("got %v", err)
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q is not in %v", want, err)
				}
			}
			for _, development := range []string{"dev", "local", "test", "test-1"} {
				s.Environment = development
				if err := s.Validate(); err != nil {
					t.Errorf("%s: %v", development, err)
				}
			}
		})
	}
}

// TestPlaintextNamesParts: what the setting does not know would be ignored without a word.
func TestPlaintextNamesParts(t *testing.T) {
	t.Parallel()
	if err := (&PlaintextSettings{Plaintext: []string{"redis", "all"}}).validate(); err == nil || !strings.Contains(err.Error(), `plaintext: there is no "all"`) {
		t.Errorf("got %v", err)
	}
}
