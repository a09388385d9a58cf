package device_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficetest"
	backofficedevice "melmastoon.ghasi.io/bff/internal/backoffice/device"
)

// tenantService plays tenant-service and the memory of its answers.
type tenantService struct {
	answer  backofficedevice.Preferences
	failure error
	calls   []string // in their order
}

func (s *tenantService) FindPreferences(context.Context, backofficedevice.PreferencesOwner) (backofficedevice.Preferences, error) {
	return s.answer, s.failure
}

func (s *tenantService) ForgetPreferences(ctx context.Context, o backofficedevice.PreferencesOwner) error {
	s.calls = append(s.calls, "forget "+o.Operator)
	return ctx.Err()
}

func (s *tenantService) ReplacePreferences(_ context.Context, c backofficedevice.PreferencesChange, key string) (backofficedevice.Preferences, error) {
	s.calls = append(s.calls, "replace "+c.Owner.Operator+" "+key+" "+string(c.Payload))
	return s.answer, s.failure
}

// What tenant-service has accepted is committed with its event and told to the operator's
// devices; what it has not is neither. What instances remember is void before and after.
func TestReplacePreferences(t *testing.T) {
	t.Parallel()
	updated := bff.At(began.Add(-time.Minute))
	for name, tc := range map[string]struct {
		property bff.ID
		failure  error
		ledger   ledger
		want     bff.Code
		begun    bool
		version  int
		told     bool
	}{
		"of all properties": {begun: true, version: 8, told: true},
		"of one property":   {property: property, begun: true, version: 8, told: true},
		"changed meanwhile": {failure: bff.Errorf(bff.CodePreferencesVersionConflict, "x"), want: bff.CodePreferencesVersionConflict, begun: true},
		"not kept":          {ledger: ledger{Kept: bff.Errorf(bff.CodeServiceUnavailable, "x")}, want: bff.CodeServiceUnavailable, begun: true},
		"refused":           {ledger: ledger{Refused: bff.Errorf(bff.CodeServiceUnavailable, "x")}, want: bff.CodeServiceUnavailable},
		"again": {ledger: ledger{Earlier: &backoffice.Answer{Status: 200, Receipt: backoffice.NewReceipt(map[string]any{
			"version": 5, "updatedAt": updated,
		})}}, version: 5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := &tc.ledger
			s := &tenantService{answer: backofficedevice.Preferences{Payload: []byte(`{"theirs":1}`), Version: 8, UpdatedAt: updated}, failure: tc.failure}
			settings := backofficedevice.NewSettings(backofficedevice.SettingsConfig{
				Reader: s, Writer: s, Mutations: l, News: backoffice.NewEnvelopes("test"), Notices: l, Now: func() time.Time { return finishedAt },
			})
			v := visitor()
			v.Property = tc.property
			change := backofficedevice.PreferencesChange{
				Owner: backofficedevice.PreferencesOwner{Tenant: tenant, Operator: "opt_1", Property: tc.property}, Seen: 7, Payload: []byte(`{"ours":1}`),
			}
			got, err := settings.ReplacePreferences(t.Context(), v, change, backoffice.Once{Key: "key"}, began)
			if backofficetest.CodeOf(err) != tc.want {
				t.Fatalf("%v, want %q", err, tc.want)
			}
			var want backofficedevice.Preferences
			if tc.want == "" {
				want = backofficedevice.Preferences{Payload: change.Payload, Version: tc.version, UpdatedAt: updated}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("answered (-want +got):\n%s", diff)
			}
			var calls []string
			if tc.begun {
				calls = []string{"forget opt_1", `replace opt_1 key {"ours":1}`, "forget opt_1"}
			}
			if diff := cmp.Diff(calls, s.calls); diff != "" {
				t.Errorf("called (-want +got):\n%s", diff)
			}
			if !tc.told && len(l.Notices) > 0 || tc.told != (len(l.Notices) == 1) {
				t.Errorf("told %v", l.Notices)
			}
			if !tc.begun {
				return
			}
			l.Check(
				t, v, "preferences", "replace", backoffice.Resource{Kind: "operator", ID: "opt_1"}, backofficetest.CodeOf(tc.failure),
				backofficedevice.PreferencesUpdated{Version: 8, UpdatedAt: updated},
			)
			if tc.failure != nil {
				return
			}
			kept := backofficedevice.PreferencesCopy{
				Owner: change.Owner, Preferences: backofficedevice.Preferences{Payload: change.Payload, Version: 8, UpdatedAt: updated},
			}
			if diff := cmp.Diff(kept, backofficetest.Effect[backofficedevice.PreferencesCopy](l), sameIDs); diff != "" {
				t.Errorf("kept (-want +got):\n%s", diff)
			}
			if tc.told {
				backofficetest.CheckReceipt(t, l.Finished[0].Answer, `{"updatedAt":"`+updated.String()+`","version":8}`)
				backofficetest.CheckNotice(t, l, backoffice.Notice{
					Channel: backoffice.ChannelSession, Type: "preferences.updated", Tenant: tenant, Operator: "opt_1", Property: tc.property,
					CausedBy: v.Request.RequestID.String(), At: finishedAt, Data: []byte(`{"version":8}`),
				})
			}
		})
	}
}

// The payload is the app's own, but for the shortcuts, which this service reads.
func TestCheckPreferences(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]bff.FieldErrors{
		`{}`:                       nil,
		`{"anything":[1,2]}`:       nil,
		`{"keyboardShortcuts":{}}`: nil,
		`{"keyboardShortcuts":7}`:  {{Field: "payload.keyboardShortcuts", Code: bff.FieldFormat}},
	} {
		var payload map[string]any
		if err := json.NewDecoder(strings.NewReader(body)).Decode(&payload); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, backofficedevice.CheckPreferences(payload)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", body, diff)
		}
	}
}
