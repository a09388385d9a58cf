package consumerd_test

import (
	"strings"
	"testing"
	"time"

	"melmastoon.ghasi.io/bff/internal/consumer/consumerd"
	"melmastoon.ghasi.io/bff/internal/daemon"
)

// TestUnsafeSettings: a deployment refuses what is off and what can be guessed;
// development takes it.
func TestUnsafeSettings(t *testing.T) {
	t.Parallel()
	good := daemon.Secret("0123456789abcdef0123456789abcdef")
	for _, tt := range []struct {
		name   string
		change func(*consumerd.Config)
		want   string // part of a message
	}{
		{"short pepper", func(c *consumerd.Config) { c.Pepper = good[:31] }, "pepper: can be guessed"},
		{"the same byte again and again", func(c *consumerd.Config) { c.Pepper = daemon.Secret(strings.Repeat("a", 40)) }, "pepper: can be guessed"},
		{"old pepper", func(c *consumerd.Config) { c.OldPeppers = []daemon.Secret{good, good[:20]} }, "old-peppers: can be guessed"},
		{"no limits", func(c *consumerd.Config) { c.Limits = " off" }, "limits: are off"},
		{"limits that limit nothing", func(c *consumerd.Config) { c.Limits = "search=60000000" }, "limits: search is above 6000 a minute"},
		{"everybody behind one address", func(c *consumerd.Config) { c.Limits = "ip=1000000" }, "limits: ip is above 1000"},
		{"an upstream without TLS", func(c *consumerd.Config) { c.PricingURL = "http://pricing-service" }, "pricing-url: leads over the network without TLS"},
		{"no defence", func(c *consumerd.Config) { c.BotDefence = "off" }, "bot-defence: is off"},
		{"cookies without Secure", func(c *consumerd.Config) { c.PlainCookies = true }, "plain-cookies: sessions would travel over plain http"},
		{"every origin of a host", func(c *consumerd.Config) { c.AllowedOrigins = []string{"host:192.168.1.5"} }, "allowed-origins: with loopback or host:"},
		{"one keyring for two purposes", func(c *consumerd.Config) { c.HandoffKeysFile, c.CardKeysFile = "keys.json", "keys.json" }, "card-keys: are the hand-off's"},
		{"emulator", func(c *consumerd.Config) { c.PubSubEmulator = "localhost:1" }, "pubsub-emulator"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for environment, refused := range map[string]bool{"production": true, "staging": true, "local": false, "test-1": false} {
				cfg := consumerd.Config{KeySettings: new(consumerd.KeySettings), DefenceSettings: &consumerd.DefenceSettings{BotDefence: "on", Instances: 3}, Pepper: good}
				cfg.Environment = environment
				if err := cfg.Validate(); strings.Contains(err.Error(), tt.want) {
					t.Fatalf("%s: refused without a reason: %v", environment, err)
				}
				tt.change(&cfg)
				if err := cfg.Validate(); strings.Contains(err.Error(), tt.want) != refused {
					t.Errorf("%s: %v", environment, err)
				}
			}
		})
	}
}

// TestCardlessBefore: a date in the future would let sessions that are yet to be
// opened do without a card; one that is over has no effect and stops no process.
func TestCardlessBefore(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		before  time.Time
		refused bool
	}{
		"none": {}, "today": {before: time.Now().Add(-time.Minute)}, "long ago": {before: time.Now().AddDate(-1, 0, 0)},
		"to come": {before: time.Now().Add(time.Hour), refused: true},
	} {
		cfg := consumerd.Config{KeySettings: new(consumerd.KeySettings), DefenceSettings: new(consumerd.DefenceSettings), CardlessBefore: tc.before}
		if err := cfg.Validate(); strings.Contains(err.Error(), "cardless-before") != tc.refused {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestCardKeysAreRequired: without keys, or with two of their places, a service
// does not start anywhere.
func TestCardKeysAreRequired(t *testing.T) {
	t.Parallel()
	const want = "card-keys, card-keys-file or card-keys-secret: exactly one is required"
	for name, tc := range map[string]struct {
		keys    consumerd.KeySettings
		refused bool
	}{
		"none":   {consumerd.KeySettings{HandoffKeysFile: "a"}, true},
		"two":    {consumerd.KeySettings{HandoffKeysFile: "a", CardKeysFile: "b", CardKeys: "c"}, true},
		"inline": {consumerd.KeySettings{HandoffKeysFile: "a", CardKeys: "b"}, false},
		"file":   {consumerd.KeySettings{HandoffKeysFile: "a", CardKeysFile: "b"}, false},
		"secret": {consumerd.KeySettings{HandoffKeysFile: "a", CardKeysSecret: "b"}, false},
	} {
		for _, environment := range []string{"production", "local"} {
			cfg := consumerd.Config{KeySettings: &tc.keys, DefenceSettings: &consumerd.DefenceSettings{BotDefence: "on", Instances: 3}}
			cfg.Environment = environment
			if err := cfg.Validate(); strings.Contains(err.Error(), want) != tc.refused {
				t.Errorf("%s, %s: %v", name, environment, err)
			}
		}
	}
}
