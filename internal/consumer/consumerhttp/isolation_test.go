package consumerhttp_test

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

// robbery is what a stranger saw or changed who knows a guest's cookie.
type robbery struct {
	victim *guest
	srs    string
	before answer // the guest's wishlist
	wrong  []string
}

// rob has a stranger with another browser try everything with the cookie of a guest. It reports
// false if a session could not be read in time: then the cookie is all that its guest is known by.
func (s *site) rob() (r robbery, ok bool) {
	s.t.Helper()
	const late = `"sessionStore":"unavailable"`
	lateBefore := s.logged(late)
	victim := s.guest()
	mine := victim.must(http.StatusCreated, "POST", "/wishlist", map[string]any{
		"propertyId": s.wish(0)["propertyId"], "source": "detail", "note": "for our anniversary",
	}, "Idempotency-Key", "victims-key").field("wishlistId")
	victim.must(http.StatusOK, "POST", "/session/locale", map[string]string{"locale": "fa-IR"})
	srs := victim.must(http.StatusOK, "POST", "/search", search()).header.Get("X-Search-Session")
	hotel, _ := s.hotel(0)
	s.until("the search was not remembered", func() bool {
		return strings.Contains(string(victim.ask("GET", "/session", nil).body), srs)
	})
	cookie, card := victim.cookie, victim.card
	before := victim.must(http.StatusOK, "GET", "/wishlist", nil)

	failed := func(format string, args ...any) { r.wrong = append(r.wrong, fmt.Sprintf(format, args...)) }
	thief := s.guest("User-Agent", safari)
	for name, steal := range map[string]func() answer{
		"see the wishlist":  func() answer { return thief.ask("GET", "/wishlist", nil) },
		"see the session":   func() answer { return thief.ask("GET", "/session", nil) },
		"change the locale": func() answer { return thief.ask("POST", "/session/locale", map[string]string{"locale": "en"}) },
		"consent for the guest": func() answer {
			return thief.ask("POST", "/session/consent", map[string]bool{"telemetry": true, "marketing": true})
		},
		"empty the wishlist": func() answer { return thief.ask("DELETE", "/wishlist/"+hotel, nil, once()...) },
		"add to the wishlist": func() answer {
			return thief.ask("POST", "/wishlist", s.wish(1), once()...)
		},
		"hear the guest's answer again": func() answer {
			return thief.ask("POST", "/wishlist", map[string]any{"propertyId": hotel, "source": "detail", "note": "for our anniversary"},
				"Idempotency-Key", "victims-key")
		},
		"be handed off as the guest": func() answer { return thief.ask("POST", "/handoff", s.stay(0), once()...) },
		"clear the session":          func() answer { return thief.ask("POST", "/session/clear", nil) },
		"name the guest in the body": func() answer {
			body := s.wish(1)
			body["guestSessionId"], body["sessionId"] = cookie, cookie
			thief.cookie, thief.card = "", ""
			return thief.ask("POST", "/wishlist", body, once()...)
		},
	} {
		for _, stolen := range []string{"", card} {
			thief.cookie, thief.card = cookie, stolen
			a := steal()
			if thief.cookie == cookie {
				failed("%s: kept the stolen cookie", name)
			}
			private := []string{cookie, mine, srs, "fa-IR"}
			if name != "hear the guest's answer again" { // then the thief wrote it too
				private = append(private, "for our anniversary")
			}
			for _, private := range private {
				if strings.Contains(string(a.body), private) {
					failed("%s: %d %s, holds %q", name, a.status, a.body, private)
				}
			}
			if a.header.Get("Idempotency-Replayed") != "" {
				failed("%s: a replayed answer", name)
			}
		}
	}
	r.victim, r.srs, r.before = victim, srs, before
	return r, slices.Equal(s.logged(late), lateBefore)
}

// A stranger who knows a guest's cookie but has another browser, or who guesses,
// sees and changes nothing of the guest's.
func TestGuestsAreIsolated(t *testing.T) {
	t.Parallel()
	s := newSite(t, 2, nil, nil)
	var r robbery
	testkit.Retry(t, "sessions are read in time", func() (ok bool) { r, ok = s.rob(); return ok })
	for _, wrong := range r.wrong {
		t.Error(wrong)
	}
	victim, cookie := r.victim, r.victim.cookie
	// Another guest's search says nothing, not even that it is there.
	stranger := s.guest()
	a := stranger.must(http.StatusOK, "POST", "/search", search(), "X-Search-Session", r.srs)
	if got := a.header.Get("X-Search-Session"); got == r.srs || got == "" {
		t.Errorf("a stranger continues the search %q", got)
	}
	// A newcomer gets both cookies with an answer from the cache, too.
	newcomer := s.guest()
	a = newcomer.must(http.StatusOK, "POST", "/search", search())
	if len(a.header["Set-Cookie"]) != 2 || newcomer.cookie == "" || newcomer.card == "" {
		t.Errorf("a newcomer's cookies, X-Cache %s: %v", a.header.Get("X-Cache"), a.header["Set-Cookie"])
	}
	for range 20 { // guesses
		g := s.guest()
		g.cookie = cookie[:len(cookie)-4] + strings.ToUpper(rand.Text()[:4])
		if a := g.ask("GET", "/wishlist", nil); strings.Contains(string(a.body), "anniversary") {
			t.Errorf("guessed: %s", a.body)
		}
	}

	after := victim.must(http.StatusOK, "GET", "/wishlist", nil)
	if string(after.body) != string(r.before.body) || victim.cookie != cookie {
		t.Errorf("the guest's wishlist is %s, want %s", after.body, r.before.body)
	}
	if a := victim.must(http.StatusOK, "GET", "/session", nil); a.field("locale") != "fa-IR" {
		t.Errorf("the guest's locale is %s", a.field("locale"))
	}
	if e := s.event(consumer.SubjectSessionEnded, cookie); e["reason"] != "rotated" {
		t.Errorf("session.ended: %v", e)
	}
	if n := s.events(consumer.SubjectSessionEnded, cookie); n != 1 {
		t.Errorf("session.ended was announced %d times, want once", n)
	}
	if n := s.count(`SELECT count(*) FROM bff_consumer.bot_score_log WHERE signals::text LIKE '%fingerprint-mismatch%'`); n == 0 {
		t.Error("nothing was noticed")
	}
}

// Cookies that are no session, or several that differ, count as absent: the guest
// is served, gets a session of their own and loses nothing.
func TestMalformedCookies(t *testing.T) {
	t.Parallel()
	s := newSite(t, 1, nil, nil)
	for name, cookie := range map[string]string{
		"empty":              "gms_id=",
		"another kind of id": "gms_id=bhd_01H8YN7QV4D8KZ4F8Y5CK4MV3D",
		"not an id":          "gms_id=' OR 1=1",
		"too long":           "gms_id=gms_" + strings.Repeat("0", 5000),
		"two":                "gms_id=gms_01H8YN7QV4D8KZ4F8Y5CK4MV3D; gms_id=gms_01H8YN7QV4D8KZ4F8Y5CK4MV3E",
		"made up":            "gms_id=gms_01H8YN7QV4D8KZ4F8Y5CK4MV3D",
		"a junk card":        "__Host-gms_card=AAAA; gms_id=gms_01H8YN7QV4D8KZ4F8Y5CK4MV3D",
	} {
		for _, path := range []string{"/session", "/wishlist"} {
			g := s.guest()
			a := g.must(http.StatusOK, "GET", path, nil, "Cookie", cookie)
			if len(a.header["Set-Cookie"]) != 2 || g.cookie == "" || g.card == "" || strings.Contains(cookie, g.cookie) {
				t.Errorf("%s: %s: %v", name, path, a.header["Set-Cookie"])
			}
			own := g.cookie
			a = g.must(http.StatusOK, "GET", path, nil, "Cookie", cookie+"; "+testkit.CookieHeader(g.cookie, g.card))
			if len(a.header["Set-Cookie"]) != 0 || g.cookie != own {
				t.Errorf("%s beside the guest's own: %s: %v", name, path, a.header["Set-Cookie"])
			}
		}
	}
}
