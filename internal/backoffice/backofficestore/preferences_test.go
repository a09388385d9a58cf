package backofficestore_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/device"
	"melmastoon.ghasi.io/bff/internal/backoffice/inbox"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

func copyOf(o device.PreferencesOwner, version int) device.PreferencesCopy {
	return device.PreferencesCopy{Owner: o, Preferences: device.Preferences{
		Payload: json.RawMessage(`{"density": "compact"}`), Version: version, UpdatedAt: bff.At(time.Unix(1_800_000_000, 0)),
	}}
}

// A copy is the newest that was kept, of its owner alone.
func TestPreferencesCopies(t *testing.T) {
	t.Parallel()
	d, ctx := openDesk(t), testkit.Context(t)
	mine := device.PreferencesOwner{Tenant: id(bff.PrefixTenant), Operator: "opt_1"}
	here := mine
	here.Property = id(bff.PrefixProperty)
	for _, c := range []device.PreferencesCopy{copyOf(mine, 2), copyOf(mine, 3), copyOf(mine, 1), copyOf(here, 7)} {
		if err := d.KeepPreferences(ctx, c); err != nil {
			t.Fatal(err)
		}
	}
	for o, want := range map[device.PreferencesOwner]int{
		mine: 3, here: 7,
		{Tenant: mine.Tenant, Operator: "opt_2"}:                                   0,
		{Tenant: id(bff.PrefixTenant), Operator: "opt_1"}:                          0,
		{Tenant: mine.Tenant, Operator: "opt_1", Property: id(bff.PrefixProperty)}: 0,
	} {
		got, err := d.FindKeptPreferences(ctx, o)
		if want == 0 {
			if bff.CodeOf(err) != bff.CodeResourceNotFound {
				t.Errorf("%+v: %+v, %v", o, got, err)
			}
			continue
		}
		expected := copyOf(o, want).Preferences
		expected.Stale = true
		if diff := cmp.Diff(expected, got); err != nil || diff != "" {
			t.Errorf("%+v: %v\n%s", o, err, diff)
		}
	}
}

// The copy stands or falls with the mutation that brought it.
func TestMutationKeepsPreferences(t *testing.T) {
	t.Parallel()
	d, ctx, now := openDesk(t), testkit.Context(t), time.Now()
	a := checkIn(id(bff.PrefixTenant), now)
	owner := device.PreferencesOwner{Tenant: a.Tenant, Operator: "opt_1"}
	finish := func(key string, f backoffice.Finished) error {
		t.Helper()
		did := checkIn(a.Tenant, now)
		m, earlier, err := d.BeginMutation(ctx, backoffice.Attempt{Activity: did, Once: pressed(key, 0)})
		if err != nil || earlier != nil {
			t.Fatal(earlier, err)
		}
		defer m.Release()
		f.At, f.Answer = now, backoffice.Answer{Status: http.StatusOK}
		_, err = m.Finish(ctx, f)
		return err
	}
	foreign := copyOf(device.PreferencesOwner{Tenant: id(bff.PrefixTenant), Operator: "opt_1"}, 9)
	if err := finish("01H8YN7QV4D8KZ4F8Y5CK4MV3B", backoffice.Finished{Effects: []backoffice.Effect{foreign}}); err == nil {
		t.Error("a copy of another tenant's preferences was kept")
	}
	broken := copyOf(owner, 2)
	broken.Payload = json.RawMessage(`{`)
	if err := finish("01H8YN7QV4D8KZ4F8Y5CK4MV3C", backoffice.Finished{
		Effects: []backoffice.Effect{broken}, Events: []bff.Event{told(a.Tenant, now)},
	}); err == nil {
		t.Error("a payload that is none was kept")
	}
	if got := d.rows(t, `SELECT subject FROM bff_backoffice.outbox`); len(got) > 0 {
		t.Errorf("events without their mutation: %v", got)
	}
	good := copyOf(owner, 2)
	if err := finish(key, backoffice.Finished{Effects: []backoffice.Effect{good}, Events: []bff.Event{told(a.Tenant, now)}}); err != nil {
		t.Fatal(err)
	}
	if got, err := d.FindKeptPreferences(ctx, owner); err != nil || got.Version != 2 {
		t.Errorf("%+v, %v", got, err)
	}
	if diff := cmp.Diff(
		[]string{"2 1"},
		d.rows(t, `SELECT concat_ws(' ', (SELECT max(version) FROM bff_backoffice.operator_preferences), count(*)) FROM bff_backoffice.outbox`),
	); diff != "" {
		t.Error(diff)
	}
}

func TestMarks(t *testing.T) {
	t.Parallel()
	d, ctx := openDesk(t), testkit.Context(t)
	tenant, stranger := id(bff.PrefixTenant), id(bff.PrefixTenant)
	at := time.Date(2026, 11, 17, 6, 0, 0, 0, time.UTC)
	for _, sql := range []string{
		`INSERT INTO bff_backoffice.ai_decision_log (tenant_id, suggestion_id, inbox_entry_id, category, severity, outcome, decided_at, decided_by, device_id, provenance)
			VALUES ($1, 'sug_1', 'aim_1', 'upsell', 'info', 'accepted', $3, 'opt_1', 'dev_1', '{}'), ($2, 'sug_2', 'aim_2', 'upsell', 'info', 'rejected', $3, 'opt_9', 'dev_9', '{}')`,
		`INSERT INTO bff_backoffice.alert_ack_log (tenant_id, alert_id, category, severity, raised_at, acknowledged_at, acknowledged_by, device_id)
			VALUES ($1, 'alr_1', 'power', 'info', $3, $3::timestamptz + interval '1 hour', 'opt_2', 'dev_1'), ($1, 'alr_1', 'power', 'info', $3, $3, 'opt_1', 'dev_1'), ($2, 'alr_1', 'power', 'info', $3, $3, 'opt_9', 'dev_9')`,
	} {
		if _, err := d.admin.Exec(ctx, sql, tenant.UUID(), stranger.UUID(), at); err != nil {
			t.Fatal(err)
		}
	}
	for of, want := range map[inbox.Inbox]map[string][]inbox.Mark{
		inbox.Suggestions: {"sug_1": {{Operator: "opt_1", At: at, Outcome: inbox.Accepted}}},
		inbox.Alerts:      {"alr_1": {{Operator: "opt_1", At: at}, {Operator: "opt_2", At: at.Add(time.Hour)}}},
	} {
		got, err := d.ListMarks(ctx, of, tenant, []string{"sug_1", "sug_2", "alr_1", "alr_2"})
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", of, err, diff)
		}
	}
}
