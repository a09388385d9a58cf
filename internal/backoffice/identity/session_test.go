package identity_test

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficetest"
	"melmastoon.ghasi.io/bff/internal/backoffice/identity"
)

// tier plays the session tier, tenant-service, the ledger and the streams, and remembers in
// which order they were called. What is named in fails fails.
type tier struct {
	identity.Sessions

	state    identity.AccessState
	member   *backoffice.Member   // nil = none
	others   []backoffice.Session // that open in place of the caller's, one after the other
	outgrown []backoffice.Session
	revoked  []backoffice.Session
	fails    map[string]error // by the call, or the call with its number

	calls    []string
	did      []backoffice.Activity
	events   []bff.Event
	notices  []backoffice.Notice
	attested backoffice.Attestation
	ending   backoffice.Ending
}

func (s *tier) call(name string) error {
	s.calls = append(s.calls, name)
	n := 0
	for _, c := range s.calls {
		if c == name {
			n++
		}
	}
	return errors.Join(s.fails[name], s.fails[name+" "+strconv.Itoa(n)])
}

func (s *tier) Enter(context.Context, backoffice.Caller, identity.Proof, time.Time) (identity.AccessState, error) {
	return s.state, s.call("enter")
}

func (s *tier) Burn(context.Context, identity.Proof, time.Time) (identity.AccessState, error) {
	return s.state, s.call("burn")
}

func (s *tier) FindMember(_ context.Context, _ bff.ID, _, version string) (*backoffice.Member, error) {
	if err := s.call("member " + version); err != nil {
		return nil, err
	}
	if s.member == nil {
		return nil, backoffice.ErrNoMember
	}
	return s.member, nil
}

func (s *tier) OpenSession(_ context.Context, _ backoffice.Caller, fresh backoffice.Session, _ *backoffice.Session) (backoffice.Session, error) {
	if len(s.others) > 0 {
		fresh, s.others = s.others[0], s.others[1:]
	}
	return fresh, s.call("open")
}

func (s *tier) Announced(context.Context, backoffice.Session) error { return s.call("announced") }

func (s *tier) CloseSession(_ context.Context, _ backoffice.Session, e backoffice.Ending) error {
	s.ending = e
	return s.call("close")
}

func (s *tier) Revoke(context.Context, identity.Revocation) ([]backoffice.Session, error) {
	return s.revoked, s.call("revoke")
}

func (s *tier) ListOutgrown(context.Context, backoffice.Session) ([]backoffice.Session, error) {
	return s.outgrown, s.call("outgrown")
}

func (s *tier) Refuse(context.Context, []backoffice.Session, time.Time) error {
	return s.call("refuse")
}

func (s *tier) RemoveSessions(context.Context, []backoffice.Session) error { return s.call("remove") }

func (s *tier) AddAttestation(_ context.Context, a backoffice.Attestation) error {
	s.attested = a
	return s.call("attest")
}

func (*tier) FindAttestation(context.Context, bff.ID, bff.ID) (backoffice.Attestation, error) {
	return backoffice.Attestation{}, backoffice.ErrNoAttestation
}

func (*tier) UseAttestation(context.Context, backoffice.Attestation, string) (bool, error) {
	return false, nil
}

func (s *tier) Record(ctx context.Context, did []backoffice.Activity, events ...bff.Event) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	s.did, s.events = append(s.did, did...), append(s.events, events...)
	return s.call("record")
}

func (s *tier) Notify(_ context.Context, n backoffice.Notice) error {
	s.notices = append(s.notices, n)
	return s.call("notify")
}

func (s *tier) access() *identity.Access {
	a := identity.NewAccess(s, s, s, backoffice.NewEnvelopes("test"))
	a.Notices = s
	return a
}

// A caller is refused for the first thing that is known against it, and what is not known
// refuses as well.
func TestEnterRefuses(t *testing.T) {
	t.Parallel()
	later := backoffice.Session{ID: bff.NewID(bff.PrefixBackofficeLogin, began), Operator: "opt_2", TokenIssued: began.Add(time.Second)}
	everything := identity.AccessState{
		Born: began.Add(time.Second), Replayed: true, Tombstones: identity.Tombstones{Device: began}, Suspended: true, Members: "v7", Session: &later,
	}
	with := func(change func(*identity.AccessState)) identity.AccessState {
		st := everything
		change(&st)
		return st
	}
	born := func(st *identity.AccessState) { st.Born = began }
	unused := func(st *identity.AccessState) { born(st); st.Replayed = false }
	alive := func(st *identity.AccessState) { unused(st); st.Tombstones = identity.Tombstones{} }
	state := func(st *identity.AccessState) { alive(st); st.Suspended = false }
	free := func(st *identity.AccessState) { state(st); st.Session = nil }
	away := errors.New("away")
	for name, tc := range map[string]struct {
		state  identity.AccessState
		member *backoffice.Member
		others []backoffice.Session
		fails  map[string]error
		look   bool
		want   bff.Code
		calls  []string
	}{
		"tier away":   {state: with(free), fails: map[string]error{"enter": away}, want: bff.CodeServiceUnavailable, calls: []string{"enter"}},
		"tier forgot": {state: everything, want: bff.CodeTokenExpired, calls: []string{"enter"}},
		"replayed":    {state: with(born), want: bff.CodeDPoPReplayed, calls: []string{"enter"}},
		"revoked":     {state: with(unused), want: bff.CodeSessionRevoked, calls: []string{"enter"}},
		"suspended":   {state: with(alive), want: bff.CodeStaffTenantSuspended, calls: []string{"enter"}},
		"no member":   {state: with(state), want: bff.CodeSessionRevoked, calls: []string{"enter", "member v7"}},
		"members away": {
			state: with(state), fails: map[string]error{"member v7": bff.Errorf(bff.CodeUpstreamTimeout, "x")}, want: bff.CodeUpstreamTimeout,
			calls: []string{"enter", "member v7"},
		},
		"of a suspended": {
			state: with(state), member: &backoffice.Member{Suspended: true}, want: bff.CodeStaffTenantSuspended, calls: []string{"enter", "member v7"},
		},
		"only looked at": {state: with(state), member: &backoffice.Member{}, look: true, calls: []string{"enter", "member v7"}},
		"later sign-in":  {state: with(state), member: &backoffice.Member{}, want: bff.CodeSessionRevoked, calls: []string{"enter", "member v7"}},
		"opening fails": {
			state: with(free), member: &backoffice.Member{}, fails: map[string]error{"open": away}, want: bff.CodeServiceUnavailable,
			calls: []string{"enter", "member v7", "open"},
		},
		"logged out": {
			state: with(free), member: &backoffice.Member{}, fails: map[string]error{"open": identity.ErrRevoked}, want: bff.CodeSessionRevoked,
			calls: []string{"enter", "member v7", "open"},
		},
		"later meantime": {
			state: with(free), member: &backoffice.Member{}, others: []backoffice.Session{later}, want: bff.CodeSessionRevoked,
			calls: []string{"enter", "member v7", "open"},
		},
		"too many": {
			state: with(free), member: &backoffice.Member{}, others: []backoffice.Session{{Operator: "opt_2"}, {Operator: "opt_3"}, {Operator: "opt_4"}},
			want: bff.CodeServiceUnavailable, calls: []string{"enter", "member v7", "open", "open", "open"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &tier{state: tc.state, member: tc.member, others: tc.others, fails: tc.fails}
			v, err := s.access().Enter(t.Context(), caller("opt_1"), identity.Proof{Look: tc.look}, backoffice.Occasion{}, began)
			if backofficetest.CodeOf(err) != tc.want || v != nil {
				t.Errorf("%+v, %v; want %q", v, err, tc.want)
			}
			if diff := cmp.Diff(tc.calls, s.calls); diff != "" {
				t.Errorf("called (-want +got):\n%s", diff)
			}
			if e, ok := errors.AsType[*bff.Error](err); tc.want == bff.CodeServiceUnavailable && (!ok || e.RetryAfter <= 0) {
				t.Errorf("not to be tried again: %v", err)
			}
		})
	}
}

// A session that stands is entered; another operator's, one that was ended and is only not
// yet removed, and none are replaced.
func TestEnterOpens(t *testing.T) {
	t.Parallel()
	own := backoffice.Session{
		ID: bff.NewID(bff.PrefixBackofficeLogin, began), Tenant: tenant, Operator: "opt_1", Device: device, TokenIssued: began.Add(-time.Hour),
		Announced: true,
	}
	theirs := own
	theirs.Operator, theirs.TokenIssued = "opt_2", began
	for name, tc := range map[string]struct {
		state    identity.AccessState
		opens    bool
		replaced string // operator
	}{
		"own":      {state: identity.AccessState{Session: &own}},
		"none":     {opens: true},
		"theirs":   {state: identity.AccessState{Session: &theirs}, opens: true, replaced: "opt_2"},
		"ended":    {state: identity.AccessState{Session: &own, Tombstones: identity.Tombstones{Tenant: began.Add(-time.Minute)}}, opens: true},
		"same age": {state: identity.AccessState{Born: began, Session: &own}},
	} {
		s := &tier{state: tc.state, member: &backoffice.Member{Roles: []backoffice.Role{backoffice.Owner}}}
		o := backoffice.Occasion{RequestID: bff.NewID(bff.PrefixRequest, began)}
		v, err := s.access().Enter(t.Context(), caller("opt_1"), identity.Proof{Issued: began.Add(-time.Second)}, o, began)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		opened := false
		for _, c := range s.calls {
			opened = opened || c == "open"
		}
		if opened != tc.opens || v.Session.Operator != "opt_1" || (v.Session.ID == own.ID) == tc.opens {
			t.Errorf("%s: %v, %+v", name, s.calls, v.Session)
		}
		if r := v.Session.Replaced; (r != nil) != (tc.replaced != "") || r != nil && r.Operator != tc.replaced {
			t.Errorf("%s: replaced %+v", name, r)
		}
		if v.Caller.Operator != "opt_1" || v.Member != s.member || v.Request != o || !v.Sent.Equal(began.Add(-time.Second)) {
			t.Errorf("%s: %+v", name, v)
		}
		if (len(s.did) > 0) != tc.opens {
			t.Errorf("%s: recorded %v", name, s.did)
		}
	}
}

// The opening of a session is announced in an order in which whatever is cut off is repeated
// as a whole, until all of it is done.
func TestAnnounce(t *testing.T) {
	t.Parallel()
	replaced := &backoffice.Replaced{ID: bff.NewID(bff.PrefixBackofficeLogin, began), Operator: "opt_2", OpenedAt: began.Add(-time.Hour)}
	session := backoffice.Session{
		ID: bff.NewID(bff.PrefixBackofficeLogin, began), Tenant: tenant, Operator: "opt_1", Device: device, OpenedAt: began, TokenIssued: began, IPHash: "ip",
		FingerprintHash: "ua",
		AppVersion:      "2.4", AppPlatform: "linux", Replaced: replaced,
	}
	oldest := backoffice.Session{
		ID: bff.NewID(bff.PrefixBackofficeLogin, began), Tenant: tenant, Operator: "opt_1", Device: bff.NewID(bff.PrefixDevice, began),
		OpenedAt: began.Add(-2 * time.Hour),
	}
	all := []string{"enter", "member ", "record", "notify", "outgrown", "record", "refuse", "notify", "remove", "announced"}
	away := errors.New("away")
	for name, tc := range map[string]struct {
		fails map[string]error
		calls int // of all
	}{
		"whole":     {nil, len(all)},
		"ledger":    {map[string]error{"record": away}, 3},
		"streams":   {map[string]error{"notify": away}, 4},
		"list":      {map[string]error{"outgrown": away}, 5},
		"ledger, 2": {map[string]error{"record 2": away}, 6},
		"tombstone": {map[string]error{"refuse": away}, 7},
		"stream, 2": {map[string]error{"notify 2": away}, 8},
		"keys":      {map[string]error{"remove": away}, 9},
		"mark":      {map[string]error{"announced": away}, 10},
	} {
		s := &tier{
			state: identity.AccessState{Session: &session}, member: &backoffice.Member{Roles: []backoffice.Role{backoffice.Owner}},
			outgrown: []backoffice.Session{oldest}, fails: tc.fails,
		}
		a := s.access()
		enter := func(at time.Time) {
			t.Helper()
			if _, err := a.Enter(t.Context(), caller("opt_1"), identity.Proof{}, backoffice.Occasion{}, at); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		enter(began)
		if diff := cmp.Diff(all[:tc.calls], s.calls); diff != "" {
			t.Errorf("%s: called (-want +got):\n%s", name, diff)
		}
		// After a failure there is a pause of two seconds.
		s.calls, s.fails = nil, nil
		enter(began.Add(2*time.Second - time.Millisecond))
		if quiet := len(s.calls) == 2; quiet == (tc.fails == nil) {
			t.Errorf("%s: in the pause called %v", name, s.calls)
		}
		s.calls = nil
		enter(began.Add(2 * time.Second))
		if diff := cmp.Diff(all, s.calls); diff != "" {
			t.Errorf("%s: called after the pause (-want +got):\n%s", name, diff)
		}
	}
	s := &tier{
		state: identity.AccessState{Session: &session}, member: &backoffice.Member{Roles: []backoffice.Role{backoffice.Owner}},
		outgrown: []backoffice.Session{oldest},
	}
	if _, err := s.access().Enter(t.Context(), caller("opt_1"), identity.Proof{}, backoffice.Occasion{}, finishedAt); err != nil {
		t.Fatal(err)
	}
	type row struct{ Operator, Device, Session, Action, At string }
	text := func(at time.Time) string { return at.Format(time.TimeOnly) }
	var rows []row
	for _, a := range s.did {
		rows = append(rows, row{a.Operator, a.Device.String(), a.Session.String(), a.Category + " " + a.Action, text(a.At)})
	}
	if diff := cmp.Diff([]row{
		{"opt_1", device.String(), session.ID.String(), "session opened", "10:00:00"},
		{"opt_2", device.String(), replaced.ID.String(), "session operator_switched", "10:00:00"},
		{"opt_1", oldest.Device.String(), oldest.ID.String(), "session outgrown", "10:00:01"},
	}, rows); diff != "" {
		t.Errorf("ledger (-want +got):\n%s", diff)
	}
	var told []map[string]any
	for _, e := range s.events {
		doc := map[string]any{"subject": e.Envelope.Subject, "operator": e.Envelope.OperatorID, "device": e.Envelope.DeviceID, "app": e.Envelope.AppVersion}
		if err := json.Unmarshal(e.Payload, &doc); err != nil {
			t.Fatal(err)
		}
		told = append(told, doc)
	}
	at := func(t time.Time) string { return bff.At(t).String() }
	if diff := cmp.Diff([]map[string]any{
		{
			"subject": string(backoffice.SubjectSessionClosed), "operator": "opt_2", "device": device.String(), "app": "", "sessionId": replaced.ID.String(),
			"openedAt": at(replaced.OpenedAt), "closedAt": at(began), "reason": "operator_switched",
		},
		{
			"subject": string(backoffice.SubjectSessionOpened), "operator": "opt_1", "device": device.String(), "app": "2.4", "sessionId": session.ID.String(),
			"openedAt": at(began), "ipHash": "ip", "fingerprintHash": "ua", "replacedSessionId": replaced.ID.String(),
		},
		{
			"subject": string(backoffice.SubjectSessionClosed), "operator": "opt_1", "device": oldest.Device.String(), "app": "", "sessionId": oldest.ID.String(),
			"openedAt": at(oldest.OpenedAt), "closedAt": at(finishedAt), "reason": "revoked", "outgrownBy": session.ID.String(),
		},
	}, told); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]backoffice.Notice{
		{Channel: backoffice.ChannelSession, Type: backoffice.SessionReplaced, Tenant: tenant, Operator: "opt_2", Device: device, At: finishedAt},
		{Channel: backoffice.ChannelSession, Type: backoffice.SessionOutgrown, Tenant: tenant, Operator: "opt_1", Device: oldest.Device, At: finishedAt},
	}, s.notices, sameIDs); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
	// What is announced again, by any instance, has the same ids: it is one opening.
	if _, err := s.access().Enter(t.Context(), caller("opt_1"), identity.Proof{}, backoffice.Occasion{}, finishedAt.Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	ids := map[string]bool{}
	for i := range s.did {
		if p := s.did[i].ID.Prefix(); p != bff.PrefixActivity {
			t.Errorf("an activity has the prefix %s", p)
		}
		if _, err := bff.ParseID(bff.PrefixEvent, s.events[i].Envelope.EventID); err != nil {
			t.Error(err)
		}
		ids[s.did[i].ID.String()], ids[s.events[i].Envelope.EventID] = true, true
	}
	if len(s.did) != 6 || len(ids) != 6 {
		t.Errorf("%d ids of twice three activities and events: %v", len(ids), ids)
	}
}

// A proof without a token is used up if it was made since the tier remembers.
func TestBurn(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		made, born time.Duration
		replayed   bool
		fails      error
		want       error
		code       bff.Code
	}{
		"good":        {made: 0, born: 0},
		"forgotten":   {made: -time.Second, born: 0, replayed: true, want: identity.ErrForgotten},
		"replayed":    {made: 0, born: 0, replayed: true, code: bff.CodeDPoPReplayed},
		"just lost":   {made: time.Minute, born: time.Millisecond, code: bff.CodeServiceUnavailable},
		"tier is off": {fails: errors.New("away"), code: bff.CodeServiceUnavailable},
	} {
		s := &tier{state: identity.AccessState{Born: began.Add(tc.born), Replayed: tc.replayed}, fails: map[string]error{"burn": tc.fails}}
		err := s.access().Burn(t.Context(), identity.Proof{Made: began.Add(tc.made)}, began)
		if tc.want != nil && !errors.Is(err, tc.want) || tc.want == nil && backofficetest.CodeOf(err) != tc.code {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A revocation's tombstones are written first and the keys go last, once all is recorded and
// told: what is cut off comes again and finds the sessions.
func TestRevoke(t *testing.T) {
	t.Parallel()
	ended := backoffice.Session{
		ID: bff.NewID(bff.PrefixBackofficeLogin, began), Tenant: tenant, Operator: "opt_1", Device: device, OpenedAt: began.Add(-time.Hour),
	}
	r := identity.Revocation{Tenant: tenant, Operator: "opt_1", Device: device, Reason: "stolen", At: began.Add(-time.Second)}
	all := []string{"revoke", "notify", "record", "remove"}
	for fails, calls := range map[string]int{"": 4, "revoke": 1, "notify": 3, "record": 3, "remove": 4} {
		s := &tier{revoked: []backoffice.Session{ended}, fails: map[string]error{fails: errors.New("away")}}
		if err := s.access().Revoke(t.Context(), r, backoffice.Occasion{Causation: "evt_1"}, began); (err != nil) != (fails != "") {
			t.Errorf("%q fails: %v", fails, err)
		}
		if diff := cmp.Diff(all[:calls], s.calls); diff != "" {
			t.Errorf("%q fails: called (-want +got):\n%s", fails, diff)
		}
	}
	s := &tier{revoked: []backoffice.Session{ended}}
	if err := s.access().Revoke(t.Context(), r, backoffice.Occasion{Causation: "evt_1"}, began); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]backoffice.Notice{
		{Channel: backoffice.ChannelSession, Type: backoffice.SessionRevoked, Tenant: tenant, Operator: "opt_1", Device: device, At: began},
	}, s.notices, sameIDs); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
	var forced identity.SessionForceLoggedOut
	var closed identity.SessionClosed
	if len(s.events) != 2 || json.Unmarshal(s.events[0].Payload, &closed) != nil || json.Unmarshal(s.events[1].Payload, &forced) != nil {
		t.Fatalf("%v", s.events)
	}
	if diff := cmp.Diff(identity.SessionForceLoggedOut{Reason: "stolen", RevokedAt: bff.At(r.At), Sessions: []bff.ID{ended.ID}}, forced, sameIDs); diff != "" {
		t.Errorf("forced (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(identity.SessionClosed{
		SessionID: ended.ID, OpenedAt: bff.At(ended.OpenedAt), ClosedAt: bff.At(began), Reason: "revoked",
	}, closed, sameIDs); diff != "" {
		t.Errorf("closed (-want +got):\n%s", diff)
	}
	for _, e := range s.events {
		if in := e.Envelope; in.OperatorID != "opt_1" || in.DeviceID != device.String() || in.TenantID == nil || in.CausationID == nil || *in.CausationID != "evt_1" {
			t.Errorf("envelope %+v", in)
		}
	}
}

// A sign-out is recorded before it is done, and refuses the token that asked; a second factor
// holds for the session, scope and resource that it was given for.
func TestSignOutAndAttest(t *testing.T) {
	t.Parallel()
	all := []string{"record", "close", "notify"}
	for fails, calls := range map[string]int{"": 3, "record": 1, "close": 2, "notify": 3} {
		v, s := visitor(), &tier{fails: map[string]error{fails: errors.New("away")}}
		v.Caller.TokenHash = "hash"
		if err := s.access().SignOut(t.Context(), v, began); (err != nil) != (fails != "") {
			t.Errorf("%q fails: %v", fails, err)
		}
		if diff := cmp.Diff(all[:calls], s.calls); diff != "" {
			t.Errorf("%q fails: called (-want +got):\n%s", fails, diff)
		}
		if fails == "" && (s.ending != backoffice.Ending{At: began, TokenHash: "hash"} || s.did[0].Resource != backoffice.Resource{
			Kind: "session", ID: v.Session.ID.String(),
		} ||
			s.notices[0].Type != backoffice.SessionSignedOut || !strings.Contains(string(s.events[0].Payload), `"reason":"signed_out"`)) {
			t.Errorf("%+v, %+v, %+v, %s", s.ending, s.did, s.notices, s.events[0].Payload)
		}
	}
	for fails, code := range map[string]bff.Code{"": "", "record": bff.CodeInternal, "attest": bff.CodeServiceUnavailable} {
		v, s := visitor(), &tier{fails: map[string]error{fails: errors.New("away")}}
		got, err := s.access().Attest(t.Context(), s, v, backoffice.Use{Scope: backoffice.ScopeRefund, Resource: "fol_1"}, began)
		if backofficetest.CodeOf(err) != code || fails == "" && got.ID.Prefix() != bff.PrefixMFA {
			t.Fatalf("%q fails: %+v, %v", fails, got, err)
		}
		if fails == "record" && len(s.calls) > 1 {
			t.Errorf("called %v", s.calls)
		}
		if fails != "" {
			continue
		}
		want := backoffice.Attestation{
			ID: got.ID, Tenant: tenant, Operator: "opt_1", Device: device, Session: v.Session.ID, Scope: backoffice.ScopeRefund, Resource: "fol_1",
			ExpiresAt: began.Add(5 * time.Minute),
		}
		if diff := cmp.Diff([]backoffice.Attestation{want, want}, []backoffice.Attestation{got, s.attested}, sameIDs); diff != "" {
			t.Errorf("attested (-want +got):\n%s", diff)
		}
		var told identity.StepUpCompleted
		if err := json.Unmarshal(s.events[0].Payload, &told); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(identity.StepUpCompleted{
			AttestationID: got.ID, Scope: got.Scope, ResourceID: "fol_1", ExpiresAt: bff.At(got.ExpiresAt),
		}, told, sameIDs); diff != "" {
			t.Errorf("told (-want +got):\n%s", diff)
		}
		if a := s.did[0]; a.Category != "mfa" || a.Action != "folio.refund" || a.Resource.ID != "fol_1" || a.Outcome != backoffice.Succeeded {
			t.Errorf("recorded %+v", a)
		}
	}
}

// A replay is told of the caller whose proof it was, with the traces of the sender.
func TestReportReplay(t *testing.T) {
	t.Parallel()
	s, c := &tier{}, caller("opt_1")
	c.App = backoffice.App{Version: "2.4", Platform: "linux"}
	if err := s.access().ReportReplay(t.Context(), c, backoffice.Occasion{}, began); err != nil {
		t.Fatal(err)
	}
	v := visitor()
	v.Property = bff.ID{}
	backofficetest.CheckEnvelope(t, s.events[0], v)
	want := `{"blockedAt":"2026-11-17T10:00:00.000Z","ipHash":"ip","fingerprintHash":"ua"}`
	if in := s.events[0].Envelope; string(s.events[0].Payload) != want || in.AppVersion != "2.4" || in.AppPlatform != "linux" {
		t.Errorf("%s of %+v", s.events[0].Payload, in)
	}
	if a := s.did[0]; a.Context != backoffice.ContextHash("ip", "ua") || a.Tenant != tenant || a.Device != device || a.Operator != "opt_1" ||
		a.ID.Prefix() != bff.PrefixActivity {
		t.Errorf("%+v", a)
	}
	s.fails = map[string]error{"record": errors.New("away")}
	if err := s.access().ReportReplay(t.Context(), c, backoffice.Occasion{}, began); err == nil {
		t.Error("reported without a ledger")
	}
}
