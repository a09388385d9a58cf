package consumerguard

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/handoff"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/consumer/bot"
	"melmastoon.ghasi.io/bff/internal/consumer/consumertest"
	"melmastoon.ghasi.io/bff/internal/consumer/guest"
	"melmastoon.ghasi.io/bff/internal/memo"
	"melmastoon.ghasi.io/bff/internal/web"
)

const (
	home      = "203.0.113.7"
	elsewhere = "203.0.113.8"
)

func firefoxHeaders(more ...string) map[string]string {
	h := map[string]string{
		"User-Agent": "Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0", "Accept": "*/*", "Accept-Language": "fa-AF", "Content-Type": "application/json",
	}
	for i := 0; i+1 < len(more); i += 2 {
		h[more[i]] = more[i+1]
	}
	return h
}

func headlessHeaders(more ...string) map[string]string {
	return firefoxHeaders(append([]string{"User-Agent", "Mozilla/5.0 (X11; Linux x86_64) HeadlessChrome/142.0.0.0 Safari/537.36"}, more...)...)
}

// robotHeaders are those of a program that says what it is: a suspect that may
// solve a challenge.
func robotHeaders(more ...string) map[string]string {
	return firefoxHeaders(append([]string{"User-Agent", "Mozilla/5.0 (compatible; AhrefsBot/7.0; +http://ahrefs.com/robot/)"}, more...)...)
}

// cookie returns the cookies of a new session.
func (a *simulation) cookie() string {
	a.t.Helper()
	id := a.sessions.open()
	return consumer.SessionCookie + "=" + id.String() + "; " + consumer.CardCookie + "=" + a.card(id)
}

// card returns the card of a session.
func (a *simulation) card(id bff.ID) string {
	a.t.Helper()
	card, err := a.guard.cfg.Cards.Mint(consumer.Card{SessionID: id, Locale: bff.LocaleEnglish, Currency: bff.USD, MadeAt: time.Now().UTC().Truncate(time.Second)})
	if err != nil {
		a.t.Fatal(err)
	}
	return card
}

// TestRetriesAreFree: a few attempts at one change, all at once, are one; with a
// different body, after an answer that was not kept, or on a route that keeps none,
// each is charged; and the address is charged for all of them.
func TestRetriesAreFree(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newSimulation(t, nil)
		cookie := a.cookie()
		mint := func(key, body string) sent {
			return a.send(http.MethodPost, "/handoff", body, home, firefoxHeaders("Cookie", cookie, "Idempotency-Key", key))
		}
		var wg sync.WaitGroup
		for range 11 {
			wg.Go(func() {
				r, w := newCall(http.MethodPost, "/handoff", "{}", home, firefoxHeaders("Cookie", cookie, "Idempotency-Key", "one"))
				if a.server.ServeHTTP(w, r); w.Code != http.StatusOK {
					t.Errorf("%d %s", w.Code, w.Body)
				}
			})
		}
		wg.Wait()
		served := 1
		for i := range 20 {
			if mint(fmt.Sprint(i), "{}").status == http.StatusOK {
				served++
			}
		}
		if served != 10 {
			t.Errorf("%d hand-offs in a minute, want 10", served)
		}
		if got := mint("one", "{}"); got.status != http.StatusOK {
			t.Errorf("a retry beyond the limit: %d %s", got.status, got.body)
		}
		// A refusal is not an answer: what was refused once is charged when it is let in.
		if got := mint("19", "{}"); got.code != bff.CodeRateLimited {
			t.Errorf("a retry of what was refused: %d %s", got.status, got.body)
		}
		if got := mint("one", `{"another":"body"}`); got.code != bff.CodeRateLimited {
			t.Errorf("another body under the same key: %d %s", got.status, got.body)
		}
	})
}

// TestKeyIsNoPass: an idempotency key on a route that keeps no answers, or with a
// change that fails, lifts no limit.
func TestKeyIsNoPass(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newSimulation(t, nil)
		reached := func(n int, path, body string) (ok int) {
			cookie := a.cookie()
			for range n {
				got := a.send(http.MethodPost, path, body, home, firefoxHeaders("Cookie", cookie, "Idempotency-Key", "one"))
				if got.code != bff.CodeRateLimited && got.code != bff.CodeSuspectedBot {
					ok++
				}
				pass(250 * time.Millisecond) // below the pace of a program
			}
			return ok
		}
		// A minute's worth at once, and what has grown again meanwhile.
		if n := reached(100, "/session/locale", "{}"); n > 60+25 {
			t.Errorf("%d of 100 changes of the locale passed under one key", n)
		}
		if n := reached(100, "/handoff", unknownHotel); n > 10+5 {
			t.Errorf("%d of 100 hand-offs to an unknown hotel passed under one key", n)
		}
	})
}

// TestRetriesCountAgainstTheAddress: many sessions that repeat what was answered
// use up the limit of their address.
func TestRetriesCountAgainstTheAddress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newSimulation(t, nil)
		ok := 0
		for range 10 {
			cookie := a.cookie()
			for range 10 {
				if a.send(http.MethodPost, "/handoff", "{}", home, firefoxHeaders("Cookie", cookie, "Idempotency-Key", "one")).status == http.StatusOK {
					ok++
				}
				pass(time.Millisecond)
			}
		}
		if ok != 50 {
			t.Errorf("%d attempts from one address in a moment, want 50", ok)
		}
	})
}

// TestSharedLimits: behind one address people get what is there when others
// have used up the limit, and only changes are refused.
func TestSharedLimits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newSimulation(t, func(c *Config) {
			c.Limits.PerMinute = map[string]int{"search": 4, "detail": 4, "handoff": 4, "wishlist": 4, "session": 4, "telemetry": 4, "challenge": 4}
			c.Limits.IP = 2
		})
		searches := func(n int) sent {
			return a.send(http.MethodPost, "/search", fmt.Sprint(n), home, firefoxHeaders("Cookie", a.cookie(), "Accept-Language", fmt.Sprintf("fa;q=0.%d", n)))
		}
		for n := range 8 {
			if got := searches(n); got.status != http.StatusOK {
				t.Fatalf("search %d: %d %s", n, got.status, got.body)
			}
		}
		if got := searches(9); got.code != bff.CodeRateLimited || got.header.Get("Retry-After") == "" || got.header.Get("Ratelimit-Remaining") != "0" {
			t.Errorf("a new search beyond the limit: %d %s %v", got.status, got.body, got.header)
		}
		if got := searches(3); got.status != http.StatusOK || got.header.Get("Set-Cookie") != "" {
			t.Errorf("a search that is there: %d %s", got.status, got.body)
		}
		if got := a.send(http.MethodPost, "/search", "9", elsewhere, firefoxHeaders("Accept-Language", "ps")); got.status != http.StatusOK {
			t.Errorf("another address: %d %s", got.status, got.body)
		}
		refused := 0
		for range 10 {
			if a.send(http.MethodPost, "/telemetry/page-view", "{}", home, firefoxHeaders("Cookie", a.cookie())).code == bff.CodeRateLimited {
				refused++
			}
		}
		if refused != 2 {
			t.Errorf("%d reports were refused, want 2", refused)
		}
	})
}

func TestSessionLimitIsStrict(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		campaign := false
		a := newSimulation(t, func(c *Config) {
			c.Scale = map[web.Limit]func() float64{"handoff": func() float64 {
				if campaign {
					return 0.8
				}
				return 1
			}}
		})
		cookie := a.cookie()
		served := func(n int, method, path string) (ok int) {
			for i := range n {
				if a.send(method, path, "{}", home, firefoxHeaders("Cookie", cookie, "Idempotency-Key", fmt.Sprint(path, ok, i, time.Now()))).status == http.StatusOK {
					ok++
				}
				pass(time.Millisecond)
			}
			return ok
		}
		if n := served(30, http.MethodPost, "/handoff"); n != 10 {
			t.Errorf("%d hand-offs, want 10", n)
		}
		pass(time.Minute)
		if n := served(38, http.MethodPost, "/wishlist"); n != 30 {
			t.Errorf("%d wishes, want 30", n)
		}
		pass(2 * time.Minute)
		campaign = true
		if n := served(30, http.MethodPost, "/handoff"); n != 8 {
			t.Errorf("%d hand-offs in campaign mode, want 8", n)
		}
	})
}

// TestCrawlers: search engines that are what they say get pages from the cache;
// liars are programs; clients that fetch shared links are let in.
func TestCrawlers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newSimulation(t, nil)
		bot := firefoxHeaders("User-Agent", "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)")
		hotel := func(addr string, h map[string]string, id string) sent {
			defer synctest.Wait()
			return a.send(http.MethodGet, "/hotels/"+id, "", addr, h)
		}
		hotel(home, firefoxHeaders(), "warm")
		hotel(googleAddr, bot, "first") // not yet proven: a visitor like others
		hotel(elsewhere, bot, "second")

		got := hotel(googleAddr, bot, "warm")
		if got.status != http.StatusOK || got.header.Get("Set-Cookie") != "" {
			t.Errorf("a page for Google: %d %s", got.status, got.body)
		}
		if got := hotel(googleAddr, bot, "cold"); got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") == "" {
			t.Errorf("a page for Google that is not there: %d %s", got.status, got.body)
		}
		if got := a.send(http.MethodPost, "/telemetry/page-view", "{}", googleAddr, bot); got.status != http.StatusOK || got.header.Get("Ratelimit-Limit") == "" {
			t.Errorf("Google's telemetry is a guest's: %d", got.status)
		}
		if got := hotel(elsewhere, bot, "cold"); got.code != bff.CodeSuspectedBot {
			t.Errorf("who says to be Google: %d %s", got.status, got.body)
		}

		preview := firefoxHeaders("User-Agent", "facebookexternalhit/1.1 (+http://www.facebook.com/externalhit_uatext.php)")
		for i := range 100 { // a link that many share
			if got := hotel("198.51.100.77", preview, fmt.Sprint("shared", i)); got.status != http.StatusOK {
				t.Fatalf("a shared link: %d %s", got.status, got.body)
			}
		}
		if got := a.send(http.MethodPost, "/search", "shared", "198.51.100.77", preview); got.code != bff.CodeSuspectedBot {
			t.Errorf("a fetcher of links that searches, fast: %d %s", got.status, got.body)
		}
	})
}

// TestVerdictsAreLogged: once a minute for a visitor and verdict, with all that
// was held against it.
func TestVerdictsAreLogged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newSimulation(t, nil)
		a.memory.penalty = 0.25
		cookie := a.cookie()
		for i := range 20 {
			a.send(http.MethodPost, "/search", fmt.Sprint(i), home, headlessHeaders("Cookie", cookie, "Accept-Language", ""))
			pass(5 * time.Second)
		}
		a.send(http.MethodPost, "/search", "x", home, headlessHeaders("Accept-Language", ""))
		synctest.Wait()
		if n := len(a.memory.logged); n < 3 || n > 5 || a.memory.events != n {
			t.Fatalf("%d verdicts and %d events in 100 seconds", n, a.memory.events)
		}
		last := a.memory.logged[1]
		if last.Verdict != string(bot.Bot) || last.Score < 0.89 || !strings.HasPrefix(
			cookie, consumer.SessionCookie+"="+last.GuestSessionID.String()+";",
		) || last.IPHash == (consumer.Hash{}) {
			t.Errorf("logged: %+v", last)
		}
		var kinds []string
		for _, s := range last.Signals {
			kinds = append(kinds, s.Kind+" "+s.Detail)
		}
		if got, want := strings.Join(kinds, ", "), "ua-pattern headlessChrome, header-anomaly no-accept-language, header-anomaly earlier-misdeeds"; got != want {
			t.Errorf("signals %s, want %s", got, want)
		}
		if s := a.memory.logged[len(a.memory.logged)-1]; !s.GuestSessionID.IsZero() {
			t.Errorf("the row of a visitor without a session names one: %+v", s)
		}
	})
}

func TestWatching(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newSimulation(t, func(c *Config) { c.Mode = ModeWatch })
		if got := a.send(http.MethodPost, "/wishlist", "{}", home, headlessHeaders("Cookie", a.cookie())); got.status != http.StatusOK {
			t.Errorf("%d %s", got.status, got.body)
		}
		synctest.Wait()
		if len(a.memory.logged) != 1 {
			t.Errorf("logged: %+v", a.memory.logged)
		}
	})
}

// TestReadCookies: which session a request is of is read in one place, whatever
// else a client sends beside it, and whatever a sibling site has planted.
func TestReadCookies(t *testing.T) {
	t.Parallel()
	const id, other = "gms_01M7H171SJSMVD891RBXMF12X2", "gms_01M7H171SJSMVD891RBXMF12X3"
	now := time.Date(2026, 11, 17, 9, 0, 0, 0, time.UTC)
	strict := &Guard{cfg: Config{Cards: consumertest.NewCards(1)}, cards: memo.New[cardUnder, consumer.Card](maxVerified)}
	plain := &Guard{
		cfg:   Config{Cards: consumertest.NewCards(1), Cardless: consumer.Cardless{Always: true}},
		cards: memo.New[cardUnder, consumer.Card](maxVerified),
	}
	cardOf := func(secret byte, id string, age time.Duration) string {
		text, err := consumertest.NewCards(secret).Mint(consumer.Card{
			SessionID: bff.MustParseID(bff.PrefixGuestSession, id), Locale: bff.LocaleEnglish, Currency: bff.USD, MadeAt: now.Add(-age),
		})
		if err != nil {
			t.Fatal(err)
		}
		return consumer.CardCookie + "=" + text
	}
	card, older, others := cardOf(1, id, time.Hour), cardOf(1, id, 2*time.Hour), cardOf(1, other, time.Hour)
	foreign, old, future := cardOf(2, id, time.Hour), cardOf(1, id, 31*24*time.Hour), cardOf(1, id, -time.Hour)
	for name, tc := range map[string]struct {
		cookies      []string
		want         string // where ids count without a card
		wantCard     bool
		wantMismatch bool
	}{
		"none":          {},
		"alone":         {cookies: []string{"gms_id=" + id}, want: id},
		"among":         {cookies: []string{"a=b; gms_id=" + id + "; c=d"}, want: id},
		"later line":    {cookies: []string{"a=b", "gms_id=" + id}, want: id},
		"lower case":    {cookies: []string{"gms_id=" + strings.ToLower(id)}, want: id},
		"quoted":        {cookies: []string{`gms_id="` + id + `"`}, want: id},
		"malformed":     {cookies: []string{"gms_id=nonsense"}},
		"empty":         {cookies: []string{"gms_id="}},
		"unreadable":    {cookies: []string{"gms_id=a\\b"}},
		"other kind":    {cookies: []string{"gms_id=bhd_01M7H171SJSMVD891RBXMF12X2"}},
		"other name":    {cookies: []string{"xgms_id=" + id}},
		"in a value":    {cookies: []string{"a=gms_id=" + id}},
		"twice":         {cookies: []string{"gms_id=" + id + "; gms_id=" + strings.ToLower(id)}, want: id},
		"two":           {cookies: []string{"gms_id=" + id + "; gms_id=" + other}},
		"two lines":     {cookies: []string{"gms_id=" + id, "gms_id=" + other}},
		"second broken": {cookies: []string{"gms_id=" + id + "; gms_id=x"}, want: id},
		"first broken":  {cookies: []string{"gms_id=x; gms_id=" + id}, want: id},

		"card":                      {cookies: []string{"gms_id=" + id + "; " + card}, want: id, wantCard: true},
		"card first":                {cookies: []string{card + "; gms_id=" + id}, want: id, wantCard: true},
		"card, planted before":      {cookies: []string{"gms_id=" + other + "; gms_id=" + id + "; " + card}, want: id, wantCard: true},
		"card, planted after":       {cookies: []string{"gms_id=" + id + "; " + card + "; gms_id=" + other}, want: id, wantCard: true},
		"card, junk before":         {cookies: []string{"gms_id=x; gms_id=" + id + "; " + card}, want: id, wantCard: true},
		"card alone":                {cookies: []string{card}, want: id, wantCard: true, wantMismatch: true},
		"card, another's id":        {cookies: []string{"gms_id=" + other + "; " + card}, want: id, wantCard: true, wantMismatch: true},
		"card, malformed id":        {cookies: []string{"gms_id=x; " + card}, want: id, wantCard: true, wantMismatch: true},
		"card of another key":       {cookies: []string{"gms_id=" + id + "; " + foreign}, want: id},
		"card of another key alone": {cookies: []string{foreign}},
		"card that is too old":      {cookies: []string{"gms_id=" + id + "; " + old}, want: id},
		"card from the future":      {cookies: []string{"gms_id=" + id + "; " + future}, want: id},
		"junk card":                 {cookies: []string{"gms_id=" + id + "; " + consumer.CardCookie + "=junk"}, want: id},
		"junk card and two ids":     {cookies: []string{"gms_id=" + id + "; gms_id=" + other + "; " + consumer.CardCookie + "=junk"}},
		"junk card beside the card": {cookies: []string{consumer.CardCookie + "=junk; " + card + "; gms_id=" + id}, want: id, wantCard: true},
		"an older card beside it":   {cookies: []string{older + "; " + card + "; gms_id=" + id}, want: id, wantCard: true},
		"cards of two sessions":     {cookies: []string{card + "; " + others + "; gms_id=" + id}, want: id},
		"many cards":                {cookies: []string{strings.Repeat(consumer.CardCookie+"=junk; ", 50) + card}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, g := range []*Guard{plain, strict} {
				s, want := &sender{}, tc.want
				if g == strict && !tc.wantCard {
					want = ""
				}
				s.At = now
				g.readCookies(s, tc.cookies)
				if s.SessionID.String() != want || s.limited.Session != want || s.CookieMismatch != tc.wantMismatch {
					t.Errorf("strict %t: got %q %q, mismatch %t, want %q, %t", g == strict, s.SessionID, s.limited.Session, s.CookieMismatch, want, tc.wantMismatch)
				}
				if has := !s.Card.IsZero(); has != tc.wantCard || has && !s.Card.MadeAt.Equal(now.Add(-time.Hour)) {
					t.Errorf("card %+v, want one: %t", s.Card, tc.wantCard)
				}
			}
		})
	}
}

// TestVerifiedCards: a card that was genuine once grows old all the same, and ends
// with its key.
func TestVerifiedCards(t *testing.T) {
	t.Parallel()
	made := time.Date(2026, 11, 17, 9, 0, 0, 0, time.UTC)
	set, err := handoff.NewKeySet("leaked", bytes.Repeat([]byte{1}, 32), made.Add(-time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	ring := handoff.NewKeyring(set)
	cards := guest.NewCards(ring)
	g := &Guard{cfg: Config{Cards: cards}, cards: memo.New[cardUnder, consumer.Card](maxVerified)}
	text, err := cards.Mint(consumer.Card{
		SessionID: bff.MustParseID(bff.PrefixGuestSession, "gms_01M7H171SJSMVD891RBXMF12X2"), Locale: bff.LocaleEnglish, Currency: bff.USD, MadeAt: made,
	})
	if err != nil {
		t.Fatal(err)
	}
	verify := func(text string, now time.Time) error {
		_, err := g.verifyCard(text, now)
		return err
	}
	for range 2 {
		if err := verify(text, made); err != nil {
			t.Fatal(err)
		}
	}
	if err := verify(text, made.Add(consumer.CardLifetime+1)); !errors.Is(err, guest.ErrCardTime) {
		t.Errorf("too old: %v", err)
	}
	if err := verify(text[:len(text)-4]+"AAAA", made); !errors.Is(err, guest.ErrCardMAC) {
		t.Errorf("another MAC: %v", err)
	}
	for _, step := range []func() (*handoff.KeySet, error){
		func() (*handoff.KeySet, error) { return ring.KeySet().Add("new", bytes.Repeat([]byte{2}, 32)) },
		func() (*handoff.KeySet, error) { return ring.KeySet().Promote("new", made) },
		func() (*handoff.KeySet, error) { return ring.KeySet().Revoke("leaked") },
	} {
		if err := verify(text, made); err != nil {
			t.Error("before its key is revoked:", err)
		}
		set, err := step()
		if err != nil {
			t.Fatal(err)
		}
		ring.Replace(set)
	}
	if err := verify(text, made); !errors.Is(err, guest.ErrCardKey) {
		t.Errorf("after its key is revoked: %v", err)
	}
}

// TestProtectRefuses: what the guard cannot hold to a limit, or must not serve to
// clients, does not start.
func TestProtectRefuses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newSimulation(t, nil)
		_, err := a.guard.Protect([]web.Route{
			{Pattern: "POST /gift", Kind: web.Change, Limit: "gift"}, {Pattern: "POST /x"}, {Pattern: "POST /internal", Kind: web.Internal},
		})
		for _, want := range []string{`there is no limit "gift"`, `"POST /x"`, `"POST /internal"`} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %s", err, want)
			}
		}
	})
}

// TestCostlyReportsCount: telemetry that calls upstreams counts towards its
// client's pace, and other telemetry does not.
func TestCostlyReportsCount(t *testing.T) {
	t.Parallel()
	report := web.Route{Kind: web.Telemetry, Budget: time.Second, Body: web.NoBody, Limit: "telemetry", Gate: "any"}
	cheap, costly := report, report
	cheap.Pattern, costly.Pattern = "POST "+base+"/telemetry/cheap", "POST "+base+"/telemetry/"+costlyReport
	for path, wantCaught := range map[string]bool{"/telemetry/cheap": false, "/telemetry/" + costlyReport: true} {
		synctest.Test(t, func(t *testing.T) {
			a := newSimulation(t, nil, cheap, costly)
			cookie := a.cookie()
			for range 100 {
				a.send(http.MethodPost, path, "", home, firefoxHeaders("Cookie", cookie))
				<-time.After(50 * time.Millisecond)
			}
			got := a.send(http.MethodPost, "/handoff", "{}", home, firefoxHeaders("Cookie", cookie, "Idempotency-Key", "1"))
			if caught := got.code == bff.CodeSuspectedBot; caught != wantCaught {
				t.Errorf("after a hundred reports to %s in five seconds: %d %s", path, got.status, got.body)
			}
		})
	}
}

// TestOutageMakesNoBots: of those that wait together for a search that fails, only
// the one that called the upstream spent anything.
func TestOutageMakesNoBots(t *testing.T) {
	t.Parallel()
	away := web.Route{Pattern: "POST " + base + "/away", Kind: web.PublicRead, Budget: time.Second, Body: web.NoBody, Limit: "search", Gate: "any"}
	for wantCaught, handle := range map[bool]web.Handler{
		false: func(http.ResponseWriter, *http.Request) error { return &bff.Error{Code: bff.CodeUpstreamUnavailable} },
		true: func(_ http.ResponseWriter, r *http.Request) error {
			web.From(r.Context()).Local.(*consumer.Visit).Spend()
			return &bff.Error{Code: bff.CodeUpstreamUnavailable}
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			away.Handle = handle
			a := newSimulation(t, nil, away)
			cookie := a.cookie()
			for range 55 { // the limit is 60 in a minute
				if got := a.send(http.MethodPost, "/away", "", home, firefoxHeaders("Cookie", cookie)); got.code != bff.CodeUpstreamUnavailable && !wantCaught {
					t.Fatalf("%d %s", got.status, got.body)
				}
				pass(50 * time.Millisecond)
			}
			got := a.send(http.MethodPost, "/handoff", "{}", home, firefoxHeaders("Cookie", cookie, "Idempotency-Key", "1"))
			if caught := got.code == bff.CodeSuspectedBot; caught != wantCaught {
				t.Errorf("caught %v, want %v: %d %s", caught, wantCaught, got.status, got.body)
			}
		})
	}
}

// TestNewRoute: a route that is not classified does not start, and one that
// changes something is not executed for a client judged a bot.
func TestNewRoute(t *testing.T) {
	t.Parallel()
	gift := web.Route{Pattern: "POST " + base + "/gift", Budget: time.Second, Body: web.NoBody, Limit: "wishlist", Gate: "any"}
	synctest.Test(t, func(t *testing.T) {
		change := gift
		change.Kind = web.Change
		a := newSimulation(t, func(c *Config) { c.Policy.Bot = c.Policy.Suspect }, change)
		unclassified := gift
		unclassified.Handle = a.answer(gift)
		if err := a.server.Mount(unclassified); err == nil || !strings.Contains(err.Error(), "kind") {
			t.Errorf("without a kind: %v", err)
		}
		got := a.send(http.MethodPost, "/gift", "{}", home, headlessHeaders("Cookie", a.cookie(), "Idempotency-Key", "1"))
		if got.code != bff.CodeSuspectedBot || got.status != http.StatusTooManyRequests || a.served[gift.Pattern] != 0 {
			t.Errorf("a bot: %d %s, executed %d times", got.status, got.body, a.served[gift.Pattern])
		}
		got = a.send(http.MethodPost, "/gift", "{}", home, firefoxHeaders("Cookie", a.cookie(), "Idempotency-Key", "1"))
		if got.status != http.StatusOK || a.served[gift.Pattern] != 1 {
			t.Errorf("a person: %d %s, executed %d times", got.status, got.body, a.served[gift.Pattern])
		}
	})
}

// TestPacesAddUp: a client that is no faster than a person at each of two instances is
// faster at both, and each instance tells the others what it counted.
func TestPacesAddUp(t *testing.T) {
	t.Parallel()
	for elsewhere, want := range map[int]bool{0: false, 60: true} {
		synctest.Test(t, func(t *testing.T) {
			a := newSimulation(t, nil)
			a.memory.mu.Lock()
			a.memory.elsewhere = elsewhere
			a.memory.mu.Unlock()
			cookie := a.cookie()
			caught := false
			for i := range 20 { // pages that no guest has seen: what the cache answers does not count
				got := a.send(http.MethodGet, fmt.Sprint("/hotels/h", i), "", home, firefoxHeaders("Cookie", cookie))
				caught = caught || got.code == bff.CodeSuspectedBot
				pass(300 * time.Millisecond)
			}
			pass(2 * time.Second)
			a.memory.mu.Lock()
			defer a.memory.mu.Unlock()
			if caught != want || a.memory.told < 15 {
				t.Errorf("%d requests elsewhere: suspected %t, want %t; %d were told of", elsewhere, caught, want, a.memory.told)
			}
		})
	}
}
