package backofficeupstream

import (
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/identity"
	"melmastoon.ghasi.io/bff/internal/upstream"
)

// inProcess answers without a network, whose timeouts a busy machine would meet.
type inProcess http.HandlerFunc

func (h inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	if r = r.Clone(r.Context()); r.Body == nil {
		r.Body = http.NoBody
	}
	h(w, r)
	return w.Result(), nil
}

// serve answers every call with a status and a body, and keeps the last request.
func serve(t *testing.T, answer func(path string) (int, string)) (*Upstreams, *http.Request, *map[string]string) {
	t.Helper()
	var (
		mu   sync.Mutex
		last http.Request
	)
	sent := map[string]string{}
	platform := inProcess(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		last.Header, last.URL = r.Header.Clone(), r.URL
		if b, err := io.ReadAll(r.Body); err == nil && len(b) > 0 {
			_ = json.Unmarshal(b, &sent) // a body of other values shows nothing
		}
		status, body := answer(r.URL.Path)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	})
	urls := map[backoffice.Upstream]string{}
	for _, name := range backoffice.Upstreams() {
		urls[name] = "http://" + string(name)
	}
	u, err := New(Config{URLs: urls, Transport: platform, Metrics: prometheus.NewRegistry(), Namespace: "test", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return u, &last, &sent
}

func refusal(code string) string { return `{"error":{"code":"` + code + `"}}` }

func TestIAM(t *testing.T) {
	t.Parallel()
	device := bff.NewID(bff.PrefixDevice, time.Now())
	session := &backoffice.Session{Tenant: bff.NewID(bff.PrefixTenant, time.Now()), Operator: "opt_1", Device: device}
	refresh := func(u *Upstreams) error {
		_, err := u.IAM.Refresh(t.Context(), &identity.Holder{Device: device, Proof: "the proof"}, "rft_1", "again")
		return err
	}
	stepUp := func(u *Upstreams) error {
		return u.IAM.StepUp(t.Context(), session, backoffice.Use{Scope: backoffice.ScopeRefund}, "000000")
	}
	for name, test := range map[string]struct {
		call   func(*Upstreams) error
		status int
		body   string
		want   bff.Code
	}{
		"refreshed":               {refresh, 200, `{"accessToken":"a","refreshToken":"b","expiresIn":900}`, ""},
		"an unknown token":        {refresh, 401, refusal("UNAUTHENTICATED"), bff.CodeUnauthenticated},
		"a token used twice":      {refresh, 401, refusal("REFRESH_REUSED"), bff.CodeSessionRevoked},
		"a locked user":           {refresh, 403, refusal("USER_LOCKED"), bff.CodeSessionRevoked},
		"a revoked device":        {refresh, 403, refusal("DEVICE_REVOKED"), bff.CodeSessionRevoked},
		"another key":             {refresh, 401, refusal("DPOP_INVALID"), bff.CodeDPoPInvalid},
		"iam fails":               {refresh, 500, `{}`, bff.CodeUpstreamUnavailable},
		"iam answers nonsense":    {refresh, 200, `x`, bff.CodeUpstreamUnavailable},
		"attested":                {stepUp, 200, `{"attested":true}`, ""},
		"not attested":            {stepUp, 200, `{"attested":false}`, bff.CodeMFAAttestationInvalid},
		"a wrong code":            {stepUp, 401, refusal("MFA_CODE_INVALID"), bff.CodeMFAAttestationInvalid},
		"too many wrong codes":    {stepUp, 403, refusal("USER_LOCKED"), bff.CodeSessionRevoked},
		"iam fails at the factor": {stepUp, 503, `{}`, bff.CodeUpstreamUnavailable},
	} {
		u, last, sent := serve(t, func(string) (int, string) { return test.status, test.body })
		err := test.call(u)
		if got := bff.CodeOf(err); (err == nil) != (test.want == "") || err != nil && got != test.want {
			t.Errorf("%s: %v, want %s", name, err, test.want)
		}
		if name == "refreshed" && (last.Header.Get("DPoP") != "the proof" || last.Header.Get("Idempotency-Key") != "again" ||
			(*sent)["refreshToken"] != "rft_1" || (*sent)["deviceId"] != device.String()) {
			t.Errorf("%v %v", last.Header, *sent)
		}
	}
	u, _, sent := serve(t, func(string) (int, string) { return http.StatusNoContent, "" })
	if err := u.IAM.SignOut(t.Context(), session); err != nil || (*sent)["operatorId"] != "opt_1" {
		t.Errorf("sign out: %v, %v", err, *sent)
	}
}

func TestFindMember(t *testing.T) {
	t.Parallel()
	tenant := bff.NewID(bff.PrefixTenant, time.Now())
	operator := "/api/v1/tenants/" + tenant.String() + "/operators/opt_1"
	answers := map[string]string{
		"/api/v1/tenants/" + tenant.String(): `{"status":"suspended","flags":{"beta":true}}`,
		operator:                             `{"roles":["owner","wizard"],"propertyScope":["*"],"displayName":"Hamida"}`,
	}
	u, _, _ := serve(t, func(path string) (int, string) {
		if body, ok := answers[path]; ok {
			return http.StatusOK, body
		}
		return http.StatusNotFound, refusal("NOT_FOUND")
	})
	m, err := u.Tenant.FindMember(t.Context(), tenant, "opt_1", "")
	if err != nil || m.DisplayName != "Hamida" || !slices.Equal(m.Roles, []backoffice.Role{backoffice.Owner}) || !m.Suspended || !m.Flags["beta"] {
		t.Errorf("%+v, %v", m, err)
	}
	if _, err := u.Tenant.FindMember(t.Context(), tenant, "opt_2", ""); !errors.Is(err, backoffice.ErrNoMember) {
		t.Errorf("no member: %v", err)
	}
	broken, _, _ := serve(t, func(string) (int, string) { return http.StatusInternalServerError, `{}` })
	if _, err := broken.Tenant.FindMember(t.Context(), tenant, "opt_1", ""); bff.CodeOf(err) != bff.CodeUpstreamUnavailable {
		t.Errorf("tenant-service fails: %v", err)
	}
}

// A failure of an upstream has its code, whatever it was; what is none is left alone.
func TestFailed(t *testing.T) {
	t.Parallel()
	other := errors.New("else")
	if failed(nil) != nil || !errors.Is(failed(other), other) || bff.CodeOf(failed(other)) != bff.CodeInternal {
		t.Error("what is no failure of an upstream was changed")
	}
	for reason, want := range map[upstream.Reason]bff.Code{
		upstream.Timeout: bff.CodeUpstreamTimeout, upstream.Budget: bff.CodeUpstreamTimeout,
		upstream.Breaker: bff.CodeUpstreamUnavailable, upstream.Failed: bff.CodeUpstreamUnavailable,
	} {
		if err := failed(&upstream.Error{Reason: reason}); bff.CodeOf(err) != want {
			t.Errorf("%s: %v", reason, err)
		}
	}
	cfg := Config{
		URLs: map[backoffice.Upstream]string{backoffice.UpstreamIAM: "http://iam"}, Metrics: prometheus.NewRegistry(), Namespace: "test",
		Log: slog.New(slog.DiscardHandler),
	}
	if _, err := New(cfg); err == nil {
		t.Error("clients of services without an address")
	}
	cfg.Only, cfg.Metrics = []backoffice.Upstream{backoffice.UpstreamIAM}, prometheus.NewRegistry()
	if _, err := New(cfg); err != nil {
		t.Error(err)
	}
}
