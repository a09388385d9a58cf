package consumerhttp

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/cache"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/consumer/guest"
	"melmastoon.ghasi.io/bff/internal/memo"
	"melmastoon.ghasi.io/bff/internal/redis"
	"melmastoon.ghasi.io/bff/internal/web"
)

// within runs a benchmark inside a handler, where a request has its context.
func within(b *testing.B, method, pattern, target string, run func(a *API, w http.ResponseWriter, r *http.Request)) {
	b.Helper()
	store, err := cache.NewStore(cache.StoreConfig{})
	if err != nil {
		b.Fatal(err)
	}
	answers, err := NewAnswers(store, redis.NewKeys("bench", "bff-consumer"))
	if err != nil {
		b.Fatal(err)
	}
	a := New(Config{Answers: answers, Now: time.Now})
	s := web.NewServer(web.Config{
		Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(), Namespace: "bench",
		Budget: time.Hour,
	})
	body := int64(0)
	if method == http.MethodPost {
		body = 16 * kib
	}
	err = s.Mount(web.Route{
		Pattern: method + " " + pattern, Kind: web.Internal, Budget: time.Hour, Body: body,
		Handle: func(w http.ResponseWriter, r *http.Request) error {
			web.From(r.Context()).Local = &consumer.Visit{At: time.Now(), Locale: "fa-AF"}
			b.ReportAllocs()
			run(a, w, r)
			return nil
		},
	})
	if err != nil {
		b.Fatal(err)
	}
	s.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(b.Context(), method, target, nil))
}

// BenchmarkKnown is what a request costs with what was understood before, and
// without.
func BenchmarkKnown(b *testing.B) {
	const body = `{"geo":{"mode":"city","city":"Kabul"},"dates":{"checkIn":"2077-05-12","checkOut":"2077-05-15"},` +
		`"occupancy":{"adults":2,"children":1,"rooms":1,"childrenAges":[7]},"filters":{"amenities":["wifi"],"starRating":[4,5]},"locale":"fa-AF","currency":"USD"}`
	for name, known := range map[string]bool{"with": true, "without": false} {
		b.Run("body/"+name, func(b *testing.B) {
			within(b, http.MethodPost, "/search", "/search", func(a *API, w http.ResponseWriter, r *http.Request) {
				for b.Loop() {
					if !known {
						a.bodies = memo.New[bodyKey, *searchRequest](2)
					}
					r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
					if _, err := a.readRequest(w, r, readList); err != nil {
						b.Fatal(err)
					}
				}
			})
		})
		b.Run("page/"+name, func(b *testing.B) {
			within(b, http.MethodGet, "/hotels/{propertyId}", "/hotels/ppt_01H8YN7QV4D8KZ4F8Y5CK4MV3D?checkIn=2077-05-12&checkOut=2077-05-15&adults=2", func(a *API, _ http.ResponseWriter, r *http.Request) {
				for b.Loop() {
					if !known {
						a.pages = memo.New[pageAsked, *page](2)
					}
					if _, err := a.readPage(r, visitOf(r).At); err != nil {
						b.Fatal(err)
					}
				}
			})
		})
		b.Run("question/"+name, func(b *testing.B) {
			within(b, http.MethodPost, "/search", "/search", func(a *API, w http.ResponseWriter, r *http.Request) {
				text := strings.Replace(body, `,"locale":"fa-AF","currency":"USD"`, "", 1)
				r.Body, r.ContentLength = io.NopCloser(strings.NewReader(text)), int64(len(text))
				req, err := a.readRequest(w, r, readList)
				if err != nil {
					b.Fatal(err)
				}
				d := &guest.Decision{Session: consumer.GuestSession{CreatedAt: time.Now(), Locale: "fa-AF", Currency: bff.USD}}
				for b.Loop() {
					if !known {
						a.questions = memo.New[question, *askedFor](2)
					}
					a.ask(w, r, req, d)
				}
			})
		})
	}
}
