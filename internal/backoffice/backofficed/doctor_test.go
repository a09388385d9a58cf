package backofficed

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/rueidis"

	"melmastoon.ghasi.io/bff/internal/daemon"
	"melmastoon.ghasi.io/bff/internal/doctor"
	"melmastoon.ghasi.io/bff/internal/local/platform"
	"melmastoon.ghasi.io/bff/internal/postgres"
	"melmastoon.ghasi.io/bff/internal/pubsub"
	"melmastoon.ghasi.io/bff/internal/redis"
	"melmastoon.ghasi.io/bff/internal/service"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

// clinic is a deployment that a test may break, with servers of its own.
type clinic struct {
	*staff
	settings map[string]string // in the environment
	super    *pgxpool.Pool
	sessions rueidis.Client
	topics   *pubsub.Client
}

// missingTopic is not there until the test has seen that it is missed.
const missingTopic = "melmastoon.bff.backoffice.session.opened.v1"

func newClinic(t *testing.T) *clinic {
	t.Helper()
	db, sessions, caches := testkit.NewPostgres(t, false), testkit.NewRedis(t), testkit.NewRedis(t)
	s := &staff{t: t, World: testkit.NewWorld(t, func(p *platform.Places) { p.PostgresURL, p.RedisURL = db.URL(), sessions.URL() })}
	s.run("migrate")
	c := &clinic{staff: s, settings: s.Env()}
	c.settings["BFF_BACKOFFICE_REDIS_CACHE_URL"] = caches.URL()
	c.settings["BFF_BACKOFFICE_PUBLIC_URLS"] = "https://staff.example"
	var err1, err2, err3, err4 error
	var lru rueidis.Client
	c.super, err1 = postgres.Open(t.Context(), testkit.Patient(db.URL()))
	c.sessions, err2 = redis.Open(redis.Config{URL: sessions.URL(), Timeout: time.Minute})
	c.topics, err3 = pubsub.Open(t.Context(), pubsub.Config{ProjectID: s.PubSubProject, EmulatorHost: s.PubSubHost, AdminTimeout: time.Minute})
	lru, err4 = redis.Open(redis.Config{URL: caches.URL(), Timeout: time.Minute})
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.super.Close(); c.sessions.Close(); lru.Close(); _ = c.topics.Close() })
	c.policy(lru, "allkeys-lru")
	for _, topic := range Identity().Publishes {
		if topic != missingTopic {
			c.must(c.topics.EnsureTopics(testkit.Context(t), topic))
		}
	}
	for _, sub := range Identity().Receives {
		c.must(c.topics.EnsureSubscription(testkit.Context(t), sub))
	}
	return c
}

func (c *clinic) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *clinic) policy(client rueidis.Client, policy string) {
	c.t.Helper()
	c.must(client.Do(testkit.Context(c.t), client.B().ConfigSet().ParameterValue().ParameterValue("maxmemory-policy", policy).Build()).Error())
}

func (c *clinic) exec(sql string) {
	c.t.Helper()
	if _, err := c.super.Exec(testkit.Context(c.t), sql); err != nil {
		c.t.Fatalf("%s: %v", sql, err)
	}
}

// doctor returns the command as it would be started with the settings, changed by
// pairs of variables and values.
func (c *clinic) doctor(changes ...string) *doctorCommand {
	c.t.Helper()
	settings := maps.Clone(c.settings)
	for i := 0; i < len(changes); i += 2 {
		settings[changes[i]] = changes[i+1]
	}
	var cli commands
	args := append([]string{"doctor", "--json", "--timeout=1m"}, testkit.Flags(settings, "BFF_BACKOFFICE")...)
	if _, err := service.Parse(Identity(), &cli, args); err != nil {
		c.t.Fatal(err)
	}
	return &cli.Doctor
}

func (d *doctorCommand) examination() *doctor.Examination {
	return doctor.ExamineAll(Identity(), new(daemon.Environment), d.Settings, d.subject())
}

// examine runs an examination and returns its findings.
func (c *clinic) examine(x *doctor.Examination) []doctor.Finding {
	c.t.Helper()
	var out bytes.Buffer
	err := x.Run(testkit.Context(c.t), &out)
	return c.read(out.Bytes(), err)
}

// read returns the findings of a document and compares its verdict with the error.
func (c *clinic) read(out []byte, err error) []doctor.Finding {
	c.t.Helper()
	var doc struct {
		Verdict  doctor.Verdict
		Findings []doctor.Finding
	}
	if jsonErr := json.Unmarshal(out, &doc); jsonErr != nil {
		c.t.Fatalf("%v, %v\n%s", err, jsonErr, out)
	}
	if (err != nil) != (doc.Verdict == doctor.Wrong) {
		c.t.Errorf("%s, and the command ended with %v", doc.Verdict, err)
	}
	return doc.Findings
}

func (c *clinic) findings(changes ...string) []doctor.Finding {
	c.t.Helper()
	return c.examine(c.doctor(changes...).examination())
}

// named compares what is wrong, and what is doubtful beyond development's settings,
// with patterns: each is met, and there is nothing else.
func named(t *testing.T, found []doctor.Finding, want ...string) {
	t.Helper()
	met := make([]bool, len(want))
	for _, f := range found {
		if f.Verdict == doctor.OK || f.Area == "configuration" && f.Verdict == doctor.Warning {
			continue
		}
		line, expected := string(f.Verdict)+" "+f.Area+": "+f.Check+": "+f.Found, false
		for i, w := range want {
			if regexp.MustCompile(w).MatchString(line) {
				met[i], expected = true, true
			}
		}
		if !expected {
			t.Errorf("is named besides: %s", line)
		}
		if f.Verdict == doctor.Wrong && f.Advice == "" {
			t.Errorf("no advice: %s", line)
		}
	}
	for i, ok := range met {
		if !ok {
			t.Errorf("is not named: %s", want[i])
		}
	}
}

// TestDoctor breaks several things at once and sees each of them named, and nothing else.
func TestDoctor(t *testing.T) {
	t.Parallel()
	c := newClinic(t)
	named(t, c.findings(), `^wrong pubsub: topic melmastoon.bff.backoffice.session.opened.v1: does not exist$`)
	c.must(c.topics.EnsureTopics(testkit.Context(t), missingTopic))
	named(t, c.findings())
	for _, together := range []map[string]struct{ breaks, mends string }{
		{ // by what is named
			`postgres: role bff_backoffice_app: has BYPASSRLS`: {
				"ALTER ROLE bff_backoffice_app BYPASSRLS", "ALTER ROLE bff_backoffice_app NOBYPASSRLS",
			},
			`postgres of relay and jobs: role bff_backoffice_jobs: is a member of bff_backoffice_owner`: {
				"GRANT bff_backoffice_owner TO bff_backoffice_jobs", "REVOKE bff_backoffice_owner FROM bff_backoffice_jobs",
			},
			`postgres: operator_preferences.prefs_iso: this policy is missing`: {
				"DROP POLICY prefs_iso ON bff_backoffice.operator_preferences",
				`CREATE POLICY prefs_iso ON bff_backoffice.operator_preferences TO bff_backoffice_app
					USING (tenant_id = NULLIF(current_setting('app.tenant_id', true), '')::uuid) WITH CHECK (tenant_id = NULLIF(current_setting('app.tenant_id', true), '')::uuid)`,
			},
			`postgres: operator_activity.mine: no migration made this policy`: {
				"CREATE POLICY mine ON bff_backoffice.operator_activity USING (true)", "DROP POLICY mine ON bff_backoffice.operator_activity",
			},
			`postgres: offline_action_queue_hints.oaq_iso: this policy has another condition`: {
				"ALTER POLICY oaq_iso ON bff_backoffice.offline_action_queue_hints USING (tenant_id IS NOT NULL)",
				"ALTER POLICY oaq_iso ON bff_backoffice.offline_action_queue_hints USING (tenant_id = NULLIF(current_setting('app.tenant_id', true), '')::uuid)",
			},
			`postgres: operator_activity_other.activity_jobs_prune: this policy has another condition`: {
				"ALTER POLICY activity_jobs_prune ON bff_backoffice.operator_activity_other USING (true)",
				"ALTER POLICY activity_jobs_prune ON bff_backoffice.operator_activity_other USING (occurred_at < now() - interval '90 days')",
			},
			`postgres: idempotency.idem_tenant_iso: this policy is for public, the migrations made it for bff_backoffice_app`: {
				"ALTER POLICY idem_tenant_iso ON bff_backoffice.idempotency TO public", "ALTER POLICY idem_tenant_iso ON bff_backoffice.idempotency TO bff_backoffice_app",
			},
			`postgres: alert_ack_log: does not force row level security`: {
				"ALTER TABLE bff_backoffice.alert_ack_log NO FORCE ROW LEVEL SECURITY", "ALTER TABLE bff_backoffice.alert_ack_log FORCE ROW LEVEL SECURITY",
			},
			`postgres: device_sync_status: has no row level security`: {
				"ALTER TABLE bff_backoffice.device_sync_status DISABLE ROW LEVEL SECURITY", "ALTER TABLE bff_backoffice.device_sync_status ENABLE ROW LEVEL SECURITY",
			},
			`postgres: index ix_idem_tenant: is missing, which migration 0003_create_idempotency.sql makes`: {
				"DROP INDEX bff_backoffice.ix_idem_tenant", "CREATE INDEX ix_idem_tenant ON bff_backoffice.idempotency (tenant_id, created_at DESC)",
			},
			`postgres: column operator_activity.roles: is missing, which migration 0017_add_activity_outcome.sql makes`: {
				"ALTER TABLE bff_backoffice.operator_activity RENAME roles TO kinds", "ALTER TABLE bff_backoffice.operator_activity RENAME kinds TO roles",
			},
		},
		{ // which say more about the same roles
			`postgres of relay and jobs: role bff_backoffice_jobs: is a superuser`: {
				"ALTER ROLE bff_backoffice_jobs SUPERUSER", "ALTER ROLE bff_backoffice_jobs NOSUPERUSER",
			},
			`postgres: role bff_backoffice_app: owns job_state`: {
				"ALTER TABLE bff_backoffice.job_state OWNER TO bff_backoffice_app", "ALTER TABLE bff_backoffice.job_state OWNER TO bff_backoffice_owner",
			},
		},
	} {
		var want []string
		for name, x := range together {
			want = append(want, "^wrong "+regexp.QuoteMeta(name))
			c.exec(x.breaks)
		}
		named(t, c.findings(), want...)
		for _, x := range together {
			c.exec(x.mends)
		}
	}
	sub := Identity().Receives[0]
	c.policy(c.sessions, "allkeys-lru")
	c.must(c.topics.DeleteSubscription(testkit.Context(t), sub.Name))
	named(t, c.findings(), `^wrong redis session: policy: .* maxmemory-policy is "allkeys-lru", want noeviction`,
		`^wrong pubsub: subscription `+regexp.QuoteMeta(sub.Name)+`: does not exist$`)
	c.policy(c.sessions, "noeviction")
	other := sub
	other.Topic = Identity().Receives[1].Topic
	c.must(c.topics.EnsureSubscription(testkit.Context(t), other))
	named(t, c.findings(), `^wrong pubsub: subscription `+regexp.QuoteMeta(sub.Name)+`: is of the topic `+regexp.QuoteMeta(other.Topic))
	c.must(c.topics.DeleteSubscription(testkit.Context(t), sub.Name))
	c.must(c.topics.EnsureSubscription(testkit.Context(t), sub))
	t.Run("places", c.testPlaces)
	t.Run("clock", c.testClock)
	t.Run("settings", c.testSettings)
}

// testPlaces leads to servers that are away, hang, or are not what they should be.
func (c *clinic) testPlaces(t *testing.T) {
	empty := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"keys":[]}`))
	}))
	t.Cleanup(empty.Close)
	named(t, c.findings("BFF_BACKOFFICE_IAM_URL", empty.URL, "BFF_BACKOFFICE_LOCK_URL", "http://127.0.0.1:1",
		"BFF_BACKOFFICE_POSTGRES_URL", "postgres://bff_backoffice_app:hunter2@127.0.0.1:1/x"),
		`^wrong keys: issuer of access tokens: publishes no keys`, `^wrong upstreams: lock: .*connection refused`,
		`^wrong postgres: server: .*connection refused`, `^warning postgres: (role|migrations|policies): not checked`)
	// Each address has a path too much: the server answers, and not the service.
	want, changes := []string{"^wrong keys: issuer of access tokens: answers with status 404"}, []string{}
	for name, url := range c.doctor().urls() {
		want = append(want, "^wrong upstreams: "+string(name)+": answers, but not as "+string(name)+": ")
		changes = append(changes, "BFF_BACKOFFICE_"+strings.ToUpper(string(name))+"_URL", url+"/v1")
	}
	d := c.doctor(changes...)
	named(t, c.examine(doctor.ExamineConnections(Identity(), new(daemon.Environment), d.Settings, d.subject())), want...)

	// A server that takes connections and says nothing holds up no other check.
	silent, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	c.must(err)
	t.Cleanup(func() { _ = silent.Close() })
	d = c.doctor("BFF_BACKOFFICE_LOCK_URL", "http://"+silent.Addr().String(), "BFF_BACKOFFICE_REDIS_CACHE_URL", "redis://"+silent.Addr().String())
	d.Timeout = 100 * time.Millisecond
	found := c.examine(d.examination())
	seen := map[string]string{}
	for _, f := range found {
		seen[f.Area+": "+f.Check] = string(f.Verdict)
	}
	if seen["upstreams: lock"] != "wrong" || seen["redis cache: server"] != "wrong" || seen["configuration: settings"] == "" ||
		seen["keys: nonce-keys, sync-keys and pepper"] == "" {
		t.Errorf("with a server that hangs: %v", seen)
	}
}

// testClock gives the machine a wrong clock.
func (c *clinic) testClock(t *testing.T) {
	for ahead, want := range map[time.Duration][]string{
		5 * time.Minute: {
			`^wrong postgres: clock: is (5m\d+|4m5\d)s behind this machine's`, `^wrong postgres of relay and jobs: clock: `, `^wrong redis session: clock: `, `^wrong redis cache: clock: `,
			`^wrong upstreams: [a-z]+ clock: is [45]m\d+s behind`,
		},
		-10 * time.Minute: {
			`^wrong postgres: clock: is (10m\d+|9m5\d)s ahead of this machine's`, `^wrong postgres of relay and jobs: clock: `, `^wrong redis (session|cache): clock: `,
			`^wrong upstreams: [a-z]+ clock: is (10m\d+|9m5\d)s ahead of`,
		},
	} {
		x := c.doctor().examination()
		x.Now = func() time.Time { return time.Now().Add(ahead) }
		named(t, c.examine(x), want...)
	}
}

// testSettings runs the command itself: settings by variable and in their order, no
// secrets, its exit status.
func (c *clinic) testSettings(t *testing.T) {
	cmd := c.command("doctor", "--json", "--timeout=1m")
	cmd.Env = append(append(cmd.Env, platform.Pairs(c.settings)...), "MELMASTOON_ENV=production", "BFF_BACKOFFICE_LIMTS=off", "BFF_BACKOFFICE_INSTANCES=hunter2",
		"BFF_BACKOFFICE_PEPPER=hunter2", "BFF_BACKOFFICE_MIN_APP_VERSION=hunter2", "BFF_BACKOFFICE_PUBLIC_URLS=http://hunter2.example", "BFF_BACKOFFICE_SYNC_KEYS=hunter2",
		"MELMASTOON_INTERNAL_HMAC_KEY=hunter2")
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 1 || problems.Len() > 0 {
		t.Errorf("%v\n%s", err, &problems)
	}
	want := []string{
		"wrong PUBSUB_EMULATOR_HOST", "wrong MELMASTOON_INTERNAL_TOKEN", "wrong MELMASTOON_INTERNAL_HMAC_KEY", "wrong BFF_BACKOFFICE_PUBLIC_URLS", "wrong BFF_BACKOFFICE_PEPPER",
		"wrong BFF_BACKOFFICE_INSTANCES", "wrong BFF_BACKOFFICE_SYNC_KEYS", "wrong BFF_BACKOFFICE_LAKE_URL", "wrong BFF_BACKOFFICE_AUDIT_KEYS", "warning BFF_BACKOFFICE_LIMTS",
	}
	var got []string
	for _, f := range c.read(out.Bytes(), err) {
		if f.Area == "configuration" {
			got = append(got, string(f.Verdict)+" "+f.Check)
		}
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for _, secret := range []string{"hunter2", c.Secrets.NonceKey, c.Secrets.InternalToken, c.Secrets.InternalHMACKey, c.Secrets.BackofficePassword} {
		if strings.Contains(out.String(), `"`+secret) || strings.Contains(out.String(), ": "+secret) {
			t.Errorf("a secret is shown:\n%s", &out)
		}
	}
}
