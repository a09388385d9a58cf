// Package identity lets operators in and out: their sessions, second factors and
// feature flags.
package identity

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
)

// Access lets operators in and out: it opens, switches and ends their sessions.
type Access struct {
	sessions Sessions
	members  backoffice.Members
	journal  backoffice.Journal
	news     *backoffice.Envelopes
	// AnnounceTimeout caps the announcement of a session on a request's way: requests
	// are served while Postgres is away.
	AnnounceTimeout time.Duration
	// Now tells how long an announcement took that failed; nil = no time at all.
	Now func() time.Time
	// Notices tells streams that their session has ended; nil = there are none.
	Notices backoffice.Notifier
	// quietUntil is when a failed announcement is tried again, in Unix milliseconds.
	quietUntil atomic.Int64
}

// Categories of activities.
const (
	categoryRequest = "request" // refused; the action is the route
	categorySession = "session"
	categoryMFA     = "mfa"
)

// NewAccess returns an Access over the session tier, tenant-service and the outbox.
func NewAccess(s Sessions, m backoffice.Members, j backoffice.Journal, n *backoffice.Envelopes) *Access {
	return &Access{sessions: s, members: m, journal: j, news: n, AnnounceTimeout: announceTimeout}
}

const (
	announceTimeout = 500 * time.Millisecond
	// announcePause is how long after a failed announcement none is tried.
	announcePause = 2 * time.Second
)

// Enter admits a caller whose token and proof are verified: replay, tombstones,
// tenant, session. A proof that was used before says nothing about its sender, and
// is told nothing. With a proof that is only looked at nothing is opened: the visit is
// nil where the caller would be admitted.
func (a *Access) Enter(ctx context.Context, c backoffice.Caller, p Proof, o backoffice.Occasion, now time.Time) (*backoffice.Visit, error) {
	st, member, err := a.admit(ctx, c, p, now)
	if err != nil || p.Look {
		return nil, err
	}
	session, err := a.session(ctx, c, &st, now)
	if err != nil {
		return nil, err
	}
	if !session.Announced {
		a.announce(ctx, session, member, o, now)
	}
	return &backoffice.Visit{Caller: c, Session: session, Member: member, Request: o, Sent: p.Issued}, nil
}

// Again is a visit with the rights of now. A request that does many things, one after the
// other, does none with rights that were taken away meanwhile.
func (a *Access) Again(ctx context.Context, v *backoffice.Visit, now time.Time) (*backoffice.Visit, error) {
	st, member, err := a.admit(ctx, v.Caller, Proof{Look: true}, now)
	switch {
	case err != nil:
		return nil, err
	case st.Session == nil || st.Session.ID != v.Session.ID || st.ended():
		return nil, errRevoked()
	case !v.Property.IsZero() && !member.Scope.Covers(v.Property):
		return nil, bff.Errorf(bff.CodePropertyScopeDenied, "this property is outside your scope")
	}
	again := *v
	again.Member = member
	return &again, nil
}

// admit finds what is known of a caller, and whether it may come in.
func (a *Access) admit(ctx context.Context, c backoffice.Caller, p Proof, now time.Time) (AccessState, *backoffice.Member, error) {
	st, err := a.sessions.Enter(ctx, c, p, now)
	switch {
	case err != nil:
		return st, nil, backoffice.Away(err)
	case c.TokenIssued.Before(st.Born):
		return st, nil, bff.Errorf(bff.CodeTokenExpired, "sessions were lost since this access token was issued: refresh it")
	case st.Replayed:
		return st, nil, ErrReplayed()
	case st.Tombstones.Refuse(c):
		return st, nil, errRevoked()
	case st.Suspended:
		return st, nil, errSuspended()
	}
	member, err := a.members.FindMember(ctx, c.Tenant, c.Operator, st.Members)
	switch {
	case errors.Is(err, backoffice.ErrNoMember):
		err = errRevoked()
	case err == nil && member.Suspended:
		err = errSuspended()
	}
	return st, member, err
}

// Burn admits a caller without a token by its proof alone, which is used up unless it is
// only looked at.
func (a *Access) Burn(ctx context.Context, p Proof, now time.Time) error {
	st, err := a.sessions.Burn(ctx, p, now)
	switch {
	case err != nil:
		return backoffice.Away(err)
	case now.Before(st.Born): // a token of this second would be refused
		return &bff.Error{Code: bff.CodeServiceUnavailable, Detail: "sessions were lost just now: try again in a second", RetryAfter: time.Second}
	case p.Made.Before(st.Born):
		return ErrForgotten
	case st.Replayed:
		return ErrReplayed()
	}
	return nil
}

// ErrForgotten refuses a proof of which it is not known any more whether it was used: its
// sender signs another one, with the nonce of the moment if its clock is behind.
var ErrForgotten = errors.New("the proof was made before sessions were lost")

// session returns the caller's session, which it opens if the device has none or
// another operator's.
func (a *Access) session(ctx context.Context, c backoffice.Caller, st *AccessState, now time.Time) (backoffice.Session, error) {
	found, ended := st.Session, st.ended()
	for range 3 { // another request may be first, with another operator
		if found != nil && found.Operator == c.Operator && !ended {
			return *found, nil
		}
		// The sign-in that came later has the device. Without this rule an old token
		// that is still valid would take it back with each request.
		if found != nil && c.TokenIssued.Before(found.TokenIssued) {
			return backoffice.Session{}, errRevoked()
		}
		opened, err := a.sessions.OpenSession(ctx, c, newSession(c, found, now), found)
		if errors.Is(err, ErrRevoked) {
			return backoffice.Session{}, errRevoked()
		}
		if err != nil {
			return backoffice.Session{}, backoffice.Away(err)
		}
		found, ended = &opened, false
	}
	return backoffice.Session{}, &bff.Error{
		Code: bff.CodeServiceUnavailable, Detail: "another operator is signing in on this device: try again", RetryAfter: time.Second,
	}
}

// announce writes the events of a session's opening and ends what is left of the one
// that it replaced. A request does not fail with it: the session is marked only
// afterwards, and the next request tries again.
func (a *Access) announce(ctx context.Context, s backoffice.Session, m *backoffice.Member, o backoffice.Occasion, now time.Time) {
	if now.UnixMilli() < a.quietUntil.Load() {
		return
	}
	began := a.clock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.AnnounceTimeout)
	defer cancel()
	if err := a.recordOpening(ctx, s, m, o, now); err != nil {
		a.hush(now, a.clock().Sub(began))
		return
	}
	if r := s.Replaced; r != nil {
		old := backoffice.Session{ID: r.ID, Tenant: s.Tenant, Operator: r.Operator, Device: s.Device}
		if err := a.tellEnded(ctx, []backoffice.Session{old}, backoffice.SessionReplaced, now); err != nil {
			a.hush(now, a.clock().Sub(began))
			return
		}
	}
	if err := a.outgrow(ctx, &s, o, now); err != nil {
		a.hush(now, a.clock().Sub(began))
		return
	}
	if err := a.sessions.Announced(ctx, s); err != nil {
		a.hush(now, a.clock().Sub(began))
	}
}

func (a *Access) clock() time.Time {
	if a.Now == nil {
		return time.Time{}
	}
	return a.Now()
}

// hush has no announcement tried for a while after one that took its time to fail: a
// store that hangs may take longer than the pause.
func (a *Access) hush(now time.Time, took time.Duration) {
	a.quietUntil.Store(now.Add(took + announcePause).UnixMilli())
}

// outgrow ends the oldest sessions of an operator who has opened too many. As at a
// revocation, all of it is repeated if it is cut off.
func (a *Access) outgrow(ctx context.Context, opened *backoffice.Session, o backoffice.Occasion, now time.Time) error {
	sessions, err := a.sessions.ListOutgrown(ctx, *opened)
	if err != nil || len(sessions) == 0 {
		return err
	}
	var (
		did    []backoffice.Activity
		events []bff.Event
	)
	for i := range sessions {
		s := &sessions[i]
		end := closed(s, ReasonRevoked, now)
		end.OutgrownBy = &opened.ID
		e, err := a.news.Event(end, s.About(), o, now)
		if err != nil {
			return err
		}
		left := s.Activity(categorySession, actionOutgrown, nil, now)
		once := actionOutgrown + s.ID.String()
		e.Envelope.EventID, left.ID = derived(opened, bff.PrefixEvent, once).String(), derived(opened, bff.PrefixActivity, once)
		events, did = append(events, e), append(did, left)
	}
	if err := a.journal.Record(ctx, did, events...); err != nil {
		return fmt.Errorf("record outgrown sessions: %w", err)
	}
	if err := a.sessions.Refuse(ctx, sessions, now); err != nil {
		return err
	}
	if err := a.tellEnded(ctx, sessions, backoffice.SessionOutgrown, now); err != nil {
		return err
	}
	return a.sessions.RemoveSessions(ctx, sessions)
}

// recordedLate is how old an opening may be that is recorded as of its own moment: the ledger takes no row that is older than an hour,
// and the database may have been away for longer. The event says when it was.
const recordedLate = 45 * time.Minute

// recordOpening may be repeated, also while the write of an attempt before is still
// under way: whichever is committed first stands, as all have the same ids.
func (a *Access) recordOpening(ctx context.Context, s backoffice.Session, m *backoffice.Member, o backoffice.Occasion, now time.Time) error {
	opened := SessionOpened{SessionID: s.ID, OpenedAt: bff.At(s.OpenedAt), IPHash: s.IPHash, FingerprintHash: s.FingerprintHash}
	at := s.OpenedAt
	if now.Sub(at) > recordedLate {
		at = now
	}
	did := []backoffice.Activity{s.Activity(categorySession, "opened", m, at)}
	did[0].ID = derived(&s, bff.PrefixActivity, did[0].Action)
	var events []bff.Event
	if r := s.Replaced; r != nil {
		opened.ReplacedSession = &r.ID
		old := backoffice.Session{ID: r.ID, Tenant: s.Tenant, Operator: r.Operator, Device: s.Device, OpenedAt: r.OpenedAt}
		end, err := a.news.Event(closed(&old, ReasonOperatorSwitched, s.OpenedAt), old.About(), o, now)
		if err != nil {
			return err
		}
		end.Envelope.EventID = derived(&s, bff.PrefixEvent, ReasonOperatorSwitched).String()
		events = append(events, end)
		left := old.Activity(categorySession, ReasonOperatorSwitched, nil, at)
		left.ID = derived(&s, bff.PrefixActivity, left.Action)
		did = append(did, left)
	}
	e, err := a.news.Event(opened, s.About(), o, now)
	if err != nil {
		return err
	}
	e.Envelope.EventID = derived(&s, bff.PrefixEvent, did[0].Action).String()
	return a.journal.Record(ctx, did, append(events, e)...)
}

// derived is the id of something that happens once in a session's life.
func derived(s *backoffice.Session, p bff.Prefix, what string) bff.ID {
	id := s.ID.Bytes()
	sum := sha256.Sum256(append(id[:], what...))
	copy(id[6:], sum[:]) // the session's time stays: ids are in the order of time
	return bff.IDFromBytes(p, id)
}

func closed(s *backoffice.Session, reason string, at time.Time) SessionClosed {
	return SessionClosed{SessionID: s.ID, OpenedAt: bff.At(s.OpenedAt), ClosedAt: bff.At(at), Reason: reason}
}

// SignOut ends the visitor's session. Its event is written first: a sign-out that
// cannot be audited is not done, and one that is cut off is repeated.
func (a *Access) SignOut(ctx context.Context, v *backoffice.Visit, now time.Time) error {
	e, err := a.news.Event(closed(&v.Session, ReasonSignedOut, now), v.Session.About(), v.Request, now)
	if err != nil {
		return err
	}
	did := v.Activity(categorySession, ReasonSignedOut, backoffice.Resource{Kind: "session", ID: v.Session.ID.String()}, now)
	if err := a.journal.Record(ctx, []backoffice.Activity{did}, e); err != nil {
		return err
	}
	if err := a.sessions.CloseSession(ctx, v.Session, backoffice.Ending{At: now, TokenHash: v.Caller.TokenHash}); err != nil {
		return backoffice.Away(err)
	}
	return backoffice.Away(a.tellEnded(ctx, []backoffice.Session{v.Session}, backoffice.SessionSignedOut, now))
}

// Revoke ends sessions by force. Tombstones come first, so that callers are refused
// from then on; then the events; then the sessions' keys go. Cut off anywhere, the
// received event comes again and all of it is repeated.
func (a *Access) Revoke(ctx context.Context, r Revocation, o backoffice.Occasion, now time.Time) error {
	sessions, err := a.sessions.Revoke(ctx, r)
	if err != nil {
		return err
	}
	failed := a.tellEnded(ctx, sessions, backoffice.SessionRevoked, now)
	forced := SessionForceLoggedOut{Reason: r.Reason, RevokedAt: bff.At(r.At), Sessions: []bff.ID{}}
	var (
		did    []backoffice.Activity
		events []bff.Event
	)
	for i := range sessions {
		s := &sessions[i]
		forced.Sessions = append(forced.Sessions, s.ID)
		e, err := a.news.Event(closed(s, ReasonRevoked, now), s.About(), o, now)
		if err != nil {
			return err
		}
		events = append(events, e)
		did = append(did, s.Activity(categorySession, ReasonRevoked, nil, now))
	}
	e, err := a.news.Event(forced, backoffice.About{Tenant: r.Tenant, Operator: r.Operator, Device: r.Device}, o, now)
	if err != nil {
		return err
	}
	if err := a.journal.Record(ctx, did, append(events, e)...); err != nil {
		return fmt.Errorf("record revocation: %w", err)
	}
	if failed != nil { // the sessions must be found again when the event comes again
		return failed
	}
	return a.sessions.RemoveSessions(ctx, sessions)
}

// tellEnded tells the devices of sessions that these have ended: their streams end.
func (a *Access) tellEnded(ctx context.Context, sessions []backoffice.Session, why string, now time.Time) error {
	if a.Notices == nil {
		return nil
	}
	var errs []error
	for i := range sessions {
		s := &sessions[i]
		errs = append(errs, a.Notices.Notify(ctx, backoffice.Notice{
			Channel: backoffice.ChannelSession, Type: why, Tenant: s.Tenant, Operator: s.Operator, Device: s.Device, At: now,
		}))
	}
	return errors.Join(errs...)
}

// ReportReplay tells that a used proof was sent again.
func (a *Access) ReportReplay(ctx context.Context, c backoffice.Caller, o backoffice.Occasion, now time.Time) error {
	e, err := a.news.Event(ReplayBlocked{BlockedAt: bff.At(now), IPHash: c.IPHash, FingerprintHash: c.FingerprintHash},
		backoffice.About{Tenant: c.Tenant, Operator: c.Operator, Device: c.Device, App: c.App}, o, now)
	if err != nil {
		return err
	}
	did := backoffice.Activity{
		ID: bff.NewID(bff.PrefixActivity, now), Tenant: c.Tenant, Operator: c.Operator, Device: c.Device, At: now,
		Category: categoryRequest, Action: "replay", Context: backoffice.ContextHash(c.IPHash, c.FingerprintHash),
	}
	return a.journal.Record(ctx, []backoffice.Activity{did.Ended(ErrReplayed(), now)}, e)
}

// Attest keeps an attestation of a second factor that iam has verified. Its event is
// written first: a second factor that cannot be audited is none.
func (a *Access) Attest(
	ctx context.Context, kept backoffice.Attestations, v *backoffice.Visit, use backoffice.Use, now time.Time,
) (backoffice.Attestation, error) {
	s := v.Session
	att := backoffice.Attestation{
		ID: bff.NewID(bff.PrefixMFA, now), Tenant: s.Tenant, Operator: s.Operator, Device: s.Device, Session: s.ID,
		Scope: use.Scope, Resource: use.Resource, ExpiresAt: now.Add(backoffice.AttestationLifetime),
	}
	e, err := a.news.Event(StepUpCompleted{
		AttestationID: att.ID, Scope: att.Scope, ResourceID: att.Resource, ExpiresAt: bff.At(att.ExpiresAt),
	}, s.About(), v.Request, now)
	if err != nil {
		return backoffice.Attestation{}, err
	}
	did := v.Activity(categoryMFA, string(use.Scope), backoffice.Resource{ID: use.Resource}, now)
	if err := a.journal.Record(ctx, []backoffice.Activity{did}, e); err != nil {
		return backoffice.Attestation{}, err
	}
	return att, backoffice.Away(kept.AddAttestation(ctx, att))
}

// ErrReplayed refuses a proof that was used before.
func ErrReplayed() error {
	return bff.Errorf(bff.CodeDPoPReplayed, "this proof was used before: sign a new one for every request, also for a retry")
}

func errRevoked() error {
	return bff.Errorf(bff.CodeSessionRevoked, "this session was ended: sign in again")
}

func errSuspended() error {
	return bff.Errorf(bff.CodeStaffTenantSuspended, "this tenant is suspended: ask its owner")
}

// RefuseRoute is Refuse for a route that the visitor may not use.
func (a *Access) RefuseRoute(ctx context.Context, v *backoffice.Visit, route string, refusal error, now time.Time) error {
	return backoffice.Refuse(ctx, a.journal, v.Activity(categoryRequest, route, backoffice.Resource{}, now), refusal, now)
}

// RefuseStepUp is Refuse for a second factor that was not given.
func (a *Access) RefuseStepUp(ctx context.Context, v *backoffice.Visit, use backoffice.Use, refusal error, now time.Time) error {
	return backoffice.Refuse(ctx, a.journal, v.Activity(categoryMFA, string(use.Scope), backoffice.Resource{ID: use.Resource}, now), refusal, now)
}

// Reasons why a session is closed.
const (
	ReasonSignedOut        = "signed_out"
	ReasonOperatorSwitched = "operator_switched"
	ReasonRevoked          = "revoked"
)

// SessionOpened is the payload of session.opened.v1.
type SessionOpened struct {
	SessionID       bff.ID        `json:"sessionId"`
	OpenedAt        bff.Timestamp `json:"openedAt"`
	IPHash          string        `json:"ipHash"`
	FingerprintHash string        `json:"fingerprintHash"`
	ReplacedSession *bff.ID       `json:"replacedSessionId,omitempty"`
}

// Subject implements backoffice.Fact.
func (SessionOpened) Subject() backoffice.Subject { return backoffice.SubjectSessionOpened }

// actionOutgrown is a session's end in the ledger because its operator has opened too
// many; its event is a revocation that names the session that was opened.
const actionOutgrown = "outgrown"

// SessionClosed is the payload of session.closed.v1.
type SessionClosed struct {
	SessionID bff.ID        `json:"sessionId"`
	OpenedAt  bff.Timestamp `json:"openedAt"`
	ClosedAt  bff.Timestamp `json:"closedAt"`
	Reason    string        `json:"reason"`
	// OutgrownBy is the session whose opening was one too many for the operator; this was
	// the oldest of its sessions.
	OutgrownBy *bff.ID `json:"outgrownBy,omitempty"`
}

// Subject implements backoffice.Fact.
func (SessionClosed) Subject() backoffice.Subject { return backoffice.SubjectSessionClosed }

// SessionForceLoggedOut is the payload of session.force_logged_out.v1.
type SessionForceLoggedOut struct {
	Reason    string        `json:"reason"`
	RevokedAt bff.Timestamp `json:"revokedAt"`
	Sessions  []bff.ID      `json:"sessionIds"`
}

// Subject implements backoffice.Fact.
func (SessionForceLoggedOut) Subject() backoffice.Subject {
	return backoffice.SubjectSessionForceLoggedOut
}

// StepUpCompleted is the payload of mfa.step_up_completed.v1.
type StepUpCompleted struct {
	AttestationID bff.ID                      `json:"attestationId"`
	Scope         backoffice.AttestationScope `json:"scope"`
	ResourceID    string                      `json:"resourceId,omitempty"`
	ExpiresAt     bff.Timestamp               `json:"expiresAt"`
}

// Subject implements backoffice.Fact.
func (StepUpCompleted) Subject() backoffice.Subject { return backoffice.SubjectStepUpCompleted }

// ReplayBlocked is the payload of dpop.replay_blocked.v1.
type ReplayBlocked struct {
	BlockedAt       bff.Timestamp `json:"blockedAt"`
	IPHash          string        `json:"ipHash"`
	FingerprintHash string        `json:"fingerprintHash"`
}

// Subject implements backoffice.Fact.
func (ReplayBlocked) Subject() backoffice.Subject { return backoffice.SubjectReplayBlocked }
