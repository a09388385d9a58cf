package probe

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/rueidis"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficed"
	"melmastoon.ghasi.io/bff/internal/backoffice/identity"
	"melmastoon.ghasi.io/bff/internal/consumer/booking"
	"melmastoon.ghasi.io/bff/internal/consumer/consumerd"
	"melmastoon.ghasi.io/bff/internal/consumer/consumerstore"
	"melmastoon.ghasi.io/bff/internal/doctor"
	"melmastoon.ghasi.io/bff/internal/local/platform"
	"melmastoon.ghasi.io/bff/internal/postgres"
	"melmastoon.ghasi.io/bff/internal/redis"
	"melmastoon.ghasi.io/bff/internal/service"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

// named compares what was let through, or could not be tried, with patterns: each is met,
// and there is nothing else.
func named(t *testing.T, found []doctor.Finding, want ...string) {
	t.Helper()
	met := make([]bool, len(want))
	for _, f := range found {
		if f.Verdict == doctor.OK {
			continue
		}
		line, expected := string(f.Verdict)+" "+f.Area+": "+f.Check+": "+f.Found, false
		for i, w := range want {
			if regexp.MustCompile(w).MatchString(line) {
				met[i], expected = true, true
			}
		}
		if !expected || f.Verdict == doctor.Wrong && f.Advice == "" {
			t.Errorf("is named besides, or has no advice: %s", line)
		}
	}
	for i, ok := range met {
		if !ok {
			t.Errorf("is not named: %s", want[i])
		}
	}
}

// findings runs an examination as the command does.
func findings(t *testing.T, x *doctor.Examination) []doctor.Finding {
	t.Helper()
	var out bytes.Buffer
	err := x.Run(testkit.Context(t), &out)
	var doc struct {
		Verdict  doctor.Verdict
		Findings []doctor.Finding
	}
	if jsonErr := json.Unmarshal(out.Bytes(), &doc); jsonErr != nil || (err != nil) != (doc.Verdict == doctor.Wrong) {
		t.Fatalf("%v, %v\n%s", err, jsonErr, &out)
	}
	return doc.Findings
}

// migrate brings a world's schema up to date, with the passwords of its settings.
func migrate(t *testing.T, w *testkit.World, id service.Identity) {
	t.Helper()
	env := w.Env()
	passwords, err := postgres.Passwords(id.Schema, env[id.Prefix+"_POSTGRES_URL"], env[id.Prefix+"_JOBS_POSTGRES_URL"])
	if err == nil {
		err = postgres.Migrate(testkit.Context(t), w.PostgresURL, id.Schema, postgres.MigrateOptions{Passwords: passwords})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// parse reads a probe's command line.
func parse(t *testing.T, id service.Identity, cli any, env map[string]string) {
	t.Helper()
	if _, err := service.Parse(id, cli, append([]string{"--json", "--timeout=1m"}, testkit.Flags(env, id.Prefix)...)); err != nil {
		t.Fatal(err)
	}
}

// staff is a deployment of the staff service that a test may weaken, with servers of its own.
type staff struct {
	*backofficeProbe
	t     *testing.T
	super *pgxpool.Pool
	redis rueidis.Client
	keys  redis.Keys
}

func newStaff(t *testing.T) *staff {
	t.Helper()
	db, sessions, id := testkit.NewPostgres(t, false), testkit.NewRedis(t), backofficed.Identity()
	w := testkit.NewWorld(t, func(p *platform.Places) { p.PostgresURL, p.RedisURL = db.URL(), sessions.URL() })
	migrate(t, w, id)
	s := &staff{backofficeProbe: new(backofficeProbe), t: t, keys: redis.NewKeys(w.Name, id.Name)}
	env := w.Env()
	env["BFF_BACKOFFICE_PUBLIC_URLS"] = "https://staff.example"
	parse(t, id, s.backofficeProbe, env)
	var err1, err2 error
	s.super, err1 = postgres.Open(t.Context(), testkit.Patient(db.URL()))
	s.redis, err2 = redis.Open(redis.Config{URL: sessions.URL(), Timeout: time.Minute})
	s.must(errors.Join(err1, err2))
	t.Cleanup(func() { s.super.Close(); s.redis.Close() })
	return s
}

func (s *staff) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *staff) exec(sql string) {
	s.t.Helper()
	_, err := s.super.Exec(testkit.Context(s.t), sql)
	s.must(err)
}

func (s *staff) target() target {
	store := s.sessions(s.redis, s.keys)
	return target{sessions: store, store: store}
}

// TestStaffIsAttacked weakens one thing after the other and sees what comes through named,
// and nothing else.
func TestStaffIsAttacked(t *testing.T) {
	t.Parallel()
	s := newStaff(t)
	attacked := func(table string) string {
		return strings.ReplaceAll(`^wrong tenants: table %: another tenant can |^wrong tenants: table %: no tenant can `, "%", table)
	}
	for name, test := range map[string]struct {
		breaks, mends string
		want          []string
	}{
		"nothing": {},
		"BYPASSRLS": {
			"ALTER ROLE bff_backoffice_app BYPASSRLS", "ALTER ROLE bff_backoffice_app NOBYPASSRLS",
			[]string{attacked("[a-z_]+"), attacked("operator_activity"), attacked("ai_decision_log")},
		},
		"dropped policy": {
			"DROP POLICY prefs_iso ON bff_backoffice.operator_preferences",
			`CREATE POLICY prefs_iso ON bff_backoffice.operator_preferences TO bff_backoffice_app
				USING (tenant_id = NULLIF(current_setting('app.tenant_id', true), '')::uuid) WITH CHECK (tenant_id = NULLIF(current_setting('app.tenant_id', true), '')::uuid)`,
			[]string{`^warning tenants: table operator_preferences: no row could be planted`},
		},
		"unknown policy": {
			"CREATE POLICY mine ON bff_backoffice.operator_activity USING (true)", "DROP POLICY mine ON bff_backoffice.operator_activity",
			[]string{attacked("operator_activity")},
		},
		"wider policy": {
			"ALTER POLICY oaq_iso ON bff_backoffice.offline_action_queue_hints USING (tenant_id IS NOT NULL)",
			"ALTER POLICY oaq_iso ON bff_backoffice.offline_action_queue_hints USING (tenant_id = NULLIF(current_setting('app.tenant_id', true), '')::uuid)",
			[]string{attacked("offline_action_queue_hints")},
		},
		"switched off": {
			"ALTER TABLE bff_backoffice.device_sync_status DISABLE ROW LEVEL SECURITY", "ALTER TABLE bff_backoffice.device_sync_status ENABLE ROW LEVEL SECURITY",
			[]string{attacked("device_sync_status")},
		},
		"a tenant from the start": {
			"ALTER ROLE bff_backoffice_app SET app.tenant_id = '018a0000-0000-7000-8000-000000000000'", "ALTER ROLE bff_backoffice_app RESET app.tenant_id",
			[]string{`^wrong tenants: connection: begins with a tenant`, `^wrong tenants: connection: still has its tenant`},
		},
	} { // one after the other: they share the server
		t.Run(name, func(t *testing.T) {
			if test.breaks != "" {
				s.exec(test.breaks)
				defer s.exec(test.mends)
			}
			named(t, findings(t, s.examination(backofficed.Identity())), test.want...)
		})
	}
	t.Run("guard", s.testGuard)
	s.testNothingIsLeft(t)
}

// forgetful lets every proof be used again.
type forgetful struct{ identity.Sessions }

func (f forgetful) Enter(ctx context.Context, c backoffice.Caller, p identity.Proof, now time.Time) (identity.AccessState, error) {
	p.ID, p.Until = rand.Text(), now.Add(time.Second)
	return f.Sessions.Enter(ctx, c, p, now)
}

// lenient never uses an attestation up.
type lenient struct{ backoffice.Attestations }

func (l lenient) UseAttestation(context.Context, backoffice.Attestation, string) (bool, error) {
	return true, nil
}

// testGuard weakens what the attacks on the guard are on.
func (s *staff) testGuard(t *testing.T) {
	ctx := testkit.Context(t)
	attack := func(on target, want ...string) {
		t.Helper()
		found, err := s.attackGuard(ctx, on)
		s.must(err)
		named(t, found, want...)
	}
	on := s.target()
	attack(target{sessions: forgetful{on.store}, store: on.store}, `^wrong : the same proof again: was let in$`)
	attack(target{sessions: on.store, store: on.store, trusting: true}, `^wrong : token of another key: was let in$`)
	s.PublicURLs = append(s.PublicURLs, "https://doctor.invalid")
	attack(on, `^wrong : proof for another host: was let in$`)
	s.PublicURLs = s.PublicURLs[:1]

	found, err := attackAttestation(ctx, lenient{on.store}, on.store)
	s.must(err)
	named(t, found, `^wrong : used by several at once: 8 of 8 were let through`, `^wrong : used again: was accepted`)
}

// testNothingIsLeft looks for rows and keys of the attacks; what a weakened part has left
// is not theirs.
func (s *staff) testNothingIsLeft(t *testing.T) {
	t.Helper()
	ctx := testkit.Context(t)
	s.must(s.redis.Do(ctx, s.redis.B().Flushall().Build()).Error())
	named(t, findings(t, s.examination(backofficed.Identity())))
	left, err := s.redis.Do(ctx, s.redis.B().Keys().Pattern("*").Build()).AsStrSlice()
	// A tier that was never used begins with the first attack.
	left = slices.DeleteFunc(left, func(key string) bool { return strings.Contains(key, ":born:") })
	if err != nil || len(left) > 0 {
		t.Errorf("keys are left: %v, %v", left, err)
	}
	rows, err := s.super.Query(ctx, `SELECT relname::text, (xpath('/row/n/text()', query_to_xml('SELECT count(*) AS n FROM ' || oid::regclass, false, true, '')))[1]::text::int
		FROM pg_class WHERE relnamespace = 'bff_backoffice'::regnamespace AND relkind = 'r' AND relname NOT IN ('schema_migrations', 'audit_cursors')`) // which a migration fills
	s.must(err)
	defer rows.Close()
	for rows.Next() {
		var (
			table string
			n     int
		)
		s.must(rows.Scan(&table, &n))
		if n > 0 {
			t.Errorf("%s has %d rows", table, n)
		}
	}
	s.must(rows.Err())
}

// TestGuestsAreAttacked: a deployment that is right lets nothing through, a keyring that
// cannot be read is named, and so is a ledger that lets a hand-off be used again.
func TestGuestsAreAttacked(t *testing.T) {
	t.Parallel()
	w, ctx, id := testkit.NewWorld(t, nil), testkit.Context(t), consumerd.Identity()
	migrate(t, w, id)
	p := new(consumerProbe)
	parse(t, id, p, w.Env())
	named(t, findings(t, p.examination(id)))
	p.CardKeys = "{"
	named(t, findings(t, p.examination(id)), "^wrong signatures: keyrings: card-keys: ")

	db, err := postgres.Open(ctx, testkit.Patient(p.PostgresURL.Reveal()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	found, err := attackLedger(ctx, generous{consumerstore.New(consumerstore.Config{DB: db})})
	if err != nil {
		t.Fatal(err)
	}
	named(
		t, found, "^wrong : used by several at once: 8 of 8 were let through", "^wrong : used again: was accepted",
		"^wrong : used after it has expired: was accepted",
	)
	var left int
	if err := db.QueryRow(
		ctx, `SELECT count(*) FROM bff_consumer.handoff_replay_log WHERE tenant_id = $1`, doctor.Tenant().UUID(),
	).Scan(&left); err != nil || left > 0 {
		t.Errorf("%d rows are left, %v", left, err)
	}
}

// generous lets everyone use a hand-off.
type generous struct{ ledger }

func (g generous) Consume(context.Context, bff.ID, string, time.Time) (booking.Handoff, error) {
	return booking.Handoff{}, nil
}

// TestJudgement: what is accepted and should not be is named.
func TestJudgement(t *testing.T) {
	t.Parallel()
	if f := tampered("x", "AAAA", func(string) error { return nil }, "y"); f.Verdict != doctor.Wrong || f.Advice == "" {
		t.Errorf("%+v", f)
	}
	for want, err := range map[doctor.Verdict]error{
		doctor.OK: bff.Errorf(bff.CodeHandoffExpired, ""), doctor.Wrong: nil, doctor.Warning: io.EOF,
	} {
		if f := refusal("x", err, bff.CodeHandoffExpired, "y"); f.Verdict != want {
			t.Errorf("%v: %+v", err, f)
		}
	}
}
