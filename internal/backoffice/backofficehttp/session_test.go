package backofficehttp_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/rueidis"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficestore"
	"melmastoon.ghasi.io/bff/internal/backoffice/identity"
	"melmastoon.ghasi.io/bff/internal/redis"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

// lasting are the sessions in Redis that live on: what a killed process has written and not
// yet entered is gone in a minute.
func (f *front) lasting() (out []string) {
	f.tb.Helper()
	ctx, c := testkit.Context(f.tb), f.client
	keys, _ := f.held("session:bos_")
	for _, k := range keys {
		left, err := c.Do(ctx, c.B().Ttl().Key(k).Build()).AsInt64()
		if err != nil {
			f.tb.Fatal(err)
		}
		if left > 60 {
			_, ulid, _ := strings.Cut(k, "bos_")
			out = append(out, "bos_"+ulid)
		}
	}
	return out
}

// The desk gets the facts of the language that it asks for.
func TestSessionHasLocaleInfo(t *testing.T) {
	t.Parallel()
	f := newFront(t, frontConfig{})
	s := f.sender("opt_parwana")
	for sent, want := range map[string]bff.Locale{"": bff.LocaleEnglish, "tg-TJ": bff.LocaleTajik, "prs, en;q=0.5": bff.LocaleDari, "de": bff.LocaleEnglish} {
		r := s.request(http.MethodGet, base+"/session", "")
		r.header.Set("Accept-Language", sent)
		w := f.send(0, r)
		var doc struct{ LocaleInfo bff.LocaleInfo }
		if err := json.Unmarshal(w.Body.Bytes(), &doc); err != nil || w.Code != http.StatusOK {
			t.Fatalf("%q: %d %s", sent, w.Code, w.Body)
		}
		if diff := cmp.Diff(*want.Info(), doc.LocaleInfo); diff != "" {
			t.Errorf("%q: %s", sent, diff)
		}
	}
}

// sessionOf is the session id of an answer.
func sessionOf(t *testing.T, body []byte) string {
	t.Helper()
	var doc struct{ SessionID string }
	if err := json.Unmarshal(body, &doc); err != nil || doc.SessionID == "" {
		t.Errorf("no session: %s", body)
	}
	return doc.SessionID
}

// Many first requests at once, over three instances, open one session; and it is
// announced once.
func TestFirstRequestsOpenOneSession(t *testing.T) {
	t.Parallel()
	f := newFront(t, frontConfig{instances: 3, limits: "off"})
	for range 2 {
		s := f.sender("opt_parwana")
		var mu sync.Mutex
		var wg sync.WaitGroup
		seen := map[string]bool{}
		for i := range 24 {
			r := s.request(http.MethodGet, base+"/session", "")
			wg.Go(func() {
				w := f.send(i%3, r)
				mu.Lock()
				defer mu.Unlock()
				seen[sessionOf(t, w.Body.Bytes())] = true
			})
		}
		wg.Wait()
		if len(seen) != 1 || !seen[s.session()] {
			t.Errorf("%d sessions: %v", len(seen), seen)
		}
	}
	if got := f.lasting(); len(got) != 2 {
		t.Errorf("two devices have %d sessions", len(got))
	}
}

// The next operator at a device ends the session of the one before, whose tokens are
// of no more use there; elsewhere they are.
func TestOperatorsSwitch(t *testing.T) {
	t.Parallel()
	f := newFront(t, frontConfig{instances: 2})
	f.employ("opt_karim", backoffice.Maintenance)
	a := f.sender("opt_parwana")
	first := a.session()
	f.advance(time.Minute)
	b := f.senderAt("opt_karim", a.device)
	second := b.session()
	if first == second {
		t.Fatal("two operators have one session")
	}
	for instance := range 2 {
		if got := codeOf(a.from(instance, http.MethodGet, "/session", "")); got != "SESSION_REVOKED" {
			t.Errorf("the operator before: %s", got)
		}
	}
	if got := b.session(); got != second || !slices.Equal(f.lasting(), []string{second}) {
		t.Errorf("after the switch: %s, %v", got, f.lasting())
	}
	if diff := cmp.Diff([]string{"session.closed", "session.opened", "session.opened"}, f.outbox.subjects()); diff != "" {
		t.Error(diff)
	}
	f.sender("opt_parwana").session() // at another device

	// A token that is older than the session's is no operator's next sign-in.
	stale := f.senderAt("opt_parwana", b.device)
	stale.claims["iat"] = f.clock().Add(-2 * time.Minute).Unix()
	if got := codeOf(stale.get("/session")); got != "SESSION_REVOKED" {
		t.Errorf("an older token: %s", got)
	}
	f.advance(time.Minute)
	back := f.senderAt("opt_parwana", b.device)
	if back.session() == first {
		t.Error("an ended session came back")
	}
	f.employ("opt_laila", backoffice.Owner)
	f.senderAt("opt_laila", b.device).session() // signs in within the same second
	if got := codeOf(back.get("/session")); got != "SESSION_REVOKED" {
		t.Errorf("the operator before, of the same second: %s", got)
	}
}

func TestSignOut(t *testing.T) {
	t.Parallel()
	f := newFront(t, frontConfig{instances: 2})
	s := f.sender("opt_parwana")
	before := s.session()
	refreshed := f.senderAt("opt_parwana", s.device) // of the same second
	refreshed.claims["iat"] = f.clock().Add(-time.Second).Unix()
	f.outbox.fail(&bff.Error{Code: bff.CodeServiceUnavailable})
	if got := codeOf(s.from(0, http.MethodPost, "/auth/sign-out", "")); got != "SERVICE_UNAVAILABLE" {
		t.Errorf("without an audit: %s", got)
	}
	f.outbox.fail(nil)
	if got := codeOf(s.from(0, http.MethodPost, "/auth/sign-out", "")); got != "No Content" {
		t.Fatal(got)
	}
	for name, token := range map[string]*sender{"its token": s, "an earlier token": refreshed} {
		if got := codeOf(token.from(1, http.MethodGet, "/session", "")); got != "SESSION_REVOKED" {
			t.Errorf("%s: %s", name, got)
		}
	}
	if got := f.lasting(); len(got) != 0 {
		t.Errorf("%v live on", got)
	}
	again := f.senderAt("opt_parwana", s.device) // within the same second
	if got := again.session(); got == before {
		t.Error("an ended session came back")
	}
}

// Roles and scope are looked up again when memberships change, in every instance.
func TestMembershipsChange(t *testing.T) {
	t.Parallel()
	f := newFront(t, frontConfig{})
	s := f.sender("opt_parwana")
	ctx, c := testkit.Context(t), s.caller()
	version := func() string {
		st, err := f.sessions.Enter(ctx, c, identity.Proof{KeyPrint: "p", ID: rnd(), Until: time.Now().Add(time.Minute)}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		return st.Members
	}
	seen := map[string]bool{version(): true}
	for name, change := range map[string]func() error{
		"an operator's": func() error { return f.sessions.OutdateMembers(ctx, f.tenant, c.Operator) },
		"the tenant's":  func() error { return f.sessions.OutdateMembers(ctx, f.tenant, "") },
		"suspension":    func() error { return f.sessions.SuspendTenant(ctx, f.tenant, true, time.Now()) },
	} {
		if err := change(); err != nil {
			t.Fatal(err)
		}
		v := version()
		if seen[v] {
			t.Errorf("%s: copies are still good", name)
		}
		seen[v] = true
	}
	if got := codeOf(s.get("/session")); got != "TENANT_SUSPENDED" {
		t.Errorf("suspended: %s", got)
	}
	if err := f.sessions.SuspendTenant(ctx, f.tenant, false, time.Now().Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	if got := codeOf(s.get("/session")); got != "TENANT_SUSPENDED" {
		t.Errorf("an older reinstatement counts: %s", got)
	}
	if err := f.sessions.SuspendTenant(ctx, f.tenant, false, time.Now().Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	if got := codeOf(s.get("/session")); got != "OK" {
		t.Errorf("reinstated: %s", got)
	}
}

func rnd() string { return bff.NewID(bff.PrefixRequest, time.Now()).String() }

// A revocation is felt by the next request at every instance, by the callers that it
// is about and no others; a sign-in after it is welcome.
func TestForceLogout(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		revoke func(*identity.Revocation, *sender)
		// want tells which are logged out: the operator at the device, another operator there later,
		// the same operator at another device, a colleague.
		want [3]bool
	}{
		"operator and device": {func(r *identity.Revocation, s *sender) { r.Operator, r.Device = "opt_parwana", s.caller().Device }, [3]bool{true, false, false}},
		"device":              {func(r *identity.Revocation, s *sender) { r.Device = s.caller().Device }, [3]bool{true, false, false}},
		"operator":            {func(r *identity.Revocation, _ *sender) { r.Operator = "opt_parwana" }, [3]bool{true, true, false}},
		"tenant":              {func(*identity.Revocation, *sender) {}, [3]bool{true, true, true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFront(t, frontConfig{instances: 3})
			f.employ("opt_karim", backoffice.Maintenance)
			all := []*sender{f.sender("opt_parwana"), f.sender("opt_parwana"), f.sender("opt_karim")}
			unused := f.senderAt("opt_parwana", all[0].device) // a token that no request was made with
			for _, s := range all {
				for instance := range 3 {
					s.from(instance, http.MethodGet, "/session", "")
				}
			}
			f.advance(10 * time.Second)
			r := identity.Revocation{Tenant: f.tenant, Reason: "test", At: f.clock()}
			test.revoke(&r, all[0])
			if err := f.accesses[0].Revoke(testkit.Context(t), r, backoffice.Occasion{Causation: "evt_1"}, f.clock()); err != nil {
				t.Fatal(err)
			}
			want := map[bool]string{true: "SESSION_REVOKED", false: "OK"}
			out := 0
			for i, s := range all {
				for instance := range 3 {
					if got := codeOf(s.from(instance, http.MethodGet, "/session", "")); got != want[test.want[i]] {
						t.Errorf("caller %d at instance %d: %s", i, instance, got)
					}
				}
				if test.want[i] {
					out++
				}
			}
			if got := codeOf(unused.get("/session")); got != "SESSION_REVOKED" {
				t.Errorf("an unused token: %s", got)
			}
			if got := f.lasting(); len(got) != 3-out {
				t.Errorf("%d sessions live on, want %d", len(got), 3-out)
			}
			closed := slices.DeleteFunc(f.outbox.subjects(), func(s string) bool { return s != "session.closed" })
			if len(closed) != out || !slices.Contains(f.outbox.subjects(), "session.force_logged_out") {
				t.Errorf("events: %v", f.outbox.subjects())
			}
			f.advance(time.Second)
			f.senderAt("opt_parwana", all[0].device).session()
		})
	}
}

// killed is a client whose process is killed after a number of commands.
type killed struct {
	rueidis.Client
	left atomic.Int64
}

var errKilled = errors.New("the process was killed")

func (k *killed) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	if k.left.Add(-1) < 0 {
		return rueidis.NewErrorResult(errKilled)
	}
	return k.Client.Do(ctx, cmd)
}

func (k *killed) DoMulti(ctx context.Context, cmds ...rueidis.Completed) []rueidis.RedisResult {
	out := make([]rueidis.RedisResult, 0, len(cmds))
	for _, cmd := range cmds {
		out = append(out, k.Do(ctx, cmd))
	}
	return out
}

// Cut off after each of their commands, opening, switching, signing out and forced
// logouts leave neither a second session nor a token that should be refused.
func TestKilledAtEveryStep(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(t *testing.T, f *front, doomed int) (done bool){
		"open":     killedOpening,
		"switch":   killedSwitching,
		"sign out": killedSigningOut,
		"revoke":   killedRevoking,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFront(t, frontConfig{limits: "off"})
			f.employ("opt_karim", backoffice.Maintenance)
			for steps := int64(0); ; steps++ {
				if steps > 60 {
					t.Fatal("never done")
				}
				f.prefix = rnd()
				f.keys = backofficestore.NewKeys(redis.NewKeys(f.prefix, "bff-backoffice"))
				f.instances, f.accesses, f.sessions = nil, nil, nil
				f.outbox.events = nil
				f.start(f.client)
				k := &killed{Client: f.client}
				k.left.Store(steps)
				if test(t, f, f.start(k)) || t.Failed() {
					t.Logf("%d steps", steps)
					return
				}
			}
		})
	}
}

func killedOpening(t *testing.T, f *front, doomed int) bool {
	t.Helper()
	s := f.sender("opt_parwana")
	w := s.from(doomed, http.MethodGet, "/session", "")
	id := s.session()
	if w.Code == http.StatusOK && sessionOf(t, w.Body.Bytes()) != id {
		t.Error("the session that was answered with is another")
	}
	if got := f.lasting(); !slices.Equal(got, []string{id}) {
		t.Errorf("%v, want %s alone", got, id)
	}
	if !slices.Contains(f.outbox.subjects(), "session.opened") {
		t.Error("the opening was not announced")
	}
	return w.Code == http.StatusOK
}

func killedSwitching(t *testing.T, f *front, doomed int) bool {
	t.Helper()
	a := f.sender("opt_parwana")
	a.session()
	f.advance(time.Minute)
	b := f.senderAt("opt_karim", a.device)
	done := b.from(doomed, http.MethodGet, "/session", "").Code == http.StatusOK
	id := b.session()
	if got := codeOf(a.get("/session")); got != "SESSION_REVOKED" {
		t.Errorf("the operator before: %s", got)
	}
	if got := f.lasting(); !slices.Equal(got, []string{id}) {
		t.Errorf("%v, want %s alone", got, id)
	}
	if !slices.Contains(f.outbox.subjects(), "session.closed") {
		t.Error("the end of the session before was not announced")
	}
	return done
}

func killedSigningOut(t *testing.T, f *front, doomed int) bool {
	t.Helper()
	s := f.sender("opt_parwana")
	before := s.session()
	done := s.from(doomed, http.MethodPost, "/auth/sign-out", "").Code == http.StatusNoContent
	if !done { // the app asks again, elsewhere
		if got := codeOf(s.from(0, http.MethodPost, "/auth/sign-out", "")); got != "No Content" && got != "SESSION_REVOKED" {
			t.Errorf("again: %s", got)
		}
	}
	if got := codeOf(s.get("/session")); got != "SESSION_REVOKED" {
		t.Errorf("after signing out: %s", got)
	}
	if got := f.lasting(); len(got) != 0 {
		t.Errorf("%v live on", got)
	}
	if !slices.Contains(f.outbox.subjects(), "session.closed") {
		t.Error("the end was not announced")
	}
	f.advance(time.Second)
	if id := f.senderAt("opt_parwana", s.device).session(); id == before || !slices.Equal(f.lasting(), []string{id}) {
		t.Errorf("%s after %s: %v", id, before, f.lasting())
	}
	return done
}

func killedRevoking(t *testing.T, f *front, doomed int) bool {
	t.Helper()
	s := f.sender("opt_parwana")
	s.session()
	r := identity.Revocation{Tenant: f.tenant, Operator: "opt_parwana", Reason: "test", At: f.clock()}
	err := f.accesses[doomed].Revoke(testkit.Context(t), r, backoffice.Occasion{}, f.clock())
	if err != nil { // the event comes again, elsewhere
		if err := f.accesses[0].Revoke(testkit.Context(t), r, backoffice.Occasion{}, f.clock()); err != nil {
			t.Fatal(err)
		}
	}
	if got := codeOf(s.get("/session")); got != "SESSION_REVOKED" {
		t.Errorf("after the revocation: %s", got)
	}
	if got := f.lasting(); len(got) != 0 {
		t.Errorf("%v live on", got)
	}
	if !slices.Contains(f.outbox.subjects(), "session.closed") {
		t.Error("the end was not announced")
	}
	return err == nil
}

// An index that Redis lost is rebuilt from the session, also by an instance that has
// never seen it; a session that Redis lost is not rebuilt from its index.
func TestLostKeys(t *testing.T) {
	t.Parallel()
	f := newFront(t, frontConfig{instances: 2})
	s := f.sender("opt_parwana")
	id := s.session()
	ctx, c := testkit.Context(t), f.client
	keys, err := f.keys.Tenant(f.tenant)
	if err != nil {
		t.Fatal(err)
	}
	remove := func(key string) {
		t.Helper()
		if n, err := c.Do(ctx, c.B().Del().Key(key).Build()).AsInt64(); err != nil || n != 1 {
			t.Fatalf("%d, %v", n, err)
		}
	}
	index := keys.Device(s.caller().Device).Name()
	for instance := range 2 {
		remove(index)
		if got := sessionOf(t, s.from(instance, http.MethodGet, "/session", "").Body.Bytes()); got != id {
			t.Errorf("instance %d: a session was opened although there is one", instance)
		}
		if got, err := c.Do(ctx, c.B().Get().Key(index).Build()).ToString(); err != nil || got != id {
			t.Errorf("the index was not rebuilt: %q, %v", got, err)
		}
	}
	remove(keys.Session(bff.MustParseID(bff.PrefixBackofficeLogin, id)).Name())
	if s.session() == id {
		t.Error("a lost session was rebuilt from its index")
	}
}

// Keys slide together.
func TestSessionsSlide(t *testing.T) {
	t.Parallel()
	f := newFront(t, frontConfig{})
	s := f.sender("opt_parwana")
	id := s.session()
	ctx, c := testkit.Context(t), f.client
	keys, err := f.keys.Tenant(f.tenant)
	if err != nil {
		t.Fatal(err)
	}
	both := []string{keys.Device(s.caller().Device).Name(), keys.Session(bff.MustParseID(bff.PrefixBackofficeLogin, id)).Name()}
	for _, k := range both {
		if err := c.Do(ctx, c.B().Expire().Key(k).Seconds(600).Build()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	s.session()
	for _, k := range both {
		if left, err := c.Do(ctx, c.B().Ttl().Key(k).Build()).AsInt64(); err != nil || left < 43_000 {
			t.Errorf("%s lives for %d s, %v", k, left, err)
		}
	}
}

// The sessions of all instances are counted once a minute, and all report the same.
func TestSessionsAreCounted(t *testing.T) {
	t.Parallel()
	f := newFront(t, frontConfig{instances: 2})
	reg := prometheus.NewRegistry()
	reg.MustRegister(backofficestore.NewSessionCount(f.sessions, "bff_backoffice"))
	count := func() float64 {
		t.Helper()
		all, err := reg.Gather()
		if err != nil || len(all) != 1 || all[0].GetName() != "bff_backoffice_session_active_count" {
			t.Fatalf("%v, %v", all, err)
		}
		return all[0].GetMetric()[0].GetGauge().GetValue()
	}
	for i := range 3 {
		f.sender("opt_parwana").from(i%2, http.MethodGet, "/session", "")
	}
	if got := count(); got != 3 {
		t.Errorf("counted %v of 3", got)
	}
	out := f.sender("opt_parwana")
	out.session()
	if got := count(); got != 3 {
		t.Errorf("counted again within the minute: %v", got)
	}
	minute := func() {
		t.Helper()
		if err := f.client.Do(testkit.Context(t), f.client.B().Del().Key(f.keys.Counting()).Build()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	minute()
	if got := count(); got != 4 {
		t.Errorf("counted %v of 4", got)
	}
	out.from(1, http.MethodPost, "/auth/sign-out", "")
	minute()
	if got := count(); got != 3 {
		t.Errorf("counted %v of 3 after a sign-out", got)
	}
}

// The store keeps to one slot at a time.
func TestSessionsOnACluster(t *testing.T) {
	t.Parallel()
	f := newFront(t, frontConfig{instances: 2, redisURL: clusterURL(t)})
	f.employ("opt_karim", backoffice.Maintenance)
	a := f.sender("opt_parwana")
	a.session()
	f.advance(time.Minute)
	b := f.senderAt("opt_karim", a.device)
	b.session()
	if got := codeOf(a.from(1, http.MethodGet, "/session", "")); got != "SESSION_REVOKED" {
		t.Errorf("the operator before: %s", got)
	}
	if got := codeOf(b.from(1, http.MethodPost, "/auth/mfa/step-up", `{"scope":"folio.refund","code":"000000"}`)); got != "OK" {
		t.Errorf("step up: %s", got)
	}
	if err := f.accesses[0].Revoke(testkit.Context(t), identity.Revocation{
		Tenant: f.tenant, Reason: "test", At: f.clock(),
	}, backoffice.Occasion{}, f.clock()); err != nil {
		t.Fatal(err)
	}
	if got := codeOf(b.from(1, http.MethodGet, "/session", "")); got != "SESSION_REVOKED" {
		t.Errorf("revoked: %s", got)
	}
}

func clusterURL(t *testing.T) string {
	t.Helper()
	nodes := testkit.RedisCluster(t)
	url := nodes[0]
	separator := "?"
	for _, n := range nodes[1:] {
		url += separator + "addr=" + n[strings.LastIndex(n, "@")+1:]
		separator = "&"
	}
	return url
}
