package consumerhttp_test

import (
	"encoding/json"
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

// jar is a browser that keeps cookies as browsers do.
type jar struct {
	t       *testing.T
	s       *stage
	agent   string
	cookies map[string]string
}

func newJar(t *testing.T, s *stage) *jar {
	t.Helper()
	return &jar{t: t, s: s, agent: "Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0", cookies: map[string]string{}}
}

func (b *jar) ask(c guestCall) guestAnswer {
	b.t.Helper()
	header := map[string]string{"Accept-Language": "fa-AF", "Content-Type": "application/json", "User-Agent": b.agent}
	maps.Copy(header, c.header)
	var sent []string
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
