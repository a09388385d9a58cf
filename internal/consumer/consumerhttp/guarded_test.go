package consumerhttp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/challenge"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/consumer/bot"
	"melmastoon.ghasi.io/bff/internal/consumer/consumerguard"
	"melmastoon.ghasi.io/bff/internal/consumer/consumerhttp"
	"melmastoon.ghasi.io/bff/internal/consumer/consumertest"
	guests "melmastoon.ghasi.io/bff/internal/consumer/guest"
	"melmastoon.ghasi.io/bff/internal/ratelimit"
	"melmastoon.ghasi.io/bff/internal/useragent"
	"melmastoon.ghasi.io/bff/internal/web"
)

// noMemory shares nothing between instances.
type noMemory struct{ bot.BotMemory }

func (noMemory) FindReputation(context.Context, uint64) (bot.Reputation, error) {
	return bot.Reputation{}, nil
}

func (noMemory) Penalty(context.Context, consumer.Hash, time.Time) (float64, error) { return 0, nil }
func (noMemory) LogVerdict(context.Context, bot.BotSuspected, *bff.Event) error     { return nil }
func (noMemory) Burn(context.Context, string, time.Duration) (bool, error)          { return true, nil }

// noSessions has none.
type noSessions struct{ guests.Sessions }

func (noSessions) FindSession(context.Context, bff.ID) (consumer.GuestSession, bool, error) {
	return consumer.GuestSession{}, false, nil
}

func (noSessions) FindRefusal(context.Context, bff.ID) (guests.Refusal, error) {
	return guests.Refusal{}, nil
}

func nothing(w http.ResponseWriter, _ *http.Request) error {
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// newGuard returns a guard with the limits of the service.
func newGuard(t *testing.T, change func(*consumerguard.Config)) *consumerguard.Guard {
	t.Helper()
	cfg := consumerguard.Config{
		Clients: consumerguard.Clients{Pepper: []byte("pepper")},
		Limits:  consumerhttp.Limits(), Mode: consumerguard.ModeOn, Policy: bot.DefaultPolicy(), Memory: noMemory{},
		Cards: consumertest.NewCards(1), ChallengePath: consumerhttp.Base + "/challenge", Telemetry: consumer.NewTelemetry("test", nil),
		Ration: bot.NewRation(), Log: slog.New(slog.DiscardHandler), Now: time.Now, Metrics: prometheus.NewRegistry(),
	}
	var err error
	if cfg.UserAgents, err = useragent.New(useragent.Config{}); err != nil {
		t.Fatal(err)
	}
	if cfg.Challenger, err = challenge.New(challenge.Config{Keys: [][]byte{bytes.Repeat([]byte{7}, 32)}, Burner: noMemory{}}); err != nil {
		t.Fatal(err)
	}
	if cfg.Limiter, err = ratelimit.New(ratelimit.Config{
		Limits: cfg.Limits.Limits(), Source: ratelimit.NewMemory(), Pepper: []byte("pepper of sixteen"), Instances: 1,
	}); err != nil {
		t.Fatal(err)
	}
	change(&cfg)
	guard, err := consumerguard.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return guard
}

// TestEveryRouteIsGuarded walks the route table of the service: nothing that is a
// guest's own, changes or reports something is executed for a client judged a bot,
// no public read may cost it an upstream call, and no route takes credentials.
func TestEveryRouteIsGuarded(t *testing.T) {
	t.Parallel()
	background := web.NewBackground(web.BackgroundConfig{})
	t.Cleanup(func() { _ = background.Close(context.Background()) })
	guard := newGuard(t, func(c *consumerguard.Config) {
		c.Policy.Bot, c.Sessions, c.Background, c.Cardless.Always = c.Policy.Suspect, noSessions{}, background, true
	})
	executed := map[string]bool{}
	routes := consumerhttp.New(consumerhttp.Config{Challenge: guard.Challenge, Background: background}).Routes()
	for i := range routes {
		rt := routes[i]
		routes[i].Handle = func(w http.ResponseWriter, r *http.Request) error {
			v, ok := web.From(r.Context()).Local.(*consumer.Visit)
			if !ok {
				t.Errorf("%s: the handler knows nothing of the client", rt.Pattern)
				return nothing(w, r)
			}
			if executed[rt.Pattern] = true; rt.Kind == web.PublicRead && v.CacheOnly {
				return v.Refusal
			}
			return nothing(w, r)
		}
	}
	protected, err := guard.Protect(routes)
	if err != nil {
		t.Fatal(err)
	}
	server := web.NewServer(web.Config{
		Codes: consumerhttp.Codes(),
		Log:   slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(), Namespace: "test",
		Budget: 25 * time.Second,
	})
	if err := server.Mount(protected...); err != nil {
		t.Fatal(err)
	}
	sent := 0
	send := func(rt web.Route, header ...string) (int, bff.Code) {
		method, path, _ := strings.Cut(rt.Pattern, " ")
		r := httptest.NewRequestWithContext(t.Context(), method, strings.ReplaceAll(path, "{propertyId}", "h1"), strings.NewReader("{}"))
		sent++
		r.RemoteAddr = fmt.Sprintf("203.0.113.%d:4711", sent) // a network of its own
		r.Header.Set("Cookie", consumer.SessionCookie+"="+bff.NewID(bff.PrefixGuestSession, time.Now()).String())
		r.Header.Set("Idempotency-Key", rt.Pattern)
		r.Header.Set("Content-Type", "application/json")
		for i := 0; i+1 < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		w := httptest.NewRecorder()
		server.ServeHTTP(w, r)
		body, err := io.ReadAll(w.Body)
		if err != nil {
			t.Fatal(err)
		}
		var doc struct{ Error struct{ Code bff.Code } }
		_ = json.Unmarshal(body, &doc) // other answers have no code
		return w.Code, doc.Error.Code
	}
	for _, rt := range routes {
		if _, code := send(rt, "Authorization", "Bearer stray"); code != bff.CodeSurfaceMismatch || executed[rt.Pattern] {
			t.Errorf("%s with credentials: %s", rt.Pattern, code)
		}
		status, code := send(rt, "User-Agent", "Mozilla/5.0 (X11; Linux x86_64) HeadlessChrome/142.0.0.0 Safari/537.36")
		switch rt.Kind {
		case web.Challenge:
			if !executed[rt.Pattern] {
				t.Errorf("%s for a bot: %d %s", rt.Pattern, status, code)
			}
		default:
			if code != bff.CodeSuspectedBot || rt.Kind != web.PublicRead && executed[rt.Pattern] {
				t.Errorf("%s for a bot: %d %s, executed: %t", rt.Pattern, status, code, executed[rt.Pattern])
			}
		}
		executed[rt.Pattern] = false
		if status, code := send(
			rt, "User-Agent", "Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0", "Accept", "*/*", "Accept-Language", "fa",
		); !executed[rt.Pattern] {
			t.Errorf("%s for a person: %d %s", rt.Pattern, status, code)
		}
	}
}
