package backofficed

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/desk"
	"melmastoon.ghasi.io/bff/internal/local/platform"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

// newDesk is a computer that reaches one instance.
func (s *staff) newDesk(p *platform.Process, now func() time.Time) *desk.Client {
	s.t.Helper()
	d, err := desk.New(desk.Config{BackofficeURL: "http://" + p.Public, IAMURL: s.SimURL + "/iam", Now: now})
	if err != nil {
		s.t.Fatal(err)
	}
	return d
}

// do calls and returns an answer of the wanted status. The timeouts are those of
// production: a read that a busy machine could not serve is asked for once more.
func (s *staff) do(d *desk.Client, want int, method, path string, body any) *desk.Answer {
	s.t.Helper()
	ctx := testkit.Context(s.t)
	a, err := d.Do(ctx, method, path, body)
	for err == nil && a.Status >= http.StatusServiceUnavailable && a.Status != want && method == http.MethodGet && ctx.Err() == nil {
		a, err = d.Do(ctx, method, path, body)
	}
	if err != nil {
		s.t.Fatalf("%s %s: %v", method, path, err)
	}
	if a.Status != want {
		s.t.Fatalf("%s %s: %d, want %d: %s", method, path, a.Status, want, a.Body)
	}
	return a
}

type who struct {
	SessionID, TenantID, OperatorID, DeviceID, DisplayName string
	Roles, PropertyScope                                   []string
	Flags                                                  map[string]bool
	OpenedAt, ExpiresAt, ServerTime                        time.Time
}

func (s *staff) whoAmI(d *desk.Client) who {
	s.t.Helper()
	var w who
	if err := s.do(d, http.StatusOK, http.MethodGet, "/session", nil).Into(&w); err != nil {
		s.t.Fatal(err)
	}
	return w
}

func (s *staff) signIn(d *desk.Client, name string) {
	s.t.Helper()
	if err := d.SignIn(testkit.Context(s.t), desk.Operator{Username: name}); err != nil {
		s.t.Fatal(err)
	}
}

// While Postgres hangs reads are served, and what must be recorded first is refused as
// by a store that is away, not as by an upstream that is late; then all goes on.
func TestDeskWhilePostgresHangs(t *testing.T) {
	t.Parallel()
	s := &staff{t: t, World: testkit.NewWorld(t, nil)}
	line := testkit.NewLine(t, s.PostgresURL)
	s.PostgresURL = line.URL
	p := s.Start("bff-backoffice", map[string]string{"BFF_BACKOFFICE_LIMITS": "off"})
	d := s.newDesk(p, nil)
	line.Hang()
	s.signIn(d, "parwana")
	s.whoAmI(d) // its opening cannot be announced
	const notAllowed = "/activity"
	refused := func() {
		t.Helper()
		a := s.do(d, http.StatusServiceUnavailable, http.MethodGet, notAllowed, nil)
		if !bytes.Contains(a.Body, []byte(bff.CodeServiceUnavailable)) {
			t.Errorf("%s", a.Body)
		}
	}
	refused()
	s.figures(p, "bff_backoffice_postgres_away 1")
	refused()
	s.whoAmI(d)
	line.Resume()
	s.do(d, http.StatusForbidden, http.MethodGet, notAllowed, nil)
	s.do(d, http.StatusNoContent, http.MethodPost, "/auth/sign-out", nil)
}

// A day at a desk: sign in, work, refresh, step up, sign out; and be logged out by
// iam's event, which one instance receives, at another, while a stream is open.
func TestDesk(t *testing.T) {
	t.Parallel()
	s := &staff{t: t, World: testkit.NewWorld(t, nil)}
	first := s.Start("bff-backoffice", map[string]string{"BFF_BACKOFFICE_LIMITS": "off"})
	d := s.newDesk(first, nil)
	s.signIn(d, "parwana")
	w := s.whoAmI(d)
	if w.DeviceID != d.Device().ID() || !slices.Equal(w.Roles, []string{"front_desk"}) || w.DisplayName == "" || len(w.PropertyScope) == 0 || w.Flags == nil ||
		w.ExpiresAt.Sub(w.ServerTime) != 12*time.Hour {
		t.Errorf("%+v", w)
	}
	if err := d.Refresh(testkit.Context(t)); err != nil {
		t.Fatal(err)
	}
	if again := s.whoAmI(d); again.SessionID != w.SessionID {
		t.Errorf("a refresh opened another session: %+v", again)
	}
	s.do(d, http.StatusOK, http.MethodGet, "/api/bff/backoffice/v1/session", nil)
	if id, err := d.StepUp(testkit.Context(t), "folio.refund", "", "000000"); err != nil || id == "" {
		t.Errorf("step up: %q, %v", id, err)
	}
	if _, err := d.StepUp(testkit.Context(t), "folio.refund", "", "123456"); err == nil {
		t.Error("a wrong code was attested")
	}

	wrong := s.newDesk(first, func() time.Time { return time.Now().AddDate(-3, 0, 0) })
	s.signIn(wrong, "karim")
	s.whoAmI(wrong)

	if err := d.SignOut(testkit.Context(t)); err != nil {
		t.Fatal(err)
	}
	s.signIn(d, "parwana")
	after := s.whoAmI(d)
	if after.SessionID == w.SessionID {
		t.Error("a session that was signed out of lives on")
	}

	// The second instance has the same public address; requests reach it directly.
	second := s.Start("bff-backoffice", map[string]string{"BFF_BACKOFFICE_LIMITS": "off", "BFF_BACKOFFICE_PUBLIC_URLS": "http://" + first.Public})
	payload, err := json.Marshal(map[string]string{"tenantId": after.TenantID, "operatorId": after.OperatorID, "deviceId": after.DeviceID, "reason": "lost"})
	if err != nil {
		t.Fatal(err)
	}
	events := s.listen(d)
	if _, _, err := s.Sim.Emit(testkit.Context(t), "melmastoon.iam.session.revoked.v1", payload); err != nil {
		t.Fatal(err)
	}
	s.await(events, "session", "session.revoked")
	ctx := testkit.Context(t)
	for at, p := range []*platform.Process{second, first} {
		for {
			code := s.sessionAt(d, first, p)
			if strings.HasSuffix(code, "SESSION_REVOKED") {
				break
			}
			if code != "" || ctx.Err() != nil {
				t.Fatalf("instance %d: %q", at, code)
			}
		}
	}
}

// sessionAt asks an instance, which need not be the one at the public address, and
// returns the code of its refusal.
func (s *staff) sessionAt(d *desk.Client, public, at *platform.Process) string {
	s.t.Helper()
	ctx := testkit.Context(s.t)
	token, err := d.AccessToken(ctx)
	if err != nil {
		s.t.Fatal(err)
	}
	const path = "/bff/backoffice/v1/session"
	proof, err := d.Device().Prove(desk.Proof{Method: http.MethodGet, URL: "http://" + public.Public + path, AccessToken: token, At: time.Now()})
	if err != nil {
		s.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+at.Public+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header = http.Header{"Authorization": {"DPoP " + token}, "Dpop": {proof}, "X-Device-Id": {d.Device().ID()}}
	res, err := (&http.Client{Timeout: time.Minute}).Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	var doc struct{ Error struct{ Code string } }
	if err := json.NewDecoder(res.Body).Decode(&doc); err != nil {
		s.t.Fatal(err)
	}
	return doc.Error.Code
}
