package backofficed

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"slices"
	"testing"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/desk"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

// Processes are killed with SIGKILL at every step of every action that another
// service carries out: before the claim and the audit are committed, before the
// attestation is used up, before the call, after it was carried out, and before the
// answer is stored. The app repeats its request at another instance, and is told the
// first outcome; the action was carried out once; claim, ledger, audit and event are
// there, once.
//
// `make proof` kills at every step of every action, `make test` at a few.
func TestProofActions(t *testing.T) {
	t.Parallel()
	f := newKilledFleet(t, map[string]string{"BFF_BACKOFFICE_TAKE_OVER": "1s"})
	long := os.Getenv("MELMASTOON_PROOF") == "long"
	for _, a := range actions() {
		for _, at := range steps() {
			if !long && !slices.Contains(a.short, at.name) || at.second && !a.second {
				continue
			}
			t.Logf("%s, killed %s", a.name, at.name)
			f.kill(operation{name: a.name, begin: a.begin}, func(d *doomed) *hang { return at.hang(d, a) })
		}
	}
}

// action is something that another service carries out, once per key.
type action struct {
	name string
	// prepare makes ready what the action is about, and returns the request and
	// how often it was carried out.
	prepare func(f *killedFleet, d *till) (desk.Call, func() int)
	route   string // how the path of the call behind ends
	second  bool   // needs a second factor
	event   string
	audited bool // in the audit of locks
	short   []string
}

// actions lists every action.
func actions() []action {
	lock := func(name string, short ...string) action {
		return action{
			name: name + " key", route: "/keys/" + name, second: name == "revoke", event: "lock_action.proxied", audited: true, short: short,
			prepare: func(f *killedFleet, d *till) (desk.Call, func() int) {
				return f.prepareLock(d, backoffice.LockAction(name))
			},
		}
	}
	return []action{
		lock("issue", "before the claim", "before the answer"),
		lock("revoke", "after the call"),
		lock("rebind"),
		lock("extend", "before the call"),
	}
}

// step is where a process is killed.
type step struct {
	name   string
	second bool // only of actions with a second factor
	hang   func(*doomed, action) *hang
}

func steps() []step {
	return []step{
		{name: "before the claim", hang: func(d *doomed, _ action) *hang { return d.f.lockTable("operator_activity") }},
		{name: "before the factor", second: true, hang: func(d *doomed, _ action) *hang { return d.redis.holdAt("mfa:", 0) }},
		{name: "after the factor", second: true, hang: func(d *doomed, _ action) *hang { return d.redis.holdAt("mfa:", 1) }},
		{name: "before the call", hang: func(d *doomed, a action) *hang { return d.gate.hold(false, a.route) }},
		{name: "after the call", hang: func(d *doomed, a action) *hang { return d.gate.hold(true, a.route) }},
		{name: "before the answer", hang: func(d *doomed, _ action) *hang { return d.f.lockTable("outbox") }},
	}
}

// begin is an action that is ready to be sent.
func (a action) begin(f *killedFleet, d *till) started {
	f.signIn(d.Client, "parwana")
	f.announced(d, f.session(d))
	call, executed := a.prepare(f, d)
	var first []byte
	send := func(ctx context.Context) bool {
		answer, err := d.Ask(ctx, call)
		if err != nil || answer.Status != http.StatusOK && answer.Status != http.StatusAccepted && answer.Status != http.StatusCreated {
			return false
		}
		first = answer.Body
		return true
	}
	return started{send: send, check: func() {
		f.t.Helper()
		for !send(testkit.Context(f.t)) {
			f.retry(a.name)
		}
		told := string(first)
		for range 2 {
			if !send(testkit.Context(f.t)) || string(first) != told {
				f.t.Errorf("%s: told %s, then %s", a.name, told, first)
			}
		}
		if n := executed(); n != 1 {
			f.t.Errorf("%s: carried out %d times", a.name, n)
		}
		f.settled(a, call, told)
	}}
}

// settled waits until nothing is left open, and holds what is recorded to what was
// promised: no claim, no unknown activity, one audit row, one event.
func (f *killedFleet) settled(a action, call desk.Call, told string) {
	f.t.Helper()
	ctx := testkit.Context(f.t)
	count := func(sql string, args ...any) (n int) {
		f.t.Helper()
		if err := f.db.QueryRow(ctx, sql, args...).Scan(&n); err != nil {
			f.t.Fatal(err)
		}
		return n
	}
	var receipt struct{ AuditID string }
	if err := json.Unmarshal([]byte(told), &receipt); err != nil {
		f.t.Fatalf("%s: %s", a.name, told)
	}
	if n := count(`SELECT count(*) FROM bff_backoffice.idempotency WHERE state <> 'done'`); n != 0 {
		f.t.Errorf("%s: %d claims are left", a.name, n)
	}
	if !a.audited {
		return
	}
	request := requestOf(call.IdempotencyKey)
	for count(`SELECT count(*) FROM bff_backoffice.lock_action_proxy_audit WHERE upstream_request_id = $1 AND settled_at IS NOT NULL`, request) == 0 {
		f.retry("audit of " + a.name)
	}
	if n := count(`SELECT count(*) FROM bff_backoffice.lock_action_proxy_audit WHERE upstream_request_id = $1`, request); n != 1 {
		f.t.Errorf("%s: %d audit rows", a.name, n)
	}
	if n := count(`SELECT count(*) FROM bff_backoffice.lock_action_proxy_audit WHERE upstream_request_id = $1 AND outcome = 'success' AND error_code IS NULL`, request); n != 1 {
		f.t.Errorf("%s: the audit says something else than success", a.name)
	}
	if n := count(`SELECT count(*) FROM bff_backoffice.operator_activity AS a JOIN bff_backoffice.lock_action_proxy_audit AS l ON a.id = ANY (l.activity_ids)
		WHERE l.upstream_request_id = $1 AND a.outcome <> 'success'`, request); n != 0 {
		f.t.Errorf("%s: %d activities did not end well", a.name, n)
	}
	if n := count(`SELECT count(*) FROM bff_backoffice.outbox WHERE subject = $1 AND payload->>'auditId' = $2`, "melmastoon.bff.backoffice."+a.event+".v1", receipt.AuditID); n != 1 {
		f.t.Errorf("%s: %d events", a.name, n)
	}
}

func requestOf(key string) string {
	return bff.MustParseID(bff.PrefixRequest, "req_"+key).UUID()
}

// prepareLock finds a reservation that no other action was about, whose key stands as
// the action wants it.
func (f *killedFleet) prepareLock(d *till, action backoffice.LockAction) (desk.Call, func() int) {
	f.t.Helper()
	ctx := testkit.Context(f.t)
	w := f.whoAmI(d.Client)
	var v struct{ Items []backoffice.Stay }
	if err := f.viewed(d.Client, "/in-house?propertyId="+w.PropertyScope[0]).Into(&v); err != nil || len(v.Items) <= f.killed {
		f.t.Fatalf("%d guests, %v", len(v.Items), err)
	}
	reservation := v.Items[f.killed].ReservationID
	header := http.Header{"X-Property-Id": {w.PropertyScope[0]}}
	path := "/locks/" + reservation + "/"
	if action != backoffice.IssueKey {
		issue := desk.Call{Method: http.MethodPost, Path: path + "issue-key", Header: header, IdempotencyKey: bff.NewID(bff.PrefixRequest, time.Now()).ULID()}
		for {
			a, err := d.Ask(ctx, issue)
			if err == nil && a.Status < http.StatusBadRequest {
				break
			}
			f.retry("issue")
		}
	}
	if action == backoffice.RevokeKey {
		factor, err := d.StepUp(ctx, "lock.revoke", reservation, "000000")
		for ; err != nil; factor, err = d.StepUp(ctx, "lock.revoke", reservation, "000000") {
			f.retry("step-up")
		}
		header.Set("X-Mfa-Attestation", factor)
	}
	call := desk.Call{Method: http.MethodPost, Path: path + string(action) + "-key", Header: header, IdempotencyKey: bff.NewID(bff.PrefixRequest, time.Now()).ULID()}
	return call, func() (n int) {
		f.t.Helper()
		var doc struct {
			Requests []struct {
				RequestKey, Action string
				Executions         int
			}
		}
		f.look("/_sim/locks?"+url.Values{"reservationId": {reservation}}.Encode(), &doc)
		for _, r := range doc.Requests {
			if r.Action == string(action) {
				n += r.Executions
			}
		}
		return n
	}
}

// look reads what the simulator has seen.
func (s *staff) look(path string, into any) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(testkit.Context(s.t), http.MethodGet, s.SimURL+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	res, err := (&http.Client{Timeout: time.Minute}).Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if err := json.NewDecoder(res.Body).Decode(into); err != nil || res.StatusCode != http.StatusOK {
		s.t.Fatalf("%s: %d %v", path, res.StatusCode, err)
	}
}
