package backofficestore_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficestore"
	"melmastoon.ghasi.io/bff/internal/backoffice/device"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

func seenAt(tenant, dev bff.ID, at time.Time) device.Seen {
	return device.Seen{
		Tenant: tenant, Device: dev, Operator: "opt_1", At: at,
		Heartbeat: device.Heartbeat{
			App: backoffice.App{Version: "2.4.0", Platform: "linux"}, NetworkProfile: "good", InstallerChannel: "stable", PendingHints: 1,
		},
	}
}

func named(e bff.Event, subject backoffice.Subject) bff.Event {
	e.Envelope.Subject = string(subject)
	return e
}

// A heartbeat makes the device's row, keeps what it does not know better, and tells of
// the device's return once, however many come at that moment.
func TestRecordHeartbeat(t *testing.T) {
	t.Parallel()
	ctx, d := testkit.Context(t), openDesk(t)
	devices := backofficestore.NewDevices(d.Ledger)
	tenant, dev, property, now := id(bff.PrefixTenant), id(bff.PrefixDevice), id(bff.PrefixProperty), time.Now().UTC().Truncate(time.Second)
	beat := func(s device.Seen, reported ...bff.Event) bool {
		t.Helper()
		was, err := devices.RecordHeartbeat(ctx, s, named(told(tenant, now), backoffice.SubjectDeviceCameOnline), reported...)
		if err != nil {
			t.Fatal(err)
		}
		return was
	}
	row := func(want string) {
		t.Helper()
		got := d.rows(t, `SELECT concat_ws(' ', status, operator_id, last_heartbeat_at = $2, app_version, app_platform, installer_channel, network_profile,
			last_pull_cursor, cursor_version, property_id::text, pending_hints::text) FROM bff_backoffice.device_sync_status WHERE tenant_id = $1`, tenant.UUID(), now)
		if diff := cmp.Diff([]string{want}, got); diff != "" {
			t.Error(diff)
		}
	}
	first := seenAt(tenant, dev, now)
	first.Property, first.PullCursor = property, "7"
	if beat(first, named(told(tenant, now), backoffice.SubjectHeartbeatReported)) {
		t.Error("a device's first heartbeat is no return")
	}
	row("online opt_1 t 2.4.0 linux stable good 7 0 " + property.UUID() + " []")

	if _, err := d.admin.Exec(
		ctx, `UPDATE bff_backoffice.device_sync_status SET status = 'offline', cursor_version = 3, last_pull_cursor = 'sync', pending_hints = '[1]'`,
	); err != nil {
		t.Fatal(err)
	}
	late := seenAt(tenant, dev, now.Add(-time.Hour)) // came late: it was sent before the first
	late.PullCursor = "8"
	const many = 8
	returned := make(chan bool, many)
	var all sync.WaitGroup
	for range many {
		all.Go(func() {
			was, err := devices.RecordHeartbeat(ctx, late, named(told(tenant, now), backoffice.SubjectDeviceCameOnline))
			if err != nil {
				t.Error(err)
			}
			returned <- was
		})
	}
	all.Wait()
	close(returned)
	var count int
	for was := range returned {
		if was {
			count++
		}
	}
	if count != 1 {
		t.Errorf("%d heartbeats brought the device back", count)
	}
	row("online opt_1 t 2.4.0 linux stable good sync 3 " + property.UUID() + " [1]")
	drained := seenAt(tenant, dev, now)
	drained.PendingHints = 0
	beat(drained)
	row("online opt_1 t 2.4.0 linux stable good sync 3 " + property.UUID() + " []")
	if diff := cmp.Diff([]string{string(backoffice.SubjectDeviceCameOnline), string(backoffice.SubjectHeartbeatReported)},
		d.rows(t, `SELECT subject FROM bff_backoffice.outbox ORDER BY subject`)); diff != "" {
		t.Error(diff)
	}
	// The same device id at another tenant is another device.
	elsewhere := id(bff.PrefixTenant)
	if was, err := devices.RecordHeartbeat(ctx, seenAt(elsewhere, dev, now), told(elsewhere, now)); was || err != nil {
		t.Errorf("%v %v", was, err)
	}
	if _, err := devices.RecordHeartbeat(ctx, seenAt(elsewhere, dev, now), told(tenant, now)); err == nil {
		t.Error("an event of another tenant was taken")
	}
}

// A report of hints is kept once per key.
func TestAddHints(t *testing.T) {
	t.Parallel()
	ctx, d := testkit.Context(t), openDesk(t)
	devices := backofficestore.NewDevices(d.Ledger)
	tenant, dev, now := id(bff.PrefixTenant), id(bff.PrefixDevice), time.Now()
	report := func() device.HintReport {
		return device.HintReport{
			ID: id(bff.PrefixOfflineHint), Tenant: tenant, Device: dev, Operator: "opt_1", App: backoffice.App{Version: "2.4.0"}, At: now,
			Hints: []device.Hint{{Kind: "check_in", ResourceID: "rsv_1", Count: 2}},
		}
	}
	once := pressed("01M7MK9ZTR35B5VXC99GJ5AM9A", 1)
	answers := make([]string, 4)
	var all sync.WaitGroup
	for i := range answers {
		all.Go(func() {
			a, err := devices.AddHints(ctx, report(), once)
			switch code := bff.CodeOf(err); {
			case err == nil:
				b, _ := a.Receipt.MarshalJSON()
				answers[i] = fmt.Sprint(a.Status, " ", string(b))
			case code != bff.CodeStaffIdempotencyInFlight:
				t.Error(err)
			}
		})
	}
	all.Wait()
	answers = slices.Compact(slices.Sorted(slices.Values(slices.DeleteFunc(answers, func(s string) bool { return s == "" }))))
	if len(answers) != 1 || !strings.HasPrefix(answers[0], `202 {"hintId":"oaq_`) {
		t.Errorf("%q", answers)
	}
	old := pressed(id(bff.PrefixRequest).ULID(), 1)
	old.Sent = old.Sent.Add(backoffice.KeyMemory)
	if _, err := devices.AddHints(ctx, report(), old); bff.CodeOf(err) != bff.CodeStaffIdempotencyExpired || asError(t, err).Known.Outcome != backoffice.NoTrace {
		t.Errorf("an old key: %v", err)
	}
	if _, err := devices.AddHints(ctx, report(), pressed(once.Key, 2)); bff.CodeOf(err) != bff.CodeStaffIdempotencyReused {
		t.Errorf("the key with another body: %v", err)
	}
	want := `[{"kind": "check_in", "count": 2, "resourceId": "rsv_1"}]`
	if diff := cmp.Diff([]string{dev.String() + " opt_1 2.4.0 " + want},
		d.rows(t, `SELECT concat_ws(' ', device_id, operator_id, app_version, payload::text) FROM bff_backoffice.offline_action_queue_hints`)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(
		[]string{want}, d.rows(t, `SELECT pending_hints::text FROM bff_backoffice.device_sync_status WHERE last_heartbeat_at IS NULL`),
	); diff != "" {
		t.Error(diff)
	}
}
