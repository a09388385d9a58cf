package consumerhttp

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
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
POST   /handoff                            change        handoff   handoff   keeps-answers
GET    /wishlist                           private read  wishlist  handoff
POST   /wishlist                           change        wishlist  handoff   keeps-answers
DELETE /wishlist/{propertyId}              change        wishlist  handoff   keeps-answers
GET    /session                            private read  session   handoff
POST   /session/locale                     change        session   handoff
POST   /session/currency                   change        session   handoff
POST   /session/consent                    change        session   handoff
POST   /session/clear                      change        session   handoff
POST   /telemetry/click                    telemetry     telemetry telemetry
POST   /telemetry/page-view                telemetry     telemetry telemetry
POST   /telemetry/funnel                   telemetry     telemetry telemetry
GET    /challenge                          challenge     challenge search
`

func TestRoutesAreAsSpecified(t *testing.T) {
	t.Parallel()
	var got strings.Builder
	got.WriteByte('\n')
	for _, rt := range New(Config{}).Routes() {
		method, path, _ := strings.Cut(rt.Pattern, " ")
		row := fmt.Sprintf("%-6s %-35s %-13s %-9s %-9s", method, strings.TrimPrefix(path, Base), rt.Kind, rt.Limit, rt.Gate)
		for _, flag := range []struct {
			set  bool
			name string
		}{{rt.Repeats, "repeats"}, {rt.CDN, "cdn"}, {rt.Previews, "previews"}, {rt.KeepsAnswers, "keeps-answers"}} {
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
	for _, rt := range New(Config{}).Routes() {
		limits[string(rt.Limit)], gates[string(rt.Gate)] = true, true
	}
	wantLimits, wantGates := map[string]bool{}, map[string]bool{}
	for class := range Limits().PerMinute {
		wantLimits[class] = true
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
