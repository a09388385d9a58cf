package backoffice_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
)

// lockRow is the one row that is not settled; what it was settled with is kept.
type lockRow struct {
	row    backoffice.LockRow
	result backoffice.LockResult
	event  bff.Event
	notice backoffice.Notice
}

func (l *lockRow) FindLockRow(context.Context, bff.ID, string) (*backoffice.LockRow, bool, error) {
	return &l.row, true, nil
}

func (l *lockRow) SettleLockRow(_ context.Context, _ backoffice.LockRow, r backoffice.LockResult, e bff.Event, _ time.Time) error {
	l.result, l.event = r, e
	return nil
}

func (l *lockRow) Notify(_ context.Context, n backoffice.Notice) error {
	l.notice = n
	return nil
}

// Text that a vendor puts where words and ids belong is neither kept nor told.
func TestReportsOfLocksKeepNoText(t *testing.T) {
	t.Parallel()
	const guest = "Zarghuna Ahmadzai"
	now := time.Now()
	for _, tc := range []struct{ name, vendor, reason, credential, want string }{
		{"words", "salto", "battery_low", "lck_1", "salto battery_low lck_1"},
		{"text", guest, "the key of " + guest, guest, "other other "},
	} {
		l := &lockRow{row: backoffice.LockRow{
			LockAudit: backoffice.LockAudit{ID: bff.NewID(bff.PrefixLockAudit, now), Action: backoffice.IssueKey, Reservation: bff.NewID(bff.PrefixReservation, now)},
			Tenant:    bff.NewID(bff.PrefixTenant, now), Property: bff.NewID(bff.PrefixProperty, now), Operator: "opt_1", Device: bff.NewID(bff.PrefixDevice, now), AttemptedAt: now,
		}}
		s := &backoffice.LockSettler{Rows: l, News: backoffice.NewNewsroom("test"), Notices: l}
		report := backoffice.LockResult{State: backoffice.LockFailed, Vendor: tc.vendor, Reason: tc.reason, Credential: tc.credential}
		if known, err := s.Settle(t.Context(), l.row.Tenant, "request", report, now); !known || err != nil {
			t.Errorf("%s: %v, %v", tc.name, known, err)
		}
		if got := l.result.Vendor + " " + l.result.Reason + " " + l.result.Credential; got != tc.want {
			t.Errorf("%s: kept %q, want %q", tc.name, got, tc.want)
		}
		if told := string(l.event.Payload) + string(l.notice.Data); strings.Contains(told, guest) {
			t.Errorf("%s: told %s", tc.name, told)
		}
	}
}
