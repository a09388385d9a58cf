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
	"melmastoon.ghasi.io/bff/internal/consumer/discovery"
	"melmastoon.ghasi.io/bff/internal/consumer/hotel"
)

// What a CDN may do with a public answer that is whole, and with one that is not.
const (
	stableControl   = "public, max-age=15, s-maxage=300, stale-while-revalidate=60"
	unstableControl = "public, max-age=3, s-maxage=3"
)

const broken = consumertest.Failure("error")

// TestUnstableAnswersAtTheEdge breaks public answers: a CDN keeps them no longer
// than we do.
func TestUnstableAnswersAtTheEdge(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		route string
		down  consumertest.Failures
		rung  discovery.Rung
		after time.Duration // since the answer was whole; 0 = never
		// want is what the broken answer says of itself.
		wantStale bool
		wantParts []string
	}{
		{name: "no price", route: "hotel", down: consumertest.Failures{Pricing: broken}, wantParts: []string{"rates", "calendar"}},
		{name: "no rooms", route: "hotel", down: consumertest.Failures{Property: broken}, wantParts: []string{"property"}},
		{name: "no brand", route: "hotel", down: consumertest.Failures{Theme: broken}, wantParts: []string{"brand"}},
		{name: "no projection", route: "hotel", down: consumertest.Failures{Search: broken}, wantParts: []string{"popularity", "rates", "calendar", "brand"}},
		{name: "shed", route: "hotel", rung: discovery.RungPopularity, wantParts: []string{"similar", "popularity"}},
		{
			name: "old projection", route: "hotel", down: consumertest.Failures{Search: broken}, after: 66 * time.Second, wantStale: true,
			wantParts: []string{"search"},
		},
		{name: "being renewed", route: "hotel", after: 61 * time.Second, wantStale: true, wantParts: []string{"property", "calendar"}},
		{name: "old facets", route: "facets", down: consumertest.Failures{Search: broken}, after: time.Hour + time.Minute, wantStale: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s, call := newStage(t), stagedCalls()[tt.route]
				if tt.after > 0 {
					if a, got := s.ask(call); a.header.Get("Cache-Control") != stableControl || got.Stale {
						t.Fatal(a)
					}
					<-time.After(tt.after)
				}
				s.Fail(tt.down)
				s.hold(tt.rung)
				a, got := s.ask(call)
				var parts []string
				for _, d := range got.Degraded {
					parts = append(parts, d.Part)
				}
				if a.status != http.StatusOK || !slices.Equal(parts, tt.wantParts) || got.Stale != tt.wantStale {
					t.Fatalf("degraded %v, want %v: %s", parts, tt.wantParts, a)
				}
				if a.header.Get("Cache-Control") != unstableControl || !strings.Contains(a.header.Get("Vary"), "X-Currency") {
					t.Errorf("%v", a.header)
				}
				if stale := a.header.Get("X-Cache") == "STALE"; stale != tt.wantStale {
					t.Errorf("X-Cache %s", a.header.Get("X-Cache"))
				}
				s.Fail(consumertest.Failures{})
				s.hold(discovery.RungNone)
				for range 2 { // what is old is renewed after a response
					<-time.After(4 * time.Second)
					s.ask(call)
					synctest.Wait()
				}
				<-time.After(4 * time.Second)
				if a, got := s.ask(call); a.header.Get("Cache-Control") != stableControl || len(got.Degraded) > 0 || got.Stale {
					t.Errorf("it does not heal: %s", a)
				}
			})
		})
	}
}

// TestOldSearchSaysSo lists from an old window: headers say what the body says.
func TestOldSearchSaysSo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		call := searchCall("Kabul")
		s.ask(call)
		<-time.After(66 * time.Second)
		for i, down := range []consumertest.Failures{{Search: broken}, {Search: broken}, {Search: broken, Pricing: broken}, {Search: broken, Pricing: broken}} {
			s.Fail(down)
			a, got := s.ask(call)
			if a.header.Get("X-Cache") != "STALE" || !strings.Contains(a.header.Get("Cache-Status"), "; detail=") || !got.Stale {
				t.Errorf("read %d: %v, stale %v", i, a.header, got.Stale)
			}
			// The last prices are shown, and called stale once they are.
			for _, r := range got.Results {
				if r.RateSnapshot == nil || r.RateSnapshot.IsStale != (i == 3) {
					t.Fatalf("read %d: price %+v", i, r.RateSnapshot)
				}
			}
			<-time.After([]time.Duration{time.Second, 5 * time.Second, 70 * time.Second, 0}[i])
		}
	})
}

// TestBrownoutIsAnnounced names the rung wherever something was shed, also in
// answers that are kept.
func TestBrownoutIsAnnounced(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		route string
		rung  discovery.Rung
		want  string
		kept  string // on the kept answer, once the ladder is left
	}{
		{"hotel", discovery.RungNone, "", ""},
		{"hotel", discovery.RungCampaign, "", ""}, // nothing is missing
		{"hotel", discovery.RungSimilar, "similar", "similar"},
		{"hotel", discovery.RungListPrice, "list-price", "list-price"},
		{"wishlist", discovery.RungSimilar, "", ""},
		{"wishlist", discovery.RungBrand, "brand", ""},
		{"search", discovery.RungCampaign, "campaign", ""},
		{"search", discovery.RungListPrice, "list-price", "list-price"},
		{"map", discovery.RungMapPrice, "map-price", "map-price"},
		{"facets", discovery.RungListPrice, "", ""},
	} {
		t.Run(tt.route+" at "+tt.rung.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t)
				s.wishes = []consumer.WishlistEntry{{PropertyID: consumertest.PropertyID(10)}}
				s.hold(tt.rung)
				call, ok := stagedCalls()[tt.route]
				if !ok {
					call = guestCall{method: http.MethodGet, path: "/" + tt.route}
				}
				if a, _ := s.ask(call); a.status != http.StatusOK || a.header.Get("X-Brownout") != tt.want {
					t.Errorf("X-Brownout %q, want %q: %s", a.header.Get("X-Brownout"), tt.want, a)
				}
				s.hold(discovery.RungNone)
				if a, _ := s.ask(call); a.header.Get("X-Brownout") != tt.kept {
					t.Errorf("kept: X-Brownout %q, want %q", a.header.Get("X-Brownout"), tt.kept)
				}
			})
		})
	}
}

// TestGuestsChoice asks where a session decides: in the guest's currency and
// language, in private. Ids count without a card here.
func TestGuestsChoice(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, func(c *consumerguard.Config) { c.Cardless.Always = true })
		const dari = "fa-AF"
		search := searchCall("Kabul")
		search.header = map[string]string{"Accept-Language": dari}
		first, _ := s.ask(search)
		cookie, _, _ := strings.Cut(first.header.Get("Set-Cookie"), ";")
		id := bff.MustParseID(bff.PrefixGuestSession, strings.TrimPrefix(cookie, "gms_id="))
		if _, err := s.sessions.UpdateSession(t.Context(), id, consumer.SessionChange{Currency: bff.GBP, Locale: "ps-AF"}); err != nil {
			t.Fatal(err)
		}
		card, err := s.cards.Mint(consumer.Card{SessionID: id, Currency: bff.PKR, Locale: bff.LocaleUrdu, MadeAt: time.Now().UTC().Truncate(time.Second)})
		if err != nil {
			t.Fatal(err)
		}
		card = "; " + consumer.CardCookie + "=" + card
		property := consumertest.PropertyID(10).String()
		for _, tt := range []struct {
			name                     string
			header                   map[string]string
			wantCurrency, wantLocale string
		}{
			{name: "session", header: map[string]string{"Cookie": cookie}, wantCurrency: "GBP", wantLocale: "ps-AF"},
			{name: "header", header: map[string]string{"Cookie": cookie, "X-Currency": "USD"}, wantCurrency: "USD", wantLocale: "ps-AF"},
			{name: "card", header: map[string]string{"Cookie": cookie + card}, wantCurrency: "PKR", wantLocale: "ur"},
			{name: "card and header", header: map[string]string{"Cookie": cookie + card, "X-Currency": "USD"}, wantCurrency: "USD", wantLocale: "ur"},
			{name: "country", header: map[string]string{"X-Test-Country": "DE"}, wantCurrency: "EUR", wantLocale: dari},
			{name: "nothing", wantCurrency: "AFN", wantLocale: dari},
			{name: "another browser's cookie", header: map[string]string{"Cookie": cookie, "User-Agent": "another"}, wantCurrency: "AFN", wantLocale: dari},
		} {
			before, _ := s.sessions.Counts()
			header := map[string]string{"Accept-Language": dari}
			maps.Copy(header, tt.header)
			days, _ := s.ask(guestCall{method: http.MethodGet, path: "/hotels/" + property + "/availability?from=2077-03-10&to=2077-03-14", header: header})
			var got struct{ Days []struct{ Currency string } }
			if err := json.Unmarshal(days.body, &got); err != nil || got.Days[0].Currency != tt.wantCurrency {
				t.Errorf("%s: %v, want %s", tt.name, got, tt.wantCurrency)
			}
			words, _ := s.ask(guestCall{method: http.MethodGet, path: "/suggest?q=kab", header: header})
			var suggested struct{ Suggestions []struct{ Label string } }
			if err := json.Unmarshal(words.body, &suggested); err != nil || suggested.Suggestions[0].Label != tt.wantLocale {
				t.Errorf("%s: %v, want %s", tt.name, suggested, tt.wantLocale)
			}
			for _, a := range []guestAnswer{days, words} {
				if a.header.Get("Cache-Control") != "private, no-store" || a.header.Get("Set-Cookie") != "" {
					t.Errorf("%s: %v", tt.name, a.header)
				}
			}
			if saved, _ := s.sessions.Counts(); saved != before {
				t.Errorf("%s: a look opened a session", tt.name)
			}
		}
	})
}

// TestReinstatedHotelIsBack suspends a hotel's tenant for a moment.
func TestReinstatedHotelIsBack(t *testing.T) {
	t.Parallel()
	for _, route := range []string{"hotel", "availability"} {
		t.Run(route, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s, call := newStage(t), stagedCalls()[route]
				tenant := consumertest.TenantID(7) // every hotel's page is its
				s.suspended.Suspend(tenant)
				if a, _ := s.ask(call); a.status != http.StatusNotFound {
					t.Fatal(a)
				}
				s.suspended.Reinstate(tenant)
				<-time.After(1100 * time.Millisecond)
				if a, _ := s.ask(call); a.status != http.StatusOK {
					t.Error(a)
				}
			})
		})
	}
}

// TestPriceOnThePage finds the price that a guest saw on a hotel's page, for the
// receipt of a hand-off by any instance.
func TestPriceOnThePage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		property := consumertest.PropertyID(10)
		stay := discovery.DefaultStay(time.Now())
		req := hotel.PriceRequest{
			Properties: []hotel.PropertyRef{{PropertyID: property}}, Dates: stay.Dates, Occupancy: stay.Occupancy, Currency: bff.AFN, Locale: bff.LocaleEnglish,
		}
		if _, ok := s.answers.FindRate(t.Context(), req); ok {
			t.Error("a price that nobody was shown")
		}
		shown := time.Now()
		s.ask(hotelCall(property.String()))
		<-time.After(30 * time.Second)
		rate, ok := s.answers.FindRate(t.Context(), req)
		if !ok || rate.TotalForStayMinor != consumertest.Price.MinorString() || !rate.CapturedAt.Equal(shown) {
			t.Errorf("%+v, %v", rate, ok)
		}
		req.Dates.CheckOut++
		if _, ok := s.answers.FindRate(t.Context(), req); ok {
			t.Error("the price of another stay")
		}
	})
}
