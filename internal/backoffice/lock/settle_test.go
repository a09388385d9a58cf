package lock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/lock"
)

// lockRow is the one row that is not settled; what it was settled with is kept.
type lockRow struct {
	row    lock.Row
	result lock.Result
	event  bff.Event
	notice backoffice.Notice

	deaf             error // of streams
	unknown, settled bool  // there is no row, or none that is not settled
	err              error
}

func (l *lockRow) FindLockRow(context.Context, bff.ID, string) (*lock.Row, bool, error) {
	if l.unknown || l.settled || l.err != nil {
		return nil, l.settled, l.err
	}
	return &l.row, true, nil
}

func (l *lockRow) SettleLock(_ context.Context, s lock.Settlement) error {
	l.result, l.event = s.Result, s.Events[0]
	return nil
}

func (l *lockRow) Notify(_ context.Context, n backoffice.Notice) error {
	l.notice = n
	return l.deaf
}

// What lock-integration reports of an action settles its row, once, if it can follow from
// the action; an action of which it never heard is a failure after five minutes.
func TestLockRowsAreSettled(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 17, 10, 0, 0, 0, time.UTC)
	const (
		issued, revoked, failed   = lock.LockIssued, lock.LockRevoked, lock.LockFailed
		pending, unknown, refused = lock.LockPending, lock.LockUnknown, lock.LockRefused
		issue, revoke, extend     = lock.IssueKey, lock.RevokeKey, lock.ExtendKey
	)
	away := errors.New("away")
	for _, tc := range []struct {
		name   string
		action lock.Action
		row    lock.State
		state  lock.State // reported
		err    error
		age    time.Duration
		want   lock.State // by Asked
		settle bool       // by Settle
	}{
		{name: "issued", action: issue, row: unknown, state: issued, want: issued, settle: true},
		{name: "extended", action: extend, row: pending, state: issued, want: issued, settle: true},
		{name: "issued, of a revoke", action: revoke, row: unknown, state: issued, want: unknown},
		{name: "revoked", action: revoke, row: pending, state: revoked, want: revoked, settle: true},
		{name: "revoked, of an issue", action: issue, row: unknown, state: revoked, want: unknown},
		{name: "failed", action: revoke, row: unknown, state: failed, want: failed, settle: true},
		{name: "pending", action: issue, row: unknown, state: pending, want: pending},
		{name: "still pending", action: issue, row: pending, state: pending, want: unknown},
		{name: "refused", action: issue, row: unknown, state: refused, want: unknown},
		{name: "unknown", action: issue, row: unknown, state: unknown, want: unknown},
		{name: "could not be asked", action: issue, row: unknown, state: issued, err: away, want: unknown, settle: true},
		{name: "not received yet", action: issue, row: unknown, err: lock.ErrNoLockAction, age: lock.LockLost - time.Second - 1, want: unknown},
		{name: "never received", action: issue, row: unknown, err: lock.ErrNoLockAction, age: lock.LockLost - time.Second, want: failed},
		{name: "could not be asked for long", action: issue, row: unknown, err: away, age: 2 * lock.LockLost, want: unknown},
	} {
		l := &lockRow{row: lock.Row{
			Audit: lock.Audit{
				ID: bff.NewID(bff.PrefixLockAudit, now), Tenant: bff.NewID(bff.PrefixTenant, now), Action: tc.action, Reservation: bff.NewID(bff.PrefixReservation, now),
				Result: lock.Result{State: tc.row},
			},
			Property: bff.NewID(bff.PrefixProperty, now), Operator: "opt_1", Device: bff.NewID(bff.PrefixDevice, now),
			AttemptedAt: now.Add(-tc.age - time.Second),
		}}
		report := lock.Result{State: tc.state, Vendor: "salto", Credential: "lck_1"}
		if got := l.row.Asked(report, tc.err, now); got.State != tc.want || tc.want != unknown && got.Latency != tc.age+time.Second {
			t.Errorf("%s: asked: %+v, want %s", tc.name, got, tc.want)
		}
		s := &lock.Settler{Rows: l, News: backoffice.NewEnvelopes("test"), Notices: l}
		known, err := s.Settle(t.Context(), l.row.Tenant, "request", report, now)
		if settled := l.result.State == tc.state && l.notice.Type != "" && len(l.event.Payload) > 0; !known || err != nil || settled != tc.settle {
			t.Errorf("%s: settled %t, %v: %+v", tc.name, known, err, l.result)
		}
		if tc.settle && (l.result.Latency != tc.age+time.Second || l.notice.Tenant != l.row.Tenant || l.notice.Property != l.row.Property) {
			t.Errorf("%s: %+v, %+v", tc.name, l.result, l.notice)
		}
		if tc.settle {
			v := &backoffice.Visit{Session: backoffice.Session{Tenant: l.row.Tenant, Device: l.row.Device}, Property: l.row.Property}
			checkLockEvent(t, l.event, v, &l.row.Audit, l.result)
			want := fmt.Sprintf(`{"auditId":%q,"action":%q,"reservationId":%q,"state":%q,"vendor":"salto","credentialId":"lck_1"`, l.row.ID,
				l.row.Action, l.row.Reservation, tc.state)
			if !strings.HasPrefix(string(l.notice.Data), want) {
				t.Errorf("%s: streams are told %s, want %s", tc.name, l.notice.Data, want)
			}
		}
	}
	for name, tc := range map[string]struct {
		rows      lockRow
		wantKnown bool
		wantErr   bool
	}{
		"no such row":     {rows: lockRow{unknown: true}},
		"settled already": {rows: lockRow{settled: true}, wantKnown: true},
		"store away":      {rows: lockRow{err: away}, wantErr: true},
		"streams away":    {rows: lockRow{row: lock.Row{Audit: lock.Audit{Action: issue}}, deaf: away}, wantKnown: true, wantErr: true},
	} {
		s := &lock.Settler{Rows: &tc.rows, News: backoffice.NewEnvelopes("test"), Notices: &tc.rows}
		known, err := s.Settle(t.Context(), bff.NewID(bff.PrefixTenant, now), "request", lock.Result{State: issued}, now)
		if known != tc.wantKnown || (err != nil) != tc.wantErr || tc.rows.result.State != "" {
			t.Errorf("%s: %t, %v, settled with %+v", name, known, err, tc.rows.result)
		}
	}
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
		l := &lockRow{row: lock.Row{
			Audit: lock.Audit{
				ID: bff.NewID(bff.PrefixLockAudit, now), Tenant: bff.NewID(bff.PrefixTenant, now), Action: lock.IssueKey,
				Reservation: bff.NewID(bff.PrefixReservation, now),
			},
			Property: bff.NewID(bff.PrefixProperty, now), Operator: "opt_1",
			Device: bff.NewID(bff.PrefixDevice, now), AttemptedAt: now,
		}}
		s := &lock.Settler{Rows: l, News: backoffice.NewEnvelopes("test"), Notices: l}
		report := lock.Result{State: lock.LockFailed, Vendor: tc.vendor, Reason: tc.reason, Credential: tc.credential}
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
