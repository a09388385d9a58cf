package lock

import (
	"context"
	"errors"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
)

const (
	// LockCallTime is the longest that a request may still be at it: a younger action
	// is not asked for.
	LockCallTime = 15 * time.Second
	// LockLost is the age at which an action that lock-integration never received is
	// a failure: no attempt at it is under way, and a repeated request is told so.
	LockLost = 5 * time.Minute
	// LockOverdue is the age at which an action without an outcome is worth an alarm.
	LockOverdue = 10 * time.Minute

	// notReceived is the reason of an action that never arrived.
	notReceived = "not_received"
)

// Row is the audit row of a lock action whose outcome is not known yet.
type Row struct {
	Audit

	Property bff.ID
	Operator string
	Device   bff.ID
	// AttemptedAt is when the last attempt began.
	AttemptedAt time.Time
}

// Rows finds and settles rows of one tenant.
type Rows interface {
	// FindLockRow returns the unsettled row of a request; known says whether there is
	// a row at all.
	FindLockRow(ctx context.Context, tenant bff.ID, request string) (row *Row, known bool, err error)
	// SettleLock writes what became of an action, unless it is settled already.
	SettleLock(ctx context.Context, s Settlement) error
}

// Settler settles lock actions by what lock-integration reports of them.
type Settler struct {
	Rows    Rows
	News    *backoffice.Envelopes
	Notices backoffice.Notifier
}

// Settle settles the action of a request. It reports whether there is one. Streams
// are told first: the report comes again until all of it is done, and a client that
// hears twice of a final state is no worse off.
func (s *Settler) Settle(ctx context.Context, tenant bff.ID, request string, r Result, now time.Time) (known bool, err error) {
	row, known, err := s.Rows.FindLockRow(ctx, tenant, request)
	if err != nil || row == nil || !r.fits(row.Action) {
		return known, err
	}
	r = r.words()
	r.Latency = now.Sub(row.AttemptedAt)
	if err := s.Notices.Notify(ctx, row.Notice(r, now)); err != nil {
		return true, err
	}
	settled, err := row.Settlement(s.News, r, now)
	if err != nil {
		return true, err
	}
	return true, s.Rows.SettleLock(ctx, settled)
}

// words keeps of a report what is a word or an id. Text could name a guest, and what is
// reported is kept and handed on.
func (r Result) words() Result {
	if !backoffice.IsWord(r.Vendor) {
		r.Vendor = "other"
	}
	if !backoffice.IsWord(r.Reason) {
		r.Reason = "other"
	}
	if !backoffice.IsWord(r.Credential) {
		r.Credential = ""
	}
	return r
}

// fits reports whether a final state can follow from an action.
func (r Result) fits(action Action) bool {
	switch r.State {
	case LockIssued:
		return action != RevokeKey
	case LockRevoked:
		return action == RevokeKey
	}
	return r.State == LockFailed
}

// Asked is what to do with a row after lock-integration was asked about it: nothing
// as long as the state is unknown.
func (row *Row) Asked(r Result, err error, now time.Time) Result {
	switch {
	case errors.Is(err, ErrNoLockAction) && now.Sub(row.AttemptedAt) >= LockLost:
		r = Result{State: LockFailed, Vendor: "none", Reason: notReceived}
	case err != nil, r.State != LockPending && !r.fits(row.Action), r.State == LockPending && row.State == LockPending:
		return Result{State: LockUnknown}
	}
	r.Latency = now.Sub(row.AttemptedAt)
	return r
}

// Settlement is what is written of an action that is settled after its request.
func (row *Row) Settlement(n *backoffice.Envelopes, r Result, now time.Time) (Settlement, error) {
	who := backoffice.About{Tenant: row.Tenant, Operator: row.Operator, Device: row.Device, Property: row.Property}
	e, err := n.Event(row.proxied(r, now), who, backoffice.Occasion{}, now)
	return Settlement{Result: r, Tenant: row.Tenant, ID: row.ID, At: now, Events: []bff.Event{e}}, err
}

// LockActionSettled is the type of the notice with the final state of a lock action.
const LockActionSettled = "lock_action.settled"

// Notice is what streams of the property are told of a final state.
func (row *Row) Notice(r Result, now time.Time) backoffice.Notice {
	return backoffice.Notice{
		Channel: backoffice.ChannelLocks, Type: LockActionSettled, Tenant: row.Tenant, Property: row.Property, At: now,
		Data: backoffice.NoticeData(struct {
			AuditID       bff.ID `json:"auditId"`
			Action        Action `json:"action"`
			ReservationID bff.ID `json:"reservationId"`
			State         State  `json:"state"`
			Vendor        string `json:"vendor,omitempty"`
			CredentialID  string `json:"credentialId,omitempty"`
			Reason        string `json:"reason,omitempty"`
		}{row.ID, row.Action, row.Reservation, r.State, r.Vendor, r.Credential, r.Reason}),
	}
}
