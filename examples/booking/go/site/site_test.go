package site_test

import (
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/examples/booking/go/site"
	"melmastoon.ghasi.io/bff/handoff"
	"melmastoon.ghasi.io/bff/internal/callers"
)

const (
	bearer  = "bearer-of-the-booking-service"
	hmacKey = "key-of-the-booking-service"
	slug    = "shaheen-42"
)

// platform answers as bff-consumer and the services that a booking page asks.
type platform struct {
	mu        sync.Mutex
	instances map[string]bool // that have consumed
	lose      int             // calls that are carried out and whose answer is lost
	down      bool
	suspended bool
	color     string // of the brand
}

func (p *platform) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	body, _ := io.ReadAll(r.Body) // a short body is refused below
	switch {
	case p.down:
		w.WriteHeader(http.StatusBadGateway)
	case strings.HasPrefix(r.URL.Path, "/tenant/"):
		_, _ = fmt.Fprintf(w, `{"slug":%q}`, slug)
	case strings.HasPrefix(r.URL.Path, "/property/"):
		_, _ = io.WriteString(w, `{"name":{"default":"en","values":{"en":"<script>alert(1)</script> Inn","fa":"هوتل نسیم"}},
			"photos":[{"url":"javascript:alert(1)","isHero":true},{"url":"http://media.example/1.svg","alt":{"default":"en","values":{"en":"The garden"}},"isHero":true}]}`)
	case strings.HasPrefix(r.URL.Path, "/theme-config/"):
		_, _ = fmt.Fprintf(w, `{"primaryColor":%q}`, p.color)
	case callers.Auth{Token: bearer, HMACKey: []byte(hmacKey)}.Check(r, body, time.Now()) != nil:
		w.WriteHeader(http.StatusUnauthorized)
	case p.suspended:
		w.WriteHeader(http.StatusForbidden)
	case len(p.instances) > 0 && !p.instances[string(body)]:
		w.WriteHeader(http.StatusConflict)
	default:
		p.instances[string(body)] = true
		if p.lose > 0 {
			p.lose--
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		_, _ = io.WriteString(w, `{"occupancy":{"adults":9,"children":1,"rooms":1,"childrenAges":[7]},"priceCheck":"changed","currency":"EUR",
			"shown":{"minor":"1021295","currency":"AFN","capturedAt":"2026-11-16T01:58:12.850Z"},
			"currentPrice":{"minor":"1040005","currency":"AFN","capturedAt":"2026-11-16T01:58:13.040Z"}}`)
	}
}

// mint returns a token that is as old as told, and what verifies it.
func mint(t *testing.T, age time.Duration, locale bff.Locale) (token, keys string) {
	t.Helper()
	now := time.Now()
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // never fails
	set, err := handoff.NewKeySet("hmac-test", secret, now.Add(-24*time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	file, err := set.EncodeFile()
	if err != nil {
		t.Fatal(err)
	}
	in := bff.DateOf(now) + 14
	token, _, err = handoff.Mint(handoff.NewKeyring(set), handoff.Claims{
		ID: bff.NewID(bff.PrefixHandoff, now), GuestSessionID: bff.NewID(bff.PrefixGuestSession, now), TenantID: bff.NewID(bff.PrefixTenant, now),
		PropertyID: bff.NewID(bff.PrefixProperty, now), Dates: bff.StayDates{CheckIn: in, CheckOut: in + 3},
		Occupancy: handoff.Occupancy{Adults: 2, Children: 1, Rooms: 1}, Currency: bff.AFN, Locale: locale,
	}, now.Add(-age))
	if err != nil {
		t.Fatal(err)
	}
	return token, string(file)
}

func TestArrival(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		age     time.Duration
		change  func(p *platform, env map[string]string)
		request func(r *http.Request)
		want    []string // statuses of visits, one after the other, and what their pages say
	}{
		"arrives once":      {want: []string{"200 10,212.95", "409 already used"}},
		"an answer is lost": {change: func(p *platform, _ map[string]string) { p.lose = 1 }, want: []string{"200 id=\"ages\">7<", "409 already used"}},
		"tampered":          {request: func(r *http.Request) { r.URL.RawQuery += "A" }, want: []string{"401 not genuine"}},
		"expired":           {age: time.Hour, want: []string{"410 has expired"}},
		"no token":          {request: func(r *http.Request) { r.URL.RawQuery = "" }, want: []string{"400 no hand-off"}},
		"another hotel":     {request: func(r *http.Request) { r.URL.Path = "/other/book" }, want: []string{"404 another hotel"}},
		"looked ahead":      {request: func(r *http.Request) { r.Header.Set("Sec-Purpose", "prefetch") }, want: []string{"503 still good"}},
		"HEAD":              {request: func(r *http.Request) { r.Method = http.MethodHead }, want: []string{"405 "}},
		"suspended":         {change: func(p *platform, _ map[string]string) { p.suspended = true }, want: []string{"403 no bookings"}},
		"platform away":     {change: func(p *platform, _ map[string]string) { p.down = true }, want: []string{"503 still good"}},
		"our key is wrong": {
			change: func(_ *platform, env map[string]string) { env["MELMASTOON_INTERNAL_HMAC_KEY"] = "x" }, want: []string{"503 still good"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &platform{instances: map[string]bool{}}
			server := httptest.NewServer(p)
			t.Cleanup(server.Close)
			token, keys := mint(t, tc.age, bff.LocaleEnglish)
			env := map[string]string{
				"MELMASTOON_CONSUMER_INTERNAL_URL": server.URL, "MELMASTOON_SIM_URL": server.URL, "MELMASTOON_INTERNAL_TOKEN": bearer,
				"MELMASTOON_INTERNAL_HMAC_KEY": hmacKey, "BFF_CONSUMER_HANDOFF_KEYS": keys,
			}
			if tc.change != nil {
				tc.change(p, env)
			}
			booking, err := site.New(func(name string) string { return env[name] })
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range tc.want {
				r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/"+slug+"/book?h="+token, nil)
				if tc.request != nil {
					tc.request(r)
				}
				w := httptest.NewRecorder()
				booking.ServeHTTP(w, r)
				status, text, _ := strings.Cut(want, " ")
				if got := w.Body.String(); fmt.Sprint(w.Code) != status || !strings.Contains(got, text) || strings.Contains(got, token) ||
					strings.Contains(got, "<script") {
					t.Errorf("%d\n%s\nwant %s", w.Code, got, want)
				}
				h := w.Header()
				if w.Code != http.StatusMethodNotAllowed && (h.Get("Referrer-Policy") != "no-referrer" || h.Get("Cache-Control") != "no-store" ||
					!strings.HasPrefix(h.Get("Content-Security-Policy"), "default-src 'none'; style-src 'sha256-")) {
					t.Errorf("headers: %v", h)
				}
				if w.Code == http.StatusOK && (!strings.Contains(w.Body.String(), `id="adults">2<`) || !strings.Contains(w.Body.String(), `id="currency">AFN<`)) {
					t.Errorf("the page shows what is not signed:\n%s", w.Body)
				}
			}
		})
	}
}

// The page says the hotel's name in the guest's language, shows its picture and its
// brand's colour, and writes days and amounts as the guest's readers do.
func TestPage(t *testing.T) {
	t.Parallel()
	in := bff.DateOf(time.Now()) + 14
	solar, err := in.SolarHijri()
	if err != nil {
		t.Fatal(err)
	}
	for locale, want := range map[bff.Locale][]string{
		bff.LocaleEnglish: {
			`lang="en" dir="ltr"`, "&lt;script&gt;alert(1)&lt;/script&gt; Inn</h1>", `alt="The garden"`, "AFN\u00a010,212.95", "it is for this hotel",
		},
		bff.LocaleDari: {`lang="fa-AF" dir="rtl"`, "هوتل نسیم</h1>", "۱۰٬۲۱۲٫۹۵", "؋", bff.LocaleDari.Info().Months.Persian.Long[solar.Month-1], "تغییر کرده"},
		bff.LocalePashto: {
			`lang="ps-AF" dir="rtl"`, "&lt;script&gt;alert(1)&lt;/script&gt; Inn</h1>", "ننوتل",
			" د " + bff.LocalePashto.Info().Months.Persian.Long[solar.Month-1],
		},
		bff.LocaleRussian: {`lang="en" dir="ltr"`, "Check-in", `id="locale">ru`},
	} {
		t.Run(string(locale), func(t *testing.T) {
			t.Parallel()
			for color, shown := range map[string]string{"#6b3fa0": "#6b3fa0", "red;} body{display:none": "#1f4e5f"} {
				server := httptest.NewServer(&platform{instances: map[string]bool{}, color: color})
				t.Cleanup(server.Close)
				token, keys := mint(t, 0, locale)
				env := map[string]string{
					"MELMASTOON_CONSUMER_INTERNAL_URL": server.URL, "MELMASTOON_SIM_URL": server.URL, "MELMASTOON_INTERNAL_TOKEN": bearer,
					"MELMASTOON_INTERNAL_HMAC_KEY": hmacKey, "BFF_CONSUMER_HANDOFF_KEYS": keys,
				}
				booking, err := site.New(func(name string) string { return env[name] })
				if err != nil {
					t.Fatal(err)
				}
				w := httptest.NewRecorder()
				booking.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/"+slug+"/book?h="+token, nil))
				got := w.Body.String()
				for _, text := range append(want, "--brand:"+shown+";", `src="http://media.example/1.svg"`) {
					if !strings.Contains(got, text) {
						t.Errorf("%q is missing in\n%s", text, got)
					}
				}
				if strings.Contains(got, "javascript:") || !strings.Contains(w.Header().Get("Content-Security-Policy"), "img-src http://media.example; ") {
					t.Errorf("%v\n%s", w.Header(), got)
				}
			}
		})
	}
}

// A refusal is read in the language of the browser.
func TestRefusalInTheGuestsLanguage(t *testing.T) {
	t.Parallel()
	_, keys := mint(t, 0, bff.LocaleEnglish)
	booking, err := site.New(func(name string) string {
		if name == "BFF_CONSUMER_HANDOFF_KEYS" {
			return keys
		}
		return "http://127.0.0.1:1"
	})
	if err != nil {
		t.Fatal(err)
	}
	for language, want := range map[string]string{"ps-AF": "دا پته لېږد نه لري", "fa": "این نشانی انتقالی ندارد", "de": "This address has no hand-off"} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/"+slug+"/book", nil)
		r.Header.Set("Accept-Language", language)
		w := httptest.NewRecorder()
		booking.ServeHTTP(w, r)
		if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %d\n%s", language, w.Code, w.Body)
		}
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	_, err := site.New(func(string) string { return "" })
	for _, name := range []string{
		"MELMASTOON_CONSUMER_INTERNAL_URL", "MELMASTOON_INTERNAL_TOKEN", "MELMASTOON_INTERNAL_HMAC_KEY", "MELMASTOON_SIM_URL", "BFF_CONSUMER_HANDOFF_KEYS",
	} {
		if err == nil || !strings.Contains(err.Error(), name+" is not set") {
			t.Errorf("%v does not say that %s is missing", err, name)
		}
	}
	if _, err := site.New(func(string) string { return "{}" }); err == nil || !strings.Contains(err.Error(), "BFF_CONSUMER_HANDOFF_KEYS") {
		t.Errorf("a wrong keyring: %v", err)
	}
}
