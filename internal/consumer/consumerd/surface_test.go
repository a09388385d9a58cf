package consumerd_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"melmastoon.ghasi.io/bff/internal/consumer/consumerhttp"
	"melmastoon.ghasi.io/bff/internal/testkit"
	"melmastoon.ghasi.io/bff/internal/web"
)

// routes are the public routes of the table, by pattern without the base.
func routes() map[string]web.Route {
	out := map[string]web.Route{}
	for _, rt := range consumerhttp.New(consumerhttp.Config{Now: time.Now}).Routes() {
		out[strings.Replace(rt.Pattern, consumerhttp.Base, "", 1)] = rt
	}
	return out
}

// TestRoutesAreDescribed compares the route table with OpenAPI, and that with the
// routes of the TypeScript client.
func TestRoutesAreDescribed(t *testing.T) {
	t.Parallel()
	api := consumerhttp.New(consumerhttp.Config{Now: time.Now})
	var mounted []string
	for _, rt := range slices.Concat(api.Routes(), api.InternalRoutes()) {
		mounted = append(mounted, rt.Pattern)
	}
	var described []string
	for _, op := range testkit.Contract(t).Operations() {
		described = append(described, op.Pattern)
	}
	sorted := func(in []string) []string { return slices.Sorted(slices.Values(in)) }
	if diff := cmp.Diff(sorted(mounted), sorted(described)); diff != "" {
		t.Errorf("routes (-mounted +described in contracts/openapi/consumer.yaml):\n%s", diff)
	}

	testkit.CheckClientRoutes(t, testkit.Contract(t), "../../../clients/typescript/consumer/client.ts", consumerhttp.Base, "Idempotency-Key")
}
