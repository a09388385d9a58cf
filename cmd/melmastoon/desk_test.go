package main_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"melmastoon.ghasi.io/bff/internal/local/sim"
	"melmastoon.ghasi.io/bff/internal/testkit"
	"melmastoon.ghasi.io/bff/internal/world"
)

// deskRun runs `melmastoon desk` against a simulator and a service that accepts
// everything.
type deskRun struct {
	t    *testing.T
	home string
	mu   sync.Mutex
	seen []*http.Request // the service's
}

func newDeskRun(t *testing.T) *deskRun {
	t.Helper()
	s, err := sim.New(sim.Config{Latency: map[string]sim.Latency{}})
	if err != nil {
		t.Fatal(err)
	}
	upstreams := httptest.NewServer(s.Handler())
	t.Cleanup(upstreams.Close)
	k := &deskRun{t: t, home: t.TempDir()}
	service := httptest.NewServer(http.HandlerFunc(k.serve))
	t.Cleanup(service.Close)
	withdraw, err := world.World{Home: k.home, Environment: map[string]string{
		"MELMASTOON_BACKOFFICE_URL": service.URL, "MELMASTOON_SIM_URL": upstreams.URL,
	}}.Announce()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = withdraw() }) // with the directory
	return k
}

func (k *deskRun) serve(w http.ResponseWriter, r *http.Request) {
	k.mu.Lock()
	k.seen = append(k.seen, r)
	k.mu.Unlock()
	switch r.URL.Path {
	case "/bff/backoffice/v1/sse/stream":
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = fmt.Fprint(w, "event: ping\ndata: {}\n\nid: 1-1\nevent: alerts\ndata: {\"n\":1}\n\nevent: superseded\ndata: {}\n\n")
	case "/bff/backoffice/v1/auth/mfa/step-up":
		_, _ = fmt.Fprint(w, `{"attestationId":"mfa_1","expiresAt":"2026-05-04T12:00:00Z"}`)
	case "/bff/backoffice/v1/auth/sign-out":
		w.WriteHeader(http.StatusNoContent)
	case "/bff/backoffice/v1/nothing":
		w.WriteHeader(http.StatusNotFound)
		_, _ = fmt.Fprint(w, `{"error":{"code":"NOT_FOUND"}}`)
	default:
		_, _ = fmt.Fprintf(w, `{"method":%q,"device":%q}`, r.Method, r.Header.Get("X-Device-Id"))
	}
}

// run returns what a command prints, and its exit status.
func (k *deskRun) run(args ...string) (out, notes string, status int) {
	k.t.Helper()
	cmd := exec.CommandContext(testkit.Context(k.t), testkit.Binary(k.t, "melmastoon"), append([]string{"desk"}, args...)...)
	cmd.Env = append(os.Environ(), "MELMASTOON_HOME="+k.home)
	cmd.Stdin = strings.NewReader(`{"from":"stdin"}`)
	return runCommand(k.t, cmd)
}

// runCommand returns what a command prints, and its exit status.
func runCommand(t *testing.T, cmd *exec.Cmd) (out, notes string, status int) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return stdout.String(), stderr.String(), exit.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	return stdout.String(), stderr.String(), 0
}

func TestDesk(t *testing.T) {
	t.Parallel()
	k := newDeskRun(t)
	for _, c := range []struct {
		args               []string
		wantOut, wantNotes string
		wantStatus         int
	}{
		{[]string{"operators"}, "Bahram Sadat", "", 0},
		{[]string{"get", "/session"}, `{"method":"GET","device":"dev_`, "Signed in as Parwana Wardak, front_desk at ", 0},
		{[]string{"post", "/preferences", `{"a":1}`}, `{"method":"POST"`, "", 0},
		{[]string{"put", "/preferences", "-", "-H", "If-Match: 3"}, `{"method":"PUT"`, "", 0},
		{[]string{"post", "/preferences", `{`}, "", "not JSON", 1},
		{[]string{"get", "/nothing", "-i"}, "HTTP/1.1 404 Not Found", "404 Not Found", 1},
		{[]string{"follow"}, "1-1 alerts {\"n\":1}\n", "newer stream", 1},
		{[]string{"step-up", "folio.refund"}, "mfa_1\n", "", 0},
		{[]string{"sign-in", "bahram"}, "", "say which with --tenant", 1},
		{[]string{"sign-in", "nobody"}, "", "no operator is called", 1},
		{[]string{"sign-in", "karim"}, "", "Signed in as Karim Yusufzai", 0},
		{[]string{"sign-out"}, "", "Signed out.", 0},
		{[]string{"get", "/session"}, `{"method":"GET"`, "Signed in as Karim Yusufzai", 0},
		{[]string{"get", "/session", "--device", "second"}, `{"method":"GET"`, "Signed in as Parwana Wardak", 0},
		{[]string{"get", "/session", "--data", t.TempDir()}, "", "start one with 'melmastoon up'", 1},
		{[]string{"get", "/session", "--backoffice-url", "http://127.0.0.1:1", "--device", "third"}, "", "nothing answers at http://127.0.0.1:1", 1},
	} {
		out, notes, status := k.run(c.args...)
		if !strings.Contains(out, c.wantOut) || !strings.Contains(notes, c.wantNotes) || c.wantNotes == "" && notes != "" || status != c.wantStatus {
			t.Errorf("%v: status %d, want %d\n%s\n%s", c.args, status, c.wantStatus, out, notes)
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	put := k.seen[2]
	if put.Method != http.MethodPut || put.Header.Get("If-Match") != "3" || put.ContentLength != int64(len(`{"from":"stdin"}`)) ||
		len(put.Header.Get("X-Idempotency-Key")) != 26 {
		t.Errorf("%s %v", put.Method, put.Header)
	}
	devices := map[string]bool{}
	for _, r := range k.seen {
		devices[r.Header.Get("X-Device-Id")] = true
	}
	if len(devices) != 2 {
		t.Errorf("%d devices called, want desk and second", len(devices))
	}
}
