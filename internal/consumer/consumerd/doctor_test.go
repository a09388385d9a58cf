package consumerd

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"melmastoon.ghasi.io/bff/handoff"
	"melmastoon.ghasi.io/bff/internal/daemon"
	"melmastoon.ghasi.io/bff/internal/doctor"
	"melmastoon.ghasi.io/bff/internal/postgres"
	"melmastoon.ghasi.io/bff/internal/pubsub"
	"melmastoon.ghasi.io/bff/internal/service"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

// named compares what is wrong, and what is doubtful, with the beginnings of lines.
func named(t *testing.T, found []doctor.Finding, want ...string) {
	t.Helper()
	var got []string
	for _, f := range found {
		if f.Verdict != doctor.OK && (f.Area != "configuration" || f.Verdict != doctor.Warning) {
			got = append(got, string(f.Verdict)+" "+f.Area+": "+f.Check+": "+f.Found)
		}
	}
	ok := len(got) == len(want)
	for i := range want {
		ok = ok && strings.HasPrefix(got[i], want[i])
	}
	if !ok {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestDoctor examines a deployment that is right, and one without its topics and with
// keys that cannot be read. Every check that both services have is broken in the test
// of the staff service.
func TestDoctor(t *testing.T) {
	t.Parallel()
	w, ctx := testkit.NewWorld(t, nil), testkit.Context(t)
	env := w.Env()
	if err := postgres.Migrate(ctx, env["BFF_CONSUMER_MIGRATE_URL"], Identity().Schema, postgres.MigrateOptions{
		Passwords: map[string]string{Identity().Schema.Logins[0]: w.Secrets.ConsumerPassword},
	}); err != nil {
		t.Fatal(err)
	}
	run := func(command string, of func(*commands) *doctor.Examination) []doctor.Finding {
		t.Helper()
		args := append([]string{command, "--json", "--timeout=1m"}, testkit.Flags(env, "BFF_CONSUMER")...)
		var cli commands
		if _, err := service.Parse(Identity(), &cli, args); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		err := of(&cli).Run(ctx, &out)
		var doc struct {
			Verdict  doctor.Verdict
			Findings []doctor.Finding
		}
		if jsonErr := json.Unmarshal(out.Bytes(), &doc); jsonErr != nil || (err != nil) != (doc.Verdict == doctor.Wrong) {
			t.Fatalf("%v, %v\n%s", err, jsonErr, &out)
		}
		return doc.Findings
	}
	examine := func(change func(*doctorCommand)) []doctor.Finding {
		t.Helper()
		return run("doctor", func(cli *commands) *doctor.Examination {
			if change != nil {
				change(&cli.Doctor)
			}
			return doctor.ExamineAll(Identity(), new(daemon.Environment), cli.Doctor.Settings, cli.Doctor.subject())
		})
	}
	checked := func(change func(*check)) []doctor.Finding {
		t.Helper()
		return run("check", func(cli *commands) *doctor.Examination {
			change(&cli.Check)
			return doctor.ExamineConnections(Identity(), new(daemon.Environment), cli.Check.Settings, cli.Check.subject())
		})
	}
	missing := pubsub.Needed(Identity().Publishes, Identity().Receives)
	if n := len(examine(nil)); n < len(missing.Topics)+len(missing.Subscriptions) {
		t.Errorf("%d findings, and no topic stands", n)
	}
	client, err := pubsub.Open(ctx, pubsub.Config{ProjectID: w.PubSubProject, EmulatorHost: w.PubSubHost, AdminTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	errs := []error{client.EnsureTopics(ctx, Identity().Publishes...)}
	for _, sub := range Identity().Receives {
		errs = append(errs, client.EnsureSubscription(ctx, sub))
	}
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	const shared = "warning redis cache: policy: " // both tiers are one server here
	named(t, checked(func(*check) {}), shared)
	named(t, checked(func(c *check) {
		c.PricingURL, c.MigrateURL, c.RedisSessionURL = "", "postgres://127.0.0.1:1/x", "http://x"
	}),
		"wrong configuration: settings: redis-session-url: must be a URL", "wrong configuration: settings: pricing-url: is required", "wrong postgres of migrations: server: ",
		"warning redis session: server: not checked", "wrong redis cache: policy: ", "warning upstreams: pricing: not checked")
	named(t, examine(nil), shared)
	// Each address leads to a server that answers, and not to the service.
	for name, at := range map[string]func(*Config) *string{
		"search-aggregation": func(c *Config) *string { return &c.SearchURL }, "pricing": func(c *Config) *string { return &c.PricingURL },
		"property": func(c *Config) *string { return &c.PropertyURL }, "theme-config": func(c *Config) *string { return &c.ThemeURL },
		"tenant": func(c *Config) *string { return &c.TenantURL },
	} {
		for _, change := range []func(url string) string{func(url string) string { return url + "/v1" }, func(string) string { return w.SimURL + "/iam" }} {
			misled := func(c *Config) { *at(c) = change(*at(c)) }
			named(t, checked(func(c *check) { misled(&c.Config) }), shared, "wrong upstreams: "+name+": answers, but not as "+name+": ")
		}
		named(t, examine(func(d *doctorCommand) { *at(&d.Config) += "/v1" }), shared, "wrong upstreams: "+name+": answers, but not as "+name+": ")
	}
	named(t, examine(func(d *doctorCommand) { d.CardKeys = "{" }), shared, "wrong keys: keyring of the cards: card-keys: ")
	named(t, examine(func(d *doctorCommand) { d.HandoffKeys, d.HandoffKeysFile = "", "/nowhere" }), shared,
		"wrong keys: keyring of the hand-off: handoff-keys: ")
}

// TestDoctorJudgesKeyrings: a ring must have a key that signs, and keep what it
// replaced for as long as that may be met.
func TestDoctorJudgesKeyrings(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 10, 1, 12, 0, 0, 0, time.UTC)
	secret := []byte("0123456789abcdef0123456789abcdef")
	set := func(active time.Time, change ...func(*handoff.KeySet) (*handoff.KeySet, error)) *handoff.KeySet {
		t.Helper()
		s, err := handoff.NewKeySet("first", secret, active)
		for _, f := range change {
			if err == nil {
				s, err = f(s)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	add := func(s *handoff.KeySet) (*handoff.KeySet, error) {
		return s.Add("second", bytes.Repeat([]byte("k"), 32))
	}
	promote := func(s *handoff.KeySet) (*handoff.KeySet, error) { return s.Promote("second", now.Add(-time.Minute)) }
	revoke := func(s *handoff.KeySet) (*handoff.KeySet, error) { return s.Revoke("first") }
	for name, test := range map[string]struct {
		set  *handoff.KeySet
		want []string
	}{
		"one key":       {set(now.Add(-time.Hour)), nil},
		"a pending one": {set(now.Add(-time.Hour), add), nil},
		"rotated":       {set(now.Add(-time.Hour), add, promote), nil},
		"dropped too early": {
			set(now.Add(-time.Hour), add, promote, revoke),
			[]string{"warning : : the key second signs since 2026-10-01T11:59:00.000Z, and what the one before has signed may live for 30m0s"},
		},
		"old":           {set(now.AddDate(-2, 0, 0)), []string{"warning : : the active key first is older than a year"}},
		"of the future": {set(now.Add(time.Hour)), []string{"wrong : : the active key first signs since 2026-10-01T13:00:00.000Z, which is in the future"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			named(t, judgeRing(test.set, handoff.Lifetime, now), test.want...)
		})
	}
}
