package main_test

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"melmastoon.ghasi.io/bff/internal/desk"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

// atDesk runs `melmastoon desk` in the running platform, and returns what it
// prints.
func atDesk(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(testkit.Context(t), os.Getenv(insideEnv), append([]string{"desk"}, args...)...) //nolint:gosec // our own binary
	var notes strings.Builder
	cmd.Stderr = &notes
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("desk %v: %v\n%s%s", args, err, out, notes.String())
	}
	return string(out)
}

// insideOperatorWorks is an operator's way through the commands, and an
// administrator who ends it.
func insideOperatorWorks(t *testing.T) {
	type session struct {
		SessionID, TenantID, OperatorID, DeviceID, DisplayName string
		Roles, PropertyScope                                   []string
	}
	who := func() (s session) {
		t.Helper()
		if err := json.Unmarshal([]byte(atDesk(t, "get", "/session")), &s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	parwana := who() // signs in by itself
	if parwana.DisplayName != "Parwana Wardak" || len(parwana.Roles) != 1 || parwana.Roles[0] != "front_desk" || len(parwana.PropertyScope) != 1 {
		t.Errorf("%+v", parwana)
	}
	if again := who(); again.SessionID != parwana.SessionID {
		t.Error("a second command opened a second session")
	}
	if id := atDesk(t, "step-up", "folio.refund"); !strings.HasPrefix(id, "mfa_") {
		t.Errorf("attestation %q", id)
	}
	atDesk(t, "sign-in", "karim")
	karim := who()
	if karim.DeviceID != parwana.DeviceID || karim.TenantID == parwana.TenantID || karim.OperatorID == parwana.OperatorID {
		t.Errorf("another operator at the same computer: %+v", karim)
	}

	c, err := desk.Open(filepath.Join(os.Getenv("MELMASTOON_DESK_DIR"), "desk.json"), desk.Config{
		BackofficeURL: os.Getenv("MELMASTOON_BACKOFFICE_URL"), IAMURL: os.Getenv("MELMASTOON_SIM_URL") + "/iam",
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Refresh(testkit.Context(t)); err != nil {
		t.Errorf("refresh through the service: %v", err)
	}
	event, err := json.Marshal(map[string]any{
		"topic": "melmastoon.iam.session.revoked.v1",
		"payload": map[string]string{
			"tenantId": karim.TenantID, "operatorId": karim.OperatorID, "reason": "left his laptop", "revokedAt": time.Now().UTC().Format(time.RFC3339Nano),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if a := send(t, http.MethodPost, os.Getenv("MELMASTOON_SIM_URL")+"/_sim/events", nil, event); a.status != http.StatusAccepted {
		t.Fatalf("revoke: %d %s", a.status, a.body)
	}
	testkit.Until(t, "the revocation has an effect", func() bool {
		a, err := c.Do(testkit.Context(t), http.MethodGet, "/session", nil)
		if err != nil {
			t.Fatal(err)
		}
		if a.Status != http.StatusOK && (!strings.HasSuffix(a.Err().Error(), "sign in again") || !strings.Contains(a.Err().Error(), "SESSION_REVOKED")) {
			t.Errorf("after a revocation: %v", a.Err())
		}
		return a.Status != http.StatusOK
	})
	atDesk(t, "sign-out")
}

// insideClockIsWrong is a computer a day behind, with a key of the other kind.
func insideClockIsWrong(t *testing.T) {
	ctx, now := testkit.Context(t), func() time.Time { return time.Now().Add(-26 * time.Hour) }
	device, err := desk.NewDevice(desk.EdDSA, now())
	if err != nil {
		t.Fatal(err)
	}
	c, err := desk.New(desk.Config{
		BackofficeURL: os.Getenv("MELMASTOON_BACKOFFICE_URL"), IAMURL: os.Getenv("MELMASTOON_SIM_URL") + "/iam", Device: device, Now: now,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.SignIn(ctx, desk.Operator{Username: "laila"}); err != nil {
		t.Fatal(err)
	}
	if err := c.Refresh(ctx); err != nil {
		t.Fatal(err)
	}
	var s struct{ DisplayName string }
	a, err := c.Do(ctx, http.MethodGet, "/session", nil)
	if err != nil || a.Err() != nil || a.Into(&s) != nil || s.DisplayName != "Laila Haidari" {
		t.Errorf("%+v, %v", a, err)
	}
}
