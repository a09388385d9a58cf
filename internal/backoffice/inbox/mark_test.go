package inbox_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficetest"
	"melmastoon.ghasi.io/bff/internal/backoffice/inbox"
)

// inboxes play the mirror of a property's inbox and the service behind it.
type inboxes struct {
	mirror []inbox.Entry
	behind map[string]inbox.Entry
	away   error
	asked  []string
}

func (b *inboxes) ListInbox(_ context.Context, of inbox.Inbox, t, p bff.ID) (inbox.Mirror, error) {
	b.asked = append(b.asked, "mirror "+string(of)+" "+t.String()+" "+p.String())
	return inbox.Mirror{Entries: b.mirror}, b.away
}

func (b *inboxes) FindEntry(_ context.Context, of inbox.Inbox, t, p bff.ID, id string) (inbox.Entry, error) {
	b.asked = append(b.asked, "service "+string(of)+" "+t.String()+" "+p.String())
	if e, ok := b.behind[id]; ok {
		return e, nil
	}
	return inbox.Entry{}, bff.Errorf(bff.CodeResourceNotFound, "there is no such entry")
}

// eventsOf are those that are published with a mark.
func eventsOf(e backoffice.Effect) []bff.Event {
	switch e := e.(type) {
	case inbox.Decision:
		return e.Events
	case inbox.Acknowledgement:
		return e.Events
	}
	return nil
}

func (b *inboxes) actions(l *ledger, digested *int) *inbox.Actions {
	l.EventsOf = eventsOf
	return inbox.NewActions(inbox.ActionsConfig{
		Mirrors: b, Finder: b, Mutations: l, Notices: l, News: backoffice.NewEnvelopes("test"),
		Now: func() time.Time { return finishedAt }, Digested: func() { *digested++ },
	})
}

// A decision is recorded about what the orchestrator says, by a role that may, while it is
// open; and only what was kept is told.
func TestDecide(t *testing.T) {
	t.Parallel()
	const body = `{"proposal":{"percent":4},"aiProvenance":{"model":"m"},"expiresAt":"2026-11-17T10:00:01Z"`
	entry := func(id, category, status string) inbox.Entry {
		return inbox.Entry{ID: id, Category: category, Severity: "info", Status: status, At: began, Property: property, Body: []byte(body)}
	}
	raw := entry("sug_raw", "upsell", "open")
	raw.Body = []byte(`{"aiProvenance":"m"`)
	for name, tc := range map[string]struct {
		ruling  inbox.DecisionRequest
		role    backoffice.Role
		ledger  ledger
		away    error
		want    bff.Code
		begun   bool // and finished
		behind  bool // the service was asked
		digests int
		class   string // category of the decision
	}{
		"accepted": {ruling: inbox.DecisionRequest{SuggestionID: "sug_1", Outcome: inbox.Accepted, Notes: strings.Repeat("n", 201)}, class: "upsell", begun: true},
		"modified": {ruling: inbox.DecisionRequest{SuggestionID: "sug_1", Outcome: inbox.Modified, Delta: []byte(`{"percent":5}`)}, class: "upsell", begun: true},
		"newer":    {ruling: inbox.DecisionRequest{SuggestionID: "sug_new", Outcome: inbox.Rejected}, class: "upsell", begun: true, behind: true},
		"manager":  {ruling: inbox.DecisionRequest{SuggestionID: "sug_2", Outcome: inbox.Accepted}, role: backoffice.Owner, class: "pricing", begun: true},
		"digested": {ruling: inbox.DecisionRequest{SuggestionID: "sug_raw", Outcome: inbox.Accepted}, class: "upsell", begun: true, digests: 1},
		"role":     {ruling: inbox.DecisionRequest{SuggestionID: "sug_2", Outcome: inbox.Accepted}, want: bff.CodeRoleDenied, begun: true},
		"decided":  {ruling: inbox.DecisionRequest{SuggestionID: "sug_3", Outcome: inbox.Accepted}, want: bff.CodeSuggestionAlreadyDecided, begun: true},
		"expired":  {ruling: inbox.DecisionRequest{SuggestionID: "sug_4", Outcome: inbox.Accepted}, want: bff.CodeStateConflict, begun: true},
		"a name": {
			ruling: inbox.DecisionRequest{SuggestionID: "sug_1", Outcome: inbox.Modified, Delta: []byte(`{"guest":"x"}`)}, want: bff.CodeValidationFailed,
			begun: true,
		},
		"none": {ruling: inbox.DecisionRequest{SuggestionID: "sug_9", Outcome: inbox.Accepted}, want: bff.CodeResourceNotFound, begun: true, behind: true},
		"away": {
			ruling: inbox.DecisionRequest{SuggestionID: "sug_1"}, away: bff.Errorf(bff.CodeUpstreamUnavailable, "x"), want: bff.CodeUpstreamUnavailable,
			begun: true,
		},
		"again": {ruling: inbox.DecisionRequest{SuggestionID: "sug_1"}, ledger: ledger{Earlier: &backoffice.Answer{Status: 200, Replayed: true}}},
		"refused": {
			ruling: inbox.DecisionRequest{SuggestionID: "sug_1"}, ledger: ledger{Refused: bff.Errorf(bff.CodeServiceUnavailable, "x")},
			want: bff.CodeServiceUnavailable,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := &inboxes{
				mirror: []inbox.Entry{
					entry("sug_0", "pricing", "expired"), entry("sug_1", "upsell", "open"), entry("sug_2", "pricing", "open"), entry("sug_3", "upsell", "rejected"),
					entry("sug_4", "upsell", "expired"), raw,
				},
				behind: map[string]inbox.Entry{"sug_new": entry("sug_new", "upsell", "open")}, away: tc.away,
			}
			v, l, digests := visitor(backoffice.FrontDesk, tc.role), &tc.ledger, 0
			answer, err := b.actions(l, &digests).Decide(t.Context(), v, tc.ruling, backoffice.Once{Key: "key"}, began)
			if backofficetest.CodeOf(err) != tc.want || digests != tc.digests {
				t.Fatalf("%v, %d digests; want %q, %d", err, digests, tc.want, tc.digests)
			}
			if !tc.begun {
				if len(l.Finished)+len(l.Notices)+len(b.asked) > 0 || err == nil && !answer.Replayed {
					t.Errorf("%+v, finished %v, told %v, asked %v", answer, l.Finished, l.Notices, b.asked)
				}
				return
			}
			asked := []string{"mirror ai " + tenant.String() + " " + property.String()}
			if tc.behind {
				asked = append(asked, "service ai "+tenant.String()+" "+property.String())
			}
			if diff := cmp.Diff(asked, b.asked); diff != "" {
				t.Errorf("asked (-want +got):\n%s", diff)
			}
			on := backoffice.Resource{Kind: "suggestion", ID: tc.ruling.SuggestionID}
			if tc.want != "" {
				l.Check(t, v, "ai", "decide", on, tc.want, nil)
				if len(l.Notices) > 0 {
					t.Errorf("told %v", l.Notices)
				}
				return
			}
			d := backofficetest.Effect[inbox.Decision](l)
			if d.ID.Prefix() != bff.PrefixDecision {
				t.Fatalf("kept %+v", d)
			}
			want := inbox.Decision{
				ID: d.ID, Tenant: tenant, Property: property, SuggestionID: tc.ruling.SuggestionID, InboxID: inbox.Suggestions.EntryID(tenant, tc.ruling.SuggestionID),
				Category: tc.class, Severity: "info", Outcome: tc.ruling.Outcome, Delta: tc.ruling.Delta, Notes: inbox.CutNotes(tc.ruling.Notes), At: finishedAt,
				Operator: "opt_1", Device: device, Provenance: []byte(`{"model":"m"}`), Events: d.Events,
			}
			if tc.digests > 0 {
				want.Provenance = d.Provenance // held by its own test
			}
			if diff := cmp.Diff(want, d, sameIDs); diff != "" {
				t.Errorf("kept (-want +got):\n%s", diff)
			}
			l.Check(t, v, "ai", "decide", on, "", inbox.SuggestionDecided{
				DecisionID: d.ID, SuggestionID: d.SuggestionID, InboxEntryID: d.InboxID, Category: d.Category, Severity: d.Severity, Outcome: d.Outcome,
				ModifiedDelta: d.Delta, DecidedAt: bff.At(finishedAt),
			})
			backofficetest.CheckReceipt(t, answer, `{"decidedAt":"2026-11-17T10:00:01.000Z","decisionId":"`+d.ID.String()+`","outcome":"`+string(d.Outcome)+`"}`)
			backofficetest.CheckNotice(t, l, backoffice.Notice{
				Channel: backoffice.ChannelAI, Type: "suggestion.decided", Tenant: tenant, Property: property, CausedBy: v.Request.RequestID.ULID(), At: finishedAt,
				Data: []byte(`{"category":"` + tc.class + `","outcome":"` + string(d.Outcome) + `","suggestionId":"` + d.SuggestionID + `"}`),
			})
		})
	}
	// What could not be kept is told to no stream, and counted nowhere.
	b, l, digests := &inboxes{mirror: []inbox.Entry{raw}}, &ledger{Kept: inbox.ErrAlreadyDecided()}, 0
	_, err := b.actions(l, &digests).Decide(t.Context(), visitor(), inbox.DecisionRequest{
		SuggestionID: raw.ID, Outcome: inbox.Accepted,
	}, backoffice.Once{Key: "key"}, began)
	if bff.CodeOf(err) != bff.CodeSuggestionAlreadyDecided || len(l.Notices) > 0 || digests > 0 {
		t.Errorf("%v, told %v, %d digests", err, l.Notices, digests)
	}
}

// An acknowledgement says of the alert what notification-service says, whatever its state.
func TestAcknowledge(t *testing.T) {
	t.Parallel()
	raised := began.Add(-time.Hour)
	alert := inbox.Entry{ID: "alr_1", Category: "fire", Severity: "critical", Status: "resolved", At: raised, Property: property, Body: []byte(`{`)}
	odd := inbox.Entry{ID: "alr_2", Category: "a guest's name", At: raised, Property: property, Body: []byte(`{`)}
	for name, tc := range map[string]struct {
		alert              string
		ledger             ledger
		want               bff.Code
		begun              bool
		category, severity string
	}{
		"mirrored": {alert: "alr_1", begun: true, category: "fire", severity: "critical"},
		"newer":    {alert: "alr_2", begun: true, category: "unspecified", severity: "unspecified"},
		"none":     {alert: "alr_3", begun: true, want: bff.CodeResourceNotFound},
		"again":    {alert: "alr_1", ledger: ledger{Earlier: &backoffice.Answer{Status: 200, Replayed: true}}},
		"refused":  {alert: "alr_1", ledger: ledger{Refused: bff.Errorf(bff.CodeServiceUnavailable, "x")}, want: bff.CodeServiceUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := &inboxes{mirror: []inbox.Entry{alert}, behind: map[string]inbox.Entry{"alr_2": odd}}
			v, l, digests := visitor(), &tc.ledger, 0
			answer, err := b.actions(l, &digests).Acknowledge(t.Context(), v, tc.alert, strings.Repeat("ü", 201), backoffice.Once{Key: "key"}, began)
			if backofficetest.CodeOf(err) != tc.want {
				t.Fatalf("%v, want %q", err, tc.want)
			}
			if !tc.begun {
				if len(l.Finished)+len(l.Notices) > 0 || err == nil && !answer.Replayed {
					t.Errorf("%+v, finished %v, told %v", answer, l.Finished, l.Notices)
				}
				return
			}
			on := backoffice.Resource{Kind: "alert", ID: tc.alert}
			if tc.want != "" {
				l.Check(t, v, "alert", "acknowledge", on, tc.want, nil)
				if len(l.Notices) > 0 {
					t.Errorf("told %v", l.Notices)
				}
				return
			}
			got := backofficetest.Effect[inbox.Acknowledgement](l)
			want := inbox.Acknowledgement{
				Tenant: tenant, Property: property, AlertID: tc.alert, InboxID: inbox.Alerts.EntryID(tenant, tc.alert), Category: tc.category, Severity: tc.severity,
				RaisedAt: raised, At: finishedAt, Operator: "opt_1", Device: device, Notes: strings.Repeat("ü", 200), Events: got.Events,
			}
			if diff := cmp.Diff(want, got, sameIDs); diff != "" {
				t.Fatalf("kept (-want +got):\n%s", diff)
			}
			l.Check(t, v, "alert", "acknowledge", on, "", inbox.AlertAcknowledged{
				AlertID: tc.alert, InboxEntryID: want.InboxID, Category: tc.category, Severity: tc.severity, RaisedAt: bff.At(raised), AcknowledgedAt: bff.At(finishedAt),
			})
			backofficetest.CheckReceipt(t, answer, `{"acknowledgedAt":"2026-11-17T10:00:01.000Z","alertId":"`+tc.alert+`","inboxEntryId":"`+want.InboxID.String()+`"}`)
			backofficetest.CheckNotice(t, l, backoffice.Notice{
				Channel: backoffice.ChannelAlerts, Type: "alert.acknowledged", Tenant: tenant, Property: property, CausedBy: v.Request.RequestID.ULID(), At: finishedAt,
				Data: []byte(`{"alertId":"` + tc.alert + `","category":"` + tc.category + `","severity":"` + tc.severity + `"}`),
			})
		})
	}
	b, l, digests := &inboxes{mirror: []inbox.Entry{alert}}, &ledger{Kept: errors.New("away")}, 0
	if _, err := b.actions(l, &digests).Acknowledge(t.Context(), visitor(), "alr_1", "", backoffice.Once{Key: "key"}, began); err == nil || len(l.Notices) > 0 {
		t.Errorf("%v, told %v", err, l.Notices)
	}
}
