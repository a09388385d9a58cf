package backofficehttp_test

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficehttp"
	"melmastoon.ghasi.io/bff/internal/testkit"
	"melmastoon.ghasi.io/bff/internal/web"
)

// routeTable has the public routes by pattern, without the base.
func routeTable() map[string]web.Route {
	out := map[string]web.Route{}
	for _, rt := range backofficehttp.New(backofficehttp.Config{Metrics: prometheus.NewRegistry()}).Routes() {
		if pattern := strings.Replace(rt.Pattern, " "+backofficehttp.Bases()[0], " ", 1); pattern != rt.Pattern {
			out[pattern] = rt
		}
	}
	return out
}

// TestRequestMembersAreDescribed sends every route a request with all members that OpenAPI
// describes, each of them wrong, and compares with what the handler read: a member that is
// described and not read is as wrong as one that is read and not described. The same holds
// for the words of closed sets.
func TestRequestMembersAreDescribed(t *testing.T) {
	t.Parallel()
	f := newFront(t, frontConfig{limits: "change=100000,step-up=100000,read=100000,device=100000,auth=100000"})
	f.employ("opt_parwana", backoffice.Roles()...)
	f.furnish()
	s := f.sender("opt_parwana")
	described := map[string]testkit.Operation{}
	for _, op := range testkit.StaffContract(t).Operations() {
		described[strings.Replace(op.Pattern, " "+backofficehttp.Bases()[0], " ", 1)] = op
	}
	segments := map[string]string{
		"{deviceId}": s.device.ID(), "{suggestionId}": "sug_2", "{alertId}": "alr_2", "{reservationId}": bff.NewID(bff.PrefixReservation, f.clock()).String(),
		"{taskId}": bff.NewID(backoffice.PrefixTask, f.clock()).String(), "{workOrderId}": bff.NewID(backoffice.PrefixWorkOrder, f.clock()).String(),
		"{folioId}": bff.NewID(bff.PrefixFolio, f.clock()).String(), "{transition}": "start",
	}
	for pattern := range routeTable() {
		if pattern == "POST /auth/sign-out" || pattern == "GET /sse/stream" { // one ends the session, the other does not end; both read nothing
			continue
		}
		op := described[pattern]
		want := slices.Collect(maps.Keys(op.Members))
		query := url.Values{"propertyId": {house}} // which the guard reads
		for _, name := range op.Query {
			if name != "propertyId" {
				want = append(want, name)
				query.Set(name, "\x00")
			}
		}
		method, path, _ := strings.Cut(pattern, " ")
		parts := strings.Split(path, "/")
		for i, part := range parts {
			parts[i] = cmp.Or(segments[part], part)
		}
		body := ""
		if len(op.Members) > 0 {
			b, err := json.Marshal(testkit.WrongBody(op.Members))
			if err != nil {
				t.Fatal(err)
			}
			body = string(b)
		}
		r := s.request(method, base+strings.Join(parts, "/")+"?"+query.Encode(), body)
		if pattern == "POST /auth/refresh" {
			r = s.refreshRequest(body)
		}
		r.header.Set("X-Idempotency-Key", bff.NewID(bff.PrefixRequest, f.clock()).ULID())
		r.header.Set("If-Match", `"1"`)
		var asked testkit.Asked
		w := f.sendWith(web.WithAsked(t.Context(), asked.Add), 0, r)
		if len(want) > 0 && w.Code != http.StatusBadRequest {
			t.Errorf("%s: %d %s, want a refusal of every member", pattern, w.Code, w.Body)
		}
		var read []string
		for _, path := range asked.Paths() {
			path = strings.ReplaceAll(path, "[0]", "[]")
			if free, ok := strings.CutSuffix(path, "*"); ok { // whose members are the client's own
				want = slices.DeleteFunc(want, func(path string) bool { return strings.HasPrefix(path, free) })
			} else {
				read = append(read, path)
			}
		}
		slices.Sort(want)
		if diff := gocmp.Diff(want, read, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: members (-described +read by the handler):\n%s", pattern, diff)
		}
		sets := map[string][]string{}
		for path, words := range op.Members {
			if words != nil {
				sets[path] = words
			}
		}
		taken := asked.Choices()
		maps.DeleteFunc(taken, func(name string, _ []string) bool { return slices.Contains(op.Query, name) }) // TestClosedSets compares those
		if diff := gocmp.Diff(sets, taken, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: closed sets (-described +taken by the handler):\n%s", pattern, diff)
		}
	}
}
