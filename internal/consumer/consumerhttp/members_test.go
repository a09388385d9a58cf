package consumerhttp_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer/consumerhttp"
	"melmastoon.ghasi.io/bff/internal/consumer/consumertest"
	"melmastoon.ghasi.io/bff/internal/testkit"
	"melmastoon.ghasi.io/bff/internal/web"
)

// campaign parameters may stand on any link that leads here; they are read with
// the visitor, not with a route's own parameters.
var campaign = []string{"utm_source", "utm_medium", "utm_campaign"}

// TestRequestMembersAreDescribed sends every route a request with all members
// that OpenAPI describes, each of them wrong, which the answer says, and compares with what the
// handler read: a member that is described and not read is as wrong as one that is read
// and not described, which no generated client would have. The same holds for
// the words of closed sets.
func TestRequestMembersAreDescribed(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	described := map[string]testkit.Operation{}
	for _, op := range testkit.Contract(t).Operations() {
		described[strings.Replace(op.Pattern, consumerhttp.Base, "", 1)] = op
	}
	for pattern := range routes() {
		t.Run(pattern, func(t *testing.T) {
			t.Parallel()
			op := described[pattern]
			want := slices.Collect(maps.Keys(op.Members))
			query := url.Values{}
			for _, name := range op.Query {
				if !slices.Contains(campaign, name) {
					want = append(want, name)
					query.Set(name, "\x00")
				}
			}
			method, path, _ := strings.Cut(pattern, " ")
			path = strings.ReplaceAll(path, "{propertyId}", consumertest.PropertyID(10).String())
			body, err := json.Marshal(testkit.WrongBody(op.Members))
			if err != nil {
				t.Fatal(err)
			}
			var asked testkit.Asked
			r := httptest.NewRequestWithContext(web.WithAsked(t.Context(), asked.Add), method,
				apiBase+path+"?"+query.Encode(), strings.NewReader(string(body)))
			r.Header.Set("Content-Type", "application/json")
			w := httptest.NewRecorder()
			s.server.ServeHTTP(w, r)
			if len(want) > 0 && w.Code != http.StatusBadRequest {
				t.Fatalf("%d: %s, want a refusal of every member", w.Code, w.Body)
			}
			if diff := cmp.Diff(slices.Sorted(slices.Values(want)), asked.Paths(), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("members (-described +read by the handler):\n%s", diff)
			}
			var doc struct {
				Error struct{ Errors []bff.FieldError }
			}
			if err := json.Unmarshal(w.Body.Bytes(), &doc); err != nil && len(want) > 0 {
				t.Fatal(err)
			}
			for _, member := range want {
				member = strings.Replace(member, "*", "any", 1)
				if !slices.ContainsFunc(doc.Error.Errors, func(e bff.FieldError) bool { return strings.HasPrefix(e.Field+".", member+".") }) {
					t.Errorf("%s is wrong, and the answer does not name it: %v", member, doc.Error.Errors)
				}
			}
			taken := asked.Choices()
			if pattern == "POST /search/map" { // it reads a region in order to say that a map has none
				taken["geo.mode"] = slices.DeleteFunc(taken["geo.mode"], func(mode string) bool { return mode == "region" })
			}
			sets := map[string][]string{}
			for path, words := range op.Members {
				if words != nil && !isPlatformSet(words) {
					sets[path] = words
				}
			}
			if diff := cmp.Diff(sets, taken, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("closed sets (-described +taken by the handler):\n%s", diff)
			}
		})
	}
}

// isPlatformSet reports whether the words are the platform's currencies or
// locales, which are read in spellings of their own.
func isPlatformSet(words []string) bool {
	var currencies, locales []string
	for _, c := range bff.Currencies() {
		currencies = append(currencies, string(c))
	}
	for _, l := range bff.Locales() {
		locales = append(locales, string(l))
	}
	return slices.Equal(words, slices.Sorted(slices.Values(currencies))) || slices.Equal(words, slices.Sorted(slices.Values(locales)))
}
