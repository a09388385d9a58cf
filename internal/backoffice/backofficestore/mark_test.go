package backofficestore_test

import (
	"encoding/json"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/inbox"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

func decision(a backoffice.Activity, outcome inbox.DecisionOutcome) inbox.Decision {
	d := inbox.Decision{
		ID: id(bff.PrefixDecision), Tenant: a.Tenant, Property: a.Property, SuggestionID: "sug_1", InboxID: id(bff.PrefixAIInbox),
		Category: "pricing", Severity: "info", Outcome: outcome, Notes: "ü", At: a.At, Operator: a.Operator, Device: a.Device,
		Provenance: json.RawMessage(`{"model":"ops-advisor"}`), Events: []bff.Event{told(a.Tenant, a.At)},
	}
	if outcome == inbox.Modified {
		d.Delta = json.RawMessage(`{"ratePercent":4}`)
	}
	return d
}

// decide is an operator's whole attempt.
func (d *desk) decide(t *testing.T, a backoffice.Activity, key string, x inbox.Decision) (backoffice.Answer, error) {
	t.Helper()
	m, earlier, err := d.BeginMutation(testkit.Context(t), backoffice.Attempt{Activity: a, Once: pressed(key, 1)})
	if err != nil {
		return backoffice.Answer{}, err
	}
	if earlier != nil {
		return *earlier, nil
	}
	defer m.Release()
	return m.Finish(testkit.Context(t), backoffice.Finished{
		At: a.At.Add(time.Millisecond), Effects: []backoffice.Effect{x},
		Answer: backoffice.Answer{Status: http.StatusOK, Receipt: backoffice.NewReceipt(map[string]any{"decisionId": x.ID, "outcome": string(x.Outcome)})},
	})
}

// Of many operators over many instances one decides: one row, one event, and an
// outcome in the ledger of every attempt.
func TestOneDecision(t *testing.T) {
	t.Parallel()
	d := openDesk(t)
	tenant, now := id(bff.PrefixTenant), time.Now()
	const operators = 8
	errs := make([]error, operators)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			a := checkIn(tenant, now)
			_, errs[i] = d.decide(t, a, id(bff.PrefixRequest).ULID(), decision(a, inbox.DecisionOutcomes()[i%3]))
		})
	}
	wg.Wait()
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
		} else if bff.CodeOf(err) != bff.CodeSuggestionAlreadyDecided {
			t.Error(err)
		}
	}
	if won != 1 {
		t.Errorf("%d have decided", won)
	}
	for query, want := range map[string][]string{
		`SELECT count(*)::text FROM bff_backoffice.ai_decision_log`:                                                {"1"},
		`SELECT count(*)::text FROM bff_backoffice.outbox`:                                                         {"1"},
		`SELECT count(*)::text FROM bff_backoffice.idempotency WHERE state = 'done'`:                               {"8"},
		`SELECT outcome || ' ' || count(*) FROM bff_backoffice.operator_activity GROUP BY outcome ORDER BY 1`:      {"failure 7", "success 1"},
		`SELECT ((outcome = 'modified') = (modified_delta IS NOT NULL))::text FROM bff_backoffice.ai_decision_log`: {"true"},
	} {
		if diff := cmp.Diff(want, d.rows(t, query)); diff != "" {
			t.Errorf("%s: %s", query, diff)
		}
	}
	// The same suggestion of another tenant is another one.
	a := checkIn(id(bff.PrefixTenant), now)
	x := decision(a, inbox.Modified)
	if _, err := d.decide(t, a, key, x); err != nil {
		t.Error(err)
	}
	again, err := d.decide(t, checkIn(a.Tenant, now), key, decision(a, inbox.Modified))
	if err != nil || !again.Replayed || body(t, again) != `{"decisionId":"`+x.ID.String()+`","outcome":"modified"}` {
		t.Errorf("%s, %v", body(t, again), err)
	}
	if _, err := d.decide(t, checkIn(tenant, now), key, decision(a, inbox.Accepted)); err == nil || bff.CodeOf(err) == bff.CodeSuggestionAlreadyDecided {
		t.Errorf("another tenant's decision: %v", err)
	}
}

// An operator's second acknowledgement is told as the first, and no event follows.
func TestOneAcknowledgement(t *testing.T) {
	t.Parallel()
	d := openDesk(t)
	tenant, now := id(bff.PrefixTenant), time.Now().Truncate(time.Millisecond)
	acknowledge := func(operator string, at time.Time) string {
		t.Helper()
		a := checkIn(tenant, at)
		a.Operator = operator
		m, _, err := d.BeginMutation(testkit.Context(t), backoffice.Attempt{Activity: a, Once: pressed(id(bff.PrefixRequest).ULID(), 0)})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Release()
		x := inbox.Acknowledgement{
			Tenant: tenant, Property: a.Property, AlertID: "alr_1", Category: "power", Severity: "warning", RaisedAt: now, At: at, Operator: operator, Device: a.Device,
			Events: []bff.Event{told(tenant, at)},
		}
		answer, err := m.Finish(testkit.Context(t), backoffice.Finished{At: at, Effects: []backoffice.Effect{x}, Answer: x.Answer()})
		if err != nil {
			t.Fatal(err)
		}
		return body(t, answer)
	}
	first, second, third := acknowledge("opt_1", now), acknowledge("opt_1", now.Add(time.Minute)), acknowledge("opt_2", now.Add(time.Minute))
	if first != second || first == third {
		t.Errorf("%s, then %s, and of another %s", first, second, third)
	}
	for query, want := range map[string][]string{
		`SELECT acknowledged_by FROM bff_backoffice.alert_ack_log ORDER BY 1`:                                 {"opt_1", "opt_2"},
		`SELECT count(*)::text FROM bff_backoffice.outbox`:                                                    {"2"},
		`SELECT outcome || ' ' || count(*) FROM bff_backoffice.operator_activity GROUP BY outcome ORDER BY 1`: {"success 3"},
	} {
		if diff := cmp.Diff(want, d.rows(t, query)); diff != "" {
			t.Errorf("%s: %s", query, diff)
		}
	}
}
