// Package drills_test runs what operators do when a server is lost, or a release is, with
// both services attached and clients that write down what they were promised.
package drills_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/desk"
	"melmastoon.ghasi.io/bff/internal/local/platform"
	"melmastoon.ghasi.io/bff/internal/local/stack"
	"melmastoon.ghasi.io/bff/internal/pause"
	"melmastoon.ghasi.io/bff/internal/postgres"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

// some is how many promises of each kind are made between two events of a drill.
const some = 100

// long reports whether drills are run: each is minutes of several servers.
func long(t *testing.T) bool {
	t.Helper()
	if !testkit.LongProof() {
		t.Log("make proof runs this drill")
	}
	return testkit.LongProof()
}

// fleet is one instance of each service, with clients.
type fleet struct {
	*testkit.World
	t                    *testing.T
	consumer, backoffice *platform.Process
	jobs                 bool // bff-backoffice runs them

	mu       sync.Mutex
	promised map[string][]string // ids by table
	broken   []string            // answers that no outage excuses
	grown    chan struct{}
}

// tables are what the promises are in, and their columns.
var tables = map[string]string{
	"bff_consumer.wishlist_anonymous": "id", "bff_consumer.handoff_replay_log": "id", "bff_backoffice.alert_ack_log": "alert_id",
}

func newFleet(t *testing.T, change func(*platform.Places)) *fleet {
	t.Helper()
	f := &fleet{t: t, promised: map[string][]string{}, grown: make(chan struct{}, 1)}
	f.World = testkit.NewWorld(t, func(p *platform.Places) {
		p.LakeURL = "file://" + t.TempDir()
		change(p)
	})
	return f
}

// start runs an instance of each service.
func (f *fleet) start() {
	f.t.Helper()
	f.consumer = f.Start("bff-consumer", map[string]string{"BFF_CONSUMER_LIMITS": "off", "BFF_CONSUMER_BOT_DEFENCE": "off"})
	settings := map[string]string{"BFF_BACKOFFICE_LIMITS": "off"}
	if !f.jobs { // what is exported between a moment and a loss, a restored database does not know
		settings["BFF_BACKOFFICE_JOBS"] = "off"
	}
	f.backoffice = f.Start("bff-backoffice", settings)
}

// stop ends the instances in order.
func (f *fleet) stop(instances ...*platform.Process) {
	f.t.Helper()
	for _, p := range instances {
		if err := p.Stop(time.Minute); err != nil {
			f.t.Error(err)
		}
	}
}

// signIn gives the fleet a computer at the front desk.
func (f *fleet) signIn() *desk.Client {
	f.t.Helper()
	d := f.open(filepath.Join(f.t.TempDir(), "desk"))
	if err := d.SignIn(testkit.Context(f.t), desk.Operator{Username: "parwana"}); err != nil {
		f.t.Fatal(err)
	}
	return d
}

// open is a computer as a file remembers it.
func (f *fleet) open(file string) *desk.Client {
	f.t.Helper()
	d, err := desk.Open(file, desk.Config{BackofficeURL: "http://" + f.backoffice.Public, IAMURL: f.SimURL + "/iam", HTTP: client})
	if err != nil {
		f.t.Fatal(err)
	}
	return d
}

// load has guests and a front desk write at the present instances until they are told to
// stop, each as long as it takes to be served.
func (f *fleet) load() (stop func()) {
	f.t.Helper()
	ctx, cancel := context.WithCancel(f.t.Context())
	var clients sync.WaitGroup
	guests, d := "http://"+f.consumer.Public+"/bff/consumer/v1", f.signIn()
	for range 3 {
		clients.Go(func() { f.visit(ctx, guests) })
	}
	clients.Go(func() { f.acknowledge(ctx, d) })
	stop = sync.OnceFunc(func() { cancel(); clients.Wait() })
	f.t.Cleanup(stop)
	return stop
}

// told notes an answer: a promise, an outage, or what should never be said.
func (f *fleet) told(ctx context.Context, table, id string, status int, body []byte) {
	f.mu.Lock()
	switch {
	case status == http.StatusOK || status == http.StatusCreated:
		f.promised[table] = append(f.promised[table], id)
	case status >= http.StatusBadRequest && status <= http.StatusInternalServerError && status != http.StatusConflict:
		f.broken = append(f.broken, fmt.Sprintf("%s: %d %s", table, status, body))
	default: // it is away
		f.mu.Unlock()
		pause.For(ctx, 20*time.Millisecond)
		return
	}
	f.mu.Unlock()
	select {
	case f.grown <- struct{}{}:
	default:
	}
}

// visit is a guest who wishes and books, in a new session every few times.
func (f *fleet) visit(ctx context.Context, base string) {
	var id, card string
	hotels := f.Sim.Catalog().Properties
	for n := 0; ctx.Err() == nil; n++ {
		hotel := hotels[n%len(hotels)]
		if n%8 == 0 {
			id, card = "", ""
		}
		table, path, member := "bff_consumer.wishlist_anonymous", "/wishlist", "wishlistId"
		body := map[string]any{"propertyId": hotel.PropertyID, "source": "list"}
		if n%2 == 1 {
			table, path, member = "bff_consumer.handoff_replay_log", "/handoff", "handoffId"
			body = map[string]any{
				"propertyId": hotel.PropertyID, "tenantId": hotel.TenantID, "dates": map[string]string{"checkIn": "2077-05-12", "checkOut": "2077-05-15"},
				"occupancy": map[string]int{"adults": 2, "children": 0, "rooms": 1},
			}
		}
		raw, _ := json.Marshal(body) // strings and numbers
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+path, bytes.NewReader(raw))
		if err != nil {
			f.t.Error(err)
			return
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Idempotency-Key", rand.Text())
		req.Header.Set("Cookie", testkit.CookieHeader(id, card))
		status, answer := 0, map[string]any{}
		if res, err := client.Do(req); err == nil {
			status = res.StatusCode
			testkit.TakeCookies(res.Header, &id, &card)
			if json.NewDecoder(res.Body).Decode(&answer) != nil {
				status = 0 // cut off: nothing was said
			}
			_ = res.Body.Close()
		}
		kept, _ := answer[member].(string)
		f.told(ctx, table, kept, status, fmt.Append(nil, answer))
	}
}

var client = &http.Client{Timeout: time.Minute}

// acknowledge is a front desk that confirms alerts, each until it is told that it is done.
func (f *fleet) acknowledge(ctx context.Context, d *desk.Client) {
	var who struct{ PropertyScope []string }
	for len(who.PropertyScope) == 0 && ctx.Err() == nil {
		if a, err := d.Do(ctx, http.MethodGet, "/session", nil); err == nil && a.Status == http.StatusOK && a.Into(&who) != nil {
			f.t.Errorf("%s", a.Body)
		}
	}
	for ctx.Err() == nil {
		var raised struct{ AlertID string }
		raw, _ := json.Marshal(map[string]string{"propertyId": who.PropertyScope[0]})
		res, err := client.Post(f.SimURL+"/_sim/alerts", "application/json", bytes.NewReader(raw)) //nolint:noctx // this process answers
		if err == nil {
			err = json.NewDecoder(res.Body).Decode(&raised)
			_ = res.Body.Close()
		}
		if err != nil || raised.AlertID == "" {
			f.t.Errorf("raise an alert: %v", err)
			return
		}
		call := desk.Call{
			Method: http.MethodPost, Path: "/alerts/" + raised.AlertID + "/acknowledge?propertyId=" + who.PropertyScope[0], Body: map[string]any{},
			IdempotencyKey: bff.NewID(bff.PrefixRequest, time.Now()).ULID(),
		}
		for done := false; !done && ctx.Err() == nil; {
			if a, err := d.Ask(ctx, call); err == nil {
				done = a.Status == http.StatusOK
				f.told(ctx, "bff_backoffice.alert_ack_log", raised.AlertID, a.Status, a.Body)
			}
		}
	}
}

// await waits until each kind of promise was made some more times.
func (f *fleet) await() {
	f.t.Helper()
	ctx, want := testkit.Context(f.t), map[string]int{}
	for table, ids := range f.soFar() {
		want[table] = len(ids) + some
	}
	for {
		f.unbroken()
		now, enough := f.soFar(), true
		for table := range tables {
			enough = enough && len(now[table]) >= max(want[table], some)
		}
		if enough {
			return
		}
		select {
		case <-f.grown:
		case <-ctx.Done():
			f.t.Fatalf("clients are not served: %d of %d", len(now), some)
		}
	}
}

func (f *fleet) soFar() map[string][]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := map[string][]string{}
	for table, ids := range f.promised {
		out[table] = slices.Clip(ids)
	}
	return out
}

// missing counts the promises that a database does not hold.
func (f *fleet) missing(url string, promised map[string][]string) (missing, all int) {
	f.t.Helper()
	for table, ids := range promised {
		n, err := strconv.Atoi(tell(f.t, url, `SELECT count(*)::text FROM unnest($1::text[]) AS p
			WHERE NOT EXISTS (SELECT FROM `+table+" WHERE "+tables[table]+" = p)", ids))
		if err != nil {
			f.t.Fatal(err)
		}
		missing, all = missing+n, all+len(ids)
	}
	return missing, all
}

// settle has every event published, the audit sealed and exported, and all of it whole.
func (f *fleet) settle(url string) {
	f.t.Helper()
	for _, schema := range []string{"bff_consumer", "bff_backoffice"} {
		testkit.Until(f.t, "the events of "+schema+" are published", func() bool {
			return tell(f.t, url, "SELECT count(*)::text FROM "+schema+".outbox WHERE published_at IS NULL") == "0"
		})
	}
	f.Run("bff-backoffice", "jobs", "all")
	if got := f.Run("bff-backoffice", "audit", "verify", "--export", f.LakeURL); !strings.HasSuffix(got, "nothing was changed, removed, inserted or reordered\n") {
		f.t.Errorf("audit verify:\n%s", got)
	}
	f.unbroken()
}

func (f *fleet) unbroken() {
	f.t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.broken) > 0 {
		f.t.Fatalf("%d answers that no outage excuses, the first: %s", len(f.broken), f.broken[0])
	}
}

// script runs one of this directory.
func script(t *testing.T, env []string, name string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(testkit.Context(t), "./"+name, args...) //nolint:gosec // of this directory
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
	t.Logf("%s: %s", name, bytes.TrimSpace(out))
}

// parts are a URL without its password, the password, and the host.
func parts(t *testing.T, from string) (bare, password, host string) {
	t.Helper()
	u, err := url.Parse(from)
	if err != nil {
		t.Fatal(err)
	}
	password, _ = u.User.Password()
	u.User = url.User(u.User.Username())
	return u.String(), password, u.Host
}

func newPostgres(t *testing.T, cfg stack.PostgresConfig) *stack.Postgres {
	t.Helper()
	cfg.Durable = true
	p, err := stack.StartPostgres(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// tell runs a statement as the superuser and returns its one value.
func tell(t *testing.T, url, sql string, args ...any) (value string) {
	t.Helper()
	db, err := postgres.Open(t.Context(), testkit.Patient(url))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.QueryRow(testkit.Context(t), sql, args...).Scan(&value); err != nil && !strings.Contains(err.Error(), "no rows") {
		t.Fatalf("%s: %v", sql, err)
	}
	return value
}

// The primary of Postgres is lost and a standby promoted while clients write. With a
// synchronous standby nothing that was promised is lost; what an asynchronous one has
// lost is counted. No process is restarted.
func TestProofPostgresIsPromoted(t *testing.T) {
	t.Parallel()
	if !long(t) {
		return
	}
	for _, names := range []string{"*", ""} {
		t.Run("synchronous_standby_names="+names, func(t *testing.T) {
			t.Parallel()
			primary := newPostgres(t, stack.PostgresConfig{})
			standby := newPostgres(t, stack.PostgresConfig{Copy: primary.Standby()})
			tell(t, primary.URL(), "ALTER SYSTEM SET synchronous_standby_names = '"+names+"'")
			tell(t, primary.URL(), "SELECT pg_reload_conf()::text")
			to, password, host := parts(t, standby.URL())
			from, _, _ := parts(t, primary.URL())
			f := newFleet(t, func(p *platform.Places) {
				p.PostgresURL = strings.Replace(primary.URL(), "/melmastoon", ","+host+"/melmastoon", 1) + "&target_session_attrs=read-write"
			})
			f.start()
			stop := f.load()
			f.await()
			if err := primary.Kill(); err != nil {
				t.Fatal(err)
			}
			script(t, []string{"PGPASSWORD=" + password}, "promote-postgres", to, from)
			f.await()
			stop()
			lost, all := f.missing(standby.URL(), f.soFar())
			if names != "" && lost > 0 {
				t.Errorf("%d of %d promises are lost", lost, all)
			}
			f.settle(standby.URL())
			t.Logf("%d promises, %d lost", all, lost)
		})
	}
}

// A database that a mistake has emptied is restored from a base backup and the archived
// log to a moment before it. What was promised before that moment is there, and the
// services go on.
func TestProofPostgresIsRestored(t *testing.T) {
	t.Parallel()
	if !long(t) {
		return
	}
	lost := newPostgres(t, stack.PostgresConfig{Settings: []string{"archive_mode=on", "archive_command=cp %p ../archive/%f"}})
	archive, err1 := lost.Directory("archive")
	base, err2 := lost.Directory("base")
	text, err3 := os.ReadFile("restore-postgres")
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	f := newFleet(t, func(p *platform.Places) { p.PostgresURL = lost.URL() })
	f.start()
	stop := f.load()
	f.await()
	if err := lost.Run(testkit.Context(t), "pg_basebackup", "--pgdata="+base, "--checkpoint=fast", "--dbname="+lost.SocketURL()); err != nil {
		t.Fatal(err)
	}
	f.await()
	f.Run("bff-backoffice", "jobs", "all")
	before := f.soFar()
	moment := tell(t, lost.URL(), "SELECT now()::text")
	f.await()
	stop()
	f.stop(f.consumer, f.backoffice)
	tell(t, lost.URL(), "DROP SCHEMA bff_consumer, bff_backoffice CASCADE")
	if err := lost.Stop(testkit.Context(t)); err != nil {
		t.Fatal(err)
	}

	restored := newPostgres(t, stack.PostgresConfig{Copy: &stack.PostgresCopy{Of: lost, Command: func(into string) []string {
		return []string{"bash", "-c", string(text), "restore-postgres", base, archive, moment, into}
	}}})
	testkit.Until(t, "it is restored", func() bool { return tell(t, restored.URL(), "SELECT pg_is_in_recovery()::text") == "false" })
	if missing, all := f.missing(restored.URL(), before); missing > 0 {
		t.Errorf("%d of %d promises from before the moment are lost", missing, all)
	}
	missing, all := f.missing(restored.URL(), f.soFar())
	f.PostgresURL = restored.URL()
	f.start()
	stop = f.load()
	f.await()
	stop()
	f.settle(restored.URL())
	t.Logf("%d promises before the mistake, %d of them after the moment and gone", all, missing)
}

// The master of Redis is lost, and later put back into its place, while clients write.
// Staff stay signed in, a token that was signed out stays refused, and no process is
// restarted.
func TestProofRedisFailsOver(t *testing.T) {
	t.Parallel()
	if !long(t) {
		return
	}
	servers, err := stack.StartRedisSentinels(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := servers.Close(); err != nil {
			t.Error(err)
		}
	})
	f := newFleet(t, func(p *platform.Places) { p.RedisURL = servers.URL() })
	f.start()
	d := f.signIn()
	session := func() (who struct{ SessionID string }) {
		t.Helper()
		testkit.Until(t, "the desk is served", func() bool {
			a, err := d.Do(testkit.Context(t), http.MethodGet, "/session", nil)
			if err == nil && a.Status < http.StatusInternalServerError && a.Status != http.StatusOK {
				t.Fatalf("%d %s", a.Status, a.Body)
			}
			return err == nil && a.Status == http.StatusOK && a.Into(&who) == nil
		})
		return who
	}
	before := session()
	file := filepath.Join(t.TempDir(), "desk")
	leaver := f.open(file)
	if err := leaver.SignIn(testkit.Context(t), desk.Operator{Username: "mirwais"}); err != nil {
		t.Fatal(err)
	}
	kept, err := os.ReadFile(file)
	if err == nil {
		err = errors.Join(leaver.SignOut(testkit.Context(t)), os.WriteFile(file, kept, 0o600)) // a thief has its tokens
	}
	if err != nil {
		t.Fatal(err)
	}
	stop := f.load()
	f.await()
	if err := servers.Servers[0].Kill(); err != nil {
		t.Fatal(err)
	}
	f.await()
	if now := session(); now != before {
		t.Errorf("the session was %v and is %v", before, now)
	}
	if err := servers.Servers[0].Start(testkit.Context(t)); err != nil {
		t.Fatal(err)
	}
	_, password, address := parts(t, servers.Sentinels[0].URL())
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	script(t, []string{"REDISCLI_AUTH=" + password}, "failover-redis", host, port, "melmastoon")
	f.await()
	if now := session(); now != before {
		t.Errorf("the session was %v and is %v", before, now)
	}
	if a, err := f.open(file).Do(testkit.Context(t), http.MethodGet, "/session", nil); err == nil && a.Status != http.StatusUnauthorized {
		t.Errorf("a token after sign-out: %d %s", a.Status, a.Body)
	}
	stop()
	missing, all := f.missing(f.PostgresURL, f.soFar())
	if missing > 0 {
		t.Errorf("%d of %d promises are lost", missing, all)
	}
	f.settle(f.PostgresURL)
	t.Logf("%d promises", all)
}

// The release before and this one serve side by side on one database while clients
// write: forwards, as in an upgrade, and back, as in a rollback, on a schema that is ahead
// of both. `make proof` builds the release before (tools/before).
func TestProofReleaseBefore(t *testing.T) {
	t.Parallel()
	if !long(t) {
		return
	}
	before := os.Getenv("MELMASTOON_TEST_PROGRAMS_BEFORE")
	if before == "" {
		t.Fatal("MELMASTOON_TEST_PROGRAMS_BEFORE is to name the programs of the release before: see tools/before")
	}
	f := newFleet(t, func(p *platform.Places) { p.PostgresURL = testkit.Postgres(t) })
	f.Programs = before
	f.start()
	older, stop := []*platform.Process{f.consumer, f.backoffice}, f.load()
	f.await()
	f.Programs = ""
	versions := func() string {
		const newest = `(SELECT max(version_id)::text FROM %s.schema_migrations)`
		return tell(t, f.PostgresURL, "SELECT "+fmt.Sprintf(newest, "bff_consumer")+" || ' and ' || "+fmt.Sprintf(newest, "bff_backoffice"))
	}
	had := versions()
	f.Run("bff-consumer", "migrate")
	f.Run("bff-backoffice", "migrate")
	t.Logf("migrations up to %s, and then to %s", had, versions())
	for _, schema := range []string{"bff_consumer", "bff_backoffice"} {
		tell(t, f.PostgresURL, "ALTER TABLE "+schema+".outbox ADD COLUMN drilled text")
		tell(t, f.PostgresURL, "INSERT INTO "+schema+".schema_migrations (version_id, is_applied) VALUES (9000, true)")
	}
	f.await() // the release before, on the schema of this one
	f.start()
	newer, stopNewer := []*platform.Process{f.consumer, f.backoffice}, f.load()
	f.await() // both
	stop()
	f.stop(older...)
	f.await() // upgraded
	f.Programs = before
	f.start()
	stop = f.load()
	f.await()
	stopNewer()
	f.stop(newer...)
	f.await() // rolled back
	stop()
	if missing, all := f.missing(f.PostgresURL, f.soFar()); missing > 0 {
		t.Errorf("%d of %d promises are lost", missing, all)
	}
	f.settle(f.PostgresURL)
	f.Programs = ""
	f.settle(f.PostgresURL)
}
