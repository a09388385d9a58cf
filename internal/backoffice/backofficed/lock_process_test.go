package backofficed

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficestore"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficeupstream"
	"melmastoon.ghasi.io/bff/internal/backoffice/board"
	"melmastoon.ghasi.io/bff/internal/backoffice/lock"
	"melmastoon.ghasi.io/bff/internal/desk"
	"melmastoon.ghasi.io/bff/internal/postgres"
	"melmastoon.ghasi.io/bff/internal/testkit"
	"melmastoon.ghasi.io/bff/migrations"
)

// noticed keeps notices.
type noticed struct {
	mu   sync.Mutex
	said []string
}

func (n *noticed) Notify(_ context.Context, notice backoffice.Notice) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.said = append(n.said, string(notice.Channel)+" "+notice.Type)
	return nil
}

// lockHouse is a front desk with lock-integration, and the database behind it.
type lockHouse struct {
	*staff
	d       *desk.Client
	who     who
	db      *pgxpool.Pool // a superuser's
	guests  []string      // reservations that no action was about
	notices *noticed
	job     *reconciler
}

func newLockHouse(t *testing.T) *lockHouse {
	t.Helper()
	h := &lockHouse{staff: &staff{t: t, World: testkit.NewWorld(t, nil)}, notices: &noticed{}}
	p := h.Start("bff-backoffice", map[string]string{"BFF_BACKOFFICE_LIMITS": "off", "BFF_BACKOFFICE_NO_RELAY": "true", "BFF_BACKOFFICE_TAKE_OVER": "1s"})
	h.d = h.newDesk(p, nil)
	h.signIn(h.d, "parwana")
	h.who = h.whoAmI(h.d)
	var v struct{ Items []board.Stay }
	if err := h.viewed(h.d, "/in-house?propertyId="+h.who.PropertyScope[0]).Into(&v); err != nil || len(v.Items) < 8 {
		t.Fatalf("%d guests, %v", len(v.Items), err)
	}
	for _, g := range v.Items {
		h.guests = append(h.guests, g.ReservationID)
	}
	var err error
	if h.db, err = postgres.Open(t.Context(), testkit.Patient(h.PostgresURL)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.db.Close)
	urls := map[backoffice.Upstream]string{}
	for _, u := range backoffice.Upstreams() {
		urls[u] = h.SimURL + "/" + string(u)
	}
	upstreams, err := backofficeupstream.New(backofficeupstream.Config{URLs: urls})
	if err != nil {
		t.Fatal(err)
	}
	h.job = newReconciler(backofficestore.OutboxTable(), reconcilerParts{
		backoffice.NewEnvelopes("test"), h.notices, upstreams.Lock, slog.New(slog.DiscardHandler),
	}, "test")
	return h
}

// fault has lock-integration misbehave.
func (h *lockHouse) fault(body string) {
	h.t.Helper()
	h.sim(http.MethodDelete, "/_sim/faults", "", nil)
	if body != "" {
		h.sim(http.MethodPost, "/_sim/faults", `{"upstream":"lock","route":"POST /api/v1/reservations/{reservationId}/keys/{action}",`+body+`}`, nil)
	}
}

// issue is the request for a key of a guest that had none.
func (h *lockHouse) issue() desk.Call {
	guest := h.guests[0]
	h.guests = h.guests[1:]
	return desk.Call{
		Method: http.MethodPost, Path: "/locks/" + guest + "/issue-key", Header: http.Header{"X-Property-Id": {h.who.PropertyScope[0]}},
		IdempotencyKey: bff.NewID(bff.PrefixRequest, time.Now()).ULID(),
	}
}

func (c lockCall) reservation() string { return strings.Split(c.Path, "/")[2] }

type lockCall desk.Call

// ask sends a request until it is told the wanted, state or code; a busy machine may
// be told first that it is unknown or runs.
func (h *lockHouse) ask(c desk.Call, want string) desk.Answer {
	h.t.Helper()
	var a *desk.Answer
	testkit.Retry(h.t, c.Path+": "+want, func() bool {
		var err error
		if a, err = h.d.Ask(testkit.Context(h.t), c); err != nil {
			h.t.Fatal(err)
		}
		var doc struct {
			State string
			Error struct{ Code string }
		}
		if err := a.Into(&doc); err != nil {
			h.t.Fatalf("%d %s", a.Status, a.Body)
		}
		got := doc.State
		if i := strings.LastIndex(doc.Error.Code, "."); i >= 0 {
			got = doc.Error.Code[i+1:]
		}
		if got != want && a.Status < http.StatusConflict {
			h.t.Fatalf("%d %s, want %s", a.Status, a.Body, want)
		}
		return got == want
	})
	return *a
}

// audit is what the audit says of a request: state, outcome, code.
func (h *lockHouse) audit(c desk.Call) string {
	h.t.Helper()
	var got string
	err := h.db.QueryRow(testkit.Context(h.t), `SELECT coalesce(string_agg(concat_ws(' ', state, outcome, regexp_replace(error_code, '^.*\.', '')), '; '), 'none')
		FROM bff_backoffice.lock_action_proxy_audit WHERE upstream_request_id = $1 AND state <> 'refused'`, requestOf(c.IdempotencyKey)).Scan(&got)
	if err != nil {
		h.t.Fatal(err)
	}
	return got
}

// becomes waits until the audit says it.
func (h *lockHouse) becomes(c desk.Call, want string) {
	h.t.Helper()
	testkit.Until(h.t, "the audit says "+want, func() bool { return h.audit(c) == want })
}

// once wants one event of a request, activities that ended as told, and as many
// executions.
func (h *lockHouse) once(c desk.Call, outcome string, executions int) {
	h.t.Helper()
	ctx := testkit.Context(h.t)
	var events, others int
	err := h.db.QueryRow(ctx, `SELECT (SELECT count(*) FROM bff_backoffice.outbox AS o JOIN bff_backoffice.lock_action_proxy_audit AS l ON true
			WHERE o.subject LIKE '%lock_action.proxied.v1' AND o.payload->>'reservationId' = l.reservation_id AND o.payload->>'outcome' = $2 AND l.upstream_request_id = $1),
		(SELECT count(*) FROM bff_backoffice.operator_activity AS a JOIN bff_backoffice.lock_action_proxy_audit AS l ON a.id = ANY (l.activity_ids)
			WHERE l.upstream_request_id = $1 AND a.outcome <> $2)`, requestOf(c.IdempotencyKey), outcome).Scan(&events, &others)
	if err != nil || events != 1 || others != 0 {
		h.t.Errorf("%d events, %d activities that ended otherwise, %v", events, others, err)
	}
	var doc struct{ Requests []struct{ Executions int } }
	h.look("/_sim/locks?reservationId="+lockCall(c).reservation(), &doc)
	n := 0
	for _, r := range doc.Requests {
		n += r.Executions
	}
	if n != executions {
		h.t.Errorf("carried out %d times, want %d", n, executions)
	}
}

// reconcile runs the job as if some time had passed.
func (h *lockHouse) reconcile(after time.Duration) {
	h.t.Helper()
	if _, err := h.job.run(testkit.Context(h.t), h.as(migrations.BackofficeJobs), time.Now().Add(after)); err != nil {
		h.t.Fatal(err)
	}
}

// Lock-integration answers late, malformed, with an error or not at all, before or
// after it has acted: the code is the promised one, the audit says what is known, and
// whatever finds out later settles it once.
func TestLockActionsAreHonest(t *testing.T) {
	t.Parallel()
	h := newLockHouse(t)
	const unknown, issued = "unknown failure LOCK_OUTCOME_UNKNOWN", "issued success"

	// Not at all: nothing was done, and the repeated request does it.
	h.fault(`"hang":true`)
	hung := h.issue()
	h.ask(hung, "LOCK_OUTCOME_UNKNOWN")
	if got := h.audit(hung); got != unknown {
		t.Errorf("audit: %s", got)
	}
	h.fault("")
	h.ask(hung, "issued")
	h.becomes(hung, issued)
	h.once(hung, "success", 1)

	// Done, and the answer is malformed or an error: the vendor's event, the job or
	// the repeated request says so.
	for _, fault := range []string{`"garbage":true,"done":true`, `"status":500,"done":true`} {
		h.fault(fault)
		garbled := h.issue()
		h.ask(garbled, "LOCK_OUTCOME_UNKNOWN")
		h.fault("")
		h.reconcile(20 * time.Second)
		h.becomes(garbled, issued)
		h.ask(garbled, "issued")
		h.once(garbled, "success", 1)
	}

	// Never received: a failure after five minutes, and not done when it is repeated.
	h.fault(`"status":503`)
	lost := h.issue()
	h.ask(lost, "LOCK_OUTCOME_UNKNOWN")
	h.fault("")
	h.reconcile(time.Minute)
	if got := h.audit(lost); got != unknown {
		t.Errorf("audit: %s", got)
	}
	h.reconcile(lock.LockLost + time.Minute)
	h.becomes(lost, "failed failure not_received")
	if a := h.ask(lost, "failed"); !strings.Contains(string(a.Body), "not_received") {
		t.Errorf("%s", a.Body)
	}
	h.once(lost, "failure", 0)
	if diff := cmp.Diff("locks lock_action.settled", last(h.notices)); diff != "" {
		t.Error(diff)
	}

	// Pending, then done; pending, then failed: the vendor's event settles it, and the
	// operator's stream says how it ended.
	stream := h.listen(h.d)
	for _, tc := range []struct{ body, want, outcome, told string }{
		{``, issued, "success", `"state":"issued"`}, {`{"state":"failed","reason":"tamper"}`, "failed failure tamper", "failure", `"reason":"tamper"`},
	} {
		pending := h.issue()
		h.sim(http.MethodPost, "/_sim/reservations/"+lockCall(pending).reservation()+"/lock-outcome", `{"state":"pending"}`, nil)
		if a := h.ask(pending, "pending"); a.Status != http.StatusAccepted {
			t.Errorf("%d %s", a.Status, a.Body)
		}
		if got := h.audit(pending); got != "pending failure LOCK_OUTCOME_UNKNOWN" {
			t.Errorf("audit: %s", got)
		}
		h.sim(http.MethodPost, "/_sim/locks/"+requestOf(pending.IdempotencyKey)+"/settle", tc.body, nil)
		h.becomes(pending, tc.want)
		h.await(stream, "locks", `"`+lock.LockActionSettled+`"`, lockCall(pending).reservation(), tc.told)
		h.once(pending, tc.outcome, 1)
		h.ask(pending, "pending") // as it was told first
	}

	// The vendor says no, at once.
	refused := h.issue()
	h.sim(http.MethodPost, "/_sim/reservations/"+lockCall(refused).reservation()+"/lock-outcome", `{"state":"failed","reason":"battery_low"}`, nil)
	h.ask(refused, "failed")
	h.becomes(refused, "failed failure battery_low")
	h.once(refused, "failure", 1)

	// At another property there is no such reservation.
	if len(h.who.PropertyScope) > 1 {
		elsewhere := h.issue()
		elsewhere.Header.Set("X-Property-Id", h.who.PropertyScope[1])
		h.ask(elsewhere, "RESOURCE_NOT_FOUND")
	}
	var guest string
	err := h.db.QueryRow(testkit.Context(t), `SELECT coalesce(string_agg(l::text, ' '), '') FROM bff_backoffice.lock_action_proxy_audit AS l`).Scan(&guest)
	if err != nil || strings.Contains(guest, "guest") {
		t.Errorf("%v: %s", err, guest)
	}
}

func last(n *noticed) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.said[len(n.said)-1]
}
