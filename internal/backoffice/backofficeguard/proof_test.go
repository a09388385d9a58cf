package backofficeguard_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficeguard"
	"melmastoon.ghasi.io/bff/internal/backoffice/identity"
	"melmastoon.ghasi.io/bff/internal/desk"
	"melmastoon.ghasi.io/bff/internal/web"
)

// A caller without a token holds a key and no more. Its address and key are limited, and its
// device only by what iam has vouched for.
func TestProofAlone(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "all=2,ip=2", func(c *backofficeguard.Config) { c.MinAppVersion = "2" })
	bare := func(d *desk.Device) *call {
		c := f.call("/bare")
		c.claims, c.by = nil, d
		return c
	}
	stranger := newFixture(t, "", nil).device
	c := bare(f.device)
	if _, code := f.send(c); code != "" || len(f.holders) != 1 || len(f.opened) > 0 {
		t.Fatalf("%s, %v, %v", code, f.holders, f.opened)
	}
	h := f.holders[0]
	if h.Device.String() != f.device.ID() || h.KeyPrint != f.device.Thumbprint() || h.Proof != c.header.Get("Dpop") {
		t.Errorf("holder %+v", h)
	}
	for name, tc := range map[string]struct {
		change    func(*call)
		born      time.Duration // since when the tier remembers
		want      bff.Code
		challenge string
		burned    bool
	}{
		"no device":  {func(c *call) { delete(c.header, "X-Device-Id") }, -time.Hour, bff.CodeValidationFailed, "", false},
		"no proof":   {func(c *call) { c.noProof = true }, -time.Hour, bff.CodeDPoPInvalid, "invalid_dpop_proof", false},
		"skewed":     {func(c *call) { c.proof.At = f.now.Add(-26 * time.Second) }, -time.Hour, bff.CodeDPoPInvalid, "use_dpop_nonce", false},
		"replayed":   {func(c *call) { c.proof.ID = "again"; f.used["again"] = true }, -time.Hour, bff.CodeDPoPReplayed, "invalid_dpop_proof", true},
		"forgotten":  {func(c *call) { c.proof.At = f.now.Add(-2 * time.Second) }, -time.Second, bff.CodeDPoPInvalid, "use_dpop_nonce", true},
		"old app":    {func(c *call) { c.header["X-App-Version"] = []string{"1.9"} }, -time.Hour, bff.CodeAppVersionUnsupported, "", true},
		"within":     {func(*call) {}, -time.Hour, "", "", true},
		"other path": {func(c *call) { c.proof.URL = publicURL + "/any" }, -time.Hour, bff.CodeDPoPInvalid, "invalid_dpop_proof", false},
	} {
		f.advance(time.Minute)
		f.state.Born = f.now.Add(tc.born)
		c := bare(f.device)
		tc.change(c)
		w, code := f.send(c)
		if code != tc.want || !strings.Contains(w.Header().Get("Www-Authenticate"), tc.challenge) || f.used[c.proof.ID] != tc.burned {
			t.Errorf("%s: %s, %v, burned %t", name, code, w.Header(), f.used[c.proof.ID])
		}
	}
	if n, refused := f.counted("dpop_replay_blocked_total"), f.counted("dpop_refused_total"); n != 1 || refused != 4 {
		t.Errorf("%v replays, %v refused", n, refused)
	}
	f.advance(time.Minute)
	f.state.Born = f.now.Add(-time.Hour)
	f.used["heard"] = true
	for range 10 {
		c := bare(f.device)
		c.proof.ID, c.from = "heard", "192.0.2.9:5000"
		f.send(c)
	}
	for i, step := range []struct {
		by   *desk.Device
		want bff.Code
	}{{f.device, ""}, {f.device, ""}, {f.device, bff.CodeStaffRateLimited}, {stranger, ""}, {stranger, ""}, {stranger, bff.CodeStaffRateLimited}} {
		c := bare(step.by)
		w, code := f.send(c)
		if code != step.want || w.Header().Get("Ratelimit-Remaining") == "" || f.used[c.proof.ID] != (step.want == "") {
			t.Errorf("request %d: %s, %v", i+1, code, w.Header())
		}
	}
	if third, err := desk.NewDevice(desk.EdDSA, f.now); err != nil {
		t.Fatal(err)
	} else if _, code := f.send(bare(third)); code != bff.CodeStaffRateLimited {
		t.Errorf("a fifth of the address: %q", code)
	}
	// What iam vouches for is charged to the device of its tenant, and to no other.
	f.advance(time.Minute)
	if _, code := f.send(bare(stranger)); code != "" {
		t.Fatal(code)
	}
	h = f.holders[len(f.holders)-1]
	h.Vouched(t.Context(), bff.NewID(bff.PrefixTenant, f.now).String())
	h.Vouched(t.Context(), tenant.String())
	for i, want := range []bff.Code{"", bff.CodeStaffRateLimited} {
		if _, code := f.send(f.call("/any")); code != want {
			t.Errorf("request %d behind what was vouched for: %s, want %q", i+1, code, want)
		}
	}
}

// A guard that lacks a part does not stand anywhere, nor does a route of which it was not
// decided what it needs.
func TestGuardIsComplete(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "", nil)
	for name, tc := range map[string]struct {
		change func(*backofficeguard.Config)
		want   string // in the error; empty = there is none
	}{
		"tokens":      {func(c *backofficeguard.Config) { c.Tokens = nil }, "tokens"},
		"proofs":      {func(c *backofficeguard.Config) { c.Proofs = nil }, "proofs"},
		"access":      {func(c *backofficeguard.Config) { c.Access = nil }, "access"},
		"properties":  {func(c *backofficeguard.Config) { c.Properties = nil }, "properties"},
		"limiter":     {func(c *backofficeguard.Config) { c.Limiter = nil }, "limiter"},
		"no limits":   {func(c *backofficeguard.Config) { c.Limiter, c.Limits.Off = nil, true }, ""},
		"pepper":      {func(c *backofficeguard.Config) { c.Pepper = nil }, "pepper"},
		"background":  {func(c *backofficeguard.Config) { c.Background = nil }, "background"},
		"log":         {func(c *backofficeguard.Config) { c.Log = nil }, "log"},
		"metrics":     {func(c *backofficeguard.Config) { c.Metrics = nil }, "metrics"},
		"version":     {func(c *backofficeguard.Config) { c.MinAppVersion = "new" }, "min app version"},
		"other limit": {func(c *backofficeguard.Config) { c.Limits.PerMinute = map[string]int{"else": 1} }, "else"},
	} {
		cfg := f.cfg
		if tc.change(&cfg); cfg.Metrics != nil {
			cfg.Namespace = strings.ReplaceAll(name, " ", "_")
		}
		_, err := backofficeguard.New(cfg)
		if (err != nil) != (tc.want != "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	cfg := f.cfg
	cfg.Namespace = "routes"
	guard, err := backofficeguard.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	limited := func(limit web.Limit, needs any) web.Route {
		return web.Route{Pattern: "GET /x", Limit: limit, Needs: needs, Handle: func(http.ResponseWriter, *http.Request) error { return nil }}
	}
	for name, tc := range map[string]struct {
		route web.Route
		ok    bool
	}{
		"good":                   {limited("all", identity.Needs{}), true},
		"bare":                   {limited("all", identity.Needs{ProofOnly: true}), true},
		"undecided":              {limited("all", nil), false},
		"no limit":               {limited("else", identity.Needs{}), false},
		"bare with roles":        {limited("all", identity.Needs{ProofOnly: true, Roles: backoffice.Roles()}), false},
		"bare with a property":   {limited("all", identity.Needs{ProofOnly: true, Property: true}), false},
		"bare with its property": {limited("all", identity.Needs{ProofOnly: true, OwnProperty: true}), false},
	} {
		if _, err := guard.Protect([]web.Route{tc.route}); (err == nil) != tc.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}
