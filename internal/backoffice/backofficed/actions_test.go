package backofficed

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/lock"
	"melmastoon.ghasi.io/bff/internal/desk"
	"melmastoon.ghasi.io/bff/internal/local/sim"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

// Processes are killed with SIGKILL at every step of everything that operators do:
// before the claim and the audit are committed, before the attestation is used up,
// before the call, after it was carried out, before the answer is stored and before
// streams are told; and connections to Postgres and Redis are cut there. The app
// repeats its request at another instance, and is told the first outcome; the action
// was carried out once; claim, ledger, audit and event are there, once. In the end
// every event has arrived.
//
// `make proof` does so at every step of every action, `make test` at each step of some, and
// does the others undisturbed.
func TestProofActions(t *testing.T) {
	t.Parallel()
	f := newKilledFleet(t, map[string]string{"BFF_BACKOFFICE_TAKE_OVER": "1s"})
	for _, a := range actions() {
		if !testkit.LongProof() && len(a.short) == 0 {
			d := f.newTill(nil)
			begun, _ := a.begin(f, d)
			begun.check()
			f.killed++ // one session more
		}
		for _, at := range steps() {
			if !testkit.LongProof() && !slices.Contains(a.short, at.name) || at.of != nil && !at.of(a) {
				continue
			}
			t.Logf("%s, %s", a.name, at.name)
			var r ready
			op := operation{name: a.name, begin: func(f *killedFleet, d *till) started {
				begun, made := a.begin(f, d)
				r = made
				return begun
			}}
			if f.kill(op, func(d *doomed) *hang { return at.hang(d, r) }) {
				t.Errorf("%s never came to the place: %s", a.name, at.name)
			}
		}
	}
	f.arrived()
}

// onceAction is something that an operator does, once per key.
type onceAction struct {
	name   string
	second bool // needs a second factor
	told   bool // streams of the property are told with the answer
	// prepare makes ready what the action is about.
	prepare func(f *killedFleet, d *till) ready
	// recorded holds what is written to what was promised; told is the answer.
	recorded func(f *killedFleet, r ready, told []byte)
	short    []string
}

// ready is an action that can be sent.
type ready struct {
	call   desk.Call
	routes []string // how the paths of the call behind end
	// executed is how often it was carried out, by the book of the service that does.
	executed func() int
	action   string // its name in the ledger
	device   string
}

// actions lists everything that operators do.
func actions() []onceAction {
	lock := func(name string, short ...string) onceAction {
		return onceAction{
			name: name + " key", second: name == "revoke", short: short, recorded: (*killedFleet).recordedLock,
			prepare: func(f *killedFleet, d *till) ready { return f.prepareLock(d, lock.Action(name)) },
		}
	}
	mark := func(name string, prepare func(*killedFleet, *till) ready, short ...string) onceAction {
		return onceAction{name: name, told: true, prepare: prepare, recorded: (*killedFleet).recordedMark, short: short}
	}
	all := []onceAction{
		lock("issue", "before the claim"),
		lock("revoke", "after the call"),
		lock("rebind"),
		lock("extend"),
		mark("decide", (*killedFleet).prepareDecision, "before the answer"),
		mark("acknowledge", (*killedFleet).prepareAcknowledgement, "before streams are told"),
	}
	short := map[backoffice.ActionName]string{
		backoffice.CheckIn: "after the call", backoffice.WorkOrderOpen: "before the call", backoffice.Charge: "Postgres cut", backoffice.Refund: "Redis cut",
	}
	for _, of := range backoffice.Actions() {
		a := onceAction{
			name: string(of.Name), second: of.Scope != "" && !of.Large, told: true, recorded: (*killedFleet).recordedProxy,
			prepare: func(f *killedFleet, d *till) ready { return f.prepareProxied(d, &of) },
		}
		if at := short[of.Name]; at != "" {
			a.short = []string{at}
		}
		all = append(all, a)
	}
	return all
}

// step is where a process is killed or cut off.
type step struct {
	name string
	of   func(onceAction) bool // which actions have it; nil = all
	hang func(*doomed, ready) *hang
}

func steps() []step {
	second := func(a onceAction) bool { return a.second }
	told := func(a onceAction) bool { return a.told }
	return []step{
		{name: "before the claim", hang: func(d *doomed, _ ready) *hang { return d.f.lockTable("operator_activity") }},
		{name: "before the factor", of: second, hang: func(d *doomed, _ ready) *hang { return d.redis.holdAt("mfa:", 0) }},
		{name: "after the factor", of: second, hang: func(d *doomed, _ ready) *hang { return d.redis.holdAt("mfa:", 1) }},
		{name: "before the call", hang: func(d *doomed, r ready) *hang { return d.gate.hold(false, r.routes...) }},
		{name: "after the call", hang: func(d *doomed, r ready) *hang { return d.gate.hold(true, r.routes...) }},
		{name: "before the answer", hang: func(d *doomed, _ ready) *hang { return d.f.lockTable("outbox") }},
		{name: "before streams are told", of: told, hang: func(d *doomed, _ ready) *hang { return d.redis.holdAt("sse:log:", 0) }},
		{name: "Postgres cut", hang: func(d *doomed, _ ready) *hang { return d.f.cutTable("outbox") }},
		{name: "Redis cut", of: second, hang: func(d *doomed, _ ready) *hang { return d.redis.cutAt("mfa:") }},
	}
}

// begin is an action that is ready to be sent.
func (a onceAction) begin(f *killedFleet, d *till) (started, ready) {
	f.signIn(d.Client, "mirwais")
	f.announced(d, f.session(d))
	r := a.prepare(f, d)
	r.device = f.whoAmI(d.Client).DeviceID
	var first []byte
	send := func(ctx context.Context) bool {
		answer, err := d.Ask(ctx, r.call)
		if err != nil || answer.Status != http.StatusOK && answer.Status != http.StatusAccepted && answer.Status != http.StatusCreated {
			return false
		}
		first = answer.Body
		return true
	}
	return started{send: send, check: func() {
		f.t.Helper()
		testkit.Until(f.t, a.name+" is done, once the claim of the killed instance has lapsed", func() bool { return send(testkit.Context(f.t)) })
		told := first
		for range 2 {
			if !testkit.Retry(f.t, a.name, func() bool { return send(testkit.Context(f.t)) }) || string(first) != string(told) {
				f.t.Errorf("%s: told %s, then %s", a.name, told, first)
			}
		}
		if n := r.executed(); n != 1 {
			f.t.Errorf("%s: carried out %d times", a.name, n)
		}
		if n := f.counted(`SELECT count(*) FROM bff_backoffice.idempotency WHERE state <> 'done'`); n != 0 {
			f.t.Errorf("%s: %d claims are left", a.name, n)
		}
		a.recorded(f, r, told)
	}}, r
}

// counted is a number that the database has.
func (f *killedFleet) counted(sql string, args ...any) (n int) {
	f.t.Helper()
	if err := f.db.QueryRow(testkit.Context(f.t), sql, args...).Scan(&n); err != nil {
		f.t.Fatal(err)
	}
	return n
}

// recordedLock wants one audit row, settled as a success with all activities, and one
// event. Attempts that were refused before the call have rows of their own.
func (f *killedFleet) recordedLock(r ready, told []byte) {
	f.t.Helper()
	var receipt struct{ AuditID string }
	if err := json.Unmarshal(told, &receipt); err != nil {
		f.t.Fatalf("%s: %s", r.call.Path, told)
	}
	request := requestOf(r.call.IdempotencyKey)
	testkit.Until(f.t, "audit of "+r.call.Path, func() bool {
		return f.counted(`SELECT count(*) FROM bff_backoffice.lock_action_proxy_audit
			WHERE upstream_request_id = $1 AND state <> 'refused' AND settled_at IS NOT NULL`, request) > 0
	})
	if n := f.counted(`SELECT count(*) FROM bff_backoffice.lock_action_proxy_audit WHERE upstream_request_id = $1 AND state <> 'refused'`, request); n != 1 {
		f.t.Errorf("%s: %d audit rows", r.call.Path, n)
	}
	if n := f.counted(
		`SELECT count(*) FROM bff_backoffice.lock_action_proxy_audit WHERE upstream_request_id = $1 AND outcome = 'success' AND error_code IS NULL`, request,
	); n != 1 {
		f.t.Errorf("%s: the audit says something else than success", r.call.Path)
	}
	if n := f.counted(`SELECT count(*) FROM bff_backoffice.operator_activity AS a JOIN bff_backoffice.lock_action_proxy_audit AS l ON a.id = ANY (l.activity_ids)
		WHERE l.upstream_request_id = $1 AND l.state <> 'refused' AND a.outcome <> 'success'`, request); n != 0 {
		f.t.Errorf("%s: %d activities did not end well", r.call.Path, n)
	}
	if n := f.counted(
		`SELECT count(*) FROM bff_backoffice.outbox WHERE subject = 'melmastoon.bff.backoffice.lock_action.proxied.v1' AND payload->>'auditId' = $1`,
		receipt.AuditID,
	); n != 1 {
		f.t.Errorf("%s: %d events", r.call.Path, n)
	}
}

// recordedProxy wants one activity that ended well, and one event of it. Attempts that
// were cut off stay unknown: what became of them is said by the one that ended. An
// attempt that the service never got is a failure.
func (f *killedFleet) recordedProxy(r ready, _ []byte) {
	f.t.Helper()
	outcomes := f.activities(r)
	events := map[string]int{}
	for _, e := range f.pairs(`SELECT payload->>'activityId', payload->>'outcome' FROM bff_backoffice.outbox
		WHERE subject = 'melmastoon.bff.backoffice.mutation.proxied.v1' AND envelope->>'deviceId' = $1 AND payload->>'action' = $2`, r.device, r.action) {
		of := bff.MustParseID(bff.PrefixActivity, e.A).UUID()
		if events[of]++; events[of] > 1 || outcomes[of] != e.B {
			f.t.Errorf("%s: event %d of an attempt says %s, the ledger %s", r.call.Path, events[of], e.B, outcomes[of])
		}
	}
	for of, outcome := range outcomes {
		if outcome == "success" && events[of] != 1 {
			f.t.Errorf("%s: carried out, and %d events", r.call.Path, events[of])
		}
	}
}

// recordedMark wants one activity that ended well, and one event.
func (f *killedFleet) recordedMark(r ready, _ []byte) {
	f.t.Helper()
	f.activities(r)
	if n := f.counted(
		`SELECT count(*) FROM bff_backoffice.outbox WHERE subject IN ($1, $2) AND envelope->>'deviceId' = $3`, sim.TopicDecided, sim.TopicAcknowledged,
		r.device,
	); n != 1 {
		f.t.Errorf("%s: %d events", r.call.Path, n)
	}
}

// activities are the outcomes of the attempts at an action, by id. One of them is a
// success.
func (f *killedFleet) activities(r ready) map[string]string {
	f.t.Helper()
	out, ended := map[string]string{}, 0
	for _, a := range f.pairs(`SELECT id::text, outcome FROM bff_backoffice.operator_activity WHERE device_id = $1 AND action = $2`, r.device, r.action) {
		if out[a.A] = a.B; a.B == "success" {
			ended++
		}
	}
	if ended != 1 {
		f.t.Errorf("%s: the ledger says %v", r.call.Path, out)
	}
	return out
}

// pair is a row of two texts.
type pair struct{ A, B string }

func (f *killedFleet) pairs(sql string, args ...any) []pair {
	f.t.Helper()
	rows, err := f.db.Query(testkit.Context(f.t), sql, args...)
	if err != nil {
		f.t.Fatal(err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[pair])
	if err != nil {
		f.t.Fatal(err)
	}
	return all
}

// arrived starts an instance that publishes, and waits until every event is out and
// the services that act by them have heard of every decision and acknowledgement.
func (f *killedFleet) arrived() {
	f.t.Helper()
	f.Start("bff-backoffice", f.settings(map[string]string{"BFF_BACKOFFICE_NO_RELAY": "false"}))
	testkit.Until(f.t, "events", func() bool {
		return f.counted(`SELECT count(*) FROM bff_backoffice.outbox WHERE published_at IS NULL`) == 0
	})
	if n := f.counted(`SELECT count(*) FROM bff_backoffice.outbox WHERE dlq`); n > 0 {
		f.t.Errorf("%d events were given up", n)
	}
	for _, h := range f.heard {
		testkit.Until(f.t, h.path+" is "+h.status, func() bool {
			var doc struct{ Status string }
			f.upstreamGet(h.path, "X-Tenant-Id", h.tenant, &doc)
			return doc.Status == h.status
		})
	}
}

func requestOf(key string) string {
	return bff.MustParseID(bff.PrefixRequest, "req_"+key).UUID()
}
