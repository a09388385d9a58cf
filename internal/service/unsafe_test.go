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
			ListenSettings:   ListenSettings{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/16")}},
			DatabaseSettings: DatabaseSettings{PostgresURL: "postgres://p"}, RedisSettings: RedisSettings{"redis://r", "redis://r"}, PubSubSettings: PubSubSettings{PubSubProject: "p"},
			CallerSettings: CallerSettings{
				InternalHMACKey: daemon.Secret(strings.Repeat("k", 32)), OIDCJWKSURL: "https://i", OIDCIssuer: "i", OIDCAudience: "a", OIDCEmails: []string{"e"},
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
		{"emulator", func(s *Settings) { s.PubSubEmulator = "localhost:1" }, []string{"pubsub-emulator"}},
		{"pages of development", func(s *Settings) { s.PagesURL = "http://127.0.0.1:8080" }, []string{"pages-url"}},
		{"every origin on the guest's machine", func(s *Settings) { s.AllowedOrigins = []string{"https://app.example.org", "loopback"} }, []string{"allowed-origins"}},
		{"everybody is a proxy", func(s *Settings) { s.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")} }, []string{"trusted-proxies"}},
		{"half of IPv4", func(s *Settings) { s.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("128.0.0.0/7")} }, []string{"trusted-proxies"}},
		{"IPv4 in IPv6", func(s *Settings) { s.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("::ffff:0.0.0.0/96")} }, []string{"trusted-proxies"}},
		{"IPv6", func(s *Settings) { s.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("::/0")} }, []string{"trusted-proxies"}},
		{
			"all at once", func(s *Settings) { s.InternalToken, s.InternalHMACKey, s.PubSubEmulator = "t", "short", "e" },
			[]string{"internal-token", "internal-hmac-key", "pubsub-emulator"},
		},
		{"no environment", func(s *Settings) { s.Environment = "" }, []string{"environment: must be a word"}},
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
