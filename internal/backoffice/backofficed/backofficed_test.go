package backofficed

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/daemon"
	"melmastoon.ghasi.io/bff/internal/local/platform"
	"melmastoon.ghasi.io/bff/internal/postgres"
	"melmastoon.ghasi.io/bff/internal/redis"
	"melmastoon.ghasi.io/bff/internal/service"
	"melmastoon.ghasi.io/bff/internal/testkit"
	"melmastoon.ghasi.io/bff/migrations"
)

const subject = "melmastoon.bff.backoffice.session.opened.v1"

// staff is the service with real servers around it.
type staff struct {
	*testkit.World
	t *testing.T
}

// command is a run of the service's binary.
func (s *staff) command(args ...string) *exec.Cmd {
	s.t.Helper()
	cmd := exec.CommandContext(testkit.Context(s.t), testkit.Binary(s.t, "bff-backoffice"), args...)
	cmd.Env = append(os.Environ(), platform.Pairs(s.Env())...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	return cmd
}

// run returns what a command printed; it must succeed.
func (s *staff) run(args ...string) string {
	s.t.Helper()
	var out, problems bytes.Buffer
	cmd := s.command(args...)
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Run(); err != nil {
		s.t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, &problems)
	}
	return out.String()
}

// as opens the database as one of the service's roles.
func (s *staff) as(role string) *pgxpool.Pool {
	s.t.Helper()
	env := s.Env()
	url := env["BFF_BACKOFFICE_POSTGRES_URL"]
	if role == migrations.BackofficeJobs {
		url = env["BFF_BACKOFFICE_JOBS_POSTGRES_URL"]
	}
	db, err := postgres.Open(s.t.Context(), testkit.Patient(url))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(db.Close)
	return db
}

// add appends an event as the role of requests and returns its id.
func (s *staff) add(db *pgxpool.Pool) string {
	s.t.Helper()
	now := time.Now()
	id := bff.NewID(bff.PrefixEvent, now).String()
	if err := Identity().Outbox.Append(testkit.Context(s.t), db, bff.Event{
		Envelope: bff.Envelope{EventID: id, Subject: subject, OccurredAt: bff.At(now), DeviceID: "dev_1", RetentionClass: bff.RetentionRegulated},
		Payload:  json.RawMessage(`{"marker":"` + id + `"}`),
	}); err != nil {
		s.t.Fatal(err)
	}
	return id
}

// tail listens to the service's events and returns its output once it does.
func (s *staff) tail() *bufio.Scanner {
	s.t.Helper()
	cmd := s.command("events", "tail", "--plain", "--subject", "session.opened")
	out, err1 := cmd.StdoutPipe()
	notes, err2 := cmd.StderrPipe()
	if err1 != nil || err2 != nil {
		s.t.Fatal(err1, err2)
	}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // gone already is as good
		_ = cmd.Wait()
	})
	if line := bufio.NewScanner(notes); !line.Scan() || !strings.Contains(line.Text(), "listening to 1 topics") {
		s.t.Fatalf("tail: %q", line.Text())
	}
	return bufio.NewScanner(out)
}

// TestCommands runs every command against real servers, on a database that the
// service migrates itself.
func TestCommands(t *testing.T) {
	t.Parallel()
	s := &staff{t: t, World: testkit.NewWorld(t, func(p *platform.Places) {
		p.PostgresURL = testkit.PostgresTemplate(t, "empty", func(string) error { return nil })
		p.LakeURL = "file://" + t.TempDir()
	})}
	s.run("migrate")
	s.run("migrate")
	requests, jobs := s.as(migrations.BackofficeApp), s.as(migrations.BackofficeJobs)

	// A serving process does not publish; another one, which only relays, does.
	serving := s.Start("bff-backoffice", map[string]string{"BFF_BACKOFFICE_NO_RELAY": "true"})
	if got := status(t, "http://"+serving.Public+"/nothing"); got != http.StatusNotFound {
		t.Errorf("an unknown route: %d", got)
	}
	svc, err := platform.NewService("bff-backoffice", false)
	if err != nil {
		t.Fatal(err)
	}
	relay, err := svc.Start([]string{testkit.Binary(t, "bff-backoffice"), "relay"}, platform.Pairs(s.Env()), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(relay.Kill)
	if err := relay.AwaitReady(testkit.Context(t)); err != nil {
		t.Fatal(err)
	}
	lines := s.tail()
	s.arrives(lines, s.add(requests))

	if got := s.run("dlq", "list"); got != "there are no dead letters\n" {
		t.Errorf("no dead letters: %q", got)
	}
	relay.Kill()
	id := s.add(requests)
	if _, err := jobs.Exec(
		testkit.Context(t), `UPDATE bff_backoffice.outbox SET dlq = true, attempts = 10, last_error = 'refused' WHERE published_at IS NULL`,
	); err != nil {
		t.Fatal(err)
	}
	if got := s.run("dlq", "list"); !strings.Contains(got, id) || !strings.Contains(got, "refused") {
		t.Errorf("a dead letter: %q", got)
	}
	if got := s.run("dlq", "replay", id); got != "1 events will be published\n" {
		t.Errorf("replay: %q", got)
	}
	p := s.Start("bff-backoffice", nil) // serves and relays
	s.arrives(lines, id)
	s.run("jobs", "all")
	for _, tc := range []struct {
		job, token, body string
		want             int
		answer           string
	}{
		{"inbox-cleanup", "", "", http.StatusUnauthorized, "UNAUTHENTICATED"},
		{"inbox-cleanup", "wrong", "", http.StatusUnauthorized, "UNAUTHENTICATED"},
		{"inbox-cleanup", s.Secrets.InternalToken, "", http.StatusOK, `{"job":"inbox-cleanup","state":"done","rows":0}`},
		{"inbox-cleanup", s.Secrets.InternalToken, `{"dryRun":true}`, http.StatusOK, `"dryRun":true`},
		{"inbox-cleanup", s.Secrets.InternalToken, `{"dry":true}`, http.StatusBadRequest, "dry"},
		{"nothing", s.Secrets.InternalToken, "", http.StatusNotFound, "RESOURCE_NOT_FOUND"},
	} {
		req, err := http.NewRequestWithContext(testkit.Context(t), http.MethodPost, "http://"+p.Internal+"/internal/jobs/"+tc.job, strings.NewReader(tc.body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+tc.token)
		req.Header.Set("Content-Type", "application/json")
		res, err := (&http.Client{Timeout: time.Minute}).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil || res.StatusCode != tc.want || !strings.Contains(string(body), tc.answer) {
			t.Errorf("%s with %q: %d %s, %v; want %d %s", tc.job, tc.body, res.StatusCode, body, err, tc.want, tc.answer)
		}
	}
}

// arrives reads on until the event was shown.
func (s *staff) arrives(lines *bufio.Scanner, id string) {
	s.t.Helper()
	for lines.Scan() {
		if strings.Contains(lines.Text(), id) {
			return
		}
	}
	s.t.Fatalf("event %s was not shown: %v", id, lines.Err())
}

func status(t *testing.T, url string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(testkit.Context(t), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := (&http.Client{Timeout: time.Minute}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	return res.StatusCode
}

// TestJobs prunes as the role of jobs, which sees expired keys of every tenant.
func TestJobs(t *testing.T) {
	t.Parallel()
	s := &staff{t: t, World: testkit.NewWorld(t, func(p *platform.Places) { p.LakeURL = "file://" + t.TempDir() })}
	s.run("migrate") // gives the roles their passwords
	ctx, now := testkit.Context(t), time.Now()
	super, err := postgres.Open(t.Context(), testkit.Patient(s.PostgresURL))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(super.Close)
	add := func(sql string, args ...any) {
		t.Helper()
		if _, err := super.Exec(ctx, sql, args...); err != nil {
			t.Fatal(err)
		}
	}
	for i, age := range []time.Duration{31 * day, 29 * day} {
		id := bff.NewID(bff.PrefixEvent, now.Add(-age)).UUID()
		add(`INSERT INTO bff_backoffice.outbox (id, subject, payload, envelope, published_at) VALUES ($1, 's', '{}', '{}', $2)`, id, now.Add(-age))
		add(`INSERT INTO bff_backoffice.inbox (message_id, subject, received_at) VALUES ($1, 's', $2)`, id, now.Add(-time.Duration(8-2*i)*day))
		add(`INSERT INTO bff_backoffice.idempotency (idem_key, request_hash, response, status_code, tenant_id, device_id, operator_id, expires_at)
			VALUES ('k', '', '{}', 200, gen_random_uuid(), 'd', 'o', $1)`, now.Add(time.Duration(2*i-1)*time.Minute))
	}
	for i, age := range []time.Duration{91 * day, 89 * day} {
		add(`INSERT INTO bff_backoffice.outbox (id, subject, payload, envelope, enqueued_at, dlq, last_error) VALUES ($1, 's', '{"n":1}', '{}', $2, true, 'refused')`,
			bff.NewID(bff.PrefixEvent, now.Add(-age)).UUID(), now.Add(-age))
		add(`INSERT INTO bff_backoffice.offline_action_queue_hints (tenant_id, device_id, operator_id, payload, app_version, reported_at)
			VALUES (gen_random_uuid(), 'd', 'o', '{}', '1', $1)`, now.Add(-time.Duration(8-2*i)*day))
	}
	for _, archived := range []struct {
		days      int
		published any
	}{{61, now}, {59, now}, {366, nil}, {364, nil}} {
		add(`INSERT INTO bff_backoffice.outbox_archive (id, subject, payload, envelope, enqueued_at, published_at, archived_at, attempts, next_attempt_at, dlq, ordering_key, tx_id)
			VALUES (gen_random_uuid(), 'old', '{}', '{}', $2, $1, $2, 0, $2, $1::timestamptz IS NULL, '', '1')`,
			archived.published, now.Add(-time.Duration(archived.days)*day))
	}
	add(`INSERT INTO bff_backoffice.operator_activity (tenant_id, operator_id, device_id, session_id, occurred_at, category, action, outcome)
		VALUES (gen_random_uuid(), 'o', 'd', 's', $1, 'c', 'a', 'success')`, now.Add(-91*day))
	add(`UPDATE bff_backoffice.audit_cursors SET passed_at = NULL`) // the row is no forgery
	want := "outbox-archival: 1 rows\noutbox-dlq-prune: 1 rows\noutbox-archive-prune: 1 rows\noutbox-archive-dlq-prune: 1 rows\ninbox-cleanup: 1 rows\nidempotency-cleanup: 1 rows\noaq-hints-prune: 1 rows\ndevice-status-sweep: 0 rows\n" +
		"audit-seal: 1 rows\nactivity-export: 1 rows, 1 pruned\nalert-ack-export: 0 rows, 0 pruned\nai-decision-export: 0 rows, 0 pruned\nlock-audit-export: 0 rows, 0 pruned\n"
	if got := s.run("jobs", "all", "--dry-run"); got != want {
		t.Errorf("a dry run: %s, want %s", got, want)
	}
	runs := []*exec.Cmd{s.command("jobs", "all"), s.command("jobs", "all")}
	for _, r := range runs {
		if err := r.Start(); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range runs {
		if err := r.Wait(); err != nil {
			t.Errorf("of two runs at once one failed: %v", err)
		}
	}
	s.run("jobs", "all") // of two at once one may leave the rest to the other
	for _, args := range [][]string{{"--export", s.LakeURL}, {"--export", s.LakeURL, "--only-export"}} {
		if got := s.run(append([]string{"audit", "verify"}, args...)...); !strings.HasSuffix(got, "nothing was changed, removed, inserted or reordered\n") {
			t.Errorf("audit verify %v: %s", args, got)
		}
	}
	if got := s.run("audit", "keys"); !strings.Contains(got, ":public:") {
		t.Errorf("audit keys: %s", got)
	}
	add(`UPDATE bff_backoffice.audit_exports SET refused_at = now(), refusal = 'not a file' WHERE tab = 'operator_activity'`)
	refused := s.run("audit", "refused")
	export, detail, _ := strings.Cut(refused, ": ")
	if !strings.HasPrefix(export, "operator_activity/") || !strings.HasPrefix(detail, "1 rows") || !strings.HasSuffix(detail, ": not a file\n") {
		t.Errorf("audit refused: %q", refused)
	}
	if got := s.run("audit", "refused", "--waive", export); got != "" {
		t.Errorf("after the only one was waived: %q", got)
	}
	letters := s.run("dlq", "list", "--archived")
	if strings.Count(letters, "refused") != 1 || strings.Count(s.run("dlq", "list"), "refused") != 1 {
		t.Errorf("dead letters: %s", letters)
	}
	for table, want := range map[string]int{
		"outbox WHERE subject = 's'": 2, "operator_activity": 0, "audit_chain": 1, "audit_heads": 1, "outbox_archive WHERE subject = 's'": 2, "outbox_archive": 4, "inbox": 1, "idempotency": 1,
		"offline_action_queue_hints": 1,
	} {
		var got int
		if err := super.QueryRow(ctx, `SELECT count(*) FROM bff_backoffice.`+table).Scan(&got); err != nil || got != want {
			t.Errorf("%s has %d rows, %v; want %d", table, got, err, want)
		}
	}
	id := strings.Fields(strings.SplitN(letters, "\n", 3)[1])[0]
	if got := s.run("dlq", "replay", id); got != "1 events will be published\n" {
		t.Errorf("replay from the archive: %q", got)
	}
	var payload string
	if err := super.QueryRow(
		ctx, `SELECT payload FROM bff_backoffice.outbox WHERE NOT dlq AND published_at IS NULL AND subject = 's'`,
	).Scan(&payload); err != nil || payload != `{"n": 1}` {
		t.Errorf("back from the archive: %s, %v", payload, err)
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	err := (&Config{LakeSettings: LakeSettings{WarehouseURL: "elsewhere://project/dataset"}}).Validate()
	if err == nil {
		t.Fatal("an empty configuration was accepted")
	}
	for _, want := range []string{
		"postgres-url", "jobs-postgres-url", "redis-session-url", "redis-cache-url", "pubsub-project", "internal-hmac-key", "internal-token", "warehouse-url",
	} {
		if !strings.Contains(err.Error(), want+":") && !strings.Contains(err.Error(), want+" or") {
			t.Errorf("%s is not reported: %v", want, err)
		}
	}
}

// A session tier that may evict keys is reported, and in development served with.
func TestSessionTierMustKeepKeys(t *testing.T) {
	t.Parallel()
	server := testkit.NewRedis(t)
	w := testkit.NewWorld(t, func(p *platform.Places) { p.RedisURL = server.URL() })
	c, err := redis.Open(redis.Config{URL: server.URL(), Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	p := w.Start("bff-backoffice", nil)
	for policy, want := range map[string]string{"allkeys-lru": "unavailable", "noeviction": "up"} {
		ctx := testkit.Context(t)
		if err := c.Do(ctx, c.B().ConfigSet().ParameterValue().ParameterValue("maxmemory-policy", policy).Build()).Error(); err != nil {
			t.Fatal(err)
		}
		for { // a busy machine may be too slow for a check
			var doc struct{ Parts map[string]string }
			if err := json.Unmarshal(read(t, "http://"+p.Admin+"/ready"), &doc); err != nil {
				t.Fatal(err)
			}
			if doc.Parts["redis session policy"] == want {
				break
			}
			if ctx.Err() != nil {
				t.Fatalf("%s: %v", policy, doc.Parts)
			}
		}
	}
}

func read(t *testing.T, url string) []byte {
	t.Helper()
	req, err := http.NewRequestWithContext(testkit.Context(t), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := (&http.Client{Timeout: time.Minute}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The service must not start with a role that row level security does not bind.
func TestIsolationIsRequired(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(testkit.Context(t), time.Minute)
	defer cancel()
	w := testkit.NewWorld(t, nil)
	p := service.NewProcess(Identity(), service.Settings{}.Settings, service.AdminSettings{})
	db, err := p.Postgres(ctx, &service.DatabaseSettings{PostgresURL: daemon.Secret(w.PostgresURL)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	if err := db.Ping(ctx); err == nil || !strings.Contains(err.Error(), postgres.ErrUnbound.Error()) {
		t.Errorf("a superuser was let in: %v", err)
	}
}

func TestSettingsAreDescribed(t *testing.T) {
	t.Parallel()
	testkit.CheckSettings(t, Config{})
	settings, err := Identity().Describe(&commands{})
	if err != nil {
		t.Fatal(err)
	}
	testkit.CheckDescribedSettings(t, Identity().Name, settings)
}

func TestJobsAreDescribed(t *testing.T) {
	t.Parallel()
	var jobs []string
	for _, j := range Identity().Jobs {
		jobs = append(jobs, j.Name)
	}
	testkit.CheckJobs(t, "bff-backoffice", jobs)
	testkit.CheckAges(t, migrations.Backoffice().FS, jobs)
}
