package consumerhttp_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

type sessionDoc struct {
	SessionID, Locale, Currency string
	LocaleInfo                  bff.LocaleInfo
	Consent                     struct{ Telemetry, Marketing bool }
	RecentlyViewed              []struct{ PropertyID, TenantID, ViewedAt, Source string }
	SearchHistory               []struct {
		SearchSessionID, QueryHash string
		Occupancy                  struct{ ChildrenAges []int }
	}
	WishlistSize         int
	Campaign             *struct{ Source, Medium, Campaign, CapturedAt string }
	CreatedAt, ExpiresAt time.Time
}

func (g *guest) session() sessionDoc {
	g.s.t.Helper()
	var d sessionDoc
	g.must(http.StatusOK, "GET", "/session", nil).into(g.s.t, &d)
	return d
}

func TestSessionRoutes(t *testing.T) {
	t.Parallel()
	s := newSite(t, 2, nil, nil)
	g := s.guest("X-Campaign-Source", "newsletter")
	first := g.session()
	if first.SessionID != g.cookie || first.Locale != "ps-AF" || first.Currency != "AFN" || !first.Consent.Telemetry || first.Consent.Marketing {
		t.Errorf("a new session: %+v", first)
	}
	if diff := cmp.Diff(*bff.LocalePashto.Info(), first.LocaleInfo); diff != "" {
		t.Errorf("the facts of its locale: %s", diff)
	}
	if left := first.ExpiresAt.Sub(first.CreatedAt); left != consumer.NewSessionLifetime {
		t.Errorf("it lives %s, want an hour until the cookie has come back", left)
	}
	if e := s.event(consumer.SubjectSessionStarted, g.cookie); e["localePreference"] != "ps-AF" || e["userAgentClass"] != "browser-desktop" {
		t.Errorf("session.started: %v", e)
	}

	var changed sessionDoc
	g.must(http.StatusOK, "POST", "/session/locale", map[string]string{"locale": "fa-AF"}).into(t, &changed)
	if changed.Locale != "fa-AF" || changed.LocaleInfo.Locale != "fa-AF" || changed.SessionID != g.cookie {
		t.Errorf("after the change: %+v", changed)
	}
	if left := changed.ExpiresAt.Sub(changed.CreatedAt); left < consumer.SessionLifetime {
		t.Errorf("it lives %s after its cookie came back, want 30 days", left)
	}
	if e := s.event(consumer.SubjectLocaleChanged, g.cookie); e["previousLocale"] != "ps-AF" || e["newLocale"] != "fa-AF" || e["trigger"] != "user-explicit" {
		t.Errorf("locale.changed: %v", e)
	}
	g.must(http.StatusOK, "POST", "/session/locale", map[string]string{"locale": "fa-AF"})
	g.must(http.StatusOK, "POST", "/session/currency", map[string]string{"currency": "EUR"})
	if e := s.event(consumer.SubjectCurrencyChanged, g.cookie); e["previousCurrency"] != "AFN" || e["newCurrency"] != "EUR" {
		t.Errorf("currency.changed: %v", e)
	}
	for path, body := range map[string]map[string]any{
		"/session/locale": {"locale": "xx-YY"}, "/session/currency": {"currency": "JPY"},
	} {
		if a := g.ask("POST", path, body); a.status != http.StatusUnprocessableEntity {
			t.Errorf("%s: %d %s, want 422", path, a.status, a.body)
		}
	}
	for path, body := range map[string]map[string]any{
		"/session/locale": {}, "/session/currency": {"currency": 7}, "/session/consent": {"telemetry": "no"},
	} {
		if a := g.ask("POST", path, body); a.status != http.StatusBadRequest {
			t.Errorf("%s: %d %s, want 400", path, a.status, a.body)
		}
	}

	// What the guest does is remembered, latest first and each thing once.
	g.header["X-Campaign-Source"], g.header["X-Campaign-Medium"] = "poster", "street"
	a, _ := s.hotel(3)
	b, _ := s.hotel(4)
	// The third comes from elsewhere: the instance that showed the first may take the
	// same page from the same place for a reload, if another has shown the second.
	for _, view := range []struct{ hotel, source string }{{a, "search-list"}, {b, "search-list"}, {a, "wishlist"}} {
		g.must(http.StatusOK, "GET", "/hotels/"+view.hotel, nil, "X-View-Source", view.source)
		s.until("the view was not remembered", func() bool {
			d := g.session()
			return len(d.RecentlyViewed) > 0 && d.RecentlyViewed[0].PropertyID == view.hotel && d.RecentlyViewed[0].Source == view.source
		})
	}
	srs := g.must(http.StatusOK, "POST", "/search", search()).header.Get("X-Search-Session")
	s.until("the search was not remembered", func() bool { return len(g.session().SearchHistory) == 1 })
	g.must(http.StatusCreated, "POST", "/wishlist", s.wish(5), once()...)
	d := g.session()
	if len(d.RecentlyViewed) != 2 || d.RecentlyViewed[1].PropertyID != b || d.RecentlyViewed[0].Source != "wishlist" || d.RecentlyViewed[0].TenantID == "" {
		t.Errorf("recently viewed: %+v", d.RecentlyViewed)
	}
	if h := d.SearchHistory[0]; h.SearchSessionID != srs || len(h.Occupancy.ChildrenAges) != 1 {
		t.Errorf("history: %+v", h)
	}
	if d.WishlistSize != 1 || d.Locale != "fa-AF" || d.Currency != "EUR" {
		t.Errorf("session: %+v", d)
	}
	if d.Campaign == nil || d.Campaign.Source != "poster" || d.Campaign.Medium != "street" || d.Campaign.CapturedAt == "" {
		t.Errorf("campaign: %+v", d.Campaign)
	}

	// A browser that updated itself, and a page without a script's hints.
	g.header["User-Agent"] = strings.ReplaceAll(firefox, "130.0", "131.0")
	cookie := g.cookie
	if d := g.session(); d.SessionID != cookie {
		t.Error("an update of the browser cost the session")
	}
	for _, hints := range []string{"1920x1080", "", "1080x1920"} {
		g.header["X-Client-Screen"] = hints
		if d := g.session(); d.SessionID != cookie {
			t.Errorf("screen %q cost the session", hints)
		}
		s.until("the hints were not learnt", func() bool {
			return s.sessionField(cookie, "cookieFingerprintHash") != s.sessionField(cookie, "fingerprintBase")
		})
	}
	g.header["X-Client-Screen"] = "640x480"
	if d := g.session(); d.SessionID == cookie {
		t.Error("another screen kept the session")
	}
}

// A guest finds the last click at once, and a page that is reloaded is the same
// search; another question between the two makes it a new one.
func TestRepeatedSearch(t *testing.T) {
	t.Parallel()
	s := newSite(t, 1, nil, nil)
	g := s.guest()
	ask := func(city string) string {
		body := search()
		body["geo"], body["locale"], body["currency"] = map[string]any{"mode": "city", "city": city}, "en", "USD"
		return g.must(http.StatusOK, "POST", "/search", body).header.Get("X-Search-Session")
	}
	kabul := ask("Kabul")
	// A request waits for the record of the last one, but not for long: on a busy machine it may come first.
	history := func(want ...string) {
		t.Helper()
		testkit.Retry(t, "the last search is in the history at once", func() bool {
			var got []string
			for _, h := range g.session().SearchHistory {
				got = append(got, h.SearchSessionID)
			}
			return slices.Equal(got, want)
		})
	}
	history(kabul)
	if again := ask("kabul "); again != kabul {
		t.Errorf("asked again: %s, want %s", again, kabul)
	}
	herat := ask("Herat")
	later := ask("Kabul")
	if later == kabul || later == herat {
		t.Errorf("after another question: %s", later)
	}
	history(later, herat)
	// Another browser with the same cookie learns nothing of it.
	thief := s.guest("User-Agent", "Mozilla/5.0 (Macintosh) Safari/605.1.15")
	thief.cookie, thief.card = g.cookie, g.card
	body := search()
	body["geo"], body["locale"], body["currency"] = map[string]any{"mode": "city", "city": "Kabul"}, "en", "USD"
	if got := thief.must(http.StatusOK, "POST", "/search", body).header.Get("X-Search-Session"); got == later {
		t.Error("another browser was told of the guest's search")
	}
}

func (s *site) sessionField(guest, field string) string {
	s.t.Helper()
	c := redisClient(s.t, s.RedisURL)
	defer c.Close()
	v, err := c.Do(testkit.Context(s.t), c.B().Hget().Key(s.Name+":bff-consumer:session:"+guest).Field(field).Build()).ToString()
	if err != nil {
		s.t.Fatalf("%s of %s: %v", field, guest, err)
	}
	return v
}

// What Redis keeps of a search, what the history shows and what the event says name
// one query, and a page's event says what the page showed.
func TestOneSearchEverywhere(t *testing.T) {
	t.Parallel()
	s := newSite(t, 1, map[string]string{
		"BFF_CONSUMER_SAMPLING": string(consumer.SubjectSearchExecuted) + "=1;" + string(consumer.SubjectDetailViewed) + "=1",
	}, nil)
	g := s.guest()
	// The public page does not know what the guest has chosen.
	g.must(http.StatusOK, "POST", "/session/currency", map[string]string{"currency": "EUR"})
	g.must(http.StatusOK, "POST", "/session/locale", map[string]string{"locale": "en"})
	a := g.must(http.StatusOK, "POST", "/search", search())
	var page struct{ Page struct{ Total int } }
	if err := json.Unmarshal(a.body, &page); err != nil || page.Page.Total == 0 {
		t.Fatalf("%v: %.200s", err, a.body)
	}
	srs := a.header.Get("X-Search-Session")
	executed := s.event(consumer.SubjectSearchExecuted, g.cookie)

	c := redisClient(t, s.RedisURL)
	defer c.Close()
	kept := func() (m map[string]string) {
		t.Helper()
		m, err := c.Do(testkit.Context(t), c.B().Hgetall().Key(s.Name+":bff-consumer:srs:"+srs).Build()).AsStrMap()
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	s.until("the search session was not kept", func() bool { return len(kept()) > 0 })
	first, history := kept(), g.session().SearchHistory
	if len(history) != 1 || history[0].QueryHash != first["queryHash"] || executed["queryHash"] != first["queryHash"] || executed["searchSessionId"] != srs {
		t.Errorf("Redis has %s, the history %+v, the event %v", first["queryHash"], history, executed)
	}
	if first["guestSessionId"] != g.cookie || first["resultCount"] != strconv.Itoa(page.Page.Total) || executed["resultCount"] != float64(page.Page.Total) {
		t.Errorf("of %d hotels Redis has %v, the event %v", page.Page.Total, first, executed)
	}
	moment := func(m map[string]string, field string) time.Time {
		t.Helper()
		at, err := time.Parse(time.RFC3339, m[field])
		if err != nil {
			t.Fatalf("%s: %v", field, err)
		}
		return at
	}
	started := moment(first, "startedAt")
	if ends := moment(first, "ttlExpiresAt"); !ends.Equal(started.Add(time.Hour)) || !moment(first, "lastInteractionAt").Equal(started) {
		t.Errorf("a new search session: %v", first)
	}
	next := search()
	next["page"] = map[string]int{"limit": 20, "offset": 20}
	g.must(http.StatusOK, "POST", "/search", next, "X-Search-Session", srs)
	s.until("the second page was not noticed", func() bool { return moment(kept(), "lastInteractionAt").After(started) })
	if m := kept(); !moment(m, "startedAt").Equal(started) || m["ttlExpiresAt"] != first["ttlExpiresAt"] || m["queryHash"] != first["queryHash"] {
		t.Errorf("after the second page: %v", m)
	}

	hotel, _ := s.hotel(3)
	shown := g.must(http.StatusOK, "GET", "/hotels/"+hotel, nil, "X-Currency", "USD", "X-Search-Session", srs)
	viewed := s.event(consumer.SubjectDetailViewed, g.cookie)
	if viewed["currency"] != "USD" || viewed["locale"] != "ps-AF" || viewed["searchSessionId"] != srs || viewed["propertyId"] != hotel {
		t.Errorf("detail.viewed: %v", viewed)
	}
	if !strings.Contains(string(shown.body), `"currency":"USD"`) {
		t.Errorf("the page is in another currency: %.500s", shown.body)
	}
}

func TestClear(t *testing.T) {
	t.Parallel()
	s := newSite(t, 2, nil, nil)
	g := s.guest()
	if a := s.guest().must(http.StatusNoContent, "POST", "/session/clear", nil); !strings.Contains(a.header.Get("Set-Cookie"), "Max-Age=0") {
		t.Errorf("without a session: %v", a.header)
	}
	g.must(http.StatusCreated, "POST", "/wishlist", s.wish(0), once()...)
	old, oldCard := g.cookie, g.card
	a := g.must(http.StatusNoContent, "POST", "/session/clear", nil)
	if cookies := a.header["Set-Cookie"]; len(cookies) != 2 || !strings.Contains(cookies[0], "gms_id=;") || !strings.Contains(cookies[1], "__Host-gms_card=;") ||
		strings.Count(strings.Join(cookies, ""), "Max-Age=0") != 2 {
		t.Errorf("cookies: %v", cookies)
	}
	if e := s.event(consumer.SubjectSessionEnded, old); e["reason"] != "explicit-clear" {
		t.Errorf("session.ended: %v", e)
	}
	for _, table := range []string{"wishlist_anonymous", "idempotency_keys"} {
		if n := s.count(`SELECT count(*) FROM bff_consumer.`+table+` WHERE guest_session_id = $1`, old); n != 0 {
			t.Errorf("%s keeps %d rows", table, n)
		}
	}
	// Without consent the deletion is announced all the same, but not what was never told.
	quiet, never := s.guest(), s.guest("Sec-GPC", "1")
	for _, h := range []*guest{quiet, never} {
		h.session()
		old := h.cookie
		h.must(http.StatusOK, "POST", "/session/consent", map[string]bool{"telemetry": false})
		h.must(http.StatusNoContent, "POST", "/session/clear", nil)
		if got, want := s.events(consumer.SubjectSessionEnded, old), map[*guest]int{quiet: 1, never: 0}[h]; got != want {
			t.Errorf("without consent: %d events, want %d", got, want)
		}
		if h == quiet {
			if e := s.event(consumer.SubjectSessionEnded, old); len(e) != 2 || e["reason"] != "cleared" || e["guestSessionId"] != old {
				t.Errorf("without consent: %v", e)
			}
		}
	}
	// A client that goes on with the old cookies is a new guest.
	for _, card := range []string{"", oldCard} {
		g.cookie, g.card = old, card
		if d := g.session(); d.SessionID == old || d.WishlistSize != 0 {
			t.Errorf("the old cookies: %+v", d)
		}
	}
}

// A guest who wants no tracking is not told of, from the first request on; the
// answer to the banner counts more than the browser's header.
func TestConsent(t *testing.T) {
	t.Parallel()
	s := newSite(t, 1, nil, nil)
	for _, header := range []string{"DNT", "Sec-GPC"} {
		g := s.guest(header, "1")
		if d := g.session(); d.Consent.Telemetry {
			t.Errorf("%s: %+v", header, d.Consent)
		}
		g.must(http.StatusCreated, "POST", "/wishlist", s.wish(0), once()...)
		g.must(http.StatusCreated, "POST", "/handoff", s.stay(0), once()...)
		g.must(http.StatusOK, "POST", "/session/locale", map[string]string{"locale": "en"})
		if n := s.count(`SELECT count(*) FROM bff_consumer.outbox WHERE headers->>'sessionId' = $1`, g.cookie); n != 0 {
			t.Errorf("%s: %d events left", header, n)
		}
		var d sessionDoc
		g.must(http.StatusOK, "POST", "/session/consent", map[string]bool{"telemetry": true}).into(t, &d)
		if !d.Consent.Telemetry || d.Consent.Marketing {
			t.Errorf("after consenting: %+v", d.Consent)
		}
		g.must(http.StatusCreated, "POST", "/wishlist", s.wish(1), once()...)
		if !g.session().Consent.Telemetry || s.events(consumer.SubjectWishlistAdded, g.cookie) != 1 {
			t.Errorf("%s: the header counts more than the guest's answer", header)
		}
	}
	g := s.guest()
	g.session()
	g.must(http.StatusOK, "POST", "/session/consent", map[string]bool{"telemetry": false, "marketing": true})
	g.must(http.StatusCreated, "POST", "/wishlist", s.wish(0), once()...)
	if d := g.session(); d.Consent.Telemetry || !d.Consent.Marketing || s.events(consumer.SubjectWishlistAdded, g.cookie) != 0 {
		t.Errorf("withdrawn: %+v", d.Consent)
	}
	// Redis loses the session: the refusal is there again.
	s.forget(g.cookie)
	g.must(http.StatusCreated, "POST", "/wishlist", s.wish(1), once()...)
	if d := g.session(); d.Consent.Telemetry || s.events(consumer.SubjectWishlistAdded, g.cookie) != 0 {
		t.Errorf("after the loss of the session: %+v", d.Consent)
	}
	g.must(http.StatusOK, "POST", "/session/consent", map[string]bool{"telemetry": true})
	s.forget(g.cookie)
	g.must(http.StatusCreated, "POST", "/wishlist", s.wish(2), once()...)
	if n := s.events(consumer.SubjectWishlistAdded, g.cookie); n != 1 {
		t.Errorf("agreed and lost: %d events, want 1", n)
	}
}

// forget deletes a session as a loss of Redis would.
func (s *site) forget(guest string) {
	s.t.Helper()
	c := redisClient(s.t, s.RedisURL)
	defer c.Close()
	if err := c.Do(testkit.Context(s.t), c.B().Del().Key(s.Name+":bff-consumer:session:"+guest).Build()).Error(); err != nil {
		s.t.Fatal(err)
	}
}

// A pepper is rotated without losing a guest, and the old one is then not needed.
func TestPepperRotation(t *testing.T) {
	t.Parallel()
	const fresh = "a-pepper-for-the-next-year"
	s := newSite(t, 1, nil, nil)
	g := s.guest()
	cookie := g.session().SessionID
	hash := s.sessionField(cookie, "cookieFingerprintHash")

	s.procs = nil
	s.start(map[string]string{"BFF_CONSUMER_PEPPER": fresh, "BFF_CONSUMER_OLD_PEPPERS": s.Secrets.Pepper})
	if d := g.session(); d.SessionID != cookie {
		t.Fatal("the guest was lost in the rotation")
	}
	s.until("the fingerprint was not hashed anew", func() bool { return s.sessionField(cookie, "cookieFingerprintHash") != hash })

	s.procs = nil
	s.start(map[string]string{"BFF_CONSUMER_PEPPER": fresh})
	if d := g.session(); d.SessionID != cookie {
		t.Error("the guest was lost with the old pepper")
	}
}
