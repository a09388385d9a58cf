package backofficed

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

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

// checkWord wants a text in the desk's pages.
func checkWord(t *testing.T, key string) {
	t.Helper()
	const file = "../../../web/messages/desk.json"
	b, err := os.ReadFile(file)
	if err != nil || !bytes.Contains(b, []byte(`"`+key+`":`)) {
		t.Errorf("%s has no %s: %v", file, key, err)
	}
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
			"Roles": rolesOf(a.Roles), "Second factor": factor, "Offline": string(a.Offline), "Topic": strings.TrimPrefix(a.Topic, "melmastoon."),
		}
		if len(a.From) > 0 {
			checkWord(t, "step."+a.Verb())
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
		checkWord(t, "w."+string(w.ID))
	}
	compareRows(t, "staff.md", "Widget", code)
}

// What is served is described, and the other way round.
func TestRoutesAreDescribed(t *testing.T) {
	t.Parallel()
	var described, served []string
	read := map[string]bool{}
	for _, op := range testkit.StaffContract(t).Operations() {
		described = append(described, op.Pattern)
		for _, h := range op.Answers {
			read[http.CanonicalHeaderKey(h)] = true
		}
	}
	api := backofficehttp.New(backofficehttp.Config{Metrics: prometheus.NewRegistry()})
	for _, rt := range api.Routes() {
		if strings.Contains(rt.Pattern, " "+backofficehttp.Bases()[0]) {
			served = append(served, rt.Pattern)
		}
	}
	slices.Sort(described)
	slices.Sort(served)
	if diff := gocmp.Diff(described, served); diff != "" {
		t.Errorf("described (-) and served (+):\n%s", diff)
	}
	testkit.CheckClientRoutes(t, testkit.StaffContract(t), "../../../clients/typescript/backoffice/routes.ts", backofficehttp.Bases()[0], "X-Idempotency-Key",
		"refresh", "stream", "reauth")
	for _, h := range backofficehttp.Headers().Written {
		if !read[http.CanonicalHeaderKey(h)] {
			t.Errorf("header %s is exposed and not described", h)
		}
	}
}
