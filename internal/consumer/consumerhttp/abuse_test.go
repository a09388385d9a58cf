package consumerhttp

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/consumer/bot"
	"melmastoon.ghasi.io/bff/internal/consumer/consumertest"
	"melmastoon.ghasi.io/bff/internal/consumer/guest"
	"melmastoon.ghasi.io/bff/internal/web"
)

// ledgerOfSessions counts what is written.
type ledgerOfSessions struct {
	guest.Sessions
	known                     map[bff.ID]consumer.GuestSession
	wished                    map[bff.ID]bool // have a wishlist
	saved, recorded, suspects atomic.Int32
}

func (l *ledgerOfSessions) FindSession(_ context.Context, id bff.ID) (consumer.GuestSession, bool, error) {
	s, ok := l.known[id]
	return s, ok, nil
}

func (l *ledgerOfSessions) SaveSession(context.Context, consumer.GuestSession) error {
	l.saved.Add(1)
	return nil
}

func (l *ledgerOfSessions) UpdateSession(context.Context, bff.ID, consumer.SessionChange) (bool, error) {
	return true, nil
}

func (l *ledgerOfSessions) FindRefusal(context.Context, bff.ID) (guest.Refusal, error) {
	return guest.Refusal{}, nil
}

func (l *ledgerOfSessions) KnowsSession(_ context.Context, id bff.ID) (bool, error) {
	return l.wished[id], nil
}

func (l *ledgerOfSessions) FindTrail(context.Context, bff.ID) (guest.Trail, error) {
	return guest.Trail{}, nil
}

func (l *ledgerOfSessions) Follow(context.Context, []guest.Step) error { return nil }

func (l *ledgerOfSessions) ListWishlist(context.Context, bff.ID) ([]consumer.WishlistEntry, error) {
	return nil, nil
}

func (l *ledgerOfSessions) Record(_ context.Context, events ...bff.Event) error {
	l.recorded.Add(int32(len(events))) //nolint:gosec // few
	return nil
}

func (l *ledgerOfSessions) Suspect(context.Context, bot.BotSuspected, *bff.Event) error {
	l.suspects.Add(1)
	return nil
}

type wishlistsOf struct {
	guest.Wishlists
	*ledgerOfSessions
}

func (w wishlistsOf) ListWishlist(ctx context.Context, id bff.ID) ([]consumer.WishlistEntry, error) {
	return w.ledgerOfSessions.ListWishlist(ctx, id)
}

type noAddress struct{}

func (noAddress) Hash() consumer.Hash { return consumer.Hash{} }

// anyVisit serves the API to clients that the guard would have let pass; each
// request is of the visit that next returns. Sessions are those of the ledger, or kept.
func anyVisit(
	t *testing.T, l *ledgerOfSessions, next func() *consumer.Visit, kept ...guest.Sessions,
) (send func(method, path, body string) *httptest.ResponseRecorder) {
	t.Helper()
	background, sessions := web.NewBackground(web.BackgroundConfig{}), guest.Sessions(l)
	if len(kept) > 0 {
		sessions = kept[0]
	}
	api := New(Config{
		Sessions: sessions, Cards: consumertest.NewCards(1), Trails: l, Wishlists: wishlistsOf{nil, l}, Journal: l, Suspicions: l,
		Telemetry: consumer.NewTelemetry("test", nil), Background: background, Now: time.Now,
		Challenge: func(http.ResponseWriter, *http.Request) error { return nil },
	})
	server := web.NewServer(web.Config{
		Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(), Namespace: "test",
		Budget: 25 * time.Second, Now: time.Now,
	})
	routes := api.Routes()
	for i, rt := range routes {
		routes[i].Handle = func(w http.ResponseWriter, r *http.Request) error {
			web.From(r.Context()).Local = next()
			return rt.Handle(w, r)
		}
	}
	if err := server.Mount(routes...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := api.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if err := background.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return func(method, path, body string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(context.Background(), method, Base+path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		server.ServeHTTP(w, r)
		return w
	}
}

// TestTelemetryOpensNoSession: a report is accepted from any client, kept for a
// session that exists, and opens none.
func TestTelemetryOpensNoSession(t *testing.T) {
	t.Parallel()
	mine, other := consumer.Hash{1}, consumer.Hash{2}
	bodies := map[string]string{
		"/telemetry/page-view": `{"path":"/x"}`, "/telemetry/funnel": `{"step":"map.opened"}`,
		"/telemetry/click": `{"kind":"brand-peek","tenantId":"` + bff.NewID(bff.PrefixTenant, time.Now()).String() + `"}`,
	}
	for _, rt := range New(Config{}).Routes() {
		if path := strings.TrimPrefix(rt.Pattern, "POST "+Base); rt.Kind == web.Telemetry && bodies[path] == "" {
			t.Errorf("%s has no body here: whether it opens a session is not tested", path)
		}
	}
	for name, tc := range map[string]struct {
		cookie, known bool
		fingerprint   consumer.Hash
		carded, kept  bool
		wantRecorded  int32
	}{
		"no cookie":                 {fingerprint: mine},
		"made up":                   {cookie: true, fingerprint: mine},
		"lost session, with a card": {cookie: true, fingerprint: mine, carded: true, wantRecorded: 1},
		"lost session, with wishes": {cookie: true, fingerprint: mine, kept: true, wantRecorded: 1},
		"a guest":                   {cookie: true, known: true, fingerprint: mine, wantRecorded: 1},
		"another client's":          {cookie: true, known: true, fingerprint: other},
		"no cookie, but others":     {known: true, fingerprint: mine},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				id := bff.NewID(bff.PrefixGuestSession, time.Now())
				l := &ledgerOfSessions{known: map[bff.ID]consumer.GuestSession{}, wished: map[bff.ID]bool{id: tc.kept}}
				if tc.known {
					l.known[id] = consumer.NewGuestSession(id, &consumer.Visit{Fingerprint: mine, Base: mine, Locale: "en", Currency: "USD", At: time.Now()})
				}
				send := anyVisit(t, l, func() *consumer.Visit {
					v := &consumer.Visit{Fingerprint: tc.fingerprint, Base: tc.fingerprint, Locale: "en", Currency: "USD", Address: noAddress{}, At: time.Now()}
					if tc.cookie {
						v.SessionID = id
					}
					if tc.carded {
						v.Card = consumer.CardOf(consumer.NewGuestSession(id, v), v.At)
					}
					return v
				})
				for path, body := range bodies {
					before := l.recorded.Load()
					w := send(http.MethodPost, path, body)
					if w.Code != http.StatusAccepted || w.Header().Get("Set-Cookie") != "" || !strings.Contains(w.Body.String(), `"id":"`) {
						t.Errorf("%s: %d %s %v", path, w.Code, w.Body, w.Header())
					}
					if got := l.recorded.Load() - before; got != tc.wantRecorded {
						t.Errorf("%s: %d events, want %d", path, got, tc.wantRecorded)
					}
				}
				synctest.Wait()
				if n := l.saved.Load(); n != 0 {
					t.Errorf("%d sessions were opened", n)
				}
			})
		})
	}
}

// TestBorrowedCookiesAreRationed: each request with another browser's cookie opens
// a session, and the flood of them becomes no flood of rows.
func TestBorrowedCookiesAreRationed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		mine, other := consumer.Hash{1}, consumer.Hash{2}
		id := bff.NewID(bff.PrefixGuestSession, time.Now())
		l := &ledgerOfSessions{known: map[bff.ID]consumer.GuestSession{
			id: consumer.NewGuestSession(id, &consumer.Visit{Fingerprint: mine, Base: mine, Locale: "en", Currency: "USD", At: time.Now()}),
		}}
		full := false
		send := anyVisit(t, l, func() *consumer.Visit {
			return &consumer.Visit{Fingerprint: other, Base: other, Locale: "en", Currency: "USD", Address: noAddress{}, At: time.Now(), SessionID: id, NoSession: full}
		})
		for range 300 {
			if w := send(http.MethodPost, "/session/locale", `{"locale":"ps-AF"}`); w.Code != http.StatusOK {
				t.Fatalf("%d %s", w.Code, w.Body)
			}
			synctest.Wait() // the bookkeeping after the response
		}
		if n := l.suspects.Load(); n != 50 {
			t.Errorf("%d suspicions in a second, want 50", n)
		}
		full = true // the guard says that the network has opened enough
		saved := l.saved.Load()
		for range 10 {
			if w := send(http.MethodPost, "/session/locale", `{"locale":"ps-AF"}`); w.Code != http.StatusTooManyRequests {
				t.Errorf("beyond the bound of the network: %d %s", w.Code, w.Body)
			}
		}
		if n := l.saved.Load() - saved; n != 0 {
			t.Errorf("%d sessions beyond the bound", n)
		}
	})
}
