package backofficed

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/rueidis"

	"melmastoon.ghasi.io/bff/internal/desk"
	"melmastoon.ghasi.io/bff/internal/local/platform"
	"melmastoon.ghasi.io/bff/internal/postgres"
	"melmastoon.ghasi.io/bff/internal/redis"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

// Processes are killed with SIGKILL in the middle of a refresh, an operator switch
// and a sign-out: between two commands to the session tier, while iam answers, and
// while Postgres commits. The app goes on at another instance, and finds one session
// per device, every token refused that should be, and the events of both.
//
// `make proof` kills at every command, `make test` at a few.
func TestProofKilledInTheMiddle(t *testing.T) {
	t.Parallel()
	f := newKilledFleet(t, nil)
	for _, op := range []operation{
		{name: "refresh", begin: beginRefresh, at: []string{"iam after"}},
		{name: "switch", begin: beginSwitch, commands: []int{14}, at: []string{"postgres"}},
		{name: "sign out", begin: beginSignOut, commands: []int{12}, at: []string{"postgres"}},
	} {
		if testkit.LongProof() {
			op.at = []string{"iam before", "iam after", "postgres"}
		}
		for _, where := range op.at {
			t.Logf("%s, killed at %s", op.name, where)
			f.kill(op, func(d *doomed) *hang { return d.hangAt(where) })
		}
		pass := func(n int) bool {
			t.Logf("%s, killed after %d commands", op.name, n)
			return f.kill(op, func(d *doomed) *hang { return d.redis.hold(n) })
		}
		if !testkit.LongProof() {
			for _, n := range op.commands {
				pass(n)
			}
			continue
		}
		for n := 0; !pass(n); n++ {
			if n > 60 {
				t.Fatal("never done")
			}
		}
	}
}

// operation is something that a process is killed in.
type operation struct {
	name     string
	begin    func(*killedFleet, *till) started
	commands []int    // to the session tier that pass in the short run, before the process hangs
	at       []string // where else it hangs
}

// started is an operation that is ready to be sent. Send reports whether it was
// answered as it should be, and may be called again; check looks at what is left.
type started struct {
	send  func(context.Context) bool
	check func()
}

// beginRefresh: whatever happens to it, the device keeps its session, and iam sees no
// stolen token in the second attempt.
func beginRefresh(f *killedFleet, d *till) started {
	f.signIn(d.Client, "parwana")
	before := f.session(d)
	send := func(ctx context.Context) bool { return d.Refresh(ctx) == nil }
	return started{send: send, check: func() {
		f.t.Helper()
		testkit.Until(f.t, "a refresh after the kill", func() bool { return send(testkit.Context(f.t)) })
		if got := f.session(d); got != before {
			f.t.Errorf("session %s before the refresh, %s after it", before, got)
		}
		f.announced(d, before)
		f.closed(before, 0)
	}}
}

// beginSwitch: the operator before is refused, and the next one has the one session.
func beginSwitch(f *killedFleet, d *till) started {
	f.signIn(d.Client, "parwana")
	before := f.session(d)
	next := f.newTill(d.Device())
	next.at.Store(d.at.Load())
	f.signIn(next.Client, "mirwais")
	return started{
		send: func(ctx context.Context) bool {
			next.at.Store(d.at.Load())
			a, err := next.Do(ctx, http.MethodGet, "/session", nil)
			return err == nil && a.Status == http.StatusOK
		},
		check: func() {
			f.t.Helper()
			next.at.Store(f.survivor)
			after := f.session(next)
			if got := f.code(d); got != "SESSION_REVOKED" {
				f.t.Errorf("the operator before: %s", got)
			}
			if got := f.session(next); got != after || got == before {
				f.t.Errorf("sessions %s, %s, %s", before, after, got)
			}
			f.announced(next, after)
			f.closed(before, 1)
			f.closed(after, 0)
		},
	}
}

// beginSignOut: the token is refused afterwards, and a new sign-in has a new session.
func beginSignOut(f *killedFleet, d *till) started {
	f.signIn(d.Client, "parwana")
	before := f.session(d)
	f.announced(d, before)
	send := func(ctx context.Context) bool { // until the app is told that it is out
		a, err := d.Do(ctx, http.MethodPost, "/auth/sign-out", nil)
		return err == nil && (a.Status == http.StatusNoContent || strings.Contains(string(a.Body), "SESSION_REVOKED"))
	}
	return started{
		send: send,
		check: func() {
			f.t.Helper()
			testkit.Until(f.t, "a sign-out after the kill", func() bool { return send(testkit.Context(f.t)) })
			if got := f.code(d); got != "SESSION_REVOKED" {
				f.t.Errorf("after signing out: %s", got)
			}
			f.closed(before, 1)
			f.signIn(d.Client, "parwana")
			after := f.session(d)
			if after == before {
				f.t.Errorf("session %s came back", before)
			}
			f.announced(d, after)
		},
	}
}

// killedFleet is a service of which one instance lives on while others are killed.
type killedFleet struct {
	*staff
	survivor *platform.Process
	redis    rueidis.Client
	db       *pgxpool.Pool // a superuser's
	killed   int           // devices that a process was killed for; each has one session
	env      map[string]string
	used     map[string]bool // reservations that an action was about
	heard    []heard         // what services must have heard of in the end
}

// publicHost is the one address of all instances.
const publicHost = "staff.test"

func newKilledFleet(t *testing.T, env map[string]string) *killedFleet {
	t.Helper()
	f := &killedFleet{staff: &staff{t: t, World: testkit.NewWorld(t, nil)}, env: env, used: map[string]bool{}}
	var err error
	if f.redis, err = redis.Open(redis.Config{URL: f.RedisURL, Timeout: time.Minute}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.redis.Close)
	if f.db, err = postgres.Open(t.Context(), testkit.Patient(f.PostgresURL)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.db.Close)
	f.survivor = f.Start("bff-backoffice", f.settings(nil))
	return f
}

func (f *killedFleet) settings(more map[string]string) map[string]string {
	out := map[string]string{ // nothing but requests writes into the outbox
		"BFF_BACKOFFICE_PUBLIC_URLS": "http://" + publicHost, "BFF_BACKOFFICE_LIMITS": "off", "BFF_BACKOFFICE_NO_RELAY": "true", "BFF_BACKOFFICE_JOBS": "off",
	}
	maps.Copy(out, f.env)
	maps.Copy(out, more)
	return out
}

// till is a computer whose requests reach one instance of several.
type till struct {
	*desk.Client
	at atomic.Pointer[platform.Process]
}

func (f *killedFleet) newTill(device *desk.Device) *till {
	f.t.Helper()
	d := new(till)
	d.at.Store(f.survivor)
	var err error
	if d.Client, err = desk.New(desk.Config{
		BackofficeURL: "http://" + publicHost, IAMURL: f.SimURL + "/iam", Device: device, HTTP: &http.Client{Transport: d},
	}); err != nil {
		f.t.Fatal(err)
	}
	return d
}

// direct has no connections that a killed process could leave behind.
var direct = &http.Transport{DisableKeepAlives: true}

// RoundTrip sends what is meant for the service to the instance.
func (d *till) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Host == publicHost {
		r = r.Clone(r.Context())
		r.URL.Host = d.at.Load().Public
	}
	return direct.RoundTrip(r)
}

// kill sends an operation to an instance, kills it where it hangs, or cuts it off from
// what it hangs at and kills it when it has answered, and has the operation checked at
// the instance that lives on. It reports whether the operation
// was done before it came to the place.
func (f *killedFleet) kill(op operation, where func(*doomed) *hang) (done bool) {
	f.t.Helper()
	ctx := testkit.Context(f.t)
	d := f.newTill(nil)
	begun := op.begin(f, d)
	victim := f.startDoomed()
	defer victim.close()
	d.at.Store(victim.Process)
	h := where(victim)
	answered := make(chan bool, 1)
	go func() {
		sent := begun.send(ctx)
		for !sent && ctx.Err() == nil {
			select {
			case <-h.reached:
				answered <- false
				return
			case <-time.After(100 * time.Millisecond): // a busy machine may refuse it before it comes to the place
				if !testkit.Forgive(f.t, "an operation, before it was held") {
					answered <- false
					return
				}
				sent = begun.send(ctx)
			}
		}
		answered <- sent
	}()
	held := true
	select {
	case <-h.reached:
	case done = <-answered:
		held = false
		select {
		case <-h.reached: // it has not waited there for long
			done = false
		default:
		}
	case <-ctx.Done():
		f.t.Fatal("neither held nor answered")
	}
	if held && h.cut != nil {
		h.cut()
		<-answered
		held = false
	}
	d.at.Store(f.survivor)
	victim.Kill()
	h.release()
	if held {
		<-answered // a failure, or the app's own second attempt elsewhere
	}
	f.killed++
	begun.check()
	if got := f.lasting(); got != f.killed {
		f.t.Errorf("%d devices have %d sessions", f.killed, got)
	}
	return done
}

// code is what the instance says to a request for the session: OK or an error's code.
func (f *killedFleet) code(d *till) string {
	f.t.Helper()
	a := f.ask(d)
	r := new(desk.Refusal)
	if errors.As(a.Err(), &r) {
		return r.Code[strings.LastIndex(r.Code, ".")+1:]
	}
	return "OK"
}

// session is the id of the session that a request has.
func (f *killedFleet) session(d *till) string {
	f.t.Helper()
	a := f.ask(d)
	if a.Status != http.StatusOK {
		f.t.Fatalf("%d %s", a.Status, a.Body)
	}
	var doc struct{ SessionID string }
	if err := a.Into(&doc); err != nil || doc.SessionID == "" {
		f.t.Fatalf("no session: %s", a.Body)
	}
	return doc.SessionID
}

// ask asks for the session, again where the machine was too busy to answer in time.
func (f *killedFleet) ask(d *till) *desk.Answer {
	f.t.Helper()
	var a *desk.Answer
	testkit.Retry(f.t, "session", func() (answered bool) {
		var err error
		if a, err = d.Do(testkit.Context(f.t), http.MethodGet, "/session", nil); err != nil {
			f.t.Fatal(err)
		}
		return a.Status < http.StatusServiceUnavailable
	})
	return a
}

// announced waits until the opening of a session is in the outbox: what a killed
// process could not write, a later request of the session does.
func (f *killedFleet) announced(d *till, session string) {
	f.t.Helper()
	testkit.Until(f.t, "opening of "+session, func() bool {
		if f.count("session.opened", session) > 0 {
			return true
		}
		f.session(d)
		return false
	})
}

// closed looks for events of a session's end: none, or at least one.
func (f *killedFleet) closed(session string, want int) {
	f.t.Helper()
	if got := f.count("session.closed", session); min(got, 1) != want {
		f.t.Errorf("%d events session.closed of %s, want %d", got, session, want)
	}
}

func (f *killedFleet) count(kind, session string) (n int) {
	f.t.Helper()
	if err := f.db.QueryRow(testkit.Context(f.t), `SELECT count(*) FROM bff_backoffice.outbox WHERE subject = $1 AND payload->>'sessionId' = $2`,
		"melmastoon.bff.backoffice."+kind+".v1", session).Scan(&n); err != nil {
		f.t.Fatal(err)
	}
	return n
}

// lasting counts the sessions that live on: what was written and not yet entered into
// the index is gone in a minute.
func (f *killedFleet) lasting() (n int) {
	f.t.Helper()
	ctx, c := testkit.Context(f.t), f.redis
	keys, err := c.Do(ctx, c.B().Keys().Pattern(f.Name+":bff-backoffice:*session:bos_*").Build()).AsStrSlice()
	if err != nil {
		f.t.Fatal(err)
	}
	for _, k := range keys {
		left, err := c.Do(ctx, c.B().Ttl().Key(k).Build()).AsInt64()
		if err != nil {
			f.t.Fatal(err)
		}
		if left > 60 {
			n++
		}
	}
	return n
}

// doomed is an instance that is going to be killed, with what it hangs at.
type doomed struct {
	*platform.Process
	f     *killedFleet
	redis *valve
	gate  *gate // to its upstreams
}

func (f *killedFleet) startDoomed() *doomed {
	f.t.Helper()
	d := &doomed{f: f, redis: newValve(f), gate: newGate(f)}
	env := map[string]string{"BFF_BACKOFFICE_REDIS_SESSION_URL": d.redis.url}
	for _, name := range []string{"iam", "lock", "reservation", "housekeeping", "maintenance", "billing", "notification"} {
		env["BFF_BACKOFFICE_"+strings.ToUpper(name)+"_URL"] = d.gate.server.URL + "/" + name
	}
	env["BFF_BACKOFFICE_AI_URL"] = d.gate.server.URL + "/ai-orchestrator"
	d.Process = f.Start("bff-backoffice", f.settings(env))
	return d
}

func (d *doomed) close() {
	d.Kill()
	d.redis.close()
	d.gate.close()
}
