package backofficed

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficehttp"
	"melmastoon.ghasi.io/bff/internal/backoffice/board"
	"melmastoon.ghasi.io/bff/internal/backoffice/identity"
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

// rolesOf names roles in the order of the list of all; empty and all of them are "all".
func rolesOf(roles []backoffice.Role) string {
	var names []string
	for _, r := range backoffice.Roles() {
		if slices.Contains(roles, r) {
			names = append(names, string(r))
		}
	}
	if len(names) == 0 || len(names) == len(backoffice.Roles()) {
		return "all"
	}
	return strings.Join(names, ", ")
}

// compareRows holds the rows of a document's table, by their first cell, to those of the
// code.
func compareRows(t *testing.T, page, heading string, code map[string]map[string]string) {
	t.Helper()
	specified := map[string]map[string]string{}
	for _, row := range testkit.Table(t, page, heading) {
		name := row[heading]
		if specified[name] != nil {
			t.Errorf("docs/%s has two rows of %s", page, name)
		}
		delete(row, heading)
		specified[name] = row
	}
	if diff := gocmp.Diff(specified, code); diff != "" {
		t.Errorf("(-specified in docs/%s +in the code):\n%s", page, diff)
	}
}

// TestRoutesAreAsSpecified: docs/staff.md says of each route what it is, how often and
// how long it may be asked, and what it needs of its caller.
func TestRoutesAreAsSpecified(t *testing.T) {
	t.Parallel()
	actions := map[string][]backoffice.Role{}
	for _, a := range backoffice.Actions() {
		actions[a.Pattern()] = append(actions[a.Pattern()], a.Roles...)
	}
	code := map[string]map[string]string{}
	for pattern, rt := range routeTable() {
		needs, ok := rt.Needs.(identity.Needs)
		if !ok {
			t.Errorf("%s says nothing of its caller", pattern)
		}
		row := map[string]string{
			"Kind": string(rt.Kind), "Limit": string(rt.Limit), "Gate": string(rt.Gate), "Budget": fmt.Sprintf("%d s", rt.Budget/time.Second),
			"Body": "", "Property": "", "Roles": rolesOf(needs.Roles), "Key": "",
		}
		if rt.Budget%time.Second != 0 {
			row["Budget"] = rt.Budget.String()
		}
		if rt.Body > 0 {
			row["Body"] = fmt.Sprintf("%d KiB", rt.Body>>10)
		}
		switch {
		case needs.Property:
			row["Property"] = "one"
		case needs.OwnProperty:
			row["Property"] = "may name one"
		}
		if needs.ProofOnly {
			row["Roles"] = "a proof alone"
		}
		if roles, ok := actions[pattern]; ok {
			if got, want := rolesOf(needs.Roles), rolesOf(roles); got != want {
				t.Errorf("%s lets %s through, its actions are for %s", pattern, got, want)
			}
			row["Roles"] = "by action"
		}
		if rt.KeepsAnswers {
			row["Key"] = "yes"
		}
		code[pattern] = row
	}
	compareRows(t, "staff.md", "Route", code)
}

// TestActionsAreAsSpecified: docs/staff.md says of each action where it is carried out,
// for which roles and with which second factor, and by which event the service tells it.
func TestActionsAreAsSpecified(t *testing.T) {
	t.Parallel()
	code := map[string]map[string]string{}
	for _, a := range backoffice.Actions() {
		factor := string(a.Scope)
		if a.Large {
			factor += ", large ones"
		}
		code[string(a.Name)] = map[string]string{
			"Request": "POST " + a.Path, "Body": string(a.Body), "Service": string(a.Upstream), "From": strings.Join(a.From, ", "),
			"Roles": rolesOf(a.Roles), "Second factor": factor, "Topic": strings.TrimPrefix(a.Topic, "melmastoon."),
		}
	}
	compareRows(t, "staff.md", "Action", code)
}

// TestWidgetsAreAsSpecified: docs/staff.md says of each widget what it is made of and for
// which roles.
func TestWidgetsAreAsSpecified(t *testing.T) {
	t.Parallel()
	code := map[string]map[string]string{}
	for _, w := range board.Widgets() {
		code[string(w.ID)] = map[string]string{"Source": string(w.From), "Service": string(w.From.Upstream()), "Roles": rolesOf(w.Roles)}
	}
	compareRows(t, "staff.md", "Widget", code)
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
