package consumerhttp

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/web"
)

// specified is the API as the specification has it: what each route does, whose
// limit it counts against, and behind which gate it waits.
const specified = `
POST   /search                             public read   search    search
POST   /search/map                         public read   search    search    repeats
GET    /suggest                            public read   search    search    repeats
GET    /facets                             public read   search    search    cdn
GET    /hotels/{propertyId}                public read   detail    hotel     cdn previews
GET    /hotels/{propertyId}/availability   public read   detail    hotel
POST   /handoff                            change        handoff   handoff
GET    /wishlist                           private read  wishlist  handoff
POST   /wishlist                           change        wishlist  handoff
DELETE /wishlist/{propertyId}              change        wishlist  handoff
GET    /session                            private read  session   handoff
POST   /session/locale                     change        session   handoff
POST   /session/currency                   change        session   handoff
POST   /session/consent                    change        session   handoff
POST   /session/clear                      change        session   handoff
POST   /telemetry/click                    telemetry     telemetry telemetry
POST   /telemetry/page-view                telemetry     telemetry telemetry
POST   /telemetry/funnel                   telemetry     telemetry telemetry
GET    /challenge                          challenge     session   search
`

func TestRoutesAreAsSpecified(t *testing.T) {
	t.Parallel()
	var got strings.Builder
	got.WriteByte('\n')
	for _, rt := range New(Config{Now: time.Now}).Routes() {
		method, path, _ := strings.Cut(rt.Pattern, " ")
		row := fmt.Sprintf("%-6s %-35s %-13s %-9s %-9s", method, strings.TrimPrefix(path, Base), rt.Kind, rt.Limit, rt.Gate)
		for _, flag := range []struct {
			set  bool
			name string
		}{{rt.Repeats, "repeats"}, {rt.CDN, "cdn"}, {rt.Previews, "previews"}} {
			if flag.set {
				row += " " + flag.name
			}
		}
		got.WriteString(strings.TrimRight(row, " ") + "\n")
	}
	if diff := cmp.Diff(specified, got.String()); diff != "" {
		t.Errorf("routes (-specified +served):\n%s", diff)
	}
}

// TestClassesAndRoutes: every class of the limits and every gate has a route, and
// every route one of them.
func TestClassesAndRoutes(t *testing.T) {
	t.Parallel()
	limits, gates := map[string]bool{}, map[string]bool{}
	for _, rt := range New(Config{Now: time.Now}).Routes() {
		limits[string(rt.Limit)], gates[string(rt.Gate)] = true, true
	}
	wantLimits, wantGates := map[string]bool{}, map[string]bool{}
	for class := range DefaultLimits().PerMinute {
		wantLimits[string(class)] = true
	}
	for _, g := range Gates() {
		wantGates[g.Name] = true
	}
	if diff := cmp.Diff(wantLimits, limits); diff != "" {
		t.Errorf("limit classes (-configured +used by routes):\n%s", diff)
	}
	if diff := cmp.Diff(wantGates, gates); diff != "" {
		t.Errorf("gates (-configured +used by routes):\n%s", diff)
	}
}

// TestNewRoute: a route that is not classified does not start, and one that
// changes something is not executed for a client judged a bot.
func TestNewRoute(t *testing.T) {
	t.Parallel()
	gift := web.Route{Pattern: "POST " + Base + "/gift", Budget: time.Second, Body: web.NoBody, Limit: LimitWishlist, Gate: gateHandoff}
	synctest.Test(t, func(t *testing.T) {
		change := gift
		change.Kind = web.Change
		a := newArena(t, func(c *DefenceConfig) { c.Policy.Bot = c.Policy.Suspect }, change)
		unclassified := gift
		unclassified.Handle = a.answer(gift)
		if err := a.server.Mount(unclassified); err == nil || !strings.Contains(err.Error(), "kind") {
			t.Errorf("without a kind: %v", err)
		}
		unclassified.Kind, unclassified.Limit = web.Change, "gift"
		if _, err := a.api.defended(unclassified); err == nil || !strings.Contains(err.Error(), `"gift"`) {
			t.Errorf("with a limit that there is not: %v", err)
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

// TestEveryChangeIsRefusedToBots walks the table: nothing that changes or reports
// something is executed for a client judged a bot, and nothing public or private
// that would cost an upstream call.
func TestEveryChangeIsRefusedToBots(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newArena(t, func(c *DefenceConfig) { c.Policy.Bot = c.Policy.Suspect })
		for _, rt := range a.api.Routes() {
			method, path, _ := strings.Cut(rt.Pattern, " ")
			path = strings.ReplaceAll(strings.TrimPrefix(path, Base), "{propertyId}", "h1")
			got := a.send(method, path, "{}", home, headlessHeaders("Cookie", a.cookie(), "Idempotency-Key", rt.Pattern))
			executed := slices.Contains([]web.Kind{web.PrivateRead, web.Change, web.Telemetry}, rt.Kind) && a.served[rt.Pattern] > 0
			if refused := got.code == bff.CodeSuspectedBot; executed || refused == (rt.Kind == web.Challenge) {
				t.Errorf("%s: %d %s, executed: %t", rt.Pattern, got.status, got.code, executed)
			}
		}
		if a.fills != 0 {
			t.Errorf("%d calls of upstreams", a.fills)
		}
	})
}
