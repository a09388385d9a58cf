package backofficehttp_test

import (
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

// employed adds an operator.
func (f *front) employed(operator string, change func(*backoffice.Member)) {
	m := &backoffice.Member{Flags: map[string]bool{}, Roles: []backoffice.Role{}}
	change(m)
	f.staff.set(operator, m)
}

// Hundreds of copies of one proof, over three instances: one passes, and the rest is
// reported once.
func TestReplays(t *testing.T) {
	t.Parallel()
	f := newFront(t, frontConfig{instances: 3, limits: "off"})
	s := f.sender("opt_parwana")
	s.session()
	r := s.request(http.MethodGet, base+"/session", "")
	proof := f.prove(r)
	var passed, replayed atomic.Int32
	var wg sync.WaitGroup
	for worker := range 10 {
		wg.Go(func() {
			for i := range 30 {
				again := *r
				again.header = r.header.Clone()
				again.header["Dpop"] = []string{proof}
				switch codeOf(f.send((worker+i)%3, &again)) {
				case "OK":
					passed.Add(1)
				case "DPOP_REPLAYED":
					replayed.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if passed.Load() != 1 || replayed.Load() != 299 {
		t.Errorf("%d passed and %d were replays of 300", passed.Load(), replayed.Load())
	}
	f.finish()
	if reports := slices.DeleteFunc(f.outbox.subjects(), func(s string) bool { return s != "dpop.replay_blocked" }); len(reports) == 0 || len(reports) > 3 {
		t.Errorf("%d reports, want one of each instance at most", len(reports))
	}
	// An id is burned for the whole window in which its proof is acceptable: dpop says
	// until when, to the second; half a minute is for a slow machine.
	for _, ahead := range []time.Duration{-time.Minute, 0, time.Minute} {
		r := s.request(http.MethodGet, base+"/session", "")
		r.proof.At, r.proof.ID = f.clock().Add(ahead), "window "+ahead.String()
		if got := codeOf(f.send(0, r)); got != "OK" {
			t.Fatalf("%v ahead: %s", ahead, got)
		}
	}
	for ahead, least := range map[string]time.Duration{"0s": 30 * time.Second, "1m0s": 90 * time.Second} {
		ms, err := f.client.Do(t.Context(), f.client.B().Pttl().Key(f.keys.Proof(s.device.Thumbprint(), "window "+ahead)).Build()).AsInt64()
		if got := time.Duration(ms) * time.Millisecond; err != nil || got < least {
			t.Errorf("a proof that is %s ahead is remembered for %v: %v", ahead, got, err)
		}
	}
}

// While the session tier is away everything is refused, also what was let in a
// moment before; and then it is as before.
func TestSessionsAway(t *testing.T) {
	t.Parallel()
	server := testkit.NewRedis(t)
	f := newFront(t, frontConfig{redisURL: server.URL()})
	s := f.sender("opt_parwana")
	s.session()
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	for _, r := range []*request{
		s.request(http.MethodGet, base+"/session", ""), s.request(http.MethodPost, base+"/auth/sign-out", ""),
		s.request(http.MethodPost, base+"/auth/mfa/step-up", `{"scope":"folio.refund","code":"000000"}`),
	} {
		w := f.send(0, r)
		if got := codeOf(w); got != "SERVICE_UNAVAILABLE" || w.Header().Get("Retry-After") == "" {
			t.Errorf("%s %s: %s", r.method, r.path, got)
		}
	}
	refresh := s.request(http.MethodPost, base+"/auth/refresh", `{"refreshToken":"x"}`)
	refresh.proof.AccessToken = ""
	if got := codeOf(f.send(0, refresh)); got != "SERVICE_UNAVAILABLE" {
		t.Errorf("refresh: %s", got)
	}
}
