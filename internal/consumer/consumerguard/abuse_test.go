package consumerguard

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

func inventedCookie() string {
	return consumer.SessionCookie + "=" + bff.NewID(bff.PrefixGuestSession, time.Now()).String()
}

// TestProvenSearchEngineIsLimited: what a search engine may read for nothing it
// may not change for nothing.
func TestProvenSearchEngineIsLimited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newSimulation(t, nil)
		google := func(more ...string) map[string]string {
			return firefoxHeaders(append([]string{"User-Agent", "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"}, more...)...)
		}
		a.send(http.MethodGet, "/hotels/first", "{}", googleAddr, google())
		synctest.Wait() // proven by now
		count := func(n int, method, path string) (ok int) {
			for i := range n {
				if a.send(method, path, "{}", googleAddr, google("Idempotency-Key", fmt.Sprint(i))).status == http.StatusOK {
					ok++
				}
			}
			return ok
		}
		if n := count(300, http.MethodPost, "/handoff"); n > 50 {
			t.Errorf("%d hand-offs in a moment, want at most the 50 of an address", n)
		}
		if n := count(2000, http.MethodPost, "/telemetry/page-view"); n > 1200 {
			t.Errorf("%d reports in a moment, want at most the 1200 of an address", n)
		}
		if n := count(1000, http.MethodGet, "/session"); n > 300 {
			t.Errorf("%d sessions in a moment, want at most the 300 of an address", n)
		}
		if n := count(1000, http.MethodGet, "/hotels/first"); n != 1000 {
			t.Errorf("%d pages from the cache, want all 1000", n)
		}
	})
}

// TestSolutionsAreCharged: the address pays for a solution before it is looked at,
// and made-up sessions are never blocked: the shared list is for true ones.
func TestSolutionsAreCharged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newSimulation(t, nil)
		codes := map[bff.Code]int{}
		cookie := ""
		for i := range 3000 {
			if i%3 == 0 {
				cookie = inventedCookie()
			}
			codes[a.send(http.MethodPost, "/search", fmt.Sprint(i), home, firefoxHeaders("Cookie", cookie, "X-Challenge", "junk")).code]++
			if i%100 == 0 {
				synctest.Wait()
			}
		}
		synctest.Wait()
		if codes[bff.CodeChallengeInvalid] != 300 || codes[bff.CodeRateLimited] != 2700 {
			t.Errorf("got %v, want 300 solutions looked at", codes)
		}
		if n := len(a.memory.blocked); n != 0 {
			t.Errorf("%d made-up sessions are blocked", n)
		}
		if a.fills != 0 {
			t.Errorf("%d upstream calls", a.fills)
		}
		// A session of ours that fails three times is blocked.
		cookie = a.cookie()
		pass(time.Minute)
		for range maxFailures {
			a.send(http.MethodPost, "/search", "x", home, firefoxHeaders("Cookie", cookie, "X-Challenge", "junk"))
		}
		synctest.Wait()
		if n := len(a.memory.blocked); n != 1 {
			t.Errorf("%d sessions are blocked, want 1", n)
		}
		// One with a card is ours, although the store has lost it.
		cookie = a.carded()
		pass(time.Minute)
		for range maxFailures {
			a.send(http.MethodPost, "/search", "x", home, firefoxHeaders("Cookie", cookie, "X-Challenge", "junk"))
		}
		synctest.Wait()
		if n := len(a.memory.blocked); n != 2 {
			t.Errorf("%d sessions are blocked, want that with the card too", n)
		}
	})
}

// carded returns the cookies of a session that has a card and is in no store.
func (a *simulation) carded() string {
	a.t.Helper()
	return consumer.CardCookie + "=" + a.card(bff.NewID(bff.PrefixGuestSession, time.Now()))
}

// TestCardsAreNotMadeUp: where most new sessions are made up, a card tells the
// others apart without a look into the store, whether ids count without one or not.
func TestCardsAreNotMadeUp(t *testing.T) {
	t.Parallel()
	for _, cardless := range []bool{false, true} {
		t.Run(fmt.Sprint("cardless ", cardless), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { cardsAreNotMadeUp(t, cardless) })
		})
	}
}

func cardsAreNotMadeUp(t *testing.T, cardless bool) {
	t.Helper()
	a := newSimulation(t, func(c *Config) { c.Limits.Off, c.Cardless.Always = true, cardless })
	for i := range 60 {
		a.send(http.MethodPost, "/search", fmt.Sprint("made up ", i), home, firefoxHeaders("Cookie", inventedCookie()))
		synctest.Wait()
	}
	if got := a.send(
		http.MethodPost, "/handoff", "{}", home, firefoxHeaders("Cookie", inventedCookie(), "Idempotency-Key", "1"),
	); got.code != bff.CodeSuspectedBot {
		t.Fatalf("a made-up session: %d %s", got.status, got.body)
	}
	synctest.Wait()
	looked := a.sessions.looked()
	if got := a.send(http.MethodPost, "/handoff", "{}", home, firefoxHeaders("Cookie", a.carded(), "Idempotency-Key", "1")); got.status != http.StatusOK {
		t.Errorf("with a card: %d %s", got.status, got.body)
	}
	synctest.Wait()
	if n := a.sessions.looked() - looked; n != 0 {
		t.Errorf("looked %d times for a session with a card", n)
	}
}

// meter counts the assessments, of which none ends before its time.
type meter struct {
	calls, running, most atomic.Int32
	person               float64
	slow                 time.Duration
}

func (m *meter) Assess(context.Context, string) (float64, bool, error) {
	m.calls.Add(1)
	n := m.running.Add(1)
	defer m.running.Add(-1)
	for most := m.most.Load(); n > most && !m.most.CompareAndSwap(most, n); most = m.most.Load() {
	}
	pass(m.slow)
	return m.person, true, nil
}

// TestAssessmentsAreBounded: a third party that is paid by the call is asked about
// suspects only, a few at once, and not for ever about one network.
func TestAssessmentsAreBounded(t *testing.T) {
	t.Parallel()
	t.Run("people", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			m := &meter{person: 0.9}
			a := newSimulation(t, func(c *Config) { c.Recaptcha = m })
			cookie := a.cookie()
			for i := range 100 {
				if got := a.send(
					http.MethodGet, "/hotels/h1", "", home, firefoxHeaders("Cookie", cookie, "X-Recaptcha-Token", fmt.Sprint(i)),
				); got.status != http.StatusOK {
					t.Fatalf("%d %s", got.status, got.body)
				}
				pass(time.Second)
			}
			if n := m.calls.Load(); n != 0 {
				t.Errorf("%d assessments of clients that nothing is held against", n)
			}
		})
	})
	t.Run("network", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			m := &meter{person: 0.1}
			a := newSimulation(t, func(c *Config) { c.Recaptcha = m })
			for range 5000 {
				a.send(http.MethodPost, "/wishlist", "{}", home, robotHeaders("Cookie", inventedCookie(), "X-Recaptcha-Token", "x"))
			}
			if n := m.calls.Load(); n > maxNetworkFailures {
				t.Errorf("%d assessments for one address, want at most %d", n, maxNetworkFailures)
			}
		})
	})
	t.Run("at once", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			m := &meter{person: 0.9, slow: time.Second}
			a := newSimulation(t, func(c *Config) { c.Recaptcha = m })
			var wg sync.WaitGroup
			for i := range 100 {
				wg.Go(func() {
					r, w := newCall(http.MethodPost, "/wishlist", "{}", fmt.Sprintf("203.0.113.%d", i), robotHeaders("Cookie", inventedCookie(), "X-Recaptcha-Token", "x"))
					a.server.ServeHTTP(w, r)
				})
			}
			wg.Wait()
			if n := m.most.Load(); n != maxAssessing {
				t.Errorf("%d assessments at once, want %d", n, maxAssessing)
			}
		})
	})
}

// TestNewcomersAreNotBlocked: whatever a client without a session does to
// challenges, those who look the same there are served.
func TestNewcomersAreNotBlocked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newSimulation(t, nil)
		newcomer := func(when string) {
			t.Helper()
			for _, ask := range [][2]string{
				{http.MethodPost, "/search"}, {http.MethodGet, "/hotels/h1"}, {http.MethodGet, "/facets"}, {http.MethodGet, "/session"}, {http.MethodPost, "/wishlist"},
			} {
				if got := a.send(ask[0], ask[1], "{}", home, firefoxHeaders()); got.status != http.StatusOK {
					t.Errorf("%s: %s %s: %d %s", when, ask[0], ask[1], got.status, got.body)
				}
			}
		}
		newcomer("before")
		for range 20 {
			if got := a.send(http.MethodGet, "/facets", "", home, firefoxHeaders("X-Challenge", "x")); got.code != bff.CodeChallengeInvalid {
				t.Fatalf("junk: %d %s", got.status, got.body)
			}
			pass(time.Second)
		}
		newcomer("after twenty wrong solutions")
		for i := range 3 * maxIgnored {
			a.send(http.MethodPost, "/wishlist", "{}", elsewhere, robotHeaders("Idempotency-Key", fmt.Sprint(i)))
			pass(time.Second)
		}
		if got := a.send(http.MethodPost, "/wishlist", "{}", elsewhere, robotHeaders()); got.header.Get("Link") == "" {
			t.Errorf("a client without a session that ignored challenges: %d %s, want another challenge", got.status, got.body)
		}
		if n := len(a.memory.blocked); n != 0 {
			t.Errorf("%d are blocked", n)
		}
	})
}

// TestChallengeFollowsTheScore: a challenge that was asked for with a person's
// headers does not pay for what the client turns out to be, and costs no strike; and
// no solution pays for a driven browser or a false claim.
func TestChallengeFollowsTheScore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newSimulation(t, func(c *Config) { c.Policy.Weights["robot"] = 0.75 })
		cookie := a.cookie()
		pass(time.Millisecond)
		n := 0
		mint := func(h map[string]string, solution string) sent {
			n++
			h["Cookie"], h["Idempotency-Key"], h["X-Challenge"] = cookie, fmt.Sprint(n), solution
			return a.send(http.MethodPost, "/handoff", "{}", home, h)
		}
		for range 2 * maxFailures {
			easy := a.solution(firefoxHeaders("Cookie", cookie))
			if got := mint(robotHeaders(), easy); got.code != bff.CodeChallengeInvalid {
				t.Fatalf("an easy solution: %d %s", got.status, got.body)
			}
			pass(10 * time.Second)
		}
		synctest.Wait()
		if len(a.memory.blocked) != 0 {
			t.Error("easy solutions are strikes")
		}
		if got := mint(robotHeaders(), a.solution(robotHeaders("Cookie", cookie))); got.status != http.StatusOK {
			t.Errorf("a solution as hard as the score: %d %s", got.status, got.body)
		}
		if got := mint(headlessHeaders(), a.solution(headlessHeaders("Cookie", cookie))); got.code != bff.CodeSuspectedBot || got.header.Get("Link") != "" {
			t.Errorf("a driven browser with a solution: %d %s", got.status, got.body)
		}
		liar := firefoxHeaders("User-Agent", "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)")
		mint(liar, "")
		synctest.Wait() // found to be none
		liar["Cookie"] = cookie
		delete(liar, "X-Challenge")
		if got := mint(liar, a.solution(liar)); got.code != bff.CodeSuspectedBot {
			t.Errorf("a false claim with a solution: %d %s", got.status, got.body)
		}
	})
}

// TestHintsAreNoNewClient: a new screen or time zone with each request is still
// one client of its network, and its pace is seen.
func TestHintsAreNoNewClient(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newSimulation(t, nil)
		for i := range 900 {
			a.send(http.MethodGet, fmt.Sprintf("/suggest?q=%d", i), "", home,
				firefoxHeaders("X-Client-Screen", fmt.Sprintf("%dx%d", 300+i, 600), "X-Client-Timezone", fmt.Sprint("Zone/", i)))
			pass(10 * time.Millisecond)
		}
		if !a.caught {
			t.Error("900 requests in nine seconds were not noticed")
		}
	})
}

// TestSessionsOfANetworkAreBounded: beyond its bound a network opens no further
// sessions; what is the same for all it may still read.
func TestSessionsOfANetworkAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newSimulation(t, nil)
		person := a.cookie()
		for i := range 1000 {
			h := firefoxHeaders("Accept-Language", fmt.Sprintf("fa;q=0.%d", i))
			a.send(http.MethodGet, "/session", "", home, h)
			a.send(http.MethodPost, "/search", "warm", home, h)
			a.send(http.MethodPost, "/wishlist", "{}", home, h)
			pass(10 * time.Millisecond)
		}
		// 300 in any minute; windows are coarse.
		if n := len(a.sessions.at) - 1; n < 250 || n > 350 {
			t.Errorf("%d sessions were opened, want about 300", n)
		}
		if got := a.send(
			http.MethodPost, "/search", "warm", home, firefoxHeaders("Accept-Language", "ps"),
		); got.status != http.StatusOK || got.header.Get("Set-Cookie") != "" {
			t.Errorf("a search that is there: %d %s", got.status, got.body)
		}
		if got := a.send(http.MethodPost, "/search", "warm", home, firefoxHeaders("Cookie", person)); got.status != http.StatusOK {
			t.Errorf("a person with a session: %d %s", got.status, got.body)
		}
	})
}

// attacks are what one address throws at the service, a hundred times a second.
// Each makes a cookie up, and half of them a key, a solution, a token, a crawler's
// name or forwarding headers with it.
func attacks(i int) (method, path, body string, h map[string]string) {
	h = firefoxHeaders("Cookie", inventedCookie(), "Idempotency-Key", fmt.Sprint(i%7))
	switch i / 9 % 7 {
	case 0:
		h["User-Agent"] = "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"
	case 1:
		h["X-Challenge"] = "junk"
	case 2:
		h["X-Recaptcha-Token"] = "junk"
	case 3:
		h["X-Forwarded-For"], h["Forwarded"], h["X-Real-Ip"] = fmt.Sprintf("198.51.100.%d", i%250), "for=198.51.100.7", "198.51.100.9"
	case 4:
		h["X-Client-Screen"], h["Accept-Language"] = fmt.Sprintf("%dx600", i), fmt.Sprintf("fa;q=0.%d", i%1000)
	}
	switch i % 9 {
	case 0:
		return http.MethodPost, "/search", fmt.Sprint(i), h
	case 1:
		return http.MethodGet, fmt.Sprintf("/suggest?q=%d", i), "", h
	case 2:
		return http.MethodGet, fmt.Sprintf("/hotels/%d", i), "", h
	case 3:
		return http.MethodPost, "/handoff", unknownHotel, h
	case 4:
		return http.MethodPost, "/wishlist", fmt.Sprint(i), h
	case 5:
		return http.MethodPost, "/session/locale", "{}", h
	case 6:
		delete(h, "Cookie")
		return http.MethodPost, "/telemetry/page-view", "{}", h
	case 7:
		delete(h, "Cookie")
		return http.MethodPost, "/search", fmt.Sprint("cold", i), h
	}
	return http.MethodGet, "/facets", "", h
}

// TestProofHostileAddress: for a minute, or two, one address sends whatever might lift its
// limits. It causes no more upstream calls, changes, sessions, rows and calls of a third party than
// they allow; and a person behind the same address is not refused anything.
func TestProofHostileAddress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		third := &meter{person: 0.1}
		a := newSimulation(t, func(c *Config) { c.Recaptcha = third })
		ask := func(i int, cookie, method, path, body string) {
			t.Helper()
			h := firefoxHeaders("Cookie", cookie, "Accept-Language", "ps-AF", "Idempotency-Key", fmt.Sprint("mine", i))
			if got := a.send(method, path, body, home, h); got.status != http.StatusOK {
				t.Errorf("a person after %d requests of the attacker: %s %s: %d %s", i, method, path, got.status, got.body)
			}
		}
		person := a.cookie()
		ask(-1, person, http.MethodPost, "/search", "warm")
		ask(-1, person, http.MethodGet, "/hotels/warm", "")
		pass(time.Minute)
		before, fills, opened := maps.Clone(a.served), a.fills, len(a.sessions.at)
		const perSecond = 100
		seconds := testkit.Proof(60, 120)
		own := map[string]int{}
		for i := range seconds * perSecond {
			method, path, body, h := attacks(i)
			a.send(method, path, body, home, h)
			if i%perSecond != 0 {
				pass(time.Second / perSecond)
				continue
			}
			synctest.Wait()
			switch second := i / perSecond; second % 10 {
			case 3:
				ask(i, person, http.MethodPost, "/search", "warm")
				ask(i, person, http.MethodGet, "/hotels/warm", "")
			case 5:
				ask(i, person, http.MethodGet, "/session", "")
				ask(i, person, http.MethodPost, "/telemetry/page-view", "{}")
			case 7:
				ask(i, person, http.MethodPost, "/wishlist", "{}")
				own["wishlist"]++
			case 9:
				ask(i, person, http.MethodPost, "/handoff", "{}")
				own["handoff"]++
			}
		}
		synctest.Wait()
		// A limit lets a minute's worth pass at once and as much in each minute.
		minutes := seconds/60 + 1
		served := func(route string) int { return a.served[route] - before[route] }
		for what, tc := range map[string]struct{ got, want int }{
			"upstream calls":   {a.fills - fills, minutes * (300 + 600)},
			"hand-offs":        {served("POST "+base+"/handoff") - own["handoff"], minutes * 50},
			"wishes":           {served("POST "+base+"/wishlist") - own["wishlist"], minutes * 150},
			"choices":          {served("POST " + base + "/session/locale"), minutes * 300},
			"reports":          {served("POST " + base + "/telemetry/page-view"), minutes * 1200},
			"sessions":         {len(a.sessions.at) - opened, minutes * 300},
			"rows of verdicts": {len(a.memory.logged), minutes * maxNetworkLogged},
			"blocks":           {len(a.memory.blocked), 0},
			"assessments":      {int(third.calls.Load()), maxNetworkFailures},
		} {
			if tc.got > tc.want {
				t.Errorf("%d %s, want at most %d", tc.got, what, tc.want)
			}
			t.Logf("%d %s, at most %d", tc.got, what, tc.want)
		}
	})
}
