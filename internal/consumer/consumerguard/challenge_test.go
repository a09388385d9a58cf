package consumerguard

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/challenge"
	"melmastoon.ghasi.io/bff/internal/consumer/bot"
)

// solution solves a challenge for the client with these headers.
func (a *simulation) solution(header map[string]string) string {
	a.t.Helper()
	var ch challenge.Challenge
	if err := json.Unmarshal(a.send(http.MethodGet, "/challenge", "", home, header).body, &ch); err != nil {
		a.t.Fatal(err)
	}
	n, err := ch.Solve(context.Background())
	if err != nil {
		a.t.Fatal(err)
	}
	payload, err := ch.Encode(n)
	if err != nil {
		a.t.Fatal(err)
	}
	return payload
}

func TestHardBlockEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newSimulation(t, nil)
		cookie := a.cookie()
		pass(time.Millisecond)
		for range maxFailures {
			if got := a.send(http.MethodGet, "/session", "", home, firefoxHeaders("Cookie", cookie, "X-Challenge", "nonsense")); got.code != bff.CodeChallengeInvalid {
				t.Fatalf("nonsense: %d %s", got.status, got.body)
			}
		}
		synctest.Wait() // the session was looked up
		ask := func() sent { return a.send(http.MethodGet, "/hotels/h1", "", home, firefoxHeaders("Cookie", cookie)) }
		got := ask()
		if wait, _ := strconv.Atoi(got.header.Get("Retry-After")); got.code != bff.CodeSuspectedBot || wait != 600 {
			t.Fatalf("got %d %s, Retry-After %d", got.status, got.body, wait)
		}
		if got := a.send(http.MethodGet, "/challenge", "", home, firefoxHeaders("Cookie", cookie)); got.status != http.StatusTooManyRequests {
			t.Errorf("a challenge for who is shut out: %d", got.status)
		}
		if got := a.send(http.MethodGet, "/hotels/h1", "", home, firefoxHeaders("Cookie", a.cookie())); got.status != http.StatusOK {
			t.Errorf("another session: %d %s", got.status, got.body)
		}
		pass(blockFor - 2*time.Second)
		if got := ask(); got.status != http.StatusTooManyRequests {
			t.Errorf("after all but two seconds: %d", got.status)
		}
		pass(3 * time.Second)
		if got := ask(); got.status != http.StatusOK {
			t.Errorf("after ten minutes: %d %s", got.status, got.body)
		}
		synctest.Wait()
		if n := len(a.memory.logged); n != 1 || a.memory.logged[0].ActionTaken != string(bot.ActionHardBlock) {
			t.Errorf("logged: %+v", a.memory.logged)
		}
	})
}

func TestIgnoredChallenges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newSimulation(t, nil)
		cookie := a.cookie()
		blocked := 0
		for i := range maxIgnored + 20 {
			got := a.send(http.MethodPost, "/wishlist", "{}", home, robotHeaders("Cookie", cookie, "Idempotency-Key", fmt.Sprint(i)))
			if got.code != bff.CodeSuspectedBot {
				t.Fatalf("%d %s", got.status, got.body)
			}
			if got.header.Get("Link") == "" {
				blocked++
			}
			pass(2 * time.Second)
		}
		if blocked != 19 {
			t.Errorf("%d requests met a block, want 19", blocked)
		}
	})
}

func TestSolvedChallengeIsRemembered(t *testing.T) {
	t.Parallel()
	for name, session := range map[string]bool{"session": true, "no session": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				a := newSimulation(t, nil)
				var who []string
				if session {
					who = []string{"Cookie", a.cookie()}
				}
				n := 0
				mint := func(addr string, more ...string) sent {
					n++
					return a.send(http.MethodPost, "/handoff", "{}", addr, robotHeaders(append(append(who, "Idempotency-Key", fmt.Sprint(n)), more...)...))
				}
				if got := mint(home); got.code != bff.CodeSuspectedBot {
					t.Fatalf("%d %s", got.status, got.body)
				}
				payload := a.solution(robotHeaders(who...))
				if !session {
					if got := mint(elsewhere, "X-Challenge", payload); got.code != bff.CodeChallengeInvalid {
						t.Errorf("from another network: %d %s", got.status, got.body)
					}
				}
				if got := mint(home, "X-Challenge", payload); got.status != http.StatusOK {
					t.Fatalf("with the solution: %d %s", got.status, got.body)
				}
				if got := mint(home, "X-Challenge", payload); got.code != bff.CodeChallengeInvalid {
					t.Errorf("spent: %d %s", got.status, got.body)
				}
				pass(15 * time.Minute) // the failure above is forgotten, the solution is not
				if got := mint(home); got.status != http.StatusOK {
					t.Errorf("a while after the solution: %d %s", got.status, got.body)
				}
				pass(16 * time.Minute)
				if got := mint(home); got.code != bff.CodeSuspectedBot {
					t.Errorf("after half an hour: %d %s", got.status, got.body)
				}
			})
		})
	}
}

// oracle plays reCAPTCHA.
type oracle struct{}

func (oracle) Assess(_ context.Context, token string) (float64, bool, error) {
	switch token {
	case "person":
		return 0.9, true, nil
	case "program":
		return 0.1, true, nil
	case "broken":
		return 0, false, context.DeadlineExceeded
	}
	return 0, false, nil
}

func TestRecaptcha(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newSimulation(t, func(c *Config) { c.Recaptcha = oracle{} })
		for token, want := range map[string]bff.Code{
			"person": "", "program": bff.CodeChallengeInvalid, "forged": bff.CodeChallengeInvalid, "broken": bff.CodeSuspectedBot,
			strings.Repeat("x", maxToken+1): bff.CodeChallengeInvalid,
		} {
			got := a.send(http.MethodPost, "/wishlist", "{}", home, robotHeaders("Cookie", a.cookie(), "X-Recaptcha-Token", token))
			if got.code != want {
				t.Errorf("%.10s: got %d %s, want %s", token, got.status, got.body, want)
			}
		}
		h := robotHeaders("Cookie", a.cookie())
		h["X-Challenge"] = a.solution(h) // works with no third party
		if got := a.send(http.MethodPost, "/wishlist", "{}", home, h); got.status != http.StatusOK {
			t.Errorf("a challenge of ours: %d %s", got.status, got.body)
		}
	})
}
