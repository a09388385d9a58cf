package backoffice

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"melmastoon.ghasi.io/bff"
)

// Every action is declared in full: what is not decided is not let through.
func TestActionsAreDeclared(t *testing.T) {
	t.Parallel()
	seen := map[ActionName]bool{}
	for _, a := range Actions() {
		if seen[a.Name] {
			t.Errorf("%s is there twice", a.Name)
		}
		seen[a.Name] = true
		does, ok := FindReaction(a.Topic)
		switch {
		case len(a.Roles) == 0 || !slices.Contains(a.Roles, GeneralManager) || !slices.Contains(a.Roles, Owner):
			t.Errorf("%s: roles %v", a.Name, a.Roles)
		case a.Category == "" || a.Kind == "" || a.ID == "" || a.Upstream.MutationTimeout() == 0:
			t.Errorf("%s: %+v", a.Name, a)
		case !ok || !slices.Contains(does.Parts, PartDashboard):
			t.Errorf("%s: nothing listens to %s", a.Name, a.Topic)
		case a.Large && a.Scope == "" || (a.Category == categoryFolio) != (a.Scope != ""):
			t.Errorf("%s: second factor %q", a.Name, a.Scope)
		}
	}
	for _, name := range []struct {
		kind        string
		transitions []string
	}{{"task_", TaskTransitions()}, {"work_order_", WorkOrderTransitions()}} {
		for _, transition := range name.transitions {
			if !seen[ActionName(name.kind+transition)] {
				t.Errorf("there is no action for %s%s", name.kind, transition)
			}
		}
	}
}

func TestThresholds(t *testing.T) {
	t.Parallel()
	limits, err := ReadThresholds("AFN=35000, USD=0.50")
	if err != nil {
		t.Fatal(err)
	}
	for money, want := range map[bff.Money]bool{
		{Minor: 3_500_000, Currency: bff.AFN}: false,
		{Minor: 3_500_001, Currency: bff.AFN}: true,
		{Minor: 50, Currency: bff.USD}:        false,
		{Minor: 51, Currency: bff.USD}:        true,
		{Minor: 1, Currency: bff.EUR}:         true,
		{Minor: 1, Currency: "JPY"}:           true,
	} {
		if got := limits.Exceeded(money); got != want {
			t.Errorf("%+v: %v", money, got)
		}
	}
	_, err = ReadThresholds("AFN,JPY=1,USD=-5,EUR=x,GBP=1,GBP=2")
	for _, want := range []string{"AFN", "JPY", "USD", "EUR", "GBP"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is not named: %v", want, err)
		}
	}
}

func TestCutNotes(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]int{"": 0, "abc": 3, strings.Repeat("ü", 200): 200, strings.Repeat("😀", 201): 200} {
		if got := []rune(CutNotes(given)); len(got) != want || !strings.HasPrefix(given, string(got)) {
			t.Errorf("%d code points of %d", len(got), len([]rune(given)))
		}
	}
}

func TestCheckDelta(t *testing.T) {
	t.Parallel()
	for delta, want := range map[string]string{
		`{"ratePercent":4,"days":["2026-11-17",true,null],"room":{"id":"rmt_1"}}`: "",
		`{}`:                          "modifiedDelta",
		`{"a":"Zarghuna Ahmadzai"}`:   "modifiedDelta.a",
		`{"a":{"b":["x","z@y.af"]}}`:  "modifiedDelta.a.b[1]",
		`{"a b":1}`:                   "modifiedDelta",
		`{"a":{"b":{"c":{"d":1}}}}`:   "",
		`{"a":{"b":{"c":{"d":[1]}}}}`: "modifiedDelta",
	} {
		var members map[string]any
		if err := json.Unmarshal([]byte(delta), &members); err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, f := range CheckDelta(members) {
			names = append(names, f.Field)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s: %q, want %q", delta, got, want)
		}
	}
}

// What a suggestion says of itself decides whether it can be decided about, and what is
// kept of its provenance is what a database takes.
func TestSuggestionSays(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 17, 10, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		status, body string
		want         bff.Code
	}{
		{"open", `{"a":1`, ""},
		{"open", `{"expiresAt":"2026-11-17T10:00:01Z"`, ""},
		{"open", `{"expiresAt":"2026-11-17T10:00:00Z"`, bff.CodeStateConflict},
		{"expired", `{`, bff.CodeStateConflict},
		{"accepted", `{`, bff.CodeSuggestionAlreadyDecided},
	} {
		e := InboxEntry{Status: test.status, Body: []byte(test.body)}
		if err := e.decidable(now); (err == nil) != (test.want == "") || err != nil && bff.CodeOf(err) != test.want {
			t.Errorf("%s %s: %v", test.status, test.body, err)
		}
	}
	for body, want := range map[string]string{
		`{"aiProvenance": {"model":"m","score":12345678901234567890}`: `{"model":"m","score":12345678901234567890}`,
		`{"aiProvenance":"m"`:              `{}`,
		`{"x":1`:                           `{}`,
		`{"aiProvenance":{"m":"a\u0000b"}`: `{}`,
		`{"aiProvenance":{"m":"` + strings.Repeat("x", 9000) + `"}`: `{}`,
	} {
		e := InboxEntry{Body: []byte(body)}
		if got := string(e.provenance()); got != want {
			t.Errorf("%.60s: %s", body, got)
		}
	}
	if e := (InboxEntry{Category: "", Severity: "a guest's name"}); e.category() != unspecified || e.severity() != unspecified {
		t.Errorf("%s %s", e.category(), e.severity())
	}
}
