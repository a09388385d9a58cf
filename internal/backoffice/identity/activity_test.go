package identity_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/identity"
)

// sessions play the session tier: a device with or without a session.
type sessions struct {
	identity.Sessions
	state   identity.AccessState
	revoked []backoffice.Session
	closed  int
}

func (s *sessions) Enter(context.Context, backoffice.Caller, identity.Proof, time.Time) (identity.AccessState, error) {
	return s.state, nil
}

func (s *sessions) OpenSession(_ context.Context, _ backoffice.Caller, fresh backoffice.Session, _ *backoffice.Session) (backoffice.Session, error) {
	return fresh, nil
}

func (s *sessions) Announced(context.Context, backoffice.Session) error { return nil }

func (s *sessions) CloseSession(context.Context, backoffice.Session, backoffice.Ending) error {
	s.closed++
	return nil
}

func (s *sessions) Revoke(context.Context, identity.Revocation) ([]backoffice.Session, error) {
	return s.revoked, nil
}

func (s *sessions) ListOutgrown(context.Context, backoffice.Session) ([]backoffice.Session, error) {
	return nil, nil
}

func (s *sessions) RemoveSessions(context.Context, []backoffice.Session) error { return nil }

type members struct{}

func (members) FindMember(context.Context, bff.ID, string, string) (*backoffice.Member, error) {
	return &backoffice.Member{DisplayName: "Zarghuna Ahmadzai", Roles: []backoffice.Role{backoffice.FrontDesk, backoffice.Finance}}, nil
}

// journal remembers what was recorded, or fails.
type journal struct {
	did  []string
	at   []time.Time
	told []string
	err  error
}

func (j *journal) Record(_ context.Context, did []backoffice.Activity, events ...bff.Event) error {
	if j.err != nil {
		return j.err
	}
	for _, a := range did {
		if a.ID.Prefix() != bff.PrefixActivity || a.Tenant != tenant || a.Device != device || a.Context == "" || a.At.IsZero() {
			return fmt.Errorf("incomplete: %+v", a)
		}
		j.at = append(j.at, a.At)
		j.did = append(j.did, fmt.Sprint(a.Operator, " ", a.Category, " ", a.Action, " ", a.Roles, " ", a.Outcome, " ", a.Code))
	}
	for _, e := range events {
		j.told = append(j.told, e.Envelope.Subject)
	}
	return nil
}

func caller(operator string) backoffice.Caller {
	return backoffice.Caller{Tenant: tenant, Operator: operator, Device: device, TokenIssued: began, IPHash: "ip", FingerprintHash: "ua"}
}

// An opening that could not be recorded is recorded with a later request: as of its own moment, or as of now if the ledger would
// refuse that for its age.
func TestOpeningIsRecordedLate(t *testing.T) {
	t.Parallel()
	for late, want := range map[time.Duration]time.Duration{45 * time.Minute: 0, 45*time.Minute + time.Second: 45*time.Minute + time.Second} {
		s, j := &sessions{}, &journal{err: errors.New("away")}
		access := identity.NewAccess(s, members{}, j, backoffice.NewEnvelopes("test"))
		visit, err := access.Enter(t.Context(), caller("opt_1"), identity.Proof{}, backoffice.Occasion{}, began)
		if err != nil {
			t.Fatal(err)
		}
		s.state.Session, j.err = &visit.Session, nil
		if _, err := access.Enter(t.Context(), caller("opt_1"), identity.Proof{}, backoffice.Occasion{}, began.Add(late)); err != nil {
			t.Fatal(err)
		}
		if len(j.at) != 1 || !j.at[0].Equal(began.Add(want)) {
			t.Errorf("after %s it was recorded as of %v, want %s", late, j.at, began.Add(want))
		}
	}
}

// Whatever opens, ends or is refused leaves its entry, together with its event.
func TestAccessIsRecorded(t *testing.T) {
	t.Parallel()
	s, j := &sessions{}, &journal{}
	access := identity.NewAccess(s, members{}, j, backoffice.NewEnvelopes("test"))
	ctx, o := t.Context(), backoffice.Occasion{}
	visit, err := access.Enter(ctx, caller("opt_1"), identity.Proof{}, o, began)
	if err != nil {
		t.Fatal(err)
	}
	old := visit.Session
	s.state.Session = &old
	switched := caller("opt_2")
	switched.TokenIssued = began.Add(time.Minute)
	if visit, err = access.Enter(ctx, switched, identity.Proof{}, o, began.Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if err := access.SignOut(ctx, visit, began); err != nil {
		t.Fatal(err)
	}
	s.revoked = []backoffice.Session{visit.Session}
	if err := access.Revoke(ctx, identity.Revocation{Tenant: tenant, Reason: "stolen", At: began}, o, began); err != nil {
		t.Fatal(err)
	}
	if err := access.ReportReplay(ctx, switched, o, began); err != nil {
		t.Fatal(err)
	}
	role := bff.Errorf(bff.CodeRoleDenied, "no")
	if err := access.RefuseRoute(ctx, visit, "POST /locks/{id}/revoke-key", role, began); !errors.Is(err, role) {
		t.Fatal(err)
	}
	use := backoffice.Use{Scope: backoffice.ScopeRefund, Resource: "fol_1"}
	wrong := bff.Errorf(bff.CodeMFAAttestationInvalid, "wrong code")
	if err := access.RefuseStepUp(ctx, visit, use, wrong, began); !errors.Is(err, wrong) {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{
		"opt_1 session opened [front_desk finance] success ",
		"opt_2 session opened [front_desk finance] success ",
		"opt_1 session operator_switched [] success ",
		"opt_2 session signed_out [front_desk finance] success ",
		"opt_2 session revoked [] success ",
		"opt_2 request replay [] denied " + string(bff.CodeDPoPReplayed),
		"opt_2 request POST /locks/{id}/revoke-key [front_desk finance] denied " + string(bff.CodeRoleDenied),
		"opt_2 mfa folio.refund [front_desk finance] denied " + string(bff.CodeMFAAttestationInvalid),
	}, j.did); diff != "" {
		t.Errorf("ledger (-want +got):\n%s", diff)
	}
	slices.Sort(j.told)
	if diff := cmp.Diff([]string{
		string(backoffice.SubjectReplayBlocked),
		string(backoffice.SubjectSessionClosed), string(backoffice.SubjectSessionClosed), string(backoffice.SubjectSessionClosed),
		string(backoffice.SubjectSessionForceLoggedOut),
		string(backoffice.SubjectSessionOpened), string(backoffice.SubjectSessionOpened),
	}, j.told); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// What cannot be recorded is not done, and a refusal without a trace is not told.
func TestNothingIsDoneUnrecorded(t *testing.T) {
	t.Parallel()
	s, j := &sessions{}, &journal{}
	access := identity.NewAccess(s, members{}, j, backoffice.NewEnvelopes("test"))
	visit, err := access.Enter(t.Context(), caller("opt_1"), identity.Proof{}, backoffice.Occasion{}, began)
	if err != nil {
		t.Fatal(err)
	}
	j.err = bff.Errorf(bff.CodeServiceUnavailable, "away")
	if err := access.SignOut(t.Context(), visit, began); !errors.Is(err, j.err) || s.closed != 0 {
		t.Errorf("sign-out: %v, %d closed", err, s.closed)
	}
	if err := access.RefuseRoute(t.Context(), visit, "GET /x", bff.Errorf(bff.CodeRoleDenied, "no"), began); !errors.Is(err, j.err) {
		t.Errorf("refusal: %v", err)
	}
	if _, err := access.Attest(t.Context(), nil, visit, backoffice.Use{Scope: backoffice.ScopeRefund}, began); !errors.Is(err, j.err) {
		t.Errorf("attestation: %v", err)
	}
}
