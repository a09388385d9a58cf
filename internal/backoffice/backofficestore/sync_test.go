package backofficestore_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficestore"
	"melmastoon.ghasi.io/bff/internal/backoffice/device"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

// Our copy of a cursor follows handshakes and moves, never goes back, and is the
// tenant's own.
func TestCursorCopies(t *testing.T) {
	t.Parallel()
	ctx, d := testkit.Context(t), openDesk(t)
	devices := backofficestore.NewDevices(d.Ledger)
	tenant, dev, now := id(bff.PrefixTenant), id(bff.PrefixDevice), time.Now().UTC().Truncate(time.Second)
	copied := func(of bff.ID, want *device.SyncCursor) {
		t.Helper()
		got, err := devices.FindKeptCursor(ctx, of, dev)
		switch {
		case want == nil && bff.CodeOf(err) != bff.CodeResourceNotFound:
			t.Errorf("%+v %v", got, err)
		case want != nil && (err != nil || got != *want):
			t.Errorf("%+v %v, want %+v", got, err, *want)
		}
	}
	shake := func(c device.SyncCursor) {
		t.Helper()
		if err := devices.RecordHandshake(ctx, device.Handshake{Tenant: tenant, Device: dev, Operator: "opt_1", Cursor: c, At: now},
			named(told(tenant, now), backoffice.SubjectHandshakeCompleted)); err != nil {
			t.Fatal(err)
		}
	}
	copied(tenant, nil)
	shake(device.SyncCursor{PullCursor: "7", PushAck: "1", Version: 3})
	copied(tenant, &device.SyncCursor{PullCursor: "7", PushAck: "1", Version: 3, Stale: true})
	shake(device.SyncCursor{PullCursor: "6", PushAck: "0", Version: 2})              // came late
	shake(device.SyncCursor{PullCursor: "9", PushAck: "9", Version: 9, Stale: true}) // is itself a copy
	copied(tenant, &device.SyncCursor{PullCursor: "7", PushAck: "1", Version: 3, Stale: true})
	copied(id(bff.PrefixTenant), nil)

	m, earlier, err := d.BeginMutation(ctx, backoffice.Attempt{Activity: checkIn(tenant, now), Once: pressed("01M7MK9ZTR35B5VXC99GJ5AM9A", 0)})
	if err != nil || earlier != nil {
		t.Fatalf("%v %v", earlier, err)
	}
	moved := device.SyncCursor{PullCursor: "8/+=", PushAck: "2", Version: 4}
	answer := backoffice.Answer{Status: 200, Receipt: backoffice.NewReceipt(map[string]any{"pullCursor": moved.PullCursor, "pushAck": "2", "cursorVersion": 4})}
	if _, err := m.Finish(ctx, backoffice.Finished{
		At: now, Answer: answer, Effects: []backoffice.Effect{device.CursorCopy{Tenant: id(bff.PrefixTenant), Device: dev, Cursor: moved}},
	}); err == nil {
		t.Error("a cursor of another tenant was kept")
	}
	m, earlier, err = d.BeginMutation(ctx, backoffice.Attempt{Activity: checkIn(tenant, now), Once: pressed("01M7MK9ZTR35B5VXC99GJ5AM9B", 0)})
	if err != nil || earlier != nil {
		t.Fatalf("%v %v", earlier, err)
	}
	if _, err := m.Finish(ctx, backoffice.Finished{
		At: now, Answer: answer, Effects: []backoffice.Effect{device.CursorCopy{Tenant: tenant, Device: dev, Cursor: moved}},
	}); err != nil {
		t.Fatal(err)
	}
	moved.Stale = true
	copied(tenant, &moved)
	_, earlier, err = d.BeginMutation(ctx, backoffice.Attempt{Activity: checkIn(tenant, now), Once: pressed("01M7MK9ZTR35B5VXC99GJ5AM9B", 0)})
	if err != nil || earlier == nil {
		t.Fatalf("%v %v", earlier, err)
	}
	if b, _ := earlier.Receipt.MarshalJSON(); string(b) != `{"cursorVersion":4,"pullCursor":"8/+=","pushAck":"2"}` {
		t.Errorf("told again: %s", b)
	}
	if diff := cmp.Diff([]string{"opt_1 t online"}, d.rows(t, `SELECT concat_ws(' ', operator_id, last_sync_handshake_at = $1, status)
		FROM bff_backoffice.device_sync_status`, now)); diff != "" {
		t.Error(diff)
	}
}
