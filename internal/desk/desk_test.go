package desk_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lestrrat-go/jwx/v3/jwk"
	"github.com/lestrrat-go/jwx/v3/jwt"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/desk"
	"melmastoon.ghasi.io/bff/internal/dpop"
	"melmastoon.ghasi.io/bff/internal/local/sim"
)

// front plays the staff service: it checks tokens and proofs as that does, and
// passes refreshes on to iam.
type front struct {
	t      *testing.T
	sim    *sim.Sim
	iam    string
	url    string
	client *http.Client // the server of another test closes idle connections of the default one
	proofs *dpop.Verifier
	nonces *dpop.Nonces

	mu      sync.Mutex
	now     func() time.Time
	expired string // an access token that has ended
	burned  map[string]bool
	lose    int // answers that do not arrive
	seen    []*http.Request
	stream  http.HandlerFunc
	events  []string
}

func newFront(t *testing.T) *front {
	t.Helper()
	f := &front{t: t, now: time.Now, burned: map[string]bool{}}
	var err error
	f.sim, err = sim.New(sim.Config{Latency: map[string]sim.Latency{}, Publisher: f, Now: func() time.Time { return f.clock() }})
	if err != nil {
		t.Fatal(err)
	}
	upstreams := httptest.NewServer(f.sim.Handler())
	t.Cleanup(upstreams.Close)
	f.iam = upstreams.URL + "/iam"
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	f.url, f.client = server.URL, server.Client()
	if f.nonces, err = dpop.NewNonces(bytes.Repeat([]byte{1}, 32)); err != nil {
		t.Fatal(err)
	}
	if f.proofs, err = dpop.New([]string{f.url}, f.nonces); err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *front) clock() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now()
}

// Publish keeps the topics of iam's events.
func (f *front) Publish(_ context.Context, topic string, _ []byte, _ string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.events = append(f.events, topic)
	return nil
}

func (f *front) refuse(w http.ResponseWriter, code string) {
	w.WriteHeader(http.StatusUnauthorized)
	_, _ = fmt.Fprintf(w, `{"error":{"code":"MELMASTOON.BFF.BACKOFFICE.%s","status":401,"detail":"refused"}}`, code)
}

func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	f.seen = append(f.seen, r)
	f.mu.Unlock()
	want := dpop.Request{Method: r.Method, Path: r.URL.Path}
	path := strings.TrimPrefix(r.URL.Path, desk.Base)
	if path != "/auth/refresh" {
		token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "DPoP ")
		claims, err := f.verify(token)
		if !ok || err != nil {
			f.refuse(w, "UNAUTHENTICATED")
			return
		}
		if token == f.expired {
			f.refuse(w, "TOKEN_EXPIRED")
			return
		}
		var cnf map[string]any
		if err := claims.Get("cnf", &cnf); err != nil {
			f.t.Error(err)
		}
		sum := sha256.Sum256([]byte(token))
		want.TokenHash, want.KeyPrint = base64.RawURLEncoding.EncodeToString(sum[:]), fmt.Sprint(cnf["jkt"])
	}
	proof, err := f.proofs.Verify(r.Header.Get("DPoP"), want, f.clock())
	if err != nil {
		w.Header().Set("DPoP-Nonce", f.nonces.Mint(f.clock()))
		f.refuse(w, "DPOP_INVALID")
		return
	}
	if !f.burn(proof.ID) {
		f.refuse(w, "DPOP_REPLAYED")
		return
	}
	switch path {
	case "/auth/refresh":
		f.refresh(w, r)
	case "/auth/sign-out":
		w.WriteHeader(http.StatusNoContent)
	case "/sse/stream", "/sse/reauth":
		f.mu.Lock()
		h := f.stream
		f.mu.Unlock()
		h(w, r)
	default:
		f.mayLose()
		_, _ = fmt.Fprintf(w, `{"path":%q,"method":%q}`, r.URL.RequestURI(), r.Method)
	}
}

// mayLose ends the connection without an answer while answers are to be lost.
func (f *front) mayLose() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.lose > 0 {
		f.lose--
		panic(http.ErrAbortHandler)
	}
}

// burn reports whether a proof is new.
func (f *front) burn(id string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.burned[id] {
		return false
	}
	f.burned[id] = true
	return true
}

// verify checks a token against the keys that iam publishes.
func (f *front) verify(token string) (jwt.Token, error) {
	res, err := http.Get(f.iam + "/.well-known/jwks.json") //nolint:noctx // the test's own server
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, err
	}
	keys, err := jwk.Parse(b)
	if err != nil {
		return nil, err
	}
	return jwt.ParseString(token, jwt.WithKeySet(keys), jwt.WithValidate(false))
}

func (f *front) refresh(w http.ResponseWriter, r *http.Request) {
	var body struct{ RefreshToken string }
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		f.t.Error(err)
	}
	b, err := json.Marshal(map[string]string{"refreshToken": body.RefreshToken, "deviceId": r.Header.Get("X-Device-Id")})
	if err != nil {
		f.t.Error(err)
	}
	req, err := http.NewRequestWithContext(r.Context(), http.MethodPost, f.iam+"/api/v1/auth/refresh", bytes.NewReader(b))
	if err != nil {
		f.t.Error(err)
		return
	}
	req.Header.Set("DPoP", r.Header.Get("DPoP"))
	req.Header.Set("Idempotency-Key", r.Header.Get("X-Idempotency-Key"))
	res, err := (&http.Client{Timeout: time.Minute}).Do(req)
	if err != nil {
		f.t.Error(err)
		return
	}
	defer func() { _ = res.Body.Close() }()
	f.mayLose()
	w.WriteHeader(res.StatusCode)
	_, _ = io.Copy(w, res.Body)
}

// paths returns which paths were called, and forgets them.
func (f *front) paths() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []string
	for _, r := range f.seen {
		out = append(out, strings.TrimPrefix(r.URL.Path, desk.Base))
	}
	f.seen = nil
	return out
}

func (f *front) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func (f *front) config() desk.Config {
	return desk.Config{BackofficeURL: f.url, IAMURL: f.iam, Now: f.clock, HTTP: f.client}
}

// desk returns a computer at which parwana is signed in.
func (f *front) desk(edit ...func(*desk.Config)) *desk.Client {
	f.t.Helper()
	cfg := f.config()
	for _, e := range edit {
		e(&cfg)
	}
	c, err := desk.New(cfg)
	if err != nil {
		f.t.Fatal(err)
	}
	f.signIn(c)
	return c
}

func (f *front) signIn(c *desk.Client) {
	f.t.Helper()
	if err := c.SignIn(f.t.Context(), desk.Operator{Username: "parwana"}); err != nil {
		f.t.Fatal(err)
	}
}

func (f *front) get(c *desk.Client) *desk.Answer {
	f.t.Helper()
	a, err := c.Do(f.t.Context(), "GET", "/session?x=1", nil)
	if err != nil {
		f.t.Fatal(err)
	}
	return a
}

func (f *front) advance(d time.Duration) {
	f.set(func() {
		was := f.now
		f.now = func() time.Time { return was().Add(d) }
	})
}

func TestDo(t *testing.T) {
	t.Parallel()
	f := newFront(t)
	c := f.desk(func(cfg *desk.Config) { cfg.AppVersion, cfg.Platform = "2.1.0", "win32" })
	if a := f.get(c); a.Status != 200 || a.Err() != nil || string(a.Body) != `{"path":"/bff/backoffice/v1/session?x=1","method":"GET"}` {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	a, err := c.Ask(t.Context(), desk.Call{
		Method: "POST", Path: "/folios/fol_1/charges", Body: map[string]int{"a": 1}, Header: http.Header{"X-Property-Id": {"ppt_1"}},
	})
	if err != nil || a.Status != 200 {
		t.Fatal(a, err)
	}
	get, post := f.seen[0], f.seen[1]
	for name, want := range map[string]string{"X-Device-Id": c.Device().ID(), "X-App-Version": "2.1.0", "X-App-Platform": "win32", "X-Idempotency-Key": ""} {
		if got := get.Header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if _, err := bff.ParseID(
		"key", "key_"+post.Header.Get("X-Idempotency-Key"),
	); err != nil || post.Header.Get("X-Property-Id") != "ppt_1" || post.Header.Get("Content-Type") != "application/json" {
		t.Errorf("headers of a mutation: %v, %v", post.Header, err)
	}

	if _, err := desk.New(desk.Config{BackofficeURL: "x", IAMURL: ""}); err == nil || !strings.Contains(err.Error(), "iam") ||
		!strings.Contains(err.Error(), "staff service") {
		t.Errorf("bad URLs: %v", err)
	}
	elsewhere := f.config()
	elsewhere.PublicURL = "https://staff.example"
	misled, err := desk.New(elsewhere)
	if err != nil {
		t.Fatal(err)
	}
	f.signIn(misled)
	if r, ok := errors.AsType[*desk.Refusal](f.get(misled).Err()); !ok || !strings.HasSuffix(r.Code, "DPOP_INVALID") {
		t.Errorf("a proof for another URL: %v", r)
	}
	stranger, err := desk.New(f.config())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stranger.Do(t.Context(), "GET", "/session", nil); !errors.Is(err, desk.ErrSignedOut) {
		t.Errorf("without a sign-in: %v", err)
	}
	if err := stranger.SignIn(t.Context(), desk.Operator{Username: "nobody", TenantID: "tnt_x"}); err == nil {
		t.Error("an unknown operator signed in")
	} else if r, ok := errors.AsType[*desk.Refusal](err); !ok || r.Status != 401 || r.Code != "UNAUTHENTICATED" {
		t.Errorf("an unknown operator: %v", err)
	}
}

// A hotel computer whose clock is wrong works on: iam's nonce lets it sign in, the
// service's lets it call.
func TestWrongClock(t *testing.T) {
	t.Parallel()
	f := newFront(t)
	for _, off := range []time.Duration{-26 * time.Hour, 3 * time.Minute, 400 * 24 * time.Hour} {
		t.Run(off.String(), func(t *testing.T) { //nolint:paralleltest // they move one clock
			f.paths()
			c := f.desk(func(cfg *desk.Config) { cfg.Now = func() time.Time { return f.clock().Add(off) } })
			if a := f.get(c); a.Status != 200 {
				t.Fatalf("%d %s", a.Status, a.Body)
			}
			if got := len(f.paths()); got != 2 {
				t.Errorf("the first call took %d requests, want one to learn the nonce and one with it", got)
			}
			if f.get(c); len(f.paths()) != 1 {
				t.Error("the nonce is not used again")
			}
			f.advance(10 * time.Minute) // the nonce is too old now
			if a := f.get(c); a.Status != 200 || len(f.paths()) != 2 {
				t.Errorf("with an old nonce: %d %s", a.Status, a.Body)
			}
			f.advance(10 * time.Minute) // and the token has ended
			if a := f.get(c); a.Status != 200 {
				t.Errorf("with an old token: %d %s", a.Status, a.Body)
			}
		})
	}
}

func TestRefresh(t *testing.T) {
	t.Parallel()
	f := newFront(t)
	c := f.desk()
	first, err := c.AccessToken(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	f.advance(14*time.Minute + 45*time.Second)
	f.get(c)
	if got := f.paths(); !slices.Equal(got, []string{"/auth/refresh", "/session"}) {
		t.Errorf("shortly before the end of the token: %v", got)
	}
	second, err := c.AccessToken(t.Context())
	if err != nil || second == first {
		t.Fatalf("the same token after a refresh: %v", err)
	}
	f.set(func() { f.expired = second })
	if a := f.get(c); a.Status != 200 {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	if got := f.paths(); !slices.Equal(got, []string{"/session", "/auth/refresh", "/session"}) {
		t.Errorf("a token that the service finds ended: %v", got)
	}
}

// Calls at once share one refresh: a second use of the token would end the
// sign-in.
func TestRefreshTogether(t *testing.T) {
	t.Parallel()
	f := newFront(t)
	c := f.desk()
	f.advance(20 * time.Minute)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if a, err := c.Do(t.Context(), "GET", "/session", nil); err != nil || a.Status != 200 {
				t.Error(a, err)
			}
		})
	}
	wg.Wait()
	refreshes := 0
	for _, p := range f.paths() {
		if p == "/auth/refresh" {
			refreshes++
		}
	}
	if refreshes != 1 || len(f.events) != 0 {
		t.Errorf("%d refreshes, events %v", refreshes, f.events)
	}
}

// A refresh whose answer was lost is asked for again under its key, by the next
// process if need be: iam must not take it for a stolen token.
func TestLostRefresh(t *testing.T) {
	t.Parallel()
	f := newFront(t)
	path := filepath.Join(t.TempDir(), "desk.json")
	c, err := desk.Open(path, f.config())
	if err != nil {
		t.Fatal(err)
	}
	f.signIn(c)
	f.set(func() { f.lose = 1 })
	if err := c.Refresh(t.Context()); err != nil {
		t.Errorf("one lost answer: %v", err)
	}
	f.set(func() { f.lose = 2 })
	if err := c.Refresh(t.Context()); err == nil || errors.Is(err, desk.ErrSignedOut) {
		t.Errorf("two lost answers: %v", err)
	}
	next, err := desk.Open(path, f.config())
	if err != nil {
		t.Fatal(err)
	}
	if err := next.Refresh(t.Context()); err != nil {
		t.Errorf("after a restart: %v", err)
	}
	if a := f.get(next); a.Status != 200 || len(f.events) != 0 {
		t.Errorf("%d, events %v", a.Status, f.events)
	}
}

// net/http repeats a GET whose connection broke, proof and all.
func TestBrokenConnection(t *testing.T) {
	t.Parallel()
	f := newFront(t)
	c := f.desk()
	f.get(c) // a connection that is used again
	f.set(func() { f.lose = 1 })
	if a := f.get(c); a.Status != 200 {
		t.Errorf("%d %s", a.Status, a.Body)
	}
}

// A copied state file: the thief's refresh shows itself when the owner's follows.
func TestReuseEndsTheSignIn(t *testing.T) {
	t.Parallel()
	f := newFront(t)
	dir := t.TempDir()
	path, copied := filepath.Join(dir, "own", "desk.json"), filepath.Join(dir, "copy.json")
	owner, err := desk.Open(path, f.config())
	if err != nil {
		t.Fatal(err)
	}
	f.signIn(owner)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(copied, b, 0o600); err != nil {
		t.Fatal(err)
	}
	thief, err := desk.Open(copied, f.config())
	if err != nil {
		t.Fatal(err)
	}
	if err := thief.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	err = owner.Refresh(t.Context())
	if r, ok := errors.AsType[*desk.Refusal](err); !ok || r.Code != "REFRESH_REUSED" || !errors.Is(err, desk.ErrSignedOut) {
		t.Errorf("the owner's refresh: %v", err)
	}
	if err := thief.Refresh(t.Context()); !errors.Is(err, desk.ErrSignedOut) {
		t.Errorf("the thief's next refresh: %v", err)
	}
	if want := []string{"melmastoon.iam.session.revoked.v1"}; !slices.Equal(f.events, want) {
		t.Errorf("events %v, want %v", f.events, want)
	}
	if now, last := owner.SignedIn(); now || last.Username != "parwana" {
		t.Errorf("after it: signed in %v as %+v", now, last)
	}
	f.signIn(owner)
	if a := f.get(owner); a.Status != 200 {
		t.Errorf("after another sign-in: %d", a.Status)
	}
}

func TestOpenKeepsTheDevice(t *testing.T) {
	t.Parallel()
	f := newFront(t)
	path := filepath.Join(t.TempDir(), "desk", "desk.json")
	open := func(cfg desk.Config) *desk.Client {
		t.Helper()
		c, err := desk.Open(path, cfg)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	first := open(f.config())
	f.signIn(first)
	for name, want := range map[string]os.FileMode{path: 0o600, filepath.Dir(path): 0o700 | os.ModeDir} {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode() != want {
			t.Errorf("%s has mode %v, want %v", name, info.Mode(), want)
		}
	}
	second := open(f.config())
	if second.Device().ID() != first.Device().ID() {
		t.Error("another device after a restart")
	}
	if a := f.get(second); a.Status != 200 {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	// Two processes with one file: the second one finds the first one's tokens.
	f.advance(20 * time.Minute)
	f.get(first)
	f.paths()
	if f.get(second); slices.Contains(f.paths(), "/auth/refresh") {
		t.Error("refreshed although another process had done so")
	}
	for _, change := range []func(*desk.Config){
		func(cfg *desk.Config) { cfg.BackofficeURL = "http://127.0.0.1:1" },
		func(cfg *desk.Config) { cfg.IAMURL = "http://127.0.0.1:1/iam" }, // another run of the simulator knows no refresh token
	} {
		elsewhere := f.config()
		change(&elsewhere)
		if now, last := open(elsewhere).SignedIn(); now || last.Username != "parwana" {
			t.Errorf("at another platform: %v %+v", now, last)
		}
	}
	if err := second.SignOut(t.Context()); err != nil {
		t.Fatal(err)
	}
	if now, _ := open(f.config()).SignedIn(); now {
		t.Error("signed in after a sign-out")
	}
	b, err := os.ReadFile(path)
	if err != nil || bytes.Contains(b, []byte("rft_")) {
		t.Errorf("tokens are left on disk: %v", err)
	}
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := desk.Open(path, f.config()); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("a damaged file: %v", err)
	}
}
