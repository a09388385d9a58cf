package backoffice_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
)

// ledger plays the ledger of mutations, and the streams that are told of them.
type ledger struct {
	earlier *backoffice.Answer // the key was used before
	refused error              // nothing can be begun
	kept    error              // why the end of an attempt is not kept
	ends    time.Time          // when attempts end; zero = at finishedAt

	began    []backoffice.Attempt
	finished []backoffice.Finished
	released int
	notices  []backoffice.Notice
}

func (l *ledger) BeginMutation(_ context.Context, a backoffice.Attempt) (backoffice.Mutation, *backoffice.Answer, error) {
	l.began = append(l.began, a)
	return l, l.earlier, l.refused
}

func (l *ledger) Finish(_ context.Context, f backoffice.Finished) (backoffice.Answer, error) {
	l.finished = append(l.finished, f)
	if l.kept != nil {
		return backoffice.Answer{}, l.kept
	}
	return f.Answer, f.Failure
}

func (l *ledger) Release() { l.released++ }

func (l *ledger) Notify(_ context.Context, n backoffice.Notice) error {
	l.notices = append(l.notices, n)
	return errors.New("streams that are not told do not matter")
}

// check holds an attempt to its one begin, its one end, and the one event of a success.
func (l *ledger) check(t *testing.T, v *backoffice.Visit, category, action string, on backoffice.Resource, failed bff.Code, payload any) {
	t.Helper()
	if len(l.began) != 1 || len(l.finished) != 1 || l.released != 1 {
		t.Fatalf("began %d, finished %d, released %d", len(l.began), len(l.finished), l.released)
	}
	a, end, at := l.began[0].Activity, l.finished[0], finishedAt
	if !l.ends.IsZero() {
		at = l.ends
	}
	if a.Category != category || a.Action != action || a.Resource != on || a.Property != v.Property || a.Tenant != v.Session.Tenant ||
		a.Operator != v.Session.Operator || a.Session != v.Session.ID || !a.At.Equal(began) || l.began[0].Once.Key != "key" {
		t.Errorf("began %+v", l.began[0])
	}
	if code := codeOf(end.Failure); code != failed || !end.At.Equal(at) {
		t.Errorf("ended at %s with %q, want %q", end.At, code, failed)
	}
	events := end.Events
	for _, e := range end.Effects {
		switch e := e.(type) {
		case backoffice.Decision:
			events = append(events, e.Events...)
		case backoffice.Acknowledgement:
			events = append(events, e.Events...)
		}
		if e.OfTenant() != tenant {
			t.Errorf("an effect of %s", e.OfTenant())
		}
	}
	if failed != "" {
		if len(events)+len(end.Effects) > 0 {
			t.Errorf("%v and %v of a failure", events, end.Effects)
		}
		return
	}
	if len(events) != 1 || len(end.Effects) != 1 {
		t.Fatalf("%d events, %d effects", len(events), len(end.Effects))
	}
	checkEnvelope(t, events[0], v)
	want, err := json.Marshal(payload)
	if err != nil {
		t.Fatal(err)
	}
	if in := events[0].Envelope; !in.OccurredAt.Equal(at) || in.RequestID == nil || *in.RequestID != v.Request.RequestID.String() {
		t.Errorf("envelope %+v", in)
	}
	if diff := cmp.Diff(string(want), string(events[0].Payload)); diff != "" {
		t.Errorf("payload (-want +got):\n%s", diff)
	}
}

// effect is what an attempt was finished with; the zero value if there was none.
func effect[E backoffice.Effect](l *ledger) (e E) {
	if len(l.finished) == 1 && len(l.finished[0].Effects) == 1 {
		e, _ = l.finished[0].Effects[0].(E)
	}
	return e
}

func codeOf(err error) bff.Code {
	if err == nil {
		return ""
	}
	return bff.CodeOf(err)
}

// finishedAt is what the clock shows when an attempt ends.
var (
	finishedAt = began.Add(time.Second)
	property   = bff.MustParseID(bff.PrefixProperty, "ppt_01JXG9KMGRC638MD0V7C0ZPD0W")
	sameIDs    = cmp.Comparer(func(a, b bff.ID) bool { return a == b })
)

func visitor(roles ...backoffice.Role) *backoffice.Visit {
	return &backoffice.Visit{
		Caller: backoffice.Caller{Tenant: tenant, Operator: "opt_1", Device: device, KeyPrint: "print", App: backoffice.App{Version: "2.4", Platform: "linux"}},
		Session: backoffice.Session{
			ID: bff.NewID(bff.PrefixBackofficeLogin, began), Tenant: tenant, Operator: "opt_1", Device: device, AppVersion: "2.4", AppPlatform: "linux",
		},
		Member: &backoffice.Member{Roles: roles}, Property: property, Request: backoffice.Occasion{RequestID: bff.NewID(bff.PrefixRequest, began)},
	}
}

// inboxes play the mirror of a property's inbox and the service behind it.
type inboxes struct {
	mirror []backoffice.InboxEntry
	behind map[string]backoffice.InboxEntry
	away   error
	asked  []string
}

func (b *inboxes) ListInbox(_ context.Context, of backoffice.Inbox, t, p bff.ID) (backoffice.Mirror, error) {
	b.asked = append(b.asked, "mirror "+string(of)+" "+t.String()+" "+p.String())
	return backoffice.Mirror{Entries: b.mirror}, b.away
}

func (b *inboxes) FindEntry(_ context.Context, of backoffice.Inbox, t, p bff.ID, id string) (backoffice.InboxEntry, error) {
	b.asked = append(b.asked, "service "+string(of)+" "+t.String()+" "+p.String())
	if e, ok := b.behind[id]; ok {
		return e, nil
	}
	return backoffice.InboxEntry{}, bff.Errorf(bff.CodeResourceNotFound, "there is no such entry")
}

func (b *inboxes) clerk(l *ledger, digested *int) *backoffice.Clerk {
	return backoffice.NewClerk(backoffice.ClerkConfig{
		Mirrors: b, Finder: b, Mutations: l, Notices: l, News: backoffice.NewNewsroom("test"),
		Now: func() time.Time { return finishedAt }, Digested: func() { *digested++ },
	})
}

// A decision is recorded about what the orchestrator says, by a role that may, while it is
// open; and only what was kept is told.
func TestDecide(t *testing.T) {
	t.Parallel()
	const body = `{"proposal":{"percent":4},"aiProvenance":{"model":"m"},"expiresAt":"2026-11-17T10:00:01Z"`
	entry := func(id, category, status string) backoffice.InboxEntry {
		return backoffice.InboxEntry{ID: id, Category: category, Severity: "info", Status: status, At: began, Property: property, Body: []byte(body)}
	}
	raw := entry("sug_raw", "upsell", "open")
	raw.Body = []byte(`{"aiProvenance":"m"`)
	for name, tc := range map[string]struct {
		ruling  backoffice.Ruling
		role    backoffice.Role
		ledger  ledger
		away    error
		want    bff.Code
		begun   bool // and finished
		behind  bool // the service was asked
		digests int
		class   string // category of the decision
	}{
		"accepted": {ruling: backoffice.Ruling{SuggestionID: "sug_1", Outcome: backoffice.Accepted, Notes: strings.Repeat("n", 201)}, class: "upsell", begun: true},
		"modified": {ruling: backoffice.Ruling{SuggestionID: "sug_1", Outcome: backoffice.Modified, Delta: []byte(`{"percent":5}`)}, class: "upsell", begun: true},
		"newer":    {ruling: backoffice.Ruling{SuggestionID: "sug_new", Outcome: backoffice.Rejected}, class: "upsell", begun: true, behind: true},
		"manager":  {ruling: backoffice.Ruling{SuggestionID: "sug_2", Outcome: backoffice.Accepted}, role: backoffice.Owner, class: "pricing", begun: true},
		"digested": {ruling: backoffice.Ruling{SuggestionID: "sug_raw", Outcome: backoffice.Accepted}, class: "upsell", begun: true, digests: 1},
		"role":     {ruling: backoffice.Ruling{SuggestionID: "sug_2", Outcome: backoffice.Accepted}, want: bff.CodeRoleDenied, begun: true},
		"decided":  {ruling: backoffice.Ruling{SuggestionID: "sug_3", Outcome: backoffice.Accepted}, want: bff.CodeSuggestionAlreadyDecided, begun: true},
		"expired":  {ruling: backoffice.Ruling{SuggestionID: "sug_4", Outcome: backoffice.Accepted}, want: bff.CodeStateConflict, begun: true},
		"a name":   {ruling: backoffice.Ruling{SuggestionID: "sug_1", Outcome: backoffice.Modified, Delta: []byte(`{"guest":"x"}`)}, want: bff.CodeValidationFailed, begun: true},
		"none":     {ruling: backoffice.Ruling{SuggestionID: "sug_9", Outcome: backoffice.Accepted}, want: bff.CodeResourceNotFound, begun: true, behind: true},
		"away":     {ruling: backoffice.Ruling{SuggestionID: "sug_1"}, away: bff.Errorf(bff.CodeUpstreamUnavailable, "x"), want: bff.CodeUpstreamUnavailable, begun: true},
		"again":    {ruling: backoffice.Ruling{SuggestionID: "sug_1"}, ledger: ledger{earlier: &backoffice.Answer{Status: 200, Replayed: true}}},
		"refused":  {ruling: backoffice.Ruling{SuggestionID: "sug_1"}, ledger: ledger{refused: bff.Errorf(bff.CodeServiceUnavailable, "x")}, want: bff.CodeServiceUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := &inboxes{
				mirror: []backoffice.InboxEntry{entry("sug_0", "pricing", "expired"), entry("sug_1", "upsell", "open"), entry("sug_2", "pricing", "open"), entry("sug_3", "upsell", "rejected"), entry("sug_4", "upsell", "expired"), raw},
				behind: map[string]backoffice.InboxEntry{"sug_new": entry("sug_new", "upsell", "open")}, away: tc.away,
			}
			v, l, digests := visitor(backoffice.FrontDesk, tc.role), &tc.ledger, 0
			answer, err := b.clerk(l, &digests).Decide(t.Context(), v, tc.ruling, backoffice.Once{Key: "key"}, began)
			if codeOf(err) != tc.want || digests != tc.digests {
				t.Fatalf("%v, %d digests; want %q, %d", err, digests, tc.want, tc.digests)
			}
			if !tc.begun {
				if len(l.finished)+len(l.notices)+len(b.asked) > 0 || err == nil && !answer.Replayed {
					t.Errorf("%+v, finished %v, told %v, asked %v", answer, l.finished, l.notices, b.asked)
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
				l.check(t, v, "ai", "decide", on, tc.want, nil)
				if len(l.notices) > 0 {
					t.Errorf("told %v", l.notices)
				}
				return
			}
			d := effect[backoffice.Decision](l)
			if d.ID.Prefix() != bff.PrefixDecision {
				t.Fatalf("kept %+v", d)
			}
			want := backoffice.Decision{
				ID: d.ID, Tenant: tenant, Property: property, SuggestionID: tc.ruling.SuggestionID, InboxID: backoffice.Suggestions.EntryID(tenant, tc.ruling.SuggestionID),
				Category: tc.class, Severity: "info", Outcome: tc.ruling.Outcome, Delta: tc.ruling.Delta, Notes: backoffice.CutNotes(tc.ruling.Notes), At: finishedAt,
				Operator: "opt_1", Device: device, Provenance: []byte(`{"model":"m"}`), Events: d.Events,
			}
			if tc.digests > 0 {
				want.Provenance = d.Provenance // held by its own test
			}
			if diff := cmp.Diff(want, d, sameIDs); diff != "" {
				t.Errorf("kept (-want +got):\n%s", diff)
			}
			l.check(t, v, "ai", "decide", on, "", backoffice.SuggestionDecided{
				DecisionID: d.ID, SuggestionID: d.SuggestionID, InboxEntryID: d.InboxID, Category: d.Category, Severity: d.Severity, Outcome: d.Outcome,
				ModifiedDelta: d.Delta, DecidedAt: bff.At(finishedAt),
			})
			checkReceipt(t, answer, `{"decidedAt":"2026-11-17T10:00:01.000Z","decisionId":"`+d.ID.String()+`","outcome":"`+string(d.Outcome)+`"}`)
			checkNotice(t, l, backoffice.Notice{
				Channel: backoffice.ChannelAI, Type: "suggestion.decided", Tenant: tenant, Property: property, CausedBy: v.Request.RequestID.ULID(), At: finishedAt,
				Data: []byte(`{"category":"` + tc.class + `","outcome":"` + string(d.Outcome) + `","suggestionId":"` + d.SuggestionID + `"}`),
			})
		})
	}
	// What could not be kept is told to no stream, and counted nowhere.
	b, l, digests := &inboxes{mirror: []backoffice.InboxEntry{raw}}, &ledger{kept: backoffice.ErrAlreadyDecided()}, 0
	_, err := b.clerk(l, &digests).Decide(t.Context(), visitor(), backoffice.Ruling{SuggestionID: raw.ID, Outcome: backoffice.Accepted}, backoffice.Once{Key: "key"}, began)
	if bff.CodeOf(err) != bff.CodeSuggestionAlreadyDecided || len(l.notices) > 0 || digests > 0 {
		t.Errorf("%v, told %v, %d digests", err, l.notices, digests)
	}
}

func checkReceipt(t *testing.T, a backoffice.Answer, want string) {
	t.Helper()
	got, err := json.Marshal(a.Receipt)
	if err != nil || string(got) != want || a.Status != 200 {
		t.Errorf("%d %s, %v; want %s", a.Status, got, err, want)
	}
}

func checkNotice(t *testing.T, l *ledger, want backoffice.Notice) {
	t.Helper()
	if diff := cmp.Diff([]backoffice.Notice{want}, l.notices, sameIDs); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}

// An acknowledgement says of the alert what notification-service says, whatever its state.
func TestAcknowledge(t *testing.T) {
	t.Parallel()
	raised := began.Add(-time.Hour)
	alert := backoffice.InboxEntry{ID: "alr_1", Category: "fire", Severity: "critical", Status: "resolved", At: raised, Property: property, Body: []byte(`{`)}
	odd := backoffice.InboxEntry{ID: "alr_2", Category: "a guest's name", At: raised, Property: property, Body: []byte(`{`)}
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
		"again":    {alert: "alr_1", ledger: ledger{earlier: &backoffice.Answer{Status: 200, Replayed: true}}},
		"refused":  {alert: "alr_1", ledger: ledger{refused: bff.Errorf(bff.CodeServiceUnavailable, "x")}, want: bff.CodeServiceUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := &inboxes{mirror: []backoffice.InboxEntry{alert}, behind: map[string]backoffice.InboxEntry{"alr_2": odd}}
			v, l, digests := visitor(), &tc.ledger, 0
			answer, err := b.clerk(l, &digests).Acknowledge(t.Context(), v, tc.alert, strings.Repeat("ü", 201), backoffice.Once{Key: "key"}, began)
			if codeOf(err) != tc.want {
				t.Fatalf("%v, want %q", err, tc.want)
			}
			if !tc.begun {
				if len(l.finished)+len(l.notices) > 0 || err == nil && !answer.Replayed {
					t.Errorf("%+v, finished %v, told %v", answer, l.finished, l.notices)
				}
				return
			}
			on := backoffice.Resource{Kind: "alert", ID: tc.alert}
			if tc.want != "" {
				l.check(t, v, "alert", "acknowledge", on, tc.want, nil)
				if len(l.notices) > 0 {
					t.Errorf("told %v", l.notices)
				}
				return
			}
			got := effect[backoffice.Acknowledgement](l)
			want := backoffice.Acknowledgement{
				Tenant: tenant, Property: property, AlertID: tc.alert, InboxID: backoffice.Alerts.EntryID(tenant, tc.alert), Category: tc.category, Severity: tc.severity,
				RaisedAt: raised, At: finishedAt, Operator: "opt_1", Device: device, Notes: strings.Repeat("ü", 200), Events: got.Events,
			}
			if diff := cmp.Diff(want, got, sameIDs); diff != "" {
				t.Fatalf("kept (-want +got):\n%s", diff)
			}
			l.check(t, v, "alert", "acknowledge", on, "", backoffice.AlertAcknowledged{
				AlertID: tc.alert, InboxEntryID: want.InboxID, Category: tc.category, Severity: tc.severity, RaisedAt: bff.At(raised), AcknowledgedAt: bff.At(finishedAt),
			})
			checkReceipt(t, answer, `{"acknowledgedAt":"2026-11-17T10:00:01.000Z","alertId":"`+tc.alert+`","inboxEntryId":"`+want.InboxID.String()+`"}`)
			checkNotice(t, l, backoffice.Notice{
				Channel: backoffice.ChannelAlerts, Type: "alert.acknowledged", Tenant: tenant, Property: property, CausedBy: v.Request.RequestID.ULID(), At: finishedAt,
				Data: []byte(`{"alertId":"` + tc.alert + `","category":"` + tc.category + `","severity":"` + tc.severity + `"}`),
			})
		})
	}
	b, l, digests := &inboxes{mirror: []backoffice.InboxEntry{alert}}, &ledger{kept: errors.New("away")}, 0
	if _, err := b.clerk(l, &digests).Acknowledge(t.Context(), visitor(), "alr_1", "", backoffice.Once{Key: "key"}, began); err == nil || len(l.notices) > 0 {
		t.Errorf("%v, told %v", err, l.notices)
	}
}
