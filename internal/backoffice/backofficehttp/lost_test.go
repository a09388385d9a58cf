package backofficehttp_test

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/identity"
	"melmastoon.ghasi.io/bff/internal/local/stack"
	"melmastoon.ghasi.io/bff/internal/redis"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

// tier is a session tier of a test's own, behind an address that may lead to another
// server from one moment to the next.
type tier struct {
	t       *testing.T
	first   *stack.Redis
	clients map[*stack.Redis]rueidis.Client
	front   *testkit.Line
	url     string
}

func newTier(t *testing.T) *tier {
	t.Helper()
	first := testkit.NewRedis(t)
	x := &tier{t: t, first: first, front: testkit.NewLine(t, first.URL()), clients: map[*stack.Redis]rueidis.Client{}}
	x.url = x.front.URL
	return x
}

func hostOf(t *testing.T, server *stack.Redis) (host, password string) {
	t.Helper()
	u, err := url.Parse(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	password, _ = u.User.Password()
	return u.Host, password
}

// lead has connections from now on go to a server.
func (x *tier) lead(to *stack.Redis) {
	x.t.Helper()
	host, _ := hostOf(x.t, to)
	x.front.Lead(host)
}

// do sends a command to one server itself.
func (x *tier) do(server *stack.Redis, args ...string) string {
	x.t.Helper()
	c := x.clients[server]
	if c == nil {
		var err error
		if c, err = redis.Open(redis.Config{URL: server.URL(), Tier: "direct", Timeout: time.Minute}); err != nil {
			x.t.Fatal(err)
		}
		x.t.Cleanup(c.Close)
		x.clients[server] = c
	}
	text, err := c.Do(testkit.Context(x.t), c.B().Arbitrary(args...).Build()).ToString()
	if err != nil && !rueidis.IsRedisNil(err) {
		x.t.Fatalf("%v: %v", args, err)
	}
	return text
}

// replace ends all connections: they are made again, to the server that leads by then.
func (x *tier) replace(by *stack.Redis) {
	x.t.Helper()
	x.lead(by)
	if err := x.first.Close(); err != nil {
		x.t.Fatal(err)
	}
}

// another is a server that the front's clients may sign in at as well.
func (x *tier) another() *stack.Redis {
	x.t.Helper()
	server := testkit.NewRedis(x.t)
	if _, password := hostOf(x.t, x.first); password != "" {
		x.do(server, "PING") // signs in
		x.do(server, "CONFIG", "SET", "requirepass", password)
	}
	return server
}

// follows waits until a replica has got what was written last.
func (x *tier) follows(replica *stack.Redis) {
	x.t.Helper()
	last := rand.Text()
	x.do(x.first, "SET", "last", last)
	for x.do(replica, "GET", "last") != last {
		if testkit.Context(x.t).Err() != nil {
			x.t.Fatal("the replica does not follow")
		}
	}
}

// reach waits until the front's client has got over the break.
func (f *front) reach() {
	f.tb.Helper()
	ctx := testkit.Context(f.tb)
	for {
		err := f.client.Do(ctx, f.client.B().Ping().Build()).Error()
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			f.tb.Fatalf("the tier did not come back: %v", err)
		}
	}
}

// However the tier loses what it knew, tokens that were revoked or signed out with, and
// proofs that were used, stay refused; all others are refreshed once.
func TestLostTierForgetsNobody(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		prepare func(x *tier) *stack.Redis     // before all
		cut     func(x *tier, to *stack.Redis) // before what is lost
		lose    func(x *tier, to *stack.Redis)
	}{
		"flushed": {
			func(*tier) *stack.Redis { return nil },
			func(*tier, *stack.Redis) {},
			func(x *tier, _ *stack.Redis) { x.do(x.first, "FLUSHALL") },
		},
		"restarted empty": {
			(*tier).another,
			func(*tier, *stack.Redis) {},
			func(x *tier, to *stack.Redis) { x.replace(to) },
		},
		"a replica without the last writes": {
			func(x *tier) *stack.Redis {
				replica := x.another()
				host, password := hostOf(x.t, x.first)
				if password != "" {
					x.do(replica, "CONFIG", "SET", "masterauth", password)
				}
				at := strings.LastIndexByte(host, ':')
				x.do(replica, "REPLICAOF", host[:at], host[at+1:])
				x.follows(replica)
				return replica
			},
			func(x *tier, replica *stack.Redis) {
				x.follows(replica)
				x.do(replica, "REPLICAOF", "NO", "ONE") // what comes now it does not get
			},
			func(x *tier, to *stack.Redis) { x.replace(to) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newTier(t)
			to := test.prepare(x)
			f := newFront(t, frontConfig{redisURL: x.url, instances: 2, limits: "off"})
			honest, out, revoked := f.sender("opt_parwana"), f.sender("opt_parwana"), f.sender("opt_parwana")
			for _, s := range []*sender{honest, out, revoked} {
				s.session()
			}
			f.iam.tokens = identity.Tokens{AccessToken: honest.token(), RefreshToken: "rft_2", ExpiresIn: 900}
			second := backoffice.Attestation{
				ID: bff.NewID(bff.PrefixMFA, f.clock()), Tenant: f.tenant, Operator: "opt_parwana", ExpiresAt: f.clock().Add(backoffice.AttestationLifetime),
			}
			if err := f.sessions.AddAttestation(t.Context(), second); err != nil {
				t.Fatal(err)
			}
			test.cut(x, to)
			used, refresh := honest.request(http.MethodGet, base+"/session", ""), honest.refreshRequest(`{"refreshToken":"rft_1"}`)
			expect := func(when string, want map[string]*request) {
				t.Helper()
				for key, r := range want {
					_, code, _ := strings.Cut(key, ": ")
					for instance := range 2 {
						if got := codeOf(f.send(instance, r)); got != code {
							t.Errorf("%s, instance %d, %s", when, instance, key+", got "+got)
						}
					}
				}
			}
			for _, r := range []*request{used, refresh} {
				if got := codeOf(f.send(0, r)); got != "OK" {
					t.Fatal(got)
				}
			}
			if ok, err := f.sessions.UseAttestation(t.Context(), second, "one refund"); !ok || err != nil {
				t.Fatal(ok, err)
			}
			f.advance(time.Second)
			caller := revoked.caller()
			if err := errors.Join(
				f.accesses[0].Revoke(t.Context(), identity.Revocation{
					Tenant: f.tenant, Device: caller.Device, Reason: "stolen", At: f.clock(),
				}, backoffice.Occasion{}, f.clock()),
			); err != nil {
				t.Fatal(err)
			}
			if got := codeOf(out.from(0, http.MethodPost, "/auth/sign-out", "")); got != "No Content" {
				t.Fatal(got)
			}
			asRevoked, asOut := revoked.request(http.MethodGet, base+"/session", ""), out.request(http.MethodGet, base+"/session", "")
			expect("before", map[string]*request{"replayed: DPOP_REPLAYED": used, "refreshed twice: DPOP_REPLAYED": refresh})
			for _, s := range []*sender{revoked, out} {
				if got := codeOf(s.get("/session")); got != "SESSION_REVOKED" {
					t.Errorf("before: %s", got)
				}
			}

			f.advance(1300 * time.Millisecond) // in the middle of a second
			test.lose(x, to)
			f.reach()
			expect("after", map[string]*request{
				"revoked: TOKEN_EXPIRED": asRevoked, "signed out: TOKEN_EXPIRED": asOut, "a used proof: TOKEN_EXPIRED": used,
				"a used refresh: SERVICE_UNAVAILABLE": refresh,
			})
			if _, err := f.sessions.FindAttestation(t.Context(), f.tenant, second.ID); !errors.Is(err, backoffice.ErrNoAttestation) {
				t.Errorf("a spent attestation: %v", err)
			}
			if w := f.send(0, honest.refreshRequest(`{"refreshToken":"rft_1"}`)); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "1" {
				t.Errorf("a refresh in the second of the loss: %d %v", w.Code, w.Header())
			}

			f.advance(time.Second)
			expect("later", map[string]*request{"revoked: TOKEN_EXPIRED": asRevoked, "signed out: TOKEN_EXPIRED": asOut, "a used proof: TOKEN_EXPIRED": used})
			if w := f.send(1, refresh); codeOf(w) != "DPOP_INVALID" || !strings.Contains(w.Header().Get("Www-Authenticate"), "use_dpop_nonce") {
				t.Errorf("a used refresh: %s", w.Body)
			}
			again := f.senderAt("opt_parwana", honest.device)
			f.iam.tokens.AccessToken = again.token()
			if got := codeOf(f.send(1, honest.refreshRequest(`{"refreshToken":"rft_1"}`))); got != "OK" {
				t.Errorf("a refresh after the loss: %s", got)
			}
			for instance := range 2 {
				if got := codeOf(again.from(instance, http.MethodGet, "/session", "")); got != "OK" {
					t.Errorf("instance %d, a token of after the loss: %s", instance, got)
				}
			}
			// A clock that is behind: the proof's own time says nothing, the nonce does.
			f.advance(time.Minute)
			late := honest.refreshRequest(`{"refreshToken":"rft_1"}`)
			late.proof.At = f.clock().Add(-time.Hour)
			late.proof.Nonce = f.send(0, honest.refreshRequest(`{}`)).Header().Get("Dpop-Nonce")
			if got := codeOf(f.send(0, late)); got != "OK" {
				t.Errorf("a clock that is behind: %s", got)
			}
		})
	}
}

// Each server of a cluster has a mark: where one of them has lost it, the whole tier's
// memory has a gap.
func TestLostServerOfAClusterForgetsNobody(t *testing.T) {
	t.Parallel()
	f := newFront(t, frontConfig{redisURL: clusterURL(t), instances: 2})
	f.sender("opt_parwana").session()
	births, _ := f.held(":born:{*}")
	if len(births) < 3 {
		t.Fatalf("marks: %v", births)
	}
	for _, lost := range births {
		s := f.sender("opt_parwana")
		if got := codeOf(s.get("/session")); got != "OK" {
			t.Fatal(got)
		}
		f.advance(time.Second)
		if err := f.client.Do(t.Context(), f.client.B().Del().Key(lost).Build()).Error(); err != nil {
			t.Fatal(err)
		}
		for instance := range 2 {
			if got := codeOf(s.from(instance, http.MethodGet, "/session", "")); got != "TOKEN_EXPIRED" {
				t.Errorf("instance %d after %s was lost: %s", instance, lost, got)
			}
		}
	}
}

// A server that takes over behind a proxy, without a new connection, is found by looking.
func TestServersAreWatched(t *testing.T) {
	t.Parallel()
	x := newTier(t)
	f := newFront(t, frontConfig{redisURL: x.url})
	s := f.sender("opt_parwana")
	s.session()
	f.advance(time.Hour) // beyond whatever the watch writes
	for _, args := range [][]string{{"127.0.0.1", "1"}, {"NO", "ONE"}} {
		x.do(x.first, append([]string{"REPLICAOF"}, args...)...)
	}
	ctx, stop := context.WithCancel(testkit.Context(t))
	defer stop()
	watched := make(chan error, 1)
	go func() { watched <- f.sessions.Watch(ctx) }()
	before := x.do(x.first, "GET", f.keys.Birth(0))
	for x.do(x.first, "GET", f.keys.Birth(0)) == before {
		if ctx.Err() != nil {
			t.Fatal("the servers were not looked at")
		}
	}
	stop()
	if err := <-watched; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// Two instances that find the mark gone at once agree on one.
func TestBirthsAreOne(t *testing.T) {
	t.Parallel()
	f := newFront(t, frontConfig{instances: 3, limits: "off"})
	answers := make(chan string, 30)
	for i := range 30 {
		s := f.sender("opt_parwana")
		go func() { answers <- codeOf(s.from(i%3, http.MethodGet, "/session", "")) }()
	}
	for range 30 {
		if got := <-answers; got != "OK" {
			t.Error(got)
		}
	}
}

// A tier whose memory is full takes no writes: the service is not ready, says why, and is
// ready again when there is room.
func TestReadyNeedsWrites(t *testing.T) {
	t.Parallel()
	x := newTier(t)
	f := newFront(t, frontConfig{redisURL: x.url})
	s := f.sender("opt_parwana")
	s.session()
	for range 2 {
		if err := f.sessions.Ready(t.Context()); err != nil {
			t.Fatalf("with room: %v", err)
		}
		x.do(x.first, "CONFIG", "SET", "maxmemory", "1")
		if err := f.sessions.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), "takes no writes") {
			t.Errorf("without room: %v", err)
		}
		if got := codeOf(s.get("/session")); got != "SERVICE_UNAVAILABLE" {
			t.Errorf("without room: %s", got)
		}
		x.do(x.first, "CONFIG", "SET", "maxmemory", "0")
		if got := codeOf(s.get("/session")); got != "OK" {
			t.Errorf("with room again: %s", got)
		}
	}
}
