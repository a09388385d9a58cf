package consumerhttp_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/consumer/consumerguard"
	"melmastoon.ghasi.io/bff/internal/consumer/consumertest"
)

// jar is a browser that keeps cookies as browsers do, and those that a sibling site planted
// beside them.
type jar struct {
	t       *testing.T
	s       *stage
	agent   string
	cookies map[string]string
	planted []string // sent before the jar's: browsers send those of longer paths first
}

func newJar(t *testing.T, s *stage) *jar {
	t.Helper()
	return &jar{t: t, s: s, agent: "Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0", cookies: map[string]string{}}
}

func (b *jar) ask(c guestCall) guestAnswer {
	b.t.Helper()
	header := map[string]string{"Accept-Language": "fa-AF", "Content-Type": "application/json", "User-Agent": b.agent}
	maps.Copy(header, c.header)
	sent := slices.Clone(b.planted)
	for _, name := range slices.Sorted(maps.Keys(b.cookies)) {
		sent = append(sent, name+"="+b.cookies[name])
	}
	if len(sent) > 0 {
		header["Cookie"] = strings.Join(sent, "; ")
	}
	c.header = header
	a, _ := b.s.ask(c)
	for _, k := range (&http.Response{Header: a.header}).Cookies() {
		if !k.HttpOnly || !k.Secure || k.SameSite != http.SameSiteLaxMode || k.Path != "/" || k.Domain != "" || k.MaxAge >= 0 && k.MaxAge != 2592000 {
			b.t.Errorf("%s %s: cookie %v", c.method, c.path, k)
		}
		if b.cookies[k.Name] = k.Value; k.MaxAge < 0 {
			delete(b.cookies, k.Name)
		}
	}
	return a
}

// session asks for the session and returns what it says.
func (b *jar) session() sessionSeen {
	b.t.Helper()
	a := b.ask(guestCall{method: http.MethodGet, path: "/session"})
	var got sessionSeen
	if err := json.Unmarshal(a.body, &got); err != nil || a.status != http.StatusOK {
		b.t.Fatalf("%d %s", a.status, a.body)
	}
	return got
}

type sessionSeen struct {
	SessionID, Locale, Currency string
	Consent                     consumer.Consent
}

func (b *jar) change(path, body string) guestAnswer {
	return b.ask(guestCall{method: http.MethodPost, path: path, body: body})
}

func (b *jar) id() bff.ID {
	b.t.Helper()
	id, err := bff.ParseID(bff.PrefixGuestSession, b.cookies[consumer.SessionCookie])
	if err != nil {
		b.t.Fatal(err)
	}
	return id
}

// age lets the cookies have been sent that long ago.
func (b *jar) age(d time.Duration) {
	b.t.Helper()
	at := time.Now().UTC().Truncate(time.Second).Add(-d)
	card, err := b.s.cards.Verify(b.cookies[consumer.CardCookie], time.Now())
	if err != nil {
		b.t.Fatal(err)
	}
	card.MadeAt = at
	if b.cookies[consumer.CardCookie], err = b.s.cards.Mint(card); err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.s.sessions.UpdateSession(b.t.Context(), b.id(), consumer.SessionChange{CookieAt: at}); err != nil {
		b.t.Fatal(err)
	}
}

func gmsID() bff.ID { return bff.NewID(bff.PrefixGuestSession, time.Now()) }

// TestCardIsSent: the card comes with a session, and again when one of its values
// changes; nothing is sent with answers that a CDN may keep.
func TestCardIsSent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		b := newJar(t, s)
		first := b.session()
		if len(b.cookies) != 2 || b.cookies[consumer.SessionCookie] != first.SessionID {
			t.Fatalf("the first answer sets %v", b.cookies)
		}
		for _, c := range []struct{ path, body string }{
			{"/session/locale", `{"locale":"ps-AF"}`}, {"/session/currency", `{"currency":"EUR"}`}, {"/session/consent", `{"telemetry":false,"marketing":true}`},
		} {
			<-time.After(time.Second)
			before := b.cookies[consumer.CardCookie]
			if a := b.change(c.path, c.body); len(a.header["Set-Cookie"]) != 2 || b.cookies[consumer.CardCookie] == before {
				t.Errorf("%s: %v", c.path, a.header["Set-Cookie"])
			}
			if a := b.change(c.path, c.body); len(a.header["Set-Cookie"]) != 0 {
				t.Errorf("%s again: %v", c.path, a.header["Set-Cookie"])
			}
		}
		card, err := s.cards.Verify(b.cookies[consumer.CardCookie], time.Now())
		want := consumer.Card{SessionID: b.id(), Locale: "ps-AF", Currency: "EUR", Consent: consumer.Consent{Marketing: true}, Chosen: true, MadeAt: card.MadeAt}
		if err != nil || card != want {
			t.Errorf("card %+v, %v, want %+v", card, err, want)
		}
		for name, c := range stagedCalls() {
			if a := b.ask(c); a.status != http.StatusOK || a.header["Set-Cookie"] != nil {
				t.Errorf("%s: %d %v", name, a.status, a.header["Set-Cookie"])
			}
		}
		newcomer := newJar(t, s)
		for _, name := range []string{"facets", "hotel"} {
			if a := newcomer.ask(stagedCalls()[name]); a.header["Set-Cookie"] != nil {
				t.Errorf("%s for a newcomer: %v", name, a.header["Set-Cookie"])
			}
		}
		b.age(48 * time.Hour) // the cookies are due
		for _, name := range []string{"facets", "hotel"} {
			if a := b.ask(stagedCalls()[name]); a.header["Set-Cookie"] != nil {
				t.Errorf("%s with an old card: %v", name, a.header["Set-Cookie"])
			}
		}
		if a := b.change("/session/clear", ""); a.status != http.StatusNoContent || len(a.header["Set-Cookie"]) != 2 || len(b.cookies) != 0 {
			t.Errorf("clear: %d %v", a.status, a.header["Set-Cookie"])
		}
	})
}

// TestWarmSearchReadsNoSession: with a card, what the guest has chosen costs no
// look into a store before the answer, and the cookies slide all the same.
func TestWarmSearchReadsNoSession(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		b := newJar(t, s)
		b.session()
		b.change("/session/currency", `{"currency":"EUR"}`)
		calls := stagedCalls()
		for name, c := range calls {
			if a := b.ask(c); a.status != http.StatusOK {
				t.Fatalf("%s: %d %s", name, a.status, a.body)
			}
		}
		<-time.After(consumer.TouchAfter)
		s.sessions.Hang(true)
		for _, name := range []string{"search", "map", "suggest", "availability"} {
			began := time.Now()
			a := b.ask(calls[name])
			if waited := time.Since(began); waited > 0 || a.status != http.StatusOK {
				t.Errorf("%s: %d after %s: it waited for the session", name, a.status, waited)
			}
			if name == "availability" && !strings.Contains(string(a.body), `"EUR"`) {
				t.Errorf("%s: %s, want the card's currency", name, a.body)
			}
		}
		s.sessions.Hang(false)
	})
}

// TestCardSlides: an answer to a search that needs no session sends both cookies
// again once the card is older than a day.
func TestCardSlides(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		age      time.Duration
		wantSent int
	}{
		"less than a day": {23 * time.Hour, 0},
		"more than a day": {25 * time.Hour, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t)
				b := newJar(t, s)
				b.session()
				b.age(tc.age)
				id, card := b.cookies[consumer.SessionCookie], b.cookies[consumer.CardCookie]
				_, before := s.sessions.Counts()
				a := b.ask(stagedCalls()["search"])
				synctest.Wait() // what is after the response
				_, renewals := s.sessions.Counts()
				sent := len(a.header["Set-Cookie"])
				if sent != tc.wantSent || renewals-before != tc.wantSent/2 || b.cookies[consumer.SessionCookie] != id ||
					(b.cookies[consumer.CardCookie] != card) != (sent > 0) {
					t.Errorf("sent %v, renewed %d times", a.header["Set-Cookie"], renewals-before)
				}
				if got, _ := s.sessions.Kept(b.id()); got.CookieAt.Equal(time.Now()) != (tc.wantSent > 0) {
					t.Errorf("the session's cookie is of %s", got.CookieAt)
				}
			})
		})
	}
}

// TestPlantedIDs: a sibling site plants session ids before or after the guest has
// one: the guest's own stays, is never deleted and is never shared.
func TestPlantedIDs(t *testing.T) {
	t.Parallel()
	junk := consumer.SessionCookie + "=junk"
	made := func() string { return consumer.SessionCookie + "=" + gmsID().String() }
	for name, tc := range map[string]struct {
		planted func(attacker *jar) []string
		early   bool // before the guest comes for the first time
		without bool // the guest has lost the card
		wantNew bool // the guest has another session than before
	}{
		"a made-up one":                {planted: func(*jar) []string { return []string{made()} }},
		"the planter's":                {planted: func(a *jar) []string { return []string{consumer.SessionCookie + "=" + a.id().String()} }},
		"junk":                         {planted: func(*jar) []string { return []string{junk} }},
		"several":                      {planted: func(*jar) []string { return []string{junk, made(), made()} }},
		"junk, early":                  {planted: func(*jar) []string { return []string{junk} }, early: true},
		"a made-up one, early":         {planted: func(*jar) []string { return []string{made()} }, early: true},
		"the planter's, early":         {planted: func(a *jar) []string { return []string{consumer.SessionCookie + "=" + a.id().String()} }, early: true},
		"several, early":               {planted: func(*jar) []string { return []string{made(), made()} }, early: true},
		"junk, without a card":         {planted: func(*jar) []string { return []string{junk} }, without: true, wantNew: true},
		"a made-up one and no card":    {planted: func(*jar) []string { return []string{made()} }, without: true, wantNew: true},
		"a card of the planter's keys": {planted: func(*jar) []string { return []string{consumer.CardCookie + "=" + foreignCard()} }},
		"a junk card":                  {planted: func(*jar) []string { return []string{consumer.CardCookie + "=junk"} }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t)
				attacker, guest := newJar(t, s), newJar(t, s)
				attacker.session()
				planted := tc.planted(attacker)
				if tc.early {
					guest.planted = planted
				}
				own := guest.session().SessionID
				if strings.Contains(strings.Join(planted, ";"), own) {
					t.Fatalf("the planted %s was adopted", own)
				}
				if tc.without {
					delete(guest.cookies, consumer.CardCookie)
				}
				guest.planted = planted
				for range 3 {
					got := guest.session().SessionID
					if (got != own) != tc.wantNew || strings.Contains(strings.Join(planted, ";"), got) || got == attacker.id().String() {
						t.Fatalf("session %s, was %s, planted %v", got, own, planted)
					}
					if guest.cookies[consumer.SessionCookie] != got {
						t.Errorf("the guest's cookies are %v, want %s", guest.cookies, got)
					}
					own, tc.wantNew = got, false // from then on a card
				}
				if a := guest.change("/session/locale", `{"locale":"ps-AF"}`); a.status != http.StatusOK {
					t.Errorf("%d %s", a.status, a.body)
				}
				guest.planted = nil
				if got := guest.session(); got.SessionID != own || got.Locale != "ps-AF" {
					t.Errorf("after the planted one is gone: %+v, want %s", got, own)
				}
			})
		})
	}
}

// foreignCard is a card made without a key of ours.
func foreignCard() string {
	text, err := consumertest.NewCards(99).Mint(consumer.Card{SessionID: gmsID(), Locale: "en", Currency: "USD", MadeAt: time.Now().UTC().Truncate(time.Second)})
	if err != nil {
		panic(err) // it is complete
	}
	return text
}

// TestLostIDCookie: the card brings the session's id back when only that cookie is
// gone or another's.
func TestLostIDCookie(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]string{"gone": "", "malformed": "junk", "another": "gms_01ARZ3NDEKTSV4RRFFQ69G5FAV"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t)
				b := newJar(t, s)
				own := b.session().SessionID
				if b.cookies[consumer.SessionCookie] = value; value == "" {
					delete(b.cookies, consumer.SessionCookie)
				}
				if a := b.ask(stagedCalls()["search"]); len(a.header["Set-Cookie"]) != 2 || b.cookies[consumer.SessionCookie] != own {
					t.Errorf("%v, want %s again", a.header["Set-Cookie"], own)
				}
				if a := b.ask(stagedCalls()["search"]); a.header["Set-Cookie"] != nil {
					t.Errorf("and then %v", a.header["Set-Cookie"])
				}
			})
		})
	}
}

// TestCardlessIDs: an id without its card is a session's nowhere, though the store
// knows it: the guest gets a new one, with a card, and sees nothing of the old. Where
// such ids count, the session is as it was, and its card comes with the next answer.
func TestCardlessIDs(t *testing.T) {
	t.Parallel()
	now := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) // when bubbles begin
	for name, tc := range map[string]struct {
		cardless consumer.Cardless
		wantSame bool
	}{
		"nowhere":                       {},
		"over plain http":               {cardless: consumer.Cardless{Always: true}, wantSame: true},
		"from before the upgrade":       {cardless: consumer.Cardless{Before: now.Add(time.Hour)}, wantSame: true},
		"from after the upgrade":        {cardless: consumer.Cardless{Before: now}},
		"thirty days after the upgrade": {cardless: consumer.Cardless{Before: now.Add(-30 * 24 * time.Hour)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t, func(c *consumerguard.Config) { c.Cardless = tc.cardless })
				b := newJar(t, s)
				own := b.session().SessionID
				b.change("/session/locale", `{"locale":"ps-AF"}`)
				s.sessions.Know(b.id())
				for _, path := range []string{"/session", "/wishlist"} {
					b.cookies = map[string]string{consumer.SessionCookie: own}
					if a := b.ask(guestCall{method: http.MethodGet, path: path}); a.status != http.StatusOK || len(a.header["Set-Cookie"]) != 2 {
						t.Errorf("%s: %d %s %v, want both cookies", path, a.status, a.body, a.header["Set-Cookie"])
					}
					if got := b.session(); (got.SessionID == own) != tc.wantSame || (got.Locale == "ps-AF") != tc.wantSame {
						t.Errorf("%s: session %+v, was %s", path, got, own)
					}
				}
				b.cookies = map[string]string{consumer.SessionCookie: own}
				b.change("/session/clear", "")
				if _, kept := s.sessions.Kept(bff.MustParseID(bff.PrefixGuestSession, own)); kept == tc.wantSame {
					t.Errorf("cleared without a card: still there %t", kept)
				}
			})
		})
	}
}

// TestClearedStaysCleared: while a card of it can be used, a session that its guest
// had cleared is not opened again with that card, nor is the card renewed, whatever
// the stores have lost and whichever of them is away.
func TestClearedStaysCleared(t *testing.T) {
	t.Parallel()
	for name, path := range map[string]string{"session": "/session", "search": "/search", "report": "/telemetry/page-view"} {
		for _, lost := range []bool{false, true} {
			for _, age := range []time.Duration{0, 29 * 24 * time.Hour} {
				t.Run(fmt.Sprintf("%s, lost %t, age %s", name, lost, age), func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) {
						s := newStage(t)
						b := newJar(t, s)
						b.session()
						b.change("/session/currency", `{"currency":"EUR"}`)
						id := b.id()
						b.age(age)
						old := maps.Clone(b.cookies)
						b.change("/session/clear", "")
						<-time.After(time.Second) // what was to be told of it before has been
						told := s.journal.of(id)
						if lost {
							s.sessions.Lose()
						}
						for range 2 {
							b.cookies = maps.Clone(old)
							call := guestCall{method: http.MethodPost, path: path, body: `{"path":"/x"}`}
							switch path {
							case "/session":
								call = guestCall{method: http.MethodGet, path: path}
							case "/search":
								call = stagedCalls()["search"]
							}
							a := b.ask(call)
							<-time.After(time.Second) // what is after the response
							if _, there := s.sessions.Kept(id); there || a.status >= http.StatusBadRequest {
								t.Errorf("%d %s: opened again: %t", a.status, a.body, there)
							}
							renewed := b.cookies[consumer.CardCookie] != old[consumer.CardCookie]
							if renewed && b.id() == id {
								t.Errorf("the card was renewed: %v", a.header["Set-Cookie"])
							}
						}
						if n := s.journal.of(id) - told; n != 0 {
							t.Errorf("%d events of a session that was cleared", n)
						}
					})
				})
			}
		}
	}
}

// TestLostSessions: a session that the store lost comes back with its card as it
// was; where ids count without one, under the same id if anything of it is known, and
// else as a new one.
func TestLostSessions(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		without, known, refused bool
		wantSame                bool
		wantLocale              string
	}{
		"with a card":                  {wantSame: true, wantLocale: "ps-AF"},
		"with a card, refused":         {refused: true, wantSame: true, wantLocale: "ps-AF"},
		"without, known":               {without: true, known: true, wantSame: true, wantLocale: "fa-AF"},
		"without, refused":             {without: true, refused: true, wantSame: true, wantLocale: "fa-AF"},
		"without, of which is nothing": {without: true, wantLocale: "fa-AF"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t, func(c *consumerguard.Config) { c.Cardless.Always = true })
				b := newJar(t, s)
				own := b.session().SessionID
				id := b.id()
				b.change("/session/locale", `{"locale":"ps-AF"}`)
				if tc.refused {
					b.change("/session/consent", `{"telemetry":false}`)
				}
				if tc.known {
					s.sessions.Know(id)
				}
				if tc.without {
					delete(b.cookies, consumer.CardCookie)
				}
				s.sessions.Lose()
				s.sessions.Away(false, true)
				if got := b.session(); got.SessionID != own || b.cookies[consumer.SessionCookie] != own {
					t.Errorf("while nothing else can be asked: %+v, want %s and nothing changed", got, own)
				}
				if _, saved := s.sessions.Kept(id); saved {
					t.Error("a session was saved whose refusal cannot be read")
				}
				s.sessions.Away(false, false)
				got := b.session()
				if same := got.SessionID == own; same != tc.wantSame || got.Locale != tc.wantLocale || got.Consent.Telemetry == tc.refused {
					t.Errorf("%+v, want the same %t, %s", got, tc.wantSame, tc.wantLocale)
				}
				if len(b.cookies) != 2 || b.cookies[consumer.SessionCookie] != got.SessionID {
					t.Errorf("cookies %v, want those of %s", b.cookies, got.SessionID)
				}
			})
		})
	}
}

// TestSearchRestoresSession: a search with a card reads no session, and one that was
// lost is there again after its response, with the event of the search.
func TestSearchRestoresSession(t *testing.T) {
	t.Parallel()
	for name, refused := range map[string]bool{"agreed": false, "refused": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t)
				b := newJar(t, s)
				b.session()
				for !consumer.NewTelemetry("", nil).Samples(b.id(), consumer.SubjectSearchExecuted) { // few are told of
					b = newJar(t, s)
					b.session()
				}
				b.change("/session/locale", `{"locale":"ps-AF"}`)
				if refused {
					b.change("/session/consent", `{"telemetry":false}`)
				}
				s.sessions.Lose()
				b.ask(stagedCalls()["search"])
				<-time.After(time.Second) // what is after the response
				got, ok := s.sessions.Kept(b.id())
				if !ok || got.Locale != "ps-AF" || got.Consent.Telemetry == refused {
					t.Errorf("the session is %+v, there: %t", got, ok)
				}
				if n := s.journal.count(consumer.SubjectSearchExecuted); (n == 0) != refused {
					t.Errorf("%d events of the search", n)
				}
			})
		})
	}
}

// TestRefusalOnEitherSide: with a card that agrees and a kept refusal, and the
// other way around, a session that was lost comes back refused.
func TestRefusalOnEitherSide(t *testing.T) {
	t.Parallel()
	for name, kept := range map[string]bool{"kept": true, "on the card": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t)
				b := newJar(t, s)
				b.session()
				agreed := b.cookies[consumer.CardCookie]
				b.change("/session/consent", `{"telemetry":false}`)
				if kept { // the answer with the new card was lost
					b.cookies[consumer.CardCookie] = agreed
				} else if err := s.sessions.RemoveRefusal(t.Context(), b.id()); err != nil {
					t.Fatal(err)
				}
				s.sessions.Lose()
				if got := b.session(); got.Consent.Telemetry {
					t.Errorf("%+v", got)
				}
				card, err := s.cards.Verify(b.cookies[consumer.CardCookie], time.Now())
				if err != nil || card.Consent.Telemetry {
					t.Errorf("the card afterwards: %+v, %v", card, err)
				}
			})
		})
	}
}

// TestConsentWithoutSessions: while the store of sessions is away, the card and the
// kept refusals decide whether a report is counted; without a card nothing does.
func TestConsentWithoutSessions(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		refused, stale, without, cardless, postgres bool
		wantStatus, wantEvents                      int
	}{
		"agreed":                        {wantStatus: http.StatusAccepted, wantEvents: 1},
		"refused":                       {refused: true, wantStatus: http.StatusAccepted},
		"refused, with the card before": {refused: true, stale: true, wantStatus: http.StatusAccepted},
		"without a card":                {without: true, wantStatus: http.StatusAccepted}, // it is of no session
		"where it counts without":       {without: true, cardless: true, wantStatus: http.StatusServiceUnavailable},
		"all stores are away":           {postgres: true, wantStatus: http.StatusServiceUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t, func(c *consumerguard.Config) { c.Cardless.Always = tc.cardless })
				b := newJar(t, s)
				b.session()
				before := b.cookies[consumer.CardCookie]
				if tc.refused {
					b.change("/session/consent", `{"telemetry":false}`)
				}
				if tc.stale {
					b.cookies[consumer.CardCookie] = before
				}
				if tc.without {
					delete(b.cookies, consumer.CardCookie)
				}
				s.sessions.Away(true, tc.postgres)
				a := b.change("/telemetry/page-view", `{"path":"/x"}`)
				if got := s.journal.count(consumer.SubjectPageViewed); a.status != tc.wantStatus || got != tc.wantEvents {
					t.Errorf("%d %s, %d events; want %d, %d", a.status, a.body, got, tc.wantStatus, tc.wantEvents)
				}
			})
		})
	}
}

// TestChangesWithoutSessions: while the store of sessions is away, a change is made
// with the consent of the card, and what is kept of refusals decides with it in the
// change's own transaction.
func TestChangesWithoutSessions(t *testing.T) {
	t.Parallel()
	for name, refused := range map[string]bool{"agreed": false, "refused": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t)
				b := newJar(t, s)
				b.session()
				b.change("/session/locale", `{"locale":"ps-AF"}`)
				if refused {
					b.change("/session/consent", `{"telemetry":false}`)
				}
				s.sessions.Away(true, false)
				a := b.ask(guestCall{
					method: http.MethodDelete, path: "/wishlist/" + consumertest.PropertyID(10).String(), header: map[string]string{"Idempotency-Key": "1"},
				})
				got := s.changedBy
				if a.status != http.StatusNoContent || got.ID != b.id() || !got.Unread || got.Consent.Telemetry == refused || got.Locale != "ps-AF" {
					t.Errorf("%d, made by %+v", a.status, got)
				}
			})
		})
	}
}

// TestCardOfAnotherBrowser: a card opens no session to a browser that it was not
// given to.
func TestCardOfAnotherBrowser(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		b := newJar(t, s)
		own := b.session().SessionID
		thief := newJar(t, s)
		thief.agent, thief.cookies = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) Version/18.0 Safari/604.1", maps.Clone(b.cookies)
		if got := thief.session().SessionID; got == own || thief.cookies[consumer.SessionCookie] != got {
			t.Errorf("the thief has %s", got)
		}
		if got := b.session().SessionID; got != own {
			t.Errorf("the guest has %s, want %s", got, own)
		}
	})
}
